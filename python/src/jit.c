/* jit.c - what quern.jit is made of: traces and plans. jit.py has the rest.
 *
 * While a function is traced its operations are recorded on placeholders. A tensor from outside
 * that it uses, captured, has a placeholder, too, made at its first use: so the plan is a
 * function of its inputs alone, and whatever value a captured tensor has at a later call is the
 * one that is used. What the function does to it, x += 1 or a gradient, is an output of the plan.
 * No value can be read, for there is none: what depends on one would be frozen.
 *
 * A trace for a program of C (export.py) is of the values that captured tensors have: their
 * placeholders hold copies of these, and behind it they are as before in all they have. C has no
 * errors: such a trace does not check indices. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct capture {
    tensor_object *o; /* a reference */
    qn_tensor *stand_in, *before;
    uint32_t epoch; /* before */
    uint16_t flags;
    PyObject *grad;
    bool changed;
    tensor_object *argument; /* what stands for o where that was given; a reference */
    bool found;              /* from outside, too */
} capture;

static struct {
    capture *at;
    size_t n, cap;
    uint32_t traces;
    qn_tensor **data; /* made of Python's values: constants of the graph, kept for its plan */
    size_t datas, data_cap;
    bool backward; /* the function calls it */
    bool values;   /* what stands for a captured tensor has its value */
} trace;

void trace_backward(void) {
    trace.backward = true;
}

bool may_read(PyObject *o, const char *what) {
    if (!tracing()) return true;
    int line = 0;
    const char *file = o && is_tensor(o) ? line_of(((tensor_object *)o)->place, &line) : NULL;
    PyObject *where =
        file ? PyUnicode_FromFormat(" (recorded at %s:%d)", file, line) : PyUnicode_FromString("");
    if (where)
        PyErr_Format(PyExc_RuntimeError,
                     "%s is not known while a function is traced by jit: compute with quern.where, "
                     "quern.cond or a loop, give what decides as an argument that is no tensor, or "
                     "leave this part outside%U",
                     what, where);
    Py_XDECREF(where);
    return false;
}

/* ---- captures -------------------------------------------------------------------------------- */

static capture *find(const tensor_object *o) {
    for (size_t i = trace.n; i-- > 0;)
        if (trace.at[i].o == o) return &trace.at[i];
    return NULL;
}

/* Zeros that take no memory until somebody reads them, which nobody does. */
typedef struct zero_pages {
    void *at;
    size_t size;
} zero_pages;

static void unmap(void *owner) {
    zero_pages *z = owner;
    munmap(z->at, z->size);
    free(z);
}

static qn_tensor *mapped_zeros(qn_ctx *qn, qn_dtype d, int rank, const int64_t *size, size_t n) {
    zero_pages *z = malloc(sizeof *z);
    if (!z) return NULL;
    void *at = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *z = (zero_pages){at, n};
    qn_tensor *t = at == MAP_FAILED ? NULL
                                    : qn_borrow(qn, d, rank, size, at,
                                                &QN_LENDER(.give_back = unmap, .owner = z));
    if (t) return t;
    if (at != MAP_FAILED) munmap(at, n);
    free(z);
    return NULL;
}

enum { FEW_BYTES = 1 << 16 }; /* zeroed sooner than a mapping is made */

typedef struct extents {
    int64_t size[QN_MAX_RANK];
    int rank;
    qn_dtype dtype;
    size_t bytes;
} extents;

/* false: x's size is not known, which the context says. */
static bool extents_of(qn_tensor *x, extents *e) {
    int64_t n = qn_numel(x);
    e->rank = qn_rank(x);
    e->dtype = qn_dtype_of(x);
    e->bytes = n >= 0 ? (size_t)n * qn_dtype_size(e->dtype) : 0;
    for (int i = 0; i < e->rank; i++) e->size[i] = qn_dim(x, i);
    return n >= 0;
}

/* Data of x's dtype and shape: a place for what an input is given. A model's weights and their
 * optimizer's state are not to be there twice while a step is traced. */
static qn_tensor *stand_in(qn_tensor *x) {
    extents e;
    if (!extents_of(x, &e)) return NULL;
    if (e.bytes > FEW_BYTES && e.dtype != QN_C64 && e.dtype != QN_C128)
        return mapped_zeros(qn_context(x), e.dtype, e.rank, e.size, e.bytes);
    void *zeros = PyMem_Calloc(e.bytes + 1, 1);
    qn_tensor *t = zeros ? qn_from(qn_context(x), e.dtype, e.rank, e.size, zeros) : NULL;
    PyMem_Free(zeros);
    return t;
}

