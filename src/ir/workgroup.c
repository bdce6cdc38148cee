/* workgroup.c - kernels that run in work-groups: where a tile lives, and where barriers are needed.
 *
 * A nest of THREAD loops is run by the members of a group at once; what is outside of nests is done
 * once for the group. The tree does not say private or shared memory, as it does not say registers:
 * both follow from the accesses. What decides is an element's owner. An index is decomposed into
 *
 *   index = base + each*member + period*(whatever) + rest,   0 <= rest < each
 *
 * where base uses nothing that changes within the item, member is the number of the member (a sum
 * over the nest's variables), and period is `each` times the nest's members. If two accesses have
 * equal base, each and period, an element is only ever accessed by one member.
 *
 * Barriers. The pass walks an item's statements in the order of execution and keeps the accesses to
 * shared memory since the last barrier. A statement that accesses what another member may have
 * accessed since then, one of the two storing, gets a barrier in front. The body of a loop is
 * walked twice, the second time behind its own end, and the accesses of a loop that may have no
 * iteration are added to those before it. */
#include "ir/ir.h"

/* ---- nests ---------------------------------------------------------------------------------- */

static bool is_thread(const kernel *k, stmt_id s) {
    return s && s != k->root && ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->loop == LOOP_THREAD;
}

stmt_id ir_thread_nest(const kernel *k, stmt_id s) {
    stmt_id nest = 0;
    for (; s && s != k->root; s = ir_s(k, s)->parent)
        if (is_thread(k, s)) nest = s;
    return nest;
}

int64_t ir_nest_size(const kernel *k, stmt_id nest) {
    int64_t n = 1, trips;
    for (; is_thread(k, nest); nest = ir_s(k, nest)->first) {
        trips = ir_most_trips(k, nest);
        if (trips > IR_MEMBERS || n > IR_MEMBERS) return INT64_MAX;
        n *= trips > 1 ? trips : 1;
    }
    return n;
}

int64_t ir_nest_step(const kernel *k, stmt_id loop) {
    return ir_nest_size(k, ir_s(k, loop)->first);
}

/* One loop's place: directly in the loop around it of the nest, in no VEC loop, holding no other
 * nest. */
static bool nest_fits(const kernel *k, stmt_id loop, str *why) {
    const ir_stmt *l = ir_s(k, loop), *p = ir_s(k, l->parent);
    bool inner = is_thread(k, l->parent);
    if (inner && (p->first != loop || p->last != loop))
        return ir_refuse(why, "between thread loops stands something else");
    if (!inner && ir_thread_nest(k, l->parent))
        return ir_refuse(why, "a thread loop lies apart in another");
    if (!inner && ir_nest_size(k, loop) > IR_MEMBERS)
        return ir_refuse(why, "a group has at most %d members", IR_MEMBERS);
    for (stmt_id s = l->parent; s && s != k->root; s = ir_s(k, s)->parent)
        if (ir_s(k, s)->loop == LOOP_VEC)
            return ir_refuse(why, "a thread loop lies in a vector loop");
    return true;
}

bool ir_nests_fit(const kernel *k, str *why) {
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        if (is_thread(k, s) && !nest_fits(k, s, why)) return false;
        if (ir_s(k, s)->kind == STMT_BARRIER && ir_thread_nest(k, s))
            return ir_refuse(why, "members would wait in a thread loop");
    }
    return true;
}

bool ir_has_threads(const kernel *k) {
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root))
        if (is_thread(k, s)) return true;
    return false;
}

int64_t ir_members(const kernel *k) {
    int64_t most = 1;
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        int64_t n = is_thread(k, s) && ir_thread_nest(k, s) == s ? ir_nest_size(k, s) : 1;
        if (n > most) most = n;
    }
    return most;
}

/* ---- the owner of an element ----------------------------------------------------------------- */

typedef struct share {
    bool known;   /* the index could be decomposed */
    bool dropped; /* multiples of the period were left out */
    int64_t each, members;
    sym base;
} share;

/* The loop around `at`, in its item, that has this variable; 0: it changes only between items. */
static stmt_id item_loop(const kernel *k, stmt_id at, sym var) {
    for (; at && at != k->root; at = ir_s(k, at)->parent) {
        const ir_stmt *l = ir_s(k, at);
        if (l->kind == STMT_LOOP && l->loop != LOOP_PAR && l->l.var == var) return at;
    }
    return 0;
}

