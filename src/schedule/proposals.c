/* proposals.c - the schedules that are proposed for a kernel, and the one that the price chooses.
 *
 * A scheduler is straight-line code. Where it could as well go on in another way and cannot tell
 * which is faster it asks (`schedule_choose`), and goes on by the answer. A proposal is one run of
 * it on a clone of the kernel, under given answers: the first under the scheduler's own, then, from
 * the first question to the last, one for each other answer. Where that is cheaper by the cost
 * model (cost.c) it stands from there on. Questions before it were answered the same, so the same
 * question is met again; later ones may be others. So forms that pay only together are found as far
 * as each of them pays by itself, with as many runs as there are answers, not their product.
 *
 * A step that is refused and was to be legal (steps.c) drops its proposal. The log says why
 * (QN_DEBUG=s). Where all are dropped the kernel takes those steps of the first that were not
 * refused: each is right by itself, and a kernel as it was lowered can be a hundred times slower.
 *
 * Answers come from rates, sizes and the price, so no answer may change how a float sum is grouped:
 * choices.h. Questions that the price cannot answer are put only where a search begins. */
#include "schedule/schedule.h"

enum {
    MOST_PROPOSALS = 8,
    MOST_SEEDS = 16, /* of a search */
    SEARCH = 100     /* percent: never by the price */
};

static const struct {
    const char *name;
    int doubt; /* percent */
} choices[] = {
#define X(name, doubt, doc) {#name, doubt},
#include "schedule/choices.h"
#undef X
};

typedef enum nest_kind { NEST_LEAF, NEST_ALONE, NEST_ANY } nest_kind;
static const struct {
    const char *name;
    bool (*take)(scheduler *m, stmt_id loop);
    nest_kind when;
} schedulers[] = {
#define X(name, function, when, doc) {#name, function, NEST_##when},
#include "schedule/schedulers.h"
#undef X
};

int schedule_choose(scheduler *m, choice_kind kind, int ways, int own) {
    if (m->form.n == FORM_ANSWERS || (choices[kind].doubt >= SEARCH && !m->search)) return own;
    int i = m->form.n++;
    const choice_answer *given = i < m->given.n ? &m->given.answer[i] : NULL;
    m->form.answer[i] =
        (choice_answer){(uint8_t)kind, (uint8_t)ways, (uint8_t)(given ? given->way : own)};
    return m->form.answer[i].way;
}

/* ---- one proposal ---------------------------------------------------------------------------- */

/* The first scheduler that takes the nest. */
static void schedule_nest(scheduler *m, stmt_id loop, bool alone) {
    bool leaf = !schedule_has_inner(m, loop_chain_of(m, loop).body);
    for (size_t i = 0; i < COUNT_OF(schedulers); i++) {
        nest_kind when = schedulers[i].when;
        if ((when == NEST_LEAF) != leaf || (when == NEST_ALONE && !alone)) continue;
        if (!schedulers[i].take(m, loop)) continue;
        if (debug_on(m->k->ctx, 's') && !m->given.n)
            log_line(m->k->ctx, "s %s: scheduled as %s", m->k->name, schedulers[i].name);
        return;
    }
}

/* Does the nest nothing but store what it does not load, as zeros around a product? */
static bool only_fills(const scheduler *m, stmt_id loop) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, loop, &t), loads = 0;
    for (uint32_t i = 0; i < n; i++) loads += t[i].load != 0;
    return !loads && !schedule_has_inner(m, loop_chain_of(m, loop).body);
}

enum { MOST_ROOTS = 16 };

bool schedule_is_alone(const scheduler *m, stmt_id loop) {
    int n = 0;
    for (stmt_id s = schedule_at(m, m->k->root)->first; s && n < MOST_ROOTS;
         s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        if (n++ ? !only_fills(m, s) : s != loop) return false;
    }
    return true;
}

/* For a processor: vectors and threads. */
static void schedule_threads(scheduler *m) {
    stmt_id roots[MOST_ROOTS], shared = schedule_share_scatter(m);
    int n = 0;
    for (stmt_id s = schedule_at(m, shared ? shared : m->k->root)->first; s && n < MOST_ROOTS;
         s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP) roots[n++] = s;
    bool alone = n && !shared && schedule_is_alone(m, roots[0]);
    for (int i = 0; i < n && !m->done; i++) schedule_nest(m, roots[i], alone && !i);
    schedule_finish(m);
}

/* For a device with work groups. */
static void schedule_groups(scheduler *m) {
    step_mark start = steps_mark(m);
    schedule_workgroups(m, false);
    if (ir_shared_bytes(m->k) <= m->limits->group_bytes) return;
    steps_back(m, &start); /* buffered rows that are too long */
    m->copy = m->use = NO_LOOP;
    schedule_workgroups(m, true);
}

static schedule_builder builder_for(const machine *limits) {
    return limits->members < 2 ? schedule_threads : schedule_groups;
}

void schedule_once(kernel *k, const machine *limits) {
    scheduler *m = arena_zeroed(&k->arena, sizeof *m);
    *m = (scheduler){.k = k, .limits = limits};
    m->lanes = schedule_lanes(m);
    steps_open(m);
    builder_for(limits)(m);
}

