/* online.c - tuning while a program runs (knob tune is "online"): the first states of the search,
 * tried kernel by kernel between the program's own runs, as gemma.cpp tries its block sizes.
 *
 * The program's launches are never touched. After a plan has run, and only if that is due, one step
 * of a search (tune.c) is made for one of its kernels: its inputs are made up (check.c), at the
 * sizes of the last call, in memory of their own, and the default schedule runs on them beside the
 * candidate. So a candidate never sees a caller's buffer, what is assigned or donated is never
 * computed twice, and results are those of the default schedule until a candidate has won, and
 * after that the same bits. The winner becomes wisdom, as any of tuning, and the program is
 * replaced in its place: plans find it at their next run.
 *
 * What it costs. Each program counts its launches' time. All steps for it together may take a share
 * of that; a step is due when what it is expected to take fits. So a kernel that runs once pays for
 * a counter, and one that runs for an hour is tuned within its first minutes. One search is under
 * way at a time, for its inputs take memory: that of the kernel whose share is largest. It is given
 * up when its kernel has not run for a while, and its costs stay counted.
 *
 * Nothing that goes wrong here is an error: the kernel is left as it is. */
#include "tune/tune.h"

enum {
    LEAST_CALLS = 3,
    STATES = 32,    /* that are made and priced when a search begins, about */
    LAUNCHES = 120, /* of the default schedule and a candidate, for a verdict and a ratio, about */
    MOST_IDLE = 256 /* runs of other plans, until a search is given up */
};
static const double usual_share = 0.1;   /* of a kernel's time */
static const double fill_seconds = 2e-8; /* a byte of an argument, for all sets of inputs */
static const double compile_seconds = 0.01;
static const double save_every = 8;

typedef struct tune_online {
    tune_terms terms;
    tuner *trial; /* the search under way; NULL: none */
    tune_request request;
    uint32_t id;     /* its kernel's program, with a reference */
    double step;     /* seconds that its next step is expected to take */
    uint64_t calls;  /* of its kernel, when it was last seen */
    int idle;        /* runs since then */
    double saved_at; /* the wisdom; */
    bool unsaved;    /* there is more since then */
    arena text;      /* of the request */
} tune_online;

typedef struct online_call {
    qn_ctx *qn;
    const run_plan *p;
} online_call;

static tune_online *online_of(qn_ctx *qn) {
    run_state *r = qn->run;
    if (r->online) return r->online;
    tune_online *o = heap_zeroed(&qn->heap, sizeof *o);
    o->terms.share = usual_share;
    o->saved_at = clock_seconds();
    arena_open(&o->text, &qn->heap);
    return r->online = o;
}

void tune_online_terms(qn_ctx *qn, tune_terms terms) {
    online_of(qn)->terms = terms;
}

/* ---- what a step takes ----------------------------------------------------------------------- */

static double seconds_left(const tune_online *o, const program_use *u) {
    return o->terms.share * u->seconds - u->tuning;
}

static double compile_expected(const dev_program *p) {
    return p->seconds > 0 ? p->seconds : compile_seconds;
}

static double step_expected(const program_use *u, const dev_program *p) {
    return u->made + compile_expected(p) + LAUNCHES * u->seconds / (double)u->calls;
}

/* To make inputs and candidates. */
static double begin_expected(const program_use *u, const launch *l) {
    double bytes = 0;
    for (int a = 0; a < l->program->args; a++) bytes += (double)l->slice[a].size;
    return STATES * u->made + fill_seconds * bytes + step_expected(u, l->program);
}

/* ---- one search ------------------------------------------------------------------------------ */

static void leave(qn_ctx *qn, tune_online *o) {
    if (!o->id) return;
    if (o->trial) tune_end(o->trial);
    program_release(qn, o->id);
    o->trial = NULL;
    o->id = 0;
    arena_free(&o->text);
    arena_open(&o->text, &qn->heap);
}

/* The launch of the plan for which a search is due; NULL: there is none. */
static const launch *choose(const qn_ctx *qn, const tune_online *o, const run_plan *p) {
    const launch *best = NULL;
    double most = 0;
    for (uint32_t i = 0; i < p->launches; i++) {
        const launch *l = &p->launch[i];
        const program_use *u = program_use_of(qn, l->id);
        if (u->settled || u->calls < LEAST_CALLS) continue;
        double left = seconds_left(o, u) - begin_expected(u, l);
        if (left > most) best = l, most = left;
    }
    return best;
}

