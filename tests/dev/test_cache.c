/* test_cache.c - the disk cache: what is found again and what is not believed, whose folders are
 * used, what the key holds, and how the folder is kept small. test_cache_crash.c has the cases in
 * which something goes wrong around it. */
#include "cache_harness.h"

#include <link.h>
#include <quern_nn.h>

static const char *program; /* this very file */

static bool no_compiler(int cached) {
    if (cached == -1) SKIP("no compiler");
    return cached == -1;
}

/* ---- damaged entries ------------------------------------------------------------------------ */

/* An entry of a real kernel, with its key as the file has it: behind magic, sizes and checksum. */
typedef struct sample {
    qn_ctx *qn;
    cpu_cache c;
    char folder[FILE_PATH], path[2 * FILE_PATH];
    bytes file;
    str key, object, got;
    int function;
} sample;

static bool open_sample(sample *s) {
    *s = (sample){.file = {NULL, 0}};
    if (!make_folder(s->folder)) return false;
    if (no_compiler(use_apart(s->folder, NULL, 3))) {
        remove_folder(s->folder);
        return false;
    }
    snprintf(s->path, sizeof s->path, "%s", find_entry(s->folder, "\"times3\"").path);
    s->file = file_bytes(s->path);
    s->qn = open_with(s->folder);
    cpu_cache_open(s->qn, &s->c);
    str_open(&s->key, &s->qn->heap);
    str_open(&s->object, &s->qn->heap);
    str_open(&s->got, &s->qn->heap);
    uint64_t key_size = 0;
    if (s->file.size > HEADER) memcpy(&key_size, s->file.at + 8, 8);
    CHECK(key_size && key_size < s->file.size - HEADER);
    if (!key_size || key_size >= s->file.size - HEADER) return false;
    str_addn(&s->key, (char *)s->file.at + HEADER, key_size);
    CHECK(cpu_cache_get(s->qn, &s->c, &s->key, &s->object, &s->function) && s->object.len);
    return true;
}

static void close_sample(sample *s) {
    free(s->file.at);
    str_free(&s->key);
    str_free(&s->object);
    str_free(&s->got);
    cpu_cache_close(&s->c);
    qn_close(s->qn);
    remove_folder(s->folder);
}

static bool is_found(sample *s) {
    s->got.len = 0;
    return cpu_cache_get(s->qn, &s->c, &s->key, &s->got, &s->function);
}

static void no_flipped_bit_is_loaded(void) {
    sample s;
    if (!open_sample(&s)) return;
    int f = open(s.path, O_RDWR), loaded = 0;
    for (size_t i = 0; i < 8 * s.file.size; i++) {
        uint8_t byte = s.file.at[i / 8] ^ (uint8_t)(1u << i % 8);
        if (pwrite(f, &byte, 1, (off_t)(i / 8)) != 1) FAIL("cannot write");
        loaded += is_found(&s);
        if (pwrite(f, &s.file.at[i / 8], 1, (off_t)(i / 8)) != 1) FAIL("cannot write");
    }
    close(f);
    CHECK_INT(loaded, 0);
    CHECK(is_found(&s)); /* without a flip it is there: what was refused was the flip */
    CHECK_INT(s.got.len, s.object.len);
    close_sample(&s);
}

static void no_other_length_is_loaded(void) {
    sample s;
    if (!open_sample(&s)) return;
    int loaded = 0;
    uint8_t *longer = calloc(1, s.file.size + 64);
    memcpy(longer, s.file.at, s.file.size);
    for (size_t size = 0; size < s.file.size + 64; size++) {
        if (size == s.file.size) continue;
        CHECK(file_make(s.path, longer, size));
        loaded += is_found(&s);
    }
    free(longer);
    CHECK_INT(loaded, 0);
    close_sample(&s);
}

/* Through the device: each time the kernel is compiled, is right, and is there again afterwards. */
static int replace_damaged(void *arg) {
    sample *s = arg;
    int bad = 0;
    qn_ctx *qn = open_with(s->folder);
    void *state = open_cpu(qn);
    if (!state) return 1;
    for (size_t at = 0; at < s->file.size; at += s->file.size / 60) {
        s->file.at[at] ^= 0x10;
        file_make(s->path, s->file.at, s->file.size);
        s->file.at[at] ^= 0x10;
        bad += use_kernel(qn, state, 3) != 0 || use_kernel(qn, state, 3) != 1;
    }
    dev_cpu.close(state);
    qn_close(qn);
    return bad;
}

