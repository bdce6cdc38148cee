/* kept.c - values that are computed again and again, kept for the next request that wants them.
 *
 * A request computes what it needs and keeps what was asked for. A value on the way, which some
 * handle names, is computed anew by the next request that goes through it; its node then remembers
 * that (`computed`). So the second request that computes the same value stores it, and from the
 * third on it is there: no more than twice the work, and no memory for what is used once, which is
 * nearly everything in a loop that trains. A handle that names it when it is first computed is
 * enough (`named`): a state that each step names anew, h = f(h), is let go by its handle before the
 * next step's request comes through it.
 *
 * What is kept is a shortcut and nothing else. The node stays an expression: it needs its sources,
 * gradients and rules see through it, it can be let go at any time. Only while a request is planned
 * and run does it look like memory (kept_show, kept_hide).
 *
 * What is stored are values on the edge, between what was computed before and what is new; not
 *   - what is less work than a store and a load, and views, which show what they are views of;
 *   - what depends on a value that this request replaces: whoever wants it next will want it of the
 *     new value, as a training step's activations;
 *   - in contexts with dimension variables: another binding would make it another value.
 *
 * They take at most as much as knob kept_memory says, the one used longest ago goes first; and all
 * that the request at hand does not use go where the device has no memory any more. */
#include "run/run.h"

static size_t most_bytes(const qn_ctx *qn) {
    return (size_t)qn->knob[KNOB_KEPT_MEMORY].number << 20;
}

/* ---- what there is --------------------------------------------------------------------------- */

static bool is_kept(const graph_node *x) {
    return x->buffer && !(x->flags & NODE_REALIZED);
}

void kept_forget(qn_ctx *qn, uint32_t b) {
    if (!b || !buffer_at(qn, b)->keeper) return;
    buffer *x = buffer_at(qn, b);
    lru_remove(&qn->run->kept, b);
    x->keeper = 0;
    qn->run->stats.kept_bytes -= x->held;
}

static void keep(qn_ctx *qn, node_id n, uint32_t b) {
    buffer *x = buffer_at(qn, b);
    x->keeper = n;
    x->used = qn->run->requests;
    lru_use(&qn->run->kept, b);
    qn->run->stats.kept_bytes += x->held;
}

bool kept_give_up(qn_ctx *qn) {
    graph *g = qn->graph;
    uint32_t b = lru_oldest(&qn->run->kept);
    if (!b || buffer_at(qn, b)->used == qn->run->requests) return false;
    graph_node *n = node_at(g, buffer_at(qn, b)->keeper);
    node_id id = buffer_at(qn, b)->keeper;
    bool alone = n->buffer == b && buffer_at(qn, b)->refs == 1; /* else others hold that memory */
    kept_forget(qn, b);
    if (alone && is_kept(n)) {
        n->buffer = 0;
        buffer_unref(qn, b);
    } else if (alone && value_regainable(g, id)) {
        value_give_up(g, id);
    } else {
        return true;
    }
    qn->run->stats.kept_given_up++;
    return true;
}

void kept_use(qn_ctx *qn, uint32_t b) {
    if (!b) return;
    buffer_at(qn, b)->used = qn->run->requests;
    if (buffer_at(qn, b)->keeper) lru_use(&qn->run->kept, b);
}

void kept_read(qn_ctx *qn, node_id n) {
    const graph_node *x = node_at(qn->graph, n);
    bool version = x->op == OP_DETACH && x->bits;
    if (!x->sources || version || !x->buffer || graph_value_bytes(qn->graph, x) > most_bytes(qn))
        return;
    if (buffer_at(qn, x->buffer)->keeper)
        kept_use(qn, x->buffer);
    else
        keep(qn, n, x->buffer);
    kept_done(qn);
}

/* Does a handle name it, or did one when it was first computed? */
static bool is_named(const graph_node *x) {
    return x->holders || x->named;
}

/* ---- while a request runs -------------------------------------------------------------------- */

bool kept_show(qn_ctx *qn, arena *a, kept_values *k, uint32_t nodes, const node_id *order) {
    bool again = false;
    for (uint32_t i = 0; i < nodes; i++) {
        graph_node *x = node_at(qn->graph, order[i]);
        if (x->flags & NODE_REALIZED) continue;
        again |= x->computed && is_named(x);
        if (!x->buffer) continue;
        if (!k->node) k->node = arena_alloc(a, (nodes + 1) * sizeof *k->node);
        x->flags |= NODE_REALIZED;
        k->node[k->nodes++] = order[i];
    }
    return again;
}

void kept_hide(qn_ctx *qn, kept_values *k) {
    while (k->nodes) node_at(qn->graph, k->node[--k->nodes])->flags &= (uint8_t)~NODE_REALIZED;
}