static void log_proposal(const kernel *k, const proposal *p) {
    str text;
    if (!debug_on(k->ctx, 's') || !p->form.n) return;
    str_open_in(&text, &((kernel *)k)->arena);
    for (int i = 0; i < p->form.n; i++)
        str_addf(&text, " %s %d", choices[p->form.answer[i].kind].name, p->form.answer[i].way);
    if (p->refused)
        log_line(k->ctx, "s %s:%s: dropped, %u steps were refused", k->name, text.s, p->refused);
    else
        log_line(k->ctx, "s %s:%s: %.0f cycles", k->name, text.s, p->cycles);
}

typedef struct proposer {
    const kernel *k;
    const machine *limits;
    arena a;
    schedule_builder build;
    proposal_taker take;
    void *user;
    arena *keep; /* for the steps; NULL: they are not wanted */
    schedule_counts counts;
    scheduler m; /* of the proposal that is being made */
} proposer;

static void close_clone(void *m) {
    ir_close(((scheduler *)m)->k);
}

/* The schedule under these answers to the first questions, priced where there were any. */
static proposal propose(proposer *x, const schedule_form *given) {
    proposal p = {.lines = {0}};
    scheduler *m = &x->m;
    cleanup c;
    *m = (scheduler){.k = ir_clone(x->k), .limits = x->limits, .given = *given, .search = x->take};
    cleanup_push(&x->k->ctx->heap, &c, close_clone, m);
    m->lanes = schedule_lanes(m);
    if (!schedule_sums_said(m->k)) schedule_group_sums(m->k, x->limits);
    steps_open(m);
    x->build(m);
    p.ungrouped = !steps_check_sums(m);
    p.form = m->form;
    p.refused = m->refused;
    str_open_in(&p.lines, &x->a);
    str_add(&p.lines, "");
    steps_print(m, &p.lines);
    if (x->keep) steps_script(m, x->keep, &p.steps);
    if (p.form.n) p.cycles = schedule_price_of(m->k, x->limits).cycles;
    cleanup_run(&x->k->ctx->heap, &c);
    x->counts.proposed++;
    x->counts.dropped += p.refused > 0;
    log_proposal(x->k, &p);
    return p;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Does it take the place of the best so far, from which it differs by that answer? */
static bool is_better(const proposal *p, const proposal *best, choice_kind kind) {
    if (p->refused || best->refused) return !p->refused;
    return p->cycles < best->cycles * (1 - choices[kind].doubt / 100.0);
}

/* Give a proposal away; false: no more are wanted. */
static bool give(proposer *x, const proposal *p) {
    return !x->take || p->refused || x->take(x->user, p->lines.s);
}

/* The other answers to question number i; false: no more are wanted. */
static bool try_others(proposer *x, proposal *best, int i) {
    const choice_answer asked = best->form.answer[i];
    const uint32_t most = x->take ? MOST_SEEDS : MOST_PROPOSALS;
    schedule_form given = best->form;
    given.n = i + 1;
    for (int way = 0; way < asked.ways && x->counts.proposed < most; way++) {
        if (way == asked.way) continue;
        given.answer[i].way = (uint8_t)way;
        proposal p = propose(x, &given);
        if (!give(x, &p)) return false;
        if (is_better(&p, best, (choice_kind)asked.kind)) *best = p;
    }
    return true;
}

static proposal propose_all(proposer *x) {
    proposal best = propose(x, &(schedule_form){.n = 0});
    bool more = give(x, &best);
    for (int i = 0; more && i < best.form.n; i++) more = try_others(x, &best, i);
    return best;
}

static void close_proposer(void *x) {
    arena_free(&((proposer *)x)->a);
}

/* Go through all; `steps` and `out` get the best one's steps and lines, unless they are NULL. */
static schedule_counts go_through(proposer *x, script *steps, str *out) {
    heap *h = &x->k->ctx->heap;
    cleanup c;
    arena_open(&x->a, h);
    cleanup_push(h, &c, close_proposer, x);
    proposal best = propose_all(x);
    x->counts.ungrouped = best.ungrouped && !best.refused;
    bool sound = !best.refused || !best.ungrouped;
    if (out && sound) str_add(out, best.lines.s);
    if (steps && sound) *steps = best.steps;
    if (best.refused && debug_on(x->k->ctx, 's'))
        log_line(x->k->ctx, "s %s: no proposal is left, it runs %s", x->k->name,
                 sound ? "by what was not refused of the first" : "as lowered");
    cleanup_run(h, &c);
    return x->counts;
}

schedule_counts schedule_cheapest(const kernel *k, const machine *limits, schedule_builder build,
                                  str *out) {
    return go_through(&(proposer){.k = k, .limits = limits, .build = build}, NULL, out);
}

schedule_counts schedule_steps(const kernel *k, const machine *limits, arena *a, script *steps,
                               str *out) {
    proposer x = {.k = k, .limits = limits, .build = builder_for(limits), .keep = a};
    *steps = (script){.n = 0};
    return go_through(&x, steps, out);
}

schedule_counts schedule_default(const kernel *k, const machine *limits, str *out) {
    return schedule_cheapest(k, limits, builder_for(limits), out);
}

void schedule_proposals(const kernel *k, const machine *limits, proposal_taker take, void *user) {
    proposer x = {
        .k = k, .limits = limits, .build = builder_for(limits), .take = take, .user = user};
    go_through(&x, NULL, NULL);
}
