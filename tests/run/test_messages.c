/* test_messages.c - what the library says: every case of misuse names what was asked for, the
 * argument and the shapes; nothing that matters is silent; QN_DEBUG's letters do what they say. */
#include "quern_nn.h"
#include "test.h"

#include <fcntl.h>
#include <unistd.h>

static char said[1 << 22]; /* on standard error */

/* Run `what` with standard error in a file, and keep what was written there. */
static void listening(void (*what)(void)) {
    char path[] = "/tmp/quern-said-XXXXXX";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    said[0] = 0;
    if (file < 0 || before < 0) {
        FAIL("no file");
        return;
    }
    unlink(path);
    dup2(file, STDERR_FILENO);
    what();
    dup2(before, STDERR_FILENO);
    ssize_t n = pread(file, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = 0;
    close(before);
    close(file);
}

static bool has(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

#define SAYS(text, word)                                                                           \
    (has(text, word) ? (void)0 : (void)FAIL("\"%s\" is not in \"%.300s\"", word, text))

static qn_tensor *numbers(qn_ctx *qn, int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (float)(i % 7) / 8;
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, v);
    free(v);
    return t;
}

/* ---- opening --------------------------------------------------------------------------------- */

static char why[512];

static qn_ctx *open_why(const char *device) {
    memset(why, 'x', sizeof why);
    return qn_open(&QN_OPTIONS(.device = device, .error = why, .error_size = sizeof why));
}

static void open_gives_its_reason(void) {
    CHECK(!open_why("abacus"));
    SAYS(why, "\"abacus\"");
    SAYS(why, "cpu, opencl, ref, null");
    setenv("QN_THREADS", "many", 1);
    CHECK(!open_why("ref"));
    SAYS(why, "QN_THREADS");
    SAYS(why, "\"many\"");
    unsetenv("QN_THREADS");
    qn_ctx *qn = open_why("ref");
    CHECK_STR(why, "");
    qn_close(qn);
    char few[8];
    CHECK(!qn_open(&QN_OPTIONS(.device = "abacus", .error = few, .error_size = sizeof few)));
    CHECK_INT(strlen(few), 7);
    CHECK(!qn_open(&QN_OPTIONS(.device = "abacus", .error = few, .error_size = 0)));
}

static void a_compiler_that_is_none_opens_nothing(void) {
    setenv("QN_CPU", "foo", 1);
    CHECK(!open_why("cpu"));
    SAYS(why, "QN_CPU");
    SAYS(why, "\"foo\"");
    SAYS(why, "llvm");
    setenv("QN_CPU", "cc", 1);
    setenv("QN_CC", "no-such-compiler-here", 1);
    CHECK(!open_why("cpu"));
    SAYS(why, "no-such-compiler-here");
    unsetenv("QN_CPU");
    unsetenv("QN_CC");
}

static qn_ctx *fallen;
static char refusal[300];

static void open_cpu(void) {
    refusal[0] = 0;
    fallen = qn_open(&QN_OPTIONS(.device = "cpu", .error = refusal, .error_size = sizeof refusal));
}

static void a_fall_back_to_the_oracle_is_told(void) {
    const char *reason = "unset";
    setenv("QN_LLVM", "99", 1);
    setenv("QN_CC", "no-such-compiler-here", 1);
    listening(open_cpu);
    unsetenv("QN_CC");
    unsetenv("QN_LLVM");
    if (!fallen) {
        FAIL("nothing opens");
        return;
    }
    CHECK_STR(qn_device_of(fallen, &reason), "ref");
    CHECK(reason != NULL);
    SAYS(reason, "no-such-compiler-here");
    SAYS(said, "no-such-compiler-here");
    SAYS(said, "ref");
    qn_close(fallen);
}

/* A libLLVM that was asked for: kernels take hundreds of milliseconds each without. */
static void a_fall_back_to_the_c_compiler_is_told(void) {
    setenv("QN_LLVM", "99", 1);
    listening(open_cpu);
    unsetenv("QN_LLVM");
    if (!fallen || strcmp(qn_device_of(fallen, NULL), "cpu")) {
        SKIP("there is no C compiler");
    } else {
        SAYS(said, "\"99\"");
        SAYS(said, "the C compiler");
    }
    if (fallen) qn_close(fallen);
}

static void instructions_that_are_none_are_an_error(void) {
    setenv("QN_ISA", "x86-65", 1);
    listening(open_cpu);
    unsetenv("QN_ISA");
    CHECK(!fallen);
    SAYS(refusal, "x86-65");
    if (fallen) qn_close(fallen);
}

static void open_misspelt(void) {
    qn_close(qn_open(&QN_OPTIONS(.device = "ref")));
}

static void a_variable_that_is_no_knob_is_told(void) {
    setenv("QN_FUES", "0", 1);
    listening(open_misspelt);
    unsetenv("QN_FUES");
    SAYS(said, "QN_FUES is no knob");
    SAYS(said, "QN_FUSE");
    setenv("QN_BENCH_SOMETHING", "0", 1);
    listening(open_misspelt);
    CHECK_STR(said, "");
}

/* ---- knobs ----------------------------------------------------------------------------------- */

static void knobs_that_come_too_late_are_errors(void) {
    static const char *const early[] = {"device", "threads", "cpu",
                                        "cc",     "opencl",  "opencl_library"};
    qn_ctx *qn = open_why("ref");
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        CHECK_INT(qn_set(qn, early[i], "1"), QN_EARG);
        SAYS(qn_error(qn), early[i]);
        SAYS(qn_error(qn), "before qn_open");
        qn_clear_error(qn);
    }
    CHECK_INT(qn_set(qn, "fues", "0"), QN_EARG);
    SAYS(qn_error(qn), "\"fues\"");
    SAYS(qn_error(qn), "\"fuse\"");
    qn_clear_error(qn);
    CHECK_INT(qn_set(qn, "debug", "gq"), QN_EARG);
    SAYS(qn_error(qn), "\"gq\"");
    qn_close(qn);
}

