/* test_math.c - the formulas of kernel/math*.c against the C library in a wider format.
 *
 * F32 results are compared with the double functions of libm, F64 results with the long double
 * ones; those are far more accurate than one unit in the last place of the narrower format. Bounds
 * come from the table MATH_FUNCTIONS, which is also the documentation. Infinities, NaN and the
 * signs of zeros must be equal. */
#include "math/math.h"
#include "math_eval.h"
#include "run/run.h"

#include <tgmath.h>
#include <time.h>

typedef long double wide;
typedef struct row {
    int op, sources;
    const char *name;
    double bound[2]; /* F32, F64 */
    double (*one32)(double);
    wide (*one64)(wide);
    double (*two32)(double, double);
    wide (*two64)(wide, wide);
} row;

/* e^x / (1 + e^x) by what does not overflow and has all digits; libm has no such function. */
static double sigmoid(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static wide sigmoidl(wide x) {
    wide e = expl(-fabsl(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static double softplus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static wide softplusl(wide x) {
    return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

#define REAL          long double
#define ORACLE(name_) oracle_##name_
#include "accuracy_oracle.h"
#undef REAL
#undef ORACLE

/* In the wider type either way. */
#define BY_ORACLE(name_)                                                                           \
    static wide name_##l(wide x) {                                                                 \
        return oracle_##name_(x);                                                                  \
    }                                                                                              \
    static double name_(double x) {                                                                \
        return (double)oracle_##name_(x);                                                          \
    }
BY_ORACLE(silu)
BY_ORACLE(silu_slope)
BY_ORACLE(gelu)
BY_ORACLE(gelu_slope)
BY_ORACLE(gelu_tanh)
BY_ORACLE(gelu_tanh_slope)
BY_ORACLE(mish)
BY_ORACLE(digamma)
BY_ORACLE(trigamma)

static wide logaddexpl(wide x, wide y) {
    return oracle_logaddexp(x, y);
}

static double logaddexp(double x, double y) {
    return (double)oracle_logaddexp(x, y);
}

#define ORACLE_1(name) .one32 = name, .one64 = name##l
#define ORACLE_2(name) .two32 = name, .two64 = name##l
#define ROW(OP, name_, sources_, error32, error64)                                                 \
    {.op = OP_##OP,                                                                                \
     .name = #name_,                                                                               \
     .sources = sources_,                                                                          \
     .bound = {error32, error64},                                                                  \
     ORACLE_##sources_(name_)},
static const row rows[] = {MATH_FUNCTIONS(ROW)};

static qn_ctx *ctx;

/* ---- errors --------------------------------------------------------------------------------- */

static const struct format {
    qn_dtype dtype;
    int bits, lowest, highest; /* 2^lowest: smallest subnormal; 2^highest: the first to overflow */
} formats[2] = {{QN_F32, 24, -149, 128}, {QN_F64, 53, -1074, 1024}};

/* |got - want| in units of the last place of want, or of `unit` where that is larger; infinite
 * where the kinds differ. A result that overflowed counts as 2^highest. */
static double error_in_units(const struct format *f, wide got, wide want, wide unit) {
    wide over = ldexpl(1, f->highest);
    int e;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (signbit(want) != signbit(got) && unit == 0) return INFINITY;
    if (unit != 0 && isfinite(unit) && isfinite(want)) {
        frexpl(fmaxl(fabsl(unit), fabsl(want)), &e);
        e = e - f->bits > f->lowest ? e - f->bits : f->lowest;
        return (double)ldexpl(fabsl(got - want), -e);
    }
    if (want == 0 || isinf(want)) return got == want ? 0 : INFINITY;
    want = fminl(fabsl(want), over);
    got = fminl(fabsl(got), over);
    frexpl(want, &e);
    e = e - f->bits > f->lowest ? e - f->bits : f->lowest;
    return (double)ldexpl(fabsl(got - want), -e);
}

static double error_in_ulps(const struct format *f, wide got, wide want) {
    return error_in_units(f, got, want, 0);
}

/* One function in one format, and the largest error seen so far. */
typedef struct subject {
    const row *r;
    const struct format *f;
    kernel *k;
    eval_program p;
    double worst, at[2];
    int reported;
} subject;

static subject subject_open(const row *r, const struct format *f) {
    subject s = {.r = r, .f = f, .k = ir_open(ctx)};
    expr_id x[2];
    for (int i = 0; i < r->sources; i++) {
        mem_id arg = ir_arg(s.k, f->dtype, SYM_ONE, ACCESS_READ);
        x[i] = ir_load(s.k, arg, SYM_ZERO, SYM_TRUE, 0, 0);
    }
    s.p = eval_open(s.k, math_expand_op(s.k, r->op, f->dtype, x));
    return s;
}

static void subject_close(subject *s) {
    eval_close(&s->p);
    ir_close(s->k);
}

/* Where two terms cancel the larger one counts; of logaddexp F32 has 29 bits to spare, F64 50;
 * of what is reflected F32 has 6. */
static double larger_term(const struct format *f, int op, double x, double y, wide want) {
    if (op == OP_LOGADDEXP) return fmax(x, y) * (f->dtype == QN_F32 ? 0x1p-29 : 0x1p-50);
    if ((op == OP_LGAMMA || op == OP_DIGAMMA) && x < -0.25 && isfinite(want)) {
        wide right = op == OP_LGAMMA ? lgammal(-x) : -digammal(1 - (wide)x);
        return (double)fmaxl(fabsl(right), fabsl(want + right)) * (f->dtype == QN_F32 ? 0x1p-6 : 1);
    }
    bool slope = op == OP_GELU_SLOPE || op == OP_GELU_TANH_SLOPE || op == OP_SILU_SLOPE;
    if (!slope || !(x < 0 && x > -2)) return 0;
    wide term = op == OP_GELU_SLOPE   ? oracle_ndtr(x)
                : op == OP_SILU_SLOPE ? oracle_sigmoid(x)
                                      : oracle_gelu_tanh_sigmoid(x);
    return (double)fmax(term, term - want);
}

static void judge(subject *s, double x, double y, double got) {
    const row *r = s->r;
    wide want;
    if (s->f->dtype == QN_F32)
        want = r->sources == 2 ? r->two32(x, y) : r->one32(x);
    else
        want = r->sources == 2 ? r->two64(x, y) : r->one64(x);
    /* What the wider oracle does not round to zero or infinity, the format does. */
    double e = error_in_units(s->f, got, want, (wide)larger_term(s->f, r->op, x, y, want));
    if (e > s->worst || isinf(e)) {
        s->worst = e;
        s->at[0] = x;
        s->at[1] = y;
        if (e > r->bound[s->f - formats] && s->reported++ < 5)
            FAIL("%s(%a, %a) is %a, expected %La: %.3f ulp", r->name, x, y, got, want, e);
    }
}

/* Judge n <= EVAL_BLOCK points. */
static void judge_block(subject *s, int n, const double *x, const double *y) {
    float narrow[3][EVAL_BLOCK];
    double out[EVAL_BLOCK];
    bool f32 = s->f->dtype == QN_F32;
    for (int i = 0; f32 && i < n; i++) {
        narrow[0][i] = (float)x[i];
        narrow[1][i] = (float)y[i];
    }
    const void *in[2] = {f32 ? (const void *)narrow[0] : x, f32 ? (const void *)narrow[1] : y};
    if (!eval_points(&s->p, n, in, f32 ? (void *)narrow[2] : out)) {
        FAIL("%s is not made of native operations", s->r->name);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (f32)
            judge(s, narrow[0][i], narrow[1][i], narrow[2][i]);
        else
            judge(s, x[i], y[i], out[i]);
    }
}

static void report(const subject *s) {
    printf("  %-5s %s  %.3f ulp at %a", s->r->name, s->f->dtype == QN_F32 ? "F32" : "F64", s->worst,
           s->at[0]);
    if (s->r->sources == 2) printf(", %a", s->at[1]);
    printf("\n");
}

/* ---- F32: a sweep over all bit patterns ----------------------------------------------------- */

/* Every SWEEP-th float; a prime, so that significands of all kinds come up at every exponent. */
#define SWEEP 1201

static void f32_functions_stay_within_their_bounds(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].sources != 1) continue;
        subject s = subject_open(&rows[i], &formats[0]);
        double x[EVAL_BLOCK];
        for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
            int n = 0;
            for (; n < EVAL_BLOCK && bits < (uint64_t)1 << 32; bits += SWEEP) {
                uint32_t pattern = (uint32_t)bits;
                float v;
                memcpy(&v, &pattern, sizeof v);
                x[n++] = v;
            }
            judge_block(&s, n, x, x);
        }
        report(&s);
        subject_close(&s);
    }
}

/* ---- F64: random over exponents, and near the hard points ------------------------------------ */

static double from_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Points where formulas change or lose digits, by function. */
static double hard_point(int op, uint64_t *seed) {
    static const double breaks[] = {0.375, 0.875, 0.9375, 4,   6,     9.125, 19.125, 0.5,
                                    0.75,  1,     1.5,    9.2, 10.05, 26.5,  27.2};
    static const double edges[] = {709.78, -745.13, 88.72, -103.97, 1024, -1075, -37.4, 17};
    double near = ldexp(test_uniform(seed) - 0.5, -(int)test_below(seed, 50));
    if (op == OP_LGAMMA || op == OP_DIGAMMA) {
        static const double places[] = {1, 2, 0.5, 1.5, 2.5, 3.5, 0x1.762d86356be3fp+0, 0x1p-30};
        return places[test_below(seed, COUNT_OF(places))] * (1 + near);
    }
    if (op == OP_SIN || op == OP_COS) {
        double multiple =
            (double)test_below(seed, 1 + (test_rand(seed) >> (test_below(seed, 60) + 4)));
        return multiple * 1.5707963267948966 * (1 + 0x1p-52 * (double)test_below(seed, 3)) +
               near * 1e-6;
    }
    if (test_below(seed, 2)) return breaks[test_below(seed, COUNT_OF(breaks))] * (1 + near);
    return edges[test_below(seed, COUNT_OF(edges))] * (1 + near * 0.01);
}

static double f64_point(int op, uint64_t *seed) {
    uint64_t r = test_rand(seed);
    double significand = 1 + (double)(r >> 12) * 0x1p-52, sign = r & 1 ? -1 : 1;
    if (op == OP_LOG || op == OP_LOG2) sign = r & 15 ? 1 : sign;
    switch ((r >> 1) & 7) {
    case 0:
        return from_bits(test_rand(seed));
    case 1:
    case 2:
        return sign * hard_point(op, seed);
    case 3:
        return sign * ldexp(significand, (int)test_below(seed, 80) - 70);
    case 4:
        return sign * (1 + ldexp(significand - 1.5, -(int)test_below(seed, 50)));
    default:
        return sign * ldexp(significand, (int)test_below(seed, 16) - 6);
    }
}

static void f64_functions_stay_within_their_bounds(void) {
    uint64_t seed = 20240229;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].sources != 1) continue;
        subject s = subject_open(&rows[i], &formats[1]);
        double x[EVAL_BLOCK];
        for (int block = 0; block < 500; block++) {
            for (int j = 0; j < EVAL_BLOCK; j++) x[j] = f64_point(rows[i].op, &seed);
            judge_block(&s, EVAL_BLOCK, x, x);
        }
        report(&s);
        subject_close(&s);
    }
}

