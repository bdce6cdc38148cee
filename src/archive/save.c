/* save.c - archives written: one list of tensors, described and checked, then the kind's own way.
 *
 * Values are read one tensor at a time into one piece of memory. A file gets its name when it is
 * whole (io/file.c). */
#include "archive/archive.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what the kinds write with --------------------------------------------------------------- */

void saving_write(saving *s, const void *data, size_t size) {
    if (file_write(&s->file, data, size)) heap_unwind(&s->ctx->heap);
}

void saving_zeros(saving *s, uint64_t n) {
    static const char zeros[256]; /* a gap before aligned data */
    for (; n; n -= n < sizeof zeros ? n : sizeof zeros)
        saving_write(s, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros);
}

const void *saving_value(saving *s, int i) {
    if (qn_read(s->tensors[i], s->data, (size_t)s->entry[i].bytes)) heap_unwind(&s->ctx->heap);
    return s->data;
}

/* ---- safetensors ----------------------------------------------------------------------------- */

/* A value that is no list, as text. */
static void meta_text(const saving *s, const archive_meta *m, str *out) {
    const char *key = m->key;
    const qn_archive *like = s->o.like;
    if (m->type == GGUF_TEXT)
        str_add(out, m->data);
    else if (m->type == GGUF_F32 || m->type == GGUF_F64)
        str_addf(out, "%.17g", qn_archive_meta_float(like, key, 0));
    else if (m->type == GGUF_U64)
        str_addf(out, "%llu", (unsigned long long)qn_archive_meta_int(like, key, 0));
    else
        str_addf(out, "%lld", (long long)qn_archive_meta_int(like, key, 0));
}

static void save_safetensors(saving *s) {
    uint32_t metas = s->like ? s->like->metas : 0, pairs = 0;
    const char **text = arena_alloc(&s->a, 2 * (metas + (size_t)s->o.pairs + 1) * sizeof *text);
    for (uint32_t i = 0; i < metas; i++) {
        const archive_meta *m = &s->like->meta[i];
        if (m->list || (m->type == GGUF_TEXT && !json_utf8(m->data, strlen(m->data)))) continue;
        str value;
        str_open_in(&value, &s->a);
        str_add(&value, "");
        meta_text(s, m, &value);
        text[2 * pairs] = m->key;
        text[2 * pairs++ + 1] = value.s;
    }
    for (int i = 0; i < s->o.pairs; i++, pairs++) {
        text[2 * pairs] = s->o.metadata[2 * i];
        text[2 * pairs + 1] = s->o.metadata[2 * i + 1];
    }
    qn_save_options o = QN_SAVE_OPTIONS(.metadata = text, .pairs = (int)pairs);
    if (qn_save(s->ctx, s->path, s->n, s->names, s->tensors, &o)) heap_unwind(&s->ctx->heap);
}