static bool changes_in_item(const kernel *k, stmt_id at, sym a) {
    for (; at && at != k->root; at = ir_s(k, at)->parent) {
        const ir_stmt *l = ir_s(k, at);
        if (l->kind == STMT_LOOP && l->loop != LOOP_PAR && sym_uses(k->syms, a, l->l.var))
            return true;
    }
    return false;
}

/* How many elements the members' parts are apart: by the innermost nest variable in the index. */
static int64_t part_size(const kernel *k, stmt_id at, sym_linear t) {
    for (int i = 0; i < t.n; i++) {
        stmt_id loop = item_loop(k, at, t.term[i]);
        if (!is_thread(k, loop)) continue;
        int64_t step = ir_nest_step(k, loop);
        return t.coef[i] > 0 && t.coef[i] % step == 0 ? t.coef[i] / step : 0;
    }
    return 0;
}

/* Is every variable of the nest that makes several iterations part of the member's number? */
static bool whole_member(const kernel *k, stmt_id nest, sym_linear t, int64_t each) {
    for (; is_thread(k, nest); nest = ir_s(k, nest)->first) {
        if (ir_most_trips(k, nest) <= 1) continue;
        int64_t coef = 0;
        for (int i = 0; i < t.n; i++)
            if (t.term[i] == ir_s(k, nest)->l.var) coef = t.coef[i];
        if (coef != each * ir_nest_step(k, nest)) return false;
    }
    return true;
}

static share share_of(kernel *k, stmt_id at, sym index, sym valid, bool computed) {
    sym_store *s = k->syms;
    sym_linear t = sym_terms(s, index);
    stmt_id nest = ir_thread_nest(k, at);
    share h = {.each = part_size(k, at, t), .members = ir_nest_size(k, nest)};
    sym rest = SYM_ZERO, fact[IR_FACTS];
    h.base = sym_const(s, t.constant);
    if (!nest || computed || h.each < 1 || !whole_member(k, nest, t, h.each)) return h;
    for (int i = 0; i < t.n; i++) {
        sym term = sym_scale(s, t.term[i], t.coef[i]);
        stmt_id loop = item_loop(k, at, t.term[i]);
        if (is_thread(k, loop)) continue;
        if (!changes_in_item(k, at, t.term[i]))
            h.base = sym_add(s, h.base, term);
        else if (loop && t.coef[i] % (h.each * h.members) == 0)
            h.dropped = true;
        else
            rest = sym_add(s, rest, term);
    }
    for (stmt_id l = nest; is_thread(k, l); l = ir_s(k, l)->first)
        if (sym_uses(s, rest, ir_s(k, l)->l.var)) return h;
    int facts = ir_facts(k, valid, fact);
    sym past = sym_sub(s, sym_const(s, h.each - 1), rest);
    h.known = ir_prove(k, at, rest, facts, fact) && ir_prove(k, at, past, facts, fact);
    return h;
}

static bool same_share(const share *a, const share *b) {
    if (!a->known || !b->known || a->each != b->each || a->base != b->base) return false;
    return (!a->dropped && !b->dropped) || a->members == b->members;
}

/* ---- where tiles live ------------------------------------------------------------------------ */

enum { MOST_REPEATED = 16 }; /* elements of a tile that each member keeps a copy of */

static stmt_id definition(const kernel *k, mem_id tile) {
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root))
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile) return s;
    return 0;
}

/* Are the tile's elements distributed among the members, in every access alike? */
static bool is_distributed(kernel *k, const ir_access *t, uint32_t n, mem_id tile, int64_t *each) {
    int64_t size;
    *each = 0;
    if (!sym_is_const(k->syms, ir_m(k, tile)->size, &size)) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != tile) continue;
        share h = share_of(k, t[i].at, t[i].index, t[i].valid, t[i].dyn != 0);
        if (!h.known || h.dropped || h.base != SYM_ZERO) return false;
        if (*each && h.each != *each) return false;
        *each = h.each;
    }
    return *each > 0;
}

