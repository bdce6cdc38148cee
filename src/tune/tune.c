/* tune.c - the search for a faster schedule of one kernel.
 *
 * A beam search. Its states are schedules; the best few that were measured are each taken apart
 * into their moves (schedule/search) once. Of all candidates that are known and not yet measured
 * those are taken next of which the cost model expects most (schedule/cost.c), its estimate
 * corrected by what was measured of the candidate's parent; and a few at random, for the model is
 * not always right. A batch is compiled side by side on all threads and then measured: kernels that
 * run on several threads, or that share caches, would not be measured fairly beside a compiler.
 *
 * Who wins. Each candidate's results are compared with those of the default schedule before it is
 * timed (check.c), on all sets before it may lead, and timed by turns with the default
 * (time.c). At the end the best are measured again, for longer; one that is not faster by more
 * than the noise of the default beside itself, or slower at one of several sizes, does not win. It
 * must also leave enough parallel trips, and keep every bit: only a request to regroup lets sums be
 * added in another order, and not where the default schedule depends on the number of threads
 * (wisdom.c says why).
 *
 * How long it takes. Nothing is begun that would not fit into the time that is left, by what
 * compiling the default schedule, and then candidates, took: a batch is as long as fits, and enough
 * is left to compile the winner again. So what comes on top is the default schedule, compiled and
 * measured for its noise, which is not bounded and of a slow kernel takes seconds, or one candidate
 * that takes longer than those before.
 *
 * What was found, also that nothing was, is wisdom: at the end, and every few seconds before. */
#include "tune/tune.h"
#include "schedule/search/script.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BEAM = 3,
    BATCH = 12,
    STRAYS = 3,
    MOST_CANDIDATES = 1 << 15,
    LEAST_ITEMS = 32,
    SURE = 5,
    SAVE_EVERY = 8
};
static const double margin = 0.02;        /* by which the winner is faster, at least */
static const double most_predicted = 2;   /* times the best: not worth compiling */
static const double most_measured = 1.25; /* times the best: not worth more samples, or moves */
static const double last_part = 0.12;     /* of the time, for the last measurements */
static const double last_seconds = 0.5;   /* the same where time is not the limit */

typedef struct candidate {
    const char *lines;
    double cycles, predicted; /* of the cost model; time / the default's, from it */
    double ratio;             /* measured; 0: not yet */
    int times;                /* it was measured */
    bool expanded, dropped;   /* its moves are known; never to be measured (again) */
} candidate;

struct tuner {
    qn_ctx *qn;
    tune_request *q;
    wisdom_record known; /* from before; its schedule is NULL where there is none */
    arena a;             /* candidates' lines */
    tune_check check;
    tune_timer timer;
    str standard; /* the default schedule */
    dev_program *program, *wide;
    dev_program *batch[BATCH];
    candidate *at;
    uint32_t count, cap;
    idset trees;
    uint64_t *tree; /* by candidate; seen_tree looks here */
    uint32_t tree_cap;
    double parent_cycles, parent_ratio; /* of the state whose moves are being taken */
    double start, search_end, end, saved_at, saved_best;
    double compile_once; /* seconds for one program: the default schedule's, or more */
    double compile_each; /* for one of those that are compiled side by side */
    int64_t items;
    bool any_threads;   /* the default schedule is the same for every number of threads */
    bool free_grouping; /* sums may be grouped in another way */
    bool ungrouped;     /* the default schedule does not keep what the kernel says of its sums */
    bool stopped;
    bool forced; /* what is considered is measured, also if that was done before */
    uint64_t random;
    double best;
    double paused; /* since when nothing happens */
    bool left;     /* to be tried */
    bool late;     /* nothing more fits into the time */
};

static double elapsed(const tuner *t) {
    return tune_now(&t->q->clock) - t->start;
}

static void tell(tuner *t) {
    t->q->state.seconds = elapsed(t);
    t->q->state.ratio = t->best;
    if (t->q->going && !t->q->going(t->q->user, &t->q->state)) t->stopped = true;
}

static bool going(tuner *t) {
    if (t->stopped) return false;
    tell(t);
    return !t->stopped && !t->late && elapsed(t) < t->search_end;
}

/* ---- candidates ------------------------------------------------------------------------------ */

typedef struct guarded_call {
    tuner *t;
    const char *lines;
    kernel *k;
    bool done;
} guarded_call;

