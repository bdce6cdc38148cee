/* test_blocks.c - the transforms that block and pack contractions: reductions in blocks
 * (block_reduction), transposed copies (transpose), spilled accumulators (spill), private
 * accumulators (privatize), prefetches; as in test_transforms.c. */
#include "ir_cases.h"
#include "records.h"
#include "schedule/schedule.h"

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

static void block_reduction_is_refused_where_blocks_would_change_the_result(void) {
    REFUSES(product, "", "block_reduction t0 i j", "not defined beside");
    REFUSES(product, "", "block_reduction t0 k k", "not defined in that loop");
    REFUSES(row_sum, "unroll i", "block_reduction t0 k i", "not serial");
    REFUSES(argmax, "", "block_reduction t0 k i", "only updated by a monoid");
    REFUSES("kernel \"beside\" {\n"
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
            "}\n",
            "", "block_reduction t0 k i", "beside each other");
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

/* ---- prefetch_nest --------------------------------------------------------------------------- */

/* A product with an epilogue that reads and writes streams of its own. */
static const char *product_with_epilogue(int i, int j, int k) {
    static const char *const form = "kernel \"behind\" {\n"
                                    "  arg a0 f32[%d] write\n"
                                    "  arg a1 f32[%d] read\n"
                                    "  arg a2 f32[%d] read\n"
                                    "  arg a3 f32[%d] read\n"
                                    "  arg a4 f32[%d] read\n"
                                    "  arg a5 f32[%d] write\n"
                                    "  local t0 f32[1]\n"
                                    "  for i < %d {\n"
                                    "    for j < %d {\n"
                                    "      def t0 = f32(0)\n"
                                    "      for k < %d {\n"
                                    "        t0[0] += mul(a1[i + %d*k], a2[j + %d*k])\n"
                                    "      }\n"
                                    "      a0[%d*i + j] = mul(a3[%d*i + j], t0[0])\n"
                                    "      a5[%d*i + j] = add(a4[%d*i + j], t0[0])\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    static char text[1200];
    int n = i * j;
    snprintf(text, sizeof text, form, n, k * i, k * j, n, n, n, i, j, k, i, j, j, j, j, j);
    return text;
}

/* Two rows of 40 floats, three lines each, shared among the two blocks of the sum. */
static void prefetch_nest_is_shared_among_blocks_of_the_sum(void) {
    BECOMES(product_with_epilogue(4, 40, 6),
            "split i 2 -> io u\nsplit j 40 -> jo v\nswap u jo\naccumulate t0 v\naccumulate t0 u\n"
            "split k 3 -> f s\nprefetch_nest a3 f u_1\nprefetch_nest a0 f u_1",
            "kernel \"behind\" {\n"
            "  arg a0 f32[160] write\n"
            "  arg a1 f32[24] read\n"
            "  arg a2 f32[240] read\n"
            "  arg a3 f32[160] read\n"
            "  arg a4 f32[160] read\n"
            "  arg a5 f32[160] write\n"
            "  local t0 f32[80]\n"
            "  for io < 2 {\n"
            "    for jo < 1 {\n"
            "      def t0 = f32(0)\n"
            "      for f < 2 {\n"
            "        unroll u_3 < 3 {\n"
            "          prefetch a0[40*f + 80*io + 16*u_3]\n"
            "        }\n"
            "        unroll u_2 < 3 {\n"
            "          prefetch a3[40*f + 80*io + 16*u_2]\n"
            "        }\n"
            "        for s < 3 {\n"
            "          for u < 2 {\n"
            "            for v < 40 {\n"
            "              t0[40*u + v] += mul(a1[12*f + 2*io + 4*s + u], a2[120*f + 40*s + v])\n"
            "            }\n"
            "          }\n"
            "        }\n"
            "      }\n"
            "      for u_1 < 2 {\n"
            "        for v_1 < 40 {\n"
            "          a0[80*io + 40*u_1 + v_1] = mul(a3[80*io + 40*u_1 + v_1], t0[40*u_1 + v_1])\n"
            "          a5[80*io + 40*u_1 + v_1] = add(a4[80*io + 40*u_1 + v_1], t0[40*u_1 + v_1])\n"
            "        }\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void prefetch_nest_keeps_results_past_the_end(void) {
    KEEPS(product_with_epilogue(6, 40, 7),
          "split i 3 -> io u\nswap u j\naccumulate t0 u\nsplit k 4 -> f s\n"
          "prefetch_nest a3 f u_1\nprefetch_nest a5 f u_1\nunroll u\nunroll u_1");
}

static void prefetch_nest_is_refused_for_unknown_addresses(void) {
    const char *text = product_with_epilogue(4, 40, 6);
    REFUSES(text, "", "prefetch_nest a3 k j", "in the other");
    REFUSES(text, "", "prefetch_nest t0 k j", "only for an argument");
    REFUSES(text, "accumulate t0 j", "prefetch_nest a1 k j_1", "does not touch that");
    REFUSES(text, "accumulate t0 j\nvec j", "prefetch_nest a3 j j_1", "lanes and members");
    REFUSES(row_sum, "", "prefetch_nest a0 k i", "in the other");
}

/* ---- default schedules ----------------------------------------------------------------------- */

static void check_default(const char *text, const char *has, const char *has_not) {
    const machine limits = record((machine){.name = "test",
                                            .page_parallel_gain = 150,
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .l2 = 1 << 20,
                                            .l3 = 8 << 20,
                                            .threads = 2,
                                            .dots = 7});
    kernel *k = parse(text);
    str s;
    str_open(&s, &ctx.heap);
    schedule_default(k, &limits, &s);
    if (!strstr(s.s, has) || strstr(s.s, has_not)) FAIL("the schedule of %s is\n%s", k->name, s.s);
    str_free(&s);
    ir_close(k);
}

enum {
    BESIDE,
    ALONG,
    PANELS
}; /* layout of columns: contiguous, along the sum, packed beforehand */

static void product_of(char text[800], long long m, long long n, long long k, int columns) {
    static const char *const form[] = {"j + %lld*k", "k + %lld*j", "32*k + j + %lld*(j/32)"};
    const long long by[] = {n, k, 32 * k - 32};
    char index[80];
    snprintf(index, sizeof index, form[columns], by[columns]);
    snprintf(text, 800,
             "kernel \"product\" {\n"
             "  arg a0 f32[%lld] write\n"
             "  arg a1 f32[%lld] read\n"
             "  arg a2 f32[%lld] read\n"
             "  local t0 f32[1]\n"
             "  for i < %lld {\n"
             "    for j < %lld {\n"
             "      def t0 = f32(0)\n"
             "      for k < %lld {\n"
             "        t0[0] += mul(a1[%lld*i + k], a2[%s])\n"
             "      }\n"
             "      a0[%lld*i + j] = t0[0]\n"
             "    }\n"
             "  }\n"
             "}\n",
             m * n, m * k, k * n, m, n, k, k, index, n);
}

/* The packing of rows and of columns contiguous along the sum, of blocks of it, too. */
static void packing_is_transposed_in_whole_vectors_of_the_sum(void) {
    static const struct {
        int m, n, k, columns;
        const char *has;
    } product_[] = {{100, 500, 1000, ALONG, "transpose v"},
                    {100, 500, 1000, ALONG, "transpose mr"},
                    {100, 500, 1000, ALONG, "swap x u_2"}, /* to the ends of long rows */
                    {128, 512, 203, ALONG, "transpose v"},
                    {128, 512, 784, BESIDE, "transpose mr"}};
    for (int i = 0; i < (int)COUNT_OF(product_); i++) {
        char text[800];
        product_of(text, product_[i].m, product_[i].n, product_[i].k, product_[i].columns);
        check_default(text, product_[i].has, "scatter");
    }
}

/* Two lines of non-temporal stores are written one behind the other. */
static void large_transpositions_write_lines_in_pairs(void) {
    for (int i = 0; i < 2; i++) {
        char text[400];
        long long n = i ? 4096 : 512;
        snprintf(text, sizeof text,
                 "kernel \"transposed\" {\n"
                 "  arg a0 f32[%lld] write\n"
                 "  arg a1 f32[%lld] read\n"
                 "  for i < %lld {\n"
                 "    for j < %lld {\n"
                 "      a0[%lld*i + j] = a1[%lld*j + i]\n"
                 "    }\n"
                 "  }\n"
                 "}\n",
                 n * n, n * n, n, n, n, n);
        check_default(text, i ? "split y 2" : "transpose e v", i ? "split y 4" : "split y 2");
    }
}

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

static void prefetch_next_loads_lines_of_the_next_copy(void) {
    static const char *const panels = "kernel \"panels\" {\n"
                                      "  arg a0 f32[16] write\n"
                                      "  arg a1 f32[48] read\n"
                                      "  local t0 f32[8]\n"
                                      "  for p < 4 {\n"
                                      "    def t0\n"
                                      "    for i < 4 {\n"
                                      "      unroll u < 2 {\n"
                                      "        t0[2*i + u] = a1[3*i + 12*p + u]\n"
                                      "      }\n"
                                      "    }\n"
                                      "    for j < 4 {\n"
                                      "      a0[j + 4*p] = add(t0[2*j], t0[2*j + 1])\n"
                                      "    }\n"
                                      "  }\n"
                                      "}\n";
    BECOMES(panels, "prefetch_next i j",
            "kernel \"panels\" {\n"
            "  arg a0 f32[16] write\n"
            "  arg a1 f32[48] read\n"
            "  local t0 f32[8]\n"
            "  for p < 4 {\n"
            "    def t0\n"
            "    for i < 4 {\n"
            "      unroll u < 2 {\n"
            "        t0[2*i + u] = a1[3*i + 12*p + u]\n"
            "      }\n"
            "    }\n"
            "    for j < 4 {\n"
            "      a0[j + 4*p] = add(t0[2*j], t0[2*j + 1])\n"
            "      prefetch a1[3*j + 12*p + 12]\n"
            "      prefetch a1[3*j + 12*p + 13]\n"
            "    }\n"
            "  }\n"
            "}\n");
    BECOMES(panels, "prefetch_next i i",
            "kernel \"panels\" {\n"
            "  arg a0 f32[16] write\n"
            "  arg a1 f32[48] read\n"
            "  local t0 f32[8]\n"
            "  for p < 4 {\n"
            "    def t0\n"
            "    for i < 4 {\n"
            "      unroll u < 2 {\n"
            "        t0[2*i + u] = a1[3*i + 12*p + u]\n"
            "      }\n"
            "      prefetch a1[3*i + 12*p + 12]\n"
            "      prefetch a1[3*i + 12*p + 13]\n"
            "    }\n"
            "    for j < 4 {\n"
            "      a0[j + 4*p] = add(t0[2*j], t0[2*j + 1])\n"
            "    }\n"
            "  }\n"
            "}\n");
    REFUSES(panels, "", "prefetch_next p p", "no loop that copies again");
    REFUSES(panels, "", "prefetch_next j i", "nothing that is copied");
    REFUSES(panels, "", "prefetch_next i u", "no loop that copies again");
    REFUSES(panels, "", "prefetch_next p j", "no loop that copies again");
    REFUSES(panels, "vec j", "prefetch_next i j", "lanes have nothing");
    char deep[800], flat[800];
    product_of(deep, 256, 768, 3072, BESIDE);
    product_of(flat, 256, 768, 48, BESIDE);
    check_default(deep, "prefetch_next kr", "no such line");
    check_default(flat, "stage a2 jr", "prefetch_next");
}

static const char *const moving_loads = "kernel \"near\" {\n"
                                        "  arg a0 f32[160] read\n"
                                        "  arg a1 f32[2] write\n"
                                        "  local t0 f32[80]\n"
                                        "  for j < 2 {\n"
                                        "    def t0 = f32(3)\n"
                                        "    a1[j] = f32(1)\n"
                                        "    for k < 4 {\n"
                                        "      for u < 2 {\n"
                                        "        a1[j] max= mul(t0[20*k + 7*u], a0[k + 40*u])\n"
                                        "      }\n"
                                        "    }\n"
                                        "  }\n"
                                        "}\n";

/* The elements one iteration advances by are prefetched line by line, each row of an operand on its
 * own. */
static void prefetch_trip_loads_lines_of_later_iterations(void) {
    BECOMES(moving_loads, "prefetch_trip t0 k 3\nprefetch_trip a0 k 8",
            "kernel \"near\" {\n"
            "  arg a0 f32[160] read\n"
            "  arg a1 f32[2] write\n"
            "  local t0 f32[80]\n"
            "  for j < 2 {\n"
            "    def t0 = f32(3)\n"
            "    a1[j] = f32(1)\n"
            "    for k < 4 {\n"
            "      for u < 2 {\n"
            "        a1[j] max= mul(t0[20*k + 7*u], a0[k + 40*u])\n"
            "      }\n"
            "      prefetch t0[20*k + 60]\n"
            "      prefetch t0[20*k + 76]\n"
            "      prefetch a0[k + 8]\n"
            "      prefetch a0[k + 48]\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(moving_loads, "prefetch_trip t0 k 1\nprefetch_trip a0 k 1000000\nunroll k\nvec u");
    REFUSES(moving_loads, "", "prefetch_trip t0 j 8", "does not move on");
    REFUSES(moving_loads, "", "prefetch_trip a1 u 8", "does not read that");
    REFUSES(moving_loads, "vec u", "prefetch_trip t0 u 8", "lanes and members");
}

/* Panels in the second-level cache are prefetched, those in the first are not; of unpacked rows
 * from behind the second level their lines, in blocks that are long enough. */
static void operands_outside_the_first_cache_are_prefetched(void) {
    static const struct {
        int m, n, k, columns;
        const char *has, *has_not;
    } product_[] = {{512, 512, 512, BESIDE, "prefetch_trip t", "prefetch_trip a"},
                    {512, 512, 128, BESIDE, "stage a2", "prefetch_trip"},
                    {128, 768, 768, PANELS, "prefetch_distance a2 1024", "stage a2"},
                    {2048, 64, 512, BESIDE, "prefetch_trip a1 pf 4", "prefetch_trip t"},
                    {2048, 64, 512, BESIDE, "split k 256 -> pc", "prefetch_trip t"},
                    {2048, 64, 100, BESIDE, "stage a2", "prefetch_trip"},
                    {128, 64, 512, BESIDE, "stage a2", "prefetch_trip"}};
    for (int i = 0; i < (int)COUNT_OF(product_); i++) {
        char text[800];
        product_of(text, product_[i].m, product_[i].n, product_[i].k, product_[i].columns);
        check_default(text, product_[i].has, product_[i].has_not);
    }
}

static void few_rows_go_along_the_sum(void) {
    static const char *const form = "kernel \"product\" {\n"
                                    "  arg a0 f32[%d] write\n"
                                    "  arg a1 f32[%d] read\n"
                                    "  arg a2 f32[786432] read\n"
                                    "  local t0 f32[1]\n"
                                    "  for i < %d {\n"
                                    "    for j < 768 {\n"
                                    "      def t0 = f32(0)\n"
                                    "      for k < 1024 {\n"
                                    "        t0[0] += mul(a1[1024*i + k], a2[1024*j + k])\n"
                                    "      }\n"
                                    "      a0[768*i + j] = t0[0]\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    char few[600], many[600];
    snprintf(few, sizeof few, form, 8 * 768, 8 * 1024, 8);
    snprintf(many, sizeof many, form, 40 * 768, 40 * 1024, 40);
    check_default(few, "transform_layout t1 16", "stage");
    check_default(many, "stage a2", "transform_layout");
}

/* A vector times a matrix goes along the matrix's rows, in slices where the sum goes down. */
static void vector_times_matrix_walks_the_matrix_as_it_lies(void) {
    static const char *const form = "kernel \"%s\" {\n"
                                    "  arg a0 f32[2048] write\n"
                                    "  arg a1 f32[2048] read\n"
                                    "  arg a2 f32[4194304] read\n"
                                    "  local t0 f32[1]\n"
                                    "  for j < 2048 {\n"
                                    "    def t0 = f32(0)\n"
                                    "    for k < 2048 {\n"
                                    "      t0[0] += mul(a1[k], a2[%s])\n"
                                    "    }\n"
                                    "    a0[j] = t0[0]\n"
                                    "  }\n"
                                    "}\n";
    char down[600], along[600];
    snprintf(down, sizeof down, form, "down", "j + 2048*k");
    snprintf(along, sizeof along, form, "along", "2048*j + k");
    check_default(down, "block_reduction t0", "rfactor");
    check_default(along, "rfactor t0", "block_reduction");
    check_default(along, "accumulate t0 u", "block_reduction"); /* several rows at a time */
    check_default(along, "prefetch_distance a2", "prefetch_distance a1");
}

/* The loads of a long formula prefetch the next block, as many pages on as are walked side by
 * side. */
static void a_long_formula_prefetches_its_streams(void) {
    static const char *const form = "kernel \"%s\" {\n"
                                    "  arg a0 f32[67108864] write\n"
                                    "  arg a1 %s[67108864] read\n"
                                    "  for i < %d {\n"
                                    "    a0[i] = %s\n"
                                    "  }\n"
                                    "}\n";
    static const struct {
        const char *dtype, *value, *has, *has_not;
        int trips;
    } of[] = {{"f32", "exp(a1[i])", "prefetch_distance a1 16384", "prefetch_distance a0", 1 << 26},
              {"bf16", "exp(cast:f32(a1[i]))", "prefetch_distance a1 8192", "prefetch_distance a0",
               1 << 26},
              {"f32", "neg(a1[i])", "swap s", "prefetch_distance", 1 << 26},
              {"f32", "exp(a1[i])", "split", "prefetch_distance", 1 << 15}};
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        char text[600];
        snprintf(text, sizeof text, form, "stream", of[i].dtype, of[i].trips, of[i].value);
        check_default(text, of[i].has, of[i].has_not);
    }
}

/* Four streams of an epilogue are prefetched during the sum, where they are larger than a cache. */
static void streams_of_an_epilogue_are_prefetched(void) {
    check_default(product_with_epilogue(1024, 512, 256), "prefetch_nest a3", "prefetch_nest a1");
    check_default(product_with_epilogue(1024, 512, 256), "prefetch_nest a5", "prefetch_nest a2");
    check_default(product_with_epilogue(256, 512, 256), "swap",
                  "prefetch_nest"); /* streams of half a cache */
    check_default(product_with_epilogue(8192, 512, 256), "prefetch_nest a3",
                  "prefetch_nest a5"); /* a5 is stored non-temporally */
}

/* Panels of an operand from memory are packed side by side, of one in a cache one by one. */
static void panels_are_packed_side_by_side(void) {
    check_default(product_with_epilogue(1024, 512, 256), "swap ir_1 ", "swap jr_1 ");
    check_default(product_with_epilogue(512, 1024, 256), "swap jr_1 ", "swap ir_1 ");
}

/* Narrow operands go by words where the device has a dot instruction, equal signs with an
 * offset. */
static void narrow_products_go_by_words(void) {
    static const char *const form = "kernel \"%s\" {\n"
                                    "  arg a0 %s[65536] write\n"
                                    "  arg a1 %s[65536] read\n"
                                    "  arg a2 %s[65536] read\n"
                                    "  local t0 %s[1]\n"
                                    "  for i < 256 {\n"
                                    "    for j < 256 {\n"
                                    "      def t0 = %s(0)\n"
                                    "      for k < 256 {\n"
                                    "        t0[0] += mul(cast:%s(a1[256*i + k]), "
                                    "cast:%s(a2[j + 256*k]))\n"
                                    "      }\n"
                                    "      a0[256*i + j] = t0[0]\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    static const struct {
        const char *a, *b, *sum, *has, *has_not;
    } row[] = {{"i8", "i8", "i32", "offset t0", "pad k"},
               {"u8", "i8", "i32", "word part", "offset"},
               {"i16", "i16", "i32", "split k 2 -> kw part\nword part", "offset"},
               {"bf16", "bf16", "f32", "word part", "offset"},
               {"f16", "f16", "f32", "v f32", "word"},
               {"i8", "bf16", "f32", "v f32", "word"}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char text[900];
        snprintf(text, sizeof text, form, row[i].a, row[i].sum, row[i].a, row[i].b, row[i].sum,
                 row[i].sum, row[i].sum, row[i].sum);
        check_default(text, row[i].has, row[i].has_not);
    }
}

/* Copies into whole vectors are transposed in registers. */
static void transposed_copies_are_transposed_in_registers(void) {
    static const char *const form = "kernel \"turned\" {\n"
                                    "  arg a0 %s[%d] write\n"
                                    "  arg a1 %s[%d] read\n"
                                    "  for i < %d {\n"
                                    "    for j < %d {\n"
                                    "      a0[%d*i + j] = a1[i + %d*j]\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    static const struct {
        const char *dtype;
        int rows, columns;
        const char *has, *has_not;
    } row[] = {{"f32", 256, 128, "transpose", "stage"},
               {"i32", 257, 128, "transpose", "stage"},
               {"f64", 100, 1024, "transpose", "stage"},
               {"f32", 1100, 1102, "transpose", "stage"},
               {"bf16", 1024, 1024, "stage", "transpose"}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char text[900];
        int r = row[i].rows, c = row[i].columns;
        snprintf(text, sizeof text, form, row[i].dtype, r * c, row[i].dtype, r * c, r, c, c, r);
        check_default(text, row[i].has, row[i].has_not);
    }
}

