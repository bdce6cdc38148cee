/* repeat.c - the rules about reductions of what is repeated (see rules.c).
 *
 * Repeated along an axis is what an EXPAND, a constant or counting along another axis makes, and
 * elementwise operations on nothing but such. Along an axis that stays, all results are equal, and
 * one is computed. Along an axis that is reduced, the largest of n equals is any of them, the first
 * where its place is asked for, their sum is n*x and their product x^n, rounded once each: so what
 * is left is reduced first and multiplied afterwards.
 *
 * Behind a PERMUTE or a RESHAPE of what is repeated axes have other places, are merged or split.
 * There the reduction moves below, on axes so fine that each axis of both sides is made of whole
 * ones; on these it can be told what is repeated. */
#include "graph/graph.h"

#include <math.h>

/* ---- what is repeated ----------------------------------------------------------------------- */

/* The axes of more than one place, along which x is repeated; looks at so many operations. */
static uint32_t repeated_axes(const graph *g, node_id x, int *operations) {
    const graph_node *n = node_at(g, x);
    int rank, count;
    const int64_t *dims = graph_tuple_get(g, n->shape, &rank), *from = NULL;
    uint32_t mask = 0;
    if (n->op != OP_CONST && !rule_sees(g, x, n->op)) return 0;
    if (n->op == OP_EXPAND) from = node_dims(g, n->src[0], &rank);
    for (int i = 0; i < rank; i++)
        if (dims[i] != SYM_ONE && (!from || from[i] == SYM_ONE)) mask |= 1u << i;
    if (n->op == OP_CONST || n->op == OP_EXPAND) return mask;
    if (n->op == OP_IOTA) return mask & ~(1u << graph_tuple_get(g, n->attr, &count)[0]);
    if (op_rows[n->op].class_ != CLASS_ELEM || --*operations < 0) return 0;
    for (int i = 0; i < n->sources && mask; i++) mask &= repeated_axes(g, n->src[i], operations);
    return mask;
}

/* x, which is repeated along the axes that `shape` has of size 1, once. */
static node_id once(graph *g, node_id x, tuple_id shape) {
    const graph_node n = *node_at(g, x);
    if (n.op == OP_EXPAND) return make_expand(g, n.src[0], shape);
    node_id src[3] = {0};
    for (int i = 0; i < n.sources; i++) src[i] = once(g, n.src[i], shape);
    return node_make(g, (node_form){n.op, (qn_dtype)n.dtype, shape, n.attr, n.bits}, n.sources,
                     src);
}

/* The axes of the mask along which all sources of a reduction are repeated. */
static uint32_t sources_repeated(const graph *g, const graph_node *n, uint32_t mask) {
    int operations = 16;
    for (int i = 0; i < n->sources && mask; i++) mask &= repeated_axes(g, n->src[i], &operations);
    return mask;
}

/* The reduction n without the repetition along `axes` of its sources, which are then of size 1. */
static node_id reduced_once(graph *g, const graph_node *n, uint32_t axes) {
    int rank;
    const int64_t *dims = node_dims(g, n->src[0], &rank);
    int64_t less[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) less[i] = axes >> i & 1 ? SYM_ONE : dims[i];
    tuple_id shape = graph_tuple(g, rank, less);
    node_id src[3] = {0};
    for (int i = 0; i < n->sources; i++) src[i] = once(g, n->src[i], shape);
    if (n->op == OP_SUM_PRODUCT)
        return make_sum_product(g, src[0], src[1], src[2], tuple_axes(g, n->attr));
    return make_reduce(g, n->op, src[0], tuple_axes(g, n->attr));
}

/* ---- n equals ------------------------------------------------------------------------------- */

/* The product of the sizes of axes, a constant of at least 1, or 0. */
static int64_t known_count(const graph *g, const int64_t *dims, uint32_t mask) {
    int64_t count = 1, size;
    for (int i = 0; i < QN_MAX_RANK; i++) {
        if (!(mask >> i & 1)) continue;
        if (!sym_is_const(g->syms, (sym)dims[i], &size) || size < 1) return 0;
        if (__builtin_mul_overflow(count, size, &count)) return 0;
    }
    return count;
}

/* Is the count a number of d? */
static bool counts_to(qn_dtype d, int64_t count) {
    double v = scalar_number(d, (double)count).f;
    return v < 0x1p62 && (int64_t)v == count;
}

/* x * count or x ^ count, rounded once: in a wider dtype where this one has no such number. 0: none
 * has. */
