/* test_learning_rates.c - learning rates over steps, by numbers worked out from the definitions as
 * recurrences; tools/compare has PyTorch's schedulers beside them. */
#include "quern_nn.h"
#include "test.h"

static void rates_of_steps_fall_at_their_ends(void) {
    qn_rate_options o = QN_RATE_OPTIONS(.kind = QN_RATE_STEP, .rate = 2, .period = 3, .gamma = 0.5);
    const double wanted[] = {2, 2, 2, 1, 1, 1, 0.5, 0.5, 0.5, 0.25};
    for (int t = 0; t < 10; t++) CHECK_NEAR(qn_rate_at(&o, t), wanted[t], 1e-15, 0);
    o.kind = QN_RATE_EXPONENTIAL;
    double rate = 2;
    for (int t = 0; t < 10; t++, rate *= 0.5) CHECK_NEAR(qn_rate_at(&o, t), rate, 1e-15, 0);
    o = QN_RATE_OPTIONS(.rate = 2, .from = 0.25, .period = 2);
    CHECK_NEAR(qn_rate_at(&o, 1), 0.5, 0, 0);
    CHECK_NEAR(qn_rate_at(&o, 2), 2, 0, 0);
}

static void lines_end_where_they_are_told(void) {
    qn_rate_options o = QN_RATE_OPTIONS(.kind = QN_RATE_LINEAR, .rate = 3, .to = 1, .period = 4);
    const double wanted[] = {1, 1.5, 2, 2.5, 3, 3};
    for (int t = 0; t < 6; t++) CHECK_NEAR(qn_rate_at(&o, t), wanted[t], 1e-15, 0);
    o = QN_RATE_OPTIONS(.kind = QN_RATE_POLYNOMIAL, .rate = 4, .period = 4, .power = 2);
    const double squares[] = {4, 2.25, 1, 0.25, 0, 0};
    for (int t = 0; t < 6; t++) CHECK_NEAR(qn_rate_at(&o, t), squares[t], 1e-15, 0);
}

/* cos(pi/3) is 1/2. */
static void cosines_fall_and_begin_again(void) {
    qn_rate_options o =
        QN_RATE_OPTIONS(.kind = QN_RATE_COSINE, .rate = 1, .last = 0.2, .period = 3);
    const double wanted[] = {1, 0.8, 0.4, 0.2, 0.4};
    for (int t = 0; t < 5; t++) CHECK_NEAR(qn_rate_at(&o, t), wanted[t], 1e-14, 0);
    o.kind = QN_RATE_RESTARTS;
    for (int t = 0; t < 30; t++) CHECK_NEAR(qn_rate_at(&o, t), wanted[t % 3], 1e-14, 0);
    o.stretch = 2; /* cycles of 3, 6, 12, 24 begin at 0, 3, 9, 21 */
    for (int begin = 0, length = 3; length < 1000; begin += length, length *= 2) {
        CHECK_NEAR(qn_rate_at(&o, begin), 1, 1e-14, 0);
        CHECK_NEAR(qn_rate_at(&o, begin + length / 3.0), 0.8, 1e-12, 0);
        CHECK_NEAR(qn_rate_at(&o, begin + length - 1e-7), 0.2, 1e-9, 0);
    }
}

static void one_cycle_goes_up_and_further_down(void) {
    qn_rate_options o =
        QN_RATE_OPTIONS(.kind = QN_RATE_ONE_CYCLE, .rate = 1, .period = 21, .rise = 11.0 / 21,
                        .divide = 5, .divide_last = 10, .linear = true);
    CHECK_NEAR(qn_rate_at(&o, 0), 0.2, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 5), 0.6, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 10), 1, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 15), 0.51, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 20), 0.02, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 99), 0.02, 1e-15, 0);
    o.linear = false;
    CHECK_NEAR(qn_rate_at(&o, 5), 0.6, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 2.5), 0.6 - 0.4 * sqrt(0.5), 1e-14, 0);
    o = QN_RATE_OPTIONS(.kind = QN_RATE_ONE_CYCLE, .rate = 1, .period = 20, .rise = 0.25,
                        .linear = true, .three_phase = true);
    CHECK_NEAR(qn_rate_at(&o, 4), 1, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 8), 0.04, 1e-15, 0);
    CHECK_NEAR(qn_rate_at(&o, 19), 0.04e-4, 1e-9, 0);
}

