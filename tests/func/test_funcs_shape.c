/* test_funcs_shape.c - composed functions that move elements: making, slicing, padding, windows,
 * joining, splitting, indexing. What is expected comes from loops over indices written from the
 * functions' definitions, or is written out; graphs are evaluated by eval.h. */
#include "eval.h"
#include "func/func.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define LIST(...) ((const double[]){__VA_ARGS__})

static qn_ctx *qn;
static qn_scope scope;

static void open_case(void) {
    qn = open_graph();
    scope = qn_scope_begin(qn);
}

static void close_case(void) {
    CHECK_STR(qn_error(qn), "");
    qn_clear_error(qn);
    qn_scope_end(qn, scope);
    close_graph(qn);
}

/* 0, 1, 2, ... as a leaf, so that nothing folds. */
static qn_tensor *count(int rank, const int64_t *dims) {
    double v[256];
    for (int i = 0; i < 256; i++) v[i] = i;
    return leaf_of(qn, QN_F32, rank, dims, v);
}

static void check_shape(qn_tensor *t, int rank, const int64_t *dims) {
    CHECK_INT(qn_rank(t), rank);
    for (int i = 0; i < rank && i < qn_rank(t); i++) CHECK_INT(qn_dim(t, i), dims[i]);
}

#define CHECK_IS(t, rank, dims, ...)                                                               \
    do {                                                                                           \
        qn_tensor *result_ = (t);                                                                  \
        const double want_[] = {__VA_ARGS__};                                                      \
        check_shape(result_, rank, dims);                                                          \
        CHECK_VALUES(result_, (int64_t)COUNT_OF(want_), want_, 1e-6);                              \
    } while (0)

#define CHECK_ERROR(call, text)                                                                    \
    do {                                                                                           \
        CHECK((call) == NULL);                                                                     \
        CHECK_STR(qn_error(qn), text);                                                             \
        qn_clear_error(qn);                                                                        \
    } while (0)

/* ---- making --------------------------------------------------------------------------------- */

static void making_from_nothing(void) {
    open_case();
    CHECK_IS(qn_full(qn, QN_I8, 1, DIMS(2), 3), 1, DIMS(2), 3, 3);
    CHECK_IS(qn_zeros(qn, QN_F64, 0, NULL), 0, NULL, 0);
    CHECK_IS(qn_ones(qn, QN_BOOL, 1, DIMS(1)), 1, DIMS(1), 1);
    CHECK_IS(qn_arange(qn, QN_I64, 2, 11, 3), 1, DIMS(3), 2, 5, 8);
    CHECK_IS(qn_arange(qn, QN_I32, 5, 1, -2), 1, DIMS(2), 5, 3);
    CHECK_IS(qn_arange(qn, QN_F32, 0, 1, 0.25), 1, DIMS(4), 0, 0.25, 0.5, 0.75);
    check_shape(qn_arange(qn, QN_F32, 1, 0, 1), 1, DIMS(0));
    CHECK_IS(qn_linspace(qn, QN_F32, -1, 1, 5), 1, DIMS(5), -1, -0.5, 0, 0.5, 1);
    CHECK_IS(qn_linspace(qn, QN_F32, 3, 9, 1), 1, DIMS(1), 3);
    CHECK_IS(qn_eye(qn, QN_F32, 2, 3), 2, DIMS(2, 3), 1, 0, 0, 0, 1, 0);
    CHECK_IS(qn_iota(qn, QN_I64, 2, DIMS(2, 3), 1), 2, DIMS(2, 3), 0, 1, 2, 0, 1, 2);
    qn_tensor *x = count(1, DIMS(2));
    CHECK_IS(qn_full_like(x, 7), 1, DIMS(2), 7, 7);
    CHECK_IS(qn_ones_like(x), 1, DIMS(2), 1, 1);
    CHECK_IS(qn_like(x, 2.5), 0, NULL, 2.5);
    CHECK_ERROR(qn_arange(qn, QN_F32, 0, 1, 0), "arange: from 0 to 1 by 0");
    CHECK_ERROR(qn_zeros(qn, QN_F32, 1, DIMS(-3)), "zeros: size -3");
    CHECK_ERROR(qn_zeros(qn, (qn_dtype)77, 0, NULL), "zeros: 77 is no dtype");
    close_case();
}

