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

size_t routine_scratch(routine_call *c); /* of all parts, once the sizes are known */
void routine_run(const routine_call *c);
/* Elements of the last axis, and how many such rows there are. */
int64_t row_length(const routine_array *a);
int64_t row_count(const routine_array *a);
static inline bool routine_wants(const routine_call *c, int result) {
    return c->wanted >> result & 1;
}

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

/* ---- order.c: numbers as integers in the same order ------------------------------------------ */

/* Element i of an array as an unsigned integer of its width: these compare as the elements do, -0
 * and 0 being equal, and all NaN equal and the largest. */
uint64_t order_key(qn_dtype dtype, const void *data, int64_t i);
int order_bits(qn_dtype dtype); /* of such a key */
/* n keys; `flip` is exclusive-ored to each: all ones turn the order around. Do all of them say
 * which element it was, bit by bit? And the elements of such keys. */
bool order_keys32(qn_dtype dtype, const void *data, int64_t n, uint32_t flip, uint32_t *out);
bool order_keys64(qn_dtype dtype, const void *data, int64_t n, uint64_t flip, uint64_t *out);
void order_values32(qn_dtype dtype, const uint32_t *key, int64_t n, uint32_t flip, void *out);
void order_values64(qn_dtype dtype, const uint64_t *key, int64_t n, uint64_t flip, void *out);

/* ---- radix.c: sorting integers --------------------------------------------------------------- */

__extension__ typedef unsigned __int128 uint128;

/* Sort n words by their bits from `low` up to `high`; equal ones stay in their order. `spare` has
 * room for n, too. */
void radix_sort32(uint32_t *a, uint32_t *spare, int64_t n, int low, int high);
void radix_sort64(uint64_t *a, uint64_t *spare, int64_t n, int low, int high);
void radix_sort128(uint128 *a, uint128 *spare, int64_t n, int low, int high);
/* The same of all 32 bits; false: not here, nothing was done (quick.c). And by vectors of 8 or 16
 * words alone: only on x86-64, where the processor has them. */
bool quick_sort32(uint32_t *a, uint32_t *spare, int64_t n);
bool quick_has32(int lanes);
void quick_sort32_by8(uint32_t *a, uint32_t *spare, int64_t n);
void quick_sort32_by16(uint32_t *a, uint32_t *spare, int64_t n);
/* Bring the k that come first in that order to the front, themselves in no order. */
void radix_select64(uint64_t *a, uint64_t *spare, int64_t n, int64_t k, int low, int high);
void radix_select128(uint128 *a, uint128 *spare, int64_t n, int64_t k, int low, int high);

#endif
