/* lift.c - which constants of a request its kernels take from the launch.
 *
 * A constant is part of what a kernel is only where something was made of its value. Elsewhere it
 * is a number that each launch gives, so that graphs which differ in such numbers share a plan and
 * its kernels: a learning rate that decays, a seed, a threshold. What is lifted follows from the
 * structure alone and never from what was asked for before; so one slot stands for one use, also
 * where two uses have equal values today.
 *
 * Rules of the graph were applied when nodes were made (x*1, x+0, folding, powers), and lifting
 * comes behind them: results have the bits that they had with the constant written out.
 *
 * Literal stay, with the reason:
 *   0, 1, -1, infinities, NaN   identities: monoids, masks and rules are recognized by them
 *   bool                        decides what is computed
 *   exponents 2 and 3 of POW    are expanded to products
 *   shifts, divisors, moduli    of integers become other instructions
 *   masks (AND)                 say which bits a field of a format has: bounds follow
 *   signed integers that meet   index arithmetic, of which bounds and disjointness are proved,
 *   nothing but places          unless it ends in comparisons that bound no index, nor alone
 *                               a reduction
 *   what is gathered from, or   is memory, or an index
 *   an index
 *
 * A number that places are compared with, or moved by before they are, as the diagonal of a
 * triangle, is a variable, for a condition that is linear in places bounds loops. Its sign is part
 * of the structure.
 *
 * Where slices begin and where padding puts its source are numbers of the launch, too, if all sizes
 * about them are numbers: variables in [0, what is left of the axis], so that bounds are proved as
 * ever. Index arithmetic lives by equal things being one, i - p + p is i; so of one request equal
 * offsets within equal axes are one slot, and which are equal is part of the structure. Literal
 * stay both ends, 0 and what is left, where half of the bounds need no test (two tensors side by
 * side are such), and slices of what a static graph packs beforehand, whose place is worked out
 * there. */
#include "plan/plan.h"

#include <math.h>

/* Integer operations that are the same instruction for every constant. */
static bool takes_integers(int op) {
    switch (op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_OR:
    case OP_XOR:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_WHERE:
        return true;
    default:
        return false;
    }
}

static bool is_plain(const graph_node *c) {
    scalar v = scalar_from_bits((qn_dtype)c->dtype, c->bits);
    if (c->dtype == QN_BOOL) return false;
    if (dtype_is_float(c->dtype)) return isfinite(v.f) && v.f != 0 && fabs(v.f) != 1;
    return v.i != 0 && v.i != -1 && (v.i != 1 || dtype_is_unsigned(c->dtype));
}

static bool meets_data(const graph *g, const graph_node *x) {
    for (int i = 0; i < x->sources; i++)
        if (!rule_of_places(g, x->src[i], 8)) return true;
    return false;
}

/* ---- numbers beside places ------------------------------------------------------------------- */

/* What becomes of a node: an index is bounded by it; the loops of a reduction are, of which a
 * causal mask leaves half; it is not only compared. */
enum { END_BOUND = 1, END_LOOPS = 2, END_OTHER = 4 };

static bool is_comparison(int op) {
    return op == OP_LT || op == OP_LE || op == OP_EQ || op == OP_NE;
}

/* What becomes of source s of x, given what becomes of x. Loops are cut where one condition
 * says so, and masked by two, a window's or a band's. */
static uint8_t end_of_source(const graph_node *x, int s, uint8_t end) {
    uint8_t bound = end & (END_BOUND | END_LOOPS);
    if (x->op == OP_AND) bound &= END_BOUND;
    switch (op_rows[x->op].class_) {
    case CLASS_ELEM:
        return is_comparison(x->op) ? bound : bound | END_OTHER;
    case CLASS_MOVE:
        return end;
    case CLASS_INDEX:
        return s == 1 ? END_BOUND | END_OTHER : bound | END_OTHER;
    case CLASS_JOIN:
        return bound | END_OTHER;
    case CLASS_REDUCE:
        return END_LOOPS | END_OTHER;
    default:
        return END_BOUND | END_OTHER;
    }
}

static void find_ends(plan_lift *l, const plan_request *r) {
    for (uint32_t i = 0; i < r->roots; i++) l->end[node_at(l->g, r->root[i])->mark] = END_OTHER;
    for (uint32_t i = r->nodes; i-- > 0;) {
        const graph_node *x = node_at(l->g, r->order[i]);
        for (int s = 0; s < x->sources && !node_is_memory(x); s++)
            l->end[node_at(l->g, x->src[s])->mark] |= end_of_source(x, s, l->end[i]);
    }
}

/* Is the constant c, a source of x, lifted as a variable of index expressions? Not beside data. */
static bool is_variable(const graph *g, const graph_node *x, const graph_node *c) {
    return c->dtype == QN_I64 && !meets_data(g, x);
}

/* Proofs about indices rest on a variable's bounds: beyond these a constant stays compiled in. */
static bool fits_variable(const graph_node *c) {
    int64_t v = scalar_from_bits(QN_I64, c->bits).i;
    return v >= -INT32_MAX && v <= INT32_MAX;
}

