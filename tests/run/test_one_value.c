/* test_one_value.c - a node has one value, wherever and however often it is computed.
 *
 * What a*b is does not depend on who uses it: no kernel joins a product and a sum of different
 * nodes to one rounding, so differences of equal things are 0 on every device, fused or not. The
 * one operation that does not round its products is the sum of a product, and that is a node of
 * the graph. Values are compared bit by bit; what is expected is IEEE arithmetic by hand. */
#include "every_way.h"
#include "graph/graph.h"

/* ---- products and differences ---------------------------------------------------------------- */

static void check_products(qn_ctx *qn) {
    static const qn_dtype types[] = {QN_F32, QN_F64, QN_F16, QN_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types && !(slow && i); i++) {
        qn_tensor *a = noise(qn, types[i], 3), *b = noise(qn, types[i], 5), *p = qn_mul(a, b);
        expect_zeros("p - b*a", qn_sub(p, qn_mul(b, a)));
        expect_zeros("b*a - p", qn_sub(qn_mul(b, a), p));
        expect_zeros("p + -b*a", qn_add(p, qn_mul(qn_neg(b), a)));
        expect_zeros("p - contiguous(p)", qn_sub(p, qn_contiguous(p)));
        expect_zeros("p - detach(p)", qn_sub(p, qn_detach(p)));
        expect_zeros("sqrt(p - b*a)", qn_sqrt(qn_sub(p, qn_mul(b, a))));
        qn_tensor *below = qn_sub(p, qn_max(p, 1, true));
        expect_range("p - max(p)", below, -1e30, 0);
        expect_zeros("max(p - max(p))", qn_max(below, 1, false));
        expect_range("sqrt(max(p) - p)", qn_sqrt(qn_neg(below)), 0, 1e30);
    }
}

static void a_product_is_what_it_is_wherever_it_is_used(void) {
    in_every_way(check_products);
}

static void check_read_products(qn_ctx *qn) {
    static double first[ELEMENTS];
    qn_tensor *a = noise(qn, QN_F32, 7), *b = noise(qn, QN_F32, 11), *p = qn_mul(a, b);
    qn_tensor *minus = qn_sub(qn_mul(b, a), qn_like(a, 0.37)); /* p inside, before p is stored */
    qn_tensor *sum = qn_add(minus, qn_like(a, 0.37));
    CHECK(read_all(sum, ELEMENTS, first) && read_all(p, ELEMENTS, first));
    expect_zeros("stored p - b*a", qn_sub(p, qn_mul(b, a)));
    expect_zeros("p's difference", qn_sub(minus, qn_sub(p, qn_like(a, 0.37))));
}

static void a_stored_product_is_the_computed_one(void) {
    in_every_way(check_read_products);
}

static void check_product_gradients(qn_ctx *qn) {
    qn_tensor *x = noise(qn, QN_F32, 13), *c = noise(qn, QN_F32, 17), *g, *h;
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *y = qn_mul(qn_mul(x, c), c); /* dy/dx = c*c */
    CHECK_INT(qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &x, &g), QN_OK);
    expect_zeros("dy/dx - c*c", qn_sub(g, qn_mul(c, c)));
    qn_tensor *cube = qn_mul(qn_mul(x, x), x);
    CHECK_INT(qn_grad(qn_sum(cube, QN_ALL, false), NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_grad(qn_sum(g, QN_ALL, false), NULL, 1, &x, &h), QN_OK);
    expect_zeros("d2/dx2 - itself stored", qn_sub(h, qn_contiguous(h)));
    qn_tape_end(tape);
}

static void gradients_of_products_have_one_value(void) {
    in_every_way(check_product_gradients);
}

