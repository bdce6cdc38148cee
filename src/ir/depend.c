/* depend.c - dependence analysis: which loops may be reordered or parallel, and which tiles may be
 * in registers.
 *
 * Every legality question of the transforms comes down to one: is there a loop-carried dependence,
 * that is, do different iterations of a loop access the same element, and does one of them store to
 * it? Iterations without can be exchanged, interleaved, or run at once.
 *
 * The proof. Let c be the coefficient of the loop's variable v in the index of the store that comes
 * first in memory, small = index - c*v, and base the least value of that store's small over the
 * free loops (those below `top` but v's own). If every access to that memory has
 * 0 <= small - base < |c|, then (index - base) / |c| is v, so an element belongs to one iteration;
 * c is then one number in all of them, no free loop's multiple. Masks help: a store that is off
 * where j >= n has small = j < n.
 *
 * For a block of columns, index = n*i + c*v + small, the row term n*i breaks this. But where all of
 * c*v + small lies within n numbers, the index modulo n determines it, whatever i is: the terms
 * that a modulus divides are dropped, and the rest must fit below the modulus. The same holds for a
 * computed offset (dyn) that is known to be a multiple of the modulus.
 *
 * Loads of elements behind (or before) everything that is stored share no element with the stores.
 *
 * Where two loops were merged, and the merged variable is divided in the index, the question is
 * asked of the two; of a free loop that was merged it is asked with the two in its place.
 *
 * Updates by one monoid commute, so they may be reordered though not run at once. Buffers of
 * different arguments do not alias; tiles defined inside the loop are private to each iteration. */
#include "ir/ir.h"

#include <stdio.h>

bool ir_refuse(str *why, const char *fmt, ...) {
    if (!why) return false;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    str_add(why, text);
    return false;
}

/* ---- accesses ------------------------------------------------------------------------------- */

typedef struct access_list {
    kernel *k;
    ir_access *list;
    uint32_t n, cap;
    uint8_t *wanted;
    expr_id exprs;
} access_list;

static void add_access(access_list *t, ir_access one) {
    t->list = arena_grow(&t->k->arena, t->list, &t->cap, t->n + 1, sizeof *t->list);
    t->list[t->n++] = one;
}

static void add_accesses(access_list *t, stmt_id s) {
    kernel *k = t->k;
    ir_stmt *st = ir_s(k, s);
    expr_id *slot[4];
    int n = ir_stmt_exprs(st, slot);
    expr_id top = 0;
    for (int i = 0; i < n; i++) {
        t->wanted[*slot[i]] = 1;
        if (*slot[i] > top) top = *slot[i];
    }
    for (expr_id e = top; e > 0; e--) {
        if (!t->wanted[e]) continue;
        t->wanted[e] = 0;
        ir_expr *x = ir_e(k, e);
        expr_id *arg[3];
        int args = ir_expr_args(x, arg);
        for (int i = 0; i < args; i++) t->wanted[*arg[i]] = 1;
        if (x->kind == EXPR_LOAD)
            add_access(t, (ir_access){s, x->load.mem, e, 0, x->load.index, x->load.valid,
                                      x->load.dyn, x->load.guard});
    }
    for (int i = 0; st->kind == STMT_STORE && i < st->n; i++)
        add_access(t, (ir_access){s, st->store.mem[i], 0, st->monoid, st->store.index,
                                  st->store.valid, st->store.dyn, st->store.guard});
}

uint32_t ir_accesses(kernel *k, stmt_id s, ir_access **out) {
    access_list t = {.k = k, .exprs = k->exprs};
    t.wanted = arena_zeroed(&k->arena, k->exprs);
    for (stmt_id c = s; c; c = ir_next(k, c, s)) add_accesses(&t, c);
    *out = t.list;
    return t.n;
}

/* ---- loop-carried dependence ----------------------------------------------------------------- */

enum { MOST_LOOKS = 256 };

