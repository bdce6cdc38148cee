/* test_funcs.c - the composed functions by value. Elementwise ones are compared with the oracle
 * column of funcs.h in long double, on random and on special arguments; the others with numbers
 * worked out by plain loops here, or published. Graphs are evaluated by eval.h, so nothing here
 * depends on a compiler or a device. */
#include <float.h>

#include "eval.h"

/* Every row of funcs.h has the prototype that the headers show. */
#define RESULT_UNARY               qn_tensor *
#define RESULT_BINARY              qn_tensor *
#define RESULT_TENSOR              qn_tensor *
#define RESULT_STATUS              int
#define X(KIND, name, params, ...) RESULT_##KIND qn_##name params;
#include "func/funcs.h"
#undef X

/* ---- elementwise, from the table ------------------------------------------------------------ */

typedef long double real;
typedef struct elementwise {
    const char *name;
    int arity;
    qn_tensor *(*unary)(qn_tensor *);
    qn_tensor *(*binary)(qn_tensor *, qn_tensor *);
    double lo, hi;
} elementwise;

#define UNARY_FUNC(f)  1, f, NULL
#define BINARY_FUNC(f) 2, NULL, f
#define TENSOR_FUNC(f) 0, NULL, NULL
#define STATUS_FUNC(f) 0, NULL, NULL
static const elementwise rows[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) {#name, KIND##_FUNC(qn_##name), lo, hi},
#include "func/funcs.h"
#undef X
};

/* As in scalar.c: "-" followed by "- 0" is an expression. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
static real oracle(size_t row, real x, real y) {
    (void)y;
    const real value[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) (real)(ORACLE - 0),
#include "func/funcs.h"
#undef X
    };
    return value[row];
}
#pragma GCC diagnostic pop

enum { SAMPLES = 200 };

static void check_row(size_t row, qn_dtype dtype, double rel) {
    const elementwise *e = &rows[row];
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    uint64_t seed = row + 1;
    double a[SAMPLES], b[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        a[i] = dtype_round(dtype, e->lo + (e->hi - e->lo) * test_uniform(&seed));
        b[i] = dtype_round(dtype, e->lo + (e->hi - e->lo) * test_uniform(&seed));
        if (i % 7 == 0) b[i] = a[i];
    }
    const int64_t n = SAMPLES;
    qn_tensor *x = leaf_of(qn, dtype, 1, &n, a), *y = leaf_of(qn, dtype, 1, &n, b);
    eval_value r = eval(e->arity == 1 ? e->unary(x) : e->binary(x, y));
    CHECK_STR(qn_error(qn), "");
    for (int i = 0; i < SAMPLES && i < r.n; i++) {
        double want = (double)oracle(row, a[i], b[i]), got = eval_number(&r, i);
        if (test_close(got, want, rel, rel)) continue;
        FAIL("%s(%.17g, %.17g) as %s is %.17g, expected %.17g", e->name, a[i], b[i],
             qn_dtype_name(dtype), got, want);
    }
    free(r.v);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static void elementwise_functions_agree_with_their_oracle(void) {
    for (size_t row = 0; row < COUNT_OF(rows); row++) {
        if (!rows[row].arity) continue;
        check_row(row, QN_F64, 4e-15);
        check_row(row, QN_F32, 3e-6);
    }
}

/* Where the true value is finite or a plain infinity, so is ours; NaN goes through. */
static void check_special(size_t row, double x) {
    qn_ctx *qn = open_graph();
    qn_scope s = qn_scope_begin(qn);
    eval_value r = eval(rows[row].unary(leaf_of(qn, QN_F64, 0, NULL, &x)));
    double want = (double)oracle(row, x, 0), got = eval_number(&r, 0);
    if (isnan(x) && r.dtype != QN_BOOL) want = (double)NAN;
    bool overflows = isinf(want) && fabs(x) < DBL_MAX && fabs(got) > 1e300;
    if (!overflows && !test_close(got, want, 1e-12, 1e-300))
        FAIL("%s(%g) is %.17g, expected %.17g", rows[row].name, x, got, want);
    free(r.v);
    qn_scope_end(qn, s);
    close_graph(qn);
}

static bool oracle_overflows(const char *name) { /* the long double formula itself gives NaN */
    static const char *const names[] = {"softplus",  "mish", "gelu", "gelu_tanh",  "silu",
                                        "hardswish", "selu", "tan",  "log_sigmoid"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static void special_arguments_give_special_values(void) {
    const double x[] = {0.0,
                        1.0,
                        -1.0,
                        1e-300,
                        -1e-20,
                        1e200,
                        -1e200,
                        800,
                        -800,
                        (double)INFINITY,
                        -(double)INFINITY,
                        (double)NAN};
    for (size_t row = 0; row < COUNT_OF(rows); row++)
        for (size_t i = 0; i < COUNT_OF(x); i++)
            if (rows[row].arity == 1 && !(oracle_overflows(rows[row].name) && fabs(x[i]) > 700))
                check_special(row, x[i]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(elementwise_functions_agree_with_their_oracle);
    RUN(special_arguments_give_special_values);
    return test_end();
}
