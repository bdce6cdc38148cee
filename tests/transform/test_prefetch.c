/* test_prefetch.c - the transforms that ask for lines before they are loaded: of streams in another
 * nest (prefetch_nest), of the next copy (prefetch_next), of later iterations (prefetch_trip); as
 * in test_transforms.c. */
#include "ir_cases.h"

/* ---- prefetch_nest --------------------------------------------------------------------------- */

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
    REFUSES(text, "accumulate t0 j", "prefetch_nest a1 k j_1", "does not access that");
    REFUSES(text, "accumulate t0 j\nvec j", "prefetch_nest a3 j j_1", "lanes and members");
    REFUSES(row_sum, "", "prefetch_nest a0 k i", "in the other");
}

/* ---- prefetch_next and prefetch_trip --------------------------------------------------------- */

static const char panels[] = "kernel \"panels\" {\n"
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

static void prefetch_next_loads_lines_of_the_next_copy(void) {
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

/* Scales, halves of bytes, and a second stream: lines of each stream, once. */
static const char blocks[] = "kernel \"blocks\" {\n"
                             "  dim at 0 140\n"
                             "  arg a0 u8[128] write\n"
                             "  arg a1 u8[2304] read\n"
                             "  for o < 8 {\n"
                             "    for v < 16 {\n"
                             "      a0[16*o + v] = add(add(a1[144*o], a1[at + 144*o]), "
                             "add(a1[144*o + v/2 + 16], a1[144*o + v/2 + 1160]))\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

static void prefetch_trip_asks_for_each_line_of_a_stream_once(void) {
    BECOMES(blocks, "prefetch_trip a1 o 2",
            "kernel \"blocks\" {\n"
            "  dim at 0 140\n"
            "  arg a0 u8[128] write\n"
            "  arg a1 u8[2304] read\n"
            "  for o < 8 {\n"
            "    for v < 16 {\n"
            "      a0[16*o + v] = add(add(a1[144*o], a1[at + 144*o]), "
            "add(a1[144*o + v/2 + 16], a1[144*o + v/2 + 1160]))\n"
            "    }\n"
            "    prefetch a1[144*o + 1448]\n"
            "    prefetch a1[144*o + 1512]\n"
            "    prefetch a1[144*o + 1576]\n"
            "    prefetch a1[144*o + 304]\n"
            "    prefetch a1[144*o + 368]\n"
            "    prefetch a1[144*o + 432]\n"
            "  }\n"
            "}\n");
    REFUSES("kernel \"two steps\" {\n  arg a0 u8[64] write\n  arg a1 u8[1024] read\n"
            "  for o < 8 {\n    a0[o] = add(a1[128*o], a1[16*o])\n  }\n}\n",
            "", "prefetch_trip a1 o 2", "other steps");
}

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
    REFUSES("kernel \"kept\" {\n"
            "  arg a0 f32[4] write\n"
            "  reg t0 f32[4]\n"
            "  def t0 = f32(3)\n"
            "  unroll i < 4 {\n"
            "    a0[i] = t0[i]\n"
            "  }\n"
            "}\n",
            "", "prefetch_trip t0 i 8", "registers have no address");
}

static void all(void) {
    RUN(prefetch_nest_is_shared_among_blocks_of_the_sum);
    RUN(prefetch_nest_keeps_results_past_the_end);
    RUN(prefetch_nest_is_refused_for_unknown_addresses);
    RUN(prefetch_next_loads_lines_of_the_next_copy);
    RUN(prefetch_trip_asks_for_each_line_of_a_stream_once);
    RUN(prefetch_trip_loads_lines_of_later_iterations);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
