/* test_panels.c - many rows times blocks by whole numbers (quant/panels.c): against sums of doubles
 * of what blocks and rows stand for, within what rounding both sides may add, at rows and columns
 * around tiles, with instructions for dots and without. */
#include "isas.h"
#include "quant/quant.h"
#include "run/run.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 32, ROWS_MOST = 33, COLUMNS_MOST = 96, DEEP_MOST = 768 };

static float x_of[ROWS_MOST * DEEP_MOST], w_of[COLUMNS_MOST * DEEP_MOST];
static float got[ROWS_MOST * COLUMNS_MOST];
static uint8_t bytes_of[COLUMNS_MOST * DEEP_MOST * 34 / BLOCK];

/* By type: how many f16 there are, and where; and how often a half of a 127th of a block's largest
 * weight they may be off by: not at all, by rounding, or by sharing a scale, whose largest number
 * the block need not have. */
static const struct {
    int type, elements, bytes, halves, at, off;
} types[] = {
    {QN_Q8_0, 32, 34, 1, 0, 0},     {QN_Q4_0, 32, 18, 1, 0, 0},     {QN_Q5_0, 32, 22, 1, 0, 0},
    {QN_Q4_1, 32, 20, 2, 0, 0},     {QN_Q5_1, 32, 24, 2, 0, 1},     {QN_MXFP4, 32, 17, 0, 0, 0},
    {QN_IQ4_NL, 32, 18, 1, 0, 0},   {QN_Q4_K, 256, 144, 2, 0, 0},   {QN_IQ4_XS, 256, 136, 1, 0, 0},
    {QN_Q2_K, 256, 84, 2, 80, 1},   {QN_Q3_K, 256, 110, 1, 108, 3}, {QN_Q5_K, 256, 176, 2, 0, 0},
    {QN_Q6_K, 256, 210, 1, 208, 3},
};

/* `whole`: numbers of a byte, and the largest of all in each block. */
static void fill(float *x, int64_t n, uint64_t seed, bool whole) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = test_rand(&seed);
        x[i] = !whole ? (float)(r % 20001) / 10000 - 1 : i % BLOCK ? (float)(r % 255) - 127 : 127;
    }
}

/* The largest of each block, of one row. */
static double largest(const float *x, int64_t block) {
    double most = 0;
    for (int k = 0; k < BLOCK; k++) most = fmax(most, fabs((double)x[block * BLOCK + k]));
    return most;
}

/* Rows are rounded to 127ths of a block's largest, but for `whole` ones, which are such already. */
static void hold(int t, int64_t m, int64_t n, int64_t deep, bool whole) {
    for (int64_t i = 0; i < m * n; i++) {
        const float *x = x_of + i / n * deep, *w = w_of + i % n * deep;
        double sum = 0, most = 1e-6;
        for (int64_t b = 0; b < deep / BLOCK; b++) {
            double dx = largest(x, b) * (whole ? 0x1p-20 : 1.0 / 253),
                   dw = types[t].off * largest(w, b) / 253;
            for (int64_t k = b * BLOCK; k < (b + 1) * BLOCK; k++) {
                sum += (double)x[k] * (double)w[k];
                most += dx * fabs((double)w[k]) + dw * (fabs((double)x[k]) + dx);
            }
        }
        if (!(fabs((double)got[i] - sum) <= most))
            FAIL("type %d [%d, %d] deep %d: %g, not %g +- %g", types[t].type, (int)m, (int)n,
                 (int)deep, (double)got[i], sum, most);
    }
}

/* Blocks of any bytes, with scales that are not large. */
static void fill_blocks(int t, int64_t blocks, uint64_t seed) {
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t *b = bytes_of + i * types[t].bytes;
        for (int k = 0; k < types[t].bytes; k++) b[k] = (uint8_t)(test_rand(&seed) >> 9);
        if (i % 4 == 3) memset(b, 0, (size_t)types[t].bytes); /* scales of 0 in blocks of 256 */
        for (int k = 0; k < types[t].halves; k++) {
            uint64_t scale = 0x1800 + test_rand(&seed) % 0x1000;
            b[types[t].at + 2 * k] = (uint8_t)scale;
            b[types[t].at + 2 * k + 1] = (uint8_t)(scale >> 8);
        }
        if (!types[t].halves) b[0] = (uint8_t)(110 + test_rand(&seed) % 20);
    }
}

