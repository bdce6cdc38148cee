/* transform_collect.c - what trips add to one element, added up first.
 *
 * collect i    for i { for .. { a[x] += f } }
 *      becomes def t = identity; for i { for .. { t += f } } a[x] += t
 *
 * A sum whose terms come block by block, the gradient of queries while blocks of keys go by, waits
 * in memory for its next terms. Added one by one each would cost a load and a store; the terms of a
 * block are added in a register, which `tile` then makes a register tile of, as of any sum.
 *
 * Legal where the loop does nothing else, down to one update of an element that no trip chooses, by
 * one monoid, and the element is inside its memory even where no trip is on: what is added is then
 * the identity. Floating sums are reassociated. */
#include "kern/kern.h"

/* The loop's one statement, an update by a monoid; 0: it is something else. */
static kstmt only_update(kern *k, kstmt loop, str *why) {
    kstmt s = loop;
    for (; kern_s(k, s)->kind == KS_LOOP; s = kern_s(k, s)->first) {
        const kern_stmt *l = kern_s(k, s);
        if (l->loop != KERN_SERIAL) return kern_refuse(why, "only serial loops are collected");
        if (!l->first || l->first != l->last)
            return kern_refuse(why, "the loop does more than one thing");
    }
    const kern_stmt *x = kern_s(k, s);
    if (x->kind != KS_STORE || x->monoid == MONOID_SET || x->n != 1 || x->store.dyn ||
        x->store.guard)
        return kern_refuse(why, "the loop does not just update one element");
    for (kstmt l = kern_s(k, s)->parent;; l = kern_s(k, l)->parent) {
        if (sym_uses(k->syms, x->store.index, kern_s(k, l)->l.var))
            return kern_refuse(why, "the loop chooses the element");
        if (l == loop) break;
    }
    if (kern_expr_reads(k, x->store.value[0], x->store.mem[0]))
        return kern_refuse(why, "the loop reads what it updates");
    return s;
}

/* Of a condition what holds in all trips of the loop alike. */
static sym without_trips(kern *k, kstmt loop, sym valid) {
    sym fact[KERN_FACTS], kept = SYM_TRUE;
    int n = kern_facts(k, valid, fact);
    for (int i = 0; i < n; i++) {
        bool uses = false;
        for (kstmt l = loop; kern_s(k, l)->kind == KS_LOOP; l = kern_s(k, l)->first)
            uses |= sym_uses(k->syms, fact[i], kern_s(k, l)->l.var);
        if (!uses) kept = sym_and(k->syms, kept, sym_ge0(k->syms, fact[i]));
    }
    return kept;
}

static bool stays_inside(kern *k, kstmt loop, const kern_stmt *x, sym valid, str *why) {
    sym_store *s = k->syms;
    sym fact[KERN_FACTS], size = kern_m(k, x->store.mem[0])->size;
    int n = kern_facts(k, valid, fact);
    sym left = sym_sub(s, sym_sub(s, size, SYM_ONE), x->store.index);
    return (kern_prove(k, loop, x->store.index, n, fact) && kern_prove(k, loop, left, n, fact)) ||
           kern_refuse(why, "the element may lie outside where no trip is on");
}

bool kern_collect(kern *k, kstmt loop, str *why) {
    kstmt update = only_update(k, loop, why);
    kstmt parent = kern_s(k, loop)->parent, behind = kern_s(k, loop)->next;
    if (!update || !kern_divisible(k, parent, why) || !kern_outside_vectors(k, parent, why))
        return false;
    kern_stmt x = *kern_s(k, update);
    sym valid = without_trips(k, loop, x.store.valid);
    if (!stays_inside(k, loop, &x, valid, why)) return false;
    qn_dtype dtype = kern_m(k, x.store.mem[0])->dtype;
    kmem t = kern_tile(k, KERN_REG, dtype, SYM_ONE);
    kstmt def = kern_def(k, parent, t, kern_identity(k, x.monoid, 0, dtype));
    kern_move(k, def, parent, loop);
    kern_s(k, update)->store.mem[0] = t;
    kern_s(k, update)->store.index = SYM_ZERO;
    kexpr sum = kern_load(k, t, SYM_ZERO, SYM_TRUE, 0, 0);
    kstmt once = kern_store(k, parent, x.monoid, x.store.mem[0], x.store.index, valid, sum);
    kern_move(k, once, parent, behind);
    return true;
}

bool transform_collect(kern *k, const transform_args *a, str *why) {
    return kern_collect(k, a->loop[0], why);
}