static void damaged_entries_are_compiled_anew(void) {
    sample s;
    if (!open_sample(&s)) return;
    CHECK_INT(in_child(replace_damaged, &s), 0);
    close_sample(&s);
}

static void entries_serve_their_own_key_only(void) {
    sample s;
    if (!open_sample(&s)) return;
    str other;
    str_open(&other, &s.qn->heap);
    str_addn(&other, s.key.s, s.key.len);
    other.s[12] ^= 1; /* a digit of the processor's number */
    cpu_cache_put(s.qn, &s.c, &other, &s.key, 0);
    search of_other = find_entry(s.folder, other.s);
    CHECK(*of_other.path && strcmp(of_other.path, s.path));
    CHECK(file_make(of_other.path, s.file.at, s.file.size)); /* as if both had the same hash */
    s.got.len = 0;
    CHECK(!cpu_cache_get(s.qn, &s.c, &other, &s.got, &s.function));
    CHECK(is_found(&s));
    str_free(&other);
    close_sample(&s);
}

/* ---- files that are not what they should be -------------------------------------------------- */

static int expect(sample *s, const char *what, bool found) {
    if (is_found(s) != found) FAIL("%s is%s loaded", what, found ? " not" : "");
    unlink(s->path);
    rmdir(s->path);
    return file_make(s->path, s->file.at, s->file.size) && !chmod(s->path, 0600);
}

static void only_files_of_ours_are_read(void) {
    sample s;
    if (!open_sample(&s)) return;
    char aside[3 * FILE_PATH];
    snprintf(aside, sizeof aside, "%s.aside", s.path);
    expect(&s, "the file itself", true);
    expect(&s, "the file made anew", true);
    CHECK(!rename(s.path, aside) && !symlink(aside, s.path));
    expect(&s, "a symbolic link", false);
    CHECK(!unlink(s.path) && !mkfifo(s.path, 0600));
    expect(&s, "a pipe", false); /* and nobody waits for a writer */
    CHECK(!unlink(s.path) && !mkdir(s.path, 0700));
    cpu_cache_put(s.qn, &s.c, &s.key, &s.object, 0); /* cannot take the folder's place */
    CHECK_INT(count_files(s.folder).unfinished, 0);
    expect(&s, "a folder", false);
    CHECK(!chmod(s.path, 0620));
    expect(&s, "a file that others may write", false);
    if (!geteuid()) {
        CHECK(!chown(s.path, 65534, (gid_t)-1));
        expect(&s, "another's file", false);
    }
    CHECK(truncate(s.path, (off_t)1 << 40) == 0);
    expect(&s, "a file of a TiB", false);
    expect(&s, "the file at last", true);
    close_sample(&s);
}

/* ---- folders -------------------------------------------------------------------------------- */

static bool is_trusted(const char *folder) {
    qn_ctx *qn = open_with(folder);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    bool on = c.on;
    CHECK(on == !strstr(cache_log, "not used")); /* a folder the user named: told if not used */
    cpu_cache_close(&c);
    qn_close(qn);
    return on;
}

static void folders_must_be_ours_alone(void) {
    char folder[FILE_PATH], inside[FILE_PATH + 20], link[FILE_PATH + 20];
    if (!make_folder(folder)) return;
    snprintf(inside, sizeof inside, "%s/inside", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK(is_trusted(folder));
    CHECK(is_trusted(inside)); /* made */
    struct stat s;
    CHECK(!stat(inside, &s) && (s.st_mode & 0777) == 0700);
    static const mode_t bad[] = {0710, 0720, 0740, 0701, 0702, 0704, 0770, 0755, 0777};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(!chmod(inside, bad[i]));
        CHECK(!is_trusted(inside));
    }
    CHECK(!chmod(inside, 0700) && !symlink(inside, link));
    CHECK(is_trusted(inside));
    CHECK(!is_trusted(link));
    if (!geteuid()) {
        CHECK(!chown(inside, 65534, (gid_t)-1));
        CHECK(!is_trusted(inside));
    }
    CHECK(!is_trusted("/"));
    CHECK(!is_trusted("/dev/null"));
    CHECK(!is_trusted("/no/such/place"));
    remove_folder(folder);
}

