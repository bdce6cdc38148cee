/* llm.c - the public calls on language models, but for choosing tokens: a model is opened, reads
 * tokens, and says what it makes of them. */
#include "llm/llm.h"

#include "llm/grammar/grammar.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct opening {
    qn_ctx *qn;
    const char *path;
    qn_llm_options o;
    llm *m;
    qn_archive *archive;
    arena scratch;
} opening;

static bool is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* The file of weights, and the folder of what belongs to it. */
static const char *weights_of(opening *o, const char **folder) {
    struct stat about;
    arena *a = &o->scratch;
    if (stat(o->path, &about) == 0 && S_ISDIR(about.st_mode)) {
        *folder = o->path;
        const char *index = arena_printf(a, "%s/model.safetensors.index.json", o->path);
        return is_file(index) ? index : arena_printf(a, "%s/model.safetensors", o->path);
    }
    const char *slash = strrchr(o->path, '/');
    *folder = slash ? arena_printf(a, "%.*s", (int)(slash - o->path), o->path) : ".";
    if (slash == o->path) *folder = "/";
    return o->path;
}

static void open_work(void *arg) {
    opening *o = arg;
    const char *folder;
    llm_source s = {.ctx = o->qn, .path = o->path, .a = &o->scratch};
    llm *m = o->m = heap_zeroed(&o->qn->heap, sizeof *m);
    m->ctx = o->qn;
    arena_open(&m->a, &o->qn->heap);
    arena_open(&m->work, &o->qn->heap);
    /* Products of bytes want the scales beside the blocks. */
    const bool mapped = !o->o.copied;
    s.archive = o->archive =
        qn_archive_open_with(o->qn, weights_of(o, &folder), &QN_ARCHIVE_READING(.mapped = mapped));
    if (!s.archive) heap_unwind(&o->qn->heap);
    const char *kind = qn_archive_kind(s.archive);
    if (strcmp(kind, "gguf") != 0) {
        if (strcmp(kind, "safetensors") != 0 && strcmp(kind, "index") != 0)
            llm_bad(&s, "language models are gguf or safetensors, and this is %s", kind);
        s.json = llm_json(&s, folder, "config.json");
        if (!s.json) llm_bad(&s, "there is no config.json beside it");
    }
    config_read(&s, &m->config);
    weights_read(m, &s);
    adapters_read(m, &o->scratch, &o->o);
    const float *factors = NULL;
    const void *data;
    if (m->whole[SLOT_FACTORS].t) {
        if (qn_data(m->whole[SLOT_FACTORS].t, &data)) heap_unwind(&o->qn->heap);
        factors = data;
        for (int64_t i = 0; i < m->config.size[DIM_HALF]; i++)
            if (!(factors[i] > 0) || isinf(factors[i]))
                llm_bad(&s, "tensor \"rope_freqs.weight\": element %lld is %g", (long long)i,
                        (double)factors[i]);
    }
    speeds_make(m, factors);
    vocabulary_read(m, &s, folder);
    cache_make(m, &o->o);
}

static void llm_drop(llm *m) {
    qn_ctx *qn = m->ctx;
    forward_free(m);
    if (m->adapter) qn_archive_close(m->adapter);
    weights_free(m);
    cache_free(m);
    if (m->tokenizer) qn_tokenizer_close(m->tokenizer);
    if (m->template) qn_template_free(m->template);
    for (int64_t i = 0; m->cache && i < m->caches; i++) generation_free(m->cache[i].going);
    automaton_drop(m->machine);
    arena_free(&m->work);
    arena_free(&m->a);
    heap_free(&qn->heap, m, sizeof *m);
}

qn_llm *qn_llm_open(qn_ctx *qn, const char *path, const qn_llm_options *options) {
    opening o = {.qn = qn, .path = path, .o = QN_LLM_OPTIONS()};
    if (!qn) return NULL;
    if (!path) return fail_null(qn, QN_ENULL, "llm_open: no path");
    if (!struct_take(qn, "llm_open", "qn_llm_options", &o.o, sizeof o.o, options)) return NULL;
    arena_open(&o.scratch, &qn->heap);
    qn_scope scope = qn_scope_begin(qn);
    qn_code code = scope ? guarded(qn, open_work, &o) : qn->code;
    if (scope) qn_scope_end(qn, scope);
    if (o.archive) qn_archive_close(o.archive);
    arena_free(&o.scratch);
    qn_llm *known = code ? NULL : object_open(qn, HANDLE_LLM, o.m);
    if (!known && o.m) llm_drop(o.m);
    return known;
}

