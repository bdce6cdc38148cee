/* test_conv.c - convolutions of one to three axes in both layouts, at every kind of stride,
 * dilation, padding and grouping and at shapes where schedules change their form, transposed ones,
 * their gradients, and pooling: against loops over all pairs of an output and an input written out
 * here, on the processor and on `ref`. And that no windows are stored: a convolution with what
 * follows it is one kernel that takes no memory but its result's; and that gradients multiply as
 * often as the convolution does. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

#include <math.h>

/* Spatial axes that are missing have size 1, a kernel of 1 and no padding. */
typedef struct spec {
    int space;
    int64_t n, c, o, size[3], kernel[3], stride[3], dilation[3], before[3], after[3], groups;
    bool same, transposed;
} spec;

#define S1(x)                                                                                      \
    { x, 1, 1 }
#define S2(x, y)                                                                                   \
    { x, y, 1 }
#define S3(x, y, z)                                                                                \
    { x, y, z }

static const spec cases[] = {
    /* N, channels, size, kernel, stride, dilation, before, after, groups */
    {1, 1, 1, 1, S1(1), S1(1), {1}, {1}, {0}, {0}, 1, false, false},
    {1, 2, 3, 5, S1(17), S1(3), {1}, {1}, {1}, {1}, 1, false, false},
    {1, 2, 4, 6, S1(31), S1(5), {2}, {2}, {3}, {1}, 2, false, false},
    {2, 1, 1, 1, S2(5, 5), S2(3, 3), {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1, false, false},
    {2, 2, 3, 16, S2(14, 14), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},
    {2, 2, 17, 33, S2(15, 16), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},
    {2, 1, 16, 32, S2(28, 28), S2(3, 3), {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1, true, false},
    {2, 1, 64, 64, S2(14, 14), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},
    {2, 2, 37, 19, S2(11, 13), S2(1, 1), {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1, false, false},
    {2, 2, 32, 64, S2(8, 8), S2(1, 1), {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1, false, false},
    {2, 1, 3, 64, S2(32, 32), S2(7, 7), {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1, false, false},
    {2, 1, 3, 20, S2(23, 19), S2(7, 5), {2, 3}, {1, 1}, {3, 2}, {2, 0}, 1, false, false},
    {2, 1, 8, 24, S2(19, 19), S2(3, 3), {1, 1}, {2, 3}, {2, 3}, {2, 3}, 1, false, false},
    {2, 1, 8, 7, S2(17, 18), S2(3, 3), {2, 2}, {2, 2}, {1, 1}, {1, 1}, 1, false, false},
    {2, 1, 5, 6, S2(17, 18), S2(2, 3), {3, 2}, {2, 3}, {1, 1}, {1, 1}, 1, false, false},
    {2, 1, 8, 8, S2(9, 9), S2(2, 2), {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1, false, false},
    {2, 1, 4, 40, S2(7, 50), S2(3, 1), {1, 1}, {1, 1}, {1, 0}, {1, 0}, 1, false, false},
    {2, 2, 32, 32, S2(13, 13), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 32, false, false},
    {2, 1, 20, 40, S2(9, 33), S2(3, 3), {2, 2}, {1, 1}, {1, 1}, {1, 1}, 20, false, false},
    {1, 2, 24, 24, S1(70), S1(9), {1}, {1}, {4}, {4}, 24, false, false},
    {2, 1, 40, 40, S2(7, 7), S2(5, 5), {1, 1}, {1, 1}, {2, 2}, {2, 2}, 40, false, false},
    {2, 2, 24, 24, S2(28, 27), S2(5, 5), {2, 2}, {1, 1}, {2, 2}, {1, 2}, 24, false, false},
    {2, 1, 33, 33, S2(20, 23), S2(3, 3), {1, 1}, {2, 3}, {2, 3}, {2, 3}, 33, false, false},
    {2, 2, 12, 18, S2(10, 9), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 3, false, false},
    /* more than the second-level cache of one panel of channels, of all positions */
    {2, 7, 464, 96, S2(3, 3), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},
    {2, 32, 5, 272, S2(4, 4), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},
    {2, 1, 64, 64, S2(7, 7), S2(3, 3), {1, 1}, {1, 1}, {0, 0}, {0, 0}, 2, true, false},
    {2, 3, 5, 4, S2(7, 9), S2(3, 3), {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1, true, false},
    {3,
     1,
     3,
     5,
     S3(5, 6, 7),
     S3(3, 3, 3),
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     1,
     false,
     false},
    {3,
     1,
     4,
     6,
     S3(5, 6, 9),
     S3(2, 3, 3),
     {2, 1, 2},
     {1, 2, 1},
     {0, 1, 1},
     {1, 1, 0},
     2,
     false,
     false},
    {1, 2, 3, 5, S1(9), S1(4), {2}, {1}, {1}, {1}, 1, false, true},
    {2, 1, 6, 4, S2(5, 6), S2(3, 3), {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, true},
    {2, 2, 16, 24, S2(7, 8), S2(4, 4), {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, false, true},
    {2, 1, 6, 9, S2(5, 4), S2(3, 2), {3, 2}, {1, 2}, {0, 1}, {1, 1}, 3, false, true},
    {3,
     1,
     3,
     2,
     S3(3, 4, 3),
     S3(2, 2, 3),
     {2, 2, 2},
     {1, 1, 1},
     {0, 0, 1},
     {0, 0, 1},
     1,
     false,
     true},
};

static float *numbers(int64_t n, uint64_t seed) {
    float *p = malloc(((size_t)n + 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(test_below(&seed, 2001) - 1000) / 1024;
    return p;
}

/* The larger side of a convolution (its input; a transposed one's output), the smaller (its output;
 * a transposed one's input), with every axis there. */
typedef struct sides {
    int64_t n, big_c, small_c, groups, big[3], small[3], kernel[3], stride[3], dilation[3],
        before[3];
} sides;

static sides sides_of(const spec *s) {
    sides r = {.n = s->n, .groups = s->groups};
    r.big_c = s->transposed ? s->o : s->c;
    r.small_c = s->transposed ? s->c : s->o;
    for (int i = 0; i < 3; i++) {
        bool there = i < s->space;
        int64_t n = there ? s->size[i] : 1, k = r.kernel[i] = there ? s->kernel[i] : 1;
        int64_t stride = r.stride[i] = there ? s->stride[i] : 1;
        int64_t dilation = r.dilation[i] = there ? s->dilation[i] : 1;
        int64_t before = there ? s->before[i] : 0, after = there ? s->after[i] : 0;
        int64_t reach = dilation * (k - 1) + 1;
        if (s->same && there) {
            int64_t total = ((n + stride - 1) / stride - 1) * stride + reach - n;
            before = total > 0 ? total / 2 : 0, after = total > 0 ? total - before : 0;
        }
        r.before[i] = before;
        r.big[i] = s->transposed ? (n - 1) * stride + reach - before - after : n;
        r.small[i] = s->transposed ? n : (n + before + after - reach) / stride + 1;
    }
    return r;
}

static int64_t volume(const int64_t *v) {
    return v[0] * v[1] * v[2];
}

/* The place of an element of an image in its layout. */
static int64_t place(bool last, const int64_t *size, int64_t channels, int64_t n, int64_t c,
                     const int64_t *at) {
    int64_t p = (at[0] * size[1] + at[1]) * size[2] + at[2];
    return last ? (n * volume(size) + p) * channels + c : (n * channels + c) * volume(size) + p;
}

/* What a pair of elements and a weight have to do with each other: f(small, big, weight). */
typedef void (*visitor)(void *user, int64_t small, int64_t big, int64_t weight);

static void visit(const sides *r, bool last, visitor f, void *user) {
    int64_t sc = r->small_c / r->groups, bc = r->big_c / r->groups, o[3], k[3], at[3];
    for (int64_t n = 0; n < r->n; n++)
        for (int64_t c = 0; c < r->small_c; c++)
            for (int64_t b = 0; b < bc; b++)
                for (int64_t p = 0; p < volume(r->small); p++)
                    for (int64_t q = 0; q < volume(r->kernel); q++) {
                        o[0] = p / (r->small[1] * r->small[2]),
                        o[1] = p / r->small[2] % r->small[1], o[2] = p % r->small[2];
                        k[0] = q / (r->kernel[1] * r->kernel[2]),
                        k[1] = q / r->kernel[2] % r->kernel[1], k[2] = q % r->kernel[2];
                        bool inside = true;
                        for (int i = 0; i < 3; i++) {
                            at[i] = o[i] * r->stride[i] + k[i] * r->dilation[i] - r->before[i];
                            inside &= at[i] >= 0 && at[i] < r->big[i];
                        }
                        if (!inside) continue;
                        f(user, place(last, r->small, r->small_c, n, c, o),
                          place(last, r->big, r->big_c, n, c / sc * bc + b, at),
                          (c * bc + b) * volume(r->kernel) + q);
                    }
}

/* to[..] += a[..] * b[..], and the magnitudes in size, by which rounding is measured */
typedef struct gather {
    const float *small, *big, *weight; /* the one that is NULL is computed */
    double *to, *size;
} gather;

static void add_product(void *user, int64_t small, int64_t big, int64_t weight) {
    gather *g = user;
    double a = g->small ? g->small[small] : g->big[big];
    double b = g->weight ? g->weight[weight] : g->big[big];
    int64_t to = !g->small ? small : !g->big ? big : weight;
    g->to[to] += a * b;
    g->size[to] += fabs(a * b);
}

static void compare(const spec *s, const char *what, bool last, const char *device, int64_t n,
                    const float *got, const gather *want, const float *bias, int64_t places) {
    int bad = 0;
    for (int64_t i = 0; i < n && bad < 3; i++) {
        double b = 0, w;
        if (bias) b = bias[last ? i % s->o : i / places % s->o];
        w = want->to[i] + b;
        if (fabs((double)got[i] - w) <= 1e-6 * (want->size[i] + 1)) continue;
        FAIL("case %d, %s, %s on %s: element %lld is %.9g, not %.9g", (int)(s - cases),
             last ? "channels last" : "channels first", what, device, (long long)i, (double)got[i],
             w);
        bad++;
    }
}

static void image_shape(bool last, int space, int64_t n, int64_t c, const int64_t *size,
                        int64_t *out) {
    out[0] = n;
    out[last ? space + 1 : 1] = c;
    for (int i = 0; i < space; i++) out[(last ? 1 : 2) + i] = size[i];
}

static qn_conv_options options_of(const spec *s, bool last) {
    qn_conv_options o =
        QN_CONV_OPTIONS(.groups = s->groups, .same = s->same, .channels_last = last);
    for (int i = 0; i < s->space; i++) {
        o.stride[i] = s->stride[i], o.dilation[i] = s->dilation[i];
        o.before[i] = s->before[i], o.after[i] = s->after[i];
    }
    return o;
}

typedef struct values {
    float *x, *w, *b, *g, *y, *dx, *dw;
    int64_t nx, nw, ny;
} values;

/* y = conv(x, w) + b and its gradients for the output's gradient g. */
static void run(const spec *s, const sides *r, bool last, const char *device, int threads,
                values *v) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    int64_t xs[5], ws[5], ys[5];
    image_shape(last, s->space, s->n, s->c, s->transposed ? r->small : r->big, xs);
    image_shape(last, s->space, s->n, s->o, s->transposed ? r->big : r->small, ys);
    ws[0] = r->small_c, ws[1] = r->big_c / s->groups;
    for (int i = 0; i < s->space; i++) ws[2 + i] = r->kernel[i];
    int rank = s->space + 2;
    qn_tensor *x = qn_from(qn, QN_F32, rank, xs, v->x), *w = qn_from(qn, QN_F32, rank, ws, v->w);
    qn_tensor *b = qn_from(qn, QN_F32, 1, &s->o, v->b), *g = qn_from(qn, QN_F32, rank, ys, v->g);
    qn_conv_options o = options_of(s, last);
    qn_tensor *y = s->transposed ? qn_conv_transpose(x, w, b, &o) : qn_conv(x, w, b, &o), *d[2];
    for (int i = 0; y && i < rank; i++) CHECK_INT(qn_dim(y, i), ys[i]);
    CHECK_INT(qn_grad(y, g, 2, (qn_tensor *[]){x, w}, d), QN_OK);
    CHECK_INT(qn_read(y, v->y, (size_t)v->ny * 4), QN_OK);
    CHECK_INT(qn_read(d[0], v->dx, (size_t)v->nx * 4), QN_OK);
    CHECK_INT(qn_read(d[1], v->dw, (size_t)v->nw * 4), QN_OK);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void check_device(const spec *s, const sides *r, bool last, const char *device, values *v) {
    int64_t most = v->nx > v->ny ? v->nx : v->ny;
    if (v->nw > most) most = v->nw;
    double *to = malloc(((size_t)most + 1) * sizeof *to), *size = malloc(((size_t)most + 1) * 8);
    const float *small = s->transposed ? v->x : v->g, *big = s->transposed ? v->g : v->x;
    const gather ask[3] = {
        {s->transposed ? v->x : NULL, s->transposed ? NULL : v->x, v->w, to, size},
        {s->transposed ? NULL : v->g, s->transposed ? v->g : NULL, v->w, to, size},
        {small, big, NULL, to, size}};
    const char *what[3] = {"result", "gradient of x", "gradient of w"};
    float *got[3] = {v->y, v->dx, v->dw};
    int64_t n[3] = {v->ny, v->nx, v->nw};
    run(s, r, last, device, 1, v);
    for (int i = 0; i < 3; i++) {
        memset(to, 0, (size_t)most * 8);
        memset(size, 0, (size_t)most * 8);
        gather g = ask[i];
        visit(r, last, add_product, &g);
        compare(s, what[i], last, device, n[i], got[i], &g, i ? NULL : v->b,
                volume(s->transposed ? r->big : r->small));
    }
    free(to), free(size);
}

static void check_case(const spec *s, bool last) {
    sides r = sides_of(s);
    int64_t small = s->n * r.small_c * volume(r.small), big = s->n * r.big_c * volume(r.big);
    values v = {.nx = s->transposed ? small : big, .ny = s->transposed ? big : small};
    v.nw = r.small_c * r.big_c / r.groups * volume(r.kernel);
    v.x = numbers(v.nx, 1), v.w = numbers(v.nw, 2), v.b = numbers(s->o, 3), v.g = numbers(v.ny, 4);
    v.y = numbers(v.ny, 5), v.dx = numbers(v.nx, 5), v.dw = numbers(v.nw, 5);
    check_device(s, &r, last, "ref", &v);
    check_device(s, &r, last, NULL, &v);
    float *y = numbers(v.ny, 6), *dx = numbers(v.nx, 6), *dw = numbers(v.nw, 6);
    values other = v;
    other.y = y, other.dx = dx, other.dw = dw;
    run(s, &r, last, NULL, 3, &other);
    CHECK(!memcmp(v.y, y, (size_t)v.ny * 4));
    CHECK(!memcmp(v.dx, dx, (size_t)v.nx * 4));
    CHECK(!memcmp(v.dw, dw, (size_t)v.nw * 4));
    float *all[] = {v.x, v.w, v.b, v.g, v.y, v.dx, v.dw, y, dx, dw};
    for (int i = 0; i < 10; i++) free(all[i]);
}

static void channels_first(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i], false);
}

static void channels_last(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i], true);
}

/* ---- pooling -------------------------------------------------------------------------------- */

enum { H = 9, W = 11, KH = 3, KW = 2 };

static void pools(void) {
    qn_ctx *qn = qn_open(NULL);
    float *v = numbers(2 * 3 * H * W, 8), got[2 * 3 * H * W];
    qn_tensor *x = qn_from(qn, QN_F32, 4, (int64_t[]){2, 3, H, W}, v);
    for (int pad = 0; pad < 2; pad++)
        for (int avg = 0; avg < 2; avg++) {
            qn_conv_options o =
                QN_CONV_OPTIONS(.stride = {2, 1}, .before = {pad, pad}, .after = {0, pad});
            int64_t size[2] = {KH, KW}, oh = (H + pad - KH) / 2 + 1, ow = W + 2 * pad - KW + 1;
            qn_tensor *y = (avg ? qn_avg_pool : qn_max_pool)(x, size, &o);
            CHECK_INT(qn_dim(y, 2), oh);
            CHECK_INT(qn_dim(y, 3), ow);
            CHECK_INT(qn_read(y, got, (size_t)(6 * oh * ow) * 4), QN_OK);
            for (int64_t i = 0; i < 6 * oh * ow; i++) {
                double sum = 0, most = -(double)INFINITY;
                for (int k = 0; k < KH * KW; k++) {
                    int64_t h = i / ow % oh * 2 + k / KW - pad, w = i % ow + k % KW - pad;
                    if (h < 0 || w < 0 || h >= H || w >= W) continue;
                    double e = v[(i / (oh * ow) * H + h) * W + w];
                    sum += e, most = fmax(most, e);
                }
                CHECK(fabs((double)got[i] - (avg ? sum / (KH * KW) : most)) < 1e-6);
            }
        }
    float whole[4], zero;
    qn_tensor *g = qn_from(qn, QN_F32, 4, (int64_t[]){1, 1, 2, 2}, (float[]){1, 5, 5, 2}), *d;
    qn_tensor *top = qn_max_pool(g, (int64_t[]){2, 2}, NULL);
    CHECK_INT(qn_grad(top, NULL, 1, &g, &d), QN_OK);
    CHECK_INT(qn_read(d, whole, sizeof whole), QN_OK);
    CHECK(whole[0] == 0 && whole[1] == 0.5f && whole[2] == 0.5f && whole[3] == 0);
    qn_tensor *none = qn_max_pool(qn_full(qn, QN_F32, 3, (int64_t[]){1, 1, 1}, (double)NAN),
                                  (int64_t[]){1}, NULL);
    CHECK(!qn_read(none, &zero, 4) && isnan(zero));
    qn_close(qn);
    free(v);
}

/* ---- kernels and memory --------------------------------------------------------------------- */

static float *zeros;

static qn_tensor *image(qn_ctx *qn, int64_t n, int64_t c, int64_t h, int64_t w) {
    return qn_from(qn, QN_F32, 4, (int64_t[]){n, c, h, w}, zeros);
}

/* Kernels, and bytes of temporaries: what the plan's arena takes beside the results. */
static void check_cost(qn_ctx *qn, int n, qn_tensor **t, uint64_t kernels, uint64_t bytes) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    CHECK_INT(qn_realize(n, t), QN_OK);
    qn_get_stats(qn, &b, sizeof b);
    CHECK_INT(b.kernels - a.kernels, kernels);
    CHECK(b.planned_peak_bytes <= bytes);
    CHECK_STR(qn_error(qn), "");
}

static void a_convolution_is_one_kernel_and_stores_no_windows(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    zeros = calloc(8 * 32 * 28 * 28, sizeof *zeros);
    qn_tensor *x = image(qn, 8, 32, 28, 28), *w = image(qn, 32, 32, 3, 3);
    qn_tensor *b = qn_from(qn, QN_F32, 1, (int64_t[]){32}, zeros), *d[2];
    qn_tensor *y = qn_relu(qn_conv2d(x, w, b, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1})));
    uint64_t size = 8 * 32 * 28 * 28 * 4;
    check_cost(qn, 1, &y, 1, size + 4096);
    qn_tensor *g = image(qn, 8, 32, 28, 28);
    CHECK_INT(qn_grad(qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1})), g,
                      2, (qn_tensor *[]){x, w}, d),
              QN_OK);
    check_cost(qn, 1, &d[0], 1, size + 4096);
    check_cost(qn, 1, &d[1], 1, 32 * 32 * 9 * 4 + 4096);
    qn_close(qn);
    free(zeros);
}

/* How often a scheduled kernel copies of its arguments, by its text, the trips of its outermost
 * loop, and those of the loop over blocks of the sum. */
static struct {
    bool scheduled;
    int depth;
    double around[40], reads[4], blocks, sums;
} text;

static void count_reads(void *user, const char *line) {
    (void)user;
    if (!strncmp(line, "k after ", 8)) text.scheduled = !strcmp(line, "k after schedule");
    if (!text.scheduled) return;
    const char *trips = strstr(line, " < "), *end = line + strlen(line);
    for (int i = 0; i < 4; i++)
        if (strstr(line, (const char *[]){" = a0[", " = a1[", " = a2[", " = a3["}[i]))
            text.reads[i] += text.around[text.depth];
    if (strstr(line, " pc < ")) text.sums = atof(trips + 3);
    if (!strncmp(line, "kernel ", 7)) memset(&text, 0, sizeof text), text.around[0] = 1;
    text.scheduled = true;
    if (end[-1] == '{' && trips && text.depth < 39) {
        text.around[text.depth + 1] = text.around[text.depth] * atof(trips + 3);
        if (!text.depth++) text.blocks = text.around[1];
    } else if (end[-1] == '}' && text.depth) {
        text.depth--;
    }
}

/* Each block of output channels copies the image with its border once, for all places of the
 * weight. */
static void a_weight_s_gradient_copies_the_image_once_for_all_its_places(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = count_reads));
    zeros = calloc(512 * 512 * 9, sizeof *zeros);
    qn_tensor *x = image(qn, 32, 512, 4, 4), *w = image(qn, 512, 512, 3, 3), *d;
    qn_tensor *g = image(qn, 32, 512, 4, 4);
    CHECK_INT(qn_grad(qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1})), g,
                      1, &w, &d),
              QN_OK);
    qn_set(qn, "debug", "k");
    CHECK_INT(qn_realize(1, &d), QN_OK);
    CHECK(text.blocks > 1 && text.reads[2] > 0);
    CHECK(text.reads[2] <= 1.1 * text.blocks * 32 * 512 * 6 * 6);
    qn_close(qn);
    free(zeros);
}

