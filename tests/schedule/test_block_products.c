/* test_block_products.c - which schedules products of blocks of bytes get, of one row and of
 * many. */
#include "default_schedule.h"

static void check_default(const char *text, const char *has, const char *has_not) {
    const machine limits = record((machine){.name = "test",
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .l2 = 1 << 20,
                                            .l3 = 8 << 20,
                                            .threads = 2,
                                            .dots = 7});
    check_default_of(&limits, text, has, has_not);
}

/* Rows of products of so many bytes, each scaled, of so many blocks. */
static void blocks_of(char text[900], int lanes, int products) {
    snprintf(text, 900,
             "kernel \"blocks\" {\n"
             "  arg a0 f32[4096] write\n"
             "  arg a1 u8[%d] read\n"
             "  arg a2 i8[%d] read\n"
             "  arg a3 f32[%d] read\n"
             "  local t0 f32[1]\n"
             "  local t1 i32[1]\n"
             "  for i < 4096 {\n"
             "    def t0 = f32(0)\n"
             "    for b < %d {\n"
             "      def t1 = i32(0)\n"
             "      for k < %d {\n"
             "        t1[0] += mul(cast:i32(a1[%d*i + %d*b + k]), cast:i32(a2[%d*b + k]))\n"
             "      }\n"
             "      t0[0] += mul(cast:f32(t1[0]), a3[%d*i + b])\n"
             "    }\n"
             "    a0[i] = t0[0]\n"
             "  }\n"
             "}\n",
             4096 * lanes * products, lanes * products, 4096 * lanes, lanes, products,
             lanes * products, products, products, lanes);
}

/* Words of several blocks are lanes, whose products dot instructions make. */
static void blocks_of_bytes_go_by_words_in_lanes(void) {
    static const struct {
        int lanes, products;
        const char *has, *has_not;
    } of[] = {{1024, 4, "word k\n", "pad"},   {1024, 4, "split b 64", "pad"},
              {512, 8, "word part\n", "pad"}, {96, 8, "split b 32", "pad"},
              {10, 4, "pad b 16", "par k"},   {1024, 6, "par i", "word"}};
    for (int i = 0; i < (int)COUNT_OF(of); i++) {
        char text[900];
        blocks_of(text, of[i].lanes, of[i].products);
        check_default(text, of[i].has, of[i].has_not);
    }
}

/* Rows of words whose scale, of a byte, neighbours share: of all that have the `span` bytes of a
 * block it is the one at `at`. With a second sum of `others`, a block each, or 8 of a few trips. */
static void scaled_blocks_of(char text[1300], int lanes, int group, int span, int others) {
    const int groups = lanes / group, row = groups * span;
    int n = snprintf(
        text, 1300,
        "kernel \"scaled\" {\n"
        "  arg a0 f32[4096] write\n"
        "  arg a1 u8[%d] read\n"
        "  arg a2 i8[%d] read\n"
        "  local t0 f32[1]\n"
        "  local t1 i32[1]\n"
        "  local t2 f32[1]\n"
        "  for i < 4096 {\n"
        "    def t0 = f32(0)\n"
        "    for b < %d {\n"
        "      def t1 = i32(0)\n"
        "      for k < 4 {\n"
        "        t1[0] += mul(cast:i32(a1[%d*i + %d*(b/%d) + 4*b - %d*(b/%d) + k + 1]), "
        "cast:i32(a2[4*b + k]))\n"
        "      }\n"
        "      t0[0] += mul(cast:f32(t1[0]), cast:f32(add(mul(cast:i32(a1[%d*i + "
        "%d*(b/%d)]), i32(37)), i32(11))))\n"
        "    }\n",
        4096 * row, 4 * lanes, lanes, row, span, group, 4 * group, group, row, span, group);
    const char *end = "    a0[i] = t0[0]\n  }\n}\n";
    const char *second = others < 8 ? "    def t2 = f32(0)\n"
                                      "    for c < %d {\n"
                                      "      for e < 8 {\n"
                                      "        t2[0] += cast:f32(a1[%d*i + %d*c + e])\n"
                                      "      }\n"
                                      "    }\n"
                                    : "    def t2 = f32(0)\n"
                                      "    for c < %d {\n"
                                      "      t2[0] += cast:f32(a1[%d*i + %d*c])\n"
                                      "    }\n";
    if (others) n += snprintf(text + n, 1300 - (size_t)n, second, others, row, span);
    if (others) end = "    a0[i] = sub(t0[0], t2[0])\n  }\n}\n";
    snprintf(text + n, 1300 - (size_t)n, "%s", end);
}