void qn_llm_close(qn_llm *known) {
    llm *m = object_close(known, HANDLE_LLM, "llm_close");
    if (m) llm_drop(m);
}

/* ---- what it is ------------------------------------------------------------------------------ */

qn_code qn_llm_get_info(const qn_llm *known, qn_llm_info *out, size_t size) {
    const llm *m = object_of(known, HANDLE_LLM, "llm_get_info");
    if (!m) return handle_code(known);
    if (!out) return fail(m->ctx, QN_ENULL, "llm_get_info: out is NULL");
    const llm_config *c = &m->config;
    qn_llm_info info = {.vocabulary = c->size[DIM_VOCABULARY],
                        .width = c->size[DIM_WIDTH],
                        .layers = c->layers,
                        .heads = c->heads,
                        .kv_heads = c->kv_heads,
                        .head = c->size[DIM_HEAD],
                        .context = m->context,
                        .trained = c->size[DIM_TRAINED],
                        .parameters = m->parameters,
                        .bytes = m->bytes,
                        .chat = m->template_text != NULL,
                        .page = PAGE,
                        .pages = m->pages,
                        .pages_used = m->pages - m->free_pages};
    snprintf(info.architecture, sizeof info.architecture, "%s",
             m->gguf ? c->arch->gguf : c->arch->hf);
    struct_give(out, size, &info, sizeof info);
    return QN_OK;
}

qn_tokenizer *qn_llm_tokenizer(const qn_llm *known) {
    const llm *m = object_of(known, HANDLE_LLM, "llm_tokenizer");
    return m ? m->tokenizer : NULL;
}

bool llm_is_end(const llm *m, int32_t id) {
    for (int i = 0; i < m->config.ends; i++)
        if (m->config.end[i] == id) return true;
    return false;
}

bool qn_llm_ends(const qn_llm *known, int32_t id) {
    const llm *m = object_of(known, HANDLE_LLM, "llm_ends");
    return m && llm_is_end(m, id);
}

/* ---- texts ----------------------------------------------------------------------------------- */

int64_t qn_llm_encode(qn_llm *known, const char *text, size_t size, const int32_t **ids) {
    llm *m = object_of(known, HANDLE_LLM, "llm_encode");
    if (ids) *ids = NULL;
    if (!m) return -1;
    if (m->tokenizer) return qn_tokenizer_encode(m->tokenizer, text, size, QN_ENCODE_SPECIAL, ids);
    return fail(m->ctx, QN_EARG, "llm_encode: the model has no tokenizer"), -1;
}

typedef struct chat_call {
    llm *m;
    const char *messages;
    size_t size;
    str variables;
} chat_call;

static void chat_work(void *arg) {
    chat_call *c = arg;
    llm *m = c->m;
    if (!m->template) m->template = qn_template_new(m->ctx, m->template_text, m->template_size);
    if (!m->template) heap_unwind(&m->ctx->heap);
    str_open_in(&c->variables, &m->work);
    str_add(&c->variables, "{\"add_generation_prompt\":true,\"bos_token\":");
    json_quote(&c->variables, m->bos);
    str_add(&c->variables, ",\"eos_token\":");
    json_quote(&c->variables, m->eos);
    str_add(&c->variables, ",\"messages\":");
    str_addn(&c->variables, c->messages, c->size);
    str_add(&c->variables, "}");
}

