/* test_pieces.c - values made of pieces: concatenations, stacks, and gradients of many slices. How
 * many launches and programs there are, that what is planned and recorded grows as the pieces do,
 * that nothing is stored on the way; values against plain copies, gradients against formulas by
 * hand, on devices that differ in how they come by them. */
#include "base/base.h"
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

#include <math.h>

static qn_ctx *open_on(const char *device, int threads) {
    return qn_open(&QN_OPTIONS(.device = device, .threads = threads));
}

static qn_stats stats_of(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

/* Element i of input number `seed`: small halves, so that sums of them are exact. */
static float element(int64_t seed, int64_t i) {
    return (float)((seed * 131 + i * 17) % 61 - 30) * 0.5f;
}

static qn_tensor *input(qn_ctx *qn, int64_t seed, int rank, const int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *x = malloc(((size_t)n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = element(seed, i);
    qn_tensor *t = qn_from(qn, QN_F32, rank, dims, x);
    free(x);
    return t;
}

static float *value_of(qn_tensor *t) {
    size_t size = (size_t)qn_numel(t) * sizeof(float);
    float *v = malloc(size + 1);
    CHECK_INT(qn_read(t, v, size), QN_OK);
    return v;
}

static const char *const devices[] = {"cpu", "ref"};

#define AT(...)    ((const int64_t[]){__VA_ARGS__})
#define LIST_OF(n) calloc((size_t)(n) + 1, sizeof(qn_tensor *))

/* ---- values ---------------------------------------------------------------------------------- */

/* Piece i along the axis has 1 + i % 3 places, the other axis 3. */
static int64_t places(int i) {
    return 1 + i % 3;
}

static void check_concat(const char *device, int n, int axis) {
    qn_ctx *qn = open_on(device, 1);
    qn_tensor **x = LIST_OF(n);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        x[i] = input(qn, i, 2, axis ? AT(3, places(i)) : AT(places(i), 3));
        total += places(i);
    }
    qn_tensor *y = qn_concat(n, x, axis);
    float *v = value_of(y);
    int64_t at = 0, wrong = 0;
    for (int i = 0; i < n; at += places(i++))
        for (int64_t a = 0; a < 3; a++)
            for (int64_t p = 0; p < places(i); p++) {
                float want = element(i, axis ? a * places(i) + p : p * 3 + a);
                wrong += v[axis ? a * total + at + p : (at + p) * 3 + a] != want;
            }
    if (wrong) FAIL("%s: %d pieces along axis %d: %lld wrong", device, n, axis, (long long)wrong);
    CHECK(stats_of(qn).peak_bytes <=
          64 * (uint64_t)n + 12 * sizeof(float) * (uint64_t)total + 4096);
    free(v);
    free(x);
    qn_close(qn);
}

static void pieces_lie_one_behind_the_other(void) {
    static const int counts[] = {1, 2, 3, 4, 5, 27, 28, 255, 10000};
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (size_t i = 0; i < COUNT_OF(counts); i++)
            for (int axis = 0; axis < 2; axis++) check_concat(devices[d], counts[i], axis);
}

static void check_dtype(const char *device, qn_dtype d) {
    enum { N = 7, EACH = 5 };
    qn_ctx *qn = open_on(device, 1);
    qn_tensor *x[N];
    size_t width = qn_dtype_size(d);
    unsigned char from[N][EACH * 8] = {{0}}, to[N * EACH * 8];
    uint64_t seed = (uint64_t)d + 1;
    for (int i = 0; i < N; i++) {
        for (size_t b = 0; b < EACH * width; b++)
            from[i][b] = (unsigned char)(test_rand(&seed) >> 20 & (d == QN_BOOL ? 1 : 255));
        x[i] = qn_from(qn, d, 1, AT(EACH), from[i]);
    }
    CHECK_INT(qn_read(qn_concat(N, x, 0), to, N * EACH * width), QN_OK);
    for (int i = 0; i < N; i++)
        CHECK(!memcmp(to + (size_t)i * EACH * width, from[i], EACH * width));
    qn_close(qn);
}

/* Of every size of an element: what is copied are bits, NaN's and -0's, too. */
static void every_dtype_is_copied_bit_by_bit(void) {
    for (int d = 0; d < 2 * DTYPE_COUNT; d++) check_dtype(devices[d % 2], (qn_dtype)(d / 2));
}

/* Beyond what goes past the caches, from a line of the cache on and from between lines. */
static void large_pieces_begin_anywhere(void) {
    enum { LARGE = 9000000 };
    for (int64_t first = 3; first <= 16; first += 13) {
        qn_ctx *qn = open_on("cpu", 2);
        qn_tensor *x[2] = {input(qn, 1, 1, &first), input(qn, 2, 1, AT(LARGE))};
        float *v = value_of(qn_concat(2, (qn_tensor *[]){x[0], qn_neg(x[1])}, 0));
        int64_t wrong = 0;
        for (int64_t i = 0; i < first; i++) wrong += v[i] != element(1, i);
        for (int64_t i = 0; i < LARGE; i++) wrong += v[first + i] != -element(2, i);
        CHECK_INT(wrong, 0);
        free(v);
        qn_close(qn);
    }
}

/* A list that moves on by one each step: the old value is read while the new one is made. */
static void a_list_that_moves_on_reads_its_old_value(void) {
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 1);
        qn_tensor *list = input(qn, 0, 2, AT(9, 5));
        for (int step = 1; step <= 4; step++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *both[2] = {qn_slice(list, 0, 1, 9, 1), input(qn, step, 2, AT(1, 5))};
            CHECK_INT(qn_assign(list, qn_concat(2, both, 0)), QN_OK);
            CHECK_INT(qn_realize(1, &list), QN_OK);
            qn_scope_end(qn, s);
        }
        float *v = value_of(list);
        for (int i = 0; i < 45; i++)
            CHECK(v[i] == (i < 25 ? element(0, i + 20) : element((i - 20) / 5, i % 5)));
        free(v);
        qn_close(qn);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static qn_tensor *stack_of_inputs(qn_ctx *qn, int n, int axis) {
    qn_tensor **x = LIST_OF(n);
    for (int i = 0; i < n; i++) x[i] = input(qn, i, 2, AT(4, 6));
    qn_tensor *y = qn_stack(n, x, axis);
    free(x);
    return y;
}

static void equal_pieces_are_one_program_and_one_launch(void) {
    for (int axis = 0; axis < 3; axis++)
        for (int threads = 1; threads <= 2; threads++) {
            qn_ctx *qn = open_on("null", threads);
            qn_tensor *y = stack_of_inputs(qn, 1000, axis);
            CHECK_INT(qn_realize(1, &y), QN_OK);
            CHECK_INT(stats_of(qn).kernels, axis == 2 ? 2 : 1);
            CHECK_INT(stats_of(qn).compiles, axis == 2 ? 2 : 1);
            CHECK_INT(stats_of(qn).planned_peak_bytes,
                      axis == 2 ? 1000 * 4 * 6 * sizeof(float) : 0);
            qn_close(qn);
        }
}

/* Many columns are rows that are transposed: none is written element by element. */
static void columns_are_written_as_rows_and_transposed(void) {
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (int n = 15; n < 50; n++) {
            qn_ctx *qn = open_on(devices[d], 2);
            qn_tensor *x[50];
            for (int i = 0; i < n; i++) x[i] = input(qn, i, 2, AT(5, 7));
            float *v = value_of(qn_stack(n, x, 2));
            int64_t wrong = 0;
            for (int i = 0; i < n; i++)
                for (int64_t k = 0; k < 35; k++) wrong += v[k * n + i] != element(i, k);
            CHECK_INT(wrong, 0);
            if (!d) CHECK_INT(stats_of(qn).kernels, n < 16 ? 1 : 2);
            free(v);
            qn_close(qn);
        }
}

/* A few columns that are computed by element are one launch, which has no memory but the result's
 * and computes what they share once; one that sums terms is a piece of its own. */
static void few_columns_are_stored_side_by_side(void) {
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (int n = 2; n < 6; n++)
            for (int64_t rows = 1; rows < 300; rows = rows * 3 + 1) {
                qn_ctx *qn = open_on(devices[d], 2);
                qn_tensor *x = input(qn, 1, 2, AT(rows, 3)), *square = qn_mul(x, x), *column[5];
                for (int i = 0; i < n; i++)
                    column[i] = qn_add(i % 2 ? square : x, qn_scalar(qn, QN_F32, i));
                float *v = value_of(qn_stack(n, column, 2));
                int64_t wrong = 0;
                for (int64_t k = 0; k < 3 * rows; k++)
                    for (int i = 0; i < n; i++) {
                        float e = element(1, k), want = (i % 2 ? e * e : e) + (float)i;
                        wrong += v[k * n + i] != want;
                    }
                CHECK_INT(wrong, 0);
                if (!d && n <= 4) CHECK_INT(stats_of(qn).kernels, 1);
                if (!d && n <= 4) CHECK_INT(stats_of(qn).compiles, 1);
                free(v);
                qn_close(qn);
            }
}

static void a_column_of_sums_is_a_piece(void) {
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 2);
        qn_tensor *x = input(qn, 1, 2, AT(50, 40)), *y = qn_sum(x, 1, false);
        float *v = value_of(qn_stack(2, (qn_tensor *[]){y, qn_neg(y)}, 1));
        for (int64_t r = 0; r < 50; r++) {
            float want = 0;
            for (int64_t k = 0; k < 40; k++) want += element(1, 40 * r + k);
            CHECK(v[2 * r] == want && v[2 * r + 1] == -want);
        }
        free(v);
        qn_close(qn);
    }
}

