/* check.c - does a kernel keep the rules of ir.h?
 *
 * The checker runs after every transform of the fuzzer and between passes of checked builds. It
 * trusts nothing: not the links of the tree, not the types, not that an index is in bounds. What it
 * cannot prove it rejects, so the transforms must leave kernels that are not only correct but
 * provably so. One walk, statement by statement in the order of execution; `state` of a tile says
 * whether its live range has begun, ended or not.
 *
 * What cannot be proved is only noted, and the walk goes on: a broken rule further down is the
 * graver verdict.
 *
 * A computed offset (dyn) is bounded by the guard: both become index expressions in which every
 * value that is not computed by integer arithmetic (a loaded index, say) is one unknown, and the
 * guard's comparisons are facts about them. A guard's arithmetic may wrap, where whole numbers do
 * not: so in a guard a sum or product that could overflow 64 bits is an unknown, too. In the offset
 * it need not be: an index that is right modulo 2^64 and in bounds is right. */
#include "ir/ir.h"

enum { MOST_UNKNOWNS = 8, MOST_DEPTH = 64, MOST_LOOKS = 256 };
typedef enum life { UNBORN, LIVE, OVER } life;

typedef struct checker {
    kernel *k; /* not changed but for its arena */
    str *why;
    uint8_t *state;   /* of memories: life */
    uint8_t *known;   /* of expressions: types were checked */
    uint8_t *reached; /* of statements */
    uint8_t *wanted;  /* of expressions, within one statement; all 0 in between */
    sym scope[MOST_DEPTH];
    int depth;
    bool unproven;  /* a proof failed; `why` has the first one that did */
    uint32_t begin; /* of the reason in `why` */
} checker;

static const char *place_name(checker *c, stmt_id s) {
    while (s && s != c->k->root && ir_s(c->k, s)->kind != STMT_LOOP) s = ir_s(c->k, s)->parent;
    return !s || s == c->k->root ? "the root" : sym_name(c->k->syms, ir_s(c->k, s)->l.var);
}

#define REFUSE(c, s, ...) (complain(c, s), ir_refuse((c)->why, __VA_ARGS__))

/* "line 7, in i0: " before the reason, which takes the place of a doubt. */
static void complain(checker *c, stmt_id s) {
    if (c->unproven && c->why && c->why->len) c->why->s[c->why->len = c->begin] = 0;
    if (ir_s(c->k, s)->line)
        ir_refuse(c->why, "line %u, in %s: ", ir_s(c->k, s)->line, place_name(c, s));
    else
        ir_refuse(c->why, "in %s, statement %u: ", place_name(c, s), s);
}

/* Something is not proved: where to write the reason, if it is the first. */
static str *doubt(checker *c, stmt_id s) {
    str *why = c->unproven ? NULL : c->why;
    if (why) complain(c, s);
    c->unproven = true;
    return why;
}

/* ---- links ---------------------------------------------------------------------------------- */

/* Every id is valid, every link has its counterpart, nothing is reached twice. */
static bool check_links(checker *c) {
    kernel *k = c->k;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *mem = ir_m(k, m);
        if (mem->scope > MEM_REG || mem->dtype >= DTYPE_COUNT)
            return ir_refuse(c->why, "memory %u has no scope or dtype that there is", m);
    }
    for (stmt_id s = k->root; s;) {
        if (s >= k->stmts || c->reached[s])
            return ir_refuse(c->why, "statement %u is linked twice or does not exist", s);
        c->reached[s] = 1;
        const ir_stmt *t = ir_s(k, s);
        if (t->kind < STMT_LOOP || t->kind > STMT_BARRIER || (t->first && t->kind != STMT_LOOP))
            return ir_refuse(c->why, "statement %u is of no kind that fits", s);
        stmt_id before = 0;
        for (stmt_id i = t->first; i; before = i, i = ir_s(k, i)->next) {
            if (i >= k->stmts || ir_s(k, i)->parent != s || ir_s(k, i)->prev != before)
                return ir_refuse(c->why, "statement %u is badly linked", i);
        }
        if (t->last != before) return ir_refuse(c->why, "statement %u is badly linked", s);
        s = ir_next(k, s, k->root);
    }
    return true;
}

