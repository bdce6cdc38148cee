/* test_dtype.c - element types and the scalar meaning of operations. Conversions are compared with
 * the compiler's own casts and the formats' definitions, promotion with the table
 * printed in the array API standard, formulas with libm in long double and with 128-bit integers.
 */
#include "graph/graph.h"
#include "test.h"

#include <float.h>

__extension__ typedef __int128 int128;

/* ---- promotion ------------------------------------------------------------------------------ */

typedef struct promotion {
    qn_dtype a, b, result;
} promotion;

/* The standard's tables of same-kind promotion, upper triangle. */
static const promotion published[] = {
    {QN_I8, QN_I8, QN_I8},
    {QN_I8, QN_I16, QN_I16},
    {QN_I8, QN_I32, QN_I32},
    {QN_I8, QN_I64, QN_I64},
    {QN_I16, QN_I16, QN_I16},
    {QN_I16, QN_I32, QN_I32},
    {QN_I16, QN_I64, QN_I64},
    {QN_I32, QN_I32, QN_I32},
    {QN_I32, QN_I64, QN_I64},
    {QN_I64, QN_I64, QN_I64},
    {QN_U8, QN_U8, QN_U8},
    {QN_U8, QN_U16, QN_U16},
    {QN_U8, QN_U32, QN_U32},
    {QN_U8, QN_U64, QN_U64},
    {QN_U16, QN_U16, QN_U16},
    {QN_U16, QN_U32, QN_U32},
    {QN_U16, QN_U64, QN_U64},
    {QN_U32, QN_U32, QN_U32},
    {QN_U32, QN_U64, QN_U64},
    {QN_U64, QN_U64, QN_U64},
    {QN_I8, QN_U8, QN_I16},
    {QN_I8, QN_U16, QN_I32},
    {QN_I8, QN_U32, QN_I64},
    {QN_I16, QN_U8, QN_I16},
    {QN_I16, QN_U16, QN_I32},
    {QN_I16, QN_U32, QN_I64},
    {QN_I32, QN_U8, QN_I32},
    {QN_I32, QN_U16, QN_I32},
    {QN_I32, QN_U32, QN_I64},
    {QN_I64, QN_U8, QN_I64},
    {QN_I64, QN_U16, QN_I64},
    {QN_I64, QN_U32, QN_I64},
    {QN_F32, QN_F32, QN_F32},
    {QN_F32, QN_F64, QN_F64},
    {QN_F64, QN_F64, QN_F64},
    {QN_BOOL, QN_BOOL, QN_BOOL},
    /* beyond the standard */
    {QN_F16, QN_BF16, QN_F32},
    {QN_F16, QN_F32, QN_F32},
    {QN_BF16, QN_F64, QN_F64},
    {QN_I64, QN_U64, QN_F64},
    {QN_I64, QN_F16, QN_F16},
    {QN_U8, QN_F32, QN_F32},
    {QN_BOOL, QN_U16, QN_U16},
    {QN_BOOL, QN_BF16, QN_BF16},
    {QN_F8_E4M3, QN_F8_E5M2, QN_F32},
    {QN_F8_E4M3, QN_F16, QN_F16},
    {QN_F8_E5M2, QN_BF16, QN_BF16},
    {QN_F8_E5M2, QN_F64, QN_F64},
    {QN_F8_E4M3, QN_I64, QN_F8_E4M3},
};

static void promotion_is_the_array_api_table(void) {
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        promotion p = published[i];
        CHECK_INT(dtype_promote(p.a, p.b), p.result);
        CHECK_INT(dtype_promote(p.b, p.a), p.result);
    }
}

static void promotion_commutes(void) {
    for (int a = 0; a < DTYPE_COUNT; a++)
        for (int b = 0; b < DTYPE_COUNT; b++)
            CHECK_INT(dtype_promote((qn_dtype)a, (qn_dtype)b),
                      dtype_promote((qn_dtype)b, (qn_dtype)a));
}

static void names_and_sizes(void) {
    CHECK_STR(qn_dtype_name(QN_BF16), "bf16");
    CHECK_STR(qn_dtype_name((qn_dtype)99), "unknown dtype");
    CHECK_INT(qn_dtype_size((qn_dtype)99), 0);
    CHECK_INT(qn_dtype_size(QN_BOOL), 1);
    CHECK_INT(qn_dtype_size(QN_F16), 2);
    CHECK_INT(qn_dtype_size(QN_F64), sizeof(double));
    CHECK_STR(qn_dtype_name(QN_F8_E4M3), "f8_e4m3");
    CHECK_INT(qn_dtype_size(QN_F8_E5M2), 1);
}

