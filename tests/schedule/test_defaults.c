/* test_defaults.c - which steps stand in the default schedules of kernels of some shapes and sizes,
 * on a machine that is written down here. */
#include "default_schedule.h"

static machine one_of(int page_parallel_gain) {
    return record((machine){.name = "test",
                            .page_parallel_gain = page_parallel_gain,
                            .vector_bytes = 64,
                            .registers = 32,
                            .l1 = 32 << 10,
                            .l2 = 1 << 20,
                            .l3 = 8 << 20,
                            .threads = 2,
                            .dots = 7});
}

static void check_default(const char *text, const char *has, const char *has_not) {
    const machine limits = one_of(150);
    check_default_of(&limits, text, has, has_not);
}

enum {
    BESIDE,
    ALONG,
    PANELS
}; /* layout of columns: contiguous, along the sum, packed beforehand */

static void matrix_times_vector(char text[600], int rows, int columns) {
    snprintf(text, 600,
             "kernel \"rows\" {\n"
             "  arg a0 f32[%d] write\n"
             "  arg a1 f32[%d] read\n"
             "  arg a2 f32[%d] read\n"
             "  reg t0 f32[1]\n"
             "  for i < %d {\n"
             "    def t0 = f32(0)\n"
             "    for k < %d {\n"
             "      t0[0] += mul(a1[%d*i + k], a2[k])\n"
             "    }\n"
             "    a0[i] = t0[0]\n"
             "  }\n"
             "}\n",
             rows, rows * columns, columns, rows, columns, columns);
}

/* Where not, rows are a quarter of the matrix apart, unless half of the last cache holds it. */
static void rows_go_beside_each_other_where_that_gains(void) {
    char text[600];
    machine limits = one_of(150);
    matrix_times_vector(text, 512, 2048);
    limits.row_parallel_gain = 150;
    check_default_of(&limits, text, "split i 4", "scatter");
    limits.row_parallel_gain = 70;
    check_default_of(&limits, text, "rfactor", "-> u g");
    matrix_times_vector(text, 1024, 2048);
    check_default_of(&limits, text, "split i 256 -> u g", "prefetch");
    limits.row_parallel_gain = 150;
    check_default_of(&limits, text, "prefetch_distance a1", "split i 256");
}

/* Rows that are shorter than a page go one after the other. What the second cache holds, and what
 * all rows share, is not prefetched. */
static void lines_of_short_rows_are_prefetched(void) {
    char text[600];
    machine limits = one_of(150);
    limits.row_parallel_gain = 150;
    matrix_times_vector(text, 2048, 512);
    check_default_of(&limits, text, "prefetch_trip a1 o", "prefetch_trip a2");
    matrix_times_vector(text, 128, 512);
    check_default_of(&limits, text, "rfactor", "prefetch");
    matrix_times_vector(text, 2048, 512);
    limits.row_parallel_gain = 70;
    check_default_of(&limits, text, "rfactor", "prefetch");
}

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

/* One panel of columns, its rows one behind the other, is not copied to lie as it does. */
static void columns_that_lie_packed_stay(void) {
    char text[800];
    product_of(text, 512, 64, 512, BESIDE);
    check_default(text, "accumulate t0 mr", "stage a2");
    product_of(text, 512, 128, 512, BESIDE);
    check_default(text, "stage a2", "scatter");
}

/* Partial sums of a whole result would be more than a tile may hold: it is made in parts. */
static void large_results_go_by_blocks_of_the_sum(void) {
    static const int side[][3] = {{8192, 8192, 1024},
                                  {16400, 8192, 1000},
                                  {100000, 4100, 2048},
                                  {3000, 100000, 2048},
                                  {32768, 65536, 8192}};
    for (int i = 0; i < (int)COUNT_OF(side); i++) {
        char text[800];
        product_of(text, side[i][0], side[i][1], side[i][2], BESIDE);
        check_default(text, "block_reduction", "scatter");
        check_default(text, "stage a2", "scatter");
    }
}

/* Weights in blocks with scales, of few rows: each vector of weights is made once for all of them,
 * in registers, its scale once for a block. */
