/* graph.h - what to compute: nodes, shapes, handles, rules, gradients.
 *
 * A node is an immutable expression {op, dtype, shape, sources, attributes}; the same expression is
 * the same node (hash-consing), so common subexpressions never exist twice. Nodes are 32-bit ids in
 * one array, reference-counted by their consumers, by handles and by plans under way; a node whose
 * count falls to zero releases its sources at once. A node that was realized carries a buffer and
 * is a leaf for every later computation; its sources are then its history, which gradients walk,
 * and which history.c keeps within bounds. A second count, of who may still ask for the value, says
 * when its buffer can go.
 *
 * Shapes and attributes are interned tuples of int64. A shape's entries are syms of graph->syms, so
 * sizes may be expressions over dimension variables; attributes that are sizes are syms, too (see
 * the constructor's comment for each op's tuple).
 *
 * A handle (qn_tensor) is what the user holds: reference-counted, owned by the innermost scope.
 * Composed functions (func_*.c) are plain C over the public constructors. */
#ifndef QN_GRAPH_H
#define QN_GRAPH_H

#include "base/base.h"
#include "quern_custom.h"
#include "sym/sym.h"

typedef uint32_t node_id; /* 0: none */
typedef struct tensor tensor;
typedef uint32_t tuple_id; /* 0: the empty tuple (also the shape of a scalar) */

typedef enum graph_op {
    OP_NONE,
#define X(NAME, ...) OP_##NAME,
#include "graph/ops.h"
#undef X
    OP_COUNT
} graph_op;

typedef enum op_class {
    CLASS_NONE,
    CLASS_LEAF,
    CLASS_ELEM,
    CLASS_MOVE,
    CLASS_JOIN,
    CLASS_REDUCE,
    CLASS_INDEX,
    CLASS_SCAN,
    CLASS_CALL,
    CLASS_LOOP,
    CLASS_MARK
} op_class;
typedef enum op_types {
    TYPES_NONE,
    TYPES_FLOAT,
    TYPES_NUM,
    TYPES_INT,
    TYPES_BITS,
    TYPES_ANY,
    TYPES_CMP,
    TYPES_SELECT,
    TYPES_TO
} op_types;

typedef enum monoid {
#define X(NAME, ...) MONOID_##NAME,
#include "graph/monoids.h"
#undef X
    MONOID_COUNT
} monoid;

/* One row of ops.h as data. */
typedef struct op_row {
    const char *name;
    uint8_t arity, class_, types;
    bool has_float, has_int; /* columns F and I are defined */
    bool by_formula;         /* column VALUE: of floats, as the device computes it */
    uint8_t cost[2];         /* of floats, of integers */
    bool differentiable;
    double lo, hi;
    const char *doc;
} op_row;
extern const op_row op_rows[OP_COUNT]; /* ops.c */
bool types_fit(int types, int dtype);  /* does a row of these types take it? */
int op_cost(int op, int dtype);        /* of its result; in additions, as ops.h has it */

#include "graph/call.h"

enum { EXAMPLES_ROWS, EXAMPLES_WHOLE };
typedef struct routine_row {
    const char *name;
    uint8_t results, examples;
    const char *doc;
} routine_row;
extern const routine_row routine_rows[ROUTINE_COUNT]; /* ops.c */

/* Marks that mean something to gradients, and to what computes values nothing but their source. */
static inline bool op_is_view_mark(int op) {
    return op == OP_DETACH || op == OP_APART || op == OP_STAND_IN || op == OP_CUSTOM;
}

/* ---- dtype.c --------------------------------------------------------------------------------- */

/* promote.c: false where knob explicit forbids that both meet; reported. x and y are nodes. */
bool dtype_may_meet(const struct graph *g, uint32_t x, uint32_t y);
qn_dtype dtype_promote(qn_dtype a,
                       qn_dtype b); /* the array API's table; i64+u64 and int+float: to f32/f64 */
/* Element i of an array of dtype as double / int64 (u64 wraps) and back, rounding to nearest even
 * and wrapping integers; floats to integers truncate and saturate, NaN gives 0. */
double dtype_get_f(qn_dtype d, const void *p, int64_t i);
int64_t dtype_get_i(qn_dtype d, const void *p, int64_t i);
void dtype_set_f(qn_dtype d, void *p, int64_t i, double v);
void dtype_set_i(qn_dtype d, void *p, int64_t i, int64_t v);
double dtype_round(qn_dtype d, double v);  /* to a float dtype's nearest value */
double dtype_most(qn_dtype d);             /* a float dtype's largest number, */
double dtype_top(qn_dtype d);              /* or infinity, where it has one */
uint32_t dtype_most_bits(qn_dtype d);      /* a narrow float's largest number */
int64_t dtype_wrap(qn_dtype d, int64_t v); /* to an integer's range; bool: the lowest bit */
/* A double that rounds to the same value of float dtype d as the integer itself. */
double dtype_from_i64(qn_dtype d, int64_t v);
double dtype_from_u64(qn_dtype d, uint64_t v);

/* ---- scalar.c: the meaning of ELEM rows, for folding and for the oracle ---------------------- */

