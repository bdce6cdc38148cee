/* module.c - the module quern._core: contexts, knobs, threads and forks.
 *
 * A process has one context, opened with the first tensor, and one for each other device that is
 * asked for by name. A child of fork() cannot use its parent's: their threads are not there. It
 * gets new ones, and tensors of the parent are refused. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

core_state core;

/* ---- one thread at a time -------------------------------------------------------------------- */

static pthread_mutex_t computing_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t computed = PTHREAD_COND_INITIALIZER;

static void bury(void) {
    while (core.deads && !core.busy) qn_release(core.dead[--core.deads]);
}

void core_wait(void) {
    while (core.busy) {
        PyThreadState *thread = PyEval_SaveThread();
        pthread_mutex_lock(&computing_lock);
        while (core.busy) pthread_cond_wait(&computed, &computing_lock);
        pthread_mutex_unlock(&computing_lock);
        PyEval_RestoreThread(thread);
    }
    bury();
}

void core_release(qn_tensor *t) {
    if (!t) return;
    if (likely(!core.busy)) {
        qn_release(t);
        return;
    }
    if (core.deads == core.dead_cap) {
        size_t cap = core.dead_cap ? 2 * core.dead_cap : 64;
        qn_tensor **grown = PyMem_Realloc(core.dead, cap * sizeof *grown);
        if (!grown) return; /* it stays until the context is closed */
        core.dead = grown;
        core.dead_cap = cap;
    }
    core.dead[core.deads++] = t;
}

computing compute_begin(void) {
    core.busy = 1;
    return (computing){PyEval_SaveThread()};
}

bool compute_end(computing c) {
    PyEval_RestoreThread(c.thread);
    pthread_mutex_lock(&computing_lock);
    core.busy = 0;
    pthread_cond_broadcast(&computed);
    pthread_mutex_unlock(&computing_lock);
    bury();
    return !PyErr_CheckSignals();
}

static void in_child(void) {
    core.epoch = (core.epoch / EPOCH_FORK + 1) * EPOCH_FORK;
    core.busy = 0;
    core.ctx = NULL;
    core.contexts = 0;
    core.deads = 0;
    core.requiring = NULL;
    pthread_mutex_init(&computing_lock, NULL);
    pthread_cond_init(&computed, NULL);
}

/* ---- contexts -------------------------------------------------------------------------------- */

static qn_ctx *open_context(const char *device) {
    char why[512] = "";
    if (core.contexts == MOST_CONTEXTS) {
        PyErr_SetString(PyExc_RuntimeError, "too many devices are open");
        return NULL;
    }
    qn_options o = QN_OPTIONS(.device = device, .error = why, .error_size = sizeof why);
    bool lent = core.llvm && !getenv("QN_LLVM"); /* for us alone, and no child of this process */
    if (lent) setenv("QN_LLVM", core.llvm, 1);
    qn_ctx *qn = qn_open(&o);
    if (lent) unsetenv("QN_LLVM");
    if (!qn) {
        PyErr_Format(PyExc_RuntimeError, "device %s cannot be opened: %s",
                     device ? device : "\"cpu\"", *why ? why : "there is no memory");
        return NULL;
    }
    /* An index that lies outside is an IndexError, as Python has it, and no 0: where only the
     * device knows it, by the read. */
    const char *said = getenv("QN_CHECK");
    bool check = !said || !*said;
    if (check) qn_set(qn, "check", "1");
    const char *reason = NULL, *name = qn_device_of(qn, &reason);
    name = device ? device : name;
    char *copy = PyMem_Malloc(strlen(name) + 1);
    if (!copy) {
        qn_close(qn);
        PyErr_NoMemory();
        return NULL;
    }
    int i = core.contexts++;
    core.context[i].ctx = qn;
    core.context[i].device = strcpy(copy, name);
    core.context[i].check = check || strcmp(said, "0") != 0;
    if (!device) core.ctx = qn;
    if (reason &&
        PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                         "quern computes in plain loops, slowly, for it has no compiler: %s; "
                         "pip install quern[llvm], or install libLLVM (apt install libllvm19) or a "
                         "C compiler",
                         reason))
        return NULL;
    return qn;
}