static void few_rows_share_what_is_made_of_blocks(void) {
    static const char text[] =
        "kernel \"blocks\" {\n arg a0 f32[2048] write\n reg t0 f32[1]\n arg a1 f32[4096] read\n"
        " arg a2 f32[16384] read\n arg a3 i8[524288] read\n"
        " for i < 4 {\n for j < 512 {\n def t0 = f32(0)\n for k < 1024 {\n"
        " t0[0] += mul(a1[1024*i + k], mul(a2[32*j + k/32], cast:f32(a3[1024*j + k])))\n }\n"
        " a0[512*i + j] = t0[0]\n }\n }\n}\n";
    machine narrow = one_of(150);
    narrow.vector_bytes = 32;
    narrow.registers = 16;
    check_default_of(&narrow, text, "rfactor t0 v", "stage");
    check_default_of(&narrow, text, "accumulate t0 i", "pad");
    check_default_of(&narrow, text, "unroll kr", "stage");
    check_default(text, "rfactor t0 v", "stage");
}

/* Of many rows some at a time, and columns beside them, though that makes each vector of weights
 * once more: rows from the second cache would take longer. Weights are asked for ahead as well. */
static void more_rows_than_columns_share_them_in_parts(void) {
    static const char text[] =
        "kernel \"blocks\" {\n arg a0 f32[65536] write\n reg t0 f32[1]\n arg a1 f32[65536] read\n"
        " arg a2 i8[16777216] read\n"
        " for i < 16 {\n for j < 4096 {\n def t0 = f32(0)\n for k < 4096 {\n"
        " t0[0] += mul(a1[4096*i + k], mul(f32(0.25), cast:f32(a2[4096*j + k])))\n }\n"
        " a0[4096*i + j] = t0[0]\n }\n }\n}\n";
    check_default(text, "split i 4 -> it mr", "split j 1 ");
    check_default(text, "split j 1024 -> nr jc", "stage a2"); /* far from each other */
    check_default(text, "prefetch_trip a2 kr 512\n", "stage a2");
}

/* A long scan streams, too, but pages side by side would go out of its order: nothing of the kind
 * is proposed. */
static void a_scan_is_not_asked_for_pages_side_by_side(void) {
    static const char text[] = "kernel \"scan\" {\n arg a0 f32[16777216] write\n reg t0 f32[1]\n"
                               " arg a1 f32[16777216] read\n def t0 = f32(0)\n for i < 16777216 {\n"
                               " t0[0] += a1[i]\n a0[i] = t0[0]\n }\n}\n";
    const machine limits = one_of(150);
    kernel *k = parse(text);
    str lines;
    str_open(&lines, &ctx.heap);
    CHECK_INT(schedule_default(k, &limits, &lines).dropped, 0);
    CHECK(lines.len > 0);
    str_free(&lines);
    ir_close(k);
}

/* Lanes go along the sum only where what they load lies together there: not down the rows of a
 * matrix, and not at places that another array says, but in a table. */
static void lanes_gather_from_tables_alone(void) {
    static const char form[] =
        "kernel \"gathers\" {\n arg a0 f32[2048] write\n reg t0 f32[1]\n arg a1 f32[4096] read\n"
        " arg a2 f32[524288] read\n arg a3 %s read\n"
        " for i < 4 {\n for j < 512 {\n def t0 = f32(0)\n for k < 1024 {\n"
        " t0[0] += mul(a1[1024*i + k], %s)\n }\n"
        " a0[512*i + j] = t0[0]\n }\n }\n}\n";
    static const struct {
        const char *other, *factor;
        bool along;
    } row[] = {{"f32[1024]", "mul(a3[k], a2[1024*j + k])", true},
               {"f32[1024]", "mul(a3[k], a2[512*k + j])", false},
               {"f32[512]", "mul(a3[j], a2[1024*j + k])", true},
               {"f32[524288]", "mul(a3[1024*j + k], a2[512*k + j])", false},
               {"i32[1024]",
                "a2[1024*j; dyn=a3[k]; guard=and(le(i32(0), a3[k]), lt(a3[k], i32(1024)))]",
                false}};
    machine narrow = one_of(150);
    narrow.vector_bytes = 32;
    narrow.registers = 16;
    for (int i = 0; i < (int)COUNT_OF(row); i++) {
        char text[800];
        snprintf(text, sizeof text, form, row[i].other, row[i].factor);
        check_default_of(&narrow, text, row[i].along ? "rfactor t0 v" : "",
                         row[i].along ? "stage" : "rfactor");
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
        machine half = one_of(150);
        half.vector_bytes = 32; /* half a cache line, which is complete before another is begun */
        half.registers = 16;
        const char *line = "split j 16 -> y e", *vector = "split j 8 -> y e";
        check_default_of(&half, text, i ? line : vector, i ? vector : line);
        check_default_of(&half, text, "transpose e v", "stage");
        half.registers = 8;
        check_default_of(&half, text, vector, line);
    }
}

