/* oracle.h - what each primitive means, computed in the slowest obvious way: one output element at
 * a time, from its index, in long double or 128-bit integers, with libm's long double functions.
 * It shares no code with the library but the names of ops and dtypes, and is what `ref` is checked
 * against; everything else is checked against `ref`. Arrays are dense, row-major and small. */
#ifndef QN_ORACLE_H
#define QN_ORACLE_H

#include "dev/dev.h"
#include "graph/graph.h"
#include "test.h"

typedef __int128 oracle_int;

/* ---- elements ------------------------------------------------------------------------------ */

/* Fraction bits and the exponent of the smallest subnormal; largest exponent is -normal + 2. */
typedef struct oracle_format {
    int fraction, least, most;
} oracle_format;

static inline oracle_format oracle_format_of(qn_dtype d) {
    switch (d) {
    case QN_F16:
        return (oracle_format){10, -24, 15};
    case QN_BF16:
        return (oracle_format){7, -133, 127};
    case QN_F8_E4M3:
        return (oracle_format){3, -9, 8};
    case QN_F8_E5M2:
        return (oracle_format){2, -16, 15};
    case QN_F32:
        return (oracle_format){23, -149, 127};
    default:
        return (oracle_format){52, -1074, 1023};
    }
}

/* The distance of neighbouring numbers of a float dtype around v. */
static inline long double oracle_ulp(qn_dtype d, long double v) {
    oracle_format f = oracle_format_of(d);
    int e = 0;
    if (v != 0 && isfinite(v)) (void)frexpl(v, &e);
    e = v == 0 ? f.least : e - 1 - f.fraction;
    return ldexpl(1, e > f.least ? e : f.least);
}

/* The number next to the largest one, were there no bound. */
static inline long double oracle_bound(qn_dtype d) {
    return d == QN_F8_E4M3 ? 480 : ldexpl(2, oracle_format_of(d).most);
}

/* What is too large. */
static inline long double oracle_past(qn_dtype d) {
    return d == QN_F8_E4M3 ? (long double)NAN : (long double)INFINITY;
}

/* Nearest number of the dtype, ties to even, infinity past the largest, or NaN. */
static inline long double oracle_round(qn_dtype d, long double v) {
    if (v == 0 || isnan(v)) return v;
    if (isinf(v)) return copysignl(oracle_past(d), v);
    long double u = oracle_ulp(d, v), r = rintl(v / u) * u;
    return fabsl(r) >= oracle_bound(d) ? copysignl(oracle_past(d), v) : r;
}

static inline oracle_int oracle_wrap(qn_dtype d, oracle_int v) {
    int bits = 8 * (int)qn_dtype_size(d);
    if (d == QN_BOOL) return v & 1;
    oracle_int span = (oracle_int)1 << bits;
    v = ((v % span) + span) % span;
    return !dtype_is_unsigned(d) && v >= span / 2 ? v - span : v;
}

/* A product whose low 64 bits are right; the rest wraps. */
static inline oracle_int oracle_times(oracle_int x, oracle_int y) {
    return (oracle_int)((unsigned __int128)x * (unsigned __int128)y);
}

static inline uint64_t oracle_raw(qn_dtype d, const void *p, int64_t i) {
    size_t size = qn_dtype_size(d);
    uint64_t bits = 0;
    for (size_t b = 0; b < size; b++)
        bits |= (uint64_t)((const unsigned char *)p)[(size_t)i * size + b] << (8 * b);
    return bits;
}

static inline long double oracle_get_f(qn_dtype d, const void *p, int64_t i) {
    if (d == QN_F32) return ((const float *)p)[i];
    if (d == QN_F64) return ((const double *)p)[i];
    oracle_format f = oracle_format_of(d);
    uint64_t bits = oracle_raw(d, p, i), fraction = bits & ((1u << f.fraction) - 1);
    uint64_t sign = (uint64_t)1 << (8 * qn_dtype_size(d) - 1);
    int e = (int)((bits & (sign - 1)) >> f.fraction);
    long double v =
        ldexpl((long double)(fraction + (e ? 1u << f.fraction : 0)), f.least + (e ? e - 1 : 0));
    if (v >= oracle_bound(d)) v = fraction ? (long double)NAN : oracle_past(d);
    return bits & sign ? -v : v;
}

