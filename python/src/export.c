/* export.c - quern.export's last step: what a trace recorded as a program of C. export.py has the
 * rest.
 *
 * A state is a placeholder that is assigned its next value, which makes it one for the static graph
 * (quern_export.h). Assignments that are pending then become part of a graph; those of the user's
 * are none of its, and are made before the trace (jit.c). */
#include "core.h"

#include <quern_export.h>
#include <quern_ops.h>

#include <string.h>

typedef struct program {
    qn_ctx *qn;
    int inputs, outputs, states, nexts;
    qn_tensor **input, **output, **state, **next;
    const char *sure; /* by state, 1: its next value is computed, as it is */
    const char *path;
    qn_export_options o;
} program;

/* x + 0, of a 0 that is data, so that no rule knows it: a value that is computed. An assignment of
 * what lies in memory, as another state or a constant, would be made at once and be no part of the
 * graph. -0.0 is the one that changes no float. It is fused with what computes x, but not with
 * more that uses that; a copy, of dtypes that have no addition, is not fused. */
static qn_tensor *computed(qn_tensor *x) {
    qn_dtype d = qn_dtype_of(x);
    const char kind = *qn_dtype_name(d);
    bool floats = d == QN_F16 || d == QN_BF16 || d == QN_F32 || d == QN_F64;
    if (!floats && kind != 'i' && kind != 'u') return qn_clone(x);
    union {
        uint16_t half;
        float one;
        double two;
    } zero = {.two = 0};
    if (qn_dtype_size(d) == 2) zero.half = floats ? 0x8000 : 0;
    if (d == QN_F32) zero.one = -0.0f;
    if (d == QN_F64) zero.two = -0.0;
    qn_tensor *none = qn_from(qn_context(x), d, 0, NULL, &zero),
              *sum = none ? qn_add(x, none) : NULL;
    qn_release(none);
    return sum;
}

static bool assign_states(const program *p) {
    for (int i = 0; i < p->states; i++) {
        qn_tensor *own = p->sure[i] == '1' ? qn_keep(p->next[i]) : computed(p->next[i]);
        bool fine = own && qn_assign(p->state[i], own) >= 0;
        qn_release(own);
        if (!fine) return false;
    }
    return true;
}

static bool written(const program *p) {
    if (!assign_states(p)) return false;
    qn_plan *plan = qn_plan_new(p->qn, p->inputs, p->input, p->outputs, p->output);
    bool fine = plan && qn_export(plan, p->path, &p->o) >= 0;
    qn_plan_free(plan);
    return fine;
}

static bool name_states(const program *p, PyObject *names) {
    for (int i = 0; i < p->states; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyList_GetItem(names, i), NULL);
        if (!name || qn_set_name(p->state[i], name) < 0) return false;
    }
    return true;
}

/* export_write(path, inputs, outputs, states, their next values, their names, a text with 1 for
 * what is computed for sure and 0 for others, (name, blob)) */
static PyObject *export_write(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path, *in, *out, *states, *next, *names, *blob, *file = NULL, *beside = NULL;
    program p = {.o = QN_EXPORT_OPTIONS()};
    if (!PyArg_ParseTuple(args, "OO!O!O!O!O!s(zO)", &path, &PyList_Type, &in, &PyList_Type, &out,
                          &PyList_Type, &states, &PyList_Type, &next, &PyList_Type, &names, &p.sure,
                          &p.o.name, &blob) ||
        !PyUnicode_FSConverter(path, &file))
        return NULL;
    if (blob != Py_None && !PyUnicode_FSConverter(blob, &beside)) return Py_DECREF(file), NULL;
    core_enter();
    p.path = PyBytes_AsString(file);
    p.o.blob = beside ? PyBytes_AsString(beside) : NULL;
    p.input = handles(in, &p.inputs);
    p.output = handles(out, &p.outputs);
    p.state = handles(states, &p.states);
    p.next = handles(next, &p.nexts);
    bool fine = p.input && p.output && p.state && p.next && p.outputs + p.states > 0 &&
                p.nexts == p.states && PyList_Size(names) == p.states &&
                strlen(p.sure) == (size_t)p.states;
    if (fine) {
        p.qn = qn_context(p.outputs ? p.output[0] : p.state[0]);
        fine = name_states(&p, names);
        computing c = compute_begin();
        fine = fine && written(&p);
        fine = compute_end(c) && fine;
        if (!fine) raise_of(p.qn);
    } else {
        PyErr_SetString(PyExc_ValueError, "a next value and a name for each state are wanted");
    }
    PyMem_Free(p.input);
    PyMem_Free(p.output);
    PyMem_Free(p.state);
    PyMem_Free(p.next);
    Py_DECREF(file);
    Py_XDECREF(beside);
    return fine ? Py_NewRef(Py_None) : NULL;
}

bool export_add(PyObject *module) {
    static PyMethodDef functions[] = {{"export_write", export_write, METH_VARARGS,
                                       "export_write(path, inputs, outputs, states, next, names, "
                                       "sure, options, /)\n--\n\nWrite what a "
                                       "trace recorded as a program of C; options: (name, blob)."},
                                      {0}};
    return PyModule_AddFunctions(module, functions) == 0;
}
