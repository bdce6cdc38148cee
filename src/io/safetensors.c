/* safetensors.c - checkpoints in the safetensors format.
 *
 * A file is: eight bytes, the header's size as a little-endian integer; the header, a JSON object
 *     {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3],
 *      "data_offsets": [begin, end]}, ...}
 * padded with spaces; then the data, every tensor row-major and little-endian at its offsets, which
 * count from the data's first byte. The tensors cover the data exactly: no holes, no overlap, so
 * nothing can hide in a file.
 *
 * Reading trusts nothing. The header must lie within the file before it is read; each entry's
 * offsets must lie within the data and be exactly as far apart as its shape and dtype say, the
 * product computed without overflow; sorted by offset the entries must meet end to begin. All that
 * is checked on opening, so that a damaged file is refused before anything of it is used. Values
 * are read when they are asked for.
 *
 * Writing puts wider dtypes first, which keeps every tensor aligned to its element size for readers
 * that map the file. */
#include "graph/graph.h"
#include "io/io.h"

#include <stdlib.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are copied as they lie in memory");

static const char metadata_key[] = "__metadata__";
enum { SIZE_FIELD = 8, HEADER_ALIGN = 8 };
static const uint64_t header_most = 100000000; /* the format's own limit */

typedef struct entry {
    const char *name;
    qn_dtype dtype;
    int rank;
    int64_t shape[QN_MAX_RANK];
    uint64_t begin, end; /* in the data */
    size_t at;           /* in the header's text, for messages */
} entry;

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct file {
    qn_ctx *ctx;
    char *path;
    size_t path_size;
    int fd;
    arena a;
    uint64_t data_at, data_size; /* in the file */
    const json *header, *metadata;
    entry *entry; /* in the header's order, without the metadata */
    uint32_t count;
} file;

/* A fault at byte `at` of the header. */
QN_NORETURN static void header_bad(const file *f, size_t at, const char *name, const char *what) {
    raise_error(f->ctx, QN_EFORMAT, "%s: at byte %zu: %s%.80s%s%s", f->path, SIZE_FIELD + at,
                name ? "tensor \"" : "", name ? name : "", name ? "\": " : "", what);
}

static void read_shape(const file *f, entry *e, const json *shape) {
    if (!shape || shape->kind != JSON_ARRAY) header_bad(f, e->at, e->name, "no shape");
    if (shape->count > QN_MAX_RANK)
        header_bad(f, shape->at, e->name, "more axes than the 12 that Quern has");
    e->rank = (int)shape->count;
    int i = 0;
    for (const json *dim = shape->first; dim; dim = dim->next, i++)
        if (!json_int(dim, &e->shape[i]) || e->shape[i] < 0)
            header_bad(f, dim->at, e->name, "a size that is not a whole number from 0 on");
}

static void read_offsets(const file *f, entry *e, const json *offsets) {
    int64_t begin, end;
    if (!offsets || offsets->kind != JSON_ARRAY || offsets->count != 2)
        header_bad(f, e->at, e->name, "no data_offsets");
    if (!json_int(offsets->first, &begin) || !json_int(offsets->first->next, &end) || begin < 0 ||
        end < begin)
        header_bad(f, offsets->at, e->name, "data_offsets that are not two rising whole numbers");
    e->begin = (uint64_t)begin;
    e->end = (uint64_t)end;
    if (e->end > f->data_size)
        header_bad(f, offsets->at, e->name, "its data ends past the end of the file");
}

/* Shape and dtype must need exactly the bytes the offsets give. A size of 0 makes the product 0
 * whatever the others are; but they, too, must be those of a tensor. */
static void check_size(const file *f, const entry *e) {
    int64_t elements = 1;
    uint64_t bytes;
    bool none = false;
    for (int i = 0; i < e->rank; i++) {
        none |= e->shape[i] == 0;
        if (e->shape[i] && __builtin_mul_overflow(elements, e->shape[i], &elements))
            header_bad(f, e->at, e->name, "a shape of more than 2^63 elements");
    }
    if (__builtin_mul_overflow((uint64_t)elements, qn_dtype_size(e->dtype), &bytes))
        header_bad(f, e->at, e->name, "a shape whose size is past 2^64");
    if ((none ? 0 : bytes) != e->end - e->begin)
        header_bad(f, e->at, e->name, "data_offsets that do not fit its shape and dtype");
}

