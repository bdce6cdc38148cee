/* test_vmap.c - a function of one example for many, held against a loop over the examples in plain
 * calls: each operation and each routine, bit by bit (floats that are summed are small integers),
 * nested, differentiated before and after, with loops in the body. */
#include <quern_loop.h>

#include "func/func.h"
#include "graph/loop/loop.h"
#include "test.h"

enum { MANY = 3, MOST_INPUTS = 3, MOST_BYTES = 1 << 14 };

static qn_ctx *opened(void) {
    return qn_open(&QN_OPTIONS(.threads = 1));
}

static void expect_error(qn_ctx *qn, int code, const char *part) {
    CHECK_INT(qn_error_code(qn), code);
    if (!strstr(qn_error(qn), part)) FAIL("\"%s\" does not say \"%s\"", qn_error(qn), part);
    qn_clear_error(qn);
}

/* ---- what is compared ------------------------------------------------------------------------ */

typedef struct input {
    qn_dtype dtype;
    int rank;
    int64_t dim[3];
    double lo, hi; /* of its numbers, which are integers where `whole` */
    bool whole;
} input;

typedef struct example {
    const char *name;
    qn_tensor *(*body)(qn_tensor *const *x);
    int n;
    input in[MOST_INPUTS];
} example;

static qn_tensor *filled(qn_ctx *qn, const input *in, uint64_t seed) {
    int64_t n = 1;
    for (int i = 0; i < in->rank; i++) n *= in->dim[i];
    uint8_t data[MOST_BYTES];
    for (int64_t i = 0; i < n; i++) {
        double v = in->lo + (in->hi - in->lo) * test_uniform(&seed);
        dtype_set_f(in->dtype, data, i, in->whole || !dtype_is_float(in->dtype) ? floor(v) : v);
    }
    return qn_from(qn, in->dtype, in->rank, in->dim, data);
}

static bool same_bits(qn_tensor *a, qn_tensor *b) {
    static uint8_t x[MOST_BYTES], y[MOST_BYTES];
    if (!a || !b || qn_dtype_of(a) != qn_dtype_of(b) || qn_rank(a) != qn_rank(b)) return false;
    for (int i = 0; i < qn_rank(a); i++)
        if (qn_dim(a, i) != qn_dim(b, i)) return false;
    size_t size = (size_t)qn_numel(a) * qn_dtype_size(qn_dtype_of(a));
    if (size > sizeof x || qn_read(a, x, size) || qn_read(b, y, size)) return false;
    return !memcmp(x, y, size);
}

static qn_tensor *transformed(qn_tensor *const *x);

/* Rows beside each other are transformed with their sums in another order. */
static bool same_values(const example *c, qn_tensor *a, qn_tensor *b) {
    if (c->body != transformed || !a || !b) return same_bits(a, b);
    qn_tensor *off = qn_max(qn_abs(qn_sub(a, b)), QN_ALL, false);
    float most = 1;
    return off && !qn_read(off, &most, sizeof most) && most < 1e-5f;
}

/* Which operations and routines follow an example in what was recorded. */
static bool seen_op[OP_COUNT], seen_routine[ROUTINE_COUNT];
typedef struct looking {
    qn_tensor *y;
} looking;

static void look_work(void *arg) {
    qn_tensor *y = ((looking *)arg)->y;
    graph *g = tensor_ctx(y)->graph;
    node_id root = tensor_at(y)->node, *order;
    arena a;
    arena_open(&a, &g->ctx->heap);
    uint32_t n = graph_order_history(g, &a, 1, &root, 0, &order);
    bool *follows = calloc(n, 1);
    for (uint32_t i = 0; i < n; i++) {
        const graph_node *x = node_at(g, order[i]);
        follows[i] = x->op == OP_ARGUMENT && argument_kind(x) == ARGUMENT_EXAMPLE;
        for (int s = 0; s < node_links(x); s++)
            follows[i] |= follows[node_at(g, x->src[s])->mark - g->mark_base];
        if (!follows[i]) continue;
        seen_op[x->op] = true;
        if (x->op == OP_CALL) seen_routine[node_call(g, x).routine] = true;
    }
    free(follows);
    arena_free(&a);
}

static void look(qn_tensor *y) {
    if (y) guarded(qn_context(y), look_work, &(looking){y});
}

