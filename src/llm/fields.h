/* fields.h - hyper-parameters of language models: WHOLE or REAL(name, in GGUF metadata behind
 * "llama.", in config.json, another name there, least, most, what it is where it is not given).
 * NAN: it must be given; NONE: it is NaN then. */
#define NONE INFINITY
WHOLE(width, "embedding_length", "hidden_size", "n_embd", 1, 1 << 20, NAN)
WHOLE(layer_count, "block_count", "num_hidden_layers", "n_layer", 1, LLM_LAYERS_MOST, NAN)
WHOLE(head_count, "attention.head_count", "num_attention_heads", "n_head", 1, 1 << 12, NAN)
WHOLE(kv_count, "attention.head_count_kv", "num_key_value_heads", NULL, 1, 1 << 12, NONE)
WHOLE(head, "attention.key_length", "head_dim", NULL, 1, 1 << 12, NONE)
WHOLE(head_v, "attention.value_length", NULL, NULL, 1, 1 << 12, NONE)
WHOLE(inner, "feed_forward_length", "intermediate_size", "n_inner", 1, 1 << 24, NONE)
WHOLE(trained, "context_length", "max_position_embeddings", "n_positions", 1, 1 << 30, NAN)
WHOLE(vocabulary, "vocab_size", "vocab_size", NULL, 1, 1 << 24, NONE)
REAL(rms_eps, "attention.layer_norm_rms_epsilon", "rms_norm_eps", NULL, 0, 1, NONE)
REAL(layer_eps, "attention.layer_norm_epsilon", "layer_norm_epsilon", "layer_norm_eps", 0, 1, NONE)
REAL(theta, "rope.freq_base", "rope_theta", NULL, 1, 1e12, 10000)
REAL(local_theta, "rope.freq_base_swa", "rope_local_base_freq", NULL, 1, 1e12, 10000)
WHOLE(rotated, "rope.dimension_count", NULL, NULL, 2, 1 << 12, NONE)
REAL(rotated_part, NULL, "partial_rotary_factor", NULL, 0, 1, 1)
WHOLE(window_size, "attention.sliding_window", "sliding_window", NULL, 0, 1 << 30, 0)
WHOLE(every, NULL, "sliding_window_pattern", "_sliding_window_pattern", 1, LLM_LAYERS_MOST, NONE)
WHOLE(full_first, NULL, "max_window_layers", NULL, 0, 1 << 20, 28)
REAL(cap, "attn_logit_softcapping", "attn_logit_softcapping", NULL, 0, 1e6, 0)
REAL(final_cap, "final_logit_softcapping", "final_logit_softcapping", NULL, 0, 1e6, 0)
REAL(scale_of, NULL, "query_pre_attn_scalar", NULL, 1e-6, 1e9, NONE)
REAL(factor, "rope.scaling.factor", "factor", NULL, 1e-6, 1e6, 1)
WHOLE(original, "rope.scaling.original_context_length", "original_max_position_embeddings", NULL, 1,
      1 << 30, NONE)
REAL(stretch, "rope.scaling.attn_factor", "attention_factor", NULL, 1e-6, 1e6, NONE)
REAL(low, NULL, "low_freq_factor", NULL, 1e-6, 1e6, 1)
REAL(high, NULL, "high_freq_factor", NULL, 1e-6, 1e6, 4)
REAL(fast, "rope.scaling.yarn_beta_fast", "beta_fast", NULL, 1e-6, 1e6, 32)
REAL(slow, "rope.scaling.yarn_beta_slow", "beta_slow", NULL, 1e-6, 1e6, 1)
#undef NONE
