/* ops.c - the rows of ops.h as data.
 *
 * A column that holds "-" or NONE has to become a truth value in a constant initialiser. The text
 * of a formula is "-" exactly when it is one character long. For GRAD, a probe is pasted to the
 * name: PROBE_NONE alone expands to two arguments and so moves `false` into the second place. */
#include "graph/graph.h"

#include <math.h>

#define DEFINED(formula)      (sizeof(#formula) > sizeof("-"))
#define PROBE_NONE            ~, false
#define SECOND(a, b, ...)     b
#define SECOND_OF(...)        SECOND(__VA_ARGS__)
#define DIFFERENTIABLE(probe) SECOND_OF(probe, true, ~)

const op_row op_rows[OP_COUNT] = {
    [OP_NONE] = {.name = "none", .class_ = CLASS_NONE, .types = TYPES_NONE, .doc = "no operation"},
#define X(NAME, text, sources, CLASS, TYPES, F, I, VALUE, fcost, icost, GRAD, least, most, about)  \
    [OP_##NAME] = {.name = text,                                                                   \
                   .arity = sources,                                                               \
                   .class_ = CLASS_##CLASS,                                                        \
                   .types = TYPES_##TYPES,                                                         \
                   .has_float = DEFINED(F),                                                        \
                   .has_int = DEFINED(I),                                                          \
                   .by_formula = sizeof(#VALUE) == sizeof("FORMULA"),                              \
                   .cost = {fcost, icost},                                                         \
                   .differentiable = DIFFERENTIABLE(PROBE_##GRAD),                                 \
                   .lo = least,                                                                    \
                   .hi = most,                                                                     \
                   .doc = about},
#include "graph/ops.h"
#undef X
};

const routine_row routine_rows[ROUTINE_COUNT] = {
#define X(NAME, text, count, GRAD, EXAMPLES, about)                                                \
    [ROUTINE_##                                                                                    \
        NAME] = {.name = #text, .results = count, .examples = EXAMPLES_##EXAMPLES, .doc = about},
#include "graph/routines.h"
#undef X
};

int op_cost(int op, int dtype) {
    return op_rows[op].cost[!dtype_is_float(dtype)];
}

bool types_fit(int types, int d) {
    switch (types) {
    case TYPES_FLOAT:
        return dtype_is_float(d);
    case TYPES_NUM:
        return dtype_is_float(d) || dtype_is_int(d);
    case TYPES_INT:
        return dtype_is_int(d);
    case TYPES_BITS:
        return !dtype_is_float(d);
    default:
        return true;
    }
}
