/* call.c - the generated functions: each row of calls.h becomes a function of the module, and one
 * whose first argument is a tensor a method, too.
 *
 * A row's C expression takes its arguments by number from the parsed values: T(0) is a tensor, I(1)
 * an int, N(2) and P(2) a list and its length, and so on. */
#include "core.h"

#include <math.h>
#include <string.h>

#define T(i)     (v[i].t)
#define I(i)     ((int)v[i].z)
#define Z(i)     (v[i].z)
#define U(i)     ((uint64_t)v[i].z)
#define F(i)     (v[i].f)
#define B(i)     (v[i].z != 0)
#define W(i)     (v[i].text)
#define N(i)     (v[i].n)
#define P(i)     (v[i].size)
#define L(i)     ((qn_tensor *const *)v[i].list)
#define E(i)     (v[i].list ? (const double *)v[i].list : v[i].number)
#define D(i)     ((qn_dtype)v[i].z)
#define FLOAT(i) (v[i].given ? (qn_dtype)v[i].z : QN_F32)
#define WHOLE(i) (v[i].given ? (qn_dtype)v[i].z : QN_I64)
#define AXIS(i)  (v[i].all ? QN_ALL : v[i].axis[0])
#define AXES(i)  (v[i].axis)
#define ONE(i)   (v[i].one)
#define ALL(i)   (v[i].all)
#define GIVEN(i) (v[i].given)
#define THREE(i)                                                                                   \
    { v[i].size[0], v[i].size[1], v[i].size[2] }
#define AFTER(i)                                                                                   \
    { v[i].after[0], v[i].after[1], v[i].after[2] }
#define THREE_F(i)                                                                                 \
    { v[i].number[0], v[i].number[1], v[i].number[2] }
#define SAME(i)    (v[i].same)
#define CTX        core_ctx()
#define SIZE(i, k) ((int)qn_dim(v[i].t, (int)v[k].z))

/* ---- what rows written by hand are made of --------------------------------------------------- */

/* The dtype of numbers that make a tensor: floats if one is. */
static qn_dtype meeting(const argument *v, int n) {
    qn_dtype d = QN_BOOL;
    static const qn_dtype of[] = {QN_BOOL, QN_I64, QN_F32};
    for (int i = 0; i < n; i++) {
        qn_dtype one = v[i].o && v[i].o != Py_None ? of[scalar_kind(v[i].o)] : QN_BOOL;
        if (one > d) d = one;
    }
    return d;
}

static qn_tensor *full_of(const argument *v) {
    qn_dtype d = v[2].given ? (qn_dtype)v[2].z : meeting(&v[1], 1);
    qn_ctx *qn = core_ctx();
    if (!qn) return NULL;
    if (PyComplex_Check(v[1].o)) {
        qn_tensor *z = tensor_from(qn, v[1].o, v[2].given ? &d : NULL), *all = NULL;
        if (z) all = qn_expand(z, v[0].n, v[0].size), core_release(z);
        return all;
    }
    int overflow = 0;
    PyObject *i = scalar_kind(v[1].o) == 2 ? NULL : PyNumber_Long(v[1].o);
    int64_t z = i ? PyLong_AsLongLongAndOverflow(i, &overflow) : 0;
    double f = i ? 0 : PyFloat_AsDouble(v[1].o);
    Py_XDECREF(i);
    if (PyErr_Occurred()) return NULL;
    core_enter();
    if (i && !overflow) return qn_full_int(qn, d, v[0].n, v[0].size, z);
    if (!i) return qn_full(qn, d, v[0].n, v[0].size, f);
    qn_tensor *one = number_in(qn, d, v[1].o), *t = NULL;
    if (one) t = qn_expand(one, v[0].n, v[0].size), core_release(one);
    return t;
}

static qn_tensor *full_like_of(const argument *v) {
    qn_tensor *x = qn_keep(v[0].t), *t = NULL;
    qn_tensor *one = number_in(qn_context(x), qn_dtype_of(x), v[1].o);
    if (one) t = qn_expand_as(one, x), core_release(one);
    core_release(x);
    return t;
}

/* Of a whole number f is not asked for. */
static bool number_or(const argument *v, double other, bool whole, double *f, int64_t *z) {
    *f = other;
    *z = (int64_t)other;
    if (!v->given) return true;
    PyObject *i = whole ? PyNumber_Index(v->o) : NULL;
    if (whole)
        *z = i ? PyLong_AsLongLong(i) : -1;
    else
        *f = PyFloat_AsDouble(v->o);
    Py_XDECREF(i);
    return !PyErr_Occurred();
}

