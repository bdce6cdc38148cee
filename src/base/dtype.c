/* dtype.c - the rows of dtypes.h as data, and what the public functions tell of them. */
#include "base/base.h"

enum { TOP_NAN, TOP_INF };

const dtype_row dtype_rows[DTYPE_COUNT] = {
#define X(NAME, text, width, KIND, order, ACC, C, digits, exponent, TOP)                           \
    [QN_##NAME] = {.name = text,                                                                   \
                   .file = #NAME,                                                                  \
                   .c_type = #C,                                                                   \
                   .bits = width,                                                                  \
                   .kind = KIND_##KIND,                                                            \
                   .rank = order,                                                                  \
                   .acc = QN_##ACC,                                                                \
                   .fraction = digits,                                                             \
                   .least = exponent,                                                              \
                   .infinite = TOP_##TOP},
#include "base/dtypes.h"
#undef X
};

static bool is_known(int d) {
    return d >= 0 && d < DTYPE_COUNT;
}

size_t qn_dtype_size(qn_dtype dtype) {
    return is_known((int)dtype) ? dtype_rows[dtype].bits / 8u : 0;
}

const char *qn_dtype_name(qn_dtype dtype) {
    return is_known((int)dtype) ? dtype_rows[dtype].name : "unknown dtype";
}
