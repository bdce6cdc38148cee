/* kinds.h - what is measured, one row a kind; `d` are the case's dimensions.
 *
 * X(KIND, word, flops, elements read, elements written, elements of the checked output)
 * Elementwise functions count two flops for each vector instruction of a good f32 implementation
 * (a multiply-add is one): that is their instruction time. A training step counts its contractions
 * three times (forward, by input, by weight) and reads and writes its parameters. */
#define N  ((double)d[0])
#define RC ((double)d[0] * (double)d[1])
#define AT ((double)d[0] * (double)d[1] * (double)d[2]) /* attention's rows: d = {B, H, T, D} */
X(GEMM, "gemm", 2.0 * N * d[1] * d[2] * d[3], N *d[3] * (d[1] + d[2]), N *d[1] * d[2], N *d[1] * d[2])
X(GEMM_PACKED, "gemm_packed", 2.0 * N * d[1] * d[2] * d[3], N *d[3] * (d[1] + d[2]), N *d[1] * d[2], N *d[1] * d[2])
X(GEMM_I8, "gemm_i8", 2.0 * N * d[1] * d[2] * d[3], N *d[3] * (d[1] + d[2]) / 4, N *d[1] * d[2], N *d[1] * d[2])
X(GEMM_BF16, "gemm_bf16", 2.0 * N * d[1] * d[2] * d[3], N *d[3] * (d[1] + d[2]) / 2, N *d[1] * d[2], N *d[1] * d[2])
X(NEG, "neg", 2.0 * N, N, N, N)
X(FMA, "fma", 2.0 * N, 3 * N, N, N)
X(EXP, "exp", 22.0 * N, N, N, N)
X(TANH, "tanh", 36.0 * N, N, N, N)
X(GELU, "gelu", 52.0 * N, N, N, N)
X(GELU_TANH, "gelu_tanh", 48.0 * N, N, N, N)
X(SUM_ALL, "sum_all", 2.0 * RC, RC, 1, 1)
X(SUM_ROWS, "sum_rows", 2.0 * RC, RC, N, N)
X(SUM_COLUMNS, "sum_columns", 2.0 * RC, RC, d[1], d[1])
X(SOFTMAX, "softmax", 28.0 * RC, RC, RC, RC)
X(LAYER_NORM, "layer_norm", 12.0 * RC, RC, RC, RC)
X(TRANSPOSE, "transpose", 2.0 * RC, RC, RC, RC)
X(ATTENTION, "attention", 4.0 * AT * d[2] * d[3], 3 * AT * d[3], AT *d[3], AT *d[3])
X(ATTENTION_CAUSAL, "attention_causal", 2.0 * AT * d[2] * d[3], 3 * AT * d[3], AT *d[3], AT *d[3])
X(ATTENTION_GRAD, "attention_grad", 14.0 * AT * d[2] * d[3], 4 * AT * d[3], 4 * AT * d[3], AT *d[3])
X(ATTENTION_CAUSAL_GRAD, "attention_causal_grad", 7.0 * AT * d[2] * d[3], 4 * AT * d[3], 4 * AT * d[3], AT *d[3])
/* d = {batch, channels, size, out channels, window, stride, groups}, padding window / 2;
 * CONV_LAST: channels last; CONV_DATA, CONV_WEIGHTS: the gradients, with a stride of 1 */
#define CONV_OUT (N * d[3] * (double)(d[2] / d[5]) * (double)(d[2] / d[5]))
#define CONV_IN  (N * d[1] * (double)d[2] * d[2] + (double)d[3] * d[1] / d[6] * d[4] * d[4])
X(CONV, "conv", 2.0 * CONV_OUT * d[1] / d[6] * d[4] * d[4], CONV_IN, CONV_OUT, CONV_OUT)
X(CONV_LAST, "conv_last", 2.0 * CONV_OUT * d[1] / d[6] * d[4] * d[4], CONV_IN, CONV_OUT, CONV_OUT)
X(CONV_DATA, "conv_data", 2.0 * CONV_OUT * d[1] / d[6] * d[4] * d[4], CONV_OUT, CONV_IN, N *d[1] * d[2] * d[2])
X(CONV_WEIGHTS, "conv_weights", 2.0 * CONV_OUT * d[1] / d[6] * d[4] * d[4], CONV_IN + CONV_OUT, d[1], (double)d[3] * d[1] / d[6] * d[4] * d[4])
/* d = {in, hidden, out, batch}: a step of gradient descent; checked are the losses of two steps */
#define MLP_WEIGHTS ((double)d[0] * d[1] + (double)d[1] * d[2])
X(MLP, "mlp", 2.0 * d[3] * (3 * MLP_WEIGHTS - RC), MLP_WEIGHTS * 2, MLP_WEIGHTS, 2)
/* d = {vocabulary, context, layers, heads, width, batch}: a step of AdamW; losses of ten steps */
#define GPT_WEIGHTS (12.0 * d[2] * d[4] * d[4] + N * d[4])
#define GPT_SCORES  (4.0 * d[2] * d[1] * d[4])
X(GPT, "gpt", 3.0 * d[5] * d[1] * (2 * GPT_WEIGHTS + GPT_SCORES), 8 * GPT_WEIGHTS, 4 * GPT_WEIGHTS, 10)
X(DISPATCH, "dispatch", 16, 16, 16, 16)
X(COMPILE, "compile", 0, 0, 0, 0)
X(PLAN, "plan", 0, 0, 0, 0)
X(FORK_JOIN, "fork_join", 0, 0, 0, 0)
X(COLD_START, "cold_start", 0, 0, 0, 0)
X(WARM_START, "warm_start", 0, 0, 0, 0)
#undef N
#undef RC
#undef AT
#undef CONV_OUT
#undef CONV_IN
#undef MLP_WEIGHTS
#undef GPT_WEIGHTS
#undef GPT_SCORES
