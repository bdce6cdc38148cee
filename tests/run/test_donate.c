/* test_donate.c - donated buffers: assigned values computed in the memory of those they replace;
 * kernels that allow it and kernels that do not, the memory it saves, and random programs of
 * assignments whose tensors others hold, against arithmetic done here. */
#include "base/base.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "quern.h"
#include "run/run.h"
#include "test.h"
#include "transform/transform.h"

#include <math.h>

/* ---- kernels --------------------------------------------------------------------------------- */

/* How many pairs there are in the kernel as the schedule makes it; -1: no such kernel. */
static int overs(const char *text, const char *schedule) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    inplace_pair over[8];
    volatile int n = -1;
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) {
        kernel *k = ir_parse(qn, text);
        if (k && transform_lines(k, schedule, NULL) >= 0) {
            run_passes(k);
            n = inplace_pairs(k, 8, over);
        }
        if (k) ir_close(k);
    }
    guard_close(&qn->heap, &g);
    if (n < 0) printf("  %s\n", qn_error(qn));
    qn_close(qn);
    return n;
}

#define TWO "kernel \"k\" {\n arg a0 f32[1000] write inplace\n arg a1 f32[1000] read\n"
#define ONE TWO " for i < 1000 {\n a0[i] = add(a1[i], f32(1))\n }\n}\n"

static void an_element_for_an_element_is_borne(void) {
    CHECK_INT(overs(ONE, ""), 1);
    CHECK_INT(overs(ONE, "split i 16 -> o v\nvec v\npar o"), 1);
    CHECK_INT(overs(ONE, "split i 16 -> o v\npeel o\nvec v\nvec v_1"), 1);
    CHECK_INT(overs(TWO " for i < 10 {\n for j < 100 {\n"
                        "  a0[100*i + j] = mul(a1[100*i + j], a1[100*i + j])\n }\n }\n}\n",
                    "swap i j\npar j"),
              1);
}

static void an_element_that_is_read_elsewhere_is_not(void) {
    CHECK_INT(overs(TWO " for i < 1000 {\n a0[i] = a1[999 - i]\n }\n}\n", ""), 0);
    CHECK_INT(overs(TWO " for i < 999 {\n a0[i] = a1[i + 1]\n }\n}\n", ""), 0);
    CHECK_INT(overs(TWO " for i < 1000 {\n a0[i] = add(a1[i], a1[0])\n }\n}\n", ""), 0);
    CHECK_INT(overs(TWO
                    " for i < 10 {\n for j < 100 {\n"
                    "  a0[100*i + j] = a1[100*i + j]\n }\n }\n"
                    " for k < 10 {\n for l < 100 {\n  a0[100*k + l] = a1[100*k + l]\n }\n }\n}\n",
                    ""),
              0); /* twice */
    CHECK_INT(
        overs(TWO " for r < 2 {\n for i < 1000 {\n a0[i] = add(a1[i], f32(1))\n }\n }\n}\n", ""),
        0);
    CHECK_INT(
        overs("kernel \"k\" {\n arg a0 f32[1000] write inplace\n arg a1 f32[1000] read\n"
              " arg a2 f32[1000] write\n for i < 1000 {\n a0[i] = f32(1)\n a2[i] = a1[i]\n }\n}\n",
              ""),
        0); /* read behind the store */
    CHECK_INT(
        overs("kernel \"k\" {\n arg a0 f32[1000] write inplace\n arg a1 f32[1000] read\n"
              " arg a2 f32[1000] write\n for i < 1000 {\n a2[i] = a1[i]\n a0[i] = a1[i]\n }\n}\n",
              ""),
        1);
    CHECK_INT(overs("kernel \"k\" {\n arg a0 f32[1000] write inplace\n arg a1 f32[1000] read\n"
                    " arg a2 f32[4000] write\n for i < 200 {\n for j < 8 {\n"
                    "  a2[8*i + j] = a1[4*i + j]\n"
                    "  a0[4*i + j; valid=(-j + 3 >= 0)] = f32(1)\n }\n }\n}\n",
                    ""),
              0); /* where the store is off the element is the next trip's */
    CHECK_INT(
        overs("kernel \"k\" {\n arg a0 f32[1000] write inplace\n arg a1 f32[1000] read\n"
              " arg a2 f32[1000] write\n for i < 1000 {\n a2[i] = a1[i]\n a0[i] = a1[i]\n }\n}\n",
              "pad i 16\nsplit i 16 -> o v\nvec v\npar o"),
        1);
    CHECK_INT(overs("kernel \"k\" {\n arg a0 f32[1000] write\n arg a1 f32[1000] read\n"
                    " for i < 1000 {\n a0[i] = a1[i]\n }\n}\n",
                    ""),
              0); /* nobody asked for it */
}

