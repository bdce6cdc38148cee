/* move.c - the rules about movement and reductions (see rules.c).
 *
 * Movements of the same kind compose into one, a constant is the same from everywhere, counting
 * stays counting where its axis stays whole, and a reduction need not look at what it can know:
 * axes of size 1, repetitions, padding. Sizes are expressions; a rule holds only where it is proven
 * for all values of the variables. */
#include "graph/graph.h"

static const int64_t *dims_of(const graph *g, node_id n) {
    int rank;
    return node_dims(g, n, &rank);
}

static const int64_t *attr_of(const graph *g, const graph_node *n) {
    int count;
    return graph_tuple_get(g, n->attr, &count);
}

static node_id source_of(const graph *g, node_id n) {
    return g->node[n].src[0];
}

static node_id constant_like(graph *g, const graph_node *n, uint64_t bits) {
    return node_make(g, (node_form){OP_CONST, (qn_dtype)n->dtype, n->shape, 0, bits}, 0, NULL);
}

/* ---- nothing there -------------------------------------------------------------------------- */

bool shape_is_empty(const graph *g, tuple_id shape) {
    int rank;
    const int64_t *dim = graph_tuple_get(g, shape, &rank);
    for (int i = 0; i < rank; i++)
        if (dim[i] == SYM_ZERO) return true;
    return false;
}

/* So no later stage meets a loop that is known to run no trip. That is more than tidiness: the
 * variable of such a loop has no value, expressions over it fold as if it were constant, and what
 * is hoisted out of the loop would touch memory that is not there. Sizes that are empty only for
 * some values of a dimension variable stay variable and keep their loops. */
node_id rule_empty(graph *g, const graph_node *n) {
    if (shape_is_empty(g, n->shape)) return constant_like(g, n, 0);
    if (!n->sources) return 0;
    if (n->op == OP_SCATTER) return shape_is_empty(g, g->node[n->src[1]].shape) ? n->src[0] : 0;
    tuple_id shape = g->node[n->src[0]].shape;
    if (shape == n->shape || !shape_is_empty(g, shape)) return 0;
    if (n->op == OP_PAD || n->op == OP_WINDOW || n->op == OP_GATHER) return constant_like(g, n, 0);
    if (op_rows[n->op].class_ != CLASS_REDUCE || op_rows[n->op].types == TYPES_TO) return 0;
    scalar identity = monoid_identity(monoid_of_reduction(n->op), 0, (qn_dtype)n->dtype);
    return make_const(g, (qn_dtype)n->dtype, n->shape, identity);
}

/* ---- constants and counting ----------------------------------------------------------------- */

/* Padding is zeros, so only a zero constant goes through it; windows may see outside, too. */
node_id rule_move_constant(graph *g, const graph_node *n) {
    const graph_node *x = node_at(g, n->src[0]);
    if (x->op != OP_CONST || ((n->op == OP_PAD || n->op == OP_WINDOW) && x->bits != 0)) return 0;
    return constant_like(g, n, x->bits);
}

node_id rule_iota_of_one(graph *g, const graph_node *n) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, n->shape, &rank);
    return dims[attr_of(g, n)[0]] == SYM_ONE ? constant_like(g, n, 0) : 0;
}

/* The axis of `shape` that stands where `axis` stood before a reshape: as much in front of it, and
 * of the same size. -1: none. */
static int reshaped_axis(graph *g, node_id x, int axis, tuple_id shape) {
    int rank;
    const int64_t *from = dims_of(g, x), *to = graph_tuple_get(g, shape, &rank);
    sym before = shape_product(g, axis, from);
    for (int i = 0; i < rank; i++)
        if (to[i] == from[axis] && shape_product(g, i, to) == before) return i;
    return -1;
}

/* Where counting along an axis ends up: the axis of the result along which the result counts in the
 * same way; -1: nowhere. */
