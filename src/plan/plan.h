/* plan.h - which kernels, which memory.
 *
 * fuse.c decides for every node of a request where it is computed: INLINE (again in each consumer's
 * expression; reductions: in a register at a loop of the consumer), BUFFERED (in a tile of each
 * kernel that uses it), or STORED by some kernel. One kernel has a root node, whose axes are its
 * outer loops, and stores any number of further nodes it passes on its way (hosted outputs). The
 * result is a list of kernels in an order that can run. memory.c lays the temporaries' lifetimes
 * out in one arena. lift.c says which constants a launch gives, so that kernels do not depend on
 * them; key.c names a request by its structure, so that a training loop that rebuilds its graph
 * finds its plan again.
 *
 * A fusion refers to live nodes and is used at once: lower/lower.c turns each kernel into a loop
 * tree. What is kept (run) refers to slots only, never to nodes. */
#ifndef QN_PLAN_H
#define QN_PLAN_H

#include "base/base.h"
#include "graph/graph.h"
#include "machine/machine.h"

/* What is to be computed: the nodes in an order that can run, and the roots among them. */
typedef struct plan_request {
    uint32_t nodes, roots;
    node_id *order, *root;
    /* By root: 1 + the leaf that nobody wants afterwards and in whose memory the value may lie, 0:
     * none; NULL: none for any. */
    const uint32_t *over;
    /* By place in the order: memory that will hold the same value in most runs; NULL: none will. */
    const bool *lasting;
    const bool *rows; /* of a loop's body, by place: is it an argument that is a row of an array? */
} plan_request;

/* ---- lift.c ---------------------------------------------------------------------------------- */

/* Numbers of a request that its kernels take from the launch: their slots, in the key's order. */
#define LIFT_NONE   UINT32_MAX
#define LIFT_NUMBER (-1)
enum { LIFT_ROOT = 1, LIFT_NODE };
typedef struct plan_lift {
    const graph *g;
    const node_id *order;
    const bool *lasting; /* as in plan_request */
    bool none;           /* knob lift is 0 */
    uint32_t *first;     /* by place in the order: its first slot, if it has any */
    uint32_t **offset;   /* by place, then axis: 1 + an offset's slot, 0: none; NULL: none has */
    uint8_t *lifted;     /* by place: a bit for each source that is a number of the launch */
    uint8_t *use;        /* of constants: 0, or LIFT_ROOT, or LIFT_NODE: one takes it as it is */
    uint8_t *end;        /* by place: what becomes of it (lift.c) */
    uint32_t nodes, slots, cap;
    int64_t *value; /* by slot: a number as scalar_to_word has it, an offset, or what is beside
                       places, without its sign */
    int64_t *most;  /* of these two: it is in [0, most]; LIFT_NUMBER: it is neither */
} plan_lift;
/* Arena-owned; sets the nodes' marks to their places. Raises. */
plan_lift *lift_build(graph *g, arena *a, const plan_request *r);
bool lift_keeps(const plan_lift *l, uint32_t place);              /* is it a node of the key? */
uint32_t lift_operand(const plan_lift *l, uint32_t place, int s); /* the slot of its source s */
uint32_t lift_fill(const plan_lift *l, uint32_t place);           /* that of a root's own value */
/* Is what the slot gives to be negated: is it beside places, and c, the constant, below 0? */
bool lift_is_negative(const plan_lift *l, uint32_t slot, const graph_node *c);
/* That of where a slice begins, or where padding puts its source. */
uint32_t lift_offset(const plan_lift *l, uint32_t place, int axis);
/* A node's attributes without what is lifted; raises. */
tuple_id lift_attr(const plan_lift *l, graph *g, uint32_t place);

/* ---- fuse.c ---------------------------------------------------------------------------------- */

/* A node and some of its axes, as bits. */
typedef struct fuse_axes {
    node_id node;
    uint32_t axes;
} fuse_axes;

/* The axes that a list has for n: the first row counts; 0: it has none. */
static inline uint32_t fuse_axes_of(uint32_t count, const fuse_axes *list, node_id n) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i].node == n) return list[i].axes;
    return 0;
}

/* A further root whose contraction reduces over one of the kernel's rows: its partial sums are kept
 * in a tile, in the loops around that one. For each axis of what is summed, and of the root: 1 +
 * which of the rows it is, 0: a loop of its own. */
typedef struct fuse_share {
    node_id root, sum;
    uint8_t row[QN_MAX_RANK], root_row[QN_MAX_RANK];
    uint8_t over; /* the row that is summed over */
} fuse_share;

/* A kernel whose root is a piece of a JOIN, or what a PAD puts a border around, stores it there;
 * see join.c. */
typedef struct fuse_piece {
    node_id into;  /* 0: the root is stored as itself */
    bool bordered; /* into a PAD: the kernel stores the zeros around it, too */
    const sym *at; /* by axis: where the piece of a JOIN begins */
} fuse_piece;

