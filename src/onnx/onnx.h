/* onnx.h - models of the ONNX format: read, and recorded by the public functions.
 *
 * The way of a model: proto.c reads the wire format, model.c makes of it the structs below, once;
 * run.c walks the nodes of a graph in their order and calls for each the function of its operator's
 * row (ops.h), which records it; the other files are those functions, by subject. A value is a
 * tensor and its ONNX type. Values that follow no input and are small, shapes above all, are known:
 * they are computed aside, in a context of the oracle device that compiles nothing, so that what
 * makes sizes of sizes costs no kernel. */
#ifndef QN_ONNX_H
#define QN_ONNX_H

#include "base/base.h"
#include "quern_onnx.h"

/* ---- types.h --------------------------------------------------------------------------------- */

enum {
#define X(number, NAME, ...) ONNX_##NAME = number,
#include "onnx/types.h"
#undef X
    ONNX_STRING = 8,
    ONNX_TYPES = 27
};
typedef enum onnx_kind { ONNX_NONE, ONNX_SAME, ONNX_WHOLE, ONNX_NARROW } onnx_kind;
typedef struct onnx_type {
    const char *name; /* NULL: no such type, or none that is read */
    qn_dtype carrier;
    int bits;
    onnx_kind kind;
    int fraction, least;
    double largest;
} onnx_type;
extern const onnx_type onnx_types[ONNX_TYPES];
const onnx_type *onnx_type_of(int number); /* NULL where there is none */
int onnx_type_like(qn_dtype dtype);        /* the type that a dtype is */

/* ---- proto.c: the wire format of protocol buffers -------------------------------------------- */

/* A message that is being read, in the bytes of the whole model. */
typedef struct proto {
    const uint8_t *at, *end;
    struct qn_onnx *model;
} proto;
enum { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5 };
typedef struct proto_field {
    uint32_t number;
    int wire;
    uint64_t value; /* of VARINT, FIXED64 and FIXED32 */
    proto bytes;    /* of BYTES */
} proto_field;
/* The next field of a message; false at its end. Raises QN_EFORMAT where it is damaged. */
bool proto_next(proto *p, proto_field *f);
QN_NORETURN void proto_bad(const proto *p, const char *what);
uint64_t proto_varint(proto *p);
const proto *proto_message(const proto_field *f); /* raises where the field is no bytes */
const char *proto_text(const proto_field *f);     /* of the arena; no zero bytes */
int64_t proto_int(const proto_field *f);
float proto_float(const proto_field *f);
/* A repeated field's numbers, packed or not, appended to a list of the arena. */
void proto_ints(const proto_field *f, int64_t **list, uint32_t *n, uint32_t *cap);
void proto_floats(const proto_field *f, float **list, uint32_t *n, uint32_t *cap);

/* ---- model.c --------------------------------------------------------------------------------- */

enum { ONNX_DEPTH = 32 }; /* of graphs in graphs, and calls of functions */

typedef struct onnx_tensor {
    const char *name;
    int type, rank;
    int64_t shape[QN_MAX_RANK];
    proto message;        /* where its elements are */
    const void *lies;     /* the elements themselves, once they are at a multiple of their size */
    const char *location; /* of another file; NULL: none */
    int64_t offset, length;
} onnx_tensor;

typedef struct onnx_attr {
    const char *name, *text,
        *refers; /* refers: to an attribute of the function that it stands in */
    size_t text_size;
    float f;
    int64_t i;
    int64_t *ints;
    float *floats;
    const char **texts;
    uint32_t n_ints, n_floats, n_texts, cap_ints, cap_floats, cap_texts;
    struct onnx_tensor *tensor;
    struct onnx_graph *graph;
} onnx_attr;

typedef struct onnx_node {
    const char *name, *op, *domain;
    const char **input, **output;
    onnx_attr *attr;
    uint32_t n_in, n_out, n_attr, cap_in, cap_out, cap_attr;
} onnx_node;

typedef struct onnx_info {
    const char *name;
    int type, rank; /* type 0: no tensor; rank -1: not said */
    int64_t shape[QN_MAX_RANK];
    const char *dim_name[QN_MAX_RANK];
} onnx_info;

typedef struct onnx_graph {
    onnx_node *node;
    onnx_tensor *init;
    onnx_info *input, *output;
    uint32_t n_node, n_init, n_in, n_out, cap_node, cap_init, cap_in, cap_out;
    bool sparse; /* it has sparse initializers */
} onnx_graph;

typedef struct onnx_opset {
    const char *domain;
    int64_t version;
} onnx_opset;

