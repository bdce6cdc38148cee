/* fuzz_models.h - damaged models of the ONNX format for fuzz_parse: small graphs of any operators,
 * graphs in graphs and functions among them, written as protocol buffers; what can be read is
 * recorded on inputs of the shapes that it asks for.
 *
 * Lengths of messages are written in three bytes, which the format allows, so that they can be
 * filled in behind what they count. */
#ifndef QN_FUZZ_MODELS_H
#define QN_FUZZ_MODELS_H

#include "fuzz.h"
#include "onnx/onnx.h"

/* ---- what is done with them ------------------------------------------------------------------ */

enum { MODEL_VALUES = 8, MODEL_ELEMENTS = 4096, MODEL_MEMORY = 1 << 24 };

/* No more than MODEL_MEMORY of memory; each block has its size in front, which the sum is of. */
static inline void *model_alloc(void *user, size_t size, size_t align) {
    size_t *held = user;
    if (size > MODEL_MEMORY || *held + size > MODEL_MEMORY) return NULL;
    void *p = aligned_alloc(align, (size + align - 1) / align * align);
    *held += p ? size : 0;
    return p;
}

static inline void model_free_memory(void *user, void *p, size_t size) {
    *(size_t *)user -= p ? size : 0;
    free(p);
}

static inline void model_quiet(void *user, const char *line) {
    (void)user, (void)line;
}

/* Zeros and small numbers, of the shape that the model asks for; NULL: too many. */
static inline qn_tensor *input_of(qn_ctx *qn, const qn_onnx_value *v) {
    static double zeros[MODEL_ELEMENTS];
    int64_t shape[12], n = 1;
    int rank = v->rank < 0 ? 1 : v->rank;
    for (int i = 0; i < rank; i++) {
        shape[i] = v->rank < 0 || v->shape[i] < 0 ? 2 : v->shape[i];
        n = shape[i] > MODEL_ELEMENTS / (n ? n : 1) ? MODEL_ELEMENTS + 1 : n * shape[i];
    }
    return n > MODEL_ELEMENTS ? NULL : qn_from(qn, v->dtype, rank, shape, zeros);
}

static inline void model_call(qn_ctx *qn, qn_onnx *made) {
    qn_tensor *in[MODEL_VALUES] = {NULL}, *out[MODEL_VALUES] = {NULL};
    int n = qn_onnx_inputs(made), m = qn_onnx_outputs(made);
    qn_onnx_value v;
    for (int i = 0; i <= n; i++)
        if (qn_onnx_input_at(made, i, &v, sizeof v) && i < MODEL_VALUES) in[i] = input_of(qn, &v);
    for (int i = 0; i <= m; i++) qn_onnx_output_at(made, i, &v, sizeof v);
    qn_clear_error(qn);
    if (n > MODEL_VALUES || m > MODEL_VALUES) return;
    qn_code code = qn_onnx_call(made, n, in, m, out);
    if (code != qn_error_code(qn)) FOUND("code %d, and %d", code, qn_error_code(qn));
    fuzz_seen.lines += code == QN_OK;
    for (int i = 0; code && i < m; i++)
        if (out[i]) FOUND("an output beside an error");
}

static inline void model_once(qn_ctx *qn, const uint8_t *data, size_t size) {
    qn_scope s = qn_scope_begin(qn);
    qn_onnx *made = qn_onnx_parse(qn, data, size, NULL);
    qn_code code = qn_error_code(qn);
    if (!made && code != QN_EFORMAT && code != QN_ENOMEM) FOUND("refused by code %d", code);
    if (made) model_call(qn, made);
    if (qn_error_code(qn) == QN_EINTERNAL) FOUND("%s", qn_error(qn));
    fuzz_seen.accepted += made != NULL;
    qn_onnx_close(made);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

/* A model of many values makes tables larger, and they stay; what is larger behind each of some
 * rounds of one model is a leak. Those are looked at that made much larger, and a few more, the
 * first of a process among them: so is what is run again. */
static inline void fuzz_onnx(const uint8_t *data, size_t size) {
    enum { ROUNDS = 8, EACH = 16, MUCH = 1 << 15, A_FEW = 256 };
    static size_t held;
    static qn_ctx *qn;
    if (!qn)
        qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1, .alloc = model_alloc,
                                 .free = model_free_memory, .alloc_user = &held,
                                 .log = model_quiet));
    size_t before = held;
    model_once(qn, data, size);
    const fuzz_counts seen = fuzz_seen;
    bool grows = held > before + MUCH || fuzz_seen.inputs % A_FEW == 1;
    for (int round = 0; grows && round < ROUNDS; round++) {
        before = held;
        for (int i = 0; i < EACH; i++) model_once(qn, data, size);
        grows = held > before;
    }
    fuzz_seen = seen;
    if (grows) FOUND("memory is kept");
}

/* ---- messages -------------------------------------------------------------------------------- */

static inline void proto_tag(bytes *b, int field, int wire) {
    uint32_t tag = (uint32_t)(field << 3 | wire);
    if (tag > 127) add_number(b, (tag & 127) | 128, 1);
    add_number(b, tag > 127 ? tag >> 7 : tag, 1);
}

