/* monoid.c - the rows of monoids.h as data, and their formulas.
 *
 * A formula is written once, over a builder of terms: the kernel IR makes expressions of it, which
 * every emitter then has, and the oracle and the tests' interpreter compute scalars by it. */
#include "graph/graph.h"

#include <math.h>

/* ---- formulas ------------------------------------------------------------------------------- */

static monoid_term op1(const monoid_formula *f, int op, monoid_term a) {
    return f->op(f->user, op, 1, &a);
}

static monoid_term op2(const monoid_formula *f, int op, monoid_term a, monoid_term b) {
    return f->op(f->user, op, 2, (monoid_term[]){a, b});
}

static monoid_term choose(const monoid_formula *f, monoid_term condition, monoid_term a,
                          monoid_term b) {
    return f->op(f->user, OP_WHERE, 3, (monoid_term[]){condition, a, b});
}

/* Does (a, i) win over (b, j)? The larger (or smaller) value does, NaN over numbers, and between
 * equals, two NaNs among them, the smaller index. */
static monoid_term arg_wins(const monoid_formula *f, bool largest, const monoid_term *a,
                            const monoid_term *b) {
    monoid_term better = largest ? op2(f, OP_LT, b[0], a[0]) : op2(f, OP_LT, a[0], b[0]);
    monoid_term tie = op2(f, OP_EQ, a[0], b[0]);
    if (f->is_float(f->user, a[0])) {
        monoid_term a_nan = op2(f, OP_NE, a[0], a[0]), b_nan = op2(f, OP_NE, b[0], b[0]);
        better = op2(f, OP_OR, better, op2(f, OP_LT, b_nan, a_nan));
        tie = op2(f, OP_OR, tie, op2(f, OP_AND, a_nan, b_nan));
    }
    return op2(f, OP_OR, better, op2(f, OP_AND, tie, op2(f, OP_LT, a[1], b[1])));
}

static void combine_argmax(const monoid_formula *f, const monoid_term *a, const monoid_term *b,
                           monoid_term *out) {
    monoid_term wins = arg_wins(f, true, a, b);
    for (int i = 0; i < 2; i++) out[i] = choose(f, wins, a[i], b[i]);
}

static void combine_argmin(const monoid_formula *f, const monoid_term *a, const monoid_term *b,
                           monoid_term *out) {
    monoid_term wins = arg_wins(f, false, a, b);
    for (int i = 0; i < 2; i++) out[i] = choose(f, wins, a[i], b[i]);
}

static monoid_term finish_argmax(const monoid_formula *f, const monoid_term *state) {
    (void)f;
    return state[1];
}

static monoid_term finish_argmin(const monoid_formula *f, const monoid_term *state) {
    return finish_argmax(f, state);
}

/* The sum under the smaller largest is scaled down to the other's; equal ones, infinite ones among
 * them, need no scaling. */
static void combine_logsumexp(const monoid_formula *f, const monoid_term *a, const monoid_term *b,
                              monoid_term *out) {
    monoid_term most = op2(f, OP_MAXIMUM, a[0], b[0]), least = op2(f, OP_MINIMUM, a[0], b[0]);
    monoid_term scale = op1(f, OP_EXP, op2(f, OP_SUB, least, most));
    scale = choose(f, op2(f, OP_EQ, a[0], b[0]), f->number(f->user, a[0], 1), scale);
    monoid_term a_less = op2(f, OP_LT, a[0], b[0]);
    monoid_term down = op2(f, OP_MUL, choose(f, a_less, a[1], b[1]), scale);
    out[0] = most;
    out[1] = op2(f, OP_ADD, choose(f, a_less, b[1], a[1]), down);
}

static monoid_term finish_logsumexp(const monoid_formula *f, const monoid_term *state) {
    return op2(f, OP_ADD, state[0], op1(f, OP_LOG, state[1]));
}

/* First a, then b: b1*(a1*x + a2) + b2. */
static void combine_affine(const monoid_formula *f, const monoid_term *a, const monoid_term *b,
                           monoid_term *out) {
    out[0] = op2(f, OP_MUL, a[0], b[0]);
    out[1] = f->op(f->user, OP_FMA, 3, (monoid_term[]){b[0], a[1], b[1]});
}

/* Of a state that begins at x = 0. */
static monoid_term finish_affine(const monoid_formula *f, const monoid_term *state) {
    (void)f;
    return state[1];
}

#define combine_op NULL
#define finish_op  NULL

/* ---- the rows ------------------------------------------------------------------------------- */