typedef struct onnx_function {
    const char *name, *domain;
    onnx_graph body; /* inputs and outputs have names alone */
    onnx_attr *attr; /* defaults */
    onnx_opset *opset;
    uint32_t n_attr, cap_attr, n_opset, cap_opset;
} onnx_function;

typedef struct onnx_plan { /* a static graph of these dtypes and shapes */
    struct onnx_plan *next;
    qn_plan *plan;
    bool *absent; /* which outputs there are not */
    size_t words, bytes;
    int64_t key[];
} onnx_plan;

/* The bytes of a model: they stay while the model or a tensor needs them. */
typedef struct onnx_bytes {
    heap *heap;
    uint8_t *at;
    size_t size;   /* as requested from the heap */
    int64_t users; /* the model, and each weight that lies here */
} onnx_bytes;

typedef struct qn_onnx {
    qn_ctx *ctx;
    qn_ctx *aside; /* for known values; NULL: not opened yet */
    arena a;
    char *path, *folder; /* what errors call it; NULL: no files beside it */
    size_t path_size, folder_size;
    uint8_t *bytes;
    size_t size;
    onnx_bytes *held; /* those bytes, which weights lie in, too */
    int depth;        /* while it is read */
    onnx_graph graph;
    onnx_opset *opset;
    onnx_function *function;
    uint32_t n_opset, cap_opset, n_function, cap_function;
    uint64_t reads;     /* inputs whose values the last call read: as onnx_value.follows */
    qn_tensor **weight; /* of initializer i in ctx, kept; NULL: not used yet */
    qn_tensor **fixed;  /* by input: its value by qn_onnx_fix, kept, aside where it is small */
    onnx_plan *plans;
    qn_tensor **data; /* what the last call made of numbers, kept */
    uint32_t n_data, cap_data;
} onnx_model;

void onnx_read(onnx_model *m); /* m->bytes into the structs; raises */

/* ---- tensor.c -------------------------------------------------------------------------------- */

int64_t onnx_numel(const onnx_model *m, const onnx_tensor *t); /* raises where it is too large */
/* A tensor's elements in its carrier, in memory of `a`. Raises. */
void *onnx_elements(onnx_model *m, const onnx_tensor *t, arena *a);
/* The elements of one whose bytes are these, where they lie in the model's, moved to a multiple of
 * their size: from then on it is read from nowhere else. NULL: they have to be copied. Raises. */
const void *onnx_lying(onnx_model *m, onnx_tensor *t);
void onnx_let_go(void *bytes); /* one user of onnx_bytes less */

/* ---- run.c ----------------------------------------------------------------------------------- */

enum {
    ONNX_KNOWN_MOST = 4096,     /* elements of a value that is computed aside */
    ONNX_MADE_MOST = 100000000, /* of a table that an operator fills on the host */
    ONNX_SIZE_MOST = 1 << 30,   /* a stride, a pad, an axis they lie along: products fit */
    ONNX_STEPS_MOST = 1 << 22   /* nodes, names and trips of one call */
};

typedef struct onnx_value {
    const char *name;
    qn_tensor *t;    /* NULL: absent */
    qn_tensor *copy; /* of a known one in the main context, once it was wanted */
    int type;
    bool known;       /* lies aside */
    uint64_t follows; /* inputs that it is made of: a bit each, the last for all from 63 on */
    bool list;        /* a sequence: no tensor, but items */
    int items;
    struct onnx_value **item;
} onnx_value;

/* The names of a graph while it is recorded; `up`: those of the graph around, which it sees. */
typedef struct onnx_frame {
    struct onnx_frame *up;
    struct onnx_run *run;
    onnx_value **slot;
    uint32_t mask, count;
    const onnx_node *call; /* in a function: where it is called, */
    struct onnx_frame *caller;
    const onnx_function *function;
} onnx_frame;

typedef struct onnx_run {
    onnx_model *model;
    arena a;
    int depth;
    uint64_t spent;   /* of ONNX_STEPS_MOST */
    uint64_t follows; /* of the node that is being recorded: as onnx_value.follows */
} onnx_run;

/* One node that is being recorded. */
typedef struct onnx_op {
    onnx_run *run;
    onnx_frame *frame;
    const onnx_node *node;
    const struct onnx_row *row;
    int version; /* of the opset */
    qn_ctx *qn;  /* where it is recorded: of the model, or aside */
    int n_in, n_out;
    onnx_value **value; /* inputs */
    qn_tensor **out;
    int *type;         /* of outputs; what the row says where the function leaves it */
    onnx_value **made; /* outputs that are values already, in place of `out` */
} onnx_op;

