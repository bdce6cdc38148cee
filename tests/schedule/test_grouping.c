/* test_grouping.c - how float sums are grouped: a field of the lowered kernel, decided from facts
 * and sizes, printed and parsed, that schedulers make and transforms keep. The oracle of a result
 * is the sum in that grouping, added up here term by term. */
#include "ir_cases.h"
#include "schedule/schedule.h"
#include "schedule/search/script.h"

static machine limits = {.page_parallel_read_gain = 150,
                         .page_parallel_gain = 150,
                         .vector_bytes = 32,
                         .registers = 16,
                         .accumulators = 8,
                         .sum_parts = 4,
                         .dot_rows = 12,
                         .page = 4096,
                         .l1 = 32 << 10,
                         .l2 = 1 << 20,
                         .l3 = 8 << 20,
                         .threads = 2};

static const int64_t no_dim[1];

/* %s: what is said of the sum. */
static const char line[] = "kernel \"line\" {\n  arg a0 f32[1] write\n  reg t0 f32[1]%s\n"
                           "  arg a1 f32[7680] read\n  def t0 = f32(0)\n"
                           "  for r0 < 7680 {\n    t0[0] += a1[r0]\n  }\n"
                           "  a0[0] = t0[0]\n}\n";
static const char rows[] = "kernel \"rows\" {\n  arg a0 f32[3] write\n  reg t0 f32[1]%s\n"
                           "  arg a1 f32[7680] read\n  for i0 < 3 {\n    def t0 = f32(0)\n"
                           "    for r0 < 2560 {\n      t0[0] += a1[2560*i0 + r0]\n    }\n"
                           "    a0[i0] = t0[0]\n  }\n}\n";
static const char pages[] = "kernel \"pages\" {\n  arg a0 f32[32] write\n  reg t0 f32[1]%s\n"
                            "  arg a1 f32[81920] read\n  for i0 < 32 {\n    def t0 = f32(0)\n"
                            "    for r0 < 2560 {\n      t0[0] += a1[2560*i0 + r0]\n    }\n"
                            "    a0[i0] = t0[0]\n  }\n}\n";
static const char columns[] = "kernel \"columns\" {\n  arg a0 f32[30] write\n  reg t0 f32[1]%s\n"
                              "  arg a1 f32[7680] read\n  for i0 < 30 {\n    def t0 = f32(0)\n"
                              "    for r0 < 256 {\n      t0[0] += a1[i0 + 30*r0]\n    }\n"
                              "    a0[i0] = t0[0]\n  }\n}\n";
static const char few_rows[] = "kernel \"few\" {\n  arg a0 f32[15] write\n  reg t0 f32[1]%s\n"
                               "  arg a1 f32[7680] read\n  arg a2 f32[1536] read\n"
                               "  for i0 < 3 {\n    for i1 < 5 {\n      def t0 = f32(0)\n"
                               "      for r0 < 512 {\n"
                               "        t0[0] += mul(a1[512*i1 + r0], a2[512*i0 + r0])\n      }\n"
                               "      a0[5*i0 + i1] = t0[0]\n    }\n  }\n}\n";

static const char *with(const char *text, const char *grouping) {
    static char out[2][1024];
    static int turn;
    turn = !turn;
    snprintf(out[turn], sizeof out[turn], text, grouping);
    return out[turn];
}

/* ---- text ------------------------------------------------------------------------------------ */

