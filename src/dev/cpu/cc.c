/* cc.c - the system's C compiler as a function from texts to objects.
 *
 * It runs as a process of its own, without a shell, in a fresh folder that only we may enter; what
 * it says goes to a file there, whose first line becomes the error. Several run at a time, one for
 * each thread that kernels have: starting one takes as long as compiling a small kernel, so a text
 * holds several kernels. One that fails fails alone.
 *
 * The flags keep IEEE's rules: no contraction of a*b + c behind our back; that maths functions set
 * no errno and raise no flags that anyone reads lets the compiler use instructions for them.
 * Functions have sections of their own, so that a kernel is loaded without its neighbours. */
#include "dev/cpu/cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_WORDS = 32, PATH_SIZE = CPU_PATH };
static const char *const source_file = "kernel.c", *const object_file = "kernel.o",
                         *const log_file = "log";

typedef struct run {
    qn_ctx *ctx;
    cpu_cc_job *job;
    pid_t pid; /* 0: none is running */
    char folder[PATH_SIZE];
    char command[PATH_SIZE]; /* knob cc, cut into words */
    char march[32];
    char *word[MOST_WORDS + 1];
    int words;
} run;

/* ---- the compiler's command ----------------------------------------------------------------- */

/* Words are separated by spaces: QN_CC="ccache gcc" works, quoting does not exist. */
static void split_command(run *r) {
    snprintf(r->command, sizeof r->command, "%s", r->ctx->knob[KNOB_CC].text);
    char *rest = NULL;
    for (char *w = strtok_r(r->command, " ", &rest); w && r->words < 8;
         w = strtok_r(NULL, " ", &rest))
        r->word[r->words++] = w;
}

bool cpu_cc_find(qn_ctx *qn, char file[CPU_PATH]) {
    run r = {.ctx = qn};
    split_command(&r);
    if (!r.words) return false;
    if (strchr(r.word[0], '/')) {
        snprintf(file, CPU_PATH, "%s", r.word[0]);
        return access(file, X_OK) == 0;
    }
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        int size = snprintf(file, CPU_PATH, "%.*s/%s", (int)n, path, r.word[0]);
        if (size > 0 && size < CPU_PATH && access(file, X_OK) == 0) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

/* Choosing induction variables is a third of the time that gcc takes for a register tile, whose
 * loops are unrolled: there it has nothing to choose. Elsewhere it costs little and is of use.
 *
 * gcc 12 writes out how a value changes from trip to trip as a tree, which doubles with each
 * product of a value by itself: a power of integers took 5 GB of memory and minutes. Trees of at
 * most 16 nodes, in place of 100, take 80 MB and 0.2 s, and the code of 80 of 82 kernels is the
 * same. */
static void add_flags(run *r, const emit_isa *isa, char *source, char *object) {
    static const char *const plain[] = {"-std=gnu11", "-O3", "-ffp-contract=off", "-fPIC", "-w",
                                        "-shared",    "-o"};
    static const char *const flags[] = {"-std=c99",
                                        "-O3",
                                        "-ffp-contract=off",
                                        "-fwrapv", /* gcc 12 counts the trips of some cut loops
                                                      wrongly when it may assume no overflow */
                                        "-fPIC",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fno-stack-protector",
                                        "-fcf-protection=none",
                                        "-ffunction-sections",
                                        "-fdata-sections",
                                        "-pipe",
                                        "-w",
                                        "-c",
                                        "-o"};
    bool library = r->job->library;
    const char *const *flag = library ? plain : flags;
    size_t n = library ? COUNT_OF(plain) : COUNT_OF(flags);
    for (size_t i = 0; i < n; i++) r->word[r->words++] = (char *)flag[i];
    r->word[r->words++] = object;
    r->word[r->words++] = source;
    if (library) r->word[r->words++] = (char *)"-lm";
    snprintf(r->march, sizeof r->march, "-march=%s", isa->cpu ? isa->cpu : "native");
    r->word[r->words++] = r->march;
    if (isa->avx512) r->word[r->words++] = (char *)"-mprefer-vector-width=512";
    if (r->job->unrolled) r->word[r->words++] = (char *)"-fno-ivopts";
    if (!library) {
        r->word[r->words++] = (char *)"--param";
        r->word[r->words++] = (char *)"scev-max-expr-size=16";
    }
    r->word[r->words] = NULL;
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool open_folder(run *r) {
    const char *base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    int n = snprintf(r->folder, sizeof r->folder - 16, "%s/quern-XXXXXX", base);
    return n > 0 && n < (int)sizeof r->folder - 16 && mkdtemp(r->folder);
}

static void path_of(const run *r, const char *file, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.1000s/%s", r->folder, file);
}

static void close_folder(run *r) {
    const char *const files[] = {source_file, object_file, log_file};
    if (!r->folder[0]) return;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[PATH_SIZE];
        path_of(r, files[i], path);
        unlink(path);
    }
    rmdir(r->folder);
}

static bool write_file(const char *path, const str *text) {
    int f = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f < 0) return false;
    size_t done = 0;
    while (done < text->len) {
        ssize_t n = write(f, text->s + done, text->len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    return close(f) == 0 && done == text->len;
}

/* Appends what is in the file; raises only QN_ENOMEM, and closes the file before. */
static bool read_file(const char *path, size_t most, str *out) {
    int f = open(path, O_RDONLY | O_CLOEXEC);
    if (f < 0) return false;
    struct stat s;
    size_t size = fstat(f, &s) || s.st_size < 0 ? 0 : (size_t)s.st_size, done = 0;
    if (size > most) size = most;
    char *memory = size ? heap_try(out->h, size) : NULL;
    while (memory && done < size) {
        ssize_t n = read(f, memory + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    close(f);
    if (size && !memory)
        raise_error(out->h->ctx, QN_ENOMEM, "no memory to read %zu bytes of %s", size, path);
    cleanup c;
    heap_piece own = {out->h, memory, size};
    cleanup_push(out->h, &c, heap_piece_cleanup, &own);
    if (memory) str_addn(out, memory, done);
    cleanup_run(out->h, &c);
    return size && done == size;
}

/* ---- running -------------------------------------------------------------------------------- */

static bool spawn(run *r, const char *log) {
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files)) return false;
    bool bad = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) ||
               posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT, 0600) ||
               posix_spawn_file_actions_adddup2(&files, 1, 2) ||
               posix_spawnp(&r->pid, r->word[0], &files, NULL, r->word, environ);
    posix_spawn_file_actions_destroy(&files);
    if (bad) r->pid = 0;
    return !bad;
}

