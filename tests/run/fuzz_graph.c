/* fuzz_graph.c - random graphs, run by the compiler and by the oracle, and compared.
 *
 * fuzz_graph [graphs [seed [mode [apart | asked]]]]
 *
 * Graph i of a run depends on seed + i and the mode only, so `fuzz_graph 1 <its seed> <mode>`
 * repeats it. Modes are the whole compiler on the CPU, the same without schedules, without
 * fusion, as static graphs, an interpreter of kernel trees, which is quick for small graphs, the
 * same with kernels run by work groups, the C compiler, and OpenCL; without one given they take
 * turns. Those that begin with bits compare with the CPU without fusion instead, and bit by bit;
 * those with once also compare values with what is stored of them in the same run, which has to be
 * the same; mapped ones are recorded of one example and made for several by qn_vmap.
 *
 * all-cpu, all-cc and all-opencl are the modes by one compiler that are compared with ref: a
 * graph's seed says which, so that `make soak` can go on where it was. `count` runs nothing, but
 * says of which rows of ops.h the graphs are made.
 *
 * Without arguments as many graphs are run as fit into a minute. A failing graph is made smaller
 * and printed as calls; `apart` gives each graph a process, so that a crash can be made smaller,
 * too; `asked` computes nothing, but prints for each graph what the device is asked, as a number
 * (asked_device.h, SOAK_WAS of tools/soak.sh). random_program.h says what is generated. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asked_device.h"
#include "device_here.h"
#include "interp_device.h"
#include "random_program.h"
#include "soak_line.h"

/* ---- running ------------------------------------------------------------------------------- */

/* Ways to run: the whole compiler, parts of it switched off, the interpreter of kernel trees. */
typedef enum engine {
    ON_CPU,
    BY_CC,
    ON_OPENCL,
    INTERPRETED,
    BY_GROUPS
} engine; /* INTERPRETED: small */
static const struct {
    const char *name, *knob, *value;
    engine by;
    way how;
} modes[] = {{"cpu", NULL, NULL, ON_CPU, EFFECTS},
             {"unscheduled", "schedule", "0", ON_CPU, EFFECTS},
             {"unfused", "fuse", "0", ON_CPU, EFFECTS},
             {"interp", NULL, NULL, INTERPRETED, EFFECTS},
             {"static", NULL, NULL, ON_CPU, STATIC},
             {"symbolic", NULL, NULL, ON_CPU, SYMBOLIC},
             {"symbolic-interp", NULL, NULL, INTERPRETED, SYMBOLIC},
             {"groups", NULL, NULL, BY_GROUPS, EFFECTS},
             {"symbolic-groups", NULL, NULL, BY_GROUPS, SYMBOLIC},
             {"cc", NULL, NULL, BY_CC, EFFECTS},
             {"opencl", NULL, NULL, ON_OPENCL, EFFECTS},
             {"static-cc", NULL, NULL, BY_CC, STATIC},
             {"static-opencl", NULL, NULL, ON_OPENCL, STATIC},
             {"symbolic-cc", NULL, NULL, BY_CC, SYMBOLIC},
             {"symbolic-opencl", NULL, NULL, ON_OPENCL, SYMBOLIC},
             {"once", NULL, NULL, ON_CPU, ONCE},
             {"once-interp", NULL, NULL, INTERPRETED, ONCE},
             {"once-cc", NULL, NULL, BY_CC, ONCE},
             {"once-opencl", NULL, NULL, ON_OPENCL, ONCE},
             {"bits", NULL, NULL, ON_CPU, BITS},
             {"bits-unscheduled", "schedule", "0", ON_CPU, BITS_ALL},
             {"bits-interp", "schedule", "0", INTERPRETED, BITS_ALL},
             {"bits-cc", NULL, NULL, BY_CC, BITS},
             {"bits-opencl", NULL, NULL, ON_OPENCL, BITS},
             {"mapped", NULL, NULL, ON_CPU, MAPPED},
             {"mapped-interp", NULL, NULL, INTERPRETED, MAPPED},
             {"mapped-cc", NULL, NULL, BY_CC, MAPPED},
             {"mapped-opencl", NULL, NULL, ON_OPENCL, MAPPED}};

