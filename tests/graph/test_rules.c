/* test_rules.c - every rule alone: random terms are made twice, without rules and with that one
 * rule, and evaluated by eval.h. The values must be the same bits, the rule must have been
 * applied to many of the terms, and a row that never applies fails. The same is done with all
 * rules at once, on deeper terms. What eval.h knows of meaning it has from ops.h, not from the
 * rules. */
#include "eval.h"
#include "func/func.h"

enum { FEW = 6 };

/* One random term: a few leaves and constants, then operations on earlier ones. It is drawn from
 * the seed alone, so that drawing it again under other rules gives the same term. */
typedef struct term {
    qn_ctx *qn;
    uint64_t seed;
    op_set ops; /* those the last operation is drawn from */
    qn_dtype dtype;
    qn_tensor *x[32];
    int n;
} term;

static const double odd_numbers[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     0.5,
                                     3,
                                     7,
                                     -5.5,
                                     100,
                                     255,
                                     1e30,
                                     4096,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN};

static double odd_number(term *t) {
    return odd_numbers[test_below(&t->seed, (int64_t)COUNT_OF(odd_numbers))];
}

/* Shapes of 12 elements, and some that broadcast to one of them. */
static const struct {
    int rank;
    int64_t dims[4];
} shapes[] = {{2, {3, 4}},  {1, {12}},         {3, {3, 1, 4}}, {3, {2, 2, 3}},
              {2, {12, 1}}, {4, {1, 3, 2, 2}}, {2, {3, 1}},    {2, {1, 4}},
              {0, {0}},     {3, {1, 1, 1}},    {2, {0, 4}},    {1, {4}}};

static void add_leaf(term *t, qn_dtype d) {
    int k = (int)test_below(&t->seed, (int64_t)COUNT_OF(shapes));
    double v[12];
    for (int i = 0; i < 12; i++) v[i] = odd_number(t);
    if (test_below(&t->seed, 3) == 0) {
        t->x[t->n++] = func_full(t->qn, d, shapes[k].rank, shapes[k].dims, v[0]);
    } else if (test_below(&t->seed, 4) == 0 && d != QN_BOOL && shapes[k].rank) {
        int axis = (int)test_below(&t->seed, shapes[k].rank);
        t->x[t->n++] = func_iota(t->qn, d, shapes[k].rank, shapes[k].dims, axis);
    } else {
        t->x[t->n++] = leaf_of(t->qn, d, shapes[k].rank, shapes[k].dims, v);
    }
}

/* Mostly what was made last. */
static qn_tensor *pick(term *t) {
    if (t->n > FEW && test_below(&t->seed, 3)) return t->x[t->n - 1];
    return t->x[test_below(&t->seed, t->n)];
}

static qn_tensor *move_reshape(term *t, qn_tensor *x) {
    int64_t n = qn_numel(x), first;
    for (int tries = 0; tries < 20; tries++) {
        int k = (int)test_below(&t->seed, 6);
        if (n == 12) return func_reshape(x, shapes[k].rank, shapes[k].dims);
        first = test_below(&t->seed, 6) + 1;
        if (n % first == 0 && n) return func_reshape(x, 2, (int64_t[]){first, n / first});
    }
    return qn_unsqueeze(x, (int)test_below(&t->seed, qn_rank(x) + 1));
}

static qn_tensor *move_expand(term *t, qn_tensor *x) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    for (int i = 0; i < rank; i++)
        if (dims[i] == 1 && test_below(&t->seed, 2)) dims[i] = test_below(&t->seed, 4);
    return func_expand(x, rank, dims);
}

static qn_tensor *move_permute(term *t, qn_tensor *x) {
    int axes[QN_MAX_RANK], rank = qn_rank(x);
    for (int i = 0; i < rank; i++) axes[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int k = (int)test_below(&t->seed, i + 1), a = axes[i];
        axes[i] = axes[k];
        axes[k] = a;
    }
    return qn_permute(x, rank, axes);
}

static qn_tensor *move_pad(term *t, qn_tensor *x) {
    int64_t p[3 * QN_MAX_RANK] = {0};
    if (qn_numel(x) > 200) return x;
    for (int i = 0; i < qn_rank(x); i++)
        for (int k = 0; k < 3; k++) p[3 * i + k] = test_below(&t->seed, k < 2 ? 3 : 2);
    return func_pad(x, p);
}