/* Where a panel of the weight has no room in the second-level cache, blocks of the sum are as deep
 * as have, and what they see of the image is copied once for several panels. */
static void blocks_of_a_deep_sum_are_few_and_share_the_image(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .threads = 1, .log = count_reads));
    qn_set(qn, "debug", "k");
    zeros = calloc(1024 * 1024 * 9, sizeof *zeros);
    qn_tensor *x = image(qn, 32, 1024, 4, 4), *w = image(qn, 1024, 1024, 3, 3), *d;
    qn_tensor *g = image(qn, 32, 1024, 4, 4),
              *y = qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1}));
    for (int back = 0; back < 2; back++) {
        if (back) CHECK_INT(qn_grad(y, g, 1, &x, &d), QN_OK);
        CHECK_INT(qn_realize(1, back ? &d : &y), QN_OK);
        CHECK(text.sums > 1 && text.sums <= 32);
        CHECK(text.reads[1] > 0 && text.reads[1] <= 17.0 * 32 * 1024 * 6 * 6);
    }
    qn_close(qn);
    free(zeros);
}

/* How many additions of two tensors it is made of. */
static int additions(qn_tensor *t) {
    graph *g = tensor_ctx(t)->graph;
    node_id *order, root = tensor_at(t)->node;
    arena a;
    int sum = 0;
    arena_open(&a, &tensor_ctx(t)->heap);
    uint32_t n = graph_order(g, &a, 1, &root, &order);
    for (uint32_t i = 0; i < n; i++) sum += node_at(g, order[i])->op == OP_ADD;
    arena_free(&a);
    return sum;
}

