/* plans.c - plans kept for the next request of the same structure.
 *
 * A training loop that rebuilds its graph each step finds its plan here. A loop whose graph differs
 * each time, by a constant or a size, finds none and would keep one for each step; so plans may
 * take so much memory together (knob plan_memory), and the one that was used longest ago goes
 * first. It takes its references to programs with it, which may then go in their turn (program.c).
 * Programs have a bound of their own; where none of them is idle, plans go until one is.
 *
 * Static graphs own their plans, and they are not among these. Finding a plan and letting one go
 * take the same time however many there are. */
#include "run/run.h"

typedef struct plan_cache {
    run_plan **at; /* by id; 0 is none */
    uint32_t count, cap;
    uint32_t *free; /* ids that were given back */
    uint32_t frees, free_cap;
    idset set;
    lru used;
} plan_cache;

typedef struct wanted {
    const plan_key *key;
    int mode;
} wanted;

static bool same_plan(const void *what, uint32_t id, const void *user) {
    const wanted *w = what;
    const run_plan *p = ((const plan_cache *)user)->at[id];
    const plan_key *k = w->key, *o = &p->key;
    return p->mode == w->mode && o->words == k->words &&
           !memcmp(o->word, k->word, (size_t)k->words * sizeof *k->word);
}

/* The knobs that plans depend on; they may be set at any time. */
static int mode_of(const qn_ctx *qn) {
    return (qn->knob[KNOB_FUSE].number != 0) + 2 * (qn->knob[KNOB_SCHEDULE].number != 0);
}

static plan_cache *cache_of(qn_ctx *qn) {
    if (qn->run->plans) return qn->run->plans;
    plan_cache *c = heap_zeroed(&qn->heap, sizeof *c);
    idset_open(&c->set, &qn->heap);
    lru_open(&c->used, &qn->heap);
    c->count = 1;
    return qn->run->plans = c;
}

/* ---- letting go ------------------------------------------------------------------------------ */

static void drop(qn_ctx *qn, plan_cache *c, uint32_t id) {
    run_plan *p = c->at[id];
    qn->run->stats.plans_kept--;
    qn->run->stats.plan_bytes -= p->bytes;
    idset_remove(&c->set, p->key.hash, id);
    lru_remove(&c->used, id);
    c->at[id] = NULL;
    c->free[c->frees++] = id;
    plan_close(qn, p);
}

/* The plan used longest ago; false: there is none but `in_use`, which was used last. */
static bool evict(qn_ctx *qn, const run_plan *in_use) {
    plan_cache *c = qn->run->plans;
    uint32_t id = c ? lru_oldest(&c->used) : 0;
    if (!id || c->at[id] == in_use) return false;
    drop(qn, c, id);
    qn->run->stats.plans_evicted++;
    return true;
}

/* MiB in bytes; what is beyond all memory is no bound. */
static uint64_t bound_of(const qn_ctx *qn, knob k) {
    uint64_t n = (uint64_t)qn->knob[k].number;
    return n < UINT64_MAX >> 20 ? n << 20 : UINT64_MAX;
}

void plans_trim(qn_ctx *qn, const run_plan *in_use) {
    const qn_stats *s = &qn->run->stats;
    uint64_t plans = bound_of(qn, KNOB_PLAN_MEMORY), programs = bound_of(qn, KNOB_PROGRAM_MEMORY);
    while (s->plan_bytes > plans && evict(qn, in_use)) {
    }
    while (s->program_bytes - qn->run->pinned_bytes > programs &&
           (programs_evict(qn) || evict(qn, in_use))) {
    }
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Room for one more, and for noting its end, so that dropping needs no memory. */
static uint32_t make_room(qn_ctx *qn, plan_cache *c) {
    heap *h = &qn->heap;
    uint32_t id = c->frees ? c->free[c->frees - 1] : c->count;
    c->at = heap_grow(h, c->at, &c->cap, id + 1, sizeof *c->at);
    c->free = heap_grow(h, c->free, &c->free_cap, c->cap, sizeof *c->free);
    lru_reserve(&c->used, id);
    return id;
}

static void keep(qn_ctx *qn, plan_cache *c, uint32_t id, run_plan *p) {
    idset_add(&c->set, p->key.hash, id);
    if (c->frees)
        c->frees--;
    else
        c->count++;
    c->at[id] = p;
    lru_use(&c->used, id);
    p->bytes = plan_bytes(p);
    p->mode = mode_of(qn);
    qn->run->stats.plans_kept++;
    qn->run->stats.plan_bytes += p->bytes;
}

static run_plan *build(qn_ctx *qn, plan_cache *c, const plan_request *r, const plan_key *key) {
    uint32_t id = make_room(qn, c);
    run_plan *p = plan_build(qn, r, key);
    plan_made made = {qn, p};
    cleanup undo;
    cleanup_push(&qn->heap, &undo, plan_made_cleanup, &made);
    keep(qn, c, id, p);
    cleanup_drop(&qn->heap, &undo);
    qn->run->stats.plans++;
    return p;
}

run_plan *plans_get(qn_ctx *qn, const plan_request *r, const plan_key *key) {
    qn_stats *s = &qn->run->stats;
    plan_cache *c = cache_of(qn);
    double start = clock_seconds(), compile = s->compile_seconds;
    uint32_t id = idset_find(&c->set, key->hash, same_plan, &(wanted){key, mode_of(qn)}, c);
    run_plan *p;
    if (id) {
        p = c->at[id];
        lru_use(&c->used, id);
        s->plan_hits++;
    } else {
        p = build(qn, c, r, key);
        plans_trim(qn, p);
    }
    s->plan_seconds += clock_seconds() - start - (s->compile_seconds - compile);
    return p;
}

void plans_keep(qn_ctx *qn) {
    const plan_cache *c = qn->run->plans;
    for (uint32_t id = 1; c && id < c->count; id++)
        if (c->at[id]) plan_keep(qn, c->at[id]);
}

void plans_close(qn_ctx *qn) {
    plan_cache *c = qn->run->plans;
    if (!c) return;
    for (uint32_t id = 1; id < c->count; id++)
        if (c->at[id]) drop(qn, c, id);
    idset_free(&c->set);
    lru_free(&c->used);
    heap_free(&qn->heap, c->at, (size_t)c->cap * sizeof(run_plan *));
    heap_free(&qn->heap, c->free, (size_t)c->free_cap * sizeof *c->free);
    heap_free(&qn->heap, c, sizeof *c);
    qn->run->plans = NULL;
}