/* A copy of x as it is now. */
static qn_tensor *copy_of(qn_tensor *x) {
    extents e;
    if (!extents_of(x, &e)) return NULL;
    void *data = PyMem_Malloc(e.bytes + 1);
    if (!data) return (void *)PyErr_NoMemory();
    computing c = compute_begin();
    qn_code code = qn_read(x, data, e.bytes);
    bool fine = compute_end(c) && code >= 0;
    qn_tensor *t = fine ? qn_from(qn_context(x), e.dtype, e.rank, e.size, data) : NULL;
    PyMem_Free(data);
    return t;
}

/* Room for one more? */
static bool grow(void) {
    if (trace.n < trace.cap) return true;
    size_t cap = trace.cap ? 2 * trace.cap : 32;
    capture *grown = PyMem_Realloc(trace.at, cap * sizeof *grown);
    if (!grown) return PyErr_NoMemory(), false;
    trace.at = grown;
    trace.cap = cap;
    return true;
}

tensor_object *trace_object(tensor_object *o) {
    capture *c = tracing() && o->epoch != core.epoch ? find(o) : NULL;
    if (!c || !c->argument) return o;
    c->found = true;
    return c->argument;
}

qn_tensor *capture_of(tensor_object *o) {
    tensor_object *given = trace_object(o);
    if (given != o) return given->t;
    capture *c = find(o);
    if (c) return c->changed ? o->t : c->stand_in;
    qn_tensor *t = trace.values ? copy_of(o->t) : stand_in(o->t);
    if (!t) return raise_of(qn_context(o->t)), NULL;
    if (!grow()) return core_release(t), NULL;
    Py_INCREF((PyObject *)o);
    Py_XINCREF(o->grad);
    trace.at[trace.n++] = (capture){o, t, o->t, o->epoch, o->flags, o->grad, false, NULL, false};
    return t;
}

bool capture_changes(tensor_object *o) {
    if (!capture_of(o)) return false;
    capture *c = find(o);
    if (c->changed) return true;
    c->changed = true;
    o->t = qn_keep(c->stand_in); /* until it is another one */
    o->epoch = core.epoch;
    return true;
}

/* ---- data ------------------------------------------------------------------------------------ */

qn_tensor *trace_keep(qn_tensor *t) {
    if (!t || !tracing()) return t;
    qn_dtype d = qn_dtype_of(t);
    qn_tensor *held = d == QN_C64 || d == QN_C128 ? qn_as_real(t) : qn_keep(t); /* the memory's */
    if (held && trace.datas == trace.data_cap) {
        size_t cap = trace.data_cap ? 2 * trace.data_cap : 32;
        qn_tensor **grown = PyMem_Realloc(trace.data, cap * sizeof *grown);
        if (!grown) {
            PyErr_NoMemory();
            qn_release(held);
            held = NULL;
        } else {
            trace.data = grown;
            trace.data_cap = cap;
        }
    }
    if (held) {
        trace.data[trace.datas++] = held;
        return t;
    }
    qn_release(t);
    return NULL;
}

/* As tensors in a list, which have them from now on. */
static PyObject *take_data(void) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < trace.datas; i++) {
        PyObject *one = list ? tensor_named(trace.data[i]) : NULL;
        if (!list) core_release(trace.data[i]);
        if (list && (!one || PyList_Append(list, one))) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    trace.datas = 0;
    return list;
}

/* ---- a trace --------------------------------------------------------------------------------- */

/* Every pending assignment is made with whatever is asked for. */
static bool settle(void) {
    for (int i = 0; i < core.contexts; i++) {
        qn_tensor *any = qn_from(core.context[i].ctx, QN_F32, 0, NULL, &(float){0});
        computing c = compute_begin();
        bool fine = any && qn_realize(1, &any) >= 0;
        fine = compute_end(c) && fine;
        core_release(any);
        if (!fine) return raise_of(core.context[i].ctx), false;
    }
    return true;
}

/* trace_begin(values=False): are captured tensors what they are now? */
static PyObject *trace_begin(PyObject *self, PyObject *args) {
    (void)self;
    int values = 0;
    if (!PyArg_ParseTuple(args, "|p", &values)) return NULL;
    if (tracing()) return PyErr_SetString(PyExc_RuntimeError, "a trace is open already"), NULL;
    core_enter();
    if (values && !settle()) return NULL;
    trace.backward = false;
    trace.values = values;
    if (values) core_check(false);
    trace.traces = (trace.traces + 1) % (EPOCH_FORK - 1);
    core.epoch = core.epoch / EPOCH_FORK * EPOCH_FORK + 1 + trace.traces;
    Py_RETURN_NONE;
}