static int moved_axis(graph *g, const graph_node *n, int axis) {
    node_id x = n->src[0];
    const int64_t *p = attr_of(g, n);
    int rank;
    const int64_t *to = graph_tuple_get(g, n->shape, &rank);
    switch (n->op) {
    case OP_RESHAPE:
        return reshaped_axis(g, x, axis, n->shape);
    case OP_PERMUTE:
        for (int i = 0; i < rank; i++)
            if (p[i] == axis) return i;
        return -1;
    case OP_EXPAND:
        return to[axis] == dims_of(g, x)[axis] ? axis : -1;
    case OP_SLICE:
        return p[3 * axis] == SYM_ZERO && p[3 * axis + 2] == 1 ? axis : -1;
    default: { /* FLIP */
        int count;
        graph_tuple_get(g, n->attr, &count);
        for (int i = 0; i < count; i++)
            if (p[i] == axis) return -1;
        return axis;
    }
    }
}

/* Or one place of it: a slice of size 1 at a constant. */
node_id rule_move_iota(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_IOTA)) return 0;
    int axis = (int)attr_of(g, node_at(g, n->src[0]))[0], to = moved_axis(g, n, axis);
    if (to >= 0) return make_iota(g, (qn_dtype)n->dtype, n->shape, to);
    int64_t start;
    const int64_t *p = attr_of(g, n);
    if (n->op != OP_SLICE || p[3 * axis + 1] != SYM_ONE) return 0;
    if (!sym_is_const(g->syms, (sym)p[3 * axis], &start)) return 0;
    scalar place = {.i = start};
    if (dtype_is_float(n->dtype)) place.f = dtype_from_i64((qn_dtype)n->dtype, start);
    return make_const(g, (qn_dtype)n->dtype, n->shape, place);
}

/* ---- nothing moves -------------------------------------------------------------------------- */

node_id rule_move_nothing(graph *g, const graph_node *n) {
    node_id x = n->src[0];
    int rank, count;
    const int64_t *dims = graph_tuple_get(g, n->shape, &rank);
    const int64_t *p = graph_tuple_get(g, n->attr, &count);
    bool in_place = n->shape == g->node[x].shape;
    if (n->op == OP_FLIP) { /* axes of size 1 need no flipping */
        uint32_t mask = 0;
        for (int i = 0; i < count; i++)
            if (dims[p[i]] != SYM_ONE) mask |= 1u << p[i];
        return __builtin_popcount(mask) < count ? make_flip(g, x, mask) : 0;
    }
    for (int i = 0; in_place && i < rank; i++) {
        if (n->op == OP_PERMUTE) in_place = p[i] == i;
        if (n->op == OP_PAD) in_place = p[3 * i] == SYM_ZERO && p[3 * i + 1] == SYM_ZERO;
        if (n->op == OP_PAD) in_place &= p[3 * i + 2] == 0;
        if (n->op == OP_SLICE) in_place = p[3 * i] == SYM_ZERO && p[3 * i + 2] == 1;
        if (n->op == OP_WINDOW) in_place = false;
    }
    return in_place ? x : 0;
}

/* ---- two movements in one ------------------------------------------------------------------- */

node_id rule_reshape_twice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_RESHAPE)) return 0;
    return make_reshape(g, source_of(g, n->src[0]), n->shape);
}

/* Where a reshape only adds and drops axes of size 1, so that others see what is repeated. */
node_id rule_reshape_of_expand(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_EXPAND)) return 0;
    node_id x = source_of(g, n->src[0]);
    int rank, wide;
    const int64_t *to = graph_tuple_get(g, n->shape, &rank), *from = dims_of(g, x);
    const int64_t *over = node_dims(g, n->src[0], &wide);
    int64_t less[QN_MAX_RANK];
    int j = 0;
    for (int i = 0; i < rank; i++) {
        less[i] = SYM_ONE;
        if (to[i] == SYM_ONE) continue;
        while (j < wide && over[j] == SYM_ONE) j++;
        if (j == wide || over[j] != to[i]) return 0;
        less[i] = from[j++];
    }
    for (; j < wide; j++)
        if (over[j] != SYM_ONE) return 0;
    return make_expand(g, make_reshape(g, x, graph_tuple(g, rank, less)), n->shape);
}

node_id rule_permute_of_expand(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_EXPAND)) return 0;
    int rank, axes[QN_MAX_RANK];
    const int64_t *p = graph_tuple_get(g, n->attr, &rank);
    for (int i = 0; i < rank; i++) axes[i] = (int)p[i];
    return make_expand(g, make_permute(g, source_of(g, n->src[0]), axes), n->shape);
}

