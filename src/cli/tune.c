/* tune.c - `quern tune` and `quern wisdom`: look for faster schedules, and carry what was found.
 *
 * What is tuned are kernels given as text in a file, as QN_DEBUG=k prints them, or the kernels of
 * common computations, rows of a table here. What was found is kept as the search goes (see
 * QN_WISDOM): after an interruption the same command goes on where it ended, and what has had its
 * seconds is passed over. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is to tune ------------------------------------------------------------------- */

typedef enum kind {
    ADD,
    GELU,
    SUM_ROWS,
    SUM_COLUMNS,
    SOFTMAX,
    LAYER_NORM,
    RMS_NORM,
    TRANSPOSE,
    GEMM,
    GEMM_TURNED, /* the second operand transposed */
    LINEAR,      /* gelu(x w + b) */
    KINDS
} kind;

static const char *const kind_names[KINDS] = {"add",     "gelu",        "sum_rows", "sum_columns",
                                              "softmax", "layer_norm",  "rms_norm", "transpose",
                                              "gemm",    "gemm_turned", "linear"};

/* [n, m], or products [n, k] [k, m]. */
static const struct {
    kind kind;
    int64_t n, m, k;
} cases[] = {
    {ADD, 181, 181, 0},           {ADD, 4096, 4096, 0},         {GELU, 181, 181, 0},
    {GELU, 2048, 2048, 0},        {SUM_ROWS, 128, 256, 0},      {SUM_ROWS, 2048, 2048, 0},
    {SUM_COLUMNS, 128, 256, 0},   {SUM_COLUMNS, 2048, 2048, 0}, {SOFTMAX, 128, 256, 0},
    {SOFTMAX, 1024, 1024, 0},     {SOFTMAX, 4096, 4096, 0},     {LAYER_NORM, 128, 256, 0},
    {LAYER_NORM, 1024, 1024, 0},  {LAYER_NORM, 4096, 4096, 0},  {RMS_NORM, 1024, 1024, 0},
    {TRANSPOSE, 181, 181, 0},     {TRANSPOSE, 1024, 1024, 0},   {TRANSPOSE, 4096, 4096, 0},
    {GEMM, 64, 64, 64},           {GEMM, 128, 128, 128},        {GEMM, 256, 256, 256},
    {GEMM, 512, 512, 512},        {GEMM, 1024, 1024, 1024},     {GEMM, 128, 768, 768},
    {GEMM, 1, 1024, 1024},        {GEMM, 8, 2048, 2048},        {GEMM_TURNED, 1, 1024, 1024},
    {GEMM_TURNED, 8, 2048, 2048}, {GEMM_TURNED, 512, 512, 512}, {LINEAR, 128, 768, 768},
    {LINEAR, 256, 1024, 256},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void case_name(int i, char name[64]) {
    if (cases[i].k)
        snprintf(name, 64, "%s_%lldx%lldx%lld", kind_names[cases[i].kind], (long long)cases[i].n,
                 (long long)cases[i].m, (long long)cases[i].k);
    else
        snprintf(name, 64, "%s_%lldx%lld", kind_names[cases[i].kind], (long long)cases[i].n,
                 (long long)cases[i].m);
}

/* A tensor with memory; its values are of no account, kernels are measured on inputs of their
 * own. */
static qn_tensor *input(qn_ctx *qn, int64_t n, int64_t m) {
    void *zero = calloc((size_t)(n * m), sizeof(float));
    qn_tensor *t = zero ? qn_from(qn, QN_F32, 2, (int64_t[]){n, m}, zero) : NULL;
    free(zero);
    return t;
}

static qn_tensor *build(qn_ctx *qn, int i) {
    int64_t n = cases[i].n, m = cases[i].m, k = cases[i].k;
    qn_tensor *x = input(qn, n, k ? k : m);
    switch (cases[i].kind) {
    case ADD:
        return qn_add(x, input(qn, n, m));
    case GELU:
        return qn_gelu(x);
    case SUM_ROWS:
        return qn_sum(x, 1, false);
    case SUM_COLUMNS:
        return qn_sum(x, 0, false);
    case SOFTMAX:
        return qn_softmax(x, 1);
    case LAYER_NORM:
        return qn_layer_norm(x, input(qn, 1, m), input(qn, 1, m), 1e-5);
    case RMS_NORM:
        return qn_rms_norm(x, input(qn, 1, m), 1e-5);
    case TRANSPOSE:
        return qn_contiguous(qn_transpose(x, 0, 1));
    case GEMM:
        return qn_matmul(x, input(qn, k, m));
    case GEMM_TURNED:
        return qn_matmul(x, qn_transpose(input(qn, m, k), 0, 1));
    case LINEAR:
        return qn_gelu(qn_add(qn_matmul(x, input(qn, k, m)), input(qn, 1, m)));
    default:
        return NULL;
    }
}

/* ---- quern tune ------------------------------------------------------------------------------ */

typedef struct tune_options {
    const char *kernels, *only, *device;
    double seconds;
    int64_t threads;
    bool regroup, again, list;
} tune_options;

static const option tune_rows[] = {
    {"kernels", OPTION_TEXT, offsetof(tune_options, kernels), 0, 0, "FILE",
     "tune the kernels in this file, as QN_DEBUG=k prints them"},
    {"case", OPTION_TEXT, offsetof(tune_options, only), 0, 0, "TEXT",
     "only built-in cases with this in their names (all)"},
    {"list", OPTION_FLAG, offsetof(tune_options, list), 0, 0, NULL, "list the built-in cases"},
    {"seconds", OPTION_NUMBER, offsetof(tune_options, seconds), 0.01, 1e7, "S",
     "for each case, or for the whole file (10)"},
    {"again", OPTION_FLAG, offsetof(tune_options, again), 0, 0, NULL,
     "also what has had its seconds"},
    {"regroup", OPTION_FLAG, offsetof(tune_options, regroup), 0, 0, NULL,
     "also group sums in another way, which changes last bits"},
    {"threads", OPTION_WHOLE, offsetof(tune_options, threads), 0, 4096, "N",
     "threads to tune for (the processors there are)"},
    {"device", OPTION_TEXT, offsetof(tune_options, device), 0, 0, "NAME",
     "cpu, or another of quern devices"},
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

typedef struct tuning {
    progress progress;
    const char *title;
    double share; /* of this case in the whole, and of those before */
    double before;
    qn_tune_state last; /* of the kernel under way */
    char name[128];
    bool any;
} tuning;

/* The kernel that is over with: a line of results. */
static void report(tuning *t) {
    if (!t->any) return;
    t->any = false;
    if (t->progress.terminal) fputs("\r\033[K", stderr);
    printf("%-24s %6.3f  %6llu tried  %6.1f s  %s\n", t->title, t->last.ratio,
           (unsigned long long)t->last.tried, t->last.seconds, t->name);
    fflush(stdout);
}

static bool on_progress(void *user, const qn_tune_state *s) {
    tuning *t = user;
    if (t->any && t->last.kernel != s->kernel) report(t);
    t->any = true;
    t->last = *s;
    snprintf(t->name, sizeof t->name, "%s", s->name);
    if (t->progress.terminal) {
        char text[200];
        double part = s->budget > 0 ? s->seconds / s->budget : 1;
        part = t->before + t->share * (s->kernel + (part > 1 ? 1 : part)) / s->kernels;
        snprintf(text, sizeof text, "%s %d/%d: %.3f of the time, %llu tried", t->title,
                 s->kernel + 1, s->kernels, s->ratio, (unsigned long long)s->tried);
        progress_show(&t->progress, part, false, text);
    }
    return !interrupted;
}

static int tune_file(qn_ctx *qn, const char *path, const qn_tune_options *o, tuning *t) {
    size_t size;
    char *text = cli_read_file(path, &size), *nul = text ? memchr(text, 0, size) : NULL;
    if (!text) return cli_failed("tune", "%s: %s", path, strerror(errno));
    if (nul) {
        int line = 1;
        for (const char *p = text; p < nul; p++) line += *p == '\n';
        free(text);
        return cli_failed("tune", "%s: line %d: a NUL byte, which is in no text", path, line);
    }
    t->title = "kernel";
    t->share = 1;
    int code = qn_tune_text(qn, text, o);
    report(t);
    free(text);
    return code ? cli_failed("tune", "%s: %s", path, qn_error(qn)) : EXIT_DONE;
}

static int tune_cases(qn_ctx *qn, const char *only, const qn_tune_options *o, tuning *t) {
    char name[64];
    int count = 0, done = 0;
    for (int i = 0; i < CASES; i++) {
        case_name(i, name);
        count += !only || strstr(name, only);
    }
    if (!count) return cli_failed("tune", "no case has \"%s\" in its name; see --list", only);
    for (int i = 0; i < CASES && !interrupted; i++) {
        case_name(i, name);
        if (only && !strstr(name, only)) continue;
        t->title = name;
        t->share = 1.0 / count;
        t->before = (double)done++ / count;
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *y = build(qn, i);
        int code = y ? qn_tune(qn, 1, &y, o) : qn_error_code(qn);
        qn_scope_end(qn, s);
        report(t);
        if (code || !y) return cli_failed("tune", "%s: %s", name, qn_error(qn));
    }
    return EXIT_DONE;
}

int command_tune(int argc, char **argv) {
    tune_options o = {.seconds = 10};
    const option_set set = {"tune", "Look for faster schedules of kernels on this machine.",
                            tune_rows, sizeof tune_rows / sizeof tune_rows[0]};
    int status = options_parse(&set, argc, argv, &o);
    if (status >= 0) return status;
    char name[64];
    for (int i = 0; i < CASES && o.list; i++) case_name(i, name), puts(name);
    if (o.list) return EXIT_DONE;
    qn_ctx *qn = cli_open_threads("tune", o.device, (int)o.threads);
    if (!qn) return EXIT_FAILED;
    cli_on_interrupt(on_interrupt);
    tuning t = {.share = 1};
    qn_tune_options options = QN_TUNE_OPTIONS(.seconds = o.seconds, .regroup = o.regroup,
                                              .again = o.again, .going = on_progress, .user = &t);
    progress_begin(&t.progress);
    status =
        o.kernels ? tune_file(qn, o.kernels, &options, &t) : tune_cases(qn, o.only, &options, &t);
    if (interrupted) fprintf(stderr, "quern tune: stopped; what was found is kept\n");
    qn_close(qn);
    return status;
}

/* ---- quern wisdom ---------------------------------------------------------------------------- */

typedef struct wisdom_options {
    const char *export_to, *import_from, *device;
    bool schedules;
} wisdom_options;

static const option wisdom_rows[] = {
    {"export", OPTION_TEXT, offsetof(wisdom_options, export_to), 0, 0, "FILE",
     "write what is known to a file"},
    {"import", OPTION_TEXT, offsetof(wisdom_options, import_from), 0, 0, "FILE",
     "add what a file says, all of it or nothing"},
    {"schedules", OPTION_FLAG, offsetof(wisdom_options, schedules), 0, 0, NULL,
     "show the schedules, too"},
    {"device", OPTION_TEXT, offsetof(wisdom_options, device), 0, 0, "NAME",
     "whose wisdom; cpu, or another of quern devices"},
};

static void show(qn_ctx *qn, bool schedules) {
    qn_wisdom w;
    int n = 0, faster = 0;
    double sum = 0;
    for (int i = 0; qn_wisdom_at(qn, i, &w, sizeof w); i++) {
        n++;
        faster += w.ratio < 1;
        sum += log(w.ratio);
        printf("%6.3f  %6lld tried  %7.1f s  %-4s  %s%s\n", w.ratio, (long long)w.tried, w.seconds,
               w.done ? "done" : "open", w.kernel, w.here ? "" : "  (elsewhere)");
        if (!w.here) printf("        %s\n", w.place);
        if (schedules && *w.schedule) printf("%s", w.schedule);
    }
    printf("%d kernels, %d faster than by default; geometric mean %.3f\n", n, faster,
           n ? exp(sum / n) : 1);
}

int command_wisdom(int argc, char **argv) {
    wisdom_options o = {.export_to = NULL};
    const option_set set = {"wisdom",
                            "Show what quern tune has found, or carry it to another machine.",
                            wisdom_rows, sizeof wisdom_rows / sizeof wisdom_rows[0]};
    int status = options_parse(&set, argc, argv, &o);
    if (status >= 0) return status;
    qn_ctx *qn = cli_open("wisdom", o.device);
    if (!qn) return EXIT_FAILED;
    int code = QN_OK;
    if (o.import_from) code = qn_wisdom_import(qn, o.import_from);
    if (!code && o.export_to) code = qn_wisdom_export(qn, o.export_to);
    if (code)
        cli_failed("wisdom", "%s", qn_error(qn));
    else if (!o.import_from && !o.export_to)
        show(qn, o.schedules);
    qn_close(qn);
    return code ? EXIT_FAILED : EXIT_DONE;
}
