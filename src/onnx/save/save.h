/* save.h - graphs written as models of the ONNX format.
 *
 * What is written is the graph as it was recorded, before kernels are made of it: a node of
 * graph/ops.h becomes the ONNX nodes that its row says (rows.h), a BUFFER an input or an
 * initializer. A spelling is a text, Mul(x, Sigmoid(x)), which spell.c reads and writes as nodes;
 * where ONNX or what runs it commonly takes a dtype not, the row's types say so, and the value is
 * computed in a wider one between two casts, which is what Quern's own kernels do.
 *
 * A value that is repeated along axes, an EXPAND or a CONST, is written as it is before that, its
 * slim form: ONNX broadcasts, too. Nobody may see the difference but who needs the whole array, for
 * whom full_of() adds an Expand.
 *
 * Nodes are visited twice, by the same functions: from the results back, when nothing is written
 * and values that are asked for are marked as needed, and forth, when those are written. */
#ifndef QN_ONNX_SAVE_H
#define QN_ONNX_SAVE_H

#include "graph/graph.h"
#include "io/io.h"
#include "onnx/onnx.h"

/* A value of the file by number; 0: none, which an input that is left out is. */
typedef uint32_t val;

enum { SAVE_OPSET = 20, SAVE_OPSET_BITCAST = 26, SAVE_SPELLED = 1 << 12 };

/* An initializer: a constant, whose bytes are here, or a parameter, whose value is in a buffer. */
typedef struct save_init {
    const char *name;
    qn_dtype dtype;
    int rank;
    const int64_t *dim;
    const void *data; /* NULL: the buffer has it */
    uint64_t bytes;
    uint32_t buffer;
} save_init;

/* What became of a node. */
typedef struct save_node {
    val slim, full;
    uint32_t repeated; /* axes along which it is: they have size 1 in the slim form */
    bool scalar;       /* its slim form has no axes at all */
    bool needed;
} save_node;

/* A value. A reshape is written when it is used, and one of a reshape is one of what that is of. */
typedef struct save_value {
    const char *name;  /* NULL: a number is its name */
    val base;          /* what it is a reshape of; 0: it is none */
    tuple_id shape;    /* where it is known */
    bool known, waits; /* waits: it is not written */
} save_value;

/* A graph that is written: the whole one, or a loop's body. */
typedef struct save_scope {
    uint32_t nodes;
    node_id *order;
    save_node *node; /* by place in the order */
    uint32_t *place; /* by node */
} save_scope;

typedef struct save_size {
    sym size;
    val v;
} save_size;

typedef struct saving {
    qn_ctx *qn;
    graph *g;
    arena a;
    const char *path;
    qn_onnx_save_options o;
    int n_in, n_out;
    qn_tensor *const *input, *const *output;
    save_scope *in;
    bool marking;    /* nothing is written: see above */
    node_id current; /* the node that is being written */
    save_value *value;
    uint32_t values, values_cap;
    const char *prefix; /* in front of values' numbers; no name of the user's is one of these */
    save_init *init;
    uint32_t inits, inits_cap;
    idset constants; /* of initializers with data, by what they are */
    save_size *size; /* sizes that vary, as values */
    uint32_t sizes, sizes_cap;
    int opset;
    str text; /* NodeProtos */
    str *out; /* where they are written: it, or those of a body */
    file_writer file, data;
    uint64_t written; /* of the file for parameters */
} saving;

/* ---- wire.c: messages ------------------------------------------------------------------------ */

void wire_int(str *out, uint32_t field, int64_t v);
void wire_text(str *out, uint32_t field, const char *text);
void wire_bytes(str *out, uint32_t field, const void *bytes, size_t n);
void wire_key(str *out, uint32_t field, uint64_t size); /* of a message of so many bytes */
/* A node of an operator with its attributes in brackets, "Gather[axis=1]", onto s->out. */
void wire_node(saving *s, const char *spec, int n_in, const val *in, int n_out, val first);
void wire_loop(saving *s, int n_in, const val *in, int n_out, val first, const str *body);
/* A ValueInfoProto as a field of a graph. */
void wire_info(saving *s, uint32_t field, val v, qn_dtype dtype, tuple_id shape, str *out);
void wire_file(saving *s); /* all of it, to s->path */

/* ---- spell.c: values ------------------------------------------------------------------------- */

QN_NORETURN void save_refuse(const saving *s, qn_code code, const char *fmt, ...) QN_PRINTF(3, 4);
val val_new(saving *s, const char *name);         /* NULL: it has none */
const char *val_name(saving *s, val v);           /* of the arena */
void val_shape(saving *s, val v, tuple_id shape); /* it is known */
void val_written(saving *s, val v);               /* if it waits, it is written now */
/* Nodes as a text says, of up to n = 5 values x, y, z, u and v: "a=Exp(x);Div(a,Add(a,1))". Names
 * of operators begin with a capital, numbers are scalars of `dtype`; "TopK:2(x,y)" has two results,
 * of which the second is one more than the first. */
