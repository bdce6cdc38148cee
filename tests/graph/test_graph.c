/* test_graph.c - the node store, handles and scopes, shapes, and the checked constructors: what is
 * shared, what is freed, what is refused and with which words. A context is put together by hand
 * from the rooms below the graph, so that nothing is ever computed. */
#include "eval.h"
#include "func/func.h"

static tuple_id shape2(qn_ctx *qn, int64_t a, int64_t b) {
    tuple_id shape = 0;
    CHECK(shape_from_user(qn, "test", 2, (int64_t[]){a, b}, &shape));
    return shape;
}

static qn_tensor *add(qn_tensor *a, qn_tensor *b) {
    return build_elem(OP_ADD, 2, (qn_tensor *const[]){a, b});
}

static qn_tensor *unary(int op, qn_tensor *a) {
    return build_elem(op, 1, &a);
}

static const char *shape_of(qn_tensor *t) {
    static char text[200];
    graph *g = tensor_ctx(t)->graph;
    g->text.len = 0;
    shape_text(g, g->node[tensor_at(t)->node].shape, &g->text);
    snprintf(text, sizeof text, "%s", g->text.s);
    return text;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void a_node_fits_in_64_bytes(void) {
    CHECK(sizeof(graph_node) <= 64);
}

static void equal_expressions_are_one_node(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = leaf(qn, QN_F32, 2, (int64_t[]){2, 3});
    qn_tensor *y = leaf(qn, QN_F32, 2, (int64_t[]){2, 3});
    CHECK(tensor_at(x)->node != tensor_at(y)->node);
    qn_tensor *a = add(x, y), *b = add(x, y), *c = add(y, x);
    CHECK(a && b && c && a != b);
    CHECK_INT(tensor_at(a)->node, tensor_at(b)->node);
    CHECK(tensor_at(a)->node != tensor_at(c)->node);
    CHECK(tensor_at(unary(OP_EXP, a))->node == tensor_at(unary(OP_EXP, b))->node);
    CHECK(tensor_at(unary(OP_EXP, a))->node != tensor_at(unary(OP_LOG, a))->node);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void scopes_free_what_was_not_kept(void) {
    qn_ctx *qn = open_graph();
    qn_scope outer = qn_scope_begin(qn);
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4}), *kept;
    qn_scope inner = qn_scope_begin(qn);
    qn_tensor *y = unary(OP_EXP, x);
    kept = qn_keep(unary(OP_LOG, y));
    unary(OP_SIN, y);
    CHECK_INT(qn->graph->live, 4);
    qn_scope_end(qn, inner);
    CHECK_INT(qn->graph->live, 3);
    CHECK_INT(qn->graph->handles, 2);
    qn_scope_end(qn, outer);
    CHECK_INT(qn->graph->live, 3); /* the kept one and its sources */
    CHECK_INT(qn->graph->handles, 1);
    qn_release(kept);
    CHECK_INT(qn->code, QN_OK);
    close_graph(qn);
}

static void a_scope_hands_on_what_a_function_returns(void) {
    qn_ctx *qn = open_graph();
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    qn_scope outer = qn_scope_begin(qn), inner = qn_scope_begin(qn);
    qn_tensor *y = unary(OP_LOG, unary(OP_EXP, x));
    CHECK(qn_scope_return(qn, inner, y) == y);
    CHECK_INT(qn->graph->handles, 2);
    inner = qn_scope_begin(qn);
    qn_tensor *same = qn_scope_return(qn, inner, y); /* made outside: a handle of its own */
    CHECK(same && same != y && tensor_at(same)->node == tensor_at(y)->node);
    inner = qn_scope_begin(qn);
    unary(OP_SIN, y);
    CHECK(!qn_scope_return(qn, inner, NULL));
    CHECK_INT(qn->graph->handles, 3);
    CHECK_INT(qn->code, QN_OK);
    CHECK(!qn_scope_return(qn, 7, y) && qn->code == QN_EARG);
    qn_clear_error(qn);
    qn_scope_end(qn, outer);
    CHECK_INT(qn->graph->handles, 1);
    inner = qn_scope_begin(qn); /* with no scope around, the caller releases it */
    y = qn_scope_return(qn, inner, unary(OP_EXP, x));
    CHECK_INT(qn->graph->handles, 2);
    qn_release(y);
    qn_release(x);
    CHECK_INT(qn->code, QN_OK);
    close_graph(qn);
}

