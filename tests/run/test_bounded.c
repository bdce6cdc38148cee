/* test_bounded.c - what is kept for later is bounded: plans, programs, shapes, mappings of code.
 *
 * Each test does something new again and again and looks at what the process takes. `long` runs
 * them as often as the library promises, which takes minutes; else they are as short as shows the
 * same. */
#include "emit_harness.h"
#include "resident.h"
#include "run/run.h"

#include <sys/wait.h>
#include <unistd.h>

static bool is_long;

static int64_t times(int64_t few, int64_t many) {
    return is_long ? many : few;
}

static int64_t mappings(void) {
    FILE *f = fopen("/proc/self/maps", "r");
    int64_t lines = 0;
    for (int c; f && (c = fgetc(f)) != EOF;) lines += c == '\n';
    if (f) fclose(f);
    return lines;
}

static qn_ctx *open_on(const char *device, const char *plans, const char *programs) {
    qn_options o = QN_OPTIONS(.device = device, .threads = 2, .log = harness_log);
    qn_ctx *qn = qn_open(&o);
    if (!qn) return NULL;
    CHECK(!qn_set(qn, "plan_memory", plans));
    CHECK(!qn_set(qn, "program_memory", programs));
    CHECK(!qn_set(qn, "wisdom", "off"));
    return qn;
}

static qn_stats stats_of(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

/* ---- pages of code --------------------------------------------------------------------------- */

static harness h;

static code_store *pages(void) {
    return &((cpu *)h.cpu)->code;
}

/* An object whose kernel adds 1 to 16 floats and takes a remainder, which is a call. */
static bool make_object(str *object) {
    static const char text[] = "kernel \"next\" {\n arg a0 f32[16] read\n arg a1 f32[16] write\n"
                               " vec v < 16 {\n  a1[v] = mod(add(a0[v], f32(1)), f32(3))\n }\n}\n";
    if (!harness_open(&h, "llvm", 1) && !harness_open(&h, "cc", 1)) return false;
    str_open(object, &h.qn->heap);
    cpu_unit unit = {.k = ir_parse(h.qn, text), .object = *object};
    str_open(&unit.key, &h.qn->heap);
    str_open(&unit.text, &h.qn->heap);
    guard g;
    guard_open(&h.qn->heap, &g);
    if (setjmp(g.at)) {
        FAIL("%s", qn_error(h.qn));
        return false;
    }
    cpu_compile(h.cpu, 1, &unit);
    guard_close(&h.qn->heap, &g);
    *object = unit.object;
    ir_close(unit.k);
    str_free(&unit.key);
    str_free(&unit.text);
    return true;
}

typedef struct loaded {
    code_room room;
    emit_kernel run;
} loaded;

static loaded load_one(const str *object) {
    static const char *const names[] = {EMIT_KERNEL};
    loaded x = {0};
    void *function;
    const char *why =
        elf_load(pages(), &(elf_object){object->s, object->len, 1, names}, &function, &x.room);
    if (why) FAIL("%s", why);
    if (!why) memcpy(&x.run, &function, sizeof x.run);
    return x;
}

static bool runs(const loaded *x) {
    float in[16], out[16];
    bool good = true;
    for (int i = 0; i < 16; i++) in[i] = (float)i;
    void *args[2] = {in, out};
    x->run(args, NULL, NULL, 0, 1);
    for (int i = 0; i < 16; i++) good &= out[i] == fmodf((float)i + 1, 3);
    return good;
}

static void with_object(void (*test)(const str *object)) {
    str object;
    if (!make_object(&object)) {
        SKIP("no compiler");
        return;
    }
    test(&object);
    str_free(&object);
    harness_close(&h);
}

/* Random ones of some are dropped and made again; all of them still run at the end. */
static void make_and_drop(const str *object) {
    enum { ALIVE = 1500 };
    static loaded x[ALIVE];
    uint64_t seed = 3;
    int64_t before = mappings(), most = 0, n = times(6000, 200000);
    for (int64_t i = 0; i < n && !test_state.bad; i++) {
        loaded *at = &x[test_below(&seed, ALIVE)];
        code_give(pages(), &at->room);
        *at = load_one(object);
        if (i % (n / 8) == n / 8 - 1) {
            int64_t now = mappings() - before;
            if (now > most) most = now;
        }
    }
    for (int i = 0; i < ALIVE; i++)
        if (x[i].room.slab && !runs(&x[i])) FAIL("kernel %d is not what it was", i);
    printf("%lld kernels made and dropped, %d alive: %lld mappings more\n", (long long)n, ALIVE,
           (long long)most);
    CHECK(most <= 60);
    for (int i = 0; i < ALIVE; i++) code_give(pages(), &x[i].room);
    memset(x, 0, sizeof x);
    CHECK_INT(pages()->slabs, 1);
}

static void kernels_made_and_dropped_leave_mappings_bounded(void) {
    with_object(make_and_drop);
}

static void keep_alive(const str *object) {
    int64_t n = times(8000, 40000), before = mappings();
    loaded *x = calloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n && !test_state.bad; i++) x[i] = load_one(object);
    int64_t more = mappings() - before;
    printf("%lld kernels alive: %lld mappings more\n", (long long)n, (long long)more);
    CHECK(more <= n / 60);
    for (int64_t i = 0; i < n; i += 97) CHECK(runs(&x[i]));
    for (int64_t i = 0; i < n; i++) code_give(pages(), &x[i].room);
    CHECK(mappings() <= before + 8);
    free(x);
}