/* The doubles and floats that come closest to a multiple of pi/2 leave a remainder near 2^-61 and
 * 2^-30; every bit of a reduction counts there. */
static void sin_and_cos_survive_the_worst_cancellations(void) {
    static const double x64[] = {0x1.6ac5b262ca1ffp+849, 0x1.921fb54442d18p+0,
                                 0x1.921fb54442d18p+1,   0x1.2d97c7f3321d2p+1,
                                 0x1.1475cc9eedf01p+62,  0x1p1023,
                                 0x1.fffffffffffffp1023, 0x1.f7a1f5d8a1dbbp+118};
    static const double x32[] = {16367173. * 0x1p72, 0x1.921fb6p+0, 0x1.921fb6p+1, 0x1.fffffep127,
                                 0x1.fffffep75,      0x1p76,        0x1p77};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].op != OP_SIN && rows[i].op != OP_COS) continue;
        subject a = subject_open(&rows[i], &formats[0]), b = subject_open(&rows[i], &formats[1]);
        judge_block(&a, COUNT_OF(x32), x32, x32);
        judge_block(&b, COUNT_OF(x64), x64, x64);
        subject_close(&a);
        subject_close(&b);
    }
}

/* ---- special values -------------------------------------------------------------------------- */

static const double specials[] = {0.0,
                                  -0.0,
                                  1.0,
                                  -1.0,
                                  2.0,
                                  -2.0,
                                  3.0,
                                  -3.0,
                                  0.5,
                                  -0.5,
                                  1.5,
                                  -1.5,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  1e30,
                                  0x1p-149,
                                  -0x1p-149,
                                  0x1p-126,
                                  -0x1p-126,
                                  0x1p-127,
                                  0x1p-1074,
                                  -0x1p-1074,
                                  0x1p-1022,
                                  -0x1p-1022,
                                  0x1p-1023,
                                  0x1p127,
                                  -0x1p127,
                                  0x1p1023,
                                  -0x1p1023,
                                  1e6,
                                  1000001,
                                  -1e6,
                                  -1000001,
                                  0x1p24 - 1,
                                  -0x1p24 + 1,
                                  0x1p53 - 1,
                                  0x1p53,
                                  -0x1p53 + 1,
                                  1e300,
                                  1 + 0x1p-23,
                                  1 - 0x1p-24,
                                  1 + 0x1p-52,
                                  1 - 0x1p-53,
                                  -1 - 0x1p-23,
                                  -1 + 0x1p-53,
                                  0x1.fffffep127,
                                  0x1.fffffffffffffp1023,
                                  -0x1.fffffffffffffp1023,
                                  0x1p-25,
                                  0x1p-54,
                                  128,
                                  1024,
                                  -149,
                                  -150,
                                  -1075,
                                  0x1.62e42ep6,
                                  0x1.62e430p6,
                                  0x1.62e42fefa39efp9,
                                  0x1.62e42fefa39f0p9,
                                  -0x1.9fe368p6,
                                  -745.13321910194122};

