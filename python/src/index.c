/* index.c - x[...] and x[...] = y, with all that NumPy allows between the brackets: numbers,
 * slices, an ellipsis, new axes, integer and bool arrays, and lists of numbers. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

typedef struct items {
    qn_tensor *x; /* what is indexed; with more axes of size 1 where a bool stands alone */
    int n, spread;
    qn_index_item item[2 * QN_MAX_RANK + 2];
    bool host[2 * QN_MAX_RANK + 2];   /* an array whose values are known here */
    qn_tensor *made[4 * QN_MAX_RANK]; /* of lists and arrays of others */
    int mades;
} items;

static void items_free(items *x) {
    for (int i = 0; i < x->mades; i++) core_release(x->made[i]);
}

/* An end of a slice: `none` where it says nothing; beyond int64 it is cut off, as Python does. */
static bool bound(PyObject *o, int64_t none, int64_t *out) {
    if (o == Py_None) {
        *out = none;
        return true;
    }
    PyObject *i = PyNumber_Index(o);
    if (!i) return false;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(i, &overflow);
    if (overflow) *out = overflow > 0 ? INT64_MAX - 1 : INT64_MIN + 2;
    Py_DECREF(i);
    return true;
}

/* In the limited API a slice's parts are its attributes. */
static bool slice_item(PyObject *o, qn_index_item *item) {
    static const char *const names[] = {"start", "stop", "step"};
    PyObject *part[3];
    bool fine = true;
    for (int i = 0; i < 3; i++) {
        part[i] = PyObject_GetAttrString(o, names[i]);
        fine &= part[i] != NULL;
    }
    *item = (qn_index_item){.kind = QN_INDEX_SLICE};
    fine = fine && bound(part[2], 1, &item->step);
    if (fine && item->step == 0) {
        PyErr_SetString(PyExc_ValueError, "the step of a slice is 0");
        fine = false;
    }
    fine = fine && bound(part[0], item->step < 0 ? INT64_MAX - 1 : 0, &item->start) &&
           bound(part[1], QN_END, &item->stop);
    for (int i = 0; i < 3; i++) Py_XDECREF(part[i]);
    return fine;
}

static bool keep(items *x, qn_tensor *t);

static bool array_item(items *x, PyObject *o, qn_index_item *item) {
    qn_tensor *t;
    if (is_tensor(o)) {
        t = handle_of(o);
        if (!t || !keep(x, qn_keep(t))) return false;
    } else {
        qn_dtype whole = QN_I64;
        bool empty = (PyList_Check(o) && !PyList_Size(o)) || (PyTuple_Check(o) && !PyTuple_Size(o));
        t = tensor_from(qn_context(x->x), o, empty ? &whole : NULL);
        if (!t || !keep(x, t)) return false;
        x->host[item - x->item] = true;
    }
    char kind = *qn_dtype_name(qn_dtype_of(t));
    if (kind == 'f' || kind == 'c' || (kind == 'b' && qn_dtype_of(t) != QN_BOOL)) {
        PyErr_Format(PyExc_IndexError, "an index is of integers or bools, not %s",
                     dtype_name(qn_dtype_of(t)));
        return false;
    }
    *item = (qn_index_item){.kind = QN_INDEX_ARRAY, .array = t};
    return true;
}

static bool item_of(items *x, PyObject *o) {
    if (x->n == 2 * QN_MAX_RANK + 2) {
        PyErr_SetString(PyExc_IndexError, "too many indices");
        return false;
    }
    x->host[x->n] = false;
    qn_index_item *item = &x->item[x->n++];
    if (PySlice_Check(o)) return slice_item(o, item);
    if (o == Py_None) return *item = (qn_index_item){.kind = QN_INDEX_NEW_AXIS}, true;
    if (o == Py_Ellipsis) return *item = (qn_index_item){.kind = QN_INDEX_ELLIPSIS}, true;
    if (!is_tensor(o) && !PyBool_Check(o) && PyIndex_Check(o) && !PyObject_CheckBuffer(o)) {
        *item = (qn_index_item){.kind = QN_INDEX_NUMBER};
        return bound(o, 0, &item->start);
    }
    if (PyFloat_Check(o) || PyUnicode_Check(o)) {
        PyErr_Format(PyExc_IndexError, "%R is no index: ints, slices, ..., None and arrays are", o);
        return false;
    }
    return array_item(x, o, item);
}