static void many_kernels_share_a_mapping(void) {
    with_object(keep_alive);
}

/* Which permissions has this address? */
static void permissions(const void *p, char out[5]) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[400];
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long lo, hi;
        char mode[5];
        if (sscanf(line, "%llx-%llx %4s", &lo, &hi, mode) != 3) continue;
        if ((uintptr_t)p >= lo && (uintptr_t)p < hi) memcpy(out, mode, 5);
    }
    if (f) fclose(f);
}

/* While one program's pages are filled, the others' stay executable and nothing is both. */
static void check_permissions(const str *object) {
    loaded x = load_one(object);
    code_room room;
    char mode[5];
    CHECK(code_take(pages(), 5000, 3000, &room));
    CHECK(room.slab == x.room.slab);
    CHECK_INT(room.text_size, 8192);
    CHECK_INT(room.data_size, 4096);
    permissions(room.base + room.text + 5000, mode);
    CHECK_STR(mode, "rw-p");
    permissions(x.room.base + x.room.text, mode);
    CHECK_STR(mode, "r-xp");
    CHECK(runs(&x));
    CHECK(code_seal(&room));
    permissions(room.base + room.text + 5000, mode);
    CHECK_STR(mode, "r-xp");
    permissions(room.base + room.data, mode);
    CHECK_STR(mode, "r--p");
    code_give(pages(), &room);
    CHECK(runs(&x));
    code_give(pages(), &x.room);
}

static void no_page_is_writable_and_executable(void) {
    with_object(check_permissions);
}

/* A child goes on with its own code while the parent loads other code in the same place. */
static void check_fork(const str *object) {
    loaded x = load_one(object);
    int go[2];
    CHECK(!pipe(go));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 0 && runs(&x) ? 0 : 1);
    }
    close(go[0]);
    code_room room;
    size_t text = x.room.text_size;
    code_give(pages(), &x.room);
    CHECK(code_take(pages(), text, 1, &room));
    memset(room.base + room.text, 0xcc, text);
    CHECK(code_seal(&room));
    close(go[1]);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    code_give(pages(), &room);
}

static void a_forked_child_keeps_its_code(void) {
    with_object(check_fork);
}

static void check_large(const str *object) {
    (void)object;
    code_room room, small;
    CHECK(code_take(pages(), 100, 0, &small));
    uint32_t slabs = pages()->slabs;
    CHECK(code_take(pages(), 3 << 20, 5 << 20, &room));
    memset(room.base + room.text, 1, room.text_size);
    memset(room.base + room.data, 2, room.data_size);
    CHECK(code_seal(&room));
    CHECK_INT(room.base[room.text + (3 << 20) - 1], 1);
    CHECK_INT(room.base[room.data], 2);
    CHECK_INT(pages()->slabs, slabs);
    code_give(pages(), &room);
    code_give(pages(), &small);
}

static void a_large_program_has_a_mapping_of_its_own(void) {
    with_object(check_large);
}

/* ---- plans and programs ---------------------------------------------------------------------- */

static qn_tensor *ramp(qn_ctx *qn, int64_t n) {
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)i;
    qn_tensor *t = qn_from(qn, QN_F32, 1, &n, v);
    free(v);
    return t;
}

/* x * (1 + i / 2^20), which no rule changes. */
static qn_tensor *with_constant(qn_ctx *qn, qn_tensor *x, int64_t i) {
    return qn_mul(x, qn_scalar(qn, QN_F32, 1 + (double)(i + 1) / (1 << 20)));
}

static bool reads(qn_tensor *t, int64_t n, double factor) {
    float v[64];
    if (qn_read(t, v, (size_t)n * sizeof *v)) return false;
    bool good = true;
    for (int64_t i = 0; i < n; i++) good &= v[i] == (float)i * (float)factor;
    return good;
}

