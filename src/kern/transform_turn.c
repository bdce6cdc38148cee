/* transform_turn.c - a copy that reads one way and writes the other goes through a tile.
 *
 * turn i j    for i { for j { m[x] = value } }
 *     becomes def t[trips of i, of j]; for i { for j { t[i, j] = value } }
 *             for j_1 { for i_1 { m[x] = t[i_1, j_1] } }
 *
 * With i unrolled and j a vector the tile is registers, one for each i; with j_1 unrolled and i_1 a
 * vector its elements are then read across them, which an emitter does by exchanging halves of
 * pairs of registers, in as many rounds as the logarithm of their number. So memory is touched by
 * whole vectors on both sides: this is how a transposed operand is packed.
 *
 * Legal where the store is all that the loops do, its value does not read what is stored, and
 * different trips of one of the loops store to different elements, so that their order is free. */
#include "kern/kern.h"

typedef struct turning {
    kstmt outer, inner, store;
    sym rows, columns; /* most trips of each */
} turning;

static bool allowed(kern *k, turning *p, str *why) {
    const kern_stmt o = *kern_s(k, p->outer), i = *kern_s(k, p->inner);
    p->store = i.first;
    if (o.first != p->inner || o.last != p->inner)
        return kern_refuse(why, "the inner loop is not all that the outer one does");
    if (o.loop != KERN_SERIAL || i.loop != KERN_SERIAL)
        return kern_refuse(why, "only serial loops can be turned");
    if (sym_uses(k->syms, i.l.extent, o.l.var))
        return kern_refuse(why, "the inner extent depends on the outer loop");
    if (!p->store || p->store != i.last || kern_s(k, p->store)->kind != KS_STORE)
        return kern_refuse(why, "a store is not all that the loops do");
    const kern_stmt s = *kern_s(k, p->store);
    if (s.monoid != MONOID_SET || s.n != 1 || s.store.dyn || s.store.guard)
        return kern_refuse(why, "the store is no plain copy");
    if (kern_expr_reads(k, s.store.value[0], s.store.mem[0]))
        return kern_refuse(why, "the loops read what they store");
    if (!kern_outside_vectors(k, o.parent, why) || !kern_divisible(k, o.parent, why)) return false;
    if (!kern_room(k, p->outer, &p->rows) || !kern_room(k, p->inner, &p->columns))
        return kern_refuse(why, "a loop's trips have no bound");
    return kern_apart(k, p->outer, p->outer, KERN_ANY_ORDER, NULL) ||
           kern_apart(k, p->inner, p->outer, KERN_ANY_ORDER, why);
}

bool kern_turn(kern *k, kstmt outer, kstmt inner, str *why) {
    sym_store *y = k->syms;
    turning p = {.outer = outer, .inner = inner};
    if (!allowed(k, &p, why)) return false;
    const kern_stmt o = *kern_s(k, outer), i = *kern_s(k, inner), s = *kern_s(k, p.store);
    int dtype = kern_m(k, s.store.mem[0])->dtype;
    sym size = sym_mul(y, p.rows, p.columns);
    if (sym_overflowed(y) ||
        sym_hi(y, size) > KERN_TILE_BYTES / (int64_t)qn_dtype_size((qn_dtype)dtype))
        return kern_refuse(why, "the tile would get too large");
    kmem tile = kern_tile(k, KERN_LOCAL, (qn_dtype)dtype, size);
    kstmt def = kern_def(k, o.parent, tile, 0);
    kern_move(k, def, o.parent, outer);

    kstmt column = kern_loop(k, o.parent, KERN_SERIAL, sym_name(y, i.l.var), i.l.extent);
    kern_move(k, column, o.parent, o.next);
    kstmt row = kern_loop(k, column, KERN_SERIAL, sym_name(y, o.l.var), o.l.extent);
    sym from[2] = {o.l.var, i.l.var}, to[2] = {kern_trip(k, row), kern_trip(k, column)};
    sym at = sym_add(y, sym_mul(y, to[0], p.columns), to[1]);
    kern_store(k, row, MONOID_SET, s.store.mem[0], sym_subst(y, s.store.index, 2, from, to),
               sym_subst(y, s.store.valid, 2, from, to), kern_load(k, tile, at, SYM_TRUE, 0, 0));

    sym own[2] = {kern_trip(k, outer), kern_trip(k, inner)};
    kern_stmt *copy = kern_s(k, p.store);
    copy->store.mem[0] = tile;
    copy->store.index = sym_add(y, sym_mul(y, own[0], p.columns), own[1]);
    return true;
}

bool transform_turn(kern *k, const transform_args *a, str *why) {
    return kern_turn(k, a->loop[0], a->loop[1], why);
}
