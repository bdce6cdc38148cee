/* rules.c - when a node about to be made has a simpler equal.
 *
 * A rule is a function that looks at the node to be and gives another of the same value and shape,
 * or 0. The rows of rules.h name the operations each is tried for. Rules are tried in that order,
 * and what a rule makes goes through the rules itself, so that none needs to know the others; each
 * makes the term smaller or moves towards a leaf, which is why this ends.
 *
 * Values are kept exactly, in IEEE's sense: x + 0 is not x for floats (-0 + 0 is 0), but x + -0 and
 * x - 0 are; 0 * x is not 0 (infinity, NaN), and sums are never reordered, but that of what is
 * repeated one is reduced (rules/repeat.c). What may change is the sign of a zero sum of equal
 * elements. Functions that devices compute by formulas are left to them, so that f of a constant is
 * f of data of that value.
 *
 * A node that was realized is not looked into: its value is there, and what it was computed from
 * may not be. */
#include "graph/graph.h"

#include <math.h>

/* ---- looking at nodes ----------------------------------------------------------------------- */

bool rule_sees(const graph *g, node_id n, int op) {
    const graph_node *node = node_at(g, n);
    return node->op == op && !(node->flags & NODE_REALIZED);
}

bool rule_of_places(const graph *g, node_id n, int depth) {
    const graph_node *x = node_at(g, n);
    if (x->op == OP_CONST || x->op == OP_IOTA) return true;
    int class_ = op_rows[x->op].class_;
    if ((x->flags & NODE_REALIZED) || !depth) return false;
    if (class_ != CLASS_ELEM && class_ != CLASS_MOVE) return false;
    for (int i = 0; i < x->sources; i++)
        if (!rule_of_places(g, x->src[i], depth - 1)) return false;
    return true;
}

static bool is_constant(const graph *g, node_id n) {
    return g->node[n].op == OP_CONST;
}

static scalar constant_of(const graph *g, node_id n) {
    return scalar_from_bits((qn_dtype)g->node[n].dtype, g->node[n].bits);
}

static bool is_float(const graph_node *n) {
    return dtype_is_float(n->dtype);
}

/* Is n the constant v? -0 is not 0, and no unsigned number is -1. */
static bool is_number(const graph *g, node_id n, double v) {
    if (!is_constant(g, n)) return false;
    qn_dtype d = (qn_dtype)g->node[n].dtype;
    if (v < 0 && (d == QN_BOOL || dtype_is_unsigned(d))) return false;
    return g->node[n].bits == scalar_bits(d, scalar_number(d, v));
}

static bool is_identity(const graph *g, node_id n, int row) {
    qn_dtype d = (qn_dtype)g->node[n].dtype;
    return is_constant(g, n) && g->node[n].bits == scalar_bits(d, monoid_identity(row, 0, d));
}

static node_id number_like(graph *g, const graph_node *n, double v) {
    return make_number(g, (qn_dtype)n->dtype, n->shape, v);
}

/* The source of n that is the constant v, as its place; -1: none. */
static int place_of_number(const graph *g, const graph_node *n, double v) {
    for (int i = 0; i < 2; i++)
        if (is_number(g, n->src[i], v)) return i;
    return -1;
}

/* ---- constants ------------------------------------------------------------------------------ */

/* Is its value the device's, which the C library's may differ from in the last place? */
static bool is_by_formula(const graph_node *n) {
    return is_float(n) && op_rows[n->op].by_formula;
}

node_id rule_fold(graph *g, const graph_node *n) {
    scalar x[3], r;
    if (is_by_formula(n)) return 0;
    for (int i = 0; i < n->sources; i++) {
        if (!is_constant(g, n->src[i])) return 0;
        x[i] = constant_of(g, n->src[i]);
    }
    const graph_node *last = node_at(g, n->src[n->sources - 1]);
    if (n->op == OP_BITCAST) /* the bits as they are: a NaN keeps its payload */
        return node_make(g, (node_form){OP_CONST, (qn_dtype)n->dtype, n->shape, 0, last->bits}, 0,
                         NULL);
    if (!scalar_op(n->op, (qn_dtype)n->dtype, (qn_dtype)last->dtype, x, &r)) return 0;
    return make_const(g, (qn_dtype)n->dtype, n->shape, r);
}

/* A function of constants that is left to the device is computed at one place. */
node_id rule_fold_places(graph *g, const graph_node *n) {
    const graph_node f = *n;
    int rank;
    int64_t one[QN_MAX_RANK];
    node_id src[3] = {0};
    graph_tuple_get(g, f.shape, &rank);
    for (int i = 0; i < rank; i++) one[i] = SYM_ONE;
    tuple_id place = graph_tuple(g, rank, one);
    if (place == f.shape || !is_by_formula(n)) return 0;
    for (int i = 0; i < f.sources; i++) {
        if (!is_constant(g, f.src[i])) return 0;
        src[i] = make_const(g, (qn_dtype)f.dtype, place, constant_of(g, f.src[i]));
    }
    node_form form = {f.op, (qn_dtype)f.dtype, place, f.attr, f.bits};
    return make_expand(g, node_make(g, form, f.sources, src), f.shape);
}

