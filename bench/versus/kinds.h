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
/* d = {rows, columns, axis}, {rows, columns, k}, {elements, distinct ones} */
X(CUMSUM, "cumsum", 2.0 * RC, RC, RC, RC)
X(SORT, "sort", 0, RC, RC, RC)
X(ARGSORT, "argsort", 0, RC, 2 * RC, RC)
X(TOPK, "topk", 0, RC, N *d[2], N *d[2])
X(UNIQUE, "unique", 0, N, d[1], d[1])
/* d = {rows of a table, width, indices} */
#define PICKED ((double)d[2] * (double)d[1])
X(TAKE, "take", 0, PICKED + d[2], PICKED, PICKED)
X(INDEX_ADD, "index_add", PICKED, PICKED + d[2] + RC, RC, RC)
X(EMBEDDING_GRAD, "embedding_grad", PICKED, PICKED + d[2], RC, RC)
/* d = {batch, channels, size, window, stride}: images of size^2 */
#define IMAGES (RC * (double)d[2] * (double)d[2])
#define POOLED (RC * (double)((d[2] - d[3]) / d[4] + 1) * (double)((d[2] - d[3]) / d[4] + 1))
X(BATCH_NORM, "batch_norm", 12.0 * IMAGES, IMAGES, IMAGES, IMAGES)
X(BATCH_NORM_GRAD, "batch_norm_grad", 24.0 * IMAGES, 2 * IMAGES, IMAGES, IMAGES)
X(MAX_POOL, "max_pool", POOLED *d[3] * d[3], IMAGES, POOLED, POOLED)
X(AVG_POOL, "avg_pool", POOLED *d[3] * d[3], IMAGES, POOLED, POOLED)
X(MAX_POOL_GRAD, "max_pool_grad", 3.0 * POOLED * d[3] * d[3], IMAGES + POOLED, IMAGES, IMAGES)
/* d = {batch, channels, size, new size}: by lines, by the cubics of 16 places */
#define RESIZED (RC * (double)d[3] * (double)d[3])
X(BILINEAR, "bilinear", 8.0 * RESIZED, IMAGES, RESIZED, RESIZED)
X(BICUBIC, "bicubic", 40.0 * RESIZED, IMAGES, RESIZED, RESIZED)
/* d = {rows, length}: complex numbers, as pairs; 5 n log2 n flops, log2 taken as 15 */
X(FFT, "fft", 5.0 * 15 * RC, 2 * RC, 2 * RC, 2 * RC)
/* d = {n}: of n x n; checked are L, x, the inverse, the x of as many right sides, |R|, the singular
 * and the eigenvalues */
#define CUBE (N * N * N)
X(CHOLESKY, "cholesky", CUBE / 3, N *N, N *N, N *N)
X(SOLVE, "solve", CUBE * 2 / 3, N *N, N, N)
X(INV, "inv", CUBE * 2, N *N, N *N, N *N)
X(TRIANGULAR, "triangular", CUBE, 2 * N *N, N *N, N *N)
X(QR, "qr", CUBE * 8 / 3, N *N, 2 * N * N, N *N)
X(SVD, "svd", CUBE * 20, N *N, 2 * N * N, N)
X(EIGH, "eigh", CUBE * 9, N *N, N *N, N)
/* d = {in, hidden, out, batch}: a step of gradient descent; checked are the losses of two steps */
#define MLP_WEIGHTS ((double)d[0] * d[1] + (double)d[1] * d[2])
X(MLP, "mlp", 2.0 * d[3] * (3 * MLP_WEIGHTS - RC), MLP_WEIGHTS * 2, MLP_WEIGHTS, 2)
/* d = {vocabulary, context, layers, heads, width, batch}: a step of AdamW; losses of ten steps */
#define GPT_WEIGHTS (12.0 * d[2] * d[4] * d[4] + N * d[4])
#define GPT_SCORES  (4.0 * d[2] * d[1] * d[4])
X(GPT, "gpt", 3.0 * d[5] * d[1] * (2 * GPT_WEIGHTS + GPT_SCORES), 8 * GPT_WEIGHTS, 4 * GPT_WEIGHTS, 10)
/* d = {layers, width, batch, steps, loop, segment}, inputs as wide: a step of gradient descent, all
 * steps recorded one by one, or as a loop, in segments where that is not 0 */
#define CELLS ((double)d[0] * d[2] * d[3] * 8.0 * d[1] * d[1])
X(LSTM, "lstm", 6.0 * CELLS, 8.0 * N * d[1] * d[1], 8.0 * N * d[1] * d[1], 10)
X(GRU, "gru", 4.5 * CELLS, 6.0 * N * d[1] * d[1], 6.0 * N * d[1] * d[1], 10)
/* d = {n, steps}: x <- b + (its four neighbours' sum) / 5 on a torus of n x n, from b */
X(SOLVER, "solver", 6.0 * N * N * d[1], N *N, N *N, N *N)
/* ResNet-18 for small images, d = {width, size, batch}, ten classes, SGD with momentum: blocks of
 * width, 2 width, 4 width, 8 width; a convolution makes 9 width^2 size^2 multiply-adds */
#define CONVOLUTION (2.0 * 9 * RC * RC * d[2])
X(RESNET, "resnet", 3 * CONVOLUTION * (4 + 3 * (0.5 + 3) + 3 / 18.0), 0.7e3 * N * N, 0.7e3 * N * N, 10)
/* recorded anew at each call, d = {pieces, rows, columns, axis}; with the gradients of the sum of
 * squares; a weight [columns, columns] used by each piece apart, or by all at once */
#define PIECES (N * (double)d[1] * d[2])
X(STACK, "stack", 0, PIECES, PIECES, PIECES)
X(CONCAT_GRAD, "concat_grad", 4 * PIECES, PIECES, 2 * PIECES, (double)d[1] * d[2])
X(SELECT_GRAD, "select_grad", 4 * PIECES, PIECES, PIECES, PIECES)
X(SHARED, "shared", 2 * PIECES * d[2], 2 * PIECES, (double)d[2] * d[2], (double)d[2] * d[2])
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
#undef PICKED
#undef IMAGES
#undef POOLED
#undef RESIZED
#undef CUBE
#undef CELLS
#undef CONVOLUTION
#undef PIECES
#undef MLP_WEIGHTS
#undef GPT_WEIGHTS
#undef GPT_SCORES
