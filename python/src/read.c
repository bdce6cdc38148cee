/* read.c - values as Python's: numbers, lists, buffers. What is computed for them is computed
 * without the interpreter's lock. */
#include "core.h"

#include <string.h>

void *read_value(PyObject *self, size_t *size) {
    qn_tensor *t = handle_of(self);
    if (!t || !may_read(self, "the value of a tensor")) return NULL;
    int64_t n = qn_numel(t);
    if (n < 0) return raise_of(NULL);
    qn_ctx *qn = qn_context(t);
    *size = (size_t)n * qn_dtype_size(qn_dtype_of(t));
    void *out = PyMem_Malloc(*size + 1);
    if (!out) return PyErr_NoMemory();
    Py_INCREF(self);
    computing c = compute_begin();
    qn_code code = qn_read(t, out, *size);
    bool fine = compute_end(c);
    uint32_t place = ((tensor_object *)self)->place;
    Py_DECREF(self);
    if (fine && code >= 0) return out;
    if (code < 0) raise_at_read(qn, place);
    PyMem_Free(out);
    return NULL;
}

/* ---- elements -------------------------------------------------------------------------------- */

static double narrow(unsigned bits, int exponent, int fraction, bool infinite) {
    unsigned e = bits >> fraction & ((1u << exponent) - 1), f = bits & ((1u << fraction) - 1);
    int bias = (1 << (exponent - 1)) - 1;
    double sign = bits >> (exponent + fraction) & 1 ? -1 : 1, x;
    if (infinite && e == (1u << exponent) - 1)
        return f ? (double)__builtin_nan("") : sign * __builtin_inf();
    if (!infinite && (bits & 0x7f) == 0x7f) return __builtin_nan("");
    x = (double)(e ? f + (1u << fraction) : f);
    int power = (int)(e ? e : 1) - bias - fraction;
    return sign * __builtin_ldexp(x, power);
}

static PyObject *element(qn_dtype d, const void *p) {
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32, c64[2];
        double f64, c128[2];
    } v;
    memcpy(&v, p, qn_dtype_size(d) > sizeof v ? sizeof v : qn_dtype_size(d));
    switch (d) {
    case QN_BOOL:
        return PyBool_FromLong(v.u8);
    case QN_I8:
        return PyLong_FromLong(v.i8);
    case QN_I16:
        return PyLong_FromLong(v.i16);
    case QN_I32:
        return PyLong_FromLong(v.i32);
    case QN_I64:
        return PyLong_FromLongLong(v.i64);
    case QN_U8:
        return PyLong_FromLong(v.u8);
    case QN_U16:
        return PyLong_FromLong(v.u16);
    case QN_U32:
        return PyLong_FromUnsignedLong(v.u32);
    case QN_U64:
        return PyLong_FromUnsignedLongLong(v.u64);
    case QN_F16:
        return PyFloat_FromDouble(narrow(v.u16, 5, 10, true));
    case QN_BF16:
        return PyFloat_FromDouble(narrow(v.u16, 8, 7, true));
    case QN_F32:
        return PyFloat_FromDouble(v.f32);
    case QN_F64:
        return PyFloat_FromDouble(v.f64);
    case QN_C64:
        return PyComplex_FromDoubles(v.c64[0], v.c64[1]);
    case QN_C128:
        return PyComplex_FromDoubles(v.c128[0], v.c128[1]);
    case QN_F8_E4M3:
        return PyFloat_FromDouble(narrow(v.u8, 4, 3, false));
    case QN_F8_E5M2:
        return PyFloat_FromDouble(narrow(v.u8, 5, 2, true));
    default:
        PyErr_Format(PyExc_TypeError, "%s has no number of Python", dtype_name(d));
        return NULL;
    }
}

PyObject *tensor_item(PyObject *self, PyObject *none) {
    (void)none;
    if (!handle_of(self) || !may_read(self, "the value of a tensor")) return NULL;
    int64_t n = qn_numel(handle_of(self));
    if (n != 1) {
        PyErr_Format(PyExc_ValueError, "a tensor of %lld elements is no number", (long long)n);
        return NULL;
    }
    size_t size;
    void *p = read_value(self, &size);
    PyObject *o = p ? element(qn_dtype_of(handle_of(self)), p) : NULL;
    PyMem_Free(p);
    return o;
}

static PyObject *list_of(qn_tensor *t, int rank, int axis, const char **p) {
    if (axis == rank) {
        PyObject *o = element(qn_dtype_of(t), *p);
        *p += qn_dtype_size(qn_dtype_of(t));
        return o;
    }
    int64_t n = qn_dim(t, axis);
    PyObject *list = PyList_New(n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *one = list_of(t, rank, axis + 1, p);
        if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
    }
    return list;
}

PyObject *tensor_tolist(PyObject *self, PyObject *none) {
    (void)none;
    size_t size;
    void *data = read_value(self, &size);
    const char *p = data;
    PyObject *o = data ? list_of(handle_of(self), qn_rank(handle_of(self)), 0, &p) : NULL;
    PyMem_Free(data);
    return o;
}

PyObject *tensor_repr(PyObject *self) {
    static PyObject *text;
    if (!text) {
        PyObject *module = PyImport_ImportModule("quern._text");
        text = module ? PyObject_GetAttrString(module, "text") : NULL;
        Py_XDECREF(module);
    }
    return text ? PyObject_CallFunctionObjArgs(text, self, NULL) : NULL;
}

int tensor_bool(PyObject *self) {
    PyObject *o = tensor_item(self, NULL);
    int is = o ? PyObject_IsTrue(o) : -1;
    Py_XDECREF(o);
    return is;
}

PyObject *tensor_int(PyObject *self) {
    PyObject *o = tensor_item(self, NULL), *i = o ? PyNumber_Long(o) : NULL;
    Py_XDECREF(o);
    return i;
}

PyObject *tensor_index(PyObject *self) {
    if (!handle_of(self)) return NULL;
    char kind = *qn_dtype_name(qn_dtype_of(handle_of(self)));
    if ((kind != 'i' && kind != 'u') || qn_rank(handle_of(self))) {
        PyErr_SetString(PyExc_TypeError, "only an integer scalar is an index");
        return NULL;
    }
    return tensor_int(self);
}

PyObject *tensor_complex(PyObject *self, PyObject *none) {
    PyObject *o = tensor_item(self, none);
    if (!o || PyComplex_Check(o)) return o;
    double re = PyFloat_AsDouble(o);
    Py_DECREF(o);
    return re == -1 && PyErr_Occurred() ? NULL : PyComplex_FromDoubles(re, 0);
}

PyObject *tensor_float(PyObject *self) {
    PyObject *o = tensor_item(self, NULL), *f = o ? PyNumber_Float(o) : NULL;
    Py_XDECREF(o);
    return f;
}
