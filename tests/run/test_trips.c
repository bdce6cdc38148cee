/* test_trips.c - loops: against the same body unrolled, on each device; gradients, first and
 * second, against those of the unrolled one; loops in loops, of no trips, of sizes that vary, of as
 * many trips as data say; captured parameters that are assigned to; static graphs; how often
 * something is compiled. Errors are in test_trips_faults.c. */
#include "loop_values.h"

#define COUNT_OF(a) ((int)(sizeof(a) / sizeof *(a)))

static void on_each_device(void (*test)(void)) {
    device_each(&device, test);
}

/* Numbers in [-1, 1), the same in each run. */
static qn_tensor *numbers(qn_ctx *qn, uint32_t seed, int rank, const int64_t *shape) {
    static float data[1 << 18];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)((double)(seed >> 8) / (1 << 23) - 1);
    }
    return qn_from(qn, QN_F32, rank, shape, data);
}

static qn_tensor *row(qn_tensor *x, int64_t i) {
    return qn_select(x, 0, i);
}

/* ---- a recurrence by element -------------------------------------------------------------- */

/* h' = tanh(h * a + x): with what is outside of the loop in a. */
static qn_tensor *step(qn_tensor *h, qn_tensor *x, qn_tensor *a) {
    return qn_tanh(qn_add(qn_mul(h, a), x));
}

static void element_recurrence(void) {
    enum { T = 9, N = 37 };
    qn_ctx *qn = begin();
    qn_tensor *h0 = numbers(qn, 1, 1, (int64_t[]){N}), *xs = numbers(qn, 2, 2, (int64_t[]){T, N});
    qn_tensor *a = numbers(qn, 3, 1, (int64_t[]){N});
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &xs, NULL);
    qn_tensor *h = step(qn_loop_state(l, 0), qn_loop_slice(l, 0), a);
    CHECK_INT(qn_loop_end(l, 1, &h, 1, &h), QN_OK);
    qn_tensor *last = qn_loop_final(l, 0), *all = qn_loop_output(l, 0);
    qn_loop_free(l);
    qn_tensor *u = h0;
    for (int t = 0; t < T; t++) {
        u = step(u, row(xs, t), a);
        CHECK(difference(row(all, t), u) == 0);
    }
    CHECK(difference(last, u) == 0);
    end(qn);
}

static void a_recurrence_is_what_it_is_unrolled(void) {
    on_each_device(element_recurrence);
}

/* ---- gradients ---------------------------------------------------------------------------- */

enum { T = 7, B = 3, M = 5, N = 4 };

typedef struct net {
    qn_tensor *x, *w, *u, *b, *h0;
} net;

static net net_of(qn_ctx *qn) {
    net n = {.x = numbers(qn, 1, 3, (int64_t[]){T, B, M}),
             .w = numbers(qn, 2, 2, (int64_t[]){M, N})};
    n.u = numbers(qn, 3, 2, (int64_t[]){N, N});
    n.b = numbers(qn, 4, 1, (int64_t[]){N});
    n.h0 = numbers(qn, 5, 2, (int64_t[]){B, N});
    return n;
}

static qn_tensor *cell(const net *n, qn_tensor *h, qn_tensor *x) {
    return qn_tanh(qn_add(qn_add(qn_matmul(x, n->w), qn_matmul(h, n->u)), n->b));
}

/* All h side by side, and the last. */
static void rolled(qn_ctx *qn, const net *n, bool reverse, qn_tensor **all, qn_tensor **last) {
    qn_tensor *h0 = n->h0, *x = n->x;
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, &QN_LOOP_OPTIONS(.reverse = reverse));
    qn_tensor *h = cell(n, qn_loop_state(l, 0), qn_loop_slice(l, 0));
    CHECK_INT(qn_loop_end(l, 1, &h, 1, &h), QN_OK);
    *all = qn_loop_output(l, 0);
    *last = qn_loop_final(l, 0);
    qn_loop_free(l);
}

static void unrolled(const net *n, bool reverse, qn_tensor **all, qn_tensor **last) {
    qn_tensor *h = n->h0, *each[T];
    for (int t = 0; t < T; t++) {
        int at = reverse ? T - 1 - t : t;
        h = each[at] = cell(n, h, row(n->x, at));
    }
    *all = qn_stack(T, each, 0);
    *last = h;
}

static qn_tensor *loss_of(qn_tensor *all, qn_tensor *last) {
    qn_tensor *a = qn_sum(qn_square(qn_sin(all)), QN_ALL, false);
    return qn_add(a, qn_sum(qn_exp(last), QN_ALL, false));
}

static const bool ways[] = {false, true};

