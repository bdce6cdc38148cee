/* product.c - rows times blocks by whole numbers: what an activation is multiplied with a weight of
 * few bits by, where the rows are few.
 *
 * A product in f32 makes a float of each weight, and that takes longer than memory does. Here the
 * rows become blocks of 32 bytes with a scale, too, as q8_0 has them, but for the scale, which is
 * f32: the largest number over 127. Then
 *
 *     y[m, n] = sum over blocks b of  d[m, b] * s[n, b] * (sum over b of x[m, k] * w[n, k])
 *
 * The inner sum is one of whole numbers, cut into lanes of 4 or 8 products as they lie in words, so
 * that a dot instruction makes them (schedule/block_dots.c); it is exact, however it is made. Such
 * an instruction takes bytes without a sign on one side: w + `more`, and `more` times the sum of a
 * lane's x is what is too much.
 *
 * The rows' rounding is all that differs from the product in f32: half of 1/127 of a block's
 * largest number at most. A row with an infinity or NaN gives NaN. */
#include "quant/quant.h"

enum { BLOCK = 32, LARGEST = 127 };
#define LEAST 0x1p-126 /* scales below have no reciprocal: such blocks are zeros */

typedef struct product_type {
    int type, bytes; /* of a block's elements, behind its scale */
    int products;    /* of a lane: a word's parts, each of them `halves` of a byte */
    int halves, more;
} product_type;
static const product_type product_types[] = {{QN_Q8_0, 32, 4, 1, 128}, {QN_Q4_0, 16, 8, 2, 8}};

static const product_type *find(int type) {
    for (size_t i = 0; i < COUNT_OF(product_types); i++)
        if (product_types[i].type == type) return &product_types[i];
    return NULL;
}

bool quant_has_product(int type) {
    return find(type) != NULL;
}

static qn_tensor *shape4(qn_tensor *x, int64_t a, int64_t b, int64_t c) {
    return x ? qn_reshape(x, 4, (const int64_t[]){qn_dim(x, 0), a, b, c}) : NULL;
}

/* i32 [m, lanes, products] of i8 [m, halves, bytes in all]. */
static qn_tensor *lanes_of(qn_tensor *x, const product_type *t) {
    int64_t lanes = x ? qn_dim(x, 2) / 4 : 0;
    x = qn_transpose(shape4(x, t->halves, lanes, 4), 1, 2);
    return quant_shape(qn_cast(x, QN_I32), 2, (const int64_t[]){lanes, t->products});
}

qn_tensor *quant_rounded(qn_tensor *x, int64_t blocks, qn_tensor **scales) {
    x = quant_shape(x, 2, (const int64_t[]){blocks, BLOCK});
    qn_tensor *d = qn_max(qn_abs(x), -1, true), *most = qn_like(d, LARGEST);
    d = qn_div(d, most);
    qn_tensor *none = qn_lt(d, qn_like(d, LEAST)), *by = qn_where(none, qn_like(d, 1), d);
    *scales = quant_shape(d, 1, &blocks);
    return qn_clamp(qn_round(qn_mul(x, qn_reciprocal(by))), -LARGEST, LARGEST);
}

quant_rows quant_rows_of(qn_tensor *x, int type) {
    const product_type *t = find(type);
    quant_rows r = {0};
    int64_t blocks = x ? qn_dim(x, 1) / BLOCK : 0;
    qn_tensor *q = quant_rounded(x, blocks, &r.scales);
    q = qn_transpose(shape4(qn_cast(q, QN_I8), blocks, t->halves, t->bytes), 1, 2);
    q = quant_shape(q, 2, (const int64_t[]){t->halves, blocks * t->bytes});
    r.scales = qn_contiguous(r.scales);
    r.whole = qn_contiguous(q);
    qn_tensor *sums = qn_cast(qn_sum(lanes_of(r.whole, t), -1, false), QN_I32);
    r.excess = qn_contiguous(qn_mul(sums, func_integer(sums, -t->more)));
    return r;
}

/* u8 [n, lanes, products]: the elements of blocks [n, blocks * bytes] + more. */
static qn_tensor *raised(qn_tensor *blocks, int64_t count, const product_type *t) {
    int64_t lanes = count * t->bytes / 4;
    qn_tensor *x = quant_shape(blocks, 2, (const int64_t[]){count, 2 + t->bytes});
    x = qn_slice(x, 2, 2, 2 + t->bytes, 1);
    if (t->halves == 1) {
        x = qn_xor(x, func_integer(x, t->more)); /* as bytes: adds it */
    } else {
        x = shape4(x, lanes, 1, 4);
        qn_tensor *shift = quant_along(x, 2, t->halves);
        shift = qn_mul(shift, func_integer(shift, 4));
        x = qn_and(qn_shr(x, shift), func_integer(x, 15));
    }
    return quant_shape(x, 2, (const int64_t[]){lanes, t->products});
}

qn_tensor *quant_product(const quant_rows *r, qn_tensor *blocks, qn_tensor *scales, int type) {
    const product_type *t = find(type);
    if (!r->whole || !r->excess || !r->scales || !blocks || !scales) return NULL;
    int64_t m = qn_dim(r->whole, 0), n = qn_dim(blocks, 0), count = qn_dim(scales, 1);
    int64_t each = t->bytes / 4, lanes = count * each;
    qn_tensor *w = qn_cast(raised(blocks, count, t), QN_I32), *x = lanes_of(r->whole, t);
    w = qn_reshape(w, 5, (const int64_t[]){1, n, lanes, t->products, 1});
    x = qn_reshape(x, 5, (const int64_t[]){m, 1, lanes, 1, t->products});
    qn_tensor *sum = qn_reshape(qn_matmul(x, w), 3, (const int64_t[]){m, n, lanes});
    sum = qn_add(sum, qn_reshape(r->excess, 3, (const int64_t[]){m, 1, lanes}));
    sum = qn_reshape(qn_cast(sum, QN_F32), 4, (const int64_t[]){m, n, count, each});
    qn_tensor *s = qn_reshape(qn_cast(scales, QN_F32), 4, (const int64_t[]){1, n, count, 1});
    s = qn_mul(s, qn_reshape(r->scales, 4, (const int64_t[]){m, 1, count, 1}));
    return qn_sum(qn_reshape(qn_mul(sum, s), 3, (const int64_t[]){m, n, lanes}), -1, false);
}