static void a_store_in_the_last_of_some_trips_is_borne(void) {
    const char *text = "kernel \"k\" {\n arg a0 f32[64] write inplace\n arg a1 f32[64] read\n"
                       " arg a2 f32[6400] read\n local t0 f32[64]\n def t0 = f32(0)\n for s < 10 "
                       "{\n for j < 64 {\n"
                       "  for r < 10 {\n t0[j] += a2[640*s + 64*r + j]\n }\n"
                       "  for last < %s {\n a0[j] = add(a1[j], t0[j])\n }\n }\n }\n}\n";
    char some[600];
    snprintf(some, sizeof some, text, "max(s, 8) - 8");
    CHECK_INT(overs(some, ""), 1);
    snprintf(some, sizeof some, text, "min(s, 1)");
    CHECK_INT(overs(some, ""), 0);
}

static void in_place_outputs_are_not_stored_nontemporally(void) {
    CHECK_INT(overs(ONE, "nontemporal a0"), -1);
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum { BIG = 1 << 20 };

static qn_stats stats_of(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

static qn_tensor *full(qn_ctx *qn, double value) {
    static float x[BIG];
    for (int i = 0; i < BIG; i++) x[i] = (float)value;
    return qn_from(qn, QN_F32, 1, (int64_t[]){BIG}, x);
}

static float first_of(qn_tensor *t) {
    static float x[BIG];
    if (qn_read(t, x, sizeof x)) FAIL("%s", qn_error(qn_context(t)));
    for (int i = 1; i < BIG; i++)
        if (x[i] != x[0]) return NAN;
    return x[0];
}

static void a_step_takes_no_memory_for_new_values(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    qn_tensor *p = full(qn, 1), *m = full(qn, 0), *g = full(qn, 2);
    uint64_t before = stats_of(qn).peak_bytes;
    for (int i = 0; i < 3; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *moment = qn_add(qn_mul(m, qn_like(m, 0.5)), g);
        qn_assign(p, qn_sub(p, qn_mul(moment, qn_like(m, 0.25))));
        qn_assign(m, moment);
        qn_scope_end(qn, s);
        qn_realize(1, &p);
    }
    CHECK_INT(stats_of(qn).replaced, 6);
    CHECK(stats_of(qn).peak_bytes < before + 4 * BIG / 2);
    CHECK(first_of(m) == 3.5f);
    CHECK(first_of(p) == 1 - 0.25f * (2 + 3 + 3.5f));
    qn_close(qn);
}

/* p becomes as many times itself; the tensors on the way end with the scope. */
static void multiply(qn_tensor *p, double by) {
    qn_scope s = qn_scope_begin(qn_context(p));
    qn_assign(p, qn_mul(p, qn_like(p, by)));
    qn_scope_end(qn_context(p), s);
}

static void who_holds_the_old_value_keeps_it(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    qn_tensor *p = full(qn, 1), *same = qn_detach(p), *later = qn_add(p, qn_like(p, 10));
    multiply(p, 3);
    CHECK(first_of(p) == 3);
    CHECK_INT(stats_of(qn).replaced, 0);
    CHECK(first_of(later) == 11 && first_of(same) == 1); /* memory of their own from now on */
    multiply(p, 3);
    CHECK(first_of(p) == 9);
    CHECK_INT(stats_of(qn).replaced, 1);
    qn_tensor *sum = qn_sum(p, 0, false); /* another kernel of the same request reads it */
    multiply(p, 2);
    float total;
    CHECK(!qn_read(sum, &total, sizeof total) && total == 9.0f * BIG && first_of(p) == 18);
    qn_close(qn);
}

static void under_a_tape_all_values_stay(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    qn_tensor *p = full(qn, 3);
    qn_tape *tape = qn_tape_begin(qn);
    multiply(p, 3);
    CHECK(first_of(p) == 9);
    CHECK_INT(stats_of(qn).replaced, 0);
    qn_tape_end(tape);
    qn_close(qn);
}

static void a_static_graph_donates_its_parameters(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    qn_tensor *p = full(qn, 1), *x = full(qn, 2), *loss;
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *out = qn_max(qn_mul(p, x), 0, false);
    qn_assign(p, qn_add(p, x));
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &out);
    qn_scope_end(qn, s);
    float most;
    for (int i = 0; i < 3; i++) {
        CHECK(!qn_plan_run(plan, &x, &loss) && !qn_read(loss, &most, sizeof most));
        CHECK(most == 2.0f * (float)(1 + 2 * i));
        qn_release(loss);
    }
    uint64_t replaced = stats_of(qn).replaced;
    qn_tensor *held = qn_detach(p);
    CHECK(!qn_plan_run(plan, &x, &loss) && first_of(held) == 7 && first_of(p) == 9);
    CHECK_INT(stats_of(qn).replaced, replaced);
    qn_release(loss);
    CHECK(!qn_plan_run(plan, &p, &loss) &&
          first_of(p) == 18); /* the parameter itself is the input */
    CHECK_INT(stats_of(qn).replaced, replaced);
    qn_plan_free(plan);
    qn_close(qn);
}

static void a_run_that_fails_leaves_values_and_outputs(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
    qn_tensor *p = full(qn, 1), *x = full(qn, 2), *twice = qn_add(p, p);
    qn_assign(p, qn_add(p, x));
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &twice);
    int failed = 0;
    for (uint64_t k = 1;; k++) {
        qn_tensor *out = x;
        qn->heap.fail_at = qn->heap.requests + k;
        int code = qn_plan_run(plan, &x, &out);
        qn->heap.fail_at = 0;
        if (!code) break;
        failed++;
        CHECK_INT(code, QN_ENOMEM);
        CHECK(out == x && first_of(p) == 1);
        qn_clear_error(qn);
    }
    CHECK(failed > 0 && first_of(p) == 3);
    qn_plan_free(plan);
    qn_close(qn);
}