static inline void proto_number(bytes *b, int field, uint64_t v) {
    proto_tag(b, field, WIRE_VARINT);
    for (; v > 127; v >>= 7) add_number(b, v | 128, 1);
    add_number(b, v, 1);
}

static inline size_t proto_begin(bytes *b, int field) {
    proto_tag(b, field, WIRE_BYTES);
    add_number(b, 0, 3);
    return b->n;
}

static inline void proto_end(bytes *b, size_t from) {
    size_t n = b->n - from;
    for (int i = 0; i < 3; i++)
        b->at[from - 3 + i] = (uint8_t)(n >> 7 * i & 127) | (i < 2 ? 128 : 0);
}

static inline void proto_string(bytes *b, int field, const char *text) {
    size_t at = proto_begin(b, field);
    add_text(b, text);
    proto_end(b, at);
}

/* Names, and how many of the first have a value where a model is being written. */
static const char *const model_names[] = {"x", "y", "z", "a", "b", "c", "d", "e",
                                          "f", "g", "h", "i", "j", "k", "l", "m"};
static int model_known;
static int64_t model_rank;   /* of most values */
static bool model_functions; /* is there one, "F"? */

static inline const char *known_name(void) {
    int n = chance(97) && model_known ? model_known : (int)COUNT_OF(model_names);
    return chance(97) ? model_names[below(n)] : "";
}

static inline const char *new_name(void) {
    return model_known < (int)COUNT_OF(model_names) ? model_names[model_known++] : "m";
}

static inline uint64_t model_number(void) {
    return chance(85) ? (uint64_t)below(6) - 1 : odd_number();
}

/* A value's name, type and shape. */
static inline void model_info(bytes *b, int field, const char *name) {
    static const int types[] = {1, 7, 6, 9, 10, 11, 2, 3};
    size_t value = proto_begin(b, field);
    proto_string(b, 1, name);
    if (chance(90)) {
        size_t type = proto_begin(b, 2), inner = proto_begin(b, 1);
        proto_number(b, 1, (uint64_t)types[chance(70) ? 0 : below(COUNT_OF(types))]);
        if (chance(80)) {
            size_t shape = proto_begin(b, 2);
            for (int64_t n = chance(85) ? model_rank : below(5); n > 0; n--) {
                size_t dim = proto_begin(b, 1);
                if (chance(80))
                    proto_number(b, 1,
                                 chance(60)   ? 2
                                 : chance(95) ? (uint64_t)below(5)
                                              : odd_number());
                else
                    proto_string(b, 2, "n");
                proto_end(b, dim);
            }
            proto_end(b, shape);
        }
        proto_end(b, inner);
        proto_end(b, type);
    }
    proto_end(b, value);
}

/* Of axes, pads, or sizes of an image. */
static inline int64_t list_length(void) {
    const int64_t n[] = {model_rank, 2 * model_rank, model_rank - 2, 2 * model_rank - 4, below(5)};
    return n[below(5)];
}

/* Elements raw, or as numbers of the type's field. */
static inline void model_tensor(bytes *b, int field, const char *name) {
    static const int types[][3] = {{1, 32, 4}, {7, 64, 7},   {6, 32, 5}, {9, 8, 5},  {10, 16, 5},
                                   {2, 8, 5},  {11, 64, 10}, {22, 4, 5}, {17, 8, 5}, {14, 64, 4}};
    const int *type = types[chance(60) ? below(2) : below(COUNT_OF(types))];
    int64_t n = 1, how = below(10), rank = how < 3 ? 1 : how < 6 ? model_rank : below(3);
    size_t begun = proto_begin(b, field);
    if (how < 6) type = types[how < 3]; /* sizes, axes; data */
    for (int64_t i = 0; i < rank; i++) {
        const int64_t lists[] = {1, model_rank, 2 * model_rank, model_rank - 2};
        int64_t size = how < 3 ? lists[below(4)] : how < 6 ? 2 : below(4);
        size = size < 0 ? 0 : size;
        n *= size;
        proto_number(b, 1, chance(98) ? (uint64_t)size : odd_number());
    }
    proto_number(b, 2, (uint64_t)(chance(98) ? type[0] : below(30)));
    proto_string(b, 8, name);
    bool raw = chance(60);
    size_t at = proto_begin(b, raw ? 9 : type[2]);
    int64_t count = raw ? (n * type[1] + 7) / 8 : type[0] == 14 ? 2 * n : n;
    for (int64_t i = 0; i < count; i++) {
        bool low = i % (type[1] / 8 ? type[1] / 8 : 1) == 0;
        if (!raw && type[2] == 4)
            add_number(b, 0x3f800000, 4);
        else if (!raw && type[2] == 10)
            add_number(b, 0x3ff0000000000000, 8);
        else
            add_number(b, low ? (uint64_t)below(4) : 0, 1);
    }
    proto_end(b, at);
    if (!below(300)) {
        size_t entry = proto_begin(b, 13);
        proto_string(b, 1, "location");
        proto_string(b, 2, "../x");
        proto_end(b, entry);
        proto_number(b, 14, 1);
    }
    proto_end(b, begun);
}

