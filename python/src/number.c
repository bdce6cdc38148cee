/* number.c - operators of Python on tensors, beside tensors and numbers.
 *
 * An operation in place, x += y, makes x name the result: what was recorded before keeps the old
 * value, so gradients stay right. Without history it is an assignment to what is data. Other
 * objects are left to say themselves what they do. */
#include "core.h"

typedef qn_tensor *binary_call(qn_tensor *, qn_tensor *);

/* Has `o` a meaning beside a tensor? Arrays of NumPy have; what is none makes NotImplemented. */
static bool has_meaning(PyObject *o) {
    return is_tensor(o) || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) ||
           PyIndex_Check(o) || PyObject_CheckBuffer(o);
}

static qn_tensor *apply(PyObject *a, PyObject *b, binary_call *f) {
    core_enter();
    bool x_made = false, y_made = false;
    qn_tensor *x = is_tensor(a) ? handle_of(a) : NULL, *y = is_tensor(b) ? handle_of(b) : NULL;
    if (!x && !PyErr_Occurred()) x = operand(a, y, &x_made);
    if (!y && x && !PyErr_Occurred()) y = operand(b, x, &y_made);
    if (x && !x_made) x = handle_of(a);
    if (y && !y_made) y = handle_of(b);
    qn_tensor *r = x && y ? f(x, y) : NULL;
    if (x_made && x) core_release(x);
    if (y_made && y) core_release(y);
    return r;
}

static inline PyObject *binary(PyObject *a, PyObject *b, binary_call *f) {
    if (likely(is_tensor(a) && is_tensor(b))) {
        qn_tensor *x = handle_of(a), *y = handle_of(b), *r = likely(x && y) ? f(x, y) : NULL;
        return likely(r != NULL) ? tensor_wrap(r) : raise_of(NULL);
    }
    if (!has_meaning(a) || !has_meaning(b)) Py_RETURN_NOTIMPLEMENTED;
    qn_tensor *r = apply(a, b, f);
    return r ? tensor_wrap(r) : raise_of(NULL);
}

/* x names the result from now on. */
static PyObject *in_place(PyObject *a, PyObject *b, binary_call *f) {
    PyObject *r = binary(a, b, f);
    if (!r || r == Py_NotImplemented) return r;
    tensor_object *x = (tensor_object *)a, *y = (tensor_object *)r;
    qn_tensor *old = handle_of(a);
    if (!old) {
        Py_DECREF(r);
        return NULL;
    }
    bool same = qn_rank(old) == qn_rank(y->t) && qn_dtype_of(old) == qn_dtype_of(y->t);
    for (int i = 0; same && i < qn_rank(old); i++) same = qn_dim(old, i) == qn_dim(y->t, i);
    if (!same) {
        PyObject *from = tensor_shape(old), *to = tensor_shape(y->t);
        if (from && to)
            PyErr_Format(qn_dtype_of(old) == qn_dtype_of(y->t) ? PyExc_ValueError : PyExc_TypeError,
                         "in place: the result is %s%R, and x is %s%R",
                         dtype_name(qn_dtype_of(y->t)), to, dtype_name(qn_dtype_of(old)), from);
        Py_XDECREF(from);
        Py_XDECREF(to);
        Py_DECREF(r);
        return NULL;
    }
    bool done = tensor_become(x, qn_keep(y->t));
    Py_DECREF(r);
    if (!done) return NULL;
    Py_INCREF(a);
    return a;
}

#define BOTH(name, call)                                                                           \
    static PyObject *number_##name(PyObject *a, PyObject *b) {                                     \
        return binary(a, b, call);                                                                 \
    }                                                                                              \
    static PyObject *in_place_##name(PyObject *a, PyObject *b) {                                   \
        return in_place(a, b, call);                                                               \
    }
BOTH(add, qn_add)
BOTH(subtract, qn_sub)
BOTH(multiply, qn_mul)
BOTH(true_divide, qn_div)
BOTH(floor_divide, qn_floor_div)
BOTH(remainder, qn_mod)
BOTH(lshift, qn_shl)
BOTH(rshift, qn_shr)
BOTH(and, qn_and)
BOTH(or, qn_or)
BOTH(xor, qn_xor)
BOTH(matrix_multiply, qn_matmul)

