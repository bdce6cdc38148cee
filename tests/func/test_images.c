/* test_images.c - pooling, images of other sizes, grids and columns, on ref and on the processor:
 * against loops over all windows and taps written out here, in long double, by PyTorch's
 * definitions. */
#include "quern.h"
#include "test.h"

enum { N = 2, C = 3, H = 9, W = 11, MOST = 8192 };
#define DIMS(...) ((int64_t[]){__VA_ARGS__})

static qn_ctx *qn;
static double image[N * C * H * W], got[MOST];
static uint64_t seed = 5;

static int64_t below(int64_t n) {
    return (int64_t)(test_rand(&seed) % (uint64_t)n);
}

static qn_tensor *drawn(void) {
    for (int i = 0; i < N * C * H * W; i++) image[i] = (double)(below(2000) - 1000) / 128;
    return qn_from(qn, QN_F64, 4, DIMS(N, C, H, W), image);
}

static double pixel(int64_t plane, int64_t h, int64_t w) {
    return image[(plane * H + h) * W + w];
}

static bool read_as(const char *what, qn_tensor *t, int64_t h, int64_t w) {
    bool right = t && qn_rank(t) == 4 && qn_dim(t, 2) == h && qn_dim(t, 3) == w;
    if (right && !qn_read(qn_cast(t, QN_F64), got, sizeof got)) return true;
    FAIL("%s: %s", what, qn_error(qn));
    qn_clear_error(qn);
    return false;
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct span {
    int64_t from, to, step; /* places in the image, perhaps outside */
    int64_t count;          /* that an average divides by */
} span;

/* What of it counts: what is of the image, or of it and its padding. */
static span window(const qn_pool_options *o, int i, int64_t at, int64_t n, int64_t size) {
    if (o->adaptive) {
        int64_t from = at * n / size, to = ((at + 1) * n + size - 1) / size;
        return (span){from, to, 1, to - from};
    }
    span s = {at * o->stride[i] - o->before[i], 0, o->dilation[i], 0};
    s.to = s.from + (size - 1) * s.step + 1;
    for (int64_t k = s.from; k < s.to; k += s.step)
        s.count += o->exclude_padding ? k >= 0 && k < n : k < n + o->after[i];
    if (!s.count) s.count = 1; /* of nothing the mean is 0 */
    return s;
}

static int64_t places(const qn_pool_options *o, int i, int64_t n, int64_t size) {
    if (o->adaptive) return size;
    int64_t room = n + o->before[i] + o->after[i] - o->dilation[i] * (size - 1) - 1, count = 1;
    while (count * o->stride[i] <= room) count++;
    bool more = o->ceil && (count - 1) * o->stride[i] < room;
    return count + (more && count * o->stride[i] < n + o->before[i]);
}

static double pooled(const qn_pool_options *o, int64_t plane, span h, span w, int64_t *at) {
    long double sum = 0, most = -(long double)INFINITY;
    for (int64_t y = h.from; y < h.to; y += h.step)
        for (int64_t x = w.from; x < w.to; x += w.step) {
            if (y < 0 || x < 0 || y >= H || x >= W) continue;
            long double v = pixel(plane, y, x);
            if (o->kind == QN_POOL_NORM) v = fabsl(v);
            if (v > most) most = v, *at = y * W + x;
            sum += o->kind == QN_POOL_NORM && !isinf(o->p) ? powl(v, o->p) : v;
        }
    if (o->kind == QN_POOL_NORM && isinf(o->p)) return (double)most;
    if (o->kind == QN_POOL_MAX) return (double)most;
    return (double)(o->kind == QN_POOL_AVG ? sum / (h.count * w.count) : powl(sum, 1 / o->p));
}

static void check_pool(const qn_pool_options *o, const int64_t *size) {
    static int64_t index[MOST];
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = drawn(), *y = qn_pool(x, size, o), *v = NULL, *i = NULL;
    int64_t rows = places(o, 0, H, size[0]), columns = places(o, 1, W, size[1]), at = 0;
    bool places_too = o->kind == QN_POOL_MAX;
    if (places_too) CHECK_INT(qn_max_pool_index(x, size, o, &v, &i), 0);
    if (places_too) CHECK_INT(qn_read(i, index, sizeof index), 0);
    if (!read_as("pool", y, rows, columns)) return;
    for (int64_t k = 0; k < N * C * rows * columns; k++) {
        span h = window(o, 0, k / columns % rows, H, size[0]);
        span w = window(o, 1, k % columns, W, size[1]);
        double want = pooled(o, k / columns / rows, h, w, &at);
        if (!test_close(got[k], want, 1e-13, 1e-13))
            FAIL("kind %d [%d]: %.17g, expected %.17g", o->kind, (int)k, got[k], want);
        if (places_too) CHECK_INT(index[k], at);
    }
    if (places_too && read_as("values", v, rows, columns))
        for (int64_t k = 0; k < N * C * rows * columns; k++)
            CHECK(got[k] == image[k / columns / rows * H * W + index[k]]);
    qn_scope_end(qn, s);
}

static void pools_as_loops_do(void) {
    for (int k = 0; k < 40; k++) {
        qn_pool_options o = QN_POOL_OPTIONS(.kind = (qn_pool_kind)(k % 3), .p = 1 + k % 4);
        int64_t size[2] = {1 + below(4), 1 + below(4)};
        o.adaptive = k % 5 == 4;
        o.ceil = below(2);
        o.exclude_padding = below(2);
        for (int i = 0; i < 2; i++) {
            o.stride[i] = 1 + below(3);
            o.dilation[i] = 1 + below(2);
            o.before[i] = below(size[i] / 2 + 1);
            o.after[i] = below(size[i] / 2 + 1);
        }
        check_pool(&o, size);
    }
}

static void norms_of_any_power(void) {
    const int64_t size[2] = {3, 2};
    for (int k = 0; k < 3; k++) {
        qn_pool_options o = QN_POOL_OPTIONS(.kind = QN_POOL_NORM, .p = (double)INFINITY);
        o.adaptive = k == 2;
        o.stride[0] = 2, o.stride[1] = o.dilation[0] = o.dilation[1] = 1;
        o.before[0] = o.after[1] = k == 1;
        check_pool(&o, size);
    }
}

/* Windows wholly in the padding, in one axis and in both. */
static void of_nothing_the_mean_is_nothing(void) {
    for (int k = 0; k < 3; k++) {
        qn_pool_options o = QN_POOL_OPTIONS(.kind = QN_POOL_AVG, .exclude_padding = true);
        o.before[0] = 5, o.after[1] = k ? 4 : 0;
        o.stride[0] = o.stride[1] = 1;
        o.dilation[0] = o.dilation[1] = 1 + k / 2;
        check_pool(&o, DIMS(2, 3));
    }
}

static void ceil_counts_windows_larger_than_the_image(void) {
    qn_tensor *x = qn_from(qn, QN_F64, 4, DIMS(1, 1, 1, 4), (const double[]){1, 2, 3, 4});
    qn_pool_options o = QN_POOL_OPTIONS(.kind = QN_POOL_AVG, .ceil = true, .stride = {1, 2});
    if (read_as("one window", qn_pool(x, DIMS(1, 5), &o), 1, 1)) CHECK(got[0] == 2.5);
    o.kind = QN_POOL_MAX;
    if (read_as("one window", qn_pool(x, DIMS(1, 5), &o), 1, 1)) CHECK(got[0] == 4);
    CHECK(!qn_pool(x, DIMS(1, 6), &o)); /* PyTorch: no window */
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
}

/* Padding is as low as the image: the place is one of the image all the same, the first. */
static void places_of_lowest_elements_are_inside(void) {
    const double v[8] = {-(double)INFINITY, -(double)INFINITY, -(double)INFINITY, 7,
                         -(double)INFINITY, -(double)INFINITY, -(double)INFINITY, -128};
    const struct {
        qn_dtype d;
        int64_t before[2], step[2];
        int64_t want[20];
    } c[] = {{QN_F32, {0, 1}, {1, 1}, {0, 0, 1, 3, 4, 4, 5, 7}},
             {QN_F64, {1, 1}, {1, 1}, {0, 0, 1, 3, 0, 0, 1, 3}},
             {QN_F64, {0, 3}, {1, 2}, {1, 0, 1, 0, 3, 5, 4, 5, 4, 7}},
             {QN_I8, {0, 1}, {1, 1}, {0, 0, 1, 3, 4, 4, 5, 6}}};
    for (int i = 0; i < 4; i++) {
        int64_t at[20], n;
        qn_pool_options o = QN_POOL_OPTIONS(.stride = {1, 1});
        for (int a = 0; a < 2; a++) o.before[a] = c[i].before[a], o.dilation[a] = c[i].step[a];
        qn_tensor *x = qn_from(qn, QN_F64, 4, DIMS(1, 1, 2, 4), v), *most, *place;
        if (c[i].d == QN_I8) x = qn_maximum(x, qn_like(x, -128));
        x = qn_cast(x, c[i].d);
        const int64_t *size = DIMS(1 + c[i].before[0], 2);
        CHECK_INT(qn_max_pool_index(x, size, &o, &most, &place), 0);
        CHECK_INT(qn_read(place, at, sizeof at), 0);
        n = qn_numel(place);
        for (int k = 0; k < n; k++) CHECK_INT(at[k], c[i].want[k]);
        qn_tensor *same = qn_eq(most, qn_pool(x, size, &o));
        if (!read_as("values", same, qn_dim(place, 2), qn_dim(place, 3))) continue;
        for (int k = 0; k < n; k++) CHECK(got[k] == 1);
    }
}

static void windows_of_samples_and_back(void) {
    qn_scope s = qn_scope_begin(qn);
    double u[N * C * 2];
    for (int i = 0; i < N * C * 2; i++) u[i] = (double)below(1000) / 1000;
    const int64_t size[2] = {2, 3}, many[2] = {5, 4};
    static int64_t index[MOST];
    qn_tensor *x = drawn(), *samples = qn_from(qn, QN_F64, 3, DIMS(N, C, 2), u), *v, *i;
    CHECK_INT(qn_fractional_max_pool(x, samples, size, many, &v, &i), 0);
    CHECK_INT(qn_read(i, index, sizeof index), 0);
    if (!read_as("fractional", v, 5, 4)) return;
    qn_pool_options o = QN_POOL_OPTIONS(.kind = QN_POOL_MAX);
    for (int64_t k = 0; k < N * C * 20; k++) {
        int64_t plane = k / 20, at = -1, from[2], n[2] = {H, W}, place[2] = {k / 4 % 5, k % 4};
        for (int a = 0; a < 2; a++) {
            double alpha = (double)(n[a] - size[a]) / (double)(many[a] - 1), r = u[plane * 2 + a];
            from[a] = (int64_t)floor(((double)place[a] + r) * alpha) - (int64_t)floor(r * alpha);
            if (place[a] == many[a] - 1) from[a] = n[a] - size[a];
        }
        double want = pooled(&o, plane, (span){from[0], from[0] + 2, 1, 0},
                             (span){from[1], from[1] + 3, 1, 0}, &at);
        CHECK(got[k] == want);
        CHECK_INT(index[k], at);
    }
    /* what was taken goes back to its place, zeros elsewhere */
    CHECK_INT(qn_max_pool_index(x, DIMS(3, 3), NULL, &v, &i), 0);
    if (!read_as("unpool", qn_max_unpool(v, i, DIMS(H, W)), H, W)) return;
    int kept = 0;
    for (int k = 0; k < N * C * H * W; k++) {
        CHECK(got[k] == 0 || got[k] == image[k]);
        kept += got[k] != 0;
    }
    CHECK(kept > N * C * 3 && kept <= N * C * 9);
    qn_scope_end(qn, s);
}

/* ---- other sizes ----------------------------------------------------------------------------- */

static long double cubic(long double d, long double a) {
    d = fabsl(d);
    if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* weight[j]: what place i of m takes of place j of n. */
static void weights(const qn_interpolate_options *o, int64_t n, int64_t m, int64_t i, double scale,
                    long double *weight) {
    long double ratio = scale != 0 ? 1 / (long double)scale : (long double)n / m, sum = 0;
    if (o->align_corners) ratio = m > 1 ? (long double)(n - 1) / (m - 1) : 0;
    for (int64_t j = 0; j < n; j++) weight[j] = 0;
    if (o->mode <= QN_INTERPOLATE_NEAREST_CENTER) {
        int64_t j = (int64_t)floorl((i + (o->mode ? 0.5L : 0)) * ratio);
        weight[j < n ? j : n - 1] = 1;
        return;
    }
    bool keys = o->mode == QN_INTERPOLATE_CUBIC;
    if (o->antialias) {
        long double wide = ratio > 1 ? ratio : 1, reach = (keys ? 2 : 1) * wide;
        long double center = ratio * (i + 0.5L);
        int64_t lo = (int64_t)floorl(fmaxl(center - reach + 0.5L, 0));
        int64_t hi = (int64_t)floorl(fminl(center + reach + 0.5L, n));
        for (int64_t j = lo; j < hi; j++) {
            long double d = (j - center + 0.5L) / wide;
            weight[j] = keys ? cubic(d, -0.5L) : fmaxl(0, 1 - fabsl(d));
            sum += weight[j];
        }
        for (int64_t j = lo; j < hi; j++) weight[j] /= sum;
        return;
    }
    long double at = o->align_corners ? i * ratio : (i + 0.5L) * ratio - 0.5L;
    if (!keys && at < 0) at = 0;
    int64_t first = (int64_t)floorl(at);
    for (int64_t j = first - keys; j <= first + 1 + keys; j++) {
        long double d = at - j;
        weight[j < 0 ? 0 : j < n ? j : n - 1] += keys ? cubic(d, -0.75L) : 1 - fabsl(d);
    }
}

static void check_resize(const qn_interpolate_options *o, const int64_t *size) {
    long double rows[H], columns[W];
    qn_scope s = qn_scope_begin(qn);
    if (!read_as("interpolate", qn_interpolate(drawn(), size, o), size[0], size[1])) return;
    for (int64_t k = 0; k < N * C * size[0] * size[1]; k++) {
        long double want = 0;
        weights(o, H, size[0], k / size[1] % size[0], o->scale[0], rows);
        weights(o, W, size[1], k % size[1], o->scale[1], columns);
        for (int64_t j = 0; j < H * W; j++)
            want += rows[j / W] * columns[j % W] * pixel(k / size[0] / size[1], j / W, j % W);
        if (!test_close(got[k], (double)want, 1e-12, 1e-12))
            FAIL("mode %d to %d x %d [%d]: %.17g, expected %.17g", o->mode, (int)size[0],
                 (int)size[1], (int)k, got[k], (double)want);
    }
    qn_scope_end(qn, s);
}

static void images_become_other_sizes(void) {
    for (int k = 0; k < 48; k++) {
        qn_interpolate_options o = QN_INTERPOLATE_OPTIONS(.mode = (qn_interpolate_mode)(k % 4));
        int64_t size[2] = {1 + below(2 * H), 1 + below(2 * W)};
        if (k % 4 >= 2) o.align_corners = below(2);
        if (k % 4 >= 2) o.antialias = below(3) == 0;
        if (k % 7 == 6 && !o.align_corners) {
            o.scale[0] = 1.25, o.scale[1] = 0.75;
            size[0] = 11, size[1] = 8;
        }
        if (k % 8 == 0) size[0] = 2 * H, size[1] = W;
        check_resize(&o, size);
    }
}

/* More places than the scale gives: behind the image it goes on as it ends. */
static void places_beyond_the_image_have_its_end(void) {
    qn_tensor *x = qn_from(qn, QN_F64, 4, DIMS(1, 1, 1, 4), (const double[]){1, 2, 3, 4});
    for (int k = 0; k < 4; k++) {
        qn_interpolate_options o = QN_INTERPOLATE_OPTIONS(.antialias = true, .scale = {0, 1});
        o.mode = k % 2 ? QN_INTERPOLATE_CUBIC : QN_INTERPOLATE_LINEAR;
        if (k / 2) o.scale[1] = 0.5;
        qn_tensor *y = qn_interpolate(x, DIMS(1, 9), &o);
        if (!read_as("beyond", y, 1, 9)) continue;
        for (int i = 0; i < 4 && !(k / 2); i++) CHECK_NEAR(got[i], i + 1, 1e-14, 0);
        for (int i = 4; i < 9; i++) CHECK(got[i] > 3 && got[i] < 4.5 && got[i] == got[8]);
    }
}

/* ---- grids and columns ----------------------------------------------------------------------- */

static double edge(double at, int64_t n, qn_grid_padding pad, bool align) {
    if (pad == QN_GRID_ZEROS) return at;
    double lo = align ? 0 : -0.5, hi = align ? (double)(n - 1) : (double)n - 0.5;
    while (pad == QN_GRID_REFLECT && (at < lo || at > hi)) at = at < lo ? 2 * lo - at : 2 * hi - at;
    return fmin(fmax(at, 0), (double)(n - 1));
}

static double bilinear(int64_t plane, double y, double x) {
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        double h = floor(y) + k / 2, w = floor(x) + k % 2;
        if (h < 0 || w < 0 || h >= H || w >= W) continue;
        sum += (1 - fabs(y - h)) * (1 - fabs(x - w)) * pixel(plane, (int64_t)h, (int64_t)w);
    }
    return sum;
}

static void grids_read_between_places(void) {
    double g[N * 4 * 5 * 2];
    for (int k = 0; k < 12; k++) {
        qn_grid_padding pad = (qn_grid_padding)(k % 3);
        bool align = k / 3 % 2, near_ = k / 6;
        qn_scope s = qn_scope_begin(qn);
        for (int i = 0; i < N * 40; i++) g[i] = (double)below(4000) / 1000 - 2;
        qn_tensor *grid = qn_from(qn, QN_F64, 4, DIMS(N, 4, 5, 2), g);
        qn_tensor *y = qn_grid_sample(
            drawn(), grid, near_ ? QN_INTERPOLATE_NEAREST : QN_INTERPOLATE_LINEAR, pad, align);
        if (!read_as("grid_sample", y, 4, 5)) return;
        for (int i = 0; i < N * C * 20; i++) {
            const double *at = g + (i / (C * 20) * 20 + i % 20) * 2;
            double w = align ? (at[0] + 1) / 2 * (W - 1) : ((at[0] + 1) * W - 1) / 2;
            double h = align ? (at[1] + 1) / 2 * (H - 1) : ((at[1] + 1) * H - 1) / 2;
            h = edge(h, H, pad, align), w = edge(w, W, pad, align);
            if (near_) h = rint(h), w = rint(w);
            CHECK_NEAR(got[i], bilinear(i / 20, h, w), 1e-11, 1e-11);
        }
        qn_scope_end(qn, s);
    }
}

static void columns_are_windows_and_go_back(void) {
    enum { KH = 3, KW = 2, OH = 4, OW = 11 };
    const qn_conv_options o =
        QN_CONV_OPTIONS(.stride = {2, 1}, .dilation = {1, 2}, .before = {1, 2});
    static double column[N * C * KH * KW * OH * OW];
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = drawn(), *t = qn_im2col(x, DIMS(KH, KW), &o);
    CHECK_INT(qn_rank(t), 3);
    CHECK_INT(qn_dim(t, 1), C * KH * KW);
    CHECK_INT(qn_dim(t, 2), OH * OW);
    CHECK_INT(qn_read(t, column, sizeof column), 0);
    static double sum[N * C * H * W];
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < N * C * KH * KW * OH * OW; i++) {
        int h = i / OW % OH * 2 - 1 + i / (OW * OH * KW) % KH;
        int w = i % OW - 2 + i / (OW * OH) % KW * 2, plane = i / (OW * OH * KW * KH);
        bool inside = h >= 0 && w >= 0 && h < H && w < W;
        CHECK(column[i] == (inside ? pixel(plane, h, w) : 0));
        if (inside) sum[(plane * H + h) * W + w] += column[i];
    }
    if (!read_as("col2im", qn_col2im(t, 2, DIMS(H, W), DIMS(KH, KW), &o), H, W)) return;
    for (int i = 0; i < N * C * H * W; i++) CHECK_NEAR(got[i], sum[i], 1e-13, 1e-13);
    qn_scope_end(qn, s);
}

