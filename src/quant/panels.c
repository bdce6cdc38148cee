/* panels.c - many rows times weights in blocks, by whole numbers: what a prompt is multiplied by.
 *
 * As in product.c both sides are bytes in blocks of 32 with a scale, but here a matrix of any type
 * is first made into such, in an order in which a lane of a dot instruction is a column: for every
 * four elements along the sum the bytes of 16 columns, one behind the other. That takes as long as
 * the product of some ten rows, and room for one matrix at a time, which the next one reuses, so
 * nothing is done when a model is opened. Types that are whole numbers times a scale stay as they
 * are; others, as those with two scales or a table, are rounded again: by 1/254 of a block's
 * largest number at most, as the rows are.
 *
 *     y[m, n] = sum over blocks b of  d[m, b] * s[n, b] * (sum over b of x[m, k] * (w[n, k] + 128)
 *                                                          - 128 * sum over b of x[m, k])
 *
 * for the instruction wants bytes without a sign on one side. The loops are those of
 * schedule/blocks/block_product.c. A row with an infinity or NaN gives NaN. */
#include "quant/quant.h"

enum { BLOCK = 32, WIDTH = 16, WORD = 4, RAISED = 128 };

bool quant_has_panels(int type, int64_t columns, int64_t deep) {
    return quant_find(type) && columns % WIDTH == 0 && deep % BLOCK == 0;
}

quant_panels quant_panels_of(qn_tensor *blocks, qn_tensor *scales, int type, int64_t deep) {
    quant_panels p = {0};
    int64_t panels = blocks ? qn_dim(blocks, 0) / WIDTH : 0, each = deep / BLOCK;
    const bool whole = scales && quant_whole(type);
    qn_tensor *q = whole ? quant_whole_of(blocks, type)
                         : quant_rounded(qn_dequantize(blocks, (qn_quant)type), each, &scales);
    p.scales = qn_cast(scales, QN_F32);
    q = qn_cast(quant_plus(qn_cast(q, QN_I32), RAISED), QN_U8);
    if (!whole) q = qn_contiguous(q); /* rounded along rows */
    q = qn_reshape(q, 4, (const int64_t[]){panels, WIDTH, deep / WORD, WORD});
    q = qn_contiguous(qn_transpose(q, 1, 2));
    p.raised = qn_reshape(q, 5, (const int64_t[]){panels, each, BLOCK / WORD, WIDTH, WORD});
    p.scales = qn_reshape(p.scales, 3, (const int64_t[]){panels, WIDTH, each});
    p.scales = qn_contiguous(qn_transpose(p.scales, 1, 2));
    return p;
}

qn_tensor *quant_panel_product(qn_tensor *x, const quant_panels *w) {
    if (!x || !w->raised || !w->scales) return NULL;
    int64_t m = qn_dim(x, 0), panels = qn_dim(w->raised, 0), blocks = qn_dim(w->raised, 1);
    qn_tensor *d;
    qn_tensor *q = qn_contiguous(qn_cast(quant_rounded(x, blocks, &d), QN_I8));
    q = qn_cast(q, QN_I32);
    qn_tensor *sums = q ? qn_cast(qn_sum(q, -1, false), QN_I32) : NULL;
    qn_tensor *excess = qn_contiguous(sums ? qn_mul(sums, func_integer(sums, -RAISED)) : NULL);
    qn_tensor *u = qn_permute(qn_cast(w->raised, QN_I32), 5, (const int[]){0, 3, 1, 2, 4});
    u = qn_reshape(u, 6, (const int64_t[]){1, panels, WIDTH, blocks, 1, BLOCK});
    q = qn_reshape(q, 6, (const int64_t[]){m, 1, 1, blocks, BLOCK, 1});
    qn_tensor *y = qn_reshape(qn_matmul(u, q), 4, (const int64_t[]){m, panels, WIDTH, blocks});
    y = qn_add(y, qn_reshape(excess, 4, (const int64_t[]){m, 1, 1, blocks}));
    qn_tensor *s =
        qn_reshape(qn_transpose(w->scales, 1, 2), 4, (const int64_t[]){1, panels, WIDTH, blocks});
    s = qn_mul(s, qn_reshape(qn_contiguous(d), 4, (const int64_t[]){m, 1, 1, blocks}));
    y = qn_mul(y ? qn_cast(y, QN_F32) : NULL, s);
    return qn_sum(qn_reshape(y, 3, (const int64_t[]){m, panels * WIDTH, blocks}), -1, false);
}
