/* parse.c - arguments of Python as those of C.
 *
 * A row's parameters are written as "name:kind=default", "*" before those that go by keyword
 * alone. Kinds: T tensor, S tensor or number, L list of tensors, X number, I int, Z int64, U
 * uint64, F float, B bool, D dtype, a axis, A axis or axes, P sizes, E floats, W text, e words of
 * an enum, by its number. How many x says: Q sizes of its spatial axes, R of all its axes, V two
 * for each; of options 3 ints, g floats and p padding for spatial axes. One number is for all of
 * those. "~" behind a kind: as many as the parameter before. "N" is None. */
#include "core.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
#define ENUM(number, name, text) [number] = text,
#define X(...)
#define Y(...)
#include "calls.h"
#undef ENUM
#undef X
#undef Y
};

const char *enum_words(int number) {
    return words[number];
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A mask, index or the like: its dtype meets none of the others'. */
static bool is_apart(const call_row *r, PyObject *name) {
    static const char *const names[] = {"mask", "index", "condition", "labels", "n"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!PyUnicode_CompareWithASCIIString(name, names[k])) return true;
    return r->params == 1 && !strcmp(r->c_name, "where");
}

bool parse_spec(call_row *r) {
    bool keyword = false;
    const char *at = r->spec;
    while (*at) {
        size_t n = strcspn(at, " ");
        if (n == 1 && *at == '*') {
            keyword = true;
        } else {
            param *p = &r->param[r->params++];
            const char *colon = memchr(at, ':', n), *equals = memchr(at, '=', n);
            PyObject *name = PyUnicode_FromStringAndSize(at, colon - at);
            if (!name) return false;
            PyUnicode_InternInPlace(&name);
            p->name = name;
            p->kind = colon[1];
            p->words = p->kind == 'e' ? atoi(colon + 2) : 0;
            r->axes |= p->kind == 'A';
            p->alike = colon[2] == '~';
            p->apart = is_apart(r, name);
            p->optional = equals != NULL;
            p->none = equals && equals[1] == 'N';
            p->number = equals && !p->none ? strtod(equals + 1, NULL) : 0;
            p->keyword = keyword;
            if (!keyword) r->positional = r->params;
        }
        at += n;
        while (*at == ' ') at++;
    }
    return true;
}

/* ---- one argument ---------------------------------------------------------------------------- */

static bool wrong(const call_row *r, const param *p, PyObject *o, const char *wanted) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %U must be %s, not %R", r->c_name, p->name, wanted, o);
    return false;
}

static bool whole(const call_row *r, const param *p, PyObject *o, int64_t *out) {
    if (PyLong_CheckExact(o)) {
        *out = PyLong_AsLongLong(o);
    } else {
        if (PyFloat_Check(o)) return wrong(r, p, o, "an int");
        PyObject *i = PyNumber_Index(o);
        if (!i) return wrong(r, p, o, "an int");
        *out = PyLong_AsLongLong(i);
        Py_DECREF(i);
    }
    return *out != -1 || !PyErr_Occurred();
}

static bool axis_in(const call_row *r, const param *p, PyObject *o, int *out) {
    int64_t z;
    if (!whole(r, p, o, &z)) return false;
    *out = z > INT_MAX ? INT_MAX : z <= INT_MIN ? INT_MIN + 1 : (int)z;
    return true;
}

bool sizes_of(PyObject *o, int most, int64_t *out, int *n, const char *what) {
    if (PyLong_Check(o) || (!PyTuple_Check(o) && !PyList_Check(o) && PyIndex_Check(o))) {
        *n = 1;
        PyObject *i = PyNumber_Index(o);
        *out = i ? PyLong_AsLongLong(i) : -1;
        Py_XDECREF(i);
        return *out != -1 || !PyErr_Occurred();
    }
    PyObject *list = PySequence_Tuple(o);
    if (!list) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: an int or several are wanted, not %R", what, o);
        return false;
    }
    Py_ssize_t count = PyTuple_Size(list);
    bool fine = count <= most;
    if (!fine) PyErr_Format(PyExc_ValueError, "%s: %zd ints are more than %d", what, count, most);
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        PyObject *one = PyNumber_Index(PyTuple_GetItem(list, i));
        out[i] = one ? PyLong_AsLongLong(one) : -1;
        fine = out[i] != -1 || !PyErr_Occurred();
        Py_XDECREF(one);
    }
    *n = (int)count;
    Py_DECREF(list);
    if (!fine && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: an int or several are wanted, not %R", what, o);
    }
    return fine;
}

