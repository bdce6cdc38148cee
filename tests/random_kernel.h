/* random_kernel.h - random kernels and random schedules for fuzzers, each from its seed: an
 * elementwise map through odd views, a reduction by any monoid, a matrix product, a row-wise or
 * column-wise softmax, weighted sums, a scatter, an update in place, a recurrence, several roots,
 * with extents 0, 1, primes, and dimension variables among them. */
#ifndef QN_RANDOM_KERNEL_H
#define QN_RANDOM_KERNEL_H

#include "chance.h"
#include "ir_interp.h"
#include "records.h"
#include "schedule/schedule.h"
#include "test.h"
#include "transform/transform.h"

enum { MOST_LINES = 100, MOST_ARGS = 6, MOST_DIMS = 4, MOST_PARAMS = 64 };

static qn_ctx *ctx;  /* the fuzzer sets it */
static int unproven; /* lines taken back because a proof failed */

/* ---- kernels -------------------------------------------------------------------------------- */

typedef struct subject {
    kernel *k;
    int64_t dim[MOST_DIMS + MOST_PARAMS]; /* values of the dimension variables, then parameters */
    int64_t bound[MOST_ARGS];
    int args;
    mem_id arg[MOST_ARGS];
    int64_t index_below; /* i32 and i64 arguments hold values in [-1, index_below]; 0: any */
} subject;

static inline bool by_default(uint64_t seed) {
    return seed % 3 == 0;
}

static int64_t size_factor = 1; /* default schedules want larger kernels */

static inline int64_t some_extent(int64_t most) {
    most *= size_factor;
    static const int64_t odd[] = {0, 1, 2, 3, 5, 7, 11, 13, 16, 17};
    int64_t n = chance(50) ? odd[below(COUNT_OF(odd))] : 1 + below(most);
    return n < most ? n : most;
}

/* A size: mostly constant, sometimes a dimension variable bound to it. */
static inline sym some_size(subject *s, int64_t value) {
    if (!chance(15) || value == 0) return sym_const(s->k->syms, value);
    s->dim[s->k->dim_vars] = value;
    return ir_dim_var(s->k, "n", 1, value + below(20));
}

static inline int some_dtype(void) {
    static const int d[] = {QN_F32, QN_F32, QN_F32, QN_F64, QN_I32, QN_I64, QN_U8};
    return d[below(COUNT_OF(d))];
}

static inline mem_id some_arg(subject *s, int dtype, sym size, int access) {
    s->arg[s->args++] = ir_arg(s->k, dtype, size, access);
    return s->arg[s->args - 1];
}

/* Sometimes a scalar that the launch gives instead; by numbers of its own. */
static uint64_t param_rng;

static inline expr_id or_param(kernel *k, expr_id e) {
    if (k->params == MOST_PARAMS || test_below(&param_rng, 8)) return e;
    return ir_param(k, (qn_dtype)ir_e(k, e)->dtype);
}

/* What a launch gives for the parameters: small numbers, in `out`. */
static inline void param_values(const kernel *k, int64_t *out) {
    for (uint32_t i = 0; i < k->params; i++) {
        qn_dtype d = (qn_dtype)k->param[i];
        double v = (double)(i * 5 % 9) / 2 - (dtype_is_unsigned(d) ? 0 : 2);
        out[i] = scalar_to_word(d, scalar_bits(d, scalar_number(d, v)));
    }
}

/* An unary or binary op that keeps values tame. */
static inline expr_id some_op(kernel *k, expr_id a, expr_id b) {
    static const int both[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAXIMUM, OP_MINIMUM};
    bool f = dtype_is_float(ir_e(k, a)->dtype);
    b = or_param(k, b);
    if (f && chance(10)) return ir_op1(k, OP_TANH, a);
    if (chance(15)) return ir_op3(k, OP_WHERE, ir_op2(k, OP_LT, a, b), a, b);
    if (chance(20)) return ir_op1(k, OP_ABS, a);
    return ir_op2(k, both[below(COUNT_OF(both))], a, b);
}

/* An entry of a table of small numbers. */
static inline expr_id some_entry(kernel *k, int dtype, sym at) {
    uint64_t bits[IR_ENTRIES];
    int n = 1 << below(6);
    for (int i = 0; i < n; i++) bits[i] = ir_e(k, ir_const_i(k, dtype, below(9)))->bits;
    return ir_lookup(k, ir_table_of(k, dtype, n, bits), ir_cast(k, QN_U32, ir_index(k, at)));
}

static inline sym times(subject *s, sym a, sym b) {
    return sym_mul(s->k->syms, a, b);
}
static inline sym plus(subject *s, sym a, sym b) {
    return sym_add(s->k->syms, a, b);
}
static inline sym loop_var(subject *s, stmt_id loop) {
    return ir_trip(s->k, loop);
}