static void a_grouping_is_printed_and_parsed(void) {
    static const char *const said[] = {"",
                                       " sum in order",
                                       " sum lanes 8",
                                       " sum chains 2",
                                       " sum parts 4 chains 2 lanes 16",
                                       " sum lanes 8 halves",
                                       " sum words 2",
                                       " sum blocks 64",
                                       " sum online 64"};
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        kernel *k = parse(with(rows, said[i]));
        check_text(__LINE__, k, with(rows, said[i]));
        ir_close(k);
    }
    static const char *const wrong[] = {" sum",
                                        " sum lanes 1",
                                        " sum lanes 2000",
                                        " sum in lanes",
                                        " sum lanes 8 chains 2",
                                        " sum reg",
                                        " sum halves",
                                        " sum chains 2 lanes 8 halves",
                                        " sum words 2 blocks 4",
                                        " sum lanes 8 words 2",
                                        " sum blocks 4 online 4",
                                        " sum blocks 1025"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (ir_parse(&ctx, with(rows, wrong[i]))) FAIL("parsed: %s", wrong[i]);
        ctx.code = QN_OK;
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void said_of(const char *text, const machine *m, const char *expected) {
    kernel *k = parse(with(text, ""));
    schedule_group_sums(k, m);
    check_text(__LINE__, k, with(text, expected));
    ir_close(k);
}

static void a_sum_is_grouped_by_facts_and_sizes(void) {
    machine small = limits, wide = limits;
    said_of(rows, &limits, " sum chains 4 lanes 8");
    small.l2 = 4 << 10; /* it streams: four parts, of two chains each for 8 accumulators */
    said_of(line, &small, " sum parts 4 chains 2 lanes 8");
    said_of(pages, &limits, " sum chains 2 lanes 8"); /* four rows at a time, in 8 registers */
    said_of(columns, &limits, " sum in order");
    said_of(few_rows, &limits, " sum lanes 8");
    wide.vector_bytes = 64, wide.registers = 32;
    said_of(line, &wide, " sum chains 4 lanes 16");
    wide.dot_rows = 2;
    said_of(few_rows, &wide, " sum in order");
}

/* Lanes go across short rows: those of the sum over all rows are its accumulators, not added up at
 * once for each vector of rows. */
static void a_sum_around_rows_has_the_lanes_that_go_across(void) {
    static const char loss[] =
        "kernel \"loss\" {\n  arg a0 f32[1] write\n  reg t0 f32[1]\n  arg a1 f32[640] read\n"
        "  reg t1 f32[1]\n  arg a2 f32[128] write\n  def t0 = f32(0)\n  for i < 128 {\n    def t1 "
        "= f32(0)\n"
        "    for r < 5 {\n      t1[0] += exp(a1[5*i + r])\n    }\n    a2[i] = t1[0]\n    t0[0] += "
        "log(t1[0])\n  }\n"
        "  a0[0] = t0[0]\n}\n";
    kernel *k = parse(loss);
    schedule_group_sums(k, &limits);
    CHECK_INT(ir_m(k, 2)->sum.lanes, schedule_lanes(&(scheduler){.k = k, .limits = &limits}));
    CHECK_INT(ir_m(k, 2)->sum.chains, 1);
    CHECK_INT(ir_m(k, 4)->sum.lanes, 1);
    str lines;
    str_open(&lines, &ctx.heap);
    CHECK(!schedule_default(k, &limits, &lines).ungrouped);
    CHECK(strstr(lines.s, "rfactor t0") != NULL);
    str_free(&lines);
    ir_close(k);
}

static void rates_have_no_say(void) {
    machine other = limits;
    machine_field x;
    for (int i = 0; machine_field_at(i, &x); i++)
        if (x.kind == MACHINE_RATE) *machine_value(&other, &x) = x.most;
    said_of(rows, &other, " sum chains 4 lanes 8");
    said_of(few_rows, &other, " sum lanes 8");
}

/* ---- making it ------------------------------------------------------------------------------- */

typedef struct grouped {
    int parts, chains, lanes;
} grouped;

/* The terms first, first + step, .. of a sum grouped so. */
static float added(const float *a, const float *b, int n, int step, grouped g) {
    static float part[64][64][64];
    volatile float sum = 0;
    memset(part, 0, sizeof part);
    for (int i = 0; i < n; i++) {
        int p = i / (n / g.parts), at = i % (n / g.parts);
        volatile float term = b ? a[i * step] * b[i * step] : a[i * step];
        float *to = &part[p][at / g.lanes % g.chains][at % g.lanes];
        *to = *to + term;
    }
    for (int v = 0; v < g.lanes; v++) {
        volatile float lane = 0;
        for (int u = 0; u < g.chains; u++) {
            volatile float chain = 0;
            for (int p = 0; p < g.parts; p++) chain = chain + part[p][u][v];
            lane = lane + chain;
        }
        sum = sum + lane;
    }
    return sum;
}

/* Schedule it with that grouping said, and compare each result. */
static void makes(const char *text, grouped g, int results, int n, int next, int step, bool times) {
    static float a[81920], b[1536], out[64];
    char said[64] = " sum";
    uint64_t seed = 5;
    for (int i = 0; i < (int)COUNT_OF(a); i++) a[i] = (float)(test_uniform(&seed) - 0.4);
    for (int i = 0; i < (int)COUNT_OF(b); i++) b[i] = (float)(test_uniform(&seed) - 0.4);
    if (g.parts * g.chains * g.lanes == 1) strcat(said, " in order");
    if (g.parts > 1) sprintf(said + strlen(said), " parts %d", g.parts);
    if (g.chains > 1) sprintf(said + strlen(said), " chains %d", g.chains);
    if (g.lanes > 1) sprintf(said + strlen(said), " lanes %d", g.lanes);
    kernel *k = parse(with(text, said));
    str lines, why;
    str_open(&lines, &ctx.heap);
    str_open(&why, &ctx.heap);
    str_add(&lines, "");
    schedule_default(k, &limits, &lines);
    if (transform_lines(k, lines.s, &why) < 0) FAIL("%s", why.s);
    if (!ir_sums_made(k, &why)) FAIL("%s: %s by\n%s", said, why.s, lines.s);
    void *arg[] = {out, a, b};
    char error[200];
    if (!interp_run(k, false, no_dim, arg, error)) FAIL("%s", error);
    for (int i = 0; i < results; i++) {
        int row = times ? i % 5 : i, column = times ? i / 5 : 0;
        float expected = added(a + row * next, times ? b + column * next : NULL, n, step, g);
        if (memcmp(&expected, &out[i], sizeof expected))
            FAIL("%s: [%d] is %.9g, not %.9g, by\n%s", said, i, (double)out[i], (double)expected,
                 lines.s);
    }
    str_free(&why);
    str_free(&lines);
    ir_close(k);
}

/* Also groupings that no default would say: on this machine each sum has one. */
static void schedules_make_what_is_said(void) {
    static const grouped g[] = {{1, 1, 1}, {1, 1, 8}, {1, 4, 8}, {1, 2, 8},  {4, 2, 8},
                                {2, 1, 8}, {4, 1, 8}, {1, 2, 4}, {1, 1, 16}, {2, 2, 16}};
    for (size_t i = 0; i < COUNT_OF(g); i++) {
        makes(line, g[i], 1, 7680, 0, 1, false);
        makes(rows, g[i], 3, 2560, 2560, 1, false);
        makes(pages, g[i], 32, 2560, 2560, 1, false);
        makes(columns, g[i], 30, 256, 1, 30, false);
        if (g[i].parts * g[i].chains == 1) makes(few_rows, g[i], 15, 512, 512, 1, true);
    }
}

static void only_sums_of_two_chains_are_pipelined(void) {
    static const char *const said[] = {" sum chains 2 lanes 8", " sum chains 4 lanes 8"};
    static const char centred[] =
        "kernel \"centred\" {\n  arg a0 f32[8192] write\n  reg t0 f32[1]%s\n"
        "  arg a1 f32[8192] read\n  for i0 < 128 {\n    def t0 = f32(0)\n"
        "    for r0 < 64 {\n      t0[0] += exp(a1[64*i0 + r0])\n    }\n"
        "    for i1 < 64 {\n      a0[64*i0 + i1] = div(exp(a1[64*i0 + i1]), t0[0])\n    }\n  "
        "}\n}\n";
    for (int i = 0; i < 2; i++) {
        kernel *k = parse(with(centred, said[i]));
        str lines;
        str_open(&lines, &ctx.heap);
        str_add(&lines, "");
        schedule_default(k, &limits, &lines);
        bool pipelined = strstr(lines.s, "shift") != NULL;
        CHECK_INT(pipelined, !i);
        str_free(&lines);
        ir_close(k);
    }
}

/* ---- keeping it ------------------------------------------------------------------------------ */

/* Does the schedule make what is said of the sum? */
static bool keeps(const char *text, const char *said, const char *lines) {
    kernel *k = parse(with(text, said));
    bool kept = script_apply(k, lines, NULL) >= 0;
    ir_close(k);
    return kept;
}

static void no_schedule_regroups_a_sum(void) {
    static const struct {
        const char *said, *lines;
        bool keeps;
    } at[] = {
        {" sum in order", "split r0 8 -> o v\n", true},
        {" sum in order", "split r0 8 -> o v\nrfactor t0 v\n", false},
        {" sum in order", "split r0 8 -> o v\nrfactor t0 o\n", false},
        {" sum in order", "split r0 8 -> o v\nswap o v\n", false},
        {" sum in order", "split r0 8 -> o v\nswap o v\nswap v o\n", true},
        {" sum in order", "split r0 8 -> o v\nvec v\n", false},
        {" sum in order", "split r0 8 -> o v\nunroll v\n", true},
        {" sum in order", "privatize r0\n", false},
        {" sum in order", "split r0 8 -> o v\nmerge o v -> m\nsplit m 4 -> p q\nswap p q\n", false},
        {" sum lanes 8", "split r0 8 -> o v\n", false},
        {" sum lanes 8", "split r0 8 -> o v\nrfactor t0 v\n", true},
        {" sum lanes 8", "split r0 8 -> o v\nswap o v\nrfactor t0 v\n", true},
        {" sum lanes 8", "split r0 320 -> v o\nrfactor t0 v\n", false}, /* eight, but far apart */
        {" sum lanes 8", "split r0 16 -> o v\nrfactor t0 v\n", false},
        {" sum lanes 8", "split r0 8 -> o v\nrfactor t0 v\ntree_reduce v_1\n", false},
        {" sum chains 2 lanes 8", "split r0 16 -> o w\nsplit w 8 -> u v\nrfactor t0 v\n", false},
        {" sum chains 2 lanes 8",
         "split r0 16 -> o w\nsplit w 8 -> u v\nrfactor t0 v\nrfactor t1 u\n", true},
        {" sum chains 2 lanes 8",
         "split r0 16 -> o w\nsplit w 8 -> u v\nrfactor t0 u\nrfactor t1 v\n", false},
        {" sum parts 2 lanes 8",
         "split r0 1280 -> s l\nsplit l 8 -> o v\nswap s o\nrfactor t0 v\nrfactor t1 s\n", true},
        {" sum parts 2 lanes 8",
         "split r0 8 -> o v\nsplit o 2 -> p s\nrfactor t0 v\nrfactor t1 s\n", false},
        {" sum lanes 8 halves", "split r0 8 -> o v\nrfactor t0 v\n", false},
        {" sum lanes 8 halves", "split r0 8 -> o v\nrfactor t0 v\ntree_reduce v_1\n", true},
        {" sum blocks 8", "split r0 8 -> o v\n", false},
        {" sum blocks 8", "split r0 8 -> o v\nprivatize v\n", true},
        {" sum blocks 8", "split r0 4 -> o v\nprivatize v\n", false},
        {" sum blocks 8", "split r0 320 -> o v\nswap o v\nprivatize o\n", false}, /* far apart */
        {" sum blocks 8", "split r0 8 -> o v\nsplit v 4 -> p q\nprivatize p\n", true},
        {" sum blocks 8", "split r0 8 -> o v\nsplit v 4 -> p q\nswap p q\nprivatize q\n", false},
        {" sum online 8", "split r0 8 -> o v\nprivatize v\n", false},
        {" sum words 2", "split r0 8 -> o v\n", false},
        {" sum words 2", "split r0 2 -> o w\nword w\n", true},
        {" sum words 4", "split r0 2 -> o w\nword w\n", false},
        {" sum words 2", "split r0 1280 -> w o\nswap w o\nword w\n", false}, /* far apart */
        {" sum in order", "split r0 2 -> o w\nword w\n", false},
        /* runs that are cut, and so are not where their numbers say */
        {" sum blocks 8", "split r0 12 -> o v\npad v 8\nsplit v 8 -> p q\nprivatize q\n", false},
        {" sum in order", "split r0 8 -> o v\nswap o v\nmerge v o -> m\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        if (keeps(rows, at[i].said, at[i].lines) != at[i].keeps)
            FAIL("%s: %s\n%s", at[i].said, at[i].keeps ? "refused" : "taken", at[i].lines);
        if (!keeps(rows, "", at[i].lines)) FAIL("nothing is said, and refused:\n%s", at[i].lines);
    }
}

static void what_any_order_merges_alike_may_be_regrouped(void) {
    static const char most[] = "kernel \"most\" {\n  arg a0 f32[1] write\n  reg t0 f32[1]%s\n"
                               "  arg a1 f32[64] read\n  def t0 = f32(-inf)\n"
                               "  for r0 < 64 {\n    t0[0] max= a1[r0]\n  }\n"
                               "  a0[0] = t0[0]\n}\n";
    static const char count[] = "kernel \"count\" {\n  arg a0 i32[1] write\n  reg t0 i32[1]%s\n"
                                "  arg a1 i32[64] read\n  def t0 = i32(0)\n"
                                "  for r0 < 64 {\n    t0[0] += a1[r0]\n  }\n"
                                "  a0[0] = t0[0]\n}\n";
    CHECK(keeps(most, " sum in order", "split r0 4 -> o v\nrfactor t0 o\n"));
    CHECK(keeps(count, " sum lanes 8", "split r0 4 -> o v\nrfactor t0 o\n"));
}

/* ---- convolutions and dot instructions ------------------------------------------------------- */

/* 3x3 over 16 channels of 10 x 34: of the image whole rows of all channels are read together. */
static const char windows[] =
    "kernel \"windows\" {\n  arg a0 f32[8192] write\n  reg t0 f32[1]%s\n  arg a1 f32[5440] read\n"
    "  arg a2 f32[4608] read\n  for i0 < 32 {\n    for i1 < 8 {\n      for i2 < 32 {\n"
    "        def t0 = f32(0)\n        for r0 < 16 {\n          for r1 < 3 {\n"
    "            for r2 < 3 {\n"
    "              t0[0] += mul(a1[i2 + 34*i1 + 340*r0 + 34*r1 + r2], "
    "a2[144*i0 + 9*r0 + 3*r1 + r2])\n            }\n          }\n        }\n"
    "        a0[i0 + 1024*i1 + 32*i2] = t0[0]\n      }\n    }\n  }\n}\n";

static const char *print_of(const kernel *k, str *to) {
    to->len = 0;
    ir_print(k, to);
    return to->s;
}

static void a_convolution_adds_up_in_the_order_of_its_loops(void) {
    machine m = limits;
    m.scatter_cycles = 24;
    kernel *k = parse(with(windows, ""));
    str text, again, lines;
    str_open(&text, &ctx.heap);
    str_open(&again, &ctx.heap);
    str_open(&lines, &ctx.heap);
    str_add(&lines, "");
    schedule_order_sum(k, &m);
    schedule_group_sums(k, &m);
    const char *at = print_of(k, &text), *r1 = strstr(at, "for r1"), *r0 = strstr(at, "for r0");
    CHECK(r1 && r0 && r1 < r0 && r0 < strstr(at, "for r2") && strstr(at, "t0 f32[1] sum in order"));
    schedule_order_sum(k, &m);
    CHECK_STR(print_of(k, &again), text.s);
    CHECK(!schedule_default(k, &m, &lines).ungrouped);
    CHECK(script_apply(k, "swap r1 r0\n", NULL) < 0);
    ir_close(k);
    str_free(&lines);
    str_free(&again);
    str_free(&text);
}

static void words_of_a_product_are_said_where_there_is_the_instruction(void) {
    static const char narrow[] =
        "kernel \"narrow\" {\n  arg a0 f32[4096] write\n  reg t0 f32[1]%s\n"
        "  arg a1 bf16[8192] read\n  arg a2 bf16[8192] read\n  for i0 < 64 {\n"
        "    for i1 < 64 {\n      def t0 = f32(0)\n      for r0 < 128 {\n"
        "        t0[0] += mul(cast:f32(a1[128*i0 + r0]), cast:f32(a2[i1 + 64*r0]))\n      }\n"
        "      a0[64*i0 + i1] = t0[0]\n    }\n  }\n}\n";
    machine m = limits;
    said_of(narrow, &m, " sum in order");
    m.dots = 1 << ir_dot_of(QN_BF16, QN_BF16, QN_F32);
    said_of(narrow, &m, " sum words 2");
    str lines;
    str_open(&lines, &ctx.heap);
    str_add(&lines, "");
    kernel *k = parse(with(narrow, " sum words 2"));
    CHECK(!schedule_default(k, &m, &lines).ungrouped && strstr(lines.s, "word"));
    ir_close(k);
    str_free(&lines);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Attention of 32 queries and 64 keys, 4 deep, and the gradient of its keys: a block of rows adds
 * to what all rows share. */
static const char attention[] =
    "kernel \"attention\" {\n  arg a0 f32[128] write\n  reg t0 f32[1]%s\n  local t1 f32[64]\n"
    "  local t2 f32[64]\n  reg t3 f32[1]%s\n  arg a1 f32[128] read\n  arg a2 f32[256] read\n"
    "  reg t4 f32[1]\n  arg a3 f32[256] read\n  reg t5 f32[1]%s\n  for i2 < 32 {\n"
    "    def t1\n    def t2\n    for h2 < 64 {\n      def t3 = f32(0)\n      for r3 < 4 {\n"
    "        t3[0] += mul(a1[4*i2 + r3], a2[4*h2 + r3])\n      }\n      t2[h2] = t3[0]\n    }\n"
    "    def t4 = f32(-inf)\n    for r4 < 64 {\n      t4[0] max= t2[r4]\n    }\n"
    "    for h1 < 64 {\n      t1[h1] = exp(sub(t2[h1], t4[0]))\n    }\n    def t5 = f32(0)\n"
    "    for r5 < 64 {\n      t5[0] += t1[r5]\n    }\n    for i3 < 4 {\n      def t0 = f32(0)\n"
    "      for r0 < 64 {\n        t0[0] += mul(t1[r0], a3[i3 + 4*r0])\n      }\n"
    "      a0[4*i2 + i3] = div(t0[0], t5[0])\n    }\n  }\n}\n";
static const char shared[] =
    "kernel \"shared\" {\n  local t0 f32[64]\n  reg t1 f32[1]%s\n  arg a0 f32[128] read\n"
    "  arg a1 f32[512] read\n  local t2 f32[256]%s\n  arg a2 f32[512] write\n  for i1 < 2 {\n"
    "    def t2 = f32(0)\n    for i2 < 32 {\n      def t0\n      for h5 < 64 {\n"
    "        def t1 = f32(0)\n        for r6 < 4 {\n"
    "          t1[0] += mul(a1[4*h5 + 256*i1 + r6], a0[4*i2 + r6])\n        }\n"
    "        t0[h5] = exp(t1[0])\n      }\n      for g7 < 64 {\n        for g8 < 4 {\n"
    "          t2[4*g7 + g8] += mul(t0[g7], a0[g8 + 4*i2])\n        }\n      }\n    }\n"
    "    for g9 < 64 {\n      for g10 < 4 {\n"
    "        a2[g10 + 4*g9 + 256*i1] = t2[g10 + 4*g9]\n      }\n    }\n  }\n}\n";

/* What is said of its sums, and the default schedule makes it, by a step of that name. */
static void learns(const char *text, const machine *m, const char *const said[3], const char *by) {
    char bare[2048], expected[2048];
    snprintf(bare, sizeof bare, text, "", "", "");
    snprintf(expected, sizeof expected, text, said[0], said[1], said[2]);
    kernel *k = parse(bare);
    schedule_group_sums(k, m);
    check_text(__LINE__, k, expected);
    str lines;
    str_open(&lines, &ctx.heap);
    str_add(&lines, "");
    if (schedule_default(k, m, &lines).ungrouped) FAIL("ungrouped: %s", expected);
    if (!strstr(lines.s, by)) FAIL("no %s in\n%s", by, lines.s);
    str_free(&lines);
    ir_close(k);
}

static void what_schedulers_make_of_sums_is_said(void) {
    static const char *const order[] = {" sum in order", " sum in order", " sum in order"},
                             *const online[] = {" sum online 8", " sum in order", " sum online 8"},
                             *const blocks[] = {" sum in order", " sum blocks 16", ""},
                             *const members[] = {" sum lanes 256 halves", "", ""};
    machine m = limits, groups = {.members = 256, .group_bytes = 32 << 10, .vector_bytes = 4};
    machine_complete(&groups);
    learns(attention, &m, order, "accumulate");
    learns(shared, &m, blocks, "privatize");
    m.l1 = 2 << 10, m.l2 = 2 << 10; /* rows of a block do not fit: they stream */
    learns(attention, &m, online, "online");
    learns(rows, &groups, members, "tree_reduce");
}

/* ---- searching ------------------------------------------------------------------------------- */

typedef struct tried {
    const char *text;
    int all, sound, factored;
} tried;

/* A candidate that is left has the sum's bits. */
static bool try_one(void *user, const char *lines) {
    tried *t = user;
    static float a[7680], b[1536], out[64];
    uint64_t seed = 5;
    grouped g = {1, 4, 8};
    str legal;
    for (int i = 0; i < (int)COUNT_OF(a); i++) a[i] = (float)(test_uniform(&seed) - 0.4);
    str_open(&legal, &ctx.heap);
    str_add(&legal, "");
    kernel *k = parse(t->text);
    t->all++;
    if (search_repair(k, lines, &legal)) {
        void *arg[] = {out, a, b};
        char error[200];
        t->sound++;
        t->factored += strstr(legal.s, "rfactor") != NULL;
        if (!interp_run(k, false, no_dim, arg, error)) FAIL("%s", error);
        for (int i = 0; i < 3; i++) {
            float expected = added(a + i * 2560, NULL, 2560, 1, g);
            if (memcmp(&expected, &out[i], sizeof expected)) FAIL("regrouped by\n%s", legal.s);
        }
    }
    str_free(&legal);
    ir_close(k);
    return true;
}

static void a_search_proposes_no_other_grouping(void) {
    tried t = {.text = with(rows, " sum chains 4 lanes 8")};
    static char kept[1024];
    snprintf(kept, sizeof kept, "%s", t.text);
    t.text = kept;
    str lines;
    str_open(&lines, &ctx.heap);
    str_add(&lines, "");
    kernel *k = parse(t.text);
    search_seeds(k, &limits, try_one, &t);
    schedule_default(k, &limits, &lines);
    search_moves(k, lines.s, &limits, try_one, &t);
    CHECK(t.sound > 10 && t.sound == t.factored && t.sound < t.all);
    str_free(&lines);
    ir_close(k);
}

/* ---- searching where what is said was learned ------------------------------------------------ */

typedef struct same_bits {
    const char *text;
    float expected[4][512];
    int all, legal;
} same_bits;

/* Run the kernel under the lines on numbers of a seed; all arguments are as they are left. */
static bool run_lines(const char *text, const char *lines, float arg[4][512]) {
    kernel *k = parse(text);
    uint64_t seed = 9;
    char error[200];
    void *at[4] = {arg[0], arg[1], arg[2], arg[3]};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 512; j++) arg[i][j] = (float)(test_uniform(&seed) - 0.4);
    bool legal = script_apply(k, lines, NULL) >= 0;
    if (legal && !interp_run(k, false, no_dim, at, error)) FAIL("%s", error);
    ir_close(k);
    return legal;
}

static bool same_as_default(void *user, const char *lines) {
    same_bits *t = user;
    static float arg[4][512];
    str legal;
    if (t->all++ % 6) return true;
    str_open(&legal, &ctx.heap);
    str_add(&legal, "");
    kernel *k = parse(t->text);
    if (search_repair(k, lines, &legal)) {
        t->legal++;
        CHECK(run_lines(t->text, legal.s, arg));
        if (memcmp(arg, t->expected, sizeof arg) != 0) FAIL("other bits by\n%s", legal.s);
    }
    str_free(&legal);
    ir_close(k);
    return true;
}

static void no_candidate_changes_a_bit(void) {
    static const char *const texts[] = {attention, shared, attention};
    for (int i = 0; i < 3; i++) {
        machine m = limits;
        if (i == 2) m.l1 = 2 << 10, m.l2 = 2 << 10;
        static char bare[2048];
        static same_bits t;
        str lines, said;
        snprintf(bare, sizeof bare, texts[i], "", "", "");
        str_open(&lines, &ctx.heap);
        str_open(&said, &ctx.heap);
        str_add(&lines, "");
        kernel *k = parse(bare);
        schedule_group_sums(k, &m);
        ir_print(k, &said);
        t = (same_bits){.text = said.s};
        schedule_default(k, &m, &lines);
        CHECK(run_lines(said.s, lines.s, t.expected));
        search_seeds(k, &m, same_as_default, &t);
        search_moves(k, lines.s, &m, same_as_default, &t);
        CHECK(t.legal > 10);
        str_free(&said);
        str_free(&lines);
        ir_close(k);
    }
}

/* Sums over several loops, of which the inner ones are short, and beside a store. */
static const char nested[] = "kernel \"nested\" {\n  arg a0 f32[1] write\n  reg t0 f32[1]\n"
                             "  arg a1 f32[%d] read\n  def t0 = f32(0)\n"
                             "  for r0 < 5 {\n    for r1 < 3 {\n      for r2 < %d {\n"
                             "        t0[0] += a1[%d*r0 + %d*r1 + r2]\n"
                             "      }\n    }\n  }\n  a0[0] = t0[0]\n}\n";
static const char stored[] =
    "kernel \"stored\" {\n  arg a0 f32[51] write\n  reg t0 f32[1]\n  arg a1 f32[867] read\n"
    "  reg t1 f32[1]\n  arg a2 f32[867] write\n  for i0 < 51 {\n    def t0 = f32(0)\n"
    "    def t1 = f32(-inf)\n    for r1 < 17 {\n      t1[0] max= a1[17*i0 + r1]\n    }\n"
    "    for r0 < 17 {\n      a2[17*i0 + r0] = exp(sub(a1[17*i0 + r0], t1[0]))\n"
    "      t0[0] += exp(sub(a1[17*i0 + r0], t1[0]))\n    }\n    a0[i0] = t0[0]\n  }\n}\n";

static void keeps_its_word(const char *text, const machine *m) {
    str lines;
    str_open(&lines, &ctx.heap);
    str_add(&lines, "");
    kernel *k = parse(text);
    schedule_group_sums(k, m);
    if (schedule_default(k, m, &lines).ungrouped)
        FAIL("%d bytes: %s\n%s", (int)m->vector_bytes, text, lines.s);
    str_free(&lines);
    ir_close(k);
}

static void defaults_keep_what_is_said(void) {
    machine m = limits;
    for (m.vector_bytes = 16; m.vector_bytes <= 64; m.vector_bytes *= 2) {
        for (int inner = 1; inner < 40; inner++) {
            char text[600];
            snprintf(text, sizeof text, nested, 15 * inner, inner, inner, 5 * inner);
            keeps_its_word(text, &m);
        }
        /* Of four lanes the pipeline makes a row's two chains only if the row is whole vectors:
         * such kernels are said to be ungrouped, and tuned as ones of which nothing is said. */
        if (m.vector_bytes > 16) keeps_its_word(stored, &m);
    }
}

static void all(void) {
    RUN(a_grouping_is_printed_and_parsed);
    RUN(a_sum_is_grouped_by_facts_and_sizes);
    RUN(a_sum_around_rows_has_the_lanes_that_go_across);
    RUN(rates_have_no_say);
    RUN(schedules_make_what_is_said);
    RUN(defaults_keep_what_is_said);
    RUN(only_sums_of_two_chains_are_pipelined);
    RUN(no_schedule_regroups_a_sum);
    RUN(what_any_order_merges_alike_may_be_regrouped);
    RUN(a_convolution_adds_up_in_the_order_of_its_loops);
    RUN(words_of_a_product_are_said_where_there_is_the_instruction);
    RUN(what_schedulers_make_of_sums_is_said);
    RUN(a_search_proposes_no_other_grouping);
    RUN(no_candidate_changes_a_bit);
}

int main(int argc, char **argv) {
    machine_complete(&limits);
    return run_raising(argc, argv, all);
}
