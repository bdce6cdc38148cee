/* level.c - the order of launches: independent launches run concurrently.
 *
 * Levels. The threads share a launch's work, and between launches there is a barrier. Where a
 * launch takes a few microseconds the barrier costs as much as the work, and where it has work for
 * one thread the others idle. So a plan runs in levels: the launches of one level are given to the
 * device together, and barriers stand between levels only. A small launch goes into the first level
 * of small ones behind those that it depends on; so branches of a graph that were planned one after
 * the other run concurrently, as many of them as fit in half of the second-level cache: what one
 * level writes the next one reads. A large launch is a level of its own: it keeps all threads busy
 * anyway, and moving it would lengthen live ranges. On one thread every launch is a level.
 *
 * Batches. Launches of one program that are independent become one launch with several sets: an
 * optimizer's update of forty parameters is one kernel run forty times, not forty. A launch moves
 * only later, to its batch's last member, and only if nothing before that reads what it writes; a
 * large one, not beyond other launches: what it reads would have to be kept until then, such as
 * activations and gradients of all layers for the gradients of their weights.
 *
 * Temporaries live from level to level, so concurrent launches never share memory. */
#include "run/run.h"

typedef struct leveler {
    qn_ctx *qn;
    run_plan *p;
    arena *scratch;
    uint32_t *ready; /* by slot: the first level after all that write it */
    uint32_t *read;  /* by slot: the first level that reads it */
    uint32_t *level; /* by launch, as they came */
    bool *small;     /* by launch: it has little work */
    double *room;    /* by level: bytes of more launches that may come in */
    uint32_t levels;
} leveler;

/* Is a launch small for all sizes of its dimension variables? */
static bool is_small(const leveler *v, const launch *l) {
    const run_state *r = v->qn->run;
    const graph *g = v->qn->graph;
    if (!launch_is_kernel(l)) return false;
    if (!r->dev->work) return true;
    int64_t *var = arena_alloc(v->scratch, ((size_t)l->program->vars + 1) * sizeof *var);
    for (int i = 0; i < l->program->vars; i++) {
        int of = l->set->var[i];
        var[i] = LOWER_IS_SLOT(of)    ? 0
                 : of == LOWER_LENGTH ? sym_hi(g->syms, l->set->length)
                                      : sym_hi(g->syms, g->var[of]);
    }
    int64_t large = machine_work(&r->limits, r->limits.level_forks * r->limits.fork_join_ns);
    return r->dev->work(r->dev_state, l->program, var) < large;
}

/* The bytes it accesses, at most. */
static double bytes_of(const leveler *v, const launch *l) {
    double sum = 0;
    for (int a = 0; a < l->program->args; a++) {
        const slot *x = &v->p->slot[l->set->slot[a]];
        bool piece = a == 0 && l->set->piece;
        sum += (double)sym_hi(v->qn->graph->syms, piece ? l->set->length : x->count) * x->width;
    }
    return sum;
}

/* The first level that reads what the launch writes. */
static uint32_t first_use(const leveler *v, const launch *l) {
    uint32_t first = UINT32_MAX;
    for (int a = 0; a < l->program->args; a++)
        if (l->set->writes[a] && v->read[l->set->slot[a]] < first) first = v->read[l->set->slot[a]];
    return first;
}

static void choose_level(leveler *v, uint32_t i, bool together) {
    const launch *l = &v->p->launch[i];
    double bytes = bytes_of(v, l), space = (double)machine_shared(&v->qn->run->limits);
    v->small[i] = is_small(v, l);
    bool small = together && bytes <= space && v->small[i];
    uint32_t level = small ? 0 : v->levels;
    for (int a = 0; a < l->program->args; a++)
        if (!l->set->writes[a] && v->ready[l->set->slot[a]] > level)
            level = v->ready[l->set->slot[a]];
    while (level < v->levels && v->room[level] < bytes) level++;
    if (level == v->levels) v->room[v->levels++] = small ? space : -1;
    v->room[level] -= bytes;
    v->level[i] = level;
    for (int a = 0; a < l->program->args; a++) {
        uint32_t at = l->set->slot[a];
        if (l->set->writes[a] && v->ready[at] <= level) v->ready[at] = level + 1;
        if (!l->set->writes[a] && v->read[at] > level) v->read[at] = level;
    }
}

