/* math_eval.h - runs one kernel expression over arrays, operation by operation, in the machine's
 * own arithmetic of each dtype: the meaning that ops.h gives the native operations and every
 * emitter has to reproduce. It knows only those: an expression with a function is refused.
 *
 * Expressions are evaluated in blocks, in id order (arguments come first), each into its own
 * column. LOADs are the inputs: the memory's argument number says which array. TABLEs are looked
 * up. */
#ifndef QN_MATH_EVAL_H
#define QN_MATH_EVAL_H
#include "ir/ir.h"
#include "test.h"

#define EVAL_BLOCK 512

typedef struct eval_program {
    const kernel *k;
    int n;
    expr_id *order; /* what the root is made of, in id order */
    void **column;  /* by expression id */
} eval_program;

static inline void eval_mark(const kernel *k, expr_id e, bool *wanted) {
    if (wanted[e]) return;
    wanted[e] = true;
    ir_expr *x = ir_e(k, e);
    expr_id *slot[3];
    int args = x->kind == EXPR_LOAD ? 0 : ir_expr_args(x, slot);
    for (int i = 0; i < args; i++) eval_mark(k, *slot[i], wanted);
}

static inline eval_program eval_open(const kernel *k, expr_id root) {
    eval_program p = {.k = k};
    bool *wanted = calloc(k->exprs, 1);
    p.order = malloc(k->exprs * sizeof *p.order);
    p.column = calloc(k->exprs, sizeof *p.column);
    eval_mark(k, root, wanted);
    for (expr_id e = 1; e < k->exprs; e++) {
        if (!wanted[e]) continue;
        p.order[p.n++] = e;
        p.column[e] = aligned_alloc(64, EVAL_BLOCK * 8);
    }
    free(wanted);
    return p;
}

static inline void eval_close(eval_program *p) {
    for (int i = 0; i < p->n; i++) free(p->column[p->order[i]]);
    free(p->order);
    free(p->column);
}

#define EVAL_EACH(R, A, expr)                                                                      \
    do {                                                                                           \
        R *r_ = r;                                                                                 \
        const A *x_ = x[0], *y_ = x[1];                                                            \
        for (int i = 0; i < n; i++) {                                                              \
            A a = x_[i], b = y_[i];                                                                \
            (void)b;                                                                               \
            r_[i] = (R)(expr);                                                                     \
        }                                                                                          \
        return true;                                                                               \
    } while (0)

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void eval_fma_fast(int n, bool f32, void *r, void **x) {
    for (int i = 0; i < n; i++)
        if (f32)
            ((float *)r)[i] =
                __builtin_fmaf(((float *)x[0])[i], ((float *)x[1])[i], ((float *)x[2])[i]);
        else
            ((double *)r)[i] =
                __builtin_fma(((double *)x[0])[i], ((double *)x[1])[i], ((double *)x[2])[i]);
}
#endif

static inline bool eval_fma(int n, bool f32, void *r, void **x) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
        eval_fma_fast(n, f32, r, x);
        return true;
    }
#endif
    for (int i = 0; i < n; i++)
        if (f32)
            ((float *)r)[i] = fmaf(((float *)x[0])[i], ((float *)x[1])[i], ((float *)x[2])[i]);
        else
            ((double *)r)[i] = fma(((double *)x[0])[i], ((double *)x[1])[i], ((double *)x[2])[i]);
    return true;
}

