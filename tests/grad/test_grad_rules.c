/* test_grad_rules.c - what qn_grad promises apart from the formulas, which test_grad holds: ties,
 * sums over several uses, seeds, history that is kept, lost or assigned to, wrong arguments, and
 * memory that runs out. Values come from eval.h. */
#include "eval.h"
#include "func/func.h"

/* ---- rules of the game ---------------------------------------------------------------------- */

static qn_tensor *vector(qn_ctx *qn, int64_t n, const double *v) {
    return leaf_of(qn, QN_F64, 1, &n, v);
}

static void grad_of_sum(qn_tensor *y, qn_tensor *x, const double *want, int64_t n) {
    qn_tensor *g;
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    CHECK_VALUES(g, n, want, 1e-12);
}

static void ties_share(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 3, (double[]){2, 5, 5}), *y = vector(qn, 3, (double[]){2, 1, 9});
    grad_of_sum(qn_maximum(x, y), x, (double[]){0.5, 1, 0}, 3);
    grad_of_sum(qn_minimum(x, y), y, (double[]){0.5, 1, 0}, 3);
    grad_of_sum(qn_max(x, 0, false), x, (double[]){0, 0.5, 0.5}, 3);
    grad_of_sum(qn_prod(vector(qn, 3, (double[]){2, 5, 5}), 0, false), x, (double[]){0, 0, 0}, 3);
    qn_tensor *zero = vector(qn, 3, (double[]){0, 2, 3}), *zeros = vector(qn, 2, (double[]){0, 0});
    grad_of_sum(qn_prod(zero, 0, false), zero, (double[]){6, 0, 0}, 3);
    grad_of_sum(qn_prod(zeros, 0, false), zeros, (double[]){0, 0}, 2);
    grad_of_sum(qn_relu(zero), zero, (double[]){0, 1, 1}, 3);
    grad_of_sum(qn_abs(zero), zero, (double[]){0, 1, 1}, 3);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void large_arguments_give_no_nan(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 3, (double[]){-900, 0, 900});
    grad_of_sum(qn_sigmoid(x), x, (double[]){0, 0.25, 0}, 3);
    grad_of_sum(qn_softplus(x), x, (double[]){0, 0.5, 1}, 3);
    grad_of_sum(qn_elu(x, 1), x, (double[]){0, 1, 1}, 3);
    grad_of_sum(qn_silu(x), x, (double[]){0, 0.5, 1}, 3);
    grad_of_sum(qn_asinh(vector(qn, 1, (double[]){0})), x, (double[]){0, 0, 0}, 3);
    grad_of_sum(qn_pow(x, qn_like(x, 0)), x, (double[]){0, 0, 0}, 3);
    grad_of_sum(qn_pow(x, qn_like(x, 2)), x, (double[]){-1800, 0, 1800}, 3);
    qn_scope_end(qn, s);
    close_graph(qn);
}

/* Of a half close to 1 the difference from 1 has few digits: 8 would have 4.9e-4. */
static void the_slope_of_a_narrow_sigmoid_has_its_digits(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    double values[] = {-8, 4, 8}, slopes[] = {3.3524e-4, 0.017663, 3.3524e-4}, got;
    for (int i = 0; i < 3; i++) {
        qn_tensor *x = vector(qn, 1, &values[i]), *g;
        CHECK(!qn_grad(qn_sigmoid(qn_cast(x, QN_F16)), NULL, 1, &x, &g));
        eval_value v = eval(g);
        got = eval_number(&v, 0);
        CHECK_NEAR(got, slopes[i], 1e-3, 0);
        free(v.v);
    }
    qn_scope_end(qn, s);
    close_graph(qn);
}

/* One term of 2^8 or 2^11 and many of 1: each by itself is lost, added to it in the dtype. By uses
 * of the whole, by slices of the same place, and by slices that overlap. */
