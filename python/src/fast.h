/* fast.h - what the short way of a jit's call is made of: steps.c says whether anything that the
 * function looks at has changed, ready.c runs its plan, fast.c knows the calls. */
#ifndef QUERN_PYTHON_FAST_H
#define QUERN_PYTHON_FAST_H

#include "core.h"

static inline PyObject *hold(PyObject *o) {
    Py_XINCREF(o);
    return o;
}

/* ---- steps.c --------------------------------------------------------------------------------- */

/* How a step looks: an item of a dict, an attribute, all items of a list, of a dict, of another
 * mapping, of what is iterated; the dict of an object, its type, one of its slots. */
typedef enum step_kind {
    STEP_ITEM,
    STEP_ATTRIBUTE,
    STEP_LIST,
    STEP_DICT,
    STEP_MAPPING,
    STEP_ITERATED,
    STEP_DICT_OF,
    STEP_TYPE,
    STEP_SLOT,
    STEP_KINDS
} step_kind;

typedef struct step {
    step_kind kind;
    PyObject *o, *key, *want; /* key NULL: there is none; want NULL: nothing was there */
} step;

typedef struct steps {
    step *at;
    Py_ssize_t n;
} steps;
bool steps_take(steps *s, PyObject *list); /* false with an exception; steps_free() also then */
bool steps_hold(const steps *s);
int steps_visit(const steps *s, visitproc visit, void *arg);
void steps_free(steps *s);
bool steps_add(PyObject *module);

/* ---- ready.c --------------------------------------------------------------------------------- */

/* A graph that is ready to run. */
typedef struct ready_object ready_object;
extern PyTypeObject *ready_type;
typedef enum outcome { RAN, UNFIT, HISTORY } outcome;
int ready_arguments(const ready_object *r);
/* The results of objects that are tensors, as many as it has arguments; or what is to be done
 * instead: UNFIT, the graph is not for these; HISTORY, the function itself is to be called. */
outcome ready_run(ready_object *r, PyObject *const *given, PyObject **result);
bool ready_add(PyObject *module);
PyTypeObject *fast_type(const char *name, size_t size, unsigned flags, PyType_Slot *slots);

#endif
