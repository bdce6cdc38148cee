/* machine.h - what is known of the processor or device that kernels run on. */
#ifndef QN_MACHINE_H
#define QN_MACHINE_H

#include "base/base.h"

/* What a device tells the scheduler. */
typedef struct machine {
    int vector_bytes;   /* width of a vector register, e.g. 64 */
    int registers;      /* vector registers */
    int64_t l1, l2, l3; /* bytes; 0 when unknown */
    int threads;
    int members;         /* most of a work group; 0: items have no groups (the above counts) */
    int64_t group_bytes; /* of memory that a group shares */
    int dots;            /* ir_dot bits: instructions worth using */
    bool no_fma;         /* no multiply-add in one instruction: a product in a sum is rounded */
} machine;

#endif
