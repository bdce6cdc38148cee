/* block_reduction.c - move the loop over blocks of a reduction (BLIS's pc) outside; partial results
 * stay in memory between blocks.
 *
 * block_reduction t k i
 *            for i { .. for j { def t = identity; for k { for r { t += x } } rest } }
 *     becomes    def w[extents of i, .., j];
 *                for k { for i { .. for j { def t = identity
 *                        for more {t += w[i, .., j]}  for r { t += x }
 *                        for wait {w[i, .., j] = t}  for last {rest}
 *                }}}
 *
 * A block of the operands can now be staged (packed) once for all iterations of i .. j, while w
 * keeps their partial sums. Three loops have one iteration or none: `more` runs in all blocks but
 * the first, `wait` in all but the last, `last` in the last only. So w needs no initial value, and
 * the epilogue sees t as before, in registers where t lives there. A block continues the sum of the
 * one before: terms are added in the order they had, so the depth of blocks changes no bit. Other
 * tiles that k updates beside t are kept likewise.
 *
 * Legal where the loops from i to j are serial and perfectly nested, k is sure to have an
 * iteration, the body only updates t and such tiles, all of one size, each by one statement and
 * monoid, from the monoid's identity, and the epilogue stores to nothing that k loads: blocks of
 * later i now run before it. */
#include "transform/transform.h"

enum { MOST_CARRIED = 8 };

typedef struct blocking {
    kernel *k;
    int tiles;
    mem_id tile[MOST_CARRIED], wide[MOST_CARRIED];
    int monoid[MOST_CARRIED];
    stmt_id body, blocks, first; /* first: the outermost loop to move inside the loop over blocks */
    transform_made *made;
} blocking;

static int number_of(const blocking *p, mem_id m) {
    for (int i = 0; i < p->tiles; i++)
        if (p->tile[i] == m) return i;
    return -1;
}

/* Nothing but definitions of tiles in front of the blocks; `tile` is one of them. */
static bool find_tiles(blocking *p, mem_id tile, str *why) {
    const kernel *k = p->k;
    p->body = ir_s(k, p->blocks)->parent;
    for (stmt_id s = ir_s(k, p->body)->first; s != p->blocks; s = ir_s(k, s)->next) {
        if (ir_s(k, s)->kind != STMT_DEF)
            return ir_refuse(why, "the loop is not the first after the tile's definition");
        if (p->tiles == MOST_CARRIED) return ir_refuse(why, "too many tiles beside the loop");
        p->tile[p->tiles++] = ir_s(k, s)->def.mem;
    }
    for (int i = 1; i < p->tiles; i++)
        if (ir_m(k, p->tile[i])->size != ir_m(k, p->tile[0])->size)
            return ir_refuse(why, "the tiles beside the loop differ in size");
    return number_of(p, tile) >= 0 || ir_refuse(why, "the tile is not defined beside the loop");
}

/* The loops from p->first down to the body, each alone in its parent. */
static bool nested(const blocking *p, str *why) {
    const kernel *k = p->k;
    if (!ir_inside(k, p->body, p->first))
        return ir_refuse(why, "the tile is not defined in that loop");
    for (stmt_id s = p->body;; s = ir_s(k, s)->parent) {
        const ir_stmt *l = ir_s(k, s);
        if (l->loop != LOOP_SERIAL)
            return ir_refuse(why, "a loop to go inside the blocks is not serial");
        if (sym_uses(k->syms, ir_s(k, p->blocks)->l.extent, l->l.var))
            return ir_refuse(why, "the number of blocks depends on a loop around them");
        if (s == p->first) return true;
        if (l->prev || l->next) return ir_refuse(why, "the loops do something beside each other");
    }
}

static bool stored_in(const ir_access *t, uint32_t n, mem_id m) {
    for (uint32_t i = 0; i < n; i++)
        if (!t[i].load && t[i].mem == m) return true;
    return false;
}

