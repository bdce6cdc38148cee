/* spill.c - copy a tile to memory so that a loop can index it.
 *
 * spill t i   for i { .. t[x] .. }
 *     becomes def w; for e { w[e] = t[e] }  for i { .. w[x] .. }
 *
 * A register tile can only be read where its index is known at compile time, so a loop over its
 * elements must be unrolled; a long epilogue over 28 accumulators is 28 copies of its code. Spilled
 * to memory the accumulators free their registers and are read by a loop.
 *
 * Legal where the loop does not store to the tile. */
#include "transform/transform.h"

typedef struct spilling {
    mem_id from, to;
} spilling;

static expr_id spill_rewriter(kernel *k, const ir_expr *e, void *user) {
    const spilling *p = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD && row.load.mem == p->from) row.load.mem = p->to;
    return ir_rebuild(k, &row, NULL);
}

static bool allowed(kernel *k, mem_id tile, stmt_id loop, str *why) {
    ir_access *t;
    uint32_t n = ir_accesses(k, loop, &t);
    bool reads = false;
    if (ir_m(k, tile)->scope == MEM_ARG) return ir_refuse(why, "only a tile is spilled");
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != tile) continue;
        if (!t[i].load) return ir_refuse(why, "the loop stores to the tile");
        reads = true;
    }
    for (stmt_id s = loop; s; s = ir_next(k, s, loop))
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile)
            return ir_refuse(why, "the tile is defined in the loop");
    return ir_outside_vectors(k, ir_s(k, loop)->parent, why) &&
           (reads || ir_refuse(why, "the loop does not read the tile")) &&
           ir_divisible(k, ir_s(k, loop)->parent, why);
}

bool transform_spill(kernel *k, mem_id tile, stmt_id loop, transform_made *made, str *why) {
    if (!allowed(k, tile, loop, why)) return false;
    ir_memory m = *ir_m(k, tile);
    stmt_id parent = ir_s(k, loop)->parent;
    spilling p = {tile, ir_tile(k, MEM_LOCAL, m.dtype, m.size)};
    ir_rewrite(k, loop, spill_rewriter, &p);
    stmt_id def = ir_def(k, parent, p.to, 0);
    ir_move(k, def, parent, loop);
    stmt_id copy = ir_loop(k, parent, LOOP_SERIAL, "spill", m.size);
    ir_move(k, copy, parent, loop);
    made->tile = p.to;
    transform_report(k, made, copy);
    sym e = ir_trip(k, copy);
    ir_store(k, copy, MONOID_SET, (ir_place){p.to, e, SYM_TRUE},
             ir_load(k, tile, e, SYM_TRUE, 0, 0));
    if (m.scope == MEM_REG && !ir_in_registers(k, tile, NULL)) ir_m(k, tile)->scope = MEM_LOCAL;
    return true;
}

bool apply_spill(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_spill(k, a->mem, a->loop[0], made, why);
}