static void special_values_are_annex_f(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int f = 0; f < 2; f++) {
            subject s = subject_open(&rows[i], &formats[f]);
            for (size_t a = 0; a < COUNT_OF(specials); a++) {
                double x[COUNT_OF(specials)];
                for (size_t b = 0; b < COUNT_OF(specials); b++) x[b] = specials[a];
                judge_block(&s, rows[i].sources == 2 ? COUNT_OF(specials) : 1, x, specials);
            }
            subject_close(&s);
        }
    }
}

/* Pieces must not rise above 1, where 1 + erf(-x) would be negative, nor stay below it for ever. */
static void tanh_and_erf_are_odd_and_end_at_one(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].op != OP_TANH && rows[i].op != OP_ERF) continue;
        subject s = subject_open(&rows[i], &formats[0]);
        float x[EVAL_BLOCK], y[EVAL_BLOCK];
        const uint32_t one = 0x3f800000, ten = 0x41200000, infinity = 0x7f800000;
        for (uint32_t bits = 0; bits <= infinity + 0x10000;) {
            for (int j = 0; j < EVAL_BLOCK; j += 2) {
                uint32_t pattern = bits < infinity ? bits : infinity;
                memcpy(&x[j], &pattern, sizeof *x);
                x[j + 1] = -x[j];
                bits += bits < one || bits > ten ? 0x10000 : 257;
            }
            const void *in[1] = {x};
            CHECK(eval_points(&s.p, EVAL_BLOCK, in, y));
            for (int j = 0; j < EVAL_BLOCK; j += 2) {
                if (y[j] != -y[j + 1] || !(y[j] <= 1) || (x[j] >= 10 && y[j] < 1))
                    FAIL("%s(%a) is %a, of %a it is %a", rows[i].name, x[j], y[j], x[j + 1],
                         y[j + 1]);
            }
        }
        subject_close(&s);
    }
}

