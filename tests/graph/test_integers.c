/* test_integers.c - functions of integers and bools on every device that computes: they stay
 * integers, wrap as the hardware does, and what an integer dtype does not hold is an error.
 * Expected values are C's own arithmetic, or worked out by hand. */
#include "quern.h"
#include "test.h"

#include <math.h>

#define LENGTH(a)  ((int)(sizeof(a) / sizeof *(a)))
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static qn_ctx *qn;

static void on_devices(void (*body)(void)) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int i = 0; i < LENGTH(devices); i++) {
        qn = qn_open(&QN_OPTIONS(.device = devices[i]));
        qn_scope s = qn_scope_begin(qn);
        body();
        CHECK_STR(qn_error(qn), "");
        qn_scope_end(qn, s);
        qn_close(qn);
    }
}

static qn_tensor *vector(int64_t n, const int64_t *v) {
    return qn_from(qn, QN_I64, 1, &n, v);
}

/* x, in `dtype`, has these values. */
static void check_values(const char *what, qn_tensor *x, qn_dtype dtype, int n,
                         const int64_t *want) {
    int64_t got[64];
    CHECK_INT(qn_dtype_of(x), dtype);
    CHECK_INT(qn_read(qn_cast(x, QN_I64), got, (size_t)n * sizeof *got), QN_OK);
    for (int i = 0; i < n; i++)
        if (got[i] != want[i])
            FAIL("%s, number %d, is %lld, not %lld", what, i, (long long)got[i],
                 (long long)want[i]);
}

#define REFUSED(call, text)                                                                        \
    do {                                                                                           \
        CHECK((call) == NULL);                                                                     \
        CHECK_STR(qn_error(qn), text);                                                             \
        qn_clear_error(qn);                                                                        \
    } while (0)

/* ---- roundings and powers ------------------------------------------------------------------- */

static void roundings(void) {
    qn_tensor *(*const f[])(qn_tensor *) = {qn_floor, qn_ceil, qn_round, qn_trunc};
    const int64_t v[] = {-3, 0, 7, ((int64_t)1 << 53) + 1};
    for (int i = 0; i < LENGTH(f); i++) {
        check_values("a rounding", f[i](vector(4, v)), QN_I64, 4, v);
        CHECK_INT(qn_dtype_of(f[i](qn_cast(vector(4, v), QN_U8))), QN_U8);
    }
}

static void roundings_of_integers_stay_integers(void) {
    on_devices(roundings);
}

/* x^y by products, wrapped to 64 bits. */
static uint64_t product(uint64_t x, int64_t y) {
    uint64_t r = 1;
    while (y-- > 0) r *= x;
    return r;
}

static void powers(void) {
    static const qn_dtype dtypes[] = {QN_I8, QN_I16, QN_I32, QN_I64, QN_U8, QN_U16, QN_U32, QN_U64};
    int64_t x[64], y[64], want[64];
    for (int k = 0; k < LENGTH(dtypes); k++) {
        qn_dtype d = dtypes[k];
        bool is_signed = d <= QN_I64;
        int width = 8 * (int)qn_dtype_size(d);
        for (int i = 0; i < 64; i++) {
            x[i] = i % 8 - (is_signed ? 4 : 0);
            y[i] = i / 8 * 9;
            uint64_t p = product((uint64_t)x[i], y[i]);
            int shift = 64 - width;
            want[i] = is_signed ? (int64_t)(p << shift) >> shift : (int64_t)(p << shift >> shift);
        }
        qn_tensor *a = qn_cast(vector(64, x), d), *b = qn_cast(vector(64, y), d);
        check_values(qn_dtype_name(d), qn_pow(a, b), d, 64, want);
        for (int i = 0; i < 64; i++) {
            uint64_t p = product((uint64_t)x[i], 5);
            int shift = 64 - width;
            want[i] = is_signed ? (int64_t)(p << shift) >> shift : (int64_t)(p << shift >> shift);
        }
        check_values("the fifth power", qn_pow(a, qn_like(a, 5)), d, 64, want);
    }
    const int64_t base[] = {-2, -1, -1, 0, 1, 2}, less[] = {-1, -1, -2, -1, -3, -2};
    check_values("a negative power", qn_pow(vector(6, base), vector(6, less)), QN_I64, 6,
                 (const int64_t[]){0, -1, 1, 0, 1, 0});
}

static void powers_of_integers_are_exact_and_wrap(void) {
    on_devices(powers);
}

static void remainders(void) {
    const int64_t x[] = {7, -7, 0, INT64_MIN}, y[] = {0, 0, 0, -1};
    check_values("rem", qn_rem(vector(4, x), vector(4, y)), QN_I64, 4,
                 (const int64_t[]){7, -7, 0, 0});
}