static void network(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    for (int i = 0; i < 2; i++) {
        qn_tensor *all[2], *last[2];
        rolled(qn, &n, ways[i], &all[0], &last[0]);
        unrolled(&n, ways[i], &all[1], &last[1]);
        CHECK(difference(all[0], all[1]) < 1e-6);
        CHECK(difference(last[0], last[1]) < 1e-6);
    }
    end(qn);
}

static void a_network_is_what_it_is_unrolled(void) {
    on_each_device(network);
}

static void gradients(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *x[5] = {n.x, n.w, n.u, n.b, n.h0}, *g[2][5];
    for (int i = 0; i < 2; i++) {
        qn_tensor *all[2], *last[2];
        rolled(qn, &n, ways[i], &all[0], &last[0]);
        unrolled(&n, ways[i], &all[1], &last[1]);
        for (int k = 0; k < 2; k++)
            CHECK_INT(qn_grad(loss_of(all[k], last[k]), NULL, 5, x, g[k]), QN_OK);
        for (int k = 0; k < 5; k++) CHECK(difference(g[0][k], g[1][k]) < 1e-5);
    }
    end(qn);
}

static void gradients_are_those_of_it_unrolled(void) {
    on_each_device(gradients);
}

static void second_gradients(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *x[5] = {n.x, n.w, n.u, n.b, n.h0}, *g[2][5], *gg[2][5];
    qn_tensor *all[2], *last[2];
    rolled(qn, &n, false, &all[0], &last[0]);
    unrolled(&n, false, &all[1], &last[1]);
    for (int k = 0; k < 2; k++) {
        qn_grad(loss_of(all[k], last[k]), NULL, 5, x, g[k]);
        qn_tensor *norm = qn_sum(qn_square(g[k][0]), QN_ALL, false);
        for (int i = 1; i < 5; i++) norm = qn_add(norm, qn_sum(qn_square(g[k][i]), QN_ALL, false));
        CHECK_INT(qn_grad(norm, NULL, 5, x, gg[k]), QN_OK);
    }
    for (int i = 0; i < 5; i++) CHECK(difference(gg[0][i], gg[1][i]) < 1e-3);
    end(qn);
}

static void second_gradients_are_those_of_it_unrolled(void) {
    on_each_device(second_gradients);
}

/* ---- more than one state, loops in loops -------------------------------------------------- */

/* (a, b) -> (b, a + b) and x by turns: states that change places. */
static void two_states(void) {
    enum { TRIPS = 6, WIDE = 11 };
    qn_ctx *qn = begin();
    qn_tensor *s[2] = {numbers(qn, 1, 1, (int64_t[]){WIDE}), numbers(qn, 2, 1, (int64_t[]){WIDE})};
    for (int trips = 0; trips < TRIPS; trips++) {
        qn_loop *l = qn_loop_begin(qn, 2, s, 0, NULL, &QN_LOOP_OPTIONS(.trips = trips));
        qn_tensor *a = qn_loop_state(l, 0), *b = qn_loop_state(l, 1);
        qn_tensor *next[2] = {b, qn_add(a, b)}, *out[2] = {a, qn_mul(a, b)};
        CHECK_INT(qn_loop_end(l, 2, next, 2, out), QN_OK);
        qn_tensor *u = s[0], *v = s[1];
        for (int t = 0; t < trips; t++) {
            CHECK(difference(row(qn_loop_output(l, 0), t), u) == 0);
            CHECK(difference(row(qn_loop_output(l, 1), t), qn_mul(u, v)) == 0);
            qn_tensor *w = qn_add(u, v);
            u = v;
            v = w;
        }
        CHECK(difference(qn_loop_final(l, 0), u) == 0);
        CHECK(difference(qn_loop_final(l, 1), v) == 0);
        CHECK(qn_dim(qn_loop_output(l, 0), 0) == trips);
        qn_loop_free(l);
    }
    end(qn);
}

static void states_may_change_places_in_any_number_of_trips(void) {
    on_each_device(two_states);
}