static void begin(qn_ctx *qn, tune_online *o, const launch *l) {
    const char *text = program_text(qn, l->id);
    int64_t *at = arena_alloc(&o->text, ((size_t)l->program->vars + 1) * sizeof *at);
    memcpy(at, l->value, (size_t)l->program->vars * sizeof *at);
    o->request = (tune_request){.text = text,
                                .size = strlen(text),
                                .seconds = 1e9,
                                .proposals = true,
                                .at = at,
                                .clock = o->terms.clock,
                                .state = {.size = sizeof(qn_tune_state),
                                          .name = tune_name_in(&o->text, text),
                                          .kernels = 1}};
    program_hold(qn, l->id);
    o->id = l->id;
    o->idle = 0;
    o->calls = program_use_of(qn, l->id)->calls;
    o->step = step_expected(program_use_of(qn, l->id), l->program);
    if (wisdom_of(qn)) o->trial = tune_begin(qn, &o->request);
    if (o->trial) return;
    program_use_of(qn, l->id)->settled = true; /* it is known, or cannot be tried */
    leave(qn, o);
}

/* What was found is used from the next run on. */
static void finish(qn_ctx *qn, tune_online *o) {
    program_use *u = program_use_of(qn, o->id);
    const qn_tune_state *s = &o->request.state;
    u->settled = true;
    if (debug_on(qn, 's'))
        log_line(qn, "s %s: %.3f of the time, %llu tried, after %llu calls", s->name, s->ratio,
                 (unsigned long long)s->tried, (unsigned long long)u->calls);
    tune_end(o->trial);
    o->trial = NULL;
    o->unsaved = true;
    if (s->ratio < 1) programs_renew(qn, o->request.text);
    leave(qn, o);
}

static void save(qn_ctx *qn, tune_online *o) {
    o->unsaved = false;
    o->saved_at = clock_seconds();
    if (wisdom_save(qn) && debug_on(qn, 's')) log_line(qn, "s %s", qn_error(qn));
    qn_clear_error(qn);
}

/* ---- after a run ----------------------------------------------------------------------------- */

/* Its kernel has not run for so long that its inputs are in the way. */
static bool idle(const qn_ctx *qn, tune_online *o) {
    const program_use *u = program_use_of(qn, o->id);
    if (u->calls != o->calls) o->idle = 0;
    o->calls = u->calls;
    return o->idle++ > MOST_IDLE;
}

static void step(qn_ctx *qn, tune_online *o) {
    double start = clock_seconds();
    if (!tune_step(o->trial)) {
        finish(qn, o);
        return;
    }
    double seconds = clock_seconds() - start;
    if (seconds > o->step) o->step = seconds;
}

static void ran_work(void *arg) {
    const online_call *c = arg;
    qn_ctx *qn = c->qn;
    tune_online *o = online_of(qn);
    double start = clock_seconds();
    if (o->trial && idle(qn, o)) leave(qn, o);
    const launch *l = o->trial ? NULL : choose(qn, o, c->p);
    uint32_t id = l ? l->id : o->id;
    if (l)
        begin(qn, o, l);
    else if (o->trial && seconds_left(o, program_use_of(qn, id)) > o->step)
        step(qn, o);
    else
        return;
    program_use_of(qn, id)->tuning += clock_seconds() - start;
    if (o->unsaved && clock_seconds() - o->saved_at > save_every) save(qn, o);
}

void tune_ran(qn_ctx *qn, const run_plan *p) {
    const dev_table *dev = qn->run->dev;
    online_call c = {qn, p};
    if (qn->code || !dev->executes) return;
    double start = trace_on(qn) ? clock_seconds() : 0;
    qn_code code = guarded(qn, ran_work, &c);
    if (trace_on(qn)) {
        trace_span(qn, "tune", "tune online", start);
        trace_done(qn);
    }
    if (!code) return;
    tune_online *o = qn->run->online;
    if (debug_on(qn, 's')) log_line(qn, "s online: %s", qn_error(qn));
    qn_clear_error(qn);
    if (!o || !o->id) return;
    program_use_of(qn, o->id)->settled = true;
    leave(qn, o);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void closing_work(void *arg) {
    qn_ctx *qn = arg;
    if (qn->run->online->unsaved) save(qn, qn->run->online);
}

void tune_closing(qn_ctx *qn) {
    tune_online *o = qn->run->online;
    leave(qn, o);
    guarded(qn, closing_work, qn);
    arena_free(&o->text);
    heap_free(&qn->heap, o, sizeof *o);
    qn->run->online = NULL;
}