/* arange(stop), arange(start, stop, step) */
static qn_tensor *arange_of(const argument *v) {
    double f[3];
    int64_t z[3];
    qn_dtype d = meeting(v, 3);
    if (d == QN_BOOL) d = QN_I64;
    bool whole = d == QN_I64;
    if (v[3].given) d = (qn_dtype)v[3].z;
    qn_ctx *qn = core_ctx();
    if (!qn || !number_or(&v[0], 0, whole, &f[0], &z[0]) ||
        !number_or(&v[1], 0, whole, &f[1], &z[1]) || !number_or(&v[2], 1, whole, &f[2], &z[2]))
        return NULL;
    core_enter();
    if (!v[1].given) f[1] = f[0], z[1] = z[0], f[0] = 0, z[0] = 0;
    return whole ? qn_arange_int(qn, d, z[0], z[1], z[2]) : qn_arange(qn, d, f[0], f[1], f[2]);
}

/* All elements rolled as one vector. */
static qn_tensor *roll_flat(qn_tensor *x, int64_t shift) {
    int64_t size[QN_MAX_RANK];
    int rank = qn_rank(x);
    for (int i = 0; i < rank; i++) size[i] = qn_dim(x, i);
    qn_tensor *flat = qn_reshape(x, 1, (int64_t[]){-1}), *rolled = qn_roll(flat, 0, shift);
    qn_tensor *result = qn_reshape(rolled, rank, size);
    if (flat) qn_release(flat);
    if (rolled) qn_release(rolled);
    return result;
}

/* x, a shift or one for each axis, and the axes; without them x is one vector. */
static qn_tensor *roll_of(const argument *v) {
    const argument *shift = &v[1], *axes = &v[2];
    int n = axes->all ? 1 : axes->n;
    if (shift->n != 1 && shift->n != n) {
        PyErr_Format(PyExc_ValueError, "roll: %d shifts are not for %d axes", shift->n, n);
        return NULL;
    }
    if (axes->all) return roll_flat(v[0].t, shift->size[0]);
    int64_t each[2 * QN_MAX_RANK];
    for (int i = 0; i < n; i++) each[i] = shift->size[shift->n == 1 ? 0 : i];
    return qn_roll_axes(v[0].t, n, axes->axis, each);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define ENUM(...)
#define X(name, names, spec, ...)                                                                  \
    static qn_tensor *do_##name(const argument *v) {                                               \
        return __VA_ARGS__;                                                                        \
    }
#define Y(name, names, spec, results, number, ...)                                                 \
    static int count_##name(const argument *v) {                                                   \
        (void)v;                                                                                   \
        return number;                                                                             \
    }                                                                                              \
    static qn_code do_##name(const argument *v, qn_tensor **out) {                                 \
        return __VA_ARGS__;                                                                        \
    }
