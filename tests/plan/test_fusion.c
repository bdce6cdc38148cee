/* test_fusion.c - how many kernels well-known graphs become. Counted on the null device, which
 * plans and checks everything and runs nothing; the counts are what the design promises, the values
 * are other tests' business. */
#include "quern.h"
#include "test.h"

static qn_ctx *qn;

static qn_tensor *param(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *zero = calloc((size_t)n + 1, sizeof *zero);
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, zero);
    free(zero);
    return t;
}

static qn_tensor *matrix(int64_t r, int64_t c) {
    return param(2, (int64_t[]){r, c});
}

/* Kernels launched to compute these tensors in one request. */
static int kernels(int n, qn_tensor **t) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    int code = qn_realize(n, t);
    qn_get_stats(qn, &b, sizeof b);
    if (code) FAIL("realize: %s", qn_error(qn));
    qn_clear_error(qn);
    return (int)(b.kernels - a.kernels);
}

static int kernels1(qn_tensor *t) {
    return kernels(1, &t);
}

static void a_chain_of_twenty_elementwise_ops_is_one_kernel(void) {
    qn_tensor *x = matrix(100, 37), *y = x;
    for (int i = 0; i < 5; i++) y = qn_tanh(qn_add(qn_mul(y, x), qn_exp(y)));
    CHECK_INT(kernels1(y), 1);
}

static void softmax_is_one_kernel_on_any_axis(void) {
    qn_tensor *x = param(3, (int64_t[]){5, 17, 33});
    for (int axis = 0; axis < 3; axis++) CHECK_INT(kernels1(qn_softmax(x, axis)), 1);
}

/* Exponentials written in a kernel as it is scheduled, by the compiler's own account. */
static int exps;
static bool scheduled;
static void count_exps(void *user, const char *line) {
    (void)user;
    if (!strncmp(line, "k after ", 8)) scheduled = !strcmp(line, "k after schedule");
    for (const char *at = line; scheduled && (at = strstr(at, "exp(")); at++) exps++;
}

/* Of few rows, which are not made in stages with copies of the formula. */
static void softmax_holds_its_exponentials_in_a_tile(void) {
    qn_ctx *own = qn_open(&QN_OPTIONS(.device = "null", .log = count_exps));
    qn_set(own, "debug", "k");
    float *zero = calloc(8 * 1024, sizeof *zero);
    qn_tensor *y = qn_softmax(qn_from(own, QN_F32, 2, (int64_t[]){8, 1024}, zero), 1);
    exps = 0;
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(exps, 1);
    qn_close(own);
    free(zero);
}

/* Parallel loops of the kernels as they are scheduled. */
static int pars;
static void count_pars(void *user, const char *line) {
    (void)user;
    if (!strncmp(line, "k after ", 8)) scheduled = !strcmp(line, "k after schedule");
    pars += scheduled && !strncmp(line, "  par ", 6);
}

static qn_tensor *negated(qn_tensor *x, qn_tensor *y) {
    return qn_neg(qn_add(qn_reshape(x, 1, (int64_t[]){-1}), qn_like(y, 1)));
}
static qn_tensor *stepped(qn_tensor *x, qn_tensor *y) {
    qn_tensor *m = qn_add(qn_mul(x, qn_like(x, 0.9)), y);
    return qn_sub(x, qn_div(m, qn_add(qn_sqrt(qn_square(m)), qn_like(x, 1e-8))));
}
static qn_tensor *with_a_bias(qn_tensor *x, qn_tensor *y) {
    return qn_add(x, qn_slice(y, 0, 0, 1, 1));
}
static qn_tensor *transposed(qn_tensor *x, qn_tensor *y) {
    return qn_contiguous(qn_transpose(qn_add(x, y), 0, 1));
}
static qn_tensor *softened(qn_tensor *x, qn_tensor *y) {
    return qn_softmax(qn_mul(x, y), 1);
}
static qn_tensor *softened_down(qn_tensor *x, qn_tensor *y) {
    return qn_softmax(qn_mul(x, y), 0);
}
static qn_tensor *summed(qn_tensor *x, qn_tensor *y) {
    return qn_sum(qn_reshape(qn_mul(x, y), 1, (int64_t[]){-1}), 0, false);
}
static qn_tensor *summed_down(qn_tensor *x, qn_tensor *y) {
    return qn_sum(qn_mul(x, y), 0, false);
}
static qn_tensor *multiplied(qn_tensor *x, qn_tensor *y) {
    return qn_matmul(x, qn_transpose(y, 0, 1));
}

