/* test_wisdom.c - what tuning found, as text and as a file: it reads back as it was written, a text
 * that is not whole adds nothing and says where it is wrong, the better of two records stays in
 * whatever order they come, and processes that write at once, or are killed while they do, lose
 * nothing. */
#include "cache_harness.h"
#include "schedule/wisdom/wisdom.h"

/* ---- made-up records ------------------------------------------------------------------------- */

/* Number i: a function of it and nothing else. */
static wisdom_record made_up_record(int i, char name[64], char schedule[400]) {
    static const uint32_t seen[] = {0, 1, 0xffffffff, 0xabcdef01, 5, 6, 7, 8, 9, 0x10000000, 11};
    uint64_t seed = (uint64_t)i * 1117 + 3;
    wisdom_record r = {.key = {.kernel = {test_rand(&seed), test_rand(&seed)},
                               .place = test_rand(&seed) % 3,
                               .standard = test_rand(&seed),
                               .threads = i % 3},
                       .family = test_rand(&seed),
                       .round = 1 + i % 4,
                       .tried = i * 7,
                       .spent = 0.125 * i,
                       .ratio = 0.5 + 0.0625 * (i % 8),
                       .regrouped = i % 2,
                       .seens = (uint32_t)i % 11,
                       .seen = seen,
                       .done = i % 5 == 0};
    snprintf(name, 64, "mul[%d, %d] \"x\" \\ %%s", i, i + 1);
    *schedule = 0;
    for (int j = 0; j < i % 6; j++)
        snprintf(schedule + strlen(schedule), 400 - strlen(schedule), "split i%d %d -> a%d b%d\n",
                 j, i + 2, j, j);
    r.name = name;
    r.place = "somewhere, quern 0";
    r.schedule = schedule;
    return r;
}

static void add_record(qn_ctx *qn, wisdom *w, int i) {
    char name[64], schedule[400];
    wisdom_record r = made_up_record(i, name, schedule);
    wisdom_add(qn, w, &r);
}

static bool has_record(const wisdom *w, int i) {
    char name[64], schedule[400];
    wisdom_record r = made_up_record(i, name, schedule);
    const wisdom_record *x = wisdom_at(w, &r.key);
    return x && x->family == r.family && x->round == r.round && x->tried == r.tried &&
           x->spent == r.spent && x->seens == r.seens &&
           !memcmp(x->seen, r.seen, r.seens * sizeof *r.seen) && x->ratio == r.ratio &&
           x->regrouped == r.regrouped && x->done == r.done && !strcmp(x->name, r.name) &&
           !strcmp(x->place, r.place) && !strcmp(x->schedule, r.schedule);
}

typedef struct bench {
    qn_ctx *qn;
    wisdom w;
    str text;
} bench;

static void bench_open(bench *b, int records) {
    b->qn = open_with(NULL);
    wisdom_open(&b->w, &b->qn->heap);
    str_open(&b->text, &b->qn->heap);
    for (int i = 0; i < records; i++) add_record(b->qn, &b->w, i);
    wisdom_print(&b->w, &b->text);
}

