/* types.h - the block types, one row each: what a block holds is in the comment of its function in
 * blocks.c, super.c or codebook.c.
 *
 * X(NAME, name, elements, bytes, QUANTIZE)
 *   NAME      QN_NAME, the number of the type in GGUF files
 *   elements  of a block, along the last axis
 *   bytes     of a block
 *   QUANTIZE  1: quantize.c has a function quantize_<name>, too */
X(Q4_0, q4_0, 32, 18, 1)
X(Q4_1, q4_1, 32, 20, 1)
X(Q5_0, q5_0, 32, 22, 1)
X(Q5_1, q5_1, 32, 24, 1)
X(Q8_0, q8_0, 32, 34, 1)
X(Q2_K, q2_k, 256, 84, 0)
X(Q3_K, q3_k, 256, 110, 0)
X(Q4_K, q4_k, 256, 144, 0)
X(Q5_K, q5_k, 256, 176, 0)
X(Q6_K, q6_k, 256, 210, 0)
X(IQ2_XXS, iq2_xxs, 256, 66, 0)
X(IQ2_XS, iq2_xs, 256, 74, 0)
X(IQ3_XXS, iq3_xxs, 256, 98, 0)
X(IQ1_S, iq1_s, 256, 50, 0)
X(IQ4_NL, iq4_nl, 32, 18, 0)
X(IQ3_S, iq3_s, 256, 110, 0)
X(IQ2_S, iq2_s, 256, 82, 0)
X(IQ4_XS, iq4_xs, 256, 136, 0)
X(IQ1_M, iq1_m, 256, 56, 0)
X(TQ1_0, tq1_0, 256, 54, 1)
X(TQ2_0, tq2_0, 256, 66, 1)
X(MXFP4, mxfp4, 32, 17, 1)
X(NVFP4, nvfp4, 64, 36, 0)
