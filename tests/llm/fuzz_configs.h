/* fuzz_configs.h - what says how a language model is made, for fuzz_parse: config.json of every
 * architecture, and GGUF files of models of a few numbers, metadata, vocabulary and weights. */
#ifndef QN_FUZZ_CONFIGS_H
#define QN_FUZZ_CONFIGS_H

#include "archive/fuzz_files.h"
#include "fuzz.h"
#define SLOT_OUTPUT LLM_OUTPUT /* run.h has one, too */
#include "llm/llm.h"
#undef SLOT_OUTPUT
#include "text/fuzz_texts.h"

/* ---- config.json ----------------------------------------------------------------------------- */

typedef struct config_call {
    llm_source s;
    span text;
    llm_config *c;
} config_call;

static inline void config_work(void *arg) {
    config_call *call = arg;
    json_fault fault;
    call->s.json = json_parse(call->s.a, call->text.s, call->text.n, &fault);
    if (!call->s.json) raise_error(call->s.ctx, QN_EFORMAT, "config.json: %s", fault.what);
    config_read(&call->s, call->c);
}

/* What is accepted has sizes that can be multiplied, and layers that are there. */
static inline void check_config(const llm_config *c) {
    for (int i = 0; i < DIMS; i++)
        if (c->size[i] < 0 || c->size[i] > (int64_t)1 << 40) FOUND("size %d is out of range", i);
    if (c->heads < 1 || c->kv_heads < 1 || c->heads % c->kv_heads) FOUND("heads do not divide");
    if (c->size[DIM_HALF] < 1 || 2 * c->size[DIM_HALF] > c->size[DIM_HEAD]) FOUND("rotated");
    if (c->layers < 1 || c->layers > LLM_LAYERS_MOST || c->window < 0) FOUND("layers");
    if (!(c->scale > 0) || isinf(c->scale)) FOUND("scores are multiplied by %g", c->scale);
    if (c->ends < 0 || c->ends > (int)COUNT_OF(c->end)) FOUND("ends");
    for (int i = 0; i < c->ends; i++)
        if (c->end[i] < 0) FOUND("a token below 0");
    if (c->arch->flags & ARCH_EXPERTS && (c->chosen < 1 || c->chosen > c->size[DIM_EXPERTS]))
        FOUND("experts");
}

static inline void fuzz_config(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_plain();
    static llm_config c;
    arena a;
    arena_open(&a, &qn->heap);
    config_call call = {{.ctx = qn, .path = "model", .a = &a}, {(const char *)data, size}, &c};
    qn_code code = guarded(qn, config_work, &call);
    if (code && code != QN_EFORMAT) FOUND("refused by code %d: %s", code, qn->error);
    if (!code) check_config(&c);
    fuzz_seen.accepted += !code;
    fuzz_forget(qn);
    arena_free(&a);
}

static const char *const config_texts[] = {
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\n"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":96,\n"
    "\"max_position_embeddings\":128,\"vocab_size\":300,\"rms_norm_eps\":1e-5,\n"
    "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\n"
    "\"high_freq_factor\":4,\"original_max_position_embeddings\":64},\n"
    "\"eos_token_id\":[1,2],\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\",\n"
    "\"hidden_size\":48,\"num_hidden_layers\":6,\"num_attention_heads\":3,\"head_dim\":16,\n"
    "\"intermediate_size\":96,\"max_position_embeddings\":256,\"sliding_window\":8,\n"
    "\"num_key_value_heads\":1,\"rope_local_base_freq\":100,\n"
    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":16,\n"
    "\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":10000},\n"
    "\"full_attention\":{\"rope_theta\":1e6,\"rope_type\":\"linear\",\"factor\":2}}},\n"
    "\"eos_token_id\":1}",
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":32,\"num_hidden_layers\":3,\n"
    "\"num_attention_heads\":4,\"head_dim\":8,\"num_experts\":4,\"num_experts_per_tok\":2,\n"
    "\"moe_intermediate_size\":16,\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\n"
    "\"max_position_embeddings\":64,\"use_sliding_window\":true,\"sliding_window\":4,\n"
    "\"max_window_layers\":1,\"norm_topk_prob\":true,\"hidden_act\":\"silu\",\n"
    "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"]}",
    "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"n_positions\":64,\n"
    "\"vocab_size\":257,\"activation_function\":\"gelu_new\",\"layer_norm_epsilon\":1e-5,\n"
    "\"scale_attn_weights\":true,\"n_inner\":null}",
    "{\"model_type\":\"phi3\",\"hidden_size\":48,\"num_hidden_layers\":1,\n"
    "\"num_attention_heads\":3,\"intermediate_size\":64,\"max_position_embeddings\":4096,\n"
    "\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\n"
    "\"attention_factor\":1.2,\"beta_fast\":32,\"beta_slow\":1}}",
    ("{\"model_type\":\"mixtral\",\"hidden_size\":64,\"num_hidden_layers\":2,\n"
     "\"num_attention_heads\":8,\"intermediate_size\":96,\"max_position_embeddings\":128}")};
