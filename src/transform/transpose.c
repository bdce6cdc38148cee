/* transpose.c - an in-register transpose: a copy that reads along one loop and writes along the
 * other goes through a tile.
 *
 * transpose i j    for i { for j { m[x] = value } }
 *     becomes      def t[extents of i, j]; for i { for j { t[i, j] = value } }
 *                  for j_1 { for i_1 { m[x] = t[i_1, j_1] } }
 *
 * With i unrolled and j a vector the tile is registers, one for each i; with j_1 unrolled and i_1 a
 * vector it is read across them, which an emitter does by shuffles of pairs of registers, log2 of
 * their number of rounds. So memory is accessed by whole vectors on both sides: this is how a
 * transposed operand is packed.
 *
 * Legal where a single store is all that the loops do, its value does not read the memory it stores
 * to, and different iterations of one of the loops store to different elements. */
#include "transform/transform.h"

typedef struct transposing {
    stmt_id outer, inner, store;
    sym rows, columns; /* upper bounds of the extents */
} transposing;

static bool allowed(kernel *k, transposing *p, str *why) {
    const ir_stmt o = *ir_s(k, p->outer), i = *ir_s(k, p->inner);
    p->store = i.first;
    if (o.first != p->inner || o.last != p->inner)
        return ir_refuse(why, "the inner loop is not all that the outer one does");
    if (o.loop != LOOP_SERIAL || i.loop != LOOP_SERIAL)
        return ir_refuse(why, "only serial loops can be transposed");
    if (sym_uses(k->syms, i.l.extent, o.l.var))
        return ir_refuse(why, "the inner extent depends on the outer loop");
    if (!p->store || p->store != i.last || ir_s(k, p->store)->kind != STMT_STORE)
        return ir_refuse(why, "a store is not all that the loops do");
    const ir_stmt s = *ir_s(k, p->store);
    if (s.monoid != MONOID_SET || s.n != 1 || s.store.dyn || s.store.guard)
        return ir_refuse(why, "the store is no plain copy");
    if (ir_expr_reads(k, s.store.value[0], s.store.mem[0]))
        return ir_refuse(why, "the loops read what they store");
    if (!ir_outside_vectors(k, o.parent, why) || !ir_divisible(k, o.parent, why)) return false;
    if (!ir_known_extent(k, p->outer, &p->rows) || !ir_known_extent(k, p->inner, &p->columns))
        return ir_refuse(why, "a loop's trips have no bound");
    return ir_no_carried(k, p->outer, p->outer, FREEDOM_ANY_ORDER, NULL) ||
           ir_no_carried(k, p->inner, p->outer, FREEDOM_ANY_ORDER, why);
}

bool transform_transpose(kernel *k, stmt_id outer, stmt_id inner, transform_made *made, str *why) {
    sym_store *y = k->syms;
    transposing p = {.outer = outer, .inner = inner};
    if (!allowed(k, &p, why)) return false;
    const ir_stmt o = *ir_s(k, outer), i = *ir_s(k, inner), s = *ir_s(k, p.store);
    int dtype = ir_m(k, s.store.mem[0])->dtype;
    sym size = sym_mul(y, p.rows, p.columns);
    if (sym_overflowed(y) ||
        sym_hi(y, size) > IR_TILE_BYTES / (int64_t)qn_dtype_size((qn_dtype)dtype))
        return ir_refuse(why, "the tile would get too large");
    mem_id tile = ir_tile(k, MEM_LOCAL, (qn_dtype)dtype, size);
    stmt_id def = ir_def(k, o.parent, tile, 0);
    ir_move(k, def, o.parent, outer);

    stmt_id column = ir_loop(k, o.parent, LOOP_SERIAL, sym_name(y, i.l.var), i.l.extent);
    ir_move(k, column, o.parent, o.next);
    stmt_id row = ir_loop(k, column, LOOP_SERIAL, sym_name(y, o.l.var), o.l.extent);
    made->tile = tile;
    transform_report(k, made, column);
    transform_report(k, made, row);
    ir_s(k, column)->l.want = i.l.want;
    ir_s(k, row)->l.want = o.l.want;
    sym from[2] = {o.l.var, i.l.var}, to[2] = {ir_trip(k, row), ir_trip(k, column)};
    sym at = sym_add(y, sym_mul(y, to[0], p.columns), to[1]);
    ir_store(k, row, MONOID_SET,
             (ir_place){s.store.mem[0], sym_subst(y, s.store.index, 2, from, to),
                        sym_subst(y, s.store.valid, 2, from, to)},
             ir_load(k, tile, at, SYM_TRUE, 0, 0));

    sym own[2] = {ir_trip(k, outer), ir_trip(k, inner)};
    ir_stmt *copy = ir_s(k, p.store);
    copy->store.mem[0] = tile;
    copy->store.index = sym_add(y, sym_mul(y, own[0], p.columns), own[1]);
    return true;
}

bool apply_transpose(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_transpose(k, a->loop[0], a->loop[1], made, why);
}