/* A load of a fresh argument seen at (i, j) of an n x m grid through some view. */
static inline expr_id some_view(subject *s, int dtype, sym i, sym n, sym j, sym m) {
    kernel *k = s->k;
    sym_store *y = k->syms;
    sym one = SYM_ONE, total = times(s, n, m), flat = plus(s, times(s, i, m), j);
    int how = (int)below(7);
    if (how == 5 && !sym_is_const(y, total, NULL)) how = 6;
    switch (how) {
    case 0: /* transposed */
        return ir_load(k, some_arg(s, dtype, total, ACCESS_READ), plus(s, times(s, j, n), i),
                       SYM_TRUE, 0, 0);
    case 1: /* a row for all */
        return ir_load(k, some_arg(s, dtype, m, ACCESS_READ), j, SYM_TRUE, 0, 0);
    case 2: /* a column for all */
        return ir_load(k, some_arg(s, dtype, n, ACCESS_READ), i, SYM_TRUE, 0, 0);
    case 3: { /* padded by 2 in front: outside of the smaller one is 0 */
        sym two = sym_const(y, 2), from = sym_sub(y, j, two);
        sym size = sym_max(y, sym_sub(y, m, two), SYM_ZERO);
        sym at = plus(s, times(s, i, size), from);
        return ir_load(k, some_arg(s, dtype, times(s, n, size), ACCESS_READ), at,
                       sym_and(y, sym_ge0(y, from), sym_lt(y, from, size)), 0, 0);
    }
    case 4: { /* flipped */
        sym back = sym_sub(y, sym_sub(y, m, one), j);
        return ir_load(k, some_arg(s, dtype, total, ACCESS_READ), plus(s, times(s, i, m), back),
                       SYM_TRUE, 0, 0);
    }
    case 5: { /* reshaped through 3 columns, transposed there */
        sym c = sym_const(y, 3), rows = sym_div(y, plus(s, total, sym_const(y, 2)), c);
        sym at = plus(s, times(s, sym_mod(y, flat, c), rows), sym_div(y, flat, c));
        return ir_load(k, some_arg(s, dtype, times(s, rows, c), ACCESS_READ), at, SYM_TRUE, 0, 0);
    }
    default:
        return ir_load(k, some_arg(s, dtype, total, ACCESS_READ), flat, SYM_TRUE, 0, 0);
    }
}

static inline void kernel_map(subject *s) {
    kernel *k = s->k;
    int dtype = some_dtype();
    sym n = some_size(s, some_extent(20)), m = some_size(s, some_extent(40));
    mem_id out = some_arg(s, dtype, times(s, n, m), ACCESS_WRITE);
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, "i", n), j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    expr_id x = some_view(s, dtype, loop_var(s, i), n, loop_var(s, j), m);
    expr_id y = some_view(s, dtype, loop_var(s, i), n, loop_var(s, j), m);
    for (int64_t ops = 1 + below(4); ops > 0; ops--) {
        expr_id z = some_op(k, x, y);
        y = chance(50) ? x : y;
        x = z;
    }
    if (chance(20)) x = ir_op2(k, OP_ADD, x, ir_cast(k, dtype, ir_index(k, loop_var(s, j))));
    sym at = plus(s, times(s, loop_var(s, i), m), loop_var(s, j));
    if (chance(10)) x = ir_op2(k, OP_SUB, x, some_entry(k, dtype, at));
    ir_store(k, j, MONOID_SET, (ir_place){out, at, SYM_TRUE}, x);
}

/* out[i] = f(reduce over j), rows or columns, any monoid. */
static inline void kernel_reduction(subject *s) {
    kernel *k = s->k;
    int how;
    do how = 1 + (int)below(MONOID_COUNT - 1);
    while (!monoid_commutes(how));
    int states = monoid_rows[how].states;
    int dtype = how == MONOID_LOGSUMEXP                 ? QN_F32
                : how == MONOID_AND || how == MONOID_OR ? QN_I32
                                                        : some_dtype();
    if (how == MONOID_PROD && dtype_is_float(dtype)) dtype = QN_I32;
    sym n = some_size(s, some_extent(20)), m = some_size(s, some_extent(60));
    mem_id out[IR_STATES] = {0}, t[IR_STATES] = {0};
    int type[IR_STATES];
    for (int c = 0; c < states; c++) {
        type[c] = monoid_rows[how].part[c].dtype;
        if (type[c] == MONOID_VALUE) type[c] = dtype;
        out[c] = some_arg(s, type[c], n, ACCESS_WRITE);
    }
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, "i", n);
    for (int c = 0; c < states; c++) {
        t[c] = ir_tile(k, MEM_LOCAL, type[c], SYM_ONE);
        ir_def(k, i, t[c], ir_identity(k, how, c, type[c]));
    }
    stmt_id j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    expr_id x = some_view(s, dtype, loop_var(s, i), n, loop_var(s, j), m);
    if (how != MONOID_PROD && chance(40)) x = some_op(k, x, x);
    ir_stmt u = {.kind = STMT_STORE, .monoid = (uint8_t)how, .n = (uint8_t)states};
    for (int c = 0; c < states; c++) {
        bool place = monoid_rows[how].part[c].lift == LIFT_PLACE;
        u.store.mem[c] = t[c];
        u.store.value[c] = c == 0 ? x : place ? ir_index(k, loop_var(s, j)) : ir_op1(k, OP_ABS, x);
    }
    u.store.valid = SYM_TRUE;
    ir_store_n(k, j, &u);
    for (int c = 0; c < states; c++) {
        expr_id v = ir_load(k, t[c], SYM_ZERO, SYM_TRUE, 0, 0);
        if (!c && chance(30)) v = ir_op1(k, OP_ABS, v);
        ir_store(k, i, MONOID_SET, (ir_place){out[c], loop_var(s, i), SYM_TRUE}, v);
    }
}

