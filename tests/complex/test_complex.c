/* test_complex.c - complex tensors by element: values beside C99's complex functions in long
 * double, dtypes, and what becomes of handles. */
#include "complex_numbers.h"

static double rounding(qn_dtype d) {
    return d == QN_C64 ? 0x1p-24 : 0x1p-53;
}

static void functions_are_those_of_c99(void) {
    static number z[MOST], got[MOST];
    for (int i = 0; i < FUNCTIONS; i++)
        for (int k = 0; k < 2; k++) {
            const function *f = &functions[i];
            qn_dtype d = k ? QN_C128 : QN_C64;
            fill(z, MOST, 7 + (uint64_t)i, f->size);
            values(f->of(vector(d, MOST, z)), got, MOST, f->name);
            double worst = 0;
            int at = 0;
            for (int j = 0; j < MOST; j++) {
                double e = error_of(got[j], f->oracle((wide)z[j]), 1e-3) / rounding(d);
                if (!isnan(worst) && !(e <= worst)) worst = e, at = j;
            }
            if (!(worst <= f->units))
                FAIL("%s %s of %.17g%+.17gi is %.17g%+.17gi: %g roundings", qn_dtype_name(d),
                     f->name, creal(z[at]), cimag(z[at]), creal(got[at]), cimag(got[at]), worst);
            no_error(f->name);
        }
}

/* Of any size that the dtype has, or one of the numbers at which functions turn. */
static double of_any_size(uint64_t *seed, qn_dtype d) {
    static const double turns[] = {0, 0, 1, 0.5, 2, M_PI, 88.5, 89, 709.5, 710};
    double least = d == QN_C64 ? -149 : -1074, most = d == QN_C64 ? 127.99 : 1023.99;
    double x = exp2(uniform(seed, least, most)), kind = test_uniform(seed);
    if (kind < 0.25) x = exp2(uniform(seed, -12, 8));
    if (kind < 0.1) x = turns[(int)uniform(seed, 0, sizeof turns / sizeof *turns - 0.01)];
    if (kind > 0.97) x = d == QN_C64 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    if (d == QN_C64) x = as_float(x);
    return test_uniform(seed) < 0.5 ? -x : x;
}

/* The result's size is what an error is a part of; of the smallest numbers some are lost. An
 * oracle's result that the dtype does not hold is not looked at. */
static void any_size_has_its_value(void) {
    static number z[MOST], got[MOST];
    for (int i = 0; i < FUNCTIONS; i++)
        for (int k = 0; k < 2; k++) {
            const function *f = &functions[i];
            qn_dtype d = k ? QN_C128 : QN_C64;
            uint64_t seed = 40 + (uint64_t)i;
            int wrong = 0, at = 0;
            for (int j = 0; j < MOST; j++) {
                double x = of_any_size(&seed, d);
                z[j] = CMPLX(x, of_any_size(&seed, d));
            }
            values(f->of(vector(d, MOST, z)), got, MOST, f->name);
            for (int j = 0; j < MOST; j++) {
                wide want = f->oracle((wide)z[j]);
                long double most = d == QN_C64 ? 0x1.fffffep127L : 0x1.fffffffffffffp1023L;
                long double re = fabsl(creall(want)), im = fabsl(cimagl(want));
                if (!(re < most && im < most)) continue;
                /* a sine's argument that is no number of the dtype; the distance of a pole */
                double more = !strcmp(f->name, "exp2")      ? 1 + fabs(cimag(z[j]))
                              : !strcmp(f->name, "sigmoid") ? 1 + (double)cabsl(want)
                                                            : 1;
                long double off = cabsl((wide)got[j] - want), units = f->units + 4;
                long double tiny = d == QN_C64 ? 0x1p-147L : 0x1p-1072L;
                if (off <= units * more * rounding(d) * cabsl(want) + tiny) continue;
                wrong++, at = j;
            }
            if (wrong)
                FAIL("%s %s of %.17g%+.17gi is %.17g%+.17gi, not %.17Lg%+.17Lgi, and %d more",
                     qn_dtype_name(d), f->name, creal(z[at]), cimag(z[at]), creal(got[at]),
                     cimag(got[at]), creall(f->oracle((wide)z[at])), cimagl(f->oracle((wide)z[at])),
                     wrong - 1);
            no_error(f->name);
        }
}

