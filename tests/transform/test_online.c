/* test_online.c - the online softmax: what it makes, keeps and refuses, as in test_transforms.c,
 * and rows of -inf, infinities and NaN, which must come out as without it. */
#include "ir_cases.h"

#include <math.h>

/* Rows: the sum of weights relative to the maximum, and of what is weighted. */
static const char weights[] = "kernel \"weights\" {\n"
                              "  arg a0 f32[35] write\n"
                              "  arg a1 f32[60] read\n"
                              "  arg a2 f32[84] read\n"
                              "  local t0 f32[1]\n"
                              "  local t1 f32[1]\n"
                              "  local t2 f32[7]\n"
                              "  for i < 5 {\n"
                              "    def t0 = f32(-inf)\n"
                              "    def t1 = f32(0)\n"
                              "    def t2 = f32(0)\n"
                              "    for j < 12 {\n"
                              "      t0[0] max= a1[12*i + j]\n"
                              "    }\n"
                              "    for k < 12 {\n"
                              "      t1[0] += exp(mul(sub(a1[12*i + k], t0[0]), f32(0.5)))\n"
                              "      for d < 7 {\n"
                              "        t2[d] += mul(exp(mul(sub(a1[12*i + k], t0[0]), f32(0.5))), "
                              "a2[7*k + d])\n"
                              "      }\n"
                              "    }\n"
                              "    for c < 7 {\n"
                              "      a0[7*i + c] = div(t2[c], t1[0])\n"
                              "    }\n"
                              "  }\n"
                              "}\n";

static void sums_are_rescaled_when_the_maximum_grows(void) {
    BECOMES(weights, "split j 4 -> jo ji\nsplit k 4 -> ko ki\nonline t0 jo ko",
            "kernel \"weights\" {\n"
            "  arg a0 f32[35] write\n"
            "  arg a1 f32[60] read\n"
            "  arg a2 f32[84] read\n"
            "  local t0 f32[1]\n"
            "  local t1 f32[1]\n"
            "  local t2 f32[7]\n"
            "  reg t3 f32[1]\n"
            "  reg t4 f32[1]\n"
            "  for i < 5 {\n"
            "    def t0 = f32(-inf)\n"
            "    def t1 = f32(0)\n"
            "    def t2 = f32(0)\n"
            "    for jo < 3 {\n"
            "      def t4\n"
            "      def t3\n"
            "      t3[0] = t0[0]\n"
            "      for ji < 4 {\n"
            "        t0[0] max= a1[12*i + ji + 4*jo]\n"
            "      }\n"
            "      t4[0] = where(ne(idx(min(-1, -jo) + 2), i64(0)), maximum(t0[0], "
            "f32(-3.4028234663852886e+38)), t0[0])\n"
            "      t3[0] = where(eq(t3[0], f32(-inf)), where(eq(t4[0], f32(-inf)), "
            "f32(0x7fc00000), f32(1)), exp(mul(sub(t3[0], t4[0]), f32(0.5))))\n"
            "      t1[0] *= t3[0]\n"
            "      for each < 7 {\n"
            "        t2[each] *= t3[0]\n"
            "      }\n"
            "      for ki < 4 {\n"
            "        t1[0] += exp(mul(sub(a1[12*i + 4*jo + ki], t4[0]), f32(0.5)))\n"
            "        for d < 7 {\n"
            "          t2[d] += mul(exp(mul(sub(a1[12*i + 4*jo + ki], t4[0]), f32(0.5))), "
            "a2[d + 28*jo + 7*ki])\n"
            "        }\n"
            "      }\n"
            "    }\n"
            "    for c < 7 {\n"
            "      a0[c + 7*i] = div(t2[c], t1[0])\n"
            "    }\n"
            "  }\n"
            "}\n");
}

static void blocks_of_any_length_are_kept(void) {
    KEEPS(weights, "online t0 j k");
    KEEPS(weights, "split j 5 -> jo ji\nsplit k 5 -> ko ki\nonline t0 jo ko");
    KEEPS(weights, "split j 12 -> jo ji\nsplit k 12 -> ko ki\nonline t0 jo ko");
    KEEPS(weights, "pad j 8\npad k 8\nsplit j 8 -> jo ji\nsplit k 8 -> ko ki\nonline t0 jo ko");
}

/* The product's loop outside of its sum, which waits between blocks; weights in a tile; a causal
 * mask. As attention is, for two rows at a time. */
