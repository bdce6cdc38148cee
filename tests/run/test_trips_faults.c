/* test_trips_faults.c - loops whose recording goes wrong: errors that were cleared meanwhile,
 * scopes that end around a loop, conditions of what has no value before a trip, errors from before,
 * memory that is out, also while an error is put into words, and trips that ask for none. */
#include "quern_loop.h"
#include "test.h"

#include <limits.h>

static qn_tensor *ones(qn_ctx *qn, int rank, const int64_t *shape) {
    return qn_full(qn, QN_F32, rank, shape, 1);
}

static void expect(qn_ctx *qn, qn_code code, const char *text) {
    CHECK_INT(qn_error_code(qn), code);
    CHECK(strstr(qn_error(qn), text) != NULL);
    if (!strstr(qn_error(qn), text)) printf("%s\n", qn_error(qn));
    qn_clear_error(qn);
}

static void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
    qn_close(qn);
}

static uint64_t handles(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s.handles;
}

/* ---- errors of the body ---------------------------------------------------------------------- */

static void a_body_that_failed_gives_no_loop_though_its_error_was_cleared(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *h0 = ones(qn, 1, (int64_t[]){4}), *x = ones(qn, 2, (int64_t[]){3, 4});
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *h = qn_loop_state(l, 0);
    CHECK(!qn_matmul(h, x));
    qn_clear_error(qn);
    CHECK_INT(qn_loop_end(l, 1, &h, 1, &h), QN_EGRAPH);
    expect(qn, QN_EGRAPH, "loop_end: a call in the body failed");
    CHECK(!qn_loop_output(l, 0));
    qn_clear_error(qn);
    qn_loop_free(l);
    end(qn);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* A loop whose scope has ended with one around it, then freed or ended among other scopes. */
static void a_loop_ends_no_scope_but_its_own(void) {
    for (int ends = 0; ends < 2; ends++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
        qn_tensor *h0 = qn_keep(ones(qn, 1, (int64_t[]){4}));
        qn_scope s = qn_scope_begin(qn);
        qn_loop *l = qn_loop_begin(qn, 1, &h0, 0, NULL, &QN_LOOP_OPTIONS(.trips = 2));
        qn_tensor *next = qn_loop_state(l, 0);
        qn_scope_end(qn, s);
        qn_scope a = qn_scope_begin(qn), b = qn_scope_begin(qn);
        qn_tensor *t = qn_add(h0, h0);
        if (ends) CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
        qn_loop_free(l);
        float got[4];
        CHECK_INT(qn_read(t, got, sizeof got), QN_OK);
        CHECK(got[0] == 2 && got[3] == 2);
        qn_scope_end(qn, b);
        qn_scope_end(qn, a);
        end(qn);
    }
}

/* And its own with all that is inside of it. */
static void a_loop_ends_its_own_scope(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *h0 = ones(qn, 1, (int64_t[]){4});
    uint64_t before = handles(qn);
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 0, NULL, &QN_LOOP_OPTIONS(.trips = 2));
    qn_scope_begin(qn);
    qn_add(qn_loop_state(l, 0), h0);
    qn_loop_free(l);
    CHECK_INT((int64_t)handles(qn), (int64_t)before);
    end(qn);
}

/* ---- conditions ------------------------------------------------------------------------------ */

static void conditions_are_made_of_states_only(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *h0 = ones(qn, 0, NULL), *x = ones(qn, 1, (int64_t[]){3});
    qn_tensor *list[2] = {x, x};
    for (int way = 0; way < 2; way++) {
        qn_loop *l = qn_loop_begin(qn, 1, &h0, 2, list, NULL);
        qn_tensor *h = qn_loop_state(l, 0);
        qn_tensor *of = way ? qn_cast(qn_loop_index(l), QN_F32) : qn_loop_slice(l, 1);
        CHECK_INT(qn_loop_while(l, qn_lt(qn_add(of, h), qn_like(h, 9))), QN_EGRAPH);
        expect(qn, QN_EGRAPH,
               way ? "loop_while: the condition is made of the index" : "is made of slice 1");
        CHECK_INT(qn_loop_end(l, 1, &h, 0, NULL), QN_EGRAPH);
        qn_clear_error(qn);
        qn_loop_free(l);
    }
    end(qn);
}