static tile_storage home_of(kernel *k, const ir_access *t, uint32_t n, mem_id tile) {
    tile_storage h = {.place = PLACE_SHARED};
    stmt_id def = definition(k, tile);
    bool dealt = def && !ir_thread_nest(k, def) && is_distributed(k, t, n, tile, &h.each);
    if (dealt) h.place = PLACE_DISTRIBUTED;
    if (dealt) return h;
    h.each = sym_hi(k->syms, ir_m(k, tile)->size);
    if (!def || ir_thread_nest(k, def)) h.place = PLACE_PRIVATE;
    if (h.place == PLACE_PRIVATE || h.each > MOST_REPEATED) return h;
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == tile && !t[i].load && ir_thread_nest(k, t[i].at)) return h;
    h.place = PLACE_REPLICATED;
    return h;
}

/* A store outside nests is done either by one member or by all, for all its components. */
static bool agree(kernel *k, tile_storage *home) {
    bool changed = false;
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind != STMT_STORE || t->n < 2 || ir_thread_nest(k, s)) continue;
        tile_storage *a = &home[t->store.mem[0]], *b = &home[t->store.mem[1]];
        if ((a->place == PLACE_REPLICATED) == (b->place == PLACE_REPLICATED)) continue;
        if (a->place == PLACE_REPLICATED) a->place = PLACE_SHARED;
        if (b->place == PLACE_REPLICATED) b->place = PLACE_SHARED;
        changed = true;
    }
    return changed;
}

tile_storage *ir_tile_storage(kernel *k) {
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    tile_storage *home = arena_zeroed(&k->arena, k->mems * sizeof *home);
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope != MEM_ARG) home[m] = home_of(k, t, n, m);
    while (agree(k, home)) {
    }
    return home;
}

