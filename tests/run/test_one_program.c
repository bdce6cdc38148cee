/* test_one_program.c - another number as an argument makes no other program.
 *
 * Each row calls a public function with fifty values of one argument that is a scalar, an offset or
 * a place, in shapes that stay, and its gradient: what the first few have made serves for the rest,
 * counted by statistics. Values that are made something of, the ends of an axis and numbers such as
 * 0 and 1, are not among them (plan/lift.c). A function with an argument of a kind that has neither
 * a row nor a reason below is a failure. */
#include "quern.h"
#include "quern_nn.h"
#include "test.h"

enum { ROWS = 70, COLUMNS = 66, VALUES = 50, FIRST = 2 };

typedef struct args {
    qn_ctx *qn;
    qn_tensor *x, *y;  /* [ROWS, COLUMNS], from 0.1 to 0.9 */
    qn_tensor *image;  /* [2, 4, 9, 8] */
    qn_tensor *q;      /* [4, 12, 8] */
    qn_tensor *vector; /* [COLUMNS] */
    qn_tensor *places; /* [ROWS], whole numbers below COLUMNS */
    qn_tensor *key;
    double v, w; /* from 1.5 on; within (0.1, 0.9) */
    int64_t k;   /* 2 to 51 */
} args;

static const int64_t shape[2] = {ROWS, COLUMNS};
#define X_ a->x
#define Y_ a->y
#define V_ a->v
#define W_ a->w
#define K_ a->k
#define DIMS(...)                                                                                  \
    (const int64_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }
#define AXES(...)                                                                                  \
    (const int[]) {                                                                                \
        __VA_ARGS__                                                                                \
    }

static qn_tensor *signs_of(args *a) {
    return qn_sub(qn_mul(qn_lt(Y_, qn_like(Y_, 0.5)), qn_like(Y_, 2)), qn_like(Y_, 1));
}

/* Matrices whose diagonals are as long for all offsets. */
static qn_tensor *wide(args *a) {
    return qn_slice(X_, 0, 0, 9, 1);
}

static qn_tensor *tall(args *a) {
    return qn_slice(X_, 1, 0, 9, 1);
}

static qn_tensor *batch_norm_of(args *a) {
    qn_tensor *out[3];
    qn_tensor *one = qn_ones(a->qn, QN_F32, 1, DIMS(4));
    return qn_batch_norm_training(a->image, one, one, W_ / 100, out) ? NULL : out[0];
}

static qn_tensor *indexed(args *a) {
    const qn_index_item items[] = {QN_SLICE(K_, K_ + 9, 1), QN_AT_PLACE(K_)};
    return qn_index(X_, 2, items);
}

static qn_tensor *put_at(args *a) {
    const qn_index_item items[] = {QN_SLICE(K_, K_ + 9, 1), QN_AT_PLACE(K_)};
    return qn_index_put(X_, 2, items, qn_full(a->qn, QN_F32, 1, DIMS(9), 3), QN_COMBINE_SET);
}

/* A step of an optimizer by options as the table below sets them. */
static qn_tensor *step_of(args *a, qn_method method, qn_optimizer_options o) {
    qn_tensor *state[3] = {NULL}, *out[4] = {NULL};
    o.method = method;
    o.rate = 0.01;
    for (int i = 0; i < 3; i++) state[i] = qn_optimizer_begin(X_, &o, i);
    qn_tensor *rate = qn_full(a->qn, QN_F32, 0, NULL, V_),
              *count = qn_full(a->qn, QN_F32, 0, NULL, V_);
    if (qn_optimizer_update(X_, Y_, &o, rate, NULL, count, state, out)) return NULL;
    return out[0];
}

static qn_tensor *stepped(args *a, qn_method method, size_t field) {
    qn_optimizer_options o = qn_optimizer_defaults(method);
    double value = W_ * 0.99;
    memcpy((char *)&o + field, &value, sizeof value);
    return step_of(a, method, o);
}
#define STEP(method, field) stepped(a, method, offsetof(qn_optimizer_options, field))

