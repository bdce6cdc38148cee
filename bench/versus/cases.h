/* cases.h - the cases, one row each: X(family, name, KIND, dimensions as kinds.h has them).
 * The floors over the families are in check.c. */
#define GEMM_SHAPES(X, family, KIND)                                                               \
    X(family, "64", KIND, 1, 64, 64, 64)                                                           \
    X(family, "128", KIND, 1, 128, 128, 128)                                                       \
    X(family, "256", KIND, 1, 256, 256, 256)                                                       \
    X(family, "512", KIND, 1, 512, 512, 512)                                                       \
    X(family, "1024", KIND, 1, 1024, 1024, 1024)                                                   \
    X(family, "2048", KIND, 1, 2048, 2048, 2048)                                                   \
    X(family, "4096", KIND, 1, 4096, 4096, 4096)                                                   \
    X(family, "128x768x768", KIND, 1, 128, 768, 768)                                               \
    X(family, "128x768x768t", KIND, 1, 128, 768, 768, 1)                                           \
    X(family, "256x768x3072", KIND, 1, 256, 768, 3072)                                             \
    X(family, "256x3072x768t", KIND, 1, 256, 3072, 768, 1)                                         \
    X(family, "12x512x64x512", KIND, 12, 512, 64, 512)                                             \
    X(family, "12x512x512x64t", KIND, 12, 512, 512, 64, 1)                                         \
    X(family, "1024x50304x768t", KIND, 1, 1024, 50304, 768, 1)
GEMM_SHAPES(X, "gemm", GEMM)
X("gemv", "1x4096x4096", GEMM, 1, 1, 4096, 4096)
X("gemv", "1x4096x4096t", GEMM, 1, 1, 4096, 4096, 1)
X("gemv", "8x4096x4096", GEMM, 1, 8, 4096, 4096)
X("gemv", "8x4096x4096t", GEMM, 1, 8, 4096, 4096, 1)
X("packed", "128x768x768", GEMM_PACKED, 1, 128, 768, 768)
X("packed", "128x768x768t", GEMM_PACKED, 1, 128, 768, 768, 1)
X("packed", "256x768x3072", GEMM_PACKED, 1, 256, 768, 3072)
X("packed", "256x3072x768t", GEMM_PACKED, 1, 256, 3072, 768, 1)
X("packed", "1024", GEMM_PACKED, 1, 1024, 1024, 1024)
X("packed", "8x4096x4096t", GEMM_PACKED, 1, 8, 4096, 4096, 1)
X("narrow", "i8 1024", GEMM_I8, 1, 1024, 1024, 1024)
X("narrow", "bf16 1024", GEMM_BF16, 1, 1024, 1024, 1024)
X("narrow", "i8 512", GEMM_I8, 1, 512, 512, 512)
X("narrow", "bf16 512", GEMM_BF16, 1, 512, 512, 512)
X("narrow", "i8 128x768x768t packed", GEMM_I8, 1, 128, 768, 768, 1, 1)
X("narrow", "bf16 128x768x768t packed", GEMM_BF16, 1, 128, 768, 768, 1, 1)
X("narrow", "i8 8x4096x4096t packed", GEMM_I8, 1, 8, 4096, 4096, 1, 1)
X("narrow", "bf16 8x4096x4096t packed", GEMM_BF16, 1, 8, 4096, 4096, 1, 1)
X("stream", "neg 64M", NEG, 1 << 26)
X("stream", "fma 64M", FMA, 1 << 26)
X("stream", "exp 64M", EXP, 1 << 26)
X("stream", "tanh 64M", TANH, 1 << 26)
X("stream", "gelu 64M", GELU, 1 << 26)
X("stream", "gelu_tanh 64M", GELU_TANH, 1 << 26)
X("stream", "sum 64M", SUM_ALL, 8192, 8192)
X("stream", "sum rows 4096", SUM_ROWS, 4096, 4096)
X("stream", "sum columns 4096", SUM_COLUMNS, 4096, 4096)
X("stream", "softmax 4096", SOFTMAX, 4096, 4096)
X("stream", "layer norm 4096", LAYER_NORM, 4096, 4096)
X("stream", "transpose 4096", TRANSPOSE, 4096, 4096)
X("cached", "neg 32K", NEG, 1 << 15)
X("cached", "fma 32K", FMA, 1 << 15)
X("cached", "exp 32K", EXP, 1 << 15)
X("cached", "tanh 32K", TANH, 1 << 15)
X("cached", "gelu 32K", GELU, 1 << 15)
X("cached", "gelu_tanh 32K", GELU_TANH, 1 << 15)
X("cached", "sum 32K", SUM_ALL, 128, 256)
X("cached", "sum rows 128x256", SUM_ROWS, 128, 256)
X("cached", "sum columns 128x256", SUM_COLUMNS, 128, 256)
X("cached", "softmax 128x256", SOFTMAX, 128, 256)
X("cached", "layer norm 128x256", LAYER_NORM, 128, 256)
X("cached", "transpose 128x256", TRANSPOSE, 128, 256)
X("attention", "T128", ATTENTION, 1, 12, 128, 64)
X("attention", "T1024", ATTENTION, 1, 12, 1024, 64)
X("attention", "T4096", ATTENTION, 1, 12, 4096, 64)
X("attention", "causal T128", ATTENTION_CAUSAL, 1, 12, 128, 64)
X("attention", "causal T1024", ATTENTION_CAUSAL, 1, 12, 1024, 64)
X("attention", "causal T4096", ATTENTION_CAUSAL, 1, 12, 4096, 64)
X("attention_grad", "T1024", ATTENTION_GRAD, 1, 12, 1024, 64)
X("attention_grad", "causal T1024", ATTENTION_CAUSAL_GRAD, 1, 12, 1024, 64)
X("conv", "3x3", CONV, 16, 64, 56, 64, 3, 1, 1)
X("conv", "1x1", CONV, 16, 64, 56, 256, 1, 1, 1)
X("conv", "7x7 stride 2", CONV, 16, 3, 224, 64, 7, 2, 1)
X("conv", "depthwise 3x3", CONV, 16, 64, 56, 64, 3, 1, 64)
X("conv", "3x3 last", CONV_LAST, 16, 64, 56, 64, 3, 1, 1)
X("conv", "1x1 last", CONV_LAST, 16, 64, 56, 256, 1, 1, 1)
X("conv", "7x7 last stride 2", CONV_LAST, 16, 3, 224, 64, 7, 2, 1)
X("conv", "depthwise last 3x3", CONV_LAST, 16, 64, 56, 64, 3, 1, 64)
X("conv", "3x3 data", CONV_DATA, 16, 64, 56, 64, 3, 1, 1)
X("conv", "3x3 weights", CONV_WEIGHTS, 16, 64, 56, 64, 3, 1, 1)
X("train", "mlp step", MLP, 784, 512, 10, 128)
X("train", "gpt step", GPT, 94, 64, 4, 4, 128, 16)
X("train", "gpt2 124M step", GPT, 50304, 64, 12, 12, 768, 4)
X("latency", "dispatch", DISPATCH, 16)
X("latency", "kernel compile", COMPILE, 0)
X("latency", "plan gpt2 step", PLAN, 0)
X("latency", "fork-join", FORK_JOIN, 64, 8192)
X("latency", "cold start", COLD_START, 0)
X("latency", "warm start", WARM_START, 0)
#undef GEMM_SHAPES
