/* mask.c - elements that a mask chooses. How many they are is known when the mask is: results are
 * as long as a bound, with a count beside them, and so are shapes known when the graph is made.
 * qn_head cuts them down to the count, which it reads.
 *
 * An index with masks (place.c) is the same: a mask stands for the vectors of its places. */
#include "func/func.h"

/* [bound]: where in the flat order of x those that are not 0 are, and how many. */
static qn_tensor *flat_places(qn_tensor *x, int64_t bound) {
    const call_attr c = {ROUTINE_NONZERO, 0, 0, {0}};
    tuple_id shape;
    qn_tensor *truth = func_truth(x);
    if (!truth || !shape_from_user(tensor_ctx(x), "nonzero", 1, &bound, &shape)) return NULL;
    return build_call(&c, QN_I64, shape, 1, &truth);
}

static qn_tensor *count_of(qn_tensor *x) {
    const call_attr c = {ROUTINE_NONZERO, 1, 0, {0}};
    qn_tensor *truth = func_truth(x);
    return truth ? build_call(&c, QN_I64, 0, 1, &truth) : NULL;
}

/* bool [bound]: is there something at this place of the result? */
static qn_tensor *is_there(qn_tensor *x, int64_t bound) {
    qn_tensor *number = x ? func_iota(tensor_ctx(x), QN_I64, 1, &bound, 0) : NULL;
    return number ? qn_lt(number, count_of(x)) : NULL;
}

static int64_t all_of(const qn_tensor *x) {
    return func_count(x, (1u << func_rank(x)) - 1);
}

/* The bound to use; below 0 after an error. */
static bool bound_of(const char *name, const qn_tensor *x, int64_t *bound) {
    qn_ctx *qn = tensor_ctx(x);
    if (*bound == -1) *bound = all_of(x);
    if (*bound >= 0 || dim_is_code(qn->graph, *bound)) return true;
    return fail(qn, QN_ERANGE, "%s: a bound of %lld elements", graph_name(qn, name),
                (long long)*bound),
           false;
}

/* The places of a mask along each of its axes. Those behind the last lie at `n` of the first axis
 * if `outside`, which is behind its end. */
bool func_mask_places(qn_tensor *mask, int64_t bound, bool outside, qn_tensor **out) {
    int64_t dims[QN_MAX_RANK], step = 1;
    int rank = func_dims(mask, dims);
    qn_tensor *flat = flat_places(mask, bound);
    for (int i = rank; i-- > 0 && flat;) {
        qn_tensor *at = step == 1 ? flat : qn_floor_div(flat, func_size(flat, step));
        out[i] = i ? qn_mod(at, func_size(at, dims[i])) : at;
        if (i == 0 && outside)
            out[i] = qn_where(is_there(mask, bound), out[i], func_size(flat, dims[0]));
        if (!out[i]) return false;
        step = dim_op(tensor_ctx(mask), step, '*', dims[i]);
    }
    return flat;
}

static qn_tensor *places_of(qn_tensor *x, int64_t bound) {
    qn_tensor *column[QN_MAX_RANK];
    if (!bound_of("nonzero", x, &bound)) return NULL;
    if (!func_rank(x))
        return fail_null(tensor_ctx(x), QN_ESHAPE, "%s: of a scalar, which has no places",
                         graph_name(tensor_ctx(x), "nonzero"));
    if (!func_mask_places(x, bound, false, column)) return NULL;
    return qn_stack(func_rank(x), column, 1);
}

/* Gives what of both is asked for, or after an error nothing. */
static qn_code give_both(const qn_tensor *x, qn_tensor *made, qn_tensor *number, qn_tensor **out,
                         qn_tensor **count) {
    bool done = made && number;
    if (done && out) *out = made;
    if (done && count) *count = number;
    if (made && !(done && out)) tensor_unwanted(tensor_at(made));
    if (number && !(done && count)) tensor_unwanted(tensor_at(number));
    return done ? QN_OK : handle_code(x);
}

