/* test_errors.c - bad use gives an error that names the operation, the shapes or values, and the
 * user's line; never a crash, and the context works on afterwards. */
#include "quern_nn.h"
#include "test.h"

static qn_ctx *qn;

static qn_tensor *matrix(int64_t r, int64_t c) {
    float *zero = calloc((size_t)(r * c) + 1, sizeof *zero);
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){r, c}, zero);
    free(zero);
    return t;
}

/* The call failed with this code and every one of these words in the text. */
static void expect(int line, qn_code code, const char *a, const char *b, const char *c) {
    const char *words[] = {a, b, c};
    if (qn_error_code(qn) != code)
        FAIL("line %d: code %d, expected %d (%s)", line, qn_error_code(qn), code, qn_error(qn));
    for (int i = 0; i < 3; i++)
        if (words[i] && !strstr(qn_error(qn), words[i]))
            FAIL("line %d: \"%s\" is not in \"%s\"", line, words[i], qn_error(qn));
    qn_clear_error(qn);
}
#define EXPECT(code, a, b, c) expect(__LINE__, code, a, b, c)

static void shapes_that_do_not_fit_are_named_with_the_operation(void) {
    CHECK(!qn_add(matrix(2, 3), matrix(4, 3)));
    EXPECT(QN_ESHAPE, "add", "[2, 3]", "[4, 3]");
    CHECK(!qn_matmul(matrix(2, 3), matrix(4, 5)));
    EXPECT(QN_ESHAPE, "matmul", "[2, 3]", "[4, 5]");
    CHECK(!qn_reshape(matrix(2, 3), 1, (int64_t[]){7}));
    EXPECT(QN_ESHAPE, "reshape", "[2, 3]", "[7]");
}

static void the_users_line_is_in_the_text(void) {
    qn_at(qn, "schedule/schedule.c", 42);
    CHECK(!qn_add(matrix(2, 3), matrix(4, 3)));
    EXPECT(QN_ESHAPE, "schedule/schedule.c:42", "add", NULL);
    qn_at(qn, NULL, 0);
}

static void the_first_error_stays(void) {
    CHECK(!qn_add(matrix(2, 3), matrix(4, 3)));
    CHECK(!qn_matmul(matrix(2, 3), matrix(4, 5)));
    EXPECT(QN_ESHAPE, "add", NULL, NULL);
}

static void wrong_dtypes_are_errors(void) {
    int32_t one = 1;
    qn_tensor *i = qn_from(qn, QN_I32, 0, NULL, &one);
    CHECK(!qn_shl(matrix(1, 1), i));
    EXPECT(QN_EDTYPE, "shl", NULL, NULL);
    CHECK(!qn_embedding(matrix(4, 4), matrix(1, 1)));
    EXPECT(QN_EDTYPE, NULL, NULL, NULL);
    CHECK(!qn_from(qn, (qn_dtype)99, 0, NULL, &one));
    EXPECT(QN_EDTYPE, "from", "99", NULL);
}

static void what_is_no_dtype_is_an_error_everywhere(void) {
    static const int none[] = {-1, 31, 34, 99, INT32_MIN, INT32_MAX};
    const int64_t shape[2] = {2, 3};
    qn_tensor *key = qn_key(qn, 1), *x = matrix(2, 3);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const qn_dtype d = (qn_dtype)none[i];
        qn_tensor *made[] = {qn_arange(qn, d, 0, 4, 1),
                             qn_arange_int(qn, d, 0, 4, 1),
                             qn_linspace(qn, d, 0, 4, 5),
                             qn_iota(qn, d, 2, shape, 0),
                             qn_eye(qn, d, 2, 3),
                             qn_scalar(qn, d, 1),
                             qn_scalar_int(qn, d, 1),
                             qn_full(qn, d, 2, shape, 1),
                             qn_full_int(qn, d, 2, shape, 1),
                             qn_zeros(qn, d, 2, shape),
                             qn_uniform(key, d, 2, shape),
                             qn_randn(key, d, 2, shape),
                             qn_randint(key, d, 2, shape, 0, 4),
                             qn_exponential(key, d, 2, shape),
                             qn_gumbel(key, d, 2, shape),
                             qn_kaiming_normal(key, d, 2, shape, 1),
                             qn_one_hot(qn_cast(x, QN_I32), 4, d),
                             qn_cast(x, d),
                             qn_bitcast(x, d),
                             qn_view(x, d)};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++)
            if (made[k]) FAIL("call %zu takes dtype %d", k, none[i]);
        EXPECT(QN_EDTYPE, "arange", NULL, NULL);
        CHECK(!qn_sum_as(x, 1, (const int[]){-1}, d, false));
        EXPECT(QN_EDTYPE, "sum", NULL, NULL);
    }
}