/* ---- all kinds ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*save)(saving *s);
} kinds[] = {
    {"safetensors", save_safetensors}, {"gguf", save_gguf}, {"npy", save_npy}, {"npz", save_npz}};

static void describe(saving *s, int i) {
    archive_entry *e = &s->entry[i];
    qn_tensor *t = s->tensors[i];
    qn_quant quant = s->o.quants ? s->o.quants[i] : QN_QUANT_NONE;
    e->name = s->names[i];
    if (!e->name) raise_error(s->ctx, QN_ENULL, "archive_save: name %d is NULL", i);
    if (!*e->name || !json_utf8(e->name, strlen(e->name)))
        raise_error(s->ctx, QN_EARG, "archive_save: name %d is empty or no UTF-8", i);
    e->dtype = (uint8_t)qn_dtype_of(t);
    e->rank = (uint8_t)qn_rank(t);
    e->shape = arena_alloc(&s->a, (size_t)QN_MAX_RANK * sizeof *e->shape);
    for (int k = 0; k < e->rank; k++) {
        e->shape[k] = qn_dim_value(s->ctx, qn_dim(t, k));
        if (e->shape[k] < 0) heap_unwind(&s->ctx->heap);
    }
    size_t bytes;
    if (!checked_bytes(e->rank, e->shape, qn_dtype_size((qn_dtype)e->dtype), &bytes))
        raise_error(s->ctx, QN_ERANGE, "archive_save: \"%.80s\" is of 2^63 bytes", e->name);
    e->bytes = bytes;
    if (quant == QN_QUANT_NONE) return;
    const quant_type *q = quant_find((int)quant);
    if (!q || e->dtype != QN_U8 || !e->rank || e->shape[e->rank - 1] % q->bytes)
        raise_error(s->ctx, QN_EARG, "archive_save: \"%.80s\" holds no blocks of type %d (%s)",
                    e->name, (int)quant, q ? q->name : "none");
    e->quant = (uint8_t)quant;
    e->shape[e->rank - 1] = e->shape[e->rank - 1] / q->bytes * q->elements;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_names(saving *s) {
    const char **sorted = arena_alloc(&s->a, ((size_t)s->n + 1) * sizeof *sorted);
    for (int i = 0; i < s->n; i++) sorted[i] = s->names[i];
    if (s->n) qsort(sorted, (size_t)s->n, sizeof *sorted, by_text);
    for (int i = 1; i < s->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            raise_error(s->ctx, QN_EARG, "archive_save: two tensors are called \"%.80s\"",
                        sorted[i]);
}

static void save_work(void *arg) {
    saving *s = arg;
    const char *kind = s->o.kind, *end = strrchr(s->path, '.');
    if (!kind) kind = end ? end + 1 : "";
    s->entry = arena_zeroed(&s->a, ((size_t)s->n + 1) * sizeof *s->entry);
    size_t k = 0, most = 1;
    while (k < COUNT_OF(kinds) && strcmp(kinds[k].name, kind) != 0) k++;
    if (k == COUNT_OF(kinds))
        raise_error(s->ctx, QN_EARG,
                    "archive_save: %s: kind \"%.40s\" is not written; there are safetensors, gguf, "
                    "npz and npy",
                    s->path, kind);
    for (int i = 0; i < s->n; i++) {
        describe(s, i);
        if (s->entry[i].quant && kinds[k].save != save_gguf)
            raise_error(s->ctx, QN_EARG, "archive_save: blocks are for gguf, not for %s", kind);
        if (s->entry[i].bytes > most) most = (size_t)s->entry[i].bytes;
    }
    check_names(s);
    s->data = kinds[k].save == save_safetensors ? NULL : heap_alloc(&s->ctx->heap, most);
    s->data_size = s->data ? most : 0;
    kinds[k].save(s);
    if (s->data && file_commit(&s->file)) heap_unwind(&s->ctx->heap);
}

qn_code qn_archive_save(qn_ctx *qn, const char *path, int n, const char *const *names,
                        qn_tensor *const *tensors, const qn_archive_options *options) {
    qn_archive_options o = QN_ARCHIVE_OPTIONS();
    if (!qn) return QN_ENULL;
    if (!struct_take(qn, "archive_save", "qn_archive_options", &o, sizeof o, options))
        return qn->code;
    if (!path) return fail(qn, QN_ENULL, "archive_save: no path");
    if (n < 0 || o.pairs < 0) return fail(qn, QN_EARG, "archive_save: a negative count");
    if ((n && (!names || !tensors)) || (o.pairs && !o.metadata))
        return fail(qn, QN_ENULL, "archive_save: NULL where a list is needed");
    if (!tensors_of(qn, n, tensors, "archive_save", "tensor")) return qn_error_code(qn);
    const archive *like = o.like ? object_of(o.like, HANDLE_ARCHIVE, "archive_save") : NULL;
    if (o.like && !like) return handle_code(o.like);
    saving s = {.ctx = qn,
                .path = path,
                .n = n,
                .names = names,
                .tensors = tensors,
                .o = o,
                .like = like,
                .file = {.ctx = qn, .path = path, .to = {.folder = -1, .file = -1}}};
    arena_open(&s.a, &qn->heap);
    str_open(&s.head, &qn->heap);
    int code = guarded(qn, save_work, &s);
    file_abandon(&s.file);
    heap_free(&qn->heap, s.data, s.data_size);
    str_free(&s.head);
    arena_free(&s.a);
    return code;
}
