/* steps.c - what a model reads so that its texts get their next tokens.
 *
 * A step reads a part of a prompt, or the last token of a text. The tokens of several texts are
 * rows of one batch, and so are a text's guesses: where its last tokens were there before, what
 * followed them then is likely to follow again. A guess is read together with the token before it,
 * and each row's logits choose a token as they would have alone; as long as these are what was
 * guessed the next row counts, too. So guesses change how long a text takes, and nothing else. */
#include "llm/generation.h"

enum {
    ALIKE_MOST = 4,  /* tokens at the end that are looked for, */
    ALIKE_LEAST = 2, /* and how few of them will do */
    PAUSE_MOST = 6   /* steps without guesses after wrong ones: 2^this */
};

/* ---- guesses --------------------------------------------------------------------------------- */

/* Where the last `alike` of n tokens were before, the latest place: what follows them there; n:
 * nowhere. */
static int64_t seen_before(const int32_t *token, int64_t n, int alike) {
    const size_t size = (size_t)alike * sizeof *token;
    for (int64_t i = n - alike - 1; i >= 0; i--)
        if (memcmp(token + i, token + n - alike, size) == 0) return i + alike;
    return n;
}

/* Into out, `room` at most: how many. */
static int64_t guess(generation *g, int64_t room, int32_t *out) {
    const llm *m = g->m;
    int32_t *token = m->now->token;
    const int64_t held = m->now->held, n = held + 1;
    int64_t most = g->o.guesses, from = n, count = 0;
    if (g->pause > 0) return g->pause--, 0;
    if (most > room) most = room;
    if (most > g->most - g->count - 1) most = g->most - g->count - 1; /* the cache has room */
    if (most <= 0) return 0;
    token[held] = g->made[g->count - 1];
    for (int alike = ALIKE_MOST; alike >= ALIKE_LEAST && from == n; alike--)
        if (n > alike) from = seen_before(token, n, alike);
    while (count < most && from < n) out[count++] = token[from++];
    return count;
}

