/* emit.h - from a kernel's tree to code: an object file through LLVM, or C99 text, or the text of a
 * language of devices with work groups (see emit/clike/workgroup.c below).
 *
 * The first two give the same function; what a launch must know besides, how many items there are
 * and how large each argument must be, is a few expressions over the dimension variables, which
 * need no code of their own (emit_facts).
 *
 *   kernel(args, vars, scratch, begin, end)   runs the work items [begin, end), which is not empty.
 *       args[i] points to argument i, vars[i] is the value of dim_var[i], behind these come the
 *       parameters' (scalar_to_word); scratch has
 *       emit_facts.scratch bytes, 64-byte aligned, of this call alone. Items are the trips of all
 *       root PAR loops, concatenated; a root that is no PAR loop is one item, and a kernel without
 *       PAR loops is one item as a whole. Items may run in any order and at the same time.
 *
 * The tree is a checked one (ir_check), with the transcendental operations expanded. Arguments
 * that the kernel writes overlap no other argument.
 *
 * An emitter adds expressions and symbols to the kernel's stores, and never changes a statement. */
#ifndef QN_EMIT_H
#define QN_EMIT_H

#include "base/base.h"
#include "ir/ir.h"

#define EMIT_KERNEL "kernel"
enum { EMIT_NAME = 24 };
/* An object may hold several kernels; the functions of those after the first have its number behind
 * the name. */
void emit_name(int i, char name[EMIT_NAME]);
typedef void (*emit_kernel)(void *const *args, const int64_t *vars, void *scratch, int64_t begin,
                            int64_t end);

/* ---- launch.c: what both emitters need to know about the whole kernel ------------------------ */

typedef struct emit_launch {
    bool parallel;        /* some root is a PAR loop: roots have items, one behind the other */
    const bool *in_first; /* by stmt_id: a root without items, which runs in the first one */
    sym items, work;
    int64_t scratch;       /* bytes */
    const int64_t *offset; /* of each LOCAL tile in scratch; by mem_id */
    const stmt_id *def;    /* each tile's DEF; by mem_id */
} emit_launch;
void emit_launch_of(kernel *k, arena *a, emit_launch *out); /* raises */
sym emit_root_items(const kernel *k, const emit_launch *l, stmt_id root);
bool emit_is_par(const kernel *k, stmt_id s); /* a PAR loop */

/* The numbers of a launch. EMIT_WORK: scalar operations of all of it, roughly. From EMIT_SIZES on:
 * bytes that each argument must have at least. */
enum { EMIT_ITEMS, EMIT_WORK, EMIT_SIZES };

/* The kernel's facts in a store of their own, so that they outlive it. Without dimension variables
 * the numbers are there from the beginning. */
typedef struct emit_facts {
    heap *h;
    sym_store *syms; /* NULL: without variables */
    int vars, numbers;
    int64_t scratch; /* bytes for each thread */
    sym *var;        /* the kernel's dim_var, with their bounds */
    sym *fact;       /* of each number */
    int64_t *number; /* as of the last emit_facts_at, */
    int64_t *at;     /* which was for these values, */
    bool *asked;     /* as far as some number depends on them, */
    bool known;      /* and gave a value for each */
    size_t size;     /* of this block */
} emit_facts;
emit_facts *emit_facts_open(kernel *k); /* raises */
void emit_facts_close(emit_facts *f);   /* NULL is fine */
/* Evaluate the numbers for values of the variables; allocates nothing. false: one has no value. */
bool emit_facts_at(emit_facts *f, const int64_t *value);

/* ---- isa.c ----------------------------------------------------------------------------------- */

/* The instructions that kernels may use. */
typedef struct emit_isa {
    const char *cpu; /* the level that knob isa gives, as LLVM and C compilers call it; NULL: all */
    bool sse41, avx2, fma, f16c;
    bool avx512;     /* vectors of 512 bits, all lane sizes, short ones, too */
    bool vnni, bf16; /* dot instructions; */
    bool slow_bf16;  /* of bf16 no sooner done than multiply-adds */
} emit_isa;
/* What the processor has, up to the level that `limit` names ("": all of it). false, with the
 * reason in `why`: there is no such level. */
bool emit_isa_of(const char *limit, emit_isa *out, str *why);
int emit_isa_bytes(const emit_isa *isa); /* of a vector register */
void emit_isa_tell(const emit_isa *isa, str *out);

/* ---- llvm_*.c -------------------------------------------------------------------------------- */

typedef struct emit_llvm emit_llvm;
/* The libLLVM that knob llvm asks for is loaded when the first one is opened and stays loaded.
 * NULL, with the reason in `why`: there is none of a version we can use, or no such target. Raises
 * only QN_ENOMEM. */
emit_llvm *emit_llvm_open(qn_ctx *qn, const emit_isa *isa, str *why);
const char *emit_llvm_file(const emit_llvm *e);    /* the library it was loaded from */
void emit_llvm_tell(const emit_llvm *e, str *out); /* which, and why none of the newer ones */
void emit_llvm_close(emit_llvm *e);                /* NULL is fine */
/* An object for this machine's processor in steps, so that the long one can run on several threads.
 * `begin` opens one, `add` reads a kernel into it and gives its number there, both raise; `run`
 * uses nothing of the context's and may run on any thread, as long as no other uses the same lane
 * (below EMIT_LANES) then; `end` appends the object's bytes to `out`, or raises. `drop` frees the
 * unit in any state. What a kernel's code is does not depend on what else is in the unit. */
enum { EMIT_LANES = 64 };
typedef struct emit_unit emit_unit;
emit_unit *emit_llvm_begin(emit_llvm *e);
int emit_llvm_add(emit_unit *u, kernel *k);
void emit_llvm_run(emit_unit *u, int lane);
void emit_llvm_end(emit_unit *u, str *out);
void emit_llvm_text(emit_unit *u, str *out); /* LLVM's textual IR, before `run`; raises */
void emit_llvm_drop(emit_unit *u);           /* NULL is fine */

/* ---- clike.c --------------------------------------------------------------------------------- */

/* One translation unit of them all; each function has its kernel's number (emit_name). Raises. */
void emit_c99(int n, kernel *const *k, str *out);

/* ---- emit/clike/workgroup.c ------------------------------------------------------------------ */

/* A kernel whose barriers are placed, as OpenCL C; raises. The function is called
 * EMIT_GROUP_KERNEL. Its parameters are, of each argument, the buffer and the element where the
 * slice begins (an int64_t), then the values of dim_var and of parameters; it is launched with as
 * many groups as there are items and always ir_members() in each. */
#define EMIT_GROUP_KERNEL "quern"
void emit_opencl(kernel *k, str *out);
bool emit_uses_double(const str *text);

#endif
