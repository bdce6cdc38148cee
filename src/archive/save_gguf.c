/* save_gguf.c - GGUF files written, version 3: gguf.c has the format. */
#include "archive/archive.h"

enum { ALIGNMENT = 32, DIMS_MOST = 4 };
static const char alignment_key[] = "general.alignment";

static void put_text(str *out, const char *text, uint64_t size) {
    str_addn(out, (const char *)&size, sizeof size);
    str_addn(out, text, (size_t)size);
}

static void put_u32(str *out, uint32_t v) {
    str_addn(out, (const char *)&v, sizeof v);
}

static void put_u64(str *out, uint64_t v) {
    str_addn(out, (const char *)&v, sizeof v);
}

/* As it was, but for the alignment, which is that of this file, and what has no name. */
static bool is_copied(const archive_meta *m) {
    return *m->key && strcmp(m->key, alignment_key) != 0;
}

static void put_meta(str *out, const archive_meta *m) {
    put_text(out, m->key, strlen(m->key));
    if (m->list) put_u32(out, GGUF_LIST);
    put_u32(out, m->type);
    if (m->list) put_u64(out, m->count);
    if (m->type != GGUF_TEXT) {
        str_addn(out, m->data, (size_t)(m->count * gguf_width[m->type]));
        return;
    }
    for (uint64_t i = 0; i < m->count; i++)
        put_text(out, (const char *)m->data + m->start[i], m->start[i + 1] - m->start[i] - 1);
}

static void put_metadata(saving *s) {
    uint64_t count = (uint64_t)s->o.pairs;
    for (uint32_t i = 0; s->like && i < s->like->metas; i++) count += is_copied(&s->like->meta[i]);
    put_u64(&s->head, count);
    for (uint32_t i = 0; s->like && i < s->like->metas; i++)
        if (is_copied(&s->like->meta[i])) put_meta(&s->head, &s->like->meta[i]);
    for (int i = 0; i < s->o.pairs; i++) {
        const char *key = s->o.metadata[2 * i], *text = s->o.metadata[2 * i + 1];
        if (!key || !text) raise_error(s->ctx, QN_ENULL, "archive_save: metadata that is NULL");
        if (!*key || !json_utf8(key, strlen(key)) || !json_utf8(text, strlen(text)))
            raise_error(s->ctx, QN_EARG, "archive_save: metadata %d is no UTF-8", i);
        for (uint32_t k = 0; s->like && k < s->like->metas; k++)
            if (strcmp(s->like->meta[k].key, key) == 0)
                raise_error(s->ctx, QN_EARG, "archive_save: metadata \"%.80s\" comes twice", key);
        put_text(&s->head, key, strlen(key));
        put_u32(&s->head, GGUF_TEXT);
        put_text(&s->head, text, strlen(text));
    }
}

static uint64_t padding(uint64_t at) {
    return (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT;
}

/* A scalar is a vector of one. */
static void put_tensor(saving *s, const archive_entry *e, uint64_t at) {
    int type = e->quant ? e->quant : gguf_of_dtype((qn_dtype)e->dtype);
    if (type < 0)
        raise_error(s->ctx, QN_EDTYPE, "archive_save: \"%.80s\": gguf has no %s", e->name,
                    qn_dtype_name((qn_dtype)e->dtype));
    if (e->rank > DIMS_MOST)
        raise_error(s->ctx, QN_ESHAPE, "archive_save: \"%.80s\" has %d axes; gguf has up to %d",
                    e->name, e->rank, DIMS_MOST);
    put_text(&s->head, e->name, strlen(e->name));
    put_u32(&s->head, e->rank ? e->rank : 1);
    for (int k = e->rank - 1; k >= 0; k--) put_u64(&s->head, (uint64_t)e->shape[k]);
    if (e->rank == 0) put_u64(&s->head, 1);
    put_u32(&s->head, (uint32_t)type);
    put_u64(&s->head, at);
}

void save_gguf(saving *s) {
    uint64_t at = 0;
    str_add(&s->head, "GGUF");
    put_u32(&s->head, 3);
    put_u64(&s->head, (uint64_t)s->n);
    put_metadata(s);
    for (int i = 0; i < s->n; i++) {
        put_tensor(s, &s->entry[i], at);
        at += s->entry[i].bytes + padding(s->entry[i].bytes);
    }
    if (file_create(&s->file, s->ctx, s->path)) heap_unwind(&s->ctx->heap);
    saving_write(s, s->head.s, s->head.len);
    saving_zeros(s, padding(s->head.len));
    for (int i = 0; i < s->n; i++) {
        saving_write(s, saving_value(s, i), (size_t)s->entry[i].bytes);
        saving_zeros(s, padding(s->entry[i].bytes));
    }
}
