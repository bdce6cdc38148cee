/* loop.c - loops as the user records them: begin, the body on its arguments, end.
 *
 * Between begin and end every call is as ever, but what it is given are arguments: tensors that
 * have a value in each trip only. What is made there belongs to a scope that ends with the body.
 * graph/loop/close.c then makes a loop of it. The object stays until it is freed, for its results
 * are asked for one by one. Nothing has been computed by then. */
#include "graph/loop/loop.h"
#include "func/func.h"

typedef struct slices {
    qn_tensor **slice, **sequence; /* kept */
    int n, known;                  /* known: those that were given */
    uint32_t slice_cap, sequence_cap;
} slices;

struct loop {
    qn_ctx *qn;
    struct loop *outer;        /* that was being recorded when this one began */
    struct loop *next, **link; /* among the context's */
    qn_loop *name;
    arena arena;
    qn_scope scope;          /* 0: it has ended */
    uint64_t scope_number;   /* others have its depth, should it end before the body */
    uint32_t failures, born; /* born: when the body began */
    qn_loop_options o;
    sym count;
    int states, outputs;
    qn_tensor **init, **state; /* kept */
    slices of;
    qn_tensor *most, *index, *test; /* NULL: nobody asked; kept */
    node_id *final, *output;        /* each with a reference and a need; 0: not there */
    node_id trips;
};
typedef struct loop loop;

static loop *loop_of(const qn_loop *name, const char *call) {
    return object_of(name, HANDLE_LOOP, call);
}