/* The largest d known to divide the integer expression (0: it is 0). A DAG with sharing is a tree
 * of 2^many nodes, so only so many are visited. */
static int64_t divisor_of(const kernel *k, expr_id e, int *looks) {
    const ir_expr *x = ir_e(k, e);
    if (x->dtype != QN_I64 || ++*looks > MOST_LOOKS) return 1;
    if (x->kind == EXPR_CONST) {
        int64_t v = scalar_from_bits(QN_I64, x->bits).i;
        return v == INT64_MIN ? 1 : v < 0 ? -v : v;
    }
    if (x->kind == EXPR_INDEX) {
        sym_linear t = sym_terms(k->syms, x->index);
        return t.n == 1 && t.constant == 0 && t.coef[0] > 0 ? t.coef[0] : 1;
    }
    if (x->kind != EXPR_OP) return 1;
    if (x->op == OP_MUL) {
        int64_t a = divisor_of(k, x->arg[0], looks), b = divisor_of(k, x->arg[1], looks), product;
        return __builtin_mul_overflow(a, b, &product) ? 1 : product;
    }
    if (x->op == OP_ADD || x->op == OP_SUB) {
        return sym_gcd(divisor_of(k, x->arg[0], looks), divisor_of(k, x->arg[1], looks));
    }
    return 1;
}

static int64_t divisor(const kernel *k, expr_id e) {
    int looks = 0;
    return divisor_of(k, e, &looks);
}

typedef struct question {
    kernel *k;
    stmt_id loop, top;
    sym var;
    int *splits; /* how often loops were split again to answer it */
} question;

static bool within(question *q, const ir_access *t, sym lowest, sym a, sym highest) {
    sym_store *s = q->k->syms;
    sym fact[IR_FACTS];
    int n = ir_facts(q->k, t->valid, fact);
    return ir_prove(q->k, t->at, sym_sub(s, a, lowest), n, fact) &&
           ir_prove(q->k, t->at, sym_sub(s, highest, a), n, fact);
}

/* The coefficient of v. Where v is also inside a minimum or a quotient, as peeling leaves it, the
 * rest keeps it there: its bounds are proved for every v, and need not be the same for each. */
static bool coefficient(const kernel *k, sym index, sym var, sym *coef) {
    sym rest;
    if (ir_linear(k, index, var, coef, &rest)) return true;
    sym_linear t = sym_terms(k->syms, index);
    for (int i = 0; i < t.n; i++) {
        if (t.term[i] != var) continue;
        *coef = sym_const(k->syms, t.coef[i]);
        return true;
    }
    return false;
}

/* The index without the free loops whose coefficient the modulus (if any) divides; a computed
 * offset must be such a multiple, too. */
static bool reduce(question *q, const ir_access *t, sym modulus, sym *reduced) {
    const kernel *k = q->k;
    sym_store *s = k->syms;
    sym index = t->index, c, rest;
    if (t->dyn) {
        int64_t step = divisor(k, t->dyn);
        if (modulus == SYM_ZERO || step < 1) return false;
        if (sym_mod(s, sym_const(s, step), modulus) != SYM_ZERO) return false;
    }
    stmt_id end = ir_s(k, q->top)->parent;
    for (stmt_id p = t->at; modulus != SYM_ZERO && p != end; p = ir_s(k, p)->parent) {
        const ir_stmt *l = ir_s(k, p);
        if (l->kind != STMT_LOOP || p == q->loop || !sym_uses(s, index, l->l.var)) continue;
        if (ir_linear(k, index, l->l.var, &c, &rest) && sym_mod(s, c, modulus) == SYM_ZERO)
            index = rest;
    }
    *reduced = index;
    return true;
}

/* Is a the same in all iterations of the free loops around a statement? */
static bool same_everywhere(const question *q, stmt_id at, sym a) {
    stmt_id end = ir_s(q->k, q->top)->parent;
    for (stmt_id p = at; p != end; p = ir_s(q->k, p)->parent)
        if (ir_s(q->k, p)->kind == STMT_LOOP && p != q->loop &&
            sym_uses(q->k->syms, a, ir_s(q->k, p)->l.var))
            return false;
    return true;
}

