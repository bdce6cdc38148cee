/* test_doubling.c - what takes a value twice, again and again, is a graph of as many nodes as there
 * are steps, and a tree of 2^steps: whatever looks at one must look at each node once.
 *
 * Each step in each context, from data, from means along either axis, and from places; values are
 * those of ref. A case that has not ended after some minutes never will. */
#include "quern.h"
#include "quern_nn.h"
#include "test.h"

enum { STEPS = 60, ROWS = 6, COLUMNS = 40, PATIENCE = 200 };

/* ---- steps: values that stay small, and take y more than once -------------------------------- */

typedef qn_tensor *(*step)(qn_tensor *y);

static qn_tensor *square(qn_tensor *y) {
    return qn_mul(y, y);
}
static qn_tensor *newton(qn_tensor *y) {
    return qn_mul(y, qn_sub(qn_weak(y, 1.5), qn_mul(y, y)));
}
static qn_tensor *halves(qn_tensor *y) {
    return qn_add(qn_mul(y, qn_weak(y, 0.5)), qn_mul(y, qn_weak(y, 0.375)));
}
static qn_tensor *choice(qn_tensor *y) {
    return qn_where(qn_lt(y, qn_weak(y, 0.5)), y, qn_mul(y, y));
}
static qn_tensor *two_choices(qn_tensor *y) {
    qn_tensor *other = qn_where(qn_lt(y, qn_weak(y, 0.25)), qn_weak(y, 0.75), y);
    return qn_where(qn_lt(qn_weak(y, 0.125), y), y, other);
}
static qn_tensor *quotient(qn_tensor *y) {
    return qn_div(y, qn_add(qn_mul(y, y), qn_weak(y, 0.5)));
}
static qn_tensor *gate(qn_tensor *y) {
    return qn_mul(qn_sigmoid(y), y);
}
static qn_tensor *largest(qn_tensor *y) {
    return qn_maximum(qn_mul(y, qn_weak(y, 0.5)), qn_neg(y));
}
static qn_tensor *flipped(qn_tensor *y) {
    return qn_mul(qn_add(y, qn_flip(y, -1)), qn_weak(y, 0.5));
}
static qn_tensor *shifted(qn_tensor *y) {
    return qn_mul(qn_add(y, qn_roll(y, 1, -1)), qn_weak(y, 0.5));
}
static qn_tensor *by_mean(qn_tensor *y) {
    return qn_mul(y, qn_mean(y, -1, true));
}
static qn_tensor *by_bits(qn_tensor *y) {
    qn_tensor *i = qn_cast(qn_mul(y, qn_weak(y, 64)), QN_I32);
    i = qn_and(qn_xor(i, qn_shl(i, qn_weak_int(i, 1))), qn_weak_int(i, 63));
    return qn_mul(qn_cast(i, QN_F32), qn_full_like(y, 1.0 / 64));
}
static qn_tensor *by_bytes(qn_tensor *y) {
    qn_tensor *i = qn_cast(qn_mul(y, qn_weak(y, 64)), QN_U8);
    for (int k = 0; k < STEPS; k++) i = qn_xor(qn_and(i, qn_weak_int(i, 61)), qn_or(i, qn_not(i)));
    return qn_mul(qn_cast(qn_and(i, qn_weak_int(i, 63)), QN_F32), qn_full_like(y, 1.0 / 64));
}

static const struct {
    const char *name;
    step f;
    int times;
} steps[] = {{"square", square, STEPS}, {"newton", newton, STEPS},    {"halves", halves, STEPS},
             {"choice", choice, STEPS}, {"choices", two_choices, 24}, {"quotient", quotient, STEPS},
             {"gate", gate, 24},        {"largest", largest, STEPS},  {"flipped", flipped, 24},
             {"shifted", shifted, 24},  {"mean", by_mean, 24},        {"bits", by_bits, 24},
             {"bytes", by_bytes, 1}};

