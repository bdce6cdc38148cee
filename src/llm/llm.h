/* llm.h - language models of GGUF and safetensors files, by the public functions.
 *
 * An architecture is a row of archs.h, a weight one of slots.h, a hyper-parameter one of fields.h;
 * there is one function that records a model, forward.c, and it reads what the row says. A model
 * has a few static graphs, each made when it is first asked for: a token, a chunk of up to so many
 * tokens, one of few, a chunk with the losses of given tokens, one with the last layer's output.
 * Two variables, how many tokens are in the cache and how many come, make one graph serve all
 * lengths. Keys and values are tensors, a pair for each layer, into which the graphs write. */
#ifndef QN_LLM_H
#define QN_LLM_H

#include "io/io.h"
#include "quant/quant.h"
#include "quern_archive.h"
#include "quern_llm.h"
#include "text/text.h"

/* ---- archs.h --------------------------------------------------------------------------------- */

enum {
    ARCH_LAYER_NORM = 1, /* with mean and bias, not by the root mean square */
    ARCH_GATED = 2,      /* act(gate x) * up x */
    ARCH_GELU = 4,       /* tanh's, not silu */
    ARCH_PLACES = 8,     /* positions are learned rows, not rotations */
    ARCH_ONE_QKV = 16,   /* one matrix for three */
    ARCH_ONE_UP = 32,    /* gate and up are one matrix */
    ARCH_QK_NORM = 64,
    ARCH_POST_NORM = 128,   /* what a branch gives is normed, too */
    ARCH_SCALED = 256,      /* embeddings times sqrt(width) */
    ARCH_PLUS = 512,        /* safetensors hold a norm's weights less 1 */
    ARCH_PAIRS = 1024,      /* GGUF files hold rows of q and k in an order for pairs side by side */
    ARCH_TWO_THETAS = 2048, /* windows have rotations of their own */
    ARCH_ASKS = 4096,       /* windows only where use_sliding_window says so, of later layers */
    ARCH_EXPERTS = 8192,    /* inner layers are many, of which a router chooses a few */
    ARCH_PLAIN_EXPERTS =
        16384, /* their shares are of all in a config.json, without norm_topk_prob */
    ARCH_GEMMA = ARCH_GATED | ARCH_GELU | ARCH_POST_NORM | ARCH_SCALED | ARCH_PLUS,
    OPTIONAL = 1 << 20, /* in slots.h */
    STACKED = 1 << 21,  /* one for each expert, along one more axis or by # in its name */
};
typedef enum llm_scheme { SCHEME_GGUF, SCHEME_LLAMA, SCHEME_GEMMA, SCHEME_GPT2 } llm_scheme;
typedef struct llm_arch {
    const char *gguf, *hf;
    uint8_t scheme, pattern, large;
    uint32_t flags;
} llm_arch;

/* ---- config.c -------------------------------------------------------------------------------- */

enum { LLM_LAYERS_MOST = 1024 };

typedef enum llm_scaling { SCALING_NONE, SCALING_LINEAR, SCALING_LLAMA3, SCALING_YARN } llm_scaling;

/* Sizes of weights, by name. */
enum llm_size {
    DIM_ONE,
    DIM_WIDTH,
    DIM_VOCABULARY,
    DIM_TRAINED,
    DIM_HEAD,
    DIM_HALF,
    DIM_QUERIES,
    DIM_KEYS,
    DIM_THREE, /* queries, keys and values */
    DIM_INNER,
    DIM_TWICE,
    DIM_EXPERTS,
    DIM_EXPERT, /* the inner size of one */
    DIMS
};

typedef struct llm_config {
    const llm_arch *arch;
    /* Rows of fields.h; one that is not given is NaN. */
#define REAL(name, ...) double name;
#define WHOLE           REAL
#include "llm/fields.h"
#undef WHOLE
#undef REAL
    int64_t size[DIMS];
    int64_t heads, kv_heads, layers, window;
    llm_scaling scaling;
    double scale; /* of the scores */
    bool windowed[LLM_LAYERS_MOST];
    int64_t chosen;  /* experts of a token */
    bool shared;     /* their shares are divided by their sum */
    bool untied;     /* the output's matrix is not the embeddings */
    int32_t end[32]; /* tokens that end a text, as far as the configuration says */
    int ends;
} llm_config;

/* What a model is read from. */
typedef struct llm_source {
    qn_ctx *ctx;
    const char *path; /* for messages */
    qn_archive *archive;
    const json *json; /* config.json; NULL: the archive is a GGUF file */
    arena *a;
} llm_source;
QN_COLD QN_NORETURN void llm_bad(const llm_source *s, const char *fmt, ...) QN_PRINTF(2, 3);
/* A file's text, NULL: there is none; it raises what else is wrong. */
const char *llm_file(const llm_source *s, const char *folder, const char *name, size_t *size);
const json *llm_json(const llm_source *s, const char *folder, const char *name); /* or NULL */
void config_read(const llm_source *s, llm_config *c);
void end_add(llm_config *c, int64_t id); /* what is no id is left out */

