/* layers.c - layers: quern_nn.h's kinds, whose rows, arguments and words are the library's tables.
 * quern/nn keeps the tensors, like any others, so that a function that calls layers can be traced.
 *
 * A kind's options are made of PyTorch's arguments once and handed around as bytes. */
#include "core.h"

#include <quern_nn.h>

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { MOST_RESULTS = 4 };

/* ---- rows ----------------------------------------------------------------------------------- */

typedef struct kind_row {
    const char *name, *arguments, *doc;
    int space, least, most, results;
} kind_row;
static const kind_row kinds[] = {
#define LAYER(name, arguments, tensors, apply, space, least, most, results, doc)                   \
    {#name, arguments, doc, space, least, most, results},
#define UNARY(name, arguments, apply, member, function, doc) {#name, arguments, doc, 0, 1, 1, 1},
#include "nn/layers/rows.h"
#undef LAYER
#undef UNARY
    {0}};

typedef enum argument_type {
    SIZE,
    SIZES,
    SHAPE,
    PLACE,
    NUMBER,
    YES,
    NOT,
    FLAG,
    WORD
} argument_type;
typedef struct layer_argument {
    const char *name;
    size_t at;
    argument_type type;
} layer_argument;
static const layer_argument arguments[] = {
#define X(name, field, type) {#name, offsetof(qn_layer_options, field), type},
#include "nn/layers/arguments.h"
#undef X
    {0}};

typedef struct word_row {
    const char *name, *words;
} word_row;
static const word_row words[] = {
#define X(name, field, type)
#define WORDS(name, all) {#name, all},
#include "nn/layers/arguments.h"
#undef WORDS
#undef X
    {0}};

static const kind_row *kind_of(const char *name) {
    for (const kind_row *k = kinds; k->name; k++)
        if (strcmp(k->name, name) == 0) return k;
    PyErr_Format(PyExc_ValueError, "no layer is called %s", name);
    return NULL;
}

/* (name, arguments, least inputs, most, results, doc) of each. */
static PyObject *layer_rows(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    PyObject *list = PyList_New(0);
    for (const kind_row *k = kinds; list && k->name; k++) {
        PyObject *row =
            Py_BuildValue("(ssiiis)", k->name, k->arguments, k->least, k->most, k->results, k->doc);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* ---- options -------------------------------------------------------------------------------- */

static bool bad_value(const char *name, PyObject *value, const char *wanted) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s is %R: %s", name, value, wanted);
    return false;
}

/* A size from `least` on; None is 0. */
static bool put_size(const char *name, PyObject *value, int64_t least, int64_t *to) {
    *to = 0;
    if (value == Py_None) return true;
    PyObject *number = PyNumber_Index(value);
    if (!number) return false;
    *to = PyLong_AsLongLong(number);
    Py_DECREF(number);
    if (*to == -1 && PyErr_Occurred()) return false;
    return *to >= least || bad_value(name, value, "it is too small");
}

static bool is_word(PyObject *value, const char *word) {
    return PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, word) == 0;
}

/* One number for all axes, or a sequence of n; at most `n` where `exactly` is not wanted. */
static bool put_sizes(const char *name, PyObject *value, int n, int64_t least, bool exactly,
                      int64_t *to) {
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        if (!put_size(name, value, least, &to[0])) return false;
        for (int i = 1; exactly && i < n; i++) to[i] = to[0];
        return true;
    }
    Py_ssize_t count = PySequence_Size(value);
    if (exactly ? count != n : count < 1 || count > n)
        return bad_value(name, value, "a number of sizes that is not that of axes");
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = PySequence_GetItem(value, i);
        bool fine = one && put_size(name, one, least, &to[i]);
        Py_XDECREF(one);
        if (!fine) return false;
    }
    return true;
}

static bool put_place(PyObject *value, int64_t *to) {
    if (!put_size("", value, INT32_MIN, to)) return false;
    if (value != Py_None) *to += *to >= 0;
    return true;
}