static const char attention[] =
    "kernel \"attention\" {\n"
    "  arg a0 f32[24] write\n"
    "  arg a1 f32[96] read\n"
    "  arg a2 f32[36] read\n"
    "  local t0 f32[2]\n"
    "  local t1 f32[2]\n"
    "  local t2 f32[24]\n"
    "  local t3 f32[2]\n"
    "  local t4 f32[6]\n"
    "  local t5 f32[24]\n"
    "  for i < 4 {\n"
    "    def t5\n"
    "    for s < 12 {\n      for z < 2 {\n        t5[2*s + z] = a1[24*i + s + 12*z]\n      }\n    "
    "}\n"
    "    def t0 = f32(-inf)\n"
    "    for j < 12 {\n"
    "      for x < 2 {\n"
    "        t0[x; valid=(2*i + x + 4 - j >= 0)] max= t5[2*j + x]\n"
    "      }\n"
    "    }\n"
    "    def t2\n"
    "    for k < 12 {\n"
    "      for y < 2 {\n"
    "        t2[2*k + y] = exp(sub(t5[2*k + y], t0[y]))\n"
    "      }\n"
    "    }\n"
    "    def t1 = f32(0)\n"
    "    for l < 12 {\n"
    "      for w < 2 {\n"
    "        t1[w; valid=(2*i + w + 4 - l >= 0)] += t2[2*l + w]\n"
    "      }\n"
    "    }\n"
    "    for d < 3 {\n"
    "      def t3 = f32(0)\n"
    "      for r < 12 {\n"
    "        for v < 2 {\n"
    "          t3[v; valid=(2*i + v + 4 - r >= 0)] += mul(t2[2*r + v], a2[3*r + d])\n"
    "        }\n"
    "      }\n"
    "      for u < 2 {\n"
    "        a0[6*i + 3*u + d] = div(t3[u], t1[u])\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";

static const char in_blocks[] = "split j 4 -> jo ji\nsplit k 4 -> ko ki\nsplit l 4 -> lo li\n"
                                "split r 4 -> ro ri\nblock_reduction t3 ro d\nfuse lo ro\n"
                                "fuse ko lo\nonline t0 jo ko\n";

static void attention_goes_by_blocks_of_keys(void) {
    char more[400];
    KEEPS(attention, in_blocks);
    snprintf(more, sizeof more, "%sfold_storage t2 jo\npeel jo\nvec x\nvec y\nvec w\nvec v\n",
             in_blocks);
    KEEPS(attention, more);
}

/* The loops that online reports, after the lines in front of its own; their names. */
static void rows_made(const char *text, const char *lines, str *names) {
    kernel *k = parse(text);
    transform_kind kind;
    transform_args a;
    transform_made made;
    str why;
    str_open(&why, &ctx.heap);
    str_add(names, "");
    if (transform_lines(k, lines, &why) < 0 ||
        !transform_parse(k, "online t0 jo ko", NULL, &kind, &a, &why) ||
        !transform_run(k, kind, &a, &made, &why))
        FAIL("%s", why.s);
    else
        for (uint32_t i = 0; i < made.loops; i++)
            str_addf(names, " %s", sym_name(k->syms, ir_s(k, ir_loop_of(k, made.loop[i]))->l.var));
    str_free(&why);
    ir_close(k);
}

/* Of several rows: the maximum as it was, that of the block, and each sum that is rescaled. Of a
 * single row, the elements of a sum that has several. */
static void the_loops_over_rows_are_reported(void) {
    str names;
    str_open(&names, &ctx.heap);
    rows_made(attention,
              "split j 4 -> jo ji\nsplit k 4 -> ko ki\nsplit l 4 -> lo li\nsplit r 4 -> ro ri\n"
              "block_reduction t3 ro d\nfuse lo ro\nfuse ko lo\n",
              &names);
    CHECK_STR(names.s, " was ref scale");
    names.len = 0;
    rows_made(weights, "split j 4 -> jo ji\nsplit k 4 -> ko ki\n", &names);
    CHECK_STR(names.s, " each");
    str_free(&names);
}

/* ---- numbers that are none ------------------------------------------------------------------- */

