/* transform_tile.c - tiles that grow: an accumulator for each trip of a loop (tile), an accumulator
 * for each trip of a reduction (multi_step).
 *
 * tile t i    for i { def t; for k { t += a(i,k); } c[i] = f(t) }
 *     becomes def t[extent of i]; for k { for i { t[i] += a(i,k) } } for i_1 { c[i_1] = f(t[i_1]) }
 *
 *   This is how a register tile comes to be: applied to the two innermost loops over a matrix
 *   product's output it leaves the reduction outside and the tile's loops inside, to be unrolled
 *   and vectorised. All tiles defined directly in i's body grow together. The rest of the body is
 *   split up statement by statement: loop i goes into every serial loop in which these tiles' trips
 *   are not told apart (its variable is in none of their indices), defines no tile itself, and
 *   makes the same trips for every i; around anything else, neighbours sharing one loop. The first
 *   loop i keeps its name. A first value that depends on i becomes a store in front.
 *   Legal where the trips of i touch different elements of all that outlives them, or only update
 *   it by one monoid.
 *   The tile's index becomes i*size + index, so what was tiled first varies fastest.
 *
 * multi_step t r    def t; for .. { for r { t += x } }
 *     becomes       def t; def w[trips of r] = identity; for .. { for r { w[r] += x } }
 *                   for r_1 { t += w[r_1] }
 *
 *   The result is the same by associativity and commutativity (sums of floats are reassociated).
 *   Between the beginning of the loops around r and their end, t must do nothing but be updated
 *   inside r by one statement. w's index is r*size + t's index, so that with several steps what was
 *   stepped first varies fastest; where t has more elements, all of them are combined. */
#include "kern/kern.h"

int64_t kern_most_trips(const kern *k, kstmt loop) {
    return sym_hi(k->syms, kern_s(k, loop)->l.extent);
}

bool kern_room(const kern *k, kstmt loop, sym *out) {
    sym extent = kern_s(k, loop)->l.extent;
    int64_t most = sym_hi(k->syms, extent);
    if (most > KERN_TILE_BYTES) return false;
    *out = sym_lo(k->syms, extent) < 0 ? sym_max(k->syms, extent, SYM_ZERO) : extent;
    for (kstmt p = kern_s(k, loop)->parent; p && p != k->root; p = kern_s(k, p)->parent)
        if (sym_uses(k->syms, extent, kern_s(k, p)->l.var))
            *out = sym_const(k->syms, most < 0 ? 0 : most);
    return true;
}

/* The size of a tile of that many more elements, if it stays reasonable. */
static bool grown(kern *k, kmem tile, sym times, sym *size, str *why) {
    *size = sym_mul(k->syms, times, kern_m(k, tile)->size);
    int64_t bytes = (int64_t)qn_dtype_size(kern_m(k, tile)->dtype);
    if (!sym_overflowed(k->syms) && sym_hi(k->syms, *size) <= KERN_TILE_BYTES / bytes) return true;
    return kern_refuse(why, "the tile would get too large");
}

/* Tiles whose indices change: index becomes var*size + index. */
typedef struct growth {
    const bool *grows; /* of memories */
    kmem mems;
    sym var;
} growth;

static sym grown_index(kern *k, const growth *g, kmem m, sym index) {
    return sym_add(k->syms, sym_mul(k->syms, g->var, kern_m(k, m)->size), index);
}

static kexpr growth_rewriter(kern *k, const kern_expr *e, void *user) {
    const growth *g = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_LOAD && row.load.mem < g->mems && g->grows[row.load.mem])
        row.load.index = grown_index(k, g, row.load.mem, row.load.index);
    return kern_rebuild(k, &row, NULL);
}

static void grow_accesses(kern *k, kstmt s, growth *g) {
    for (kstmt c = s; c; c = kern_next(k, c, s)) {
        kern_stmt *t = kern_s(k, c);
        if (t->kind == KS_STORE && g->grows[t->store.mem[0]])
            t->store.index = grown_index(k, g, t->store.mem[0], t->store.index);
    }
    kern_rewrite(k, s, growth_rewriter, g);
}

static void leave_registers(kern *k, kmem tile) {
    if (kern_m(k, tile)->scope == KERN_REG && !kern_in_registers(k, tile, NULL))
        kern_m(k, tile)->scope = KERN_LOCAL;
}

/* ---- tile ----------------------------------------------------------------------------------- */