/* ---- two arguments --------------------------------------------------------------------------- */

/* Pairs whose powers spread over the whole range of results. */
static void pow_pair(const struct format *f, uint64_t *seed, double *x, double *y) {
    uint64_t r = test_rand(seed);
    int range = f->highest - 4;
    int e = r & 1 ? (int)test_below(seed, 5) - 2 : (int)test_below(seed, 2 * range) - range;
    *x = ldexp(1 + (double)(r >> 12) * 0x1p-52, e);
    *y = (2 * test_uniform(seed) - 1) * (f->highest + f->bits) / fabs(log2(*x));
    if (r & 2) *y = ldexp(*y, -(int)test_below(seed, 30));
    if ((r & 28) == 0) *x = -*x, *y = rint(*y);
}

/* Pairs of all sizes, near to each other and not; of sums of powers mostly those that matter. */
static void any_pair(int op, const struct format *f, uint64_t *seed, double *x, double *y) {
    uint64_t r = test_rand(seed);
    int range = f->highest + f->bits - 2,
        e = (int)test_below(seed, 2 * range) - range + f->bits / 2;
    if (op == OP_LOGADDEXP || r & 1) e = (int)test_below(seed, 12) - 6;
    *x = ldexp(1 + test_uniform(seed), e) * (r & 2 ? 1 : -1);
    *y =
        ldexp(1 + test_uniform(seed), e + (int)test_below(seed, r & 4 ? 4 : 60)) * (r & 8 ? 1 : -1);
    if (op == OP_LOGADDEXP && r & 16) { /* whose result is near 0 */
        *x = -fabs(test_uniform(seed));
        *y = log(-expm1(*x)) * (1 + ldexp(test_uniform(seed), -(int)test_below(seed, 50)));
    }
    if (r & 32) {
        double was = *x;
        *x = *y, *y = was;
    }
}

