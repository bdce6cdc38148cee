/* wire.c - a model as bytes: protocol buffers written, and the file of them.
 *
 * A message's length stands in front of it, so nodes are written into memory first, and of
 * initializers, which may be large, the length is counted: their values go from the device into the
 * file by pieces. A file gets its name when it is whole (io/file.c). Parameters may stand in a
 * second file, from multiples of 64 bytes on; it gets its name first, for the model names it. */
#include "onnx/save/save.h"

#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 1 << 20, ALIGNED = 64 };
enum { ATTRIBUTE_INT = 2, ATTRIBUTE_STRING = 3, ATTRIBUTE_GRAPH = 5, ATTRIBUTE_INTS = 7 };
static const uint64_t one_file_most = (1ull << 31) - 1;

/* ---- fields ---------------------------------------------------------------------------------- */

static void varint(str *out, uint64_t v) {
    char byte[10];
    size_t n = 0;
    for (; v > 127; v >>= 7) byte[n++] = (char)(v | 128);
    byte[n++] = (char)v;
    str_addn(out, byte, n);
}

void wire_int(str *out, uint32_t field, int64_t v) {
    varint(out, (uint64_t)field << 3 | WIRE_VARINT);
    varint(out, (uint64_t)v);
}

void wire_key(str *out, uint32_t field, uint64_t size) {
    varint(out, (uint64_t)field << 3 | WIRE_BYTES);
    varint(out, size);
}

void wire_bytes(str *out, uint32_t field, const void *bytes, size_t n) {
    wire_key(out, field, n);
    str_addn(out, bytes, n);
}

