/* pieces.c - values made of pieces: concatenations, stacks, gradients of many slices.
 *
 * JOIN has two or three sources, and what is made of more pieces is a balanced tree of joins, so
 * that nodes keep their size and no walk needs to know of lists. The tree is the graph's way of
 * writing a list: the planner writes all pieces of a tree into one memory (plan/join.c), and
 * nothing of the inner joins is ever stored. Each step down a tree is a rule, so a slice of one
 * piece of n finds it in log n, and the gradient of a join is a slice for each piece.
 *
 * Many columns, pieces one element wide, would be written an element to a cache line. They are rows
 * of a tree that is transposed: one copy more, and of whole vectors.
 *
 * What the rules see through: slices that lie behind each other are one slice again, level by
 * level, so that joining the parts of a split gives the tensor that was split. */
#include "graph/graph.h"

enum { COLUMNS = 16 }; /* from so many on they are written as rows, and transposed then */

int node_join_axis(const graph *g, const graph_node *n) {
    int count;
    return (int)graph_tuple_get(g, n->attr, &count)[0];
}

/* ---- making ---------------------------------------------------------------------------------- */

/* A tree under way. On each level most joins are of pieces of the same shapes as the last one. */
enum { LEVELS = 20 }; /* of 3^20 pieces */
typedef struct join_tree {
    graph *g;
    int axis;
    tuple_id attr;
    struct {
        tuple_id of[3], shape;
    } last[LEVELS];
} join_tree;

static tuple_id joined_shape(const join_tree *t, int n, const node_id *piece) {
    graph *g = t->g;
    int rank;
    const int64_t *dims = node_dims(g, piece[0], &rank);
    int64_t v[QN_MAX_RANK];
    memcpy(v, dims, (size_t)rank * sizeof *v);
    for (int i = 1; i < n; i++)
        v[t->axis] = sym_add(g->syms, (sym)v[t->axis], (sym)node_dims(g, piece[i], &rank)[t->axis]);
    return graph_tuple(g, rank, v);
}

static node_id join_few(join_tree *t, int level, int n, const node_id *piece) {
    tuple_id of[3] = {0};
    for (int i = 0; i < n; i++) of[i] = node_at(t->g, piece[i])->shape;
    if (!t->last[level].shape || memcmp(of, t->last[level].of, sizeof of) != 0) {
        t->last[level].shape = joined_shape(t, n, piece);
        memcpy(t->last[level].of, of, sizeof of);
    }
    qn_dtype dtype = (qn_dtype)node_at(t->g, piece[0])->dtype;
    return node_make(t->g, (node_form){OP_JOIN, dtype, t->last[level].shape, t->attr, 0}, n, piece);
}

/* A third of the pieces under each source, as nearly as that goes. */
static node_id join_some(join_tree *t, int level, int n, const node_id *piece) {
    if (n == 1) return piece[0];
    if (n <= 3) return join_few(t, level, n, piece);
    int a = (n + 2) / 3, b = (n - a + 1) / 2;
    const node_id part[3] = {join_some(t, level + 1, a, piece),
                             join_some(t, level + 1, b, piece + a),
                             join_some(t, level + 1, n - a - b, piece + a + b)};
    return join_few(t, level, 3, part);
}