/* What a loop around it has in each trip is fine, and so is what is the same in each. */
static void conditions_may_be_made_of_what_is_around(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *h0 = ones(qn, 0, NULL), *all;
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){3}, (float[]){2, 5, 3});
    qn_loop *l = qn_loop_begin(qn, 0, NULL, 1, &x, NULL);
    qn_tensor *bound = qn_loop_slice(l, 0);
    qn_loop *in = qn_loop_begin(qn, 1, &h0, 0, NULL, &QN_LOOP_OPTIONS(.trips = 9));
    qn_tensor *h = qn_loop_state(in, 0), *next = qn_add(h, qn_like(h, 1));
    qn_loop_index(in);
    CHECK_INT(qn_loop_while(in, qn_lt(h, qn_add(bound, h0))), QN_OK);
    CHECK_INT(qn_loop_end(in, 1, &next, 0, NULL), QN_OK);
    qn_tensor *last = qn_loop_final(in, 0);
    qn_loop_free(in);
    CHECK_INT(qn_loop_end(l, 0, NULL, 1, &last), QN_OK);
    all = qn_loop_output(l, 0);
    qn_loop_free(l);
    float got[3] = {0};
    CHECK_INT(qn_read(all, got, sizeof got), QN_OK);
    CHECK(got[0] == 3 && got[1] == 6 && got[2] == 4);
    end(qn);
}

/* ---- bodies as functions --------------------------------------------------------------------- */

static qn_code add_row(qn_ctx *qn, void *arg, qn_tensor *const *h, qn_tensor *const *x,
                       qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)arg;
    next[0] = out[0] = qn_add(h[0], x[0]);
    out[1] = qn_neg(h[0]);
    return QN_OK;
}

static qn_code negated(qn_ctx *qn, void *arg, qn_tensor **results) {
    (void)qn;
    results[0] = qn_neg(arg);
    results[1] = qn_sin(arg);
    return QN_OK;
}

static qn_code squared(qn_ctx *qn, void *arg, qn_tensor **results) {
    (void)qn;
    results[0] = qn_square(arg);
    results[1] = qn_cos(arg);
    return QN_OK;
}

static qn_loop_call call_of(qn_tensor *const *h0, qn_tensor *const *x) {
    return (qn_loop_call){
        .body = add_row, .n = 1, .states = h0, .n_in = 1, .sequences = x, .n_out = 2};
}

static void an_error_from_before_is_none_of_a_loop(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *h0 = ones(qn, 1, (int64_t[]){4}), *x = ones(qn, 2, (int64_t[]){3, 4});
    qn_tensor *condition = qn_full(qn, QN_BOOL, 0, NULL, 1);
    qn_tensor *last = NULL, *all[2] = {0}, *which[2] = {0};
    CHECK(!qn_matmul(x, x));
    qn_loop_call c = call_of(&h0, &x);
    CHECK_INT(qn_loop_run(qn, &c, &last, all), QN_OK);
    CHECK_INT(qn_cond(qn, condition, 2, negated, squared, h0, which), QN_OK);
    expect(qn, QN_ESHAPE, "matmul");
    float got[4] = {0};
    CHECK_INT(qn_read(last, got, sizeof got), QN_OK);
    CHECK(got[0] == 4);
    CHECK_INT(qn_read(which[0], got, sizeof got), QN_OK);
    CHECK(got[0] == -1);
    end(qn);
}

