/* quern_quant.h - tensors in blocks of few bits, as GGUF files hold them. A block is some elements
 * of the last axis in so many bytes: scales, and a number of 1 to 8 bits for each element. Blocks
 * are an ordinary tensor of u8, what they stand for is an expression of it, which the planner fuses
 * into whatever reads it.
 *
 *     qn_tensor *blocks = qn_quantize(weight, QN_Q4_0);          f32 [n, k] -> u8 [n, k / 32 * 18]
 *     qn_tensor *y = qn_matmul(x, qn_transpose(qn_dequantize(blocks, QN_Q4_0), 0, 1));
 */
#ifndef QUERN_QUANT_H
#define QUERN_QUANT_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of blocks; values are those of GGUF files. */
typedef enum qn_quant {
    QN_QUANT_NONE = 0,
    QN_Q4_0 = 2, /* 32 elements: a scale, 4 bits each */
    QN_Q4_1 = 3, /* and a least value */
    QN_Q5_0 = 6,
    QN_Q5_1 = 7,
    QN_Q8_0 = 8,
    QN_Q2_K = 10, /* 256 elements in groups whose scales are quantized in turn */
    QN_Q3_K = 11,
    QN_Q4_K = 12,
    QN_Q5_K = 13,
    QN_Q6_K = 14,
    QN_IQ2_XXS = 16, /* places in a table of vectors of 8 or 4 */
    QN_IQ2_XS = 17,
    QN_IQ3_XXS = 18,
    QN_IQ1_S = 19,
    QN_IQ4_NL = 20, /* places in a table of 16 numbers */
    QN_IQ3_S = 21,
    QN_IQ2_S = 22,
    QN_IQ4_XS = 23,
    QN_IQ1_M = 29,
    QN_TQ1_0 = 34, /* -1, 0, 1: five in a byte */
    QN_TQ2_0 = 35,
    QN_MXFP4 = 39, /* 4-bit floats with a power of two for each 32 */
    QN_NVFP4 = 40  /* and with an 8-bit float for each 16 */
} qn_quant;

/* ---- block types ------------------------------------------------------------------------ */

/* Row i of the list of block types: its name, as "q4_k", elements and bytes of a block, and whether
 * qn_quantize makes it. Each out may be NULL. QN_QUANT_NONE past the last. */
QN_API qn_quant qn_quant_at(int i, const char **name, int *elements, int *bytes, bool *made);
/* The name of a type, NULL for none of the list. */
QN_API const char *qn_quant_name(qn_quant type);
/* f32 [.., n * elements] of u8 [.., n * bytes]: the values of rows of blocks, as the reference of
 * the gguf package for Python has them, to the bit. QN_EDTYPE: not u8; QN_ESHAPE: the last axis is
 * no number of whole blocks; QN_EARG: no such type. No gradient passes, blocks being integers. */
QN_API qn_tensor *qn_dequantize(qn_tensor *blocks, qn_quant type);
/* u8 [.., n * bytes] of float [.., n * elements]: the nearest blocks by the same package's rule,
 * to the bit for finite values; others are as f32. QN_EDTYPE: x is no float; QN_ESHAPE as above;
 * QN_EARG: a type that is only read. No gradient. */
QN_API qn_tensor *qn_quantize(qn_tensor *x, qn_quant type);

#ifdef __cplusplus
}
#endif

#endif