/* What is written of pieces is their bytes: no kernel stores a piece that then is copied, neither
 * where pieces are computed nor where they are lists themselves. */
static void pieces_are_computed_into_their_places(void) {
    qn_ctx *qn = open_on("null", 1);
    qn_tensor *row[6], *cell[5];
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 5; k++)
            cell[k] =
                qn_tanh(qn_matmul(input(qn, i + k, 2, AT(8, 16)), input(qn, k, 2, AT(16, 8))));
        row[i] = qn_concat(5, cell, 1);
    }
    qn_tensor *y = qn_concat(6, row, 0);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(stats_of(qn).kernels, 1);
    CHECK_INT(stats_of(qn).compiles, 1);
    CHECK_INT(stats_of(qn).planned_peak_bytes, 0);
    qn_close(qn);
}

/* A few small pieces are chosen from where they are used. */
static void a_few_pieces_are_no_launch_of_their_own(void) {
    qn_ctx *qn = open_on("null", 1);
    qn_tensor *x[2] = {input(qn, 1, 2, AT(8, 8)), input(qn, 2, 2, AT(8, 8))};
    qn_tensor *y = qn_sum(qn_exp(qn_concat(2, x, 1)), 1, false);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(stats_of(qn).kernels, 1);
    qn_close(qn);
}

