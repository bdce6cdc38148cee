/* test_contraction.c - what contraction_of says of loop nests: its loops by side, its operands, and
 * what is none. */
#include "ir_cases.h"

/* A batched product, one operand converted, with an epilogue that reads a third argument. */
static const char batched[] = "kernel \"batched\" {\n"
                              "  arg a0 f32[1050] write\n"
                              "  reg t0 f32[1]\n"
                              "  arg a1 f16[630] read\n"
                              "  arg a2 f32[1350] read\n"
                              "  arg a3 f32[15] read\n"
                              "  for b < 10 {\n"
                              "    for i < 7 {\n"
                              "      for j < 15 {\n"
                              "        def t0 = f32(0)\n"
                              "        for r < 9 {\n"
                              "          t0[0] += mul(cast:f32(a1[63*b + 9*i + r]), "
                              "a2[135*b + j + 15*r])\n"
                              "        }\n"
                              "        a0[105*b + 15*i + j] = add(t0[0], a3[j])\n"
                              "      }\n"
                              "    }\n"
                              "  }\n"
                              "}\n";

static contraction read_it(kernel *k) {
    contraction c;
    if (!contraction_of(k, ir_s(k, k->root)->first, &c)) FAIL("is no contraction");
    return c;
}

static void loops_have_sides_and_steps(void) {
    kernel *k = parse(batched);
    contraction c = read_it(k);
    CHECK_INT(c.outs, 3);
    CHECK_INT(c.loops, 4);
    const int side[4] = {SIDE_BOTH, SIDE_FIRST, SIDE_SECOND, SIDE_BOTH};
    const int64_t step[4][2] = {{63, 135}, {9, 0}, {0, 1}, {1, 15}};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(c.loop[i].side, side[i]);
        CHECK_INT(c.loop[i].sum, i == 3);
        for (int f = 0; f < 2; f++) {
            CHECK(c.loop[i].fixed[f]);
            CHECK_INT(c.loop[i].step[f], step[i][f]);
        }
    }
    ir_close(k);
}

static void operands_say_what_they_load(void) {
    kernel *k = parse(batched);
    contraction c = read_it(k);
    CHECK(c.of[0].plain && c.of[0].direct && c.of[0].as == QN_F32);
    CHECK(c.of[1].plain && c.of[1].direct && c.of[1].as == -1);
    CHECK_INT(ir_m(k, c.of[0].mem)->arg, 1);
    CHECK_INT(ir_m(k, c.of[1].mem)->arg, 2);
    CHECK(ir_s(k, c.epilogue)->kind == STMT_STORE);
    CHECK(c.tile == ir_find_mem(k, "t0"));
    ir_close(k);
}

static contraction operand_of(const char *factor) {
    char text[600];
    snprintf(text, sizeof text,
             "kernel \"k\" {\n  arg a0 f32[6] write\n  reg t0 f32[1]\n  reg t1 f32[1]\n"
             "  arg a1 f32[10] read\n  arg a2 i64[10] read\n  def t1 = f32(2)\n  for i < 6 {\n"
             "    def t0 = f32(0)\n    for r < 5 {\n      t0[0] += mul(%s, a1[i])\n    }\n"
             "    a0[i] = t0[0]\n  }\n}\n",
             factor);
    kernel *k = parse(text);
    contraction c = {.loops = 0};
    if (k && !contraction_of(k, ir_s(k, ir_s(k, k->root)->first)->next, &c)) FAIL("%s", factor);
    ir_close(k);
    return c;
}

static void factors_that_are_more_than_a_load(void) {
    contraction c = operand_of("neg(a1[i + r])");
    CHECK(c.of[0].plain && !c.of[0].direct && c.of[0].as == -1);
    c = operand_of("add(a1[i], a1[i + r])");
    CHECK(!c.of[0].plain && !c.of[0].direct);
    CHECK_INT(c.of[0].loads, 2);
    c = operand_of("add(t1[0], a1[i + r])");
    CHECK(c.of[0].plain && !c.of[0].direct);
    CHECK_INT(c.of[0].tiles, 1);
    c = operand_of("a1[0; dyn=a2[r]]");
    CHECK(!c.of[0].plain && !c.of[0].direct && !c.loop[1].fixed[0]);
    c = operand_of("t1[0]");
    CHECK(!c.of[0].plain && c.of[0].loads == 0);
}