/* Rows of a matrix, and in each its elements: h = sin(h * a + x). */
static void nested(void) {
    enum { ROWS = 4, COLUMNS = 5, WIDE = 3 };
    qn_ctx *qn = begin();
    qn_tensor *x = numbers(qn, 1, 3, (int64_t[]){ROWS, COLUMNS, WIDE});
    qn_tensor *a = numbers(qn, 2, 1, (int64_t[]){WIDE}), *h0 = numbers(qn, 3, 1, (int64_t[]){WIDE});
    qn_loop *outer = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *h = qn_loop_state(outer, 0), *line = qn_loop_slice(outer, 0);
    qn_tensor *scaled = qn_mul(a, qn_add(h, qn_like(h, 1)));
    qn_loop *inner = qn_loop_begin(qn, 1, &h, 1, &line, NULL);
    qn_tensor *k = qn_sin(qn_add(qn_mul(qn_loop_state(inner, 0), scaled), qn_loop_slice(inner, 0)));
    CHECK_INT(qn_loop_end(inner, 1, &k, 1, &k), QN_OK);
    qn_tensor *next = qn_loop_final(inner, 0), *out = qn_loop_output(inner, 0);
    CHECK_INT(qn_loop_end(outer, 1, &next, 1, &out), QN_OK);
    qn_tensor *last = qn_loop_final(outer, 0), *all = qn_loop_output(outer, 0);
    qn_loop_free(inner);
    qn_loop_free(outer);
    qn_tensor *u = h0, *each[ROWS * COLUMNS], *w[3] = {x, a, h0}, *g[2][3];
    for (int i = 0; i < ROWS; i++) {
        qn_tensor *s = qn_mul(a, qn_add(u, qn_like(u, 1)));
        for (int j = 0; j < COLUMNS; j++) {
            u = qn_sin(qn_add(qn_mul(u, s), row(row(x, i), j)));
            each[i * COLUMNS + j] = u;
        }
    }
    qn_tensor *flat = qn_stack(ROWS * COLUMNS, each, 0);
    CHECK(difference(last, u) == 0);
    CHECK(difference(all, flat) == 0);
    qn_grad(loss_of(all, last), NULL, 3, w, g[0]);
    qn_grad(loss_of(flat, u), NULL, 3, w, g[1]);
    for (int i = 0; i < 3; i++) CHECK(difference(g[0][i], g[1][i]) < 1e-5);
    end(qn);
}

static void loops_nest(void) {
    on_each_device(nested);
}

/* ---- halves ------------------------------------------------------------------------------- */

/* In each trip two sums h = h s + w s and k = k s + 256 w s, where s is 1; w is captured, a state
 * that stays, or captured by a loop inside. The slope of h, or of h + k, by w, a bf16. */
enum { CAPTURED, KEPT, INNER };

typedef struct halves_body {
    qn_ctx *qn;
    qn_tensor *w, *ones;
    int how;
} halves_body;

/* The states h, k, and w where it is one, behind so many trips. */
static void run_halves(const halves_body *b, int64_t trips, int64_t segment, qn_tensor **state) {
    int n = 2 + (b->how == KEPT);
    bool inner = b->how == INNER;
    qn_tensor *s = qn_slice(b->ones, 0, 0, trips, 1), *next[3];
    qn_loop_options o = QN_LOOP_OPTIONS(.checkpoint = segment);
    qn_loop *l = qn_loop_begin(b->qn, n, state, 1, &s, &o);
    for (int i = 0; i < n; i++) next[i] = qn_loop_state(l, i);
    if (inner) {
        halves_body in = *b;
        in.how = CAPTURED;
        run_halves(&in, 3, segment, next);
    } else {
        qn_tensor *w = b->how == KEPT ? next[2] : b->w, *one = qn_loop_slice(l, 0);
        for (int i = 0; i < 2; i++)
            next[i] = qn_add(qn_mul(next[i], one), qn_mul(w, qn_mul(one, qn_like(w, i ? 256 : 1))));
    }
    CHECK_INT(qn_loop_end(l, n, next, 0, NULL), QN_OK);
    for (int i = 0; i < n; i++) state[i] = qn_loop_final(l, i);
    qn_loop_free(l);
}

static double slope_of_half(int how, int64_t trips, bool both, int64_t segment) {
    qn_ctx *qn = begin();
    halves_body b = {
        .qn = qn, .how = how, .w = qn_cast(numbers(qn, 1, 1, (int64_t[]){1}), QN_BF16)};
    b.ones = qn_ones(qn, QN_BF16, 2, (int64_t[]){trips, 1});
    qn_tensor *zero = qn_zeros(qn, QN_BF16, 1, (int64_t[]){1}), *state[3] = {zero, zero, b.w}, *g;
    run_halves(&b, how == INNER ? trips / 3 : trips, segment, state);
    qn_tensor *loss = both ? qn_add(state[0], state[1]) : state[0];
    CHECK_INT(qn_grad(loss, NULL, 1, &b.w, &g), QN_OK);
    float f = 0;
    CHECK_INT(qn_read(qn_cast(g, QN_F32), &f, sizeof f), QN_OK);
    end(qn);
    return (double)f;
}

