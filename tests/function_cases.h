/* function_cases.h - arguments for every function of the headers' generated prototypes, one row
 * each: X(name, lo, hi, call). test_everywhere.c runs the calls and fails where a function has no
 * row.
 *
 * In a call IN(4, 6) is a new input of that shape in the dtype under test, numbers from lo to hi
 * (what integers can be had of them); INDEX(5, 4, 6) has whole numbers from 0 to 4; DIMS and AXES
 * are lists; `a` are the arguments of test_everywhere.c. */
#define M IN(4, 6)

#define UNARY_ROWS(X)                                                                              \
    X(neg, -4, 4)                                                                                  \
    X(abs, -4, 4)                                                                                  \
    X(reciprocal, 0.25, 4)                                                                         \
    X(sqrt, 0.1, 8)                                                                                \
    X(exp, -8, 8)                                                                                  \
    X(exp2, -8, 8)                                                                                 \
    X(expm1, -4, 4)                                                                                \
    X(log, 0.1, 16)                                                                                \
    X(log2, 0.1, 16)                                                                               \
    X(log1p, -0.9, 8)                                                                              \
    X(sin, -8, 8)                                                                                  \
    X(cos, -8, 8)                                                                                  \
    X(atan, -8, 8)                                                                                 \
    X(tanh, -4, 4)                                                                                 \
    X(cbrt, 0.1, 30)                                                                               \
    X(asin, -0.95, 0.95)                                                                           \
    X(acos, -0.95, 0.95)                                                                           \
    X(asinh, -8, 8)                                                                                \
    X(acosh, 1.1, 8)                                                                               \
    X(atanh, -0.95, 0.95)                                                                          \
    X(softplus, -8, 8)                                                                             \
    X(sigmoid, -8, 8)                                                                              \
    X(erf, -3, 3)                                                                                  \
    X(erfc, -3, 6)                                                                                 \
    X(lgamma, 0.3, 6)                                                                              \
    X(digamma, 0.3, 6)                                                                             \
    X(trigamma, 0.3, 6)                                                                            \
    X(silu, -8, 8)                                                                                 \
    X(silu_slope, -8, 8)                                                                           \
    X(gelu, -4, 4)                                                                                 \
    X(gelu_slope, -4, 4)                                                                           \
    X(gelu_tanh, -4, 4)                                                                            \
    X(gelu_tanh_slope, -4, 4)                                                                      \
    X(sinh, -4, 4)                                                                                 \
    X(cosh, -4, 4)                                                                                 \
    X(mish, -6, 6)                                                                                 \
    X(floor, -8, 8)                                                                                \
    X(ceil, -8, 8)                                                                                 \
    X(round, -8, 8)                                                                                \
    X(trunc, -8, 8)                                                                                \
    X(not, -8, 8)                                                                                  \
    X(contiguous, -4, 4)                                                                           \
    X(detach, -4, 4)                                                                               \
    X(zeros_like, -4, 4)                                                                           \
    X(ones_like, -4, 4)

#define BINARY_ROWS(X)                                                                             \
    X(atan2, 0.5, 4)                                                                               \
    X(hypot, 0.5, 4)                                                                               \
    X(logaddexp, -4, 4)                                                                            \
    X(add, -4, 4)                                                                                  \
    X(sub, -4, 4)                                                                                  \
    X(mul, -4, 4)                                                                                  \
    X(div, 0.25, 4)                                                                                \
    X(floor_div, 0.5, 8)                                                                           \
    X(mod, 0.5, 8)                                                                                 \
    X(pow, 0.2, 3)                                                                                 \
    X(maximum, -4, 4)                                                                              \
    X(minimum, -4, 4)                                                                              \
    X(lt, -4, 4)                                                                                   \
    X(le, -4, 4)                                                                                   \
    X(eq, -4, 4)                                                                                   \
    X(ne, -4, 4)                                                                                   \
    X(and, -8, 8)                                                                                  \
    X(or, -8, 8)                                                                                   \
    X(xor, -8, 8)                                                                                  \
    X(shl, 0, 8)                                                                                   \
    X(shr, 0, 8)