/* X(function, what varies, call) */
#define SCALARS(X)                                                                                 \
    X(full, value, qn_full(a->qn, QN_F32, 2, shape, V_))                                           \
    X(full_int, value, qn_full_int(a->qn, QN_I64, 2, shape, K_))                                   \
    X(scalar, value, qn_scalar(a->qn, QN_F32, V_))                                                 \
    X(scalar_int, value, qn_scalar_int(a->qn, QN_I32, K_))                                         \
    X(like, value, qn_mul(X_, qn_like(X_, V_)))                                                    \
    X(weak, value, qn_mul(X_, qn_weak(X_, V_)))                                                    \
    X(weak_int, value, qn_mul(X_, qn_weak_int(X_, K_)))                                            \
    X(full_like, value, qn_full_like(X_, V_))                                                      \
    X(arange, start, qn_arange(a->qn, QN_F32, V_, V_ + 8.5, 1))                                    \
    X(arange, step, qn_arange(a->qn, QN_F32, 2, 2 + 8.5 * V_, V_))                                 \
    X(linspace, start, qn_linspace(a->qn, QN_F32, V_, 30, 20))                                     \
    X(linspace, stop, qn_linspace(a->qn, QN_F32, 0.5, 30 + V_, 20))                                \
    X(elu, alpha, qn_elu(qn_neg(X_), V_))                                                          \
    X(leaky_relu, slope, qn_leaky_relu(qn_neg(X_), W_))                                            \
    X(clamp, lo, qn_clamp(X_, W_, 2))                                                              \
    X(clamp, hi, qn_clamp(X_, 0.05, W_))                                                           \
    X(celu, alpha, qn_celu(qn_neg(X_), V_))                                                        \
    X(hardtanh, hi, qn_hardtanh(X_, 0.05, W_))                                                     \
    X(threshold, threshold, qn_threshold(X_, W_, 3))                                               \
    X(threshold, value, qn_threshold(X_, 0.5, V_))                                                 \
    X(softplus_beta, beta, qn_softplus_beta(X_, V_, 20))                                           \
    X(softplus_beta, threshold, qn_softplus_beta(X_, 1, V_))                                       \
    X(nan_to_num, nan, qn_nan_to_num(X_, V_, 9, -9))                                               \
    X(nan_to_num, infinity, qn_nan_to_num(X_, 0, V_, -9))                                          \
    X(isclose, rtol, qn_isclose(X_, Y_, W_, 0.3, true))                                            \
    X(isclose, atol, qn_isclose(X_, Y_, 0.3, W_, true))                                            \
    X(allclose, atol, qn_allclose(X_, Y_, 0.3, W_, false))                                         \
    X(variance, correction, qn_variance(X_, 1, V_, false))                                         \
    X(variance_axes, correction, qn_variance_axes(X_, 2, AXES(0, 1), V_, false))                   \
    X(std, correction, qn_std(X_, 1, V_, false))                                                   \
    X(std_axes, correction, qn_std_axes(X_, 2, AXES(0, 1), V_, false))                             \
    X(nanvariance, correction, qn_nanvariance(X_, 1, V_, false))                                   \
    X(nanvariance_axes, correction, qn_nanvariance_axes(X_, 2, AXES(0, 1), V_, false))             \
    X(nanstd, correction, qn_nanstd(X_, 1, V_, false))                                             \
    X(nanstd_axes, correction, qn_nanstd_axes(X_, 2, AXES(0, 1), V_, false))                       \
    X(norm, p, qn_norm(X_, 1, V_, false))                                                          \
    X(norm_axes, p, qn_norm_axes(X_, 2, AXES(0, 1), V_, false))                                    \
    X(pad, value, qn_pad(X_, DIMS(1, 2, 2, 1), QN_PAD_CONSTANT, V_))                               \
    X(index_fill, value, qn_index_fill(X_, qn_slice(a->places, 0, 0, 9, 1), V_, 1))                \
    X(pinv, rtol, qn_pinv(qn_slice(X_, 0, 0, 5, 1), W_))                                           \
    X(matrix_rank, rtol, qn_matrix_rank(qn_slice(X_, 0, 0, 5, 1), W_))                             \
    X(fftfreq, d, qn_fftfreq(a->qn, QN_F32, 12, V_))                                               \
    X(rfftfreq, d, qn_rfftfreq(a->qn, QN_F32, 12, V_))                                             \
    X(layer_norm, eps, qn_layer_norm(X_, a->vector, a->vector, W_ / 100))                          \
    X(rms_norm, eps, qn_rms_norm(X_, a->vector, W_ / 100))                                         \
    X(group_norm, eps, qn_group_norm(a->image, NULL, NULL, 2, W_ / 100))                           \
    X(layer_norm_axes, eps, qn_layer_norm_axes(X_, 1, AXES(1), a->vector, NULL, W_ / 100))         \
    X(instance_norm, eps, qn_instance_norm(a->image, NULL, NULL, W_ / 100))                        \
    X(batch_norm, eps, qn_batch_norm(X_, a->vector, a->vector, a->vector, a->vector, W_ / 100))    \
    X(batch_norm_training, eps, batch_norm_of(a))                                                  \
    X(dropout, p, qn_dropout(X_, a->key, W_))                                                      \
    X(huber_loss, delta, qn_huber_loss(X_, Y_, W_))                                                \
    X(rope, base, qn_rope(a->q, qn_iota(a->qn, QN_I64, 1, DIMS(12), 0), 100 * V_, true))           \
    X(triplet_margin_loss, margin, qn_triplet_margin_loss(X_, Y_, qn_neg(Y_), V_, QN_REDUCE_MEAN)) \
    X(cosine_similarity, eps, qn_cosine_similarity(X_, Y_, 1, W_ / 100))                           \
    X(cosine_embedding_loss, margin,                                                               \
      qn_cosine_embedding_loss(X_, Y_, qn_select(signs_of(a), 1, 0), W_, QN_REDUCE_MEAN))          \
    X(margin_ranking_loss, margin,                                                                 \
      qn_margin_ranking_loss(X_, Y_, signs_of(a), W_, QN_REDUCE_MEAN))                             \
    X(hinge_embedding_loss, margin, qn_hinge_embedding_loss(X_, signs_of(a), V_, QN_REDUCE_MEAN))  \
    X(focal_loss, alpha, qn_focal_loss(X_, Y_, W_, 2, QN_REDUCE_MEAN))                             \
    X(focal_loss, gamma, qn_focal_loss(X_, Y_, 0.25, V_, QN_REDUCE_MEAN))                          \
    X(gaussian_nll_loss, eps, qn_gaussian_nll_loss(X_, Y_, X_, W_ / 100, QN_REDUCE_MEAN))          \
    X(bernoulli, p, qn_bernoulli(a->key, 2, shape, W_))                                            \
    X(kaiming_normal, gain, qn_kaiming_normal(a->key, QN_F32, 2, shape, V_))                       \
    X(kaiming_uniform, gain, qn_kaiming_uniform(a->key, QN_F32, 2, shape, V_))                     \
    X(xavier_normal, gain, qn_xavier_normal(a->key, QN_F32, 2, shape, V_))                         \
    X(xavier_uniform, gain, qn_xavier_uniform(a->key, QN_F32, 2, shape, V_))                       \
    X(truncated_normal, lo, qn_truncated_normal(a->key, QN_F32, 2, shape, -V_, 2))                 \
    X(truncated_normal, hi, qn_truncated_normal(a->key, QN_F32, 2, shape, -2, V_))                 \
    X(orthogonal, gain, qn_orthogonal(a->key, QN_F32, 2, DIMS(8, 5), V_))                          \
    X(attention, scale, qn_attention(a->q, a->q, a->q, &QN_ATTENTION_OPTIONS(.scale = V_)))        \
    X(attention, cap, qn_attention(a->q, a->q, a->q, &QN_ATTENTION_OPTIONS(.cap = V_)))            \
    X(cross_entropy_with, smoothing,                                                               \
      qn_cross_entropy_with(X_, a->places, &QN_CROSS_ENTROPY_OPTIONS(.smoothing = W_)))            \
    X(nll_loss_with, smoothing,                                                                    \
      qn_nll_loss_with(X_, a->places, &QN_CROSS_ENTROPY_OPTIONS(.smoothing = W_)))                 \
    X(pool, p, qn_pool(a->image, DIMS(2, 2), &QN_POOL_OPTIONS(.kind = QN_POOL_NORM, .p = V_)))     \
    X(interpolate, scale,                                                                          \
      qn_interpolate(a->image, DIMS(14, 12),                                                       \
                     &QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_LINEAR, .scale = {V_, 1.5})))  \
    X(interpolate, nearest,                                                                        \
      qn_interpolate(a->image, DIMS(14, 12), &QN_INTERPOLATE_OPTIONS(.scale = {V_, 1.5})))         \
    X(interpolate, cubic,                                                                          \
      qn_interpolate(a->image, DIMS(14, 12),                                                       \
                     &QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_CUBIC, .scale = {V_, 1.5})))   \
    X(optimizer_update, sgd_momentum, STEP(QN_SGD, momentum))                                      \
    X(optimizer_update, sgd_weight_decay, STEP(QN_SGD, weight_decay))                              \
    X(optimizer_update, adamw_beta1, STEP(QN_ADAMW, beta1))                                        \
    X(optimizer_update, adamw_beta2, STEP(QN_ADAMW, beta2))                                        \
    X(optimizer_update, adamw_epsilon, STEP(QN_ADAMW, epsilon))                                    \
    X(optimizer_update, adamw_weight_decay, STEP(QN_ADAMW, weight_decay))                          \
    X(optimizer_update, rmsprop_momentum, STEP(QN_RMSPROP, momentum))                              \
    X(optimizer_update, rmsprop_beta2, STEP(QN_RMSPROP, beta2))                                    \
    X(optimizer_update, adagrad_rate_decay, STEP(QN_ADAGRAD, rate_decay))                          \
    X(optimizer_update, adagrad_start, STEP(QN_ADAGRAD, start))                                    \
    X(optimizer_update, lion_beta1, STEP(QN_LION, beta1))                                          \
    X(optimizer_update, adadelta_beta2, STEP(QN_ADADELTA, beta2))                                  \
    X(optimizer_update, adamax_beta1, STEP(QN_ADAMAX, beta1))                                      \
    X(optimizer_update, adafactor_epsilon2, STEP(QN_ADAFACTOR, epsilon2))                          \
    X(optimizer_update, lamb_beta1, STEP(QN_LAMB, beta1))                                          \
    X(optimizer_update, muon_momentum, STEP(QN_MUON, momentum))                                    \
    X(optimizer_update, sophia_threshold, STEP(QN_SOPHIA, threshold))