static void functions_of_two_stay_within_their_bounds(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t seed = 77;
        const row *r = &rows[i];
        for (int f = 0; f < 2 && r->sources == 2; f++) {
            subject s = subject_open(r, &formats[f]);
            double x[EVAL_BLOCK], y[EVAL_BLOCK];
            for (int block = 0; block < 800; block++) {
                for (int j = 0; j < EVAL_BLOCK; j++) {
                    if (r->op == OP_POW)
                        pow_pair(&formats[f], &seed, &x[j], &y[j]);
                    else
                        any_pair(r->op, &formats[f], &seed, &x[j], &y[j]);
                }
                judge_block(&s, EVAL_BLOCK, x, y);
            }
            report(&s);
            subject_close(&s);
        }
    }
}

/* ---- folding, narrow formats, whole kernels -------------------------------------------------- */

/* Constant arguments fold to a constant: the folder's arithmetic against the evaluator's. */
static double folded(kernel *k, int op, qn_dtype dtype, double x, double y) {
    expr_id arg[2] = {ir_const_f(k, dtype, x), ir_const_f(k, dtype, y)};
    expr_id e = math_expand_op(k, op, dtype, arg);
    CHECK_INT(ir_e(k, e)->kind, EXPR_CONST);
    return scalar_from_bits(dtype, ir_e(k, e)->bits).f;
}

