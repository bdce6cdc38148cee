/* run.c - a graph's nodes in their order, each recorded by the function of its operator.
 *
 * Names are found in frames: a graph has one, and sees those of the graphs around it; the body of
 * a function sees nothing but its arguments. A node all of whose inputs are known is recorded
 * aside, on the oracle device: shapes are made of shapes there without a kernel, and whoever needs
 * numbers, as a reshape does, reads them. What becomes large is recorded again among the rest. */
#include "onnx/onnx.h"

#include <stdio.h>

/* ---- errors ---------------------------------------------------------------------------------- */

void op_fail(const onnx_op *o, qn_code code, const char *fmt, ...) {
    qn_ctx *qn = o->run->model->ctx;
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    qn_clear_error(qn);
    raise_error(qn, code, "%s: node \"%.80s\" (%s%s%.60s, opset %d): %s", o->run->model->path,
                o->node->name, o->node->domain, *o->node->domain ? "." : "", o->node->op,
                o->version, text);
}

/* With the error that a call has left in the context where the node is recorded. */
QN_NORETURN static void op_failed(const onnx_op *o, const char *otherwise) {
    char text[600];
    qn_code code = qn_error_code(o->qn);
    snprintf(text, sizeof text, "%s", code == QN_OK ? otherwise : qn_error(o->qn));
    qn_clear_error(o->qn);
    op_fail(o, code == QN_OK ? QN_EARG : code, "%s", text);
}

/* ---- values ---------------------------------------------------------------------------------- */

onnx_value *value_new(onnx_run *r, const char *name, qn_tensor *t, int type, bool known) {
    onnx_value *v = arena_zeroed(&r->a, sizeof *v);
    *v = (onnx_value){
        .name = name, .t = t, .type = type, .known = known, .follows = known ? 0 : r->follows};
    return v;
}

static size_t bytes_of(qn_tensor *t) {
    return (size_t)qn_numel(t) * qn_dtype_size(qn_dtype_of(t));
}

/* The errors of reading in another context become the model's. */
static void *read_all(onnx_run *r, qn_tensor *t) {
    qn_ctx *qn = r->model->ctx, *of = qn_context(t);
    size_t size = bytes_of(t);
    void *data = arena_alloc(&r->a, size + 1);
    if (qn_read(t, data, size) == QN_OK) return data;
    char text[600];
    qn_code code = qn_error_code(of);
    snprintf(text, sizeof text, "%s", qn_error(of));
    qn_clear_error(of);
    raise_error(qn, code, "%s", text);
}

static int64_t *sizes_of(onnx_run *r, qn_tensor *t, int *rank) {
    *rank = t ? qn_rank(t) : 0;
    int64_t *dims = arena_zeroed(&r->a, QN_MAX_RANK * sizeof *dims);
    for (int i = 0; i < *rank; i++) dims[i] = qn_dim(t, i);
    return dims;
}

qn_tensor *data_kept(onnx_model *m, qn_tensor *t) {
    if (!t || qn_context(t) != m->ctx) return t;
    m->data = heap_grow(&m->ctx->heap, m->data, &m->cap_data, m->n_data + 1, sizeof *m->data);
    return m->data[m->n_data++] = qn_keep(t);
}

qn_tensor *value_main(onnx_run *r, onnx_value *v) {
    if (!v || !v->known || !v->t) return v ? v->t : NULL;
    if (v->copy) return v->copy;
    int rank;
    const int64_t *dims = sizes_of(r, v->t, &rank);
    v->copy = qn_from(r->model->ctx, qn_dtype_of(v->t), rank, dims, read_all(r, v->t));
    if (!v->copy) heap_unwind(&r->model->ctx->heap);
    return data_kept(r->model, v->copy);
}