static bool axes_in(const call_row *r, const param *p, PyObject *o, argument *v) {
    v->one = v->all = false;
    if (PyLong_Check(o)) {
        v->one = true;
        v->n = 1;
        return axis_in(r, p, o, v->axis);
    }
    if (!sizes_of(o, 12, v->size, &v->n, r->c_name)) return false;
    for (int i = 0; i < v->n; i++)
        v->axis[i] = v->size[i] > INT_MAX    ? INT_MAX
                     : v->size[i] <= INT_MIN ? INT_MIN + 1
                                             : (int)v->size[i];
    if (v->n == 1 && PyIndex_Check(o)) v->one = true;
    return true;
}

static bool word_in(const call_row *r, const param *p, PyObject *o, argument *v) {
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
    if (text && !*text) text = "?";
    int64_t k = 0;
    for (const char *w = words[p->words]; text && *w; k++) {
        size_t n = strcspn(w, " ");
        if (strlen(text) == n && !memcmp(text, w, n)) {
            v->z = k;
            return true;
        }
        w += n + (w[n] == ' ');
    }
    PyErr_Format(PyExc_ValueError, "%s: %U must be one of \"%s\", not %R", r->c_name, p->name,
                 words[p->words], o);
    return false;
}

static bool floats_in(const call_row *r, const param *p, PyObject *o, argument *v) {
    if (PyFloat_Check(o) || PyLong_Check(o)) {
        v->number[0] = PyFloat_AsDouble(o);
        v->n = 1;
        v->list = NULL;
        return !PyErr_Occurred();
    }
    PyObject *list = PySequence_Tuple(o);
    if (!list) return wrong(r, p, o, "a float or several");
    v->n = (int)PyTuple_Size(list);
    double *d = v->list = PyMem_Malloc(((size_t)v->n + 1) * sizeof *d);
    bool fine = d != NULL;
    for (int i = 0; fine && i < v->n; i++) {
        d[i] = PyFloat_AsDouble(PyTuple_GetItem(list, i));
        fine = !PyErr_Occurred();
    }
    Py_DECREF(list);
    return fine || wrong(r, p, o, "a float or several");
}

/* Tensors say which context is theirs: a call without any has none to tell. */
static bool has_other_tensors(const call_row *r, const param *p) {
    for (int i = 0; i < r->params; i++)
        if (&r->param[i] != p && strchr("TSL", r->param[i].kind)) return true;
    return false;
}

static bool tensors_in(const call_row *r, const param *p, PyObject *o, argument *v) {
    if (is_tensor(o)) return wrong(r, p, o, "a list of tensors");
    PyObject *list = PySequence_Tuple(o);
    if (!list) return wrong(r, p, o, "a list of tensors");
    v->n = (int)PyTuple_Size(list);
    v->o = list; /* it keeps them */
    if (!v->n && !has_other_tensors(r, p)) {
        PyErr_Format(PyExc_ValueError, "%s: %U is empty; it takes at least one tensor", r->c_name,
                     p->name);
        return false;
    }
    qn_tensor **t = v->list = PyMem_Malloc(((size_t)v->n + 1) * sizeof *t);
    for (int i = 0; t && i < v->n; i++) {
        PyObject *one = PyTuple_GetItem(list, i);
        if (!is_tensor(one)) return wrong(r, p, one, "a list of tensors");
        t[i] = handle_of(one);
        if (!t[i]) return false;
    }
    return t != NULL;
}

/* One number for all axes, or one each: for how many is asked when x is known. */
static bool each_in(const call_row *r, PyObject *o, int most, argument *v) {
    if (!sizes_of(o, most, v->size, &v->n, r->c_name)) return false;
    for (int i = v->n; i < most; i++) v->size[i] = v->n == 1 ? v->size[0] : 0;
    v->all = v->n == 1;
    return true;
}

/* "same", one number for all sides, one for each axis, or (before, after) for each. */
static bool padding_in(const call_row *r, const param *p, PyObject *o, argument *v) {
    v->same = false;
    if (PyUnicode_Check(o)) {
        if (PyUnicode_CompareWithASCIIString(o, "same"))
            return wrong(r, p, o, "\"same\" or numbers");
        v->same = v->all = true;
        memset(v->size, 0, sizeof v->size);
        memset(v->after, 0, sizeof v->after);
        return true;
    }
    PyObject *first =
        PySequence_Check(o) && PySequence_Size(o) > 0 ? PySequence_GetItem(o, 0) : NULL;
    bool pairs = first && PySequence_Check(first);
    Py_XDECREF(first);
    PyErr_Clear();
    if (!pairs) {
        if (!each_in(r, o, 3, v)) return false;
        memcpy(v->after, v->size, sizeof v->after);
        return true;
    }
    int64_t two[2];
    int n = 0;
    Py_ssize_t axes = PySequence_Size(o);
    v->n = axes > INT_MAX ? INT_MAX : (int)axes;
    for (Py_ssize_t i = 0; i < axes && i < 3; i++) {
        PyObject *one = PySequence_GetItem(o, i);
        bool fine = one && PySequence_Check(one) && sizes_of(one, 2, two, &n, r->c_name) && n == 2;
        Py_XDECREF(one);
        if (!fine) return PyErr_Occurred() ? false : wrong(r, p, o, "pairs of numbers");
        v->size[i] = two[0];
        v->after[i] = two[1];
    }
    return true;
}