static bool same_sign(double x, double y) {
    return signbit(x) == signbit(y);
}

/* Infinities, zeros of either sign and what lies on branch cuts. Parts that C99 leaves without a
 * sign, or says nothing of, are not looked at. */
static void special_points_are_those_of_c99(void) {
    static const double part[] = {0.0, -0.0, 1, -1, 2, -2, INFINITY, -INFINITY};
    enum { PARTS = sizeof part / sizeof *part, POINTS = PARTS * PARTS };
    number z[POINTS], got[POINTS];
    for (int i = 0; i < POINTS; i++) z[i] = CMPLX(part[i / PARTS], part[i % PARTS]);
    static const char *const whole[] = {"sqrt", "abs", "angle", "conj", "neg"};
    static const char *const finite[] = {"log",   "exp",  "asin", "acos", "atan", "asinh", "acosh",
                                         "atanh", "sinh", "cosh", "tanh", "sin",  "cos",   "tan"};
    for (int i = 0; i < FUNCTIONS; i++) {
        const function *f = &functions[i];
        bool all = false, some = false;
        for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) all |= !strcmp(whole[k], f->name);
        for (size_t k = 0; k < sizeof finite / sizeof *finite; k++)
            some |= !strcmp(finite[k], f->name);
        if (!all && !some) continue;
        values(f->of(vector(QN_C128, POINTS, z)), got, POINTS, f->name);
        for (int j = 0; j < POINTS; j++) {
            wide w = f->oracle((wide)z[j]);
            double re = (double)creall(w), im = (double)cimagl(w);
            if (!all && (isinf(creal(z[j])) || isinf(cimag(z[j])))) continue;
            bool near = (re == creal(got[j]) || fabs(re - creal(got[j])) < 1e-14) &&
                        (im == cimag(got[j]) || fabs(im - cimag(got[j])) < 1e-14);
            bool real = !strcmp(f->name, "abs") || !strcmp(f->name, "angle");
            bool signs = same_sign(re, creal(got[j])) && (real || same_sign(im, cimag(got[j])));
            if (!near || !signs)
                FAIL("%s of %g%+gi is %g%+gi, not %g%+gi", f->name, creal(z[j]), cimag(z[j]),
                     creal(got[j]), cimag(got[j]), re, im);
        }
    }
}

/* The size that C99 gives a part, or NaN; signs, often unspecified, are not looked at. */
static bool as_large(double got, double want) {
    return isnan(want) ? isnan(got)
                       : fabs(fabs(got) - fabs(want)) < 1e-14 || fabs(got) == fabs(want);
}

static void endless_parts_are_those_of_c99(void) {
    static const double part[] = {0.0, -0.0, 1.5, -1.5, INFINITY, -INFINITY, NAN};
    enum { PARTS = sizeof part / sizeof *part, POINTS = PARTS * PARTS };
    number z[POINTS], got[POINTS];
    for (int i = 0; i < POINTS; i++) z[i] = CMPLX(part[i / PARTS], part[i % PARTS]);
    static const char *const some[] = {"exp",  "asin", "acos", "atan", "asinh", "acosh", "atanh",
                                       "sinh", "cosh", "tanh", "sin",  "cos",   "tan"};
    for (int i = 0; i < FUNCTIONS; i++) {
        const function *f = &functions[i];
        bool is = false;
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) is |= !strcmp(some[k], f->name);
        if (!is) continue;
        values(f->of(vector(QN_C128, POINTS, z)), got, POINTS, f->name);
        for (int j = 0; j < POINTS; j++) {
            wide w = f->oracle((wide)z[j]);
            double re = (double)creall(w), im = (double)cimagl(w);
            if (!as_large(creal(got[j]), re) || !as_large(cimag(got[j]), im))
                FAIL("%s of %g%+gi is %g%+gi, not %g%+gi", f->name, creal(z[j]), cimag(z[j]),
                     creal(got[j]), cimag(got[j]), re, im);
        }
    }
}

/* ---- two operands ---------------------------------------------------------------------------- */

static wide add_of(wide x, wide y) {
    return x + y;
}
static wide sub_of(wide x, wide y) {
    return x - y;
}
static wide mul_of(wide x, wide y) {
    return x * y;
}
static wide div_of(wide x, wide y) {
    return x / y;
}