static inline void kernel_product(subject *s) {
    kernel *k = s->k;
    sym_store *y = k->syms;
    static const uint8_t narrow[] = {QN_BF16, QN_F16, QN_I8, QN_U8};
    int dtype = chance(70) ? QN_F32 : QN_I32, half = dtype == QN_F32 ? 0 : 2;
    int left = chance(50) ? dtype : narrow[half + below(2)];
    int right = chance(50) ? left : chance(50) ? dtype : narrow[half + below(2)];
    sym b = sym_const(y, chance(70) ? 1 : 1 + below(3)), n = some_size(s, some_extent(16));
    sym m = some_size(s, some_extent(20)), r = some_size(s, some_extent(half ? 24 : 14));
    mem_id c = some_arg(s, dtype, times(s, b, times(s, n, m)), ACCESS_WRITE);
    mem_id a = some_arg(s, left, times(s, b, times(s, n, r)), ACCESS_READ);
    mem_id w = some_arg(s, right, times(s, b, times(s, r, m)), ACCESS_READ);
    mem_id bias = some_arg(s, dtype, m, ACCESS_READ), t = ir_tile(k, MEM_LOCAL, dtype, SYM_ONE);
    stmt_id top = 0;
    sym at = SYM_ZERO;
    if (b != SYM_ONE) {
        top = ir_loop(k, 0, LOOP_SERIAL, "b", b);
        at = loop_var(s, top);
    }
    stmt_id i = ir_loop(k, top, LOOP_SERIAL, "i", n), j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    sym vi = loop_var(s, i), vj = loop_var(s, j);
    ir_def(k, j, t, ir_identity(k, MONOID_SUM, 0, dtype));
    stmt_id q = ir_loop(k, j, LOOP_SERIAL, "k", r);
    sym vq = loop_var(s, q);
    sym ai = chance(30) ? plus(s, times(s, vq, n), vi) : plus(s, times(s, vi, r), vq);
    sym wi = chance(30) ? plus(s, times(s, vj, r), vq) : plus(s, times(s, vq, m), vj);
    ai = plus(s, ai, times(s, at, times(s, n, r)));
    wi = plus(s, wi, times(s, at, times(s, r, m)));
    expr_id x = ir_cast(k, (qn_dtype)dtype, ir_load(k, a, ai, SYM_TRUE, 0, 0));
    expr_id z = ir_cast(k, (qn_dtype)dtype, ir_load(k, w, wi, SYM_TRUE, 0, 0));
    ir_store(k, q, MONOID_SUM, (ir_place){t, SYM_ZERO, SYM_TRUE}, ir_op2(k, OP_MUL, x, z));
    expr_id v = ir_load(k, t, SYM_ZERO, SYM_TRUE, 0, 0);
    if (chance(60)) v = ir_op2(k, OP_ADD, v, ir_load(k, bias, vj, SYM_TRUE, 0, 0));
    if (chance(30)) v = ir_op1(k, OP_ABS, v);
    sym ci = plus(s, plus(s, times(s, vi, m), vj), times(s, at, times(s, n, m)));
    ir_store(k, j, MONOID_SET, (ir_place){c, ci, SYM_TRUE}, v);
}

/* Over rows, or over columns: maximum, sum of exponentials, quotient; the exponentials staged in a
 * tile or computed twice. */
