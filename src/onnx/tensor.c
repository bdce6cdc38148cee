/* tensor.c - the elements of a model's tensors, as their carriers hold them.
 *
 * Elements stand in raw_data, little-endian, narrow ones packed from the low bits on, or as numbers
 * in the field that the type has, or in another file. Large weights in raw_data stay there, as
 * borrowed tensors, so that they are in memory once. Integers of two and four bits become bytes,
 * floats that Quern lacks become f32, which holds them exactly. */
#include "onnx/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

const onnx_type onnx_types[ONNX_TYPES] = {
#define X(number, NAME, carrier, bits, kind, fraction, least, largest)                             \
    [number] = {#NAME, carrier, bits, ONNX_##kind, fraction, least, largest},
#include "onnx/types.h"
#undef X
};

const onnx_type *onnx_type_of(int number) {
    bool known = number > 0 && number < ONNX_TYPES && onnx_types[number].name;
    return known ? &onnx_types[number] : NULL;
}

int onnx_type_like(qn_dtype dtype) {
    for (int i = 1; i < ONNX_TYPES; i++)
        if (onnx_types[i].kind == ONNX_SAME && onnx_types[i].carrier == dtype) return i;
    return 0;
}

QN_NORETURN static void tensor_bad(const onnx_model *m, const onnx_tensor *t, const char *what) {
    raise_error(m->ctx, QN_EFORMAT, "%s: at byte %llu: tensor \"%.80s\": %s", m->path,
                (unsigned long long)(t->message.at - m->bytes), t->name, what);
}

int64_t onnx_numel(const onnx_model *m, const onnx_tensor *t) {
    int64_t n = 1;
    bool none = false;
    for (int i = 0; i < t->rank; i++) none |= t->shape[i] == 0;
    if (none) return 0;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n) || n > INT64_MAX / 32)
            tensor_bad(m, t, "a shape of too many elements");
    return n;
}

/* ---- narrow types ---------------------------------------------------------------------------- */

/* What the bits of a float of sign, exponent and fraction mean. The bias and what stands for no
 * number follow from the type: FNUZ have their only NaN where -0 would be, E8M0 with all bits set.
 */
static float narrow_value(int type, uint32_t code) {
    const onnx_type *t = &onnx_types[type];
    if (type == ONNX_FLOAT8E8M0) return code == 255 ? NAN : ldexpf(1, (int)code - 127);
    int exponent_bits = t->bits - 1 - t->fraction;
    uint32_t fraction = code & ((1u << t->fraction) - 1);
    int exponent = (int)(code >> t->fraction & ((1u << exponent_bits) - 1));
    float sign = code >> (t->bits - 1) ? -1.0f : 1.0f;
    bool unsigned_zero = t->bits == 8;
    if (unsigned_zero && code == 0x80) return NAN;
    float unit = 1.0f / (float)(1u << t->fraction);
    float m = (float)fraction * unit + (exponent ? 1.0f : 0.0f);
    return sign * ldexpf(m, t->least + (exponent ? exponent - 1 : 0));
}

static void put_narrow(int type, void *out, int64_t i, uint32_t code) {
    const onnx_type *t = &onnx_types[type];
    uint32_t mask = (1u << t->bits) - 1, top = 1u << (t->bits - 1);
    code &= mask;
    if (t->kind == ONNX_NARROW)
        ((float *)out)[i] = narrow_value(type, code);
    else if (t->carrier == QN_I8)
        ((int8_t *)out)[i] = (int8_t)((int)(code ^ top) - (int)top);
    else
        ((uint8_t *)out)[i] = (uint8_t)code;
}

static void unpack(int type, const uint8_t *from, int64_t n, void *out) {
    int bits = onnx_types[type].bits, each = 8 / bits;
    for (int64_t i = 0; i < n; i++)
        put_narrow(type, out, i, (uint32_t)(from[i / each] >> (i % each * bits)));
}

/* ---- from the message ------------------------------------------------------------------------ */

typedef struct filling {
    onnx_model *m;
    const onnx_tensor *t;
    const onnx_type *type;
    uint8_t *out;
    int64_t n, done; /* elements; of packed numbers codes become elements at the end */
} filling;

/* One number of a typed field. Codes of narrow types may be packed into it: then raw bytes are. */
static void put_number(filling *f, const void *bits) {
    size_t size = qn_dtype_size(f->type->carrier);
    if (f->done >= f->n) tensor_bad(f->m, f->t, "more elements than its shape has");
    if (f->type->kind == ONNX_SAME && f->type->carrier == QN_BOOL)
        f->out[f->done] = *(const uint8_t *)bits != 0;
    else if (f->type->kind == ONNX_SAME)
        memcpy(f->out + (size_t)f->done * size, bits, size);
    f->done++;
}

