/* product.c - rows times blocks by whole numbers: what an activation is multiplied with a weight of
 * few bits by, where the rows are few.
 *
 * A product in f32 makes a float of each weight, and that takes longer than memory does. Here the
 * rows become blocks of 32 bytes with a scale, too, as q8_0 has them, but for the scale, which is
 * f32: the largest number over 127. A weight is s * q - l, q a whole number, s and l those of a
 * group of 16 or 32 of them; l is 0 in most types. Then
 *
 *     y[m, n] = sum over groups g of  d[m, g] * s[n, g] * (sum over g of x[m, k] * q[n, k])
 *             - sum over groups g of  l[n, g] * d[m, g] * (sum over g of x[m, k])
 *
 * The inner sums are of whole numbers, cut into lanes of 4 or 8 products as they lie in words, or
 * of more words (span_of), so that a dot instruction makes them (schedule/blocks/block_dots.c);
 * they are exact, however they are made. Such an instruction takes bytes without a sign on one
 * side: q + `more`, and `more` times the sum of a lane's x is what is too much. Where a byte holds
 * parts of two words of a lane, x has all first words of the lanes in front of all second ones.
 * Numbers of a codebook are looked up in a table of 16 bytes, which the emitter keeps in a
 * register.
 *
 * The rows' rounding is all that differs from the product in f32: half of 1/127 of a block's
 * largest number at most. A row with an infinity or NaN gives NaN, and so may one with numbers
 * beyond 1e36, of which 32 add up to more than f32 holds. */
#include "quant/quant.h"

enum { BLOCK = 32, WORD = 4, LARGEST = 127, WIDEST = 16 /* lanes of a vector */ };
#define LEAST 0x1p-126 /* scales below have no reciprocal: such blocks are zeros */

/* ---- types ----------------------------------------------------------------------------------- */

typedef struct product_type {
    int type;
    int lanes, groups;         /* of a block */
    int words, more;           /* of a lane: words that share bytes; and see above */
    int places;                /* bits of fields that stay in their bytes; 0: none do */
    int span;                  /* of one row: see span_of */
    quant_read *raised;        /* of u8 [R, bytes]: u8 [R, lanes, products], elements + `more` */
    quant_read *scale, *least; /* f32 [R, groups]; least NULL: it is 0 */
} product_type;

static qn_tensor *bytes_of(qn_tensor *rows, int64_t from, int64_t n) {
    return qn_slice(rows, 1, from, from + n, 1);
}

/* Fields of `bits` bits of u8 [R, n, 1, ..], as bytes. */
static qn_tensor *byte_fields(qn_tensor *x, int64_t bits) {
    return FIELDS(x, 2, 8 / bits, bits, (1 << bits) - 1);
}

/* The same from bit `to` on: each moves once, up or down. */
static qn_tensor *fields_from(qn_tensor *x, int64_t bits, int64_t to) {
    qn_tensor *at = x ? quant_along(qn_cast(x, QN_I64), 2, 8 / bits) : NULL;
    at = qn_mul(at, func_integer(at, bits));
    qn_tensor *zero = func_integer(at, 0), *place = func_integer(at, to);
    qn_tensor *down = qn_maximum(qn_sub(at, place), zero),
              *up = qn_maximum(qn_sub(place, at), zero);
    x = qn_shr(qn_shl(x, qn_cast(up, QN_U8)), qn_cast(down, QN_U8));
    return quant_and(x, ((1 << bits) - 1) << to);
}

/* The same where they are, field i of the second axis 2^(bits * i) times as large as it is: a shift
 * less, which scales make up for (in_place). */
static qn_tensor *fields_in_place(qn_tensor *x, int64_t bits) {
    qn_tensor *place = x ? quant_along(qn_cast(x, QN_I64), 2, 8 / bits) : NULL;
    qn_tensor *mask = func_integer(x, (1 << bits) - 1);
    place = qn_cast(qn_mul(place, func_integer(place, bits)), QN_U8);
    return qn_and(x, qn_shl(mask, place));
}

/* Scales [R, groups] of 32 elements or of parts of such, made that much smaller, which is exact but
 * for subnormal numbers: their fields go in turn. */
static qn_tensor *in_place(qn_tensor *scales, const product_type *t, int64_t each) {
    if (!t->places || !scales) return scales;
    int64_t fields = 8 / t->places, groups = qn_dim(scales, 1);
    qn_tensor *s = SHAPE(scales, groups / (fields * each), fields, each);
    qn_tensor *i = s ? quant_along(qn_cast(s, QN_I64), 2, fields) : NULL;
    i = qn_sub(func_integer(i, 127), qn_mul(i, func_integer(i, t->places)));
    qn_tensor *by = qn_bitcast(quant_up(qn_cast(i, QN_I32), 23), QN_F32);
    return SHAPE(qn_mul(s, by), groups);
}

