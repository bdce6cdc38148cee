/* cache_harness.h - folders, kernels and child processes for the tests of the disk cache.
 *
 * Kernel number k multiplies by k, so a wrong object shows as a wrong product. Whatever loads
 * libLLVM or may be killed happens in a child; the parent stays small, and quick to fork. */
#ifndef QN_CACHE_HARNESS_H
#define QN_CACHE_HARNESS_H

#include "dev/cpu/cpu.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HASH_NAME = 34, FRESH_NAME = 56, HEADER = 40, FILE_PATH = 600 };

static char cache_log[4000];

static inline void keep_log(void *user, const char *line) {
    (void)user;
    size_t n = strlen(cache_log);
    snprintf(cache_log + n, sizeof cache_log - n, "%s\n", line);
}

static inline qn_ctx *open_with(const char *cache) {
    cache_log[0] = 0;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1, .log = keep_log));
    if (qn && cache && qn_set(qn, "cache", cache)) FAIL("%s", qn_error(qn));
    return qn;
}

/* ---- folders -------------------------------------------------------------------------------- */

static inline bool make_folder(char folder[FILE_PATH]) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, FILE_PATH, "%.500s/quern-test-XXXXXX", base && *base ? base : "/tmp");
    if (mkdtemp(folder)) return true;
    FAIL("no folder %s", folder);
    return false;
}

typedef void (*file_fn)(const char *folder, const char *name, void *user);

static inline int each_file(const char *folder, file_fn fn, void *user) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (fn) fn(folder, e->d_name, user);
        n++;
    }
    if (d) closedir(d);
    return n;
}

static inline void remove_one(const char *folder, const char *name, void *user) {
    (void)user;
    int f = open(folder, O_RDONLY | O_DIRECTORY);
    if (unlinkat(f, name, 0) && errno == EISDIR) {
        char inner[2 * FILE_PATH];
        snprintf(inner, sizeof inner, "%.590s/%.255s", folder, name);
        each_file(inner, remove_one, NULL);
        unlinkat(f, name, AT_REMOVEDIR);
    }
    close(f);
}

static inline void remove_folder(const char *folder) {
    each_file(folder, remove_one, NULL);
    rmdir(folder);
}

typedef struct census {
    int objects, unfinished, others;
    int64_t bytes; /* of objects */
} census;

static inline void count_one(const char *folder, const char *name, void *user) {
    census *c = user;
    size_t n = strlen(name);
    char path[2 * FILE_PATH];
    struct stat s;
    snprintf(path, sizeof path, "%.590s/%.255s", folder, name);
    if (n == HASH_NAME && !strcmp(name + n - 2, ".o")) {
        c->objects++;
        if (!lstat(path, &s)) c->bytes += s.st_size;
    } else if (n == FRESH_NAME && strspn(name + 34, ".0123456789abcdef") == 18 &&
               !strcmp(name + n - 5, ".part")) {
        c->unfinished++;
    } else if (strcmp(name, ".tidied")) {
        c->others++;
    }
}

static inline census count_files(const char *folder) {
    census c = {0};
    each_file(folder, count_one, &c);
    return c;
}

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t *at;
    size_t size;
} bytes;

static inline bytes file_bytes(const char *path) {
    bytes b = {NULL, 0};
    struct stat s;
    FILE *f = fopen(path, "rb");
    if (!f) return b;
    if (!fstat(fileno(f), &s)) b.at = malloc((size_t)s.st_size + 1);
    if (b.at) b.size = fread(b.at, 1, (size_t)s.st_size, f);
    fclose(f);
    return b;
}

static inline bool file_make(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(data, 1, size, f) == size;
    return f && !fclose(f) && good;
}

static inline void file_age(const char *path, long seconds) {
    struct timespec now, t[2];
    clock_gettime(CLOCK_REALTIME, &now);
    t[0] = t[1] = (struct timespec){now.tv_sec - seconds, 0};
    if (utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW)) FAIL("cannot set the time of %s", path);
}

/* The entry whose contents hold `text`. */
typedef struct search {
    const char *text;
    char path[2 * FILE_PATH];
} search;

static inline void look_into(const char *folder, const char *name, void *user) {
    search *s = user;
    char path[2 * FILE_PATH];
    snprintf(path, sizeof path, "%.590s/%.255s", folder, name);
    bytes b = strlen(name) == HASH_NAME ? file_bytes(path) : (bytes){NULL, 0};
    if (b.at && memmem(b.at, b.size, s->text, strlen(s->text)))
        snprintf(s->path, sizeof s->path, "%s", path);
    free(b.at);
}

