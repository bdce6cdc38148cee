/* test_complex_calls.c - products, movements and reductions of complex tensors beside plain loops,
 * and gradients beside finite differences. */
#include "complex_numbers.h"

/* ---- products, movements, reductions --------------------------------------------------------- */

static void close_to(qn_tensor *t, const wide *want, int n, double size, const char *what) {
    number got[MOST];
    values(t, got, n, what);
    for (int i = 0; i < n; i++)
        if (!(cabs(got[i] - (number)want[i]) <= size * 0x1p-50))
            FAIL("%s: %d is %g%+gi, not %g%+gi", what, i, creal(got[i]), cimag(got[i]),
                 (double)creall(want[i]), (double)cimagl(want[i]));
    no_error(what);
}

static void products_are_sums_of_products(void) {
    enum { M = 5, K = 7, N = 4 };
    const int64_t xs[2] = {M, K}, ys[2] = {K, N};
    number x[M * K], y[K * N];
    double real[K * N];
    wide want[M * N] = {0}, mixed[M * N] = {0}, outer[M * N];
    fill(x, M * K, 3, 2);
    fill(y, K * N, 4, 2);
    for (int i = 0; i < K * N; i++) real[i] = creal(y[i]);
    for (int i = 0; i < M * N; i++)
        for (int k = 0; k < K; k++) {
            want[i] += (wide)x[i / N * K + k] * (wide)y[k * N + i % N];
            mixed[i] += (wide)x[i / N * K + k] * (wide)real[k * N + i % N];
        }
    for (int i = 0; i < M * N; i++) outer[i] = (wide)x[i / N] * (wide)y[i % N];
    qn_tensor *a = made(QN_C128, 2, xs, x), *b = made(QN_C128, 2, ys, y);
    qn_tensor *r = qn_from(qn, QN_F64, 2, ys, real), *both[2] = {a, b};
    close_to(qn_matmul(a, b), want, M * N, 40, "matmul");
    close_to(qn_matmul(a, r), mixed, M * N, 40, "matmul of a real one");
    close_to(qn_einsum(2, both, "mk,kn->mn"), want, M * N, 40, "einsum");
    close_to(qn_tensordot(a, b, 1, (const int[]){1}, (const int[]){0}), want, M * N, 40,
             "tensordot");
    close_to(qn_outer(vector(QN_C128, M, x), vector(QN_C128, N, y)), outer, M * N, 4, "outer");
    wide dot = 0, bias[M * N];
    for (int i = 0; i < M; i++) dot += (wide)x[i] * (wide)y[i];
    close_to(qn_dot(vector(QN_C128, M, x), vector(QN_C128, M, y)), &dot, 1, 40, "dot");
    for (int i = 0; i < M * N; i++) bias[i] = want[i] + (wide)x[i % N];
    close_to(qn_linear(a, qn_transpose(b, 0, 1), vector(QN_C128, N, x)), bias, M * N, 40, "linear");
    for (int i = 0; i < M * N; i++) bias[i] = mixed[i] + (wide)x[i % N];
    close_to(qn_linear(a, qn_transpose(r, 0, 1), vector(QN_C128, N, x)), bias, M * N, 40,
             "linear, real weights");
    for (int i = 0; i < M * N; i++) bias[i] = want[i] + real[i % N];
    int64_t n = N;
    close_to(qn_linear(a, qn_transpose(b, 0, 1), qn_from(qn, QN_F64, 1, &n, real)), bias, M * N, 40,
             "linear, real bias");
}

/* z = k + i (k + 1000): a movement of z moves both parts as it moves k. */
static qn_tensor *counted(int rank, const int64_t *dims) {
    const int64_t n = 24;
    qn_tensor *k = qn_iota(qn, QN_F64, 1, &n, 0);
    return qn_reshape(qn_complex(k, qn_add(k, qn_like(k, 1000))), rank, dims);
}

/* Where k is `missing` nothing was moved to, and the imaginary part is 0. */
static void moved(const char *name, qn_tensor *z, qn_tensor *k, double missing) {
    number got[MOST], want[MOST];
    int n = k && qn_numel(k) < MOST ? (int)qn_numel(k) : 0;
    CHECK_INT(qn_rank(z), qn_rank(k));
    CHECK_INT(qn_dtype_of(z), QN_C128);
    values(z, got, n, name);
    values(k, want, n, name);
    for (int i = 0; i < n; i++) {
        double re = creal(want[i]), im = missing != 0 && re == missing ? 0 : re + 1000;
        if (got[i] != CMPLX(re, im)) FAIL("%s: %d", name, i);
    }
    no_error(name);
}

