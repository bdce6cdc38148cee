/* steps.c - what a traced function looked at, as places and the objects that were found there
 * (jit.py, Watch). While each place has the same object, another look would find what it found; an
 * object that is another one, also an equal one, takes the long look, which knows whether that
 * matters. */
#include "fast.h"

static PyObject *absent; /* what a step wants where nothing is */

static bool same_tuple(PyObject *found, PyObject *want) {
    Py_ssize_t n = found ? PyTuple_Size(found) : -1;
    bool same = n >= 0 && n == PyTuple_Size(want);
    for (Py_ssize_t i = 0; same && i < n; i++)
        same = PyTuple_GetItem(found, i) == PyTuple_GetItem(want, i);
    Py_XDECREF(found);
    return same;
}

static bool same_list(PyObject *list, PyObject *want) {
    Py_ssize_t n = PyList_Size(list);
    bool same = n == PyTuple_Size(want);
    for (Py_ssize_t i = 0; same && i < n; i++)
        same = PyList_GetItem(list, i) == PyTuple_GetItem(want, i);
    return same;
}

static bool same_dict(PyObject *dict, PyObject *want) {
    Py_ssize_t at = 0, i = 0, n = PyTuple_Size(want);
    PyObject *key, *value;
    if (2 * PyDict_Size(dict) != n) return false;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (i + 2 > n || key != PyTuple_GetItem(want, i) || value != PyTuple_GetItem(want, i + 1))
            return false;
        i += 2;
    }
    return i == n;
}

/* Keys, then values. */
static bool same_mapping(PyObject *mapping, PyObject *want) {
    PyObject *keys = PyMapping_Keys(mapping), *values = keys ? PyMapping_Values(mapping) : NULL;
    Py_ssize_t n = values ? PyList_Size(keys) : -1;
    bool same = n >= 0 && PyList_Size(values) == n && PyTuple_Size(want) == 2 * n;
    for (Py_ssize_t i = 0; same && i < n; i++)
        same = PyList_GetItem(keys, i) == PyTuple_GetItem(want, i) &&
               PyList_GetItem(values, i) == PyTuple_GetItem(want, n + i);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return same;
}

static bool same_object(PyObject *found, PyObject *want) {
    Py_XDECREF(found); /* what is wanted is held */
    return found == want;
}

static bool step_holds(const step *s) {
    switch (s->kind) {
    case STEP_ITEM:
        return PyDict_GetItemWithError(s->o, s->key) == s->want;
    case STEP_ATTRIBUTE:
        return same_object(PyObject_GetAttr(s->o, s->key), s->want);
    case STEP_LIST:
        return same_list(s->o, s->want);
    case STEP_DICT:
        return same_dict(s->o, s->want);
    case STEP_MAPPING:
        return same_mapping(s->o, s->want);
    case STEP_ITERATED:
        return same_tuple(PySequence_Tuple(s->o), s->want);
    case STEP_DICT_OF:
        return same_object(PyObject_GenericGetDict(s->o, NULL), s->want);
    case STEP_TYPE:
        return (PyObject *)Py_TYPE(s->o) == s->want;
    default:
        return same_object(PyObject_CallMethod(s->key, "__get__", "O", s->o), s->want);
    }
}

bool steps_hold(const steps *all) {
    const step *s = all->at;
    for (Py_ssize_t i = 0; i < all->n; i++) {
        bool holds = step_holds(&s[i]);
        if (unlikely(PyErr_Occurred() !=
                     NULL)) { /* nothing is there: so it was, or another error */
            holds = !s[i].want && (PyErr_ExceptionMatches(PyExc_AttributeError) ||
                                   PyErr_ExceptionMatches(PyExc_ValueError));
            PyErr_Clear();
        }
        if (!holds) return false;
    }
    return true;
}

/* Of the type that its kind looks into? */
static bool step_fits(const step *s) {
    bool tuple = s->want && PyTuple_Check(s->want);
    switch (s->kind) {
    case STEP_ITEM:
        return PyDict_Check(s->o) && s->key;
    case STEP_ATTRIBUTE:
    case STEP_SLOT:
        return s->key;
    case STEP_LIST:
        return PyList_Check(s->o) && tuple;
    case STEP_DICT:
        return PyDict_Check(s->o) && tuple;
    case STEP_MAPPING:
    case STEP_ITERATED:
        return tuple;
    default:
        return s->kind < STEP_KINDS;
    }
}

bool steps_take(steps *e, PyObject *list) {
    Py_ssize_t n = PyList_Size(list);
    e->at = PyMem_Calloc((size_t)n + 1, sizeof *e->at);
    if (!e->at) return PyErr_NoMemory(), false;
    for (; e->n < n; e->n++) {
        int kind;
        step *s = &e->at[e->n];
        if (!PyArg_ParseTuple(PyList_GetItem(list, e->n), "iOOO", &kind, &s->o, &s->key,
                              &s->want)) {
            *s = (step){0};
            break;
        }
        s->kind = (step_kind)kind;
        s->key = s->key == Py_None ? NULL : hold(s->key);
        s->want = s->want == absent ? NULL : hold(s->want);
        Py_INCREF(s->o);
        if (kind < 0 || !step_fits(s)) {
            PyErr_Format(PyExc_TypeError, "step %zd of kind %d", e->n++, kind);
            break;
        }
    }
    return !PyErr_Occurred();
}

int steps_visit(const steps *s, visitproc visit, void *arg) {
    for (Py_ssize_t i = 0; i < s->n; i++) {
        Py_VISIT(s->at[i].o);
        Py_VISIT(s->at[i].key);
        Py_VISIT(s->at[i].want);
    }
    return 0;
}

void steps_free(steps *s) {
    for (Py_ssize_t i = 0; i < s->n; i++) {
        Py_XDECREF(s->at[i].o);
        Py_XDECREF(s->at[i].key);
        Py_XDECREF(s->at[i].want);
    }
    PyMem_Free(s->at);
    *s = (steps){0};
}

bool steps_add(PyObject *module) {
    absent = PyList_New(0);
    return absent && !PyModule_AddObjectRef(module, "ABSENT", absent);
}