static void offsets_far_away_are_errors(void) {
    static const int64_t far[] = {(int64_t)1 << 30, (int64_t)1 << 33,    (int64_t)1 << 39,
                                  INT64_MAX,        -((int64_t)1 << 30), -((int64_t)1 << 39),
                                  INT64_MIN};
    const int64_t shape[3] = {70, 70, 3};
    qn_tensor *x = qn_ones(qn, QN_F32, 3, shape);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        CHECK(!qn_diag_embed(x, far[i]));
        CHECK(qn_error_code(qn) != QN_OK);
        qn_clear_error(qn);
    }
}

static void null_gives_null_and_an_error(void) {
    CHECK(!qn_add(NULL, matrix(1, 1)));
    EXPECT(QN_ENULL, "add", NULL, NULL);
    CHECK(!qn_exp(NULL));
    CHECK(qn_read(NULL, NULL, 0) < 0);
    CHECK(!qn_softmax(NULL, 0));
    qn_clear_error(qn);
}

static void axes_out_of_range_are_errors(void) {
    CHECK(!qn_sum(matrix(2, 3), 2, false));
    EXPECT(QN_ERANGE, "sum", "2", NULL);
    CHECK(!qn_softmax(matrix(2, 3), -3));
    EXPECT(QN_ERANGE, NULL, "-3", NULL);
}

static void products_beyond_63_bits_are_errors(void) {
    int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40};
    CHECK(!qn_zeros(qn, QN_F32, 2, huge));
    EXPECT(QN_ERANGE, NULL, NULL, NULL);
    CHECK(!qn_from(qn, QN_F32, 2, huge, huge));
    EXPECT(QN_ERANGE, NULL, NULL, NULL);
    int64_t wide[] = {(int64_t)1 << 62};
    qn_tensor *x = qn_ones(qn, QN_F32, 1, wide);
    CHECK(qn_read(x, huge, sizeof huge) < 0);
    qn_clear_error(qn);
}

/* Of a result, if there is one, its values and its gradient, where they are few. */
static void try_values(qn_tensor *y, qn_tensor *x) {
    float few[64];
    qn_tensor *g = NULL;
    int64_t count = y ? 1 : 0;
    for (int i = 0; y && i < qn_rank(y); i++)
        count *= qn_dim(y, i) > 0 && qn_dim(y, i) < 8 ? qn_dim(y, i) : 0;
    if (!count || count > 64) return;
    qn_read(y, few, (size_t)count * sizeof *few);
    if (!qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &x, &g)) qn_read(g, few, sizeof few);
    qn_clear_error(qn);
}

