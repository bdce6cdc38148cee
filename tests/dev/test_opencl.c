/* test_opencl.c - the OpenCL device: missing in every way it can be, its kernels against the
 * interpreter, schedules for work groups through the public calls against the oracle, its limits.
 * What needs a device is skipped where there is none. */
#include "emit_harness.h"
#include "run/run.h"
#include "transform/transform.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static harness h;

/* ---- missing -------------------------------------------------------------------------------- */

/* Does the device, opened with this in the environment, stay away for this reason, and is that no
 * error? In a process of its own: OpenCL's loader looks at its environment once. */
static bool is_missing(const char *name, const char *value, const char *reason) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
        str why;
        str_open(&why, &qn->heap);
        void *state = dev_opencl.open(qn, &why);
        bool good = !state && why.s && strstr(why.s, reason) && !qn_error_code(qn);
        if (!good && *value) printf("%s=%s: %s\n", name, value, why.s ? why.s : "it opens");
        str_free(&why);
        good = good && !qn_open(&QN_OPTIONS(.device = "opencl"));
        qn_close(qn);
        fflush(stdout);
        _exit(!good);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

static void a_missing_library_is_a_missing_device(void) {
    CHECK(is_missing("QN_OPENCL_LIBRARY", "libNoSuchThing.so.1", "no library"));
    CHECK(is_missing("QN_OPENCL_LIBRARY", "libm.so.6", "has no cl"));
}

/* Where the library is there; without it that is the reason. */
static void a_missing_platform_is_a_missing_device(void) {
    bool library = !is_missing("QN_OPENCL", "", "no library");
    CHECK(is_missing("QN_OPENCL", "77:3", library ? "no usable device 77:3" : "no library"));
    CHECK(is_missing("OCL_ICD_VENDORS", "/nonexistent/", library ? "no OpenCL" : "no library"));
}

/* ---- opening -------------------------------------------------------------------------------- */

enum { SIDE_BY_SIDE = 8 };

static void *open_and_compute(void *good) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "opencl"));
    float v = 0;
    qn_tensor *t = qn_add(qn_ones(qn, QN_F32, 0, NULL), qn_ones(qn, QN_F32, 0, NULL));
    *(bool *)good = qn && qn_read(t, &v, sizeof v) == QN_OK && v == 2;
    qn_close(qn);
    return NULL;
}

static bool opens_side_by_side(const void *nothing) {
    (void)nothing;
    pthread_t thread[SIDE_BY_SIDE];
    bool good[SIDE_BY_SIDE] = {false}, all = true;
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        pthread_create(&thread[i], NULL, open_and_compute, &good[i]);
    for (int i = 0; i < SIDE_BY_SIDE; i++) pthread_join(thread[i], NULL), all = all && good[i];
    return all;
}

/* In a process where nobody has called OpenCL before. */
static void threads_open_contexts_side_by_side(void) {
    if (!device_here("opencl")) {
        SKIP("no OpenCL device here");
        return;
    }
    for (int i = 0; i < 3; i++) CHECK(test_apart(opens_side_by_side, NULL));
}

static bool close_in_child(const void *qn) {
    qn_close((qn_ctx *)(uintptr_t)qn);
    return true;
}

static bool child_closes(const void *nothing) {
    (void)nothing;
    float v;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "opencl"));
    qn_tensor *t = qn_exp(qn_ones(qn, QN_F32, 0, NULL));
    bool good = qn_read(t, &v, sizeof v) == QN_OK && test_apart(close_in_child, qn);
    qn_close(qn);
    return good;
}

static void a_forked_child_closes_its_copy(void) {
    if (!device_here("opencl")) {
        SKIP("no OpenCL device here");
        return;
    }
    CHECK(test_apart(child_closes, NULL));
}

/* ---- kernels -------------------------------------------------------------------------------- */

static const char backwards[] =
    "kernel \"backwards\" {\n arg a0 i32[1024] write\n arg a1 i32[1024] read\n local t0 i32[256]\n"
    " par i < 4 {\n def t0\n thread j < 256 {\n t0[j] = mul(a1[256*i + j], i32(3))\n }\n"
    " thread k < 256 {\n a0[256*i + k] = t0[255 - k]\n }\n }\n}\n";

