/* rate.c - learning rates as functions of the steps that are done, one row each.
 *
 * They are closed forms and not recurrences: a training that goes on after step t asks for t and
 * has the rate that it would have had. Only a plateau has a memory, which is its struct. */
#include "nn/nn.h"

#include <math.h>

/* What a caller left at 0 is as usual; -0.0 is a 0 that is meant. */
static double or_else(double given, double usual) {
    return given != 0 ? given : signbit(given) ? 0 : usual;
}

static double between(double from, double to, double part, bool linear) {
    if (linear) return from + (to - from) * part;
    return to + (from - to) * 0.5 * (1 + cos(acos(-1.0) * part));
}

double qn_rate_cosine(double peak, double last, double warmup, double total, double done) {
    if (done < warmup) return peak * (done + 1) / (warmup + 1);
    if (done >= total || total <= warmup) return last;
    return between(peak, last, (done - warmup) / (total - warmup), false);
}

/* ---- the kinds ----------------------------------------------------------------------------- */

static double rate_constant(const qn_rate_options *o, double t) {
    return o->rate * (t < o->period ? or_else(o->from, 0) : 1);
}

static double rate_step(const qn_rate_options *o, double t) {
    return o->rate * pow(or_else(o->gamma, 0.1), floor(t / o->period));
}

static double rate_exponential(const qn_rate_options *o, double t) {
    return o->rate * pow(or_else(o->gamma, 0.1), t);
}

static double rate_linear(const qn_rate_options *o, double t) {
    double part = fmin(t, o->period) / o->period;
    return o->rate * between(or_else(o->from, 1.0 / 3), o->to, part, true);
}

static double rate_polynomial(const qn_rate_options *o, double t) {
    return o->rate * pow(1 - fmin(t, o->period) / o->period, or_else(o->power, 1));
}

static double rate_cosine(const qn_rate_options *o, double t) {
    return between(o->rate, o->last, t / o->period, false);
}

/* Cycles of period, period * stretch, period * stretch^2, .. */
static double rate_restarts(const qn_rate_options *o, double t) {
    double stretch = or_else(o->stretch, 1), length = o->period;
    if (stretch <= 1) {
        t = fmod(t, length);
    } else {
        double cycle = floor(log1p(t / length * (stretch - 1)) / log(stretch));
        double begin = length * (pow(stretch, cycle) - 1) / (stretch - 1);
        if (begin > t) begin = length * (pow(stretch, --cycle) - 1) / (stretch - 1);
        double end = length * (pow(stretch, cycle + 1) - 1) / (stretch - 1);
        if (t >= end) begin = end, cycle++;
        t -= begin;
        length *= pow(stretch, cycle);
    }
    return between(o->rate, o->last, t / length, false);
}

static double rate_one_cycle(const qn_rate_options *o, double t) {
    double rise = or_else(o->rise, 0.3), first = o->rate / or_else(o->divide, 25);
    double last = first / or_else(o->divide_last, 1e4), total = o->period;
    double ends[3] = {rise * total - 1, total - 1, total - 1};
    double rates[4] = {first, o->rate, last, last};
    if (o->three_phase) ends[1] = 2 * rise * total - 2, rates[2] = first;
    double begin = 0;
    for (int i = 0; i < 3; i++) {
        if (t <= ends[i] && ends[i] > begin)
            return between(rates[i], rates[i + 1], (t - begin) / (ends[i] - begin), o->linear);
        begin = ends[i];
    }
    return last;
}

static const struct {
    double (*rate)(const qn_rate_options *o, double t);
    bool period; /* it has one of at least a step */
} kinds[] = {
    [QN_RATE_CONSTANT] = {rate_constant, false},       [QN_RATE_STEP] = {rate_step, true},
    [QN_RATE_EXPONENTIAL] = {rate_exponential, false}, [QN_RATE_LINEAR] = {rate_linear, true},
    [QN_RATE_POLYNOMIAL] = {rate_polynomial, true},    [QN_RATE_COSINE] = {rate_cosine, true},
    [QN_RATE_RESTARTS] = {rate_restarts, true},        [QN_RATE_ONE_CYCLE] = {rate_one_cycle, true},
};

double qn_rate_at(const qn_rate_options *o, double done) {
    if (!o || o->size != sizeof *o || (unsigned)o->kind >= COUNT_OF(kinds)) return (double)NAN;
    if (kinds[o->kind].period && !(o->period >= 1)) return (double)NAN;
    if (done < o->warmup) return o->rate * (done + 1) / (o->warmup + 1);
    return kinds[o->kind].rate(o, fmax(done - o->warmup, 0));
}

/* ---- a plateau ----------------------------------------------------------------------------- */

static bool better(const qn_plateau *p, double metric) {
    double part = or_else(p->threshold, 1e-4), sign = p->maximize ? 1 : -1;
    double wanted = p->best + sign * part * (p->absolute ? 1 : p->best);
    return !p->begun || (p->maximize ? metric > wanted : metric < wanted);
}

double qn_plateau_next(qn_plateau *p, double metric) {
    if (!p || p->size != sizeof *p) return (double)NAN;
    if (better(p, metric)) {
        p->best = metric, p->bad = 0;
        p->begun = !isnan(metric);
    } else {
        p->bad++;
    }
    if (p->cooling > 0) p->cooling--, p->bad = 0;
    int patience = p->patience > 0 ? p->patience : p->patience == 0 ? 10 : 0;
    if (p->bad > patience) {
        double next = fmax(p->rate * or_else(p->factor, 0.1), p->least);
        if (p->rate - next > or_else(p->epsilon, 1e-8)) p->rate = next;
        p->cooling = p->cooldown, p->bad = 0;
    }
    return p->rate;
}