/* ---- neutral elements ----------------------------------------------------------------------- */

node_id rule_times_one(graph *g, const graph_node *n) {
    if (is_number(g, n->src[1], 1)) return n->src[0];
    return n->op == OP_MUL && is_number(g, n->src[0], 1) ? n->src[1] : 0;
}

node_id rule_times_minus_one(graph *g, const graph_node *n) {
    if (is_number(g, n->src[1], -1)) return make1(g, OP_NEG, n->src[0]);
    return n->op == OP_MUL && is_number(g, n->src[0], -1) ? make1(g, OP_NEG, n->src[1]) : 0;
}

node_id rule_times_zero(graph *g, const graph_node *n) {
    return !is_float(n) && place_of_number(g, n, 0) >= 0 ? number_like(g, n, 0) : 0;
}

/* For floats -0 is neutral in a sum and +0 when taken off. */
node_id rule_plus_zero(graph *g, const graph_node *n) {
    double neutral = n->op == OP_ADD && is_float(n) ? -0.0 : 0.0;
    if (is_number(g, n->src[1], neutral)) return n->src[0];
    return n->op == OP_ADD && is_number(g, n->src[0], neutral) ? n->src[1] : 0;
}

node_id rule_bits_neutral(graph *g, const graph_node *n) {
    bool shift = n->op == OP_SHL || n->op == OP_SHR;
    for (int i = 0; i < 2; i++) {
        bool zero = is_number(g, n->src[i], 0), ones = is_identity(g, n->src[i], MONOID_AND);
        bool neutral = n->op == OP_AND ? ones : zero;
        if (shift) {
            if (i == 1 && zero) return n->src[0];
            continue;
        }
        if (neutral) return n->src[1 - i];
        if ((n->op == OP_AND && zero) || (n->op == OP_OR && ones)) return n->src[i];
    }
    return 0;
}

/* (x & c) & d is x & (c & d): of integers, whose sums wrap, any grouping is exact. */
node_id rule_numbers_meet(graph *g, const graph_node *n) {
    const bool exact = dtype_is_int(n->dtype) || n->dtype == QN_BOOL;
    for (int i = 0; i < 2 && exact; i++) {
        node_id number = n->src[i], other = n->src[1 - i];
        if (!is_constant(g, number) || !rule_sees(g, other, n->op)) continue;
        const graph_node inner = *node_at(g, other);
        for (int k = 0; k < 2; k++)
            if (is_constant(g, inner.src[k]) && !is_constant(g, inner.src[1 - k]))
                return make2(g, n->op, inner.src[1 - k], make2(g, n->op, inner.src[k], number));
    }
    return 0;
}

/* max(x, -infinity), and for integers the lowest and the highest */
node_id rule_extreme_neutral(graph *g, const graph_node *n) {
    int row = n->op == OP_MAXIMUM ? MONOID_MAX : MONOID_MIN;
    for (int i = 0; i < 2; i++)
        if (is_identity(g, n->src[i], row)) return n->src[1 - i];
    return 0;
}

/* ---- a source twice ------------------------------------------------------------------------- */

node_id rule_same_twice(graph *g, const graph_node *n) {
    if (n->src[0] != n->src[1]) return 0;
    bool exact = !is_float(node_at(g, n->src[0])); /* no NaN */
    switch (n->op) {
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
        return n->src[0];
    case OP_SUB:
    case OP_XOR:
        return exact ? number_like(g, n, 0) : 0;
    case OP_EQ:
    case OP_LE:
        return exact ? number_like(g, n, 1) : 0;
    case OP_NE:
        return exact ? number_like(g, n, 0) : 0;
    case OP_LT:
        return number_like(g, n, 0);
    default:
        return 0;
    }
}

/* ---- inverses and repetitions --------------------------------------------------------------- */

node_id rule_undone(graph *g, const graph_node *n) {
    return rule_sees(g, n->src[0], n->op) ? g->node[n->src[0]].src[0] : 0;
}

/* Rounding what is whole already, as integers are, and |(|x|)| and |-x|, but for unsigned numbers,
 * which wrap. */
