/* test_batch_axes.c - the loss of a language model whose batch has several axes, and its gradients:
 * sums over a row's words of its softmax by their vectors, and over all rows. Rows of two axes are
 * planned as those of one are, and no product is left to scalars, which is read off the kernels as
 * they are scheduled on the device null; the values are those of plain loops in double. */
#include "base/base.h"
#include "quern_nn.h"
#include "test.h"

#include <math.h>

enum { WORDS = 2048, WIDTH = 16, MOST_ROWS = 1024, MOST_AXES = 4 };

typedef struct batch {
    int axes;
    int64_t shape[MOST_AXES];
    int order[MOST_AXES]; /* of the axes, as the loss sees them */
    int kernels[2];       /* of the loss with its gradients, of these alone */
} batch;

static const batch batches[] = {
    {1, {1024}, {0}, {5, 2}},      {2, {32, 32}, {0, 1}, {5, 2}},
    {2, {256, 4}, {0, 1}, {5, 2}}, {3, {8, 8, 16}, {0, 1, 2}, {5, 2}},
    {2, {32, 32}, {1, 0}, {5, 2}}, {3, {16, 8, 8}, {2, 0, 1}, {5, 2}},
    {1, {1023}, {0}, {6, 2}},      {2, {31, 33}, {0, 1}, {6, 2}},
};

enum { LOSS, BY_WORD, BY_ROW, RESULTS };

typedef struct numbers {
    float *words, *rows;
    int32_t *label;
} numbers;

static int64_t rows_of(const batch *b) {
    int64_t n = 1;
    for (int i = 0; i < b->axes; i++) n *= b->shape[i];
    return n;
}

static numbers make_numbers(const batch *b) {
    int64_t rows = rows_of(b);
    uint64_t seed = 7;
    numbers x = {malloc(WORDS * WIDTH * sizeof *x.words),
                 malloc((size_t)rows * WIDTH * sizeof *x.rows),
                 malloc((size_t)rows * sizeof *x.label)};
    for (int i = 0; i < WORDS * WIDTH; i++) x.words[i] = (float)(test_uniform(&seed) - 0.5);
    for (int64_t i = 0; i < rows * WIDTH; i++) x.rows[i] = (float)(4 * test_uniform(&seed) - 2);
    for (int64_t i = 0; i < rows; i++) x.label[i] = (int32_t)(test_uniform(&seed) * WORDS);
    return x;
}

static void free_numbers(numbers *x) {
    free(x->words);
    free(x->rows);
    free(x->label);
}

/* The loss and its gradients by words and by rows. Labels are in the order that the loss sees. */
static void make(qn_ctx *qn, const batch *b, const numbers *x, qn_tensor *y[RESULTS]) {
    int64_t shape[MOST_AXES + 1], seen[MOST_AXES];
    int order[MOST_AXES + 1];
    memcpy(shape, b->shape, sizeof b->shape);
    memcpy(order, b->order, sizeof b->order);
    for (int i = 0; i < b->axes; i++) seen[i] = b->shape[b->order[i]];
    shape[b->axes] = WIDTH;
    order[b->axes] = b->axes;
    qn_tensor *in[2] = {qn_from(qn, QN_F32, 2, (int64_t[]){WORDS, WIDTH}, x->words),
                        qn_from(qn, QN_F32, b->axes + 1, shape, x->rows)};
    qn_tensor *label = qn_from(qn, QN_I32, b->axes, seen, x->label);
    qn_tensor *scores = qn_matmul(qn_permute(in[1], b->axes + 1, order), qn_transpose(in[0], 0, 1));
    y[LOSS] = qn_cross_entropy(scores, qn_cast(label, QN_I64));
    if (qn_grad(y[LOSS], NULL, 2, in, &y[BY_WORD])) FAIL("%s", qn_error(qn));
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* In kernels as they are scheduled: products that are added in no vector, or in vectors along the
 * sum, of operands that lie across it. */
static int slow;
static void count_slow(void *user, const char *line) {
    static bool scheduled, contraction;
    static size_t vec; /* how far in the innermost loop of vectors stands, 0: there is none */
    (void)user;
    if (strstr(line, " schedule:")) contraction = strstr(line, ".contract[") != NULL;
    if (!strncmp(line, "k after ", 8)) {
        scheduled = !strcmp(line, "k after schedule");
        contraction = false;
    }
    size_t in = strspn(line, " ");
    if (in <= vec) vec = 0;
    if (!strncmp(line + in, "vec ", 4)) vec = in;
    slow += scheduled && !vec && strstr(line, "+= mul(") != NULL;
    slow += contraction && !strncmp(line, "rfactor ", 8);
}

/* Results from the first one on, in one request or each in its own; returns the kernels. */
static int launched(const batch *b, int first, bool apart) {
    numbers x = make_numbers(b);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = count_slow));
    qn_tensor *y[RESULTS];
    qn_stats before, after;
    make(qn, b, &x, y);
    qn_set(qn, "debug", "k");
    qn_get_stats(qn, &before, sizeof before);
    slow = 0;
    for (int i = first; i < RESULTS; i += apart ? 1 : RESULTS)
        CHECK_INT(qn_realize(apart ? 1 : RESULTS - first, y + i), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    if (slow) FAIL("batch %td from result %d: %d slow products", b - batches, first, slow);
    qn_close(qn);
    free_numbers(&x);
    return (int)(after.kernels - before.kernels);
}

