/* prefetch_next.c - prefetch, while one panel is used, what the next copy will read.
 *
 * prefetch_next i j
 *               for p { for i { t[x] = a[f(p, i)] }  .. for j { .. } }
 *      becomes  for p { for i { t[x] = a[f(p, i)] }  .. for j { ..  prefetch a[f(p + 1, j)] } }
 *
 * A copy (packing) of what lies in memory waits for it, and the loop behind computes while memory
 * is idle; prefetched in time, the elements of the next copy are in the second-level cache. p is
 * the innermost loop around both. j may be i: a loop then prefetches what it loads itself in p's
 * next iteration, and what statements in front of it load. A loop inside i is prefetched iteration
 * by iteration where it is unrolled, and by its first iteration where its lanes share a line. What
 * the loop loads in this iteration of p anyway is left out.
 *
 * Legal except between the loops of a work-group's members: a prefetch reads nothing and never
 * faults, and an emitter without the instruction leaves it out. */
#include "transform/transform.h"

enum { MOST_FETCHES = 8, MOST_LOADED = 32 };

typedef struct prefetching {
    kernel *k;
    stmt_id copy, use, around;
    sym trip;            /* of the loop around, whose loads are prefetched */
    int n, most, loaded; /* the first `loaded` are loaded in this iteration */
    mem_id mem[MOST_LOADED + MOST_FETCHES];
    sym index[MOST_LOADED + MOST_FETCHES];
} prefetching;

/* Does the index depend only on `use`'s own loops and those around it? */
static bool in_scope(const prefetching *f, sym index) {
    for (stmt_id s = f->k->root; (s = ir_next(f->k, s, f->k->root));) {
        const ir_stmt *l = ir_s(f->k, s);
        if (l->kind == STMT_LOOP && !ir_inside(f->k, f->use, s) &&
            sym_uses(f->k->syms, index, l->l.var))
            return false;
    }
    return true;
}

static void add_prefetch(prefetching *f, const ir_access *t, sym index) {
    kernel *k = f->k;
    sym var[2] = {ir_s(k, f->copy)->l.var, ir_s(k, f->around)->l.var};
    sym by[2] = {ir_trip(k, f->use), f->trip};
    index = sym_subst(k->syms, index, 2, var, by);
    if (!in_scope(f, index) || f->n == f->most) return;
    for (int i = 0; i < f->n; i++)
        if (f->mem[i] == t->mem && f->index[i] == index) return;
    f->mem[f->n] = t->mem;
    f->index[f->n++] = index;
}

/* The iterations of the loops from `inner` out to the copy's: all of unrolled ones, else the
 * first. */
static void each_trip(prefetching *f, const ir_access *t, sym index, stmt_id inner) {
    kernel *k = f->k;
    int64_t n = 1;
    if (inner == f->copy) {
        add_prefetch(f, t, index);
        return;
    }
    const ir_stmt *l = ir_s(k, inner);
    stmt_id outer = l->parent;
    sym var = l->l.var;
    if (l->loop == LOOP_UNROLL && sym_uses(k->syms, index, var))
        sym_is_const(k->syms, l->l.extent, &n);
    for (int64_t i = 0; i < n && f->n < f->most; i++) {
        sym at = sym_const(k->syms, i);
        each_trip(f, t, sym_subst(k->syms, index, 1, &var, &at), outer);
    }
}

static void each_load(prefetching *f, const ir_access *t, uint32_t n) {
    kernel *k = f->k;
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && ir_m(k, t[i].mem)->scope == MEM_ARG && !t[i].dyn && !t[i].guard)
            each_trip(f, &t[i], t[i].index, ir_s(k, t[i].at)->parent);
}

bool transform_prefetch_next(kernel *k, stmt_id copy, stmt_id use, str *why) {
    prefetching f = {
        .k = k, .copy = copy, .use = use, .around = ir_s(k, copy)->parent, .most = MOST_LOADED};
    while (!ir_inside(k, use, f.around)) f.around = ir_s(k, f.around)->parent;
    bool nested = use != copy && (ir_inside(k, use, copy) || ir_inside(k, copy, use));
    if (f.around == k->root || nested)
        return ir_refuse(why, "the loops are in no loop that copies again");
    for (stmt_id l = use; l; l = ir_s(k, l)->parent)
        if (ir_s(k, l)->loop == LOOP_VEC || ir_s(k, l)->loop == LOOP_WORD)
            return ir_refuse(why, "lanes have nothing to fetch");
    ir_access *t;
    uint32_t n = ir_accesses(k, copy, &t);
    f.trip = ir_trip(k, f.around);
    if (use == copy) each_load(&f, t, n);
    f.loaded = f.n;
    f.most = f.n + MOST_FETCHES;
    f.trip = sym_add(k->syms, f.trip, SYM_ONE);
    each_load(&f, t, n);
    stmt_id made[MOST_LOADED + MOST_FETCHES];
    for (int i = f.loaded; i < f.n; i++) made[i] = ir_prefetch(k, use, f.mem[i], f.index[i]);
    if (ir_nests_fit(k, why))
        return f.n > f.loaded || ir_refuse(why, "nothing that is copied is known in time");
    for (int i = f.loaded; i < f.n; i++) ir_unlink(k, made[i]);
    return false;
}

bool apply_prefetch_next(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_prefetch_next(k, a->loop[0], a->loop[1], why);
}
