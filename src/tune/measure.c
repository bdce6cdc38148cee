/* measure.c - the rates of this machine, by running our own kernels both ways.
 *
 * A rate matters only by what schedules make of it. So a probe is a kernel of the benchmark's kinds
 * and some values of one field: a context is opened for each value, which compiles the kernel by
 * that record, and they run by turns, forward and backward. What counts is the median over the
 * rounds of each one's time over the first one's, the value that stands. Another one takes its
 * place where it is faster by more than `GAIN` and in all rounds but one; where the rounds of the
 * value that stands differ too much, nothing is said: the machine was not quiet. Rates that are
 * quantities by themselves, memory's and that of forking and joining, are taken from the same
 * rounds, under the same condition.
 *
 * Rates change no bits (machine/fields.h), so nothing that was computed before becomes stale. */
#include "run/run.h"
#include "tune/tune.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { VALUES = 4, ROUNDS = 7, FORKS = 64 };
static const double gain = 0.04, noise = 0.15; /* of a median; between quartiles, of a median */

typedef enum probe_kind { PROBE_NEG, PROBE_SUM, PROBE_PRODUCT } probe_kind;

typedef struct probe {
    const char *field;
    probe_kind kind;
    bool ratio; /* the field is the first one's time over the second's, in percent */
    int64_t value[VALUES];
} probe;

/* The first value 0 is the one that stands. */
static const probe probes[] = {
    {"nontemporal_gain", PROBE_NEG, true, {100, 140}},
    {"stream_pages", PROBE_NEG, false, {0, 1, 4}},
    {"stream_pages", PROBE_SUM, false, {0, 1, 4}},
    {"l2_rate", PROBE_PRODUCT, false, {0, 12, 20, 32}},
    {"prefetch_trips", PROBE_PRODUCT, false, {0, 4, 8, 16}},
};

typedef struct bench {
    qn_ctx *qn; /* whose machine it is */
    machine *m; /* with what was found */
    str *text;
    qn_ctx *in[VALUES];
    qn_tensor *x[VALUES][2], *out[VALUES];
    qn_plan *plan[VALUES];
    float *data; /* what operands hold */
    double t[VALUES][ROUNDS];
    int n;
} bench;

typedef struct meeting {
    int all;
    _Atomic int here;
} meeting;