/* x ** 2 is a product, as everywhere. */
static PyObject *number_power(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) {
        PyErr_SetString(PyExc_TypeError, "a power of tensors takes no modulus");
        return NULL;
    }
    if (is_tensor(a) && PyLong_CheckExact(b) && PyLong_AsLong(b) == 2) {
        core_enter();
        qn_tensor *r = qn_mul(handle_of(a), handle_of(a));
        return r ? tensor_wrap(r) : raise_of(NULL);
    }
    PyErr_Clear();
    return binary(a, b, qn_pow);
}

static PyObject *in_place_power(PyObject *a, PyObject *b, PyObject *modulus) {
    (void)modulus;
    return in_place(a, b, qn_pow);
}

#define ONE(name, call)                                                                            \
    static PyObject *number_##name(PyObject *a) {                                                  \
        core_enter();                                                                              \
        qn_tensor *r = call(handle_of(a));                                                         \
        return r ? tensor_wrap(r) : raise_of(NULL);                                                \
    }
ONE(negative, qn_neg)
ONE(absolute, qn_abs)
ONE(invert, qn_not)

/* A tensor of its own: what is assigned to it later leaves the operand alone. */
static qn_tensor *itself(qn_tensor *x) {
    return qn_cast(x, qn_dtype_of(x));
}
ONE(positive, itself)

static PyObject *compare(PyObject *a, PyObject *b, int how) {
    static binary_call *const of[] = {[Py_LT] = qn_lt, [Py_LE] = qn_le, [Py_EQ] = qn_eq,
                                      [Py_NE] = qn_ne, [Py_GT] = qn_gt, [Py_GE] = qn_ge};
    return binary(a, b, of[how]);
}

PyType_Slot *number_slots(void) {
    static PyType_Slot slots[] = {{Py_nb_add, number_add},
                                  {Py_nb_subtract, number_subtract},
                                  {Py_nb_multiply, number_multiply},
                                  {Py_nb_true_divide, number_true_divide},
                                  {Py_nb_floor_divide, number_floor_divide},
                                  {Py_nb_remainder, number_remainder},
                                  {Py_nb_lshift, number_lshift},
                                  {Py_nb_rshift, number_rshift},
                                  {Py_nb_and, number_and},
                                  {Py_nb_or, number_or},
                                  {Py_nb_xor, number_xor},
                                  {Py_nb_matrix_multiply, number_matrix_multiply},
                                  {Py_nb_power, number_power},
                                  {Py_nb_inplace_add, in_place_add},
                                  {Py_nb_inplace_subtract, in_place_subtract},
                                  {Py_nb_inplace_multiply, in_place_multiply},
                                  {Py_nb_inplace_true_divide, in_place_true_divide},
                                  {Py_nb_inplace_floor_divide, in_place_floor_divide},
                                  {Py_nb_inplace_remainder, in_place_remainder},
                                  {Py_nb_inplace_lshift, in_place_lshift},
                                  {Py_nb_inplace_rshift, in_place_rshift},
                                  {Py_nb_inplace_and, in_place_and},
                                  {Py_nb_inplace_or, in_place_or},
                                  {Py_nb_inplace_xor, in_place_xor},
                                  {Py_nb_inplace_matrix_multiply, in_place_matrix_multiply},
                                  {Py_nb_inplace_power, in_place_power},
                                  {Py_nb_negative, number_negative},
                                  {Py_nb_absolute, number_absolute},
                                  {Py_nb_invert, number_invert},
                                  {Py_nb_positive, number_positive},
                                  {Py_nb_bool, tensor_bool},
                                  {Py_nb_int, tensor_int},
                                  {Py_nb_index, tensor_index},
                                  {Py_nb_float, tensor_float},
                                  {Py_tp_richcompare, compare},
                                  {0, NULL}};
    return slots;
}
