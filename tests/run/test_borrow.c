/* test_borrow.c - memory of the caller's as a tensor, and a tensor's memory for the caller: where
 * both are, that they stay as they are, and when memory is given back. */
#include "failing_memory.h"
#include "quern.h"
#include "test.h"

enum { N = 64 };

typedef struct lent {
    _Alignas(64) float v[N + 1];
    int back;
} lent;

static void give_back(void *owner) {
    ((lent *)owner)->back++;
}

static void fill(lent *l) {
    for (int i = 0; i <= N; i++) l->v[i] = (float)i;
    l->back = 0;
}

static qn_tensor *borrow(qn_ctx *qn, lent *l, int at) {
    return qn_borrow(qn, QN_F32, 1, (int64_t[]){N}, l->v + at,
                     &QN_LENDER(.give_back = give_back, .owner = l));
}

static qn_ctx *opened(const char *device) {
    return qn_open(&QN_OPTIONS(.device = device, .threads = 1));
}

static float element(qn_tensor *t, int i) {
    float v[N] = {0};
    if (qn_read(t, v, sizeof v)) FAIL("%s", qn_error(qn_context(t)));
    return v[i];
}

static void borrowed_memory_is_not_copied(void) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = opened(devices[d]);
        lent l;
        fill(&l);
        qn_tensor *x = borrow(qn, &l, 0), *y = qn_add(x, x);
        const void *at = NULL;
        CHECK_INT(qn_data(x, &at), QN_OK);
        CHECK(at == l.v);
        CHECK_INT((int)element(y, 5), 10);
        CHECK_INT(l.back, 0);
        qn_release(x);
        qn_release(y);
        qn_close(qn);
        CHECK_INT(l.back, 1);
    }
}

static void it_is_given_back_when_nothing_needs_it(void) {
    qn_ctx *qn = opened("cpu");
    lent l;
    fill(&l);
    qn_set(qn, "history", "0");
    qn_tensor *x = borrow(qn, &l, 0), *y = qn_detach(qn_mul(x, x));
    qn_release(x);
    CHECK_INT(l.back, 0); /* y is to be computed of it */
    CHECK_INT((int)element(y, 3), 9);
    qn_release(y);
    CHECK_INT((int)element(qn_from(qn, QN_F32, 1, (int64_t[]){N}, l.v), 1), 1);
    qn_close(qn);
    CHECK_INT(l.back, 1);
}

/* Kernels of whole vectors, too, ask for no more than an element's alignment. */
static void it_may_lie_at_any_element(void) {
    for (int at = 0; at < 17; at++) {
        _Alignas(64) float v[N * N + 32], sum = 0;
        qn_ctx *qn = opened("cpu");
        lent l = {.back = 0};
        const void *place = NULL;
        for (int i = 0; i < N * N + 32; i++) v[i] = (float)(i % 7);
        qn_lender lender = QN_LENDER(.give_back = give_back, .owner = &l);
        qn_tensor *x = qn_borrow(qn, QN_F32, 2, (int64_t[]){N, N}, v + at, &lender);
        qn_tensor *y = qn_matmul(x, qn_transpose(x, 0, 1));
        CHECK_INT(qn_data(x, &place), QN_OK);
        CHECK(place == v + at);
        double want = 0;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                for (int k = 0; k < N; k++)
                    want += (double)v[at + i * N + k] * (double)v[at + j * N + k];
        CHECK_INT(qn_read(qn_sum(qn_sum(y, 1, false), 0, false), &sum, sizeof sum), QN_OK);
        CHECK_NEAR((double)sum, want, 1e-6, 0);
        CHECK_INT(l.back, 0);
        qn_close(qn);
        CHECK_INT(l.back, 1);
    }
}