static void guesses_judge(generation *g, int64_t right) {
    g->missed = right ? 0 : g->missed < PAUSE_MOST ? g->missed + 1 : g->missed;
    g->pause = g->missed ? 1 << (g->missed - 1) : 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is read together: the last token of each text, and guesses behind it. */
typedef struct together {
    llm *m;
    int64_t texts, rows;
    llm_cache *of[BATCH_MOST];
    int64_t count[BATCH_MOST]; /* rows of each text */
    int64_t cache[BATCH_MOST]; /* of each row */
    int32_t id[BATCH_MOST];
} together;

static void rows_read(void *arg) {
    const together *t = arg;
    llm_feed_batch(t->m, t->rows, t->cache, t->id);
}

typedef struct rows_call {
    generation *g;
    const float *logits;
    const int32_t *id;
    int64_t n;
} rows_call;

/* The tokens of a text's rows, which are all read: as if each had been when its turn came. */
static void rows_work(void *arg) {
    const rows_call *c = arg;
    generation *g = c->g;
    llm *m = g->m;
    const int64_t row = m->config.size[DIM_VOCABULARY], from = m->now->held - c->n;
    int64_t i = 0;
    for (;; i++) {
        m->now->held = from + i + 1;
        token_add(g, c->logits + i * row);
        if (g->state != QN_LLM_WRITES || i + 1 == c->n || g->made[g->count - 1] != c->id[i + 1])
            break;
    }
    if (c->n > 1) guesses_judge(g, i);
}

static void prompt_work(void *arg) {
    generation *g = arg;
    if (prompt_read(g)) token_add(g, g->m->logits);
}

static void alone_work(void *arg) {
    generation *g = arg;
    llm_feed(g->m, 1, &g->made[g->count - 1]);
    token_add(g, g->m->logits);
}

static void full_work(void *arg) {
    text_is_full(arg);
}

static void text_fails(generation *g) {
    g->state = QN_LLM_FAILED;
    g->over = true;
}

/* A part of a step of the selected cache's text, which is over where that fails. */
static qn_code do_part(llm *m, void (*work)(void *arg), void *arg) {
    generation *g = m->now->going;
    qn_code code = llm_call(m, work, arg);
    g->over = g->state > QN_LLM_WRITES;
    if (code) text_fails(g);
    return code;
}

/* Where the rows cannot be read all texts fail; after that each is on its own. */
static qn_code rows_step(together *t) {
    llm *m = t->m;
    const qn_code read = t->rows > 1 ? llm_call(m, rows_read, t) : QN_OK;
    qn_code code = read, own = QN_OK;
    for (int64_t i = 0, first = 0; i < t->texts; first += t->count[i++]) {
        m->now = t->of[i];
        generation *g = m->now->going;
        rows_call c = {g, m->batch_logits + first * m->config.size[DIM_VOCABULARY], t->id + first,
                       t->count[i]};
        if (read)
            text_fails(g);
        else
            own = t->rows == 1 ? do_part(m, alone_work, g) : do_part(m, rows_work, &c);
        if (own) code = own;
    }
    t->texts = t->rows = 0;
    return code;
}

/* Of the selected cache's text, with so many guesses at most; where no page is left for it, it is
 * full. */
static qn_code rows_add(together *t, int64_t room) {
    llm *m = t->m;
    generation *g = m->now->going;
    const int64_t first = t->rows;
    if (!pages_take(m, m->now, m->now->held + 1)) return do_part(m, full_work, g);
    t->of[t->texts] = m->now;
    t->id[t->rows++] = g->made[g->count - 1];
    if (room > 0) t->rows += guess(g, room, t->id + t->rows);
    if (!pages_take(m, m->now, m->now->held + t->rows - first)) t->rows = first + 1;
    t->count[t->texts++] = t->rows - first;
    for (int64_t i = first; i < t->rows; i++) t->cache[i] = m->now - m->cache;
    return QN_OK;
}

/* Experts are each token's own, so rows would share no matrix of theirs. By bytes
 * a last bit, which rows of a batch may differ by, makes another byte of a number now and then: a
 * guess would change the text. */
static qn_code steps(llm *m, int64_t n, llm_cache *const *caches) {
    const bool apart = m->config.arch->flags & ARCH_EXPERTS;
    const int64_t room = apart || m->int8 || n > BATCH_MOST ? 0 : BATCH_MOST / n - 1;
    qn_code code = QN_OK, own;
    together t = {.m = m};
    for (int64_t i = 0; i < n; i++) {
        m->now = caches[i];
        generation *g = m->now->going;
        if (g->count == 0) {
            if ((own = do_part(m, prompt_work, g))) code = own;
            continue;
        }
        if (t.texts && (apart || t.rows + room >= BATCH_MOST) && (own = rows_step(&t))) code = own;
        m->now = caches[i];
        if ((own = rows_add(&t, room))) code = own;
    }
    own = rows_step(&t);
    return own ? own : code;
}

/* ---- the public calls ------------------------------------------------------------------------ */

static void progress_give(const generation *g, void *out, size_t size) {
    const qn_llm_progress p = {
        .state = g->state, .kept = g->kept, .made = g->count, .ids = g->made};
    struct_give(out, size, &p, sizeof p);
}

/* Has the cache a text that goes on? Else it is an error. */
static bool goes_on(const llm *m, const char *call, const llm_cache *c) {
    if (c->going && !c->going->over) return true;
    return fail(m->ctx, QN_EARG, "%s: cache %lld has no text that goes on", call,
                (long long)(c - m->cache)),
           false;
}

qn_code qn_llm_step(qn_llm *known, qn_llm_progress *out, size_t size) {
    llm *m = object_of(known, HANDLE_LLM, "llm_step");
    if (!m) return handle_code(known);
    if (!out) return fail(m->ctx, QN_ENULL, "llm_step: out is NULL");
    if (!goes_on(m, "llm_step", m->now)) return QN_EARG;
    const qn_code code = steps(m, 1, &(llm_cache *){m->now});
    if (!code) progress_give(m->now->going, out, size);
    return code;
}

static qn_code many_check(llm *m, int64_t n, const int64_t *caches, llm_cache **of) {
    for (int64_t i = 0; i < n; i++) {
        if (caches[i] < 0 || caches[i] >= m->caches)
            return fail(m->ctx, QN_ERANGE, "llm_step_many: cache %lld of %lld",
                        (long long)caches[i], (long long)m->caches);
        of[i] = &m->cache[caches[i]];
        if (!goes_on(m, "llm_step_many", of[i])) return QN_EARG;
        for (int64_t k = 0; k < i; k++)
            if (of[k] == of[i])
                return fail(m->ctx, QN_EARG, "llm_step_many: cache %lld is given twice",
                            (long long)caches[i]);
    }
    return QN_OK;
}

qn_code qn_llm_step_many(qn_llm *known, int64_t n, const int64_t *caches, qn_llm_progress *out,
                         size_t size) {
    llm *m = object_of(known, HANDLE_LLM, "llm_step_many");
    llm_cache *of[CACHES_MOST];
    if (!m) return handle_code(known);
    if (n < 0 || n > m->caches)
        return fail(m->ctx, QN_EARG, "llm_step_many: %lld caches of %lld", (long long)n,
                    (long long)m->caches);
    if (n && (!caches || !out))
        return fail(m->ctx, QN_ENULL, "llm_step_many: %s is NULL", caches ? "out" : "caches");
    qn_code code = many_check(m, n, caches, of);
    if (code || !n) return code;
    llm_cache *const selected = m->now;
    code = steps(m, n, of);
    m->now = selected;
    for (int64_t i = 0; i < n; i++)
        progress_give(of[i]->going, (char *)out + (size_t)i * size, size);
    return code;
}

int64_t qn_llm_generate(qn_llm *known, int64_t n, const int32_t *ids,
                        const qn_llm_generate_options *options, const int32_t **out) {
    llm *m = object_of(known, HANDLE_LLM, "llm_generate");
    if (out) *out = NULL;
    if (!m || generation_begin(m, "llm_generate", n, ids, options)) return -1;
    const generation *g = m->now->going;
    qn_code code = QN_OK;
    while (!g->over) code = steps(m, 1, &(llm_cache *){m->now});
    if (code) return -1;
    if (out) *out = g->made;
    return g->count;
}