static bool usual_is(const char *folder) {
    qn_ctx *qn = open_with("on");
    cpu_cache c;
    cpu_cache_open(qn, &c);
    struct stat a, b;
    bool same =
        folder ? c.on && !fstat(c.folder, &a) && !stat(folder, &b) && a.st_ino == b.st_ino : !c.on;
    CHECK(!cache_log[0]);
    cpu_cache_close(&c);
    qn_close(qn);
    return same;
}

static void the_usual_folder_is_where_caches_are(void) {
    char folder[FILE_PATH], cache[FILE_PATH + 20], ours[FILE_PATH + 40];
    char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    char *old_home = home ? strdup(home) : NULL, *old_xdg = xdg ? strdup(xdg) : NULL;
    if (!make_folder(folder)) return;
    setenv("HOME", folder, 1);
    unsetenv("XDG_CACHE_HOME");
    snprintf(cache, sizeof cache, "%s/.cache", folder);
    snprintf(ours, sizeof ours, "%s/quern", cache);
    CHECK(usual_is(ours)); /* both are made */
    setenv("XDG_CACHE_HOME", "relative", 1);
    CHECK(usual_is(ours)); /* such are to be ignored */
    rmdir(ours);
    rmdir(cache);
    snprintf(ours, sizeof ours, "%s/quern", folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    CHECK(usual_is(ours));
    rmdir(ours);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CHECK(usual_is(NULL));
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/no/such/place", 1);
    CHECK(usual_is(NULL));
    unsetenv("HOME");
    CHECK(usual_is(NULL));
    CHECK_INT(each_file(folder, NULL, NULL), 0);
    if (old_home) setenv("HOME", old_home, 1);
    if (old_xdg) setenv("XDG_CACHE_HOME", old_xdg, 1);
    free(old_home);
    free(old_xdg);
    remove_folder(folder);
}

/* ---- the knob ------------------------------------------------------------------------------- */

static void words_are_no_folders(void) {
    static const char *const bad[] = {"0", "1", "no", "none", "ON", "cache", "", "."};
    char folder[FILE_PATH], here[FILE_PATH];
    if (!make_folder(folder) || !getcwd(here, sizeof here) || chdir(folder)) return;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        qn_ctx *qn = open_with(NULL);
        CHECK_INT(qn_set(qn, "cache", bad[i]), QN_EARG);
        CHECK(strstr(qn_error(qn), "cache is on, off, or a path with a slash in it"));
        qn_close(qn);
    }
    setenv("QN_CACHE", "0", 1);
    CHECK(!open_with(NULL));
    CHECK(strstr(cache_log, "QN_CACHE is on, off,"));
    setenv("QN_CACHE", "off", 1);
    CHECK_INT(each_file(folder, NULL, NULL), 0);
    CHECK(is_trusted("./relative"));
    CHECK_INT(each_file(folder, NULL, NULL), 1);
    if (chdir(here)) FAIL("lost");
    remove_folder(folder);
}

static int use_with_the_cache_off(void *arg) {
    setenv("HOME", arg, 1);
    unsetenv("XDG_CACHE_HOME");
    int cached = 0;
    for (int i = 0; i < 2; i++) cached |= use_cached("off", NULL, 3);
    return cached + 10;
}

static void off_is_off(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    int cached = in_child(use_with_the_cache_off, folder) - 10;
    if (!no_compiler(cached)) CHECK_INT(cached, 0);
    CHECK_INT(each_file(folder, NULL, NULL), 0);
    remove_folder(folder);
}

