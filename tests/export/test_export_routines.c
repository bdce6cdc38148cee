/* test_export_routines.c - what is no loop nest in exported programs: sorting and what comes of it,
 * places, Fourier transforms. The text is the library's own, so bits are the same; of Fourier
 * transforms where the compiler has vectors, and without them within roundings. */
#include "export_run.h"
#include "quern_loop.h"

#include <math.h>

/* Numbers that come several times, zeros of both signs, infinities and NaN. */
static qn_tensor *numbers(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t n) {
    static float data[1 << 14];
    for (int64_t i = 0; i < rows * n; i++) {
        data[i] = (float)(i * 37 % 101 - 50) / 4;
        if (i % 53 == 7) data[i] = dtype == QN_F32 || dtype == QN_F64 ? NAN : 0;
        if (i % 29 == 3) data[i] = -0.0f;
    }
    qn_tensor *x = qn_cast(qn_from(qn, QN_F32, 2, (int64_t[]){rows, n}, data), dtype);
    if (!x || qn_realize(1, &x)) FAIL("%s", qn_error(qn));
    return x;
}

enum { WITH_VECTORS = 5 }; /* of export_ways: gcc, and under sanitizers */

static void compare(qn_ctx *qn, qn_tensor *x, int n, qn_tensor *const *out, int ways) {
    export_case c = {.qn = qn, .n_in = 1, .in = {x}, .n_out = n, .ways = ways};
    for (int i = 0; i < n; i++) c.out[i] = out[i];
    export_compare(&c);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void rows_are_sorted_in_all_dtypes(void) {
    static const qn_dtype dtypes[] = {QN_F32, QN_F64, QN_F16, QN_I8, QN_U16, QN_I64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        qn_ctx *qn = export_open();
        qn_tensor *x = numbers(qn, dtypes[i], 3, 67);
        qn_tensor *out[3] = {qn_sort(x, 1, false), qn_argsort(x, 1, true),
                             qn_median(qn_sort(x, 0, true), 1, false)};
        compare(qn, x, 3, out, 0);
        export_close(qn);
    }
}

/* Rows so long that they are sorted by digits. */
static void long_rows_are_sorted(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = numbers(qn, QN_F32, 1, 12000);
    qn_tensor *out[4] = {qn_sort(x, 1, false), qn_argsort(x, 1, false)};
    if (qn_topk(x, 9, 1, true, &out[2], &out[3])) FAIL("%s", qn_error(qn));
    compare(qn, x, 4, out, 0);
    export_close(qn);
}

static void some_of_a_row_are_found(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = numbers(qn, QN_F32, 5, 40), *out[6];
    if (qn_topk(x, 3, 1, true, &out[0], &out[1]) || qn_kthvalue(x, 4, 1, false, &out[2], &out[3]) ||
        qn_mode(x, 1, false, &out[4], &out[5]))
        FAIL("%s", qn_error(qn));
    compare(qn, x, 6, out, 0);
    export_close(qn);
}

static void places_are_found(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = numbers(qn, QN_I32, 2, 30), *out[8];
    if (qn_unique(x, &out[0], &out[1], &out[2], &out[3], &out[7]) ||
        qn_nonzero(x, 40, &out[4], &out[5]))
        FAIL("%s", qn_error(qn));
    out[6] = qn_searchsorted(qn_sort(qn_reshape(x, 1, (int64_t[]){60}), 0, false),
                             qn_arange(qn, QN_I32, -5, 5, 1), true);
    compare(qn, x, 8, out, 0);
    export_close(qn);
}

static qn_code sorted_sines(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                            qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)arg, (void)row, (void)out;
    next[0] = qn_flip(qn_sort(qn_sin(state[0]), 1, false), 0);
    return QN_OK;
}

static void loops_sort_in_each_trip(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = numbers(qn, QN_F32, 4, 9), *y = NULL;
    qn_loop_call call = {
        .body = sorted_sines, .n = 1, .states = &x, .options = &QN_LOOP_OPTIONS(.trips = 4)};
    if (qn_loop_run(qn, &call, &y, NULL)) FAIL("%s", qn_error(qn));
    compare(qn, x, 1, &y, 0);
    export_close(qn);
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

static qn_tensor *wave(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t n) {
    static double data[1 << 13];
    for (int64_t i = 0; i < rows * n; i++) data[i] = sin((double)i * 0.7) + (double)(i % 5);
    qn_tensor *x = qn_cast(qn_from(qn, QN_F64, 2, (int64_t[]){rows, n}, data), dtype);
    if (!x || qn_realize(1, &x)) FAIL("%s", qn_error(qn));
    return x;
}

/* Lengths of all radices, of one row and of several side by side, and a prime: in one program, for
 * compilers take their time over the passes. */
static void transforms_give_the_same_bits(void) {
    static const int64_t lengths[] = {1, 8, 60, 77, 97, 1024};
    for (int wide = 0; wide < 2; wide++) {
        qn_ctx *qn = export_open();
        qn_tensor *x = wave(qn, wide ? QN_F64 : QN_F32, 5, 1024), *out[6];
        for (int i = 0; i < 6; i++) {
            qn_tensor *part = i % 2 ? x : qn_slice(x, 0, 0, 1, 1);
            qn_tensor *y = qn_rfft(part, lengths[i], 1, QN_NORM_BACKWARD);
            out[i] = i < 3 ? y : qn_irfft(y, lengths[i], 1, QN_NORM_ORTHO);
        }
        compare(qn, x, 6, out, wide ? WITH_VECTORS : 1);
        export_close(qn);
    }
}

/* The numbers that the program without vectors gives; its first run's. */
static void transforms_without_vectors_are_near(void) {
    enum { N = 60 };
    qn_ctx *qn = export_open();
    qn_tensor *x = wave(qn, QN_F64, 2, N), *y = qn_rfft(x, N, 1, QN_NORM_BACKWARD);
    export_case c = {.qn = qn, .n_in = 1, .in = {x}, .n_out = 1, .out = {y}};
    qn_plan *plan = export_twice(&c);
    size_t size, got;
    char *want = export_expected(&c, plan, &size);
    export_write_main(1, 1, NULL);
    char *out = export_play(&export_ways[1], &got);
    CHECK(out && got == size);
    for (size_t i = 0; out && i < size / sizeof(double); i++) {
        double a, b;
        memcpy(&a, want + i * sizeof a, sizeof a);
        memcpy(&b, out + i * sizeof b, sizeof b);
        CHECK_NEAR(b, a, 1e-11, 1e-13);
    }
    free(out);
    free(want);
    qn_plan_free(plan);
    export_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    export_begin();
    RUN(rows_are_sorted_in_all_dtypes);
    RUN(long_rows_are_sorted);
    RUN(some_of_a_row_are_found);
    RUN(places_are_found);
    RUN(loops_sort_in_each_trip);
    RUN(transforms_give_the_same_bits);
    RUN(transforms_without_vectors_are_near);
    export_end();
    return test_end();
}
