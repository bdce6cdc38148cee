/* tensor.c - the type quern.Tensor: a handle of the library as an object of Python, its attributes,
 * and the methods that no row of the tables gives. */
#include "core.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

qn_tensor *tensor_elsewhere(tensor_object *o) {
    if (o->epoch / EPOCH_FORK != core.epoch / EPOCH_FORK) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a tensor made before fork() cannot be used in the child: make it there, "
                        "or give it to the child by pickle");
        return NULL;
    }
    if (o->epoch % EPOCH_FORK == 0) return capture_of(o);
    int line = 0;
    const char *file = line_of(o->place, &line);
    PyErr_Format(PyExc_RuntimeError,
                 "a tensor of a function that was traced by jit%s%s has no value outside of it: "
                 "return it (it was recorded at line %d)",
                 file ? ", of " : "", file ? file : "", line);
    return NULL;
}

bool tensor_rename(tensor_object *o, qn_tensor *t) {
    o = trace_object(o);
    if (tracing() && o->epoch != core.epoch && !capture_changes(o)) return false;
    core_release(o->t);
    o->t = t;
    o->epoch = core.epoch;
    o->flags &= (uint16_t) ~(LEAF | BARE);
    o->place = line_here();
    return true;
}

/* Under no_grad what o was made of would be lost to gradients, without a word. */
static bool may_forget(tensor_object *o) {
    if (!core.no_grad || !core.requiring || o->flags & (LEAF | BARE)) return true;
    int is = has_history(o->t);
    if (is > 0)
        PyErr_SetString(PyExc_RuntimeError,
                        "in place under no_grad: x was made of a tensor with requires_grad, and "
                        "its gradient would be lost; detach x before, or change it with history");
    return !is;
}

bool tensor_become(tensor_object *o, qn_tensor *t) {
    bool parameter = o->flags & LEAF && !tracing(), done = false;
    if (parameter && core.no_grad) {
        done = qn_assign(o->t, t) >= 0;
        if (!done) raise_of(NULL);
        core_release(t);
        return done;
    }
    if (parameter && o->flags & REQUIRES_GRAD)
        PyErr_SetString(PyExc_RuntimeError,
                        "in place: what was recorded of a tensor with requires_grad would not know "
                        "it any more; write to it under no_grad, or give the result another name");
    else if (may_forget(o))
        done = tensor_rename(o, t);
    if (done && core.no_grad) trace_object(o)->flags |= BARE;
    if (!done) core_release(t);
    return done;
}

PyObject *tensor_wrap(qn_tensor *t) {
    if (unlikely(core.no_grad)) {
        qn_tensor *bare = qn_detach(t);
        qn_release(t);
        if (!bare) return raise_of(NULL);
        PyObject *o = tensor_named(bare);
        if (o) ((tensor_object *)o)->flags |= BARE;
        return o;
    }
    return tensor_named(t);
}

PyObject *tensor_named(qn_tensor *t) {
    tensor_object *o = PyObject_New(tensor_object, core.tensor_type);
    if (unlikely(!o)) {
        qn_release(t);
        return NULL;
    }
    o->t = t;
    o->weak = o->grad = NULL;
    o->flags = 0;
    o->mark = 0;
    o->epoch = core.epoch;
    o->place = line_here();
    return (PyObject *)o;
}

void tensor_require(tensor_object *o, bool on) {
    if (on == !!(o->flags & REQUIRES_GRAD)) return;
    o->flags ^= REQUIRES_GRAD;
    if (on) {
        o->next = core.requiring;
        o->previous = NULL;
        if (o->next) o->next->previous = o;
        core.requiring = o;
        return;
    }
    if (o->next) o->next->previous = o->previous;
    if (o->previous) o->previous->next = o->next;
    if (core.requiring == o) core.requiring = o->next;
}

