/* test_grad.c - gradients against central differences in f64: every differentiable row of ops.h on
 * its domain, every elementwise row of funcs.h, the composed functions, and the second order of a
 * sample. Values come from eval.h. The function differentiated is always a sum with random weights,
 * so that errors of different elements cannot cancel. */
#include "eval.h"
#include "func/func.h"

enum { INPUTS = 3 };

/* What is under test: makes y from up to three tensors. */
typedef struct subject subject;
struct subject {
    const char *name;
    qn_tensor *(*make)(const subject *s, qn_tensor *const *x);
    int op, inputs;
    double lo, hi;
    int rank[INPUTS];
    int64_t dims[INPUTS][5];
};

static uint32_t zero_at[INPUTS]; /* elements of the inputs that are set to 0, a bit each */

typedef struct setting {
    qn_ctx *qn;
    qn_tensor *x[INPUTS];
    scalar *data[INPUTS]; /* as eval.h holds it: changing it changes the value */
    int64_t n[INPUTS];
    qn_tensor *y; /* weighted sum */
} setting;

static qn_tensor *weighted_sum(qn_tensor *y, uint64_t *seed) {
    int64_t dims[QN_MAX_RANK], n = 1;
    int rank = func_dims(y, dims);
    for (int i = 0; i < rank; i++) n *= dims[i];
    double *w = calloc((size_t)n + 1, sizeof *w);
    for (int64_t i = 0; i < n; i++) w[i] = 0.5 + test_uniform(seed);
    y = qn_sum(qn_mul(y, leaf_of(tensor_ctx(y), QN_F64, rank, dims, w)), QN_ALL, false);
    free(w);
    return y;
}

/* The inputs' elements are at least a hundredth apart, so that no tie is within reach. */
static void fill(double *v, int64_t n, double lo, double hi, uint64_t *seed) {
    for (int64_t i = 0; i < n; i++) {
        bool close = true;
        for (int tries = 0; close && tries < 100; tries++) {
            v[i] = lo + (hi - lo) * test_uniform(seed);
            close = fabs(v[i]) < 0.01 && lo < 0;
            for (int64_t k = 0; k < i; k++) close |= fabs(v[i] - v[k]) < 0.01 * fmin(1, hi - lo);
        }
    }
}

static void set_up(setting *t, const subject *s, uint64_t seed) {
    t->qn = open_graph();
    qn_scope_begin(t->qn);
    for (int i = 0; i < s->inputs; i++) {
        t->n[i] = 1;
        for (int k = 0; k < s->rank[i]; k++) t->n[i] *= s->dims[i][k];
        double v[64];
        CHECK(t->n[i] <= 64);
        fill(v, t->n[i], s->lo, s->hi, &seed);
        for (int k = 0; k < 32; k++)
            if (zero_at[i] >> k & 1) v[k] = 0;
        t->x[i] = leaf_of(t->qn, QN_F64, s->rank[i], s->dims[i], v);
        t->data[i] = eval_leaf[eval_leaves - 1];
    }
    t->y = weighted_sum(s->make(s, t->x), &seed);
    CHECK_STR(qn_error(t->qn), "");
}

static void tear_down(setting *t) {
    qn_scope_end(t->qn, 1);
    close_graph(t->qn);
}

static double value_of(qn_tensor *y) {
    eval_value v = eval(y);
    double r = v.v ? v.v[0].f : 0;
    free(v.v);
    return r;
}

/* Compare `got` with the slope of y along each element of input i: a difference of fourth order. */
static void check_slopes(const subject *s, setting *t, int i, qn_tensor *y, qn_tensor *got) {
    eval_value g = eval(got);
    CHECK_INT(g.n, t->n[i]);
    for (int64_t k = 0; k < t->n[i] && k < g.n; k++) {
        double h = 1e-3, at = t->data[i][k].f, f[4];
        const double step[4] = {-2, -1, 1, 2};
        for (int j = 0; j < 4; j++) {
            t->data[i][k].f = at + step[j] * h;
            f[j] = value_of(y);
        }
        t->data[i][k].f = at;
        double slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
        if (fabs(g.v[k].f - slope) <= 1e-6 * fmax(1, fabs(slope))) continue;
        FAIL("%s: d/dx%d[%lld] is %.12g, by differences %.12g", s->name, i, (long long)k, g.v[k].f,
             slope);
    }
    free(g.v);
}

