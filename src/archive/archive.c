/* archive.c - the public calls on files that are read: which kind a file is, its list by name, one
 * tensor's value. */
#include "archive/archive.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What opening may take beside twice the file, and what of it is not in the arena. */
enum { SLACK = 1 << 20, SPARE = 1 << 16 };

void archive_bad(const archive *f, uint64_t at, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    raise_error(f->ctx, QN_EFORMAT, "%s: at byte %llu: %s", f->path, (unsigned long long)at, text);
}

void *archive_alloc(archive *f, uint64_t count, size_t width) {
    uint64_t bytes, most = 2 * f->size + SLACK - SPARE;
    if (__builtin_mul_overflow(count, (uint64_t)width, &bytes) || bytes > most ||
        f->a.total + arena_needs(&f->a, (size_t)bytes) > most)
        raise_error(f->ctx, QN_EFORMAT,
                    "%s: a list of %llu entries in a file of %llu bytes takes more than twice that",
                    f->path, (unsigned long long)count, (unsigned long long)f->size);
    return arena_zeroed(&f->a, (size_t)bytes);
}

void archive_read_at(archive *f, uint64_t at, void *out, size_t size) {
    if (file_read(f->ctx, f->path, f->fd, at, out, size)) heap_unwind(&f->ctx->heap);
}

uint64_t archive_bytes(const archive *f, uint64_t at, const archive_entry *e) {
    size_t bytes;
    bool complex = dtype_is_complex(e->dtype); /* numbers of two parts, along one more axis */
    int64_t none = complex ? 2 : 1;
    if (complex && e->rank == QN_MAX_RANK)
        archive_bad(f, at, "tensor \"%.80s\": complex numbers along %d axes, and 11 are the most",
                    e->name ? e->name : "", e->rank);
    for (int i = 0; i < e->rank; i++) {
        if (e->shape[i] < 0)
            archive_bad(f, at, "tensor \"%.80s\": axis %d of size %lld", e->name ? e->name : "", i,
                        (long long)e->shape[i]);
        /* A size of 0 makes the product 0 whatever the others are; they, too, must be sizes. */
        if (e->shape[i] && __builtin_mul_overflow(none, e->shape[i], &none))
            archive_bad(f, at, "tensor \"%.80s\": more than 2^63 elements", e->name ? e->name : "");
    }
    if (!checked_bytes(e->rank, e->shape, qn_dtype_size((qn_dtype)e->dtype), &bytes))
        archive_bad(f, at, "tensor \"%.80s\": more than 2^63 bytes", e->name ? e->name : "");
    return bytes;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* By the first bytes; JSON by its name, for a safetensors file may begin with any byte. */
static const archive_kind *kind_of(archive *f) {
    uint8_t head[8] = {0};
    if (ends_in(f->path, ".json")) return &kind_index;
    archive_read_at(f, 0, head, f->size < sizeof head ? (size_t)f->size : sizeof head);
    if (!memcmp(head, "GGUF", 4)) return &kind_gguf;
    if (!memcmp(head, "\x93NUMPY", 6)) return &kind_npy;
    if (memcmp(head, "PK\3\4", 4) && memcmp(head, "PK\5\6", 4)) return &kind_safetensors;
    return zip_open(f) ? &kind_pt : &kind_npz;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const archive_entry *const *)a)->name,
                  (*(const archive_entry *const *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(const archive_meta *const *)a)->key, (*(const archive_meta *const *)b)->key);
}

static void sort_names(archive *f) {
    f->by_name = archive_alloc(f, f->count, sizeof *f->by_name);
    f->by_key = archive_alloc(f, f->metas, sizeof *f->by_key);
    for (uint32_t i = 0; i < f->count; i++) f->by_name[i] = &f->entry[i];
    for (uint32_t i = 0; i < f->metas; i++) f->by_key[i] = &f->meta[i];
    if (f->count) qsort(f->by_name, f->count, sizeof *f->by_name, by_name);
    if (f->metas) qsort(f->by_key, f->metas, sizeof *f->by_key, by_key);
    for (uint32_t i = 1; i < f->count; i++)
        if (by_name(&f->by_name[i - 1], &f->by_name[i]) == 0)
            raise_error(f->ctx, QN_EFORMAT, "%s: two tensors are called \"%.80s\"", f->path,
                        f->by_name[i]->name);
    for (uint32_t i = 1; i < f->metas; i++)
        if (by_key(&f->by_key[i - 1], &f->by_key[i]) == 0)
            raise_error(f->ctx, QN_EFORMAT, "%s: metadata \"%.80s\" comes twice", f->path,
                        f->by_key[i]->key);
}

