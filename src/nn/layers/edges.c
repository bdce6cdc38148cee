/* edges.c - layers of graphs: each node takes what its edges bring.
 *
 * A graph is edge_index [2, E] of integers: row 0 has the nodes that edges come from, row 1 those
 * that they go to. What comes to a node is added up by index_add. Names are PyTorch Geometric's. */
#include "nn/layers/layers.h"

#include <math.h>

typedef struct edges {
    qn_tensor *from, *to;     /* [E], with a loop for each node */
    qn_tensor *given, *loops; /* [E] of those given: where they come from, and which are loops */
    int64_t nodes;
} edges;

/* Row r of the edges. No number counts from the end: what is outside is an error with QN_CHECK, by
 * the numbers of the nodes that are looked up, and else no node. */
static qn_tensor *nodes_of(calling *c, const edges *e, int r) {
    qn_tensor *index = qn_cast(qn_select(c->in[1], 0, r), QN_I64);
    if (!index) return NULL;
    qn_tensor *found = qn_embedding(qn_iota(c->qn, QN_I64, 1, &e->nodes, 0), index);
    return qn_where(qn_eq(found, index), index, qn_scalar_int(c->qn, QN_I64, INT64_MAX));
}

static bool edges_read(calling *c, edges *e) {
    qn_tensor *x = c->in[0], *index = c->in[1];
    if (!layer_rank(c, x, "x", 2, 2) || !layer_rank(c, index, "edge_index", 2, 2)) return false;
    if (qn_dim(index, 0) != 2)
        return fail(c->qn, QN_ESHAPE, "%s: edge_index has %lld rows, not 2", c->row->name,
                    (long long)qn_dim(index, 0)),
               false;
    e->nodes = qn_dim(x, 0);
    e->from = e->given = nodes_of(c, e, 0);
    e->to = nodes_of(c, e, 1);
    e->loops = qn_eq(e->from, e->to);
    if (c->o->no_loops) return true;
    qn_tensor *all = qn_iota(c->qn, QN_I64, 1, &e->nodes, 0);
    e->from = qn_concat(2, (qn_tensor *[]){e->from, all}, 0);
    e->to = qn_concat(2, (qn_tensor *[]){e->to, all}, 0);
    return true;
}

/* Values of edges, added up at the nodes that they go to. */
static qn_tensor *gathered(calling *c, const edges *e, qn_tensor *index, qn_tensor *values) {
    int64_t shape[QN_MAX_RANK];
    int rank = qn_rank(values);
    if (rank < 1) return NULL;
    for (int i = 0; i < rank; i++) shape[i] = i ? qn_dim(values, i) : e->nodes;
    return qn_index_add(qn_full(c->qn, qn_dtype_of(values), rank, shape, 0), index, values, 0);
}

static void glorot(making *b, const char *name, int rank, const int64_t *shape) {
    double sum = (double)shape[rank - 1] + (double)shape[rank - 2];
    layer_parameter(b, name, rank, shape, QN_INIT_UNIFORM, sqrt(6 / (sum > 0 ? sum : 1)));
}

/* ---- convolution (Kipf and Welling 2017) ---------------------------------------------------- */

void gcn_tensors(making *b) {
    if (!b->o->no_bias) layer_parameter(b, "bias", 1, &b->o->out, QN_INIT_ZEROS, 0);
    glorot(b, "lin.weight", 2, (int64_t[]){b->o->out, b->o->in});
}

/* Weights of edges, with loops: a node that has one keeps its weight, of several the mean. */
static qn_tensor *with_loops(calling *c, const edges *e, qn_tensor *w) {
    if (c->o->no_loops) return w;
    qn_tensor *is = qn_cast(e->loops, qn_dtype_of(w)), *start = qn_like(w, 0);
    qn_tensor *count = gathered(c, e, e->given, is);
    qn_tensor *sum = gathered(c, e, e->given, qn_mul(w, is));
    qn_tensor *has = qn_gt(count, start), *most = qn_maximum(count, qn_like(count, 1));
    qn_tensor *own = qn_where(has, qn_div(sum, most), qn_like(sum, c->o->improved ? 2 : 1));
    return qn_concat(2, (qn_tensor *[]){qn_where(e->loops, start, w), own}, 0);
}