/* A scalar value: floats in f (exactly the dtype's value), everything else in i (sign- or zero-
 * extended; bool 0/1). */
typedef union scalar {
    double f;
    int64_t i;
} scalar;
/* Value of an ELEM op on scalars. `dtype`: of the result; `in`: of the sources (of the last one for
 * WHERE). The result is rounded or wrapped to dtype. false: no meaning for that dtype. */
bool scalar_op(int op, qn_dtype dtype, qn_dtype in, const scalar *x, scalar *out);
/* The same for arrays of n; `out` may be one of them. Absent sources are not looked at. */
bool scalar_ops(int op, qn_dtype dtype, qn_dtype in, int64_t n, const scalar *const arg[3],
                scalar *out);
uint64_t scalar_bits(qn_dtype dtype, scalar v); /* bit pattern in dtype's width, zero-extended */
scalar scalar_from_bits(qn_dtype dtype, uint64_t bits);
/* As launches of kernels give it: an integer's value, or a float's bits, a narrow one's as f32. */
int64_t scalar_to_word(qn_dtype dtype, uint64_t bits);
scalar scalar_from_word(qn_dtype dtype, int64_t word);
scalar scalar_number(qn_dtype dtype, double v); /* converted as by CAST */

/* ---- monoid.c -------------------------------------------------------------------------------- */

#define MONOID_STATES 4      /* most components of a state */
enum { MONOID_VALUE = 255 }; /* the dtype that values are kept in, ACC of dtypes.h */
typedef enum monoid_order { MONOID_ORDERED, MONOID_COMMUTES, MONOID_EXACT } monoid_order;
typedef enum monoid_lift { LIFT_TERM, LIFT_SECOND, LIFT_PLACE, LIFT_ONE, LIFT_ZERO } monoid_lift;
typedef enum monoid_identity_kind {
    IDENTITY_ZERO,
    IDENTITY_ONE,
    IDENTITY_ALL,
    IDENTITY_LOWEST,
    IDENTITY_HIGHEST
} monoid_identity_kind;
/* A component of a state: its dtype or MONOID_VALUE, what it is of one element, and at first. */
typedef struct monoid_part {
    uint8_t dtype, lift, identity;
} monoid_part;
/* One row of monoids.h as data. */
typedef struct monoid_row {
    const char *name;                      /* spelling of the store, e.g. "max=" */
    uint8_t states, combine, types, order; /* combine: the graph op of one component */
    monoid_part part[MONOID_STATES];
} monoid_row;
extern const monoid_row monoid_rows[MONOID_COUNT];
int monoid_of_reduction(int op); /* OP_SUM -> MONOID_SUM, ... */
/* May its updates of one element be made in any order? */
static inline bool monoid_commutes(int m) {
    return monoid_rows[m].order != MONOID_ORDERED;
}
qn_dtype monoid_dtype(int m, int component, qn_dtype reduced);
scalar monoid_identity(int m, int component, qn_dtype dtype);
/* What makes the terms of a formula: expressions of a kernel, scalars. */
typedef uint32_t monoid_term;
typedef struct monoid_formula {
    void *user;
    monoid_term (*op)(void *user, int op, int n,
                      const monoid_term *x); /* of ops.h; dtype by its TYPES */
    monoid_term (*number)(void *user, monoid_term like,
                          double value); /* of the dtype that `like` has */
    bool (*is_float)(void *user, monoid_term x);
} monoid_formula;
/* States have monoid_rows[m].states components; out may not be a or b. */
void monoid_combine(const monoid_formula *f, int m, const monoid_term *a, const monoid_term *b,
                    monoid_term *out);
monoid_term monoid_finish(const monoid_formula *f, int m, const monoid_term *state);
/* The same of scalars of these dtypes; out may be a or b. */
void monoid_combine_scalars(int m, const qn_dtype *dtype, const scalar *a, const scalar *b,
                            scalar *out);
scalar monoid_finish_scalars(int m, const qn_dtype *dtype, const scalar *state, qn_dtype *out);

/* ---- node.c ---------------------------------------------------------------------------------- */

enum {
    NODE_REALIZED = 1, /* carries a buffer */
    NODE_CONSED = 2,   /* in the hash-cons set */
    NODE_DATA = 4,     /* a BUFFER, or computed from one by way of floats */
    NODE_LOST = 8,     /* a BUFFER that was computed from data and forgot how */
    NODE_TAPED = 16,   /* GONE, when a tape ended that had kept it */
    NODE_RAN = 16,     /* LOST, for it is an output of qn_plan_run */
    NODE_OLD = 32,     /* a BUFFER whose tensor was assigned to since */
    NODE_GONE = 64,    /* a BUFFER without its value; attr: where that came about (graph_place) */
    NODE_LISTED = 128  /* among what history may lose: see history.c */
};
#define VARIABLE_SHARED UINT32_MAX
enum { HOLDERS_MANY = 7 };    /* so many or more: for good */
enum { VERSION_WRITTEN = 1 }; /* by qn_write through a view: no part of any static graph */

