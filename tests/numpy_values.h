/* numpy_values.h - calls and what NumPy 2 gives for them: X(call, rank, shape, values). A is
 * arange(60) as [3, 4, 5], W [[1, 2, 3], [4, 5, 6]], V has NaNs, a and b are indices. */
/* clang-format off */
X(at(A, 2, ITEMS(QN_AT_PLACE(1), QN_SLICE(-1, 0, -2))), 2, DIMS(2, 5),
  35, 36, 37, 38, 39, 25, 26, 27, 28, 29)
X(at(A, 2, ITEMS(QN_ELLIPSIS, QN_AT_PLACE(-1))), 2, DIMS(3, 4),
  4, 9, 14, 19, 24, 29, 34, 39, 44, 49, 54, 59)
X(at(A, 3, ITEMS(QN_AT_PLACES(a), QN_NEW_AXIS, QN_AT_PLACES(b))), 4, DIMS(2, 3, 1, 5),
  55, 56, 57, 58, 59, 50, 51, 52, 53, 54, 40, 41, 42, 43, 44, 55, 56, 57, 58, 59, 50, 51, 52,
  53, 54, 40, 41, 42, 43, 44)
X(at(A, 2, ITEMS(QN_AT_PLACES(a), QN_AT_PLACES(b))), 3, DIMS(2, 3, 5),
  55, 56, 57, 58, 59, 50, 51, 52, 53, 54, 40, 41, 42, 43, 44, 55, 56, 57, 58, 59, 50, 51, 52,
  53, 54, 40, 41, 42, 43, 44)
X(at(A, 3, ITEMS(QN_AT_PLACES(a), QN_EVERY, QN_AT_PLACES(b))), 3, DIMS(2, 3, 4),
  43, 48, 53, 58, 43, 48, 53, 58, 40, 45, 50, 55, 43, 48, 53, 58, 43, 48, 53, 58, 40, 45, 50, 55)
X(at(A, 3, ITEMS(QN_EVERY, QN_AT_PLACES(b), QN_AT_PLACE(-2))), 2, DIMS(3, 3),
  18, 13, 3, 38, 33, 23, 58, 53, 43)
X(put(A, 3, ITEMS(QN_AT_PLACES(a), QN_EVERY, QN_AT_PLACES(b)), QN_COMBINE_SUM), 3, DIMS(3, 4, 5),
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
  26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 42, 41, 42, 47, 44, 47, 46, 47, 52,
  49, 52, 51, 52, 57, 54, 57, 56, 57, 62, 59)
X(put(A, 3, ITEMS(QN_AT_PLACE(1), QN_ELLIPSIS, QN_SLICE(0, QN_END, 2)), QN_COMBINE_SET), 3,
  DIMS(3, 4, 5),
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 1, 21, 1, 23, 1, 1, 26,
  1, 28, 1, 1, 31, 1, 33, 1, 1, 36, 1, 38, 1, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
  52, 53, 54, 55, 56, 57, 58, 59)
X(qn_index_fill(W, qn_cast(LINE(2, 0, -1), QN_I64), 7, 1), 2, DIMS(2, 3),
  7, 2, 7, 7, 5, 7)
X(qn_select_scatter(W, LINE(2, 8, 9), 1, 1), 2, DIMS(2, 3),
  1, 8, 3, 4, 9, 6)
X(qn_slice_scatter(W, qn_expand(LINE(2, 8, 9), 2, DIMS(2, 2)), 1, 0, QN_END, 2), 2, DIMS(2, 3),
  8, 2, 9, 8, 5, 9)
X(qn_diagonal_scatter(W, LINE(2, 8, 9), 1), 2, DIMS(2, 3),
  1, 8, 3, 4, 5, 9)
X(qn_index_copy(W, qn_cast(LINE(2, 2, -3), QN_I64), qn_expand(LINE(2, 8, 9), 2, DIMS(2, 2)), 1), 2, DIMS(2, 3),
  9, 2, 8, 9, 5, 8)
X(qn_scatter_mean(LINE(3, 1, 2, 3), qn_cast(LINE(3, 0, 0, 2), QN_I64), LINE(3, 5, 7, 9), 0, true), 1, DIMS(3),
  4.333333333333333, 2, 6)
X(qn_scatter_mean(LINE(3, 1, 2, 3), qn_cast(LINE(3, 0, 0, 2), QN_I64), LINE(3, 5, 7, 9), 0, false), 1, DIMS(3),
  6, 2, 9)
X(qn_masked_fill(W, LINE(3, 0, 1, 0), LINE(1, -1)), 2, DIMS(2, 3),
  1, -1, 3, 4, -1, 6)
X(qn_nansum(V, 1, false), 1, DIMS(3),
  5, -1, 0)
X(qn_nanprod(V, 0, true), 2, DIMS(1, 3),
  2, 1, -12)
X(qn_nanmax(V, 1, false), 1, DIMS(3),
  4, 2, NAN)
