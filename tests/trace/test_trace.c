/* test_trace.c - QN_TRACE: the file is a strict array of JSON at any time, has an event for every
 * kernel that ran with what it reads, writes and computes, spans that nest, and memory; what cannot
 * be written is told of once and stops nothing. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "io/io.h"
#include "quern_view.h"
#include "test.h"
#include "trace/trace.h"

enum { PAGE = 4096, TRACE_MOST = 1 << 22 };

static char folder[64], path[128], told[4000];

static void note(void *user, const char *line) {
    (void)user;
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s\n", line);
}

static qn_ctx *open_device(const char *device) {
    qn_options options = QN_OPTIONS(.device = device, .log = note);
    told[0] = 0;
    return qn_open(&options);
}

/* A file that this process wrote is left alone, so it goes first. */
static void trace_to(const char *file) {
    unlink(file);
    setenv("QN_TRACE", file, 1);
}

/* A trace that was read: its events, and where it ends. */
typedef struct events {
    qn_ctx *qn; /* whose memory it is */
    arena a;
    const json *all;
} events;

/* With `end` behind it, and cut at `most` bytes. */
static events read_cut(const char *file, const char *end, size_t most) {
    unsetenv("QN_TRACE");
    qn_options options = QN_OPTIONS(.device = "null");
    events e = {.qn = qn_open(&options)};
    arena_open(&e.a, &e.qn->heap);
    FILE *f = fopen(file, "rb");
    CHECK(f != NULL);
    if (!f) return e;
    char *text = arena_alloc(&e.a, TRACE_MOST + 16);
    size_t n = fread(text, 1, most, f);
    fclose(f);
    memcpy(text + n, end, strlen(end) + 1);
    n += strlen(end);
    json_fault fault = {"", 0};
    e.all = json_parse(&e.a, text, n, &fault);
    if (!e.all)
        FAIL("%s: %s at %zu of %zu: %.60s", file, fault.what, fault.at, n, text + fault.at);
    else if (e.all->kind != JSON_ARRAY)
        FAIL("%s is no array", file);
    return e;
}

static events read_events(const char *file) {
    return read_cut(file, "", TRACE_MOST);
}

static void close_events(events *e) {
    arena_free(&e->a);
    qn_close(e->qn);
}

static const char *text_of(const json *event, const char *key) {
    const json *v = json_member(event, key);
    return v && v->kind == JSON_STRING ? v->text : "";
}

static double number_of(const json *event, const char *key) {
    const json *v = json_member(event, key);
    return v && v->kind == JSON_NUMBER ? strtod(v->text, NULL) : -1;
}

static int count(const events *e, const char *category, const char *name) {
    int n = 0;
    for (const json *v = e->all ? e->all->first : NULL; v; v = v->next)
        n += !strcmp(text_of(v, "cat"), category) && (!name || !strcmp(text_of(v, "name"), name));
    return n;
}

static const json *find(const events *e, const char *category, const char *part) {
    for (const json *v = e->all ? e->all->first : NULL; v; v = v->next)
        if (!strcmp(text_of(v, "cat"), category) && strstr(text_of(v, "name"), part)) return v;
    return NULL;
}

static bool lies_in(const json *inner, const json *outer) {
    double a = number_of(inner, "ts"), b = number_of(outer, "ts");
    return a >= b - 1e-2 && a + number_of(inner, "dur") <= b + number_of(outer, "dur") + 1e-2;
}

/* Fields that every event has, lengths that are none below 0, ends that have a beginning; two
 * spans lie in or beside each other. */
static void check_events(const events *e) {
    int open = 0;
    double last = 0;
    for (const json *v = e->all ? e->all->first : NULL; v; v = v->next) {
        const char *phase = text_of(v, "ph");
        CHECK(strlen(phase) == 1 && strchr("MXBEC", *phase));
        CHECK(number_of(v, "pid") == getpid() && number_of(v, "tid") > 0);
        CHECK(number_of(v, "ts") >= 0);
        CHECK(*phase == 'E' || *text_of(v, "name"));
        if (*phase == 'X') {
            double end = number_of(v, "ts") + number_of(v, "dur");
            CHECK(number_of(v, "dur") >= 0);
            CHECK(end >= last - 1e-2); /* in the order in which they end */
            last = end;
        }
        open += *phase == 'B';
        open -= *phase == 'E';
        CHECK(open >= 0);
    }
    CHECK_INT(open, 0);
    for (const json *v = e->all ? e->all->first : NULL; v; v = v->next)
        for (const json *w = v->next; w && *text_of(v, "ph") == 'X'; w = w->next) {
            if (*text_of(w, "ph") != 'X') continue;
            double begin = number_of(w, "ts"), end = number_of(v, "ts") + number_of(v, "dur");
            CHECK(lies_in(v, w) || lies_in(w, v) || begin >= end - 1e-2);
        }
}