/* The sanitizers say whether any of these overflows. */
static void numbers_at_the_ends_of_64_bits_are_fine_or_errors(void) {
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -((int64_t)1 << 62), -1,       0,
                                   1,         INT64_MAX / 2, INT64_MAX - 1,       INT64_MAX};
    enum { ENDS = sizeof ends / sizeof *ends };
    qn_ctx *was = qn;
    qn = qn_open(&QN_OPTIONS(.device = "ref")); /* which computes with places as they are */
    float *zero = calloc(64, sizeof *zero);
    qn_tensor *m = matrix(3, 4), *image = qn_from(qn, QN_F32, 4, (int64_t[]){1, 1, 4, 4}, zero);
    qn_tensor *w = qn_from(qn, QN_F32, 4, (int64_t[]){1, 1, 2, 2}, zero);
    qn_tensor *i = qn_iota(qn, QN_I64, 1, (int64_t[]){3}, 0), *key = qn_key(qn, 1);
    free(zero);
    for (int a = 0; a < ENDS; a++) {
        int64_t v = ends[a];
        for (int b = 0; b < ENDS; b++) {
            int64_t u = ends[b];
            for (int c = 0; c < ENDS; c++) try_values(qn_slice(m, 1, v, u, ends[c]), m);
            qn_pad(m, (int64_t[]){v, u, u, v}, QN_PAD_CONSTANT, 1);
            qn_pad(m, (int64_t[]){v, u, 0, 0}, QN_PAD_REFLECT, 0);
            try_values(qn_unfold(m, 1, v, u), m);
            qn_as_strided(m, 1, (int64_t[]){v}, (int64_t[]){u}, v);
            qn_randint(key, QN_I64, 1, (int64_t[]){2}, v, u);
            qn_bind(qn, v, u);
            qn_var(qn, "n", v, u);
            qn_eye(qn, QN_F32, v, u);
            for (int field = 0; field < 6; field++) {
                qn_conv_options o = QN_CONV_OPTIONS(.groups = field == 5 ? v : 0, .same = b % 2);
                int64_t *of[5] = {o.stride, o.dilation, o.before, o.after, o.extra};
                if (field < 5) of[field][0] = v, of[(field + 1) % 5][1] = u;
                try_values(qn_conv(image, w, NULL, &o), image);
                try_values(qn_conv_transpose(image, w, NULL, &o), image);
                try_values(qn_max_pool(image, (int64_t[]){2, u}, &o), image);
                try_values(qn_avg_pool(image, (int64_t[]){v, 2}, &o), image);
            }
        }
        qn_select(m, 0, v);
        qn_roll(m, 1, v);
        qn_diagonal(m, v);
        qn_triu(m, v);
        qn_tril(m, v);
        qn_repeat_interleave(m, 0, v);
        qn_tile(m, 2, (int64_t[]){v, 2});
        qn_one_hot(i, v, QN_F32);
        qn_group_norm(image, NULL, NULL, v, 1e-5);
        qn_linspace(qn, QN_F32, 0, 1, v);
        qn_conv2d(image, w, NULL,
                  &QN_CONV_OPTIONS(.stride = {v, v}, .dilation = {v, v}, .before = {v, v},
                                   .after = {v, v}, .groups = v));
        qn_reshape(m, 2, (int64_t[]){v, -1});
        qn_expand(m, 2, (int64_t[]){v, 4});
    }
    qn_clear_error(qn);
    CHECK_INT(qn_dim(qn_slice(m, 1, INT64_MIN, INT64_MAX - 1, 1), 1), 4);
    CHECK_INT(qn_dim(qn_slice(m, 1, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1), 1), 1);
    float v[12];
    CHECK_INT(qn_read(qn_roll(m, 1, INT64_MIN), v, sizeof v), QN_OK);
    qn_close(qn);
    qn = was;
}

static void sizes_of_variables_at_the_end_of_64_bits_are_fine(void) {
    int64_t n = qn_var(qn, "n", INT64_MAX - 3, INT64_MAX);
    CHECK(n != 0);
    qn_tensor *x = qn_zeros(qn, QN_F32, 1, &n);
    CHECK_INT(qn_dim(x, 0), n);
    qn_clear_error(qn);
}

/* Sanitizers end a program that asks for what no memory holds, where malloc says no. */
static void *take(void *user, size_t size, size_t align) {
    (void)user;
    return size >> 40 ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
}