/* The loop over blocks has no effect but to update the tiles. */
static bool only_updates(blocking *p, str *why) {
    kernel *k = p->k;
    ir_access *t;
    uint32_t n = ir_accesses(k, p->blocks, &t), updates[MOST_CARRIED] = {0};
    bool *inner = arena_zeroed(&k->arena, k->mems * sizeof *inner);
    for (stmt_id s = p->blocks; (s = ir_next(k, s, p->blocks));)
        if (ir_s(k, s)->kind == STMT_DEF) inner[ir_s(k, s)->def.mem] = true;
    for (uint32_t i = 0; i < n; i++) {
        int number = number_of(p, t[i].mem);
        if (number < 0) {
            if (!t[i].load && !inner[t[i].mem])
                return ir_refuse(why, "the loop stores to other memory than the tile");
            continue;
        }
        if (t[i].load || !monoid_commutes(t[i].monoid) || ir_s(k, t[i].at)->n != 1)
            return ir_refuse(why, "the tile is not only updated by a monoid");
        if (updates[number]++) return ir_refuse(why, "several statements update the tile");
        p->monoid[number] = t[i].monoid;
    }
    for (int i = 0; i < p->tiles; i++)
        if (!updates[i]) return ir_refuse(why, "the loop does not update the tile");
    for (stmt_id s = ir_s(k, p->blocks)->next; s; s = ir_s(k, s)->next) {
        ir_access *later;
        uint32_t m = ir_accesses(k, s, &later);
        for (uint32_t i = 0; i < n; i++)
            if (t[i].load && !inner[t[i].mem] && stored_in(later, m, t[i].mem))
                return ir_refuse(why, "what follows stores to what the loop reads");
    }
    return true;
}

/* Row-major index into w by the loops i .. j, t's own index last. */
static bool wide_index(const blocking *p, sym *index, sym *size, str *why) {
    kernel *k = p->k;
    int64_t bytes = 1;
    for (int i = 0; i < p->tiles; i++) {
        int64_t each = (int64_t)qn_dtype_size(ir_m(k, p->tile[i])->dtype);
        if (each > bytes) bytes = each;
    }
    *size = ir_m(k, p->tile[0])->size;
    *index = SYM_ZERO;
    for (stmt_id s = p->body;; s = ir_s(k, s)->parent) {
        sym extent;
        if (!ir_known_extent(k, s, &extent)) return ir_refuse(why, "a loop's trips have no bound");
        *index = sym_add(k->syms, *index, sym_mul(k->syms, ir_trip(k, s), *size));
        *size = sym_mul(k->syms, *size, extent);
        if (sym_overflowed(k->syms) || sym_hi(k->syms, *size) > IR_TILE_BYTES / bytes)
            return ir_refuse(why, "the tile would get too large");
        if (s == p->first) return true;
    }
}

/* Each tile starts from its monoid's identity. */
static bool from_identities(const blocking *p, str *why) {
    kernel *k = p->k;
    for (stmt_id s = ir_s(k, p->body)->first; s != p->blocks; s = ir_s(k, s)->next) {
        int m = p->monoid[number_of(p, ir_s(k, s)->def.mem)];
        qn_dtype d = (qn_dtype)ir_m(k, ir_s(k, s)->def.mem)->dtype;
        if (ir_s(k, s)->def.value != ir_identity(k, m, 0, d))
            return ir_refuse(why, "the tile does not begin with the monoid's identity");
    }
    return true;
}

static bool allowed(blocking *p, mem_id tile, str *why) {
    kernel *k = p->k;
    const ir_stmt *b = ir_s(k, p->blocks);
    if (b->kind != STMT_LOOP || p->first == k->root)
        return ir_refuse(why, "the tile is not defined beside the loop");
    if (b->loop != LOOP_SERIAL || sym_lo(k->syms, b->l.extent) < 1)
        return ir_refuse(why, "only a serial loop sure to have a trip can be blocks of a sum");
    if (!find_tiles(p, tile, why) || !nested(p, why) || !only_updates(p, why) ||
        !from_identities(p, why))
        return false;
    stmt_id outside = ir_s(k, p->first)->parent;
    return ir_outside_vectors(k, outside, why) && ir_divisible(k, outside, why);
}

/* for name < extent { for e { to[at + e] = or op= from[at' + e] } }   at the end of the body; from
 * the identity `op=` is exact. */