static uint64_t launches(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s.kernels;
}

/* Kernels that one reading of the same expression takes. */
static uint64_t reading(qn_ctx *qn, qn_tensor *x) {
    float v[4];
    uint64_t before = launches(qn);
    qn_scope s = qn_scope_begin(qn);
    CHECK(!qn_read(qn_exp(qn_neg(qn_abs(x))), v, sizeof v));
    qn_scope_end(qn, s);
    return launches(qn) - before;
}

static void a_knob_that_changes_plans_changes_them_at_once(void) {
    qn_ctx *qn = open_why("null");
    qn_tensor *x = numbers(qn, 1, (int64_t[]){4});
    CHECK_INT(reading(qn, x), 1);
    CHECK(!qn_set(qn, "fuse", "0"));
    CHECK_INT(reading(qn, x), 3);
    CHECK(!qn_set(qn, "fuse", "1"));
    CHECK_INT(reading(qn, x), 1);
    qn_release(x);
    qn_close(qn);
}

/* ---- letters --------------------------------------------------------------------------------- */

static void debug_everything(void) {
    float v;
    setenv("QN_DEBUG", "gafmkrcxe", 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    unsetenv("QN_DEBUG");
    if (!qn) return;
    qn_tensor *x = numbers(qn, 2, (int64_t[]){4, 300}), *g;
    qn_tensor *y = qn_sum(qn_exp(qn_softmax(x, 0)), QN_ALL, false);
    CHECK(!qn_grad(y, NULL, 1, &x, &g));
    qn_tensor *norm = qn_sum(qn_matmul(qn_tanh(g), qn_transpose(x, 0, 1)), QN_ALL, false);
    CHECK(!qn_read(norm, &v, sizeof v));
    qn_close(qn);
}

static void debug_letters_print_without_a_callback(void) {
    listening(debug_everything);
    SAYS(said, "quern: g a request for 1 values");
    SAYS(said, "exp f32[4, 300] of ");
    SAYS(said, "quern: a exp f32[4, 300], its gradient ");
    SAYS(said, "quern: m plan of ");
    SAYS(said, " in an arena of ");
    SAYS(said, "quern: k ");
}

static int lines;
static void count_line(void *user, const char *line) {
    lines += user == why && !has(line, "quern: ");
}

static void debug_with_callback(void) {
    float v[4];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .log = count_line, .log_user = why));
    CHECK(!qn_set(qn, "debug", "g"));
    CHECK(!qn_read(qn_exp(numbers(qn, 1, (int64_t[]){4})), v, sizeof v));
    qn_close(qn);
}

static void a_callback_takes_what_would_be_printed(void) {
    listening(debug_with_callback);
    CHECK_STR(said, "");
    CHECK(lines >= 3);
}

/* ---- misuse: a table ------------------------------------------------------------------------- */

static qn_ctx *qn;