node_id rule_expand_twice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_EXPAND)) return 0;
    return make_expand(g, source_of(g, n->src[0]), n->shape);
}

node_id rule_permute_twice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_PERMUTE)) return 0;
    int rank, axes[QN_MAX_RANK];
    const int64_t *outer = graph_tuple_get(g, n->attr, &rank);
    const int64_t *inner = attr_of(g, node_at(g, n->src[0]));
    for (int i = 0; i < rank; i++) axes[i] = (int)inner[outer[i]];
    return make_permute(g, source_of(g, n->src[0]), axes);
}

node_id rule_flip_twice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_FLIP)) return 0;
    uint32_t mask = node_axes(g, n->src[0]);
    int count;
    const int64_t *axes = graph_tuple_get(g, n->attr, &count);
    for (int i = 0; i < count; i++) mask ^= 1u << axes[i];
    return make_flip(g, source_of(g, n->src[0]), mask);
}

node_id rule_slice_twice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_SLICE)) return 0;
    int count;
    const int64_t *outer = graph_tuple_get(g, n->attr, &count);
    const int64_t *inner = attr_of(g, node_at(g, n->src[0]));
    int64_t p[3 * QN_MAX_RANK];
    for (int i = 0; i < count; i += 3) {
        sym moved = sym_scale(g->syms, (sym)outer[i], inner[i + 2]);
        p[i] = sym_add(g->syms, (sym)inner[i], moved);
        p[i + 1] = outer[i + 1];
        if (__builtin_mul_overflow(inner[i + 2], outer[i + 2], &p[i + 2])) return 0;
    }
    return make_slice(g, source_of(g, n->src[0]), p);
}

node_id rule_pad_twice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_PAD)) return 0;
    int count;
    const int64_t *outer = graph_tuple_get(g, n->attr, &count);
    const int64_t *inner = attr_of(g, node_at(g, n->src[0]));
    int64_t p[3 * QN_MAX_RANK];
    for (int i = 0; i < count; i += 3) {
        if (outer[i + 2]) return 0;
        p[i] = sym_add(g->syms, (sym)outer[i], (sym)inner[i]);
        p[i + 1] = sym_add(g->syms, (sym)outer[i + 1], (sym)inner[i + 1]);
        p[i + 2] = inner[i + 2];
    }
    return make_pad(g, source_of(g, n->src[0]), p);
}

/* ---- slices of padding ---------------------------------------------------------------------- */

typedef enum seen { SEES_BOTH, SEES_INSIDE, SEES_PADDING } seen;

/* What a slice s of an axis padded by p sees, n being the size before; for SEES_INSIDE, in out, the
 * slice of the axis itself. */
static seen slice_sees(sym_store *s, sym n, const int64_t *p, const int64_t *slice, int64_t *out) {
    sym start = sym_sub(s, (sym)slice[0], (sym)p[0]);
    sym last = sym_scale(s, sym_sub(s, (sym)slice[1], SYM_ONE), slice[2]);
    last = sym_add(s, start, last);
    out[0] = start;
    out[1] = slice[1];
    out[2] = slice[2];
    if (p[2] > 0) { /* exactly every element */
        bool all = start == SYM_ZERO && slice[2] == p[2] + 1 && slice[1] == n;
        out[2] = 1;
        return all ? SEES_INSIDE : SEES_BOTH;
    }
    if (sym_lo(s, start) >= 0 && sym_lo(s, sym_sub(s, sym_sub(s, n, SYM_ONE), last)) >= 0)
        return SEES_INSIDE;
    bool before = sym_hi(s, last) < 0, after = sym_lo(s, sym_sub(s, start, n)) >= 0;
    return before || after ? SEES_PADDING : SEES_BOTH;
}

node_id rule_slice_of_pad(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_PAD)) return 0;
    int rank;
    const graph_node *pad = node_at(g, n->src[0]);
    node_id x = pad->src[0];
    const int64_t *dims = node_dims(g, x, &rank), *p = attr_of(g, pad), *slice = attr_of(g, n);
    int64_t inside[3 * QN_MAX_RANK];
    bool all = true, none = false;
    for (int i = 0; i < rank; i++) {
        int at = 3 * i;
        seen what = slice_sees(g->syms, (sym)dims[i], p + at, slice + at, inside + at);
        all &= what == SEES_INSIDE;
        none |= what == SEES_PADDING;
    }
    if (none) return constant_like(g, n, 0);
    return all ? make_slice(g, x, inside) : 0;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* One place in each window: a slice of what padding makes long enough. */
