/* search.c - the neighbourhood of a schedule: the candidates that tuning compiles and measures
 * (tune/tune.c). Nothing is run here.
 *
 * A state is a schedule: steps on the unscheduled kernel (script.c). Two things give new ones:
 *
 *   seeds   All that is proposed for the kernel (proposals.c), the default first, and, for other
 *           blockings, the defaults for other machines: with fewer registers, narrower vectors,
 *           caches and thread counts that are halves and doubles of the real ones. Each is a
 *           schedule with consistent decisions.
 *   moves   One change of the steps, by the table of transforms: another number (a padding in front
 *           of a split changes, too), any step left out, a step of any row put in where the loops
 *           are final and only how they run is still to come (`transform_neighbours` says which).
 *           And what only pays together: a split to vectorize, unroll or share, a staging whose
 *           copy is vectorized. No row that others gain or lose by: a kernel measured alone does
 *           not show it.
 *
 * A change can make later steps illegal: those on loops that a step which is gone had made, and
 * others. So a candidate is repaired: what cannot be applied is left out, and the rest is the
 * schedule, unless it groups a float sum in another way than the kernel says (ir/grouping.c). Two
 * candidates with the same tree are the same. The order of moves is fixed, so that a search can be
 * resumed on another day. */
#include "schedule/search/script.h"

enum {
    MOST_LOOPS = 64,
    MOST_WAYS = 1 << 14, /* of applying a row that are counted, */
    MOST_TRIED = 64,     /* are tried, */
    MOST_GIVEN = 4,      /* are legal and become candidates */
    MOST_PUT = 4         /* steps put in together */
};

/* ---- repair ---------------------------------------------------------------------------------- */