int64_t qn_llm_encode_chat(qn_llm *known, const char *messages, size_t size, const int32_t **ids) {
    llm *m = object_of(known, HANDLE_LLM, "llm_encode_chat");
    if (ids) *ids = NULL;
    if (!m) return -1;
    if (!messages || !ids)
        return fail(m->ctx, QN_ENULL, "llm_encode_chat: %s is NULL", ids ? "messages" : "ids"), -1;
    if (!m->template_text)
        return fail(m->ctx, QN_EARG, "llm_encode_chat: the model has no chat template"), -1;
    chat_call c = {.m = m, .messages = messages, .size = size};
    if (llm_call(m, chat_work, &c)) return -1;
    size_t length;
    const char *text = qn_template_render(m->template, c.variables.s, c.variables.len, &length);
    return text ? qn_tokenizer_encode(m->tokenizer, text, length, 0, ids) : -1;
}

/* ---- reading tokens -------------------------------------------------------------------------- */

qn_code llm_call(llm *m, void (*work)(void *arg), void *arg) {
    arena old = m->work; /* arguments may be what the call before gave */
    arena_open(&m->work, &m->ctx->heap);
    qn_scope scope = qn_scope_begin(m->ctx);
    qn_code code = scope ? guarded(m->ctx, work, arg) : m->ctx->code;
    if (scope) qn_scope_end(m->ctx, scope);
    arena_free(&old);
    return code;
}

const int32_t *llm_take_ids(llm *m, const char *call, int64_t n, const int32_t *ids) {
    int64_t most = m->config.size[DIM_VOCABULARY];
    if (!ids && n) raise_error(m->ctx, QN_ENULL, "%s: ids is NULL", call);
    if (n < 0) raise_error(m->ctx, QN_ERANGE, "%s: %lld tokens", call, (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= most)
            raise_error(m->ctx, QN_ERANGE, "%s: token %lld is %d; ids are below %lld", call,
                        (long long)i, ids[i], (long long)most);
    int32_t *own = arena_alloc(&m->work, (size_t)n * sizeof *own);
    if (n) memcpy(own, ids, (size_t)n * sizeof *own);
    return own;
}

enum { WASHES = 8 };

static bool are_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Floats that a graph gives of n tokens. */
static size_t floats_of(const llm *m, llm_kind kind, int64_t n) {
    const int64_t each = m->config.size[kind == GRAPH_CHUNK ? DIM_VOCABULARY : DIM_WIDTH];
    return (size_t)(kind == GRAPH_LOSSES ? n : kind == GRAPH_HIDDEN ? n * each : each);
}

/* What it gives of tokens behind those of c, into out. */
static void tokens_run(llm *m, const llm_cache *c, llm_kind kind, int64_t n, const int32_t *ids,
                       float *out) {
    qn_scope scope = qn_scope_begin(m->ctx);
    qn_tensor *t = forward_run(m, c, kind, n, ids);
    if (qn_read(t, out, floats_of(m, kind, n) * sizeof *out)) heap_unwind(&m->ctx->heap);
    qn_scope_end(m->ctx, scope);
}

/* All rows of a page, by reading a token into them: are they finite? The last one sees them all. */
static bool page_wash(llm *m, int32_t page, int32_t id) {
    int32_t ids[PAGE];
    const int64_t rows = m->context < PAGE ? m->context : PAGE;
    llm_cache own = {.page = &page, .pages = 1};
    for (int i = 0; i < PAGE; i++) ids[i] = id;
    for (int64_t some; own.held < rows; own.held += some) {
        some = rows - own.held < m->chunk ? rows - own.held : m->chunk;
        tokens_run(m, &own, GRAPH_CHUNK, some, ids, m->logits);
    }
    return are_finite(m->logits, floats_of(m, GRAPH_CHUNK, 1));
}

/* Foul pages, by the first token that will do; where none of the first few does the model is to
 * blame. */
static void pages_wash(llm *m) {
    for (int32_t page; (page = pages_foul(m)) != 0; pages_clean(m, page)) {
        int32_t id = 0;
        while (!page_wash(m, page, id) && id < WASHES && id + 1 < m->config.size[DIM_VOCABULARY])
            id++;
    }
}

/* One chunk of the selected cache. */
static void chunk_run(llm *m, llm_kind kind, int64_t n, const int32_t *ids, float *out) {
    pages_room(m, m->now->held + n);
    pages_wash(m);
    tokens_run(m, m->now, kind, n, ids, out);
    if (!are_finite(out, floats_of(m, kind, n))) pages_spoil(m, m->now);
}

static void feed_chunks(llm *m, int64_t n, const int32_t *ids) {
    /* Tokens of a chunk share no experts: one after the other their products are of matrices. */
    int64_t chunk = m->config.arch->flags & ARCH_EXPERTS ? 1 : m->chunk;
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < chunk ? n - i : chunk;
        chunk_run(m, GRAPH_CHUNK, some, ids + i, m->logits);
        memmove(m->now->token + m->now->held, ids + i, (size_t)some * sizeof *ids);
        m->now->held += some;
    }
}