qn_ctx *core_ctx(void) {
    core_enter();
    if (likely(core.ctx != NULL)) return core.ctx;
    return open_context(NULL);
}

qn_ctx *core_ctx_of(PyObject *device) {
    if (!device || device == Py_None) return core_ctx();
    core_enter();
    const char *name = PyUnicode_Check(device) ? PyUnicode_AsUTF8AndSize(device, NULL) : NULL;
    if (!name) {
        PyErr_Format(PyExc_TypeError, "a device is \"cpu\", \"opencl\" and the like, not %R",
                     device);
        return NULL;
    }
    qn_ctx *first = core_ctx();
    if (!first || !strcmp(name, qn_device_of(first, NULL))) return first;
    for (int i = 0; i < core.contexts; i++)
        if (!strcmp(name, core.context[i].device)) return core.context[i].ctx;
    return open_context(name);
}

void core_check(bool on) {
    for (int i = 0; i < core.contexts; i++)
        if (core.context[i].check) qn_set(core.context[i].ctx, "check", on ? "1" : "0");
}

/* ---- functions ------------------------------------------------------------------------------- */

static PyObject *set_knob(PyObject *self, PyObject *args) {
    (void)self;
    const char *knob, *value;
    if (!PyArg_ParseTuple(args, "ss", &knob, &value)) return NULL;
    qn_ctx *qn = core_ctx();
    if (!qn) return NULL;
    if (qn_set(qn, knob, value) < 0) return raise_of(qn);
    for (int i = 0; !strcmp(knob, "check") && i < core.contexts; i++)
        if (core.context[i].ctx == qn) core.context[i].check = strcmp(value, "0") != 0;
    if (!strcmp(knob, "lines")) core.lines = strcmp(value, "0") != 0;
    Py_RETURN_NONE;
}

/* Where LLVM's code generator is that came with the package; contexts that are open keep theirs. */
static PyObject *use_llvm(PyObject *self, PyObject *file) {
    (void)self;
    const char *path = PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    if (!path) return PyErr_SetString(PyExc_TypeError, "a file's name is wanted"), NULL;
    char *copy = PyMem_Malloc(strlen(path) + 1);
    if (!copy) return PyErr_NoMemory();
    PyMem_Free(core.llvm);
    core.llvm = strcpy(copy, path);
    Py_RETURN_NONE;
}

static PyObject *stats(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    qn_ctx *qn = core_ctx();
    if (!qn) return NULL;
    qn_stats s = {0};
    qn_get_stats(qn, &s, sizeof s);
    return Py_BuildValue("{sK sK sK sK sK sK sK sK sK sK sd sd sd}", "kernels", s.kernels,
                         "compiles", s.compiles, "plans", s.plans, "plan_hits", s.plan_hits,
                         "nodes", s.nodes, "handles", s.handles, "buffers", s.buffers, "bytes",
                         s.bytes, "peak_bytes", s.peak_bytes, "host_bytes", s.host_bytes,
                         "plan_seconds", s.plan_seconds, "compile_seconds", s.compile_seconds,
                         "run_seconds", s.run_seconds);
}