/* Several passes down strided columns go row by row, what belongs to a column computed
 * beforehand. */
static void softmax_down_columns_walks_rows(void) {
    static const char *const form = "kernel \"softmax\" {\n"
                                    "  arg a0 f32[%d] write\n"
                                    "  arg a1 f32[%d] read\n"
                                    "  local t0 f32[1]\n"
                                    "  local t1 f32[1]\n"
                                    "  for j < %d {\n"
                                    "    def t0 = f32(-inf)\n"
                                    "    for i < 64 {\n"
                                    "      t0[0] max= a1[%d*i + j]\n"
                                    "    }\n"
                                    "    def t1 = f32(0)\n"
                                    "    for k < 64 {\n"
                                    "      t1[0] += exp(sub(a1[%d*k + j], t0[0]))\n"
                                    "    }\n"
                                    "    for l < 64 {\n"
                                    "      a0[%d*l + j] = div(exp(a1[%d*l + j]), sqrt(t1[0]))\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    char far[900], near[900];
    snprintf(far, sizeof far, form, 64 * 2048, 64 * 2048, 2048, 2048, 2048, 2048, 2048);
    snprintf(near, sizeof near, form, 64 * 100, 64 * 100, 100, 100, 100, 100, 100);
    check_default(far, "hoist l", "block_reduction");
    check_default(far, "accumulate t0 jr", "block_reduction");
    check_default(near, "accumulate t0 v", "hoist");
}

