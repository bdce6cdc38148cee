/* ref_scan.c - the oracle's states of several components, and its scans: each element by the
 * monoid's formula, in double, one after the other. */
#include "dev/ref.h"

monoid_state ref_state_of(int by, qn_dtype in) {
    monoid_state t = {.monoid = by};
    const monoid_row *row = &monoid_rows[by];
    for (int i = 0; i < row->states; i++) {
        bool value = row->part[i].dtype == MONOID_VALUE;
        t.dtype[i] = !value ? (qn_dtype)row->part[i].dtype : dtype_is_float(in) ? QN_F64 : in;
        t.part[i] = monoid_identity(by, i, t.dtype[i]);
    }
    return t;
}

/* One more element, of one or two operands, at that index. */
void ref_step_state(monoid_state *t, scalar x, scalar y, int64_t index) {
    scalar one[MONOID_STATES];
    for (int i = 0; i < monoid_rows[t->monoid].states; i++) {
        int lift = monoid_rows[t->monoid].part[i].lift;
        if (lift == LIFT_PLACE)
            one[i].i = index;
        else if (lift == LIFT_TERM || lift == LIFT_SECOND)
            one[i] = lift == LIFT_TERM ? x : y;
        else
            one[i] = scalar_number(t->dtype[i], lift == LIFT_ONE);
    }
    monoid_combine_scalars(t->monoid, t->dtype, t->part, one, t->part);
}

scalar ref_result_of(const monoid_state *t, qn_dtype to) {
    qn_dtype from;
    scalar v = monoid_finish_scalars(t->monoid, t->dtype, t->part, &from);
    if (dtype_is_float(to) && !dtype_is_float(from)) v.f = (double)v.i;
    return v;
}

/* ---- scans ---------------------------------------------------------------------------------- */

/* Sums of f64 in long double, as in reductions. */
static scalar scan_step(monoid_state *t, long double *sum, scalar x, scalar y, int64_t index) {
    if (t->monoid == MONOID_SUM && t->dtype[0] == QN_F64) {
        *sum += (long double)x.f;
        return (scalar){.f = (double)*sum};
    }
    ref_step_state(t, x, y, index);
    return ref_result_of(t, t->dtype[0]);
}

void ref_eval_scan(const dev_node *node) {
    const dev_array *out = &node->out;
    int axis = (int)node->attr[1], by = (int)node->attr[0];
    int64_t length = out->dim[axis], inner = 1, outer = 1;
    for (int d = 0; d < out->rank; d++)
        if (d < axis)
            outer *= out->dim[d];
        else if (d > axis)
            inner *= out->dim[d];
    for (int64_t row = 0; row < outer * inner; row++) {
        monoid_state t = ref_state_of(by, node->src[0].dtype);
        long double sum = 0;
        for (int64_t i = 0; i < length; i++) {
            int64_t place = node->attr[2] ? length - 1 - i : i;
            int64_t flat = (row / inner * length + place) * inner + row % inner;
            scalar x[2] = {{0}};
            for (int k = 0; k < node->sources; k++) {
                const dev_array *a = &node->src[k];
                int64_t at = 0, rest = flat;
                for (int d = a->rank; d-- > 0; rest /= a->dim[d])
                    at += rest % a->dim[d] * a->stride[d];
                ref_load(a->dtype, a->data, 1, &at, &x[k]);
            }
            scalar v = scan_step(&t, &sum, x[0], x[1], place);
            ref_store(out, flat, 1, &v);
        }
    }
}