#define MOVED(call)                                                                                \
    do {                                                                                           \
        qn_tensor *x = z, *of_z = call;                                                            \
        x = k;                                                                                     \
        moved(#call, of_z, call, 0);                                                               \
    } while (0)

static void movements_move_both_parts(void) {
    const int64_t dims[3] = {2, 3, 4}, flat[2] = {4, 6}, big[4] = {5, 2, 3, 4},
                  twice[3] = {1, 2, 1};
    const int turn[3] = {2, 0, 1}, two[2] = {0, -1};
    qn_tensor *z = counted(3, dims), *k = qn_real(z);
    MOVED(qn_reshape(x, 2, flat));
    MOVED(qn_permute(x, 3, turn));
    MOVED(qn_transpose(x, -1, 0));
    MOVED(qn_slice(x, -1, 1, 4, 2));
    MOVED(qn_select(x, -2, 1));
    MOVED(qn_flip(x, -1));
    MOVED(qn_flip_axes(x, 2, two));
    MOVED(qn_roll(x, 1, 1));
    MOVED(qn_unsqueeze(x, -1));
    MOVED(qn_flatten(x, 0, -1));
    MOVED(qn_expand(qn_unsqueeze(x, 0), 4, big));
    MOVED(qn_diagonal(x, 0));
    MOVED(qn_rot90(x, 1, 0, 1));
    MOVED(qn_tile(x, 3, twice));
    MOVED(qn_fftshift(x, 0, NULL));
    MOVED(qn_contiguous(x));
    MOVED(qn_clone(x));
    MOVED(qn_detach(x));
    MOVED(qn_where(qn_lt(k, qn_like(k, 7)), x, qn_flip(x, 0)));
}

static void pieces_and_places_have_both_parts(void) {
    const int64_t dims[3] = {2, 3, 4}, pads[6] = {1, 0, 0, 2, 1, 1}, sizes[2] = {1, 3}, n = 2;
    const int32_t at[2] = {2, 0};
    qn_tensor *z = counted(3, dims), *k = qn_real(z), *out[4], *real[4];
    qn_tensor *index = qn_from(qn, QN_I32, 1, &n, at);
    MOVED(qn_take(x, index, 1));
    MOVED(qn_index_copy(x, index, qn_slice(x, 1, 0, 2, 1), 1));
    qn_tensor *of_z[2] = {z, qn_flip(z, 0)}, *of_k[2] = {k, qn_flip(k, 0)};
    moved("concat", qn_concat(2, of_z, 1), qn_concat(2, of_k, 1), 0);
    moved("stack", qn_stack(2, of_z, -1), qn_stack(2, of_k, -1), 0);
    moved("pad", qn_pad(z, pads, QN_PAD_CONSTANT, -7), qn_pad(k, pads, QN_PAD_CONSTANT, -7), -7);
    CHECK_INT(qn_unstack(z, 1, 3, out), QN_OK);
    CHECK_INT(qn_unstack(k, 1, 3, real), QN_OK);
    for (int i = 0; i < 3; i++) moved("unstack", out[i], real[i], 0);
    CHECK_INT(qn_split(z, 2, 2, sizes, out), QN_OK);
    CHECK_INT(qn_split(k, 2, 2, sizes, real), QN_OK);
    moved("split", out[1], real[1], 0);
    number want[2] = {1, CMPLX(5, 6)}, got[2];
    float one = 1;
    qn_tensor *mixed[2] = {qn_from(qn, QN_F32, 0, NULL, &one),
                           qn_from(qn, QN_C128, 0, NULL, &want[1])};
    values(qn_stack(2, mixed, 0), got, 2, "stack of a real and a complex one");
    CHECK(got[0] == want[0] && got[1] == want[1]);
    no_error("pieces");
}

/* What only shares a shape with complex numbers has its own dtype, and none is brought to another:
 * knob explicit lets them. */
static void shapes_meet_and_dtypes_stay(void) {
    const int64_t two = 2, three = 3, grid[2] = {2, 3}, column[2] = {2, 1};
    const bool truth[3] = {true, false, true};
    const double real[2] = {5, 7};
    number given[6], got[6];
    for (int i = 0; i < 6; i++) given[i] = CMPLX(i, -i);
    qn_set(qn, "explicit", "1");
    qn_tensor *z = made(QN_C64, 2, grid, given), *mask = qn_from(qn, QN_BOOL, 1, &three, truth),
              *x = qn_from(qn, QN_F64, 2, column, real), *out[3];
    CHECK_INT(qn_broadcast_arrays(3, (qn_tensor *[]){mask, z, x}, out), QN_OK);
    CHECK_INT(qn_dtype_of(out[0]), QN_BOOL);
    CHECK_INT(qn_dtype_of(out[1]), QN_C64);
    CHECK_INT(qn_dtype_of(out[2]), QN_F64);
    values(out[0], got, 6, "broadcast_arrays");
    for (int i = 0; i < 6; i++) CHECK(got[i] == truth[i % 3]);
    values(out[1], got, 6, "broadcast_arrays");
    for (int i = 0; i < 6; i++) CHECK(got[i] == given[i]);
    values(out[2], got, 6, "broadcast_arrays");
    for (int i = 0; i < 6; i++) CHECK(got[i] == real[i / 3]);
    qn_tensor *line = qn_from(qn, QN_F64, 1, &two, real), *turned = qn_select(z, 0, 1);
    CHECK_INT(qn_meshgrid(2, (qn_tensor *[]){line, turned}, out), QN_OK);
    CHECK_INT(qn_dtype_of(out[0]), QN_F64);
    CHECK_INT(qn_dtype_of(out[1]), QN_C64);
    values(out[0], got, 6, "meshgrid");
    for (int i = 0; i < 6; i++) CHECK(got[i] == real[i / 3]);
    values(out[1], got, 6, "meshgrid");
    for (int i = 0; i < 6; i++) CHECK(got[i] == given[3 + i % 3]);
    qn_tensor *like = qn_expand_as(mask, z), *line_of = qn_expand_as(turned, qn_real(z));
    CHECK_INT(qn_dtype_of(like), QN_BOOL);
    CHECK_INT(qn_dtype_of(line_of), QN_C64);
    values(like, got, 6, "expand_as");
    for (int i = 0; i < 6; i++) CHECK(got[i] == truth[i % 3]);
    values(line_of, got, 6, "expand_as");
    for (int i = 0; i < 6; i++) CHECK(got[i] == given[3 + i % 3]);
    qn_set(qn, "explicit", "0");
    no_error("shapes that meet");
}

/* Either part may be what is no number. */
static void what_is_no_number_is_left_out(void) {
    enum { N = 6 };
    const number z[N] = {1, CMPLX(2, NAN), CMPLX(NAN, 3), CMPLX(-4, 5), CMPLX(0.5, -6), NAN};
    const int axis = 0;
    qn_tensor *t = vector(QN_C64, N, z), *none = vector(QN_C64, 1, z + 5);
    number got[4];
    values(qn_nansum(t, 0, false), &got[0], 1, "nansum");
    values(qn_nansum_axes(t, 1, &axis, true), &got[1], 1, "nansum_axes");
    values(qn_nanmean(t, 0, true), &got[2], 1, "nanmean");
    values(qn_nanmean_axes(t, 1, &axis, false), &got[3], 1, "nanmean_axes");
    for (int i = 0; i < 4; i++) {
        number want = CMPLX(-2.5, -1) / (i < 2 ? 1 : 3);
        if (!(cabs(got[i] - want) < 1e-6)) FAIL("%d: %g%+gi", i, creal(got[i]), cimag(got[i]));
    }
    values(qn_nansum(none, 0, false), got, 1, "nansum of none");
    CHECK(creal(got[0]) == 0 && cimag(got[0]) == 0);
    values(qn_nanmean(none, 0, false), got, 1, "nanmean of none");
    CHECK(isnan(creal(got[0])) && isnan(cimag(got[0])));
}

static void reductions_take_a_dtype(void) {
    const number z[3] = {CMPLX(1e8, 1), CMPLX(1, -1e8), CMPLX(-1e8, 1e8)};
    const int axis = 0;
    qn_tensor *t = vector(QN_C64, 3, z), *y = qn_sum_as(t, 1, &axis, QN_C128, false);
    number got;
    CHECK_INT(qn_dtype_of(y), QN_C128);
    values(y, &got, 1, "sum_as");
    CHECK(got == CMPLX(1, 1));
    values(qn_mean_as(t, 1, &axis, QN_C128, true), &got, 1, "mean_as");
    CHECK(cabs(got - CMPLX(1, 1) / 3) < 1e-15);
    y = qn_sum_as(qn_real(t), 1, &axis, QN_C128, false);
    CHECK_INT(qn_dtype_of(y), QN_C128);
    values(y, &got, 1, "sum_as of real numbers");
    CHECK(got == 1);
    CHECK(!qn_sum_as(t, 1, &axis, QN_F32, false));
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_clear_error(qn);
}

static void numbers_are_put_at_places(void) {
    enum { N = 5 };
    const number z[N] = {1, CMPLX(2, 3), -4, CMPLX(0, 5), 6}, w[3] = {CMPLX(7, 1), 8, CMPLX(9, -2)};
    const int64_t at[3] = {4, 0, 4}, n = 3;
    qn_tensor *t = vector(QN_C64, N, z), *src = vector(QN_C64, 3, w);
    qn_tensor *index = qn_from(qn, QN_I64, 1, &n, at);
    for (int sum = 0; sum < 2; sum++) {
        qn_combine how = sum ? QN_COMBINE_SUM : QN_COMBINE_SET;
        qn_index_item place = QN_AT_PLACES(index);
        number got[2][N], want[N];
        memcpy(want, z, sizeof want);
        for (int i = 0; i < 3; i++) want[at[i]] = sum ? want[at[i]] + w[i] : w[i];
        values(qn_scatter(t, index, src, 0, how), got[0], N, "scatter");
        values(qn_index_put(t, 1, &place, src, how), got[1], N, "index_put");
        for (int i = 0; i < 2 * N; i++) CHECK(got[i / N][i % N] == want[i % N]);
    }
    CHECK(!qn_scatter(t, index, src, 0, QN_COMBINE_MAX));
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_clear_error(qn);
    values(qn_scatter(qn_real(t), index, src, 0, QN_COMBINE_SUM), (number[N]){0}, N, "into real");
    no_error("scatter");
}

static void numbers_are_selected_by_a_mask(void) {
    enum { N = 5 };
    const number z[N] = {1, CMPLX(2, 3), -4, CMPLX(0, 5), 6};
    const bool on[N] = {0, 1, 0, 1, 1};
    const int64_t n = N;
    qn_tensor *t = vector(QN_C128, N, z), *mask = qn_from(qn, QN_BOOL, 1, &n, on);
    qn_tensor *some = NULL, *count = NULL;
    number got[N];
    CHECK_INT(qn_masked_select(t, mask, -1, &some, &count), QN_OK);
    values(some, got, N, "masked_select");
    CHECK(got[0] == z[1] && got[1] == z[3] && got[2] == z[4] && got[3] == 0 && got[4] == 0);
    values(count, got, 1, "masked_select");
    CHECK(got[0] == 3);
    CHECK_INT(qn_masked_select(t, mask, -1, NULL, &count), QN_OK);
    CHECK_INT(qn_masked_select(t, t, -1, &some, &count), QN_EDTYPE);
    CHECK(!some && !count);
    qn_clear_error(qn);
}

static void reductions_are_loops(void) {
    enum { N = 13 };
    number x[N];
    wide sum = 0, product = 1, runs[N], sums[N], mean, spread = 0, norm = 0, count = N, one = 1;
    int64_t none = 0;
    fill(x, N, 9, 1.5);
    for (int i = 0; i < N; i++) {
        sums[i] = sum += (wide)x[i];
        runs[i] = product *= (wide)x[i];
        norm += (wide)x[i] * conjl((wide)x[i]);
    }
    mean = sum / N;
    for (int i = 0; i < N; i++) spread += ((wide)x[i] - mean) * conjl((wide)x[i] - mean) / (N - 1);
    norm = csqrtl(norm);
    double size = 40 * (double)cabsl(product);
    qn_tensor *z = vector(QN_C128, N, x);
    close_to(qn_sum(z, 0, false), &sum, 1, 20, "sum");
    close_to(qn_mean(z, QN_ALL, false), &mean, 1, 20, "mean");
    close_to(qn_prod(z, 0, false), &product, 1, size, "prod");
    close_to(qn_prod(z, QN_ALL, true), &product, 1, size, "prod of all");
    close_to(qn_cumprod(z, 0), runs, N, size, "cumprod");
    close_to(qn_cumsum(z, 0), sums, N, 40, "cumsum");
    close_to(qn_variance(z, 0, 1, false), &spread, 1, 40, "variance");
    spread = csqrtl(spread);
    close_to(qn_std(z, 0, 1, false), &spread, 1, 40, "std");
    close_to(qn_norm(z, 0, 2, false), &norm, 1, 40, "norm");
    close_to(qn_count_nonzero(z, 0, false), &count, 1, 0, "count_nonzero");
    close_to(qn_prod(qn_zeros(qn, QN_C128, 1, &none), 0, false), &one, 1, 0, "prod of nothing");
}

static void products_are_over_several_axes(void) {
    enum { A = 3, B = 5, C = 2, N = A * B * C };
    number x[N];
    wide of[B] = {1, 1, 1, 1, 1};
    fill(x, N, 21, 1.25);
    for (int i = 0; i < N; i++) of[i / C % B] *= (wide)x[i];
    double size = 0;
    for (int b = 0; b < B; b++) size = fmax(size, 40 * (double)cabsl(of[b]));
    qn_tensor *z = qn_reshape(vector(QN_C128, N, x), 3, (int64_t[]){A, B, C});
    close_to(qn_prod_axes(z, 2, (int[]){-1, 0}, false), of, B, size, "prod of two axes");
    qn_tensor *kept = qn_prod_axes(z, 2, (int[]){0, 2}, true);
    CHECK_INT(qn_rank(kept), 3);
    CHECK_INT(qn_dim(kept, 0), 1);
    CHECK_INT(qn_dim(kept, 1), B);
    CHECK_INT(qn_dim(kept, 2), 1);
    close_to(kept, of, B, size, "prod of two axes, kept");
    wide as_it_is[N];
    for (int i = 0; i < N; i++) as_it_is[i] = (wide)x[i];
    close_to(qn_prod_axes(z, 0, NULL, false), as_it_is, N, 0, "prod of no axes");
    CHECK(!qn_prod_axes(z, 2, (int[]){0, -3}, false)); /* one axis twice */
    qn_clear_error(qn);
    CHECK(!qn_prod_axes(z, 1, (int[]){3}, false));
    qn_clear_error(qn);
}

static void transforms_take_complex_numbers(void) {
    enum { N = 12 };
    number x[N];
    wide want[N] = {0};
    fill(x, N, 6, 1);
    for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++) {
            long double angle = -2 * 3.14159265358979323846264338L * (j * k % N) / N;
            want[k] += (wide)x[j] * cexpl(CMPLXL(0, angle));
        }
    qn_tensor *z = vector(QN_C128, N, x), *y = qn_fft(z, 0, -1, QN_NORM_BACKWARD);
    close_to(y, want, N, 40, "fft");
    for (int k = 0; k < N; k++) want[k] = (wide)x[k];
    close_to(qn_ifft(y, 0, -1, QN_NORM_BACKWARD), want, N, 40, "ifft");
    qn_tensor *real = qn_irfft(z, 0, 0, QN_NORM_BACKWARD);
    CHECK_INT(qn_dtype_of(real), QN_F64);
    CHECK_INT(qn_dim(real, 0), 22);
}