bool search_repair(kernel *k, const char *lines, str *legal) {
    ir_verdict before = ir_verify(k, NULL);
    script_run r;
    script s = {.n = 0};
    script_open(&r, k);
    script_read(&r, lines, &s, NULL, NULL);
    script_print(&s, k, legal);
    ir_verdict verdict = ir_verify(k, NULL);
    if (!ir_sums_made(k, NULL)) return false;
    return verdict == VERDICT_SOUND || (verdict != VERDICT_BROKEN && verdict == before);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

typedef struct seeds {
    search_taker take;
    void *user;
    bool enough;
} seeds;

static bool take_proposal(void *user, const char *lines) {
    seeds *x = user;
    if (!x->enough) x->enough = !x->take(x->user, lines);
    return !x->enough;
}

/* The default schedule for a machine. */
static void give_default(const kernel *k, const machine *limits, str *lines, seeds *x) {
    lines->len = 0;
    str_add(lines, "");
    schedule_default(k, limits, lines);
    take_proposal(x, lines->s);
}

void search_seeds(const kernel *k, const machine *limits, search_taker take, void *user) {
    static const struct {
        int registers, vector, l1, l2, threads; /* of 4 */
    } other[] = {{3, 4, 4, 4, 4},  {2, 4, 4, 4, 4}, {4, 2, 4, 4, 4},  {2, 2, 4, 4, 4},
                 {4, 4, 2, 4, 4},  {4, 4, 8, 4, 4}, {4, 4, 16, 4, 4}, {4, 4, 4, 2, 4},
                 {4, 4, 4, 1, 4},  {4, 4, 4, 8, 4}, {4, 4, 4, 16, 4}, {4, 4, 4, 4, 8},
                 {4, 4, 4, 4, 16}, {4, 4, 4, 4, 2}, {4, 4, 1, 1, 4},  {3, 4, 8, 8, 4}};
    seeds x = {.take = take, .user = user};
    str lines;
    str_open(&lines, &k->ctx->heap);
    cleanup c;
    cleanup_push(&k->ctx->heap, &c, str_cleanup, &lines);
    give_default(k, limits, &lines, &x);
    if (!x.enough) schedule_proposals(k, limits, take_proposal, &x);
    for (size_t i = 0; i < COUNT_OF(other) && !x.enough; i++) {
        machine l = *limits;
        l.registers = l.registers * other[i].registers / 4;
        l.vector_bytes = l.vector_bytes * other[i].vector / 4;
        l.l1 = l.l1 * other[i].l1 / 4;
        l.l2 = l.l2 * other[i].l2 / 4;
        l.threads = l.threads * other[i].threads / 4;
        if (l.threads < 1) l.threads = 1;
        give_default(k, &l, &lines, &x);
    }
    cleanup_run(&k->ctx->heap, &c);
}

/* ---- moves ----------------------------------------------------------------------------------- */

typedef struct mover {
    scheduler m;  /* the kernel with the steps in front of `tail` applied */
    script_run r; /* of it */
    script s, changed;
    uint32_t tail; /* the first of the last steps that leave the nest and its tiles as they are */
    script_step put[MOST_PUT]; /* in front of the tail */
    int puts;
    str out;
    search_taker take;
    void *user;
    bool enough;
} mover;

/* Pass on the script without its step `skip` (-1: with all), and with the steps that are put in:
 * those are then forgotten, also where nobody takes any more. */
static void give(mover *v, int64_t skip) {
    arena *a = &v->m.k->arena;
    const int puts = v->puts;
    v->puts = 0;
    if (v->enough) return;
    v->changed.n = 0;
    for (uint32_t i = 0; i <= v->s.n; i++) {
        for (int j = 0; i == v->tail && j < puts; j++) script_add(&v->changed, a, &v->put[j]);
        if (i < v->s.n && i != skip) script_add(&v->changed, a, &v->s.at[i]);
    }
    v->out.len = 0;
    script_print(&v->changed, v->m.k, &v->out);
    v->enough = !v->take(v->user, v->out.s);
}

/* To be put in with the next script that is passed on. */
static void put_in(mover *v, const script_step *step) {
    if (v->puts < MOST_PUT) v->put[v->puts++] = *step;
}

static bool has_number(const script_step *x) {
    return strchr(transform_rows[x->kind].pattern, 'n') != NULL;
}

static bool same_loop_ref(step_ref a, step_ref b) {
    return a.step == b.step && a.nth == b.nth;
}

/* The padding in front of split number i that was made for it; NULL: none. */
static script_step *padding_of(const script *s, uint32_t i) {
    for (uint32_t j = i; j-- > 0;)
        if (s->at[j].kind == TRANSFORM_pad && same_loop_ref(s->at[j].loop[0], s->at[i].loop[0]))
            return &s->at[j];
    return NULL;
}

static void with_number(mover *v, uint32_t i, int64_t next) {
    script_step *x = &v->s.at[i];
    script_step *pad = x->kind == TRANSFORM_split ? padding_of(&v->s, i) : NULL;
    int64_t now = x->args.number, padded = pad ? pad->args.number : 0;
    if (next < 1 || next == now) return;
    if (pad) pad->args.number = next * (padded / now < 1 ? 1 : padded / now);
    x->args.number = next;
    give(v, -1);
    x->args.number = now;
    if (pad) pad->args.number = padded;
}

/* Is the loop that a split makes inside bound to vectors by a later step? Then its extent is one of
 * vectors. */
static bool vector_split(const mover *v, uint32_t i) {
    const step_ref inner = {v->s.at[i].id, 1};
    if (v->s.at[i].kind != TRANSFORM_split) return false;
    for (uint32_t j = i + 1; j < v->s.n; j++)
        if (v->s.at[j].kind == TRANSFORM_vec && same_loop_ref(v->s.at[j].loop[0], inner))
            return true;
    return false;
}

/* Doubles, halves and neighbours; extents of whole vectors stay so. */
static void move_numbers(mover *v) {
    int lanes = v->m.lanes;
    for (uint32_t i = 0; i < v->s.n && !v->enough; i++) {
        int64_t n = has_number(&v->s.at[i]) ? v->s.at[i].args.number : 0;
        if (n < 1) continue;
        int64_t apart = n > lanes && n % lanes == 0 ? lanes : 1;
        const int64_t next[] = {n * 2,         n / 2, n + apart, n - apart, n + 2 * apart,
                                n - 2 * apart, n * 4, n / 4,     n * 3 / 2, n * 3 / 4};
        size_t most = vector_split(v, i) ? 2 : COUNT_OF(next);
        for (size_t j = 0; j < most; j++) {
            bool fits = apart == 1 || (next[j] > 0 && next[j] % lanes == 0);
            bool first = true;
            for (size_t l = 0; l < j; l++) first &= next[l] != next[j];
            if (fits && first) with_number(v, i, next[j]);
        }
    }
}

static void move_out(mover *v) {
    for (uint32_t i = 0; i < v->s.n && !v->enough; i++) give(v, i);
}

/* ---- a step of any row put in ---------------------------------------------------------------- */

typedef struct insertion {
    mover *v;
    transform_kind kind;
    int seen, each, tried, given; /* each: of so many ways one is tried */
} insertion;

static bool count_way(void *user, const transform_args *a) {
    insertion *x = user;
    (void)a;
    return ++x->seen < MOST_WAYS;
}

static bool try_way(void *user, const transform_args *a) {
    insertion *x = user;
    mover *v = x->v;
    kernel *k = v->m.k;
    if (x->tried++ % x->each) return true;
    script_step step = script_step_of(&v->r, &v->s, x->kind, a);
    ir_saved was = ir_save(k);
    bool legal = transform_run(k, x->kind, a, NULL, NULL);
    ir_restore(k, &was);
    if (!legal) return true;
    put_in(v, &step);
    give(v, -1);
    return !v->enough && ++x->given < MOST_GIVEN;
}

/* A few legal ways for each row, spread over the kernel. */
static void move_in(mover *v) {
    for (int i = 0; i < TRANSFORMS && !v->enough; i++) {
        insertion x = {.v = v, .kind = (transform_kind)i};
        if (transform_rows[i].effect == EFFECT_FAR) continue;
        transform_neighbours(v->m.k, x.kind, count_way, &x);
        x.each = x.seen / MOST_TRIED + 1;
        x.tried = (int)v->s.n; /* other parents, other ways */
        transform_neighbours(v->m.k, x.kind, try_way, &x);
    }
}

/* ---- what pays together ---------------------------------------------------------------------- */

static stmt_id *loops_of(mover *v, int *n) {
    kernel *k = v->m.k;
    stmt_id *loop = arena_alloc(&k->arena, MOST_LOOPS * sizeof *loop);
    *n = 0;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root)) && *n < MOST_LOOPS;)
        if (ir_s(k, s)->kind == STMT_LOOP) loop[(*n)++] = s;
    return loop;
}

