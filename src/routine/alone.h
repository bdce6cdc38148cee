/* alone.h - what routines need where there is no library: of the base room and quern.h in exported
 * programs, whose text begins with this (export/routines.c). Values are those of quern.h. */
#ifndef QN_ROUTINE_ALONE_H
#define QN_ROUTINE_ALONE_H

#include <stdbool.h>
#include <stddef.h>

#define ROUTINE_ALONE
#if defined(QN_EXPORT_PLAIN) || !defined(__GNUC__)
#define ROUTINE_PLAIN /* no vectors */
#endif
#ifdef __GNUC__
#define ROUTINE_LINK static __attribute__((unused))
#else
#define ROUTINE_LINK static
#endif

enum { QN_MAX_RANK = 12 };
typedef enum qn_dtype {
#define X(NAME, ...) QN_##NAME,
#include "base/dtypes.h"
#undef X
    DTYPE_COUNT
} qn_dtype;

ROUTINE_LINK size_t qn_dtype_size(qn_dtype d) {
    static const unsigned char bits[] = {
#define X(NAME, name, bits, ...) bits,
#include "base/dtypes.h"
#undef X
    };
    return bits[d] / 8u;
}

ROUTINE_LINK bool dtype_is_float(int d) {
    enum { BOOL, SIGNED, UNSIGNED, FLOAT, NARROW };
    static const unsigned char kind[] = {
#define X(NAME, name, bits, KIND, ...) KIND,
#include "base/dtypes.h"
#undef X
    };
    return kind[d] >= FLOAT;
}

typedef void (*pool_work)(void *arg, int thread, int64_t begin, int64_t end);
typedef struct qn_custom_options qn_custom_options;

#endif
