/* hoist.c - loop-invariant code motion of expensive values.
 *
 * hoist i    for i { .. f(t[x]) .. }  becomes  def s = f(t[x])   for i { .. s[0] .. }
 *
 * An emitter hoists such a value by itself out of the loops its operands do not depend on. But if
 * another loop is to move inside this one (vectors of columns inside a loop down the rows), that
 * position disappears, and f would be computed for every element. As a tile the value is expanded
 * together with the tiles it is made of. Only what costs more than a load is hoisted: quotients,
 * roots, and functions that are expanded into arithmetic.
 *
 * Always legal: what is hoisted reads only tiles that the loop neither stores to nor defines. */
#include "transform/transform.h"

enum { MOST_AHEAD = 8, LOAD = 2 }; /* what a load of a tile costs, in additions */

typedef struct search {
    kernel *k;
    stmt_id loop;
    const bool *changed; /* by mem_id: the loop stores to it or defines it */
    uint8_t *known;      /* by expr_id, what is known of it: each is looked at once */
} search;

enum { LOOKED_AT = 1, INVARIANT = 2, COSTLY = 4, HOLDS_TILE = 8, SEARCHED = 16 };

static bool costly(const ir_expr *x) {
    return op_cost(x->op, x->dtype) > LOAD;
}

static bool fixed_tile(const search *p, const ir_expr *x) {
    return ir_m(p->k, x->load.mem)->scope != MEM_ARG && !p->changed[x->load.mem] && !x->load.dyn &&
           !x->load.guard && x->load.valid == SYM_TRUE &&
           sym_is_const(p->k->syms, x->load.index, NULL);
}

/* Is the expression loop-invariant? Does it hold something expensive, and a tile? */
static int look_at(const search *p, expr_id e) {
    if (p->known[e] & LOOKED_AT) return p->known[e];
    const ir_expr *x = ir_e(p->k, e);
    int is = INVARIANT;
    if (x->kind == EXPR_LOAD) {
        is = fixed_tile(p, x) ? INVARIANT | HOLDS_TILE : 0;
    } else if (x->kind == EXPR_OP) {
        is |= costly(x) ? COSTLY : 0;
        for (int i = 0; i < x->n && is & INVARIANT; i++) {
            int part = look_at(p, x->arg[i]);
            is = part & INVARIANT ? is | (part & (COSTLY | HOLDS_TILE)) : 0;
        }
    } else if (x->kind != EXPR_CONST && x->kind != EXPR_PARAM) {
        is = 0;
    }
    return p->known[e] |= (uint8_t)(LOOKED_AT | is);
}

/* The first invariant, expensive subexpression of e, as large as possible; 0: none. */
static expr_id find(const search *p, expr_id e) {
    const int wanted = COSTLY | HOLDS_TILE;
    const ir_expr *x = ir_e(p->k, e);
    if (!e || x->kind != EXPR_OP || p->known[e] & SEARCHED) return 0;
    p->known[e] |= SEARCHED;
    int is = look_at(p, e);
    if (is & INVARIANT) return (is & wanted) == wanted ? e : 0;
    for (int i = 0; i < x->n; i++) {
        expr_id found = find(p, x->arg[i]);
        if (found) return found;
    }
    return 0;
}

static expr_id find_in(search *p) {
    p->known = arena_zeroed(&p->k->arena, p->k->exprs);
    for (stmt_id s = p->loop; s; s = ir_next(p->k, s, p->loop)) {
        const ir_stmt *t = ir_s(p->k, s);
        for (int i = 0; t->kind == STMT_STORE && i < t->n; i++) {
            expr_id found = find(p, t->store.value[i]);
            if (found) return found;
        }
    }
    return 0;
}

bool *transform_changed(kernel *k, stmt_id loop, int more) {
    bool *changed = arena_zeroed(&k->arena, k->mems + (uint32_t)more);
    for (stmt_id s = loop; s; s = ir_next(k, s, loop)) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_DEF) changed[t->def.mem] = true;
        for (int i = 0; t->kind == STMT_STORE && i < t->n; i++) changed[t->store.mem[i]] = true;
    }
    return changed;
}

static bool allowed(kernel *k, stmt_id loop, str *why) {
    return ir_outside_vectors(k, loop, why) && ir_divisible(k, ir_s(k, loop)->parent, why);
}

bool transform_hoist(kernel *k, stmt_id loop, transform_made *made, str *why) {
    if (!allowed(k, loop, why)) return false;
    search p = {.k = k, .loop = loop, .changed = transform_changed(k, loop, MOST_AHEAD)};
    int n = 0;
    for (expr_id e; n < MOST_AHEAD && (e = find_in(&p)); n++) {
        mem_id m = ir_tile(k, MEM_LOCAL, (qn_dtype)ir_e(k, e)->dtype, SYM_ONE);
        if (!n) made->tile = m;
        stmt_id def = ir_def(k, ir_s(k, loop)->parent, m, e);
        ir_move(k, def, ir_s(k, loop)->parent, loop);
        ir_replace(k, loop, e, ir_load(k, m, SYM_ZERO, SYM_TRUE, 0, 0));
    }
    return n || ir_refuse(why, "nothing in the loop is worth computing ahead");
}

bool apply_hoist(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_hoist(k, a->loop[0], made, why);
}