/* Is the loop one that the tail binds? */
static bool bound_later(const mover *v, stmt_id loop) {
    step_ref ref = script_ref(&v->r, loop);
    for (uint32_t i = v->tail; i < v->s.n; i++)
        if (v->s.at[i].args.loops && same_loop_ref(v->s.at[i].loop[0], ref)) return true;
    return false;
}

static bool innermost(const scheduler *m, stmt_id loop) {
    for (stmt_id s = loop; (s = ir_next(m->k, s, loop));)
        if (schedule_at(m, s)->kind == STMT_LOOP) return false;
    return true;
}

/* Are all inner loops bound? Then the loop runs serially around straight-line code. */
static bool around_straight(const mover *v, stmt_id loop) {
    for (stmt_id s = loop; (s = ir_next(v->m.k, s, loop));)
        if (schedule_at(&v->m, s)->kind == STMT_LOOP && !bound_later(v, s)) return false;
    return true;
}

/* A step on one loop, to be put in; what it is called is made up. */
static step_ref put(mover *v, transform_kind kind, step_ref loop, int64_t number) {
    script_step step = {.id = ++v->s.ids, .kind = (uint8_t)kind, .loop = {loop}};
    step.args = (transform_args){.loops = 1, .number = number, .dtype = -1, .scope = MEM_LOCAL};
    put_in(v, &step);
    return (step_ref){step.id, 1}; /* the loop inside that a split makes */
}

/* Split the loop, and bind the loop of the outer iterations or of the inner ones. */
static void put_split(mover *v, step_ref loop, int64_t factor, transform_kind bind) {
    step_ref inner = put(v, TRANSFORM_split, loop, factor);
    put(v, bind, (step_ref){inner.step, bind != TRANSFORM_par}, 0);
}

static void give_split(mover *v, step_ref loop, int64_t factor, transform_kind bind) {
    put_split(v, loop, factor, bind);
    give(v, -1);
}

static void give_one(mover *v, transform_kind kind, step_ref loop) {
    put(v, kind, loop, 0);
    give(v, -1);
}

static void move_loop(mover *v, stmt_id loop) {
    const scheduler *m = &v->m;
    const ir_stmt *x = schedule_at(m, loop);
    const step_ref ref = script_ref(&v->r, loop);
    int64_t trips = schedule_trips(m, loop);
    if (around_straight(v, loop)) {
        if (trips <= 16) give_one(v, TRANSFORM_unroll, ref);
        for (int f = 2; f <= 8 && f < trips; f *= 2) give_split(v, ref, f, TRANSFORM_unroll);
    }
    if (innermost(m, loop) && trips > 1) give_split(v, ref, m->lanes, TRANSFORM_vec);
    if (x->parent == m->k->root && trips > 1) {
        give_one(v, TRANSFORM_par, ref);
        for (int c = 2; c <= 16 && c < trips; c *= 2) give_split(v, ref, c, TRANSFORM_par);
    }
    stmt_id child = x->first;
    if (child && child == x->last && schedule_at(m, child)->kind == STMT_LOOP) {
        transform_args a = {.loop = {loop, child}, .loops = 2, .dtype = -1, .scope = MEM_LOCAL};
        script_step step = script_step_of(&v->r, &v->s, TRANSFORM_swap, &a);
        put_in(v, &step);
        give(v, -1);
    }
}

