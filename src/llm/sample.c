/* sample.c - which token comes next: penalties on the logits, then a choice among the candidates
 * that are left.
 *
 * Candidates are a list of (logit, id), at first all; each limit shortens it. Equal logits are in
 * the order of ids, so that the same logits give the same token everywhere. */
#include "llm/llm.h"

#include <math.h>
#include <stdlib.h>

enum { PENALTY_TOKENS = 64 };

typedef struct candidate {
    float logit;
    int32_t id;
    double p; /* not normalised */
} candidate;

typedef struct chooser {
    const sampling *s;
    candidate *c;
    int64_t n;
} chooser;

/* ---- options --------------------------------------------------------------------------------- */

void sample_check(qn_ctx *qn, const qn_sample_options *o) {
    const struct {
        const char *name;
        double value, lo, hi;
    } rows[] = {{"temperature", o->temperature, 0, 1e6},
                {"top_k", (double)o->top_k, 0, 0x1p62},
                {"top_p", o->top_p, 0, 1},
                {"min_p", o->min_p, 0, 1},
                {"repetition", o->repetition, 0, 1e6},
                {"presence", o->presence, -1e6, 1e6},
                {"frequency", o->frequency, -1e6, 1e6},
                {"last", (double)o->last, 0, 0x1p62}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (!(rows[i].value >= rows[i].lo && rows[i].value <= rows[i].hi))
            raise_error(qn, QN_EARG, "sample: %s is %g; it is from %g to %g", rows[i].name,
                        rows[i].value, rows[i].lo, rows[i].hi);
}

/* ---- penalties ------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static void punish(const chooser *k) {
    const qn_sample_options *o = k->s->o;
    int64_t last = o->last ? o->last : PENALTY_TOKENS, n = k->s->past < last ? k->s->past : last;
    bool divides = o->repetition != 0 && o->repetition != 1;
    if (n == 0 || (!divides && o->presence == 0 && o->frequency == 0)) return;
    int32_t *seen = arena_alloc(k->s->a, (size_t)n * sizeof *seen);
    memcpy(seen, k->s->token + k->s->past - n, (size_t)n * sizeof *seen);
    qsort(seen, (size_t)n, sizeof *seen, by_id);
    for (int64_t i = 0, times; i < n; i += times) {
        for (times = 1; i + times < n && seen[i + times] == seen[i];) times++;
        if (seen[i] < 0 || seen[i] >= k->n) continue;
        double v = (double)k->c[seen[i]].logit;
        if (divides) v = v > 0 ? v / o->repetition : v * o->repetition;
        k->c[seen[i]].logit = (float)(v - o->presence - o->frequency * (double)times);
    }
}

/* ---- candidates ------------------------------------------------------------------------------ */

static int better_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->logit > y->logit ? -1 : x->logit < y->logit ? 1 : by_id(&x->id, &y->id);
}

/* In c[0 .. n), a heap with the worst on top but for place i: put it right. */
static void sift(candidate *c, int64_t n, int64_t i) {
    candidate moved = c[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better_first(&c[child], &c[child + 1]) < 0) child++;
        if (better_first(&moved, &c[child]) >= 0) break;
        c[i] = c[child];
    }
    c[i] = moved;
}

/* The k best, in no order. */
static void keep_best(chooser *s, int64_t k) {
    if (k == 0 || k >= s->n) return;
    for (int64_t i = k / 2; i-- > 0;) sift(s->c, k, i);
    for (int64_t i = k; i < s->n; i++)
        if (better_first(&s->c[i], &s->c[0]) < 0) {
            s->c[0] = s->c[i];
            sift(s->c, k, 0);
        }
    s->n = k;
}

/* Those of weight p and more, of which the best always is one. */
static void keep_above(chooser *s, double p) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (s->c[i].p >= p) s->c[n++] = s->c[i];
    s->n = n;
}

static double total(const chooser *s) {
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum += s->c[i].p;
    return sum;
}

static bool cuts(double top_p) {
    return top_p != 0 && top_p != 1;
}

static void weigh(chooser *s, float most, double temperature) {
    for (int64_t i = 0; i < s->n; i++)
        s->c[i].p = exp(((double)s->c[i].logit - (double)most) / temperature);
}

static const candidate *best_of(const chooser *s) { /* not of an empty list */
    const candidate *best = s->c;
    for (int64_t i = 1; i < s->n; i++)
        if (better_first(&s->c[i], best) < 0) best = &s->c[i];
    return best;
}

