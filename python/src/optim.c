/* optim.c - optimizers' updates: quern_nn.h's methods as functions of tensors. optim.py keeps the
 * state, in tensors like any others, so that a function with a step in it can be traced. */
#include "core.h"

#include <quern_nn.h>

#include <stddef.h>
#include <string.h>

/* The options by their names in quern_nn.h. */
typedef struct field {
    const char *name;
    char kind; /* d: double, i: int or an enum, b: bool */
    size_t at;
} field;
#define FIELD(struct_, kind, name)                                                                 \
    { #name, kind, offsetof(struct_, name) }
#define OPTIMIZER(kind, name) FIELD(qn_optimizer_options, kind, name)
#define RATE(kind, name)      FIELD(qn_rate_options, kind, name)
#define PLATEAU(kind, name)   FIELD(qn_plateau, kind, name)
static const field optimizer_fields[] = {
    OPTIMIZER('i', method),       OPTIMIZER('d', rate),         OPTIMIZER('d', momentum),
    OPTIMIZER('d', beta1),        OPTIMIZER('d', beta2),        OPTIMIZER('d', epsilon),
    OPTIMIZER('d', weight_decay), OPTIMIZER('b', nesterov),     OPTIMIZER('b', amsgrad),
    OPTIMIZER('b', centered),     OPTIMIZER('b', maximize),     OPTIMIZER('d', dampening),
    OPTIMIZER('d', rate_decay),   OPTIMIZER('d', start),        OPTIMIZER('d', beta2_decay),
    OPTIMIZER('d', epsilon2),     OPTIMIZER('d', threshold),    OPTIMIZER('i', iterations),
    OPTIMIZER('i', adjust),       OPTIMIZER('3', coefficients), {0}};
static const field rate_fields[] = {
    RATE('i', kind),    RATE('d', rate),   RATE('d', last),        RATE('d', gamma),
    RATE('d', period),  RATE('d', from),   RATE('d', to),          RATE('d', power),
    RATE('d', stretch), RATE('d', rise),   RATE('d', divide),      RATE('d', divide_last),
    RATE('d', warmup),  RATE('b', linear), RATE('b', three_phase), {0}};
static const field plateau_fields[] = {PLATEAU('d', rate),      PLATEAU('d', factor),
                                       PLATEAU('d', threshold), PLATEAU('d', least),
                                       PLATEAU('d', epsilon),   PLATEAU('i', patience),
                                       PLATEAU('i', cooldown),  PLATEAU('b', maximize),
                                       PLATEAU('b', absolute),  PLATEAU('d', best),
                                       PLATEAU('i', bad),       PLATEAU('i', cooling),
                                       PLATEAU('b', begun),     {0}};

static bool put_field(const field *f, char *options, PyObject *value) {
    char *at = options + f->at;
    if (f->kind == 'd') *(double *)(void *)at = PyFloat_AsDouble(value);
    if (f->kind == 'i') *(int *)(void *)at = (int)PyLong_AsLong(value);
    if (f->kind == 'b') *(bool *)(void *)at = PyObject_IsTrue(value) > 0;
    double *three = (double *)(void *)at;
    if (f->kind == '3') return PyArg_ParseTuple(value, "ddd", &three[0], &three[1], &three[2]) != 0;
    return !PyErr_Occurred();
}

/* Every entry of a dict into the field of its name. */
static bool put_fields(const field *fields, void *options, PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Check(dict)) return PyErr_SetString(PyExc_TypeError, "a dict of options"), false;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : "";
        const field *f = fields;
        while (f->name && name && strcmp(f->name, name) != 0) f++;
        if (!name || !f->name)
            return PyErr_Format(PyExc_TypeError, "no option is called %R", key), false;
        if (!put_field(f, options, value)) return false;
    }
    return true;
}

static PyObject *field_value(const field *f, const char *options) {
    const char *at = options + f->at;
    const double *number = (const double *)(const void *)at;
    if (f->kind == 'd') return PyFloat_FromDouble(*number);
    if (f->kind == 'i') return PyLong_FromLong(*(const int *)(const void *)at);
    if (f->kind == 'b') return PyBool_FromLong(*(const bool *)(const void *)at);
    return Py_BuildValue("(ddd)", number[0], number[1], number[2]);
}