void wire_text(str *out, uint32_t field, const char *text) {
    wire_bytes(out, field, text, strlen(text));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* "axis=1", "perm=(0,2,1)" or "reduction=add", up to `end`. */
static void wire_attribute(saving *s, str *out, const char *at, const char *end) {
    const char *value = memchr(at, '=', (size_t)(end - at));
    str message;
    str_open_in(&message, &s->a);
    wire_bytes(&message, 1, at, (size_t)(value - at));
    value++;
    bool list = *value == '(', number = *value == '-' || (*value >= '0' && *value <= '9');
    if (list)
        for (const char *p = value + 1; *p != ')'; p += *p == ',')
            wire_int(&message, 8, strtoll(p, (char **)&p, 10));
    else if (number)
        wire_int(&message, 3, strtoll(value, NULL, 10));
    else
        wire_bytes(&message, 4, value, (size_t)(end - value));
    wire_int(&message, 20, list ? ATTRIBUTE_INTS : number ? ATTRIBUTE_INT : ATTRIBUTE_STRING);
    wire_bytes(out, 5, message.s, message.len);
}

/* What goes in and comes out. */
static void begin_node(saving *s, str *node, int n_in, const val *in, int n_out, val first) {
    str_open_in(node, &s->a);
    while (n_in && !in[n_in - 1]) n_in--;
    for (int i = 0; i < n_in; i++)
        if (in[i]) val_written(s, in[i]);
    for (int i = 0; i < n_in; i++) wire_text(node, 1, in[i] ? val_name(s, in[i]) : "");
    for (int i = 0; i < n_out; i++) wire_text(node, 2, val_name(s, first + (val)i));
}

void wire_node(saving *s, const char *spec, int n_in, const val *in, int n_out, val first) {
    const char *open = strchr(spec, '['), *at = open ? open + 1 : "]";
    str node;
    begin_node(s, &node, n_in, in, n_out, first);
    wire_bytes(&node, 4, spec, strcspn(spec, "[:"));
    while (*at != ']') {
        const char *end = at + strcspn(at, ";]");
        wire_attribute(s, &node, at, end);
        at = end + (*end == ';');
    }
    wire_bytes(s->out, 1, node.s, node.len);
}

void wire_loop(saving *s, int n_in, const val *in, int n_out, val first, const str *body) {
    str node, attribute;
    str_open_in(&attribute, &s->a);
    begin_node(s, &node, n_in, in, n_out, first);
    wire_text(&node, 4, "Loop");
    wire_text(&attribute, 1, "body");
    wire_bytes(&attribute, 6, body->s, body->len);
    wire_int(&attribute, 20, ATTRIBUTE_GRAPH);
    wire_bytes(&node, 5, attribute.s, attribute.len);
    wire_bytes(s->out, 1, node.s, node.len);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A TensorProto but for its bytes, if `inside`, which are its last field. */
static void describe_init(saving *s, const save_init *t, bool inside, str *out) {
    str pair;
    for (int i = 0; i < t->rank; i++) wire_int(out, 1, t->dim[i]);
    wire_int(out, 2, onnx_type_like(t->dtype));
    wire_text(out, 8, t->name);
    if (inside) {
        wire_key(out, 9, t->bytes);
        return;
    }
    const char *slash = strrchr(s->o.data, '/');
    const char *const entry[][2] = {
        {"location", slash ? slash + 1 : s->o.data},
        {"offset", arena_printf(&s->a, "%llu", (unsigned long long)s->written)},
        {"length", arena_printf(&s->a, "%llu", (unsigned long long)t->bytes)}};
    for (size_t i = 0; i < COUNT_OF(entry); i++) {
        str_open_in(&pair, &s->a);
        wire_text(&pair, 1, entry[i][0]);
        wire_text(&pair, 2, entry[i][1]);
        wire_bytes(out, 13, pair.s, pair.len);
    }
    wire_int(out, 14, 1);
    s->written += ceil_div((int64_t)t->bytes, ALIGNED) * ALIGNED;
}

static void put(saving *s, file_writer *w, const void *data, size_t size) {
    if (file_write(w, data, size)) heap_unwind(&s->qn->heap);
}

/* A parameter's value, by pieces. */
static void put_value(saving *s, file_writer *w, const save_init *t) {
    const run_state *r = s->qn->run;
    if (t->data) {
        put(s, w, t->data, (size_t)t->bytes);
        return;
    }
    void *piece = arena_alloc(&s->a, PIECE);
    for (uint64_t at = 0; at < t->bytes; at += PIECE) {
        size_t n = t->bytes - at < PIECE ? (size_t)(t->bytes - at) : PIECE;
        const buffer *b = buffer_at(s->qn, t->buffer);
        if (r->dev->copy_out(r->dev_state, b->memory, (size_t)at, piece, n))
            raise_error(s->qn, QN_EDEVICE, "onnx_save: the device did not give \"%.80s\"", t->name);
        put(s, w, piece, n);
    }
}

static bool is_outside(const saving *s, const save_init *t) {
    return s->o.data && !t->data;
}

static void put_data_file(saving *s) {
    static const char zeros[ALIGNED];
    if (file_create(&s->data, s->qn, s->data.path)) heap_unwind(&s->qn->heap);
    for (uint32_t i = 0; i < s->inits; i++) {
        if (!is_outside(s, &s->init[i])) continue;
        put_value(s, &s->data, &s->init[i]);
        put(s, &s->data, zeros, (ALIGNED - s->init[i].bytes % ALIGNED) % ALIGNED);
    }
    if (file_commit(&s->data)) heap_unwind(&s->qn->heap);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void put_dims(saving *s, tuple_id shape, str *out) {
    int rank;
    const int64_t *dim = graph_tuple_get(s->g, shape, &rank);
    for (int i = 0; i < rank; i++) {
        str one;
        int64_t n;
        str_open_in(&one, &s->a);
        str_addn(&one, "", 0);
        if (save_number(s, dim[i], &n))
            wire_int(&one, 1, n);
        else if (sym_is_var(s->g->syms, (sym)dim[i]))
            wire_text(&one, 2, sym_name(s->g->syms, (sym)dim[i]));
        wire_bytes(out, 1, one.s, one.len);
    }
}

void wire_info(saving *s, uint32_t field, val v, qn_dtype dtype, tuple_id shape, str *out) {
    str dims, array, type, info;
    str_open_in(&dims, &s->a);
    str_open_in(&array, &s->a);
    str_open_in(&type, &s->a);
    str_open_in(&info, &s->a);
    str_addn(&dims, "", 0);
    put_dims(s, shape, &dims);
    wire_int(&array, 1, onnx_type_like(dtype));
    wire_bytes(&array, 2, dims.s, dims.len);
    wire_bytes(&type, 1, array.s, array.len);
    wire_text(&info, 1, val_name(s, v));
    wire_bytes(&info, 2, type.s, type.len);
    wire_bytes(out, field, info.s, info.len);
}

static void put_end(saving *s, uint32_t field, val v, const qn_tensor *t, str *out) {
    const graph_node *x = node_at(s->g, tensor_at(t)->node);
    wire_info(s, field, v, (qn_dtype)x->dtype, x->shape, out);
}

/* What stands in the graph behind its nodes and initializers. */
static void put_ends(saving *s, str *out) {
    wire_text(out, 2, s->o.name ? s->o.name : "graph");
    for (int i = 0; i < s->n_in; i++) put_end(s, 11, 1 + (val)i, s->input[i], out);
    for (int i = 0; i < s->n_out; i++) put_end(s, 12, 1 + (val)(s->n_in + i), s->output[i], out);
}

static void put_head(saving *s, uint64_t graph_size, str *out) {
    str opset;
    str_open_in(&opset, &s->a);
    wire_text(&opset, 1, "");
    wire_int(&opset, 2, s->opset);
    wire_int(out, 1, s->opset > SAVE_OPSET ? 13 : 9);
    wire_text(out, 2, "quern");
    wire_text(
        out, 3,
        arena_printf(&s->a, "%d.%d.%d", QN_VERSION_MAJOR, QN_VERSION_MINOR, QN_VERSION_PATCH));
    wire_bytes(out, 8, opset.s, opset.len);
    wire_key(out, 7, graph_size);
}

/* Where parameters go, and where that file lies: beside the model. */
static void choose_data(saving *s) {
    uint64_t all = s->text.len;
    const char *slash = strrchr(s->path, '/'), *base = slash ? slash + 1 : s->path;
    for (uint32_t i = 0; i < s->inits; i++)
        all = (uint64_t)sat_add((int64_t)all, (int64_t)s->init[i].bytes + 256);
    if (!s->o.data && all > one_file_most) s->o.data = arena_printf(&s->a, "%s.data", base);
    if (!s->o.data) return;
    if (strchr(s->o.data, '/') || !*s->o.data || !strcmp(s->o.data, ".."))
        raise_error(s->qn, QN_EARG,
                    "onnx_save: data is \"%.200s\", and must be a name in the model's folder",
                    s->o.data);
    if (!strcmp(s->o.data, base))
        raise_error(s->qn, QN_EARG, "onnx_save: \"%.200s\" is both the model and its data",
                    s->path);
    s->data.path = arena_printf(&s->a, "%.*s%s", (int)(base - s->path), s->path, s->o.data);
}

void wire_file(saving *s) {
    str head, ends, *of = arena_alloc(&s->a, (s->inits + 1) * sizeof *of);
    choose_data(s);
    str_open_in(&head, &s->a);
    str_open_in(&ends, &s->a);
    put_ends(s, &ends);
    uint64_t size = s->text.len + ends.len;
    for (uint32_t i = 0; i < s->inits; i++) {
        str about;
        bool inside = !is_outside(s, &s->init[i]);
        str_open_in(&about, &s->a);
        str_open_in(&of[i], &s->a);
        describe_init(s, &s->init[i], inside, &about);
        wire_key(&of[i], 5, about.len + (inside ? s->init[i].bytes : 0));
        str_addn(&of[i], about.s, about.len);
        size += of[i].len + (inside ? s->init[i].bytes : 0);
    }
    put_head(s, size, &head);
    if (head.len + size > one_file_most)
        raise_error(s->qn, QN_ERANGE,
                    "onnx_save: a model of %llu bytes; a file of the format has less than 2 GiB",
                    (unsigned long long)(head.len + size));
    if (s->o.data) put_data_file(s);
    if (file_create(&s->file, s->qn, s->path)) heap_unwind(&s->qn->heap);
    put(s, &s->file, head.s, head.len);
    if (s->text.len) put(s, &s->file, s->text.s, s->text.len);
    for (uint32_t i = 0; i < s->inits; i++) {
        put(s, &s->file, of[i].s, of[i].len);
        if (!is_outside(s, &s->init[i])) put_value(s, &s->file, &s->init[i]);
    }
    put(s, &s->file, ends.s, ends.len);
    if (file_commit(&s->file)) heap_unwind(&s->qn->heap);
}