/* ---- donated inputs ------------------------------------------------------------------------- */

enum { STATE = 4096 };

static qn_tensor *state_of(qn_ctx *qn, float first) {
    float v[STATE];
    for (int i = 0; i < STATE; i++) v[i] = first + (float)i;
    return qn_from(qn, QN_F32, 1, (int64_t[]){STATE}, v);
}

static float head_of(qn_tensor *t) {
    float v[STATE] = {NAN};
    CHECK_INT(qn_read(t, v, sizeof v), QN_OK);
    return v[0];
}

/* 2 x + y and y + 1 of inputs x and y; `donate` as the options have it. */
static qn_plan *two_states(qn_ctx *qn, uint64_t donate) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *in[2] = {state_of(qn, 0), state_of(qn, 0)};
    qn_tensor *out[2] = {qn_add(qn_add(in[0], in[0]), in[1]), qn_add(in[1], qn_like(in[1], 1))};
    qn_plan *p = qn_plan_new_with(qn, 2, in, 2, out, &QN_PLAN_OPTIONS(.donate = donate));
    qn_scope_end(qn, s);
    return p;
}

static bool is_used_up(qn_ctx *qn, qn_tensor *t, const char *name) {
    float v[STATE];
    bool is = qn_read(t, v, sizeof v) == QN_EGRAPH && strstr(qn_error(qn), "was donated") &&
              strstr(qn_error(qn), name);
    qn_clear_error(qn);
    return is;
}

static void a_state_that_goes_round_takes_its_memory_once(void) {
    uint64_t peak[2];
    for (int donated = 0; donated < 2; donated++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
        qn_plan *plan = two_states(qn, donated ? 2 : 0);
        qn_tensor *in[2] = {state_of(qn, 3), state_of(qn, 5)}, *out[2];
        const uint64_t before = stats_of(qn).replaced;
        for (int i = 0; i < 6; i++) {
            CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
            CHECK(head_of(out[0]) == 6 + 5 + (float)i && head_of(out[1]) == 6 + (float)i);
            CHECK(head_of(in[0]) == 3);
            qn_set_name(in[1], "state");
            CHECK(is_used_up(qn, in[1], "state") == donated);
            qn_release(out[0]), qn_release(in[1]);
            in[1] = out[1];
        }
        CHECK_INT(stats_of(qn).replaced - before, donated ? 6 : 0);
        peak[donated] = stats_of(qn).peak_bytes;
        qn_plan_free(plan);
        qn_close(qn);
    }
    CHECK(peak[1] + STATE * sizeof(float) <= peak[0]);
}