static const char *const config_words[] = {"llama",
                                           "mistral",
                                           "mixtral",
                                           "qwen2",
                                           "qwen3",
                                           "qwen3_moe",
                                           "gemma2",
                                           "gemma3_text",
                                           "phi3",
                                           "gpt2",
                                           "hidden_size",
                                           "head_dim",
                                           "num_key_value_heads",
                                           "sliding_window",
                                           "sliding_window_pattern",
                                           "num_local_experts",
                                           "attn_logit_softcapping",
                                           "rope_theta",
                                           "layer_types",
                                           "rope_parameters",
                                           "rope_scaling",
                                           "yarn",
                                           "linear",
                                           "llama3",
                                           "null",
                                           "true",
                                           "false",
                                           "quantization_config",
                                           "silu",
                                           "eos_token_id",
                                           "n_inner"};

static inline void some_config(bytes *b) {
    add_text(b, config_texts[below(COUNT_OF(config_texts))]);
    mutate(b, &CORPUS(config_texts, config_words));
}

/* ---- whole files ----------------------------------------------------------------------------- */

/* Opened as a model; one that is accepted tells of itself and has a tokenizer for a text. */
static inline void fuzz_llm(const uint8_t *data, size_t size) {
    static fuzz_file file;
    static qn_ctx *qn;
    if (!qn) qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
    uint64_t before = qn->heap.bytes;
    const char *path = fuzz_file_set(&file, data, size);
    qn_llm *m = qn_llm_open(qn, path, &QN_LLM_OPTIONS(.context = 4, .chunk = 2));
    qn_code code = qn_error_code(qn);
    if ((m != NULL) == (code != QN_OK)) FOUND("a model, and code %d", code);
    if (code && code != QN_EFORMAT && code != QN_EARG && code != QN_EDTYPE && code != QN_ENOMEM)
        FOUND("refused by code %d: %s", code, qn_error(qn));
    qn_clear_error(qn);
    qn_tokenizer *t = m ? qn_llm_tokenizer(m) : NULL;
    if (t) try_text(qn, t, "the <s> thing \xc3\xa9", 15);
    fuzz_seen.accepted += m != NULL;
    fuzz_seen.compared += t != NULL;
    qn_llm_close(m);
    qn_clear_error(qn);
    if (fuzz_seen.inputs > 4096 && qn->heap.bytes > before + (1 << 20)) FOUND("memory is kept");
}

/* Three metadata forms: a number, a text, a list. */
static inline void llm_number(bytes *b, const char *key, int type, uint64_t v, int64_t *count) {
    gguf_text(b, key);
    add_number(b, (uint64_t)type, 4);
    add_number(b, chance(97) ? v : odd_number(), gguf_width[type]);
    ++*count;
}

static inline void llm_text(bytes *b, const char *key, const char *text, int64_t *count) {
    gguf_text(b, key);
    add_number(b, GGUF_TEXT, 4);
    gguf_text(b, text);
    ++*count;
}

static inline void llm_list(bytes *b, const char *key, int type, int64_t n, int64_t *count) {
    gguf_text(b, key);
    add_number(b, GGUF_LIST, 4);
    add_number(b, (uint64_t)type, 4);
    add_number(b, (uint64_t)n, 8);
    ++*count;
}

static const char *const llm_tokens[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "t",   "h",
                                         "e",     "th",  "the",  "\xc4\xa0",     "##e", "<0x41>",
                                         "[UNK]", "n"};