static void rows_of_several_axes_are_planned_as_rows_of_one(void) {
    for (size_t i = 0; i < COUNT_OF(batches); i++)
        for (int first = LOSS; first <= BY_WORD; first++)
            CHECK_INT(launched(&batches[i], first, false), batches[i].kernels[first]);
}

static void each_result_alone_is_made_by_vectors_of_rows(void) {
    for (size_t i = 0; i < COUNT_OF(batches); i++)
        for (int first = LOSS; first < RESULTS; first++) launched(&batches[i], first, true);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Where the row that the loss sees as number r lies. */
static int64_t place_of(const batch *b, int64_t r) {
    int64_t at[MOST_AXES], place = 0;
    for (int i = b->axes; i-- > 0; r /= b->shape[b->order[i]])
        at[b->order[i]] = r % b->shape[b->order[i]];
    for (int i = 0; i < b->axes; i++) place = place * b->shape[i] + at[i];
    return place;
}

static void plain(const batch *b, const numbers *x, double *by_word, double *by_row) {
    static double weight[WORDS];
    int64_t rows = rows_of(b);
    memset(by_word, 0, WORDS * WIDTH * sizeof *by_word);
    memset(by_row, 0, (size_t)rows * WIDTH * sizeof *by_row);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x->rows + place_of(b, r) * WIDTH;
        double *d = by_row + place_of(b, r) * WIDTH, sum = 0;
        for (int w = 0; w < WORDS; w++) {
            double s = 0;
            for (int i = 0; i < WIDTH; i++) s += (double)row[i] * (double)x->words[w * WIDTH + i];
            sum += weight[w] = exp(s);
        }
        for (int w = 0; w < WORDS; w++) {
            double p = (weight[w] / sum - (w == x->label[r])) / (double)rows;
            for (int i = 0; i < WIDTH; i++) {
                d[i] += p * (double)x->words[w * WIDTH + i];
                by_word[w * WIDTH + i] += p * (double)row[i];
            }
        }
    }
}

/* Sums of thousands of floats in order, against the largest of the values. */
static void check_near(const batch *b, qn_tensor *t, const double *want, int64_t n) {
    float *got = malloc((size_t)n * sizeof *got);
    double most = 0, worst = 0;
    CHECK_INT(qn_read(t, got, (size_t)n * sizeof *got), QN_OK);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(want[i]));
        if (!(fabs((double)got[i] - want[i]) <= worst)) worst = fabs((double)got[i] - want[i]);
    }
    if (!(worst <= 1e-5 * most)) FAIL("batch %td: %g of %g off", b - batches, worst, most);
    free(got);
}

static void gradients_are_those_of_plain_loops(void) {
    double *by_word = malloc(WORDS * WIDTH * sizeof *by_word);
    double *by_row = malloc(MOST_ROWS * WIDTH * sizeof *by_row);
    for (size_t i = 0; i < COUNT_OF(batches); i++) {
        const batch *b = &batches[i];
        numbers x = make_numbers(b);
        plain(b, &x, by_word, by_row);
        for (int first = LOSS; first <= BY_WORD; first++) {
            qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
            qn_tensor *y[RESULTS];
            make(qn, b, &x, y);
            CHECK_INT(qn_realize(RESULTS - first, y + first), QN_OK);
            check_near(b, y[BY_WORD], by_word, WORDS * WIDTH);
            check_near(b, y[BY_ROW], by_row, rows_of(b) * WIDTH);
            qn_close(qn);
        }
        free_numbers(&x);
    }
    free(by_word);
    free(by_row);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(rows_of_several_axes_are_planned_as_rows_of_one);
    RUN(each_result_alone_is_made_by_vectors_of_rows);
    RUN(gradients_are_those_of_plain_loops);
    return test_end();
}
