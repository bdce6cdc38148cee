/* measure.c - the rates of this machine, by running our own kernels both ways.
 *
 * A rate matters only by what schedules make of it. So a probe is a kernel of the benchmark's kinds
 * and some values of its fields: for each the kernel is scheduled by that record and compiled, and
 * the programs run by turns, forward and backward, on the same memory. Values that give one
 * schedule cannot be told apart, and are one. What counts is the median over the rounds, and the
 * least time: both must say that a value is faster by more than `gain`. Where the rounds of the
 * first value differ too much, three times, nothing is said: the machine was not quiet. Rates that
 * are quantities by themselves, memory's and that of forking and joining, are taken from the same
 * rounds, under the same condition.
 *
 *   streams   page_parallel_gain and nontemporal_gain go together, for stores past the caches to
 *             several pages by turns are slow on some processors: so a negation runs in all four
 *             ways. A sum of few rows, one at a time, in order and side by side says
 *             page_parallel_read_gain, which may be the other way round, and sums of many short
 *             rows, one or four at a time, row_parallel_gain.
 *   product   a value takes the place of the one that stands when it was faster in all rounds but
 *             one, and then once more, both compiled anew: the best of several equal ones wins by
 *             luck, and where code comes to lie makes some percent.
 *
 * It begins with the family's rates, and not with what was measured before: so nothing that was
 * luck stays for that. Rates change no bits (machine/fields.h), so nothing that was computed before
 * becomes stale. */
#include "run/run.h"
#include "tune/tune.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { VALUES = 4, ROUNDS = 7, FORKS = 64, ARGUMENTS = 2 + SPLIT_PARTS, TRIALS = 3 };
enum { ROWS = 16, ROW_PAGES = 2 };             /* of PROBE_SUM; of a row of PROBE_ROWS */
static const double gain = 0.04, noise = 0.15; /* of a median; between quartiles, of a median */

typedef enum probe_kind { PROBE_NEG, PROBE_SUM, PROBE_ROWS, PROBE_PRODUCT } probe_kind;

typedef struct probe {
    const char *field[2]; /* the second one may be missing */
    probe_kind kind;
    int64_t value[2][VALUES];
} probe;

/* Value 0 is the one that stands. */
static const probe probes[] = {
    {{"page_parallel_gain", "nontemporal_gain"},
     PROBE_NEG,
     {{50, 50, 200, 200}, {100, 140, 100, 140}}},
    {{"page_parallel_read_gain"}, PROBE_SUM, {{50, 200}}},
    {{"row_parallel_gain"}, PROBE_ROWS, {{50, 200}}},
    {{"l2_rate"}, PROBE_PRODUCT, {{0, 12, 20, 32}}},
    {{"prefetch_trips"}, PROBE_PRODUCT, {{0, 4, 8, 16}}},
};

typedef struct bench {
    qn_ctx *qn;  /* whose machine it is */
    qn_ctx *in;  /* one thread, in which kernels run */
    qn_ctx *all; /* all of them; NULL: there is one */
    int threads; /* of the context in which kernels run */
    machine *m;  /* with what was found */
    str *text;
    void *memory[2]; /* what kernels write, and read */
    size_t size;     /* of each, but for more that is written beside */
    double clock;    /* cycles a second */
    dev_slice arg[ARGUMENTS];
    const probe *p; /* under way */
    dev_program *program[VALUES];
    uint64_t schedule[VALUES]; /* hashes */
    double t[VALUES][ROUNDS];
    int n; /* values of the probe */
    bool ran;
} bench;

typedef struct meeting {
    int all;
    _Atomic int here;
} meeting;