/* ---- index expressions ---------------------------------------------------------------------- */

static bool in_scope(checker *c, sym var) {
    for (int i = 0; i < c->k->dim_vars; i++)
        if (c->k->dim_var[i] == var) return true;
    for (int i = 0; i < c->depth; i++)
        if (c->scope[i] == var) return true;
    return false;
}

/* All of a's variables are in scope; `only_dims`: are dimension variables. */
static bool check_vars(checker *c, sym a, bool only_dims) {
    sym_store *s = c->k->syms;
    const sym *part;
    int64_t value;
    if (sym_is_const(s, a, &value)) return true;
    if (sym_is_var(s, a)) {
        int depth = c->depth;
        if (only_dims) c->depth = 0;
        bool yes = in_scope(c, a);
        c->depth = depth;
        return yes;
    }
    if (sym_kind_of(s, a) == SYM_SUM) {
        sym_linear t = sym_terms(s, a);
        for (int i = 0; i < t.n; i++)
            if (!check_vars(c, t.term[i], only_dims)) return false;
        return true;
    }
    int n = sym_operands(s, a, &part);
    for (int i = 0; i < n; i++)
        if (!check_vars(c, part[i], only_dims)) return false;
    return n > 0;
}

static bool has_bounds(const sym_store *s, sym a) {
    return sym_lo(s, a) != INT64_MIN && sym_hi(s, a) != INT64_MAX;
}

/* May what is inside floors, minima and comparisons overflow 64 bits? Sums and products are right
 * modulo 2^64, so proofs about them hold; these are not, and a mask would be wrong. An index that
 * is a value (idx) is not looked at modulo anything: it may not overflow at all. */
static bool stays_small(const sym_store *s, sym a) {
    const sym *part;
    sym_kind kind = sym_kind_of(s, a);
    if (kind == SYM_CONST || kind == SYM_VAR) return true;
    bool sum = kind == SYM_SUM, linear = sum || kind == SYM_PRODUCT || kind == SYM_AND;
    sym_linear t = sym_terms(s, a);
    int n = sum ? t.n : sym_operands(s, a, &part);
    for (int i = 0; i < n; i++) {
        sym x = sum ? t.term[i] : part[i];
        if (!linear && !has_bounds(s, x)) return false;
        if (!stays_small(s, x)) return false;
    }
    return true;
}

