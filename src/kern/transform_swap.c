/* transform_swap.c - exchange two loops of which the inner is all that the outer does.
 *
 * Trips (o, n) then run in the order of n first. Legal where, for every memory the body shares and
 * stores to, each element belongs to trips of one o (their order, by n, stays) or of one n (their
 * order, by o, stays), or the memory is only updated, by one monoid. The inner extent must be free
 * of the outer variable, and thread loops must stay next to each other. */
#include "kern/kern.h"

static void exchange(kern *k, kstmt outer, kstmt inner) {
    kern_stmt *o = kern_s(k, outer), *i = kern_s(k, inner);
    uint8_t kind = o->loop;
    sym var = o->l.var, extent = o->l.extent;
    o->loop = i->loop;
    o->l.var = i->l.var;
    o->l.extent = i->l.extent;
    i->loop = kind;
    i->l.var = var;
    i->l.extent = extent;
}

bool kern_swap(kern *k, kstmt outer, kstmt inner, str *why) {
    kern_stmt *o = kern_s(k, outer), *i = kern_s(k, inner);
    if (o->first != inner || o->last != inner || i->kind != KS_LOOP)
        return kern_refuse(why, "the inner loop is not all that the outer one does");
    if (o->loop == KERN_PAR) return kern_refuse(why, "a parallel loop stays at the root");
    if (sym_uses(k->syms, i->l.extent, o->l.var))
        return kern_refuse(why, "the inner extent depends on the outer loop");
    if (!kern_apart(k, outer, outer, KERN_ANY_ORDER, NULL) &&
        !kern_apart(k, inner, outer, KERN_ANY_ORDER, why))
        return false;
    exchange(k, outer, inner);
    if (kern_nests_fit(k, why)) return true;
    exchange(k, outer, inner);
    return false;
}

bool transform_swap(kern *k, const transform_args *a, str *why) {
    return kern_swap(k, a->loop[0], a->loop[1], why);
}