typedef enum onnx_result {
    RESULT_LIKE,
    RESULT_LIKE_1,
    RESULT_BOOL,
    RESULT_I64,
    RESULT_OWN
} onnx_result;
typedef qn_tensor *(*onnx_unary)(qn_tensor *x);
typedef qn_tensor *(*onnx_binary)(qn_tensor *x, qn_tensor *y);
typedef struct onnx_row {
    const char *domain, *name;
    int first, last; /* opsets; last 0: all that follow */
    int least;       /* inputs that must be there */
    onnx_result result;
    void (*record)(onnx_op *o);
    onnx_unary unary;
    onnx_binary binary;
    int variant;  /* for functions of several rows */
    bool control; /* has graphs: takes its inputs as they are */
} onnx_row;
extern const onnx_row onnx_rows[];
extern const int onnx_row_count;

/* Raises with the node's name, operator and opset. */
QN_NORETURN void op_fail(const onnx_op *o, qn_code code, const char *fmt, ...) QN_PRINTF(3, 4);
bool op_has(const onnx_op *o, int i);   /* is input i there? */
bool op_wants(const onnx_op *o, int i); /* has output i a name? */
qn_tensor *op_in(onnx_op *o, int i);    /* input i in o->qn; NULL: absent */
int op_type(const onnx_op *o, int i);   /* its ONNX type; 0: absent */
int op_rank(onnx_op *o, int i);
int64_t *op_shape(onnx_op *o, int i, int *rank); /* of input i; all sizes are numbers */
int64_t *op_shape_of(onnx_op *o, qn_tensor *t, int *rank);
int64_t op_numel(onnx_op *o, int i);
/* The values of input i, read now; NULL and 0 where it is absent. */
int64_t *op_ints(onnx_op *o, int i, int *n);
double *op_floats(onnx_op *o, int i, int *n);
int64_t op_int(onnx_op *o, int i, int64_t otherwise); /* of one element */
double op_float(onnx_op *o, int i, double otherwise);
const onnx_attr *op_attr(const onnx_op *o, const char *name);
int64_t attr_int(const onnx_op *o, const char *name, int64_t otherwise);
double attr_float(const onnx_op *o, const char *name, double otherwise);
const char *attr_text(const onnx_op *o, const char *name, const char *otherwise);
const int64_t *attr_ints(const onnx_op *o, const char *name, int *n); /* NULL: none */
/* An axis in [0, rank). */
int op_axis(const onnx_op *o, int64_t axis, int rank);
void *op_alloc(const onnx_op *o, size_t n, size_t size); /* cleared; of the run's arena */
/* The product of n sizes, which must not be more than `most`. */
int64_t op_count(const onnx_op *o, int n, const int64_t *size, int64_t most);
/* An attribute's numbers, exactly n from `least` to ONNX_SIZE_MOST; without it `out` stays. */
void op_list(const onnx_op *o, const char *name, int n, int64_t least, int64_t *out);
/* Count n steps of a call. A small file may ask for any number of them, by loops in loops and
 * functions that call functions, so there is a most. */
void run_spend(onnx_run *r, uint64_t n);
/* Tensors of numbers of the host, in o->qn. What is made in the model's context stays until the
 * next call: a static graph of what was recorded takes it for a parameter, which must be there. */
qn_tensor *data_kept(onnx_model *m, qn_tensor *t); /* t; raises */
qn_tensor *op_from(onnx_op *o, qn_dtype dtype, int rank, const int64_t *shape, const void *data);
qn_tensor *op_from_ints(onnx_op *o, int64_t n, const int64_t *v);
qn_tensor *op_from_floats(onnx_op *o, int rank, const int64_t *shape, const double *v, qn_dtype d);
qn_tensor *op_cast(onnx_op *o, qn_tensor *x, int from, int to); /* of ONNX types, as Cast has it */
qn_tensor *op_quantized(onnx_op *o, qn_tensor *x, int to, bool saturate); /* rounded to a type */
/* One that is not known follows what the node does that is being recorded. */
onnx_value *value_new(onnx_run *r, const char *name, qn_tensor *t, int type, bool known);
onnx_value *value_of_tensor(onnx_run *r, const onnx_tensor *t);
qn_tensor *value_main(onnx_run *r, onnx_value *v); /* in the model's context */
onnx_value *frame_find(onnx_frame *f, const char *name);
void frame_set(onnx_frame *f, const char *name, onnx_value *v);
/* Record a graph on values for its inputs; its outputs into out[n_out]. */
void run_graph(onnx_run *r, onnx_frame *up, const onnx_graph *g, int n_in, onnx_value **in,
               onnx_value **out);

/* ---- the operators: functions of ops.h's rows ------------------------------------------------ */

#define X(domain, name, first, last, least, result, function, ...) void function(onnx_op *o);
#include "onnx/ops.h"
#undef X

#endif
