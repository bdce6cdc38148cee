/* test_f8.c - floats of 8 bits: all of their values against a table worked out from the definition
 * (OFP8, the Open Compute Project, 2023), on every device that is here: conversions from and to
 * every dtype, arithmetic of all pairs, sums in f32, files, text, and blocks that share a scale. */
#include "device_here.h"
#include "func/func.h"
#include "quern.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

enum { VALUES = 256 };

static const struct format {
    qn_dtype d;
    int fraction, bias;
    double most;
    uint8_t past; /* bits of what is too large */
} formats[] = {{QN_F8_E4M3, 3, 7, 448, 0x7f}, {QN_F8_E5M2, 2, 15, 57344, 0x7c}};

static long double table[COUNT_OF(formats)][VALUES];

static void fill_table(void) {
    for (size_t k = 0; k < COUNT_OF(formats); k++) {
        const struct format *f = &formats[k];
        for (int h = 0; h < VALUES; h++) {
            int e = (h & 127) >> f->fraction, m = h & ((1 << f->fraction) - 1);
            long double v = e ? ldexpl(1 + ldexpl(m, -f->fraction), e - f->bias)
                              : ldexpl(m, 1 - f->bias - f->fraction);
            if (v > (long double)f->most)
                v = f->past == 0x7c && !m ? (long double)INFINITY : (long double)NAN;
            table[k][h] = h & 128 ? -v : v;
        }
    }
}

/* The nearest by looking at all: ties to an even last bit; half a step past the largest, too
 * much. */
static long double nearest_to(size_t k, long double v) {
    const struct format *f = &formats[k];
    if (isnan(v)) return v;
    int best = 0;
    long double size = fabsl(v);
    long double half = ((long double)f->most - table[k][f->past - 2]) / 2;
    bool even = (f->past - 1) % 2 == 0; /* the largest number */
    if (size > (long double)f->most + half || (size == (long double)f->most + half && !even))
        return copysignl(table[k][f->past], v);
    for (int h = 1; h < f->past; h++) {
        long double d = fabsl(table[k][h] - size), was = fabsl(table[k][best] - size);
        if (d < was || (d == was && h % 2 == 0)) best = h;
    }
    return copysignl(table[k][best], v);
}

static bool same(long double a, long double b) {
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

/* ---- devices --------------------------------------------------------------------------------- */

static struct {
    const char *name, *device, *compiler;
    qn_ctx *qn;
} devices[] = {{"ref", "ref", NULL, NULL},
               {"llvm", "cpu", "llvm", NULL},
               {"cc", "cpu", "cc", NULL},
               {"opencl", "opencl", NULL, NULL}};

static void open_devices(void) {
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        if (devices[i].compiler) setenv("QN_CPU", devices[i].compiler, 1);
        devices[i].qn = qn_open(&QN_OPTIONS(.device = devices[i].device, .threads = 1));
        unsetenv("QN_CPU");
    }
}

#define EVERYWHERE(i)                                                                              \
    for (size_t i = 0; i < COUNT_OF(devices); i++)                                                 \
        if (devices[i].qn)

static qn_tensor *all_of(qn_ctx *qn, size_t k) {
    uint8_t all[VALUES];
    for (int i = 0; i < VALUES; i++) all[i] = (uint8_t)i;
    return qn_from(qn, formats[k].d, 1, (int64_t[]){VALUES}, all);
}

/* ---- conversions ----------------------------------------------------------------------------- */

static long double as_dtype(qn_dtype d, long double v) {
    if (d == QN_BOOL) return v != 0;
    if (d == QN_F8_E4M3 || d == QN_F8_E5M2) return nearest_to(d == QN_F8_E5M2, v);
    if (dtype_is_float(d)) { /* the others hold every value */
        double most = d == QN_F16 ? 65504 : 1e30;
        return isfinite(v) && fabsl(v) > (long double)most ? copysignl((long double)INFINITY, v)
                                                           : v;
    }
    if (isnan(v)) return 0;
    int bits = 8 * (int)qn_dtype_size(d);
    long double lo = dtype_is_unsigned(d) ? 0 : -ldexpl(1, bits - 1);
    long double hi = ldexpl(1, dtype_is_unsigned(d) ? bits : bits - 1) - 1;
    v = truncl(v);
    return v < lo ? lo : v > hi ? hi : v == 0 ? 0 : v;
}