/* Whether or not an output was written there: what is made of it and not computed is gone, too. */
static void a_donated_value_is_used_up_until_it_has_another(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    qn_plan *plan = two_states(qn, 3);
    float v[STATE] = {7};
    qn_tensor *in[2] = {state_of(qn, 1), state_of(qn, 2)}, *out[2];
    qn_tensor *read = qn_neg(in[0]), *unread = qn_exp(in[0]), *same = qn_detach(in[1]);
    CHECK(head_of(read) == -1 && head_of(same) == 2);
    CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
    CHECK(head_of(out[0]) == 4 && head_of(out[1]) == 3);
    CHECK(is_used_up(qn, in[0], "f32") && is_used_up(qn, in[1], "f32"));
    CHECK(is_used_up(qn, unread, "f32") && head_of(read) == -1 && head_of(same) == 2);
    CHECK_INT(qn_plan_run(plan, in, out), QN_EGRAPH);
    qn_clear_error(qn);
    CHECK_INT(qn_write(in[0], v, sizeof v), QN_OK);
    CHECK(head_of(in[0]) == 7);
    CHECK_INT(qn_assign(in[1], out[1]), QN_OK);
    CHECK(head_of(in[1]) == 3);
    qn_plan_free(plan);
    qn_close(qn);
}

static void what_is_not_the_runs_alone_stays(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    qn_plan *plan = two_states(qn, 3);
    qn_tensor *x = state_of(qn, 1), *e = qn_add(x, x), *out[2];
    CHECK_INT(qn_plan_run(plan, (qn_tensor *[]){x, x}, out), QN_EARG);
    CHECK(strstr(qn_error(qn), "input 0 is donated, and input 1 is the same value") != NULL);
    qn_clear_error(qn);
    CHECK(head_of(x) == 1);
    qn_tensor *y = state_of(qn, 4);
    CHECK_INT(qn_plan_run(plan, (qn_tensor *[]){e, y}, out), QN_OK);
    CHECK(head_of(e) == 2 && head_of(out[0]) == 8 && is_used_up(qn, y, "f32"));
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *z = state_of(qn, 9);
    CHECK_INT(qn_plan_run(plan, (qn_tensor *[]){x, z}, out), QN_OK);
    CHECK(head_of(x) == 1 && head_of(z) == 9);
    qn_tape_end(tape);
    qn_plan_free(plan);
    CHECK(!qn_plan_new_with(qn, 1, &x, 1, &e, &QN_PLAN_OPTIONS(.donate = 2)));
    CHECK(strstr(qn_error(qn), "donate is 0x2, and there are 1 inputs") != NULL);
    qn_close(qn);
}

/* ---- states whose names are let go ---------------------------------------------------------- */

/* x + y and y + 1 of x and y, of which the second takes y's place; by index k of y, too, which is
 * checked. */
static qn_plan *one_state(qn_ctx *qn, bool indexed) {
    qn_scope s = qn_scope_begin(qn);
    int64_t k = 0;
    qn_tensor *in[3] = {state_of(qn, 0), state_of(qn, 0),
                        qn_from(qn, QN_I64, 1, &(int64_t){1}, &k)};
    qn_tensor *sum = qn_add(in[0], in[1]);
    if (indexed) sum = qn_add(sum, qn_gather(in[0], in[2], 0));
    qn_tensor *out[2] = {sum, qn_add(in[1], qn_like(in[1], 1))};
    qn_plan *p =
        qn_plan_new_with(qn, 2 + indexed, in, 2, out,
                         &QN_PLAN_OPTIONS(.states = 1, .state_input = 1, .state_output = 1));
    qn_scope_end(qn, s);
    CHECK(p != NULL);
    return p;
}

static void a_state_with_one_name_is_written_over(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    qn_plan *plan = one_state(qn, false);
    qn_tensor *in[2] = {state_of(qn, 3), state_of(qn, 5)}, *out[2];
    const uint64_t before = stats_of(qn).replaced;
    for (int i = 0; i < 4; i++) {
        CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
        CHECK(head_of(out[0]) == 8 + (float)i && head_of(out[1]) == 6 + (float)i);
        CHECK(head_of(in[0]) == 3 && is_used_up(qn, in[1], "f32"));
        qn_release(out[0]), qn_release(in[1]);
        in[1] = out[1];
    }
    CHECK_INT(stats_of(qn).replaced - before, 4);
    qn_plan_free(plan);
    qn_close(qn);
}