static void remainders_by_0_are_the_number(void) {
    on_devices(remainders);
}

/* ---- values that a dtype does not hold ------------------------------------------------------ */

static void values(void) {
    qn_tensor *x = qn_cast(vector(2, (const int64_t[]){1, 2}), QN_I32), *b = qn_cast(x, QN_U8);
    REFUSED(qn_like(x, 0.5), "like: 0.5 is no i32");
    REFUSED(qn_like(b, -1), "like: -1 is no u8");
    REFUSED(qn_like(b, 256), "like: 256 is no u8");
    REFUSED(qn_full_like(x, (double)NAN), "full_like: nan is no i32");
    REFUSED(qn_full(qn, QN_I64, 0, NULL, 0x1p63), "full: 9.2233720368547758e+18 is no i64");
    REFUSED(qn_scalar(qn, QN_U64, 0x1p64), "scalar: 1.8446744073709552e+19 is no u64");
    check_values("the least", qn_scalar(qn, QN_I64, -0x1p63), QN_I64, 1,
                 (const int64_t[]){INT64_MIN});
    check_values("a like", qn_mul(x, qn_like(x, -3)), QN_I32, 2, (const int64_t[]){-3, -6});
}

static void values_that_no_integer_is_are_errors(void) {
    on_devices(values);
}

static void random_integers(void) {
    qn_tensor *key = qn_key(qn, 1);
    REFUSED(qn_randint(key, QN_I8, 1, SHAPE(4), 0, 129),
            "randint: i8 does not hold all from 0 to 128");
    REFUSED(qn_randint(key, QN_U8, 1, SHAPE(4), -1, 9),
            "randint: u8 does not hold all from -1 to 8");
    REFUSED(qn_randint(key, QN_U64, 1, SHAPE(4), -1, 9),
            "randint: u64 does not hold all from -1 to 8");
    REFUSED(qn_randint(key, QN_F16, 1, SHAPE(4), 0, 2050),
            "randint: f16 does not hold all from 0 to 2049");
    int64_t v[64];
    qn_tensor *x = qn_randint(key, QN_I8, 1, SHAPE(64), -128, 128);
    CHECK_INT(qn_read(qn_cast(x, QN_I64), v, sizeof v), QN_OK);
    bool low = false, high = false;
    for (int i = 0; i < 64; i++) low |= v[i]<-64, high |= v[i]> 64;
    CHECK(low && high);
    CHECK(qn_randint(key, QN_I64, 1, SHAPE(4), INT64_MAX - 5, INT64_MAX));
    CHECK(qn_randint(key, QN_BOOL, 1, SHAPE(4), 0, 2));
}

static void random_integers_beyond_the_dtype_are_an_error(void) {
    on_devices(random_integers);
}

static void clamps(void) {
    const int64_t v[] = {-9, 0, 1, 2, 9};
    qn_tensor *x = qn_cast(vector(5, v), QN_I8);
    check_values("clamp", qn_clamp(x, 0.5, 2.5), QN_I8, 5, (const int64_t[]){1, 1, 1, 2, 2});
    check_values("no clamp", qn_clamp(x, -(double)INFINITY, 1e9), QN_I8, 5, v);
    check_values("crossed bounds", qn_clamp(x, 5, 1), QN_I8, 5, (const int64_t[]){1, 1, 1, 1, 1});
    qn_tensor *bools = qn_cast(vector(2, (const int64_t[]){0, 1}), QN_BOOL);
    check_values("of bools", qn_clamp(bools, -1, 2), QN_BOOL, 2, (const int64_t[]){0, 1});
    check_values("bools above", qn_clamp(bools, 0.5, 2), QN_BOOL, 2, (const int64_t[]){1, 1});
    check_values("bools below", qn_clamp(bools, -INFINITY, 0), QN_BOOL, 2, (const int64_t[]){0, 0});
    qn_tensor *bytes = qn_cast(vector(3, (const int64_t[]){0, 1, 200}), QN_U8);
    check_values("sign", qn_sign(bytes), QN_U8, 3, (const int64_t[]){0, 1, 1});
    REFUSED(qn_clamp(x, (double)NAN, 1), "clamp: between nan and 1");
    REFUSED(qn_clamp(x, 0.2, 0.8), "clamp: no i8 between 0.2 and 0.8");
    REFUSED(qn_clamp(x, 128, 1e9), "clamp: no i8 between 128 and 1e+09");
    REFUSED(qn_clamp(x, -INFINITY, -129), "clamp: no i8 between -inf and -129");
    REFUSED(qn_clamp(bools, 2, 3), "clamp: no bool between 2 and 3");
    check_values("the last one", qn_clamp(x, 126.5, 127), QN_I8, 5,
                 (const int64_t[]){127, 127, 127, 127, 127});
    REFUSED(qn_clamp(qn_cast(x, QN_F32), 0, (double)NAN), "clamp: between 0 and nan");
}

