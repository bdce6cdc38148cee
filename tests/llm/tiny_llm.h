/* tiny_llm.h - language models of a few thousand numbers, by a seed: written as a GGUF file or a
 * folder of safetensors, and computed in plain loops of double precision, token after token, with
 * nothing kept from one to the next. */
#ifndef TINY_LLM_H
#define TINY_LLM_H

#include <sys/stat.h>

#include "folder.h"
#include "quern_archive.h"
#include "quern_llm.h"
#include "test.h"

enum { T_VOCABULARY = 260, T_WIDTH = 32, T_LAYERS = 3, T_HEADS = 4, T_SHARED = 2, T_HEAD = 8 };
enum { T_INNER = 64, T_WINDOW = 6, T_QUERIES = T_HEADS * T_HEAD, T_KEYS = T_SHARED * T_HEAD };
enum { T_EXPERTS = 5, T_CHOSEN = 2 };
enum { T_TRAINED = 128, T_MOST = 64 };

typedef struct tiny_matrix {
    char name[80];
    int rows, columns; /* columns 0: a vector */
    float *data;
} tiny_matrix;

enum tiny_place {
    T_ATTN_NORM,
    T_Q,
    T_K,
    T_V,
    T_OUT,
    T_POST_ATTN,
    T_FFN_NORM,
    T_GATE,
    T_UP,
    T_DOWN,
    T_POST_FFN,
    T_ROUTER,
    T_PARTS,
    T_ENDS = 3,
    T_ALL = T_ENDS + T_LAYERS * T_PARTS
};

/* gemma: as Gemma 2 of safetensors, else as Llama of a GGUF file. */
typedef struct tiny {
    bool gemma, narrow;   /* narrow: matrices of f8, of safetensors */
    bool experts;         /* inner layers are mixtures: matrices one below the other */
    double slower;        /* positions are divided by it; 0: they are not */
    int bits;             /* of the cache; 0: all of a double's */
    tiny_matrix m[T_ALL]; /* embed, norm, output (not of gemma), then layer by layer */
} tiny;

static inline tiny_matrix *tiny_part(tiny *t, int layer, int part) {
    return &t->m[T_ENDS + layer * T_PARTS + part];
}

static inline void tiny_set(tiny_matrix *m, int rows, int columns, uint64_t *seed) {
    m->rows = rows;
    m->columns = columns;
    size_t n = (size_t)rows * (size_t)(columns ? columns : 1);
    m->data = malloc(n * sizeof *m->data);
    for (size_t i = 0; i < n; i++) {
        double u = 2 * test_uniform(seed) - 1;
        m->data[i] = (float)(columns ? u * 0.45 : 1 + u * 0.3);
    }
}

static inline void tiny_make(tiny *t, bool gemma, uint64_t seed) {
    static const struct {
        int rows, columns;
        const char *gguf, *gemma;
    } part[T_PARTS] = {
        {T_WIDTH, 0, "attn_norm", "input_layernorm"},
        {T_QUERIES, T_WIDTH, "attn_q", "self_attn.q_proj"},
        {T_KEYS, T_WIDTH, "attn_k", "self_attn.k_proj"},
        {T_KEYS, T_WIDTH, "attn_v", "self_attn.v_proj"},
        {T_WIDTH, T_QUERIES, "attn_output", "self_attn.o_proj"},
        {T_WIDTH, 0, NULL, "post_attention_layernorm"},
        {T_WIDTH, 0, "ffn_norm", "pre_feedforward_layernorm"},
        {T_INNER, T_WIDTH, "ffn_gate", "mlp.gate_proj"},
        {T_INNER, T_WIDTH, "ffn_up", "mlp.up_proj"},
        {T_WIDTH, T_INNER, "ffn_down", "mlp.down_proj"},
        {T_WIDTH, 0, NULL, "post_feedforward_layernorm"},
        {T_EXPERTS, T_WIDTH, NULL, NULL},
    };
    memset(t, 0, sizeof *t);
    t->gemma = gemma;
    tiny_set(&t->m[0], T_VOCABULARY, T_WIDTH, &seed);
    tiny_set(&t->m[1], T_WIDTH, 0, &seed);
    strcpy(t->m[0].name, gemma ? "model.embed_tokens.weight" : "token_embd.weight");
    strcpy(t->m[1].name, gemma ? "model.norm.weight" : "output_norm.weight");
    if (!gemma) tiny_set(&t->m[2], T_VOCABULARY, T_WIDTH, &seed);
    strcpy(t->m[2].name, "output.weight");
    for (int l = 0; l < T_LAYERS; l++)
        for (int p = 0; p < T_PARTS; p++) {
            tiny_matrix *m = tiny_part(t, l, p);
            const char *name = gemma ? part[p].gemma : part[p].gguf;
            if (!name) continue;
            tiny_set(m, part[p].rows, part[p].columns, &seed);
            snprintf(m->name, sizeof m->name,
                     gemma ? "model.layers.%d.%s.weight" : "blk.%d.%s.weight", l, name);
        }
}