static inline search find_entry(const char *folder, const char *text) {
    search s = {.text = text};
    each_file(folder, look_into, &s);
    return s;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static inline void kernel_text(int k, char *text, size_t size) {
    snprintf(text, size,
             "kernel \"times%d\" {\n dim n 1 100000\n arg a0 f32[n] read\n arg a1 f32[n] write\n"
             " local t0 f32[16]\n par i < (n + 15)/16 {\n def t0 = f32(0)\n"
             " vec v < min(16, n - 16*i) {\n  t0[v] += a0[16*i + v]\n"
             "  a1[16*i + v] = mul(t0[v], f32(%d))\n }\n }\n}\n",
             k, k);
}

static inline bool multiplies(void *state, dev_program *p, int k) {
    enum { N = 1000 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = -1;
    int64_t n = N;
    dev_slice arg[2] = {{x, 0, sizeof x}, {y, 0, sizeof y}};
    bool good = !dev_cpu.launch(state, p, 1, &(dev_set){.arg = arg, .var = &n});
    for (int i = 0; i < N; i++) good &= y[i] == (float)k * (float)i;
    return good;
}

static inline dev_program *compile_text(qn_ctx *qn, void *state, const char *text) {
    kernel *volatile k = ir_parse(qn, text);
    dev_program *volatile p = NULL;
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) p = k ? dev_cpu.compile(state, k) : NULL;
    guard_close(&qn->heap, &g);
    ir_close(k);
    return p;
}

static inline void *open_cpu(qn_ctx *qn) {
    str why;
    str_open(&why, &qn->heap);
    void *state = dev_cpu.open(qn, &why);
    str_free(&why);
    return state;
}

/* 1: kernel k came from the cache; 0: it was compiled; -1: it could not be; -2: it is wrong. */
static inline int use_kernel(qn_ctx *qn, void *state, int k) {
    char text[600];
    kernel_text(k, text, sizeof text);
    dev_program *p = compile_text(qn, state, text);
    if (!p) return -1;
    int cached = multiplies(state, p, k) ? p->cached : -2;
    dev_cpu.unload(state, p);
    return cached;
}

/* The same in a context of its own, with a cache and, unless NULL, a compiler of one's choice. */
static inline int use_cached(const char *cache, const char *cc, int k) {
    qn_ctx *qn = open_with(cache);
    if (!qn) return -1;
    if (cc) knobs_set(qn, "cpu", "cc"), knobs_set(qn, "cc", cc);
    void *state = open_cpu(qn);
    int cached = state ? use_kernel(qn, state, k) : -1;
    if (state) dev_cpu.close(state);
    qn_close(qn);
    return cached;
}

/* ---- children ------------------------------------------------------------------------------- */

/* A child that ends by itself, and not by coming back from its function, must not pass for one that
 * came back with 0. */
enum { CHILD_DONE = 100 };
typedef int (*child_fn)(void *arg);

static inline pid_t start_child(child_fn fn, void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    alarm(100);
    int code = fn(arg);
    fflush(NULL);
    _exit(code + CHILD_DONE);
}

/* What the child returned (0 to 99), or minus the signal that ended it. */
static inline int end_child(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) - CHILD_DONE : -WTERMSIG(status);
}

static inline int in_child(child_fn fn, void *arg) {
    return end_child(start_child(fn, arg));
}

/* use_cached in a child, so that nothing is loaded here. */
typedef struct use {
    const char *cache, *cc;
    int k;
} use;

static inline int use_it(void *arg) {
    use *u = arg;
    return use_cached(u->cache, u->cc, u->k) + 10;
}

static inline int use_apart(const char *cache, const char *cc, int k) {
    return in_child(use_it, &(use){cache, cc, k}) - 10;
}

/* ---- entries with made-up contents ---------------------------------------------------------- */

/* What is kept under key number i: a function of it and nothing else, some of it long. */
static inline void made_up(int i, str *key, str *object) {
    uint64_t seed = (uint64_t)i * 77 + 5;
    size_t size = (size_t)test_below(&seed, i % 4 ? 3000 : 300000) + 1;
    key->len = object->len = 0;
    str_addf(key, "a key that was made up, number %d", i);
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = test_rand(&seed);
        str_addn(object, (const char *)&word, size - at < 8 ? size - at : 8);
    }
}

/* 1: what is kept under key number i is right; 0: nothing is; -1: it is wrong. */
static inline int check_made_up(qn_ctx *qn, const cpu_cache *c, int i) {
    str key, object, got;
    str_open(&key, &qn->heap);
    str_open(&object, &qn->heap);
    str_open(&got, &qn->heap);
    made_up(i, &key, &object);
    int function = 0, right = cpu_cache_get(qn, c, &key, &got, &function);
    if (right && (function != i % 5 || got.len != object.len || memcmp(got.s, object.s, got.len)))
        right = -1;
    str_free(&key);
    str_free(&object);
    str_free(&got);
    return right;
}

static inline void put_made_up(qn_ctx *qn, cpu_cache *c, int i) {
    str key, object;
    str_open(&key, &qn->heap);
    str_open(&object, &qn->heap);
    made_up(i, &key, &object);
    cpu_cache_put(qn, c, &key, &object, i % 5);
    str_free(&key);
    str_free(&object);
}

#endif