onnx_value *value_of_tensor(onnx_run *r, const onnx_tensor *t) {
    onnx_model *m = r->model;
    void *data = onnx_elements(m, t, &r->a);
    bool small = onnx_numel(m, t) <= ONNX_KNOWN_MOST;
    qn_ctx *qn = small ? m->aside : m->ctx;
    qn_tensor *made = qn_from(qn, onnx_types[t->type].carrier, t->rank, t->shape, data);
    if (!made) {
        char text[600];
        qn_code code = qn_error_code(qn);
        snprintf(text, sizeof text, "%s", qn_error(qn));
        qn_clear_error(qn);
        raise_error(m->ctx, code ? code : QN_ENOMEM, "%s: tensor \"%.80s\": %s", m->path, t->name,
                    text);
    }
    data_kept(m, made);
    onnx_value *v = value_new(r, t->name, made, t->type, small);
    v->follows = 0;
    return v;
}

/* A tensor of an initializer: where its elements lie in the model's bytes, or a copy. NULL, and
 * reported. */
static qn_tensor *make_weight(onnx_model *m, onnx_tensor *t) {
    const void *lies = onnx_lying(m, t);
    if (lies) {
        qn_lender lender = QN_LENDER(.give_back = onnx_let_go, .owner = m->held);
        m->held->users++; /* given back at once where it is copied after all */
        qn_tensor *made =
            qn_borrow(m->ctx, onnx_types[t->type].carrier, t->rank, t->shape, lies, &lender);
        if (!made) m->held->users--;
        return made;
    }
    arena mine;
    cleanup c;
    arena_open(&mine, &m->ctx->heap);
    cleanup_push(&m->ctx->heap, &c, arena_cleanup, &mine);
    void *data = onnx_elements(m, t, &mine);
    qn_tensor *made = qn_from(m->ctx, onnx_types[t->type].carrier, t->rank, t->shape, data);
    cleanup_run(&m->ctx->heap, &c);
    return made;
}