typedef struct graph_node {
    uint8_t op : 7;
    uint8_t named : 1; /* a handle named it when a request first computed it: see run/kept.c */
    uint8_t dtype : 5;
    uint8_t spent : 1;  /* GONE: a run that it was donated to took it */
    uint8_t varies : 1; /* its value may be another under other bindings of the variables */
    uint8_t cut : 1;    /* a BUFFER that was computed and forgot how; no version is */
    uint8_t sources : 2;
    uint8_t holders : 3;  /* handles that name it, at most HOLDERS_MANY */
    uint8_t passed : 1;   /* a rule made something of its sources past it: see grad/past.c */
    uint8_t computed : 1; /* by a request that did not keep the value; BUFFER: see history_cut */
    uint8_t given_up : 1; /* had a value, and will be computed again: see run/kept.c */
    uint8_t flags;
    uint32_t refs;
    uint32_t needs; /* who may still ask for the value: see history.c */
    tuple_id shape;
    tuple_id attr;   /* BUFFER: where it became OLD or LOST, as graph_place() has it; DETACH as a
                        version: VERSION_WRITTEN */
    uint32_t buffer; /* run's buffer number when realized; else of a value kept, see run/kept.c */
    uint32_t mark;   /* of the last traversal that came by (graph_mark) */
    union {
        node_id src[3];
        struct {
            uint32_t made_of[2], ran; /* versions: see run/static/effects.c */
        };
    };
    union {
        node_id prev;  /* in the list of what history may lose */
        uint32_t hash; /* CONSED and not in that list: its key */
    };
    node_id next;      /* in that list, and in lists of the moment */
    uint32_t variable; /* the tensor whose value it was or is, by qn_tensor.variable; 0: of none
                           that was assigned to, VARIABLE_SHARED: of several */
    uint32_t born;     /* younger than its sources */
    uint64_t bits;     /* CONST: the value's bit pattern; ARGUMENT: its kind and number; BUFFER, and
                           DETACH as a version: a number of its own, or'ed with CUT_VIEW */
} graph_node;
_Static_assert(sizeof(graph_node) == 64, "a node is one line of the cache");
/* Has it a value in memory, computed or given, or will a loop give it? Then it is a leaf of what is
 * computed. */
static inline bool node_is_memory(const graph_node *x) {
    return (x->flags & NODE_REALIZED) || x->op == OP_BUFFER || x->op == OP_ARGUMENT;
}
/* What a loop, or a result of one, keeps of the body: no source, for it has no value but in a
 * trip. It stands behind the source. 0: nothing. */
static inline node_id node_body(const graph_node *x) {
    return x->op == OP_LOOP || x->op == OP_RESULT ? x->src[1] : 0;
}

/* Behind a STAND_IN's or CUSTOM's source come nodes that its gradient takes its way by. They are no
 * sources: no value needs them. */
static inline int node_links(const graph_node *x) {
    if (x->op != OP_STAND_IN && x->op != OP_CUSTOM) return x->sources;
    return 1 + (x->src[1] != 0) + (x->src[2] != 0);
}

enum { GRAPH_GIVEN = 8 };
typedef struct graph {
    qn_ctx *ctx;
    sym_store *syms;
    graph_node *node;
    uint32_t nodes, node_cap, live;
    node_id free_node;
    idset consed;
    struct graph_tuples *tuples;
    /* handles */
    uint32_t handles; /* live */
    uint64_t made;    /* handles so far */
    tensor **owned;   /* handles of open scopes, innermost last */
    uint32_t owned_count, owned_cap;
    struct open_scope *scope; /* each open one, outermost first */
    uint32_t scopes, scope_cap;
    uint64_t scopes_begun;
    tensor **initial; /* whose first value may not be computed yet; some are dead, or it is */
    uint32_t initial_count, initial_cap;
    tensor **pending; /* assigned, not yet realized, in order */
    uint32_t pending_count, pending_cap;
    struct custom_kernel **custom;        /* those of CUSTOM calls, by number */
    uint32_t customs, custom_cap, slopes; /* callbacks for gradients under way, nested */
    uint32_t tapes;                       /* open ones */
    struct tape *tape;                    /* all of them, linked */
    struct loop *loop;  /* those whose bodies are being recorded, innermost first */
    bool marked;        /* some index was, to be checked when it is computed */
    struct loop *loops; /* all that are not freed */
    uint32_t examples;  /* arguments of that kind that are alive */
    uint64_t serial;    /* numbers for BUFFER nodes and versions */
    uint32_t born;      /* the youngest node's */
    uint32_t variables; /* numbers given to tensors that were assigned to */
    uint32_t idle;      /* nodes whose value nobody needs */
    uint32_t given_up;  /* nodes that are so */
    size_t idle_bytes;  /* values of leaves among them */
    node_id gone;       /* a GONE leaf whose value was asked for, since somebody cleared this */
    struct graph_places *places;
    node_id *loose; /* nodes made since the last graph_settle: nobody may hold them yet */
    uint32_t loose_count, loose_cap;
    uint32_t mark_base, mark_next;   /* see graph_mark */
    uint64_t rules[OP_COUNT];        /* sets of rules tried for an operation, */
    uint64_t seen[OP_COUNT];         /* and that a source of an operation is enough for */
    str text;                        /* scratch for error texts */
    const char *func;                /* the composed function under way, for error texts */
    node_id given_node[GRAPH_GIVEN]; /* and what it was given; knob explicit */
    int given;
    /* dimension variables: var[i] is a sym with current value bound[i], -1: unbound */
    sym *var;
    int64_t *bound;
    bool *spare; /* may be given to another one who wants such a variable */
    uint32_t vars, var_cap, bound_cap, spare_cap;
    uint64_t binding; /* counts changes of the variables' values */
    bool varied;      /* since the last change a value was computed that follows them */
    /* what the user's codes of symbolic dims stand for: DIM_CODE - i is dim[i] */
    sym *dim;
    uint32_t dims, dim_cap;
    /* run's hook: a realized node died or was dropped */
    void (*drop_buffer)(qn_ctx *qn, uint32_t buffer);
    size_t (*buffer_bytes)(const qn_ctx *qn, uint32_t buffer);
    qn_code (*read)(qn_tensor *x, void *out, size_t size); /* qn_read, for sizes of results */
} graph;