static void outside_scopes_the_caller_releases(void) {
    qn_ctx *qn = open_graph();
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4}), *y = unary(OP_EXP, x);
    qn_release(x);
    CHECK_INT(qn->graph->live, 2);
    qn_release(y);
    CHECK_INT(qn->graph->live, 0);
    qn_release(NULL);
    CHECK_INT(qn->code, QN_OK);
    qn_release(y);
    CHECK_INT(qn->code, QN_EGRAPH);
    close_graph(qn);
}

static void a_release_too_many_does_not_break_the_scope(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    qn_release(x);
    CHECK_INT(qn->code, QN_EGRAPH);
    CHECK(unary(OP_EXP, x) != NULL);
    qn_scope_end(qn, s);
    qn_clear_error(qn);
    CHECK(unary(OP_EXP, x) == NULL);
    CHECK_STR(qn_error(qn), "exp: x is a tensor that was released");
    close_graph(qn);
}

static void scopes_left_open_end_with_the_outer(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_scope_begin(qn);
    leaf(qn, QN_F32, 1, (int64_t[]){4});
    qn_scope_end(qn, s);
    CHECK_INT(qn->graph->live, 0);
    qn_scope_end(qn, s);
    CHECK_INT(qn->code, QN_EARG);
    close_graph(qn);
}

static void a_function_moves_its_result_outward(void) {
    qn_ctx *qn = open_graph();
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    func_frame f = func_begin(qn, "test");
    qn_tensor *y = func_end(f, unary(OP_EXP, unary(OP_LOG, x)));
    CHECK_INT(qn->graph->handles, 2);
    f = func_begin(qn, "test");
    qn_tensor *same = func_end(f, x); /* the argument as the result */
    CHECK(same != x && tensor_at(same)->node == tensor_at(x)->node);
    qn_release(same);
    qn_scope outer = qn_scope_begin(qn);
    f = func_begin(qn, "test");
    func_end(f, unary(OP_SIN, x));
    CHECK_INT(qn->graph->handles, 3);
    qn_scope_end(qn, outer);
    CHECK_INT(qn->graph->handles, 2);
    qn_release(x);
    qn_release(y);
    CHECK_INT(qn->code, QN_OK);
    close_graph(qn);
}

static void a_long_chain_is_freed_and_walked_without_recursion(void) {
    qn_ctx *qn = open_graph();
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    enum { DEEP = 300000 };
    for (int i = 0; i < DEEP; i++) {
        qn_tensor *y = unary(i & 1 ? OP_SIN : OP_EXP, x);
        qn_release(x);
        x = y;
    }
    CHECK_INT(qn->graph->live, DEEP + 1);
    arena a;
    arena_open(&a, &qn->heap);
    node_id *order;
    uint32_t n = graph_order(qn->graph, &a, 1, &tensor_at(x)->node, &order);
    CHECK_INT(n, DEEP + 1);
    for (uint32_t i = 1; i < n; i++) CHECK(node_at(qn->graph, order[i])->src[0] == order[i - 1]);
    arena_free(&a);
    qn_release(x);
    close_graph(qn);
}

