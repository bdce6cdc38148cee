/* model.h - what the files of the scheduler share: the clone a schedule is tried on, and questions
 * about its loops. */
#ifndef QN_KERN_MODEL_H
#define QN_KERN_MODEL_H

#include "kern/kern.h"

enum {
    MODEL_CHAIN = 32,
    MODEL_TILES = 8,        /* that one loop reduces into */
    MODEL_PAGE = 4096,      /* bytes, to which the processor's own prefetching goes */
    MODEL_ITEM_WORK = 16384 /* operations in a parallel trip, at least */
};

typedef struct model {
    kern *k; /* the clone */
    const kern_limits *limits;
    str *out;
    int lanes; /* of a vector of this kernel's elements */
    int next;  /* number for names */
    /* loops: what the one copies from memory the other can ask for in time */
    char copy[40], use[40];
} model;

typedef struct model_chain { /* perfectly nested loops by name, outermost first */
    int n;
    char name[MODEL_CHAIN][40];
    kstmt body; /* the innermost */
} model_chain;

static inline kern_stmt *model_at(const model *m, kstmt s) {
    return kern_s(m->k, s);
}
static inline const char *model_name(const model *m, kstmt s) {
    return sym_name(m->k->syms, model_at(m, s)->l.var);
}
static inline int64_t model_trips(const model *m, kstmt s) {
    return kern_most_trips(m->k, s);
}
static inline kstmt model_find(const model *m, const char *name) {
    return kern_find_loop(m->k, name);
}

/* ---- model.c --------------------------------------------------------------------------------- */

int model_lanes(const model *m); /* of a vector of this kernel's widest elements */
/* Try a line; where it is legal it is part of the schedule. */
bool model_apply(model *m, const char *fmt, ...) QN_PRINTF(2, 3);
model_chain model_chain_of(const model *m, kstmt loop);
/* The loops of the copy that the last `stage` made in that loop's body; false: none was made. */
bool model_staged(const model *m, const char *where, model_chain *copy);
/* A copy by the two loops goes through squares turned in registers; false: it cannot. */
bool model_turn(model *m, const char *outer, const char *inner);
void model_chain_drop(model_chain *c, int i);
bool model_chain_swap(model *m, model_chain *c, int i);   /* loops i and i + 1 */
void model_chain_inward(model *m, model_chain *c, int i); /* as far in as is legal */
/* Vector operations in one trip of everything below s, inner loops counted once. */
int model_ops(const model *m, kstmt s);
/* Operations of all trips of s, roughly. */
double model_work(const model *m, kstmt s);
/* How an access moves when the loop steps: by a constant (true), else false. */
bool model_step(model *m, const kern_touch *t, sym var, int64_t *step);
bool model_is_arg(const model *m, const kern_touch *t);
/* Do all accesses below treat (outer, inner) as one index: outer's step = inner's * extent? */
bool model_in_step(model *m, kstmt outer, kstmt inner);
void model_merge_in_step(model *m, model_chain *c);

/* Accesses of arguments below s that step by one with the loop; stores count double. */
int model_contiguous(model *m, kstmt s, sym var);
/* With loops inside, all together; with `own` (SYM_ZERO: all) of what moves with that variable. */
int model_contiguous_inside(model *m, kstmt body, sym own);
int model_most_contiguous(model *m, const model_chain *c); /* the chain's loop of most of them */
/* An argument that is written, and so large that it is to go past the caches. */
bool model_past_caches(const model *m, kmem i);
bool model_has_inner(const model *m, kstmt loop); /* more than stores in its body? */
/* The tiles that a leaf loop's statements reduce into, each once; 0 where one does something else.
 */
int model_reduced_tiles(const model *m, kstmt leaf, kmem tile[MODEL_TILES]);

/* Does a row of what the loop reads, so long or longer, come from memory? */
bool model_streams(model *m, kstmt loop, int64_t bytes);

/* ---- model_pipeline.c ------------------------------------------------------------------------ */

/* Schedule rows, the loops of one after the other, so that the loops of several rows run as one;
 * false where that does not pay or is not legal, and nothing has changed. */
bool model_pipeline(model *m, model_chain *c);

/* ---- model_move.c ---------------------------------------------------------------------------- */

/* Cut the two innermost loops of a chain that reads along one loop and writes along another into
 * blocks, and vectorise them; what is left in the chain are the loops over blocks. false: it does
 * not, and nothing has been cut. */
bool model_crossed(model *m, model_chain *c);

/* ---- model_grid.c ---------------------------------------------------------------------------- */

/* The whole schedule for a device with work groups; `plainly`: items of one member. */
void model_grid(model *m, bool plainly);

/* ---- model_contract.c ------------------------------------------------------------------------ */

/* Schedule a contraction; false where the loop is none. */
bool model_contract(model *m, kstmt loop);
/* A copy (its chain of loops) whose source is contiguous along loop number `deep`, its target along
 * the innermost: vectors of the one for each trip of the other are turned in registers. */
void model_copy_across(model *m, const model_chain *c, int deep);

/* ---- model_block.c --------------------------------------------------------------------------- */

/* Schedule rows with products inside; false where the loop is none. */
bool model_block(model *m, kstmt loop);

/* ---- model_conv.c ---------------------------------------------------------------------------- */

/* Schedule a contraction over windows, or one that has more loops than rows, columns and a sum;
 * false where the loop is none. */
bool model_conv(model *m, kstmt loop);
/* What lanes gather from places apart, and other loops than the outermost do not move (the weights
 * of a depthwise convolution), is copied once a trip of `root` in the order of the lanes. */
void model_gather_once(model *m, const char *root, const char *lanes);

#endif
