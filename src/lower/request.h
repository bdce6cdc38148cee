/* request.h - what the files of lowering one kernel share: its state, and requests for the value of
 * a node at an index. See lower.c. */
#ifndef QN_LOWER_REQUEST_H
#define QN_LOWER_REQUEST_H

#include "lower/lower.h"

enum { LOWER_MAX_PATH = 96 };

/* Kernels for any length have two variants: lengths from here on are scheduled as large. */
enum { LOWER_LARGE = 1 << 23 };

typedef struct answer {
    node_id node;
    int rank;
    sym index[QN_MAX_RANK];
    sym valid;
    expr_id value;
} answer;

typedef struct lower {
    qn_ctx *qn;
    graph *g;
    const fusion *f;
    const fuse_kernel *fk;
    kernel *k;
    lowered *out;
    uint32_t arg_cap;
    mem_id *memory; /* of each argument */
    uint32_t memory_cap;
    expr_id *param; /* of each of out->param */
    uint32_t param_cap, expr_cap;
    sym *var_from, *var_to; /* dimension variables, graph's and ours */
    uint32_t froms, from_cap, to_cap, var_cap;
    sym length; /* of a flat kernel */
    stmt_id path[LOWER_MAX_PATH];
    int depth;
    uint32_t loops;  /* reduction loops made, for their names */
    mem_id *partial; /* the tile of partial sums of each of fk->share[] that is complete, else 0 */
    answer *known;
    uint32_t knowns, known_cap;
    idset known_set;
} lower;

typedef struct at { /* an index into a node */
    int rank;
    sym index[QN_MAX_RANK];
    sym valid;
} at;

typedef struct state { /* the accumulator of a reduction or a scan */
    int monoid, n;
    mem_id tile[IR_STATES];
    qn_dtype dtype[IR_STATES];
} state;

/* ---- index.c --------------------------------------------------------------------------------- */

/* One more dimension variable, and what a launch gives for it. */
sym lower_variable(lower *l, const char *name, int64_t lo, int64_t hi, int given);
sym lower_dim(lower *l, sym dim);
/* Where a slice begins, or where padding puts its source. */
sym lower_offset_along(lower *l, const graph_node *x, int axis, int64_t written);
int lower_shape(lower *l, tuple_id shape, sym *dim);
int lower_node_shape(lower *l, node_id n, sym *dim);
sym lower_numel(lower *l, int rank, const sym *dim);
/* The row-major offset of an index, and back. */
sym lower_flatten(lower *l, int rank, const sym *dim, const sym *index);
void lower_unflatten(lower *l, sym offset, int rank, const sym *dim, sym *index);
mem_id lower_new_argument(lower *l, node_id n, sym size, int access, sym base);
mem_id lower_argument(lower *l, node_id n, int access);
sym lower_offset_of(lower *l, node_id n, const at *p);       /* of index p in node n's memory */
expr_id lower_parameter(lower *l, uint32_t slot, int dtype); /* a number that the launch gives */
/* A variable that it gives: an offset, or a number beside places. */
sym lower_slot(lower *l, uint32_t slot);

/* ---- request.c ------------------------------------------------------------------------------- */

uint32_t lower_place_in_order(const lower *l, node_id n);
/* The answer that is known to that question, by its number from 1; 0: none is. *hash is its. */
uint32_t lower_find(lower *l, const answer *key, uint64_t *hash);
uint32_t lower_remember(lower *l, const answer *a, uint64_t hash);
/* The value of n at p; of x's source s, which may be a number of the launch; of n, which is
 * computed here whether it is stored or not. */
expr_id lower_request(lower *l, node_id n, const at *p);
expr_id lower_operand(lower *l, const graph_node *x, int s, const at *p);
expr_id lower_compute(lower *l, node_id n, const at *p);
/* A contraction over the kernel's rows, when its sum is complete; 0: n is none. */
expr_id lower_partial_sum(lower *l, node_id n, const at *p);
/* Index into a tile by the axes that are no row of the kernel. */
sym lower_own_place(lower *l, const fuse_share *x, int rank, const sym *dim, const sym *index);

/* ---- reduce.c -------------------------------------------------------------------------------- */

/* How many loops of the path must be open for the index (and validity) to be defined. */
int lower_depth_of(const lower *l, const at *p);
/* Move a statement just appended to path[depth-1] before the loop the request came from. */
void lower_place(lower *l, int depth, stmt_id s);
stmt_id lower_open_loop(lower *l, const char *prefix, int number, sym extent);
/* The accumulator of values of dtype d, defined at that depth. */
state lower_open_state(lower *l, int by, qn_dtype d, int depth);
/* The term of reduction x at that index of its sources, and its mask. */
expr_id lower_term(lower *l, const graph_node *x, const state *t, const at *p, sym *valid);
expr_id lower_reduce(lower *l, node_id n, const at *p);
expr_id lower_scan(lower *l, const graph_node *x, const at *p);
/* n's value at p, from a tile over those axes. */
expr_id lower_buffer(lower *l, node_id n, const at *p, uint32_t axes);

/* ---- move.c ---------------------------------------------------------------------------------- */

/* The value of x, a movement, a JOIN or a gather, at p. */
expr_id lower_move(lower *l, const graph_node *x, const at *p);
expr_id lower_join(lower *l, const graph_node *x, const at *p);
expr_id lower_gather(lower *l, const graph_node *x, const at *p);
/* The computed part of an address: index * stride, and whether the index is in [0, size). */
void lower_computed(lower *l, expr_id index, sym stride, sym size, expr_id *dyn, expr_id *in_range);

#endif