/* ---- what they begin with: [ROWS, COLUMNS], or what repeats to that -------------------------- */

static qn_tensor *data(qn_tensor *x) {
    return x;
}
static qn_tensor *row_mean(qn_tensor *x) {
    return qn_mean(x, 1, true);
}
static qn_tensor *column_mean(qn_tensor *x) {
    return qn_mean(x, 0, true);
}
static qn_tensor *places(qn_tensor *x) {
    qn_ctx *qn = qn_context(x);
    qn_tensor *i = qn_iota(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, 1);
    return qn_mul(i, qn_full_like(i, 1.0 / COLUMNS));
}
static const struct {
    const char *name;
    step f;
} starts[] = {{"data", data}, {"row", row_mean}, {"column", column_mean}, {"places", places}};

/* ---- contexts: x [ROWS, COLUMNS] and y, which repeats to that -------------------------------- */

typedef qn_tensor *(*context)(qn_tensor *x, qn_tensor *y);

static qn_tensor *plain(qn_tensor *x, qn_tensor *y) {
    return qn_mul(x, y);
}
static qn_tensor *sum_of_rows(qn_tensor *x, qn_tensor *y) {
    return qn_sum(qn_mul(x, y), 1, false);
}
static qn_tensor *sum_of_columns(qn_tensor *x, qn_tensor *y) {
    return qn_sum(qn_add(x, y), 0, false);
}
static qn_tensor *largest_place(qn_tensor *x, qn_tensor *y) {
    return qn_argmax(qn_sub(x, y), 1, false);
}
static qn_tensor *softmax(qn_tensor *x, qn_tensor *y) {
    return qn_softmax(qn_add(x, y), 1);
}
static qn_tensor *attention(qn_tensor *x, qn_tensor *y) {
    qn_tensor *z = qn_reshape(qn_mul(x, y), 4, (int64_t[]){1, 1, ROWS, COLUMNS});
    return qn_attention(z, z, z, NULL);
}
static qn_tensor *product(qn_tensor *x, qn_tensor *y) {
    return qn_matmul(qn_mul(x, y), qn_transpose(x, 0, 1));
}
static qn_tensor *behind_a_product(qn_tensor *x, qn_tensor *y) {
    return qn_mul(qn_matmul(x, qn_transpose(x, 0, 1)), qn_sum(y, 1, true));
}
static qn_tensor *norm(qn_tensor *x, qn_tensor *y) {
    return qn_layer_norm(qn_add(x, qn_mul(y, x)), NULL, NULL, 0.1);
}
static qn_tensor *image(qn_tensor *x, qn_tensor *y) {
    qn_tensor *z = qn_reshape(qn_add(x, y), 3, (int64_t[]){1, ROWS, COLUMNS});
    return qn_conv1d(z, qn_reshape(qn_slice(x, 1, 0, 3, 1), 3, (int64_t[]){1, ROWS, 3}), NULL,
                     NULL);
}
static qn_tensor *running(qn_tensor *x, qn_tensor *y) {
    return qn_cumsum(qn_mul(x, y), 1);
}
static qn_tensor *indices(qn_tensor *x, qn_tensor *y) {
    qn_tensor *i = qn_cast(qn_mul(qn_add(qn_mul(x, qn_weak(x, 0)), y), qn_weak(x, 3)), QN_I64);
    return qn_gather(x, qn_clamp(i, 0, COLUMNS - 1), 1);
}
static qn_tensor *scattered(qn_tensor *x, qn_tensor *y) {
    qn_tensor *i = qn_iota(qn_context(x), QN_I64, 2, (int64_t[]){ROWS, COLUMNS}, 1);
    return qn_scatter(x, i, qn_mul(x, y), 1, QN_COMBINE_SUM);
}
static qn_tensor *masked(qn_tensor *x, qn_tensor *y) {
    return qn_sum(qn_where(qn_lt(y, qn_weak(y, 0.3)), x, qn_weak(x, 0)), 1, false);
}
static qn_tensor *bordered(qn_tensor *x, qn_tensor *y) {
    qn_tensor *z = qn_pad(qn_add(x, y), (int64_t[]){1, 2, 3, 0}, QN_PAD_CONSTANT, 0);
    return qn_matmul(z, qn_transpose(z, 0, 1));
}
static qn_tensor *joined(qn_tensor *x, qn_tensor *y) {
    qn_tensor *z = qn_mul(x, y);
    return qn_concat(3, (qn_tensor *[]){z, x, qn_slice(z, 1, 1, 7, 2)}, 1);
}
static qn_tensor *spread(qn_tensor *x, qn_tensor *y) {
    return qn_sum(qn_sqrt(qn_variance(qn_add(x, y), 0, 1, true)), 1, false);
}
static qn_tensor *gradient(qn_tensor *x, qn_tensor *y) {
    qn_tensor *g = NULL;
    if (qn_grad(qn_sum(qn_mul(x, y), QN_ALL, false), NULL, 1, &x, &g)) return NULL;
    return g;
}
static const struct {
    const char *name;
    context f;
} contexts[] = {
    {"plain", plain},          {"rows", sum_of_rows},        {"columns", sum_of_columns},
    {"argmax", largest_place}, {"softmax", softmax},         {"attention", attention},
    {"product", product},      {"behind", behind_a_product}, {"norm", norm},
    {"image", image},          {"running", running},         {"indices", indices},
    {"scattered", scattered},  {"masked", masked},           {"bordered", bordered},
    {"joined", joined},        {"spread", spread},           {"gradient", gradient}};
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* ---- running --------------------------------------------------------------------------------- */

