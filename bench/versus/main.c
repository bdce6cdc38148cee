/* main.c - the director: every case, every player, by turns.
 *
 *     versus [-t THREADS] [-f FAMILY] [-c CASE] [-p PLAYER,...] [-n ROUNDS] [-s SECONDS]
 *            [--check] [--quick] [--list] [--machines]
 * A round asks each player for one sample, between probes of the machine; rounds go on until enough
 * were quiet or the case has used its seconds; how many were is in the column "quiet".
 * A ratio is the median over rounds of (peer / Quern): measured within the same second. */
#include "../limits.h"
#include "versus.h"

#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESULTS = 512 };
#define SAMPLE_SECONDS 0.04
#define QUIET          0.04
#define TOLERANCE      1e-4

typedef struct entry { /* a player in one case */
    vs_client *client;
    const char *why; /* it does not play */
    int reps;
    double once, t[VS_ROUNDS];
    bool slow; /* far behind another peer: not asked again */
    double value[VS_SAMPLES];
    bool checked;
} entry;

typedef struct match {
    const vs_case *c;
    const vs_options *o;
    int threads, n, rounds, quiet;
    bool calm[VS_ROUNDS]; /* the round was quiet */
    entry e[VS_PLAYERS];
    double fma[VS_ROUNDS], read[VS_ROUNDS], copy[VS_ROUNDS];
    char note[256];
} match;

/* ---- right results ---- */

int vs_sample_points(const vs_case *c, int64_t *at) {
    int64_t size = vs_output(c);
    int n = size < VS_SAMPLES ? (int)size : VS_SAMPLES;
    for (int i = 0; i < n; i++) at[i] = i;
    if (n == size) return n;
    for (int i = 0; i < n; i++)
        at[i] =
            i == n - 1 ? size - 1 : (int64_t)((double)i * 0.0833 * (double)size) + (i & 3) % size;
    return n;
}

double vs_tolerance(const vs_case *c, bool quern) {
    if (c->kind == VS_SUM_ALL && !quern) return 1e-3; /* some sum in one chain */
    if (c->kind == VS_GEMM_BF16) return 1e-2;         /* its result is rounded too */
    return c->kind == VS_MLP ? 1e-3 : TOLERANCE;
}

/* The greatest error relative to the greatest value; values without a definition are compared with
 * those of the first player that has them. */
double vs_error(const double *value, const double *expected, int n) {
    double worst = 0, scale = 1e-30;
    for (int i = 0; i < n; i++)
        if (!isnan(expected[i])) scale = fmax(scale, fabs(expected[i]));
    for (int i = 0; i < n; i++) {
        if (isnan(expected[i])) continue;
        double e = isnan(value[i]) ? INFINITY : fabs(value[i] - expected[i]) / scale;
        worst = fmax(worst, e);
    }
    return worst;
}

/* A small GPT's losses have a source beside the peers: the oracle device. A large one would take it
 * an hour. */
static bool ask_ref(const match *m, int n, const int64_t *at, double *out) {
    vs_client *ref = vs_start("ref", m->threads);
    bool ok = ref && !vs_load(ref, m->c) && vs_check(ref, n, at, out);
    vs_stop(ref);
    return ok;
}

static void check_values(match *m, double *quern_error) {
    int64_t at[VS_SAMPLES];
    double expected[VS_SAMPLES];
    int n = vs_sample_points(m->c, at);
    for (int i = 0; i < n; i++) expected[i] = vs_expected(m->c, at[i]);
    if (m->c->kind == VS_GPT && vs_flops(m->c) < 1e10) ask_ref(m, n, at, expected);
    for (int p = m->n - 1; p >= 0; p--) { /* Quern last: peers may have to define a value */
        entry *e = &m->e[p];
        if (e->why) continue;
        e->checked = vs_check(e->client, n, at, e->value);
        double error = e->checked ? vs_error(e->value, expected, n) : INFINITY;
        if (p == 0) *quern_error = error;
        if (error > vs_tolerance(m->c, p == 0)) {
            e->why = e->checked ? "wrong values" : "failed";
            snprintf(m->note + strlen(m->note), sizeof m->note - strlen(m->note), "%s%s: %s (%.1e)",
                     m->note[0] ? "; " : "", vs_client_name(e->client), e->why, error);
            continue;
        }
        for (int i = 0; i < n; i++)
            if (isnan(expected[i])) expected[i] = e->value[i];
    }
}

