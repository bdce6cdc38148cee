/* rows.c - what test_tables.sh adds to a copy of the tree, by the public functions on each device.
 * Expected values are formulas of this file: softfrac and its slope, the 256 values that eight bits
 * can have, exclusive ors by a plain loop. */
#include "quern.h"
#include "test.h"

#include <math.h>

enum { MOST = 20000 };
static const char *const devices[] = {"cpu", "ref"};
static const char *device;

static qn_ctx *begin(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    if (!qn) FAIL("no device %s", device);
    return qn;
}

static void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s: %s", device, qn_error(qn));
    qn_close(qn);
}

/* ---- the operation --------------------------------------------------------------------------- */

static void softfrac_and_its_gradients(void) {
    qn_ctx *qn = begin();
    enum { N = 1001 };
    static float x[N], y[N], dy[N], ddy[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - 500) / 40;
    qn_tensor *t = qn_from(qn, QN_F32, 1, (int64_t[]){N}, x), *g, *gg;
    qn_tensor *s = qn_softfrac(t);
    qn_grad(s, NULL, 1, &t, &g);
    qn_grad(g, NULL, 1, &t, &gg);
    qn_read(s, y, sizeof y);
    qn_read(g, dy, sizeof dy);
    qn_read(gg, ddy, sizeof ddy);
    for (int i = 0; i < N; i++) {
        double v = x[i], a = 1 + fabs(v);
        CHECK(fabs(y[i] - v / a) <= 1e-7);
        CHECK(fabs(dy[i] - 1 / (a * a)) <= 3e-7);
        if (x[i] != 0) CHECK(fabs(ddy[i] + copysign(2 / (a * a * a), v)) <= 1e-6);
    }
    end(qn);
}

/* ---- the element type ------------------------------------------------------------------------ */

static double value_of(uint8_t h) {
    int e = h >> 4 & 7, f = h & 15;
    double v = e == 7 ? (f ? NAN : INFINITY) : e ? ldexp(16 + f, e - 7) : ldexp(f, -6);
    return h >> 7 ? -v : v;
}

/* The nearest by looking at all of them: ties to an even last bit; half a step past the largest is
 * infinite. */
static uint8_t nearest_to(double v) {
    if (isnan(v)) return 0x78;
    uint8_t best = 0, sign = signbit(v) ? 0x80 : 0;
    v = fabs(v);
    if (v >= 15.75) return sign | 0x70;
    for (uint8_t h = 0; h < 0x70; h++) {
        double d = fabs(value_of(h) - v), was = fabs(value_of(best) - v);
        if (d < was || (d == was && !(h & 1))) best = h;
    }
    return sign | best;
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

static void eight_bits_have_their_values(void) {
    qn_ctx *qn = begin();
    uint8_t all[256], back[256];
    float wide[256];
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    qn_tensor *t = qn_from(qn, QN_F8_E3M4, 1, (int64_t[]){256}, all);
    CHECK_INT(qn_dtype_size(QN_F8_E3M4), 1);
    CHECK_STR(qn_dtype_name(QN_F8_E3M4), "f8_e3m4");
    qn_tensor *w = qn_cast(t, QN_F32);
    qn_read(w, wide, sizeof wide);
    qn_read(qn_cast(qn_mul(w, qn_like(w, 1)), QN_F8_E3M4), back, sizeof back);
    for (int i = 0; i < 256; i++) {
        CHECK(same(wide[i], value_of((uint8_t)i)));
        if (!isnan(wide[i])) CHECK_INT(back[i], i);
    }
    end(qn);
}

static void eight_bits_are_rounded_to_nearest_even(void) {
    qn_ctx *qn = begin();
    static float x[MOST];
    static uint8_t y[MOST];
    for (int i = 0; i < MOST; i++) {
        uint8_t h = (uint8_t)(i % 0x6f), more = (uint8_t)(h + 1);
        double middle = (value_of(h) + value_of(more)) / 2;
        x[i] = (float)(i % 3 ? middle * (1 + (i % 5 - 2) * 1e-6) : value_of(h) * (i % 7) / 3.0);
        if (i & 1) x[i] = -x[i];
    }
    x[0] = 15.74f, x[1] = 15.75f, x[2] = 1e30f, x[3] = NAN, x[4] = -0.0f, x[5] = 1e-30f;
    qn_read(qn_cast(qn_from(qn, QN_F32, 1, (int64_t[]){MOST}, x), QN_F8_E3M4), y, sizeof y);
    for (int i = 0; i < MOST; i++)
        if (!same(value_of(y[i]), value_of(nearest_to(x[i]))))
            FAIL("%s: %a gives %02x, not %02x", device, (double)x[i], y[i], nearest_to(x[i]));
    end(qn);
}

static void eight_bits_are_computed_with(void) {
    qn_ctx *qn = begin();
    uint8_t a[128], b[128], sum[128], product[128];
    for (int i = 0; i < 128; i++) a[i] = (uint8_t)(i * 37 % 0x70), b[i] = (uint8_t)(i % 8);
    qn_tensor *x = qn_from(qn, QN_F8_E3M4, 1, (int64_t[]){128}, a);
    qn_tensor *y = qn_from(qn, QN_F8_E3M4, 1, (int64_t[]){128}, b), *h = qn_cast(y, QN_F16);
    CHECK_INT(qn_dtype_of(qn_add(x, y)), QN_F8_E3M4);
    CHECK_INT(qn_dtype_of(qn_add(x, h)), QN_F16);
    CHECK_INT(qn_dtype_of(qn_add(x, qn_cast(y, QN_I32))), QN_F8_E3M4);
    qn_read(qn_add(x, y), sum, sizeof sum);
    qn_read(qn_mul(x, y), product, sizeof product);
    double total = 0;
    for (int i = 0; i < 128; i++) {
        double p = value_of(a[i]), q = value_of(b[i]);
        CHECK(same(value_of(sum[i]), value_of(nearest_to(p + q))));
        CHECK(same(value_of(product[i]), value_of(nearest_to(p * q))));
        total += q;
    }
    uint8_t all;
    qn_read(qn_sum(y, 0, false), &all, 1); /* in f32, which holds it exactly, and rounded once */
    CHECK_INT(all, nearest_to(total));
    end(qn);
}

static void eight_bits_are_kept_in_files(void) {
    qn_ctx *qn = begin();
    uint8_t all[256], back[256];
    char path[] = "/tmp/quern-rows-XXXXXX";
    int made = mkstemp(path);
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    qn_tensor *t = qn_from(qn, QN_F8_E3M4, 1, (int64_t[]){256}, all);
    CHECK_INT(qn_save(qn, path, 1, (const char *const[]){"t"}, &t, NULL), QN_OK);
    qn_file *f = qn_file_open(qn, path);
    qn_tensor *u = qn_file_tensor(f, "t");
    CHECK(u && qn_dtype_of(u) == QN_F8_E3M4);
    qn_read(u, back, sizeof back);
    CHECK(!memcmp(all, back, sizeof all));
    qn_file_close(f);
    close(made);
    unlink(path);
    end(qn);
}

/* ---- the monoid ------------------------------------------------------------------------------ */

static void exclusive_ors_over_axes(void) {
    qn_ctx *qn = begin();
    enum { ROWS = 37, COLUMNS = 541 };
    static int32_t x[ROWS][COLUMNS], rows[ROWS], columns[COLUMNS], all;
    int32_t want_rows[ROWS] = {0}, want_columns[COLUMNS] = {0}, want = 0;
    uint32_t state = 1;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            state = state * 1664525 + 1013904223;
            x[i][j] = (int32_t)state;
            want_rows[i] ^= x[i][j];
            want_columns[j] ^= x[i][j];
            want ^= x[i][j];
        }
    qn_tensor *t = qn_from(qn, QN_I32, 2, (int64_t[]){ROWS, COLUMNS}, x);
    qn_read(qn_parity(t, 1, false), rows, sizeof rows);
    qn_read(qn_parity(t, 0, false), columns, sizeof columns);
    qn_read(qn_parity_axes(t, 2, (int[]){0, 1}, false), &all, sizeof all);
    CHECK(!memcmp(rows, want_rows, sizeof rows));
    CHECK(!memcmp(columns, want_columns, sizeof columns));
    CHECK_INT(all, want);
    static int32_t many[1 << 20];
    for (int i = want = 0; i < 1 << 20; i++) {
        state = state * 1664525 + 1013904223;
        many[i] = (int32_t)state;
        want ^= many[i];
    }
    qn_read(qn_parity(qn_from(qn, QN_I32, 1, (int64_t[]){1 << 20}, many), 0, false), &all, 4);
    CHECK_INT(all, want);
    end(qn);
}

