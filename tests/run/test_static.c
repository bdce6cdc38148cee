/* test_static.c - what a run of a static graph costs beside its kernels, in things that can be
 * counted. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "quern_loop.h"
#include "run/run.h"
#include "test.h"

/* ---- what the process asks the system for ---------------------------------------------------- */

static atomic_bool counting;
static atomic_int locks, allocations;

static int counted_lock(const char *name, pthread_mutex_t *m) {
    int (*next)(pthread_mutex_t *) = NULL;
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(&next, &symbol, sizeof next);
    if (atomic_load(&counting)) atomic_fetch_add(&locks, 1);
    return next(m);
}

int pthread_mutex_lock(pthread_mutex_t *m) {
    return counted_lock("pthread_mutex_lock", m);
}

int pthread_mutex_trylock(pthread_mutex_t *m) {
    return counted_lock("pthread_mutex_trylock", m);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t size);
void *__libc_memalign(size_t align, size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
static void count_allocation(void) {
    if (atomic_load(&counting)) atomic_fetch_add(&allocations, 1);
}
void *malloc(size_t size) {
    count_allocation();
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    count_allocation();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t size) {
    count_allocation();
    return __libc_realloc(p, size);
}
void *aligned_alloc(size_t align, size_t size) {
    count_allocation();
    return __libc_memalign(align, size);
}
int posix_memalign(void **p, size_t align, size_t size) {
    count_allocation();
    *p = __libc_memalign(align, size);
    return *p ? 0 : ENOMEM;
}
#endif

static qn_ctx *open_one(void) {
    qn_options o = QN_OPTIONS(.threads = 1);
    return qn_open(&o);
}

/* A run that goes through the path of requests takes an arena. */
static void a_run_of_what_lies_in_memory_asks_for_no_memory(void) {
    qn_ctx *qn = open_one();
    float data[16] = {1, 2, 3}, got[16];
    int64_t shape[] = {16};
    qn_tensor *x = qn_from(qn, QN_F32, 1, shape, data), *y = qn_add(x, x), *out = NULL;
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(p != NULL);
    uint64_t before = 0;
    enum { WARM = 3000, RUNS = 4000 }; /* handles are used again late */
    for (int i = 0; i < RUNS; i++) {
        if (i == WARM) before = qn->heap.requests;
        CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
        CHECK_INT(qn_realize(1, &x), QN_OK);
        if (i < RUNS - 1) qn_release(out);
    }
    CHECK_INT((int64_t)(qn->heap.requests - before), 0);
    CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
    CHECK(got[0] == 2 && got[1] == 4 && got[2] == 6 && got[15] == 0);
    qn_close(qn);
}

enum { WIDE = 192 };

/* A product that is worth several threads, rows that are not, a parameter that is assigned. */
static void nothing_is_locked_or_asked_for(int threads) {
    enum { WARM = 3000, RUNS = 200 };
    static float data[WIDE * WIDE];
    int64_t shape[] = {WIDE, WIDE};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
    for (int i = 0; i < WIDE * WIDE; i++) data[i] = (float)(i % 7) * 0.01f;
    qn_tensor *x = qn_from(qn, QN_F32, 2, shape, data), *w = qn_from(qn, QN_F32, 2, shape, data);
    qn_tensor *y = qn_softmax(qn_matmul(x, w), 1), *sums = qn_sum(y, 0, false), *out[2];
    CHECK_INT(qn_assign(w, qn_add(qn_mul(w, sums), x)), QN_OK);
    qn_plan *p = qn_plan_new(qn, 1, &x, 2, (qn_tensor *[]){y, sums});
    CHECK(p != NULL);
    uint64_t before = 0;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    atomic_store(&counting, true);
    pthread_mutex_lock(&own);
    atomic_store(&counting, false);
    CHECK_INT(locks, 1); /* they are counted */
    atomic_store(&locks, 0);
    for (int i = 0; p && i < WARM + RUNS; i++) {
        if (i == WARM) before = qn->heap.requests, locks = allocations = 0;
        atomic_store(&counting, true);
        qn_code code = qn_plan_run(p, &x, out);
        atomic_store(&counting, false);
        CHECK_INT(code, QN_OK);
        for (int k = 0; k < 2; k++) qn_release(out[k]);
    }
    CHECK_INT((int64_t)(qn->heap.requests - before), 0);
    CHECK_INT(locks, 0);
    CHECK_INT(allocations, 0);
    qn_close(qn);
}

static void a_run_on_one_thread_asks_for_no_memory_and_no_lock(void) {
    nothing_is_locked_or_asked_for(1);
}

static void a_run_on_several_threads_asks_for_no_memory_and_no_lock(void) {
    nothing_is_locked_or_asked_for(4);
}

/* ---- graphs of every kind -------------------------------------------------------------------- */

static qn_code trip(qn_ctx *qn, void *arg, qn_tensor *const *states, qn_tensor *const *in,
                    qn_tensor **next, qn_tensor **outputs) {
    (void)qn, (void)arg, (void)in, (void)outputs;
    next[0] = qn_tanh(qn_add(states[0], qn_like(states[0], 1)));
    return QN_OK;
}
static qn_tensor *looped(qn_tensor *x) {
    qn_tensor *end = NULL;
    qn_loop_options o = QN_LOOP_OPTIONS();
    o.trips = 5;
    const qn_loop_call c = {.n = 1, .states = &x, .options = &o, .body = trip};
    return qn_loop_run(qn_context(x), &c, &end, NULL) ? NULL : end;
}
static qn_tensor *gradient_of(qn_tensor *x) {
    qn_tensor *g = NULL, *y = qn_sum(qn_square(qn_tanh(qn_matmul(x, x))), QN_ALL, false);
    return qn_grad(y, NULL, 1, &x, &g) ? NULL : g;
}
static qn_tensor *plus_unit(qn_tensor *x) {
    int64_t n = qn_dim(x, 0);
    return qn_add(qn_matmul(x, qn_transpose(x, 0, 1)), qn_eye(qn_context(x), QN_F32, n, n));
}
static qn_tensor *inverse_of(qn_tensor *x) {
    return qn_inv(plus_unit(x));
}
static qn_tensor *triangle_of(qn_tensor *x) {
    return qn_cholesky(plus_unit(x), false);
}
static qn_tensor *sorted(qn_tensor *x) {
    return qn_sort(x, 1, false);
}
static qn_tensor *scanned(qn_tensor *x) {
    return qn_cumsum(qn_softmax(qn_transpose(x, 0, 1), 1), 1);
}
static qn_tensor *convolved(qn_tensor *x) {
    qn_tensor *w = qn_ones(qn_context(x), QN_F32, 4, (int64_t[]){8, 4, 3, 3});
    return qn_conv2d(qn_reshape(x, 4, (int64_t[]){1, 4, -1, 48}), w, NULL, NULL);
}
static qn_tensor *attended(qn_tensor *x) {
    x = qn_reshape(x, 3, (int64_t[]){4, -1, 48});
    return qn_attention(x, x, x, NULL);
}
static qn_tensor *scattered(qn_tensor *x) {
    qn_tensor *at = qn_iota(qn_context(x), QN_I64, 2, (int64_t[]){WIDE, WIDE}, 0);
    return qn_scatter(x, at, qn_take(x, qn_select(at, 1, 0), 1), 0, QN_COMBINE_SUM);
}
static qn_tensor *transformed(qn_tensor *x) {
    return qn_fft(qn_reshape(x, 3, (int64_t[]){WIDE, -1, 2}), 0, 1, QN_NORM_BACKWARD);
}
static qn_tensor *random_of(qn_tensor *x) {
    qn_tensor *key = qn_bitcast(qn_slice(qn_select(x, 0, 0), 0, 0, 2, 1), QN_U32);
    const int64_t shape[] = {WIDE, WIDE};
    return qn_add(qn_randn(key, QN_F32, 2, shape), qn_gamma(key, qn_add(x, qn_like(x, 1))));
}

static qn_tensor *(*const kinds[])(qn_tensor *) = {looped,    gradient_of, inverse_of, triangle_of,
                                                   sorted,    scanned,     convolved,  attended,
                                                   scattered, transformed, random_of};

static void run_counted(qn_ctx *qn, size_t kind, qn_plan *p, qn_tensor *const *x, int n) {
    enum { WARM = 600, RUNS = 50 };
    uint64_t before = 0;
    qn_tensor *out;
    for (int i = 0; i < WARM + RUNS; i++) {
        if (i == WARM) before = qn->heap.requests, locks = allocations = 0;
        atomic_store(&counting, true);
        qn_code code = qn_plan_run(p, &x[i % n], &out);
        atomic_store(&counting, false);
        CHECK_INT(code, QN_OK);
        qn_release(out);
    }
    if (qn->heap.requests != before || locks || allocations)
        FAIL("graph %zu: %lld requests, %d locks, %d allocations", kind,
             (long long)(qn->heap.requests - before), locks, allocations);
}

/* Other libraries' routines may lock: without them. */
static void no_kind_of_graph_asks_for_memory_or_a_lock(void) {
    static float data[WIDE * WIDE];
    const int64_t shape[] = {WIDE, WIDE};
    for (int i = 0; i < WIDE * WIDE; i++) data[i] = (float)(i % 7) * 0.01f;
    setenv("QN_LAPACK", "no", 1);
    for (size_t k = 0; k < 2 * COUNT_OF(kinds); k++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = k & 1 ? 4 : 1));
        qn_tensor *x = qn_from(qn, QN_F32, 2, shape, data), *y = kinds[k / 2](x);
        qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
        if (p) run_counted(qn, k / 2, p, &x, 1);
        if (!p) FAIL("graph %zu: %s", k / 2, qn_error(qn));
        qn_close(qn);
    }
    unsetenv("QN_LAPACK");
}