static void constants_fold_to_the_same_bits(void) {
    uint64_t seed = 5;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int f = 0; f < 2; f++) {
            subject s = subject_open(&rows[i], &formats[f]);
            for (int n = 0; n < 40; n++) {
                double x = ldexp(test_uniform(&seed) + 1, (int)test_below(&seed, 12) - 6);
                double y = 2.25 * test_uniform(&seed);
                float narrow[3] = {(float)x, (float)y};
                if (f == 0) x = narrow[0], y = narrow[1];
                double got = 0;
                const void *in[2] = {f ? (void *)&x : narrow, f ? (void *)&y : narrow + 1};
                CHECK(eval_points(&s.p, 1, in, f ? (void *)&got : narrow + 2));
                if (f == 0) got = narrow[2];
                double want = folded(s.k, rows[i].op, formats[f].dtype, x, y);
                CHECK(want == got || (isnan(want) && isnan(got)));
            }
            subject_close(&s);
        }
    }
}

/* F16 and BF16 round the F32 result: at most a tie's worth beyond half a unit. */
static void narrow_formats_are_rounded_f32(void) {
    static const struct format narrow[2] = {{QN_F16, 11, -24, 16}, {QN_BF16, 8, -133, 128}};
    for (int f = 0; f < 2; f++) {
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            kernel *k = ir_open(ctx);
            for (uint32_t bits = 0; bits < 65536; bits += 331) {
                double x = scalar_from_bits(narrow[f].dtype, bits).f, y = 0.75;
                double got = folded(k, rows[i].op, narrow[f].dtype, x, y);
                wide want = rows[i].sources == 2 ? rows[i].two64(x, y) : rows[i].one64(x);
                double e = error_in_ulps(&narrow[f], got, want);
                if (e > 0.502) FAIL("%s(%a) is %a, expected %La", rows[i].name, x, got, want);
            }
            ir_close(k);
        }
    }
}

static void only_float_functions_are_expanded(void) {
    kernel *k = ir_open(ctx);
    expr_id x[2] = {ir_const_i(k, QN_I32, 3), ir_const_i(k, QN_I32, 2)};
    CHECK_INT(math_expand_op(k, OP_ADD, QN_I32, x), 0);
    CHECK_INT(math_expand_op(k, OP_MOD, QN_I32, x), 0);
    expr_id y[2] = {ir_const_f(k, QN_F32, 3), ir_const_f(k, QN_F32, 2)};
    CHECK_INT(math_expand_op(k, OP_SQRT, QN_F32, y), 0);
    CHECK_INT(math_expand_op(k, OP_MAXIMUM, QN_F32, y), 0);
    ir_close(k);
}

static int operations(const subject *s) {
    int n = 0;
    for (int j = 0; j < s->p.n; j++) {
        const ir_expr *e = ir_e(s->k, s->p.order[j]);
        n += e->kind == EXPR_TABLE || (e->kind == EXPR_OP && e->op != OP_BITCAST);
    }
    return n;
}

/* Within a tenth, so that a formula may be polished; bitcasts are no instructions. */
static void a_function_costs_the_operations_of_its_expansion(void) {
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        subject s = subject_open(&rows[i], &formats[0]);
        int n = operations(&s), cost = op_cost(rows[i].op, QN_F32);
        if (abs(n - cost) * 10 > cost)
            FAIL("%s is expanded into %d operations; ops.h says %d", rows[i].name, n, cost);
        subject_close(&s);
    }
}

