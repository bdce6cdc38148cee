/* shrink_graph.h - a failing graph of random_graph.h made smaller while it fails: steps are left
 * out, become inputs, or hand through a source; sizes shrink together. Every candidate is inferred
 * anew, so it is a graph that can be built; whether it fails is for a function to say. */
#ifndef QN_SHRINK_GRAPH_H
#define QN_SHRINK_GRAPH_H

#include "run_graph.h"

static inline bool infer_all(program *p) {
    for (int i = 0; i < p->steps; i++)
        if (!infer(p, i)) return false;
    return true;
}

/* Drop steps that nothing read needs. */
static inline void compact(program *p) {
    bool used[STEPS] = {false};
    int to[STEPS], n = 0;
    for (int i = p->steps - 1; i >= 0; i--) {
        if (p->step[i].output || p->step[i].read_now) used[i] = true;
        for (int k = 0; used[i] && k < p->step[i].sources; k++) used[p->step[i].src[k]] = true;
    }
    for (int i = 0; i < p->steps; i++) {
        if (!used[i]) continue;
        step s = p->step[i];
        for (int k = 0; k < s.sources; k++) s.src[k] = to[s.src[k]];
        to[i] = n;
        p->step[n++] = s;
    }
    p->steps = n;
}

/* Runs a program somehow and says whether it failed. */
typedef verdict (*program_runner)(void *user, const program *p);

typedef struct shrinker {
    program_runner run;
    void *user;
    program *best;
    verdict *verdict;
    int tries;
} shrinker;

static inline bool keep_if_failing(shrinker *s, program *candidate) {
    compact(candidate);
    if (s->tries <= 0 || !infer_all(candidate)) return false;
    s->tries--;
    verdict v = s->run(s->user, candidate);
    if (!v.failed) return false;
    *s->best = *candidate;
    *s->verdict = v;
    return true;
}

static inline void become_input(step *s) {
    if (dtype_is_float(s->dtype) && s->err > 0) s->grid = -1;
    s->op = OP_BUFFER, s->sources = 0, s->attrs = 0, s->err = 0;
    if (!dtype_is_float(s->dtype)) s->grid = 0;
    s->bits = 0x1234567;
    if (s->grid >= 0) {
        s->lo = ldexp(ceil(ldexp(s->lo, s->grid)), -s->grid);
        s->hi = ldexp(floor(ldexp(s->hi, s->grid)), -s->grid);
    }
    if (s->lo >= s->hi) s->hi = s->lo + 1;
}

static inline bool shrink_step(shrinker *s, int i) {
    program c = *s->best;
    step *at = &c.step[i];
    if (at->op != OP_BUFFER) {
        become_input(at);
        if (keep_if_failing(s, &c)) return true;
        c = *s->best;
        for (int k = 0; k < at->sources; k++) {
            const step *x = &c.step[at->src[k]];
            if (x->dtype != at->dtype || x->rank != at->rank) continue;
            if (memcmp(x->dim, at->dim, sizeof(int64_t) * (size_t)x->rank)) continue;
            for (int j = i + 1; j < c.steps; j++)
                for (int m = 0; m < c.step[j].sources; m++)
                    if (c.step[j].src[m] == i) c.step[j].src[m] = at->src[k];
            c.step[at->src[k]].output |= at->output;
            at->output = false;
            if (keep_if_failing(s, &c)) return true;
            c = *s->best;
        }
    }
    if (at->special) {
        at->special = false;
        if (keep_if_failing(s, &c)) return true;
        c = *s->best;
    }
    if (at->output || at->read_now) {
        at->output = at->read_now = false;
        if (keep_if_failing(s, &c)) return true;
        for (int k = 0; k < at->sources; k++) c.step[at->src[k]].output = true;
        if (at->sources && keep_if_failing(s, &c)) return true;
        c = *s->best;
    }
    return false;
}

static inline bool shrink_dims(shrinker *s, int i) {
    for (int d = 0; d < s->best->step[i].rank; d++) {
        int64_t n = s->best->step[i].dim[d], less[] = {1, 2, 3, n / 2, n - 1};
        for (int k = 0; k < 5; k++) {
            program c = *s->best;
            if (less[k] < 1 || less[k] >= n) continue;
            for (int j = 0; j < c.steps; j++) { /* the same size elsewhere goes along */
                bool given =
                    !c.step[j].sources || c.step[j].op == OP_RESHAPE || c.step[j].op == OP_EXPAND;
                for (int e = 0; given && e < c.step[j].rank; e++)
                    if (c.step[j].dim[e] == n) c.step[j].dim[e] = less[k];
            }
            if (keep_if_failing(s, &c)) return true;
            c = *s->best;
            c.step[i].dim[d] = less[k];
            if (keep_if_failing(s, &c)) return true;
        }
    }
    return false;
}

/* Make a failing program smaller while it fails, in at most `tries` runs. */
static inline void shrink(program_runner run, void *user, program *p, verdict *v, int tries) {
    shrinker s = {.run = run, .user = user, .best = p, .verdict = v, .tries = tries};
    program c = *p;
    if (v->step >= 0 && v->step < STEPS) {
        for (int i = 0; i < c.steps; i++)
            c.step[i].output = i == v->step, c.step[i].read_now = false;
        keep_if_failing(&s, &c);
    }
    for (bool progress = true; progress && s.tries > 0;) {
        progress = false;
        c = *p;
        c.together = false;
        if (p->together && keep_if_failing(&s, &c)) progress = true;
        c = *p;
        c.gradients--;
        if (p->gradients && keep_if_failing(&s, &c)) progress = true;
        c = *p;
        c.twice = false;
        if (p->twice && keep_if_failing(&s, &c)) progress = true;
        for (int i = p->steps - 1; i >= 0; i--)
            if (i < p->steps && shrink_step(&s, i)) progress = true;
        for (int i = p->steps - 1; i >= 0; i--)
            if (i < p->steps && !p->step[i].sources && shrink_dims(&s, i)) progress = true;
    }
}

#endif