/* All functions of this section but the getters raise when memory is out. */
void graph_open(qn_ctx *qn); /* sets qn->graph; raises */
void graph_close(qn_ctx *qn);
static inline graph_node *node_at(const graph *g, node_id n) {
    return &g->node[n];
}

/* ---- tuple.c --------------------------------------------------------------------------------- */

void graph_tuples_open(graph *g); /* raises */
void graph_tuples_close(graph *g);
tuple_id graph_tuple(graph *g, int n, const int64_t *v);            /* interned; raises */
const int64_t *graph_tuple_get(const graph *g, tuple_id t, int *n); /* valid as long as the id */
/* Tuples and constant sizes that no node has, nor anyone who says so between begin and end, are
 * forgotten. Only between requests, and only when it is due. */
bool graph_sweep_due(const graph *g);
void graph_sweep_begin(graph *g);
void graph_keep(graph *g, tuple_id t);
void graph_sweep_end(graph *g);

/* ---- node.c ---------------------------------------------------------------------------------- */

/* What a node is but for its sources; attributes and bits where its operation has any. */
typedef struct node_form {
    int op;
    qn_dtype dtype;
    tuple_id shape, attr;
    uint64_t bits;
} node_form;
/* The one way to make a node: rules (rules.c) first, then hash-consing. Sources' counts are raised
 * by the new node; the result's own count is not (0 for a fresh one): link it or node_drop it.
 * Callers have checked types and shapes. */
node_id node_make(graph *g, node_form form, int n, const node_id *src);
/* The same of a loop or a result of one, which keeps `body`. */
node_id node_make_loop(graph *g, node_form form, node_id src, node_id body);
uint32_t node_hash(const graph_node *n);
node_id node_buffer(graph *g, qn_dtype dtype, tuple_id shape,
                    uint32_t buffer); /* a fresh BUFFER leaf */
static inline void node_ref(graph *g, node_id n) {
    g->node[n].refs++;
}
void node_unref(graph *g, node_id n); /* frees at zero, without recursion in depth */
void node_drop(graph *g, node_id n);  /* free it if nobody holds it */
/* Free every node made since the last call that nobody holds: the end of each constructor. */
void graph_settle(graph *g);
/* The value of a tensor that x is assigned to: x without its history, and never the same node as
 * another tensor's value. */
node_id node_version(graph *g, node_id x);
void node_forget(graph *g, node_id n); /* a realized node becomes a BUFFER */
/* x, whose gradient goes to `way`, of x's shape and dtype, instead. */
node_id node_stand_in(graph *g, node_id x, node_id way);
/* x, whose gradient goes on to x, and to `to` as what `slope` is with it in the place of the first
 * source of a chain of such nodes. */
node_id node_custom(graph *g, node_id x, node_id to, node_id slope);
uint32_t graph_mark(graph *g); /* begin a traversal: see order.c */

/* ---- history.c: whose values are needed, and what of the past is kept ------------------------ */

/* One more, or one less, who may ask for n's value. Neither needs memory. */
void value_wake(graph *g, node_id n); /* the first */
void value_rest(graph *g, node_id n); /* the last */
static inline void value_need(graph *g, node_id n) {
    if (g->node[n].needs)
        g->node[n].needs++;
    else
        value_wake(g, n);
}
static inline void value_drop(graph *g, node_id n) {
    if (--g->node[n].needs == 0) value_rest(g, n);
}
/* Can n, which was computed, be computed again, by few nodes? And let its value go, until then. */
bool value_regainable(const graph *g, node_id n);
void value_give_up(graph *g, node_id n);
/* A handle names n, or does not any more. */
void node_hold(graph *g, node_id n);
void node_let_go(graph *g, node_id n);
/* The node's value now lies in `buffer`. What gradients pass keeps its sources; CONST and IOTA stay
 * what they are, for rules see through them. */
void graph_realized(graph *g, node_id n, uint32_t buffer);
bool node_differentiable(const graph_node *n); /* do gradients pass it? */
/* A variable has another value: what was computed under the old one is an expression again. */
void history_rebound(graph *g);
/* Is it an expression whose value follows the variables? Data and versions are values, whatever
 * their size. */
