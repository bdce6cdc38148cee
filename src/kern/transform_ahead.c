/* transform_ahead.c - what no trip of a loop changes, computed in front of it.
 *
 * ahead i    for i { .. f(t[x]) .. }  becomes  def s = f(t[x])   for i { .. s[0] .. }
 *
 * An emitter hoists such a value by itself, as far as its operands allow. Where another loop is to
 * be moved into this one, lanes of columns into a loop down rows, that would be nowhere: f would be
 * computed for every element. As a tile it grows with the tiles it is made of. Only what costs more
 * than a load is worth it: quotients, roots, and what becomes a formula.
 *
 * Legal everywhere: what is taken reads tiles only, none that the loop stores to or defines. */
#include "kern/kern.h"

enum { MOST_AHEAD = 8 };

typedef struct looking {
    kern *k;
    kstmt loop;
    const bool *changed; /* by kmem: the loop stores to it or defines it */
} looking;

static bool costly(int op) {
    static const uint8_t ops[] = {
        OP_RECIPROCAL, OP_SQRT,        OP_EXP,       OP_EXP2,  OP_EXPM1,    OP_LOG,     OP_LOG2,
        OP_LOG1P,      OP_SIN,         OP_COS,       OP_ATAN,  OP_TANH,     OP_SIGMOID, OP_ERF,
        OP_ERFC,       OP_DIV,         OP_FLOOR_DIV, OP_MOD,   OP_POW,      OP_CBRT,    OP_ASIN,
        OP_ACOS,       OP_ASINH,       OP_ACOSH,     OP_ATANH, OP_SOFTPLUS, OP_ATAN2,   OP_HYPOT,
        OP_LOGADDEXP,  OP_MUL_SIGMOID, OP_MUL_NDTR};
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (ops[i] == op) return true;
    return false;
}

/* Is it the same in all trips? `cost`: is something costly in it, and a tile? */
static bool constant(const looking *p, kexpr e, bool *cost, bool *tile) {
    const kern_expr *x = kern_e(p->k, e);
    if (x->kind == KE_CONST) return true;
    if (x->kind == KE_LOAD) {
        *tile = true;
        return kern_m(p->k, x->load.mem)->scope != KERN_ARG && !p->changed[x->load.mem] &&
               !x->load.dyn && !x->load.guard && x->load.valid == SYM_TRUE &&
               sym_is_const(p->k->syms, x->load.index, NULL);
    }
    if (x->kind != KE_OP) return false;
    *cost |= costly(x->op);
    for (int i = 0; i < x->n; i++)
        if (!constant(p, x->arg[i], cost, tile)) return false;
    return true;
}

/* The first such expression in e, as much of it as there is; 0: none. */
static kexpr find(const looking *p, kexpr e) {
    bool cost = false, tile = false;
    const kern_expr *x = kern_e(p->k, e);
    if (!e || x->kind != KE_OP) return 0;
    if (constant(p, e, &cost, &tile)) return cost && tile ? e : 0;
    for (int i = 0; i < x->n; i++) {
        kexpr found = find(p, x->arg[i]);
        if (found) return found;
    }
    return 0;
}

static kexpr find_in(const looking *p) {
    for (kstmt s = p->loop; s; s = kern_next(p->k, s, p->loop)) {
        const kern_stmt *t = kern_s(p->k, s);
        for (int i = 0; t->kind == KS_STORE && i < t->n; i++) {
            kexpr found = find(p, t->store.value[i]);
            if (found) return found;
        }
    }
    return 0;
}

static bool allowed(kern *k, kstmt loop, str *why) {
    return kern_outside_vectors(k, loop, why) && kern_divisible(k, kern_s(k, loop)->parent, why);
}

bool kern_ahead(kern *k, kstmt loop, str *why) {
    if (!allowed(k, loop, why)) return false;
    bool *changed = arena_zeroed(&k->arena, k->mems + MOST_AHEAD);
    for (kstmt s = loop; s; s = kern_next(k, s, loop)) {
        const kern_stmt *t = kern_s(k, s);
        if (t->kind == KS_DEF) changed[t->def.mem] = true;
        for (int i = 0; t->kind == KS_STORE && i < t->n; i++) changed[t->store.mem[i]] = true;
    }
    looking p = {k, loop, changed};
    int n = 0;
    for (kexpr e; n < MOST_AHEAD && (e = find_in(&p)); n++) {
        kmem m = kern_tile(k, KERN_LOCAL, (qn_dtype)kern_e(k, e)->dtype, SYM_ONE);
        kstmt def = kern_def(k, kern_s(k, loop)->parent, m, e);
        kern_move(k, def, kern_s(k, loop)->parent, loop);
        kern_replace(k, loop, e, kern_load(k, m, SYM_ZERO, SYM_TRUE, 0, 0));
    }
    return n || kern_refuse(why, "nothing in the loop is worth computing ahead");
}

bool transform_ahead(kern *k, const transform_args *a, str *why) {
    return kern_ahead(k, a->loop[0], why);
}