/* A tensor of the trace as an input: a stand-in for x, which is of outside; and for x itself where
 * the function comes by that on another way, too, so that what is done to one is done to both. */
static PyObject *trace_input(PyObject *self, PyObject *o) {
    (void)self;
    if (!is_tensor(o) || !tracing())
        return PyErr_SetString(PyExc_TypeError, "a tensor, in a trace"), NULL;
    const tensor_object *x = (tensor_object *)o;
    if (x->epoch / EPOCH_FORK != core.epoch / EPOCH_FORK)
        return (void *)tensor_elsewhere((tensor_object *)o);
    core_enter();
    qn_tensor *t = stand_in(x->t);
    PyObject *made = t ? tensor_named(t) : raise_of(NULL);
    if (made && x->flags & REQUIRES_GRAD) {
        ((tensor_object *)made)->flags |= LEAF;
        if (PyObject_SetAttrString(made, "requires_grad", Py_True)) Py_CLEAR(made);
    }
    if (made && !grow()) Py_CLEAR(made);
    if (!made) return NULL;
    Py_XINCREF(x->grad);
    ((tensor_object *)made)->grad = x->grad;
    Py_INCREF(o);
    Py_INCREF(made);
    trace.at[trace.n++] = (capture){.o = (tensor_object *)o, .argument = (tensor_object *)made};
    return made;
}

/* As an output: a node of its own, for what a trace gives may be one of its inputs. */
static PyObject *output_of(qn_tensor *t) {
    qn_tensor *own = qn_variable(t);
    return own ? tensor_named(own) : raise_of(NULL);
}

/* Whose .grad a tensor was when the function asked for it: a call takes the one of then. */
static PyObject *gradient_of(const capture *c) {
    for (size_t i = 0; i < trace.n; i++) {
        const capture *x = &trace.at[i];
        if ((x->argument ? x->o->grad : x->grad) == (PyObject *)c->o) return (PyObject *)x->o;
    }
    return Py_None;
}

/* (the tensor, its stand-in, what it is now or None, its gradient or None where that is as it was,
 * whether that was cleared, whose gradient it is itself or None) */
static PyObject *captured(capture *c) {
    tensor_object *o = c->o;
    PyObject *in = tensor_named(qn_keep(c->stand_in)), *now = Py_None, *grad = Py_None;
    if (c->changed && o->t != c->stand_in)
        now = output_of(o->t);
    else
        Py_INCREF(now);
    if (o->grad && o->grad != c->grad)
        grad = output_of(((tensor_object *)o->grad)->t);
    else
        Py_INCREF(grad);
    if (!grad) Py_CLEAR(now);
    PyObject *cleared = o->grad || !c->grad ? Py_False : Py_True;
    PyObject *r =
        in && now ? PyTuple_Pack(6, (PyObject *)o, in, now, grad, cleared, gradient_of(c)) : NULL;
    Py_XDECREF(in);
    Py_XDECREF(now);
    Py_XDECREF(grad);
    return r;
}

/* Whether it has a gradient a program of C cannot say: there the function has not said it. */
static void restore(capture *c) {
    tensor_object *o = c->o;
    if (c->argument) {
        Py_DECREF((PyObject *)c->argument);
        Py_DECREF((PyObject *)o);
        return;
    }
    if (c->changed) {
        core_release(o->t);
        o->t = c->before;
        o->epoch = c->epoch;
        o->flags = (uint16_t)((c->flags & ~REQUIRES_GRAD) | (o->flags & REQUIRES_GRAD));
    }
    if (trace.values) tensor_require(o, c->flags & REQUIRES_GRAD);
    PyObject *grad = o->grad;
    o->grad = c->grad;
    Py_XDECREF(grad);
    core_release(c->stand_in);
    Py_DECREF((PyObject *)o);
}

/* Ends the trace: captured tensors are as they were, and what came of them is told; what data was
 * made; which arguments were found outside, too; and whether backward() was called. */
