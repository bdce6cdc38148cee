/* transform_carry.c - a reduction in blocks, with partial results waiting in memory between them.
 *
 * carry t k i    for i { .. for j { def t = identity; for k { for r { t += x } } rest } }
 *     becomes    def w[trips of i, .., j];
 *                for k { for i { .. for j { def t = identity; for r { t += x }
 *                        for more {t += w[i, .., j]}  for wait {w[i, .., j] = t}  for last {rest}
 *                }}}
 *
 * It is multi_step with the steps outside: what k's trip reads of the operands, a block of the sum,
 * can now be staged once for all of i .. j, while the partial sums of all of them wait in w. The
 * three loops at the end have one trip or none: `more` but in k's first trip, `wait` but in its
 * last, `last` only there. So w needs no first value, and the rest sees t as it always did, in
 * registers where t lives there. Other tiles that k updates beside t wait with it.
 *
 * Legal where the loops from i to j are serial and each is all that the one outside does, k is sure
 * to have a trip, the loop's body only updates t and such tiles, of one size, each by one statement
 * and monoid, from the monoid's identity, and the rest stores to nothing that k loads: k's trips
 * for later i come before it now.
 * Floating sums are reassociated at the blocks' ends. */
#include "kern/kern.h"

enum { MOST_CARRIED = 8 };

typedef struct carrying {
    kern *k;
    int tiles;
    kmem tile[MOST_CARRIED], wide[MOST_CARRIED];
    int monoid[MOST_CARRIED];
    kstmt body, blocks, first; /* first: the outermost loop to go inside the blocks */
} carrying;

static int number_of(const carrying *p, kmem m) {
    for (int i = 0; i < p->tiles; i++)
        if (p->tile[i] == m) return i;
    return -1;
}

/* Nothing but definitions of tiles in front of the blocks; `tile` is one of them. */
static bool find_tiles(carrying *p, kmem tile, str *why) {
    const kern *k = p->k;
    p->body = kern_s(k, p->blocks)->parent;
    for (kstmt s = kern_s(k, p->body)->first; s != p->blocks; s = kern_s(k, s)->next) {
        if (kern_s(k, s)->kind != KS_DEF)
            return kern_refuse(why, "the loop is not the first after the tile's definition");
        if (p->tiles == MOST_CARRIED) return kern_refuse(why, "too many tiles beside the loop");
        p->tile[p->tiles++] = kern_s(k, s)->def.mem;
    }
    for (int i = 1; i < p->tiles; i++)
        if (kern_m(k, p->tile[i])->size != kern_m(k, p->tile[0])->size)
            return kern_refuse(why, "the tiles beside the loop differ in size");
    return number_of(p, tile) >= 0 || kern_refuse(why, "the tile is not defined beside the loop");
}

/* The loops from p->first down to the body, each alone in its parent. */
static bool nested(const carrying *p, str *why) {
    const kern *k = p->k;
    if (!kern_inside(k, p->body, p->first))
        return kern_refuse(why, "the tile is not defined in that loop");
    for (kstmt s = p->body;; s = kern_s(k, s)->parent) {
        const kern_stmt *l = kern_s(k, s);
        if (l->loop != KERN_SERIAL)
            return kern_refuse(why, "a loop to go inside the blocks is not serial");
        if (sym_uses(k->syms, kern_s(k, p->blocks)->l.extent, l->l.var))
            return kern_refuse(why, "the number of blocks depends on a loop around them");
        if (s == p->first) return true;
        if (l->prev || l->next) return kern_refuse(why, "the loops do something beside each other");
    }
}

static bool stored_in(const kern_touch *t, uint32_t n, kmem m) {
    for (uint32_t i = 0; i < n; i++)
        if (!t[i].load && t[i].mem == m) return true;
    return false;
}

/* The blocks do nothing that is seen outside but update the tiles. */
static bool only_updates(carrying *p, str *why) {
    kern *k = p->k;
    kern_touch *t;
    uint32_t n = kern_touches(k, p->blocks, &t), updates[MOST_CARRIED] = {0};
    bool *inner = arena_zeroed(&k->arena, k->mems * sizeof *inner);
    for (kstmt s = p->blocks; (s = kern_next(k, s, p->blocks));)
        if (kern_s(k, s)->kind == KS_DEF) inner[kern_s(k, s)->def.mem] = true;
    for (uint32_t i = 0; i < n; i++) {
        int number = number_of(p, t[i].mem);
        if (number < 0) {
            if (!t[i].load && !inner[t[i].mem])
                return kern_refuse(why, "the loop stores to other memory than the tile");
            continue;
        }
        if (t[i].load || t[i].monoid == MONOID_SET || kern_s(k, t[i].at)->n != 1)
            return kern_refuse(why, "the tile is not only updated by a monoid");
        if (updates[number]++) return kern_refuse(why, "several statements update the tile");
        p->monoid[number] = t[i].monoid;
    }
    for (int i = 0; i < p->tiles; i++)
        if (!updates[i]) return kern_refuse(why, "the loop does not update the tile");
    for (kstmt s = kern_s(k, p->blocks)->next; s; s = kern_s(k, s)->next) {
        kern_touch *later;
        uint32_t m = kern_touches(k, s, &later);
        for (uint32_t i = 0; i < n; i++)
            if (t[i].load && !inner[t[i].mem] && stored_in(later, m, t[i].mem))
                return kern_refuse(why, "what follows stores to what the loop reads");
    }
    return true;
}

