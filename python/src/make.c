/* make.c - tensors of Python's values: numbers, nested lists, whatever has the buffer protocol.
 *
 * A list is looked over twice: once for its shape and the kind of its numbers, once to write them.
 * Python's ints are int64, its floats float32, its bools bool, as in PyTorch. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

bool is_number(PyObject *o) {
    return PyLong_Check(o) || PyFloat_Check(o) || PyIndex_Check(o) || PyComplex_Check(o) ||
           PyObject_HasAttrString(o, "__float__");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* 0 bool, 1 int, 2 float, 3 complex, -1 none: also arrays and integers of NumPy, which say their
 * dtype. */
int number_kind(PyObject *o) {
    if (PyBool_Check(o)) return 0;
    if (PyLong_CheckExact(o)) return 1;
    if (PyFloat_Check(o)) return 2;
    if (PyComplex_Check(o)) return 3;
    if (PyLong_Check(o)) return 1;
    if (PyObject_CheckBuffer(o) ? !PyObject_HasAttrString(o, "item")
                                : PyObject_HasAttrString(o, "__array__"))
        return -1;
    if (PyIndex_Check(o) && !PyObject_CheckBuffer(o)) return 1;
    PyTypeObject *type = Py_TYPE(o);
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : "";
    int kind = s && !strncmp(s, "bool", 4) ? 0 : s && !strncmp(s, "float", 5) ? 2 : -1;
    Py_XDECREF(name);
    PyErr_Clear();
    return kind;
}

int scalar_kind(PyObject *o) {
    int kind = number_kind(o);
    if (kind >= 0) return kind;
    PyObject *i = PyIndex_Check(o) ? PyNumber_Index(o) : NULL;
    Py_XDECREF(i);
    PyErr_Clear();
    return i ? 1 : 2;
}

static bool is_float(qn_dtype d) {
    return *qn_dtype_name(d) == 'f' || d == QN_BF16;
}

static bool is_complex(qn_dtype d) {
    return d == QN_C64 || d == QN_C128;
}

/* A complex scalar, of parts of the width of dtype. */
static qn_tensor *complex_in(qn_ctx *qn, qn_dtype dtype, PyObject *o) {
    qn_dtype d = dtype == QN_F64 || dtype == QN_C128 ? QN_F64 : QN_F32;
    double re = PyComplex_RealAsDouble(o), im = PyComplex_ImagAsDouble(o);
    if (PyErr_Occurred()) return NULL;
    core_enter();
    qn_tensor *a = qn_scalar(qn, d, re), *b = qn_scalar(qn, d, im), *z = qn_complex(a, b);
    if (a) core_release(a);
    if (b) core_release(b);
    return z;
}

static qn_tensor *whole_in(qn_ctx *qn, qn_dtype dtype, PyObject *o) {
    PyObject *i = PyNumber_Index(o);
    if (!i) return NULL;
    core_enter();
    int overflow = 0;
    int64_t z = PyLong_AsLongLongAndOverflow(i, &overflow);
    qn_tensor *t = NULL;
    if (!overflow) {
        t = qn_scalar_int(qn, dtype, z);
    } else if (is_float(dtype)) {
        double f = PyLong_AsDouble(i);
        if (f != -1 || !PyErr_Occurred()) t = qn_scalar(qn, dtype, f);
    } else if (dtype == QN_U64 && overflow > 0) {
        uint64_t u = PyLong_AsUnsignedLongLong(i);
        if (!PyErr_Occurred()) t = trace_keep(qn_from(qn, QN_U64, 0, NULL, &u));
    } else {
        PyErr_Format(PyExc_OverflowError, "%R is beyond %s", i, dtype_name(dtype));
    }
    Py_DECREF(i);
    return t;
}

qn_tensor *number_in(qn_ctx *qn, qn_dtype dtype, PyObject *o) {
    int kind = scalar_kind(o);
    if (kind == 1) return whole_in(qn, dtype, o);
    if (kind == 3) return complex_in(qn, dtype, o);
    double f = kind ? PyFloat_AsDouble(o) : PyObject_IsTrue(o);
    if (f == -1 && PyErr_Occurred()) return NULL;
    core_enter();
    return qn_scalar(qn, dtype, f);
}

qn_tensor *number_beside(qn_ctx *qn, qn_dtype dtype, PyObject *o) {
    static const qn_dtype alone[] = {QN_BOOL, QN_I64, QN_F32};
    int kind = scalar_kind(o);
    if (kind == 3) return complex_in(qn, dtype, o);
    if (is_complex(dtype)) dtype = dtype == QN_C128 ? QN_F64 : QN_F32;
    bool weak = is_float(dtype) ? kind > 0 : kind == 1 && dtype != QN_BOOL;
    return number_in(qn, weak ? dtype : alone[kind], o);
}