/* Scales are made in front of the products, of a row, or of parts of it that are no more than a
 * page, where they lie evenly in it; else of a trip. Two pages ahead are asked for. A second sum of
 * as many trips goes along. */
static void scales_are_made_side_by_side(void) {
    static const struct {
        int lanes, group, span, others;
        const char *has, *has_not;
    } of[] = {{320, 8, 33, 0, "compute_at i o u g\n", "prefetch_distance"},
              {320, 8, 33, 0, "prefetch_trip a1 o 32\n", "-> c"},
              {320, 4, 17, 0, "split v 4 -> g l\n", "-> c"},
              {2560, 8, 33, 0, "split o 10 -> c o_1\n", "compute_at i"},
              {2560, 8, 33, 0, "compute_at c o_1 u g\n", "prefetch_trip a1 o "},
              {2560, 8, 33, 0, "prefetch_trip a1 o_1 32\n", "prefetch_trip a2"},
              {64 * 53, 8, 33, 0, "split o 1 -> c o_1\n", "compute_at i"},
              {512, 128, 513, 0, "prefetch_distance a1 4096\n", "prefetch_trip a1"},
              {320, 8, 33, 40, "compute_at i o u g\n", "accumulate t2"},
              {320, 8, 33, 40, "rfactor t2 v", "pad"},
              {320, 8, 33, 5, "fuse o c\n", "pad"},
              {320, 8, 33, 4, "rfactor t2 v", "fuse"},
              {320, 320, 1281, 0, "split b 64", "compute_at"}};
    for (int i = 0; i < (int)COUNT_OF(of); i++) {
        char text[1300];
        scaled_blocks_of(text, of[i].lanes, of[i].group, of[i].span, of[i].others);
        check_default(text, of[i].has, of[i].has_not);
    }
}

/* A few rows of the same; with `others` a second sum, a block each. */
static void rows_of_blocks(char text[1300], int rows, int columns, bool others) {
    const char *more = "      def t2 = f32(0)\n"
                       "      for c < 80 {\n"
                       "        t2[0] += mul(cast:f32(a1[1360*i + 17*c]), a3[80*h + c])\n"
                       "      }\n";
    snprintf(text, 1300,
             "kernel \"rows\" {\n"
             "  arg a0 f32[%d] write\n"
             "  arg a1 u8[%d] read\n"
             "  arg a2 i8[%d] read\n"
             "  arg a3 f32[%d] read\n"
             "  local t0 f32[1]\n"
             "  local t1 i32[1]\n"
             "  local t2 f32[1]\n"
             "  for h < %d {\n"
             "    for i < %d {\n"
             "      def t0 = f32(0)\n"
             "      for b < 320 {\n"
             "        def t1 = i32(0)\n"
             "        for k < 4 {\n"
             "          t1[0] += mul(cast:i32(a1[1360*i + 17*(b/4) + 4*b - 16*(b/4) + k + 1]), "
             "cast:i32(a2[1280*h + 4*b + k]))\n"
             "        }\n"
             "        t0[0] += mul(cast:f32(t1[0]), mul(cast:f32(add(mul(cast:i32(a1[1360*i + "
             "17*(b/4)]), i32(37)), i32(11))), a3[80*h + b/4]))\n"
             "      }\n"
             "%s"
             "      a0[%d*h + i] = %s\n"
             "    }\n"
             "  }\n"
             "}\n",
             rows * columns, columns * 1360, rows * 1280, rows * 80, rows, columns,
             others ? more : "", columns, others ? "sub(t0[0], t2[0])" : "t0[0]");
}

