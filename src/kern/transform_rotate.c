/* transform_rotate.c - the first statements of a trip, done at the end of the trip before.
 *
 *   rotate i j    for i < n { A; j { B } }
 *       becomes   A(0);  for i < n - 1 { j { B(i) } A(i + 1) }  j { B(n - 1) }
 *
 * Nothing is done in another order. What it is for comes after it: the end of one trip and the
 * beginning of the next are now in one body, and where they do not depend on each other `fuse`
 * makes one loop of theirs. So a row is stored while the next one's exponentials are computed and
 * the largest of the one after that is sought: memory, for which each alone would wait, and
 * arithmetic at the same time. Each further rotation is a further stage.
 *
 * Tiles that A makes and j needs now live from trip to trip: they are defined in front of the loop,
 * and their first values are stored in each trip, right in front of what first touches them, so
 * that what is left of the trip before may still be read until then. Other tiles stay with the part
 * that has them.
 *
 * Legal where the loop is sure to have a trip. */
#include "kern/kern.h"

typedef struct rotating {
    kern *k;
    kstmt loop, first;  /* first: where the trips are to begin */
    bool *early, *late; /* by kmem: touched in front of `first`, and from it on */
} rotating;

static bool reads_nothing(kern *k, kstmt def) {
    kern_touch *t;
    return !kern_touches(k, def, &t);
}

static void mark(kern *k, kstmt s, bool *touched) {
    kern_touch *t;
    uint32_t n = kern_touches(k, s, &t);
    for (uint32_t i = 0; i < n; i++) touched[t[i].mem] = true;
}

static void find_tiles(rotating *r) {
    kern *k = r->k;
    bool behind = false;
    r->early = arena_zeroed(&k->arena, k->mems * sizeof *r->early);
    r->late = arena_zeroed(&k->arena, k->mems * sizeof *r->late);
    for (kstmt s = kern_s(k, r->loop)->first; s; s = kern_s(k, s)->next) {
        behind |= s == r->first;
        mark(k, s, behind ? r->late : r->early);
    }
}

/* The first values of a tile that lives longer than a trip, where the trip begins to use it. */
static void begin_at_use(const rotating *r, kstmt def, kexpr value) {
    kern *k = r->k;
    kmem tile = kern_s(k, def)->def.mem;
    kstmt use = kern_s(k, def)->next;
    for (; reads_nothing(k, def); use = kern_s(k, use)->next) {
        bool *touched = arena_zeroed(&k->arena, k->mems * sizeof *touched);
        mark(k, use, touched);
        if (touched[tile]) break;
    }
    kstmt in = r->loop;
    sym e = SYM_ZERO, size = kern_m(k, tile)->size;
    if (size != SYM_ONE) {
        in = kern_loop(k, in, KERN_SERIAL, "begin_e", size);
        kern_move(k, in, r->loop, use);
        e = kern_trip(k, in);
    }
    kstmt set = kern_store(k, in, MONOID_SET, tile, e, SYM_TRUE, value);
    if (size == SYM_ONE) kern_move(k, set, r->loop, use);
}

/* Definitions in front of `first`: of tiles that only what follows touches they go there, of those
 * that both do in front of the loop. */
static void place_tiles(rotating *r) {
    kern *k = r->k;
    kstmt behind = r->first;
    for (kstmt s = kern_s(k, r->loop)->first, next; s != r->first && s != behind; s = next) {
        next = kern_s(k, s)->next;
        kern_stmt *def = kern_s(k, s);
        if (def->kind != KS_DEF || !r->late[def->def.mem]) continue;
        kmem tile = def->def.mem;
        if (!r->early[tile] && reads_nothing(k, s)) {
            kern_move(k, s, r->loop, behind);
            if (r->first == behind) r->first = s;
            continue;
        }
        kexpr value = def->def.value;
        if (value) begin_at_use(r, s, value);
        kern_s(k, s)->def.value = 0;
        kern_move(k, s, kern_s(k, r->loop)->parent, r->loop);
    }
}

/* One trip of the loop, from its child number `from` to before `to`, in front of `before`. */
static void single(const rotating *r, int from, int to, sym trip, kstmt before) {
    kern *k = r->k;
    kstmt parent = kern_s(k, r->loop)->parent, copy = kern_copy(k, r->loop);
    kern_insert(k, copy, parent, before);
    int number = 0;
    for (kstmt s = kern_s(k, copy)->first, next; s; s = next, number++) {
        next = kern_s(k, s)->next;
        if (number < from || number >= to) kern_unlink(k, s);
    }
    kern_rename(k, copy);
    sym var = kern_s(k, copy)->l.var;
    kern_subst(k, copy, 1, &var, &trip);
    while (kern_s(k, copy)->first) kern_move(k, kern_s(k, copy)->first, parent, copy);
    kern_unlink(k, copy);
}

static bool allowed(kern *k, kstmt loop, kstmt first, str *why) {
    const kern_stmt *l = kern_s(k, loop);
    if (l->loop != KERN_SERIAL || loop == k->root)
        return kern_refuse(why, "only a serial loop can be rotated");
    if (kern_s(k, first)->parent != loop)
        return kern_refuse(why, "the second loop is not directly in the first");
    kstmt s = l->first;
    while (s != first && kern_s(k, s)->kind == KS_DEF) s = kern_s(k, s)->next;
    if (s == first) return kern_refuse(why, "the trips begin with that loop");
    if (sym_hi(k->syms, l->l.extent) <= 1) return kern_refuse(why, "the loop has only one trip");
    return kern_divisible(k, l->parent, why) && kern_outside_vectors(k, l->parent, why);
}

bool kern_rotate(kern *k, kstmt loop, kstmt first, str *why) {
    if (!allowed(k, loop, first, why)) return false;
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, loop);
    sym left = sym_sub(s, l.l.extent, SYM_ONE);
    if (!kern_prove(k, l.parent, left, 0, NULL))
        return kern_refuse(why, "the loop may have no trip");
    if (!kern_plain(k, left, why)) return false;
    rotating r = {.k = k, .loop = loop, .first = first};
    find_tiles(&r);
    place_tiles(&r);
    int number = 0, all = 0;
    for (kstmt c = kern_s(k, loop)->first; c; c = kern_s(k, c)->next, all++)
        if (c == r.first) number = all;
    single(&r, 0, number, SYM_ZERO, loop);
    single(&r, number, all, left, kern_s(k, loop)->next);
    kern_s(k, loop)->l.var = sym_loop(s, sym_name(s, l.l.var), left);
    kern_s(k, loop)->l.extent = left;
    sym trip = kern_trip(k, loop), following = sym_add(s, trip, SYM_ONE);
    for (kstmt c = r.first; c; c = kern_s(k, c)->next) kern_subst(k, c, 1, &l.l.var, &trip);
    for (; number > 0; number--) {
        kstmt c = kern_s(k, loop)->first;
        kern_move(k, c, loop, 0);
        kern_subst(k, c, 1, &l.l.var, &following);
    }
    for (kmem m = 1; m < k->mems; m++)
        if (kern_m(k, m)->scope == KERN_REG && !kern_in_registers(k, m, NULL))
            kern_m(k, m)->scope = KERN_LOCAL;
    return true;
}

bool transform_rotate(kern *k, const transform_args *a, str *why) {
    return kern_rotate(k, a->loop[0], a->loop[1], why);
}
