/* test_fission.c - the transforms for kernels over blocks of rows: a loop for each statement of a
 * row (fission), a tile's rows interleaved (transform_layout), iterations without effect dropped
 * (trim), fused loops with folded storage, full iterations at the end (peel), and loops that merged
 * ones leave independent; as in test_transforms.c. */
#include "ir_cases.h"
#include "records.h"
#include "schedule/schedule.h"

/* Causal attention of 7 queries and keys, 5 deep. */
static const char attention[] = "kernel \"attention\" {\n"
                                "  arg a0 f32[35] write\n"
                                "  arg a1 f32[35] read\n"
                                "  arg a2 f32[35] read\n"
                                "  arg a3 f32[35] read\n"
                                "  local t0 f32[7]\n"
                                "  reg t1 f32[1]\n"
                                "  reg t2 f32[1]\n"
                                "  for q < 7 {\n"
                                "    def t0\n"
                                "    for k < 7 {\n"
                                "      def t1 = f32(0)\n"
                                "      for d < 5 {\n"
                                "        t1[0] += mul(a1[5*q + d], a2[5*k + d])\n"
                                "      }\n"
                                "      t0[k] = exp(t1[0])\n"
                                "    }\n"
                                "    for e < 5 {\n"
                                "      def t2 = f32(0)\n"
                                "      for r < 7 {\n"
                                "        t2[0; valid=(q - r >= 0)] += mul(t0[r], a3[5*r + e])\n"
                                "      }\n"
                                "      a0[5*q + e] = t2[0]\n"
                                "    }\n"
                                "  }\n"
                                "}\n";

/* Sums of what does not come before. */
static const char from_here[] = "kernel \"from_here\" {\n"
                                "  arg a0 f32[7] write\n"
                                "  arg a1 f32[7] read\n"
                                "  local t0 f32[1]\n"
                                "  for i < 7 {\n"
                                "    def t0 = f32(0)\n"
                                "    for r < 7 {\n"
                                "      t0[0; valid=(r - i >= 0)] += a1[r]\n"
                                "    }\n"
                                "    a0[i] = t0[0]\n"
                                "  }\n"
                                "}\n";

static const char two_things[] = "kernel \"two\" {\n"
                                 "  arg a0 f32[6] write\n"
                                 "  arg a1 f32[6] read\n"
                                 "  local t0 f32[6]\n"
                                 "  def t0\n"
                                 "  for i < 2 {\n"
                                 "    for j < 3 {\n"
                                 "      t0[3*i + j] = exp(a1[3*i + j])\n"
                                 "    }\n"
                                 "    for l < 3 {\n"
                                 "      a0[3*i + l] = neg(t0[3*i - l + 2])\n"
                                 "    }\n"
                                 "  }\n"
                                 "}\n";

/* ---- fission -------------------------------------------------------------------------------- */