static qn_tensor *first_half(qn_tensor *rows) {
    return quant_half(rows, 0);
}

static qn_tensor *raised_q8_0(qn_tensor *rows) {
    qn_tensor *x = bytes_of(rows, 2, 32);
    return SHAPE(qn_xor(x, func_integer(x, 128)), 8, 4); /* as bytes: adds it */
}

/* Of each 16 of n bytes the low halves, then the high ones: [R, lanes, 8]. */
static qn_tensor *halves_of(qn_tensor *rows, int64_t from, int64_t n) {
    return SHAPE(byte_fields(SHAPE(bytes_of(rows, from, n), n / 4, 1, 4), 4), n / 4, 8);
}

static qn_tensor *raised_q4_0(qn_tensor *rows) {
    return halves_of(rows, 2, 16);
}

static qn_tensor *raised_q4_1(qn_tensor *rows) {
    return halves_of(rows, 4, 16);
}

static qn_tensor *least_q4_1(qn_tensor *rows) { /* it is added there */
    return qn_neg(quant_half(rows, 2));
}

static qn_tensor *raised_q5_k(qn_tensor *rows) {
    qn_tensor *low = byte_fields(SHAPE(bytes_of(rows, 48, 128), 4, 1, 32), 4);
    qn_tensor *bit = fields_from(SHAPE(bytes_of(rows, 16, 32), 1, 1, 32), 1, 4);
    return SHAPE(qn_or(SHAPE(low, 8, 32), SHAPE(bit, 8, 32)), 64, 4);
}

static qn_tensor *raised_q2_k(qn_tensor *rows) {
    return SHAPE(fields_in_place(SHAPE(bytes_of(rows, 16, 64), 2, 1, 32), 2), 64, 4);
}

static qn_tensor *raised_q3_k(qn_tensor *rows) {
    qn_tensor *low = byte_fields(SHAPE(bytes_of(rows, 32, 64), 2, 1, 32), 2);
    qn_tensor *bit = fields_from(SHAPE(bytes_of(rows, 0, 32), 1, 1, 32), 1, 2);
    return SHAPE(qn_or(SHAPE(low, 8, 32), SHAPE(bit, 8, 32)), 64, 4);
}

static qn_tensor *raised_q4_k(qn_tensor *rows) {
    return SHAPE(fields_in_place(SHAPE(bytes_of(rows, 16, 128), 4, 1, 32), 4), 64, 4);
}

static qn_tensor *raised_q6_k(qn_tensor *rows) {
    qn_tensor *low = byte_fields(SHAPE(bytes_of(rows, 0, 128), 2, 1, 64), 4);
    qn_tensor *high = fields_from(SHAPE(bytes_of(rows, 128, 64), 2, 1, 32), 2, 4);
    return SHAPE(qn_or(low, SHAPE(high, 2, 2, 64)), 64, 4);
}

/* x as places in a table, of which `more` makes bytes without a sign. */
static qn_tensor *looked_up(qn_tensor *x, const int8_t *values, int more) {
    const int64_t entries = 16;
    uint8_t table[16];
    if (!x) return NULL;
    for (int i = 0; i < 16; i++) table[i] = (uint8_t)(values[i] + more);
    return qn_take(qn_from(tensor_ctx(x), QN_U8, 1, &entries, table), x, 0);
}

static qn_tensor *raised_mxfp4(qn_tensor *rows) { /* twice the floats of 4 bits */
    static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return looked_up(halves_of(rows, 1, 16), twice, 12);
}

static qn_tensor *raised_iq4_nl(qn_tensor *rows) {
    return looked_up(halves_of(rows, 2, 16), quant_values_iq4, 128);
}

static qn_tensor *raised_iq4_xs(qn_tensor *rows) {
    return looked_up(halves_of(rows, 8, 128), quant_values_iq4, 128);
}

static qn_tensor *scale_mxfp4(qn_tensor *rows) {
    return quant_half_e8m0(quant_bytes(rows, 0, 1));
}

static const product_type product_types[] = {
    {QN_Q8_0, 8, 1, 1, 128, 0, 1, raised_q8_0, first_half, NULL},
    {QN_Q4_0, 4, 1, 2, 8, 0, 1, raised_q4_0, first_half, NULL},
    {QN_Q4_1, 4, 1, 2, 0, 0, 1, raised_q4_1, first_half, least_q4_1},
    {QN_IQ4_NL, 4, 1, 2, 128, 0, 1, raised_iq4_nl, first_half, NULL},
    {QN_MXFP4, 4, 1, 2, 12, 0, 1, raised_mxfp4, scale_mxfp4, NULL},
    {QN_IQ4_XS, 32, 8, 2, 128, 0, 1, raised_iq4_xs, quant_scale_iq4_xs, NULL},
    {QN_Q2_K, 64, 16, 1, 0, 2, 1, raised_q2_k, quant_scale_q2_k, quant_least_q2_k},
    {QN_Q3_K, 64, 16, 1, 4, 0, 1, raised_q3_k, quant_scale_q3_k, NULL},
    {QN_Q4_K, 64, 8, 1, 0, 4, 4, raised_q4_k, quant_scale_q4_k, quant_least_q4_k},
    {QN_Q5_K, 64, 8, 1, 0, 0, 4, raised_q5_k, quant_scale_q4_k, quant_least_q4_k},
    {QN_Q6_K, 64, 16, 1, 32, 0, 1, raised_q6_k, quant_scale_q6_k, NULL},
};