static void systems_are_solved(void) {
    enum { N = 5 };
    const int64_t dims[2] = {N, N};
    number a[N * N], b[N];
    wide unit[N * N] = {0}, right[N];
    fill(a, N * N, 12, 1);
    fill(b, N, 13, 1);
    for (int i = 0; i < N; i++) a[i * N + i] += 3, unit[i * N + i] = 1, right[i] = (wide)b[i];
    qn_tensor *m = made(QN_C128, 2, dims, a), *v = vector(QN_C128, N, b);
    close_to(qn_matmul(m, qn_solve(m, v)), right, N, 400, "solve");
    close_to(qn_matmul(m, qn_inv(m)), unit, N * N, 400, "inv");
    close_to(qn_matmul(m, qn_lstsq(m, v)), right, N, 4000, "lstsq");
    close_to(qn_matmul(m, qn_pinv(m, 0)), unit, N * N, 4000, "pinv");
    qn_tensor *square = qn_sub(qn_matmul(m, m), qn_eye(qn, QN_C128, N, N));
    close_to(qn_sub(qn_matrix_power(m, 2), square), unit, N * N, 400, "matrix_power");
    qn_tensor *there = qn_matrix_exp(m), *back = qn_matrix_exp(qn_neg(m));
    close_to(qn_matmul(there, back), unit, N * N, 4e6, "matrix_exp");
}