/* Modes that take turns, by a graph's seed. */
enum { TURNS = 8 };
static const struct {
    const char *name, *mode[TURNS];
} groups[] = {
    {"all-cpu", {"cpu", "static", "cpu", "symbolic", "mapped", "unscheduled", "unfused", "once"}},
    {"all-cc", {"cc", "static-cc", "cc", "symbolic-cc", "mapped-cc", "once-cc"}},
    {"all-opencl",
     {"opencl", "static-opencl", "opencl", "symbolic-opencl", "mapped-opencl", "once-opencl"}}};

typedef struct fuzzer {
    qn_ctx *qn, *ref;
    int mode, group;  /* group: of which modes take turns, -1: none */
    row_tally *count; /* nothing is run */
    bool asked;       /* nothing is computed */
    bool apart; /* each graph in a process of its own, so that a crash is a failure like others */
    uint64_t seed;
    int64_t var; /* the dimension variable of a symbolic mode */
    int64_t graphs, failed, refused, steps, slopes, vague;
    uint64_t compiles;
    double compile_seconds;
} fuzzer;

static void show_line(void *user, const char *line) { /* of QN_DEBUG */
    (void)user;
    puts(line);
}

enum { LEAST = 4, MOST = 200 }; /* values of a dimension variable */

static void close_contexts(fuzzer *f) {
    qn_stats s = {.compiles = 0};
    if (f->qn) qn_get_stats(f->qn, &s, sizeof s);
    f->compiles += s.compiles, f->compile_seconds += s.compile_seconds;
    qn_close(f->qn), qn_close(f->ref);
    f->qn = f->ref = NULL;
}

static bool open_contexts(fuzzer *f) {
    qn_options o = QN_OPTIONS(.device = "cpu", .log = show_line), ref = QN_OPTIONS(.device = "ref");
    close_contexts(f);
    engine by = modes[f->mode].by;
    bool bits = modes[f->mode].how >= BITS;
    if (by == ON_OPENCL) o.device = "opencl";
    if (by == ON_OPENCL && !device_here(o.device)) return false;
    if (by == BY_CC) setenv("QN_CPU", "cc", 1);
    f->qn = by >= INTERPRETED ? interp_open(&o, by == BY_GROUPS ? 8 : 0) : qn_open(&o);
    if (by == BY_CC) unsetenv("QN_CPU");
    if (bits) ref.device = "cpu";
    f->ref = bits && by == INTERPRETED ? interp_open(&ref, 0) : qn_open(&ref);
    if (f->qn && f->asked) asked_open(f->qn, by == ON_CPU);
    if (f->qn && modes[f->mode].knob) qn_set(f->qn, modes[f->mode].knob, modes[f->mode].value);
    if (f->ref && bits && modes[f->mode].knob)
        qn_set(f->ref, modes[f->mode].knob, modes[f->mode].value);
    if (f->ref && bits) qn_set(f->ref, "fuse", "0");
    f->var = f->qn && modes[f->mode].how == SYMBOLIC ? qn_var(f->qn, "t", LEAST, MOST) : 0;
    return f->qn && f->ref;
}

/* Which size of the program is to be the variable? The first input's first within its range. */
static void choose_variable(program *p, int64_t var) {
    for (int i = 0; i < p->steps && !p->var; i++)
        for (int d = 0; p->step[i].op == OP_BUFFER && d < p->step[i].rank && !p->var; d++)
            if (p->step[i].dim[d] >= LEAST && p->step[i].dim[d] <= MOST)
                p->var = var, p->size = p->step[i].dim[d];
    if (!p->var) p->var = var, p->size = 7;
    p->twice = true;
}

static verdict run_here(void *user, const program *p) {
    fuzzer *f = user;
    return compare(f->qn, f->asked ? NULL : f->ref, p, modes[f->mode].how);
}