/* Is it a number that places are compared with? It is x's source, and so is a place. */
static bool is_compared(const plan_lift *l, const graph_node *x, const graph_node *c) {
    if (c->dtype != QN_I64) return false;
    uint8_t end = l->end[x->mark];
    if (x->op == OP_ADD || x->op == OP_SUB) return !end;
    return is_comparison(x->op) && !(end & (END_BOUND | END_LOOPS));
}

static bool elementwise_takes(const plan_lift *l, const graph_node *x, int source,
                              const graph_node *c) {
    if (dtype_is_float(c->dtype)) {
        double v = scalar_from_bits((qn_dtype)c->dtype, c->bits).f;
        return x->op != OP_POW || source == 0 || (v != 2 && v != 3);
    }
    if (!takes_integers(x->op)) return false;
    return dtype_is_unsigned(c->dtype) || meets_data(l->g, x) || is_compared(l, x, c);
}

static bool takes_number(const plan_lift *l, const graph_node *x, int source, const graph_node *c) {
    switch (op_rows[x->op].class_) {
    case CLASS_ELEM:
        return elementwise_takes(l, x, source, c);
    case CLASS_MOVE:
        return true;
    case CLASS_REDUCE:
        return dtype_is_float(c->dtype);
    case CLASS_INDEX:
        return x->op == OP_SCATTER && source != 1;
    default:
        return false;
    }
}

static inline bool is_lifted(const plan_lift *l, const graph_node *x, int source) {
    const graph_node *c = node_at(l->g, x->src[source]);
    if (c->op != OP_CONST || (c->flags & NODE_REALIZED) || !is_plain(c)) return false;
    if (is_variable(l->g, x, c) && !fits_variable(c)) return false;
    return takes_number(l, x, source, c);
}

static void add_slot(plan_lift *l, arena *a, int64_t value, int64_t most) {
    uint32_t cap = l->cap;
    l->value = arena_grow(a, l->value, &cap, l->slots + 1, sizeof *l->value);
    l->most = arena_grow(a, l->most, &l->cap, l->slots + 1, sizeof *l->most);
    l->value[l->slots] = value;
    l->most[l->slots++] = most;
}

static void add_constant(plan_lift *l, arena *a, const graph_node *c) {
    add_slot(l, a, scalar_to_word((qn_dtype)c->dtype, c->bits), LIFT_NUMBER);
}

/* A number beside places is a variable, of its size; its sign is in the key. */
static void add_operand(plan_lift *l, arena *a, const graph_node *x, const graph_node *c) {
    if (!is_variable(l->g, x, c)) {
        add_constant(l, a, c);
        return;
    }
    int64_t v = scalar_from_bits(QN_I64, c->bits).i;
    add_slot(l, a, v < 0 ? -v : v, INT32_MAX);
}

/* ---- offsets --------------------------------------------------------------------------------- */

/* The offset along an axis of a slice or padding, and the most there could be; false: literal. */
static bool is_offset(const plan_lift *l, const graph_node *x, int axis, int64_t *at,
                      int64_t *most) {
    const sym_store *s = l->g->syms;
    int n, rank;
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n) + 3 * (ptrdiff_t)axis;
    const graph_node *from = node_at(l->g, x->src[0]);
    if (!sym_is_const(s, (sym)attr[0], at) || *at < 1) return false;
    if (x->op == OP_PAD) {
        if (!sym_is_const(s, (sym)attr[1], most) || *most < 0) return false;
        *most += *at;
        return *at < *most;
    }
    const int64_t *dim = graph_tuple_get(l->g, from->shape, &rank);
    int64_t size, extent;
    if (!sym_is_const(s, (sym)attr[1], &extent) || !sym_is_const(s, (sym)dim[axis], &size))
        return false;
    *most = size - 1 - (extent - 1) * attr[2];
    return extent > 0 && *at < *most;
}

static bool has_offsets(const plan_lift *l, const graph_node *x) {
    if (l->none || (x->op != OP_SLICE && x->op != OP_PAD)) return false;
    return !l->lasting || !l->lasting[node_at(l->g, x->src[0])->mark];
}

typedef struct offset_key {
    int64_t at, most;
} offset_key;

static bool same_offset(const void *key, uint32_t id, const void *user) {
    const offset_key *k = key;
    const plan_lift *l = user;
    return l->value[id - 1] == k->at && l->most[id - 1] == k->most;
}

/* The slot of that offset, made where there is none. */
static uint32_t slot_of_offset(plan_lift *l, arena *a, idset *known, offset_key k) {
    uint64_t hash = hash_bytes(&k, sizeof k, 0);
    uint32_t id = idset_find(known, hash, same_offset, &k, l);
    if (id) return id - 1;
    add_slot(l, a, k.at, k.most);
    idset_add(known, hash, l->slots);
    return l->slots - 1;
}