node_id make_join(graph *g, int n, const node_id *piece, int axis) {
    if (n == 1) return piece[0];
    const int64_t attr = axis;
    join_tree t = {.g = g, .axis = axis, .attr = graph_tuple(g, 1, &attr)};
    return join_some(&t, 0, n, piece);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static sym piece_size(const graph *g, node_id piece, int axis) {
    int rank;
    return (sym)node_dims(g, piece, &rank)[axis];
}

node_id rule_join_of_nothing(graph *g, const graph_node *n) {
    node_id left[3] = {0};
    int some = 0, axis = node_join_axis(g, n);
    for (int i = 0; i < n->sources; i++)
        if (piece_size(g, n->src[i], axis) != SYM_ZERO) left[some++] = n->src[i];
    return some && some < n->sources ? make_join(g, some, left, axis) : 0;
}

/* Are slices a and b of one tensor the same but for the axis, where b begins where a ends? */
static bool lies_behind(graph *g, const graph_node *a, const graph_node *b, int axis) {
    int count;
    const int64_t *p = graph_tuple_get(g, a->attr, &count),
                  *q = graph_tuple_get(g, b->attr, &count);
    for (int i = 0; i < count; i++)
        if (p[i] != q[i] && i != 3 * axis && i != 3 * axis + 1) return false;
    sym gone = sym_scale(g->syms, (sym)p[3 * axis + 1], p[3 * axis + 2]);
    return (sym)q[3 * axis] == sym_add(g->syms, (sym)p[3 * axis], gone);
}

node_id rule_join_of_slices(graph *g, const graph_node *n) {
    const graph_node first = *node_at(g, n->src[0]);
    int axis = node_join_axis(g, n), count;
    bool constant = first.op == OP_CONST, slice = rule_sees(g, n->src[0], OP_SLICE);
    for (int i = 1; i < n->sources; i++) {
        const graph_node *before = node_at(g, n->src[i - 1]), *x = node_at(g, n->src[i]);
        constant = constant && x->op == OP_CONST && x->bits == first.bits;
        slice = slice && rule_sees(g, n->src[i], OP_SLICE) && x->src[0] == first.src[0] &&
                lies_behind(g, before, x, axis);
    }
    if (constant)
        return node_make(g, (node_form){OP_CONST, (qn_dtype)n->dtype, n->shape, 0, first.bits}, 0,
                         NULL);
    if (!slice) return 0;
    int64_t p[3 * QN_MAX_RANK];
    int rank;
    memcpy(p, graph_tuple_get(g, first.attr, &count),
           sizeof *p * 3 * (size_t)node_rank(g, n->src[0]));
    p[3 * axis + 1] = graph_tuple_get(g, n->shape, &rank)[axis];
    return make_slice(g, first.src[0], p);
}

node_id rule_slice_of_join(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_JOIN)) return 0;
    const graph_node join = *node_at(g, n->src[0]);
    sym_store *s = g->syms;
    int64_t p[3 * QN_MAX_RANK];
    int count, axis = node_join_axis(g, &join);
    const int64_t *slice = graph_tuple_get(g, n->attr, &count);
    memcpy(p, slice, (size_t)count * sizeof *p);
    sym first = (sym)p[3 * axis], places = sym_sub(s, (sym)p[3 * axis + 1], SYM_ONE);
    sym last = sym_add(s, first, sym_scale(s, places, p[3 * axis + 2])), before = SYM_ZERO;
    for (int i = 0; i < join.sources; i++) {
        sym end = sym_add(s, before, piece_size(g, join.src[i], axis));
        bool inside = sym_lo(s, sym_sub(s, first, before)) >= 0 &&
                      sym_lo(s, sym_sub(s, sym_sub(s, end, SYM_ONE), last)) >= 0;
        p[3 * axis] = sym_sub(s, first, before);
        if (inside) return make_slice(g, join.src[i], p);
        before = end;
    }
    return 0;
}

/* Of a list of columns, too: pieces are taken out of it in any order of the axes. */
node_id rule_slice_of_moved_join(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_PERMUTE)) return 0;
    const graph_node moved = *node_at(g, n->src[0]);
    if (!rule_sees(g, moved.src[0], OP_JOIN)) return 0;
    int64_t p[3 * QN_MAX_RANK];
    int rank, count, axes[QN_MAX_RANK];
    const int64_t *to = graph_tuple_get(g, moved.attr, &rank),
                  *slice = graph_tuple_get(g, n->attr, &count);
    for (int i = 0; i < rank; i++) {
        axes[i] = (int)to[i];
        memcpy(p + 3 * to[i], slice + 3 * i, 3 * sizeof *p);
    }
    const graph_node below = {
        .op = OP_SLICE, .sources = 1, .src = {moved.src[0]}, .attr = graph_tuple(g, count, p)};
    node_id piece = rule_slice_of_join(g, &below);
    return piece ? make_permute(g, piece, axes) : 0;
}