static void tensor_free(PyObject *self) {
    tensor_object *o = (tensor_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (unlikely(o->weak != NULL)) PyObject_ClearWeakRefs(self);
    tensor_require(o, false);
    Py_XDECREF(o->grad);
    if (likely(o->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK)) core_release(o->t);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- attributes ------------------------------------------------------------------------------ */

PyObject *tensor_shape(qn_tensor *t) {
    int rank = qn_rank(t);
    PyObject *shape = rank >= 0 ? PyTuple_New(rank) : raise_of(NULL);
    for (int i = 0; shape && i < rank; i++) {
        PyObject *n = PyLong_FromLongLong(qn_dim(t, i));
        if (!n || PyTuple_SetItem(shape, i, n)) Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *get_shape(PyObject *self, void *none) {
    (void)none;
    qn_tensor *t = handle_of(self);
    return t ? tensor_shape(t) : NULL;
}

static PyObject *get_dtype(PyObject *self, void *none) {
    (void)none;
    if (!handle_of(self)) return NULL;
    PyObject *d = core.dtype[qn_dtype_of(handle_of(self))];
    Py_INCREF(d);
    return d;
}

static PyObject *get_ndim(PyObject *self, void *none) {
    (void)none;
    return handle_of(self) ? PyLong_FromLong(qn_rank(handle_of(self))) : NULL;
}

static PyObject *get_size(PyObject *self, void *none) {
    (void)none;
    return handle_of(self) ? PyLong_FromLongLong(qn_numel(handle_of(self))) : NULL;
}

static PyObject *get_itemsize(PyObject *self, void *none) {
    (void)none;
    return handle_of(self) ? PyLong_FromSize_t(qn_dtype_size(qn_dtype_of(handle_of(self)))) : NULL;
}

static PyObject *get_nbytes(PyObject *self, void *none) {
    (void)none;
    qn_tensor *t = handle_of(self);
    if (!t) return NULL;
    return PyLong_FromSize_t((size_t)qn_numel(t) * qn_dtype_size(qn_dtype_of(t)));
}

static PyObject *get_device(PyObject *self, void *none) {
    (void)none;
    return handle_of(self) ? PyUnicode_FromString(qn_device_of(qn_context(handle_of(self)), NULL))
                           : NULL;
}

static PyObject *given(qn_tensor *t) {
    return t ? tensor_wrap(t) : raise_of(NULL);
}

static PyObject *get_matrix_transpose(PyObject *self, void *none) {
    (void)none;
    if (!handle_of(self)) return NULL;
    if (qn_rank(handle_of(self)) < 2) {
        PyErr_SetString(PyExc_ValueError, "the transpose of a matrix wants two axes at least");
        return NULL;
    }
    return given(qn_transpose(handle_of(self), -2, -1));
}

static PyObject *get_transpose(PyObject *self, void *none) {
    (void)none;
    if (!handle_of(self)) return NULL;
    int axes[QN_MAX_RANK], rank = qn_rank(handle_of(self));
    for (int i = 0; i < rank; i++) axes[i] = rank - 1 - i;
    return given(qn_permute(handle_of(self), rank, axes));
}

static PyObject *get_grad(PyObject *self, void *none) {
    (void)none;
    tensor_object *o = trace_object((tensor_object *)self);
    if (tracing() && o->epoch != core.epoch && !handle_of((PyObject *)o)) return NULL;
    PyObject *g = o->grad;
    if (!g) Py_RETURN_NONE;
    Py_INCREF(g);
    return g;
}

static int set_grad(PyObject *self, PyObject *g, void *none) {
    (void)none;
    if (g == Py_None) g = NULL;
    if (g && !is_tensor(g)) {
        PyErr_SetString(PyExc_TypeError, "a gradient is a tensor or None");
        return -1;
    }
    tensor_object *o = trace_object((tensor_object *)self);
    self = (PyObject *)o;
    if (tracing() && o->epoch != core.epoch && (!handle_of(self) || !capture_changes(o))) return -1;
    PyObject *old = o->grad;
    Py_XINCREF(g);
    o->grad = g;
    Py_XDECREF(old);
    return 0;
}

static PyObject *get_requires_grad(PyObject *self, void *none) {
    (void)none;
    return PyBool_FromLong(((tensor_object *)self)->flags & REQUIRES_GRAD);
}

/* A leaf in memory of its own, where x is an expression. */
static bool make_leaf(tensor_object *o) {
    if (o->flags & LEAF) return true;
    size_t bytes;
    void *data = read_value((PyObject *)o, &bytes);
    if (!data) return false;
    int64_t size[QN_MAX_RANK];
    int rank = qn_rank(o->t);
    for (int i = 0; i < rank; i++) size[i] = qn_dim(o->t, i);
    qn_tensor *own = qn_from(qn_context(o->t), qn_dtype_of(o->t), rank, size, data);
    PyMem_Free(data);
    if (!own) return raise_of(NULL), false;
    if (!tensor_rename(o, own)) return false;
    o->flags |= LEAF;
    return true;
}

static int set_requires_grad(PyObject *self, PyObject *on, void *none) {
    (void)none;
    tensor_object *o = (tensor_object *)self;
    if (!handle_of(self)) return -1;
    int is = on ? PyObject_IsTrue(on) : 0;
    if (is < 0) return -1;
    char kind = *dtype_name(qn_dtype_of(handle_of(self)));
    if (is && kind != 'f' && kind != 'c' && qn_dtype_of(o->t) != QN_BF16) {
        PyErr_Format(PyExc_TypeError, "only floats have gradients, not %s",
                     dtype_name(qn_dtype_of(o->t)));
        return -1;
    }
    if (is && !make_leaf(o)) return -1;
    tensor_require(o, is != 0);
    return 0;
}

static PyObject *get_name(PyObject *self, void *none) {
    (void)none;
    if (!handle_of(self)) return NULL;
    const char *name = qn_name(handle_of(self));
    if (!name) Py_RETURN_NONE;
    return PyUnicode_FromString(name);
}

static int set_name(PyObject *self, PyObject *o, void *none) {
    (void)none;
    const char *name = o && PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
    if (!name && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a name is a text");
    core_enter();
    if (name && qn_set_name(handle_of(self), name) < 0) raise_of(NULL);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- methods --------------------------------------------------------------------------------- */

/* value in x's dtype and shape; in a trace x only names it. */
static bool assign_to(tensor_object *o, qn_tensor *x, qn_tensor *value) {
    int64_t size[QN_MAX_RANK];
    int rank = qn_rank(x);
    for (int i = 0; i < rank; i++) size[i] = qn_dim(x, i);
    bool same = qn_dtype_of(value) == qn_dtype_of(x);
    qn_tensor *cast = same ? qn_keep(value) : qn_cast(value, qn_dtype_of(x));
    qn_tensor *fit = cast ? qn_expand(cast, rank, size) : NULL;
    if (cast) core_release(cast);
    bool done = fit != NULL;
    if (fit && tracing()) return tensor_rename(o, fit);
    if (fit) done = qn_assign(x, fit) >= 0, core_release(fit);
    if (!done) raise_of(NULL);
    return done;
}

static PyObject *assign(PyObject *self, PyObject *value) {
    core_enter();
    bool made = false;
    qn_tensor *x = handle_of(self), *src = x ? value_for(value, x, &made) : NULL;
    if (!src) return raise_of(NULL);
    bool done = assign_to((tensor_object *)self, x, src);
    if (made) core_release(src);
    if (!done) return NULL;
    Py_INCREF(self);
    return self;
}

static PyObject *realize(PyObject *self, PyObject *none) {
    (void)none;
    core_enter();
    qn_tensor *t = handle_of(self);
    if (!t) return NULL;
    Py_INCREF(self);
    if (tracing()) return self; /* all of a trace is computed by its plan */
    computing c = compute_begin();
    qn_code code = qn_realize(1, &t);
    if (!compute_end(c) || code < 0) {
        Py_DECREF(self);
        return code < 0 ? raise_at_read(NULL, ((tensor_object *)self)->place) : NULL;
    }
    return self;
}

static PyObject *numel(PyObject *self, PyObject *none) {
    (void)none;
    return get_size(self, NULL);
}

static PyObject *bytes(PyObject *self, PyObject *none) {
    (void)none;
    size_t size;
    void *p = read_value(self, &size);
    PyObject *o = p ? PyBytes_FromStringAndSize(p, (Py_ssize_t)size) : NULL;
    PyMem_Free(p);
    return o;
}

PyMethodDef tensor_methods[] = {
    {"item", tensor_item, METH_NOARGS,
     "item($self)\n--\n\nThe only element as a number of Python."},
    {"__complex__", tensor_complex, METH_NOARGS, "__complex__($self)\n--\n\nThe only element."},
    {"tolist", tensor_tolist, METH_NOARGS,
     "tolist($self)\n--\n\nThe value as nested lists, a scalar as a number."},
    {"tobytes", bytes, METH_NOARGS, "tobytes($self)\n--\n\nThe value's bytes, row by row."},
    {"realize", realize, METH_NOARGS,
     "realize($self)\n--\n\nCompute the value now; gives the tensor itself."},
    {"assign", assign, METH_O,
     "assign($self, value, /)\n--\n\nWrite a value into this tensor's memory, an effect that is "
     "computed with the "
     "next read: of data, of what was read, or of a view of such. Gradients end here. Gives the "
     "tensor."},
    {"numel", numel, METH_NOARGS, "numel($self)\n--\n\nThe number of elements."},
    {0}};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "sizes of the axes", NULL},
    {"dtype", get_dtype, NULL, "the element type", NULL},
    {"ndim", get_ndim, NULL, "how many axes", NULL},
    {"size", get_size, NULL, "how many elements", NULL},
    {"itemsize", get_itemsize, NULL, "bytes of an element", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of the value", NULL},
    {"device", get_device, NULL, "the device's name", NULL},
    {"T", get_transpose, NULL, "all axes in reverse order", NULL},
    {"mT", get_matrix_transpose, NULL, "the last two axes exchanged", NULL},
    {"grad", get_grad, set_grad, "what backward() added up, or None", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "does backward() make a gradient by it?", NULL},
    {"name", get_name, set_name, "what errors call it, or None", NULL},
    {0}};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tensor_object, weak), READONLY, NULL}, {0}};

static Py_hash_t hash(PyObject *self) {
    return (Py_hash_t)((uintptr_t)self >> 4);
}

/* Rows, one after the other; recorded at once. */
static PyObject *rows(PyObject *self) {
    Py_ssize_t n = tensor_length(self);
    PyObject *list = n >= 0 ? PyList_New(n) : NULL;
    for (Py_ssize_t i = 0; list && i < n; i++) {
        core_enter();
        qn_tensor *t = qn_select(handle_of(self), 0, i);
        PyObject *one = t ? tensor_wrap(t) : raise_of(NULL);
        if (!one || PyList_SetItem(list, i, one)) Py_CLEAR(list);
    }
    PyObject *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

bool tensor_add(PyObject *module) {
    PyType_Slot slots[64];
    int n = 0;
    for (PyType_Slot *s = number_slots(); s->slot; s++) slots[n++] = *s;
    PyType_Slot more[] = {
        {Py_tp_dealloc, tensor_free},
        {Py_tp_repr, tensor_repr},
        {Py_tp_hash, hash},
        {Py_tp_iter, rows},
        {Py_tp_getset, attributes},
        {Py_tp_methods, tensor_methods},
        {Py_tp_members, members},
        {Py_mp_subscript, tensor_get},
        {Py_mp_ass_subscript, tensor_set},
        {Py_mp_length, tensor_length},
        {Py_bf_getbuffer, tensor_get_buffer},
        {Py_bf_releasebuffer, tensor_release_buffer},
        {Py_tp_doc, (void *)"A tensor: an array of numbers, perhaps not computed yet."},
        {0, NULL}};
    memcpy(slots + n, more, sizeof more);
    PyType_Spec spec = {"quern.Tensor", sizeof(tensor_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    core.tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return core.tensor_type &&
           !PyModule_AddObjectRef(module, "Tensor", (PyObject *)core.tensor_type);
}

bool tensor_add_method(PyMethodDef *m) {
    PyObject *method = PyDescr_NewMethod(core.tensor_type, m);
    bool added =
        method && !PyObject_SetAttrString((PyObject *)core.tensor_type, m->ml_name, method);
    Py_XDECREF(method);
    return added;
}
