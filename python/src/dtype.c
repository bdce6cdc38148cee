/* dtype.c - element types as objects of Python, quern.float32, and by their other names: the C
 * API's ("f32"), NumPy's types and dtypes, which say their name themselves, and Python's bool,
 * int, float. */
#include "core.h"

#include <stdio.h>
#include <string.h>

/* The array API's name of a type whose C name is a letter or word and its bits. */
static const char *long_name(const char *name, char *text, size_t size) {
    static const struct {
        const char *c, *python;
    } kinds[] = {{"bf", "bfloat"}, {"f8_", "float8_"}, {"f", "float"},
                 {"i", "int"},     {"u", "uint"},      {"c", "complex"}};
    snprintf(text, size, "%s", name);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t n = strlen(kinds[k].c);
        bool number = name[n - (kinds[k].c[n - 1] == '_')] >= '0' &&
                      name[n - (kinds[k].c[n - 1] == '_')] <= '9';
        if (strncmp(name, kinds[k].c, n) || (!number && kinds[k].c[n - 1] != '_')) continue;
        snprintf(text, size, "%s%s", kinds[k].python, name + n);
        break;
    }
    return text;
}

const char *dtype_name(qn_dtype d) {
    PyObject *o = (unsigned)d < MOST_DTYPES ? core.dtype[d] : NULL;
    return o ? ((dtype_object *)o)->name : "no dtype";
}

static char kind_of(qn_dtype d) {
    return *qn_dtype_name(d);
}

const char *dtype_format(qn_dtype d) {
    static const char *const of[] = {
        [QN_BOOL] = "?", [QN_I8] = "b",  [QN_I16] = "h",  [QN_I32] = "i",  [QN_I64] = "q",
        [QN_U8] = "B",   [QN_U16] = "H", [QN_U32] = "I",  [QN_U64] = "Q",  [QN_F16] = "e",
        [QN_F32] = "f",  [QN_F64] = "d", [QN_C64] = "Zf", [QN_C128] = "Zd"};
    return (size_t)d < sizeof of / sizeof *of ? of[d] : NULL;
}

int dtype_of_format(const char *f, Py_ssize_t size) {
    if (!f) return QN_U8;
    if (*f == '@' || *f == '=' || *f == '<') f++;
    if (*f == 'Z' && (f[1] == 'f' || f[1] == 'd') && !f[2]) return f[1] == 'f' ? QN_C64 : QN_C128;
    if (!*f || f[1]) return -1;
    int bytes = (int)size, log = bytes == 1   ? 0
                                 : bytes == 2 ? 1
                                 : bytes == 4 ? 2
                                 : bytes == 8 ? 3
                                              : -1;
    if (log < 0) return -1;
    if (*f == '?') return QN_BOOL;
    if (strchr("bhilqn", *f)) return QN_I8 + log;
    if (strchr("BHILQN", *f)) return QN_U8 + log;
    if (*f == 'e') return QN_F16;
    if (*f == 'f') return QN_F32;
    if (*f == 'd') return QN_F64;
    return -1;
}

static int by_name(const char *text) {
    if (!strncmp(text, "quern.", 6)) text += 6;
    if (!strcmp(text, "float8_e4m3fn")) text = "float8_e4m3";
    for (int d = 0; d < MOST_DTYPES; d++) {
        const dtype_object *o = (const dtype_object *)core.dtype[d];
        if (o && (!strcmp(text, o->name) || !strcmp(text, qn_dtype_name(o->code)))) return d;
    }
    return -1;
}

/* Types and dtypes of other libraries say their name: numpy.float32, dtype('float32'), and torch's
 * in their repr. */
static int by_object(PyObject *o) {
    if (o == (PyObject *)&PyBool_Type) return QN_BOOL;
    if (o == (PyObject *)&PyLong_Type) return QN_I64;
    if (o == (PyObject *)&PyFloat_Type) return QN_F32;
    if (o == (PyObject *)&PyComplex_Type) return QN_C64;
    static const char *const attributes[] = {"name", "__name__"};
    int found = -1;
    for (int i = 0; i < 2 && found < 0; i++) {
        PyObject *name = PyObject_GetAttrString(o, attributes[i]);
        if (name && PyUnicode_Check(name)) found = by_name(PyUnicode_AsUTF8AndSize(name, NULL));
        Py_XDECREF(name);
        PyErr_Clear();
    }
    PyObject *text = found < 0 ? PyObject_Str(o) : NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (s) found = by_name(!strncmp(s, "torch.", 6) ? s + 6 : s);
    Py_XDECREF(text);
    PyErr_Clear();
    return found;
}