/* 256 + 1 is 256 in bf16, 300 is a number of it; 771 is rounded to 772, 3 times 256 is 768. */
static void halves(void) {
    static const int64_t segment[] = {0, 1, 17};
    for (int how = 0; how <= INNER; how++)
        for (int i = 0; i < COUNT_OF(segment); i++) {
            double once = slope_of_half(how, 300, false, segment[i]);
            double twice = slope_of_half(how, 3, true, segment[i]);
            if (once == 300 && twice == 772) continue;
            FAIL("%s, way %d, segments of %d: %g, expected 300; %g, expected 772", device, how,
                 (int)segment[i], once, twice);
        }
}

static void terms_of_halves_are_added_in_f32_over_all_trips(void) {
    on_each_device(halves);
}

/* ---- as many trips as data say ------------------------------------------------------------- */

/* x halved while it is above 1: how often, and what is left. */
static void while_loop(void) {
    qn_ctx *qn = begin();
    static const float first[] = {0.5f, 1.5f, 100, 5000};
    for (int i = 0; i < COUNT_OF(first); i++) {
        qn_tensor *x0 = qn_from(qn, QN_F32, 0, NULL, &first[i]);
        qn_loop *l = qn_loop_begin(qn, 1, &x0, 0, NULL, &QN_LOOP_OPTIONS(.trips = 10));
        qn_tensor *x = qn_loop_state(l, 0), *next = qn_mul(x, qn_like(x, 0.5));
        CHECK_INT(qn_loop_while(l, qn_lt(qn_like(x, 1), x)), QN_OK);
        CHECK_INT(qn_loop_end(l, 1, &next, 1, &x), QN_OK);
        qn_tensor *last = qn_loop_final(l, 0), *all = qn_loop_output(l, 0), *n = qn_loop_trips(l);
        qn_tensor *g;
        CHECK_INT(qn_grad(qn_add(last, qn_sum(qn_square(all), QN_ALL, false)), NULL, 1, &x0, &g),
                  QN_OK);
        float want = first[i], left, seen[10], slope, d = 1, sum = 0;
        int64_t trips = 0, made;
        for (; trips < 10 && want > 1; trips++, want /= 2, d /= 2) sum += 2 * want * d;
        CHECK_INT(qn_read(n, &made, sizeof made), QN_OK);
        qn_read(last, &left, sizeof left);
        qn_read(all, seen, sizeof seen);
        qn_read(g, &slope, sizeof slope);
        CHECK_INT(made, trips);
        CHECK(left == want);
        for (int t = 0; t < 10; t++) CHECK(seen[t] == (t < trips ? ldexpf(first[i], -t) : 0));
        CHECK(fabsf(slope - (sum + d)) <= 1e-6f * (sum + d));
        qn_loop_free(l);
    }
    end(qn);
}

static void a_loop_ends_when_its_condition_does(void) {
    on_each_device(while_loop);
}

/* The first rows only, with weights: all gradients against the loop over these rows. */
static void limited(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    for (int64_t most = -1; most <= T + 1; most += 2) {
        int64_t rows = most < 0 ? 0 : most > T ? T : most;
        qn_tensor *x[5] = {n.x, n.w, n.u, n.b, n.h0}, *g[2][5];
        for (int k = 0; k < 2; k++) {
            qn_tensor *few = qn_slice(n.x, 0, 0, rows, 1);
            qn_loop_options o = QN_LOOP_OPTIONS();
            if (!k) o.most = qn_from(qn, QN_I64, 0, NULL, &most);
            qn_loop *l = qn_loop_begin(qn, 1, &n.h0, 1, k ? &few : &n.x, &o);
            qn_tensor *h = cell(&n, qn_loop_state(l, 0), qn_loop_slice(l, 0));
            CHECK_INT(qn_loop_end(l, 1, &h, 1, &h), QN_OK);
            qn_tensor *loss = loss_of(qn_loop_output(l, 0), qn_loop_final(l, 0));
            qn_loop_free(l);
            CHECK_INT(qn_grad(loss, NULL, 5, x, g[k]), QN_OK);
        }
        for (int k = 0; k < 5; k++) CHECK(difference(g[0][k], g[1][k]) < 1e-5);
    }
    end(qn);
}

static void data_may_say_how_many_trips_there_are(void) {
    on_each_device(limited);
}

/* ---- indices, sizes that vary, static graphs ------------------------------------------------- */