static void check_gradient(const subject *s) {
    setting t;
    set_up(&t, s, 11);
    qn_tensor *g[INPUTS];
    CHECK_INT(qn_grad(t.y, NULL, s->inputs, t.x, g), QN_OK);
    for (int i = 0; i < s->inputs && g[i]; i++) check_slopes(s, &t, i, t.y, g[i]);
    tear_down(&t);
}

/* The gradient of a weighted sum of the gradients. */
static void check_second(const subject *s) {
    setting t;
    set_up(&t, s, 12);
    qn_tensor *g[INPUTS], *h[INPUTS], *sum = NULL;
    uint64_t seed = 13;
    CHECK_INT(qn_grad(t.y, NULL, s->inputs, t.x, g), QN_OK);
    for (int i = 0; i < s->inputs; i++) {
        qn_tensor *part = weighted_sum(g[i], &seed);
        sum = sum ? qn_add(sum, part) : part;
    }
    CHECK_INT(qn_grad(sum, NULL, s->inputs, t.x, h), QN_OK);
    for (int i = 0; i < s->inputs && h[i]; i++) check_slopes(s, &t, i, sum, h[i]);
    tear_down(&t);
}

/* ---- rows of ops.h -------------------------------------------------------------------------- */

static qn_tensor *make_row(const subject *s, qn_tensor *const *x) {
    return build_elem(s->op, s->inputs, x);
}

static void every_elementwise_row(void) {
    for (int op = 1; op < OP_COUNT; op++) {
        const op_row *r = &op_rows[op];
        if (r->class_ != CLASS_ELEM || !r->differentiable || op == OP_CAST || op == OP_WHERE)
            continue;
        subject s = {r->name, make_row, op, r->arity, r->lo, r->hi, {1, 1, 1}, {{5}, {5}, {5}}};
        check_gradient(&s);
        check_second(&s);
        s.rank[0] = 2; /* broadcasting sums */
        s.dims[0][0] = 4;
        s.dims[0][1] = 1;
        check_gradient(&s);
    }
}

static qn_tensor *make_where(const subject *s, qn_tensor *const *x) {
    (void)s;
    return qn_where(qn_lt(x[0], x[1]), x[0], x[1]);
}

static qn_tensor *make_cast_chain(const subject *s, qn_tensor *const *x) {
    (void)s; /* f32 in between rounds, so the slope is taken on both sides of it */
    return qn_mul(qn_cast(qn_cast(x[0], QN_I64), QN_F64), x[0]);
}

static uint32_t mask_of(const subject *s) {
    return (uint32_t)s->dims[1][0];
}

static qn_tensor *make_reduction(const subject *s, qn_tensor *const *x) {
    return build_reduce(s->op, x[0], mask_of(s), s->dims[1][1]);
}

static void every_reduction_over_every_axes(void) {
    const int ops[] = {OP_SUM, OP_PROD, OP_MAX, OP_MIN};
    for (size_t o = 0; o < COUNT_OF(ops); o++)
        for (int mask = 0; mask < 8; mask++) {
            const op_row *r = &op_rows[ops[o]];
            subject s = {r->name, make_reduction, ops[o], 1,
                         r->lo,   r->hi,          {3},    {{2, 3, 4}, {mask, mask & 1}}};
            check_gradient(&s);
            if (mask == 5) check_second(&s);
        }
}

static qn_tensor *make_movement(const subject *s, qn_tensor *const *x) {
    qn_tensor *t = x[0];
    switch (s->op) {
    case OP_RESHAPE:
        return qn_reshape(t, 2, (int64_t[]){4, -1});
    case OP_PERMUTE:
        return qn_permute(t, 3, (int[]){2, 0, 1});
    case OP_EXPAND:
        return func_expand(qn_slice(t, 1, 0, 1, 1), 3, (int64_t[]){2, 5, 4});
    case OP_PAD:
        return func_pad(t, (int64_t[]){1, 2, 0, 0, 1, 2, 3, 0, 1});
    case OP_WINDOW: { /* over both edges */
        sym_store *y = tensor_ctx(t)->graph->syms;
        t = qn_slice(t, 1, 0, 1, 1);
        return build_window(
            t, &(window_attr){2, 1, 2, 1, sym_const(y, -1), sym_const(y, 3), sym_const(y, 3)},
            false);
    }
    case OP_SLICE:
        return func_slice(t, (int64_t[]){1, 1, 1, 0, 2, 2, 1, 2, 2});
    default:
        return qn_flip(t, -1);
    }
}

