/* save_npy.c - npy and npz files written: npy.c and zip.c have the formats. Members are stored, so
 * that readers can map them. */
#include "archive/archive.h"

static void check_dtype(saving *s, const archive_entry *e) {
    if (!npy_has((qn_dtype)e->dtype))
        raise_error(s->ctx, QN_EDTYPE, "archive_save: \"%.80s\": NumPy has no %s; cast it to f32",
                    e->name, qn_dtype_name((qn_dtype)e->dtype));
    if (s->o.pairs) raise_error(s->ctx, QN_EARG, "archive_save: NumPy's files have no metadata");
}

void save_npy(saving *s) {
    if (s->n != 1)
        raise_error(s->ctx, QN_EARG,
                    "archive_save: an npy file has one tensor, not %d; npz has many", s->n);
    archive_entry *e = &s->entry[0];
    check_dtype(s, e);
    npy_write_header(&s->head, (qn_dtype)e->dtype, e->rank, e->shape);
    if (file_create(&s->file, s->ctx, s->path)) heap_unwind(&s->ctx->heap);
    saving_write(s, s->head.s, s->head.len);
    saving_write(s, saving_value(s, 0), (size_t)e->bytes);
}

/* ---- npz ------------------------------------------------------------------------------------- */

enum {
    VERSION = 20,
    VERSION_64 = 45,
    SHORT_MOST = 65535,
    NAME_MOST = 60000,
    UTF8 = 1 << 11,
    JAN_1_1980 = 33
};

typedef struct member {
    uint64_t at, size;
    uint32_t crc;
} member;

static void put16(str *out, unsigned v) {
    uint16_t n = (uint16_t)v;
    str_addn(out, (const char *)&n, sizeof n);
}

static void put32(str *out, uint64_t v) {
    uint32_t n = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    str_addn(out, (const char *)&n, sizeof n);
}

static void put64(str *out, uint64_t v) {
    str_addn(out, (const char *)&v, sizeof v);
}

/* From the version on, what both headers of a member have; `extra` bytes follow its name. */
static void put_common(str *out, const member *m, const char *name, unsigned extra) {
    bool wide = extra > 0;
    put16(out, wide ? VERSION_64 : VERSION);
    put16(out, UTF8);
    put16(out, 0); /* stored */
    put16(out, 0);
    put16(out, JAN_1_1980);
    put32(out, m->crc);
    put32(out, wide ? UINT64_MAX : m->size);
    put32(out, wide ? UINT64_MAX : m->size);
    put16(out, (unsigned)strlen(name) + 4);
    put16(out, extra);
}

static void put_local(saving *s, const member *m, const char *name) {
    str *out = &s->head;
    bool wide = m->size >= UINT32_MAX;
    out->len = 0;
    str_add(out, "PK\3\4");
    put_common(out, m, name, wide ? 20 : 0);
    str_addf(out, "%s.npy", name);
    if (wide) {
        put16(out, 1);
        put16(out, 16);
        put64(out, m->size);
        put64(out, m->size);
    }
    saving_write(s, out->s, out->len);
}

static void put_central(str *out, const member *m, const char *name) {
    bool wide = m->size >= UINT32_MAX || m->at >= UINT32_MAX;
    str_add(out, "PK\1\2");
    put16(out, wide ? VERSION_64 : VERSION);
    put_common(out, m, name, wide ? 28 : 0);
    put16(out, 0); /* comment, disk, attributes */
    put16(out, 0);
    put16(out, 0);
    put32(out, 0);
    put32(out, wide ? UINT64_MAX : m->at);
    str_addf(out, "%s.npy", name);
    if (!wide) return;
    put16(out, 1);
    put16(out, 24);
    put64(out, m->size);
    put64(out, m->size);
    put64(out, m->at);
}

/* The directory's end; its 64-bit form in front where numbers need it. */
static void put_end(str *out, uint64_t count, uint64_t at) {
    uint64_t size = out->len, end = at + size;
    if (count >= SHORT_MOST || end >= UINT32_MAX) {
        str_add(out, "PK\6\6");
        put64(out, 44);
        put16(out, VERSION_64);
        put16(out, VERSION_64);
        put64(out, 0); /* disks */
        put64(out, count);
        put64(out, count);
        put64(out, size);
        put64(out, at);
        str_add(out, "PK\6\7");
        put32(out, 0);
        put64(out, end);
        put32(out, 1);
    }
    str_add(out, "PK\5\6");
    put32(out, 0); /* disks */
    put16(out, count < SHORT_MOST ? (unsigned)count : SHORT_MOST);
    put16(out, count < SHORT_MOST ? (unsigned)count : SHORT_MOST);
    put32(out, size);
    put32(out, at);
    put16(out, 0);
}

void save_npz(saving *s) {
    member *list = arena_zeroed(&s->a, ((size_t)s->n + 1) * sizeof *list);
    uint64_t at = 0;
    for (int i = 0; i < s->n; i++) {
        check_dtype(s, &s->entry[i]);
        if (strlen(s->names[i]) > NAME_MOST)
            raise_error(s->ctx, QN_EARG, "archive_save: a name of %zu bytes", strlen(s->names[i]));
    }
    if (file_create(&s->file, s->ctx, s->path)) heap_unwind(&s->ctx->heap);
    for (int i = 0; i < s->n; i++) {
        const archive_entry *e = &s->entry[i];
        str head;
        str_open_in(&head, &s->a);
        npy_write_header(&head, (qn_dtype)e->dtype, e->rank, e->shape);
        const void *data = saving_value(s, i);
        uint32_t crc = zip_crc(zip_crc(0, head.s, head.len), data, (size_t)e->bytes);
        list[i] = (member){at, head.len + e->bytes, crc};
        put_local(s, &list[i], e->name);
        saving_write(s, head.s, head.len);
        saving_write(s, data, (size_t)e->bytes);
        at += s->head.len + list[i].size;
    }
    s->head.len = 0;
    for (int i = 0; i < s->n; i++) put_central(&s->head, &list[i], s->names[i]);
    put_end(&s->head, (uint64_t)s->n, at);
    saving_write(s, s->head.s, s->head.len);
}