/* As the formats' definitions have it; and dtype_round, which knows nothing of it, finds no number
 * nearer to 1. */
static void epsilon_is_the_step_behind_one(void) {
    static const struct {
        qn_dtype dtype;
        double step;
    } floats[] = {{QN_F16, 1.0 / 1024},          {QN_BF16, 1.0 / 128},
                  {QN_F32, (double)FLT_EPSILON}, {QN_F64, DBL_EPSILON},
                  {QN_F8_E4M3, 1.0 / 8},         {QN_F8_E5M2, 1.0 / 4},
                  {QN_C64, (double)FLT_EPSILON}, {QN_C128, DBL_EPSILON},
                  {QN_I8, (double)FLT_EPSILON},  {QN_BOOL, (double)FLT_EPSILON}};
    for (size_t i = 0; i < COUNT_OF(floats); i++)
        CHECK_NEAR(dtype_epsilon(floats[i].dtype), floats[i].step, 0, 0);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        double step = dtype_epsilon(d);
        if (!dtype_is_float(d)) continue;
        CHECK_NEAR(dtype_round((qn_dtype)d, 1 + step), 1 + step, 0, 0);
        CHECK_NEAR(dtype_round((qn_dtype)d, 1 + step / 4), 1, 0, 0);
    }
}

/* ---- narrow floats, all of them ------------------------------------------------------------- */

static float bf16_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

/* IEEE 754's definition of binary16. */
static double f16_value(uint16_t bits) {
    int e = bits >> 10 & 31, m = bits & 1023;
    double v =
        e == 31 ? (m ? (double)NAN : (double)INFINITY) : ldexp(e ? 1024 + m : m, e ? e - 25 : -24);
    return bits >> 15 ? -v : v;
}

/* OFP8, the Open Compute Project's definition of both: E4M3 has no infinities, and NaN where
 * exponent and fraction are all ones. */
static double f8_value(qn_dtype d, uint8_t bits) {
    bool wide = d == QN_F8_E5M2;
    int f = wide ? 2 : 3, bias = wide ? 15 : 7, e = (bits & 127) >> f, m = bits & ((1 << f) - 1);
    double v = e ? ldexp(1 + ldexp(m, -f), e - bias) : ldexp(m, 1 - bias - f);
    if (wide && e == 31) v = m ? (double)NAN : (double)INFINITY;
    if (!wide && (bits & 127) == 127) v = (double)NAN;
    return bits >> 7 ? -v : v;
}

static double half_value(qn_dtype d, uint16_t bits) {
    return qn_dtype_size(d) == 1 ? f8_value(d, (uint8_t)bits)
           : d == QN_F16         ? f16_value(bits)
                                 : (double)bf16_value(bits);
}

static const struct {
    qn_dtype d;
    uint16_t past; /* the bits after the largest number's */
} narrow[] = {{QN_F16, 0x7c00}, {QN_BF16, 0x7f80}, {QN_F8_E4M3, 0x7f}, {QN_F8_E5M2, 0x7c}};

static void every_half_reads_and_writes_back(void) {
    for (size_t k = 0; k < COUNT_OF(narrow); k++) {
        qn_dtype d = narrow[k].d;
        for (uint32_t bits = 0; bits >> (8 * qn_dtype_size(d)) == 0; bits++) {
            uint16_t in = (uint16_t)bits, out = 0;
            double v = dtype_get_f(d, &in, 0), want = half_value(d, in);
            dtype_set_f(d, &out, 0, v);
            if (isnan(want)) {
                CHECK(isnan(v));
                CHECK(isnan(half_value(d, out)));
            } else {
                CHECK(memcmp(&v, &want, sizeof v) == 0);
                CHECK_INT(out, in);
            }
        }
    }
}

/* Between two neighbours the nearer one is taken, and in the middle the one with an even last bit;
 * half a step past the largest number lies infinity, or NaN. */