bool dtype_of(PyObject *o, qn_dtype *out) {
    int d = -1;
    if (Py_TYPE(o) == core.dtype_type) {
        *out = ((dtype_object *)o)->code;
        return true;
    }
    if (PyUnicode_Check(o)) {
        const char *s = PyUnicode_AsUTF8AndSize(o, NULL);
        d = s ? by_name(s) : -1;
    } else {
        d = by_object(o);
    }
    if (d < 0) {
        PyErr_Format(PyExc_TypeError, "%R is no dtype: quern.float32, \"float32\" and the like are",
                     o);
        return false;
    }
    *out = (qn_dtype)d;
    return true;
}

static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("quern.%s", ((dtype_object *)self)->name);
}

static PyObject *dtype_str(PyObject *self) {
    return PyUnicode_FromString(((dtype_object *)self)->name);
}

static PyObject *dtype_itemsize(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromSize_t(qn_dtype_size(((dtype_object *)self)->code));
}

static PyObject *dtype_get_name(PyObject *self, void *none) {
    (void)none;
    return dtype_str(self);
}

static PyObject *dtype_kind(PyObject *self, void *none) {
    (void)none;
    const char *name = ((dtype_object *)self)->name;
    return PyUnicode_FromStringAndSize(name[0] == 'b' && name[1] == 'f' ? "f" : name, 1);
}

static PyObject *dtype_reduce(PyObject *self, PyObject *none) {
    (void)none;
    return PyUnicode_FromString(((dtype_object *)self)->name);
}

static PyObject *dtype_compare(PyObject *a, PyObject *b, int how) {
    if (how != Py_EQ && how != Py_NE) Py_RETURN_NOTIMPLEMENTED;
    bool same = a == b;
    if (!same && Py_TYPE(b) != core.dtype_type) {
        int d = PyUnicode_Check(b) ? by_name(PyUnicode_AsUTF8AndSize(b, NULL)) : by_object(b);
        same = d >= 0 && core.dtype[d] == a;
    }
    return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t dtype_hash(PyObject *self) {
    return ((dtype_object *)self)->code + 1;
}

static void dtype_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free((void *)((dtype_object *)self)->name);
    PyObject_Free(self);
    Py_DECREF(type);
}

bool dtype_add(PyObject *module) {
    static PyGetSetDef get[] = {{"itemsize", dtype_itemsize, NULL, "bytes of an element", NULL},
                                {"name", dtype_get_name, NULL, "such as \"float32\"", NULL},
                                {"kind", dtype_kind, NULL, "b, i, u, f or c", NULL},
                                {0}};
    static PyMethodDef methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, NULL}, {0}};
    PyType_Slot slots[] = {{Py_tp_repr, dtype_repr},
                           {Py_tp_str, dtype_str},
                           {Py_tp_getset, get},
                           {Py_tp_methods, methods},
                           {Py_tp_hash, dtype_hash},
                           {Py_tp_richcompare, dtype_compare},
                           {Py_tp_dealloc, dtype_free},
                           {Py_tp_doc, (void *)"An element type: quern.float32 and the like."},
                           {0, NULL}};
    PyType_Spec spec = {"quern.dtype", sizeof(dtype_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    core.dtype_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!core.dtype_type) return false;
    if (PyModule_AddObjectRef(module, "dtype", (PyObject *)core.dtype_type)) return false;
    for (int d = 0; d < MOST_DTYPES; d++) {
        if (!qn_dtype_size((qn_dtype)d)) continue; /* their codes have gaps */
        char text[32], *name;
        long_name(qn_dtype_name((qn_dtype)d), text, sizeof text);
        dtype_object *o = PyObject_New(dtype_object, core.dtype_type);
        if (!o || !(name = PyObject_Malloc(strlen(text) + 1))) return false;
        o->code = (qn_dtype)d;
        o->name = strcpy(name, text);
        core.dtype[d] = (PyObject *)o;
        if (PyModule_AddObjectRef(module, text, (PyObject *)o)) return false;
    }
    return kind_of(QN_F32) == 'f';
}
