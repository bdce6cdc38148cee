/* test_copies.c - copies across, y[i,j] = x[j,i], at shapes where their schedules change form:
 * whole vectors or not, fewer columns than a block or some more, one block or several and a rest
 * each way, results that stay in the caches and such as are written past them by whole lines. Each
 * is run as machine code and compared with the kernel as it was, run by the interpreter. */
#include "emit_harness.h"
#include "records.h"
#include "schedule/schedule.h"

/* Caches so small that results of some KiB are written past them. */
static machine small_one(int gain, int lines, int reads, int vector) {
    return record((machine){.name = "test",
                            .page_parallel_gain = 100,
                            .nontemporal_gain = gain,
                            .transpose_lines = lines,
                            .transpose_reads = reads,
                            .vector_bytes = vector,
                            .registers = 32,
                            .l1 = 4 << 10,
                            .l2 = 64 << 10,
                            .l3 = 32 << 10,
                            .threads = 1});
}

static void copy_text(char text[900], const char *dtype, int batch, int rows, int columns) {
    long long all = (long long)batch * rows * columns;
    snprintf(text, 900,
             "kernel \"across\" {\n"
             "  arg a0 %s[%lld] write\n"
             "  arg a1 %s[%lld] read\n"
             "  for b < %d {\n"
             "    for i < %d {\n"
             "      for j < %d {\n"
             "        a0[%lld*b + %d*i + j] = a1[%lld*b + i + %d*j]\n"
             "      }\n"
             "    }\n"
             "  }\n"
             "}\n",
             dtype, all, dtype, all, batch, rows, columns, (long long)rows * columns, columns,
             (long long)rows * columns, rows);
}

/* Schedule it by the record, run it, compare. Was a step of that name taken? None is to be refused
 * that was not foreseen, and what comes out is to be proved sound. */
static bool run_copy(harness *h, const machine *m, const char *text, const char *step) {
    harness_case c = {.text = text, .seed = 7, .dim = {277}};
    harness_buffers b = {.n = 0};
    void *want[HARNESS_ARGS];
    char error[200];
    kernel *k = ir_parse(h->qn, text);
    if (!k) {
        FAIL("%s", qn_error(h->qn));
        return false;
    }
    harness_make(k, &c, &b);
    for (int a = 0; a < b.n; a++) want[a] = b.want[a] + HARNESS_GUARD;
    if (!interp_run(k, false, c.dim, want, error)) FAIL("interpreter: %s", error);
    str lines, why;
    str_open(&lines, &h->qn->heap);
    str_open(&why, &h->qn->heap);
    if (schedule_default(k, m, &lines).dropped) FAIL("dropped: %s", text);
    bool taken = lines.s && strstr(lines.s, step);
    if (lines.len && transform_lines(k, lines.s, &why) < 0) FAIL("%s\n%s%s", why.s, lines.s, text);
    harness_launch(h, k, &c, &b);
    str_free(&lines);
    str_free(&why);
    harness_free(&b);
    ir_close(k);
    return taken;
}

static void copies_of_any_shape_keep_their_elements(void) {
    static const char *const dtype[] = {"f32", "i32", "f64", "i64", "bf16", "u8"};
    static const int shape[][3] = {{1, 300, 300},  {1, 257, 129}, {1, 129, 257}, {1, 128, 250},
                                   {1, 131, 64},   {1, 64, 131},  {1, 200, 77},  {1, 77, 200},
                                   {3, 66, 70},    {1, 1000, 33}, {1, 33, 1000}, {1, 193, 193},
                                   {2, 96, 97},    {1, 95, 401},  {1, 17, 1001}, {1, 1001, 17},
                                   {1, 160, 4097}, {1, 288, 144}, {1, 143, 287}};
    machine by[] = {small_one(150, 32, 2, 64), small_one(150, 16, 1, 64), small_one(100, 32, 2, 64),
                    small_one(150, 32, 2, 32)};
    harness h;
    if (!harness_open(&h, "llvm", 2)) return;
    for (size_t d = 0; d < COUNT_OF(dtype); d++)
        for (size_t s = 0; s < COUNT_OF(shape); s++)
            for (size_t m = 0; m < COUNT_OF(by); m++) {
                char text[900];
                copy_text(text, dtype[d], shape[s][0], shape[s][1], shape[s][2]);
                run_copy(&h, &by[m], text, "");
            }
    harness_close(&h);
}

/* Rows that end within a vector are written by lines only where that pays: of a large result, by a
 * machine that gains by it. */
static void large_rows_of_odd_sizes_are_written_by_lines(void) {
    static const struct {
        int rows, columns, gain;
        bool lines;
    } row[] = {{300, 300, 150, true},  {129, 257, 150, true}, {300, 300, 100, false},
               {300, 304, 150, false}, {30, 40, 150, false},  {300, 30, 150, false}};
    harness h;
    if (!harness_open(&h, "llvm", 1)) return;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char text[900];
        machine m = small_one(row[i].gain, 32, 2, 64);
        copy_text(text, "f32", 1, row[i].rows, row[i].columns);
        if (run_copy(&h, &m, text, "align") != row[i].lines)
            FAIL("%d x %d, gain %d", row[i].rows, row[i].columns, row[i].gain);
    }
    harness_close(&h);
}