/* The same with mixtures in place of inner layers. */
static inline void tiny_mix(tiny *t) {
    static const struct {
        int part, rows, columns;
        const char *name;
    } rows[] = {{T_GATE, T_EXPERTS * T_INNER, T_WIDTH, "gate_exps"},
                {T_UP, T_EXPERTS * T_INNER, T_WIDTH, "up_exps"},
                {T_DOWN, T_EXPERTS * T_WIDTH, T_INNER, "down_exps"},
                {T_ROUTER, T_EXPERTS, T_WIDTH, "gate_inp"}};
    uint64_t seed = 11;
    t->experts = true;
    for (int l = 0; l < T_LAYERS; l++)
        for (int i = 0; i < 4; i++) {
            tiny_matrix *m = tiny_part(t, l, rows[i].part);
            free(m->data);
            tiny_set(m, rows[i].rows, rows[i].columns, &seed);
            snprintf(m->name, sizeof m->name, "blk.%d.ffn_%s.weight", l, rows[i].name);
        }
}

static inline void tiny_free(tiny *t) {
    for (int i = 0; i < T_ALL; i++) free(t->m[i].data);
}

/* ---- in plain loops -------------------------------------------------------------------------- */

static inline void tiny_times(const tiny_matrix *m, const double *x, double *y) {
    for (int r = 0; r < m->rows; r++) {
        y[r] = 0;
        for (int c = 0; c < m->columns; c++) y[r] += (double)m->data[r * m->columns + c] * x[c];
    }
}

static inline void tiny_norm(const tiny *t, const tiny_matrix *m, const double *x, double *y) {
    double square = 0;
    for (int i = 0; i < T_WIDTH; i++) square += x[i] * x[i] / T_WIDTH;
    for (int i = 0; i < T_WIDTH; i++)
        y[i] = x[i] / sqrt(square + 1e-5) * ((double)m->data[i] + (t->gemma ? 1 : 0));
}

/* Llama's pairs lie side by side in a GGUF file, Gemma's half a head apart. */
static inline void tiny_rotate(const tiny *t, double *x, int heads, int place) {
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < T_HEAD / 2; i++) {
            double at = t->slower > 0 ? place / t->slower : place;
            double angle = at * pow(10000, -2.0 * i / T_HEAD), c = cos(angle), s = sin(angle);
            double *a = x + h * T_HEAD + (t->gemma ? i : 2 * i),
                   *b = a + (t->gemma ? T_HEAD / 2 : 1);
            double turned = *a * c - *b * s;
            *b = *a * s + *b * c;
            *a = turned;
        }
}

/* To the nearest f16. */
static inline double tiny_f16(double x) {
    int e;
    frexp(x, &e);
    const int last = (e < -13 ? -13 : e) - 11;
    return ldexp(nearbyint(ldexp(x, -last)), last);
}

