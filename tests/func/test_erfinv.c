/* test_erfinv.c - the inverse of the error function against Newton's method in long double, in
 * units of the last place, at bounds, and its third derivative by its formula. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

enum { COUNT = 1 << 16, DEVICES = 2 };

static qn_ctx *open_[DEVICES];
static uint64_t seed = 12;

/* erfcl for what is near 1, so that no digit is lost; from a point above, where it is convex. */
static long double oracle(long double x) {
    long double a = fabsl(x), y = a < 0.5L ? a : sqrtl(-logl(1 - a)),
                two_over = 2 / sqrtl(acosl(-1));
    for (int i = 0; i < 60; i++) {
        long double off = a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y);
        y -= off / (two_over * expl(-y * y));
    }
    return copysignl(y, x);
}

/* Of either sign: near 0 and near 1 by powers, else even. */
static double draw(int i, int digits) {
    double u = test_uniform(&seed), small = exp2(-digits * test_uniform(&seed));
    double x = i % 3 == 0 ? u : i % 3 == 1 ? (u + 1) / 2 * small : 1 - small;
    return i & 1 ? -x : x;
}

static double worst_of(qn_ctx *qn, qn_dtype d, int digits, int64_t n) {
    static double x[COUNT], y[COUNT];
    for (int64_t i = 0; i < n; i++) x[i] = draw((int)i, digits);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t = qn_cast(qn_from(qn, QN_F64, 1, &n, x), d);
    CHECK_INT(qn_read(qn_cast(t, QN_F64), x, (size_t)n * 8), 0);
    qn_tensor *r = qn_erfinv(t);
    CHECK_INT(qn_dtype_of(r), d);
    CHECK_INT(qn_read(qn_cast(r, QN_F64), y, (size_t)n * 8), 0);
    qn_scope_end(qn, s);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        if (fabs(x[i]) == 1) {
            CHECK(y[i] == x[i] * (double)INFINITY);
            continue;
        }
        long double want = oracle(x[i]);
        int exponent, bits = d == QN_F64 ? 53 : d == QN_F32 ? 24 : d == QN_F16 ? 11 : 8;
        frexpl(want, &exponent);
        if (d == QN_F16 && exponent < -13) exponent = -13;
        double off = (double)(fabsl(y[i] - want) / ldexpl(1, exponent - bits));
        if (x[i] == 0) off = y[i] != 0;
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

static void errors_are_within_units_of_the_last_place(void) {
    for (int i = 0; i < DEVICES; i++) {
        int64_t n = i ? COUNT / 16 : COUNT;
        double f32 = worst_of(open_[i], QN_F32, 24, n), f64 = worst_of(open_[i], QN_F64, 53, n);
        double f16 = worst_of(open_[i], QN_F16, 11, n), bf16 = worst_of(open_[i], QN_BF16, 8, n);
        if (!(f32 <= 0.501)) FAIL("f32: %g ulp", f32);
        if (!(f64 <= 3)) FAIL("f64: %g ulp", f64);
        if (!(f16 <= 0.501 && bf16 <= 0.501)) FAIL("f16: %g ulp, bf16: %g", f16, bf16);
        if (getenv("QN_TEST_SHOW")) printf("%g %g %g %g ulp\n", f32, f64, f16, bf16);
    }
}

static void bounds_are_infinite_and_beyond_is_nothing(void) {
    static const float x[8] = {0, -0.0f, 1, -1, 1.5f, -2, INFINITY, NAN};
    for (int i = 0; i < DEVICES; i++) {
        float y[8];
        qn_scope s = qn_scope_begin(open_[i]);
        CHECK_INT(qn_read(qn_erfinv(qn_from(open_[i], QN_F32, 1, (int64_t[]){8}, x)), y, 32), 0);
        qn_scope_end(open_[i], s);
        CHECK(y[0] == 0 && !signbit(y[0]) && y[1] == 0 && signbit(y[1]));
        CHECK(y[2] == INFINITY && y[3] == -INFINITY);
        for (int k = 4; k < 8; k++) CHECK(isnan(y[k]));
    }
}

/* sqrt(pi)^3 / 8 e^(3 y^2) (2 + 8 y^2), which a step of second order alone would not have. */
static void derivatives_of_third_order_are_there(void) {
    for (int i = 0; i < DEVICES; i++) {
        double v[5] = {0, 0.25, -0.5, 0.9, 0.9999}, got[5];
        qn_scope s = qn_scope_begin(open_[i]);
        qn_tensor *x = qn_from(open_[i], QN_F64, 1, (int64_t[]){5}, v), *y = qn_erfinv(x);
        for (int k = 0; k < 3; k++) CHECK_INT(qn_grad(y, NULL, 1, &x, &y), 0);
        CHECK_INT(qn_read(y, got, sizeof got), 0);
        for (int k = 0; k < 5; k++) {
            long double at = oracle(v[k]), root = sqrtl(acosl(-1));
            long double want = root * root * root / 8 * expl(3 * at * at) * (2 + 8 * at * at);
            CHECK_NEAR(got[k], (double)want, 1e-8, 0);
        }
        qn_scope_end(open_[i], s);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_[0] = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    open_[1] = qn_open(&QN_OPTIONS(.device = "ref"));
    RUN(errors_are_within_units_of_the_last_place);
    RUN(bounds_are_infinite_and_beyond_is_nothing);
    RUN(derivatives_of_third_order_are_there);
    for (int i = 0; i < DEVICES; i++) qn_close(open_[i]);
    return test_end();
}