static int turn_the_knob(void *arg) {
    char *const *folder = arg;
    qn_ctx *qn = open_with(folder[0]);
    void *state = open_cpu(qn);
    if (!state) return 9;
    int got = use_kernel(qn, state, 3) << 2;
    qn_set(qn, "cache", "off");
    got |= use_kernel(qn, state, 3) << 1;
    qn_set(qn, "cache", folder[1]);
    got |= use_kernel(qn, state, 3);
    qn_set(qn, "cache", folder[0]);
    got |= use_kernel(qn, state, 3) << 3;
    dev_cpu.close(state);
    qn_close(qn);
    return got;
}

static void the_knob_may_be_turned(void) {
    char folder[FILE_PATH], other[FILE_PATH];
    if (!make_folder(folder) || !make_folder(other)) return;
    int got = in_child(turn_the_knob, (char *[]){folder, other});
    if (got == 9)
        SKIP("no compiler");
    else
        CHECK_INT(got, 8); /* found only at the end, in the folder of the beginning */
    CHECK(count_files(other).objects == 1 || got == 9);
    remove_folder(folder);
    remove_folder(other);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool copy_program(const char *to, int flip_build_id, const struct stat *like) {
    static const uint8_t note[] = {4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
    bytes b = file_bytes(program);
    uint8_t *at = b.at ? memmem(b.at, b.size, note, sizeof note) : NULL;
    if (at) at[sizeof note] ^= (uint8_t)flip_build_id;
    bool good = b.at && (at || !flip_build_id) && file_make(to, b.at, b.size) && !chmod(to, 0700);
    free(b.at);
    struct timespec t[2] = {like->st_mtim, like->st_mtim};
    return good && !utimensat(AT_FDCWD, to, t, 0);
}

static int run_copy(void *arg) {
    char *const *word = arg;
    execv(word[0], word);
    return 99;
}

static int use_copy(char *copy, char *folder) {
    static char child[] = "--use";
    char *word[] = {copy, child, folder, NULL};
    return in_child(run_copy, word) - 10;
}

/* The program is the library here, linked statically. */
static void another_build_finds_nothing(void) {
    char folder[FILE_PATH], cache[FILE_PATH + 20], copy[FILE_PATH + 20];
    struct stat s;
    if (!make_folder(folder) || stat(program, &s)) return;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(copy, sizeof copy, "%s/copy", folder);
    CHECK(copy_program(copy, 0, &s));
    int first = use_copy(copy, cache);
    if (!no_compiler(first)) {
        CHECK_INT(first, 0);
        CHECK_INT(use_copy(copy, cache), 1);
        s.st_mtim.tv_nsec ^= 1; /* built at another time */
        CHECK(copy_program(copy, 0, &s));
        CHECK_INT(use_copy(copy, cache), 0);
        CHECK_INT(use_copy(copy, cache), 1);
        if (copy_program(copy, 1, &s)) { /* same size, same time, other contents */
            CHECK_INT(use_copy(copy, cache), 0);
            CHECK_INT(use_copy(copy, cache), 1);
        }
    }
    remove_folder(folder);
}

static void the_key_names_the_processor(void) {
    sample s;
    if (!open_sample(&s)) return;
#if defined(__x86_64__)
    static const unsigned leaf[] = {0, 7, 0x80000002, 0x80000003, 0x80000004};
    for (size_t i = 0; i < COUNT_OF(leaf); i++) {
        unsigned a = leaf[i], b, c = 0, d;
        char text[80];
        __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        snprintf(text, sizeof text, " %x.%x.%x.%x", a, b, c, d);
        CHECK(strstr(s.key.s, text));
    }
#endif
    CHECK(strstr(s.key.s, qn_version()));
    close_sample(&s);
}

static void another_compiler_finds_nothing(void) {
    static const char script[] = "#!/bin/sh\nexec cc \"$@\"\n";
    char folder[FILE_PATH], cc[FILE_PATH + 20], cache[FILE_PATH + 20];
    if (!make_folder(folder)) return;
    snprintf(cc, sizeof cc, "%s/wrapper", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    CHECK(file_make(cc, script, strlen(script)) && !chmod(cc, 0700));
    int first = use_apart(cache, cc, 3);
    if (!no_compiler(first)) {
        CHECK_INT(first, 0);
        CHECK_INT(use_apart(cache, cc, 3), 1);
        CHECK(use_apart(cache, NULL, 3) < 1); /* the usual one */
        CHECK_INT(use_apart(cache, cc, 3), 1);
        file_age(cc, 1000); /* another version */
        CHECK_INT(use_apart(cache, cc, 3), 0);
        CHECK_INT(use_apart(cache, cc, 3), 1);
    }
    remove_folder(folder);
}

static int is_llvm(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    (void)user;
    return info->dlpi_name && strstr(info->dlpi_name, "libLLVM") != NULL;
}

/* 0: found without loading libLLVM, 1: found and loaded it, 2: not found, 3: no compiler */
static int use_without_llvm(void *folder) {
    int cached = use_cached(folder, NULL, 3);
    if (cached < 0) return 3;
    return cached ? dl_iterate_phdr(is_llvm, NULL) != 0 : 2;
}

static void a_warm_process_needs_no_llvm(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    int first = in_child(use_without_llvm, folder);
    if (first == 3) {
        SKIP("no compiler");
    } else {
        CHECK_INT(first, 2);
        CHECK_INT(in_child(use_without_llvm, folder), 0);
        search record = find_entry(folder, "libLLVM last found");
        if (*record.path) { /* without it LLVM is looked for, and what it made is found */
            unlink(record.path);
            CHECK_INT(in_child(use_without_llvm, folder), 1);
            CHECK_INT(in_child(use_without_llvm, folder), 0);
        }
    }
    remove_folder(folder);
}

/* A record of a file that has changed, or of one that is no library any more. */
static void a_record_that_is_out_of_date_misleads_nobody(void) {
    sample s;
    if (!open_sample(&s)) return;
    search record = find_entry(s.folder, "libLLVM last found");
    bytes b = *record.path ? file_bytes(record.path) : (bytes){NULL, 0};
    uint64_t size = 0;
    if (b.at) memcpy(&size, b.at + 8, 8);
    if (!b.at) {
        SKIP("no LLVM");
    } else {
        str key, text;
        str_open(&key, &s.qn->heap);
        str_open(&text, &s.qn->heap);
        str_addn(&key, (char *)b.at + HEADER, size);
        static const char *const stale[] = {"", "llvm", "llvm\n", "llvm\n/no/such/file\n1 2.3\n"};
        for (size_t i = 0; i < COUNT_OF(stale); i++) {
            text.len = 0;
            str_add(&text, stale[i]);
            cpu_cache_put(s.qn, &s.c, &key, &text, 0);
            CHECK_INT(in_child(use_without_llvm, s.folder), 1);
            CHECK_INT(in_child(use_without_llvm, s.folder), 0);
        }
        struct stat f;
        CHECK(!stat(program, &f));
        text.len = 0; /* an existing file that is as it was, but no libLLVM */
        str_addf(&text, "llvm\n%s\n%lld %lld.%09ld\n", program, (long long)f.st_size,
                 (long long)f.st_mtim.tv_sec, f.st_mtim.tv_nsec);
        cpu_cache_put(s.qn, &s.c, &key, &text, 0);
        CHECK_INT(in_child(use_without_llvm, s.folder), 1);
        CHECK_INT(in_child(use_without_llvm, s.folder), 0);
        str_free(&key);
        str_free(&text);
    }
    free(b.at);
    close_sample(&s);
}

/* ---- a training step ------------------------------------------------------------------------ */

typedef struct step_result {
    int code;
    uint64_t compiles;
    float loss, weight[30 * 20];
} step_result;

static int train_a_step(void *arg) {
    char *const *word = arg; /* cache, file for the result */
    step_result r = {.code = 1};
    setenv("QN_CACHE", word[0], 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 2));
    float x[16 * 30];
    int32_t label[16];
    uint64_t seed = 4;
    for (int i = 0; i < 16 * 30; i++) x[i] = (float)test_uniform(&seed);
    for (int i = 0; i < 16; i++) label[i] = i % 10;
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *in = qn_linear_new(m, "in", 30, 20, &QN_LAYER_OPTIONS(.scale = 1));
    qn_layer *out = qn_linear_new(m, "out", 20, 10, NULL);
    qn_optimizer_options options = qn_optimizer_defaults(QN_SGD);
    qn_optimizer *o = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);
    qn_tensor *h = qn_relu(qn_layer_forward(in, qn_from(qn, QN_F32, 2, (int64_t[]){16, 30}, x)));
    qn_tensor *loss =
        qn_cross_entropy(qn_layer_forward(out, h), qn_from(qn, QN_I32, 1, (int64_t[]){16}, label));
    qn_optimizer_step(o, loss);
    r.code = qn_read(loss, &r.loss, sizeof r.loss);
    if (!r.code) r.code = qn_read(qn_module_parameters(m)[0], r.weight, sizeof r.weight);
    qn_stats stats;
    qn_get_stats(qn, &stats, sizeof stats);
    r.compiles = stats.compiles;
    qn_optimizer_free(o);
    qn_module_free(m);
    qn_close(qn);
    return !file_make(word[1], &r, sizeof r);
}

static step_result step_apart(char *cache, char *file) {
    step_result r = {.code = 1};
    CHECK_INT(in_child(train_a_step, (char *[]){cache, file}), 0);
    bytes b = file_bytes(file);
    if (b.size == sizeof r) memcpy(&r, b.at, sizeof r);
    free(b.at);
    CHECK_INT(r.code, 0);
    return r;
}

static void a_second_process_compiles_nothing(void) {
    char folder[FILE_PATH], cache[FILE_PATH + 20], file[FILE_PATH + 20], off[] = "off";
    if (!make_folder(folder)) return;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(file, sizeof file, "%s/result", folder);
    step_result without = step_apart(off, file);
    if (!without.compiles) {
        SKIP("no compiler");
    } else {
        step_result cold = step_apart(cache, file), warm = step_apart(cache, file);
        CHECK_INT(cold.compiles, without.compiles);
        CHECK_INT(warm.compiles, 0);
        CHECK(isfinite((double)cold.loss) && cold.loss > 0);
        CHECK(!memcmp(&without.loss, &cold.loss, sizeof cold.loss + sizeof cold.weight));
        CHECK(!memcmp(&warm.loss, &cold.loss, sizeof cold.loss + sizeof cold.weight));
    }
    remove_folder(folder);
}

/* ---- keeping it small ----------------------------------------------------------------------- */

enum { OBJECTS = 100, HUGE_EACH = 4 << 20 };

static void object_path(const char *folder, int i, char path[2 * FILE_PATH]) {
    snprintf(path, 2 * FILE_PATH, "%s/%032x.o", folder, 0xabc000u + (unsigned)i);
}

/* Object i was used i minutes before the one behind it. Nothing is on the disk: files of holes. */
static void fill_folder(const char *folder) {
    for (int i = 0; i < OBJECTS; i++) {
        char path[2 * FILE_PATH];
        object_path(folder, i, path);
        CHECK(file_make(path, "", 0) && !truncate(path, HUGE_EACH));
        file_age(path, 60 * (OBJECTS - i));
    }
}

static void put_once(const char *folder) {
    qn_ctx *qn = open_with(folder);
    cpu_cache c;
    cpu_cache_open(qn, &c);
    put_made_up(qn, &c, 1);
    cpu_cache_close(&c);
    qn_close(qn);
}

static void the_oldest_go_where_there_is_too_much(void) {
    static const char *const foreign[] = {"notes.txt", "0123.o", ".hidden",
                                          "00000000000000000000000000abc000.o.save"};
    char folder[FILE_PATH], path[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, foreign[i]);
        CHECK(file_make(path, "", 0) && !truncate(path, HUGE_EACH));
        file_age(path, 1000000);
    }
    put_once(folder); /* leaves its stamp */
    fill_folder(folder);
    put_once(folder);
    CHECK_INT(count_files(folder).objects, OBJECTS + 1); /* not twice in an hour */
    snprintf(path, sizeof path, "%s/.tidied", folder);
    file_age(path, 2 * 3600);
    put_once(folder);
    census c = count_files(folder);
    CHECK(c.bytes <= (int64_t)192 << 20);
    CHECK(c.bytes > (int64_t)180 << 20);
    CHECK_INT(c.others, COUNT_OF(foreign));
    for (int i = 0; i < OBJECTS; i++) {
        object_path(folder, i, path);
        CHECK_INT(!access(path, F_OK), i >= OBJECTS - (c.objects - 1));
    }
    fill_folder(folder);
    snprintf(path, sizeof path, "%s/.tidied", folder);
    file_age(path, -3600); /* by a clock that was wrong */
    put_once(folder);
    CHECK(count_files(folder).bytes <= (int64_t)192 << 20);
    remove_folder(folder);
}