/* The best whose sum reaches top_p. What has less than (1 - top_p) / n each cannot be among them:
 * all of it is not what may be missing. */
static void keep_nucleus(chooser *s, double top_p) {
    double all = total(s), sum = 0;
    if (!cuts(top_p) || s->n < 2) return;
    double best = 0;
    for (int64_t i = 0; i < s->n; i++) best = fmax(best, s->c[i].p);
    keep_above(s, fmin(best, (1 - top_p) * all / (double)s->n));
    qsort(s->c, (size_t)s->n, sizeof *s->c, better_first);
    for (int64_t i = 0; i < s->n; i++)
        if ((sum += s->c[i].p) >= top_p * all) s->n = i + 1;
}

/* A number from [0, 1) by seed and place alone (splitmix64, Steele et al. 2014). */
static double chance(uint64_t seed, uint64_t place) {
    uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 2; i++) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

static int candidate_by_id(const void *a, const void *b) {
    return by_id(&((const candidate *)a)->id, &((const candidate *)b)->id);
}

static bool in_order(const chooser *s) {
    int64_t i = 1;
    while (i < s->n && s->c[i - 1].id < s->c[i].id) i++;
    return i >= s->n;
}

/* The one that the seed's number falls on, in the order of ids. Not best first: logits that are off
 * by a rounding, as those of a text beside others are, would put likes of each other in another
 * order, and the same number would fall on another token every few thousand times. (Which of such
 * a limit leaves, and which is the likeliest, is still theirs.) */
static int32_t draw(const chooser *s) {
    if (!in_order(s)) qsort(s->c, (size_t)s->n, sizeof *s->c, candidate_by_id);
    double left = chance(s->s->o->seed, (uint64_t)s->s->past) * total(s);
    for (int64_t i = 0; i < s->n; i++)
        if ((left -= s->c[i].p) < 0) return s->c[i].id;
    return best_of(s)->id; /* what rounding left */
}

int32_t sample_one(const sampling *s) {
    const qn_sample_options *o = s->o;
    chooser k = {.s = s, .n = s->n};
    k.c = arena_alloc(s->a, (size_t)s->n * sizeof *k.c);
    for (int64_t i = 0; i < s->n; i++)
        k.c[i] = (candidate){isnan(s->logits[i]) ? -INFINITY : s->logits[i], (int32_t)i, 0};
    punish(&k);
    const candidate best = *best_of(&k);
    float most = best.logit;
    if (!(most > -INFINITY))
        raise_error(s->ctx, QN_EARG, "sample: all %lld logits are NaN or minus infinity",
                    (long long)s->n);
    if (o->temperature == 0 || isinf(most)) return best.id;
    keep_best(&k, o->top_k);
    if (o->min_p > 0 || cuts(o->top_p)) {
        weigh(&k, most, 1);
        if (o->min_p > 0) keep_above(&k, o->min_p);
        keep_nucleus(&k, o->top_p);
    }
    weigh(&k, most, o->temperature);
    return draw(&k);
}

/* ---- the public call ------------------------------------------------------------------------- */

typedef struct sample_call {
    sampling s;
    int32_t id;
} sample_call;

static void sample_work(void *arg) {
    sample_call *c = arg;
    sample_check(c->s.ctx, c->s.o);
    c->id = sample_one(&c->s);
}

int32_t qn_sample(qn_ctx *qn, int64_t n, const float *logits, int64_t n_past, const int32_t *past,
                  const qn_sample_options *options) {
    qn_sample_options o = QN_SAMPLE_OPTIONS();
    arena a;
    if (!qn) return -1;
    if (!struct_take(qn, "sample", "qn_sample_options", &o, sizeof o, options)) return -1;
    if (!logits || (n_past > 0 && !past))
        return fail(qn, QN_ENULL, "sample: %s is NULL", logits ? "past" : "logits"), -1;
    if (n < 1 || n > INT32_MAX || n_past < 0)
        return fail(qn, QN_ERANGE, "sample: %lld logits behind %lld tokens", (long long)n,
                    (long long)n_past),
               -1;
    arena_open(&a, &qn->heap);
    sample_call c = {{qn, &a, &o, n, n_past, logits, past}, -1};
    qn_code code = guarded(qn, sample_work, &c);
    arena_free(&a);
    return code ? -1 : c.id;
}