/* Inputs of `batched`, a set, have examples, along some axis, the others none. */
static void try_one(const example *c, unsigned batched, int turn) {
    qn_ctx *qn = opened();
    qn_tensor *x[MOST_INPUTS][MANY], *all[MOST_INPUTS], *arg[MOST_INPUTS], *from[MOST_INPUTS];
    qn_tensor *each[MANY], *got;
    int in_axis[MOST_INPUTS], m = 0;
    for (int i = 0; i < c->n; i++) {
        bool is = batched >> i & 1;
        for (int e = 0; e < MANY; e++)
            x[i][e] = e && !is ? x[i][0] : filled(qn, &c->in[i], (uint64_t)(100 * i + e + 1));
        if (!is && turn % 2) { /* captured */
            arg[i] = x[i][0];
            continue;
        }
        int axis = is ? (turn + i) % (c->in[i].rank + 1) : 0;
        all[m] = is ? qn_stack(MANY, x[i], axis) : x[i][0];
        from[m] = arg[i] = qn_example(is ? all[m] : qn_stack(1, x[i], 0), axis);
        in_axis[m++] = is ? axis - (turn > 1 ? c->in[i].rank + 1 : 0) : QN_UNBATCHED;
    }
    qn_tensor *y = c->body(arg);
    for (int e = 0; e < MANY; e++) {
        qn_tensor *one[MOST_INPUTS];
        for (int i = 0; i < c->n; i++) one[i] = x[i][e];
        each[e] = c->body(one);
    }
    if (!y || !each[0]) FAIL("%s: %s", c->name, qn_error(qn));
    look(y);
    int out_axis = y ? turn % (qn_rank(y) + 1) : 0;
    if (qn_vmap(1, &y, &out_axis, m, from, all, in_axis, &got))
        FAIL("%s, examples in %u: %s", c->name, batched, qn_error(qn));
    else if (!same_values(c, got, qn_stack(MANY, each, out_axis)))
        FAIL("%s, examples in %u: not what each example gives; %s", c->name, batched, qn_error(qn));
    qn_close(qn);
}

static void try_all(const example *c) {
    for (unsigned batched = 1; batched < 1u << c->n; batched++)
        for (int turn = 0; turn < 4; turn++) try_one(c, batched, turn);
}

/* ---- elementwise rows ------------------------------------------------------------------------ */

static int elem_op;

static qn_tensor *elem_body(qn_tensor *const *x) {
    if (op_rows[elem_op].types == TYPES_TO) return build_cast(x[0], QN_I32, elem_op == OP_BITCAST);
    return build_elem(elem_op, op_rows[elem_op].arity, x);
}

static void elementwise_rows_have_more_elements(void) {
    for (elem_op = 1; elem_op < OP_COUNT; elem_op++) {
        const op_row *row = &op_rows[elem_op];
        if (row->class_ != CLASS_ELEM) continue;
        example c = {.name = row->name, .body = elem_body, .n = row->arity};
        for (int i = 0; i < row->arity; i++) {
            qn_dtype d = row->types == TYPES_INT || row->types == TYPES_BITS ? QN_I32 : QN_F32;
            if (row->types == TYPES_SELECT && !i) d = QN_BOOL;
            c.in[i] =
                (input){d, 2, {2, 3}, d == QN_F32 ? row->lo : 0, d == QN_F32 ? row->hi : 2, 0};
        }
        try_all(&c);
    }
}

/* ---- all else -------------------------------------------------------------------------------- */

static qn_tensor *reshaped(qn_tensor *const *x) {
    return qn_mul(qn_reshape(x[0], 2, (int64_t[]){3, 4}), qn_like(x[0], 2));
}
static qn_tensor *permuted(qn_tensor *const *x) {
    return qn_permute(x[0], 3, (int[]){2, 0, 1});
}
static qn_tensor *expanded(qn_tensor *const *x) {
    return qn_add(qn_unsqueeze(x[0], 1), qn_unsqueeze(x[1], 0));
}
static qn_tensor *padded(qn_tensor *const *x) {
    return qn_pad(x[0], (int64_t[]){1, 2, 0, 1}, QN_PAD_CONSTANT, 0);
}
static qn_tensor *sliced(qn_tensor *const *x) {
    return qn_slice(x[0], 1, 1, 3, 1);
}
static qn_tensor *windowed(qn_tensor *const *x) {
    return qn_unfold(x[0], 1, 3, 2);
}
static qn_tensor *flipped(qn_tensor *const *x) {
    return qn_flip(x[0], 1);
}
static qn_tensor *joined(qn_tensor *const *x) {
    return qn_concat(3, (qn_tensor *[]){x[0], x[1], x[0]}, 1);
}
static qn_tensor *summed(qn_tensor *const *x) {
    return qn_sum(x[0], 1, false);
}
static qn_tensor *multiplied(qn_tensor *const *x) {
    return qn_matmul(x[0], x[1]);
}
static qn_tensor *masked_product(qn_tensor *const *x) {
    return qn_sum(qn_where(x[2], qn_mul(x[0], x[1]), qn_like(x[0], 0)), 0, true);
}
static qn_tensor *prod(qn_tensor *const *x) {
    return qn_prod(x[0], 0, false);
}
static qn_tensor *largest(qn_tensor *const *x) {
    return qn_max(x[0], QN_ALL, false);
}
static qn_tensor *smallest(qn_tensor *const *x) {
    return qn_min(x[0], 0, true);
}
static qn_tensor *place_of_largest(qn_tensor *const *x) {
    return qn_argmax(x[0], QN_ALL, false);
}
static qn_tensor *place_of_smallest(qn_tensor *const *x) {
    return qn_argmin(x[0], 1, false);
}
static qn_tensor *scanned(qn_tensor *const *x) {
    return qn_cumsum(x[0], 0);
}
static qn_tensor *gathered(qn_tensor *const *x) {
    return qn_gather(x[0], x[1], 1);
}
static qn_tensor *taken(qn_tensor *const *x) {
    return qn_take(x[0], x[1], 0);
}
static qn_tensor *scattered(qn_tensor *const *x) {
    return qn_scatter(x[0], x[1], x[2], 1, QN_COMBINE_SUM);
}
static qn_tensor *marked(qn_tensor *const *x) {
    return qn_add(qn_contiguous(x[0]), qn_detach(qn_neg(x[0])));
}