typedef struct operation {
    const char *name;
    qn_tensor *(*of)(qn_tensor *x, qn_tensor *y);
    wide (*oracle)(wide x, wide y);
    double units;
} operation;
static const operation operations[] = {
    {"add", qn_add, add_of, 2}, {"sub", qn_sub, sub_of, 2},  {"mul", qn_mul, mul_of, 4},
    {"div", qn_div, div_of, 8}, {"pow", qn_pow, cpowl, 200},
};

/* Both complex; one of them real, of another width, or whole numbers. */
static void operations_are_those_of_c99(void) {
    enum { N = 512 };
    number x[N], y[N], got[N];
    double real[N];
    int64_t whole[N], n = N;
    uint64_t seed = 5;
    fill(x, N, 1, 3);
    fill(y, N, 2, 3);
    for (int i = 0; i < N; i++) real[i] = as_float(uniform(&seed, 0.5, 3)), whole[i] = 1 + i % 5;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (int k = 0; k < 6; k++) {
            const operation *o = &operations[i];
            qn_dtype d = k == 0 || k == 5 ? QN_C64 : QN_C128;
            qn_tensor *a = vector(d, N, x), *b = vector(d, N, y);
            qn_dtype both = k == 4 ? QN_C128 : d;
            if (k == 2) b = qn_from(qn, QN_F64, 1, &n, real);
            if (k == 3) a = qn_from(qn, QN_F64, 1, &n, real);
            if (k == 4) b = vector(QN_C64, N, y);
            if (k == 5) b = qn_from(qn, QN_I64, 1, &n, whole);
            qn_tensor *t = o->of(a, b);
            CHECK_INT(qn_dtype_of(t), both);
            values(t, got, N, o->name);
            for (int j = 0; j < N; j++) {
                wide p = k == 3 ? (wide)real[j] : (wide)x[j];
                wide q = k == 2 ? (wide)real[j] : k == 5 ? (wide)whole[j] : (wide)y[j];
                double e = error_of(got[j], o->oracle(p, q), 1) / rounding(both);
                if (!(e <= o->units)) FAIL("%s, way %d: %g roundings", o->name, k, e);
            }
            no_error(o->name);
        }
}

static bool truth(qn_tensor *t, int i) {
    uint8_t bits[8] = {0};
    CHECK_INT(qn_dtype_of(t), QN_BOOL);
    CHECK_INT(qn_read(t, bits, sizeof bits), QN_OK);
    return bits[i];
}

/* c128 holds every i32, which f32 on the way would not. */
static void integers_meet_complex_numbers_exactly(void) {
    int32_t whole = 16777217;
    number near = 16777217, unit = 1, got;
    const int64_t one[2] = {1, 1};
    qn_tensor *k = qn_from(qn, QN_I32, 0, NULL, &whole), *m = qn_from(qn, QN_I32, 2, one, &whole);
    qn_tensor *z = qn_from(qn, QN_C128, 0, NULL, &near), *u = qn_from(qn, QN_C128, 0, NULL, &unit);
    qn_tensor *v = qn_from(qn, QN_C128, 1, one, &near), *zero = qn_zeros_like(z);
    qn_tensor *all[] = {qn_div(k, u), qn_fma(k, u, zero),        qn_lerp(zero, k, u),
                        qn_pow(k, u), qn_mul(qn_solve(m, v), z), qn_mul(qn_lstsq(m, v), z)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        values(all[i], &got, 1, "an integer");
        if (!(cabs(got - near) < 1e-6)) FAIL("%zu: %.17g", i, creal(got));
    }
    CHECK(truth(qn_eq(k, z), 0) && truth(qn_isclose(k, z, 0, 0.5, false), 0));
    no_error("integers");
}

static void real_factors_stay_real(void) {
    number z = CMPLX(INFINITY, 0), got;
    qn_tensor *t = qn_from(qn, QN_C128, 0, NULL, &z);
    values(qn_mul(t, qn_like(qn_real(t), 2)), &got, 1, "mul");
    CHECK(isinf(creal(got)) && cimag(got) == 0);
    values(qn_mul(t, qn_weak(t, 2)), &got, 1, "mul by a weak number");
    CHECK(isinf(creal(got)) && cimag(got) == 0);
    values(qn_mul(qn_weak_int(t, 2), t), &got, 1, "mul by a weak integer");
    CHECK(isinf(creal(got)) && cimag(got) == 0);
    values(qn_div(t, qn_like(qn_real(t), 2)), &got, 1, "div");
    CHECK(isinf(creal(got)) && cimag(got) == 0);
}