static void put_packed(filling *f, uint32_t byte) {
    int each = 8 / f->type->bits;
    for (int i = 0; i < each && f->done < f->n; i++, f->done++)
        put_narrow(f->t->type, f->out, f->done, byte >> (i * f->type->bits));
}

static void put_varints(filling *f, const proto_field *field) {
    proto p = field->bytes;
    bool one = field->wire == WIRE_VARINT;
    while (one || p.at != p.end) {
        uint64_t v = one ? field->value : proto_varint(&p);
        if (f->type->kind == ONNX_SAME)
            put_number(f, &v);
        else
            put_packed(f, (uint32_t)v & 0xff);
        if (one) break;
    }
}

static void put_fixed(filling *f, const proto_field *field, size_t size) {
    const uint8_t *at = field->bytes.at, *end = field->bytes.end;
    if (field->wire != WIRE_BYTES) {
        put_number(f, &field->value);
        return;
    }
    if ((size_t)(end - at) % size) tensor_bad(f->m, f->t, "numbers that are cut off");
    for (; at != end; at += size) put_number(f, at);
}

/* Parts of a complex number stand side by side, each a number of the field. */
static void put_parts(filling *f, const proto_field *field, size_t size) {
    size_t bytes = (size_t)(field->bytes.end - field->bytes.at), whole = 2 * size;
    if (field->wire != WIRE_BYTES || bytes != (size_t)f->n * whole)
        tensor_bad(f->m, f->t, "not as many numbers as its shape has");
    if (bytes) memcpy(f->out, field->bytes.at, bytes);
    f->done = f->n;
}

static size_t raw_size(const filling *f) {
    return ((size_t)f->n * (size_t)f->type->bits + 7) / 8;
}

static void put_raw(filling *f, const uint8_t *from, size_t size) {
    if (size != raw_size(f)) tensor_bad(f->m, f->t, "data of another size than its shape has");
    if (f->type->kind != ONNX_SAME)
        unpack(f->t->type, from, f->n, f->out);
    else if (f->type->carrier == QN_BOOL)
        for (size_t i = 0; i < size; i++) f->out[i] = from[i] != 0;
    else if (size)
        memcpy(f->out, from, size);
    f->done = f->n;
}

static bool of_varints(int type) {
    return type == ONNX_INT32 || type == ONNX_INT16 || type == ONNX_INT8 || type == ONNX_UINT16 ||
           type == ONNX_UINT8 || type == ONNX_BOOL || type == ONNX_FLOAT16 ||
           type == ONNX_BFLOAT16 || type >= ONNX_FLOAT8E4M3FN;
}

static void fill(filling *f) {
    int type = f->t->type;
    bool complex = type == ONNX_COMPLEX64 || type == ONNX_COMPLEX128;
    proto p = f->t->message;
    proto_field field;
    while (proto_next(&p, &field)) {
        if (field.number == 9) {
            const proto *raw = proto_message(&field);
            put_raw(f, raw->at, (size_t)(raw->end - raw->at));
        }
        if ((field.number == 4 || field.number == 10) && complex)
            put_parts(f, &field, field.number == 4 ? 4 : 8);
        else if (field.number == 4 && type == ONNX_FLOAT)
            put_fixed(f, &field, 4);
        else if (field.number == 10 && type == ONNX_DOUBLE)
            put_fixed(f, &field, 8);
        if ((field.number == 5 && of_varints(type)) || (field.number == 7 && type == ONNX_INT64) ||
            (field.number == 11 && (type == ONNX_UINT64 || type == ONNX_UINT32)))
            put_varints(f, &field);
    }
}

/* ---- where they lie -------------------------------------------------------------------------- */

void onnx_let_go(void *bytes) {
    onnx_bytes *b = bytes;
    if (--b->users) return;
    heap_free(b->heap, b->at, b->size);
    heap_free(b->heap, b, sizeof *b);
}

/* The one field of raw bytes. Nothing that comes before it in the message is read again, so that
 * the elements may move towards its beginning. */