static void what_does_not_fit_is_refused(void) {
    qn_tensor *x = drawn(), *v;
    const int64_t size[2] = {2, 2};
    CHECK(!qn_pool(x, size, &QN_POOL_OPTIONS(.kind = (qn_pool_kind)7)));
    qn_clear_error(qn);
    CHECK(!qn_pool(x, size, &QN_POOL_OPTIONS(.kind = QN_POOL_NORM)));
    CHECK_STR(qn_error(qn), "pool: a norm with p = 0");
    qn_clear_error(qn);
    CHECK(qn_max_pool_index(x, size, &QN_POOL_OPTIONS(.kind = QN_POOL_AVG), &v, NULL) != 0);
    qn_clear_error(qn);
    CHECK(!qn_interpolate(x, DIMS(0, 3), NULL));
    CHECK_STR(qn_error(qn), "interpolate: from 9 to 0 places along axis 0");
    qn_clear_error(qn);
    CHECK(!qn_interpolate(x, size, &QN_INTERPOLATE_OPTIONS(.antialias = true)));
    qn_clear_error(qn);
    CHECK(!qn_grid_sample(x, x, QN_INTERPOLATE_LINEAR, QN_GRID_ZEROS, false));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(!qn_col2im(x, 2, DIMS(H, W), size, NULL));
    qn_clear_error(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int d = 0; d < 2; d++) {
        qn = qn_open(&QN_OPTIONS(.device = d ? "cpu" : "ref", .threads = 2));
        RUN(pools_as_loops_do);
        RUN(norms_of_any_power);
        RUN(of_nothing_the_mean_is_nothing);
        RUN(ceil_counts_windows_larger_than_the_image);
        RUN(places_of_lowest_elements_are_inside);
        RUN(windows_of_samples_and_back);
        RUN(images_become_other_sizes);
        RUN(places_beyond_the_image_have_its_end);
        RUN(grids_read_between_places);
        RUN(columns_are_windows_and_go_back);
        RUN(what_does_not_fit_is_refused);
        qn_close(qn);
    }
    return test_end();
}
