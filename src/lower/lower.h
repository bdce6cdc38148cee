/* lower.h - from the planner's kernels to loop trees, and what is decided before they are
 * scheduled. */
#ifndef QN_LOWER_H
#define QN_LOWER_H

#include "ir/ir.h"
#include "machine/machine.h"
#include "plan/plan.h"

/* ---- lower.c --------------------------------------------------------------------------------- */

/* A kernel of a fusion as an unscheduled tree, and what its launch must be given. */
typedef struct lowered {
    kernel *k;
    uint32_t args;
    node_id *arg; /* whose memory each argument is, the root's first */
    sym *base;    /* from which of its elements on, by graph->syms */
    int vars;
    int *var; /* graph->var number of each dimension variable, or LOWER_LENGTH: the root's numel, or
                 LOWER_SLOT: an offset of the request */
    uint32_t params;
    uint32_t *param; /* the slot of each parameter of the kernel: see plan/lift.c */
} lowered;
#define LOWER_LENGTH       (-1)
#define LOWER_SLOT(slot)   (-2 - (int)(slot)) /* and back */
#define LOWER_IS_SLOT(var) ((var) < LOWER_LENGTH)

/* Raises; `out->k` is set before anything can raise after it is open, so the caller can close
 * it. */
void lower_kernel(qn_ctx *qn, const fusion *f, const fuse_kernel *fk, lowered *out);

/* ---- fuse_reductions.c ----------------------------------------------------------------------- */

/* Fuse neighbouring reductions over the same memory into one pass. */
void fuse_reductions(kernel *k);

/* ---- seed.c ---------------------------------------------------------------------------------- */

/* Begin short sums of whole numbers with what is added to them. */
void seed_sums(kernel *k);

/* ---- split_reduction.c ----------------------------------------------------------------------- */

#define SPLIT_PARTS 8 /* most arguments that two stages pass on: components of all states */
/* What the first stage of a reduction passes to the second. */
typedef struct split_part {
    qn_dtype dtype;
    int64_t size; /* elements */
} split_part;
/* A lowered kernel that reduces many elements to few becomes its own second stage; `first`, set
 * before anything can raise, is then the one to be run before it, else NULL. Both have one more
 * argument than the kernel had for each part, behind the others. Returns how many parts there are,
 * 0: the kernel is no such reduction and stays. Raises. */
int split_reduction(kernel *k, kernel **first, split_part part[SPLIT_PARTS]);

/* ---- inplace.c ------------------------------------------------------------------------------- */

/* An output that may alias an input, by their numbers among the arguments; `rests`: it begins as a
 * copy of the input, if it is not the same memory. */
typedef struct inplace_pair {
    uint16_t out, in;
    bool rests;
} inplace_pair;
/* Mark argument number `out` as one that is to be written in place; it is then not stored
 * non-temporally. */
void inplace_mark(kernel *k, int out);
/* Of a kernel as it is emitted: all such pairs of marked outputs, `most` of them. They are proofs;
 * what cannot be proved is left out. */
int inplace_pairs(kernel *k, int most, inplace_pair *over);
/* Of a kernel as it was lowered: order the stores to outputs so that most can be in place. */
void inplace_order_stores(kernel *k);

/* ---- rest.c ---------------------------------------------------------------------------------- */

/* Where a kernel as it was lowered stores the input argument `old` to the output argument `out` but
 * for some elements, have it store these alone. true: so it does now, and has to be run on a copy
 * of `old` or over `old` itself. At most one input for an output, in the order of both. */
bool rest_drop(kernel *k, int out, int old);
/* All such outputs and inputs of a kernel, `most` of them. */
int rest_pairs(kernel *k, int most, inplace_pair *pair);

/* ---- prepack.c ------------------------------------------------------------------------------- */

/* How an operand of a product is packed in panels of columns. */
enum { PREPACK_SUMS = 6 };
typedef struct prepack {
    int arg, dtype;
    int64_t source, size;                         /* elements of the operand, of its panels */
    int64_t columns, column, base;                /* a[j, r..] = arg[column*j + row*r.. + base] */
    int sums;                                     /* loops of the sum, that do not go in step: */
    int64_t row[PREPACK_SUMS], end[PREPACK_SUMS]; /* step and extent of each, outermost first */
    int64_t rows;                                 /* terms of the sum */
    int64_t panels, words, width, parts;          /* the panels' dimensions */
    stmt_id update;                               /* in the tree: the sum's statement, */
    expr_id load;                                 /* the operand's load, and its variables: */
    sym j, r;                                     /* the column, the number of the term */
} prepack;
/* Is the lowered kernel a product whose columns' operand is that argument, and does packing it
 * beforehand pay? `width`: of the panels in which the scheduler would take it; 0: it leaves that to
 * prepack.c, which takes plain products. */
bool prepack_find(kernel *k, int arg, const machine *limits, int64_t width, prepack *out);
bool prepack_alike(const prepack *a, const prepack *b); /* are the panels the same? */
/* The kernel that packs: argument 0 from argument 1. Raises. */
kernel *prepack_kernel(qn_ctx *qn, const prepack *p);
/* Make the product read the panels, a further argument behind its others, instead of the
 * operand. */
void prepack_read(kernel *k, const prepack *p);

#endif