static long double element(qn_dtype d, const void *data, int64_t i) {
    if (dtype_is_float(d)) return (long double)dtype_get_f(d, data, i);
    int64_t v = dtype_get_i(d, data, i);
    return d == QN_U64 ? (long double)(uint64_t)v : (long double)v;
}

static void every_value_becomes_every_dtype(void) {
    EVERYWHERE(i)
    for (size_t k = 0; k < COUNT_OF(formats); k++)
        for (int d = 0; d < DTYPE_COUNT; d++) {
            uint64_t got[VALUES];
            qn_scope s = qn_scope_begin(devices[i].qn);
            qn_tensor *x = qn_cast(all_of(devices[i].qn, k), (qn_dtype)d);
            CHECK_INT(qn_read(x, got, VALUES * qn_dtype_size((qn_dtype)d)), QN_OK);
            for (int h = 0; h < VALUES; h++) {
                long double want = as_dtype((qn_dtype)d, table[k][h]);
                if (same(element((qn_dtype)d, got, h), want)) continue;
                FAIL("%s: %s %02x as %s is %Lg, not %Lg", devices[i].name,
                     qn_dtype_name(formats[k].d), h, qn_dtype_name((qn_dtype)d),
                     element((qn_dtype)d, got, h), want);
            }
            qn_scope_end(devices[i].qn, s);
        }
}

/* Values, what lies in the middle of two, and its neighbours, to past the largest. */
enum { TRIES = VALUES * 6 };

static double try_of(size_t k, int i) {
    int h = i / 6 % 128;
    double a = (double)table[k][h], b = (double)table[k][h + 1], v = a;
    if (!isfinite(a)) a = formats[k].most, b = a * 1.125;
    if (!isfinite(b)) b = 2 * a - (double)table[k][h - 1];
    if (i % 6 == 1) v = (a + b) / 2;
    if (i % 6 == 2) v = nextafter((a + b) / 2, 1e30);
    if (i % 6 == 3) v = nextafter((a + b) / 2, -1e30);
    if (i % 6 == 4) v = a * 1.01;
    if (i % 6 == 5) v = i % 4 ? b * 4 : ldexp(a, 40);
    if (h == 127) v = i % 2 ? (double)INFINITY : i % 4 ? 1e30 : (double)NAN;
    return i >= TRIES / 2 ? -v : v;
}

static void every_dtype_rounds_to_nearest_even(void) {
    EVERYWHERE(i)
    for (size_t k = 0; k < COUNT_OF(formats); k++)
        for (int d = 0; d < DTYPE_COUNT; d++) {
            static uint64_t data[TRIES];
            static uint8_t got[TRIES];
            for (int n = 0; n < TRIES; n++)
                if (dtype_is_float(d))
                    dtype_set_f((qn_dtype)d, data, n, try_of(k, n));
                else
                    dtype_set_i((qn_dtype)d, data, n,
                                n % 2 ? n - TRIES / 2 : (int64_t)(n * n) << n % 50);
            qn_scope s = qn_scope_begin(devices[i].qn);
            qn_tensor *x = qn_from(devices[i].qn, (qn_dtype)d, 1, (int64_t[]){TRIES}, data);
            CHECK_INT(qn_read(qn_cast(x, formats[k].d), got, sizeof got), QN_OK);
            for (int n = 0; n < TRIES; n++) {
                long double v = element((qn_dtype)d, data, n), want = nearest_to(k, v);
                if (same(table[k][got[n]], want)) continue;
                FAIL("%s: %s %.20Lg as %s is %Lg, not %Lg", devices[i].name,
                     qn_dtype_name((qn_dtype)d), v, qn_dtype_name(formats[k].d), table[k][got[n]],
                     want);
            }
            qn_scope_end(devices[i].qn, s);
        }
}