static void halves_round_to_nearest_even(void) {
    for (size_t k = 0; k < COUNT_OF(narrow); k++) {
        qn_dtype d = narrow[k].d;
        uint16_t past = narrow[k].past, sign = qn_dtype_size(d) == 1 ? 0x80 : 0x8000;
        for (uint16_t bits = 0; bits < past; bits++) {
            double a = half_value(d, bits);
            double step = bits + 1 < past ? half_value(d, (uint16_t)(bits + 1)) - a
                                          : a - half_value(d, (uint16_t)(bits - 1));
            double middle = a + step / 2;
            uint16_t even = bits & 1 ? (uint16_t)(bits + 1) : bits, out = 0;
            dtype_set_f(d, &out, 0, middle);
            CHECK_INT(out, even);
            dtype_set_f(d, &out, 0, nextafter(middle, 0));
            CHECK_INT(out, bits);
            dtype_set_f(d, &out, 0, -nextafter(middle, INFINITY));
            CHECK_INT(out, (bits + 1) | sign);
            CHECK_NEAR(dtype_most(d), half_value(d, past - 1), 0, 0);
        }
        uint16_t out = 0;
        dtype_set_f(d, &out, 0, (double)INFINITY);
        CHECK_INT(out, past);
    }
}

static void halves_round_as_the_compiler_does(void) {
#ifdef __FLT16_MANT_DIG__
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = test_rand(&seed);
        double v = ldexp((test_uniform(&seed) - 0.5) * 4, (int)test_below(&seed, 60) - 40);
        if (i & 1) memcpy(&v, &bits, sizeof v);
        if (isnan(v)) continue;
        _Float16 h = (_Float16)v;
        uint16_t want, out;
        memcpy(&want, &h, sizeof want);
        dtype_set_f(QN_F16, &out, 0, v);
        CHECK_INT(out, want);
    }
#else
    SKIP("the compiler has no _Float16");
#endif
}

/* ---- conversions between all pairs ---------------------------------------------------------- */

static const int64_t odd_ints[] = {0,
                                   1,
                                   -1,
                                   2,
                                   127,
                                   128,
                                   -128,
                                   -129,
                                   255,
                                   256,
                                   32767,
                                   32768,
                                   65535,
                                   65536,
                                   16777217,
                                   INT32_MAX,
                                   INT32_MIN,
                                   1LL << 31,
                                   1LL << 32,
                                   (1LL << 53) + 1,
                                   INT64_MAX,
                                   INT64_MIN,
                                   65519,
                                   65520,
                                   -65536,
                                   (1LL << 56) + (1LL << 48) + 1,
                                   (1LL << 56) + (1LL << 48)};

static void integers_wrap_as_the_compiler_does(void) {
    for (size_t i = 0; i < COUNT_OF(odd_ints); i++) {
        int64_t v = odd_ints[i];
        struct {
            qn_dtype d;
            int64_t want;
        } row[] = {{QN_I8, (int8_t)v},    {QN_I16, (int16_t)v}, {QN_I32, (int32_t)v},
                   {QN_I64, v},           {QN_U8, (uint8_t)v},  {QN_U16, (uint16_t)v},
                   {QN_U32, (uint32_t)v}, {QN_U64, v},          {QN_BOOL, v != 0}};
        for (size_t k = 0; k < COUNT_OF(row); k++) {
            uint64_t element = 0;
            dtype_set_i(row[k].d, &element, 0, v);
            CHECK_INT(dtype_get_i(row[k].d, &element, 0), row[k].want);
        }
    }
}

static void integers_become_floats_with_one_rounding(void) {
    uint64_t seed = 2;
    for (int i = 0; i < 100000; i++) {
        int64_t v = (int64_t)test_rand(&seed) >> test_below(&seed, 63);
        if (i < (int)COUNT_OF(odd_ints)) v = odd_ints[i];
        float f;
        double d;
        dtype_set_i(QN_F32, &f, 0, v);
        dtype_set_i(QN_F64, &d, 0, v);
        CHECK(f == (float)v);
        CHECK(d == (double)v);
        scalar x = {.i = v}, out;
        CHECK(scalar_op(OP_CAST, QN_F32, QN_U64, &x, &out));
        CHECK(out.f == (double)(float)(uint64_t)v);
        /* bf16 against its two neighbours; long double holds all the differences exactly. */
        if (v == 0) continue;
        uint16_t h;
        dtype_set_i(QN_BF16, &h, 0, v);
        long double exact = (long double)v, distance = fabsl((long double)bf16_value(h) - exact);
        CHECK(distance <= fabsl((long double)bf16_value((uint16_t)(h - 1)) - exact));
        CHECK(distance <= fabsl((long double)bf16_value((uint16_t)(h + 1)) - exact));
    }
}