/* Does index - modulus*(something) determine v, for every access of m? `first` is a store of it. */
static bool distinct_modulo(question *q, const ir_access *t, uint32_t n, const ir_access *first,
                            sym modulus) {
    sym_store *s = q->k->syms;
    sym coef, index, base, end = sym_sub(s, ir_s(q->k, q->loop)->l.extent, SYM_ONE);
    if (!reduce(q, first, modulus, &index)) return false;
    if (!coefficient(q->k, index, q->var, &coef) || coef == SYM_ZERO) return false;
    sym trips = sym_mul(s, coef, q->var), small = sym_sub(s, index, trips);
    if (!ir_extreme(q->k, first->at, ir_s(q->k, q->top)->parent, small, false, &base)) return false;
    if (sym_uses(s, base, q->var)) return false;
    bool falls = sym_lo(s, coef) < 0;
    if (falls && sym_hi(s, coef) > 0) return false;
    sym width = falls ? sym_scale(s, coef, -1) : coef;
    sym least = falls ? sym_add(s, base, sym_mul(s, coef, end)) : base;
    if (!same_everywhere(q, first->at, coef) || !same_everywhere(q, first->at, modulus) ||
        (modulus != SYM_ZERO && !same_everywhere(q, first->at, least)))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != first->mem) continue;
        if (!reduce(q, &t[i], modulus, &index)) return false;
        small = sym_sub(s, index, trips);
        sym past = sym_sub(s, width, SYM_ONE);
        if (!within(q, &t[i], SYM_ZERO, sym_sub(s, small, base), past)) return false;
        if (modulus == SYM_ZERO) continue;
        sym residue = sym_sub(s, index, least);
        if (!within(q, &t[i], SYM_ZERO, residue, sym_sub(s, modulus, SYM_ONE))) return false;
    }
    return true;
}

/* Is the load behind or before all that is stored to its memory, in any iterations? */
static bool beside_stores(question *q, const ir_access *t, uint32_t n, const ir_access *load) {
    sym_store *s = q->k->syms;
    stmt_id top = ir_s(q->k, q->top)->parent;
    sym bound, fact[IR_FACTS];
    int facts = ir_facts(q->k, load->valid, fact);
    for (int behind = 0; behind < 2; behind++) {
        bool all = !load->dyn;
        for (uint32_t i = 0; i < n && all; i++) {
            if (t[i].mem != load->mem || t[i].load) continue;
            all = !t[i].dyn && ir_extreme(q->k, t[i].at, top, t[i].index, behind, &bound);
            if (!all) break;
            sym gap = behind ? sym_sub(s, load->index, bound) : sym_sub(s, bound, load->index);
            all = ir_prove(q->k, load->at, sym_sub(s, gap, SYM_ONE), facts, fact);
        }
        if (all) return true;
    }
    return false;
}

/* A store of m: of those a fixed number of elements apart the one that comes first in memory, since
 * no access may lie before it. */
static const ir_access *first_store(const kernel *k, const ir_access *t, uint32_t n, mem_id m) {
    const ir_access *first = NULL;
    for (uint32_t i = 0; i < n; i++) {
        int64_t gap;
        if (t[i].mem != m || t[i].load) continue;
        bool before = first && !first->dyn && !t[i].dyn &&
                      sym_is_const(k->syms, sym_sub(k->syms, t[i].index, first->index), &gap) &&
                      gap < 0;
        if (!first || before) first = &t[i];
    }
    return first;
}

/* The proof without a modulus, by the divisor of a computed offset, and by the coefficient of a
 * free loop. */