/* ---- reshaping ------------------------------------------------------------------------------ */

static void reshaping(void) {
    open_case();
    qn_tensor *x = count(3, DIMS(2, 3, 4));
    check_shape(qn_reshape(x, 2, DIMS(4, -1)), 2, DIMS(4, 6));
    check_shape(qn_reshape(x, 4, DIMS(1, -1, 1, 12)), 4, DIMS(1, 2, 1, 12));
    check_shape(qn_flatten(x, 1, -1), 2, DIMS(2, 12));
    check_shape(qn_flatten(qn_like(x, 1), 0, -1), 1, DIMS(1));
    check_shape(qn_unsqueeze(x, -1), 4, DIMS(2, 3, 4, 1));
    check_shape(qn_unsqueeze(x, 1), 4, DIMS(2, 1, 3, 4));
    qn_tensor *thin = count(4, DIMS(1, 2, 1, 3));
    check_shape(qn_squeeze(thin, QN_ALL), 2, DIMS(2, 3));
    check_shape(qn_squeeze(thin, 2), 3, DIMS(1, 2, 3));
    check_shape(qn_transpose(x, 0, -1), 3, DIMS(4, 3, 2));
    CHECK_IS(qn_transpose(count(2, DIMS(2, 3)), 0, 1), 2, DIMS(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_IS(qn_expand(count(1, DIMS(2)), 2, DIMS(2, -1)), 2, DIMS(2, 2), 0, 1, 0, 1);
    CHECK_ERROR(qn_reshape(x, 2, DIMS(-1, -1)), "reshape: -1 twice");
    CHECK_ERROR(qn_reshape(x, 2, DIMS(5, -1)),
                "reshape: [2, 3, 4] has not as many elements as [5, 4]");
    CHECK_ERROR(qn_squeeze(thin, 1), "squeeze: the size of axis 1 is not 1");
    CHECK_ERROR(qn_flatten(x, 2, 1), "flatten: axis 2 is after 1");
    CHECK_ERROR(qn_transpose(x, 0, 3), "transpose: axis 3 of a tensor of rank 3");
    close_case();
}

static void reshaping_symbolic_sizes(void) {
    open_case();
    int64_t t = qn_var(qn, "t", 1, 64), b = qn_var(qn, "b", 1, 8);
    qn_tensor *x = leaf(qn, QN_F32, 3, (int64_t[]){b, t, 12});
    qn_bind(qn, t, 5);
    qn_bind(qn, b, 3);
    qn_tensor *flat = qn_reshape(x, 2, DIMS(-1, 12)), *heads = qn_reshape(x, 4, DIMS(b, t, 4, -1));
    CHECK_INT(qn_numel(flat), 3 * 5 * 12);
    CHECK_INT(qn_dim(heads, 3), 3);
    CHECK_INT(qn_dim(qn_reshape(flat, 3, DIMS(b, -1, 12)), 1), t);
    CHECK_INT(qn_dim(qn_flatten(x, 0, 1), 0), qn_dim(flat, 0));
    CHECK_INT(qn_dim(qn_slice(x, 1, 1, QN_END, 1), 1), dim_op(qn, t, '-', 1));
    CHECK_INT(qn_dim(qn_concat(2, (qn_tensor *const[]){x, x}, 1), 1), dim_op(qn, t, '*', 2));
    qn_tensor *size = func_size(x, t);
    CHECK_IS(size, 0, NULL, 5);
    CHECK_ERROR(qn_slice(x, 1, 2, QN_END, 1), /* t may be 1 */
                "slice: on axis 1 of [b, t, 12]: the slice does not lie inside");
    close_case();
}

/* ---- slicing: all starts, stops and steps against NumPy's definition ------------------------- */

/* The indices range(n)[start:stop:step], stop NONE for QN_END, by walking. */
static int64_t walk(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *out) {
    int64_t count_ = 0;
    if (start < 0) start += n;
    if (start < 0) start = step > 0 ? 0 : -1;
    if (start >= n) start = step > 0 ? n : n - 1;
    bool open = stop == QN_END;
    if (!open && stop < 0) stop += n;
    if (!open && stop < 0) stop = -1;
    for (int64_t i = start; i >= 0 && i < n; i += step) {
        if (!open && (step > 0 ? i >= stop : i <= stop)) break;
        out[count_++] = i;
    }
    return count_;
}

static void every_slice_of_a_few_elements(void) {
    for (int64_t n = 0; n <= 4; n++)
        for (int64_t start = -n - 2; start <= n + 2; start++)
            for (int64_t stop = -n - 2; stop <= n + 3; stop++)
                for (int64_t step = -3; step <= 3; step++) {
                    int64_t end = stop == n + 3 ? QN_END : stop, at[8];
                    if (step == 0) continue;
                    open_case();
                    int64_t m = walk(n, start, end, step, at);
                    double want[8];
                    for (int64_t i = 0; i < m; i++) want[i] = (double)at[i];
                    qn_tensor *r = qn_slice(count(1, &n), 0, start, end, step);
                    check_shape(r, 1, &m);
                    CHECK_VALUES(r, m, want, 0);
                    close_case();
                }
}

static void selecting_flipping_rolling(void) {
    open_case();
    qn_tensor *x = count(2, DIMS(2, 3));
    CHECK_IS(qn_select(x, 0, 1), 1, DIMS(3), 3, 4, 5);
    CHECK_IS(qn_select(x, 1, -1), 1, DIMS(2), 2, 5);
    CHECK_IS(qn_flip(x, 1), 2, DIMS(2, 3), 2, 1, 0, 5, 4, 3);
    CHECK_IS(qn_flip(x, QN_ALL), 2, DIMS(2, 3), 5, 4, 3, 2, 1, 0);
    CHECK_IS(qn_roll(x, 1, 1), 2, DIMS(2, 3), 2, 0, 1, 5, 3, 4);
    CHECK_IS(qn_roll(x, 1, -4), 2, DIMS(2, 3), 1, 2, 0, 4, 5, 3);
    CHECK_ERROR(qn_select(x, 0, 2), "select: on axis 0 of [2, 3]: the slice does not lie inside");
    close_case();
}

/* ---- padding -------------------------------------------------------------------------------- */

/* The index that place i, before + j, shows; -1: none. */
static int64_t padded_from(int64_t i, int64_t n, qn_pad_mode mode) {
    if (i >= 0 && i < n) return i;
    if (mode == QN_PAD_EDGE) return i < 0 ? 0 : n - 1;
    if (mode == QN_PAD_CIRCULAR) return (i + n) % n;
    if (mode == QN_PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    return -1;
}

static void every_padding_of_two_axes(void) {
    for (int mode = QN_PAD_CONSTANT; mode <= QN_PAD_CIRCULAR; mode++)
        for (int64_t a = -1; a <= 2; a++)
            for (int64_t b = -1; b <= 2; b++) {
                open_case();
                const int64_t p[4] = {a, b, 1, 2}, n[2] = {4, 3};
                int64_t cut = (a < 0) + (b < 0), kept = 4 - cut, from = a < 0 ? 1 : 0;
                int64_t rows = 4 + a + b, columns = 6;
                double want[64];
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < columns; j++) {
                        int64_t y = padded_from(i - (a > 0 ? a : 0), kept, (qn_pad_mode)mode);
                        int64_t x = padded_from(j - 1, n[1], (qn_pad_mode)mode);
                        want[i * columns + j] = x < 0 || y < 0 ? -7 : (double)((y + from) * 3 + x);
                    }
                qn_tensor *r = qn_pad(count(2, n), p, (qn_pad_mode)mode, -7);
                check_shape(r, 2, (int64_t[]){rows, columns});
                CHECK_VALUES(r, rows * columns, want, 0);
                close_case();
            }
}

static void padding_keeps_minus_zero_and_bools(void) {
    open_case();
    qn_tensor *x = leaf_of(qn, QN_F32, 1, DIMS(1), LIST(-0.0));
    eval_value v = eval(qn_pad(x, DIMS(0, 1), QN_PAD_CONSTANT, 1));
    CHECK(v.n == 2 && signbit(v.v[0].f) && v.v[1].f == 1);
    free(v.v);
    qn_tensor *both[2] = {x, count(1, DIMS(1))};
    v = eval(qn_concat(2, both, 0));
    CHECK(v.n == 2 && signbit(v.v[0].f));
    free(v.v);
    qn_tensor *truth = leaf_of(qn, QN_BOOL, 1, DIMS(2), LIST(1, 0));
    CHECK_IS(qn_concat(2, (qn_tensor *const[]){truth, truth}, 0), 1, DIMS(4), 1, 0, 1, 0);
    CHECK_ERROR(qn_pad(x, DIMS(3, 0), QN_PAD_REFLECT, 0),
                "pad: on axis 0 of [1]: the slice does not lie inside");
    close_case();
}

/* ---- windows, diagonals, strides ------------------------------------------------------------ */

static void unfolding(void) {
    for (int64_t size = 1; size <= 5; size++)
        for (int64_t step = 1; step <= 3; step++) {
            open_case();
            int64_t windows = (5 - size) / step + 1;
            double want[200];
            int64_t n = 0;
            for (int64_t a = 0; a < 2; a++)
                for (int64_t w = 0; w < windows; w++)
                    for (int64_t b = 0; b < 3; b++)
                        for (int64_t k = 0; k < size; k++)
                            want[n++] = (double)(a * 15 + (w * step + k) * 3 + b);
            qn_tensor *r = qn_unfold(count(3, DIMS(2, 5, 3)), 1, size, step);
            check_shape(r, 4, (int64_t[]){2, windows, 3, size});
            CHECK_VALUES(r, n, want, 0);
            close_case();
        }
    open_case();
    CHECK_ERROR(qn_unfold(count(1, DIMS(3)), 0, 4, 1), "unfold: a size below 0 or beyond 2^63");
    close_case();
}

static void diagonals_and_triangles(void) {
    for (int64_t rows = 1; rows <= 4; rows++)
        for (int64_t offset = -rows; offset <= 4; offset++) {
            open_case();
            qn_tensor *x = count(3, (int64_t[]){2, rows, 4});
            double diagonal[8], upper[40], lower[40];
            int64_t n = 0, m = 0;
            for (int64_t a = 0; a < 2; a++)
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < 4; j++) {
                        double v = (double)((a * rows + i) * 4 + j);
                        if (j - i == offset) diagonal[n++] = v;
                        upper[m] = j - i >= offset ? v : 0;
                        lower[m++] = j - i <= offset ? v : 0;
                    }
            CHECK_VALUES(qn_diagonal(x, offset), n, diagonal, 0);
            CHECK_VALUES(qn_triu(x, offset), m, upper, 0);
            CHECK_VALUES(qn_tril(x, offset), m, lower, 0);
            close_case();
        }
}

static void striding(void) {
    open_case();
    qn_tensor *x = count(2, DIMS(3, 4));
    CHECK_IS(qn_as_strided(x, 2, DIMS(2, 3), DIMS(5, 2), 1), 2, DIMS(2, 3), 1, 3, 5, 6, 8, 10);
    CHECK_IS(qn_as_strided(x, 1, DIMS(3), DIMS(-4), 11), 1, DIMS(3), 11, 7, 3);
    CHECK_ERROR(qn_as_strided(x, 1, DIMS(4), DIMS(4), 0), "as_strided: places outside x");
    close_case();
}

/* ---- joining and splitting ------------------------------------------------------------------ */

static void joining(void) {
    open_case();
    qn_tensor *a = count(2, DIMS(2, 2)), *b = qn_neg(count(2, DIMS(2, 1)));
    CHECK_IS(qn_concat(3, (qn_tensor *const[]){a, b, a}, 1), 2, DIMS(2, 5), 0, 1, 0, 0, 1, 2, 3, -1,
             2, 3);
    CHECK_IS(qn_concat(1, &a, -1), 2, DIMS(2, 2), 0, 1, 2, 3);
    qn_tensor *v = count(1, DIMS(2)), *both[2] = {v, qn_neg(v)};
    CHECK_IS(qn_stack(2, both, 0), 2, DIMS(2, 2), 0, 1, 0, -1);
    CHECK_IS(qn_stack(2, both, -1), 2, DIMS(2, 2), 0, 0, 1, -1);
    CHECK_IS(qn_vstack(2, both), 2, DIMS(2, 2), 0, 1, 0, -1);
    CHECK_IS(qn_hstack(2, both), 1, DIMS(4), 0, 1, 0, -1);
    CHECK_IS(qn_hstack(2, (qn_tensor *const[]){a, b}), 2, DIMS(2, 3), 0, 1, 0, 2, 3, -1);
    qn_tensor *many[100];
    for (int i = 0; i < 100; i++) many[i] = qn_scalar(qn, QN_I32, i);
    double want[100];
    for (int i = 0; i < 100; i++) want[i] = i;
    CHECK_VALUES(qn_stack(100, many, 0), 100, want, 0);
    qn_tensor *mixed[2] = {qn_scalar(qn, QN_I32, 1), qn_scalar(qn, QN_F64, 0.5)};
    CHECK_INT(qn_dtype_of(qn_stack(2, mixed, 0)), QN_F64);
    CHECK_ERROR(qn_concat(2, (qn_tensor *const[]){a, b}, 0),
                "concat: tensor 0 [2, 2], tensor 1 [2, 1]: shapes must be equal but for axis 0");
    CHECK_ERROR(qn_concat(2, (qn_tensor *const[]){a, NULL}, 0), "concat: tensor 1 is NULL");
    close_case();
}

static void splitting(void) {
    open_case();
    qn_tensor *x = count(2, DIMS(2, 5)), *part[4];
    CHECK_INT(qn_split(x, 1, 3, DIMS(1, 0, 4), part), QN_OK);
    CHECK_IS(part[0], 2, DIMS(2, 1), 0, 5);
    check_shape(part[1], 2, DIMS(2, 0));
    CHECK_IS(part[2], 2, DIMS(2, 4), 1, 2, 3, 4, 6, 7, 8, 9);
    CHECK_INT(qn_chunk(x, 1, 2, part), QN_OK);
    CHECK_IS(part[0], 2, DIMS(2, 3), 0, 1, 2, 5, 6, 7);
    CHECK_IS(part[1], 2, DIMS(2, 2), 3, 4, 8, 9);
    CHECK_INT(qn_split(x, 1, 2, DIMS(1, 1), part), QN_ESHAPE);
    CHECK_STR(qn_error(qn), "split: the sizes do not make up axis 1");
    qn_clear_error(qn);
    CHECK_INT(qn_split(x, 2, 2, DIMS(1, 1), part), QN_ERANGE);
    qn_clear_error(qn);
    qn_tensor *axes[2] = {count(1, DIMS(2)), count(1, DIMS(3))}, *grid[2];
    CHECK_INT(qn_meshgrid(2, axes, grid), QN_OK);
    CHECK_IS(grid[0], 2, DIMS(2, 3), 0, 0, 0, 1, 1, 1);
    CHECK_IS(grid[1], 2, DIMS(2, 3), 0, 1, 2, 0, 1, 2);
    close_case();
}

static void repeating(void) {
    open_case();
    qn_tensor *x = count(1, DIMS(2));
    CHECK_IS(qn_tile(x, 1, DIMS(3)), 1, DIMS(6), 0, 1, 0, 1, 0, 1);
    CHECK_IS(qn_tile(x, 2, DIMS(2, 2)), 2, DIMS(2, 4), 0, 1, 0, 1, 0, 1, 0, 1);
    CHECK_IS(qn_repeat_interleave(x, 0, 3), 1, DIMS(6), 0, 0, 0, 1, 1, 1);
    check_shape(qn_tile(x, 1, DIMS(0)), 1, DIMS(0));
    CHECK_ERROR(qn_tile(x, 1, DIMS(-2)), "tile: -2 times");
    close_case();
}

/* ---- computed indices ----------------------------------------------------------------------- */

static void indexing(void) {
    open_case();
    qn_tensor *x = count(2, DIMS(3, 2));
    qn_tensor *at = leaf_of(qn, QN_I64, 2, DIMS(1, 2), LIST(2, 0));
    CHECK_IS(qn_take(x, at, 0), 3, DIMS(1, 2, 2), 4, 5, 0, 1);
    CHECK_IS(qn_embedding(x, at), 3, DIMS(1, 2, 2), 4, 5, 0, 1);
    CHECK_IS(qn_take(x, qn_scalar(qn, QN_I32, 1), 1), 1, DIMS(3), 1, 3, 5);
    CHECK_IS(qn_gather(x, at, 0), 2, DIMS(1, 2), 4, 1);
    CHECK_IS(qn_take_along_axis(x, qn_reshape(at, 2, DIMS(2, 1)), 0), 2, DIMS(2, 2), 4, 5, 0, 1);
    CHECK_IS(qn_gather(x, leaf_of(qn, QN_I32, 2, DIMS(1, 2), LIST(-4, 3)), 0), 2, DIMS(1, 2), 0, 0);
    qn_tensor *rows = leaf_of(qn, QN_I32, 1, DIMS(3), LIST(2, 0, 2));
    CHECK_IS(qn_index_add(qn_zeros_like(x), rows, x, 0), 2, DIMS(3, 2), 2, 3, 0, 0, 4, 6);
    qn_tensor *src = qn_full(qn, QN_F32, 2, DIMS(1, 2), 9);
    CHECK_IS(qn_scatter(x, at, src, 0, QN_COMBINE_SET), 2, DIMS(3, 2), 0, 9, 2, 3, 9, 5);
    CHECK_IS(qn_scatter(x, at, src, 0, QN_COMBINE_MAX), 2, DIMS(3, 2), 0, 9, 2, 3, 9, 5);
    CHECK_IS(qn_one_hot(rows, 3, QN_I8), 2, DIMS(3, 3), 0, 0, 1, 1, 0, 0, 0, 0, 1);
    CHECK_IS(qn_update_slice(x, src, DIMS(1, 0)), 2, DIMS(3, 2), 0, 1, 9, 9, 4, 5);
    CHECK_ERROR(qn_update_slice(x, src, DIMS(3, 0)),
                "update_slice: 1 elements from 3 on do not fit axis 0 of 3");
    CHECK_ERROR(qn_update_slice(x, rows, DIMS(0, 0)),
                "update_slice: x [3, 2], src [3]: their ranks must be equal");
    CHECK_ERROR(qn_one_hot(x, 3, QN_I8), "one_hot: classes are integers, not f32");
    CHECK_ERROR(qn_take(x, x, 0), "take: indices are integers, not f32");
    close_case();
}

/* Places that do not overlap, and some that do, in falling, rising and mixed order, with strides of
 * 0 and below, against the sum of index * stride. */
static void as_strided_reads_its_places(void) {
    enum { SIZE = 120 };
    uint64_t seed = 4;
    double want[216];
    open_case();
    qn_tensor *x = count(2, DIMS(10, 12));
    for (int round = 0, done = 0; done < 300 && round < 100000; round++) {
        int rank = (int)test_below(&seed, 4);
        int64_t shape[3], stride[3], offset = test_below(&seed, SIZE), n = 1;
        int64_t lo = offset, hi = offset;
        for (int i = 0; i < rank; i++) {
            shape[i] = 1 + test_below(&seed, 6);
            stride[i] = test_below(&seed, 61) - 20;
            n *= shape[i];
            *(stride[i] < 0 ? &lo : &hi) += (shape[i] - 1) * stride[i];
        }
        if (lo < 0 || hi >= SIZE) continue;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = offset, rest = k;
            for (int i = rank; i-- > 0; rest /= shape[i]) at += rest % shape[i] * stride[i];
            want[k] = (double)at;
        }
        CHECK_VALUES(qn_as_strided(x, rank, shape, stride, offset), (int)n, want, 0);
        done++;
    }
    close_case();
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(making_from_nothing);
    RUN(reshaping);
    RUN(reshaping_symbolic_sizes);
    RUN(every_slice_of_a_few_elements);
    RUN(selecting_flipping_rolling);
    RUN(every_padding_of_two_axes);
    RUN(padding_keeps_minus_zero_and_bools);
    RUN(unfolding);
    RUN(diagonals_and_triangles);
    RUN(striding);
    RUN(as_strided_reads_its_places);
    RUN(joining);
    RUN(splitting);
    RUN(repeating);
    RUN(indexing);
    return test_end();
}
