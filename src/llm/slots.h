/* slots.h - weights of language models: X(SLOT, name in GGUF files, in safetensors of Llama's kind,
 * of Gemma's, of GPT-2's, rows, columns, flags of architectures that have it, that have it not).
 *
 * Rows and columns are sizes of llm_config; one of STACKED has as many such matrices as there are
 * experts: one tensor of three axes in GGUF, else one each, whose number is put for #. A | is
 * between names of which a file has one. OPTIONAL in place of the flags: where the file has it.
 * What stands before a name, "blk.3." or "model.layers.3.", follows from the place in the list. */
X(EMBED, "token_embd.weight", "embed_tokens.weight", "embed_tokens.weight", "wte.weight",
  VOCABULARY, WIDTH, 0, 0)
X(PLACES, "position_embd.weight", NULL, NULL, "wpe.weight", TRAINED, WIDTH, ARCH_PLACES, 0)
X(NORM, "output_norm.weight", "norm.weight", "norm.weight", "ln_f.weight", WIDTH, ONE, 0, 0)
X(NORM_BIAS, "output_norm.bias", NULL, NULL, "ln_f.bias", WIDTH, ONE, OPTIONAL, 0)
X(OUTPUT, "output.weight", "/lm_head.weight", "/lm_head.weight", "/lm_head.weight", VOCABULARY,
  WIDTH, OPTIONAL, 0)
X(FACTORS, "rope_freqs.weight", NULL, NULL, NULL, HALF, ONE, OPTIONAL, 0)
/* Of each layer. */
X(ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", "input_layernorm.weight", "ln_1.weight",
  WIDTH, ONE, 0, 0)
X(ATTN_NORM_BIAS, "attn_norm.bias", NULL, NULL, "ln_1.bias", WIDTH, ONE, OPTIONAL, 0)
X(Q, "attn_q.weight", "self_attn.q_proj.weight", "self_attn.q_proj.weight", NULL, QUERIES, WIDTH, 0,
  ARCH_ONE_QKV)
X(Q_BIAS, "attn_q.bias", "self_attn.q_proj.bias", "self_attn.q_proj.bias", NULL, QUERIES, ONE,
  OPTIONAL, 0)
X(K, "attn_k.weight", "self_attn.k_proj.weight", "self_attn.k_proj.weight", NULL, KEYS, WIDTH, 0,
  ARCH_ONE_QKV)
X(K_BIAS, "attn_k.bias", "self_attn.k_proj.bias", "self_attn.k_proj.bias", NULL, KEYS, ONE, OPTIONAL, 0)
X(V, "attn_v.weight", "self_attn.v_proj.weight", "self_attn.v_proj.weight", NULL, KEYS, WIDTH, 0,
  ARCH_ONE_QKV)
X(V_BIAS, "attn_v.bias", "self_attn.v_proj.bias", "self_attn.v_proj.bias", NULL, KEYS, ONE, OPTIONAL, 0)
X(QKV, "attn_qkv.weight", "self_attn.qkv_proj.weight", NULL, "attn.c_attn.weight", THREE, WIDTH,
  ARCH_ONE_QKV, 0)
X(QKV_BIAS, "attn_qkv.bias", "self_attn.qkv_proj.bias", NULL, "attn.c_attn.bias", THREE, ONE, OPTIONAL, 0)
X(Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", "self_attn.q_norm.weight", NULL, HEAD,
  ONE, ARCH_QK_NORM, 0)
X(K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", "self_attn.k_norm.weight", NULL, HEAD,
  ONE, ARCH_QK_NORM, 0)
X(OUT, "attn_output.weight", "self_attn.o_proj.weight", "self_attn.o_proj.weight",
  "attn.c_proj.weight", WIDTH, QUERIES, 0, 0)
X(OUT_BIAS, "attn_output.bias", "self_attn.o_proj.bias", "self_attn.o_proj.bias",
  "attn.c_proj.bias", WIDTH, ONE, OPTIONAL, 0)
X(POST_ATTN, "post_attention_norm.weight", NULL, "post_attention_layernorm.weight", NULL, WIDTH,
  ONE, ARCH_POST_NORM, 0)
X(FFN_NORM, "ffn_norm.weight", "post_attention_layernorm.weight",
  "pre_feedforward_layernorm.weight", "ln_2.weight", WIDTH, ONE, 0, 0)
X(FFN_NORM_BIAS, "ffn_norm.bias", NULL, NULL, "ln_2.bias", WIDTH, ONE, OPTIONAL, 0)
X(GATE, "ffn_gate.weight", "mlp.gate_proj.weight", "mlp.gate_proj.weight", NULL, INNER, WIDTH,
  ARCH_GATED, ARCH_ONE_UP | ARCH_EXPERTS)
X(UP, "ffn_up.weight", "mlp.up_proj.weight", "mlp.up_proj.weight", "mlp.c_fc.weight", INNER, WIDTH,
  0, ARCH_ONE_UP | ARCH_EXPERTS)
X(UP_BIAS, "ffn_up.bias", NULL, NULL, "mlp.c_fc.bias", INNER, ONE, OPTIONAL, 0)
X(GATE_UP, "ffn_up.weight", "mlp.gate_up_proj.weight", NULL, NULL, TWICE, WIDTH, ARCH_ONE_UP, 0)
X(DOWN, "ffn_down.weight", "mlp.down_proj.weight", "mlp.down_proj.weight", "mlp.c_proj.weight",
  WIDTH, INNER, 0, ARCH_EXPERTS)
X(DOWN_BIAS, "ffn_down.bias", NULL, NULL, "mlp.c_proj.bias", WIDTH, ONE, OPTIONAL, 0)
X(POST_FFN, "post_ffw_norm.weight", NULL, "post_feedforward_layernorm.weight", NULL, WIDTH, ONE,
  ARCH_POST_NORM, 0)
X(ROUTER, "ffn_gate_inp.weight", "mlp.gate.weight|block_sparse_moe.gate.weight", NULL, NULL,
  EXPERTS, WIDTH, ARCH_EXPERTS, 0)
X(GATES, "ffn_gate_exps.weight",
  "mlp.experts.#.gate_proj.weight|block_sparse_moe.experts.#.w1.weight", NULL, NULL, EXPERT, WIDTH,
  ARCH_EXPERTS | STACKED, 0)
X(UPS, "ffn_up_exps.weight", "mlp.experts.#.up_proj.weight|block_sparse_moe.experts.#.w3.weight",
  NULL, NULL, EXPERT, WIDTH, ARCH_EXPERTS | STACKED, 0)
X(DOWNS, "ffn_down_exps.weight",
  "mlp.experts.#.down_proj.weight|block_sparse_moe.experts.#.w2.weight", NULL, NULL, WIDTH, EXPERT,
  ARCH_EXPERTS | STACKED, 0)
