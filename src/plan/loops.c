/* loops.c - the outer loops of a kernel: the axes of its root, some of them split.
 *
 * A reduction is staged in its consumer's kernel when its index depends on outer loops only. Group
 * norm's statistics are of [n, groups], its result of [n, channels, ...], and seen from the result
 * a statistic is that of channel / (channels in a group): it depends on all of the axis, so it
 * would be computed once a channel. But an axis may be split: channel = groups' loop * size + rest,
 * and then the division is exact and the statistic depends on the one loop alone.
 *
 * So when a kernel is opened, its root is looked through for reshapes behind which something
 * reduced is expanded again, and where the reshape's axes cut an axis of the root in two, that one
 * gets a loop for each part. Uses then know more (use.c): an axis that several loops count through
 * goes to those axes of a reshape that some of these loops count through. In the end loops that
 * nothing took apart are one again, so that a kernel which does not profit is what it would have
 * been.
 *
 * The loops of a contraction are a register tile's: nothing is split where one may be computed. */
#include "plan/fuse.h"

enum { MOST_CUTS = 2, MOST_SEEN = 64 };

/* Where an axis is split: for each cut how many elements a step of the outer part goes, the largest
 * first; each is divided by the next. */
typedef struct cuts {
    int n;
    int64_t step[MOST_CUTS];
} cuts;

/* Where to look: at the root's shape; behind a reshape; behind an expansion there. */
typedef enum depth { ABOVE, RESHAPED, EXPANDED } depth;

typedef struct view {
    node_id node, reshape;
    depth depth;
    bool shared; /* several nodes use it, perhaps through views */
} view;

typedef struct search {
    const fuse *fu;
    cuts axis[QN_MAX_RANK];
    view seen[MOST_SEEN];
    int count;
} search;

static void add_cut(cuts *c, int64_t size, int64_t step) {
    int at = 0;
    for (int i = 0; i < c->n; i++) {
        int64_t larger = c->step[i] > step ? c->step[i] : step;
        int64_t smaller = c->step[i] > step ? step : c->step[i];
        if (larger == smaller || larger % smaller) return;
        at += c->step[i] > step;
    }
    if (c->n == MOST_CUTS || step <= 1 || step >= size || size % step) return;
    for (int i = c->n++; i > at; i--) c->step[i] = c->step[i - 1];
    c->step[at] = step;
}

/* Cuts of the result's axes where the source's begin; both are of one size, from the right. */
static bool cut_axes(const graph *g, const graph_node *x, cuts *axis) {
    int rf, rt, found = 0;
    const int64_t *from = graph_tuple_get(g, x->shape, &rf);
    const int64_t *to = graph_tuple_get(g, node_at(g, x->src[0])->shape, &rt);
    int64_t before = 1, edge = 1, size, d;
    for (int i = rf, j = rt; i-- > 0; before *= size) {
        if (!sym_is_const(g->syms, (sym)from[i], &size) || size < 1) break;
        while (edge < before * size) { /* the source's axes within this one */
            if (edge > before && edge % before == 0) {
                add_cut(&axis[i], size, edge / before);
                found++;
            }
            if (!j || !sym_is_const(g->syms, (sym)to[--j], &d) || d < 1) return found > 0;
            edge *= d;
        }
    }
    return found > 0;
}

static void look_at(search *s, view v) {
    for (int i = 0; i < s->count; i++) {
        const view *o = &s->seen[i];
        if (o->node == v.node && o->depth == v.depth && o->reshape == v.reshape) return;
    }
    v.shared |= fuse_info(s->fu, v.node)->consumers > 1;
    if (s->count < MOST_SEEN) s->seen[s->count++] = v;
}

/* One node on the way down; false: a contraction may come into the kernel. */
static bool step_down(search *s, view v, bool root) {
    const graph *g = s->fu->g;
    const graph_node *x = node_at(g, v.node);
    cuts none[QN_MAX_RANK] = {{0}};
    int c = op_rows[x->op].class_;
    if (node_is_memory(x) || (!root && fuse_is_stored(s->fu->f, v.node))) return true;
    if (c == CLASS_REDUCE && v.depth == EXPANDED) cut_axes(g, node_at(g, v.reshape), s->axis);
    if (c == CLASS_REDUCE) return !fuse_has_contraction(s->fu, x) || (!root && v.shared);
    bool passes =
        c == CLASS_ELEM || op_is_view_mark(x->op) || (c == CLASS_MOVE && v.depth != ABOVE);
    view w = {.depth = v.depth, .reshape = v.reshape, .shared = c == CLASS_MOVE && v.shared};
    if (v.depth == ABOVE && x->op == OP_RESHAPE && cut_axes(g, x, none)) {
        passes = true;
        w.depth = RESHAPED;
        w.reshape = v.node;
    }
    if (v.depth == RESHAPED && x->op == OP_EXPAND) w.depth = EXPANDED;
    for (int i = 0; passes && i < x->sources; i++) {
        w.node = x->src[i];
        look_at(s, w);
    }
    return true;
}