static double gradient_of_uses(qn_ctx *qn, qn_dtype dtype, double first, int ones, int how) {
    enum { SIZE = 128 };
    double values[SIZE], got;
    for (int i = 0; i < SIZE; i++) values[i] = 1;
    qn_tensor *w = qn_cast(vector(qn, SIZE, values), dtype), *sum = NULL, *g;
    for (int i = 0; i <= ones; i++) {
        double factor = i ? 1 : first;
        int64_t start = how == 2 ? i % 60 : 0, size = how ? 64 : SIZE;
        double *v = malloc((size_t)size * sizeof *v);
        for (int64_t k = 0; k < size; k++) v[k] = k == 63 - start ? factor : factor * (i + 2);
        qn_tensor *part = how ? qn_slice(w, 0, start, start + size, 1) : w;
        qn_tensor *term = qn_cast(qn_mul(part, qn_cast(vector(qn, size, v), dtype)), QN_F32);
        free(v);
        sum = sum ? qn_add(sum, qn_sum(term, 0, false)) : qn_sum(term, 0, false);
    }
    CHECK(!qn_grad(sum, NULL, 1, &w, &g));
    CHECK_INT(qn_dtype_of(g), dtype);
    eval_value out = eval(g);
    got = eval_number(&out, 63);
    free(out.v);
    return got;
}

static void many_uses_of_a_half_are_added_in_f32(void) {
    for (int how = 0; how < 3; how++) {
        qn_ctx *qn = open_graph();
        qn_scope s = qn_scope_begin(qn);
        CHECK_NEAR(gradient_of_uses(qn, QN_BF16, 256, 44, how), 300, 0, 0);
        CHECK_NEAR(gradient_of_uses(qn, QN_F16, 2048, 52, how), 2100, 0, 0);
        qn_scope_end(qn, s);
        close_graph(qn);
    }
}

static void shared_and_repeated_inputs_add_up(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 2, (double[]){3, 4}), *square = qn_mul(x, x);
    qn_tensor *both[3] = {x, x, square}, *g[3];
    CHECK_INT(qn_grad(qn_add(square, square), NULL, 3, both, g), QN_OK);
    CHECK_VALUES(g[0], 2, ((double[]){12, 16}), 0);
    CHECK_INT(tensor_at(g[0])->node, tensor_at(g[1])->node);
    CHECK_VALUES(g[2], 2, ((double[]){2, 2}), 0);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void a_seed_scales(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 2, (double[]){3, 4}), *g;
    qn_tensor *seed = vector(qn, 2, (double[]){10, 100}), *y = qn_mul(x, x);
    CHECK_INT(qn_grad(y, seed, 1, &x, &g), QN_OK);
    CHECK_VALUES(g, 2, ((double[]){60, 800}), 0);
    CHECK_INT(qn_grad(qn_sum(y, 0, false), seed, 1, &x, &g), QN_ESHAPE);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void what_is_not_reached_gives_zeros(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 2, (double[]){3, 4}), *other = vector(qn, 3, NULL);
    qn_tensor *y = qn_mul(x, qn_cast(qn_cast(other, QN_I32), QN_F64)), *g;
    (void)y;
    qn_tensor *z = qn_add(qn_mul(x, x), qn_detach(qn_exp(x)));
    qn_clear_error(qn);
    grad_of_sum(z, other, (double[]){0, 0, 0}, 3);
    grad_of_sum(z, x, (double[]){6, 8}, 2);
    CHECK_INT(qn_grad(qn_cast(x, QN_I32), NULL, 1, &x, &g), QN_EDTYPE);
    CHECK_STR(qn_error(qn), "grad: y is i32; only floats have gradients");
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void a_value_that_was_computed_keeps_its_history(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 1, (double[]){3}), *y = qn_mul(x, x), *z = qn_mul(y, x);
    graph_realized(qn->graph, tensor_at(y)->node, 0);
    grad_of_sum(z, x, (double[]){27}, 1);
    grad_of_sum(z, y, (double[]){3}, 1);
    graph_realized(qn->graph, tensor_at(z)->node, 0);
    grad_of_sum(z, x, (double[]){27}, 1);
    grad_of_sum(qn_detach(z), x, (double[]){0}, 1);
    grad_of_sum(x, y, (double[]){0}, 1); /* data is no function of anything */
    qn_scope_end(qn, s);
    close_graph(qn);
}

