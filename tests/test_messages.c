/* test_messages.c - what the library says: every case of misuse names what was asked for, the
 * argument and the shapes; nothing that matters is silent; QN_DEBUG's letters do what they say. */
#include "quern.h"
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
    return qn_open(&(qn_options){.device = device, .error = why, .error_size = sizeof why});
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
    CHECK(!qn_open(&(qn_options){.device = "abacus", .error = few, .error_size = sizeof few}));
    CHECK_INT(strlen(few), 7);
    CHECK(!qn_open(&(qn_options){.device = "abacus", .error = few, .error_size = 0}));
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

static void open_cpu(void) {
    fallen = qn_open(&(qn_options){.device = "cpu"});
}

/* Without libLLVM and without a C compiler: as an empty PATH and a library path without it. The
 * search for libLLVM looks at fixed places, too, so this is skipped where it is there. */
static void a_fall_back_to_the_oracle_is_told(void) {
    const char *reason = "unset";
    setenv("QN_CC", "no-such-compiler-here", 1);
    listening(open_cpu);
    unsetenv("QN_CC");
    if (!fallen) {
        FAIL("nothing opens");
        return;
    }
    const char *device = qn_device_of(fallen, &reason);
    if (!strcmp(device, "cpu")) {
        CHECK(!reason);
        CHECK_STR(said, "");
        SKIP("there is a libLLVM");
    } else {
        CHECK_STR(device, "ref");
        CHECK(reason != NULL);
        SAYS(reason, "no-such-compiler-here");
        SAYS(said, "no-such-compiler-here");
        SAYS(said, "ref");
    }
    qn_close(fallen);
}

static void open_misspelt(void) {
    qn_close(qn_open(&(qn_options){.device = "ref"}));
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
    qn_get_stats(qn, &s);
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
    qn_ctx *qn = qn_open(&(qn_options){.device = "cpu", .threads = 1});
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
    qn_ctx *qn = qn_open(&(qn_options){.device = "ref", .log = count_line, .log_user = why});
    CHECK(!qn_set(qn, "debug", "g"));
    CHECK(!qn_read(qn_exp(numbers(qn, 1, (int64_t[]){4})), v, sizeof v));
    qn_close(qn);
}

static void a_callback_takes_what_would_be_printed(void) {
    listening(debug_with_callback);
    CHECK_STR(said, "");
    CHECK(lines >= 3);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(open_gives_its_reason);
    RUN(a_compiler_that_is_none_opens_nothing);
    RUN(a_fall_back_to_the_oracle_is_told);
    RUN(a_variable_that_is_no_knob_is_told);
    RUN(knobs_that_come_too_late_are_errors);
    RUN(a_knob_that_changes_plans_changes_them_at_once);
    RUN(debug_letters_print_without_a_callback);
    RUN(a_callback_takes_what_would_be_printed);
    return test_end();
}