/* A row times a Hadamard matrix, by butterflies. */
static inline void tiny_turn(double *x) {
    for (int far = 1; far < T_HEAD; far *= 2)
        for (int i = 0; i < T_HEAD; i++)
            if (!(i & far)) {
                const double a = x[i], b = x[i + far];
                x[i] = (a + b) / sqrt(2);
                x[i + far] = (a - b) / sqrt(2);
            }
}

/* A new row of keys or values as a cache of few bits has it: a block for each head, whose largest
 * number is 127, or -8 of numbers that are turned before they are rounded. */
static inline void tiny_round(const tiny *t, double *x) {
    for (int h = 0; h < (t->bits ? T_SHARED : 0); h++, x += T_HEAD) {
        double most = 0;
        if (t->bits == 4) tiny_turn(x);
        for (int i = 0; i < T_HEAD; i++)
            if (fabs(x[i]) > fabs(most)) most = x[i];
        const double d = tiny_f16(t->bits == 8 ? fabs(most) / 127 : most / -8);
        const double least = t->bits == 8 ? -127 : -8, top = t->bits == 8 ? 127 : 7;
        for (int i = 0; i < T_HEAD; i++)
            x[i] = d == 0 ? 0 : fmax(least, fmin(top, nearbyint(x[i] / d))) * d;
        if (t->bits == 4) tiny_turn(x);
    }
}

/* One head of the last of n tokens. */
static inline void tiny_attend(const tiny *t, int layer, int n, const double *q,
                               const double (*k)[T_KEYS], const double (*v)[T_KEYS], double *out) {
    double score[T_MOST], most = -INFINITY, sum = 0;
    int first = t->gemma && layer % 2 == 0 && n > T_WINDOW ? n - T_WINDOW : 0;
    for (int j = first; j < n; j++) {
        score[j] = 0;
        for (int i = 0; i < T_HEAD; i++) score[j] += q[i] * k[j][i];
        score[j] /= t->gemma ? sqrt(20) : sqrt(T_HEAD);
        if (t->gemma) score[j] = 50 * tanh(score[j] / 50);
        most = fmax(most, score[j]);
    }
    for (int j = first; j < n; j++) sum += exp(score[j] - most);
    for (int i = 0; i < T_HEAD; i++) {
        out[i] = 0;
        for (int j = first; j < n; j++) out[i] += exp(score[j] - most) / sum * v[j][i];
    }
}

static inline double tiny_gate(const tiny *t, double x) {
    return t->gemma ? 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
                    : x / (1 + exp(-x));
}

static inline void tiny_add(const tiny *t, const tiny_matrix *post, double *x, double *y) {
    double z[T_WIDTH];
    if (t->gemma) tiny_norm(t, post, y, z);
    for (int i = 0; i < T_WIDTH; i++) x[i] += t->gemma ? z[i] : y[i];
}

/* y becomes what a layer makes of it, by expert `e`. */
static inline void tiny_inner(tiny *t, int l, int e, double *y) {
    double gate[T_INNER], up[T_INNER];
    tiny_matrix m[3] = {*tiny_part(t, l, T_GATE), *tiny_part(t, l, T_UP), *tiny_part(t, l, T_DOWN)};
    for (int i = 0; i < 3; i++) {
        m[i].rows = i < 2 ? T_INNER : T_WIDTH;
        m[i].data += e * m[i].rows * m[i].columns;
    }
    tiny_times(&m[0], y, gate);
    tiny_times(&m[1], y, up);
    for (int i = 0; i < T_INNER; i++) gate[i] = tiny_gate(t, gate[i]) * up[i];
    tiny_times(&m[2], gate, y);
}

