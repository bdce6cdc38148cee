/* test_default_windows.c - which steps stand in the default schedules of windows over images, and
 * of rows with products inside, on a machine that is written down here. */
#include "default_schedule.h"

static machine with_threads(int threads) {
    return record((machine){.name = "test",
                            .page_parallel_gain = 150,
                            .vector_bytes = 64,
                            .registers = 32,
                            .l1 = 32 << 10,
                            .l2 = 1 << 20,
                            .l3 = 8 << 20,
                            .threads = threads});
}

static void check_default(const char *text, const char *has, const char *has_not) {
    const machine limits = with_threads(2);
    check_default_of(&limits, text, has, has_not);
}

/* A row's product whose columns are several loops, rows between them in memory: lanes stay the
 * rows', and the innermost columns are the register tile's. */
static void columns_in_several_loops_are_inside_the_rows(void) {
    check_default("kernel \"rows\" {\n"
                  "  arg a0 f32[903168] write\n"
                  "  arg a1 f32[301056] read\n"
                  "  arg a2 f32[27648] read\n"
                  "  local t0 f32[1]\n"
                  "  local t1 f32[96]\n"
                  "  for i1 < 64 {\n"
                  "    for i3 < 49 {\n"
                  "      def t1\n"
                  "      for h < 96 {\n"
                  "        t1[h] = neg(a1[4704*i1 + 96*i3 + h])\n"
                  "      }\n"
                  "      for i0 < 3 {\n"
                  "        for i2 < 3 {\n"
                  "          for i4 < 32 {\n"
                  "            def t0 = f32(0)\n"
                  "            for r < 96 {\n"
                  "              t0[0] += mul(t1[r], a2[96*i0 + 32*i2 + i4 + 288*r])\n"
                  "            }\n"
                  "            a0[301056*i0 + 4704*i1 + 1568*i2 + 32*i3 + i4] = t0[0]\n"
                  "          }\n"
                  "        }\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "}\n",
                  "split i4 8", "accumulate t0 i4");
}

/* Thirteen rows of an image, a prime number: the weights are packed once for several of them. */
static void weights_are_packed_once_for_parts_of_any_number(void) {
    static const char text[] =
        "kernel \"image\" {\n"
        "  arg a0 f32[32448] write\n"
        "  arg a1 f32[8112] read\n"
        "  arg a2 f32[82944] read\n"
        "  local t0 f32[1]\n"
        "  for i1 < 192 {\n"
        "    for i2 < 13 {\n"
        "      for i3 < 13 {\n"
        "        def t0 = f32(0)\n"
        "        for r1 < 3 {\n"
        "          for r0 < 48 {\n"
        "            for r2 < 3 {\n"
        "              t0[0] += mul(a1[13*i2 + i3 + 169*r0 + 13*r1 + r2 - 14; valid=(13 - i2 - r1 "
        ">= 0 and 13 - i3 - r2 >= 0 and i2 + r1 - 1 >= 0 and i3 + r2 - 1 >= 0)], a2[432*i1 + 9*r0 "
        "+ 3*r1 + r2])\n"
        "            }\n"
        "          }\n"
        "        }\n"
        "        a0[169*i1 + 13*i2 + i3] = t0[0]\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n";
    machine one = with_threads(1), two = with_threads(2);
    check_default_of(&two, text, "split i2 4 -> parts in", "stage a2 i2");
    check_default_of(&one, text, "split i2 13 -> parts in", "stage a2 i2");
}

/* Each image has a window of its own: a copy with its edges a channel, vectors along a row, of a
 * narrow image short ones, and rows beside each other. A copy that is read once is none. */
static void depthwise_windows_slide_over_a_copy_with_edges(void) {
    static const char *const form =
        "kernel \"depthwise\" {\n"
        "  arg a0 f32[%d] write\n"
        "  arg a1 f32[%d] read\n"
        "  arg a2 f32[1600] read\n"
        "  local t0 f32[1]\n"
        "  for c < 64 {\n"
        "    for y < %d {\n"
        "      for x < %d {\n"
        "        def t0 = f32(0)\n"
        "        for r < 5 {\n"
        "          for q < 5 {\n"
        "            t0[0] += mul(a1[%d*c + %d*y + %d*x + %d*r + q - %d; valid=(%d*y + r - 2 >= 0 "
        "and %d - %d*y - r >= 0 and %d*x + q - 2 >= 0 and %d - %d*x - q >= 0)], a2[25*c + 5*r + "
        "q])\n"
        "          }\n"
        "        }\n"
        "        a0[%d*c + %d*y + x] = t0[0]\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n";
    static const struct {
        int size, stride;
        const char *has[2];
    } image[] = {{14, 1, {"stage a1 c y + r x + q", "split y 14 -> ir mr"}},
                 {13, 1, {"split y 13 -> ir mr", "accumulate t0 mr"}},
                 {7, 1, {"split nr 8 -> u v", "stage a1 c"}},
                 {28, 2, {"stage a1 c y + r x + q", "pad x 16"}},
                 {56, 8, {"split y 7 -> ir mr", "accumulate t0 mr"}}};
    for (int i = 0; i < (int)COUNT_OF(image); i++) {
        int n = image[i].size, d = image[i].stride, m = n / d;
        char text[1400];
        snprintf(text, sizeof text, form, 64 * m * m, 64 * n * n, m, m, n * n, d * n, d, n,
                 2 * n + 2, d, n + 1, d, d, n + 1, d, m * m, m);
        for (int k = 0; k < 2; k++)
            check_default(text, image[i].has[k], d > 5 ? "stage" : "rfactor");
    }
}