/* Of the places 0 to 8: a kernel that reads one of them knows it. */
static void check_places(qn_ctx *qn) {
    qn_tensor *(*const of[])(qn_tensor *) = {qn_exp,   qn_atan,    qn_tanh, qn_sin,       qn_erf,
                                             qn_log1p, qn_sigmoid, qn_sqrt, qn_reciprocal};
    const int64_t shape[1] = {9};
    qn_tensor *place = qn_iota(qn, QN_F32, 1, shape, 0);
    for (int i = 0; i < (slow ? 2 : 9); i++) {
        qn_tensor *y = of[i](qn_add(place, qn_scalar(qn, QN_F32, 1)));
        for (int at = 0; at < (slow ? 1 : 4); at++) {
            qn_tensor *known = qn_slice(y, 0, at, at + 1, 1);
            expect_zeros("f(place)", qn_sub(known, qn_slice(qn_contiguous(y), 0, at, at + 1, 1)));
        }
    }
}

static void a_function_has_one_value_also_of_what_a_kernel_knows(void) {
    in_every_way(check_places);
}

/* ---- functions of constants ------------------------------------------------------------------ */

enum { VALUES = 200, SOME = 16, LAST = SOME - 1 };

/* Of a function's domain and twice around it, and numbers that rules look for. */
static double argument(const op_row *op, int i, uint64_t *seed) {
    static const double odd[] = {0,  -0.0, 1,  -1,   2,   -2,       0.5,
                                 -3, 100,  -7, 1e-6, NAN, INFINITY, -INFINITY};
    if (i < (int)(sizeof odd / sizeof *odd)) return odd[i];
    return op->lo + (op->hi - op->lo) * (2 * test_uniform(seed) - 0.5);
}

/* An operation of floats, its arguments, and its values computed from data. */
typedef struct sample {
    qn_ctx *qn;
    int op, arity;
    qn_dtype d;
    double x[3][VALUES];
    qn_tensor *data[3], *result;
    uint64_t value[VALUES]; /* bits */
} sample;

static bool read_bits(const sample *s, qn_tensor *t, int n, uint64_t *out) {
    const size_t size = qn_dtype_size(s->d);
    uint8_t raw[VALUES * 8];
    if (!t || qn_dtype_of(t) != s->d || qn_read(t, raw, size * (size_t)n)) return false;
    for (int i = 0; i < n; i++) memcpy(&out[i], raw + size * (size_t)i, size);
    return true;
}

static bool take_sample(sample *s) {
    const int64_t shape[1] = {VALUES};
    uint64_t seed = (uint64_t)s->op * 31;
    s->arity = op_rows[s->op].arity;
    memset(s->value, 0, sizeof s->value);
    for (int a = 0; a < s->arity; a++) {
        for (int i = 0; i < VALUES; i++) {
            int k = a ? (i * 5 + 3 * a) % VALUES : i; /* odd numbers meet all others */
            s->x[a][k] = dtype_round(s->d, argument(&op_rows[s->op], i, &seed));
        }
        s->data[a] = qn_cast(qn_from(s->qn, QN_F64, 1, shape, s->x[a]), s->d);
        if (qn_realize(1, &s->data[a])) return false;
    }
    s->result = build_elem(s->op, s->arity, s->data);
    return read_bits(s, s->result, VALUES, s->value);
}

/* x^2 is x*x and x^-1 is 1/x, which are rounded once: that is said of the rule. */
static bool is_product(const sample *s, int i) {
    return s->op == OP_POW && (s->x[1][i] == 2 || s->x[1][i] == -1);
}

static void expect_value(const sample *s, int i, const char *how, qn_tensor *t) {
    uint64_t got = 0;
    if (!read_bits(s, t, 1, &got)) {
        FAIL("%s: %s %s: %s", way, op_rows[s->op].name, how, qn_error(s->qn));
        return;
    }
    double want = dtype_get_f(s->d, &s->value[i], 0), v = dtype_get_f(s->d, &got, 0);
    if (got == s->value[i] || (isnan(want) && isnan(v))) return;
    FAIL("%s: %s of %s %s: %.17g, of data %.17g, at %.17g %.17g", way, op_rows[s->op].name,
         qn_dtype_name(s->d), how, v, want, s->x[0][i], s->arity > 1 ? s->x[1][i] : 0);
}