static bool accesses_distinct(question *q, const ir_access *t, uint32_t n, mem_id m) {
    const kernel *k = q->k;
    sym_store *s = k->syms;
    const ir_access *first = first_store(k, t, n, m);
    if (first->dyn) {
        int64_t step = divisor(k, first->dyn);
        if (step >= 1 && distinct_modulo(q, t, n, first, sym_const(s, step))) return true;
    } else if (distinct_modulo(q, t, n, first, SYM_ZERO)) {
        return true;
    }
    stmt_id end = ir_s(k, q->top)->parent;
    for (stmt_id p = first->at; p != end; p = ir_s(k, p)->parent) {
        const ir_stmt *l = ir_s(k, p);
        sym c, rest;
        if (l->kind != STMT_LOOP || p == q->loop || !sym_uses(s, first->index, l->l.var)) continue;
        if (!ir_linear(k, first->index, l->l.var, &c, &rest)) continue;
        if (sym_hi(s, c) < 0) c = sym_scale(s, c, -1);
        if (sym_lo(s, c) >= 1 && distinct_modulo(q, t, n, first, c)) return true;
    }
    return false;
}

static bool memory_apart(question *q, const ir_access *t, uint32_t n, mem_id m) {
    if (accesses_distinct(q, t, n, m)) return true;
    ir_access *near = arena_alloc(&q->k->arena, (n + 1) * sizeof *near);
    uint32_t left = 0, of_it = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != m) continue;
        of_it++;
        if (!t[i].load || !beside_stores(q, t, n, &t[i])) near[left++] = t[i];
    }
    return left < of_it && accesses_distinct(q, near, left, m);
}

static bool defined_in(const kernel *k, mem_id m, stmt_id s) {
    if (ir_m(k, m)->scope == MEM_ARG) return false;
    for (stmt_id c = s; c; c = ir_next(k, c, s))
        if (ir_s(k, c)->kind == STMT_DEF && ir_s(k, c)->def.mem == m) return true;
    return false;
}

/* Is m, in these accesses, only updated, by one monoid? With `same` given: and always at an index
 * free of that variable? */
static bool only_updated(const kernel *k, const ir_access *t, uint32_t n, mem_id m,
                         const sym *same) {
    int by = MONOID_SET;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != m) continue;
        if (t[i].load || !monoid_commutes(t[i].monoid)) return false;
        if (by != MONOID_SET && by != t[i].monoid) return false;
        by = t[i].monoid;
        if (!same) continue;
        if (sym_uses(k->syms, t[i].index, *same)) return false;
        if (t[i].dyn && ir_expr_uses(k, t[i].dyn, *same)) return false;
    }
    return true;
}

/* The least constant by which the variable itself is divided within a; 0: none. */
static int64_t least_divisor(const kernel *k, sym a, sym var) {
    const sym *part;
    int64_t least = 0, w;
    if (!sym_uses(k->syms, a, var) || a == var) return 0;
    sym_linear t = sym_terms(k->syms, a);
    bool sum = sym_kind_of(k->syms, a) == SYM_SUM;
    int n = sum ? t.n : sym_operands(k->syms, a, &part);
    if (sym_kind_of(k->syms, a) == SYM_DIV && part[0] == var &&
        sym_is_const(k->syms, part[1], &w) && w > 1)
        return w;
    for (int i = 0; i < n; i++) {
        w = least_divisor(k, sum ? t.term[i] : part[i], var);
        if (w && (!least || w < least)) least = w;
    }
    return least;
}

/* What has been asked of a tree with loops split again: each such question may ask more, so there
 * is an end to them. */
enum { SPLITS_MOST = 16 };
static bool carried_by_none(kernel *k, stmt_id loop, stmt_id top, loop_freedom freedom,
                            int *splits);

/* A merged loop carries no dependence if, split again, neither of the two does. The tree is
 * restored. */