/* Results are NULL also where it is refused at once, and where the condition is no such. */
static void refused_calls_give_no_results(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *h0 = ones(qn, 1, (int64_t[]){4}), *x = ones(qn, 2, (int64_t[]){3, 4});
    qn_tensor *last = h0, *all[2] = {x, x};
    qn_loop_call c = call_of(&h0, &x);
    c.body = NULL;
    CHECK_INT(qn_loop_run(qn, &c, &last, all), QN_EARG);
    CHECK(!last && !all[0] && !all[1]);
    uint64_t before = handles(qn);
    CHECK(qn_cond(qn, h0, 2, negated, squared, h0, all) < 0);
    CHECK(qn_error_code(qn) != QN_OK && !all[0] && !all[1]);
    CHECK_INT((int64_t)handles(qn), (int64_t)before);
    qn_clear_error(qn);
    all[0] = all[1] = x;
    CHECK_INT(qn_cond(qn, NULL, 2, negated, squared, h0, all), QN_ENULL);
    CHECK(!all[0] && !all[1]);
    end(qn);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t left = -1; /* requests until all are refused; below 0: none is */
static uint64_t requested;

static void *get(void *user, size_t size, size_t align) {
    (void)user;
    requested++;
    if (left == 0) return NULL;
    if (left > 0) left--;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void give(void *user, void *p, size_t size) {
    (void)user, (void)size;
    free(p);
}

typedef qn_code attempt(qn_ctx *qn, qn_tensor *h0, qn_tensor *x);

/* Try it with ever more memory, in a context of its own each time that has made so many tensors
 * more, until it has enough. How often that takes. */
static int with_little_memory(attempt *it, int tensors) {
    int n = 0;
    for (qn_code code = QN_ENOMEM; code == QN_ENOMEM && !test_state.bad; n++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .alloc = get, .free = give));
        qn_tensor *h0 = ones(qn, 1, (int64_t[]){4}), *x = ones(qn, 2, (int64_t[]){3, 4});
        for (int i = 0; i < tensors; i++) ones(qn, 0, NULL);
        left = n;
        code = it(qn, h0, x);
        left = -1;
        CHECK_INT(qn_error_code(qn), code);
        qn_close(qn);
    }
    return n;
}

/* All or none of them, and nothing else stays. */
static void check_results(qn_ctx *qn, qn_code code, int n, qn_tensor *const *result,
                          uint64_t before) {
    int64_t some = code ? 0 : n;
    for (int i = 0; i < n; i++) CHECK((result[i] != NULL) == !code);
    CHECK_INT((int64_t)(handles(qn) - before), some);
}

static qn_code run_it(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    uint64_t before = handles(qn);
    qn_tensor *result[3];
    qn_loop_call c = call_of(&h0, &x);
    qn_code code = qn_loop_run(qn, &c, &result[0], &result[1]);
    check_results(qn, code, 3, result, before);
    return code;
}

static qn_code run_in_scope(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    uint64_t before = handles(qn);
    qn_scope scope = qn_scope_begin(qn);
    if (!scope) return qn_error_code(qn);
    qn_tensor *result[3];
    qn_loop_call c = call_of(&h0, &x);
    qn_code code = qn_loop_run(qn, &c, &result[0], &result[1]);
    for (int i = 0; i < 3; i++) CHECK((result[i] != NULL) == !code);
    qn_scope_end(qn, scope);
    CHECK_INT((int64_t)handles(qn), (int64_t)before);
    return code;
}

static qn_code scaled(qn_ctx *qn, void *arg, qn_tensor *const *row, qn_tensor **results) {
    (void)arg;
    results[0] = qn_mul(row[0], row[1]);
    results[1] = qn_cumsum(row[0], 0);
    return results[1] ? QN_OK : qn_error_code(qn);
}

/* Over the rows of x, each times h0. */
static qn_code map_it(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    uint64_t before = handles(qn);
    qn_tensor *result[2];
    qn_vmap_call c = {.body = scaled,
                      .n_in = 2,
                      .inputs = (qn_tensor *[]){x, h0},
                      .in_axes = (int[]){0, QN_UNBATCHED},
                      .n_out = 2};
    qn_scope scope = qn_scope_begin(qn);
    if (!scope) return qn_error_code(qn);
    qn_code code = qn_vmap_run(qn, &c, result);
    for (int i = 0; i < 2; i++) CHECK((result[i] != NULL) == !code);
    qn_scope_end(qn, scope);
    CHECK_INT((int64_t)handles(qn), (int64_t)before);
    return code;
}

static qn_code branch_it(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    qn_tensor *both = qn_full(qn, QN_BOOL, 0, NULL, 1), *result[2];
    (void)x;
    if (!both) return qn_error_code(qn);
    uint64_t before = handles(qn);
    qn_scope scope = qn_scope_begin(qn);
    if (!scope) return qn_error_code(qn);
    qn_code code = qn_cond(qn, both, 2, negated, squared, h0, result);
    for (int i = 0; i < 2; i++) CHECK((result[i] != NULL) == !code);
    qn_scope_end(qn, scope);
    CHECK_INT((int64_t)handles(qn), (int64_t)before);
    return code;
}