val spell(saving *s, qn_dtype dtype, int n, const val *x, const char *fmt, ...) QN_PRINTF(5, 6);
val save_scalar(saving *s, qn_dtype dtype, uint64_t bits);
val save_ints(saving *s, int n, const int64_t *v);             /* [n] in i64 */
val save_table(saving *s, int64_t n, int64_t m, int64_t *v);   /* [n, m] in i64 */
val save_sizes(saving *s, int n, const int64_t *syms);         /* the same of sizes */
val save_cast(saving *s, val x, qn_dtype from, qn_dtype to);   /* x itself where they are equal */
val save_reshape(saving *s, val x, int n, const int64_t *to);  /* to sizes */
val save_permute(saving *s, val x, int n, const int *axes);    /* x itself where nothing moves */
const char *save_axes(saving *s, int n, const int *axes);      /* "(0,2,1)" */
bool save_number(const saving *s, int64_t size, int64_t *out); /* is a size a number? */
int64_t save_fixed(const saving *s, int64_t size);             /* it must be one */

/* ---- view.c ---------------------------------------------------------------------------------- */

enum { SAVE_SPACE = 3, ABSENT = -1 };

/* r[.. i .. j ..] = x[.. stride*i + slope*j - before ..], i along `axis` and j along `by`; so many
 * places are looked at behind the end. */
typedef struct save_window_seen {
    int axis, by;
    int64_t stride, slope, before, after, length;
} save_window_seen;

/* An operand as a view of an array, perhaps as windows of it. */
typedef struct save_view {
    node_id from; /* the array */
    int rank;     /* of the operand */
    const int64_t *dim;
    int at[QN_MAX_RANK]; /* by axis of the operand: which one of the array's, or ABSENT */
    int windows;
    save_window_seen window[SAVE_SPACE];
    uint32_t places, inner; /* the windows' axes: masks of axis and by */
} save_view;
void save_find_view(const saving *s, node_id operand, bool windows, save_view *out);
bool save_has_windows(const save_view *v);   /* and each of an axis of its array */
uint32_t save_view_axes(const save_view *v); /* those that are its array's, and longer than 1 */
val save_view_value(saving *s, const save_view *v); /* of the array */

/* ---- reduce.c: axes in groups ---------------------------------------------------------------- */

/* Axes in groups, which are masks of them. What is in no group has size 1. */
typedef struct grouping {
    int rank, groups;
    const int64_t *dim;
    const uint32_t *group;
} grouping;
/* x, the array of a view, with the axes in the order of the groups; those of `whole` are one axis
 * each. */
val save_grouped(saving *s, val x, const save_view *v, const grouping *g, uint32_t whole);
/* Back from all of these to the order of the axes, without those of `gone`. */
val save_ungrouped(saving *s, val x, const grouping *g, uint32_t gone);

/* ---- save.c: nodes --------------------------------------------------------------------------- */

save_node *node_of(const saving *s, node_id n); /* of a node of the order */
val full_of(saving *s, node_id n);
val slim_of(saving *s, node_id n);
/* What the roots need in an order; which of it is needed; and that, written. */
void save_open_scope(saving *s, uint32_t roots, const node_id *root);
void save_mark_scope(saving *s, uint32_t roots, const node_id *root);
void save_write_scope(saving *s);
/* The value of the node that is being written: slim where it is repeated. */
void save_done(saving *s, val v);

/* ---- rows.h ---------------------------------------------------------------------------------- */

typedef struct save_row {
    void (*write)(saving *s, const graph_node *x); /* NULL: there is no way to write it */
    uint32_t types;                                /* that it takes as they are */
    const char *real, *whole, *natural, *truth;    /* natural: of u64 where that differs */
} save_row;
extern const save_row save_rows[OP_COUNT];
/* The dtype that a row computes `dtype` in: itself, or a wider one; raises where there is none. */
qn_dtype save_wide(const saving *s, uint32_t types, qn_dtype dtype);

void save_none(saving *s, const graph_node *x);
void save_const(saving *s, const graph_node *x);
void save_iota(saving *s, const graph_node *x);
void save_mark(saving *s, const graph_node *x);
void save_elem(saving *s, const graph_node *x);
void save_to(saving *s, const graph_node *x);
void save_bits(saving *s, const graph_node *x);
void save_move(saving *s, const graph_node *x);
void save_expand(saving *s, const graph_node *x);
void save_pad(saving *s, const graph_node *x);
void save_window(saving *s, const graph_node *x);
void save_join(saving *s, const graph_node *x);
void save_reduce(saving *s, const graph_node *x);
void save_product(saving *s, const graph_node *x);
void save_scan(saving *s, const graph_node *x);
void save_gather(saving *s, const graph_node *x);
void save_scatter(saving *s, const graph_node *x);
void save_call(saving *s, const graph_node *x);
void save_loop(saving *s, const graph_node *x);
void save_result(saving *s, const graph_node *x);
/* image.c: by an operator for images, where it is such a computation; false: it is none. */
bool save_conv(saving *s, const graph_node *x);
bool save_pool(saving *s, const graph_node *x);

#endif
