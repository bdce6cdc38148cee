/* grad.h - derivatives, graph to graph. */
#ifndef QN_GRAD_H
#define QN_GRAD_H

#include "graph/graph.h"

/* ---- grad.c, rules.c ------------------------------------------------------------------------- */

/* Terms of a gradient that are passed on one by one: apart.c. */
typedef struct grad_part {
    node_id value;
    struct grad_part *next;
} grad_part;

typedef struct grad_parts {
    grad_part *first, *last;
} grad_parts;

typedef struct grad_piece grad_piece;
typedef struct grad_product grad_product;
typedef struct grad_result grad_result;
/* One differentiation under way. Arrays go by a node's place in `order`. */
typedef struct grad {
    graph *g;
    arena *a;
    const char *call;       /* whose errors these are */
    uint32_t count, born;   /* what is older than `born` is no function of an x */
    node_id *order, *sum;   /* sum: the gradient gathered so far, 0: none */
    grad_parts *parts;      /* by place: what of it is kept apart */
    grad_piece **piece;     /* and what is to be joined and added to it: see pieces.c */
    grad_product **product; /* and sums of products that are to be one: see products.c */
    bool *met;              /* lies on a way that gradients take from y */
    bool *wanted;           /* and on one from an x */
    grad_result *results;   /* what results of loops were given: see loop.c */
    node_id narrow, wide;   /* the half whose rule runs, and the f32 node it runs on: grad_apply */
} grad;
/* d sum(y[0]*seed[0] + ..) / d x[i] goes to out[i]. Seeds have their y's dtype and shape; an x that
 * was assigned to becomes the version that y uses. */
typedef struct grad_request {
    const char *call;
    int ys, xs;
    const node_id *y, *seed;
    node_id *x, *out;
} grad_request;
/* Raises; false: reported. Nobody holds what it made yet: graph_settle comes later. */
bool grad_nodes(graph *g, arena *a, const grad_request *r);
/* Which of the x gradients of the y come to. Raises; false: reported. */
bool grad_depends(graph *g, arena *a, const grad_request *r, int32_t *out);
/* The error for a value that is needed and gone: graph.gone. */
void grad_report_gone(graph *g, arena *a, const char *call);
/* The rule of a row: pass g, the gradient of n, on to n's sources. */
typedef void grad_rule(grad *c, node_id n, node_id g);
extern grad_rule *const grad_rules[OP_COUNT]; /* NULL: no gradient */
/* x as one value, where it is compared with what was made of it. */
node_id grad_one_value(const grad *c, node_id x);

/* ---- past.c ---------------------------------------------------------------------------------- */

/* Raise nothing, but fail with a reason where y was made past one of x. */
bool grad_check_past(const grad *c, const grad_request *r);

/* ---- scan.c ---------------------------------------------------------------------------------- */

grad_rule rule_scan;
bool grad_wants(const grad *c, node_id n, int source);
void grad_add(grad *c, node_id n, int source, node_id value); /* nothing where not wanted */

/* ---- grad.c ---------------------------------------------------------------------------------- */

grad_rule rule_stand_in, rule_custom;
bool grad_goes(const graph_node *x, int k); /* by its link k? */

/* ---- custom.c -------------------------------------------------------------------------------- */

/* What a CUSTOM's graph is of the gradient g. A traversal of its own. */
node_id grad_given(const grad *c, const graph_node *custom, node_id g);

/* ---- calls.c --------------------------------------------------------------------------------- */

void rule_call(grad *c, node_id n, node_id g);
grad_rule call_rule_custom;
/* The gradient of a kernel of the user's may call kernels, and theirs others: calls this deep are
 * recorded without one, or there would be no end. */
enum { CUSTOM_LEVELS = 8 };

/* Several y at once, which may be one, each with its own seed; dx: 0 where nothing comes. Makes an
 * order. Raises. */
typedef struct grad_vector {
    uint32_t ys, xs;
    const node_id *y, *seed, *x;
    node_id *dx;
} grad_vector;
void grad_of_vector(graph *g, arena *a, const grad_vector *v);
/* Give the gradient of `to` a term: nothing where it is not wanted. */
void grad_give(grad *c, node_id to, node_id value);
void grad_mark_again(grad *c); /* somebody made an order meanwhile */

/* ---- loop.c ---------------------------------------------------------------------------------- */

grad_rule rule_result, rule_list;

/* ---- cut.c ----------------------------------------------------------------------------------- */

/* Which nodes to keep, so that those `wanted` can be had of them and the memory is least: `given`
 * are those that cannot be made again of others. size: bytes, 0: costs nothing and needs nothing,
 * CUT_NEVER: cannot be kept. */
#define CUT_NEVER (UINT64_C(1) << 60)
typedef struct cut_use {
    uint32_t from, to;
} cut_use;
typedef struct grad_cut {
    uint32_t nodes, uses;
    const uint64_t *size;
    const bool *given, *wanted;
    const cut_use *use; /* to is made of from; no use of what is given */
    bool *cut;          /* the answer */
} grad_cut;
void grad_find_cut(arena *a, grad_cut *c);

/* ---- linalg.c: rules of calls ---------------------------------------------------------------- */

grad_rule call_rule_cholesky, call_rule_solve, call_rule_solve_triangular, call_rule_determinant;
grad_rule call_rule_matrix_exp, call_rule_qr, call_rule_eigh, call_rule_svd, call_rule_eig;

/* ---- fft.c: likewise ------------------------------------------------------------------------- */

grad_rule call_rule_fft;

/* ---- gamma.c --------------------------------------------------------------------------------- */

node_id grad_polygamma2(const grad *c, node_id x); /* the derivative of trigamma at x */

/* ---- apart.c --------------------------------------------------------------------------------- */

/* Keep a term of the gradient of node `to` apart, if it is one that should be: true. */
bool grad_keep_apart(grad *c, node_id to, uint32_t place, node_id value);
/* Add to a sum, 0: nothing yet. Of halves it is f32 from the second term on, to be rounded once. */
void grad_include(grad *c, node_id *sum, node_id value);
node_id grad_plus(graph *g, node_id sum, node_id value);
/* A half that was rounded from f32 as it was before; any half as f32, so or by a cast. */
node_id grad_unrounded(const graph *g, node_id x);
node_id grad_wide(graph *g, node_id x);
node_id grad_rounded(const grad *c, uint32_t place, node_id sum); /* as the node's dtype has it */
node_id grad_whole(grad *c, uint32_t place); /* all terms and pieces added, 0: none */

/* ---- pieces.c -------------------------------------------------------------------------------- */

/* Is it a padding, which will be put together with others? Then it is kept. */
bool grad_keep_piece(grad *c, uint32_t place, node_id value);
node_id grad_total(grad *c,
                   uint32_t place); /* the sum of all others that were given to it; 0: nothing */

/* ---- products.c ------------------------------------------------------------------------------ */

/* Is it a sum of products over few rows, which others will be joined to? Then it is kept. */
bool grad_keep_product(grad *c, uint32_t place, node_id value);
node_id grad_join_products(grad *c, uint32_t place); /* the sum of those that are kept; 0: none */

#endif