/* There is memory for 256 handles at a time: each that is made is once the one that wants more. */
static void results_are_all_there_or_none_is(void) {
    static attempt *const list[] = {run_it, run_in_scope, branch_it, map_it};
    for (int i = 0; i < 4; i++) {
        int least = INT_MAX, most = 0;
        for (int tensors = 192; tensors < 256; tensors++) {
            int n = with_little_memory(list[i], tensors);
            if (n < least) least = n;
            if (n > most) most = n;
        }
        if (least < 2 || most <= least) FAIL("attempt %d: %d to %d requests", i, least, most);
    }
}

static qn_code other_rows(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    qn_tensor *both[2] = {x, h0};
    CHECK(!qn_loop_begin(qn, 1, &h0, 2, both, NULL));
    return qn_error_code(qn);
}

static qn_code other_shape(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    if (!l) return qn_error_code(qn);
    qn_code code = qn_loop_end(l, 1, &x, 0, NULL);
    CHECK(code != QN_OK && !qn_loop_final(l, 0));
    qn_loop_free(l);
    return code;
}

/* Each part of the text is a request that may be refused. */
static void memory_may_be_out_while_an_error_is_told(void) {
    int first = with_little_memory(other_rows, 0), second = with_little_memory(other_shape, 0);
    CHECK(first > 1 && second > first);
}

/* ---- bad arguments -------------------------------------------------------------------------- */

/* Long because each fault is a call and its message. */
static void errors_say_what_does_not_fit(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    qn_tensor *h0 = ones(qn, 1, (int64_t[]){4}), *x = ones(qn, 2, (int64_t[]){3, 4});
    qn_tensor *y = ones(qn, 2, (int64_t[]){5, 4}), *s = ones(qn, 0, NULL);
    qn_tensor *both[2] = {x, y};
    CHECK(!qn_loop_begin(qn, 1, &h0, 2, both, NULL));
    expect(qn, QN_ESHAPE, "sequence 1 has 5 rows, and there are 3 trips");
    CHECK(!qn_loop_begin(qn, 1, &h0, 1, &s, NULL));
    expect(qn, QN_ESHAPE, "sequence 0 is a scalar");
    CHECK(!qn_loop_begin(qn, 1, &h0, 0, NULL, &QN_LOOP_OPTIONS(.trips = 2, .most = s)));
    expect(qn, QN_EDTYPE, "options.most is f32");
    CHECK(!qn_loop_begin(qn, -1, &h0, 0, NULL, NULL));
    expect(qn, QN_EARG, "bad list of states");
    qn_tensor *none = NULL;
    CHECK(!qn_loop_begin(qn, 1, &none, 0, NULL, NULL));
    expect(qn, QN_ENULL, "state 0 is NULL");

    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    CHECK(!qn_loop_final(l, 0));
    expect(qn, QN_EGRAPH, "has not ended");
    CHECK(!qn_loop_state(l, 1));
    expect(qn, QN_ERANGE, "loop_state: 1 of 1");
    qn_assign(h0, qn_neg(h0));
    expect(qn, QN_EGRAPH, "make it a state of the loop");
    float four[4];
    qn_read(qn_loop_state(l, 0), four, sizeof four);
    expect(qn, QN_EGRAPH, "outside of the loop");
    CHECK(qn_loop_while(l, qn_loop_state(l, 0)) == QN_EDTYPE);
    expect(qn, QN_EDTYPE, "the condition is f32 of rank 1");
    qn_loop_free(l);

    l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *wide = qn_concat(2, (qn_tensor *[]){qn_loop_state(l, 0), h0}, 0);
    CHECK(qn_loop_end(l, 1, &wide, 0, NULL) == QN_ESHAPE);
    expect(qn, QN_ESHAPE, "state 0 is f32[4] and becomes f32[8]");
    CHECK(!qn_loop_final(l, 0));
    qn_clear_error(qn);
    qn_loop_free(l);

    l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *other = qn_cast(qn_loop_state(l, 0), QN_F16);
    CHECK(qn_loop_end(l, 1, &other, 0, NULL) == QN_EDTYPE);
    expect(qn, QN_EDTYPE, "state 0 is f32[4] and becomes f16[4]");
    qn_loop_free(l);

    l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *bad = qn_matmul(qn_loop_state(l, 0), x);
    CHECK(!bad);
    CHECK(qn_loop_end(l, 1, &bad, 0, NULL) == QN_ESHAPE);
    expect(qn, QN_ESHAPE, "matmul");
    qn_loop_free(l);

    l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_loop *inner = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *h = qn_loop_state(l, 0);
    CHECK(!h);
    expect(qn, QN_EGRAPH, "a loop inside of its body has not ended");
    qn_loop_free(l);
    qn_loop_free(inner);
    qn_clear_error(qn);
    CHECK(qn_neg(h0) != NULL);
    end(qn);
}

