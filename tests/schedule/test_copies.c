/* test_copies.c - copies across, y[i,j] = x[j,i], at shapes where their schedules change form:
 * whole vectors or not, fewer columns than a block or some more, one block or several and a rest
 * each way, results that stay in the caches and such as are written past them by whole lines. Each
 * is run as machine code and compared with the kernel as it was, run by the interpreter. */
#include "emit_harness.h"
#include "records.h"
#include "schedule/schedule.h"

/* Caches so small that results of some KiB are written past them. */
static machine small_one(int gain, int lines, int reads) {
    return record((machine){.name = "test",
                            .page_parallel_gain = 100,
                            .nontemporal_gain = gain,
                            .transpose_lines = lines,
                            .transpose_reads = reads,
                            .vector_bytes = 64,
                            .registers = 32,
                            .l1 = 4 << 10,
                            .l2 = 64 << 10,
                            .l3 = 32 << 10,
                            .threads = 2});
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

/* Schedule it by the record, run it, compare. Was a step of that name taken? */
static bool run_copy(harness *h, const machine *m, const char *text, const char *step) {
    harness_case c = {.text = text, .seed = 7};
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
    str lines;
    str_open(&lines, &h->qn->heap);
    schedule_default(k, m, &lines);
    bool taken = lines.s && strstr(lines.s, step);
    harness_launch(h, k, &c, &b);
    str_free(&lines);
    harness_free(&b);
    ir_close(k);
    return taken;
}

static void copies_of_any_shape_keep_their_elements(void) {
    static const char *const dtype[] = {"f32", "i32", "f64", "i64", "bf16", "u8"};
    static const int shape[][3] = {
        {1, 300, 300}, {1, 257, 129}, {1, 129, 257}, {1, 128, 250},  {1, 131, 64},  {1, 64, 131},
        {1, 200, 77},  {1, 77, 200},  {3, 66, 70},   {1, 1000, 33},  {1, 33, 1000}, {1, 193, 193},
        {2, 96, 97},   {1, 17, 1001}, {1, 1001, 17}, {1, 160, 4097}, {1, 288, 144}, {1, 143, 287}};
    machine by[] = {small_one(150, 32, 2), small_one(150, 16, 1), small_one(100, 32, 2)};
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
               {300, 304, 150, false}, {60, 70, 150, false},  {300, 30, 150, false}};
    harness h;
    if (!harness_open(&h, "llvm", 1)) return;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char text[900];
        machine m = small_one(row[i].gain, 32, 2);
        copy_text(text, "f32", 1, row[i].rows, row[i].columns);
        if (run_copy(&h, &m, text, "align") != row[i].lines)
            FAIL("%d x %d, gain %d", row[i].rows, row[i].columns, row[i].gain);
    }
    harness_close(&h);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(copies_of_any_shape_keep_their_elements);
    RUN(large_rows_of_odd_sizes_are_written_by_lines);
    return test_end();
}