/* Beyond the largest number lies that number. */
static void saturating_casts_keep_to_the_largest(void) {
    static const float f[] = {449, 464, 465, 1e30f, INFINITY, -INFINITY, -500, 3, NAN, 65000};
    static const int32_t n[] = {449, -449, 7, 70000, -70000, INT32_MAX, INT32_MIN, 128, -128, -129};
    EVERYWHERE(i) {
        qn_ctx *qn = devices[i].qn;
        qn_scope s = qn_scope_begin(qn);
        uint8_t got[10];
        uint16_t halves[10];
        int8_t bytes[10];
        uint32_t words[10];
        qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){10}, f);
        qn_tensor *y = qn_from(qn, QN_I32, 1, (int64_t[]){10}, n);
        for (size_t k = 0; k < COUNT_OF(formats); k++) {
            double most = formats[k].most;
            qn_read(qn_cast_saturating(x, formats[k].d), got, sizeof got);
            for (int j = 0; j < 10; j++)
                CHECK(same(table[k][got[j]],
                           isnan(f[j]) ? (long double)NAN
                                       : nearest_to(k, fmin(fmax((double)f[j], -most), most))));
            qn_read(qn_cast_saturating(y, formats[k].d), got, sizeof got);
            for (int j = 0; j < 10; j++)
                CHECK(same(table[k][got[j]], nearest_to(k, fmin(fmax(n[j], -most), most))));
        }
        qn_read(qn_cast_saturating(qn_cast(x, QN_BF16), QN_F16), halves, sizeof halves);
        CHECK_NEAR(dtype_get_f(QN_F16, halves, 3), 65504, 0, 0);
        CHECK_NEAR(dtype_get_f(QN_F16, halves, 5), -65504, 0, 0);
        qn_read(qn_cast_saturating(y, QN_I8), bytes, sizeof bytes);
        qn_read(qn_cast_saturating(y, QN_U32), words, sizeof words);
        for (int j = 0; j < 10; j++) {
            CHECK_INT(bytes[j], n[j] > 127 ? 127 : n[j] < -128 ? -128 : n[j]);
            CHECK_INT(words[j], n[j] < 0 ? 0 : n[j]);
        }
        qn_scope_end(qn, s);
    }
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

typedef struct operation {
    const char *name;
    qn_tensor *(*f)(qn_tensor *, qn_tensor *);
    long double (*value)(long double, long double);
} operation;

static long double sum_of(long double a, long double b) {
    return a + b;
}
static long double difference_of(long double a, long double b) {
    return a - b;
}
static long double product_of(long double a, long double b) {
    return a * b;
}
static long double quotient_of(long double a, long double b) {
    return a / b;
}
static long double larger_of(long double a, long double b) {
    return isnan(a) || isnan(b) ? (long double)NAN : a > b ? a : b;
}

static void all_pairs_are_rounded_once(void) {
    static const operation operations[] = {{"add", qn_add, sum_of},
                                           {"sub", qn_sub, difference_of},
                                           {"mul", qn_mul, product_of},
                                           {"div", qn_div, quotient_of},
                                           {"maximum", qn_maximum, larger_of}};
    static uint8_t got[VALUES][VALUES];
    EVERYWHERE(i)
    for (size_t k = 0; k < COUNT_OF(formats); k++)
        for (size_t o = 0; o < COUNT_OF(operations); o++) {
            qn_scope s = qn_scope_begin(devices[i].qn);
            qn_tensor *x = all_of(devices[i].qn, k);
            qn_tensor *column = qn_reshape(x, 2, (int64_t[]){VALUES, 1});
            CHECK_INT(qn_read(operations[o].f(column, x), got, sizeof got), QN_OK);
            for (int a = 0; a < VALUES; a++)
                for (int b = 0; b < VALUES; b++) {
                    long double exact = operations[o].value(table[k][a], table[k][b]);
                    long double want = nearest_to(k, exact), is = table[k][got[a][b]];
                    if (same(is, want) || (is == 0 && want == 0 && o == 4)) continue;
                    FAIL("%s: %s of %s %02x and %02x is %Lg, not %Lg", devices[i].name,
                         operations[o].name, qn_dtype_name(formats[k].d), a, b, is, want);
                }
            qn_scope_end(devices[i].qn, s);
        }
}

