/* machine.h - what is known of the processor or device that kernels run on: one record, read by the
 * planner, the schedulers and the cost model.
 *
 * A quantity stands here once, named, with its reason in fields.h or families.h. It comes from the
 * row of the processor's family, from what the system says, or from a file (knob machine), by which
 * the schedules of any machine can be made and tested on any other. The same record gives the same
 * schedules. */
#ifndef QN_MACHINE_H
#define QN_MACHINE_H

#include "base/base.h"

typedef struct machine {
    const char *name; /* of the family, or "generic" */
#define X(name, ...) int64_t name;
#include "machine/fields.h"
#undef X
    /* of the device at hand */
    int threads;
    int members;         /* most of a work group; 0: items have no groups (the above counts) */
    int64_t group_bytes; /* of memory that a group shares */
    int dots;            /* ir_dot bits: instructions worth using */
    bool no_fma;         /* no multiply-add in one instruction: a product in a sum is rounded */
} machine;

/* Rates and habits that hold of most machines. */
#define MACHINE_HABITS .line = 64, .page = 4096, .l2_rate = 20, .l3_rate = 16, .memory_from = 4

/* A careful machine of which nothing is known. */
machine machine_generic(void);
/* This processor's family, else the generic one: rates and habits, not caches or registers. */
machine machine_here(void);
/* The fields as text, a line each; it is read back by machine_read. */
void machine_print(const machine *m, str *out);
/* What knob machine says takes the place of fields: a family's name, or a file of lines as
 * machine_print writes them, some or all. Raises QN_EARG with the line. */
void machine_choose(qn_ctx *qn, machine *m);
/* Name and description of family i; false past the last. Its record. */
bool machine_family(int i, const char **name, const char **doc);
machine machine_of_family(int i);

#endif
