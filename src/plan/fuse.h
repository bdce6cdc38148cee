/* fuse.h - what the files of the planner's fusion share: kernels under construction, and the uses
 * of nodes in them. See fuse.c. */
#ifndef QN_PLAN_FUSE_H
#define QN_PLAN_FUSE_H

#include "plan/plan.h"

enum {
    FUSE_MAX_LOOPS = 64,    /* of one kernel: a set of loops is a word */
    FUSE_MAX_USES = 8,      /* distinct uses of a node before it is simply stored */
    FUSE_MAX_OPS = 500,     /* operations in one kernel: bounds compile time */
    FUSE_MAX_CODE = 1000,   /* what they cost: see fuse_is_full */
    FUSE_MAX_SEARCH = 512,  /* kernels that a search for a cycle goes through */
    FUSE_MAX_PAIRS = 64,    /* readers of a value that each one is compared with */
    FUSE_MAX_EPILOGUE = 64, /* operations after a contraction: repeated over its register tile */
    FUSE_MAX_INDEX_OPS = 8, /* operations on places that are never worth storing */
    FUSE_MAX_CHOICES = 4    /* pieces that an element may be chosen from */
};

typedef struct fuse_loop {
    double extent;
    uint64_t outer; /* loops that enclose it */
} fuse_loop;

typedef struct use {
    uint32_t group;
    uint8_t rank;
    bool exact;     /* every element of the node is reached, and by one index path only */
    bool straight;  /* its index is the kernel's root's */
    uint16_t whole; /* axes, as bits, that their loops count through in order, all of them */
    uint64_t mask[QN_MAX_RANK];
    uint64_t around; /* loops that it is computed in though no axis depends on them */
} use;

typedef struct group { /* a kernel under construction */
    node_id root;
    fuse_piece piece;
    uint8_t columns; /* of the root, which has no loop over its last axis; 0: no such kernel */
    uint32_t loops, reduces, ops, root_loops;
    uint32_t epilogue;          /* of its operations, those behind its contraction */
    uint8_t parts[QN_MAX_RANK]; /* loops of each of the root's axes: loops.c */
    bool split;                 /* some have several */
    double code;                /* what its operations cost, each written once */
    fuse_loop loop[FUSE_MAX_LOOPS];
    uint64_t *chain; /* root-loop sets of its reductions */
    uint32_t chains, chain_cap;
    uint32_t *reader, *writer; /* groups that load what it stores; that store what it loads */
    uint32_t readers, reader_cap, writers, writer_cap;
    int64_t place; /* before its readers', behind its writers': order.c */
    node_id *out, *in;
    uint32_t outs, out_cap, ins, in_cap;
    fuse_axes *buffered, *sibling;
    uint32_t buffered_count, buffered_cap, siblings, sibling_cap;
    fuse_share *share; /* see share.c */
    uint32_t shares, share_cap;
    uint64_t rows;   /* root loops over the rows of a block, 0: see attention.c */
    use reduced;     /* of the sources of the last reduction that was entered */
    use terms;       /* and of those of the contraction with these rows */
    uint64_t common; /* root loops that contain the siblings */
    bool gone;       /* merged into another */
    bool has_contraction, flat, scatter;
    bool adds_blocks;      /* it has such sums: see fuse_mark_blocks */
    uint8_t products;      /* a lane's of them; 0: it has none */
    bool call;             /* of a routine, or a loop: nothing else is computed in it */
    bool nested;           /* a reduction in a reduction */
    uint32_t scan;         /* the innermost loop's axis from 1 and direction; 0: no scan is here */
    double bytes, largest; /* of its accesses: sibling.c */
    uint32_t seen;         /* stamp of the cycle search */
} group;

typedef struct fuse_node {
    use *uses;
    uint32_t count, cap;
    double cost;   /* to compute one element, sources loaded */
    double scores; /* size of a contraction to its operands', also of what is
                      * computed elementwise from one; 0: see attention.c */
    double terms;  /* of a reduction that an element needs: see fuse_terms_behind */
    bool must_store, is_root, crowded;
    uint8_t index_ops; /* operations on nothing but places and constants, 0: it is no such thing */
    bool late;         /* its turn has been put off */
    bool of_halves;    /* wide, but made of halves and little else: see fuse_is_of_halves */
    bool of_blocks;    /* products of a block's bytes, or made by element of these */
    bool adds_blocks;  /* it adds these up, or is added to what does */
    uint8_t products;  /* a lane's of these; 0: it is only added */
    bool joins_sums;   /* it is made of two such sums */
    bool sums;         /* made by element of a contraction that only it uses */
    bool added;        /* only one such uses it: see mark_sums */
    node_id product;   /* the contraction that it is made of by element, 0: none; */
    double share;      /* of that one's uses those that lead through it: see mark_products */
    uint32_t waits;    /* consumers that are not decided yet */
    uint32_t consumers;
    uint32_t pieces; /* of a JOIN, with those of the joins that it is made of */
    bool placed;     /* a JOIN whose pieces go straight into a larger one */
    uint8_t columns; /* of a JOIN that one kernel stores column by column; 0: it is no such thing */
} fuse_node;

