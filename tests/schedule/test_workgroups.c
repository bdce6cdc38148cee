/* test_workgroups.c - kernels that run in work groups: which loops members may share, where tiles
 * live, where barriers are needed and where not. The interpreter runs the members of a group one
 * after the other, each as far as the next barrier; so a barrier that is missing gives another
 * result. */
#include "ir_cases.h"
#include "schedule/schedule.h"
#include "transform/transform.h"

/* ---- thread --------------------------------------------------------------------------------- */

static const char small_product[] = "kernel \"mm\" {\n"
                                    "  arg a0 f32[24] write\n"
                                    "  arg a1 f32[32] read\n"
                                    "  arg a2 f32[48] read\n"
                                    "  local t0 f32[1]\n"
                                    "  for i < 4 {\n"
                                    "    for j < 6 {\n"
                                    "      def t0 = f32(0)\n"
                                    "      for k < 8 {\n"
                                    "        t0[0] += mul(a1[8*i + k], a2[j + 6*k])\n"
                                    "      }\n"
                                    "      a0[6*i + j] = t0[0]\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";

static const char row_sums[] = "kernel \"sum\" {\n"
                               "  arg a0 f32[3] write\n"
                               "  arg a1 f32[48] read\n"
                               "  local t0 f32[1]\n"
                               "  for i < 3 {\n"
                               "    def t0 = f32(0)\n"
                               "    for k < 16 {\n"
                               "      t0[0] += a1[16*i + k]\n"
                               "    }\n"
                               "    a0[i] = t0[0]\n"
                               "  }\n"
                               "}\n";

static const char copies[] = "kernel \"copies\" {\n"
                             "  arg a0 i32[64] write\n"
                             "  arg a1 i32[64] read\n"
                             "  for i < 4 {\n"
                             "    for j < 16 {\n"
                             "      a0[16*i + j] = a1[16*i + j]\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

static void independent_iterations_may_be_shared_by_members(void) {
    BECOMES(copies, "par i\nthread j\n",
            "kernel \"copies\" {\n"
            "  arg a0 i32[64] write\n"
            "  arg a1 i32[64] read\n"
            "  par i < 4 {\n"
            "    thread j < 16 {\n"
            "      a0[16*i + j] = a1[16*i + j]\n"
            "    }\n"
            "  }\n"
            "}\n");
    BECOMES(small_product, "thread i\nthread j\n", NULL);
}

static void dependent_iterations_may_not(void) {
    REFUSES(row_sums, "", "thread k", "may access the same element of t0");
    REFUSES(small_product, "", "thread k", "may access the same element");
}

static void thread_loops_of_a_nest_stand_directly_in_each_other(void) {
    REFUSES(small_product, "split j 2\nthread i\n", "thread ji", "lies apart in another");
    REFUSES(small_product, "split j 2\nthread i\nthread jo\nthread ji\n", "serial jo",
            "lies apart");
    REFUSES(small_product, "thread i\nthread j\n", "stage a2 i j k", "nothing comes between");
    REFUSES(copies, "split j 4\nthread ji\n", "vec jo", "lies in a vector loop");
}

static void a_group_has_a_most_of_members(void) {
    static const char wide[] = "kernel \"w\" {\n"
                               "  arg a0 i32[2050] write\n"
                               "  for i < 2 {\n"
                               "    for j < 1025 {\n"
                               "      a0[1025*i + j] = i32(1)\n"
                               "    }\n"
                               "  }\n"
                               "}\n";
    REFUSES(wide, "", "thread j", "at most 1024 members");
    REFUSES(wide, "split j 600\nthread ji\n", "thread jo", "at most 1024 members");
    BECOMES(wide, "thread i\n", NULL);
}

/* ---- tree_reduce ----------------------------------------------------------------------------- */

static void tree_reduce_combines_in_halves(void) {
    BECOMES(row_sums,
            "par i\nsplit k 5 -> ko ki\nrfactor t0 ki\ntree_reduce ki_1\nthread ki\nthread ki_1_1\n"
            "thread ki_1_2\n",
            "kernel \"sum\" {\n"
            "  arg a0 f32[3] write\n"
            "  arg a1 f32[48] read\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[5]\n"
            "  par i < 3 {\n"
            "    def t0 = f32(0)\n"
            "    def t1 = f32(0)\n"
            "    for ko < 4 {\n"
            "      thread ki < min(-11, -5*ko) + 16 {\n"
            "        t1[ki] += a1[16*i + ki + 5*ko]\n"
            "      }\n"
            "    }\n"
            "    thread ki_1_1 < 2 {\n"
            "      t1[ki_1_1] += t1[ki_1_1 + 3]\n"
            "    }\n"
            "    thread ki_1_2 < 1 {\n"
            "      t1[0] += t1[2]\n"
            "    }\n"
            "    for ki_1_3 < 1 {\n"
            "      t1[0] += t1[1]\n"
            "    }\n"
            "    t0[0] += t1[0]\n"
            "    a0[i] = t0[0]\n"
            "  }\n"
            "}\n");
}