#define FUNCTION_CASES(X)                                                                          \
    X(where, -4, 4, qn_where(qn_lt(M, M), M, M))                                                   \
    X(fma, -4, 4, qn_fma(M, M, M))                                                                 \
    X(sum, -4, 4, qn_sum(M, 1, false))                                                             \
    X(sum_axes, -4, 4, qn_sum_axes(IN(3, 4, 5), 2, AXES(0, 2), true))                              \
    X(prod, 0.5, 2, qn_prod(M, 0, true))                                                           \
    X(prod_axes, 0.5, 2, qn_prod_axes(IN(3, 4, 2), 2, AXES(0, 2), false))                          \
    X(max, -4, 4, qn_max(M, 1, false))                                                             \
    X(max_axes, -4, 4, qn_max_axes(IN(3, 4, 5), 2, AXES(1, 2), false))                             \
    X(min, -4, 4, qn_min(M, -2, true))                                                             \
    X(min_axes, -4, 4, qn_min_axes(IN(3, 4, 5), 2, AXES(0, 1), false))                             \
    X(argmax, -4, 4, qn_argmax(M, 1, false))                                                       \
    X(argmax_axes, -4, 4, qn_argmax_axes(IN(3, 4, 5), 2, AXES(0, 2), false))                       \
    X(argmin, -4, 4, qn_argmin(M, QN_ALL, false))                                                  \
    X(argmin_axes, -4, 4, qn_argmin_axes(IN(3, 4, 5), 2, AXES(0, 2), true))                        \
    X(full, 0, 0, qn_full(a->qn, a->d, 2, DIMS(3, 4), 2.5))                                        \
    X(full_int, 0, 0, qn_full_int(a->qn, a->d, 2, DIMS(3, 4), 3))                                  \
    X(zeros, 0, 0, qn_zeros(a->qn, a->d, 2, DIMS(3, 4)))                                           \
    X(ones, 0, 0, qn_ones(a->qn, a->d, 2, DIMS(3, 4)))                                             \
    X(scalar, 0, 0, qn_scalar(a->qn, a->d, 3))                                                     \
    X(like, -4, 4, qn_add(M, qn_like(M, 1)))                                                       \
    X(weak, 0, 0, qn_weak(M, 2))                                                                   \
    X(weak_int, 0, 0, qn_weak_int(M, 2))                                                           \
    X(scalar_int, 0, 0, qn_scalar_int(a->qn, a->d, 3))                                             \
    X(full_like, -4, 4, qn_add(M, qn_full_like(M, 1)))                                             \
    X(iota, 0, 0, qn_iota(a->qn, a->d, 2, DIMS(3, 4), 1))                                          \
    X(arange, 0, 0, qn_arange(a->qn, a->d, 1, 9, 2))                                               \
    X(arange_int, 0, 0, qn_arange_int(a->qn, a->d, 1, 9, 2))                                       \
    X(linspace, 0, 0, qn_linspace(a->qn, a->d, 0, 6, 7))                                           \
    X(eye, 0, 0, qn_eye(a->qn, a->d, 4, 5))                                                        \
    X(cast, -4, 4, qn_cast(qn_cast(M, QN_F64), a->d))                                              \
    X(bitcast, -4, 4, qn_bitcast(M, a->bits))                                                      \
    X(elu, -4, 4, qn_elu(M, 1.5))                                                                  \
    X(leaky_relu, -4, 4, qn_leaky_relu(M, 0.1))                                                    \
    X(clamp, -4, 4, qn_clamp(M, 1, 3))                                                             \
    X(lerp, -4, 4, qn_lerp(M, M, M))                                                               \
    X(mean, -4, 4, qn_mean(M, 0, false))                                                           \
    X(mean_axes, -4, 4, qn_mean_axes(IN(3, 4, 5), 2, AXES(0, 2), true))                            \
    X(variance, -4, 4, qn_variance(M, 1, 1, false))                                                \
    X(variance_axes, -4, 4, qn_variance_axes(IN(3, 4, 5), 2, AXES(0, 2), 0, true))                 \
    X(std, -4, 4, qn_std(M, 1, 1, true))                                                           \
    X(std_axes, -4, 4, qn_std_axes(IN(3, 4, 5), 2, AXES(0, 2), 0, true))                           \
    X(any, -1, 1, qn_any(M, 1, false))                                                             \
    X(any_axes, -1, 1, qn_any_axes(IN(3, 4, 5), 2, AXES(0, 2), false))                             \
    X(all_axes, -1, 1, qn_all_axes(IN(3, 4, 5), 2, AXES(-1, 0), true))                             \
    X(all, -1, 1, qn_all(M, 1, false))                                                             \
    X(norm, 0.5, 4, both_of(qn_norm(M, 1, 3, false), qn_norm(M, 1, 1, false)))                     \
    X(norm_axes, 0.5, 4, qn_norm_axes(IN(3, 4, 5), 2, AXES(0, 2), 2, false))                       \
    X(logsumexp, -4, 4, qn_logsumexp(M, 1, false))                                                 \
    X(logsumexp_axes, -4, 4, qn_logsumexp_axes(IN(3, 4, 5), 2, AXES(0, 2), true))                  \
    X(cumsum, -4, 4, qn_cumsum(IN(3, 4, 5), 1))                                                    \
    X(cumprod, 0.5, 2, qn_cumprod(IN(3, 4, 5), -1))                                                \
    X(cummax, -4, 4, qn_cummax(IN(3, 4, 5), 2))                                                    \
    X(cummin, -4, 4, qn_cummin(IN(3, 4, 5), 0))                                                    \
    X(cumargmax, -4, 4, qn_cumargmax(IN(3, 4, 5), 2))                                              \
    X(cumargmin, -4, 4, qn_cumargmin(IN(3, 4, 5), 1))                                              \
    X(logcumsumexp, -4, 4, qn_logcumsumexp(IN(3, 4, 5), 2))                                        \
    X(linear_scan, -1, 1, qn_linear_scan(IN(3, 4, 5), IN(3, 4, 5), 1))                             \
    X(diff, -4, 4, qn_diff(IN(3, 4, 5), 2, 1))                                                     \
    X(reshape, -4, 4, qn_reshape(M, 3, DIMS(2, -1, 3)))                                            \
    X(permute, -4, 4, qn_permute(IN(2, 3, 4), 3, AXES(2, 0, 1)))                                   \
    X(transpose, -4, 4, qn_transpose(M, 0, 1))                                                     \
    X(expand, -4, 4, qn_expand(IN(4, 1), 3, DIMS(2, 4, 5)))                                        \
    X(slice, -4, 4, qn_slice(M, 1, -1, 0, -2))                                                     \
    X(select, -4, 4, qn_select(M, 1, -2))                                                          \
    X(flip, -4, 4, qn_flip(M, QN_ALL))                                                             \
    X(flip_axes, -4, 4, qn_flip_axes(IN(3, 4, 5), 2, AXES(0, 2)))                                  \
    X(as_strided, -4, 4, qn_as_strided(M, 2, DIMS(3, 4), DIMS(5, 2), 1))                           \
    X(pad, -4, 4,                                                                                  \
      qn_add(qn_pad(M, DIMS(1, 2, 2, 1), QN_PAD_REFLECT, 0),                                       \
             qn_pad(M, DIMS(2, 1, 1, 2), QN_PAD_CONSTANT, 1)))                                     \
    X(roll, -4, 4, qn_roll(M, 1, 2))                                                               \
    X(roll_axes, -4, 4, qn_roll_axes(M, 2, AXES(1, 0), DIMS(2, -1)))                               \
    X(squeeze, -4, 4, qn_squeeze(IN(4, 1, 3), 1))                                                  \
    X(squeeze_axes, -4, 4, qn_squeeze_axes(IN(1, 4, 1, 3), 2, AXES(0, 2)))                         \
    X(unsqueeze, -4, 4, qn_unsqueeze(M, 1))                                                        \
    X(unsqueeze_axes, -4, 4, qn_unsqueeze_axes(M, 2, AXES(0, -2)))                                 \
    X(flatten, -4, 4, qn_flatten(IN(2, 3, 4), 0, 1))                                               \
    X(unfold, -4, 4, qn_unfold(M, 1, 3, 2))                                                        \
    X(diagonal, -4, 4, qn_diagonal(M, 1))                                                          \
    X(triu, -4, 4, qn_triu(M, -1))                                                                 \
    X(tril, -4, 4, qn_tril(M, 1))                                                                  \
    X(concat, -4, 4, qn_concat(3, LIST(M, IN(4, 2), M), 1))                                        \
    X(stack, -4, 4, qn_stack(3, LIST(M, M, M), 1))                                                 \
    X(vstack, -4, 4, qn_vstack(2, LIST(M, IN(6))))                                                 \
    X(hstack, -4, 4, qn_hstack(2, LIST(M, IN(4, 3))))                                              \
    X(split, -4, 4, split_of(M))                                                                   \
    X(chunk, -4, 4, chunk_of(IN(4, 7)))                                                            \
    X(tile, -4, 4, qn_tile(M, 2, DIMS(2, 3)))                                                      \
    X(repeat_interleave, -4, 4, qn_repeat_interleave(M, 1, 3))                                     \
    X(meshgrid, -4, 4, meshgrid_of(IN(3), IN(4)))                                                  \
    X(gather, -4, 4, qn_gather(M, INDEX(7, 4, 3), 1))                                              \
    X(scatter, -4, 4, qn_scatter(M, INDEX(7, 4, 3), IN(4, 3), 1, QN_COMBINE_SUM))                  \
    X(take, -4, 4, qn_take(M, INDEX(6, 2, 3), 1))                                                  \
    X(take_along_axis, -4, 4, qn_take_along_axis(M, INDEX(4, 2, 1), 0))                            \
    X(index_add, -4, 4, qn_index_add(M, INDEX(6, 3), IN(4, 3), 1))                                 \
    X(update_slice, -4, 4, qn_update_slice(M, IN(2, 3), DIMS(1, 2)))                               \
    X(sort, -4, 4, qn_sort(IN(4, 7), 1, true))                                                     \
    X(argsort, -4, 4, qn_argsort(IN(4, 7), 0, false))                                              \
    X(topk, -4, 4, topk_of(IN(4, 7)))                                                              \
    X(kthvalue, -4, 4, kthvalue_of(IN(4, 7)))                                                      \
    X(median, -4, 4, qn_median(IN(4, 7), 1, false))                                                \
    X(nanmedian, -4, 4, qn_nanmedian(IN(4, 7), 0, true))                                           \
    X(quantile, -4, 4,                                                                             \
      qn_quantile(IN(4, 7), 2, (double[]){0.3, 0.75}, 1, false, QN_QUANTILE_LINEAR))               \
    X(mode, -4, 4, mode_of(IN(4, 7)))                                                              \
    X(unique, -4, 4, unique_of(IN(4, 7)))                                                          \
    X(searchsorted, -4, 4, qn_searchsorted(qn_sort(IN(9), 0, false), M, true))                     \
    X(bincount, -4, 4, qn_bincount(INDEX(5, 4, 6), M, 5))                                          \
    X(histogram, -4, 4, qn_histogram(M, qn_sort(IN(5), 0, false), IN(4, 6)))                       \
    X(cholesky, -1, 1, qn_cholesky(positive_of(IN(3, 4, 4)), true))                                \
    X(solve_triangular, 0.5, 2, qn_solve_triangular(IN(4, 4), IN(2, 4, 3), true, false, false))    \
    X(solve, -1, 1, qn_solve(positive_of(IN(3, 4, 4)), IN(4)))                                     \
    X(inv, -1, 1, qn_inv(positive_of(IN(4, 4))))                                                   \
    X(det, -1, 1, qn_det(positive_of(IN(3, 4, 4))))                                                \
    X(slogdet, -1, 1, slogdet_of(positive_of(IN(3, 4, 4))))                                        \
    X(qr, 0.1, 2, qr_of(positive_of(IN(4, 4))))                                                    \
    X(eigh, -1, 1, eigh_of(positive_of(IN(4, 4))))                                                 \
    X(eig, -1, 1, eig_of(positive_of(IN(4, 4))))                                                   \
    X(eigvals, -1, 1, qn_sin(qn_real(qn_eigvals(positive_of(IN(4, 4))))))                          \
    X(svd, -1, 1, svd_of(positive_of(IN(4, 4))))                                                   \
    X(lstsq, -1, 1, qn_lstsq(positive_of(IN(4, 4)), IN(4, 2)))                                     \
    X(pinv, -1, 1, qn_pinv(positive_of(IN(4, 4)), -1))                                             \
    X(matrix_rank, -1, 1, qn_matrix_rank(positive_of(IN(4, 4)), -1))                               \
    X(matrix_power, -1, 1, qn_matrix_power(IN(4, 4), 3))                                           \
    X(matrix_exp, -1, 1, qn_matrix_exp(IN(4, 4)))                                                  \
    X(cross, -4, 4, qn_cross(IN(4, 3), IN(4, 3), 1))                                               \
    X(kron, -2, 2, qn_kron(IN(2, 3), IN(4)))                                                       \
    X(one_hot, 0, 0, qn_one_hot(INDEX(6, 4), 5, a->d))                                             \
    X(embedding, -4, 4, qn_embedding(M, INDEX(4, 2, 3)))                                           \
    X(matmul, -2, 2, qn_matmul(IN(2, 5, 7), IN(7, 3)))                                             \
    X(dot, -2, 2, qn_dot(IN(9), IN(9)))                                                            \
    X(outer, -2, 2, qn_outer(IN(4), IN(5)))                                                        \
    X(tensordot, -2, 2, qn_tensordot(IN(3, 4, 5), IN(5, 2, 3), 2, AXES(0, 2), AXES(2, 0)))         \
    X(einsum, -2, 2, qn_einsum(2, LIST(IN(2, 3, 4), IN(2, 4, 3)), "bij,bjk->bik"))                 \
    X(linear, -2, 2, qn_linear(IN(4, 6), IN(5, 6), IN(5)))                                         \
    X(conv, -2, 2, qn_conv(IN(2, 3, 7, 6), IN(4, 3, 3, 2), IN(4), NULL))                           \
    X(conv1d, -2, 2,                                                                               \
      qn_conv1d(IN(2, 4, 9), IN(6, 2, 3), IN(6),                                                   \
                &QN_CONV_OPTIONS(.stride = {2}, .before = {1}, .after = {1}, .groups = 2)))        \
    X(conv2d, -2, 2,                                                                               \
      qn_conv2d(IN(1, 2, 6, 7), IN(3, 2, 3, 3), NULL,                                              \
                &QN_CONV_OPTIONS(.dilation = {2, 2}, .before = {2, 2}, .after = {2, 2})))          \
    X(conv3d, -2, 2, qn_conv3d(IN(1, 2, 4, 5, 4), IN(2, 2, 2, 2, 2), IN(2), NULL))                 \
    X(conv_transpose, -2, 2, qn_conv_transpose(IN(1, 3, 4, 5), IN(3, 2, 3, 2), IN(2), NULL))       \
    X(max_pool, -4, 4, qn_max_pool(IN(1, 2, 6, 6), DIMS(2, 3), NULL))                              \
    X(avg_pool, -4, 4, qn_avg_pool(IN(1, 2, 6, 6), DIMS(2, 3), NULL))                              \
    X(pool, -4, 4,                                                                                 \
      both_of(qn_pool(IN(1, 2, 5, 7), DIMS(3, 2),                                                  \
                      &QN_POOL_OPTIONS(.kind = QN_POOL_AVG, .stride = {2, 2}, .before = {1, 0},    \
                                       .after = {1, 0}, .ceil = true, .exclude_padding = true)),   \
              qn_pool(IN(1, 2, 5, 7), DIMS(3, 4), &QN_POOL_OPTIONS(.adaptive = true))))            \
    X(max_pool_index, -4, 4, max_pool_index_of(IN(1, 2, 7, 6)))                                    \
    X(fractional_max_pool, -4, 4,                                                                  \
      fractional_of(IN(1, 2, 7, 6), qn_mul(INDEX(9, 1, 2, 2), qn_scalar(a->qn, QN_F64, 0.1))))     \
    X(max_unpool, -4, 4,                                                                           \
      qn_max_unpool(IN(1, 2, 3), qn_iota(a->qn, QN_I64, 3, DIMS(1, 2, 3), 2), DIMS(8)))            \
    X(interpolate, -4, 4, interpolate_of(a))                                                       \
    X(grid_sample, -2, 2,                                                                          \
      both_of(qn_grid_sample(IN(1, 2, 4, 5), IN(1, 3, 3, 2), QN_INTERPOLATE_LINEAR,                \
                             QN_GRID_REFLECT, false),                                              \
              qn_grid_sample(IN(1, 2, 4, 5), IN(1, 3, 3, 2), QN_INTERPOLATE_CUBIC, QN_GRID_ZEROS,  \
                             true)))                                                               \
    X(im2col, -4, 4, qn_im2col(IN(1, 2, 5, 4), DIMS(2, 3), &QN_CONV_OPTIONS(.before = {1, 1})))    \
    X(col2im, -4, 4,                                                                               \
      qn_col2im(IN(1, 12, 9), 2, DIMS(5, 3), DIMS(2, 3),                                           \
                &QN_CONV_OPTIONS(.stride = {2, 1}, .before = {1, 1}, .after = {0, 1})))            \
    X(softmax, -4, 4, qn_softmax(M, 1))                                                            \
    X(softmax_axes, -4, 4, qn_softmax_axes(IN(3, 4, 5), 2, AXES(0, 2)))                            \
    X(log_softmax, -4, 4, qn_log_softmax(M, 0))                                                    \
    X(log_softmax_axes, -4, 4, qn_log_softmax_axes(IN(3, 4, 5), 2, AXES(1, 2)))                    \
    X(layer_norm, -4, 4, qn_layer_norm(M, IN(6), IN(6), 1e-3))                                     \
    X(rms_norm, -4, 4, qn_rms_norm(M, IN(6), 1e-3))                                                \
    X(group_norm, -4, 4, qn_group_norm(IN(2, 4, 5), IN(4), IN(4), 2, 1e-3))                        \
    X(attention, -2, 2,                                                                            \
      qn_attention(IN(2, 5, 4), IN(2, 5, 4), IN(2, 5, 4), &QN_ATTENTION_OPTIONS(.causal = true)))  \
    X(dropout, -4, 4, qn_dropout(M, qn_key(a->qn, 7), 0.5))                                        \
    X(cross_entropy, -4, 4, qn_cross_entropy(M, INDEX(6, 4)))                                      \
    X(cross_entropy_ignoring, -4, 4, qn_cross_entropy_ignoring(M, INDEX(6, 4), 2))                 \
    X(nll_loss, -4, -0.1, qn_nll_loss(M, INDEX(6, 4)))                                             \
    X(mse_loss, -4, 4, qn_mse_loss(M, M))                                                          \
    X(l1_loss, -4, 4, qn_l1_loss(M, M))                                                            \
    X(huber_loss, -4, 4, qn_huber_loss(M, M, 1.5))                                                 \
    X(bce_with_logits, 0.1, 0.9, qn_bce_with_logits(M, M))                                         \
    X(key, 0, 0, qn_key(a->qn, 0x123456789abcdefull))                                              \
    X(key_fold, 0, 0, qn_key_fold(qn_key(a->qn, 3), 1ull << 40))                                   \
    X(random_bits, 0, 0, qn_random_bits(qn_key(a->qn, 3), 2, DIMS(5, 7)))                          \
    X(uniform, 0, 0, qn_uniform(qn_key(a->qn, 3), a->d, 2, DIMS(5, 7)))                            \
    X(randn, 0, 0, qn_randn(qn_key(a->qn, 3), a->d, 2, DIMS(5, 7)))                                \
    X(randint, 0, 0, qn_randint(qn_key(a->qn, 3), a->d, 2, DIMS(5, 7), 1, 100))                    \
    X(bernoulli, 0, 0, qn_bernoulli(qn_key(a->qn, 3), 2, DIMS(5, 7), 0.3))                         \
    X(erfinv, -0.95, 0.95, qn_erfinv(M))                                                           \
    X(celu, -4, 4, qn_celu(M, 1.5))                                                                \
    X(hardtanh, -4, 4, qn_hardtanh(M, 0, 2))                                                       \
    X(threshold, -4, 4, qn_threshold(M, 1, 2))                                                     \
    X(softplus_beta, -4, 4, qn_softplus_beta(M, 2, 5))                                             \
    X(glu, -4, 4, qn_glu(M, 1))                                                                    \
    X(nan_to_num, -4, 4, qn_nan_to_num(M, 0, 1, -1))                                               \
    X(frexp, -4, 4, frexp_of(M))                                                                   \
    X(fft, -4, 4, qn_fft(IN(3, 6, 2), 0, -1, QN_NORM_BACKWARD))                                    \
    X(ifft, -4, 4, qn_ifft(IN(5, 3, 2), 7, 0, QN_NORM_BACKWARD))                                   \
    X(rfft, -4, 4, qn_rfft(M, 0, -1, QN_NORM_ORTHO))                                               \
    X(irfft, -4, 4, qn_irfft(IN(3, 4, 2), 0, -1, QN_NORM_BACKWARD))                                \
    X(hfft, -4, 4, qn_hfft(IN(3, 4, 2), 5, -1, QN_NORM_FORWARD))                                   \
    X(ihfft, -4, 4, qn_ihfft(IN(5, 3), 0, 0, QN_NORM_BACKWARD))                                    \
    X(fftn, -4, 4, qn_fftn(IN(3, 4, 2), 0, NULL, QN_NORM_BACKWARD))                                \
    X(ifftn, -4, 4, qn_ifftn(IN(3, 4, 2, 2), 2, AXES(2, 0), QN_NORM_ORTHO))                        \
    X(rfftn, -4, 4, qn_rfftn(IN(3, 5, 2), 2, AXES(0, 1), QN_NORM_BACKWARD))                        \
    X(irfftn, -4, 4, qn_irfftn(IN(3, 4, 2), 0, NULL, 7, QN_NORM_BACKWARD))                         \
    X(fft2, -4, 4, qn_fft2(IN(4, 6, 2), QN_NORM_BACKWARD))                                         \
    X(ifft2, -4, 4, qn_ifft2(IN(4, 3, 2), QN_NORM_BACKWARD))                                       \
    X(rfft2, -4, 4, qn_rfft2(M, QN_NORM_BACKWARD))                                                 \
    X(irfft2, -4, 4, qn_irfft2(IN(4, 3, 2), 0, QN_NORM_FORWARD))                                   \
    X(fftfreq, 0, 0, qn_fftfreq(a->qn, a->d, 7, 0.5))                                              \
    X(rfftfreq, 0, 0, qn_rfftfreq(a->qn, a->d, 8, 0.5))                                            \
    X(fftshift, -4, 4, qn_fftshift(M, 0, NULL))                                                    \
    X(ifftshift, -4, 4, qn_ifftshift(IN(5, 6), 1, AXES(0)))                                        \
    X(cast_saturating, -300, 300, qn_cast_saturating(M, dtype_is_float(a->d) ? QN_F64 : QN_I8))    \
    X(mx_quantize, -4, 4, mx_of(qn_detach(M), false))                                              \
    X(mx_dequantize, -4, 4, mx_of(qn_detach(M), true))                                             \
    X(bitwise_count, -8, 8, qn_bitwise_count(M))                                                   \
    X(nextafter, -4, 4, qn_bitcast(qn_nextafter(M, M), a->bits))                                   \
    X(ldexp, -4, 4, qn_ldexp(M, INDEX(7, 4, 6)))                                                   \
    X(gcd, -8, 8, qn_gcd(M, M))                                                                    \
    X(lcm, -8, 8, qn_lcm(M, M))                                                                    \
    X(clip, -4, 4, qn_clip(M, qn_like(M, 1), IN(6)))                                               \
    X(prelu, -4, 4, qn_prelu(IN(2, 3, 4), IN(3)))                                                  \
    X(isclose, -4, 4, qn_isclose(M, M, 0.5, 0.5, false))                                           \
    X(allclose, -4, 4, qn_allclose(M, M, 0.5, 20, true))                                           \
    X(softmin, -4, 4, qn_softmin(M, 1))                                                            \
    X(count_nonzero, -4, 4, qn_count_nonzero(M, 1, false))                                         \
    X(count_nonzero_axes, -4, 4, qn_count_nonzero_axes(IN(3, 4, 2), 2, AXES(0, 2), true))          \
    X(nansum, -4, 4, qn_nansum(M, 1, false))                                                       \
    X(nansum_axes, -4, 4, qn_nansum_axes(IN(3, 4, 2), 2, AXES(0, 2), true))                        \
    X(nanprod, 0.5, 2, qn_nanprod(M, 1, false))                                                    \
    X(nanprod_axes, 0.5, 2, qn_nanprod_axes(IN(3, 4, 2), 2, AXES(0, 2), true))                     \
    X(nanmax, -4, 4, qn_nanmax(M, 1, false))                                                       \
    X(nanmax_axes, -4, 4, qn_nanmax_axes(IN(3, 4, 2), 2, AXES(0, 2), true))                        \
    X(nanmin, -4, 4, qn_nanmin(M, 1, false))                                                       \
    X(nanmin_axes, -4, 4, qn_nanmin_axes(IN(3, 4, 2), 2, AXES(0, 2), true))                        \
    X(nanmean, -4, 4, qn_nanmean(M, 1, false))                                                     \
    X(nanmean_axes, -4, 4, qn_nanmean_axes(IN(3, 4, 2), 2, AXES(0, 2), true))                      \
    X(nanvariance, -4, 4, qn_nanvariance(M, 1, 1, false))                                          \
    X(nanvariance_axes, -4, 4, qn_nanvariance_axes(IN(3, 4, 5), 2, AXES(0, 2), 0, true))           \
    X(nanstd, -4, 4, qn_nanstd(M, 1, 1, false))                                                    \
    X(nanstd_axes, -4, 4, qn_nanstd_axes(IN(3, 4, 5), 2, AXES(0, 2), 0, true))                     \
    X(sum_as, -4, 4, qn_sum_as(IN(3, 4, 2), 2, AXES(0, 2), QN_F64, false))                         \
    X(prod_as, 0.5, 2, qn_prod_as(IN(3, 4, 2), 2, AXES(0, 2), QN_F64, false))                      \
    X(mean_as, -4, 4, qn_mean_as(IN(3, 4, 2), 2, AXES(0, 2), QN_F64, false))                       \
    X(aminmax, -4, 4, aminmax_of(M))                                                               \
    X(trace, -4, 4, qn_trace(IN(2, 4, 5), 1))                                                      \
    X(narrow, -4, 4, qn_narrow(M, 1, -4, 3))                                                       \
    X(expand_as, -4, 4, qn_expand_as(IN(4, 1), qn_ones(a->qn, QN_F32, 3, DIMS(2, 4, 5))))          \
    X(unflatten, -4, 4, qn_unflatten(M, 1, 2, DIMS(2, -1)))                                        \
    X(moveaxis, -4, 4, qn_moveaxis(IN(2, 3, 4), 1, AXES(0), AXES(-1)))                             \
    X(atleast, -4, 4, qn_atleast(M, 3))                                                            \
    X(rot90, -4, 4, qn_rot90(IN(2, 3, 4), 3, 1, 2))                                                \
    X(diag_embed, -4, 4, qn_diag_embed(IN(2, 3), -1))                                              \
    X(diag, -4, 4, qn_diag(qn_diag(M, 1), 0))                                                      \
    X(diagonal_axes, -4, 4, qn_diagonal_axes(IN(3, 2, 4), 1, 0, 2))                                \
    X(broadcast_arrays, -4, 4, broadcast_of(IN(3, 1), IN(4)))                                      \
    X(view, -4, 4, qn_view(M, QN_U32))                                                             \
    X(clone, -4, 4, qn_clone(qn_transpose(M, 0, 1)))                                               \
    X(variable, -4, 4, qn_variable(qn_transpose(M, 0, 1)))                                         \
    X(unstack, -4, 4, unstack_of(IN(3, 4)))                                                        \
    X(meshgrid_xy, -4, 4, meshgrid_xy_of(IN(3), IN(4)))                                            \
    X(repeat_counts, -4, 4, qn_repeat_counts(M, 0, 4, DIMS(2, 0, 3, 1)))                           \
    X(index, -4, 4, index_of(IN(3, 4, 5), INDEX(5, 2, 1), INDEX(3, 4)))                            \
    X(index_put, -4, 4, index_put_of(IN(3, 4, 5), INDEX(5, 2, 1), INDEX(3, 4), IN(4, 1)))          \
    X(index_copy, -4, 4, qn_index_copy(M, INDEX(6, 3), IN(4, 3), 1))                               \
    X(index_fill, -4, 4, qn_index_fill(M, INDEX(6, 3), 1, 1))                                      \
    X(scatter_mean, -4, 4,                                                                         \
      both_of(qn_scatter_mean(M, INDEX(7, 4, 3), IN(4, 3), 1, true),                               \
              qn_scatter_mean(M, INDEX(7, 4, 3), IN(4, 3), 1, false)))                             \
    X(masked_fill, -4, 4, qn_masked_fill(M, qn_lt(M, M), IN(6)))                                   \
    X(masked_scatter, -4, 4, qn_masked_scatter(M, qn_lt(M, M), IN(3, 9)))                          \
    X(nonzero, -1, 1, nonzero_of(IN(4, 7)))                                                        \
    X(masked_select, -4, 4, masked_select_of(M, qn_lt(M, M)))                                      \
    X(head, -4, 4, qn_head(M, 1, qn_scalar_int(a->qn, QN_I64, 4)))                                 \
    X(slice_scatter, -4, 4, qn_slice_scatter(M, IN(4, 3), 1, 1, QN_END, 2))                        \
    X(select_scatter, -4, 4, qn_select_scatter(M, IN(4), 1, -2))                                   \
    X(diagonal_scatter, -4, 4, qn_diagonal_scatter(IN(2, 4, 6), IN(2, 3), -1))                     \
    X(layer_norm_axes, -4, 4,                                                                      \
      qn_layer_norm_axes(IN(3, 4, 5), 2, AXES(1, 2), IN(4, 5), IN(5), 1e-3))                       \
    X(instance_norm, -4, 4, qn_instance_norm(IN(2, 3, 5), IN(3), IN(3), 1e-3))                     \
    X(batch_norm, 0.5, 4, qn_batch_norm(IN(2, 3, 5), IN(3), IN(3), IN(3), IN(3), 1e-3))            \
    X(batch_norm_training, -4, 4, batch_norm_of(IN(2, 3, 5), IN(3), IN(3)))                        \
    X(rope, -4, 4,                                                                                 \
      both_of(qn_rope(IN(2, 3, 4), INDEX(9, 3), 100, true),                                        \
              qn_rope(IN(2, 3, 4), INDEX(9, 3), 100, false)))                                      \
    X(pixel_shuffle, -4, 4, qn_pixel_shuffle(IN(2, 8, 2, 3), 2))                                   \
    X(pixel_unshuffle, -4, 4, qn_pixel_unshuffle(IN(2, 2, 4, 6), 2))                               \
    X(cross_entropy_with, -4, 4,                                                                   \
      qn_cross_entropy_with(M, INDEX(6, 4),                                                        \
                            &QN_CROSS_ENTROPY_OPTIONS(.smoothing = 0.25, .weight = IN(6),          \
                                                      .ignore = 2, .ignores = true,                \
                                                      .reduction = QN_REDUCE_SUM)))                \
    X(nll_loss_with, -4, 4,                                                                        \
      qn_nll_loss_with(M, INDEX(6, 4),                                                             \
                       &QN_CROSS_ENTROPY_OPTIONS(.smoothing = 0.25, .weight = IN(6), .ignore = 2,  \
                                                 .ignores = true, .reduction = QN_REDUCE_SUM)))    \
    X(cross_entropy_soft, -4, 4, qn_cross_entropy_soft(M, IN(6), QN_REDUCE_NONE))                  \
    X(kl_div, 0.5, 4,                                                                              \
      both_of(qn_kl_div(M, M, false, QN_REDUCE_NONE), qn_kl_div(M, M, true, QN_REDUCE_SUM)))       \
    X(bce_loss, 0.1, 0.9, qn_bce_loss(M, M, QN_REDUCE_MEAN))                                       \
    X(ctc_loss, -2, 2, qn_ctc_loss(IN(5, 2, 4), INDEX(3, 2, 2), NULL, NULL, 3, QN_REDUCE_NONE))    \
    X(triplet_margin_loss, -4, 4, qn_triplet_margin_loss(M, M, M, 1, QN_REDUCE_SUM))               \
    X(cosine_similarity, -4, 4, qn_cosine_similarity(M, IN(6), 1, 1e-8))                           \
    X(cosine_embedding_loss, -4, 4,                                                                \
      qn_cosine_embedding_loss(M, M, qn_sub(INDEX(2, 4), qn_weak_int(INDEX(2, 4), 1)), 0,          \
                               QN_REDUCE_MEAN))                                                    \
    X(margin_ranking_loss, -4, 4, qn_margin_ranking_loss(M, M, M, 1, QN_REDUCE_SUM))               \
    X(hinge_embedding_loss, -4, 4, qn_hinge_embedding_loss(M, INDEX(2, 4, 6), 1, QN_REDUCE_SUM))   \
    X(soft_margin_loss, -4, 4, qn_soft_margin_loss(M, M, QN_REDUCE_NONE))                          \
    X(focal_loss, 0.1, 0.9, qn_focal_loss(M, M, 0.25, 2, QN_REDUCE_MEAN))                          \
    X(poisson_nll_loss, 0.5, 4,                                                                    \
      both_of(qn_poisson_nll_loss(M, M, true, QN_REDUCE_MEAN),                                     \
              qn_poisson_nll_loss(M, M, false, QN_REDUCE_MEAN)))                                   \
    X(gaussian_nll_loss, 0.5, 4, qn_gaussian_nll_loss(M, M, M, 1e-6, QN_REDUCE_SUM))               \
    X(key_split, 0, 0, key_split_of(qn_key(a->qn, 3)))                                             \
    X(key_fold_in, 0, 0, qn_key_fold_in(qn_key(a->qn, 3), qn_scalar(a->qn, QN_I64, 77)))           \
    X(exponential, 0, 0, qn_exponential(qn_key(a->qn, 3), a->d, 2, DIMS(5, 7)))                    \
    X(gumbel, 0, 0, qn_gumbel(qn_key(a->qn, 3), a->d, 2, DIMS(5, 7)))                              \
    X(categorical, -4, 4, qn_categorical(qn_key(a->qn, 3), M))                                     \
    X(multinomial, 1, 4, qn_multinomial(qn_key(a->qn, 3), M, 5))                                   \
    X(gamma, 0, 0, qn_gamma(qn_key(a->qn, 3), qn_full(a->qn, a->d, 2, DIMS(4, 6), 2)))             \
    X(beta, 0, 0,                                                                                  \
      qn_beta(qn_key(a->qn, 3), qn_full(a->qn, a->d, 2, DIMS(4, 1), 2),                            \
              qn_ones(a->qn, a->d, 1, DIMS(6))))                                                   \
    X(dirichlet, 0, 0, qn_dirichlet(qn_key(a->qn, 3), qn_ones(a->qn, a->d, 2, DIMS(4, 6))))        \
    X(poisson, 0.5, 20, qn_poisson(qn_key(a->qn, 3), M))                                           \
    X(truncated_normal, 0, 0,                                                                      \
      qn_truncated_normal(qn_key(a->qn, 3), a->d, 2, DIMS(5, 7), -0.5, 2.5))                       \
    X(permutation, 0, 0, qn_permutation(qn_key(a->qn, 3), 20))                                     \
    X(shuffle, -4, 4, qn_shuffle(qn_key(a->qn, 3), M, 1))                                          \
    X(multinomial_distinct, 1, 4, qn_multinomial_distinct(qn_key(a->qn, 3), M, 5))                 \
    X(orthogonal, 0, 0, qn_orthogonal(qn_key(a->qn, 3), a->d, 3, DIMS(5, 7, 2), 1.5))              \
    X(kaiming_normal, 0, 0, qn_kaiming_normal(qn_key(a->qn, 3), a->d, 3, DIMS(5, 7, 2), 1.5))      \
    X(kaiming_uniform, 0, 0, qn_kaiming_uniform(qn_key(a->qn, 3), a->d, 3, DIMS(5, 7, 2), 1.5))    \
    X(xavier_normal, 0, 0, qn_xavier_normal(qn_key(a->qn, 3), a->d, 3, DIMS(5, 7, 2), 1.5))        \
    X(xavier_uniform, 0, 0, qn_xavier_uniform(qn_key(a->qn, 3), a->d, 3, DIMS(5, 7, 2), 1.5))