/* Run `work`; what it raises is over with it, for a candidate that cannot be had is no error. */
static bool attempt(tuner *t, void (*work)(void *arg), void *c) {
    if (!guarded(t->qn, work, c)) return true;
    qn_clear_error(t->qn);
    return false;
}

static bool same_tree(const void *key, uint32_t id, const void *user) {
    return ((const tuner *)user)->tree[id - 1] == *(const uint64_t *)key;
}

/* Remember a kernel that was repaired and priced, unless its tree is known. */
static void add_candidate(tuner *t, const char *lines, uint64_t tree, const schedule_price *price) {
    if (idset_find(&t->trees, tree, same_tree, &tree, t)) return;
    t->at = heap_grow(&t->qn->heap, t->at, &t->cap, t->count + 1, sizeof *t->at);
    t->tree = heap_grow(&t->qn->heap, t->tree, &t->tree_cap, t->count + 1, sizeof *t->tree);
    bool seen = false;
    for (uint32_t i = 0; i < t->known.seens && t->count && !t->forced; i++)
        seen |= t->known.seen[i] == (uint32_t)tree;
    t->tree[t->count] = tree;
    t->at[t->count] = (candidate){
        .lines = arena_printf(&t->a, "%s", lines),
        .dropped = seen,
        .cycles = price->cycles,
        .predicted = t->parent_cycles > 0 ? t->parent_ratio * price->cycles / t->parent_cycles : 1};
    idset_add(&t->trees, tree, ++t->count);
}

/* The lowered kernel; with a request to regroup it says nothing of how its sums are grouped. */
static kernel *parse_kernel(const tuner *t) {
    kernel *k = ir_parse(t->qn, t->q->text);
    if (k && (t->q->regroup || t->ungrouped)) ir_free_sums(k);
    return k;
}

/* From text to tree: repaired, hashed, put through the passes, priced. */
static void consider_work(void *arg) {
    guarded_call *c = arg;
    tuner *t = c->t;
    str legal, tree;
    c->k = parse_kernel(t);
    if (!c->k) heap_unwind(&t->qn->heap);
    str_open_in(&legal, &c->k->arena);
    str_open_in(&tree, &c->k->arena);
    str_add(&legal, "");
    if (!search_repair(c->k, c->lines, &legal)) return;
    ir_print(c->k, &tree);
    uint64_t hash = hash_bytes(tree.s, tree.len, 7);
    if (idset_find(&t->trees, hash, same_tree, &hash, t)) return;
    compile_kernel(t->qn, c->k, &(compile_how){.schedule = ""}); /* it has its schedule */
    schedule_price price = schedule_price_of(c->k, &t->qn->run->limits);
    bool first = !t->count;
    if (first) t->items = (int64_t)price.items;
    if (price.copies > 800 && !first) return; /* compiling it would take long */
    int64_t least = t->items < LEAST_ITEMS ? t->items : LEAST_ITEMS;
    if (price.items < (double)least) return;
    add_candidate(t, legal.s, hash, &price);
}

static void consider(tuner *t, const char *lines) {
    guarded_call c = {.t = t, .lines = lines};
    attempt(t, consider_work, &c);
    ir_close(c.k);
}

static bool take_seed(void *user, const char *lines) {
    tuner *t = user;
    consider(t, lines);
    return going(t);
}

static void seeds_work(void *arg) {
    guarded_call *c = arg;
    c->k = parse_kernel(c->t);
    if (c->k) search_seeds(c->k, &c->t->qn->run->limits, take_seed, c->t);
}

static void moves_work(void *arg) {
    guarded_call *c = arg;
    c->k = parse_kernel(c->t);
    if (c->k) search_moves(c->k, c->lines, &c->t->qn->run->limits, take_seed, c->t);
}

static void expand(tuner *t, uint32_t i) {
    guarded_call c = {.t = t, .lines = t->at[i].lines};
    t->at[i].expanded = true;
    t->parent_cycles = t->at[i].cycles;
    t->parent_ratio = t->at[i].ratio;
    if (t->count < MOST_CANDIDATES) attempt(t, moves_work, &c);
    ir_close(c.k);
}

/* What is known of this kernel, and of such of other sizes. */
static void add_known(tuner *t) {
    const wisdom *w = wisdom_of(t->qn);
    uint64_t family = wisdom_family(t->q->text, t->q->size);
    t->forced = true;
    if (t->known.schedule) consider(t, t->known.schedule);
    t->forced = false;
    int near = 0;
    for (uint32_t i = 0; w && i < w->count && near < 2 * BATCH; i++) {
        const wisdom_record *r = &w->at[i];
        if (r->family != family || r->key.place != w->place || !*r->schedule) continue;
        consider(t, r->schedule);
        near++;
    }
}