node_id rule_window_of_one(graph *g, const graph_node *n) {
    window_attr w = node_window(g, n);
    if (w.length != SYM_ONE) return 0;
    sym_store *s = g->syms;
    node_id x = n->src[0];
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    int64_t p[3 * QN_MAX_RANK] = {0};
    sym last = sym_add(s, w.start, sym_scale(s, sym_sub(s, w.size, SYM_ONE), w.stride));
    sym after = sym_add(s, sym_sub(s, last, (sym)dims[w.axis]), SYM_ONE);
    p[3 * w.axis] = sym_max(s, sym_sub(s, SYM_ZERO, w.start), SYM_ZERO);
    p[3 * w.axis + 1] = sym_max(s, after, SYM_ZERO);
    sym from = sym_add(s, w.start, (sym)p[3 * w.axis]);
    x = make_pad(g, x, p);
    dims = node_dims(g, x, &rank);
    for (int i = 0; i < rank; i++) {
        p[3 * i] = i == w.axis ? from : SYM_ZERO;
        p[3 * i + 1] = i == w.axis ? (int64_t)w.size : dims[i];
        p[3 * i + 2] = i == w.axis ? w.stride : 1;
    }
    return make_slice(g, x, p);
}

/* A window sees 0 outside, so zeros along its axis need not be there. */
node_id rule_window_of_pad(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_PAD)) return 0;
    window_attr w = node_window(g, n);
    int count;
    const int64_t *p = graph_tuple_get(g, g->node[n->src[0]].attr, &count);
    int64_t less[3 * QN_MAX_RANK], *here = less + 3 * w.axis;
    memcpy(less, p, (size_t)count * sizeof *p);
    bool padded = here[0] != SYM_ZERO || here[1] != SYM_ZERO;
    bool cut = sym_lo(g->syms, (sym)here[0]) < 0 || sym_lo(g->syms, (sym)here[1]) < 0;
    if (!padded || cut || here[2]) return 0;
    w.start = sym_sub(g->syms, w.start, (sym)here[0]);
    here[0] = here[1] = SYM_ZERO;
    return make_window(g, make_pad(g, source_of(g, n->src[0]), less), &w);
}

/* ---- reductions ----------------------------------------------------------------------------- */

/* The mask over the axes that are left when those of `gone` are dropped. */
static uint32_t mask_without(uint32_t mask, uint32_t gone) {
    uint32_t left = 0;
    for (int i = 0, to = 0; i < QN_MAX_RANK; i++) {
        if (gone >> i & 1) continue;
        left |= (mask >> i & 1) << to++;
    }
    return left;
}

node_id rule_reduce_one(graph *g, const graph_node *n) {
    node_id x = n->src[0];
    const int64_t *dims = dims_of(g, x);
    uint32_t mask = tuple_axes(g, n->attr), ones = 0;
    for (int i = 0; i < QN_MAX_RANK; i++)
        if ((mask >> i & 1) && dims[i] == SYM_ONE) ones |= 1u << i;
    if (!ones) return 0;
    tuple_id shape = reduced_shape(g, g->node[x].shape, ones, false);
    uint32_t left = mask_without(mask, ones);
    if (n->op != OP_SUM_PRODUCT) return make_reduce(g, n->op, make_reshape(g, x, shape), left);
    node_id src[3] = {0};
    for (int i = 0; i < n->sources; i++) src[i] = make_reshape(g, n->src[i], shape);
    return make_sum_product(g, src[0], src[1], src[2], left);
}

/* The axes of an inner reduction as axes of its source, together with the outer ones. */
node_id rule_reduce_twice(graph *g, const graph_node *n) {
    bool sum = n->op == OP_SUM || n->op == OP_PROD;
    if (!rule_sees(g, n->src[0], n->op) || (sum && dtype_is_float(n->dtype))) return 0;
    uint32_t inner = node_axes(g, n->src[0]), outer = tuple_axes(g, n->attr), both = inner;
    for (int i = 0, left = 0; i < QN_MAX_RANK; i++) {
        if (inner >> i & 1) continue;
        both |= (outer >> left++ & 1) << i;
    }
    return make_reduce(g, n->op, source_of(g, n->src[0]), both);
}