static void check_small(checker *c, stmt_id s, sym a, bool is_value) {
    sym_store *syms = c->k->syms;
    if (stays_small(syms, a) && (!is_value || has_bounds(syms, a))) return;
    str *why = doubt(c, s);
    if (!why) return;
    str_add(why, "may leave 64 bits: ");
    sym_print(c->k->syms, a, why);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static const char *types_name(int types) {
    static const char *const names[] = {[TYPES_FLOAT] = "floats",
                                        [TYPES_NUM] = "numbers",
                                        [TYPES_INT] = "integers",
                                        [TYPES_BITS] = "integers or bool"};
    return names[types];
}

static bool check_op(checker *c, stmt_id s, const ir_expr *e) {
    kernel *k = c->k;
    if (e->op == OP_NONE || e->op >= OP_COUNT || op_rows[e->op].class_ != CLASS_ELEM)
        return REFUSE(c, s, "operation %d is not elementwise", e->op);
    const op_row *row = &op_rows[e->op];
    if (e->n != row->arity)
        return REFUSE(c, s, "%s has %d arguments, not %d", row->name, e->n, row->arity);
    int first = ir_e(k, e->arg[0])->dtype, last = ir_e(k, e->arg[e->n - 1])->dtype;
    if (row->types == TYPES_TO) {
        bool same = qn_dtype_size(first) == qn_dtype_size(e->dtype);
        if (e->op == OP_BITCAST && !same)
            return REFUSE(c, s, "bitcast of %s to %s, whose sizes differ",
                          qn_dtype_name((qn_dtype)first), qn_dtype_name((qn_dtype)e->dtype));
        return true;
    }
    if (row->types == TYPES_SELECT && first != QN_BOOL)
        return REFUSE(c, s, "%s chooses by a value that is not bool", row->name);
    for (int i = row->types == TYPES_SELECT; i < e->n; i++)
        if (ir_e(k, e->arg[i])->dtype != last)
            return REFUSE(c, s, "%s of different dtypes, %s and %s", row->name,
                          qn_dtype_name((qn_dtype)ir_e(k, e->arg[i])->dtype),
                          qn_dtype_name((qn_dtype)last));
    if (!types_fit(row->types, last))
        return REFUSE(c, s, "%s of %s, which takes %s", row->name, qn_dtype_name((qn_dtype)last),
                      types_name(row->types));
    if (e->dtype != ir_op_dtype(k, e->op, e->arg))
        return REFUSE(c, s, "%s gives %s", row->name, qn_dtype_name(e->dtype));
    return true;
}

/* Of a wider pattern emitters take the low bits; a bool is 0 or 1. */
static bool bits_fit(int dtype, uint64_t bits) {
    return dtype != QN_BOOL || bits <= 1;
}

static bool check_table(checker *c, stmt_id s, const ir_expr *e) {
    const kernel *k = c->k;
    if (e->table.number >= k->tables) return REFUSE(c, s, "a lookup in no table");
    if (e->dtype != k->table[e->table.number].dtype)
        return REFUSE(c, s, "a lookup changes the dtype");
    if (ir_e(k, e->table.index)->dtype != QN_U32)
        return REFUSE(c, s, "a lookup by what is not u32");
    return true;
}

/* The rules for an expression wherever it stands. */
static bool check_types(checker *c, stmt_id s, expr_id id) {
    kernel *k = c->k;
    const ir_expr *e = ir_e(k, id);
    expr_id *arg[3];
    int n = ir_expr_args(ir_e(k, id), arg);
    for (int i = 0; i < n; i++)
        if (*arg[i] == 0 || *arg[i] >= id) return REFUSE(c, s, "expression %u is no DAG", id);
    if (e->dtype >= DTYPE_COUNT) return REFUSE(c, s, "expression %u has no dtype", id);
    if (e->kind == EXPR_OP) return check_op(c, s, e);
    if (e->kind == EXPR_INDEX && e->dtype != QN_I64)
        return REFUSE(c, s, "an index that is not i64");
    if (e->kind == EXPR_TABLE) return check_table(c, s, e);
    if (e->kind == EXPR_PARAM)
        return (e->param < k->params && e->dtype == k->param[e->param] && e->dtype != QN_BOOL) ||
               REFUSE(c, s, "a parameter that the kernel has not");
    if (e->kind == EXPR_CONST && !bits_fit(e->dtype, e->bits))
        return REFUSE(c, s, "a bool that is neither 0 nor 1");
    if (e->kind != EXPR_LOAD) return e->kind == EXPR_CONST || e->kind == EXPR_INDEX;
    if (e->load.mem == 0 || e->load.mem >= k->mems) return REFUSE(c, s, "a load of no memory");
    if (e->dtype != ir_m(k, e->load.mem)->dtype) return REFUSE(c, s, "a load changes the dtype");
    return true;
}

/* ---- bounds --------------------------------------------------------------------------------- */

typedef struct unknowns {
    expr_id expr[MOST_UNKNOWNS];
    sym var[MOST_UNKNOWNS];
    int n;
    bool exact; /* sums that may wrap are unknowns */
    int looks;  /* of expressions, which may be few as a DAG and 2^many as a tree */
} unknowns;

static const int64_t most_known = INT64_MAX / 4; /* of an unknown; more than this may overflow */

static bool to_sym(checker *c, unknowns *u, expr_id e, sym *out);

static bool is_unknown(const unknowns *u, expr_id e, sym *out) {
    for (int i = 0; i < u->n; i++)
        if (u->expr[i] == e) return *out = u->var[i], true;
    return false;
}

static bool unknown(checker *c, unknowns *u, expr_id e, sym *out) {
    if (is_unknown(u, e, out)) return true;
    if (u->n == MOST_UNKNOWNS) return false;
    bool small = qn_dtype_size(ir_e(c->k, e)->dtype) < 8;
    int64_t most = small ? (int64_t)UINT32_MAX : most_known;
    u->expr[u->n] = e;
    u->var[u->n] = *out = sym_var(c->k->syms, "unknown", -most - 1, most);
    u->n++;
    return true;
}

/* An integer expression as a sym, with an unknown for what is not arithmetic. */
static bool to_sym(checker *c, unknowns *u, expr_id id, sym *out) {
    sym_store *s = c->k->syms;
    const ir_expr *e = ir_e(c->k, id);
    sym a, b;
    if (!dtype_is_int(e->dtype)) return false;
    if (++u->looks > MOST_LOOKS) return unknown(c, u, id, out);
    if (e->kind == EXPR_CONST) {
        *out = sym_const(s, scalar_from_bits(e->dtype, e->bits).i);
        return true;
    }
    if (e->kind == EXPR_INDEX) {
        *out = e->index;
        return true;
    }
    bool arithmetic = e->kind == EXPR_OP && e->dtype == QN_I64;
    if (arithmetic && e->op == OP_CAST) {
        int from = ir_e(c->k, e->arg[0])->dtype;
        return dtype_is_int(from) && from != QN_U64 ? to_sym(c, u, e->arg[0], out)
                                                    : unknown(c, u, id, out);
    }
    if (!arithmetic || (e->op != OP_ADD && e->op != OP_SUB && e->op != OP_MUL))
        return unknown(c, u, id, out);
    if (is_unknown(u, id, out)) return true;
    int op = e->op;
    expr_id right = e->arg[1];
    if (!to_sym(c, u, e->arg[0], &a) || !to_sym(c, u, right, &b)) return false;
    *out = op == OP_ADD ? sym_add(s, a, b) : op == OP_SUB ? sym_sub(s, a, b) : sym_mul(s, a, b);
    bool may_wrap = sym_lo(s, *out) < -most_known - 1 || sym_hi(s, *out) > most_known;
    return u->exact && may_wrap ? unknown(c, u, id, out) : true;
}

/* The comparisons a guard is made of. */
static int guard_facts(checker *c, unknowns *u, expr_id id, int n, sym fact[IR_FACTS]) {
    const ir_expr *e = ir_e(c->k, id);
    sym a, b;
    if (e->kind != EXPR_OP || n >= IR_FACTS || ++u->looks > MOST_LOOKS) return n;
    expr_id left = e->arg[0], right = e->arg[1];
    if (e->op == OP_AND) {
        n = guard_facts(c, u, left, n, fact);
        return guard_facts(c, u, right, n, fact);
    }
    int op = e->op;
    if (op != OP_LT && op != OP_LE) return n;
    if (!to_sym(c, u, left, &a) || !to_sym(c, u, right, &b)) return n;
    sym_store *s = c->k->syms;
    fact[n++] = sym_sub(s, sym_sub(s, b, a), op == OP_LT ? SYM_ONE : SYM_ZERO);
    return n;
}

/* One access, a load's or of one component of a store. */
typedef struct access {
    mem_id mem;
    bool store;
    sym index, valid;
    expr_id dyn, guard;
} access;

/* false: broken; a bound that is not proved is a doubt. */
static bool check_bounds(checker *c, stmt_id s, const access *t) {
    kernel *k = c->k;
    sym index = t->index, valid = t->valid;
    check_small(c, s, index, false);
    check_small(c, s, valid, false);
    sym fact[IR_FACTS], offset;
    unknowns u = {.exact = true};
    int n = ir_facts(k, valid, fact);
    if (valid == SYM_FALSE) return true;
    if (t->guard) n = guard_facts(c, &u, t->guard, n, fact);
    u.exact = false;
    if (t->dyn) {
        if (!to_sym(c, &u, t->dyn, &offset)) return REFUSE(c, s, "an offset that is no integer");
        index = sym_add(k->syms, index, offset);
    }
    sym room = sym_sub(k->syms, sym_sub(k->syms, ir_m(k, t->mem)->size, SYM_ONE), index);
    bool low = ir_prove(k, s, index, n, fact);
    if (low && ir_prove(k, s, room, n, fact)) return true;
    str *why = doubt(c, s);
    if (!why) return true;
    str_add(why, low ? "past the end may be " : "below 0 may be ");
    sym_print(k->syms, index, why);
    str_add(why, " of ");
    sym_print(k->syms, ir_m(k, t->mem)->size, why);
    return true;
}

/* ---- accesses ------------------------------------------------------------------------------- */

static bool check_access(checker *c, stmt_id s, const access *t) {
    const ir_memory *mem = ir_m(c->k, t->mem);
    if (mem->scope == MEM_ARG && !(mem->access & (t->store ? ACCESS_WRITE : ACCESS_READ)))
        return REFUSE(c, s, "a%d is not for this access", mem->arg);
    if (mem->scope == MEM_ARG && (mem->access & (ACCESS_RESTS | ACCESS_WRITE)) == ACCESS_RESTS)
        return REFUSE(c, s, "a%d is only what an output begins as", mem->arg);
    if (mem->scope != MEM_ARG && c->state[t->mem] != LIVE)
        return REFUSE(c, s, "t%d is used outside its life", ir_tile_number(c->k, t->mem));
    if (!check_vars(c, t->index, false) || !check_vars(c, t->valid, false))
        return REFUSE(c, s, "an index uses a variable that is not in scope");
    if (sym_lo(c->k->syms, t->valid) < 0 || sym_hi(c->k->syms, t->valid) > 1)
        return REFUSE(c, s, "a validity that is no truth value");
    if (t->dyn && ir_e(c->k, t->dyn)->dtype != QN_I64)
        return REFUSE(c, s, "a computed offset that is not i64");
    if (t->guard && ir_e(c->k, t->guard)->dtype != QN_BOOL)
        return REFUSE(c, s, "a guard that is not bool");
    return check_bounds(c, s, t);
}

static bool check_expr(checker *c, stmt_id s, expr_id id) {
    if (!c->known[id] && !check_types(c, s, id)) {
        if (c->why && !c->why->len) REFUSE(c, s, "expression %u is of no kind", id);
        return false;
    }
    c->known[id] = 1;
    ir_expr e;
    memcpy(&e, ir_e(c->k, id), sizeof e);
    if (e.kind == EXPR_INDEX && !check_vars(c, e.index, false))
        return REFUSE(c, s, "an index uses a variable that is not in scope");
    if (e.kind == EXPR_INDEX) check_small(c, s, e.index, true);
    if (e.kind != EXPR_LOAD) return true;
    const access load = {e.load.mem, false, e.load.index, e.load.valid, e.load.dyn, e.load.guard};
    return check_access(c, s, &load);
}

/* Every expression of a statement, users before sources. */
static bool check_exprs(checker *c, stmt_id s) {
    expr_id *slot[4], *arg[3], top = 0;
    int n = ir_stmt_exprs(ir_s(c->k, s), slot);
    for (int i = 0; i < n; i++) {
        if (*slot[i] == 0 || *slot[i] >= c->k->exprs)
            return REFUSE(c, s, "a value that does not exist");
        c->wanted[*slot[i]] = 1;
        if (*slot[i] > top) top = *slot[i];
    }
    for (expr_id e = top; e > 0; e--) {
        if (!c->wanted[e]) continue;
        c->wanted[e] = 0;
        if (!check_expr(c, s, e)) return false;
        int args = ir_expr_args(ir_e(c->k, e), arg);
        for (int i = 0; i < args; i++) c->wanted[*arg[i]] = 1;
    }
    return true;
}

/* ---- statements ----------------------------------------------------------------------------- */

static stmt_id vec_around(checker *c, stmt_id s) {
    for (s = ir_s(c->k, s)->parent; s; s = ir_s(c->k, s)->parent)
        if (ir_s(c->k, s)->loop == LOOP_VEC) return s;
    return 0;
}

static void check_apart(checker *c, stmt_id loop, loop_freedom freedom) {
    if (ir_no_carried(c->k, loop, loop, freedom, NULL)) return;
    str *why = doubt(c, loop);
    if (why) ir_no_carried(c->k, loop, loop, freedom, why);
}

static bool check_loop(checker *c, stmt_id s) {
    kernel *k = c->k;
    const ir_stmt *t = ir_s(k, s);
    stmt_id vec = vec_around(c, s);
    int64_t n, most = sym_hi(k->syms, t->l.extent);
    if (!sym_is_var(k->syms, t->l.var) || in_scope(c, t->l.var))
        return REFUSE(c, s, "a loop without a variable of its own");
    if (!check_vars(c, t->l.extent, false))
        return REFUSE(c, s, "an extent uses a variable that is not in scope");
    if (sym_extent(k->syms, t->l.var) != t->l.extent)
        return REFUSE(c, s, "the variable was made for another extent");
    if (ir_find_loop(k, sym_name(k->syms, t->l.var)) != s)
        return REFUSE(c, s, "a second loop of this name");
    if (t->loop > LOOP_WORD) return REFUSE(c, s, "a loop of no kind");
    if (most < 0) return REFUSE(c, s, "an extent below 0");
    if (t->loop == LOOP_PAR && t->parent != k->root)
        return REFUSE(c, s, "a parallel loop inside another");
    if (t->loop == LOOP_UNROLL && !sym_is_const(k->syms, t->l.extent, &n))
        return REFUSE(c, s, "an unrolled loop of no constant extent");
    if (t->loop == LOOP_WORD && (!sym_is_const(k->syms, t->l.extent, &n) || (n != 2 && n != 4)))
        return REFUSE(c, s, "a word of no number of parts");
    if (vec && t->loop == LOOP_VEC) return REFUSE(c, s, "a vector loop inside another");
    if (vec && sym_uses(k->syms, t->l.extent, ir_s(k, vec)->l.var))
        return REFUSE(c, s, "lanes of a vector loop differ in trips");
    if (t->loop == LOOP_VEC && (most < 1 || most > IR_LANES))
        return REFUSE(c, s, "a vector loop of no possible lane count");
    if (c->depth == MOST_DEPTH) return REFUSE(c, s, "loops nest too deep");
    check_small(c, s, t->l.extent, false);
    if (t->loop == LOOP_PAR || t->loop == LOOP_THREAD) check_apart(c, s, FREEDOM_AT_ONCE);
    if (t->loop == LOOP_VEC) check_apart(c, s, FREEDOM_LOCKSTEP);
    return true;
}

static bool check_def(checker *c, stmt_id s) {
    kernel *k = c->k;
    const ir_stmt *t = ir_s(k, s);
    mem_id m = t->def.mem;
    if (m == 0 || m >= k->mems || ir_m(k, m)->scope == MEM_ARG)
        return REFUSE(c, s, "a definition of no tile");
    if (c->state[m] != UNBORN) return REFUSE(c, s, "t%d is defined twice", ir_tile_number(k, m));
    if (vec_around(c, s)) return REFUSE(c, s, "a tile defined inside a vector loop");
    if (t->def.value && ir_e(k, t->def.value)->dtype != ir_m(k, m)->dtype)
        return REFUSE(c, s, "a tile's first value has another dtype");
    if (!check_exprs(c, s)) return false;
    c->state[m] = LIVE;
    return true;
}

/* In a vector loop, a store whose lanes share one element must be a reduction. */
static bool check_lanes(checker *c, stmt_id s) {
    kernel *k = c->k;
    const ir_stmt *t = ir_s(k, s);
    stmt_id vec = vec_around(c, s);
    if (!vec || monoid_commutes(t->monoid)) return true;
    sym var = ir_s(k, vec)->l.var;
    if (sym_uses(k->syms, t->store.index, var)) return true;
    if (t->store.dyn && ir_expr_uses(k, t->store.dyn, var)) return true;
    return REFUSE(c, s, "all lanes store to one element");
}

/* The components have the dtypes of the monoid's row. */
static bool check_state(checker *c, stmt_id s) {
    const ir_stmt *t = ir_s(c->k, s);
    const monoid_row *row = &monoid_rows[t->monoid];
    if (t->monoid == MONOID_SET) return true;
    int value = -1;
    for (int i = 0; i < t->n; i++) {
        int dtype = ir_m(c->k, t->store.mem[i])->dtype, wanted = row->part[i].dtype;
        if (wanted == MONOID_VALUE && value < 0) value = dtype;
        if (wanted == MONOID_VALUE) wanted = value;
        if (dtype != wanted)
            return REFUSE(c, s, "component %d of %s is %s, not %s", i + 1, row->name,
                          qn_dtype_name((qn_dtype)dtype), qn_dtype_name((qn_dtype)wanted));
    }
    if (value < 0 || types_fit(row->types, value)) return true;
    return REFUSE(c, s, "%s of %s, which takes %s", row->name, qn_dtype_name((qn_dtype)value),
                  types_name(row->types));
}

static bool check_store(checker *c, stmt_id s) {
    kernel *k = c->k;
    ir_stmt t = *ir_s(k, s);
    if (t.monoid >= MONOID_COUNT) return REFUSE(c, s, "a store by no monoid");
    int states = monoid_rows[t.monoid].states;
    if (t.n < 1 || t.n > IR_STATES || (t.monoid != MONOID_SET && t.n != states))
        return REFUSE(c, s, "a store of %d components", t.n);
    if (!check_exprs(c, s)) return false;
    for (int i = 0; i < t.n; i++) {
        mem_id m = t.store.mem[i];
        if (m == 0 || m >= k->mems) return REFUSE(c, s, "a store to no memory");
        for (int j = 0; j < i; j++)
            if (m == t.store.mem[j]) return REFUSE(c, s, "two components in one memory");
        int from = ir_e(k, t.store.value[i])->dtype, to = ir_m(k, m)->dtype;
        if (from != to)
            return REFUSE(c, s, "a store of %s to a memory of %s", qn_dtype_name((qn_dtype)from),
                          qn_dtype_name((qn_dtype)to));
        if ((ir_m(k, m)->scope == MEM_REG) != (ir_m(k, t.store.mem[0])->scope == MEM_REG))
            return REFUSE(c, s, "components in registers and in memory");
        const access store = {m, true, t.store.index, t.store.valid, t.store.dyn, t.store.guard};
        if (!check_access(c, s, &store)) return false;
    }
    return check_state(c, s) && check_lanes(c, s);
}

/* Only the address is checked: a prefetch reads nothing. */
static bool check_prefetch(checker *c, stmt_id s) {
    mem_id m = ir_s(c->k, s)->prefetch.mem;
    if (!m || m >= c->k->mems || ir_m(c->k, m)->scope == MEM_REG)
        return REFUSE(c, s, "a fetch from no memory");
    return check_vars(c, ir_s(c->k, s)->prefetch.index, false) ||
           REFUSE(c, s, "the index of a fetch uses variables of other loops");
}

static bool check_stmt(checker *c, stmt_id s);

static bool check_block(checker *c, stmt_id parent) {
    kernel *k = c->k;
    for (stmt_id s = ir_s(k, parent)->first; s; s = ir_s(k, s)->next)
        if (!check_stmt(c, s)) return false;
    for (stmt_id s = ir_s(k, parent)->first; s; s = ir_s(k, s)->next)
        if (ir_s(k, s)->kind == STMT_DEF) c->state[ir_s(k, s)->def.mem] = OVER;
    return true;
}

static bool check_stmt(checker *c, stmt_id s) {
    int kind = ir_s(c->k, s)->kind;
    if (kind == STMT_BARRIER) return true;
    if (kind == STMT_DEF) return check_def(c, s);
    if (kind == STMT_PREFETCH) return check_prefetch(c, s);
    if (kind == STMT_STORE) return check_store(c, s);
    if (!check_loop(c, s)) return false;
    c->scope[c->depth++] = ir_s(c->k, s)->l.var;
    bool fine = check_block(c, s);
    c->depth--;
    return fine;
}

static bool check_memories(checker *c) {
    kernel *k = c->k;
    bool par = false;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        int number = x->scope == MEM_ARG ? x->arg : ir_tile_number(k, m);
        const char *letter = x->scope == MEM_ARG ? "a" : "t";
        if (!check_vars(c, x->size, true))
            return ir_refuse(c->why, "%s%d has no size known at launch", letter, number);
        if (sym_hi(k->syms, x->size) < 0)
            return ir_refuse(c->why, "%s%d has a size below 0", letter, number);
        if (ir_m(k, m)->scope == MEM_REG && !ir_in_registers(k, m, c->why)) return false;
    }
    for (stmt_id s = ir_s(k, k->root)->first; s; s = ir_s(k, s)->next)
        par |= ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->loop == LOOP_PAR;
    return ir_nests_fit(k, c->why) && (!par || ir_roots_independent(k, false, c->why));
}

