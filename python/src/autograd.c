/* autograd.c - derivatives: the C API's calls on lists of tensors, and backward(), which adds
 * gradients to the tensors that ask for them. What is made of these for functions of Python is in
 * quern/autograd.py. */
#include "core.h"

#include <string.h>

void tensors_free(tensor_list *x) {
    PyMem_Free(x->t);
    Py_XDECREF(x->keep);
}

bool tensors_of(PyObject *o, bool none, const char *what, tensor_list *x) {
    *x = (tensor_list){.keep = PySequence_Tuple(o)};
    if (!x->keep) return false;
    x->n = (int)PyTuple_Size(x->keep);
    x->t = PyMem_Calloc((size_t)x->n + 1, sizeof *x->t);
    if (!x->t) return PyErr_NoMemory(), false;
    for (int i = 0; i < x->n; i++) {
        PyObject *one = PyTuple_GetItem(x->keep, i);
        if (none && one == Py_None) continue;
        if (!is_tensor(one)) {
            PyErr_Format(PyExc_TypeError, "%s: %R is no tensor", what, one);
            return false;
        }
        if (!(x->t[i] = handle_of(one))) return false;
    }
    return true;
}

/* n results as a tuple, or the error. */
static PyObject *results(qn_code code, int n, qn_tensor **out) {
    if (code < 0) return raise_of(NULL);
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *one = tensor_wrap(out[i]);
        if (tuple && one)
            PyTuple_SetItem(tuple, i, one);
        else
            Py_XDECREF(one);
        if (!one) Py_CLEAR(tuple);
    }
    return tuple;
}

typedef qn_code several_call(tensor_list *list, qn_tensor **out);

/* A call of `lists` lists: as many results as list `of` has. */
static PyObject *call_lists(PyObject *args, int lists, unsigned none, int of, several_call *call) {
    tensor_list list[4] = {{0}};
    PyObject *r = NULL;
    bool fine = PyTuple_Size(args) == lists;
    if (!fine) PyErr_Format(PyExc_TypeError, "%d lists of tensors are wanted", lists);
    core_enter();
    for (int i = 0; fine && i < lists; i++)
        fine = tensors_of(PyTuple_GetItem(args, i), none >> i & 1, "derivative", &list[i]);
    qn_tensor **out = fine ? PyMem_Calloc((size_t)list[of].n + 1, sizeof *out) : NULL;
    if (out) r = results(call(list, out), list[of].n, out);
    PyMem_Free(out);
    for (int i = 0; i < lists; i++) tensors_free(&list[i]);
    return r;
}

static bool as_many(const tensor_list *a, const tensor_list *b, const char *what) {
    if (a->n == b->n) return true;
    PyErr_Format(PyExc_ValueError, "%s: %d for %d tensors", what, b->n, a->n);
    return false;
}

static qn_code call_vjp(tensor_list *x, qn_tensor **out) {
    if (!as_many(&x[0], &x[1], "seeds")) return QN_EARG;
    return qn_vjp(x[0].n, x[0].t, x[1].t, x[2].n, x[2].t, out);
}

static qn_code call_jvp(tensor_list *x, qn_tensor **out) {
    if (!as_many(&x[1], &x[2], "tangents")) return QN_EARG;
    return qn_jvp(x[0].n, x[0].t, x[1].n, x[1].t, x[2].t, out);
}

static qn_code call_hvp(tensor_list *x, qn_tensor **out) {
    if (!as_many(&x[1], &x[2], "tangents") || x[0].n != 1) return QN_EARG;
    return qn_hvp(x[0].t[0], x[1].n, x[1].t, x[2].t, out);
}

static qn_code call_checkpoint(tensor_list *x, qn_tensor **out) {
    return qn_checkpoint(x[0].n, x[0].t, x[1].n, x[1].t, out);
}

static qn_code call_custom(tensor_list *x, qn_tensor **out) {
    if (!as_many(&x[0], &x[1], "placeholders") || !as_many(&x[2], &x[3], "slopes")) return QN_EARG;
    return qn_custom_gradient(x[0].n, x[0].t, x[1].t, x[2].n, x[2].t, x[3].t, out);
}

static PyObject *vjp(PyObject *self, PyObject *args) {
    (void)self;
    return call_lists(args, 3, 2, 2, call_vjp);
}

