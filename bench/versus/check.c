/* check.c - the floors. A family's geometric mean, its least case, or a time, held against what it
 * has to reach; a case without a number misses every floor of its family. */
#include "versus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum measure { RATIO_MEAN, RATIO_LEAST, LIMIT_LEAST, SECONDS, CAUSAL, USES } measure;

static const struct {
    const char *family, *part; /* cases whose names hold `part`, or with a ! do not hold it */
    measure measure;
    double floor;
} floors[] = {
    {"gemm", "", RATIO_MEAN, 0.97},
    {"gemm", "", RATIO_LEAST, 0.88},
    {"packed", "", RATIO_MEAN, 0.95},
    {"packed", "", RATIO_LEAST, 0.80},
    {"gemv", "", RATIO_MEAN, 1.1},
    {"gemv", "", RATIO_LEAST, 0.9},
    {"narrow", "1024", LIMIT_LEAST, 0.7},
    {"narrow", "", RATIO_MEAN, 1.0},
    {"stream", "!transpose", LIMIT_LEAST, 0.85},
    {"stream", "transpose", LIMIT_LEAST, 0.7},
    {"stream", "", RATIO_MEAN, 1.5},
    {"cached", "", RATIO_MEAN, 1.2},
    {"attention", "T1024", LIMIT_LEAST, 0.6},
    {"attention", "T4096", LIMIT_LEAST, 0.6},
    {"attention", "", RATIO_MEAN, 1.5},
    {"attention", "T1024", CAUSAL, 0.6},
    {"attention", "T4096", CAUSAL, 0.6},
    {"attention_grad", "", LIMIT_LEAST, 0.45},
    {"conv", "", RATIO_MEAN, 1.0},
    {"train", "mlp", RATIO_MEAN, 1.25},
    {"train", "gpt2", RATIO_MEAN, 1.33},
    {"scan", "", RATIO_MEAN, 1.0},
    {"scan", "", RATIO_LEAST, 0.3},
    {"sort", "", RATIO_MEAN, 0.8},
    {"sort", "", RATIO_LEAST, 0.3},
    {"gather", "", RATIO_MEAN, 1.0},
    {"gather", "", RATIO_LEAST, 0.3},
    {"norm", "", RATIO_MEAN, 1.0},
    {"norm", "", RATIO_LEAST, 0.3},
    {"pool", "", RATIO_MEAN, 1.0},
    {"pool", "", RATIO_LEAST, 0.3},
    {"linalg", "", RATIO_MEAN, 0.95},
    {"linalg", "", RATIO_LEAST, 0.3},
    {"fft", "", RATIO_MEAN, 0.6},
    {"fft", "", RATIO_LEAST, 0.3},
    {"recurrent", "", RATIO_MEAN, 1.0},
    {"recurrent", "step", RATIO_LEAST, 1.0},
    {"resnet", "", RATIO_LEAST, 1 / 0.95},
    {"pieces", "", RATIO_LEAST, 1.0},
    {"shared", " 512", USES, 1.1},
    {"shared", " 2048", USES, 1.1},
    {"latency", "kernel compile", SECONDS, 5e-3},
    {"latency", "plan gpt2", SECONDS, 50e-3},
    {"latency", "fork-join", SECONDS, 2e-6},
    {"latency", "cold start", SECONDS, 150e-3},
    {"latency", "warm start", SECONDS, 30e-3},
};

typedef struct group {
    int n, missing;
    double product, least, plain, special,
        seconds; /* special: a causal case, or one of many uses */
    const char *worst;
} group;

static void add(group *g, const vs_result *r, measure m) {
    double v = m == LIMIT_LEAST ? r->limit_ratio : r->ratio;
    g->n++;
    if (r->quern <= 0 || (v <= 0 && m <= LIMIT_LEAST)) {
        g->missing++;
        return;
    }
    g->seconds = fmax(g->seconds, r->quern);
    if (strstr(r->c->name, m == USES ? "uses" : "causal"))
        g->special = r->quern;
    else
        g->plain = r->quern;
    if (m > LIMIT_LEAST) return;
    g->product += log(v);
    if (!g->worst || v < g->least) {
        g->least = v;
        g->worst = r->c->name;
    }
}

static bool met(const group *g, measure m, double floor, double *value) {
    int n = g->n - g->missing;
    *value = 0;
    switch (m) {
    case RATIO_MEAN:
        *value = n ? exp(g->product / n) : 0;
        break;
    case RATIO_LEAST:
    case LIMIT_LEAST:
        *value = n ? g->least : 0;
        break;
    case SECONDS:
        *value = g->seconds;
        return !g->missing && *value <= floor;
    case CAUSAL:
    case USES:
        *value = g->plain > 0 ? g->special / g->plain : 0;
        return *value > 0 && *value <= floor;
    }
    return !g->missing && *value >= floor;
}

static bool holds(const char *name, const char *part) {
    return *part == '!' ? !strstr(name, part + 1) : strstr(name, part) != NULL;
}

int vs_floors(int n, const vs_result *r) {
    static const char *const what[] = {"of the best peer, mean", "of the best peer, least",
                                       "of the limit, least",    "seconds",
                                       "causal / plain",         "uses / one of all rows"};
    int missed = 0, tested = 0;
    printf("\nfloors\n");
    for (size_t i = 0; i < sizeof floors / sizeof *floors; i++)
        for (int threads = 1; threads <= 2; threads++) {
            group g = {0};
            double value;
            for (int k = 0; k < n; k++)
                if (r[k].threads == threads && !strcmp(r[k].c->family, floors[i].family) &&
                    holds(r[k].c->name, floors[i].part))
                    add(&g, &r[k], floors[i].measure);
            if (!g.n) continue;
            measure m = floors[i].measure;
            bool ok = met(&g, m, floors[i].floor, &value);
            printf("%-6s %-15s %-15s T%d  %8.3f %s %5.3g %s", ok ? "ok" : "MISSED",
                   floors[i].family, floors[i].part, threads, value,
                   m >= SECONDS ? "<=" : ">=", floors[i].floor, what[m]);
            if (!ok && g.worst) printf("; worst: %s %.2f", g.worst, g.least);
            if (g.missing) printf("; %d of %d without a number", g.missing, g.n);
            printf("\n");
            missed += !ok;
            tested++;
        }
    printf("%d floors, %d missed\n", tested, missed);
    return missed;
}
