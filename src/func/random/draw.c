/* draw.c - distributions that are drawn by rejection, and orders and matrices that are random.
 *
 * What takes a loop of unknown length is a routine, DRAW (routine/draw.c): gamma and Poisson
 * variates and normal ones between bounds. Beta and Dirichlet variates are ratios of gamma ones,
 * made of logarithms, since the variates of small shapes are below the smallest number. None of
 * these has a derivative by its parameters. */
#include "func/func.h"

#include <math.h>

static bool key_given(qn_tensor *key, const char *name) {
    if (!key) return false;
    if (qn_dtype_of(key) == QN_U32 && func_rank(key) == 1 && qn_dim(key, 0) == 2) return true;
    return fail_null(tensor_ctx(key), QN_EARG, "%s: a key is u32 of shape [2]",
                     graph_name(tensor_ctx(key), name));
}

/* f64 numbers of a shape. */
static qn_tensor *draw(int kind, qn_tensor *key, qn_tensor *parameter, int rank,
                       const int64_t *dims) {
    const call_attr c = {ROUTINE_DRAW, 0, 1, {kind}};
    tuple_id shape;
    qn_tensor *const both[2] = {key, qn_detach(func_as(parameter, QN_F64))};
    if (!both[1] || !shape_from_user(tensor_ctx(key), "draw", rank, dims, &shape)) return NULL;
    return build_call(&c, QN_F64, shape, 2, both);
}

static qn_tensor *draw_each(int kind, qn_tensor *key, qn_tensor *parameter) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(parameter, dims);
    return parameter ? draw(kind, key, parameter, rank, dims) : NULL;
}

qn_tensor *qn_gamma(qn_tensor *key, qn_tensor *alpha) {
    func_frame f = func_on("gamma", ARG(key), ARG(alpha));
    alpha = func_float(alpha);
    if (!key_given(key, "gamma") || !alpha) return func_end(f, NULL);
    qn_tensor *x = draw_each(DRAW_GAMMA, key, alpha);
    return func_end(f, x ? func_as(x, qn_dtype_of(alpha)) : NULL);
}

/* a / (a + b) of two gamma variates. */
qn_tensor *qn_beta(qn_tensor *key, qn_tensor *a, qn_tensor *b) {
    func_frame f = func_on("beta", ARG(key), ARG(a), ARG(b));
    a = func_float(a);
    b = func_float(b);
    if (!key_given(key, "beta") || !a || !b) return func_end(f, NULL);
    qn_dtype d = dtype_promote(qn_dtype_of(a), qn_dtype_of(b));
    qn_tensor *out[2] = {NULL};
    if (qn_broadcast_arrays(2, (qn_tensor *const[]){a, b}, out)) return func_end(f, NULL);
    qn_tensor *x = draw_each(DRAW_LOG_GAMMA, qn_key_fold(key, 0), out[0]);
    qn_tensor *y = draw_each(DRAW_LOG_GAMMA, qn_key_fold(key, 1), out[1]);
    return func_end(f, x && y ? func_as(func_exact_sigmoid(qn_sub(x, y)), d) : NULL);
}

qn_tensor *qn_dirichlet(qn_tensor *key, qn_tensor *alpha) {
    func_frame f = func_on("dirichlet", ARG(key), ARG(alpha));
    alpha = func_float(alpha);
    if (!key_given(key, "dirichlet") || !alpha) return func_end(f, NULL);
    if (!func_rank(alpha))
        return func_end(f, fail_null(f.qn, QN_ESHAPE, "dirichlet: alpha is a scalar, not [.., C]"));
    qn_tensor *x = func_exact_softmax(draw_each(DRAW_LOG_GAMMA, key, alpha));
    return func_end(f, x ? func_as(x, qn_dtype_of(alpha)) : NULL);
}

qn_tensor *qn_poisson(qn_tensor *key, qn_tensor *rate) {
    func_frame f = func_on("poisson", ARG(key), ARG(rate));
    rate = func_float(rate);
    if (!key_given(key, "poisson") || !rate) return func_end(f, NULL);
    return func_end(f, qn_cast(draw_each(DRAW_POISSON, key, rate), QN_I64));
}

