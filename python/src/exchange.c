/* exchange.c - memory shared with other libraries: the buffer protocol and DLPack, both ways.
 *
 * What is given out is the tensor's own memory, read-only, with a handle that holds its value: an
 * assignment takes other memory meanwhile. What is taken in lies where it was (qn_borrow), if it is
 * row-major and begins at a multiple of its elements, and else is copied. */
#include "core.h"
#include "dlpack.h"

#include <string.h>

/* A handle on the value of a tensor, computed, and where it is; NULL with an exception. */
static const void *held_value(PyObject *self, bool copy, qn_tensor **held) {
    core_enter();
    qn_tensor *t = handle_of(self);
    const void *at = NULL;
    *held = NULL;
    if (!t || !may_read(self, "the value of a tensor")) return NULL;
    qn_tensor *bare = qn_detach(t), *h = bare && copy ? qn_clone(bare) : bare;
    if (bare && h != bare) qn_release(bare);
    if (h && *qn_dtype_name(qn_dtype_of(h)) == 'c') { /* pairs lie as complex numbers do */
        qn_tensor *pairs = qn_as_real(h);
        qn_release(h);
        h = pairs;
    }
    if (!h) return raise_of(NULL);
    Py_INCREF(self);
    computing c = compute_begin();
    qn_code code = qn_data(h, &at);
    bool fine = compute_end(c);
    if (code < 0) raise_at_read(qn_context(h), ((tensor_object *)self)->place);
    Py_DECREF(self);
    if (fine && code >= 0) return *held = h, at ? at : "";
    core_release(h);
    return NULL;
}

/* ---- the buffer protocol --------------------------------------------------------------------- */

typedef struct exported {
    qn_tensor *held; /* NULL: memory of its own */
    void *copy;
    Py_ssize_t size[QN_MAX_RANK], stride[QN_MAX_RANK];
} exported;

/* The value where it is, or a copy of what is on another device. */
static const void *exported_value(PyObject *self, exported *e) {
    const void *at = held_value(self, false, &e->held);
    if (at || !PyErr_ExceptionMatches(PyExc_RuntimeError) || tracing()) return at;
    PyErr_Clear();
    size_t size;
    return e->copy = read_value(self, &size);
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags) {
    qn_tensor *t = handle_of(self);
    view->obj = NULL;
    if (!t) return -1;
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && qn_rank(t) > 1) {
        PyErr_SetString(PyExc_BufferError, "the buffer of a tensor is row by row, not Fortran's");
        return -1;
    }
    const char *format = dtype_format(qn_dtype_of(t));
    if (!format || (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_Format(PyExc_BufferError,
                     format ? "the buffer of a tensor is read-only"
                            : "a buffer cannot say dtype %s",
                     dtype_name(qn_dtype_of(t)));
        return -1;
    }
    exported *e = PyMem_Calloc(1, sizeof *e);
    const void *data = e ? exported_value(self, e) : NULL;
    if (!data) {
        PyMem_Free(e);
        return -1;
    }
    int rank = qn_rank(t);
    Py_ssize_t item = (Py_ssize_t)qn_dtype_size(qn_dtype_of(t)), step = item;
    for (int i = rank; i-- > 0;) {
        e->size[i] = (Py_ssize_t)qn_dim(t, i);
        e->stride[i] = step;
        step *= e->size[i];
    }
    *view = (Py_buffer){.buf = (void *)data,
                        .len = step,
                        .itemsize = item,
                        .readonly = 1,
                        .ndim = rank,
                        .format = flags & PyBUF_FORMAT ? (char *)format : NULL,
                        .shape = flags & PyBUF_ND ? e->size : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->stride : NULL,
                        .internal = e};
    Py_INCREF(self);
    view->obj = self;
    return 0;
}

void tensor_release_buffer(PyObject *self, Py_buffer *view) {
    exported *e = view->internal;
    if (e->held && ((tensor_object *)self)->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK)
        core_release(e->held);
    PyMem_Free(e->copy);
    PyMem_Free(e);
}

/* ---- DLPack: giving -------------------------------------------------------------------------- */

typedef struct given {
    union {
        dl_managed plain;
        dl_versioned versioned;
    } as;
    qn_tensor *held;
    uint32_t epoch;
    int64_t size[QN_MAX_RANK], stride[QN_MAX_RANK];
} given;

/* May be called by any thread. */
static void let_go(given *g) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE s = PyGILState_Ensure();
    if (g->epoch == core.epoch / EPOCH_FORK) core_release(g->held);
    PyMem_Free(g);
    PyGILState_Release(s);
}