static void quotients_do_not_overflow(void) {
    number x[4] = {CMPLX(1e300, 1e300), CMPLX(1e-300, 1e-300), CMPLX(1, 2), CMPLX(3e307, 4e307)};
    number y[4] = {CMPLX(2e300, -1e300), CMPLX(2e-300, 1e-300), CMPLX(1e-305, 1e305), CMPLX(1, 1)};
    number got[4];
    values(qn_div(vector(QN_C128, 4, x), vector(QN_C128, 4, y)), got, 4, "div");
    for (int i = 0; i < 4; i++) CHECK(error_of(got[i], (wide)x[i] / (wide)y[i], 0) < 1e-15);
    values(qn_abs(vector(QN_C128, 4, x)), got, 4, "abs");
    for (int i = 0; i < 4; i++) CHECK(error_of(got[i], cabsl((wide)x[i]), 0) < 1e-15);
}

/* Quotients of numbers of any size that the dtype holds. */
static void quotients_of_any_size(void) {
    static number x[MOST], y[MOST], got[MOST];
    for (int k = 0; k < 2; k++) {
        qn_dtype d = k ? QN_C128 : QN_C64;
        uint64_t seed = 11;
        for (int j = 0; j < MOST; j++) {
            double a = of_any_size(&seed, d), b = of_any_size(&seed, d), c = of_any_size(&seed, d);
            x[j] = CMPLX(a, b), y[j] = CMPLX(c, of_any_size(&seed, d));
            if (j % 8 == 0) y[j] = x[j];
        }
        values(qn_div(vector(d, MOST, x), vector(d, MOST, y)), got, MOST, "div");
        for (int j = 0; j < MOST; j++) {
            wide want = (wide)x[j] / (wide)y[j];
            long double most = d == QN_C64 ? 0x1.fffffep127L : 0x1.fffffffffffffp1023L;
            if (!(fabsl(creall(want)) < most && fabsl(cimagl(want)) < most)) continue;
            long double off = cabsl((wide)got[j] - want), tiny = k ? 0x1p-1072L : 0x1p-147L;
            if (!(off <= 8 * rounding(d) * cabsl(want) + tiny))
                FAIL("%g%+gi / %g%+gi is %g%+gi", creal(x[j]), cimag(x[j]), creal(y[j]),
                     cimag(y[j]), creal(got[j]), cimag(got[j]));
        }
        no_error("div");
    }
}

static void powers_of_small_numbers(void) {
    single z[2] = {1e-8f, CMPLXF(1e-9f, -1e-9f)}, got[2];
    const int64_t n = 2;
    qn_tensor *t = qn_from(qn, QN_C64, 1, &n, z);
    CHECK_INT(qn_read(qn_pow(t, qn_like(t, 0.5)), got, sizeof got), QN_OK);
    for (int i = 0; i < 2; i++) CHECK(cabsf(got[i] - csqrtf(z[i])) < 1e-5f * cabsf(csqrtf(z[i])));
    no_error("powers");
}

static void powers_of_zero(void) {
    number x[4] = {0, 0, 0, 0}, y[4] = {0, 2, CMPLX(1, 1), CMPLX(-1, 0)}, got[4];
    values(qn_pow(vector(QN_C128, 4, x), vector(QN_C128, 4, y)), got, 4, "pow");
    CHECK(got[0] == 1 && got[1] == 0 && got[2] == 0 && isnan(creal(got[3])));
}