/* Argument a: constants where the mask says so, else data. */
static qn_tensor *of_constants(const sample *s, int i, int mask) {
    const int64_t one[1] = {1};
    qn_tensor *x[3] = {NULL};
    for (int a = 0; a < s->arity; a++)
        x[a] = mask >> a & 1 ? qn_full(s->qn, s->d, 1, one, s->x[a][i])
                             : qn_slice(s->data[a], 0, i, i + 1, 1);
    return build_elem(s->op, s->arity, x);
}

/* What a loop begins with is known, too. */
static qn_tensor *in_a_loop(const sample *s, int i) {
    const int64_t one[1] = {1};
    qn_tensor *x[3] = {NULL}, *in[3] = {NULL};
    for (int a = 0; a < s->arity; a++) x[a] = qn_full(s->qn, s->d, 1, one, s->x[a][i]);
    qn_loop *l = qn_loop_begin(s->qn, s->arity, x, 0, NULL, &QN_LOOP_OPTIONS(.trips = 1));
    for (int a = 0; a < s->arity; a++) in[a] = qn_loop_state(l, a);
    in[0] = build_elem(s->op, s->arity, in);
    qn_loop_end(l, s->arity, in, 0, NULL);
    qn_tensor *last = qn_loop_final(l, 0);
    qn_loop_free(l);
    return last;
}

/* f(x) - f(constant), planned once for any x, as a number that is not 0 would show. */
static void check_static(const sample *s, int i) {
    qn_tensor *x = s->data[0], *out = NULL;
    qn_tensor *y = qn_sub(build_elem(s->op, 1, &x), of_constants(s, i, 1));
    qn_plan *p = qn_plan_new(s->qn, 1, &x, 1, &y);
    uint64_t bits[VALUES] = {0};
    if (!p || qn_plan_run(p, &x, &out) || !read_bits(s, out, VALUES, bits))
        FAIL("%s: %s in a static graph: %s", way, op_rows[s->op].name, qn_error(s->qn));
    double v = dtype_get_f(s->d, &bits[i], 0);
    if (v != 0 && !isnan(v))
        FAIL("%s: %s(x) - %s(%g) is %g", way, op_rows[s->op].name, op_rows[s->op].name, s->x[0][i],
             v);
    qn_plan_free(p);
}

static void check_constants_of(qn_ctx *qn, int op, qn_dtype d) {
    sample *s = calloc(1, sizeof *s);
    qn_scope scope = qn_scope_begin(qn);
    *s = (sample){.qn = qn, .op = op, .d = d};
    const int all = (1 << op_rows[op].arity) - 1;
    if (!take_sample(s)) FAIL("%s: %s: %s", way, op_rows[op].name, qn_error(qn));
    const int count = slow ? 4 : !strcmp(way, "cpu") || !plans ? VALUES : SOME;
    for (int i = 0; i < count; i++) {
        qn_scope inner = qn_scope_begin(qn);
        if (!is_product(s, i)) expect_value(s, i, "of constants", of_constants(s, i, all));
        for (int mask = 1; mask < all && i == LAST; mask++)
            if (!is_product(s, i))
                expect_value(s, i, "of some constants", of_constants(s, i, mask));
        if (i == LAST && d == QN_F32) expect_value(s, i, "in a loop", in_a_loop(s, i));
        qn_scope_end(qn, inner);
    }
    if (plans && !slow && s->arity == 1 && d == QN_F32) check_static(s, LAST);
    qn_scope_end(qn, scope);
    free(s);
}

static void check_constants(qn_ctx *qn) {
    for (int op = 1; op < OP_COUNT; op++)
        for (int d = 0; d < DTYPE_COUNT; d++) {
            const op_row *row = &op_rows[op];
            bool every = !strcmp(way, "cpu") || !plans; /* dtype */
            bool function = row->class_ == CLASS_ELEM && row->has_float &&
                            row->types != TYPES_CMP && row->types != TYPES_TO && op != OP_WHERE;
            if (!function || !dtype_is_float(d) || (!every && d != QN_F32) || (slow && op % 4))
                continue;
            check_constants_of(qn, op, (qn_dtype)d);
        }
}

static void a_function_of_a_constant_is_that_of_data(void) {
    in_every_way(check_constants);
}

/* ---- functions that rely on it --------------------------------------------------------------- */

