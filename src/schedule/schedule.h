/* schedule.h - what the schedulers share: the clone a schedule is tried on, and questions about its
 * loops. */
#ifndef QN_SCHEDULE_H
#define QN_SCHEDULE_H

#include "machine/machine.h"
#include "transform/transform.h"

enum {
    LOOP_CHAIN = 32,
    SCHEDULE_TILES = 8,        /* that one loop reduces into */
    SCHEDULE_ITEM_WORK = 16384 /* operations in a parallel iteration, at least */
};

typedef struct scheduler {
    kernel *k; /* the clone */
    const machine *limits;
    str *out;
    int lanes; /* of a vector of this kernel's elements */
    int next;  /* number for names */
    /* loops: what `copy` copies from memory `use` can prefetch */
    char copy[40], use[40];
} scheduler;

typedef struct loop_chain { /* perfectly nested loops by name, outermost first */
    int n;
    char name[LOOP_CHAIN][40];
    stmt_id body; /* the innermost */
} loop_chain;

static inline ir_stmt *schedule_at(const scheduler *m, stmt_id s) {
    return ir_s(m->k, s);
}
static inline const char *schedule_name(const scheduler *m, stmt_id s) {
    return sym_name(m->k->syms, schedule_at(m, s)->l.var);
}
static inline int64_t schedule_trips(const scheduler *m, stmt_id s) {
    return ir_most_trips(m->k, s);
}
static inline stmt_id schedule_find(const scheduler *m, const char *name) {
    return ir_find_loop(m->k, name);
}

/* ---- schedule.c ------------------------------------------------------------------------------ */

int schedule_lanes(const scheduler *m); /* of a vector of this kernel's widest elements */
/* Try a line; where it is legal it becomes part of the schedule. */
bool schedule_apply(scheduler *m, const char *fmt, ...) QN_PRINTF(2, 3);
loop_chain loop_chain_of(const scheduler *m, stmt_id loop);
/* The loops of the copy that the last `stage` made in that loop's body; false: none was made. */
bool schedule_staged(const scheduler *m, const char *where, loop_chain *copy);
/* Transpose a copy by the two loops in registers, in squares; false: not possible. */
bool schedule_transpose_copy(scheduler *m, const char *outer, const char *inner);
void loop_chain_drop(loop_chain *c, int i);
bool loop_chain_swap(scheduler *m, loop_chain *c, int i);   /* loops i and i + 1 */
void loop_chain_inward(scheduler *m, loop_chain *c, int i); /* as far inside as is legal */
/* Vector operations in one iteration of everything below s, inner loops counted once. */
int schedule_ops(const scheduler *m, stmt_id s);
/* Operations of all iterations of s, roughly. */
double schedule_work(const scheduler *m, stmt_id s);
/* The access's stride along the loop; false where it is not constant. */
bool schedule_step(scheduler *m, const ir_access *t, sym var, int64_t *step);
bool schedule_is_arg(const scheduler *m, const ir_access *t);
/* Can (outer, inner) be one index to all accesses below: outer's stride = inner's * extent? */
bool schedule_in_step(scheduler *m, stmt_id outer, stmt_id inner);
void schedule_merge_in_step(scheduler *m, loop_chain *c);

/* Accesses of arguments below s that are contiguous along the loop; stores count double. */
int schedule_contiguous(scheduler *m, stmt_id s, sym var);
/* Along loops inside, in sum; with `own` (SYM_ZERO: all) of accesses that depend on that
 * variable. */
int schedule_contiguous_inside(scheduler *m, stmt_id body, sym own);
int schedule_most_contiguous(scheduler *m,
                             const loop_chain *c); /* the chain's loop with most of them */
/* Is it an argument that is written, and so large that stores should bypass the caches? */
bool schedule_past_caches(const scheduler *m, mem_id i);
bool schedule_has_inner(const scheduler *m, stmt_id loop); /* more than stores in its body? */
/* The tiles that a leaf loop's statements reduce into, each once; 0 where one is no reduction. */
int schedule_reduced_tiles(const scheduler *m, stmt_id leaf, mem_id tile[SCHEDULE_TILES]);

/* Does a row of what the loop reads, if so long or longer, come from memory? */
bool schedule_streams(scheduler *m, stmt_id loop, int64_t bytes);

/* ---- pipeline.c ------------------------------------------------------------------------------ */

/* Pipeline rows: the loops of several rows run as one. false where that does not pay or is not
 * legal, and nothing has changed. */
bool schedule_pipeline(scheduler *m, loop_chain *c);

/* ---- transpose.c ----------------------------------------------------------------------------- */

/* Block the two innermost loops of a chain that reads along one loop and writes along another, and
 * vectorize them; the chain keeps the loops over blocks. false: it is no such chain, and nothing
 * has changed. */
bool schedule_transpose(scheduler *m, loop_chain *c);

/* ---- workgroups.c ---------------------------------------------------------------------------- */

/* The whole schedule for a device with work-groups; `plainly`: groups of one member. */
void schedule_workgroups(scheduler *m, bool plainly);

/* ---- contraction.c --------------------------------------------------------------------------- */

/* Schedule a contraction; false where the loop is none. */
bool schedule_contraction(scheduler *m, stmt_id loop);
/* A copy (its chain of loops) whose source is contiguous along loop number `deep`, its target along
 * the innermost: transposed in registers. */
void schedule_copy_across(scheduler *m, const loop_chain *c, int deep);

/* ---- attention.c ----------------------------------------------------------------------------- */

/* Schedule rows with products inside; false where the loop is none. */
bool schedule_attention(scheduler *m, stmt_id loop);

/* ---- convolution.c --------------------------------------------------------------------------- */

/* Schedule a contraction over windows, or one that has more loops than rows, columns and a
 * reduction; false where the loop is none. */
bool schedule_convolution(scheduler *m, stmt_id loop);
/* Stage once an iteration of `root`, in the order of the lanes, what lanes gather from strided
 * memory independently of inner loops (the weights of a depthwise convolution). */
void schedule_gather_once(scheduler *m, const char *root, const char *lanes);

/* The default schedule for a lowered kernel, appended to `out` as transform lines. */
void schedule_default(const kernel *k, const machine *limits, str *out);

/* ---- cost.c ---------------------------------------------------------------------------------- */

/* The estimated cost of a scheduled kernel, after the passes; cycles are good for comparing
 * schedules of one kernel, and for little else. */
typedef struct schedule_price {
    double cycles, work, moved; /* in all; of instructions; of traffic between caches */
    double copies;              /* statements after unrolling */
    double items;               /* iterations of parallel loops; 0: there are none */
} schedule_price;
schedule_price schedule_price_of(kernel *k, const machine *limits); /* raises */

/* ---- search.c -------------------------------------------------------------------------------- */

typedef bool (*search_taker)(void *user,
                             const char *lines); /* a schedule; false: no more of them */
/* Give schedules to start from, the default one first; then those one change away from a schedule.
 * `k` is unscheduled; search_moves schedules it, in part. They raise. */
void search_seeds(const kernel *k, const machine *limits, search_taker take, void *user);
void search_moves(kernel *k, const char *lines, const machine *limits, search_taker take,
                  void *user);
/* Apply the lines, leaving out those that are not legal; the others are appended to `legal`. false:
 * the result cannot be proved sound. */
bool search_repair(kernel *k, const char *lines, str *legal);

#endif