static bool put_number(PyObject *value, double *to) {
    *to = value == Py_None ? (double)NAN : PyFloat_AsDouble(value);
    if (*to == 0) *to = -0.0;
    return !PyErr_Occurred();
}

static bool put_word(const char *name, PyObject *value, int *to) {
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : "";
    for (const word_row *w = words; text && w->name; w++) {
        if (strcmp(w->name, name) != 0) continue;
        int k = 0;
        for (const char *at = w->words; *at; k++) {
            size_t size = strcspn(at, " ");
            if (strlen(text) == size && memcmp(at, text, size) == 0) return *to = k, true;
            at += size + strspn(at + size, " ");
        }
        return bad_value(name, value, w->words);
    }
    return false;
}

static bool put(const kind_row *k, const layer_argument *a, PyObject *value, void *to) {
    bool positive = strcmp(a->name, "padding") != 0 && strcmp(a->name, "output_padding") != 0;
    int truth;
    switch (a->type) {
    case SIZE:
        return put_size(a->name, value, strcmp(a->name, "proj_size") ? 1 : 0, to);
    case SIZES:
        if (!positive && is_word(value, "valid")) return true;
        if (!positive && is_word(value, "same")) return *(int64_t *)to = -1, true;
        return put_sizes(a->name, value, k->space, positive, true, to);
    case SHAPE:
        return put_sizes(a->name, value, 4, 1, false, to);
    case PLACE:
        return put_place(value, to);
    case NUMBER:
        /* eps None is the dtype's own, which is what 0 is */
        return (value == Py_None && !strcmp(a->name, "eps")) || put_number(value, to);
    case WORD:
        return put_word(a->name, value, to);
    default:
        break;
    }
    if ((truth = PyObject_IsTrue(value)) < 0) return false;
    if (a->type == YES)
        *(int *)to = truth ? 1 : -1;
    else
        *(bool *)to = a->type == NOT ? !truth : truth;
    return true;
}

/* Bytes of a kind's options. */
static PyObject *layer_options(PyObject *self, PyObject *args) {
    (void)self;
    const char *kind;
    PyObject *dict, *key, *value;
    Py_ssize_t at = 0;
    qn_layer_options o = QN_LAYER_OPTIONS();
    if (!PyArg_ParseTuple(args, "sO!", &kind, &PyDict_Type, &dict)) return NULL;
    const kind_row *k = kind_of(kind);
    while (k && PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        const layer_argument *a = arguments;
        while (name && a->name && strcmp(a->name, name) != 0) a++;
        if (!name || !a->name)
            return PyErr_Format(PyExc_TypeError, "%s: no argument is called %R", kind, key), NULL;
        if (!put(k, a, value, (char *)&o + a->at))
            return PyErr_Occurred() ? NULL : (bad_value(name, value, "no such value"), NULL);
    }
    return k ? PyBytes_FromStringAndSize((const char *)&o, sizeof o) : NULL;
}

static bool options_of(PyObject *bytes, qn_layer_options *o) {
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) return false;
    if (size != sizeof *o) return PyErr_SetString(PyExc_ValueError, "no options of a layer"), false;
    memcpy(o, data, sizeof *o);
    return true;
}

/* ---- layers --------------------------------------------------------------------------------- */

static bool append_tensor(PyObject *list, const char *name, qn_tensor *t, bool trained) {
    PyObject *tensor = t ? tensor_named(qn_keep(t)) : NULL;
    PyObject *row = tensor ? Py_BuildValue("(sOi)", name, tensor, trained) : NULL;
    bool fine = row && PyList_Append(list, row) == 0;
    Py_XDECREF(tensor);
    Py_XDECREF(row);
    return fine;
}

