/* files.c - safetensors files: written from a list of named tensors, and opened to be read tensor
 * by tensor. quern/files.py makes trees of them. */
#include "core.h"

#include <string.h>

/* Texts of a list, which keeps them; NULL with an exception. */
static const char **texts_of(PyObject *list, int *n) {
    *n = (int)PyList_Size(list);
    const char **text = PyMem_Calloc((size_t)*n + 1, sizeof *text);
    if (!text) return (void *)PyErr_NoMemory();
    for (int i = 0; i < *n && !PyErr_Occurred(); i++) {
        PyObject *o = PyList_GetItem(list, i);
        Py_ssize_t size = 0;
        text[i] = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &size) : NULL;
        if (!text[i] && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "save: names and metadata are texts, not %R", o);
        else if (text[i] && strlen(text[i]) != (size_t)size)
            PyErr_Format(PyExc_ValueError, "save: %R has a zero byte in it", o);
    }
    if (!PyErr_Occurred()) return text;
    PyMem_Free(text);
    return NULL;
}

/* save_to(path, names, tensors, metadata by turns) */
static PyObject *save_to(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path = NULL, *names, *list, *metadata;
    if (!PyArg_ParseTuple(args, "O&O!O!O!", PyUnicode_FSConverter, &path, &PyList_Type, &names,
                          &PyList_Type, &list, &PyList_Type, &metadata))
        return NULL;
    int n = 0, pairs = 0;
    bool done = false;
    tensor_list x = {0};
    const char **name = NULL, **more = NULL;
    core_enter();
    if (may_read(NULL, "what is written into a file") && (name = texts_of(names, &n)) &&
        (more = texts_of(metadata, &pairs)) && tensors_of(list, false, "save", &x)) {
        qn_ctx *qn = x.n ? qn_context(x.t[0]) : core_ctx();
        qn_save_options o = QN_SAVE_OPTIONS(.metadata = more, .pairs = pairs / 2);
        if (x.n != n) {
            PyErr_SetString(PyExc_ValueError, "save: as many names as tensors are wanted");
        } else if (qn) {
            computing c = compute_begin();
            qn_code code = qn_save(qn, PyBytes_AsString(path), n, name, x.t, &o);
            done = compute_end(c);
            if (code < 0) done = false, raise_of(qn);
        }
    }
    PyMem_Free(name);
    PyMem_Free(more);
    tensors_free(&x);
    Py_DECREF(path);
    if (!done) return NULL;
    Py_RETURN_NONE;
}

/* ---- opened files ---------------------------------------------------------------------------- */

typedef struct file_object {
    PyObject_HEAD qn_file *file;
    qn_ctx *qn;
    uint32_t epoch;
} file_object;
static PyTypeObject *file_type;

static void file_shut(file_object *f) {
    if (f->file && f->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) {
        core_enter();
        qn_file_close(f->file);
    }
    f->file = NULL;
}

static void file_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    file_shut((file_object *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static qn_file *file_of(PyObject *self) {
    core_enter();
    file_object *f = (file_object *)self;
    if (!f->file || f->epoch / EPOCH_FORK != core.epoch / EPOCH_FORK) {
        PyErr_SetString(PyExc_ValueError, "this file has been closed");
        return NULL;
    }
    return f->file;
}

/* file_open(path, device or None) */
static PyObject *file_open(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path = NULL, *device = Py_None;
    if (!PyArg_ParseTuple(args, "O&|O", PyUnicode_FSConverter, &path, &device)) return NULL;
    qn_ctx *qn = core_ctx_of(device);
    file_object *f = qn ? PyObject_New(file_object, file_type) : NULL;
    if (f) {
        f->qn = qn;
        f->epoch = core.epoch;
        f->file = qn_file_open(qn, PyBytes_AsString(path));
        if (!f->file) {
            raise_of(qn);
            Py_CLEAR(f);
        }
    }
    Py_DECREF(path);
    return (PyObject *)f;
}

static PyObject *file_names(PyObject *self, PyObject *none) {
    (void)none;
    const qn_file *file = file_of(self);
    int n = file ? qn_file_count(file) : 0;
    PyObject *list = file ? PyList_New(n) : NULL;
    for (int i = 0; list && i < n; i++) {
        PyObject *name = PyUnicode_FromString(qn_file_name(file, i));
        if (!name || PyList_SetItem(list, i, name)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *file_tensor(PyObject *self, PyObject *name) {
    const qn_file *file = file_of(self);
    const char *text = file && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (!text) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%R is no name", name);
        return NULL;
    }
    qn_tensor *t = trace_keep(qn_file_tensor(file, text));
    return t ? tensor_wrap(t) : raise_of(((file_object *)self)->qn);
}

static PyObject *file_text(PyObject *self, PyObject *key) {
    const qn_file *file = file_of(self);
    const char *name = file && PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    const char *text = name ? qn_file_text(file, name) : NULL;
    if (PyErr_Occurred()) return NULL;
    if (!text) Py_RETURN_NONE;
    return PyUnicode_FromString(text);
}

static PyObject *file_close(PyObject *self, PyObject *none) {
    (void)none;
    file_shut((file_object *)self);
    Py_RETURN_NONE;
}

bool files_add(PyObject *module) {
    static PyMethodDef methods[] = {
        {"names", file_names, METH_NOARGS, "names($self)\n--\n\nThe tensors' names, in order."},
        {"tensor", file_tensor, METH_O, "tensor($self, name)\n--\n\nOne of them, read now."},
        {"text", file_text, METH_O, "text($self, key)\n--\n\nMetadata of a key, or None."},
        {"close", file_close, METH_NOARGS, "close($self)\n--\n\nClose the file."},
        {0}};
    PyType_Slot slots[] = {{Py_tp_dealloc, file_free},
                           {Py_tp_methods, methods},
                           {Py_tp_doc, (void *)"A safetensors file, by file_open()."},
                           {0, NULL}};
    PyType_Spec spec = {"quern.OpenFile", sizeof(file_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    file_type = (PyTypeObject *)PyType_FromSpec(&spec);
    static PyMethodDef functions[] = {
        {"save_to", save_to, METH_VARARGS,
         "save_to(path, names, tensors, metadata, /)\n--\n\nWrite a safetensors file."},
        {"file_open", file_open, METH_VARARGS,
         "file_open(path, device=None, /)\n--\n\nOpen a safetensors file."},
        {0}};
    return file_type && !PyModule_AddFunctions(module, functions);
}