const void *onnx_lying(onnx_model *m, onnx_tensor *t) {
    const onnx_type *type = onnx_type_of(t->type);
    if (t->lies) return t->lies;
    if (!type || t->location || type->kind != ONNX_SAME || type->carrier == QN_BOOL) return NULL;
    if (dtype_is_complex(type->carrier)) return NULL;
    const filling f = {.m = m, .t = t, .type = type, .n = onnx_numel(m, t)};
    proto p = t->message, raw = {0};
    proto_field field;
    int fields = 0;
    while (proto_next(&p, &field)) {
        bool elements = field.number == 4 || field.number == 5 || field.number == 7 ||
                        field.number == 9 || field.number == 10 || field.number == 11;
        fields += elements;
        if (field.number == 9) raw = *proto_message(&field);
    }
    size_t size = (size_t)(raw.end - raw.at), width = qn_dtype_size(type->carrier);
    if (fields != 1 || !raw.at || size != raw_size(&f)) return NULL;
    size_t off = (uintptr_t)raw.at % width;
    if (off > (size_t)(raw.at - t->message.at)) return NULL;
    uint8_t *at = m->bytes + (raw.at - m->bytes) - off;
    if (off) memmove(at, raw.at, size);
    return t->lies = at;
}

/* ---- from another file ----------------------------------------------------------------------- */

/* Within the model's folder: no part of the way leads up or begins at the root. */
static bool stays_below(const char *path) {
    if (!*path || *path == '/') return false;
    for (const char *at = path; at; at = strchr(at, '/')) {
        while (*at == '/') at++;
        if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2])) return false;
    }
    return true;
}

/* Opened part by part, so that no symbolic link is followed out of the folder. */
static int open_below(const char *folder, const char *path) {
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0) {
        char part[256];
        size_t n = strcspn(path, "/");
        bool last = !path[n];
        int next = -1;
        if (n < sizeof part) {
            memcpy(part, path, n);
            part[n] = 0;
            next = openat(at, part,
                          O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY));
        } else {
            errno = ENAMETOOLONG;
        }
        int because = errno;
        close(at);
        errno = because;
        at = next;
        if (last) break;
        path += n;
        while (*path == '/') path++;
        if (!*path) path = ".";
    }
    return at;
}

static void read_elsewhere(filling *f, arena *a) {
    const onnx_tensor *t = f->t;
    size_t size = raw_size(f);
    if (!f->m->folder) tensor_bad(f->m, t, "in another file, and the model is in no folder");
    if (!stays_below(t->location)) tensor_bad(f->m, t, "in a file outside of the model's folder");
    if (t->length >= 0 && (size_t)t->length != size)
        tensor_bad(f->m, t, "data of another length than its shape has");
    uint8_t *bytes = arena_alloc(a, size + 1);
    struct stat st;
    int fd = open_below(f->m->folder, t->location);
    bool regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    bool within = regular && (uint64_t)t->offset <= (uint64_t)st.st_size &&
                  size <= (uint64_t)st.st_size - (uint64_t)t->offset;
    size_t done = 0;
    while (within && done < size) {
        ssize_t n = pread(fd, bytes + done, size - done, (off_t)t->offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (fd >= 0) close(fd);
    if (fd < 0 || !regular)
        raise_error(f->m->ctx, QN_EIO, "%s: tensor \"%.80s\": file \"%.200s\": %s", f->m->path,
                    t->name, t->location, fd < 0 ? strerror(errno) : "not a regular file");
    if (!within || done < size) tensor_bad(f->m, t, "its data ends past the end of its file");
    put_raw(f, bytes, size);
}

void *onnx_elements(onnx_model *m, const onnx_tensor *t, arena *a) {
    const onnx_type *type = onnx_type_of(t->type);
    if (!type)
        raise_error(m->ctx, QN_EDTYPE, "%s: tensor \"%.80s\" has element type %d%s", m->path,
                    t->name, t->type,
                    t->type == ONNX_STRING ? ", texts, which no tensor holds"
                                           : ", which Quern does not have");
    filling f = {.m = m, .t = t, .type = type, .n = onnx_numel(m, t)};
    /* The elements are in the file, so a shape that needs more than it has is refused before its
     * memory is asked for: eight for a byte at most. */
    if (!t->location && (uint64_t)f.n / 8 > m->size)
        tensor_bad(m, t, "a shape of more elements than the file has");
    f.out = arena_alloc(a, (size_t)f.n * qn_dtype_size(type->carrier) + 1);
    if (t->location)
        read_elsewhere(&f, a);
    else
        fill(&f);
    if (f.done != f.n) tensor_bad(m, t, "fewer elements than its shape has");
    return f.out;
}