static void tree_reduce_wants_a_tile_that_ends_there(void) {
    REFUSES(row_sums, "", "tree_reduce k", "no element of a tile");
    REFUSES(small_product, "", "tree_reduce j", "more than one store");
    static const char again[] = "kernel \"again\" {\n"
                                "  arg a0 f32[2] write\n"
                                "  local t0 f32[4]\n"
                                "  local t1 f32[1]\n"
                                "  def t0 = f32(1)\n"
                                "  def t1 = f32(0)\n"
                                "  for k < 4 {\n"
                                "    t1[0] += t0[k]\n"
                                "  }\n"
                                "  a0[0] = t1[0]\n"
                                "  a0[1] = t0[1]\n"
                                "}\n";
    REFUSES(again, "", "tree_reduce k", "used behind the loop");
}

/* ---- barriers ------------------------------------------------------------------------------- */

static kernel *placed(const char *text, const char *schedule) {
    str why;
    str_open(&why, &ctx.heap);
    kernel *k = parse(text);
    if (k && transform_lines(k, schedule, &why) < 0) FAIL("refused: %s", why.s);
    if (k) ir_place_barriers(k);
    str_free(&why);
    return k;
}

static int barriers(const kernel *k) {
    int n = 0;
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) n += ir_s(k, s)->kind == STMT_BARRIER;
    return n;
}

static const char reversed[] = "kernel \"reversed\" {\n"
                               "  arg a0 i32[64] write\n"
                               "  arg a1 i32[64] read\n"
                               "  local t0 i32[16]\n"
                               "  par i < 4 {\n"
                               "    def t0\n"
                               "    thread j < 16 {\n"
                               "      t0[j] = a1[16*i + j]\n"
                               "    }\n"
                               "    thread k < 16 {\n"
                               "      a0[16*i + k] = t0[15 - k]\n"
                               "    }\n"
                               "  }\n"
                               "}\n";

static void a_barrier_precedes_reads_of_another_members_stores(void) {
    kernel *k = placed(reversed, "");
    check_text(__LINE__, k,
               "kernel \"reversed\" {\n"
               "  arg a0 i32[64] write\n"
               "  arg a1 i32[64] read\n"
               "  local t0 i32[16]\n"
               "  par i < 4 {\n"
               "    def t0\n"
               "    thread j < 16 {\n"
               "      t0[j] = a1[16*i + j]\n"
               "    }\n"
               "    barrier\n"
               "    thread k < 16 {\n"
               "      a0[16*i + k] = t0[15 - k]\n"
               "    }\n"
               "  }\n"
               "}\n");
    CHECK(ir_check(k, NULL));
    ir_close(k);
}

/* Run with members: does the kernel give what a plain reading gives? */
static bool same_by_members(kernel *k) {
    int32_t in[64], plain[64] = {0}, grouped[64] = {0};
    char error[200];
    for (int i = 0; i < 64; i++) in[i] = 3 * i - 7;
    bool ran = interp_run(k, false, NULL, (void *[]){plain, in}, error) &&
               interp_run(k, true, NULL, (void *[]){grouped, in}, error);
    if (!ran) FAIL("%s", error);
    return ran && !memcmp(plain, grouped, sizeof plain);
}

static void without_its_barriers_a_kernel_gives_another_result(void) {
    kernel *k = placed(reversed, ""), *without = parse(reversed);
    CHECK(same_by_members(k));
    CHECK(!same_by_members(without));
    ir_close(k);
    ir_close(without);
}

static void a_barrier_precedes_stores_to_what_is_still_read(void) {
    static const char blocks[] = "kernel \"blocks\" {\n"
                                 "  arg a0 i32[64] write\n"
                                 "  arg a1 i32[64] read\n"
                                 "  local t0 i32[16]\n"
                                 "  def t0\n"
                                 "  for i < 4 {\n"
                                 "    thread j < 16 {\n"
                                 "      t0[j] = a1[16*i + j]\n"
                                 "    }\n"
                                 "    thread k < 16 {\n"
                                 "      a0[16*i + k] = t0[15 - k]\n"
                                 "    }\n"
                                 "  }\n"
                                 "}\n";
    kernel *k = placed(blocks, "");
    CHECK_INT(barriers(k), 2);
    CHECK(same_by_members(k));
    stmt_id loop = ir_s(k, ir_find_loop(k, "i"))->first; /* the one at the top of the loop */
    CHECK_INT(ir_s(k, loop)->kind, STMT_BARRIER);
    if (ir_s(k, loop)->kind == STMT_BARRIER) ir_unlink(k, loop);
    CHECK(!same_by_members(k));
    ir_close(k);
}

