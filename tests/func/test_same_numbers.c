/* test_same_numbers.c - the same key gives the same bits on every device, by either compiler and by
 * any number of threads: every function of funcs.h that takes a key, in every float dtype. */
#include "graph/graph.h"
#include "keyed.h"
#include "quern.h"
#include "test.h"

enum { N = 6000, COLUMNS = 6, ROWS = N / COLUMNS, BYTES = 8 * N };

typedef struct given {
    qn_tensor *key;
    qn_dtype d;
    qn_tensor *v, *w; /* [N] above 0, and [ROWS, COLUMNS] not below it, with zeros */
    int64_t n, shape[2];
} given;

static qn_tensor *split(qn_tensor *key) {
    qn_tensor *out[3] = {NULL};
    return qn_key_split(key, 3, out) ? NULL : qn_stack(3, out, 0);
}

#define FLOATS_OF(name, ...) qn_##name(g->key, g->d, __VA_ARGS__)
#define CALLS(X)                                                                                   \
    X(key_fold, qn_key_fold(g->key, 77))                                                           \
    X(key_split, split(g->key))                                                                    \
    X(key_fold_in, qn_key_fold_in(g->key, qn_scalar_int(qn_context(g->key), QN_I64, 5)))           \
    X(random_bits, qn_random_bits(g->key, 1, &g->n))                                               \
    X(uniform, FLOATS_OF(uniform, 1, &g->n))                                                       \
    X(randn, FLOATS_OF(randn, 1, &g->n))                                                           \
    X(randint, qn_randint(g->key, QN_I64, 1, &g->n, -5, 1000))                                     \
    X(bernoulli, qn_bernoulli(g->key, 1, &g->n, 0.3))                                              \
    X(dropout, qn_dropout(g->v, g->key, 0.3))                                                      \
    X(exponential, FLOATS_OF(exponential, 1, &g->n))                                               \
    X(gumbel, FLOATS_OF(gumbel, 1, &g->n))                                                         \
    X(categorical, qn_categorical(g->key, g->w))                                                   \
    X(multinomial, qn_multinomial(g->key, g->w, 3))                                                \
    X(multinomial_distinct, qn_multinomial_distinct(g->key, g->w, 3))                              \
    X(kaiming_normal, FLOATS_OF(kaiming_normal, 2, g->shape, 1.5))                                 \
    X(kaiming_uniform, FLOATS_OF(kaiming_uniform, 2, g->shape, 1.5))                               \
    X(xavier_normal, FLOATS_OF(xavier_normal, 2, g->shape, 1.5))                                   \
    X(xavier_uniform, FLOATS_OF(xavier_uniform, 2, g->shape, 1.5))                                 \
    X(orthogonal, FLOATS_OF(orthogonal, 2, ((int64_t[]){40, 30}), 1.5))                            \
    X(gamma, qn_gamma(g->key, g->v))                                                               \
    X(beta, qn_beta(g->key, g->v, qn_flip(g->v, 0)))                                               \
    X(dirichlet, qn_dirichlet(g->key, qn_add(g->w, qn_like(g->w, 0.125))))                         \
    X(poisson, qn_poisson(g->key, g->v))                                                           \
    X(truncated_normal, FLOATS_OF(truncated_normal, 1, &g->n, -1, 2))                              \
    X(permutation, qn_permutation(g->key, g->n))                                                   \
    X(shuffle, qn_shuffle(g->key, g->v, 0))

#define CASE(name, expression)                                                                     \
    static qn_tensor *case_##name(given *g) {                                                      \
        return expression;                                                                         \
    }
CALLS(CASE)
#define ROW(name, expression) {#name, case_##name},
static const struct {
    const char *name;
    qn_tensor *(*call)(given *g);
} calls[] = {CALLS(ROW)};

static bool is_called(const char *name) {
    for (size_t k = 0; k < COUNT_OF(calls); k++)
        if (!strcmp(calls[k].name, name)) return true;
    return false;
}

static void every_function_of_a_key_is_called(void) {
    const char *name = keyed_unlisted(is_called);
    if (name) FAIL("%s has no call here", name);
}

/* ---- the devices ----------------------------------------------------------------------------- */

static struct {
    const char *device, *compiler;
    int threads;
    qn_ctx *qn;
} devices[] = {{"ref", NULL, 1, NULL},   {"cpu", "llvm", 1, NULL}, {"cpu", "llvm", 2, NULL},
               {"cpu", "llvm", 4, NULL}, {"cpu", "cc", 1, NULL},   {"cpu", "cc", 2, NULL},
               {"opencl", NULL, 1, NULL}};

static void open_devices(void) {
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        if (devices[i].compiler) setenv("QN_CPU", devices[i].compiler, 1);
        devices[i].qn =
            qn_open(&QN_OPTIONS(.device = devices[i].device, .threads = devices[i].threads));
        unsetenv("QN_CPU");
        if (!devices[i].qn) printf("no %s here\n", devices[i].device);
    }
}

/* What is read into `out`, or that it was refused, as bytes. */
static size_t numbers(qn_ctx *qn, size_t call, qn_dtype d, char *out) {
    const int64_t n = N;
    given g = {.key = qn_key(qn, 12345), .d = d, .n = N, .shape = {ROWS, COLUMNS}};
    qn_tensor *i = qn_iota(qn, QN_I64, 1, &n, 0);
    g.v = qn_cast(qn_add(qn_mod(i, qn_like(i, 37)), qn_like(i, 1)), d);
    g.v = qn_mul(g.v, qn_like(g.v, 0.25));
    g.w = qn_reshape(qn_cast(qn_mod(i, qn_like(i, 11)), d), 2, g.shape);
    qn_tensor *t = calls[call].call(&g);
    if (!t) {
        FAIL("%s of %s: %s", calls[call].name, qn_dtype_name(d), qn_error(qn));
        return 0;
    }
    size_t bytes = qn_dtype_size(qn_dtype_of(t));
    for (int axis = 0; axis < qn_rank(t); axis++) bytes *= (size_t)qn_dim(t, axis);
    CHECK(bytes <= BYTES);
    CHECK_INT(bytes <= BYTES ? qn_read(t, out, bytes) : 0, QN_OK);
    return bytes;
}

static void held(size_t call, qn_dtype d) {
    static char want[BYTES], got[BYTES];
    size_t bytes = 0;
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        qn_ctx *qn = devices[i].qn;
        if (!qn) continue;
        qn_scope s = qn_scope_begin(qn);
        size_t n = numbers(qn, call, d, i ? got : want);
        if (!i) bytes = n;
        if (n != bytes || memcmp(want, i ? got : want, n))
            FAIL("%s of %s by %s %s, %d threads: other bits than by ref", calls[call].name,
                 qn_dtype_name(d), devices[i].device,
                 devices[i].compiler ? devices[i].compiler : "", devices[i].threads);
        qn_scope_end(qn, s);
    }
}

static void the_same_key_gives_the_same_bits_everywhere(void) {
    static const qn_dtype floats[] = {QN_F32, QN_F64, QN_F16, QN_BF16};
    for (size_t call = 0; call < COUNT_OF(calls); call++)
        for (size_t k = 0; k < COUNT_OF(floats); k++) held(call, floats[k]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_devices();
    RUN(every_function_of_a_key_is_called);
    RUN(the_same_key_gives_the_same_bits_everywhere);
    for (size_t i = 0; i < COUNT_OF(devices); i++) qn_close(devices[i].qn);
    return test_end();
}
