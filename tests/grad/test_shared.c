/* test_shared.c - gradients of what is used several times, each time in a contraction: a weight of
 * several batches of equal size, of the steps of a recurrent network, of two convolutions, an x of
 * several projections. Each use gives one contraction, or several of few rows one, and each but the
 * first adds it to what there is: kernels, contractions among them and temporary memory are counted
 * on the device null; values and second derivatives are compared with sums in double precision,
 * written out here. */
#include "quern.h"
#include "test.h"

enum { MOST = 80 };

/* ---- what the planner makes ------------------------------------------------------------------ */

static int contractions, others;
static void count_kernels(void *user, const char *line) {
    (void)user;
    if (strncmp(line, "f kernel ", 9)) return;
    if (strstr(line, " contraction"))
        contractions++;
    else
        others++;
}

static qn_ctx *open_counted(const char *device) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = 1, .log = count_kernels));
    qn_set(qn, "debug", "f");
    contractions = others = 0;
    return qn;
}

static qn_ctx *open_null(void) {
    return open_counted("null");
}

static qn_tensor *zeros(qn_ctx *qn, int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *zero = calloc((size_t)n + 1, sizeof *zero);
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, zero);
    free(zero);
    return t;
}

static qn_tensor *matrix(qn_ctx *qn, int64_t r, int64_t c) {
    return zeros(qn, 2, (int64_t[]){r, c});
}

static uint64_t planned(qn_ctx *qn, int n, qn_tensor *const *t) {
    CHECK_INT(qn_realize(n, t), QN_OK);
    qn_stats stats;
    qn_get_stats(qn, &stats, sizeof stats);
    return stats.planned_peak_bytes;
}

/* The sum of y * g over all uses y = x w' of a weight. */
static qn_tensor *loss_of(int n, qn_tensor *const *x, qn_tensor *w, qn_tensor *const *g) {
    qn_tensor *loss = NULL;
    for (int i = 0; i < n; i++) {
        qn_tensor *l = qn_sum(qn_mul(qn_linear(x[i], w, NULL), g[i]), QN_ALL, false);
        loss = loss ? qn_add(loss, l) : l;
    }
    return loss;
}

static void each_use_is_one_contraction_added_to_those_before(void) {
    qn_ctx *qn = open_null();
    qn_tensor *w = matrix(qn, 96, 160), *x[MOST], *g[MOST], *dw;
    for (int i = 0; i < 64; i++) x[i] = matrix(qn, 32, 160), g[i] = matrix(qn, 32, 96);
    CHECK_INT(qn_grad(loss_of(64, x, w, g), NULL, 1, &w, &dw), QN_OK);
    uint64_t bytes = planned(qn, 1, &dw);
    CHECK_INT(contractions, 64);
    CHECK_INT(others, 0);
    CHECK(bytes <= 2 * 4 * 96 * 160); /* one that is read, one that is written */
    qn_close(qn);
}

/* Of so few rows a use that as many as 7 of them are no more than the weight. */
static void uses_of_few_rows_are_joined_to_fewer_contractions(void) {
    qn_ctx *qn = open_counted("cpu"); /* one thread: no launch goes before others */
    qn_tensor *w = matrix(qn, 96, 160), *x[MOST], *g[MOST], *dw;
    for (int i = 0; i < 64; i++) x[i] = matrix(qn, 8, 160), g[i] = matrix(qn, 8, 96);
    CHECK_INT(qn_grad(loss_of(64, x, w, g), NULL, 1, &w, &dw), QN_OK);
    uint64_t bytes = planned(qn, 1, &dw);
    CHECK_INT(contractions, 10);
    CHECK(bytes <= 3 * 4 * 96 * 160); /* and the rows of one of them */
    qn_close(qn);
}