static qn_tensor *f32(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return qn_zeros(qn, QN_F32, rank, (int64_t[]){a, b, c, d});
}
static qn_tensor *i32(int rank, int64_t a, int64_t b) {
    return qn_zeros(qn, QN_I32, rank, (int64_t[]){a, b});
}
#define V(a)          f32(1, a, 0, 0, 0)
#define M(a, b)       f32(2, a, b, 0, 0)
#define T(a, b, c)    f32(3, a, b, c, 0)
#define I(a, b, c, d) f32(4, a, b, c, d)
#define LIST(...)     ((qn_tensor *const[]){__VA_ARGS__})

/* X(call, words that its error holds) */
#define CASES(X)                                                                                   \
    X(qn_einsum(2, LIST(M(2, 3), M(4, 5)), "ij,jk->ik"), "einsum", "letter j", "3 in tensor 0",    \
      "4 in tensor 1")                                                                             \
    X(qn_einsum(1, LIST(M(2, 3)), "ii"), "letter i", "2 in tensor 0", "3 in tensor 0")             \
    X(qn_einsum(2, LIST(M(2, 3), M(9, 5)), "ij,jK"), "letter j", "3", "9")                         \
    X(qn_einsum(2, LIST(M(2, 3), M(9, 5)), "iK,Kj"), "letter K", "3", "9")                         \
    X(qn_einsum(2, LIST(M(2, 3), M(3, 5)), "ij,jk->il"), "output", "\"il\"")                       \
    X(qn_einsum(2, LIST(T(2, 3, 1), M(3, 5)), "ij,jk->ik"), "tensor 0 has rank 3", "\"ij\"")       \
    X(qn_einsum(1, LIST(M(2, 3)), "ij,jk->ik"), "for 2 tensors, not 1")                            \
    X(qn_einsum(1, LIST(M(2, 3)), NULL), "einsum", "spec is NULL")                                 \
    X(qn_cross_entropy(M(4, 10), i32(1, 5, 0)), "cross_entropy", "logits [4, 10]", "labels [5]")   \
    X(qn_cross_entropy(M(4, 10), i32(1, 1, 0)), "logits [4, 10]", "labels [1]")                    \
    X(qn_cross_entropy(M(4, 10), i32(2, 4, 1)), "logits [4, 10]", "labels [4, 1]")                 \
    X(qn_cross_entropy(M(4, 10), NULL), "cross_entropy: labels is NULL")                           \
    X(qn_cross_entropy(NULL, i32(1, 5, 0)), "cross_entropy: logits is NULL")                       \
    X(qn_nll_loss(M(4, 10), i32(1, 3, 0)), "nll_loss", "log_p [4, 10]", "labels [3]")              \
    X(qn_layer_norm(M(4, 10), V(9), NULL, 1e-5), "layer_norm", "x [4, 10]", "gamma [9]", "10")     \
    X(qn_layer_norm(M(4, 10), NULL, V(9), 1e-5), "layer_norm", "x [4, 10]", "beta [9]")            \
    X(qn_layer_norm(M(4, 1), V(9), NULL, 1e-5), "layer_norm", "x [4, 1]", "gamma [9]")             \
    X(qn_rms_norm(M(4, 10), V(9), 1e-5), "rms_norm", "x [4, 10]", "gamma [9]")                     \
    X(qn_group_norm(T(2, 6, 4), NULL, NULL, 4, 1e-5), "group_norm", "x [2, 6, 4]", "4 groups")     \
    X(qn_group_norm(T(2, 6, 4), V(5), NULL, 3, 1e-5), "x [2, 6, 4]", "gamma [5]")                  \
    X(qn_concat(2, LIST(M(2, 3), M(2, 4)), 0), "concat", "tensor 0 [2, 3]", "tensor 1 [2, 4]")     \
    X(qn_concat(3, LIST(M(2, 3), M(2, 3), V(3)), 0), "tensor 2 [3]", "axis 0")                     \
    X(qn_concat(2, LIST(M(2, 3), NULL), 0), "concat", "tensor 1 is NULL")                          \
    X(qn_stack(2, LIST(M(2, 3), M(2, 4)), 0), "stack", "tensor 0 [2, 3]", "tensor 1 [2, 4]")       \
    X(qn_conv2d(I(1, 3, 8, 8), I(5, 4, 3, 3), NULL, NULL), "conv2d", "x [1, 3, 8, 8]",             \
      "w [5, 4, 3, 3]", "x has 3 channels", "w takes 4")                                           \
    X(qn_conv2d(I(1, 4, 8, 8), I(5, 2, 3, 3), NULL, &QN_CONV_OPTIONS(.groups = 2)),                \
      "w's axis 0, 5", "2 groups")                                                                 \
    X(qn_conv2d(I(1, 3, 8, 8), I(5, 3, 3, 3), V(4), NULL), "conv2d", "b [4]", "5 channels")        \
    X(qn_conv2d(I(1, 3, 8, 8), I(5, 3, 9, 3), NULL, NULL), "x [1, 3, 8, 8]", "9 places",           \
      "spatial axis 0", "8")                                                                       \
    X(qn_conv2d(I(1, 3, 8, 8), I(5, 3, 3, 3), NULL, &QN_CONV_OPTIONS(.stride = {-2, -2})),         \
      "stride[0] is -2")                                                                           \
    X(qn_conv2d(T(1, 3, 8), I(5, 3, 3, 3), NULL, NULL), "conv2d", "x [1, 3, 8]", "rank 4")         \
    X(qn_conv2d(I(1, 3, 8, 8), NULL, NULL, NULL), "conv2d: w is NULL")                             \
    X(qn_conv_transpose(I(1, 3, 8, 8), I(4, 3, 3, 3), NULL, NULL), "conv_transpose",               \
      "x [1, 3, 8, 8]", "w [4, 3, 3, 3]")                                                          \
    X(qn_max_pool(I(1, 3, 8, 8), (int64_t[]){9, 2}, NULL), "max_pool", "9 places", "8")            \
    X(qn_linear(M(4, 3), M(5, 4), NULL), "linear", "x [4, 3]", "w [5, 4]")                         \
    X(qn_linear(M(4, 3), M(5, 3), V(4)), "linear", "w [5, 3]", "b [4]")                            \
    X(qn_linear(M(4, 3), M(1, 3), V(4)), "linear", "w [1, 3]", "b [4]")                            \
    X(qn_linear(M(4, 3), NULL, V(4)), "linear: w is NULL")                                         \
    X(qn_matmul(M(4, 3), M(5, 4)), "matmul", "x [4, 3]", "y [5, 4]")                               \
    X(qn_attention(M(4, 8), M(5, 7), M(5, 7), NULL), "attention", "q [4, 8]", "k [5, 7]")          \
    X(qn_attention(M(4, 8), M(5, 8), M(6, 8), NULL), "attention", "k [5, 8]", "v [6, 8]")          \
    X(qn_attention(M(4, 8), M(5, 8), NULL, NULL), "attention: v is NULL")                          \
    X(qn_tensordot(M(3, 4), M(4, 5), 1, (int[]){0}, (int[]){0}), "x [3, 4]", "y [4, 5]", "axis 0") \
    X(qn_index_add(M(3, 4), i32(1, 2, 0), M(3, 4), 0), "index_add", "src [3, 4]", "index [2]")     \
    X(qn_add(M(3, 4), NULL), "add: y is NULL")                                                     \
    X(qn_add(NULL, M(3, 4)), "add: x is NULL")                                                     \
    X(qn_where(M(3, 4), M(3, 4), NULL), "where: z is NULL")                                        \
    X(qn_gather(M(3, 4), NULL, 0), "gather: index is NULL")                                        \
    X(qn_dropout(M(3, 4), NULL, .5), "dropout: key is NULL")