static inline bool node_follows(const graph_node *n) {
    return n->varies && n->op != OP_BUFFER && !(n->op == OP_DETACH && n->bits);
}
size_t graph_value_bytes(const graph *g, const graph_node *n);
void history_trim(graph *g); /* to knob history; nothing while a tape is open */
void history_take_out(graph *g, node_id id);
/* It dies, or becomes a BUFFER. */
static inline void history_unlist(graph *g, node_id id) {
    if (g->node[id].flags & NODE_LISTED) history_take_out(g, id);
}
void history_tape_ended(graph *g); /* the last one */
/* n is, or was, the value of the tensor with that number. */
void node_is_version(graph *g, node_id n, uint32_t variable);
/* Its tensor is about to be given another value, there. */
void node_is_old(graph *g, node_id n, uint32_t place);
/* The value of a BUFFER is gone now, whoever may ask for it. */
void value_spend(graph *g, node_id n);
/* The user's place as qn_at() told it, and any other text with a number, as a number: 0 where it is
 * not known, or there is no memory for it, which is no error. */
uint32_t graph_place(graph *g);
uint32_t graph_place_of(graph *g, const char *text, int line);
const char *graph_place_text(const graph *g, uint32_t place, int *line); /* NULL of 0 */
void graph_places_open(graph *g);
void graph_places_close(graph *g);

/* ---- shape.c --------------------------------------------------------------------------------- */

/* Dims as syms of g->syms; constants compare by id. */
static inline int node_rank(const graph *g, node_id n) {
    int r;
    graph_tuple_get(g, g->node[n].shape, &r);
    return r;
}
static inline const int64_t *node_dims(const graph *g, node_id n, int *rank) {
    return graph_tuple_get(g, g->node[n].shape, rank);
}
#define DIM_CODE (-((int64_t)1 << 62)) /* DIM_CODE - i: the size graph->dim[i], to the user */
#define DIM_BAD  QN_DIM_ERROR          /* no size: the result of a failed dim_op */
bool dim_is_code(const graph *g, int64_t dim);
bool dim_given(qn_ctx *qn, const char *call, int64_t dim, sym *out); /* a user's; reports */
bool dim_sym(graph *g, int64_t dim, sym *out); /* of a user's size; false: it is none. Raises */
/* a + b, a - b, a * b or a / b (floor) on sizes as the user gives them, for composed functions;
 * DIM_BAD after an error, which is reported. */
int64_t dim_op(qn_ctx *qn, int64_t a, char operation, int64_t b);
/* qn_var, or the code of a variable of that name and range that was given back, which may be bound:
 * for those that come and go, so that a program that runs for long has no more variables than lived
 * at once. To be given back when nothing that follows the variable will run any more; 0 is none. */
int64_t dim_var_take(qn_ctx *qn, const char *name, int64_t lo, int64_t hi);
void dim_var_give_back(qn_ctx *qn, int64_t var);
sym shape_product(graph *g, int rank, const int64_t *dims);
bool shape_fits(const graph *g, int rank, const int64_t *dims); /* below 2^63 elements */
sym shape_numel(graph *g, tuple_id shape);                      /* product; marks overflow */
int64_t shape_numel_hi(graph *g, tuple_id shape);               /* upper bound of it */
bool shape_is_empty(const graph *g, tuple_id shape); /* rules/move.c; under every binding */
int64_t shape_bound(const graph *g, sym dim); /* value under the current bindings; -1: unbound */
/* From the user's sizes; these two report every failure, also of memory, and do not raise. */
bool shape_from_user(qn_ctx *qn, const char *op, int rank, const int64_t *dims, tuple_id *out);
bool dims_from_user(qn_ctx *qn, const char *op, int n, const int64_t *dims, int64_t *syms);
const char *graph_name(const qn_ctx *qn, const char *op);  /* the name errors go by: func or op */
void shape_text(const graph *g, tuple_id shape, str *out); /* "[2, t, 64]" */
bool shape_broadcast(graph *g, tuple_id a, tuple_id b, tuple_id *out); /* NumPy's; or false */

/* ---- bind.c: variables by data --------------------------------------------------------------- */

const char *shape_unbound(const graph *g, sym size); /* a variable in it without value, or NULL */
/* What a run's inputs say. `from`: 1 + the input that said it, 0: it is as bound before. */
typedef struct shape_binding {
    uint32_t vars;
    int64_t *value;
    int *from;
    bool any;
} shape_binding;
void bind_begin(const graph *g, shape_binding *b);
/* Input `number` of a call, made for `shape`, is `given`: take the variables' values, and when all
 * inputs are taken check the other sizes. false: reported. Raise. */
bool bind_shape(graph *g, const char *call, int number, shape_binding *b, tuple_id shape,
                tuple_id given);
bool bind_check(graph *g, const char *call, int number, const shape_binding *b, tuple_id shape,
                tuple_id given);
void bind_change(graph *g, uint32_t var, int64_t value); /* the one way a variable gets a value */
void bind_end(graph *g, const shape_binding *b);         /* as qn_bind of each */
tuple_id shape_now(graph *g, tuple_id shape);            /* with what is bound; raises */
uint64_t shape_sizes(const graph *g, tuple_id shape);    /* a hash of these sizes, not 0 */

