/* test_repeat.c - reductions of what is repeated reduce it once: how many elements the reductions
 * of a graph take in, whatever way the repetition came about; n*x and x^n rounded once, against
 * long double; and their gradients, twice, against the derivatives of n*x and x^n. That values
 * stay is test_rules.c's business, of random terms. */
#include "eval.h"
#include "func/func.h"

#include "quern.h"

enum { N = 96 };

/* ---- how much is reduced --------------------------------------------------------------------- */

/* Elements that the reductions below a tensor take in. */
static int64_t reduced(qn_tensor *t) {
    if (!t) return -1;
    graph *g = tensor_ctx(t)->graph;
    arena a;
    arena_open(&a, &tensor_ctx(t)->heap);
    node_id *order, root = tensor_at(t)->node;
    uint32_t n = graph_order(g, &a, 1, &root, &order);
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const graph_node *x = node_at(g, order[i]);
        if (op_rows[x->op].class_ != CLASS_REDUCE) continue;
        int rank;
        int64_t size = 1, dim;
        const int64_t *dims = node_dims(g, x->src[0], &rank);
        for (int k = 0; k < rank; k++) size *= sym_is_const(g->syms, (sym)dims[k], &dim) ? dim : 0;
        sum += size;
    }
    arena_free(&a);
    return sum;
}

static qn_tensor *x5, *x45, *x6, *a345, *b345;

static qn_tensor *rows(void) {
    return func_expand(x5, 2, (int64_t[]){N, 5});
}
static qn_tensor *middle(void) { /* [4, N, 5] */
    return func_expand(qn_unsqueeze(x45, 1), 3, (int64_t[]){4, N, 5});
}
static qn_tensor *merged(void) { /* [4 * N, 5] */
    return func_reshape(middle(), 2, (int64_t[]){4 * N, 5});
}
static qn_tensor *sum_of(qn_tensor *x, uint32_t mask) {
    return build_reduce(OP_SUM, x, mask, false);
}

static qn_tensor *along_the_repetition(void) {
    return sum_of(rows(), 1);
}
static qn_tensor *along_the_other(void) {
    return sum_of(rows(), 2);
}
static qn_tensor *along_both(void) {
    return sum_of(rows(), 3);
}
static qn_tensor *of_the_middle(void) {
    return sum_of(middle(), 5);
}
static qn_tensor *merged_and_kept(void) {
    return sum_of(merged(), 2);
}
static qn_tensor *merged_and_summed(void) {
    return sum_of(merged(), 1);
}
static qn_tensor *permuted(void) {
    return sum_of(qn_permute(middle(), 3, (int[]){2, 1, 0}), 6);
}
static qn_tensor *permuted_and_merged(void) {
    qn_tensor *x = qn_permute(middle(), 3, (int[]){2, 0, 1});
    return sum_of(func_reshape(x, 2, (int64_t[]){5, 4 * N}), 2);
}
static qn_tensor *split_and_merged(void) {
    qn_tensor *x = func_expand(qn_unsqueeze(x6, 1), 2, (int64_t[]){6, N});
    return sum_of(func_reshape(x, 2, (int64_t[]){2, 3 * N}), 2);
}
static qn_tensor *split_far(void) {
    qn_tensor *x = func_reshape(merged(), 6, (int64_t[]){2, 2, 4, N / 4, 1, 5});
    return sum_of(qn_permute(x, 6, (int[]){5, 3, 1, 0, 2, 4}), 1 << 1 | 1 << 2);
}
static qn_tensor *tiled(void) {
    return sum_of(qn_tile(x45, 2, (int64_t[]){N, 1}), 2);
}
static qn_tensor *interleaved(void) {
    return sum_of(qn_repeat_interleave(x45, 0, N), 1);
}
static qn_tensor *of_functions(void) {
    qn_tensor *scale = func_expand(qn_unsqueeze(x5, 0), 2, (int64_t[]){N, 5});
    return sum_of(qn_sqrt(qn_add(qn_exp(rows()), qn_like(scale, 2))), 2);
}
static qn_tensor *of_products(void) {
    return sum_of(qn_mul(rows(), qn_exp(rows())), 2);
}
static qn_tensor *matrices(void) {
    return qn_matmul(func_expand(a345, 3, (int64_t[]){N, 3, 4}),
                     func_expand(b345, 3, (int64_t[]){N, 4, 5}));
}
static qn_tensor *largest(void) {
    return build_reduce(OP_MAX, merged(), 1, false);
}
static qn_tensor *place_of_largest(void) {
    return build_reduce(OP_ARGMAX, rows(), 2, false);
}
static qn_tensor *place_along_the_repetition(void) {
    return build_reduce(OP_ARGMIN, middle(), 2, false);
}
static qn_tensor *place_along_all(void) {
    return build_reduce(OP_ARGMAX, middle(), 7, false);
}
static qn_tensor *place_merged(void) {
    return build_reduce(OP_ARGMAX, merged(), 3, false);
}
static qn_tensor *place_of_a_constant(void) {
    return build_reduce(OP_ARGMIN, func_expand(qn_like(x5, 2), 2, (int64_t[]){4, N}), 3, false);
}
static qn_tensor *multiplied(void) {
    return build_reduce(OP_PROD, rows(), 3, false);
}