/* Taking apart what was put together, and the other way round, is nothing. */
static void a_piece_of_a_list_is_that_piece(void) {
    qn_ctx *qn = open_on("null", 1);
    enum { N = 100 };
    qn_tensor *x[N], *part[N], *whole = input(qn, 1, 2, AT(300, 2));
    for (int i = 0; i < N; i++) x[i] = input(qn, i, 2, AT(4, 6));
    for (int axis = 1; axis < 3; axis++) {
        qn_tensor *one = qn_select(qn_stack(N, x, axis), axis, 77);
        CHECK_INT(qn_realize(1, &one), QN_OK);
    }
    CHECK_INT(qn_chunk(whole, 0, N, part), QN_OK);
    qn_tensor *again = qn_concat(N, part, 0);
    CHECK_INT(qn_realize(1, &again), QN_OK);
    whole = input(qn, 1, 2, AT(7, N));
    CHECK_INT(qn_unstack(whole, 1, N, part), QN_OK);
    again = qn_stack(N, part, 1);
    CHECK_INT(qn_realize(1, &again), QN_OK);
    CHECK_INT(stats_of(qn).kernels, 0);
    qn_close(qn);
}

/* ---- growth ---------------------------------------------------------------------------------- */

typedef struct cost {
    double plan, nodes, host, seconds;
} cost;