/* Compile and launch with what the kernel says, and nothing more; does it give what it should? */
static bool right(kernel *k) {
    harness_case c = {.seed = 5};
    harness_buffers b = {.n = 0};
    harness_make(k, &c, &b);
    void *want[HARNESS_ARGS];
    char error[200];
    for (int a = 0; a < b.n; a++) want[a] = b.want[a] + HARNESS_GUARD;
    CHECK(interp_run(k, false, NULL, want, error));
    dev_program *p = dev_opencl.compile(h.cpu, k);
    CHECK_INT(harness_on_device(&h, p, NULL, &b), QN_OK);
    dev_opencl.unload(h.cpu, p);
    bool same = !memcmp(b.got[0] + HARNESS_GUARD, b.want[0] + HARNESS_GUARD, b.size[0]);
    harness_free(&b);
    return same;
}

static void members_wait_at_barriers(void) {
    kernel *with = ir_parse(h.qn, backwards), *without = ir_parse(h.qn, backwards);
    ir_place_barriers(with);
    CHECK(right(with));
    CHECK(!right(without));
    ir_close(with);
    ir_close(without);
}

/* A kernel by lines of a schedule, through the passes and the device. */
static void agrees(const char *text, const char *lines) {
    kernel *k = ir_parse(h.qn, text);
    str why;
    str_open(&why, &h.qn->heap);
    if (!k || transform_lines(k, lines, &why) < 0)
        FAIL("%s", why.s ? why.s : qn_error(h.qn));
    else
        run_passes(k);
    str_free(&why);
    if (!test_state.bad) {
        harness_case c = {.dim = {70}, .rel = 1e-5, .plain = true, .seed = 3};
        harness_run_kernel(&h, k, &c);
    }
    ir_close(k);
}

/* PoCL 3.1 aborted over the last store, where LLVM had threaded a jump past it. */
static void the_first_member_stores_behind_a_loop_of_barriers(void) {
    agrees("kernel \"squares\" {\n arg a0 bool[1] write\n local t0 bool[1]\n"
           " local t1 f64[1]\n arg a1 f64[128] read\n arg a2 f64[2] write\n"
           " arg a3 f64[2] write\n def t0 = bool(1)\n for r0 < 2 {\n def t1 = f64(0)\n"
           " for r1 < 64 {\n t1[0] += mul(a1[2*r1 + r0], a1[2*r1 + r0])\n }\n"
           " a2[r0] = t1[0]\n a3[r0] = t1[0]\n"
           " t0[0] min= or(eq(t1[0], t1[0]), ne(t1[0], t1[0]))\n }\n a0[0] = t0[0]\n}\n",
           "split r1 32 -> oj j\nrfactor t1 j\nthread j\ntree_reduce j_1\nthread j_1_1\n"
           "thread j_1_2\nthread j_1_3\nthread j_1_4\nthread j_1_5\n");
}

/* PoCL 3.1 took the first member's way apart from the others' where barriers stood under a
 * condition, here whether the group has an item, and the last row was another one's. */
static void barriers_stand_under_no_condition(void) {
    agrees("kernel \"product\" {\n arg a0 f32[136] write\n local t0 f32[1]\n"
           " arg a1 f32[272] read\n arg a2 f32[8] read\n for i0 < 17 {\n for i1 < 8 {\n"
           " def t0 = f32(0)\n for r0 < 16 {\n t0[0] += mul(a1[16*i0 + r0], a2[i1])\n }\n"
           " a0[8*i0 + i1] = t0[0]\n }\n }\n}\n",
           "pad i0 32\npad i1 16\nsplit i0 32 -> gr ri\nsplit i1 16 -> gc ci\nswap ri gc\n"
           "split ri 16 -> ur ty\nsplit ci 16 -> uc tx\nswap ur ty\nswap uc tx\nswap ur tx\n"
           "split r0 16 -> ko ki\naccumulate t0 uc\naccumulate t0 ur\naccumulate t0 tx\n"
           "accumulate t0 ty\nswap ki ty\nswap ki tx\nstage a1 ko ki ur ty\n"
           "merge ur_2 ty_2 -> m\nswap ki_1 m\nsplit m 16 -> s a\nthread a\nthread ki_1\n"
           "thread ty\nthread tx\nthread ty_1\nthread tx_1\nunroll ur\nunroll uc\n"
           "unroll ur_1\nunroll uc_1\nmerge gr gc -> m\npar m\n");
}