static void give(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

/* A value of 2^63 bytes and more is an error wherever it would be made. */
static void values_too_large_for_any_memory_are_errors(void) {
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        qn_ctx *ctx = qn_open(&QN_OPTIONS(.alloc = take, .free = give, .device = devices[d]));
        for (int bits = 57; bits < 63; bits++) {
            int64_t n = (int64_t)1 << bits;
            qn_tensor *x = qn_ones(ctx, QN_F64, 1, &n);
            CHECK(qn_realize(1, &x) < 0);
            CHECK(qn_error_code(ctx) == QN_ENOMEM || qn_error_code(ctx) == QN_ERANGE);
            qn_clear_error(ctx);
            CHECK_STR(qn_format(x, 4), "");
            qn_clear_error(ctx);
            CHECK_INT(qn_read(x, &n, sizeof n), QN_ERANGE);
            qn_clear_error(ctx);
            qn_release(x);
            x = qn_ones(ctx, QN_F64, 3, (int64_t[]){1, 1, 4});
            qn_tensor *y =
                qn_max_pool(x, &n, &QN_CONV_OPTIONS(.before = {n / 2}, .after = {n / 2}));
            /* ref holds the windows; a compiled loop would only be long */
            CHECK(y && (d || qn_realize(1, &y) < 0));
            qn_clear_error(ctx);
            qn_release(y);
            qn_release(x);
        }
        qn_close(ctx);
    }
}

static void an_array_of_nothing_is_short_however_long(void) {
    const int64_t huge[2] = {(int64_t)1 << 60, 0};
    CHECK_STR(qn_format(qn_zeros(qn, QN_F32, 2, huge), 0), "[] f32[1152921504606846976, 0]");
    CHECK_STR(qn_format(qn_zeros(qn, QN_F32, 2, (int64_t[]){2, 0}), INT32_MAX), "[] f32[2, 0]");
}

static void layers_that_are_null_are_errors(void) {
    qn_tensor *x = matrix(2, 2);
    CHECK(!qn_layer_forward(NULL, x));
    EXPECT(QN_ENULL, "layer_forward", "layer", "NULL");
}

static void negative_sizes_and_ranks_are_errors(void) {
    float one = 1;
    CHECK(!qn_from(qn, QN_F32, 1, (int64_t[]){-1}, &one));
    CHECK(qn_error_code(qn) != QN_OK);
    qn_clear_error(qn);
    int64_t ones[QN_MAX_RANK + 1];
    for (int i = 0; i <= QN_MAX_RANK; i++) ones[i] = 1;
    CHECK(!qn_from(qn, QN_F32, QN_MAX_RANK + 1, ones, &one));
    CHECK(qn_error_code(qn) != QN_OK);
    qn_clear_error(qn);
    CHECK(!qn_from(qn, QN_F32, -1, NULL, &one));
    CHECK(qn_error_code(qn) != QN_OK);
    qn_clear_error(qn);
    CHECK(!qn_from(qn, QN_F32, 1, (int64_t[]){4}, NULL));
    EXPECT(QN_ENULL, "from", NULL, NULL);
}

static void reading_into_a_short_buffer_writes_nothing(void) {
    float out[6] = {7, 7, 7, 7, 7, 7};
    CHECK_INT(qn_read(matrix(2, 3), out, 5 * sizeof *out), QN_ERANGE);
    for (int i = 0; i < 6; i++) CHECK(out[i] == 7);
    EXPECT(QN_ERANGE, "read", "24", "20");
    CHECK_INT(qn_read(matrix(2, 3), out, sizeof out), QN_OK);
    CHECK(out[5] == 0);
}

static void assigning_another_shape_or_dtype_is_an_error(void) {
    qn_tensor *x = matrix(2, 3);
    CHECK_INT(qn_assign(x, matrix(3, 2)), QN_ESHAPE);
    EXPECT(QN_ESHAPE, "assign", "[2, 3]", "[3, 2]");
    CHECK_INT(qn_assign(x, qn_cast(x, QN_F64)), QN_EDTYPE);
    EXPECT(QN_EDTYPE, "assign", "f32", "f64");
    CHECK_INT(qn_write(x, "", 1), QN_ERANGE);
    EXPECT(QN_ERANGE, "write", "24", "1");
}