/* A graph with another constant each time; what they take once the bounds are reached stays. With
 * `lifted` there is one plan for all of them. */
static void constants(const char *device, int64_t n, bool computes, bool lifted) {
    qn_ctx *qn = open_on(device, "2", "2");
    if (!qn) {
        SKIP("no such device");
        return;
    }
    qn_set(qn, "lift", lifted ? "1" : "0");
    qn_tensor *x = ramp(qn, 16);
    int64_t half = 0, host = 0;
    float out[16];
    for (int64_t i = 0; i < n && !test_state.bad; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *y = with_constant(qn, x, i);
        if (computes)
            CHECK(reads(y, 16, 1 + (double)(i + 1) / (1 << 20)));
        else
            CHECK(!qn_read(y, out, sizeof out));
        qn_scope_end(qn, s);
        if (i == n / 2) half = resident(), host = (int64_t)stats_of(qn).host_bytes;
    }
    qn_stats t = stats_of(qn);
    printf("%s: %lld constants: resident %+lld KiB in the second half, heap %+lld KiB; %llu plans "
           "and %llu programs kept, %llu and %llu evicted\n",
           device, (long long)n, (long long)(resident() - half) / 1024,
           (long long)((int64_t)t.host_bytes - host) / 1024, (unsigned long long)t.plans_kept,
           (unsigned long long)t.programs, (unsigned long long)t.plans_evicted,
           (unsigned long long)t.programs_evicted);
    CHECK(t.plan_bytes <= 2 << 20 && t.program_bytes <= 2 << 20);
    if (lifted)
        CHECK(t.plans_kept == 1 && t.programs == 1);
    else
        CHECK(t.plans_evicted > 0 && t.programs_evicted > 0);
    CHECK((int64_t)t.host_bytes - host <= 64 << 10);
    CHECK(resident() - half <= 2 << 20);
    qn_release(x);
    qn_close(qn);
}

static void graphs_of_other_constants_take_flat_memory(void) {
    constants("null", times(4000, 100000), false, false);
}

static void kernels_of_other_constants_take_flat_memory(void) {
    constants("cpu", times(600, 10000), true, false);
}

static void constants_that_are_given_share_one_kernel(void) {
    constants("cpu", times(4000, 100000), true, true);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void shapes(const char *device, int64_t n) {
    qn_ctx *qn = open_on(device, "1", "1");
    if (!qn) {
        SKIP("no such device");
        return;
    }
    int64_t half = 0, host = 0;
    for (int64_t i = 0; i < n && !test_state.bad; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = qn_full(qn, QN_F32, 2, (const int64_t[]){2000 + i, 3}, 0.5);
        qn_tensor *y =
            qn_sum(qn_slice(qn_reshape(qn_neg(x), 1, (const int64_t[]){-1}), 0, 5, 5000 + i, 1),
                   QN_ALL, false);
        float got = 0;
        CHECK(!qn_read(y, &got, sizeof got));
        if (strcmp(device, "null")) CHECK(got == -0.5f * (float)(4995 + i));
        qn_scope_end(qn, s);
        if (i == n / 2) half = resident(), host = (int64_t)stats_of(qn).host_bytes;
    }
    qn_stats t = stats_of(qn);
    printf("%s: %lld shapes: resident %+lld KiB in the second half, heap %+lld KiB\n", device,
           (long long)n, (long long)(resident() - half) / 1024,
           (long long)((int64_t)t.host_bytes - host) / 1024);
    CHECK((int64_t)t.host_bytes - host <= 64 << 10);
    CHECK(resident() - half <= 2 << 20);
    qn_close(qn);
}

static void other_shapes_take_flat_memory_on_ref(void) {
    shapes("ref", times(4000, 40000));
}

static void other_shapes_take_flat_memory_on_null(void) {
    shapes("null", times(3000, 40000));
}

int main(int argc, char **argv) {
    is_long = argc > 1 && !strcmp(argv[1], "long");
    argv[is_long] = argv[0];
    test_begin(argc - is_long, argv + is_long);
    RUN(kernels_made_and_dropped_leave_mappings_bounded);
    RUN(many_kernels_share_a_mapping);
    RUN(no_page_is_writable_and_executable);
    RUN(a_forked_child_keeps_its_code);
    RUN(a_large_program_has_a_mapping_of_its_own);
    RUN(graphs_of_other_constants_take_flat_memory);
    RUN(kernels_of_other_constants_take_flat_memory);
    RUN(constants_that_are_given_share_one_kernel);

    RUN(other_shapes_take_flat_memory_on_ref);
    RUN(other_shapes_take_flat_memory_on_null);
    return test_end();
}
