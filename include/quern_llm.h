/* quern_llm.h - language models that were trained elsewhere: a GGUF file, or a folder with
 * config.json, safetensors and tokenizer.json, as a model that continues texts. docs/llm.md lists
 * the architectures.
 *
 *     qn_llm *m = qn_llm_open(qn, "model.gguf", NULL);
 *     const int32_t *ids;
 *     int64_t n = qn_llm_encode(m, "Once upon", 9, &ids);
 *     n = qn_llm_generate(m, n, ids, &QN_LLM_GENERATE(.most = 100, .piece = print), NULL);
 *     qn_llm_close(m);
 *
 * A model keeps the keys and values of what it has read, its cache, so each token is computed once.
 * The first tokens compile its kernels; from then on nothing is compiled, whatever the prompts. */
#ifndef QUERN_LLM_H
#define QUERN_LLM_H

#include <quern_text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- language models -------------------------------------------------------------------- */

typedef struct qn_llm qn_llm;

/* What a model has learned since: low-rank matrices beside its own (LoRA, Hu et al. 2021). A GGUF
 * file of type "adapter", or a folder with adapter_config.json and adapter_model.safetensors. */
typedef struct qn_llm_adapter {
    const char *path;
    double scale; /* times the file's own; 0: 1 */
} qn_llm_adapter;

typedef struct qn_llm_options {
    size_t size;             /* QN_LLM_OPTIONS() */
    int64_t context;         /* tokens that the cache holds; 0: what the model says, 4096 at most */
    int64_t chunk;           /* tokens that are read at once, from 2 to 4096; 0: 128, or 256 where
                              * activation_bits is 8 */
    bool half;               /* the cache is f16, not f32, as by cache_bits = 16 */
    int64_t caches;          /* how many texts it can have read at a time, to 1024; 0: 1 */
    bool copied;             /* weights are read into memory, not mapped */
    int64_t activation_bits; /* 8: what weights in blocks are multiplied with is rounded to bytes,
                              * by blocks of 32: for tokens, of one text or several that are made
                              * together, and for chunks of a prompt. Faster, and other
                              * logits (docs/llm.md); 0: f32 */
    int64_t cache_bits;      /* of a number in the cache: 32 or 16, floats; 8, whole numbers in
                              * blocks of 32 with an f16 each, as q8_0 has them; 4, the same of rows
                              * that are multiplied by a Hadamard matrix, for which the width of a
                              * head must be a power of two. 0: 32, or 16 where `half` is set */
    int adapters; /* their products are added to those of the model's matrices, which stay as they
                   * are */
    const qn_llm_adapter *adapter;
    int64_t pool; /* tokens that all caches hold together, each page of 32 given to the text that
                   * needs it; what texts have in common at their beginning is there once. Where
                   * none is free, texts that were made and are over are forgotten, the longest over
                   * first. 0: as many as each of them can hold */
} qn_llm_options;
#define QN_LLM_OPTIONS(...) QN_STRUCT(qn_llm_options, __VA_ARGS__)

/* A model of a GGUF file, a safetensors file beside its config.json, or a folder of such. Weights
 * stay as the file has them, in blocks or f16, and become f32 inside the kernels. They lie in the
 * file, which is mapped (qn_archive_open_with) and must stay as it is, but for `copied`. `options`
 * may be NULL. NULL: QN_EIO; QN_EFORMAT where a file is damaged, the architecture is not known, a
 * size is absurd, or a tensor is missing or of another shape than the sizes ask for, with its name
 * and both shapes; or where an adapter has one that is beside none of the model's, or asks for what
 * is not known; QN_ERANGE for options. */
QN_API qn_llm *qn_llm_open(qn_ctx *qn, const char *path, const qn_llm_options *options);
QN_API void qn_llm_close(qn_llm *m);

typedef struct qn_llm_info {
    char architecture[32];
    int64_t vocabulary, width, layers, heads, kv_heads, head; /* the size of a head */
    int64_t context;                                          /* of the cache */
    int64_t trained;                                          /* what the model was made for */
    uint64_t parameters, bytes;                               /* of the weights */
    bool chat;                                                /* is there a template? */
    int64_t page, pages, pages_used; /* tokens of a page; pages of all caches, and those that some
                                      * text is in */
} qn_llm_info;
QN_API qn_code qn_llm_get_info(const qn_llm *m, qn_llm_info *out, size_t size);