static void floats_become_integers_clamped(void) {
    const double values[] = {0.0,        -0.0,         0.9,    -0.9,   1.5,    -1.5,    127.9,
                             128,        -128,         -129,   255.9,  256,    65535.5, 65536,
                             2147483647, 2147483648.0, -1e10,  1e10,   1e300,  -1e300,  INFINITY,
                             -INFINITY,  NAN,          9.3e18, 1.9e19, -9.3e18};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        for (int d = QN_I8; d <= QN_U64; d++) {
            int width = 8 * (int)qn_dtype_size((qn_dtype)d);
            long double lo = dtype_is_unsigned(d) ? 0 : -ldexpl(1, width - 1);
            long double hi = ldexpl(1, dtype_is_unsigned(d) ? width : width - 1) - 1;
            long double v = isnan(values[i]) ? 0 : truncl((long double)values[i]);
            v = v < lo ? lo : v > hi ? hi : v;
            int64_t want = dtype_is_unsigned(d) ? (int64_t)(uint64_t)v : (int64_t)v;
            uint64_t element = 0;
            dtype_set_f((qn_dtype)d, &element, 0, values[i]);
            CHECK_INT(dtype_get_i((qn_dtype)d, &element, 0), want);
        }
    }
    uint8_t truth;
    dtype_set_f(QN_BOOL, &truth, 0, NAN);
    CHECK_INT(truth, 1);
    dtype_set_f(QN_BOOL, &truth, 0, -0.0);
    CHECK_INT(truth, 0);
}

/* ---- the rows' formulas --------------------------------------------------------------------- */

static double fold(int op, qn_dtype d, double x, double y, double z) {
    scalar in[3] = {{.f = x}, {.f = y}, {.f = z}}, out = {.f = 12345};
    CHECK(scalar_op(op, d, d, in, &out));
    return out.f;
}

static long double sigmoidl(long double x) {
    return 1 / (1 + expl(-x));
}

static long double softplusl(long double x) {
    return log1pl(expl(x));
}

static void float_rows_agree_with_long_double(void) {
    static const struct {
        int op;
        long double (*one)(long double);
    } row[] = {
        {OP_SQRT, sqrtl},         {OP_EXP, expl},     {OP_EXP2, exp2l},       {OP_EXPM1, expm1l},
        {OP_LOG, logl},           {OP_LOG2, log2l},   {OP_LOG1P, log1pl},     {OP_SIN, sinl},
        {OP_COS, cosl},           {OP_ATAN, atanl},   {OP_ASIN, asinl},       {OP_ACOS, acosl},
        {OP_ASINH, asinhl},       {OP_ACOSH, acoshl}, {OP_ATANH, atanhl},     {OP_CBRT, cbrtl},
        {OP_SOFTPLUS, softplusl}, {OP_TANH, tanhl},   {OP_SIGMOID, sigmoidl}, {OP_ERF, erfl},
        {OP_ERFC, erfcl},         {OP_FLOOR, floorl}, {OP_CEIL, ceill},       {OP_ROUND, rintl},
        {OP_TRUNC, truncl},       {OP_ABS, fabsl}};
    uint64_t seed = 3;
    for (size_t r = 0; r < COUNT_OF(row); r++) {
        const op_row *o = &op_rows[row[r].op];
        for (int i = 0; i < 500; i++) {
            double x = o->lo + (o->hi - o->lo) * test_uniform(&seed);
            CHECK_NEAR(fold(row[r].op, QN_F64, x, 0, 0), (double)row[r].one((long double)x), 1e-15,
                       0);
            float f = (float)x;
            CHECK_NEAR(fold(row[r].op, QN_F32, (double)f, 0, 0),
                       (double)(float)row[r].one((long double)f), 1.2e-7, 0);
        }
    }
}