static void tiles_live_where_members_find_them(void) {
    agrees("kernel \"sums\" {\n dim n 1 512\n arg a0 f32[5] write\n arg a1 f32[5*n] read\n"
           " local t0 f32[1]\n for i < 5 {\n def t0 = f32(0)\n for k < n {\n"
           " t0[0] += a1[n*i + k]\n }\n a0[i] = sqrt(abs(t0[0]))\n }\n}\n",
           "par i\nsplit k 32 -> ko ki\nrfactor t0 ki\nthread ki\ntree_reduce ki_1\nthread ki_1_1\n"
           "thread ki_1_2\nthread ki_1_3\n");
    agrees(
        "kernel \"argmax\" {\n arg a0 i64[3] write\n arg a1 f64[300] read\n local t0 f64[1]\n"
        " local t1 i64[1]\n for i < 3 {\n def t0 = f64(-inf)\n"
        " def t1 = i64(9223372036854775807)\n for k < 100 {\n"
        " (t0, t1)[0] argmax= a1[100*i + k], idx(k)\n }\n a0[i] = t1[0]\n }\n}\n",
        "split k 16 -> ko ki\nrfactor t0 ki\nthread ki\ntree_reduce ki_1\nthread ki_1_1\npar i\n");
    agrees("kernel \"halves\" {\n arg a0 f16[64] write\n arg a1 f16[64] read\n local t0 f16[64]\n"
           " def t0 = f16(0.5)\n for i < 64 {\n t0[i] += a1[i]\n }\n for j < 64 {\n"
           " a0[j] = t0[63 - j]\n }\n}\n",
           "thread i\nthread j\n");
}

static void what_a_group_cannot_share_is_refused(void) {
    static const char *const text[] = {
        "kernel \"large\" {\n arg a0 f32[8] write\n local t0 f32[16000000]\n def t0 = f32(1)\n"
        " thread i < 8 {\n t0[i + 9] = f32(2)\n }\n thread j < 8 {\n a0[j] = t0[17 - j]\n }\n}\n"};
    kernel *k = ir_parse(h.qn, text[0]);
    guard g;
    guard_open(&h.qn->heap, &g);
    if (!setjmp(g.at)) {
        ir_place_barriers(k);
        dev_opencl.unload(h.cpu, dev_opencl.compile(h.cpu, k));
        FAIL("it compiles");
    } else {
        CHECK_INT(qn_error_code(h.qn), QN_EDEVICE);
        CHECK(strstr(qn_error(h.qn), "a group shares 64000000 bytes") != NULL);
    }
    guard_close(&h.qn->heap, &g);
    qn_clear_error(h.qn);
    ir_close(k);
}

static void memory_that_is_not_there_is_not_given(void) {
    CHECK(!dev_opencl.alloc(h.cpu, (size_t)1 << 50));
}

/* ---- through the public calls --------------------------------------------------------------- */

/* The same on both devices; results below `most` numbers each. */
static void same_on_both(qn_tensor *(*make)(qn_ctx *qn), double tolerance) {
    enum { MOST = 20000 };
    static float got[2][MOST];
    int64_t n = 0;
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = d ? "opencl" : "ref"));
        qn_tensor *t = qn_cast(make(qn), QN_F32);
        n = 1;
        for (int i = 0; i < qn_rank(t); i++) n *= qn_dim(t, i);
        CHECK(n > 0 && n <= MOST);
        if (qn_read(t, got[d], (size_t)n * sizeof(float))) FAIL("%s", qn_error(qn));
        qn_close(qn);
    }
    for (int64_t i = 0; i < n && !test_state.bad; i++)
        CHECK_NEAR((double)got[1][i], (double)got[0][i], tolerance, tolerance);
}

static qn_tensor *numbers(qn_ctx *qn, int rows, int columns) {
    static float x[20000];
    uint64_t s = (uint64_t)(1000 * rows + columns);
    for (int i = 0; i < rows * columns; i++) x[i] = (float)test_uniform(&s) - 0.5f;
    return qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, x);
}