/* The model's tokenizer, which lives as long as it does; NULL without an error: it has none. */
QN_API qn_tokenizer *qn_llm_tokenizer(const qn_llm *m);
/* Ids of a text with what the model puts before it, as qn_tokenizer_encode. */
QN_API int64_t qn_llm_encode(qn_llm *m, const char *text, size_t size, const int32_t **ids);
/* Ids of a conversation, the JSON list [{"role": "user", "content": ".."}, ..], by the model's
 * template, up to where the answer is to begin; valid until the next call. -1, QN_EARG: it has no
 * template or no tokenizer; what the template raises. */
QN_API int64_t qn_llm_encode_chat(qn_llm *m, const char *messages, size_t size,
                                  const int32_t **ids);
/* Does this token end a text or a turn? */
QN_API bool qn_llm_ends(const qn_llm *m, int32_t id);

/* Read n tokens behind those in the cache. *logits, unless NULL: [vocabulary] of f32, what may
 * follow the last one, valid until the next call; of no new tokens those behind the last one in the
 * cache. QN_ERANGE: an id that is none, no room in the cache, or logits where there is no token;
 * the cache is as it was then. */
QN_API qn_code qn_llm_feed(qn_llm *m, int64_t n, const int32_t *ids, const float **logits);
/* How many tokens are in the cache, and which: valid until the next call. */
QN_API int64_t qn_llm_read(const qn_llm *m, const int32_t **ids);
/* Forget all but the first n tokens of the cache. QN_ERANGE: there are fewer. */
QN_API qn_code qn_llm_rewind(qn_llm *m, int64_t n);
/* Which of the model's caches the calls are about from now on, from 0 to caches - 1; at first 0.
 * Each holds a text of its own, at the cost of its memory alone: weights, kernels and plans are the
 * model's. QN_ERANGE: there is none of that number. */
QN_API qn_code qn_llm_select(qn_llm *m, int64_t cache);
/* Into *nll the sum of -log p of tokens 1 to n - 1, each given those before it: perplexity is
 * e^(nll / (n - 1)). Texts longer than the cache are read in parts of its size, each of which
 * begins anew with the last token of the one before. The cache is empty afterwards. */
QN_API qn_code qn_llm_score(qn_llm *m, int64_t n, const int32_t *ids, double *nll);
/* The mean of the last layer's normalised output over n tokens, [width], into out. The cache is
 * empty afterwards. */
QN_API qn_code qn_llm_embed(qn_llm *m, int64_t n, const int32_t *ids, float *out);

/* ---- choosing tokens -------------------------------------------------------------------- */

/* How the next token is chosen: penalties, then the k likeliest, the least probability, the nucleus
 * of top_p, then by chance at a temperature. What is 0 is off. */
typedef struct qn_sample_options {
    size_t size;        /* QN_SAMPLE_OPTIONS() */
    double temperature; /* 0: always the likeliest */
    int64_t top_k;
    double top_p, min_p; /* min_p: times the likeliest's probability */
    double repetition;   /* logits of tokens that were there are divided by it, or multiplied below
                          * 0 (Keskar et al. 2019) */
    double presence, frequency; /* taken off such logits, once; for each time */
    int64_t last;               /* how many tokens back penalties look; 0: 64 */
    uint64_t seed;              /* the same seed gives the same tokens */
} qn_sample_options;
#define QN_SAMPLE_OPTIONS(...) QN_STRUCT(qn_sample_options, __VA_ARGS__)
/* The token to follow n_past tokens, of n logits; the choice by chance is a function of the seed
 * and n_past alone. options may be NULL: the likeliest. -1 on error; QN_EARG: logits that are all
 * NaN or minus infinity, an option out of range, with its value. */
QN_API int32_t qn_sample(qn_ctx *qn, int64_t n, const float *logits, int64_t n_past,
                         const int32_t *past, const qn_sample_options *options);