static PyObject *devices(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    PyObject *list = PyList_New(0);
    const char *name, *about;
    for (int i = 0; list && qn_device_at(i, &name, &about); i++) {
        PyObject *one = PyUnicode_FromString(name);
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *default_device(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    qn_ctx *qn = core_ctx();
    return qn ? PyUnicode_FromString(qn_device_of(qn, NULL)) : NULL;
}

static PyObject *set_no_grad(PyObject *self, PyObject *on) {
    (void)self;
    int is = PyObject_IsTrue(on);
    if (is < 0) return NULL;
    bool was = core.no_grad;
    core.no_grad = is;
    return PyBool_FromLong(was);
}

static PyObject *is_no_grad(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return PyBool_FromLong(core.no_grad);
}

/* The dtype in which tensors, dtypes and numbers meet. */
static PyObject *result_type(PyObject *self, PyObject *list) {
    (void)self;
    qn_dtype found[64];
    int n = 0;
    qn_number number = QN_NO_NUMBER;
    PyObject *all = PySequence_Tuple(list);
    if (!all) return NULL;
    core_enter();
    for (Py_ssize_t i = 0; i < PyTuple_Size(all) && !PyErr_Occurred(); i++) {
        PyObject *o = PyTuple_GetItem(all, i);
        if (n == 64) {
            PyErr_SetString(PyExc_ValueError, "result_type: at most 64 at once");
        } else if (is_tensor(o)) {
            qn_tensor *t = handle_of(o);
            if (t) found[n++] = qn_dtype_of(t);
        } else if (PyBool_Check(o)) {
            found[n++] = QN_BOOL;
        } else if (PyLong_Check(o)) {
            if (number == QN_NO_NUMBER) number = QN_WHOLE_NUMBER;
        } else if (PyFloat_Check(o)) {
            number = QN_REAL_NUMBER;
        } else {
            n += dtype_of(o, &found[n]);
        }
    }
    Py_DECREF(all);
    if (PyErr_Occurred()) return NULL;
    int d = (int)qn_result_type(0, NULL, n, found, number);
    if (d < 0 || d >= MOST_DTYPES)
        return PyErr_SetString(PyExc_ValueError, "result_type: of nothing"), NULL;
    Py_INCREF(core.dtype[d]);
    return core.dtype[d];
}

static PyObject *place_text(PyObject *self, PyObject *o) {
    (void)self;
    int line = 0;
    const char *file = is_tensor(o) ? line_of(((tensor_object *)o)->place, &line) : NULL;
    if (!file) Py_RETURN_NONE;
    return Py_BuildValue("(si)", file, line);
}

static PyMethodDef functions[] = {
    {"tensor", (PyCFunction)(void (*)(void))make_tensor, METH_VARARGS | METH_KEYWORDS,
     "tensor(data, dtype=None, *, device=None, requires_grad=False)\n--\n\nA tensor of numbers, "
     "nested "
     "lists or an array, which are copied. Python's ints are int64, its floats float32."},
    {"from_bytes", from_bytes, METH_VARARGS,
     "from_bytes(data, dtype, shape, device=None, /)\n--\n\nA tensor of the bytes of its elements, "
     "row by row."},
    {"set_knob", set_knob, METH_VARARGS,
     "set_knob(name, value, /)\n--\n\nSet a knob of docs/knobs.md, without QN_ and in lower case."},
    {"use_llvm", use_llvm, METH_O,
     "use_llvm(file, /)\n--\n\nTake LLVM from this file, unless QN_LLVM names another."},
    {"stats", stats, METH_NOARGS,
     "stats()\n--\n\nWhat happened so far: kernels, plans, bytes, seconds."},
    {"devices", devices, METH_NOARGS,
     "devices()\n--\n\nNames of the devices that this library knows."},
    {"default_device", default_device, METH_NOARGS,
     "default_device()\n--\n\nWhere new tensors are."},
    {"set_no_grad", set_no_grad, METH_O,
     "set_no_grad(on, /)\n--\n\nWhether results are recorded without history."},
    {"is_no_grad", is_no_grad, METH_NOARGS,
     "is_no_grad()\n--\n\nAre results recorded without history?"},
    {"result_type", result_type, METH_O,
     "result_type(all, /)\n--\n\nThe dtype in which a list of tensors, dtypes and numbers meet."},
    {"place_of", place_text, METH_O,
     "place_of(x, /)\n--\n\n(file, line) of the line that recorded x, or None."},
    {0}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "quern._core",
                                        .m_doc = "Tensors of Quern.",
                                        .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    const char *lines = getenv("QN_LINES");
    core.lines = !lines || strcmp(lines, "0") != 0;
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    lines_open();
    pthread_atfork(NULL, NULL, in_child);
    if (!errors_add(module) || !dtype_add(module) || !tensor_add(module) || !calls_add(module) ||
        !autograd_add(module) || !jit_add(module) || !fast_add(module) || !exchange_add(module) ||
        !loops_add(module) || !kernels_add(module) || !files_add(module) || !data_add(module) ||
        !optim_add(module) || !view_add(module) || !layers_add(module) || !llm_add(module) ||
        !models_add(module) || !export_add(module) ||
        PyModule_AddStringConstant(module, "__version__", qn_version()))
        Py_CLEAR(module);
    return module;
}