static void delete_plain(dl_managed *self) {
    let_go(self->context);
}

static void delete_versioned(dl_versioned *self) {
    let_go(self->context);
}

/* Of a capsule that nobody took. */
static void drop_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
}

static void dl_dtype(qn_dtype d, dl_tensor *t) {
    const char *name = qn_dtype_name(d);
    t->dtype.bits = (uint8_t)(8 * qn_dtype_size(d));
    t->dtype.lanes = 1;
    t->dtype.code = d == QN_BOOL      ? DL_BOOL
                    : d == QN_BF16    ? DL_BFLOAT
                    : d == QN_F8_E4M3 ? DL_E4M3FN
                    : d == QN_F8_E5M2 ? DL_E5M2
                    : *name == 'i'    ? DL_INT
                    : *name == 'u'    ? DL_UINT
                    : *name == 'c'    ? DL_COMPLEX
                                      : DL_FLOAT;
}

/* Dtypes + 1 by DLPack's code and bytes; 0: none. */
enum { DL_CODES = 16, DL_BYTES = 17 };
static uint8_t dtype_of_code[DL_CODES][DL_BYTES];

static void fill_dtypes(void) {
    dl_tensor one;
    for (int d = MOST_DTYPES; d-- > 0;)
        if (core.dtype[d]) {
            dl_dtype((qn_dtype)d, &one);
            dtype_of_code[one.dtype.code][one.dtype.bits / 8] = (uint8_t)(d + 1);
        }
}

static int dtype_of_dl(const dl_tensor *t) {
    unsigned bytes = t->dtype.bits / 8u;
    if (t->dtype.lanes != 1 || t->dtype.bits % 8 || t->dtype.code >= DL_CODES || bytes >= DL_BYTES)
        return -1;
    return dtype_of_code[t->dtype.code][bytes] - 1;
}

static void fill_tensor(given *g, dl_tensor *t, qn_tensor *x, const void *data) {
    int64_t step = 1;
    memset(t, 0, sizeof *t);
    t->data = (void *)data;
    t->device.type = DL_CPU;
    t->ndim = qn_rank(x);
    dl_dtype(qn_dtype_of(x), t);
    for (int i = t->ndim; i-- > 0;) {
        g->size[i] = qn_dim(x, i);
        g->stride[i] = step;
        step *= g->size[i];
    }
    t->shape = g->size;
    t->strides = g->stride;
}

/* Does (1, 0) name this process' memory? */
static bool is_host(PyObject *device) {
    if (!device || device == Py_None) return true;
    int type, number;
    if (!PyArg_ParseTuple(device, "ii", &type, &number)) return false;
    if (type == DL_CPU) return true;
    PyErr_SetString(PyExc_BufferError,
                    "a tensor is given as memory of the processor, device (1, 0), alone");
    return false;
}

/* The value with its description; NULL with an exception. */
static given *given_value(PyObject *self, bool copy, bool versioned) {
    given *g = PyMem_Calloc(1, sizeof *g);
    const void *data = g ? held_value(self, copy, &g->held) : NULL;
    if (!data) {
        PyMem_Free(g);
        return NULL;
    }
    g->epoch = core.epoch / EPOCH_FORK;
    fill_tensor(g, versioned ? &g->as.versioned.tensor : &g->as.plain.tensor, handle_of(self),
                data);
    return g;
}

dl_versioned *dlpack_give(PyObject *self, bool copy) {
    given *g = given_value(self, copy, true);
    if (!g) return NULL;
    dl_versioned *v = &g->as.versioned;
    v->version.major = 1;
    v->version.minor = 0;
    v->context = g;
    v->deleter = delete_versioned;
    v->flags = copy ? DL_IS_COPIED : DL_READ_ONLY;
    return v;
}

static PyObject *give(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy))
        return NULL;
    long major = 0;
    if (version != Py_None) {
        PyObject *first = PySequence_GetItem(version, 0);
        major = first ? PyLong_AsLong(first) : -1;
        Py_XDECREF(first);
    }
    int wanted = copy == Py_None ? -1 : PyObject_IsTrue(copy);
    if (PyErr_Occurred() || !is_host(device)) return NULL;
    /* Before version 1 nothing says that memory is not to be written: it is given as it is only
     * where a copy was forbidden. */
    bool copied = wanted == 1 || (wanted < 0 && major < 1);
    if (major >= 1) {
        dl_versioned *v = dlpack_give(self, copied);
        return v ? PyCapsule_New(v, "dltensor_versioned", drop_capsule) : NULL;
    }
    given *g = given_value(self, copied, false);
    if (!g) return NULL;
    g->as.plain.context = g;
    g->as.plain.deleter = delete_plain;
    return PyCapsule_New(&g->as.plain, "dltensor", drop_capsule);
}