static void read_entry(const file *f, entry *e, const json *v) {
    *e = (entry){.name = v->key, .at = v->at};
    if (strlen(v->key) != v->key_size) header_bad(f, v->at, v->key, "a name with a zero byte");
    if (v->kind != JSON_OBJECT) header_bad(f, v->at, v->key, "not an object");
    const json *dtype = json_member(v, "dtype");
    int row = 0;
    while (row < DTYPE_COUNT && dtype && dtype->kind == JSON_STRING &&
           strcmp(dtype->text, dtype_rows[row].file) != 0)
        row++;
    if (!dtype || dtype->kind != JSON_STRING) header_bad(f, v->at, v->key, "no dtype");
    if (row == DTYPE_COUNT) header_bad(f, dtype->at, v->key, "a dtype that Quern does not have");
    e->dtype = (qn_dtype)row;
    read_shape(f, e, json_member(v, "shape"));
    read_offsets(f, e, json_member(v, "data_offsets"));
    check_size(f, e);
}

static int by_offset(const void *a, const void *b) {
    const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static void check_cover(file *f) {
    const entry **sorted = arena_alloc(&f->a, (f->count + 1) * sizeof *sorted);
    for (uint32_t i = 0; i < f->count; i++) sorted[i] = &f->entry[i];
    qsort(sorted, f->count, sizeof *sorted, by_offset);
    uint64_t end = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const entry *e = sorted[i];
        if (e->begin != end)
            header_bad(f, e->at, e->name,
                       e->begin < end ? "its data overlaps another's" : "a hole before its data");
        end = e->end;
    }
    if (end != f->data_size)
        raise_error(f->ctx, QN_EFORMAT, "%s: at byte %llu: data that no tensor owns", f->path,
                    (unsigned long long)(f->data_at + end));
}

static void check_metadata(const file *f) {
    if (!f->metadata) return;
    if (f->metadata->kind != JSON_OBJECT)
        header_bad(f, f->metadata->at, NULL, "__metadata__ is not an object");
    for (const json *v = f->metadata->first; v; v = v->next)
        if (v->kind != JSON_STRING)
            header_bad(f, v->at, NULL, "a value of __metadata__ is not a text");
}

