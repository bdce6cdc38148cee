/* errors.c - a context's error as one of Python's exceptions.
 *
 * The kinds are those that NumPy has users expect: shapes that do not fit and bad arguments are
 * ValueError, dtypes TypeError; an axis or index out of range is RangeError, which is an IndexError
 * and a ValueError, as numpy.exceptions.AxisError is. What fails when a value is computed says the
 * line that recorded it. */
#include "core.h"

static PyObject *kind(qn_code code) {
    switch (code) {
    case QN_ENOMEM:
        return PyExc_MemoryError;
    case QN_EDTYPE:
    case QN_ENULL:
        return PyExc_TypeError;
    case QN_ERANGE:
        return core.range_error;
    case QN_EIO:
        return PyExc_OSError;
    case QN_EGRAPH:
    case QN_EDEVICE:
        return PyExc_RuntimeError;
    case QN_EINTERNAL:
        return core.internal_error;
    default:
        return PyExc_ValueError;
    }
}

static qn_ctx *failed(qn_ctx *qn) {
    if (qn && qn_error_code(qn) != QN_OK) return qn;
    for (int i = 0; i < core.contexts; i++)
        if (qn_error_code(core.context[i].ctx) != QN_OK) return core.context[i].ctx;
    return NULL;
}

static void clear_all(void) {
    for (int i = 0; i < core.contexts; i++) qn_clear_error(core.context[i].ctx);
}

/* No context keeps an error, which the next one that fails would tell. */
static PyObject *raise_error(qn_ctx *qn, uint32_t place, const char *more) {
    if (PyErr_Occurred()) return clear_all(), NULL;
    qn = failed(qn);
    if (!qn) {
        PyErr_SetString(PyExc_RuntimeError, "a result is missing, and no context says why");
        return NULL;
    }
    int line = 0;
    const char *file = line_of(place, &line);
    PyObject *type = kind(qn_error_code(qn));
    if (file)
        PyErr_Format(type, "%s (%s %s:%d)", qn_error(qn), more, file, line);
    else
        PyErr_SetString(type, qn_error(qn));
    clear_all();
    return NULL;
}

PyObject *raise_of(qn_ctx *qn) {
    return raise_error(qn, 0, "");
}

PyObject *raise_at_read(qn_ctx *qn, uint32_t place) {
    return raise_error(qn, place, "of what was recorded at");
}

bool errors_add(PyObject *module) {
    PyObject *bases = PyTuple_Pack(2, PyExc_IndexError, PyExc_ValueError);
    if (!bases) return false;
    core.range_error = PyErr_NewExceptionWithDoc(
        "quern.RangeError", "An axis, index, size or number that is out of range.", bases, NULL);
    Py_DECREF(bases);
    core.internal_error = PyErr_NewExceptionWithDoc("quern.InternalError",
                                                    "A fault of Quern: please report the text.",
                                                    PyExc_RuntimeError, NULL);
    return core.range_error && core.internal_error &&
           !PyModule_AddObjectRef(module, "RangeError", core.range_error) &&
           !PyModule_AddObjectRef(module, "InternalError", core.internal_error);
}