/* Where one row is put among many, as into a cache of keys, the trips that go past it would
 * compute it, too: it is a kernel of its own, on each axis. A row that costs nothing is not. */
static void a_product_put_into_a_place_is_computed_once(void) {
    for (int axis = 0; axis < 3; axis++) {
        int64_t shape[] = {4, 4, 4}, small[] = {4, 4, 4}, start[] = {0, 0, 0};
        shape[axis] = 256;
        small[axis] = 1;
        start[axis] = 17;
        qn_tensor *x = matrix(1, 768), *w = matrix(768, 16), *cache = param(3, shape);
        qn_tensor *row = qn_reshape(qn_matmul(x, w), 3, small);
        CHECK_INT(kernels1(qn_update_slice(cache, row, start)), 2);
        CHECK_INT(kernels1(qn_update_slice(cache, qn_neg(param(3, small)), start)), 1);
    }
}

/* What few rows share is made in the product, a vector at a time; a row's own terms would, of few
 * columns, be made one by one there. */
static void a_product_of_few_rows_makes_its_columns(void) {
    qn_tensor *few = matrix(8, 512), *many = matrix(1000, 512);
    CHECK_INT(kernels1(qn_matmul(few, qn_transpose(qn_exp(many), 0, 1))), 1);
    CHECK_INT(kernels1(qn_matmul(matrix(40, 512), qn_transpose(qn_exp(many), 0, 1))), 2);
    CHECK_INT(kernels1(qn_matmul(qn_gelu(many), matrix(512, 8))), 2);
    CHECK_INT(kernels1(qn_matmul(qn_gelu(many), qn_transpose(few, 0, 1))), 2);
}

/* Where the schedule would not go along the sum, or not share, what is made of columns is stored:
 * windows, memory strided along the sum or read by places, a long epilogue, results by heads. */
static void what_few_rows_cannot_share_is_stored(void) {
    qn_tensor *few = matrix(8, 512), *many = matrix(1000, 512), *wide = matrix(512, 1000);
    qn_tensor *image = param(4, (int64_t[]){2, 16, 20, 20});
    qn_tensor *window = param(4, (int64_t[]){8, 16, 3, 3});
    CHECK_INT(kernels1(qn_conv2d(qn_gelu(image), window, NULL, NULL)), 2);
    CHECK_INT(kernels1(qn_matmul(few, qn_exp(wide))), 2);
    CHECK_INT(kernels1(qn_matmul(few, qn_transpose(qn_exp(qn_transpose(wide, 0, 1)), 0, 1))), 2);
    qn_tensor *places = qn_cast(qn_slice(matrix(1, 512), 0, 0, 1, 1), QN_I64);
    qn_tensor *moved = qn_take(many, qn_reshape(places, 1, (int64_t[]){512}), 1);
    CHECK(kernels1(qn_matmul(few, qn_transpose(qn_exp(moved), 0, 1))) >= 2);
    qn_tensor *y = qn_matmul(matrix(8, 64), qn_transpose(qn_exp(matrix(1000, 64)), 0, 1));
    for (int i = 0; i < 10; i++) y = qn_tanh(qn_add(y, qn_like(y, i)));
    CHECK_INT(kernels1(y), 2);
    y = qn_matmul(few, qn_transpose(qn_exp(many), 0, 1));
    y = qn_permute(qn_reshape(y, 3, (int64_t[]){8, 10, 100}), 3, (int[]){1, 0, 2});
    CHECK(kernels1(qn_contiguous(y)) >= 2);
}