/* As after knob history: y forgot that it is x*x. */
static void lost_history_is_an_error_where_it_matters(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 1, (double[]){3}), *y = qn_mul(x, x), *z = qn_mul(y, x), *g;
    graph_realized(qn->graph, tensor_at(y)->node, 0);
    qn->knob[KNOB_HISTORY].number = 0;
    qn_release(qn_keep(vector(qn, 1, NULL)));
    qn_tensor *held = qn_exp(vector(qn, 1, NULL));
    graph_realized(qn->graph, tensor_at(held)->node, 0);
    qn_scope inner = qn_scope_begin(qn);
    qn_tensor *tail = vector(qn, 1, NULL), *head = qn_exp(tail);
    qn_keep(head);
    graph_realized(qn->graph, tensor_at(head)->node, 0);
    qn_scope_end(qn, inner);
    QN_AT(qn);
    history_trim(qn->graph);
    CHECK_INT(qn_grad(z, NULL, 1, &x, &g), QN_EGRAPH);
    CHECK(g == NULL);
    CHECK(strstr(qn_error(qn), "f64[1] lies on the way, and how it was computed was cut off at ") !=
          NULL);
    qn_clear_error(qn);
    CHECK_INT(qn_grad(z, NULL, 1, &y, &g), QN_OK); /* of y itself it is a function */
    CHECK_VALUES(g, 1, (double[]){3}, 0);
    qn_tensor *young = vector(qn, 1, (double[]){5});        /* y cannot depend on it */
    grad_of_sum(qn_mul(young, y), young, (double[]){3}, 1); /* y's buffer here is x's */
    qn_release(head);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void assigned_and_initialised_tensors_are_leaves(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 1, (double[]){3}), *unused = vector(qn, 1, (double[]){4}), *g;
    qn_tensor *drawn = qn_randn(qn_key(qn, 1), QN_F64, 1, (int64_t[]){1});
    graph_realized(qn->graph, tensor_at(drawn)->node, 0);
    CHECK_INT(qn_grad(qn_mul(x, drawn), NULL, 1, &unused, &g), QN_OK);
    qn_tensor *state = vector(qn, 1, (double[]){2});
    tensor_renew(tensor_at(state), node_version(qn->graph, tensor_at(qn_mul(x, x))->node));
    grad_of_sum(qn_mul(state, x), x, (double[]){9}, 1); /* state is 9, and no function of x */
    grad_of_sum(qn_mul(state, x), state, (double[]){3}, 1);
    grad_of_sum(state, x, (double[]){0}, 1);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void what_was_recorded_keeps_its_version(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *w = vector(qn, 1, (double[]){3}), *y = qn_mul(w, w), *g;
    tensor_renew(tensor_at(w),
                 node_version(qn->graph, tensor_at(vector(qn, 1, (double[]){5}))->node));
    grad_of_sum(y, w, (double[]){6}, 1);
    qn_tensor *z = qn_mul(y, w); /* of both */
    qn_set_name(w, "w");
    CHECK_INT(qn_grad(z, NULL, 1, &w, &g), QN_EGRAPH);
    CHECK_STR(qn_error(qn), "grad: f64[1] \"w\" was assigned to, and y uses more than one of its "
                            "values; detach what was recorded before the assignment, or record it "
                            "again");
    qn_clear_error(qn);
    grad_of_sum(qn_mul(qn_detach(y), w), w, (double[]){9}, 1);
    tensor_renew(tensor_at(w),
                 node_version(qn->graph, tensor_at(vector(qn, 1, (double[]){7}))->node));
    qn_set_name(w, "w");
    CHECK_INT(qn_grad(z, NULL, 1, &w, &g), QN_EGRAPH);
    CHECK_STR(qn_error(qn), "grad: f64[1] \"w\" was assigned to since y was recorded, and y uses "
                            "more than one of its values; detach what was recorded before the "
                            "assignment, or record it again");
    qn_clear_error(qn);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void a_constant_that_was_assigned_to_is_not_guessed(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *w = qn_zeros(qn, QN_F64, 1, (int64_t[]){1}), *same = qn_zeros_like(w), *g;
    qn_tensor *y = qn_mul(same, vector(qn, 1, (double[]){5}));
    tensor_renew(tensor_at(w),
                 node_version(qn->graph, tensor_at(vector(qn, 1, (double[]){7}))->node));
    CHECK_INT(qn_grad(qn_exp(y), NULL, 1, &w, &g), QN_EGRAPH);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void wrong_arguments_are_reported(void) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = vector(qn, 1, (double[]){3}), *n = leaf(qn, QN_I64, 0, NULL), *none = NULL, *g;
    CHECK_INT(qn_grad(NULL, NULL, 1, &x, &g), QN_ENULL);
    CHECK_INT(qn_grad(x, NULL, 1, &none, &g), QN_ENULL);
    qn_clear_error(qn);
    CHECK_INT(qn_grad(x, NULL, 1, &n, &g), QN_EDTYPE);
    CHECK_STR(qn_error(qn), "grad: x 0 is i64; only floats have gradients");
    qn_clear_error(qn);
    CHECK_INT(qn_grad(x, NULL, 1, NULL, &g), QN_ENULL);
    CHECK_INT(qn_grad(x, NULL, 0, NULL, NULL), QN_OK);
    qn_scope_end(qn, s);
    close_graph(qn);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void differentiate(qn_ctx *qn, qn_tensor *const *x, bool scoped) {
    qn_scope s = scoped ? qn_scope_begin(qn) : 0;
    qn_tensor *g[2] = {NULL, NULL}, *y = qn_softmax(x[0], -1), *z = qn_matmul(y, x[1]);
    int code = qn_grad(z, NULL, 2, x, g);
    CHECK((code == QN_OK) == (g[0] && g[1]));
    if (scoped) {
        qn_scope_end(qn, s);
        return;
    }
    qn_release(y);
    qn_release(z);
    qn_release(g[0]);
    qn_release(g[1]);
}

static void every_failing_allocation_is_survived(void) {
    for (int scoped = 0; scoped < 2; scoped++)
        for (uint64_t k = 1; k < 3000; k++) {
            qn_ctx *qn = open_graph();
            qn_tensor *x[2] = {leaf(qn, QN_F32, 2, (int64_t[]){2, 3}),
                               leaf(qn, QN_F32, 2, (int64_t[]){3, 2})};
            qn->heap.fail_at = qn->heap.requests + k;
            differentiate(qn, x, scoped);
            bool reached = qn->heap.requests >= qn->heap.fail_at;
            CHECK_INT(qn_error_code(qn), reached ? QN_ENOMEM : QN_OK);
            qn_release(x[0]);
            qn_release(x[1]);
            close_graph(qn);
            if (!reached) break;
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(ties_share);
    RUN(large_arguments_give_no_nan);
    RUN(the_slope_of_a_narrow_sigmoid_has_its_digits);
    RUN(many_uses_of_a_half_are_added_in_f32);
    RUN(shared_and_repeated_inputs_add_up);
    RUN(a_seed_scales);
    RUN(what_is_not_reached_gives_zeros);
    RUN(a_value_that_was_computed_keeps_its_history);
    RUN(lost_history_is_an_error_where_it_matters);
    RUN(assigned_and_initialised_tensors_are_leaves);
    RUN(what_was_recorded_keeps_its_version);
    RUN(a_constant_that_was_assigned_to_is_not_guessed);
    RUN(wrong_arguments_are_reported);
    RUN(every_failing_allocation_is_survived);
    return test_end();
}