/* ---- tensor.c: handles and scopes ------------------------------------------------------------ */

/* What a qn_tensor * names (base/handle.c); the type itself is never completed, so that a name
 * cannot be taken for what it names. */
struct tensor {
    handle h;
    node_id node;
    uint32_t refs;
    uint32_t pending;  /* 1 + place in graph.pending, 0: none */
    node_id replaced;  /* while pending: the node it named before, with a reference and a need */
    uint32_t place;    /* where it was first assigned to since the last run */
    uint32_t variable; /* a number of its own once it was assigned to */
    uint64_t number;   /* in the order in which handles were made */
};
_Static_assert(sizeof(tensor) <= sizeof(handle_slot), "a tensor is a handle");

/* Unchecked, for names that an entry point has looked at. */
static inline tensor *tensor_at(const qn_tensor *t) {
    return (tensor *)handle_at(t);
}
static inline qn_ctx *tensor_ctx(const qn_tensor *t) {
    return handle_at(t)->ctx;
}
/* Argument `arg` of a call as a living tensor of this context (NULL: of its own), or NULL after an
 * error that names both. */
static inline tensor *tensor_of(qn_ctx *qn, const qn_tensor *t, const char *call, const char *arg) {
    return (tensor *)handle_check(qn, t, HANDLE_TENSOR, call, arg);
}
/* The same, of a complex one, too; whose pairs are in tensor_pairs(). */
static inline tensor *tensor_any(qn_ctx *qn, const qn_tensor *t, const char *call,
                                 const char *arg) {
    return (tensor *)handle_check(
        qn, t, handle_is(t, HANDLE_COMPLEX) ? HANDLE_COMPLEX : HANDLE_TENSOR, call, arg);
}
static inline tensor *tensor_pairs(const tensor *t) {
    return (tensor *)t->h.object;
}
static inline bool tensors_of(qn_ctx *qn, int n, qn_tensor *const *t, const char *call,
                              const char *arg) {
    return handles_are(qn, HANDLE_TENSOR, n, (const void *const *)t, call, arg);
}

qn_tensor *tensor_new(qn_ctx *qn,
                      node_id n);            /* owned by the innermost scope; NULL: out of memory */
qn_tensor *tensor_make(graph *g, node_id n); /* the same, but raises */
void tensor_forget(tensor *t);               /* one just made: it dies, whoever owns it */
/* Point a handle at another node. */
void tensor_point(tensor *t, node_id n);
/* Its value is n's from now on, a version of the tensor as the one before it was. The old one is
 * not marked as such: see tensor_settle. */
void tensor_renew(tensor *t, node_id n);
/* It has no pending assignment any more; `done`: what it replaces is old now. */
void tensor_settle(tensor *t, bool done);
/* "f32[3, 4] \"weight\"" of the tensor that n is or was a value of, as far as it is known. */
void tensor_describe(const graph *g, node_id n, str *out);
void tensor_is_initial(tensor *t); /* a parameter: computed before what it is used for; raises */
/* The nodes of parameters' first values that are not computed, into an arena array; raises. */
uint32_t tensors_initial(graph *g, arena *a, node_id **node);
/* Values written through views that are pending, likewise. */
uint32_t tensors_written(const graph *g, arena *a, node_id **node);
/* All tensors that were assigned to and have no pending assignment, into an arena array; raises. */
uint32_t tensors_assigned(const graph *g, arena *a, tensor ***out);
qn_dtype tensor_dtype(const tensor *t); /* complex ones', too */
/* A complex tensor of pairs (f32 or f64, unchecked, along the last axis), which it keeps. NULL for
 * NULL, and for want of memory. */
qn_tensor *tensor_complex(qn_tensor *pairs);
tensor *tensor_keep(tensor *t); /* qn_keep and qn_release, unchecked */
void tensor_drop(tensor *t);
/* A result that was made and is not wanted: where a scope has it that will release it. */
void tensor_unwanted(tensor *t);
/* Which of all that were ever begun it is: another one of the same depth has another number. 0: it
 * is not open. */
uint64_t scope_number(const graph *g, qn_scope scope);
/* End the scope and give its caller the result; a result made outside gets a handle of its own. */
qn_tensor *scope_pass(qn_ctx *qn, qn_scope scope, qn_tensor *result);
/* Report "<function>: <a> <x's shape>, <b> <y's shape>: <why>"; y may be NULL. Gives NULL. */
void *tensor_unfit(const char *a, const qn_tensor *x, const char *b, const qn_tensor *y,
                   const char *fmt, ...) QN_PRINTF(5, 6);
void tensor_open(graph *g); /* raises */
void tensor_close(graph *g);

/* ---- make.c: nodes from nodes, unchecked ----------------------------------------------------- */

/* What is given fits; sizes are syms; results are as those of node_make. Where nothing changes the
 * argument itself comes back. */
