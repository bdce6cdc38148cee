/* test_ctc.c - connectionist temporal classification against the sum over all ways to say a word in
 * long double, and its gradient against central differences of that sum. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

enum { T = 5, N = 6, C = 4, S = 3, DEVICES = 2 };

static qn_ctx *open_[DEVICES];
static uint64_t seed = 3;

static const int64_t labels[N][S] = {{1, 2, 3},   {1, 1, 2}, {2, 2, 2},
                                     {3, 77, -5}, {1, 2, 1}, {9, 9, 9}};
static const int64_t lengths[N] = {5, 5, 4, 2, 3, 3}, sizes[N] = {3, 3, 3, 1, 2, 0};

/* The probability of all ways in which a word is said; classes 0 .. C - 1, 0 the blank. */
static long double probability(const double *log_p, int n, int64_t steps, int64_t size) {
    long double sum = 0;
    int ways = 1;
    for (int i = 0; i < steps; i++) ways *= C;
    for (int way = 0; way < ways; way++) {
        int64_t at = 0;
        long double all = 0;
        bool fits = true;
        for (int i = 0, left = way, last = 0; i < steps; i++, left /= C) {
            int said = left % C;
            all += log_p[(i * N + n) * C + said];
            if (said && said != last) {
                fits = fits && at < size && labels[n][at] == said;
                at++;
            }
            last = said;
        }
        if (fits && at == size) sum += expl(all);
    }
    return sum;
}

static void draw_log_p(double *x) {
    for (int i = 0; i < T * N; i++) {
        double sum = 0;
        for (int k = 0; k < C; k++) sum += x[i * C + k] = 0.05 + test_uniform(&seed);
        for (int k = 0; k < C; k++) x[i * C + k] = log(x[i * C + k] / sum);
    }
}

static qn_tensor *loss_of(qn_ctx *qn, const double *x, qn_tensor **log_p, qn_reduction how) {
    *log_p = qn_from(qn, QN_F64, 3, (int64_t[]){T, N, C}, x);
    return qn_ctc_loss(*log_p, qn_from(qn, QN_I64, 2, (int64_t[]){N, S}, labels),
                       qn_from(qn, QN_I64, 1, (int64_t[]){N}, lengths),
                       qn_from(qn, QN_I64, 1, (int64_t[]){N}, sizes), 0, how);
}

static void it_is_the_sum_over_all_alignments(void) {
    for (int d = 0; d < DEVICES; d++) {
        double x[T * N * C], got[N], all, mean, want_mean = 0, want_all = 0;
        draw_log_p(x);
        qn_scope s = qn_scope_begin(open_[d]);
        qn_tensor *p;
        CHECK_INT(qn_read(loss_of(open_[d], x, &p, QN_REDUCE_NONE), got, sizeof got), 0);
        for (int n = 0; n < N; n++) {
            double want = (double)-logl(probability(x, n, lengths[n], sizes[n]));
            if (isinf(want))
                CHECK(got[n] == (double)INFINITY); /* 2 2 2 wants five steps */
            else
                CHECK_NEAR(got[n], want, 1e-13, 0);
            CHECK_INT(isinf(want), n == 2);
        }
        CHECK_INT(qn_read(loss_of(open_[d], x, &p, QN_REDUCE_SUM), &all, 8), 0);
        CHECK(all == (double)INFINITY);
        qn_tensor *part = qn_slice(p, 1, 0, 2, 1); /* all steps, all labels */
        qn_tensor *word = qn_from(open_[d], QN_I64, 2, (int64_t[]){2, S}, labels);
        for (int n = 0; n < 2; n++) {
            double want = (double)-logl(probability(x, n, T, S));
            want_all += want, want_mean += want / S / 2;
        }
        CHECK_INT(qn_read(qn_ctc_loss(part, word, NULL, NULL, 0, QN_REDUCE_SUM), &all, 8), 0);
        CHECK_INT(qn_read(qn_ctc_loss(part, word, NULL, NULL, 0, QN_REDUCE_MEAN), &mean, 8), 0);
        CHECK_NEAR(all, want_all, 1e-13, 0);
        CHECK_NEAR(mean, want_mean, 1e-13, 0);
        qn_scope_end(open_[d], s);
    }
}

static void its_gradient_is_that_of_the_sum(void) {
    for (int d = 0; d < DEVICES; d++) {
        double x[T * N * C], got[T * N * C], h = 1e-6;
        draw_log_p(x);
        qn_scope s = qn_scope_begin(open_[d]);
        qn_tensor *p, *g, *y = loss_of(open_[d], x, &p, QN_REDUCE_NONE);
        CHECK_INT(qn_grad(y, NULL, 1, &p, &g), 0);
        CHECK_INT(qn_read(g, got, sizeof got), 0);
        for (int i = 0; i < T * N * C; i++) {
            int n = i / C % N;
            double was = x[i], want = 0;
            x[i] = was + h;
            long double up = probability(x, n, lengths[n], sizes[n]);
            x[i] = was - h;
            long double down = probability(x, n, lengths[n], sizes[n]);
            x[i] = was;
            if (n != 2) want = (double)(-logl(up / down) / (2 * h));
            CHECK_NEAR(got[i], want, 1e-7, 1e-9);
        }
        qn_scope_end(open_[d], s);
    }
}