/* Windows of size k every `stride` places behind `before` of padding: of x = 1, 2, 3.. the largest
 * of each is its last, and those before it have no gradient. Windows that do not meet are put back
 * by movement: no place is a sum of what several might give. */
static void gradients_of_windows_apart_are_moved_back(void) {
    static const int lines[][4] = {{12, 2, 2, 0}, {13, 3, 3, 0}, {13, 2, 3, 0},
                                   {14, 1, 4, 0}, {9, 3, 2, 0},  {11, 3, 3, 1}};
    for (size_t i = 0; i < 2 * COUNT_OF(lines); i++) {
        const int *c = lines[i / 2], n = c[0], k = c[1], stride = c[2], before = c[3];
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = i % 2 ? "ref" : "cpu"));
        float data[16], got[16], want[16] = {0};
        for (int j = 0; j < n; j++) data[j] = (float)(j + 1);
        qn_tensor *x = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, n}, data), *d;
        qn_tensor *y = qn_max_pool(x, (int64_t[]){k},
                                   &QN_CONV_OPTIONS(.stride = {stride}, .before = {before}));
        qn_tensor *loss = qn_sum(qn_mul(y, y), QN_ALL, false);
        CHECK_INT(qn_grad(loss, NULL, 1, &x, &d), QN_OK);
        if (stride >= k && !before) CHECK(additions(d) <= 1); /* of y*y */
        for (int at = -before; at + k <= n; at += stride) want[at + k - 1] += 2 * data[at + k - 1];
        CHECK_INT(qn_read(d, got, (size_t)n * sizeof *got), QN_OK);
        for (int j = 0; j < n; j++) CHECK_NEAR(got[j], want[j], 0, 0);
        qn_close(qn);
    }
}