static verdict run_apart(void *user, const program *p) {
    fuzzer *f = user;
    verdict v = blame(-1, "crashed");
    int ends[2];
    fflush(stdout);
    if (pipe(ends)) return v;
    pid_t child = fork();
    if (child == 0) {
        fuzzer own = {.mode = f->mode};
        program mine = *p;
        bool open = open_contexts(&own);
        if (mine.var) mine.var = own.var;
        if (open) v = compare(own.qn, own.ref, &mine, modes[f->mode].how);
        _exit(write(ends[1], &v, sizeof v) != (ssize_t)sizeof v);
    }
    close(ends[1]);
    if (read(ends[0], &v, sizeof v) != (ssize_t)sizeof v) v = blame(-1, "crashed");
    close(ends[0]);
    waitpid(child, NULL, 0);
    return v;
}

static fuzzer fuzz = {.graphs = 0};

/* A crash cannot be shrunk in this process, but says how to repeat it in one that survives. */
static void crashed(int number) {
    char text[120];
    int n = snprintf(text, sizeof text, "crashed: fuzz_graph 1 %llu %s apart\n",
                     (unsigned long long)fuzz.seed, modes[fuzz.mode].name);
    if (write(1, text, (size_t)n) != n) _exit(2);
    signal(number, SIG_DFL);
    raise(number);
}

static void count_graph(fuzzer *f, const program *p) {
    values v = {.count = f->count};
    if (!run_program(f->ref, p, PURE, &v)) f->failed++, puts(qn_error(f->ref));
}

static void one_graph(fuzzer *f, uint64_t seed) {
    program p;
    program_runner run = f->apart ? run_apart : run_here;
    f->seed = state = seed;
    (void)test_rand(&state);
    random_program(&p, modes[f->mode].by == INTERPRETED);
    f->graphs++, f->steps += p.steps;
    if (f->count) {
        count_graph(f, &p);
        return;
    }
    if (modes[f->mode].how == SYMBOLIC) choose_variable(&p, f->apart ? -2 : f->var);
    if (f->asked) asked_begin();
    verdict v = run(f, &p);
    if (f->asked)
        printf("%llu %016llx\n", (unsigned long long)seed, (unsigned long long)asked_now.hash);
    f->refused += v.refused, f->slopes += v.slopes, f->vague += v.vague;
    if (!v.failed) return;
    f->failed++;
    printf("FAIL fuzz_graph 1 %llu %s: %s\n", (unsigned long long)seed, modes[f->mode].name,
           v.text);
    shrink(run, f, &p, &v, 400);
    printf(" smaller: %s\n", v.text);
    print_program(&p);
}

static int find_mode(const char *name) {
    for (int m = 0; m < (int)COUNT_OF(modes); m++)
        if (!strcmp(name, modes[m].name)) return m;
    return -1;
}

static int find_group(const char *name) {
    for (int i = 0; i < (int)COUNT_OF(groups); i++)
        if (!strcmp(name, groups[i].name)) return i;
    return -1;
}

/* For so many seeds one after the other: a context is opened for them. */
static int mode_of_group(int group, uint64_t block) {
    int turns = 0;
    while (turns < TURNS && groups[group].mode[turns]) turns++;
    return find_mode(groups[group].mode[block % (uint64_t)turns]);
}

/* Many small graphs, fused against unfused, bit by bit. */
static void compare_bits(fuzzer *f, uint64_t seed, int64_t graphs) {
    f->mode = find_mode("bits-interp");
    if (!open_contexts(f)) f->failed = 5, puts("no context");
    for (int64_t i = 0; i < graphs && f->failed < 5; i++) one_graph(f, seed + (uint64_t)i);
}

enum { BLOCK = 250, FEW = 8 }; /* graphs between two mode changes; where a kernel takes long */

