/* text.h - text to token ids and back, and the templates that make a prompt of a conversation.
 *
 * A tokenizer is what a tokenizer.json says: added tokens are cut out of the text, what lies
 * between is normalised, split into words, and each word becomes ids by the model. What a file may
 * name is a row of a table, of normalisers, splitters, patterns, models or decoders; what is no row
 * is an error with its name, for a tokenizer that is nearly right is worse than none.
 *
 * Everything a tokenizer was read into lies in its arena and never changes; a call works in a
 * second one, which the next call clears. Texts are well-formed UTF-8 from the entry points on. */
#ifndef QN_TEXT_H
#define QN_TEXT_H

#include "io/io.h"
#include "quern_text.h"

typedef struct span {
    const char *s;
    size_t n;
} span;
#define SPAN(text) ((span){(text), sizeof(text) - 1})

static inline bool span_is(span a, span b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}
static inline bool span_begins(span a, span with) {
    return a.n >= with.n && (with.n == 0 || memcmp(a.s, with.s, with.n) == 0);
}
static inline bool span_ends(span a, span with) {
    return a.n >= with.n && (with.n == 0 || memcmp(a.s + a.n - with.n, with.s, with.n) == 0);
}
static inline span span_from(span a, size_t at) {
    return (span){a.s + at, a.n - at};
}
span span_copy(arena *a, span s); /* with a zero byte behind it */
span span_join(arena *a, span x, span y);
span span_replace(arena *a, span s, span from, span to); /* every one, from the left */

/* What the steps of a tokenizer make texts in. A file's steps may each make a text longer, and so a
 * row of them may make it as long as it likes: what a call makes of its text is bounded. */
enum {
    TEXT_MOST = 1 << 28,  /* bytes; what is counted along the way stays within 32 bits */
    GROWTH_FREE = 1 << 20 /* bytes that a text may grow by, and */
};
typedef struct text_work {
    arena *a;
    uint64_t room; /* bytes by which texts may still grow */
    qn_code code;  /* of the error where they grow by more */
    size_t first;  /* of the text that is normalised, as a piece's */
} text_work;
text_work work_for(arena *a, uint64_t size, qn_code code); /* on texts of so many bytes */
void work_grow(text_work *w, uint64_t before, uint64_t after);
span work_join(text_work *w, span x, span y);
span work_replace(text_work *w, span s, span from, span to);

/* ---- unicode.c: tables in unicode/ ----------------------------------------------------------- */

/* General categories, as bits of sets. */
#define CATEGORIES(X)                                                                              \
    X(CN)                                                                                          \
    X(LU)                                                                                          \
    X(LL)                                                                                          \
    X(LT)                                                                                          \
    X(LM)                                                                                          \
    X(LO)                                                                                          \
    X(MN)                                                                                          \
    X(MC)                                                                                          \
    X(ME)                                                                                          \
    X(ND)                                                                                          \
    X(NL)                                                                                          \
    X(NO)                                                                                          \
    X(PC)                                                                                          \
    X(PD)                                                                                          \
    X(PS) X(PE) X(PI) X(PF) X(PO) X(SM) X(SC) X(SK) X(SO) X(ZS) X(ZL) X(ZP) X(CC) X(CF) X(CS) X(CO)
enum category {
#define X(NAME) CATEGORY_##NAME,
    CATEGORIES(X)
#undef X
};
enum {
#define X(NAME) IS_##NAME = 1 << CATEGORY_##NAME,
    CATEGORIES(X)
#undef X
};
enum {
    IS_LETTER = IS_LU | IS_LL | IS_LT | IS_LM | IS_LO,
    IS_MARK = IS_MN | IS_MC | IS_ME,
    IS_NUMBER = IS_ND | IS_NL | IS_NO,
    IS_PUNCTUATION = IS_PC | IS_PD | IS_PS | IS_PE | IS_PI | IS_PF | IS_PO,
    IS_SYMBOL = IS_SM | IS_SC | IS_SK | IS_SO,
    IS_UNCASED = IS_LM | IS_LO | IS_MARK, /* letters that are of either case, and marks */
    IS_UPPER = IS_LU | IS_LT | IS_UNCASED,
    IS_LOWER = IS_LL | IS_UNCASED
};
/* Sets of sets.h. NUMERIC is what the splitter of digits asks for: of a later Unicode than the
 * categories, by which patterns know numbers. */
typedef enum char_set {
    SET_PUNCTUATION,
    SET_NUMERIC,
    SET_ACCENT,
    SET_MARK,
    SET_CONTROL,
    SET_CHINESE
} char_set;
typedef enum text_form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD } text_form;