static qn_tensor *move_slice(term *t, qn_tensor *x) {
    int64_t p[3 * QN_MAX_RANK];
    for (int i = 0; i < qn_rank(x); i++) {
        int64_t n = qn_dim(x, i), step = test_below(&t->seed, 3) + 1;
        int64_t start = test_below(&t->seed, 2) ? 0 : test_below(&t->seed, n + 1);
        int64_t most = start < n ? (n - start - 1) / step + 1 : 0;
        p[3 * i] = start;
        p[3 * i + 1] = test_below(&t->seed, 2) ? most : test_below(&t->seed, most + 1);
        p[3 * i + 2] = step;
    }
    return func_slice(x, p);
}

static qn_tensor *move_window(term *t, qn_tensor *x) {
    int rank = qn_rank(x);
    if (rank < 2) return NULL;
    int axis = (int)test_below(&t->seed, rank);
    int by = (axis + 1 + (int)test_below(&t->seed, rank - 1)) % rank;
    int64_t slope = test_below(&t->seed, 7) - 3, n = qn_dim(x, by);
    sym_store *s = tensor_ctx(x)->graph->syms;
    window_attr w = {axis, by, 1 + test_below(&t->seed, 3), slope ? slope : 1, 0, 0, 0};
    w.start = sym_const(s, test_below(&t->seed, 7) - 3);
    w.size = sym_const(s, test_below(&t->seed, 5));
    w.length = sym_const(s, n == 1 ? 1 + test_below(&t->seed, 3) : n);
    return build_window(x, &w, false);
}

static qn_tensor *movement(term *t, int op, qn_tensor *x) {
    switch (op) {
    case OP_RESHAPE:
        return move_reshape(t, x);
    case OP_PERMUTE:
        return move_permute(t, x);
    case OP_EXPAND:
        return move_expand(t, x);
    case OP_PAD:
        return move_pad(t, x);
    case OP_SLICE:
        return move_slice(t, x);
    case OP_WINDOW:
        return move_window(t, x);
    default:
        return build_flip(x, (uint32_t)test_below(&t->seed, 1 << qn_rank(x)));
    }
}

/* Some of what is there and slices of it beside x, which they fit or not. */
static qn_tensor *join(term *t, qn_tensor *x) {
    qn_tensor *part[5];
    int n = 2 + (int)test_below(&t->seed, 4), rank = qn_rank(x);
    if (!rank) return NULL;
    int axis = (int)test_below(&t->seed, rank);
    bool slices = test_below(&t->seed, 2);
    int64_t size = qn_dim(x, axis), at = 0;
    for (int i = 0; i < n; i++) {
        int64_t end = i + 1 == n ? size : at + test_below(&t->seed, size - at + 1);
        part[i] = slices                    ? func_slice_axis(x, axis, at, end - at, 1)
                  : test_below(&t->seed, 2) ? func_slice_axis(x, axis, 0, end - at, 1)
                                            : qn_neg(x);
        if (test_below(&t->seed, 3) == 0) part[i] = qn_like(part[i], 3);
        at = end;
    }
    return qn_concat(n, part, axis);
}

/* x where a condition holds, else 0. */
static qn_tensor *masked(qn_tensor *condition, qn_tensor *x) {
    return qn_where(condition, x, qn_like(x, 0));
}

/* x times another, perhaps where a condition on places holds, perhaps moved. */
static qn_tensor *product(term *t, qn_tensor *x, uint32_t *mask) {
    x = qn_mul(x, pick(t));
    if (!x) return NULL;
    if (qn_rank(x) && qn_numel(x) && test_below(&t->seed, 3) == 0) {
        tuple_id shape = t->qn->graph->node[tensor_at(x)->node].shape;
        qn_tensor *place = build_iota(t->qn, QN_I32, shape, 0);
        x = masked(qn_lt(place, qn_like(place, 1)), x);
    }
    if (test_below(&t->seed, 2)) {
        int op = OP_RESHAPE + (int)test_below(&t->seed, 7);
        x = movement(t, op, x);
    }
    if (x) *mask &= (1u << qn_rank(x)) - 1;
    return x;
}

/* The sum of x times another of its shape, perhaps where a condition holds. */
static qn_tensor *sum_product(term *t, qn_tensor *x, uint32_t mask) {
    graph *g = t->qn->graph;
    qn_tensor *y = qn_add(x, x), *here = test_below(&t->seed, 2) ? qn_le(x, y) : NULL;
    if (!y || !mask) return NULL;
    node_id n = make_sum_product(g, tensor_at(x)->node, tensor_at(y)->node,
                                 here ? tensor_at(here)->node : 0, mask);
    qn_tensor *sum = tensor_new(t->qn, n);
    graph_settle(g);
    return sum;
}

