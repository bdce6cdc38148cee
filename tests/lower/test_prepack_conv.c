/* test_prepack_conv.c - the weights of convolutions in static graphs are packed once, in the order
 * in which they are read: what is computed is what the oracle device has, for odd sizes, all kinds
 * of windows and several images; another value of the weight is seen at once; what is stored across
 * the lanes, and what is added that lies so, is right to the bit. Values are whole numbers, small
 * enough to be summed exactly in any order. */
#include "quern.h"
#include "test.h"

typedef struct shape {
    int images, in, out, height, width, window, stride, dilation, pad, groups;
    bool adds; /* an image of the result's shape, whose sum is cut off below 0 */
    bool packed;
} shape;

static qn_tensor *random_tensor(qn_ctx *qn, int rank, const int64_t *dims, uint64_t seed) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)((int)test_below(&seed, 15) - 7);
    qn_tensor *t = qn_from(qn, QN_F32, rank, dims, p);
    free(p);
    return t;
}

static int places(const shape *s, int size) {
    return (size + 2 * s->pad - s->dilation * (s->window - 1) - 1) / s->stride + 1;
}

enum { X, W, B, R, TENSORS };

static void make_tensors(qn_ctx *qn, const shape *s, qn_tensor *t[TENSORS]) {
    const int64_t dims[TENSORS][4] = {
        {s->images, s->in, s->height, s->width},
        {s->out, s->in / s->groups, s->window, s->window},
        {s->out},
        {s->images, s->out, places(s, s->height), places(s, s->width)},
    };
    for (int i = 0; i < TENSORS; i++)
        t[i] = random_tensor(qn, i == B ? 1 : 4, dims[i], (uint64_t)i + 1);
}

static qn_tensor *result(const shape *s, qn_tensor *const t[TENSORS]) {
    qn_conv_options o = QN_CONV_OPTIONS(.groups = s->groups);
    for (int i = 0; i < 2; i++) {
        o.stride[i] = s->stride;
        o.dilation[i] = s->dilation;
        o.before[i] = o.after[i] = s->pad;
    }
    qn_tensor *y = qn_conv(t[X], t[W], t[B], &o);
    return s->adds ? qn_relu(qn_add(y, t[R])) : y;
}

static void read_values(qn_tensor *y, float *out, size_t n) {
    if (qn_read(y, out, n * sizeof *out)) FAIL("read: %s", qn_error(qn_context(y)));
}

static void expected(const shape *s, uint64_t seed, float *out, size_t n) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *t[TENSORS];
    make_tensors(qn, s, t);
    const int64_t dims[4] = {s->out, s->in / s->groups, s->window, s->window};
    if (seed) t[W] = random_tensor(qn, 4, dims, seed);
    read_values(result(s, t), out, n);
    qn_close(qn);
}

/* Launches that the run took. */
static int run(qn_ctx *qn, qn_plan *p, qn_tensor *const *in, float *out, size_t n) {
    qn_stats a, b;
    qn_tensor *y = NULL;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_plan_run(p, in, &y)) FAIL("run: %s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    read_values(y, out, n);
    qn_release(y);
    return (int)(b.kernels - a.kernels);
}

static void check_values(const shape *s, const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            FAIL("%d x %d to %d channels of %dx%d, windows of %d: element %zu is %g, not %g",
                 s->images, s->in, s->out, s->height, s->width, s->window, i, (double)got[i],
                 (double)want[i]);
}

static void check_shape(const shape *s, int threads, const char *isa) {
    if (isa) setenv("QN_ISA", isa, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
    if (isa) unsetenv("QN_ISA");
    size_t n = (size_t)s->images * (size_t)s->out * (size_t)places(s, s->height) *
               (size_t)places(s, s->width);
    float *got = malloc(n * sizeof *got), *want = malloc(n * sizeof *want);
    qn_tensor *t[TENSORS];
    make_tensors(qn, s, t);
    qn_tensor *y = result(s, t), *in[2] = {t[X], t[R]};
    qn_plan *p = qn_plan_new(qn, s->adds ? 2 : 1, in, 1, &y);
    if (!p) FAIL("plan: %s", qn_error(qn));
    int first = run(qn, p, in, got, n);
    expected(s, 0, want, n);
    check_values(s, got, want, n);
    int again = run(qn, p, in, got, n);
    check_values(s, got, want, n);
    if (s->packed && !isa && first != again + 1)
        FAIL("%d to %d channels: %d launches at first, %d then", s->in, s->out, first, again);
    const int64_t dims[4] = {s->out, s->in / s->groups, s->window, s->window};
    CHECK_INT(qn_assign(t[W], random_tensor(qn, 4, dims, 99)), QN_OK);
    run(qn, p, in, got, n);
    expected(s, 99, want, n);
    check_values(s, got, want, n);
    qn_plan_free(p);
    qn_close(qn);
    free(got);
    free(want);
}

static const shape shapes[] = {
    /* images, channels in and out, height, width, window, stride, dilation, pad, groups, adds */
    {1, 3, 5, 7, 7, 3, 1, 1, 1, 1, false, false},
    {1, 16, 64, 14, 14, 3, 1, 1, 1, 1, true, true},
    {1, 17, 33, 13, 11, 3, 1, 1, 1, 1, true, false},
    {2, 16, 31, 9, 15, 3, 2, 1, 1, 1, false, false},
    {3, 8, 48, 12, 12, 3, 1, 2, 2, 1, true, false},
    {1, 12, 40, 10, 10, 5, 1, 1, 2, 1, true, false},
    {1, 3, 64, 32, 32, 7, 2, 1, 3, 1, false, false},
    {2, 24, 36, 8, 9, 3, 1, 1, 1, 2, true, false},
    {1, 20, 1, 7, 7, 3, 1, 1, 1, 1, false, false},
    {1, 256, 65, 7, 7, 3, 1, 1, 1, 1, true, true},
    {1, 64, 96, 7, 7, 1, 1, 1, 0, 1, true, false},
    {1, 480, 192, 7, 7, 1, 1, 1, 0, 1, true, true},
    {1, 321, 145, 7, 7, 1, 1, 1, 0, 1, true, false},
    {1, 64, 97, 13, 13, 1, 1, 1, 0, 1, true, false},
    {1, 64, 96, 14, 14, 1, 1, 1, 0, 1, true, false},
    {1, 100, 17, 7, 7, 1, 1, 1, 0, 1, false, false},
    {2, 40, 70, 7, 7, 1, 1, 1, 0, 1, true, false},
    {1, 32, 64, 15, 15, 1, 2, 1, 0, 1, true, false},
    {1, 31, 29, 1, 1, 1, 1, 1, 0, 1, true, false},
    {1, 19, 16, 5, 23, 1, 1, 1, 0, 1, false, false},
};

static void weights_of_convolutions_are_packed_once(void) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], i % 2 ? 2 : 1, NULL);
}

static void so_for_vectors_of_other_widths(void) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], 1, i % 2 ? "x86-64-v3" : "x86-64-v2");
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(weights_of_convolutions_are_packed_once);
    RUN(so_for_vectors_of_other_widths);
    return test_end();
}