static void check_softmax(qn_ctx *qn) {
    for (double c = 1; c < 2e30; c *= 1e5) {
        const float number = (float)c;
        qn_tensor *x = noise(qn, QN_F32, 19), *k = qn_from(qn, QN_F32, 0, NULL, &number), *g[2];
        qn_tape *tape = qn_tape_begin(qn);
        qn_tensor *p = qn_softmax(qn_mul(x, k), 1), *log_p = qn_log_softmax(qn_mul(x, k), 1);
        qn_tensor *const in[2] = {x, k};
        expect_range("softmax(x*c)", p, 0, 1);
        expect_range("sum of softmax(x*c)", qn_sum(p, 1, false), 0.99999, 1.00001);
        expect_range("log_softmax(x*c)", log_p, -1e38, 0);
        qn_tensor *loss = qn_sum(qn_mul(p, noise(qn, QN_F32, 23)), QN_ALL, false);
        CHECK_INT(qn_grad(loss, NULL, 2, in, g), QN_OK);
        expect_range("gradient of softmax(x*c)", g[0], -1e38, 1e38);
        expect_range("gradient for c", g[1], -1e38, 1e38);
        qn_tape_end(tape);
    }
}

static void softmax_of_large_products_is_finite_and_at_most_1(void) {
    in_every_way(check_softmax);
}

/* softmax(x*c) and its gradient for x. */
static bool softmax_values(const char *fuse, const char *schedule, float c, double *out) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    qn_tensor *x = noise(qn, QN_F32, 19), *k = qn_from(qn, QN_F32, 0, NULL, &c), *g;
    qn_set(qn, "fuse", fuse), qn_set(qn, "schedule", schedule);
    qn_tensor *p = qn_softmax(qn_mul(x, k), 1);
    qn_tensor *loss = qn_sum(qn_mul(p, noise(qn, QN_F32, 23)), QN_ALL, false);
    bool ok = qn_grad(loss, NULL, 1, &x, &g) == QN_OK && read_all(p, ELEMENTS, out) &&
              read_all(g, ELEMENTS, out + ELEMENTS);
    qn_close(qn);
    return ok;
}

static void softmax_has_the_same_bits_fused_and_not(void) {
    static double fused[2 * ELEMENTS], apart[2 * ELEMENTS];
    for (float c = 1; c < 2e30f; c *= 1e6f)
        for (int scheduled = 0; scheduled < 2; scheduled++) {
            const char *schedule = scheduled ? "1" : "0";
            CHECK(softmax_values("1", schedule, c, fused));
            CHECK(softmax_values("0", schedule, c, apart));
            if (!memcmp(fused, apart, sizeof fused)) continue;
            FAIL("c = %g, schedule %s: fused and unfused differ", (double)c, schedule);
        }
}

static void check_one_class(qn_ctx *qn) {
    const int64_t shape[2] = {ELEMENTS, 1};
    qn_tensor *x = qn_reshape(scaled_scores(qn, 37.3), 2, shape), *g;
    qn_tape *tape = qn_tape_begin(qn);
    expect_zeros("log_softmax of one class", qn_log_softmax(x, 1));
    expect_zeros("softmax of one class, less 1",
                 qn_sub(qn_softmax(x, 1), qn_scalar(qn, QN_F32, 1)));
    qn_tensor *w = noise(qn, QN_F32, 29), *y = qn_mul(x, qn_reshape(w, 2, shape));
    CHECK_INT(qn_grad(qn_sum(qn_log_softmax(y, 1), QN_ALL, false), NULL, 1, &w, &g), QN_OK);
    expect_zeros("gradient of one class", g);
    qn_tape_end(tape);
}

static void one_class_is_certain(void) {
    in_every_way(check_one_class);
}

static void check_attention(qn_ctx *qn) {
    const int64_t shape[3] = {1, ROWS, COLUMNS}, keys[3] = {1, ROWS, COLUMNS};
    qn_tensor *q = qn_reshape(scaled_scores(qn, 1e15), 3, shape);
    qn_tensor *k = qn_reshape(scaled_scores(qn, 1e14), 3, keys);
    qn_tensor *v = qn_full(qn, QN_F32, 3, keys, 1);
    for (int causal = 0; causal < 2; causal++)
        expect_range("attention of ones",
                     qn_attention(q, k, v, &QN_ATTENTION_OPTIONS(.causal = causal)), 0.99999,
                     1.00001);
}