static void an_unknown_device_opens_nothing(void) {
    CHECK(!qn_open(&QN_OPTIONS(.device = "abacus")));
}

static void tensors_of_another_context_are_errors(void) {
    qn_ctx *other = qn_open(&QN_OPTIONS(.device = "ref"));
    float one = 1;
    qn_tensor *foreign = qn_from(other, QN_F32, 0, NULL, &one);
    CHECK(!qn_add(matrix(1, 1), foreign));
    EXPECT(QN_EGRAPH, "add", NULL, NULL);
    qn_close(other);
}

static void unknown_knobs_and_bad_values_are_errors(void) {
    CHECK(qn_set(qn, "speed", "11") < 0);
    EXPECT(QN_EARG, "speed", NULL, NULL);
    CHECK(qn_set(qn, "tune", "many") < 0);
    EXPECT(QN_EARG, "many", NULL, NULL);
}

static void a_gradient_without_history_is_an_error(void) {
    qn_tensor *x = matrix(2, 2), *y = qn_mul(x, x), *g = NULL;
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(qn_assign(x, matrix(2, 2)), QN_OK);
    CHECK_INT(qn_realize(1, &x), QN_OK);
    CHECK(qn_grad(y, NULL, 1, &x, &g) < 0);
    EXPECT(QN_EGRAPH, "grad", "f32[2, 2]: the value it had before it was assigned to", NULL);
}

static void the_context_works_after_errors(void) {
    float v = 0;
    qn_tensor *s = qn_sum(qn_add(matrix(2, 2), qn_ones(qn, QN_F32, 0, NULL)), QN_ALL, false);
    CHECK_INT(qn_read(s, &v, sizeof v), QN_OK);
    CHECK(v == 4);
    CHECK_STR(qn_error(qn), "");
}

static void with_scope(const char *name, void (*fn)(void)) {
    (void)name;
    qn_scope s = qn_scope_begin(qn);
    fn();
    qn_scope_end(qn, s);
    qn_clear_error(qn);
}

#define TESTS(T)                                                                                   \
    T(shapes_that_do_not_fit_are_named_with_the_operation)                                         \
    T(the_users_line_is_in_the_text)                                                               \
    T(the_first_error_stays)                                                                       \
    T(wrong_dtypes_are_errors)                                                                     \
    T(what_is_no_dtype_is_an_error_everywhere)                                                     \
    T(offsets_far_away_are_errors)                                                                 \
    T(null_gives_null_and_an_error)                                                                \
    T(axes_out_of_range_are_errors)                                                                \
    T(products_beyond_63_bits_are_errors)                                                          \
    T(numbers_at_the_ends_of_64_bits_are_fine_or_errors)                                           \
    T(sizes_of_variables_at_the_end_of_64_bits_are_fine)                                           \
    T(values_too_large_for_any_memory_are_errors)                                                  \
    T(an_array_of_nothing_is_short_however_long)                                                   \
    T(layers_that_are_null_are_errors)                                                             \
    T(negative_sizes_and_ranks_are_errors)                                                         \
    T(reading_into_a_short_buffer_writes_nothing)                                                  \
    T(assigning_another_shape_or_dtype_is_an_error)                                                \
    T(an_unknown_device_opens_nothing)                                                             \
    T(tensors_of_another_context_are_errors)                                                       \
    T(unknown_knobs_and_bad_values_are_errors)                                                     \
    T(a_gradient_without_history_is_an_error)                                                      \
    T(the_context_works_after_errors)

#define SCOPED(fn)                                                                                 \
    static void scoped_##fn(void) {                                                                \
        with_scope(#fn, fn);                                                                       \
    }
TESTS(SCOPED)
#define RUN_SCOPED(fn) RUN(scoped_##fn);

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(NULL);
    if (!qn) return 1;
    TESTS(RUN_SCOPED)
    qn_close(qn);
    return test_end();
}