static inline void tiny_mixture(tiny *t, int l, double *y) {
    double share[T_EXPERTS], sum = 0, all[T_WIDTH] = {0}, own[T_WIDTH];
    tiny_times(tiny_part(t, l, T_ROUTER), y, share);
    for (int e = 0; e < T_EXPERTS; e++) {
        int before = 0; /* that have more */
        for (int k = 0; k < T_EXPERTS; k++) before += share[k] > share[e];
        if (before >= T_CHOSEN) continue;
        memcpy(own, y, sizeof own);
        tiny_inner(t, l, e, own);
        sum += exp(share[e]);
        for (int i = 0; i < T_WIDTH; i++) all[i] += exp(share[e]) * own[i];
    }
    for (int i = 0; i < T_WIDTH; i++) y[i] = all[i] / sum;
}

/* hidden: the last norm's output of each token, [n][T_WIDTH]. */
static inline void tiny_hidden(tiny *t, int n, const int32_t *ids, double (*hidden)[T_WIDTH]) {
    static double x[T_MOST][T_WIDTH], k[T_MOST][T_KEYS], v[T_MOST][T_KEYS];
    double y[T_WIDTH], q[T_QUERIES], all[T_QUERIES];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < T_WIDTH; i++)
            x[j][i] = (double)t->m[0].data[ids[j] * T_WIDTH + i] * (t->gemma ? sqrt(T_WIDTH) : 1);
    for (int l = 0; l < T_LAYERS; l++)
        for (int j = 0; j < n; j++) {
            tiny_norm(t, tiny_part(t, l, T_ATTN_NORM), x[j], y);
            tiny_times(tiny_part(t, l, T_Q), y, q);
            tiny_times(tiny_part(t, l, T_K), y, k[j]);
            tiny_times(tiny_part(t, l, T_V), y, v[j]);
            tiny_rotate(t, q, T_HEADS, j);
            tiny_rotate(t, k[j], T_SHARED, j);
            tiny_round(t, k[j]);
            tiny_round(t, v[j]);
            for (int h = 0; h < T_HEADS; h++) {
                int from = h / (T_HEADS / T_SHARED) * T_HEAD;
                tiny_attend(t, l, j + 1, q + h * T_HEAD, (const double(*)[T_KEYS])(&k[0][from]),
                            (const double(*)[T_KEYS])(&v[0][from]), all + h * T_HEAD);
            }
            tiny_times(tiny_part(t, l, T_OUT), all, y);
            tiny_add(t, tiny_part(t, l, T_POST_ATTN), x[j], y);
            tiny_norm(t, tiny_part(t, l, T_FFN_NORM), x[j], y);
            if (t->experts)
                tiny_mixture(t, l, y);
            else
                tiny_inner(t, l, 0, y);
            tiny_add(t, tiny_part(t, l, T_POST_FFN), x[j], y);
        }
    for (int j = 0; j < n; j++) tiny_norm(t, &t->m[1], x[j], hidden[j]);
}

