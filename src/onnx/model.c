/* model.c - a model's messages into structs: graphs, nodes, attributes, tensors, functions.
 *
 * One function for each message of onnx.proto, a case for each field that matters; unknown fields
 * are passed over, as protocol buffers want it. All structs lie in the model's arena; elements of
 * tensors stay where they are in the bytes until somebody wants them (tensor.c). Graphs stand in
 * attributes of nodes of graphs: how deep is bounded, for a file says how deep we recurse. */
#include "onnx/onnx.h"

#define APPEND(m, list, n, cap)                                                                    \
    (list = arena_grow(&(m)->a, list, &(cap), (n) + 1, sizeof *(list)),                            \
     memset(&(list)[n], 0, sizeof *(list)), &(list)[(n)++])

static void deeper(const proto *p) {
    if (++p->model->depth > ONNX_DEPTH) proto_bad(p, "graphs in graphs, too deep");
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool all_digits(const char *s) {
    size_t n = strspn(s, "0123456789");
    return n && n < 19 && !s[n];
}

static int64_t digits(const proto *p, const char *s) {
    int64_t v = 0;
    if (!all_digits(s)) proto_bad(p, "a place in another file that is no number");
    for (; *s; s++) v = v * 10 + (*s - '0');
    return v;
}

/* An entry of external_data: a key and a value, both texts. */
static void read_external(onnx_tensor *t, const proto *message) {
    proto p = *message;
    proto_field f;
    const char *key = "", *value = "";
    while (proto_next(&p, &f)) {
        if (f.number == 1) key = proto_text(&f);
        if (f.number == 2) value = proto_text(&f);
    }
    if (!strcmp(key, "location")) t->location = value;
    if (!strcmp(key, "offset")) t->offset = digits(message, value);
    if (!strcmp(key, "length")) t->length = digits(message, value);
}

static void read_dims(onnx_tensor *t, const proto_field *f) {
    int64_t *dims = NULL;
    uint32_t n = 0, cap = 0;
    proto_ints(f, &dims, &n, &cap);
    for (uint32_t i = 0; i < n; i++) {
        if (t->rank == QN_MAX_RANK) proto_bad(&f->bytes, "a tensor of more than 12 axes");
        if (dims[i] < 0) proto_bad(&f->bytes, "a tensor's size below 0");
        t->shape[t->rank++] = dims[i];
    }
}

static void read_tensor(onnx_tensor *t, const proto *message) {
    proto p = *message;
    proto_field f;
    bool elsewhere = false;
    *t = (onnx_tensor){.name = "", .message = *message, .length = -1};
    while (proto_next(&p, &f)) switch (f.number) {
        case 1:
            read_dims(t, &f);
            break;
        case 2:
            t->type = (int)(proto_int(&f) & 0xffff);
            break;
        case 3:
            proto_bad(&f.bytes, "a tensor in segments");
            break;
        case 8:
            t->name = proto_text(&f);
            break;
        case 13:
            read_external(t, proto_message(&f));
            break;
        case 14:
            elsewhere = proto_int(&f) == 1;
            break;
        default:
            break;
        }
    if (!elsewhere) t->location = NULL;
    if (elsewhere && !t->location) proto_bad(message, "a tensor in a file without a name");
}

/* ---- types ----------------------------------------------------------------------------------- */

static void read_dim(onnx_info *v, const proto *message) {
    proto p = *message;
    proto_field f;
    if (v->rank == QN_MAX_RANK) proto_bad(message, "a value of more than 12 axes");
    int i = v->rank++;
    v->shape[i] = -1;
    while (proto_next(&p, &f)) {
        if (f.number == 1) v->shape[i] = proto_int(&f) < 0 ? -1 : proto_int(&f);
        if (f.number == 2) v->dim_name[i] = proto_text(&f);
    }
}

static void read_shape(onnx_info *v, const proto *message) {
    proto p = *message;
    proto_field f;
    v->rank = 0;
    while (proto_next(&p, &f))
        if (f.number == 1) read_dim(v, proto_message(&f));
}

/* Type.Tensor; `type` of sequences and the like stays 0. */
static void read_type(onnx_info *v, const proto *message) {
    proto p = *message, tensor;
    proto_field f;
    while (proto_next(&p, &f)) {
        if (f.number != 1) continue;
        tensor = *proto_message(&f);
        while (proto_next(&tensor, &f)) {
            if (f.number == 1) v->type = (int)(proto_int(&f) & 0xffff);
            if (f.number == 2) read_shape(v, proto_message(&f));
        }
    }
}

static void read_info(onnx_info *v, const proto *message) {
    proto p = *message;
    proto_field f;
    *v = (onnx_info){.name = "", .rank = -1};
    while (proto_next(&p, &f)) {
        if (f.number == 1) v->name = proto_text(&f);
        if (f.number == 2) read_type(v, proto_message(&f));
    }
}

/* ---- nodes and graphs ------------------------------------------------------------------------ */

static void read_graph(onnx_graph *g, const proto *message);

static void read_attr(onnx_attr *at, const proto *message) {
    onnx_model *m = message->model;
    proto p = *message;
    proto_field f;
    at->name = "";
    while (proto_next(&p, &f)) switch (f.number) {
        case 1:
            at->name = proto_text(&f);
            break;
        case 2:
            at->f = proto_float(&f);
            break;
        case 3:
            at->i = proto_int(&f);
            break;
        case 4:
            at->text = proto_text(&f);
            break;
        case 5:
            at->tensor = arena_zeroed(&m->a, sizeof *at->tensor);
            read_tensor(at->tensor, proto_message(&f));
            break;
        case 6:
            at->graph = arena_zeroed(&m->a, sizeof *at->graph);
            read_graph(at->graph, proto_message(&f));
            break;
        case 7:
            proto_floats(&f, &at->floats, &at->n_floats, &at->cap_floats);
            break;
        case 8:
            proto_ints(&f, &at->ints, &at->n_ints, &at->cap_ints);
            break;
        case 9:
            *APPEND(m, at->texts, at->n_texts, at->cap_texts) = proto_text(&f);
            break;
        case 21:
            at->refers = proto_text(&f);
            break;
        default:
            break;
        }
}

static void read_node(onnx_node *n, const proto *message) {
    onnx_model *m = message->model;
    proto p = *message;
    proto_field f;
    n->name = n->op = n->domain = "";
    while (proto_next(&p, &f)) switch (f.number) {
        case 1:
            *APPEND(m, n->input, n->n_in, n->cap_in) = proto_text(&f);
            break;
        case 2:
            *APPEND(m, n->output, n->n_out, n->cap_out) = proto_text(&f);
            break;
        case 3:
            n->name = proto_text(&f);
            break;
        case 4:
            n->op = proto_text(&f);
            break;
        case 5:
            read_attr(APPEND(m, n->attr, n->n_attr, n->cap_attr), proto_message(&f));
            break;
        case 7:
            n->domain = proto_text(&f);
            break;
        default:
            break;
        }
    if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
}

static void read_graph(onnx_graph *g, const proto *message) {
    onnx_model *m = message->model;
    proto p = *message;
    proto_field f;
    deeper(message);
    while (proto_next(&p, &f)) switch (f.number) {
        case 1:
            read_node(APPEND(m, g->node, g->n_node, g->cap_node), proto_message(&f));
            break;
        case 5:
            read_tensor(APPEND(m, g->init, g->n_init, g->cap_init), proto_message(&f));
            break;
        case 11:
            read_info(APPEND(m, g->input, g->n_in, g->cap_in), proto_message(&f));
            break;
        case 12:
            read_info(APPEND(m, g->output, g->n_out, g->cap_out), proto_message(&f));
            break;
        case 15:
            g->sparse = true;
            break;
        default:
            break;
        }
    m->depth--;
}

/* ---- models ---------------------------------------------------------------------------------- */

static void read_opset(onnx_opset *o, const proto *message) {
    proto p = *message;
    proto_field f;
    o->domain = "";
    while (proto_next(&p, &f)) {
        if (f.number == 1) o->domain = proto_text(&f);
        if (f.number == 2) o->version = proto_int(&f);
    }
    if (!strcmp(o->domain, "ai.onnx")) o->domain = "";
}

static void named(onnx_info *v, const proto_field *f) {
    *v = (onnx_info){.name = proto_text(f), .rank = -1};
}

static void read_function(onnx_function *fn, const proto *message) {
    onnx_model *m = message->model;
    onnx_graph *g = &fn->body;
    proto p = *message;
    proto_field f;
    fn->name = fn->domain = "";
    while (proto_next(&p, &f)) switch (f.number) {
        case 1:
            fn->name = proto_text(&f);
            break;
        case 4:
            named(APPEND(m, g->input, g->n_in, g->cap_in), &f);
            break;
        case 5:
            named(APPEND(m, g->output, g->n_out, g->cap_out), &f);
            break;
        case 7:
            read_node(APPEND(m, g->node, g->n_node, g->cap_node), proto_message(&f));
            break;
        case 9:
            read_opset(APPEND(m, fn->opset, fn->n_opset, fn->cap_opset), proto_message(&f));
            break;
        case 10:
            fn->domain = proto_text(&f);
            break;
        case 11:
            read_attr(APPEND(m, fn->attr, fn->n_attr, fn->cap_attr), proto_message(&f));
            break;
        default:
            break;
        }
}

void onnx_read(onnx_model *m) {
    proto p = {m->bytes, m->bytes + m->size, m}, whole = p;
    proto_field f;
    bool graph = false;
    while (proto_next(&p, &f)) switch (f.number) {
        case 7:
            m->graph = (onnx_graph){0};
            read_graph(&m->graph, proto_message(&f));
            graph = true;
            break;
        case 8:
            read_opset(APPEND(m, m->opset, m->n_opset, m->cap_opset), proto_message(&f));
            break;
        case 25:
            read_function(APPEND(m, m->function, m->n_function, m->cap_function),
                          proto_message(&f));
            break;
        default:
            break;
        }
    if (!graph) proto_bad(&whole, "no graph in it: not an ONNX model");
}