static bool is_list(PyObject *o) {
    return PyList_Check(o) || PyTuple_Check(o);
}

qn_tensor *operand(PyObject *o, qn_tensor *beside, bool *made) {
    if (is_tensor(o)) return handle_of(o);
    qn_ctx *qn = beside ? qn_context(beside) : core_ctx();
    qn_tensor *t = NULL;
    if (is_list(o))
        PyErr_Format(PyExc_TypeError, "a tensor is wanted, not %R: quern.tensor() makes one", o);
    else if (beside && number_kind(o) >= 0)
        t = number_beside(qn, qn_dtype_of(beside), o);
    else if (qn)
        t = tensor_from(qn, o, NULL);
    *made = t != NULL;
    return t;
}

qn_tensor *value_for(PyObject *o, qn_tensor *x, bool *made) {
    if (is_tensor(o)) return handle_of(o);
    qn_dtype dtype = qn_dtype_of(x);
    int kind = number_kind(o);
    if (kind == 2 && !is_float(dtype)) dtype = QN_F64;
    if (kind == 1 && (dtype == QN_BOOL || *qn_dtype_name(dtype) == 'c')) dtype = QN_I64;
    if (kind == 0) dtype = QN_BOOL;
    qn_tensor *t =
        kind >= 0 ? number_in(qn_context(x), dtype, o) : tensor_from(qn_context(x), o, &dtype);
    *made = t != NULL;
    return t;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static qn_tensor *from_buffer(qn_ctx *qn, PyObject *o) {
    Py_buffer view;
    if (PyObject_GetBuffer(o, &view, PyBUF_FULL_RO)) return NULL;
    core_enter();
    int d = dtype_of_format(view.format, view.itemsize);
    qn_tensor *t = NULL;
    int64_t size[QN_MAX_RANK];
    void *copy = NULL;
    const void *data = view.buf;
    if (d < 0) {
        PyErr_Format(PyExc_TypeError, "an array of format \"%s\" has no dtype here", view.format);
    } else if (view.ndim > QN_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "an array has at most %d axes, not %d", QN_MAX_RANK,
                     view.ndim);
    } else {
        for (int i = 0; i < view.ndim; i++) size[i] = view.shape[i];
        if (!PyBuffer_IsContiguous(&view, 'C')) {
            data = copy = PyMem_Malloc((size_t)view.len + 1);
            if (!copy || PyBuffer_ToContiguous(copy, &view, view.len, 'C')) data = NULL;
        }
        if (data)
            t = trace_keep(
                qn_from(qn, (qn_dtype)d, view.ndim, size, view.len ? data : "\0\0\0\0\0\0\0"));
        else if (!PyErr_Occurred())
            PyErr_NoMemory();
    }
    PyMem_Free(copy);
    PyBuffer_Release(&view);
    return t;
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct listing {
    int rank, kind;
    int64_t size[QN_MAX_RANK];
    bool big; /* an int is beyond int64 */
    int64_t least, most;
    char *to;
    qn_dtype dtype;
} listing;

static Py_ssize_t list_size(PyObject *o) {
    return PyList_Check(o) ? PyList_Size(o) : PyTuple_Size(o);
}

static PyObject *list_item(PyObject *o, Py_ssize_t i) {
    return PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
}

/* Calls f for each element. They are Python's objects, whose code may change the list meanwhile. */
static bool each_item(listing *l, PyObject *o, int axis, int64_t n,
                      bool (*f)(listing *l, PyObject *o, int axis)) {
    bool list = PyList_Check(o), fine = list || PyTuple_Check(o);
    if (!fine) PyErr_SetString(PyExc_RuntimeError, "a list changed while it was read");
    for (Py_ssize_t i = 0; fine && i < n; i++) {
        PyObject *one = list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
        if (unlikely(!one)) {
            PyErr_SetString(PyExc_RuntimeError, "a list changed while it was read");
            return false;
        }
        Py_INCREF(one);
        fine = f(l, one, axis + 1);
        Py_DECREF(one);
    }
    return fine;
}

/* Of an element of a list: integers of NumPy are numbers there. */
static int kind_in_list(PyObject *o) {
    int kind = number_kind(o);
    return kind < 0 && PyIndex_Check(o) ? 1 : kind;
}

static bool scan_whole(listing *l, PyObject *o) {
    PyObject *i = PyNumber_Index(o);
    if (!i) return false;
    int overflow;
    int64_t z = PyLong_AsLongLongAndOverflow(i, &overflow);
    Py_DECREF(i);
    if (overflow) l->big = true;
    if (!overflow && z < l->least) l->least = z;
    if (!overflow && z > l->most) l->most = z;
    return true;
}

/* The shape, that all rows have it, and the kind of the numbers. */
static bool scan(listing *l, PyObject *o, int axis) {
    if (axis < l->rank) {
        if (!is_list(o) || list_size(o) != l->size[axis]) {
            PyErr_Format(PyExc_ValueError, "rows are not of one shape: %R is not of %lld elements",
                         o, (long long)l->size[axis]);
            return false;
        }
        return each_item(l, o, axis, l->size[axis], scan);
    }
    if (is_list(o)) {
        PyErr_Format(PyExc_ValueError, "rows are not of one shape: %R is not a number", o);
        return false;
    }
    int kind = kind_in_list(o);
    if (kind < 0) {
        PyErr_Format(PyExc_TypeError, "%R is not a number, list or array of numbers", o);
        return false;
    }
    if (kind > l->kind) l->kind = kind;
    return kind != 1 || scan_whole(l, o);
}

/* Doubles are kept as such, for their conversion is the library's; integers by their width. */
static bool store(listing *l, PyObject *o) {
    if (l->dtype == QN_C64 || l->dtype == QN_C128) {
        double part[2] = {PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)};
        float single[2] = {(float)part[0], (float)part[1]};
        if (PyErr_Occurred()) return false;
        memcpy(l->to, l->dtype == QN_C64 ? (void *)single : (void *)part, qn_dtype_size(l->dtype));
        l->to += qn_dtype_size(l->dtype);
        return true;
    }
    if (l->dtype == QN_F32 || l->dtype == QN_F64) {
        double f = PyFloat_AsDouble(o);
        if (f == -1 && PyErr_Occurred()) return false;
        if (l->dtype == QN_F64) memcpy(l->to, &f, 8);
        float single = (float)f;
        if (l->dtype == QN_F32) memcpy(l->to, &single, 4);
    } else if (l->dtype == QN_BOOL) {
        int is = PyObject_IsTrue(o);
        if (is < 0) return false;
        *l->to = (char)is;
    } else {
        PyObject *i = PyNumber_Index(o);
        if (!i) return false;
        uint64_t u =
            l->dtype == QN_U64 ? PyLong_AsUnsignedLongLong(i) : (uint64_t)PyLong_AsLongLong(i);
        Py_DECREF(i);
        if (PyErr_Occurred()) return false;
        memcpy(l->to, &u, qn_dtype_size(l->dtype)); /* little end first: the narrow ones, too */
    }
    l->to += qn_dtype_size(l->dtype);
    return true;
}