/* And rows that are slices of one tensor, one behind the other, are where they are. */
static void rows_that_lie_together_are_not_stored_again(void) {
    qn_ctx *qn = open_null();
    qn_tensor *w = matrix(qn, 96, 160), *all = matrix(qn, 4 * 8, 160),
              *from = matrix(qn, 4 * 8, 96);
    qn_tensor *x[4], *g[4], *dw;
    for (int i = 0; i < 4; i++) {
        x[i] = qn_slice(all, 0, i * 8, (i + 1) * 8, 1);
        g[i] = qn_slice(from, 0, i * 8, (i + 1) * 8, 1);
    }
    CHECK_INT(qn_grad(loss_of(4, x, w, g), NULL, 1, &w, &dw), QN_OK);
    CHECK_INT(planned(qn, 1, &dw), 0);
    CHECK_INT(contractions, 1);
    CHECK_INT(others, 0);
    qn_close(qn);
}

/* Batches of other sizes and tensors of another rank see the weight in another way. */
static void so_are_uses_of_all_shapes(void) {
    qn_ctx *qn = open_null();
    qn_tensor *w = matrix(qn, 96, 160), *dw;
    qn_tensor *x[] = {matrix(qn, 32, 160), matrix(qn, 32, 160), matrix(qn, 33, 160),
                      zeros(qn, 3, (int64_t[]){4, 32, 160}), zeros(qn, 3, (int64_t[]){4, 32, 160})};
    qn_tensor *g[] = {matrix(qn, 32, 96), matrix(qn, 32, 96), matrix(qn, 33, 96),
                      zeros(qn, 3, (int64_t[]){4, 32, 96}), zeros(qn, 3, (int64_t[]){4, 32, 96})};
    qn_tensor *loss = loss_of(5, x, w, g);
    loss = qn_add(loss, qn_sum(qn_mul(qn_matmul(g[0], w), x[0]), QN_ALL, false));
    CHECK_INT(qn_grad(loss, NULL, 1, &w, &dw), QN_OK);
    planned(qn, 1, &dw);
    CHECK_INT(contractions, 6);
    CHECK_INT(others, 0);
    qn_close(qn);
}

static void an_x_of_three_projections_has_three_contractions(void) {
    qn_ctx *qn = open_null();
    qn_tensor *x = zeros(qn, 3, (int64_t[]){4, 32, 96}), *dx, *loss = NULL;
    for (int i = 0; i < 3; i++) {
        qn_tensor *y = qn_linear(x, matrix(qn, 96, 96), NULL);
        qn_tensor *l = qn_sum(qn_mul(y, zeros(qn, 3, (int64_t[]){4, 32, 96})), QN_ALL, false);
        loss = loss ? qn_add(loss, l) : l;
    }
    CHECK_INT(qn_grad(loss, NULL, 1, &x, &dx), QN_OK);
    planned(qn, 1, &dx);
    CHECK_INT(contractions, 3);
    CHECK_INT(others, 0);
    qn_close(qn);
}

/* The windows of x are 9 times as large as it is, and stay away from memory. */
static void an_x_of_two_convolutions_has_two(void) {
    qn_ctx *qn = open_null();
    qn_tensor *x = zeros(qn, 4, (int64_t[]){2, 32, 24, 24}), *dx, *loss = NULL;
    for (int i = 0; i < 2; i++) {
        qn_tensor *w = zeros(qn, 4, (int64_t[]){32, 32, 3, 3});
        qn_tensor *y = qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1}));
        qn_tensor *l = qn_sum(qn_mul(y, zeros(qn, 4, (int64_t[]){2, 32, 24, 24})), QN_ALL, false);
        loss = loss ? qn_add(loss, l) : l;
    }
    CHECK_INT(qn_grad(loss, NULL, 1, &x, &dx), QN_OK);
    uint64_t bytes = planned(qn, 1, &dx);
    CHECK_INT(contractions, 2);
    CHECK(bytes <= 4 * 4 * 2 * 32 * 24 * 24);
    qn_close(qn);
}