static void what_does_not_lie_right_is_copied(void) {
    qn_ctx *qn = opened("cpu");
    lent l;
    fill(&l);
    float between[N + 1];
    memcpy((char *)between + 2, l.v + 1, N * sizeof *between);
    qn_lender lender = QN_LENDER(.give_back = give_back, .owner = &l);
    qn_tensor *x = qn_borrow(qn, QN_F32, 1, (int64_t[]){N}, (char *)between + 2, &lender);
    CHECK_INT(l.back, 1);
    memset(between, 0, sizeof between);
    l.v[3] = 100;
    CHECK_INT((int)element(x, 2), 3);
    qn_tensor *plain = qn_borrow(qn, QN_F32, 1, (int64_t[]){N}, l.v, NULL);
    l.v[3] = 3;
    CHECK_INT((int)element(plain, 3), 100);
    CHECK(!qn_borrow(qn, QN_F32, 1, (int64_t[]){N}, NULL, &QN_LENDER(.give_back = give_back)));
    CHECK_INT(qn_error_code(qn), QN_ENULL);
    qn_clear_error(qn);
    CHECK(!qn_borrow(qn, (qn_dtype)99, 0, NULL, l.v, NULL));
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_close(qn);
    CHECK_INT(l.back, 1);
}

/* Handles come by many at once, so enough are borrowed that some need memory, too. */
static void what_was_not_borrowed_is_not_given_back(void) {
    enum { MANY = 300 };
    int64_t failed = 0;
    for (int k = 0; k < 400; k++) {
        int left = -1, made = 0;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .alloc = failing_alloc,
                                         .free = plain_free, .alloc_user = &left));
        lent l;
        fill(&l);
        left = k;
        for (int i = 0; i < MANY; i++) made += borrow(qn, &l, 0) != NULL;
        failed += left < 0;
        left = -1;
        CHECK_INT(l.back, 0);
        qn_close(qn);
        CHECK_INT(l.back, made);
        if (made == MANY) break;
    }
    CHECK(failed > 2);
}

/* x becomes x + 1 over and over, which may be computed in place, but not in what is lent. */
static void borrowed_memory_is_not_written(void) {
    qn_ctx *qn = opened("cpu");
    lent l;
    fill(&l);
    qn_tensor *x = borrow(qn, &l, 0);
    for (int i = 0; i < 3; i++) {
        qn_scope s = qn_scope_begin(qn);
        CHECK_INT(qn_assign(x, qn_add(x, qn_like(x, 1))), QN_OK);
        qn_scope_end(qn, s);
        CHECK_INT(qn_realize(1, &x), QN_OK);
    }
    CHECK_INT((int)element(x, 7), 10);
    for (int i = 0; i < N; i++) CHECK_INT((int)l.v[i], i);
    float zeros[N] = {0};
    qn_tensor *w = borrow(qn, &l, 0);
    CHECK_INT(qn_write(w, zeros, sizeof zeros), QN_OK);
    CHECK_INT((int)element(w, 7), 0);
    CHECK_INT((int)l.v[7], 7);
    qn_close(qn);
}

static void a_tensors_memory_stays_while_it_is_held(void) {
    qn_ctx *qn = opened("cpu");
    float v[N];
    for (int i = 0; i < N; i++) v[i] = (float)i;
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){N}, v), *held = qn_detach(x);
    const void *at = NULL, *same = NULL;
    CHECK_INT(qn_data(held, &at), QN_OK);
    CHECK_INT(qn_data(x, &same), QN_OK);
    CHECK(at == same && at);
    for (int i = 0; i < 3; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_assign(x, qn_mul(x, qn_like(x, 2)));
        qn_scope_end(qn, s);
        qn_realize(1, &x);
    }
    CHECK_INT((int)element(x, 3), 24);
    for (int i = 0; i < N; i++) CHECK_INT((int)((const float *)at)[i], i);
    CHECK_INT(qn_data(x, NULL), QN_ENULL);
    qn_clear_error(qn);
    CHECK_INT(qn_data(NULL, &at), QN_ENULL);
    CHECK(!at);
    qn_close(qn);
}