static const product_type *find(int type) {
    for (size_t i = 0; i < COUNT_OF(product_types); i++)
        if (product_types[i].type == type) return &product_types[i];
    return NULL;
}

static int64_t elements_of(const product_type *t) {
    return quant_find(t->type)->elements;
}

/* Words that share bytes are of the first and second half of 32 elements. */
static qn_tensor *in_order(qn_tensor *raised, const product_type *t) {
    int64_t elements = elements_of(t);
    raised = SHAPE(raised, elements / BLOCK, BLOCK / (t->words * WORD), t->words, WORD);
    return SHAPE(qn_transpose(raised, 2, 3), elements);
}

bool quant_groups_of(qn_tensor *blocks, int type, quant_groups *out) {
    const product_type *t = find(type);
    if (!t || !blocks) return false;
    int64_t n = qn_dim(blocks, 0), count = qn_dim(blocks, 1) / quant_find(type)->bytes;
    const int64_t deep[2] = {n, count * elements_of(t)}, groups[2] = {n, count * t->groups};
    blocks = qn_reshape(blocks, 2, (const int64_t[]){n * count, quant_find(type)->bytes});
    qn_tensor *least = t->least ? t->least(blocks) : NULL;
    qn_tensor *scales = in_place(t->scale(blocks), t, t->groups * BLOCK / elements_of(t));
    *out = (quant_groups){.raised = qn_reshape(in_order(t->raised(blocks), t), 2, deep),
                          .scales = qn_reshape(scales, 2, groups),
                          .least = least ? qn_reshape(least, 2, groups) : NULL,
                          .each = elements_of(t) / t->groups,
                          .more = t->more};
    return true;
}