static void all(void) {
    RUN(block_reduction_keeps_partial_sums_between_blocks);
    RUN(block_reduction_keeps_register_tiles_and_blocks_of_columns);
    RUN(block_reduction_takes_all_tiles_of_the_loop);
    RUN(block_reduction_is_refused_where_blocks_would_change_the_result);
    RUN(accumulate_finds_names_that_unmoved_loops_lack);
    RUN(spill_gives_a_loop_a_copy_to_read);
    RUN(spill_is_refused_where_there_is_nothing_to_copy);
    RUN(privatize_adds_terms_of_one_element_in_an_accumulator);
    RUN(privatize_is_refused_where_the_element_depends_on_the_loop);
    RUN(prefetch_nest_is_shared_among_blocks_of_the_sum);
    RUN(prefetch_nest_keeps_results_past_the_end);
    RUN(prefetch_nest_is_refused_for_unknown_addresses);
    RUN(panels_are_packed_side_by_side);
    RUN(a_long_formula_prefetches_its_streams);
    RUN(streams_of_an_epilogue_are_prefetched);
    RUN(transpose_copies_through_a_tile);
    RUN(transpose_keeps_copies_in_registers_and_edges);
    RUN(transpose_is_refused_for_more_than_a_copy);
    RUN(vector_times_matrix_walks_the_matrix_as_it_lies);
    RUN(narrow_products_go_by_words);
    RUN(prefetch_next_loads_lines_of_the_next_copy);
    RUN(prefetch_trip_loads_lines_of_later_iterations);
    RUN(operands_outside_the_first_cache_are_prefetched);
    RUN(few_rows_go_along_the_sum);
    RUN(packing_is_transposed_in_whole_vectors_of_the_sum);
    RUN(large_transpositions_write_lines_in_pairs);
    RUN(hoist_computes_invariant_values_once);
    RUN(softmax_down_columns_walks_rows);
    RUN(transposed_copies_are_transposed_in_registers);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
