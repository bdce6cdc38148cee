/* npy.c - arrays of NumPy: npy, and npz, a zip of them.
 *
 * An npy file is "\x93NUMPY", a version, the length of a header of 2 bytes, or 4 from version 2 on,
 * the header, a dict as Python writes it:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 * and the elements. The dict is read as what it is, strings, a bool and a tuple of numbers, and
 * nothing of it is executed. Objects ('|O') are pickles, and refused. */
#include "archive/archive.h"

#include <stdio.h>

/* The letter and the width of each dtype in 'descr'. */
typedef struct npy_type {
    uint8_t dtype, width;
    char letter;
} npy_type;
static const npy_type types[] = {
    {QN_BOOL, 1, 'b'}, {QN_I8, 1, 'i'},  {QN_I16, 2, 'i'}, {QN_I32, 4, 'i'},  {QN_I64, 8, 'i'},
    {QN_U8, 1, 'u'},   {QN_U16, 2, 'u'}, {QN_U32, 4, 'u'}, {QN_U64, 8, 'u'},  {QN_F16, 2, 'f'},
    {QN_F32, 4, 'f'},  {QN_F64, 8, 'f'}, {QN_C64, 8, 'c'}, {QN_C128, 16, 'c'}};
static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, ALIGN = 64, HEADER_MOST = 1 << 16 };

/* ---- the header ------------------------------------------------------------------------------ */

typedef struct parser {
    archive *f;
    archive_entry *e;
    const char *text, *p; /* ends in a zero */
    uint64_t at;
    bool by_columns;
} parser;

QN_NORETURN static void wrong(const parser *r, const char *what) {
    archive_bad(r->f, r->at + (uint64_t)(r->p - r->text), "in an array's header: %s", what);
}

static bool take(parser *r, const char *word) {
    size_t n = strlen(word);
    while (*r->p == ' ' || *r->p == '\n') r->p++;
    if (strncmp(r->p, word, n) != 0) return false;
    r->p += n;
    return true;
}

static void read_descr(parser *r) {
    char order, letter;
    int width = 0;
    if (!take(r, "'")) wrong(r, "descr is no text: an array of records?");
    order = *r->p ? *r->p++ : 0;
    letter = *r->p ? *r->p++ : 0;
    while (*r->p >= '0' && *r->p <= '9' && width < 1000) width = 10 * width + (*r->p++ - '0');
    if (letter == 'O') wrong(r, "an array of Python's objects, which are not read");
    if (!take(r, "'") || (order != '<' && order != '>' && order != '|' && order != '='))
        wrong(r, "a descr that is none");
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (types[i].letter != letter || types[i].width != width) continue;
        r->e->dtype = types[i].dtype;
        r->e->swapped = order == '>' && width > 1;
        return;
    }
    wrong(r, "a descr that Quern has no dtype for");
}

static void read_shape(parser *r) {
    int64_t dims[QN_MAX_RANK];
    int rank = 0;
    if (!take(r, "(")) wrong(r, "shape is no tuple");
    while (!take(r, ")")) {
        take(r, "");
        if (*r->p < '0' || *r->p > '9') wrong(r, "a size that is no whole number");
        if (rank == QN_MAX_RANK) wrong(r, "more axes than the 12 that Quern has");
        int64_t n = 0;
        for (; *r->p >= '0' && *r->p <= '9'; r->p++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *r->p - '0', &n))
                wrong(r, "a size past 2^63");
        dims[rank++] = n;
        if (!take(r, ",") && *r->p != ')') wrong(r, "sizes without a comma between them");
    }
    r->e->rank = (uint8_t)rank;
    r->e->shape = archive_alloc(r->f, (uint64_t)rank, sizeof *dims);
    memcpy(r->e->shape, dims, (size_t)rank * sizeof *dims);
}