static inline void kernel_softmax(subject *s) {
    kernel *k = s->k;
    sym n = some_size(s, some_extent(12)), m = some_size(s, some_extent(40));
    sym size = times(s, n, m);
    bool columns = chance(30), stage = chance(40);
    mem_id out = some_arg(s, QN_F32, size, ACCESS_WRITE),
           in = some_arg(s, QN_F32, size, ACCESS_READ);
    mem_id max = ir_tile(k, MEM_LOCAL, QN_F32, SYM_ONE);
    mem_id sum = ir_tile(k, MEM_LOCAL, QN_F32, SYM_ONE);
    mem_id e = stage ? ir_tile(k, MEM_LOCAL, QN_F32, m) : 0;
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, "i", n), j;
    sym vi = loop_var(s, i), at, w = columns ? n : SYM_ONE, h = columns ? SYM_ONE : m;
    expr_id x, y, le = 0, lm = ir_load(k, max, SYM_ZERO, SYM_TRUE, 0, 0);
    ir_def(k, i, max, ir_identity(k, MONOID_MAX, 0, QN_F32));
    j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    at = plus(s, times(s, vi, h), times(s, loop_var(s, j), w));
    x = ir_load(k, in, at, SYM_TRUE, 0, 0);
    ir_store(k, j, MONOID_MAX, (ir_place){max, SYM_ZERO, SYM_TRUE}, x);
    if (stage) ir_def(k, i, e, 0);
    ir_def(k, i, sum, ir_const_f(k, QN_F32, 0));
    j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    at = plus(s, times(s, vi, h), times(s, loop_var(s, j), w));
    x = ir_op1(k, OP_EXP, ir_op2(k, OP_SUB, ir_load(k, in, at, SYM_TRUE, 0, 0), lm));
    if (stage) {
        ir_store(k, j, MONOID_SET, (ir_place){e, loop_var(s, j), SYM_TRUE}, x);
        x = ir_load(k, e, loop_var(s, j), SYM_TRUE, 0, 0);
    }
    ir_store(k, j, MONOID_SUM, (ir_place){sum, SYM_ZERO, SYM_TRUE}, x);
    j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    at = plus(s, times(s, vi, h), times(s, loop_var(s, j), w));
    y = ir_op1(k, OP_EXP, ir_op2(k, OP_SUB, ir_load(k, in, at, SYM_TRUE, 0, 0), lm));
    if (stage) le = ir_load(k, e, loop_var(s, j), SYM_TRUE, 0, 0);
    y = ir_op2(k, OP_DIV, stage ? le : y, ir_load(k, sum, SYM_ZERO, SYM_TRUE, 0, 0));
    ir_store(k, j, MONOID_SET, (ir_place){out, at, SYM_TRUE}, y);
}

/* The sums of attention: of each row its maximum, under a mask or not, and relative to that the sum
 * of its weights and of what is weighted, in one tile for all columns. */
static inline void kernel_weights(subject *s) {
    kernel *k = s->k;
    sym_store *y = k->syms;
    sym n = some_size(s, some_extent(12)), m = some_size(s, some_extent(40));
    sym d = sym_const(y, 1 + below(5));
    bool masked = chance(50);
    mem_id out = some_arg(s, QN_F32, times(s, n, d), ACCESS_WRITE);
    mem_id in = some_arg(s, QN_F32, times(s, n, m), ACCESS_READ);
    mem_id of = some_arg(s, QN_F32, times(s, m, d), ACCESS_READ);
    mem_id max = ir_tile(k, MEM_LOCAL, QN_F32, SYM_ONE), sum = ir_tile(k, MEM_LOCAL, QN_F32, d),
           all = ir_tile(k, MEM_LOCAL, QN_F32, SYM_ONE);
    expr_id scale = or_param(k, ir_const_f(k, QN_F32, 0.5)), w;
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, "i", n), j, c;
    sym vi = loop_var(s, i), vj, valid = SYM_TRUE;
    ir_def(k, i, max, ir_identity(k, MONOID_MAX, 0, QN_F32));
    j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    vj = loop_var(s, j);
    if (masked) valid = sym_ge0(y, sym_sub(y, vi, vj));
    w = ir_load(k, in, plus(s, times(s, vi, m), vj), SYM_TRUE, 0, 0);
    ir_store(k, j, MONOID_MAX, (ir_place){max, SYM_ZERO, valid}, w);
    ir_def(k, i, sum, ir_const_f(k, QN_F32, 0));
    ir_def(k, i, all, ir_const_f(k, QN_F32, 0));
    j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    vj = loop_var(s, j);
    if (masked) valid = sym_ge0(y, sym_sub(y, vi, vj));
    w = ir_load(k, in, plus(s, times(s, vi, m), vj), SYM_TRUE, 0, 0);
    w = ir_op2(k, OP_SUB, w, ir_load(k, max, SYM_ZERO, SYM_TRUE, 0, 0));
    w = ir_op1(k, OP_EXP, ir_op2(k, OP_MUL, w, scale));
    ir_store(k, j, MONOID_SUM, (ir_place){all, SYM_ZERO, valid}, w);
    c = ir_loop(k, j, LOOP_SERIAL, "c", d);
    expr_id x = ir_load(k, of, plus(s, times(s, vj, d), loop_var(s, c)), SYM_TRUE, 0, 0);
    ir_store(k, c, MONOID_SUM, (ir_place){sum, loop_var(s, c), valid}, ir_op2(k, OP_MUL, w, x));
    c = ir_loop(k, i, LOOP_SERIAL, "c", d);
    x = ir_op2(k, OP_DIV, ir_load(k, sum, loop_var(s, c), SYM_TRUE, 0, 0),
               ir_load(k, all, SYM_ZERO, SYM_TRUE, 0, 0));
    ir_store(k, c, MONOID_SET, (ir_place){out, plus(s, times(s, vi, d), loop_var(s, c)), SYM_TRUE},
             x);
}