static bool fill(listing *l, PyObject *o, int axis) {
    return axis == l->rank ? store(l, o) : each_item(l, o, axis, l->size[axis], fill);
}

/* In which dtype the numbers are written: what was asked for, if it is one that C has. */
static bool listing_dtype(listing *l, const qn_dtype *wanted) {
    static const qn_dtype of[] = {QN_BOOL, QN_I64, QN_F32, QN_C64};
    l->dtype = of[l->kind];
    if (l->big && l->kind == 1) l->dtype = QN_U64;
    if (!wanted) return true;
    char to = *qn_dtype_name(*wanted);
    if (*wanted == QN_C64 || *wanted == QN_C128) {
        l->dtype = *wanted;
    } else if (l->kind == 3) {
        PyErr_Format(PyExc_TypeError, "complex numbers are not %s", dtype_name(*wanted));
        return false;
    } else if (*wanted == QN_F32 || *wanted == QN_F64) {
        l->dtype = *wanted;
    } else if (l->kind == 2) {
        l->dtype = QN_F64; /* and cast */
    } else if ((to == 'i' || to == 'u') && l->kind == 1) {
        int bits = (int)(8 * qn_dtype_size(*wanted));
        bool fits = to == 'u' ? l->least >= 0 && (bits == 64 || (l->most >> bits) == 0)
                              : bits == 64 || (l->least >= -((int64_t)1 << (bits - 1)) &&
                                               l->most < ((int64_t)1 << (bits - 1)));
        if (!fits || (l->big && *wanted != QN_U64)) {
            PyErr_Format(PyExc_OverflowError, "an integer is beyond %s", dtype_name(*wanted));
            return false;
        }
        l->dtype = *wanted;
    }
    return true;
}