static void attention_of_large_scores_is_a_mean(void) {
    in_every_way(check_attention);
}

/* ---- sums of products ------------------------------------------------------------------------ */

/* Terms -p and a*b, where p is a*b rounded: in this order the sum without rounding in between is
 * what rounding took off, and with it is 0. */
typedef struct cancelling {
    qn_tensor *a, *b;
    double left;
} cancelling;

enum { SIDE = 16 };

static cancelling cancel(qn_ctx *qn) {
    const float x = 1.0f + 0x1p-13f, y = 1.0f - 0x1p-12f, p = x * y;
    const int64_t a_shape[3] = {SIDE, 1, 2}, b_shape[3] = {1, SIDE, 2};
    float a[SIDE][2], b[SIDE][2];
    for (int i = 0; i < SIDE; i++) a[i][0] = -p, a[i][1] = x, b[i][0] = 1, b[i][1] = y;
    return (cancelling){qn_from(qn, QN_F32, 3, a_shape, a), qn_from(qn, QN_F32, 3, b_shape, b),
                        (double)x * (double)y - (double)p};
}

static void expect_all(const char *what, qn_tensor *t, double want) {
    double v[SIDE * SIDE];
    if (!read_all(t, SIDE * SIDE, v)) {
        FAIL("%s: %s cannot be read", way, what);
        return;
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        if (v[i] == want) continue;
        FAIL("%s: %s is %a, expected %a", way, what, v[i], want);
        return;
    }
}

/* A condition on places that always holds, and that no rule knows to. */
static qn_tensor *always(qn_tensor *p) {
    qn_tensor *place = qn_iota(qn_context(p), QN_I32, 3, (int64_t[]){SIDE, SIDE, 2}, 0);
    return qn_le(place, qn_like(place, SIDE));
}

static void check_sums(qn_ctx *qn) {
    cancelling c = cancel(qn);
    CHECK(c.left != 0);
    qn_tensor *p = qn_mul(c.a, c.b), *zero = qn_like(p, 0);
    expect_all("sum(a*b)", qn_sum(p, 2, false), c.left);
    expect_all("matmul", qn_matmul(qn_squeeze(c.a, 1), qn_transpose(qn_squeeze(c.b, 0), 0, 1)),
               c.left);
    expect_all("sum(where(place, a*b, 0))", qn_sum(qn_where(always(p), p, zero), 2, false), c.left);
    qn_tensor *odd = qn_ne(qn_iota(qn, QN_I32, 3, (int64_t[]){SIDE, SIDE, 2}, 0),
                           qn_scalar(qn, QN_I32, SIDE)); /* that no index form says */
    expect_all("sum(where(other place, a*b, 0))", qn_sum(qn_where(odd, p, zero), 2, false), c.left);
    qn_tensor *turned = qn_permute(p, 3, (int[]){1, 2, 0});
    expect_all("sum(permute(a*b))", qn_sum(turned, 1, false), c.left);
    expect_all("sum(flip(a*b))", qn_sum(qn_flip(qn_flip(p, 1), 0), 2, false), c.left);
    const int64_t flat[2] = {SIDE * SIDE, 2};
    expect_all("sum(reshape(a*b))", qn_sum(qn_reshape(p, 2, flat), 1, false), c.left);
    expect_all("sum(contiguous(a*b))", qn_sum(qn_contiguous(p), 2, false), 0);
    expect_all("sum(detach(a*b))", qn_sum(qn_detach(p), 2, false), 0);
    qn_tensor *known = qn_le(c.a, qn_like(c.a, 8)); /* on values */
    expect_all("sum(where(value, a*b, 0))", qn_sum(qn_where(known, p, zero), 2, false), 0);
    qn_tensor *half = qn_slice(p, 0, 0, SIDE / 2, 1);
    half = qn_sum(half, 2, false);
    expect_all("sum(slice(a*b))",
               qn_add(qn_unsqueeze(half, 0), qn_full(qn, QN_F32, 3, (int64_t[]){2, 1, 1}, 0)),
               c.left);
}