static void counts_rows(void) {
    qn_ctx *qn = begin();
    for (int reverse = 0; reverse < 2; reverse++) {
        qn_tensor *none = qn_zeros(qn, QN_I64, 0, NULL);
        qn_loop *l =
            qn_loop_begin(qn, 1, &none, 0, NULL, &QN_LOOP_OPTIONS(.trips = 6, .reverse = reverse));
        qn_tensor *i = qn_loop_index(l), *s = qn_loop_state(l, 0);
        qn_tensor *next = qn_add(qn_mul(s, qn_weak_int(s, 2)), i);
        CHECK_INT(qn_loop_end(l, 1, &next, 1, &i), QN_OK);
        int64_t all[6], last, want = 0;
        qn_read(qn_loop_output(l, 0), all, sizeof all);
        qn_read(qn_loop_final(l, 0), &last, sizeof last);
        for (int k = 0; k < 6; k++) {
            CHECK_INT(all[k], k);
            want = 2 * want + (reverse ? 5 - k : k);
        }
        CHECK_INT(last, want);
        qn_loop_free(l);
    }
    end(qn);
}

static void trips_know_their_rows(void) {
    on_each_device(counts_rows);
}

/* One recording for all lengths: values and gradients, and nothing is compiled for a new length. */
static void varying(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    int64_t t = qn_var(qn, "t", 0, 64);
    uint64_t plans = 0;
    for (int k = 1; k < T; k++) {
        qn_bind(qn, t, k);
        net m = n;
        float data[T * B * M];
        qn_read(n.x, data, sizeof data);
        m.x = qn_from(qn, QN_F32, 3, (int64_t[]){t, B, M}, data);
        qn_tensor *all, *last, *g, *want, *h = n.h0;
        rolled(qn, &m, false, &all, &last);
        CHECK_INT(qn_grad(qn_sum(last, QN_ALL, false), NULL, 1, &n.u, &g), QN_OK);
        CHECK_INT(qn_realize(2, (qn_tensor *[]){last, g}), QN_OK);
        qn_stats s;
        qn_get_stats(qn, &s, sizeof s);
        if (k > 1) CHECK_INT((int64_t)(s.plans - plans), 0);
        for (int i = 0; i < k; i++) h = cell(&n, h, row(n.x, i));
        qn_grad(qn_sum(h, QN_ALL, false), NULL, 1, &n.u, &want);
        CHECK(difference(last, h) < 1e-6);
        CHECK(difference(g, want) < 1e-5);
        qn_get_stats(qn, &s, sizeof s);
        plans = s.plans;
    }
    end(qn);
}

static void lengths_may_vary(void) {
    on_each_device(varying);
}

/* s' = sum of sin(s + i), i < n: n is a size of the body alone, or of what it stacks alone, or the
 * number of trips; each value was read under other bindings before. */
static void varying_body(void) {
    qn_ctx *qn = begin();
    static const int64_t sizes[] = {3, 50, 7, 3};
    float first = 1, got[2][COUNT_OF(sizes)] = {{0}};
    int64_t n = qn_var(qn, "n", 1, 100), trips[COUNT_OF(sizes)] = {0};
    qn_tensor *s0 = qn_from(qn, QN_F32, 0, NULL, &first), *y[2], *count;
    for (int k = 0; k < 2; k++) {
        qn_loop *l = qn_loop_begin(qn, 1, &s0, 0, NULL, &QN_LOOP_OPTIONS(.trips = 2));
        qn_tensor *s = qn_loop_state(l, 0), *i = qn_iota(qn, QN_I64, 1, &n, 0);
        qn_tensor *wide = qn_expand(qn_reshape(s, 1, (int64_t[]){1}), 1, &n);
        qn_tensor *sum = qn_sum(qn_sin(qn_add(wide, qn_cast(i, QN_F32))), QN_ALL, false);
        qn_tensor *next = k ? qn_neg(s) : sum;
        CHECK_INT(qn_loop_end(l, 1, &next, 1, &sum), QN_OK);
        y[k] = k ? qn_sum(qn_loop_output(l, 0), QN_ALL, false) : qn_loop_final(l, 0);
        qn_loop_free(l);
    }
    qn_loop *l = qn_loop_begin(qn, 1, &s0, 0, NULL, &QN_LOOP_OPTIONS(.trips = n));
    qn_tensor *next = qn_neg(qn_loop_state(l, 0));
    CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
    count = qn_loop_trips(l);
    for (int b = 0; b < COUNT_OF(sizes); b++) {
        CHECK_INT(qn_bind(qn, n, sizes[b]), QN_OK);
        for (int k = 0; k < 2; k++) qn_read(y[k], &got[k][b], sizeof(float));
        qn_read(count, &trips[b], sizeof trips[b]);
        double s[2] = {first, first}, all = 0;
        for (int t = 0; t < 2; t++) {
            double sum[2] = {0};
            for (int64_t i = 0; i < 2 * sizes[b]; i++)
                sum[i % 2] += sin(s[i % 2] + (double)(i / 2));
            s[0] = sum[0], s[1] = -s[1], all += sum[1];
        }
        CHECK(fabs(got[0][b] - s[0]) < 1e-4 && fabs(got[1][b] - all) < 1e-4);
        CHECK_INT(trips[b], sizes[b]);
    }
    qn_loop_free(l);
    end(qn);
}

