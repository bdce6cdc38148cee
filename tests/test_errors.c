/* test_errors.c - bad use gives an error that names the operation, the shapes or values, and the
 * user's line; never a crash, and the context works on afterwards. */
#include "quern.h"
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
    qn_at(qn, "model.c", 42);
    CHECK(!qn_add(matrix(2, 3), matrix(4, 3)));
    EXPECT(QN_ESHAPE, "model.c:42", "add", NULL);
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
    CHECK(!qn_open(&(qn_options){.device = "abacus"}));
}

static void tensors_of_another_context_are_errors(void) {
    qn_ctx *other = qn_open(&(qn_options){.device = "ref"});
    float one = 1;
    qn_tensor *foreign = qn_from(other, QN_F32, 0, NULL, &one);
    CHECK(!qn_add(matrix(1, 1), foreign));
    EXPECT(QN_EGRAPH, "add", NULL, NULL);
    qn_close(other);
}

static void unknown_knobs_and_bad_values_are_errors(void) {
    CHECK(qn_set(qn, "speed", "11") < 0);
    EXPECT(QN_EARG, "speed", NULL, NULL);
    CHECK(qn_set(qn, "threads", "many") < 0);
    EXPECT(QN_EARG, "many", NULL, NULL);
}

static void a_gradient_without_history_is_an_error(void) {
    qn_tensor *x = matrix(2, 2), *y = matrix(2, 2), *g = NULL;
    CHECK(qn_grad(y, NULL, 1, &x, &g) < 0);
    EXPECT(QN_EGRAPH, "grad", "f32[2, 2], which is y, has no history", NULL);
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
    T(null_gives_null_and_an_error)                                                                \
    T(axes_out_of_range_are_errors)                                                                \
    T(products_beyond_63_bits_are_errors)                                                          \
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
