/* table.c - DLPack's table of C functions, both ways: arrays are handed over without a call of
 * Python's, several times as fast as by __dlpack__.
 *
 * A table knows less than __dlpack__ does. PyTorch's gives the memory of what wants a gradient, and
 * that of conjugated and negated views as it is, without what is still to be done to it. What may
 * be so goes the other way, where the library itself refuses it. */
#include "core.h"
#include "dlpack.h"

#include <stdlib.h>
#include <string.h>

#define NAME "dlpack_exchange_api"

/* ---- taking ---------------------------------------------------------------------------------- */

enum { KNOWN = 16, ALIGN = 64 };

/* Types by their address; a type is looked at once, as the standard allows. */
typedef struct known_type {
    PyTypeObject *type;    /* a reference */
    const dl_table *table; /* NULL: it has none of a version that is known here */
    PyObject *grad;        /* its descriptor requires_grad, a reference; NULL: none */
    descrgetfunc ask;      /* that one's; without the search that an attribute takes */
    bool negates;          /* it has is_neg */
} known_type;

static known_type known[KNOWN];

static const dl_table *table_of(PyTypeObject *type) {
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const dl_table *t = capsule ? PyCapsule_GetPointer(capsule, NAME) : NULL;
    while (t && t->version.major != 1) t = t->previous;
    Py_XDECREF(capsule); /* which the type keeps */
    PyErr_Clear();
    return t && t->from_object ? t : NULL;
}

static const known_type *known_of(PyTypeObject *type) {
    known_type *k = &known[((uintptr_t)type >> 5) % KNOWN];
    if (likely(k->type == type)) return k;
    known_type one = {.type = type, .table = table_of(type)}, old = *k;
    one.grad = PyObject_GetAttrString((PyObject *)type, "requires_grad");
    if (!one.grad) PyErr_Clear();
    if (one.grad) one.ask = (descrgetfunc)PyType_GetSlot(Py_TYPE(one.grad), Py_tp_descr_get);
    one.negates = PyObject_HasAttrString((PyObject *)type, "is_neg");
    Py_INCREF((PyObject *)type);
    *k = one;
    Py_XDECREF(old.grad);
    Py_XDECREF((PyObject *)old.type);
    return k;
}

static bool wants_gradient(const known_type *k, PyObject *o) {
    if (!k->grad) return false;
    PyObject *wants = k->ask ? k->ask(k->grad, o, (PyObject *)k->type) : NULL;
    if (unlikely(!wants)) PyErr_Clear();
    Py_XDECREF(wants);
    return wants != Py_False;
}

/* Does its memory hold its values for certain? Only complex numbers are conjugated, and only parts
 * of such negated, which do not lie row by row if they are two or more. */
static bool is_as_it_lies(const dl_tensor *t) {
    return t->dtype.code != DL_COMPLEX && dl_elements(t) > 1 && dl_is_row_major(t);
}

dl_versioned *table_take(PyObject *o) {
    const known_type *k = known_of(Py_TYPE(o));
    dl_versioned *m = NULL;
    if (!k->table || wants_gradient(k, o)) return NULL;
    if (k->table->from_object(o, &m)) return PyErr_Clear(), NULL;
    if (m->version.major == 1 && is_as_it_lies(&m->tensor)) return m;
    if (m->deleter) m->deleter(m);
    return NULL;
}

bool table_refuses(PyObject *o) {
    if (!known_of(Py_TYPE(o))->negates) return false;
    PyObject *is = PyObject_CallMethod(o, "is_neg", NULL);
    bool fine = is == Py_False;
    if (is && !fine)
        PyErr_SetString(PyExc_BufferError,
                        "memory of a negated view holds other values: take x.resolve_neg()");
    Py_XDECREF(is);
    return !fine;
}

/* ---- giving ---------------------------------------------------------------------------------- */

typedef struct allocated {
    dl_versioned v;
    void *memory;
    int64_t size[]; /* of the axes, then their strides */
} allocated;

static void free_allocated(dl_versioned *v) {
    free(((allocated *)v->context)->memory);
    free(v->context);
}

/* Bytes of a tensor that can be here; false: it cannot. */
static bool bytes_of(const dl_tensor *t, size_t *bytes) {
    size_t n = (size_t)t->dtype.bits / 8 * t->dtype.lanes;
    if (t->ndim < 0 || t->ndim > QN_MAX_RANK || t->dtype.bits % 8 || !n) return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(n, (size_t)t->shape[i], &n)) return false;
    *bytes = n;
    return n <= PTRDIFF_MAX - ALIGN;
}

static allocated *allocated_of(const dl_tensor *t, size_t bytes) {
    size_t rank = (size_t)t->ndim;
    allocated *a = calloc(1, sizeof *a + 2 * rank * sizeof *a->size);
    if (a) a->memory = aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN);
    if (a && a->memory) return a;
    free(a);
    return NULL;
}

/* Needs neither Python nor a context: what is written there comes back by to_object. */
static int allocate(dl_tensor *prototype, dl_versioned **made, void *context,
                    void (*refuse)(void *context, const char *kind, const char *message)) {
    size_t bytes = 0;
    if (prototype->device.type != DL_CPU || !bytes_of(prototype, &bytes)) {
        refuse(context, "BufferError",
               "memory is made on device (1, 0) alone, of up to 12 axes and whole bytes");
        return -1;
    }
    allocated *a = allocated_of(prototype, bytes);
    if (!a) {
        refuse(context, "MemoryError", "no memory for a tensor");
        return -1;
    }
    int rank = prototype->ndim;
    int64_t step = 1;
    for (int i = rank; i-- > 0;) {
        a->size[i] = prototype->shape[i];
        a->size[rank + i] = step;
        step *= a->size[i];
    }
    a->v.version.major = 1;
    a->v.context = a;
    a->v.deleter = free_allocated;
    a->v.tensor = *prototype;
    a->v.tensor.data = a->memory;
    a->v.tensor.shape = a->size;
    a->v.tensor.strides = a->size + rank;
    a->v.tensor.byte_offset = 0;
    *made = &a->v;
    return 0;
}

static int from_object(void *object, dl_versioned **given) {
    if (!is_tensor(object)) {
        PyErr_SetString(PyExc_TypeError, "not a tensor");
        return -1;
    }
    *given = dlpack_give(object, false);
    return *given ? 0 : -1;
}

static int to_object(dl_versioned *taken, void **object) {
    qn_ctx *qn = core_ctx();
    qn_tensor *t = qn ? dlpack_take(qn, taken, false) : NULL;
    PyObject *made = t ? tensor_wrap(t) : NULL;
    if (made) ((tensor_object *)made)->flags |= LEAF;
    *object = made;
    return made ? 0 : -1;
}

static int stream(int32_t device, int32_t number, void **stream) {
    (void)device, (void)number;
    *stream = NULL; /* what is given is computed */
    return 0;
}

bool table_add(void) {
    static const dl_table table = {.version = {1, 3},
                                   .allocate = allocate,
                                   .from_object = from_object,
                                   .to_object = to_object,
                                   .stream = stream};
    PyObject *capsule = PyCapsule_New((void *)&table, NAME, NULL);
    bool added = capsule && !PyObject_SetAttrString((PyObject *)core.tensor_type,
                                                    "__dlpack_c_exchange_api__", capsule);
    Py_XDECREF(capsule);
    return added;
}