static PyObject *dict_of(const field *fields, const void *options) {
    PyObject *dict = PyDict_New();
    for (const field *f = fields; dict && f->name; f++) {
        PyObject *value = field_value(f, options);
        if (!value || PyDict_SetItemString(dict, f->name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- functions ------------------------------------------------------------------------------- */

static PyObject *optimizer_defaults(PyObject *self, PyObject *name) {
    (void)self;
    const char *wanted = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    for (int method = 0; wanted && *qn_method_name((qn_method)method); method++) {
        if (strcmp(qn_method_name((qn_method)method), wanted) != 0) continue;
        qn_optimizer_options o = qn_optimizer_defaults((qn_method)method);
        return dict_of(optimizer_fields, &o);
    }
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "no optimizer is called %R", name);
    return NULL;
}

static bool optimizer_options(PyObject *dict, qn_optimizer_options *o) {
    *o = QN_OPTIMIZER_OPTIONS();
    return put_fields(optimizer_fields, o, dict);
}

static PyObject *wrapped(qn_tensor *t) {
    if (t) return tensor_wrap(t);
    Py_RETURN_NONE;
}

/* What the method keeps of p, as it starts: three tensors or Nones. */
static PyObject *optimizer_begin(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *dict, *p, *list;
    qn_optimizer_options o;
    if (!PyArg_ParseTuple(args, "OO!", &dict, core.tensor_type, &p)) return NULL;
    if (!optimizer_options(dict, &o) || !(list = PyList_New(3))) return NULL;
    qn_tensor *t = handle_of(p);
    for (int k = 0; t && k < 3; k++) {
        qn_tensor *state = qn_optimizer_begin(t, &o, k);
        if (!state && qn_error_code(qn_context(t))) {
            Py_DECREF(list);
            return raise_of(qn_context(t));
        }
        PyObject *one = wrapped(state);
        if (!one || PyList_SetItem(list, k, one) < 0) Py_CLEAR(list);
        if (!list) return NULL;
    }
    if (!t) Py_CLEAR(list);
    return list;
}

/* A tensor of an argument that may be None; false with an exception. */
static bool tensor_or_none(PyObject *o, qn_tensor **t) {
    *t = NULL;
    if (o == Py_None) return true;
    if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "a tensor or None is wanted"), false;
    return (*t = handle_of(o)) != NULL;
}

/* The parameter and the state after a step. */
static PyObject *optimizer_update(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *dict, *o[8];
    qn_optimizer_options options;
    qn_tensor *t[8], *out[4] = {0};
    if (!PyArg_ParseTuple(args, "OOOOOO(OOO)", &dict, &o[0], &o[1], &o[2], &o[3], &o[4], &o[5],
                          &o[6], &o[7]))
        return NULL;
    if (!optimizer_options(dict, &options)) return NULL;
    for (int i = 0; i < 8; i++)
        if (!tensor_or_none(o[i], &t[i])) return NULL;
    if (!t[0]) return PyErr_SetString(PyExc_TypeError, "a parameter is wanted"), NULL;
    if (qn_optimizer_update(t[0], t[1], &options, t[2], t[3], t[4], &t[5], out) < 0)
        return raise_of(qn_context(t[0]));
    PyObject *list = PyList_New(4);
    for (int k = 0; k < 4; k++) {
        PyObject *one = list ? wrapped(out[k]) : NULL;
        if (!list && out[k]) core_release(out[k]);
        if (list && (!one || PyList_SetItem(list, k, one) < 0)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *rate_at(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *dict;
    double done;
    qn_rate_options o = QN_RATE_OPTIONS();
    if (!PyArg_ParseTuple(args, "Od", &dict, &done) || !put_fields(rate_fields, &o, dict))
        return NULL;
    double rate = qn_rate_at(&o, done);
    if (rate == rate) return PyFloat_FromDouble(rate);
    PyErr_SetString(PyExc_ValueError, "a schedule needs a period of at least one step");
    return NULL;
}

/* The plateau's fields after a metric. */
static PyObject *plateau_next(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *dict;
    double metric;
    qn_plateau p = QN_PLATEAU();
    if (!PyArg_ParseTuple(args, "Od", &dict, &metric) || !put_fields(plateau_fields, &p, dict))
        return NULL;
    (void)qn_plateau_next(&p, metric);
    return dict_of(plateau_fields, &p);
}

static PyMethodDef functions[] = {
    {"optimizer_defaults", optimizer_defaults, METH_O,
     "optimizer_defaults(method)\n--\n\nIts options, by their names in quern_nn.h."},
    {"optimizer_begin", optimizer_begin, METH_VARARGS,
     "optimizer_begin(options, p)\n--\n\nWhat it keeps of p: three tensors or Nones."},
    {"optimizer_update", optimizer_update, METH_VARARGS,
     "optimizer_update(options, p, g, rate, momentum, count, state)\n--\n\np and the state after "
     "a step."},
    {"rate_at", rate_at, METH_VARARGS, "rate_at(options, done)\n--\n\nA learning rate."},
    {"plateau_next", plateau_next, METH_VARARGS,
     "plateau_next(plateau, metric)\n--\n\nThe plateau after it took notice."},
    {0}};

bool optim_add(PyObject *module) {
    return PyModule_AddFunctions(module, functions) == 0;
}
