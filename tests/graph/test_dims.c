/* test_dims.c - sizes that vary: made of others, asked and printed; an error is no empty axis; and
 * the code of a call that fails is that of the error whose text the context holds. */
#include "quern.h"
#include "test.h"

static qn_ctx *qn;

static void expect(qn_code code, const char *text) {
    CHECK_INT(qn_error_code(qn), code);
    CHECK_STR(qn_error(qn), text);
    qn_clear_error(qn);
}

static void known_sizes_are_numbers(void) {
    CHECK_INT(qn_dim_add(qn, 3, 4), 7);
    CHECK_INT(qn_dim_sub(qn, 3, 3), 0);
    CHECK_INT(qn_dim_mul(qn, 3, 4), 12);
    CHECK_INT(qn_dim_div(qn, 7, 2), 3);
    CHECK_INT(qn_dim_value(qn, 5), 5);
    CHECK_STR(qn_dim_text(qn, 5), "5");
}

/* A tensor of [2*t+1] made, and its size asked at two bindings. */
static void sizes_combine_to_shapes(void) {
    qn_scope s = qn_scope_begin(qn);
    int64_t t = qn_var(qn, "t", 1, 100), lo, hi;
    int64_t size = qn_dim_add(qn, qn_dim_mul(qn, 2, t), 1);
    CHECK(t < -1 && size < -1 && size != t);
    CHECK_STR(qn_dim_text(qn, t), "t");
    CHECK_STR(qn_dim_text(qn, size), "2*t + 1");
    CHECK_INT(qn_dim_range(qn, size, &lo, &hi), QN_OK);
    CHECK_INT(lo, 3);
    CHECK_INT(hi, 201);
    qn_tensor *x = qn_ones(qn, QN_F32, 2, (int64_t[]){size, 2});
    CHECK_INT(qn_dim(x, 0), size);
    CHECK_INT(qn_dim_div(qn, qn_dim_sub(qn, qn_dim(x, 0), 1), 2), t);
    for (int64_t n = 1; n < 8; n += 6) {
        float sum = 0;
        qn_scope inner = qn_scope_begin(qn);
        CHECK_INT(qn_bind(qn, t, n), QN_OK);
        CHECK_INT(qn_dim_value(qn, size), 2 * n + 1);
        CHECK_INT(qn_numel(x), 2 * (2 * n + 1));
        CHECK_INT(qn_read(qn_sum(x, QN_ALL, false), &sum, sizeof sum), QN_OK);
        CHECK(sum == (float)(2 * (2 * n + 1)));
        qn_scope_end(qn, inner);
    }
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_scope_end(qn, s);
}

static void sizes_that_may_not_be_are_errors(void) {
    int64_t t = qn_var(qn, "t", 0, 10), u = qn_var(qn, "u", 1, 9);
    CHECK(qn_dim_sub(qn, t, 11) == QN_DIM_ERROR);
    expect(QN_ERANGE, "size: a size below 0 or beyond 2^63");
    CHECK(qn_dim_div(qn, 4, t) == QN_DIM_ERROR);
    expect(QN_ERANGE, "dim_div: by a size that may be 0");
    CHECK(qn_dim_mul(qn, INT64_MAX, 2) == QN_DIM_ERROR);
    expect(QN_ERANGE, "size: a size below 0 or beyond 2^63");
    CHECK(qn_dim_add(qn, -1, 2) == QN_DIM_ERROR);
    expect(QN_ERANGE, "dim_add: -1 is no size");
    CHECK(qn_dim_value(qn, u) == QN_DIM_ERROR);
    expect(QN_EARG, "dim_value: it depends on u, which is not bound");
    CHECK(!qn_dim_text(qn, -1000000));
    expect(QN_ERANGE, "dim_text: -1000000 is no size");
}

static void an_error_is_no_empty_axis(void) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *none = qn_zeros(qn, QN_F32, 2, (int64_t[]){0, 3});
    CHECK_INT(qn_dim(none, 0), 0);
    CHECK_INT(qn_numel(none), 0);
    CHECK(qn_dim(none, 2) == QN_DIM_ERROR);
    expect(QN_ERANGE, "dim: axis 2 of a tensor of rank 2");
    CHECK(qn_dim(NULL, 0) == QN_DIM_ERROR && qn_numel(NULL) == -1 && qn_rank(NULL) == -1);
    CHECK(qn_rank(qn_sum(none, QN_ALL, false)) == 0);
    CHECK(qn_var(qn, "t", 3, 2) == QN_DIM_ERROR);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    qn_tensor *varied = qn_ones(qn, QN_F32, 1, (int64_t[]){qn_var(qn, "v", 1, 4)});
    CHECK(qn_numel(varied) == -1);
    expect(QN_EARG, "numel: axis 0 depends on v, which is not bound");
    qn_scope_end(qn, s);
}

/* What is made of a size that could not be had is refused, with the first error's words. */
static void a_bad_size_is_refused_wherever_it_goes(void) {
    qn_scope s = qn_scope_begin(qn);
    int64_t bad = qn_dim_sub(qn, 3, 4);
    CHECK(bad == QN_DIM_ERROR);
    CHECK(qn_dim_add(qn, bad, 1) == QN_DIM_ERROR);
    CHECK(!qn_zeros(qn, QN_F32, 1, &bad));
    expect(QN_ERANGE, "size: a size below 0 or beyond 2^63");
    CHECK(
        !qn_zeros(qn, QN_F32, 1, &bad)); /* and later, with no error pending, in words of its own */
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

/* A call that fails for another reason, while an error is pending, gives the pending one's code. */
static void code_and_text_agree_while_an_error_is_pending(void) {
    qn_scope s = qn_scope_begin(qn);
    float v[4] = {1, 2, 3, 4}, out[4];
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){4}, v);
    CHECK(!qn_reshape(x, 1, (int64_t[]){3}));
    const qn_code pending = qn_error_code(qn);
    CHECK_INT(pending, QN_ESHAPE);
    CHECK_INT(qn_read(x, out, 1), pending); /* by itself QN_ERANGE */
    CHECK_INT(qn_set(qn, "nothing", "1"), pending);
    CHECK_INT(qn_write(x, NULL, 16), pending);
    CHECK_INT(qn_plan_run(NULL, NULL, NULL), QN_ENULL); /* no context to ask */
    CHECK_INT(qn_assign(x, NULL), pending);
    CHECK_INT(qn_read(x, out, sizeof out), QN_OK); /* what works works */
    CHECK_INT(qn_error_code(qn), pending);
    qn_clear_error(qn);
    CHECK_INT(qn_read(x, out, 1), QN_ERANGE);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(NULL);
    if (!qn) return 1;
    RUN(known_sizes_are_numbers);
    RUN(sizes_combine_to_shapes);
    RUN(sizes_that_may_not_be_are_errors);
    RUN(an_error_is_no_empty_axis);
    RUN(a_bad_size_is_refused_wherever_it_goes);
    RUN(code_and_text_agree_while_an_error_is_pending);
    qn_close(qn);
    return test_end();
}