static inline void model_graph(bytes *b, int field, int depth);

static const char *const attr_names[] = {"axis",
                                         "axes",
                                         "pads",
                                         "strides",
                                         "dilations",
                                         "kernel_shape",
                                         "group",
                                         "auto_pad",
                                         "mode",
                                         "to",
                                         "shape",
                                         "keepdims",
                                         "perm",
                                         "alpha",
                                         "beta",
                                         "epsilon",
                                         "p",
                                         "k",
                                         "value",
                                         "largest",
                                         "transA",
                                         "transB",
                                         "direction",
                                         "hidden_size",
                                         "num_heads",
                                         "split",
                                         "num_outputs",
                                         "equation",
                                         "reduction",
                                         "batch_dims",
                                         "value_ints",
                                         "dtype",
                                         "allowzero",
                                         "scale",
                                         "starts",
                                         "ends",
                                         "ceil_mode",
                                         "output_padding",
                                         "num_scan_inputs",
                                         "blocksize",
                                         "sample_size",
                                         "seed",
                                         "k_value",
                                         "kv_num_heads",
                                         "q_num_heads",
                                         "stash_type"};
static const char *const attr_texts[] = {"SAME_UPPER", "VALID",   "linear", "nearest", "ij,jk->ik",
                                         "reverse",    "reflect", "edge",   "add",     "i...->..."};

static inline void model_attr(bytes *b, int depth) {
    size_t attr = proto_begin(b, 5);
    proto_string(b, 1, attr_names[below(COUNT_OF(attr_names))]);
    switch (below(depth > 1 ? 5 : 7)) {
    case 0:
        proto_tag(b, 2, WIRE_FIXED32);
        add_number(b, chance(70) ? 0x3f000000 : test_rand(&rng), 4);
        break;
    case 1:
    case 2:
        proto_number(b, 3, model_number());
        break;
    case 3:
        proto_string(b, 4, attr_texts[below(COUNT_OF(attr_texts))]);
        break;
    case 4:
        for (int64_t n = list_length(); n > 0; n--)
            proto_number(b, 8, chance(60) ? 1 + (uint64_t)below(2) : model_number());
        break;
    default:
        model_tensor(b, 5, "v");
        break;
    }
    if (chance(50)) proto_number(b, 20, (uint64_t)below(12));
    proto_end(b, attr);
}

static inline void model_body(bytes *b, const char *name, int depth) {
    size_t attr = proto_begin(b, 5);
    proto_string(b, 1, name);
    model_graph(b, 6, depth + 1);
    proto_end(b, attr);
}

static inline void model_node(bytes *b, int field, int depth) {
    const onnx_row *row = &onnx_rows[below(onnx_row_count)];
    size_t node = proto_begin(b, field);
    for (int64_t n = row->least + below(3) * below(2); n > 0; n--) proto_string(b, 1, known_name());
    proto_string(b, 4, below(model_functions ? 4 : 200) ? row->name : "F");
    if (*row->domain) proto_string(b, 7, row->domain);
    for (int64_t n = below(3); n > 0; n--) model_attr(b, depth);
    if (row->control && depth < 2) {
        static const char *const names[] = {"body", "then_branch", "else_branch", "score_mod"};
        for (int i = 0; i < 4; i++)
            if (chance(60)) model_body(b, names[i], depth);
    }
    for (int64_t n = 1 + below(2) * below(3); n > 0; n--) proto_string(b, 2, new_name());
    proto_end(b, node);
}

/* Its nodes see what the graph around has, too. */
static inline void model_graph(bytes *b, int field, int depth) {
    size_t whole = proto_begin(b, field);
    int outside = model_known;
    for (int64_t n = below(4); n > 0; n--) model_info(b, 11, new_name());
    for (int64_t n = below(3); n > 0; n--) model_tensor(b, 5, new_name());
    for (int64_t n = 1 + below(depth ? 2 : 4); n > 0; n--) model_node(b, 1, depth);
    for (int64_t n = below(3); n > 0; n--)
        model_info(b, 12, model_known && chance(80) ? model_names[model_known - 1] : known_name());
    model_known = outside;
    proto_end(b, whole);
}

static inline void some_onnx(bytes *b) {
    model_known = 0;
    model_rank = below(5);
    model_functions = chance(10);
    proto_number(b, 1, 8);
    model_graph(b, 7, 0);
    size_t opset = proto_begin(b, 8);
    proto_number(b, 2, chance(60) ? 18 : 1 + (uint64_t)below(24));
    proto_end(b, opset);
    if (model_functions) {
        size_t function = proto_begin(b, 25);
        proto_string(b, 1, "F");
        proto_string(b, 4, "x");
        proto_string(b, 5, "y");
        model_node(b, 7, 1);
        proto_end(b, function);
    }
    if (chance(50)) damage(b, 3);
}

#endif