#define OFFSETS(X)                                                                                 \
    X(slice, start, qn_slice(X_, 0, K_, K_ + 7, 1))                                                \
    X(select, index, qn_select(X_, 1, K_))                                                         \
    X(as_strided, offset, qn_as_strided(X_, 2, DIMS(5, 4), DIMS(9, 2), K_))                        \
    X(pad, before, qn_pad(X_, DIMS(K_, 60 - K_, 0, 0), QN_PAD_CONSTANT, 0))                        \
    X(pad, value_before, qn_pad(X_, DIMS(K_, 60 - K_, 0, 0), QN_PAD_CONSTANT, V_))                 \
    X(roll, shift, qn_roll(X_, 0, K_))                                                             \
    X(roll, shift_inside, qn_roll(X_, 1, -K_))                                                     \
    X(roll, composed, qn_sin(qn_mul(qn_roll(qn_exp(X_), 1, K_), Y_)))                              \
    X(roll_axes, shifts, qn_roll_axes(X_, 2, AXES(0, 1), DIMS(K_, 60 - K_)))                       \
    X(triu, k, qn_triu(X_, K_))                                                                    \
    X(triu, below, qn_triu(X_, -K_))                                                               \
    X(tril, k, qn_tril(X_, K_))                                                                    \
    X(tril, below, qn_tril(X_, -K_))                                                               \
    X(diagonal, right, qn_diagonal(wide(a), K_))                                                   \
    X(diagonal, down, qn_diagonal(tall(a), -K_))                                                   \
    X(diagonal, composed, qn_exp(qn_diagonal(qn_sin(wide(a)), K_)))                                \
    X(diagonal_axes, right, qn_diagonal_axes(tall(a), K_, 1, 0))                                   \
    X(diagonal_scatter, right, qn_diagonal_scatter(wide(a), qn_slice(a->vector, 0, 0, 9, 1), K_))  \
    X(diagonal_scatter, down, qn_diagonal_scatter(tall(a), qn_slice(a->vector, 0, 0, 9, 1), -K_))  \
    X(diag, right, qn_diag(wide(a), K_))                                                           \
    X(trace, right, qn_trace(wide(a), K_))                                                         \
    X(trace, down, qn_trace(tall(a), -K_))                                                         \
    X(attention, window,                                                                           \
      qn_attention(X_, Y_, X_, &QN_ATTENTION_OPTIONS(.causal = true, .window = K_)))               \
    X(attention, window_ahead, qn_attention(X_, Y_, X_, &QN_ATTENTION_OPTIONS(.window = K_)))      \
    X(attention, window_of_few,                                                                    \
      qn_attention(wide(a), Y_, X_, &QN_ATTENTION_OPTIONS(.causal = true, .window = K_)))          \
    X(narrow, start, qn_narrow(X_, 0, K_, 7))                                                      \
    X(slice_scatter, start, qn_slice_scatter(X_, qn_slice(Y_, 0, 0, 7, 1), 0, K_, K_ + 7, 1))      \
    X(select_scatter, index, qn_select_scatter(X_, qn_select(Y_, 1, 0), 1, K_))                    \
    X(update_slice, start, qn_update_slice(X_, qn_slice(Y_, 0, 0, 7, 1), DIMS(K_, 0)))             \
    X(index, at, indexed(a))                                                                       \
    X(index_put, at, put_at(a))                                                                    \
    X(cross_entropy_ignoring, ignore, qn_cross_entropy_ignoring(X_, a->places, K_))                \
    X(cross_entropy_with, ignore,                                                                  \
      qn_cross_entropy_with(X_, a->places,                                                         \
                            &QN_CROSS_ENTROPY_OPTIONS(.ignore = K_, .ignores = true)))             \
    X(key, seed, qn_uniform(qn_key(a->qn, (uint64_t)K_), QN_F32, 2, shape))                        \
    X(randint, lo, qn_randint(a->key, QN_I32, 2, shape, K_, 900))                                  \
    X(randint, hi, qn_randint(a->key, QN_I32, 2, shape, 3, 900 + K_))                              \
    X(rot90, turns, qn_rot90(X_, 4 * K_ + 1, 0, 1))