/* In both forms; each result must be the other's, NaN where it is NaN. */
static void compare_at(int line, const char *text, const char *schedule, float *x, int scores,
                       float *v, int results) {
    float a[64], b[64];
    char error[200];
    str why;
    str_open(&why, &ctx.heap);
    kernel *before = parse(text), *after = parse(text);
    if (transform_lines(after, schedule, &why) < 0) FAIL("line %d: refused: %s", line, why.s);
    void *one[] = {a, x, v}, *two[] = {b, x, v};
    if (!interp_run(before, false, NULL, one, error)) FAIL("line %d: %s", line, error);
    if (!interp_run(after, true, NULL, two, error)) FAIL("line %d: %s", line, error);
    for (int i = 0; i < results; i++)
        if (isnan(a[i]) != isnan(b[i]) ||
            !(isnan(a[i]) || a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(a[i]))))
            FAIL("line %d, %d scores: [%d] is %g, not %g", line, scores, i, (double)b[i],
                 (double)a[i]);
    ir_close(before);
    ir_close(after);
    str_free(&why);
}

static void infinities_and_nan_come_out_as_without_it(void) {
    static const float odd[] = {-INFINITY, -INFINITY, INFINITY, NAN, -3.4028234663852886e38f,
                                3e38f,     -200,      0,        1};
    uint64_t seed = 3;
    for (int round = 0; round < 400; round++) {
        float x[96], v[84];
        int kinds = 1 + round % (int)COUNT_OF(odd);
        for (int i = 0; i < 96; i++) {
            x[i] = (float)(8 * test_uniform(&seed) - 4);
            if (round % 3 == 0 || test_below(&seed, 3) == 0) x[i] = odd[test_below(&seed, kinds)];
            if (round % 5 == 0) /* a block without anything, in front or at the end */
                if ((i % 12 < 4) == (round % 2)) x[i] = -INFINITY;
        }
        for (int i = 0; i < 84; i++) {
            v[i] = (float)(8 * test_uniform(&seed) - 4);
            if (round % 7 == 0 && test_below(&seed, 9) == 0) v[i] = NAN;
        }
        compare_at(__LINE__, weights, "split j 4 -> jo ji\nsplit k 4 -> ko ki\nonline t0 jo ko", x,
                   60, v, 35);
        compare_at(__LINE__, attention, in_blocks, x, 96, v, 24);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static char edited[2048];
static const char *with(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    if (!at) return FAIL("no \"%s\" there", from), text;
    snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return edited;
}

static void what_is_not_linear_is_refused(void) {
    REFUSES(weights, "", "online t1 j k", "the maximum is not only updated");
    REFUSES(weights, "split j 4 -> jo ji", "online t0 jo k", "weights");
    REFUSES(with(weights, "t1[0] += exp(mul(sub(a1[12*i + k], t0[0]), f32(0.5)))",
                 "t1[0] += sub(a1[12*i + k], t0[0])"),
            "", "online t0 j k", "not linear");
    REFUSES(with(weights, "t1[0] += exp", "t1[0] max= exp"), "", "online t0 j k", "not linear");
    REFUSES(with(weights, "t1[0] += exp(mul(sub(a1[12*i + k], t0[0]), f32(0.5)))",
                 "t1[0] += exp(mul(sub(a1[12*i + k], t0[0]), f32(0.25)))"),
            "", "online t0 j k", "not linear"); /* two functions of the difference */
    REFUSES(with(weights, "def t1 = f32(0)", "def t1 = f32(1)"), "", "online t0 j k",
            "does not start at 0");
    REFUSES(with(weights, "t0[0] max= a1[12*i + j]", "t0[0] max= a1[12*i + 11 - j]"), "",
            "online t0 j k", "not linear"); /* other scores in an iteration */
    REFUSES(with(weights, "t0[0] max=", "t0[0; valid=(5 - j >= 0)] max="), "", "online t0 j k",
            "not linear"); /* weights above 1 */
    REFUSES(with(weights, "t0[0] max=", "t0[0; valid=(i - 3 - j >= 0)] max="), "", "online t0 j k",
            "a row may see nothing");
}

static void weights_that_are_used_again_are_refused(void) {
    REFUSES(attention, "split j 4 -> jo ji\nsplit k 4 -> ko ki", "online t0 jo ko",
            "weights of all blocks are used again");
}

static void all(void) {
    RUN(sums_are_rescaled_when_the_maximum_grows);
    RUN(blocks_of_any_length_are_kept);
    RUN(attention_goes_by_blocks_of_keys);
    RUN(the_loops_over_rows_are_reported);
    RUN(infinities_and_nan_come_out_as_without_it);
    RUN(what_is_not_linear_is_refused);
    RUN(weights_that_are_used_again_are_refused);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