/* Axes of x that an item is for. */
static int takes(const qn_index_item *item) {
    if (item->kind == QN_INDEX_SLICE || item->kind == QN_INDEX_NUMBER) return 1;
    if (item->kind != QN_INDEX_ARRAY) return 0;
    return qn_dtype_of(item->array) == QN_BOOL ? qn_rank(item->array) : 1;
}

static bool keep(items *x, qn_tensor *t) {
    if (!t) return false;
    if (x->mades == 4 * QN_MAX_RANK) {
        qn_release(t);
        return PyErr_SetString(PyExc_IndexError, "too many indices"), false;
    }
    x->made[x->mades++] = t;
    return true;
}

/* The axis that item k is for. */
static int axis_of(const items *x, int k) {
    int before = 0, behind = 0;
    bool ellipsis = false;
    for (int i = 0; i < x->n; i++) {
        if (i < k) before += takes(&x->item[i]);
        if (i >= k) behind += takes(&x->item[i]);
        if (i < k && x->item[i].kind == QN_INDEX_ELLIPSIS) ellipsis = true;
    }
    return ellipsis ? qn_rank(x->x) - behind : before;
}

/* An integer of a width as int64; beyond it the largest. */
static int64_t whole_at(const char *p, size_t size, bool negative) {
    uint64_t u = 0;
    memcpy(&u, p, size); /* little end first */
    int unused = (int)(8 * (8 - size));
    if (negative) return (int64_t)(u << unused) >> unused;
    return u > INT64_MAX ? INT64_MAX : (int64_t)u;
}

/* What is known here is checked here: an index that is computed where it is used (QN_CHECK). */
static bool lies_inside(const items *x, int k) {
    qn_tensor *t = x->item[k].array;
    qn_dtype dtype = qn_dtype_of(t);
    int axis = axis_of(x, k);
    if (dtype == QN_BOOL || axis < 0 || axis >= qn_rank(x->x)) return true;
    int64_t n = qn_dim(x->x, axis), count = qn_numel(t), wrong = 0;
    size_t size = qn_dtype_size(dtype);
    if (n < 0 || count <= 0) return true;
    char *data = PyMem_Malloc((size_t)count * size);
    if (!data) return PyErr_NoMemory(), false;
    bool fine = qn_read(t, data, (size_t)count * size) >= 0;
    bool inside = fine, negative = *qn_dtype_name(dtype) == 'i';
    for (int64_t i = 0; inside && i < count; i++) {
        wrong = whole_at(data + (size_t)i * size, size, negative);
        inside = wrong >= -n && wrong < n;
    }
    PyMem_Free(data);
    if (fine && !inside)
        PyErr_Format(core.range_error, "index %lld is out of range of axis %d, which has %lld",
                     (long long)wrong, axis, (long long)n);
    return inside;
}

/* A bool without axes is one for an axis of size 1 that is not there. */
static bool spread_bool(items *x, int k) {
    qn_tensor *more = qn_unsqueeze(x->x, axis_of(x, k));
    if (!keep(x, more) || !keep(x, qn_reshape(x->item[k].array, 1, (int64_t[]){1}))) return false;
    x->x = more;
    x->item[k].array = x->made[x->mades - 1];
    x->spread++;
    return true;
}

/* A mask has the sizes of its axes, else it is an IndexError; or, as the array API has it, none
 * along some: then it chooses nothing. */
static bool mask_fits(items *x, int k) {
    qn_tensor *mask = x->item[k].array;
    int64_t size[QN_MAX_RANK];
    int rank = qn_rank(mask), axis = axis_of(x, k), of = qn_rank(x->x);
    bool fits = axis >= 0 && axis + rank <= of, none = false;
    for (int i = 0; fits && i < rank; i++) {
        int64_t n = qn_dim(mask, i);
        size[i] = qn_dim(x->x, axis + i);
        if (n < 0 || size[i] < 0 || n == size[i]) continue;
        fits = n == 0;
        none = true;
    }
    if (fits && !none) return true;
    if (fits) {
        qn_ctx *qn = qn_context(mask);
        if (!keep(x, qn_full_int(qn, QN_BOOL, rank, size, 0))) return false;
        x->item[k].array = x->made[x->mades - 1];
        return true;
    }
    PyObject *shape = tensor_shape(x->x), *other = tensor_shape(mask);
    if (shape && other)
        PyErr_Format(core.range_error, "index: x %S, mask %S: a mask has the sizes of its axes",
                     shape, other);
    Py_XDECREF(shape);
    Py_XDECREF(other);
    return false;
}