/* out[index[i]*m + j] op= x[i*m + j] where the index is inside. */
static inline void kernel_scatter(subject *s) {
    kernel *k = s->k;
    int how = chance(60) ? MONOID_SUM : chance(50) ? MONOID_MAX : MONOID_SET;
    sym n = some_size(s, some_extent(16)), rows = sym_const(k->syms, 1 + below(9));
    sym m = sym_const(k->syms, 1 + below(12));
    mem_id out = some_arg(s, QN_F32, times(s, rows, m), ACCESS_READ | ACCESS_WRITE);
    mem_id index = some_arg(s, chance(50) ? QN_I64 : QN_I32, n, ACCESS_READ);
    mem_id x = some_arg(s, QN_F32, times(s, n, m), ACCESS_READ);
    s->index_below = sym_hi(k->syms, rows);
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, "i", n), j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    expr_id at = ir_cast(k, QN_I64, ir_load(k, index, loop_var(s, i), SYM_TRUE, 0, 0));
    ir_stmt st = {.kind = STMT_STORE, .monoid = (uint8_t)how, .n = 1};
    st.store.mem[0] = out;
    st.store.value[0] =
        ir_load(k, x, plus(s, times(s, loop_var(s, i), m), loop_var(s, j)), SYM_TRUE, 0, 0);
    st.store.index = loop_var(s, j);
    st.store.valid = SYM_TRUE;
    st.store.dyn = ir_op2(k, OP_MUL, at, ir_index(k, m));
    st.store.guard = ir_op2(k, OP_AND, ir_op2(k, OP_LE, ir_const_i(k, QN_I64, 0), at),
                            ir_op2(k, OP_LT, at, ir_index(k, rows)));
    ir_store_n(k, j, &st);
}

/* In place, with or without a dependence between trips; the order of trips may matter. */
static inline void kernel_in_place(subject *s) {
    kernel *k = s->k;
    int64_t shift = chance(50) ? 0 : 1 + below(3), step = 1 + below(3);
    sym n = sym_const(k->syms, 1 + below(30)), m = sym_const(k->syms, 1 + below(4));
    sym size = sym_scale(k->syms, plus(s, n, sym_const(k->syms, 4)), 4);
    mem_id a = some_arg(s, QN_I32, size, ACCESS_READ | ACCESS_WRITE);
    stmt_id i = ir_loop(k, 0, LOOP_SERIAL, "i", n), j = ir_loop(k, i, LOOP_SERIAL, "j", m);
    sym at = sym_scale(k->syms, loop_var(s, i), step);
    if (chance(60)) at = plus(s, at, loop_var(s, j));
    sym from = plus(s, at, sym_const(k->syms, shift));
    if (chance(50)) {
        sym swap = at;
        at = from;
        from = swap;
    }
    expr_id v = ir_load(k, a, from, SYM_TRUE, 0, 0);
    v = ir_op2(k, OP_ADD, ir_op2(k, OP_MUL, v, ir_const_i(k, QN_I32, 3)),
               ir_cast(k, QN_I32, ir_index(k, loop_var(s, j))));
    ir_store(k, j, chance(70) ? MONOID_SET : MONOID_SUM, (ir_place){a, at, SYM_TRUE}, v);
}

static void (*const makers[])(subject *) = {kernel_map,     kernel_reduction, kernel_product,
                                            kernel_softmax, kernel_scatter,   kernel_in_place,
                                            kernel_weights};

static inline void make(subject *s, uint64_t seed) {
    rng = seed;
    param_rng = ~seed;
    size_factor = by_default(seed) ? 1 + seed / 9 % 4 : 1;
    *s = (subject){.k = ir_open(ctx)};
    makers[below(COUNT_OF(makers))](s);
    if (chance(10) && s->args <= 2) makers[chance(50) ? 0 : 1](s); /* a second root */
    param_values(s->k, s->dim + s->k->dim_vars);
}

/* ---- running -------------------------------------------------------------------------------- */

