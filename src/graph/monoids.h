/* monoids.h - how partial results merge, one row each. Vector lanes, unrolled accumulators, threads
 * and split reductions all rely on nothing but this row: combine is associative and commutative.
 *
 * X(NAME, name, states, COMBINE, identity_f, identity_i, reductions..)
 *   states    components of the state: 1, or 2 for (value, index), whose result is the index
 *   COMBINE   the op that merges one-component states (ops.h); for two components it says which
 *             value wins, ties going to the smaller index, NaN winning over numbers
 *   identity  of the value component for floats and for integers (LOWEST, HIGHEST: of the dtype);
 *             an index component starts at the largest i64
 *   reductions  the rows of ops.h that reduce by it, up to 3; OP_NONE: none, it is for stores */
X(SET, "=", 1, CONST, 0, 0, OP_NONE) /* a plain store: the last stays; no monoid, but stored alike */
X(SUM, "+=", 1, ADD, 0, 0, OP_SUM, OP_SUM_PRODUCT)
X(PROD, "*=", 1, MUL, 1, 1, OP_PROD)
X(MAX, "max=", 1, MAXIMUM, -INFINITY, LOWEST, OP_MAX)
X(MIN, "min=", 1, MINIMUM, INFINITY, HIGHEST, OP_MIN)
X(AND, "&=", 1, AND, 0, -1, OP_NONE)
X(OR, "|=", 1, OR, 0, 0, OP_NONE)
X(ARGMAX, "argmax=", 2, MAXIMUM, -INFINITY, LOWEST, OP_ARGMAX)
X(ARGMIN, "argmin=", 2, MINIMUM, INFINITY, HIGHEST, OP_ARGMIN)