static qn_tensor *ramp(qn_ctx *qn, int64_t n, int64_t m) {
    float *x = malloc((size_t)(n * m) * sizeof *x);
    for (int64_t i = 0; i < n * m; i++) x[i] = (float)(i % 7) - 3;
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){n, m}, x);
    free(x);
    return t;
}

/* A few steps as a training makes them: the same structure each time, a new value. */
static void work(qn_ctx *qn, int steps) {
    static float out[24 * 32];
    for (int i = 0; i < steps; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *y = qn_relu(qn_matmul(ramp(qn, 24, 40), ramp(qn, 40, 32)));
        CHECK_INT(qn_read(y, out, sizeof out), QN_OK);
        qn_scope_end(qn, s);
    }
}

static void every_kernel_appears_once_a_run_and_spans_nest(void) {
    trace_to(path);
    qn_ctx *qn = open_device("cpu");
    qn_stats stats;
    work(qn, 3);
    qn_get_stats(qn, &stats, sizeof stats);
    qn_close(qn);
    events e = read_events(path);
    check_events(&e);
    CHECK_INT(count(&e, "kernel", NULL), stats.kernels);
    CHECK_INT(count(&e, "plan", "plan"), stats.plans);
    CHECK_INT(count(&e, "run", "run"), 3);
    CHECK_INT(count(&e, "request", "request"), 3);
    CHECK_INT(count(&e, "copy", "copy in"), 6);
    CHECK_INT(count(&e, "copy", "copy out"), 3);
    CHECK_INT(count(&e, "compile", "compile"), 1);
    CHECK_INT(count(&e, "memory", "memory"), 3);
    const json *k = find(&e, "kernel", ""), *args = k ? json_member(k, "args") : NULL;
    CHECK(args != NULL);
    if (args) {
        CHECK_STR(text_of(args, "writes"), "f32[24, 32]");
        CHECK(strstr(text_of(args, "reads"), "f32[24, 40]"));
        CHECK(strstr(text_of(args, "reads"), "f32[40, 32]"));
        CHECK_NEAR(number_of(args, "bytes_written"), 24 * 32 * 4, 0, 0);
        CHECK_NEAR(number_of(args, "bytes_read"), (24 + 32) * 40 * 4, 0, 0);
        CHECK_NEAR(number_of(args, "flops"), 2. * 24 * 32 * 40, 0, 0);
        CHECK(lies_in(k, find(&e, "run", "run")));
    }
    CHECK(find(&e, "plan", "plan") &&
          lies_in(find(&e, "compile", "code"), find(&e, "plan", "plan")));
    close_events(&e);
}

static void kernels_of_static_graphs_loops_and_the_oracle_are_there(void) {
    for (int i = 0; i < 2; i++) {
        float x[64] = {1}, y[64];
        trace_to(path);
        qn_ctx *qn = open_device(i ? "ref" : "cpu");
        qn_tensor *in = qn_from(qn, QN_F32, 1, (int64_t[]){64}, x);
        qn_tensor *out = qn_cumsum(qn_sort(qn_exp(in), 0, false), 0);
        qn_plan *plan = i ? NULL : qn_plan_new(qn, 1, &in, 1, &out); /* the oracle has none */
        for (int k = 0; k < 2; k++) {
            qn_tensor *got = NULL;
            if (!i) CHECK_INT(qn_plan_run(plan, &in, &got), QN_OK);
            CHECK_INT(qn_read(i ? out : got, y, sizeof y), QN_OK);
        }
        qn_plan_free(plan);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
        events e = read_events(path);
        check_events(&e);
        if (i) CHECK_INT(count(&e, "kernel", "exp"), 1);
        if (!i) CHECK_INT(count(&e, "routine", NULL), 2);
        CHECK(count(&e, "kernel", NULL) >= 1);
        close_events(&e);
    }
}