/* Far from 0: a sum of squares less the square of the sum would have no digit left. */
static void variances_in_one_pass(void) {
    qn_ctx *qn = begin();
    enum { ROWS = 13, COLUMNS = 1237 };
    static float x[ROWS][COLUMNS], rows[ROWS], columns[COLUMNS];
    uint32_t state = 1;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            state = state * 1664525 + 1013904223;
            x[i][j] = 10000 + (float)(state >> 8) / (1 << 24);
        }
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x);
    qn_read(qn_spread(t, 1, false), rows, sizeof rows);
    qn_read(qn_spread(t, 0, false), columns, sizeof columns);
    for (int i = 0; i < ROWS; i++) {
        double mean = 0, sum = 0;
        for (int j = 0; j < COLUMNS; j++) mean += (double)x[i][j] / COLUMNS;
        for (int j = 0; j < COLUMNS; j++) sum += (x[i][j] - mean) * (x[i][j] - mean);
        CHECK_NEAR(rows[i], sum / COLUMNS, 2e-3, 0);
    }
    for (int j = 0; j < COLUMNS; j++) {
        double mean = 0, sum = 0;
        for (int i = 0; i < ROWS; i++) mean += (double)x[i][j] / ROWS;
        for (int i = 0; i < ROWS; i++) sum += (x[i][j] - mean) * (x[i][j] - mean);
        CHECK_NEAR(columns[j], sum / ROWS, 1e-2, 0);
    }
    static float many[1 << 20];
    for (int i = 0; i < 1 << 20; i++) many[i] = (float)(i % 5) + 1000;
    qn_read(qn_spread(qn_from(qn, QN_F32, 1, (int64_t[]){1 << 20}, many), 0, false), rows, 4);
    CHECK_NEAR(rows[0], 2, 1e-3, 0);
    end(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        device = devices[i];
        RUN(softfrac_and_its_gradients);
        RUN(eight_bits_have_their_values);
        RUN(eight_bits_are_rounded_to_nearest_even);
        RUN(eight_bits_are_computed_with);
        RUN(eight_bits_are_kept_in_files);
        RUN(exclusive_ors_over_axes);
        RUN(variances_in_one_pass);
    }
    return test_end();
}