static void the_sum_of_a_product_alone_does_not_round_it(void) {
    in_every_way(check_sums);
}

static void check_other_consumers(qn_ctx *qn) {
    cancelling c = cancel(qn);
    qn_tensor *p = qn_mul(c.a, c.b), *both[2];
    both[0] = qn_sum(p, 2, false);
    both[1] = qn_sub(p, qn_contiguous(qn_mul(c.b, c.a)));
    CHECK_INT(qn_realize(2, both), QN_OK);
    expect_all("a sum beside its product", both[0], c.left);
    expect_zeros("a product beside its sum", both[1]);
}

static void a_product_with_another_consumer_gives_it_the_rounded_value(void) {
    in_every_way(check_other_consumers);
}

/* d/da of sum(where(place, a*b, 0)) is b, and of its square 2 s b, by hand. */
static void check_sum_gradients(qn_ctx *qn) {
    cancelling c = cancel(qn);
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *p = qn_mul(c.a, c.b), *place = always(p), *zero = qn_like(p, 0), *g, *h;
    qn_tensor *s = qn_sum(qn_where(place, p, zero), 2, false);
    CHECK_INT(qn_grad(qn_sum(s, QN_ALL, false), NULL, 1, &c.a, &g), QN_OK);
    qn_tensor *want =
        qn_sum(qn_mul(c.b, qn_full(qn, QN_F32, 3, (int64_t[]){SIDE, SIDE, 2}, 1)), 1, true);
    expect_zeros("d sum(a*b) - sum(b)", qn_sub(g, want));
    qn_tensor *square = qn_sum(qn_mul(s, s), QN_ALL, false);
    CHECK_INT(qn_grad(square, NULL, 1, &c.a, &g), QN_OK);
    CHECK_INT(qn_grad(qn_sum(g, QN_ALL, false), NULL, 1, &c.b, &h), QN_OK);
    double v[SIDE * 2], w[SIDE * 2];
    CHECK(read_all(h, SIDE * 2, v));
    /* sum over i of 2 s[i, j] b[j, k]: by b[j, k] it is sum over i of 2 s + 2 a[i, k] (b0 + b1) */
    double a[2], b[2], sum = c.left;
    CHECK(read_all(c.a, SIDE * 2, w));
    a[0] = w[0], a[1] = w[1];
    CHECK(read_all(c.b, SIDE * 2, w));
    b[0] = w[0], b[1] = w[1];
    for (int k = 0; k < 2; k++) CHECK_NEAR(v[k], SIDE * 2 * (sum + a[k] * (b[0] + b[1])), 1e-5, 0);
    qn_tape_end(tape);
}

static void a_sum_of_products_has_gradients_of_any_order(void) {
    in_every_way(check_sum_gradients);
}

/* ---- sums that several kernels need ---------------------------------------------------------- */

/* x beside what is stored of it: alone, spread over other loops, summed once more. */
static void expect_once(const char *what, qn_tensor *x) {
    qn_tensor *rest = qn_sub(x, qn_contiguous(x));
    expect_zeros(what, rest);
    qn_tensor *wide = qn_unsqueeze(x, -1), *line = noise(qn_context(x), qn_dtype_of(x), 31);
    line = qn_slice(line, 0, 0, 1, 1);
    if (qn_numel(x) * COLUMNS > ELEMENTS) return;
    qn_tensor *here = qn_mul(wide, line), *there = qn_mul(qn_unsqueeze(qn_contiguous(x), -1), line);
    expect_zeros(what, qn_max(qn_abs(qn_sub(here, there)), QN_ALL, false));
}

