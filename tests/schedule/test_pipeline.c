/* test_pipeline.c - software pipelining of rows: shift, and fuse past the statements between; the
 * scheduler's default for rows. As in test_transforms.c; with values on the device in
 * test_rows.c. */
#include "ir_cases.h"
#include "records.h"
#include "schedule/schedule.h"
#include "transform/transform.h"

/* Each element's distance from the row's largest, times the sum of these. */
static const char shares[] = "kernel \"shares\" {\n"
                             "  arg a0 f32[24] write\n"
                             "  arg a1 f32[24] read\n"
                             "  local t0 f32[6]\n"
                             "  local t1 f32[1]\n"
                             "  local t2 f32[1]\n"
                             "  for i < 4 {\n"
                             "    def t0\n"
                             "    def t1 = f32(-inf)\n"
                             "    for j < 6 {\n"
                             "      t1[0] max= a1[6*i + j]\n"
                             "    }\n"
                             "    for k < 6 {\n"
                             "      t0[k] = sub(a1[6*i + k], t1[0])\n"
                             "    }\n"
                             "    def t2 = f32(0)\n"
                             "    for m < 6 {\n"
                             "      t2[0] += t0[m]\n"
                             "    }\n"
                             "    for n < 6 {\n"
                             "      a0[6*i + n] = mul(t0[n], t2[0])\n"
                             "    }\n"
                             "  }\n"
                             "}\n";

/* ---- shift --------------------------------------------------------------------------------- */

static void shift_does_the_first_part_of_a_trip_in_the_one_before(void) {
    BECOMES(shares, "shift i n",
            "kernel \"shares\" {\n"
            "  arg a0 f32[24] write\n"
            "  arg a1 f32[24] read\n"
            "  local t0 f32[6]\n"
            "  local t1 f32[1]\n"
            "  local t2 f32[1]\n"
            "  local t3 f32[1]\n"
            "  def t0\n"
            "  def t2\n"
            "  def t3 = f32(-inf)\n"
            "  for j_1 < 6 {\n"
            "    t3[0] max= a1[j_1]\n"
            "  }\n"
            "  for k_1 < 6 {\n"
            "    t0[k_1] = sub(a1[k_1], t3[0])\n"
            "  }\n"
            "  t2[0] = f32(0)\n"
            "  for m_1 < 6 {\n"
            "    t2[0] += t0[m_1]\n"
            "  }\n"
            "  for i < 3 {\n"
            "    for n < 6 {\n"
            "      a0[6*i + n] = mul(t0[n], t2[0])\n"
            "    }\n"
            "    def t1 = f32(-inf)\n"
            "    for j < 6 {\n"
            "      t1[0] max= a1[6*i + j + 6]\n"
            "    }\n"
            "    for k < 6 {\n"
            "      t0[k] = sub(a1[6*i + k + 6], t1[0])\n"
            "    }\n"
            "    t2[0] = f32(0)\n"
            "    for m < 6 {\n"
            "      t2[0] += t0[m]\n"
            "    }\n"
            "  }\n"
            "  for n_1 < 6 {\n"
            "    a0[n_1 + 18] = mul(t0[n_1], t2[0])\n"
            "  }\n"
            "}\n");
    KEEPS(shares, "shift i k");
    KEEPS(shares, "shift i m\nshift i n");
    KEEPS(shares, "split i 2 -> p q\npar p\nshift q k");
}

/* Rows of any number from 1 up, and a tile that does not begin empty. */
static const char some_rows[] = "kernel \"rows\" {\n"
                                "  dim n 1 9\n"
                                "  arg a0 f32[5*n] write\n"
                                "  arg a1 f32[5*n] read\n"
                                "  local t0 f32[5]\n"
                                "  for i < n {\n"
                                "    def t0 = f32(2)\n"
                                "    for j < 5 {\n"
                                "      t0[j] += a1[5*i + j]\n"
                                "    }\n"
                                "    for k < 5 {\n"
                                "      a0[5*i + k] = t0[k]\n"
                                "    }\n"
                                "  }\n"
                                "}\n";

