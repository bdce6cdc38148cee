/* test_split_reduction.c - reductions of much to few elements, which run as two kernels: values
 * against plain loops here, launches counted, the same bits with any number of threads. */
#include "ir_cases.h"
#include "lower/lower.h"
#include "quern.h"
#include "schedule/schedule.h"

/* A matrix whose numbers are small multiples of 1/8: sums of them are exact in any order. */
static float *values(int64_t rows, int64_t columns, uint64_t seed) {
    float *x = malloc((size_t)(rows * columns + 1) * sizeof *x);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = (float)((int64_t)test_below(&seed, 17) - 8) / 8;
    return x;
}

typedef struct reduced {
    double sum, max, min;
    int64_t first; /* of the largest */
} reduced;

/* Element `i` of a reduction over axis 0, 1, or both (2). */
static reduced reduce(const float *x, int64_t rows, int64_t columns, int axis, int64_t i) {
    int64_t n = axis == 0 ? rows : axis == 1 ? columns : rows * columns;
    reduced r = {0, -INFINITY, INFINITY, 0};
    for (int64_t j = 0; j < n; j++) {
        float v = axis == 0 ? x[j * columns + i] : axis == 1 ? x[i * columns + j] : x[j];
        r.sum += (double)v;
        if (v > r.max) r.first = j;
        r.max = fmax(r.max, (double)v);
        r.min = fmin(r.min, (double)v);
    }
    return r;
}

static qn_tensor *over(qn_tensor *x, int axis,
                       qn_tensor *(*f)(qn_tensor *, int, const int *, bool)) {
    return axis == 2 ? f(x, 2, (int[]){0, 1}, false) : f(x, 1, &axis, false);
}

static int launches(qn_ctx *qn, qn_tensor *t, void *to, size_t size) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_realize(1, &t) || qn_read(t, to, size)) FAIL("%s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    return (int)(b.kernels - a.kernels);
}

/* Sums, largest, smallest and the place of the largest, each in as many kernels as expected. */
static void check(qn_ctx *qn, int64_t rows, int64_t columns, int axis, int kernels) {
    enum { MOST = 8192 };
    static float sum[MOST], max[MOST], min[MOST];
    static int64_t arg[MOST];
    float *x = values(rows, columns, (uint64_t)(rows * 31 + columns));
    int64_t n = axis == 0 ? columns : axis == 1 ? rows : 1;
    size_t size = (size_t)n * sizeof *sum;
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, x);
    CHECK_INT(launches(qn, over(t, axis, qn_sum_axes), sum, size), kernels);
    CHECK_INT(launches(qn, over(t, axis, qn_max_axes), max, size), kernels);
    CHECK_INT(launches(qn, over(t, axis, qn_min_axes), min, size), kernels);
    CHECK_INT(launches(qn, over(t, axis, qn_argmax_axes), arg, 2 * size), kernels);
    for (int64_t i = 0; i < n; i++) {
        reduced r = reduce(x, rows, columns, axis, i);
        CHECK((double)sum[i] == r.sum && (double)max[i] == r.max && (double)min[i] == r.min);
        CHECK_INT(arg[i], r.first);
    }
    qn_release(t);
    free(x);
}

static void few_results_of_much_are_made_in_two_stages(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    check(qn, 1031, 509, 2, 2); /* both axes, primes */
    check(qn, 1, 600011, 2, 2); /* one axis; the last part is short */
    check(qn, 3, 200003, 1, 2); /* rows */
    check(qn, 5, 131072, 1, 2);
    check(qn, 200003, 5, 0, 2); /* columns, lanes to spare */
    check(qn, 9001, 70, 0, 2);  /* columns, more than a vector */
    check(qn, 40, 20000, 1, 1); /* rows enough */
    check(qn, 200, 2000, 0, 1); /* columns enough */
    check(qn, 100, 100, 2, 1);  /* too little */
    qn_close(qn);
}