/* The products that are summed for a tensor. */
static int64_t multiplications(qn_tensor *t) {
    graph *g = tensor_ctx(t)->graph;
    node_id *order, root = tensor_at(t)->node;
    arena a;
    arena_open(&a, &tensor_ctx(t)->heap);
    uint32_t n = graph_order(g, &a, 1, &root, &order);
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const graph_node *x = node_at(g, order[i]);
        int64_t size = 0;
        if (x->op != OP_SUM_PRODUCT) continue;
        sym_is_const(g->syms, shape_numel(g, node_at(g, x->src[0])->shape), &size);
        sum += size;
    }
    arena_free(&a);
    return sum;
}

/* Only remainders of the stride that a kernel reaches are looked at: not three thousand million. */
static void a_stride_beyond_all_places_takes_no_time(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    float got[3] = {0}, data[3] = {2, 3, 5};
    qn_tensor *x = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, 1}, data);
    qn_tensor *w = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, 3}, data);
    qn_tensor *y = qn_conv_transpose(x, w, NULL, &QN_CONV_OPTIONS(.stride = {INT64_C(1) << 40}));
    CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
    for (int i = 0; i < 3; i++) CHECK_NEAR(got[i], 2 * data[i], 0, 0);
    qn_close(qn);
}

/* Each place of the image is seen by every stride-th place of the kernel, and by no other. */
static void gradients_of_strided_convolutions_multiply_by_no_zeros(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    zeros = calloc(8 * 32 * 32 * 32, sizeof *zeros);
    for (int stride = 1; stride < 4; stride++) {
        qn_tensor *x = image(qn, 2, 8, 30, 30), *w = image(qn, 16, 8, 3, 3), *d[2];
        qn_tensor *y = qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.stride = {stride, stride}));
        int64_t places = qn_dim(y, 2) * qn_dim(y, 3), all = 2 * 8 * 16 * 9 * places;
        qn_tensor *g = image(qn, 2, 16, qn_dim(y, 2), qn_dim(y, 3));
        CHECK_INT(multiplications(y), all);
        CHECK_INT(qn_grad(y, g, 2, (qn_tensor *[]){x, w}, d), QN_OK);
        CHECK_INT(multiplications(d[1]), all);
        if (stride == 1) all = 2 * 8 * 16 * 9 * 30 * 30; /* of an image with a border of zeros */
        CHECK(multiplications(d[0]) <= all * 5 / 4);
    }
    qn_close(qn);
    free(zeros);
}