/* ---- weights.c: rows of slots.h -------------------------------------------------------------- */

enum llm_slot {
#define X(NAME, ...) SLOT_##NAME,
#include "llm/slots.h"
#undef X
    SLOTS,
    SLOT_FIRST = SLOT_ATTN_NORM, /* of a layer */
};
typedef struct llm_weight {
    qn_tensor *t;      /* NULL: there is none */
    qn_tensor *scales; /* of blocks, beside them; NULL: they are not needed */
    bool halves;       /* they stand in the blocks, and `scales` is all of these as f16 */
    uint8_t quant;
    qn_tensor *down, *up; /* of adapters: f32 [rank, columns], [rows, rank]; NULL: there is none */
} llm_weight;

enum { CACHES_MOST = 1024 };
enum { BATCH_BITS = 5, BATCH_MOST = 1 << BATCH_BITS }; /* tokens that are computed together */

enum { PAGE = 32 }; /* tokens of a page */

/* Rows of keys or of values of a layer: floats, i8, or two numbers of 4 bits in a u8. In the pool
 * values are [kv_heads, pages * PAGE, head], and keys [kv_heads, pages * head * PAGE]: of a page of
 * these, a number of all of its rows lie side by side, as products with queries take them. */
typedef struct llm_rows {
    qn_tensor *t;
    qn_tensor *scales; /* of blocks of a row, f16; NULL: floats */
} llm_rows;

/* What a cache holds, and the text that is made in it. */
typedef struct llm_cache {
    int64_t held;             /* tokens, */
    int32_t *token;           /* which: [context] */
    int32_t *page;            /* where their rows are; */
    int64_t pages;            /* of how many pages */
    int64_t whole;            /* of the tokens, those whose rows are there until others are read */
    uint64_t used;            /* when it last took some */
    struct generation *going; /* or NULL; it may be over */
    bool fed;                 /* the caller has read on since, so it is not forgotten */
} llm_cache;

typedef enum llm_kind {
    GRAPH_TOKEN,
    GRAPH_CHUNK,
    GRAPH_LOSSES,
    GRAPH_HIDDEN,
    GRAPH_FEW, /* a chunk of few tokens */
    GRAPH_BATCH
} llm_kind;
/* Rows of GRAPH_FEW: products of so few share weights in registers, and make no panels of them
 * first. A model whose chunk is no longer has no such graph. */
enum { FEW_ROWS = 16 };

typedef struct llm {
    qn_ctx *ctx;
    arena a;
    llm_config config;
    bool gguf;   /* the file's kind */
    bool turned; /* matrices are [in, out] there */
    bool pairs;  /* rotated pairs lie side by side */
    llm_weight whole[SLOT_FIRST], (*layer)[SLOTS - SLOT_FIRST];
    llm_rows *keys, *values; /* of each layer */
    qn_tensor *turn;         /* [head, head]: what rows are multiplied with, or NULL */
    uint64_t parameters, bytes;
    qn_archive *adapter;    /* that is being read, or NULL */
    llm_cache *cache, *now; /* all of them; the selected one */
    int64_t caches;         /* how many */
    int64_t pages;          /* of the pool, from 1 */
    int32_t *users;         /* how many caches have a page in their tables */
    int32_t *free_page;     /* those that none has, */
    int64_t free_pages;     /* and how many these are */
    uint8_t *state;         /* of each page: see pages_spoil */
    int64_t foul;           /* pages that have to be written anew */
    uint64_t steps;         /* so far, for llm_cache.used */
    int64_t context, chunk; /* tokens: most, at once */
    int64_t cache_bits;     /* 32, 16, 8 or 4 */
    bool int8;
    int64_t past, length; /* variables */
    qn_plan *graph[GRAPH_BATCH];
    qn_plan *batch[BATCH_BITS + 1]; /* of 2^i tokens, of one text or of several */
    float *logits;                  /* [vocabulary] */
    float *batch_logits;            /* [BATCH_MOST, vocabulary]; NULL: there was no batch yet */
    double *speed, *local_speed;    /* [rotated / 2]: radians a token */
    double stretch;                 /* of rotated vectors */
    float *table[4];                /* of a chunk: cosines and sines, and of windows */
    int32_t *given;
    /* text */
    qn_tokenizer *tokenizer;
    qn_template *template; /* NULL: not parsed yet */
    const char *template_text;
    size_t template_size;
    const char *bos, *eos;         /* texts, for the template; "" where there is none */
    arena work;                    /* of a call, until the next one */
    const struct token_tree *tree; /* of the tokenizer; NULL: not made yet */
    struct automaton *machine;     /* of the last grammar, or NULL */
} llm;
void weights_read(llm *m, const llm_source *s);
void weights_free(llm *m);
/* The matrix of a name that rows are multiplied with as they come, and its slot; NULL: the model
 * has none. That of the output has no tensor where it is the embeddings. */
llm_weight *weight_named(llm *m, llm_scheme scheme, const char *name, int *slot);
void weight_shape(const llm *m, int slot, int64_t shape[2]); /* rows, columns */