static void spans_of_the_program_nest_and_are_ended(void) {
    trace_to(path);
    qn_ctx *qn = open_device("cpu");
    qn_span_end(qn); /* of nothing */
    qn_span_begin(qn, "step");
    qn_span_begin(qn, "a \"name\"\\ \n\x01 caf\xc3\xa9 \xff\xc0\xaf\xed\xa0\x80 end");
    work(qn, 1);
    qn_span_end(qn);
    qn_span_end(qn);
    qn_span_begin(qn, NULL);
    char large[9000];
    memset(large, '"', sizeof large - 1);
    large[sizeof large - 1] = 0;
    qn_span_begin(qn, large);
    qn_span_begin(NULL, "no context");
    qn_span_end(NULL);
    qn_close(qn);
    events e = read_events(path);
    int begun = 0;
    const json *hostile = find(&e, "program", "name");
    for (const json *v = e.all ? e.all->first : NULL; v; v = v->next)
        begun += *text_of(v, "ph") == 'B';
    CHECK_INT(begun, 4);
    CHECK(hostile && strstr(hostile->text ? hostile->text : text_of(hostile, "name"),
                            "a \"name\"\\ \n\x01 caf\xc3\xa9 \xef\xbf\xbd"));
    int open = 0;
    for (const json *v = e.all ? e.all->first : NULL; v; v = v->next) {
        open += *text_of(v, "ph") == 'B';
        open -= *text_of(v, "ph") == 'E';
    }
    CHECK_INT(open, 0);
    close_events(&e);
}

static void *end_span(void *qn) {
    qn_span_end(qn);
    return NULL;
}

/* Ended by another thread a span is still that of the thread which began it. */
static void a_span_ends_where_it_began(void) {
    trace_to(path);
    qn_ctx *qn = open_device("cpu");
    pthread_t other;
    for (int i = 0; i < 100; i++) qn_span_begin(qn, "step");
    CHECK_INT(pthread_create(&other, NULL, end_span, qn), 0);
    CHECK_INT(pthread_join(other, NULL), 0);
    qn_close(qn);
    events e = read_events(path);
    int ends = 0;
    for (const json *v = e.all ? e.all->first : NULL; v; v = v->next) {
        if (*text_of(v, "ph") != 'E') continue;
        CHECK(number_of(v, "tid") == getpid());
        ends++;
    }
    CHECK_INT(ends, 100);
    close_events(&e);
}

/* Is the closing bracket there? */
static bool is_closed(const char *file) {
    char text[4] = "";
    FILE *f = fopen(file, "rb");
    if (f && fseek(f, -2, SEEK_END) == 0 && fread(text, 1, 2, f) < 2) text[0] = 0;
    if (f) fclose(f);
    return !strcmp(text, "]\n");
}

/* The system ends a write between two pages when the program is killed: lines of any length are
 * whole up to there. */
static void a_write_that_is_cut_at_a_page_leaves_whole_lines(void) {
    char name[3000];
    trace_to(path);
    qn_ctx *qn = open_device("null");
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)i * 37 % (i % 10 ? 60 : sizeof name - 1);
        memset(name, i % 7 ? 'x' : '"', n);
        name[n] = 0;
        qn_span_begin(qn, name);
        qn_span_end(qn);
        if (i % 91 == 0) qn_trace_flush(qn);
    }
    qn_close(qn);
    struct stat about = {.st_size = 0};
    CHECK(stat(path, &about) == 0 && about.st_size > 100 * PAGE);
    for (off_t cut = PAGE, n = 0; cut < about.st_size && !test_state.bad; cut += PAGE) {
        events e = read_cut(path, "]", (size_t)cut);
        CHECK(e.all && e.all->count >= n && e.all->count > 1);
        n = e.all ? e.all->count : 0;
        close_events(&e);
    }
}