typedef struct fuse {
    graph *g;
    arena *a;
    fusion *f;
    fuse_node *node; /* by place */
    group **group_;
    uint32_t groups, group_cap, stamp;
    uint32_t *call, calls, call_cap; /* the groups that are calls */
    fuse_terms terms;
} fuse;

/* Rows of what the group computes: its root's loops but the last. */
static inline double fuse_rows(const group *k) {
    double rows = 1;
    for (uint32_t i = 0; i + 1 < k->root_loops; i++) rows *= k->loop[i].extent;
    return rows;
}

static inline fuse_node *fuse_info(const fuse *fu, node_id n) {
    return &fu->node[fu->f->pos[n] - 1];
}

static inline bool fuse_is_virtual(const graph_node *x) {
    return x->op == OP_CONST || x->op == OP_IOTA;
}

/* A result of a launch that is no kernel. */
static inline bool fuse_is_call(const graph_node *x) {
    return x->op == OP_CALL || x->op == OP_RESULT;
}

/* Has a kernel as much code as it may have? One that computes so much for an element no longer
 * minds a store and a load; and what compiling it takes grows faster than its code. */
static inline bool fuse_is_full(const group *k) {
    return k->ops > FUSE_MAX_OPS || k->code > FUSE_MAX_CODE;
}

/* May two kernels be one? */
static inline bool fuse_too_much(const group *a, const group *b) {
    return a->ops + b->ops > FUSE_MAX_OPS || a->code + b->code > FUSE_MAX_CODE;
}

/* The first use of a node in that kernel, NULL: it has none. */
static inline const use *fuse_use_in(const fuse_node *f, uint32_t number) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->uses[i].group == number) return &f->uses[i];
    return NULL;
}

/* Loops that the use's index depends on. */
static inline uint64_t fuse_mask(const use *u) {
    uint64_t m = u->around;
    for (int i = 0; i < u->rank; i++) m |= u->mask[i];
    return m;
}

/* The axis and direction of a scan, never 0. */
static inline uint32_t fuse_scan_way(scan_attr s) {
    return 2 * (uint32_t)s.axis + s.reverse + 1;
}

static inline uint64_t fuse_root_set(const group *k) {
    return k->root_loops >= 64 ? ~0ull : (1ull << k->root_loops) - 1;
}

/* ---- use.c ----------------------------------------------------------------------------------- */

double fuse_dim_size(const graph *g, sym dim); /* elements, at most */
double fuse_size(const fuse *fu, node_id n);
double fuse_reduced_size(const fuse *fu, const graph_node *x); /* elements to one of the result */
/* Cost of one element of what a reduction reduces. */
double fuse_term_cost(const fuse *fu, const graph_node *x);
/* Cost of one element with inlined elementwise sources, but reductions and memory loaded. */
double fuse_node_cost(const fuse *fu, const graph_node *x);
/* Is x, in f32, computed elementwise from f16 or bf16, and from small tensors? */
bool fuse_is_of_halves(const fuse *fu, const graph_node *x);
/* Terms of the longest reduction, no contraction, that n is made of by element and nothing else is:
 * what an element costs more often where that cannot be staged; 1: there is none. */
double fuse_terms_behind(const fuse *fu, node_id n);
/* Say of the sums behind n, as far as it is known, which add up what is of blocks, and which are
 * added to these, as least values are. Values that neighbours along such a sum share are computed
 * once for them (schedule/blocks/block_dots.c). Both sums read the same weights, so what several
 * nodes take of them is stored, and not the sums. */
void fuse_mark_blocks(fuse *fu, node_id n);
/* A contraction: a sum of products of two operands that are broadcast over its index space. */
bool fuse_has_contraction(const fuse *fu, const graph_node *x);
uint64_t fuse_closure(const group *k, uint64_t m); /* with all loops around them */
double fuse_trips(const group *k, uint64_t m);     /* of all these, and the loops around them */
/* Loops for some axes of `shape`, inside `outer`, as masks of u; false: out of loops. */
bool fuse_open_axes(fuse *fu, group *k, tuple_id shape, uint32_t axes, uint64_t outer, use *u);
void fuse_add_use(fuse *fu, node_id n, const use *u);
/* The use of a movement's source that follows from a use of the movement. */
void fuse_move_use(const fuse *fu, const graph_node *x, const use *u, use *v);
/* Node n is computed in u's kernel under u's loops: add the uses of its sources. */
void fuse_push_sources(fuse *fu, node_id n, const use *u);

/* ---- fuse.c ---------------------------------------------------------------------------------- */

