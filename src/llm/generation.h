/* generation.h - a text that a model makes in one of its caches: generate.c begins it, chooses its
 * tokens and gives its text out, steps.c has the model read what the tokens are chosen by.
 *
 * Between two steps the text's last token is not in the cache: it is read by the next step. */
#ifndef QN_LLM_GENERATION_H
#define QN_LLM_GENERATION_H

#include "llm/llm.h"

enum { GUESSES_MOST = 15 };

typedef struct generation {
    llm *m;
    int64_t n;
    const int32_t *ids;
    qn_llm_generate_options o;
    qn_sample_options sample;
    arena a, scratch; /* of it all; of one choice */
    int32_t *made;    /* the prompt's last tokens, `lead` of them, lie before */
    int64_t count, lead, most, kept;
    int64_t from;        /* the first token of the window; below 0: of the prompt */
    size_t known;        /* bytes of the window's text that went on */
    int64_t gone;        /* tokens that it is of */
    str held;            /* back */
    struct guide *guide; /* by a grammar; NULL: any text */
    int missed, pause;   /* steps in a row whose guesses were wrong; steps without any to come */
    qn_llm_state state;
    bool over; /* no step is to come */
} generation;

/* ---- generate.c ------------------------------------------------------------------------------ */

/* As qn_llm_begin, whose name for messages is `call`. */
qn_code generation_begin(llm *m, const char *call, int64_t n, const int32_t *ids,
                         const qn_llm_generate_options *options);
/* Of the selected cache, as the model is then. Raise. */
bool prompt_read(generation *g);                    /* its next part; is it the last one? */
void token_add(generation *g, const float *logits); /* the one behind those that are read */
void text_is_full(generation *g);                   /* there is no room for the next one */

#endif