static void what_is_used_stays_young(void) {
    sample s;
    if (!open_sample(&s)) return;
    struct stat before, after;
    file_age(s.path, 3600);
    CHECK(!stat(s.path, &before) && is_found(&s) && !stat(s.path, &after));
    CHECK(before.st_mtime == after.st_mtime); /* a day is near enough */
    file_age(s.path, 10 * 86400);
    CHECK(is_found(&s) && !stat(s.path, &after));
    CHECK(after.st_mtime > time(NULL) - 3600);
    close_sample(&s);
}

/* ---- memory running out --------------------------------------------------------------------- */

/* Open, compile or find, and close with request n refused; the number of requests, or -1: wrong. */
static int64_t run_out(const char *folder, uint64_t n) {
    qn_ctx *qn = open_with(folder);
    uint64_t had = qn->heap.bytes, requests = qn->heap.requests;
    void *volatile state = NULL;
    dev_program *volatile p = NULL;
    char text[600];
    kernel_text(3, text, sizeof text);
    qn->heap.fail_at = n ? requests + n : 0;
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) {
        state = open_cpu(qn);
        p = state ? compile_text(qn, state, text) : NULL;
    }
    guard_close(&qn->heap, &g);
    requests = qn->heap.requests - requests;
    qn->heap.fail_at = 0;
    bool good = p ? multiplies(state, p, 3) : n && qn_error_code(qn) == QN_ENOMEM;
    if (p) dev_cpu.unload(state, p);
    if (state) dev_cpu.close(state);
    good = good && qn->heap.bytes == had;
    qn_close(qn);
    return good ? (int64_t)requests : -1;
}