typedef struct spreading {
    kern *k;
    kern_stmt loop; /* a copy of the row of i's loop */
    const bool *grows;
    kern_touch *touch;
    uint32_t touches;
    kstmt wrapper; /* the copy of i's loop that takes the next statement, 0: make one */
    bool used;     /* i's own variable has its loop */
} spreading;

/* Is the trip of loop `s` part of which element of the growing tiles is meant? */
static bool tells_elements(const spreading *p, kstmt s) {
    for (uint32_t i = 0; i < p->touches; i++) {
        const kern_touch *t = &p->touch[i];
        if (p->grows[t->mem] && kern_inside(p->k, t->at, s) &&
            sym_uses(p->k->syms, t->index, kern_s(p->k, s)->l.var))
            return true;
    }
    return false;
}

static bool goes_inside(const spreading *p, kstmt s) {
    const kern_stmt *t = kern_s(p->k, s);
    if (t->kind != KS_LOOP || t->loop != KERN_SERIAL) return false;
    if (sym_uses(p->k->syms, t->l.extent, p->loop.l.var)) return false;
    for (kstmt c = t->first; c; c = kern_s(p->k, c)->next)
        if (kern_s(p->k, c)->kind == KS_DEF) return false;
    return !tells_elements(p, s);
}

/* A loop i of its own around what is put into it. */
static kstmt new_wrapper(spreading *p, kstmt parent, kstmt before) {
    kern *k = p->k;
    kstmt w =
        kern_loop(k, parent, p->loop.loop, sym_name(k->syms, p->loop.l.var), p->loop.l.extent);
    if (before) {
        kern_move(k, w, parent, before);
    }
    if (!p->used) kern_s(k, w)->l.var = p->loop.l.var;
    p->used = true;
    return w;
}

static void close_wrapper(spreading *p) {
    kstmt w = p->wrapper;
    p->wrapper = 0;
    if (w) kern_subst(p->k, w, 1, &p->loop.l.var, &kern_s(p->k, w)->l.var);
}

/* Move the statements of a block into `parent` before `before`, with i's loop spread over them.
 * Until its turn comes each stays in the tree, where its loops' names are seen to be taken. */
static void spread(spreading *p, const kstmt *list, uint32_t n, kstmt parent, kstmt before) {
    kern *k = p->k;
    for (uint32_t i = 0; i < n; i++) {
        if (!goes_inside(p, list[i])) {
            if (!p->wrapper) p->wrapper = new_wrapper(p, parent, before);
            kern_move(k, list[i], p->wrapper, 0);
            continue;
        }
        close_wrapper(p);
        kern_move(k, list[i], parent, before);
        uint32_t m = 0;
        for (kstmt c = kern_s(k, list[i])->first; c; c = kern_s(k, c)->next) m++;
        kstmt *inner = arena_alloc(&k->arena, (m + 1) * sizeof *inner);
        m = 0;
        for (kstmt c = kern_s(k, list[i])->first; c; c = kern_s(k, c)->next) inner[m++] = c;
        spread(p, inner, m, list[i], 0);
    }
    close_wrapper(p);
}

/* Can a tile's first value be given before the loop: does it read nothing the loop makes? */
static bool value_moves(kern *k, kstmt loop, kexpr value, const kern_touch *t, uint32_t n) {
    if (!value) return true;
    if (kern_expr_uses(k, value, kern_s(k, loop)->l.var)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!t[i].load && kern_expr_reads(k, value, t[i].mem)) return false;
    for (kstmt c = loop; c; c = kern_next(k, c, loop))
        if (kern_s(k, c)->kind == KS_DEF && kern_expr_reads(k, value, kern_s(k, c)->def.mem))
            return false;
    return true;
}