static void float_arithmetic_is_ieee(void) {
    uint64_t seed = 4;
    for (int i = 0; i < 20000; i++) {
        uint32_t bits[3];
        float f[3];
        for (int k = 0; k < 3; k++) {
            bits[k] = (uint32_t)test_rand(&seed);
            if (i & 1) bits[k] = (bits[k] & 0x80ffffff) | 0x3f000000;
            memcpy(&f[k], &bits[k], sizeof f[k]);
        }
        double x = (double)f[0], y = (double)f[1], z = (double)f[2];
        CHECK(test_close(fold(OP_ADD, QN_F32, x, y, 0), (double)(f[0] + f[1]), 0, 0));
        CHECK(test_close(fold(OP_SUB, QN_F32, x, y, 0), (double)(f[0] - f[1]), 0, 0));
        CHECK(test_close(fold(OP_MUL, QN_F32, x, y, 0), (double)(f[0] * f[1]), 0, 0));
        CHECK(test_close(fold(OP_DIV, QN_F32, x, y, 0), (double)(f[0] / f[1]), 0, 0));
        CHECK(test_close(fold(OP_SQRT, QN_F32, x, 0, 0), (double)sqrtf(f[0]), 0, 0));
        CHECK(test_close(fold(OP_FMA, QN_F32, x, y, z), (double)fmaf(f[0], f[1], f[2]), 0, 0));
        double q = fabs(x / y) < 0x1p25 ? (double)(float)floor(x / y) : (double)(f[0] / f[1]);
        CHECK(test_close(fold(OP_FLOOR_DIV, QN_F32, x, y, 0), q, 0, 0));
    }
    CHECK(signbit(fold(OP_NEG, QN_F32, 0, 0, 0)));
    CHECK(signbit(fold(OP_MUL, QN_F64, -0.0, 3, 0)));
    CHECK(signbit(fold(OP_CEIL, QN_F64, -0.5, 0, 0)));
}

/* (1 + 2^-4)^2 = 1 + 2^-3 + 2^-8 lies halfway between two values of bf16; a tiny third operand says
 * which is nearer, though no double can hold the sum. */
static void narrow_multiply_adds_round_once(void) {
    double x = 1 + 0x1p-4, down = 1 + 0x1p-3, up = down + 0x1p-7;
    CHECK_NEAR(fold(OP_FMA, QN_BF16, x, x, 0x1p-100), up, 0, 0);
    CHECK_NEAR(fold(OP_FMA, QN_BF16, x, x, -0x1p-100), down, 0, 0);
    CHECK_NEAR(fold(OP_FMA, QN_BF16, -x, x, 0x1p-100), -down, 0, 0);
    CHECK_NEAR(fold(OP_FMA, QN_BF16, -x, x, -0x1p-100), -up, 0, 0);
    CHECK_NEAR(fold(OP_FMA, QN_BF16, x, x, 0), down, 0, 0);
    CHECK_NEAR(fold(OP_FMA, QN_BF16, 1e30, 1e30, -INFINITY), -INFINITY, 0, 0);
    CHECK(isnan(fold(OP_FMA, QN_BF16, INFINITY, 1, -INFINITY)));
}

static void modulo_has_the_divisors_sign(void) {
    CHECK_NEAR(fold(OP_MOD, QN_F64, 5.5, 2, 0), 1.5, 0, 0);
    CHECK_NEAR(fold(OP_MOD, QN_F64, -5.5, 2, 0), 0.5, 0, 0);
    CHECK_NEAR(fold(OP_MOD, QN_F64, 5.5, -2, 0), -0.5, 0, 0);
    CHECK(isnan(fold(OP_MOD, QN_F64, 1, 0, 0)));
    CHECK(isnan(fold(OP_MAXIMUM, QN_F64, 1, NAN, 0)));
    CHECK(isnan(fold(OP_MINIMUM, QN_F64, NAN, 1, 0)));
}

static int64_t fold_int(int op, qn_dtype d, int64_t x, int64_t y) {
    scalar in[2] = {{.i = dtype_wrap(d, x)}, {.i = dtype_wrap(d, y)}}, out = {.i = 12345};
    qn_dtype result = op_rows[op].types == TYPES_CMP ? QN_BOOL : d;
    CHECK(scalar_op(op, result, d, in, &out));
    return out.i;
}

/* floor(x / y) of any 65-bit integers. */
static int128 wide_floor_div(int128 x, int128 y) {
    int128 q = x / y;
    return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
}

