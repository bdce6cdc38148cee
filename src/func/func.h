/* func.h - what composed functions are written with. */
#ifndef QN_FUNC_H
#define QN_FUNC_H

#include "graph/graph.h"

/* ---- loop/loop.c ----------------------------------------------------------------------------- */

void loops_close(qn_ctx *qn); /* every loop's object that is still there */

/* ---- frame.c --------------------------------------------------------------------------------- */

/* A composed function's frame: everything made inside dies at the end but the result, which moves
 * to the caller's scope. Errors inside name the outermost function.
 *     func_frame f = func_on("softmax", ARG(x));  ...  return func_end(f, result);
 * The arguments are checked here once; one that is stale or another context's is reported and
 * becomes NULL. Where anything failed, in here or inside, the result is NULL: an optional argument
 * that could not be had is not one that was not given. func_floats says in which dtype the function
 * computes; func_end then gives the result the dtype it is asked for. */
typedef struct func_frame {
    qn_ctx *qn;
    qn_scope scope;
    uint32_t failures; /* of the context, when it began */
    bool outermost;
    qn_dtype dtype; /* of the result; QN_BOOL: as it comes */
} func_frame;
typedef struct func_arg {
    qn_tensor **t;
    const char *name;
    bool optional; /* may be NULL */
} func_arg;
#define ARG(x)                                                                                     \
    { &(x), #x, false }
#define OPTIONAL(x)                                                                                \
    { &(x), #x, true }
#define func_on(name, ...)                                                                         \
    func_begin_on(name, COUNT_OF(((func_arg[]){__VA_ARGS__})), (func_arg[]){__VA_ARGS__})
func_frame func_begin_on(const char *name, size_t n, const func_arg *arg);
func_frame func_begin(qn_ctx *qn, const char *name); /* qn NULL: everything gives NULL */
qn_tensor *func_end(func_frame f, qn_tensor *result);
/* dtype_promote of two arguments, or, where knob explicit forbids that they meet, an error. */
qn_dtype func_meet(const qn_tensor *x, const qn_tensor *y);
void func_meet_all(const func_frame *f, int n, qn_tensor *const *xs); /* a list that was given */
void func_floats(func_frame *f, int n, qn_tensor **x);                /* func.c */
/* The same where one of them is float; integers among themselves stay, and so does the result. */
void func_numbers(func_frame *f, int n, qn_tensor **x);

/* ---- func.c: helpers of the composed functions ----------------------------------------------- */

/* All take NULL for "failed before" and pass it on; sizes are the user's (see shape.c). */
static inline int func_rank(const qn_tensor *x) { /* NULL's is 0 here: nothing to loop over */
    int rank = x ? qn_rank(x) : 0;
    return rank < 0 ? 0 : rank;
}
int func_dims(const qn_tensor *x, int64_t *dims); /* the rank; dims: QN_MAX_RANK places */
bool func_same_shape(const qn_tensor *x, const qn_tensor *y); /* of one context */
/* The context of a list of tensors that all are alive and of it, else NULL, and that is reported */
qn_ctx *func_list_context(const char *call, int n, qn_tensor *const *xs);
/* Functions with several results, each made in a frame of its own: what can be said of x and `out`
 * before; and the code at the end, all results or, after a failure, none. */
bool func_outputs_check(const qn_tensor *x, const char *name, qn_tensor **out);
int func_outputs_done(qn_ctx *qn, int n, qn_tensor **out, int made);
qn_tensor *func_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *dims, double value);
qn_tensor *func_iota(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *dims, int axis);
qn_tensor *func_reshape(qn_tensor *x, int rank, const int64_t *dims);
qn_tensor *func_expand(qn_tensor *x, int rank, const int64_t *dims);
qn_tensor *func_pad(qn_tensor *x, const int64_t *lo_hi_interior);
qn_tensor *func_slice(qn_tensor *x, const int64_t *start_size_step);
qn_tensor *func_slice_axis(qn_tensor *x, int axis, int64_t start, int64_t size, int64_t step);
qn_tensor *func_broadcast(qn_tensor *x, const qn_tensor *to); /* to the shape of another */
/* Windows along `axis`, the first of them beginning `before` places before it, their places along
 * `by`, which x has with size 1; and undone: t, to an axis of n places, `by` summed. */
typedef struct func_windows {
    int axis, by;
    int64_t stride, dilation, before, count, size;
} func_windows;
qn_tensor *func_window(qn_tensor *x, const func_windows *w);
qn_tensor *func_unwindow(qn_tensor *t, const func_windows *w, int64_t n);
bool func_axis(const qn_tensor *x, int axis, int *out);       /* negative axes; reports */
bool func_mask(const qn_tensor *x, int axis, uint32_t *mask); /* of an axis or QN_ALL; reports */
bool func_mask_of(const qn_tensor *x, int n, const int *axes, uint32_t *mask);
/* The axes of functions of two forms, which take one, or QN_ALL, or a list. */
typedef struct func_axes {
    const int *list;
    int n; /* of a list; else the axis */
    bool listed;
} func_axes;
#define ONE_AXIS(axis)       ((func_axes){NULL, axis, false})
#define LISTED_AXES(n, axes) ((func_axes){axes, n, true})
/* A function of a mask of axes, and one whose x is made float, with a number, each in its frame. */
typedef qn_tensor *(*func_of_mask)(qn_tensor *x, uint32_t mask, bool keepdims);
typedef qn_tensor *(*func_of_floats)(qn_tensor *x, uint32_t mask, double number, bool keepdims);
qn_tensor *func_over(const char *name, func_of_mask of, qn_tensor *x, func_axes at, bool keepdims);
qn_tensor *func_over_floats(const char *name, func_of_floats of, qn_tensor *x, func_axes at,
                            double number, bool keepdims);
bool func_mask_at(const qn_tensor *x, func_axes at, uint32_t *mask);
qn_tensor *func_float(qn_tensor *x);                   /* integers and bools as f32 */
qn_tensor *func_widen(qn_tensor *x);                   /* f16 and bf16 as f32 */
qn_tensor *func_as(qn_tensor *x, qn_dtype dtype);      /* cast where it differs */
qn_tensor *func_fill(qn_tensor *x, qn_dtype dtype);    /* make.c: and a number must be held */
qn_tensor *func_truth(qn_tensor *x);                   /* bool: not 0 */
qn_tensor *func_integer(qn_tensor *x, int64_t v);      /* a scalar of x's integer dtype */
qn_tensor *func_size(qn_tensor *x, int64_t size);      /* a size as a scalar of x's dtype */
int64_t func_count(const qn_tensor *x, uint32_t mask); /* product of these axes' sizes */
qn_tensor *func_inside(qn_tensor *x, const int64_t *lo_hi_interior); /* bool: where PAD puts x */
bool func_fits(const qn_tensor *p, const qn_tensor *x); /* does p broadcast to x's shape? */
enum { FUNC_DIM_TEXT = 48 };
const char *func_dim_text(const qn_tensor *x, int axis, char text[FUNC_DIM_TEXT]);

static inline qn_dtype func_sum_dtype(qn_dtype d) { /* what sums and products are taken in */
    return dtype_is_known((int)d) ? (qn_dtype)dtype_rows[d].sum : d;
}
qn_tensor *func_reduce(int op, qn_tensor *x, int axis, bool keepdims); /* func/reduce.c */
qn_tensor *func_reduce_axes(int op, qn_tensor *x, int n, const int *axes, bool keepdims);
qn_tensor *func_reduce_mask(int op, qn_tensor *x, uint32_t mask, bool keepdims);
qn_tensor *func_root(qn_tensor *x);                  /* of x from 0 on; at 0 its derivative is 0 */
qn_tensor *func_norm_root(qn_tensor *sum, double p); /* the same of the p-th root */
qn_tensor *func_mean(qn_tensor *x, uint32_t mask, bool keepdims);
/* The mean of f32 or f64, axes kept, as a value of the row and the mean difference from it. That of
 * equal values is exact, however long the row and however its sum is rounded, and where the mean is
 * large beside the spread, half a unit in its last place is nearly all that it is off by. The value
 * is detached: the mean does not depend on which one it is. */
qn_tensor *func_mean_near(qn_tensor *x, uint32_t mask);
/* The sum of squares around the mean: of d, the `count` differences from the mean as it was
 * rounded, less what that rounding adds, by the corrected two-pass algorithm (Chan, Golub and
 * LeVeque 1983, (1.7)). The correction is detached: exact differences sum to 0, so its derivative
 * is 0. Never below 0; an infinite sum stays. */
qn_tensor *func_squares(qn_tensor *d, qn_tensor *count, uint32_t mask, bool keepdims);
/* Negative indices of an axis of n counted from its end; and take of indices from 0 on. */
qn_tensor *func_from_end(qn_tensor *index, int64_t n); /* index/index.c */
qn_tensor *func_take(qn_tensor *x, qn_tensor *index, int axis);
bool func_mask_places(qn_tensor *mask, int64_t bound, bool outside, qn_tensor **out); /* mask.c */
int64_t func_mask_count(qn_tensor *mask);
qn_tensor *func_reduced(qn_tensor *terms, qn_reduction how);  /* nn/loss.c */
qn_tensor *func_is_class(qn_tensor *labels, int64_t classes); /* index/index.c */
void func_threefry(qn_tensor *const key[2], qn_tensor *x[2]); /* func/random.c */

/* ---- random/exact.c: the same bits everywhere, of f32 and f64 -------------------------------- */

qn_tensor *func_exact_log(qn_tensor *x);
qn_tensor *func_exact_cos_turns(qn_tensor *v); /* cos(2 pi v), v in [0, 1) */
qn_tensor *func_exact_sigmoid(qn_tensor *x);   /* f64 */
qn_tensor *func_exact_softmax(qn_tensor *x);   /* f64, along the last axis */

#endif