/* What repeats nothing is added first: one kernel, one pass over its memory. */
static void products_that_repeat_nothing_are_added_first(void) {
    qn_ctx *qn = open_null();
    qn_tensor *scale = zeros(qn, 1, (int64_t[]){160}), *loss = NULL, *ds;
    for (int i = 0; i < 4; i++) {
        qn_tensor *y = qn_mul(qn_mul(matrix(qn, 32, 160), scale), matrix(qn, 32, 160));
        qn_tensor *l = qn_sum(y, QN_ALL, false);
        loss = loss ? qn_add(loss, l) : l;
    }
    CHECK_INT(qn_grad(loss, NULL, 1, &scale, &ds), QN_OK);
    planned(qn, 1, &ds);
    CHECK_INT(contractions + others, 1);
    qn_close(qn);
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct array {
    int64_t n, r, c;
    float *v;
} array;

static array random_array(int64_t r, int64_t c, uint64_t *seed) {
    array a = {r * c, r, c, malloc((size_t)(r * c) * sizeof(float))};
    for (int64_t i = 0; i < a.n; i++) a.v[i] = (float)(test_uniform(seed) * 2 - 1);
    return a;
}

static qn_tensor *tensor_of(qn_ctx *qn, array a) {
    return qn_from(qn, QN_F32, 2, (int64_t[]){a.r, a.c}, a.v);
}

static void compare(qn_tensor *t, const double *want, int64_t n, double rel) {
    float *got = calloc((size_t)n, sizeof *got);
    double largest = 0;
    CHECK_INT(qn_read(t, got, (size_t)n * sizeof *got), QN_OK);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n && !test_state.bad; i++)
        CHECK_NEAR(got[i], want[i], rel, rel * largest);
    free(got);
}

static const char *const devices[] = {"cpu", "ref"};

/* dw = sum of g_i' x_i; of the loss |dw|^2 the gradient by x_i is 2 g_i dw. */
static void check_values(int rows) {
    enum { USES = 7, MOST_ROWS = 9, IN = 37, OUT = 29 };
    for (int d = 0; d < 2; d++) {
        uint64_t seed = 11;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        array x[USES], g[USES], w = random_array(OUT, IN, &seed);
        qn_tensor *tx[USES], *tg[USES], *tw = tensor_of(qn, w), *dw, *dx[USES];
        double want[OUT * IN] = {0};
        for (int i = 0; i < USES; i++) {
            tx[i] = tensor_of(qn, x[i] = random_array(rows, IN, &seed));
            tg[i] = tensor_of(qn, g[i] = random_array(rows, OUT, &seed));
            for (int b = 0; b < rows; b++)
                for (int o = 0; o < OUT; o++)
                    for (int k = 0; k < IN; k++)
                        want[o * IN + k] += (double)g[i].v[b * OUT + o] * x[i].v[b * IN + k];
        }
        CHECK_INT(qn_grad(loss_of(USES, tx, tw, tg), NULL, 1, &tw, &dw), QN_OK);
        qn_tensor *square = qn_sum(qn_mul(dw, dw), QN_ALL, false);
        CHECK_INT(qn_grad(square, NULL, USES, tx, dx), QN_OK);
        compare(dw, want, OUT * IN, 2e-6);
        for (int i = 0; i < USES; i++) {
            double second[MOST_ROWS * IN] = {0};
            for (int b = 0; b < rows; b++)
                for (int o = 0; o < OUT; o++)
                    for (int k = 0; k < IN; k++)
                        second[b * IN + k] += 2.0 * g[i].v[b * OUT + o] * want[o * IN + k];
            compare(dx[i], second, rows * IN, 5e-6);
            free(x[i].v);
            free(g[i].v);
        }
        free(w.v);
        qn_close(qn);
    }
}

static void values_and_second_derivatives_are_those_of_the_sum(void) {
    check_values(9);
    check_values(2); /* all of them joined */
}

