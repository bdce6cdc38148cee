/* guide.c - the text that a model makes, held to its grammar.
 *
 * A token is chosen as without a grammar, and taken if it may come: that costs its few bytes. Only
 * where it may not all tokens are looked at, and one is chosen among those that may, by another
 * number of chance: the first one was drawn already, and is known to be where a token was refused.
 * So a token comes with the probability that it has among those that may come, and the same seed
 * gives the same text.
 *
 * Where nothing may come any more the text is over, without a token that says so. */
#include "llm/grammar/grammar.h"

#include <math.h>

typedef struct guide {
    llm *m;
    automaton *machine;
    const token_tree *tree;
    str text; /* so far */
    text_place at;
    uint64_t epoch; /* of the machine, in which `at` is a place */
    bool first;     /* the next token is the text's first, which may lose a blank */
    bool unending;
} guide;

/* ---- where it is ----------------------------------------------------------------------------- */

/* Places may have been forgotten, for this text or for another one of the same grammar. */
static void guide_ready(guide *g) {
    match_ready(g->machine);
    if (g->epoch == g->machine->epoch) return;
    g->at = match_bytes(g->machine, PLACE_BEGIN, g->text.s, g->text.len);
    g->epoch = g->machine->epoch;
}

/* Where a token leads, and its bytes. */
static text_place guide_to(const guide *g, int32_t id, span *bytes, char *room) {
    *bytes = g->first ? token_first(g->tree, id, room) : token_bytes(g->tree, id);
    if (!token_bytes(g->tree, id).n) return PLACE_NOWHERE;
    return match_bytes(g->machine, g->at, bytes->s, bytes->n);
}

static bool guide_take(guide *g, int32_t id) {
    char room[1024];
    span bytes;
    text_place to = guide_to(g, id, &bytes, room);
    if (to == PLACE_NOWHERE) return false;
    str_addn(&g->text, bytes.s, bytes.n);
    g->at = to;
    g->first = false;
    return true;
}

static bool guide_ends(const guide *g, int32_t id) {
    return llm_is_end(g->m, id) && !g->unending && match_may_end(g->machine, g->at);
}

bool guide_over(const guide *g) {
    return g && !match_may_go_on(g->machine, g->at);
}

/* ---- choosing -------------------------------------------------------------------------------- */

QN_COLD QN_NORETURN static void guide_stuck(const guide *g) {
    size_t from = g->text.len > 40 ? g->text.len - 40 : 0;
    while (from < g->text.len && ((unsigned char)g->text.s[from] & 0xc0) == 0x80) from++;
    raise_error(g->m->ctx, QN_EARG, "llm_generate: no token of the model fits the %s behind \"%s\"",
                g->machine->is_schema ? "schema" : "grammar", g->text.s + from);
}

/* Among those that may come alone. */
static int32_t choose_allowed(guide *g, const sampling *s) {
    uint32_t n = (uint32_t)s->n < g->tree->n ? (uint32_t)s->n : g->tree->n;
    bool *allowed = arena_alloc(s->a, g->tree->n + 1);
    float *logits = arena_alloc(s->a, (size_t)s->n * sizeof *logits);
    sampling among = *s;
    qn_sample_options o = *s->o;
    int64_t count = tokens_allow(g->tree, g->machine, g->at, g->first, allowed);
    for (int64_t i = 0; i < s->n; i++) logits[i] = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (allowed[i]) logits[i] = s->logits[i];
    for (int i = 0; i < g->m->config.ends; i++) {
        int32_t end = g->m->config.end[i];
        if (end < 0 || end >= s->n || !guide_ends(g, end)) continue;
        logits[end] = s->logits[end];
        count++;
    }
    if (!count && match_may_end(g->machine, g->at)) return -1;
    if (!count) guide_stuck(g);
    o.seed ^= 0x6a09e667f3bcc909u;
    among.o = &o;
    among.logits = logits;
    return sample_one(&among);
}

int32_t guide_choose(guide *g, const sampling *s) {
    guide_ready(g);
    if (guide_over(g)) return -1;
    int32_t id = sample_one(s);
    if (guide_ends(g, id) || guide_take(g, id)) return id;
    id = choose_allowed(g, s);
    if (id < 0 || guide_ends(g, id)) return id;
    guide_take(g, id);
    return id;
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Does a text that a decoder makes not begin with this one? */
static bool is_silent(const guide *g, int32_t id) {
    bool special = false;
    const qn_tokenizer *t = g->m->tokenizer;
    return id >= qn_tokenizer_size(t) || !qn_tokenizer_token(t, id, &special) || special;
}

static void machine_find(guide *g, bool is_schema, span text) {
    automaton *last = g->m->machine;
    bool same = last && last->is_schema == is_schema && last->size == text.n &&
                !memcmp(last->text, text.s, text.n);
    if (same) {
        g->machine = last;
        last->owners++;
        return;
    }
    automaton_make(&g->machine, g->m->ctx, is_schema, text);
    automaton_drop(last);
    g->m->machine = g->machine;
    g->machine->owners++;
}

guide *guide_begin(llm *m, arena *a, const qn_llm_generate_options *o) {
    if (o->grammar && o->schema)
        raise_error(m->ctx, QN_EARG, "llm_generate: a grammar and a schema; it is one of them");
    if (o->matched && !o->grammar && !o->schema)
        raise_error(m->ctx, QN_EARG, "llm_generate: matched is %lld, and there is no grammar",
                    (long long)o->matched);
    if (!o->grammar && !o->schema) return NULL;
    if (!m->tokenizer) raise_error(m->ctx, QN_EARG, "llm_generate: the model has no tokenizer");
    guide *g = arena_zeroed(a, sizeof *g);
    g->m = m;
    g->unending = o->ignore_end;
    str_open_in(&g->text, a);
    str_add(&g->text, "");
    return g;
}

void guide_open(guide *g, const qn_llm_generate_options *o, int64_t n, const int32_t *ids) {
    llm *m = g->m;
    const char *text = o->grammar ? o->grammar : o->schema;
    if (o->matched < 0 || o->matched > n)
        raise_error(m->ctx, QN_ERANGE, "llm_generate: matched is %lld of a prompt of %lld tokens",
                    (long long)o->matched, (long long)n);
    g->tree = token_tree_of(m);
    machine_find(g, !o->grammar, (span){text, strlen(text)});
    match_ready(g->machine);
    g->epoch = g->machine->epoch;
    g->at = PLACE_BEGIN;
    int64_t from = n - o->matched;
    g->first = from == 0 || is_silent(g, ids[from - 1]);
    for (int64_t i = from; i < n; i++)
        if (!guide_take(g, ids[i]))
            raise_error(m->ctx, QN_EARG, "llm_generate: token %lld of the prompt, %d, does not fit",
                        (long long)i, ids[i]);
}

void guide_close(guide *g) {
    if (g) automaton_drop(g->machine);
}