static inline oracle_int oracle_get_i(qn_dtype d, const void *p, int64_t i) {
    return oracle_wrap(d, (oracle_int)oracle_raw(d, p, i));
}

/* One value of either kind. */
typedef struct oracle_value {
    long double f;
    oracle_int i;
} oracle_value;

static inline oracle_value oracle_get(qn_dtype d, const void *p, int64_t i) {
    oracle_value v = {0, 0};
    if (dtype_is_float(d))
        v.f = oracle_get_f(d, p, i);
    else
        v.i = oracle_get_i(d, p, i);
    return v;
}

/* Is element i of p the expected value, to within `ulps` for floats? Any NaN is as good as another;
 * zeros are equal. */
static inline bool oracle_equal(qn_dtype d, const void *p, int64_t i, oracle_value want,
                                double ulps) {
    if (!dtype_is_float(d)) return oracle_get_i(d, p, i) == want.i;
    long double got = oracle_get_f(d, p, i), exact = want.f;
    long double rounded = oracle_round(d, exact);
    if (isnan(got) && isnan(rounded)) return true;
    if (got == exact || got == rounded) return true;
    if (!isfinite(got) || !isfinite(exact)) {
        /* one of them may just be past the largest number */
        long double finite = isfinite(got) ? got : exact;
        return (signbit(got) == signbit(exact) || isnan(got)) && isfinite(finite) &&
               (!isnan(got) || isnan(oracle_past(d))) && !isnan(exact) &&
               oracle_bound(d) - fabsl(finite) <= (long double)(ulps + 1) * oracle_ulp(d, finite);
    }
    return fabsl(got - exact) <= (long double)ulps * oracle_ulp(d, exact);
}

/* ---- elementwise --------------------------------------------------------------------------- */

