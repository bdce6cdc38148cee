/* test.h - the test harness: a program lists its tests with RUN(), each CHECK that fails is
 * reported with its place, and the program ends with a line "N passed, N failed, N skipped" that
 * tools/run_tests.sh adds up. A test is one static function; its name says the behaviour.
 *
 *     static void adds_small_numbers(void) { CHECK(1 + 1 == 2); CHECK_INT(1 + 1, 2); }
 *     int main(int argc, char **argv) { test_begin(argc, argv); RUN(adds_small_numbers); return
 * test_end(); }
 *
 * Arguments of a program select tests by substring. */
#ifndef QN_TEST_H
#define QN_TEST_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    int argc;
    char **argv;
    int passed, failed, skipped;
    bool bad, skip;
} test_state;

/* Objects on disk would hide what a test is about: a test that wants a cache names its folder. */
static inline void test_begin(int argc, char **argv) {
    setenv("QN_CACHE", "off", 1);
    test_state.argc = argc;
    test_state.argv = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
}

static inline bool test_wanted(const char *name) {
    for (int i = 1; i < test_state.argc; i++)
        if (strstr(name, test_state.argv[i])) return true;
    return test_state.argc <= 1;
}

static inline void test_run(const char *name, void (*fn)(void)) {
    if (!test_wanted(name)) return;
    test_state.bad = test_state.skip = false;
    fn();
    if (test_state.bad) {
        test_state.failed++;
        printf("FAIL %s\n", name);
    } else if (test_state.skip) {
        test_state.skipped++;
    } else {
        test_state.passed++;
    }
}

/* Does `opens` say yes? Asked in a process of its own, for a device's driver may end it. */
static inline bool test_apart(bool (*opens)(const void *what), const void *what) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(opens(what) ? 0 : 1);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static inline int test_end(void) {
    printf("%d passed, %d failed, %d skipped\n", test_state.passed, test_state.failed,
           test_state.skipped);
    return test_state.failed ? 1 : 0;
}

#define RUN(fn)   test_run(#fn, fn)
#define SKIP(why) (printf("skip %s: %s\n", __func__, why), test_state.skip = true)
#define FAIL(...)                                                                                  \
    (test_state.bad = true, printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__),            \
     printf("\n"))
#define CHECK(x)                    ((x) ? (void)0 : (void)FAIL("failed: %s", #x))
#define CHECK_INT(a, b)             test_int(__FILE__, __LINE__, #a, (long long)(a), (long long)(b))
#define CHECK_STR(a, b)             test_str(__FILE__, __LINE__, #a, (a), (b))
#define CHECK_NEAR(a, b, rel, abs_) test_near(__FILE__, __LINE__, #a, (a), (b), (rel), (abs_))

static inline void test_int(const char *f, int l, const char *what, long long a, long long b) {
    if (a == b) return;
    test_state.bad = true;
    printf("%s:%d: %s is %lld, expected %lld\n", f, l, what, a, b);
}
static inline void test_str(const char *f, int l, const char *what, const char *a, const char *b) {
    if (a && b && !strcmp(a, b)) return;
    test_state.bad = true;
    printf("%s:%d: %s is \"%s\", expected \"%s\"\n", f, l, what, a ? a : "(null)",
           b ? b : "(null)");
}
/* NaN equals NaN, infinities must match. */
static inline bool test_close(double a, double b, double rel, double abs_) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= abs_ + rel * fabs(b);
}
static inline void test_near(const char *f, int l, const char *what, double a, double b, double rel,
                             double abs_) {
    if (test_close(a, b, rel, abs_)) return;
    test_state.bad = true;
    printf("%s:%d: %s is %.17g, expected %.17g\n", f, l, what, a, b);
}

/* A small deterministic generator for test data (splitmix64). */
static inline uint64_t test_rand(uint64_t *s) {
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline int64_t test_below(uint64_t *s, int64_t n) {
    return (int64_t)(test_rand(s) % (uint64_t)n);
}
static inline double test_uniform(uint64_t *s) {
    return (double)(test_rand(s) >> 11) * 0x1p-53;
}
#endif
