/* test_long_attention.c - attention over many keys, in bounded memory.
 *
 * Repeated: keys, queries and values of one short sequence, R times. Every key has R copies, each
 * of which gets 1/R of its weight, so a query's row is that of the short sequence; where the seed
 * of repetition r is c[r] times the short one's, so is the gradient of its queries, and that of
 * keys and values is the short one's times the mean of c.
 *
 * Not repeated: the seed is zero but for some rows. Their results, their queries' gradients and all
 * of the gradients of keys and values, to which only these rows add, are computed in double.
 *
 *     test_long_attention         short rows, on a machine whose caches hold no row
 *     test_long_attention long    131,072 keys, on this machine: minutes */
#include "base/base.h"
#include "quern.h"
#include "quern_tune.h"
#include "test.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

static bool is_long;

enum { Q, K, V, SEED, INPUTS, DEPTH = 64, ROWS = 64 };

/* A context, of a processor with a second-level cache of 1 KiB unless the rows are long. */
static qn_ctx *open_here(void) {
    char path[] = "/tmp/quern-machine-XXXXXX";
    if (is_long) return qn_open(NULL);
    int file = mkstemp(path);
    qn_ctx *here = qn_open(&QN_OPTIONS(.device = "null"));
    const char *text = qn_machine(here), *l2 = strstr(text, "\nl2 ");
    if (file < 0 || !l2) return FAIL("no record"), here;
    dprintf(file, "%.*s\nl2 1024%s", (int)(l2 - text), text, strchr(l2 + 1, '\n'));
    close(file);
    setenv("QN_MACHINE", path, 1);
    qn_ctx *qn = qn_open(NULL);
    unsetenv("QN_MACHINE");
    unlink(path);
    qn_close(here);
    return qn;
}

static float *numbers(int64_t n, double least, double most, uint64_t *seed) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(least + (most - least) * test_uniform(seed));
    return x;
}

/* The output and the gradients of q, k and v. */
static void attend(float *const in[INPUTS], int64_t time, bool causal, float *out[INPUTS]) {
    qn_ctx *qn = open_here();
    qn_tensor *t[INPUTS], *y[INPUTS];
    int64_t shape[4] = {1, 1, time, DEPTH}, n = time * DEPTH;
    for (int i = 0; i < INPUTS; i++) t[i] = qn_from(qn, QN_F32, 4, shape, in[i]);
    y[SEED] = qn_attention(t[Q], t[K], t[V], &QN_ATTENTION_OPTIONS(.causal = causal));
    CHECK_INT(qn_grad(y[SEED], t[SEED], 3, t, y), QN_OK);
    CHECK_INT(qn_realize(INPUTS, y), QN_OK);
    for (int i = 0; i < INPUTS; i++) {
        out[i] = malloc((size_t)n * sizeof **out);
        if (qn_read(y[i], out[i], (size_t)n * sizeof **out)) FAIL("%s", qn_error(qn));
    }
    qn_close(qn);
}

static bool near(const char *what, int64_t row, int64_t i, double got, double want, double most) {
    if (fabs(got - want) <= most * (1 + fabs(want))) return true;
    FAIL("%s, row %lld, [%lld]: %.9g, not %.9g", what, (long long)row, (long long)i, got, want);
    return false;
}

static const char *const names[] = {"the gradient of q", "the gradient of k", "the gradient of v",
                                    "the output"};

static void repeated_rows_are_those_of_one_sequence(void) {
    int64_t time = is_long ? 2048 : 67, times = is_long ? 64 : 5, n = time * DEPTH;
    uint64_t seed = 11;
    float *one[INPUTS], *all[INPUTS], *short_[INPUTS], *long_[INPUTS];
    double mean = 0;
    for (int64_t r = 0; r < times; r++) mean += (1 + (double)r / (double)times) / (double)times;
    for (int i = 0; i < INPUTS; i++) {
        one[i] = numbers(n, -1, 1, &seed);
        all[i] = malloc((size_t)(n * times) * sizeof **all);
        for (int64_t k = 0; k < n * times; k++) {
            double c = i == SEED ? 1 + (double)(k / n) / (double)times : 1;
            all[i][k] = (float)(c * one[i][k % n]);
        }
    }
    attend(one, time, false, short_);
    attend(all, time * times, false, long_);
    for (int i = 0; i < INPUTS; i++)
        for (int64_t k = 0; k < n * times; k++) {
            double c = i == Q ? 1 + (double)(k / n) / (double)times : i < SEED ? mean : 1;
            if (!near(names[i], k / DEPTH, k % DEPTH, long_[i][k], c * short_[i][k % n], 2e-5))
                break;
        }
    for (int i = 0; i < INPUTS; i++) {
        free(one[i]);
        free(all[i]);
        free(short_[i]);
        free(long_[i]);
    }
}

