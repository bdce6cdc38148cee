/* monoids.h - how partial results merge, one row each. Vector lanes, unrolled accumulators,
 * threads, split reductions and scans all rely on nothing but this row.
 *
 * X(NAME, name, OP, TYPES, ORDER, formula, STATE, reductions..)
 *   OP       the op that merges states of one component (ops.h); NONE: the formula says it alone
 *   TYPES    dtypes of what is reduced, as in ops.h
 *   ORDER    COMMUTES: combine is associative and commutative, but rounds floats; EXACT: and does
 *            not, so that no order shows; ORDERED: associative alone: only a scan takes it
 *   formula  its functions in monoid.c: combine_<formula> merges two states, finish_<formula> makes
 *            the result of one; op: of one component, which is the result
 *   STATE    the components in parentheses, at most MONOID_STATES: PART(dtype, lift, identity)
 *              dtype     VALUE: what values of that dtype are kept in, ACC of dtypes.h; else itself
 *              lift      the component of one element: TERM it, SECOND that of a second operand,
 *                        PLACE its index in the flat order of the reduced axes, ONE, ZERO
 *              identity  ZERO, ONE, ALL bits, LOWEST or HIGHEST of the dtype, infinite if it can be
 *   reductions  the rows of ops.h that reduce by it, up to 3; OP_NONE: none, it is for stores */
X(SET, "=", NONE, ANY, ORDERED, op, (PART(VALUE, TERM, ZERO)), OP_NONE) /* a plain store */
X(SUM, "+=", ADD, NUM, COMMUTES, op, (PART(VALUE, TERM, ZERO)), OP_SUM, OP_SUM_PRODUCT)
X(PROD, "*=", MUL, NUM, COMMUTES, op, (PART(VALUE, TERM, ONE)), OP_PROD)
X(MAX, "max=", MAXIMUM, ANY, EXACT, op, (PART(VALUE, TERM, LOWEST)), OP_MAX)
X(MIN, "min=", MINIMUM, ANY, EXACT, op, (PART(VALUE, TERM, HIGHEST)), OP_MIN)
X(AND, "&=", AND, BITS, EXACT, op, (PART(VALUE, TERM, ALL)), OP_NONE)
X(OR, "|=", OR, BITS, EXACT, op, (PART(VALUE, TERM, ZERO)), OP_NONE)
X(ARGMAX, "argmax=", NONE, ANY, EXACT, argmax,
  (PART(VALUE, TERM, LOWEST), PART(I64, PLACE, HIGHEST)), OP_ARGMAX)
X(ARGMIN, "argmin=", NONE, ANY, EXACT, argmin,
  (PART(VALUE, TERM, HIGHEST), PART(I64, PLACE, HIGHEST)), OP_ARGMIN)
/* log(sum of e^x): the largest x, and the sum of e^(x - largest) */
X(LOGSUMEXP, "logsumexp=", NONE, FLOAT, COMMUTES, logsumexp,
  (PART(VALUE, TERM, LOWEST), PART(VALUE, ONE, ZERO)), OP_NONE)
/* x -> a*x + b, one such step behind the other */
X(AFFINE, "affine=", NONE, FLOAT, ORDERED, affine,
  (PART(VALUE, TERM, ONE), PART(VALUE, SECOND, ZERO)), OP_NONE)
