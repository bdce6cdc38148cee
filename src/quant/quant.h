/* quant.h - tensors in blocks of few bits: what their bytes stand for, as expressions of the graph.
 *
 * All types are read the same way. The rows of blocks become [R, bytes], R being how many there
 * are; parts of the bytes are widened to i32, split into fields by shifts that an iota along a new
 * axis gives, and scaled in f32. So there is no loop and no join, only movements and elementwise
 * operations, which the planner writes into the kernel that needs the values. The order of float
 * operations is the gguf package's, whose results these are to the bit. */
#ifndef QN_QUANT_H
#define QN_QUANT_H

#include "func/func.h"
#include "quern_quant.h"

/* ---- parts.c: what the types are written with; NULL gives NULL ------------------------------- */

qn_tensor *quant_bytes(qn_tensor *rows, int64_t from, int64_t n); /* i32 [R, n] */
qn_tensor *quant_words(qn_tensor *rows, int64_t from, int64_t n); /* n u16, as i32 [R, n] */
qn_tensor *quant_longs(qn_tensor *rows, int64_t from, int64_t n); /* n u32, as i32 [R, n] */
qn_tensor *quant_half(qn_tensor *rows, int64_t from);             /* an f16, as f32 [R, 1] */
/* The same elements with other axes behind the first. */
qn_tensor *quant_shape(qn_tensor *x, size_t n, const int64_t *sizes);
#define SHAPE(x, ...) quant_shape(x, COUNT_OF(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})
/* x >> step * i & mask for i < count along `axis`, where x has size 1. */
typedef struct quant_fields_of {
    int axis;
    int64_t count, step, mask;
} quant_fields_of;
qn_tensor *quant_fields(qn_tensor *x, quant_fields_of f);
#define FIELDS(x, ...) quant_fields(x, (quant_fields_of){__VA_ARGS__})
qn_tensor *quant_along(qn_tensor *x, int axis, int64_t n); /* 0 .. n-1 along it, of x's dtype */
qn_tensor *quant_and(qn_tensor *x, int64_t mask);
qn_tensor *quant_up(qn_tensor *x, int64_t n);   /* x << n */
qn_tensor *quant_down(qn_tensor *x, int64_t n); /* x >> n */
qn_tensor *quant_plus(qn_tensor *x, int64_t n);
qn_tensor *quant_float(qn_tensor *x); /* as f32 */

/* ---- blocks.c, super.c, codebook.c ----------------------------------------------------------- */

/* f32 of u8 [R, bytes]: [R, ..], the elements of a row in order. */
typedef qn_tensor *quant_read(qn_tensor *rows);
#define X(NAME, name, ...) quant_read quant_##name;
#include "quant/types.h"
#undef X

/* Of types whose values are a scale, the block's first f16, times whole numbers: those of a row, of
 * any dtype. NULL for other types. */
quant_read *quant_whole(int type);

/* f32 [R, groups]: what whole numbers are multiplied with, and what is taken off then. Those of
 * q5_k are q4_k's. */
quant_read quant_scale_q2_k, quant_least_q2_k, quant_scale_q3_k, quant_scale_q4_k, quant_least_q4_k,
    quant_scale_q6_k, quant_scale_iq4_xs;

extern const int8_t quant_values_iq4[16]; /* the codebook of iq4_nl and iq4_xs */

/* Of mxfp4: half of 2^(e - 127), and twice the floats of 4 bits. i32 both, the first gives f32. */
qn_tensor *quant_half_e8m0(qn_tensor *e);
qn_tensor *quant_twice_e2m1(qn_tensor *q);

/* ---- quantize.c: u8 of f32 [R, elements] ----------------------------------------------------- */

quant_read quantize_q4_0, quantize_q4_1, quantize_q5_0, quantize_q5_1, quantize_q8_0,
    quantize_tq1_0, quantize_tq2_0, quantize_mxfp4;

/* ---- product.c ------------------------------------------------------------------------------- */

/* f32 [m, k] as whole numbers with a scale for each block. */
typedef struct quant_rows {
    qn_tensor *whole;  /* i8 [m, words of a lane, bytes]: all lanes' first words, .. */
    qn_tensor *scales; /* f32 [m, groups of lanes] */
    qn_tensor *by;     /* the same, less what weights' fields in their places are too large by */
    qn_tensor *excess; /* i32 [m, lanes]: what a product with raised elements has too much, < 0 */
    qn_tensor *sums;   /* f32 [m, groups]: of the rows, for least values; NULL: there are none */
} quant_rows;
bool quant_has_product(int type, int64_t deep);
quant_rows quant_rows_of(qn_tensor *x, int type); /* for products with blocks of that type */
/* f32 [m, n]: the rows times blocks u8 [n, bytes] of a row of blocks each. */
qn_tensor *quant_product(const quant_rows *r, qn_tensor *blocks, int type);

/* Weights as s * (q - more) - l, s and l those of a group of `each` of them. */
typedef struct quant_groups {
    qn_tensor *raised;         /* q: u8 [n, deep] */
    qn_tensor *scales, *least; /* f32 [n, groups]; least NULL: it is 0 */
    int64_t each, more;
} quant_groups;
/* Of u8 [n, bytes]; false: the type has no such. */
bool quant_groups_of(qn_tensor *blocks, int type, quant_groups *out);

/* Whole numbers of f32 [m, 32 * blocks], f32 [m, blocks, 32], times *scales, f32 [m, blocks]. */
qn_tensor *quant_rounded(qn_tensor *x, int64_t blocks, qn_tensor **scales);

/* ---- panels.c -------------------------------------------------------------------------------- */

/* A matrix of blocks as bytes in the order in which a product of many rows reads them. */
typedef struct quant_panels {
    qn_tensor *raised;         /* u8 [panels, blocks, 8, 16, 4]: the word of each of 16 columns */
    qn_tensor *scales, *least; /* f32 [panels, blocks, 16]; least NULL: it is 0 */
    int64_t more;              /* how much larger the bytes are than what is scaled */
} quant_panels;
bool quant_has_panels(int type, int64_t columns, int64_t deep);
quant_panels quant_panels_of(qn_tensor *blocks, int type, int64_t deep); /* u8 [columns, bytes] */
/* f32 [m, columns]: rows f32 [m, deep], rounded by blocks to whole numbers, times that matrix. */
qn_tensor *quant_panel_product(qn_tensor *x, const quant_panels *w);

/* ---- quant.c --------------------------------------------------------------------------------- */

typedef struct quant_type {
    qn_quant type;
    const char *name;
    int elements, bytes;
    quant_read *read, *make; /* make: NULL where it is only read */
} quant_type;
const quant_type *quant_find(int type); /* NULL: no such */
/* The scales of blocks of u8 [.., n * bytes], f16 [.., n], for who keeps them beside the blocks: a
 * kernel that reads them there need not put them together of bytes. Of types with quant_whole. */
qn_tensor *quant_scales(qn_tensor *blocks, int type);
/* The same of the blocks' bytes as f16 [.., n * bytes / 2]: a look at them, nothing is copied. */
qn_tensor *quant_half_scales(qn_tensor *halves, int type);
/* The whole numbers of blocks, of types with quant_whole. */
qn_tensor *quant_whole_of(qn_tensor *blocks, int type);
/* qn_dequantize by these scales, to the bit. */
qn_tensor *quant_by_scales(qn_tensor *blocks, qn_tensor *scales, int type);

#endif