/* A weight's gradient: its places go around the sum inside of a tile's rows and columns, for what
 * is stored of a tile lies together; the lanes' operand is packed once for a part of the rows. */
static void places_of_a_weight_are_inside_its_channels(void) {
    check_default("kernel \"weights\" {\n"
                  "  arg a0 f32[2359296] write\n"
                  "  arg a1 f32[100352] read\n"
                  "  arg a2 f32[100352] read\n"
                  "  local t0 f32[1]\n"
                  "  for o < 512 {\n"
                  "    for c < 512 {\n"
                  "      for p < 3 {\n"
                  "        for q < 3 {\n"
                  "          def t0 = f32(0)\n"
                  "          for y < 7 {\n"
                  "            for n < 4 {\n"
                  "              for x < 7 {\n"
                  "                t0[0] += mul(a1[49*o + 25088*n + 7*y + x], a2[7*p + q + 49*c + "
                  "25088*n + 7*y + x - 8; valid=(7 - p - y >= 0 and 7 - q - x >= 0 and p + y - 1 "
                  ">= 0 and q + x - 1 >= 0)])\n"
                  "              }\n"
                  "            }\n"
                  "          }\n"
                  "          a0[4608*o + 9*c + 3*p + q] = t0[0]\n"
                  "        }\n"
                  "      }\n"
                  "    }\n"
                  "  }\n"
                  "}\n",
                  "-> parts in", "swap o p");
}

/* Rows of 49 places in windows of 7 by 7: places of a window's row are the tile's rows. What is no
 * sum of products of two loads keeps its loops. */
static void rows_in_windows_are_split_into_steps(void) {
    static const char *const form =
        "kernel \"windows\" {\n"
        "  arg a0 f32[225792] write\n"
        "  arg a1 f32[75264] read\n"
        "  arg a2 f32[442368] read\n"
        "  local t0 f32[1]\n"
        "  for p < 3 {\n"
        "    for i < 4 {\n"
        "      for h < 12 {\n"
        "        for n < 49 {\n"
        "          for d < 32 {\n"
        "            def t0 = f32(0)\n"
        "            for k < 384 {\n"
        "              t0[0] += mul(%sa1[k + 2688*i + 384*n + "
        "32256*(i/2) + 2688*(n/7)]%s, a2[384*p + 32*h + d + 1152*k])\n"
        "            }\n"
        "            a0[75264*p + 18816*i + 1568*h + 32*n + d] = t0[0]\n"
        "          }\n"
        "        }\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n";
    char text[1200];
    snprintf(text, sizeof text, form, "", "");
    check_default(text, "split n 7 -> o_1 w_1", "block_reduction");
    check_default(text, "-> ir mr", "block_reduction");
    snprintf(text, sizeof text, form, "neg(", ")");
    check_default(text, "par ", "split n 7");
}

/* A convolution of 64 channels whose weights lie in panels of 32, and an image of its result's
 * shape added: panels are read where they lie, and both images by vectors along their rows. */
static void packed_weights_are_read_where_they_lie(void) {
    static const char *const form =
        "kernel \"packed\" {\n"
        "  arg a0 f32[12544] write\n"
        "  arg a1 f32[12544] read\n"
        "  arg a2 f32[36864] read\n"
        "  arg a3 f32[12544] read\n"
        "  local t0 f32[1]\n"
        "  for o < 64 {\n"
        "    for y < 14 {\n"
        "      for x < 14 {\n"
        "        def t0 = f32(0)\n"
        "        for c < 64 {\n"
        "          for p < 3 {\n"
        "            for q < 3 {\n"
        "              t0[0] += mul(a1[14*p + q + 196*c + 14*y + x - 15; valid=(14 - p - y >= 0 "
        "and 14 - q - x >= 0 and p + y - 1 >= 0 and q + x - 1 >= 0)], a2[%s])\n"
        "            }\n"
        "          }\n"
        "        }\n"
        "        a0[196*o + 14*y + x] = add(t0[0], a3[196*o + 14*y + x])\n"
        "      }\n"
        "    }\n"
        "  }\n"
        "}\n";
    char packed[1200], plain[1200];
    snprintf(packed, sizeof packed, form, "o + 18400*(o/32) + 288*c + 96*p + 32*q");
    snprintf(plain, sizeof plain, form, "576*o + 9*c + 3*p + q");
    check_default(packed, "split o 32 -> jr nr", "stage a2");
    check_default(plain, "split o 32 -> jr nr", "split o 48");
    check_default(plain, "stage a2", "split o 48");
    check_default(packed, "transpose", "stage a2");
    check_default(packed, "stage a3", "stage a2");
}

static void all(void) {
    RUN(packed_weights_are_read_where_they_lie);
    RUN(rows_in_windows_are_split_into_steps);
    RUN(columns_in_several_loops_are_inside_the_rows);
    RUN(weights_are_packed_once_for_parts_of_any_number);
    RUN(depthwise_windows_slide_over_a_copy_with_edges);
    RUN(places_of_a_weight_are_inside_its_channels);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