static void what_is_repeated_is_reduced_once(void) {
    static const struct {
        const char *name;
        qn_tensor *(*make)(void);
        int64_t most;
    } cases[] = {
#define CASE(f, most) {#f, f, most}
        CASE(along_the_repetition, 0),
        CASE(along_the_other, 5),
        CASE(along_both, 5),
        CASE(of_the_middle, 20),
        CASE(merged_and_kept, 20),
        CASE(merged_and_summed, 20),
        CASE(permuted, 20),
        CASE(permuted_and_merged, 20),
        CASE(split_and_merged, 6),
        CASE(split_far, 20),
        CASE(tiled, 20),
        CASE(interleaved, 20),
        CASE(of_functions, 5),
        CASE(of_products, 5),
        CASE(matrices, 60),
        CASE(largest, 20),
        CASE(place_of_largest, 5),
        CASE(place_along_the_repetition, 0),
        CASE(place_along_all, 20),
        CASE(place_merged, 20),
        CASE(place_of_a_constant, 0),
        CASE(multiplied, 5),
#undef CASE
    };
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    x5 = leaf(qn, QN_F32, 1, (int64_t[]){5});
    x6 = leaf(qn, QN_F32, 1, (int64_t[]){6});
    x45 = leaf(qn, QN_F32, 2, (int64_t[]){4, 5});
    a345 = leaf(qn, QN_F32, 3, (int64_t[]){1, 3, 4});
    b345 = leaf(qn, QN_F32, 3, (int64_t[]){1, 4, 5});
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t most = reduced(cases[i].make());
        if (most != cases[i].most) FAIL("%s reduces %lld", cases[i].name, (long long)most);
    }
    qn_scope_end(qn, s);
    close_graph(qn);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const int64_t counts[] = {2, 3, 10, 96, 1000, 4097, 99991, (1 << 24) + 1, 1000000007};

static double rounded(qn_dtype d, long double v) {
    return d == QN_F32 ? (float)v : (double)v;
}

static void a_sum_of_n_equal_floats_is_n_x_rounded_once(void) {
    static const double values[] = {0.1, -1.0 / 3, 1e30, 7, 1e-40, 3.14159274};
    enum { VALUES = 6 };
    for (int device = 0; device < 2; device++)
        for (int kind = 0; kind < 2; kind++) {
            qn_dtype d = kind ? QN_F64 : QN_F32;
            qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device ? "ref" : "cpu"));
            for (size_t c = 0; c < COUNT_OF(counts); c++) {
                union {
                    float f[VALUES];
                    double d[VALUES];
                } in, out;
                for (int i = 0; i < VALUES; i++) dtype_set_f(d, &in, i, values[i]);
                qn_tensor *x = qn_from(qn, d, 1, (int64_t[]){VALUES}, &in);
                qn_tensor *y = qn_sum(qn_expand(x, 2, (int64_t[]){counts[c], VALUES}), 0, false);
                CHECK_INT(qn_read(y, &out, (size_t)VALUES * qn_dtype_size(d)), QN_OK);
                for (int i = 0; i < VALUES; i++) {
                    long double v = kind ? (long double)in.d[i] : (long double)in.f[i];
                    double want = rounded(d, v * (long double)counts[c]);
                    double got = kind ? out.d[i] : (double)out.f[i];
                    if (got != want)
                        FAIL("%s: %g times %lld is %.17g, not %.17g", qn_dtype_name(d), values[i],
                             (long long)counts[c], got, want);
                }
                qn_release(y);
                qn_release(x);
            }
            qn_close(qn);
        }
}

static void a_constant_s_sum_is_rounded_once(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    float got;
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        qn_tensor *x = qn_full(qn, QN_F32, 1, &counts[c], 0.1);
        CHECK_INT(qn_read(qn_sum(x, 0, false), &got, sizeof got), QN_OK);
        CHECK_NEAR(got, (float)((long double)0.1f * (long double)counts[c]), 0, 0);
    }
    qn_close(qn);
}