static void bench_close(bench *b) {
    str_free(&b->text);
    wisdom_free(&b->w);
    qn_close(b->qn);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_reads_back_as_it_was_written(void) {
    bench b;
    bench_open(&b, 40);
    wisdom again;
    wisdom_open(&again, &b.qn->heap);
    CHECK(wisdom_parse(b.qn, "x", b.text.s, b.text.len, &again));
    CHECK_INT(again.count, 40);
    for (int i = 0; i < 40; i++)
        if (!has_record(&again, i)) FAIL("record %d", i);
    str text;
    str_open(&text, &b.qn->heap);
    wisdom_print(&again, &text);
    CHECK_STR(text.s, b.text.s);
    str_free(&text);
    wisdom_free(&again);
    bench_close(&b);
}

/* Adds nothing, and says in which line. */
static bool refused(bench *b, const char *text, size_t size, int *line) {
    wisdom w;
    wisdom_open(&w, &b->qn->heap);
    add_record(b->qn, &w, 1000);
    bool taken = wisdom_parse(b->qn, "x", text, size, &w);
    bool alone = w.count == 1 && has_record(&w, 1000);
    const char *at = strstr(qn_error(b->qn), "wisdom x, line ");
    *line = at ? atoi(at + 15) : -1;
    bool told = at && qn_error_code(b->qn) == QN_EFORMAT;
    qn_clear_error(b->qn);
    wisdom_free(&w);
    return !taken && alone && told;
}

static void every_truncation_is_refused(void) {
    bench b;
    bench_open(&b, 5);
    for (uint32_t n = 0; n < b.text.len; n++) {
        int line, lines = 1;
        for (uint32_t i = 0; i < n; i++) lines += b.text.s[i] == '\n';
        if (!refused(&b, b.text.s, n, &line)) FAIL("cut short to %u bytes", n);
        if (line > lines) FAIL("%u bytes: line %d of %d", n, line, lines);
    }
    bench_close(&b);
}

static void every_changed_bit_is_refused_in_its_record(void) {
    bench b;
    bench_open(&b, 4);
    for (uint32_t n = 0; n < b.text.len; n++)
        for (int bit = 0; bit < 8; bit++) {
            int line, begin = 1;
            for (uint32_t i = 0; i < n; i++) begin += b.text.s[i] == '\n';
            b.text.s[n] = (char)(b.text.s[n] ^ 1 << bit);
            if (!refused(&b, b.text.s, b.text.len, &line)) FAIL("byte %u bit %d", n, bit);
            if (line < begin || line > begin + 16)
                FAIL("byte %u bit %d is in line %d, not %d", n, bit, begin, line);
            b.text.s[n] = (char)(b.text.s[n] ^ 1 << bit);
        }
    bench_close(&b);
}

static void lines_that_go_or_come_are_refused(void) {
    bench b;
    bench_open(&b, 4);
    str t;
    str_open(&t, &b.qn->heap);
    int line;
    for (uint32_t n = 0; n < b.text.len; n += (uint32_t)strcspn(b.text.s + n, "\n") + 1) {
        uint32_t size = (uint32_t)strcspn(b.text.s + n, "\n") + 1;
        t.len = 0;
        str_addn(&t, b.text.s, n);
        str_addn(&t, b.text.s + n + size, b.text.len - n - size);
        if (!refused(&b, t.s, t.len, &line)) FAIL("without the line at %u", n);
        t.len = 0;
        str_addn(&t, b.text.s, n + size);
        str_addn(&t, b.text.s + n, b.text.len - n);
        if (!refused(&b, t.s, t.len, &line)) FAIL("with the line at %u twice", n);
    }
    str_free(&t);
    bench_close(&b);
}

/* Whatever two orders, and however often: the same is left. */
static void merging_does_not_depend_on_order(void) {
    qn_ctx *qn = open_with(NULL);
    uint64_t seed = 8;
    for (int trial = 0; trial < 200; trial++) {
        wisdom a, b;
        str ta, tb;
        wisdom_open(&a, &qn->heap);
        wisdom_open(&b, &qn->heap);
        str_open(&ta, &qn->heap);
        str_open(&tb, &qn->heap);
        wisdom_record r[6];
        char name[64], schedule[6][400];
        for (int i = 0; i < 6; i++) {
            r[i] = made_up_record((int)test_below(&seed, 12), name, schedule[i]);
            r[i].key = (wisdom_key){.kernel = {1, 2}, .threads = 1};
            r[i].name = "k";
        }
        for (int i = 0; i < 6; i++) wisdom_add(qn, &a, &r[i]);
        for (int i = 5; i >= 0; i--) wisdom_add(qn, &b, &r[i]);
        for (int i = 0; i < 3; i++) wisdom_add(qn, &b, &r[i]);
        CHECK_INT(a.count, 1);
        wisdom_print(&a, &ta);
        wisdom_print(&b, &tb);
        CHECK_STR(ta.s, tb.s);
        str_free(&ta);
        str_free(&tb);
        wisdom_free(&a);
        wisdom_free(&b);
    }
    qn_close(qn);
}

static void a_family_is_a_text_without_its_numbers(void) {
    const char *a = "for i0 < 512 {\n t0[0] += mul(a1[512*i0], f32(2))", *b = strdup(a);
    uint64_t family = wisdom_family(a, strlen(a));
    char *c = strdup(a);
    memcpy(strstr(c, "512"), "7  ", 3);
    CHECK(family == wisdom_family(b, strlen(b)));
    CHECK(family == wisdom_family("for i0 < 7 {\n t0[0] += mul(a1[123456*i0], f32(3))", 49));
    CHECK(family != wisdom_family("for i1 < 512 {\n t0[0] += mul(a1[512*i0], f32(2))", 48));
    CHECK(family != wisdom_family("for i0 < 512 {\n t0[0] += mul(a1[512*i0], f64(2))", 48));
    free(c);
    free((char *)(uintptr_t)b);
}

/* ---- files ----------------------------------------------------------------------------------- */

static qn_ctx *open_cpu_with(const char *path) {
    cache_log[0] = 0;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .log = keep_log));
    if (qn && path && qn_set(qn, "wisdom", path)) FAIL("%s", qn_error(qn));
    return qn;
}