/* A list of n computed pieces and, of its squares' sum, the gradient by each piece's source. */
static cost cost_of(const char *device, int n) {
    qn_ctx *qn = open_on(device, 1);
    qn_tensor **x = LIST_OF(n), **y = LIST_OF(n), **g = LIST_OF(n);
    double start = clock_processors();
    for (int i = 0; i < n; i++) {
        x[i] = input(qn, i, 1, AT(8));
        y[i] = qn_mul(x[i], qn_like(x[i], 0.5));
    }
    qn_tensor *list = qn_concat(n, y, 0);
    CHECK_INT(qn_grad(qn_sum(qn_mul(list, list), QN_ALL, false), NULL, n, x, g), QN_OK);
    cost c = {.nodes = (double)stats_of(qn).nodes};
    CHECK_INT(qn_realize(n, g), QN_OK);
    c.seconds = clock_processors() - start;
    c.plan = (double)stats_of(qn).plan_bytes;
    c.host = (double)stats_of(qn).host_bytes;
    for (int i = 0; i < n; i += 97) {
        float *v = value_of(g[i]);
        for (int k = 0; k < 8 && strcmp(device, "null"); k++) CHECK(v[k] == 0.5f * element(i, k));
        free(v);
    }
    qn_close(qn);
    free(x), free(y), free(g);
    return c;
}

/* Ten times the pieces are ten times the plan; the time has room for a busy machine. */
static void planning_grows_as_the_pieces_do(void) {
    static const char *const all[] = {"null", "cpu", "ref"};
    for (size_t d = 0; d < COUNT_OF(all); d++) {
        cost some = cost_of(all[d], 200), more = cost_of(all[d], 2000);
        CHECK(more.plan <= 11 * some.plan);
        CHECK(more.nodes <= 11 * some.nodes);
        CHECK(more.host <= 12 * some.host);
        if (more.seconds > 50 * some.seconds)
            FAIL("%s: 2000 pieces take %g s, 200 %g", all[d], more.seconds, some.seconds);
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* sum of x^3 weighted by place through a list of 500: 3 w x^2, and of that summed 6 w x. */
static void gradients_of_a_list_of_500_first_and_second_order(void) {
    enum { N = 500, EACH = 6 };
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 1);
        qn_tensor *x[N], *g[N], *h[N], *sum = NULL;
        for (int i = 0; i < N; i++) x[i] = input(qn, i, 2, AT(2, 3));
        qn_tensor *y = qn_concat(N, x, 1), *w = input(qn, 7, 2, AT(2, 3 * N));
        y = qn_sum(qn_mul(w, qn_mul(y, qn_mul(y, y))), QN_ALL, false);
        CHECK_INT(qn_grad(y, NULL, N, x, g), QN_OK);
        for (int i = 0; i < N; i++) {
            qn_tensor *one = qn_sum(g[i], QN_ALL, false);
            sum = sum ? qn_add(sum, one) : one;
        }
        CHECK_INT(qn_grad(sum, NULL, N, x, h), QN_OK);
        for (int i = 0; i < N; i += 41) {
            float *first = value_of(g[i]), *second = value_of(h[i]);
            for (int k = 0; k < EACH; k++) {
                double v = element(i, k), weight = element(7, k / 3 * 3 * N + 3 * i + k % 3);
                CHECK_NEAR(first[k], 3 * weight * v * v, 1e-6, 1e-6);
                CHECK_NEAR(second[k], 6 * weight * v, 1e-6, 1e-6);
            }
            free(first), free(second);
        }
        qn_close(qn);
    }
}