/* logits: behind each token, [n][T_VOCABULARY]. */
static inline void tiny_logits(tiny *t, int n, const int32_t *ids, double (*logits)[T_VOCABULARY]) {
    static double hidden[T_MOST][T_WIDTH];
    tiny_hidden(t, n, ids, hidden);
    for (int j = 0; j < n; j++) {
        tiny_times(&t->m[t->gemma ? 0 : 2], hidden[j], logits[j]);
        for (int i = 0; t->gemma && i < T_VOCABULARY; i++)
            logits[j][i] = 30 * tanh(logits[j][i] / 30);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct tiny_file {
    unsigned char *data;
    size_t n, cap;
} tiny_file;

static inline void put(tiny_file *f, const void *data, size_t n) {
    if (f->n + n > f->cap) f->data = realloc(f->data, f->cap = 2 * (f->n + n));
    memcpy(f->data + f->n, data, n);
    f->n += n;
}
static inline void put_number(tiny_file *f, uint64_t v, size_t bytes) {
    put(f, &v, bytes);
}
static inline void put_text(tiny_file *f, const char *text) {
    put_number(f, strlen(text), 8);
    put(f, text, strlen(text));
}
static inline void put_whole(tiny_file *f, const char *key, uint32_t v) {
    put_text(f, key);
    put_number(f, 4, 4);
    put_number(f, v, 4);
}
static inline void put_real(tiny_file *f, const char *key, float v) {
    put_text(f, key);
    put_number(f, 6, 4);
    put(f, &v, 4);
}
static inline void put_words(tiny_file *f, const char *key, const char *text) {
    put_text(f, key);
    put_number(f, 8, 4);
    put_text(f, text);
}

/* What is changed of a file: of metadata a number; of a tensor its rows, or its name. */
typedef struct tiny_change {
    const char *key, *architecture;
    uint32_t number;
    bool as_text;
    const char *tensor;
    int more_rows;
    bool left_out;
    int type;         /* of matrices: 1 is f16, 8 is q8_0 */
    const char *real; /* one more number of metadata, */
    float value;      /* which is this */
    bool pieces;      /* a vocabulary of SentencePiece's kind, with bytes */
    int fewer;        /* tokens than rows */
    bool experts;     /* its inner layers are mixtures, */
    uint32_t chosen;  /* of so many; 0: T_CHOSEN */
} tiny_change;

/* GPT-2's characters for bytes, or bytes, and four more tokens. */
static inline void put_tokens(tiny_file *f, const tiny_change *change) {
    static const char *const more[] = {"<eos>", "ab", "<|end|>", "zz"};
    static const char *const pieces[] = {"<eos>",
                                         "\xe2\x96\x81"
                                         "a",
                                         "<|end|>",
                                         "\xe2\x96\x81"
                                         "b"};
    const int n = T_VOCABULARY - change->fewer;
    put_text(f, "tokenizer.ggml.tokens");
    put_number(f, 9, 4);
    put_number(f, 8, 4);
    put_number(f, (uint64_t)n, 8);
    for (int i = 0, shifted = 0; i < 256; i++) {
        bool plain = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        int c = plain ? i : 256 + shifted++;
        char text[8] = {(char)c, 0, 0};
        if (change->pieces)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)i & 255);
        else if (c >= 128)
            text[0] = (char)(0xc0 | c >> 6), text[1] = (char)(0x80 | (c & 63));
        put_text(f, text);
    }
    for (int i = 0; i < n - 256; i++) put_text(f, change->pieces ? pieces[i] : more[i]);
    put_text(f, "tokenizer.ggml.token_type");
    put_number(f, 9, 4);
    put_number(f, 5, 4);
    put_number(f, (uint64_t)n, 8);
    for (int i = 0; i < n; i++)
        put_number(f, i == 256 || i == 258 ? 3 : change->pieces && i < 256 ? 6 : 1, 4);
    if (change->pieces) {
        put_text(f, "tokenizer.ggml.scores");
        put_number(f, 9, 4);
        put_number(f, 6, 4);
        put_number(f, (uint64_t)n, 8);
        for (int i = 0; i < n; i++) put_number(f, 0, 4);
    }
    put_text(f, "tokenizer.ggml.merges");
    put_number(f, 9, 4);
    put_number(f, 8, 4);
    put_number(f, 1, 8);
    put_text(f, "a b");
}