/* What a file that begins so is; NULL: nothing that is known here. */
static const char *looks_like(const char *head, size_t size) {
    static const struct {
        char magic[8], what[24];
    } kinds[] = {
        {"\x93NUMPY", "an npy file of NumPy"}, {"GGUF", "a GGUF file"}, {"\x80\2", "a pickle"}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (!memcmp(head, kinds[i].magic, strlen(kinds[i].magic))) return kinds[i].what;
    if (!memcmp(head, "PK\3\4", 4)) /* the name of the first file in it follows */
        return memmem(head, size, ".npy", 4)   ? "an npz file of NumPy"
               : memmem(head, size, ".pkl", 4) ? "a file of PyTorch"
                                               : "a zip file";
    for (size_t i = 0; i < size; i++) { /* what UTF-8 has */
        uint8_t c = (uint8_t)head[i];
        if ((c < 32 && !(c >= '\t' && c <= '\r')) || c > 0xf4) return NULL;
    }
    return "text";
}

/* A header that is longer than its file is that of a file that was cut short, or of none. */
QN_NORETURN static void no_header(const file *f, uint64_t claimed, uint64_t file_size) {
    char head[64] = "";
    size_t size = file_size < sizeof head ? (size_t)file_size : sizeof head;
    if (file_read(f->ctx, f->path, f->fd, 0, head, size)) heap_unwind(&f->ctx->heap);
    const char *what = head[SIZE_FIELD] == '{' ? NULL : looks_like(head, size);
    if (what)
        raise_error(f->ctx, QN_EFORMAT, "%s: not a safetensors file, it looks like %s", f->path,
                    what);
    raise_error(f->ctx, QN_EFORMAT, "%s: at byte 0: a header of %llu bytes in a file of %llu",
                f->path, (unsigned long long)claimed, (unsigned long long)file_size);
}

/* The header's text into the arena; sets data_at and data_size. */
static char *read_header(file *f, uint64_t file_size, size_t *size) {
    uint64_t claimed;
    if (file_size < SIZE_FIELD)
        raise_error(f->ctx, QN_EFORMAT, "%s: %llu bytes are too few for a safetensors file",
                    f->path, (unsigned long long)file_size);
    if (file_read(f->ctx, f->path, f->fd, 0, &claimed, sizeof claimed)) heap_unwind(&f->ctx->heap);
    if (claimed > file_size - SIZE_FIELD || claimed > header_most) no_header(f, claimed, file_size);
    char *text = arena_alloc(&f->a, (size_t)claimed + 1);
    if (file_read(f->ctx, f->path, f->fd, SIZE_FIELD, text, (size_t)claimed))
        heap_unwind(&f->ctx->heap);
    f->data_at = SIZE_FIELD + claimed;
    f->data_size = file_size - f->data_at;
    *size = (size_t)claimed;
    return text;
}

static void load_work(void *arg) {
    file *f = arg;
    uint64_t file_size;
    size_t size;
    f->fd = file_open(f->ctx, f->path, &file_size);
    if (f->fd < 0) heap_unwind(&f->ctx->heap);
    char *text = read_header(f, file_size, &size);
    json_fault fault = {"not an object", 0};
    f->header = size && text[0] == '{' ? json_parse(&f->a, text, size, &fault) : NULL;
    if (!f->header) header_bad(f, fault.at, NULL, fault.what);
    f->metadata = json_member(f->header, metadata_key);
    check_metadata(f);
    f->entry = arena_alloc(&f->a, (f->header->count + 1) * sizeof *f->entry);
    for (const json *v = f->header->first; v; v = v->next)
        if (v != f->metadata) read_entry(f, &f->entry[f->count++], v);
    check_cover(f);
}

static void file_close(file *f) {
    heap *h = &f->ctx->heap;
    if (f->fd >= 0) close(f->fd);
    arena_free(&f->a);
    heap_free(h, f->path, f->path_size);
    heap_free(h, f, sizeof *f);
}

qn_file *qn_file_open(qn_ctx *qn, const char *path) {
    if (!qn) return NULL;
    if (!path) return fail_null(qn, QN_ENULL, "file_open: no path");
    file *f = heap_try(&qn->heap, sizeof *f);
    size_t path_size = strlen(path) + 1;
    char *copy = f ? heap_try(&qn->heap, path_size) : NULL;
    if (!copy) {
        heap_free(&qn->heap, f, sizeof *f);
        return fail_null(qn, QN_ENOMEM, "%s: out of memory", path);
    }
    *f = (file){.ctx = qn, .path = memcpy(copy, path, path_size), .path_size = path_size};
    f->fd = -1;
    arena_open(&f->a, &qn->heap);
    bool good = guarded(qn, load_work, f) == QN_OK;
    qn_file *known = good ? object_open(qn, HANDLE_FILE, f) : NULL;
    if (!known) file_close(f);
    return known;
}

void qn_file_close(qn_file *known) {
    file *f = object_close(known, HANDLE_FILE, "file_close");
    if (f) file_close(f);
}

int qn_file_count(const qn_file *known) {
    const file *f = object_of(known, HANDLE_FILE, "file_count");
    return f ? (int)f->count : 0;
}

const char *qn_file_name(const qn_file *known, int i) {
    const file *f = object_of(known, HANDLE_FILE, "file_name");
    return f && i >= 0 && (uint32_t)i < f->count ? f->entry[i].name : NULL;
}

const char *qn_file_text(const qn_file *known, const char *key) {
    const file *f = object_of(known, HANDLE_FILE, "file_text");
    const json *v = f && key && f->metadata ? json_member(f->metadata, key) : NULL;
    return v ? v->text : NULL;
}

/* A bool is one byte, 0 or 1: kernels rely on it, so a file may not say otherwise. */
static bool bools_fine(const uint8_t *p, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1) return false;
    return true;
}

static void *no_tensor(const file *f, const char *name) {
    char near[300];
    nearest x = {.wanted = name};
    for (uint32_t i = 0; i < f->count; i++) nearest_offer(&x, f->entry[i].name);
    return fail_null(f->ctx, QN_EARG, "%s: no tensor \"%.80s\" in it; there is %s", f->path, name,
                     nearest_text(&x, near, sizeof near));
}

