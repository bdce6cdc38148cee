/* file.c - samples that are rows of arrays in files.
 *
 * What lies in order in a file is read where it is, sample by sample, by positioned reads: the
 * page cache keeps what is used, as it would of a mapping, but a file that another process cuts
 * short is an error of a sample and no signal. The archive room knows the kinds and has checked
 * that each array is in the file. What is packed, by columns or spread over several files is
 * read when the dataset is made.
 *
 * IDX is what MNIST came in: two zero bytes, a type, the number of axes, a size of 32 bits for
 * each, the elements; all numbers with their high bytes first. */
#include "data/data.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

bool data_read_at(const archive *f, uint64_t at, void *out, size_t size, data_why *why) {
    char *to = out;
    while (size) {
        ssize_t n = pread(f->fd, to, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return data_wrong(why, n ? QN_EIO : QN_EFORMAT, "byte %llu: %s", (unsigned long long)at,
                              n ? "cannot be read" : "the file has been cut short");
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

/* ---- IDX ------------------------------------------------------------------------------------- */

static const struct {
    uint8_t code, dtype;
} idx_types[] = {{8, QN_U8}, {9, QN_I8}, {11, QN_I16}, {12, QN_I32}, {13, QN_F32}, {14, QN_F64}};

static int idx_type(int code) {
    for (size_t i = 0; i < COUNT_OF(idx_types); i++)
        if (idx_types[i].code == code) return idx_types[i].dtype;
    return -1;
}

/* A safetensors file may begin so, too, but then with the length of a header that is in it. */
static bool is_idx(const uint8_t head[8], uint64_t size) {
    uint64_t header;
    memcpy(&header, head, sizeof header);
    return size >= 4 && !head[0] && !head[1] && idx_type(head[2]) >= 0 && head[3] && header > size;
}

static void idx_open(archive *f) {
    source s;
    source_open(&s, f, 0, f->size);
    f->entry = archive_alloc(f, 1, sizeof *f->entry);
    archive_entry *e = &f->entry[f->count++];
    e->name = "array";
    if (source_u16(&s)) archive_bad(f, 0, "no IDX file: it begins with two zero bytes");
    int dtype = idx_type(source_u8(&s));
    if (dtype < 0) archive_bad(f, 2, "an IDX file of a type that there is not");
    e->dtype = (uint8_t)dtype;
    e->rank = source_u8(&s);
    if (e->rank < 1 || e->rank > QN_MAX_RANK)
        archive_bad(f, 3, "an array of %d axes; there are 1 to %d", e->rank, QN_MAX_RANK);
    e->shape = archive_alloc(f, e->rank, sizeof *e->shape);
    for (int i = 0; i < e->rank; i++) e->shape[i] = __builtin_bswap32(source_u32(&s));
    e->at = s.at;
    e->bytes = archive_bytes(f, 4, e);
    e->swapped = qn_dtype_size((qn_dtype)dtype) > 1;
    if (e->bytes != f->size - e->at)
        archive_bad(f, e->at, "an array of %llu bytes where there are %llu",
                    (unsigned long long)e->bytes, (unsigned long long)(f->size - e->at));
}

const archive_kind kind_idx = {"idx", idx_open, NULL, NULL, NULL, false};

/* ---- any bytes ------------------------------------------------------------------------------- */

static void bytes_open(archive *f) {
    (void)f;
}

static const archive_kind kind_bytes = {"bytes", bytes_open, NULL, NULL, NULL, false};

archive *data_file(qn_ctx *qn, const char *path) {
    archive *f = archive_load_as(qn, path, &kind_bytes);
    if (!f) heap_unwind(&qn->heap);
    return f;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef struct file_field {
    uint64_t at;         /* of sample 0, where it is read from the file */
    const uint8_t *data; /* else NULL, or all of it */
    archive_entry order; /* of one sample */
} file_field;
typedef struct file_rows {
    archive *f;
    file_field *field;
} file_rows;

static bool file_sample(const dataset *d, int64_t i, void *const *out, data_why *why) {
    const file_rows *r = d->own;
    for (int k = 0; k < d->fields; k++) {
        const file_field *x = &r->field[k];
        uint64_t at = (uint64_t)i * d->bytes[k];
        if (x->data) {
            memcpy(out[k], x->data + at, d->bytes[k]);
            continue;
        }
        if (!data_read_at(r->f, x->at + at, out[k], d->bytes[k], why)) return false;
        npy_order(&x->order, out[k], qn_dtype_size(d->field[k].dtype));
    }
    return true;
}

static void file_close(dataset *d) {
    const file_rows *r = d->own;
    if (r && r->f) archive_free(r->f);
}

static const dataset_kind kind_file = {file_sample, file_close};

/* Where the values of e lie in the file in order; false: nowhere. */
static bool lies_at(archive *f, const archive_entry *e, uint64_t *at) {
    if (e->strides || e->quant || e->flipped) return false;
    if (f->kind == &kind_npz) {
        const zip_member *m = &f->zip->member[e->member];
        *at = m->method ? 0 : zip_data(f, m) + e->at;
        return !m->method;
    }
    *at = e->at;
    return f->kind == &kind_npy || f->kind == &kind_idx || f->kind == &kind_safetensors;
}

static void read_whole(dataset *d, const archive_entry *e, file_field *x, size_t size) {
    const file_rows *r = d->own;
    void *data = arena_alloc(&d->a, size + 1);
    qn_scope scope = qn_scope_begin(d->ctx);
    qn_tensor *t = scope ? archive_read(r->f, e, false) : NULL;
    qn_code code = t ? qn_read(t, data, size) : QN_EFORMAT;
    qn_scope_end(d->ctx, scope);
    if (code) heap_unwind(&d->ctx->heap);
    x->data = data;
}

static void file_fields(dataset *d, archive *f, qn_data_field *field) {
    if (f->count > FIELDS_MOST)
        raise_error(d->ctx, QN_ESHAPE, "%s: %u arrays; a sample has up to %d fields", d->name,
                    f->count, FIELDS_MOST);
    for (uint32_t k = 0; k < f->count; k++) {
        const archive_entry *e = &f->entry[k];
        field[k] = (qn_data_field){.name = e->name, .dtype = (qn_dtype)e->dtype};
        if (e->rank < 1)
            raise_error(d->ctx, QN_ESHAPE, "%s: array \"%.80s\" has no axis of samples", d->name,
                        e->name);
        if (k && e->shape[0] != d->count)
            raise_error(d->ctx, QN_ESHAPE,
                        "%s: array \"%.80s\" has %lld rows, and \"%.80s\" has %lld", d->name,
                        e->name, (long long)e->shape[0], f->entry[0].name, (long long)d->count);
        d->count = e->shape[0];
        field[k].rank = e->rank - 1;
        memcpy(field[k].shape, e->shape + 1, (size_t)(e->rank - 1) * sizeof *e->shape);
    }
    dataset_set_fields(d, (int)f->count, field);
}

static void file_fill(dataset *d, const void *arg) {
    uint8_t head[8] = {0};
    uint64_t size;
    const char *path = arg;
    d->name = arena_printf(&d->a, "%s", path);
    file_rows *r = d->own = arena_zeroed(&d->a, sizeof *r);
    d->kind = &kind_file;
    int fd = file_open(d->ctx, path, &size);
    if (fd < 0) heap_unwind(&d->ctx->heap);
    ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    r->f = archive_load_as(d->ctx, path, n >= 4 && is_idx(head, size) ? &kind_idx : NULL);
    if (!r->f) heap_unwind(&d->ctx->heap);
    qn_data_field field[FIELDS_MOST];
    file_fields(d, r->f, field);
    r->field = arena_zeroed(&d->a, (size_t)d->fields * sizeof *r->field);
    for (int k = 0; k < d->fields; k++) {
        file_field *x = &r->field[k];
        const archive_entry *e = &r->f->entry[k];
        x->order = *e;
        x->order.bytes = d->bytes[k];
        if (!lies_at(r->f, e, &x->at)) read_whole(d, e, x, (size_t)d->count * d->bytes[k]);
    }
}

qn_dataset *qn_dataset_open(qn_ctx *qn, const char *path) {
    if (!qn) return NULL;
    if (!path) return fail_null(qn, QN_ENULL, "dataset_open: no path");
    return dataset_make(qn, file_fill, path);
}
