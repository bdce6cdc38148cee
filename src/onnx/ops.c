/* ops.c - the table of operators. */
#include "onnx/onnx.h"

const onnx_row onnx_rows[] = {
#define X(domain, name, first, last, least, result, function, ...)                                 \
    {domain, name, first, last, least, RESULT_##result, function, __VA_ARGS__},
#include "onnx/ops.h"
#undef X
};
const int onnx_row_count = COUNT_OF(onnx_rows);