static void read_dict(parser *r) {
    int seen = 0;
    if (!take(r, "{")) wrong(r, "it is no dict");
    while (!take(r, "}")) {
        int bit = take(r, "'descr'")           ? 1
                  : take(r, "'fortran_order'") ? 2
                  : take(r, "'shape'")         ? 4
                                               : 0;
        if (!bit || seen & bit)
            wrong(r, "a key that is not descr, fortran_order or shape, once each");
        seen |= bit;
        if (!take(r, ":")) wrong(r, "a key without a value");
        if (bit == 1) read_descr(r);
        if (bit == 4) read_shape(r);
        if (bit == 2 && take(r, "True"))
            r->by_columns = true;
        else if (bit == 2 && !take(r, "False"))
            wrong(r, "fortran_order is neither True nor False");
        if (!take(r, ",") && *r->p != '}') wrong(r, "entries without a comma between them");
    }
    take(r, "");
    if (*r->p || seen != 7) wrong(r, seen == 7 ? "something behind the dict" : "a key is missing");
}

uint64_t npy_header(archive *f, archive_entry *e, uint8_t *head, uint64_t size, uint64_t at) {
    uint64_t length = 0;
    if (size < 10 || memcmp(head, magic, MAGIC) || head[6] < 1 || head[6] > 3)
        archive_bad(f, at, "no array of NumPy's, version 1 to 3");
    uint64_t begin = head[6] == 1 ? 10 : 12;
    memcpy(&length, head + 8, size < begin ? 0 : begin - 8);
    if (size < begin || length > size - begin || length > HEADER_MOST)
        archive_bad(f, at, "an array's header of %llu bytes", (unsigned long long)length);
    head[begin + length] = 0;
    const char *text = (const char *)head + begin;
    parser r = {f, e, text, text, at + begin, false};
    read_dict(&r);
    e->bytes = archive_bytes(f, at + begin, e);
    if (r.by_columns && e->rank > 1) { /* the strides that Fortran has */
        e->strides = archive_alloc(f, e->rank, sizeof *e->strides);
        int64_t stride = 1;
        for (int i = 0; i < e->rank; i++) {
            e->strides[i] = stride;
            stride = sat_mul(stride, e->shape[i] ? e->shape[i] : 1);
        }
    }
    return begin + length;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The number in each half of a complex one has its bytes in its own order. */
static void swap(uint8_t *p, uint64_t n, size_t width) {
    for (uint64_t i = 0; i < n; i += width)
        for (size_t k = 0; k < width / 2; k++) {
            uint8_t t = p[i + k];
            p[i + k] = p[i + width - 1 - k];
            p[i + width - 1 - k] = t;
        }
}

void npy_order(const archive_entry *e, uint8_t *data, size_t width) {
    bool complex = e->dtype == QN_C64 || e->dtype == QN_C128;
    if (e->swapped) swap(data, e->bytes, complex ? width / 2 : width);
}

/* Elements that lie by columns, in rows: `from` is another copy. */
static void by_rows(const archive_entry *e, const uint8_t *from, uint8_t *out, size_t width) {
    int64_t index[QN_MAX_RANK] = {0};
    for (uint64_t i = 0; i < e->bytes; i += width) {
        int64_t at = 0;
        for (int k = 0; k < e->rank; k++) at += index[k] * e->strides[k];
        memcpy(out + i, from + (size_t)at * width, width);
        for (int k = e->rank - 1; k >= 0 && ++index[k] == e->shape[k]; k--) index[k] = 0;
    }
}

static void in_order(archive *f, const archive_entry *e, uint8_t *out) {
    size_t width = qn_dtype_size((qn_dtype)e->dtype);
    npy_order(e, out, width);
    if (!e->strides || e->bytes == 0) return;
    heap_piece copy = {&f->ctx->heap, heap_alloc(&f->ctx->heap, (size_t)e->bytes),
                       (size_t)e->bytes};
    memcpy(copy.p, out, copy.size);
    by_rows(e, copy.p, out, width);
    heap_piece_cleanup(&copy);
}

static void npy_open(archive *f) {
    uint64_t size = f->size < HEADER_MOST + 12 ? f->size : HEADER_MOST + 12;
    uint8_t *head = archive_alloc(f, size + 1, 1);
    archive_read_at(f, 0, head, (size_t)size);
    f->entry = archive_alloc(f, 1, sizeof *f->entry);
    archive_entry *e = &f->entry[f->count++];
    e->name = "array";
    e->at = npy_header(f, e, head, size, 0);
    if (e->bytes != f->size - e->at)
        archive_bad(f, e->at, "an array of %llu bytes where there are %llu",
                    (unsigned long long)e->bytes, (unsigned long long)(f->size - e->at));
}

static void npy_read(archive *f, const archive_entry *e, void *out) {
    archive_read_at(f, e->at, out, (size_t)e->bytes);
    in_order(f, e, out);
}

const archive_kind kind_npy = {"npy", npy_open, npy_read, NULL, NULL, true};

/* ---- npz ------------------------------------------------------------------------------------- */

static void npz_open(archive *f) {
    enum { FIRST = 256 };
    const zip *z = f->zip;
    uint8_t *head = archive_alloc(f, HEADER_MOST + 12 + 1, 1);
    f->entry = archive_alloc(f, z->count, sizeof *f->entry);
    for (uint32_t i = 0; i < z->count; i++) {
        const zip_member *m = &z->member[i];
        size_t n = strlen(m->name);
        if (n < 5 || strcmp(m->name + n - 4, ".npy") != 0)
            archive_bad(f, m->at, "member \"%.80s\" is no array: a zip file of something else?",
                        m->name);
        archive_entry *e = &f->entry[f->count++];
        char *name = archive_alloc(f, n - 3, 1);
        e->name = memcpy(name, m->name, n - 4);
        e->member = i;
        /* Most headers are short; of a longer one the length is known then. */
        uint64_t size = m->size < FIRST ? m->size : FIRST, length = 0;
        zip_read(f, m, head, size);
        if (size >= 12) memcpy(&length, head + 8, head[6] == 1 ? 2 : 4);
        if (length > FIRST - 12 && length <= HEADER_MOST && length + 12 <= m->size) {
            size = length + 12;
            zip_read(f, m, head, size);
        }
        e->at = npy_header(f, e, head, size, m->at);
        if (e->bytes != m->size - e->at)
            archive_bad(f, m->at, "array \"%.80s\" is of %llu bytes where there are %llu", e->name,
                        (unsigned long long)e->bytes, (unsigned long long)(m->size - e->at));
    }
}

static void npz_read(archive *f, const archive_entry *e, void *out) {
    const zip_member *m = &f->zip->member[e->member];
    heap_piece all = {&f->ctx->heap, heap_alloc(&f->ctx->heap, (size_t)m->size), (size_t)m->size};
    cleanup c;
    cleanup_push(&f->ctx->heap, &c, heap_piece_cleanup, &all);
    zip_read(f, m, all.p, m->size);
    memcpy(out, (const uint8_t *)all.p + e->at, (size_t)e->bytes);
    cleanup_run(&f->ctx->heap, &c);
    in_order(f, e, out);
}

const archive_kind kind_npz = {"npz", npz_open, npz_read, NULL, NULL, false};

/* ---- writing --------------------------------------------------------------------------------- */

static const npy_type *type_of(qn_dtype dtype) {
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].dtype == dtype) return &types[i];
    return NULL;
}

bool npy_has(qn_dtype dtype) {
    return type_of(dtype) != NULL;
}

void npy_write_header(str *out, qn_dtype dtype, int rank, const int64_t *shape) {
    const npy_type *t = type_of(dtype);
    uint32_t begin = out->len;
    str_addn(out, "\x93NUMPY\1\0\0\0", 10);
    str_addf(out, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
             t->width > 1 ? '<' : '|', t->letter, t->width);
    for (int i = 0; i < rank; i++)
        str_addf(out, "%lld%s", (long long)shape[i], i + 1 < rank ? ", " : rank == 1 ? "," : "");
    str_add(out, "), }");
    while ((out->len - begin + 1) % ALIGN) str_add(out, " ");
    str_add(out, "\n");
    uint16_t length = (uint16_t)(out->len - begin - 10);
    memcpy(out->s + begin + 8, &length, sizeof length);
}