static bool field_named(const char *name, machine_field *f) {
    for (int i = 0; machine_field_at(i, f); i++)
        if (!strcmp(f->name, name)) return true;
    return false;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct spread {
    double low, middle, high; /* quartiles */
} spread;

static spread spread_of(const double *t, int n) {
    double v[FORKS];
    memcpy(v, t, (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, ascending);
    return (spread){v[n / 4], v[n / 2], v[n - 1 - n / 4]};
}

static bool quiet(const double *t, int n) {
    spread s = spread_of(t, n);
    return s.middle > 0 && s.high - s.low <= noise * s.middle;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Larger than the last cache, twice. */
static int64_t streamed_elements(const machine *m) {
    int64_t bytes = 2 * m->l3, least = 64 << 20, most = 256 << 20;
    return (bytes < least ? least : bytes > most ? most : bytes) / 4;
}

static qn_tensor *filled(const bench *b, qn_ctx *qn, int rank, const int64_t *shape) {
    return qn_from(qn, QN_F32, rank, shape, b->data);
}

/* One context for each value, with the kernel as a static graph: by that record, its operands in
 * memory. */
static bool open_one(bench *b, const probe *p, int i) {
    machine_field f;
    qn_ctx *qn = b->in[i] = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    if (!qn || !field_named(p->field, &f)) return false;
    int threads = qn->run->limits.threads;
    qn->run->limits = *b->m;
    qn->run->limits.threads = threads;
    if (p->value[i]) *machine_value(&qn->run->limits, &f) = p->value[i];
    int64_t n = streamed_elements(b->m), a[2] = {256, 768}, c[2] = {768, 1536};
    bool product = p->kind == PROBE_PRODUCT;
    qn_tensor **x = b->x[i], *y;
    x[0] = product ? filled(b, qn, 2, a) : filled(b, qn, 1, &n);
    x[1] = product ? filled(b, qn, 2, c) : NULL;
    if (qn_realize(1 + product, x)) return false;
    y = product                ? qn_matmul(x[0], x[1])
        : p->kind == PROBE_NEG ? qn_neg(x[0])
                               : qn_sum(x[0], 0, false);
    b->plan[i] = qn_plan_new(qn, 1 + product, x, 1, &y);
    return b->plan[i] != NULL;
}

static void close_one(bench *b, int i) {
    qn_plan_free(b->plan[i]);
    qn_close(b->in[i]);
    b->in[i] = NULL;
    b->plan[i] = NULL;
    b->out[i] = NULL;
}

/* Run the probe's kernel once: the seconds that the thread was given. */
static double run_once(bench *b, int i) {
    qn_release(b->out[i]); /* its memory is the next one's */
    b->out[i] = NULL;
    double start = clock_thread_seconds();
    int code = qn_plan_run(b->plan[i], b->x[i], &b->out[i]);
    return code ? -1 : clock_thread_seconds() - start;
}

static bool run_rounds(bench *b) {
    for (int i = 0; i < b->n; i++) /* compiled, and its memory there */
        if (run_once(b, i) < 0) return false;
    for (int r = 0; r < ROUNDS; r++)
        for (int k = 0; k < b->n; k++) {
            int i = r % 2 ? b->n - 1 - k : k;
            b->t[i][r] = run_once(b, i);
            if (b->t[i][r] < 0) return false;
        }
    return true;
}

/* ---- what they say --------------------------------------------------------------------------- */

static void note(bench *b, const machine_field *f, const char *said, int64_t value) {
    str_addf(b->text, "# %s %lld: %s\n", f->name, (long long)value, said);
}

static void keep(bench *b, const machine_field *f, int64_t value) {
    int64_t v = value < f->least ? f->least : value > f->most ? f->most : value;
    *machine_value(b->m, f) = v;
    str_addf(b->text, "%s %lld  # %s\n", f->name, (long long)v, f->doc);
}

/* Median of value i's time over the first one's; in how many rounds it was faster. */
static double against_first(const bench *b, int i, int *wins) {
    double ratio[ROUNDS];
    *wins = 0;
    for (int r = 0; r < ROUNDS; r++) {
        ratio[r] = b->t[i][r] / b->t[0][r];
        *wins += ratio[r] < 1;
    }
    return spread_of(ratio, ROUNDS).middle;
}

static void judge(bench *b, const probe *p, const machine_field *f) {
    int64_t stands = *machine_value(b->m, f);
    if (!quiet(b->t[0], ROUNDS)) {
        note(b, f, "stays, the machine was not quiet", stands);
        return;
    }
    double best = 1 - gain;
    int chosen = 0, wins;
    if (p->ratio) {
        keep(b, f, (int64_t)(100 / against_first(b, 1, &wins) + 0.5));
        return;
    }
    for (int i = 1; i < b->n; i++) {
        double ratio = against_first(b, i, &wins);
        if (ratio < best && wins >= ROUNDS - 1) best = ratio, chosen = i;
    }
    keep(b, f, chosen ? p->value[chosen] : stands);
}

/* Bytes a cycle, from the sum of a tensor that streams: what a chain of dependent additions of one
 * cycle each says of the clock. */
static double clock_rate(void) {
    enum { STEPS = 1 << 20 };
    double best = 1;
    for (int round = 0; round < 5; round++) {
        uint64_t x = 1;
        double start = clock_thread_seconds();
        for (int i = 0; i < STEPS; i++) {
            x += 3;
            __asm__ volatile("" : "+r"(x)); /* one addition, and not their sum */
        }
        double t = clock_thread_seconds() - start;
        if (t < best) best = t;
    }
    return STEPS / best;
}

static void keep_memory_rate(bench *b) {
    machine_field f;
    if (!field_named("memory_rate", &f)) return;
    double bytes = 4.0 * (double)streamed_elements(b->m);
    spread s = spread_of(b->t[0], ROUNDS);
    if (quiet(b->t[0], ROUNDS)) keep(b, &f, (int64_t)(bytes / s.low / clock_rate() + 0.5));
}

static void run_probe(bench *b, const probe *p) {
    machine_field f;
    if (!field_named(p->field, &f)) return;
    for (b->n = 1; b->n < VALUES && p->value[b->n]; b->n++) {
    }
    bool ok = true;
    for (int i = 0; i < b->n; i++) ok &= open_one(b, p, i);
    if (ok && run_rounds(b)) {
        judge(b, p, &f);
        if (p->kind == PROBE_SUM) keep_memory_rate(b);
    } else {
        note(b, &f, "stays, its kernels did not run", *machine_value(b->m, &f));
    }
    for (int i = 0; i < b->n; i++) close_one(b, i);
}

/* Each thread's part waits for the others': the caller would take back what nobody has begun. */
static void meet(void *arg, int thread, int64_t begin, int64_t end) {
    meeting *m = arg;
    double late = clock_seconds() + 1e-3;
    (void)thread;
    atomic_fetch_add(&m->here, (int)(end - begin));
    while (atomic_load(&m->here) < m->all && clock_seconds() < late) {
    }
}

/* What handing out work and waiting for it takes, where there are threads. */
static void measure_fork(bench *b) {
    machine_field f;
    double t[FORKS];
    pool *p = pool_open(&b->qn->heap, processors());
    if (!p || !field_named("fork_join_ns", &f)) {
        pool_close(p);
        return;
    }
    for (int i = -FORKS; i < FORKS; i++) {
        double start = clock_seconds();
        meeting m = {.all = pool_threads(p)};
        pool_run(p, m.all, meet, &m);
        if (i >= 0) t[i] = clock_seconds() - start;
    }
    spread s = spread_of(t, FORKS);
    if (s.high < 1.5 * s.low)
        keep(b, &f, (int64_t)(1e9 * s.middle));
    else
        note(b, &f, "stays, the machine was not quiet", *machine_value(b->m, &f));
    pool_close(p);
}

static void measure(qn_ctx *qn, str *text) {
    machine m = qn->run->limits;
    bench b = {.qn = qn, .m = &m, .text = text};
    if (m.members || !qn->run->dev->host_memory || !qn->run->dev->describe)
        raise_error(qn, QN_EARG, "machine: device %s is not measured, only cpu is",
                    qn->run->dev->name);
    size_t size = (size_t)streamed_elements(&m) * sizeof *b.data;
    arena a;
    cleanup c;
    arena_open(&a, &qn->heap);
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    b.data = arena_alloc(&a, size);
    for (size_t i = 0; i < size / sizeof *b.data; i++) b.data[i] = (float)(i % 7) * 0.125f;
    str_addf(text, "# %s, measured by quern %s\n", m.name, qn_version());
    measure_fork(&b);
    for (size_t i = 0; i < COUNT_OF(probes); i++) run_probe(&b, &probes[i]);
    cleanup_run(&qn->heap, &c);
}

/* The device's description says which processor it is. */
static void measure_work(void *arg) {
    qn_ctx *qn = arg;
    str *text = &qn->run->text, processor;
    cleanup c;
    measure(qn, text);
    str_open(&processor, &qn->heap);
    cleanup_push(&qn->heap, &c, str_cleanup, &processor);
    qn->run->dev->describe(qn->run->dev_state, &processor);
    machine_keep(qn, processor.s, processor.len, text);
    cleanup_run(&qn->heap, &c);
}

const char *qn_machine_measure(qn_ctx *qn) {
    if (!qn) return NULL;
    run_state *r = qn->run;
    str_free(&r->text);
    str_open(&r->text, &qn->heap);
    return guarded(qn, measure_work, qn) ? NULL : r->text.s;
}