/* As the first layer of a generator of images: what it is made of are plain products, with no
 * places at which no window is. */
static void an_image_of_one_place_is_multiplied_once(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    zeros = calloc(8 * 16 * 16, sizeof *zeros);
    qn_tensor *x = image(qn, 4, 8, 1, 1), *w = image(qn, 8, 16, 4, 4), *d[2];
    for (int stride = 1; stride < 4; stride++) {
        const int64_t all = 4 * 8 * 16 * 16;
        qn_tensor *y = qn_conv_transpose(x, w, NULL, &QN_CONV_OPTIONS(.stride = {stride, stride}));
        qn_tensor *g = image(qn, 4, 16, 4, 4);
        CHECK_INT(multiplications(y), all);
        CHECK_INT(qn_grad(y, g, 2, (qn_tensor *[]){x, w}, d), QN_OK);
        CHECK_INT(multiplications(d[0]), all);
        CHECK_INT(multiplications(d[1]), all);
    }
    qn_close(qn);
    free(zeros);
}

static void refusals_name_what_does_not_fit(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    zeros = calloc(4096, sizeof *zeros);
    qn_tensor *x = image(qn, 1, 4, 6, 6), *w = image(qn, 8, 4, 3, 3);
    CHECK(!qn_conv2d(x, image(qn, 8, 3, 3, 3), NULL, NULL));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(!qn_conv2d(x, image(qn, 8, 4, 7, 7), NULL, NULL));
    CHECK_STR(qn_error(qn), "conv2d: x [1, 4, 6, 6]: the window reaches over 7 places of spatial "
                            "axis 0, which has 6 with its padding");
    qn_clear_error(qn);
    CHECK(!qn_conv2d(x, w, qn_from(qn, QN_F32, 1, (int64_t[]){4}, zeros), NULL));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(!qn_conv2d(x, w, NULL, &QN_CONV_OPTIONS(.groups = 3)));
    CHECK(!qn_conv1d(x, w, NULL, NULL));
    qn_clear_error(qn);
    CHECK(!qn_max_pool(x, (int64_t[]){0, 1}, NULL));
    CHECK_STR(qn_error(qn), "max_pool: x [1, 4, 6, 6]: a window below size 1");
    qn_clear_error(qn);
    CHECK(!qn_conv(NULL, w, NULL, NULL));
    qn_clear_error(qn);
    qn_close(qn);
    free(zeros);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(channels_first);
    RUN(channels_last);
    RUN(pools);
    RUN(a_convolution_is_one_kernel_and_stores_no_windows);
    RUN(a_weight_s_gradient_copies_the_image_once_for_all_its_places);
    RUN(blocks_of_a_deep_sum_are_few_and_share_the_image);
    RUN(a_stride_beyond_all_places_takes_no_time);
    RUN(gradients_of_strided_convolutions_multiply_by_no_zeros);
    RUN(an_image_of_one_place_is_multiplied_once);
    RUN(gradients_of_windows_apart_are_moved_back);
    RUN(refusals_name_what_does_not_fit);
    return test_end();
}