/* ---- compiling ------------------------------------------------------------------------------- */

typedef struct compile_call {
    tuner *t;
    int n;
    const char **lines;
    kernel *k[BATCH];
    dev_program **out;
    bool widen, done;
} compile_call;

static void compile_work(void *arg) {
    compile_call *c = arg;
    tuner *t = c->t;
    for (int i = 0; i < c->n; i++) {
        c->k[i] = parse_kernel(t);
        if (!c->k[i]) heap_unwind(&t->qn->heap);
        if (c->widen && !tune_widen(c->k[i])) return;
        compile_kernel(t->qn, c->k[i], &(compile_how){.schedule = c->widen ? NULL : c->lines[i]});
    }
    dev_compile_many(t->qn->run->dev, t->qn->run->dev_state, c->n, c->k, c->out);
    c->done = true;
}

/* Programs of these schedules; where they cannot be had together, each that can be alone. */
static void compile(tuner *t, int n, const char **lines, dev_program **out, bool widen) {
    knob_value *cache = &t->qn->knob[KNOB_CACHE], kept = *cache;
    compile_call c = {.t = t, .n = n, .lines = lines, .out = out, .widen = widen};
    memset(out, 0, (size_t)n * sizeof *out);
    cache->text = "off"; /* hardly any of them will be wanted again */
    attempt(t, compile_work, &c);
    *cache = kept;
    for (int i = 0; i < n; i++) ir_close(c.k[i]);
    for (int i = 0; i < n && n > 1 && !c.done; i++)
        if (!out[i]) compile(t, 1, lines + i, out + i, widen);
}

static void unload(tuner *t, dev_program **p) {
    if (*p) t->qn->run->dev->unload(t->qn->run->dev_state, *p);
    *p = NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool may_win(const tuner *t, tune_verdict v) {
    return v == TUNE_SAME || (v == TUNE_REGROUPED && t->free_grouping);
}

static tune_verdict judge(tuner *t, dev_program *p, bool all) {
    tune_verdict v = tune_check_judge(&t->check, p, all);
    if (v == TUNE_WRONG) t->q->state.refused++;
    return v;
}

/* Both ways to see it must agree that it is fast. */
static double slower_of(tune_ratio r) {
    return r.median > r.least ? r.median : r.least;
}

/* A leader once more: many candidates are measured, and the luckiest would lead for ever. */
static void measure_again(tuner *t, candidate *x, dev_program *p) {
    double now = slower_of(tune_compare(&t->timer, p, t->program, 9, 0));
    x->ratio = (x->ratio * x->times + now) / (x->times + 1);
    x->times++;
}

/* A few samples; where they are better than all before, the other sets and some more. */
static void measure_first(tuner *t, candidate *x, dev_program *p) {
    double most = most_measured * t->best;
    t->q->state.tried++;
    x->ratio = tune_compare(&t->timer, p, t->program, 3, most).least;
    if (x->ratio > most) return;
    if (x->ratio < t->best) {
        if (!may_win(t, judge(t, p, true))) {
            x->ratio = 0;
            return;
        }
        x->ratio = slower_of(tune_compare(&t->timer, p, t->program, 9, 0));
    }
    x->times = 1;
    x->dropped = false;
}

static void measure(tuner *t, candidate *x, dev_program *p) {
    tune_verdict verdict;
    x->dropped = true;
    if (!p) return;
    if (x->times) {
        x->dropped = false;
        measure_again(t, x, p);
    } else if (!may_win(t, verdict = judge(t, p, false))) {
        if (debug_on(t->qn, 's'))
            log_line(t->qn, "s %s: %s\n%s", p->name,
                     verdict == TUNE_WRONG ? "wrong results" : "groups sums in another way",
                     x->lines);
    } else {
        measure_first(t, x, p);
    }
    if (debug_on(t->qn, 's') && x->ratio > 0)
        log_line(t->qn, "s %s: %.3f measured, %.3f predicted", p->name, x->ratio, x->predicted);
}

static uint64_t next_random(tuner *t) {
    return hash_mix(t->random++, 0x7a7e);
}

/* The candidate to be measured next, 0: none. `stray`: any of them. */
static uint32_t choose(tuner *t, bool stray) {
    uint32_t best = 0, seen = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const candidate *x = &t->at[i];
        if (x->ratio > 0 || x->dropped || x->predicted > most_predicted * t->best) continue;
        if (stray ? next_random(t) % ++seen == 0
                  : !best || x->predicted < t->at[best - 1].predicted)
            best = i + 1;
    }
    return best;
}