static void every_movement(void) {
    for (int op = OP_RESHAPE; op <= OP_FLIP; op++) {
        subject s = {op_rows[op].name, make_movement, op, 1, -4, 4, {3}, {{2, 3, 4}}};
        check_gradient(&s);
        check_second(&s);
    }
}

static qn_tensor *indices(qn_ctx *qn, const double *v, int64_t a, int64_t b) {
    return leaf_of(qn, QN_I32, 2, (int64_t[]){a, b}, v);
}

static const double some_indices[12] = {0, 3, 2, 2, 0, 1, -1, 0, 2, 1, 4, 0};

static qn_tensor *make_gather_(const subject *s, qn_tensor *const *x) {
    (void)s;
    return qn_gather(x[0], indices(tensor_ctx(x[0]), some_indices, 4, 3), 0);
}

static qn_tensor *make_scatter_(const subject *s, qn_tensor *const *x) {
    return qn_scatter(x[0], indices(tensor_ctx(x[0]), some_indices, 4, 3), x[1], 0,
                      (qn_combine)s->op);
}

static void gather_and_every_scatter(void) {
    subject s = {"gather", make_gather_, 0, 1, -4, 4, {2}, {{4, 3}}};
    check_gradient(&s);
    check_second(&s);
    for (int c = QN_COMBINE_SET; c <= QN_COMBINE_MIN; c++) {
        subject t = {monoid_rows[c].name, make_scatter_, c, 2, 0.5, 2, {2, 2}, {{4, 3}, {4, 3}}};
        check_gradient(&t);
        check_second(&t);
    }
}

/* Zero, one, two and three zeros among the factors of a product: a gradient by division alone would
 * be NaN, and one that forgets the zeros has no second derivative. */
static void products_of_zeros(void) {
    subject rows = {"prod", make_reduction, OP_PROD, 1, 0.5, 2, {3}, {{2, 3, 4}, {4, 0}}};
    zero_at[0] = 1u << 1 | 1u << 4 | 1u << 6 | 1u << 12 | 1u << 13 | 1u << 14;
    check_gradient(&rows);
    check_second(&rows);
    subject s = {"scatter of products", make_scatter_, QN_COMBINE_PROD, 2, 0.5, 2, {2, 2},
                 {{4, 3}, {4, 3}}};
    memset(zero_at, 0, sizeof zero_at);
    check_second(&s);
    zero_at[0] = 1u << 1 | 1u << 0; /* alone in its bucket; with one of the next line's */
    zero_at[1] = 1u << 3 | 1u << 0 | 1u << 2 | 1u << 8; /* alone; with that; two of src */
    check_gradient(&s);
    check_second(&s);
    zero_at[0] |= 1u << 8; /* three */
    check_gradient(&s);
    check_second(&s);
    memset(zero_at, 0, sizeof zero_at);
}

/* ---- rows of funcs.h ------------------------------------------------------------------------ */

typedef struct elementwise {
    const char *name;
    int arity;
    qn_tensor *(*unary)(qn_tensor *);
    qn_tensor *(*binary)(qn_tensor *, qn_tensor *);
    double lo, hi;
} elementwise;

#define UNARY_FUNC(f)  1, f, NULL
#define BINARY_FUNC(f) 2, NULL, f
#define TENSOR_FUNC(f) 0, NULL, NULL
#define STATUS_FUNC(f) 0, NULL, NULL
static const elementwise rows[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) {#name, KIND##_FUNC(qn_##name), lo, hi},
#include "func/funcs.h"
#undef X
};

static qn_tensor *make_function(const subject *s, qn_tensor *const *x) {
    const elementwise *e = &rows[s->op];
    return e->arity == 1 ? e->unary(x[0]) : e->binary(x[0], x[1]);
}

/* Steps where a slope jumps are kept out by fill(), but for those at whole numbers. */
static bool has_kinks_inside(const char *name) {
    return !strcmp(name, "relu6") || !strcmp(name, "hardswish") || !strcmp(name, "hardsigmoid");
}