static qn_tensor *from_list(qn_ctx *qn, PyObject *o, const qn_dtype *wanted) {
    listing l = {.kind = -1};
    for (PyObject *at = o; is_list(at); at = list_item(at, 0)) {
        if (l.rank == QN_MAX_RANK) {
            PyErr_Format(PyExc_ValueError, "a tensor has at most %d axes", QN_MAX_RANK);
            return NULL;
        }
        l.size[l.rank++] = list_size(at);
        if (!list_size(at)) break;
    }
    if (!scan(&l, o, 0)) return NULL;
    if (l.kind < 0) l.kind = 2; /* of nothing */
    if (!listing_dtype(&l, wanted)) return NULL;
    size_t n = qn_dtype_size(l.dtype);
    for (int i = 0; i < l.rank; i++) n *= (size_t)l.size[i];
    char few[64], *data = n <= 56 ? few : PyMem_Malloc(n);
    if (!data) return PyErr_NoMemory(), NULL;
    l.to = data;
    bool fine = fill(&l, o, 0);
    core_enter();
    qn_tensor *t = fine ? trace_keep(qn_from(qn, l.dtype, l.rank, l.size, data)) : NULL;
    if (data != few) PyMem_Free(data);
    return t;
}

/* ---- any value ------------------------------------------------------------------------------- */

/* t in a dtype, as memory again; t is released. */
static qn_tensor *converted(qn_tensor *t, const qn_dtype *dtype) {
    if (!t || !dtype || qn_dtype_of(t) == *dtype) return t;
    qn_tensor *c = qn_cast(t, *dtype);
    if (c && !tracing() && qn_realize(1, &c) < 0) {
        qn_release(c);
        c = NULL;
    }
    qn_release(t);
    return c;
}

/* Lists in lists: at `depth` of them. */
static qn_tensor *made_in(qn_ctx *qn, PyObject *o, const qn_dtype *dtype, int depth);

static bool is_array(PyObject *o) {
    return is_tensor(o) || (PyObject_CheckBuffer(o) && !PyIndex_Check(o)) ||
           PyObject_HasAttrString(o, "__array__");
}

/* A list of tensors or arrays: is there one in it? Integers of NumPy say a dtype where the first
 * is one, else they are numbers. */
static bool has_arrays(PyObject *o, int depth) {
    for (; is_list(o) && list_size(o) && depth <= QN_MAX_RANK; depth++) {
        bool list = PyList_Check(o);
        Py_ssize_t n = list_size(o);
        for (Py_ssize_t i = 0; i < n; i++) {
            PyObject *one = list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
            if (!one) return PyErr_Clear(), false;
            if (PyFloat_CheckExact(one) || PyLong_CheckExact(one) || is_list(one)) continue;
            if (is_array(one) && (!i || scalar_kind(one) == 2) && (!i || number_kind(one) < 0))
                return true;
        }
        o = list_item(o, 0);
    }
    return false;
}

/* Rows that are arrays first; where these meet in a float, the others' numbers are of that. */
static bool rows_of(qn_ctx *qn, PyObject *o, const qn_dtype *dtype, int depth, qn_tensor **row,
                    Py_ssize_t n) {
    qn_dtype meet = QN_BOOL;
    for (int arrays = 1; arrays >= 0; arrays--) {
        for (Py_ssize_t i = 0; i < n; i++) {
            if (i >= list_size(o)) {
                PyErr_SetString(PyExc_RuntimeError, "a list changed while it was read");
                return false;
            }
            PyObject *one = list_item(o, i);
            if ((is_array(one) || has_arrays(one, depth)) != arrays) continue;
            Py_INCREF(one);
            const qn_dtype *in = dtype ? dtype : !arrays && is_float(meet) ? &meet : NULL;
            row[i] = made_in(qn, one, in, depth);
            Py_DECREF(one);
            if (!row[i]) return false;
            meet = qn_dtype_promote(meet, qn_dtype_of(row[i]));
        }
    }
    return true;
}

