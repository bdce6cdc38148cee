/* test_extremes.c - products by whole numbers of few rows and of many (quant/product.c, panels.c)
 * where blocks and rows are not as usual: scales that are infinite, NaN, zero, the largest and the
 * least of f16; blocks of zeros and of ones; rows of zeros, of denormals, of a huge range, with an
 * infinity or NaN. They are held against sums of doubles of what blocks stand for, within what both
 * sides may be rounded by; what is not finite stays in its row and its column. */
#include "quant/quant.h"
#include "run/run.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum {
    BLOCK = 32,
    ROWS_MOST = 65,
    COLUMNS_MOST = 65,
    DEEP_MOST = 768,
    GROUPS_MOST = DEEP_MOST / 16
};

static float x_of[ROWS_MOST * DEEP_MOST], w_of[COLUMNS_MOST * DEEP_MOST];
static float got[ROWS_MOST * COLUMNS_MOST];
static uint8_t bytes_of[COLUMNS_MOST * DEEP_MOST * 34 / BLOCK];
/* Of each block of 32 of a column: the most that bytes of panels are off by, and a bound of what a
 * product adds up and takes off. */
static double step_of[COLUMNS_MOST * DEEP_MOST / BLOCK], size_of[COLUMNS_MOST * DEEP_MOST / BLOCK];

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Where a block has scales of f16; none: it has exponents, or small floats, or parts of one. */
static const struct {
    int type, halves, at;
} types[] = {
    {QN_Q4_0, 1, 0},    {QN_Q4_1, 2, 0},   {QN_Q5_0, 1, 0},    {QN_Q5_1, 2, 0},  {QN_Q8_0, 1, 0},
    {QN_Q2_K, 2, 80},   {QN_Q3_K, 1, 108}, {QN_Q4_K, 2, 0},    {QN_Q5_K, 2, 0},  {QN_Q6_K, 1, 208},
    {QN_IQ2_XXS, 1, 0}, {QN_IQ2_XS, 1, 0}, {QN_IQ3_XXS, 1, 0}, {QN_IQ1_S, 1, 0}, {QN_IQ4_NL, 1, 0},
    {QN_IQ3_S, 1, 0},   {QN_IQ2_S, 1, 0},  {QN_IQ4_XS, 1, 0},  {QN_IQ1_M, 0, 0}, {QN_TQ1_0, 1, 52},
    {QN_TQ2_0, 1, 64},  {QN_MXFP4, 0, 0},  {QN_NVFP4, 0, 0},
};
enum { TYPES = sizeof types / sizeof *types };

/* A scale: usual, or 0, -0, the least, a denormal one, the largest of both signs; and in some
 * columns an infinity or NaN. */
static uint16_t scale_of(uint64_t *seed, bool finite) {
    static const uint16_t odd[] = {0, 0x8000, 1, 0x83ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01};
    if (test_below(seed, 4))
        return (uint16_t)(0x1800 + test_below(seed, 0x1000) + 0x8000 * test_below(seed, 2));
    return odd[test_below(seed, finite ? 6 : 9)];
}

/* Blocks of any bytes, of zeros, of ones; a column in five may have what is not finite. */
static void fill_blocks(int t, const quant_type *q, int64_t n, int64_t blocks, uint64_t seed) {
    for (int64_t i = 0; i < n * blocks; i++) {
        uint8_t *b = bytes_of + i * q->bytes;
        const int64_t how = test_below(&seed, 8);
        const bool finite = i / blocks % 5 != 2;
        for (int k = 0; k < q->bytes; k++)
            b[k] = how == 0 ? 0 : how == 1 ? 0xff : (uint8_t)(test_rand(&seed) >> 9);
        for (int k = 0; k < types[t].halves; k++) {
            const uint16_t scale = scale_of(&seed, finite);
            b[types[t].at + 2 * k] = (uint8_t)scale;
            b[types[t].at + 2 * k + 1] = (uint8_t)(scale >> 8);
        }
        if (types[t].type == QN_MXFP4)
            b[0] = (uint8_t)(test_below(&seed, 4) ? 110 + test_below(&seed, 20)
                                                  : test_below(&seed, 240));
        for (int k = 0; finite && types[t].type == QN_NVFP4 && k < 4; k++) b[k] &= 0x77;
        if (finite && types[t].type == QN_IQ1_M) b[55] &= 0xbf; /* the exponent's highest bit */
    }
}