static bool halves_independent(kernel *k, stmt_id loop, const ir_access *t, uint32_t n,
                               int *splits) {
    int64_t width = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t w = least_divisor(k, t[i].index, ir_s(k, loop)->l.var);
        if (w && (!width || w < width)) width = w;
    }
    if (!width || ir_s(k, loop)->loop > LOOP_PAR || ++*splits > SPLITS_MOST) return false;
    ir_saved before = ir_save(k);
    bool fine = ir_split(k, loop, width, NULL, NULL, NULL);
    if (fine) {
        stmt_id inner = ir_s(k, loop)->first;
        fine = carried_by_none(k, loop, loop, FREEDOM_AT_ONCE, splits) &&
               carried_by_none(k, inner, inner, FREEDOM_AT_ONCE, splits);
    }
    ir_restore(k, &before);
    return fine;
}

/* A free loop that was merged, by where m is accessed, and the width of its inner half; 0: there is
 * none. */
static stmt_id merged_free_loop(const question *q, const ir_access *t, uint32_t n, mem_id m,
                                int64_t *width) {
    const kernel *k = q->k;
    stmt_id end = ir_s(k, q->top)->parent;
    for (uint32_t i = 0; i < n; i++)
        for (stmt_id p = t[i].at; t[i].mem == m && p != end; p = ir_s(k, p)->parent) {
            const ir_stmt *l = ir_s(k, p);
            if (l->kind != STMT_LOOP || p == q->loop || l->loop > LOOP_PAR) continue;
            *width = least_divisor(k, t[i].index, l->l.var);
            if (*width) return p;
        }
    return 0;
}

/* Is there no dependence where such a loop is split again? The tree is restored. */
static bool independent_split(const question *q, loop_freedom freedom, const ir_access *t,
                              uint32_t n, mem_id m) {
    int64_t width;
    stmt_id merged = merged_free_loop(q, t, n, m, &width);
    if (!merged || ++*q->splits > SPLITS_MOST) return false;
    ir_saved before = ir_save(q->k);
    bool fine = ir_split(q->k, merged, width, NULL, NULL, NULL) &&
                carried_by_none(q->k, q->loop, q->top, freedom, q->splits);
    ir_restore(q->k, &before);
    return fine;
}

/* `known`: memories to leave out; those that were checked are added. */
static bool none_carried(question q, loop_freedom freedom, bool *known, str *why) {
    kernel *k = q.k;
    const stmt_id loop = q.loop, top = q.top;
    if (sym_hi(k->syms, ir_s(k, loop)->l.extent) <= 1) return true;
    ir_access *t;
    uint32_t n = ir_accesses(k, loop, &t);
    q.var = ir_s(k, loop)->l.var;
    for (uint32_t i = 0; i < n; i++) {
        mem_id m = t[i].mem;
        if (t[i].load || known[m]) continue;
        known[m] = true;
        if (defined_in(k, m, loop)) continue;
        if (freedom == FREEDOM_ANY_ORDER && only_updated(k, t, n, m, NULL)) continue;
        if (freedom == FREEDOM_LOCKSTEP && only_updated(k, t, n, m, &q.var)) continue;
        if (memory_apart(&q, t, n, m)) continue;
        if (freedom == FREEDOM_AT_ONCE && top == loop &&
            halves_independent(k, loop, t, n, q.splits))
            return true;
        if (independent_split(&q, freedom, t, n, m)) return true;
        bool arg = ir_m(k, m)->scope == MEM_ARG;
        return ir_refuse(why, "different trips of %s may access the same element of %s%d",
                         sym_name(k->syms, q.var), arg ? "a" : "t",
                         arg ? ir_m(k, m)->arg : ir_tile_number(k, m));
    }
    return true;
}

static bool carried_by_none(kernel *k, stmt_id loop, stmt_id top, loop_freedom freedom,
                            int *splits) {
    bool *known = arena_zeroed(&k->arena, k->mems * sizeof(bool));
    return none_carried((question){.k = k, .loop = loop, .top = top, .splits = splits}, freedom,
                        known, NULL);
}