/* Long because each kind has its case. */
static bool convert(const call_row *r, const param *p, PyObject *o, argument *v) {
    int i;
    v->given = true;
    switch (p->kind) {
    case 'a':
        v->one = true;
        return axis_in(r, p, o, v->axis);
    case 'A':
        return axes_in(r, p, o, v);
    case 'I':
        if (!axis_in(r, p, o, &i)) return false;
        v->z = i;
        return true;
    case 'Z':
        return whole(r, p, o, &v->z);
    case 'U': {
        PyObject *index = PyNumber_Index(o);
        if (!index) return wrong(r, p, o, "an int");
        v->z = (int64_t)PyLong_AsUnsignedLongLong(index);
        Py_DECREF(index);
        return !PyErr_Occurred();
    }
    case 'F':
        v->f = PyFloat_AsDouble(o);
        return v->f != -1 || !PyErr_Occurred() || wrong(r, p, o, "a float");
    case 'B':
        i = PyObject_IsTrue(o);
        v->z = i;
        return i >= 0;
    case 'D': {
        qn_dtype d;
        if (!dtype_of(o, &d)) return false;
        v->z = d;
        return true;
    }
    case 'P':
        return sizes_of(o, 12, v->size, &v->n, r->c_name);
    case 'Q':
        return each_in(r, o, 12, v);
    case 'R':
    case 'V':
        memset(v->size, 0, sizeof v->size);
        return sizes_of(o, p->kind == 'R' ? 12 : 2 * QN_MAX_RANK, v->size, &v->n, r->c_name);
    case 'E':
        return floats_in(r, p, o, v);
    case 'L':
        return tensors_in(r, p, o, v);
    case 'e':
        return word_in(r, p, o, v);
    case 'W':
        v->text = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
        return v->text || wrong(r, p, o, "a text");
    case 'X':
        v->o = o;
        return is_number(o) || wrong(r, p, o, "a number");
    case '3':
        return each_in(r, o, 3, v);
    case 'g':
        if (!floats_in(r, p, o, v)) return false;
        v->all = v->n == 1;
        for (i = 0; v->list && i < v->n && i < 3; i++) v->number[i] = ((double *)v->list)[i];
        for (i = v->n; i < 3; i++) v->number[i] = v->n == 1 ? v->number[0] : 0;
        return true;
    case 'p':
        return padding_in(r, p, o, v);
    default:
        return false;
    }
}

/* What a parameter is that was not given. */
static void unset(const param *p, argument *v) {
    v->given = false;
    v->one = v->all = false;
    switch (p->kind) {
    case 'A':
    case 'a':
        v->one = true;
        v->n = p->none ? 0 : 1;
        v->all = p->none;
        v->axis[0] = p->none ? QN_ALL : (int)p->number;
        break;
    case 'F':
        v->f = p->number;
        break;
    case '3':
    case 'p':
    case 'g':
        for (int i = 0; i < 3; i++) v->size[i] = v->after[i] = 0, v->number[i] = 0;
        v->same = false;
        break;
    case 'P':
        v->n = 0;
        break;
    default:
        v->z = (int64_t)p->number;
    }
    v->list = NULL;
    v->o = NULL;
    v->t = NULL;
    v->made = false;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool complain(const call_row *r, const char *text, PyObject *name) {
    PyErr_Format(PyExc_TypeError, "%s() %s %U", r->c_name, text, name);
    return false;
}

static int named(const call_row *r, const char *name) {
    for (int i = 0; i < r->params; i++)
        if (!PyUnicode_CompareWithASCIIString(r->param[i].name, name)) return i;
    return -1;
}

/* Under PyTorch's name: dim, dims and keepdim. */
static int number_by_other_name(const call_row *r, PyObject *name) {
    static const char *const other[][2] = {{"dim", "axis"},
                                           {"dim", "axes"},
                                           {"dims", "axes"},
                                           {"dims", "axis"},
                                           {"keepdim", "keepdims"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (PyUnicode_CompareWithASCIIString(name, other[i][0])) continue;
        int k = named(r, other[i][1]);
        if (k >= 0) return k;
    }
    return -1;
}

static int number_of(const call_row *r, PyObject *name) {
    for (int i = 0; i < r->params; i++)
        if (r->param[i].name == name) return i;
    for (int i = 0; i < r->params; i++)
        if (!PyUnicode_Compare(r->param[i].name, name)) return i;
    return number_by_other_name(r, name);
}

/* Sizes, axes and tensors may be given one by one where nothing follows them: reshape(2, 3). */
static PyObject *rest(const call_row *r, PyObject *const *args, Py_ssize_t n) {
    int last = r->positional - 1;
    bool list = last >= 0 && strchr("PQRVAL", r->param[last].kind);
    if (!list) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, but %zd are given", r->c_name,
                     r->positional, n);
        return NULL;
    }
    PyObject *tuple = PyTuple_New(n - last);
    for (Py_ssize_t i = last; tuple && i < n; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(tuple, i - last, args[i]);
    }
    return tuple;
}