static void elements_that_stay_with_a_member_need_no_barrier(void) {
    kernel *k =
        placed(small_product,
               "split k 4 -> ko ki\naccumulate t0 j\naccumulate t0 i\nswap ki i\nswap ki j\n"
               "thread i\nthread j\nthread i_1\nthread j_1\n");
    CHECK_INT(barriers(k), 0);
    tile_storage *home = ir_tile_storage(k);
    CHECK_INT(home[ir_find_mem(k, "t0")].place, PLACE_DISTRIBUTED);
    CHECK_INT(home[ir_find_mem(k, "t0")].each, 1);
    ir_close(k);
    /* stored in blocks, each trip of the loop to other elements: nothing to wait for either */
    k = placed(copies, "split j 4\nthread ji\npar i\n");
    CHECK_INT(barriers(k), 0);
    ir_close(k);
}

static void what_the_group_computes_every_member_keeps(void) {
    kernel *k = placed(row_sums, "par i\nsplit k 4 -> ko ki\nrfactor t0 ki\nthread ki\n");
    tile_storage *home = ir_tile_storage(k);
    CHECK_INT(home[ir_find_mem(k, "t0")].place, PLACE_REPLICATED);
    CHECK_INT(home[ir_find_mem(k, "t1")].place, PLACE_SHARED);
    CHECK(barriers(k) >= 1);
    ir_close(k);
}

static void a_staged_operand_is_shared_by_the_group(void) {
    kernel *k =
        placed(small_product,
               "split k 4 -> ko ki\naccumulate t0 j\naccumulate t0 i\nswap ki i\nswap ki j\n"
               "stage a1 ko i ki\nthread i\nthread j\nthread i_1\nthread j_1\n"
               "thread i_2\n");
    tile_storage *home = ir_tile_storage(k);
    CHECK_INT(home[ir_find_mem(k, "t0")].place, PLACE_DISTRIBUTED);
    CHECK_INT(home[ir_find_mem(k, "t1")].place, PLACE_SHARED);
    CHECK_INT(barriers(k), 2);
    ir_close(k);
}

/* Members side by side compute neighbours in memory, also where the rows are two loops that become
 * one: which factor is the rows' is what it was before. */
static void columns_are_where_the_output_is_contiguous(void) {
    static const char text[] = "kernel \"mm\" {\n"
                               "  arg a0 f32[12288] write\n  reg t0 f32[1]\n"
                               "  arg a1 f32[3072] read\n  arg a2 f32[4096] read\n"
                               "  for i0 < 4 {\n    for i1 < 24 {\n      for i2 < 128 {\n"
                               "        def t0 = f32(0)\n        for r0 < 32 {\n"
                               "          t0[0] += mul(a1[768*i0 + 32*i1 + r0], a2[32*i2 + r0])\n"
                               "        }\n        a0[3072*i0 + 128*i1 + i2] = t0[0]\n"
                               "      }\n    }\n  }\n}\n";
    machine m = machine_generic();
    m.members = 256, m.group_bytes = 32 << 10, m.threads = 16;
    for (int exchanged = 0; exchanged < 2; exchanged++) {
        const int64_t dim[4] = {1, 1, 1, 1};
        char product_[sizeof text];
        strcpy(product_, text);
        if (exchanged)
            memcpy(strstr(product_, "mul("), "mul(a2[32*i2 + r0], a1[768*i0 + 32*i1 + r0])", 44);
        str lines;
        str_open(&lines, &ctx.heap);
        kernel *before = parse(product_), *after = parse(product_);
        schedule_default(before, &m, &lines);
        if (!strstr(lines.s, "\nsplit i2 64 -> gc ci\n")) FAIL("the schedule is\n%s", lines.s);
        CHECK(transform_lines(after, lines.s, NULL) > 0);
        ir_place_barriers(after);
        check_same(__LINE__, before, after, dim);
        str_free(&lines);
        ir_close(before);
        ir_close(after);
    }
}

static void all(void) {
    RUN(columns_are_where_the_output_is_contiguous);
    RUN(independent_iterations_may_be_shared_by_members);
    RUN(dependent_iterations_may_not);
    RUN(thread_loops_of_a_nest_stand_directly_in_each_other);
    RUN(a_group_has_a_most_of_members);
    RUN(tree_reduce_combines_in_halves);
    RUN(tree_reduce_wants_a_tile_that_ends_there);
    RUN(a_barrier_precedes_reads_of_another_members_stores);
    RUN(without_its_barriers_a_kernel_gives_another_result);
    RUN(a_barrier_precedes_stores_to_what_is_still_read);
    RUN(elements_that_stay_with_a_member_need_no_barrier);
    RUN(what_the_group_computes_every_member_keeps);
    RUN(a_staged_operand_is_shared_by_the_group);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