/* f of each row by itself: the rows' gradients beside each other, zeros for rows nobody took. */
static void check_selects(const char *device, int n, int axis, int leave_out) {
    qn_ctx *qn = open_on(device, 1);
    int64_t dims[2] = {axis ? 5 : n, axis ? n : 5};
    qn_tensor *x = input(qn, 3, 2, dims), **part = LIST_OF(n), *g = NULL;
    int parts = 0;
    for (int i = 0; i < n; i++)
        if (i % leave_out || leave_out == 1) {
            qn_tensor *row = qn_select(x, axis, i);
            part[parts++] = qn_mul(row, qn_mul(row, qn_like(row, 1 + i % 4)));
        }
    qn_tensor *y = parts ? qn_sum(qn_stack(parts, part, 0), QN_ALL, false) : qn_sum(x, 0, false);
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_realize(1, &g), QN_OK);
    CHECK_INT(stats_of(qn).planned_peak_bytes, 0);
    float *v = value_of(g);
    int64_t wrong = 0;
    for (int i = 0; parts && i < n; i++)
        for (int64_t k = 0; k < 5; k++) {
            int64_t at = axis ? k * n + i : i * 5 + k;
            bool taken = i % leave_out || leave_out == 1;
            wrong += v[at] != (taken ? 2 * (float)(1 + i % 4) * element(3, at) : 0);
        }
    if (wrong) FAIL("%s: %d rows of axis %d: %lld wrong", device, n, axis, (long long)wrong);
    free(v), free(part);
    qn_close(qn);
}

static void gradients_of_many_selects_lie_beside_each_other(void) {
    static const int counts[] = {1, 2, 3, 40};
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        for (size_t i = 0; i < COUNT_OF(counts); i++)
            for (int axis = 0; axis < 2; axis++)
                for (int leave_out = 1; leave_out < 4; leave_out++)
                    check_selects(devices[d], counts[i], axis, leave_out);
        check_selects(devices[d], d ? 10000 : 255, 0, 3);
    }
}

/* How many additions of its own size a tensor is made of. */
static int whole_additions(qn_tensor *t) {
    graph *g = tensor_ctx(t)->graph;
    node_id *order, root = tensor_at(t)->node;
    arena a;
    arena_open(&a, &tensor_ctx(t)->heap);
    uint32_t n = graph_order(g, &a, 1, &root, &order);
    int count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const graph_node *x = node_at(g, order[i]);
        count += x->op == OP_ADD && x->shape == node_at(g, root)->shape;
    }
    arena_free(&a);
    return count;
}

/* f of each residue class by itself, x[k::step] along an axis, but for every `leave_out`-th. */
static void check_steps(const char *device, int size, int step, int axis, int leave_out) {
    qn_ctx *qn = open_on(device, 1);
    int64_t dims[2] = {axis ? 3 : size, axis ? size : 3};
    qn_tensor *x = input(qn, 3, 2, dims), *g = NULL, *y = NULL;
    for (int k = 0; k < step && k < size; k++) {
        if (k % leave_out != leave_out - 1 && leave_out > 1) continue;
        qn_tensor *part = qn_slice(x, axis, k, INT64_MAX, step);
        part = qn_sum(qn_mul(part, qn_mul(part, qn_like(part, 1 + k % 4))), QN_ALL, false);
        y = y ? qn_add(y, part) : part;
    }
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    CHECK_INT(whole_additions(g), 0);
    float *v = value_of(g);
    int64_t wrong = 0;
    for (int i = 0; i < size; i++)
        for (int64_t k = 0; k < 3; k++) {
            int64_t at = axis ? k * size + i : i * 3 + k, class_ = i % step;
            bool taken = leave_out == 1 || class_ % leave_out == leave_out - 1;
            wrong += v[at] != (taken ? 2 * (float)(1 + class_ % 4) * element(3, at) : 0);
        }
    if (wrong)
        FAIL("%s: %d by %d along %d: %lld wrong", device, size, step, axis, (long long)wrong);
    free(v);
    qn_close(qn);
}

static void gradients_of_slices_with_steps_are_interleaved(void) {
    static const int cases[][2] = {{8, 2}, {9, 2}, {10, 4}, {7, 7}, {100, 33}, {64, 16}, {5, 4}};
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (size_t i = 0; i < COUNT_OF(cases); i++)
            for (int axis = 0; axis < 2; axis++)
                for (int leave_out = 1; leave_out < 4; leave_out++)
                    if (leave_out <= cases[i][1])
                        check_steps(devices[d], cases[i][0], cases[i][1], axis, leave_out);
}

