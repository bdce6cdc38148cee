/* core.h - the extension module quern._core: what its files share, its functions grouped by file.
 *
 * The module is made for the limited API of CPython 3.11, so one file serves every later version.
 * It has one state, for types with slots have no cheap way to a module of theirs: the package is
 * for one interpreter of a process.
 *
 * A context is for one thread at a time. With the interpreter's lock held that is so by itself;
 * what computes lets the lock go and says so (`busy`), and whoever comes in the meantime waits.
 * */
#ifndef QUERN_PYTHON_CORE_H
#define QUERN_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <quern.h>

#define MOST_PARAMETERS 16
#define likely(x)       __builtin_expect(!!(x), 1)
#define unlikely(x)     __builtin_expect(!!(x), 0)

typedef struct tensor_object {
    PyObject_HEAD qn_tensor *t;
    PyObject *weak; /* references to it */
    PyObject *grad; /* NULL: none */
    uint32_t place; /* where it was recorded: lines.c */
    uint32_t epoch; /* core.epoch when it was made */
    uint16_t flags;
    uint64_t mark; /* of the call of a jit that met it last, and its number there: fast.c */
    struct tensor_object *next, *previous; /* among those with REQUIRES_GRAD */
} tensor_object;
enum { REQUIRES_GRAD = 1, LEAF = 2, OUTSIDE = 4, BARE = 8 };
/* OUTSIDE: a jit found it by itself; BARE: recorded under no_grad, so without history */

typedef struct dtype_object {
    PyObject_HEAD qn_dtype code;
    const char *name;
} dtype_object;

enum { MOST_DTYPES = 40, MOST_CONTEXTS = 8 };
typedef struct core_state {
    PyTypeObject *tensor_type, *dtype_type;
    PyObject *dtype[MOST_DTYPES]; /* by code; NULL: none */
    PyObject *range_error, *internal_error;
    qn_ctx *ctx; /* the default one; NULL: not opened yet */
    struct {
        qn_ctx *ctx;
        char *device; /* as it was asked for */
        bool check;   /* the knob, as the user has it */
    } context[MOST_CONTEXTS];
    int contexts;
    char *llvm;        /* the library's file where none is asked for; NULL: the system's */
    volatile int busy; /* a thread computes without the interpreter's lock */
    qn_tensor **dead;  /* released while that was so */
    size_t deads, dead_cap;
    tensor_object *requiring; /* a list */
    bool no_grad, lines;
    int deriving; /* functions that are called to be derived */
    /* Changes with a fork, and is another one while a function is traced: a tensor of another epoch
     * is not used as it is (tensor_elsewhere). */
    uint32_t epoch;
} core_state;
extern core_state core;

/* ---- module.c: contexts ---------------------------------------------------------------------- */

qn_ctx *core_ctx(void); /* the default context; NULL with an exception */
qn_ctx *core_ctx_of(PyObject *device);
void core_check(bool on); /* indices, by contexts that do: off for a while, on again */
void core_wait(void);     /* until no other thread computes */
static inline void core_enter(void) {
    if (unlikely(core.busy || core.deads)) core_wait();
}
void core_release(qn_tensor *t); /* now, or when that may be */
/* Around what may take long: the interpreter's lock is let go. */
typedef struct computing {
    PyThreadState *thread;
} computing;
computing compute_begin(void);
bool compute_end(computing c); /* false: an exception of a signal */

/* ---- errors.c -------------------------------------------------------------------------------- */

PyObject *raise_of(qn_ctx *qn); /* the context's first error as an exception; gives NULL */
PyObject *raise_at_read(qn_ctx *qn, uint32_t place);
bool errors_add(PyObject *module);

/* ---- lines.c --------------------------------------------------------------------------------- */

uint32_t line_here(void);                       /* the user's place now; 0: unknown */
const char *line_of(uint32_t place, int *line); /* NULL: unknown */
void lines_open(void);

/* ---- tensor.c -------------------------------------------------------------------------------- */

static inline bool is_tensor(PyObject *o) {
    return Py_TYPE(o) == core.tensor_type;
}
qn_tensor *tensor_elsewhere(tensor_object *o);
/* NULL with an exception for a tensor that cannot be used here. What runs Python's code
 * afterwards, __index__ and the like, asks again: another thread may compute, or have renamed
 * it. */