node_id make_const(graph *g, qn_dtype dtype, tuple_id shape, scalar value);
node_id make_number(graph *g, qn_dtype dtype, tuple_id shape, double value); /* converted */
node_id make_iota(graph *g, qn_dtype dtype, tuple_id shape, int axis);
node_id make_elem(graph *g, int op, int n, const node_id *x); /* equal shapes and dtypes */
node_id make1(graph *g, int op, node_id a);
node_id make2(graph *g, int op, node_id a, node_id b);
node_id make3(graph *g, int op, node_id a, node_id b, node_id c);
node_id make_cast(graph *g, node_id x, qn_dtype dtype);
node_id make_bitcast(graph *g, node_id x, qn_dtype dtype);
node_id make_mark(graph *g, int op, node_id x);
node_id make_apart(graph *g, node_id x); /* another node at each call */
node_id make_reshape(graph *g, node_id x, tuple_id shape);
node_id make_expand(graph *g, node_id x, tuple_id shape);
node_id make_broadcast(graph *g, node_id x, tuple_id shape); /* also of lower rank */
node_id make_permute(graph *g, node_id x, const int *axes);
node_id make_pad(graph *g, node_id x, const int64_t *lo_hi_interior);
node_id make_slice(graph *g, node_id x, const int64_t *start_size_step);
/* The padding by which a slice's elements come back to where they were; dims: of its source. */
void slice_undone(graph *g, const int64_t *start_size_step, int rank, const int64_t *dims,
                  int64_t *lo_hi_interior);
/* What WINDOW's attributes say: r[.. i .. j ..] = x[.. start + stride*i + slope*j .. j ..], where i
 * goes along `axis` and j along `by`, of which x has `length` or one. */
typedef struct window_attr {
    int axis, by;
    int64_t stride, slope;   /* stride >= 1, slope is not 0 */
    sym start, size, length; /* size: of the result's axis */
} window_attr;
node_id make_window(graph *g, node_id x, const window_attr *w);
window_attr node_window(const graph *g, const graph_node *n);
node_id make_flip(graph *g, node_id x, uint32_t axis_mask);
node_id make_reduce(graph *g, int op, node_id x, uint32_t axis_mask);
/* The running results along an axis, a second operand in y or 0: of graph/monoids.h's row. */
typedef struct scan_attr {
    int monoid, axis;
    bool reverse; /* from the last element to the first */
} scan_attr;
node_id make_scan(graph *g, node_id x, node_id y, scan_attr s);
scan_attr node_scan(const graph *g, const graph_node *n);
node_id make_sum_product(graph *g, node_id a, node_id b, node_id here, uint32_t axis_mask);
node_id make_unreduce(graph *g, node_id x, tuple_id shape, uint32_t axis_mask);
/* index, marked to be checked when it is computed: a DETACH with the size of the axis and the name
 * of the operation (a literal) as attributes. What sees through DETACH sees through it. */
node_id make_checked(graph *g, node_id index, sym size, const char *name);
/* Is it such a mark? Then of which operation and size. */
const char *node_checked(const graph *g, const graph_node *n, sym *size);
node_id make_gather(graph *g, node_id x, node_id index, int axis);
node_id make_scatter(graph *g, node_id x, node_id index, node_id src, int axis, int monoid_row);
node_id make_call(graph *g, const call_attr *c, qn_dtype dtype, tuple_id shape, int sources,
                  const node_id *src);
call_attr node_call(const graph *g, const graph_node *n);
/* By which errors and profiles go. */
const char *routine_name(const graph *g, const call_attr *c);
bool node_same_call(const graph *g, const graph_node *a, const graph_node *b); /* one launch? */
tuple_id reduced_shape(graph *g, tuple_id shape, uint32_t axis_mask, bool keep);
sym padded_size(sym_store *s, sym n, const int64_t *lo_hi_interior); /* of one axis */
bool op_attr_is_size(int op, int i);                /* is an operation's i-th attribute a sym? */
uint32_t tuple_axes(const graph *g, tuple_id list); /* a list of axes as a mask */
uint32_t node_axes(const graph *g, node_id x);      /* a reduction's or flip's */

/* ---- pieces.c: values made of pieces --------------------------------------------------------- */

/* The pieces one behind the other along the axis; they have equal dtypes and, but for the axis,
 * shapes. n >= 1. */
node_id make_join(graph *g, int n, const node_id *piece, int axis);
int node_join_axis(const graph *g, const graph_node *n);
/* Checked by func/join.c, and brought to `dtype`; `stack`: the axis is a new one, and pieces, which
 * have equal shapes, have size 1 along it. */
qn_tensor *build_join(int n, qn_tensor *const *x, qn_dtype dtype, int axis, bool stack);

/* ---- window/unwindow.c: windows undone ------------------------------------------------------- */

/* What windows w of an axis of n places gather, given back to where they saw it: the sum of t over
 * all windows' places that see one; `repeated`: the places along w's other axis are summed, too
 * (and it has size 1). A convolution where t is a sum of products, as a gradient of one is. */
node_id make_unwindow(graph *g, node_id t, const window_attr *w, sym n, bool repeated);

/* ---- build.c: checked constructors behind the public API ------------------------------------- */