static void warmup_comes_before_any_kind(void) {
    qn_rate_options o =
        QN_RATE_OPTIONS(.kind = QN_RATE_COSINE, .rate = 1, .period = 2, .warmup = 3);
    const double wanted[] = {0.25, 0.5, 0.75, 1, 0.5, 0};
    for (int t = 0; t < 6; t++) CHECK_NEAR(qn_rate_at(&o, t), wanted[t], 0, 1e-15);
}

static void bad_options_have_no_rate(void) {
    CHECK(isnan(qn_rate_at(NULL, 0)));
    CHECK(isnan(qn_rate_at(&(qn_rate_options){.rate = 1}, 0)));
    CHECK(isnan(qn_rate_at(&QN_RATE_OPTIONS(.kind = (qn_rate_kind)99, .rate = 1), 0)));
    CHECK(isnan(qn_rate_at(&QN_RATE_OPTIONS(.kind = QN_RATE_COSINE, .rate = 1), 0)));
    CHECK(isnan(qn_plateau_next(NULL, 0)) && isnan(qn_plateau_next(&(qn_plateau){.rate = 1}, 0)));
}

static void a_rate_falls_on_a_plateau(void) {
    qn_plateau p = QN_PLATEAU(.rate = 1, .factor = 0.5, .patience = 2, .cooldown = 1, .least = 0.2);
    const double metric[] = {5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3};
    const double wanted[] = {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2, 0.2};
    for (int i = 0; i < 14; i++) CHECK_NEAR(qn_plateau_next(&p, metric[i]), wanted[i], 1e-15, 0);
    CHECK_NEAR(p.best, 3, 0, 0);
    p = QN_PLATEAU(.rate = 1, .patience = -1, .maximize = true, .threshold = 0.5, .absolute = true);
    CHECK_NEAR(qn_plateau_next(&p, 1), 1, 0, 0);
    CHECK_NEAR(qn_plateau_next(&p, 1.6), 1, 0, 0);
    CHECK_NEAR(qn_plateau_next(&p, 2), 0.1, 1e-15, 0); /* better by 0.4 alone */
}

static void minus_zero_is_a_zero_that_is_meant(void) {
    qn_rate_options o =
        QN_RATE_OPTIONS(.kind = QN_RATE_STEP, .rate = 1, .period = 2, .gamma = -0.0);
    CHECK_NEAR(qn_rate_at(&o, 1), 1, 0, 0);
    CHECK_NEAR(qn_rate_at(&o, 2), 0, 0, 0);
    o.gamma = 0;
    CHECK_NEAR(qn_rate_at(&o, 2), 0.1, 1e-15, 0);
    o = QN_RATE_OPTIONS(.kind = QN_RATE_POLYNOMIAL, .rate = 1, .period = 2, .power = -0.0);
    for (int t = 0; t < 4; t++) CHECK_NEAR(qn_rate_at(&o, t), 1, 0, 0);
    qn_plateau p = QN_PLATEAU(.rate = 1e-9, .patience = -1, .threshold = -0.0, .epsilon = -0.0);
    CHECK_NEAR(qn_plateau_next(&p, 1), 1e-9, 0, 0);
    CHECK_NEAR(qn_plateau_next(&p, 1 - 1e-9), 1e-9, 0, 0);
    CHECK_NEAR(qn_plateau_next(&p, 1), 1e-10, 1e-15, 0);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(rates_of_steps_fall_at_their_ends);
    RUN(lines_end_where_they_are_told);
    RUN(cosines_fall_and_begin_again);
    RUN(one_cycle_goes_up_and_further_down);
    RUN(warmup_comes_before_any_kind);
    RUN(bad_options_have_no_rate);
    RUN(a_rate_falls_on_a_plateau);
    RUN(minus_zero_is_a_zero_that_is_meant);
    return test_end();
}
