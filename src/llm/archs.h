/* archs.h - architectures of language models, a row each: X(name in GGUF files, model_type of
 * config.json, names of its weights in safetensors, pattern, large, flags).
 *
 * pattern: every so manyeth layer sees all that was, the others a window; 0: where there is a
 * window all layers have it. large: of so many layers is the model whose scores are divided by the
 * root of width / heads, in GGUF files, which do not say it. */
X("llama", "llama", LLAMA, 0, 0, ARCH_GATED | ARCH_PAIRS)
X("llama", "mistral", LLAMA, 0, 0, ARCH_GATED | ARCH_PAIRS)
X("llama", "mixtral", LLAMA, 0, 0, ARCH_GATED | ARCH_PAIRS | ARCH_EXPERTS)
X("qwen2", "qwen2", LLAMA, 0, 0, ARCH_GATED | ARCH_ASKS)
X("qwen3", "qwen3", LLAMA, 0, 0, ARCH_GATED | ARCH_QK_NORM | ARCH_ASKS)
X("qwen3moe", "qwen3_moe", LLAMA, 0, 0,
  ARCH_GATED | ARCH_QK_NORM | ARCH_ASKS | ARCH_EXPERTS | ARCH_PLAIN_EXPERTS)
X("gemma2", "gemma2", GEMMA, 2, 46, ARCH_GEMMA)
X("gemma3", "gemma3_text", GEMMA, 6, 62, ARCH_GEMMA | ARCH_QK_NORM | ARCH_TWO_THETAS)
X("phi3", "phi3", LLAMA, 0, 0, ARCH_GATED | ARCH_ONE_QKV | ARCH_ONE_UP)
X("gpt2", "gpt2", GPT2, 0, 0, ARCH_LAYER_NORM | ARCH_GELU | ARCH_PLACES | ARCH_ONE_QKV)