static void comparisons_look_at_both_parts(void) {
    number x[4] = {CMPLX(1, 2), CMPLX(1, 2), CMPLX(0, 0), CMPLX(NAN, 0)};
    number y[4] = {CMPLX(1, 2), CMPLX(1, 3), CMPLX(-0.0, 0), CMPLX(0, INFINITY)};
    qn_tensor *a = vector(QN_C128, 4, x), *b = vector(QN_C128, 4, y);
    static const bool equal[4] = {1, 0, 1, 0}, some[4] = {1, 1, 0, 1};
    for (int i = 0; i < 4; i++) {
        CHECK(truth(qn_eq(a, b), i) == equal[i]);
        CHECK(truth(qn_ne(a, b), i) == !equal[i]);
        CHECK(truth(qn_logical_not(a), i) == !some[i]);
        CHECK(truth(qn_cast(a, QN_BOOL), i) == some[i]);
        CHECK(truth(qn_isnan(a), i) == (i == 3));
        CHECK(truth(qn_isinf(b), i) == (i == 3));
        CHECK(truth(qn_isfinite(b), i) == (i != 3));
        CHECK(truth(qn_isclose(a, b, 0, 1.5, false), i) == (i < 3));
    }
    CHECK(!truth(qn_allclose(a, b, 0, 0.5, false), 0));
    CHECK(!truth(qn_all(a, 0, false), 0));
    CHECK(truth(qn_any(a, 0, false), 0));
    no_error("comparisons");
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void a_tensor_is_what_was_given(void) {
    single z[6] = {CMPLXF(1, 2), CMPLXF(3, -4), CMPLXF(-0.5f, 0), 7, CMPLXF(0, 8), CMPLXF(9, -10)},
           out[6];
    const int64_t shape[2] = {2, 3};
    qn_tensor *t = qn_from(qn, QN_C64, 2, shape, z);
    CHECK_INT(qn_dtype_of(t), QN_C64);
    CHECK_INT(qn_rank(t), 2);
    CHECK_INT(qn_dim(t, 0), 2);
    CHECK_INT(qn_dim(t, -1), 3);
    CHECK_INT(qn_numel(t), 6);
    CHECK_INT(qn_read(t, out, sizeof out), QN_OK);
    CHECK(!memcmp(z, out, sizeof z));
    CHECK_INT(qn_read(t, out, sizeof out - 1), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!strcmp(qn_format(t, 9), "[[1+2j, 3-4j, -0.5+0j],\n [7+0j, 0+8j, 9-10j]] c64[2, 3]"));
    CHECK_INT(qn_dim(t, 2), QN_DIM_ERROR);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT((int)qn_dtype_size(QN_C64), 8);
    CHECK_INT((int)qn_dtype_size(QN_C128), 16);
    CHECK(!strcmp(qn_dtype_name(QN_C128), "c128"));
    int64_t deep[QN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    CHECK(!qn_from(qn, QN_C64, QN_MAX_RANK, deep, z));
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
}

static void values_can_be_written(void) {
    number z[2] = {CMPLX(1, 2), CMPLX(3, 4)}, w[2] = {CMPLX(5, 6), CMPLX(7, 8)}, got[2];
    qn_tensor *t = vector(QN_C128, 2, z), *twice = qn_add(t, t);
    CHECK_INT(qn_write(t, w, sizeof w), QN_OK);
    values(t, got, 2, "write");
    CHECK(got[0] == w[0] && got[1] == w[1]);
    values(twice, got, 2, "before");
    CHECK(got[0] == 2 * z[0] && got[1] == 2 * z[1]);
    CHECK_INT(qn_assign(t, qn_mul(t, t)), QN_OK);
    values(t, got, 2, "assign");
    CHECK(got[0] == w[0] * w[0] && got[1] == w[1] * w[1]);
    CHECK_INT(qn_assign(t, qn_real(t)), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK_INT(qn_realize(1, &t), QN_OK);
    no_error("written");
}

/* As through views of real ones; what is joined of parts that were computed is no variable. */
static void views_are_written_through(void) {
    const int64_t dims[2] = {2, 3}, turned[2] = {3, 2};
    number z[6] = {1, 2, 3, 4, 5, CMPLX(6, 7)}, nine[2] = {CMPLX(9, 8), CMPLX(7, 6)}, got[6];
    qn_tensor *t = made(QN_C128, 2, dims, z), *v = qn_slice(t, 1, -1, QN_END, 1);
    CHECK_INT(qn_write(v, nine, sizeof nine), QN_OK);
    values(t, got, 6, "the base");
    CHECK(got[2] == nine[0] && got[5] == nine[1] && got[0] == 1 && got[4] == 5);
    values(v, got, 2, "the view");
    CHECK(got[0] == nine[0] && got[1] == nine[1]);
    values(qn_select(qn_reshape(t, 1, (int64_t[]){6}), 0, 3), got, 1, "a number of the base");
    CHECK(got[0] == 4);
    values(qn_select(qn_zeros_like(qn_select(t, 0, 0)), 0, 1), got, 1, "a number of zeros");
    CHECK(got[0] == 0);
    qn_tensor *row = qn_select(qn_flip(qn_transpose(qn_reshape(t, 2, turned), 0, 1), -1), 0, 1);
    CHECK_INT(qn_assign(row, qn_zeros_like(row)), QN_OK);
    values(t, got, 6, "the base");
    CHECK(got[1] == 0 && got[3] == 0 && got[5] == 0 && got[0] == 1 && got[2] == nine[0]);
    qn_tensor *line = qn_diagonal(t, 0), *parts[2];
    CHECK_INT(qn_write(line, nine, sizeof nine), QN_OK);
    CHECK_INT(qn_unstack(t, 0, 2, parts), QN_OK);
    values(t, got, 6, "the base");
    CHECK(got[0] == nine[0] && got[4] == nine[1]);
    values(parts[1], got, 3, "a row");
    CHECK(got[1] == nine[1]);
    qn_tensor *y = qn_mul(t, t);
    CHECK_INT(qn_write(y, z, sizeof z), QN_EGRAPH);
    qn_clear_error(qn);
    CHECK_INT(qn_assign(qn_slice(y, 1, 0, 1, 1), qn_slice(t, 1, 0, 1, 1)), QN_EGRAPH);
    qn_clear_error(qn);
    CHECK(!qn_slice(t, 2, 0, 1, 1) && qn_error_code(qn) == QN_ERANGE);
    qn_clear_error(qn);
    no_error("views");
}

static void numbers_become_tensors(void) {
    number got[9];
    const int64_t n = 3;
    values(qn_full(qn, QN_C64, 1, &n, 2.5), got, 3, "full");
    CHECK(got[2] == 2.5);
    values(qn_zeros(qn, QN_C128, 1, &n), got, 3, "zeros");
    CHECK(got[1] == 0);
    qn_tensor *t = qn_ones(qn, QN_C128, 1, &n);
    values(t, got, 3, "ones");
    CHECK(got[0] == 1);
    values(qn_scalar_int(qn, QN_C128, -7), got, 1, "scalar_int");
    CHECK(got[0] == -7);
    values(qn_eye(qn, QN_C64, 3, 3), got, 9, "eye");
    CHECK(got[4] == 1 && got[5] == 0);
    CHECK_INT(qn_dtype_of(qn_like(t, 1)), QN_C128);
    CHECK_INT(qn_dtype_of(qn_weak(t, 0.5)), QN_F64);
    CHECK_INT(qn_dtype_of(qn_mul(qn_full(qn, QN_C64, 1, &n, 3), qn_weak_int(t, 2))), QN_C128);
    CHECK_INT(qn_dtype_of(qn_zeros_like(t)), QN_C128);
    CHECK_INT(qn_rank(qn_full_like(t, 3)), 1);
    CHECK(!qn_arange(qn, QN_C64, 0, 3, 1));
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_clear_error(qn);
    no_error("numbers");
}

static void parts_and_pairs(void) {
    float re[2] = {1, 2}, pair[4] = {3, 4, 5, 6}, out[4];
    int64_t n = 2, two[2] = {2, 2};
    number got[2];
    qn_tensor *x = qn_from(qn, QN_F32, 1, &n, re), *p = qn_from(qn, QN_F32, 2, two, pair);
    values(qn_complex(x, qn_like(x, 7)), got, 2, "complex");
    CHECK(got[1] == CMPLX(2, 7));
    values(qn_complex(x, NULL), got, 2, "complex");
    CHECK(got[1] == 2);
    qn_tensor *z = qn_as_complex(p);
    values(z, got, 2, "as_complex");
    CHECK(got[1] == CMPLX(5, 6));
    CHECK_INT(qn_read(qn_as_real(z), out, sizeof out), QN_OK);
    CHECK(!memcmp(out, pair, sizeof out));
    CHECK_INT(qn_dtype_of(qn_complex(x, qn_cast(x, QN_F64))), QN_C128);
    CHECK(!qn_complex(qn_cast(x, QN_I32), NULL) && qn_error_code(qn) == QN_EDTYPE);
    qn_clear_error(qn);
    CHECK(!qn_as_complex(x) || qn_rank(qn_as_complex(x)) == 0);
    CHECK(!qn_as_real(x) && qn_error_code(qn) == QN_EDTYPE);
    qn_clear_error(qn);
    CHECK_INT(qn_dtype_of(qn_cast(z, QN_F16)), QN_F16);
    CHECK(qn_real(x) && qn_conj(x) && qn_imag(x) && qn_angle(x));
    no_error("parts");
}

static void dtypes_meet_as_in_the_array_api(void) {
    static const struct {
        qn_dtype a, b, both;
    } rows[] = {{QN_C64, QN_F32, QN_C64},   {QN_C64, QN_F64, QN_C128}, {QN_C128, QN_F32, QN_C128},
                {QN_C64, QN_C128, QN_C128}, {QN_C64, QN_I64, QN_C64},  {QN_C64, QN_BOOL, QN_C64},
                {QN_F16, QN_C64, QN_C64},   {QN_C128, QN_U8, QN_C128}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_INT(qn_dtype_promote(rows[i].a, rows[i].b), rows[i].both);
        CHECK_INT(qn_dtype_promote(rows[i].b, rows[i].a), rows[i].both);
    }
    number z = 1;
    qn_tensor *t = qn_from(qn, QN_C128, 0, NULL, &z);
    const qn_dtype c64 = QN_C64;
    CHECK_INT(qn_result_type(1, &t, 1, &c64, QN_REAL_NUMBER), QN_C128);
    CHECK_INT(qn_result_type(0, NULL, 1, &c64, QN_REAL_NUMBER), QN_C64);
    CHECK(qn_can_cast(QN_F32, QN_C64, QN_CAST_SAFE) && !qn_can_cast(QN_F64, QN_C64, QN_CAST_SAFE));
    CHECK(qn_can_cast(QN_C64, QN_C128, QN_CAST_SAFE) &&
          !qn_can_cast(QN_C128, QN_C64, QN_CAST_SAFE));
    CHECK(!qn_can_cast(QN_C64, QN_F32, QN_CAST_SAME_KIND) &&
          qn_can_cast(QN_C64, QN_F32, QN_CAST_ANY));
    CHECK(qn_can_cast(QN_C128, QN_C64, QN_CAST_SAME_KIND));
    CHECK_INT(qn_device_supports(qn, QN_C64), QN_SUPPORTED);
}

static void knob_explicit_keeps_widths_and_kinds_apart(void) {
    number z = 1;
    qn_tensor *t = qn_from(qn, QN_C128, 0, NULL, &z), *narrow = qn_cast(t, QN_C64);
    qn_tensor *others[] = {narrow, qn_real(t), qn_real(narrow)};
    CHECK_INT(qn_set(qn, "explicit", "1"), QN_OK);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            qn_tensor *y = k == 0   ? qn_add(t, others[i])
                           : k == 1 ? qn_mul(others[i], t)
                           : k == 2
                               ? qn_div(t, others[i])
                               : qn_concat(2, (qn_tensor *[]){qn_unsqueeze(t, 0), others[i]}, 0);
            if (y || qn_error_code(qn) != QN_EDTYPE) FAIL("%d, call %d: %s", i, k, qn_error(qn));
            qn_clear_error(qn);
        }
    number two[2] = {1, 2};
    qn_tensor *broad = made(QN_C128, 2, (const int64_t[]){1, 1}, two),
              *slim = qn_cast(broad, QN_C64);
    static const char *const names[] = {
        "fma:", "lerp:", "isclose:", "solve:", "lstsq:", "mul:", "sub:", "div:", "matmul:"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qn_tensor *y = k == 0   ? qn_fma(broad, broad, slim)
                       : k == 1 ? qn_lerp(broad, broad, slim)
                       : k == 2 ? qn_isclose(broad, slim, 0, 0, false)
                       : k == 3 ? qn_solve(broad, slim)
                       : k == 4 ? qn_lstsq(slim, broad)
                       : k == 5 ? qn_mul(broad, slim)
                       : k == 6 ? qn_sub(broad, slim)
                       : k == 7 ? qn_div(broad, slim)
                                : qn_matmul(broad, slim);
        if (y || qn_error_code(qn) != QN_EDTYPE ||
            strncmp(qn_error(qn), names[k], strlen(names[k])) != 0)
            FAIL("%s %s", names[k], qn_error(qn));
        qn_clear_error(qn);
    }
    CHECK(qn_mul(t, qn_weak(t, 2)) != NULL);
    CHECK(qn_add(t, t) && qn_mul(t, t) && qn_div(t, t) && qn_exp(t) && qn_pow(t, t));
    no_error("explicit");
    CHECK_INT(qn_set(qn, "explicit", "0"), QN_OK);
}

/* Each handle dies with its scope, or when it is released. */
static void handles_are_counted(void) {
    number z[2] = {1, 2}, got[2];
    uint32_t before = qn->graph->handles;
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t = vector(QN_C128, 2, z), *kept = qn_keep(qn_mul(t, t));
    qn_scope inner = qn_scope_begin(qn);
    qn_tensor *returned = qn_scope_return(qn, inner, qn_exp(kept));
    qn_tensor *again = qn_scope_return(qn, qn_scope_begin(qn), t);
    values(returned, got, 2, "returned");
    values(again, got, 2, "again");
    CHECK(got[1] == 2);
    qn_scope_end(qn, s);
    values(kept, got, 2, "kept");
    CHECK(got[1] == 4);
    CHECK(!qn_exp(returned) && qn_error_code(qn) == QN_EGRAPH);
    qn_clear_error(qn);
    qn_release(kept);
    CHECK_INT(qn->graph->handles, before);
    qn_tensor *named = vector(QN_C128, 2, z);
    CHECK_INT(qn_set_name(named, "wave"), QN_OK);
    CHECK(!strcmp(qn_name(named), "wave"));
}

/* A tensor that was made into a complex one is its part, however often a program lets it go. */
static void a_release_too_many_leaves_the_pairs(void) {
    qn_ctx *own = qn_open(NULL);
    double pair[2] = {3, 4};
    number got = 0;
    const int64_t two = 2;
    qn_tensor *x = qn_from(own, QN_F64, 1, &two, pair), *z = qn_as_complex(x);
    qn_release(x);
    CHECK_INT(qn_error_code(own), QN_OK);
    qn_release(x);
    CHECK_INT(qn_error_code(own), QN_EGRAPH);
    qn_clear_error(own);
    CHECK_INT(qn_read(z, &got, sizeof got), QN_OK);
    CHECK(got == CMPLX(3, 4));
    qn_release(z);
    CHECK_INT(own->graph->handles, 0);
    qn_close(own);
}

/* Without a scope a result is the caller's. */
static void results_without_a_scope(void) {
    qn_ctx *own = qn_open(NULL);
    number z = 2, got;
    qn_tensor *t = qn_from(own, QN_C128, 0, NULL, &z), *y = qn_exp(t), *out[2];
    qn_tensor *v = qn_stack(2, (qn_tensor *[]){t, y}, 0);
    CHECK_INT(qn_unstack(v, 0, 2, out), QN_OK);
    CHECK_INT(qn_read(out[0], &got, sizeof got), QN_OK);
    CHECK(got == 2);
    qn_tensor *g, *l = qn_abs(t);
    CHECK_INT(qn_grad(l, NULL, 1, &t, &g), QN_OK);
    qn_tensor *all[] = {t, y, v, out[0], out[1], g, l};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) qn_release(all[i]);
    CHECK_INT(own->graph->handles, 0);
    if (qn_error_code(own)) FAIL("%s", qn_error(own));
    qn_close(own);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int i = 0; i < 2; i++) {
        if (!(qn = qn_open(&QN_OPTIONS(.device = devices[i])))) continue;
        qn_scope_begin(qn);
        RUN(functions_are_those_of_c99);
        RUN(any_size_has_its_value);
        RUN(special_points_are_those_of_c99);
        RUN(endless_parts_are_those_of_c99);
        RUN(operations_are_those_of_c99);
        RUN(integers_meet_complex_numbers_exactly);
        RUN(real_factors_stay_real);
        RUN(quotients_do_not_overflow);
        RUN(quotients_of_any_size);
        RUN(powers_of_small_numbers);
        RUN(powers_of_zero);
        RUN(comparisons_look_at_both_parts);
        RUN(a_tensor_is_what_was_given);
        RUN(values_can_be_written);
        RUN(views_are_written_through);
        RUN(numbers_become_tensors);
        RUN(parts_and_pairs);
        RUN(dtypes_meet_as_in_the_array_api);
        RUN(knob_explicit_keeps_widths_and_kinds_apart);
        RUN(a_release_too_many_leaves_the_pairs);
        RUN(handles_are_counted);
        RUN(results_without_a_scope);
        qn_close(qn);
    }
    return test_end();
}