static PyObject *jvp(PyObject *self, PyObject *args) {
    (void)self;
    return call_lists(args, 3, 0, 0, call_jvp);
}

static PyObject *hvp(PyObject *self, PyObject *args) {
    (void)self;
    return call_lists(args, 3, 0, 1, call_hvp);
}

static PyObject *checkpoint(PyObject *self, PyObject *args) {
    (void)self;
    return call_lists(args, 2, 0, 0, call_checkpoint);
}

static PyObject *custom_gradient(PyObject *self, PyObject *args) {
    (void)self;
    return call_lists(args, 4, 8, 0, call_custom);
}

static PyObject *two(PyObject *args, qn_tensor *call(qn_tensor *, qn_tensor *)) {
    PyObject *y, *x;
    if (!PyArg_ParseTuple(args, "O!O!", core.tensor_type, &y, core.tensor_type, &x)) return NULL;
    core_enter();
    qn_tensor *t = call(handle_of(y), handle_of(x));
    return t ? tensor_wrap(t) : raise_of(NULL);
}

static PyObject *jacobian(PyObject *self, PyObject *args) {
    (void)self;
    return two(args, qn_jacobian);
}

static PyObject *hessian(PyObject *self, PyObject *args) {
    (void)self;
    return two(args, qn_hessian);
}