static void check_product(qn_ctx *qn, int t, int64_t m, int64_t n, int64_t deep, bool whole) {
    qn_scope scope = qn_scope_begin(qn);
    const int type = types[t].type;
    const int64_t row = deep / types[t].elements * types[t].bytes;
    fill(x_of, m * deep, (uint64_t)(m + 100 * n + 10000 * deep + type), whole);
    fill_blocks(t, n * deep / types[t].elements, (uint64_t)(m + 7 * n + deep + type));
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){m, deep}, x_of);
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){n, row}, bytes_of);
    CHECK_INT(qn_read(qn_dequantize(w, (qn_quant)type), w_of, (size_t)(n * deep) * 4), QN_OK);
    quant_panels panels = quant_panels_of(w, type, deep);
    qn_tensor *y = quant_panel_product(x, &panels);
    CHECK_INT(qn_read(y, got, (size_t)(m * n) * 4), QN_OK);
    hold(t, m, n, deep, whole);
    qn_scope_end(qn, scope);
}

static void all_shapes(const char *device, int threads) {
    static const int64_t rows[] = {1, 2, 7, 8, 13, 33}, columns[] = {16, 32, 48, 96},
                         blocks[] = {1, 2, 3, 16};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    for (size_t r = 0; r < COUNT_OF(rows); r++)
        for (size_t c = 0; c < COUNT_OF(columns); c++) {
            const int t = (int)((r * COUNT_OF(columns) + c) % COUNT_OF(types));
            int64_t deep = blocks[(r + 2 * c) % COUNT_OF(blocks)] * types[t].elements;
            if (deep > DEEP_MOST) deep = DEEP_MOST;
            for (int whole = 0; whole < 2; whole++)
                check_product(qn, t, rows[r], columns[c], deep, whole);
        }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void rows_times_panels_are_what_blocks_stand_for(void) {
    all_shapes("cpu", 1);
    all_shapes("cpu", 3);
}

static void and_so_by_plain_loops(void) {
    all_shapes("ref", 1);
}

static void and_without_dot_instructions(void) {
    on_each_isa(all_shapes);
}

/* Types that are whole numbers times a scale lose nothing; zeros, infinities and NaN stay. */
static void what_is_whole_is_exact(void) {
    enum { N = 16 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    for (int64_t i = 0; i < 4 * BLOCK; i++) x_of[i] = i / BLOCK == 3 ? 0 : (float)(i % 7) - 3;
    for (int64_t i = 0; i < 4; i++) x_of[i * BLOCK] = i == 1 ? INFINITY : i == 2 ? NAN : 127;
    for (int64_t i = 0; i < N * BLOCK; i++) w_of[i] = (float)(i % BLOCK ? i % 253 - 126 : 127);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){4, BLOCK}, x_of);
    qn_tensor *w = qn_quantize(qn_from(qn, QN_F32, 2, (int64_t[]){N, BLOCK}, w_of), QN_Q8_0);
    quant_panels panels = quant_panels_of(w, QN_Q8_0, BLOCK);
    CHECK_INT(qn_read(quant_panel_product(x, &panels), got, 4 * N * 4), QN_OK);
    for (int i = 0; i < 4 * N; i++) {
        double sum = 0;
        for (int k = 0; k < BLOCK; k++)
            sum += (double)x_of[i / N * BLOCK + k] * (double)w_of[i % N * BLOCK + k];
        if (i / N == 1 || i / N == 2)
            CHECK(isnan(got[i]));
        else
            CHECK((double)got[i] == sum);
    }
    qn_close(qn);
}

static void only_whole_panels_and_blocks_have_such_a_product(void) {
    CHECK(quant_has_panels(QN_Q4_K, 32, 256));
    CHECK(!quant_has_panels(QN_Q8_0, 24, 64));
    CHECK(!quant_has_panels(QN_Q8_0, 32, 48));
    CHECK(!quant_has_panels(0, 32, 64));
}

/* What a schedule of sums by tiles may not do to a kernel, it does not begin. */
static int left;
static void see_left(void *user, const char *line) {
    (void)user;
    left += strstr(line, "no proposal is left") != NULL;
}
static void schedules_of_many_rows_are_not_refused(void) {
    enum { M = 64, N = 96, K = 256 };
    static float x[M * K];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .threads = 1, .log = see_left));
    qn_set(qn, "debug", "s");
    for (int t = 0; t < (int)COUNT_OF(types); t++) {
        qn_scope scope = qn_scope_begin(qn);
        const int64_t row = K / types[t].elements * types[t].bytes;
        qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){N, row}, bytes_of);
        quant_panels panels = quant_panels_of(w, types[t].type, K);
        left = 0;
        qn_tensor *y = quant_panel_product(qn_from(qn, QN_F32, 2, (int64_t[]){M, K}, x), &panels);
        CHECK_INT(qn_realize(1, &y), QN_OK);
        if (left) FAIL("type %d: %d", types[t].type, left);
        qn_scope_end(qn, scope);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(rows_times_panels_are_what_blocks_stand_for);
    RUN(and_so_by_plain_loops);
    RUN(and_without_dot_instructions);
    RUN(what_is_whole_is_exact);
    RUN(only_whole_panels_and_blocks_have_such_a_product);
    RUN(schedules_of_many_rows_are_not_refused);
    return test_end();
}