/* The sum of squares of the result, or NAN. */
static double value_on(qn_ctx *qn, int s, int b, int c) {
    qn_scope scope = qn_scope_begin(qn);
    float v[ROWS * COLUMNS];
    double got = NAN;
    for (int i = 0; i < ROWS * COLUMNS; i++) v[i] = (float)(i * 7 % 31 + 1) / 32;
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, v);
    qn_tensor *y = starts[b].f(x);
    for (int i = 0; i < steps[s].times; i++) y = steps[s].f(y);
    qn_tensor *z = qn_cast(contexts[c].f(x, y), QN_F64);
    if (qn_read(qn_sum(qn_mul(z, z), QN_ALL, false), &got, sizeof got)) {
        FAIL("%s of %s in %s: %s", steps[s].name, starts[b].name, contexts[c].name, qn_error(qn));
        qn_clear_error(qn);
    }
    qn_scope_end(qn, scope);
    return got;
}

/* Each context in a process of its own, which an endless case does not outlive. */
static void run_context(int c, bool quietly) {
    qn_ctx *ref = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_ctx *cpu = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_set(cpu, "wisdom", "off");
    for (int s = 0; s < COUNT(steps); s++)
        for (int b = 0; b < COUNT(starts); b++) {
            alarm(PATIENCE);
            if (!quietly)
                printf("%s of %s in %s\n", steps[s].name, starts[b].name, contexts[c].name);
            double want = value_on(ref, s, b, c), got = value_on(cpu, s, b, c);
            if (!(fabs(got - want) <= 1e-3 * fabs(want) + 1e-5))
                FAIL("%s of %s in %s: %g, on ref %g", steps[s].name, starts[b].name,
                     contexts[c].name, got, want);
        }
    qn_close(cpu);
    qn_close(ref);
}

static void shared_values_are_looked_at_once(void) {
    for (int c = 0; c < COUNT(contexts); c++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            test_state.bad = false;
            run_context(c, !getenv("QN_TEST_LOUD"));
            fflush(stdout);
            _exit(test_state.bad);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            FAIL("%s: status %d; QN_TEST_LOUD=1 says which", contexts[c].name, status);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(shared_values_are_looked_at_once);
    return test_end();
}