/* x repeated along a new axis, and moved after that. */
static qn_tensor *repeated(term *t, qn_tensor *x, uint32_t *mask) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims) + 1, axis = (int)test_below(&t->seed, rank);
    for (int i = rank - 1; i > axis; i--) dims[i] = dims[i - 1];
    dims[axis] = 1;
    x = func_reshape(x, rank, dims);
    dims[axis] = 1 + test_below(&t->seed, 3);
    x = movement(t, OP_PERMUTE, func_expand(x, rank, dims));
    if (test_below(&t->seed, 2)) x = movement(t, OP_RESHAPE, x);
    *mask = (uint32_t)test_below(&t->seed, 1 << qn_rank(x));
    return x;
}

static qn_tensor *reduction(term *t, int op, qn_tensor *x) {
    uint32_t mask = (uint32_t)test_below(&t->seed, 1 << qn_rank(x));
    if (op == OP_SUM && test_below(&t->seed, 4) == 0 && qn_numel(x)) /* the same along an axis */
        x = masked(qn_lt(qn_like(x, 1), build_reduce(OP_MAX, x, mask, true)), x);
    if (op == OP_SUM_PRODUCT) return sum_product(t, x, mask);
    if (op == OP_SUM && test_below(&t->seed, 2) == 0) x = product(t, x, &mask);
    bool index = op == OP_ARGMAX || op == OP_ARGMIN;
    if (x && test_below(&t->seed, 3) == 0) x = repeated(t, x, &mask);
    if (!x || (index && qn_numel(x) == 0)) return NULL;
    return build_reduce(op, x, mask, test_below(&t->seed, 2));
}

static qn_tensor *elementwise(term *t, int op) {
    qn_tensor *in[3];
    for (int i = 0; i < op_rows[op].arity; i++) in[i] = pick(t);
    if (test_below(&t->seed, 4) == 0) in[1] = in[0];
    if (op == OP_WHERE && qn_dtype_of(in[0]) != QN_BOOL) in[0] = qn_lt(in[0], in[1]);
    if (op == OP_WHERE && test_below(&t->seed, 2)) in[0] = qn_not(in[0]);
    if ((op == OP_ADD || op == OP_SUB) && test_below(&t->seed, 4) == 0) {
        qn_tensor *condition = qn_lt(in[0], in[1]);
        for (int i = 0; i < 2; i++) in[i] = masked(condition, in[i]);
    }
    if (op == OP_CAST) return qn_cast(in[0], (qn_dtype)test_below(&t->seed, DTYPE_COUNT));
    if (op == OP_BITCAST) {
        qn_dtype to = (qn_dtype)test_below(&t->seed, DTYPE_COUNT);
        bool nans = dtype_is_int(qn_dtype_of(in[0])) && dtype_is_float(to);
        if (nans) return NULL; /* one that signals does not travel as a double */
        return qn_dtype_size(to) == qn_dtype_size(qn_dtype_of(in[0])) && to != QN_BOOL
                   ? qn_bitcast(in[0], to)
                   : NULL;
    }
    return build_elem(op, op_rows[op].arity, in);
}

/* An operation on what is there; NULL (and the error cleared) where it does not fit. */
static qn_tensor *operation(term *t, int op) {
    qn_tensor *r = NULL;
    switch (op_rows[op].class_) {
    case CLASS_ELEM:
        r = elementwise(t, op);
        break;
    case CLASS_MOVE:
        r = movement(t, op, pick(t));
        break;
    case CLASS_JOIN:
        r = join(t, pick(t));
        if (r && test_below(&t->seed, 3) == 0) r = movement(t, OP_PERMUTE, r);
        break;
    case CLASS_REDUCE:
        r = reduction(t, op, pick(t));
        break;
    case CLASS_MARK:
        r = build_mark(op, pick(t));
        break;
    case CLASS_LEAF:
        add_leaf(t, t->dtype == QN_BOOL ? QN_I32 : t->dtype);
        break;
    default:
        break;
    }
    if (qn_error_code(t->qn) != QN_OK) qn_clear_error(t->qn);
    return r;
}

static const op_set all_ops = (((op_set)2 << (OP_COUNT - 1)) - 1) & ~(op_set)1;

