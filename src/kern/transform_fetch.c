/* transform_fetch.c - what the next copy will read, asked for while this one is used.
 *
 * fetch i j    for p { for i { t[x] = a[f(p, i)] }  .. for j { .. } }
 *      becomes for p { for i { t[x] = a[f(p, i)] }  .. for j { ..  fetch a[f(p + 1, j)] } }
 *
 * A copy of what comes from far away waits for memory, and what follows it computes while memory
 * rests; asked for in time, the next copy's elements are in the second-level cache. p is the
 * innermost loop around both. A loop that computes may ask for what it reads itself the next time
 * round, and what others read before it. Of a loop inside i every trip is fetched where it is
 * unrolled, the first where lanes or a line lie together. What it loads this time round anyway, a
 * row that it seeks the largest of while it computes with the one before, is not asked for.
 *
 * Legal but between the loops of a group's members: a fetch reads nothing, its address may lie
 * anywhere, and an emitter without such an instruction leaves it away. */
#include "kern/kern.h"

enum { MOST_FETCHES = 8, MOST_LOADED = 32 };

typedef struct fetching {
    kern *k;
    kstmt copy, use, around;
    sym trip;            /* of the loop around, whose loads are meant */
    int n, most, loaded; /* the first so many are loaded this time */
    kmem mem[MOST_LOADED + MOST_FETCHES];
    sym index[MOST_LOADED + MOST_FETCHES];
} fetching;

/* Is the index of use's own loops, and those around? */
static bool in_scope(const fetching *f, sym index) {
    for (kstmt s = f->k->root; (s = kern_next(f->k, s, f->k->root));) {
        const kern_stmt *l = kern_s(f->k, s);
        if (l->kind == KS_LOOP && !kern_inside(f->k, f->use, s) &&
            sym_uses(f->k->syms, index, l->l.var))
            return false;
    }
    return true;
}

static void add_fetch(fetching *f, const kern_touch *t, sym index) {
    kern *k = f->k;
    sym var[2] = {kern_s(k, f->copy)->l.var, kern_s(k, f->around)->l.var};
    sym by[2] = {kern_trip(k, f->use), f->trip};
    index = sym_subst(k->syms, index, 2, var, by);
    if (!in_scope(f, index) || f->n == f->most) return;
    for (int i = 0; i < f->n; i++)
        if (f->mem[i] == t->mem && f->index[i] == index) return;
    f->mem[f->n] = t->mem;
    f->index[f->n++] = index;
}

/* The trips of the loops from `inner` out to the copy's: of unrolled ones each, else the first. */
static void each_trip(fetching *f, const kern_touch *t, sym index, kstmt inner) {
    kern *k = f->k;
    int64_t n = 1;
    if (inner == f->copy) {
        add_fetch(f, t, index);
        return;
    }
    const kern_stmt *l = kern_s(k, inner);
    kstmt outer = l->parent;
    sym var = l->l.var;
    if (l->loop == KERN_UNROLL && sym_uses(k->syms, index, var))
        sym_is_const(k->syms, l->l.extent, &n);
    for (int64_t i = 0; i < n && f->n < f->most; i++) {
        sym at = sym_const(k->syms, i);
        each_trip(f, t, sym_subst(k->syms, index, 1, &var, &at), outer);
    }
}

static void each_load(fetching *f, const kern_touch *t, uint32_t n) {
    kern *k = f->k;
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && kern_m(k, t[i].mem)->scope == KERN_ARG && !t[i].dyn && !t[i].guard)
            each_trip(f, &t[i], t[i].index, kern_s(k, t[i].at)->parent);
}

bool kern_fetch_next(kern *k, kstmt copy, kstmt use, str *why) {
    fetching f = {
        .k = k, .copy = copy, .use = use, .around = kern_s(k, copy)->parent, .most = MOST_LOADED};
    while (!kern_inside(k, use, f.around)) f.around = kern_s(k, f.around)->parent;
    bool nested = use != copy && (kern_inside(k, use, copy) || kern_inside(k, copy, use));
    if (f.around == k->root || nested)
        return kern_refuse(why, "the loops are in no loop that copies again");
    for (kstmt l = use; l; l = kern_s(k, l)->parent)
        if (kern_s(k, l)->loop == KERN_VEC || kern_s(k, l)->loop == KERN_WORD)
            return kern_refuse(why, "lanes have nothing to fetch");
    kern_touch *t;
    uint32_t n = kern_touches(k, copy, &t);
    f.trip = kern_trip(k, f.around);
    if (use == copy) each_load(&f, t, n);
    f.loaded = f.n;
    f.most = f.n + MOST_FETCHES;
    f.trip = sym_add(k->syms, f.trip, SYM_ONE);
    each_load(&f, t, n);
    kstmt made[MOST_LOADED + MOST_FETCHES];
    for (int i = f.loaded; i < f.n; i++) made[i] = kern_fetch(k, use, f.mem[i], f.index[i]);
    if (kern_nests_fit(k, why))
        return f.n > f.loaded || kern_refuse(why, "nothing that is copied is known in time");
    for (int i = f.loaded; i < f.n; i++) kern_unlink(k, made[i]);
    return false;
}

bool transform_fetch(kern *k, const transform_args *a, str *why) {
    return kern_fetch_next(k, a->loop[0], a->loop[1], why);
}