static void fission_gives_each_statement_a_loop(void) {
    BECOMES(two_things, "fission i",
            "kernel \"two\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[6] read\n"
            "  local t0 f32[6]\n"
            "  def t0\n"
            "  for i < 2 {\n"
            "    for j < 3 {\n"
            "      t0[3*i + j] = exp(a1[3*i + j])\n"
            "    }\n"
            "  }\n"
            "  for i_1 < 2 {\n"
            "    for l < 3 {\n"
            "      a0[3*i_1 + l] = neg(t0[3*i_1 - l + 2])\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(attention, "accumulate t0 q\nfission q");
    KEEPS(attention, "split q 3 -> b v\naccumulate t0 v\nfission v\ntrim r");
}

static void fission_is_refused_for_carried_dependences(void) {
    REFUSES(attention, "", "fission q", "a tile is defined");
    REFUSES(two_things, "", "fission j", "does one thing only");
    REFUSES("kernel \"next\" {\n" /* trip i reads what trip i - 1 has written */
            "  arg a0 f32[8] read write\n"
            "  local t0 f32[8]\n"
            "  def t0 = f32(0)\n"
            "  for i < 7 {\n"
            "    t0[i + 1] = a0[i]\n"
            "    a0[i] = t0[i]\n"
            "  }\n"
            "}\n",
            "", "fission i", "may access the same element");
}

/* ---- fuse and fold_storage ------------------------------------------------------------------- */

/* Weights of a row, their sum, and a sum that needs both in its last block only. */
static const char softly[] = "kernel \"softly\" {\n"
                             "  arg a0 f32[1] write\n"
                             "  arg a1 f32[12] read\n"
                             "  local t0 f32[12]\n"
                             "  local t1 f32[1]\n"
                             "  local t2 f32[1]\n"
                             "  for o < 1 {\n"
                             "    def t0\n"
                             "    def t1 = f32(0)\n"
                             "    for i < 12 {\n"
                             "      t0[i] = exp(a1[i])\n"
                             "    }\n"
                             "    for j < 12 {\n"
                             "      t1[0] += t0[j]\n"
                             "    }\n"
                             "    for e < 1 {\n"
                             "      def t2 = f32(0)\n"
                             "      for r < 12 {\n"
                             "        t2[0] += mul(t0[r], a1[r])\n"
                             "      }\n"
                             "      a0[e] = div(t2[0], t1[0])\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

static void fuse_makes_one_loop_of_two(void) {
    BECOMES("kernel \"behind\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[6] read\n"
            "  local t0 f32[6]\n"
            "  local t1 f32[1]\n"
            "  for o < 2 {\n"
            "    def t0\n"
            "    for i < 6 {\n"
            "      t0[i] = exp(a1[i])\n"
            "    }\n"
            "    def t1 = f32(1)\n"
            "    for j < 6 {\n"
            "      a0[j] = add(t0[j], t1[0])\n"
            "    }\n"
            "  }\n"
            "}\n",
            "fuse i j\nfold_storage t0 i",
            "kernel \"behind\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[6] read\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[1]\n"
            "  for o < 2 {\n"
            "    def t1 = f32(1)\n"
            "    for i < 6 {\n"
            "      def t0\n"
            "      t0[0] = exp(a1[i])\n"
            "      a0[i] = add(t0[0], t1[0])\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(softly, "fuse i j");
}

static void fuse_is_refused_where_a_later_trip_is_needed(void) {
    REFUSES(two_things, "", "fuse j l", "may access the same element"); /* backwards */
    REFUSES(softly, "", "fuse j i", "not behind");
    REFUSES(softly, "", "fuse i e", "numbers of trips");
    REFUSES(softly, "unroll j", "fuse i j", "serial");
    REFUSES(softly, "fuse i j", "fuse i r", "not beside");
    /* the second needs the whole sum of the first, not what it is so far */
    REFUSES("kernel \"whole\" {\n"
            "  arg a0 f32[8] write\n"
            "  arg a1 f32[8] read\n"
            "  local t0 f32[1]\n"
            "  def t0 = f32(0)\n"
            "  for i < 8 {\n"
            "    t0[0] += a1[i]\n"
            "  }\n"
            "  for j < 8 {\n"
            "    a0[j] = mul(a1[j], t0[0])\n"
            "  }\n"
            "}\n",
            "", "fuse i j", "may access the same element");
}

#define SLICES "fuse i j\nsplit r 4 -> c k\nblock_reduction t2 c e\nsplit i 4 -> d l\nfuse d c"

static void slices_of_a_row_are_made_and_summed_together(void) {
    KEEPS(softly, SLICES); /* the division waits for the last slice, where the sum is whole */
    KEEPS(softly, SLICES "\nfold_storage t0 d");
    KEEPS(softly, "fuse i j\nsplit r 5 -> c k\nblock_reduction t2 c e\nsplit i 5 -> d l\nfuse d c\n"
                  "fold_storage t0 d"); /* a last slice that is cut short */
}

static void fold_storage_is_refused_where_iterations_share_elements(void) {
    REFUSES(softly, "fuse i j", "fold_storage t0 i", "outside of the loop");
    REFUSES(softly, SLICES, "fold_storage t1 d", "does not step");
    REFUSES(softly, SLICES, "fold_storage t2 d", "not defined beside");
    REFUSES(two_things, "fission i", "fold_storage t0 i", "outside of the loop");
    REFUSES(argmax, "rfactor t1 k\nfuse k k_1", "fold_storage t2 k", "together with another");
    REFUSES(two_things, "split j 1 -> jo ji", "fold_storage t0 jo", "not defined beside");
}

/* ---- transform_layout ------------------------------------------------------------------------ */

static void transform_layout_interleaves_rows(void) {
    BECOMES(two_things, "transform_layout t0 2",
            "kernel \"two\" {\n"
            "  arg a0 f32[6] write\n"
            "  arg a1 f32[6] read\n"
            "  local t0 f32[6]\n"
            "  def t0\n"
            "  for i < 2 {\n"
            "    for j < 3 {\n"
            "      t0[i + 2*j] = exp(a1[3*i + j])\n"
            "    }\n"
            "    for l < 3 {\n"
            "      a0[3*i + l] = neg(t0[i - 2*l + 4])\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(two_things, "transform_layout t0 3\ntransform_layout t0 2");
    KEEPS(two_things, "transform_layout t0 6");
    REFUSES(two_things, "", "transform_layout t0 4", "no multiple");
    REFUSES(two_things, "", "transform_layout a1 2", "only a tile");
}

/* ---- trim ------------------------------------------------------------------------------------ */

/* A mask whose other loop ends by the loop that is trimmed. */
static const char by_itself[] = "kernel \"by_itself\" {\n"
                                "  dim n 1 8\n"
                                "  arg a0 f32[n] read write\n"
                                "  arg a1 f32[n] read\n"
                                "  for j < 12 {\n"
                                "    for i < n - min(j, n) {\n"
                                "      a0[i; valid=(n + i - 2*j >= 0)] += a1[i]\n"
                                "    }\n"
                                "  }\n"
                                "}\n";

static void trim_drops_masked_iterations(void) {
    REFUSES(by_itself, "", "trim j", "may do something");
    BECOMES(from_here, "trim r",
            "kernel \"from_here\" {\n"
            "  arg a0 f32[7] write\n"
            "  arg a1 f32[7] read\n"
            "  local t0 f32[1]\n"
            "  for i < 7 {\n"
            "    def t0 = f32(0)\n"
            "    for r < 7 - i {\n"
            "      t0[0] += a1[i + r]\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n");
    BECOMES(from_here, "pad r 8\nsplit r 2 -> o v\ntrim o",
            "kernel \"from_here\" {\n"
            "  arg a0 f32[7] write\n"
            "  arg a1 f32[7] read\n"
            "  local t0 f32[1]\n"
            "  for i < 7 {\n"
            "    def t0 = f32(0)\n"
            "    for o < 4 - i/2 {\n"
            "      for v < 2 {\n"
            "        t0[0; valid=(-i + 2*o + v + 2*(i/2) >= 0)] += a1[2*o + v + 2*(i/2); "
            "valid=(6 - 2*o - v - 2*(i/2) >= 0)]\n"
            "      }\n"
            "    }\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n");
    KEEPS(attention, "trim r");
    KEEPS(attention,
          "split q 2 -> b v\naccumulate t0 v\nfission v\nswap v_1 e\naccumulate t2 v_1\ntrim r");
    REFUSES(attention, "", "trim d", "may do something");
    REFUSES(from_here, "trim r", "trim r", "may do something");
    REFUSES(from_here, "split r 2 -> o v\nvec v", "trim v", "only a serial loop");
}

/* The sum reads scores up to its own query, so later ones need not be made. */
static void trim_drops_iterations_whose_stores_are_unread(void) {
    BECOMES(attention, "trim r\ntrim k",
            "kernel \"attention\" {\n"
            "  arg a0 f32[35] write\n"
            "  arg a1 f32[35] read\n"
            "  arg a2 f32[35] read\n"
            "  arg a3 f32[35] read\n"
            "  local t0 f32[7]\n"
            "  reg t1 f32[1]\n"
            "  reg t2 f32[1]\n"
            "  for q < 7 {\n"
            "    def t0\n"
            "    for k < q + 1 {\n"
            "      def t1 = f32(0)\n"
            "      for d < 5 {\n"
            "        t1[0] += mul(a1[d + 5*q], a2[d + 5*k])\n"
            "      }\n"
            "      t0[k] = exp(t1[0])\n"
            "    }\n"
            "    for e < 5 {\n"
            "      def t2 = f32(0)\n"
            "      for r < q + 1 {\n"
            "        t2[0] += mul(t0[r], a3[e + 5*r])\n"
            "      }\n"
            "      a0[e + 5*q] = t2[0]\n"
            "    }\n"
            "  }\n"
            "}\n");
    KEEPS(attention,
          "split q 4 -> b v\naccumulate t0 v\ntransform_layout t0 4\nfission v\nswap v_1 "
          "e\naccumulate t2 v_1\n"
          "trim r\nswap v k\ntrim k\nsplit k 2 -> ko ku\naccumulate t1 v\naccumulate t1 ku\nvec v");
    REFUSES(attention, "", "trim k", "may do something");
}

/* ---- peel ------------------------------------------------------------------------------------ */

static void peel_finds_full_trips_at_the_end(void) {
    BECOMES("kernel \"block\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[36] read\n"
            "  local t0 f32[4]\n"
            "  def t0 = f32(0)\n"
            "  for r < 9 {\n"
            "    for v < 4 {\n"
            "      t0[v; valid=(r - v >= 0)] += a1[4*r + v]\n"
            "    }\n"
            "  }\n"
            "  for j < 4 {\n"
            "    a0[j] = t0[j]\n"
            "  }\n"
            "}\n",
            "peel r",
            "kernel \"block\" {\n"
            "  arg a0 f32[4] write\n"
            "  arg a1 f32[36] read\n"
            "  local t0 f32[4]\n"
            "  def t0 = f32(0)\n"
            "  for r < 3 {\n"
            "    for v < 4 {\n"
            "      t0[v; valid=(r - v >= 0)] += a1[4*r + v]\n"
            "    }\n"
            "  }\n"
            "  for r_1 < 6 {\n"
            "    for v_1 < 4 {\n"
            "      t0[v_1] += a1[4*r_1 + v_1 + 12]\n"
            "    }\n"
            "  }\n"
            "  for j < 4 {\n"
            "    a0[j] = t0[j]\n"
            "  }\n"
            "}\n");
    REFUSES(from_here, "trim r", "peel r", "nothing in the loop is cut short");
}

/* ---- the default schedule -------------------------------------------------------------------- */

/* Two products of a row, all that they read in memory, so that the row has no tile of its own. */
static void blocks_of_rows_need_no_tile(void) {
    static const char text[] = "kernel \"two products\" {\n"
                               "  arg a0 f32[320] write\n"
                               "  arg a1 f32[480] write\n"
                               "  arg a2 f32[280] read\n"
                               "  arg a3 f32[56] read\n"
                               "  arg a4 f32[84] read\n"
                               "  local t0 f32[1]\n"
                               "  local t1 f32[1]\n"
                               "  for i < 40 {\n"
                               "    for j < 8 {\n"
                               "      def t0 = f32(0)\n"
                               "      for r < 7 {\n"
                               "        t0[0] += mul(a2[7*i + r], a3[8*r + j])\n"
                               "      }\n"
                               "      a0[8*i + j] = t0[0]\n"
                               "    }\n"
                               "    for l < 12 {\n"
                               "      def t1 = f32(0)\n"
                               "      for s < 7 {\n"
                               "        t1[0] += mul(a2[7*i + s], a4[12*s + l])\n"
                               "      }\n"
                               "      a1[12*i + l] = t1[0]\n"
                               "    }\n"
                               "  }\n"
                               "}\n";
    const machine limits = record((machine){.page_parallel_read_gain = 150,
                                            .page_parallel_gain = 150,
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .threads = 1});
    str lines;
    str_open(&lines, &ctx.heap);
    kernel *k = parse(text);
    schedule_default(k, &limits, &lines);
    CHECK(strstr(lines.s, "fission"));
    KEEPS(text, lines.s);
    ir_close(k);
    str_free(&lines);
}

static const char long_rows[] =
    "kernel \"long rows\" {\n"
    "  arg a0 f32[520] write\n"
    "  arg a1 f32[325] read\n"
    "  arg a2 f32[1500] read\n"
    "  arg a3 f32[2400] read\n"
    "  local t0 f32[300]\n"
    "  local t1 f32[1]\n"
    "  local t2 f32[1]\n"
    "  local t3 f32[1]\n"
    "  for i < 65 {\n"
    "    def t0\n"
    "    for j < 300 {\n"
    "      def t1 = f32(0)\n"
    "      for d < 5 {\n"
    "        t1[0] += mul(a1[5*i + d], a2[5*j + d])\n"
    "      }\n"
    "      t0[j] = exp(t1[0])\n"
    "    }\n"
    "    def t2 = f32(0)\n"
    "    for l < 300 {\n"
    "      t2[0; valid=(i - l + 267 >= 0)] += t0[l]\n"
    "    }\n"
    "    for e < 8 {\n"
    "      def t3 = f32(0)\n"
    "      for r < 300 {\n"
    "        t3[0; valid=(i - r + 267 >= 0)] += mul(t0[r], a3[8*r + e])\n"
    "      }\n"
    "      a0[8*i + e] = div(t3[0], t2[0])\n"
    "    }\n"
    "  }\n"
    "}\n";

/* Rows of 300 scores: a slice of them is made, weighted and summed before the next. */
static void long_rows_go_by_slices(void) {
    const machine limits = record((machine){.page_parallel_read_gain = 150,
                                            .page_parallel_gain = 150,
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .threads = 1});
    str lines;
    str_open(&lines, &ctx.heap);
    kernel *k = parse(long_rows);
    schedule_default(k, &limits, &lines);
    CHECK(strstr(lines.s, "fuse e"));
    CHECK(strstr(lines.s, "block_reduction"));
    CHECK(strstr(lines.s, "peel f"));      /* weights no mask cuts short, apart */
    CHECK(strstr(lines.s, "transpose u")); /* results are stored by pieces of rows */
    if (!strstr(lines.s, "fold_storage t0")) FAIL("%s", lines.s);
    KEEPS(long_rows, lines.s);
    ir_close(k);
    str_free(&lines);
}

/* The rows of keys and values are read for each block again; a larger block reads them less. */
static void blocks_are_larger_where_rereads_miss_the_cache(void) {
    static const int64_t l2[] = {1 << 20, 8 << 10};
    for (int i = 0; i < 2; i++) {
        const machine limits = record((machine){.page_parallel_read_gain = 150,
                                                .page_parallel_gain = 150,
                                                .vector_bytes = 16,
                                                .registers = 32,
                                                .l1 = 4 << 10,
                                                .l2 = l2[i],
                                                .threads = 1});
        str lines;
        str_open(&lines, &ctx.heap);
        kernel *k = parse(long_rows);
        schedule_default(k, &limits, &lines);
        CHECK(strstr(lines.s, i ? "split i 16" : "split i 8"));
        KEEPS(long_rows, lines.s);
        ir_close(k);
        str_free(&lines);
    }
}

/* ---- loops in parallel ----------------------------------------------------------------------- */

/* Words of four bytes in two rows, of which i counts the words and r walks four bytes of each row:
 * 4*i + 16*(r/4) + r%4. */
static void a_loop_is_parallel_around_one_that_was_merged(void) {
    BECOMES("kernel \"words\" {\n"
            "  arg a0 f32[32] write\n"
            "  arg a1 f32[32] read\n"
            "  for i < 4 {\n"
            "    for r < 8 {\n"
            "      a0[4*i + r + 12*(r/4)] = neg(a1[8*i + r])\n"
            "    }\n"
            "  }\n"
            "}\n",
            "par i",
            "kernel \"words\" {\n"
            "  arg a0 f32[32] write\n"
            "  arg a1 f32[32] read\n"
            "  par i < 4 {\n"
            "    for r < 8 {\n"
            "      a0[4*i + r + 12*(r/4)] = neg(a1[8*i + r])\n"
            "    }\n"
            "  }\n"
            "}\n");
}

/* The rows are 12 apart: the last word of one is the first of the next. */
static void a_loop_is_not_parallel_where_halves_of_a_merged_one_meet(void) {
    REFUSES("kernel \"words\" {\n"
            "  arg a0 f32[28] write\n"
            "  arg a1 f32[32] read\n"
            "  for i < 4 {\n"
            "    for r < 8 {\n"
            "      a0[r + 4*i + 8*(r/4)] = neg(a1[r + 8*i])\n"
            "    }\n"
            "  }\n"
            "}\n",
            "", "par i", "may access the same element of a0");
}

static void all(void) {
    RUN(fission_gives_each_statement_a_loop);
    RUN(fission_is_refused_for_carried_dependences);
    RUN(fuse_makes_one_loop_of_two);
    RUN(fuse_is_refused_where_a_later_trip_is_needed);
    RUN(slices_of_a_row_are_made_and_summed_together);
    RUN(fold_storage_is_refused_where_iterations_share_elements);
    RUN(transform_layout_interleaves_rows);
    RUN(trim_drops_masked_iterations);
    RUN(trim_drops_iterations_whose_stores_are_unread);
    RUN(peel_finds_full_trips_at_the_end);
    RUN(blocks_of_rows_need_no_tile);
    RUN(long_rows_go_by_slices);
    RUN(blocks_are_larger_where_rereads_miss_the_cache);
    RUN(a_loop_is_parallel_around_one_that_was_merged);
    RUN(a_loop_is_not_parallel_where_halves_of_a_merged_one_meet);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