static inline void fill(const kernel *k, mem_id m, void *p, int64_t n, int64_t index_below,
                        uint64_t seed) {
    int d = ir_m(k, m)->dtype;
    uint64_t r = seed * 31 + m;
    for (int64_t i = 0; i < n; i++) {
        int64_t v = test_below(&r, 33) - 16;
        if (index_below && dtype_is_int(d)) v = test_below(&r, index_below + 2) - 1;
        if (qn_dtype_size((qn_dtype)d) == 1 && !index_below) v = test_below(&r, 256) - 128;
        if (dtype_is_float(d))
            dtype_set_f(d, p, i, (double)v / 8);
        else
            dtype_set_i(d, p, i, v);
    }
}

/* Run on the seed's data; results in s-independent buffers out[arg], sizes in count. */
static inline bool run(const subject *s, kernel *k, bool kinds, uint64_t seed, void *out[],
                       int64_t count[], char error[200]) {
    for (int a = 0; a < s->args; a++) {
        if (!sym_eval(s->k->syms, ir_m(s->k, s->arg[a])->size, s->k->dim_vars, s->k->dim_var,
                      s->dim, &count[a]))
            return false;
        out[a] = malloc((size_t)count[a] * 8 + 8);
        fill(s->k, s->arg[a], out[a], count[a], s->index_below, seed);
    }
    return interp_run(k, kinds, s->dim, out, error);
}

static inline bool equal(const subject *s, void *x[], void *y[], const int64_t count[], str *what) {
    for (int a = 0; a < s->args; a++) {
        int d = ir_m(s->k, s->arg[a])->dtype;
        for (int64_t i = 0; i < count[a]; i++) {
            double p = dtype_is_float(d) ? dtype_get_f(d, x[a], i) : 0;
            double q = dtype_is_float(d) ? dtype_get_f(d, y[a], i) : 0;
            bool same = dtype_is_float(d) ? test_close(p, q, 1e-5, 1e-6)
                                          : dtype_get_i(d, x[a], i) == dtype_get_i(d, y[a], i);
            if (same) continue;
            str_addf(what, "a%d[%lld] is %g, was %g", a, (long long)i,
                     dtype_is_float(d) ? q : (double)dtype_get_i(d, y[a], i),
                     dtype_is_float(d) ? p : (double)dtype_get_i(d, x[a], i));
            return false;
        }
    }
    return true;
}

/* ---- schedules ------------------------------------------------------------------------------ */

static inline void some_loop(const kernel *k, char *out) {
    int n = 0;
    stmt_id pick = 0;
    for (stmt_id c = k->root; (c = ir_next(k, c, k->root));)
        if (ir_s(k, c)->kind == STMT_LOOP && below(++n) == 0) pick = c;
    strcpy(out, pick ? sym_name(k->syms, ir_s(k, pick)->l.var) : "none");
}

/* The loop inside another, where it is the only child. */
static inline void some_nest(const kernel *k, char *outer, char *inner) {
    some_loop(k, outer);
    stmt_id o = ir_find_loop(k, outer);
    stmt_id i = o ? ir_s(k, o)->first : 0;
    if (i && ir_s(k, i)->kind == STMT_LOOP)
        strcpy(inner, sym_name(k->syms, ir_s(k, i)->l.var));
    else
        some_loop(k, inner);
}

/* A loop of whose body some tile is a part, and that tile. */
static inline void some_tile(const kernel *k, char *tile, char *loop) {
    int n = 0;
    stmt_id pick = 0;
    for (stmt_id c = k->root; (c = ir_next(k, c, k->root));)
        if (ir_s(k, c)->kind == STMT_DEF && below(++n) == 0) pick = c;
    some_loop(k, loop);
    strcpy(tile, "t0");
    if (!pick) return;
    sprintf(tile, "t%d", ir_tile_number(k, ir_s(k, pick)->def.mem));
    stmt_id p = ir_s(k, pick)->parent;
    if (p != k->root && chance(60)) strcpy(loop, sym_name(k->syms, ir_s(k, p)->l.var));
}

/* Where a loop follows the tile's definition: that one as blocks of a sum, and a loop around. */
static inline void some_privatized(const kernel *k, const char *tile, char *first, char *blocks) {
    some_loop(k, blocks);
    for (stmt_id c = k->root; (c = ir_next(k, c, k->root));) {
        stmt_id next = ir_s(k, c)->next, p = ir_s(k, c)->parent;
        if (ir_s(k, c)->kind != STMT_DEF || ir_s(k, c)->def.mem != ir_find_mem(k, tile)) continue;
        if (!next || ir_s(k, next)->kind != STMT_LOOP || chance(10)) return;
        strcpy(blocks, sym_name(k->syms, ir_s(k, next)->l.var));
        while (p != k->root && ir_s(k, p)->parent != k->root && chance(50)) p = ir_s(k, p)->parent;
        if (p != k->root) strcpy(first, sym_name(k->syms, ir_s(k, p)->l.var));
    }
}

