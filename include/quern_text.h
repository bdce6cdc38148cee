/* quern_text.h - text for language models: tokenizers, as tokenizer.json and GGUF files have them,
 * and chat templates, which make a prompt of a conversation.
 *
 *     qn_tokenizer *t = qn_tokenizer_open(qn, json, json_size);
 *     const int32_t *ids;
 *     int64_t n = qn_tokenizer_encode(t, text, strlen(text), QN_ENCODE_SPECIAL, &ids);
 *     const char *back = qn_tokenizer_decode(t, n, ids, true, NULL);
 *     qn_tokenizer_close(t);
 */
#ifndef QUERN_TEXT_H
#define QUERN_TEXT_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizers ------------------------------------------------------------------------- */

typedef struct qn_tokenizer qn_tokenizer;

/* A tokenizer of the text of a tokenizer.json: byte-level BPE, BPE and unigram of SentencePiece,
 * WordPiece, whole words. `size` bytes; nothing of them is needed afterwards. NULL, QN_EFORMAT:
 * not JSON, not consistent, or a normalizer, pre-tokenizer, pattern, model or decoder that is not
 * known, with its name and the byte where it stands. No nearly right tokenizer is made. */
QN_API qn_tokenizer *qn_tokenizer_open(qn_ctx *qn, const char *text, size_t size);

/* What GGUF files say of a vocabulary, by the names of their metadata. */
typedef struct qn_vocabulary {
    size_t size;               /* QN_VOCABULARY() */
    const char *model;         /* tokenizer.ggml.model: "gpt2", "llama" or "bert" */
    const char *pre;           /* .pre: which splits words, "llama-bpe", "qwen2" ..; of gpt2 only */
    int64_t n;                 /* .tokens */
    const char *const *tokens; /* texts, each ends with a zero byte */
    const float *scores;       /* of llama: those of the best are the highest */
    const int32_t *types;      /* .token_type; NULL: all are normal */
    int64_t n_merges;          /* .merges, "left right"; of gpt2 only */
    const char *const *merges;
    int32_t bos, eos, unknown; /* .bos_token_id ..; bos and eos count where they are added */
    bool add_bos, add_eos;     /* .add_bos_token: before and after a text */
    bool no_space_prefix;      /* .add_space_prefix is false; of llama */
} qn_vocabulary;
#define QN_VOCABULARY(...) QN_STRUCT(qn_vocabulary, __VA_ARGS__)
/* The same of a GGUF file's metadata. Nothing of it is needed afterwards. */
QN_API qn_tokenizer *qn_tokenizer_new(qn_ctx *qn, const qn_vocabulary *given);
QN_API void qn_tokenizer_close(qn_tokenizer *t);

typedef enum qn_encode_flags {
    QN_ENCODE_SPECIAL = 1, /* with the tokens that stand before and after a text, such as <s> */
    /* Special tokens that are spelled in the text are text: what comes from a user cannot end a
     * turn of a conversation. */
    QN_ENCODE_PLAIN = 2
} qn_encode_flags;
/* The ids of `size` bytes of UTF-8: how many, and where they are into *ids, valid until the next
 * call on t. -1, QN_EARG: not UTF-8, with the byte, or a character that no token can stand for. */
QN_API int64_t qn_tokenizer_encode(qn_tokenizer *t, const char *text, size_t size, unsigned flags,
                                   const int32_t **ids);
/* The text of ids, UTF-8 and zero-terminated, its length into *size unless NULL; valid until the
 * next call on t. Bytes that are no UTF-8 are U+FFFD. NULL, QN_ERANGE: an id that is none. */
QN_API const char *qn_tokenizer_decode(qn_tokenizer *t, int64_t n, const int32_t *ids,
                                       bool skip_special, size_t *size);
/* One more than the highest id; -1 for NULL. */
QN_API int32_t qn_tokenizer_size(const qn_tokenizer *t);
/* The id of a token by its spelling in the vocabulary, -1: there is none. */
QN_API int32_t qn_tokenizer_id(const qn_tokenizer *t, const char *token);
/* The spelling of an id, valid until t is closed, and whether it is special, unless NULL; NULL,
 * without an error, for one that is none. */
QN_API const char *qn_tokenizer_token(const qn_tokenizer *t, int32_t id, bool *special);

/* ---- chat templates --------------------------------------------------------------------- */

typedef struct qn_template qn_template;

/* A template in the part of Jinja that models use: for, if, set, macro, expressions, the filters,
 * tests and methods of texts, lists and dicts. White space as with trim_blocks and lstrip_blocks.
 * QN_EFORMAT says the line and what is not known there. */
QN_API qn_template *qn_template_new(qn_ctx *qn, const char *text, size_t size);
QN_API void qn_template_free(qn_template *t);
/* The text for the variables of a JSON object, {"messages": [..], "add_generation_prompt": true},
 * zero-terminated, its length into *length unless NULL; valid until the next call on t. NULL,
 * QN_EARG, with the line: what the template raises, an operation that its values have not, more
 * steps or text than there is a reason for; QN_EFORMAT: variables that are no JSON object. */
QN_API const char *qn_template_render(qn_template *t, const char *variables, size_t size,
                                      size_t *length);

#ifdef __cplusplus
}
#endif

#endif