/* ---- time ---- */

static void choose_reps(entry *e) {
    double once = vs_time(e->client, 1);
    if (once > 0 && once < SAMPLE_SECONDS / 4) once = vs_time(e->client, 3);
    if (once <= 0) e->why = "failed";
    e->reps = once > 0 && once < SAMPLE_SECONDS ? (int)(SAMPLE_SECONDS / once) + 1 : 1;
    if (e->reps > 20000) e->reps = 20000;
    e->once = once;
}

/* Only the best peer counts, so those far behind it need no rounds. */
static void leave_slow(match *m) {
    double best = 1e9;
    for (int p = 1; p < m->n; p++)
        if (!m->e[p].why) best = fmin(best, m->e[p].once);
    for (int p = 1; p < m->n; p++) m->e[p].slow = m->e[p].once > 2.5 * best;
}

enum { ENOUGH = 3 };

/* The median of the quiet rounds; on a machine that is never quiet, the fastest of all. */
static double typical(const match *m, const double *t) {
    double v[VS_ROUNDS];
    int n = 0;
    for (int i = 0; i < m->rounds; i++)
        if (m->calm[i] || m->quiet < ENOUGH) v[n++] = t[i];
    double middle = bench_median(v, n);
    return m->quiet < ENOUGH ? v[0] : middle;
}

static double typical_ratio(const match *m, const double *peer, const double *quern) {
    double ratio[VS_ROUNDS];
    for (int i = 0; i < m->rounds; i++) ratio[i] = peer[i] / quern[i];
    return m->quiet < ENOUGH ? typical(m, peer) / typical(m, quern) : typical(m, ratio);
}

/* The most the machine was seen to do: what disturbs a measurement only lowers it. */
static double most(const double *v, int n) {
    double best = 0;
    for (int i = 0; i < n; i++) best = fmax(best, v[i]);
    return best;
}

static void measure_limits(match *m, int round) {
    bool cached = vs_read(m->c) + vs_written(m->c) < 0.75 * (double)vs_l2() * m->threads;
    m->fma[round] = vs_measure(VS_PEAK, m->threads);
    m->read[round] = vs_measure(cached ? VS_L2_READ : VS_MEMORY_READ, m->threads);
    m->copy[round] = vs_measure(cached ? VS_L2_COPY : VS_MEMORY_COPY, m->threads);
    if (cached) return;
    double nt = vs_measure(VS_MEMORY_STREAM, m->threads);
    if (nt > m->copy[round]) m->copy[round] = nt;
}

/* Rounds of one sample each. A disturbed one is measured again, unless time is short. */
static void play(match *m) {
    double start = bench_now(), before = vs_stolen(m->threads);
    bool fussy = !m->o->quick;
    while (m->rounds < m->o->rounds) {
        bool quiet = before < QUIET;
        for (int p = 0; p < m->n; p++) {
            entry *e = &m->e[p];
            if (e->why || e->slow) continue;
            e->t[m->rounds] = vs_time(e->client, e->reps);
            if (e->t[m->rounds] < 0) e->why = "failed";
            double after = vs_stolen(m->threads);
            quiet &= after < QUIET;
            before = after;
        }
        measure_limits(m, m->rounds);
        double used = bench_now() - start;
        bool late = used > m->o->seconds;
        if (quiet || !fussy || late || used > m->o->seconds * (m->rounds + 1) / m->o->rounds) {
            m->calm[m->rounds++] = quiet;
            m->quiet += quiet;
        }
        if (late && m->rounds >= 2) break;
    }
}