void llm_feed(llm *m, int64_t n, const int32_t *ids) {
    if (n > m->context - m->now->held)
        raise_error(m->ctx, QN_ERANGE, "llm: %lld tokens behind %lld do not fit a context of %lld",
                    (long long)n, (long long)m->now->held, (long long)m->context);
    pages_room(m, m->now->held + n);
    const int64_t again = n ? pages_own(m) : 0;
    feed_chunks(m, again, m->now->token + m->now->held);
    feed_chunks(m, n, ids);
    m->now->whole = INT64_MAX;
}

void llm_feed_batch(llm *m, int64_t n, const int64_t *cache, const int32_t *ids) {
    const size_t row = (size_t)m->config.size[DIM_VOCABULARY] * sizeof *m->batch_logits;
    if (!m->batch_logits) m->batch_logits = arena_alloc(&m->a, BATCH_MOST * row);
    pages_wash(m);
    qn_scope scope = qn_scope_begin(m->ctx);
    qn_tensor *logits = forward_batch(m, n, cache, ids);
    if (qn_read(logits, m->batch_logits, (size_t)batch_rows(n) * row)) heap_unwind(&m->ctx->heap);
    qn_scope_end(m->ctx, scope);
    for (int64_t i = 0; i < n; i++) {
        llm_cache *c = &m->cache[cache[i]];
        c->token[c->held++] = ids[i];
        const size_t most = row / sizeof *m->batch_logits;
        if (!are_finite(m->batch_logits + (size_t)i * most, most)) pages_spoil(m, c);
    }
}

typedef struct feed_call {
    llm *m;
    int64_t n;
    const int32_t *ids;
    double nll;
    float *out;
    bool wants; /* logits */
} feed_call;

static void feed_work(void *arg) {
    feed_call *c = arg;
    llm *m = c->m;
    const int32_t *ids = llm_take_ids(m, "llm_feed", c->n, c->ids);
    bool again = c->n == 0 && c->wants; /* the last token, for its logits */
    if (again && m->now->held == 0)
        raise_error(m->ctx, QN_ERANGE, "llm_feed: logits of no token: none was read");
    if (again) ids = llm_take_ids(m, "llm_feed", 1, m->now->token + --m->now->held);
    llm_feed(m, again ? 1 : c->n, ids);
}

qn_code qn_llm_feed(qn_llm *known, int64_t n, const int32_t *ids, const float **logits) {
    llm *m = object_of(known, HANDLE_LLM, "llm_feed");
    if (logits) *logits = NULL;
    if (!m) return handle_code(known);
    int64_t held = m->now->held;
    llm_writes(m);
    feed_call c = {.m = m, .n = n, .ids = ids, .wants = logits != NULL};
    qn_code code = llm_call(m, feed_work, &c);
    if (code) m->now->held = held < m->now->whole ? held : m->now->whole;
    if (code) pages_trim(m, m->now);
    m->now->whole = INT64_MAX;
    if (!code) m->now->fed = true;
    if (!code && logits) *logits = m->logits;
    return code;
}

int64_t qn_llm_read(const qn_llm *known, const int32_t **ids) {
    const llm *m = object_of(known, HANDLE_LLM, "llm_read");
    if (ids) *ids = m ? m->now->token : NULL;
    return m ? m->now->held : -1;
}

