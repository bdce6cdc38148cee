/* narrow.c - floats of 8 bits: conversions that clamp, and blocks that share a scale.
 *
 * A narrow float has few exponents. What is beyond its largest number becomes that number when a
 * cast is to saturate; and numbers that lie together can share a power of two, so that each needs
 * only its place within the block. The Open Compute Project's Microscaling Formats (MX) v1.0 says
 * so of 32 numbers that share a scale of 8 bits, an exponent and nothing else: of the bits e it is
 * 2^(e - 127), of 255 NaN. Here the values are a tensor of f8 and the scales one of u8, whose last
 * axis is as many times shorter as a block is long. What they stand for is an expression that the
 * planner fuses into whatever reads it, so a product of such weights reads a byte for each. */
#include "func/func.h"

#include <math.h>

/* ---- casts that clamp ------------------------------------------------------------------------ */

/* The largest number of an integer dtype, as an integer of x's. */
static qn_tensor *largest_of(qn_tensor *x, qn_dtype dtype) {
    int bits = dtype_rows[dtype].fraction;
    return func_integer(x, bits == 64 ? -1 : (int64_t)(((uint64_t)1 << bits) - 1));
}

static qn_tensor *clamped_integer(qn_tensor *x, qn_dtype to) {
    qn_dtype from = qn_dtype_of(x);
    bool has_sign = !dtype_is_unsigned(from) && from != QN_BOOL;
    if (dtype_is_float(to)) {
        double most = dtype_most(to);
        if (ldexp(1, dtype_rows[from].fraction) - 1 <= most) return x;
        if (has_sign) x = qn_maximum(x, func_integer(x, -(int64_t)most));
        return qn_minimum(x, func_integer(x, (int64_t)most));
    }
    bool shorter = dtype_rows[to].fraction < dtype_rows[from].fraction;
    if (has_sign && dtype_is_unsigned(to))
        x = qn_maximum(x, func_integer(x, 0));
    else if (has_sign && shorter)
        x = qn_maximum(x, qn_not(largest_of(x, to)));
    return shorter ? qn_minimum(x, largest_of(x, to)) : x;
}

static qn_tensor *clamped_float(qn_tensor *x, qn_dtype to) {
    double most = dtype_most(to);
    if (!dtype_is_float(to)) return x;
    x = most < dtype_most(qn_dtype_of(x)) ? func_widen(x) : qn_cast(x, to);
    return qn_minimum(qn_maximum(x, qn_like(x, -most)), qn_like(x, most));
}

qn_tensor *qn_cast_saturating(qn_tensor *x, qn_dtype dtype) {
    func_frame f = func_on("cast_saturating", ARG(x));
    if (!x || (unsigned)dtype >= DTYPE_COUNT) return func_end(f, x ? qn_cast(x, dtype) : NULL);
    if (dtype == QN_BOOL || qn_dtype_of(x) == QN_BOOL) return func_end(f, qn_cast(x, dtype));
    bool floats = dtype_is_float(qn_dtype_of(x));
    x = floats ? clamped_float(x, dtype) : clamped_integer(x, dtype);
    return func_end(f, qn_cast(x, dtype));
}

/* ---- blocks that share a scale --------------------------------------------------------------- */

enum { SCALE_NAN = 255, FRACTION = 23 };

/* 2^(e - 127) as f32, e of i32 from 0 to 255: its bits are the exponent's, but of the smallest,
 * which is subnormal. */
static qn_tensor *scale_of(qn_tensor *e) {
    qn_tensor *bits = qn_shl(e, qn_like(e, FRACTION));
    bits = qn_where(qn_eq(e, qn_like(e, 0)), qn_like(e, 1 << (FRACTION - 1)), bits);
    bits = qn_where(qn_eq(e, qn_like(e, SCALE_NAN)), qn_like(e, 0x7fc00000), bits);
    return qn_bitcast(bits, QN_F32);
}

/* x's last axis as blocks. */
static qn_tensor *in_blocks(qn_tensor *x, int64_t block) {
    int64_t dims[QN_MAX_RANK + 1];
    int rank = func_dims(x, dims);
    if (!x) return NULL;
    dims[rank] = block;
    dims[rank - 1] /= block;
    return func_reshape(x, rank + 1, dims);
}