/* 2^10 ones are no number of 4 bits on the way: a sum in f8 would stop at 16. */
static void sums_and_products_are_in_f32(void) {
    EVERYWHERE(i) for (size_t k = 0; k < COUNT_OF(formats); k++) {
        qn_ctx *qn = devices[i].qn;
        qn_scope s = qn_scope_begin(qn);
        enum { ROWS = 33, DEPTH = 300, COLUMNS = 65 };
        static uint8_t a[ROWS * DEPTH], b[DEPTH * COLUMNS];
        static float got[ROWS][COLUMNS];
        uint64_t seed = 5;
        for (int j = 0; j < ROWS * DEPTH; j++) a[j] = (uint8_t)test_below(&seed, 0x40);
        for (int j = 0; j < DEPTH * COLUMNS; j++)
            b[j] = (uint8_t)(128 * (j & 1) + test_below(&seed, 0x40));
        qn_tensor *x = qn_from(qn, formats[k].d, 2, (int64_t[]){ROWS, DEPTH}, a);
        qn_tensor *y = qn_from(qn, formats[k].d, 2, (int64_t[]){DEPTH, COLUMNS}, b);
        qn_tensor *wide = qn_matmul(qn_cast(x, QN_F32), qn_cast(y, QN_F32));
        CHECK_INT(qn_read(wide, got, sizeof got), QN_OK);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++) {
                long double want = 0, size = 0;
                for (int d = 0; d < DEPTH; d++) {
                    want += table[k][a[r * DEPTH + d]] * table[k][b[d * COLUMNS + c]];
                    size += fabsl(table[k][a[r * DEPTH + d]] * table[k][b[d * COLUMNS + c]]);
                }
                CHECK_NEAR((double)got[r][c], (double)want, 0, (double)size * 2e-5);
            }
        uint8_t sum, product;
        CHECK_INT(qn_dtype_of(qn_matmul(x, y)), formats[k].d);
        qn_tensor *ones = qn_ones(qn, formats[k].d, 1, (int64_t[]){200});
        qn_read(qn_sum(ones, 0, false), &sum, 1);
        CHECK(same(table[k][sum], nearest_to(k, 200)));
        qn_read(qn_dot(ones, ones), &product, 1);
        CHECK(same(table[k][product], nearest_to(k, 200)));
        qn_scope_end(qn, s);
    }
}

static void the_largest_of_no_infinities(void) {
    EVERYWHERE(i) {
        qn_ctx *qn = devices[i].qn;
        qn_scope s = qn_scope_begin(qn);
        static const uint8_t bits[4] = {0xfe, 0x7f, 0xf0, 0xf8}; /* -448, NaN, -128, -256 */
        qn_tensor *x = qn_from(qn, QN_F8_E4M3, 1, (int64_t[]){4}, bits);
        uint8_t y[4];
        bool is[4];
        qn_read(qn_nanmax(x, 0, false), y, 1);
        CHECK_INT(y[0], 0xf0);
        qn_read(qn_max(qn_neg(x), 0, false), y, 1);
        CHECK(isnan(table[0][y[0]]));
        qn_read(qn_isfinite(x), is, sizeof is);
        CHECK(is[0] && !is[1] && is[2] && is[3]);
        qn_read(qn_isinf(x), is, sizeof is);
        CHECK(!is[0] && !is[1] && !is[2] && !is[3]);
        qn_read(qn_nan_to_num(x, 2, INFINITY, -INFINITY), y, 4);
        CHECK(y[0] == 0xfe && y[1] == 0x40 && y[3] == 0xf8);
        qn_read(qn_sort(x, 0, false), y, 4);
        CHECK(y[0] == 0xfe && y[1] == 0xf8 && y[2] == 0xf0 && isnan(table[0][y[3]]));
        qn_tensor *image = qn_reshape(func_slice_axis(x, 0, 2, 2, 1), 4, (int64_t[]){1, 1, 1, 2});
        qn_conv_options pad = QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1});
        uint8_t pooled[8];
        qn_tensor *p = qn_max_pool(image, (int64_t[]){2, 2}, &pad);
        CHECK_INT(qn_read(p, pooled, (size_t)qn_numel(p)), QN_OK);
        for (int64_t j = 0; j < qn_numel(p); j++) CHECK(!isnan(table[0][pooled[j]]));
        qn_scope_end(qn, s);
    }
}