qn_tensor *qn_file_tensor(const qn_file *known, const char *name) {
    file *f = object_of(known, HANDLE_FILE, "file_tensor");
    if (!f) return NULL;
    if (!name) return fail_null(f->ctx, QN_ENULL, "%s: no name given", f->path);
    const json *v = json_member(f->header, name);
    if (!v || v == f->metadata) return no_tensor(f, name);
    bool after = f->metadata && v->index > f->metadata->index;
    const entry *e = &f->entry[v->index - after];
    size_t size = (size_t)(e->end - e->begin);
    void *data = heap_try(&f->ctx->heap, size);
    if (!data)
        return fail_null(f->ctx, QN_ENOMEM, "%s: out of memory for tensor \"%.80s\", %zu bytes",
                         f->path, name, size);
    qn_tensor *t = NULL;
    if (file_read(f->ctx, f->path, f->fd, f->data_at + e->begin, data, size) == QN_OK) {
        if (e->dtype == QN_BOOL && !bools_fine(data, size)) {
            fail(f->ctx, QN_EFORMAT, "%s: tensor \"%.80s\": a bool that is neither 0 nor 1",
                 f->path, name);
        } else {
            t = qn_from(f->ctx, e->dtype, e->rank, e->shape, data);
        }
    }
    heap_free(&f->ctx->heap, data, size);
    return t;
}

/* ---- writing ------------------------------------------------------------------------------- */

typedef struct saver {
    qn_ctx *ctx;
    int n, pairs;
    const char *const *names, *const *metadata;
    qn_tensor *const *tensors;
    file_writer file;
    arena a;
    str header;
    entry *entry; /* in the order of writing */
    int *order;   /* entry i is tensor order[i] */
    void *data;   /* one tensor's value */
    size_t data_size;
} saver;

/* Name, dtype and shape at the current bindings. */
static void describe(saver *s, int i, entry *e) {
    qn_tensor *t = s->tensors[i];
    const graph *g = s->ctx->graph;
    *e = (entry){.name = s->names[i], .dtype = qn_dtype_of(t)};
    const int64_t *dims = node_dims(g, tensor_at(t)->node, &e->rank);
    for (int k = 0; k < e->rank; k++) {
        e->shape[k] = shape_bound(g, (sym)dims[k]);
        if (e->shape[k] < 0)
            raise_error(s->ctx, QN_ERANGE, "save: \"%.80s\" has a size that is not bound", e->name);
    }
}

/* Order by element size, the widest first, otherwise as given; offsets follow. */
static void lay_out(saver *s) {
    s->entry = arena_alloc(&s->a, ((size_t)s->n + 1) * sizeof *s->entry);
    s->order = arena_alloc(&s->a, ((size_t)s->n + 1) * sizeof *s->order);
    int count = 0;
    uint64_t at = 0;
    for (size_t width = 8; width; width /= 2) {
        for (int i = 0; i < s->n; i++) {
            if (qn_dtype_size(qn_dtype_of(s->tensors[i])) != width) continue;
            entry *e = &s->entry[count];
            s->order[count++] = i;
            describe(s, i, e);
            e->begin = at;
            at += (uint64_t)qn_numel(s->tensors[i]) * width;
            e->end = at;
        }
    }
}

static void write_text(saver *s, const char *text, const char *what) {
    if (!text) raise_error(s->ctx, QN_ENULL, "save: a %s that is NULL", what);
    if (!json_utf8(text, strlen(text)))
        raise_error(s->ctx, QN_EARG, "save: a %s that is not UTF-8", what);
    json_quote(&s->header, text);
}

static void write_metadata(saver *s) {
    if (s->pairs == 0) return;
    str_addf(&s->header, "\"%s\":{", metadata_key);
    for (int i = 0; i < s->pairs; i++) {
        if (i) str_add(&s->header, ",");
        write_text(s, s->metadata[2 * i], "metadata key");
        str_add(&s->header, ":");
        write_text(s, s->metadata[2 * i + 1], "metadata text");
    }
    str_add(&s->header, s->n ? "}," : "}");
}