/* The tables' entries, used or not, since emitters take them unchecked. */
static bool check_tables(checker *c) {
    for (uint32_t i = 0; i < c->k->tables; i++) {
        const ir_table *t = &c->k->table[i];
        if (t->n < 1 || t->n > IR_ENTRIES || (t->n & (t->n - 1)))
            return ir_refuse(c->why, "c%u has no power of two of entries", i);
        for (int j = 0; j < t->n; j++)
            if (!bits_fit(t->dtype, t->bits[j]))
                return ir_refuse(c->why, "c%u has an entry that does not fit its dtype", i);
    }
    return true;
}

ir_verdict ir_verify(const kernel *given, str *why) {
    kernel *k = (kernel *)(uintptr_t)given;
    checker c = {.k = k, .why = why, .begin = why ? why->len : 0};
    c.state = arena_zeroed(&k->arena, k->mems);
    c.known = arena_zeroed(&k->arena, k->exprs);
    c.reached = arena_zeroed(&k->arena, k->stmts);
    c.wanted = arena_zeroed(&k->arena, k->exprs);
    if (!check_links(&c)) return VERDICT_BROKEN;
    str doubts;
    str_open_in(&doubts, &k->arena);
    if (!ir_moderate(k, &doubts)) {
        ir_refuse(why, "%s", doubts.s);
        return VERDICT_TOO_MUCH;
    }
    if (!check_tables(&c) || !check_memories(&c) || !check_block(&c, k->root))
        return VERDICT_BROKEN;
    return c.unproven ? VERDICT_UNPROVEN : VERDICT_SOUND;
}

bool ir_check(const kernel *k, str *why) {
    return ir_verify(k, why) == VERDICT_SOUND;
}