static void move_loops(mover *v) {
    int n;
    stmt_id *loop = loops_of(v, &n);
    for (int i = 0; i < n && !v->enough; i++)
        if (schedule_at(&v->m, loop[i])->loop == LOOP_SERIAL && !bound_later(v, loop[i]))
            move_loop(v, loop[i]);
}

/* Vectorize the innermost loop of the copy that a staging makes, over the tile's last axis. */
static void put_copy_kind(mover *v, const script_run *staged, const transform_made *copy) {
    const kernel *k = staged->k;
    stmt_id loop = ir_loop_of(k, copy->loop[copy->loops - 1]);
    if (!loop) return;
    if (ir_most_trips(k, loop) == v->m.lanes)
        put(v, TRANSFORM_vec, script_ref(staged, loop), 0);
    else
        put_split(v, script_ref(staged, loop), v->m.lanes, TRANSFORM_vec);
}

/* Stage an argument at loop[at], by the loops inside that it depends on. */
static void stage_at(mover *v, const ir_access *t, const stmt_id *loop, int at, int n) {
    scheduler *m = &v->m;
    transform_args a = {.loops = 1, .mem = t->mem, .dtype = -1, .scope = MEM_LOCAL};
    double bytes = (double)qn_dtype_size(ir_m(m->k, t->mem)->dtype);
    int idle = 0;
    a.loop[0] = loop[at];
    for (int i = at + 1; i < n && a.loops < (int)COUNT_OF(a.loop); i++) {
        bool moves = sym_uses(m->k->syms, t->index, schedule_at(m, loop[i])->l.var);
        int64_t trips = schedule_trips(m, loop[i]);
        idle += !moves && trips > 1;
        if (!moves || trips < 2) continue;
        bytes *= (double)trips;
        a.loop[a.loops++] = loop[i];
    }
    if (a.loops < 2 || !idle || bytes > 4 * (double)m->limits->l2) return;
    script_step step = script_step_of(&v->r, &v->s, TRANSFORM_stage, &a);
    ir_saved was = ir_save(m->k);
    script_run staged = script_run_copy(&v->r); /* what it learns is forgotten with the step */
    transform_made copy;
    bool legal = script_step_run(&staged, &step, &copy, NULL);
    put_in(v, &step);
    if (legal) put_copy_kind(v, &staged, &copy);
    ir_restore(m->k, &was);
    if (legal) give(v, -1);
    v->puts = 0;
}

static void move_staging(mover *v) {
    kernel *k = v->m.k;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        stmt_id loop[MOST_LOOPS];
        int depth = 0, first = 0;
        bool again = false;
        if (!t[i].load || !schedule_is_arg(&v->m, &t[i]) || t[i].dyn || t[i].guard) continue;
        for (uint32_t j = 0; j < i; j++) again |= t[j].load && t[j].mem == t[i].mem;
        if (again) continue;
        for (stmt_id s = ir_s(k, t[i].at)->parent; s != k->root && depth < MOST_LOOPS;
             s = ir_s(k, s)->parent)
            loop[depth++] = s;
        for (int j = 0; j < depth / 2; j++) {
            stmt_id s = loop[j];
            loop[j] = loop[depth - 1 - j];
            loop[depth - 1 - j] = s;
        }
        for (int at = first; at + 1 < depth && !v->enough; at++)
            if (!bound_later(v, loop[at])) stage_at(v, &t[i], loop, at, depth);
    }
}

void search_moves(kernel *k, const char *lines, const machine *limits, search_taker take,
                  void *user) {
    mover *v = arena_zeroed(&k->arena, sizeof *v);
    v->m = (scheduler){.k = k, .limits = limits};
    v->m.lanes = schedule_lanes(&v->m);
    v->take = take;
    v->user = user;
    str_open_in(&v->out, &k->arena);
    ir_saved lowered = ir_save(k);
    script_open(&v->r, k);
    script_read(&v->r, lines, &v->s, NULL, NULL);
    ir_restore(k, &lowered);
    v->tail = v->s.n;
    while (v->tail > 0 && transform_rows[v->s.at[v->tail - 1].kind].effect >= EFFECT_RUN) v->tail--;
    script_open(&v->r, k);
    for (uint32_t i = 0; i < v->tail; i++) script_step_run(&v->r, &v->s.at[i], NULL, NULL);
    move_numbers(v);
    move_out(v);
    move_loops(v);
    move_staging(v);
    move_in(v);
}