static void write_entry(saver *s, entry *e) {
    e->at = s->header.len;
    write_text(s, e->name, "name");
    str_addf(&s->header, ":{\"dtype\":\"%s\",\"shape\":[", dtype_rows[e->dtype].file);
    for (int k = 0; k < e->rank; k++)
        str_addf(&s->header, "%s%lld", k ? "," : "", (long long)e->shape[k]);
    str_addf(&s->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)e->begin,
             (unsigned long long)e->end);
}

/* Read back what was written: the reader refuses names that come twice, in time linear in them. */
static void check_header(saver *s) {
    json_fault fault;
    const json *v = json_parse(&s->a, s->header.s, s->header.len, &fault);
    if (v) return;
    const char *name = NULL; /* of the tensor at the fault; NULL: it is in the metadata */
    for (int i = 0; i < s->n && s->entry[i].at <= fault.at; i++) name = s->entry[i].name;
    if (!name) raise_error(s->ctx, QN_EARG, "save: metadata: %s", fault.what);
    raise_error(s->ctx, QN_EARG, "save: tensor \"%.100s\": %s", name, fault.what);
}

static void make_header(saver *s) {
    str_add(&s->header, "{");
    write_metadata(s);
    for (int i = 0; i < s->n; i++) {
        if (i) str_add(&s->header, ",");
        if (s->entry[i].name && strcmp(s->entry[i].name, metadata_key) == 0)
            raise_error(s->ctx, QN_EARG, "save: no tensor may be named %s", metadata_key);
        write_entry(s, &s->entry[i]);
    }
    str_add(&s->header, "}");
    while (s->header.len % HEADER_ALIGN) str_add(&s->header, " ");
    check_header(s);
}

static void write_tensors(saver *s) {
    size_t most = 1;
    for (int i = 0; i < s->n; i++) {
        size_t size = (size_t)(s->entry[i].end - s->entry[i].begin);
        if (size > most) most = size;
    }
    s->data = heap_alloc(&s->ctx->heap, most);
    s->data_size = most;
    for (int i = 0; i < s->n; i++) {
        size_t size = (size_t)(s->entry[i].end - s->entry[i].begin);
        if (qn_read(s->tensors[s->order[i]], s->data, size) || file_write(&s->file, s->data, size))
            heap_unwind(&s->ctx->heap);
    }
}

static void save_work(void *arg) {
    saver *s = arg;
    if (s->n && qn_realize(s->n, s->tensors)) heap_unwind(&s->ctx->heap);
    lay_out(s);
    make_header(s);
    uint64_t size = s->header.len;
    if (file_create(&s->file, s->ctx, s->file.path) || file_write(&s->file, &size, sizeof size) ||
        file_write(&s->file, s->header.s, s->header.len))
        heap_unwind(&s->ctx->heap);
    write_tensors(s);
    if (file_commit(&s->file)) heap_unwind(&s->ctx->heap);
}

qn_code qn_save(qn_ctx *qn, const char *path, int n, const char *const *names,
                qn_tensor *const *tensors, const qn_save_options *options) {
    qn_save_options o = QN_SAVE_OPTIONS();
    if (!qn) return QN_ENULL;
    if (!struct_take(qn, "save", "qn_save_options", &o, sizeof o, options)) return qn->code;
    if (!path) return fail(qn, QN_ENULL, "save: no path");
    if (!*path) return fail(qn, QN_EARG, "save: the path is empty");
    if (n < 0 || o.pairs < 0) return fail(qn, QN_EARG, "save: a negative count");
    if ((n && (!names || !tensors)) || (o.pairs && !o.metadata))
        return fail(qn, QN_ENULL, "save: NULL where a list is needed");
    if (!tensors_of(qn, n, tensors, "save", "tensor")) return qn_error_code(qn);
    saver s = {.ctx = qn,
               .n = n,
               .pairs = o.pairs,
               .names = names,
               .metadata = o.metadata,
               .tensors = tensors,
               .file = {.ctx = qn, .path = path, .to = {.folder = -1, .file = -1}}};
    arena_open(&s.a, &qn->heap);
    str_open(&s.header, &qn->heap);
    int code = guarded(qn, save_work, &s);
    file_abandon(&s.file);
    heap_free(&qn->heap, s.data, s.data_size);
    str_free(&s.header);
    arena_free(&s.a);
    return code;
}