/* An outer loop: over an axis of the root, or, where an axis is split, over a part of it: so many
 * trips, of so many elements each. */
typedef struct fuse_outer {
    uint8_t axis;
    int64_t extent, step; /* 0 and 1: the whole axis */
} fuse_outer;

typedef struct fuse_kernel {
    node_id root;
    fuse_piece piece;
    uint32_t outers;
    fuse_outer outer[3 * QN_MAX_RANK]; /* from the outermost inward */
    uint8_t reversed;                  /* an axis, from 1, whose loop goes from its end; 0: none */
    uint8_t columns; /* of a JOIN that is stored one by one in the same loops; 0: none (join.c) */
    uint32_t outs, ins;
    node_id *out; /* nodes it stores, the root first */
    node_id *in;  /* stored or leaf nodes it loads */
    uint32_t buffered_count, siblings;
    fuse_axes *buffered; /* nodes that it buffers in a tile over these axes */
    fuse_axes *sibling;  /* further roots, and which of their axes have loops of the root's */
    fuse_share *share;
    uint32_t shares;
    uint32_t rows;   /* the root's axes, as bits, over the rows of a block; 0: no such kernel */
    uint32_t common; /* the root's axes, as bits, whose loops contain the siblings */
    bool has_contraction; /* holds a contraction: its loops belong to the register tile */
    bool flat; /* every access is at the root's own index or a scalar: one loop, any length */
} fuse_kernel;

typedef struct fusion {
    graph *g;
    uint32_t nodes; /* order[0..nodes): nodes to compute and their leaves, sources first */
    node_id *order;
    uint32_t *pos;   /* by node id: 1 + place in order, 0 elsewhere */
    uint8_t *stored; /* by place: a kernel stores it, or it is a leaf with memory */
    uint32_t kernels;
    fuse_kernel *kernel; /* in an order that can run */
    const plan_lift *lift;
} fusion;

/* The properties of the device and the knobs on which fusion depends: never the number of threads,
 * or results would. */
typedef struct fuse_terms {
    bool everything_stored; /* no fusion at all (knob fuse=0) */
    int workers; /* that a kernel should have items for; 0: none may have tiles of megabytes */
    const machine *machine; /* its facts: see machine/fields.h */
} fuse_terms;
/* The first of a piece's elements, counted in the value that it is one of. */
sym fuse_piece_base(graph *g, const fuse_piece *p);
/* Arena-owned; raises. `lift` is of the same request, NULL: to be made. */
fusion *fuse_build(graph *g, arena *a, const plan_request *r, fuse_terms terms,
                   const plan_lift *lift);
static inline bool fuse_is_stored(const fusion *f, node_id n) {
    return f->pos[n] && f->stored[f->pos[n] - 1];
}

/* Axes of the tile in which the kernel buffers n's values; 0: it does not. */
static inline uint32_t fuse_buffered_axes(const fuse_kernel *k, node_id n) {
    return fuse_axes_of(k->buffered_count, k->buffered, n);
}

/* ---- use.c ----------------------------------------------------------------------------------- */

/* What one element of an operation costs beside its sources, in cycles of a vector: an operation of
 * one instruction takes one with what goes with it, of a longer one two instructions a cycle. */
double fuse_op_cost(const graph_node *x);

/* ---- sequence.c ------------------------------------------------------------------------------ */

/* Put the kernels into an order that needs little memory at once. `over`, by root: as in
 * plan_request. Raises. */
void fuse_sequence(fusion *f, arena *scratch, uint32_t roots, const node_id *root,
                   const uint32_t *over);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* A temporary: live from launch `first` to launch `last`, both included. */
typedef struct memory_block {
    uint32_t first, last;
    int64_t size;   /* bytes */
    int64_t offset; /* result */
} memory_block;

/* Offsets (64-byte aligned) such that blocks alive together never overlap; the arena's size.
 * Largest first, lowest fitting offset: within a few percent of the lower bound on our graphs.
 * `steps` is added how often something was compared. */
int64_t memory_layout(arena *a, uint32_t n, memory_block *block, uint64_t *steps);

/* ---- key.c ----------------------------------------------------------------------------------- */

/* The structure of a request as words: equal words <=> the same plan serves. Leaves are numbered by
 * first appearance. */
typedef struct plan_key {
    uint32_t *word;
    uint32_t words, values;
    uint64_t hash;
    int64_t *value;        /* what the launches are given: no part of the structure */
    const plan_lift *lift; /* in the arena that the key was built in */
} plan_key;
plan_key key_build(graph *g, arena *a, const plan_request *r);
void key_keep(graph *g, const plan_key *key); /* the tuples in it stay: see graph_keep */

#endif
