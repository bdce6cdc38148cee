/* 02_grad.c - Lesson 2: gradients.
 *
 * qn_grad records the gradient of a value as new operations. They are tensors like any others: they
 * can be read, used in further expressions, and differentiated again. Here Newton's method finds a
 * minimum of f(x) = x^4 - 3x^2 + x from its first and second derivative.
 *
 * x is changed by qn_assign. The new value is computed with the next read, together with all else
 * that is needed for it. */
#include <math.h>
#include <quern.h>
#include <stdio.h>

static qn_tensor *f(qn_tensor *x) {
    qn_tensor *square = qn_mul(x, x);
    return qn_add(qn_sub(qn_mul(square, square), qn_mul(square, qn_like(x, 3))), x);
}

int main(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;
    qn_tensor *x = qn_from(qn, QN_F64, 0, NULL, &(double){2});
    double at = 0, slope = 0;

    for (int step = 0; step < 8; step++) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *y = f(x), *first, *second;
        qn_grad(y, NULL, 1, &x, &first);
        qn_grad(first, NULL, 1, &x, &second);
        qn_assign(x, qn_sub(x, qn_div(first, second)));
        qn_read(first, &slope, sizeof slope);
        qn_read(x, &at, sizeof at);
        printf("step %d: slope %+.2e, now at %.12f\n", step, slope, at);
        qn_scope_end(qn, scope);
    }
    if (qn_error_code(qn)) printf("%s\n", qn_error(qn));
    int failed = qn_error_code(qn) || fabs(4 * at * at * at - 6 * at + 1) > 1e-9;
    qn_release(x);
    qn_close(qn);
    return failed;
}