/* Two loops one behind the other, definitions between them and sometimes more; else any. */
static inline void some_neighbours(const kernel *k, char *first, char *second) {
    int n = 0;
    some_loop(k, first);
    some_loop(k, second);
    for (stmt_id c = k->root; (c = ir_next(k, c, k->root));) {
        stmt_id next = ir_s(k, c)->next;
        while (next && (ir_s(k, next)->kind == STMT_DEF || chance(20))) next = ir_s(k, next)->next;
        bool pair = ir_s(k, c)->kind == STMT_LOOP && next && ir_s(k, next)->kind == STMT_LOOP;
        if (!pair || below(++n)) continue;
        strcpy(first, sym_name(k->syms, ir_s(k, c)->l.var));
        strcpy(second, sym_name(k->syms, ir_s(k, next)->l.var));
    }
}

/* A loop and one of its body that is not the first thing there; else any. */
static inline void some_shifted(const kernel *k, char *loop, char *first) {
    int n = 0;
    some_loop(k, loop);
    some_loop(k, first);
    for (stmt_id c = k->root; (c = ir_next(k, c, k->root));) {
        stmt_id parent = ir_s(k, c)->parent, before = ir_s(k, c)->prev;
        if (ir_s(k, c)->kind != STMT_LOOP || parent == k->root || !before || below(++n)) continue;
        strcpy(loop, sym_name(k->syms, ir_s(k, parent)->l.var));
        strcpy(first, sym_name(k->syms, ir_s(k, c)->l.var));
    }
}

/* A tile that is updated by max, else the one that was given. */
static inline const char *some_maximum(const kernel *k, char tile[80]) {
    for (stmt_id c = k->root; (c = ir_next(k, c, k->root));) {
        const ir_stmt *x = ir_s(k, c);
        if (x->kind != STMT_STORE || x->monoid != MONOID_MAX || chance(10)) continue;
        if (ir_m(k, x->store.mem[0])->scope != MEM_ARG)
            sprintf(tile, "t%d", ir_tile_number(k, x->store.mem[0]));
    }
    return tile;
}

/* Any row of transforms.h in any way that its pattern lets it be applied, so that a new row is
 * drawn at once. */
typedef struct drawn {
    int seen;
    transform_args args;
} drawn;

static inline bool draw_way(void *user, const transform_args *a) {
    drawn *d = user;
    if (below(++d->seen) == 0) d->args = *a;
    return d->seen < 2000;
}

static inline void any_row(kernel *k, char line[256]) {
    transform_kind kind = (transform_kind)below(TRANSFORMS);
    drawn d = {.seen = 0};
    const char *name[COUNT_OF(d.args.loop)];
    str text;
    str_open_in(&text, &k->arena);
    transform_neighbours(k, kind, draw_way, &d);
    for (int i = 0; i < d.args.loops; i++)
        name[i] = sym_name(k->syms, ir_s(k, d.args.loop[i])->l.var);
    if (d.seen) transform_print(k, kind, &d.args, name, &text);
    snprintf(line, 256, "%s", text.s ? text.s : "");
}