static void thresholds(void) {
    const int64_t v[] = {-128, -1, 0, 2, 127};
    qn_tensor *x = qn_cast(vector(5, v), QN_I8);
    check_values("threshold", qn_threshold(x, 1.5, 7), QN_I8, 5,
                 (const int64_t[]){7, 7, 7, 2, 127});
    check_values("threshold at a value", qn_threshold(x, 2, 7), QN_I8, 5,
                 (const int64_t[]){7, 7, 7, 7, 127});
    check_values("threshold above all", qn_threshold(x, 1e9, 7), QN_I8, 5,
                 (const int64_t[]){7, 7, 7, 7, 7});
    check_values("threshold below all", qn_threshold(x, -128.5, 7), QN_I8, 5, v);
    check_values("no threshold", qn_threshold(x, (double)NAN, 7), QN_I8, 5, v);
    REFUSED(qn_threshold(x, 0, 2.5), "threshold: 2.5 is no i8");
    REFUSED(qn_threshold(x, 0, 128), "threshold: 128 is no i8");
}

static void thresholds_of_integers_are_whole(void) {
    on_devices(thresholds);
}

static void clamps_of_integers_keep_to_integers_and_no_bound_is_nan(void) {
    on_devices(clamps);
}

/* ---- triangles far from the matrix ---------------------------------------------------------- */

static void triangles(void) {
    const int64_t v[] = {1, 2, 3, 4}, none[4] = {0},
                  k[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, -9};
    qn_tensor *x = qn_reshape(vector(4, v), 2, SHAPE(2, 2));
    for (int i = 0; i < LENGTH(k); i++) {
        check_values("triu", qn_triu(x, k[i]), QN_I64, 4, k[i] > 0 ? none : v);
        check_values("tril", qn_tril(x, k[i]), QN_I64, 4, k[i] > 0 ? v : none);
        CHECK_INT(qn_numel(qn_diagonal(x, k[i])), 0);
    }
}

static void triangles_and_diagonals_take_any_offset(void) {
    on_devices(triangles);
}

/* ---- bools ---------------------------------------------------------------------------------- */

static void bools(void) {
    const uint8_t bytes[] = {0, 1, 2, 255};
    qn_tensor *u = qn_from(qn, QN_U8, 1, SHAPE(4), bytes), *b = qn_bitcast(u, QN_BOOL);
    check_values("bitcast to bool", b, QN_BOOL, 4, (const int64_t[]){0, 1, 1, 1});
    check_values("and back", qn_bitcast(b, QN_U8), QN_U8, 4, (const int64_t[]){0, 1, 1, 1});
    qn_tensor *(*const two[])(qn_tensor *, qn_tensor *) = {qn_add,       qn_sub, qn_mul,
                                                           qn_floor_div, qn_mod, qn_pow};
    qn_tensor *(*const one[])(qn_tensor *) = {qn_neg,  qn_abs,   qn_floor,
                                              qn_ceil, qn_round, qn_trunc};
    for (int i = 0; i < LENGTH(two); i++) {
        CHECK(two[i](b, b) == NULL);
        CHECK(strstr(qn_error(qn), "numbers, not bool"));
        qn_clear_error(qn);
        CHECK_INT(qn_dtype_of(two[i](b, u)), QN_U8);
    }
    for (int i = 0; i < LENGTH(one); i++) {
        CHECK(one[i](b) == NULL);
        CHECK(strstr(qn_error(qn), "numbers, not bool"));
        qn_clear_error(qn);
    }
    check_values("a sum of bools", qn_sum(b, 0, false), QN_I64, 1, (const int64_t[]){3});
}

static void arithmetic_of_bools_is_refused_as_the_array_api_says(void) {
    on_devices(bools);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(roundings_of_integers_stay_integers);
    RUN(powers_of_integers_are_exact_and_wrap);
    RUN(remainders_by_0_are_the_number);
    RUN(values_that_no_integer_is_are_errors);
    RUN(random_integers_beyond_the_dtype_are_an_error);
    RUN(thresholds_of_integers_are_whole);
    RUN(clamps_of_integers_keep_to_integers_and_no_bound_is_nan);
    RUN(triangles_and_diagonals_take_any_offset);
    RUN(arithmetic_of_bools_is_refused_as_the_array_api_says);
    return test_end();
}
