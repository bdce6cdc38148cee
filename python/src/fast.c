/* fast.c - the short way of a call of what quern.jit() gives: from arguments that were seen before
 * to the run of their plan, without Python's code. jit.py has the long way, which makes the graphs.
 *
 * The arguments are written down as words: the structure, and of each tensor its dtype, shape and
 * which of those before it it is; of all else its value or which object it is. Equal words mean the
 * graph that the long way found for them, if nothing that the function reaches has changed
 * (steps.c). */
#include "fast.h"

#include <stddef.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

/* Of one call: no code of Python runs while they are used. */
static struct {
    uint64_t *word;
    size_t n, cap;
    tensor_object **tensor; /* each once, in the order they are met; not references */
    size_t tensors, tensor_cap;
    uint64_t pass;
    PyObject *opaque; /* a list that takes what is known by its address; or NULL */
} words;

enum { LEAF_TENSOR = 1, LEAF_NONE, LEAF_INT, LEAF_FLOAT, LEAF_OTHER, A_TUPLE, A_LIST, A_DICT };
enum { DEEPEST = 32 };

static bool put(uint64_t w) {
    if (words.n == words.cap) {
        size_t cap = words.cap ? 2 * words.cap : 256;
        uint64_t *grown = PyMem_Realloc(words.word, cap * sizeof *grown);
        if (!grown) return false;
        words.word = grown;
        words.cap = cap;
    }
    words.word[words.n++] = w;
    return true;
}

static bool put_object(PyObject *o) {
    if (words.opaque && PyList_Append(words.opaque, o)) return PyErr_Clear(), false;
    return put((uint64_t)(uintptr_t)o);
}

static bool put_tensor(tensor_object *o) {
    if (o->epoch != core.epoch) return false;
    uint64_t same = o->mark >> 24 == words.pass ? o->mark & 0xffffff : words.tensors;
    if (same == words.tensors) {
        if (words.tensors == words.tensor_cap) {
            size_t cap = words.tensor_cap ? 2 * words.tensor_cap : 64;
            if (cap > 0xffffff) return false;
            tensor_object **grown = PyMem_Realloc(words.tensor, cap * sizeof *grown);
            if (!grown) return false;
            words.tensor = grown;
            words.tensor_cap = cap;
        }
        words.tensor[words.tensors++] = o;
        o->mark = words.pass << 24 | same;
    }
    int rank = qn_rank(o->t);
    uint64_t known = (uint64_t)(o->flags & REQUIRES_GRAD) | (uint64_t)(o->flags & OUTSIDE) << 1;
    if (rank < 0 || !put(LEAF_TENSOR | (uint64_t)qn_dtype_of(o->t) << 8 | (uint64_t)rank << 16 |
                         known << 24 | same << 32))
        return false;
    if (!put((uint64_t)(uintptr_t)qn_context(o->t))) return false;
    if (o->flags & OUTSIDE && !put((uint64_t)(uintptr_t)o)) return false;
    for (int i = 0; i < rank; i++) {
        int64_t n = qn_dim(o->t, i);
        if (n < 0 || !put((uint64_t)n)) return false;
    }
    return true;
}

static bool put_value(PyObject *o, int depth);

static bool put_items(PyObject *o, int depth) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    if (!put(A_DICT | (uint64_t)PyDict_Size(o) << 8)) return false;
    while (PyDict_Next(o, &at, &key, &value))
        if (!put_object(key) || !put_value(value, depth + 1)) return false;
    return true;
}

static bool put_int(PyObject *o) {
    int overflow = 0;
    long long z = PyLong_AsLongLongAndOverflow(o, &overflow);
    return !overflow && put(LEAF_INT) && put((uint64_t)z);
}

/* false: it is known by no words. */
static bool put_value(PyObject *o, int depth) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == core.tensor_type) return put_tensor((tensor_object *)o);
    if (o == Py_None) return put(LEAF_NONE);
    if (depth > DEEPEST) return false;
    if (type == &PyTuple_Type) {
        Py_ssize_t n = PyTuple_Size(o);
        bool fine = put(A_TUPLE | (uint64_t)n << 8);
        for (Py_ssize_t i = 0; fine && i < n; i++)
            fine = put_value(PyTuple_GetItem(o, i), depth + 1);
        return fine;
    }
    if (type == &PyList_Type) {
        Py_ssize_t n = PyList_Size(o);
        bool fine = put(A_LIST | (uint64_t)n << 8);
        for (Py_ssize_t i = 0; fine && i < n; i++)
            fine = put_value(PyList_GetItem(o, i), depth + 1);
        return fine;
    }
    if (type == &PyDict_Type) return put_items(o, depth);
    if (type == &PyLong_Type) return put_int(o);
    if (type == &PyFloat_Type) {
        double f = PyFloat_AsDouble(o);
        uint64_t bits;
        memcpy(&bits, &f, sizeof bits);
        return put(LEAF_FLOAT) && put(bits);
    }
    return put(LEAF_OTHER) && put_object(o);
}