static void sizes_of_a_body_may_vary(void) {
    on_each_device(varying_body);
}

/* A training step: the weights change from run to run, and what is computed with them. */
static void static_step(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *all[2], *last[2], *g, *x = n.x;
    rolled(qn, &n, false, &all[0], &last[0]);
    qn_grad(loss_of(all[0], last[0]), NULL, 1, &n.u, &g);
    qn_assign(n.u, qn_sub(n.u, qn_mul(g, qn_like(g, 0.01))));
    qn_tensor *outs[2] = {all[0], last[0]}, *got[2];
    qn_plan *p = qn_plan_new(qn, 1, &x, 2, outs);
    if (!p && !strcmp(device, "ref")) {
        qn_clear_error(qn);
        end(qn);
        return;
    }
    for (int i = 0; i < 4; i++) {
        net before = n;
        before.u = qn_mul(n.u, qn_like(n.u, 1));
        qn_realize(1, &before.u);
        unrolled(&before, false, &all[1], &last[1]);
        qn_grad(loss_of(all[1], last[1]), NULL, 1, &before.u, &g);
        qn_tensor *want = qn_sub(before.u, qn_mul(g, qn_like(g, 0.01)));
        CHECK_INT(qn_plan_run(p, &x, got), QN_OK);
        CHECK(difference(got[0], all[1]) < 1e-5);
        CHECK(difference(got[1], last[1]) < 1e-5);
        CHECK(difference(n.u, want) < 1e-5);
    }
    qn_plan_free(p);
    end(qn);
}

static void static_graphs_have_loops(void) {
    on_each_device(static_step);
}

/* What is captured is the value it had. */
static void captured_version(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *all[2], *last[2];
    rolled(qn, &n, false, &all[0], &last[0]);
    unrolled(&n, false, &all[1], &last[1]);
    qn_assign(n.u, qn_mul(n.u, qn_like(n.u, 3)));
    CHECK(difference(all[0], all[1]) < 1e-6);
    rolled(qn, &n, false, &all[0], &last[0]);
    unrolled(&n, false, &all[1], &last[1]);
    CHECK(difference(all[0], all[1]) < 1e-6);
    end(qn);
}

static void captured_tensors_may_be_assigned_to(void) {
    on_each_device(captured_version);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* In segments of each length, from both ends: values and gradients, also second ones. */
static void checkpointed(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *x[5] = {n.x, n.w, n.u, n.b, n.h0}, *g[2][5], *gg[2];
    for (int length = 1; length <= T; length += 2)
        for (int i = 0; i < 2; i++) {
            qn_tensor *all[2], *last[2];
            qn_loop_options o = QN_LOOP_OPTIONS(.reverse = ways[i], .checkpoint = length);
            qn_loop *l = qn_loop_begin(qn, 1, &n.h0, 1, &n.x, &o);
            qn_tensor *h = cell(&n, qn_loop_state(l, 0), qn_loop_slice(l, 0));
            CHECK_INT(qn_loop_end(l, 1, &h, 1, &h), QN_OK);
            all[0] = qn_loop_output(l, 0);
            last[0] = qn_loop_final(l, 0);
            qn_loop_free(l);
            rolled(qn, &n, ways[i], &all[1], &last[1]);
            for (int k = 0; k < 2; k++)
                CHECK_INT(qn_grad(loss_of(all[k], last[k]), NULL, 5, x, g[k]), QN_OK);
            for (int k = 0; k < 5; k++) CHECK(difference(g[0][k], g[1][k]) < 1e-5);
            for (int k = 0; k < 2 && length == 3; k++)
                qn_grad(qn_sum(qn_square(g[k][2]), QN_ALL, false), NULL, 1, &n.w, &gg[k]);
            if (length == 3) CHECK(difference(gg[0], gg[1]) < 1e-3);
            CHECK(difference(all[0], all[1]) < 1e-6);
        }
    end(qn);
}

static void checkpoints_change_no_gradient(void) {
    on_each_device(checkpointed);
}

/* Bytes of temporaries of one step. */
static double bytes_of_step(int64_t trips, int64_t checkpoint) {
    enum { WIDE = 256 };
    qn_ctx *qn = begin();
    qn_tensor *h0 = numbers(qn, 1, 1, (int64_t[]){WIDE}), *w = numbers(qn, 2, 1, (int64_t[]){WIDE});
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 0, NULL,
                               &QN_LOOP_OPTIONS(.trips = trips, .checkpoint = checkpoint));
    qn_tensor *h = qn_loop_state(l, 0), *next = qn_tanh(qn_mul(w, qn_sin(h))), *g;
    CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
    CHECK_INT(qn_grad(qn_sum(qn_loop_final(l, 0), QN_ALL, false), NULL, 1, &w, &g), QN_OK);
    CHECK_INT(qn_realize(1, &g), QN_OK);
    qn_loop_free(l);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    end(qn);
    return (double)s.planned_peak_bytes;
}