/* Of 12 values, equal ones and NaN among them, each repeated more often than anybody could look. */
static void a_place_is_that_of_the_first_of_the_largest(void) {
    static const float rows[][4] = {
        {1, 3, 3, 2}, {5, 5, 5, 5}, {1, NAN, 7, NAN}, {-1, -0.f, 0, -2}};
    const int64_t n1 = (1 << 20) + 7, n2 = (1 << 19) - 1;
    for (int device = 0; device < 2; device++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device ? "ref" : "cpu"));
        for (uint64_t seed = 0; seed < 64; seed++) {
            float v[3][4];
            int first = 0, in_row[3] = {0};
            for (int i = 0; i < 3; i++) memcpy(v[i], rows[seed >> 2 * i & 3], sizeof v[i]);
            for (int i = 0; i < 12; i++) {
                int row = i / 4, *best[2] = {&in_row[row], &first};
                for (int k = 0; k < 2; k++) {
                    float was = (&v[0][0])[*best[k] + (k ? 0 : 4 * row)], is = v[row][i % 4];
                    if (!isnan(was) && (is > was || isnan(is))) *best[k] = k ? i : i % 4;
                }
            }
            qn_tensor *x = qn_from(qn, QN_F32, 4, (int64_t[]){3, 1, 4, 1}, v), *t[2];
            x = qn_expand(x, 4, (int64_t[]){3, n1, 4, n2});
            t[0] = qn_argmax_axes(x, 3, (int[]){1, 2, 3}, false);
            t[1] = qn_argmin_axes(qn_neg(x), 4, (int[]){0, 1, 2, 3}, false);
            int64_t got[3];
            CHECK_INT(qn_read(t[0], got, sizeof got), QN_OK);
            for (int i = 0; i < 3; i++) CHECK_INT(got[i], in_row[i] * n2);
            if (qn_read(t[1], got, sizeof *got)) FAIL("%s", qn_error(qn));
            CHECK_INT(got[0], (first / 4 * n1 * 4 + first % 4) * n2);
        }
        qn_close(qn);
    }
}

/* Integers wrap as they do when they are added or multiplied one by one. */
static void integers_wrap_as_they_did(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint8_t v[] = {1, 3, 200, 255}, sum[4], prod[4];
    qn_tensor *x = qn_from(qn, QN_U8, 1, (int64_t[]){4}, v);
    qn_tensor *wide = qn_expand(x, 2, (int64_t[]){300, 4});
    CHECK_INT(qn_read(build_reduce(OP_SUM, wide, 1, false), sum, sizeof sum), QN_OK);
    CHECK_INT(qn_read(build_reduce(OP_PROD, wide, 1, false), prod, sizeof prod), QN_OK);
    for (int i = 0; i < 4; i++) {
        uint8_t s = 0, p = 1;
        for (int k = 0; k < 300; k++) s = (uint8_t)(s + v[i]), p = (uint8_t)(p * v[i]);
        CHECK_INT(sum[i], s);
        CHECK_INT(prod[i], p);
    }
    qn_close(qn);
}

/* Of the sum of n x^2 and of x^n, at 0 as elsewhere. */
static void gradients_are_those_of_n_x_and_x_to_the_n(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    double v[] = {0, 1.5, -2, 0.25}, got[4];
    for (int n = 2; n < 6; n++)
        for (int prod = 0; prod < 2; prod++) {
            qn_tensor *x = qn_from(qn, QN_F64, 1, (int64_t[]){4}, v), *first, *second;
            qn_tensor *wide = qn_expand(prod ? x : qn_mul(x, x), 2, (int64_t[]){n, 4});
            qn_tensor *y = prod ? qn_prod(wide, 0, false) : qn_sum(wide, 0, false);
            CHECK_INT(qn_grad(y, NULL, 1, &x, &first), QN_OK);
            CHECK_INT(qn_grad(first, NULL, 1, &x, &second), QN_OK);
            CHECK_INT(qn_read(first, got, sizeof got), QN_OK);
            for (int i = 0; i < 4; i++)
                CHECK_NEAR(got[i], prod ? n * pow(v[i], n - 1) : 2 * n * v[i], 1e-14, 0);
            CHECK_INT(qn_read(second, got, sizeof got), QN_OK);
            for (int i = 0; i < 4; i++)
                CHECK_NEAR(got[i], prod ? n * (n - 1) * pow(v[i], n - 2) : 2 * n, 1e-14, 0);
        }
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(what_is_repeated_is_reduced_once);
    RUN(a_sum_of_n_equal_floats_is_n_x_rounded_once);
    RUN(a_constant_s_sum_is_rounded_once);
    RUN(a_place_is_that_of_the_first_of_the_largest);
    RUN(integers_wrap_as_they_did);
    RUN(gradients_are_those_of_n_x_and_x_to_the_n);
    return test_end();
}