/* What is fused around the reduction is done once, and the loops around it may be several. */
static void what_comes_before_and_after_is_kept(void) {
    enum { N = 3, M = 400, K = 251 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    float *x = values(N * M, K, 5), got[2][K] = {{0}};
    qn_tensor *t = qn_from(qn, QN_F32, 4, (int64_t[]){N, M, K, 1}, x);
    qn_tensor *y =
        qn_mul(qn_sum_axes(qn_mul(t, t), 3, (int[]){0, 1, 3}, false), qn_scalar(qn, QN_F32, 0.5));
    CHECK_INT(launches(qn, y, got[0], sizeof got[0]), 2);
    for (int k = 0; k < K; k++) {
        double sum = 0;
        for (int i = 0; i < N * M; i++) sum += (double)x[i * K + k] * (double)x[i * K + k];
        CHECK((double)got[0][k] == sum / 2);
    }
    free(x);
    qn_close(qn);
}

static void the_first_largest_and_nan_win_across_parts(void) {
    enum { N = 1 << 20 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    float *x = calloc(N, sizeof *x), largest;
    int64_t first;
    x[777777] = x[400001] = x[999999] = 2;
    for (int nan = 0; nan < 2; nan++) {
        if (nan) x[555555] = x[888888] = NAN;
        qn_tensor *t = qn_from(qn, QN_F32, 1, (int64_t[]){N}, x);
        CHECK_INT(launches(qn, qn_argmax(t, 0, false), &first, sizeof first), 2);
        CHECK_INT(first, nan ? 555555 : 400001);
        CHECK_INT(launches(qn, qn_max(t, 0, false), &largest, sizeof largest), 2);
        CHECK(nan ? isnan(largest) : largest == 2);
        qn_release(t);
    }
    free(x);
    qn_close(qn);
}

typedef struct product_case {
    int64_t batch, rows, columns, deep;
    int turned; /* 1: the rows' operand, 2: the columns', each lies along its own */
    int kernels;
} product_case;

static float element(const float *x, const product_case *c, bool turned, int64_t sides, int64_t b,
                     int64_t i, int64_t k) {
    return x[b * sides * c->deep + (turned ? k * sides + i : i * c->deep + k)];
}

static void check_product(qn_ctx *qn, const product_case *c) {
    enum { MOST = 12000 };
    static float got[MOST];
    bool a_down = c->turned & 1, b_along = c->turned & 2;
    float *a = values(c->batch * c->rows, c->deep, 1),
          *b = values(c->batch * c->columns, c->deep, 2);
    qn_tensor *x = qn_from(qn, QN_F32, 3,
                           a_down ? (int64_t[]){c->batch, c->deep, c->rows}
                                  : (int64_t[]){c->batch, c->rows, c->deep},
                           a);
    qn_tensor *y = qn_from(qn, QN_F32, 3,
                           b_along ? (int64_t[]){c->batch, c->columns, c->deep}
                                   : (int64_t[]){c->batch, c->deep, c->columns},
                           b);
    qn_tensor *p =
        qn_matmul(a_down ? qn_transpose(x, 1, 2) : x, b_along ? qn_transpose(y, 1, 2) : y);
    size_t size = (size_t)(c->batch * c->rows * c->columns) * sizeof *got;
    CHECK_INT(launches(qn, qn_relu(p), got, size), c->kernels);
    float *r = got;
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t i = 0; i < c->rows; i++)
            for (int64_t j = 0; j < c->columns; j++) {
                double sum = 0;
                for (int64_t k = 0; k < c->deep; k++)
                    sum += (double)element(a, c, a_down, c->rows, n, i, k) *
                           (double)element(b, c, !b_along, c->columns, n, j, k);
                CHECK((double)*r++ == (sum > 0 ? sum : 0));
            }
    qn_release(x);
    qn_release(y);
    free(a);
    free(b);
}

/* Tiles of rows by columns are what there is to hand out, not single outputs. */
static void deep_products_of_few_rows_and_columns_are_made_in_two_stages(void) {
    static const product_case of[] = {
        {1, 16, 16, 40000, 0, 2}, {1, 16, 16, 40000, 1, 2}, {1, 17, 15, 40009, 2, 2},
        {1, 3, 50, 65536, 3, 2},  {1, 40, 41, 20011, 0, 2}, {2, 24, 25, 16411, 1, 2},
        {1, 96, 96, 17000, 0, 1}, {1, 8, 400, 16400, 2, 1}, /* tiles enough */
        {1, 16, 16, 10000, 0, 1},                           /* not deep enough */
    };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) check_product(qn, &of[i]);
    qn_close(qn);
}

