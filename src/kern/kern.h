/* kern.h - one kernel as a loop tree, and everything that reads or changes it.
 *
 * A kernel is a tree of statements (imperfect nests allowed) over memories:
 *   memories    arguments (buffers given at launch) and tiles (values living at a scope: REG
 * registers, LOCAL per-thread scratch). A memory is a flat array; all indices are flat element
 *               offsets, in sym's normal form over loop variables and the kernel's dimension
 * variables. statements  LOOP  body once for each value of its variable in [0, extent) DEF   start
 * of a tile's life: every element becomes `value` (0 expression: undefined) STORE mem[index] =
 * combine(mem[index], value) by a monoid; SET just stores. With several components all values are
 * computed before any is written. `valid` (sym truth) and `guard` (bool expression) switch it off;
 * dyn (i64 expression) is added to index. expressions hash-consed scalar DAGs, by the meaning of
 * one index point. Operations are graph/ops.h's ELEM rows. A LOAD whose valid/guard is false gives
 * 0 and touches no memory. A LOAD of a tile reads what is there when the statement runs; so does
 * one of an argument that is also stored to (in place), and an expression id therefore names a
 * formula, not a value. Loop kinds say how a loop runs, never what it computes: SERIAL; PAR the
 * launch's work items (a root loop only; all PAR roots' ranges are concatenated); VEC all values of
 * the variable at once, as lanes of vectors; extent <= its constant upper bound = the lane count, a
 * non-constant extent masks the tail; UNROLL body repeated with constants. At most one VEC loop on
 * a path. A REG tile's indices must, with UNROLL variables as constants, be constant + (VEC
 * variable or nothing): it lives in registers. What depends on the VEC variable is a vector, all
 * else is scalar; nothing is exploded and re-packed. A STORE by a monoid whose index does not
 * depend on the VEC variable while its value does is a horizontal reduction.
 *
 * Nothing here knows a machine but model.c, which reads the device's limits. Everything of a
 * kernel lives in one arena; ids are dense; id 0 is "none". Errors raise. */
#ifndef QN_KERN_H
#define QN_KERN_H

#include "base/base.h"
#include "graph/graph.h"
#include "graph/sym.h"

#define KERN_STATES 2 /* components a monoid's state can have */

typedef uint32_t kexpr;
typedef uint32_t kmem;
typedef uint32_t kstmt;

typedef enum kern_scope { KERN_ARG, KERN_LOCAL, KERN_REG } kern_scope;
typedef enum kern_access { KERN_READ = 1, KERN_WRITE = 2 } kern_access;

typedef struct kern_memory {
    uint8_t scope;  /* kern_scope */
    uint8_t access; /* of arguments: kern_access bits */
    uint8_t dtype;  /* qn_dtype */
    sym size;       /* elements */
    int arg;        /* position among the launch's buffers, for KERN_ARG */
} kern_memory;

typedef enum kern_expr_kind { KE_NONE, KE_CONST, KE_INDEX, KE_LOAD, KE_OP } kern_expr_kind;

typedef struct kern_expr {
    uint8_t kind, op, dtype; /* op of KE_OP: graph op; dtype: of the result */
    uint8_t n;               /* arguments of KE_OP */
    union {
        uint64_t bits; /* KE_CONST: the value in its dtype's bit pattern, zero-extended */
        sym index;     /* KE_INDEX: this integer, dtype I64 */
        kexpr arg[3];  /* KE_OP */
        struct {       /* KE_LOAD */
            kmem mem;
            sym index, valid;
            kexpr dyn, guard;
        } load;
    };
} kern_expr;

typedef enum kern_stmt_kind { KS_NONE, KS_LOOP, KS_DEF, KS_STORE } kern_stmt_kind;
typedef enum kern_loop_kind { KERN_SERIAL, KERN_PAR, KERN_VEC, KERN_UNROLL } kern_loop_kind;

typedef struct kern_stmt {
    uint8_t kind;
    uint8_t loop;                          /* LOOP: kern_loop_kind */
    uint8_t monoid;                        /* STORE */
    uint8_t n;                             /* STORE: components */
    kstmt parent, next, prev, first, last; /* tree; first/last: children of a LOOP */
    union {
        struct {
            sym var, extent; /* extent may use outer variables; may be 0 */
        } l;
        struct {
            kmem mem;
            kexpr value;
        } def;
        struct {
            kmem mem[KERN_STATES];
            kexpr value[KERN_STATES];
            sym index, valid;
            kexpr dyn, guard;
        } store;
    };
} kern_stmt;

