/* models.c - quern_onnx.h's models, which onnx.py makes callable, and quern_quant.h's blocks, which
 * quant.py has by the names of their types. */
#include "core.h"

#include <quern_onnx.h>
#include <quern_quant.h>

/* ---- the object ------------------------------------------------------------------------------ */

typedef struct onnx_object {
    PyObject_HEAD qn_onnx *m;
    qn_ctx *qn;
    uint32_t epoch;
} onnx_object;
static PyTypeObject *onnx_type;

static void onnx_shut(onnx_object *o) {
    core_enter();
    qn_onnx *m = o->m;
    o->m = NULL;
    if (m && o->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) qn_onnx_close(m);
}

static void onnx_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    onnx_shut((onnx_object *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *onnx_close(PyObject *self, PyObject *none) {
    (void)none;
    onnx_shut((onnx_object *)self);
    Py_RETURN_NONE;
}

static onnx_object *onnx_of(PyObject *self) {
    core_enter();
    onnx_object *o = (onnx_object *)self;
    if (o->m && o->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) return o;
    PyErr_SetString(PyExc_ValueError, "this model has been closed, or is of another process");
    return NULL;
}

/* onnx_open(path or None, bytes or None, folder or None, device) */
static PyObject *onnx_open(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path, *folder, *device, *name = NULL;
    Py_buffer data = {0};
    if (!PyArg_ParseTuple(args, "Oz*OO", &path, &data, &folder, &device)) return NULL;
    PyObject *from = data.buf ? folder : path;
    bool fine = from == Py_None || PyUnicode_FSConverter(from, &name);
    qn_ctx *qn = fine ? core_ctx_of(device) : NULL;
    onnx_object *o = qn ? PyObject_New(onnx_object, onnx_type) : NULL;
    if (o) {
        const char *text = name ? PyBytes_AsString(name) : NULL;
        o->m = NULL;
        o->qn = qn;
        o->epoch = core.epoch;
        computing c = compute_begin();
        qn_onnx *m =
            data.buf ? qn_onnx_parse(qn, data.buf, (size_t)data.len, text) : qn_onnx_open(qn, text);
        fine = compute_end(c);
        o->m = m;
        if (!m) raise_of(qn);
        if (!m || !fine) Py_CLEAR(o);
    }
    Py_XDECREF(name);
    PyBuffer_Release(&data);
    return (PyObject *)o;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* Sizes, names of what varies, None where a size is not said; None: the rank is not. */
static PyObject *onnx_shape(const qn_onnx_value *v) {
    if (v->rank < 0) Py_RETURN_NONE;
    PyObject *shape = PyTuple_New(v->rank);
    for (int k = 0; shape && k < v->rank; k++) {
        PyObject *size = v->shape[k] >= 0 ? PyLong_FromLongLong(v->shape[k])
                         : v->dim_name[k] ? PyUnicode_FromString(v->dim_name[k])
                                          : Py_NewRef(Py_None);
        if (!size || PyTuple_SetItem(shape, k, size)) Py_CLEAR(shape);
    }
    return shape;
}

/* [(name, dtype or None, shape or None, optional)] */
static PyObject *onnx_values(PyObject *self, PyObject *outputs) {
    int second = PyObject_IsTrue(outputs);
    const onnx_object *o = second < 0 ? NULL : onnx_of(self);
    int n = !o ? 0 : second ? qn_onnx_outputs(o->m) : qn_onnx_inputs(o->m);
    PyObject *list = o ? PyList_New(0) : NULL;
    for (int i = 0; list && i < n; i++) {
        qn_onnx_value v = {.name = "", .rank = -1};
        bool there = second ? qn_onnx_output_at(o->m, i, &v, sizeof v)
                            : qn_onnx_input_at(o->m, i, &v, sizeof v);
        PyObject *dtype =
            there && v.type && (int)v.dtype < MOST_DTYPES ? core.dtype[v.dtype] : NULL;
        PyObject *shape = onnx_shape(&v);
        PyObject *row = shape
                            ? Py_BuildValue("(sONO)", v.name ? v.name : "", dtype ? dtype : Py_None,
                                            shape, v.optional ? Py_True : Py_False)
                            : NULL;
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* ---- calling --------------------------------------------------------------------------------- */

/* What came out as a tuple, in which None is left out by the model. */
static PyObject *onnx_results(int n, qn_tensor **out, bool fine) {
    PyObject *tuple = fine ? PyTuple_New(n) : NULL;
    for (int k = 0; k < n; k++) {
        PyObject *x = NULL;
        if (!tuple)
            core_release(out[k]);
        else
            x = out[k] ? tensor_wrap(out[k]) : Py_NewRef(Py_None);
        if (tuple && (!x || PyTuple_SetItem(tuple, k, x))) Py_CLEAR(tuple);
    }
    return tuple;
}

/* call(inputs with None for those left out, static): recorded, or computed by a static graph. */
static PyObject *onnx_call(PyObject *self, PyObject *args) {
    PyObject *list, *made = NULL;
    int as_plan;
    tensor_list x = {0};
    if (!PyArg_ParseTuple(args, "Op", &list, &as_plan)) return NULL;
    onnx_object *o = onnx_of(self);
    if (!o || (as_plan && !may_read(NULL, "what a model computes at once"))) return NULL;
    int n = qn_onnx_outputs(o->m);
    qn_tensor **out = PyMem_Calloc((size_t)n + 1, sizeof *out);
    if (!out) return PyErr_NoMemory();
    if (tensors_of(list, true, "a model", &x) && (o = onnx_of(self)) != NULL) {
        bool depends = false;
        computing c = compute_begin();
        qn_code code =
            as_plan ? qn_onnx_run(o->m, x.n, x.t, n, out) : qn_onnx_call(o->m, x.n, x.t, n, out);
        if (!code) depends = qn_onnx_depends(o->m);
        bool fine = compute_end(c);
        if (code)
            raise_of(o->qn);
        else if (fine && depends && !may_read(NULL, "a value that decides in the model"))
            fine = false;
        if (!code) made = onnx_results(n, out, fine);
    }
    tensors_free(&x);
    PyMem_Free(out);
    return made;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A list of texts or None for the names of n ends, borrowed from it; false: reported. */
static bool names_of(PyObject *list, int n, const char ***out) {
    *out = NULL;
    if (list == Py_None) return true;
    if (PySequence_Size(list) != n) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%zd names for %d tensors", PySequence_Size(list), n);
        return false;
    }
    *out = PyMem_Calloc((size_t)n + 1, sizeof **out);
    if (!*out) return PyErr_NoMemory(), false;
    for (int i = 0; i < n; i++) {
        PyObject *name = PyTuple_Check(list) ? PyTuple_GetItem(list, i) : NULL;
        if (!name || !((*out)[i] = PyUnicode_AsUTF8AndSize(name, NULL))) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "names are a tuple of texts");
            return false;
        }
    }
    return true;
}

/* onnx_save(path, outputs, inputs, output_names, input_names, (name, data, bound)) */
static PyObject *onnx_save(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path, *out, *in, *out_names, *in_names, *file = NULL;
    qn_onnx_save_options o = QN_ONNX_SAVE_OPTIONS();
    const char **in_name = NULL, **out_name = NULL;
    tensor_list x = {0}, y = {0};
    int bound;
    if (!PyArg_ParseTuple(args, "OOOOO(zzp)", &path, &out, &in, &out_names, &in_names, &o.name,
                          &o.data, &bound) ||
        !PyUnicode_FSConverter(path, &file))
        return NULL;
    core_enter();
    bool fine = may_read(NULL, "what a model is written of") &&
                tensors_of(in, false, "inputs", &x) && tensors_of(out, false, "outputs", &y) &&
                names_of(in_names, x.n, &in_name) && names_of(out_names, y.n, &out_name);
    if (fine && !y.n) PyErr_SetString(PyExc_ValueError, "there are no outputs"), fine = false;
    if (fine) {
        o.input_names = in_name;
        o.output_names = out_name;
        o.bound = bound;
        computing c = compute_begin();
        qn_code code = qn_onnx_save(PyBytes_AsString(file), x.n, x.t, y.n, y.t, &o);
        fine = compute_end(c);
        if (code) raise_of(qn_context(y.t[0])), fine = false;
    }
    PyMem_Free(in_name);
    PyMem_Free(out_name);
    tensors_free(&x);
    tensors_free(&y);
    Py_DECREF(file);
    return fine ? Py_NewRef(Py_None) : NULL;
}

/* [(domain, name, first opset, last one or 0)] */
static PyObject *onnx_operators(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    PyObject *list = PyList_New(0);
    const char *domain, *name;
    int first, last;
    for (int i = 0; list && qn_onnx_operator_at(i, &domain, &name, &first, &last); i++) {
        PyObject *row = Py_BuildValue("(ssii)", domain, name, first, last);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* [(number, name, elements, bytes, is it made?)] */
static PyObject *quant_types(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    PyObject *list = PyList_New(0);
    const char *name;
    int elements, bytes;
    bool made;
    qn_quant type;
    for (int i = 0; list && (type = qn_quant_at(i, &name, &elements, &bytes, &made)) != 0; i++) {
        PyObject *row =
            Py_BuildValue("(isiiO)", (int)type, name, elements, bytes, made ? Py_True : Py_False);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *quant_convert(PyObject *args, qn_tensor *(*convert)(qn_tensor *, qn_quant)) {
    PyObject *given;
    int type;
    bool made = false;
    if (!PyArg_ParseTuple(args, "Oi", &given, &type)) return NULL;
    core_enter();
    qn_tensor *x = operand(given, NULL, &made);
    if (!x) return NULL;
    qn_tensor *t = convert(x, (qn_quant)type);
    PyObject *result = t ? tensor_wrap(t) : raise_of(qn_context(x));
    if (made) core_release(x);
    return result;
}

static PyObject *quant_make(PyObject *self, PyObject *args) {
    (void)self;
    return quant_convert(args, qn_quantize);
}

static PyObject *quant_read(PyObject *self, PyObject *args) {
    (void)self;
    return quant_convert(args, qn_dequantize);
}

/* ---- into the module ------------------------------------------------------------------------- */

bool models_add(PyObject *module) {
    static PyMethodDef methods[] = {
        {"values", onnx_values, METH_O,
         "values($self, outputs)\n--\n\n(name, dtype, shape, optional) of inputs or outputs."},
        {"call", onnx_call, METH_VARARGS,
         "call($self, inputs, static)\n--\n\nThe outputs, recorded or computed at once."},
        {"close", onnx_close, METH_NOARGS, "close($self)\n--\n\nClose it."},
        {0}};
    static PyMethodDef functions[] = {
        {"onnx_open", onnx_open, METH_VARARGS,
         "onnx_open(path, data, folder, device, /)\n--\n\nA model of a file or of bytes."},
        {"onnx_save", onnx_save, METH_VARARGS,
         "onnx_save(path, outputs, inputs, output_names, input_names, options, /)\n--\n\n"
         "Write a model; options: (name, data, bound)."},
        {"onnx_operators", onnx_operators, METH_NOARGS,
         "onnx_operators()\n--\n\n(domain, name, first opset, last one or 0) of each."},
        {"quant_types", quant_types, METH_NOARGS,
         "quant_types()\n--\n\n(number, name, elements, bytes, made) of each type of blocks."},
        {"quant_make", quant_make, METH_VARARGS,
         "quant_make(x, type, /)\n--\n\nThe blocks of a tensor."},
        {"quant_read", quant_read, METH_VARARGS,
         "quant_read(blocks, type, /)\n--\n\nThe tensor of blocks."},
        {0}};
    PyType_Slot slots[] = {{Py_tp_dealloc, onnx_free},
                           {Py_tp_methods, methods},
                           {Py_tp_doc, (void *)"A model of the ONNX format, by onnx_open()."},
                           {0, NULL}};
    PyType_Spec spec = {"quern.COnnx", sizeof(onnx_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    onnx_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return onnx_type && !PyModule_AddFunctions(module, functions);
}