static void every_elementwise_function(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!rows[i].arity) continue;
        subject s = {rows[i].name, make_function, (int)i, rows[i].arity,
                     rows[i].lo,   rows[i].hi,    {1, 1}, {{6}, {6}}};
        setting t;
        set_up(&t, &s, 3);
        bool is_float = true;
        const double zero = 0;
        qn_tensor *probe[2] = {leaf_of(t.qn, QN_F64, 0, NULL, &zero),
                               leaf_of(t.qn, QN_F64, 0, NULL, &zero)};
        is_float = dtype_is_float(qn_dtype_of(make_function(&s, probe)));
        tear_down(&t);
        if (!is_float) continue;
        check_gradient(&s);
        if (!has_kinks_inside(rows[i].name)) check_second(&s);
    }
}

/* ---- composed functions --------------------------------------------------------------------- */

static const int64_t padding[4] = {1, 2, 3, 0};

#define SUBJECT(fn, expression)                                                                    \
    static qn_tensor *fn(const subject *s, qn_tensor *const *x) {                                  \
        (void)s;                                                                                   \
        return expression;                                                                         \
    }

static qn_tensor *labels(qn_ctx *qn) {
    const double v[3] = {1, 3, 0};
    return leaf_of(qn, QN_I64, 1, (int64_t[]){3}, v);
}

SUBJECT(softmax, qn_softmax(x[0], -1))
SUBJECT(softmax0, qn_softmax(x[0], 0))
SUBJECT(log_softmax, qn_log_softmax(x[0], -1))
SUBJECT(logsumexp, qn_logsumexp(x[0], 1, false))
SUBJECT(cumsum, qn_cumsum(qn_mul(x[0], x[0]), 1))
SUBJECT(cumprod, qn_cumprod(x[0], 1))
SUBJECT(cumprod0, qn_cumprod(x[0], 0))
SUBJECT(cummax, qn_mul(qn_cummax(x[0], 1), qn_cummin(x[0], 0)))
SUBJECT(logcumsumexp, qn_logcumsumexp(x[0], 1))
SUBJECT(linear_scan, qn_linear_scan(x[0], x[1], 1))
SUBJECT(diff, qn_diff(qn_mul(x[0], x[0]), 2, 1))
SUBJECT(mean, qn_mean(x[0], 0, false))
SUBJECT(variance, qn_variance(x[0], 1, 1, true))
SUBJECT(deviation, qn_std(x[0], QN_ALL, 0, false))
SUBJECT(norm2, qn_norm(x[0], 1, 2, false))
SUBJECT(norm3, qn_norm(x[0], 0, 3, false))
SUBJECT(norm_inf, qn_norm(x[0], 1, (double)INFINITY, false))
SUBJECT(layer_norm, qn_layer_norm(x[0], x[1], x[2], 1e-5))
SUBJECT(rms_norm, qn_rms_norm(x[0], x[1], 1e-5))
SUBJECT(group_norm, qn_group_norm(qn_reshape(x[0], 3, (int64_t[]){1, 4, 3}), x[1], x[2], 2, 1e-5))
SUBJECT(matmul, qn_matmul(x[0], x[1]))
SUBJECT(linear, qn_linear(x[0], x[1], x[2]))
SUBJECT(einsum, qn_einsum(3, x, "ij,kj,k->ki"))
SUBJECT(attention, qn_attention(x[0], x[1], x[2], &QN_ATTENTION_OPTIONS(.causal = true)))
SUBJECT(cross_entropy, qn_cross_entropy(x[0], labels(tensor_ctx(x[0]))))
SUBJECT(embedding, qn_embedding(x[0], labels(tensor_ctx(x[0]))))
SUBJECT(concat, qn_concat(2, x, 0))
SUBJECT(roll, qn_roll(x[0], 1, 2))
SUBJECT(reflect, qn_pad(x[0], (int64_t[]){1, 2, 3, 0}, QN_PAD_REFLECT, 0))
SUBJECT(unfold, qn_unfold(x[0], 1, 2, 1))
SUBJECT(diagonal, qn_diagonal(x[0], 1))
SUBJECT(strided, qn_as_strided(x[0], 2, (int64_t[]){3, 3}, (int64_t[]){2, 1}, 1))
SUBJECT(huber, qn_huber_loss(x[0], x[1], 1))
SUBJECT(bce, qn_bce_with_logits(x[0], x[1]))
SUBJECT(dropout, qn_dropout(x[0], qn_key(tensor_ctx(x[0]), 5), 0.4))
SUBJECT(elu, qn_elu(x[0], 0.7))
SUBJECT(leaky_relu, qn_leaky_relu(x[0], 0.3))
SUBJECT(lerp, qn_lerp(x[0], x[1], x[2]))
SUBJECT(contiguous, qn_exp(qn_contiguous(qn_mul(x[0], x[0]))))
SUBJECT(norm1, qn_norm(x[0], 1, 1, false))
SUBJECT(norm_half, qn_norm(x[0], 0, 0.5, true))
SUBJECT(norm_inverse, qn_norm(x[0], 0, -1, false))
SUBJECT(mean_axes, qn_mean_axes(qn_mul(x[0], x[0]), 2, (int[]){0, 2}, false))
SUBJECT(variance_axes, qn_variance_axes(x[0], 2, (int[]){2, 0}, 1, true))
SUBJECT(nll, qn_nll_loss(qn_mul(x[0], x[0]), labels(tensor_ctx(x[0]))))
SUBJECT(mse, qn_mse_loss(x[0], x[1]))
SUBJECT(l1, qn_l1_loss(x[0], x[1]))
SUBJECT(dot, qn_dot(x[0], x[1]))
SUBJECT(outer, qn_outer(x[0], x[1]))
SUBJECT(tensordot, qn_tensordot(x[0], x[1], 2, (int[]){0, 2}, (int[]){1, 0}))
SUBJECT(triu, qn_triu(qn_mul(x[0], x[0]), 1))
SUBJECT(tril, qn_tril(qn_mul(x[0], x[0]), -1))
SUBJECT(stack, qn_stack(2, (qn_tensor *const[]){qn_mul(x[0], x[1]), x[1]}, 1))
SUBJECT(tile, qn_tile(qn_mul(x[0], x[0]), 3, (int64_t[]){2, 1, 3}))
SUBJECT(repeat_interleave, qn_repeat_interleave(qn_mul(x[0], x[0]), 1, 3))
SUBJECT(take, qn_take(qn_mul(x[0], x[0]), indices(tensor_ctx(x[0]), some_indices, 4, 3), 0))
SUBJECT(take_along_axis,
        qn_take_along_axis(qn_mul(x[0], x[0]), indices(tensor_ctx(x[0]), some_indices, 4, 1), 0))