static void shift_begins_tiles_anew_in_each_trip(void) {
    BECOMES(some_rows, "shift i k",
            "kernel \"rows\" {\n"
            "  dim n 1 9\n"
            "  arg a0 f32[5*n] write\n"
            "  arg a1 f32[5*n] read\n"
            "  local t0 f32[5]\n"
            "  def t0\n"
            "  for begin_e_1 < 5 {\n"
            "    t0[begin_e_1] = f32(2)\n"
            "  }\n"
            "  for j_1 < 5 {\n"
            "    t0[j_1] += a1[j_1]\n"
            "  }\n"
            "  for i < n - 1 {\n"
            "    for k < 5 {\n"
            "      a0[5*i + k] = t0[k]\n"
            "    }\n"
            "    for begin_e < 5 {\n"
            "      t0[begin_e] = f32(2)\n"
            "    }\n"
            "    for j < 5 {\n"
            "      t0[j] += a1[5*i + j + 5]\n"
            "    }\n"
            "  }\n"
            "  for k_1 < 5 {\n"
            "    a0[k_1 + 5*n - 5] = t0[k_1]\n"
            "  }\n"
            "}\n");
}

static void shift_is_refused_where_there_is_nothing_to_shift(void) {
    REFUSES(shares, "", "shift i j", "begin with that loop");
    REFUSES(shares, "", "shift j n", "not directly in");
    REFUSES(shares, "par i", "shift i n", "only a serial loop");
    REFUSES(shares, "split i 4 -> p q", "shift p n", "not directly in");
    REFUSES(shares, "split i 1 -> p q", "shift q n", "only one trip");
    char text[sizeof some_rows];
    strcpy(text, some_rows);
    strstr(text, "n 1 9")[2] = '0';
    REFUSES(text, "", "shift i k", "may have no trip");
}

/* ---- fuse past what is between --------------------------------------------------------------- */

static const char stages[] = "rfactor t1 j\nrfactor t2 m\nfuse k m\n";

static const char two_stages_in_one[] = "kernel \"shares\" {\n"
                                        "  arg a0 f32[24] write\n"
                                        "  arg a1 f32[24] read\n"
                                        "  local t0 f32[6]\n"
                                        "  local t1 f32[1]\n"
                                        "  local t2 f32[1]\n"
                                        "  local t3 f32[6]\n"
                                        "  local t4 f32[6]\n"
                                        "  local t5 f32[1]\n"
                                        "  local t6 f32[6]\n"
                                        "  local t7 f32[6]\n"
                                        "  local t8 f32[6]\n"
                                        "  local t9 f32[6]\n"
                                        "  def t0\n"
                                        "  def t2\n"
                                        "  def t5 = f32(-inf)\n"
                                        "  def t6 = f32(-inf)\n"
                                        "  for j_2 < 6 {\n"
                                        "    t6[j_2] max= a1[j_2]\n"
                                        "  }\n"
                                        "  for j_1_1 < 6 {\n"
                                        "    t5[0] max= t6[j_1_1]\n"
                                        "  }\n"
                                        "  def t7 = f32(0)\n"
                                        "  for k_1 < 6 {\n"
                                        "    t0[k_1] = sub(a1[k_1], t5[0])\n"
                                        "    t7[k_1] += t0[k_1]\n"
                                        "  }\n"
                                        "  t2[0] = f32(0)\n"
                                        "  for m_1_1 < 6 {\n"
                                        "    t2[0] += t7[m_1_1]\n"
                                        "  }\n"
                                        "  def t1\n"
                                        "  def t8 = f32(-inf)\n"
                                        "  for j_3 < 6 {\n"
                                        "    t8[j_3] max= a1[j_3 + 6]\n"
                                        "  }\n"
                                        "  t1[0] = f32(-inf)\n"
                                        "  for j_1_2 < 6 {\n"
                                        "    t1[0] max= t8[j_1_2]\n"
                                        "  }\n"
                                        "  for i < 2 {\n"
                                        "    def t4 = f32(0)\n"
                                        "    def t3 = f32(-inf)\n"
                                        "    for n < 6 {\n"
                                        "      a0[6*i + n] = mul(t0[n], t2[0])\n"
                                        "      t0[n] = sub(a1[6*i + n + 6], t1[0])\n"
                                        "      t4[n] += t0[n]\n"
                                        "      t3[n] max= a1[6*i + n + 12]\n"
                                        "    }\n"
                                        "    t2[0] = f32(0)\n"
                                        "    for m_1 < 6 {\n"
                                        "      t2[0] += t4[m_1]\n"
                                        "    }\n"
                                        "    t1[0] = f32(-inf)\n"
                                        "    for j_1 < 6 {\n"
                                        "      t1[0] max= t3[j_1]\n"
                                        "    }\n"
                                        "  }\n"
                                        "  def t9 = f32(0)\n"
                                        "  for n_2 < 6 {\n"
                                        "    a0[n_2 + 12] = mul(t0[n_2], t2[0])\n"
                                        "    t0[n_2] = sub(a1[n_2 + 18], t1[0])\n"
                                        "    t9[n_2] += t0[n_2]\n"
                                        "  }\n"
                                        "  t2[0] = f32(0)\n"
                                        "  for m_1_2 < 6 {\n"
                                        "    t2[0] += t9[m_1_2]\n"
                                        "  }\n"
                                        "  for n_1 < 6 {\n"
                                        "    a0[n_1 + 18] = mul(t0[n_1], t2[0])\n"
                                        "  }\n"
                                        "}\n";