static void misuse_names_the_argument_and_the_shapes(void) {
    qn = open_why("ref");
#define X(call, ...)                                                                               \
    {                                                                                              \
        const char *words[] = {__VA_ARGS__};                                                       \
        qn_scope s = qn_scope_begin(qn);                                                           \
        if (call) FAIL("no error: %s", #call);                                                     \
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) SAYS(qn_error(qn), words[i]);    \
        qn_clear_error(qn);                                                                        \
        qn_scope_end(qn, s);                                                                       \
    }
    CASES(X)
#undef X
    qn_close(qn);
}

static void what_broadcasts_still_does(void) {
    qn = open_why("ref");
    qn_scope s = qn_scope_begin(qn);
    CHECK(qn_einsum(2, LIST(M(2, 3), M(1, 3)), "...i,...i->..."));
    CHECK(qn_layer_norm(M(4, 10), M(4, 10), f32(0, 0, 0, 0, 0), 1e-5));
    CHECK(qn_linear(M(4, 3), M(5, 3), f32(0, 0, 0, 0, 0)));
    CHECK_STR(qn_error(qn), "");
    qn_scope_end(qn, s);
    qn_close(qn);
}

static void a_mistyped_parameter_name_is_named_where_it_hurts(void) {
    qn = open_why("ref");
    qn_module *m = qn_module_new(qn, 1);
    qn_linear_new(m, "fc", 3, 5, NULL);
    qn_linear_new(m, "head", 5, 2, NULL);
    qn_tensor *x = qn_zeros(qn, QN_F32, 2, (int64_t[]){4, 3});
    qn_tensor *w = qn_module_find(m, "fc.wieght"), *b = qn_module_find(m, "fc.bias");
    CHECK(!w && b);
    CHECK_STR(qn_error(qn), "");
    CHECK(!qn_linear(x, w, b));
    SAYS(qn_error(qn), "linear: w is NULL");
    SAYS(qn_error(qn), "\"fc.wieght\"");
    SAYS(qn_error(qn), "there is \"fc.weight\"");
    qn_clear_error(qn);
    CHECK(!qn_add(x, NULL));
    CHECK(!has(qn_error(qn), "wieght"));
    qn_release(x);
    qn_module_free(m);
    qn_close(qn);
}