static void lines_of_the_next_panel_are_prefetched(void) {
    char deep[800], flat[800];
    product_of(deep, 256, 768, 3072, BESIDE);
    product_of(flat, 256, 768, 48, BESIDE);
    check_default(deep, "prefetch_next kr", "no such line");
    check_default(flat, "stage a2 jr", "prefetch_next");
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
    check_default(few, "transform_layout t1 16", "stage a2");
    check_default(many, "stage a2", "transform_layout");
    snprintf(many, sizeof many, form, 16 * 768, 16 * 1024, 16);
    check_default(many, "split i 8 -> it mr", "stage a2"); /* and 3 columns: 24 sums */
    machine narrow = one_of(150);
    narrow.vector_bytes = 32;
    narrow.registers = 16;
    check_default_of(&narrow, many, "split i 4 -> it mr", "stage a2");
    check_default_of(&narrow, few, "split j 256 -> nr jc\nswap nr jc\n", "stage a2"); /* far */
}

/* Rows a way of the first cache apart collide there: they are read from a copy. */
static void few_rows_that_collide_are_copied(void) {
    static const char *const form =
        "kernel \"product\" {\n arg a0 f32[6144] write\n arg a1 f32[%d] read\n"
        " arg a2 f32[%d] read\n local t0 f32[1]\n for i < 8 {\n for j < 768 {\n"
        " def t0 = f32(0)\n for k < %d {\n t0[0] += mul(a1[%d*i + k], a2[%d*j + k])\n }\n"
        " a0[768*i + j] = t0[0]\n }\n }\n}\n";
    char text[600];
    snprintf(text, sizeof text, form, 8 * 1024, 768 * 1024, 1024, 1024, 1024);
    check_default(text, "stage a1 jp kr", "stage a2");
    snprintf(text, sizeof text, form, 8 * 1040, 768 * 1040, 1040, 1040, 1040);
    check_default(text, "rfactor t0 v", "stage");
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

/* Two matrices at once share the rows of a slice, for each row of each is a stream. */
static void matrices_beside_each_other_share_the_streams(void) {
    static const char pair[] = "kernel \"pair\" {\n"
                               "  arg a0 f32[2048] write\n"
                               "  arg a1 f32[2048] read\n"
                               "  arg a2 f32[4194304] read\n"
                               "  arg a3 f32[4194304] read\n"
                               "  local t0 f32[1]\n"
                               "  local t1 f32[1]\n"
                               "  for j < 2048 {\n"
                               "    def t0 = f32(0)\n"
                               "    def t1 = f32(0)\n"
                               "    for k < 2048 {\n"
                               "      t0[0] += mul(a1[k], a2[j + 2048*k])\n"
                               "      t1[0] += mul(a1[k], a3[j + 2048*k])\n"
                               "    }\n"
                               "    a0[j] = mul(t0[0], t1[0])\n"
                               "  }\n"
                               "}\n";
    check_default(pair, "split k 8 -> pc k", "rfactor");
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

/* Rows of a loop are in no cache, however small: what reads and writes them asks a page ahead, a
 * product's epilogue during its sum. Rows of a page are not worth it. */
static void rows_of_a_loop_are_prefetched(void) {
    static const char *const form = "kernel \"%s\" {\n"
                                    "  arg a0 f32[%d] write row\n"
                                    "  arg a1 f32[%d] read row\n"
                                    "  arg a2 f32[%d] read\n"
                                    "  for i < %d {\n"
                                    "    a0[i] = tanh(add(a1[i], a2[i]))\n"
                                    "  }\n"
                                    "}\n";
    static const int size[] = {8192, 1024};
    char text[1300];
    for (int i = 0; i < 2; i++) {
        int n = size[i];
        snprintf(text, sizeof text, form, "row", n, n, n, n);
        check_default(text, i ? "split" : "prefetch_distance a0 4096",
                      i ? "prefetch" : "prefetch_distance a2");
        check_default(text, i ? "split" : "prefetch_distance a1 4096", "prefetch_nest");
    }
    char *plain = strdup(product_with_epilogue(256, 512, 256)), *at = strstr(plain, "arg a3");
    at = strchr(at, '\n');
    snprintf(text, sizeof text, "%.*s row%s", (int)(at - plain), plain, at);
    check_default(text, "prefetch_nest a3", "prefetch_nest a4");
    free(plain);
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
    } row[] = {
        {"f32", 256, 128, "transpose", "stage"},  {"i32", 257, 128, "transpose", "stage"},
        {"f64", 100, 1024, "transpose", "stage"}, {"f32", 500, 502, "transpose", "stage"},
        {"f32", 3001, 70, "transpose", "stage"},  {"bf16", 1024, 1024, "stage", "transpose"}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char text[900];
        int r = row[i].rows, c = row[i].columns;
        snprintf(text, sizeof text, form, row[i].dtype, r * c, row[i].dtype, r * c, r, c, c, r);
        check_default(text, row[i].has, row[i].has_not);
    }
}

/* Large ones of odd sizes go by rows where stores past the caches gain nothing. */
static void large_copies_of_odd_sizes_go_by_rows(void) {
    static const char text[] =
        "kernel \"turned\" {\n arg a0 f32[1212200] write\n arg a1 f32[1212200] read\n"
        " for i < 1100 {\n for j < 1102 {\n a0[1102*i + j] = a1[i + 1100*j]\n }\n }\n}\n";
    machine limits = one_of(150);
    check_default_of(&limits, text, "align", "split i 16 -> a v");
    limits.nontemporal_gain = 100;
    check_default_of(&limits, text, "transpose e v", "stage");
}

/* A sum over a row that streams from memory has accumulators for parts of the row, in whatever
 * order these are walked: a store and a load between two additions would take longer than one. */
static void accumulators_of_long_rows_stay_in_registers(void) {
    static const char rows[] = "kernel \"rows\" {\n"
                               "  arg a0 f32[30] write\n"
                               "  arg a1 f32[1966080] read\n"
                               "  local t0 f32[1]\n"
                               "  for i < 30 {\n"
                               "    def t0 = f32(0)\n"
                               "    for k < 65536 {\n"
                               "      t0[0] += a1[65536*i + k]\n"
                               "    }\n"
                               "    a0[i] = t0[0]\n"
                               "  }\n"
                               "}\n";
    for (int gain = 50; gain <= 150; gain += 100) {
        const machine limits = one_of(gain);
        kernel *k = parse(rows);
        str s;
        str_open(&s, &ctx.heap);
        schedule_default(k, &limits, &s);
        if (!strstr(s.s, "-> s l")) FAIL("the schedule is\n%s", s.s);
        CHECK(transform_lines(k, s.s, NULL) > 0);
        for (mem_id i = 1; i < k->mems; i++)
            if (ir_m(k, i)->scope != MEM_ARG) CHECK(ir_in_registers(k, i, NULL));
        str_free(&s);
        ir_close(k);
    }
}

/* The sums of a batch norm by channels: a row is many short runs of contiguous elements, and lanes
 * go along those, never across channels. */
static void rows_of_short_runs_go_along_them(void) {
    static const char *const form = "kernel \"channels\" {\n"
                                    "  arg a0 f32[64] write\n"
                                    "  arg a1 f32[%d] read\n"
                                    "  arg a2 f32[64] write\n"
                                    "  local t0 f32[1]\n"
                                    "  local t1 f32[1]\n"
                                    "  for i < 64 {\n"
                                    "    def t0 = f32(0)\n"
                                    "    for n < %d {\n"
                                    "      for k < 64 {\n"
                                    "        t0[0] += a1[64*i + 4096*n + k]\n"
                                    "      }\n"
                                    "    }\n"
                                    "    a0[i] = t0[0]\n"
                                    "    def t1 = f32(0)\n"
                                    "    for m < %d {\n"
                                    "      for l < 64 {\n"
                                    "        t1[0] += mul(a1[64*i + 4096*m + l], t0[0])\n"
                                    "      }\n"
                                    "    }\n"
                                    "    a2[i] = t1[0]\n"
                                    "  }\n"
                                    "}\n";
    for (int n = 4; n <= 64; n *= 4) {
        char text[900];
        snprintf(text, sizeof text, form, 4096 * n, n, n);
        check_default(text, "rfactor t1", "accumulate");
    }
}

/* Attention has products of rows by what they share. Squares of a row, summed in blocks beside
 * another sum, are no such thing: lanes go along the row. */
static void squares_of_a_row_are_no_attention(void) {
    static const char rows[] = "kernel \"squares\" {\n"
                               "  arg a0 f32[16] write\n"
                               "  arg a1 f32[4194304] read\n"
                               "  arg a2 f32[1024] read\n"
                               "  local t0 f32[1]\n"
                               "  local t1 f32[1]\n"
                               "  local t2 f32[1]\n"
                               "  for i < 16 {\n"
                               "    def t0 = f32(0)\n"
                               "    for b < 64 {\n"
                               "      def t1 = f32(0)\n"
                               "      for k < 4096 {\n"
                               "        t1[0] += mul(sub(a1[262144*i + 4096*b + k], a2[i]), "
                               "sub(a1[262144*i + 4096*b + k], a2[i]))\n"
                               "      }\n"
                               "      t0[0] += t1[0]\n"
                               "    }\n"
                               "    def t2 = f32(0)\n"
                               "    for l < 64 {\n"
                               "      t2[0] += a2[64*i + l]\n"
                               "    }\n"
                               "    a0[i] = add(t0[0], t2[0])\n"
                               "  }\n"
                               "}\n";
    check_default(rows, "rfactor t1", "split i 16");
}

/* The only query of each head: its weights' sum of the head's values shares nothing with others, so
 * heads are no lanes. Lanes go across the values, which lie side by side. */
static void one_query_a_head_walks_its_values_as_they_lie(void) {
    static const char heads[] = "kernel \"heads\" {\n"
                                "  arg a0 f32[768] write\n"
                                "  arg a1 f32[3072] read\n"
                                "  arg a2 f32[196608] read\n"
                                "  local t0 f32[1]\n"
                                "  local t1 f32[256]\n"
                                "  local t2 f32[1]\n"
                                "  for i < 12 {\n"
                                "    def t1\n"
                                "    for h < 256 {\n"
                                "      t1[h] = exp(a1[256*i + h])\n"
                                "    }\n"
                                "    def t2 = f32(0)\n"
                                "    for s < 256 {\n"
                                "      t2[0] += t1[s]\n"
                                "    }\n"
                                "    for j < 64 {\n"
                                "      def t0 = f32(0)\n"
                                "      for k < 256 {\n"
                                "        t0[0] += mul(t1[k], a2[16384*i + j + 64*k])\n"
                                "      }\n"
                                "      a0[64*i + j] = div(t0[0], t2[0])\n"
                                "    }\n"
                                "  }\n"
                                "}\n";
    check_default(heads, "accumulate t0 v", "pad i 16");
    check_default(heads, "rfactor t2", "rfactor t0");
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

/* Rows of an operand that is padded along one of its axes, as where the last of each sequence was
 * cut off, are all one loop, whose copy has the zeros; so a deep sum goes by blocks. Where columns
 * are few each sequence is as good alone. */
static void rows_of_a_padded_operand_are_one_loop(void) {
    static const char *const form =
        "kernel \"product\" {\n"
        "  arg a0 f32[%d] write\n"
        "  arg a1 f32[%d] read\n"
        "  arg a2 f32[%d] read\n"
        "  local t0 f32[1]\n"
        "  for b < 4 {\n"
        "    for i < 65 {\n"
        "      for j < %d {\n"
        "        def t0 = f32(0)\n"
        "        for k < 5000 {\n"
        "          t0[0] += mul(a1[320000*b + 5000*i + k; valid=(63 - i >= 0)], a2[%d*k + j])\n"
        "        }\n"
        "        a0[%d*b + %d*i + j] = t0[0]\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n";
    char wide[900], narrow[900];
    snprintf(wide, sizeof wide, form, 260 * 768, 256 * 5000, 768 * 5000, 768, 768, 65 * 768, 768);
    snprintf(narrow, sizeof narrow, form, 260 * 32, 256 * 5000, 32 * 5000, 32, 32, 65 * 32, 32);
    check_default(wide, "merge b i", "stage a1 ir mr k");
    check_default(wide, "block_reduction", "stage a1 ir mr k");
    check_default(narrow, "stage a1", "merge b i");
}

/* Sequences by time and by example: rows of both are read whole, in any order. Where an operand is
 * contiguous along the sum, its order is that of the loops. */
static void terms_in_two_orders_are_one_sum(void) {
    static const char *const form = "kernel \"gradient\" {\n"
                                    "  arg a0 f32[262144] write\n"
                                    "  arg a1 f32[1048576] read\n"
                                    "  arg a2 f32[262144] read\n"
                                    "  local t0 f32[1]\n"
                                    "  for i < 1024 {\n"
                                    "    for j < 256 {\n"
                                    "      def t0 = f32(0)\n"
                                    "      for t < 64 {\n"
                                    "        for b < 16 {\n"
                                    "          t0[0] += mul(a1[16384*t + 1024*b + i], a2[%s])\n"
                                    "        }\n"
                                    "      }\n"
                                    "      a0[256*i + j] = t0[0]\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";
    char rows[900], along[900];
    snprintf(rows, sizeof rows, form, "256*t + 16384*b + j; valid=(62 - t >= 0)");
    snprintf(along, sizeof along, form, "t + 64*b + 1024*j");
    check_default(rows, "merge t b", "merge b t");
    check_default(along, "accumulate t0", "merge t b");
}

/* An optimizer's count of its steps, beside a weight's gradient: one more item. */
static void a_number_beside_a_product_leaves_it_parallel(void) {
    char text[900], whole[800];
    product_of(whole, 256, 512, 300, BESIDE);
    char *loops = strstr(whole, "  for i");
    snprintf(text, sizeof text,
             "%.*s  arg a3 f32[1] write\n  arg a4 f32[1] read\n"
             "  a3[0] = add(a4[0], f32(1))\n%s",
             (int)(loops - whole), whole, loops);
    check_default(text, "par ", "unroll nothing");
    kernel *k = parse(text);
    const machine limits = one_of(150);
    str lines, why;
    str_open(&lines, &ctx.heap);
    str_open(&why, &ctx.heap);
    schedule_default(k, &limits, &lines);
    CHECK(transform_lines(k, lines.s, &why) > 0);
    CHECK(ir_check(k, &why));
    str_free(&lines);
    str_free(&why);
    ir_close(k);
}

/* Four vectors of channels beside two images: lanes go where the images go. */
static void lanes_go_along_what_has_most_elements(void) {
    check_default("kernel \"norm\" {\n"
                  "  arg a0 f32[602112] write\n"
                  "  arg a1 f32[602112] read\n"
                  "  arg a2 f32[192] read\n"
                  "  arg a3 f32[192] read\n"
                  "  arg a4 f32[192] read\n"
                  "  arg a5 f32[192] read\n"
                  "  for c < 192 {\n"
                  "    for i < 3136 {\n"
                  "      a0[3136*c + i] = add(mul(div(sub(a1[3136*c + i], a2[c]), a3[c]), a4[c]), "
                  "a5[c])\n"
                  "    }\n"
                  "  }\n"
                  "}\n",
                  "split i 64", "swap");
}

static void all(void) {
    RUN(lanes_go_along_what_has_most_elements);
    RUN(a_number_beside_a_product_leaves_it_parallel);
    RUN(terms_in_two_orders_are_one_sum);
    RUN(rows_of_a_padded_operand_are_one_loop);
    RUN(panels_are_packed_side_by_side);
    RUN(a_long_formula_prefetches_its_streams);
    RUN(streams_of_an_epilogue_are_prefetched);
    RUN(vector_times_matrix_walks_the_matrix_as_it_lies);
    RUN(matrices_beside_each_other_share_the_streams);
    RUN(narrow_products_go_by_words);
    RUN(operands_outside_the_first_cache_are_prefetched);
    RUN(few_rows_go_along_the_sum);
    RUN(few_rows_that_collide_are_copied);
    RUN(packing_is_transposed_in_whole_vectors_of_the_sum);
    RUN(columns_that_lie_packed_stay);
    RUN(large_results_go_by_blocks_of_the_sum);
    RUN(few_rows_share_what_is_made_of_blocks);
    RUN(more_rows_than_columns_share_them_in_parts);
    RUN(lanes_gather_from_tables_alone);
    RUN(a_scan_is_not_asked_for_pages_side_by_side);
    RUN(large_transpositions_write_lines_in_pairs);
    RUN(accumulators_of_long_rows_stay_in_registers);
    RUN(rows_of_short_runs_go_along_them);
    RUN(squares_of_a_row_are_no_attention);
    RUN(one_query_a_head_walks_its_values_as_they_lie);
    RUN(softmax_down_columns_walks_rows);
    RUN(transposed_copies_are_transposed_in_registers);
    RUN(large_copies_of_odd_sizes_go_by_rows);
    RUN(lines_of_the_next_panel_are_prefetched);
    RUN(rows_of_a_loop_are_prefetched);
    RUN(rows_go_beside_each_other_where_that_gains);
    RUN(lines_of_short_rows_are_prefetched);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
