/* data.c - quern_data.h's datasets and loaders: data.py makes of them what Python calls so. A batch
 * is gathered by the library's threads, which know no Python. */
#include "core.h"

#include <quern_data.h>

#include <string.h>

typedef struct data_object {
    PyObject_HEAD qn_dataset *d;
    qn_loader *l; /* of one of both */
    qn_ctx *qn;
    int fields;
    uint32_t epoch;
} data_object;
static PyTypeObject *dataset_type, *loader_type;

/* ---- the objects ----------------------------------------------------------------------------- */

static void data_shut(data_object *o) {
    if ((o->d || o->l) && o->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) {
        core_enter();
        qn_dataset_close(o->d);
        qn_loader_free(o->l);
    }
    o->d = NULL;
    o->l = NULL;
}

static void data_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    data_shut((data_object *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static data_object *data_of(PyObject *self) {
    core_enter();
    data_object *o = (data_object *)self;
    if ((o->d || o->l) && o->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK) return o;
    PyErr_SetString(PyExc_ValueError, "this data has been closed, or is of another process");
    return NULL;
}

static data_object *dataset_of(PyObject *self) {
    if (Py_TYPE(self) == dataset_type) return data_of(self);
    PyErr_Format(PyExc_TypeError, "%R is no dataset of the library", self);
    return NULL;
}

/* Takes d over; NULL: the context's error. */
static PyObject *dataset_wrap(qn_ctx *qn, qn_dataset *d) {
    data_object *o = d ? PyObject_New(data_object, dataset_type) : NULL;
    if (!d) return raise_of(qn);
    if (!o) return qn_dataset_close(d), NULL;
    o->d = d;
    o->l = NULL;
    o->qn = qn;
    o->fields = qn_dataset_fields(d);
    o->epoch = core.epoch;
    return (PyObject *)o;
}

/* ---- datasets -------------------------------------------------------------------------------- */

/* data_tensors(list) */
static PyObject *data_tensors(PyObject *self, PyObject *list) {
    (void)self;
    tensor_list x = {0};
    PyObject *made = NULL;
    core_enter();
    if (may_read(NULL, "the rows of a dataset") && tensors_of(list, false, "TensorDataset", &x)) {
        qn_ctx *qn = x.n ? qn_context(x.t[0]) : core_ctx();
        computing c = compute_begin();
        qn_dataset *d = qn_dataset_tensors(qn, x.n, NULL, x.t);
        bool done = compute_end(c);
        made = done ? dataset_wrap(qn, d) : NULL;
        if (!done) qn_dataset_close(d);
    }
    tensors_free(&x);
    return made;
}

/* data_open(path, device or None) */
static PyObject *data_open(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path = NULL, *device = Py_None, *made = NULL;
    if (!PyArg_ParseTuple(args, "O&O", PyUnicode_FSConverter, &path, &device)) return NULL;
    qn_ctx *qn = core_ctx_of(device);
    if (qn) made = dataset_wrap(qn, qn_dataset_open(qn, PyBytes_AsString(path)));
    Py_DECREF(path);
    return made;
}

enum { CSV_FIELDS = 64, CSV_COLUMNS = 4096 };
typedef struct csv_fields {
    qn_csv_field field[CSV_FIELDS];
    const char *column[CSV_COLUMNS];
    int n, columns;
} csv_fields;

/* (name, dtype, columns, has an axis, classes) */
static bool csv_field(csv_fields *c, PyObject *item) {
    qn_csv_field *f = &c->field[c->n++];
    PyObject *dtype, *columns;
    int axis, classes;
    if (!PyArg_ParseTuple(item, "zOO!pp", &f->name, &dtype, &PyList_Type, &columns, &axis,
                          &classes) ||
        !dtype_of(dtype, &f->dtype))
        return false;
    int n = (int)PyList_Size(columns);
    f->columns = axis ? n : 0;
    f->classes = classes;
    f->column = &c->column[c->columns];
    if (n < 1 || n > CSV_COLUMNS - c->columns)
        return PyErr_Format(PyExc_ValueError, "a field of %d columns", n), false;
    for (int i = 0; i < n; i++) {
        PyObject *name = PyList_GetItem(columns, i);
        if (!PyUnicode_Check(name))
            return PyErr_Format(PyExc_TypeError, "%R is no name of a column", name), false;
        c->column[c->columns++] = PyUnicode_AsUTF8AndSize(name, NULL);
    }
    return !PyErr_Occurred();
}

/* data_csv(path, device, fields, header, separator, missing or None, fill or None) */
static PyObject *data_csv(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path = NULL, *device, *fields, *fill, *made = NULL;
    const char *separator;
    int header;
    qn_csv_options o = QN_CSV_OPTIONS();
    if (!PyArg_ParseTuple(args, "O&OO!pszO", PyUnicode_FSConverter, &path, &device, &PyList_Type,
                          &fields, &header, &separator, &o.missing, &fill))
        return NULL;
    csv_fields *c = PyMem_Calloc(1, sizeof *c);
    qn_ctx *qn = c ? core_ctx_of(device) : (qn_ctx *)(void *)PyErr_NoMemory();
    o.fill = fill != Py_None;
    if (qn && o.fill) o.fill_value = PyFloat_AsDouble(fill);
    if (qn && strlen(separator) != 1)
        PyErr_SetString(PyExc_ValueError, "a separator is one character");
    if (qn && PyList_Size(fields) > CSV_FIELDS)
        PyErr_Format(PyExc_ValueError, "up to %d fields", CSV_FIELDS);
    for (Py_ssize_t i = 0; qn && !PyErr_Occurred() && i < PyList_Size(fields); i++)
        if (!csv_field(c, PyList_GetItem(fields, i))) break;
    if (qn && !PyErr_Occurred()) {
        o.fields = c->n;
        o.field = c->field;
        o.no_header = !header;
        o.separator = separator[0];
        made = dataset_wrap(qn, qn_dataset_csv(qn, PyBytes_AsString(path), &o));
    }
    PyMem_Free(c);
    Py_DECREF(path);
    return made;
}

/* data_tokens(path, device, window, stride, dtype) */
static PyObject *data_tokens(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path = NULL, *device, *dtype, *made = NULL;
    long long window, stride;
    qn_tokens_options o = QN_TOKENS_OPTIONS();
    if (!PyArg_ParseTuple(args, "O&OLLO", PyUnicode_FSConverter, &path, &device, &window, &stride,
                          &dtype))
        return NULL;
    qn_ctx *qn = core_ctx_of(device);
    o.window = window;
    o.stride = stride;
    if (qn && dtype_of(dtype, &o.dtype))
        made = dataset_wrap(qn, qn_dataset_tokens(qn, PyBytes_AsString(path), &o));
    Py_DECREF(path);
    return made;
}

/* data_combine("zip" or "concat", list) */
static PyObject *data_combine(PyObject *self, PyObject *args) {
    (void)self;
    enum { MOST = 64 };
    PyObject *list;
    const char *how;
    qn_dataset *of[MOST];
    if (!PyArg_ParseTuple(args, "sO!", &how, &PyList_Type, &list)) return NULL;
    int n = (int)PyList_Size(list);
    qn_ctx *qn = NULL;
    if (n < 1 || n > MOST) return PyErr_Format(PyExc_ValueError, "%d datasets", n);
    for (int i = 0; i < n; i++) {
        data_object *o = dataset_of(PyList_GetItem(list, i));
        if (!o) return NULL;
        of[i] = o->d;
        qn = i ? qn : o->qn;
    }
    bool concat = strcmp(how, "concat") == 0;
    return dataset_wrap(qn, concat ? qn_dataset_concat(n, of) : qn_dataset_zip(n, of));
}

/* data_part(dataset, list of numbers) */
static PyObject *data_part(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *of, *list, *made = NULL;
    if (!PyArg_ParseTuple(args, "OO!", &of, &PyList_Type, &list)) return NULL;
    Py_ssize_t n = PyList_Size(list);
    int64_t *index = PyMem_Calloc((size_t)n + 1, sizeof *index);
    if (!index) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        index[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
    data_object *o = PyErr_Occurred() ? NULL : dataset_of(of);
    if (o) made = dataset_wrap(o->qn, qn_dataset_part(o->d, n, index));
    PyMem_Free(index);
    return made;
}

static PyObject *dataset_count(PyObject *self, PyObject *none) {
    (void)none;
    data_object *o = dataset_of(self);
    return o ? PyLong_FromLongLong(qn_dataset_count(o->d)) : NULL;
}

/* [(name, dtype, shape)] */
static PyObject *dataset_fields(PyObject *self, PyObject *none) {
    (void)none;
    data_object *o = dataset_of(self);
    PyObject *list = o ? PyList_New(0) : NULL;
    for (int i = 0; list && i < o->fields; i++) {
        qn_data_field f;
        qn_dataset_get_field(o->d, i, &f, sizeof f);
        PyObject *shape = PyTuple_New(f.rank), *row = NULL;
        for (int k = 0; shape && k < f.rank; k++)
            PyTuple_SetItem(shape, k, PyLong_FromLongLong(f.shape[k]));
        if (shape) row = Py_BuildValue("(sON)", f.name, core.dtype[f.dtype], shape);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* Texts of a field of classes. */
static PyObject *dataset_classes(PyObject *self, PyObject *field) {
    data_object *o = dataset_of(self);
    int k = o ? (int)PyLong_AsLong(field) : -1;
    PyObject *list = o && !PyErr_Occurred() ? PyList_New(0) : NULL;
    const char *text;
    for (int64_t i = 0; list && (text = qn_dataset_class(o->d, k, i)) != NULL; i++) {
        PyObject *name = PyUnicode_FromString(text);
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* The tensors of sample i. */
static PyObject *dataset_read(PyObject *self, PyObject *number) {
    enum { MOST = 64 };
    data_object *o = dataset_of(self);
    long long i = o ? PyLong_AsLongLong(number) : 0;
    if (!o || PyErr_Occurred() || !may_read(NULL, "a sample of a dataset")) return NULL;
    qn_data_field f[MOST];
    void *out[MOST] = {0};
    PyObject *list = PyList_New(0);
    bool fine = list != NULL;
    for (int k = 0; fine && k < o->fields; k++) {
        size_t size = 1;
        qn_dataset_get_field(o->d, k, &f[k], sizeof f[k]);
        for (int j = 0; j < f[k].rank; j++) size *= (size_t)f[k].shape[j];
        out[k] = PyMem_Malloc(size * qn_dtype_size(f[k].dtype) + 1);
        if (!out[k]) fine = (PyErr_NoMemory(), false);
    }
    if (fine && qn_dataset_read(o->d, i, out)) fine = (raise_of(o->qn), false);
    for (int k = 0; fine && k < o->fields; k++) {
        qn_tensor *t = qn_from(o->qn, f[k].dtype, f[k].rank, f[k].shape, out[k]);
        PyObject *x = t ? tensor_wrap(t) : raise_of(o->qn);
        fine = x && !PyList_Append(list, x);
        Py_XDECREF(x);
    }
    for (int k = 0; k < MOST; k++) PyMem_Free(out[k]);
    if (!fine) Py_CLEAR(list);
    return list;
}

/* ---- loaders --------------------------------------------------------------------------------- */

/* loader_new(dataset, batch, shuffle, drop_last, seed, threads, ahead, rank, world) */
static PyObject *loader_new(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *of;
    long long batch;
    unsigned long long seed;
    int shuffle, drop_last;
    qn_loader_options o = QN_LOADER_OPTIONS();
    if (!PyArg_ParseTuple(args, "OLppKiiii", &of, &batch, &shuffle, &drop_last, &seed, &o.threads,
                          &o.ahead, &o.rank, &o.world))
        return NULL;
    data_object *d = dataset_of(of), *l = d ? PyObject_New(data_object, loader_type) : NULL;
    if (!l) return NULL;
    o.batch = batch;
    o.shuffle = shuffle;
    o.drop_last = drop_last;
    o.seed = seed;
    l->d = NULL;
    l->qn = d->qn;
    l->fields = d->fields;
    l->epoch = core.epoch;
    l->l = qn_loader_new(d->d, &o);
    if (l->l) return (PyObject *)l;
    raise_of(d->qn);
    Py_DECREF(l);
    return NULL;
}

static PyObject *loader_batches(PyObject *self, PyObject *none) {
    (void)none;
    data_object *o = data_of(self);
    return o ? PyLong_FromLongLong(qn_loader_batches(o->l)) : NULL;
}

/* A tuple of tensors; None: the epoch is over. */
static PyObject *loader_next(PyObject *self, PyObject *none) {
    (void)none;
    qn_tensor *out[64] = {0};
    data_object *o = data_of(self);
    if (!o || !may_read(NULL, "a batch of a loader")) return NULL;
    computing c = compute_begin();
    int64_t rows = qn_loader_next(o->l, out);
    bool fine = compute_end(c);
    if (rows < 0) return fine ? raise_of(o->qn) : (qn_clear_error(o->qn), NULL);
    if (fine && rows == 0) Py_RETURN_NONE;
    PyObject *batch = fine ? PyTuple_New(o->fields) : NULL;
    for (int k = 0; k < o->fields; k++) {
        PyObject *x = batch ? tensor_wrap(out[k]) : NULL;
        if (!batch) qn_release(out[k]);
        if (batch && (!x || PyTuple_SetItem(batch, k, x))) Py_CLEAR(batch);
    }
    return batch;
}

/* (seed, epoch, batch, batches) */
static PyObject *loader_state(PyObject *self, PyObject *none) {
    (void)none;
    qn_loader_state s = QN_LOADER_STATE();
    data_object *o = data_of(self);
    if (!o) return NULL;
    qn_loader_get_state(o->l, &s, sizeof s);
    return Py_BuildValue("(KLLL)", (unsigned long long)s.seed, (long long)s.epoch,
                         (long long)s.batch, (long long)s.batches);
}

/* set_state(seed, epoch, batch, batches) */
static PyObject *loader_set_state(PyObject *self, PyObject *args) {
    unsigned long long seed;
    long long epoch, batch, batches;
    if (!PyArg_ParseTuple(args, "KLLL", &seed, &epoch, &batch, &batches)) return NULL;
    data_object *o = data_of(self);
    qn_loader_state s =
        QN_LOADER_STATE(.seed = seed, .epoch = epoch, .batch = batch, .batches = batches);
    if (!o) return NULL;
    if (qn_loader_set_state(o->l, &s)) return raise_of(o->qn);
    Py_RETURN_NONE;
}

static PyObject *data_close(PyObject *self, PyObject *none) {
    (void)none;
    data_shut((data_object *)self);
    Py_RETURN_NONE;
}

/* shuffled(n, seed, epoch, first, count) */
static PyObject *shuffled(PyObject *self, PyObject *args) {
    (void)self;
    long long n, epoch, first, count;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "LKLLL", &n, &seed, &epoch, &first, &count)) return NULL;
    PyObject *list = PyList_New(0);
    for (long long i = 0; list && i < count; i++) {
        long long at = qn_shuffled(n, seed, epoch, first + i);
        PyObject *x = at < 0 ? NULL : PyLong_FromLongLong(at);
        if (at < 0) PyErr_Format(PyExc_IndexError, "shuffled: place %lld of %lld", first + i, n);
        if (!x || PyList_Append(list, x)) Py_CLEAR(list);
        Py_XDECREF(x);
    }
    return list;
}

bool data_add(PyObject *module) {
    static PyMethodDef of_dataset[] = {
        {"count", dataset_count, METH_NOARGS, "count($self)\n--\n\nHow many samples."},
        {"fields", dataset_fields, METH_NOARGS,
         "fields($self)\n--\n\n(name, dtype, shape) of each."},
        {"classes", dataset_classes, METH_O, "classes($self, field)\n--\n\nThe texts of a field."},
        {"read", dataset_read, METH_O, "read($self, number)\n--\n\nThe tensors of a sample."},
        {"close", data_close, METH_NOARGS, "close($self)\n--\n\nClose it."},
        {0}};
    static PyMethodDef of_loader[] = {
        {"batches", loader_batches, METH_NOARGS, "batches($self)\n--\n\nHow many in an epoch."},
        {"next", loader_next, METH_NOARGS, "next($self)\n--\n\nThe next batch, or None."},
        {"state", loader_state, METH_NOARGS, "state($self)\n--\n\nseed, epoch, batch, batches."},
        {"set_state", loader_set_state, METH_VARARGS, "set_state($self, *state)\n--\n\nGo there."},
        {"close", data_close, METH_NOARGS, "close($self)\n--\n\nEnd its threads."},
        {0}};
    static PyMethodDef functions[] = {
        {"data_tensors", data_tensors, METH_O, "data_tensors(tensors, /)\n--\n\nRows of tensors."},
        {"data_open", data_open, METH_VARARGS,
         "data_open(path, device, /)\n--\n\nArrays of a file."},
        {"data_csv", data_csv, METH_VARARGS,
         "data_csv(path, device, fields, header, separator, missing, fill, /)\n--\n\nColumns."},
        {"data_tokens", data_tokens, METH_VARARGS,
         "data_tokens(path, device, window, stride, dtype, /)\n--\n\nWindows of tokens."},
        {"data_combine", data_combine, METH_VARARGS,
         "data_combine(how, datasets, /)\n--\n\nA dataset of datasets."},
        {"data_part", data_part, METH_VARARGS, "data_part(dataset, index, /)\n--\n\nSome samples."},
        {"loader_new", loader_new, METH_VARARGS,
         "loader_new(dataset, batch, shuffle, drop_last, seed, threads, ahead, rank, world, /)\n--"
         "\n\nA loader."},
        {"shuffled", shuffled, METH_VARARGS,
         "shuffled(n, seed, epoch, first, count, /)\n--\n\nSamples by their places in an epoch."},
        {0}};
    PyType_Slot dataset_slots[] = {{Py_tp_dealloc, data_free},
                                   {Py_tp_methods, of_dataset},
                                   {Py_tp_doc, (void *)"Samples of the library's."},
                                   {0, NULL}};
    PyType_Slot loader_slots[] = {{Py_tp_dealloc, data_free},
                                  {Py_tp_methods, of_loader},
                                  {Py_tp_doc, (void *)"Batches of the library's."},
                                  {0, NULL}};
    unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    PyType_Spec dataset = {"quern.CDataset", sizeof(data_object), 0, flags, dataset_slots};
    PyType_Spec loader = {"quern.CLoader", sizeof(data_object), 0, flags, loader_slots};
    dataset_type = (PyTypeObject *)PyType_FromSpec(&dataset);
    loader_type = dataset_type ? (PyTypeObject *)PyType_FromSpec(&loader) : NULL;
    return loader_type && !PyModule_AddFunctions(module, functions);
}