static void a_tensor_that_is_not_in_a_file_has_neighbours(void) {
    char path[] = "/tmp/quern-messages-XXXXXX";
    int file = mkstemp(path);
    qn = open_why("ref");
    qn_module *m = qn_module_new(qn, 1);
    qn_linear_new(m, "fc", 3, 5, NULL);
    CHECK(file >= 0 && !qn_module_save(m, path, NULL));
    qn_file *f = qn_file_open(qn, path);
    CHECK(!qn_file_tensor(f, "fc.waight"));
    SAYS(qn_error(qn), "\"fc.waight\"");
    SAYS(qn_error(qn), "\"fc.weight\"");
    qn_file_close(f);
    qn_module_free(m);
    qn_close(qn);
    close(file);
    unlink(path);
}

/* ---- dimension variables --------------------------------------------------------------------- */

static void an_unbound_variable_is_named(void) {
    static const char *const devices[] = {"ref", "null"};
    for (int d = 0; d < 2; d++) {
        float v[64] = {0};
        qn = open_why(devices[d]);
        qn_scope s = qn_scope_begin(qn);
        int64_t time = qn_var(qn, "time", 1, 100), batch = qn_var(qn, "batch", 1, 100);
        CHECK(!qn_from(qn, QN_F32, 2, (int64_t[]){3, time}, v));
        SAYS(qn_error(qn), "from: axis 1 depends on time, which is not bound");
        qn_clear_error(qn);
        qn_tensor *x = qn_exp(qn_zeros(qn, QN_F32, 2, (int64_t[]){time, batch}));
        CHECK_INT(qn_numel(x), -1);
        SAYS(qn_error(qn), "time");
        qn_clear_error(qn);
        CHECK(!qn_bind(qn, time, 4));
        CHECK(qn_read(x, v, sizeof v) < 0);
        SAYS(qn_error(qn), "batch");
        qn_clear_error(qn);
        CHECK_INT(qn_realize(1, (qn_tensor *const[]){qn_sum(qn_add(x, V(1)), QN_ALL, false)}),
                  QN_ESHAPE);
        SAYS(qn_error(qn), "batch");
        CHECK(!has(qn_error(qn), "time"));
        qn_clear_error(qn);
        qn_scope_end(qn, s);
        qn_close(qn);
    }
}

static qn_tensor *ramp(int rank, const int64_t *shape) {
    return numbers(qn, rank, shape);
}