static void check_sums_once(qn_ctx *qn) {
    static const qn_dtype types[] = {QN_F32, QN_F64, QN_F16, QN_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types && !(slow && i); i++) {
        qn_tensor *x = noise(qn, types[i], 37), *y = noise(qn, types[i], 41);
        for (int axis = 0; axis < 2; axis++) {
            qn_tensor *sum = qn_sum(x, axis, false), *dot = qn_sum(qn_mul(x, y), axis, false);
            expect_once("a sum", sum);
            expect_once("a sum of products", dot);
            expect_once("a sum with its rows around it", qn_add(x, qn_sum(x, axis, true)));
            expect_once("a product",
                        qn_prod(qn_add(qn_mul(x, qn_like(x, 0.01)), qn_like(x, 1)), axis, false));
            expect_once("a softmax", qn_softmax(x, axis));
            expect_once("a variance", qn_variance(y, axis, 1, false));
            qn_tensor *table = qn_sub(qn_unsqueeze(dot, 0), qn_unsqueeze(dot, 1));
            qn_tensor *place = qn_iota(qn, QN_I32, 2, (int64_t[]){qn_numel(dot), qn_numel(dot)}, 0);
            qn_tensor *same = qn_eq(place, qn_transpose(place, 0, 1));
            expect_zeros("differences of a sum and itself",
                         qn_max(qn_abs(qn_where(same, table, qn_like(table, 0))), QN_ALL, false));
        }
        expect_once("a sum of all", qn_sum(x, QN_ALL, false));
        expect_once("a norm", qn_layer_norm(x, NULL, NULL, 1e-5));
        qn_tensor *m = qn_matmul(x, qn_transpose(y, 0, 1));
        expect_once("a matmul", m);
        expect_once("a matmul's row sums", qn_sum(m, 1, false));
    }
}

/* What kernels with other loops make of a sum, and of what is stored of it. */
static void check_sums_elsewhere(qn_ctx *qn) {
    static const int64_t shapes[][3] = {{1, 16, 7},  {64, 3, 7},  {7, 33, 7},
                                        {3, 16, 16}, {7, 1, 17},  {17, 17, 1},
                                        {7, 3, 64},  {1, 100, 7}, {3, 33, 17}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !(slow && i > 2); i++)
        for (int axis = 0; axis < 3 && !(slow && axis < 2); axis++) {
            const int64_t *d = shapes[i], n = d[0] * d[1] * d[2];
            qn_tensor *flat = qn_reshape(noise(qn, QN_F32, 43), 1, (int64_t[]){ELEMENTS});
            qn_tensor *x = qn_reshape(qn_slice(flat, 0, 0, n, 1), 3, d);
            qn_realize(1, &x);
            qn_tensor *sum = qn_sum(x, axis, true), *stored = qn_contiguous(sum);
            int along = axis == 1 ? 0 : 1;
            int64_t some = 1 + d[along] / 2;
            qn_tensor *part = qn_slice(sum, along, 0, some, 1);
            expect_zeros("part of a sum", qn_sub(part, qn_slice(stored, along, 0, some, 1)));
            expect_zeros("a sum turned", qn_sub(qn_flip(sum, along), qn_flip(stored, along)));
            qn_tensor *most = qn_max(qn_mul(sum, x), along, false);
            expect_zeros("a sum's largest", qn_sub(most, qn_max(qn_mul(stored, x), along, false)));
        }
}

static void a_sum_that_several_kernels_need_has_one_value(void) {
    in_every_way(check_sums_once);
    in_every_way(check_sums_elsewhere);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_product_is_what_it_is_wherever_it_is_used);
    RUN(a_stored_product_is_the_computed_one);
    RUN(gradients_of_products_have_one_value);
    RUN(a_function_has_one_value_also_of_what_a_kernel_knows);
    RUN(a_function_of_a_constant_is_that_of_data);
    RUN(softmax_of_large_products_is_finite_and_at_most_1);
    RUN(softmax_has_the_same_bits_fused_and_not);
    RUN(one_class_is_certain);
    RUN(attention_of_large_scores_is_a_mean);
    RUN(the_sum_of_a_product_alone_does_not_round_it);
    RUN(a_product_with_another_consumer_gives_it_the_rounded_value);
    RUN(a_sum_of_products_has_gradients_of_any_order);
    RUN(a_sum_that_several_kernels_need_has_one_value);
    return test_end();
}