static bool loop_open_for(const loop *l, const char *call) {
    if (l->scope && l->qn->graph->loop == l) return true;
    return fail(l->qn, QN_EGRAPH, "%s: %s", call,
                l->scope ? "a loop inside of its body has not ended" : "the body has ended"),
           false;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static qn_tensor *open_argument(loop *l, qn_dtype dtype, tuple_id shape) {
    graph *g = l->qn->graph;
    return tensor_make(g, make_loop_argument(g, ARGUMENT_OPEN, ++g->serial, dtype, shape));
}

static void add_slice(loop *l, qn_tensor *sequence) {
    graph *g = l->qn->graph;
    slices *s = &l->of;
    const graph_node x = *node_at(g, tensor_at(sequence)->node);
    int rank;
    const int64_t *dims = graph_tuple_get(g, x.shape, &rank);
    tuple_id shape = graph_tuple(g, rank - 1, dims + 1);
    uint32_t n = (uint32_t)s->n + 1;
    s->slice = arena_grow(&l->arena, s->slice, &s->slice_cap, n, sizeof(qn_tensor *));
    s->sequence = arena_grow(&l->arena, s->sequence, &s->sequence_cap, n, sizeof(qn_tensor *));
    s->slice[s->n] = qn_keep(open_argument(l, (qn_dtype)x.dtype, shape));
    s->sequence[s->n] = qn_keep(sequence);
    s->n++;
}

typedef struct beginning {
    loop *l;
    int n, n_in;
    qn_tensor *const *states, *const *sequences;
} beginning;

typedef struct row_mismatch {
    qn_ctx *qn;
    int sequence;
    sym rows, trips;
} row_mismatch;

static void row_mismatch_work(void *arg) {
    const row_mismatch *m = arg;
    graph *g = m->qn->graph;
    g->text.len = 0;
    str_addf(&g->text, "loop_begin: sequence %d has ", m->sequence);
    sym_print(g->syms, m->rows, &g->text);
    str_add(&g->text, " rows, and there are ");
    sym_print(g->syms, m->trips, &g->text);
    fail(m->qn, QN_ESHAPE, "%s trips", g->text.s);
}

/* As many trips as sequences have rows, or as the options say. Raises nothing. */
static bool find_count(const beginning *b) {
    loop *l = b->l;
    graph *g = l->qn->graph;
    bool said = l->o.trips != 0 || !b->n_in;
    if (said && !dim_given(l->qn, "loop_begin", l->o.trips, &l->count)) return false;
    for (int i = 0; i < b->n_in; i++) {
        int rank;
        const int64_t *dims = node_dims(g, tensor_at(b->sequences[i])->node, &rank);
        if (!rank) return fail(l->qn, QN_ESHAPE, "loop_begin: sequence %d is a scalar", i), false;
        if (!said && !i) l->count = (sym)dims[0];
        if ((sym)dims[0] == l->count) continue;
        row_mismatch m = {l->qn, i, (sym)dims[0], l->count};
        guarded(l->qn, row_mismatch_work, &m);
        return false;
    }
    return true;
}

static bool check_options(const loop *l) {
    const qn_tensor *most = l->o.most;
    if (l->o.checkpoint < 0)
        return fail(l->qn, QN_ERANGE, "loop_begin: options.checkpoint is %lld",
                    (long long)l->o.checkpoint),
               false;
    if (!most) return true;
    if (!tensor_of(l->qn, most, "loop_begin", "options.most")) return false;
    if (qn_dtype_of(most) == QN_I64 && qn_rank(most) == 0) return true;
    return fail(l->qn, QN_EDTYPE, "loop_begin: options.most is %s of rank %d, not an i64 scalar",
                qn_dtype_name(qn_dtype_of(most)), qn_rank(most)),
           false;
}

static void begin_work(void *arg) {
    const beginning *b = arg;
    loop *l = b->l;
    graph *g = l->qn->graph;
    size_t many = (size_t)b->n + 1;
    l->most = qn_keep(l->o.most);
    l->init = arena_zeroed(&l->arena, many * sizeof(qn_tensor *));
    l->state = arena_zeroed(&l->arena, many * sizeof(qn_tensor *));
    l->final = arena_zeroed(&l->arena, many * sizeof *l->final);
    for (; l->states < b->n; l->states++) {
        qn_tensor *init = b->states[l->states];
        const graph_node x = *node_at(g, tensor_at(init)->node);
        l->state[l->states] = qn_keep(open_argument(l, (qn_dtype)x.dtype, x.shape));
        l->init[l->states] = qn_keep(init);
    }
    for (int i = 0; i < b->n_in; i++) add_slice(l, b->sequences[i]);
    l->of.known = l->of.n;
}

static void drop_all(int n, qn_tensor *const *list) {
    for (int i = 0; i < n; i++)
        if (handle_is(list[i], HANDLE_TENSOR)) qn_release(list[i]);
}

/* What recording took. */
static void drop_recording(loop *l) {
    graph *g = l->qn->graph;
    drop_all(l->states, l->init);
    drop_all(l->states, l->state);
    drop_all(l->of.n, l->of.slice);
    drop_all(l->of.n, l->of.sequence);
    drop_all(l->most != NULL, &l->most);
    drop_all(l->test != NULL, &l->test);
    l->states = l->of.n = 0;
    l->most = l->test = NULL;
    if (scope_number(g, l->scope) == l->scope_number) qn_scope_end(l->qn, l->scope);
    l->scope = 0;
    const struct loop *open = g->loop;
    while (open && open != l) open = open->outer;
    if (open) g->loop = l->outer;
}

static void drop_result(graph *g, node_id *n) {
    if (!*n) return;
    value_drop(g, *n);
    node_unref(g, *n);
    *n = 0;
}

static void loop_close_object(loop *l) {
    qn_ctx *qn = l->qn;
    graph *g = qn->graph;
    int states = l->states;
    if (l->scope) drop_recording(l);
    for (int i = 0; l->output && i < states; i++) drop_result(g, &l->final[i]);
    for (int i = 0; i < l->outputs; i++) drop_result(g, &l->output[i]);
    drop_result(g, &l->trips);
    *l->link = l->next;
    if (l->next) l->next->link = l->link;
    arena_free(&l->arena);
    heap_free(&qn->heap, l, sizeof *l);
}

void loops_close(qn_ctx *qn) {
    while (qn->graph->loops) loop_close_object(qn->graph->loops);
}

/* Among the context's, from now on. */
static loop *loop_new(qn_ctx *qn) {
    loop *l = heap_try(&qn->heap, sizeof *l);
    if (!l) return fail_null(qn, QN_ENOMEM, "loop_begin: no memory");
    graph *g = qn->graph;
    *l = (loop){.qn = qn, .o = QN_LOOP_OPTIONS(), .outer = g->loop, .next = g->loops};
    l->link = &g->loops;
    if (l->next) l->next->link = &l->next;
    g->loops = l;
    arena_open(&l->arena, &qn->heap);
    return l;
}

qn_loop *qn_loop_begin(qn_ctx *qn, int n, qn_tensor *const *states, int n_in,
                       qn_tensor *const *sequences, const qn_loop_options *options) {
    if (!qn) return NULL;
    if (n < 0 || n_in < 0 || (n && !states) || (n_in && !sequences))
        return fail_null(qn, QN_EARG, "loop_begin: bad list of %s",
                         n < 0 || (n && !states) ? "states" : "sequences");
    if (!tensors_of(qn, n, states, "loop_begin", "state") ||
        !tensors_of(qn, n_in, sequences, "loop_begin", "sequence"))
        return NULL;
    loop *l = loop_new(qn);
    if (!l) return NULL;
    beginning b = {l, n, n_in, states, sequences};
    bool fine = struct_take(qn, "loop_begin", "qn_loop_options", &l->o, sizeof l->o, options) &&
                find_count(&b) && check_options(l);
    if (fine) l->scope = qn_scope_begin(qn);
    if (l->scope) {
        l->scope_number = scope_number(qn->graph, l->scope);
        qn->graph->loop = l;
        fine = !guarded(qn, begin_work, &b);
        graph_settle(qn->graph);
    }
    if (fine && l->scope) l->name = object_open(qn, HANDLE_LOOP, l);
    l->failures = qn->failures;
    l->born = qn->graph->born;
    if (!l->name) return loop_close_object(l), NULL;
    return l->name;
}

/* ---- the body -------------------------------------------------------------------------------- */

static qn_tensor *argument_at(const qn_loop *name, const char *call, int i, bool slice) {
    const loop *l = loop_of(name, call);
    if (!l || !loop_open_for(l, call)) return NULL;
    int n = slice ? l->of.known : l->states;
    if (i < 0 || i >= n) return fail_null(l->qn, QN_ERANGE, "%s: %d of %d", call, i, n);
    return slice ? l->of.slice[i] : l->state[i];
}

qn_tensor *qn_loop_state(qn_loop *name, int i) {
    return argument_at(name, "loop_state", i, false);
}

qn_tensor *qn_loop_slice(qn_loop *name, int i) {
    return argument_at(name, "loop_slice", i, true);
}

static void index_work(void *arg) {
    loop *l = arg;
    graph *g = l->qn->graph;
    tuple_id shape = graph_tuple(g, 1, (const int64_t[]){l->count});
    add_slice(l, tensor_make(g, make_iota(g, QN_I64, shape, 0)));
    l->index = l->of.slice[l->of.n - 1];
}

qn_tensor *qn_loop_index(qn_loop *name) {
    loop *l = loop_of(name, "loop_index");
    if (!l || !loop_open_for(l, "loop_index")) return NULL;
    if (!l->index) guarded(l->qn, index_work, l);
    graph_settle(l->qn->graph);
    return l->index;
}

typedef struct condition_use {
    const loop *l;
    node_id node;
    int slice; /* that it is made of; below 0: of none */
} condition_use;

/* A condition is asked before the first trip and behind the last one, to which no row belongs. */
static void condition_work(void *arg) {
    condition_use *c = arg;
    const loop *l = c->l;
    arena a;
    cleanup up;
    node_id *order;
    arena_open(&a, &l->qn->heap);
    cleanup_push(&l->qn->heap, &up, arena_cleanup, &a);
    uint32_t nodes = graph_order(l->qn->graph, &a, 1, &c->node, &order);
    for (uint32_t i = 0; i < nodes; i++)
        for (int s = 0; s < l->of.n && c->slice < 0; s++)
            if (tensor_at(l->of.slice[s])->node == order[i]) c->slice = s;
    cleanup_run(&l->qn->heap, &up);
}

static bool check_condition(const loop *l, const qn_tensor *test) {
    condition_use c = {l, tensor_at(test)->node, -1};
    if (guarded(l->qn, condition_work, &c)) return false;
    if (c.slice < 0) return true;
    if (c.slice >= l->of.known)
        return fail(l->qn, QN_EGRAPH,
                    "loop_while: the condition is made of the index, not of states alone"),
               false;
    return fail(l->qn, QN_EGRAPH,
                "loop_while: the condition is made of slice %d, not of states alone", c.slice),
           false;
}

qn_code qn_loop_while(qn_loop *name, qn_tensor *condition) {
    loop *l = loop_of(name, "loop_while");
    if (!l) return handle_code(name);
    if (!loop_open_for(l, "loop_while") || !tensor_of(l->qn, condition, "loop_while", "condition"))
        return qn_error_code(l->qn);
    if (qn_dtype_of(condition) != QN_BOOL || qn_rank(condition))
        return fail(l->qn, QN_EDTYPE,
                    "loop_while: the condition is %s of rank %d, not a bool scalar",
                    qn_dtype_name(qn_dtype_of(condition)), qn_rank(condition));
    if (l->o.reverse)
        return fail(l->qn, QN_EARG, "loop_while: a loop from the last row on has all its trips");
    if (l->test) return fail(l->qn, QN_EARG, "loop_while: there is a condition already");
    if (!check_condition(l, condition)) return qn_error_code(l->qn);
    l->test = qn_keep(condition);
    return QN_OK;
}

/* ---- end ------------------------------------------------------------------------------------- */

typedef struct ending {
    loop *l;
    int n, n_out;
    qn_tensor *const *next, *const *outputs;
    bool done;
} ending;

typedef struct state_mismatch {
    qn_ctx *qn;
    int state;
    const graph_node *was, *is;
} state_mismatch;

static void state_mismatch_work(void *arg) {
    const state_mismatch *m = arg;
    graph *g = m->qn->graph;
    const graph_node *was = m->was, *is = m->is;
    g->text.len = 0;
    str_addf(&g->text, "loop_end: state %d is %s", m->state, qn_dtype_name((qn_dtype)was->dtype));
    shape_text(g, was->shape, &g->text);
    str_addf(&g->text, " and becomes %s", qn_dtype_name((qn_dtype)is->dtype));
    shape_text(g, is->shape, &g->text);
    fail(m->qn, was->dtype != is->dtype ? QN_EDTYPE : QN_ESHAPE, "%s", g->text.s);
}

static bool check_next(const loop *l, int i, const qn_tensor *next) {
    graph *g = l->qn->graph;
    const graph_node *was = node_at(g, tensor_at(l->state[i])->node);
    const graph_node *is = node_at(g, tensor_at(next)->node);
    if (was->dtype == is->dtype && was->shape == is->shape) return true;
    state_mismatch m = {l->qn, i, was, is};
    guarded(l->qn, state_mismatch_work, &m);
    return false;
}

static bool check_end(const ending *e) {
    const loop *l = e->l;
    if (!loop_open_for(l, "loop_end")) return false;
    if (e->n != l->states)
        return fail(l->qn, QN_EARG, "loop_end: %d states of %d", e->n, l->states), false;
    if (e->n_out < 0 || (e->n && !e->next) || (e->n_out && !e->outputs))
        return fail(l->qn, QN_EARG, "loop_end: bad list of %s",
                    e->n && !e->next ? "states" : "outputs"),
               false;
    if (l->failures != l->qn->failures) {
        if (!l->qn->code) fail(l->qn, QN_EGRAPH, "loop_end: a call in the body failed");
        return false;
    }
    if (!tensors_of(l->qn, e->n, e->next, "loop_end", "state") ||
        !tensors_of(l->qn, e->n_out, e->outputs, "loop_end", "output"))
        return false;
    for (int i = 0; i < e->n; i++)
        if (!check_next(l, i, e->next[i])) return false;
    for (int i = 0; i < e->n_out; i++)
        if (qn_rank(e->outputs[i]) >= QN_MAX_RANK)
            return fail(l->qn, QN_ESHAPE,
                        "loop_end: output %d has rank %d; stacked it would have "
                        "more than %d",
                        i, qn_rank(e->outputs[i]), QN_MAX_RANK),
                   false;
    return true;
}

static node_id *nodes_of(arena *a, int n, qn_tensor *const *list) {
    node_id *node = arena_alloc(a, ((size_t)n + 1) * sizeof *node);
    for (int i = 0; i < n; i++) node[i] = tensor_at(list[i])->node;
    return node;
}

static node_id hold(graph *g, node_id n) {
    node_ref(g, n);
    value_need(g, n);
    return n;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* A loop in segments: a frugal loop over segments whose trips are loops, and a loop over the rows
 * that are left. */
typedef struct segments {
    graph *g;
    arena *a;
    const loop_record *whole;
    int64_t length, count, left; /* of a segment, how many, rows that are left */
} segments;

static node_id rows_of(const segments *s, node_id x, int64_t from, int64_t rows) {
    int rank;
    const int64_t *dims = node_dims(s->g, x, &rank);
    int64_t p[3 * QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        p[3 * i] = i ? SYM_ZERO : sym_const(s->g->syms, from);
        p[3 * i + 1] = i ? dims[i] : sym_const(s->g->syms, rows);
        p[3 * i + 2] = 1;
    }
    return make_slice(s->g, x, p);
}

static node_id *many(const segments *s) {
    const loop_record *r = s->whole;
    return arena_alloc(s->a, ((size_t)r->states + r->slices + r->outs + 1) * sizeof(node_id));
}

/* The recorded body, of other first states and sequences. */
static loop_record segment(const segments *s, const node_id *init, const node_id *sequence,
                           int64_t rows) {
    loop_record r = *s->whole;
    r.attr.count = sym_const(s->g->syms, rows);
    r.init = init;
    r.sequence = sequence;
    r.final = many(s);
    r.result = many(s);
    loop_close(s->g, s->a, &r);
    return r;
}

static node_id argument_like(graph *g, node_id x, int64_t rows) {
    const graph_node n = *node_at(g, x);
    int rank;
    const int64_t *dims = graph_tuple_get(g, n.shape, &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) v[i] = i || rows < 0 ? dims[i] : sym_const(g->syms, rows);
    return make_loop_argument(g, ARGUMENT_OPEN, ++g->serial, (qn_dtype)n.dtype,
                              graph_tuple(g, rank, v));
}

/* The first axis as two, or two as one. */
static node_id regrouped(graph *g, node_id x, bool split, int64_t a, int64_t b) {
    int rank, n = 0;
    const int64_t *dims = node_dims(g, x, &rank);
    int64_t v[QN_MAX_RANK + 1];
    if (split) v[n++] = sym_const(g->syms, a);
    v[n++] = sym_const(g->syms, split ? b : a * b);
    for (int i = split ? 1 : 2; i < rank; i++) v[n++] = dims[i];
    return make_reshape(g, x, graph_tuple(g, n, v));
}

static loop_record over_segments(const segments *s) {
    const loop_record *w = s->whole;
    graph *g = s->g;
    node_id *state = many(s), *slice = many(s), *sequence = many(s);
    int64_t rows = s->count * s->length, from = w->attr.reverse ? s->left : 0;
    for (uint32_t i = 0; i < w->states; i++) state[i] = argument_like(g, w->init[i], -1);
    for (uint32_t i = 0; i < w->slices; i++) {
        slice[i] = argument_like(g, w->sequence[i], s->length);
        sequence[i] =
            regrouped(g, rows_of(s, w->sequence[i], from, rows), true, s->count, s->length);
    }
    loop_record in = segment(s, state, slice, s->length);
    loop_record r = *w;
    r.attr.count = sym_const(g->syms, s->count);
    r.attr.frugal = true;
    r.state = state;
    r.next = in.final;
    r.slice = slice;
    r.sequence = sequence;
    r.out = in.result;
    r.final = many(s);
    r.result = many(s);
    loop_close(g, s->a, &r);
    for (uint32_t i = 0; i < r.outs; i++)
        r.result[i] = regrouped(g, r.result[i], false, s->count, s->length);
    return r;
}

/* What is left comes last, which in reverse are the first rows. */
static void close_segments(const segments *s, loop_record *out) {
    const loop_record *w = s->whole;
    loop_record r = over_segments(s);
    if (s->left) {
        node_id *sequence = many(s);
        int64_t from = w->attr.reverse ? 0 : s->count * s->length;
        for (uint32_t i = 0; i < w->slices; i++)
            sequence[i] = rows_of(s, w->sequence[i], from, s->left);
        loop_record end = segment(s, r.final, sequence, s->left);
        for (uint32_t i = 0; i < w->outs; i++) {
            node_id both[2] = {r.result[i], end.result[i]}, back[2] = {both[1], both[0]};
            end.result[i] = make_join(s->g, 2, w->attr.reverse ? back : both, 0);
        }
        r = end;
    }
    for (uint32_t i = 0; i < w->states; i++) out->final[i] = r.final[i];
    for (uint32_t i = 0; i < w->outs; i++) out->result[i] = r.result[i];
}

/* Close the record, in segments where that was asked for; and the number of trips. */
static node_id close_record(const loop *l, arena *a, loop_record *r) {
    graph *g = l->qn->graph;
    int64_t trips, length = l->o.checkpoint;
    bool known = sym_is_const(g->syms, l->count, &trips) && !r->limit && !r->test;
    if (length > 0 && known && length < trips) {
        bool fits = true;
        for (uint32_t i = 0; i < r->slices; i++) fits &= node_rank(g, r->sequence[i]) < QN_MAX_RANK;
        for (uint32_t i = 0; i < r->outs; i++) fits &= node_rank(g, r->out[i]) + 2 <= QN_MAX_RANK;
        segments s = {g, a, r, length, trips / length, trips % length};
        if (fits) return close_segments(&s, r), make_number(g, QN_I64, 0, (double)trips);
    }
    loop_close(g, a, r);
    return make_trips(g, r->loop);
}

static void end_work(void *arg) {
    ending *e = arg;
    loop *l = e->l;
    graph *g = l->qn->graph;
    arena a;
    cleanup c;
    arena_open(&a, &l->qn->heap);
    cleanup_push(&l->qn->heap, &c, arena_cleanup, &a);
    loop_record r = {.attr = {.count = l->count, .reverse = l->o.reverse},
                     .named = true,
                     .states = (uint32_t)e->n,
                     .slices = (uint32_t)l->of.n,
                     .outs = (uint32_t)e->n_out};
    r.state = nodes_of(&a, e->n, l->state);
    r.init = nodes_of(&a, e->n, l->init);
    r.next = nodes_of(&a, e->n, e->next);
    r.slice = nodes_of(&a, l->of.n, l->of.slice);
    r.sequence = nodes_of(&a, l->of.n, l->of.sequence);
    r.out = nodes_of(&a, e->n_out, e->outputs);
    r.before = l->born;
    if (l->count == SYM_ONE) r.born = l->born;
    if (l->most) r.limit = tensor_at(l->most)->node;
    if (l->test) r.test = tensor_at(l->test)->node;
    r.final = arena_alloc(&a, ((size_t)e->n + 1) * sizeof *r.final);
    r.result = arena_alloc(&a, ((size_t)e->n_out + 1) * sizeof *r.result);
    node_id *output = arena_zeroed(&l->arena, ((size_t)e->n_out + 1) * sizeof *output);
    node_id trips = close_record(l, &a, &r);
    for (int i = 0; i < e->n; i++) l->final[i] = hold(g, r.final[i]);
    for (int i = 0; i < e->n_out; i++) output[i] = hold(g, r.result[i]);
    l->output = output;
    l->outputs = e->n_out;
    l->trips = hold(g, trips);
    e->done = true;
    cleanup_run(&l->qn->heap, &c);
}

qn_code qn_loop_end(qn_loop *name, int n, qn_tensor *const *states, int n_out,
                    qn_tensor *const *outputs) {
    loop *l = loop_of(name, "loop_end");
    if (!l) return handle_code(name);
    qn_ctx *qn = l->qn;
    ending e = {l, n, n_out, states, outputs, false};
    bool open = l->scope != 0;
    if (check_end(&e)) guarded(qn, end_work, &e);
    if (open) drop_recording(l);
    l->states = e.done ? n : 0;
    graph_settle(qn->graph);
    return e.done ? QN_OK : (int)qn_error_code(qn);
}

/* ---- results --------------------------------------------------------------------------------- */

static qn_tensor *result_at(const loop *l, const char *call, int i, int n, const node_id *list) {
    if (!l) return NULL;
    if (!l->output)
        return l->qn->code ? NULL : fail_null(l->qn, QN_EGRAPH, "%s: the loop has not ended", call);
    if (i < 0 || i >= n) return fail_null(l->qn, QN_ERANGE, "%s: %d of %d", call, i, n);
    return tensor_new(l->qn, list[i]);
}

qn_tensor *qn_loop_final(qn_loop *name, int i) {
    const loop *l = loop_of(name, "loop_final");
    return result_at(l, "loop_final", i, l ? l->states : 0, l ? l->final : NULL);
}

qn_tensor *qn_loop_output(qn_loop *name, int i) {
    const loop *l = loop_of(name, "loop_output");
    return result_at(l, "loop_output", i, l ? l->outputs : 0, l ? l->output : NULL);
}

qn_tensor *qn_loop_trips(qn_loop *name) {
    const loop *l = loop_of(name, "loop_trips");
    return result_at(l, "loop_trips", 0, 1, l ? &l->trips : NULL);
}

void qn_loop_free(qn_loop *name) {
    loop *l = object_close(name, HANDLE_LOOP, "loop_free");
    if (l) loop_close_object(l);
}