static const input matrix = {QN_F32, 2, {3, 4}, -4, 5, true};
#define F32(...)                                                                                   \
    { QN_F32, COUNT_OF(((int64_t[]){__VA_ARGS__})), {__VA_ARGS__}, -4, 5, true }
#define I64S(...)                                                                                  \
    { QN_I64, COUNT_OF(((int64_t[]){__VA_ARGS__})), {__VA_ARGS__}, 0, 3, true }
#define BOOL(...)                                                                                  \
    { QN_BOOL, COUNT_OF(((int64_t[]){__VA_ARGS__})), {__VA_ARGS__}, 0, 2, true }

static const example others[] = {
    {"reshape", reshaped, 1, {F32(2, 6)}},
    {"permute", permuted, 1, {F32(2, 3, 4)}},
    {"expand", expanded, 2, {F32(3), F32(4)}},
    {"pad", padded, 1, {F32(3, 4)}},
    {"slice", sliced, 1, {F32(3, 4)}},
    {"window", windowed, 1, {F32(2, 9)}},
    {"flip", flipped, 1, {F32(3, 4)}},
    {"join", joined, 2, {F32(3, 4), F32(3, 1)}},
    {"sum", summed, 1, {F32(3, 4)}},
    {"matmul", multiplied, 2, {F32(3, 4), F32(4, 5)}},
    {"masked product", masked_product, 3, {F32(3, 4), F32(3, 4), BOOL(3, 4)}},
    {"prod", prod, 1, {F32(3, 4)}},
    {"max", largest, 1, {F32(3, 4)}},
    {"min", smallest, 1, {F32(3, 4)}},
    {"argmax", place_of_largest, 1, {F32(3, 4)}},
    {"argmin", place_of_smallest, 1, {F32(3, 4)}},
    {"scan", scanned, 1, {F32(5, 2)}},
    {"gather", gathered, 2, {F32(2, 4), I64S(2, 5)}},
    {"take", taken, 2, {F32(3, 4), I64S(2)}},
    {"scatter", scattered, 3, {F32(2, 4), I64S(2, 5), F32(2, 5)}},
    {"marks", marked, 1, {F32(4)}},
};

static void movements_reductions_and_indices_have_an_axis_more(void) {
    for (size_t i = 0; i < COUNT_OF(others); i++) try_all(&others[i]);
}

/* ---- routines -------------------------------------------------------------------------------- */

