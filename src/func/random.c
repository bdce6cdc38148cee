/* random.c - random numbers as functions of a key and an index.
 *
 * Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1,
 * 2, 3; 2011) turns a key and a counter of two words each into two words. The counter is the flat
 * index of an element, and what is made of the words is rounded alike everywhere (exact.c), so
 * numbers do not depend on the device, the order or the number of threads, and a mask that is
 * needed again is computed again. There is no state: who wants other numbers takes another key. A
 * key is data like any other. Made by qn_key it is a constant; fed in as a tensor it may change
 * from run to run of one plan. */
#include "func/func.h"

#include <math.h>

/* The data of a key's second stream; no small number, and none of key_split's. */
static const uint64_t NORMAL_ANGLES = (uint64_t)0x616e676c << 32;

static qn_tensor *word(qn_tensor *x, uint32_t v) {
    return qn_like(x, v);
}

static qn_tensor *rotated(qn_tensor *x, int by) {
    return qn_or(qn_shl(x, word(x, (uint32_t)by)), qn_shr(x, word(x, (uint32_t)(32 - by))));
}

/* x: the counter's two words, then the result's; key: two words. All u32. */
void func_threefry(qn_tensor *const key[2], qn_tensor *x[2]) {
    static const uint8_t rotation[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    qn_tensor *parity = qn_xor(qn_xor(key[0], key[1]), word(key[0], 0x1bd11bda));
    qn_tensor *const schedule[3] = {key[0], key[1], parity};
    x[0] = qn_add(x[0], key[0]);
    x[1] = qn_add(x[1], key[1]);
    for (int round = 0; round < 20; round++) {
        x[0] = qn_add(x[0], x[1]);
        x[1] = qn_xor(rotated(x[1], rotation[round % 8]), x[0]);
        if (round % 4 != 3) continue;
        uint32_t turn = (uint32_t)round / 4 + 1;
        qn_tensor *more = schedule[(turn + 1) % 3];
        x[0] = qn_add(x[0], schedule[turn % 3]);
        x[1] = qn_add(x[1], qn_add(more, word(more, turn)));
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* [a, b] of two scalars. */
static qn_tensor *pair(qn_tensor *a, qn_tensor *b) {
    if (!a || !b) return NULL;
    const int64_t two = 2;
    qn_tensor *i = func_iota(tensor_ctx(a), QN_I32, 1, &two, 0);
    return qn_where(qn_eq(i, qn_like(i, 0)), a, b);
}

qn_tensor *qn_key(qn_ctx *qn, uint64_t seed) {
    func_frame f = func_begin(qn, "key");
    qn_tensor *low = qn_scalar(qn, QN_U32, (double)(uint32_t)seed);
    return func_end(f, pair(low, qn_scalar(qn, QN_U32, (double)(seed >> 32))));
}

static bool key_words(qn_tensor *key, qn_tensor *out[2]) {
    if (!key) return false;
    if (qn_dtype_of(key) != QN_U32 || func_rank(key) != 1 || qn_dim(key, 0) != 2) {
        fail(tensor_ctx(key), QN_EARG, "%s: a key is u32 of shape [2]",
             graph_name(tensor_ctx(key), "key"));
        return false;
    }
    for (int i = 0; i < 2; i++) out[i] = qn_select(key, 0, i);
    return out[0] && out[1];
}

qn_tensor *qn_key_fold(qn_tensor *key, uint64_t data) {
    func_frame f = func_on("key_fold", ARG(key));
    qn_tensor *k[2];
    if (!key_words(key, k)) return func_end(f, NULL);
    qn_tensor *x[2] = {word(key, (uint32_t)data), word(key, (uint32_t)(data >> 32))};
    func_threefry(k, x);
    return func_end(f, pair(x[0], x[1]));
}

/* ---- bits ----------------------------------------------------------------------------------- */

/* Two words for every index of the shape. */
static bool random_words(qn_tensor *key, int rank, const int64_t *shape, qn_tensor *out[2]) {
    qn_tensor *k[2], *zero;
    if (!key_words(key, k)) return false;
    zero = func_full(tensor_ctx(key), QN_U32, rank, shape, 0);
    if (!zero) return false;
    int64_t n = func_count(zero, (1u << rank) - 1);
    qn_tensor *index = func_reshape(func_iota(tensor_ctx(key), QN_I64, 1, &n, 0), rank, shape);
    out[0] = qn_cast(index, QN_U32);
    out[1] = zero;
    if (n < 0 || n >> 32) out[1] = qn_cast(qn_shr(index, qn_like(index, 32)), QN_U32);
    func_threefry(k, out);
    return out[0] && out[1];
}

qn_tensor *qn_random_bits(qn_tensor *key, int rank, const int64_t *shape) {
    func_frame f = func_on("random_bits", ARG(key));
    qn_tensor *bits[2];
    return func_end(f, random_words(key, rank, shape, bits) ? bits[0] : NULL);
}

/* ---- distributions -------------------------------------------------------------------------- */

/* The upper `bits` bits as a float in [0, 1). */
static qn_tensor *fraction(qn_tensor *x, int bits, qn_dtype dtype) {
    qn_tensor *top = qn_shr(x, word(x, (uint32_t)(32 - bits)));
    return qn_mul(qn_cast(top, dtype), qn_scalar(qn_context(x), dtype, ldexp(1, -bits)));
}

static bool float_wanted(qn_tensor *key, qn_dtype dtype) {
    if (!key || dtype_is_float(dtype)) return key;
    fail(tensor_ctx(key), QN_EDTYPE, "%s: gives floats, not %s", graph_name(tensor_ctx(key), ""),
         qn_dtype_name(dtype));
    return false;
}

qn_tensor *qn_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape) {
    func_frame f = func_on("uniform", ARG(key));
    qn_tensor *bits[2];
    if (!float_wanted(key, dtype) || !random_words(key, rank, shape, bits))
        return func_end(f, NULL);
    if (dtype != QN_F64) {
        int width = dtype_rows[dtype].fraction + 1;
        return func_end(f, qn_cast(fraction(bits[0], width, QN_F32), dtype));
    }
    qn_tensor *low = fraction(bits[1], 26, QN_F64);
    low = qn_mul(low, qn_like(low, 0x1p-27));
    return func_end(f, qn_add(fraction(bits[0], 27, QN_F64), low));
}

/* Box and Muller: a radius from one word, an angle from the other. The radius' uniform number is in
 * (0, 1], one step up, so that its logarithm is finite. */
static qn_tensor *box_muller(qn_tensor *u, qn_tensor *v) {
    qn_tensor *log_u = func_exact_log(u);
    qn_tensor *radius = log_u ? qn_sqrt(qn_mul(log_u, qn_like(log_u, -2))) : NULL;
    return radius ? qn_mul(radius, func_exact_cos_turns(v)) : NULL;
}

/* Of f64 each has 53 bits, which takes a second pair of words. */
static qn_tensor *wide_normals(qn_tensor *key, int rank, const int64_t *shape) {
    qn_tensor *u = qn_uniform(key, QN_F64, rank, shape);
    qn_tensor *v = qn_uniform(qn_key_fold(key, NORMAL_ANGLES), QN_F64, rank, shape);
    return u && v ? box_muller(qn_add(u, qn_like(u, 0x1p-53)), v) : NULL;
}

qn_tensor *qn_randn(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape) {
    func_frame f = func_on("randn", ARG(key));
    qn_tensor *bits[2];
    if (!float_wanted(key, dtype)) return func_end(f, NULL);
    if (dtype == QN_F64) return func_end(f, wide_normals(key, rank, shape));
    if (!random_words(key, rank, shape, bits)) return func_end(f, NULL);
    qn_tensor *u = fraction(bits[0], 24, QN_F32), *v = fraction(bits[1], 24, QN_F32);
    return func_end(f, func_as(box_muller(qn_add(u, qn_like(u, 0x1p-24)), v), dtype));
}

/* Does the dtype hold all of [lo, hi)? Floats do up to where they have gaps. */
static bool range_held(qn_ctx *qn, qn_dtype dtype, int64_t lo, int64_t hi) {
    int bits = 8 * (int)qn_dtype_size(dtype);
    int64_t most = INT64_MAX, least = 0;
    if (!dtype_is_known((int)dtype)) {
        dtype_refuse(qn, "randint", (int)dtype);
        return false;
    }
    if (dtype_is_float(dtype))
        most = (int64_t)1 << (dtype_rows[dtype].fraction + 1);
    else if (dtype == QN_BOOL)
        most = 1;
    else if (bits < 64)
        most = ((int64_t)1 << (dtype_is_unsigned(dtype) ? bits : bits - 1)) - 1;
    if (dtype_is_float(dtype)) least = -most;
    if (dtype_is_int(dtype) && !dtype_is_unsigned(dtype)) least = -most - 1;
    if (lo >= least && hi - 1 <= most) return true;
    fail(qn, QN_ERANGE, "randint: %s does not hold all from %lld to %lld", qn_dtype_name(dtype),
         (long long)lo, (long long)hi - 1);
    return false;
}

/* lo + floor(word * count / 2^32), in 64 bits. */
qn_tensor *qn_randint(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, int64_t lo,
                      int64_t hi) {
    func_frame f = func_on("randint", ARG(key));
    qn_tensor *bits[2];
    uint64_t count = (uint64_t)hi - (uint64_t)lo;
    if (key && (hi <= lo || count > (uint64_t)1 << 32))
        return func_end(f, fail_null(tensor_ctx(key), QN_ERANGE, "randint: from %lld to %lld",
                                     (long long)lo, (long long)hi));
    if (key && !range_held(tensor_ctx(key), dtype, lo, hi)) return func_end(f, NULL);
    if (!random_words(key, rank, shape, bits)) return func_end(f, NULL);
    qn_tensor *x = qn_cast(bits[0], QN_U64);
    x = qn_shr(qn_mul(x, qn_like(x, (double)count)), qn_like(x, 32));
    x = qn_cast(x, QN_I64);
    return func_end(f, qn_cast(qn_add(x, func_integer(x, lo)), dtype));
}

qn_tensor *qn_bernoulli(qn_tensor *key, int rank, const int64_t *shape, double p) {
    func_frame f = func_on("bernoulli", ARG(key));
    qn_tensor *bits[2];
    if (key && !(p >= 0 && p <= 1))
        return func_end(f,
                        fail_null(tensor_ctx(key), QN_EARG, "bernoulli: %g is no probability", p));
    if (!random_words(key, rank, shape, bits)) return func_end(f, NULL);
    qn_tensor *top = qn_shr(bits[0], word(bits[0], 8));
    return func_end(f, qn_lt(top, word(top, (uint32_t)rint(ldexp(p, 24)))));
}

/* ---- more keys ------------------------------------------------------------------------------ */

/* Number i of the keys has `parts` in its counter's upper word, so that none is one of fold's small
 * numbers. */
qn_code qn_key_split(qn_tensor *key, int n, qn_tensor **out) {
    if (!func_outputs_check(key, "key_split", out)) return handle_code(key);
    qn_ctx *qn = tensor_ctx(key);
    if (n < 1) return fail(qn, QN_EARG, "key_split: %d keys", n);
    const uint64_t parts = (uint64_t)0x70617274 << 32;
    int made = 0;
    for (; made < n; made++) {
        out[made] = qn_key_fold(key, parts | (uint64_t)made);
        if (!out[made]) break;
    }
    return func_outputs_done(qn, n, out, made);
}

qn_tensor *qn_key_fold_in(qn_tensor *key, qn_tensor *data) {
    func_frame f = func_on("key_fold_in", ARG(key), ARG(data));
    qn_tensor *k[2];
    if (!data || !key_words(key, k)) return func_end(f, NULL);
    if (func_rank(data) != 0 || !dtype_is_int(qn_dtype_of(data)))
        return func_end(f, fail_null(f.qn, QN_EARG, "key_fold_in: data is one integer"));
    qn_tensor *wide = qn_cast(data, QN_U64);
    qn_tensor *x[2] = {qn_cast(wide, QN_U32), qn_cast(qn_shr(wide, qn_like(wide, 32)), QN_U32)};
    func_threefry(k, x);
    return func_end(f, pair(x[0], x[1]));
}

/* ---- more distributions --------------------------------------------------------------------- */

/* -log(1 - u), 1 - u being exact, and half a step for a u of 0, so that it is above 0. */
static qn_tensor *exponentials(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape) {
    qn_dtype wide = dtype == QN_F64 ? QN_F64 : QN_F32;
    qn_tensor *u = float_wanted(key, dtype) ? qn_uniform(key, wide, rank, shape) : NULL;
    if (!u) return NULL;
    qn_tensor *half = qn_like(u, wide == QN_F64 ? 0x1p-54 : 0x1p-25);
    qn_tensor *x = qn_neg(func_exact_log(qn_sub(qn_like(u, 1), u)));
    return qn_where(qn_eq(u, qn_like(u, 0)), half, x);
}

qn_tensor *qn_exponential(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape) {
    func_frame f = func_on("exponential", ARG(key));
    qn_tensor *x = exponentials(key, dtype, rank, shape);
    return func_end(f, x ? func_as(x, dtype) : NULL);
}

static qn_tensor *gumbels(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape) {
    qn_tensor *x = exponentials(key, dtype, rank, shape);
    return x ? qn_neg(func_exact_log(x)) : NULL;
}

qn_tensor *qn_gumbel(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape) {
    func_frame f = func_on("gumbel", ARG(key));
    qn_tensor *x = gumbels(key, dtype, rank, shape);
    return func_end(f, x ? func_as(x, dtype) : NULL);
}

/* The largest of logits plus Gumbel noise is class i with the probability softmax gives it. */
static qn_tensor *drawn(qn_tensor *key, qn_tensor *logits) {
    int64_t dims[QN_MAX_RANK];
    logits = func_widen(func_float(logits));
    if (!logits || !key) return NULL;
    int rank = func_dims(logits, dims);
    qn_tensor *noise = gumbels(key, qn_dtype_of(logits), rank, dims);
    return qn_argmax(qn_add(logits, noise), -1, false);
}

qn_tensor *qn_categorical(qn_tensor *key, qn_tensor *logits) {
    func_frame f = func_on("categorical", ARG(key), ARG(logits));
    return func_end(f, drawn(key, logits));
}

qn_tensor *qn_multinomial(qn_tensor *key, qn_tensor *weights, int64_t n) {
    func_frame f = func_on("multinomial", ARG(key), ARG(weights));
    int64_t dims[QN_MAX_RANK + 1];
    if (!key || !weights) return func_end(f, NULL);
    if (func_rank(weights) < 1 || func_rank(weights) == QN_MAX_RANK || n < 0)
        return func_end(f, fail_null(f.qn, QN_ERANGE, "multinomial: %lld of rank %d", (long long)n,
                                     func_rank(weights)));
    qn_tensor *logits = qn_unsqueeze(func_exact_log(func_widen(func_float(weights))), -2);
    int rank = func_dims(logits, dims);
    dims[rank - 2] = n;
    return func_end(f, drawn(key, func_expand(logits, rank, dims)));
}

/* ---- weights to begin with ------------------------------------------------------------------ */

/* How many numbers go into one of a weight [out, in, kernel..], and how many come of one. */
static bool fans(qn_tensor *key, int rank, const int64_t *shape, double *in, double *out) {
    bool known = key && shape && rank >= 2 && rank <= QN_MAX_RANK;
    double kernel = 1;
    for (int i = 0; known && i < rank; i++) {
        known = shape[i] > 0;
        if (i >= 2) kernel *= (double)shape[i];
    }
    if (!known)
        return key ? fail_null(tensor_ctx(key), QN_ESHAPE, "%s: a weight is [out, in, kernel..]",
                               graph_name(tensor_ctx(key), "weights"))
                   : NULL;
    *in = (double)shape[1] * kernel;
    *out = (double)shape[0] * kernel;
    return true;
}

/* Numbers of a deviation, normal or uniform. */
static qn_tensor *weights_of(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                             double deviation) {
    bool uniform = deviation < 0;
    qn_dtype wide = dtype == QN_F64 ? QN_F64 : QN_F32;
    qn_tensor *x = uniform ? qn_uniform(key, wide, rank, shape) : qn_randn(key, wide, rank, shape);
    if (!x || !float_wanted(key, dtype)) return NULL;
    if (!uniform) return func_as(qn_mul(x, qn_like(x, deviation)), dtype);
    double most = -deviation * sqrt(3);
    return func_as(qn_fma(x, qn_like(x, 2 * most), qn_like(x, -most)), dtype);
}

qn_tensor *qn_kaiming_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                             double gain) {
    func_frame f = func_on("kaiming_normal", ARG(key));
    double in, out;
    if (!fans(key, rank, shape, &in, &out)) return func_end(f, NULL);
    return func_end(f, weights_of(key, dtype, rank, shape, fabs(gain) / sqrt(in)));
}

qn_tensor *qn_kaiming_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                              double gain) {
    func_frame f = func_on("kaiming_uniform", ARG(key));
    double in, out;
    if (!fans(key, rank, shape, &in, &out)) return func_end(f, NULL);
    return func_end(f, weights_of(key, dtype, rank, shape, -fabs(gain) / sqrt(in)));
}

qn_tensor *qn_xavier_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                            double gain) {
    func_frame f = func_on("xavier_normal", ARG(key));
    double in, out;
    if (!fans(key, rank, shape, &in, &out)) return func_end(f, NULL);
    return func_end(f, weights_of(key, dtype, rank, shape, fabs(gain) * sqrt(2 / (in + out))));
}

qn_tensor *qn_xavier_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                             double gain) {
    func_frame f = func_on("xavier_uniform", ARG(key));
    double in, out;
    if (!fans(key, rank, shape, &in, &out)) return func_end(f, NULL);
    return func_end(f, weights_of(key, dtype, rank, shape, -fabs(gain) * sqrt(2 / (in + out))));
}
