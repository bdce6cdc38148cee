/* kernels.c - loops as text among the graph's operations: qn_custom of the C API. What makes the
 * text of a function of Python is in quern/kernel. A kernel belongs to the context of the tensor
 * that it was made for, and stays there: the object is only its name. */
#include "core.h"

#include <quern_custom.h>

#include <string.h>

typedef struct kernel_object {
    PyObject_HEAD qn_custom *kernel;
    int n_in, n_out;
    uint32_t epoch;
} kernel_object;
static PyTypeObject *kernel_type;

static void kernel_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static bool dtypes_of(PyObject *o, int most, qn_dtype *out, int *n) {
    PyObject *all = PySequence_Tuple(o);
    if (!all) return false;
    bool fine = PyTuple_Size(all) <= most;
    *n = (int)PyTuple_Size(all);
    if (!fine)
        PyErr_Format(PyExc_ValueError, "a kernel has at most %d inputs and %d results",
                     QN_CUSTOM_INPUTS, QN_CUSTOM_RESULTS);
    for (int i = 0; fine && i < *n; i++) fine = dtype_of(PyTuple_GetItem(all, i), &out[i]);
    Py_DECREF(all);
    return fine;
}

/* kernel_new(beside, name, text, axes, dtypes of inputs, dtypes of results) */
static PyObject *kernel_new(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *beside, *in, *out;
    const char *name, *text, *axes;
    if (!PyArg_ParseTuple(args, "O!sssOO", core.tensor_type, &beside, &name, &text, &axes, &in,
                          &out))
        return NULL;
    qn_custom_options o = QN_CUSTOM_OPTIONS(.name = name, .kernel = text, .axes = axes);
    if (!dtypes_of(in, QN_CUSTOM_INPUTS, o.in_dtypes, &o.n_in) ||
        !dtypes_of(out, QN_CUSTOM_RESULTS, o.out_dtypes, &o.n_out))
        return NULL;
    qn_tensor *t = handle_of(beside);
    if (!t) return NULL;
    qn_ctx *qn = qn_context(t);
    qn_custom *made = qn_custom_new(qn, &o);
    if (!made) return raise_of(qn);
    kernel_object *k = PyObject_New(kernel_object, kernel_type);
    if (!k) return NULL;
    k->kernel = made;
    k->n_in = o.n_in;
    k->n_out = o.n_out;
    k->epoch = core.epoch / EPOCH_FORK;
    return (PyObject *)k;
}

/* kernel_call(kernel, inputs, shapes): a tuple of results */
static PyObject *kernel_call(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *of, *inputs, *shapes;
    if (!PyArg_ParseTuple(args, "O!OO!", kernel_type, &of, &inputs, &PyTuple_Type, &shapes))
        return NULL;
    const kernel_object *k = (kernel_object *)of;
    if (k->epoch != core.epoch / EPOCH_FORK)
        return PyErr_SetString(PyExc_RuntimeError, "a kernel made before fork()"), NULL;
    int64_t size[QN_CUSTOM_RESULTS][QN_MAX_RANK];
    qn_custom_shape shape[QN_CUSTOM_RESULTS];
    qn_tensor *result[QN_CUSTOM_RESULTS] = {0};
    int n = (int)PyTuple_Size(shapes);
    if (n != k->n_out)
        return PyErr_SetString(PyExc_ValueError, "other results than made for"), NULL;
    for (int i = 0; i < n; i++) {
        PyObject *one = PyTuple_GetItem(shapes, i);
        if (!sizes_of(one, QN_MAX_RANK, size[i], &shape[i].rank, "shape")) return NULL;
        shape[i].shape = size[i];
    }
    tensor_list in;
    core_enter();
    bool fine = tensors_of(inputs, false, "kernel", &in);
    qn_ctx *qn = fine && in.n ? qn_context(in.t[0]) : NULL;
    if (fine && qn_custom_call(k->kernel, in.n, in.t, n, shape, result) < 0) {
        raise_of(qn);
        fine = false;
    }
    tensors_free(&in);
    PyObject *all = fine ? PyTuple_New(n) : NULL;
    for (int i = 0; i < n && result[i]; i++) {
        PyObject *one = all ? tensor_wrap(result[i]) : NULL;
        if (!all)
            core_release(result[i]);
        else if (!one || PyTuple_SetItem(all, i, one))
            Py_CLEAR(all);
    }
    return all;
}

bool kernels_add(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_dealloc, kernel_free},
                           {Py_tp_doc, (void *)"Loops that were compiled, by kernel_new()."},
                           {0, NULL}};
    PyType_Spec spec = {"quern.CompiledKernel", sizeof(kernel_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    kernel_type = (PyTypeObject *)PyType_FromSpec(&spec);
    static PyMethodDef functions[] = {
        {"kernel_new", kernel_new, METH_VARARGS,
         "kernel_new(beside, name, text, axes, inputs, results, /)\n--\n\nLoops as text, compiled "
         "where the tensor `beside` is; axes, and the dtypes of inputs and results, are as in "
         "qn_custom_options."},
        {"kernel_call", kernel_call, METH_VARARGS,
         "kernel_call(kernel, inputs, shapes, /)\n--\n\nThe kernel's results, of these shapes."},
        {0}};
    return kernel_type && !PyModule_AddFunctions(module, functions);
}