/* The character at s, which is well-formed UTF-8, and its length in bytes. */
static inline uint32_t utf8_next(const char *s, size_t *length) {
    const unsigned char *u = (const unsigned char *)s;
    uint32_t c = u[0];
    *length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (c < 0x80) return c;
    c &= c < 0xe0 ? 0x1f : c < 0xf0 ? 0x0f : 0x07;
    for (size_t i = 1; i < *length; i++) c = c << 6 | (u[i] & 0x3f);
    return c;
}
static inline size_t utf8_length_at(const char *s) {
    size_t n;
    utf8_next(s, &n);
    return n;
}
size_t utf8_put(uint32_t c, char *out); /* at most 4 bytes */
size_t utf8_before(span s, size_t at);  /* where the character before byte `at` begins */
size_t utf8_bad(span s);                /* the first byte that is not UTF-8; s.n: none */
span utf8_repair(arena *a, span s);     /* U+FFFD for what is not, as Rust and Python do it */

bool char_among(uint32_t c, uint32_t categories); /* a set of IS_ */
bool char_in(uint32_t c, char_set set);
bool char_is_space(uint32_t c);
bool char_is_word(uint32_t c);   /* \w of UTS #18 */
uint32_t char_lower(uint32_t c); /* U+0130, which becomes two, itself */
span text_normalize(arena *a, span s, text_form form);

/* ---- vocabulary.c ---------------------------------------------------------------------------- */

/* Tokens by id and by text; ids that no token has are texts without bytes and at NULL. */
typedef struct vocabulary {
    span *token;
    uint32_t size;
    uint32_t *slot; /* id + 1 by hash; 0: none */
    uint32_t mask;
    uint64_t seed;
    uint32_t *sorted, sorted_count; /* ids in the order of their bytes, for prefixes */
    uint32_t first[257];            /* where those of each first byte begin */
} vocabulary;
enum {
    TOKEN_MOST = 1024, /* bytes of one that is searched as a prefix */
    PROBES_MOST = 1000 /* of a table that is half empty: by chance never near it */
};

/* What nobody can know who chooses what is hashed; ids and texts do not depend on it. */
uint64_t table_seed(const void *table);
void table_probed(arena *a, uint64_t probes); /* raises where those are too many */

void vocabulary_open(vocabulary *v, arena *a, uint32_t size);
/* A later token of the same text takes its place when `later`, else has none. */
void vocabulary_add(vocabulary *v, arena *a, uint32_t id, span text, bool later);
int32_t vocabulary_find(const vocabulary *v, span text); /* -1: not there */
/* Make `sorted` of those that `takes` wants, NULL: of all. */
void vocabulary_sort(vocabulary *v, arena *a, const uint8_t *takes);
/* Prefixes of a text among the sorted tokens: begin, then each next one, -1 after the longest. */
typedef struct prefix {
    const vocabulary *v;
    span text;
    size_t length; /* of the one that was found */
    uint32_t lo, hi;
} prefix;
prefix prefix_begin(const vocabulary *v, span text);
int32_t prefix_next(prefix *p);

/* ---- a tokenizer ----------------------------------------------------------------------------- */

typedef struct id_list {
    int32_t *at;
    uint32_t n, cap;
} id_list;
typedef struct piece {
    span text;
    int32_t id;   /* of an added token; -1: to be tokenized */
    size_t first; /* bytes at its begin that stand for the first character of the whole text */
} piece;
typedef struct piece_list {
    text_work *work;
    arena *a; /* the work's */
    piece *at;
    uint32_t n, cap;
} piece_list;
void piece_add(piece_list *list, span text, int32_t id, size_t first); /* nothing of an empty one */
/* A piece's `first`, of what begins at byte `at` of it. */
static inline size_t first_from(piece in, size_t at) {
    return in.first > at ? in.first - at : 0;
}
void id_add(id_list *list, arena *a, int32_t id);

/* One step of a normaliser, a splitter or a decoder, with what its row reads of it. */
typedef struct text_step {
    const struct step_row *row;
    span from, to;
    uint8_t behaviour, flag[4];
    uint32_t count[2];
    const struct pattern_row *pattern;
} text_step;
typedef struct step_list {
    text_step *at;
    uint32_t n, cap;
} step_list;

typedef struct added_token {
    span text, found; /* found: as it stands in a normalised text */
    int32_t id;
    bool special, single_word, left, right, normalized;
} added_token;
/* Those that are looked for before normalising, or behind it. */
typedef struct added_set {
    vocabulary words; /* whose ids are places in `token` */
    const added_token *const *token;
} added_set;

typedef struct bpe_merges {
    uint64_t *key, *value; /* left << 32 | right; rank << 32 | id, ~0: none */
    uint64_t mask, seed;
} bpe_merges;
typedef struct pair_of_ids {
    uint32_t left, right;
} pair_of_ids;