static bool field_named(const char *name, machine_field *f) {
    const machine_field *known = machine_field_named(name, strlen(name));
    if (known) *f = *known;
    return known != NULL;
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

/* The sums of `rows` rows. */
static void sums_text(long long n, long long rows, str *out) {
    str_addf(out, "kernel \"sum\" {\n  arg a0 f32[%lld] write\n  reg t0 f32[1]\n", rows);
    str_addf(out, "  arg a1 f32[%lld] read\n  for i0 < %lld {\n    def t0 = f32(0)\n", n, rows);
    str_addf(out, "    for r0 < %lld {\n      t0[0] += a1[%lld*i0 + r0]\n    }\n", n / rows,
             n / rows);
    str_add(out, "    a0[i0] = t0[0]\n  }\n}\n");
}

/* What the probe's kernel computes. */
static void probe_text(const bench *b, str *out) {
    long long n = (long long)(b->size / 4);
    if (b->p->kind == PROBE_NEG) {
        str_addf(out, "kernel \"negation\" {\n  arg a0 f32[%lld] write\n  arg a1 f32[%lld] read\n",
                 n, n);
        str_addf(out, "  for i0 < %lld {\n    a0[i0] = neg(a1[i0])\n  }\n}\n", n);
    } else if (b->p->kind == PROBE_SUM) {
        sums_text(n, ROWS, out);
    } else if (b->p->kind == PROBE_ROWS) {
        const long long row = b->m->page * ROW_PAGES / 4;
        sums_text(n / row * row, n / row, out);
    } else {
        str_add(out, "kernel \"product\" {\n  arg a0 f32[393216] write\n  reg t0 f32[1]\n"
                     "  arg a1 f32[196608] read\n  arg a2 f32[1179648] read\n"
                     "  for i0 < 256 {\n    for i1 < 1536 {\n      def t0 = f32(0)\n"
                     "      for r0 < 768 {\n"
                     "        t0[0] += mul(a1[768*i0 + r0], a2[i1 + 1536*r0])\n      }\n"
                     "      a0[1536*i0 + i1] = t0[0]\n    }\n  }\n}\n");
    }
}

/* Where its arguments lie: what is written one after the other, and what is read. */
static void place_arguments(bench *b, kernel *k) {
    size_t used[2] = {0};
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        int64_t n = 0;
        if (x->scope != MEM_ARG || x->arg >= ARGUMENTS) continue;
        sym_is_const(k->syms, x->size, &n);
        int read = (x->access & ACCESS_READ) != 0;
        b->arg[x->arg] = (dev_slice){b->memory[read], used[read], (size_t)n * sizeof(float)};
        used[read] += ((size_t)n * sizeof(float) + 63) / 64 * 64;
    }
}

typedef struct trees {
    kernel *k, *first;
} trees;

static void close_trees(void *of) {
    const trees *t = of;
    ir_close(t->first);
    ir_close(t->k);
}

/* Program number i: the kernel's, or that of its first stage, by the record with the probe's values
 * number i. */
static void compile_value(bench *b, const char *text, int i) {
    qn_ctx *in = b->in;
    machine m = *b->m;
    machine_field f;
    trees t = {NULL, NULL};
    split_part part[SPLIT_PARTS];
    str lines;
    cleanup c;
    m.threads = b->threads;
    for (int j = 0; j < 2 && b->p->field[j]; j++)
        if (b->p->value[j][i] && field_named(b->p->field[j], &f))
            *machine_value(&m, &f) = b->p->value[j][i];
    cleanup_push(&in->heap, &c, close_trees, &t);
    t.k = ir_parse(in, text);
    if (!t.k) heap_unwind(&in->heap);
    split_reduction(t.k, &t.first, part);
    kernel *k = t.first ? t.first : t.k;
    place_arguments(b, k);
    str_open_in(&lines, &k->arena);
    str_add(&lines, "");
    compile_kernel(in, k, &(compile_how){.limits = &m, .lines = &lines});
    b->schedule[i] = hash_bytes(lines.s, lines.len, 9);
    dev_compile_many(in->run->dev, in->run->dev_state, 1, &k, &b->program[i]);
    cleanup_run(&in->heap, &c);
}

static void unload_all(bench *b) {
    const run_state *r = b->in->run;
    for (int i = 0; i < VALUES; i++) {
        if (b->program[i]) r->dev->unload(r->dev_state, b->program[i]);
        b->program[i] = NULL;
    }
}

/* The seconds that the thread was given for a run. */
static double run_once(const bench *b, int i) {
    const run_state *r = b->in->run;
    double start = clock_thread_seconds();
    qn_code code = r->dev->launch(r->dev_state, b->program[i], 1, &(dev_set){.arg = b->arg});
    if (code) raise_error(b->in, code, "measuring: kernel %s failed", b->program[i]->name);
    return clock_thread_seconds() - start;
}

