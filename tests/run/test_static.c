/* test_static.c - what a run of a static graph costs beside its kernels, in things that can be
 * counted. */
#include "graph/graph.h"
#include "run/run.h"
#include "test.h"

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

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_run_of_what_lies_in_memory_asks_for_no_memory);
    RUN(runs_alone_sweep_shapes);
    return test_end();
}