/* ---- the constructor ------------------------------------------------------------------------- */

typedef struct joined {
    int n, axis;
    bool stack;
    qn_tensor *const *x;
    qn_dtype dtype;
    arena arena;
    qn_tensor *made;
} joined;

/* x's shape with an axis of size 1 more. */
static tuple_id with_axis(graph *g, node_id x, int axis) {
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i <= rank; i++) v[i] = i == axis ? SYM_ONE : dims[i - (i > axis)];
    return graph_tuple(g, rank + 1, v);
}

/* Is a piece one element wide, from the axis on, and more than one high? */
static bool is_column(const graph *g, node_id piece, int axis) {
    int rank, high = 0;
    const int64_t *dims = node_dims(g, piece, &rank);
    for (int i = axis; i < rank; i++)
        if ((sym)dims[i] != SYM_ONE) return false;
    for (int i = 0; i < axis; i++) high += (sym)dims[i] != SYM_ONE;
    return high > 0;
}

/* Would a rule make one slice of the first two? */
static bool taken_apart(const graph *g, const node_id *piece) {
    return rule_sees(g, piece[0], OP_SLICE) && rule_sees(g, piece[1], OP_SLICE) &&
           node_at(g, piece[0])->src[0] == node_at(g, piece[1])->src[0];
}

/* x with axis `from` at place `to`, the others in their order. */
static node_id move_axis(graph *g, node_id x, int from, int to) {
    int axes[QN_MAX_RANK], rank = node_rank(g, x);
    for (int i = 0, next = 0; i < rank; i++) {
        if (next == from) next++;
        axes[i] = i == to ? from : next++;
    }
    return make_permute(g, x, axes);
}

static node_id join_columns(graph *g, joined *j, node_id *piece) {
    for (int i = 0; i < j->n; i++) piece[i] = move_axis(g, piece[i], j->axis, 0);
    return move_axis(g, make_join(g, j->n, piece, 0), 0, j->axis);
}

static qn_tensor *join_nodes(graph *g, joined *j) {
    node_id *piece = arena_alloc(&j->arena, (size_t)j->n * sizeof *piece);
    for (int i = 0; i < j->n; i++) piece[i] = make_cast(g, tensor_at(j->x[i])->node, j->dtype);
    if (j->stack) {
        tuple_id shape = with_axis(g, piece[0], j->axis);
        for (int i = 0; i < j->n; i++) piece[i] = make_reshape(g, piece[i], shape);
    }
    bool columns = j->n >= COLUMNS && is_column(g, piece[0], j->axis) && !taken_apart(g, piece);
    node_id n = columns ? join_columns(g, j, piece) : make_join(g, j->n, piece, j->axis);
    int rank;
    const int64_t *dims = node_dims(g, n, &rank);
    const char *name = graph_name(g->ctx, j->stack ? "stack" : "concat");
    if (sym_overflowed(g->syms) || !shape_fits(g, rank, dims)) {
        fail(g->ctx, QN_ERANGE, "%s: sizes beyond 2^63", name);
        return NULL;
    }
    return tensor_make(g, n);
}

static void join_work(void *arg) {
    joined *j = arg;
    j->made = join_nodes(j->arena.h->ctx->graph, j);
}

qn_tensor *build_join(int n, qn_tensor *const *x, qn_dtype dtype, int axis, bool stack) {
    qn_ctx *qn = tensor_ctx(x[0]);
    joined j = {.n = n, .axis = axis, .stack = stack, .x = x, .dtype = dtype};
    arena_open(&j.arena, &qn->heap);
    guarded(qn, join_work, &j);
    arena_free(&j.arena);
    graph_settle(qn->graph);
    return j.made;
}