static void load_work(void *arg) {
    archive *f = arg;
    f->fd = file_open(f->ctx, f->path, &f->size);
    if (f->fd < 0) heap_unwind(&f->ctx->heap);
    if (f->size > INT64_MAX / 4) archive_bad(f, 0, "the file is too large");
    if (!f->kind) f->kind = kind_of(f);
    f->kind->open(f);
    sort_names(f);
}

void archive_free(archive *f) {
    heap *h = &f->ctx->heap;
    if (f->kind && f->kind->close) f->kind->close(f);
    if (f->zip) zip_close(f);
    if (f->map) archive_unmap(f->map);
    if (f->fd >= 0) close(f->fd);
    arena_free(&f->a);
    heap_free(h, f->path, f->path_size);
    heap_free(h, f, sizeof *f);
}

archive *archive_load_as(qn_ctx *qn, const char *path, const archive_kind *kind) {
    size_t path_size = strlen(path) + 1;
    archive *f = heap_try(&qn->heap, sizeof *f);
    char *copy = f ? heap_try(&qn->heap, path_size) : NULL;
    if (!copy) {
        heap_free(&qn->heap, f, sizeof *f);
        return fail_null(qn, QN_ENOMEM, "%s: out of memory", path);
    }
    *f = (archive){
        .ctx = qn, .path = memcpy(copy, path, path_size), .path_size = path_size, .kind = kind};
    f->fd = -1;
    arena_open(&f->a, &qn->heap);
    if (guarded(qn, load_work, f) == QN_OK) return f;
    archive_free(f);
    return NULL;
}

archive *archive_load(qn_ctx *qn, const char *path) {
    return archive_load_as(qn, path, NULL);
}

static qn_archive *open_as(qn_ctx *qn, const char *call, const char *path, bool mapped) {
    if (!path) return fail_null(qn, QN_ENULL, "%s: no path", call);
    archive *f = archive_load(qn, path);
    if (f) f->mapped = mapped;
    qn_archive *known = f ? object_open(qn, HANDLE_ARCHIVE, f) : NULL;
    if (f && !known) archive_free(f);
    return known;
}

qn_archive *qn_archive_open(qn_ctx *qn, const char *path) {
    return qn ? open_as(qn, "archive_open", path, false) : NULL;
}

qn_archive *qn_archive_open_with(qn_ctx *qn, const char *path, const qn_archive_reading *options) {
    qn_archive_reading o = QN_ARCHIVE_READING();
    if (!qn || !struct_take(qn, "archive_open_with", "qn_archive_reading", &o, sizeof o, options))
        return NULL;
    return open_as(qn, "archive_open_with", path, o.mapped);
}

void qn_archive_close(qn_archive *known) {
    archive *f = object_close(known, HANDLE_ARCHIVE, "archive_close");
    if (f) archive_free(f);
}

/* ---- what is there --------------------------------------------------------------------------- */

const char *qn_archive_kind(const qn_archive *known) {
    const archive *f = object_of(known, HANDLE_ARCHIVE, "archive_kind");
    return f ? f->kind->name : NULL;
}

int qn_archive_count(const qn_archive *known) {
    const archive *f = object_of(known, HANDLE_ARCHIVE, "archive_count");
    return f ? (int)f->count : 0;
}

const char *qn_archive_name(const qn_archive *known, int i) {
    const archive *f = object_of(known, HANDLE_ARCHIVE, "archive_name");
    return f && i >= 0 && (uint32_t)i < f->count ? f->entry[i].name : NULL;
}

