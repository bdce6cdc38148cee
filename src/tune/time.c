/* time.c - how long a program takes, beside another one.
 *
 * Machines are shared and their clocks drift, so a time alone says little. Programs are measured
 * by turns, a sample of one beside a sample of the other, now this one first and now that one, and
 * what counts is the ratio: the median over the rounds, which a disturbance in some of them leaves
 * alone, and that of the least times, which is steadier still where the machine is quiet now and
 * then. A sample is as many runs as the clock needs. */
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROUNDS = 41, MOST_RUNS = 1 << 16, LEAST_NOISE = 3, MOST_NOISE = 9 };
static const double sample_seconds = 250e-6;

double tune_now(const tune_clock *t) {
    return t->now ? t->now(t->user) : clock_seconds();
}

/* A kernel on one thread is measured by what the processor gave to that thread: others that want
 * the processor, too, do not count. Where several work, or a device of its own, it is the clock. */
static double sample_now(const tune_timer *t) {
    const run_state *r = t->check->qn->run;
    bool alone = r->limits.threads == 1 && r->dev->host_memory && !r->limits.members;
    return alone && !t->clock.now ? clock_thread_seconds() : tune_now(&t->clock);
}

/* Seconds of one run. */
static double sample(const tune_timer *t, dev_program *p, int set, int runs) {
    run_state *r = t->check->qn->run;
    const tune_set *s = &t->check->set[set];
    dev_set d = {.arg = s->arg, .var = s->var};
    double start = sample_now(t);
    for (int i = 0; i < runs; i++) {
        qn_code code = r->dev->launch(r->dev_state, p, 1, &d);
        if (code) raise_error(t->check->qn, code, "tuning: kernel %s failed", p->name);
    }
    return (sample_now(t) - start) / runs;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

tune_ratio tune_compare(const tune_timer *t, dev_program *a, dev_program *b, int rounds,
                        double most) {
    double median = 0, least = 0, worst = 0;
    int sets = 0;
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    for (int s = 0; s < t->check->sets; s++) {
        double ratio[MOST_ROUNDS], least_a = INFINITY, least_b = INFINITY;
        int n = 0;
        if (!t->check->set[s].measured) continue;
        while (n < rounds && (!n || !(most > 0) || least_a <= most * least_b)) {
            dev_program *first = n % 2 ? b : a, *second = n % 2 ? a : b;
            double x = sample(t, first, s, t->runs[s]), y = sample(t, second, s, t->runs[s]);
            double time_a = n % 2 ? y : x, time_b = n % 2 ? x : y;
            if (time_a < least_a) least_a = time_a;
            if (time_b < least_b) least_b = time_b;
            ratio[n++] = time_b > 0 ? time_a / time_b : 1;
        }
        qsort(ratio, (size_t)n, sizeof *ratio, by_size);
        double middle = n % 2 ? ratio[n / 2] : (ratio[n / 2 - 1] + ratio[n / 2]) / 2;
        median += log(middle);
        least += log(least_b > 0 ? least_a / least_b : 1);
        if (middle > worst) worst = middle;
        sets++;
    }
    return (tune_ratio){exp(median / sets), exp(least / sets), worst};
}

double tune_round_seconds(const tune_timer *t) {
    double all = 0;
    for (int s = 0; s < t->check->sets; s++)
        if (t->check->set[s].measured) all += 2 * t->runs[s] * t->each[s];
    return all;
}

void tune_timer_open(tune_timer *t, tune_check *c, tune_clock clock, dev_program *standard,
                     double seconds) {
    *t = (tune_timer){.check = c, .clock = clock};
    for (int s = 0; s < c->sets; s++) {
        double once = 0;
        int runs = 1;
        for (;; runs *= 2) {
            double each = sample(t, standard, s, runs);
            once = runs == 1 || each < once ? each : once;
            if (each * runs >= sample_seconds || runs >= MOST_RUNS || !c->set[s].measured) break;
        }
        t->runs[s] = runs;
        t->each[s] = once;
    }
    double once = tune_round_seconds(t), most = once > 0 ? seconds / once : MOST_NOISE;
    int rounds = most > MOST_NOISE ? MOST_NOISE : most < LEAST_NOISE ? LEAST_NOISE : (int)most;
    tune_ratio self = tune_compare(t, standard, standard, rounds, 0);
    t->noise =
        fabs(self.median - 1) > fabs(self.least - 1) ? fabs(self.median - 1) : fabs(self.least - 1);
}