static node_id of_equals(graph *g, int op, node_id x, int64_t count) {
    qn_dtype d = (qn_dtype)g->node[x].dtype, wide = d;
    tuple_id shape = g->node[x].shape;
    if (!dtype_is_float(d)) {
        int64_t wrapped = dtype_wrap(d, count);
        if (op == OP_POW && wrapped != count) return 0;
        return make2(g, op, x, make_const(g, d, shape, (scalar){.i = wrapped}));
    }
    if (!counts_to(wide, count)) wide = QN_F32;
    if (!counts_to(wide, count)) wide = QN_F64;
    if (!counts_to(wide, count)) return 0;
    node_id n = make_number(g, wide, shape, (double)count);
    return make_cast(g, make2(g, op, make_cast(g, x, wide), n), d);
}

static bool finds_place(const graph_node *n) {
    return n->op == OP_ARGMAX || n->op == OP_ARGMIN;
}

/* Is the result of n one of what it reduces, or its place? */
static bool finds_one(const graph_node *n) {
    return n->op == OP_MAX || n->op == OP_MIN || finds_place(n);
}

/* The places that n finds, of those `at` where the axes of the mask are of size 1: an axis of m
 * places, with p behind each in row-major order, multiplies what stands before it,
 *
 *     at / p * p * m + at % p  =  at + at / p * (p * (m - 1)).
 *
 * 0: sizes are not known, where they matter. */
static node_id places(graph *g, const graph_node *n, node_id at, uint32_t axes) {
    uint32_t mask = tuple_axes(g, n->attr);
    int64_t behind = 1;
    for (int i = QN_MAX_RANK; i-- && (mask & ~axes & ((1u << i) - 1));) {
        int rank;
        if (!(mask >> i & 1)) continue;
        int64_t size = known_count(g, node_dims(g, n->src[0], &rank), 1u << i), all;
        if (!size || __builtin_mul_overflow(behind, size, &all)) return 0;
        if (axes >> i & 1) {
            node_id p = make_const(g, QN_I64, n->shape, (scalar){.i = behind});
            node_id more = make_const(g, QN_I64, n->shape, (scalar){.i = all - behind});
            at = make2(g, OP_ADD, at, make2(g, OP_MUL, make2(g, OP_FLOOR_DIV, at, p), more));
        }
        behind = all;
    }
    return at;
}

node_id rule_reduce_expanded(graph *g, const graph_node *n) {
    int rank;
    const int64_t *dims = node_dims(g, n->src[0], &rank);
    uint32_t equal = sources_repeated(g, n, tuple_axes(g, n->attr));
    bool one = finds_one(n);
    for (int i = 0; i < rank; i++) {
        if (!(equal >> i & 1)) continue;
        bool known = one ? sym_lo(g->syms, (sym)dims[i]) >= 1 : known_count(g, dims, 1u << i);
        if (!known) equal &= ~(1u << i);
    }
    int64_t count = one ? 1 : known_count(g, dims, equal);
    if (!equal || !count || g->node[n->src[0]].op == OP_CONST) return 0;
    node_id r = reduced_once(g, n, equal);
    if (finds_place(n)) return places(g, n, r, equal);
    return one ? r : of_equals(g, n->op == OP_PROD ? OP_POW : OP_MUL, r, count);
}

node_id rule_reduce_constant(graph *g, const graph_node *n) {
    const graph_node *x = node_at(g, n->src[0]);
    int rank;
    int64_t count = known_count(g, node_dims(g, n->src[0], &rank), tuple_axes(g, n->attr));
    if (x->op != OP_CONST || !count) return 0;
    if (finds_place(n)) return make_const(g, QN_I64, n->shape, (scalar){.i = 0});
    node_id r =
        node_make(g, (node_form){OP_CONST, (qn_dtype)n->dtype, n->shape, 0, x->bits}, 0, NULL);
    if (finds_one(n)) return r;
    return of_equals(g, n->op == OP_PROD ? OP_POW : OP_MUL, r, count);
}

/* An axis that is repeated and stays: all its places have the same result. */
node_id rule_reduce_repeated(graph *g, const graph_node *n) {
    uint32_t mask = tuple_axes(g, n->attr), stays = sources_repeated(g, n, ~mask);
    if (!stays) return 0;
    int rank, kept = 0;
    const int64_t *dims = node_dims(g, n->src[0], &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++)
        if (!(mask >> i & 1)) v[kept++] = stays >> i & 1 ? SYM_ONE : dims[i];
    node_id r = reduced_once(g, n, stays);
    return make_expand(g, make_reshape(g, r, graph_tuple(g, kept, v)), n->shape);
}

/* ---- repeated, then moved ------------------------------------------------------------------- */

static bool moves_repeated(const graph *g, node_id x) {
    bool moved = false;
    for (; rule_sees(g, x, OP_RESHAPE) || rule_sees(g, x, OP_PERMUTE); x = g->node[x].src[0])
        moved = true;
    return moved && rule_sees(g, x, OP_EXPAND);
}

/* Axes of which both shapes' axes are made, each of whole ones, and the mask of those of `to` on
 * them. 0: there are none, or sizes are not known. */