/* Each checks its arguments, reports by fail() with the operation's name, shapes and dtypes, opens
 * a guard, and gives NULL on error or on NULL input. Attributes, as stored in the node: IOTA
 * {axis}; PERMUTE {p...}; PAD {lo, hi, interior per axis: syms, syms, numbers}; SLICE {start, size,
 * step per axis: syms, syms, numbers}; WINDOW {axis, by, stride, slope; syms: start, size, length};
 * FLIP {sorted axes}; JOIN {axis}; reductions {sorted axes}; GATHER {axis};
 * SCATTER {axis, monoid}; SCAN {monoid, axis, reverse}; CALL {routine, result, what the routine
 * wants}; RESHAPE, EXPAND, CAST: none (shape and dtype say it). */
qn_tensor *build_elem(int op, int n, qn_tensor *const *x); /* promotes, broadcasts */
qn_tensor *build_cast(qn_tensor *x, qn_dtype dtype, bool bits);
qn_tensor *build_const(qn_ctx *qn, qn_dtype dtype, tuple_id shape, scalar value);
qn_tensor *build_iota(qn_ctx *qn, qn_dtype dtype, tuple_id shape, int axis);
qn_tensor *build_reshape(qn_tensor *x, tuple_id shape);
qn_tensor *build_expand(qn_tensor *x, tuple_id shape); /* same rank */
qn_tensor *build_permute(qn_tensor *x, int n, const int *axes);
qn_tensor *build_pad(qn_tensor *x, int rank, const int64_t *lo_hi_interior);
qn_tensor *build_slice(qn_tensor *x, int rank, const int64_t *start_size_step);
/* `before`: w's start says how far before the array the first window begins. */
qn_tensor *build_window(qn_tensor *x, const window_attr *w, bool before);
qn_tensor *build_unwindow(qn_tensor *t, const window_attr *w, bool before, sym n);
qn_tensor *build_flip(qn_tensor *x, uint32_t axis_mask);
qn_tensor *build_reduce(int op, qn_tensor *x, uint32_t axis_mask, bool keepdims);
qn_tensor *build_gather(qn_tensor *x, qn_tensor *index, int axis);
qn_tensor *build_scan(qn_tensor *x, qn_tensor *y, scan_attr s); /* y may be NULL */
qn_tensor *build_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis, int monoid);
/* The caller has checked that the routine takes these, and gives such a result. */
qn_tensor *build_call(const call_attr *call, qn_dtype dtype, tuple_id shape, int n,
                      qn_tensor *const *x);
qn_tensor *build_mark(int op, qn_tensor *x);
qn_tensor *build_apart(qn_tensor *x); /* a node of its own, whoever else made one of x */
/* index as an index of an axis of `size` (the user's): an error where it is known and outside, and
 * under QN_CHECK marked to be checked when it is computed. */
qn_tensor *build_index(qn_tensor *index, int64_t size);
bool build_axis(const qn_tensor *x, const char *op, int axis,
                int *out); /* negative axes; reports */

/* ---- rules.c, rules/move.c ------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 op_set; /* a bit for each operation */

enum {
#define X(name, ...) RULE_##name,
#include "graph/rules/rules.h"
#undef X
    RULE_COUNT
};
/* Another existing or simpler node of the same value as the node about to be made, or 0. */
node_id rules_apply(graph *g, const graph_node *n);
void rules_open(graph *g);
bool rule_sees(const graph *g, node_id n, int op);         /* is it that op, and not realized? */
bool rule_of_places(const graph *g, node_id n, int depth); /* made of IOTA and CONST only? */
#define X(name, ...) node_id rule_##name(graph *g, const graph_node *n);
#include "graph/rules/rules.h"
#undef X

/* ---- loop/replace.c -------------------------------------------------------------------------- */

/* The nodes of a graph with others in the places of some: what depends on these is made anew. */
typedef struct replacing {
    int n, roots;
    const node_id *from, *to; /* of equal shapes and dtypes */
    const node_id *root;
    node_id *out; /* of each root; itself where it depends on none */
} replacing;
void graph_replace(graph *g, arena *a, const replacing *r); /* a traversal; raises */

/* ---- order.c --------------------------------------------------------------------------------- */

/* Nodes reachable from `roots` in dependency order (sources first) into an arena array. Realized
 * nodes are leaves. No recursion in depth. Until the next traversal, a node of the result has mark
 * - g->mark_base as its place, and all others a mark below mark_base. */
uint32_t graph_order(graph *g, arena *a, int n, const node_id *roots, node_id **out);
/* The same, and what their gradients take their way by (node_links). */
uint32_t graph_order_links(graph *g, arena *a, int n, const node_id *roots, node_id **out);
/* As graph_order, and values that are kept are leaves, too. */
uint32_t graph_order_kept(graph *g, arena *a, int n, const node_id *roots, node_id **out);
/* The same through history; leaves are what is older than `born`. */
uint32_t graph_order_history(graph *g, arena *a, int n, const node_id *roots, uint32_t born,
                             node_id **out);
/* The nodes of such an order, which was the last traversal, to the log. */
void graph_log(graph *g, arena *a, uint32_t nodes, const node_id *node);

#include "graph/custom/custom.h"

#endif