qn_code qn_archive_get_info(const qn_archive *known, int i, qn_archive_info *out, size_t size) {
    const archive *f = object_of(known, HANDLE_ARCHIVE, "archive_get_info");
    if (!f) return handle_code(known);
    if (!out) return fail(f->ctx, QN_ENULL, "archive_get_info: out is NULL");
    if (i < 0 || (uint32_t)i >= f->count)
        return fail(f->ctx, QN_ERANGE, "archive_get_info: tensor %d of %u", i, f->count);
    const archive_entry *e = &f->entry[i];
    qn_archive_info info = {.dtype = (qn_dtype)e->dtype,
                            .quant = (qn_quant)e->quant,
                            .rank = e->rank,
                            .bytes = e->bytes};
    memcpy(info.shape, e->shape, e->rank * sizeof *e->shape);
    struct_give(out, size, &info, sizeof info);
    return QN_OK;
}

const archive_entry *archive_find(const archive *f, const char *name) {
    const archive_entry wanted = {.name = name}, *key = &wanted;
    const archive_entry **found =
        f->count ? bsearch(&key, f->by_name, f->count, sizeof *f->by_name, by_name) : NULL;
    return found ? *found : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct reading {
    archive *f;
    const archive_entry *e;
    void *data;
} reading;

static void read_work(void *arg) {
    reading *r = arg;
    const archive_entry *e = r->e;
    const uint8_t *p = r->data;
    r->f->kind->read(r->f, e, r->data);
    /* A bool is one byte, 0 or 1: kernels rely on it, so a file may not say otherwise. */
    for (uint64_t i = 0; e->dtype == QN_BOOL && i < e->bytes; i++)
        if (p[i] > 1)
            archive_bad(r->f, e->at + i, "tensor \"%.80s\": a bool that is neither 0 nor 1",
                        e->name);
}

qn_tensor *archive_read(archive *f, const archive_entry *e, bool blocks) {
    if (archive_lies(f, e)) {
        qn_scope scope = qn_scope_begin(f->ctx);
        if (!scope) return NULL;
        qn_tensor *t = archive_mapped(f, e);
        if (t && e->quant && !blocks) t = qn_dequantize(t, (qn_quant)e->quant);
        return qn_scope_return(f->ctx, scope, t);
    }
    if (f->kind->tensor) return f->kind->tensor(f, e);
    heap *h = &f->ctx->heap;
    reading r = {f, e, heap_try(h, (size_t)e->bytes)};
    if (!r.data)
        return fail_null(f->ctx, QN_ENOMEM, "%s: out of memory for tensor \"%.80s\", %llu bytes",
                         f->path, e->name, (unsigned long long)e->bytes);
    qn_scope scope = qn_scope_begin(f->ctx);
    qn_tensor *t = NULL;
    if (scope && guarded(f->ctx, read_work, &r) == QN_OK) {
        int64_t shape[QN_MAX_RANK + 1];
        const quant_type *q = quant_find(e->quant);
        bool complex = dtype_is_complex(e->dtype); /* pairs along one more axis */
        memcpy(shape, e->shape, e->rank * sizeof *shape);
        shape[e->rank] = 2;
        if (q) shape[e->rank - 1] = shape[e->rank - 1] / q->elements * q->bytes;
        t = qn_from(f->ctx, q ? QN_U8 : dtype_part((qn_dtype)e->dtype), e->rank + complex, shape,
                    r.data);
        if (complex && t) t = tensor_complex(t);
    }
    heap_free(h, r.data, (size_t)e->bytes);
    if (e->quant && !blocks && t) t = qn_dequantize(t, (qn_quant)e->quant);
    return scope ? qn_scope_return(f->ctx, scope, t) : NULL;
}

static qn_tensor *read_named(const qn_archive *known, const char *name, bool blocks) {
    const char *call = blocks ? "archive_blocks" : "archive_tensor";
    archive *f = object_of(known, HANDLE_ARCHIVE, call);
    if (!f) return NULL;
    if (!name) return fail_null(f->ctx, QN_ENULL, "%s: no name given", call);
    const archive_entry *e = archive_find(f, name);
    if (e && (e->quant || !blocks)) return archive_read(f, e, blocks);
    if (e) return fail_null(f->ctx, QN_EARG, "%s: tensor \"%.80s\" is in no blocks", f->path, name);
    char near[300];
    nearest x = {.wanted = name};
    for (uint32_t i = 0; i < f->count; i++) nearest_offer(&x, f->entry[i].name);
    return fail_null(f->ctx, QN_EARG, "%s: no tensor \"%.80s\" in it; there is %s", f->path, name,
                     nearest_text(&x, near, sizeof near));
}

qn_tensor *qn_archive_tensor(const qn_archive *known, const char *name) {
    return read_named(known, name, false);
}

qn_tensor *qn_archive_blocks(const qn_archive *known, const char *name) {
    return read_named(known, name, true);
}

/* ---- metadata -------------------------------------------------------------------------------- */

const char *qn_archive_meta_key(const qn_archive *known, int i) {
    const archive *f = object_of(known, HANDLE_ARCHIVE, "archive_meta_key");
    return f && i >= 0 && (uint32_t)i < f->metas ? f->meta[i].key : NULL;
}

/* What is under a key, with an element `i`; NULL: there is none. */
static const archive_meta *meta_of(const qn_archive *known, const char *call, const char *key,
                                   int64_t i) {
    const archive *f = object_of(known, HANDLE_ARCHIVE, call);
    const archive_meta wanted = {.key = key}, *at = &wanted;
    const archive_meta **found =
        f && key && f->metas ? bsearch(&at, f->by_key, f->metas, sizeof *f->by_key, by_key) : NULL;
    return found && (i < 0 || (uint64_t)i < (*found)->count) ? *found : NULL;
}

qn_meta qn_archive_meta(const qn_archive *known, const char *key, int64_t *count) {
    const archive_meta *m = meta_of(known, "archive_meta", key, -1);
    if (count) *count = m && m->list ? (int64_t)m->count : -1;
    return !m                                           ? QN_META_NONE
           : m->type == GGUF_TEXT                       ? QN_META_TEXT
           : m->type == GGUF_BOOL                       ? QN_META_BOOL
           : m->type == GGUF_F32 || m->type == GGUF_F64 ? QN_META_FLOAT
                                                        : QN_META_INT;
}

int64_t qn_archive_meta_int(const qn_archive *known, const char *key, int64_t i) {
    const archive_meta *m = i < 0 ? NULL : meta_of(known, "archive_meta_int", key, i);
    if (!m || m->type == GGUF_TEXT || m->type == GGUF_F32 || m->type == GGUF_F64) return 0;
    const uint8_t *p = (const uint8_t *)m->data + (uint64_t)i * gguf_width[m->type];
    uint64_t v = 0;
    int width = gguf_width[m->type], unused = 64 - 8 * width;
    memcpy(&v, p, (size_t)width);
    bool has_sign = m->type == GGUF_I8 || m->type == GGUF_I16 || m->type == GGUF_I32;
    return has_sign ? (int64_t)(v << unused) >> unused : (int64_t)v;
}

double qn_archive_meta_float(const qn_archive *known, const char *key, int64_t i) {
    const archive_meta *m = i < 0 ? NULL : meta_of(known, "archive_meta_float", key, i);
    float f = 0;
    double d = 0;
    if (!m || m->type == GGUF_TEXT) return NAN;
    const uint8_t *p = (const uint8_t *)m->data + (uint64_t)i * gguf_width[m->type];
    memcpy(&f, p, m->type == GGUF_F32 ? sizeof f : 0);
    memcpy(&d, p, m->type == GGUF_F64 ? sizeof d : 0);
    if (m->type == GGUF_F32) return (double)f;
    if (m->type == GGUF_F64) return d;
    int64_t v = qn_archive_meta_int(known, key, i);
    return m->type == GGUF_U64 ? (double)(uint64_t)v : (double)v;
}

static const archive_meta *text_of(const qn_archive *known, const char *key, int64_t i) {
    const archive_meta *m = i < 0 ? NULL : meta_of(known, "archive_meta_text", key, i);
    return m && m->type == GGUF_TEXT ? m : NULL;
}

const char *qn_archive_meta_text(const qn_archive *known, const char *key, int64_t i) {
    const archive_meta *m = text_of(known, key, i);
    return m ? (const char *)m->data + m->start[i] : NULL;
}

size_t qn_archive_meta_size(const qn_archive *known, const char *key, int64_t i) {
    const archive_meta *m = text_of(known, key, i);
    return m ? (size_t)(m->start[i + 1] - m->start[i] - 1) : 0;
}
