/* panels.c - many rows times weights in blocks, by whole numbers: what a prompt is multiplied by.
 *
 * As in product.c both sides are bytes in blocks of 32 with a scale, but here a matrix is first
 * written in an order in which a lane of a dot instruction is a column: for every four elements
 * along the sum the bytes of 16 columns, one behind the other. That takes as long as the product of
 * some ten rows, and room for one matrix at a time, which the next one reuses, so nothing is done
 * when a model is opened. Types whose weights are s * (q - more) - l in groups of 32 stay what they
 * are. Two groups of 16 get one scale, by which the largest number of the type is 127; other types
 * are rounded again as the rows are, by 1/254 of a block's largest number at most.
 *
 *     y[m, n] = sum over blocks b of  d[m, b] * s[n, b] * (sum over b of x[m, k] * q[n, k]
 *                                                          - more * sum over b of x[m, k])
 *                                     - l[n, b] * d[m, b] * sum over b of x[m, k]
 *
 * The loops are those of schedule/blocks/block_product.c. A row with an infinity or NaN gives
 * NaN. */
#include "quant/quant.h"

enum { BLOCK = 32, WIDTH = 16, WORD = 4, RAISED = 128, LARGEST = 127 };

bool quant_has_panels(int type, int64_t columns, int64_t deep) {
    return quant_find(type) && columns % WIDTH == 0 && deep % BLOCK == 0;
}

/* Numbers of f32 to the nearest whole ones, 127 at most and raised, as bytes: added to what is so
 * large that its last place is 1, they are the last bits. */
static qn_tensor *raised_bytes(qn_tensor *x) {
    const double units = 0x1.8p23;
    return qn_cast(qn_bitcast(qn_add(x, qn_like(x, units + RAISED)), QN_I32), QN_U8);
}

/* Two groups of 16 get one scale: the larger of theirs, by which the largest number that a type has
 * would become LARGEST. No number is looked at for it. */
static void join_groups(quant_groups *g) {
    int64_t pairs = g->scales ? qn_dim(g->scales, 1) / 2 : 0;
    qn_tensor *s = SHAPE(qn_contiguous(g->scales), pairs, 2), *size = qn_abs(s);
    qn_tensor *q = SHAPE(g->raised, pairs, 2, BLOCK / 2);
    qn_tensor *most = qn_maximum(qn_slice(size, 2, 0, 1, 1), qn_slice(size, 2, 1, 2, 1));
    most = qn_contiguous(most);
    qn_tensor *by = qn_div(s, most); /* NaN of two that are 0: bytes of any value, times 0 */
    by = qn_mul(by, qn_like(by, (double)LARGEST / (double)g->more));
    q = quant_float(quant_plus(qn_cast(q, QN_I32), -g->more));
    q = qn_mul(q, SHAPE(qn_contiguous(by), pairs, 2, 1));
    most = qn_mul(most, qn_like(most, (double)g->more / (double)LARGEST));
    *g = (quant_groups){.raised = raised_bytes(SHAPE(q, pairs * BLOCK)),
                        .scales = SHAPE(most, pairs),
                        .each = BLOCK,
                        .more = RAISED};
}

/* Whatever a type is, in groups of 32. */
static quant_groups groups_of(qn_tensor *blocks, int type, int64_t deep) {
    quant_groups g = {0};
    if (quant_groups_of(blocks, type, &g)) {
        if (g.each == BLOCK) return g;
        if (!g.least) return join_groups(&g), g;
    }
    if (quant_whole(type)) {
        qn_tensor *q = qn_cast(quant_whole_of(blocks, type), QN_I32);
        return (quant_groups){.raised = qn_cast(quant_plus(q, RAISED), QN_U8),
                              .scales = qn_cast(quant_scales(blocks, type), QN_F32),
                              .each = BLOCK,
                              .more = RAISED};
    }
    qn_tensor *q = quant_rounded(qn_dequantize(blocks, (qn_quant)type), deep / BLOCK, &g.scales);
    return (quant_groups){
        .raised = raised_bytes(q), .scales = g.scales, .each = BLOCK, .more = RAISED};
}

/* [panels, blocks, 16] of f32 [columns, blocks]. */
static qn_tensor *by_panels(qn_tensor *x, int64_t panels, int64_t blocks) {
    x = qn_reshape(x, 3, (const int64_t[]){panels, WIDTH, blocks});
    return qn_contiguous(qn_transpose(x, 1, 2));
}

quant_panels quant_panels_of(qn_tensor *blocks, int type, int64_t deep) {
    quant_panels p = {0};
    int64_t panels = blocks ? qn_dim(blocks, 0) / WIDTH : 0, each = deep / BLOCK;
    quant_groups g = groups_of(blocks, type, deep);
    p.more = g.more;
    p.scales = by_panels(g.scales, panels, each);
    if (g.least) p.least = by_panels(g.least, panels, each);
    qn_tensor *q = qn_contiguous(g.raised);
    q = qn_reshape(q, 4, (const int64_t[]){panels, WIDTH, deep / WORD, WORD});
    q = qn_contiguous(qn_transpose(q, 1, 2));
    p.raised = qn_reshape(q, 5, (const int64_t[]){panels, each, BLOCK / WORD, WIDTH, WORD});
    return p;
}

/* f32 [panels, blocks, 16] as [1, panels, 16, blocks]. */
static qn_tensor *beside(qn_tensor *x, int64_t panels, int64_t blocks) {
    return qn_reshape(qn_transpose(x, 1, 2), 4, (const int64_t[]){1, panels, WIDTH, blocks});
}

qn_tensor *quant_panel_product(qn_tensor *x, const quant_panels *w) {
    if (!x || !w->raised || !w->scales) return NULL;
    int64_t m = qn_dim(x, 0), panels = qn_dim(w->raised, 0), blocks = qn_dim(w->raised, 1);
    const int64_t rows[4] = {m, 1, 1, blocks};
    qn_tensor *d;
    qn_tensor *q = qn_contiguous(qn_cast(quant_rounded(x, blocks, &d), QN_I8));
    d = qn_contiguous(d);
    q = qn_cast(q, QN_I32);
    qn_tensor *sums = q ? qn_cast(qn_sum(q, -1, false), QN_I32) : NULL;
    qn_tensor *u = qn_permute(qn_cast(w->raised, QN_I32), 5, (const int[]){0, 3, 1, 2, 4});
    u = qn_reshape(u, 6, (const int64_t[]){1, panels, WIDTH, blocks, 1, BLOCK});
    q = qn_reshape(q, 6, (const int64_t[]){m, 1, 1, blocks, BLOCK, 1});
    qn_tensor *y = qn_reshape(qn_matmul(u, q), 4, (const int64_t[]){m, panels, WIDTH, blocks});
    if (w->more) {
        qn_tensor *excess = sums ? qn_mul(sums, func_integer(sums, -w->more)) : NULL;
        y = qn_add(y, qn_reshape(qn_contiguous(excess), 4, rows));
    }
    qn_tensor *s = qn_mul(beside(w->scales, panels, blocks), qn_reshape(d, 4, rows));
    y = qn_mul(y ? qn_cast(y, QN_F32) : NULL, s);
    if (w->least) {
        qn_tensor *all = qn_contiguous(qn_mul(quant_float(sums), d));
        y = qn_sub(y, qn_mul(beside(w->least, panels, blocks), qn_reshape(all, 4, rows)));
    }
    return qn_sum(qn_reshape(y, 3, (const int64_t[]){m, panels * WIDTH, blocks}), -1, false);
}
