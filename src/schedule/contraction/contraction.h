/* contraction.h - what the two files of the contraction's schedule share: what was decided
 * (contraction.c), and the loops of the nest by which it is built (contraction_nest.c). */
#ifndef QN_SCHEDULE_CONTRACTION_H
#define QN_SCHEDULE_CONTRACTION_H

#include "schedule/schedule.h"

/* Of an epilogue that is better walked along rows; columns of a dot product, at most. */
/* Loops, named as at the top of contraction.c; none where a shape does not get one. */
typedef struct nest {
    loop_h row, column; /* of the output */
    loop_h batch;       /* around them, where that is one loop */
    loop_h ip, jc, pc, ic, jr, ir, mr, u, v;
    loop_h part;     /* over the parts of a word */
    loop_h after[3]; /* those of the tile around the epilogue: lanes, vectors, rows */
    loop_h last;     /* around the epilogue, in the last block of a reduction that is cut */
} nest;

typedef struct plan {
    scheduler *m;
    const contraction_operand *a, *b; /* a: the rows' operand, b: the columns' */
    bool swapped;                     /* the rows' operand is the product's second factor */
    nest nest;
    loop_h sum; /* the reduction's loop (kr), of one block when it is cut; none: cut to prefetch */
    mem_id tile;
    int64_t rows, columns, depth, batch, size; /* size: bytes of an element of the sum */
    int word;                                  /* parts of a word; depth counts words. 1: none */
    bool odd;                                  /* the last word is not whole */
    int64_t panel;                             /* columns of a panel packed beforehand; 0: not */
    bool same_sign;                            /* signedness of the bytes of both operands */
    int mr, nv;
    int64_t block;                        /* depth of a block of the sum (KC) */
    int64_t row_parts, parts;             /* of rows, of columns: the grid of work items */
    int64_t row_block;                    /* row tiles in a block */
    bool pack_rows, pack_columns, beside; /* beside: columns are contiguous */
    bool uncached;    /* each panel reads the rows from behind the second-level cache */
    mem_id packed[2]; /* tiles of rows, of columns; 0: not packed */
    bool along;       /* along a row first: a row tile serves all the part's columns */
} plan;

/* Operations of an epilogue that is worth a loop: code size. */
enum { LONG_EPILOGUE = 10 };
static inline bool contraction_long_epilogue(int ops) {
    return ops >= LONG_EPILOGUE;
}

/* ---- contraction.c --------------------------------------------------------------------------- */

/* The operand's stride along that loop, in elements; INT64_MAX where it varies. */
int64_t contraction_step(const plan *p, const contraction_operand *o, loop_h l);
int64_t contraction_panel_bytes(const plan *p);

/* ---- contraction_nest.c ---------------------------------------------------------------------- */

/* Each takes steps that the plan asks for, and writes down the loops that it makes. */
bool contraction_build(plan *p);    /* the loops; false: the register tile failed */
void contraction_epilogue(plan *p); /* long ones, and those that store across the lanes */
void contraction_pack(plan *p);     /* both operands, where that was decided, and prefetch them */
void contraction_prefetch_streams(plan *p);
bool contraction_few_rows(plan *p,
                          int after); /* all; false: not few; `after`: the epilogue's length */
void contraction_share(plan *p);      /* among threads */

#endif
