/* dtype.c - element types: sizes, names, promotion, and reading and writing elements.
 *
 * Promotion. Within a kind the wider wins. A signed and an unsigned integer meet in the narrowest
 * signed one that holds both; for u64 there is none, and the pair goes to f64 as in NumPy. bool
 * promotes to anything. f16 and bf16 meet in f32. The array API leaves integer with float open:
 * here the float keeps its type, as in PyTorch and JAX, so that a constant or an index never widens
 * a computation.
 *
 * Conversions. Floats are written rounding to nearest, ties to even, directly from the double or
 * from the 64-bit integer, never through a third format. Integers wrap. A float becomes an integer
 * by truncation, clamped to the type's range, NaN by 0; it becomes a bool by comparison with 0.
 *
 * The 16-bit formats share one code: `bits` fraction bits, smallest normal exponent `least`. */
#include "graph/graph.h"

#include <math.h>

static const struct {
    const char *name;
    uint8_t size;
} dtype_row[DTYPE_COUNT] = {
    [QN_BOOL] = {"bool", 1}, [QN_I8] = {"i8", 1},   [QN_I16] = {"i16", 2},   [QN_I32] = {"i32", 4},
    [QN_I64] = {"i64", 8},   [QN_U8] = {"u8", 1},   [QN_U16] = {"u16", 2},   [QN_U32] = {"u32", 4},
    [QN_U64] = {"u64", 8},   [QN_F16] = {"f16", 2}, [QN_BF16] = {"bf16", 2}, [QN_F32] = {"f32", 4},
    [QN_F64] = {"f64", 8},
};

static bool dtype_known(int d) {
    return d >= 0 && d < DTYPE_COUNT;
}

size_t qn_dtype_size(qn_dtype dtype) {
    return dtype_known((int)dtype) ? dtype_row[dtype].size : 0;
}

const char *qn_dtype_name(qn_dtype dtype) {
    return dtype_known((int)dtype) ? dtype_row[dtype].name : "unknown dtype";
}

/* ---- promotion ------------------------------------------------------------------------------ */

static qn_dtype dtype_signed_of(size_t size) {
    return size <= 1 ? QN_I8 : size == 2 ? QN_I16 : size == 4 ? QN_I32 : QN_I64;
}

static qn_dtype promote_ints(qn_dtype a, qn_dtype b) {
    if (dtype_is_unsigned(a) == dtype_is_unsigned(b)) return a > b ? a : b;
    qn_dtype s = dtype_is_unsigned(a) ? b : a, u = dtype_is_unsigned(a) ? a : b;
    if (u == QN_U64) return QN_F64;
    if (dtype_row[s].size > dtype_row[u].size) return s;
    return dtype_signed_of(2u * dtype_row[u].size);
}

qn_dtype dtype_promote(qn_dtype a, qn_dtype b) {
    if (a == b || b == QN_BOOL) return a;
    if (a == QN_BOOL) return b;
    if (dtype_is_float(a) != dtype_is_float(b)) return dtype_is_float(a) ? a : b;
    if (!dtype_is_float(a)) return promote_ints(a, b);
    if (a < QN_F32 && b < QN_F32) return QN_F32; /* f16 with bf16 */
    return a > b ? a : b;
}

/* ---- 16-bit floats -------------------------------------------------------------------------- */

static uint16_t half_pack(double v, int bits, int least) {
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    uint16_t sign = (uint16_t)(b >> 63 << 15);
    uint32_t infinity = (0x7fffu >> bits) << bits;
    int e = (int)(b >> 52 & 0x7ff) - 1023;
    uint64_t m = b & 0xfffffffffffffu;
    if (e == 1024) {
        uint32_t quiet = m ? 1u << (bits - 1) | (uint32_t)(m >> (52 - bits)) : 0;
        return (uint16_t)(sign | infinity | quiet);
    }
    m |= (uint64_t)1 << 52;
    int scale = e > least ? e : least, shift = 52 - bits + (scale - e);
    if (shift > 54) return sign; /* below half the smallest number; doubles' subnormals, too */
    uint64_t q = m >> shift, rest = m & (((uint64_t)1 << shift) - 1);
    uint64_t half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (q & 1))) q++;
    /* q holds the leading 1 of a normal number, which counts the exponent up by one. */
    uint64_t packed = ((uint64_t)(scale - least) << bits) + q;
    return (uint16_t)(sign | (packed < infinity ? packed : infinity));
}

static double half_unpack(uint16_t h, int bits, int least) {
    uint32_t fraction = h & ((1u << bits) - 1), e = (h & 0x7fffu) >> bits;
    uint32_t most = 0x7fffu >> bits;
    double v;
    if (e == most && fraction) {
        uint64_t b = 0x7ff0000000000000u | (uint64_t)fraction << (52 - bits);
        memcpy(&v, &b, sizeof v);
    } else if (e == most) {
        v = INFINITY;
    } else if (e == 0) {
        v = ldexp((double)fraction, least - bits);
    } else {
        v = ldexp((double)(fraction | 1u << bits), least - bits + (int)e - 1);
    }
    return h >> 15 ? -v : v;
}

enum { F16_BITS = 10, F16_LEAST = -14, BF16_BITS = 7, BF16_LEAST = -126 };

/* ---- elements ------------------------------------------------------------------------------- */