/* Can the reductions of k, with one more under root loops m, still be ordered? */
bool fuse_fits_chain(const group *k, uint64_t m);
void fuse_add_chain(fuse *fu, group *k, uint64_t m); /* something is computed under m alone */
double fuse_tile_size(const fuse *fu, node_id n, uint32_t axes);
void fuse_add_node(fuse *fu, node_id **list, uint32_t *n, uint32_t *cap, node_id x); /* once */
/* A kernel with the root's loops, as u has them; nobody has told the root's sources of it yet. */
group *fuse_open_group(fuse *fu, node_id root, use *u);
/* n becomes part of u's kernel, under u's loops. */
void fuse_enter(fuse *fu, node_id n, const use *u);
/* Compute n once under the loops `around` of a kernel, in loops of its own over the tile's axes. */
void fuse_buffer(fuse *fu, node_id n, uint32_t number, uint64_t around, uint32_t axes);

/* ---- loops.c --------------------------------------------------------------------------------- */

/* The loops of a kernel's root, which is set, and of the root's use. */
void fuse_open_root(fuse *fu, group *k, use *u);
/* The root's axes whose loops are in the set, as bits. */
uint32_t fuse_root_axes(const fuse *fu, const group *k, uint64_t loops);
void fuse_order_loops(const fuse *fu, const group *k, fuse_kernel *out);

/* ---- order.c ---------------------------------------------------------------------------- */

bool fuse_reaches(fuse *fu, uint32_t from, uint32_t to); /* is there a path along readers? */
/* Group `to` reads what `from` stores; there is no path from `to` to `from`. */
void fuse_add_reader(fuse *fu, uint32_t from, uint32_t to);
void fuse_move_edges(fuse *fu, uint32_t to, uint32_t from); /* all that `from` has become `to`'s */

/* ---- join.c ---------------------------------------------------------------------------------- */

void fuse_count_pieces(fuse *fu);
void fuse_push_pieces(fuse *fu, const graph_node *x, const use *u); /* as fuse_push_sources */
/* Is it better to write n's pieces to their places than to choose among them at each use? `extra`:
 * what computing n at each use costs more than once. */
bool fuse_writes_pieces(const fuse *fu, node_id n, double extra);
/* May u's kernel, if it is a piece's, compute reduction x? */
bool fuse_piece_takes(const fuse *fu, const graph_node *x, const use *u);
/* Is n, a JOIN that is to be stored, a few columns that are computed by element? Then one kernel
 * will store them all. */
bool fuse_stores_columns(fuse *fu, node_id n);
/* Store n, by a kernel for each piece. */
void fuse_assemble(fuse *fu, node_id n);
/* Is n zeros around what a contraction makes by element, which only n uses? */
bool fuse_borders_contraction(const fuse *fu, node_id n);
/* Store such an n by the contraction's kernel. */
void fuse_store_bordered(fuse *fu, node_id n);

/* ---- epilogue.c ------------------------------------------------------------------------------ */

/* Would contraction x, in u's kernel, make so much that is loaded and stored there go lane by lane
 * that storing x alone costs less? */
bool fuse_scatters(const fuse *fu, const graph_node *x, const use *u);

/* ---- few_rows.c ------------------------------------------------------------------------------ */

/* How often n is made in u's kernel if that is a product of few rows that share it; 0: they do
 * not, or it is no such product. */
double fuse_shared_by_rows(const fuse *fu, node_id n, const use *u);

/* ---- attention.c ----------------------------------------------------------------------------- */

void fuse_mark_scores(fuse *fu);
/* A reduction of scores to a statistic of each row. */
bool fuse_is_statistic(const fuse *fu, const graph_node *x);
/* Is n computed by element of a contraction over rows of scores, and of a statistic of these, which
 * are too many to be stored? In another kernel than the contraction's the statistic would need them
 * in memory. */
bool fuse_weighs_rows(const fuse *fu, node_id n);
/* May kernel `number`, one of blocks, compute reduction x under loops m? */
bool fuse_attention_takes(const fuse *fu, const graph_node *x, uint32_t number, uint64_t m);
/* Contraction x has become part of a kernel: does it sum over rows of scores? */
void fuse_find_rows(fuse *fu, const graph_node *x, uint32_t number);
/* Scores that only blocks use are never stored: true when that was decided for n. */
bool fuse_decide_scores(fuse *fu, node_id n);
/* The scores that a factor of a product is a view of, 0: none. With v, the factor's use, only where
 * each of them is used once; v becomes their use. */
node_id fuse_scores_behind(const fuse *fu, node_id factor, use *v);

/* ---- sibling.c ------------------------------------------------------------------------------- */

/* Merge kernel `from` into kernel `to`. */
void fuse_absorb(fuse *fu, uint32_t to, uint32_t from);
/* Merge kernels that read the same memory under the same loops. */
void fuse_merge_siblings(fuse *fu);

/* ---- share.c --------------------------------------------------------------------------------- */

/* A kernel that sums over the rows of another, whose scores it uses, is merged into that one. */
void fuse_share_attention(fuse *fu);
/* Kernel `to` takes over the shared sums of kernel `from`, which has as many rows. */
void fuse_move_shares(fuse *fu, group *to, const group *from);

#endif
