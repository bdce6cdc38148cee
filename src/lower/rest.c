/* rest.c - a value that is an old one but for some of its elements: only these are stored.
 *
 * A row written into a cache, a slice that was assigned to, rows scattered into a table: as values
 * of tensors these are new ones of which nearly all elements are the old one's,
 *
 *     for i.. for j.. { out[i, j] = where(first <= i < last, new, old[i, j]) }
 *
 * or a copy of the old one and a scatter. Where the new value is to lie over the old one in the
 * end, that is work for nothing: the rest is there. So the range of each loop becomes that in which
 * the condition holds, and a copy that comes before all other stores goes. What is left never reads
 * the old value, so it may lie anywhere among the old one's elements.
 *
 * It is then the caller's promise that the output begins as the old value: the two arguments are
 * marked (ACCESS_RESTS), and a run that must not write over the old value copies it first. */
#include "lower/lower.h"

typedef struct rest {
    kernel *k;
    mem_id out, old;
    stmt_id at;   /* what stores the old value's element, */
    expr_id load; /* and how it is read */
} rest;

static mem_id memory_of(const kernel *k, int arg) {
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_ARG && ir_m(k, m)->arg == arg) return m;
    return 0;
}

/* Is the old value read once, by a plain store to the output at the same index? */
static bool find_store(rest *r) {
    ir_access *t;
    uint32_t n = ir_accesses(r->k, r->k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != r->old) continue;
        const ir_stmt *s = ir_s(r->k, t[i].at);
        if (r->at || !t[i].load || t[i].dyn || t[i].guard || t[i].valid != SYM_TRUE) return false;
        if (s->kind != STMT_STORE || s->n != 1 || s->monoid != MONOID_SET ||
            s->store.mem[0] != r->out || s->store.index != t[i].index || s->store.dyn ||
            s->store.guard || s->store.valid != SYM_TRUE)
            return false;
        r->at = t[i].at;
        r->load = t[i].load;
    }
    return r->at;
}

/* Does nothing but this statement store to what lives outside of the loop? */
static bool stores_alone(const rest *r, stmt_id loop) {
    const kernel *k = r->k;
    bool *own = arena_zeroed(&r->k->arena, k->mems);
    for (stmt_id s = loop; s; s = ir_next(k, s, loop)) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_DEF) own[x->def.mem] = true;
        for (int i = 0; x->kind == STMT_STORE && s != r->at && i < x->n; i++)
            if (!own[x->store.mem[i]]) return false;
    }
    return true;
}

/* ---- a copy, and stores behind it ------------------------------------------------------------ */

static stmt_id root_of(const kernel *k, stmt_id s) {
    while (ir_s(k, s)->parent != k->root) s = ir_s(k, s)->parent;
    return s;
}

static bool stores_to(const kernel *k, stmt_id top, mem_id m) {
    for (stmt_id s = top; s; s = ir_next(k, s, top)) {
        const ir_stmt *x = ir_s(k, s);
        for (int i = 0; x->kind == STMT_STORE && i < x->n; i++)
            if (x->store.mem[i] == m) return true;
    }
    return false;
}

static bool drop_copy(const rest *r) {
    kernel *k = r->k;
    stmt_id top = root_of(k, r->at);
    if (ir_s(k, r->at)->store.value[0] != r->load || !ir_s(k, top)->next || !stores_alone(r, top))
        return false;
    for (stmt_id s = ir_s(k, k->root)->first; s != top; s = ir_s(k, s)->next)
        if (stores_to(k, s, r->out)) return false;
    ir_unlink(k, top);
    return true;
}

/* ---- a choice by a range of each loop -------------------------------------------------------- */

/* The condition where(idx(p) != 0, true, false), or what is left of it, as a truth value: p. */
static bool truth_of(const kernel *k, expr_id e, sym *truth) {
    const ir_expr *x = ir_e(k, e);
    if (x->kind == EXPR_OP && x->op == OP_WHERE) {
        const ir_expr *yes = ir_e(k, x->arg[1]), *no = ir_e(k, x->arg[2]);
        if (yes->kind != EXPR_CONST || no->kind != EXPR_CONST || !yes->bits || no->bits)
            return false;
        x = ir_e(k, x->arg[0]);
    }
    if (x->kind != EXPR_OP || x->op != OP_NE) return false;
    const ir_expr *index = ir_e(k, x->arg[0]), *zero = ir_e(k, x->arg[1]);
    if (index->kind != EXPR_INDEX || zero->kind != EXPR_CONST || zero->bits) return false;
    *truth = index->index;
    return true;
}

/* What of a loop's range is left, from `first` to `last`. */
typedef struct loop_range {
    stmt_id loop;
    sym first, last;
    bool cut;
} loop_range;

static int loops_of(const kernel *k, stmt_id at, loop_range *range) {
    int n = 0;
    for (stmt_id s = ir_s(k, at)->parent; s != k->root; s = ir_s(k, s)->parent) {
        if (n == QN_MAX_RANK || ir_s(k, s)->loop != LOOP_SERIAL) return 0;
        sym last = sym_sub(k->syms, ir_s(k, s)->l.extent, SYM_ONE);
        range[n++] = (loop_range){.loop = s, .last = last};
    }
    return n;
}

