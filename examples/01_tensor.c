/* 01_tensor.c - Lesson 1: tensors, expressions, reading a value.
 *
 * A context holds everything. Operations only record what is to be computed; reading a value
 * compiles what it needs and runs it. So the three operations below become one kernel, and nothing
 * runs before qn_read.
 *
 * Tensors made inside a scope die at its end, so expressions nest without being taken apart. An
 * operation that cannot be done gives NULL, NULL in gives NULL out, and the first error waits in
 * the context: look once, at the end. */
#include <quern.h>
#include <stdio.h>

int main(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;
    qn_scope scope = qn_scope_begin(qn);

    float a_values[] = {1, 2, 3, 4, 5, 6};
    qn_tensor *a = qn_from(qn, QN_F32, 2, (int64_t[]){2, 3}, a_values);
    qn_tensor *b = qn_from(qn, QN_F32, 1, (int64_t[]){3}, (float[]){10, 20, 30});

    /* Shapes are broadcast as NumPy does: b is added to each row of a. */
    qn_tensor *sums = qn_sum(qn_mul(qn_add(a, b), qn_like(a, 0.5)), 1, false);

    float out[2];
    if (qn_read(sums, out, sizeof out) == 0) printf("row sums: %g %g\n", out[0], out[1]);
    printf("a + b = %s\n", qn_format(qn_add(a, b), 6));

    /* A mistake: the error names the operation, both shapes, and this line. */
    QN_AT(qn);
    qn_tensor *wrong = qn_matmul(a, qn_relu(qn_add(a, a)));
    if (!wrong) printf("as expected: %s\n", qn_error(qn));

    qn_scope_end(qn, scope);
    qn_close(qn);
    return wrong != NULL;
}