static int run_out_everywhere(void *folder) {
    int tried = 0;
    for (int warm = 0; warm < 2; warm++) {
        if (!warm) remove_folder(folder);
        int64_t all = run_out(folder, 0);
        if (all < 0) return 1;
        for (int64_t n = 1; n <= all; n++) {
            if (!warm) remove_folder(folder);
            if (run_out(folder, (uint64_t)n) < 0) return printf("request %d\n", (int)n), 2;
            tried++;
        }
    }
    return tried > 40 ? 0 : 3;
}

static void memory_may_run_out_anywhere(void) {
    char folder[FILE_PATH];
    if (!make_folder(folder)) return;
    if (!no_compiler(use_apart(folder, NULL, 3)))
        CHECK_INT(in_child(run_out_everywhere, folder), 0);
    remove_folder(folder);
}

int main(int argc, char **argv) {
    static char self[FILE_PATH];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    program = self;
    if (argc == 3 && !strcmp(argv[1], "--use")) {
        return use_it(&(use){argv[2], NULL, 3}) + CHILD_DONE;
    }
    test_begin(argc, argv);
    RUN(no_flipped_bit_is_loaded);
    RUN(no_other_length_is_loaded);
    RUN(damaged_entries_are_compiled_anew);
    RUN(entries_serve_their_own_key_only);
    RUN(only_files_of_ours_are_read);
    RUN(folders_must_be_ours_alone);
    RUN(the_usual_folder_is_where_caches_are);
    RUN(words_are_no_folders);
    RUN(off_is_off);
    RUN(the_knob_may_be_turned);
    RUN(another_build_finds_nothing);
    RUN(the_key_names_the_processor);
    RUN(another_compiler_finds_nothing);
    RUN(a_warm_process_needs_no_llvm);
    RUN(a_record_that_is_out_of_date_misleads_nobody);
    RUN(a_second_process_compiles_nothing);
    RUN(the_oldest_go_where_there_is_too_much);
    RUN(what_is_used_stays_young);
    RUN(memory_may_run_out_anywhere);
    return test_end();
}