/* What the processor's instructions for narrow types do more than its multiply-adds in f32. */
static double narrow_factor(vs_kind kind) {
    if (kind == VS_GEMM_I8 && __builtin_cpu_supports("avx512vnni")) return 4;
    bool slow = __builtin_cpu_is("intel"); /* a dot of bf16 takes as long as four of them */
    if (kind == VS_GEMM_BF16 && __builtin_cpu_supports("avx512bf16") && !slow) return 2;
    return 1;
}

/* Quern's share of the machine's limit: the longer of its arithmetic and its memory traffic. */
static void against_limit(const match *m, vs_result *r) {
    double read = vs_read(m->c), written = vs_written(m->c), both = fmin(read, written);
    double fma = most(m->fma, m->rounds) * narrow_factor(m->c->kind);
    double compute = vs_flops(m->c) / fma;
    double memory = 2 * both / most(m->copy, m->rounds) +
                    (read + written - 2 * both) / most(m->read, m->rounds);
    r->compute = compute > memory;
    r->limit = r->compute ? compute : memory;
    r->fma = fma;
    r->copy = (read + written) / memory;
    if (r->quern > 0) r->limit_ratio = r->limit / r->quern;
}

static void against_peers(match *m, vs_result *r) {
    size_t used = 0;
    for (int p = 1; p < m->n; p++) {
        entry *e = &m->e[p];
        if (e->why) continue;
        double t = e->slow ? e->once : typical(m, e->t);
        used += (size_t)snprintf(r->peers + used, sizeof r->peers - used, "%s\"%s\":%.6g",
                                 used ? "," : "", vs_client_name(e->client), t);
        if (e->slow || (r->best > 0 && t >= r->best)) continue;
        r->best = t;
        r->peer = vs_client_name(e->client);
        if (!m->e[0].why) r->ratio = typical_ratio(m, e->t, m->e[0].t);
    }
}

static vs_result measure(const vs_case *c, const vs_options *o, int threads, int n,
                         vs_client *const *clients) {
    static match m; /* large */
    m = (match){.c = c, .o = o, .threads = threads, .n = n};
    vs_result r = {.c = c, .threads = threads};
    for (int p = 0; p < n; p++) {
        m.e[p].client = clients[p];
        m.e[p].why = vs_load(clients[p], c);
    }
    if (m.e[0].why) snprintf(m.note, sizeof m.note, "%s", m.e[0].why);
    check_values(&m, &r.error);
    for (int p = 0; p < n; p++)
        if (!m.e[p].why) choose_reps(&m.e[p]);
    leave_slow(&m);
    play(&m);
    r.samples = m.rounds;
    r.quiet = m.quiet;
    if (!m.e[0].why) r.quern = typical(&m, m.e[0].t);
    against_peers(&m, &r);
    against_limit(&m, &r);
    r.note = m.note[0] ? strdup(m.note) : "";
    return r;
}

static vs_result measure_latency(const vs_case *c, const vs_options *o, int threads) {
    vs_result r = {.c = c, .threads = threads, .note = ""};
    double t[VS_ROUNDS];
    const char *why = NULL;
    int rounds = c->kind == VS_PLAN ? 1 : o->rounds;
    for (; r.samples < rounds && !why; r.samples++) {
        r.quiet += vs_stolen(threads) < QUIET;
        why = vs_latency(c, threads, &t[r.samples]);
    }
    if (why)
        r.note = why;
    else
        r.quern = bench_median(t, r.samples);
    return r;
}

/* ---- the whole ---- */

static bool wanted(const char *list, const char *name) {
    size_t n = strlen(name);
    if (!list) return true;
    for (const char *s = list; s; s = strchr(s, ','), s = s ? s + 1 : NULL)
        if (!strncmp(s, name, n) && (s[n] == 0 || s[n] == ',')) return true;
    return false;
}

