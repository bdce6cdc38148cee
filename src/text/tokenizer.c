/* tokenizer.c - the public calls: from text to ids and back.
 *
 * A text goes through the parts of the tokenizer in pieces: added tokens are cut out of it, each
 * piece between them is normalised, added tokens are cut out of what that gave, the rest is split
 * by one splitter after the other, and the model makes ids of every word. */
#include "text/text.h"

/* ---- making --------------------------------------------------------------------------------- */

typedef struct opening {
    qn_ctx *qn;
    const char *json;
    size_t size;
    const qn_vocabulary *vocabulary;
    tokenizer *t;
    arena scratch;
} opening;

static void tokenizer_drop(tokenizer *t) {
    arena_free(&t->work);
    arena_free(&t->a);
    heap_free(&t->ctx->heap, t, sizeof *t);
}

static void open_work(void *arg) {
    opening *o = arg;
    text_loader l = {o->qn, NULL, &o->scratch};
    json_fault fault = {"empty", 0};
    l.t = o->t = heap_zeroed(&o->qn->heap, sizeof *o->t);
    o->t->ctx = o->qn;
    arena_open(&o->t->a, &o->qn->heap);
    arena_open(&o->t->work, &o->qn->heap);
    if (o->vocabulary) {
        tokenizer_build(&l, o->vocabulary);
        return;
    }
    const json *root = json_parse(&o->scratch, o->json, o->size, &fault);
    if (!root) raise_error(o->qn, QN_EFORMAT, "tokenizer: at byte %zu: %s", fault.at, fault.what);
    tokenizer_load(&l, root);
}

static qn_tokenizer *open_any(opening *o) {
    arena_open(&o->scratch, &o->qn->heap);
    qn_code code = guarded(o->qn, open_work, o);
    arena_free(&o->scratch);
    qn_tokenizer *name = code ? NULL : object_open(o->qn, HANDLE_TOKENIZER, o->t);
    if (!name && o->t) tokenizer_drop(o->t);
    return name;
}

qn_tokenizer *qn_tokenizer_open(qn_ctx *qn, const char *text, size_t size) {
    if (!qn) return NULL;
    if (!text) return fail_null(qn, QN_ENULL, "tokenizer_open: text is NULL");
    return open_any(&(opening){.qn = qn, .json = text, .size = size});
}

qn_tokenizer *qn_tokenizer_new(qn_ctx *qn, const qn_vocabulary *given) {
    qn_vocabulary v = QN_VOCABULARY();
    if (!qn) return NULL;
    if (!given) return fail_null(qn, QN_ENULL, "tokenizer_new: vocabulary is NULL");
    if (!struct_take(qn, "tokenizer_new", "qn_vocabulary", &v, sizeof v, given)) return NULL;
    return open_any(&(opening){.qn = qn, .vocabulary = &v});
}

void qn_tokenizer_close(qn_tokenizer *known) {
    tokenizer *t = object_close(known, HANDLE_TOKENIZER, "tokenizer_close");
    if (t) tokenizer_drop(t);
}

/* ---- encoding ------------------------------------------------------------------------------- */

typedef struct encoding {
    tokenizer *t;
    text_work work;
    span text;
    unsigned flags;
    id_list ids;
} encoding;

/* What lies between added tokens: split, and each word to the model. */
static void encode_rest(encoding *e, piece in) {
    tokenizer *t = e->t;
    piece_list words = {&e->work, .a = &t->work};
    piece_add(&words, in.text, -1, in.first);
    for (uint32_t i = 0; i < t->splitters.n; i++) {
        const text_step *step = &t->splitters.at[i];
        piece_list next = {&e->work, .a = &t->work};
        for (uint32_t k = 0; k < words.n; k++) step->row->split(step, &next, words.at[k]);
        words = next;
    }
    for (uint32_t k = 0; k < words.n; k++) t->model->encode(t, words.at[k].text, &e->ids);
}

static void encode_piece(encoding *e, piece in) {
    tokenizer *t = e->t;
    bool specials = !(e->flags & QN_ENCODE_PLAIN);
    piece_list parts = {&e->work, .a = &t->work};
    if (in.id >= 0) {
        id_add(&e->ids, &t->work, in.id);
        return;
    }
    e->work.first = in.first;
    in.text = normalize_all(&t->normalizers, &e->work, in.text);
    in.first = e->work.first;
    added_split(&t->normalized, specials, in, &parts);
    for (uint32_t i = 0; i < parts.n; i++) {
        if (parts.at[i].id >= 0)
            id_add(&e->ids, &t->work, parts.at[i].id);
        else
            encode_rest(e, parts.at[i]);
    }
}

/* Work in an arena of its own; what the call before gave may be this one's argument. */
static qn_code call_anew(tokenizer *t, void (*work)(void *arg), void *arg) {
    arena old = t->work;
    arena_open(&t->work, &t->ctx->heap);
    qn_code code = guarded(t->ctx, work, arg);
    arena_free(&old);
    return code;
}

static void encode_work(void *arg) {
    encoding *e = arg;
    tokenizer *t = e->t;
    piece_list parts = {&e->work, .a = &t->work};
    bool around = e->flags & QN_ENCODE_SPECIAL;
    size_t first = e->text.n ? utf8_length_at(e->text.s) : 0;
    t->plain = e->flags & QN_ENCODE_PLAIN;
    e->work = work_for(&t->work, e->text.n, QN_ERANGE);
    e->ids.at = arena_alloc(&t->work, sizeof *e->ids.at);
    e->ids.cap = 1;
    for (uint32_t i = 0; around && i < t->before.n; i++) id_add(&e->ids, &t->work, t->before.at[i]);
    added_split(&t->raw, !(e->flags & QN_ENCODE_PLAIN), (piece){e->text, -1, first}, &parts);
    for (uint32_t i = 0; i < parts.n; i++) encode_piece(e, parts.at[i]);
    for (uint32_t i = 0; around && i < t->after.n; i++) id_add(&e->ids, &t->work, t->after.at[i]);
}

