/* generate.c - texts by a model: token after token, given out as text in whole characters.
 *
 * A token may be a part of a character, and its text may depend on the one before; so the text of
 * the last tokens is made anew with each, and what is new of it goes out. What may be the beginning
 * of a text that ends it is held back until it is known. */
#include "llm/llm.h"

/* Tokens whose text is made anew. A character is made of four tokens at most. */
enum { WINDOW = 48, WINDOW_KEPT = 8, CHARACTER = 4 };

typedef struct generation {
    llm *m;
    int64_t n;
    const int32_t *ids;
    qn_llm_generate_options o;
    qn_sample_options sample;
    arena scratch; /* of one choice */
    int32_t *made; /* the prompt's last tokens, `lead` of them, lie before */
    int64_t count, lead;
    int64_t from; /* the first token of the window; below 0: of the prompt */
    size_t known; /* bytes of the window's text that went on */
    int64_t gone; /* tokens that it is of */
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

/* The window begins within the prompt, for a text may depend on the token before. */
static void window_open(generation *g) {
    const qn_tokenizer *t = g->m->tokenizer;
    if (!t || (!g->o.piece && !g->o.stops)) return;
    for (int64_t i = 1; i <= g->lead; i++)
        if (g->made[-i] >= qn_tokenizer_size(t)) return;
    g->from = -1;
    const char *text = window_text(g, &g->known);
    if (!ends_broken(text, g->known)) return;
    g->from = -g->lead; /* the prompt ends within a character */
    text = window_text(g, &g->known);
    while (ends_broken(text, g->known)) g->known -= 3;
}

static char *copy_of(arena *a, const char *text, size_t size) {
    char *copy = arena_alloc(a, size + 1);
    memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}

/* A shorter one, where its text is the end of the longer one's: it does not begin within a
 * character. */
static void window_move(generation *g, const char *text, size_t size) {
    const int64_t from = g->from;
    const char *old = copy_of(&g->scratch, text, size);
    for (int64_t kept = WINDOW_KEPT; kept < WINDOW_KEPT + CHARACTER; kept++) {
        size_t n;
        g->from = g->count - kept;
        text = window_text(g, &n);
        if (n > size || memcmp(old + size - n, text, n) != 0) continue;
        g->known = n;
        return;
    }
    g->from = from;
}

/* Behind a new token; at the end of it all what is not whole goes out, too. */
static void text_go_on(generation *g, bool last) {
    if (!g->m->tokenizer || (!g->o.piece && !g->o.stops)) return;
    size_t size;
    const char *text = window_text(g, &size);
    if (last && ends_broken(text, size)) { /* which may have broken what went on, too */
        g->from = g->gone;
        g->known = 0;
        text = window_text(g, &size);
    }
    if (size > g->known && (last || !ends_broken(text, size))) {
        str_addn(&g->held, text + g->known, size - g->known);
        g->known = size;
        g->gone = g->count;
        if (g->count - g->from > WINDOW) window_move(g, text, size);
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
    int64_t n = m->config.size[DIM_VOCABULARY]; /* rows may be more than there are tokens */
    if (m->tokenizer && qn_tokenizer_size(m->tokenizer) < n) n = qn_tokenizer_size(m->tokenizer);
    arena_free(&g->scratch);
    const sampling s = {.ctx = m->ctx,
                        .a = &g->scratch,
                        .o = &g->sample,
                        .n = n,
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

static void generate_check(generation *g) {
    llm *m = g->m;
    const qn_llm_generate_options *o = &g->o;
    g->ids = llm_take_ids(m, "llm_generate", g->n, g->ids);
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

/* Texts that end it may be what the tokenizer gave last. */
static void stops_take(generation *g) {
    arena *a = &g->m->work;
    const char **own = arena_alloc(a, (size_t)(g->o.stops + 1) * sizeof *own);
    for (int i = 0; i < g->o.stops; i++) own[i] = copy_of(a, g->o.stop[i], strlen(g->o.stop[i]));
    g->o.stop = own;
}

static void generate_work(void *arg) {
    generation *g = arg;
    llm *m = g->m;
    generate_check(g);
    int64_t room = m->context - g->n + 1, most = g->o.most && g->o.most < room ? g->o.most : room;
    stops_take(g);
    g->lead = g->n < CHARACTER ? g->n : CHARACTER;
    g->made = arena_alloc(&m->work, (size_t)(g->lead + most) * sizeof *g->made);
    memcpy(g->made, g->ids + g->n - g->lead, (size_t)g->lead * sizeof *g->made);
    g->made += g->lead;
    str_open_in(&g->held, &m->work);
    str_add(&g->held, "");
    m->held = common(g);
    window_open(g);
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