static void order_puts_sources_first_and_each_once(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    graph *g = qn->graph;
    qn_tensor *made[60];
    uint64_t seed = 7;
    for (int i = 0; i < 60; i++) {
        if (i < 3)
            made[i] = leaf(qn, QN_F32, 1, (int64_t[]){4});
        else
            made[i] = add(made[test_below(&seed, i)], made[test_below(&seed, i)]);
    }
    arena a;
    arena_open(&a, &qn->heap);
    for (int k = 0; k < 3; k++) {
        node_id roots[2] = {tensor_at(made[59 - k])->node, tensor_at(made[40 + k])->node}, *order;
        uint32_t n = graph_order(g, &a, 2, roots, &order);
        for (uint32_t i = 0; i < n; i++) {
            const graph_node *node = node_at(g, order[i]);
            CHECK_INT(node->mark - g->mark_base, i);
            for (int j = 0; j < node->sources; j++)
                CHECK(g->node[node->src[j]].mark - g->mark_base < i);
        }
    }
    arena_free(&a);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static int dropped;
static void count_drop(qn_ctx *qn, uint32_t buffer) {
    (void)qn;
    dropped += (int)buffer;
}

static void realized_nodes_keep_their_history(void) {
    qn_ctx *qn = open_graph();
    graph *g = qn->graph;
    g->drop_buffer = count_drop;
    dropped = 0;
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    qn_tensor *y = unary(OP_EXP, x), *whole = unary(OP_FLOOR, y);
    graph_realized(g, tensor_at(y)->node, 100);
    graph_realized(g, tensor_at(whole)->node, 1000);
    CHECK_INT(node_at(g, tensor_at(y)->node)->op, OP_EXP);
    CHECK_INT(node_at(g, tensor_at(whole)->node)->op, OP_FLOOR); /* static graphs pass it */
    qn_tensor *again = unary(OP_EXP, x);
    CHECK_INT(tensor_at(again)->node, tensor_at(y)->node);
    qn_release(again);
    qn_release(whole);
    CHECK_INT(dropped, 1000);
    qn_release(y);
    CHECK_INT(dropped, 1100);
    qn_release(x);
    graph_close(qn);
    CHECK_INT(qn->heap.bytes, 0);
    free(qn);
}

/* x -> y -> z, where only z is held: y's value goes, and comes back into need by a new user. */
static void a_value_goes_when_nobody_can_ask_for_it(void) {
    qn_ctx *qn = open_graph();
    graph *g = qn->graph;
    g->drop_buffer = count_drop;
    dropped = 0;
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4}), *y = unary(OP_EXP, x);
    qn_tensor *z = unary(OP_SIN, y);
    node_id square = tensor_at(y)->node;
    CHECK_INT(node_at(g, tensor_at(x)->node)->needs, 2);
    graph_realized(g, square, 100);
    CHECK_INT(node_at(g, tensor_at(x)->node)->needs, 1); /* y has its value */
    qn_release(y);
    CHECK_INT(dropped, 0); /* z needs it */
    graph_realized(g, tensor_at(z)->node, 10);
    CHECK_INT(dropped, 100);
    CHECK_INT(node_at(g, square)->flags & NODE_REALIZED, 0);
    CHECK_INT(node_at(g, square)->op, OP_EXP);
    qn_tensor *w = unary(OP_EXP, x);
    CHECK_INT(tensor_at(w)->node, square);
    CHECK_INT(node_at(g, tensor_at(x)->node)->needs, 2);
    qn_release(w);
    qn_release(z);
    CHECK_INT(dropped, 110);
    qn_release(x);
    close_graph(qn);
}

static void a_tape_keeps_values_until_its_end(void) {
    qn_ctx *qn = open_graph();
    graph *g = qn->graph;
    g->drop_buffer = count_drop;
    dropped = 0;
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    qn_tape *tape = qn_tape_begin(qn), *second = qn_tape_begin(qn);
    qn_tensor *y = unary(OP_EXP, x), *z = unary(OP_SIN, y);
    graph_realized(g, tensor_at(y)->node, 5);
    graph_realized(g, tensor_at(z)->node, 50);
    qn_release(y);
    qn_release(x);
    qn_tape_end(second);
    CHECK_INT(g->live, 3);
    CHECK_INT(dropped, 0);
    qn_tape_end(tape);
    CHECK_INT(g->live, 3); /* z is held, and its history is short */
    CHECK_INT(dropped, 5);
    qn_release(z);
    CHECK_INT(dropped, 55);
    qn_tape_end(NULL);
    close_graph(qn);
}

