/* sequence.c - lists of tensors between nodes. They are no values of the graph: a list is known
 * while the model is recorded, and what is taken from it is the tensor itself. Inputs and outputs
 * of a model are none. */
#include "onnx/onnx.h"

static onnx_value *list_new(onnx_op *o, int n) {
    onnx_value *v = value_new(o->run, "", NULL, 0, false);
    run_spend(o->run, (uint64_t)n);
    v->item = op_alloc(o, (size_t)n, sizeof *v->item);
    v->items = n;
    v->list = true;
    return v;
}

static onnx_value *list_of(const onnx_op *o) {
    onnx_value *v = o->n_in ? o->value[0] : NULL;
    if (!v || !v->list) op_fail(o, QN_EARG, "input 0 is no sequence");
    return v;
}

/* A place of a list of n, which input i says, counted from the end below 0. */
static int place_in(onnx_op *o, int i, int n, int otherwise) {
    int64_t at = op_int(o, i, otherwise);
    if (at < -n || at > n) op_fail(o, QN_ERANGE, "place %lld of %d", (long long)at, n);
    return (int)(at < 0 ? at + n : at);
}

void op_list_of_inputs(onnx_op *o) {
    onnx_value *v = list_new(o, o->n_in);
    for (int i = 0; i < o->n_in; i++) {
        if (!o->value[i]) op_fail(o, QN_EARG, "input %d is missing", i);
        v->item[i] = o->value[i];
    }
    o->made[0] = v;
}

void op_list_at(onnx_op *o) {
    const onnx_value *v = list_of(o);
    int at = place_in(o, 1, v->items, 0);
    if (at >= v->items) op_fail(o, QN_ERANGE, "place %d of %d", at, v->items);
    o->made[0] = v->item[at];
}

void op_list_length(onnx_op *o) {
    qn_tensor *t = qn_scalar_int(o->run->model->aside, QN_I64, list_of(o)->items);
    o->made[0] = value_new(o->run, "", t, ONNX_INT64, true);
}

enum { INSERT, ERASE };

void op_list_change(onnx_op *o) {
    const onnx_value *v = list_of(o);
    bool inserts = o->row->variant == INSERT;
    int n = v->items, at = place_in(o, inserts ? 2 : 1, n, inserts ? n : n - 1);
    if (inserts && (o->n_in < 2 || !o->value[1])) op_fail(o, QN_EARG, "no tensor to insert");
    if (!inserts && at >= n) op_fail(o, QN_ERANGE, "place %d of %d", at, n);
    onnx_value *made = list_new(o, inserts ? n + 1 : n - 1);
    for (int i = 0; i < made->items; i++)
        made->item[i] = inserts ? (i < at    ? v->item[i]
                                   : i == at ? o->value[1]
                                             : v->item[i - 1])
                                : v->item[i < at ? i : i + 1];
    o->made[0] = made;
}

/* Parts of an axis: of one size, of sizes that are listed, or its places. */
void op_list_split(onnx_op *o) {
    int rank, n, count;
    const int64_t *dims = op_shape(o, 0, &rank), *sizes = op_ints(o, 1, &n);
    int axis = op_axis(o, attr_int(o, "axis", 0), rank);
    bool listed = sizes && op_rank(o, 1) == 1, keep = sizes || attr_int(o, "keepdims", 1) != 0;
    int64_t all = dims[axis], each = sizes && !listed && n == 1 ? sizes[0] : 1, at = 0;
    if (each > all && all > 0) each = all;
    if (each < 1 || all > 1 << 20) op_fail(o, QN_ERANGE, "parts of %lld", (long long)each);
    count = listed ? n : (int)((all + each - 1) / each);
    onnx_value *v = list_new(o, count);
    for (int i = 0; i < count; i++) {
        int64_t size = listed ? sizes[i] : at + each > all ? all - at : each;
        qn_tensor *part = qn_narrow(op_in(o, 0), axis, at, size);
        if (!keep) part = qn_squeeze(part, axis);
        if (!part) op_fail(o, qn_error_code(o->qn), "%s", qn_error(o->qn));
        v->item[i] = value_new(o->run, "", part, op_type(o, 0), false);
        at += size;
    }
    o->made[0] = v;
}

void op_list_concat(onnx_op *o) {
    const onnx_value *v = list_of(o);
    bool stack = attr_int(o, "new_axis", 0) != 0;
    qn_tensor **x = op_alloc(o, (size_t)v->items, sizeof(qn_tensor *));
    if (!v->items) op_fail(o, QN_EARG, "an empty sequence");
    for (int i = 0; i < v->items; i++) x[i] = value_main(o->run, v->item[i]);
    int axis = (int)attr_int(o, "axis", 0);
    o->out[0] = (stack ? qn_stack : qn_concat)(v->items, x, axis);
    o->type[0] = v->item[0]->type;
}