static stmt_id move_all(const blocking *p, stmt_id body, const char *name, sym extent, bool out,
                        sym wide) {
    kernel *k = p->k;
    sym size = ir_m(k, p->tile[0])->size, e = SYM_ZERO;
    stmt_id loop = ir_loop(k, body, LOOP_SERIAL, name, extent), in = loop;
    if (size != SYM_ONE) {
        const char *each = arena_printf(&k->arena, "%s_t", sym_name(k->syms, ir_s(k, in)->l.var));
        in = ir_loop(k, in, LOOP_SERIAL, each, size);
        e = ir_trip(k, in);
    }
    wide = sym_add(k->syms, wide, e);
    for (int i = 0; i < p->tiles; i++) {
        expr_id value = ir_load(k, out ? p->tile[i] : p->wide[i], out ? e : wide, SYM_TRUE, 0, 0);
        ir_store(k, in, out ? MONOID_SET : p->monoid[i],
                 (ir_place){out ? p->wide[i] : p->tile[i], out ? wide : e, SYM_TRUE}, value);
    }
    return loop;
}

/* The loop over a tile's elements in one that says when; 0: the tile has a single one. */
static stmt_id elements_in(const kernel *k, stmt_id loop) {
    stmt_id in = ir_s(k, loop)->first;
    return ir_s(k, in)->kind == STMT_LOOP ? in : 0;
}

/* Move the rest of the body, the epilogue, into the loop that runs in the last block. */
static void close_body(const blocking *p, stmt_id body, sym wide) {
    kernel *k = p->k;
    sym_store *s = k->syms;
    sym trip = ir_trip(k, p->blocks), end = ir_s(k, p->blocks)->l.extent;
    sym left = sym_sub(s, sym_sub(s, end, SYM_ONE), trip);
    sym more = sym_min(s, trip, SYM_ONE), wait = sym_min(s, left, SYM_ONE);
    stmt_id after = ir_s(k, p->blocks)->next, begin = ir_s(k, p->blocks)->first;
    ir_unlink(k, p->blocks);
    while (ir_s(k, p->blocks)->first) {
        stmt_id child = ir_s(k, p->blocks)->first;
        ir_move(k, child, body, after);
    }
    stmt_id going_on = move_all(p, body, "more", more, false, wide);
    ir_move(k, going_on, body, begin);
    stmt_id keeping = move_all(p, body, "wait", wait, true, wide);
    if (!after) after = keeping;
    stmt_id last = ir_loop(k, body, LOOP_SERIAL, "last", sym_sub(s, SYM_ONE, wait));
    for (stmt_id next; after != keeping; after = next) {
        next = ir_s(k, after)->next;
        ir_move(k, after, last, 0);
    }
    transform_report(k, p->made, elements_in(k, going_on));
    transform_report(k, p->made, elements_in(k, keeping));
    transform_report(k, p->made, last);
}

bool transform_block_reduction(kernel *k, mem_id tile, stmt_id blocks, stmt_id first,
                               transform_made *made, str *why) {
    blocking p = {.k = k, .blocks = blocks, .first = first, .made = made};
    sym index, size;
    if (!allowed(&p, tile, why) || !wide_index(&p, &index, &size, why)) return false;
    stmt_id outside = ir_s(k, first)->parent;
    for (int i = 0; i < p.tiles; i++)
        p.wide[i] = ir_tile(k, MEM_LOCAL, ir_m(k, p.tile[i])->dtype, size);
    made->tile = p.wide[number_of(&p, tile)];
    close_body(&p, p.body, index);
    ir_insert(k, blocks, outside, first);
    ir_move(k, first, blocks, 0);
    for (int i = 0; i < p.tiles; i++) {
        stmt_id def = ir_def(k, outside, p.wide[i], 0);
        ir_move(k, def, outside, blocks);
        ir_wait_between(k, p.tile[i], p.wide[i]);
        if (ir_m(k, p.tile[i])->scope == MEM_REG && !ir_in_registers(k, p.tile[i], NULL))
            ir_m(k, p.tile[i])->scope = MEM_LOCAL;
    }
    return true;
}

bool apply_block_reduction(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_block_reduction(k, a->mem, a->loop[0], a->loop[1], made, why);
}