X(qn_nanmin(V, 0, false), 1, DIMS(3),
  2, 1, -3)
X(qn_nanmean(V, 1, false), 1, DIMS(3),
  2.5, -0.5, NAN)
X(qn_nanvariance(V, 1, 0, false), 1, DIMS(3),
  2.25, 6.25, NAN)
X(qn_nanstd(V, 1, 1, false), 1, DIMS(3),
  2.1213203435596424, 3.5355339059327378, NAN)
X(qn_nanmax_axes(V, 2, AXES(0, 1), false), 0, DIMS(0),
  4)
X(qn_nanvariance_axes(V, 2, AXES(0, 1), 1, true), 2, DIMS(1, 1),
  8.666666666666666)
X(qn_count_nonzero(qn_sub(W, LINE(3, 1, 5, 3)), 1, false), 1, DIMS(2),
  1, 2)
X(qn_count_nonzero_axes(V, 2, AXES(0, 1), false), 0, DIMS(0),
  9)
X(qn_trace(A, 1), 1, DIMS(3),
  40, 120, 200)
X(qn_sum_as(qn_cast(qn_mul(W, LINE(1, 40)), QN_U8), 1, AXES(1), QN_U8, false), 1, DIMS(2),
  240, 88)
X(qn_prod_as(W, 2, AXES(0, 1), QN_I16, false), 0, DIMS(0),
  720)
X(qn_mean_as(W, 2, AXES(0, 1), QN_F16, false), 0, DIMS(0),
  3.5)
X(qn_moveaxis(A, 2, AXES(2, 0), AXES(0, 1)), 3, DIMS(5, 3, 4),
  0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56, 2,
  7, 12, 17, 22, 27, 32, 37, 42, 47, 52, 57, 3, 8, 13, 18, 23, 28, 33, 38, 43, 48, 53, 58, 4, 9,
  14, 19, 24, 29, 34, 39, 44, 49, 54, 59)
X(qn_rot90(W, 1, 0, 1), 2, DIMS(3, 2),
  3, 6, 2, 5, 1, 4)
X(qn_rot90(W, 2, 0, 1), 2, DIMS(2, 3),
  6, 5, 4, 3, 2, 1)
X(qn_rot90(W, 3, 0, 1), 2, DIMS(3, 2),
  4, 1, 5, 2, 6, 3)
X(qn_diag_embed(W, 1), 3, DIMS(2, 4, 4),
  0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 5, 0, 0, 0, 0, 6, 0, 0, 0, 0)
X(qn_diag(LINE(2, 8, 9), -2), 2, DIMS(4, 4),
  0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 9, 0, 0)
X(qn_diagonal_axes(A, -1, 0, 2), 2, DIMS(4, 2),
  20, 41, 25, 46, 30, 51, 35, 56)
X(qn_atleast(LINE(2, 8, 9), 3), 3, DIMS(1, 2, 1),
  8, 9)
X(qn_unflatten(A, 1, 2, DIMS(2, -1)), 4, DIMS(3, 2, 2, 5),
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
  26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48,
  49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59)
X(qn_narrow(W, 1, -2, 2), 2, DIMS(2, 2),
  2, 3, 5, 6)
X(qn_repeat_counts(W, 1, 3, DIMS(2, 0, 1)), 2, DIMS(2, 3),
  1, 1, 3, 4, 4, 6)
X(qn_expand_as(LINE(3, 1, 2, 3), W), 2, DIMS(2, 3),
  1, 2, 3, 1, 2, 3)
X(qn_view(qn_cast(W, QN_F32), QN_U16), 2, DIMS(2, 6),
  0, 16256, 0, 16384, 0, 16448, 0, 16512, 0, 16544, 0, 16576)
X(qn_view(qn_view(W, QN_U8), QN_F64), 2, DIMS(2, 3),
  1, 2, 3, 4, 5, 6)
X(qn_clip(W, LINE(3, 2, 2, 2), LINE(1, 5)), 2, DIMS(2, 3),
  2, 2, 3, 4, 5, 5)
X(qn_prelu(qn_neg(W), LINE(3, 1, 0, 2)), 2, DIMS(2, 3),
  -1, -0, -6, -4, -0, -12)
X(qn_glu(LINE(4, 3, 5, 0, 0), 0), 1, DIMS(2),
  1.5, 2.5)
X(qn_celu(LINE(2, 4, -2), 2), 1, DIMS(2),
  4, -1.2642411176571153)
X(qn_threshold(W, 3, 0), 2, DIMS(2, 3),
  0, 0, 0, 4, 5, 6)
X(qn_softplus_beta(LINE(2, 1, 30), 2, 20), 1, DIMS(2),
  1.0634640055214863, 30)
X(qn_softmin(LINE(2, 0, 0), 0), 1, DIMS(2),
  0.5, 0.5)
X(qn_hardtanh(W, 2, 3), 2, DIMS(2, 3),
  2, 2, 3, 3, 3, 3)
