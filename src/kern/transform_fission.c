/* transform_fission.c - a loop of its own for each thing a loop does.
 *
 *   fission i   for i { A; B; C }   becomes   for i { A } for i_1 { B } for i_2 { C }
 *
 * What is computed row by row, a row of scores, its softmax, its weighted sum, becomes one nest
 * after the other over a block of rows, each to be scheduled for itself. The tiles that lived for a
 * row must have grown to the block before (tile).
 *
 * Legal where different trips of i touch different elements, or only update by one monoid. */
#include "kern/kern.h"

bool kern_fission(kern *k, kstmt loop, str *why) {
    kern_stmt l = *kern_s(k, loop);
    if (l.kind != KS_LOOP || (l.loop != KERN_SERIAL && l.loop != KERN_UNROLL))
        return kern_refuse(why, "only a serial or unrolled loop can be divided");
    if (l.first == l.last) return kern_refuse(why, "the loop does one thing only");
    for (kstmt c = l.first; c; c = kern_s(k, c)->next)
        if (kern_s(k, c)->kind == KS_DEF)
            return kern_refuse(why, "a tile is defined in the loop's body");
    if (!kern_divisible(k, l.parent, why)) return false;
    if (!kern_apart(k, loop, loop, KERN_ANY_ORDER, why)) return false;
    for (kstmt c = kern_s(k, l.first)->next, next; c; c = next) {
        next = kern_s(k, c)->next;
        kstmt own = kern_loop(k, l.parent, l.loop, sym_name(k->syms, l.l.var), l.l.extent);
        kern_move(k, own, l.parent, l.next);
        kern_move(k, c, own, 0);
        kern_subst(k, own, 1, &l.l.var, &kern_s(k, own)->l.var);
    }
    return true;
}

bool transform_fission(kern *k, const transform_args *a, str *why) {
    return kern_fission(k, a->loop[0], why);
}