/* Sums of products of bytes, which go by words of four where the machine has an instruction. */
static void deep_products_of_bytes_are_made_in_two_stages(void) {
    enum { M = 5, N = 33, K = 70001 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    uint64_t seed = 3;
    int8_t *a = malloc((size_t)M * K), *b = malloc((size_t)N * K);
    for (int i = 0; i < M * K; i++) a[i] = (int8_t)((int)test_below(&seed, 256) - 128);
    for (int i = 0; i < N * K; i++) b[i] = (int8_t)((int)test_below(&seed, 256) - 128);
    qn_tensor *x = qn_cast(qn_from(qn, QN_I8, 2, (int64_t[]){M, K}, a), QN_I32);
    qn_tensor *y = qn_cast(qn_from(qn, QN_I8, 2, (int64_t[]){N, K}, b), QN_I32);
    static int32_t got[M * N];
    CHECK_INT(launches(qn, qn_matmul(x, qn_transpose(y, 0, 1)), got, sizeof got), 2);
    for (int i = 0; i < M * N; i++) {
        int32_t sum = 0;
        for (int k = 0; k < K; k++) sum += a[i / N * K + k] * b[i % N * K + k];
        CHECK_INT(got[i], sum);
    }
    free(a);
    free(b);
    qn_close(qn);
}

static void threads_change_no_bit_of_a_product(void) {
    enum { M = 20, N = 21, K = 30011 };
    float *x = malloc((size_t)(M + N) * K * sizeof *x), got[4][M * N];
    uint64_t seed = 10;
    for (int i = 0; i < (M + N) * K; i++) x[i] = (float)test_uniform(&seed) - 0.5f;
    for (int i = 0; i < 4; i++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = i + 1));
        qn_tensor *a = qn_from(qn, QN_F32, 2, (int64_t[]){M, K}, x);
        qn_tensor *b = qn_from(qn, QN_F32, 2, (int64_t[]){K, N}, x + M * K);
        CHECK_INT(launches(qn, qn_matmul(a, b), got[i], sizeof got[i]), 2);
        CHECK(!memcmp(got[i], got[0], sizeof got[i]));
        qn_close(qn);
    }
    free(x);
}

/* Softmax down the columns of a masked matrix some times over. */
static void masked_softmaxes(int threads, bool one_by_one, size_t size, float *out) {
    enum { ROWS = 1300, COLUMNS = 224, TIMES = 3 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
    float *x = values(ROWS, COLUMNS, 4);
    qn_tensor *a = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x);
    qn_tensor *above = qn_gt(a, qn_like(a, 0));
    CHECK_INT(size, ROWS * COLUMNS * sizeof *x);
    for (int i = 0; i < TIMES; i++) {
        a = qn_softmax(qn_where(above, a, qn_like(a, (double)-INFINITY)), 0);
        if (one_by_one && qn_realize(1, &a)) FAIL("%s", qn_error(qn));
    }
    if (qn_read(a, out, size)) FAIL("%s", qn_error(qn));
    free(x);
    qn_close(qn);
}

/* Equal programs become one launch where nothing between waits for them; the first stage of a
 * reduction has its last stage's output among its arguments, but does not write it. */
static void readers_run_after_the_last_stage(void) {
    enum { N = 1300 * 224 };
    static float want[N], got[N];
    masked_softmaxes(1, true, sizeof want, want);
    for (int threads = 1; threads <= 2; threads++) {
        masked_softmaxes(threads, false, sizeof got, got);
        int wrong = 0;
        for (int i = 0; i < N; i++) wrong += !(fabsf(got[i] - want[i]) <= 1e-6f);
        CHECK_INT(wrong, 0);
    }
}

static void threads_change_no_bit_of_a_sum(void) {
    enum { N = 1000003 };
    float *x = malloc(N * sizeof *x), sum[4];
    uint64_t seed = 9;
    for (int i = 0; i < N; i++) x[i] = (float)test_uniform(&seed);
    for (int i = 0; i < 4; i++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = i + 1));
        qn_tensor *t = qn_from(qn, QN_F32, 1, (int64_t[]){N}, x);
        CHECK_INT(launches(qn, qn_sum(t, 0, false), &sum[i], sizeof sum[i]), 2);
        CHECK(!memcmp(&sum[i], &sum[0], sizeof sum[i]));
        qn_close(qn);
    }
    free(x);
}

/* More places than memory could have, of a number: nobody waits for them to be looked at, but to
 * plan and compile them is no error. */
