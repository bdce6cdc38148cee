/* test_stage.c - what a part of a kernel loads or computes again and again, made in front of it
 * (stage, compute_at), and what is done to packed copies, words and offset; as in
 * test_transforms.c. */
#include "ir_cases.h"
#include "transform/transform.h"

/* ---- compute_at ------------------------------------------------------------------------------ */

static const char scaled[] = "kernel \"scaled\" {\n"
                             "  arg a0 f32[96] write\n"
                             "  arg a1 f32[96] read\n"
                             "  arg a2 u8[24] read\n"
                             "  arg a3 f32[24] read\n"
                             "  for i < 4 {\n"
                             "    for j < 6 {\n"
                             "      for k < 4 {\n"
                             "        a0[24*i + 4*j + k] = mul(a1[24*i + 4*j + k], "
                             "mul(sqrt(cast:f32(a2[6*i + j])), a3[6*i + j]))\n"
                             "      }\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

static void compute_at_makes_once_what_iterations_share(void) {
    BECOMES(scaled, "compute_at i j",
            "kernel \"scaled\" {\n"
            "  arg a0 f32[96] write\n"
            "  arg a1 f32[96] read\n"
            "  arg a2 u8[24] read\n"
            "  arg a3 f32[24] read\n"
            "  local t0 f32[6]\n"
            "  for i < 4 {\n"
            "    def t0\n"
            "    for j_1 < 6 {\n"
            "      t0[j_1] = mul(sqrt(cast:f32(a2[6*i + j_1])), a3[6*i + j_1])\n"
            "    }\n"
            "    for j < 6 {\n"
            "      for k < 4 {\n"
            "        a0[24*i + 4*j + k] = mul(a1[24*i + 4*j + k], t0[j])\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(scaled, "split j 3 -> jo ji\ncompute_at i jo ji");
    KEEPS(scaled, "split j 3 -> jo ji\ncompute_at i ji jo\nvec k");
    KEEPS(scaled, "compute_at i j\nvec j_1\nvec k");
}

static void compute_at_refuses_what_is_not_shared(void) {
    REFUSES(scaled, "split j 4", "compute_at i jo ji", "the extent of ji depends on a loop inside");
    REFUSES(scaled, "", "compute_at j i", "the loops must be inside that loop");
    REFUSES(scaled, "", "compute_at i j j", "a loop is named twice");
    REFUSES(copy_10, "split i 5", "compute_at io ii", /* a load alone */
            "nothing in the loop is worth computing ahead");
}

/* What is stored inside the loop may be another number each time. */
static void compute_at_refuses_what_changes(void) {
    REFUSES("kernel \"changes\" {\n"
            "  arg a0 f32[24] read write\n"
            "  for i < 4 {\n"
            "    for j < 6 {\n"
            "      for k < 4 {\n"
            "        a0[6*i + j] = exp(mul(sqrt(a0[6*i + j]), f32(3)))\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n",
            "", "compute_at i j", "nothing in the loop is worth computing ahead");
}

/* ---- stage ---------------------------------------------------------------------------------- */

static void stage_packs_what_loops_will_load(void) {
    BECOMES(product, "stage a1 i k j",
            "kernel \"product\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[56] read\n"
            "  arg a2 f32[40] write\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[56]\n"
            "  for i < 5 {\n"
            "    def t1\n"
            "    for k_1 < 7 {\n"
            "      for j_1 < 8 {\n"
            "        t1[j_1 + 8*k_1] = a1[j_1 + 8*k_1]\n"
            "      }\n"
            "    }\n"
            "    for j < 8 {\n"
            "      def t0 = f32(0)\n"
            "      for k < 7 {\n"
            "        t0[0] += mul(a0[7*i + k], t1[j + 8*k])\n"
            "      }\n"
            "      a2[8*i + j] = abs(t0[0])\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static const char windows[] =
    "kernel \"windows\" {\n"
    "  arg a0 f32[12] read\n"
    "  arg a1 f32[3] read\n"
    "  arg a2 f32[6] write\n"
    "  local t0 f32[1]\n"
    "  for i < 6 {\n"
    "    def t0 = f32(0)\n"
    "    for k < 3 {\n"
    "      t0[0] += mul(a0[2*i - k + 1; valid=(2*i - k + 1 >= 0)], a1[k])\n"
    "    }\n"
    "    a2[i] = t0[0]\n"
    "  }\n"
    "}\n";

static void stage_by_a_sum_copies_what_windows_share_once(void) {
    BECOMES(windows, "split i 3 -> io ii\nstage a0 io ii + k",
            "kernel \"windows\" {\n"
            "  arg a0 f32[12] read\n"
            "  arg a1 f32[3] read\n"
            "  arg a2 f32[6] write\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[7]\n"
            "  for io < 2 {\n"
            "    def t1\n"
            "    for ii_1 < 7 {\n"
            "      t1[ii_1] = a0[ii_1 + 6*io - 1; valid=(ii_1 + 6*io - 1 >= 0)]\n"
            "    }\n"
            "    for ii < 3 {\n"
            "      def t0 = f32(0)\n"
            "      for k < 3 {\n"
            "        t0[0] += mul(t1[2*ii - k + 2], a1[k])\n"
            "      }\n"
            "      a2[ii + 3*io] = t0[0]\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(windows, "split i 6 -> io ii\nsplit ii 2 -> im in\nstage a0 io im + in + k");
    REFUSES(windows, "pad i 4\nsplit i 4 -> io ii", "stage a0 io ii + k", "more than their sum");
    REFUSES(windows, "split i 3 -> io ii", "stage a1 io ii + k", "exactly these loops");
}

static void stage_fills_the_edge_with_zeros(void) {
    BECOMES(product, "pad j 5\nsplit j 5 -> jo ji\nswap i jo\nstage a1 jo k ji",
            "kernel \"product\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[56] read\n"
            "  arg a2 f32[40] write\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[35]\n"
            "  for jo < 2 {\n"
            "    def t1\n"
            "    for k_1 < 7 {\n"
            "      for ji_1 < 5 {\n"
            "        t1[ji_1 + 5*k_1] = a1[ji_1 + 5*jo + 8*k_1; valid=(7 - ji_1 - 5*jo >= 0)]\n"
            "      }\n"
            "    }\n"
            "    for i < 5 {\n"
            "      for ji < 5 {\n"
            "        def t0 = f32(0)\n"
            "        for k < 7 {\n"
            "          t0[0] += mul(a0[7*i + k], t1[ji + 5*k])\n"
            "        }\n"
            "        a2[8*i + ji + 5*jo; valid=(7 - ji - 5*jo >= 0)] = abs(t0[0])\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static const char *const narrow_product = "kernel \"narrow\" {\n"
                                          "  arg a0 i8[35] read\n"
                                          "  arg a1 u8[56] read\n"
                                          "  arg a2 i32[40] write\n"
                                          "  local t0 i32[1]\n"
                                          "  for i < 5 {\n"
                                          "    for j < 8 {\n"
                                          "      def t0 = i32(0)\n"
                                          "      for k < 7 {\n"
                                          "        t0[0] += mul(cast:i32(a0[7*i + k]), "
                                          "cast:i32(a1[j + 8*k]))\n"
                                          "      }\n"
                                          "      a2[8*i + j] = t0[0]\n"
                                          "    }\n"
                                          "  }\n"
                                          "}\n";

static void stage_converts_what_is_only_used_converted(void) {
    BECOMES(narrow_product, "stage a1 i k j i32",
            "kernel \"narrow\" {\n"
            "  arg a0 i8[35] read\n"
            "  arg a1 u8[56] read\n"
            "  arg a2 i32[40] write\n"
            "  local t0 i32[1]\n"
            "  local t1 i32[56]\n"
            "  for i < 5 {\n"
            "    def t1\n"
            "    for k_1 < 7 {\n"
            "      for j_1 < 8 {\n"
            "        t1[j_1 + 8*k_1] = cast:i32(a1[j_1 + 8*k_1])\n"
            "      }\n"
            "    }\n"
            "    for j < 8 {\n"
            "      def t0 = i32(0)\n"
            "      for k < 7 {\n"
            "        t0[0] += mul(cast:i32(a0[7*i + k]), t1[j + 8*k])\n"
            "      }\n"
            "      a2[8*i + j] = t0[0]\n"
            "    }\n"
            "  }\n"
            "}\n");
    REFUSES(narrow_product, "", "stage a1 i k j i64", "converted to that dtype");
    REFUSES(product, "", "stage a1 i k j f64", "converted to that dtype");
}

/* ---- words and offset ----------------------------------------------------------------------- */

static const char *const bytes_product = "kernel \"bytes\" {\n"
                                         "  arg a0 i8[40] read\n"
                                         "  arg a1 i8[64] read\n"
                                         "  arg a2 i32[40] write\n"
                                         "  local t0 i32[1]\n"
                                         "  for i < 5 {\n"
                                         "    for j < 8 {\n"
                                         "      def t0 = i32(5)\n"
                                         "      for k < 8 {\n"
                                         "        t0[0] += mul(cast:i32(a0[8*i + k]), "
                                         "cast:i32(a1[j + 8*k]))\n"
                                         "      }\n"
                                         "      a2[8*i + j] = t0[0]\n"
                                         "    }\n"
                                         "  }\n"
                                         "}\n";

static void offset_takes_off_what_the_other_sign_adds(void) {
    BECOMES(bytes_product, "stage a0 i k\noffset t0 t1 i",
            "kernel \"bytes\" {\n"
            "  arg a0 i8[40] read\n"
            "  arg a1 i8[64] read\n"
            "  arg a2 i32[40] write\n"
            "  local t0 i32[1]\n"
            "  local t1 u8[8]\n"
            "  local t2 i32[8]\n"
            "  for i < 5 {\n"
            "    def t1\n"
            "    for k_1 < 8 {\n"
            "      t1[k_1] = xor(bitcast:u8(a0[8*i + k_1]), u8(128))\n"
            "    }\n"
            "    def t2 = i32(0)\n"
            "    for j_1 < 8 {\n"
            "      for k_2 < 8 {\n"
            "        t2[j_1] += mul(i32(128), cast:i32(a1[j_1 + 8*k_2]))\n"
            "      }\n"
            "    }\n"
            "    for j < 8 {\n"
            "      def t0 = i32(5)\n"
            "      for k < 8 {\n"
            "        t0[0] += mul(cast:i32(t1[k]), cast:i32(a1[j + 8*k]))\n"
            "      }\n"
            "      t0[0] += neg(t2[j])\n"
            "      a2[8*i + j] = t0[0]\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(bytes_product, "stage a0 i k\nsplit k 4 -> q d\nword d\naccumulate t0 j\nvec j\nvec j_1");
}

static void offset_wants_equal_bytes_one_of_them_packed(void) {
    REFUSES(bytes_product, "stage a0 i k\noffset t0 t1 i", "offset t0 t1 i", "equal bytes");
    REFUSES(bytes_product, "stage a0 i k", "offset t0 t1 k", "not defined in that loop");
    REFUSES(bytes_product, "stage a0 i k i32", "offset t0 t1 i", "equal bytes");
    REFUSES(narrow_product, "stage a0 i k", "offset t0 t1 i", "equal bytes");
    REFUSES(bytes_product, "", "offset t0 t0 i", "packed");
}

static void words_have_two_or_four_parts_of_one_store(void) {
    KEEPS(copy_10, "split i 2 -> o n\nword n");
    REFUSES(copy_10, "split i 5 -> o n", "word n", "2 or 4 parts");
    REFUSES(copy_10, "split i 4 -> o n", "word n", "2 or 4 parts");
    REFUSES(grid, "split j 2 -> o n", "word o", "store is not all");
}

static void stage_is_refused_for_other_loops_stores_and_tiles(void) {
    REFUSES(product, "", "stage a1 i k", "exactly these loops");
    REFUSES(product, "", "stage a1 i k i", "inside that loop");
    REFUSES(product, "", "stage a2 i j", "stores to that memory");
    REFUSES(product, "", "stage t0 i j", "only an argument");
    REFUSES(scatter, "", "stage a2 i i", "inside that loop");
}

static void all(void) {
    RUN(compute_at_makes_once_what_iterations_share);
    RUN(compute_at_refuses_what_is_not_shared);
    RUN(compute_at_refuses_what_changes);
    RUN(stage_packs_what_loops_will_load);
    RUN(stage_by_a_sum_copies_what_windows_share_once);
    RUN(stage_fills_the_edge_with_zeros);
    RUN(stage_converts_what_is_only_used_converted);
    RUN(stage_is_refused_for_other_loops_stores_and_tiles);
    RUN(offset_takes_off_what_the_other_sign_adds);
    RUN(offset_wants_equal_bytes_one_of_them_packed);
    RUN(words_have_two_or_four_parts_of_one_store);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
