/* transpose.h - what the two files of copies across share: the parts that their schedules are made
 * of (transpose.c), and those by lines of the result (lines.c). */
#ifndef QN_SCHEDULE_TRANSPOSE_H
#define QN_SCHEDULE_TRANSPOSE_H

#include "schedule/schedule.h"

/* ---- transpose.c ----------------------------------------------------------------------------- */

/* Elements of a cache line that are stored along the innermost loop. */
int64_t copy_line_elements(const scheduler *m);
/* Does the body load that operand once? A tile holds what one load takes. */
bool copy_loads_once(const scheduler *m, stmt_id body, mem_id operand);
/* Split the loop across the lines into vectors. */
loop2 copy_split_lanes(scheduler *m, loop_h l, const char *outer);
/* Peel a perfect nest: its loop number `i` in the copy for the rest, the outermost is 0. */
loop_h copy_peel_nest(scheduler *m, loop_h outermost, int i);
/* The nest y { v { .. } } loads along v and stores along y: vectors are transposed in registers,
 * where all iterations are sure to exist. */
void copy_transpose_nest(scheduler *m, loop_h v);
/* The copy of what the nest o { x { y { .. } } } loads into a tile, in the order of x and y. */
loop_chain copy_stage_block(scheduler *m, mem_id operand, loop_h o, loop_h x, loop_h y);

/* ---- lines.c --------------------------------------------------------------------------------- */

/* Does it pay to write the chain's large result by whole lines of the cache? */
bool copy_pays_by_lines(scheduler *m, const loop_chain *c, mem_id operand, loop_h along,
                        loop_h across);
/* Schedule it so. */
void copy_in_lines(scheduler *m, loop_chain *c, mem_id operand, loop_h along, loop_h across);

#endif
