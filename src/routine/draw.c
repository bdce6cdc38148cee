/* draw.c - random numbers by rejection, which is no loop of a known length: see graph/routines.h.
 *
 * Every element draws from a stream of its own: Threefry (func/random.c) of the key, the counter
 * being the element's index and, in its upper bits, the number of the draw. So numbers depend
 * neither on threads nor on the order, and one element takes as many draws as it needs. All is
 * computed in double precision. */
#include "routine/routine.h"

#include <math.h>

enum { DRAW_SHIFT = 12 }; /* counters' upper words: 12 bits of the index, then the draw */

/* More than every third try is taken, so that 1024 in vain mean arithmetic that has lost its way:
 * the result is NaN then, and the draws' numbers stay within their 20 bits. */
enum { TRIES = 1 << 10 };

typedef struct stream {
    uint32_t key[2];
    uint64_t index;
    uint32_t draw;
} stream;

static uint32_t turned(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

static uint64_t next_bits(stream *s) {
    static const uint8_t rotation[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t schedule[3] = {s->key[0], s->key[1], s->key[0] ^ s->key[1] ^ 0x1bd11bda};
    uint32_t a = (uint32_t)s->index + s->key[0];
    uint32_t b = ((uint32_t)(s->index >> 32) | s->draw++ << DRAW_SHIFT) + s->key[1];
    for (uint32_t round = 0; round < 20; round++) {
        a += b;
        b = turned(b, rotation[round % 8]) ^ a;
        if (round % 4 != 3) continue;
        uint32_t turn = round / 4 + 1;
        a += schedule[turn % 3];
        b += schedule[(turn + 1) % 3] + turn;
    }
    return (uint64_t)a << 32 | b;
}

/* In (0, 1), 53 bits. */
static double uniform(stream *s) {
    return ((double)(next_bits(s) >> 11) + 0.5) * 0x1p-53;
}

static double normal(stream *s) {
    double radius = sqrt(-2 * log(uniform(s)));
    return radius * cos(2 * M_PI * uniform(s));
}

/* log of a gamma variate (Marsaglia and Tsang 2000); below a shape of 1 that of the next one times
 * u^(1/shape). */
static double log_gamma_variate(stream *s, double shape) {
    if (!(shape > 0)) return (double)NAN;
    if (isinf(shape)) return shape;
    double less = shape < 1 ? log(uniform(s)) / shape : 0;
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (int i = 0; i < TRIES; i++) {
        double x = normal(s), v = 1 + c * x;
        if (v <= 0) continue;
        double log_v = 3 * log(v);
        if (log(uniform(s)) < x * x / 2 + d - d * exp(log_v) + d * log_v)
            return log(d) + log_v + less;
    }
    return (double)NAN;
}

/* Products of uniform numbers up to 10; transformed rejection beyond (Hoermann 1993). */
static double poisson(stream *s, double rate) {
    if (!(rate >= 0)) return (double)NAN;
    if (rate > 0x1p62) return rate;
    double k = 0;
    if (rate < 10) {
        double least = exp(-rate);
        for (double product = uniform(s); product > least && k < TRIES; product *= uniform(s)) k++;
        return k;
    }
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), quick = 0.9277 - 3.6224 / (b - 2);
    for (int i = 0; i < TRIES; i++) {
        double u = uniform(s) - 0.5, v = uniform(s), side = 0.5 - fabs(u);
        int sign;
        k = floor((2 * a / side + b) * u + rate + 0.43);
        if (side >= 0.07 && v <= quick) return k;
        if (k < 0 || (side < 0.013 && v > side)) continue;
        double bound = k * log(rate) - rate - lgamma_r(k + 1, &sign);
        if (log(v * inverse / (a / (side * side) + b)) <= bound) return k;
    }
    return (double)NAN;
}

/* Above lo > 0, by an exponential of that rate (Robert 1995), of which a good part is below hi; far
 * out, where it is within rounding of lo, that is all there is to it. */
static double normal_tail(stream *s, double lo, double hi, double rate) {
    if (lo > 0x1p26) return fmin(lo - log(uniform(s)) / lo, hi);
    for (int i = 0; i < TRIES; i++) {
        double x = lo - log(uniform(s)) / rate;
        if (x <= hi && log(uniform(s)) <= -(x - rate) * (x - rate) / 2) return x;
    }
    return (double)NAN;
}

/* A normal variate in [lo, hi]: by a normal where that often is inside, by the tail's exponential,
 * or by a uniform one. */
static double truncated(stream *s, double lo, double hi) {
    if (!(lo < hi)) return lo == hi ? lo : (double)NAN;
    if (hi < 0) return -truncated(s, -hi, -lo);
    if (lo <= 0 && hi - lo > 2) {
        for (int i = 0; i < TRIES; i++) {
            double x = normal(s);
            if (x >= lo && x <= hi) return x;
        }
        return (double)NAN;
    }
    double rate = (lo + sqrt(lo * lo + 4)) / 2; /* of an exponential: at least 1 */
    if (lo > 0 && (hi - lo) * rate > 1) return normal_tail(s, lo, hi, rate);
    double most = lo > 0 ? lo : 0; /* where the density is largest */
    for (int i = 0; i < TRIES; i++) {
        double x = lo + (hi - lo) * uniform(s);
        if (log(uniform(s)) <= (most - x) * (most + x) / 2) return x;
    }
    return (double)NAN;
}

routine_need need_draw(const routine_call *c) {
    int64_t n = row_count(&c->result[0]) * row_length(&c->result[0]);
    return (routine_need){.items = n, .work = 100 * (double)n};
}

void run_draw(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const uint32_t *key = c->source[0].data;
    const double *x = c->source[1].data;
    double *out = c->result[0].data;
    (void)scratch;
    for (int64_t i = from; i < to; i++) {
        stream s = {{key[0], key[1]}, (uint64_t)i, 0};
        switch (c->what.attr[0]) {
        case DRAW_LOG_GAMMA:
            out[i] = log_gamma_variate(&s, x[i]);
            break;
        case DRAW_GAMMA:
            out[i] = exp(log_gamma_variate(&s, x[i]));
            break;
        case DRAW_POISSON:
            out[i] = poisson(&s, x[i]);
            break;
        default:
            out[i] = truncated(&s, x[0], x[1]);
        }
    }
}