qn_code qn_nonzero(qn_tensor *x, int64_t bound, qn_tensor **places, qn_tensor **count) {
    if (places) *places = NULL;
    if (count) *count = NULL;
    func_frame f = func_on("nonzero", ARG(x));
    qn_tensor *made = func_end(f, x ? places_of(x, bound) : NULL);
    f = func_on("nonzero", ARG(x));
    return give_both(x, made, func_end(f, made ? count_of(x) : NULL), places, count);
}

/* The mask in x's shape. */
static qn_tensor *mask_on(qn_tensor *x, qn_tensor *mask) {
    if (!x || !mask) return NULL;
    if (!func_fits(mask, x)) return tensor_unfit("x", x, "mask", mask, "mask fits x");
    return func_broadcast(func_truth(mask), x);
}

static qn_tensor *selected(qn_tensor *x, qn_tensor *mask, int64_t bound) {
    mask = mask_on(x, mask);
    if (!mask || !bound_of("masked_select", x, &bound)) return NULL;
    int64_t all = all_of(x);
    qn_tensor *at = flat_places(mask, bound);
    x = at ? build_gather(func_reshape(x, 1, &all), at, 0) : NULL;
    return x ? qn_where(is_there(mask, bound), x, qn_zeros_like(x)) : NULL;
}

qn_code qn_masked_select(qn_tensor *x, qn_tensor *mask, int64_t bound, qn_tensor **values,
                         qn_tensor **count) {
    if (values) *values = NULL;
    if (count) *count = NULL;
    func_frame f = func_on("masked_select", ARG(x), ARG(mask));
    qn_tensor *made = func_end(f, selected(x, mask, bound));
    if (!made) return handle_code(x);
    f = func_on("masked_select", ARG(x), ARG(mask));
    return give_both(x, made, func_end(f, count_of(mask_on(x, mask))), values, count);
}

/* Element i of src goes to the i-th place, whose number is a running sum of the mask. */
qn_tensor *qn_masked_scatter(qn_tensor *x, qn_tensor *mask, qn_tensor *src) {
    func_frame f = func_on("masked_scatter", ARG(x), ARG(mask), ARG(src));
    mask = mask_on(x, mask);
    if (!mask || !src) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK], all = all_of(x), many = all_of(src);
    int rank = func_dims(x, dims);
    src = func_reshape(func_fill(src, qn_dtype_of(x)), 1, &many);
    mask = func_reshape(mask, 1, &all);
    if (!mask || many == 0 || all == 0) return func_end(f, mask ? x : NULL);
    qn_tensor *sum = qn_cumsum(func_as(mask, QN_I64), 0);
    qn_tensor *at = qn_where(mask, qn_sub(sum, qn_like(sum, 1)), qn_like(sum, 0));
    src = at ? build_gather(src, at, 0) : NULL;
    return func_end(f, func_reshape(qn_where(mask, src, func_reshape(x, 1, &all)), rank, dims));
}

/* ---- sizes that are read --------------------------------------------------------------------- */

/* The number that a scalar of integers has; below 0 after an error. What it is made of is run. */
static int64_t number_of(qn_tensor *count) {
    int64_t n = -1;
    count = func_as(count, QN_I64);
    if (!count || tensor_ctx(count)->graph->read(count, &n, sizeof n)) return -1;
    return n;
}

qn_tensor *qn_head(qn_tensor *x, int axis, qn_tensor *count) {
    func_frame f = func_on("head", ARG(x), ARG(count));
    if (!func_axis(x, axis, &axis) || !count) return func_end(f, NULL);
    if (func_rank(count) || !dtype_is_int(qn_dtype_of(count)))
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "head: the count is a scalar of integers"));
    uint32_t failures = f.qn->failures;
    int64_t n = number_of(count), most = qn_dim(x, axis);
    if (f.qn->failures != failures) return func_end(f, NULL);
    if (n < 0 || (most >= 0 && n > most))
        return func_end(f, fail_null(f.qn, QN_ERANGE, "head: %lld elements of an axis of %lld",
                                     (long long)n, (long long)most));
    return func_end(f, func_slice_axis(x, axis, 0, n, 1));
}

/* How many elements of a mask are true, read; below 0 after an error. */
int64_t func_mask_count(qn_tensor *mask) {
    qn_tensor *count = count_of(mask);
    return count ? number_of(count) : -1;
}
