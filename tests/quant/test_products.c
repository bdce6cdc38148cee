/* test_products.c - rows times blocks by whole numbers: against sums of doubles over blocks that
 * are read here byte by byte, at rows around words, vectors and their remainders, with the largest
 * bytes of both signs. */
#include "isas.h"
#include "quant/quant.h"
#include "run/run.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 32, SUPER = 256, ROWS_MOST = 17, FEW = 3, COLUMNS_MOST = 40, DEEP_MOST = 4096 };

static float x_of[ROWS_MOST * DEEP_MOST];
static uint8_t w_of[COLUMNS_MOST * DEEP_MOST * 34 / BLOCK];

/* ---- what blocks stand for ------------------------------------------------------------------- */

static double half_at(const uint8_t *b) { /* of f16 that are normal */
    int bits = b[0] | b[1] << 8;
    return (bits >> 15 ? -1 : 1) * ldexp((double)((bits & 1023) | 1024), (bits >> 10 & 31) - 25);
}

static void put_half(uint8_t *b, uint64_t *seed) {
    uint64_t scale = 0x1800 + test_rand(seed) % 0x1000;
    b[0] = (uint8_t)scale, b[1] = (uint8_t)(scale >> 8);
}

static int nibble(uint8_t byte, int high) {
    return high ? byte >> 4 : byte & 15;
}

static double of_q8_0(const uint8_t *b, int i) {
    return half_at(b) * (int8_t)b[2 + i];
}

static double of_q4_0(const uint8_t *b, int i) {
    return half_at(b) * (nibble(b[2 + i % 16], i >= 16) - 8);
}