/* Killed at once, in the middle of thousands of spans. */
static void the_file_is_whole_while_it_grows_and_after_a_kill(void) {
    for (int round = 0; round < 5; round++) {
        trace_to(path);
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            qn_ctx *qn = open_device("null");
            for (;;) {
                qn_span_begin(qn, "round");
                qn_span_end(qn);
            }
        }
        struct stat about = {.st_size = 0};
        for (int i = 0; i < 30000 && about.st_size < (round + 1) << 18; i++) {
            usleep(2000);
            stat(path, &about);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        events e = read_cut(path, is_closed(path) ? "" : "]", TRACE_MOST);
        CHECK(e.all && e.all->count > 1000);
        close_events(&e);
    }
}

static void a_second_context_and_a_fork_have_files_of_their_own(void) {
    char second[200], processes[200];
    snprintf(second, sizeof second, "%s.2", path);
    trace_to(path);
    qn_ctx *a = open_device("cpu"), *b = open_device("cpu");
    qn_span_begin(a, "of a");
    qn_trace_flush(a);
    qn_trace_flush(NULL);
    events early = read_events(path);
    CHECK_INT(count(&early, "program", "of a"), 1);
    close_events(&early);
    qn_span_begin(b, "of b");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        qn_span_begin(a, "of the child");
        qn_span_end(a);
        qn_close(a);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    qn_close(a);
    qn_close(b);
    events e = read_events(path), f = read_events(second);
    CHECK_INT(count(&e, "program", "of a"), 1);
    CHECK_INT(count(&e, "program", "of the child"), 0);
    CHECK_INT(count(&f, "program", "of b"), 1);
    close_events(&e);
    close_events(&f);
    snprintf(processes, sizeof processes, "%s/%%.json", folder);
    setenv("QN_TRACE", processes, 1);
    qn_close(open_device("null"));
    snprintf(processes, sizeof processes, "%s/%d.json", folder, (int)getpid());
    CHECK_INT(access(processes, R_OK), 0);
    unlink(processes);
    unlink(second);
}

/* In a process of its own, whose files may not grow. */
static void a_write_that_fails_is_told_once_and_stops_nothing(void) {
    trace_to(path);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        struct rlimit most = {20000, 20000};
        setrlimit(RLIMIT_FSIZE, &most);
        qn_ctx *qn = open_device("cpu");
        for (int i = 0; i < 5000; i++) {
            qn_span_begin(qn, "a span that takes some bytes of the file");
            qn_span_end(qn);
        }
        const char *first = strstr(told, "the trace ends here");
        bool once = first && !strstr(first + 1, "the trace ends here");
        work(qn, 1);
        bool fine = qn_error_code(qn) == QN_OK;
        qn_close(qn);
        _exit(once && fine ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_INT(status, 0);
    events e = read_events(path);
    CHECK(e.all && e.all->kind == JSON_ARRAY);
    close_events(&e);
    setenv("QN_TRACE", "/nowhere/at/all.json", 1);
    qn_ctx *qn = open_device("cpu");
    CHECK(strstr(told, "no trace: /nowhere/at/all.json cannot be written"));
    work(qn, 1);
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_close(qn);
    unsetenv("QN_TRACE");
}

static void without_the_knob_there_is_no_file(void) {
    unlink(path);
    unsetenv("QN_TRACE");
    qn_ctx *qn = open_device("cpu");
    qn_span_begin(qn, "nothing");
    work(qn, 1);
    qn_span_end(qn);
    CHECK(!trace_on(qn));
    CHECK(qn_set(qn, "trace", path) != QN_OK);
    qn_clear_error(qn);
    qn_close(qn);
    CHECK(access(path, F_OK) != 0);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    strcpy(folder, "/tmp/quern-trace-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/trace.json", folder);
    RUN(every_kernel_appears_once_a_run_and_spans_nest);
    RUN(kernels_of_static_graphs_loops_and_the_oracle_are_there);
    RUN(spans_of_the_program_nest_and_are_ended);
    RUN(a_span_ends_where_it_began);
    RUN(a_write_that_is_cut_at_a_page_leaves_whole_lines);
    RUN(the_file_is_whole_while_it_grows_and_after_a_kill);
    RUN(a_second_context_and_a_fork_have_files_of_their_own);
    RUN(a_write_that_fails_is_told_once_and_stops_nothing);
    RUN(without_the_knob_there_is_no_file);
    unlink(path);
    rmdir(folder);
    return test_end();
}