/* ---- of memory, again -----------------------------------------------------------------------*/

/* Ones as data: by a constant there is no gradient, and no input of a graph is one. */
static qn_tensor *given(qn_ctx *qn, int rank, const int64_t *shape) {
    static float data[1000 * 32];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = 1;
    return qn_from(qn, QN_F32, rank, shape, data);
}

static qn_code record_and_run(qn_ctx *qn, qn_tensor *h0, qn_tensor *x) {
    qn_scope scope = qn_scope_begin(qn);
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *h = qn_tanh(qn_add(qn_loop_state(l, 0), qn_loop_slice(l, 0))), *g = NULL;
    qn_loop_end(l, 1, &h, 1, &h);
    qn_tensor *y = qn_sum(qn_square(qn_loop_output(l, 0)), QN_ALL, false);
    qn_loop_free(l);
    if (y) qn_grad(y, NULL, 1, &x, &g);
    qn_code code = g ? qn_realize(1, &g) : qn_error_code(qn);
    qn_scope_end(qn, scope);
    return code;
}

/* Each request may be refused, and what was asked for can be had afterwards. */
static void memory_may_be_out_anywhere(void) {
    int64_t n = 0;
    for (qn_code code = QN_ENOMEM; code && !test_state.bad; n++) {
        qn_options o = QN_OPTIONS(.device = "ref", .alloc = get, .free = give);
        qn_ctx *qn = qn_open(&o);
        qn_tensor *x = given(qn, 2, (int64_t[]){4, 3});
        qn_tensor *h0 = given(qn, 1, (int64_t[]){3});
        left = n;
        code = record_and_run(qn, h0, x);
        left = -1;
        if (code && qn_error_code(qn) != QN_ENOMEM) FAIL("request %d: %s", (int)n, qn_error(qn));
        qn_clear_error(qn);
        CHECK_INT(record_and_run(qn, h0, x), QN_OK);
        qn_close(qn);
    }
    CHECK(n > 20);
}

/* Runs of a static graph ask for as much memory with 1,000 trips as with ten: for the outputs. */
static void trips_ask_for_no_memory(void) {
    uint64_t requests[2];
    for (int k = 0; k < 2; k++) {
        qn_options o = QN_OPTIONS(.device = "cpu", .threads = 1, .alloc = get, .free = give);
        qn_ctx *qn = qn_open(&o);
        qn_tensor *x = given(qn, 2, (int64_t[]){k ? 1000 : 10, 32}), *out;
        qn_tensor *h0 = given(qn, 1, (int64_t[]){32}), *w = given(qn, 2, (int64_t[]){32, 32});
        qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
        qn_tensor *h = qn_tanh(qn_add(qn_matmul(qn_loop_state(l, 0), w), qn_loop_slice(l, 0)));
        qn_loop_end(l, 1, &h, 0, NULL);
        qn_tensor *last = qn_loop_final(l, 0);
        qn_loop_free(l);
        qn_plan *p = qn_plan_new(qn, 1, &x, 1, &last);
        for (int i = 0; i < 3; i++) {
            requested = 0;
            CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
            qn_release(out);
        }
        requests[k] = requested;
        qn_plan_free(p);
        if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
        qn_close(qn);
    }
    CHECK_INT((int64_t)requests[1], (int64_t)requests[0]);
    CHECK(requests[1] <= 2);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_body_that_failed_gives_no_loop_though_its_error_was_cleared);
    RUN(a_loop_ends_no_scope_but_its_own);
    RUN(a_loop_ends_its_own_scope);
    RUN(conditions_are_made_of_states_only);
    RUN(conditions_may_be_made_of_what_is_around);
    RUN(an_error_from_before_is_none_of_a_loop);
    RUN(refused_calls_give_no_results);
    RUN(results_are_all_there_or_none_is);
    RUN(memory_may_be_out_while_an_error_is_told);
    RUN(errors_say_what_does_not_fit);
    RUN(memory_may_be_out_anywhere);
    RUN(trips_ask_for_no_memory);
    return test_end();
}