/* Index of a wide tile's elements that wait for a trip of the loops: row-major, t's own last. */
static bool lay_out(const carrying *p, sym *index, sym *size, str *why) {
    kern *k = p->k;
    int64_t bytes = 1;
    for (int i = 0; i < p->tiles; i++) {
        int64_t each = (int64_t)qn_dtype_size(kern_m(k, p->tile[i])->dtype);
        if (each > bytes) bytes = each;
    }
    *size = kern_m(k, p->tile[0])->size;
    *index = SYM_ZERO;
    for (kstmt s = p->body;; s = kern_s(k, s)->parent) {
        sym room;
        if (!kern_room(k, s, &room)) return kern_refuse(why, "a loop's trips have no bound");
        *index = sym_add(k->syms, *index, sym_mul(k->syms, kern_trip(k, s), *size));
        *size = sym_mul(k->syms, *size, room);
        if (sym_overflowed(k->syms) || sym_hi(k->syms, *size) > KERN_TILE_BYTES / bytes)
            return kern_refuse(why, "the tile would get too large");
        if (s == p->first) return true;
    }
}

/* Each tile begins with what its monoid leaves everything as it is with. */
static bool from_identities(const carrying *p, str *why) {
    kern *k = p->k;
    for (kstmt s = kern_s(k, p->body)->first; s != p->blocks; s = kern_s(k, s)->next) {
        int m = p->monoid[number_of(p, kern_s(k, s)->def.mem)];
        qn_dtype d = (qn_dtype)kern_m(k, kern_s(k, s)->def.mem)->dtype;
        if (kern_s(k, s)->def.value != kern_identity(k, m, 0, d))
            return kern_refuse(why, "the tile does not begin with the monoid's identity");
    }
    return true;
}

static bool allowed(carrying *p, kmem tile, str *why) {
    kern *k = p->k;
    const kern_stmt *b = kern_s(k, p->blocks);
    if (b->kind != KS_LOOP || p->first == k->root)
        return kern_refuse(why, "the tile is not defined beside the loop");
    if (b->loop != KERN_SERIAL || sym_lo(k->syms, b->l.extent) < 1)
        return kern_refuse(why, "only a serial loop sure to have a trip can be blocks of a sum");
    if (!find_tiles(p, tile, why) || !nested(p, why) || !only_updates(p, why) ||
        !from_identities(p, why))
        return false;
    kstmt outside = kern_s(k, p->first)->parent;
    return kern_outside_vectors(k, outside, why) && kern_divisible(k, outside, why);
}

/* for name < extent { for e { to[at + e] = or op= from[at' + e] } }   at the end of the body */
static kstmt move_all(const carrying *p, kstmt body, const char *name, sym extent, bool out,
                      sym wide) {
    kern *k = p->k;
    sym size = kern_m(k, p->tile[0])->size, e = SYM_ZERO;
    kstmt loop = kern_loop(k, body, KERN_SERIAL, name, extent), in = loop;
    if (size != SYM_ONE) {
        const char *each = arena_printf(&k->arena, "%s_t", sym_name(k->syms, kern_s(k, in)->l.var));
        in = kern_loop(k, in, KERN_SERIAL, each, size);
        e = kern_trip(k, in);
    }
    wide = sym_add(k->syms, wide, e);
    for (int i = 0; i < p->tiles; i++) {
        kexpr value = kern_load(k, out ? p->tile[i] : p->wide[i], out ? e : wide, SYM_TRUE, 0, 0);
        kern_store(k, in, out ? MONOID_SET : p->monoid[i], out ? p->wide[i] : p->tile[i],
                   out ? wide : e, SYM_TRUE, value);
    }
    return loop;
}

/* The rest of the body goes into the loop that runs in the last trip of the blocks. */
static void close_body(const carrying *p, kstmt body, sym wide) {
    kern *k = p->k;
    sym_store *s = k->syms;
    sym trip = kern_trip(k, p->blocks), end = kern_s(k, p->blocks)->l.extent;
    sym left = sym_sub(s, sym_sub(s, end, SYM_ONE), trip);
    sym more = sym_min(s, trip, SYM_ONE), wait = sym_min(s, left, SYM_ONE);
    kstmt after = kern_s(k, p->blocks)->next;
    kern_unlink(k, p->blocks);
    while (kern_s(k, p->blocks)->first) {
        kstmt child = kern_s(k, p->blocks)->first;
        kern_move(k, child, body, after);
    }
    kstmt adding = move_all(p, body, "more", more, false, wide);
    if (!after) after = adding;
    move_all(p, body, "wait", wait, true, wide);
    kstmt last = kern_loop(k, body, KERN_SERIAL, "last", sym_sub(s, SYM_ONE, wait));
    for (kstmt next; after != adding; after = next) {
        next = kern_s(k, after)->next;
        kern_move(k, after, last, 0);
    }
}

bool kern_carry(kern *k, kmem tile, kstmt blocks, kstmt first, str *why) {
    carrying p = {.k = k, .blocks = blocks, .first = first};
    sym index, size;
    if (!allowed(&p, tile, why) || !lay_out(&p, &index, &size, why)) return false;
    kstmt outside = kern_s(k, first)->parent;
    for (int i = 0; i < p.tiles; i++)
        p.wide[i] = kern_tile(k, KERN_LOCAL, kern_m(k, p.tile[i])->dtype, size);
    close_body(&p, p.body, index);
    kern_insert(k, blocks, outside, first);
    kern_move(k, first, blocks, 0);
    for (int i = 0; i < p.tiles; i++) {
        kstmt def = kern_def(k, outside, p.wide[i], 0);
        kern_move(k, def, outside, blocks);
        if (kern_m(k, p.tile[i])->scope == KERN_REG && !kern_in_registers(k, p.tile[i], NULL))
            kern_m(k, p.tile[i])->scope = KERN_LOCAL;
    }
    return true;
}

bool transform_carry(kern *k, const transform_args *a, str *why) {
    return kern_carry(k, a->mem, a->loop[0], a->loop[1], why);
}