static inline void put_metadata(tiny_file *f, const tiny_change *c) {
    static const struct {
        const char *key;
        uint32_t v;
    } rows[] = {
        {"llama.context_length", T_TRAINED},     {"llama.embedding_length", T_WIDTH},
        {"llama.block_count", T_LAYERS},         {"llama.feed_forward_length", T_INNER},
        {"llama.attention.head_count", T_HEADS}, {"llama.attention.head_count_kv", T_SHARED},
        {"llama.attention.key_length", T_HEAD},  {"llama.rope.dimension_count", T_HEAD},
        {"tokenizer.ggml.eos_token_id", 256}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool changed = c->key && !strcmp(c->key, rows[i].key);
        if (changed && c->as_text)
            put_words(f, rows[i].key, "many");
        else
            put_whole(f, rows[i].key, changed ? c->number : rows[i].v);
    }
    put_words(f, "general.architecture", c->architecture ? c->architecture : "llama");
    put_real(f, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_words(f, "tokenizer.ggml.model", c->pieces ? "llama" : "gpt2");
    put_words(f, "tokenizer.ggml.pre", "gpt-2");
    put_words(f, "tokenizer.chat_template",
              "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ 'a:' if "
              "add_generation_prompt }}");
    put_tokens(f, c);
    if (c->real) put_real(f, c->real, c->value);
    if (c->experts) put_whole(f, "llama.expert_count", T_EXPERTS);
    if (c->experts) put_whole(f, "llama.expert_used_count", c->chosen ? c->chosen : T_CHOSEN);
}
enum { T_PAIRS = 9 + 2 + 3 + 3 };

/* Rows of q8_0 of f32, by the library that the tests of quant hold against GGUF's. */
static inline size_t tiny_bytes(const tiny_matrix *m, const tiny_change *c) {
    size_t n = (size_t)m->rows * (size_t)(m->columns ? m->columns : 1);
    return m->columns && c->type == 8 ? n / 32 * 34 : n * 4;
}

static inline void put_blocks(tiny_file *f, qn_ctx *qn, const tiny_matrix *m,
                              const tiny_change *c) {
    size_t bytes = tiny_bytes(m, c);
    void *data = malloc(bytes);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (const int64_t[]){m->rows, m->columns}, m->data);
    qn_tensor *y = qn_quantize(x, QN_Q8_0), *back = qn_dequantize(y, QN_Q8_0);
    CHECK_INT(qn_read(y, data, bytes), QN_OK);
    CHECK_INT(qn_read(back, m->data, (size_t)(m->rows * m->columns) * 4), QN_OK);
    put(f, data, bytes);
    free(data);
    qn_release(x);
    qn_release(y);
    qn_release(back);
}

/* With blocks the model's values become those of the blocks. */
static inline tiny_file tiny_gguf(tiny *t, const tiny_change *change, qn_ctx *qn) {
    static const tiny_change none;
    const tiny_change *c = change ? change : &none;
    tiny_file f = {0};
    uint64_t count = 0, offset = 0;
    for (int i = 0; i < T_ALL; i++)
        count += t->m[i].data && !(c->left_out && !strcmp(c->tensor, t->m[i].name));
    put(&f, "GGUF\3\0\0\0", 8);
    put_number(&f, count, 8);
    put_number(&f, T_PAIRS + (c->real != NULL) + c->pieces + (c->experts ? 2 : 0), 8);
    put_metadata(&f, c);
    for (int i = 0; i < T_ALL; i++) {
        const tiny_matrix *m = &t->m[i];
        bool mine = c->tensor && !strcmp(c->tensor, m->name);
        if (!m->data || (mine && c->left_out)) continue;
        put_text(&f, m->name);
        int many = strstr(m->name, "_exps") ? T_EXPERTS : 1;
        put_number(&f, many > 1 ? 3 : m->columns ? 2 : 1, 4);
        if (m->columns) put_number(&f, (uint64_t)m->columns, 8);
        put_number(&f, (uint64_t)(m->rows / many + (mine ? c->more_rows : 0)), 8);
        if (many > 1) put_number(&f, (uint64_t)many, 8);
        put_number(&f, m->columns && c->type == 8 ? 8 : 0, 4);
        put_number(&f, offset, 8);
        offset += (tiny_bytes(m, c) + 1024) / 32 * 32; /* room for more rows */
    }
    while (f.n % 32) put_number(&f, 0, 1);
    for (int i = 0; i < T_ALL; i++) {
        tiny_matrix *m = &t->m[i];
        bool mine = c->tensor && !strcmp(c->tensor, m->name);
        size_t from = f.n;
        if (!m->data || (mine && c->left_out)) continue;
        if (m->columns && c->type == 8)
            put_blocks(&f, qn, m, c);
        else
            put(&f, m->data, tiny_bytes(m, c));
        while (f.n - from < (tiny_bytes(m, c) + 1024) / 32 * 32) put_number(&f, 0, 1);
    }
    return f;
}