#define COUNT_PARTS(...) (sizeof((monoid_part[]){__VA_ARGS__}) / sizeof(monoid_part))
#define LIST(...)        __VA_ARGS__
#define PART_VALUE       MONOID_VALUE
#define PART_I64         QN_I64
#define PART(DTYPE, LIFT, IDENTITY)                                                                \
    { PART_##DTYPE, LIFT_##LIFT, IDENTITY_##IDENTITY }

const monoid_row monoid_rows[MONOID_COUNT] = {
#define X(NAME, text, OP, TYPES, ORDER, formula, STATE, ...)                                       \
    [MONOID_##NAME] = {.name = text,                                                               \
                       .states = COUNT_PARTS STATE,                                                \
                       .combine = OP_##OP,                                                         \
                       .types = TYPES_##TYPES,                                                     \
                       .order = MONOID_##ORDER,                                                    \
                       .part = {LIST STATE}},
#include "graph/monoids.h"
#undef X
};

#define X(NAME, text, OP, TYPES, ORDER, formula, STATE, ...)                                       \
    _Static_assert(COUNT_PARTS STATE <= MONOID_STATES, "a state has at most so many components");
#include "graph/monoids.h"
#undef X

static const struct {
    void (*combine)(const monoid_formula *f, const monoid_term *a, const monoid_term *b,
                    monoid_term *out);
    monoid_term (*finish)(const monoid_formula *f, const monoid_term *state);
} formulas[MONOID_COUNT] = {
#define X(NAME, text, OP, TYPES, ORDER, formula, ...)                                              \
    [MONOID_##NAME] = {combine_##formula, finish_##formula},
#include "graph/monoids.h"
#undef X
};

int monoid_of_reduction(int op) {
    static const uint8_t reductions[MONOID_COUNT][3] = {
#define X(NAME, text, OP, TYPES, ORDER, formula, STATE, ...) [MONOID_##NAME] = {__VA_ARGS__},
#include "graph/monoids.h"
#undef X
    };
    for (int m = MONOID_SET + 1; m < MONOID_COUNT; m++)
        for (size_t i = 0; i < COUNT_OF(reductions[m]); i++)
            if (op != OP_NONE && reductions[m][i] == op) return m;
    return MONOID_SET;
}

qn_dtype monoid_dtype(int m, int component, qn_dtype reduced) {
    int dtype = monoid_rows[m].part[component].dtype;
    return (qn_dtype)(dtype == MONOID_VALUE ? dtype_rows[reduced].acc : dtype);
}

void monoid_combine(const monoid_formula *f, int m, const monoid_term *a, const monoid_term *b,
                    monoid_term *out) {
    if (formulas[m].combine)
        formulas[m].combine(f, a, b, out);
    else
        out[0] = m == MONOID_SET ? b[0] : op2(f, monoid_rows[m].combine, a[0], b[0]);
}

monoid_term monoid_finish(const monoid_formula *f, int m, const monoid_term *state) {
    return formulas[m].finish ? formulas[m].finish(f, state) : state[0];
}

/* ---- identities ----------------------------------------------------------------------------- */

static int64_t int_lowest(qn_dtype d) {
    if (d == QN_BOOL || dtype_is_unsigned(d)) return 0;
    return INT64_MIN >> (64 - 8 * (int)qn_dtype_size(d));
}

static int64_t int_highest(qn_dtype d) {
    if (d == QN_BOOL) return 1;
    if (dtype_is_unsigned(d)) return dtype_wrap(d, -1);
    return INT64_MAX >> (64 - 8 * (int)qn_dtype_size(d));
}

scalar monoid_identity(int m, int component, qn_dtype dtype) {
    int what = monoid_rows[m].part[component].identity;
    bool infinite = what == IDENTITY_LOWEST || what == IDENTITY_HIGHEST;
    double sign = what == IDENTITY_LOWEST ? -1 : 1;
    if (dtype_is_float(dtype))
        return (scalar){.f = infinite ? sign * dtype_top(dtype) : what == IDENTITY_ONE};
    int64_t v = what == IDENTITY_LOWEST    ? int_lowest(dtype)
                : what == IDENTITY_HIGHEST ? int_highest(dtype)
                : what == IDENTITY_ALL     ? -1
                                           : what == IDENTITY_ONE;
    return (scalar){.i = dtype_wrap(dtype, v)};
}

/* ---- formulas of scalars -------------------------------------------------------------------- */

enum { SCALAR_TERMS = 64 };
typedef struct scalars {
    scalar value[SCALAR_TERMS];
    qn_dtype dtype[SCALAR_TERMS];
    monoid_term n;
} scalars;

static monoid_term scalars_add(scalars *s, qn_dtype dtype, scalar v) {
    s->value[s->n] = v;
    s->dtype[s->n] = dtype;
    return s->n < SCALAR_TERMS - 1 ? s->n++ : s->n;
}

static monoid_term scalars_op(void *user, int op, int n, const monoid_term *x) {
    scalars *s = user;
    scalar in[3], out = {.i = 0};
    qn_dtype dtype = s->dtype[x[n - 1]];
    for (int i = 0; i < n; i++) in[i] = s->value[x[i]];
    qn_dtype to = op_rows[op].types == TYPES_CMP ? QN_BOOL : dtype;
    scalar_op(op, to, dtype, in, &out);
    return scalars_add(s, to, out);
}

static monoid_term scalars_number(void *user, monoid_term like, double value) {
    scalars *s = user;
    return scalars_add(s, s->dtype[like], scalar_number(s->dtype[like], value));
}

static bool scalars_float(void *user, monoid_term x) {
    return dtype_is_float(((scalars *)user)->dtype[x]);
}

/* The state's components as terms. */
static void scalars_state(scalars *s, int m, const qn_dtype *dtype, const scalar *v,
                          monoid_term *out) {
    for (int i = 0; i < monoid_rows[m].states; i++) out[i] = scalars_add(s, dtype[i], v[i]);
}

void monoid_combine_scalars(int m, const qn_dtype *dtype, const scalar *a, const scalar *b,
                            scalar *out) {
    scalars s = {.n = 0};
    monoid_formula f = {&s, scalars_op, scalars_number, scalars_float};
    monoid_term left[MONOID_STATES], right[MONOID_STATES], result[MONOID_STATES];
    scalars_state(&s, m, dtype, a, left);
    scalars_state(&s, m, dtype, b, right);
    monoid_combine(&f, m, left, right, result);
    for (int i = 0; i < monoid_rows[m].states; i++) out[i] = s.value[result[i]];
}

scalar monoid_finish_scalars(int m, const qn_dtype *dtype, const scalar *state, qn_dtype *out) {
    scalars s = {.n = 0};
    monoid_formula f = {&s, scalars_op, scalars_number, scalars_float};
    monoid_term x[MONOID_STATES];
    scalars_state(&s, m, dtype, state, x);
    monoid_term result = monoid_finish(&f, m, x);
    *out = s.dtype[result];
    return s.value[result];
}
