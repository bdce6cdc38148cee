/* test_search.c - the candidates of tuning: whatever the search proposes, repaired, keeps the
 * kernel's results by the interpreter's word; proposals come in one order; and the cost model puts
 * what is bad for sure behind what is good. */
#include "ir_cases.h"
#include "run/run.h"
#include "schedule/schedule.h"
#include "schedule/search/script.h"
#include "transform/transform.h"
#include "tune/tune.h"

static machine limits = {.page_parallel_read_gain = 150,
                         .page_parallel_gain = 150,
                         .vector_bytes = 32,
                         .registers = 16,
                         .l1 = 32 << 10,
                         .l2 = 1 << 20,
                         .l3 = 8 << 20,
                         .threads = 2};

static const char small_product[] = "kernel \"product\" {\n"
                                    "  arg a0 f32[1435] write\n"
                                    "  reg t0 f32[1]\n"
                                    "  arg a1 f32[1271] read\n"
                                    "  arg a2 f32[1085] read\n"
                                    "  for i0 < 41 {\n"
                                    "    for i1 < 35 {\n"
                                    "      def t0 = f32(0)\n"
                                    "      for r0 < 31 {\n"
                                    "        t0[0] += mul(a1[31*i0 + r0], a2[i1 + 35*r0])\n"
                                    "      }\n"
                                    "      a0[35*i0 + i1] = neg(t0[0])\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
static const char softmax[] = "kernel \"rows\" {\n"
                              "  arg a0 f32[660] write\n"
                              "  local t0 f32[66]\n"
                              "  arg a1 f32[660] read\n"
                              "  reg t1 f32[1]\n"
                              "  reg t2 f32[1]\n"
                              "  for i0 < 10 {\n"
                              "    def t0\n"
                              "    def t1 = f32(-inf)\n"
                              "    for r1 < 66 {\n"
                              "      t1[0] max= a1[66*i0 + r1]\n"
                              "    }\n"
                              "    for h0 < 66 {\n"
                              "      t0[h0] = exp(sub(a1[h0 + 66*i0], t1[0]))\n"
                              "    }\n"
                              "    def t2 = f32(0)\n"
                              "    for r2 < 66 {\n"
                              "      t2[0] += t0[r2]\n"
                              "    }\n"
                              "    for i1 < 66 {\n"
                              "      a0[66*i0 + i1] = mul(t0[i1], reciprocal(t2[0]))\n"
                              "    }\n"
                              "  }\n"
                              "}\n";
static const char turned[] = "kernel \"turned\" {\n"
                             "  arg a0 f32[2112] write\n"
                             "  arg a1 f32[2112] read\n"
                             "  for i0 < 33 {\n"
                             "    for i1 < 64 {\n"
                             "      a0[64*i0 + i1] = a1[33*i1 + i0]\n"
                             "    }\n"
                             "  }\n"
                             "}\n";
static const char columns[] = "kernel \"columns\" {\n"
                              "  dim n 1 70\n"
                              "  arg a0 i32[50] write\n"
                              "  reg t0 i32[1]\n"
                              "  arg a1 i32[50*n] read\n"
                              "  for i0 < 50 {\n"
                              "    def t0 = i32(0)\n"
                              "    for r0 < n {\n"
                              "      t0[0] += a1[i0 + 50*r0]\n"
                              "    }\n"
                              "    a0[i0] = t0[0]\n"
                              "  }\n"
                              "}\n";
static const char *const kernels[] = {small_product, softmax, turned, columns};

/* ---- results --------------------------------------------------------------------------------- */

typedef struct proposals {
    const char *text; /* of the kernel */
    str all;          /* every proposal, one after the other */
    int n, sound, changed;
    bool check;
} proposals;