/* Windows of every third place that overlap, beside ones of every second, both axes at once. */
static void slices_with_several_steps_are_added(void) {
    enum { N = 23 };
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 1);
        qn_tensor *x = input(qn, 5, 2, AT(N, N)), *y = NULL, *g = NULL;
        float want[N][N] = {{0}};
        uint64_t seed = 7;
        for (int n = 0; n < 30; n++) {
            int64_t from[2], to[2], by[2];
            for (int k = 0; k < 2; k++) {
                from[k] = test_below(&seed, N - 4), by[k] = 1 + test_below(&seed, 3);
                to[k] = from[k] + 1 + test_below(&seed, N - from[k]);
            }
            qn_tensor *part =
                qn_slice(qn_slice(x, 0, from[0], to[0], by[0]), 1, from[1], to[1], by[1]);
            part = qn_sum(part, QN_ALL, false);
            part = qn_mul(part, qn_like(part, n + 1));
            y = y ? qn_add(y, part) : part;
            for (int64_t i = from[0]; i < to[0] && i < N; i += by[0])
                for (int64_t k = from[1]; k < to[1] && k < N; k += by[1])
                    want[i][k] += (float)(n + 1);
        }
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
        float *v = value_of(g);
        int wrong = 0;
        for (int i = 0; i < N * N; i++) wrong += v[i] != want[i / N][i % N];
        CHECK_INT(wrong, 0);
        free(v);
        qn_close(qn);
    }
}

/* Windows that overlap are added, in as many layers as lie above each other, and boxes of two axes
 * are laid out along both. */
static void overlapping_slices_are_added_in_layers(void) {
    enum { N = 64, W = 5 };
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 1);
        qn_tensor *x = input(qn, 1, 1, AT(N)), *y = NULL, *g = NULL;
        float want[N] = {0};
        for (int i = 0; i + W <= N; i += 2) {
            qn_tensor *s = qn_slice(x, 0, i, i + W, 1);
            s = qn_sum(qn_mul(s, qn_like(s, i + 1)), QN_ALL, false);
            y = y ? qn_add(y, s) : s;
            for (int k = 0; k < W; k++) want[i + k] += (float)(i + 1);
        }
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
        float *v = value_of(g);
        for (int i = 0; i < N; i++) CHECK(v[i] == want[i]);
        free(v);
        qn_close(qn);
    }
}

static void boxes_of_two_axes_are_laid_out_along_both(void) {
    enum { R = 7, C = 9 };
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 1);
        qn_tensor *x = input(qn, 1, 2, AT(R, C)), *y = NULL, *g = NULL;
        float want[R * C] = {0};
        uint64_t seed = 5;
        for (int i = 0; i < 30; i++) {
            int64_t r = test_below(&seed, R), c = test_below(&seed, C);
            int64_t m = 1 + test_below(&seed, R - r), n = 1 + test_below(&seed, C - c);
            qn_tensor *s = qn_slice(qn_slice(x, 0, r, r + m, 1), 1, c, c + n, 1);
            s = qn_sum(qn_mul(s, qn_like(s, i + 1)), QN_ALL, false);
            y = y ? qn_add(y, s) : s;
            for (int64_t a = r; a < r + m; a++)
                for (int64_t b = c; b < c + n; b++) want[a * C + b] += (float)(i + 1);
        }
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
        float *v = value_of(g);
        for (int i = 0; i < R * C; i++) CHECK(v[i] == want[i]);
        free(v);
        qn_close(qn);
    }
}