/* Does a value give another schedule than those before it? */
static bool differs(const bench *b, int i) {
    bool other = true;
    for (int j = 0; j < i; j++) other &= b->schedule[j] != b->schedule[i];
    return other;
}

/* All values of the probe by turns, those that differ; in a second series, only `chosen` and the
 * first. */
static void run_rounds(bench *b, int chosen) {
    str text;
    cleanup c;
    str_open(&text, &b->in->heap);
    cleanup_push(&b->in->heap, &c, str_cleanup, &text);
    probe_text(b, &text);
    unload_all(b);
    for (int i = 0; i < b->n; i++)
        if (!chosen || !i || i == chosen) compile_value(b, text.s, i);
    cleanup_run(&b->in->heap, &c);
    bool runs[VALUES];
    for (int i = 0; i < b->n; i++) runs[i] = b->program[i] && differs(b, i);
    for (int r = -1; r < ROUNDS; r++) /* the first one finds its memory */
        for (int k = 0; k < b->n; k++) {
            int i = r % 2 ? b->n - 1 - k : k;
            double t = runs[i] ? run_once(b, i) : INFINITY;
            if (r >= 0) b->t[i][r] = t;
        }
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

/* Value i's time over the first one's: the larger of the rounds' median and of the least times. In
 * how many rounds was it faster? */
static double against_first(const bench *b, int i, int *wins) {
    double ratio[ROUNDS], least = INFINITY, first = INFINITY;
    *wins = 0;
    for (int r = 0; r < ROUNDS; r++) {
        ratio[r] = b->t[i][r] / b->t[0][r];
        *wins += ratio[r] < 1;
        if (b->t[i][r] < least) least = b->t[i][r];
        if (b->t[0][r] < first) first = b->t[0][r];
    }
    double median = spread_of(ratio, ROUNDS).middle;
    return median > least / first ? median : least / first;
}

static bool wins(const bench *b, int i, double *ratio) {
    int rounds;
    *ratio = against_first(b, i, &rounds);
    return *ratio < 1 - gain && rounds >= ROUNDS - 1;
}

/* The value that is better than the first one, 0: none is for sure. */
static int choose(bench *b) {
    int chosen = 0;
    double best = 1, ratio;
    for (int i = 1; i < b->n; i++)
        if (wins(b, i, &ratio) && ratio < best) best = ratio, chosen = i;
    if (!chosen) return 0;
    run_rounds(b, chosen);
    return wins(b, chosen, &ratio) && quiet(b->t[0], ROUNDS) ? chosen : 0;
}

/* Another value than the one that stands, where that is sure. */
static void judge_product(bench *b) {
    machine_field f;
    if (!field_named(b->p->field[0], &f)) return;
    int64_t stands = *machine_value(b->m, &f);
    if (!quiet(b->t[0], ROUNDS)) {
        note(b, &f, "stays, the machine was not quiet", stands);
        return;
    }
    int chosen = choose(b);
    keep(b, &f, chosen ? b->p->value[0][chosen] : stands);
}

/* Side by side over in order: what that gains, or the family's word where it is not for sure. */
static int64_t pages_gain(double ratio, int64_t stands) {
    bool told = ratio < 1 - gain || ratio > 1 / (1 - gain);
    return told ? (int64_t)(100 / ratio + 0.5) : stands;
}

/* In order or side by side, each with the better stores. And what stores past the caches gain in
 * the better one. */
static void judge_negation(bench *b) {
    machine_field pages, gained;
    double t[VALUES];
    int rounds;
    if (!field_named("page_parallel_gain", &pages) || !field_named("nontemporal_gain", &gained))
        return;
    if (!quiet(b->t[0], ROUNDS)) {
        note(b, &pages, "stays, the machine was not quiet", b->m->page_parallel_gain);
        note(b, &gained, "stays, the machine was not quiet", b->m->nontemporal_gain);
        return;
    }
    for (int i = 0; i < b->n; i++) {
        int same = 0;
        while (b->schedule[same] != b->schedule[i]) same++;
        t[i] = same ? against_first(b, same, &rounds) : 1;
    }
    int64_t chosen = pages_gain(fmin(t[2], t[3]) / fmin(t[0], t[1]), b->m->page_parallel_gain);
    const double *stores = chosen > 100 ? &t[2] : &t[0];
    keep(b, &pages, chosen);
    keep(b, &gained, (int64_t)(100 * stores[0] / stores[1] + 0.5));
}

/* The same of one stream that is only read, and of rows. */
static void judge_sum(bench *b) {
    machine_field f;
    int rounds;
    if (!field_named(b->p->field[0], &f)) return;
    const int64_t stands = *machine_value(b->m, &f);
    if (!quiet(b->t[0], ROUNDS))
        note(b, &f, "stays, the machine was not quiet", stands);
    else
        keep(b, &f, pages_gain(differs(b, 1) ? against_first(b, 1, &rounds) : 1, stands));
}

/* Bytes a cycle, from the sum of a tensor that streams. */
static void keep_memory_rate(bench *b) {
    machine_field f;
    if (!field_named("memory_rate", &f)) return;
    double bytes = (double)b->size;
    spread s = spread_of(b->t[0], ROUNDS);
    if (quiet(b->t[0], ROUNDS)) keep(b, &f, (int64_t)(bytes / s.low / b->clock + 0.5));
}

static void probe_work(void *arg) {
    bench *b = arg;
    for (int i = 0; i < TRIALS && !(i && quiet(b->t[0], ROUNDS)); i++) run_rounds(b, 0);
    b->ran = true;
    if (b->p->kind == PROBE_NEG) judge_negation(b);
    if (b->p->kind == PROBE_SUM) keep_memory_rate(b);
    if (b->p->kind == PROBE_SUM || b->p->kind == PROBE_ROWS) judge_sum(b);
    if (b->p->kind == PROBE_PRODUCT) judge_product(b);
}

static void run_probe(bench *b, const probe *p) {
    machine_field f;
    b->p = p;
    b->ran = false;
    for (b->n = 1; b->n < VALUES && p->value[0][b->n]; b->n++) {
    }
    bool failed = guarded(b->in, probe_work, b) || !b->ran;
    qn_clear_error(b->in);
    unload_all(b);
    for (int j = 0; failed && j < 2 && p->field[j]; j++)
        if (field_named(p->field[j], &f))
            note(b, &f, "stays, its kernels did not run", *machine_value(b->m, &f));
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

static void measure_clock(bench *b) {
    machine_field f;
    b->clock = tune_clock_rate();
    if (field_named("clock_mhz", &f)) keep(b, &f, (int64_t)(b->clock / 1e6 + 0.5));
}

/* Cycles of a load: half of a cache, or four times the one before. The memory that kernels write is
 * not theirs yet. */
static void measure_latencies(bench *b) {
    const machine *m = b->m;
    const struct {
        const char *field;
        int64_t bytes;
    } row[] = {{"l1_latency", m->l1 / 2},
               {"l2_latency", m->l2 >= 4 * m->l1 ? m->l2 / 2 : 0},
               {"l3_latency", m->l3 >= 8 * m->l2 ? 4 * m->l2 : 0},
               {"memory_latency", (int64_t)b->size}};
    double t[ROUNDS];
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        machine_field f;
        if (!field_named(row[i].field, &f)) continue;
        if (row[i].bytes < 2 * m->line) {
            note(b, &f, "stays, there is no such cache", *machine_value(b->m, &f));
            continue;
        }
        tune_load_seconds(b->memory[0], (size_t)row[i].bytes, (size_t)m->line, ROUNDS, t);
        if (quiet(t, ROUNDS))
            keep(b, &f, (int64_t)(spread_of(t, ROUNDS).low * b->clock + 0.5));
        else
            note(b, &f, "stays, the machine was not quiet", *machine_value(b->m, &f));
    }
}

static void compile_stream(void *arg) {
    bench *b = arg;
    str text;
    cleanup c;
    str_open(&text, &b->in->heap);
    cleanup_push(&b->in->heap, &c, str_cleanup, &text);
    probe_text(b, &text);
    compile_value(b, text.s, 0);
    cleanup_run(&b->in->heap, &c);
}

static double stream_seconds(const bench *b) {
    const run_state *r = b->in->run;
    double start = clock_seconds();
    bool ran = !r->dev->launch(r->dev_state, b->program[0], 1, &(dev_set){.arg = b->arg});
    return ran ? clock_seconds() - start : INFINITY;
}

/* Both contexts' programs; was it quiet? */
static bool run_by_turns(bench by[2]) {
    for (int r = -1; r < ROUNDS; r++)
        for (int i = 0; i < 2; i++) {
            double t = stream_seconds(&by[i]);
            if (r >= 0) by[i].t[0][r] = t;
        }
    return quiet(by[0].t[0], ROUNDS) && quiet(by[1].t[0], ROUNDS);
}

/* The negation of a tensor that streams by all threads and by one, by turns. */
static void measure_memory_threads(bench *b) {
    static const probe stream = {{NULL}, PROBE_NEG, {{0}}};
    machine_field f;
    bench by[2] = {*b, *b};
    bool ran = b->all != NULL;
    if (!field_named("memory_threads", &f)) return;
    by[1].in = b->all;
    by[1].threads = processors();
    for (int i = 0; i < 2 && ran; i++) {
        by[i].p = &stream;
        ran = !guarded(by[i].in, compile_stream, &by[i]) && by[i].program[0];
        qn_clear_error(by[i].in);
    }
    bool calm = false;
    for (int trial = 0; trial < TRIALS && ran && !calm; trial++) calm = run_by_turns(by);
    for (int i = 0; i < 2 && b->all; i++) unload_all(&by[i]);
    int64_t stands = *machine_value(b->m, &f);
    double one = spread_of(by[0].t[0], ROUNDS).low, all = spread_of(by[1].t[0], ROUNDS).low;
    if (!b->all)
        note(b, &f, "stays, there is one thread", stands);
    else if (!calm)
        note(b, &f, "stays, the machine was not quiet", stands);
    else
        keep(b, &f, (int64_t)(100 * all / one + 0.5));
}

/* Host memory: small numbers. */
static void fill(const bench *b) {
    static const float wave[] = {0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, -0.5};
    for (size_t at = 0; at < b->size; at += sizeof wave)
        memcpy((char *)b->memory[1] + at, wave, sizeof wave);
}

static void close_bench(void *of) {
    bench *b = of;
    const run_state *r = b->in->run;
    for (int i = 0; i < 2; i++)
        if (b->memory[i]) r->dev->free(r->dev_state, b->memory[i], b->size);
    qn_close(b->all);
    qn_close(b->in);
}

/* The family's rates again. */
static void forget_measured(machine *m) {
    machine here = machine_here();
    machine_field f;
    machine_complete(&here);
    for (int i = 0; machine_field_at(i, &f); i++)
        if (f.kind == MACHINE_RATE) *machine_value(m, &f) = *machine_value(&here, &f);
}

static void measure(qn_ctx *qn, str *text) {
    machine m = qn->run->limits;
    bench b = {.qn = qn, .m = &m, .text = text, .threads = 1};
    if (m.members || !qn->run->dev->host_memory || !qn->run->dev->describe)
        raise_error(qn, QN_EARG, "machine: device %s is not measured, only cpu is",
                    qn->run->dev->name);
    b.in = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    if (!b.in) raise_error(qn, QN_EDEVICE, "machine: no context to measure in");
    cleanup c;
    cleanup_push(&qn->heap, &c, close_bench, &b);
    const run_state *r = b.in->run;
    if (r->dev->unfused || !r->dev->executes)
        raise_error(qn, QN_EDEVICE, "machine: device %s runs no kernels", r->dev->name);
    if (m.source && !strcmp(m.source, "measured")) forget_measured(&m);
    if (processors() > 1) b.all = qn_open(&QN_OPTIONS(.device = "cpu", .threads = processors()));
    b.size = (size_t)streamed_elements(&m) * sizeof(float);
    for (int i = 0; i < 2; i++) b.memory[i] = r->dev->alloc(r->dev_state, b.size);
    if (!b.memory[0] || !b.memory[1]) raise_error(qn, QN_ENOMEM, "machine: no memory to measure");
    str_addf(text, "# %s, measured by quern %s\n", m.name, qn_version());
    measure_clock(&b);
    measure_latencies(&b);
    fill(&b);
    measure_fork(&b);
    for (size_t i = 0; i < COUNT_OF(probes); i++) run_probe(&b, &probes[i]);
    measure_memory_threads(&b);
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