/* The best so far, 0: the default schedule. */
static uint32_t leader(tuner *t) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < t->count; i++)
        if (t->at[i].ratio > 0 && !t->at[i].dropped && t->at[i].ratio < t->at[best].ratio) best = i;
    t->best = t->at[best].ratio;
    return best;
}

/* How many compile in the time that is left, at most BATCH. How many do at once is seen with the
 * first of them. */
static int fits(const tuner *t) {
    double left = t->search_end - elapsed(t);
    int n = t->q->proposals ? 1 : BATCH;
    if (t->compile_once > left) return 0;
    while (n > 1 && t->compile_each * n > left) n--;
    return n;
}

static void compile_batch(tuner *t, int n, const char **lines) {
    double start = tune_now(&t->q->clock);
    compile(t, n, lines, t->batch, false);
    t->compile_each = (tune_now(&t->q->clock) - start) / n;
    if (t->compile_each > t->compile_once) t->compile_once = t->compile_each;
}

static bool run_batch(tuner *t) {
    const char *lines[BATCH];
    uint32_t which[BATCH], first = leader(t);
    int n = 0, most = fits(t);
    if (!most) return t->late = true;
    bool again = most > 1 && first && t->at[first].times < SURE;
    if (again) {
        which[0] = first;
        lines[n++] = t->at[first].lines;
    }
    for (; n < most; n++) {
        uint32_t i = choose(t, most > 1 && n >= BATCH - STRAYS);
        if (!i) break;
        which[n] = i - 1;
        lines[n] = t->at[i - 1].lines;
        t->at[i - 1].dropped = true;
    }
    if (n == again) return false;
    compile_batch(t, n, lines);
    for (int i = 0; i < n; i++) {
        if (going(t))
            measure(t, &t->at[which[i]], t->batch[i]);
        else
            t->at[which[i]].dropped = false;
        unload(t, &t->batch[i]);
        leader(t);
    }
    return true;
}