/* Uses of one weight in several forms, of few rows: plain, with a batch, the other way round. */
static void joined_uses_of_all_shapes_have_their_sum(void) {
    enum { USES = 9, IN = 30, OUT = 26, B = 2 };
    for (int d = 0; d < 2; d++) {
        uint64_t seed = 3;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        array w = random_array(OUT, IN, &seed), x[USES], g[USES];
        qn_tensor *tw = tensor_of(qn, w), *loss = NULL, *dw;
        double want[OUT * IN] = {0};
        for (int i = 0; i < USES; i++) {
            x[i] = random_array(B, IN, &seed), g[i] = random_array(B, OUT, &seed);
            for (int at = 0; at < B * OUT * IN; at++)
                want[at % (OUT * IN)] +=
                    (double)g[i].v[at / IN] * x[i].v[at / IN / OUT * IN + at % IN];
            qn_tensor *tx = tensor_of(qn, x[i]), *tg = tensor_of(qn, g[i]), *l;
            if (i % 3 == 1) {
                tx = qn_reshape(tx, 3, (int64_t[]){B, 1, IN});
                tg = qn_reshape(tg, 3, (int64_t[]){B, 1, OUT});
            }
            l = i % 3 == 2 ? qn_mul(qn_matmul(tg, tw), tx) : qn_mul(qn_linear(tx, tw, NULL), tg);
            l = qn_sum(l, QN_ALL, false);
            loss = loss ? qn_add(loss, l) : l;
        }
        CHECK_INT(qn_grad(loss, NULL, 1, &tw, &dw), QN_OK);
        compare(dw, want, OUT * IN, 5e-6);
        for (int i = 0; i < USES; i++) free(x[i].v), free(g[i].v);
        free(w.v);
        qn_close(qn);
    }
}

/* h = tanh(x_t wx' + h wh'), the loss the sum of the last h: back through time by hand. */
static void a_recurrent_network_has_the_gradients_of_its_steps(void) {
    enum { STEPS = 9, ROWS = 5, WIDE = 21 };
    for (int d = 0; d < 2; d++) {
        uint64_t seed = 5;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        array wx = random_array(WIDE, WIDE, &seed), wh = random_array(WIDE, WIDE, &seed);
        array x = random_array(STEPS * ROWS, WIDE, &seed);
        for (int i = 0; i < WIDE * WIDE; i++) wx.v[i] *= 0.2f, wh.v[i] *= 0.2f;
        static double h[STEPS + 1][ROWS][WIDE], dh[ROWS][WIDE], da[ROWS][WIDE];
        static double want_x[WIDE * WIDE], want_h[WIDE * WIDE];
        memset(want_x, 0, sizeof want_x);
        memset(want_h, 0, sizeof want_h);
        qn_tensor *all = tensor_of(qn, x), *w[2] = {tensor_of(qn, wx), tensor_of(qn, wh)}, *dw[2];
        qn_tensor *state = matrix(qn, ROWS, WIDE);
        for (int t = 0; t < STEPS; t++) {
            qn_tensor *now = qn_slice(all, 0, (int64_t)t * ROWS, (int64_t)(t + 1) * ROWS, 1);
            state = qn_tanh(qn_add(qn_linear(now, w[0], NULL), qn_linear(state, w[1], NULL)));
            for (int b = 0; b < ROWS; b++)
                for (int o = 0; o < WIDE; o++) {
                    double a = 0;
                    for (int k = 0; k < WIDE; k++)
                        a += (double)x.v[(t * ROWS + b) * WIDE + k] * wx.v[o * WIDE + k] +
                             h[t][b][k] * wh.v[o * WIDE + k];
                    h[t + 1][b][o] = tanh(a);
                }
        }
        for (int b = 0; b < ROWS; b++)
            for (int o = 0; o < WIDE; o++) dh[b][o] = 1;
        for (int t = STEPS; t-- > 0;) {
            for (int b = 0; b < ROWS; b++)
                for (int o = 0; o < WIDE; o++)
                    da[b][o] = dh[b][o] * (1 - h[t + 1][b][o] * h[t + 1][b][o]);
            memset(dh, 0, sizeof dh);
            for (int b = 0; b < ROWS; b++)
                for (int o = 0; o < WIDE; o++)
                    for (int k = 0; k < WIDE; k++) {
                        want_x[o * WIDE + k] += da[b][o] * x.v[(t * ROWS + b) * WIDE + k];
                        want_h[o * WIDE + k] += da[b][o] * h[t][b][k];
                        dh[b][k] += da[b][o] * wh.v[o * WIDE + k];
                    }
        }
        CHECK_INT(qn_grad(qn_sum(state, QN_ALL, false), NULL, 2, w, dw), QN_OK);
        compare(dw[0], want_x, WIDE * WIDE, 5e-6);
        compare(dw[1], want_h, WIDE * WIDE, 5e-6);
        free(wx.v);
        free(wh.v);
        free(x.v);
        qn_close(qn);
    }
}

