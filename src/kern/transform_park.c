/* transform_park.c - what a loop reads of a tile, from a copy in memory.
 *
 * park t i    for i { .. t[x] .. }
 *     becomes def w; for e { w[e] = t[e] }  for i { .. w[x] .. }
 *
 * A tile in registers can only be read where its index is known when code is made, so a loop over
 * its elements must be unrolled, and a long formula for each of 28 accumulators is 28 times the
 * code. Parked in memory the accumulators free their registers and are read by a loop.
 *
 * Legal where the loop does not store to the tile. */
#include "kern/kern.h"

typedef struct parking {
    kmem from, to;
} parking;

static kexpr park_rewriter(kern *k, const kern_expr *e, void *user) {
    const parking *p = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_LOAD && row.load.mem == p->from) row.load.mem = p->to;
    return kern_rebuild(k, &row, NULL);
}

static bool allowed(kern *k, kmem tile, kstmt loop, str *why) {
    kern_touch *t;
    uint32_t n = kern_touches(k, loop, &t);
    bool reads = false;
    if (kern_m(k, tile)->scope == KERN_ARG) return kern_refuse(why, "only a tile is parked");
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != tile) continue;
        if (!t[i].load) return kern_refuse(why, "the loop stores to the tile");
        reads = true;
    }
    for (kstmt s = loop; s; s = kern_next(k, s, loop))
        if (kern_s(k, s)->kind == KS_DEF && kern_s(k, s)->def.mem == tile)
            return kern_refuse(why, "the tile is defined in the loop");
    return kern_outside_vectors(k, kern_s(k, loop)->parent, why) &&
           (reads || kern_refuse(why, "the loop does not read the tile")) &&
           kern_divisible(k, kern_s(k, loop)->parent, why);
}

bool kern_park(kern *k, kmem tile, kstmt loop, str *why) {
    if (!allowed(k, tile, loop, why)) return false;
    kern_memory m = *kern_m(k, tile);
    kstmt parent = kern_s(k, loop)->parent;
    parking p = {tile, kern_tile(k, KERN_LOCAL, m.dtype, m.size)};
    kern_rewrite(k, loop, park_rewriter, &p);
    kstmt def = kern_def(k, parent, p.to, 0);
    kern_move(k, def, parent, loop);
    kstmt copy = kern_loop(k, parent, KERN_SERIAL, "park", m.size);
    kern_move(k, copy, parent, loop);
    sym e = kern_trip(k, copy);
    kern_store(k, copy, MONOID_SET, p.to, e, SYM_TRUE, kern_load(k, tile, e, SYM_TRUE, 0, 0));
    if (m.scope == KERN_REG && !kern_in_registers(k, tile, NULL))
        kern_m(k, tile)->scope = KERN_LOCAL;
    return true;
}

bool transform_park(kern *k, const transform_args *a, str *why) {
    return kern_park(k, a->mem, a->loop[0], why);
}