typedef struct row {
    const char *name, *what;
    qn_tensor *(*call)(args *a);
} row;

#define DEFINE(name, what, expression)                                                             \
    static qn_tensor *name##_by_##what(args *a) {                                                  \
        return expression;                                                                         \
    }
SCALARS(DEFINE)
OFFSETS(DEFINE)
#define ROW(name, what, expression) {#name, #what, name##_by_##what},
static const row rows[] = {SCALARS(ROW) OFFSETS(ROW)};
enum { COUNT = sizeof rows / sizeof *rows };

/* Arguments that make other shapes, or another computation, and why. */
static const struct {
    const char *name, *why;
} structural[] = {
    {"eye", "sizes"},
    {"mx_quantize", "the size of a block"},
    {"unfold", "sizes"},
    {"repeat_interleave", "the result's size"},
    {"one_hot", "the result's size"},
    {"nonzero", "the result's size"},
    {"masked_select", "the result's size"},
    {"topk", "the result's size"},
    {"kthvalue", "what a routine is told: another plan, and no kernel"},
    {"key_fold", "hashed where graphs are made: a few more plans, and no kernel"},
    {"bincount", "the result's size"},
    {"pixel_shuffle", "sizes"},
    {"pixel_unshuffle", "sizes"},
    {"multinomial", "the result's size"},
    {"multinomial_distinct", "the result's size"},
    {"permutation", "the result's size"},
    {"diag_embed", "the result's size"},
    {"matrix_power", "how many products there are"},
    {"quantile", "between which two elements it lies, whose gradients are pieces around them"},
    {"arange_int", "places, of which bounds are proved where they are an index"},
    {"ctc_loss", "the blank is a part of indices"},
    {"fft", "the result's size"},
    {"ifft", "the result's size"},
    {"rfft", "the result's size"},
    {"irfft", "the result's size"},
    {"hfft", "the result's size"},
    {"ihfft", "the result's size"},
    {"irfftn", "the result's size"},
    {"irfft2", "the result's size"},
};

