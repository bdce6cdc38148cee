/* generate.c - texts by a model: token after token, given out as text in whole characters.
 *
 * A token may be a part of a character, and its text may depend on the one before; so the text of
 * the last tokens is made anew with each, and what is new of it goes out. What may be the beginning
 * of a text that ends it is held back until it is known. */
#include "llm/llm.h"

enum { WINDOW = 48, WINDOW_KEPT = 8 }; /* tokens whose text is made anew */

typedef struct generation {
    llm *m;
    int64_t n;
    const int32_t *ids;
    qn_llm_generate_options o;
    qn_sample_options sample;
    arena scratch; /* of one choice */
    int32_t *made;
    int64_t count;
    int64_t from; /* the first token of the window */
    size_t known; /* bytes of the window's text that went on */
    str held;     /* back */
    bool ended;
} generation;

/* ---- texts ----------------------------------------------------------------------------------- */

/* The first byte of a text of `stop` in the held one; its length: there is none. */
static size_t stop_at(const generation *g) {
    size_t first = g->held.len;
    for (int i = 0; i < g->o.stops; i++) {
        const char *found = strstr(g->held.s, g->o.stop[i]);
        if (found && (size_t)(found - g->held.s) < first) first = (size_t)(found - g->held.s);
    }
    return first;
}

/* How many bytes at the end may be the beginning of a text of `stop`. */
static size_t stop_begun(const generation *g) {
    size_t most = 0;
    for (int i = 0; i < g->o.stops; i++) {
        size_t n = strlen(g->o.stop[i]);
        n = n > g->held.len ? g->held.len : n - 1;
        while (n > most && strncmp(g->held.s + g->held.len - n, g->o.stop[i], n) != 0) n--;
        if (n > most) most = n;
    }
    return most;
}

static void give_out(generation *g, size_t n) {
    char kept = g->held.s[n];
    g->held.s[n] = 0;
    if (n && g->o.piece && !g->o.piece(g->o.arg, g->held.s, n)) g->ended = true;
    g->held.s[n] = kept;
    memmove(g->held.s, g->held.s + n, g->held.len - n + 1);
    g->held.len -= (uint32_t)n;
}

static bool ends_broken(const char *text, size_t n) {
    return n >= 3 && memcmp(text + n - 3, "\xef\xbf\xbd", 3) == 0; /* U+FFFD */
}

static const char *window_text(generation *g, size_t *size) {
    const char *text =
        qn_tokenizer_decode(g->m->tokenizer, g->count - g->from, g->made + g->from, true, size);
    if (!text) heap_unwind(&g->m->ctx->heap);
    return text;
}

/* Behind a new token; at the end of it all what is not whole goes out, too. */
static void text_go_on(generation *g, bool last) {
    if (!g->m->tokenizer || (!g->o.piece && !g->o.stops)) return;
    size_t size;
    const char *text = window_text(g, &size);
    if (size > g->known && (last || !ends_broken(text, size))) {
        str_addn(&g->held, text + g->known, size - g->known);
        g->known = size;
        if (g->count - g->from > WINDOW) {
            g->from = g->count - WINDOW_KEPT;
            window_text(g, &g->known);
        }
    }
    if (!g->held.len) return;
    size_t stop = stop_at(g);
    bool stopped = stop < g->held.len;
    give_out(g, stopped ? stop : last ? g->held.len : g->held.len - stop_begun(g));
    if (stopped) g->ended = true;
    if (stopped) g->held.len = 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int32_t choose(generation *g) {
    llm *m = g->m;
    arena_free(&g->scratch);
    const sampling s = {.ctx = m->ctx,
                        .a = &g->scratch,
                        .o = &g->sample,
                        .n = m->config.size[DIM_VOCABULARY],
                        .past = m->held,
                        .logits = m->logits,
                        .token = m->token};
    return sample_one(&s);
}

/* How many of the prompt's tokens the cache begins with; the last one is read in any case. */
static int64_t common(const generation *g) {
    int64_t n = 0;
    while (n < g->m->held && n < g->n - 1 && g->m->token[n] == g->ids[n]) n++;
    return n;
}

static void generate_check(const generation *g) {
    llm *m = g->m;
    const qn_llm_generate_options *o = &g->o;
    llm_check_ids(m, "llm_generate", g->n, g->ids);
    sample_check(m->ctx, &g->sample);
    if (g->n < 1 || g->n > m->context)
        raise_error(m->ctx, QN_ERANGE, "llm_generate: a prompt of %lld tokens, a context of %lld",
                    (long long)g->n, (long long)m->context);
    if (o->most < 0 || o->stops < 0 || (o->stops && !o->stop))
        raise_error(m->ctx, QN_EARG, "llm_generate: most is %lld, stops %d", (long long)o->most,
                    o->stops);
    if (!m->tokenizer && (o->stops || o->piece))
        raise_error(m->ctx, QN_EARG, "llm_generate: the model has no tokenizer");
    for (int i = 0; i < o->stops; i++)
        if (!o->stop[i] || !*o->stop[i])
            raise_error(m->ctx, QN_EARG, "llm_generate: text %d of stop is %s", i,
                        o->stop[i] ? "empty" : "NULL");
}

static void generate_work(void *arg) {
    generation *g = arg;
    llm *m = g->m;
    generate_check(g);
    int64_t room = m->context - g->n + 1, most = g->o.most && g->o.most < room ? g->o.most : room;
    g->made = arena_alloc(&m->work, (size_t)most * sizeof *g->made);
    str_open_in(&g->held, &m->work);
    str_add(&g->held, "");
    m->held = common(g);
    llm_feed(m, g->n - m->held, g->ids + m->held);
    while (!g->ended && g->count < most) {
        int32_t id = choose(g);
        if (llm_is_end(m, id) && !g->o.ignore_end) break;
        g->made[g->count++] = id;
        text_go_on(g, false);
        if (g->ended || g->count == most) break;
        llm_feed(m, 1, &id);
    }
    if (!g->ended) text_go_on(g, true);
}

int64_t qn_llm_generate(qn_llm *known, int64_t n, const int32_t *ids,
                        const qn_llm_generate_options *options, const int32_t **out) {
    llm *m = object_of(known, HANDLE_LLM, "llm_generate");
    generation g = {.m = m, .n = n, .ids = ids, .o = QN_LLM_GENERATE()};
    g.sample = QN_SAMPLE_OPTIONS();
    if (out) *out = NULL;
    if (!m) return -1;
    if (!struct_take(m->ctx, "llm_generate", "qn_llm_generate_options", &g.o, sizeof g.o,
                     options) ||
        !struct_take(m->ctx, "llm_generate", "qn_sample_options", &g.sample, sizeof g.sample,
                     g.o.sample))
        return -1;
    arena_open(&g.scratch, &m->ctx->heap);
    qn_code code = llm_call(m, generate_work, &g);
    arena_free(&g.scratch);
    if (out && !code) *out = g.made;
    return code ? -1 : g.count;
}