/* What `tile` asks of its loop; marks the tiles that grow. */
static bool tile_allowed(kern *k, kmem tile, kstmt loop, bool *grows, str *why) {
    sym room, size;
    kern_stmt l = *kern_s(k, loop);
    int64_t one;
    if (l.loop != KERN_SERIAL && l.loop != KERN_UNROLL)
        return kern_refuse(why, "only a serial or unrolled loop can be moved in");
    for (kstmt c = l.first; c; c = kern_s(k, c)->next)
        if (kern_s(k, c)->kind == KS_DEF) grows[kern_s(k, c)->def.mem] = true;
    if (!grows[tile]) return kern_refuse(why, "the tile is not defined in that loop's body");
    if (!kern_room(k, loop, &room)) return kern_refuse(why, "the loop's trips have no bound");
    if (!kern_divisible(k, l.parent, why)) return false;
    kern_touch *t;
    uint32_t n = kern_touches(k, loop, &t);
    for (kstmt c = l.first; c; c = kern_s(k, c)->next) {
        kern_stmt d = *kern_s(k, c);
        if (d.kind != KS_DEF) continue;
        if (!grown(k, d.def.mem, room, &size, why)) return false;
        bool single = sym_is_const(k->syms, kern_m(k, d.def.mem)->size, &one) && one == 1;
        if (!single && !value_moves(k, loop, d.def.value, t, n))
            return kern_refuse(why, "the first value of t%d depends on the loop",
                               kern_tile_number(k, d.def.mem));
    }
    return kern_apart(k, loop, loop, KERN_ANY_ORDER, why);
}

/* The definitions of the loop's body move in front of it, grown. */
static void move_definitions(kern *k, kstmt loop, const kern_touch *t, uint32_t n) {
    sym room = SYM_ONE;
    kern_room(k, loop, &room);
    for (kstmt c = kern_s(k, loop)->first, next; c; c = next) {
        next = kern_s(k, c)->next;
        if (kern_s(k, c)->kind != KS_DEF) continue;
        kmem m = kern_s(k, c)->def.mem;
        kexpr value = kern_s(k, c)->def.value;
        if (!value_moves(k, loop, value, t, n)) {
            sym own = kern_s(k, loop)->l.var; /* the tile had one element */
            kstmt store = kern_store(k, loop, MONOID_SET, m, own, SYM_TRUE, value);
            kern_move(k, store, loop, c);
            kern_s(k, c)->def.value = 0;
        }
        kern_m(k, m)->size = sym_mul(k->syms, room, kern_m(k, m)->size);
        kern_move(k, c, kern_s(k, loop)->parent, loop);
    }
}

bool kern_tile_out(kern *k, kmem tile, kstmt loop, str *why) {
    bool *grows = arena_zeroed(&k->arena, k->mems * sizeof *grows);
    if (kern_s(k, loop)->kind != KS_LOOP || !tile_allowed(k, tile, loop, grows, why)) return false;
    growth g = {grows, k->mems, kern_s(k, loop)->l.var};
    grow_accesses(k, loop, &g);
    spreading p = {.k = k, .grows = grows};
    p.touches = kern_touches(k, loop, &p.touch);
    move_definitions(k, loop, p.touch, p.touches);

    p.loop = *kern_s(k, loop);
    uint32_t n = 0;
    for (kstmt c = p.loop.first; c; c = kern_s(k, c)->next) n++;
    kstmt *list = arena_alloc(&k->arena, (n + 1) * sizeof *list);
    n = 0;
    for (kstmt c = p.loop.first; c; c = kern_s(k, c)->next) list[n++] = c;
    spread(&p, list, n, p.loop.parent, p.loop.next);
    kern_unlink(k, loop);
    for (kmem m = 1; m < g.mems; m++)
        if (grows[m]) leave_registers(k, m);
    return true;
}

/* ---- multi_step ----------------------------------------------------------------------------- */

typedef struct stepping {
    kstmt update, around; /* the only statement that touches the tile; the loop beside its DEF */
    kmem from[KERN_STATES], to[KERN_STATES];
    int n;
} stepping;

static kstmt find_def(const kern *k, kmem tile) {
    for (kstmt s = k->root; (s = kern_next(k, s, k->root));)
        if (kern_s(k, s)->kind == KS_DEF && kern_s(k, s)->def.mem == tile) return s;
    return 0;
}

static bool find_update(kern *k, kmem tile, kstmt loop, stepping *p, str *why) {
    kstmt def = find_def(k, tile);
    if (!def) return kern_refuse(why, "that is no tile with a definition");
    kstmt block = kern_s(k, def)->parent;
    p->around = loop;
    while (p->around && kern_s(k, p->around)->parent != block)
        p->around = kern_s(k, p->around)->parent;
    if (!p->around) return kern_refuse(why, "the tile does not live through the loop");
    kern_touch *t;
    uint32_t n = kern_touches(k, p->around, &t);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != tile) continue;
        if (t[i].load || t[i].monoid == MONOID_SET)
            return kern_refuse(why, "the tile is not only updated by a monoid");
        if (p->update && p->update != t[i].at)
            return kern_refuse(why, "several statements update the tile");
        p->update = t[i].at;
    }
    if (!p->update || !kern_inside(k, p->update, loop))
        return kern_refuse(why, "the loop does not update the tile");
    return true;
}