typedef struct kern {
    qn_ctx *ctx;
    arena arena;
    sym_store *syms;
    const char *name; /* for traces: what it computes, e.g. "max.exp.sum.div_4096x4096" */
    kern_memory *mem;
    kern_expr *expr;
    kern_stmt *stmt;
    uint32_t mems, mem_cap, exprs, expr_cap, stmts, stmt_cap;
    idset expr_set;
    sym *dim_var; /* the dimension variables bound at launch, in order */
    int dim_vars;
    int args;       /* buffers a launch gives */
    kstmt root;     /* a LOOP of extent 1 and no variable whose children are the top statements */
    uint32_t names; /* counter for fresh loop names */
} kern;

/* ---- tree.c: making and walking ------------------------------------------------------------- */

kern *kern_open(qn_ctx *qn); /* raises */
void kern_close(kern *k);    /* NULL is fine */
kern *kern_clone(const kern *k);

sym kern_dim_var(kern *k, const char *name, int64_t lo, int64_t hi);
kmem kern_arg(kern *k, qn_dtype dtype, sym size, int access); /* arg numbers follow the calls */
kmem kern_tile(kern *k, kern_scope scope, qn_dtype dtype, sym size);

/* Expressions, simplified by constant folding (node fold rules are the graph's; here only what
 * substitution uncovers: constants, x+0 of integers, where(const)). All ops take equal dtypes as
 * their row's TYPES says. */
kexpr kern_const_f(kern *k, qn_dtype dtype, double value);
kexpr kern_const_i(kern *k, qn_dtype dtype, int64_t value);
kexpr kern_const_bits(kern *k, qn_dtype dtype, uint64_t bits);
kexpr kern_index(kern *k, sym value);
kexpr kern_load(kern *k, kmem mem, sym index, sym valid, kexpr dyn, kexpr guard);
kexpr kern_op(kern *k, int op, qn_dtype dtype, int n, const kexpr *arg); /* dtype of the result */
kexpr kern_op1(kern *k, int op, kexpr a); /* result dtype by the row's TYPES */
kexpr kern_op2(kern *k, int op, kexpr a, kexpr b);
kexpr kern_op3(kern *k, int op, kexpr a, kexpr b, kexpr c);
kexpr kern_cast(kern *k, qn_dtype dtype, kexpr a); /* a itself when it has that dtype */
kexpr kern_identity(kern *k, int monoid, int component, qn_dtype dtype);
/* out = combine(a, b), each with monoid_states(monoid) components. */
void kern_combine(kern *k, int monoid, const kexpr *a, const kexpr *b, kexpr *out);
static inline kern_expr *kern_e(const kern *k, kexpr e) {
    return &k->expr[e];
}
static inline kern_stmt *kern_s(const kern *k, kstmt s) {
    return &k->stmt[s];
}
static inline kern_memory *kern_m(const kern *k, kmem m) {
    return &k->mem[m];
}

/* Statements are appended to `parent` (0: the root). */
kstmt kern_loop(kern *k, kstmt parent, kern_loop_kind kind, const char *name, sym extent);
kstmt kern_def(kern *k, kstmt parent, kmem tile, kexpr value);
kstmt kern_store(kern *k, kstmt parent, int monoid, kmem mem, sym index, sym valid, kexpr value);
kstmt kern_store_n(kern *k, kstmt parent, const kern_stmt *store); /* the general form */
kstmt kern_find_loop(const kern *k, const char *name);             /* by variable name; 0: none */
void kern_unlink(kern *k, kstmt s);
void kern_insert(kern *k, kstmt s, kstmt parent, kstmt before); /* before 0: at the end */
kstmt kern_copy(kern *k, kstmt s); /* deep copy, unlinked; loops keep their variables */
/* Rewrite every sym (indices, validity, extents) and expression below s by var := value. */
void kern_subst(kern *k, kstmt s, int n, const sym *var, const sym *value);
kexpr kern_subst_expr(kern *k, kexpr e, int n, const sym *var, const sym *value);
bool kern_expr_uses(const kern *k, kexpr e, sym var); /* through its syms */
bool kern_expr_reads(const kern *k, kexpr e, kmem mem);