/* ---- files and text -------------------------------------------------------------------------- */

static void files_and_text_hold_all_values(void) {
    qn_ctx *qn = devices[0].qn;
    char path[] = "/tmp/quern-f8-XXXXXX", text[64];
    int made = mkstemp(path);
    for (size_t k = 0; k < COUNT_OF(formats); k++) {
        uint8_t back[VALUES];
        qn_tensor *t = all_of(qn, k);
        CHECK_INT(qn_save(qn, path, 1, (const char *const[]){"t"}, &t, NULL), QN_OK);
        qn_file *f = qn_file_open(qn, path);
        qn_tensor *u = qn_file_tensor(f, "t");
        CHECK(u && qn_dtype_of(u) == formats[k].d);
        CHECK_INT(qn_read(u, back, sizeof back), QN_OK);
        for (int i = 0; i < VALUES; i++) CHECK_INT(back[i], i);
        qn_file_close(f);
        FILE *raw = fopen(path, "rb");
        static char header[200];
        CHECK(raw && fread(header, 1, sizeof header, raw) > 0);
        CHECK(strstr(header + 8, k ? "\"F8_E5M2\"" : "\"F8_E4M3\""));
        if (raw) fclose(raw);
        snprintf(text, sizeof text, "%s", qn_format(func_slice_axis(t, 0, 0x38, 2, 1), 8));
        CHECK_STR(text, k ? "[0.5, 0.625] f8_e5m2[2]" : "[1, 1.125] f8_e4m3[2]");
    }
    close(made);
    unlink(path);
}

/* ---- blocks that share a scale --------------------------------------------------------------- */

enum { BLOCK = 32, BLOCKS = 64 };

/* Section 6.3 of the MX specification in long double. */
static uint8_t scale_bits(size_t k, const float *x) {
    long double most = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (!isfinite(x[i])) return 255;
        most = fmaxl(most, fabsl((long double)x[i]));
    }
    int e = most > 0 ? ilogbl(most) - (k ? 15 : 8) : -127;
    return (uint8_t)((e < -127 ? -127 : e) + 127);
}

static void blocks_follow_the_specification(void) {
    static float x[BLOCKS][BLOCK], back[BLOCKS][BLOCK];
    static uint8_t y[BLOCKS][BLOCK], scale[BLOCKS];
    uint64_t seed = 3;
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < BLOCK; i++)
            x[b][i] = (float)ldexp(test_uniform(&seed) * 2 - 1,
                                   (b - 32) * 4 - (int)test_below(&seed, 12));
    memset(x[0], 0, sizeof x[0]);
    x[1][7] = NAN, x[2][9] = -INFINITY, x[3][0] = 3.4e38f, x[4][3] = 1e-45f;
    EVERYWHERE(d) for (size_t k = 0; k < COUNT_OF(formats); k++) {
        qn_ctx *qn = devices[d].qn;
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *out[2], *t = qn_from(qn, QN_F32, 2, (int64_t[]){BLOCKS, BLOCK}, x);
        CHECK_INT(qn_mx_quantize(t, formats[k].d, BLOCK, out), QN_OK);
        CHECK_INT(qn_read(out[0], y, sizeof y), QN_OK);
        CHECK_INT(qn_read(out[1], scale, sizeof scale), QN_OK);
        qn_read(qn_mx_dequantize(out[0], out[1]), back, sizeof back);
        for (int b = 0; b < BLOCKS; b++) {
            CHECK_INT(scale[b], scale_bits(k, x[b]));
            for (int i = 0; i < BLOCK && scale[b] != 255; i++) {
                long double most = (long double)formats[k].most,
                            v = ldexpl((long double)x[b][i], 127 - scale[b]);
                long double want = nearest_to(k, fminl(fmaxl(v, -most), most));
                CHECK(same(table[k][y[b][i]], want));
                CHECK(same((long double)back[b][i],
                           (long double)(float)ldexpl(want, scale[b] - 127)));
            }
            for (int i = 0; i < BLOCK && scale[b] == 255; i++) CHECK(isnan(back[b][i]));
        }
        qn_scope_end(qn, s);
    }
}