int64_t qn_tokenizer_encode(qn_tokenizer *known, const char *text, size_t size, unsigned flags,
                            const int32_t **ids) {
    tokenizer *t = object_of(known, HANDLE_TOKENIZER, "tokenizer_encode");
    if (ids) *ids = NULL;
    if (!t) return -1;
    encoding e = {.t = t, .text = {text, size}, .flags = flags};
    if ((!text && size) || !ids)
        return fail(t->ctx, QN_ENULL, "tokenizer_encode: %s is NULL", ids ? "text" : "ids"), -1;
    if (flags & ~(unsigned)(QN_ENCODE_SPECIAL | QN_ENCODE_PLAIN))
        return fail(t->ctx, QN_EARG, "tokenizer_encode: flags %#x have bits that mean nothing",
                    flags),
               -1;
    if (size > TEXT_MOST)
        return fail(t->ctx, QN_ERANGE,
                    "tokenizer_encode: a text of %zu bytes; up to %d are taken at once", size,
                    TEXT_MOST),
               -1;
    size_t bad = utf8_bad(e.text);
    if (bad < size)
        return fail(t->ctx, QN_EARG, "tokenizer_encode: the text is not UTF-8, at byte %zu", bad),
               -1;
    if (call_anew(t, encode_work, &e)) return -1;
    *ids = e.ids.at;
    return e.ids.n;
}

/* ---- decoding ------------------------------------------------------------------------------- */

typedef struct decoding {
    tokenizer *t;
    int64_t n;
    const int32_t *ids;
    bool skip_special;
    span text;
} decoding;

static void decode_work(void *arg) {
    decoding *d = arg;
    tokenizer *t = d->t;
    text_work work;
    decode_state s = {&work, .a = &t->work};
    uint64_t size = 0;
    str out;
    s.at = arena_alloc(s.a, ((size_t)d->n + 1) * sizeof *s.at);
    for (int64_t i = 0; i < d->n; i++) {
        int32_t id = d->ids[i];
        if (id < 0 || id >= t->most)
            raise_error(t->ctx, QN_ERANGE, "tokenizer_decode: id %d at place %lld; there are %d",
                        id, (long long)i, t->most);
        if (!t->text[id].s || (d->skip_special && t->is_special[id])) continue;
        s.at[s.n++] = t->text[id];
        size += t->text[id].n;
    }
    if (size > TEXT_MOST)
        raise_error(t->ctx, QN_ERANGE,
                    "tokenizer_decode: tokens of %llu bytes; up to %d are taken "
                    "at once",
                    (unsigned long long)size, TEXT_MOST);
    work = work_for(s.a, size + s.n, QN_ERANGE);
    for (uint32_t i = 0; i < t->decoders.n; i++)
        t->decoders.at[i].row->decode(&t->decoders.at[i], &s);
    str_open_in(&out, s.a);
    str_addn(&out, "", 0);
    for (uint32_t i = 0; i < s.n; i++) {
        if (i && !t->decoders.n) str_addn(&out, " ", 1);
        str_addn(&out, s.at[i].s, s.at[i].n);
    }
    d->text = utf8_repair(s.a, (span){out.s, out.len});
    d->text = span_copy(s.a, d->text);
}

const char *qn_tokenizer_decode(qn_tokenizer *known, int64_t n, const int32_t *ids,
                                bool skip_special, size_t *size) {
    tokenizer *t = object_of(known, HANDLE_TOKENIZER, "tokenizer_decode");
    if (size) *size = 0;
    if (!t) return NULL;
    decoding d = {t, n, ids, skip_special, {NULL, 0}};
    if (n < 0 || n > TEXT_MOST / 16)
        return fail_null(t->ctx, QN_ERANGE,
                         "tokenizer_decode: %lld ids; up to %d are taken at once", (long long)n,
                         TEXT_MOST / 16);
    if (n && !ids) return fail_null(t->ctx, QN_ENULL, "tokenizer_decode: ids is NULL");
    if (call_anew(t, decode_work, &d)) return NULL;
    if (size) *size = d.text.n;
    return d.text.s;
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

int32_t qn_tokenizer_size(const qn_tokenizer *known) {
    const tokenizer *t = object_of(known, HANDLE_TOKENIZER, "tokenizer_size");
    return t ? t->most : -1;
}

int32_t qn_tokenizer_id(const qn_tokenizer *known, const char *token) {
    const tokenizer *t = object_of(known, HANDLE_TOKENIZER, "tokenizer_id");
    if (!t) return -1;
    if (!token) return fail(t->ctx, QN_ENULL, "tokenizer_id: token is NULL"), -1;
    span text = {token, strlen(token)};
    for (uint32_t i = 0; i < t->added_count; i++)
        if (span_is(t->added[i].text, text)) return t->added[i].id;
    return vocabulary_find(&t->vocab, text);
}

const char *qn_tokenizer_token(const qn_tokenizer *known, int32_t id, bool *special) {
    const tokenizer *t = object_of(known, HANDLE_TOKENIZER, "tokenizer_token");
    bool there = t && id >= 0 && id < t->most && t->text[id].s;
    if (special) *special = there && t->is_special[id];
    return there ? t->text[id].s : NULL;
}
