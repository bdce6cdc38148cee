/* routines.h - the computations that are no loop nests over a monoid, one row each. A node CALL
 * names one of them, which of its results the node is, and integers that the routine wants to know
 * (docs/decisions/015-calls.md). Shapes and dtypes are the constructor's (func/index/sort.c,
 * func/linalg), code is the routine room's: routine_<name> and its scratch, scratch_<name>.
 *
 * X(NAME, name, results, GRAD, EXAMPLES, doc)
 *   results   how many a call has; what nobody wants is not written
 *   GRAD      the rule of grad/calls.c, NONE: the results are integers
 *   EXAMPLES  qn_vmap's (batch/examples.c). ROWS: an axis more in front of all sources and results
 *             is more items of the same; WHOLE: the sources are one item, and examples take turns
 *
 * Rows are those of the last axis, all axes before it count them. Sources and results lie in
 * memory without gaps. Orders are those of comparison, -0 equal to 0, with NaN behind all
 * numbers, and stable: of equal elements the one that came first. */

X(SORT, sort, 2, sort, ROWS, "{descending}: each row in order; where from, in i64")
X(TOPK, topk, 1, NONE, ROWS, "{largest, sorted}: in i64 where the largest or smallest of each row are")
X(KTH, kth, 1, NONE, ROWS,
  "{k, how}: in i64 where the k-th smallest of each row is; how 1: the lower median, or the first "
  "NaN; 2: the lower median of what is not NaN")
X(MODE, mode, 1, NONE, ROWS, "{}: in i64 where each row's most frequent element, of equals the least, is first")
X(UNIQUE, unique, 4, NONE, WHOLE,
  "{}: of all elements, in i64: where each different one is first, in their order; how often it is "
  "there; which of them each element is; how many there are")
X(CHOLESKY, cholesky, 1, cholesky, ROWS, "{}: L of L L' = x, of which the lower triangle is read")
X(SOLVE_TRIANGULAR, solve_triangular, 1, solve_triangular, ROWS,
  "{upper, transposed, unit}: x of a x = b; the other triangle of a is not read, of unit neither "
  "the diagonal")
X(SOLVE, solve, 1, solve, ROWS, "{transposed}: x of a x = b")
X(DETERMINANT, determinant, 3, determinant, ROWS, "{}: its sign, the logarithm of its size, the determinant")
X(MATRIX_EXP, matrix_exp, 1, matrix_exp, ROWS, "{}: the sum of x^n / n!")
X(QR, qr, 2, qr, ROWS, "{}: Q [m, k] with orthogonal columns, R [k, n] of which the lower triangle is 0")
X(EIGH, eigh, 2, eigh, ROWS, "{}: ascending eigenvalues, and eigenvectors as columns, of the lower triangle")
X(EIG, eig, 2, eig, ROWS,
  "{}: eigenvalues [n, 2], eigenvectors [n, n, 2] as columns of length 1; conjugates adjoin, "
  "positive imaginary parts first; a vector's largest element is real")
X(SVD, svd, 3, svd, ROWS, "{}: U [m, k], descending singular values, V' [k, n]")
X(SEARCH, search, 1, NONE, ROWS,
  "{right}: in i64 how many of a row's ascending elements are less (right: or equal) than each of "
  "the second source's row")
X(NONZERO, nonzero, 2, NONE, WHOLE,
  "{}: of bools, all of them: in i64 where the first that are true are, as many as the result has "
  "room for, then zeros; how many are true")
X(DRAW, draw, 1, NONE, WHOLE,
  "{how}: f64 numbers of a key [2] in u32 and parameters in f64: 0 log of a gamma variate, 1 it "
  "itself and 2 a Poisson one, each of its parameter; 3 normal ones from the first parameter to "
  "the second")
X(FFT, fft, 1, fft, ROWS,
  "{kind, inverse, scale, n}: transforms of length n of the last axis before that of pairs; kinds "
  "are CALL_FFT_.., scale 1: over n, 2: over its root")
X(CUSTOM, custom, 5, custom, ROWS,
  "{kernel, leading, ranks, 0, sizes}: a kernel of the context's own, by number; how many axes in "
  "front count its items; of each result's item the rank, in four bits, and its sizes")
