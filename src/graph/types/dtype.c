/* dtype.c - element types: sizes, names, promotion, and reading and writing elements.
 *
 * Promotion. Within a kind the wider wins. A signed and an unsigned integer meet in the narrowest
 * signed one that holds both; for u64 there is none, and the pair goes to f64 as in NumPy. bool
 * promotes to anything. f16 and bf16, and the two of 8 bits, meet in f32. The array API leaves
 * integer with float open: here the float keeps its type, as in PyTorch and JAX, so that a constant
 * or an index never widens a computation.
 *
 * Conversions. Floats are written rounding to nearest, ties to even, directly from the double or
 * from the 64-bit integer, never through a third format. Integers wrap. A float becomes an integer
 * by truncation, clamped to the type's range, NaN by 0; it becomes a bool by comparison with 0.
 *
 * The narrow formats share one code, which knows one by its row. One without infinities has NaN
 * where they would be: what is too large, as infinity itself, becomes NaN. */
#include "graph/graph.h"

#include <math.h>

/* ---- promotion ------------------------------------------------------------------------------ */

static qn_dtype of_kind(int kind, int rank) {
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (dtype_rows[d].kind == kind && dtype_rows[d].rank == rank) return (qn_dtype)d;
    return QN_F64;
}

static qn_dtype promote_ints(qn_dtype a, qn_dtype b) {
    int rank_a = dtype_rows[a].rank, rank_b = dtype_rows[b].rank;
    if (dtype_is_unsigned(a) == dtype_is_unsigned(b)) return rank_a > rank_b ? a : b;
    int i = dtype_is_unsigned(a) ? rank_b : rank_a, u = dtype_is_unsigned(a) ? rank_a : rank_b;
    return of_kind(KIND_SIGNED, i > u ? i : u + 1);
}

qn_dtype dtype_promote(qn_dtype a, qn_dtype b) {
    if (a == b || b == QN_BOOL) return a;
    if (a == QN_BOOL) return b;
    if (dtype_is_float(a) != dtype_is_float(b)) return dtype_is_float(a) ? a : b;
    if (!dtype_is_float(a)) return promote_ints(a, b);
    int rank_a = dtype_rows[a].rank, rank_b = dtype_rows[b].rank;
    if (rank_a == rank_b) return (qn_dtype)dtype_rows[a].acc; /* f16 with bf16, f8 with f8 */
    return rank_a > rank_b ? a : b;
}

qn_dtype qn_dtype_promote(qn_dtype a, qn_dtype b) {
    bool complex = dtype_is_complex((int)a) || dtype_is_complex((int)b);
    a = dtype_part(a), b = dtype_part(b);
    if (!dtype_is_known((int)a) || !dtype_is_known((int)b)) return (qn_dtype)-1;
    qn_dtype d = dtype_promote(a, b);
    return complex ? dtype_of_parts(d) : d;
}

/* ---- narrow floats -------------------------------------------------------------------------- */

uint32_t dtype_most_bits(qn_dtype d) {
    const dtype_row *r = &dtype_rows[d];
    uint32_t size = (1u << (r->bits - 1)) - 1;
    return (r->infinite ? size >> r->fraction << r->fraction : size) - 1;
}

static uint32_t narrow_pack(qn_dtype d, double v) {
    const dtype_row *r = &dtype_rows[d];
    int bits = r->fraction, least = r->least;
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    uint32_t sign = (uint32_t)(b >> 63) << (r->bits - 1), most = dtype_most_bits(d);
    int e = (int)(b >> 52 & 0x7ff) - 1023;
    uint64_t m = b & 0xfffffffffffffu;
    if (e == 1024) {
        uint32_t quiet = m ? 1u << (bits - 1) | (uint32_t)(m >> (52 - bits)) : 0;
        return sign | (most + 1) | (r->infinite ? quiet : 0);
    }
    m |= (uint64_t)1 << 52;
    int scale = e > least ? e : least, shift = 52 - bits + (scale - e);
    if (shift > 54) return sign; /* below half the smallest number; doubles' subnormals, too */
    uint64_t q = m >> shift, rest = m & (((uint64_t)1 << shift) - 1);
    uint64_t half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (q & 1))) q++;
    /* q holds the leading 1 of a normal number, which counts the exponent up by one. */
    uint64_t packed = ((uint64_t)(scale - least) << bits) + q;
    return sign | (packed <= most ? (uint32_t)packed : most + 1);
}

static double narrow_unpack(qn_dtype d, uint32_t h) {
    const dtype_row *r = &dtype_rows[d];
    int bits = r->fraction;
    uint32_t size = h & ((1u << (r->bits - 1)) - 1), most = dtype_most_bits(d);
    uint32_t fraction = size & ((1u << bits) - 1), e = size >> bits;
    double v;
    if (size > most && (fraction || !r->infinite)) {
        uint64_t b = 0x7ff0000000000000u | (uint64_t)fraction << (52 - bits);
        memcpy(&v, &b, sizeof v);
    } else if (size > most) {
        v = INFINITY;
    } else if (e == 0) {
        v = ldexp((double)fraction, r->least - bits);
    } else {
        v = ldexp((double)(fraction | 1u << bits), r->least - bits + (int)e - 1);
    }
    return h >> (r->bits - 1) ? -v : v;
}