static void add_offsets(plan_lift *l, arena *a, idset *known, const graph_node *x, uint32_t place) {
    int rank = node_rank(l->g, (node_id)(x - l->g->node));
    offset_key k;
    for (int i = 0; i < rank; i++) {
        if (!is_offset(l, x, i, &k.at, &k.most)) continue;
        if (!l->offset) l->offset = arena_zeroed(a, (l->nodes + 1) * sizeof *l->offset);
        if (!l->offset[place]) l->offset[place] = arena_zeroed(a, (size_t)rank * sizeof(uint32_t));
        l->offset[place][i] = slot_of_offset(l, a, known, k) + 1;
    }
}

/* ---- the slots ------------------------------------------------------------------------------- */

/* Which uses take their constant from the launch, and which constants are nodes of the key: roots,
 * and what some use takes as it is written. */
static void find_literals(plan_lift *l, const plan_request *r) {
    const graph *g = l->g;
    for (uint32_t i = 0; i < r->roots; i++) l->use[node_at(g, r->root[i])->mark] = LIFT_ROOT;
    for (uint32_t i = 0; i < r->nodes; i++) {
        const graph_node *x = node_at(g, r->order[i]);
        for (int s = 0; s < x->sources && !node_is_memory(x); s++)
            if (is_lifted(l, x, s))
                l->lifted[i] |= (uint8_t)(1 << s);
            else
                l->use[node_at(g, x->src[s])->mark] = LIFT_NODE;
    }
}

static void find_slots(plan_lift *l, arena *a, const node_id *order, idset *known) {
    const graph *g = l->g;
    for (uint32_t i = 0; i < l->nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        l->first[i] = l->slots;
        if (l->none || node_is_memory(x)) continue;
        if (x->op == OP_CONST && l->use[i] == LIFT_ROOT && is_plain(x)) add_constant(l, a, x);
        for (int s = 0; l->lifted[i] >> s; s++)
            if (l->lifted[i] >> s & 1) add_operand(l, a, x, node_at(g, x->src[s]));
        if (has_offsets(l, x)) add_offsets(l, a, known, x, i);
    }
}

plan_lift *lift_build(graph *g, arena *a, const plan_request *r) {
    plan_lift *l = arena_zeroed(a, sizeof *l);
    *l = (plan_lift){.g = g, .order = r->order, .nodes = r->nodes, .lasting = r->lasting};
    l->none = !g->ctx->knob[KNOB_LIFT].number;
    l->first = arena_alloc(a, (r->nodes + 1) * sizeof *l->first);
    l->use = arena_zeroed(a, r->nodes + 1);
    l->lifted = arena_zeroed(a, r->nodes + 1);
    for (uint32_t i = 0; i < r->nodes; i++) node_at(g, r->order[i])->mark = i;
    l->end = arena_zeroed(a, r->nodes + 1);
    find_ends(l, r);
    find_literals(l, r);
    heap *h = &g->ctx->heap;
    idset known;
    idset_open(&known, h);
    cleanup c;
    cleanup_push(h, &c, idset_cleanup, &known);
    find_slots(l, a, r->order, &known);
    cleanup_run(h, &c);
    return l;
}

bool lift_keeps(const plan_lift *l, uint32_t place) {
    return l->none || node_at(l->g, l->order[place])->op != OP_CONST || l->use[place];
}

uint32_t lift_operand(const plan_lift *l, uint32_t place, int source) {
    unsigned lifted = l->none ? 0 : l->lifted[place], before = lifted & ((1u << source) - 1);
    if (!(lifted >> source & 1)) return LIFT_NONE;
    return l->first[place] + (uint32_t)__builtin_popcount(before);
}

bool lift_is_negative(const plan_lift *l, uint32_t slot, const graph_node *c) {
    return l->most[slot] != LIFT_NUMBER && scalar_from_bits(QN_I64, c->bits).i < 0;
}

uint32_t lift_fill(const plan_lift *l, uint32_t place) {
    const graph_node *x = node_at(l->g, l->order[place]);
    bool fill = !l->none && x->op == OP_CONST && !node_is_memory(x) && l->use[place] == LIFT_ROOT;
    return fill && is_plain(x) ? l->first[place] : LIFT_NONE;
}

uint32_t lift_offset(const plan_lift *l, uint32_t place, int axis) {
    const uint32_t *slot = l->offset ? l->offset[place] : NULL;
    return slot && slot[axis] ? slot[axis] - 1 : LIFT_NONE;
}

tuple_id lift_attr(const plan_lift *l, graph *g, uint32_t place) {
    const graph_node *x = node_at(g, l->order[place]);
    if (!l->offset || !l->offset[place]) return x->attr;
    int n;
    const int64_t *attr = graph_tuple_get(g, x->attr, &n);
    int64_t v[3 * QN_MAX_RANK];
    memcpy(v, attr, (size_t)n * sizeof *v);
    for (int i = 0; i < n; i += 3) {
        uint32_t slot = l->offset[place][i / 3];
        if (!slot) continue;
        v[i] = SYM_ZERO;
        if (x->op == OP_PAD) v[i + 1] = sym_const(g->syms, l->most[slot - 1]);
    }
    return graph_tuple(g, n, v);
}