node_id rule_sum_of_pad(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_PAD)) return 0;
    int count;
    const int64_t *p = graph_tuple_get(g, g->node[n->src[0]].attr, &count);
    uint32_t mask = tuple_axes(g, n->attr);
    int64_t less[3 * QN_MAX_RANK];
    bool changed = false;
    for (int i = 0; i < count; i++) {
        bool drop = (mask >> (i / 3) & 1) && p[i] != 0; /* 0 is both SYM_ZERO and no interior */
        less[i] = drop ? 0 : p[i];
        changed |= drop;
    }
    if (!changed) return 0;
    return make_reduce(g, OP_SUM, make_pad(g, source_of(g, n->src[0]), less), mask);
}

/* where(c, x, 0) with c repeated along the summed axes: where(c, sum of x, 0). */
node_id rule_sum_of_choice(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_WHERE)) return 0;
    const graph_node x = *node_at(g, n->src[0]), zero = *node_at(g, x.src[2]);
    if (zero.op != OP_CONST || zero.bits || !rule_sees(g, x.src[0], OP_EXPAND)) return 0;
    node_id condition = source_of(g, x.src[0]);
    const int64_t *from = dims_of(g, condition), *axes = attr_of(g, n);
    int count;
    graph_tuple_get(g, n->attr, &count);
    uint32_t mask = 0;
    for (int i = 0; i < count; i++) {
        if (from[axes[i]] != SYM_ONE) return 0;
        mask |= 1u << axes[i];
    }
    node_id sum = make_reduce(g, OP_SUM, x.src[1], mask);
    int rank = 0, full;
    int64_t dims[QN_MAX_RANK];
    const int64_t *all = node_dims(g, condition, &full);
    for (int i = 0; i < full; i++)
        if (!(mask >> i & 1)) dims[rank++] = all[i];
    condition = make_reshape(g, condition, graph_tuple(g, rank, dims));
    condition = make_expand(g, condition, n->shape);
    return make3(g, OP_WHERE, condition, sum, make_number(g, (qn_dtype)n->dtype, n->shape, 0));
}

/* ---- sums of products ----------------------------------------------------------------------- */

enum { MOST_VIEWS = 8 };

/* Behind the views of x, which are noted, the outermost first: a*b, or where(here, a*b, 0) with a
 * condition on places. False: there is no such thing. */
static bool find_product(const graph *g, node_id x, node_id *view, int *views, node_id src[3]) {
    const op_set through = (op_set)1 << OP_RESHAPE | (op_set)1 << OP_PERMUTE |
                           (op_set)1 << OP_SLICE | (op_set)1 << OP_FLIP;
    src[2] = 0;
    for (*views = 0; through >> g->node[x].op & 1; x = source_of(g, x)) {
        if (*views == MOST_VIEWS || !rule_sees(g, x, g->node[x].op)) return false;
        view[(*views)++] = x;
    }
    if (rule_sees(g, x, OP_WHERE)) {
        const graph_node *choice = node_at(g, x), *zero = node_at(g, choice->src[2]);
        if (zero->op != OP_CONST || zero->bits || !rule_of_places(g, choice->src[0], 8))
            return false;
        src[2] = choice->src[0];
        x = choice->src[1];
    }
    if (!rule_sees(g, x, OP_MUL)) return false;
    src[0] = g->node[x].src[0];
    src[1] = g->node[x].src[1];
    return true;
}

/* The product is rounded where something else uses it, and not in the sum. */
node_id rule_sum_of_product(graph *g, const graph_node *n) {
    node_id view[MOST_VIEWS], src[3];
    int views;
    if (!find_product(g, n->src[0], view, &views, src)) return 0;
    while (views--) {
        const graph_node v = *node_at(g, view[views]);
        for (int i = 0; i < 3; i++)
            if (src[i])
                src[i] = node_make(
                    g, (node_form){v.op, (qn_dtype)g->node[src[i]].dtype, v.shape, v.attr, 0}, 1,
                    &src[i]);
    }
    return make_sum_product(g, src[0], src[1], src[2], tuple_axes(g, n->attr));
}
