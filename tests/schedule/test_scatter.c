/* test_scatter.c - rows combined into places that an index says, with their columns
 * shared among threads or not: each schedule is run as machine code by two threads and compared,
 * bit by bit, with the kernel as it was, run by the interpreter. */
#include "emit_harness.h"
#include "records.h"
#include "schedule/schedule.h"

static machine of_threads(int threads) {
    return record((machine){.name = "test",
                            .page_parallel_gain = 100,
                            .vector_bytes = 32,
                            .registers = 16,
                            .l1 = 32 << 10,
                            .l2 = 512 << 10,
                            .l3 = 8 << 20,
                            .threads = threads});
}

typedef struct scatter {
    int batch, places, columns, rows, threads;
    const char *dtype, *op;
    bool copies;     /* or rows go over what there is */
    const char *has; /* a line of the schedule; NULL: none is parallel */
} scatter;

static void scatter_text(char text[1600], const scatter *c) {
    long long all = (long long)c->places * c->columns, picked = (long long)c->rows * c->columns;
    char copy[400] = "";
    if (c->copies)
        snprintf(copy, sizeof copy,
                 "  for b < %d {\n    for i < %d {\n      for j < %d {\n"
                 "        a0[%lld*b + %d*i + j] = a1[%lld*b + %d*i + j]\n      }\n    }\n  }\n",
                 c->batch, c->places, c->columns, all, c->columns, all, c->columns);
    snprintf(text, 1600,
             "kernel \"scatter\" {\n"
             "  arg a0 %s[%lld] read write\n"
             "  arg a1 %s[%lld] read\n"
             "  arg a2 i64[%d] read\n"
             "  arg a3 %s[%lld] read\n"
             "%s"
             "  for c < %d {\n"
             "    for s < %d {\n"
             "      for t < %d {\n"
             "        a0[%lld*c + t; dyn=mul(a2[s], i64(%d)); guard=and(le(i64(0), a2[s]), "
             "lt(a2[s], i64(%d)))] %s a3[%lld*c + %d*s + t]\n"
             "      }\n"
             "    }\n"
             "  }\n"
             "}\n",
             c->dtype, c->batch * all, c->dtype, c->batch * all, c->rows, c->dtype,
             c->batch * picked, copy, c->batch, c->rows, c->columns, all, c->columns, c->places,
             c->op, picked, c->columns);
}

static void run_scatter(harness *h, const scatter *s) {
    char text[1600], error[200];
    scatter_text(text, s);
    harness_case c = {.text = text, .seed = 5, .index = s->places + 2};
    harness_buffers b = {.n = 0};
    void *want[HARNESS_ARGS];
    const machine m = of_threads(s->threads);
    kernel *k = ir_parse(h->qn, text);
    if (!k) {
        FAIL("%s in\n%s", qn_error(h->qn), text);
        return;
    }
    harness_make(k, &c, &b);
    for (int a = 0; a < b.n; a++) want[a] = b.want[a] + HARNESS_GUARD;
    if (!interp_run(k, false, c.dim, want, error)) FAIL("interpreter: %s", error);
    str lines, why;
    str_open(&lines, &h->qn->heap);
    str_open(&why, &h->qn->heap);
    if (schedule_default(k, &m, &lines).dropped) FAIL("dropped: %s", text);
    bool found = lines.s && strstr(lines.s, s->has ? s->has : "par ");
    if (found != (s->has != NULL)) FAIL("%d threads:\n%s of %s", s->threads, lines.s, text);
    if (lines.len && transform_lines(k, lines.s, &why) < 0) FAIL("%s\n%s%s", why.s, lines.s, text);
    if (!ir_check(k, &why)) FAIL("%s\n%s", why.s, text);
    harness_launch(h, k, &c, &b);
    str_free(&lines);
    str_free(&why);
    harness_free(&b);
    ir_close(k);
}

static void every(const scatter *c, size_t n) {
    harness h;
    if (!harness_open(&h, "llvm", 2)) {
        test_state.skipped++;
        return;
    }
    for (size_t i = 0; i < n; i++) run_scatter(&h, &c[i]);
    harness_close(&h);
}

static void columns_are_shared_in_whole_lines(void) {
    static const scatter c[] = {
        {1, 40, 256, 3000, 2, "f32", "+=", true, "par q"},
        {1, 40, 256, 3000, 3, "f32", "+=", true, "split t 128"}, /* not of three */
        {1, 40, 200, 3000, 2, "f32", "+=", true, "split t 100"},
        {1, 40, 192, 3000, 3, "f32", "=", true, "split t 64"},
        {1, 40, 131, 3000, 4, "f32", "=", true, NULL}, /* no equal parts */
        {1, 40, 256, 3000, 2, "f64", "max=", true, "par q"},
        {1, 40, 256, 3000, 2, "i8", "+=", true, "par q"},
        {1, 40, 256, 3000, 2, "f32", "+=", false, "par q"},
        {3, 40, 100, 3000, 2, "f32", "+=", true, "par q"}, /* of several matrices */
        {1, 40, 16, 9000, 2, "f32", "+=", true, NULL},     /* a line */
        {1, 40, 1, 9000, 2, "f32", "+=", true, NULL},
        {1, 40, 256, 3000, 1, "f32", "+=", true, NULL},
        {1, 40, 64, 5, 2, "f32", "+=", true, NULL}, /* too little to do */
    };
    every(c, COUNT_OF(c));
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(columns_are_shared_in_whole_lines);
    return test_end();
}