static void memory_goes_with_the_root_of_the_trips(void) {
    CHECK(bytes_of_step(1024, 0) > 1024 * 256 * 4);
    CHECK(bytes_of_step(1024, 32) < 4 * 2 * 32 * 256 * 4);
    CHECK(bytes_of_step(4096, 64) < 2.2 * bytes_of_step(1024, 32));
}

/* ---- bodies as functions, branches ----------------------------------------------------------- */

static qn_code step_of(qn_ctx *qn, void *arg, qn_tensor *const *h, qn_tensor *const *x,
                       qn_tensor **next, qn_tensor **out) {
    (void)qn;
    next[0] = out[0] = cell(arg, h[0], x[0]);
    return QN_OK;
}

static qn_code gives_up(qn_ctx *qn, void *arg, qn_tensor *const *h, qn_tensor *const *x,
                        qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)arg, (void)h, (void)x, (void)next, (void)out;
    return QN_EARG;
}

static void bodies_may_be_functions(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *all[2], *last[2];
    qn_loop_call c = {.body = step_of, .arg = &n, .n = 1, .n_in = 1, .n_out = 1};
    c.states = &n.h0;
    c.sequences = &n.x;
    CHECK_INT(qn_loop_run(qn, &c, &last[0], &all[0]), QN_OK);
    unrolled(&n, false, &all[1], &last[1]);
    CHECK(difference(all[0], all[1]) < 1e-6);
    c.body = gives_up;
    CHECK_INT(qn_loop_run(qn, &c, &last[0], &all[0]), QN_EARG);
    CHECK(!last[0] && !all[0]);
    CHECK(qn_neg(n.w) != NULL);
    end(qn);
}

static qn_code squares(qn_ctx *qn, void *arg, qn_tensor **results) {
    const net *n = arg;
    (void)qn;
    results[0] = qn_matmul(qn_square(n->u), n->u);
    return QN_OK;
}

static qn_code sines(qn_ctx *qn, void *arg, qn_tensor **results) {
    const net *n = arg;
    (void)qn;
    results[0] = qn_sin(qn_add(n->u, n->b));
    return QN_OK;
}

static void branches(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    for (int yes = 0; yes < 2; yes++) {
        qn_tensor *made = NULL, *want = NULL, *x[2] = {n.u, n.b}, *g[2][2], *gg[2][2];
        uint8_t which = (uint8_t)yes;
        qn_tensor *condition = qn_from(qn, QN_BOOL, 0, NULL, &which);
        CHECK_INT(qn_cond(qn, condition, 1, squares, sines, &n, &made), QN_OK);
        (yes ? squares : sines)(qn, &n, &want);
        CHECK(difference(made, want) < 1e-6);
        for (int k = 0; k < 2; k++) {
            qn_tensor *loss = qn_sum(qn_square(k ? want : made), QN_ALL, false);
            CHECK_INT(qn_grad(loss, NULL, 2, x, g[k]), QN_OK);
            qn_tensor *norm = qn_sum(qn_square(g[k][0]), QN_ALL, false);
            CHECK_INT(qn_grad(norm, NULL, 2, x, gg[k]), QN_OK);
        }
        for (int i = 0; i < 2; i++) CHECK(difference(g[0][i], g[1][i]) < 1e-4);
        for (int i = 0; i < 2; i++) CHECK(difference(gg[0][i], gg[1][i]) < 1e-2);
    }
    end(qn);
}

static void a_branch_is_the_one_that_is_taken(void) {
    on_each_device(branches);
}

/* The other one would take a minute. */
static qn_code long_way(qn_ctx *qn, void *arg, qn_tensor **results) {
    qn_tensor *x = arg;
    qn_loop *l = qn_loop_begin(qn, 1, &x, 0, NULL, &QN_LOOP_OPTIONS(.trips = 1000000000));
    qn_tensor *next = qn_sin(qn_loop_state(l, 0));
    qn_code code = qn_loop_end(l, 1, &next, 0, NULL);
    results[0] = qn_loop_final(l, 0);
    qn_loop_free(l);
    return code;
}