SUBJECT(index_add, qn_index_add(qn_mul(x[0], x[0]), labels(tensor_ctx(x[0])), qn_exp(x[1]), 0))
SUBJECT(update_slice, qn_update_slice(qn_mul(x[0], x[0]), qn_exp(x[1]), (int64_t[]){1, 2}))
SUBJECT(pad_constant, qn_pad(qn_mul(x[0], x[0]), padding, QN_PAD_CONSTANT, 2))
SUBJECT(pad_edge, qn_pad(qn_mul(x[0], x[0]), padding, QN_PAD_EDGE, 0))
SUBJECT(pad_circular, qn_pad(qn_mul(x[0], x[0]), padding, QN_PAD_CIRCULAR, 0))
SUBJECT(conv3d,
        qn_conv3d(x[0], x[1], x[2],
                  &QN_CONV_OPTIONS(.stride = {2, 2, 2}, .before = {1, 1, 1}, .after = {1, 1, 1})))
SUBJECT(clamped, qn_clamp(x[0], -1, 1.5))

/* Both vectors' grids, so that each is repeated along the other's axis. */
static qn_tensor *meshgrid(const subject *s, qn_tensor *const *x) {
    qn_tensor *out[2] = {NULL, NULL};
    (void)s;
    CHECK_INT(qn_meshgrid(2, x, out), QN_OK);
    return qn_mul(qn_mul(out[0], out[0]), out[1]);
}

static qn_tensor *split(const subject *s, qn_tensor *const *x) {
    qn_tensor *out[2] = {NULL, NULL};
    (void)s;
    CHECK_INT(qn_split(x[0], 1, 2, (int64_t[]){3, 1}, out), QN_OK);
    return qn_mul(qn_mul(out[0], out[0]), out[1]);
}

static qn_tensor *chunk(const subject *s, qn_tensor *const *x) {
    qn_tensor *out[2] = {NULL, NULL};
    (void)s;
    CHECK_INT(qn_chunk(x[0], 0, 2, out), QN_OK);
    return qn_add(qn_sum(qn_mul(out[0], out[0]), 0, false), qn_sum(qn_exp(out[1]), 0, false));
}