/* ---- check.c --------------------------------------------------------------------------------- */

/* Everything the essay promises, and that every access provably or by its validity lies inside its
 * memory. Returns false with the reason in `why` (may be NULL). Runs between passes under QN_CHECK.
 */
bool kern_check(const kern *k, str *why);

/* ---- text.c ---------------------------------------------------------------------------------- */

void kern_print(const kern *k, str *out);       /* parses back to the same print */
kern *kern_parse(qn_ctx *qn, const char *text); /* NULL with an error: line and what was expected */

/* ---- transform_*.c: rows in transforms.h -------------------------------------------------------
 * Each is legal or refused (false, nothing changed, reason in why), each keeps the result (floating
 * sums may be reassociated). A schedule is a list of them as text, one a line:
 *   split i0 16 -> i0o i0i     i0 = 16*i0o + i0i; a non-dividing factor gives the inner loop the
 *                              extent min(16, n - 16*i0o)
 *   merge i0 i1 -> i01         perfectly nested; i0 = i01/n1, i1 = i01 - n1*(i01/n1)
 *   swap i0 i1                 exchange perfectly nested loops (the inner's extent is free of i0)
 *   pad i0 16                  extent up to a multiple; stores and monoid updates guarded, loads
 * made safe peel i0                    the trips with full inner extents, then the rest, as two
 * loops vec i0 / unroll i0 / par i0 / serial i0 tile t0 i0                 accumulator t0, defined
 * inside i0's nest, grows by the loops between: for i {for j {def t; for k {t += ..}; store f(t)}}
 * becomes def t[j]; for k {for j t[j] += ..}; for j store f(t[j]) multi_step t0 r0 reduction loop
 * r0 accumulates into its own element of a wider tile, combined afterwards by the monoid (vector
 * lanes, unrolled chains) stage a0 i0 j1 j2 [local]  at the top of i0's body copy what loops j1 j2
 * (inside i0) will load from a0 into a tile indexed by (j1, j2) in that order, and load from it
 *                              (packing, im2col, transposition)  */
bool kern_transform(kern *k, const char *line, str *why);
int kern_schedule(kern *k, const char *text,
                  str *why); /* lines applied, or -1 - (line that was refused) */
bool kern_split(kern *k, kstmt loop, int64_t factor, const char *outer, const char *inner,
                str *why);
bool kern_merge(kern *k, kstmt outer, kstmt inner, const char *name, str *why);
bool kern_swap(kern *k, kstmt outer, kstmt inner, str *why);
bool kern_pad(kern *k, kstmt loop, int64_t multiple, str *why);
bool kern_peel(kern *k, kstmt loop, str *why);
bool kern_bind(kern *k, kstmt loop, kern_loop_kind kind, str *why);
bool kern_tile_out(kern *k, kmem tile, kstmt loop, str *why);
bool kern_multi_step(kern *k, kmem tile, kstmt loop, str *why);
bool kern_stage(kern *k, kmem arg, kstmt at, int n, const kstmt *loops, kern_scope scope, str *why);

/* ---- passes.c ---------------------------------------------------------------------------------
 */

/* After scheduling: the readable list of everything done to a kernel before it is emitted.
 * expand_math replaces transcendental ops by polynomials (emit/math.c registers nothing: it is a
 * function in kern's room so that every emitter agrees). QN_DEBUG=k prints the kernel after each.
 */
void kern_passes(kern *k);
void kern_expand_math(kern *k); /* math.c */
kexpr kern_expand_op(kern *k, int op, qn_dtype dtype,
                     const kexpr *arg); /* math.c; 0: op is native */

/* ---- model.c ----------------------------------------------------------------------------------
 */

/* What a device tells the scheduler. */
typedef struct kern_limits {
    int vector_bytes;   /* width of a vector register, e.g. 64 */
    int registers;      /* vector registers */
    int64_t l1, l2, l3; /* bytes; 0 when unknown */
    int threads;
} kern_limits;

/* The default schedule for a lowered kernel, appended to `out` as transform lines. */
void kern_default_schedule(const kern *k, const kern_limits *limits, str *out);

#endif