static qn_code short_way(qn_ctx *qn, void *arg, qn_tensor **results) {
    (void)qn;
    results[0] = qn_neg(arg);
    return QN_OK;
}

static void a_branch_that_is_not_taken_costs_nothing(void) {
    qn_ctx *qn = begin();
    qn_tensor *x = numbers(qn, 1, 1, (int64_t[]){8}), *made = NULL;
    uint8_t no = 0;
    qn_tensor *condition = qn_from(qn, QN_BOOL, 0, NULL, &no);
    CHECK_INT(qn_cond(qn, condition, 1, long_way, short_way, x, &made), QN_OK);
    CHECK(difference(made, qn_neg(x)) == 0);
    end(qn);
}

/* ---- what it costs -------------------------------------------------------------------------- */

/* The same step, recorded again and again: one plan. */
static void equal_bodies_are_one_plan(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    uint64_t plans = 0, compiled = 0;
    for (int i = 0; i < 3; i++) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *all, *last, *g;
        qn_stats s;
        rolled(qn, &n, false, &all, &last);
        qn_grad(loss_of(all, last), NULL, 1, &n.u, &g);
        CHECK_INT(qn_realize(1, &g), QN_OK);
        qn_scope_end(qn, scope);
        qn_get_stats(qn, &s, sizeof s);
        if (i) CHECK_INT((int64_t)s.plans, (int64_t)plans);
        if (i) CHECK_INT((int64_t)s.compiles, (int64_t)compiled);
        plans = s.plans;
        compiled = s.compiles;
    }
    end(qn);
}

/* 1,000 steps are compiled as 10 are. */
static void code_does_not_grow_with_trips(void) {
    uint64_t compiled[2];
    for (int k = 0; k < 2; k++) {
        qn_ctx *qn = begin();
        qn_stats s;
        qn_tensor *x = numbers(qn, 1, 2, (int64_t[]){k ? 1000 : 10, 64});
        qn_tensor *h0 = numbers(qn, 2, 1, (int64_t[]){64}), *g;
        qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
        qn_tensor *h = qn_tanh(qn_add(qn_loop_state(l, 0), qn_loop_slice(l, 0)));
        qn_loop_end(l, 1, &h, 1, &h);
        qn_grad(loss_of(qn_loop_output(l, 0), qn_loop_final(l, 0)), NULL, 1, &x, &g);
        CHECK_INT(qn_realize(1, &g), QN_OK);
        qn_get_stats(qn, &s, sizeof s);
        compiled[k] = s.compiles;
        qn_loop_free(l);
        end(qn);
    }
    CHECK_INT((int64_t)compiled[1], (int64_t)compiled[0]);
    CHECK(compiled[0] <= 8);
}

/* Nothing is computed there, but every launch's memory is looked at. */
static void all_launches_stay_in_their_memory(void) {
    device = "null";
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *x[5] = {n.x, n.w, n.u, n.b, n.h0}, *g[5], *all, *last;
    rolled(qn, &n, true, &all, &last);
    CHECK_INT(qn_grad(loss_of(all, last), NULL, 5, x, g), QN_OK);
    CHECK_INT(qn_realize(5, g), QN_OK);
    end(qn);
    device = "cpu";
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_recurrence_is_what_it_is_unrolled);
    RUN(a_network_is_what_it_is_unrolled);
    RUN(gradients_are_those_of_it_unrolled);
    RUN(second_gradients_are_those_of_it_unrolled);
    RUN(states_may_change_places_in_any_number_of_trips);
    RUN(terms_of_halves_are_added_in_f32_over_all_trips);
    RUN(loops_nest);
    RUN(a_loop_ends_when_its_condition_does);
    RUN(data_may_say_how_many_trips_there_are);
    RUN(trips_know_their_rows);
    RUN(lengths_may_vary);
    RUN(sizes_of_a_body_may_vary);
    RUN(static_graphs_have_loops);
    RUN(captured_tensors_may_be_assigned_to);
    RUN(checkpoints_change_no_gradient);
    RUN(memory_goes_with_the_root_of_the_trips);
    RUN(bodies_may_be_functions);
    RUN(a_branch_is_the_one_that_is_taken);
    RUN(a_branch_that_is_not_taken_costs_nothing);
    RUN(equal_bodies_are_one_plan);
    RUN(code_does_not_grow_with_trips);
    RUN(all_launches_stay_in_their_memory);
    return test_end();
}