/* Sort by levels; within one the order stays. */
static uint32_t *sorted(const leveler *v) {
    uint32_t n = v->p->launches, *at = arena_zeroed(v->scratch, (v->levels + 1) * sizeof *at);
    uint32_t *order = arena_alloc(v->scratch, (n + 1) * sizeof *order);
    for (uint32_t i = 0; i < n; i++) at[v->level[i] + 1]++;
    for (uint32_t w = 0; w < v->levels; w++) at[w + 1] += at[w];
    for (uint32_t i = 0; i < n; i++) order[at[v->level[i]]++] = i;
    return order;
}

/* Merge the launches `member` into the last of them, as sets. */
static void gather(leveler *v, uint32_t n, const uint32_t *member) {
    launch *all = v->p->launch, *at = &all[member[n - 1]];
    launch_set *set = arena_alloc(&v->p->arena, n * sizeof *set);
    for (uint32_t i = 0; i < n; i++) {
        set[i] = all[member[i]].set[0];
        all[member[i]].sets = 0;
    }
    at->set = set;
    at->sets = n;
}

static void make_batches(leveler *v, const uint32_t *order) {
    const launch *all = v->p->launch;
    uint32_t n = v->p->launches, *member = arena_alloc(v->scratch, (n + 1) * sizeof *member);
    bool *taken = arena_zeroed(v->scratch, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t members = 0, limit = first_use(v, &all[order[i]]);
        for (uint32_t j = i; j < n && !taken[order[i]]; j++) {
            uint32_t x = order[j];
            if (v->level[x] >= limit) break;
            if (taken[x] || all[x].program != all[order[i]].program) {
                if (!v->small[order[i]]) break;
                continue;
            }
            member[members++] = x;
            uint32_t use = first_use(v, &all[x]);
            if (use < limit) limit = use;
        }
        for (uint32_t k = 0; k < members; k++) taken[member[k]] = true;
        if (members > 1) gather(v, members, member);
    }
}

/* Put the launches in their order, without those that were merged, and mark where levels end. */
static void finish_order(leveler *v, const uint32_t *order) {
    run_plan *p = v->p;
    uint32_t n = p->launches;
    launch *was = arena_alloc(v->scratch, (n + 1) * sizeof *was);
    memcpy(was, p->launch, n * sizeof *was);
    p->level = arena_alloc(&p->arena, (v->levels + 1) * sizeof *p->level);
    p->launches = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (was[order[i]].sets) p->launch[p->launches++] = was[order[i]];
        bool last = i + 1 == n || v->level[order[i + 1]] != v->level[order[i]];
        bool any = p->launches > (p->levels ? p->level[p->levels - 1] : 0);
        if (last && any) p->level[p->levels++] = p->launches;
    }
}

static void find_lives(run_plan *p) {
    for (uint32_t w = 0, i = 0; w < p->levels; w++)
        for (; i < p->level[w]; i++)
            for (uint32_t s = 0; s < p->launch[i].sets; s++)
                for (int a = 0; a < p->launch[i].program->args; a++) {
                    slot *x = &p->slot[p->launch[i].set[s].slot[a]];
                    if (w < x->first) x->first = w;
                    if (w > x->last) x->last = w;
                }
}

void levels_build(qn_ctx *qn, run_plan *p, arena *scratch) {
    leveler v = {.qn = qn, .p = p, .scratch = scratch};
    v.ready = arena_zeroed(scratch, (p->slots + 1) * sizeof *v.ready);
    v.read = arena_alloc(scratch, (p->slots + 1) * sizeof *v.read);
    v.level = arena_zeroed(scratch, (p->launches + 1) * sizeof *v.level);
    v.small = arena_zeroed(scratch, (p->launches + 1) * sizeof *v.small);
    memset(v.read, 0xff, (p->slots + 1) * sizeof *v.read);
    v.room = arena_zeroed(scratch, (p->launches + 1) * sizeof *v.room);
    bool together = qn->run->dev->launch_many && qn->run->limits.threads > 1;
    for (uint32_t i = 0; i < p->launches; i++) choose_level(&v, i, together);
    const uint32_t *order = sorted(&v);
    make_batches(&v, order);
    finish_order(&v, order);
    find_lives(p);
}