static int draw_op(term *t, op_set set) {
    int op;
    do op = 1 + (int)test_below(&t->seed, OP_COUNT - 1);
    while (!(set >> op & 1) || op == OP_CONST || op == OP_BUFFER);
    return op;
}

/* Draw the whole term; its last operation is the one in which a rule is looked for. */
static qn_tensor *draw(term *t, int steps) {
    const op_set sliced = (op_set)1 << OP_SLICE, joins = t->ops & sliced ? (op_set)1 << OP_JOIN : 0;
    const op_set looked_at = (op_set)1 << OP_NEG | (op_set)1 << OP_NOT | (op_set)1 << OP_CAST |
                             (op_set)1 << OP_EXPAND | (op_set)1 << OP_PAD | joins |
                             t->ops; /* by some rule */
    t->n = 0;
    t->dtype = (qn_dtype)test_below(&t->seed, DTYPE_COUNT);
    for (int i = 0; i < FEW; i++) {
        bool same = test_below(&t->seed, 4);
        add_leaf(t, same ? t->dtype : (qn_dtype)test_below(&t->seed, DTYPE_COUNT));
    }
    qn_tensor *last = NULL;
    for (int i = 0; i < steps && t->n < 30; i++) {
        op_set from = test_below(&t->seed, 4) ? looked_at : all_ops;
        last = operation(t, draw_op(t, i + 1 == steps ? t->ops : from));
        if (last && qn_numel(last) <= 4000) t->x[t->n++] = last;
    }
    return t->x[t->n - 1];
}