static qn_tensor *places(int64_t n) {
    int64_t zero[64] = {0};
    return qn_from(qn, QN_I64, 1, &n, zero);
}

/* Views of memory are no copies, whichever way they go through it: marks, slices, axes in another
 * order or backwards, axes that were one or become one. */
static void what_is_gathered_is_read_where_it_is(void) {
    qn_tensor *x = param(3, (int64_t[]){8, 32, 16}), *i = places(5);
    CHECK_INT(kernels1(qn_take(qn_detach(x), i, 1)), 1);
    CHECK_INT(kernels1(qn_take(qn_slice(x, 1, 3, 20, 2), i, 1)), 1);
    CHECK_INT(kernels1(qn_take(qn_slice(x, 2, 3, 9, 1), i, 0)), 1);
    CHECK_INT(kernels1(qn_take(qn_flip(x, 1), i, 1)), 1);
    CHECK_INT(kernels1(qn_take(qn_transpose(x, 0, 1), i, 0)), 1);
    CHECK_INT(kernels1(qn_take(qn_transpose(x, 1, 2), i, 0)), 1);
    CHECK_INT(kernels1(qn_take(qn_reshape(x, 2, (int64_t[]){8 * 32, 16}), i, 0)), 1);
    qn_tensor *rooms = qn_reshape(x, 4, (int64_t[]){8, 4, 8, 16});
    CHECK_INT(kernels1(qn_take(rooms, i, 1)), 1);
    CHECK_INT(kernels1(qn_take(qn_slice(rooms, 2, 1, 5, 1), i, 1)), 1);
    CHECK_INT(
        kernels1(qn_take(qn_reshape(qn_slice(x, 1, 0, 16, 1), 4, (int64_t[]){8, 2, 8, 16}), i, 1)),
        1);
}

/* What is no view of memory, or is read through several axes of it, or across its rows more than
 * once, is stored first. */
static void what_is_gathered_is_in_memory(void) {
    qn_tensor *x = param(3, (int64_t[]){8, 32, 16}), *i = places(5), *many = places(64);
    CHECK_INT(kernels1(qn_take(qn_neg(x), i, 1)), 2);
    CHECK_INT(kernels1(qn_take(qn_slice(qn_neg(x), 1, 3, 20, 1), i, 1)), 2);
    CHECK_INT(kernels1(qn_take(qn_pad(x, (int64_t[]){0, 0, 1, 1, 0, 0}, QN_PAD_CONSTANT, 0), i, 1)),
              2);
    qn_tensor *both = qn_reshape(qn_slice(x, 1, 0, 16, 1), 2, (int64_t[]){8 * 16, 16});
    CHECK_INT(kernels1(qn_take(both, i, 0)), 2);
    CHECK_INT(kernels1(qn_take(qn_transpose(x, 1, 2), many, 0)), 2);
}

/* Rows that were scattered into a cache are read there, by whatever view of it. */
static void what_was_assigned_is_gathered_where_it_is(void) {
    qn_tensor *cache = param(3, (int64_t[]){4, 64, 16}), *i = places(3);
    CHECK_INT(qn_realize(1, &cache), QN_OK);
    CHECK_INT(qn_assign(cache, qn_index_copy(cache, i, param(3, (int64_t[]){4, 3, 16}), 1)), QN_OK);
    qn_tensor *rooms = qn_reshape(cache, 4, (int64_t[]){4, 8, 8, 16});
    CHECK_INT(kernels1(qn_take(qn_slice(rooms, 2, 0, 5, 1), i, 1)), 2);
}

/* Pages of columns are read by the product where they are; of many rows, or of rows that lie along
 * the sum, they are put together first. */
