/* quern_custom.h - kernels of your own, among the graph's: a function of this process, C that is
 * compiled as the program runs, or loops as text, which are scheduled for the machine, too. What is
 * around them still fuses; in plans, static graphs, bodies of loops and maps they are launches like
 * others, computed by the host.
 *
 *     static void clip(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
 *         const float *x = in[0].data, most = *(const float *)arg;
 *         float *y = out[0].data;
 *         for (int64_t i = 0; i < in[0].shape[0]; i++) y[i] = x[i] < most ? x[i] : most;
 *     }
 *     qn_custom_options o = QN_CUSTOM_OPTIONS(.name = "clip", .n_in = 1, .in_dtypes = {QN_F32},
 *         .n_out = 1, .out_dtypes = {QN_F32}, .function = clip, .arg = &most, .rows = true);
 *     qn_custom *k = qn_custom_new(qn, &o);
 *     qn_custom_call(k, 1, &x, 1, &(qn_custom_shape){1, &n}, &y);
 */
#ifndef QUERN_CUSTOM_H
#define QUERN_CUSTOM_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_custom qn_custom;

/* Elements without gaps, row-major, in this process's memory. C that is given as text sees the same
 * struct, with `int dtype`. */
typedef struct qn_custom_array {
    void *data;
    qn_dtype dtype;
    int rank;
    const int64_t *shape;
} qn_custom_array;

/* Compute all elements of out[0..n_out) of in[0..n_in). Equal inputs give equal results: a call
 * that is recorded once may be made once for several uses, again, or not at all. It cannot fail;
 * bad input should give NaN. It may not call Quern. Results overlap nothing. */
typedef void qn_custom_function(void *arg, const qn_custom_array *in, const qn_custom_array *out);

/* Record slopes[i], of inputs[i]'s dtype and shape, of upstream[k], a tensor in the place of the
 * gradient of results[k], and of anything else; NULL, as it is before: nothing comes to that input.
 * upstream[k] is NULL where the dtype is no float. It is called once in each qn_custom_call, and
 * what it records follows the rules of qn_custom_gradient. A slope that is made of inputs can be
 * differentiated again; of one that is made of results only the upstream part. It may call kernels,
 * also this one: their gradients are recorded in turn, 8 levels deep; that of a call below
 * is QN_EGRAPH. So a sine by a cosine and back has 8 derivatives. Another code than QN_OK gives the
 * call up. */
typedef qn_code qn_custom_slopes(qn_ctx *qn, void *arg, qn_tensor *const *inputs,
                                 qn_tensor *const *results, qn_tensor *const *upstream,
                                 qn_tensor **slopes);

#define QN_CUSTOM_INPUTS  3
#define QN_CUSTOM_RESULTS 5
typedef struct qn_custom_options {
    size_t size;      /* QN_CUSTOM_OPTIONS() */
    const char *name; /* for errors and profiles: a name of C */
    int n_in, n_out;  /* from 1 on */
    qn_dtype in_dtypes[3], out_dtypes[5];
    /* One of them, or `kernel` below. The text defines a qn_custom_function called `name`; the
     * struct is declared, and <stdint.h> included, before it. It is compiled by the program of knob
     * cc. */
    qn_custom_function *function;
    const char *c_source;
    qn_custom_slopes *gradient; /* NULL: there is none, and asking for one is QN_EGRAPH */
    void *arg;                  /* for both, alive until qn_close */
    /* All inputs and results have equally many rows along axis 0, and a row of the results follows
     * from one row of each input. The function is then called for some rows at a time, shape[0]
     * saying how many, from several threads at once. Else once for all, from one thread. */
    bool rows;
    double cost; /* of a row, in nanoseconds; 0: one for each element */
    /* Loops, as docs/kernels.md has them. Arguments that are written are the results, in order, and
     * those that are only read the inputs. Results begin as zeros. The text is checked to stay
     * within its arguments, scheduled and compiled as the library's own kernels. */
    const char *kernel;
    /* Of each input the sizes of its axes, integers or dimensions of the text, as "n m, m": they
     * give the dimensions their values. Inputs whose axes do not matter have a *. */
    const char *axes;
} qn_custom_options;
#define QN_CUSTOM_OPTIONS(...) QN_STRUCT(qn_custom_options, __VA_ARGS__)

typedef struct qn_custom_shape {
    int rank;
    const int64_t *shape; /* sizes, also such that vary */
} qn_custom_shape;

/* A kernel of this context, there until it is closed. What `options` has is copied. QN_EARG: no
 * name or not one of C, no or two kinds of code, numbers of tensors out of range, or others than
 * the text of loops has, axes that leave a dimension without value; QN_EDTYPE: one that no tensor
 * has; QN_EFORMAT: text of loops that is none, or that cannot be proved to stay within its
 * arguments, by line of the text; QN_EDEVICE: the C compiler is not there or refuses the text, with
 * what it says first, by line of the text. */
QN_API qn_custom *qn_custom_new(qn_ctx *qn, const qn_custom_options *options);

/* results[k], of shapes[k] and the dtypes that the kernel was made with; NULL after an error.
 * QN_EDTYPE, QN_ESHAPE name the input or result that does not fit the kernel. In qn_vmap an example
 * is a call of the function, or, of rows, more rows. */
QN_API qn_code qn_custom_call(qn_custom *kernel, int n_in, qn_tensor *const *inputs, int n_out,
                              const qn_custom_shape *shapes, qn_tensor **results);

#ifdef __cplusplus
}
#endif

#endif