qn_tensor *qn_truncated_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                               double lo, double hi) {
    func_frame f = func_on("truncated_normal", ARG(key));
    const int64_t two = 2;
    if (!key_given(key, "truncated_normal")) return func_end(f, NULL);
    if (!dtype_is_float(dtype))
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "truncated_normal: gives floats, not %s",
                                     qn_dtype_name(dtype)));
    if (!(lo < hi))
        return func_end(f, fail_null(f.qn, QN_ERANGE, "truncated_normal: from %g to %g", lo, hi));
    qn_tensor *i = func_iota(f.qn, QN_I64, 1, &two, 0);
    qn_tensor *bounds =
        qn_where(qn_eq(i, qn_like(i, 0)), qn_scalar(f.qn, QN_F64, lo), qn_scalar(f.qn, QN_F64, hi));
    qn_tensor *x = bounds ? draw(DRAW_TRUNCATED, key, bounds, rank, shape) : NULL;
    return func_end(f, x ? func_as(x, dtype) : NULL);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* The order of random numbers of 64 bits: two are equal once in 3.7 * 10^19 / n^2 orders. */
static qn_tensor *permuted(qn_tensor *key, int64_t n) {
    qn_tensor *high = qn_random_bits(qn_key_fold(key, 0), 1, &n);
    qn_tensor *low = qn_random_bits(qn_key_fold(key, 1), 1, &n);
    if (!high || !low) return NULL;
    high = qn_cast(high, QN_U64);
    low = qn_cast(low, QN_U64);
    return qn_argsort(qn_or(qn_shl(high, qn_like(high, 32)), low), 0, false);
}

qn_tensor *qn_permutation(qn_tensor *key, int64_t n) {
    func_frame f = func_on("permutation", ARG(key));
    return func_end(f, key_given(key, "permutation") ? permuted(key, n) : NULL);
}

qn_tensor *qn_shuffle(qn_tensor *key, qn_tensor *x, int axis) {
    func_frame f = func_on("shuffle", ARG(key), ARG(x));
    if (!key_given(key, "shuffle") || !func_axis(x, axis, &axis)) return func_end(f, NULL);
    return func_end(f, func_take(x, permuted(key, qn_dim(x, axis)), axis));
}

/* The n largest of logarithms plus Gumbel noise are drawn one after the other without putting back
 * (Vieira 2014). */
qn_tensor *qn_multinomial_distinct(qn_tensor *key, qn_tensor *weights, int64_t n) {
    func_frame f = func_on("multinomial_distinct", ARG(key), ARG(weights));
    int64_t dims[QN_MAX_RANK];
    qn_tensor *index = NULL;
    if (!key_given(key, "multinomial_distinct") || !weights) return func_end(f, NULL);
    if (!func_rank(weights))
        return func_end(f, fail_null(f.qn, QN_ESHAPE, "multinomial_distinct: weights are [.., C]"));
    qn_tensor *logits = func_exact_log(func_widen(func_float(weights)));
    int rank = func_dims(logits, dims);
    qn_tensor *noise = qn_gumbel(key, qn_dtype_of(logits), rank, dims);
    qn_topk(qn_add(logits, noise), n, -1, true, NULL, &index);
    return func_end(f, index);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Q of a normal matrix, its columns turned to R's signs: then all orthogonal matrices are alike
 * (Mezzadri 2007). */
qn_tensor *qn_orthogonal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                         double gain) {
    func_frame f = func_on("orthogonal", ARG(key));
    if (!key_given(key, "orthogonal")) return func_end(f, NULL);
    if (rank < 2 || rank > QN_MAX_RANK || !shape || !dtype_is_float(dtype))
        return func_end(f, fail_null(f.qn, QN_EARG,
                                     "orthogonal: rank %d of %s, not [out, in..] of "
                                     "floats",
                                     rank, qn_dtype_name(dtype)));
    int64_t rows = shape[0], columns = 1;
    for (int i = 1; i < rank; i++) columns = dim_op(f.qn, columns, '*', shape[i]);
    bool wide = rows < columns;
    int64_t tall[2] = {wide ? columns : rows, wide ? rows : columns};
    qn_tensor *q = NULL, *r = NULL;
    qn_qr(qn_randn(key, dtype == QN_F64 ? QN_F64 : QN_F32, 2, tall), &q, &r);
    if (!q || !r) return func_end(f, NULL);
    qn_tensor *d = qn_diagonal(r, 0), *minus = qn_lt(d, qn_like(d, 0));
    q = qn_mul(q, qn_where(minus, qn_like(d, -gain), qn_like(d, gain)));
    if (wide) q = qn_transpose(q, 0, 1);
    return func_end(f, func_as(func_reshape(q, rank, shape), dtype));
}
