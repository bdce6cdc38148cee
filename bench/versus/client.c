/* client.c - the director's side of a player: starting it with the best settings its library has,
 * asking, and giving up on one that does not answer. */
#include "versus.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct vs_client {
    const char *name;
    int threads;
    pid_t pid;
    int to, from;
    char text[4096]; /* what came and was not yet taken */
    size_t length;
    char line[2048]; /* the last answer */
};

enum { PATIENCE_MS = 600000 };

static const char *const names[] = {"quern", "openblas", "blis",        "onednn", "onednn-sgemm",
                                    "numpy", "jax",      "onnxruntime", "torch",  "torch-compile"};
enum { NATIVE = 5 }; /* the others are peers.py's */

int vs_names(const char *const **out) {
    *out = names;
    return sizeof names / sizeof *names;
}

/* OpenBLAS and BLIS choose a kernel by the processor's name and fall back to an old one when they
 * do not know it: say what it can do. The rest: as many threads as we measure, and memory that a
 * library frees stays with it, else each call pays for fresh pages. */
static void set_environment(int threads) {
    static const char *const counts[] = {"OMP_NUM_THREADS",  "OPENBLAS_NUM_THREADS",
                                         "BLIS_NUM_THREADS", "MKL_NUM_THREADS",
                                         "QN_THREADS",       "VS_THREADS"};
    char text[16];
    snprintf(text, sizeof text, "%d", threads);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) setenv(counts[i], text, 1);
    bool wide = __builtin_cpu_supports("avx512f");
    setenv("OPENBLAS_CORETYPE", wide ? "SKYLAKEX" : "Haswell", 0);
    if (wide) setenv("BLIS_ARCH_TYPE", "0", 0);
    setenv("MALLOC_MMAP_THRESHOLD_", "8589934592", 1);
    setenv("MALLOC_TRIM_THRESHOLD_", "8589934592", 1);
    setenv("MALLOC_TOP_PAD_", "67108864", 1);
}

static void become(const char *name, int threads, const int *to, const int *from) {
    char count[16], script[4096];
    set_environment(threads);
    signal(SIGPIPE, SIG_DFL); /* which the director ignores */
    vs_pin(threads);
    dup2(to[0], 0);
    dup2(from[1], 1);
    for (int fd = 3; fd < 64; fd++) close(fd);
    snprintf(count, sizeof count, "%d", threads);
    int native = 0;
    for (int i = 0; i < NATIVE; i++) native |= !strcmp(name, names[i]);
    if (native || !strcmp(name, "ref"))
        execl("/proc/self/exe", "versus", "--serve", name, count, NULL);
    const char *python = getenv("QN_BENCH_PYTHON"), *folder = getenv("VS_FOLDER");
    snprintf(script, sizeof script, "%s/peers.py", folder ? folder : "bench/versus");
    if (!python) python = "python3";
    execlp(python, python, script, name, count, NULL); /* its own name: so it finds its packages */
    _exit(127);
}

static bool send_line(vs_client *c, const char *line) {
    size_t n = strlen(line), done = 0;
    while (done < n) {
        ssize_t k = write(c->to, line + done, n - done);
        if (k <= 0) return false;
        done += (size_t)k;
    }
    return true;
}

/* The next line, in c->line; false when there is none in time. */
static bool receive(vs_client *c) {
    for (;;) {
        char *end = memchr(c->text, '\n', c->length);
        if (end) {
            size_t n = (size_t)(end - c->text);
            snprintf(c->line, sizeof c->line, "%.*s", (int)n, c->text);
            c->length -= n + 1;
            memmove(c->text, end + 1, c->length);
            return true;
        }
        struct pollfd p = {c->from, POLLIN, 0};
        if (c->length == sizeof c->text || poll(&p, 1, PATIENCE_MS) <= 0) return false;
        ssize_t k = read(c->from, c->text + c->length, sizeof c->text - c->length);
        if (k <= 0) return false;
        c->length += (size_t)k;
    }
}

/* Ends a player that no longer answers; its later cases are refused. */
static const char *lost(vs_client *c) {
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
        close(c->to);
        close(c->from);
    }
    c->pid = 0;
    c->length = 0;
    return "no answer: it crashed or took too long";
}

static bool start(vs_client *c) {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) return false;
    c->pid = fork();
    if (c->pid == 0) become(c->name, c->threads, to, from);
    close(to[0]);
    close(from[1]);
    c->to = to[1];
    c->from = from[0];
    c->length = 0;
    fcntl(c->to, F_SETFD, FD_CLOEXEC);
    fcntl(c->from, F_SETFD, FD_CLOEXEC);
    if (c->pid < 0 || !receive(c)) {
        lost(c);
        return false;
    }
    return !strcmp(c->line, "ok");
}

vs_client *vs_start(const char *name, int threads) {
    vs_client *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->name = name;
    c->threads = threads;
    if (start(c)) return c;
    fprintf(stderr, "%s does not play: %s\n", name, c->line[0] ? c->line + 3 : "did not start");
    vs_stop(c);
    return NULL;
}

void vs_stop(vs_client *c) {
    if (!c) return;
    lost(c);
    free(c);
}

const char *vs_client_name(const vs_client *c) {
    return c->name;
}

static const char *ask(vs_client *c, const char *line) {
    if (c->pid <= 0) return "gone";
    if (!send_line(c, line) || !receive(c)) return lost(c);
    if (!strncmp(c->line, "ok", 2)) return NULL;
    return strlen(c->line) > 3 ? c->line + 3 : "refused";
}

const char *vs_load(vs_client *c, const vs_case *k) {
    char line[512];
    int n = snprintf(line, sizeof line, "load %s", vs_word(k->kind));
    for (int i = 0; i < VS_DIMS; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %lld", (long long)k->d[i]);
    snprintf(line + n, sizeof line - (size_t)n, "\n");
    if (c->pid <= 0 && !start(c)) return "does not start again";
    return ask(c, line);
}

bool vs_check(vs_client *c, int n, const int64_t *at, double *values) {
    char line[1024];
    int used = snprintf(line, sizeof line, "check");
    for (int i = 0; i < n; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %lld", (long long)at[i]);
    snprintf(line + used, sizeof line - (size_t)used, "\n");
    if (ask(c, line)) return false;
    char *s = c->line + 2;
    for (int i = 0; i < n; i++) values[i] = strtod(s, &s);
    return true;
}

double vs_time(vs_client *c, int reps) {
    char line[64];
    double wall, cpu;
    snprintf(line, sizeof line, "time %d\n", reps);
    if (ask(c, line) || sscanf(c->line, "ok %lf %lf", &wall, &cpu) != 2) return -1;
    /* On one processor nobody waits for anybody: what wall time has more was taken by others. */
    return c->threads == 1 && cpu < wall ? cpu : wall;
}