/* Every way of taking apart, each part used by itself, and twice over. */
static void gradients_of_splits_and_chunks(void) {
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        qn_ctx *qn = open_on(devices[d], 1);
        qn_tensor *x = input(qn, 1, 2, AT(6, 11)), *part[7], *y = NULL, *g = NULL, *h = NULL;
        CHECK_INT(qn_split(x, 0, 3, AT(2, 1, 3), part), QN_OK);
        CHECK_INT(qn_chunk(x, 1, 4, part + 3), QN_OK);
        for (int i = 0; i < 7; i++) {
            qn_tensor *cube = qn_mul(part[i], qn_mul(part[i], part[i]));
            cube = qn_sum(qn_mul(cube, qn_like(cube, i + 1)), QN_ALL, false);
            y = y ? qn_add(y, cube) : cube;
        }
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
        CHECK_INT(qn_grad(qn_sum(g, QN_ALL, false), NULL, 1, &x, &h), QN_OK);
        float *first = value_of(g), *second = value_of(h);
        for (int64_t r = 0; r < 6; r++)
            for (int64_t c = 0; c < 11; c++) { /* chunks of 3, 3, 3, 2 columns */
                double w = (r < 2 ? 1 : r < 3 ? 2 : 3) + 4 + (double)(c / 3);
                double v = element(1, r * 11 + c);
                CHECK_NEAR(first[r * 11 + c], 3 * w * v * v, 1e-6, 1e-6);
                CHECK_NEAR(second[r * 11 + c], 6 * w * v, 1e-6, 1e-6);
            }
        free(first), free(second);
        qn_close(qn);
    }
}

/* ---- sizes that vary ------------------------------------------------------------------------- */

/* [t, 4], [2, 4], [t, 4] one behind the other, and along the other axis; the parts' gradients. */
static void places_follow_dimension_variables(void) {
    qn_ctx *qn = open_on("cpu", 1);
    int64_t t = qn_var(qn, "t", 1, 20);
    CHECK_INT(qn_bind(qn, t, 3), QN_OK);
    float zero[20 * 4] = {0};
    qn_tensor *a = qn_from(qn, QN_F32, 2, AT(t, 4), zero), *b = input(qn, 2, 2, AT(2, 4));
    qn_tensor *list = qn_concat(3, (qn_tensor *[]){a, b, qn_neg(a)}, 0);
    qn_tensor *twice = qn_concat(6, (qn_tensor *[]){list, qn_neg(list), list, list, list, list}, 1);
    qn_tensor *out[2] = {twice, NULL};
    CHECK_INT(qn_grad(qn_sum(qn_mul(list, list), QN_ALL, false), NULL, 1, &a, &out[1]), QN_OK);
    qn_plan *plan = qn_plan_new(qn, 1, &a, 2, out);
    CHECK(plan != NULL);
    for (int64_t n = 1; plan && n <= 20; n += 3) {
        qn_tensor *in = input(qn, n, 2, AT(n, 4)), *made[2];
        CHECK_INT(qn_plan_run(plan, &in, made), QN_OK);
        float *v = value_of(made[0]), *g = value_of(made[1]);
        for (int64_t r = 0; r < 2 * n + 2; r++)
            for (int64_t c = 0; c < 24; c++) {
                float want = r < n       ? element(n, r * 4 + c % 4)
                             : r < n + 2 ? element(2, (r - n) * 4 + c % 4)
                                         : -element(n, (r - n - 2) * 4 + c % 4);
                CHECK(v[r * 24 + c] == (c / 4 == 1 ? -want : want));
            }
        for (int64_t i = 0; i < 4 * n; i++) CHECK(g[i] == 4 * element(n, i));
        free(v), free(g);
    }
    qn_plan_free(plan);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(pieces_lie_one_behind_the_other);
    RUN(every_dtype_is_copied_bit_by_bit);
    RUN(large_pieces_begin_anywhere);
    RUN(a_list_that_moves_on_reads_its_old_value);
    RUN(equal_pieces_are_one_program_and_one_launch);
    RUN(pieces_are_computed_into_their_places);
    RUN(columns_are_written_as_rows_and_transposed);
    RUN(few_columns_are_stored_side_by_side);
    RUN(a_column_of_sums_is_a_piece);
    RUN(a_few_pieces_are_no_launch_of_their_own);
    RUN(a_piece_of_a_list_is_that_piece);
    RUN(planning_grows_as_the_pieces_do);
    RUN(gradients_of_a_list_of_500_first_and_second_order);
    RUN(gradients_of_many_selects_lie_beside_each_other);
    RUN(gradients_of_slices_with_steps_are_interleaved);
    RUN(slices_with_several_steps_are_added);
    RUN(overlapping_slices_are_added_in_layers);
    RUN(boxes_of_two_axes_are_laid_out_along_both);
    RUN(gradients_of_splits_and_chunks);
    RUN(places_follow_dimension_variables);
    return test_end();
}