static bool words_of(PyObject *args, PyObject *keywords, PyObject *opaque) {
    words.n = words.tensors = 0;
    words.pass++;
    words.opaque = opaque;
    core_enter();
    bool fine = put(core.epoch | (uint64_t)core.no_grad << 32);
    fine = fine && put_value(args, 0) && (!keywords || put_value(keywords, 0));
    words.opaque = NULL;
    return fine;
}

/* ---- what jit gives -------------------------------------------------------------------------- */

/* What a call with some words runs. */
typedef struct entry_object {
    PyObject_HEAD ready_object *ready;
    PyObject *opaque;
    uint64_t *word;
    size_t n;
    int *order; /* which tensor of the words each argument of the plan is */
    steps steps;
} entry_object;
static PyTypeObject *entry_type;

static void entry_free(PyObject *self) {
    entry_object *e = (entry_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    steps_free(&e->steps);
    Py_XDECREF((PyObject *)e->ready);
    Py_XDECREF(e->opaque);
    PyMem_Free(e->word);
    PyMem_Free(e->order);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int entry_traverse(PyObject *self, visitproc visit, void *arg) {
    entry_object *e = (entry_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)e->ready);
    Py_VISIT(e->opaque);
    return steps_visit(&e->steps, visit, arg);
}

typedef struct jit_object {
    PyObject_HEAD entry_object *last;
    PyObject *entries; /* dict: words as bytes -> entry */
} jit_object;
enum { MOST_ENTRIES = 256, FEW = 24 };

static int jit_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)((jit_object *)self)->last);
    Py_VISIT(((jit_object *)self)->entries);
    return 0;
}

static int jit_clear(PyObject *self) {
    jit_object *j = (jit_object *)self;
    Py_CLEAR(j->last);
    Py_CLEAR(j->entries);
    return 0;
}

static void jit_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc del = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    jit_clear(self);
    del(self);
    Py_DECREF(type);
}

/* The entry of the words; borrowed. */
static entry_object *entry_of(jit_object *j) {
    entry_object *e = j->last;
    size_t bytes = words.n * sizeof *words.word;
    if (likely(e && e->n == words.n && !memcmp(e->word, words.word, bytes))) return e;
    if (!j->entries) return NULL;
    PyObject *key = PyBytes_FromStringAndSize((const char *)words.word, (Py_ssize_t)bytes);
    e = key ? (entry_object *)PyDict_GetItemWithError(j->entries, key) : NULL;
    Py_XDECREF(key);
    PyErr_Clear();
    if (!e) return NULL;
    entry_object *old = j->last;
    j->last = (entry_object *)hold((PyObject *)e);
    Py_XDECREF((PyObject *)old);
    return e;
}

static PyObject *call_by(PyObject *self, const char *name, PyObject *args, PyObject *keywords) {
    PyObject *f = PyObject_GetAttrString(self, name);
    PyObject *result = f ? PyObject_Call(f, args, keywords) : NULL;
    Py_XDECREF(f);
    return result;
}

static PyObject *jit_call(PyObject *self, PyObject *args, PyObject *keywords) {
    jit_object *j = (jit_object *)self;
    if (tracing() || core.deriving || !j->last || !words_of(args, keywords, NULL))
        return call_by(self, "slow", args, keywords);
    entry_object *e = entry_of(j);
    if (!e) return call_by(self, "slow", args, keywords);
    ready_object *r = e->ready;
    int arguments = ready_arguments(r);
    PyObject *few[FEW],
        **input = arguments <= FEW ? few : PyMem_Calloc((size_t)arguments, sizeof *input);
    if (!input) return PyErr_NoMemory();
    for (int i = 0; i < arguments; i++) input[i] = hold((PyObject *)words.tensor[e->order[i]]);
    Py_INCREF(
        (PyObject *)e); /* a step may run code of Python's: from here on words are another's */
    PyObject *result = NULL;
    outcome o = steps_hold(&e->steps) ? ready_run(r, input, &result) : UNFIT;
    Py_DECREF((PyObject *)e);
    for (int i = 0; i < arguments; i++) Py_DECREF(input[i]);
    if (input != few) PyMem_Free(input);
    if (o == RAN) return result;
    return call_by(self, o == HISTORY ? "f" : "slow", args, keywords);
}

/* The place in the words of each tensor that is an argument of the plan. */
static bool order_of(entry_object *e, PyObject *tensors) {
    Py_ssize_t n = PyList_Size(tensors);
    e->order = PyMem_Calloc((size_t)n + 1, sizeof *e->order);
    if (!e->order || n != ready_arguments(e->ready)) return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        const tensor_object *o = (tensor_object *)PyList_GetItem(tensors, i);
        if (!is_tensor((PyObject *)o) || o->mark >> 24 != words.pass) return false;
        e->order[i] = (int)(o->mark & 0xffffff);
    }
    return true;
}

