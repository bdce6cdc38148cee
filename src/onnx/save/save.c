/* save.c - qn_onnx_save: what is to be written, the way through its nodes, and elementwise rows.
 *
 * The graph is that of a static graph: values that follow the inputs are expressions again, also
 * where they were computed, and all other memory is a parameter (run/static/reopen.c). */
#include "onnx/save/save.h"

#include "graph/view/view.h"
#include "run/run.h"

#include <stdio.h>

/* ---- rows ------------------------------------------------------------------------------------ */

const save_row save_rows[OP_COUNT] = {
#define X(NAME, write, types, real, whole, natural, truth)                                         \
    [OP_##NAME] = {save_##write, types, real, whole, natural, truth},
#include "onnx/save/rows.h"
#undef X
};

/* Wider ones in turn; u64 fits in i64, where bits are all that counts. */
qn_dtype save_wide(const saving *s, uint32_t types, qn_dtype dtype) {
    static const qn_dtype floats[] = {QN_F32, QN_F64}, ints[] = {QN_I32, QN_I64};
    if (types >> dtype & 1) return dtype;
    for (int i = 0; i < 2; i++) {
        qn_dtype to = dtype_is_float(dtype) ? floats[i] : ints[i];
        bool wider = to == QN_I64 || qn_dtype_size(to) > qn_dtype_size(dtype);
        if (wider && types >> to & 1) return to;
    }
    save_refuse(s, QN_EDTYPE, "there is no way to write it of %s", qn_dtype_name(dtype));
}

void save_none(saving *s, const graph_node *x) {
    (void)x;
    save_refuse(s, QN_EGRAPH, "ONNX has no form for it that is written");
}

static bool is_zero(const saving *s, node_id n) {
    const graph_node *x = node_at(s->g, n);
    return x->op == OP_CONST && x->bits == 0;
}

/* where(x <= 0, 0, x), as it is recorded, of a dtype that Relu takes. */
static bool save_relu(saving *s, const graph_node *x) {
    if (x->op != OP_WHERE || !is_zero(s, x->src[1])) return false;
    if (x->dtype != QN_F32 && x->dtype != QN_F16 && x->dtype != QN_F64) return false;
    const graph_node *test = node_at(s->g, x->src[0]);
    if (node_is_memory(test) || test->op != OP_LE || test->src[0] != x->src[2] ||
        !is_zero(s, test->src[1]))
        return false;
    val v = slim_of(s, x->src[2]);
    save_done(s, spell(s, QN_F32, 1, &v, "Relu(x)"));
    return true;
}

void save_elem(saving *s, const graph_node *x) {
    if (save_relu(s, x)) return;
    const save_row *row = &save_rows[x->op];
    const graph_node *last = node_at(s->g, x->src[x->sources - 1]);
    qn_dtype of = (qn_dtype)last->dtype, to = (qn_dtype)x->dtype;
    qn_dtype in = of == QN_BOOL && row->truth ? of : save_wide(s, row->types, of);
    const char *text = dtype_is_float(in)             ? row->real
                       : in == QN_BOOL && row->truth  ? row->truth
                       : in == QN_U64 && row->natural ? row->natural
                                                      : row->whole;
    val v[3];
    if (!text) save_none(s, x);
    for (int i = 0; i < x->sources; i++) {
        bool condition = x->op == OP_WHERE && i == 0;
        v[i] = slim_of(s, x->src[i]);
        if (!condition) v[i] = save_cast(s, v[i], of, in);
    }
    val out = spell(s, in, x->sources, v, "%s", text);
    bool compared = op_rows[x->op].types == TYPES_CMP;
    save_done(s, compared ? out : save_cast(s, out, in, to));
}

void save_to(saving *s, const graph_node *x) {
    qn_dtype from = (qn_dtype)node_at(s->g, x->src[0])->dtype;
    save_done(s, save_cast(s, slim_of(s, x->src[0]), from, (qn_dtype)x->dtype));
}

/* Between integers a cast keeps the bits. */
void save_bits(saving *s, const graph_node *x) {
    qn_dtype from = (qn_dtype)node_at(s->g, x->src[0])->dtype, to = (qn_dtype)x->dtype;
    val v = slim_of(s, x->src[0]);
    if (!dtype_is_float(from) && !dtype_is_float(to)) {
        save_done(s, save_cast(s, v, from, to));
        return;
    }
    s->opset = SAVE_OPSET_BITCAST;
    save_done(s, spell(s, to, 1, &v, "BitCast[to=%d](x)", onnx_type_like(to)));
}

/* ---- leaves and marks ------------------------------------------------------------------------ */

void save_const(saving *s, const graph_node *x) {
    save_done(s, save_scalar(s, (qn_dtype)x->dtype, x->bits));
}

void save_iota(saving *s, const graph_node *x) {
    int rank, count, axis = (int)graph_tuple_get(s->g, x->attr, &count)[0];
    const int64_t *dim = graph_tuple_get(s->g, x->shape, &rank);
    int64_t shape[QN_MAX_RANK];
    qn_dtype dtype = (qn_dtype)x->dtype, in = save_wide(s, save_rows[OP_IOTA].types, dtype);
    for (int i = 0; i < rank; i++) shape[i] = i == axis ? dim[i] : SYM_ONE;
    val n = save_cast(s, save_sizes(s, 1, &dim[axis]), QN_I64, in), none = save_ints(s, 0, NULL);
    val v = spell(s, in, 2, (val[]){n, none}, "Range(0,Reshape(x,y),1)");
    save_done(s, save_cast(s, save_reshape(s, v, rank, shape), in, dtype));
}

void save_mark(saving *s, const graph_node *x) {
    save_done(s, slim_of(s, x->src[0]));
}

/* ---- forms ----------------------------------------------------------------------------------- */

save_node *node_of(const saving *s, node_id n) {
    return &s->in->node[s->in->place[n]];
}

val slim_of(saving *s, node_id n) {
    save_node *x = node_of(s, n);
    if (s->marking) x->needed = true;
    return x->slim;
}

val full_of(saving *s, node_id n) {
    save_node *x = node_of(s, n);
    int rank;
    const int64_t *dim = node_dims(s->g, n, &rank);
    val v = slim_of(s, n);
    if (!x->repeated && !x->scalar) return v;
    if (!x->full || s->marking) {
        qn_dtype dtype = (qn_dtype)node_at(s->g, n)->dtype;
        qn_dtype in = save_wide(s, save_rows[OP_EXPAND].types, dtype);
        const val of[2] = {save_cast(s, v, dtype, in), save_sizes(s, rank, dim)};
        x->full = save_cast(s, spell(s, in, 2, of, "Expand(x,y)"), in, dtype);
    }
    return x->full;
}

void save_done(saving *s, val v) {
    save_node *x = node_of(s, s->current);
    x->slim = v;
    if (!x->repeated && !x->scalar) val_shape(s, v, node_at(s->g, s->current)->shape);
}

static uint32_t all_axes(int rank) {
    return (1u << rank) - 1;
}

/* Along which axes is a node's slim form of size 1? Only what save_elem and its like write has one.
 */
static void find_repeated(saving *s, node_id n) {
    const graph_node *x = node_at(s->g, n);
    save_node *out = node_of(s, n);
    int rank, op = x->op, from, count;
    const int64_t *dim = node_dims(s->g, n, &rank);
    if (op == OP_CONST) {
        *out = (save_node){.repeated = all_axes(rank), .scalar = rank > 0};
    } else if (op == OP_IOTA) {
        int axis = (int)graph_tuple_get(s->g, x->attr, &count)[0];
        out->repeated = all_axes(rank) & ~(1u << axis);
    } else if (!node_is_memory(x) && (op_rows[op].class_ == CLASS_ELEM ||
                                      op_rows[op].class_ == CLASS_MARK || op == OP_EXPAND)) {
        out->repeated = all_axes(rank);
        out->scalar = true;
        for (int i = 0; i < x->sources; i++) {
            out->repeated &= node_of(s, x->src[i])->repeated;
            out->scalar &= node_of(s, x->src[i])->scalar;
        }
        const int64_t *was = node_dims(s->g, x->src[0], &from);
        for (int d = 0; op == OP_EXPAND && d < rank; d++)
            if (was[d] == SYM_ONE && dim[d] != SYM_ONE) out->repeated |= 1u << d;
        /* A scalar's axes of size 1 are not there, so it is never what it looks like. */
        if (out->scalar) out->repeated = all_axes(rank);
    }
}

/* ---- parameters ------------------------------------------------------------------------------ */

static bool is_number(const char *text) {
    return strspn(text, "0123456789") == strlen(text);
}

static bool is_taken(const saving *s, const char *name) {
    size_t n = s->prefix ? strlen(s->prefix) : 0;
    if (n && !strncmp(name, s->prefix, n) && is_number(name + n)) return true;
    for (uint32_t v = 1; v <= s->values; v++)
        if (s->value[v].name && !strcmp(s->value[v].name, name)) return true;
    return false;
}

/* As its tensor is called, where it is, and nothing else is. */
static const char *parameter_name(saving *s, node_id n) {
    const tensor *t = graph_handle_of(s->g, n);
    const char *given = t ? qn_name(handle_name(&t->h)) : NULL;
    if (!given || !*given) given = "parameter";
    const char *name = arena_printf(&s->a, "%s", given);
    for (int k = 1; is_taken(s, name); k++) name = arena_printf(&s->a, "%s_%d", given, k);
    return name;
}

static void add_parameter(saving *s, node_id n) {
    const graph_node *x = node_at(s->g, n);
    int rank;
    const int64_t *dim = node_dims(s->g, n, &rank);
    if (node_follows(x) && !s->o.bound)
        save_refuse(s, QN_EGRAPH, "it was computed of sizes that vary; record it again");
    int64_t *size = arena_alloc(&s->a, ((size_t)rank + 1) * sizeof *size);
    size_t bytes;
    for (int i = 0; i < rank; i++) size[i] = shape_bound(s->g, (sym)dim[i]);
    if (!checked_bytes(rank, size, qn_dtype_size((qn_dtype)x->dtype), &bytes))
        save_refuse(s, QN_ERANGE, "too many elements");
    const char *name = parameter_name(s, n);
    val v = val_new(s, name);
    if (s->inits == s->inits_cap)
        s->init = arena_grow(&s->a, s->init, &s->inits_cap, s->inits + 1, sizeof *s->init);
    s->init[s->inits++] = (save_init){.name = name,
                                      .dtype = (qn_dtype)x->dtype,
                                      .rank = rank,
                                      .dim = size,
                                      .bytes = bytes,
                                      .buffer = x->buffer};
    val_shape(s, v, x->shape);
    node_of(s, n)->slim = v;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void write_node(saving *s, node_id n) {
    const graph_node *x = node_at(s->g, n);
    const save_node *of = node_of(s, n);
    if (!of->needed || of->slim || (node_is_memory(x) && x->op != OP_CONST && x->op != OP_IOTA))
        return;
    s->current = n;
    save_rows[x->op].write(s, x);
    if (s->marking) node_of(s, n)->slim = 0;
}

/* Inputs are values 1 to n_in, outputs those behind. */
static void name_ends(saving *s) {
    for (int i = 0; i < s->n_in + s->n_out; i++) {
        bool in = i < s->n_in;
        int k = in ? i : i - s->n_in;
        const char *const *given = in ? s->o.input_names : s->o.output_names;
        const char *name = given ? given[k] : NULL;
        if (!name) name = arena_printf(&s->a, in ? "input_%d" : "output_%d", k);
        if (!*name || !json_utf8(name, strlen(name)))
            raise_error(s->qn, QN_EARG, "onnx_save: the name of %s %d is empty or no UTF-8",
                        in ? "input" : "output", k);
        if (is_taken(s, name))
            raise_error(s->qn, QN_EARG, "onnx_save: two inputs or outputs are called \"%.80s\"",
                        name);
        (void)val_new(s, arena_printf(&s->a, "%s", name));
        if (in) val_shape(s, 1 + (val)i, node_at(s->g, tensor_at(s->input[i])->node)->shape);
    }
}

/* A letter in front of the numbers that values are named by, which no name begins with. */
static void choose_prefix(saving *s) {
    static const char prefix[] = "v____________";
    for (size_t n = 1; n < sizeof prefix; n++) {
        bool taken = false;
        for (uint32_t v = 1; v <= s->values; v++) {
            const char *name = s->value[v].name ? s->value[v].name : "";
            taken |= !strncmp(name, prefix, n) && is_number(name + n);
        }
        s->prefix = arena_printf(&s->a, "%.*s", (int)n, prefix);
        if (!taken) return;
    }
}

/* Only those that something written uses. */
static void add_parameters(saving *s) {
    const save_scope *in = s->in;
    for (uint32_t i = 0; i < in->nodes; i++) {
        const graph_node *x = node_at(s->g, in->order[i]);
        bool computed = x->op == OP_CONST || x->op == OP_IOTA || !node_is_memory(x);
        if (computed || in->node[i].slim || !in->node[i].needed) continue;
        s->current = in->order[i];
        if (x->op == OP_ARGUMENT)
            save_refuse(s, QN_EGRAPH, "an output uses a value of a loop's body");
        add_parameter(s, in->order[i]);
    }
}

void save_open_scope(saving *s, uint32_t roots, const node_id *root) {
    save_scope *in = s->in;
    in->nodes = graph_order(s->g, &s->a, (int)roots, root, &in->order);
    in->node = arena_zeroed(&s->a, (in->nodes + 1) * sizeof *in->node);
    in->place = arena_alloc(&s->a, (s->g->nodes + 1) * sizeof *in->place);
    for (uint32_t i = 0; i < in->nodes; i++) {
        in->place[in->order[i]] = i;
        s->current = in->order[i];
        find_repeated(s, in->order[i]);
    }
}

void save_mark_scope(saving *s, uint32_t roots, const node_id *root) {
    save_scope *in = s->in;
    s->marking = true;
    for (uint32_t i = 0; i < roots; i++) (void)full_of(s, root[i]);
    for (uint32_t i = in->nodes; i-- > 0;) write_node(s, in->order[i]);
    s->marking = false;
    for (uint32_t i = 0; i < in->nodes; i++) in->node[i].full = 0;
    add_parameters(s);
}

void save_write_scope(saving *s) {
    for (uint32_t i = 0; i < s->in->nodes; i++) write_node(s, s->in->order[i]);
}

static void write_graph(saving *s, const node_id *root) {
    save_scope whole = {0};
    s->in = &whole;
    s->out = &s->text;
    save_open_scope(s, (uint32_t)s->n_out, root);
    name_ends(s);
    for (int i = 0; i < s->n_in; i++) {
        node_id n = tensor_at(s->input[i])->node;
        for (uint32_t k = 0; k < whole.nodes; k++)
            if (whole.order[k] == n) whole.node[k].slim = 1 + (val)i;
    }
    save_mark_scope(s, (uint32_t)s->n_out, root);
    choose_prefix(s);
    save_write_scope(s);
    for (int i = 0; i < s->n_out; i++) {
        val from = full_of(s, root[i]);
        wire_node(s, "Identity", 1, &from, 1, 1 + (val)(s->n_in + i));
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct save_call_state {
    saving s;
    reopened reopened;
} save_call_state;

static void close_again(void *of) {
    save_call_state *c = of;
    reopen_end(&c->reopened, c->s.g);
    file_abandon(&c->s.file);
    file_abandon(&c->s.data);
    idset_free(&c->s.constants);
    str_free(&c->s.text);
    arena_free(&c->s.a);
}

static void save_work(void *arg) {
    save_call_state *c = arg;
    saving *s = &c->s;
    cleanup undo;
    cleanup_push(&s->qn->heap, &undo, close_again, c);
    const static_lists lists = {.call = "onnx_save",
                                .n_in = s->n_in,
                                .n_out = s->n_out,
                                .inputs = s->input,
                                .outputs = s->output,
                                .no_assignments = true,
                                .sizes_vary = !s->o.bound};
    realize_initial(s->qn);
    if (s->g->pending_count) realize_nodes(s->qn, 0, NULL);
    for (int i = 0; i < s->n_in; i++) realize_given_up(s->qn, tensor_at(s->input[i])->node);
    for (int i = 0; i < s->n_out; i++) realize_given_up(s->qn, tensor_at(s->output[i])->node);
    reopen_inputs(&c->reopened, s->qn, &s->a, &lists);
    node_id *root = arena_alloc(&s->a, (size_t)(s->n_out + 1) * sizeof *root);
    for (int i = 0; i < s->n_out; i++) root[i] = tensor_at(s->output[i])->node;
    write_graph(s, root);
    wire_file(s);
    cleanup_run(&s->qn->heap, &undo);
}

static bool are_real(qn_ctx *qn, const char *what, int n, qn_tensor *const *t) {
    for (int i = 0; i < n; i++)
        if (handle_is(t[i], HANDLE_COMPLEX))
            return fail(qn, QN_EDTYPE, "onnx_save: %s %d is complex; write its parts (qn_as_real)",
                        what, i),
                   false;
    return tensors_of(qn, n, t, "onnx_save", what);
}

qn_code qn_onnx_save(const char *path, int n_in, qn_tensor *const *inputs, int n_out,
                     qn_tensor *const *outputs, const qn_onnx_save_options *options) {
    qn_onnx_save_options o = QN_ONNX_SAVE_OPTIONS();
    if (n_out < 1) return QN_EARG;
    if (!outputs) return QN_ENULL;
    const tensor *first = tensor_any(NULL, outputs[0], "onnx_save", "output");
    if (!first) return handle_code(outputs[0]);
    qn_ctx *qn = first->h.ctx;
    if (n_in < 0) return fail(qn, QN_EARG, "onnx_save: %d inputs", n_in);
    if (!path || (n_in && !inputs))
        return fail(qn, QN_ENULL, "onnx_save: no %s", path ? "inputs" : "path");
    if (!are_real(qn, "input", n_in, inputs) || !are_real(qn, "output", n_out, outputs))
        return qn_error_code(qn);
    if (!struct_take(qn, "onnx_save", "qn_onnx_save_options", &o, sizeof o, options))
        return qn_error_code(qn);
    const run_state *r = qn->run;
    if (!r->dev->executes)
        return fail(qn, QN_EDEVICE, "onnx_save: device %s computes nothing", r->dev->name);
    const file_writer none = {.ctx = qn, .path = path, .to = {.folder = -1, .file = -1}};
    save_call_state c = {.s = {.qn = qn,
                               .g = qn->graph,
                               .path = path,
                               .o = o,
                               .n_in = n_in,
                               .n_out = n_out,
                               .input = inputs,
                               .output = outputs,
                               .opset = SAVE_OPSET,
                               .file = none,
                               .data = none}};
    arena_open(&c.s.a, &qn->heap);
    str_open(&c.s.text, &qn->heap);
    idset_open(&c.s.constants, &qn->heap);
    return guarded(qn, save_work, &c);
}