/* ---- adapter.c ------------------------------------------------------------------------------- */

void adapters_read(llm *m, arena *scratch, const qn_llm_options *o); /* raises */

/* ---- cache.c --------------------------------------------------------------------------------- */

void cache_make(llm *m, const qn_llm_options *o); /* raises what is wrong with these */
void cache_free(llm *m);
llm_rows rows_packed(const llm *m, qn_tensor *x); /* f32 [heads, n, head] as the cache has them */
/* And back: the numbers of a row go along that axis, of any. */
qn_tensor *rows_floats(const llm *m, const llm_rows *r, int axis);
/* Keys, values and queries as they are multiplied, and back: x [.., head] turned, where the cache
 * has turned rows. */
qn_tensor *rows_turned(const llm *m, qn_tensor *x);

/* ---- pages.c --------------------------------------------------------------------------------- */

void pages_open(llm *m);
/* Give back the pages behind those of the tokens that are held. */
void pages_trim(llm *m, llm_cache *c);
/* Have pages for so many rows; false: there are too few. */
bool pages_take(llm *m, llm_cache *c, int64_t rows);
/* The same of the selected cache. Raises. */
void pages_room(llm *m, int64_t rows);
/* Of the selected cache: have the page that is written to next for itself. How many tokens are held
 * no more for that, and have to be read again. Raises. */
int64_t pages_own(llm *m);
/* The selected cache keeps what it has of n tokens, or takes what another one has. */
void pages_begin(llm *m, int64_t n, const int32_t *ids);
/* The rows of that cache may be infinite or no numbers: its pages are not read by others any more,
 * though it be by a weight of 0, before all of their rows have been written anew. */
void pages_spoil(llm *m, const llm_cache *c);
int32_t pages_foul(const llm *m);       /* one that has to be; 0: there is none */
void pages_clean(llm *m, int32_t page); /* it has been */
void pages_table(const llm_cache *c, int64_t n, int32_t *table);
int64_t pages_row(const llm_cache *c, int64_t row); /* of the pool */

/* ---- forward.c ------------------------------------------------------------------------------- */

void speeds_make(llm *m, const float *factors);
/* Read n tokens, of a chunk at most, behind those of that cache; the result, of the caller's scope.
 * Of GRAPH_LOSSES each token's target is the next one, and ids are one more. Raises. */
qn_tensor *forward_run(llm *m, const llm_cache *c, llm_kind kind, int64_t n, const int32_t *ids);
int64_t batch_rows(int64_t n); /* of n tokens: a power of two */
/* As llm_feed_batch: logits [batch_rows(n), vocabulary]. Raises. */
qn_tensor *forward_batch(llm *m, int64_t n, const int64_t *cache, const int32_t *ids);
void forward_free(llm *m);

/* ---- vocabulary.c ---------------------------------------------------------------------------- */

void vocabulary_read(llm *m, const llm_source *s, const char *folder);

/* ---- llm.c ----------------------------------------------------------------------------------- */

/* Behind the checks of the public calls. Raise. Ids are checked and copied: they may lie in what
 * the call writes. */
const int32_t *llm_take_ids(llm *m, const char *call, int64_t n, const int32_t *ids);
void llm_feed(llm *m, int64_t n, const int32_t *ids); /* leaves the logits in the model */
/* n tokens, BATCH_MOST at most, of the caches beside them: those of one follow each other. Leaves
 * the rows of logits in the model. */
void llm_feed_batch(llm *m, int64_t n, const int64_t *cache, const int32_t *ids);
bool llm_is_end(const llm *m, int32_t id);
void llm_writes(llm *m); /* the cache changes: the text that was made in it is over */
/* Do the work of a public call in a scope of its own. */
qn_code llm_call(llm *m, void (*work)(void *arg), void *arg);

/* ---- generate.c ------------------------------------------------------------------------------ */

void generation_over(struct generation *g);
void generation_free(struct generation *g); /* or NULL */

/* ---- grammar/guide.c: texts that match a grammar --------------------------------------------- */

/* In an arena: NULL, any text will do, or one that is to be opened, and closed in any case. Raise
 * what is wrong with the options. */
struct guide *guide_begin(llm *m, arena *a, const qn_llm_generate_options *o);
void guide_open(struct guide *g, const qn_llm_generate_options *o, int64_t n, const int32_t *ids);
void guide_close(struct guide *g); /* or NULL */
struct sampling;
/* The next token, which is the text's from now on, or one that ends it; -1: nothing may come, and
 * it is at an end. Raises. */
int32_t guide_choose(struct guide *g, const struct sampling *s);
bool guide_over(const struct guide *g); /* may nothing come any more? NULL: false */

/* ---- sample.c -------------------------------------------------------------------------------- */

typedef struct sampling {
    qn_ctx *ctx;
    arena *a;
    const qn_sample_options *o;
    int64_t n, past;
    const float *logits;
    const int32_t *token;
} sampling;
void sample_check(qn_ctx *qn, const qn_sample_options *o); /* raises */
int32_t sample_one(const sampling *s);                     /* raises */

#endif