/* Sizes of a range by turns. */
static void nor_do_runs_under_other_sizes(void) {
    enum { MOST = 64, SIZES = 3 };
    static float data[MOST * 16];
    qn_ctx *qn = open_one();
    int64_t t = qn_var(qn, "t", 1, MOST);
    CHECK_INT(qn_bind(qn, t, 7), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 16}, data), *in[SIZES];
    qn_tensor *y = qn_softmax(qn_matmul(x, qn_transpose(x, 0, 1)), 1);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(p != NULL);
    for (int i = 0; i < SIZES; i++)
        in[i] = qn_from(qn, QN_F32, 2, (int64_t[]){5 + 20 * i, 16}, data);
    if (p) run_counted(qn, 99, p, in, SIZES);
    qn_close(qn);
}

/* What a launch is given was checked in the first run, and is known until it changes: where a test
 * says that a kernel has no items, it has none. */
static void launches_are_checked_once(void) {
    qn_ctx *qn = open_one();
    float data[16] = {1, 2, 3}, got[16] = {0};
    int64_t t = qn_var(qn, "t", 1, 16), two = 2;
    CHECK_INT(qn_bind(qn, t, 16), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 1, &t, data), *y = qn_add(x, x), *out = NULL;
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(p && qn_plan_run(p, &x, &out) == QN_OK);
    launch *l = p ? static_plan_at(p, "test", &qn)->launch : NULL;
    CHECK(l && l->checked->is && l->checked->items > 0);
    if (l) l->checked->items = 0;
    float *memory = buffer_at(qn, node_at(qn->graph, tensor_at(out)->node)->buffer)->memory;
    memory[0] = -1;
    qn_release(out);
    CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
    CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
    CHECK(got[0] == -1);
    x = qn_from(qn, QN_F32, 1, &two, data); /* other sizes */
    CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
    CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
    CHECK(got[0] == 2 && got[1] == 4);
    qn_close(qn);
}