/* Truncate and clamp; both bounds are exact doubles or, for 2^63-1 and 2^64-1, one below one. */
static int64_t float_to_i64(double v, qn_dtype d) {
    if (isnan(v)) return 0;
    int width = 8 * (int)dtype_row[d].size;
    if (dtype_is_unsigned(d)) {
        if (v <= 0) return 0;
        if (v >= ldexp(1, width))
            return (int64_t)(width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1);
        return (int64_t)(uint64_t)v;
    }
    if (v >= ldexp(1, width - 1)) return (int64_t)(((uint64_t)1 << (width - 1)) - 1);
    if (v <= -ldexp(1, width - 1)) return -(int64_t)(((uint64_t)1 << (width - 1)) - 1) - 1;
    return (int64_t)v;
}

/* The double nearest to v from which rounding once more to a narrower float gives what rounding v
 * itself would: bits that do not fit are or-ed into the last one (rounding to odd). */
static double i64_sticky(uint64_t v, bool negative) {
    if (v >> 53) {
        int shift = 11 - __builtin_clzll(v);
        uint64_t low = v & (((uint64_t)1 << shift) - 1);
        v = (v >> shift | (low != 0)) << shift;
    }
    return negative ? -(double)v : (double)v;
}

double dtype_from_u64(qn_dtype d, uint64_t v) {
    return d == QN_F64 ? (double)v : i64_sticky(v, false);
}

double dtype_from_i64(qn_dtype d, int64_t v) {
    if (d == QN_F64) return (double)v;
    return i64_sticky(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
}

double dtype_get_f(qn_dtype d, const void *p, int64_t i) {
    switch (d) {
    case QN_F16:
        return half_unpack(((const uint16_t *)p)[i], F16_BITS, F16_LEAST);
    case QN_BF16:
        return half_unpack(((const uint16_t *)p)[i], BF16_BITS, BF16_LEAST);
    case QN_F32:
        return (double)((const float *)p)[i];
    case QN_F64:
        return ((const double *)p)[i];
    case QN_U64:
        return (double)((const uint64_t *)p)[i];
    default:
        return dtype_known((int)d) ? (double)dtype_get_i(d, p, i) : 0;
    }
}

int64_t dtype_get_i(qn_dtype d, const void *p, int64_t i) {
    switch (d) {
    case QN_BOOL:
        return ((const uint8_t *)p)[i] != 0;
    case QN_I8:
        return ((const int8_t *)p)[i];
    case QN_I16:
        return ((const int16_t *)p)[i];
    case QN_I32:
        return ((const int32_t *)p)[i];
    case QN_I64:
        return ((const int64_t *)p)[i];
    case QN_U8:
        return ((const uint8_t *)p)[i];
    case QN_U16:
        return ((const uint16_t *)p)[i];
    case QN_U32:
        return ((const uint32_t *)p)[i];
    case QN_U64:
        return (int64_t)((const uint64_t *)p)[i];
    default:
        return dtype_known((int)d) ? float_to_i64(dtype_get_f(d, p, i), QN_I64) : 0;
    }
}

void dtype_set_f(qn_dtype d, void *p, int64_t i, double v) {
    switch (d) {
    case QN_BOOL:
        ((uint8_t *)p)[i] = v != 0;
        return;
    case QN_F16:
        ((uint16_t *)p)[i] = half_pack(v, F16_BITS, F16_LEAST);
        return;
    case QN_BF16:
        ((uint16_t *)p)[i] = half_pack(v, BF16_BITS, BF16_LEAST);
        return;
    case QN_F32:
        ((float *)p)[i] = (float)v;
        return;
    case QN_F64:
        ((double *)p)[i] = v;
        return;
    default:
        if (dtype_known((int)d)) dtype_set_i(d, p, i, float_to_i64(v, d));
    }
}

void dtype_set_i(qn_dtype d, void *p, int64_t i, int64_t v) {
    switch (d) {
    case QN_BOOL:
        ((uint8_t *)p)[i] = v != 0;
        return;
    case QN_I8:
    case QN_U8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        return;
    case QN_I16:
    case QN_U16:
        ((uint16_t *)p)[i] = (uint16_t)v;
        return;
    case QN_I32:
    case QN_U32:
        ((uint32_t *)p)[i] = (uint32_t)v;
        return;
    case QN_I64:
    case QN_U64:
        ((uint64_t *)p)[i] = (uint64_t)v;
        return;
    default:
        if (dtype_is_float(d) && dtype_known((int)d)) dtype_set_f(d, p, i, dtype_from_i64(d, v));
    }
}

double dtype_round(qn_dtype d, double v) {
    switch (d) {
    case QN_F16:
        return half_unpack(half_pack(v, F16_BITS, F16_LEAST), F16_BITS, F16_LEAST);
    case QN_BF16:
        return half_unpack(half_pack(v, BF16_BITS, BF16_LEAST), BF16_BITS, BF16_LEAST);
    case QN_F32:
        return (double)(float)v;
    default:
        return v;
    }
}

int64_t dtype_wrap(qn_dtype d, int64_t v) {
    switch (d) {
    case QN_BOOL:
        return v & 1;
    case QN_I8:
        return (int8_t)v;
    case QN_I16:
        return (int16_t)v;
    case QN_I32:
        return (int32_t)v;
    case QN_U8:
        return (uint8_t)v;
    case QN_U16:
        return (uint16_t)v;
    case QN_U32:
        return (uint32_t)v;
    default:
        return v;
    }
}