/* fact >= 0 as a bound of one loop's variable, alone. */
static bool cut_range(const kernel *k, sym fact, int n, loop_range *range) {
    sym_store *s = k->syms;
    loop_range *of = NULL;
    for (int i = 0; i < n; i++) {
        if (!sym_uses(s, fact, ir_s(k, range[i].loop)->l.var)) continue;
        if (of) return false;
        of = &range[i];
    }
    int64_t step;
    sym bound;
    if (!of || !sym_split(s, fact, ir_s(k, of->loop)->l.var, &step, &bound)) return false;
    if (step == 1)
        of->first = sym_max(s, of->first, sym_scale(s, bound, -1));
    else if (step == -1)
        of->last = sym_min(s, of->last, bound);
    else
        return false;
    return of->cut = true;
}

/* The bounds as they are used: no extent may depend on another of the loops. */
static bool find_ranges(const kernel *k, sym truth, int n, loop_range *range) {
    sym fact[IR_FACTS], all = SYM_TRUE;
    int facts = ir_facts(k, truth, fact);
    for (int i = 0; i < facts; i++) {
        all = sym_and(k->syms, all, sym_ge0(k->syms, fact[i]));
        if (!cut_range(k, fact[i], n, range)) return false;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (sym_uses(k->syms, ir_s(k, range[i].loop)->l.extent, ir_s(k, range[j].loop)->l.var))
                return false;
    return facts && all == truth;
}

/* The loops from the outermost cut one in have nothing beside them. */
static bool nested(const rest *r, int n, const loop_range *range) {
    int inner = 0, outer = n - 1;
    while (!range[inner].cut) inner++;
    while (!range[outer].cut) outer--;
    for (int i = outer; i > inner; i--) {
        const ir_stmt *l = ir_s(r->k, range[i].loop);
        if (l->first != range[i - 1].loop || l->last != l->first) return false;
    }
    return stores_alone(r, range[inner].loop);
}

static void narrow(kernel *k, const loop_range *range) {
    sym_store *s = k->syms;
    ir_stmt *loop = ir_s(k, range->loop);
    const sym was = loop->l.var;
    const char *name = sym_name(s, was);
    sym extent = sym_sub(s, sym_add(s, range->last, SYM_ONE), range->first);
    extent = sym_max(s, extent, SYM_ZERO);
    loop->l.var = sym_loop(s, name, extent);
    loop->l.extent = extent;
    loop->l.id = ++k->loops;
    sym value = sym_add(s, range->first, ir_trip(k, range->loop));
    ir_subst(k, range->loop, 1, &was, &value);
}

static bool narrow_loops(const rest *r) {
    kernel *k = r->k;
    loop_range range[QN_MAX_RANK];
    sym truth;
    const ir_expr *choice = ir_e(k, ir_s(k, r->at)->store.value[0]);
    if (choice->kind != EXPR_OP || choice->op != OP_WHERE || choice->arg[2] != r->load ||
        ir_expr_reads(k, choice->arg[1], r->old) || !truth_of(k, choice->arg[0], &truth))
        return false;
    int n = loops_of(k, r->at, range);
    if (!n || !find_ranges(k, truth, n, range) || !nested(r, n, range)) return false;
    ir_s(k, r->at)->store.value[0] = choice->arg[1];
    for (int i = n; i-- > 0;)
        if (range[i].cut) narrow(k, &range[i]);
    return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

int rest_pairs(kernel *k, int most, inplace_pair *pair) {
    int n = 0;
    mem_id old = 0;
    for (mem_id out = 1; out < k->mems && n < most; out++) {
        const ir_memory *m = ir_m(k, out);
        if ((m->access & (ACCESS_RESTS | ACCESS_WRITE)) != (ACCESS_RESTS | ACCESS_WRITE)) continue;
        for (old++; old < k->mems; old++)
            if ((ir_m(k, old)->access & (ACCESS_RESTS | ACCESS_WRITE)) == ACCESS_RESTS) break;
        if (old >= k->mems) break;
        pair[n++] = (inplace_pair){(uint16_t)m->arg, (uint16_t)ir_m(k, old)->arg, true};
    }
    return n;
}

bool rest_drop(kernel *k, int out, int old) {
    rest r = {.k = k, .out = memory_of(k, out), .old = memory_of(k, old)};
    ir_memory *to = ir_m(k, r.out), *from = ir_m(k, r.old);
    if (!r.out || !r.old || to->dtype != from->dtype || to->size != from->size ||
        from->access & ACCESS_WRITE || !find_store(&r) || (!drop_copy(&r) && !narrow_loops(&r)))
        return false;
    ir_m(k, r.out)->access |= ACCESS_INPLACE | ACCESS_RESTS;
    ir_m(k, r.old)->access |= ACCESS_RESTS;
    return true;
}