/* softmax over the last axis and a sum over it all, of 2 t + 1 columns. */
static void data_that_is_fed_in_binds(void) {
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    if (!strcmp(qn_device_of(qn, NULL), "ref")) {
        qn_close(qn);
        SKIP("no compiler");
        return;
    }
    qn_scope s = qn_scope_begin(qn);
    int64_t t = qn_var(qn, "t", 1, 50);
    CHECK(!qn_bind(qn, t, 3));
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 4}, (float[12]){0});
    qn_tensor *w = qn_from(qn, QN_F32, 1, (int64_t[]){t}, (float[3]){0});
    qn_tensor *y[2] = {qn_mul(qn_softmax(x, 1), qn_unsqueeze(w, 1)), qn_sum(x, QN_ALL, false)};
    qn_tensor *both[2] = {x, w};
    qn_plan *p = qn_plan_new(qn, 2, both, 2, y);
    if (!p) FAIL("%s", qn_error(qn));
    for (int64_t n = 1; p && n <= 50; n += 7) {
        float got[200], want[200], total;
        qn_tensor *in[2] = {ramp(2, (int64_t[]){n, 4}), ramp(1, (int64_t[]){n})}, *out[2];
        if (qn_plan_run(p, in, out)) FAIL("%s", qn_error(qn));
        CHECK_INT(qn_dim(out[0], 0), n);
        CHECK(!qn_read(out[0], got, (size_t)n * 16));
        CHECK(!qn_read(qn_mul(qn_softmax(in[0], 1), qn_unsqueeze(in[1], 1)), want, (size_t)n * 16));
        for (int64_t i = 0; i < 4 * n; i++) CHECK_NEAR(got[i], want[i], 1e-6, 1e-7);
        double sum = 0;
        for (int64_t i = 0; i < 4 * n; i++) sum += (double)(i % 7) / 8;
        CHECK(!qn_read(out[1], &total, sizeof total));
        CHECK_NEAR(total, sum, 1e-6, 0);
    }
    qn_tensor *in[2] = {ramp(2, (int64_t[]){5, 4}), ramp(1, (int64_t[]){6})}, *out[2];
    CHECK(qn_plan_run(p, in, out) < 0);
    SAYS(qn_error(qn), "input 0 gives t = 5, input 1 6");
    qn_clear_error(qn);
    in[1] = ramp(1, (int64_t[]){51});
    CHECK(qn_plan_run(p, in, out) < 0);
    SAYS(qn_error(qn), "t = 51");
    SAYS(qn_error(qn), "[1, 50]");
    qn_clear_error(qn);
    in[0] = ramp(2, (int64_t[]){5, 3});
    CHECK(qn_plan_run(p, in, out) < 0);
    SAYS(qn_error(qn), "[5, 3]");
    SAYS(qn_error(qn), "[t, 4]");
    qn_clear_error(qn);
    CHECK_INT(qn_numel(x), 50 / 7 * 7 * 4 + 4); /* as the last run that fitted bound it */
    qn_scope_end(qn, s);
    qn_plan_free(p);
    qn_close(qn);
}

static void sizes_made_of_variables_are_checked(void) {
    qn = qn_open(&QN_OPTIONS(.device = "null"));
    qn_scope s = qn_scope_begin(qn);
    int64_t t = qn_var(qn, "t", 1, 50);
    CHECK(!qn_bind(qn, t, 3));
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){t}, (float[3]){0});
    qn_tensor *two[2] = {x, x}, *twice = qn_concat(2, two, 0);
    qn_tensor *z = qn_from(qn, QN_F32, 1, (int64_t[]){qn_dim(twice, 0)}, (float[6]){0});
    qn_tensor *y = qn_add(twice, z), *both[2] = {x, z}, *out = NULL;
    qn_plan *p = qn_plan_new(qn, 2, both, 1, &y);
    qn_tensor *in[2] = {ramp(1, (int64_t[]){5}), ramp(1, (int64_t[]){10})};
    CHECK(!qn_plan_run(p, in, &out));
    CHECK_INT(qn_dim(out, 0), 10);
    in[1] = ramp(1, (int64_t[]){11});
    CHECK(qn_plan_run(p, in, &out) < 0);
    SAYS(qn_error(qn), "input 1: axis 0 is 11, where 2*t is");
    qn_scope_end(qn, s);
    qn_plan_free(p);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(open_gives_its_reason);
    RUN(a_compiler_that_is_none_opens_nothing);
    RUN(a_fall_back_to_the_oracle_is_told);
    RUN(a_fall_back_to_the_c_compiler_is_told);
    RUN(instructions_that_are_none_are_an_error);
    RUN(a_variable_that_is_no_knob_is_told);
    RUN(knobs_that_come_too_late_are_errors);
    RUN(a_knob_that_changes_plans_changes_them_at_once);
    RUN(debug_letters_print_without_a_callback);
    RUN(a_callback_takes_what_would_be_printed);
    RUN(misuse_names_the_argument_and_the_shapes);
    RUN(what_broadcasts_still_does);
    RUN(a_mistyped_parameter_name_is_named_where_it_hurts);
    RUN(a_tensor_that_is_not_in_a_file_has_neighbours);
    RUN(an_unbound_variable_is_named);
    RUN(data_that_is_fed_in_binds);
    RUN(sizes_made_of_variables_are_checked);
    return test_end();
}