/* The other component of a two-component state must be in the same position as the first. */
static bool same_update(kern *k, kstmt loop, stepping *p, str *why) {
    const kern_stmt u = *kern_s(k, p->update);
    p->n = u.n;
    for (int i = 0; i < u.n; i++) {
        stepping other = {0};
        p->from[i] = u.store.mem[i];
        if (!find_update(k, u.store.mem[i], loop, &other, why)) return false;
        if (other.update != p->update || other.around != p->around)
            return kern_refuse(why, "the state's components do not live together");
    }
    return true;
}

/* for r_1 { for e { (t..)[e] op= w[r_1*size + e] } } behind the reduction. */
static void combine_after(kern *k, kstmt loop, const stepping *p, sym room, sym size) {
    sym_store *s = k->syms;
    const char *name = sym_name(s, kern_s(k, loop)->l.var);
    kstmt parent = kern_s(k, p->around)->parent, next = kern_s(k, p->around)->next;
    kstmt r = kern_loop(k, parent, KERN_SERIAL, name, room), in = r;
    kern_move(k, r, parent, next);
    sym e = SYM_ZERO, from;
    if (size != SYM_ONE) {
        in = kern_loop(k, r, KERN_SERIAL, arena_printf(&k->arena, "%s_e", name), size);
        e = kern_s(k, in)->l.var;
    }
    from = sym_add(s, sym_mul(s, kern_s(k, r)->l.var, size), e);
    kern_stmt store = {.kind = KS_STORE, .monoid = kern_s(k, p->update)->monoid};
    store.n = (uint8_t)p->n;
    store.store.index = e;
    store.store.valid = SYM_TRUE;
    for (int i = 0; i < p->n; i++) {
        store.store.mem[i] = p->from[i];
        store.store.value[i] = kern_load(k, p->to[i], from, SYM_TRUE, 0, 0);
    }
    kern_store_n(k, in, &store);
}

bool kern_multi_step(kern *k, kmem tile, kstmt loop, str *why) {
    stepping p = {0};
    sym room, size, wide;
    int kind = kern_s(k, loop)->loop;
    if (kind != KERN_SERIAL && kind != KERN_UNROLL)
        return kern_refuse(why, "only a serial or unrolled loop can take steps of its own");
    if (!find_update(k, tile, loop, &p, why) || !same_update(k, loop, &p, why)) return false;
    if (!kern_room(k, loop, &room)) return kern_refuse(why, "the loop's trips have no bound");
    if (!kern_divisible(k, kern_s(k, p.around)->parent, why)) return false;
    size = kern_m(k, tile)->size;
    for (int i = 0; i < p.n; i++) {
        if (kern_m(k, p.from[i])->size != size)
            return kern_refuse(why, "the state's components differ in size");
        if (!grown(k, p.from[i], room, &wide, why)) return false;
    }
    kern_stmt u = *kern_s(k, p.update);
    for (int i = 0; i < p.n; i++) {
        kern_memory m = *kern_m(k, p.from[i]);
        p.to[i] = kern_tile(k, m.scope, m.dtype, sym_mul(k->syms, room, size));
        kexpr identity = kern_identity(k, u.monoid, i, m.dtype);
        kstmt def = kern_def(k, kern_s(k, p.around)->parent, p.to[i], identity);
        kern_move(k, def, kern_s(k, p.around)->parent, p.around);
        kern_s(k, p.update)->store.mem[i] = p.to[i];
    }
    sym step = sym_mul(k->syms, kern_s(k, loop)->l.var, size);
    kern_s(k, p.update)->store.index = sym_add(k->syms, step, u.store.index);
    combine_after(k, loop, &p, room, size);
    for (int i = 0; i < p.n; i++) {
        leave_registers(k, p.to[i]);
        leave_registers(k, p.from[i]);
    }
    return true;
}

bool transform_tile(kern *k, const transform_args *a, str *why) {
    return kern_tile_out(k, a->mem, a->loop[0], why);
}

bool transform_multi_step(kern *k, const transform_args *a, str *why) {
    return kern_multi_step(k, a->mem, a->loop[0], why);
}