int64_t ir_shared_bytes(kernel *k) {
    int64_t sum = 0;
    if (!ir_has_threads(k)) return 0; /* a group of one member, whose own is everything */
    const tile_storage *home = ir_tile_storage(k);
    for (mem_id m = 1; m < k->mems; m++) {
        int64_t bytes = (int64_t)qn_dtype_size((qn_dtype)ir_m(k, m)->dtype);
        if (ir_m(k, m)->scope == MEM_REG && bytes < 4) bytes = 4; /* halves are floats there */
        if (ir_m(k, m)->scope != MEM_ARG && home[m].place == PLACE_SHARED)
            sum += (home[m].each * bytes + 63) / 64 * 64;
    }
    return sum;
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* Who executes: outside nests the first member, or all of them where a replicated tile is
 * stored. */
typedef enum actor { FIRST, ALL, NEST } actor;

typedef struct access {
    mem_id mem;
    bool store;
    actor by;
    share share;
} access;

typedef struct walk {
    kernel *k;
    const tile_storage *home;
    access **of; /* of each statement met so far; by stmt_id */
    uint32_t *n_of;
    access *now; /* since the last barrier */
    uint32_t count, cap;
} walk;

static bool is_shared(const walk *w, mem_id m) {
    return ir_m(w->k, m)->scope == MEM_ARG || w->home[m].place == PLACE_SHARED;
}

static actor actor_of(const walk *w, stmt_id s) {
    const ir_stmt *t = ir_s(w->k, s);
    if (ir_thread_nest(w->k, s)) return NEST;
    return t->kind == STMT_STORE && is_shared(w, t->store.mem[0]) ? FIRST : ALL;
}

static bool same_access(const access *a, const access *b) {
    const share *x = &a->share, *y = &b->share;
    return a->mem == b->mem && a->store == b->store && a->by == b->by && x->known == y->known &&
           x->dropped == y->dropped && x->each == y->each && x->members == y->members &&
           x->base == y->base;
}

static void add_access(walk *w, access a) {
    for (uint32_t i = 0; i < w->count; i++)
        if (same_access(&w->now[i], &a)) return;
    w->now = arena_grow(&w->k->arena, w->now, &w->cap, w->count + 1, sizeof *w->now);
    w->now[w->count++] = a;
}

static bool conflict(const access *a, const access *b) {
    if (a->mem != b->mem || (!a->store && !b->store)) return false;
    if (a->by == FIRST && b->by == FIRST) return false;
    return !(a->by == NEST && b->by == NEST && same_share(&a->share, &b->share));
}

/* The subtree's accesses to shared memory; room for one more than all its accesses. */
static uint32_t accesses(walk *w, stmt_id s, access **out) {
    kernel *k = w->k;
    *out = w->of[s];
    if (*out) return w->n_of[s];
    ir_access *t;
    uint32_t all = ir_accesses(k, s, &t), n = 0;
    access *list = arena_alloc(&k->arena, (all + 1) * sizeof *list);
    for (uint32_t i = 0; i < all; i++) {
        if (!is_shared(w, t[i].mem)) continue;
        access a = {.mem = t[i].mem, .store = !t[i].load, .by = actor_of(w, t[i].at)};
        if (a.by == NEST) a.share = share_of(k, t[i].at, t[i].index, t[i].valid, t[i].dyn != 0);
        list[n++] = a;
    }
    const ir_stmt *d = ir_s(k, s); /* a shared tile is filled by all, element by element */
    if (d->kind == STMT_DEF && d->def.value && is_shared(w, d->def.mem))
        list[n++] = (access){.mem = d->def.mem, .store = true, .by = ALL};
    *out = w->of[s] = list;
    return w->n_of[s] = n;
}

/* A statement that members run without a barrier inside. */
static void visit_unit(walk *w, stmt_id s) {
    access *a;
    uint32_t n = accesses(w, s, &a);
    bool wait = false;
    for (uint32_t i = 0; i < n && !wait; i++)
        for (uint32_t j = 0; j < w->count && !wait; j++) wait = conflict(&w->now[j], &a[i]);
    if (wait) {
        stmt_id parent = ir_s(w->k, s)->parent, b = ir_barrier(w->k, parent);
        ir_move(w->k, b, parent, s);
        w->count = 0;
    }
    for (uint32_t i = 0; i < n; i++) add_access(w, a[i]);
}

static void visit_block(walk *w, stmt_id block);

static void visit_loop(walk *w, stmt_id loop) {
    kernel *k = w->k;
    const ir_stmt *l = ir_s(k, loop);
    bool maybe = sym_lo(k->syms, l->l.extent)<1, again = ir_most_trips(k, loop)> 1;
    uint32_t n = w->count;
    access *before = arena_alloc(&k->arena, (n + 1) * sizeof *before);
    if (n) memcpy(before, w->now, n * sizeof *before);
    visit_block(w, loop);
    if (again) visit_block(w, loop);
    for (uint32_t i = 0; i < n && maybe; i++) add_access(w, before[i]);
}

static void visit_block(walk *w, stmt_id block) {
    kernel *k = w->k;
    for (stmt_id s = ir_s(k, block)->first, next; s; s = next) {
        next = ir_s(k, s)->next;
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_BARRIER)
            w->count = 0;
        else if (t->kind == STMT_LOOP && t->loop != LOOP_THREAD)
            visit_loop(w, s);
        else
            visit_unit(w, s);
    }
}

static void remove_barriers(kernel *k) {
    for (stmt_id s = k->root, next; s; s = next) {
        next = ir_next(k, s, k->root);
        if (ir_s(k, s)->kind == STMT_BARRIER) ir_unlink(k, s);
    }
}

void ir_place_barriers(kernel *k) {
    remove_barriers(k);
    if (!ir_has_threads(k)) return;
    bool parallel = false;
    for (stmt_id s = ir_s(k, k->root)->first; s; s = ir_s(k, s)->next)
        parallel |= ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->loop == LOOP_PAR;
    walk w = {.k = k, .home = ir_tile_storage(k)};
    w.of = arena_zeroed(&k->arena, k->stmts * sizeof *w.of);
    w.n_of = arena_zeroed(&k->arena, k->stmts * sizeof *w.n_of);
    if (!parallel) {
        visit_block(&w, k->root);
        return;
    }
    for (stmt_id s = ir_s(k, k->root)->first, next; s; s = next) { /* each root is an item */
        next = ir_s(k, s)->next;
        w.count = 0;
        if (ir_s(k, s)->loop == LOOP_PAR)
            visit_block(&w, s);
        else if (ir_s(k, s)->loop != LOOP_THREAD)
            visit_loop(&w, s);
    }
}