static void what_no_loop_can_be_cut_into_stays_whole(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    for (int bits = 30; bits < 63; bits++)
        for (int more = -1; more <= 1; more++) {
            qn_tensor *x = qn_full(qn, QN_F32, 1, (int64_t[]){((int64_t)1 << bits) + more}, 2);
            qn_tensor *t = qn_argmin(x, 0, false);
            if (qn_realize(1, &t)) FAIL("2^%d%+d: %s", bits, more, qn_error(qn));
            qn_release(x);
            qn_release(t);
        }
    qn_close(qn);
}

/* The gradient of the weights of a 3x3 convolution over images of n by n. */
static const char *weights_of(int n, char *text, size_t size) {
    snprintf(text, size,
             "kernel \"weights\" {\n"
             "  arg a0 f32[2304] write\n  reg t0 f32[1]\n"
             "  arg a1 f32[%d] read\n  arg a2 f32[%d] read\n"
             "  for i0 < 16 {\n    for i1 < 16 {\n      for i2 < 3 {\n        for i3 < 3 {\n"
             "          def t0 = f32(0)\n"
             "          for r0 < %d {\n            for r1 < %d {\n"
             "              t0[0] += mul(a1[%d*i0 + %d*r0 + r1], a2[%d*i1 + %d*i2 + i3 + %d*r0 + r1"
             " - %d; valid=(%d - i2 - r0 >= 0 and %d - i3 - r1 >= 0 and i2 + r0 - 1 >= 0 and"
             " i3 + r1 - 1 >= 0)])\n"
             "            }\n          }\n"
             "          a0[144*i0 + 9*i1 + 3*i2 + i3] = t0[0]\n        }\n      }\n    }\n  }\n}\n",
             16 * n * n, 16 * n * n, n, n, n * n, n, n * n, n, n, n + 1, n, n);
    return text;
}

/* Loops whose trips vary. */
static int varying(const kernel *k) {
    int n = 0;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
        n += ir_s(k, s)->kind == STMT_LOOP && !sym_is_const(k->syms, ir_s(k, s)->l.extent, NULL);
    return n;
}

static void rows_of_images_are_cut_into_equal_parts(void) {
    static const int sizes[] = {128, 132, 136, 144, 150, 160, 176, 192, 208,
                                224, 240, 256, 288, 320, 129, 131, 149, 257};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const int n = sizes[i];
        bool none = n % 2; /* that divides the rows and is near */
        char text[1024];
        kernel *k = parse(weights_of(n, text, sizeof text)), *first;
        split_part part[SPLIT_PARTS];
        CHECK_INT(split_reduction(k, &first, part), 1);
        if (varying(first) != none) FAIL("%d rows are in unequal parts", n);
        ir_close(first);
        ir_close(k);
    }
}

/* Also where the last part is shorter: its loop is no constant then. */
static void parts_of_a_convolution_are_scheduled_as_one(void) {
    static const int sizes[] = {136, 144, 131, 149, 257};
    const char *name;
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int f = 0; machine_family(f, &name, NULL); f++) {
            char text[1024];
            machine m = machine_of_family(f);
            kernel *k = parse(weights_of(sizes[i], text, sizeof text)), *first;
            split_part part[SPLIT_PARTS];
            str lines;
            str_open(&lines, &ctx.heap);
            split_reduction(k, &first, part);
            schedule_group_sums(first, &m);
            schedule_counts n = schedule_default(first, &m, &lines);
            CHECK(n.proposed > 0 && !n.dropped);
            if (!lines.s || !strstr(lines.s, "accumulate t1 mr"))
                FAIL("%s, images of %d: no register tile", name, sizes[i]);
            ir_close(first);
            ir_close(k);
            str_free(&lines);
        }
}

static void all(void) {
    RUN(few_results_of_much_are_made_in_two_stages);
    RUN(what_comes_before_and_after_is_kept);
    RUN(the_first_largest_and_nan_win_across_parts);
    RUN(deep_products_of_few_rows_and_columns_are_made_in_two_stages);
    RUN(deep_products_of_bytes_are_made_in_two_stages);
    RUN(threads_change_no_bit_of_a_product);
    RUN(readers_run_after_the_last_stage);
    RUN(threads_change_no_bit_of_a_sum);
    RUN(what_no_loop_can_be_cut_into_stays_whole);
    RUN(rows_of_images_are_cut_into_equal_parts);
    RUN(parts_of_a_convolution_are_scheduled_as_one);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