static bool words_keep(entry_object *e) {
    e->n = words.n;
    e->word = PyMem_Malloc(words.n * sizeof *e->word + 1);
    if (e->word) memcpy(e->word, words.word, words.n * sizeof *e->word);
    return e->word;
}

/* remember($self, args, keywords, tensors, ready, steps): calls like this one run that graph while
 * the steps hold. */
static PyObject *jit_remember(PyObject *self, PyObject *args) {
    jit_object *j = (jit_object *)self;
    PyObject *given, *keywords, *tensors, *ready, *list;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!", &PyTuple_Type, &given, &PyDict_Type, &keywords,
                          &PyList_Type, &tensors, ready_type, &ready, &PyList_Type, &list))
        return NULL;
    entry_object *e = PyObject_GC_New(entry_object, entry_type);
    if (!e) return NULL;
    memset((char *)e + offsetof(entry_object, ready), 0, sizeof *e - offsetof(entry_object, ready));
    e->ready = (ready_object *)hold(ready);
    e->opaque = PyList_New(0);
    PyObject_GC_Track((PyObject *)e);
    bool fine = e->opaque && steps_take(&e->steps, list);
    fine = fine && words_of(given, PyDict_Size(keywords) ? keywords : NULL, e->opaque) &&
           order_of(e, tensors) && words_keep(e);
    if (fine && !j->entries) j->entries = PyDict_New();
    if (fine && j->entries && PyDict_Size(j->entries) >= MOST_ENTRIES) PyDict_Clear(j->entries);
    PyObject *key =
        fine && j->entries
            ? PyBytes_FromStringAndSize((const char *)e->word, (Py_ssize_t)(e->n * sizeof *e->word))
            : NULL;
    if (key && !PyDict_SetItem(j->entries, key, (PyObject *)e)) {
        PyObject *old = (PyObject *)j->last;
        j->last = (entry_object *)hold((PyObject *)e);
        Py_XDECREF(old);
    }
    Py_XDECREF(key);
    Py_DECREF((PyObject *)e);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *jit_forget(PyObject *self, PyObject *none) {
    (void)none;
    jit_clear(self);
    Py_RETURN_NONE;
}

/* ---- into the module ------------------------------------------------------------------------- */

static PyObject *derive_begin(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    core.deriving++;
    Py_RETURN_NONE;
}

static PyObject *derive_end(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    core.deriving--;
    Py_RETURN_NONE;
}

static PyObject *is_deriving(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyBool_FromLong(core.deriving);
}

PyTypeObject *fast_type(const char *name, size_t size, unsigned flags, PyType_Slot *slots) {
    PyType_Spec spec = {name, (int)size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | flags, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}

bool fast_add(PyObject *module) {
    static PyMethodDef methods[] = {
        {"remember", jit_remember, METH_VARARGS,
         "remember($self, args, keywords, tensors, ready, steps, /)\n--\n\nWhat calls like this "
         "one "
         "run."},
        {"forget", jit_forget, METH_NOARGS, "forget($self)\n--\n\nForget such calls."},
        {0}};
    PyType_Slot entry[] = {
        {Py_tp_dealloc, entry_free}, {Py_tp_traverse, entry_traverse}, {0, NULL}};
    PyType_Slot jit[] = {{Py_tp_dealloc, jit_free},
                         {Py_tp_traverse, jit_traverse},
                         {Py_tp_clear, jit_clear},
                         {Py_tp_call, jit_call},
                         {Py_tp_methods, methods},
                         {Py_tp_new, PyType_GenericNew},
                         {Py_tp_doc, (void *)"What quern.jit() gives."},
                         {0, NULL}};
    entry_type =
        fast_type("quern.Entry", sizeof(entry_object), Py_TPFLAGS_DISALLOW_INSTANTIATION, entry);
    PyTypeObject *base = fast_type("quern.JitBase", sizeof(jit_object), Py_TPFLAGS_BASETYPE, jit);
    static PyMethodDef functions[] = {
        {"derive_begin", derive_begin, METH_NOARGS,
         "derive_begin()\n--\n\nFrom here on a function is called to be derived."},
        {"derive_end", derive_end, METH_NOARGS, "derive_end()\n--\n\nNot any more."},
        {"is_deriving", is_deriving, METH_NOARGS,
         "is_deriving()\n--\n\nIs a function called to be derived?"},
        {0}};
    return steps_add(module) && ready_add(module) && entry_type && base &&
           !PyModule_AddObjectRef(module, "JitBase", (PyObject *)base) &&
           !PyModule_AddFunctions(module, functions);
}