typedef struct qn_llm_generate_options {
    size_t size;                     /* QN_LLM_GENERATE() */
    int64_t most;                    /* tokens; 0: as many as the cache has room for */
    const qn_sample_options *sample; /* NULL: the likeliest */
    int stops;                       /* texts that end it, and are not given out */
    const char *const *stop;
    bool ignore_end; /* go on behind tokens that end a text */
    /* Receives the text in pieces of whole characters as soon as they are known, `size` bytes with
     * a zero behind; false ends it. It must not use the model. NULL: nobody is told. */
    bool (*piece)(void *arg, const char *text, size_t size);
    void *arg;
    /* So many tokens, to 15, are guessed where the last ones were in the text before, and read with
     * the last one at once. The text is the same but for the last bits of logits; one that repeats
     * itself, or its prompt, takes fewer steps. Mixtures of experts and activation_bits: none. */
    int64_t guesses;
    /* What the text must match: a grammar in GBNF, or a JSON schema, as docs/llm.md has them; one
     * of them, or NULL. Tokens that cannot go on so are not chosen, those that end a text only
     * where it may end; where nothing may follow it ends by itself (QN_LLM_ENDED). A text that
     * `most`, a full cache, `stop` or `piece` ends is the beginning of one that matches. */
    const char *grammar, *schema;
    int64_t matched; /* so many tokens at the prompt's end are the text's beginning */
} qn_llm_generate_options;
#define QN_LLM_GENERATE(...) QN_STRUCT(qn_llm_generate_options, __VA_ARGS__)
/* Read n tokens, then go on with the model's own: how many there are, and which into *out unless
 * NULL, valid until the next call. A token that ended it is not among them, nor in the cache. What
 * the beginning of the prompt has in common with the cache is not read again. -1 on error;
 * QN_EFORMAT: a grammar or a schema that is none, or asks for what is not known, with the line and
 * the column; QN_ERANGE: one by which a text can be read in too many ways; QN_EARG: a tokenizer
 * whose tokens have no texts of their own, a `matched` part that does not match, no token that
 * could follow. */
QN_API int64_t qn_llm_generate(qn_llm *m, int64_t n, const int32_t *ids,
                               const qn_llm_generate_options *options, const int32_t **out);

/* The same in steps, so that a program can do other things between them, or go on with the text of
 * another cache (qn_llm_select). */
typedef enum qn_llm_state {
    QN_LLM_READS = 0,   /* a part of the prompt was read */
    QN_LLM_WRITES = 1,  /* a token was made */
    QN_LLM_ENDED = 2,   /* the model ended the text */
    QN_LLM_STOPPED = 3, /* a text of `stop` came */
    QN_LLM_FULL = 4,    /* there are as many tokens as were wanted, or as there is room for */
    QN_LLM_LEFT = 5,    /* `piece` ended it */
    QN_LLM_FAILED = 6   /* an error ended it */
} qn_llm_state;
typedef struct qn_llm_progress {
    qn_llm_state state;
    int64_t kept;       /* tokens of the prompt that were in the cache already */
    int64_t made;       /* tokens; one that ended it is none */
    const int32_t *ids; /* which: valid until the next text is begun in this cache */
} qn_llm_progress;
/* Begin a text in the selected cache; arguments and errors are those of qn_llm_generate. */
QN_API qn_code qn_llm_begin(qn_llm *m, int64_t n, const int32_t *ids,
                            const qn_llm_generate_options *options);
/* Read a chunk of the prompt at most, or make a token, of the selected cache's text; several where
 * guesses were right. QN_EARG: there is none, it is over, or another call changed the cache. After
 * another error it is over, too. */
QN_API qn_code qn_llm_step(qn_llm *m, qn_llm_progress *out, size_t size);
/* A step of the text of each of n caches, whichever is selected, into out [n], `size` bytes each.
 * Those that make a token make it together, 32 at a time: weights are read once for all of them, so
 * that many texts take little longer than one (but for mixtures of experts). Their logits are those
 * of qn_llm_step but for the last bits. QN_EARG: a cache is given twice, or as qn_llm_step; nothing
 * was done. Other errors are of the texts whose state is QN_LLM_FAILED; the rest have gone on. */
QN_API qn_code qn_llm_step_many(qn_llm *m, int64_t n, const int64_t *caches, qn_llm_progress *out,
                                size_t size);

#ifdef __cplusplus
}
#endif

#endif