static void file_path(char path[2 * FILE_PATH], const char *folder) {
    snprintf(path, 2 * FILE_PATH, "%.590s/wisdom", folder);
}

enum { WRITERS = 8, EACH = 12 };

typedef struct writer {
    const char *path;
    int number;
} writer;

/* Each its own records, and one that all have. */
static int write_records(void *arg) {
    writer *w = arg;
    qn_ctx *qn = open_cpu_with(w->path);
    if (!qn) return 2;
    int bad = 0;
    for (int i = 0; i < EACH; i++) {
        add_record(qn, wisdom_of(qn), w->number * EACH + i);
        add_record(qn, wisdom_of(qn), 5000);
        bad |= wisdom_save(qn) != QN_OK;
    }
    if (bad) printf("%s\n", qn_error(qn));
    qn_close(qn);
    return bad;
}

static int records_in(const char *path, int from, int to) {
    qn_ctx *qn = open_cpu_with(path);
    wisdom *w = wisdom_of(qn);
    int n = 0;
    for (int i = from; i < to; i++) n += has_record(w, i);
    if (*cache_log) FAIL("%s", cache_log);
    qn_close(qn);
    return n;
}

static void writers_at_once_lose_nothing(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    file_path(path, folder);
    writer w[WRITERS];
    pid_t pid[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (writer){path, i};
        pid[i] = start_child(write_records, &w[i]);
    }
    for (int i = 0; i < WRITERS; i++) CHECK_INT(end_child(pid[i]), 0);
    CHECK_INT(records_in(path, 0, WRITERS * EACH), WRITERS * EACH);
    CHECK_INT(records_in(path, 5000, 5001), 1);
    CHECK_INT(each_file(folder, NULL, NULL), 2); /* it and its lock */
    remove_folder(folder);
}

static int write_for_ever(void *arg) {
    qn_ctx *qn = open_cpu_with(arg);
    if (!qn) return 2;
    for (int i = 0;; i++) {
        add_record(qn, wisdom_of(qn), 100 + i % 400);
        wisdom_save(qn);
    }
}

/* What was there before stays, what is there is whole, and nobody waits for the dead. */
static void killed_writers_lose_nothing(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    file_path(path, folder);
    writer first = {path, 0};
    CHECK_INT(in_child(write_records, &first), 0);
    uint64_t seed = 5;
    for (int trial = 0; trial < 60; trial++) {
        pid_t pid = start_child(write_for_ever, path);
        struct timespec t = {0, 1000000 + test_below(&seed, 25000000)};
        nanosleep(&t, NULL);
        kill(pid, SIGKILL);
        CHECK_INT(end_child(pid), -SIGKILL);
        CHECK_INT(records_in(path, 0, EACH), EACH);
    }
    first.number = 1;
    CHECK_INT(in_child(write_records, &first), 0);
    CHECK_INT(records_in(path, 0, 2 * EACH), 2 * EACH);
    CHECK_INT(each_file(folder, NULL, NULL), 2);
    remove_folder(folder);
}