static inline long double oracle_mod(long double x, long double y) {
    long double r = fmodl(x, y);
    if (r == 0) return copysignl(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* Where it can be told from the quotient: by what is left. As Python has it of infinite numbers. */
static inline long double oracle_floor_quotient(long double x, long double y) {
    long double q = x / y;
    if (isinf(x) && y != 0) return NAN;
    if (isinf(y) && x != 0 && q == 0 && signbit(q)) return -1;
    if (!isfinite(x) || !isfinite(y) || y == 0 || fabsl(q) > 0x1p40L) return floorl(q);
    return copysignl(roundl((x - oracle_mod(x, y)) / y), q);
}

static inline long double oracle_pick(long double x, long double y, bool larger) {
    if (isnan(x) || isnan(y)) return NAN;
    return (larger ? x > y : x < y) ? x : y;
}

/* A sum that was rounded moves by a last place to where the exact one is: it must not seem to lie
 * halfway between two narrow values. */
static inline long double oracle_fma(long double x, long double y, long double z) {
    long double p = x * y, r = fmal(x, y, z), t = r - p, e = (p - (r - t)) + (z - t);
    return e > 0 ? nextafterl(r, INFINITY) : e < 0 ? nextafterl(r, -INFINITY) : r;
}

/* By the textbook's formulas, whose limits at infinities are 0 and x, of slopes 0 and 1. */
static inline long double oracle_activation(int op, long double x) {
    const long double k = 1.59576912160573071176L, z = k * (x + 0.044715L * x * x * x);
    bool slope = op == OP_SILU_SLOPE || op == OP_GELU_SLOPE || op == OP_GELU_TANH_SLOPE;
    if (fabsl(x) > 2000) return x < 0 ? -0.0L : slope ? 1 : x;
    switch (op) {
    case OP_SILU:
        return x / (1 + expl(-x));
    case OP_SILU_SLOPE:
        return (1 + x / (1 + expl(x))) / (1 + expl(-x));
    case OP_GELU:
        return x * (erfcl(-x / sqrtl(2)) / 2);
    case OP_GELU_SLOPE:
        return erfcl(-x / sqrtl(2)) / 2 + x * expl(-x * x / 2) / sqrtl(2 * 3.14159265358979323846L);
    case OP_GELU_TANH:
        return x / (1 + expl(-z));
    case OP_GELU_TANH_SLOPE:
        return (1 + x * k * (1 + 0.134145L * x * x) / (1 + expl(z))) / (1 + expl(-z));
    default:
        return x * tanhl(log1pl(expl(x)));
    }
}

/* The row's exact value; a row that is not here has the value its column F gives in double.
 * Long because there is a case for each operation. */
static inline long double oracle_float(int op, qn_dtype d, long double x, long double y,
                                       long double z) {
    switch (op) {
    case OP_NEG:
        return -x;
    case OP_ABS:
        return fabsl(x);
    case OP_RECIPROCAL:
        return 1 / x;
    case OP_SQRT:
        return sqrtl(x);
    case OP_EXP:
        return expl(x);
    case OP_EXP2:
        return exp2l(x);
    case OP_EXPM1:
        return expm1l(x);
    case OP_LOG:
        return logl(x);
    case OP_LOG2:
        return log2l(x);
    case OP_LOG1P:
        return log1pl(x);
    case OP_SIN:
        return sinl(x);
    case OP_COS:
        return cosl(x);
    case OP_ATAN:
        return atanl(x);
    case OP_ASIN:
        return asinl(x);
    case OP_ACOS:
        return acosl(x);
    case OP_ASINH:
        return asinhl(x);
    case OP_ACOSH:
        return acoshl(x);
    case OP_ATANH:
        return atanhl(x);
    case OP_CBRT:
        return cbrtl(x);
    case OP_ATAN2:
        return atan2l(x, y);
    case OP_HYPOT:
        return hypotl(x, y);
    case OP_SOFTPLUS:
        return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
    case OP_LOGADDEXP:
        return oracle_pick(x, y, true) + log1pl(x == y ? 1 : expl(-fabsl(x - y)));
    case OP_SIGMOID:
        return 1 / (1 + expl(-x));
    case OP_TANH:
        return tanhl(x);
    case OP_ERF:
        return erfl(x);
    case OP_ERFC:
        return erfcl(x);
    case OP_LGAMMA:
        return lgammal(x);
    case OP_SINH:
        return sinhl(x);
    case OP_COSH:
        return coshl(x);
    case OP_SILU:
    case OP_SILU_SLOPE:
    case OP_GELU:
    case OP_GELU_SLOPE:
    case OP_GELU_TANH:
    case OP_GELU_TANH_SLOPE:
    case OP_MISH:
        return oracle_activation(op, x);
    case OP_FLOOR:
        return floorl(x);
    case OP_CEIL:
        return ceill(x);
    case OP_ROUND:
        return rintl(x);
    case OP_TRUNC:
        return truncl(x);
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return x * y;
    case OP_DIV:
        return x / y;
    case OP_FLOOR_DIV:
        return oracle_floor_quotient(x, y);
    case OP_MOD:
        return oracle_mod(x, y);
    case OP_POW:
        return powl(x, y);
    case OP_MAXIMUM:
        return oracle_pick(x, y, true);
    case OP_MINIMUM:
        return oracle_pick(x, y, false);
    case OP_LT:
        return x < y;
    case OP_LE:
        return x <= y;
    case OP_EQ:
        return x == y;
    case OP_NE:
        return x != y;
    case OP_FMA:
        return oracle_fma(x, y, z);
    default:
        break;
    }
    scalar s[3] = {{.f = (double)x}, {.f = (double)y}, {.f = (double)z}}, out = {.f = NAN};
    if (!scalar_op(op, d, d, s, &out)) return NAN;
    return out.f;
}

static inline oracle_int oracle_floor_div(oracle_int x, oracle_int y) {
    if (y == 0) return 0;
    oracle_int q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

static inline oracle_int oracle_integer(int op, qn_dtype d, oracle_int x, oracle_int y) {
    int bits = 8 * (int)qn_dtype_size(d);
    bool past = y < 0 || y >= bits;
    switch (op) {
    case OP_NEG:
        return -x;
    case OP_ABS:
        return x < 0 ? -x : x;
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_TRUNC:
        return x;
    case OP_NOT:
        return -1 - x;
    case OP_ADD:
        return x + y;
    case OP_SUB:
        return x - y;
    case OP_MUL:
        return oracle_times(x, y);
    case OP_FLOOR_DIV:
        return oracle_floor_div(x, y);
    case OP_MOD:
        return y == 0 ? 0 : x - y * oracle_floor_div(x, y);
    case OP_MAXIMUM:
        return x > y ? x : y;
    case OP_MINIMUM:
        return x < y ? x : y;
    case OP_LT:
        return x < y;
    case OP_LE:
        return x <= y;
    case OP_EQ:
        return x == y;
    case OP_NE:
        return x != y;
    case OP_AND:
        return x & y;
    case OP_OR:
        return x | y;
    case OP_XOR:
        return x ^ y;
    case OP_SHL:
        return past ? 0 : x * ((oracle_int)1 << y);
    case OP_SHR:
        return past ? (x < 0 ? -1 : 0) : oracle_floor_div(x, (oracle_int)1 << y);
    default:
        break;
    }
    scalar s[3] = {{.i = (int64_t)x}, {.i = (int64_t)y}, {.i = 0}}, out = {.i = 0};
    if (!scalar_op(op, d, d, s, &out)) return 0;
    return out.i;
}

static inline oracle_value oracle_cast(qn_dtype to, qn_dtype from, oracle_value v) {
    oracle_value out = {0, 0};
    if (dtype_is_float(to)) {
        out.f = oracle_round(to, dtype_is_float(from) ? v.f : (long double)v.i);
    } else if (to == QN_BOOL) {
        out.i = dtype_is_float(from) ? v.f != 0 : v.i != 0;
    } else if (!dtype_is_float(from)) {
        out.i = oracle_wrap(to, v.i);
    } else if (!isnan(v.f)) {
        int bits = 8 * (int)qn_dtype_size(to);
        oracle_int lowest = dtype_is_unsigned(to) ? 0 : -((oracle_int)1 << (bits - 1));
        oracle_int highest = ((oracle_int)1 << (bits - !dtype_is_unsigned(to))) - 1;
        if (v.f <= (long double)lowest)
            out.i = lowest;
        else if (v.f >= (long double)highest)
            out.i = highest;
        else
            out.i = (oracle_int)v.f;
    }
    return out;
}

/* Value of an ELEM row; `in` is the dtype of the last source. */
static inline oracle_value oracle_elem(int op, qn_dtype d, qn_dtype in, const oracle_value *x) {
    oracle_value v = {0, 0};
    if (op == OP_CAST) return oracle_cast(d, in, x[0]);
    if (op == OP_WHERE) return x[0].i ? x[1] : x[2];
    if (dtype_is_float(in)) {
        v.f = oracle_float(op, in, x[0].f, x[1].f, x[2].f);
        if (!dtype_is_float(d)) v.i = v.f != 0;
    } else {
        v.i = oracle_wrap(d, oracle_integer(op, in, x[0].i, x[1].i));
    }
    return v;
}

/* ---- shapes -------------------------------------------------------------------------------- */

static inline int64_t oracle_count(int rank, const int64_t *dim) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= dim[d];
    return n;
}
static inline void oracle_index(int rank, const int64_t *dim, int64_t flat, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) index[d] = flat % dim[d], flat /= dim[d];
}
static inline int64_t oracle_flat(int rank, const int64_t *dim, const int64_t *index) {
    int64_t flat = 0;
    for (int d = 0; d < rank; d++) flat = flat * dim[d] + index[d];
    return flat;
}

/* Which element of the source a movement op puts at `flat`; -1: none, a zero of PAD. */
static inline int64_t oracle_moved(const dev_node *n, int64_t flat) {
    const dev_array *s = &n->src[0], *o = &n->out;
    int64_t at[QN_MAX_RANK], from[QN_MAX_RANK];
    const int64_t *a = n->attr;
    oracle_index(o->rank, o->dim, flat, at);
    switch (n->op) {
    case OP_PERMUTE:
        for (int d = 0; d < o->rank; d++) from[a[d]] = at[d];
        break;
    case OP_EXPAND:
        for (int d = 0; d < o->rank; d++) from[d] = s->dim[d] == 1 ? 0 : at[d];
        break;
    case OP_PAD:
        for (int d = 0; d < o->rank; d++) {
            int64_t p = at[d] - a[3 * d], step = a[3 * d + 2] + 1;
            if (p < 0 || p % step || p / step >= s->dim[d]) return -1;
            from[d] = p / step;
        }
        break;
    case OP_SLICE:
        for (int d = 0; d < o->rank; d++) from[d] = a[3 * d] + at[d] * a[3 * d + 2];
        break;
    case OP_WINDOW: /* axis, by, stride, slope, start, size, length */
        memcpy(from, at, sizeof from);
        from[a[0]] = a[4] + a[2] * at[a[0]] + a[3] * at[a[1]];
        if (from[a[0]] < 0 || from[a[0]] >= s->dim[a[0]]) return -1;
        if (s->dim[a[1]] == 1) from[a[1]] = 0;
        break;
    case OP_FLIP:
        memcpy(from, at, sizeof from);
        for (int i = 0; i < n->attrs; i++) from[a[i]] = s->dim[a[i]] - 1 - at[a[i]];
        break;
    default: /* RESHAPE and the marks */
        return flat;
    }
    return oracle_flat(s->rank, s->dim, from);
}

/* Element `flat` of sources one behind the other along the axis. */
static inline oracle_value oracle_joined(const dev_node *n, int64_t flat) {
    int64_t at[QN_MAX_RANK], axis = n->attr[0];
    int k = 0;
    oracle_index(n->out.rank, n->out.dim, flat, at);
    while (at[axis] >= n->src[k].dim[axis]) at[axis] -= n->src[k++].dim[axis];
    return oracle_get(n->dtype, n->src[k].data, oracle_flat(n->src[k].rank, n->src[k].dim, at));
}

/* ---- reductions, indices, leaves ----------------------------------------------------------- */

/* How results merge, by name of the monoid; a NaN wins max and min. */
static inline oracle_value oracle_merge(int by, qn_dtype d, oracle_value a, oracle_value b) {
    bool floats = dtype_is_float(d);
    switch (by) {
    case MONOID_SET:
        return b;
    case MONOID_SUM:
        a.f += b.f, a.i = oracle_wrap(d, a.i + b.i);
        break;
    case MONOID_PROD:
        a.f *= b.f, a.i = oracle_wrap(d, oracle_times(a.i, b.i));
        break;
    case MONOID_MAX:
        if (floats)
            a.f = oracle_pick(a.f, b.f, true);
        else if (b.i > a.i)
            a.i = b.i;
        break;
    case MONOID_MIN:
        if (floats)
            a.f = oracle_pick(a.f, b.f, false);
        else if (b.i < a.i)
            a.i = b.i;
        break;
    case MONOID_AND:
        a.i &= b.i;
        break;
    case MONOID_OR:
        a.i |= b.i;
        break;
    default:
        break;
    }
    return a;
}

static inline oracle_value oracle_empty(int op, qn_dtype d) {
    int bits = 8 * (int)qn_dtype_size(d);
    oracle_value v = {0, 0};
    if (op == OP_PROD) v.f = 1, v.i = 1;
    if (op == OP_MAX) {
        v.f = -INFINITY;
        v.i = d == QN_BOOL || dtype_is_unsigned(d) ? 0 : -((oracle_int)1 << (bits - 1));
    }
    if (op == OP_MIN) {
        v.f = INFINITY;
        v.i = d == QN_BOOL ? 1 : ((oracle_int)1 << (bits - !dtype_is_unsigned(d))) - 1;
    }
    return v;
}

/* The element `flat` of a reduction's result, and in `bulk` the sum of magnitudes that went into
 * it, by which the rounding of a sum is measured. */
static inline oracle_value oracle_reduced(const dev_node *n, int64_t flat, long double *bulk) {
    const dev_array *s = &n->src[0];
    qn_dtype d = s->dtype;
    int64_t total = oracle_count(s->rank, s->dim), at[QN_MAX_RANK], kept[QN_MAX_RANK];
    bool product = n->op == OP_SUM_PRODUCT;
    int by = n->op == OP_SUM || product ? MONOID_SUM
             : n->op == OP_PROD         ? MONOID_PROD
             : n->op == OP_MAX          ? MONOID_MAX
                                        : MONOID_MIN;
    bool arg = n->op == OP_ARGMAX || n->op == OP_ARGMIN;
    oracle_value v = oracle_empty(n->op, d), best = v;
    int64_t place = 0;
    *bulk = 0;
    for (int64_t i = 0; i < total; i++) {
        int rank = 0;
        oracle_index(s->rank, s->dim, i, at);
        for (int x = 0; x < s->rank; x++) {
            bool reduced = false;
            for (int k = 0; k < n->attrs; k++) reduced |= n->attr[k] == x;
            if (!reduced) kept[rank++] = at[x];
        }
        if (oracle_flat(n->out.rank, n->out.dim, kept) != flat) continue;
        oracle_value e = oracle_get(d, s->data, i);
        if (n->sources == 3 && !oracle_get(QN_BOOL, n->src[2].data, i).i) continue;
        if (product) {
            oracle_value f = oracle_get(d, n->src[1].data, i);
            e.f *= f.f, e.i = oracle_wrap(d, oracle_times(e.i, f.i));
        }
        *bulk += fabsl(e.f);
        if (!arg) {
            v = oracle_merge(by, d, v, e);
            continue;
        }
        bool wins = dtype_is_float(d)
                        ? !isnan(best.f) &&
                              (isnan(e.f) || (n->op == OP_ARGMAX ? e.f > best.f : e.f < best.f))
                        : (n->op == OP_ARGMAX ? e.i > best.i : e.i < best.i);
        if (place == 0 || wins) best = e, v.i = place;
        place++;
    }
    if (arg) v.i = oracle_wrap(n->dtype, place ? v.i : INT64_MAX);
    return v;
}

static inline oracle_value oracle_gathered(const dev_node *n, int64_t flat) {
    const dev_array *x = &n->src[0], *index = &n->src[1];
    int64_t at[QN_MAX_RANK], axis = n->attr[0];
    oracle_index(n->out.rank, n->out.dim, flat, at);
    oracle_int i = oracle_get_i(index->dtype, index->data, flat);
    if (i < 0 || i >= x->dim[axis]) return (oracle_value){0, 0};
    at[axis] = (int64_t)i;
    return oracle_get(x->dtype, x->data, oracle_flat(x->rank, x->dim, at));
}

static inline oracle_value oracle_scattered(const dev_node *n, int64_t flat, long double *bulk) {
    const dev_array *index = &n->src[1];
    int64_t at[QN_MAX_RANK], axis = n->attr[0];
    int64_t updates = oracle_count(index->rank, index->dim);
    oracle_value v = oracle_get(n->dtype, n->src[0].data, flat);
    *bulk = fabsl(v.f);
    for (int64_t u = 0; u < updates; u++) {
        oracle_int i = oracle_get_i(index->dtype, index->data, u);
        if (i < 0 || i >= n->out.dim[axis]) continue;
        oracle_index(index->rank, index->dim, u, at);
        at[axis] = (int64_t)i;
        if (oracle_flat(n->out.rank, n->out.dim, at) != flat) continue;
        oracle_value e = oracle_get(n->dtype, n->src[2].data, u);
        *bulk += fabsl(e.f);
        v = oracle_merge((int)n->attr[1], n->dtype, v, e);
    }
    return v;
}

/* ---- any node ------------------------------------------------------------------------------ */

/* Has it zeros where its terms cancel? There the oracle's own digits end, too. */
static inline bool oracle_cancels(int op) {
    return op == OP_SILU_SLOPE || op == OP_GELU_SLOPE || op == OP_GELU_TANH_SLOPE ||
           op == OP_LGAMMA || op == OP_DIGAMMA;
}

/* The value of element `flat` of a node whose sources are dense; the error `ref` is allowed in ulps
 * of the result; and for sums the magnitudes that went in, by which a device that adds in the
 * result's own precision may err. */
static inline oracle_value oracle_node(const dev_node *n, int64_t flat, double *ulps,
                                       long double *bulk) {
    oracle_value x[3] = {{0, 0}, {0, 0}, {0, 0}}, v = {0, 0};
    int64_t at[QN_MAX_RANK];
    *ulps = 0, *bulk = 0;
    switch (op_rows[n->op].class_) {
    case CLASS_LEAF:
        if (n->op == OP_CONST) return oracle_get(n->dtype, &n->bits, 0);
        oracle_index(n->out.rank, n->out.dim, flat, at);
        v.f = (long double)at[n->attr[0]], v.i = oracle_wrap(n->dtype, at[n->attr[0]]);
        return v;
    case CLASS_ELEM:
        if (n->op == OP_BITCAST) return oracle_get(n->dtype, n->src[0].data, flat);
        for (int k = 0; k < n->sources; k++)
            x[k] = oracle_get(n->src[k].dtype, n->src[k].data, flat);
        *ulps = 0.5001;                    /* double libm, then one rounding */
        if (n->dtype == QN_F64) *ulps = 1; /* what glibc states of those that are not long double */
        if (n->op == OP_LOGADDEXP) {       /* its two terms cancel where it is near 0 */
            long double most = fmaxl(x[0].f, x[1].f);
            v = oracle_elem(n->op, n->dtype, n->src[1].dtype, x);
            most = ldexpl(oracle_ulp(QN_F64, most), 2) / oracle_ulp(n->dtype, v.f);
            if (isfinite(most)) *ulps += (double)most;
            return v;
        }
        v = oracle_elem(n->op, n->dtype, n->src[n->sources - 1].dtype, x);
        if (oracle_cancels(n->op) && fabsl(v.f) < 1 && v.f != 0) /* terms of about 1, long double */
            *ulps += (double)(0x1p-60L / oracle_ulp(n->dtype, v.f));
        return v;
    case CLASS_MOVE:
    case CLASS_MARK:
        flat = oracle_moved(n, flat);
        return flat < 0 ? v : oracle_get(n->dtype, n->src[0].data, flat);
    case CLASS_JOIN:
        return oracle_joined(n, flat);
    case CLASS_REDUCE:
        v = oracle_reduced(n, flat, bulk);
        break;
    default:
        if (n->op == OP_GATHER) return oracle_gathered(n, flat);
        v = oracle_scattered(n, flat, bulk);
    }
    /* Sums of n doubles: each addition errs by 2^-53 of what is there, at most `bulk`. */
    *ulps = 0.5001;
    if (isfinite(*bulk) && *bulk > 0)
        *ulps += (double)(ldexpl(*bulk, -48) / oracle_ulp(n->dtype, v.f));
    if (n->op == OP_PROD) *ulps += n->dtype == QN_F64 ? 64 : 0.01;
    return v;
}

#endif