/* A Hermitian matrix far from singular; and with anything above its diagonal and in its imaginary
 * part. */
static void hermitian(int n, int seed, number *whole, number *lower) {
    number g[64];
    fill(g, n * n, seed, 1);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            number sum = i == k;
            for (int j = 0; j < n; j++) sum += g[i * n + j] * conj(g[k * n + j]);
            whole[i * n + k] = i == k ? creal(sum) : sum;
            lower[i * n + k] = i > k ? sum : i == k ? CMPLX(creal(sum), 7) : 99;
        }
}

static void hermitian_matrices_have_cholesky_factors(void) {
    enum { N = 5 };
    const int64_t dims[2] = {N, N};
    number whole[N * N], lower[N * N], l[N * N];
    wide want[N * N];
    hermitian(N, 21, whole, lower);
    for (int i = 0; i < N * N; i++) want[i] = (wide)whole[i];
    qn_tensor *x = made(QN_C128, 2, dims, lower), *y = qn_cholesky(x, false);
    close_to(qn_matmul(y, qn_conj(qn_transpose(y, 0, 1))), want, N * N, 400, "cholesky");
    values(y, l, N * N, "cholesky");
    for (int i = 0; i < N; i++)
        for (int k = i; k < N; k++) CHECK(k > i ? l[i * N + k] == 0 : cimag(l[i * N + i]) == 0);
    y = qn_cholesky(x, true);
    close_to(qn_matmul(qn_conj(qn_transpose(y, 0, 1)), y), want, N * N, 400, "cholesky, upper");
    qn_tensor *bad = qn_cholesky(qn_neg(x), false);
    values(bad, l, N * N, "of what is not positive");
    CHECK(isnan(creal(l[0])));
    CHECK(!qn_cholesky(qn_slice(x, 0, 0, 2, 1), false));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
}