static bool same_value(const eval_value *a, const eval_value *b, int64_t i, double rel) {
    if (!dtype_is_float(a->dtype)) return a->v[i].i == b->v[i].i;
    double x = a->v[i].f, y = b->v[i].f;
    if (rel > 0 && x == y) return true; /* zeros of either sign */
    if (rel > 0) return test_close(x, y, rel, 0);
    return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

static void only_rules(qn_ctx *qn, uint64_t keep) {
    for (int op = 0; op < OP_COUNT; op++) qn->graph->rules[op] &= keep;
}

static void count_line(void *user, const char *line) {
    *(int *)user += strncmp(line, "rule ", 5) == 0;
}

/* Is something whole made of a float, which another rounding would change by more than that? */
static bool crosses(const graph *g) {
    for (node_id i = 1; i < g->nodes; i++)
        for (int k = 0; k < g->node[i].sources; k++)
            if (!dtype_is_float(g->node[i].dtype) &&
                dtype_is_float(g->node[g->node[i].src[k]].dtype))
                return true;
    return false;
}

/* Make and evaluate the term of this seed. `applied` counts rules. */
static eval_value term_value(uint64_t seed, op_set ops, uint64_t rules, int steps, int *applied,
                             bool *crossed) {
    term t = {.qn = open_graph(), .seed = seed, .ops = ops};
    only_rules(t.qn, rules);
    t.qn->knob[KNOB_DEBUG].text = "r"; /* rules tell when they are applied */
    t.qn->log = count_line;
    t.qn->log_user = applied;
    qn_scope s = qn_scope_begin(t.qn);
    qn_tensor *drawn = draw(&t, steps);
    *crossed |= crosses(t.qn->graph);
    eval_value v = eval(drawn);
    qn_scope_end(t.qn, s);
    close_graph(t.qn);
    return v;
}

/* Rules that reduce in another order, or round n*x and x^n once where the sum and the product of n
 * equals round each time. */
static const uint64_t regrouping = (uint64_t)1 << RULE_reduce_expanded |
                                   (uint64_t)1 << RULE_reduce_constant |
                                   (uint64_t)1 << RULE_reduce_moved;

/* Others may change the sign of a zero, or the last bit against libm's pow. */
static double tolerance(uint64_t rules, qn_dtype d) {
    uint64_t loose = (uint64_t)1 << RULE_reduce_one | (uint64_t)1 << RULE_small_power |
                     (uint64_t)1 << RULE_sum_of_pad;
    double ulp = d == QN_F8_E4M3   ? 0x1p-3
                 : d == QN_F8_E5M2 ? 0x1p-2
                 : d == QN_F16     ? 0x1p-10
                 : d == QN_BF16    ? 0x1p-7
                 : d == QN_F32     ? 0x1p-23
                                   : 0x1p-52;
    return rules & regrouping ? 12 * ulp : rules & loose ? 1e-15 : 0;
}

/* A product that overflows on its way in one order may not in another. */
static bool overflows(const eval_value *a, const eval_value *b, int64_t i, uint64_t rules) {
    return (rules & regrouping) && dtype_is_float(a->dtype) &&
           isfinite(a->v[i].f) != isfinite(b->v[i].f);
}

static int check_terms(const char *name, op_set ops, uint64_t rules, int steps, int count) {
    int applied = 0, wrong = 0;
    for (int i = 0; i < count && !wrong; i++) {
        uint64_t seed = (uint64_t)i * 7919 + (uint64_t)ops;
        bool crossed = false;
        eval_value want = term_value(seed, ops, 0, steps, &applied, &crossed);
        eval_value got = term_value(seed, ops, rules, steps, &applied, &crossed);
        bool loose = crossed && (rules & regrouping);
        wrong += want.n != got.n || want.dtype != got.dtype || want.rank != got.rank;
        for (int64_t k = 0; k < want.n && !wrong && !loose; k++)
            if (!overflows(&got, &want, k, rules) &&
                !same_value(&got, &want, k, tolerance(rules, want.dtype))) {
                wrong++;
                FAIL("%s: seed %llu: element %lld is %.17g, expected %.17g", name,
                     (unsigned long long)seed, (long long)k, eval_number(&got, k),
                     eval_number(&want, k));
            }
        free(want.v);
        free(got.v);
    }
    return applied;
}

static const struct {
    const char *name;
} rule_names[] = {
#define X(name, ...) {#name},
#include "graph/rules/rules.h"
#undef X
};

static void every_rule_alone_keeps_values(void) {
    qn_ctx *qn = open_graph();
    for (int rule = 0; rule < RULE_COUNT; rule++) {
        op_set ops = 0;
        for (int op = 1; op < OP_COUNT; op++)
            ops |= (op_set)(qn->graph->rules[op] >> rule & 1) << op;
        int applied = check_terms(rule_names[rule].name, ops, (uint64_t)1 << rule, 3, 12000);
        if (applied < 10) /* few terms have two constants */
            applied = check_terms(rule_names[rule].name, ops, (uint64_t)1 << rule, 3, 48000);
        if (applied < 10) FAIL("rule %s was applied %d times", rule_names[rule].name, applied);
    }
    close_graph(qn);
}

static const uint64_t all_rules = ((uint64_t)1 << RULE_COUNT) - 1;

/* But those that regroup: what a last bit becomes in deep terms, nobody can tell. */
static void all_rules_together_keep_values(void) {
    CHECK(check_terms("all rules", all_ops, all_rules & ~regrouping, 12, 4000) > 1000);
}

static void all_rules_together_keep_reductions(void) {
    const op_set reductions = (op_set)1 << OP_SUM | (op_set)1 << OP_SUM_PRODUCT |
                              (op_set)1 << OP_PROD | (op_set)1 << OP_MAX | (op_set)1 << OP_MIN |
                              (op_set)1 << OP_ARGMAX | (op_set)1 << OP_ARGMIN;
    CHECK(check_terms("all rules", reductions, all_rules, 4, 20000) > 1000);
}

/* How often rules make something of the term of this seed; `all`: each is asked, whatever the
 * operations of the sources are. */
static int applied_to(uint64_t seed, bool all) {
    int applied = 0;
    term t = {.qn = open_graph(), .seed = seed, .ops = all_ops};
    for (int op = 0; op < OP_COUNT && all; op++) t.qn->graph->seen[op] = all_rules;
    t.qn->knob[KNOB_DEBUG].text = "r";
    t.qn->log = count_line;
    t.qn->log_user = &applied;
    qn_scope s = qn_scope_begin(t.qn);
    draw(&t, 12);
    qn_scope_end(t.qn, s);
    close_graph(t.qn);
    return applied;
}

static void rules_that_are_not_asked_have_nothing_to_say(void) {
    int sum = 0;
    for (uint64_t seed = 1; seed <= 8000; seed++) {
        int all = applied_to(seed, true), asked = applied_to(seed, false);
        sum += all;
        if (asked == all) continue;
        FAIL("seed %llu: %d rules applied, %d where all are asked", (unsigned long long)seed, asked,
             all);
        break;
    }
    CHECK(sum > 8000);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(every_rule_alone_keeps_values);
    RUN(all_rules_together_keep_values);
    RUN(all_rules_together_keep_reductions);
    RUN(rules_that_are_not_asked_have_nothing_to_say);
    return test_end();
}