static void check_int_rows(qn_dtype d, int64_t a, int64_t b) {
    bool u = d == QN_U64;
    a = dtype_wrap(d, a), b = dtype_wrap(d, b);
    int128 x = u ? (int128)(uint64_t)a : a, y = u ? (int128)(uint64_t)b : b;
    int128 q = y ? wide_floor_div(x, y) : 0, m = y ? x - q * y : 0;
    CHECK_INT(fold_int(OP_ADD, d, a, b), dtype_wrap(d, (int64_t)(uint64_t)(x + y)));
    CHECK_INT(fold_int(OP_SUB, d, a, b), dtype_wrap(d, (int64_t)(uint64_t)(x - y)));
    CHECK_INT(fold_int(OP_MUL, d, a, b), dtype_wrap(d, (int64_t)((uint64_t)x * (uint64_t)y)));
    CHECK_INT(fold_int(OP_FLOOR_DIV, d, a, b), dtype_wrap(d, (int64_t)(uint64_t)q));
    CHECK_INT(fold_int(OP_MOD, d, a, b), dtype_wrap(d, (int64_t)(uint64_t)m));
    CHECK_INT(fold_int(OP_MAXIMUM, d, a, b), x > y ? a : b);
    CHECK_INT(fold_int(OP_MINIMUM, d, a, b), x < y ? a : b);
    CHECK_INT(fold_int(OP_LT, d, a, b), x < y);
    CHECK_INT(fold_int(OP_LE, d, a, b), x <= y);
    CHECK_INT(fold_int(OP_NE, d, a, b), x != y);
    CHECK_INT(fold_int(OP_XOR, d, a, b), dtype_wrap(d, a ^ b));
    CHECK_INT(fold_int(OP_NOT, d, a, 0), dtype_wrap(d, ~a));
    CHECK_INT(fold_int(OP_ABS, d, a, 0), dtype_wrap(d, (int64_t)(uint64_t)(x < 0 ? -x : x)));
}

static void integer_rows_agree_with_128_bits(void) {
    uint64_t seed = 5;
    for (int d = QN_I8; d <= QN_U64; d++)
        for (int i = 0; i < 3000; i++) {
            int64_t a = (int64_t)test_rand(&seed), b = (int64_t)test_rand(&seed);
            if (i % 3 == 0) b >>= test_below(&seed, 64);
            if (i < 49) {
                const int64_t edge[7] = {0, 1, -1, INT64_MIN, INT64_MAX, 2, -128};
                a = edge[i / 7], b = edge[i % 7];
            }
            check_int_rows((qn_dtype)d, a, b);
        }
}

static void shifts_past_the_width(void) {
    for (int d = QN_I8; d <= QN_U64; d++) {
        int width = 8 * (int)qn_dtype_size((qn_dtype)d);
        int64_t ones = dtype_wrap((qn_dtype)d, -1);
        CHECK_INT(fold_int(OP_SHL, (qn_dtype)d, 3, width), 0);
        CHECK_INT(fold_int(OP_SHL, (qn_dtype)d, 3, 1), 6);
        CHECK_INT(fold_int(OP_SHR, (qn_dtype)d, -1, width), dtype_is_unsigned(d) ? 0 : -1);
        CHECK_INT(fold_int(OP_SHR, (qn_dtype)d, -1, 1),
                  dtype_is_unsigned(d) ? (int64_t)((uint64_t)ones >> 1) : -1);
        CHECK_INT(fold_int(OP_SHR, (qn_dtype)d, 5, 2), 1);
    }
}

static void bool_rows(void) {
    CHECK_INT(fold_int(OP_NOT, QN_BOOL, 1, 0), 0);
    CHECK_INT(fold_int(OP_NOT, QN_BOOL, 0, 0), 1);
    CHECK_INT(fold_int(OP_XOR, QN_BOOL, 1, 1), 0);
    CHECK_INT(fold_int(OP_MAXIMUM, QN_BOOL, 1, 0), 1);
    scalar x[3] = {{.i = 1}, {.f = 2.5}, {.f = 3.5}}, out;
    CHECK(scalar_op(OP_WHERE, QN_F32, QN_F32, x, &out) && out.f == 2.5);
    x[0].i = 0;
    CHECK(scalar_op(OP_WHERE, QN_F32, QN_F32, x, &out) && out.f == 3.5);
    CHECK(!scalar_op(OP_AND, QN_F32, QN_F32, x, &out));
    CHECK(!scalar_op(OP_SUM, QN_F32, QN_F32, x, &out));
}