/* Another name, an expression of it, a tape, a second place among the inputs. */
static void a_state_that_somebody_needs_stays(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    qn_plan *plan = one_state(qn, false);
    qn_tensor *x = state_of(qn, 1), *y = state_of(qn, 5), *out[2];
    const uint64_t before = stats_of(qn).replaced;
    qn_tensor *in[2] = {x, y};
    qn_keep(y);
    CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
    qn_release(y);
    CHECK(head_of(out[1]) == 6 && head_of(y) == 5);
    qn_tensor *later = qn_neg(y);
    CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
    CHECK(head_of(out[1]) == 6 && head_of(y) == 5 && head_of(later) == -5);
    qn_release(later);
    qn_tape *tape = qn_tape_begin(qn);
    CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
    qn_tape_end(tape);
    CHECK(head_of(y) == 5);
    CHECK_INT(qn_plan_run(plan, (qn_tensor *[]){y, y}, out), QN_OK);
    CHECK(head_of(out[0]) == 10 && head_of(out[1]) == 6 && head_of(y) == 5);
    CHECK_INT(stats_of(qn).replaced, before);
    CHECK_INT(qn_plan_run(plan, in, out), QN_OK);
    CHECK(head_of(out[1]) == 6 && is_used_up(qn, y, "f32"));
    CHECK(!qn_plan_new_with(qn, 1, &x, 1, &out[1], &QN_PLAN_OPTIONS(.states = 2)));
    CHECK(strstr(qn_error(qn), "2 states from input 0 and output 0 on") != NULL);
    qn_clear_error(qn);
    CHECK(
        !qn_plan_new_with(qn, 1, &x, 1, &out[1], &QN_PLAN_OPTIONS(.states = 1, .state_input = 1)));
    qn_plan_free(plan);
    qn_close(qn);
}

/* It is looked at before anything is written. */
static void an_index_outside_leaves_the_state(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    CHECK_INT(qn_set(qn, "check", "1"), QN_OK);
    qn_plan *plan = one_state(qn, true);
    const uint64_t before = stats_of(qn).replaced;
    qn_tensor *in[3] = {state_of(qn, 3), state_of(qn, 5)}, *out[2];
    for (int i = 0; i < 3; i++) {
        int64_t k = i == 1 ? STATE : 2;
        in[2] = qn_from(qn, QN_I64, 1, &(int64_t){1}, &k);
        qn_code code = qn_plan_run(plan, in, out);
        CHECK_INT(code, i == 1 ? QN_ERANGE : QN_OK);
        if (code) CHECK(strstr(qn_error(qn), "index 4096 of an axis of 4096") != NULL);
        qn_clear_error(qn);
        if (!code) CHECK(head_of(out[0]) == 8 + 5 + (float)(i / 2));
        if (!code) in[1] = out[1];
        CHECK(head_of(in[1]) == 6 + (float)(i / 2));
    }
    CHECK_INT(stats_of(qn).replaced - before, 2);
    qn_plan_free(plan);
    qn_close(qn);
}

/* ---- random programs ------------------------------------------------------------------------- */

enum { TENSORS = 5, MOST_N = 3000, HELD = 3 };
typedef struct value {
    qn_tensor *t;
    int32_t x[MOST_N];
} value;

typedef struct program {
    qn_ctx *qn;
    uint64_t seed;
    int n;
    value state[TENSORS], held[HELD];
    int helds;
} program;

/* The tensor's next value from others', by an operation on elements, along the row, or of all. Sums
 * and products wrap, as the library's do. */
static value next_of(program *p, const value *a, const value *b) {
    value v = {.t = a->t};
    int n = p->n, which = (int)test_below(&p->seed, 6);
    uint32_t sum = 0;
    for (int i = 0; i < n; i++) sum += (uint32_t)b->x[i];
    for (int i = 0; i < n; i++) {
        uint32_t old = (uint32_t)a->x[i], by = (uint32_t)b->x[i];
        uint32_t other = which == 0   ? by
                         : which == 1 ? (uint32_t)b->x[n - 1 - i]
                         : which == 2 ? sum
                         : which == 3 ? (uint32_t)b->x[0]
                                      : 7;
        v.x[i] = (int32_t)(which == 4 ? old * by : which == 5 ? by : old + other);
    }
    qn_tensor *other = b->t;
    if (which == 1) other = qn_flip(b->t, 0);
    if (which == 2) other = qn_cast(qn_sum(b->t, 0, true), QN_I32);
    if (which == 3) other = qn_slice(b->t, 0, 0, 1, 1);
    v.t = which == 4   ? qn_mul(a->t, b->t)
          : which == 5 ? qn_mul(b->t, qn_like(b->t, 1))
                       : qn_add(a->t, other);
    return v;
}