/* ---- the choice ------------------------------------------------------------------------------ */

typedef struct choice {
    const graph *g;
    const node_id *order;
    double *work; /* by place: operations on elements, what two share counted twice */
    bool *edge;   /* something new is made of it */
    bool *old;    /* made of a value that the request replaces */
} choice;

static double elements(graph *g, const graph_node *x) {
    return (double)shape_numel_hi(g, x->shape);
}

double node_work(graph *g, const graph_node *x) {
    int class_ = op_rows[x->op].class_;
    if (node_is_memory(x)) return 0;
    if (x->op == OP_RESULT) return 1e3 * elements(g, x); /* whatever its loop does, it is much */
    if (class_ == CLASS_REDUCE) return elements(g, node_at(g, x->src[0]));
    bool works = class_ == CLASS_ELEM || class_ == CLASS_INDEX || class_ == CLASS_SCAN;
    return works ? elements(g, x) * fuse_op_cost(x) : 0;
}

node_id node_shown(const graph *g, node_id n) {
    const graph_node *x = node_at(g, n);
    while (!node_is_memory(x) && (op_rows[x->op].class_ == CLASS_MOVE || op_is_view_mark(x->op)))
        x = node_at(g, n = x->src[0]);
    return n;
}

static void look(choice *c, graph *g, uint32_t place) {
    const graph_node *x = node_at(g, c->order[place]);
    int class_ = op_rows[x->op].class_;
    if (node_is_memory(x) || class_ == CLASS_LEAF) return;
    for (int s = 0; s < x->sources; s++) {
        uint32_t from = node_at(g, x->src[s])->mark - g->mark_base;
        c->work[place] += c->work[from];
        c->old[place] |= c->old[from];
        c->edge[from] |= !x->computed;
    }
    c->work[place] += node_work(g, x);
}

static bool worth_it(const choice *c, graph *g, node_id n, size_t most) {
    const graph_node *x = node_at(g, n);
    uint32_t place = x->mark - g->mark_base;
    if (node_is_memory(x) || op_rows[x->op].class_ == CLASS_LEAF || !x->computed) return false;
    double size = elements(g, x), bytes = size * (double)qn_dtype_size((qn_dtype)x->dtype);
    double least = size * (double)g->ctx->run->limits.store_load_cost;
    return !c->old[place] && c->work[place] >= least && bytes <= (double)most;
}

uint32_t kept_choose(qn_ctx *qn, arena *a, uint32_t nodes, const node_id *order, uint32_t roots,
                     node_id **root) {
    graph *g = qn->graph;
    size_t most = most_bytes(qn);
    if (!most || g->vars) return roots;
    choice c = {.g = g, .order = order};
    c.work = arena_zeroed(a, (nodes + 1) * sizeof *c.work);
    c.edge = arena_zeroed(a, nodes + 1);
    c.old = arena_zeroed(a, nodes + 1);
    for (uint32_t i = 0; i < g->pending_count; i++) {
        uint32_t place = node_at(g, g->pending[i]->replaced)->mark - g->mark_base;
        if (place < nodes && order[place] == g->pending[i]->replaced) c.old[place] = true;
    }
    for (uint32_t i = 0; i < nodes; i++) look(&c, g, i);
    uint32_t n = roots;
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        if (!c.edge[i] || !x->computed || !is_named(x) || node_is_memory(x)) continue;
        node_id want = node_shown(g, order[i]);
        if (!worth_it(&c, g, want, most)) continue;
        bool there = false;
        for (uint32_t r = 0; r < n && !there; r++) there = (*root)[r] == want;
        if (there) continue;
        if (n == roots) {
            node_id *more = arena_alloc(a, (roots + (size_t)nodes + 1) * sizeof *more);
            memcpy(more, *root, roots * sizeof *more);
            *root = more;
        }
        (*root)[n++] = want;
    }
    return n;
}

void kept_take(qn_ctx *qn, uint32_t nodes, const node_id *order, uint32_t n, const node_id *node,
               const uint32_t *out) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < nodes; i++) {
        graph_node *x = node_at(g, order[i]);
        if (!x->sources) continue;
        if (!x->computed) x->named = x->holders > 0;
        x->computed = 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        graph_node *x = node_at(g, node[i]);
        if (!x->needs || x->buffer) {
            buffer_unref(qn, out[i]);
            continue;
        }
        x->buffer = out[i];
        keep(qn, node[i], out[i]);
    }
}

void kept_done(qn_ctx *qn) {
    qn->run->requests++;
    while (qn->run->stats.kept_bytes > most_bytes(qn) && kept_give_up(qn)) {
    }
}