/* (name, tensor, whether it is trained) of what a layer has, in its order, as it begins. */
static PyObject *layer_tensors(PyObject *self, PyObject *args) {
    (void)self;
    const char *kind;
    PyObject *bytes, *list = NULL;
    unsigned long long seed;
    qn_layer_options o;
    if (!PyArg_ParseTuple(args, "sOK", &kind, &bytes, &seed) || !options_of(bytes, &o)) return NULL;
    core_enter();
    qn_ctx *qn = core_ctx();
    qn_module *m = qn ? qn_module_new(qn, seed) : NULL;
    if (!m) return qn ? raise_of(qn) : NULL;
    bool fine = qn_layer_new(m, kind, "", &o) != NULL;
    int n = qn_module_count(m), buffers = qn_module_buffer_count(m);
    if (!fine || (n && qn_realize(n, qn_module_parameters(m)) < 0))
        raise_of(qn);
    else
        list = PyList_New(0);
    for (int i = 0; list && i < n + buffers; i++) {
        const char *name = i < n ? qn_module_name(m, i) : qn_module_buffer_name(m, i - n);
        if (!append_tensor(list, name, qn_module_find(m, name), i < n)) Py_CLEAR(list);
    }
    qn_module_free(m);
    return list;
}

static PyObject *tuple_of(int n, qn_tensor **out) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *one = out[i] ? tensor_wrap(out[i]) : Py_NewRef(Py_None);
        if (!one) Py_CLEAR(tuple);
        if (tuple)
            PyTuple_SetItem(tuple, i, one);
        else
            Py_XDECREF(one);
    }
    return tuple;
}

/* What a layer gives, and behind it the new values of its tensors. */
static PyObject *layer_apply(PyObject *self, PyObject *args) {
    (void)self;
    const char *kind;
    PyObject *bytes, *key, *tensors, *inputs, *result = NULL;
    int training;
    qn_layer_options o;
    tensor_list mine = {0}, given = {0};
    if (!PyArg_ParseTuple(args, "sOpOOO", &kind, &bytes, &training, &key, &tensors, &inputs) ||
        !options_of(bytes, &o))
        return NULL;
    const kind_row *k = kind_of(kind);
    if (!k) return NULL;
    core_enter();
    o.training = training;
    if (key != Py_None && (!is_tensor(key) || !(o.key = handle_of(key))))
        return PyErr_Occurred() ? NULL
                                : (PyErr_SetString(PyExc_TypeError, "the key is no tensor"), NULL);
    bool fine = tensors_of(tensors, false, kind, &mine) && tensors_of(inputs, true, kind, &given);
    int n = fine ? k->results + mine.n : 0;
    qn_tensor **out = fine ? PyMem_Calloc((size_t)n + 1, sizeof(qn_tensor *)) : NULL;
    if (fine && !out) PyErr_NoMemory();
    if (out && qn_layer_apply(kind, &o, mine.n, mine.t, given.n, given.t, n, out) < 0)
        raise_of(given.n && given.t[0] ? qn_context(given.t[0]) : core_ctx());
    else if (out)
        result = tuple_of(n, out);
    PyMem_Free(out);
    tensors_free(&mine);
    tensors_free(&given);
    return result;
}

static PyMethodDef functions[] = {
    {"layer_rows", layer_rows, METH_NOARGS,
     "layer_rows()\n--\n\n(name, arguments, least inputs, most, results, doc) of each kind."},
    {"layer_options", layer_options, METH_VARARGS,
     "layer_options(kind, arguments)\n--\n\nBytes of a kind's options."},
    {"layer_tensors", layer_tensors, METH_VARARGS,
     "layer_tensors(kind, options, seed)\n--\n\n(name, tensor, whether it is trained) of each."},
    {"layer_apply", layer_apply, METH_VARARGS,
     "layer_apply(kind, options, training, key, tensors, inputs)\n--\n\nResults, and the new "
     "values of tensors."},
    {0}};

bool layers_add(PyObject *module) {
    return PyModule_AddFunctions(module, functions) == 0;
}
