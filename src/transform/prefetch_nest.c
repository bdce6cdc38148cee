/* prefetch_nest.c - prefetch what a later nest accesses, in equal shares.
 *
 * prefetch_nest a i j
 *              for i { .. }  for j { .. a[x(j)] .. }
 *     becomes  for i { prefetch a[x(i)] .. }  for j { .. a[x(j)] .. }
 *
 * The epilogue of a register tile reads and writes streams that come from memory, for example an
 * optimizer's state behind a weight's gradient. The reduction itself runs from the caches for
 * thousands of cycles in which memory is idle. So each block of the reduction prefetches a share of
 * the lines that the epilogue will access. All at once would not work: a processor has a dozen or
 * two of outstanding misses, and stalls on more.
 *
 * j's iterations are distributed among i's in order; a loop inside j that walks along memory is
 * stepped a line at a time. Where j's iterations are no multiple of i's, the last shares point past
 * the end.
 *
 * Legal where the extents of i and j are constant, i is in no vector, and the index of a depends
 * only on j, loops inside j, and loops around i. */
#include "transform/transform.h"

enum { LINE = 64, MOST_FETCHES = 256 /* of an iteration of i */ };

typedef struct sharing {
    kernel *k;
    mem_id mem;
    stmt_id at, nest;
    int64_t each; /* iterations of the nest whose accesses one iteration of `at` prefetches */
} sharing;

static bool known_trips(const kernel *k, stmt_id loop, int64_t *n) {
    const ir_stmt *l = ir_s(k, loop);
    return l->kind == STMT_LOOP && sym_is_const(k->syms, l->l.extent, n) && *n > 0;
}

static bool place_allowed(const sharing *f, str *why) {
    const kernel *k = f->k;
    stmt_id outside = ir_s(k, f->nest)->parent;
    if (ir_m(k, f->mem)->scope != MEM_ARG)
        return ir_refuse(why, "only for an argument can be asked");
    if (ir_inside(k, f->at, f->nest) || ir_inside(k, f->nest, f->at))
        return ir_refuse(why, "one of the loops is in the other");
    if (!ir_inside(k, f->at, outside))
        return ir_refuse(why, "a loop around the second is not around the first");
    for (stmt_id l = f->at; l != outside; l = ir_s(k, l)->parent)
        if (ir_s(k, l)->loop == LOOP_VEC || ir_s(k, l)->loop == LOOP_THREAD)
            return ir_refuse(why, "lanes and members prefetch nothing on their own");
    return true;
}

/* Copies of the loops around the load, from the nest inward, with the prefetch in the innermost. */
static void prefetch_load(sharing *f, const ir_access *t) {
    kernel *k = f->k;
    stmt_id path[32], parent = f->at, top = 0;
    int depth = 0, n = 0;
    sym var[32], value[32];
    for (stmt_id l = ir_s(k, t->at)->parent;; l = ir_s(k, l)->parent) {
        path[depth++] = l;
        if (l == f->nest) break;
    }
    while (depth-- > 0) {
        ir_stmt l = *ir_s(k, path[depth]);
        int64_t trips, step = 0, scale = 1, size = (int64_t)qn_dtype_size(ir_m(k, f->mem)->dtype);
        sym rest, offset = SYM_ZERO;
        known_trips(k, path[depth], &trips);
        if (!sym_uses(k->syms, t->index, l.l.var)) continue;
        if (path[depth] == f->nest) {
            trips = f->each;
            offset = sym_mul(k->syms, ir_trip(k, f->at), sym_const(k->syms, f->each));
        } else if (sym_split(k->syms, t->index, l.l.var, &step, &rest) && step == 1) {
            scale = LINE / size;
            trips = (trips + scale - 1) / scale;
        }
        sym trip = SYM_ZERO;
        if (trips > 1) {
            stmt_id loop = ir_loop(k, parent, LOOP_UNROLL, "u", sym_const(k->syms, trips));
            if (!top) top = loop;
            parent = loop;
            trip = ir_trip(k, loop);
        }
        var[n] = l.l.var;
        value[n++] = sym_add(k->syms, offset, sym_mul(k->syms, trip, sym_const(k->syms, scale)));
    }
    stmt_id s = ir_prefetch(k, parent, f->mem, sym_subst(k->syms, t->index, n, var, value));
    if (!top) top = s;
    stmt_id first = ir_s(k, f->at)->first;
    ir_move(k, top, f->at, first);
}

/* The number of prefetches in one iteration of `at`; INT64_MAX: unknown. */
static int64_t prefetches_of(const sharing *f, const ir_access *t) {
    int64_t n = f->each, trips;
    int depth = 0;
    for (stmt_id l = ir_s(f->k, t->at)->parent; l != f->nest; l = ir_s(f->k, l)->parent) {
        if (!known_trips(f->k, l, &trips) || ++depth > 24 || n > MOST_FETCHES) return INT64_MAX;
        int64_t step;
        sym rest;
        sym var = ir_s(f->k, l)->l.var;
        if (!sym_uses(f->k->syms, t->index, var)) continue;
        bool along = sym_split(f->k->syms, t->index, var, &step, &rest) && step == 1;
        int64_t lines = LINE / (int64_t)qn_dtype_size(ir_m(f->k, f->mem)->dtype);
        n *= along ? (trips + lines - 1) / lines : trips;
    }
    return n;
}

bool transform_prefetch_nest(kernel *k, mem_id mem, stmt_id at, stmt_id nest, str *why) {
    sharing f = {.k = k, .mem = mem, .at = at, .nest = nest};
    int64_t have, want, total = 0;
    if (!place_allowed(&f, why)) return false;
    if (!known_trips(k, at, &have) || !known_trips(k, nest, &want))
        return ir_refuse(why, "the loops' trips are not known");
    f.each = (want + have - 1) / have;
    ir_access *t;
    uint32_t n = ir_accesses(k, nest, &t), loads = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != mem) continue;
        bool known = false;
        for (uint32_t j = 0; j < loads; j++) known |= t[j].index == t[i].index;
        if (known) continue;
        if (t[i].dyn) return ir_refuse(why, "the place is read from memory");
        int64_t more = prefetches_of(&f, &t[i]);
        if (more > MOST_FETCHES || (total += more) > MOST_FETCHES)
            return ir_refuse(why, "too much to prefetch");
        t[loads++] = t[i];
    }
    if (!loads) return ir_refuse(why, "the second loop does not access that");
    while (loads-- > 0) prefetch_load(&f, &t[loads]);
    return true;
}

bool apply_prefetch_nest(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_prefetch_nest(k, a->mem, a->loop[0], a->loop[1], why);
}
