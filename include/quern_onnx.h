/* quern_onnx.h - models in the ONNX format, as functions of tensors.
 *
 * A model is read once. Calling it records its operations on the caller's tensors, as any other
 * function of Quern does: results are lazy, can be differentiated and be made a static graph.
 *
 *     qn_onnx *model = qn_onnx_open(qn, "model.onnx");
 *     qn_tensor *y;
 *     qn_onnx_run(model, 1, &x, 1, &y);
 *     qn_onnx_close(model);
 *
 * docs/onnx.md says which operators there are, and what is read differently from the standard. */
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
/* As qn_onnx_call, computed at once, by a static graph of the inputs' dtypes and shapes, which is
 * kept for the next run, where the model does not depend on values. Outputs have no history. */
QN_API qn_code qn_onnx_run(qn_onnx *model, int n, qn_tensor *const *inputs, int m,
                           qn_tensor **outputs);

/* Name and versions (first and last opset; last 0: up to the newest) of operator i that there is,
 * "" being the standard's domain; false past the last. */
QN_API bool qn_onnx_operator_at(int i, const char **domain, const char **name, int *first,
                                int *last);

#ifdef __cplusplus
}
#endif
#endif