/* The gradient of the repeated tensor itself, of which there is a handle, is the whole sum. */
static void a_repeated_tensor_has_the_sum_of_its_uses(void) {
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        float a[] = {1, 2, 3}, b[] = {5, 7}, c[] = {-1, 4, 0.5f}, e[] = {2, 3};
        qn_tensor *w = qn_from(qn, QN_F32, 2, (int64_t[]){1, 1}, (float[]){3});
        qn_tensor *wide = qn_expand(w, 2, (int64_t[]){3, 2}), *x[] = {wide, w}, *dx[2];
        qn_tensor *ta = qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, a);
        qn_tensor *tb = qn_from(qn, QN_F32, 2, (int64_t[]){1, 2}, b);
        qn_tensor *tc = qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, c);
        qn_tensor *te = qn_from(qn, QN_F32, 2, (int64_t[]){1, 2}, e);
        qn_tensor *y = qn_add(qn_mul(qn_mul(wide, ta), tb), qn_mul(qn_mul(wide, tc), te));
        double want[6], sum = 0;
        for (int i = 0; i < 6; i++)
            sum += want[i] = (double)a[i / 2] * b[i % 2] + (double)c[i / 2] * e[i % 2];
        CHECK_INT(qn_grad(qn_sum(y, QN_ALL, false), NULL, 2, x, dx), QN_OK);
        compare(dx[0], want, 6, 1e-6);
        compare(dx[1], &sum, 1, 1e-6);
        qn_close(qn);
    }
}

/* dx of two convolutions: each place of y gives to the 9 places that it saw. */
static void two_convolutions_give_x_both_their_gradients(void) {
    enum { C = 3, O = 4, N = 7, SIZE = N * N };
    for (int d = 0; d < 2; d++) {
        uint64_t seed = 3;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        array x = random_array(C, SIZE, &seed), w[2], g[2];
        double want[C * SIZE] = {0};
        qn_tensor *tx = qn_from(qn, QN_F32, 4, (int64_t[]){1, C, N, N}, x.v), *loss = NULL, *dx;
        for (int i = 0; i < 2; i++) {
            w[i] = random_array(O, C * 9, &seed);
            g[i] = random_array(O, SIZE, &seed);
            qn_tensor *tw = qn_from(qn, QN_F32, 4, (int64_t[]){O, C, 3, 3}, w[i].v);
            qn_tensor *tg = qn_from(qn, QN_F32, 4, (int64_t[]){1, O, N, N}, g[i].v);
            qn_tensor *y =
                qn_conv2d(tx, tw, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1}));
            qn_tensor *l = qn_sum(qn_mul(y, tg), QN_ALL, false);
            loss = loss ? qn_add(loss, l) : l;
            for (int at = 0; at < O * C * SIZE * 9; at++) {
                int k = at % 9, p = at / 9 % SIZE, c = at / 9 / SIZE % C, o = at / 9 / SIZE / C;
                int row = p / N + k / 3 - 1, column = p % N + k % 3 - 1;
                if (row < 0 || row >= N || column < 0 || column >= N) continue;
                want[c * SIZE + row * N + column] +=
                    (double)g[i].v[o * SIZE + p] * w[i].v[(o * C + c) * 9 + k];
            }
        }
        CHECK_INT(qn_grad(loss, NULL, 1, &tx, &dx), QN_OK);
        compare(dx, want, C * SIZE, 2e-6);
        for (int i = 0; i < 2; i++) free(w[i].v), free(g[i].v);
        free(x.v);
        qn_close(qn);
    }
}