static void a_product_of_few_rows_reads_pages(void) {
    qn_tensor *pages = param(4, (int64_t[]){5, 40, 64, 32}), *i = places(8);
    qn_tensor *few = param(4, (int64_t[]){5, 1, 4, 64}),
              *many = param(4, (int64_t[]){5, 1, 512, 64});
    qn_tensor *halves = qn_cast(pages, QN_F16);
    CHECK_INT(qn_realize(1, &halves), QN_OK);
    CHECK_INT(kernels1(qn_matmul(few, qn_take(pages, i, 1))), 1);
    CHECK_INT(kernels1(qn_matmul(few, qn_cast(qn_take(halves, i, 1), QN_F32))), 1);
    CHECK(kernels1(qn_matmul(many, qn_take(pages, i, 1))) >= 2);
    qn_tensor *along = qn_take(param(4, (int64_t[]){5, 40, 32, 64}), i, 1);
    CHECK(kernels1(qn_matmul(few, qn_transpose(along, 2, 3))) >= 2);
}

/* Whatever is large is shared out among threads, flat kernels of any size too. */
static void large_kernels_are_parallel(void) {
    static const struct {
        const char *name;
        qn_tensor *(*make)(qn_tensor *x, qn_tensor *y);
    } cases[] = {
        {"negated", negated},       {"stepped", stepped},         {"with_a_bias", with_a_bias},
        {"transposed", transposed}, {"softened", softened},       {"softened_down", softened_down},
        {"summed", summed},         {"summed_down", summed_down}, {"multiplied", multiplied},
    };
    static const int64_t sizes[][2] = {{1024, 1024}, {1021, 1031}, {2048, 1500}};
    enum { CASES = sizeof cases / sizeof *cases, SIZES = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < SIZES * CASES; i++) {
        const int64_t *size = sizes[i / CASES];
        qn_ctx *own = qn_open(&QN_OPTIONS(.device = "null", .log = count_pars));
        float *zero = calloc((size_t)(size[0] * size[1]), sizeof *zero);
        qn_tensor *x = qn_from(own, QN_F32, 2, size, zero),
                  *y = qn_from(own, QN_F32, 2, size, zero);
        free(zero);
        qn_set(own, "debug", "k");
        pars = 0;
        qn_tensor *z = cases[i % CASES].make(x, y);
        CHECK_INT(qn_realize(1, &z), QN_OK);
        if (!pars) FAIL("%s of %d", cases[i % CASES].name, (int)size[0]);
        qn_close(own);
    }
}

static void log_softmax_is_one_kernel(void) {
    CHECK_INT(kernels1(qn_log_softmax(matrix(64, 100), -1)), 1);
}

static void layer_norm_is_one_kernel(void) {
    qn_tensor *g = param(1, (int64_t[]){128}), *b = param(1, (int64_t[]){128});
    CHECK_INT(kernels1(qn_layer_norm(matrix(64, 128), g, b, 1e-5)), 1);
}

static void rms_norm_is_one_kernel(void) {
    CHECK_INT(kernels1(qn_rms_norm(matrix(64, 128), param(1, (int64_t[]){128}), 1e-5)), 1);
}

static void cross_entropy_forward_is_one_kernel(void) {
    int32_t label[64] = {0};
    qn_tensor *l = qn_from(qn, QN_I32, 1, (int64_t[]){64}, label);
    CHECK_INT(kernels1(qn_cross_entropy(matrix(64, 100), l)), 1);
}

static void matmul_bias_gelu_is_one_kernel(void) {
    qn_tensor *y = qn_add(qn_matmul(matrix(64, 96), matrix(96, 80)), param(1, (int64_t[]){80}));
    CHECK_INT(kernels1(qn_gelu(y)), 1);
    y = qn_linear(matrix(64, 96), matrix(80, 96), param(1, (int64_t[]){80}));
    CHECK_INT(kernels1(qn_gelu_tanh(y)), 1);
}

/* What is narrow in memory is converted where the product packs it. */
static void a_product_of_narrow_operands_is_one_kernel(void) {
    qn_tensor *x = qn_cast(matrix(64, 96), QN_BF16), *y = qn_cast(matrix(96, 80), QN_BF16);
    qn_realize(2, (qn_tensor *[]){x, y});
    CHECK_INT(kernels1(qn_matmul(x, y)), 1);
    CHECK_INT(kernels1(qn_matmul(qn_cast(x, QN_F32), qn_cast(y, QN_F32))), 1);
}