typedef struct tokenizer {
    qn_ctx *ctx;
    arena a, work;
    vocabulary vocab;
    const struct model_row *model;
    bpe_merges merges;
    uint32_t *rank; /* of tokens, where pieces merge by their scores */
    double *score;  /* of unigram */
    double unknown_score;
    int32_t unknown, byte[256]; /* -1: none */
    bool byte_fallback, fuse_unknown, ignore_merges;
    bool lacks_unknown;  /* it is named and is no token */
    bool plain;          /* of this call: special tokens are not spelled */
    span prefix, suffix; /* of what continues a word; of its end */
    uint32_t word_most;  /* characters */
    step_list normalizers, splitters, decoders;
    added_token *added;
    uint32_t added_count;
    added_set raw, normalized;
    id_list before, after; /* special tokens around a text */
    int32_t most;          /* the highest id, and one more */
    span *text;            /* by id, added tokens too */
    uint8_t *is_special;
} tokenizer;

/* What reads a tokenizer: raises on a fault. */
typedef struct text_loader {
    qn_ctx *qn;
    tokenizer *t;
    arena *scratch;
} text_loader;
QN_NORETURN QN_COLD void load_bad(const text_loader *l, const json *at, const char *fmt, ...)
    QN_PRINTF(3, 4);
span load_text(const text_loader *l, const json *object, const char *key); /* must be there */
bool load_flag(const text_loader *l, const json *object, const char *key, bool usual);
int64_t load_int(const text_loader *l, const json *object, const char *key, int64_t usual);
const json *load_member(const text_loader *l, const json *object, const char *key, json_kind kind);

typedef struct decode_state {
    text_work *work;
    arena *a; /* the work's */
    span *at; /* tokens, which steps change, join and drop */
    uint32_t n;
} decode_state;
typedef struct step_row {
    const char *name;
    void (*read)(const text_loader *l, const json *v, text_step *s); /* NULL: it has no options */
    union {
        span (*normalize)(const text_step *s, text_work *w, span text);
        void (*split)(const text_step *s, piece_list *out, piece in);
        void (*decode)(const text_step *s, decode_state *d);
    };
} step_row;
typedef struct model_row {
    const char *name;
    void (*read)(const text_loader *l, const json *v);
    void (*encode)(tokenizer *t, span word, id_list *out);
} model_row;

/* ---- normalize.c, split.c, decode.c: rows of steps ------------------------------------------- */

/* The steps of a member of tokenizer.json into a list: null, a step, or a Sequence of them. `part`
 * names the list in errors. */
typedef enum step_part { PART_NORMALIZER, PART_SPLITTER, PART_DECODER } step_part;
void steps_read(const text_loader *l, const json *v, step_part part, step_list *out);
/* A step by its name, for tokenizers that no JSON describes; it must be one. */
text_step *steps_add(const text_loader *l, step_list *out, step_part part, const char *name);
const step_row *normalizer_rows(void); /* up to one without a name */
const step_row *splitter_rows(void);
const step_row *decoder_rows(void);
span normalize_all(const step_list *steps, text_work *w, span text);

/* ---- pattern.c: rows in patterns.h ----------------------------------------------------------- */

typedef struct pattern_row pattern_row;
const pattern_row *pattern_of(span regex);          /* NULL: unknown */
const pattern_row *pattern_named(const char *name); /* as GGUF calls it */
/* The length of the match at byte `at`, 0: none. */
size_t pattern_match(const pattern_row *p, span text, size_t at);

/* ---- bpe.c, models.c --------------------------------------------------- */

extern const model_row model_bpe, model_unigram, model_wordpiece, model_wordlevel;
void bpe_open(bpe_merges *m, arena *a, uint64_t count);
void bpe_add(bpe_merges *m, arena *a, pair_of_ids pair, uint32_t rank, uint32_t id);
void unknown_add(const tokenizer *t, span text, id_list *out); /* by bytes, or as such */
void unknown_must_be(const tokenizer *t, span text);           /* raises where there is none */
/* The token that a model may take for a text: in a plain one no special one. -1: none. */
int32_t token_find(const tokenizer *t, span text);
bool token_barred(const tokenizer *t, int32_t id);
void bytes_find(tokenizer *t); /* tokens <0x00> to <0xFF> */

/* ---- added.c --------------------------------------------------------------------------------- */

/* Cut the added tokens of a set out of a text. */
void added_open(const text_loader *l);
void added_split(const added_set *set, bool specials, piece in, piece_list *out);

/* ---- load.c, gguf.c -------------------------------------------------------------------------- */

void tokenizer_load(const text_loader *l, const json *root);
void tokenizer_build(const text_loader *l, const qn_vocabulary *v);
void tokenizer_finish(const text_loader *l); /* what follows from what was read */

#endif