node_id rule_repeated(graph *g, const graph_node *n) {
    node_id x = n->src[0];
    if (n->op == OP_ABS) {
        if (rule_sees(g, x, OP_NEG) && !dtype_is_unsigned(n->dtype))
            return make1(g, OP_ABS, g->node[x].src[0]);
        return rule_sees(g, x, OP_ABS) ? x : 0;
    }
    if (!is_float(n)) return x;
    bool whole = rule_sees(g, x, OP_FLOOR) || rule_sees(g, x, OP_CEIL) ||
                 rule_sees(g, x, OP_ROUND) || rule_sees(g, x, OP_TRUNC);
    return whole ? x : 0;
}

/* x + -y, -x + y, x - -y, -x * -y, -x / -y */
node_id rule_signs(graph *g, const graph_node *n) {
    node_id a = n->src[0], b = n->src[1];
    bool na = rule_sees(g, a, OP_NEG), nb = rule_sees(g, b, OP_NEG);
    node_id x = na ? g->node[a].src[0] : a, y = nb ? g->node[b].src[0] : b;
    switch (n->op) {
    case OP_ADD:
        if (nb) return make2(g, OP_SUB, a, y);
        return na ? make2(g, OP_SUB, b, x) : 0;
    case OP_SUB:
        return nb ? make2(g, OP_ADD, a, y) : 0;
    default:
        return na && nb ? make2(g, n->op, x, y) : 0;
    }
}

/* ---- divisions and powers ------------------------------------------------------------------- */

/* Dividing by a power of two is multiplying by its inverse, as long as that is a normal number. */
node_id rule_divide_by_power(graph *g, const graph_node *n) {
    if (!is_constant(g, n->src[1])) return 0;
    double v = constant_of(g, n->src[1]).f, inverse = 1 / v;
    int exponent, limit = -dtype_rows[n->dtype].least - 1;
    if (fabs(frexp(v, &exponent)) != 0.5 || exponent > limit || exponent < -limit) return 0;
    return make2(g, OP_MUL, n->src[0], number_like(g, n, inverse));
}

node_id rule_small_power(graph *g, const graph_node *n) {
    node_id x = n->src[0];
    if (is_number(g, n->src[1], 2)) return make2(g, OP_MUL, x, x);
    if (is_float(n) && is_number(g, n->src[1], -1)) return make1(g, OP_RECIPROCAL, x);
    return is_number(g, n->src[1], 0) ? number_like(g, n, 1) : 0;
}

/* ---- choices -------------------------------------------------------------------------------- */

node_id rule_choice_known(graph *g, const graph_node *n) {
    if (n->src[1] == n->src[2]) return n->src[1];
    if (!is_constant(g, n->src[0])) return 0;
    return constant_of(g, n->src[0]).i ? n->src[1] : n->src[2];
}

node_id rule_choice_inverted(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_NOT)) return 0;
    return make3(g, OP_WHERE, g->node[n->src[0]].src[0], n->src[2], n->src[1]);
}

/* Both zeros are +0, as their sum and difference are. */
node_id rule_choice_shared(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_WHERE) || !rule_sees(g, n->src[1], OP_WHERE)) return 0;
    const graph_node a = *node_at(g, n->src[0]), b = *node_at(g, n->src[1]);
    if (a.src[0] != b.src[0] || a.src[2] != b.src[2]) return 0;
    if (!is_constant(g, a.src[2]) || g->node[a.src[2]].bits) return 0;
    return make3(g, OP_WHERE, a.src[0], make2(g, n->op, a.src[1], b.src[1]), a.src[2]);
}

/* No unsigned number is below 0. */
node_id rule_unsigned_below_zero(graph *g, const graph_node *n) {
    if (!dtype_is_unsigned(g->node[n->src[0]].dtype)) return 0;
    int zero = n->op == OP_LT;
    return is_number(g, n->src[zero], 0) ? number_like(g, n, !zero) : 0;
}

/* ---- casts ---------------------------------------------------------------------------------- */

static int value_bits(qn_dtype d) {
    return dtype_rows[d].fraction + dtype_is_float(d);
}

/* Is every value of a one of b? */
static bool dtype_holds(qn_dtype b, qn_dtype a) {
    if (a == b || a == QN_BOOL) return true;
    if (b == QN_BOOL) return false;
    if (dtype_is_float(a))
        return dtype_rows[b].kind == KIND_FLOAT && value_bits(a) <= value_bits(b);
    bool sign_fits = dtype_is_float(b) || dtype_is_unsigned(a) || !dtype_is_unsigned(b);
    return sign_fits && value_bits(a) <= value_bits(b);
}

/* a to b to c is a to c when b holds a. But an integer by way of a float is clamped where a direct
 * cast wraps; and integers may narrow twice, or narrow and return no wider than they were. */
