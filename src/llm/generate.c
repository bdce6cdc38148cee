/* generate.c - texts by a model: token after token, given out as text in whole characters.
 *
 * A token may be a part of a character, and its text may depend on the one before; so the text of
 * the last tokens is made anew with each, and what is new of it goes out. What may be the beginning
 * of a text that ends it is held back until it is known. */
#include "llm/generation.h"

/* Tokens whose text is made anew. A character is made of four tokens at most. */
enum { WINDOW = 48, WINDOW_KEPT = 8, CHARACTER = 4 };

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
    if (n && g->o.piece && !g->o.piece(g->o.arg, g->held.s, n)) g->state = QN_LLM_LEFT;
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
    if (stopped) g->state = QN_LLM_STOPPED;
    if (stopped) g->held.len = 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int32_t choose(generation *g, const float *logits) {
    llm *m = g->m;
    int64_t n = m->config.size[DIM_VOCABULARY]; /* rows may be more than there are tokens */
    if (m->tokenizer && qn_tokenizer_size(m->tokenizer) < n) n = qn_tokenizer_size(m->tokenizer);
    arena_free(&g->scratch);
    const sampling s = {.ctx = m->ctx,
                        .a = &g->scratch,
                        .o = &g->sample,
                        .n = n,
                        .past = m->now->held,
                        .logits = logits,
                        .token = m->now->token};
    return g->guide ? guide_choose(g->guide, &s) : sample_one(&s);
}

static void generate_check(generation *g) {
    llm *m = g->m;
    const qn_llm_generate_options *o = &g->o;
    sample_check(m->ctx, &g->sample);
    if (g->n < 1 || g->n > m->context)
        raise_error(m->ctx, QN_ERANGE, "llm_generate: a prompt of %lld tokens, a context of %lld",
                    (long long)g->n, (long long)m->context);
    if (g->n > m->pages * PAGE)
        raise_error(m->ctx, QN_ERANGE, "llm_generate: a prompt of %lld tokens, a pool of %lld",
                    (long long)g->n, (long long)(m->pages * PAGE));
    if (o->most < 0 || o->stops < 0 || (o->stops && !o->stop))
        raise_error(m->ctx, QN_EARG, "llm_generate: most is %lld, stops %d", (long long)o->most,
                    o->stops);
    if (!m->tokenizer && (o->stops || o->piece))
        raise_error(m->ctx, QN_EARG, "llm_generate: the model has no tokenizer");
    if (o->guesses < 0 || o->guesses > GUESSES_MOST)
        raise_error(m->ctx, QN_ERANGE, "llm_generate: %lld guesses; there are from 0 to %d",
                    (long long)o->guesses, GUESSES_MOST);
    for (int i = 0; i < o->stops; i++)
        if (!o->stop[i] || !*o->stop[i])
            raise_error(m->ctx, QN_EARG, "llm_generate: text %d of stop is %s", i,
                        o->stop[i] ? "empty" : "NULL");
}

/* What was given outlives the call, and may be what the tokenizer or a text before gave last. */
static void arguments_take(generation *g) {
    const char **own = arena_alloc(&g->a, (size_t)(g->o.stops + 1) * sizeof *own);
    int32_t *ids = arena_alloc(&g->a, (size_t)g->n * sizeof *ids);
    for (int i = 0; i < g->o.stops; i++)
        own[i] = copy_of(&g->a, g->o.stop[i], strlen(g->o.stop[i]));
    memcpy(ids, g->ids, (size_t)g->n * sizeof *ids);
    g->o.stop = own;
    g->ids = ids;
    g->lead = g->n < CHARACTER ? g->n : CHARACTER;
    g->made = arena_alloc(&g->a, (size_t)(g->lead + g->most) * sizeof *g->made);
    memcpy(g->made, ids + g->n - g->lead, (size_t)g->lead * sizeof *g->made);
    g->made += g->lead;
}

static void begin_work(void *arg) {
    generation *g = arg;
    llm *m = g->m;
    g->ids = llm_take_ids(m, "llm_generate", g->n, g->ids);
    generate_check(g);
    const int64_t pages = m->pages * PAGE;
    int64_t room = (m->context < pages ? m->context : pages) - g->n + 1;
    g->most = g->o.most && g->o.most < room ? g->o.most : room;
    arguments_take(g);
    str_open_in(&g->held, &g->a);
    str_add(&g->held, "");
    window_open(g);
    g->guide = guide_begin(m, &g->a, &g->o);
    if (g->guide) guide_open(g->guide, &g->o, g->n, g->ids);
    pages_begin(m, g->n - 1, g->ids); /* the last one is read in any case */
    g->kept = m->now->held;
}

bool prompt_read(generation *g) {
    llm *m = g->m;
    int64_t left = g->n - m->now->held, some = left < m->chunk ? left : m->chunk;
    llm_feed(m, some, g->ids + m->now->held);
    return some == left;
}

void token_add(generation *g, const float *logits) {
    llm *m = g->m;
    int32_t id = choose(g, logits);
    g->state = QN_LLM_WRITES;
    if (id < 0 || (llm_is_end(m, id) && !g->o.ignore_end)) {
        g->state = QN_LLM_ENDED;
    } else {
        g->made[g->count++] = id;
        text_go_on(g, false);
        if (g->state == QN_LLM_WRITES && guide_over(g->guide)) g->state = QN_LLM_ENDED;
        if (g->state == QN_LLM_WRITES && g->count == g->most) g->state = QN_LLM_FULL;
    }
    if (g->state == QN_LLM_ENDED || g->state == QN_LLM_FULL) text_go_on(g, true);
}

void text_is_full(generation *g) {
    g->state = QN_LLM_FULL;
    text_go_on(g, true);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void generation_over(generation *g) {
    g->over = true;
}

void generation_free(generation *g) {
    if (!g) return;
    heap *h = &g->m->ctx->heap;
    guide_close(g->guide);
    arena_free(&g->scratch);
    arena_free(&g->a);
    heap_free(h, g, sizeof *g);
}

/* The one that was there before may have given what this one takes, so it goes last. */
qn_code generation_begin(llm *m, const char *call, int64_t n, const int32_t *ids,
                         const qn_llm_generate_options *options) {
    qn_llm_generate_options o = QN_LLM_GENERATE();
    qn_sample_options sample = QN_SAMPLE_OPTIONS();
    if (!struct_take(m->ctx, call, "qn_llm_generate_options", &o, sizeof o, options) ||
        !struct_take(m->ctx, call, "qn_sample_options", &sample, sizeof sample, o.sample))
        return m->ctx->code;
    generation *g = heap_try(&m->ctx->heap, sizeof *g);
    if (!g) return fail(m->ctx, QN_ENOMEM, "%s: out of memory", call);
    *g = (generation){.m = m, .n = n, .ids = ids, .o = o, .sample = sample};
    arena_open(&g->a, &m->ctx->heap);
    arena_open(&g->scratch, &m->ctx->heap);
    qn_code code = llm_call(m, begin_work, g);
    generation *before = code ? g : m->now->going;
    if (!code) m->now->going = g, m->now->fed = false;
    generation_free(before);
    return code;
}

qn_code qn_llm_begin(qn_llm *known, int64_t n, const int32_t *ids,
                     const qn_llm_generate_options *options) {
    llm *m = object_of(known, HANDLE_LLM, "llm_begin");
    return m ? generation_begin(m, "llm_begin", n, ids, options) : handle_code(known);
}