static void check_none(const char *text) {
    contraction c;
    kernel *k = parse(text);
    if (k && contraction_of(k, ir_s(k, k->root)->first, &c)) FAIL("is one:\n%s", text);
    ir_close(k);
}

static void what_is_no_contraction(void) {
#define HEAD                                                                                       \
    "kernel \"k\" {\n  arg a0 f32[6] write\n  reg t0 f32[1]\n  arg a1 f32[30] read\n"              \
    "  for i < 6 {\n"
    check_none(HEAD "    a0[i] = mul(a1[i], a1[i])\n  }\n}\n");
    check_none(HEAD "    def t0 = f32(0)\n    for r < 5 {\n      t0[0] += a1[5*i + r]\n    }\n"
                    "    a0[i] = t0[0]\n  }\n}\n");
    check_none(HEAD
               "    def t0 = f32(0)\n    for r < 5 {\n      t0[0] max= mul(a1[i], a1[r])\n    }\n"
               "    a0[i] = t0[0]\n  }\n}\n");
    check_none(HEAD "    def t0 = f32(0)\n    for r < 5 {\n      t0[0] += mul(a1[i], a1[r])\n"
                    "      t0[0] += mul(a1[i], a1[i])\n    }\n    a0[i] = t0[0]\n  }\n}\n");
    check_none(HEAD
               "    def t0 = f32(0)\n    for r < 5 {\n      t0[0] += mul(a1[i], a1[r])\n    }\n"
               "    for s < 1 {\n      a0[i] = t0[0]\n    }\n  }\n}\n");
#undef HEAD
}

/* The body of the loop over i is a reduction into t0 by that many loops; 0: it is none. */
static void check_reduction(const char *body, int loops) {
    char text[600];
    snprintf(text, sizeof text,
             "kernel \"k\" {\n  arg a0 f32[6] write\n  reg t0 f32[1]\n  arg a1 f32[30] read\n"
             "  for i < 6 {\n%s  }\n}\n",
             body);
    ir_reduction r;
    kernel *k = parse(text);
    if (!k) return;
    stmt_id i = ir_s(k, k->root)->first;
    bool is = ir_reduction_of(k, i, &r);
    if (is != (loops > 0)) FAIL("%s\n%s", is ? "is one:" : "is none:", text);
    if (is && loops > 0) {
        CHECK(r.def == ir_s(k, i)->first && r.loop == ir_s(k, r.def)->next);
        CHECK(ir_s(k, r.update)->store.mem[0] == ir_find_mem(k, "t0"));
        for (stmt_id s = r.update; s != r.loop; s = ir_s(k, s)->parent) loops--;
        CHECK_INT(loops, 0);
    }
    ir_close(k);
}

static void reductions_have_any_monoid_and_term(void) {
#define DEF  "    def t0 = f32(0)\n"
#define TAIL "    a0[i] = t0[0]\n"
    check_reduction(DEF "    for r < 5 {\n      t0[0] += a1[5*i + r]\n    }\n" TAIL, 1);
    check_reduction(DEF "    for r < 5 {\n      t0[0] max= a1[5*i + r]\n    }\n"
                        "    for s < 1 {\n      a0[i] = t0[0]\n    }\n",
                    1);
    check_reduction(DEF "    for r < 5 {\n      for q < 2 {\n        t0[0] += a1[r + q]\n      }\n"
                        "    }\n" TAIL,
                    2);
    check_reduction(DEF TAIL, 0);
    check_reduction(DEF "    t0[0] = a1[i]\n    for r < 5 {\n      t0[0] += a1[r]\n    }\n" TAIL,
                    0);
    check_reduction(DEF "    for r < 5 {\n      t0[0] += a1[r]\n      t0[0] += a1[i]\n    }\n" TAIL,
                    0);
#undef DEF
#undef TAIL
}

static void all(void) {
    RUN(loops_have_sides_and_steps);
    RUN(operands_say_what_they_load);
    RUN(factors_that_are_more_than_a_load);
    RUN(what_is_no_contraction);
    RUN(reductions_have_any_monoid_and_term);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