/* Arguments by parameter, NULL where there is none; `made` is to be released. */
static bool sorted(const call_row *r, PyObject *const *args, Py_ssize_t n, PyObject *names,
                   PyObject **by, PyObject **made) {
    Py_ssize_t more = names ? PyTuple_Size(names) : 0;
    PyObject *const *named = args + n;
    const bool one =
        n && n == r->positional && r->param[n - 1].kind == 'L' && is_tensor(args[n - 1]);
    if (unlikely(n > r->positional || one)) { /* one tensor is a list of itself */
        *made = rest(r, args, n);
        if (!*made) return false;
        n = r->positional;
    }
    for (Py_ssize_t i = 0; i < n; i++) by[i] = args[i];
    if (*made) by[n - 1] = *made;
    for (int i = (int)n; i < r->params; i++) by[i] = NULL;
    for (Py_ssize_t i = 0; i < more; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int k = number_of(r, name);
        if (k < 0) return complain(r, "has no argument", name);
        if (by[k]) return complain(r, "is given twice", name);
        by[k] = named[i];
    }
    return true;
}

static bool is_tensor_kind(const param *p) {
    return p->kind == 'S' || p->kind == 'T';
}

static bool number_operand(PyObject *o) {
    return !is_tensor(o) && number_kind(o) >= 0;
}

/* The dtype where tensors and arrays meet; false: there are none. */
static bool meeting(const call_row *r, const argument *v, qn_dtype *out) {
    bool any = false;
    for (int i = 0; i < r->params; i++) {
        if (!is_tensor_kind(&r->param[i]) || !v[i].t || r->param[i].apart) continue;
        qn_dtype one = qn_dtype_of(v[i].t), both = any ? qn_dtype_promote(*out, one) : one;
        *out = (int)both < 0 ? one : both;
        any = true;
    }
    return any;
}

/* What is no tensor becomes one: arrays first, so that numbers know beside what they are. */
static bool others_in(const call_row *r, PyObject **by, argument *v) {
    qn_ctx *qn = NULL;
    for (int i = 0; i < r->params && !qn; i++)
        if (is_tensor_kind(&r->param[i]) && v[i].t) qn = qn_context(v[i].t);
    if (!qn) qn = core_ctx();
    qn_dtype dtype = QN_BOOL;
    for (int numbers = 0; qn && numbers < 2; numbers++) {
        bool beside = meeting(r, v, &dtype);
        for (int i = 0; i < r->params; i++) {
            if (!is_tensor_kind(&r->param[i]) || !v[i].given || v[i].t) continue;
            if (number_operand(by[i]) != numbers) continue;
            bool weak = numbers && beside && !r->param[i].apart;
            v[i].t = weak      ? number_beside(qn, dtype, by[i])
                     : numbers ? tensor_from(qn, by[i], NULL)
                               : operand(by[i], NULL, &v[i].made);
            if (!v[i].t) return false;
            v[i].made = true;
            beside = beside || meeting(r, v, &dtype);
        }
    }
    return qn != NULL;
}

/* Numbers beside tensors take the dtype in which those meet. */
static bool operands_in(const call_row *r, PyObject **by, argument *v, bool *plain) {
    bool others = false;
    for (int i = 0; i < r->params; i++) {
        if (!is_tensor_kind(&r->param[i])) continue;
        if (!by[i] || (by[i] == Py_None && r->param[i].none)) continue;
        v[i].given = true;
        if (likely(is_tensor(by[i]))) {
            v[i].t = handle_of(by[i]);
            if (unlikely(!v[i].t)) return false;
        } else {
            others = true;
        }
    }
    *plain |= others;
    return likely(!others) || others_in(r, by, v);
}