/* Between forward and backward stands what the next layer reads, and nothing else. */
static void a_relu_keeps_its_result_for_the_gradient(void) {
    enum { ROWS = 128, COLUMNS = 256 };
    qn_tensor *w[2] = {matrix(COLUMNS, COLUMNS), matrix(COLUMNS, COLUMNS)}, *y[3];
    qn_tensor *h = qn_relu(qn_matmul(matrix(ROWS, COLUMNS), w[0]));
    y[2] = qn_sum_axes(qn_exp(qn_matmul(h, w[1])), 2, (int[]){0, 1}, false);
    CHECK_INT(qn_grad(y[2], NULL, 2, w, y), QN_OK);
    CHECK(kernels(3, y) > 0);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    CHECK_INT(s.planned_peak_bytes, 3 * ROWS * COLUMNS * sizeof(float)); /* h, exp, its gradient */
}

static void movement_between_elementwise_ops_adds_no_kernel(void) {
    qn_tensor *x = param(3, (int64_t[]){4, 6, 10});
    qn_tensor *y = qn_exp(qn_permute(qn_exp(x), 3, (int[]){2, 0, 1}));
    y = qn_reshape(y, 2, (int64_t[]){20, 12});
    y = qn_add(qn_flip(y, 1),
               qn_slice(qn_pad(y, (int64_t[]){2, 2, 0, 0}, QN_PAD_CONSTANT, 1), 0, 1, 21, 1));
    CHECK_INT(kernels1(y), 1);
}

/* One AdamW step of 40 parameters of assorted shapes from given gradients, all written back. */
static void adamw_over_forty_parameters_is_at_most_four_kernels(void) {
    enum { N = 40 };
    qn_tensor *p[N], *m[N], *v[N], *all[3 * N];
    float one = 1;
    qn_tensor *step = qn_from(qn, QN_F32, 0, NULL, &one);
    qn_tensor *c1 = qn_sub(qn_like(step, 1), qn_pow(qn_like(step, 0.9), step));
    qn_tensor *c2 = qn_sub(qn_like(step, 1), qn_pow(qn_like(step, 0.999), step));
    for (int i = 0; i < N; i++) {
        int64_t shape[] = {3 + i, 5 + i % 7};
        int rank = 1 + i % 2;
        p[i] = param(rank, shape), m[i] = param(rank, shape), v[i] = param(rank, shape);
        qn_tensor *g = param(rank, shape);
        qn_tensor *mi = qn_add(qn_mul(m[i], qn_like(g, 0.9)), qn_mul(g, qn_like(g, 0.1)));
        qn_tensor *vi =
            qn_add(qn_mul(v[i], qn_like(g, 0.999)), qn_mul(qn_square(g), qn_like(g, 0.001)));
        qn_tensor *d = qn_div(qn_div(mi, c1), qn_add(qn_sqrt(qn_div(vi, c2)), qn_like(g, 1e-8)));
        d = qn_add(d, qn_mul(p[i], qn_like(g, 0.01)));
        qn_tensor *pi = qn_sub(p[i], qn_mul(d, qn_like(g, 1e-3)));
        qn_assign(m[i], mi);
        qn_assign(v[i], vi);
        qn_assign(p[i], pi);
        all[3 * i] = p[i], all[3 * i + 1] = m[i], all[3 * i + 2] = v[i];
    }
    int n = kernels(3 * N, all);
    if (n > 4) FAIL("AdamW over 40 parameters took %d kernels", n);
    CHECK(n >= 1);
}