static bool take(void *user, const char *lines) {
    proposals *p = user;
    const int64_t dim[4] = {37, 1, 1, 1};
    str legal;
    str_addf(&p->all, "%s--\n", lines);
    p->n++;
    if (!p->check) return true;
    str_open(&legal, &ctx.heap);
    str_add(&legal, "");
    kernel *before = parse(p->text), *after = parse(p->text);
    if (search_repair(after, lines, &legal)) {
        bool was_bad = test_state.bad;
        p->sound++;
        p->changed += legal.len > 0;
        check_same(__LINE__, before, after, dim);
        if (test_state.bad && !was_bad) printf("by the schedule\n%s", legal.s);
        kernel *again = parse(p->text); /* what was left is a schedule */
        if (legal.len && script_apply(again, legal.s, NULL) < 0) FAIL("refused:\n%s", legal.s);
        ir_close(again);
    }
    str_free(&legal);
    ir_close(after);
    ir_close(before);
    return true;
}

/* Seeds, and the moves of the default schedule, and those of the last seed. */
static void propose(proposals *p) {
    str lines;
    str_open(&p->all, &ctx.heap);
    str_open(&lines, &ctx.heap);
    kernel *k = parse(p->text);
    search_seeds(k, &limits, take, p);
    str_add(&lines, "");
    schedule_default(k, &limits, &lines);
    search_moves(k, lines.s, &limits, take, p);
    ir_close(k);
    str_free(&lines);
}

static void whatever_is_proposed_keeps_the_results(void) {
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        proposals p = {.text = kernels[i], .check = true};
        propose(&p);
        if (p.n < 30 || p.changed < p.n / 2)
            FAIL("kernel %d: %d proposals, %d sound, %d not empty", (int)i, p.n, p.sound,
                 p.changed);
        str_free(&p.all);
    }
}

static void proposals_come_in_one_order(void) {
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        proposals p = {.text = kernels[i]}, q = p;
        propose(&p);
        propose(&q);
        CHECK_STR(p.all.s, q.all.s);
        str_free(&p.all);
        str_free(&q.all);
    }
}

static bool stop_at_three(void *user, const char *lines) {
    (void)lines;
    return ++*(int *)user < 3;
}

static void whoever_takes_them_may_stop(void) {
    int n = 0;
    kernel *k = parse(small_product);
    search_seeds(k, &limits, stop_at_three, &n);
    CHECK_INT(n, 3);
    n = 0;
    search_moves(k, "split i0 4 -> a b\n", &limits, stop_at_three, &n);
    CHECK_INT(n, 3);
    ir_close(k);
}

typedef struct stop {
    int n, at;
} stop;

static bool stop_at(void *user, const char *lines) {
    stop *s = user;
    (void)lines;
    return ++s->n < s->at;
}

/* Wherever it is: what would be put in after that is forgotten, and nothing more is passed on. */
static void moves_may_stop_anywhere(void) {
    for (size_t i = 0; i < COUNT_OF(kernels); i++) {
        str lines;
        str_open(&lines, &ctx.heap);
        str_add(&lines, "");
        kernel *k = parse(kernels[i]);
        schedule_default(k, &limits, &lines);
        ir_close(k);
        stop s = {.at = 1};
        do {
            k = parse(kernels[i]);
            s.n = 0;
            search_moves(k, lines.s, &limits, stop_at, &s);
            ir_close(k);
        } while (s.n == s.at++ && !test_state.bad);
        if (s.n < 20 || s.n != s.at - 2) FAIL("kernel %d: %d at %d", (int)i, s.n, s.at);
        str_free(&lines);
    }
}

static void repair_leaves_out_what_is_illegal(void) {
    str legal;
    str_open(&legal, &ctx.heap);
    kernel *k = parse(turned);
    CHECK(search_repair(
        k, "split i1 16 -> a b\nunroll nothing\nvec b\nvec nothing\n\nsplat\npar i0\n", &legal));
    CHECK_STR(legal.s, "split 0.1 16 -> a b\nvec 1.1\npar 0.0\n");
    str_free(&legal);
    ir_close(k);
}

/* ---- the twin in double precision ------------------------------------------------------------ */