/* Along Hermitian directions, by differences. */
static void the_gradient_of_a_cholesky_factor(void) {
    enum { N = 4 };
    const int64_t dims[2] = {N, N};
    number whole[N * N], lower[N * N], w[N * N], g[N * N], by[N * N], rest[N * N], moved[N * N];
    hermitian(N, 22, whole, lower);
    fill(w, N * N, 23, 1);
    qn_tensor *x = made(QN_C128, 2, dims, whole), *weight = made(QN_C128, 2, dims, w), *slope;
    CHECK_INT(qn_grad(qn_cholesky(x, false), weight, 1, &x, &slope), QN_OK);
    values(slope, g, N * N, "gradient of cholesky");
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) CHECK(cabs(g[i * N + k] - conj(g[k * N + i])) < 1e-12);
    for (int along = 0; along < 3; along++) {
        double h = 1e-6, got = 0, change[2] = {0};
        hermitian(N, 30 + along, by, rest);
        for (int i = 0; i < N * N; i++) got += creal(conj(g[i]) * by[i]);
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < N * N; i++) moved[i] = whole[i] + (side ? -h : h) * by[i];
            number l[N * N];
            values(qn_cholesky(made(QN_C128, 2, dims, moved), false), l, N * N, "moved");
            for (int i = 0; i < N * N; i++) change[side] += creal(conj(w[i]) * l[i]);
        }
        CHECK_NEAR(got, (change[0] - change[1]) / (2 * h), 1e-7, 1e-8);
    }
}

static void triangles_are_solved_and_ranks_counted(void) {
    enum { N = 5 };
    const int64_t dims[2] = {N, N};
    number a[N * N], b[N];
    wide right[N];
    fill(a, N * N, 14, 1);
    fill(b, N, 15, 1);
    for (int i = 0; i < N; i++) a[i * N + i] += 3, right[i] = (wide)b[i];
    qn_tensor *m = made(QN_C128, 2, dims, a), *v = vector(QN_C128, N, b);
    for (int kind = 0; kind < 8; kind++) {
        bool upper = kind & 1, transposed = kind & 2, unit = kind & 4;
        qn_tensor *t = upper ? qn_triu(m, unit) : qn_tril(m, unit ? -1 : 0);
        if (unit) t = qn_add(t, qn_eye(qn, QN_C128, N, N));
        if (transposed) t = qn_transpose(t, 0, 1);
        qn_tensor *x = qn_solve_triangular(m, v, upper, transposed, unit);
        close_to(qn_matmul(t, x), right, N, 4000, "solve_triangular");
    }
    qn_tensor *two = qn_add(qn_outer(v, v), qn_outer(qn_conj(v), qn_conj(v))),
              *rank = qn_matrix_rank(two, -1);
    int64_t got = 0;
    CHECK_INT(qn_dtype_of(rank), QN_I64);
    CHECK_INT(qn_read(rank, &got, 8), QN_OK);
    CHECK_INT(got, 2);
    CHECK_INT(qn_read(qn_matrix_rank(m, -1), &got, 8), QN_OK);
    CHECK_INT(got, N);
}