/* The kernels of a step of momentum, p and its state written back. */
static int momentum_step(qn_tensor *p, qn_tensor *gradient) {
    int rank = qn_rank(p);
    int64_t shape[4];
    for (int i = 0; i < rank; i++) shape[i] = qn_dim(p, i);
    qn_tensor *v = param(rank, shape), *both[] = {p, v};
    qn_tensor *next = qn_add(qn_mul(v, qn_like(v, 0.9)), gradient);
    qn_assign(v, next);
    qn_assign(p, qn_sub(p, qn_mul(next, qn_like(p, 0.01))));
    return kernels(2, both);
}

/* The places of a weight lie contiguous, and vectors go along its channels: what an optimizer loads
 * and stores would be accessed lane by lane. A product's results come by rows. */
static void a_gradient_is_stored_where_its_optimizer_would_go_lane_by_lane(void) {
    qn_tensor *x = param(4, (int64_t[]){8, 64, 8, 8}), *w = param(4, (int64_t[]){64, 64, 3, 3}), *d;
    qn_tensor *g = param(4, (int64_t[]){8, 64, 8, 8});
    CHECK_INT(qn_grad(qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1})), g,
                      1, &w, &d),
              QN_OK);
    CHECK_INT(momentum_step(w, d), 2);
    CHECK_INT(qn_grad(qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1})), g,
                      1, &w, &d),
              QN_OK);
    CHECK_INT(kernels1(qn_mul(d, qn_like(d, 0.5))), 1);
    qn_tensor *one = param(4, (int64_t[]){64, 64, 1, 1});
    CHECK_INT(qn_grad(qn_conv2d(x, one, NULL, NULL), g, 1, &one, &d), QN_OK);
    CHECK_INT(momentum_step(one, d), 1);
    for (int turned = 0; turned < 2; turned++) {
        qn_tensor *y = matrix(48, 200), *u = turned ? matrix(300, 200) : matrix(200, 300);
        qn_tensor *z = turned ? qn_matmul(y, qn_permute(u, 2, (int[]){1, 0})) : qn_matmul(y, u);
        CHECK_INT(qn_grad(z, matrix(48, 300), 1, &u, &d), QN_OK);
        CHECK_INT(momentum_step(u, d), 1);
    }
}

static void a_product_used_twice_is_computed_once(void) {
    qn_tensor *h = qn_matmul(matrix(64, 96), matrix(96, 80));
    qn_tensor *both[] = {qn_relu(h), qn_sum(h, QN_ALL, false)};
    int n = kernels(2, both);
    CHECK(n >= 2 && n <= 3);
}

/* Products that are stored as they are, by the planner's own account. */
static int bare;
static void count_bare(void *user, const char *line) {
    (void)user;
    bare += !strncmp(line, "f kernel", 8) && strstr(line, ": sum_product");
}

/* What is read again and again, as a strided window reads it, is not computed there from a product
 * that was stored as it is: it is stored in the product's place, however its ways part and meet.
 * A product that is asked for itself is stored in any case. */
static void what_is_made_of_a_product_alone_is_stored_in_its_place(void) {
    qn_ctx *own = qn_open(&QN_OPTIONS(.device = "null", .log = count_bare));
    qn_set(own, "debug", "f");
    static float zero[64 * 64 * 64];
    qn_tensor *x = qn_from(own, QN_F32, 4, (int64_t[]){1, 16, 56, 56}, zero);
    qn_tensor *w = qn_from(own, QN_F32, 4, (int64_t[]){64, 16, 1, 1}, zero);
    qn_tensor *b = qn_from(own, QN_F32, 1, (int64_t[]){64}, zero);
    qn_tensor *d = qn_from(own, QN_F32, 4, (int64_t[]){64, 1, 3, 3}, zero);
    const qn_conv_options strided =
        QN_CONV_OPTIONS(.stride = {2, 2}, .before = {1, 1}, .after = {1, 1}, .groups = 64);
    for (int i = 0; i < 3; i++) {
        qn_tensor *y = qn_conv(x, w, i < 2 ? b : NULL, NULL);
        qn_tensor *a = i == 1 ? qn_hardswish(y) : qn_relu(y);
        qn_tensor *out[2] = {qn_relu(qn_conv(a, d, b, &strided)), y};
        bare = 0;
        CHECK_INT(qn_realize(i < 2 ? 1 : 2, out), QN_OK);
        CHECK_INT(bare, i < 2 ? 0 : 1);
    }
    qn_close(own);
}