static void broken_wisdom_is_replaced_and_other_files_are_not(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    file_path(path, folder);
    writer w = {path, 0};
    file_make(path, "my diary\n", 9);
    CHECK_INT(in_child(write_records, &w), 1);
    bytes b = file_bytes(path);
    CHECK(b.size == 9 && !memcmp(b.at, "my diary\n", 9));
    free(b.at);
    static const char older[] = "quern wisdom 1\nend 0 1234567812345678\n"; /* loops by names */
    file_make(path, older, sizeof older - 1);
    CHECK_INT(in_child(write_records, &w), 1);
    b = file_bytes(path);
    CHECK(b.size == sizeof older - 1 && !memcmp(b.at, older, b.size));
    free(b.at);
    file_make(path, "quern wisdom 2\nkernel 12", 24);
    CHECK_INT(in_child(write_records, &w), 0);
    CHECK_INT(records_in(path, 0, EACH), EACH);
    remove_folder(folder);
}

static void import_and_export_carry_wisdom(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH], other[2 * FILE_PATH];
    if (!make_folder(folder)) return;
    file_path(path, folder);
    snprintf(other, sizeof other, "%.590s/other", folder);
    qn_ctx *qn = open_cpu_with("on"); /* the tests' cache is off: it is in memory only */
    for (int i = 0; i < 9; i++) add_record(qn, wisdom_of(qn), i);
    CHECK_INT(qn_wisdom_export(qn, other), QN_OK);
    CHECK_INT(qn_wisdom_import(qn, "/nowhere/at/all"), QN_EIO);
    qn_clear_error(qn);
    qn_close(qn);
    qn = open_cpu_with(path);
    bytes b = file_bytes(other);
    CHECK(file_make(other, b.at, b.size - 1));
    CHECK_INT(qn_wisdom_import(qn, other), QN_EFORMAT);
    CHECK(strstr(qn_error(qn), ", line "));
    qn_clear_error(qn);
    CHECK_INT(wisdom_of(qn)->count, 0);
    CHECK(file_make(other, b.at, b.size));
    CHECK_INT(qn_wisdom_import(qn, other), QN_OK);
    CHECK_INT(wisdom_of(qn)->count, 9);
    qn_close(qn);
    free(b.at);
    CHECK_INT(records_in(path, 0, 9), 9); /* an import is kept */
    remove_folder(folder);
}

/* Each allocation fails once: the error is that, and what there was is there. */
static void memory_that_runs_out_loses_nothing(void) {
    bench b;
    bench_open(&b, 6);
    wisdom w;
    wisdom_open(&w, &b.qn->heap);
    add_record(b.qn, &w, 1000);
    bool done = false;
    for (uint64_t n = 1; n < 200 && !done; n++) {
        guard g;
        guard_open(&b.qn->heap, &g);
        if (!setjmp(g.at)) {
            b.qn->heap.fail_at = b.qn->heap.requests + n;
            done = wisdom_parse(b.qn, "x", b.text.s, b.text.len, &w);
        }
        guard_close(&b.qn->heap, &g);
        b.qn->heap.fail_at = 0;
        if (!done) CHECK_INT(qn_error_code(b.qn), QN_ENOMEM);
        if (!done) CHECK_INT(w.count, 1);
        CHECK(has_record(&w, 1000));
        qn_clear_error(b.qn);
    }
    CHECK(done);
    CHECK_INT(w.count, 7);
    wisdom_free(&w);
    bench_close(&b);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(text_reads_back_as_it_was_written);
    RUN(every_truncation_is_refused);
    RUN(every_changed_bit_is_refused_in_its_record);
    RUN(lines_that_go_or_come_are_refused);
    RUN(merging_does_not_depend_on_order);
    RUN(a_family_is_a_text_without_its_numbers);
    RUN(writers_at_once_lose_nothing);
    RUN(killed_writers_lose_nothing);
    RUN(broken_wisdom_is_replaced_and_other_files_are_not);
    RUN(import_and_export_carry_wisdom);
    RUN(memory_that_runs_out_loses_nothing);
    return test_end();
}
