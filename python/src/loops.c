/* loops.c - loops whose bodies are recorded once, and functions of one example for many: the C
 * API's calls on lists of tensors. quern/loops.py makes scan, while_loop, cond and vmap of them.
 *
 * A loop is an object between its begin and its results. Its body's arguments are tensors like
 * others, but they have a value in each trip only: reading one is an error of the library. */
#include "core.h"

#include <string.h>

/* n results as a tuple, which takes them over; with one missing the context's error. */
static PyObject *tuple_of(int n, qn_tensor **t) {
    bool whole = true;
    for (int i = 0; i < n; i++) whole = whole && t[i];
    PyObject *tuple = whole ? PyTuple_New(n) : raise_of(NULL);
    for (int i = 0; i < n; i++) {
        if (!tuple) {
            core_release(t[i]);
            continue;
        }
        PyObject *one = tensor_wrap(t[i]);
        if (!one || PyTuple_SetItem(tuple, i, one)) Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct loop_object {
    PyObject_HEAD qn_loop *loop;
    qn_ctx *qn;
    int states, sequences, outputs;
    uint32_t epoch;
} loop_object;
static PyTypeObject *loop_type;

static void loop_close(loop_object *l) {
    if (l->loop && l->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) {
        core_enter();
        qn_loop_free(l->loop);
    }
    l->loop = NULL;
}

static void loop_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    loop_close((loop_object *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static qn_loop *loop_of(PyObject *self) {
    core_enter();
    loop_object *l = (loop_object *)self;
    if (!l->loop || l->epoch != core.epoch) {
        PyErr_SetString(PyExc_RuntimeError, "this loop has been closed");
        return NULL;
    }
    return l->loop;
}

/* What a body makes would belong to the scope that the library opened for it; objects of Python own
 * their tensors, so that scope ends at once. */
static void end_scope(qn_ctx *qn) {
    qn_scope inner = qn_scope_begin(qn);
    if (inner > 1) qn_scope_end(qn, inner - 1);
}

/* loop_new(states, sequences, trips, reverse, most or None, checkpoint) */
static PyObject *loop_new(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *states, *sequences, *most;
    long long trips, checkpoint;
    int reverse;
    if (!PyArg_ParseTuple(args, "OOLpOL", &states, &sequences, &trips, &reverse, &most,
                          &checkpoint))
        return NULL;
    tensor_list x = {0}, rows = {0};
    qn_loop_options o =
        QN_LOOP_OPTIONS(.trips = trips, .reverse = reverse, .checkpoint = checkpoint);
    loop_object *l = NULL;
    core_enter();
    if (tensors_of(states, false, "loop", &x) && tensors_of(sequences, false, "loop", &rows) &&
        (most == Py_None || (is_tensor(most) && (o.most = handle_of(most))))) {
        qn_ctx *qn = x.n ? qn_context(x.t[0]) : rows.n ? qn_context(rows.t[0]) : core_ctx();
        qn_loop *made = qn ? qn_loop_begin(qn, x.n, x.t, rows.n, rows.t, &o) : NULL;
        l = made ? PyObject_New(loop_object, loop_type) : (void *)raise_of(qn);
        if (made && !l) qn_loop_free(made);
        if (l) {
            end_scope(qn);
            l->loop = made;
            l->qn = qn;
            l->states = x.n;
            l->sequences = rows.n;
            l->outputs = 0;
            l->epoch = core.epoch;
        }
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "loop: how many trips there are at most is a tensor");
    }
    tensors_free(&x);
    tensors_free(&rows);
    return (PyObject *)l;
}

/* (states before a trip, rows, index) */
static PyObject *loop_arguments(PyObject *self, PyObject *none) {
    (void)none;
    qn_loop *l = loop_of(self);
    if (!l) return NULL;
    const loop_object *o = (loop_object *)self;
    int n = o->states + o->sequences + 1;
    qn_tensor **t = PyMem_Calloc((size_t)n, sizeof *t);
    if (!t) return PyErr_NoMemory();
    qn_scope scope = qn_scope_begin(o->qn); /* of what is made when it is asked for */
    for (int i = 0; i < o->states; i++) t[i] = qn_keep(qn_loop_state(l, i));
    for (int i = 0; i < o->sequences; i++) t[o->states + i] = qn_keep(qn_loop_slice(l, i));
    t[n - 1] = qn_keep(qn_loop_index(l));
    qn_scope_end(o->qn, scope);
    PyObject *all = tuple_of(n, t);
    PyMem_Free(t);
    return all;
}

static PyObject *loop_while(PyObject *self, PyObject *condition) {
    qn_loop *l = loop_of(self);
    if (!l) return NULL;
    if (!is_tensor(condition)) {
        PyErr_Format(PyExc_TypeError, "a loop's condition is a tensor, not %R", condition);
        return NULL;
    }
    qn_tensor *t = handle_of(condition);
    if (!t || qn_loop_while(l, t) < 0) return raise_of(NULL);
    Py_RETURN_NONE;
}

static PyObject *loop_end(PyObject *self, PyObject *args) {
    PyObject *states, *outputs;
    qn_loop *l = loop_of(self);
    if (!l || !PyArg_ParseTuple(args, "OO", &states, &outputs)) return NULL;
    tensor_list x = {0}, y = {0};
    bool done = tensors_of(states, false, "loop", &x) && tensors_of(outputs, false, "loop", &y);
    if (done && qn_loop_end(l, x.n, x.t, y.n, y.t) < 0) done = false, raise_of(NULL);
    if (done) ((loop_object *)self)->outputs = y.n;
    tensors_free(&x);
    tensors_free(&y);
    if (!done) return NULL;
    Py_RETURN_NONE;
}

/* Final states, outputs and the number of trips in one tuple; closes the loop. */
static PyObject *loop_results(PyObject *self, PyObject *none) {
    (void)none;
    qn_loop *l = loop_of(self);
    if (!l) return NULL;
    const loop_object *o = (loop_object *)self;
    int n = o->states + o->outputs + 1;
    qn_tensor **t = PyMem_Calloc((size_t)n, sizeof *t);
    if (!t) return PyErr_NoMemory();
    for (int i = 0; i < o->states; i++) t[i] = qn_loop_final(l, i);
    for (int i = 0; i < o->outputs; i++) t[o->states + i] = qn_loop_output(l, i);
    t[n - 1] = qn_loop_trips(l);
    PyObject *all = tuple_of(n, t);
    PyMem_Free(t);
    loop_close((loop_object *)self);
    return all;
}

static PyObject *loop_give_up(PyObject *self, PyObject *none) {
    (void)none;
    loop_close((loop_object *)self);
    Py_RETURN_NONE;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static PyObject *example(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *x;
    int axis;
    if (!PyArg_ParseTuple(args, "O!i", core.tensor_type, &x, &axis)) return NULL;
    core_enter();
    qn_tensor *in = handle_of(x), *t = in ? qn_example(in, axis) : NULL;
    return t ? tensor_wrap(t) : raise_of(NULL);
}

/* A list of axes, None being none; NULL with an exception. */
static int *axes_of(PyObject *o, int n) {
    int *axis = PyMem_Calloc((size_t)n + 1, sizeof *axis);
    if (!axis) return (void *)PyErr_NoMemory();
    if (PySequence_Size(o) != n)
        PyErr_Format(PyExc_ValueError, "vmap: %zd axes for %d tensors", PySequence_Size(o), n);
    for (int i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *one = PySequence_GetItem(o, i);
        axis[i] = !one || one == Py_None ? QN_UNBATCHED : (int)PyLong_AsLong(one);
        Py_XDECREF(one);
    }
    if (!PyErr_Occurred()) return axis;
    PyMem_Free(axis);
    return NULL;
}

/* vmap_of(ys, out_axes, examples, xs, in_axes) */
static PyObject *vmap_of(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *list[5];
    if (!PyArg_ParseTuple(args, "OOOOO", &list[0], &list[1], &list[2], &list[3], &list[4]))
        return NULL;
    tensor_list y = {0}, e = {0}, x = {0};
    int *out_axis = NULL, *in_axis = NULL;
    qn_tensor **out = NULL;
    PyObject *all = NULL;
    core_enter();
    if (tensors_of(list[0], false, "vmap", &y) && tensors_of(list[2], false, "vmap", &e) &&
        tensors_of(list[3], false, "vmap", &x) && (out_axis = axes_of(list[1], y.n)) &&
        (in_axis = axes_of(list[4], x.n)) && (out = PyMem_Calloc((size_t)y.n + 1, sizeof *out))) {
        qn_code code = qn_vmap(y.n, y.t, out_axis, x.n, e.t, x.t, in_axis, out);
        all = code < 0 ? raise_of(NULL) : tuple_of(y.n, out);
    }
    PyMem_Free(out);
    PyMem_Free(out_axis);
    PyMem_Free(in_axis);
    tensors_free(&y);
    tensors_free(&e);
    tensors_free(&x);
    return all;
}

bool loops_add(PyObject *module) {
    static PyMethodDef methods[] = {
        {"arguments", loop_arguments, METH_NOARGS,
         "arguments($self)\n--\n\nStates before a trip, rows of the sequences, and the index."},
        {"while_", loop_while, METH_O,
         "while_($self, condition)\n--\n\nTrips are made only while this bool scalar holds."},
        {"end", loop_end, METH_VARARGS,
         "end($self, states, outputs)\n--\n\nEnd the body: states behind a trip, what is "
         "stacked."},
        {"results", loop_results, METH_NOARGS,
         "results($self)\n--\n\nFinal states, stacked outputs, and the number of trips."},
        {"give_up", loop_give_up, METH_NOARGS, "give_up($self)\n--\n\nRecord it no further."},
        {0}};
    PyType_Slot slots[] = {{Py_tp_dealloc, loop_free},
                           {Py_tp_methods, methods},
                           {Py_tp_doc, (void *)"A loop that is being recorded, by loop_new()."},
                           {0, NULL}};
    PyType_Spec spec = {"quern.Loop", sizeof(loop_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    loop_type = (PyTypeObject *)PyType_FromSpec(&spec);
    static PyMethodDef functions[] = {
        {"loop_new", loop_new, METH_VARARGS,
         "loop_new(states, sequences, trips, reverse, most, checkpoint, /)\n--\n\nBegin a loop's "
         "body."},
        {"example", example, METH_VARARGS,
         "example(x, axis, /)\n--\n\nOne example of x, for vmap."},
        {"vmap_of", vmap_of, METH_VARARGS,
         "vmap_of(ys, out_axes, examples, xs, in_axes, /)\n--\n\nThe ys of all examples."},
        {0}};
    return loop_type && !PyModule_AddFunctions(module, functions);
}