static int run_threads(const vs_options *o, int threads, vs_result *out) {
    const char *const *names;
    int all = vs_names(&names), n = 0, count = 0;
    vs_client *clients[VS_PLAYERS];
    for (int i = 0; i < all; i++) {
        if (i && !wanted(o->players, names[i])) continue;
        vs_client *c = vs_start(names[i], threads);
        if (c) clients[n++] = c;
    }
    for (int i = 0; i < vs_case_count && count < RESULTS && n; i++) {
        const vs_case *c = &vs_cases[i];
        bool own = c->kind >= VS_COMPILE;
        if (c->kind == VS_FORK_JOIN && threads < 2) continue;
        if (o->family && !wanted(o->family, c->family)) continue;
        if (o->name && !strstr(c->name, o->name)) continue;
        out[count] = own ? measure_latency(c, o, threads) : measure(c, o, threads, n, clients);
        vs_report(&out[count++]);
    }
    for (int i = 0; i < n; i++) vs_stop(clients[i]);
    return count;
}

static int usage(void) {
    fprintf(stderr, "usage: versus [-t THREADS] [-f FAMILY,...] [-c CASE] [-p PLAYER,...] "
                    "[-n ROUNDS] [-s SECONDS]\n              [-o FOLDER] [--check] [--quick] "
                    "[--list] [--machines]\n");
    return 2;
}

static int list(void) {
    for (int i = 0; i < vs_case_count; i++)
        printf("%-15s %-24s %.3g Mflop, %.3g MB\n", vs_cases[i].family, vs_cases[i].name,
               vs_flops(&vs_cases[i]) * 1e-6,
               (vs_read(&vs_cases[i]) + vs_written(&vs_cases[i])) * 1e-6);
    return 0;
}

static bool option(vs_options *o, const char *flag, const char *value) {
    if (!value || flag[0] != '-' || !flag[1] || flag[2]) return false;
    switch (flag[1]) {
    case 't':
        o->threads = atoi(value);
        break;
    case 'n':
        o->rounds = atoi(value);
        break;
    case 's':
        o->seconds = atof(value);
        break;
    case 'f':
        o->family = value;
        break;
    case 'c':
        o->name = value;
        break;
    case 'p':
        o->players = value;
        break;
    case 'o':
        o->folder = value;
        break;
    default:
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    static vs_result results[RESULTS];
    vs_options o = {.rounds = 7, .seconds = 25, .folder = "build/bench"};
    if (argc == 4 && !strcmp(argv[1], "--serve")) return vs_serve(argv[2], atoi(argv[3]));
    if (argc == 2 && !strcmp(argv[1], "--once")) return vs_once();
    bool machines = false;
    signal(SIGPIPE, SIG_IGN);     /* a player that was killed is one player less, and not the end */
    setenv("QN_CACHE", "off", 1); /* compiling is measured, too; warm starts name their folder */
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list")) return list();
        if (!strcmp(argv[i], "--check"))
            o.check = true;
        else if (!strcmp(argv[i], "--machines"))
            machines = true;
        else if (!strcmp(argv[i], "--quick"))
            o.quick = true;
        else if (option(&o, argv[i], argv[i + 1]))
            i++;
        else
            return usage();
    }
    if (machines) return vs_machines(&o);
    if (o.quick && o.rounds > 3) o.rounds = 3;
    if (o.rounds < 1 || o.rounds > VS_ROUNDS || o.threads < 0 || o.threads > 2) return usage();
    int n = 0;
    vs_report_head();
    if (o.threads != 2) n += run_threads(&o, 1, results);
    if (o.threads != 1) n += run_threads(&o, 2, results + n);
    char path[4096];
    mkdir(o.folder, 0777);
    snprintf(path, sizeof path, "%s/versus.jsonl", o.folder);
    int bad = vs_report_write(path, &o, n, results);
    snprintf(path, sizeof path, "%s/roofline.svg", o.folder);
    bad |= vs_roofline(path, n, results);
    vs_summary(n, results);
    return o.check ? vs_floors(n, results) != 0 : bad != 0;
}