/* A line that tools/soak.sh adds up, of groups; else one of how long it took. */
static void say_what_was_run(const fuzzer *f, uint64_t seed, double seconds) {
    int64_t compared = f->graphs - f->refused;
    printf("%lld graphs of %.1f steps in %.1f s, seeds from %llu; %llu kernels, %.1f ms each\n",
           (long long)f->graphs, (double)f->steps / (double)(f->graphs ? f->graphs : 1), seconds,
           (unsigned long long)seed, (unsigned long long)f->compiles,
           1e3 * f->compile_seconds / (double)(f->compiles ? f->compiles : 1));
    if (f->slopes || f->vague)
        printf("%lld gradients compared, %lld have no bounds\n", (long long)f->slopes,
               (long long)f->vague);
    if (f->refused) printf("%lld of them suit no variable\n", (long long)f->refused);
    if (f->group < 0) return;
    soak_line(stdout, groups[f->group].name, seed, seed + (uint64_t)f->graphs - 1,
              (soak_counts){f->graphs, compared, f->slopes, compared, f->failed});
}

static int count_only(fuzzer *f, uint64_t seed, int64_t graphs) {
    static row_tally count;
    f->count = &count;
    if (!open_contexts(f)) return puts("no context"), 1;
    for (int64_t i = 0; i < graphs; i++) one_graph(f, seed + (uint64_t)i);
    close_contexts(f);
    print_rows(&count);
    return f->failed > 0;
}

static int no_such_mode(const char *name) {
    printf("no mode \"%s\"; there are:", name);
    for (size_t m = 0; m < COUNT_OF(modes); m++) printf(" %s", modes[m].name);
    for (size_t i = 0; i < COUNT_OF(groups); i++) printf(" %s", groups[i].name);
    puts(" count");
    return 2;
}

/* fuzz_graph [graphs [seed [mode [apart | asked]]]] */
int main(int argc, char **argv) {
    fuzzer *f = &fuzz;
    int64_t graphs = argc > 1 ? atoll(argv[1]) : INT64_MAX;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    const char *name = argc > 3 ? argv[3] : "";
    int only = find_mode(name);
    f->group = find_group(name);
    test_begin(1, argv);
    if (!strcmp(name, "count")) return count_only(f, seed, graphs);
    if (argc > 3 && only < 0 && f->group < 0) return no_such_mode(name);
    if (!strcmp(name, "all-opencl") && !device_here("opencl"))
        return puts("no OpenCL device here"), 0;
    f->asked = argc > 4 && !strcmp(argv[4], "asked");
    f->apart = argc > 4 && !f->asked;
    signal(SIGSEGV, crashed), signal(SIGABRT, crashed), signal(SIGFPE, crashed);
    bool slow = false, skip = false;
    if (argc == 1) compare_bits(f, 1000000, 4000);
    double start = clock_seconds(), limit = argc > 1 ? INFINITY : 60;
    for (int64_t i = 0; i < graphs && f->failed < 5 && clock_seconds() - start < limit; i++) {
        uint64_t block = (f->group < 0 ? (uint64_t)i : seed + (uint64_t)i) / BLOCK;
        if (i == 0 || (f->group < 0 ? (uint64_t)i : seed + (uint64_t)i) % BLOCK == 0) {
            f->mode = only >= 0       ? only
                      : f->group >= 0 ? mode_of_group(f->group, block)
                                      : (int)(block % COUNT_OF(modes));
            bool opened = f->apart || open_contexts(f);
            slow = argc < 4 && (modes[f->mode].by == ON_OPENCL || modes[f->mode].by == BY_CC);
            skip = !opened && modes[f->mode].by == ON_OPENCL && argc < 4;
            if (skip) puts("no OpenCL device here");
            if (!opened && !skip) f->failed = 5, puts("no context");
        }
        if (argc > 1 && i && i % 1000 == 0 && !f->asked)
            printf("%lld graphs, %.0f s\n", (long long)i, clock_seconds() - start);
        if (f->failed < 5 && !skip && (!slow || i % BLOCK < FEW)) one_graph(f, seed + (uint64_t)i);
    }
    close_contexts(f);
    say_what_was_run(f, seed, clock_seconds() - start);
    int64_t passed =
        argc > 1 ? f->graphs - f->failed : f->failed == 0; /* the suite counts one test */
    printf("%lld passed, %lld failed, 0 skipped\n", (long long)passed, (long long)f->failed);
    return f->failed ? 1 : 0;
}
