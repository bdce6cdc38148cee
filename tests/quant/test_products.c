/* test_products.c - rows times blocks by whole numbers: against sums of integers and of doubles,
 * at rows around words, vectors and their remainders, with the largest bytes of both signs. */
#include "isas.h"
#include "quant/quant.h"
#include "run/run.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 32, ROWS_MOST = 3, COLUMNS_MOST = 40, BLOCKS_MOST = 128 };

static float x_of[ROWS_MOST * BLOCKS_MOST * BLOCK];
static uint8_t w_of[COLUMNS_MOST * BLOCKS_MOST * 34];

static void fill(uint64_t seed, int type, int64_t floats, int64_t blocks) {
    int size = type == QN_Q8_0 ? 34 : 18;
    for (int64_t i = 0; i < floats; i++) x_of[i] = (float)(test_rand(&seed) % 20001) / 10000 - 1;
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t *b = w_of + i * size;
        uint64_t scale = 0x1800 + test_rand(&seed) % 0x1000;
        b[0] = (uint8_t)scale, b[1] = (uint8_t)(scale >> 8);
        uint64_t how = test_rand(&seed) % 4; /* all -128, all 127, or any */
        for (int k = 2; k < size; k++)
            b[k] = how == 0 ? 0x80 : how == 1 ? 0x7f : (uint8_t)(test_rand(&seed) >> 9);
    }
}

static double scale_of(const uint8_t *block) {
    int bits = block[0] | block[1] << 8;
    return ldexp((double)((bits & 1023) | 1024), (bits >> 10) - 25);
}

static int element(const uint8_t *block, int type, int i) {
    if (type == QN_Q8_0) return (int8_t)block[2 + i];
    return ((block[2 + i % 16] >> (i < 16 ? 0 : 4)) & 15) - 8;
}

/* Where the rows' element lies in what quant_rows_of gives. */
static int64_t place(int type, int64_t k, int64_t blocks, int64_t i) {
    if (type == QN_Q8_0) return k * blocks * BLOCK + i;
    return k * blocks * BLOCK + i % BLOCK / 16 * blocks * 16 + i / BLOCK * 16 + i % 16;
}

static bool read_all(qn_tensor *t, void *to, size_t bytes) {
    return t && qn_read(t, to, bytes) == QN_OK;
}

/* Each element is the nearest whole number, and the sums are those of whole numbers. */
static void check_product(qn_ctx *qn, int type, int64_t m, int64_t n, int64_t blocks) {
    int64_t deep = blocks * BLOCK;
    int size = type == QN_Q8_0 ? 34 : 18;
    fill((uint64_t)(m + 100 * n + 10000 * blocks + type), type, m * deep, n * blocks);
    if (m > 1)
        for (int64_t i = 0; i < deep; i++) x_of[i] = i / BLOCK % 3 ? (i % 2 ? 3.f : -3.f) : 0;
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){m, deep}, x_of);
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){n, blocks * size}, w_of);
    qn_tensor *scales = quant_scales(w, type);
    CHECK_INT(qn_realize(1, &scales), QN_OK);
    quant_rows r = quant_rows_of(x, type);
    qn_tensor *y = quant_product(&r, w, scales, type);
    int8_t *whole = malloc((size_t)(m * deep));
    float *d = malloc((size_t)(m * blocks) * 4), *got = malloc((size_t)(m * n) * 4);
    CHECK(read_all(r.whole, whole, (size_t)(m * deep)));
    CHECK(read_all(r.scales, d, (size_t)(m * blocks) * 4));
    CHECK(read_all(y, got, (size_t)(m * n) * 4));
    for (int64_t i = 0; i < m * deep; i++) {
        double step = (double)d[i / BLOCK], is = (double)x_of[i];
        double q = whole[place(type, i / deep, blocks, i % deep)];
        CHECK(fabs(q * step - is) <= step * 0.5001 + 1e-12);
    }
    for (int64_t i = 0; i < m * n; i++) {
        double sum = 0, sizes = 0;
        for (int64_t b = 0; b < blocks; b++) {
            const uint8_t *block = w_of + (i % n * blocks + b) * size;
            int64_t whole_sum = 0;
            for (int k = 0; k < BLOCK; k++)
                whole_sum +=
                    element(block, type, k) * whole[place(type, i / n, blocks, b * BLOCK + k)];
            double term = scale_of(block) * (double)d[i / n * blocks + b] * (double)whole_sum;
            sum += term, sizes += fabs(term);
        }
        /* lanes of a block, whose sum is smaller than they, are rounded each */
        double most = 1e-6 * sizes + 1e-4;
        if (!(fabs((double)got[i] - sum) <= most))
            FAIL("type %d [%d, %d] x %d blocks: %g, not %g", type, (int)m, (int)n, (int)blocks,
                 (double)got[i], sum);
    }
    free(whole), free(d), free(got);
    qn_scope_end(qn, scope);
}

static void all_shapes(const char *device, int threads) {
    static const int64_t blocks[] = {1, 2, 3, 7, 16, 31, 40, 128}, columns[] = {1, 3, 33};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    for (size_t b = 0; b < COUNT_OF(blocks); b++)
        for (size_t c = 0; c < COUNT_OF(columns); c++)
            for (int t = 0; t < 2; t++)
                check_product(qn, t ? QN_Q4_0 : QN_Q8_0, 1 + (int64_t)(b + c) % ROWS_MOST,
                              columns[c], blocks[b]);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void rows_times_blocks_are_sums_of_whole_numbers(void) {
    all_shapes("cpu", 1);
    all_shapes("cpu", 3);
}

static void and_so_by_plain_loops(void) {
    all_shapes("ref", 1);
}

static void and_without_dot_instructions(void) {
    on_each_isa(all_shapes);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(rows_times_blocks_are_sums_of_whole_numbers);
    RUN(and_so_by_plain_loops);
    RUN(and_without_dot_instructions);
    return test_end();
}