static void check_value(program *p, const value *v, const char *what) {
    static int32_t got[MOST_N];
    size_t size = (size_t)p->n * sizeof *got;
    if (qn_read(v->t, got, size)) FAIL("%s", qn_error(p->qn));
    if (memcmp(got, v->x, size) != 0) FAIL("%s differs, %d elements", what, p->n);
}

/* Some tensors get values made of some, old and new; results and old values are held or not. */
static void one_round(program *p) {
    static value next[TENSORS];
    qn_scope s = qn_scope_begin(p->qn);
    bool set[TENSORS] = {false};
    for (int i = 0; i < TENSORS; i++) {
        if (!test_below(&p->seed, 2)) continue;
        next[i] = next_of(p, &p->state[test_below(&p->seed, TENSORS)],
                          &p->state[test_below(&p->seed, TENSORS)]);
        if (test_below(&p->seed, 2))
            next[i] = next_of(p, &next[i], &p->state[test_below(&p->seed, TENSORS)]);
        set[i] = true;
        if (p->helds < HELD && !test_below(&p->seed, 4)) {
            p->held[p->helds] = next_of(p, &next[i], &p->state[i]);
            qn_keep(p->held[p->helds++].t);
        }
    }
    for (int i = 0; i < TENSORS; i++)
        if (set[i] && qn_assign(p->state[i].t, next[i].t)) FAIL("%s", qn_error(p->qn));
    for (int i = 0; i < TENSORS; i++)
        if (set[i]) memcpy(p->state[i].x, next[i].x, sizeof next[i].x);
    if (test_below(&p->seed, 2)) qn_scope_end(p->qn, s), s = 0;
    int i = (int)test_below(&p->seed, TENSORS);
    check_value(p, &p->state[i], "an assigned value");
    if (s) qn_scope_end(p->qn, s);
    if (!p->helds || test_below(&p->seed, 2)) return;
    check_value(p, &p->held[--p->helds], "a held value");
    qn_release(p->held[p->helds].t);
}

static uint64_t run_program(uint64_t seed) {
    static const int sizes[] = {1, 2, 17, 256, 1000, 3000};
    static program p;
    p = (program){.seed = seed + 1};
    p.qn = qn_open(&QN_OPTIONS(.threads = (int)(seed % 2) + 1));
    p.n = sizes[test_below(&p.seed, 6)];
    for (int i = 0; i < TENSORS; i++) {
        for (int j = 0; j < p.n; j++) p.state[i].x[j] = (int32_t)test_below(&p.seed, 100);
        p.state[i].t = qn_from(p.qn, QN_I32, 1, (int64_t[]){p.n}, p.state[i].x);
    }
    for (int round = 0; round < 12 && !test_state.bad; round++) one_round(&p);
    for (int i = 0; i < TENSORS && !test_state.bad; i++) check_value(&p, &p.state[i], "a value");
    if (test_state.bad) printf("  seed %llu\n", (unsigned long long)seed);
    uint64_t replaced = stats_of(p.qn).replaced;
    qn_close(p.qn);
    return replaced;
}

static void random_assignments_are_as_if_values_were_copied(void) {
    uint64_t replaced = 0;
    for (uint64_t seed = 0; seed < 60 && !test_state.bad; seed++) replaced += run_program(seed);
    CHECK(replaced > 100);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(an_element_for_an_element_is_borne);
    RUN(an_element_that_is_read_elsewhere_is_not);
    RUN(a_store_in_the_last_of_some_trips_is_borne);
    RUN(in_place_outputs_are_not_stored_nontemporally);
    RUN(a_step_takes_no_memory_for_new_values);
    RUN(who_holds_the_old_value_keeps_it);
    RUN(under_a_tape_all_values_stay);
    RUN(a_static_graph_donates_its_parameters);
    RUN(a_state_that_goes_round_takes_its_memory_once);
    RUN(a_donated_value_is_used_up_until_it_has_another);
    RUN(what_is_not_the_runs_alone_stays);
    RUN(a_state_with_one_name_is_written_over);
    RUN(a_state_that_somebody_needs_stays);
    RUN(an_index_outside_leaves_the_state);
    RUN(a_run_that_fails_leaves_values_and_outputs);
    RUN(random_assignments_are_as_if_values_were_copied);
    return test_end();
}