bool ir_no_carried(kernel *k, stmt_id loop, stmt_id top, loop_freedom freedom, str *why) {
    bool *known = arena_zeroed(&k->arena, k->mems * sizeof(bool));
    return none_carried((question){.k = k, .loop = loop, .top = top, .splits = &(int){0}}, freedom,
                        known, why);
}

bool ir_no_carried_but(kernel *k, stmt_id loop, bool *but, str *why) {
    return none_carried((question){.k = k, .loop = loop, .top = loop, .splits = &(int){0}},
                        FREEDOM_ANY_ORDER, but, why);
}

bool ir_no_carried_for(kernel *k, stmt_id loop, mem_id m) {
    bool *known = arena_zeroed(&k->arena, k->mems * sizeof(bool));
    for (mem_id i = 1; i < k->mems; i++) known[i] = i != m;
    return none_carried((question){.k = k, .loop = loop, .top = loop, .splits = &(int){0}},
                        FREEDOM_AT_ONCE, known, NULL);
}

bool ir_divisible(const kernel *k, stmt_id block, str *why) {
    for (stmt_id s = ir_s(k, k->root)->first; s && block == k->root; s = ir_s(k, s)->next)
        if (ir_s(k, s)->loop == LOOP_PAR)
            return ir_refuse(why, "work items would share what this puts at the root");
    stmt_id first = ir_s(k, block)->first;
    if (block != k->root && ir_s(k, block)->loop == LOOP_THREAD && first &&
        ir_s(k, first)->kind == STMT_LOOP && ir_s(k, first)->loop == LOOP_THREAD)
        return ir_refuse(why, "nothing comes between thread loops");
    return true;
}

bool ir_outside_vectors(const kernel *k, stmt_id block, str *why) {
    for (stmt_id s = block; s; s = ir_s(k, s)->parent)
        if (ir_s(k, s)->loop == LOOP_VEC)
            return ir_refuse(why, "a tile cannot be defined inside a vector loop");
    return true;
}

/* The constant that the access stores, 0: it loads, or stores something else. */
static expr_id stored_constant(const kernel *k, const ir_access *t) {
    const ir_stmt *s = ir_s(k, t->at);
    if (t->load || s->kind != STMT_STORE || s->monoid != MONOID_SET || s->n != 1) return 0;
    return ir_e(k, s->store.value[0])->kind == EXPR_CONST ? s->store.value[0] : 0;
}

bool ir_roots_independent(kernel *k, bool stores, str *why) {
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    stmt_id *root = arena_alloc(&k->arena, (n + 1) * sizeof *root);
    stmt_id *storing = /* a root that stores to it, */
        arena_zeroed(&k->arena, k->mems * sizeof *storing);
    expr_id *constant = /* what all roots store to it, if that is one constant */
        arena_zeroed(&k->arena, k->mems * sizeof *constant);
    for (uint32_t i = 0; i < n; i++) {
        root[i] = t[i].at;
        while (ir_s(k, root[i])->parent != k->root) root[i] = ir_s(k, root[i])->parent;
        if (t[i].load) continue;
        expr_id c = stored_constant(k, &t[i]);
        bool same = !storing[t[i].mem] || constant[t[i].mem] == c;
        constant[t[i].mem] = same ? c : 0;
        storing[t[i].mem] = root[i];
    }
    for (uint32_t i = 0; i < n; i++)
        if (storing[t[i].mem] && storing[t[i].mem] != root[i] && (t[i].load || !constant[t[i].mem]))
            return ir_refuse(why, "the kernel's root statements depend on each other");
    for (stmt_id s = ir_s(k, k->root)->first; s; s = ir_s(k, s)->next)
        if (ir_s(k, s)->kind != STMT_LOOP && !(stores && ir_s(k, s)->kind == STMT_STORE))
            return ir_refuse(why, "a statement at the root is not part of any loop");
    return true;
}

/* ---- registers ------------------------------------------------------------------------------ */