static void history_is_cut_at_its_oldest(void) {
    qn_ctx *qn = open_graph();
    graph *g = qn->graph;
    qn->knob[KNOB_HISTORY].number = 1;
    qn_tensor *x = leaf(qn, QN_F32, 1, (int64_t[]){4});
    for (int i = 0; i < 100000; i++) {
        qn_tensor *y = unary(i & 1 ? OP_EXP : OP_SIN, x);
        graph_realized(g, tensor_at(y)->node, 0);
        qn_release(x);
        x = y;
        history_trim(g);
    }
    CHECK(g->live > 1000 && g->live < 20000);
    CHECK_INT(g->idle, g->live - 1);
    node_id n = tensor_at(x)->node;
    while (node_at(g, n)->sources) n = node_at(g, n)->src[0];
    CHECK(node_at(g, n)->flags & NODE_LOST);
    qn_release(x);
    close_graph(qn);
}

static void pending_handles_leave_in_order(void) {
    qn_ctx *qn = open_graph();
    graph *g = qn->graph;
    qn_tensor *t[4];
    g->pending = heap_grow(&qn->heap, NULL, &g->pending_cap, 4, sizeof(tensor *));
    for (int i = 0; i < 4; i++) {
        t[i] = leaf(qn, QN_F32, 0, NULL);
        g->pending[g->pending_count++] = tensor_at(t[i]);
        tensor_at(t[i])->pending = g->pending_count;
        tensor_at(t[i])->replaced = tensor_at(t[i])->node;
        node_ref(g, tensor_at(t[i])->node);
        value_need(g, tensor_at(t[i])->node);
    }
    qn_release(t[1]);
    CHECK_INT(g->pending_count, 3);
    CHECK(g->pending[0] == tensor_at(t[0]) && g->pending[1] == tensor_at(t[2]) &&
          g->pending[2] == tensor_at(t[3]));
    CHECK_INT(tensor_at(t[3])->pending, 3);
    qn_release(t[3]);
    qn_release(t[0]);
    CHECK(g->pending_count == 1 && g->pending[0] == tensor_at(t[2]) &&
          tensor_at(t[2])->pending == 1);
    qn_release(t[2]);
    close_graph(qn);
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void shapes_broadcast_as_in_numpy(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *a = leaf(qn, QN_F32, 3, (int64_t[]){2, 1, 4});
    qn_tensor *b = leaf(qn, QN_F32, 2, (int64_t[]){3, 1});
    qn_tensor *zero = leaf(qn, QN_F32, 1, (int64_t[]){0});
    CHECK_STR(shape_of(add(a, b)), "[2, 3, 4]");
    CHECK_STR(shape_of(add(b, zero)), "[3, 0]");
    CHECK_STR(shape_of(add(a, leaf(qn, QN_F32, 0, NULL))), "[2, 1, 4]");
    CHECK(add(a, zero) == NULL);
    CHECK_STR(qn_error(qn), "add: [2, 1, 4] and [0] do not broadcast");
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void types_promote_or_are_refused(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t[DTYPE_COUNT];
    for (int d = 0; d < DTYPE_COUNT; d++) t[d] = leaf(qn, (qn_dtype)d, 1, (int64_t[]){2});
    CHECK_INT(qn_dtype_of(add(t[QN_I8], t[QN_U8])), QN_I16);
    CHECK_INT(qn_dtype_of(add(t[QN_I64], t[QN_F32])), QN_F32);
    CHECK_INT(qn_dtype_of(unary(OP_EXP, t[QN_I32])), QN_F32);
    CHECK_INT(qn_dtype_of(unary(OP_EXP, t[QN_F16])), QN_F16);
    CHECK_INT(qn_dtype_of(build_elem(OP_LT, 2, (qn_tensor *const[]){t[QN_I8], t[QN_F64]})),
              QN_BOOL);
    CHECK_INT(
        qn_dtype_of(build_elem(OP_WHERE, 3, (qn_tensor *const[]){t[QN_BOOL], t[QN_I8], t[QN_I32]})),
        QN_I32);
    CHECK(add(t[QN_BOOL], t[QN_BOOL]) == NULL);
    CHECK_STR(qn_error(qn), "add: takes numbers, not bool, bool");
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK(build_elem(OP_AND, 2, (qn_tensor *const[]){t[QN_I8], t[QN_F32]}) == NULL);
    CHECK_STR(qn_error(qn), "and: takes bools or integers, not i8, f32");
    qn_clear_error(qn);
    CHECK(build_cast(t[QN_I8], QN_I32, true) == NULL);
    CHECK_STR(qn_error(qn), "bitcast: i8 and i32 differ in size");
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void errors_name_the_users_place(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *a = leaf(qn, QN_F32, 2, (int64_t[]){2, 3});
    qn_tensor *b = leaf(qn, QN_F32, 1, (int64_t[]){4});
    qn_at(qn, "user.c", 12);
    CHECK(add(a, b) == NULL);
    CHECK_STR(qn_error(qn), "user.c:12: add: [2, 3] and [4] do not broadcast");
    CHECK(add(a, NULL) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ESHAPE); /* the first stays */
    qn_clear_error(qn);
    CHECK(add(a, NULL) == NULL);
    CHECK_STR(qn_error(qn), "user.c:12: add: y is NULL");
    CHECK(add(NULL, NULL) == NULL);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void tensors_of_two_contexts_do_not_mix(void) {
    qn_ctx *one = open_graph(), *two = open_graph();
    qn_tensor *a = leaf(one, QN_F32, 0, NULL), *b = leaf(two, QN_F32, 0, NULL);
    CHECK(add(a, b) == NULL);
    CHECK_INT(qn_error_code(one), QN_EGRAPH);
    qn_release(a);
    qn_release(b);
    close_graph(one);
    close_graph(two);
}

static void huge_shapes_are_refused(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    tuple_id shape;
    int64_t big = (int64_t)1 << 40;
    CHECK(!shape_from_user(qn, "full", 2, (int64_t[]){big, big}, &shape));
    CHECK_STR(qn_error(qn), "full: a shape of more than 2^63 elements");
    qn_clear_error(qn);
    CHECK(!shape_from_user(qn, "full", 3, (int64_t[]){0, big, big}, &shape));
    qn_clear_error(qn);
    qn_tensor *a = leaf(qn, QN_F32, 2, (int64_t[]){big, 1});
    qn_tensor *b = leaf(qn, QN_F32, 2, (int64_t[]){1, big});
    CHECK(add(a, b) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!shape_from_user(qn, "full", 1, (int64_t[]){-1}, &shape));
    CHECK_STR(qn_error(qn), "full: size -1");
    qn_clear_error(qn);
    const int64_t many[QN_MAX_RANK + 1] = {1};
    CHECK(!shape_from_user(qn, "full", QN_MAX_RANK + 1, many, &shape));
    CHECK_STR(qn_error(qn), "full: rank 13, but ranks are 0 to 12");
    qn_clear_error(qn);
    int64_t pad[3] = {sym_const(qn->graph->syms, INT64_MAX), 0, 0};
    CHECK(build_pad(leaf(qn, QN_F32, 1, (int64_t[]){5}), 1, pad) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void symbolic_sizes_go_through(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    int64_t t = qn_var(qn, "t", 1, 100);
    CHECK(t < -1);
    qn_tensor *x = leaf(qn, QN_F32, 2, (int64_t[]){t, 3});
    CHECK_STR(shape_of(x), "[t, 3]");
    CHECK_INT(qn_dim(x, 0), t);
    CHECK_INT(qn_dim(x, -1), 3);
    CHECK_INT(qn_numel(x), -1);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    CHECK_INT(qn_bind(qn, t, 101), QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT(qn_bind(qn, 5, 1), QN_EARG);
    qn_clear_error(qn);
    CHECK_INT(qn_bind(qn, t, 7), QN_OK);
    CHECK_INT(qn_numel(x), 21);
    int64_t twice = dim_op(qn, t, '+', t);
    qn_tensor *y = leaf(qn, QN_F32, 1, (int64_t[]){twice});
    CHECK_INT(qn_numel(y), 14);
    CHECK_INT(dim_op(qn, 7, '*', 6), 42);
    CHECK_INT(dim_op(qn, 7, '/', 2), 3);
    CHECK_INT(dim_op(qn, 7, '-', 8), DIM_BAD);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT(qn_dim(x, 2), QN_DIM_ERROR);
    CHECK_STR(qn_error(qn), "dim: axis 2 of a tensor of rank 2");
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void movements_have_their_shapes(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    graph *g = qn->graph;
    qn_tensor *x = leaf(qn, QN_F32, 2, (int64_t[]){4, 6});
    CHECK_STR(shape_of(build_reshape(x, shape2(qn, 3, 8))), "[3, 8]");
    CHECK_STR(shape_of(build_permute(x, 2, (int[]){1, -2})), "[6, 4]");
#define K(v) ((int64_t)sym_const(g->syms, v))
    int64_t pad[6] = {K(1), K(2), 0, K(0), K(3), 2};
    CHECK_STR(shape_of(build_pad(x, 2, pad)), "[7, 19]");
    int64_t slice[6] = {K(1), K(2), 2, K(5), K(1), 1};
    CHECK_STR(shape_of(build_slice(x, 2, slice)), "[2, 1]");
    slice[1] = K(3);
    CHECK(build_slice(x, 2, slice) == NULL);
    CHECK_STR(qn_error(qn), "slice: on axis 0 of [4, 6]: the slice does not lie inside");
#undef K
    qn_clear_error(qn);
    CHECK_STR(shape_of(build_flip(x, 3)), "[4, 6]");
    CHECK(build_flip(x, 4) == NULL);
    qn_clear_error(qn);
    CHECK(build_reshape(x, shape2(qn, 5, 5)) == NULL);
    CHECK_STR(qn_error(qn), "reshape: [4, 6] has not as many elements as [5, 5]");
    qn_clear_error(qn);
    CHECK(build_permute(x, 2, (int[]){1, 1}) == NULL);
    CHECK_STR(qn_error(qn), "permute: axis 1 is out of range or there twice");
    qn_clear_error(qn);
    CHECK(build_expand(x, shape2(qn, 4, 12)) == NULL);
    CHECK_STR(qn_error(qn), "expand: [4, 6] does not expand to [4, 12]");
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void reductions_have_their_shapes(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = leaf(qn, QN_F32, 3, (int64_t[]){4, 0, 6});
    CHECK_STR(shape_of(build_reduce(OP_SUM, x, 5, false)), "[0]");
    CHECK_STR(shape_of(build_reduce(OP_SUM, x, 5, true)), "[1, 0, 1]");
    CHECK_STR(shape_of(build_reduce(OP_MAX, x, 7, false)), "[]");
    CHECK_INT(tensor_at(build_reduce(OP_MAX, x, 0, false))->node, tensor_at(x)->node);
    qn_tensor *at = build_reduce(OP_ARGMAX, x, 1, false);
    CHECK_INT(qn_dtype_of(at), QN_I64);
    CHECK(build_reduce(OP_ARGMAX, x, 2, false) == NULL);
    CHECK_STR(qn_error(qn), "argmax: axis 1 is empty");
    qn_clear_error(qn);
    CHECK(build_reduce(OP_SUM, leaf(qn, QN_BOOL, 1, (int64_t[]){4}), 1, false) == NULL);
    CHECK_STR(qn_error(qn), "sum: takes numbers, not bool");
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void gather_and_scatter_check_their_shapes(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = leaf(qn, QN_F32, 2, (int64_t[]){4, 6});
    qn_tensor *index = leaf(qn, QN_I32, 2, (int64_t[]){9, 6});
    qn_tensor *wrong = leaf(qn, QN_I32, 2, (int64_t[]){9, 5});
    qn_tensor *src = leaf(qn, QN_F32, 2, (int64_t[]){9, 6});
    CHECK_STR(shape_of(build_gather(x, index, 0)), "[9, 6]");
    CHECK_STR(shape_of(build_scatter(x, index, src, -2, MONOID_SUM)), "[4, 6]");
    CHECK(build_gather(x, wrong, 0) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(build_gather(x, src, 0) == NULL);
    CHECK_STR(qn_error(qn), "gather: indices are integers, not f32");
    qn_clear_error(qn);
    CHECK(build_scatter(x, index, src, 0, MONOID_AND) == NULL);
    CHECK_STR(qn_error(qn), "scatter: cannot combine f32 into f32 by \"&=\"");
    qn_clear_error(qn);
    CHECK(build_scatter(index, index, src, 0, MONOID_SUM) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_scope_end(qn, s);
    close_graph(qn);
}

/* ---- memory --------------------------------------------------------------------------------- */

static qn_tensor *count_to(qn_ctx *qn, int64_t n) {
    tuple_id shape;
    return shape_from_user(qn, "test", 1, &n, &shape) ? build_iota(qn, QN_F32, shape, 0) : NULL;
}

static void build_a_little(qn_ctx *qn) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = count_to(qn, 5);
    qn_tensor *b = build_reduce(OP_SUM, x, 1, true);
    for (int i = 0; i < 40; i++) x = add(unary(OP_EXP, x), b);
    qn_keep(x);
    qn_scope_end(qn, s);
    qn_release(x);
}

/* Whatever request fails, there is an error, nothing leaks, and the graph works afterwards. */
static void every_failing_allocation_is_survived(void) {
    for (uint64_t k = 1;; k++) {
        qn_ctx *qn = open_graph();
        qn->heap.fail_at = qn->heap.requests + k;
        build_a_little(qn);
        bool reached = qn->heap.requests >= qn->heap.fail_at;
        CHECK_INT(qn_error_code(qn), reached ? QN_ENOMEM : QN_OK);
        qn_clear_error(qn);
        qn->heap.fail_at = 0;
        build_a_little(qn);
        CHECK_INT(qn_error_code(qn), QN_OK);
        close_graph(qn);
        if (!reached || k > 1000) break;
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_node_fits_in_64_bytes);
    RUN(equal_expressions_are_one_node);
    RUN(scopes_free_what_was_not_kept);
    RUN(a_scope_hands_on_what_a_function_returns);
    RUN(outside_scopes_the_caller_releases);
    RUN(a_release_too_many_does_not_break_the_scope);
    RUN(scopes_left_open_end_with_the_outer);
    RUN(a_function_moves_its_result_outward);
    RUN(a_long_chain_is_freed_and_walked_without_recursion);
    RUN(order_puts_sources_first_and_each_once);
    RUN(realized_nodes_keep_their_history);
    RUN(a_value_goes_when_nobody_can_ask_for_it);
    RUN(a_tape_keeps_values_until_its_end);
    RUN(history_is_cut_at_its_oldest);
    RUN(pending_handles_leave_in_order);
    RUN(shapes_broadcast_as_in_numpy);
    RUN(types_promote_or_are_refused);
    RUN(errors_name_the_users_place);
    RUN(tensors_of_two_contexts_do_not_mix);
    RUN(huge_shapes_are_refused);
    RUN(symbolic_sizes_go_through);
    RUN(movements_have_their_shapes);
    RUN(reductions_have_their_shapes);
    RUN(gather_and_scatter_check_their_shapes);
    RUN(every_failing_allocation_is_survived);
    return test_end();
}