static void bits_come_and_go(void) {
    scalar one = {.f = 1.0}, out;
    CHECK_INT(scalar_bits(QN_F32, one), 0x3f800000);
    CHECK_INT(scalar_bits(QN_F16, one), 0x3c00);
    CHECK_INT(scalar_bits(QN_BF16, one), 0x3f80);
    CHECK_INT(scalar_bits(QN_I8, (scalar){.i = -1}), 0xff);
    CHECK_INT(scalar_from_bits(QN_I8, 0xff).i, -1);
    CHECK_INT(scalar_from_bits(QN_U8, 0xff).i, 255);
    CHECK(scalar_op(OP_BITCAST, QN_U32, QN_F32, &one, &out) && out.i == 0x3f800000);
    CHECK(!scalar_op(OP_BITCAST, QN_U64, QN_F32, &one, &out));
}

static void identities_leave_values_alone(void) {
    for (int row = 1; row < MONOID_COUNT; row++) {
        if (monoid_rows[row].states != 1) continue;
        for (int d = 0; d < DTYPE_COUNT; d++) {
            int op = monoid_rows[row].combine;
            bool fl = dtype_is_float(d);
            if (fl ? !op_rows[op].has_float : !op_rows[op].has_int) continue;
            if (d == QN_BOOL && op_rows[op].types == TYPES_NUM) continue;
            const double f[3] = {-3, dtype_rows[d].infinite ? (double)INFINITY : 448, 0.5};
            const int64_t n[3] = {1, -1, 100};
            for (int i = 0; i < 3; i++) {
                scalar x[2] = {monoid_identity(row, 0, (qn_dtype)d)}, out;
                if (fl)
                    x[1].f = f[i];
                else
                    x[1].i = dtype_wrap((qn_dtype)d, n[i]);
                CHECK(scalar_op(op, (qn_dtype)d, (qn_dtype)d, x, &out));
                if (fl)
                    CHECK(out.f == x[1].f);
                else
                    CHECK_INT(out.i, x[1].i);
            }
        }
    }
    CHECK_INT(monoid_identity(MONOID_MAX, 0, QN_I16).i, INT16_MIN);
    CHECK_INT(monoid_identity(MONOID_MIN, 0, QN_U32).i, UINT32_MAX);
    CHECK_INT(monoid_identity(MONOID_AND, 0, QN_BOOL).i, 1);
}

static void rows_say_what_they_define(void) {
    CHECK(op_rows[OP_NEG].has_float && op_rows[OP_NEG].has_int);
    CHECK(op_rows[OP_EXP].has_float && !op_rows[OP_EXP].has_int);
    CHECK(!op_rows[OP_NOT].has_float && op_rows[OP_NOT].has_int);
    CHECK(op_rows[OP_NEG].differentiable && op_rows[OP_TANH].differentiable);
    CHECK(!op_rows[OP_FLOOR].differentiable && !op_rows[OP_CONST].differentiable);
    CHECK_STR(op_rows[OP_FLOOR_DIV].name, "floor_div");
    CHECK_INT(monoid_of_reduction(OP_ARGMIN), MONOID_ARGMIN);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(promotion_is_the_array_api_table);
    RUN(promotion_commutes);
    RUN(names_and_sizes);
    RUN(epsilon_is_the_step_behind_one);
    RUN(every_half_reads_and_writes_back);
    RUN(halves_round_to_nearest_even);
    RUN(halves_round_as_the_compiler_does);
    RUN(integers_wrap_as_the_compiler_does);
    RUN(integers_become_floats_with_one_rounding);
    RUN(floats_become_integers_clamped);
    RUN(float_rows_agree_with_long_double);
    RUN(float_arithmetic_is_ieee);
    RUN(narrow_multiply_adds_round_once);
    RUN(modulo_has_the_divisors_sign);
    RUN(integer_rows_agree_with_128_bits);
    RUN(shifts_past_the_width);
    RUN(bool_rows);
    RUN(bits_come_and_go);
    RUN(identities_leave_values_alone);
    RUN(rows_say_what_they_define);
    return test_end();
}