/* A product by such weights: values and gradient, and nothing but the product is launched. */
static void products_by_blocks_store_no_weights(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    qn_tensor *w = qn_zeros(qn, QN_F8_E4M3, 2, (int64_t[]){256, 512});
    qn_tensor *scale = qn_zeros(qn, QN_U8, 2, (int64_t[]){256, 16});
    qn_tensor *x = qn_zeros(qn, QN_F32, 2, (int64_t[]){1, 512});
    qn_realize(3, (qn_tensor *[]){w = qn_contiguous(w), scale = qn_contiguous(scale),
                                  x = qn_contiguous(x)});
    qn_stats before, after;
    qn_get_stats(qn, &before, sizeof before);
    qn_tensor *y = qn_matmul(x, qn_transpose(qn_mx_dequantize(w, scale), 0, 1));
    CHECK_INT(qn_realize(1, &y), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.kernels - before.kernels, 1);
    qn_close(qn);
    qn = devices[0].qn;
    static const uint8_t values[4] = {0x38, 0x40, 0xb8, 0}, scales[2] = {128, 126};
    static const float want[4] = {2, 2, .5, .5};
    float got[4];
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *v = qn_from(qn, QN_F8_E4M3, 1, (int64_t[]){4}, values), *g;
    qn_tensor *sum =
        qn_sum(qn_mx_dequantize(v, qn_from(qn, QN_U8, 1, (int64_t[]){2}, scales)), 0, false);
    CHECK_INT(qn_grad(sum, NULL, 1, &v, &g), QN_OK);
    CHECK_INT(qn_read(qn_cast(g, QN_F32), got, sizeof got), QN_OK);
    for (int i = 0; i < 4; i++) CHECK_NEAR((double)got[i], (double)want[i], 0, 0);
    qn_tape_end(tape);
}

static void blocks_that_do_not_fit_are_refused(void) {
    qn_ctx *qn = devices[0].qn;
    qn_tensor *out[2], *x = qn_zeros(qn, QN_F32, 2, (int64_t[]){3, 48});
    CHECK_INT(qn_mx_quantize(x, QN_F8_E4M3, 32, out), QN_ESHAPE);
    CHECK(strstr(qn_error(qn), "48") && strstr(qn_error(qn), "32"));
    qn_clear_error(qn);
    CHECK_INT(qn_mx_quantize(x, QN_F16, 16, out), QN_EDTYPE);
    CHECK(strstr(qn_error(qn), "f16"));
    qn_clear_error(qn);
    qn_tensor *y = qn_cast(x, QN_F8_E4M3), *scale = qn_zeros(qn, QN_U8, 2, (int64_t[]){3, 5});
    CHECK(!qn_mx_dequantize(y, scale) && qn_error_code(qn) == QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(!qn_mx_dequantize(x, scale) && qn_error_code(qn) == QN_EDTYPE);
    qn_clear_error(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    fill_table();
    open_devices();
    RUN(every_value_becomes_every_dtype);
    RUN(every_dtype_rounds_to_nearest_even);
    RUN(saturating_casts_keep_to_the_largest);
    RUN(all_pairs_are_rounded_once);
    RUN(sums_and_products_are_in_f32);
    RUN(the_largest_of_no_infinities);
    RUN(files_and_text_hold_all_values);
    RUN(blocks_follow_the_specification);
    RUN(products_by_blocks_store_no_weights);
    RUN(blocks_that_do_not_fit_are_refused);
    for (size_t i = 0; i < COUNT_OF(devices); i++)
        if (devices[i].qn) qn_close(devices[i].qn);
    return test_end();
}
