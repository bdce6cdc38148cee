/* export.c - quern.export's last step: what a trace recorded as a program of C. export.py has the
 * rest.
 *
 * A state is a placeholder that is assigned its next value, which makes it one for the static graph
 * (quern_export.h), whatever that value is. Assignments that are pending then become part of a
 * graph; those of the user's are none of its, and are made before the trace (jit.c). */
#include "core.h"

#include <quern_export.h>

typedef struct program {
    qn_ctx *qn;
    int inputs, outputs, states, nexts;
    qn_tensor **input, **output, **state, **next;
    const char *path;
    qn_export_options o;
} program;

static bool assign_states(const program *p) {
    for (int i = 0; i < p->states; i++)
        if (qn_assign(p->state[i], p->next[i]) < 0) return false;
    return true;
}

static bool written(const program *p) {
    if (!assign_states(p)) return false;
    const qn_plan_options all = QN_PLAN_OPTIONS(.all_assignments = true);
    qn_plan *plan = qn_plan_new_with(p->qn, p->inputs, p->input, p->outputs, p->output, &all);
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

/* export_write(path, inputs, outputs, states, their next values, their names, (name, blob)) */
static PyObject *export_write(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path, *in, *out, *states, *next, *names, *blob, *file = NULL, *beside = NULL;
    program p = {.o = QN_EXPORT_OPTIONS()};
    if (!PyArg_ParseTuple(args, "OO!O!O!O!O!(zO)", &path, &PyList_Type, &in, &PyList_Type, &out,
                          &PyList_Type, &states, &PyList_Type, &next, &PyList_Type, &names,
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
                p.nexts == p.states && PyList_Size(names) == p.states;
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
                                       "options, /)\n--\n\nWrite what a "
                                       "trace recorded as a program of C; options: (name, blob)."},
                                      {0}};
    return PyModule_AddFunctions(module, functions) == 0;
}