static PyObject *give_device(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- DLPack: taking -------------------------------------------------------------------------- */

/* Who computes has let the interpreter's lock go; else who is here has it, and asking takes as long
 * as the deleter does. */
static void give_back_plain(void *owner) {
    bool busy = core.busy;
    PyGILState_STATE s = busy ? PyGILState_Ensure() : PyGILState_LOCKED;
    dl_managed *m = owner;
    if (m->deleter) m->deleter(m);
    if (busy) PyGILState_Release(s);
}

static void give_back_versioned(void *owner) {
    bool busy = core.busy;
    PyGILState_STATE s = busy ? PyGILState_Ensure() : PyGILState_LOCKED;
    dl_versioned *m = owner;
    if (m->deleter) m->deleter(m);
    if (busy) PyGILState_Release(s);
}

/* Elements that do not lie row by row, copied so; `item` bytes each. */
static void gather(const dl_tensor *t, int axis, const char *from, char **to, size_t item) {
    if (axis == t->ndim) {
        memcpy(*to, from, item);
        *to += item;
        return;
    }
    for (int64_t i = 0; i < t->shape[axis]; i++)
        gather(t, axis + 1, from + i * t->strides[axis] * (int64_t)item, to, item);
}

static qn_tensor *copy_of(qn_ctx *qn, qn_dtype d, const dl_tensor *t, const char *data) {
    if (dl_is_row_major(t)) return trace_keep(qn_from(qn, d, t->ndim, t->shape, data ? data : ""));
    size_t n = qn_dtype_size(d) * (size_t)dl_elements(t);
    char *copy = PyMem_Malloc(n + 1), *to = copy;
    if (!copy) return PyErr_NoMemory(), NULL;
    gather(t, 0, data, &to, qn_dtype_size(d));
    qn_tensor *made = trace_keep(qn_from(qn, d, t->ndim, t->shape, copy));
    PyMem_Free(copy);
    return made;
}

static bool can_take(const dl_tensor *t) {
    int d = dtype_of_dl(t);
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST)
        PyErr_Format(PyExc_BufferError,
                     "memory of device (%d, %d) cannot be read: bring it to the processor",
                     t->device.type, t->device.number);
    else if (t->ndim > QN_MAX_RANK)
        PyErr_Format(PyExc_ValueError, "a tensor has at most %d axes, not %d", QN_MAX_RANK,
                     t->ndim);
    else if (d < 0)
        PyErr_Format(PyExc_TypeError, "DLPack's type %d of %d bits has no dtype here",
                     t->dtype.code, t->dtype.bits);
    else
        return true;
    return false;
}

/* Takes the capsule's tensor; `*lent` where it lies in the other's memory, which is given back
 * later. */
static qn_tensor *take(qn_ctx *qn, const dl_tensor *t, const qn_lender *lender, bool copy,
                       bool *lent) {
    if (!can_take(t)) return NULL;
    core_enter();
    const char *data = t->data ? (const char *)t->data + t->byte_offset : NULL;
    qn_dtype d = (qn_dtype)dtype_of_dl(t);
    if (copy || !dl_is_row_major(t) || !dl_elements(t)) return copy_of(qn, d, t, data);
    bool pairs = d == QN_C64 || d == QN_C128; /* as which complex numbers are borrowed */
    int64_t size[QN_MAX_RANK + 1];
    for (int i = 0; i < t->ndim; i++) size[i] = t->shape[i];
    size[t->ndim] = 2;
    qn_dtype part = d == QN_C64 ? QN_F32 : d == QN_C128 ? QN_F64 : d;
    qn_tensor *made = qn_borrow(qn, part, t->ndim + pairs, size, data, lender);
    *lent = made != NULL;
    made = trace_keep(made);
    if (!made || !pairs) return made;
    qn_tensor *z = qn_as_complex(made);
    qn_release(made);
    return z;
}

/* Memory that is not kept goes back, with an exception where nothing was made of it. */
static qn_tensor *taken(qn_ctx *qn, qn_tensor *made, bool lent, void (*give_back)(void *),
                        void *owner) {
    if (!made) raise_of(qn);
    if (lent) return made;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    give_back(owner);
    PyErr_Restore(type, value, trace);
    return made;
}