static double of_mxfp4(const uint8_t *b, int i) {
    static const double values[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    int q = nibble(b[1 + i % 16], i >= 16);
    return ldexp(q & 8 ? -values[q & 7] : values[q & 7], b[0] - 127);
}

static double of_iq4_nl(const uint8_t *b, int i) {
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    return half_at(b) * values[nibble(b[2 + i % 16], i >= 16)];
}

static double of_q4_1(const uint8_t *b, int i) {
    return half_at(b) * nibble(b[4 + i % 16], i >= 16) + half_at(b + 2);
}

/* Scale or least value j of 12 bytes. */
static int six_bits(const uint8_t *b, int j, int least) {
    if (j < 4) return b[j + 4 * least] & 63;
    return nibble(b[4 + j], least) | (b[j - 4 + 4 * least] >> 6) << 4;
}

static double of_iq4_xs(const uint8_t *b, int i) {
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    int j = i / 32, high = b[2 + j / 4] >> j % 4 * 2 & 3, scale = nibble(b[4 + j / 2], j % 2);
    int q = nibble(b[8 + 16 * j + i % 16], i % 32 >= 16);
    return half_at(b) * ((scale | high << 4) - 32) * values[q];
}

static double of_q2_k(const uint8_t *b, int i) {
    int q = b[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3, scale = b[i / 16];
    return half_at(b + 80) * (scale & 15) * q - half_at(b + 82) * (scale >> 4);
}

static double of_q3_k(const uint8_t *b, int i) {
    int q = b[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3, j = i / 16;
    int low = nibble(b[96 + j % 8], j >= 8), high = b[104 + j % 4] >> j / 4 * 2 & 3;
    if (!(b[i % 32] >> i / 32 & 1)) q -= 4;
    return half_at(b + 108) * ((low | high << 4) - 32) * q;
}

static double of_q4_k(const uint8_t *b, int i) {
    int j = i / 32, q = nibble(b[16 + i / 64 * 32 + i % 32], j % 2);
    return half_at(b) * six_bits(b + 4, j, 0) * q - half_at(b + 2) * six_bits(b + 4, j, 1);
}

static double of_q5_k(const uint8_t *b, int i) {
    int j = i / 32, q = nibble(b[48 + i / 64 * 32 + i % 32], j % 2) | (b[16 + i % 32] >> j & 1)
                                                                          << 4;
    return half_at(b) * six_bits(b + 4, j, 0) * q - half_at(b + 2) * six_bits(b + 4, j, 1);
}

static double of_q6_k(const uint8_t *b, int i) {
    int half = i / 128, in = i % 128, low = nibble(b[half * 64 + in % 64], in / 64);
    int high = b[128 + half * 32 + in % 32] >> in / 32 * 2 & 3;
    return half_at(b + 208) * (int8_t)b[192 + i / 16] * ((low | high << 4) - 32);
}

/* By type: where f16 are in a block, behind each other. */
static const struct {
    int type, elements, bytes, words, halves, at, scales; /* .. of 32 elements */
    double (*value)(const uint8_t *block, int i);
} types[] = {
    {QN_Q8_0, 32, 34, 1, 1, 0, 1, of_q8_0},       {QN_Q4_0, 32, 18, 2, 1, 0, 1, of_q4_0},
    {QN_Q4_1, 32, 20, 2, 2, 0, 1, of_q4_1},       {QN_MXFP4, 32, 17, 2, 0, 0, 1, of_mxfp4},
    {QN_IQ4_NL, 32, 18, 2, 1, 0, 1, of_iq4_nl},   {QN_Q4_K, 256, 144, 1, 2, 0, 1, of_q4_k},
    {QN_IQ4_XS, 256, 136, 2, 1, 0, 1, of_iq4_xs}, {QN_Q2_K, 256, 84, 1, 2, 80, 2, of_q2_k},
    {QN_Q3_K, 256, 110, 1, 1, 108, 2, of_q3_k},   {QN_Q5_K, 256, 176, 1, 2, 0, 1, of_q5_k},
    {QN_Q6_K, 256, 210, 1, 1, 208, 2, of_q6_k},
};

static void fill(uint64_t seed, int t, int64_t floats, int64_t blocks) {
    for (int64_t i = 0; i < floats; i++) x_of[i] = (float)(test_rand(&seed) % 20001) / 10000 - 1;
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t *b = w_of + i * types[t].bytes;
        uint64_t how = test_rand(&seed) % 4; /* all -128, all 127, or any */
        for (int k = 0; k < types[t].bytes; k++)
            b[k] = how == 0 ? 0x80 : how == 1 ? 0x7f : (uint8_t)(test_rand(&seed) >> 9);
        for (int k = 0; k < types[t].halves; k++) put_half(b + types[t].at + 2 * k, &seed);
        if (!types[t].halves) b[0] = (uint8_t)(110 + test_rand(&seed) % 20);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Where the rows' element lies in what quant_rows_of gives, with so many words a lane: those of a
 * byte, and then the next ones of its group. */
static int64_t place(int t, int64_t row, int64_t deep, int64_t i, int64_t words) {
    int64_t half = BLOCK / types[t].words, word = i % BLOCK / half, span = words / types[t].words;
    int64_t group = half / types[t].scales, lanes = group / span, in = i % half;
    int64_t at = i / BLOCK * (half / span) + in / group * lanes + in % lanes;
    return row * deep + (in % group / lanes * types[t].words + word) * (deep / words) + at;
}

static bool read_all(qn_tensor *t, void *to, size_t bytes) {
    return t && qn_read(t, to, bytes) == QN_OK;
}

/* Rows whose blocks are zeros, too, and have their largest number in both signs. */
static void make_blunt(int64_t n) {
    for (int64_t i = 0; i < n; i++) x_of[i] = i / BLOCK % 3 ? (i % 2 ? 3.f : -3.f) : 0;
}

/* Each element is the nearest whole number, and the sums are those of whole numbers. */
static void check_product(qn_ctx *qn, int t, int64_t m, int64_t n, int64_t blocks) {
    int64_t deep = blocks * types[t].elements;
    fill((uint64_t)(m + 100 * n + 10000 * blocks + t), t, m * deep, n * blocks);
    if (m > 1) make_blunt(m * deep);
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){m, deep}, x_of);
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){n, blocks * types[t].bytes}, w_of);
    CHECK(quant_has_product(types[t].type, deep));
    quant_rows r = quant_rows_of(x, types[t].type);
    qn_tensor *y = quant_product(&r, w, types[t].type);
    int64_t words = qn_dim(r.whole, 1);
    int8_t *whole = malloc((size_t)(m * deep));
    float *d = malloc((size_t)(m * deep / BLOCK) * 4), *got = malloc((size_t)(m * n) * 4);
    CHECK(read_all(r.whole, whole, (size_t)(m * deep)));
    CHECK(read_all(r.scales, d, (size_t)(m * deep / BLOCK) * 4));
    CHECK(read_all(y, got, (size_t)(m * n) * 4));
    for (int64_t i = 0; i < m * deep; i++) {
        double step = (double)d[i / BLOCK], is = (double)x_of[i];
        double q = whole[place(t, i / deep, deep, i % deep, words)];
        CHECK(fabs(q * step - is) <= step * 0.5001 + 1e-12);
    }
    for (int64_t i = 0; i < m * n; i++) {
        double sum = 0, sizes = 0;
        const uint8_t *row = w_of + i % n * blocks * types[t].bytes;
        for (int64_t k = 0; k < deep; k++) {
            const uint8_t *block = row + k / types[t].elements * types[t].bytes;
            double v = types[t].value(block, (int)(k % types[t].elements));
            double term =
                v * (double)d[(i / n * deep + k) / BLOCK] * whole[place(t, i / n, deep, k, words)];
            sum += term, sizes += fabs(term);
        }
        /* lanes of a block, whose sum is smaller than they, are rounded each */
        double most = 2e-6 * sizes + 1e-4;
        if (!(fabs((double)got[i] - sum) <= most))
            FAIL("type %d [%d, %d] x %d blocks: %g, not %g", types[t].type, (int)m, (int)n,
                 (int)blocks, (double)got[i], sum);
    }
    free(whole), free(d), free(got);
    qn_scope_end(qn, scope);
}