bool quant_has_product(int type, int64_t deep) {
    const product_type *t = find(type);
    return t && deep % elements_of(t) == 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

qn_tensor *quant_rounded(qn_tensor *x, int64_t blocks, qn_tensor **scales) {
    x = quant_shape(x, 2, (const int64_t[]){blocks, BLOCK});
    qn_tensor *d = qn_max(qn_abs(x), -1, true), *most = qn_like(d, LARGEST);
    d = qn_div(d, most);
    qn_tensor *none = qn_lt(d, qn_like(d, LEAST)), *by = qn_where(none, qn_like(d, 1), d);
    *scales = quant_shape(d, 1, &blocks);
    return qn_clamp(qn_round(qn_mul(x, qn_reciprocal(by))), -LARGEST, LARGEST);
}

/* Words of one group, one behind the other, that a lane adds up before it is scaled: they lie
 * apart, and are put together. Several rows share what that takes; two lanes of a group, and no
 * fewer, for such words lie together. One row's are as many as its type's fields of bits are not
 * worse for. Lanes are so many that whole vectors fill the row. */
static int64_t span_of(const product_type *t, int64_t rows, int64_t deep) {
    int64_t lanes = deep / t->words / WORD, span = rows != 1 ? t->lanes / t->groups / 2 : t->span;
    while (span > 1 && lanes / span % WIDEST) span /= 2;
    return span > 1 ? span : 1;
}

/* i32 [m, lanes, products] of i8 [m, words, bytes in all]. */
static qn_tensor *lanes_of(qn_tensor *x) {
    int64_t words = x ? qn_dim(x, 1) : 0, lanes = x ? qn_dim(x, 2) / WORD : 0;
    x = qn_transpose(SHAPE(x, words, lanes, WORD), 1, 2);
    return SHAPE(qn_cast(x, QN_I32), lanes, words * WORD);
}

/* The sums of several rows are taken of what weights are raised to, and what is too much is taken
 * off with the least values, of a group each. */
static bool takes_off(const product_type *t, int64_t rows) {
    return t->least || (t->more && rows != 1);
}

quant_rows quant_rows_of(qn_tensor *x, int type) {
    const product_type *t = find(type);
    quant_rows r = {0};
    int64_t rows = x ? qn_dim(x, 0) : 0, deep = x ? qn_dim(x, 1) : 0;
    if (deep < BLOCK) return r;
    int64_t span = span_of(t, rows, deep);
    int64_t blocks = deep / BLOCK, times = t->groups * BLOCK / elements_of(t);
    int64_t lanes = deep / t->words / WORD / span, each = lanes / blocks / times;
    qn_tensor *q = quant_rounded(x, blocks, &r.scales);
    q = SHAPE(qn_cast(q, QN_I8), blocks, t->words, times, span, each * WORD);
    q = qn_permute(q, 6, (const int[]){0, 4, 2, 1, 3, 5});
    r.whole = qn_contiguous(SHAPE(q, span * t->words, lanes * WORD));
    r.scales = qn_contiguous(r.scales);
    qn_tensor *sums = qn_cast(qn_sum(lanes_of(r.whole), -1, false), QN_I32);
    if (takes_off(t, rows)) {
        qn_tensor *all = qn_sum(SHAPE(sums, blocks, times, each), -1, false);
        r.sums = qn_contiguous(qn_mul(quant_float(all), SHAPE(r.scales, blocks, 1)));
    }
    r.by = in_place(r.scales, t, 1);
    if (t->places && rows == 1) r.by = qn_contiguous(r.by); /* beside the scales, in one kernel */
    if (t->more && rows == 1)
        r.excess = qn_contiguous(sums ? qn_mul(sums, func_integer(sums, -t->more)) : NULL);
    return r;
}

/* ---- the product ----------------------------------------------------------------------------- */

/* What is taken off, f32 [m, n]; NULL: nothing is. */
static qn_tensor *taken_off(const quant_rows *r, qn_tensor *blocks, int64_t n,
                            const product_type *t) {
    if (!r->sums) return NULL;
    int64_t m = qn_dim(r->sums, 0), groups = qn_dim(r->sums, 1) * qn_dim(r->sums, 2);
    int64_t count = groups / t->groups;
    qn_tensor *l = t->least ? t->least(blocks) : NULL;
    if (t->more && m != 1) {
        qn_tensor *more = t->scale(blocks);
        more = qn_mul(more, qn_like(more, t->more));
        l = l ? qn_add(l, more) : more;
    }
    qn_tensor *x = qn_reshape(l, 4, (const int64_t[]){1, n, count, t->groups});
    x = qn_mul(x, qn_reshape(r->sums, 4, (const int64_t[]){m, 1, count, t->groups}));
    return qn_sum_axes(x, 2, (const int[]){2, 3}, false);
}

/* u8 [R, lanes, products]: `span` words of a group, in the order of the rows. */
static qn_tensor *spanned(qn_tensor *w, const product_type *t, int64_t span) {
    int64_t each = t->lanes / t->groups / span;
    if (span == 1) return w;
    w = SHAPE(w, t->groups, span, each, t->words * WORD);
    return SHAPE(qn_transpose(w, 2, 3), t->groups * each, span * t->words * WORD);
}

qn_tensor *quant_product(const quant_rows *r, qn_tensor *blocks, int type) {
    const product_type *t = find(type);
    if (!r->whole || !r->by || !blocks) return NULL;
    int64_t m = qn_dim(r->whole, 0), n = qn_dim(blocks, 0), products = qn_dim(r->whole, 1) * WORD;
    int64_t lanes = qn_dim(r->whole, 2) / WORD, span = products / t->words / WORD;
    int64_t each = t->lanes / t->groups / span, groups = lanes / each;
    int64_t count = groups / t->groups, of_rows = qn_dim(r->by, 1);
    blocks = qn_reshape(blocks, 2, (const int64_t[]){n * count, quant_find(type)->bytes});
    qn_tensor *off = taken_off(r, blocks, n, t);
    qn_tensor *w = qn_cast(spanned(t->raised(blocks), t, span), QN_I32), *x = lanes_of(r->whole);
    w = qn_reshape(w, 5, (const int64_t[]){1, n, lanes, products, 1});
    x = qn_reshape(x, 5, (const int64_t[]){m, 1, lanes, 1, products});
    qn_tensor *y = qn_reshape(qn_matmul(x, w), 3, (const int64_t[]){m, n, lanes});
    if (r->excess) y = qn_add(y, qn_reshape(r->excess, 3, (const int64_t[]){m, 1, lanes}));
    y = qn_reshape(quant_float(y), 4, (const int64_t[]){m, n, groups, each});
    qn_tensor *s =
        qn_reshape(t->scale(blocks), 4, (const int64_t[]){1, n, of_rows, groups / of_rows});
    s = qn_mul(s, qn_reshape(r->by, 4, (const int64_t[]){m, 1, of_rows, 1}));
    y = qn_mul(y, qn_reshape(s, 4, (const int64_t[]){m, n, groups, 1}));
    y = qn_sum(qn_reshape(y, 3, (const int64_t[]){m, n, lanes}), -1, false);
    return off ? qn_sub(y, off) : y;
}
