/* proto.c - the wire format of protocol buffers, read with bounds.
 *
 * A message is a row of fields, each a key and a value; the key is a varint, the field's number
 * times eight plus the kind of its value: a varint, four or eight bytes, or a length and so many
 * bytes, which are a text, numbers side by side, or a message again. Nothing says how long the
 * outermost message is but the end of the bytes. A message's bytes lie within those of the one
 * around, so a reader that never passes its own end reads nothing that is not there. Groups, which
 * ONNX does not use, are refused. */
#include "onnx/onnx.h"

static uint64_t place_of(const proto *p) {
    return (uint64_t)(p->at - p->model->bytes);
}

void proto_bad(const proto *p, const char *what) {
    raise_error(p->model->ctx, QN_EFORMAT, "%s: at byte %llu: %s", p->model->path,
                (unsigned long long)place_of(p), what);
}

uint64_t proto_varint(proto *p) {
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p->at == p->end) proto_bad(p, "a number that is cut off");
        uint8_t byte = *p->at++;
        if (shift == 63 && byte > 1) break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return v;
    }
    proto_bad(p, "a number of more than 64 bits");
}

static uint64_t fixed(proto *p, size_t bytes) {
    uint64_t v = 0;
    if ((size_t)(p->end - p->at) < bytes) proto_bad(p, "a number that is cut off");
    memcpy(&v, p->at, bytes);
    p->at += bytes;
    return v;
}

bool proto_next(proto *p, proto_field *f) {
    if (p->at == p->end) return false;
    uint64_t key = proto_varint(p);
    *f = (proto_field){.wire = (int)(key & 7), .bytes = {.model = p->model}};
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) proto_bad(p, "a field that has no number");
    f->number = (uint32_t)(key >> 3);
    f->bytes.at = f->bytes.end = p->at;
    if (f->wire == WIRE_VARINT) {
        f->value = proto_varint(p);
    } else if (f->wire == WIRE_FIXED64 || f->wire == WIRE_FIXED32) {
        f->value = fixed(p, f->wire == WIRE_FIXED64 ? 8 : 4);
    } else if (f->wire == WIRE_BYTES) {
        uint64_t size = proto_varint(p);
        if (size > (uint64_t)(p->end - p->at)) proto_bad(p, "a field that ends past its message");
        f->bytes.at = p->at;
        f->bytes.end = p->at += size;
    } else {
        proto_bad(p, "a field of a kind that there is not");
    }
    return true;
}

const proto *proto_message(const proto_field *f) {
    if (f->wire != WIRE_BYTES) proto_bad(&f->bytes, "a number where a message should be");
    return &f->bytes;
}

const char *proto_text(const proto_field *f) {
    const proto *p = proto_message(f);
    size_t size = (size_t)(p->end - p->at);
    if (size && memchr(p->at, 0, size)) proto_bad(p, "a text with a zero byte");
    char *text = arena_alloc(&p->model->a, size + 1);
    if (size) memcpy(text, p->at, size);
    text[size] = 0;
    return text;
}

int64_t proto_int(const proto_field *f) {
    if (f->wire != WIRE_VARINT) proto_bad(&f->bytes, "no number where one should be");
    return (int64_t)f->value;
}

static float as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float v;
    memcpy(&v, &low, sizeof v);
    return v;
}

float proto_float(const proto_field *f) {
    if (f->wire != WIRE_FIXED32) proto_bad(&f->bytes, "no float where one should be");
    return as_float(f->value);
}

void proto_ints(const proto_field *f, int64_t **list, uint32_t *n, uint32_t *cap) {
    arena *a = &f->bytes.model->a;
    if (f->wire == WIRE_VARINT) {
        *list = arena_grow(a, *list, cap, *n + 1, sizeof **list);
        (*list)[(*n)++] = (int64_t)f->value;
        return;
    }
    proto p = *proto_message(f);
    while (p.at != p.end) {
        int64_t v = (int64_t)proto_varint(&p);
        *list = arena_grow(a, *list, cap, *n + 1, sizeof **list);
        (*list)[(*n)++] = v;
    }
}

void proto_floats(const proto_field *f, float **list, uint32_t *n, uint32_t *cap) {
    arena *a = &f->bytes.model->a;
    if (f->wire == WIRE_FIXED32) {
        *list = arena_grow(a, *list, cap, *n + 1, sizeof **list);
        (*list)[(*n)++] = as_float(f->value);
        return;
    }
    proto p = *proto_message(f);
    while (p.at != p.end) {
        uint64_t bits = fixed(&p, 4);
        *list = arena_grow(a, *list, cap, *n + 1, sizeof **list);
        (*list)[(*n)++] = as_float(bits);
    }
}