/* Initializer i of the outermost graph: a large one is made once and stays with the model. */
static onnx_value *value_of_weight(onnx_run *r, uint32_t i) {
    onnx_model *m = r->model;
    onnx_tensor *t = &m->graph.init[i];
    if (!m->weight[i]) {
        if (onnx_numel(m, t) <= ONNX_KNOWN_MOST) return value_of_tensor(r, t);
        qn_tensor *made = make_weight(m, t);
        if (!made) heap_unwind(&m->ctx->heap);
        qn_set_name(made, t->name);
        m->weight[i] = qn_keep(made);
    }
    onnx_value *v = value_new(r, t->name, m->weight[i], t->type, false);
    v->follows = 0;
    return v;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static onnx_value **slot_of(const onnx_frame *f, const char *name) {
    uint64_t at = hash_bytes(name, strlen(name), 0);
    while (f->slot[at & f->mask] && strcmp(f->slot[at & f->mask]->name, name) != 0) at++;
    return &f->slot[at & f->mask];
}

static void frame_open(onnx_frame *f, onnx_run *r, uint32_t names) {
    uint32_t room = 16;
    while (room < 2 * names + 2 && room < 1u << 30) room *= 2;
    f->run = r;
    f->mask = room - 1;
    f->slot = arena_zeroed(&r->a, room * sizeof *f->slot);
}

void frame_set(onnx_frame *f, const char *name, onnx_value *v) {
    if (!*name) return;
    onnx_value *mine = arena_alloc(&f->run->a, sizeof *mine);
    *mine = *v;
    mine->name = name;
    onnx_value **slot = slot_of(f, name);
    if (!*slot && 2 * ++f->count > f->mask)
        raise_error(f->run->model->ctx, QN_EFORMAT, "%s: more names than nodes make",
                    f->run->model->path);
    *slot = mine;
}

onnx_value *frame_find(onnx_frame *f, const char *name) {
    for (; f; f = f->up) {
        onnx_value *v = *slot_of(f, name);
        if (v) return v;
    }
    return NULL;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static const onnx_attr *find_attr(const onnx_attr *list, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* One that refers to an attribute of the function is what its caller gave, or the default. */
static const onnx_attr *attr_in(const onnx_frame *f, const onnx_node *node, const char *name) {
    const onnx_attr *at = find_attr(node->attr, node->n_attr, name);
    if (!at || !at->refers) return at;
    while (f && !f->call) f = f->up;
    if (!f) return NULL;
    const onnx_attr *given = attr_in(f->caller, f->call, at->refers);
    return given ? given : find_attr(f->function->attr, f->function->n_attr, at->refers);
}

const onnx_attr *op_attr(const onnx_op *o, const char *name) {
    return attr_in(o->frame, o->node, name);
}

int64_t attr_int(const onnx_op *o, const char *name, int64_t otherwise) {
    const onnx_attr *at = op_attr(o, name);
    return at ? at->i : otherwise;
}

double attr_float(const onnx_op *o, const char *name, double otherwise) {
    const onnx_attr *at = op_attr(o, name);
    return at ? (double)at->f : otherwise;
}

const char *attr_text(const onnx_op *o, const char *name, const char *otherwise) {
    const onnx_attr *at = op_attr(o, name);
    return at && at->text ? at->text : otherwise;
}

const int64_t *attr_ints(const onnx_op *o, const char *name, int *n) {
    static const int64_t none = 0;
    const onnx_attr *at = op_attr(o, name);
    if (at && at->n_ints > INT32_MAX)
        op_fail(o, QN_ERANGE, "%u numbers in attribute %s", at->n_ints, name);
    *n = at ? (int)at->n_ints : 0;
    return at ? (at->ints ? at->ints : &none) : NULL;
}

void op_list(const onnx_op *o, const char *name, int n, int64_t least, int64_t *out) {
    int count;
    const int64_t *list = attr_ints(o, name, &count);
    if (!list) return;
    if (count != n) op_fail(o, QN_ESHAPE, "%d numbers in %s, not %d", count, name, n);
    for (int i = 0; i < n; i++) {
        if (list[i] < least || list[i] > ONNX_SIZE_MOST)
            op_fail(o, QN_ERANGE, "%s has %lld", name, (long long)list[i]);
        out[i] = list[i];
    }
}

/* ---- inputs ---------------------------------------------------------------------------------- */

int64_t op_count(const onnx_op *o, int n, const int64_t *size, int64_t most) {
    int64_t all = 1;
    for (int i = 0; i < n; i++) {
        if (size[i] < 0) op_fail(o, QN_ERANGE, "a size of %lld", (long long)size[i]);
        all = sat_mul(all, size[i]);
    }
    if (all > most)
        op_fail(o, QN_ERANGE, "%lld places, more than %lld", (long long)all, (long long)most);
    return all;
}

void *op_alloc(const onnx_op *o, size_t n, size_t size) {
    if (n && size > SIZE_MAX / 2 / n) op_fail(o, QN_ERANGE, "%zu elements are too many", n);
    return arena_zeroed(&o->run->a, n * size + 1);
}

bool op_has(const onnx_op *o, int i) {
    return i < o->n_in && o->value[i] && o->value[i]->t;
}

bool op_wants(const onnx_op *o, int i) {
    return i < o->n_out && *o->node->output[i];
}

int op_type(const onnx_op *o, int i) {
    return op_has(o, i) ? o->value[i]->type : 0;
}

qn_tensor *op_in(onnx_op *o, int i) {
    if (!op_has(o, i)) return NULL;
    onnx_value *v = o->value[i];
    return o->qn == o->run->model->ctx ? value_main(o->run, v) : v->t;
}

int op_rank(onnx_op *o, int i) {
    return op_has(o, i) ? qn_rank(o->value[i]->t) : 0;
}

int64_t *op_shape_of(onnx_op *o, qn_tensor *t, int *rank) {
    if (!t) op_failed(o, "an input is missing");
    int64_t *dims = sizes_of(o->run, t, rank);
    for (int i = 0; i < *rank; i++)
        if (dims[i] < 0) op_fail(o, QN_ESHAPE, "a size that varies");
    return dims;
}

int64_t *op_shape(onnx_op *o, int i, int *rank) {
    return op_shape_of(o, op_has(o, i) ? o->value[i]->t : NULL, rank);
}

int64_t op_numel(onnx_op *o, int i) {
    return op_has(o, i) ? qn_numel(o->value[i]->t) : 0;
}

int op_axis(const onnx_op *o, int64_t axis, int rank) {
    if (axis < -rank || axis >= rank)
        op_fail(o, QN_ERANGE, "axis %lld of %d axes", (long long)axis, rank);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* The value of input i as another dtype, in host memory. */
static void *values_as(onnx_op *o, int i, qn_dtype dtype, int *n) {
    *n = 0;
    if (!op_has(o, i)) return NULL;
    onnx_value *v = o->value[i];
    o->run->model->reads |= v->follows;
    qn_tensor *t = v->t;
    if (qn_numel(t) > INT32_MAX) op_fail(o, QN_ERANGE, "input %d is too large to be read", i);
    *n = (int)qn_numel(t);
    if (qn_dtype_of(t) != dtype) { /* aside: no kernel is made for it */
        onnx_value here = *v;
        int rank;
        const int64_t *dims = sizes_of(o->run, t, &rank);
        if (!here.known)
            here.t = qn_from(o->run->model->aside, qn_dtype_of(t), rank, dims, read_all(o->run, t));
        t = qn_cast(here.t, dtype);
        if (!t) op_fail(o, QN_EDTYPE, "input %d cannot be read as %s", i, qn_dtype_name(dtype));
    }
    return read_all(o->run, t);
}

int64_t *op_ints(onnx_op *o, int i, int *n) {
    return values_as(o, i, QN_I64, n);
}

double *op_floats(onnx_op *o, int i, int *n) {
    return values_as(o, i, QN_F64, n);
}

int64_t op_int(onnx_op *o, int i, int64_t otherwise) {
    int n;
    const int64_t *v = op_ints(o, i, &n);
    if (v && n != 1) op_fail(o, QN_ESHAPE, "input %d has %d elements, not 1", i, n);
    return v ? v[0] : otherwise;
}

double op_float(onnx_op *o, int i, double otherwise) {
    int n;
    const double *v = op_floats(o, i, &n);
    if (v && n != 1) op_fail(o, QN_ESHAPE, "input %d has %d elements, not 1", i, n);
    return v ? v[0] : otherwise;
}

qn_tensor *op_from(onnx_op *o, qn_dtype dtype, int rank, const int64_t *shape, const void *data) {
    return data_kept(o->run->model, qn_from(o->qn, dtype, rank, shape, data));
}

qn_tensor *op_from_ints(onnx_op *o, int64_t n, const int64_t *v) {
    return op_from(o, QN_I64, 1, &n, v);
}

qn_tensor *op_from_floats(onnx_op *o, int rank, const int64_t *shape, const double *v, qn_dtype d) {
    return qn_cast(op_from(o, QN_F64, rank, shape, v), d);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static const onnx_opset *opsets_of(const onnx_frame *f, const onnx_model *m, uint32_t *n) {
    while (f && !f->function) f = f->up;
    *n = f && f->function->n_opset ? f->function->n_opset : m->n_opset;
    return f && f->function->n_opset ? f->function->opset : m->opset;
}

/* The version of a domain's operators: what the model imports. A domain that it does not name is
 * taken at the first. */
static int version_of(const onnx_frame *f, const onnx_model *m, const char *domain) {
    uint32_t n;
    const onnx_opset *o = opsets_of(f, m, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(o[i].domain, domain)) return (int)(o[i].version & 0xffff);
    return 1;
}

static const onnx_row *find_row(const onnx_op *o) {
    const onnx_row *other = NULL;
    nearest x = {.wanted = o->node->op};
    char near[300];
    for (int i = 0; i < onnx_row_count; i++) {
        const onnx_row *row = &onnx_rows[i];
        if (strcmp(row->name, o->node->op) != 0 || strcmp(row->domain, o->node->domain) != 0)
            continue;
        other = row;
        if (o->version >= row->first && (!row->last || o->version <= row->last)) return row;
    }
    if (other) op_fail(o, QN_EARG, "the operator begins with opset %d", other->first);
    for (int i = 0; i < onnx_row_count; i++)
        if (!strcmp(onnx_rows[i].domain, o->node->domain)) nearest_offer(&x, onnx_rows[i].name);
    op_fail(o, QN_EARG, "there is no such operator; there is %s",
            nearest_text(&x, near, sizeof near));
}

static int result_type(const onnx_op *o, int k) {
    if (o->type[k]) return o->type[k];
    switch (o->row->result) {
    case RESULT_LIKE:
        return op_type(o, 0);
    case RESULT_LIKE_1:
        return op_type(o, 1);
    case RESULT_BOOL:
        return ONNX_BOOL;
    case RESULT_I64:
        return ONNX_INT64;
    default:
        return o->out[k] ? onnx_type_like(qn_dtype_of(o->out[k])) : 0;
    }
}

/* What the function gave, in the dtypes that the outputs have. One that left an error has failed,
 * whatever it made of the rest. */
static void finish_outputs(onnx_op *o) {
    if (qn_error_code(o->qn)) op_failed(o, "");
    for (int k = 0; k < o->n_out; k++) {
        if (o->made[k] || !op_wants(o, k)) continue;
        if (!o->out[k]) op_failed(o, "there is no such output");
        const onnx_type *type = onnx_type_of(o->type[k] = result_type(o, k));
        if (!type) op_fail(o, QN_EDTYPE, "output %d has a type that there is not", k);
        if (qn_dtype_of(o->out[k]) != type->carrier) o->out[k] = qn_cast(o->out[k], type->carrier);
        if (!o->out[k]) op_failed(o, "an output cannot be cast");
    }
}

static bool outputs_small(const onnx_op *o) {
    for (int k = 0; k < o->n_out; k++)
        if (o->out[k] && qn_numel(o->out[k]) > ONNX_KNOWN_MOST) return false;
    return true;
}

static void clear_outputs(onnx_op *o) {
    size_t n = (size_t)o->n_out + 1; /* the functions fill the first one unasked */
    o->out = op_alloc(o, n, sizeof *o->out);
    o->type = op_alloc(o, n, sizeof *o->type);
    o->made = op_alloc(o, n, sizeof *o->made);
}

static void record_node(onnx_op *o) {
    bool known = true;
    const uint64_t around = o->run->follows;
    uint64_t follows = 0;
    for (int i = 0; i < o->n_in; i++) {
        known &= !op_has(o, i) || o->value[i]->known;
        if (op_has(o, i)) follows |= o->value[i]->follows;
    }
    o->run->follows = follows;
    for (int i = 0; i < o->row->least; i++)
        if (i >= o->n_in || (!op_has(o, i) && !o->row->control))
            op_fail(o, QN_EARG, "input %d is missing", i);
    known &= !o->row->control;
    o->qn = known ? o->run->model->aside : o->run->model->ctx;
    clear_outputs(o);
    o->row->record(o);
    finish_outputs(o);
    if (known && !outputs_small(o)) {
        known = false;
        o->qn = o->run->model->ctx;
        clear_outputs(o);
        o->row->record(o);
        finish_outputs(o);
    }
    for (int k = 0; k < o->n_out; k++) {
        if (!op_wants(o, k)) continue;
        onnx_value *v = o->made[k];
        if (!v) {
            v = value_new(o->run, "", o->out[k], o->type[k], known);
        }
        frame_set(o->frame, o->node->output[k], v);
    }
    o->run->follows = around;
}

static const onnx_function *find_function(const onnx_model *m, const onnx_node *n) {
    for (uint32_t i = 0; i < m->n_function; i++)
        if (!strcmp(m->function[i].name, n->op) && !strcmp(m->function[i].domain, n->domain))
            return &m->function[i];
    return NULL;
}

static void run_nodes(onnx_frame *f, const onnx_graph *g);

void run_spend(onnx_run *r, uint64_t n) {
    const onnx_model *m = r->model;
    r->spent += n < ONNX_STEPS_MOST ? n : ONNX_STEPS_MOST + 1;
    if (r->spent > ONNX_STEPS_MOST)
        raise_error(m->ctx, QN_ERANGE, "%s: a call of more than %d steps", m->path,
                    ONNX_STEPS_MOST);
}

static void call_function(onnx_op *o, const onnx_function *fn) {
    onnx_run *r = o->run;
    const onnx_graph *g = &fn->body;
    onnx_frame f = {.call = o->node, .caller = o->frame, .function = fn};
    uint32_t names = g->n_in;
    if (r->depth >= ONNX_DEPTH) op_fail(o, QN_EFORMAT, "functions that call each other, too deep");
    for (uint32_t i = 0; i < g->n_node; i++) names += g->node[i].n_out;
    run_spend(r, 1 + (uint64_t)names);
    frame_open(&f, r, names);
    onnx_value absent = {0};
    for (uint32_t i = 0; i < g->n_in; i++)
        frame_set(&f, g->input[i].name, (int)i < o->n_in && o->value[i] ? o->value[i] : &absent);
    r->depth++;
    run_nodes(&f, g);
    r->depth--;
    for (int k = 0; k < o->n_out && (uint32_t)k < g->n_out; k++) {
        onnx_value *v = frame_find(&f, g->output[k].name);
        if (op_wants(o, k) && !v)
            op_fail(o, QN_EFORMAT, "output \"%.80s\" is not there", g->output[k].name);
        if (op_wants(o, k)) frame_set(o->frame, o->node->output[k], v);
    }
}

static void run_node(onnx_frame *f, const onnx_node *n) {
    onnx_run *r = f->run;
    onnx_op o = {.run = r, .frame = f, .node = n, .qn = r->model->ctx};
    run_spend(r, 1 + (uint64_t)n->n_in);
    o.version = version_of(f, r->model, n->domain);
    o.n_in = (int)n->n_in;
    o.n_out = (int)n->n_out;
    o.value = arena_zeroed(&r->a, (n->n_in + 1) * sizeof *o.value);
    for (int i = 0; i < o.n_in; i++) {
        if (!*n->input[i]) continue;
        o.value[i] = frame_find(f, n->input[i]);
        if (!o.value[i]) op_fail(&o, QN_EFORMAT, "input \"%.80s\" is not there", n->input[i]);
    }
    const onnx_function *fn = find_function(r->model, n);
    if (fn) {
        call_function(&o, fn);
        return;
    }
    o.row = find_row(&o);
    record_node(&o);
}

static void run_nodes(onnx_frame *f, const onnx_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++) run_node(f, &g->node[i]);
}

void run_graph(onnx_run *r, onnx_frame *up, const onnx_graph *g, int n_in, onnx_value **in,
               onnx_value **out) {
    onnx_model *m = r->model;
    onnx_frame f = {.up = up};
    uint32_t names = g->n_in + g->n_init;
    if (r->depth >= ONNX_DEPTH)
        raise_error(m->ctx, QN_EFORMAT, "%s: graphs in graphs, too deep", m->path);
    if (g->sparse)
        raise_error(m->ctx, QN_EDTYPE, "%s: sparse initializers, which are not read", m->path);
    for (uint32_t i = 0; i < g->n_node; i++) names += g->node[i].n_out;
    run_spend(r, 1 + (uint64_t)names);
    frame_open(&f, r, names);
    r->depth++;
    for (uint32_t i = 0; i < g->n_init; i++)
        frame_set(&f, g->init[i].name,
                  g == &m->graph ? value_of_weight(r, i) : value_of_tensor(r, &g->init[i]));
    for (uint32_t i = 0; i < g->n_in; i++) {
        onnx_value *v = (int)i < n_in ? in[i] : NULL;
        if (v) frame_set(&f, g->input[i].name, v);
    }
    run_nodes(&f, g);
    r->depth--;
    for (uint32_t i = 0; i < g->n_out; i++) {
        out[i] = frame_find(&f, g->output[i].name);
        if (!out[i])
            raise_error(m->ctx, QN_EFORMAT, "%s: output \"%.80s\" is not there", m->path,
                        g->output[i].name);
        r->follows |= out[i]->follows; /* of the node that has the graph */
    }
}
