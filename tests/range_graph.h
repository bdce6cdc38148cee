/* range_graph.h - ranges and bounds of random_graph.h for nodes of a graph that no program lists:
 * those of gradients. A walk from a gradient's node meets steps and seeds, whose ranges are known,
 * and rows of ops.h, for which random_graph.h works them out. Where it cannot (a comparison of what
 * roundings may turn, as beside a kink; a function outside its domain) the gradient is `vague`, and
 * is not compared. */
#ifndef QN_RANGE_GRAPH_H
#define QN_RANGE_GRAPH_H

#include "random_graph.h"

enum { RANGES = 4096 };

typedef struct ranges {
    graph *g;
    node_id node[RANGES];
    step at[RANGES]; /* of that node; vague: dtype -1 */
    int n;
} ranges;

static inline step *range_of(ranges *r, node_id id) {
    for (int i = r->n - 1; i >= 0; i--)
        if (r->node[i] == id) return &r->at[i];
    return NULL;
}

/* Of a node that a program's step stands for; of two steps that are one node the closer bound. */
static inline void know_range(ranges *r, node_id id, const step *s) {
    step *known = range_of(r, id);
    if (known && known->err <= s->err) return;
    if (!known && r->n == RANGES) return;
    if (!known) r->node[r->n] = id, known = &r->at[r->n++];
    *known = *s;
}

static inline bool range_of_number(step *s) {
    double v = dtype_is_float(s->dtype) ? dtype_get_f(s->dtype, &s->bits, 0)
                                        : (double)dtype_get_i(s->dtype, &s->bits, 0);
    s->lo = s->hi = v, s->err = 0;
    for (s->grid = 0; s->grid < 12 && ldexp(v, s->grid) != floor(ldexp(v, s->grid));) s->grid++;
    if (s->grid == 12) s->grid = -1;
    return isfinite(v);
}

/* Calls of routines for order; others are vague. */
static inline bool range_of_call(step *s, const step *x) {
    int routine = (int)s->attr[0];
    if (routine == ROUTINE_SORT && s->attr[1] == 0) {
        s->lo = x->lo, s->hi = x->hi, s->err = x->err, s->grid = x->grid;
        return true;
    }
    if (routine > ROUTINE_MODE && routine != ROUTINE_SEARCH) return false;
    return x->err == 0 && settle(s, 0, (double)step_count(x), 0, 0);
}

/* A node as a step: attributes that are sizes become numbers. */
static inline bool step_of_node(const graph *g, const graph_node *n, step *s) {
    int rank, attrs = 0;
    memset(s, 0, sizeof *s);
    const int64_t *dims = graph_tuple_get(g, n->shape, &rank);
    const int64_t *attr = n->attr ? graph_tuple_get(g, n->attr, &attrs) : NULL;
    s->op = n->op, s->dtype = (qn_dtype)n->dtype, s->rank = rank, s->bits = n->bits;
    s->sources = n->sources;
    for (int d = 0; d < rank; d++) s->dim[d] = shape_bound(g, (sym)dims[d]);
    if (op_rows[s->op].class_ == CLASS_MARK) attrs = 0;
    if (attrs > 3 * QN_MAX_RANK) return false;
    for (int i = 0; i < attrs; i++)
        s->attr[i] = op_attr_is_size(n->op, i) ? shape_bound(g, (sym)attr[i]) : attr[i];
    s->attrs = attrs;
    return true;
}

static inline bool work_out(ranges *r, const graph_node *n, step *s) {
    const step *x[3] = {s, s, s};
    if (!step_of_node(r->g, n, s)) return false;
    int class_ = op_rows[s->op].class_;
    if (s->op == OP_CONST) return range_of_number(s);
    if (s->op == OP_BUFFER || s->op == OP_ARGUMENT || class_ == CLASS_LOOP) return false;
    for (int k = 0; k < s->sources; k++) {
        x[k] = range_of(r, n->src[k]);
        if (!x[k] || (int)x[k]->dtype < 0) return false;
    }
    step was = *s;
    bool ok = class_ == CLASS_CALL ? range_of_call(s, x[0]) : infer_from(s, x, true);
    s->dtype = was.dtype, s->rank = was.rank; /* whatever a step's would be */
    memcpy(s->dim, was.dim, sizeof s->dim);
    return ok;
}

/* Ranges of all that the root is made of. */
static inline void find_ranges(ranges *r, arena *a, node_id root) {
    node_id *order;
    uint32_t n = graph_order(r->g, a, 1, &root, &order);
    for (uint32_t i = 0; i < n && r->n < RANGES; i++) {
        if (range_of(r, order[i])) continue;
        step *s = &r->at[r->n];
        if (!work_out(r, node_at(r->g, order[i]), s)) s->dtype = (qn_dtype)-1;
        r->node[r->n++] = order[i];
    }
}

#endif