static void the_twin_computes_in_double_precision(void) {
    kernel *k = parse("kernel \"sum\" {\n"
                      "  arg a0 f32[1] write\n"
                      "  reg t0 f32[1]\n"
                      "  arg a1 f32[3] read\n"
                      "  def t0 = f32(0.1)\n"
                      "  for r0 < 3 {\n"
                      "    t0[0] += mul(a1[r0], f32(2))\n"
                      "  }\n"
                      "  a0[0] = t0[0]\n"
                      "}\n");
    CHECK(tune_widen(k));
    check_text(__LINE__, k,
               "kernel \"sum\" {\n"
               "  arg a0 f64[1] write\n"
               "  reg t0 f64[1]\n"
               "  arg a1 f32[3] read\n"
               "  def t0 = f64(0.10000000149011612)\n"
               "  for r0 < 3 {\n"
               "    t0[0] += mul(cast:f64(a1[r0]), f64(2))\n"
               "  }\n"
               "  a0[0] = t0[0]\n"
               "}\n");
    ir_close(k);
    k = parse("kernel \"bits\" {\n  arg a0 i32[1] write\n  arg a1 f32[1] read\n"
              "  a0[0] = bitcast:i32(a1[0])\n}\n");
    CHECK(!tune_widen(k));
    ir_close(k);
    k = parse("kernel \"again\" {\n  arg a0 f32[1] read write\n  a0[0] = neg(a0[0])\n}\n");
    CHECK(!tune_widen(k));
    ir_close(k);
}

/* ---- what things cost ------------------------------------------------------------------------ */

static double cost_of(const char *text, const char *schedule) {
    str why;
    str_open(&why, &ctx.heap);
    kernel *k = parse(text);
    if (*schedule && transform_lines(k, schedule, &why) < 0) FAIL("%s: %s", schedule, why.s);
    run_passes(k);
    double cycles = schedule_price_of(k, &limits).cycles;
    ir_close(k);
    str_free(&why);
    return cycles;
}

static double default_cost(const char *text) {
    str lines;
    str_open(&lines, &ctx.heap);
    kernel *k = parse(text);
    str_add(&lines, "");
    schedule_default(k, &limits, &lines);
    double cycles = cost_of(text, lines.s);
    ir_close(k);
    str_free(&lines);
    return cycles;
}

/* The same product, of 512. */
static const char large[] = "kernel \"large\" {\n"
                            "  arg a0 f32[262144] write\n  reg t0 f32[1]\n"
                            "  arg a1 f32[262144] read\n  arg a2 f32[262144] read\n"
                            "  for i0 < 512 {\n    for i1 < 512 {\n      def t0 = f32(0)\n"
                            "      for r0 < 512 {\n"
                            "        t0[0] += mul(a1[512*i0 + r0], a2[i1 + 512*r0])\n      }\n"
                            "      a0[512*i0 + i1] = t0[0]\n    }\n  }\n}\n";

static void cost_prefers_what_is_better_for_sure(void) {
    CHECK(default_cost(large) < cost_of(large, "") / 8);
    CHECK(default_cost(softmax) < cost_of(softmax, "") / 2);
    /* vectors of columns, not of rows; one accumulator waits for itself, four do not */
    const char *along = "split i1 8 -> a v\naccumulate t0 v\nvec v\nvec v_1\n";
    const char *four =
        "split i1 32 -> a w\nsplit w 8 -> u v\naccumulate t0 v\naccumulate t0 u\nvec v\nvec v_1\n"
        "unroll u\nunroll u_1\n";
    double one_vector = cost_of(large, along), four_vectors = cost_of(large, four);
    CHECK(one_vector < cost_of(large, "") / 2);
    CHECK(four_vectors < one_vector);
    /* rows of a transposition one after the other, or scattered */
    CHECK(cost_of(turned, "split i1 8 -> a v\nvec v\n") > cost_of(turned, "") / 4);
    /* two threads, and one of them with all the work */
    CHECK(cost_of(large, "par i0\n") < 0.6 * cost_of(large, ""));
    CHECK(cost_of(large, "split i0 300 -> p q\npar p\n") > 1.1 * cost_of(large, "par i0\n"));
}

static void all(void) {
    RUN(whatever_is_proposed_keeps_the_results);
    RUN(proposals_come_in_one_order);
    RUN(whoever_takes_them_may_stop);
    RUN(moves_may_stop_anywhere);
    RUN(repair_leaves_out_what_is_illegal);
    RUN(the_twin_computes_in_double_precision);
    RUN(cost_prefers_what_is_better_for_sure);
}

int main(int argc, char **argv) {
    machine_complete(&limits);
    return run_raising(argc, argv, all);
}