/* ---- counting -------------------------------------------------------------------------------- */

static qn_tensor *ramp(qn_ctx *qn, int rank, const int64_t *dims) {
    static float data[ROWS * COLUMNS];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    for (int64_t i = 0; i < n; i++) data[i] = 0.1f + 0.8f * (float)(i * 37 % n) / (float)n;
    return qn_from(qn, QN_F32, rank, dims, data);
}

static bool open_args(args *a) {
    const int64_t columns = COLUMNS, many = ROWS;
    static int64_t places[ROWS];
    for (int i = 0; i < ROWS; i++) places[i] = i * 7 % COLUMNS;
    *a = (args){.qn = qn_open(&QN_OPTIONS(.device = "cpu"))};
    if (!a->qn) return false;
    qn_set(a->qn, "wisdom", "off");
    a->x = ramp(a->qn, 2, shape);
    a->y = qn_sub(qn_like(a->x, 1), a->x);
    a->image = ramp(a->qn, 4, DIMS(2, 4, 9, 8));
    a->q = ramp(a->qn, 3, DIMS(4, 12, 8));
    a->vector = ramp(a->qn, 1, &columns);
    a->places = qn_from(a->qn, QN_I64, 1, &many, places);
    a->key = qn_from(a->qn, QN_U32, 1, DIMS(2), (uint32_t[]){5, 6});
    return !qn_realize(1, &a->y);
}