/* Does the index, with the UNROLL and WORD variables around `at` as constants, become constant +
 * VEC variable (lanes: their count) or a constant (lanes 0)? Or, of a load, lanes * VEC variable +
 * a constant below lanes + a multiple of lanes^2: one element of each of so many registers? */
static bool register_index(const kernel *k, stmt_id at, sym index, bool load, int64_t *lanes,
                           bool *column) {
    sym_store *s = k->syms;
    int64_t c, gcd_ok = 1, across = 1;
    *lanes = 0;
    for (stmt_id p = at; p && p != k->root; p = ir_s(k, p)->parent) {
        const ir_stmt *l = ir_s(k, p);
        if (l->kind != STMT_LOOP || l->loop != LOOP_VEC || !sym_uses(s, index, l->l.var)) continue;
        if (!sym_split(s, index, l->l.var, &across, &index)) return false;
        *lanes = sym_hi(s, l->l.extent);
    }
    *column = across != 1;
    if (across != 1) { /* the registers' lanes and number are powers of two, at most as many */
        if (!load || *lanes < 2 || across < 2 || across > IR_LANES || (across & (across - 1)))
            return false;
        sym one = sym_mod(s, index, sym_const(s, across * across));
        if (*lanes > across || sym_lo(s, index) < 0) return false;
        if (sym_lo(s, one) < 0 || sym_hi(s, one) >= across) return false;
        *lanes = across;
    }
    for (stmt_id p = at; p && p != k->root; p = ir_s(k, p)->parent) {
        const ir_stmt *l = ir_s(k, p);
        bool copies = l->kind == STMT_LOOP && (l->loop == LOOP_UNROLL || l->loop == LOOP_WORD);
        if (!copies || !sym_uses(s, index, l->l.var)) continue;
        if (!sym_split(s, index, l->l.var, &c, &index)) return false;
        if (*lanes && c % *lanes != 0) gcd_ok = 0;
    }
    if (!sym_is_const(s, index, &c)) return false;
    if (across != 1) return true;
    return gcd_ok && (*lanes == 0 || c % *lanes == 0);
}

static int64_t no_register(str *why, int number, const char *what) {
    ir_refuse(why, "t%d %s", number, what);
    return -1;
}

int64_t ir_register_lanes(kernel *k, mem_id tile, str *why) {
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    int64_t lanes, common = -1;
    bool column, columns = false, rows = false;
    int number = ir_tile_number(k, tile);
    if (!sym_is_const(k->syms, ir_m(k, tile)->size, NULL))
        return no_register(why, number, "has no constant size");
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != tile) continue;
        if (t[i].dyn || !register_index(k, t[i].at, t[i].index, t[i].load, &lanes, &column))
            return no_register(why, number, "has an index that is no register of it");
        if (common >= 0 && lanes != common)
            return no_register(why, number, "is used by different numbers of lanes");
        common = lanes;
        columns |= column;
        rows |= !column;
    }
    if (columns && !rows) return no_register(why, number, "is read across its registers alone");
    return common < 0 ? 0 : common;
}

/* Tiles that are stored together are all in registers, or none is. */
bool ir_in_registers(kernel *k, mem_id tile, str *why) {
    bool *together = arena_zeroed(&k->arena, k->mems);
    together[tile] = true;
    for (bool more = true; more;) {
        more = false;
        for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
            const ir_stmt *t = ir_s(k, s);
            bool any = false;
            if (t->kind != STMT_STORE || t->n < 2) continue;
            for (int i = 0; i < t->n; i++) any |= together[t->store.mem[i]];
            for (int i = 0; i < t->n && any; i++) {
                more |= !together[t->store.mem[i]];
                together[t->store.mem[i]] = true;
            }
        }
    }
    for (mem_id m = 1; m < k->mems; m++) {
        if (together[m] && ir_m(k, m)->scope == MEM_ARG)
            return ir_refuse(why, "t%d is stored together with an argument",
                             ir_tile_number(k, tile));
        if (together[m] && ir_register_lanes(k, m, why) < 0) return false;
    }
    return true;
}