/* ---- halves ---------------------------------------------------------------------------------- */

/* The gradient of the sum of n slices of a bf16 [rows, COLUMNS], at row 0, column `at`: each gives
 * 1. Slice i has rows 0 to row_end, and columns from start to end by step. */
enum { COLUMNS = 700 };
typedef struct cut {
    int64_t row_end, start, end, step;
} cut;

static double slope_of_cuts(qn_ctx *qn, int64_t rows, int n, const cut *of, int64_t at) {
    qn_tensor *x = qn_cast(zeros(qn, 2, (int64_t[]){rows, COLUMNS}), QN_BF16), *loss = NULL, *g;
    for (int i = 0; i < n; i++) {
        qn_tensor *y =
            qn_slice(qn_slice(x, 0, 0, of[i].row_end, 1), 1, of[i].start, of[i].end, of[i].step);
        y = qn_sum(qn_cast(y, QN_F32), QN_ALL, false);
        loss = loss ? qn_add(loss, y) : y;
    }
    static float f[2 * COLUMNS];
    CHECK_INT(qn_grad(loss, NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_read(qn_cast(g, QN_F32), f, (size_t)rows * COLUMNS * sizeof *f), QN_OK);
    return (double)f[at];
}

/* 256 + 1 is 256 in bf16, 300 is a number of it, and so is 258. */
static void slices_of_halves_are_added_in_f32(void) {
    static const char *const device[] = {"cpu", "ref"};
    static cut of[301];
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device[d], .threads = 1));
        for (int i = 0; i < 300; i++) of[i] = (cut){1, i, i + 400, 1};
        CHECK_NEAR(slope_of_cuts(qn, 1, 300, of, 350), 300, 0, 0);
        for (int i = 0; i < 300; i++) of[i] = (cut){1, 0, COLUMNS, i + 2};
        CHECK_NEAR(slope_of_cuts(qn, 1, 300, of, 0), 300, 0, 0);
        for (int i = 0; i < 300; i++) of[i] = (cut){1, 2 * i, COLUMNS, 2};
        CHECK_NEAR(slope_of_cuts(qn, 1, 300, of, COLUMNS - 2), 300, 0, 0);
        for (int i = 0; i < 257; i++) of[i] = (cut){1, i, i + 400, 1};
        of[257] = (cut){2, 300, 400, 1};
        CHECK_NEAR(slope_of_cuts(qn, 2, 258, of, 350), 258, 0, 0);
        for (int i = 0; i < 257; i++) of[i] = (cut){1, 0, COLUMNS - 2 * i, 2};
        of[257] = (cut){1, 0, COLUMNS, 3};
        CHECK_NEAR(slope_of_cuts(qn, 1, 258, of, 0), 258, 0, 0);
        qn_close(qn);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(each_use_is_one_contraction_added_to_those_before);
    RUN(uses_of_few_rows_are_joined_to_fewer_contractions);
    RUN(rows_that_lie_together_are_not_stored_again);
    RUN(so_are_uses_of_all_shapes);
    RUN(an_x_of_three_projections_has_three_contractions);
    RUN(an_x_of_two_convolutions_has_two);
    RUN(products_that_repeat_nothing_are_added_first);
    RUN(values_and_second_derivatives_are_those_of_the_sum);
    RUN(joined_uses_of_all_shapes_have_their_sum);
    RUN(a_recurrent_network_has_the_gradients_of_its_steps);
    RUN(a_repeated_tensor_has_the_sum_of_its_uses);
    RUN(two_convolutions_give_x_both_their_gradients);
    RUN(slices_of_halves_are_added_in_f32);
    return test_end();
}