node_id rule_cast_chain(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_CAST)) return 0;
    node_id x = g->node[n->src[0]].src[0];
    qn_dtype a = (qn_dtype)g->node[x].dtype, b = (qn_dtype)g->node[n->src[0]].dtype;
    qn_dtype c = (qn_dtype)n->dtype;
    bool clamped = dtype_is_int(a) && dtype_is_float(b) && dtype_is_int(c) && !dtype_holds(c, a);
    bool wraps = dtype_is_int(a) && dtype_is_int(b) && dtype_is_int(c) &&
                 qn_dtype_size(c) <= qn_dtype_size(b);
    if ((!dtype_holds(b, a) || clamped) && !wraps) return 0;
    return make_cast(g, x, c);
}

node_id rule_bitcast_chain(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_BITCAST)) return 0;
    return make_bitcast(g, g->node[n->src[0]].src[0], (qn_dtype)n->dtype);
}

/* Counting in another dtype, where the first can count that far. */
node_id rule_cast_iota(graph *g, const graph_node *n) {
    if (!rule_sees(g, n->src[0], OP_IOTA) || n->dtype == QN_BOOL) return 0;
    const graph_node *x = node_at(g, n->src[0]);
    int rank, count, axis = (int)graph_tuple_get(g, x->attr, &count)[0];
    int64_t most = sym_hi(g->syms, (sym)graph_tuple_get(g, x->shape, &rank)[axis]);
    int bits = value_bits((qn_dtype)x->dtype);
    if (bits < 62 && most > (int64_t)1 << bits) return 0;
    return make_iota(g, (qn_dtype)n->dtype, n->shape, axis);
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* What lies in memory is stored; what has no gradient needs no end of gradients. A version of a
 * tensor (a DETACH with a number) is one to differentiate by. */
node_id rule_needless_mark(graph *g, const graph_node *n) {
    const graph_node *x = node_at(g, n->src[0]);
    if (n->attr) return 0; /* an index to be checked */
    if ((x->op == n->op && !x->bits) || x->op == OP_CONST) return n->src[0];
    if (n->op == OP_CONTIGUOUS) return x->flags & NODE_REALIZED ? n->src[0] : 0;
    return !is_float(n) || x->op == OP_IOTA ? n->src[0] : 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

_Static_assert(OP_COUNT <= 128, "a set of operations is two words");
#define ON(op)      ((op_set)1 << OP_##op)
#define EVERYTHING  (~(ON(NONE) | ON(CONST) | ON(BUFFER)))
#define ANY         (~(op_set)0)
#define ELEMENTWISE elementwise
#define MOVEMENT                                                                                   \
    (ON(RESHAPE) | ON(PERMUTE) | ON(EXPAND) | ON(PAD) | ON(SLICE) | ON(WINDOW) | ON(FLIP))

static const op_set elementwise = 0
#define X(NAME, name, arity, CLASS, ...) | (op_set)(CLASS_##CLASS == CLASS_ELEM) << OP_##NAME
#include "graph/ops.h"
#undef X
    ;

typedef struct rule_row {
    const char *name;
    node_id (*apply)(graph *g, const graph_node *n);
} rule_row;

static const rule_row rule_rows[RULE_COUNT] = {
#define X(name, ...) {#name, rule_##name},
#include "graph/rules/rules.h"
#undef X
};

/* Rules name few operations as a rule, so that it is the set bits that are walked. */
static void add_rule(uint64_t to[OP_COUNT], op_set ops, int rule) {
    for (int half = 0; half < 2; half++)
        for (uint64_t left = (uint64_t)(ops >> 64 * half); left; left &= left - 1) {
            int op = 64 * half + __builtin_ctzll(left);
            if (op < OP_COUNT) to[op] |= (uint64_t)1 << rule;
        }
}

void rules_open(graph *g) {
    const struct {
        op_set ops, sees;
    } rows[RULE_COUNT] = {
#define X(name, ops, sees, doc) {ops, sees},
#include "graph/rules/rules.h"
#undef X
    };
    for (int rule = 0; rule < RULE_COUNT; rule++) {
        add_rule(g->rules, rows[rule].ops & ~(op_set)1, rule);
        add_rule(g->seen, rows[rule].sees, rule);
    }
}

/* What is no source is node 0, an OP_NONE: with it come the rules that ask for no source. */
node_id rules_apply(graph *g, const graph_node *n) {
    uint64_t sees = 0;
    for (int i = 0; i < 3; i++) sees |= g->seen[g->node[n->src[i]].op];
    for (uint64_t left = g->rules[n->op] & sees; left; left &= left - 1) {
        const rule_row *rule = &rule_rows[__builtin_ctzll(left)];
        node_id simpler = rule->apply(g, n);
        if (!simpler) continue;
        if (debug_on(g->ctx, 'r')) log_line(g->ctx, "rule %s: %s", rule->name, op_rows[n->op].name);
        return simpler;
    }
    return 0;
}
