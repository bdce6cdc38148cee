/* gguf.c - GGUF files, version 2 and 3, as llama.cpp and its kin write them.
 *
 * A file is "GGUF", the version, how many tensors and how many keys of metadata there are; the
 * metadata, a key, a type and a value each, lists with the type of their elements; the tensors, a
 * name, sizes from the last axis to the first, a type and an offset each; then, from a multiple of
 * general.alignment (32), the data. Numbers of a list lie in memory as in the file. Lists of lists,
 * which nobody writes, are refused. */
#include "archive/archive.h"

#include <stdlib.h>

enum { ALIGNMENT = 32, DIMS_MOST = 4 };

const uint8_t gguf_width[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Types of tensors that are no blocks. */
static const struct {
    uint8_t type, dtype;
} plain[] = {{0, QN_F32},  {1, QN_F16},  {24, QN_I8},  {25, QN_I16},
             {26, QN_I32}, {27, QN_I64}, {28, QN_F64}, {30, QN_BF16}};

int gguf_of_dtype(qn_dtype dtype) {
    for (size_t i = 0; i < COUNT_OF(plain); i++)
        if (plain[i].dtype == dtype) return plain[i].type;
    return -1;
}

static char *read_name(source *s) {
    return source_name(s, source_u64(s));
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void read_one_text(source *s, archive_meta *m) {
    uint64_t *start = archive_alloc(s->f, 2, sizeof *start), size = source_u64(s);
    m->data = source_text(s, size);
    m->start = start;
    start[1] = size + 1;
}

/* Once for the sizes, by a window of its own that all lists share, and once for the texts. */
static void read_texts(source *s, source *spare, archive_meta *m) {
    archive *f = s->f;
    uint64_t from = s->at, size = 0, *start = archive_alloc(f, m->count + 1, sizeof *start);
    if (!spare->window) source_open(spare, f, s->at, s->end);
    source ahead = {.f = f, .at = s->at, .end = s->end, .from = s->at, .until = s->at};
    ahead.window = spare->window;
    for (uint64_t i = 0; i < m->count; i++) {
        uint64_t n = source_u64(&ahead);
        source_skip(&ahead, n);
        start[i] = size;
        size += n + 1; /* no more than the file has, and one each */
    }
    start[m->count] = size;
    char *text = archive_alloc(f, size, 1);
    for (uint64_t i = 0; i < m->count; i++) {
        if (source_u64(s) != start[i + 1] - start[i] - 1)
            archive_bad(f, from, "the file changes while it is read");
        source_take(s, text + start[i], start[i + 1] - start[i] - 1);
    }
    m->data = text;
    m->start = start;
}

static void read_meta(source *s, source *spare, archive_meta *m) {
    m->key = read_name(s);
    uint64_t at = s->at;
    uint32_t type = source_u32(s);
    m->list = type == GGUF_LIST;
    if (m->list) type = source_u32(s);
    if (type >= GGUF_TYPES || type == GGUF_LIST)
        archive_bad(s->f, at, "metadata \"%.80s\" is of type %u%s", m->key, type,
                    type == GGUF_LIST ? ", a list of lists" : ", which there is not");
    m->type = (uint8_t)type;
    m->count = m->list ? source_u64(s) : 1;
    uint64_t least = type == GGUF_TEXT ? 8 : gguf_width[type];
    if (m->count > (s->end - s->at) / least)
        archive_bad(s->f, at, "metadata \"%.80s\" is a list of %llu where %llu bytes are left",
                    m->key, (unsigned long long)m->count, (unsigned long long)(s->end - s->at));
    if (type == GGUF_TEXT && m->list) {
        read_texts(s, spare, m);
        return;
    }
    if (type == GGUF_TEXT) {
        read_one_text(s, m);
        return;
    }
    uint8_t *data = archive_alloc(s->f, m->count * least, 1);
    source_take(s, data, m->count * least);
    for (uint64_t i = 0; type == GGUF_BOOL && i < m->count; i++)
        if (data[i] > 1)
            archive_bad(s->f, at, "metadata \"%.80s\": a bool that is %d", m->key, data[i]);
    m->data = data;
}

static uint64_t alignment_of(const archive *f) {
    for (uint32_t i = 0; i < f->metas; i++) {
        const archive_meta *m = &f->meta[i];
        uint32_t n;
        if (strcmp(m->key, "general.alignment") != 0) continue;
        if (m->type != GGUF_U32 || m->list) archive_bad(f, 0, "general.alignment is no u32");
        memcpy(&n, m->data, sizeof n);
        if (n == 0 || n & (n - 1) || n > 1 << 20) archive_bad(f, 0, "general.alignment is %u", n);
        return n;
    }
    return ALIGNMENT;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void read_type(source *s, archive_entry *e) {
    uint64_t at = s->at;
    uint32_t type = source_u32(s);
    const quant_type *q = quant_find(type < 256 ? (int)type : -1);
    e->dtype = QN_F32;
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        if (plain[i].type != type) continue;
        e->dtype = plain[i].dtype;
        e->bytes = archive_bytes(s->f, at, e);
        return;
    }
    if (!q)
        archive_bad(s->f, at, "tensor \"%.80s\" is of type %u, which is not read", e->name, type);
    e->quant = (uint8_t)q->type;
    int64_t last = e->rank ? e->shape[e->rank - 1] : 0;
    if (e->rank == 0 || last % q->elements || last > INT64_MAX / 4)
        archive_bad(s->f, at, "tensor \"%.80s\": rows of %lld are no blocks of %d", e->name,
                    (long long)last, q->elements);
    e->bytes =
        archive_bytes(s->f, at, e) / sizeof(float) / (uint64_t)q->elements * (uint64_t)q->bytes;
}

static void read_tensor(source *s, archive_entry *e) {
    e->name = read_name(s);
    uint32_t rank = source_u32(s);
    if (rank > DIMS_MOST) archive_bad(s->f, s->at, "tensor \"%.80s\" has %u axes", e->name, rank);
    e->rank = (uint8_t)rank;
    e->shape = archive_alloc(s->f, rank, sizeof *e->shape);
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t n = source_u64(s);
        if (n > INT64_MAX)
            archive_bad(s->f, s->at - 8, "tensor \"%.80s\": a size past 2^63", e->name);
        e->shape[rank - 1 - i] = (int64_t)n;
    }
    read_type(s, e);
    e->at = source_u64(s);
}

static int by_place(const void *a, const void *b) {
    const archive_entry *x = *(const archive_entry *const *)a,
                        *y = *(const archive_entry *const *)b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1)
                          : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Offsets become places in the file; in their order no tensor begins before the last one ends. */
static void place(archive *f, uint64_t from, uint64_t alignment) {
    const archive_entry **sorted = archive_alloc(f, f->count, sizeof *sorted);
    for (uint32_t i = 0; i < f->count; i++) {
        archive_entry *e = &f->entry[i];
        sorted[i] = e;
        if (e->at % alignment || from > f->size || e->at > f->size - from ||
            e->bytes > f->size - from - e->at)
            archive_bad(f, from, "tensor \"%.80s\", %llu bytes at offset %llu of the data, is %s",
                        e->name, (unsigned long long)e->bytes, (unsigned long long)e->at,
                        e->at % alignment ? "not aligned" : "not in the file");
        e->at += from;
    }
    if (f->count) qsort(sorted, f->count, sizeof *sorted, by_place);
    for (uint32_t i = 1; i < f->count; i++)
        if (sorted[i]->at < sorted[i - 1]->at + sorted[i - 1]->bytes)
            archive_bad(f, sorted[i]->at, "tensors \"%.80s\" and \"%.80s\" overlap",
                        sorted[i - 1]->name, sorted[i]->name);
}

static void gguf_open(archive *f) {
    source s, spare = {0};
    source_open(&s, f, 0, f->size);
    source_skip(&s, 4);
    uint32_t version = source_u32(&s);
    if (version != 2 && version != 3)
        archive_bad(f, 4, "version %u of GGUF%s; 2 and 3 are read", version,
                    version && version % 65536 == 0 ? ", with high bytes first" : "");
    uint64_t tensors = source_u64(&s), metas = source_u64(&s);
    if (tensors > INT32_MAX || metas > INT32_MAX || tensors + metas > f->size / 8)
        archive_bad(f, 8, "%llu tensors and %llu keys in %llu bytes", (unsigned long long)tensors,
                    (unsigned long long)metas, (unsigned long long)f->size);
    f->meta = archive_alloc(f, metas, sizeof *f->meta);
    for (; f->metas < metas; f->metas++) read_meta(&s, &spare, &f->meta[f->metas]);
    f->entry = archive_alloc(f, tensors, sizeof *f->entry);
    for (; f->count < tensors; f->count++) read_tensor(&s, &f->entry[f->count]);
    uint64_t alignment = alignment_of(f);
    place(f, (s.at + alignment - 1) & ~(alignment - 1), alignment);
}

static void gguf_read(archive *f, const archive_entry *e, void *out) {
    archive_read_at(f, e->at, out, (size_t)e->bytes);
}

const archive_kind kind_gguf = {"gguf", gguf_open, gguf_read, NULL, NULL, true};