static bool read_floats(qn_tensor *t, float *to, int64_t n) {
    return t && qn_read(t, to, (size_t)n * sizeof *to) == QN_OK;
}

static double largest(const float *x) {
    double most = 0;
    for (int k = 0; k < BLOCK; k++)
        if (!(fabs((double)x[k]) <= most)) most = fabs((double)x[k]);
    return most;
}

/* The scales of a type's groups, by the oracle. */
static void blocks_read(int type, int64_t n, int64_t deep, int64_t row) {
    static float s[COLUMNS_MOST * GROUPS_MOST], l[COLUMNS_MOST * GROUPS_MOST];
    quant_groups g = {0};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){n, row}, bytes_of);
    CHECK(read_floats(qn_dequantize(w, (qn_quant)type), w_of, n * deep));
    const bool grouped = quant_groups_of(w, type, &g);
    if (grouped) CHECK(read_floats(g.scales, s, n * deep / g.each));
    if (grouped && g.least) CHECK(read_floats(g.least, l, n * deep / g.each));
    const bool joined = grouped && g.each != BLOCK && !g.least;
    const bool rounds = !quant_whole(type) && (!grouped || (g.each != BLOCK && g.least));
    for (int64_t b = 0; b < n * deep / BLOCK; b++) {
        double scale = 0, least = 0;
        for (int64_t i = 0; grouped && i < BLOCK / g.each; i++) {
            scale = fmax(scale, fabs((double)s[b * (BLOCK / g.each) + i]));
            if (g.least) least = fmax(least, fabs((double)l[b * (BLOCK / g.each) + i]));
        }
        const double most = largest(w_of + b * BLOCK);
        step_of[b] = rounds ? most / 253 : joined ? scale * (double)g.more / 253 : 0;
        size_of[b] = grouped ? scale * 512 + least : 4 * most;
    }
    qn_close(qn);
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum {
    USUAL,
    ZEROS,
    ONE_NAN,
    POSITIVE,
    INFINITE,
    RANGE,
    TINY,
    MINUS,
    GAPS,
    NEAR_LEAST,
    HUGE_ONES,
    KINDS
};

static float element_of(int kind, int64_t i, int64_t odd, uint64_t *seed) {
    const float u = (float)test_below(seed, 20001) / 10000 - 1;
    switch (kind) {
    case ZEROS:
        return i % 2 ? 0.f : -0.f;
    case ONE_NAN:
        return i == odd ? NAN : u;
    case POSITIVE:
        return 1 + u / 100;
    case INFINITE:
        return i == odd ? INFINITY : u;
    case MINUS:
        return i == odd ? -INFINITY : 0;
    case RANGE:
        return ldexpf(u, (int)(i / BLOCK * 37 % 200) - 100);
    case TINY:
        return u * 0x1p-130f;
    case GAPS:
        return i / BLOCK % 2 ? 0 : u;
    case NEAR_LEAST:
        return u * 127 * 0x1p-126f;
    case HUGE_ONES:
        return u * 1e36f;
    default:
        return u;
    }
}

static int kind_of(int64_t row, int64_t rows) {
    return rows == 1 ? 0 : (int)(row % KINDS);
}

static void fill_rows(int64_t m, int64_t deep, int first, uint64_t seed) {
    for (int64_t r = 0; r < m; r++)
        for (int64_t i = 0, odd = test_below(&seed, deep); i < deep; i++)
            x_of[r * deep + i] = element_of((kind_of(r, m) + first) % KINDS, i, odd, &seed);
}

/* ---- what a product is ----------------------------------------------------------------------- */

typedef struct product {
    int type;
    int64_t m, n, deep;
    bool panels;
    const char *isa;
} product;