static void two_stages_of_neighbouring_rows_become_one(void) {
    BECOMES(shares,
            "rfactor t1 j\nrfactor t2 m\nfuse k m\nshift i n\nfuse n k\n"
            "shift i n\nfuse n j",
            two_stages_in_one);
}

static void fuse_brings_either_loop_to_the_other(void) {
    char text[200];
    snprintf(text, sizeof text, "%sshift i n\nfuse n k", stages); /* n waits for t1 */
    KEEPS(shares, text);
    snprintf(text, sizeof text, "%sshift i n\nfuse n j", stages); /* j comes before */
    KEEPS(shares, text);
}

static void fuse_is_refused_where_what_is_between_needs_both(void) {
    REFUSES(shares, "", "fuse j n", "depends on both");
    REFUSES(shares, "shift i n", "fuse n m", "depends on both");
    REFUSES(shares, "", "fuse n j", "not behind");
}

/* ---- prefetch_next --------------------------------------------------------------------------- */

/* Of three rows that one loop works on only the next is prefetched. */
static void prefetch_next_leaves_out_lines_of_this_iteration(void) {
    char text[300];
    snprintf(text, sizeof text, "%sshift i n\nfuse n k\nshift i n\nfuse n j\nprefetch_next n n",
             stages);
    kernel *k = parse(shares);
    str why;
    str_open(&why, &ctx.heap);
    if (transform_lines(k, text, &why) < 0) FAIL("%s", why.s);
    int asked = 0;
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root))
        asked += ir_s(k, s)->kind == STMT_PREFETCH;
    CHECK_INT(asked, 1);
    ir_close(k);
    str_free(&why);
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static int count(const char *text, const char *what) {
    int n = 0;
    for (; text && (text = strstr(text, what)); text++) n++;
    return n;
}

/* A softmax, its logarithm, or (when 2) a row less its largest, which is little arithmetic. */
static const char *softmax(int kind, int rows, int columns) {
    static const char *const last[] = {"mul(t0[n], reciprocal(t2[0]))",
                                       "sub(sub(a1[%d*i + n], t1[0]), log(t2[0]))",
                                       "mul(t0[n], t2[0])"};
    static char text[1000];
    char value[100];
    snprintf(value, sizeof value, last[kind], columns);
    snprintf(
        text, sizeof text,
        "kernel \"rows\" { arg a0 f32[%d] write arg a1 f32[%d] read local t0 f32[%d] local t1 "
        "f32[1] local t2 f32[1] for i < %d { def t0 def t1 = f32(-inf) for j < %d { t1[0] max= "
        "a1[%d*i + j] } for k < %d { t0[k] = %s(sub(a1[%d*i + k], t1[0])) } def t2 = f32(0) for "
        "m < %d { t2[0] += t0[m] } for n < %d { a0[%d*i + n] = %s } } }",
        rows * columns, rows * columns, columns, rows, columns, columns, columns,
        kind == 2 ? "neg" : "exp", columns, columns, columns, columns, value);
    return text;
}