static void find_cuts(search *s, node_id root) {
    look_at(s, (view){.node = root, .depth = ABOVE});
    for (int i = 0; i < s->count; i++)
        if (!step_down(s, s->seen[i], !i)) {
            memset(s->axis, 0, sizeof s->axis);
            return;
        }
}

/* The loops of the root's axes, which u, the root's use, has. */
void fuse_open_root(fuse *fu, group *k, use *u) {
    search s = {.fu = fu};
    int rank;
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, k->root)->shape, &rank);
    if (!fu->terms.everything_stored) find_cuts(&s, k->root);
    u->rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++) {
        if ((sym)dims[i] == SYM_ONE || (k->columns && i == rank - 1)) continue;
        double size = fuse_dim_size(fu->g, (sym)dims[i]);
        k->parts[i] = (uint8_t)(s.axis[i].n + 1);
        for (int part = 0; part < k->parts[i]; part++) {
            double step = part < s.axis[i].n ? (double)s.axis[i].step[part] : 1;
            u->mask[i] |= 1ull << k->loops;
            k->loop[k->loops++] = (fuse_loop){.extent = size / step};
            size = step;
        }
        k->split |= k->parts[i] > 1;
        u->whole |= (uint16_t)(1u << i);
    }
    k->root_loops = k->loops;
}

/* The root's axis that each of its loops counts through. */
static void find_axes(const fuse *fu, const group *k, uint8_t *axis) {
    int rank;
    graph_tuple_get(fu->g, node_at(fu->g, k->root)->shape, &rank);
    for (int i = 0, l = 0; i < rank; i++)
        for (int part = 0; part < k->parts[i]; part++) axis[l++] = (uint8_t)i;
}

uint32_t fuse_root_axes(const fuse *fu, const group *k, uint64_t loops) {
    uint8_t axis[FUSE_MAX_LOOPS];
    uint32_t axes = 0;
    find_axes(fu, k, axis);
    for (uint32_t l = 0; l < k->root_loops; l++)
        if (loops >> l & 1) axes |= 1u << axis[l];
    return axes;
}

/* Is there a reduction that depends on one of the two loops and not on the other? */
static bool are_apart(const group *k, uint32_t a, uint32_t b) {
    for (uint32_t c = 0; c < k->chains; c++)
        if ((k->chain[c] >> a & 1) != (k->chain[c] >> b & 1)) return true;
    return false;
}

/* From the outermost inward: first those the reductions depend on, smallest set first. */
void fuse_order_loops(const fuse *fu, const group *k, fuse_kernel *out) {
    uint8_t axis[FUSE_MAX_LOOPS];
    uint64_t placed = 0;
    find_axes(fu, k, axis);
    while (fuse_root_set(k) & ~placed) {
        uint64_t best = 0;
        for (uint32_t c = 0; c < k->chains; c++) {
            uint64_t m = k->chain[c] & ~placed;
            if (m && (!best || __builtin_popcountll(m) < __builtin_popcountll(best))) best = m;
        }
        if (!best) best = fuse_root_set(k) & ~placed;
        for (uint32_t l = 0; l < k->root_loops; l++) {
            if (!(best >> l & 1)) continue;
            fuse_outer *o = &out->outer[out->outers++];
            *o = (fuse_outer){.axis = axis[l], .step = 1};
            for (uint32_t i = l + 1; i < k->root_loops && axis[i] == axis[l]; i++)
                o->step *= (int64_t)k->loop[i].extent;
            o->extent = k->parts[axis[l]] > 1 ? (int64_t)k->loop[l].extent : 0;
            if (!l || axis[l - 1] != axis[l] || are_apart(k, l - 1, l)) continue;
            o[-1].extent *= o->extent;
            o[-1].step = o->step;
            out->outers--;
        }
        placed |= best;
    }
}