/* And what is not expanded is one instruction, or a slow one: a quotient or a root. */
static void other_operations_cost_an_instruction(void) {
    static const int slow[] = {OP_DIV, OP_RECIPROCAL, OP_SQRT, OP_FLOOR_DIV, OP_MOD};
    for (int op = OP_NONE + 1; op < OP_COUNT; op++) {
        bool divides = false;
        for (size_t i = 0; i < COUNT_OF(slow); i++) divides |= slow[i] == op;
        if (op_rows[op].class_ != CLASS_ELEM || ir_expands(op, QN_F32)) continue;
        int most = divides ? 20 : 1, least = divides ? 5 : 1;
        if (!op_rows[op].has_float) continue;
        if (op_cost(op, QN_F32) < least || op_cost(op, QN_F32) > most)
            FAIL("%s costs %d", op_rows[op].name, op_cost(op, QN_F32));
    }
}

static double power(double x, double y) {
    kernel *k = ir_open(ctx);
    expr_id arg[2] = {ir_load(k, ir_arg(k, QN_F64, SYM_ONE, ACCESS_READ), SYM_ZERO, SYM_TRUE, 0, 0),
                      ir_const_f(k, QN_F64, y)};
    eval_program p = eval_open(k, math_expand_op(k, OP_POW, QN_F64, arg));
    const void *in[1] = {&x};
    double out = 0;
    CHECK(p.n <= 4);
    CHECK(eval_points(&p, 1, in, &out));
    eval_close(&p);
    ir_close(k);
    return out;
}

static void small_constant_powers_are_products(void) {
    CHECK(power(1.25, 1) == 1.25);
    CHECK(power(1.25, 2) == 1.5625);
    CHECK(power(-1.5, 3) == -3.375);
    CHECK(power(4, -1) == 0.25);
    CHECK(power(-0.0, -1) == -INFINITY);
    CHECK(power(NAN, 0) == 1);
}

/* Every expression of every statement is rewritten, wherever it stands; a function used twice is
 * expanded once. */
static void whole_kernels_are_expanded(void) {
    kernel *k = ir_open(ctx);
    sym n = sym_const(k->syms, 16);
    mem_id in = ir_arg(k, QN_F32, n, ACCESS_READ), out = ir_arg(k, QN_F32, n, ACCESS_WRITE);
    mem_id tile = ir_tile(k, MEM_REG, QN_F32, SYM_ONE);
    stmt_id loop = ir_loop(k, 0, LOOP_SERIAL, "i", n);
    sym i = ir_s(k, loop)->l.var;
    expr_id x = ir_load(k, in, i, SYM_TRUE, 0, 0), e = ir_op1(k, OP_EXP, x);
    ir_def(k, loop, tile, ir_op1(k, OP_TANH, e));
    ir_stmt store = {.kind = STMT_STORE, .monoid = MONOID_SET, .n = 1};
    store.store.mem[0] = out;
    store.store.value[0] = ir_op2(k, OP_ADD, e, ir_op1(k, OP_LOG, e));
    store.store.index = i;
    store.store.valid = SYM_TRUE;
    store.store.guard = ir_op2(k, OP_LT, ir_op1(k, OP_SIN, x), x);
    stmt_id put = ir_store_n(k, loop, &store);
    math_expand(k);
    expr_id place[3] = {ir_s(k, put)->store.value[0], ir_s(k, put)->store.guard,
                        ir_s(k, ir_s(k, loop)->first)->def.value};
    uint32_t made = k->exprs;
    for (int j = 0; j < 3; j++) {
        eval_program p = eval_open(k, place[j]);
        for (int a = 0; a < p.n; a++) {
            const ir_expr *f = ir_e(k, p.order[a]);
            CHECK(f->kind != EXPR_OP || !math_expand_op(k, f->op, f->dtype, f->arg));
        }
        eval_close(&p);
    }
    expr_id exp_x = math_expand_op(k, OP_EXP, QN_F32, &x);
    CHECK_INT(k->exprs, made); /* nothing new: the expansion of exp(x) is there already */
    CHECK_INT(ir_e(k, place[0])->op, OP_ADD);
    CHECK_INT(ir_e(k, place[0])->arg[0], exp_x);
    ir_close(k);
}