#define EVAL_FLOAT(T, F)                                                                           \
    switch (op) {                                                                                  \
    case OP_NEG:                                                                                   \
        EVAL_EACH(T, T, -a);                                                                       \
    case OP_ABS:                                                                                   \
        EVAL_EACH(T, T, fabs##F(a));                                                               \
    case OP_RECIPROCAL:                                                                            \
        EVAL_EACH(T, T, 1 / a);                                                                    \
    case OP_SQRT:                                                                                  \
        EVAL_EACH(T, T, sqrt##F(a));                                                               \
    case OP_FLOOR:                                                                                 \
        EVAL_EACH(T, T, floor##F(a));                                                              \
    case OP_CEIL:                                                                                  \
        EVAL_EACH(T, T, ceil##F(a));                                                               \
    case OP_ROUND:                                                                                 \
        EVAL_EACH(T, T, rint##F(a));                                                               \
    case OP_TRUNC:                                                                                 \
        EVAL_EACH(T, T, trunc##F(a));                                                              \
    case OP_ADD:                                                                                   \
        EVAL_EACH(T, T, a + b);                                                                    \
    case OP_SUB:                                                                                   \
        EVAL_EACH(T, T, a - b);                                                                    \
    case OP_MUL:                                                                                   \
        EVAL_EACH(T, T, a *b);                                                                     \
    case OP_DIV:                                                                                   \
        EVAL_EACH(T, T, a / b);                                                                    \
    case OP_LT:                                                                                    \
        EVAL_EACH(uint8_t, T, a < b);                                                              \
    case OP_LE:                                                                                    \
        EVAL_EACH(uint8_t, T, a <= b);                                                             \
    case OP_EQ:                                                                                    \
        EVAL_EACH(uint8_t, T, a == b);                                                             \
    case OP_NE:                                                                                    \
        EVAL_EACH(uint8_t, T, a != b);                                                             \
    case OP_FMA:                                                                                   \
        return eval_fma(n, sizeof(T) == 4, r, x);                                                  \
    default:                                                                                       \
        return false;                                                                              \
    }

#define EVAL_INT(T, BITS)                                                                          \
    switch (op) {                                                                                  \
    case OP_NOT:                                                                                   \
        EVAL_EACH(T, T, ~a);                                                                       \
    case OP_ADD:                                                                                   \
        EVAL_EACH(T, T, (uint64_t)a + (uint64_t)b);                                                \
    case OP_SUB:                                                                                   \
        EVAL_EACH(T, T, (uint64_t)a - (uint64_t)b);                                                \
    case OP_MUL:                                                                                   \
        EVAL_EACH(T, T, (uint64_t)a *(uint64_t)b);                                                 \
    case OP_AND:                                                                                   \
        EVAL_EACH(T, T, a &b);                                                                     \
    case OP_OR:                                                                                    \
        EVAL_EACH(T, T, a | b);                                                                    \
    case OP_XOR:                                                                                   \
        EVAL_EACH(T, T, a ^ b);                                                                    \
    case OP_SHL:                                                                                   \
        EVAL_EACH(T, T, (uint64_t)b < BITS ? (uint64_t)a << b : 0);                                \
    case OP_SHR:                                                                                   \
        EVAL_EACH(T, T, (uint64_t)b < BITS ? a >> b : a < (T)1 && a != 0 ? -1 : 0);                \
    case OP_LT:                                                                                    \
        EVAL_EACH(uint8_t, T, a < b);                                                              \
    case OP_LE:                                                                                    \
        EVAL_EACH(uint8_t, T, a <= b);                                                             \
    case OP_EQ:                                                                                    \
        EVAL_EACH(uint8_t, T, a == b);                                                             \
    case OP_NE:                                                                                    \
        EVAL_EACH(uint8_t, T, a != b);                                                             \
    default:                                                                                       \
        return false;                                                                              \
    }

static inline bool eval_f32(int op, int n, void *r, void **x) {
    EVAL_FLOAT(float, f)
}
static inline bool eval_f64(int op, int n, void *r, void **x) {
    EVAL_FLOAT(double, )
}
static inline bool eval_u32(int op, int n, void *r, void **x) {
    EVAL_INT(uint32_t, 32)
}
static inline bool eval_u64(int op, int n, void *r, void **x) {
    EVAL_INT(uint64_t, 64)
}
static inline bool eval_i32(int op, int n, void *r, void **x) {
    EVAL_INT(int32_t, 32)
}
static inline bool eval_i64(int op, int n, void *r, void **x) {
    EVAL_INT(int64_t, 64)
}

static inline bool eval_bool(int op, int n, void *r, void **x) {
    switch (op) {
    case OP_AND:
        EVAL_EACH(uint8_t, uint8_t, a & b);
    case OP_OR:
        EVAL_EACH(uint8_t, uint8_t, a | b);
    case OP_XOR:
    case OP_NE:
        EVAL_EACH(uint8_t, uint8_t, a ^ b);
    case OP_EQ:
        EVAL_EACH(uint8_t, uint8_t, a == b);
    case OP_NOT:
        EVAL_EACH(uint8_t, uint8_t, !a);
    default:
        return false;
    }
}

static inline bool eval_where(int n, size_t size, void *r, void **x) {
    const uint8_t *c = x[0];
    for (int i = 0; i < n; i++) {
        if (size == 8)
            ((uint64_t *)r)[i] = ((uint64_t *)x[c[i] ? 1 : 2])[i];
        else if (size == 4)
            ((uint32_t *)r)[i] = ((uint32_t *)x[c[i] ? 1 : 2])[i];
        else
            ((uint8_t *)r)[i] = ((uint8_t *)x[c[i] ? 1 : 2])[i];
    }
    return true;
}

#define EVAL_CAST(FROM, from_t, TO, to_t)                                                          \
    if (from == FROM && to == TO) EVAL_EACH(to_t, from_t, a)

/* Conversions that no dtype rounds or wraps in a special way. */
static inline bool eval_cast(int from, int to, int n, void *r, void **x) {
    EVAL_CAST(QN_F32, float, QN_F64, double);
    EVAL_CAST(QN_F64, double, QN_F32, float);
    EVAL_CAST(QN_I32, int32_t, QN_F32, float);
    EVAL_CAST(QN_I64, int64_t, QN_F64, double);
    EVAL_CAST(QN_U32, uint32_t, QN_U64, uint64_t);
    EVAL_CAST(QN_U64, uint64_t, QN_U32, uint32_t);
    return false;
}

static inline bool eval_op(const kernel *k, const ir_expr *e, int n, void *r, void **x) {
    int from = ir_e(k, e->arg[e->n - 1])->dtype;
    size_t size = qn_dtype_size(e->dtype);
    switch (e->op) {
    case OP_BITCAST:
        memcpy(r, x[0], (size_t)n * size);
        return size == qn_dtype_size((qn_dtype)from);
    case OP_CAST:
        return eval_cast(from, e->dtype, n, r, x);
    case OP_WHERE:
        return eval_where(n, size, r, x);
    default:
        break;
    }
    switch (from) {
    case QN_F32:
        return eval_f32(e->op, n, r, x);
    case QN_F64:
        return eval_f64(e->op, n, r, x);
    case QN_U32:
        return eval_u32(e->op, n, r, x);
    case QN_U64:
        return eval_u64(e->op, n, r, x);
    case QN_I32:
        return eval_i32(e->op, n, r, x);
    case QN_I64:
        return eval_i64(e->op, n, r, x);
    default:
        return from == QN_BOOL && eval_bool(e->op, n, r, x);
    }
}

/* out[i] = root(in[0][i], in[1][i]) for n <= EVAL_BLOCK; false: an operation that is not native. */
static inline bool eval_points(eval_program *p, int n, const void *const *in, void *out) {
    const kernel *k = p->k;
    void *last = NULL;
    for (int at = 0; at < p->n; at++) {
        const ir_expr *e = ir_e(k, p->order[at]);
        size_t size = qn_dtype_size(e->dtype);
        last = p->column[p->order[at]];
        if (e->kind == EXPR_LOAD) {
            memcpy(last, in[ir_m(k, e->load.mem)->arg], (size_t)n * size);
        } else if (e->kind == EXPR_CONST) {
            for (int i = 0; i < n; i++) memcpy((char *)last + i * size, &e->bits, size);
        } else if (e->kind == EXPR_TABLE) {
            const ir_table *t = &k->table[e->table.number];
            const uint32_t *index = p->column[e->table.index];
            for (int i = 0; i < n; i++)
                memcpy((char *)last + i * size, &t->bits[index[i] % t->n], size);
        } else {
            void *x[3];
            for (int i = 0; i < 3; i++) x[i] = p->column[e->arg[i < e->n ? i : 0]];
            if (!eval_op(k, e, n, last, x)) {
                printf("not native: %s of dtype %d\n", op_rows[e->op].name, e->dtype);
                return false;
            }
        }
    }
    memcpy(out, last, (size_t)n * qn_dtype_size(ir_e(k, p->order[p->n - 1])->dtype));
    return true;
}
#endif