/* The handles again, for Python's code may have run since they were asked for. */
static bool handles_again(const call_row *r, PyObject **by, argument *v) {
    core_enter();
    for (int i = 0; i < r->params; i++) {
        if (is_tensor_kind(&r->param[i]) && v[i].t && !v[i].made) {
            v[i].t = handle_of(by[i]);
            if (!v[i].t) return false;
        }
        qn_tensor **list = r->param[i].kind == 'L' ? v[i].list : NULL;
        for (int k = 0; list && k < v[i].n; k++) {
            list[k] = handle_of(PyTuple_GetItem(v[i].o, k));
            if (!list[k]) return false;
        }
    }
    return true;
}

/* How many numbers a parameter is to have; -1: any. */
static int wanted(const call_row *r, const argument *v, int i, const char **what) {
    const param *p = &r->param[i];
    *what = "axes of x";
    if (p->alike) return *what = "numbers before", i ? v[i - 1].n : -1;
    if (!strchr("QRV3gp", p->kind)) return -1;
    /* Columns have no spatial axes yet, but places are given for them. */
    bool columns = !strcmp(r->c_name, "col2im");
    int rank = v[0].t ? qn_rank(v[0].t) : -1;
    if (p->kind == 'R') return rank;
    if (p->kind == 'V') return *what = "axes of x, two each", 2 * rank;
    *what = "spatial axes";
    return columns ? v[1].n : rank > 2 ? rank - 2 : -1;
}

static bool counts_fit(const call_row *r, PyObject **by, const argument *v) {
    for (int i = 0; i < r->params; i++) {
        if (!v[i].given || !by[i] || (v[i].all && r->param[i].kind != 'A')) continue;
        const char *what;
        int n = wanted(r, v, i, &what);
        if (n < 0 || v[i].n == n) continue;
        PyErr_Format(PyExc_ValueError, "%s: %U has %d, %R, and there are %d %s", r->c_name,
                     r->param[i].name, v[i].n, by[i], r->param[i].kind == 'V' ? n / 2 : n, what);
        return false;
    }
    return true;
}

/* All but tensors, each by its kind. */
static bool plain_in(const call_row *r, PyObject **by, argument *v, bool *tensors, bool *plain) {
    for (int i = 0; i < r->params; i++) {
        const param *p = &r->param[i];
        if (!by[i] && !p->optional) return complain(r, "lacks its argument", p->name);
        if (p->kind == 'T' || p->kind == 'S') {
            *tensors = true;
            continue;
        }
        if (!by[i]) continue;
        if (by[i] == Py_None && (p->none || p->kind == 'a' || p->kind == 'A')) {
            if (p->none) continue;
            v[i] = (argument){.given = true, .one = true, .all = true, .axis = {QN_ALL}};
            continue;
        }
        if (by[i] == Py_None && p->optional) continue;
        *plain = true;
        if (!convert(r, p, by[i], &v[i])) return false;
    }
    return true;
}

/* Where functions want a list of axes, None is a list of all. */
static void every_axis(const call_row *r, argument *v) {
    for (int i = 1; i < r->params; i++) {
        if (r->param[i].kind != 'A' || !v[i].all || !v[0].t) continue;
        v[i].n = qn_rank(v[0].t);
        for (int k = 0; k < v[i].n && k < 12; k++) v[i].axis[k] = k;
    }
}

bool parse(const call_row *r, PyObject *const *args, Py_ssize_t n, PyObject *names, argument *v) {
    PyObject *by[MOST_PARAMETERS], *made = NULL;
    bool tensors = false, plain = false;
    for (int i = 0; i < r->params; i++) unset(&r->param[i], &v[i]);
    bool fine = sorted(r, args, n, names, by, &made) && plain_in(r, by, v, &tensors, &plain) &&
                (!tensors || operands_in(r, by, v, &plain));
    if (plain || !fine) {
        fine = fine && handles_again(r, by, v) && counts_fit(r, by, v);
        if (!fine) raise_of(NULL);
    }
    Py_XDECREF(made);
    if (likely(fine) && r->axes) every_axis(r, v);
    return fine;
}

void parse_free(const call_row *r, argument *v) {
    for (int i = 0; i < r->params; i++) {
        if (unlikely(v[i].made)) core_release(v[i].t);
        if (unlikely(v[i].list != NULL)) PyMem_Free(v[i].list);
        if (r->param[i].kind == 'L') Py_XDECREF(v[i].o);
    }
}
