/* 06_custom.c - Lesson 6: a kernel of your own.
 *
 * What Quern lacks you give it: a function of your program, or C as text, which is compiled as the
 * program runs. Its gradient is recorded from ordinary operations. What stands around it fuses as
 * ever, and gradients, maps and static graphs go through it. */
#include <math.h>
#include <quern_custom.h>
#include <stdio.h>

enum { N = 5 };

/* log(1 + exp(x)) without overflow. The struct is declared for the text, as the header has it. */
static const char *const source =
    "#include <math.h>\n"
    "void softplus(void *arg, const qn_custom_array *in, const qn_custom_array *out) {\n"
    "    const float *x = in[0].data;\n"
    "    float *y = out[0].data;\n"
    "    for (int64_t i = 0; i < in[0].shape[0]; i++)\n"
    "        y[i] = fmaxf(x[i], 0) + log1pf(expf(-fabsf(x[i])));\n"
    "}\n";

/* d softplus / dx = sigmoid(x): what comes from behind, times that. */
static qn_code slope(qn_ctx *qn, void *arg, qn_tensor *const *inputs, qn_tensor *const *results,
                     qn_tensor *const *upstream, qn_tensor **slopes) {
    (void)qn, (void)arg, (void)results;
    slopes[0] = qn_mul(upstream[0], qn_sigmoid(inputs[0]));
    return QN_OK;
}

int main(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) return 1;

    /* Elements do not look at each other, so any number of rows is a call: threads divide them. */
    qn_custom_options options =
        QN_CUSTOM_OPTIONS(.name = "softplus", .n_in = 1, .n_out = 1, .c_source = source,
                          .gradient = slope, .rows = true);
    options.in_dtypes[0] = options.out_dtypes[0] = QN_F32;
    qn_custom *softplus = qn_custom_new(qn, &options);
    if (!softplus) {
        printf("%s\n", qn_error(qn));
        qn_close(qn);
        return 1;
    }

    const float data[N] = {-30, -1, 0, 1, 30};
    const int64_t n = N;
    qn_tensor *x = qn_from(qn, QN_F32, 1, &n, data), *y, *dx, *ddx;
    qn_custom_call(softplus, 1, &x, 1, &(qn_custom_shape){1, &n}, &y);
    qn_grad(y, NULL, 1, &x, &dx);
    qn_grad(dx, NULL, 1, &x, &ddx); /* the slope is operations, so it goes on */

    float value[N], first[N], second[N];
    qn_read(y, value, sizeof value);
    qn_read(dx, first, sizeof first);
    qn_code code = qn_read(ddx, second, sizeof second);
    if (code) printf("%s\n", qn_error(qn));
    int wrong = code != QN_OK;
    for (int i = 0; i < N && !code; i++) {
        double s = 1 / (1 + exp(-(double)data[i])), x1 = data[i] > 0 ? data[i] : 0;
        double want = x1 + log1p(exp(-fabs((double)data[i])));
        printf("softplus(%5.1f) = %9.6f, slope %9.6f, of which the slope %9.6f\n", (double)data[i],
               (double)value[i], (double)first[i], (double)second[i]);
        wrong |= fabs(value[i] - want) > 1e-6 * want || fabs(first[i] - s) > 1e-6 ||
                 fabs(second[i] - s * (1 - s)) > 1e-6;
    }
    qn_close(qn);
    return wrong;
}