static int wait_for(run *r) {
    int status;
    pid_t pid = r->pid;
    r->pid = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return 0; /* someone else waits for our children: the object tells */
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void job_fails(cpu_cc_job *j, qn_code code, const char *why, const char *what) {
    j->code = code;
    snprintf(j->why, sizeof j->why, "%.150s%.240s", why, what);
}

static void begin(run *r, const emit_isa *isa) {
    char source[PATH_SIZE], result[PATH_SIZE], log[PATH_SIZE];
    r->job->seconds = clock_seconds();
    if (!open_folder(r)) {
        job_fails(r->job, QN_EIO, "no folder for the C compiler in ", r->folder);
        r->folder[0] = 0;
        return;
    }
    path_of(r, source_file, source);
    path_of(r, object_file, result);
    path_of(r, log_file, log);
    split_command(r);
    add_flags(r, isa, source, result);
    if (!write_file(source, r->job->text))
        job_fails(r->job, QN_EIO, "cannot write ", source);
    else if (!spawn(r, log))
        job_fails(r->job, QN_EDEVICE, r->word[0], " does not start");
}

/* The first line that has the word, or the first. */
static const char *line_with(char *said, const char *word) {
    char *at = strstr(said, word);
    while (at && at > said && at[-1] != '\n') at--;
    if (!at) at = said;
    at[strcspn(at, "\n")] = 0;
    return at;
}

/* What the compiler said first. */
static void tell_failure(run *r, int status) {
    char log[PATH_SIZE], what[128];
    const char *line = "";
    str said;
    str_open(&said, &r->ctx->heap);
    cleanup c;
    cleanup_push(&r->ctx->heap, &c, str_cleanup, &said);
    path_of(r, log_file, log);
    read_file(log, 4000, &said);
    if (said.s) line = line_with(said.s, r->job->library ? "error" : said.s);
    snprintf(what, sizeof what, "%.80s fails (%d): ", r->word[0], status);
    job_fails(r->job, QN_EDEVICE, what, line);
    cleanup_run(&r->ctx->heap, &c);
}

static void load(run *r, const char *file) {
    str why;
    str_open(&why, &r->ctx->heap);
    cleanup c;
    cleanup_push(&r->ctx->heap, &c, str_cleanup, &why);
    r->job->loaded = library_open(file, RTLD_NOW | RTLD_LOCAL, &why);
    if (!r->job->loaded) {
        const char *more = library_loading() ? dlerror() : NULL; /* it names what is missing */
        job_fails(r->job, QN_EDEVICE, "", more ? more : why.s);
    }
    cleanup_run(&r->ctx->heap, &c);
}

static void finish(run *r) {
    char result[PATH_SIZE];
    if (r->pid) {
        int status = wait_for(r);
        path_of(r, object_file, result);
        bool library = r->job->library, good = status == 0;
        if (good && !library)
            good = read_file(result, (size_t)1 << 28, r->job->object) && r->job->object->len;
        if (!good)
            tell_failure(r, status);
        else if (library)
            load(r, result);
    }
    close_folder(r);
    r->folder[0] = 0;
    r->job->seconds = clock_seconds() - r->job->seconds;
}

typedef struct runs {
    heap *h;
    int n;
    run *at;
} runs;

static void close_runs(void *of) {
    const runs *r = of;
    for (int i = 0; i < r->n; i++) {
        if (r->at[i].pid) wait_for(&r->at[i]);
        close_folder(&r->at[i]);
    }
    heap_free(r->h, r->at, (size_t)r->n * sizeof *r->at);
}

void cpu_cc_compile(qn_ctx *qn, const emit_isa *isa, int n, cpu_cc_job *job, int side) {
    heap *h = &qn->heap;
    run *r = heap_zeroed(h, (size_t)n * sizeof *r);
    runs all = {h, n, r};
    cleanup c;
    cleanup_push(h, &c, close_runs, &all);
    for (int done = 0, begun = 0; done < n; finish(&r[done++]))
        for (; begun < n && begun - done < side; begun++) {
            r[begun].ctx = qn;
            r[begun].job = &job[begun];
            begin(&r[begun], isa);
        }
    cleanup_run(h, &c);
}