/* One of the best few whose moves are not known, 0: there is none. */
static uint32_t next_state(const tuner *t) {
    uint32_t best[BEAM] = {0};
    for (uint32_t i = 0; i < t->count; i++) {
        const candidate *x = &t->at[i];
        if (!(x->ratio > 0) || x->dropped || x->ratio > most_measured * t->best) continue;
        uint32_t add = i + 1;
        for (int b = 0; b < BEAM && add; b++)
            if (!best[b] || t->at[add - 1].ratio < t->at[best[b] - 1].ratio) {
                uint32_t out = best[b];
                best[b] = add;
                add = out;
            }
    }
    for (int b = 0; b < BEAM; b++)
        if (best[b] && !t->at[best[b] - 1].expanded) return best[b];
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int last_rounds(const tuner *t) {
    double left = t->q->proposals ? last_seconds : t->end - elapsed(t);
    double round = tune_round_seconds(&t->timer), n = round > 0 ? left / 3 / round : 31;
    return n > 31 ? 31 : n < 9 ? 9 : (int)n;
}

/* The best that stands the last measurement; its number + 1 and its ratio. */
static uint32_t find_winner(tuner *t, tune_ratio *won, tune_verdict *verdict) {
    double floor_ = 0;
    double least = 2 * t->timer.noise > margin ? 2 * t->timer.noise : margin;
    for (int trial = 0; trial < 3; trial++) {
        uint32_t best = 0;
        if (trial && elapsed(t) + t->compile_once > t->end && !t->q->proposals) return 0;
        for (uint32_t i = 0; i < t->count; i++)
            if (t->at[i].ratio > floor_ && t->at[i].ratio < 1 - margin / 2 && !t->at[i].dropped &&
                (!best || t->at[i].ratio < t->at[best - 1].ratio))
                best = i + 1;
        if (!best) return 0;
        floor_ = t->at[best - 1].ratio;
        compile(t, 1, &t->at[best - 1].lines, t->batch, false);
        bool good = t->batch[0] != NULL;
        if (good) *verdict = judge(t, t->batch[0], true);
        good = good && may_win(t, *verdict);
        if (good) *won = tune_compare(&t->timer, t->batch[0], t->program, last_rounds(t), 0);
        unload(t, &t->batch[0]);
        if (good && won->median < 1 - least && won->least < 1 - least / 2 &&
            won->worst < 1 + margin / 2)
            return best;
        t->at[best - 1].ratio = good ? won->median : 1;
    }
    return 0;
}

/* What need not be measured again when somebody goes on. */
static void list_seen(tuner *t, wisdom_record *r) {
    uint32_t n = 0, *seen = arena_alloc(&t->a, WISDOM_SEEN * sizeof *seen);
    for (uint32_t i = 1; i < t->count && n < WISDOM_SEEN; i++)
        if (t->at[i].dropped || t->at[i].ratio > 0) seen[n++] = (uint32_t)t->tree[i];
    r->seens = n;
    r->seen = seen;
}

/* What it knows; `cut_off`: the time is not up. */
static void keep(tuner *t, bool done, bool cut_off) {
    wisdom *w = wisdom_of(t->qn);
    tune_ratio won = {1, 1, 1};
    tune_verdict verdict = TUNE_SAME;
    uint32_t best = find_winner(t, &won, &verdict);
    if (!w) return;
    wisdom_record r = {.key = wisdom_key_of(w, t->q->text, t->q->size, t->standard.s,
                                            t->any_threads ? 0 : t->qn->run->limits.threads),
                       .family = wisdom_family(t->q->text, t->q->size),
                       .round = ++t->known.round,
                       .tried = t->known.tried + (int64_t)t->q->state.tried,
                       .spent =
                           t->known.spent + (elapsed(t) > t->end || cut_off ? elapsed(t) : t->end),
                       .ratio = best ? won.median : 1,
                       .regrouped = verdict == TUNE_REGROUPED,
                       .regroup = t->q->regroup,
                       .done = done,
                       .name = t->q->state.name,
                       .place = w->place_name,
                       .schedule = best ? t->at[best - 1].lines : ""};
    if (!done) list_seen(t, &r);
    t->best = r.ratio;
    wisdom_add(t->qn, w, &r);
    if (!t->q->proposals && wisdom_save(t->qn) && debug_on(t->qn, 's'))
        log_line(t->qn, "s %s", qn_error(t->qn));
    t->saved_at = elapsed(t);
    t->saved_best = t->best;
}

/* Now and then: whoever is killed loses little. */
static void keep_meanwhile(tuner *t) {
    double since = elapsed(t) - t->saved_at;
    if (since > SAVE_EVERY && since > 40 * tune_round_seconds(&t->timer) && t->best < t->saved_best)
        keep(t, false, true);
}

/* ---- from beginning to end ------------------------------------------------------------------- */

/* Where sums are to be grouped freely the schedules must not depend on the number of threads. */
static bool for_any_threads(tuner *t, const kernel *k) {
    static const int threads[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128};
    str other;
    bool same = true;
    str_open_in(&other, &t->a);
    for (size_t i = 0; i < COUNT_OF(threads) && same; i++) {
        machine l = t->qn->run->limits;
        l.threads = threads[i];
        other.len = 0;
        str_add(&other, "");
        schedule_default(k, &l, &other);
        same = !strcmp(other.s, t->standard.s);
    }
    return same;
}

static void recall(tuner *t) {
    const wisdom_record *r =
        wisdom_find(t->qn, t->q->text, t->q->size, t->standard.s, t->qn->run->limits.threads);
    if (!r) return;
    t->known = *r;
    t->known.schedule = arena_printf(&t->a, "%s", r->schedule);
    t->known.seen = memcpy(arena_alloc(&t->a, (r->seens + 1) * sizeof *r->seen), r->seen,
                           r->seens * sizeof *r->seen);
}

/* false: there is nothing to be done. */
static bool begin(tuner *t, kernel *k) {
    str why;
    str_open_in(&why, &t->a);
    str_open_in(&t->standard, &t->a);
    str_add(&t->standard, "");
    t->ungrouped = schedule_default(k, &t->qn->run->limits, &t->standard).ungrouped;
    recall(t);
    if (t->known.schedule && t->q->proposals) return false;
    bool anew = t->q->again || (t->q->regroup && !t->known.regroup);
    if (t->q->regroup && !t->known.regroup) t->known.seens = 0; /* refused for their grouping */
    if (t->known.schedule && !anew) {                           /* it goes on where it ended */
        t->end -= t->known.spent;
        t->best = t->known.ratio;
        bool kept = t->known.regrouped && !t->q->regroup; /* somebody asked for these bits */
        if (kept || t->known.done || t->end < t->q->seconds / 20) return tell(t), false;
        t->best = 1;
    }
    t->search_end = t->end * (1 - last_part);
    t->q->state.budget = t->end;
    t->any_threads = for_any_threads(t, k);
    if (!tune_check_open(t->qn, &t->check, k, t->q->at, &why)) {
        if (debug_on(t->qn, 's')) log_line(t->qn, "s %s is not tuned: %s", k->name, why.s);
        return false;
    }
    const char *standard = t->standard.s;
    double compiling = tune_now(&t->q->clock);
    compile(t, 1, &standard, &t->program, false);
    if (!t->program) return false;
    t->compile_once = t->compile_each = tune_now(&t->q->clock) - compiling;
    if (t->search_end > t->end - t->compile_once) t->search_end = t->end - t->compile_once;
    if (t->any_threads && t->q->regroup) compile(t, 1, &standard, &t->wide, true);
    tune_check_expect(&t->check, t->program, t->wide);
    unload(t, &t->wide);
    t->free_grouping = t->any_threads && t->check.truth;
    tune_timer_open(&t->timer, &t->check, t->q->clock, t->program, t->end / 10);
    return true;
}

/* The first states. */
static void find_seeds(tuner *t) {
    guarded_call c = {.t = t};
    consider(t, t->standard.s);
    if (!t->count) return;
    t->at[0].ratio = t->parent_ratio = 1;
    t->parent_cycles = t->at[0].cycles;
    add_known(t);
    for (uint32_t i = 1; i < t->count; i++) t->at[i].predicted = 0; /* before all others */
    attempt(t, seeds_work, &c);
    ir_close(c.k);
    t->left = true;
}

/* One batch, or, where that was all, the end; false then. */
static bool search(tuner *t) {
    if (!t->count) return false;
    if (!t->left || !going(t)) {
        keep(t, !t->left && !t->q->proposals, t->stopped || !t->left);
        tell(t);
        return false;
    }
    uint32_t state = t->q->proposals ? 0 : next_state(t);
    if (state) expand(t, state - 1);
    t->left = run_batch(t) || state;
    if (!t->q->proposals) keep_meanwhile(t);
    return true;
}

void tune_end(tuner *t) {
    for (int i = 0; i < BATCH; i++) unload(t, &t->batch[i]);
    unload(t, &t->program);
    unload(t, &t->wide);
    if (t->check.qn) tune_check_close(&t->check);
    idset_free(&t->trees);
    heap_free(&t->qn->heap, t->at, (size_t)t->cap * sizeof *t->at);
    heap_free(&t->qn->heap, t->tree, (size_t)t->tree_cap * sizeof *t->tree);
    arena_free(&t->a);
    heap_free(&t->qn->heap, t, sizeof *t);
}

static void close_tuner(void *t) {
    tune_end(t);
}

tuner *tune_begin(qn_ctx *qn, tune_request *q) {
    tuner *t = heap_zeroed(&qn->heap, sizeof *t);
    t->qn = qn;
    t->q = q;
    t->best = t->saved_best = 1;
    arena_open(&t->a, &qn->heap);
    idset_open(&t->trees, &qn->heap);
    cleanup tuning, parsed;
    cleanup_push(&qn->heap, &tuning, close_tuner, t);
    t->start = tune_now(&q->clock);
    t->end = q->seconds;
    kernel *k = ir_parse(qn, q->text);
    cleanup_push(&qn->heap, &parsed, ir_cleanup, k);
    bool any = k && begin(t, k);
    if (any) find_seeds(t);
    cleanup_run(&qn->heap, &parsed);
    t->paused = tune_now(&q->clock);
    if (any)
        cleanup_drop(&qn->heap, &tuning);
    else
        cleanup_run(&qn->heap, &tuning);
    return any ? t : NULL;
}

bool tune_step(tuner *t) {
    t->start += tune_now(&t->q->clock) - t->paused;
    bool more = search(t);
    t->paused = tune_now(&t->q->clock);
    return more;
}

qn_code tune_kernel(qn_ctx *qn, tune_request *q) {
    tuner *t = tune_begin(qn, q);
    cleanup c;
    if (!t) return qn_error_code(qn);
    cleanup_push(&qn->heap, &c, close_tuner, t);
    while (tune_step(t)) {
    }
    cleanup_run(&qn->heap, &c);
    return qn_error_code(qn);
}
