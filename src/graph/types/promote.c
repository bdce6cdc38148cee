/* promote.c - where dtypes meet: the dtype of a result before there is one, what a cast keeps, and
 * the switch that forbids casts nobody wrote.
 *
 * Two tensors meet as dtype_promote has it. A number that is no tensor is weak: it says its kind,
 * whole or real, and gives way to any dtype of that kind or a later one (bool, integers, floats).
 *
 * Knob explicit 1 refuses arguments of a call that are of several dtypes. What a composed function
 * does inside is its own business, so only what the caller gave is looked at: the arguments of the
 * outermost function, which stand in the graph while it runs, or those of an operation that was
 * called itself. */
#include "graph/graph.h"

/* ---- results --------------------------------------------------------------------------------- */

static qn_dtype with_number(qn_dtype d, bool some, qn_number number) {
    if (dtype_is_complex((int)d)) return d;
    if (number == QN_REAL_NUMBER) return some && dtype_is_float(d) ? d : QN_F32;
    if (number == QN_WHOLE_NUMBER) return some && d != QN_BOOL ? d : QN_I64;
    return d;
}

qn_dtype qn_result_type(int n, qn_tensor *const *xs, int m, const qn_dtype *dtypes,
                        qn_number number) {
    const qn_dtype none = (qn_dtype)-1;
    qn_dtype d = QN_BOOL;
    if (n < 0 || m < 0 || (n && !xs) || (m && !dtypes)) return none;
    if ((unsigned)number > QN_REAL_NUMBER || (!n && !m && number == QN_NO_NUMBER)) return none;
    for (int i = 0; i < n; i++) {
        const tensor *t = tensor_any(i ? tensor_ctx(xs[0]) : NULL, xs[i], "result_type", "tensor");
        if (!t) return none;
        d = qn_dtype_promote(d, tensor_dtype(t));
    }
    for (int i = 0; i < m; i++) {
        d = qn_dtype_promote(d, dtypes[i]);
        if (d == none) return none;
    }
    return with_number(d, n || m, number);
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* bool, then integers without a sign, those with one, floats */
static int kind_order(const dtype_row *r) {
    switch (r->kind) {
    case KIND_BOOL:
        return 0;
    case KIND_UNSIGNED:
        return 1;
    case KIND_SIGNED:
        return 2;
    default:
        return 3;
    }
}

static bool float_holds(qn_dtype b, qn_dtype a) {
    const dtype_row *x = &dtype_rows[a], *y = &dtype_rows[b];
    return x->fraction <= y->fraction && x->least - x->fraction >= y->least - y->fraction &&
           dtype_most(a) <= dtype_most(b) && (y->infinite || !x->infinite);
}

/* NumPy takes f64 for safe from integers of 64 bits, too. */
static bool is_safe(qn_dtype from, qn_dtype to) {
    const dtype_row *x = &dtype_rows[from], *y = &dtype_rows[to];
    if (from == to || from == QN_BOOL) return true;
    if (kind_order(x) > kind_order(y)) return false;
    if (dtype_is_float(from)) return float_holds(to, from);
    if (!dtype_is_float(to)) return x->fraction <= y->fraction;
    return to == QN_F64 || x->fraction <= y->fraction + 1;
}

bool qn_can_cast(qn_dtype from, qn_dtype to, qn_casting casting) {
    bool loses = dtype_is_complex((int)from) && !dtype_is_complex((int)to);
    from = dtype_part(from), to = dtype_part(to);
    if (!dtype_is_known((int)from) || !dtype_is_known((int)to)) return false;
    if (loses) return casting == QN_CAST_ANY;
    if (casting == QN_CAST_SAFE) return is_safe(from, to);
    if (casting == QN_CAST_SAME_KIND)
        return kind_order(&dtype_rows[from]) <= kind_order(&dtype_rows[to]);
    return casting == QN_CAST_ANY;
}

/* ---- the switch ------------------------------------------------------------------------------ */

static bool was_given(const graph *g, node_id x) {
    for (int i = 0; i < g->given; i++)
        if (g->given_node[i] == x) return true;
    return false;
}

bool dtype_may_meet(const graph *g, node_id x, node_id y) {
    qn_ctx *qn = g->ctx;
    if (qn->knob[KNOB_EXPLICIT].number == 0 || g->node[x].dtype == g->node[y].dtype) return true;
    if (g->func && !(was_given(g, x) && was_given(g, y))) return true;
    fail(qn, QN_EDTYPE, "%s: %s meets %s, and knob explicit is 1: cast one of them",
         graph_name(qn, "call"), qn_dtype_name((qn_dtype)g->node[x].dtype),
         qn_dtype_name((qn_dtype)g->node[y].dtype));
    return false;
}
