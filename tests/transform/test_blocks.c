/* test_blocks.c - the transforms that block and pack contractions: reductions in blocks
 * (block_reduction), transposed copies (transpose), spilled accumulators (spill), private
 * accumulators (privatize), values computed beforehand (hoist); as in test_transforms.c. */
#include "ir_cases.h"

/* ---- block_reduction ------------------------------------------------------------------------- */

static void block_reduction_keeps_partial_sums_between_blocks(void) {
    BECOMES(product, "split k 3 -> ko ki\nblock_reduction t0 ko i",
            "kernel \"product\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[56] read\n"
            "  arg a2 f32[40] write\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[40]\n"
            "  def t1\n"
            "  for ko < 3 {\n"
            "    for i < 5 {\n"
            "      for j < 8 {\n"
            "        def t0 = f32(0)\n"
            "        for more < min(ko, 1) {\n"
            "          t0[0] += t1[8*i + j]\n"
            "        }\n"
            "        for ki < min(-4, -3*ko) + 7 {\n"
            "          t0[0] += mul(a0[7*i + ki + 3*ko], a1[j + 8*ki + 24*ko])\n"
            "        }\n"
            "        for wait < min(-1, -ko) + 2 {\n"
            "          t1[8*i + j] = t0[0]\n"
            "        }\n"
            "        for last < -min(-1, -ko) - 1 {\n"
            "          a2[8*i + j] = abs(t0[0])\n"
            "        }\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void block_reduction_keeps_register_tiles_and_blocks_of_columns(void) {
    KEEPS(product, "split k 2 -> ko ki\nsplit j 4 -> jo ji\nsplit i 3 -> io ii\n"
                   "swap ii jo\naccumulate t0 ji\naccumulate t0 ii\nblock_reduction t0 ko "
                   "jo\nstage a1 jo ki ji\n"
                   "vec ji\nsplit more_t 4 -> mo mv\nvec mv\npar io");
    KEEPS(row_sum,
          "split k 4 -> ko ki\nblock_reduction t0 ko i"); /* a last block that is cut short */
    KEEPS(row_sum, "split k 16 -> ko ki\nblock_reduction t0 ko i"); /* a single block */
    KEEPS(row_sum, "block_reduction t0 k i");
}

/* All accumulators of a loop are kept between blocks. */
static const char two_of_a_row[] = "kernel \"two\" {\n"
                                   "  arg a0 f32[4] write\n"
                                   "  arg a1 f32[24] read\n"
                                   "  arg a2 f32[4] write\n"
                                   "  local t0 f32[1]\n"
                                   "  local t1 f32[1]\n"
                                   "  for i < 4 {\n"
                                   "    def t0 = f32(0)\n"
                                   "    def t1 = f32(-inf)\n"
                                   "    for k < 6 {\n"
                                   "      t0[0] += a1[6*i + k]\n"
                                   "      t1[0] max= a1[6*i + k]\n"
                                   "    }\n"
                                   "    a0[i] = t0[0]\n"
                                   "    a2[i] = t1[0]\n"
                                   "  }\n"
                                   "}\n";

static void block_reduction_takes_all_tiles_of_the_loop(void) {
    BECOMES(two_of_a_row, "split k 4 -> ko ki\nblock_reduction t1 ko i",
            "kernel \"two\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  arg a2 f32[4] write\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[1]\n"
            "  local t2 f32[4]\n"
            "  local t3 f32[4]\n"
            "  def t2\n"
            "  def t3\n"
            "  for ko < 2 {\n"
            "    for i < 4 {\n"
            "      def t0 = f32(0)\n"
            "      def t1 = f32(-inf)\n"
            "      for more < ko {\n"
            "        t0[0] += t2[i]\n"
            "        t1[0] max= t3[i]\n"
            "      }\n"
            "      for ki < 2*min(-1, -2*ko) + 6 {\n"
            "        t0[0] += a1[6*i + ki + 4*ko]\n"
            "        t1[0] max= a1[6*i + ki + 4*ko]\n"
            "      }\n"
            "      for wait < 1 - ko {\n"
            "        t2[i] = t0[0]\n"
            "        t3[i] = t1[0]\n"
            "      }\n"
            "      for last < ko {\n"
            "        a0[i] = t0[0]\n"
            "        a2[i] = t1[0]\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(two_of_a_row, "split i 2 -> io ii\nsplit k 4 -> ko ki\naccumulate t0 ii\nblock_reduction "
                        "t0 ko io\nvec ii");
    REFUSES(two_of_a_row, "rfactor t0 k", "block_reduction t1 k i", "differ in size");
}

static const char two_uses[] = "kernel \"beside\" {\n"
                               "  arg a0 f32[4] write\n"
                               "  arg a1 f32[24] read\n"
                               "  local t0 f32[1]\n"
                               "  for i < 2 {\n"
                               "    for j < 2 {\n"
                               "      def t0 = f32(0)\n"
                               "      for k < 6 {\n"
                               "        t0[0] += a1[12*i + 6*j + k]\n"
                               "      }\n"
                               "      a0[2*i + j] = t0[0]\n"
                               "    }\n"
                               "    for l < 2 {\n"
                               "      a0[2*i + l] += f32(1)\n"
                               "    }\n"
                               "  }\n"
                               "}\n";

static void block_reduction_is_refused_where_blocks_would_change_the_result(void) {
    REFUSES(product, "", "block_reduction t0 i j", "not defined beside");
    REFUSES(product, "", "block_reduction t0 k k", "not defined in that loop");
    REFUSES(row_sum, "unroll i", "block_reduction t0 k i", "not serial");
    REFUSES(argmax, "", "block_reduction t0 k i", "only updated by a monoid");
    REFUSES(two_uses, "", "block_reduction t0 k i", "beside each other");
    REFUSES("kernel \"in_place\" {\n" /* row i's sum is read by row i+1's */
            "  arg a0 f32[30] read write\n"
            "  local t0 f32[1]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(0)\n"
            "    for k < 6 {\n"
            "      t0[0] += a0[6*i + k]\n"
            "    }\n"
            "    a0[6*i + 6] = t0[0]\n"
            "  }\n"
            "}\n",
            "", "block_reduction t0 k i", "stores to what the loop reads");
    REFUSES("kernel \"start\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(1)\n"
            "    for k < 6 {\n"
            "      t0[0] += a1[6*i + k]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n",
            "", "block_reduction t0 k i", "identity");
    REFUSES("kernel \"maybe\" {\n"
            "  dim n 0 6\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[1]\n"
            "  for i < 4 {\n"
            "    def t0 = f32(0)\n"
            "    for k < n {\n"
            "      t0[0] += a1[6*i + k]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n",
            "", "block_reduction t0 k i", "sure to have a trip");
}

/* ---- spill ----------------------------------------------------------------------------------- */

static void spill_gives_a_loop_a_copy_to_read(void) {
    BECOMES(product, "accumulate t0 j\nspill t0 j_1",
            "kernel \"product\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[56] read\n"
            "  arg a2 f32[40] write\n"
            "  local t0 f32[8]\n"
            "  local t1 f32[8]\n"
            "  for i < 5 {\n"
            "    def t0 = f32(0)\n"
            "    for k < 7 {\n"
            "      for j < 8 {\n"
            "        t0[j] += mul(a0[7*i + k], a1[j + 8*k])\n"
            "      }\n"
            "    }\n"
            "    def t1\n"
            "    for spill < 8 {\n"
            "      t1[spill] = t0[spill]\n"
            "    }\n"
            "    for j_1 < 8 {\n"
            "      a2[8*i + j_1] = abs(t1[j_1])\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void spill_is_refused_where_there_is_nothing_to_copy(void) {
    REFUSES(product, "accumulate t0 j", "spill t0 j", "stores to the tile");
    REFUSES(product, "", "spill t0 i", "stores to the tile");
    REFUSES(row_sum, "split i 2 -> io ii\naccumulate t0 ii\nvec ii_1", "spill a0 ii_1",
            "only a tile");
}

/* ---- privatize ------------------------------------------------------------------------------- */

/* Terms of elements that are shared by all iterations of i. */
static const char pushed[] = "kernel \"pushed\" {\n"
                             "  arg a0 f32[6] write\n"
                             "  arg a1 f32[36] read\n"
                             "  local t0 f32[6]\n"
                             "  def t0 = f32(0)\n"
                             "  for i < 6 {\n"
                             "    for k < 6 {\n"
                             "      t0[k; valid=(-i + k >= 0)] += a1[6*i + k]\n"
                             "    }\n"
                             "  }\n"
                             "  for j < 6 {\n"
                             "    a0[j] = t0[j]\n"
                             "  }\n"
                             "}\n";

static void privatize_adds_terms_of_one_element_in_an_accumulator(void) {
    BECOMES(pushed, "swap i k\nprivatize i",
            "kernel \"pushed\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[36] read\n"
            "  local t0 f32[6]\n"
            "  reg t1 f32[1]\n"
            "  def t0 = f32(0)\n"
            "  for k < 6 {\n"
            "    def t1 = f32(0)\n"
            "    for i < 6 {\n"
            "      t1[0; valid=(-i + k >= 0)] += a1[6*i + k]\n"
            "    }\n"
            "    t0[k] += t1[0]\n"
            "  }\n"
            "  for j < 6 {\n"
            "    a0[j] = t0[j]\n"
            "  }\n"
            "}\n");
    KEEPS(pushed, "split i 2 -> b u\nswap u k\nprivatize u\naccumulate t1 k");
    KEEPS(pushed, "split i 2 -> b u\nswap b u\nswap b k\nswap u k\nprivatize u");
    KEEPS(pushed, "pad k 4\nswap i k\nprivatize i");
}

static void privatize_is_refused_where_the_element_depends_on_the_loop(void) {
    REFUSES(pushed, "", "privatize i", "chooses the element");
    REFUSES(pushed, "", "privatize j", "just update one element");
    REFUSES(pushed, "swap i k\nvec k", "privatize i", "inside a vector loop");
    REFUSES(pushed, "swap i k\nunroll i", "privatize i", "only serial");
    REFUSES(product, "", "privatize i", "more than one thing");
    REFUSES("kernel \"edge\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[30] read\n"
            "  local t0 f32[6]\n"
            "  def t0 = f32(0)\n"
            "  for k < 8 {\n"
            "    for i < 5 {\n"
            "      t0[k; valid=(-i - k + 5 >= 0)] += a1[6*i + k]\n"
            "    }\n"
            "  }\n"
            "  for j < 6 {\n"
            "    a0[j] = t0[j]\n"
            "  }\n"
            "}\n",
            "", "privatize i", "may lie outside");
}

/* ---- transpose ------------------------------------------------------------------------------- */

static void transpose_copies_through_a_tile(void) {
    BECOMES(grid, "transpose i j",
            "kernel \"grid\" {\n"
            "  arg a0 f32[12] write\n"
            "  arg a1 f32[12] read\n"
            "  local t0 f32[12]\n"
            "  def t0\n"
            "  for i < 4 {\n"
            "    for j < 3 {\n"
            "      t0[3*i + j] = neg(a1[i + 4*j])\n"
            "    }\n"
            "  }\n"
            "  for j_1 < 3 {\n"
            "    for i_1 < 4 {\n"
            "      a0[3*i_1 + j_1] = t0[3*i_1 + j_1]\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void transpose_keeps_copies_in_registers_and_edges(void) {
    KEEPS(grid, "swap i j\ntranspose j i\nunroll j\nvec i\nunroll i_1\nvec j_1");
    KEEPS(grid, "pad i 8\npad j 4\nsplit i 4 -> io ii\ntranspose ii j\nunroll ii\nvec j\n"
                "unroll j_1\nvec ii_1");
}

static void transpose_is_refused_for_more_than_a_copy(void) {
    REFUSES(row_sum, "", "transpose i k", "not all that the outer");
    REFUSES(copy_10, "split i 4 -> o n", "transpose o n", "depends on the outer");
    REFUSES(grid, "vec j", "transpose i j", "serial");
    REFUSES("kernel \"sums\" {\n"
            "  arg a0 f32[12] read write\n"
            "  for i < 4 {\n"
            "    for j < 3 {\n"
            "      a0[3*i + j] += f32(1)\n"
            "    }\n"
            "  }\n"
            "}\n",
            "", "transpose i j", "no plain copy");
    REFUSES("kernel \"shift\" {\n"
            "  arg a0 f32[16] read write\n"
            "  for i < 4 {\n"
            "    for j < 3 {\n"
            "      a0[4*i + j] = a0[4*i + j + 1]\n"
            "    }\n"
            "  }\n"
            "}\n",
            "", "transpose i j", "read what they store");
    REFUSES("kernel \"last\" {\n"
            "  arg a0 f32[8] write\n"
            "  arg a1 f32[12] read\n"
            "  for i < 4 {\n"
            "    for j < 3 {\n"
            "      a0[i + j] = a1[3*i + j]\n"
            "    }\n"
            "  }\n"
            "}\n",
            "", "transpose i j", "same element of a0");
}

/* Copies of the accumulated loop get names of their own. */
static void accumulate_finds_names_that_unmoved_loops_lack(void) {
    KEEPS("kernel \"names\" {\n"
          "  arg a0 f32[4] write\n"
          "  arg a1 f32[24] read\n"
          "  local t0 f32[1]\n"
          "  local t1 f32[1]\n"
          "  for i < 4 {\n"
          "    def t0 = f32(0)\n"
          "    for k < 6 {\n"
          "      t0[0] += a1[6*i + k]\n"
          "    }\n"
          "    for i_1 < 1 {\n"
          "      def t1 = f32(2)\n"
          "      a0[i] = mul(t0[0], t1[0])\n"
          "    }\n"
          "  }\n"
          "}\n",
          "accumulate t0 i");
}

/* Products of blocks, scaled and added up. */
static const char *const sums_of_sums = "kernel \"sums\" {\n"
                                        "  arg a0 f32[8] write\n"
                                        "  arg a1 f32[96] read\n"
                                        "  arg a2 f32[24] read\n"
                                        "  local t0 f32[1]\n"
                                        "  local t1 f32[1]\n"
                                        "  for j < 8 {\n"
                                        "    def t0 = f32(0)\n"
                                        "    for b < 3 {\n"
                                        "      def t1 = f32(0)\n"
                                        "      for k < 4 {\n"
                                        "        t1[0] += a1[12*j + 4*b + k]\n"
                                        "      }\n"
                                        "      t0[0] += mul(t1[0], a2[3*j + b])\n"
                                        "    }\n"
                                        "    a0[j] = t0[0]\n"
                                        "  }\n"
                                        "}\n";

static void accumulate_through_moves_inside_loops_with_tiles(void) {
    BECOMES(sums_of_sums, "accumulate_through t0 j\naccumulate t1 j",
            "kernel \"sums\" {\n"
            "  arg a0 f32[8] write\n"
            "  arg a1 f32[96] read\n"
            "  arg a2 f32[24] read\n"
            "  local t0 f32[8]\n"
            "  local t1 f32[8]\n"
            "  def t0 = f32(0)\n"
            "  for b < 3 {\n"
            "    def t1 = f32(0)\n"
            "    for k < 4 {\n"
            "      for j < 8 {\n"
            "        t1[j] += a1[4*b + 12*j + k]\n"
            "      }\n"
            "    }\n"
            "    for j_2 < 8 {\n"
            "      t0[j_2] += mul(t1[j_2], a2[b + 3*j_2])\n"
            "    }\n"
            "  }\n"
            "  for j_1 < 8 {\n"
            "    a0[j_1] = t0[j_1]\n"
            "  }\n"
            "}\n");
    KEEPS(sums_of_sums, "split j 2 -> jo ji\naccumulate_through t0 ji\naccumulate_through t0 jo");
    KEEPS(argmax, "accumulate_through t1 i");
    REFUSES(sums_of_sums, "", "accumulate_through t1 j", "not defined in that loop");
}

/* ---- hoist ----------------------------------------------------------------------------------- */

static void hoist_computes_invariant_values_once(void) {
    static const char *const shares = "kernel \"shares\" {\n"
                                      "  arg a0 f32[35] read\n"
                                      "  arg a1 f32[35] write\n"
                                      "  local t0 f32[1]\n"
                                      "  for j < 7 {\n"
                                      "    def t0 = f32(0)\n"
                                      "    for i < 5 {\n"
                                      "      t0[0] += a0[7*i + j]\n"
                                      "    }\n"
                                      "    for k < 5 {\n"
                                      "      a1[7*k + j] = mul(reciprocal(t0[0]), a0[7*k + j])\n"
                                      "    }\n"
                                      "  }\n"
                                      "}\n";
    BECOMES(shares, "hoist k\naccumulate t0 j",
            "kernel \"shares\" {\n"
            "  arg a0 f32[35] read\n"
            "  arg a1 f32[35] write\n"
            "  local t0 f32[7]\n"
            "  local t1 f32[7]\n"
            "  def t0 = f32(0)\n"
            "  def t1\n"
            "  for i < 5 {\n"
            "    for j < 7 {\n"
            "      t0[j] += a0[7*i + j]\n"
            "    }\n"
            "  }\n"
            "  for j_1 < 7 {\n"
            "    t1[j_1] = reciprocal(t0[j_1])\n"
            "  }\n"
            "  for k < 5 {\n"
            "    for j_2 < 7 {\n"
            "      a1[j_2 + 7*k] = mul(t1[j_2], a0[j_2 + 7*k])\n"
            "    }\n"
            "  }\n"
            "}\n");
    REFUSES(shares, "", "hoist i", "nothing in the loop");
    REFUSES(shares, "", "hoist j", "nothing in the loop");
}

static void all(void) {
    RUN(block_reduction_keeps_partial_sums_between_blocks);
    RUN(block_reduction_keeps_register_tiles_and_blocks_of_columns);
    RUN(block_reduction_takes_all_tiles_of_the_loop);
    RUN(block_reduction_is_refused_where_blocks_would_change_the_result);
    RUN(accumulate_finds_names_that_unmoved_loops_lack);
    RUN(accumulate_through_moves_inside_loops_with_tiles);
    RUN(spill_gives_a_loop_a_copy_to_read);
    RUN(spill_is_refused_where_there_is_nothing_to_copy);
    RUN(privatize_adds_terms_of_one_element_in_an_accumulator);
    RUN(privatize_is_refused_where_the_element_depends_on_the_loop);
    RUN(transpose_copies_through_a_tile);
    RUN(transpose_keeps_copies_in_registers_and_edges);
    RUN(transpose_is_refused_for_more_than_a_copy);
    RUN(hoist_computes_invariant_values_once);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
