/* quern_onnx.h - models in the ONNX format, read as functions of tensors, and written.
 *
 * A model is read once. Calling it records its operations on the caller's tensors, as any other
 * function of Quern does: results are lazy, can be differentiated and be made a static graph.
 *
 *     qn_onnx *model = qn_onnx_open(qn, "model.onnx");
 *     qn_tensor *y;
 *     qn_onnx_run(model, 1, &x, 1, &y);
 *     qn_onnx_close(model);
 *
 * What outputs were recorded from inputs can be written as a model:
 *
 *     qn_tensor *y = qn_relu(qn_matmul(x, w));
 *     qn_onnx_save("layer.onnx", 1, &x, 1, &y, NULL);
 *
 * docs/onnx.md says which operators there are, what is read differently from the standard, and how
 * operations are written. */
#ifndef QUERN_ONNX_H
#define QUERN_ONNX_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ------------------------------------------------------------------------------ */

typedef struct qn_onnx qn_onnx;

/* Read a model and check its structure; weights in files beside it are read when they are first
 * used, and lie in the model's folder or below. QN_EFORMAT, with the byte, for what is damaged; an
 * operator that there is none of is an error when the model is called. Close it before its context.
 */
QN_API qn_onnx *qn_onnx_open(qn_ctx *qn, const char *path);
/* The same of bytes in memory, which are copied. folder: where other files may lie, or NULL: the
 * model has none. */
QN_API qn_onnx *qn_onnx_parse(qn_ctx *qn, const void *data, size_t size, const char *folder);
QN_API void qn_onnx_close(qn_onnx *model);

/* What an input or output is. Texts are valid until the model is closed. */
typedef struct qn_onnx_value {
    const char *name;
    int type;          /* TensorProto.DataType; 0: not said, or no tensor */
    qn_dtype dtype;    /* of the tensor that stands for it: of narrow types that Quern lacks (4 bits
                     * and the like) a wider one that holds their values */
    int rank;          /* -1: not said */
    bool optional;     /* an input that has a value in the model */
    int64_t shape[12]; /* -1: varies */
    const char *dim_name[12]; /* of what varies, or NULL */
} qn_onnx_value;
/* Into out, of `size` bytes; false past the last, and of what is no tensor of a type that is read.
 */
QN_API bool qn_onnx_input_at(const qn_onnx *model, int i, qn_onnx_value *out, size_t size);
QN_API bool qn_onnx_output_at(const qn_onnx *model, int i, qn_onnx_value *out, size_t size);
QN_API int qn_onnx_inputs(const qn_onnx *model); /* how many; 0 on error */
QN_API int qn_onnx_outputs(const qn_onnx *model);

/* ---- calling ----------------------------------------------------------------------------- */

/* Record the model on n inputs, in its order; NULL, or left out at the end: the value that the
 * model has. outputs[i] receives the first m outputs, NULL where the model leaves one out. Sizes
 * are those of the inputs. What shapes follow from, or which branch is taken, must be known: where
 * it is made of the inputs' values these are computed now, and read. */
QN_API qn_code qn_onnx_call(qn_onnx *model, int n, qn_tensor *const *inputs, int m,
                            qn_tensor **outputs);
/* Did the last call read values that follow its inputs? Then what it recorded holds for these
 * values only, and must not be made a static graph. */
QN_API bool qn_onnx_depends(const qn_onnx *model);
/* Were these values made of input i, with others or alone? Inputs from 63 on count as one. */
QN_API bool qn_onnx_reads(const qn_onnx *model, int i);
/* Give input i a value, which calls have that give none for it, in place of the model's own; it is
 * known, as those of the model's are: a static graph may be made of what follows it. The value is
 * read and copied; NULL: there is none again. QN_EDTYPE, QN_ESHAPE: the model takes no such. */
QN_API qn_code qn_onnx_fix(qn_onnx *model, int i, qn_tensor *value);
/* As qn_onnx_call, computed at once, by a static graph of the inputs' dtypes and shapes, which is
 * kept for the next run, where the model does not depend on values. Outputs have no history. */
QN_API qn_code qn_onnx_run(qn_onnx *model, int n, qn_tensor *const *inputs, int m,
                           qn_tensor **outputs);

/* Name and versions (first and last opset; last 0: up to the newest) of operator i that there is,
 * "" being the standard's domain; false past the last. */
QN_API bool qn_onnx_operator_at(int i, const char **domain, const char **name, int *first,
                                int *last);

/* ---- writing ----------------------------------------------------------------------------- */

typedef struct qn_onnx_save_options {
    size_t size; /* QN_ONNX_SAVE_OPTIONS() */
    /* By input and by output, each NULL for "input_0", "output_0" and so on; NULL: all of them. */
    const char *const *input_names, *const *output_names;
    const char *name; /* the graph's; NULL: "graph" */
    /* A file for the parameters, a name in the model's folder; NULL: they are in the model, unless
     * it is of 2 GiB or more with them: then "NAME.onnx.data", for a model NAME.onnx. */
    const char *data;
    bool bound; /* sizes that vary are what they are bound to now; false: they vary in the model */
} qn_onnx_save_options;
#define QN_ONNX_SAVE_OPTIONS(...) QN_STRUCT(qn_onnx_save_options, __VA_ARGS__)

/* Write what n_out >= 1 outputs compute of n_in inputs, as it was recorded, to the file `path`:
 * opset 20, or 26 where bits of floats are looked at. Inputs are realized tensors, as those of
 * qn_plan_new; all other memory that the outputs use is written as parameters, with its tensors'
 * names and as it is now. A dimension variable that is a size of an input is one of the model's, by
 * its name; others have the values that they are bound to. Pending assignments are made, outputs
 * are not computed. An existing file is replaced by a whole one.
 * QN_EARG: names that are not UTF-8 or come twice, or a bad name for data; QN_EGRAPH: an input is
 * an expression, or ONNX has no form of an operation, which the error names: kernels of one's own,
 * loops, factors of matrices, and the others that docs/onnx.md lists; QN_EDTYPE: a complex tensor,
 * or an operation on a dtype for which there is none; QN_ESHAPE: a size that must be known is not;
 * QN_ERANGE: the model is of 2 GiB and more without its parameters; QN_EDEVICE: a device that
 * computes nothing; QN_EIO: a file cannot be written. */
QN_API qn_code qn_onnx_save(const char *path, int n_in, qn_tensor *const *inputs, int n_out,
                            qn_tensor *const *outputs, const qn_onnx_save_options *options);

#ifdef __cplusplus
}
#endif
#endif