static qn_tensor *softmax_of_rows(qn_ctx *qn) {
    return qn_softmax(numbers(qn, 7, 301), -1);
}
static qn_tensor *one_sum(qn_ctx *qn) {
    return qn_sum(numbers(qn, 90, 70), QN_ALL, false);
}
static qn_tensor *sums_of_columns(qn_ctx *qn) {
    return qn_sum(numbers(qn, 150, 66), 0, false);
}
static qn_tensor *largest_places(qn_ctx *qn) {
    return qn_argmax(numbers(qn, 5, 200), 1, false);
}
static qn_tensor *product_in_blocks(qn_ctx *qn) {
    return qn_relu(qn_matmul(numbers(qn, 70, 50), numbers(qn, 50, 90)));
}
static qn_tensor *product_of_transposed(qn_ctx *qn) {
    qn_tensor *a = numbers(qn, 64, 33);
    return qn_matmul(qn_permute(a, 2, (int[]){1, 0}), numbers(qn, 64, 40));
}

static void rows_are_computed_by_groups(void) {
    same_on_both(softmax_of_rows, 1e-6);
    same_on_both(one_sum, 1e-4);
    same_on_both(sums_of_columns, 1e-5);
    same_on_both(largest_places, 0);
}

static void products_go_through_shared_blocks(void) {
    same_on_both(product_in_blocks, 1e-5);
    same_on_both(product_of_transposed, 1e-5);
}

/* A classifier of two layers, by plain gradient steps. */
static bool train(const char *device, int steps, float *loss) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    if (!qn) return false;
    float x[32 * 8], w[2][8 * 24];
    int32_t y[32];
    uint64_t s = 9;
    for (int i = 0; i < 32 * 8; i++) x[i] = (float)test_uniform(&s) - 0.5f;
    for (int i = 0; i < 32; i++) y[i] = x[8 * i] > 0 ? 1 : x[8 * i + 1] > 0 ? 2 : 0;
    for (int i = 0; i < 2 * 8 * 24; i++) w[i / 192][i % 192] = (float)test_uniform(&s) - 0.5f;
    qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){32, 8}, x);
    qn_tensor *target = qn_from(qn, QN_I32, 1, (int64_t[]){32}, y);
    qn_tensor *p[2] = {qn_from(qn, QN_F32, 2, (int64_t[]){8, 24}, w[0]),
                       qn_from(qn, QN_F32, 2, (int64_t[]){24, 3}, w[1])};
    for (int i = 0; i < steps; i++) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *mean = qn_cross_entropy(qn_matmul(qn_tanh(qn_matmul(in, p[0])), p[1]), target);
        qn_tensor *slope[2] = {NULL};
        CHECK_INT(qn_grad(mean, NULL, 2, p, slope), QN_OK);
        for (int k = 0; k < 2; k++)
            qn_assign(p[k], qn_sub(p[k], qn_mul(slope[k], qn_like(slope[k], 0.5))));
        if (qn_read(mean, &loss[i], sizeof *loss)) FAIL("%s", qn_error(qn));
        qn_scope_end(qn, scope);
    }
    qn_close(qn);
    return true;
}

static void it_trains_as_the_oracle_does(void) {
    enum { STEPS = 12 };
    float ref[STEPS] = {0}, opencl[STEPS] = {1};
    CHECK(train("ref", STEPS, ref) && train("opencl", STEPS, opencl));
    for (int i = 0; i < STEPS; i++) CHECK_NEAR((double)opencl[i], (double)ref[i], 1e-5, 0);
    CHECK((double)ref[STEPS - 1] < 0.95 * (double)ref[0]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_missing_library_is_a_missing_device); /* before the library is in this process */
    RUN(a_missing_platform_is_a_missing_device);
    RUN(threads_open_contexts_side_by_side);
    RUN(a_forked_child_closes_its_copy);
    if (harness_open(&h, "opencl", 1)) {
        RUN(members_wait_at_barriers);
        RUN(the_first_member_stores_behind_a_loop_of_barriers);
        RUN(barriers_stand_under_no_condition);
        RUN(tiles_live_where_members_find_them);
        RUN(what_a_group_cannot_share_is_refused);
        RUN(memory_that_is_not_there_is_not_given);
        RUN(rows_are_computed_by_groups);
        RUN(products_go_through_shared_blocks);
        RUN(it_trains_as_the_oracle_does);
        harness_close(&h);
    } else {
        test_state.skipped += 7;
    }
    return test_end();
}