static PyObject *trace_end(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    core_enter();
    PyObject *list = PyList_New(0), *both = PyList_New(0);
    for (size_t i = 0; list && both && i < trace.n; i++) {
        capture *c = &trace.at[i];
        if (c->argument) {
            if (c->found && PyList_Append(both, (PyObject *)c->o)) Py_CLEAR(both);
            continue;
        }
        PyObject *one = captured(c);
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    core.epoch = core.epoch / EPOCH_FORK * EPOCH_FORK;
    for (size_t i = 0; i < trace.n; i++) restore(&trace.at[i]);
    trace.n = 0;
    if (trace.values) core_check(true);
    trace.values = false;
    PyObject *data = take_data();
    PyObject *all = list && data && both
                        ? PyTuple_Pack(4, list, data, both, trace.backward ? Py_True : Py_False)
                        : NULL;
    Py_XDECREF(list);
    Py_XDECREF(data);
    Py_XDECREF(both);
    return all;
}

static PyObject *is_tracing(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyBool_FromLong(tracing());
}

/* Made outside of the trace that is open, or changed in it? */
static PyObject *is_traced(PyObject *self, PyObject *o) {
    (void)self;
    return PyBool_FromLong(is_tensor(o) && tracing() && ((tensor_object *)o)->epoch == core.epoch);
}

/* Another tensor object of the same handle; are two? */
static PyObject *handle_copy(PyObject *self, PyObject *o) {
    (void)self;
    if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "a tensor is wanted"), NULL;
    return tensor_named(qn_keep(((tensor_object *)o)->t));
}

static PyObject *same_handle(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *x, *y;
    if (!PyArg_ParseTuple(args, "O!O!", core.tensor_type, &x, core.tensor_type, &y)) return NULL;
    return PyBool_FromLong(((tensor_object *)x)->t == ((tensor_object *)y)->t);
}

bool tensor_adopt(PyObject *x, PyObject *y) {
    qn_tensor *t = handle_of(y), *old = handle_of(x);
    if (!t || !old) return false;
    tensor_object *o = (tensor_object *)x;
    uint16_t leaf = o->flags & LEAF;
    if (!tensor_rename(o, qn_keep(t))) return false;
    o->flags |= leaf;
    return true;
}

/* Tensors that a graph found by itself: another one where they are arguments, too. */
static PyObject *mark_outside(PyObject *self, PyObject *list) {
    (void)self;
    for (Py_ssize_t i = 0; PyList_Check(list) && i < PyList_Size(list); i++) {
        PyObject *o = PyList_GetItem(list, i);
        if (is_tensor(o)) ((tensor_object *)o)->flags |= OUTSIDE;
    }
    Py_RETURN_NONE;
}

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct plan_object {
    PyObject_HEAD qn_plan *plan;
    qn_ctx *qn;
    int inputs, outputs;
    uint32_t epoch;
} plan_object;
static PyTypeObject *plan_type;

