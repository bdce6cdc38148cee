/* cpu.h - the CPU device's own parts: cpu.c runs programs, the others make or find objects. */
#ifndef QN_CPU_H
#define QN_CPU_H

#include "dev/cpu/code.h"
#include "dev/dev.h"
#include "emit/emit.h"

/* A folder of compiled objects; see cache.c. */
typedef struct cpu_cache {
    int folder;    /* held open while `on` */
    bool on;       /* there is one, and it can be trusted */
    bool tidied;   /* this process has looked whether to tidy it */
    uint64_t knob; /* hash of the knob's text it was opened for */
} cpu_cache;

/* A set of a launch that is to run. */
typedef struct cpu_task {
    emit_kernel run;
    void **pointer; /* its arguments */
    const int64_t *vars;
    int64_t items;
    double begin, work; /* within the line's */
} cpu_task;
enum { CPU_TASKS = 128 };

typedef struct cpu {
    qn_ctx *ctx; /* first: dev_host_* look for it here */
    pool *pool;
    code_store code;
    uint8_t *scratch;
    size_t scratch_each; /* bytes for one thread */
    /* what runs together: the line, see cpu.c */
    cpu_task task[CPU_TASKS];
    int tasks, pieces;
    bool spread;         /* the last line ran on several threads */
    int64_t shared_work; /* scalar operations in the time of a fork and a join: fewer are done
                            sooner than a second thread is at work */
    int64_t spread_work; /* fewer behind others stay where these were done */
    int64_t piece_part;  /* of shared_work, one part of so many: the least piece */
    double work;
    void **pointer;
    size_t pointers, line; /* room; taken */
    bool chosen;           /* how objects are made is known: by llvm, or if that is NULL, by cc */
    bool by_cc;            /* by cc, which is told that arguments do not overlap */
    emit_llvm *llvm;
    emit_isa isa; /* what kernels may use */
    cpu_cache cache;
    str here;               /* keys: processor and library; empty before a cache is on */
    str no_llvm;            /* why there is none */
    str compiler;           /* keys: the compiler, as far as it is known */
    str record_key, record; /* which libLLVM the cache says was found last */
} cpu;

/* ---- system.c -------------------------------------------------------------------------------- */

/* Take the caches, lines and pages that the system says of. */
void cpu_ask_system(machine *m);

/* ---- compile.c ------------------------------------------------------------------------------- */

/* Find out how objects are made here; false with the reason in `why`. */
bool cpu_choose_compiler(cpu *c, str *why);
void cpu_tell_compiler(cpu *c, str *out); /* which it is, and why no other; raises */
/* One kernel on its way to an object. The caller gives `k` and opens and frees the strings. */
typedef struct cpu_unit {
    kernel *k;
    str key, text;
    str object;              /* empty while the unit is not its own holder */
    struct cpu_unit *holder; /* whose object its code is in */
    int function;            /* which of that object's it is (emit_name) */
    emit_unit *llvm;         /* a holder's, under way */
    qn_code code;            /* QN_OK; or there is none, and `text` says why */
    bool cached;             /* the object came from the disk cache */
    double seconds;          /* spent on it */
} cpu_unit;
/* Make or find every unit's object, on all threads at once. What the C compiler refuses has a code,
 * and the others their objects. Raises. */
void cpu_compile(cpu *c, int n, cpu_unit *unit);
QN_NORETURN void cpu_raise(const cpu *c, const cpu_unit *u); /* why it has none */

/* ---- key.c: all raise ------------------------------------------------------------------------ */

int cpu_dots(const cpu *c);  /* which of ir_dots are sooner done than multiply-adds: bits */
void cpu_key_name(str *key); /* the processor's name and a line's end */
void cpu_key_processor(const cpu *c, str *key); /* its name, and what tells it from others */
void cpu_key_here(const cpu *c, str *key);
void cpu_key_llvm(const char *file, str *compiler); /* replaces the text, as the next */
void cpu_key_cc(qn_ctx *qn, const char *file, str *compiler);
/* Set the compiler's key to that of the libLLVM found last; false: it is to be looked for. */
bool cpu_key_recall(cpu *c);
void cpu_key_record(cpu *c, bool found); /* it was looked for: the compiler's key, or none */

/* ---- cc.c ------------------------------------------------------------------------------------ */

enum { CPU_PATH = 1024 };
bool cpu_cc_find(qn_ctx *qn, char file[CPU_PATH]); /* is the program of knob cc there, and where? */
/* A text on its way to an object. */
typedef struct cpu_cc_job {
    const str *text;
    str *object;   /* appended to */
    bool unrolled; /* its loops are */
    bool library;  /* not an object is made but a library, which may call others: */
    void *loaded;  /* dlopen gave it; the caller closes it */
    qn_code code;  /* QN_OK; or it failed, */
    char why[400]; /* because */
    double seconds;
} cpu_cc_job;
/* Compile all, up to `side` at a time. Raises only QN_ENOMEM. */
void cpu_cc_compile(qn_ctx *qn, const emit_isa *isa, int n, cpu_cc_job *job, int side);

/* ---- disassemble.c --------------------------------------------------------------------------- */

void cpu_disassemble(cpu *c, const void *code, size_t size, str *out); /* raises */

/* ---- cache.c --------------------------------------------------------------------------------- */

void cpu_cache_open(qn_ctx *qn, cpu_cache *c);     /* as knob cache says; or it is not on */
bool cpu_cache_is(qn_ctx *qn, const cpu_cache *c); /* is it still what the knob says? */
void cpu_cache_close(cpu_cache *c);
/* Append the object kept under a key, and say which of its functions the key's is; false: there is
 * none that can be trusted. Raises only QN_ENOMEM. */
bool cpu_cache_get(qn_ctx *qn, const cpu_cache *c, const str *key, str *object, int *function);
void cpu_cache_put(qn_ctx *qn, cpu_cache *c, const str *key, const str *object, int function);

/* ---- tidy.c ---------------------------------------------------------------------------------- */

void cpu_cache_tidy(qn_ctx *qn, cpu_cache *c); /* if it is time */

#endif