/* The result, and the gradients of the sum of its squares. */
static void compute(args *a, const row *r) {
    qn_tensor *const leaf[] = {a->x, a->image, a->q};
    qn_tensor *slope[3] = {NULL}, *y = r->call(a);
    if (!y) return;
    qn_realize(1, &y);
    qn_dtype d = qn_dtype_of(y);
    if (d != QN_F32) return;
    qn_tensor *loss = qn_sum(qn_square(qn_add(y, qn_like(y, 1.25))), QN_ALL, false);
    qn_grad(loss, NULL, 3, leaf, slope);
    if (qn_error_code(a->qn) == QN_OK) qn_realize(3, slope);
    qn_clear_error(a->qn); /* it does not depend on any, or has no gradient */
}

static void makes_one_program_of_all_values(void) {
    for (int k = 0; k < COUNT; k++) {
        args a;
        if (!open_args(&a)) continue;
        qn_stats first = {0}, last;
        for (int i = 0; i < VALUES; i++) {
            a.k = 2 + i;
            a.v = 1.5 + i / 128.0 + 0.001;
            a.w = 0.11 + i / 128.0;
            qn_scope scope = qn_scope_begin(a.qn);
            compute(&a, &rows[k]);
            qn_scope_end(a.qn, scope);
            if (qn_error_code(a.qn) != QN_OK) {
                FAIL("%s, %s: %s", rows[k].name, rows[k].what, qn_error(a.qn));
                break;
            }
            if (i + 1 == FIRST) qn_get_stats(a.qn, &first, sizeof first);
        }
        qn_get_stats(a.qn, &last, sizeof last);
        if (last.compiles != first.compiles || last.plans != first.plans)
            FAIL("%s: %d values of %s make %d plans and %d kernels more than %d", rows[k].name,
                 VALUES, rows[k].what, (int)(last.plans - first.plans),
                 (int)(last.compiles - first.compiles), FIRST);
        qn_close(a.qn);
    }
}

/* ---- that all are here ----------------------------------------------------------------------- */

static bool has_scalar(const char *params) {
    static const char *const types[] = {"double ", "int64_t "};
    for (int i = 0; i < 2; i++)
        for (const char *at = params; (at = strstr(at, types[i])); at++)
            if (at[strlen(types[i])] != '*') return true;
    return false;
}

static bool is_listed(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(rows[i].name, name)) return true;
    for (size_t i = 0; i < sizeof structural / sizeof *structural; i++)
        if (!strcmp(structural[i].name, name)) return true;
    return false;
}

static const struct {
    const char *name, *params;
} functions[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) {#name, #params},
#include "func/funcs.h"
#undef X
};

static void every_scalar_argument_has_a_row(void) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (has_scalar(functions[i].params) && !is_listed(functions[i].name))
            FAIL("%s%s has no row", functions[i].name, functions[i].params);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(makes_one_program_of_all_values);
    RUN(every_scalar_argument_has_a_row);
    return test_end();
}