static void all_shapes(const char *device, int threads) {
    static const int64_t blocks[] = {1, 2, 3, 7, 16, 31, 40, 128}, columns[] = {1, 3, 33};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    for (size_t b = 0; b < COUNT_OF(blocks); b++)
        for (size_t c = 0; c < COUNT_OF(columns); c++)
            for (int t = 0; t < (int)COUNT_OF(types); t++)
                if (blocks[b] * types[t].elements <= DEEP_MOST)
                    check_product(qn, t, 1 + (int64_t)(b + c) % FEW, columns[c], blocks[b]);
    CHECK(!quant_has_product(QN_Q4_K, 1248)); /* no whole number of blocks */
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* Tiles of rows that are full, in part, and padded; of columns, two and one at a time. */
static void rows_by(const char *device, int threads, size_t step) {
    static const int64_t rows[] = {2, 4, 7, 8, 9, 16, 17}, deep[] = {256, 1280, 1024, 2304};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    for (size_t i = 0; i < COUNT_OF(rows); i += step)
        for (int t = 0; t < (int)COUNT_OF(types); t++)
            check_product(qn, t, rows[i], i % 2 ? 33 : 32,
                          deep[(i + (size_t)t) % COUNT_OF(deep)] / types[t].elements);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void some_rows(const char *device, int threads) {
    rows_by(device, threads, 5);
}

static void several_rows_share_weights(void) {
    rows_by("cpu", 1, 1);
    rows_by("cpu", 2, 3);
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
    on_each_isa(some_rows);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Of y, [1, 64]. */
static int itself(qn_tensor *y, qn_tensor **out) {
    return out[0] = y, 1;
}
static int activated(qn_tensor *y, qn_tensor **out) {
    return out[0] = qn_silu(y), 1;
}
static int halves(qn_tensor *y, qn_tensor **out) { /* as the parts that are turned by places */
    qn_tensor *a = qn_slice(y, 1, 0, 32, 1), *b = qn_slice(y, 1, 32, 64, 1);
    out[0] = qn_mul(a, qn_like(a, 3));
    out[1] = qn_mul(b, qn_like(b, 5));
    return 2;
}

/* Once the rows are rounded; on device null, which plans everything and runs nothing. */
static int kernels_of(int t, int64_t m, int (*take)(qn_tensor *y, qn_tensor **out)) {
    int64_t deep = 1280, bytes = deep / types[t].elements * types[t].bytes;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .threads = 1));
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){m, deep}, x_of), *out[2];
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){64, bytes}, w_of);
    quant_rows r = quant_rows_of(x, types[t].type);
    qn_tensor *rows[4] = {r.whole, r.by};
    int n = 2;
    if (r.excess) rows[n++] = r.excess;
    if (r.sums) rows[n++] = r.sums;
    qn_stats a, b;
    CHECK_INT(qn_realize(n, rows), QN_OK);
    n = take(quant_product(&r, w, types[t].type), out);
    qn_get_stats(qn, &a, sizeof a);
    CHECK_INT(qn_realize(n, out), QN_OK);
    qn_get_stats(qn, &b, sizeof b);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    return (int)(b.kernels - a.kernels);
}

/* Scales are made in the kernel that needs them; both sums are one kernel's, whatever is made of
 * their difference. */
static void weights_are_read_by_one_kernel(void) {
    for (int t = 0; t < (int)COUNT_OF(types); t++) {
        CHECK_INT(kernels_of(t, 1, itself), 1);
        CHECK_INT(kernels_of(t, 1, activated), 1);
        CHECK(kernels_of(t, 1, halves) <= 3);
        CHECK_INT(kernels_of(t, 4, itself), 1);
        CHECK(kernels_of(t, 4, activated) <= 2);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(rows_times_blocks_are_sums_of_whole_numbers);
    RUN(several_rows_share_weights);
    RUN(and_so_by_plain_loops);
    RUN(weights_are_read_by_one_kernel);
    RUN(and_without_dot_instructions);
    return test_end();
}