static int common_axes(graph *g, tuple_id from, tuple_id to, uint32_t *mask, int64_t *fine) {
    sym_store *s = g->syms;
    int rf, rt, n = 0, i = 0, j = 0;
    const int64_t *f = graph_tuple_get(g, from, &rf), *t = graph_tuple_get(g, to, &rt);
    uint32_t reduced = 0;
    sym a = SYM_ONE, b = SYM_ONE; /* what is left of an axis of each */
    for (;;) {
        while (a == SYM_ONE && i < rf) a = (sym)f[i++];
        while (b == SYM_ONE && j < rt) b = (sym)t[j++];
        if (a == SYM_ONE || b == SYM_ONE) break;
        int64_t x, y;
        sym piece = a;
        if (a != b) {
            if (!sym_is_const(s, a, &x) || !sym_is_const(s, b, &y)) return 0;
            if (x < 1 || y < 1 || (x < y ? y % x : x % y)) return 0;
            piece = x < y ? a : b;
            a = sym_const(s, x < y ? 1 : x / y);
            b = sym_const(s, x < y ? y / x : 1);
        } else {
            a = b = SYM_ONE;
        }
        if (n == QN_MAX_RANK) return 0;
        if (*mask >> (j - 1) & 1) reduced |= 1u << n;
        fine[n++] = piece;
    }
    *mask = reduced;
    return a == b ? n : 0;
}

/* x, each of whose axes is split into some of the n, in order. The splitting is done below a
 * permutation and a repetition. */
static node_id split(graph *g, node_id x, int n, const int64_t *fine) {
    const graph_node v = *node_at(g, x);
    int rank, first[QN_MAX_RANK + 1], at = 0, count = 0;
    int64_t part[QN_MAX_RANK];
    const int64_t *dims = graph_tuple_get(g, v.shape, &rank);
    for (int i = 0; i < rank; i++) { /* to the axis i go those from first[i] on */
        first[i] = at;
        for (sym size = SYM_ONE; size != (sym)dims[i] && at < n; at++)
            size = sym_mul(g->syms, size, (sym)fine[at]);
    }
    first[rank] = n;
    if (rule_sees(g, x, OP_EXPAND)) {
        const int64_t *from = node_dims(g, v.src[0], &rank);
        for (int i = 0; i < rank; i++)
            for (int k = first[i]; k < first[i + 1]; k++)
                part[k] = from[i] == SYM_ONE ? SYM_ONE : fine[k];
        node_id inside = make_reshape(g, v.src[0], graph_tuple(g, n, part));
        return make_expand(g, inside, graph_tuple(g, n, fine));
    }
    if (!rule_sees(g, x, OP_PERMUTE)) return make_reshape(g, x, graph_tuple(g, n, fine));
    int order[QN_MAX_RANK], place[QN_MAX_RANK + 1] = {0};
    const int64_t *axes = graph_tuple_get(g, v.attr, &rank);
    for (int i = 0; i < rank; i++) place[axes[i]] = i; /* where the source's axis is */
    for (int i = 0; i < rank; i++)
        for (int k = first[place[i]]; k < first[place[i] + 1]; k++) {
            part[count] = fine[k];
            order[k] = count++;
        }
    return make_permute(g, split(g, v.src[0], n, part), order);
}

/* The reduction of a permutation of x: the axes that are left are permuted. 0: those that are
 * reduced would be in another order, by which a place counts. */
static node_id below_permute(graph *g, const graph_node *n, node_id permuted) {
    const graph_node v = *node_at(g, permuted);
    int rank, order[QN_MAX_RANK], kept = 0;
    const int64_t *axes = graph_tuple_get(g, v.attr, &rank);
    uint32_t mask = tuple_axes(g, n->attr), below = 0;
    for (int i = 0; i < rank; i++) {
        if (!(mask >> i & 1)) continue;
        if (finds_place(n) && below >> axes[i]) return 0;
        below |= 1u << axes[i];
    }
    for (int i = 0; i < rank; i++) {
        if (mask >> i & 1) continue;
        uint32_t before = ~below & ((1u << axes[i]) - 1);
        order[kept++] = __builtin_popcount(before);
    }
    return make_permute(g, make_reduce(g, n->op, v.src[0], below), order);
}

node_id rule_reduce_moved(graph *g, const graph_node *n) {
    node_id x = n->src[0];
    if (!moves_repeated(g, x)) return 0;
    if (rule_sees(g, x, OP_PERMUTE)) return below_permute(g, n, x);
    node_id source = x;
    while (rule_sees(g, source, OP_RESHAPE)) source = g->node[source].src[0];
    uint32_t mask = tuple_axes(g, n->attr);
    int64_t fine[QN_MAX_RANK];
    int axes = common_axes(g, g->node[source].shape, g->node[x].shape, &mask, fine);
    if (!axes) return 0;
    return make_reshape(g, make_reduce(g, n->op, split(g, source, axes, fine), mask), n->shape);
}