void apply_gcn(calling *c) {
    edges e;
    qn_tensor *bias = c->o->no_bias ? NULL : layer_next(c), *weight = layer_next(c);
    if (!edges_read(c, &e)) return;
    qn_tensor *v[] = {qn_linear(c->in[0], weight, NULL), c->in[2], bias};
    if (!v[0]) return;
    qn_dtype dtype = layer_widen(3, v);
    qn_tensor *x = v[0], *w = v[1];
    if (!w) w = qn_ones_like(qn_cast(e.given, qn_dtype_of(x)));
    w = with_loops(c, &e, w);
    if (!c->o->no_normalize && w) {
        qn_tensor *degree = gathered(c, &e, e.to, w), *zero = qn_like(degree, 0);
        qn_tensor *root = qn_where(qn_gt(degree, zero), qn_rsqrt(degree), zero);
        w = qn_mul(w, qn_mul(qn_take(root, e.from, 0), qn_take(root, e.to, 0)));
    }
    qn_tensor *y = gathered(c, &e, e.to, qn_mul(qn_unsqueeze(w, 1), qn_take(x, e.from, 0)));
    c->out[0] = qn_cast(bias ? qn_add(y, v[2]) : y, dtype);
}

/* ---- attention (Velickovic et al. 2018) ----------------------------------------------------- */

void gat_tensors(making *b) {
    const qn_layer_options *o = b->o;
    int64_t all = sat_mul(o->heads, o->out);
    glorot(b, "att_src", 3, (int64_t[]){1, o->heads, o->out});
    glorot(b, "att_dst", 3, (int64_t[]){1, o->heads, o->out});
    if (!o->no_bias) layer_parameter(b, "bias", 1, o->no_concat ? &o->out : &all, QN_INIT_ZEROS, 0);
    glorot(b, "lin.weight", 2, (int64_t[]){all, o->in});
}

/* The softmax of scores [E, heads] over the edges to each node. */
static qn_tensor *softmax_at(calling *c, const edges *e, qn_tensor *scores) {
    int64_t shape[] = {e->nodes, c->o->heads};
    qn_tensor *least = qn_full(c->qn, qn_dtype_of(scores), 2, shape, -INFINITY);
    qn_tensor *index = qn_expand_as(qn_unsqueeze(e->to, 1), scores);
    qn_tensor *top = qn_scatter(least, index, qn_detach(scores), 0, QN_COMBINE_MAX);
    qn_tensor *up = qn_exp(qn_sub(scores, qn_take(top, e->to, 0)));
    return qn_div(up, qn_take(gathered(c, e, e->to, up), e->to, 0));
}

void apply_gat(calling *c) {
    const qn_layer_options *o = c->o;
    edges e;
    qn_tensor *of_from = layer_next(c), *of_to = layer_next(c);
    qn_tensor *bias = o->no_bias ? NULL : layer_next(c), *weight = layer_next(c);
    if (!edges_read(c, &e)) return;
    int64_t shape[] = {e.nodes, o->heads, o->out};
    qn_tensor *v[] = {qn_reshape(qn_linear(c->in[0], weight, NULL), 3, shape), of_from, of_to,
                      bias};
    if (!v[0]) return;
    qn_dtype dtype = layer_widen(4, v);
    qn_tensor *x = v[0];
    of_from = qn_take(qn_sum(qn_mul(x, v[1]), -1, false), e.from, 0);
    of_to = qn_take(qn_sum(qn_mul(x, v[2]), -1, false), e.to, 0);
    qn_tensor *scores = qn_leaky_relu(qn_add(of_from, of_to), o->a);
    if (!scores) return;
    if (!o->no_loops) { /* loops that were given give way to one for each node */
        qn_tensor *none = qn_zeros(c->qn, QN_BOOL, 1, &e.nodes);
        qn_tensor *gone = qn_unsqueeze(qn_concat(2, (qn_tensor *[]){e.loops, none}, 0), 1);
        scores = qn_where(gone, qn_like(scores, -INFINITY), scores);
    }
    qn_tensor *share = layer_drop(c, softmax_at(c, &e, scores), o->p);
    qn_tensor *y = gathered(c, &e, e.to, qn_mul(qn_unsqueeze(share, 2), qn_take(x, e.from, 0)));
    y = o->no_concat ? qn_mean(y, 1, false)
                     : qn_reshape(y, 2, (int64_t[]){e.nodes, o->heads * o->out});
    c->out[0] = qn_cast(bias ? qn_add(y, v[3]) : y, dtype);
}