static void plan_free(PyObject *self) {
    plan_object *p = (plan_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (p->plan && p->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) {
        core_enter();
        qn_plan_free(p->plan);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

qn_tensor **handles(PyObject *list, int *n) {
    *n = (int)PyList_Size(list);
    qn_tensor **t = PyMem_Calloc((size_t)*n + 1, sizeof *t);
    for (int i = 0; t && i < *n; i++) t[i] = ((tensor_object *)PyList_GetItem(list, i))->t;
    return t;
}

/* plan_new(inputs, outputs, donated inputs as bits, how many inputs outputs take the place of, from
 * which one, by outputs from which one) */
static PyObject *plan_new(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *in, *out;
    unsigned long long donate;
    long long states, from, to;
    if (!PyArg_ParseTuple(args, "O!O!KLLL", &PyList_Type, &in, &PyList_Type, &out, &donate, &states,
                          &from, &to))
        return NULL;
    qn_plan_options o = QN_PLAN_OPTIONS(.donate = donate, .no_assignments = true, .states = states,
                                        .state_input = from, .state_output = to);
    int inputs, outputs;
    qn_ctx *qn = core_ctx();
    qn_tensor **x = handles(in, &inputs), **y = handles(out, &outputs);
    plan_object *p = x && y && qn ? PyObject_New(plan_object, plan_type) : NULL;
    if (p) {
        if (outputs) qn = qn_context(y[0]);
        *p = (plan_object){.ob_base = p->ob_base,
                           .qn = qn,
                           .inputs = inputs,
                           .outputs = outputs,
                           .epoch = core.epoch};
        computing c = compute_begin();
        p->plan = qn_plan_new_with(qn, inputs, x, outputs, y, &o);
        bool fine = compute_end(c);
        if (!p->plan || !fine) {
            if (!p->plan) raise_of(qn);
            Py_CLEAR(p);
        }
    }
    PyMem_Free(x);
    PyMem_Free(y);
    return (PyObject *)p;
}

static bool is_differentiable(qn_tensor *t) {
    qn_dtype d = qn_dtype_of(t);
    return (d >= QN_F16 && d <= QN_F8_E5M2) || d == QN_C64 || d == QN_C128;
}

/* Of what a trace recorded: for each x whether a gradient of the ys comes to it. */
static PyObject *reach_of(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *ys, *xs;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &ys, &PyList_Type, &xs)) return NULL;
    core_enter();
    int n, m;
    qn_tensor **y = handles(ys, &n), **x = handles(xs, &m);
    int32_t *is = PyMem_Calloc((size_t)m + 1, sizeof *is);
    PyObject *list = x && y && is ? PyList_New(m) : PyErr_NoMemory();
    int floats = 0, wanted = 0;
    for (int i = 0; list && i < n; i++)
        if (is_differentiable(y[i])) y[floats++] = y[i];
    for (int i = 0; list && i < m; i++) {
        bool can = is_differentiable(x[i]);
        if (can) x[wanted++] = x[i];
        if (PyList_SetItem(list, i, PyBool_FromLong(can))) Py_CLEAR(list);
    }
    if (list && floats && wanted && qn_depends(floats, y, wanted, x, is) < 0) {
        Py_CLEAR(list);
        raise_of(qn_context(y[0]));
    }
    for (int i = 0, k = 0; list && i < m; i++)
        if (PyList_GetItem(list, i) == Py_True)
            if (PyList_SetItem(list, i, PyBool_FromLong(is[k++]))) Py_CLEAR(list);
    PyMem_Free(x);
    PyMem_Free(y);
    PyMem_Free(is);
    return list;
}

PyObject *plan_run_handles(PyObject *plan, qn_tensor **inputs) {
    plan_object *p = (plan_object *)plan;
    qn_tensor *few[32],
        **out = p->outputs <= 32 ? few : PyMem_Malloc((size_t)p->outputs * sizeof *out);
    if (!out) return PyErr_NoMemory();
    memset(out, 0, (size_t)p->outputs * sizeof *out);
    computing c = compute_begin();
    qn_code code = qn_plan_run(p->plan, inputs, out);
    bool fine = compute_end(c);
    PyObject *r = code < 0 ? raise_of(p->qn) : fine ? PyList_New(p->outputs) : NULL;
    for (int i = 0; code >= 0 && i < p->outputs; i++) {
        PyObject *one = r ? tensor_named(out[i]) : NULL;
        if (!r) core_release(out[i]);
        if (r && (!one || PyList_SetItem(r, i, one))) Py_CLEAR(r);
    }
    if (out != few) PyMem_Free(out);
    return r;
}

bool jit_add(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_dealloc, plan_free},
                           {Py_tp_doc, (void *)"A static graph, made by plan_new()."},
                           {0, NULL}};
    PyType_Spec spec = {"quern.Plan", sizeof(plan_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    plan_type = (PyTypeObject *)PyType_FromSpec(&spec);
    static PyMethodDef functions[] = {
        {"trace_begin", trace_begin, METH_VARARGS,
         "trace_begin(values=False, /)\n--\n\nRecord a function on stand-ins; values: captured "
         "tensors have theirs."},
        {"trace_input", trace_input, METH_O,
         "trace_input(x, /)\n--\n\nA stand-in for an argument."},
        {"trace_end", trace_end, METH_NOARGS,
         "trace_end()\n--\n\nEnd it: captured tensors, data that was made, arguments found "
         "outside."},
        {"is_tracing", is_tracing, METH_NOARGS,
         "is_tracing()\n--\n\nIs a function being traced by jit?"},
        {"is_traced", is_traced, METH_O, "is_traced(x, /)\n--\n\nIs this a tensor of the trace?"},
        {"handle_copy", handle_copy, METH_O,
         "handle_copy(x, /)\n--\n\nAnother name of x's handle."},
        {"same_handle", same_handle, METH_VARARGS,
         "same_handle(x, y, /)\n--\n\nDo both name one handle?"},
        {"mark_outside", mark_outside, METH_O,
         "mark_outside(list, /)\n--\n\nTensors that a graph found by itself."},
        {"reach_of", reach_of, METH_VARARGS,
         "reach_of(ys, xs, /)\n--\n\nDoes a gradient of the ys come to each x?"},
        {"plan_new", plan_new, METH_VARARGS,
         "plan_new(inputs, outputs, donate, states, state_input, state_output, /)\n--\n\nA static "
         "graph."},
        {0}};
    return plan_type && !PyModule_AddFunctions(module, functions);
}