static qn_tensor *stacked(qn_ctx *qn, PyObject *o, const qn_dtype *dtype, int depth) {
    Py_ssize_t n = list_size(o);
    qn_tensor **row = PyMem_Calloc((size_t)n, sizeof *row), *t = NULL;
    if (!row) return PyErr_NoMemory(), NULL;
    bool fine = rows_of(qn, o, dtype, depth + 1, row, n);
    core_enter();
    if (fine) t = qn_stack((int)n, row, 0);
    if (t && !tracing() && qn_realize(1, &t) < 0) {
        qn_release(t);
        t = NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (row[i]) qn_release(row[i]);
    PyMem_Free(row);
    return t;
}

/* An integer of NumPy as one of Python, which knows whether a dtype has it; NULL: it is none. */
static PyObject *whole_scalar(PyObject *o) {
    PyObject *i = PyObject_CheckBuffer(o) && PyIndex_Check(o) ? PyNumber_Index(o) : NULL;
    PyErr_Clear();
    return i;
}

/* Of what says itself how it becomes an array: __array__ gives one with a buffer. */
static qn_tensor *from_array(qn_ctx *qn, PyObject *o) {
    PyObject *array =
        PyObject_HasAttrString(o, "__array__") ? PyObject_CallMethod(o, "__array__", NULL) : NULL;
    if (!array && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R is not a number, list or array of numbers", o);
    bool fine = array && array != o && PyObject_CheckBuffer(array);
    if (array && !fine) PyErr_Format(PyExc_TypeError, "__array__ of %R gives no array", o);
    qn_tensor *t = fine ? from_buffer(qn, array) : NULL;
    Py_XDECREF(array);
    return t;
}

static qn_tensor *made_in(qn_ctx *qn, PyObject *o, const qn_dtype *dtype, int depth) {
    if (depth > QN_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "a tensor has at most %d axes", QN_MAX_RANK);
        return NULL;
    }
    if (is_tensor(o)) {
        qn_tensor *t = handle_of(o);
        return t ? converted(qn_clone(t), dtype) : NULL;
    }
    if (has_arrays(o, depth)) return converted(stacked(qn, o, dtype, depth), dtype);
    if (is_list(o) || number_kind(o) >= 0) return converted(from_list(qn, o, dtype), dtype);
    PyObject *i = dtype ? whole_scalar(o) : NULL;
    qn_tensor *t = i                                         ? from_list(qn, i, dtype)
                   : PyObject_CheckBuffer(o)                 ? from_buffer(qn, o)
                   : PyObject_HasAttrString(o, "__dlpack__") ? tensor_of_dlpack(qn, o, true)
                                                             : from_array(qn, o);
    Py_XDECREF(i);
    return converted(t, dtype);
}

qn_tensor *tensor_from(qn_ctx *qn, PyObject *o, const qn_dtype *dtype) {
    return made_in(qn, o, dtype, 0);
}

PyObject *make_tensor(PyObject *self, PyObject *args, PyObject *keywords) {
    (void)self;
    static char *names[] = {"data", "dtype", "device", "requires_grad", NULL};
    PyObject *data, *type = Py_None, *device = Py_None;
    int requires = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$Op:tensor", names, &data, &type, &device,
                                     &requires))
        return NULL;
    qn_dtype d = QN_F32;
    if (type != Py_None && !dtype_of(type, &d)) return NULL;
    qn_ctx *qn = core_ctx_of(device);
    if (!qn) return NULL;
    qn_tensor *t = tensor_from(qn, data, type == Py_None ? NULL : &d);
    if (!t) return raise_of(qn);
    PyObject *o = tensor_wrap(t);
    if (!o) return NULL;
    ((tensor_object *)o)->flags |= LEAF;
    if (requires && PyObject_SetAttrString(o, "requires_grad", Py_True)) Py_CLEAR(o);
    return o;
}

PyObject *from_bytes(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *type, *shape, *device = NULL;
    Py_buffer view;
    qn_dtype d;
    int64_t size[QN_MAX_RANK];
    int rank;
    if (!PyArg_ParseTuple(args, "y*OO|O", &view, &type, &shape, &device)) return NULL;
    qn_ctx *qn = core_ctx_of(device);
    PyObject *o = NULL;
    if (qn && dtype_of(type, &d) && sizes_of(shape, QN_MAX_RANK, size, &rank, "from_bytes")) {
        int64_t bytes = (int64_t)qn_dtype_size(d);
        for (int i = 0; i < rank && bytes >= 0; i++)
            if (size[i] < 0 || __builtin_mul_overflow(bytes, size[i], &bytes)) bytes = -1;
        qn_tensor *t = NULL;
        if (bytes != (int64_t)view.len)
            PyErr_Format(PyExc_ValueError, "from_bytes: %zd bytes are not the %lld of %R", view.len,
                         (long long)bytes, shape);
        else
            t = trace_keep(qn_from(qn, d, rank, size, bytes ? view.buf : ""));
        o = t ? tensor_wrap(t) : raise_of(qn);
        if (o) ((tensor_object *)o)->flags |= LEAF;
    }
    PyBuffer_Release(&view);
    return o;
}