static qn_tensor *definite(qn_tensor *a) {
    return qn_add(qn_matmul(a, qn_transpose(a, 0, 1)), qn_eye(qn_context(a), qn_dtype_of(a), 3, 3));
}
static qn_tensor *sorted(qn_tensor *const *x) {
    return qn_sort(x[0], 1, true);
}
static qn_tensor *places(qn_tensor *const *x) {
    return qn_argsort(x[0], 0, false);
}
static qn_tensor *top(qn_tensor *const *x) {
    qn_tensor *v, *i;
    return qn_topk(x[0], 2, 1, true, &v, &i) ? NULL : qn_add(v, qn_cast(i, QN_F32));
}
static qn_tensor *middle(qn_tensor *const *x) {
    return qn_median(x[0], 1, false);
}
static qn_tensor *usual(qn_tensor *const *x) {
    qn_tensor *v, *i;
    return qn_mode(x[0], 1, false, &v, &i) ? NULL : v;
}
static qn_tensor *different(qn_tensor *const *x) {
    qn_tensor *values, *counts, *n;
    if (qn_unique(x[0], &values, NULL, NULL, &counts, &n)) return NULL;
    return qn_add(qn_add(values, qn_cast(counts, QN_F32)), qn_cast(n, QN_F32));
}
static qn_tensor *root(qn_tensor *const *x) {
    return qn_cholesky(definite(x[0]), false);
}
static qn_tensor *triangular(qn_tensor *const *x) {
    return qn_solve_triangular(definite(x[0]), x[1], false, false, false);
}
static qn_tensor *solved(qn_tensor *const *x) {
    return qn_solve(definite(x[0]), x[1]);
}
static qn_tensor *volume(qn_tensor *const *x) {
    return qn_det(definite(x[0]));
}
static qn_tensor *power(qn_tensor *const *x) {
    return qn_matrix_exp(x[0]);
}
static qn_tensor *orthogonal(qn_tensor *const *x) {
    qn_tensor *q, *r;
    return qn_qr(x[0], &q, &r) ? NULL : qn_concat(2, (qn_tensor *[]){q, r}, 0);
}
static qn_tensor *proper(qn_tensor *const *x) {
    qn_tensor *w, *v;
    return qn_eigh(definite(x[0]), &w, &v) ? NULL : qn_add(w, v);
}
static qn_tensor *improper(qn_tensor *const *x) {
    qn_tensor *w, *v;
    return qn_eig(x[0], &w, &v) ? NULL : qn_add(qn_real(w), qn_abs(v));
}
static qn_tensor *singular(qn_tensor *const *x) {
    qn_tensor *u, *s, *v;
    return qn_svd(x[0], &u, &s, &v) ? NULL : qn_add(qn_add(u, s), v);
}
static qn_tensor *searched(qn_tensor *const *x) {
    return qn_searchsorted(qn_sort(x[0], 0, false), x[1], true);
}
static qn_tensor *found(qn_tensor *const *x) {
    qn_tensor *at, *n;
    return qn_nonzero(x[0], 6, &at, &n) ? NULL : qn_add(at, n);
}
static qn_tensor *drawn(qn_tensor *const *x) {
    return qn_gamma(x[0], x[1]);
}
static qn_tensor *uniform(qn_tensor *const *x) {
    return qn_uniform(x[0], QN_F32, 1, (int64_t[]){5});
}
static qn_tensor *transformed(qn_tensor *const *x) {
    return qn_fft(x[0], 8, 0, QN_NORM_BACKWARD);
}

static void add_all(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    const float *x = in[0].data;
    float *sum = out[0].data;
    (void)arg;
    *sum = 0;
    for (int64_t i = 0; i < in[0].shape[0]; i++) *sum += x[i];
}
static qn_tensor *added(qn_tensor *const *x) {
    qn_custom_options o =
        QN_CUSTOM_OPTIONS(.name = "added", .n_in = 1, .n_out = 1, .function = add_all);
    o.in_dtypes[0] = o.out_dtypes[0] = QN_F32;
    qn_tensor *y;
    return qn_custom_call(qn_custom_new(qn_context(x[0]), &o), 1, x, 1, &(qn_custom_shape){0}, &y)
               ? NULL
               : y;
}

#define KEY                                                                                        \
    { QN_U32, 1, {2}, 0, 1000, true }
#define POSITIVE(n)                                                                                \
    { QN_F32, 1, {n}, 0.5, 4, false }
static const example routines[] = {
    {"sort", sorted, 1, {F32(2, 5)}},
    {"argsort", places, 1, {F32(5, 2)}},
    {"topk", top, 1, {F32(2, 5)}},
    {"median", middle, 1, {F32(2, 5)}},
    {"mode", usual, 1, {F32(2, 5)}},
    {"unique", different, 1, {F32(6)}},
    {"cholesky", root, 1, {F32(3, 3)}},
    {"solve_triangular", triangular, 2, {F32(3, 3), F32(3, 2)}},
    {"solve", solved, 2, {F32(3, 3), F32(3, 2)}},
    {"det", volume, 1, {F32(3, 3)}},
    {"matrix_exp", power, 1, {F32(3, 3)}},
    {"qr", orthogonal, 1, {F32(3, 3)}},
    {"eigh", proper, 1, {F32(3, 3)}},
    {"eig", improper, 1, {F32(3, 3)}},
    {"svd", singular, 1, {F32(3, 3)}},
    {"searchsorted", searched, 2, {F32(6), F32(2, 4)}},
    {"nonzero", found, 1, {BOOL(2, 3)}},
    {"gamma", drawn, 2, {KEY, POSITIVE(4)}},
    {"uniform", uniform, 1, {KEY}},
    {"fft", transformed, 1, {F32(8, 2)}},
    {"custom", added, 1, {F32(6)}},
};