/* All sizes of a range are one plan, made ahead: running it compiles and plans nothing. By hand:
 * the sum of 0 .. n-1 times n. */
static void every_size_of_a_range_is_planned_ahead(void) {
    enum { MOST = 300 };
    static float v[MOST];
    qn_ctx *qn = open_one();
    int64_t t = qn_var(qn, "t", 1, MOST);
    for (int i = 0; i < MOST; i++) v[i] = (float)i;
    CHECK_INT(qn_bind(qn, t, MOST), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 1, &t, v), *out;
    qn_tensor *ones = qn_ones(qn, QN_F32, 2, (int64_t[]){t, 1});
    qn_tensor *y = qn_sum(qn_mul(qn_unsqueeze(x, 0), ones), QN_ALL, false);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(p != NULL);
    qn_stats before, after;
    qn_get_stats(qn, &before, sizeof before);
    for (int64_t n = 1; p && n <= MOST; n++) {
        float got = -1;
        qn_tensor *in = qn_from(qn, QN_F32, 1, &n, v);
        CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
        CHECK_INT(qn_read(out, &got, sizeof got), QN_OK);
        double want = (double)(n * (n - 1) / 2) * (double)n;
        CHECK_NEAR(got, want, 1e-5, 0);
    }
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT((int64_t)(after.compiles - before.compiles), 0);
    CHECK_INT((int64_t)(after.plans - before.plans), 0);
    qn_close(qn);
}