/* The formulas have each rounding where they need it: no pass may join their products and sums. */
static void passes_keep_the_formulas(void) {
    uint64_t seed = 11;
    const row *r = &rows[COUNT_OF(rows) - 1];
    subject s = subject_open(r, &formats[1]);
    eval_close(&s.p);
    mem_id x = ir_find_mem(s.k, "a0"), y = ir_find_mem(s.k, "a1");
    mem_id out = ir_arg(s.k, QN_F64, SYM_ONE, ACCESS_WRITE);
    expr_id value = ir_op2(s.k, OP_POW, ir_load(s.k, x, SYM_ZERO, SYM_TRUE, 0, 0),
                           ir_load(s.k, y, SYM_ZERO, SYM_TRUE, 0, 0));
    stmt_id put = ir_store(s.k, 0, MONOID_SET, (ir_place){out, SYM_ZERO, SYM_TRUE}, value);
    run_passes(s.k);
    s.p = eval_open(s.k, ir_s(s.k, put)->store.value[0]);
    double a[EVAL_BLOCK], b[EVAL_BLOCK];
    for (int j = 0; j < EVAL_BLOCK; j++) pow_pair(&formats[1], &seed, &a[j], &b[j]);
    judge_block(&s, EVAL_BLOCK, a, b);
    subject_close(&s);
}

/* Least processor time of a function of many equal values, in nanoseconds. */
static double time_of(qn_ctx *qn, qn_tensor *(*f)(qn_tensor *), double value) {
    enum { COUNT = 1 << 15 };
    static float data[COUNT];
    for (int i = 0; i < COUNT; i++) data[i] = (float)value;
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){COUNT}, data);
    double best = 1e9;
    for (int i = 0; i < 40; i++) {
        struct timespec from, to;
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *y = f(x);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        CHECK(!qn_realize(1, &y));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        double seconds = difftime(to.tv_sec, from.tv_sec);
        best = fmin(best, 1e9 * seconds + (double)(to.tv_nsec - from.tv_nsec));
        qn_scope_end(qn, scope);
    }
    qn_release(x);
    return best;
}

/* Numbers too small for a float on the way to 0 are worked out in microcode on x86, more than ten
 * times as slow; the masked half of an attention is nothing else. */
static void exponentials_that_vanish_take_no_longer(void) {
    qn_options one = QN_OPTIONS(.threads = 1);
    qn_ctx *qn = qn_open(&one);
    static const struct {
        const char *name;
        qn_tensor *(*f)(qn_tensor *);
    } of[] = {{"exp", qn_exp}, {"exp2", qn_exp2}, {"sigmoid", qn_sigmoid}};
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        qn_tensor *(*f)(qn_tensor *) = of[i].f;
        double usual = time_of(qn, f, -1), gone = time_of(qn, f, -1e9);
        double masked = time_of(qn, f, -INFINITY);
        if (gone > 4 * usual || masked > 4 * usual)
            FAIL("%s: %g ns, %g for -1e9, %g for -inf", of[i].name, usual, gone, masked);
    }
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    ctx = qn_open(NULL);
    if (!ctx || __LDBL_MANT_DIG__ < 64) return test_end(); /* no oracle for F64 */
    RUN(f32_functions_stay_within_their_bounds);
    RUN(f64_functions_stay_within_their_bounds);
    RUN(sin_and_cos_survive_the_worst_cancellations);
    RUN(special_values_are_annex_f);
    RUN(tanh_and_erf_are_odd_and_end_at_one);
    RUN(functions_of_two_stay_within_their_bounds);
    RUN(constants_fold_to_the_same_bits);
    RUN(narrow_formats_are_rounded_f32);
    RUN(only_float_functions_are_expanded);
    RUN(a_function_costs_the_operations_of_its_expansion);
    RUN(other_operations_cost_an_instruction);
    RUN(exponentials_that_vanish_take_no_longer);
    RUN(small_constant_powers_are_products);
    RUN(whole_kernels_are_expanded);
    RUN(passes_keep_the_formulas);
    qn_close(ctx);
    return test_end();
}