static void without_fusion_every_operation_is_a_kernel(void) {
    qn_set(qn, "fuse", "0");
    qn_tensor *x = matrix(8, 8), *y = qn_exp(qn_neg(qn_tanh(x)));
    CHECK_INT(kernels1(y), 3);
    qn_set(qn, "fuse", "1");
}

static void scoped(void (*fn)(void)) {
    qn_stats before, after;
    qn_get_stats(qn, &before, sizeof before);
    qn_scope s = qn_scope_begin(qn);
    fn();
    qn_scope_end(qn, s);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.nodes, before.nodes);
    CHECK_INT(after.handles, before.handles);
    CHECK_INT(after.buffers, before.buffers);
}

#define SCOPED(fn)                                                                                 \
    static void scoped_##fn(void) {                                                                \
        scoped(fn);                                                                                \
    }
SCOPED(a_chain_of_twenty_elementwise_ops_is_one_kernel)
SCOPED(softmax_is_one_kernel_on_any_axis)
SCOPED(log_softmax_is_one_kernel)
SCOPED(layer_norm_is_one_kernel)
SCOPED(rms_norm_is_one_kernel)
SCOPED(cross_entropy_forward_is_one_kernel)
SCOPED(matmul_bias_gelu_is_one_kernel)
SCOPED(a_product_of_narrow_operands_is_one_kernel)
SCOPED(a_relu_keeps_its_result_for_the_gradient)
SCOPED(movement_between_elementwise_ops_adds_no_kernel)
SCOPED(adamw_over_forty_parameters_is_at_most_four_kernels)
SCOPED(a_gradient_is_stored_where_its_optimizer_would_go_lane_by_lane)
SCOPED(a_product_used_twice_is_computed_once)
SCOPED(a_product_put_into_a_place_is_computed_once)
SCOPED(without_fusion_every_operation_is_a_kernel)

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(&QN_OPTIONS(.device = "null"));
    if (!qn) {
        printf("no null device\n0 passed, 1 failed, 0 skipped\n");
        return 1;
    }
    RUN(scoped_a_chain_of_twenty_elementwise_ops_is_one_kernel);
    RUN(scoped_softmax_is_one_kernel_on_any_axis);
    RUN(softmax_holds_its_exponentials_in_a_tile);
    RUN(a_product_of_few_rows_makes_its_columns);
    RUN(what_few_rows_cannot_share_is_stored);
    RUN(what_is_gathered_is_read_where_it_is);
    RUN(what_is_gathered_is_in_memory);
    RUN(what_was_assigned_is_gathered_where_it_is);
    RUN(a_product_of_few_rows_reads_pages);
    RUN(large_kernels_are_parallel);
    RUN(scoped_log_softmax_is_one_kernel);
    RUN(scoped_layer_norm_is_one_kernel);
    RUN(scoped_rms_norm_is_one_kernel);
    RUN(scoped_cross_entropy_forward_is_one_kernel);
    RUN(scoped_matmul_bias_gelu_is_one_kernel);
    RUN(scoped_a_product_of_narrow_operands_is_one_kernel);
    RUN(scoped_a_relu_keeps_its_result_for_the_gradient);
    RUN(scoped_movement_between_elementwise_ops_adds_no_kernel);
    RUN(scoped_adamw_over_forty_parameters_is_at_most_four_kernels);
    RUN(scoped_a_gradient_is_stored_where_its_optimizer_would_go_lane_by_lane);
    RUN(scoped_a_product_used_twice_is_computed_once);
    RUN(what_is_made_of_a_product_alone_is_stored_in_its_place);
    RUN(scoped_a_product_put_into_a_place_is_computed_once);
    RUN(scoped_without_fusion_every_operation_is_a_kernel);
    qn_close(qn);
    return test_end();
}