static void routines_have_more_items_or_take_examples_in_turn(void) {
    for (size_t i = 0; i < COUNT_OF(routines); i++) try_all(&routines[i]);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* h = w h + x over the rows x, of at most `most` trips where that is given. */
static qn_tensor *recurrence(qn_tensor *const *x) {
    qn_ctx *qn = qn_context(x[0]);
    qn_loop *l = qn_loop_begin(qn, 1, &x[0], 1, &x[1], NULL);
    qn_tensor *h = qn_loop_state(l, 0);
    h = qn_add(qn_mul(h, x[2]), qn_loop_slice(l, 0));
    qn_loop_end(l, 1, &h, 1, &h);
    qn_tensor *y = qn_add(qn_loop_output(l, 0), qn_loop_final(l, 0));
    y = qn_add(y, qn_cast(qn_loop_trips(l), QN_F32));
    qn_loop_free(l);
    return y;
}

static qn_tensor *some_trips(qn_tensor *const *x) {
    qn_ctx *qn = qn_context(x[0]);
    qn_loop *l = qn_loop_begin(qn, 1, &x[0], 0, NULL, &QN_LOOP_OPTIONS(.trips = 4, .most = x[1]));
    qn_tensor *h = qn_loop_state(l, 0);
    h = qn_add(qn_add(h, h), x[2]);
    qn_loop_end(l, 1, &h, 1, &h);
    qn_tensor *y = qn_add(qn_loop_output(l, 0), qn_loop_final(l, 0));
    qn_loop_free(l);
    return y;
}

/* Doubled until it is more than 9. */
static qn_tensor *doubled(qn_tensor *const *x) {
    qn_ctx *qn = qn_context(x[0]);
    qn_loop *l = qn_loop_begin(qn, 1, &x[0], 0, NULL, &QN_LOOP_OPTIONS(.trips = 20));
    qn_tensor *h = qn_loop_state(l, 0), *sum = qn_sum(qn_abs(h), QN_ALL, false);
    qn_loop_while(l, qn_le(sum, qn_like(sum, 9)));
    h = qn_add(qn_add(h, h), qn_like(h, 1));
    qn_loop_end(l, 1, &h, 0, NULL);
    qn_tensor *y = qn_add(qn_loop_final(l, 0), qn_cast(qn_loop_trips(l), QN_F32));
    qn_loop_free(l);
    return y;
}

/* A loop in a loop, the inner one over rows of the outer one's state. */
static qn_tensor *loops_in_loops(qn_tensor *const *x) {
    qn_ctx *qn = qn_context(x[0]);
    qn_loop *l = qn_loop_begin(qn, 1, &x[0], 0, NULL, &QN_LOOP_OPTIONS(.trips = 2));
    qn_tensor *h = qn_loop_state(l, 0), *zero = qn_select(qn_zeros_like(h), 0, 0);
    qn_loop *inner = qn_loop_begin(qn, 1, &zero, 1, &h, NULL);
    qn_tensor *s = qn_add(qn_loop_state(inner, 0), qn_mul(qn_loop_slice(inner, 0), x[1]));
    qn_loop_end(inner, 1, &s, 1, &s);
    h = qn_loop_output(inner, 0);
    qn_loop_free(inner);
    qn_loop_end(l, 1, &h, 0, NULL);
    qn_tensor *y = qn_loop_final(l, 0);
    qn_loop_free(l);
    return y;
}

static qn_code more(qn_ctx *qn, void *arg, qn_tensor **y) {
    qn_tensor *const *x = arg;
    (void)qn;
    y[0] = qn_add(x[1], x[1]);
    return QN_OK;
}
static qn_code less(qn_ctx *qn, void *arg, qn_tensor **y) {
    qn_tensor *const *x = arg;
    (void)qn;
    y[0] = qn_neg(x[1]);
    return QN_OK;
}
static qn_tensor *branched(qn_tensor *const *x) {
    qn_tensor *y = NULL;
    qn_cond(qn_context(x[0]), x[0], 1, more, less, (void *)(uintptr_t)x, &y);
    return y;
}

#define TRIPS                                                                                      \
    { QN_I64, 0, {0}, 0, 5, true }
#define TRUTH                                                                                      \
    { QN_BOOL, 0, {0}, 0, 2, true }
static const example loops[] = {
    {"loop", recurrence, 3, {F32(2), F32(4, 2), F32(2)}},
    {"loop of some trips", some_trips, 3, {F32(2), TRIPS, F32(2)}},
    {"loop while", doubled, 1, {F32(2)}},
    {"loop in a loop", loops_in_loops, 2, {F32(3, 2), F32(2)}},
    {"branch", branched, 2, {TRUTH, F32(3)}},
};

static void loops_have_batched_bodies_or_take_examples_in_turn(void) {
    for (size_t i = 0; i < COUNT_OF(loops); i++) try_all(&loops[i]);
}

/* ---- derivatives ----------------------------------------------------------------------------- */

static qn_tensor *net(qn_tensor *x, qn_tensor *w) {
    qn_tensor *h = qn_matmul(qn_unsqueeze(x, 0), w);
    return qn_sum(qn_mul(h, qn_mul(h, h)), QN_ALL, false);
}

/* d net / d w of one example. */
static qn_tensor *slope_body(qn_tensor *const *x) {
    qn_tensor *g, *w = x[1];
    return qn_grad(net(x[0], w), NULL, 1, &w, &g) ? NULL : g;
}
/* The gradient of a recurrence by what it begins with. */
static qn_tensor *loop_slope(qn_tensor *const *x) {
    qn_tensor *g, *h = x[0];
    return qn_grad(qn_sum(recurrence(x), QN_ALL, false), NULL, 1, &h, &g) ? NULL : g;
}
/* Two layers, computed again for their gradient. */
static qn_tensor *again_body(qn_tensor *const *x) {
    qn_tensor *begin = x[0], *h = qn_mul(qn_mul(begin, begin), x[1]), *g;
    if (qn_checkpoint(1, &h, 1, &begin, &h)) return NULL;
    return qn_grad(qn_sum(qn_mul(h, h), QN_ALL, false), NULL, 1, &begin, &g) ? NULL : qn_add(g, h);
}
/* y = x w, whose gradient by x and w are given, and not what they were. */
static qn_tensor *given(qn_tensor *x, qn_tensor *w) {
    qn_tensor *y = qn_mul(x, w), *u = qn_placeholder(y), *out;
    qn_tensor *slopes[2] = {qn_mul(u, u), qn_sub(u, x)};
    return qn_custom_gradient(1, &y, &u, 2, (qn_tensor *[]){x, w}, slopes, &out) ? NULL : out;
}
static qn_tensor *given_body(qn_tensor *const *x) {
    qn_tensor *y = given(x[0], x[1]), *g[2];
    if (qn_grad(qn_mul(y, x[1]), NULL, 2, x, g)) return NULL;
    return qn_concat(3, (qn_tensor *[]){g[0], g[1], y}, 0);
}

static const example slopes[] = {
    {"gradient", slope_body, 2, {F32(3), F32(3, 4)}},
    {"gradient of a loop", loop_slope, 3, {F32(2), F32(4, 2), F32(2)}},
    {"checkpoint", again_body, 2, {F32(4), F32(4)}},
    {"custom gradient", given_body, 2, {F32(4), F32(4)}},
};

static void gradients_are_each_examples_own(void) {
    for (size_t i = 0; i < COUNT_OF(slopes); i++) try_all(&slopes[i]);
}

/* Of a given gradient that is taken behind the map. */
static void gradients_pass_what_was_mapped(void) {
    qn_ctx *qn = opened();
    const input many = {QN_F32, 2, {MANY, 4}, -4, 5, true}, few = {QN_F32, 1, {4}, -4, 5, true};
    for (int how = 0; how < 2; how++) {
        qn_tensor *x = filled(qn, &many, 1), *w = filled(qn, &few, 2), *e = qn_example(x, 0);
        qn_tensor *y = how ? given(e, w) : qn_mul(qn_mul(e, e), w), *all, *got[2];
        CHECK_INT(qn_vmap(1, &y, NULL, 1, &e, &x, NULL, &all), QN_OK);
        qn_tensor *loss = qn_sum(qn_mul(all, all), QN_ALL, false), *want[2] = {NULL, NULL};
        CHECK_INT(qn_grad(loss, NULL, 2, (qn_tensor *[]){x, w}, got), QN_OK);
        qn_tensor *rows[MANY];
        for (int i = 0; i < MANY; i++) {
            qn_tensor *row = qn_contiguous(qn_select(x, 0, i)), *one, *g[2];
            one = how ? given(row, w) : qn_mul(qn_mul(row, row), w);
            one = qn_sum(qn_mul(one, one), QN_ALL, false);
            CHECK_INT(qn_grad(one, NULL, 2, (qn_tensor *[]){row, w}, g), QN_OK);
            rows[i] = g[0];
            want[1] = want[1] ? qn_add(want[1], g[1]) : g[1];
        }
        CHECK(same_bits(got[0], qn_stack(MANY, rows, 0)));
        CHECK(same_bits(got[1], want[1]));
    }
    qn_close(qn);
}

/* ---- as a whole ------------------------------------------------------------------------------ */

/* Distances of all pairs of rows, by a map in a map. */
static void maps_nest(void) {
    qn_ctx *qn = opened();
    qn_tensor *a = filled(qn, &matrix, 1), *b = filled(qn, &matrix, 2);
    qn_tensor *x = qn_example(a, 0), *y = qn_example(b, 0), *d, *all;
    d = qn_sum(qn_square(qn_sub(x, y)), QN_ALL, false);
    CHECK_INT(qn_vmap(1, &d, NULL, 1, &y, &b, NULL, &d), QN_OK);
    CHECK_INT(qn_vmap(1, &d, NULL, 1, &x, &a, NULL, &all), QN_OK);
    qn_tensor *want = qn_sub(qn_unsqueeze(a, 1), qn_unsqueeze(b, 0));
    CHECK(same_bits(all, qn_sum(qn_square(want), 2, false)));
    /* rows of rows: an example of an example */
    x = qn_example(a, 0), y = qn_example(x, 0);
    d = qn_mul(y, y);
    CHECK_INT(qn_vmap(1, &d, NULL, 1, &y, &x, NULL, &d), QN_OK);
    CHECK_INT(qn_vmap(1, &d, (int[]){1}, 1, &x, &a, NULL, &all), QN_OK);
    CHECK(same_bits(all, qn_transpose(qn_square(a), 0, 1)));
    qn_close(qn);
}

static qn_code affine(qn_ctx *qn, void *arg, qn_tensor *const *x, qn_tensor **y) {
    (void)qn;
    y[0] = qn_add(qn_matmul(qn_unsqueeze(x[0], 0), x[1]), arg);
    y[1] = qn_neg(x[1]);
    return QN_OK;
}

static void bodies_are_functions_too(void) {
    qn_ctx *qn = opened();
    qn_tensor *x = filled(qn, &matrix, 1), *w = filled(qn, &(input)F32(4, 2), 2), *y[2];
    qn_tensor *b = filled(qn, &(input)F32(2), 3);
    const int in[2] = {0, QN_UNBATCHED}, out[2] = {0, QN_UNBATCHED};
    qn_vmap_call c = {.body = affine,
                      .arg = b,
                      .n_in = 2,
                      .inputs = (qn_tensor *[]){x, w},
                      .in_axes = in,
                      .n_out = 2,
                      .out_axes = out};
    CHECK_INT(qn_vmap_run(qn, &c, y), QN_OK);
    CHECK(same_bits(qn_reshape(y[0], 2, (int64_t[]){3, 2}), qn_add(qn_matmul(x, w), b)));
    CHECK(same_bits(y[1], qn_neg(w)));
    c.in_axes = (int[]){0, 5};
    CHECK_INT(qn_vmap_run(qn, &c, y), QN_ERANGE);
    CHECK(!y[0] && !y[1]);
    qn_close(qn);
}

/* A product of each example and a weight is one product, as without the map: the same kernels. */
static void a_product_of_examples_is_one_product(void) {
    uint64_t launches[2];
    for (int mapped = 0; mapped < 2; mapped++) {
        qn_ctx *qn = opened();
        qn_tensor *x = filled(qn, &(input)F32(32, 16), 1), *w = filled(qn, &(input)F32(16, 24), 2);
        qn_tensor *e = qn_example(x, 0), *y = qn_matmul(x, w);
        if (mapped) {
            y = qn_reshape(qn_matmul(qn_unsqueeze(e, 0), w), 1, (int64_t[]){24});
            CHECK_INT(qn_vmap(1, &y, NULL, 1, &e, &x, NULL, &y), QN_OK);
        }
        qn_stats s;
        CHECK_INT(qn_realize(1, &y), QN_OK);
        qn_get_stats(qn, &s, sizeof s);
        launches[mapped] = s.kernels;
        qn_close(qn);
    }
    CHECK_INT(launches[1], launches[0]);
}

static void static_graphs_have_maps(void) {
    qn_ctx *qn = opened();
    qn_tensor *x = filled(qn, &matrix, 1), *other = filled(qn, &matrix, 2), *got;
    qn_tensor *e = qn_example(x, 1), *y = qn_sum(qn_mul(e, e), 0, false);
    CHECK_INT(qn_vmap(1, &y, NULL, 1, &e, &x, (int[]){1}, &y), QN_OK);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK_INT(qn_plan_run(plan, &other, &got), QN_OK);
    CHECK(same_bits(got, qn_sum(qn_mul(other, other), 0, false)));
    qn_plan_free(plan);
    qn_close(qn);
}

static void a_number_of_examples_may_be_a_variable(void) {
    qn_ctx *qn = opened();
    int64_t t = qn_var(qn, "t", 1, 8);
    CHECK_INT(qn_bind(qn, t, 3), QN_OK);
    float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 4}, data), *e = qn_example(x, 0);
    qn_tensor *y = qn_cumsum(e, 0);
    CHECK_INT(qn_vmap(1, &y, NULL, 1, &e, &x, NULL, &y), QN_OK);
    CHECK(qn_dim(y, 0) == t);
    CHECK(same_bits(y, qn_cumsum(x, 1)));
    qn_close(qn);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void what_does_not_fit_is_named(void) {
    qn_ctx *qn = opened();
    qn_tensor *a = filled(qn, &matrix, 1), *b = filled(qn, &(input)F32(2, 4), 2), *out;
    qn_tensor *two[2] = {qn_example(a, 0), qn_example(b, 0)}, *y = qn_add(two[0], two[1]);
    CHECK(qn_vmap(1, &y, NULL, 2, two, (qn_tensor *[]){a, b}, NULL, &out) == QN_ESHAPE && !out);
    expect_error(qn, QN_ESHAPE, "input 0 has 3 examples along its axis 0, and input 1 has 2");
    CHECK(qn_vmap(1, &y, NULL, 1, two, (qn_tensor *[]){a}, (int[]){1}, &out) == QN_ESHAPE);
    expect_error(qn, QN_ESHAPE, "example 0 is f32[4], and input 0 is f32[3, 4] with its axis 1");
    CHECK(qn_vmap(1, &y, NULL, 1, two, (qn_tensor *[]){qn_cast(a, QN_F64)}, NULL, &out) ==
          QN_EDTYPE);
    expect_error(qn, QN_EDTYPE, "example 0 is f32[4], and input 0 is f64[3, 4]");
    CHECK(qn_vmap(1, &y, NULL, 1, two, (qn_tensor *[]){a}, (int[]){2}, &out) == QN_ERANGE);
    expect_error(qn, QN_ERANGE, "vmap: input 0: axis 2 of rank 2");
    CHECK(qn_vmap(1, &y, (int[]){-3}, 1, two, (qn_tensor *[]){a}, NULL, &out) == QN_ERANGE);
    expect_error(qn, QN_ERANGE, "vmap: result 0: axis -3 of rank 2");
    CHECK(qn_vmap(1, &y, NULL, 1, &y, &a, NULL, &out) == QN_EARG);
    expect_error(qn, QN_EARG, "example 0 is none");
    CHECK(qn_vmap(1, &y, NULL, 0, NULL, NULL, NULL, &out) == QN_EARG);
    expect_error(qn, QN_EARG, "no input has an axis of examples");
    CHECK(qn_vmap(1, &y, (int[]){QN_UNBATCHED}, 1, two, &a, NULL, &out) == QN_EGRAPH);
    expect_error(qn, QN_EGRAPH, "result 0 follows an example");
    float four[4];
    CHECK(qn_read(y, four, sizeof four) == QN_EGRAPH);
    expect_error(qn, QN_EGRAPH, "a value of one example");
    qn_tensor *state = filled(qn, &(input)F32(4), 3);
    CHECK(qn_assign(state, y) == QN_EGRAPH);
    expect_error(qn, QN_EGRAPH, "a value of one example");
    CHECK_INT(qn_read(state, four, sizeof four), QN_OK);
    CHECK(!qn_example(a, 2));
    expect_error(qn, QN_ERANGE, "example");
    qn_tensor *deep = two[0];
    for (int i = 1; i < QN_MAX_RANK; i++) deep = qn_add(qn_unsqueeze(deep, i), two[0]);
    deep = qn_max(deep, QN_ALL, false);
    CHECK(qn_vmap(1, &deep, NULL, 1, two, &a, NULL, &out) == QN_ESHAPE);
    expect_error(qn, QN_ESHAPE, "no room for an axis of examples");
    qn_close(qn);
}

static void every_row_was_tried(void) {
    for (int op = 1; op < OP_COUNT; op++) {
        CHECK(batch_rules[op] != NULL);
        int class_ = op_rows[op].class_;
        if (class_ != CLASS_LEAF && !seen_op[op]) FAIL("no test of %s", op_rows[op].name);
    }
    for (int r = 0; r < ROUTINE_COUNT; r++)
        if (!seen_routine[r]) FAIL("no test of routine %s", routine_rows[r].name);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(elementwise_rows_have_more_elements);
    RUN(movements_reductions_and_indices_have_an_axis_more);
    RUN(routines_have_more_items_or_take_examples_in_turn);
    RUN(loops_have_batched_bodies_or_take_examples_in_turn);
    RUN(gradients_are_each_examples_own);
    RUN(gradients_pass_what_was_mapped);
    RUN(maps_nest);
    RUN(bodies_are_functions_too);
    RUN(a_product_of_examples_is_one_product);
    RUN(static_graphs_have_maps);
    RUN(a_number_of_examples_may_be_a_variable);
    RUN(what_does_not_fit_is_named);
    if (argc < 2) RUN(every_row_was_tried);
    return test_end();
}