static const qn_conv_options strided_over_edges =
    QN_CONV_OPTIONS(.stride = {2, 1}, .dilation = {1, 2}, .before = {1, 2}, .after = {1, 0},
                    .channels_last = true);
SUBJECT(conv, qn_conv(x[0], x[1], x[2], &strided_over_edges))
SUBJECT(conv_mean, qn_mean(qn_conv1d(x[0], x[1], NULL,
                                     &QN_CONV_OPTIONS(.stride = {2}, .before = {1}, .after = {1},
                                                      .groups = 2)),
                           2, false))
SUBJECT(conv_transpose,
        qn_conv_transpose(x[0], x[1], x[2], &QN_CONV_OPTIONS(.stride = {2}, .before = {1})))
SUBJECT(max_pool, qn_max_pool(x[0], (int64_t[]){3}, &QN_CONV_OPTIONS(.stride = {2}, .same = 1)))
SUBJECT(avg_pool, qn_avg_pool(x[0], (int64_t[]){2, 2}, NULL))

static const subject composed[] = {
    {"conv", conv, 0, 3, -2, 2, {4, 4, 1}, {{1, 4, 3, 2}, {2, 2, 3, 2}, {2}}},
    {"mean of conv", conv_mean, 0, 2, -2, 2, {3, 3}, {{2, 4, 5}, {2, 2, 3}}},
    {"conv_transpose", conv_transpose, 0, 3, -2, 2, {3, 3, 1}, {{1, 2, 4}, {2, 2, 3}, {2}}},
    {"max_pool", max_pool, 0, 1, -4, 4, {3}, {{1, 2, 6}}},
    {"avg_pool", avg_pool, 0, 1, -4, 4, {4}, {{1, 2, 4, 5}}},
    {"softmax", softmax, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"softmax over rows", softmax0, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"log_softmax", log_softmax, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"logsumexp", logsumexp, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"cumsum", cumsum, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"cumprod", cumprod, 0, 1, 0.5, 2, {2}, {{3, 4}}},
    {"cumprod over rows", cumprod0, 0, 1, -2, 2, {2}, {{4, 3}}},
    {"cummax and cummin", cummax, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"logcumsumexp", logcumsumexp, 0, 1, -2, 2, {2}, {{3, 4}}},
    {"linear_scan", linear_scan, 0, 2, -2, 2, {2, 2}, {{3, 4}, {3, 4}}},
    {"diff", diff, 0, 1, -4, 4, {2}, {{3, 5}}},
    {"mean", mean, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"variance", variance, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"std", deviation, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"norm 2", norm2, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"norm 3", norm3, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"norm infinity", norm_inf, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"layer_norm", layer_norm, 0, 3, -2, 2, {2, 1, 1}, {{3, 4}, {4}, {4}}},
    {"rms_norm", rms_norm, 0, 2, -2, 2, {2, 1}, {{3, 4}, {4}}},
    {"group_norm", group_norm, 0, 3, -2, 2, {2, 1, 1}, {{3, 4}, {4}, {4}}},
    {"matmul", matmul, 0, 2, -2, 2, {3, 2}, {{2, 3, 4}, {4, 3}}},
    {"matmul by vector", matmul, 0, 2, -2, 2, {1, 2}, {{4}, {4, 3}}},
    {"linear", linear, 0, 3, -2, 2, {2, 2, 1}, {{3, 4}, {2, 4}, {2}}},
    {"einsum", einsum, 0, 3, -2, 2, {2, 2, 1}, {{3, 4}, {2, 4}, {2}}},
    {"attention", attention, 0, 3, -2, 2, {3, 3, 3}, {{2, 3, 2}, {2, 4, 2}, {2, 4, 3}}},
    {"cross_entropy", cross_entropy, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"embedding", embedding, 0, 1, -4, 4, {2}, {{4, 3}}},
    {"concat", concat, 0, 2, -4, 4, {2, 2}, {{2, 3}, {3, 3}}},
    {"roll", roll, 0, 1, -4, 4, {2}, {{2, 5}}},
    {"pad reflect", reflect, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"unfold", unfold, 0, 1, -4, 4, {2}, {{2, 5}}},
    {"diagonal", diagonal, 0, 1, -4, 4, {3}, {{2, 3, 4}}},
    {"as_strided", strided, 0, 1, -4, 4, {1}, {{9}}},
    {"huber", huber, 0, 2, -4, 4, {2, 2}, {{2, 3}, {2, 3}}},
    {"bce", bce, 0, 2, 0.1, 0.9, {2, 2}, {{2, 3}, {2, 3}}},
    {"dropout", dropout, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"elu", elu, 0, 1, -4, 4, {1}, {{8}}},
    {"leaky_relu", leaky_relu, 0, 1, -4, 4, {1}, {{8}}},
    {"lerp", lerp, 0, 3, -2, 2, {1, 2, 1}, {{3}, {2, 3}, {3}}},
    {"contiguous", contiguous, 0, 1, -1, 1, {2}, {{2, 3}}},
    {"norm 1", norm1, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"norm 1/2", norm_half, 0, 1, 0.5, 4, {2}, {{3, 2}}},
    {"norm -1", norm_inverse, 0, 1, 0.5, 4, {2}, {{3, 2}}},
    {"mean_axes", mean_axes, 0, 1, -4, 4, {3}, {{2, 3, 4}}},
    {"variance_axes", variance_axes, 0, 1, -4, 4, {3}, {{2, 3, 4}}},
    {"nll_loss", nll, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"mse_loss", mse, 0, 2, -4, 4, {2, 1}, {{2, 3}, {3}}},
    {"l1_loss", l1, 0, 2, -4, 4, {2, 2}, {{2, 3}, {2, 3}}},
    {"dot", dot, 0, 2, -2, 2, {1, 1}, {{5}, {5}}},
    {"outer", outer, 0, 2, -2, 2, {1, 1}, {{3}, {4}}},
    {"tensordot", tensordot, 0, 2, -2, 2, {3, 3}, {{2, 3, 4}, {4, 2, 3}}},
    {"triu", triu, 0, 1, -4, 4, {3}, {{2, 3, 4}}},
    {"tril", tril, 0, 1, -4, 4, {2}, {{4, 3}}},
    {"stack", stack, 0, 2, -2, 2, {2, 2}, {{2, 3}, {2, 3}}},
    {"tile", tile, 0, 1, -4, 4, {2}, {{2, 3}}},
    {"repeat_interleave", repeat_interleave, 0, 1, -4, 4, {2}, {{2, 3}}},
    {"meshgrid", meshgrid, 0, 2, -2, 2, {1, 1}, {{3}, {4}}},
    {"split", split, 0, 1, -2, 2, {2}, {{3, 4}}},
    {"chunk", chunk, 0, 1, -2, 2, {2}, {{3, 4}}},
    {"take", take, 0, 1, -4, 4, {2}, {{4, 3}}},
    {"take_along_axis", take_along_axis, 0, 1, -4, 4, {2}, {{4, 3}}},
    {"index_add", index_add, 0, 2, -2, 2, {2, 2}, {{4, 2}, {3, 2}}},
    {"update_slice", update_slice, 0, 2, -2, 2, {2, 2}, {{3, 4}, {2, 2}}},
    {"pad constant", pad_constant, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"pad edge", pad_edge, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"pad circular", pad_circular, 0, 1, -4, 4, {2}, {{3, 4}}},
    {"conv3d", conv3d, 0, 3, -2, 2, {5, 5, 1}, {{1, 2, 3, 3, 2}, {2, 2, 2, 2, 2}, {2}}},
    {"clamp", clamped, 0, 1, -4, 4, {1}, {{8}}},
    {"where", make_where, 0, 2, -4, 4, {1, 1}, {{6}, {6}}},
    {"cast through integers", make_cast_chain, 0, 1, 0.1, 0.9, {1}, {{6}}},
};

static void composed_functions(void) {
    for (size_t i = 0; i < COUNT_OF(composed); i++) check_gradient(&composed[i]);
}

static void composed_functions_twice(void) {
    for (size_t i = 0; i < COUNT_OF(composed); i++) check_second(&composed[i]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(every_elementwise_row);
    RUN(every_reduction_over_every_axes);
    RUN(every_movement);
    RUN(gather_and_every_scatter);
    RUN(products_of_zeros);
    RUN(every_elementwise_function);
    RUN(composed_functions);
    RUN(composed_functions_twice);
    return test_end();
}
