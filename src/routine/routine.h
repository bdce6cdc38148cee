/* routine.h - computations that are no loop nests, in plain C: sorting, factorisations.
 *
 * A routine gets its sources and the results that are wanted as arrays without gaps in this
 * process's memory, and scratch of a size that it named before. It takes no memory, cannot fail,
 * and gives the same bits on any number of threads: what is divided is rows (or matrices), never
 * the work on one. graph/routines.h says what each is to do. */
#ifndef QN_ROUTINE_H
#define QN_ROUTINE_H

#include "base/base.h"
#include "graph/graph.h"

/* How functions are seen that are used beyond their file. An exported program, which is one file
 * and has the text of the routines that it calls (export/routines.c), says `static`. */
#ifndef ROUTINE_LINK
#define ROUTINE_LINK
#endif

typedef struct routine_array {
    qn_dtype dtype;
    int rank;
    int64_t dim[QN_MAX_RANK];
    void *data; /* results: of those that are wanted */
} routine_array;

typedef struct lapack lapack; /* a library that was looked for (routine/lapack) */

typedef struct routine_call {
    call_attr what; /* which result it names means nothing here */
    uint32_t wanted;
    int sources, threads;
    routine_array result[ROUTINE_RESULTS], source[ROUTINE_SOURCES];
    void (*share)(void *state, int64_t n, pool_work work, void *arg); /* dev_table's */
    void *state;
    const qn_custom_options *custom; /* of CUSTOM: the kernel */
    const lapack *lapack;            /* that is to compute it; NULL: our own code */
    /* found by routine_scratch: */
    int64_t items; /* that may be computed side by side, */
    int parts;     /* divided into so many parts, each with */
    size_t each;   /* so many bytes */
    void *scratch;
} routine_call;

/* What it costs: for routine_scratch to fill in. */
typedef struct routine_need {
    int64_t items;
    double work; /* of all of it, in nanoseconds or so */
    size_t each; /* bytes of scratch for one item at a time */
} routine_need;

/* ---- routine.c ------------------------------------------------------------------------------- */

#ifndef ROUTINE_ALONE
size_t routine_scratch(routine_call *c); /* of all parts, once the sizes are known */
void routine_run(const routine_call *c);
#endif
/* Elements of the last axis, and how many such rows there are. */
static inline int64_t row_length(const routine_array *a) {
    return a->rank ? a->dim[a->rank - 1] : 1;
}
static inline int64_t row_count(const routine_array *a) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < a->rank; i++) rows *= a->dim[i];
    return rows;
}
static inline const char *row_at(const routine_array *a, int64_t row) {
    return (const char *)a->data + (size_t)(row * row_length(a)) * qn_dtype_size(a->dtype);
}
static inline bool routine_wants(const routine_call *c, int result) {
    return c->wanted >> result & 1;
}

#ifndef ROUTINE_ALONE

/* ---- lapack: a library of others' factors (routine/lapack) ----------------------------------- */

/* Is it one for such a library? Routine, dtypes and sizes say so. */
bool lapack_suits(const routine_call *c);
/* As knob lapack has it: a name or a file, "no", or "" for what there is; never NULL. Raises where
 * memory ends. */
lapack *lapack_open(heap *h, const char *asked);
void lapack_close(heap *h, lapack *l);
bool lapack_here(const lapack *l);
/* The library's file, or why there is none. */
const char *lapack_told(const lapack *l);
/* Bytes of scratch for one item, and has it computed item `which`? If not, nothing was done. */
size_t lapack_scratch(const routine_call *c);
bool lapack_run(const routine_call *c, void *scratch, int64_t which);

/* One row each: what it needs, and items [from, to) with scratch of one part. */
#define X(NAME, name, ...)                                                                         \
    routine_need need_##name(const routine_call *c);                                               \
    void run_##name(const routine_call *c, void *scratch, int64_t from, int64_t to);
#include "graph/routines.h"
#undef X

#endif

#endif