static bool blocks_fit(const qn_tensor *x, int64_t block) {
    qn_ctx *qn = tensor_ctx(x);
    int64_t n = func_rank(x) > 0 ? qn_dim(x, -1) : 0;
    if (block > 0 && n > 0 && n % block == 0 && func_rank(x) < QN_MAX_RANK) return true;
    fail(qn, QN_ESHAPE, "%s: the last of %d axes, of size %lld, is no row of blocks of %lld",
         graph_name(qn, "mx"), func_rank(x), (long long)n, (long long)block);
    return false;
}

static bool is_block_dtype(qn_ctx *qn, qn_dtype dtype) {
    if (dtype == QN_F8_E4M3 || dtype == QN_F8_E5M2) return true;
    fail(qn, QN_EDTYPE, "%s: values of blocks are f8_e4m3 or f8_e5m2, not %s", graph_name(qn, "mx"),
         qn_dtype_name(dtype));
    return false;
}

/* Biased exponents of the scales: that of a block's largest number less that of the dtype's. */
static qn_tensor *exponents_of(qn_tensor *blocks, qn_dtype dtype) {
    qn_tensor *size = qn_max(qn_abs(qn_detach(blocks)), -1, true);
    qn_tensor *e = qn_shr(qn_bitcast(size, QN_I32), qn_like(qn_bitcast(size, QN_I32), FRACTION));
    qn_tensor *less = qn_sub(e, qn_like(e, ilogb(dtype_most(dtype))));
    less = qn_maximum(less, qn_like(e, 0));
    return qn_where(qn_eq(e, qn_like(e, SCALE_NAN)), e, less);
}

qn_code qn_mx_quantize(qn_tensor *x, qn_dtype dtype, int64_t block, qn_tensor **out) {
    if (!func_outputs_check(x, "mx_quantize", out)) return handle_code(x);
    qn_ctx *qn = tensor_ctx(x);
    int made = 0;
    for (; made < 2; made++) {
        qn_tensor *t = x, *result = NULL;
        int64_t dims[QN_MAX_RANK];
        func_frame f = func_on("mx_quantize", ARG(t));
        int rank = func_dims(t, dims);
        if (is_block_dtype(qn, dtype) && blocks_fit(x, block)) {
            qn_tensor *blocks = in_blocks(func_as(t, QN_F32), block);
            qn_tensor *e = exponents_of(blocks, dtype);
            if (made) {
                dims[rank - 1] /= block;
                result = func_reshape(qn_cast(e, QN_U8), rank, dims);
            } else {
                qn_tensor *up = scale_of(qn_sub(qn_like(e, 254), qn_minimum(e, qn_like(e, 254))));
                result = qn_cast_saturating(qn_mul(blocks, up), dtype);
                result = func_reshape(result, rank, dims);
            }
        }
        out[made] = func_end(f, result);
        if (!out[made]) break;
    }
    return func_outputs_done(qn, 2, out, made);
}

qn_tensor *qn_mx_dequantize(qn_tensor *x, qn_tensor *scales) {
    func_frame f = func_on("mx_dequantize", ARG(x), ARG(scales));
    if (!x || !scales || !is_block_dtype(f.qn, qn_dtype_of(x))) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK], small[QN_MAX_RANK + 1];
    int rank = func_dims(x, dims), scale_rank = func_dims(scales, small);
    bool fits = qn_dtype_of(scales) == QN_U8 && rank == scale_rank && rank > 0;
    for (int i = 0; fits && i < rank - 1; i++) fits = dims[i] == small[i];
    if (!fits || small[rank - 1] <= 0 || dims[rank - 1] % small[rank - 1] != 0)
        return func_end(f, fail_null(f.qn, QN_ESHAPE,
                                     "mx_dequantize: the scales, of rank %d and %s, are no u8 for "
                                     "blocks of x, of rank %d",
                                     scale_rank, qn_dtype_name(qn_dtype_of(scales)), rank));
    int64_t block = dims[rank - 1] / small[rank - 1];
    if (!blocks_fit(x, block)) return func_end(f, NULL);
    small[rank] = 1;
    qn_tensor *by = scale_of(qn_cast(func_reshape(scales, rank + 1, small), QN_I32));
    qn_tensor *y = qn_mul(in_blocks(qn_cast(x, QN_F32), block), by);
    return func_end(f, func_reshape(y, rank, dims));
}