static void default_of(const char *text, const machine *limits, str *lines) {
    kernel *k = parse(text);
    str_open(lines, &ctx.heap);
    if (k) schedule_default(k, limits, lines);
    ir_close(k);
}

/* Whole chunks and not, a last chunk of few rows, columns that no vector ends with. */
static void rows_of_much_arithmetic_go_in_stages(void) {
    static const int rows[] = {16, 17, 19, 23, 32, 61, 67},
                     columns[] = {16, 17, 31, 32, 33, 40, 61};
    const machine limits = record((machine){.page_parallel_read_gain = 150,
                                            .page_parallel_gain = 150,
                                            .vector_bytes = 16,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .l2 = 1 << 20,
                                            .threads = 2});
    for (size_t i = 0; i < 2 * COUNT_OF(rows) * COUNT_OF(columns); i++) {
        const char *text =
            softmax(i % 2, rows[i / 2 % COUNT_OF(rows)], columns[i / 2 / COUNT_OF(rows)]);
        str lines;
        default_of(text, &limits, &lines);
        CHECK_INT(count(lines.s, "shift "), 2);
        CHECK_INT(count(lines.s, "spill "), i % 2); /* the logarithm needs the largest again */
        KEEPS(text, lines.s);
        str_free(&lines);
    }
}

static void the_number_of_threads_changes_no_line(void) {
    str lines[2];
    for (int i = 0; i < 2; i++) {
        const machine limits = record((machine){.page_parallel_read_gain = 150,
                                                .page_parallel_gain = 150,
                                                .vector_bytes = 64,
                                                .registers = 32,
                                                .l1 = 32 << 10,
                                                .l2 = 1 << 20,
                                                .threads = i ? 16 : 1});
        default_of(softmax(0, 1000, 1000), &limits, &lines[i]);
    }
    CHECK_INT(count(lines[0].s, "shift "), 2);
    CHECK_STR(lines[0].s, lines[1].s);
    for (int i = 0; i < 2; i++) str_free(&lines[i]);
}

/* Few rows, rows that do not fit the caches, little arithmetic where nothing goes past the caches;
 * the same where something does. */
static void stages_are_for_where_they_pay(void) {
    static const struct {
        int kind, rows, columns, rotated;
    } is[] = {{0, 15, 1024, 0},   {0, 64, 1 << 16, 0}, {0, 64, 24, 0},
              {2, 256, 1024, 0},  {2, 256, 1000, 0},   {2, 256, 128, 2},
              {2, 2048, 4096, 2}, {2, 2048, 4095, 0},  {0, 2048, 4095, 2}};
    const machine limits = record((machine){.page_parallel_read_gain = 150,
                                            .page_parallel_gain = 150,
                                            .vector_bytes = 64,
                                            .registers = 32,
                                            .l1 = 32 << 10,
                                            .l2 = 1 << 20,
                                            .l3 = 32 << 20,
                                            .threads = 1});
    for (size_t i = 0; i < COUNT_OF(is); i++) {
        str lines;
        default_of(softmax(is[i].kind, is[i].rows, is[i].columns), &limits, &lines);
        if (count(lines.s, "shift ") != is[i].rotated)
            FAIL("%d rows of %d, kind %d:\n%s", is[i].rows, is[i].columns, is[i].kind, lines.s);
        if (is[i].rotated) CHECK_INT(count(lines.s, "prefetch_next "), is[i].rows == 2048);
        str_free(&lines);
    }
}

static void all(void) {
    RUN(shift_does_the_first_part_of_a_trip_in_the_one_before);
    RUN(shift_begins_tiles_anew_in_each_trip);
    RUN(shift_is_refused_where_there_is_nothing_to_shift);
    RUN(two_stages_of_neighbouring_rows_become_one);
    RUN(fuse_brings_either_loop_to_the_other);
    RUN(fuse_is_refused_where_what_is_between_needs_both);
    RUN(prefetch_next_leaves_out_lines_of_this_iteration);
    RUN(rows_of_much_arithmetic_go_in_stages);
    RUN(the_number_of_threads_changes_no_line);
    RUN(stages_are_for_where_they_pay);
}

int main(int argc, char **argv) {
    return run_raising(argc, argv, all);
}