/* Long because it is a table: a line of each kind. */
static inline void some_line(const subject *s, kernel *k, char line[256]) {
    static const int factor[] = {1, 2, 3, 4, 5, 7, 8, 16};
    char a[80], b[80], c[80];
    int f = factor[below(COUNT_OF(factor))];
    if (chance(15)) {
        any_row(k, line);
        return;
    }
    some_nest(k, a, b);
    switch (below(31)) {
    case 0:
    case 1:
        snprintf(line, 256, "split %s %d", a, f);
        break;
    case 2:
        snprintf(line, 256, "merge %s %s", a, b);
        break;
    case 3:
    case 4:
        snprintf(line, 256, "swap %s %s", a, b);
        break;
    case 5:
        snprintf(line, 256, "pad %s %d", a, f);
        break;
    case 6:
        snprintf(line, 256, "peel %s", a);
        break;
    case 7:
        snprintf(line, 256, "%s %s", chance(80) ? "par" : "serial", a);
        break;
    case 8:
        snprintf(line, 256, "vec %s", a);
        break;
    case 9:
        snprintf(line, 256, "unroll %s", a);
        break;
    case 10:
        some_tile(k, c, a);
        snprintf(line, 256, "accumulate %s %s", c, a);
        break;
    case 11:
        some_tile(k, c, a);
        some_loop(k, b);
        snprintf(line, 256, "rfactor %s %s", c, b);
        break;
    case 12:
    case 13:
        snprintf(line, 256, "thread %s", a);
        break;
    case 14:
        some_loop(k, a);
        snprintf(line, 256, "tree_reduce %s", a);
        break;
    case 15: /* mostly a split sum beside its tile, whose loop may go inside */
        some_tile(k, c, a);
        some_privatized(k, c, a, b);
        snprintf(line, 256, "block_reduction %s %s %s", c, b, a);
        break;
    case 16:
        snprintf(line, 256, "transpose %s %s", a, b);
        break;
    case 17:
        some_tile(k, c, a);
        some_loop(k, b);
        snprintf(line, 256, "spill %s %s", c, b);
        break;
    case 18:
        if (chance(70))
            snprintf(line, 256, "word %s", b);
        else
            snprintf(line, 256, "prefetch_distance a%d %d", (int)below(s->args), 1 << below(16));
        break;
    case 19: /* mostly refused: a packed tile of bytes is wanted */
        some_tile(k, c, a);
        snprintf(line, 256, "offset %s t%d %s", c, (int)below(4), a);
        break;
    case 20:
        some_loop(k, a);
        snprintf(line, 256, "hoist %s", a);
        break;
    case 21:
        snprintf(line, 256, "fission %s", a);
        break;
    case 22:
        some_tile(k, c, a);
        snprintf(line, 256, "transform_layout %s %d", c, f);
        break;
    case 23:
        some_loop(k, c);
        if (chance(50))
            snprintf(line, 256, "prefetch_next %s %s", a, c);
        else if (some_neighbours(k, a, b), chance(80))
            snprintf(line, 256, "prefetch_nest a%d %s %s", (int)below(s->args), a, b);
        else
            snprintf(line, 256, "prefetch_nest a%d %s %s", (int)below(s->args), a, c);
        break;
    case 24:
        some_loop(k, a);
        snprintf(line, 256, "trim %s", a);
        break;
    case 25:
        some_neighbours(k, a, b);
        some_tile(k, c, c);
        if (chance(60))
            snprintf(line, 256, "fuse %s %s", a, b);
        else
            snprintf(line, 256, "online %s %s %s", some_maximum(k, c), a, b);
        break;
    case 26:
        some_tile(k, c, a);
        some_loop(k, a);
        snprintf(line, 256, "fold_storage %s %s", c, a);
        break;
    case 27:
        some_loop(k, a);
        snprintf(line, 256, "privatize %s", a);
        break;
    case 28:
    case 29:
        some_shifted(k, a, b);
        snprintf(line, 256, "shift %s %s", a, b);
        break;
    default:
        some_loop(k, c);
        snprintf(line, 256, "stage a%d %s %s %s%s%s", (int)below(s->args), a, b,
                 chance(70) ? "" : "+ ", chance(50) ? c : "",
                 chance(80)   ? ""
                 : chance(50) ? " f32"
                              : " i32");
        break;
    }
}

static inline void default_schedule(const kernel *k, uint64_t seed, str *out) {
    static const machine processor[] = {RECORD(64, 32, 32 << 10, 1 << 20, 8 << 20, 2, 0, 0, 7),
                                        RECORD(32, 16, 32 << 10, 256 << 10, 4 << 20, 4, 0, 0, 0),
                                        RECORD(64, 32, 1 << 10, 4 << 10, 0, 3, 0, 0, 7),
                                        RECORD(16, 16, 32 << 10, 0, 0, 1, 0, 0, 7)},
                         grid[] = {RECORD(16, 16, 0, 0, 0, 1, 8, 1 << 12, 0),
                                   RECORD(16, 16, 0, 0, 0, 1, 256, 1 << 15, 0)};
    const machine limits = record(seed % 2 ? processor[seed / 3 % 4] : grid[seed / 6 % 2]);
    schedule_default(k, &limits, out);
}

/* Lines made one by one, each for the kernel as the lines before left it. */
static inline int default_lines(const kernel *k, uint64_t seed, char lines[][256]) {
    int n = 0;
    str text;
    str_open(&text, &ctx->heap);
    default_schedule(k, seed, &text);
    for (char *l = text.s ? strtok(text.s, "\n") : NULL; l && n < MOST_LINES;
         l = strtok(NULL, "\n"))
        snprintf(lines[n++], sizeof lines[0], "%s", l);
    str_free(&text);
    return n;
}

static inline int some_schedule(uint64_t seed, char lines[][256]) {
    subject s;
    make(&s, seed);
    int n = 0;
    if (by_default(seed)) {
        n = default_lines(s.k, seed, lines);
        ir_close(s.k);
        return n;
    }
    str why;
    str_open(&why, &ctx->heap);
    int64_t wanted = chance(5) ? 0 : 1 + below(24);
    for (int tries = 0; tries < 72 && n < wanted; tries++) {
        some_line(&s, s.k, lines[n]);
        str_free(&why);
        if (transform_line(s.k, lines[n], &why) || (why.s && strstr(why.s, "breaks")))
            n++;
        else if (why.s && strstr(why.s, "not to be proved"))
            unproven++;
    }
    str_free(&why);
    ir_close(s.k);
    return n;
}

#endif