static inline qn_tensor *handle_of(PyObject *o) {
    core_enter();
    tensor_object *t = (tensor_object *)o;
    if (unlikely(t->epoch != core.epoch)) return tensor_elsewhere(t);
    return t->t;
}
/* o names another tensor from now on, which it takes over. false with an exception. */
bool tensor_rename(tensor_object *o, qn_tensor *t);
/* Is it to have a gradient? Says the flag, and the list of those that are. */
void tensor_require(tensor_object *o, bool on);
/* What `x op= y` and `x[i] = y` make of x, which takes t in any case: under no_grad a tensor of
 * data keeps its memory; else x names the result. */
bool tensor_become(tensor_object *o, qn_tensor *t);
PyObject *
tensor_wrap(qn_tensor *t); /* takes t over; NULL: the error of the context that was asked last */
/* The same of t as it is, also where history is not recorded: what names the parts of a graph. */
PyObject *tensor_named(qn_tensor *t);
PyObject *tensor_shape(qn_tensor *t);
bool tensor_add(PyObject *module);
bool tensor_add_method(PyMethodDef *m); /* which stays where it is */
extern PyMethodDef tensor_methods[];

/* ---- dtype.c --------------------------------------------------------------------------------- */

bool dtype_add(PyObject *module);
bool dtype_of(PyObject *o, qn_dtype *out); /* of what names one; false with an exception */
const char *dtype_format(qn_dtype d);      /* of the struct module; NULL: none */
int dtype_of_format(const char *format, Py_ssize_t size); /* -1: none */
const char *dtype_name(qn_dtype d);

/* ---- make.c: from Python's values ------------------------------------------------------------ */

/* A tensor of a number, list or array; dtype NULL: as the values say. NULL with an exception. */
qn_tensor *tensor_from(qn_ctx *qn, PyObject *o, const qn_dtype *dtype);
bool is_number(PyObject *o); /* of Python, or of NumPy without axes */
int number_kind(
    PyObject *o); /* 0 bool, 1 int, 2 float, -1: no number, or one that says its dtype */