/* What is not 0 is true, as in C and in NumPy, by whichever way it comes in. */
static void check_truths(qn_tensor *x) {
    uint8_t bytes[N];
    double sum, mean;
    int64_t most;
    CHECK_INT(qn_read(x, bytes, N), QN_OK);
    for (int i = 0; i < N; i++) CHECK_INT(bytes[i], i % 4 != 0);
    CHECK_INT(qn_read(qn_sum(qn_cast(x, QN_F64), 0, false), &sum, sizeof sum), QN_OK);
    CHECK_INT((int)sum, N / 4 * 3);
    CHECK_INT(qn_read(qn_cast(qn_mean(x, 0, false), QN_F64), &mean, sizeof mean), QN_OK);
    CHECK(mean == .75);
    CHECK_INT(qn_read(qn_argmax(x, 0, false), &most, sizeof most), QN_OK);
    CHECK_INT((int)most, 1);
    qn_tensor *same = qn_eq(x, qn_ne(qn_cast(x, QN_I32), qn_scalar(qn_context(x), QN_I32, 0)));
    CHECK_INT(qn_read(qn_sum(qn_cast(same, QN_F64), 0, false), &sum, sizeof sum), QN_OK);
    CHECK_INT((int)sum, N);
}

static void bools_of_other_bytes_are_made_1(void) {
    static const struct {
        const char *device, *cpu;
    } ways[] = {{"cpu", ""}, {"cpu", "cc"}, {"ref", ""}};
    static const uint8_t other[4] = {0, 1, 2, 255};
    _Alignas(64) uint8_t given[N], ones[N];
    const int64_t n = N;
    for (int i = 0; i < N; i++) given[i] = other[i % 4], ones[i] = 1;
    for (int d = 0; d < 3; d++) {
        setenv("QN_CPU", ways[d].cpu, 1);
        qn_ctx *qn = opened(ways[d].device);
        lent l = {.back = 0};
        qn_lender lender = QN_LENDER(.give_back = give_back, .owner = &l);
        check_truths(qn_from(qn, QN_BOOL, 1, &n, given));
        check_truths(qn_borrow(qn, QN_BOOL, 1, &n, given, &lender));
        CHECK_INT(l.back, 1); /* a copy */
        CHECK_INT(given[3], 255);
        qn_tensor *x = qn_borrow(qn, QN_BOOL, 1, &n, ones, &lender);
        CHECK_INT(l.back, 1);
        CHECK_INT(qn_write(x, given, N), QN_OK);
        check_truths(x);
        x = qn_from(qn, QN_BOOL, 2, (int64_t[]){2, N}, (uint8_t[2 * N]){0});
        x = qn_variable(x);
        qn_tensor *row = qn_select(x, 0, 1);
        CHECK_INT(qn_write(row, given, N), QN_OK);
        check_truths(qn_select(x, 0, 1));
        if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
        qn_close(qn);
    }
    unsetenv("QN_CPU");
}

/* Longer than what is converted at a time. */
static void many_bools_are_made_1(void) {
    enum { MANY = 10001 };
    static uint8_t given[MANY], got[MANY];
    qn_ctx *qn = opened("cpu");
    for (int i = 0; i < MANY; i++) given[i] = (uint8_t)(i % 256);
    CHECK_INT(qn_read(qn_from(qn, QN_BOOL, 1, (int64_t[]){MANY}, given), got, MANY), QN_OK);
    for (int i = 0; i < MANY; i++) CHECK_INT(got[i], given[i] != 0);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(borrowed_memory_is_not_copied);
    RUN(it_is_given_back_when_nothing_needs_it);
    RUN(what_was_not_borrowed_is_not_given_back);
    RUN(it_may_lie_at_any_element);
    RUN(what_does_not_lie_right_is_copied);
    RUN(borrowed_memory_is_not_written);
    RUN(a_tensors_memory_stays_while_it_is_held);
    RUN(bools_of_other_bytes_are_made_1);
    RUN(many_bools_are_made_1);
    return test_end();
}