static bool items_of(items *x, qn_tensor *of, PyObject *key) {
    x->n = x->mades = x->spread = 0;
    x->x = of;
    if (!of || !keep(x, qn_keep(of))) return false;
    if (PyTuple_Check(key)) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++)
            if (!item_of(x, PyTuple_GetItem(key, i))) return false;
    } else if (!item_of(x, key)) {
        return false;
    }
    core_enter(); /* Python's code may have run */
    for (int k = 0; k < x->n; k++)
        if (x->host[k] && !lies_inside(x, k)) return false;
    for (int k = 0; k < x->n; k++) {
        const qn_index_item *item = &x->item[k];
        bool alone = item->kind == QN_INDEX_ARRAY && qn_dtype_of(item->array) == QN_BOOL &&
                     !qn_rank(item->array);
        if (alone && !spread_bool(x, k)) return false;
        bool mask = item->kind == QN_INDEX_ARRAY && qn_dtype_of(item->array) == QN_BOOL;
        if (mask && !mask_fits(x, k)) return false;
    }
    return true;
}

PyObject *tensor_get(PyObject *self, PyObject *key) {
    core_enter();
    items x;
    PyObject *r = NULL;
    bool masks = false;
    bool fine = items_of(&x, handle_of(self), key);
    for (int i = 0; fine && i < x.n; i++)
        masks |= x.item[i].kind == QN_INDEX_ARRAY && qn_dtype_of(x.item[i].array) == QN_BOOL;
    if (fine &&
        (!masks || may_read(self, "indexing by bools gives as many elements as are true, which"))) {
        qn_tensor *t = qn_index(x.x, x.n, x.item);
        r = t ? tensor_wrap(t) : raise_of(NULL);
    } else {
        raise_of(NULL);
    }
    items_free(&x);
    return r;
}

static qn_tensor *as_before(qn_tensor *t, qn_tensor *x) {
    int64_t size[QN_MAX_RANK];
    int rank = qn_rank(x);
    for (int i = 0; i < rank; i++) size[i] = qn_dim(x, i);
    qn_tensor *r = qn_reshape(t, rank, size);
    qn_release(t);
    return r;
}

/* x becomes what it is with other values there: see number.c on what that means. */
/* What is written by an index that lies outside would have no value at all, and x its old one no
 * more: so it is asked for before. Where jit traces there is no value yet. */
static bool lie_inside(const items *x) {
    const char *check = getenv("QN_CHECK");
    if (tracing() || (check && strcmp(check, "0") == 0)) return true;
    for (int k = 0; k < x->n; k++)
        if (x->item[k].kind == QN_INDEX_ARRAY && !x->host[k] && !lies_inside(x, k)) return false;
    return true;
}

int tensor_set(PyObject *self, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
        return -1;
    }
    core_enter();
    qn_tensor *old = handle_of(self);
    if (!old) return -1;
    items x;
    tensor_object *o = (tensor_object *)self;
    bool made = false;
    qn_tensor *src = NULL, *fit = NULL, *t = NULL;
    if (items_of(&x, old, key) && lie_inside(&x)) src = value_for(value, old, &made);
    /* As NumPy: what is written takes the dtype of what is there. */
    if (src && qn_dtype_of(src) != qn_dtype_of(old)) fit = qn_cast(src, qn_dtype_of(old));
    if (src) t = qn_index_put(x.x, x.n, x.item, fit ? fit : src, QN_COMBINE_SET);
    if (t && x.spread) t = as_before(t, old);
    if (fit) core_release(fit);
    if (made && src) core_release(src);
    items_free(&x);
    if (!t) return raise_of(NULL), -1;
    return tensor_become(o, t) ? 0 : -1;
}

Py_ssize_t tensor_length(PyObject *self) {
    if (!handle_of(self)) return -1;
    if (qn_rank(handle_of(self)) == 0) {
        PyErr_SetString(PyExc_TypeError, "a scalar has no len()");
        return -1;
    }
    return (Py_ssize_t)qn_dim(handle_of(self), 0);
}