int scalar_kind(PyObject *o); /* of what is_number: 0, 1 or 2 */
/* A number in a dtype, which is a float's for a float, exactly as far as that has it. */
qn_tensor *number_in(qn_ctx *qn, qn_dtype dtype, PyObject *number);
/* A number beside tensors that meet in a dtype, which it takes as far as that can hold its kind. */
qn_tensor *number_beside(qn_ctx *qn, qn_dtype dtype, PyObject *number);
/* A tensor for an operand: itself, or a new one that goes when `made` is released. */
qn_tensor *operand(PyObject *o, qn_tensor *beside, bool *made);
/* The same of what is written into x: it is to become x's dtype. Lists are taken, too. */
qn_tensor *value_for(PyObject *o, qn_tensor *x, bool *made);
PyObject *make_tensor(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *from_bytes(PyObject *self, PyObject *args);

/* ---- read.c: to Python's values -------------------------------------------------------------- */

PyObject *tensor_item(PyObject *self, PyObject *none);
PyObject *tensor_tolist(PyObject *self, PyObject *none);
PyObject *tensor_repr(PyObject *self);
int tensor_bool(PyObject *self);
PyObject *tensor_int(PyObject *self);
PyObject *tensor_index(PyObject *self);
PyObject *tensor_float(PyObject *self);
PyObject *tensor_complex(PyObject *self, PyObject *none);
/* The value in memory of PyMem_Malloc, of *size bytes. */
void *read_value(PyObject *self, size_t *size);

/* ---- parse.c, call.c: arguments, and the generated functions --------------------------------- */

typedef struct argument {
    qn_tensor *t;
    int64_t z;
    double f;
    bool given, made, one, all;
    int n;
    int64_t size[2 * QN_MAX_RANK];
    int axis[12];
    double number[3];
    int64_t after[3];
    bool same;
    void *list;
    PyObject *o;
    const char *text;
} argument;

typedef struct param {
    PyObject *name;
    char kind;
    bool optional, keyword, none; /* may be left out; by keyword alone; without a default, None */
    bool apart;                   /* no operand: masks, indices */
    bool alike;                   /* as many as the parameter before */
    int words;                    /* an enum's number */
    double number;
} param;

typedef struct call_row {
    const char *c_name, *names, *spec, *results;
    qn_tensor *(*one)(const argument *v);
    int (*count)(const argument *v);
    qn_code (*many)(const argument *v, qn_tensor **out);
    param param[MOST_PARAMETERS];
    int params, positional;
    bool axes; /* one of them is of axes */
    PyTypeObject *result;
} call_row;

bool parse_spec(call_row *r);
bool parse(const call_row *r, PyObject *const *args, Py_ssize_t n, PyObject *names, argument *v);
void parse_free(const call_row *r, argument *v);
const char *enum_words(int number);
bool calls_add(PyObject *module);
bool sizes_of(PyObject *o, int most, int64_t *out, int *n, const char *what);

/* ---- autograd.c ------------------------------------------------------------------------------ */

/* A list of tensors, some of which may be None; `keep` holds them. */
typedef struct tensor_list {
    PyObject *keep;
    qn_tensor **t;
    int n;
} tensor_list;
/* false with an exception; tensors_free() also then. `none`: None may be among them. */
bool tensors_of(PyObject *o, bool none, const char *what, tensor_list *x);
void tensors_free(tensor_list *x);
bool autograd_add(PyObject *module);
/* Was it made of a tensor with requires_grad? -1 with an exception. */
int has_history(qn_tensor *y);

/* ---- loops.c, files.c, data.c, kernels.c, view.c, llm.c, models.c ---------------------------- */

bool loops_add(PyObject *module);
bool kernels_add(PyObject *module);
bool files_add(PyObject *module);
bool data_add(PyObject *module);
bool view_add(PyObject *module);
bool llm_add(PyObject *module);
bool models_add(PyObject *module);

/* ---- jit.c ----------------------------------------------------------------------------------- */

enum { EPOCH_FORK = 1 << 20 }; /* epochs of a process */
static inline bool tracing(void) {
    return unlikely(core.epoch % EPOCH_FORK != 0);
}
/* While a function is traced no value can be read: raises, and says false. */
bool may_read(PyObject *o, const char *what);
qn_tensor *capture_of(tensor_object *o); /* what stands for a tensor from outside of a trace */
bool capture_changes(tensor_object *o);  /* it is about to be changed in the trace */
/* What a trace has in place of o: the stand-in of an argument, else o itself. */
tensor_object *trace_object(tensor_object *o);
/* Data that was just made: in a trace it stays until its plan has it. Gives t; NULL: released. */
qn_tensor *trace_keep(qn_tensor *t);
void trace_backward(void); /* what is traced takes gradients itself */
/* x names what y names: what a plan has computed of it. false with an exception. */
bool tensor_adopt(PyObject *x, PyObject *y);
/* A list's handles as they are, also of another epoch: of a trace that has ended. In memory of
 * PyMem_Malloc; NULL without an exception. */
qn_tensor **handles(PyObject *list, int *n);
/* A list of what a plan gives for these inputs. */
PyObject *plan_run_handles(PyObject *plan, qn_tensor **inputs);
bool jit_add(PyObject *module);

/* ---- export.c -------------------------------------------------------------------------------- */

bool export_add(PyObject *module);

/* ---- fast.c ---------------------------------------------------------------------------------- */

bool fast_add(PyObject *module);

/* ---- exchange.c ------------------------------------------------------------------------------ */

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, Py_buffer *view);
qn_tensor *tensor_of_dlpack(qn_ctx *qn, PyObject *o, bool copy); /* NULL with an exception */
struct dl_versioned *dlpack_give(PyObject *self, bool copy);     /* the same */
/* Takes m over in any case; NULL with an exception. */
qn_tensor *dlpack_take(qn_ctx *qn, struct dl_versioned *m, bool copy);
bool exchange_add(PyObject *module);

/* ---- table.c --------------------------------------------------------------------------------- */

/* By the C table of o's type; NULL without an exception where that is not to be had. */
struct dl_versioned *table_take(PyObject *o);
/* PyTorch's __dlpack__, too, gives the memory of a negated view as it is: true, an exception. */
bool table_refuses(PyObject *o);
bool table_add(void);

/* ---- layers.c -------------------------------------------------------------------------------- */

bool layers_add(PyObject *module);

/* ---- optim.c --------------------------------------------------------------------------------- */

bool optim_add(PyObject *module);

/* ---- number.c, index.c ----------------------------------------------------------------------- */

extern PyType_Slot *number_slots(void);
PyObject *tensor_get(PyObject *self, PyObject *key);
int tensor_set(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t tensor_length(PyObject *self);

#endif
