/* view.c - pages, curves and spans of traces: what quern/pages.py is made of. */
#include "core.h"

#include "quern_view.h"

#include <stdlib.h>

/* view_to(tensor, path) */
static PyObject *view_to(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o, *path = NULL;
    if (!PyArg_ParseTuple(args, "OO&", &o, PyUnicode_FSConverter, &path)) return NULL;
    bool done = false;
    core_enter();
    if (!is_tensor(o)) {
        PyErr_Format(PyExc_TypeError, "view_html: a tensor is wanted, not %R",
                     (PyObject *)Py_TYPE(o));
    } else if (may_read(o, "what is shown on a page")) {
        qn_tensor *x = handle_of(o);
        const char *to = PyBytes_AsString(path);
        qn_ctx *qn = qn_context(x);
        computing c = compute_begin();
        qn_code code = qn_view_html(x, to);
        done = compute_end(c);
        if (code < 0) done = false, raise_of(qn);
    }
    Py_DECREF(path);
    if (!done) return NULL;
    Py_RETURN_NONE;
}

/* Numbers of a list, which the caller frees. */
static double *numbers_of(PyObject *list) {
    Py_ssize_t n = PyList_Size(list);
    double *v = PyMem_Calloc((size_t)n + 1, sizeof *v);
    if (!v) return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        v[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
    if (!PyErr_Occurred()) return v;
    PyMem_Free(v);
    return NULL;
}

/* plot_to(values, path, title, x_label, y_label, first, step, log) */
static PyObject *plot_to(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *list, *path = NULL;
    qn_plot_options o = QN_PLOT_OPTIONS(.title = NULL);
    int log = 0;
    if (!PyArg_ParseTuple(args, "O!O&zzzddp", &PyList_Type, &list, PyUnicode_FSConverter, &path,
                          &o.title, &o.x_label, &o.y_label, &o.first, &o.step, &log))
        return NULL;
    o.log = log;
    core_enter();
    qn_ctx *qn = core_ctx();
    Py_ssize_t n = PyList_Size(list); /* numbers of Python may change the list */
    double *v = qn ? numbers_of(list) : NULL;
    bool done = v && qn_plot(qn, n, v, PyBytes_AsString(path), &o) == QN_OK;
    if (v && !done) raise_of(qn);
    PyMem_Free(v);
    Py_DECREF(path);
    if (!done) return NULL;
    Py_RETURN_NONE;
}

static PyObject *span_begin(PyObject *self, PyObject *name) {
    (void)self;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (!text) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "span: %R is no name", name);
        return NULL;
    }
    core_enter();
    if (!core.ctx && !getenv("QN_TRACE")) Py_RETURN_NONE; /* nobody opens a context for nothing */
    qn_ctx *qn = core_ctx();
    if (!qn) return NULL;
    qn_span_begin(qn, text);
    Py_RETURN_NONE;
}

static PyObject *span_end(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    core_enter();
    if (core.ctx) qn_span_end(core.ctx);
    Py_RETURN_NONE;
}

static PyObject *trace_flush(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    core_enter();
    for (int i = 0; i < core.contexts; i++) qn_trace_flush(core.context[i].ctx);
    Py_RETURN_NONE;
}

bool view_add(PyObject *module) {
    static PyMethodDef functions[] = {
        {"view_to", view_to, METH_VARARGS, "view_to(x, path, /)\n--\n\nA page about a tensor."},
        {"plot_to", plot_to, METH_VARARGS,
         "plot_to(values, path, title, x_label, y_label, first, step, log, /)\n--\n\n"
         "Values as a curve in an SVG file."},
        {"span_begin", span_begin, METH_O, "span_begin(name, /)\n--\n\nBegin a span of a trace."},
        {"span_end", span_end, METH_NOARGS, "span_end()\n--\n\nEnd the span begun last."},
        {"trace_flush", trace_flush, METH_NOARGS,
         "trace_flush()\n--\n\nWrite what traces have gathered."},
        {0}};
    return !PyModule_AddFunctions(module, functions);
}
