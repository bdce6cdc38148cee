/* complex.h - complex numbers, made of real ones.
 *
 * A complex tensor is a handle that keeps a real tensor of pairs (graph/tensor.c). What functions
 * mean for it stands in meanings.h; what is no sum over choices of real and imaginary parts is
 * composed here, of public functions of real tensors. */
#ifndef QN_COMPLEX_H
#define QN_COMPLEX_H

#include "func/func.h"

/* A complex number while it is computed with; im NULL: it is real, and what has no imaginary part
 * adds no 0 and multiplies none, as C99's annex G has it. */
typedef struct parts {
    qn_tensor *re, *im;
} parts;

/* ---- parts.c --------------------------------------------------------------------------------- */

qn_ctx *complex_context(const qn_tensor *x, const qn_tensor *y); /* of either that is alive */
void complex_split(const qn_tensor *z, qn_tensor **re, qn_tensor **im);
parts complex_parts(const qn_tensor *x); /* of a tensor, complex or not; of none NULL */
/* The same of arguments that are computed with each other, in the dtype where they meet. They may
 * be none, of another context or, by knob explicit, of other dtypes: that is reported. `args` are
 * their names, a 0 behind each. */
bool complex_given(qn_ctx *qn, int n, qn_tensor *const *x, const char *args, parts *out);
/* Of a call; by knob explicit tensors of other dtypes do not. Reported. */
bool complex_may_meet(const char *call, const qn_tensor *x, const qn_tensor *y);
qn_tensor *complex_whole(qn_tensor *re, qn_tensor *im); /* brought to one shape and dtype */
qn_tensor *complex_pairs(const qn_tensor *z);           /* of a living complex one */
qn_tensor *complex_end(func_frame f, parts z);          /* real where z.im is NULL */
qn_tensor *complex_number(parts z, double value);       /* of the parts' dtype */

/* ---- move.c ---------------------------------------------------------------------------------- */

bool complex_is_joined(const qn_tensor *z); /* of parts, which are computed */
/* What one part would be moved as, and the pairs of z moved as that was; NULL, maybe without an
 * error, where it was no movement. */
qn_tensor *complex_stand_in(const qn_tensor *z);
qn_tensor *complex_moved(const qn_tensor *z, const qn_tensor *stand_in, const qn_tensor *moved);

/* ---- arithmetic.c ---------------------------------------------------------------------------- */

parts complex_plus(parts x, parts y);
parts complex_minus(parts x, parts y);
parts complex_times(parts x, parts y);
parts complex_over(parts x, parts y);
parts complex_scaled(parts x, double by);
parts complex_turned(parts z, int by); /* i z for 1, -i z for -1 */

/* ---- math.c, inverse.c ----------------------------------------------------------------------- */

/* Is a number so large or small that its squares are not numbers of its dtype? */
typedef struct complex_size {
    qn_tensor *of, *large, *small;
} complex_size;
complex_size complex_size_of(parts z);
/* The power of 2 that brings it to a middling size, to a power of +-1 or +-1/2. */
qn_tensor *complex_size_scale(complex_size s, double power);
qn_tensor *complex_sign_bit(qn_tensor *x); /* 1 or -1, of zeros, too */
parts complex_of_log(parts z);
parts complex_of_exp(parts z);
parts complex_of_sqrt(parts z);
typedef parts complex_function(parts z);
qn_tensor *complex_by_element(const char *name, complex_function *of, qn_tensor *x);

/* The meanings, of the functions' own types. */
#define OWN(name) __typeof__(qn_##name) complex_##name;
#include "complex/own.h"
#undef OWN

#endif