/* Classes of probability 0 are neither said nor NaN, and f16 is summed in f32. */
static void impossible_classes_and_narrow_floats(void) {
    for (int d = 0; d < DEVICES; d++) {
        double x[T * N * C], got[N];
        draw_log_p(x);
        for (int i = 0; i < T * N; i++) x[i * C + 3] = -INFINITY;
        qn_scope s = qn_scope_begin(open_[d]);
        qn_tensor *p, *g, *y = loss_of(open_[d], x, &p, QN_REDUCE_NONE);
        CHECK_INT(qn_read(y, got, sizeof got), 0);
        CHECK(got[0] == (double)INFINITY && got[3] == (double)INFINITY);
        CHECK_NEAR(got[1], (double)-logl(probability(x, 1, 5, 3)), 1e-13, 0);
        CHECK_INT(qn_grad(y, NULL, 1, &p, &g), 0);
        double slope[T * N * C];
        CHECK_INT(qn_read(g, slope, sizeof slope), 0);
        for (int i = 0; i < T * N * C; i++) CHECK(isfinite(slope[i]));
        qn_tensor *word = qn_from(open_[d], QN_I64, 2, (int64_t[]){N, S}, labels);
        qn_tensor *half = qn_slice(qn_cast(p, QN_F16), 1, 1, 2, 1);
        y = qn_ctc_loss(half, qn_slice(word, 0, 1, 2, 1), NULL, NULL, 0, QN_REDUCE_NONE);
        CHECK_INT(qn_dtype_of(y), QN_F16);
        CHECK_INT(qn_read(qn_cast(y, QN_F64), got, 8), 0);
        CHECK_NEAR(got[0], (double)-logl(probability(x, 1, 5, 3)), 4e-3, 0);
        qn_scope_end(open_[d], s);
    }
}

static void bad_lengths_and_shapes(void) {
    qn_ctx *qn = open_[0];
    double got[2], *x = calloc(8 * 2 * 3, 8);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *p = qn_from(qn, QN_F64, 3, (int64_t[]){8, 2, 3}, x);
    qn_tensor *word = qn_ones(qn, QN_I32, 2, (int64_t[]){2, 2});
    qn_tensor *beyond = qn_from(qn, QN_I64, 1, (int64_t[]){2}, (int64_t[]){3, -1});
    qn_tensor *y = qn_ctc_loss(p, word, NULL, beyond, 0, QN_REDUCE_NONE);
    CHECK_INT(qn_read(y, got, 16), 0);
    CHECK(isnan(got[0]) && isnan(got[1]));
    y = qn_ctc_loss(p, word, qn_mul(beyond, beyond), NULL, 0, QN_REDUCE_NONE);
    CHECK_INT(qn_read(y, got, 16), 0);
    CHECK(isnan(got[0]) && got[1] == (double)INFINITY);
    y = qn_ctc_loss(p, qn_zeros(qn, QN_I64, 2, (int64_t[]){2, 0}), NULL, NULL, 2, QN_REDUCE_NONE);
    CHECK_INT(qn_read(y, got, 16), 0);
    CHECK(got[0] == 0);
    y = qn_zeros(qn, QN_F64, 3, (int64_t[]){0, 2, 3});
    y = qn_ctc_loss(y, word, NULL, NULL, 0, QN_REDUCE_NONE);
    CHECK_INT(qn_read(y, got, 16), 0);
    CHECK(got[0] == (double)INFINITY);
    for (int64_t label = -1; label < 4; label += 4) {
        int64_t said[4] = {1, 2, 1, label};
        qn_tensor *some = qn_from(qn, QN_I64, 2, (int64_t[]){2, 2}, said);
        CHECK_INT(qn_read(qn_ctc_loss(p, some, NULL, NULL, 0, QN_REDUCE_NONE), got, 16), 0);
        CHECK(isfinite(got[0]) && isnan(got[1])); /* neither counts from the end */
    }
    CHECK(!qn_ctc_loss(p, word, NULL, NULL, 3, QN_REDUCE_NONE));
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!qn_ctc_loss(p, qn_transpose(p, 0, 1), NULL, NULL, 0, QN_REDUCE_NONE));
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK(!qn_ctc_loss(p, beyond, NULL, NULL, 0, QN_REDUCE_NONE));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
    free(x);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_[0] = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    open_[1] = qn_open(&QN_OPTIONS(.device = "ref"));
    RUN(it_is_the_sum_over_all_alignments);
    RUN(its_gradient_is_that_of_the_sum);
    RUN(impossible_classes_and_narrow_floats);
    RUN(bad_lengths_and_shapes);
    for (int i = 0; i < DEVICES; i++) qn_close(open_[i]);
    return test_end();
}