double dtype_most(qn_dtype d) {
    const dtype_row *r = &dtype_rows[d];
    if (r->kind == KIND_NARROW) return narrow_unpack(d, dtype_most_bits(d));
    return ldexp(2 - ldexp(1, -r->fraction), 1 - r->least);
}

double dtype_top(qn_dtype d) {
    return dtype_rows[d].infinite ? INFINITY : dtype_most(d);
}

/* ---- elements ------------------------------------------------------------------------------- */

/* Truncate and clamp; both bounds are exact doubles or, for 2^63-1 and 2^64-1, one below one. */
static int64_t float_to_i64(double v, qn_dtype d) {
    if (isnan(v)) return 0;
    int width = dtype_rows[d].bits;
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

/* A row's case of the switches below, by kind. Of another value than a dtype's nothing is known. */
#define ROWS(NAME, name, bits, KIND, rank, ACC, SUM, C, ...)                                       \
    case QN_##NAME:                                                                                \
        CASE_##KIND(C);

double dtype_get_f(qn_dtype d, const void *p, int64_t i) {
    switch ((int)d) {
#define X                   ROWS
#define CASE_BOOL(C, ...)   return ((const C *)p)[i] != 0
#define CASE_SIGNED(C, ...) return (double)((const C *)p)[i]
#define CASE_UNSIGNED       CASE_SIGNED
#define CASE_FLOAT          CASE_SIGNED
#define CASE_NARROW(C)      return narrow_unpack(d, ((const C *)p)[i])
#include "base/dtypes.h"
#undef CASE_BOOL
#undef CASE_SIGNED
#undef CASE_UNSIGNED
#undef CASE_FLOAT
#undef CASE_NARROW
    default:
        return 0;
    }
}

int64_t dtype_get_i(qn_dtype d, const void *p, int64_t i) {
    switch ((int)d) {
#define CASE_BOOL(C, ...)   return ((const C *)p)[i] != 0
#define CASE_SIGNED(C, ...) return (int64_t)((const C *)p)[i]
#define CASE_UNSIGNED       CASE_SIGNED
#define CASE_FLOAT(C, ...)  return float_to_i64((double)((const C *)p)[i], QN_I64)
#define CASE_NARROW(...)    return float_to_i64(dtype_get_f(d, p, i), QN_I64)
#include "base/dtypes.h"
#undef CASE_BOOL
#undef CASE_SIGNED
#undef CASE_UNSIGNED
#undef CASE_FLOAT
#undef CASE_NARROW
    default:
        return 0;
    }
}

void dtype_set_f(qn_dtype d, void *p, int64_t i, double v) {
    switch ((int)d) {
#define CASE_BOOL(C, ...)                                                                          \
    ((C *)p)[i] = v != 0;                                                                          \
    break
#define CASE_SIGNED(C, ...)                                                                        \
    ((C *)p)[i] = (C)float_to_i64(v, d);                                                           \
    break
#define CASE_UNSIGNED CASE_SIGNED
#define CASE_FLOAT(C, ...)                                                                         \
    ((C *)p)[i] = (C)v;                                                                            \
    break
#define CASE_NARROW(C)                                                                             \
    ((C *)p)[i] = (C)narrow_pack(d, v);                                                            \
    break
#include "base/dtypes.h"
#undef CASE_BOOL
#undef CASE_SIGNED
#undef CASE_UNSIGNED
#undef CASE_FLOAT
#undef CASE_NARROW
    default:
        break;
    }
}

void dtype_set_i(qn_dtype d, void *p, int64_t i, int64_t v) {
    switch ((int)d) {
#define CASE_BOOL(C, ...)                                                                          \
    ((C *)p)[i] = v != 0;                                                                          \
    break
#define CASE_SIGNED(C, ...)                                                                        \
    ((C *)p)[i] = (C)v;                                                                            \
    break
#define CASE_UNSIGNED CASE_SIGNED
#define CASE_FLOAT(C, ...)                                                                         \
    dtype_set_f(d, p, i, dtype_from_i64(d, v));                                                    \
    break
#define CASE_NARROW CASE_FLOAT
#include "base/dtypes.h"
#undef CASE_BOOL
#undef CASE_SIGNED
#undef CASE_UNSIGNED
#undef CASE_FLOAT
#undef CASE_NARROW
    default:
        break;
    }
}

double dtype_round(qn_dtype d, double v) {
    if (dtype_is_narrow(d)) return narrow_unpack(d, narrow_pack(d, v));
    return d == QN_F32 ? (double)(float)v : v;
}

int64_t dtype_wrap(qn_dtype d, int64_t v) {
    switch ((int)d) {
#define CASE_BOOL(...)      return v & 1
#define CASE_SIGNED(C, ...) return (int64_t)(C)v
#define CASE_UNSIGNED       CASE_SIGNED
#define CASE_FLOAT(...)     return v
#define CASE_NARROW(...)    return v
#include "base/dtypes.h"
#undef X
    default:
        return v;
    }
}