/* The operand also read as it lies, or twice across; rows that begin on lines though they are no
 * whole number of them; a function on the way; a size that is known at launch. */
static void copies_that_differ_a_little_are_scheduled_too(void) {
    static const char *const body[] = {
        "for i < 300 {\n for j < 300 {\n a0[300*i + j] = %s(a1[300*i + j], a1[i + 300*j])\n }\n "
        "}\n",
        "for i < 299 {\n for j < 300 {\n a0[300*i + j] = %s(a1[i + 300*j], a1[i + 300*j + 1])\n "
        "}\n }\n",
        "for i < 200 {\n for j < 203 {\n a0[304*i + j] = %s(a1[i + 300*j], a2[0])\n }\n }\n",
        "for i < 256 {\n for j < n {\n a0[n*i + j] = %s(a1[i + 256*j], a2[0])\n }\n }\n",
        "for i < 300 {\n for j < 300 {\n a0[300*i + j] = abs(%s(a1[i + 300*j], a2[0]))\n }\n }\n",
        "for i < 33 {\n for j < 304 {\n a0[304*i + j] = %s(a1[i + 33*j], a2[j])\n }\n }\n",
        "for i < 257 {\n for j < 304 {\n a0[304*i + j] = %s(a1[i + 257*j], a2[j])\n }\n }\n",
        "for i < 161 {\n for j < 303 {\n a0[303*i + j] = %s(a1[i + 161*j], a2[j])\n }\n }\n"};
    static const char *const dtype[] = {"f32", "f64", "bf16"};
    machine m = small_one(150, 32, 2, 64);
    harness h;
    if (!harness_open(&h, "llvm", 1)) return;
    for (size_t d = 0; d < COUNT_OF(dtype); d++)
        for (size_t i = 0; i < COUNT_OF(body); i++) {
            char form[600], text[900];
            snprintf(form, sizeof form,
                     "kernel \"across\" {\n dim n 250 290\n arg a0 %s[90000] write\n arg a1 "
                     "%s[90001] read\n arg a2 %s[304] read\n %s}\n",
                     dtype[d], dtype[d], dtype[d], body[i]);
            snprintf(text, sizeof text, form, "maximum");
            run_copy(&h, &m, text, "");
        }
    harness_close(&h);
}

/* With many threads, and with few rows: squares are in registers all the same. */
static void whole_blocks_are_transposed_in_registers(void) {
    static const int row[][3] = {{300, 300, 1}, {300, 300, 4}, {300, 300, 64},
                                 {100, 500, 2}, {70, 300, 1},  {260, 77, 3}};
    harness h;
    if (!harness_open(&h, "llvm", 1)) return;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char text[900];
        machine m = small_one(150, 32, 2, 64);
        m.threads = row[i][2];
        copy_text(text, "f32", 1, row[i][0], row[i][1]);
        if (!run_copy(&h, &m, text, "transpose e"))
            FAIL("%d x %d, %d threads", row[i][0], row[i][1], row[i][2]);
    }
    harness_close(&h);
}

static void count_dropped(void *user, const char *line) {
    if (strstr(line, "dropped,")) ++*(int *)user;
}

static bool take_any(void *user, const char *lines) {
    ++*(int *)user;
    return lines != NULL;
}

/* A search is offered no form that a copy cannot have: a tile takes what one load reads. */
static void a_search_is_offered_what_can_be_made(void) {
    static const char *const body[] = {"a1[i + %d*j]", "maximum(a1[i + %d*j], a1[i + %d*j + 1])",
                                       "maximum(a1[i + %d*j], a2[j])"};
    static const int columns[] = {303, 304};
    for (size_t i = 0; i < 2 * COUNT_OF(body); i++) {
        int dropped = 0, proposed = 0, n = columns[i % 2];
        setenv("QN_DEBUG", "s", 1);
        qn_ctx *qn =
            qn_open(&QN_OPTIONS(.device = "ref", .log = count_dropped, .log_user = &dropped));
        unsetenv("QN_DEBUG");
        char value[100], text[500];
        snprintf(value, sizeof value, body[i / 2], 290, 290);
        snprintf(text, sizeof text,
                 "kernel \"across\" {\n arg a0 f32[90000] write\n arg a1 f32[90000] read\n arg a2 "
                 "f32[304] read\n for i < 290 {\n for j < %d {\n a0[%d*i + j] = %s\n }\n }\n}\n",
                 n, n, value);
        kernel *k = ir_parse(qn, text);
        machine m = small_one(150, 32, 2, 64);
        if (!k) FAIL("%s", qn_error(qn));
        if (k) schedule_proposals(k, &m, take_any, &proposed);
        CHECK(proposed > 1);
        CHECK_INT(dropped, 0);
        if (k) ir_close(k);
        qn_close(qn);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(copies_of_any_shape_keep_their_elements);
    RUN(large_rows_of_odd_sizes_are_written_by_lines);
    RUN(copies_that_differ_a_little_are_scheduled_too);
    RUN(whole_blocks_are_transposed_in_registers);
    RUN(a_search_is_offered_what_can_be_made);
    return test_end();
}