/* Data of ever new sizes leaves shapes behind, and a program may do nothing but run. */
static void runs_alone_sweep_shapes(void) {
    enum { SIZES = 20000 };
    static float data[SIZES], got[SIZES];
    qn_ctx *qn = open_one();
    if (graph_sweep_due(qn->graph)) { /* a build that sweeps at every request */
        SKIP("always due");
        qn_close(qn);
        return;
    }
    int64_t t = qn_var(qn, "t", 1, SIZES);
    for (int i = 0; i < SIZES; i++) data[i] = (float)i;
    CHECK_INT(qn_bind(qn, t, 1), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 1, &t, data), *y = qn_add(x, x), *out;
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(p != NULL);
    for (int64_t n = 1; n <= SIZES && p && !test_state.bad; n++) {
        qn_tensor *in = qn_from(qn, QN_F32, 1, &n, data);
        CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
        CHECK(n < SIZES || !graph_sweep_due(qn->graph));
        if (n == SIZES) CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        qn_release(in);
        qn_release(out);
    }
    CHECK(got[SIZES - 1] == 2 * data[SIZES - 1]);
    qn_close(qn);
}

/* Kernels are made for all of a variable's range when the graph is captured, those of what is made
 * of parameters alone, too. */
static void no_run_under_other_sizes_compiles(void) {
    qn_ctx *qn = open_one();
    const int64_t t = qn_var(qn, "t", 1, 300);
    static float data[300 * 16];
    qn_tensor *w = qn_from(qn, QN_F32, 2, (int64_t[]){16, 16}, data);
    qn_bind(qn, t, 7);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 16}, data);
    qn_tensor *y = qn_softmax(qn_matmul(x, qn_exp(w)), -1);
    y = qn_matmul(qn_transpose(y, 0, 1), x);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    qn_stats before, after;
    qn_get_stats(qn, &before, sizeof before);
    for (int64_t n = 1; n <= 300; n += 23) {
        qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){n, 16}, data), *out = NULL;
        CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
        qn_release(in), qn_release(out);
    }
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.compiles, before.compiles);
    CHECK(before.compiles > 0);
    qn_plan_free(p);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_run_of_what_lies_in_memory_asks_for_no_memory);
    RUN(a_run_on_one_thread_asks_for_no_memory_and_no_lock);
    RUN(a_run_on_several_threads_asks_for_no_memory_and_no_lock);
    RUN(no_kind_of_graph_asks_for_memory_or_a_lock);
    RUN(nor_do_runs_under_other_sizes);
    RUN(launches_are_checked_once);
    RUN(every_size_of_a_range_is_planned_ahead);
    RUN(runs_alone_sweep_shapes);
    RUN(no_run_under_other_sizes_compiles);
    return test_end();
}