#include "calls.h"
#undef X
#undef Y
#define X(name, names, spec, ...)                                                                  \
    {#name, names, spec, NULL, do_##name, NULL, NULL, {{0}}, 0, 0, false, NULL},
#define Y(name, names, spec, results, number, ...)                                                 \
    {#name, names, spec, results, NULL, count_##name, do_##name, {{0}}, 0, 0, false, NULL},
static call_row table[] = {
#include "calls.h"
};
#undef X
#undef Y
enum {
#define X(name, ...) ROW_##name,
#define Y(name, ...) ROW_##name,
#include "calls.h"
#undef X
#undef Y
    ROWS
};

/* ---- calling --------------------------------------------------------------------------------- */

/* What Y rows give: a tuple, with names where the results have them. */
static PyObject *several(call_row *r, const argument *v) {
    int n = r->count(v);
    if (n <= 0 && !*r->results && v[0].t) return PyTuple_New(0); /* of an axis without elements */
    if (n < 0) n = 0;
    qn_tensor *few[16], **out = n <= 16 ? few : PyMem_Malloc((size_t)n * sizeof *out);
    if (!out) return PyErr_NoMemory();
    memset(out, 0, (size_t)n * sizeof *out);
    PyObject *tuple = NULL;
    if (r->many(v, out) < 0)
        raise_of(NULL);
    else
        tuple = r->result ? PyStructSequence_New(r->result) : PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *one = out[i] ? tensor_wrap(out[i]) : NULL;
        if (tuple && one && r->result)
            PyStructSequence_SetItem(tuple, i, one);
        else if (tuple && one)
            PyTuple_SetItem(tuple, i, one);
        else
            Py_XDECREF(one);
        if (tuple && !one) Py_CLEAR(tuple);
    }
    if (out != few) PyMem_Free(out);
    return tuple;
}

/* Of rows that run the graph to know a size. */
static bool may_run(const call_row *r, PyObject *self) {
    return strcmp(r->c_name, "head") || may_read(self, "the size of the result");
}

static PyObject *call(call_row *r, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names) {
    argument v[MOST_PARAMETERS];
    PyObject *with[MOST_PARAMETERS + 2];
    if (self && is_tensor(self)) { /* a method: self is the first argument */
        Py_ssize_t more = names ? PyTuple_Size(names) : 0;
        if (unlikely(n + more > MOST_PARAMETERS)) {
            PyErr_Format(PyExc_TypeError, "%s(): too many arguments", r->c_name);
            return NULL;
        }
        with[0] = self;
        memcpy(with + 1, args, (size_t)(n + more) * sizeof *with);
        args = with;
        n++;
    }
    core_enter();
    PyObject *result = NULL;
    if (likely(parse(r, args, n, names, v)) && (!tracing() || may_run(r, self))) {
        if (r->one) {
            qn_tensor *t = r->one(v);
            result = likely(t != NULL) ? tensor_wrap(t) : raise_of(NULL);
        } else {
            result = several(r, v);
        }
    }
    parse_free(r, v);
    return result;
}

#define X(name, ...)                                                                               \
    static PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *k) { \
        return call(&table[ROW_##name], self, args, n, k);                                         \
    }
#define Y X
#include "calls.h"
#undef X
#define X(name, ...) (PyCFunction)(void (*)(void)) py_##name,
static const PyCFunction entry[] = {
#include "calls.h"
};
#undef X
#undef Y
static const struct {
    const char *signature, *text;
} doc[] = {
#define X(name, signature, text) {signature, text},
#include "docs.h"
#undef X
};
_Static_assert(sizeof doc / sizeof *doc == ROWS, "docs.h has a row for each of calls.h");

/* ---- into the module ------------------------------------------------------------------------- */

/* "name(x, axis=None)\n--\n\ndoc", as Python wants it for __text_signature__. */
static const char *doc_of(const char *name, const char *signature, const char *text) {
    PyObject *s = PyUnicode_FromFormat("%s%s\n--\n\n%s", name, signature, text);
    const char *utf8 = s ? PyUnicode_AsUTF8AndSize(s, NULL) : NULL;
    return utf8; /* the text lives as long as the module, that is the process */
}

static bool result_type(call_row *r) {
    if (!r->results || !*r->results) return true;
    PyStructSequence_Field field[9] = {{0}};
    const char *at = r->results;
    int n = 0;
    for (; *at && n < 8; n++) {
        size_t length = strcspn(at, " ");
        PyObject *s = PyUnicode_FromStringAndSize(at, (Py_ssize_t)length);
        if (!s) return false;
        field[n].name = PyUnicode_AsUTF8AndSize(s, NULL);
        at += length + (at[length] == ' ');
    }
    PyObject *name = PyUnicode_FromFormat("quern.%s_result", r->c_name);
    if (!name) return false;
    PyStructSequence_Desc d = {PyUnicode_AsUTF8AndSize(name, NULL), "results by name", field, n};
    r->result = PyStructSequence_NewType(&d);
    return r->result != NULL;
}

static bool is_method(const call_row *r) {
    return r->params && (r->param[0].kind == 'T' || r->param[0].kind == 'S') &&
           (!PyUnicode_CompareWithASCIIString(r->param[0].name, "x") ||
            !PyUnicode_CompareWithASCIIString(r->param[0].name, "z") ||
            !PyUnicode_CompareWithASCIIString(r->param[0].name, "index"));
}

bool calls_add(PyObject *module) {
    static PyMethodDef functions[2 * ROWS + 1];
    PyMethodDef *f = functions;
    for (int i = 0; i < ROWS; i++) {
        call_row *r = &table[i];
        if (!parse_spec(r) || !result_type(r)) return false;
        for (const char *at = r->names; *at; f++) {
            size_t n = strcspn(at, "|");
            PyObject *name = PyUnicode_FromStringAndSize(at, (Py_ssize_t)n);
            if (!name) return false;
            const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
            *f = (PyMethodDef){text, entry[i], METH_FASTCALL | METH_KEYWORDS,
                               doc_of(text, doc[i].signature, doc[i].text)};
            at += n + (at[n] == '|');
            if (is_method(r) && !tensor_add_method(f)) return false;
        }
    }
    return !PyModule_AddFunctions(module, functions);
}