qn_code qn_llm_rewind(qn_llm *known, int64_t n) {
    llm *m = object_of(known, HANDLE_LLM, "llm_rewind");
    if (!m) return handle_code(known);
    if (n < 0 || n > m->now->held)
        return fail(m->ctx, QN_ERANGE, "llm_rewind: to %lld of %lld tokens", (long long)n,
                    (long long)m->now->held);
    llm_writes(m);
    m->now->held = n;
    pages_trim(m, m->now);
    return QN_OK;
}

qn_code qn_llm_select(qn_llm *known, int64_t cache) {
    llm *m = object_of(known, HANDLE_LLM, "llm_select");
    if (!m) return handle_code(known);
    if (cache < 0 || cache >= m->caches)
        return fail(m->ctx, QN_ERANGE, "llm_select: cache %lld of %lld", (long long)cache,
                    (long long)m->caches);
    m->now = &m->cache[cache];
    return QN_OK;
}

void llm_writes(llm *m) {
    if (m->now->going) generation_over(m->now->going);
}

/* ---- losses and embeddings ------------------------------------------------------------------- */

static void score_work(void *arg) {
    feed_call *c = arg;
    llm *m = c->m;
    const int32_t *ids = llm_take_ids(m, "llm_score", c->n, c->ids);
    float *loss = arena_alloc(&m->work, (size_t)m->chunk * sizeof *loss);
    for (int64_t i = 0, some; i < c->n - 1; i += some) {
        if (m->now->held == m->context) m->now->held = 0; /* and its pages are written over */
        int64_t room = m->context - m->now->held;
        some = c->n - 1 - i < m->chunk ? c->n - 1 - i : m->chunk;
        if (some > room) some = room;
        chunk_run(m, GRAPH_LOSSES, some, ids + i, loss);
        for (int64_t k = 0; k < some; k++) c->nll += (double)loss[k];
        m->now->held += some;
    }
}

static void embed_work(void *arg) {
    feed_call *c = arg;
    llm *m = c->m;
    int64_t width = m->config.size[DIM_WIDTH];
    const int32_t *ids = llm_take_ids(m, "llm_embed", c->n, c->ids);
    if (c->n < 1 || c->n > m->context)
        raise_error(m->ctx, QN_ERANGE, "llm_embed: %lld tokens in a context of %lld",
                    (long long)c->n, (long long)m->context);
    float *row = arena_alloc(&m->work, (size_t)(m->chunk * width) * sizeof *row);
    double *sum = arena_zeroed(&m->work, (size_t)width * sizeof *sum);
    for (int64_t some; m->now->held < c->n; m->now->held += some) {
        some = c->n - m->now->held < m->chunk ? c->n - m->now->held : m->chunk;
        chunk_run(m, GRAPH_HIDDEN, some, ids + m->now->held, row);
        for (int64_t k = 0; k < some * width; k++) sum[k % width] += (double)row[k];
    }
    for (int64_t k = 0; k < width; k++) c->out[k] = (float)(sum[k] / (double)c->n);
}

static qn_code from_nothing(llm *m, void (*work)(void *arg), feed_call *c) {
    llm_writes(m);
    m->now->held = 0;
    pages_trim(m, m->now);
    qn_code code = llm_call(m, work, c);
    m->now->held = 0;
    pages_trim(m, m->now);
    return code;
}

qn_code qn_llm_score(qn_llm *known, int64_t n, const int32_t *ids, double *nll) {
    llm *m = object_of(known, HANDLE_LLM, "llm_score");
    if (!m) return handle_code(known);
    if (!nll) return fail(m->ctx, QN_ENULL, "llm_score: nll is NULL");
    feed_call c = {.m = m, .n = n, .ids = ids};
    qn_code code = from_nothing(m, score_work, &c);
    if (!code) *nll = c.nll;
    return code;
}

qn_code qn_llm_embed(qn_llm *known, int64_t n, const int32_t *ids, float *out) {
    llm *m = object_of(known, HANDLE_LLM, "llm_embed");
    if (!m) return handle_code(known);
    if (!out) return fail(m->ctx, QN_ENULL, "llm_embed: out is NULL");
    return from_nothing(m, embed_work, &(feed_call){.m = m, .n = n, .ids = ids, .out = out});
}
