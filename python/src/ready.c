/* ready.c - a graph that is ready to run: its plan, the tensors that it captured, what it changes
 * in them, and how its results become a tree. */
#include "fast.h"

#include <stddef.h>
#include <string.h>

typedef struct kind_of {
    qn_dtype dtype;
    bool requires_grad;
    int rank;
    int64_t size[QN_MAX_RANK];
} kind_of;

typedef struct change {
    int input, output; /* output -1: a gradient is cleared */
    bool grad, fed;    /* fed: what was there is an input */
} change;

struct ready_object {
    PyObject_HEAD PyObject *plan, *captured, *structure, *constants, *made;
    kind_of *kind; /* of the captured ones */
    change *changes;
    int arguments, captures, change_count;
    bool own_gradient; /* the function calls backward() itself */
    bool *reaches;     /* does a gradient of the results come to an input? */
    bool *had;         /* had an input a gradient? Asked where the function has to do with them */
    int *whose;        /* the input whose .grad a captured one is, -1: none's */
    bool gradients;
};
PyTypeObject *ready_type;

static void ready_drop(PyObject *self) {
    ready_object *r = (ready_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(r->plan);
    Py_XDECREF(r->captured);
    Py_XDECREF(r->structure);
    Py_XDECREF(r->constants);
    Py_XDECREF(r->made);
    PyMem_Free(r->kind);
    PyMem_Free(r->changes);
    PyMem_Free(r->reaches);
    PyMem_Free(r->had);
    PyMem_Free(r->whose);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int ready_traverse(PyObject *self, visitproc visit, void *arg) {
    ready_object *r = (ready_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(r->plan);
    Py_VISIT(r->captured);
    Py_VISIT(r->structure);
    Py_VISIT(r->constants);
    Py_VISIT(r->made);
    return 0;
}

static void kind_take(kind_of *k, const tensor_object *o, qn_tensor *t) {
    k->dtype = qn_dtype_of(t);
    k->requires_grad = o->flags & REQUIRES_GRAD;
    k->rank = qn_rank(t);
    for (int i = 0; i < k->rank; i++) k->size[i] = qn_dim(t, i);
}

static bool kind_is(const kind_of *k, const tensor_object *o, qn_tensor *t) {
    bool same = qn_dtype_of(t) == k->dtype && qn_rank(t) == k->rank &&
                k->requires_grad == ((o->flags & REQUIRES_GRAD) != 0);
    for (int i = 0; same && i < k->rank; i++) same = qn_dim(t, i) == k->size[i];
    return same;
}

static bool changes_of(ready_object *r, PyObject *list) {
    r->change_count = (int)PyList_Size(list);
    r->changes = PyMem_Calloc((size_t)r->change_count + 1, sizeof *r->changes);
    if (!r->changes) return PyErr_NoMemory(), false;
    for (int i = 0; i < r->change_count; i++) {
        int grad;
        change *c = &r->changes[i];
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iip", &c->input, &c->output, &grad))
            return false;
        c->grad = grad;
        for (int k = 0; k < r->captures; k++) c->fed |= r->whose[k] == c->input;
    }
    return true;
}

static bool flags_of(bool *to, int n, PyObject *list) {
    for (int i = 0; i < n && i < (int)PyList_Size(list) && !PyErr_Occurred(); i++)
        to[i] = PyObject_IsTrue(PyList_GetItem(list, i)) == 1;
    return !PyErr_Occurred();
}

/* Which input's gradient each captured one is. */
static bool whose_of(ready_object *r, PyObject *list) {
    for (int i = 0; i < r->captures; i++) {
        long k = i < PyList_Size(list) ? PyLong_AsLong(PyList_GetItem(list, i)) : -1;
        if (PyErr_Occurred()) return false;
        r->whose[i] = k < r->arguments + i ? (int)k : -1;
        if (r->whose[i] >= 0) r->gradients = true;
    }
    return true;
}

/* ready_new(a function that makes the plan, arguments, captured, changes, nodes of the results,
 * constants, made, inputs that a gradient comes to, which have one, whose it is, own gradient).
 * `constants`: of each leaf, and None where it is a tensor. */
static PyObject *ready_new(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *plan, *captured, *changes, *structure, *constants, *made, *reaches, *had;
    PyObject *whose;
    int arguments, own;
    if (!PyArg_ParseTuple(args, "OiO!O!O!O!OO!O!O!p", &plan, &arguments, &PyTuple_Type, &captured,
                          &PyList_Type, &changes, &PyTuple_Type, &structure, &PyTuple_Type,
                          &constants, &made, &PyList_Type, &reaches, &PyList_Type, &had,
                          &PyList_Type, &whose, &own))
        return NULL;
    ready_object *r = PyObject_GC_New(ready_object, ready_type);
    if (!r) return NULL;
    memset((char *)r + offsetof(ready_object, plan), 0, sizeof *r - offsetof(ready_object, plan));
    r->plan = hold(plan);
    r->captured = hold(captured);
    r->structure = hold(structure);
    r->constants = hold(constants);
    r->made = hold(made);
    r->arguments = arguments;
    r->captures = (int)PyTuple_Size(captured);
    r->own_gradient = own;
    int inputs = arguments + r->captures;
    r->kind = PyMem_Calloc((size_t)r->captures + 1, sizeof *r->kind);
    r->reaches = PyMem_Calloc((size_t)inputs + 1, sizeof *r->reaches);
    r->had = PyMem_Calloc((size_t)inputs + 1, sizeof *r->had);
    r->whose = PyMem_Calloc((size_t)r->captures + 1, sizeof *r->whose);
    if (!r->kind || !r->reaches || !r->had || !r->whose) PyErr_NoMemory();
    for (int i = 0; i < r->captures && !PyErr_Occurred(); i++) {
        PyObject *o = PyTuple_GetItem(captured, i);
        qn_tensor *t = is_tensor(o) ? handle_of(o) : NULL;
        if (t) kind_take(&r->kind[i], (tensor_object *)o, t);
        if (t) ((tensor_object *)o)->flags |= OUTSIDE;
    }
    if (!PyErr_Occurred() && flags_of(r->reaches, inputs, reaches) &&
        flags_of(r->had, inputs, had) && whose_of(r, whose) && changes_of(r, changes))
        for (int i = 0; i < r->change_count; i++) r->gradients |= r->changes[i].grad;
    PyObject_GC_Track((PyObject *)r);
    if (PyErr_Occurred()) Py_CLEAR(r);
    return (PyObject *)r;
}

/* The plan's inputs for these arguments; false where it is not for them: a captured tensor has
 * another dtype or shape than it was traced with, or was frozen or thawed since, or another has a
 * gradient. */
static bool inputs_of(const ready_object *r, PyObject *const *given, PyObject **input,
                      qn_tensor **t) {
    for (int i = 0; i < r->arguments + r->captures; i++) {
        int k = i - r->arguments, whose = k < 0 ? -1 : r->whose[k];
        PyObject *o = k < 0 ? given[i] : PyTuple_GetItem(r->captured, k);
        if (whose >= 0) o = ((tensor_object *)input[whose])->grad;
        if (!o || ((tensor_object *)o)->epoch != core.epoch) return false;
        input[i] = o;
        t[i] = ((tensor_object *)o)->t;
        if (k >= 0 && !kind_is(&r->kind[k], (tensor_object *)o, t[i])) return false;
        if (r->gradients && (((tensor_object *)o)->grad != NULL) != r->had[i]) return false;
    }
    return true;
}

/* Those with requires_grad; NULL for none, or where memory is lacking. */
static qn_tensor **requiring(qn_ctx *qn, int *n) {
    int most = 0;
    for (tensor_object *o = core.requiring; o; o = o->next) most++;
    qn_tensor **t = PyMem_Calloc((size_t)most + 1, sizeof *t);
    *n = 0;
    for (tensor_object *o = core.requiring; t && o; o = o->next)
        if (o->epoch == core.epoch && qn_context(o->t) == qn) t[(*n)++] = o->t;
    return t;
}

/* Could a gradient be asked of the results, by what inputs were made of? What a plan gives has no
 * history: then the function itself is called. */
static bool wants_history(const ready_object *r, qn_tensor *const *input) {
    if (likely(!core.requiring) || core.no_grad || r->own_gradient) return false;
    int inputs = r->arguments + r->captures, n = 0, m = 0;
    qn_tensor **y = PyMem_Calloc((size_t)inputs + 1, sizeof *y), **x = NULL;
    for (int i = 0; y && i < inputs; i++)
        if (r->reaches[i]) y[n++] = input[i];
    if (n) x = requiring(qn_context(y[0]), &m);
    int32_t *is = m ? PyMem_Calloc((size_t)m, sizeof *is) : NULL;
    bool wanted = false;
    if (is && qn_depends(n, y, m, x, is) < 0) wanted = true, qn_clear_error(qn_context(y[0]));
    for (int i = 0; is && i < m; i++) wanted = wanted || is[i];
    PyMem_Free(y);
    PyMem_Free(x);
    PyMem_Free(is);
    return wanted;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct growing {
    const ready_object *r;
    PyObject *outputs;
    Py_ssize_t node, leaf, output;
} growing;

static PyObject *grow(growing *g);

static PyObject *grow_leaf(growing *g) {
    PyObject *o = PyTuple_GetItem(g->r->constants, g->leaf++);
    if (o == Py_None) o = PyList_GetItem(g->outputs, g->output++);
    return hold(o);
}

static PyObject *grow_dict(PyObject *keys, PyObject *values) {
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_Size(keys); i++)
        if (PyDict_SetItem(dict, PyTuple_GetItem(keys, i), PyList_GetItem(values, i)))
            Py_CLEAR(dict);
    return dict;
}

/* As tree.grown() does it. */
static PyObject *grow(growing *g) {
    PyObject *node = PyTuple_GetItem(g->r->structure, g->node++);
    if (!node) return NULL;
    if (node == Py_None) return grow_leaf(g);
    PyObject *kind = PyTuple_GetItem(node, 0), *data = PyTuple_GetItem(node, 1);
    Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GetItem(node, 2));
    PyObject *list = PyList_New(n), *made = NULL;
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *one = grow(g);
        if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
    }
    if (!list) return NULL;
    if (kind == (PyObject *)&PyList_Type) return list;
    if (kind == (PyObject *)&PyTuple_Type)
        made = PyList_AsTuple(list);
    else if (kind == (PyObject *)&PyDict_Type)
        made = grow_dict(data, list);
    else if (kind == (PyObject *)Py_TYPE(Py_None))
        made = hold(Py_None);
    else
        made = PyObject_CallFunctionObjArgs(g->r->made, kind, data, list, NULL);
    Py_DECREF(list);
    return made;
}

static bool change_inputs(const ready_object *r, PyObject *const *input, PyObject *outputs) {
    for (int i = 0; i < r->change_count; i++) {
        const change *c = &r->changes[i];
        PyObject *out = c->output < 0 ? Py_None : PyList_GetItem(outputs, c->output);
        if (!out) return false;
        if (c->grad ? PyObject_SetAttrString(input[c->input], "grad", out)
                    : !tensor_adopt(input[c->input], out))
            return false;
    }
    return true;
}

/* A function that makes the plan stands in its place until the first run. */
static bool has_plan(ready_object *r) {
    if (likely(!PyCallable_Check(r->plan))) return true;
    PyObject *plan = PyObject_CallNoArgs(r->plan), *before = r->plan;
    if (!plan) return false;
    r->plan = plan;
    Py_DECREF(before);
    return true;
}

/* An old gradient that is no input of the plan is released before the run, which can then use its
 * memory. The plain function clears it first, too. */
static bool drop_gradients(const ready_object *r, PyObject *const *input) {
    for (int i = 0; i < r->change_count; i++) {
        const change *c = &r->changes[i];
        if (c->grad && ((tensor_object *)input[c->input])->grad && !c->fed &&
            PyObject_SetAttrString(input[c->input], "grad", Py_None))
            return false;
    }
    return true;
}

/* Of inputs that are held. */
static PyObject *run_plan(ready_object *r, PyObject *const *input, qn_tensor **t) {
    bool ready = has_plan(r) && drop_gradients(r, input);
    PyObject *outputs = ready ? plan_run_handles(r->plan, t) : NULL;
    if (!outputs || !change_inputs(r, input, outputs)) {
        Py_XDECREF(outputs);
        return NULL;
    }
    growing g = {r, outputs, 0, 0, 0};
    PyObject *result = grow(&g);
    Py_DECREF(outputs);
    return result;
}

enum { FEW = 24 };

outcome ready_run(ready_object *r, PyObject *const *given, PyObject **result) {
    int n = r->arguments + r->captures;
    PyObject *few[FEW], **input = n <= FEW ? few : PyMem_Calloc((size_t)n, sizeof *input);
    qn_tensor *few_t[FEW], **t = n <= FEW ? few_t : PyMem_Calloc((size_t)n, sizeof *t);
    outcome o = RAN;
    core_enter();
    *result = NULL;
    if (!input || !t)
        PyErr_NoMemory();
    else if (!inputs_of(r, given, input, t))
        o = UNFIT;
    else if (wants_history(r, t))
        o = HISTORY;
    else {
        Py_INCREF((PyObject *)r);
        for (int i = 0; i < n; i++) Py_INCREF(input[i]);
        *result = run_plan(r, input, t);
        for (int i = 0; i < n; i++) Py_DECREF(input[i]);
        Py_DECREF((PyObject *)r);
    }
    if (input != few) PyMem_Free(input);
    if (t != few_t) PyMem_Free(t);
    return o;
}

/* Tensors in a list, as many as there are arguments; NULL with an exception. */
static PyObject **given_of(const ready_object *r, PyObject *list) {
    int n = PyList_Check(list) ? (int)PyList_Size(list) : -1;
    PyObject **given = PyMem_Calloc((size_t)r->arguments + 1, sizeof *given);
    bool fine = given && n == r->arguments;
    for (int i = 0; fine && i < n; i++) {
        given[i] = PyList_GetItem(list, i);
        fine = is_tensor(given[i]) && handle_of(given[i]);
    }
    if (fine) return given;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%d tensors are wanted", r->arguments);
    PyMem_Free(given);
    return NULL;
}

/* run($self, tensors): the results, or NotImplemented where the function itself is to be called. */
static PyObject *run(PyObject *self, PyObject *list) {
    ready_object *r = (ready_object *)self;
    PyObject **given = given_of(r, list), *result = NULL;
    if (!given) return NULL;
    outcome o = ready_run(r, given, &result);
    PyMem_Free(given);
    if (o == RAN) return result;
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
}

static PyObject *fits(PyObject *self, PyObject *list) {
    const ready_object *r = (ready_object *)self;
    PyObject **given = given_of(r, list);
    if (!given) return NULL;
    size_t n = (size_t)(r->arguments + r->captures) + 1;
    PyObject **input = PyMem_Calloc(n, sizeof *input);
    qn_tensor **t = PyMem_Calloc(n, sizeof *t);
    bool fits = input && t && inputs_of(r, given, input, t);
    PyMem_Free(given);
    PyMem_Free(input);
    PyMem_Free(t);
    return PyBool_FromLong(fits);
}

int ready_arguments(const ready_object *r) {
    return r->arguments;
}

bool ready_add(PyObject *module) {
    static PyMethodDef methods[] = {
        {"run", run, METH_O,
         "run($self, tensors)\n--\n\nThe results; NotImplemented where they want a history."},
        {"fits", fits, METH_O,
         "fits($self, tensors)\n--\n\nAre captured tensors as they were traced?"},
        {0}};
    PyType_Slot slots[] = {{Py_tp_dealloc, ready_drop},
                           {Py_tp_traverse, ready_traverse},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    ready_type =
        fast_type("quern.Ready", sizeof(ready_object), Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
    static PyMethodDef functions[] = {
        {"ready_new", ready_new, METH_VARARGS,
         "ready_new(plan, arguments, captured, changes, structure, constants, made, reaches, "
         "had, whose, own, /)\n--\n\nA graph that is ready to run."},
        {0}};
    return ready_type && !PyModule_AddFunctions(module, functions);
}
