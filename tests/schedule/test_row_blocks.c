/* test_row_blocks.c - rows with products inside, in the forms in which the planner leaves them:
 * rows and sums of several loops, statistics of values in memory that are stored. Both products of
 * a row become register tiles in the default schedule, on a machine that is written down here. */
#include "default_schedule.h"

/* 32 rows of a softmax of 64 scores, which weighs rows of 4 that all share. */
static const char form[] = "kernel \"rows\" {\n"
                           "  arg a0 f32[128] write\n"
                           "  arg a1 f32[128] read\n"
                           "  arg a2 f32[256] read\n"
                           "  arg a3 f32[256] read\n"
                           "  arg a4 f32[2048] read\n"
                           "  arg a5 f32[32] write\n"
                           "  reg t0 f32[1]\n"
                           "  local t1 f32[64]\n"
                           "  local t2 f32[64]\n"
                           "  reg t3 f32[1]\n"
                           "  reg t4 f32[1]\n"
                           "  reg t5 f32[1]\n"
                           "  for i1 < %d {\n"
                           "    for i2 < %d {\n"
                           "%s"
                           "      for h1 < 64 {\n"
                           "        t1[h1] = exp(sub(%s, t4[0]))\n"
                           "      }\n"
                           "      def t5 = f32(0)\n"
                           "      for r5 < 64 {\n"
                           "        t5[0] += t1[r5]\n"
                           "      }\n"
                           "      for i3 < 4 {\n"
                           "        def t0 = f32(0)\n"
                           "        for r0 < 8 {\n"
                           "          for r1 < 8 {\n"
                           "            t0[0] += mul(t1[8*r0 + r1], a3[%s + i3])\n"
                           "          }\n"
                           "        }\n"
                           "        a0[%d*i1 + 4*i2 + i3] = div(t0[0], t5[0])\n"
                           "      }\n"
                           "    }\n"
                           "  }\n"
                           "}\n";

/* Scores are a product, or in memory, of which the largest is stored. */
static const char made[] = "      def t1\n"
                           "      def t2\n"
                           "      for h2 < 64 {\n"
                           "        def t3 = f32(0)\n"
                           "        for r3 < 4 {\n"
                           "          t3[0] += mul(a1[%d*i1 + 4*i2 + r3], a2[4*h2 + r3])\n"
                           "        }\n"
                           "        t2[h2] = t3[0]\n"
                           "      }\n"
                           "      def t4 = f32(-inf)\n"
                           "      for r4 < 64 {\n"
                           "        t4[0] max= t2[r4]\n"
                           "      }\n";
static const char loaded[] = "      def t1\n"
                             "      def t4 = f32(-inf)\n"
                             "      for r4 < 64 {\n"
                             "        t4[0] max= a4[%d*i1 + 64*i2 + r4]\n"
                             "      }\n"
                             "      a5[%d*i1 + i2] = t4[0]\n";

typedef struct rows {
    int outer, inner;
    bool stored, masked, turned; /* what is shared does not lie in the order of the sum's loops */
} rows;

static void make(char text[4096], const rows *r) {
    char scores[1024], score[200];
    snprintf(scores, sizeof scores, r->stored ? loaded : made,
             r->stored ? 64 * r->inner : 4 * r->inner, r->inner);
    snprintf(score, sizeof score, r->stored ? "a4[%d*i1 + 64*i2 + h1]" : "t2[h1]", 64 * r->inner);
    if (r->masked) {
        char plain[200];
        memcpy(plain, score, sizeof plain);
        snprintf(score, sizeof score, "where(lt(idx(i2), idx(h1)), f32(-1), %.100s)", plain);
    }
    snprintf(text, 4096, form, r->outer, r->inner, scores, score,
             r->turned ? "4*r0 + 32*r1" : "32*r0 + 4*r1", 4 * r->inner);
}

/* The steps of the default schedule hold the one, and not the other. */
static void check(const rows *r, const char *has, const char *has_not) {
    const machine limits = record((machine){.name = "test",
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .l2 = 1 << 20,
                                            .l3 = 8 << 20,
                                            .threads = 2});
    char text[4096];
    make(text, r);
    check_default_of(&limits, text, has, has_not);
}

static void sums_of_several_loops_are_register_tiles(void) {
    for (int stored = 0; stored < 2; stored++) {
        check(&(rows){1, 32, .stored = stored}, "merge r0 r1 -> m", "rfactor t0");
        check(&(rows){1, 32, .stored = stored}, "accumulate t0 u", "rfactor t0");
        check(&(rows){1, 32, .stored = stored, .turned = true}, "accumulate t0 u", "rfactor t0");
        check(&(rows){1, 32, .stored = stored, .turned = true}, "accumulate t0 u", "merge r0 r1");
    }
}

static void rows_of_several_loops_are_rows_of_one(void) {
    for (int stored = 0; stored < 2; stored++) {
        check(&(rows){8, 4, .stored = stored}, "merge i1 i2 -> m", "rfactor t0");
        check(&(rows){8, 4, .stored = stored}, "accumulate t0 u", "rfactor t0");
        check(&(rows){16, 2, .stored = stored}, "accumulate t0 u", "rfactor t0");
    }
}

/* Loops are cut short by what such a number says. */
static void rows_whose_number_is_compared_stay_apart(void) {
    check(&(rows){2, 16, .masked = true}, "accumulate t0 u", "merge i1 i2");
    check(&(rows){2, 16, .masked = false}, "merge i1 i2", "rfactor t0");
}

static void all(void) {
    RUN(sums_of_several_loops_are_register_tiles);
    RUN(rows_of_several_loops_are_rows_of_one);
    RUN(rows_whose_number_is_compared_stay_apart);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