qn_tensor *dlpack_take(qn_ctx *qn, dl_versioned *m, bool copy) {
    bool lent = false;
    qn_tensor *made = NULL;
    if (m->version.major != 1)
        PyErr_SetString(PyExc_BufferError, "DLPack of another major version than 1");
    else
        made = take(qn, &m->tensor, &QN_LENDER(.give_back = give_back_versioned, .owner = m), copy,
                    &lent);
    return taken(qn, made, lent, give_back_versioned, m);
}

static qn_tensor *take_plain(qn_ctx *qn, dl_managed *m, bool copy) {
    bool lent = false;
    qn_tensor *made =
        take(qn, &m->tensor, &QN_LENDER(.give_back = give_back_plain, .owner = m), copy, &lent);
    return taken(qn, made, lent, give_back_plain, m);
}

static qn_tensor *take_capsule(qn_ctx *qn, PyObject *capsule, bool copy) {
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) {
        PyErr_SetString(PyExc_TypeError,
                        "__dlpack__ gave no capsule of DLPack, or one that was taken before");
        return NULL;
    }
    void *m = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    return versioned ? dlpack_take(qn, m, copy) : take_plain(qn, m, copy);
}

/* The capsule of an object, of version 1 where it knows of such. */
static PyObject *capsule_of(PyObject *o) {
    PyObject *method = PyObject_GetAttrString(o, "__dlpack__");
    PyObject *none = method ? PyTuple_New(0) : NULL,
             *version = none ? Py_BuildValue("{s(ii)}", "max_version", 1, 1) : NULL;
    PyObject *capsule = version ? PyObject_Call(method, none, version) : NULL;
    if (!capsule && version && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_Call(method, none, NULL);
    }
    Py_XDECREF(version);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

qn_tensor *tensor_of_dlpack(qn_ctx *qn, PyObject *o, bool copy) {
    dl_versioned *m = table_take(o);
    if (m) return dlpack_take(qn, m, copy);
    PyObject *capsule = table_refuses(o) ? NULL : capsule_of(o);
    qn_tensor *t = capsule ? take_capsule(qn, capsule, copy) : NULL;
    Py_XDECREF(capsule);
    return t;
}

static PyObject *from_dlpack_with(PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *device = Py_None, *copy = Py_None;
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        bool of_device = !PyUnicode_CompareWithASCIIString(name, "device");
        if (!of_device && PyUnicode_CompareWithASCIIString(name, "copy")) {
            PyErr_Format(PyExc_TypeError, "from_dlpack() has no argument '%U'", name);
            return NULL;
        }
        *(of_device ? &device : &copy) = args[n + i];
    }
    qn_ctx *qn = core_ctx_of(device);
    int copied = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (!qn || copied < 0) return NULL;
    qn_tensor *t = tensor_of_dlpack(qn, args[0], copied);
    PyObject *made = t ? tensor_wrap(t) : NULL;
    if (made) ((tensor_object *)made)->flags |= LEAF;
    return made;
}

static PyObject *from_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)self;
    if (n == 1) return from_dlpack_with(args, n, names);
    PyErr_Format(PyExc_TypeError, "from_dlpack() takes one array by position, not %zd", n);
    return NULL;
}

bool exchange_add(PyObject *module) {
    static PyMethodDef functions[] = {{"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack,
                                       METH_FASTCALL | METH_KEYWORDS,
                                       "from_dlpack(x, *, device=None, copy=None)\n--\n\nAn array "
                                       "of another library as a tensor over its memory, which "
                                       "must not change as long as the tensor is used; copied if "
                                       "asked for, or where it does not lie row by row from a "
                                       "multiple of an element's bytes on."},
                                      {0}};
    static PyMethodDef methods[] = {{"__dlpack__", (PyCFunction)(void (*)(void))give,
                                     METH_VARARGS | METH_KEYWORDS,
                                     "__dlpack__($self, *, stream=None, max_version=None, "
                                     "dl_device=None, copy=None)\n--\n\nThe value as a capsule of "
                                     "DLPack, read-only where it is not copied."},
                                    {"__dlpack_device__", give_device, METH_NOARGS,
                                     "__dlpack_device__($self)\n--\n\n(1, 0): the processor."},
                                    {0}};
    for (PyMethodDef *m = methods; m->ml_name; m++)
        if (!tensor_add_method(m)) return false;
    fill_dtypes();
    return table_add() && !PyModule_AddFunctions(module, functions);
}