static bool are_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static void hold(const product *p, int64_t i) {
    const int64_t r = i / p->n, c = i % p->n, blocks = p->deep / BLOCK;
    const float *x = x_of + r * p->deep, *w = w_of + c * p->deep;
    const double y = (double)got[i];
    double sum = 0, most = 1e-35, all = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const double lx = largest(x + b * BLOCK), dw = p->panels ? step_of[c * blocks + b] : 0;
        const double dx = lx / 127 < 0x1p-126 ? lx : lx / 253;
        for (int64_t k = b * BLOCK; k < (b + 1) * BLOCK; k++) {
            sum += (double)x[k] * (double)w[k];
            most += dx * fabs((double)w[k]) + dw * (fabs((double)x[k]) + dx);
        }
        all += BLOCK * lx * size_of[c * blocks + b];
    }
    const bool row = are_finite(x, p->deep), column = are_finite(w, p->deep);
    bool right = !row      ? isnan(y)
                 : !column ? !isfinite(y)
                           : fabs(y - sum) <= most + 2e-6 * all || all > 1e37;
    if (!right)
        FAIL("%s, type %d, %s, [%d, %d] deep %d, at %d, %d: %g, not %g +- %g", p->isa, p->type,
             p->panels ? "panels" : "few", (int)p->m, (int)p->n, (int)p->deep, (int)r, (int)c, y,
             sum, most + 2e-6 * all);
}

static void run(qn_ctx *qn, int t, product p, int first) {
    const quant_type *q = quant_find(p.type = types[t].type);
    if (p.deep < q->elements) p.deep = q->elements;
    p.deep = p.deep / q->elements * q->elements;
    const int64_t row = p.deep / q->elements * q->bytes;
    if (p.panels ? !quant_has_panels(p.type, p.n, p.deep) : !quant_has_product(p.type, p.deep))
        return;
    const uint64_t seed = (uint64_t)(p.m + 100 * p.n + 10000 * p.deep + 1000000 * t);
    fill_rows(p.m, p.deep, first, seed);
    fill_blocks(t, q, p.n, p.deep / q->elements, seed + 1);
    blocks_read(p.type, p.n, p.deep, row);
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){p.m, p.deep}, x_of), *y;
    qn_tensor *w = qn_from(qn, QN_U8, 2, (int64_t[]){p.n, row}, bytes_of);
    if (p.panels) {
        const quant_panels panels = quant_panels_of(w, p.type, p.deep);
        y = quant_panel_product(x, &panels);
    } else {
        const quant_rows rows = quant_rows_of(x, p.type);
        y = quant_product(&rows, w, p.type);
    }
    CHECK(read_floats(y, got, p.m * p.n));
    for (int64_t i = 0; i < p.m * p.n; i++) hold(&p, i);
    qn_scope_end(qn, scope);
}

static const int64_t counts[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Of each type `each` shapes, other ones of each type and processor. */
static void on_each_processor(bool panels, int each) {
    static const char *const isa[] = {NULL, "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    static const int64_t deep[] = {32, 256, 768, 96, 512};
    uint64_t seed = panels;
    for (int i = 0; i < 5; i++) {
        if (isa[i]) setenv("QN_ISA", isa[i], 1);
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
        for (int t = 0; t < TYPES; t++)
            for (int k = 0; k < each; k++) {
                product p = {.m = counts[test_below(&seed, COUNTS)],
                             .n = counts[test_below(&seed, COUNTS)],
                             .deep = deep[test_below(&seed, 5)],
                             .panels = panels,
                             .isa = isa[i] ? isa[i] : "all"};
                if (panels) p.n = 16 * (1 + p.n / 17);
                if (!panels && p.m > 33) p.m -= 32;
                run(qn, t, p, (int)test_below(&seed, KINDS));
            }
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
    }
    unsetenv("QN_ISA");
}

static void few_rows_and_odd_blocks(void) {
    on_each_processor(false, 2);
}

static void panels_of_odd_blocks(void) {
    on_each_processor(true, 1);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(few_rows_and_odd_blocks);
    RUN(panels_of_odd_blocks);
    return test_end();
}