/* Rows share vectors of weights, columns those of rows; as many vectors a trip as share one of
 * scales. */
static void few_rows_of_blocks_share_weights(void) {
    static const struct {
        int rows, columns;
        bool others;
        const char *has, *has_not;
    } of[] = {{16, 256, false, "split h 8 -> io mr\n", "pad"},
              {16, 256, false, "accumulate_through t0 mr\n", "prefetch_trip a2"},
              {16, 256, false, "compute_at o mr nr u g\n", "rfactor t3"},
              {16, 256, false, "split w 4 -> o u\n", "pad"},
              {16, 256, false, "prefetch_trip a1 o 31\n", "prefetch_trip a3"},
              {16, 256, false, "split i 128 -> nr jo\n", "pad"},
              {5, 256, false, "split h 5 -> io mr\n", "pad"},
              {5, 256, false, "swap nr jo\n", "prefetch_distance"},
              {5, 256, false, "prefetch_trip a1 o 31\n", "prefetch_trip a2"},
              {17, 256, false, "pad h 6\n", "split h 8"},
              {8, 33, false, "compute_at o mr u g\n", " nr"},
              {8, 256, true, "rfactor t2 v", "accumulate_through t2"},
              {1, 256, false, "split w 16 -> u v\n", "accumulate_through"}};
    for (int i = 0; i < (int)COUNT_OF(of); i++) {
        char text[1300];
        rows_of_blocks(text, of[i].rows, of[i].columns, of[i].others);
        check_default(text, of[i].has, of[i].has_not);
    }
}

/* The same of many rows and columns; words of so many columns lie behind each other. */
static void block_product_of(char text[1200], int rows, int columns, int width) {
    int blocks = 4, panel = width * 32 * blocks;
    snprintf(text, 1200,
             "kernel \"blocks\" {\n"
             "  arg a0 f32[%d] write\n"
             "  arg a1 u8[%d] read\n"
             "  arg a2 i8[%d] read\n"
             "  arg a3 f32[%d] read\n"
             "  local t0 f32[1]\n"
             "  local t1 i32[1]\n"
             "  for i < %d {\n"
             "    for j < %d {\n"
             "      def t0 = f32(0)\n"
             "      for b < %d {\n"
             "        def t1 = i32(0)\n"
             "        for k < 32 {\n"
             "          t1[0] += mul(cast:i32(a1[4*j + %d*(j/%d) + %d*b + %d*(k/4) + k]), "
             "cast:i32(a2[%d*i + 32*b + k]))\n"
             "        }\n"
             "        t0[0] += mul(cast:f32(t1[0]), a3[%d*j + b])\n"
             "      }\n"
             "      a0[%d*i + j] = t0[0]\n"
             "    }\n"
             "  }\n"
             "}\n",
             rows * columns, columns * 32 * blocks, rows * 32 * blocks, columns * blocks, rows,
             columns, blocks, panel - 4 * width, width, 32 * width, 4 * width - 4, 32 * blocks,
             blocks, columns);
}

/* A register tile of both sums; what does not lie so goes another way. */
static void many_rows_of_blocks_get_a_tile(void) {
    static const struct {
        int rows, columns, width;
        const char *has, *has_not;
    } of[] = {{128, 256, 16, "accumulate_through t0 v\n", "rfactor"},
              {128, 256, 16, "word part\n", "par i"},
              {128, 256, 64, "accumulate t1 mr\n", "rfactor"},
              {3, 256, 16, "split i 3 -> it mr", "pad"},
              {128, 256, 4, "par i", "accumulate_through"},
              {128, 10, 16, "par p", "accumulate_through"}};
    for (int i = 0; i < (int)COUNT_OF(of); i++) {
        char text[1200];
        block_product_of(text, of[i].rows, of[i].columns, of[i].width);
        check_default(text, of[i].has, of[i].has_not);
    }
}

static void all(void) {
    RUN(blocks_of_bytes_go_by_words_in_lanes);
    RUN(scales_are_made_side_by_side);
    RUN(few_rows_of_blocks_share_weights);
    RUN(many_rows_of_blocks_get_a_tile);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