static PyObject *placeholder(PyObject *self, PyObject *y) {
    (void)self;
    if (!is_tensor(y)) return PyErr_SetString(PyExc_TypeError, "a tensor is wanted"), NULL;
    core_enter();
    qn_tensor *t = qn_placeholder(handle_of(y));
    return t ? tensor_wrap(t) : raise_of(NULL);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Those with requires_grad that y was made of, with references; -1 with an exception. */
static int reached(qn_tensor *y, tensor_object ***found, qn_tensor ***handles) {
    int n = 0, m = 0;
    qn_ctx *qn = qn_context(y);
    for (tensor_object *o = core.requiring; o; o = o->next) n++;
    tensor_object **x = PyMem_Calloc((size_t)n + 1, sizeof *x);
    qn_tensor **t = PyMem_Calloc((size_t)n + 1, sizeof *t);
    int32_t *is = PyMem_Calloc((size_t)n + 1, sizeof *is);
    *found = x;
    *handles = t;
    if (!x || !t || !is) return PyMem_Free(is), PyErr_NoMemory(), -1;
    for (tensor_object *o = core.requiring; o; o = o->next) {
        if (trace_object(o) != o) continue; /* its stand-in is here, too */
        if (o->epoch % EPOCH_FORK && o->epoch != core.epoch) continue; /* of a trace that ended */
        qn_tensor *own = tracing() && o->epoch != core.epoch ? capture_of(o) : o->t;
        if (own && qn_context(own) == qn) x[m] = o, t[m++] = own;
    }
    if (qn_depends(1, &y, m, t, is) < 0) {
        PyMem_Free(is);
        raise_of(qn);
        return -1;
    }
    n = m;
    m = 0;
    for (int i = 0; i < n; i++)
        if (is[i]) x[m] = x[i], t[m] = t[i], Py_INCREF((PyObject *)x[m]), m++;
    PyMem_Free(is);
    return m;
}

int has_history(qn_tensor *y) {
    tensor_object **x = NULL;
    qn_tensor **t = NULL;
    int n = reached(y, &x, &t);
    for (int i = 0; i < n; i++) Py_DECREF((PyObject *)x[i]);
    PyMem_Free(x);
    PyMem_Free(t);
    return n < 0 ? -1 : n > 0;
}

/* grad += g, without history. */
static bool accumulate(tensor_object *x, qn_tensor *g) {
    qn_tensor *sum = x->grad ? qn_add(handle_of(x->grad), g) : qn_keep(g), *bare = NULL;
    if (sum) bare = qn_detach(sum);
    if (sum) qn_release(sum);
    PyObject *o = bare ? tensor_wrap(bare) : raise_of(NULL);
    bool done = o && !PyObject_SetAttrString((PyObject *)x, "grad", o);
    Py_XDECREF(o);
    return done;
}

static PyObject *backward(PyObject *self, PyObject *args) {
    PyObject *seed = Py_None;
    if (!PyArg_ParseTuple(args, "|O:backward", &seed)) return NULL;
    core_enter();
    qn_tensor *y = handle_of(self), *with = seed == Py_None   ? NULL
                                            : is_tensor(seed) ? handle_of(seed)
                                                              : NULL;
    if (!y) return NULL;
    if (seed != Py_None && !with)
        return PyErr_SetString(PyExc_TypeError, "a seed is a tensor"), NULL;
    if (!with && qn_numel(y) != 1) {
        PyErr_SetString(PyExc_ValueError,
                        "backward of several elements wants a seed of their shape");
        return NULL;
    }
    if (tracing()) trace_backward();
    tensor_object **x = NULL;
    qn_tensor **t = NULL, **g = NULL;
    int n = reached(y, &x, &t), given = 0;
    bool fine = n > 0;
    if (!n)
        PyErr_SetString(PyExc_RuntimeError,
                        "backward: no tensor with requires_grad has a part in this");
    if (fine) g = PyMem_Calloc((size_t)n, sizeof *g);
    if (g && qn_grad(y, with, n, t, g) < 0) raise_of(NULL);
    for (int i = 0; g && i < n && g[i]; i++, given++) fine = fine && accumulate(x[i], g[i]);
    for (int i = 0; i < given; i++) core_release(g[i]);
    for (int i = 0; i < n; i++) Py_DECREF((PyObject *)x[i]);
    PyMem_Free(x);
    PyMem_Free(t);
    PyMem_Free(g);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *requires_grad_(PyObject *self, PyObject *args) {
    PyObject *on = Py_True;
    if (!PyArg_ParseTuple(args, "|O", &on) || PyObject_SetAttrString(self, "requires_grad", on))
        return NULL;
    Py_INCREF(self);
    return self;
}

static PyObject *zero_grad(PyObject *self, PyObject *none) {
    (void)none;
    if (PyObject_SetAttrString(self, "grad", Py_None)) return NULL;
    Py_RETURN_NONE;
}

bool autograd_add(PyObject *module) {
    static PyMethodDef functions[] = {
        {"vjp_of", vjp, METH_VARARGS,
         "vjp_of(ys, seeds, xs, /)\n--\n\nSeeds times the Jacobian; a seed may be None: ones."},
        {"jvp_of", jvp, METH_VARARGS,
         "jvp_of(ys, xs, tangents, /)\n--\n\nThe Jacobian times tangents."},
        {"hvp_of", hvp, METH_VARARGS,
         "hvp_of([y], xs, tangents)\n--\n\nThe Hessian of sum(y) times tangents."},
        {"checkpoint_of", checkpoint, METH_VARARGS,
         "checkpoint_of(ys, xs, /)\n--\n\nThe ys, computed again for gradients."},
        {"custom_gradient_of", custom_gradient, METH_VARARGS,
         "custom_gradient_of(ys, placeholders, xs, slopes, /)\n--\n\nThe ys with gradients that "
         "are "
         "given."},
        {"jacobian_of", jacobian, METH_VARARGS,
         "jacobian_of(y, x, /)\n--\n\nAll derivatives of y's elements by x's."},
        {"hessian_of", hessian, METH_VARARGS,
         "hessian_of(y, x, /)\n--\n\nAll second derivatives of sum(y) by x's elements."},
        {"placeholder", placeholder, METH_O,
         "placeholder(y, /)\n--\n\nIn the place of y's gradient."},
        {0}};
    static PyMethodDef methods[] = {
        {"backward", backward, METH_VARARGS,
         "backward($self, seed=None)\n--\n\nAdd the gradients of this scalar, or of all elements "
         "times the seed, to .grad of "
         "the tensors with requires_grad that it was made of."},
        {"requires_grad_", requires_grad_, METH_VARARGS,
         "requires_grad_($self, on=True)\n--\n\nSet requires_grad; gives the tensor itself."},
        {"zero_grad", zero_grad, METH_NOARGS, "zero_grad($self)\n--\n\nForget .grad."},
        {0}};
    for (PyMethodDef *m = methods; m->ml_name; m++)
        if (!tensor_add_method(m)) return false;
    return !PyModule_AddFunctions(module, functions);
}