/* Of a singular value between the tolerance of its size and twice that. */
static void the_tolerance_of_pinv_is_of_the_matrix(void) {
    const int64_t dims[2] = {2, 2};
    double small = 3 * 0x1p-52;
    number a[4] = {1, 0, 0, CMPLX(0, small)}, got[4];
    values(qn_pinv(made(QN_C128, 2, dims, a), -1), got, 4, "pinv");
    CHECK(cabs(got[3] * a[3] - 1) < 1e-9);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* A real loss of eight numbers in which their parts have different weights. */
static qn_tensor *loss_of(const function *f, qn_tensor *z) {
    const int64_t n = 8;
    qn_tensor *y = f->of(z), *w = qn_iota(qn, QN_F64, 1, &n, 0);
    w = qn_add(qn_mul(w, qn_like(w, 0.25)), qn_like(w, 1));
    qn_tensor *re = qn_mul(qn_real(y), w), *im = qn_mul(qn_imag(y), qn_sub(w, qn_like(w, 2.3)));
    return qn_sum(qn_add(re, im), 0, false);
}

static void gradients_are_those_of_both_parts(void) {
    enum { N = 8 };
    const double h = 1e-5;
    for (int i = 0; i < FUNCTIONS; i++) {
        qn_scope scope = qn_scope_begin(qn);
        const function *f = &functions[i];
        number x[N], near[N], got[N], l[2];
        uint64_t seed = 3;
        for (int j = 0; j < N; j++)
            x[j] = CMPLX(uniform(&seed, 0.2, 0.9), uniform(&seed, 0.2, 0.9));
        qn_tensor *z = vector(QN_C128, N, x), *g = NULL;
        if (qn_grad(loss_of(f, z), NULL, 1, &z, &g)) FAIL("%s: %s", f->name, qn_error(qn));
        values(g, got, N, f->name);
        for (int j = 0; j < 2 * N; j++) {
            for (int side = 0; side < 2; side++) {
                memcpy(near, x, sizeof x);
                near[j / 2] += (side ? h : -h) * (j % 2 ? (number)I : 1);
                values(loss_of(f, vector(QN_C128, N, near)), &l[side], 1, f->name);
            }
            double want = creal(l[1] - l[0]) / (2 * h);
            double have = j % 2 ? cimag(got[j / 2]) : creal(got[j / 2]);
            if (!(fabs(want - have) <= 1e-7 * (1 + fabs(want))))
                FAIL("%s: derivative %d is %g, not %g", f->name, j, have, want);
        }
        qn_scope_end(qn, scope);
    }
}

/* The mean of f over a circle around z, times what turns it back; NAN where there is none, since a
 * branch cut or a pole is inside. */
static wide slope_at(wide (*f)(wide), wide z) {
    wide slope[2] = {0};
    enum { POINTS = 8 };
    for (int k = 0; k < 2; k++)
        for (int j = 0; j < POINTS; j++) {
            long double angle = 2 * 3.14159265358979323846264338L * (j + 0.5L) / POINTS;
            wide turn = (k ? 0.5L : 1) * 1e-3L * CMPLXL(cosl(angle), sinl(angle));
            slope[k] += f(z + turn) / turn / POINTS;
            if (cabsl(f(z + turn)) > 100) return (wide)NAN;
        }
    return cabsl(slope[0] - slope[1]) < 1e-8L * (1 + cabsl(slope[0])) ? slope[1] : (wide)NAN;
}

static bool has_a_slope(const char *name) {
    static const char *const none[] = {"conj", "real", "imag", "abs", "angle", "sign"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!strcmp(none[i], name)) return false;
    return true;
}

/* On the axes, on either side of a zero, and in each quadrant; of a tangent and a seed that are
 * neither real nor imaginary. By Cauchy and Riemann those tell all four derivatives. */
static void derivatives_hold_where_a_part_is_zero(void) {
    static const double part[] = {0.0, -0.0, 0.5, -0.7, 2, -3};
    enum { PARTS = sizeof part / sizeof *part, N = PARTS * PARTS };
    number x[N], tangent[N], back[N], on[N];
    for (int j = 0; j < N; j++) {
        x[j] = CMPLX(part[j / PARTS], part[j % PARTS]);
        tangent[j] = j % 3 ? CMPLX(0.3, 0.9) : CMPLX(0, 1);
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        const function *f = &functions[i];
        if (!has_a_slope(f->name)) continue;
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *z = vector(QN_C128, N, x), *v = vector(QN_C128, N, tangent);
        qn_tensor *y = f->of(z), *g = NULL, *t = NULL;
        int seen = 0;
        if (qn_grad(y, v, 1, &z, &g) || qn_jvp(1, &y, 1, &z, &v, &t)) {
            FAIL("%s: %s", f->name, qn_error(qn));
            continue;
        }
        values(g, back, N, f->name);
        values(t, on, N, f->name);
        for (int j = 0; j < N; j++) {
            wide slope = slope_at(f->oracle, (wide)x[j]);
            if (isnan(creall(slope))) continue;
            number want = (number)slope;
            double most = 1e-10 * (1 + cabs(want));
            seen++;
            if (!(cabs(back[j] - conj(want) * tangent[j]) <= most))
                FAIL("%s at %g%+gi: gradient %g%+gi, slope %g%+gi", f->name, creal(x[j]),
                     cimag(x[j]), creal(back[j]), cimag(back[j]), creal(want), cimag(want));
            if (!(cabs(on[j] - want * tangent[j]) <= most))
                FAIL("%s at %g%+gi: tangent %g%+gi, slope %g%+gi", f->name, creal(x[j]),
                     cimag(x[j]), creal(on[j]), cimag(on[j]), creal(want), cimag(want));
        }
        CHECK(seen >= N / 2);
        qn_scope_end(qn, scope);
    }
}

/* Where a cut is, each of its sides has the slope of its own. */
static void derivatives_hold_on_both_sides_of_a_cut(void) {
    number x[4] = {CMPLX(-2, 0.0), CMPLX(-2, -0.0), CMPLX(-0.25, 0.0), CMPLX(-0.25, -0.0)}, got[4];
    number one[4] = {1, 1, 1, 1};
    qn_tensor *z = vector(QN_C128, 4, x), *v = vector(QN_C128, 4, one), *g, *t;
    CHECK_INT(qn_grad(qn_log(z), v, 1, &z, &g), QN_OK);
    values(g, got, 4, "log");
    for (int j = 0; j < 4; j++) CHECK(cabs(conj(got[j]) - 1 / x[j]) < 1e-13);
    qn_tensor *y = qn_sqrt(z);
    CHECK_INT(qn_jvp(1, &y, 1, &z, &v, &t), QN_OK);
    values(t, got, 4, "sqrt");
    for (int j = 0; j < 4; j++) CHECK(cabs(got[j] - 0.5 / csqrt(x[j])) < 1e-13);
    CHECK_INT(qn_grad(qn_abs(z), qn_real(v), 1, &z, &g), QN_OK);
    values(g, got, 4, "abs");
    for (int j = 0; j < 4; j++) CHECK(got[j] == -1);
}

/* By the exponent 0 the derivative is log x, and 0 to the power 1 has the slope 1. */
static void derivatives_of_powers(void) {
    number x[3] = {2, CMPLX(0, 3), 0}, y[3] = {0, 0, 1}, one[3] = {1, 1, 1}, got[3];
    qn_tensor *a = vector(QN_C128, 3, x), *b = vector(QN_C128, 3, y), *v = vector(QN_C128, 3, one);
    qn_tensor *both[2] = {a, b}, *g[2];
    CHECK_INT(qn_grad(qn_pow(a, b), v, 2, both, g), QN_OK);
    values(g[1], got, 3, "by the exponent");
    for (int j = 0; j < 2; j++) CHECK(cabs(conj(got[j]) - clog(x[j])) < 1e-13);
    values(g[0], got, 3, "by the base");
    CHECK(cabs(got[0]) < 1e-13 && cabs(got[1]) < 1e-13 && got[2] == 1);
    no_error("powers");
}

static void derivatives_of_a_product(void) {
    number x[2] = {CMPLX(1, 2), CMPLX(-3, 0.5)}, b[2] = {CMPLX(0.5, -1), 2}, got[2];
    qn_tensor *z = vector(QN_C128, 2, x), *w = vector(QN_C128, 2, b), *g, *y = qn_mul(z, w);
    CHECK_INT(qn_grad(qn_sum(qn_square(qn_abs(y)), 0, false), NULL, 1, &z, &g), QN_OK);
    values(g, got, 2, "grad");
    for (int i = 0; i < 2; i++) CHECK(cabs(got[i] - 2 * x[i] * b[i] * conj(b[i])) < 1e-13);
    CHECK_INT(qn_grad(y, w, 1, &z, &g), QN_OK);
    values(g, got, 2, "grad with a seed");
    for (int i = 0; i < 2; i++) CHECK(cabs(got[i] - conj(b[i]) * b[i]) < 1e-13);
    CHECK_INT(qn_vjp(1, &y, &w, 1, &z, &g), QN_OK);
    values(g, got, 2, "vjp");
    for (int i = 0; i < 2; i++) CHECK(cabs(got[i] - conj(b[i]) * b[i]) < 1e-13);
    CHECK_INT(qn_jvp(1, &y, 1, &z, &w, &g), QN_OK);
    values(g, got, 2, "jvp");
    for (int i = 0; i < 2; i++) CHECK(cabs(got[i] - b[i] * b[i]) < 1e-13);
    qn_tensor *real = qn_real(w);
    CHECK_INT(qn_grad(y, NULL, 1, &z, &g), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK_INT(qn_jvp(1, &y, 1, &z, &real, &g), QN_EDTYPE);
    qn_clear_error(qn);
}

/* Of a square matrix of full rank it is the inverse's, also by the way of real matrices, in which
 * each singular value is there twice. */
static void the_gradient_of_a_pseudo_inverse(void) {
    enum { N = 3 };
    number a[N * N], s[N * N], got[N * N];
    wide want[N * N];
    fill(a, N * N, 14, 1);
    fill(s, N * N, 15, 1);
    for (int i = 0; i < N; i++) a[i * N + i] += 3;
    qn_tensor *m = made(QN_C128, 2, (int64_t[]){N, N}, a), *g;
    qn_tensor *w = made(QN_C128, 2, (int64_t[]){N, N}, s);
    CHECK_INT(qn_grad(qn_inv(m), w, 1, &m, &g), QN_OK);
    values(g, got, N * N, "inv");
    for (int i = 0; i < N * N; i++) want[i] = (wide)got[i];
    CHECK_INT(qn_grad(qn_pinv(m, -1), w, 1, &m, &g), QN_OK);
    close_to(g, want, N * N, 4000, "gradient of pinv");
}

/* Results may go where arguments came from. */
static void derivatives_into_the_list_of_arguments(void) {
    number x[2] = {CMPLX(1, 2), CMPLX(-3, 0.5)}, got[2];
    for (int k = 0; k < 3; k++) {
        qn_tensor *z = vector(QN_C128, 2, x), *y = qn_mul(z, z), *list[1] = {z}, *ys[1] = {y};
        qn_code code = k == 0   ? qn_grad(y, z, 1, list, list)
                       : k == 1 ? qn_vjp(1, &y, &z, 1, list, list)
                                : qn_jvp(1, ys, 1, &z, &z, ys);
        qn_tensor *g = k == 2 ? ys[0] : list[0];
        CHECK_INT(code, QN_OK);
        CHECK_INT(qn_dtype_of(g), QN_C128);
        CHECK_INT(qn_rank(g), 1);
        values(g, got, 2, "in place");
        for (int i = 0; i < 2; i++)
            CHECK(cabs(got[i] - 2 * (k == 2 ? x[i] : conj(x[i])) * x[i]) < 1e-13);
    }
}

/* What is added to a real product is its imaginary part alone. */
static void a_complex_bias_of_a_real_product(void) {
    double a[2] = {INFINITY, 1}, w[2] = {2, 3};
    number b = CMPLX(5, 7), got[2];
    const int64_t rows[2] = {2, 1}, one[2] = {1, 1}, line[3] = {1, 1, 2}, point[3] = {1, 1, 1};
    qn_tensor *bias = qn_from(qn, QN_C128, 1, one, &b);
    for (int k = 0; k < 2; k++) {
        qn_tensor *x = qn_from(qn, QN_F64, k ? 3 : 2, k ? line : rows, a);
        qn_tensor *by = qn_from(qn, QN_F64, k ? 3 : 2, k ? point : one, w);
        values(k ? qn_conv1d(x, by, bias, NULL) : qn_linear(x, by, bias), got, 2, "a bias");
        CHECK(isinf(creal(got[0])) && cimag(got[0]) == 7 && got[1] == CMPLX(7, 7));
    }
    double endless = INFINITY;
    qn_tensor *x = qn_ones(qn, QN_F64, 2, rows), *by = qn_from(qn, QN_F64, 2, one, &endless);
    values(qn_linear(x, by, bias), got, 2, "an infinite weight");
    CHECK(isinf(creal(got[0])) && cimag(got[0]) == 7);
}

static void what_makes_no_complex_tensor_says_so(void) {
    const int64_t n = 4;
    qn_tensor *x = qn_zeros(qn, QN_F32, 1, &n), *z = qn_zeros(qn, QN_C64, 1, &n), *out;
    qn_dtype others[] = {QN_C64, QN_C128, (qn_dtype)99};
    qn_module *m = qn_module_new(qn, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(!qn_view(x, others[i]));
        CHECK_INT(qn_error_code(qn), QN_EDTYPE);
        qn_clear_error(qn);
        CHECK(
            !qn_module_parameter(m, "w", others[i], 1, &n, &QN_INIT_OPTIONS(.kind = QN_INIT_ONES)));
        CHECK_INT(qn_error_code(qn), QN_EDTYPE);
        qn_clear_error(qn);
    }
    qn_module_free(m);
    CHECK_INT(qn_vmap(1, &z, NULL, 1, &x, &x, NULL, &out), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK_INT(qn_checkpoint(1, &z, 1, &x, &out), QN_EDTYPE);
    qn_clear_error(qn);
}

/* The error is told by the code, also where the complex tensor is another context's. */
static void another_contexts_results_are_refused_by_a_code(void) {
    qn_ctx *other = qn_open(&QN_OPTIONS(.device = "ref"));
    CHECK(other != NULL);
    qn_tensor *x = qn_ones(qn, QN_F32, 1, (int64_t[]){3}), *out = NULL;
    qn_tensor *mixed[2] = {x, qn_ones(other, QN_C64, 1, (int64_t[]){3})};
    CHECK(qn_vjp(2, mixed, NULL, 1, &x, &out) < 0 && qn_error_code(qn) < 0);
    qn_clear_error(qn);
    CHECK(qn_jvp(1, &x, 2, mixed, mixed, &out) < 0 && qn_error_code(qn) < 0);
    qn_clear_error(qn);
    CHECK(qn_grad(x, mixed[1], 1, &x, &out) < 0 && qn_error_code(qn) < 0);
    qn_clear_error(qn);
    qn_close(other);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int i = 0; i < 2; i++) {
        if (!(qn = qn_open(&QN_OPTIONS(.device = devices[i])))) continue;
        qn_scope_begin(qn);
        RUN(products_are_sums_of_products);
        RUN(movements_move_both_parts);
        RUN(pieces_and_places_have_both_parts);
        RUN(shapes_meet_and_dtypes_stay);
        RUN(what_is_no_number_is_left_out);
        RUN(reductions_take_a_dtype);
        RUN(numbers_are_put_at_places);
        RUN(numbers_are_selected_by_a_mask);
        RUN(reductions_are_loops);
        RUN(products_are_over_several_axes);
        RUN(transforms_take_complex_numbers);
        RUN(systems_are_solved);
        RUN(hermitian_matrices_have_cholesky_factors);
        RUN(the_gradient_of_a_cholesky_factor);
        RUN(triangles_are_solved_and_ranks_counted);
        RUN(the_tolerance_of_pinv_is_of_the_matrix);
        RUN(gradients_are_those_of_both_parts);
        RUN(derivatives_hold_where_a_part_is_zero);
        RUN(derivatives_hold_on_both_sides_of_a_cut);
        RUN(derivatives_of_powers);
        RUN(the_gradient_of_a_pseudo_inverse);
        RUN(derivatives_of_a_product);
        RUN(derivatives_into_the_list_of_arguments);
        RUN(a_complex_bias_of_a_real_product);
        RUN(what_makes_no_complex_tensor_says_so);
        RUN(another_contexts_results_are_refused_by_a_code);
        qn_close(qn);
    }
    return test_end();
}
