/* cc.c - the system's C compiler as a function from text to object.
 *
 * It runs as a process of its own, without a shell, in a fresh folder that only we may enter; what
 * it says goes to a file there, whose first line becomes the error. The flags keep IEEE's rules: no
 * contraction of a*b + c behind our back; that maths functions set no errno and raise no flags that
 * anyone reads lets the compiler use instructions for them. */
#include "dev/cpu/cpu.h"

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

static void add_flags(run *r, const emit_isa *isa, char *source, char *object) {
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
                                        "-w",
                                        "-c",
                                        "-o"};
    for (size_t i = 0; i < COUNT_OF(flags); i++) r->word[r->words++] = (char *)flags[i];
    r->word[r->words++] = object;
    r->word[r->words++] = source;
    snprintf(r->march, sizeof r->march, "-march=%s", isa->cpu ? isa->cpu : "native");
    r->word[r->words++] = r->march;
    if (isa->avx512) r->word[r->words++] = (char *)"-mprefer-vector-width=512";
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

static void close_run(void *of) {
    run *r = of;
    close_folder(r);
    heap_free(&r->ctx->heap, r, sizeof *r);
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

static int spawn_and_wait(run *r, const char *log) {
    posix_spawn_file_actions_t files;
    pid_t pid;
    if (posix_spawn_file_actions_init(&files)) return -1;
    int bad = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) ||
              posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT, 0600) ||
              posix_spawn_file_actions_adddup2(&files, 1, 2) ||
              posix_spawnp(&pid, r->word[0], &files, NULL, r->word, environ);
    posix_spawn_file_actions_destroy(&files);
    if (bad) return -1;
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return 0; /* someone else waits for our children: the object tells */
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void compile(run *r, const emit_isa *isa, const char *name, const str *text, str *object,
                    str *said) {
    char source[PATH_SIZE], result[PATH_SIZE], log[PATH_SIZE];
    if (!open_folder(r))
        raise_error(r->ctx, QN_EIO, "kernel %s: no folder for the C compiler in %s", name,
                    r->folder);
    path_of(r, source_file, source);
    path_of(r, object_file, result);
    path_of(r, log_file, log);
    split_command(r);
    add_flags(r, isa, source, result);
    if (!write_file(source, text))
        raise_error(r->ctx, QN_EIO, "kernel %s: cannot write %s", name, source);
    int status = spawn_and_wait(r, log);
    if (status == 0 && read_file(result, (size_t)1 << 28, object) && object->len) return;
    read_file(log, 4000, said);
    size_t line = said->s ? strcspn(said->s, "\n") : 0;
    raise_error(r->ctx, QN_EDEVICE, "kernel %s: %s fails (%d): %.*s", name, r->word[0], status,
                (int)line, said->s ? said->s : "");
}

void cpu_cc_compile(qn_ctx *qn, const emit_isa *isa, const char *name, const str *text,
                    str *object) {
    heap *h = &qn->heap;
    run *r = heap_zeroed(h, sizeof *r);
    r->ctx = qn;
    str said;
    cleanup folder, c;
    str_open(&said, h);
    cleanup_push(h, &folder, close_run, r);
    cleanup_push(h, &c, str_cleanup, &said);
    compile(r, isa, name, text, object, &said);
    cleanup_run(h, &c);
    cleanup_run(h, &folder);
}