static inline void llm_vocabulary(bytes *b, int64_t *count) {
    static const char *const models[] = {"llama", "gpt2", "bert", "rwkv"};
    static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "gpt-4o", "default", "odd"};
    static const char *const merges[] = {"t h", "th e", "t", "h n"};
    int64_t n = COUNT_OF(llm_tokens), uneven = n - (chance(3) ? 3 : 0);
    llm_text(b, "tokenizer.ggml.model", models[chance(97) ? below(3) : 3], count);
    if (chance(80)) llm_text(b, "tokenizer.ggml.pre", pres[below(chance(90) ? 5 : 6)], count);
    llm_list(b, "tokenizer.ggml.tokens", GGUF_TEXT, n, count);
    for (int64_t i = 0; i < n; i++) gguf_text(b, llm_tokens[i]);
    if (chance(80)) {
        llm_list(b, "tokenizer.ggml.scores", GGUF_F32, uneven, count);
        for (int64_t i = 0; i < uneven; i++) add_number(b, 0xbf800000 + (uint64_t)i * 4096, 4);
    }
    if (chance(80)) {
        llm_list(b, "tokenizer.ggml.token_type", GGUF_I32, uneven, count);
        for (int64_t i = 0; i < uneven; i++) add_number(b, (uint64_t)(i < 3 ? 3 : 1 + below(6)), 4);
    }
    if (chance(60)) {
        int64_t some = below(chance(90) ? 3 : 5);
        llm_list(b, "tokenizer.ggml.merges", GGUF_TEXT, some, count);
        for (int64_t i = 0; i < some; i++) gguf_text(b, merges[i]);
    }
    if (chance(50)) llm_number(b, "tokenizer.ggml.bos_token_id", GGUF_U32, 1, count);
    if (chance(50)) llm_number(b, "tokenizer.ggml.eos_token_id", GGUF_U32, 2, count);
    if (chance(30)) llm_number(b, "tokenizer.ggml.unknown_token_id", GGUF_U32, 0, count);
    if (chance(30)) llm_number(b, "tokenizer.ggml.add_bos_token", GGUF_BOOL, 1, count);
    if (chance(30)) llm_number(b, "tokenizer.ggml.add_space_prefix", GGUF_BOOL, 0, count);
    if (chance(30)) llm_text(b, "tokenizer.chat_template", "{{ messages }}", count);
}

static inline void llm_tensor(bytes *b, const char *name, int rows, int columns, uint64_t *at) {
    gguf_text(b, name);
    add_number(b, columns ? 2 : 1, 4);
    if (columns) add_number(b, (uint64_t)columns, 8);
    add_number(b, (uint64_t)rows, 8);
    add_number(b, 0, 4);
    add_number(b, *at, 8);
    *at += ((uint64_t)rows * (uint64_t)(columns ? columns : 1) * 4 + 31) / 32 * 32;
}

/* A llama of one layer, of one head of two numbers. */
static inline void some_llm(bytes *b) {
    enum { WIDTH = 2, INNER = 3, TOKENS = COUNT_OF(llm_tokens) };
    static const struct {
        const char *name;
        int rows, columns;
    } part[] = {{"token_embd.weight", TOKENS, WIDTH},       {"output_norm.weight", WIDTH, 0},
                {"blk.0.attn_norm.weight", WIDTH, 0},       {"blk.0.attn_q.weight", WIDTH, WIDTH},
                {"blk.0.attn_k.weight", WIDTH, WIDTH},      {"blk.0.attn_v.weight", WIDTH, WIDTH},
                {"blk.0.attn_output.weight", WIDTH, WIDTH}, {"blk.0.ffn_norm.weight", WIDTH, 0},
                {"blk.0.ffn_gate.weight", INNER, WIDTH},    {"blk.0.ffn_up.weight", INNER, WIDTH},
                {"blk.0.ffn_down.weight", WIDTH, INNER}};
    static const char *const archs[] = {"llama", "qwen2", "gemma2", "phi3", "gpt2"};
    static const struct {
        const char *name;
        uint64_t v;
        int type;
    } more[] = {{"feed_forward_length", INNER, GGUF_U32},
                {"rope.freq_base", 0x461c4000, GGUF_F32},
                {"attention.layer_norm_rms_epsilon", 0x3727c5ac, GGUF_F32},
                {"rope.dimension_count", WIDTH, GGUF_U32},
                {"attention.head_count_kv", 1, GGUF_U32},
                {"attention.sliding_window", 2, GGUF_U32},
                {"expert_count", 0, GGUF_U32},
                {"rope.scaling.factor", 0x40000000, GGUF_F32},
                {"attention.key_length", WIDTH, GGUF_U32}};
    static const char *const needed[] = {"embedding_length", "block_count", "attention.head_count",
                                         "context_length"};
    static const uint64_t values[] = {WIDTH, 1, 1, 8};
    const char *arch = archs[chance(90) ? 0 : below(COUNT_OF(archs))];
    char key[80];
    int64_t count = 0;
    uint64_t at = 0;
    add_text(b, "GGUF");
    add_number(b, 3, 4);
    add_number(b, COUNT_OF(part), 8);
    add_number(b, 0, 8);
    llm_text(b, "general.architecture", arch, &count);
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, needed[i]);
        llm_number(b, key, GGUF_U32, values[i], &count);
    }
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        if (i && chance(60)) continue;
        snprintf(key, sizeof key, "%s.%s", arch, more[i].name);
        llm_number(b, key, more[i].type, more[i].v, &count);
    }
    if (chance(80)) llm_vocabulary(b, &count);
    memcpy(b->at + 16, &count, sizeof count);
    for (size_t i = 0; i < COUNT_OF(part); i++)
        llm_tensor(b, part[i].name, part[i].rows, part[i].columns, &at);
    while (b->n % 32) add_number(b, 0, 1);
    for (; at > 0; at--) add_number(b, 0, 1);
    if (chance(50)) damage(b, 2);
}

#endif