static inline void tiny_write(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, n, f) == n);
    if (f) fclose(f);
}

#define TINY_GEMMA                                                                                 \
    "{\"model_type\":\"gemma2\",\"hidden_size\":32,\"num_hidden_layers\":3,"                       \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,\"intermediate_size\":64," \
    "\"max_position_embeddings\":128,\"vocab_size\":260,\"rms_norm_eps\":1e-5,"                    \
    "\"rope_theta\":10000.0,\"sliding_window\":6,\"attn_logit_softcapping\":50.0,"                 \
    "\"final_logit_softcapping\":30.0,\"query_pre_attn_scalar\":20,"                               \
    "\"hidden_activation\":\"gelu_pytorch_tanh\",\"eos_token_id\":[256, 258]}"

/* A folder with model.safetensors and config.json. */
static inline void tiny_folder(tiny *t, qn_ctx *qn, const char *into, const char *config) {
    char path[512];
    const char *name[T_ALL];
    qn_tensor *tensor[T_ALL];
    int n = 0;
    mkdir(into, 0700);
    qn_scope scope = qn_scope_begin(qn);
    for (int i = 0; i < T_ALL; i++) {
        const tiny_matrix *m = &t->m[i];
        if (!m->data) continue;
        name[n] = m->name;
        tensor[n++] = qn_from(qn, QN_F32, m->columns ? 2 : 1,
                              (const int64_t[]){m->rows, m->columns}, m->data);
        if (t->narrow && m->columns) tensor[n - 1] = qn_cast(tensor[n - 1], QN_F8_E4M3);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", into);
    CHECK_INT(qn_save(qn, path, n, name, tensor, NULL), QN_OK);
    qn_scope_end(qn, scope);
    snprintf(path, sizeof path, "%s/config.json", into);
    tiny_write(path, config, strlen(config));
}

/* ---- in a folder of the program's ------------------------------------------------------------ */

/* A model's file, by seed 7: Llama's, its change applied, or Gemma's folder. */
static inline qn_llm *open_tiny(qn_ctx *qn, tiny *t, bool gemma, const tiny_change *change,
                                const qn_llm_options *o) {
    tiny_make(t, gemma, 7);
    if (change && change->experts) tiny_mix(t);
    const char *path = in_folder(gemma ? "gemma" : "tiny.gguf");
    if (gemma) {
        tiny_folder(t, qn, path, TINY_GEMMA);
    } else {
        tiny_file f = tiny_gguf(t, change, qn);
        tiny_write(path, f.data, f.n);
        free(f.data);
    }
    return qn_llm_open(qn, path, o);
}

/* A call gave this code, and its error says so. */
static inline void tiny_refused(qn_ctx *qn, qn_code got, qn_code wanted, const char *text) {
    CHECK_INT(got, wanted);
    if (!strstr(qn_error(qn), text)) FAIL("%s has no %s", qn_error(qn), text);
    qn_clear_error(qn);
}

static inline bool folder_make(void) {
    strcpy(folder, "/tmp/quern_llm_XXXXXX");
    return mkdtemp(folder) != NULL;
}

static inline void folder_sweep(void) {
    char sweep[128];
    snprintf(sweep, sizeof sweep, "rm -rf %s", folder);
    if (system(sweep)) printf("%s stays\n", folder);
}

/* How far off they are, of the square of what is wanted. */
static inline double off(const float *got, const double *want) {
    double square = 0, all = 0;
    for (int i = 0; i < T_VOCABULARY; i++) {
        const double d = (double)got[i] - want[i];
        square += d * d;
        all += want[i] * want[i];
    }
    return square / all;
}

#endif
