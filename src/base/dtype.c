/* dtype.c - the rows of dtypes.h as data, and what the public functions tell of them. */
#include "base/base.h"

#include <math.h>

enum { TOP_NAN, TOP_INF };

const dtype_row dtype_rows[DTYPE_COUNT] = {
#define X(NAME, text, width, KIND, order, ACC, SUM, C, digits, exponent, TOP)                      \
    [QN_##NAME] = {.name = text,                                                                   \
                   .file = #NAME,                                                                  \
                   .c_type = #C,                                                                   \
                   .bits = width,                                                                  \
                   .kind = KIND_##KIND,                                                            \
                   .rank = order,                                                                  \
                   .acc = QN_##ACC,                                                                \
                   .sum = QN_##SUM,                                                                \
                   .fraction = digits,                                                             \
                   .least = exponent,                                                              \
                   .infinite = TOP_##TOP},
#include "base/dtypes.h"
#undef X
};

typedef struct complex_row {
    const char *name;
    uint8_t size, part;
} complex_row;
static const complex_row complex_rows[COMPLEX_END - COMPLEX_FIRST] = {
#define COMPLEX(NAME, text, bits, PART) {text, bits / 8, QN_##PART},
#include "base/dtypes.h"
#undef COMPLEX
};

qn_dtype dtype_part(qn_dtype d) {
    return dtype_is_complex((int)d) ? (qn_dtype)complex_rows[d - COMPLEX_FIRST].part : d;
}

qn_dtype dtype_of_parts(qn_dtype part) {
    return part == QN_F64 ? QN_C128 : QN_C64;
}

double dtype_epsilon(int d) {
    int part = dtype_part((qn_dtype)d);
    return ldexp(1, -dtype_rows[dtype_is_float(part) ? part : QN_F32].fraction);
}

bool dtype_refuse(qn_ctx *qn, const char *call, int dtype) {
    if (dtype_is_complex(dtype))
        fail(qn, QN_EDTYPE, "%s: it has no meaning for %s", call, qn_dtype_name((qn_dtype)dtype));
    else
        fail(qn, QN_EDTYPE, "%s: %d is no dtype", call, dtype);
    return false;
}

size_t qn_dtype_size(qn_dtype dtype) {
    if (dtype_is_complex((int)dtype)) return complex_rows[dtype - COMPLEX_FIRST].size;
    return dtype_is_known((int)dtype) ? dtype_rows[dtype].bits / 8u : 0;
}

const char *qn_dtype_name(qn_dtype dtype) {
    if (dtype_is_complex((int)dtype)) return complex_rows[dtype - COMPLEX_FIRST].name;
    return dtype_is_known((int)dtype) ? dtype_rows[dtype].name : "unknown dtype";
}
