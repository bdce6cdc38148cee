/* call.h - what a CALL node says: which routine, which of its results, and attributes (routines.h).
 * It needs no other header: exported programs have it, too (export/routines.c). */
#ifndef QN_GRAPH_CALL_H
#define QN_GRAPH_CALL_H

/* The routines that CALL nodes name: routines.h. */
enum {
#define X(NAME, ...) ROUTINE_##NAME,
#include "graph/routines.h"
#undef X
    ROUTINE_COUNT
};
/* FFT of pairs to pairs; of real numbers to the first half of a spectrum; and of that to those. */
enum { CALL_FFT_COMPLEX, CALL_FFT_REAL_IN, CALL_FFT_REAL_OUT };
enum { ROUTINE_RESULTS = 5, ROUTINE_SOURCES = 3 };
/* CUSTOM's attributes; those from CUSTOM_SIZES on are sizes, which no other routine has. */
enum { CUSTOM_KERNEL, CUSTOM_LEADING, CUSTOM_RANKS, CUSTOM_SIZES = 4 };
enum { ROUTINE_ATTRS = CUSTOM_SIZES + ROUTINE_RESULTS * QN_MAX_RANK };
enum { DRAW_LOG_GAMMA = 0, DRAW_GAMMA = 1, DRAW_POISSON = 2, DRAW_TRUNCATED = 3 }; /* DRAW's */
/* Result number `result` of a routine; n attributes beside. */
typedef struct call_attr {
    int routine, result, n;
    int64_t attr[ROUTINE_ATTRS];
} call_attr;

#endif