/* One row of queries in double: its output, its query's gradient, and what it adds to others'. */
static void plain_row(float *const x[INPUTS], int64_t row, int64_t keys, double out[DEPTH],
                      double dq[DEPTH], double *dk, double *dv) {
    double *w = malloc((size_t)keys * sizeof *w), most = -INFINITY, sum = 0, dot = 0;
    const double scale = 1 / sqrt(DEPTH);
    const float *q = x[Q] + row * DEPTH, *seed = x[SEED] + row * DEPTH;
    for (int64_t k = 0; k < keys; k++) {
        w[k] = 0;
        for (int i = 0; i < DEPTH; i++) w[k] += (double)q[i] * x[K][k * DEPTH + i];
        w[k] *= scale;
        if (w[k] > most) most = w[k];
    }
    for (int64_t k = 0; k < keys; k++) sum += w[k] = exp(w[k] - most);
    for (int i = 0; i < DEPTH; i++) out[i] = dq[i] = 0;
    for (int64_t k = 0; k < keys; k++)
        for (int i = 0; i < DEPTH; i++) out[i] += w[k] / sum * x[V][k * DEPTH + i];
    for (int i = 0; i < DEPTH; i++) dot += out[i] * seed[i];
    for (int64_t k = 0; k < keys; k++) {
        double share = w[k] / sum, slope = -dot;
        for (int i = 0; i < DEPTH; i++) slope += (double)seed[i] * x[V][k * DEPTH + i];
        slope *= share * scale;
        for (int i = 0; i < DEPTH; i++) {
            dv[k * DEPTH + i] += share * seed[i];
            dq[i] += slope * x[K][k * DEPTH + i];
            dk[k * DEPTH + i] += slope * q[i];
        }
    }
    free(w);
}

static void random_rows(bool causal) {
    int64_t time = is_long ? 131072 : 523, n = time * DEPTH;
    uint64_t seed = 12 + causal;
    float *x[INPUTS], *got[INPUTS];
    double *want[2] = {calloc((size_t)n, sizeof **want), calloc((size_t)n, sizeof **want)};
    for (int i = 0; i < SEED; i++) x[i] = numbers(n, -2, 2, &seed);
    x[SEED] = calloc((size_t)n, sizeof **x);
    int64_t row[ROWS];
    for (int r = 0; r < ROWS; r++) {
        row[r] = r == 0 ? 0 : r == 1 ? time - 1 : test_below(&seed, time);
        for (int i = 0; i < DEPTH; i++)
            x[SEED][row[r] * DEPTH + i] = (float)(2 * test_uniform(&seed) - 1);
    }
    attend(x, time, causal, got);
    for (int r = 0; r < ROWS; r++) {
        double out[DEPTH], dq[DEPTH];
        bool again = false;
        for (int s = 0; s < r; s++) again |= row[s] == row[r];
        if (again) continue;
        plain_row(x, row[r], causal ? row[r] + 1 : time, out, dq, want[0], want[1]);
        for (int i = 0; i < DEPTH; i++)
            if (!near(names[SEED], row[r], i, got[SEED][row[r] * DEPTH + i], out[i], 2e-5) ||
                !near(names[Q], row[r], i, got[Q][row[r] * DEPTH + i], dq[i], 2e-5))
                break;
    }
    for (int g = 0; g < 2; g++)
        for (int64_t k = 0; k < n; k++)
            if (!near(names[K + g], k / DEPTH, k % DEPTH, got[K + g][k], want[g][k], 2e-5)) break;
    for (int i = 0; i < INPUTS; i++) {
        free(x[i]);
        free(got[i]);
    }
    free(want[0]);
    free(want[1]);
}

static void rows_of_many_keys_are_their_formula(void) {
    random_rows(false);
}

static void causal_rows_of_many_keys_are_their_formula(void) {
    random_rows(true);
}

/* Sixteen tensors of as many rows, a score for each pair of which would be 64 GiB. */
static void memory_stayed_bounded(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    int64_t most = (int64_t)32 * 131072 * DEPTH * (int64_t)sizeof(float);
    if (r.ru_maxrss > most / 1024) FAIL("%ld KiB were resident", r.ru_maxrss);
}

int main(int argc, char **argv) {
    is_long = argc > 1 && !strcmp(argv[1], "long");
    argv[is_long] = argv[0];
    test_begin(argc - is_long, argv + is_long);
    RUN(repeated_rows_are_those_of_one_sequence);
    RUN(rows_of_many_keys_are_their_formula);
    RUN(causal_rows_of_many_keys_are_their_formula);
    RUN(memory_stayed_bounded);
    return test_end();
}
