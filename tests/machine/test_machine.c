/* test_machine.c - the machine record: its text, its families, what a file may say, and that any
 * family's schedules are legal and right here. */
#include "machine/machine.h"

#include "quern_tune.h"
#include "random_kernel.h"
#include "run/run.h"

#include <unistd.h>

/* A context of the null device with that machine; why it does not open. */
static qn_ctx *open_with(const char *record, char why[512]) {
    setenv("QN_MACHINE", record, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .error = why, .error_size = 512));
    unsetenv("QN_MACHINE");
    return qn;
}

/* A record written to a file; its path. */
static const char *record_file(const char *text) {
    static char path[] = "/tmp/quern-machine-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int file = mkstemp(path);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) FAIL("no file");
    if (file >= 0) close(file);
    return path;
}

static void a_printed_record_reads_back(void) {
    char why[512];
    qn_ctx *a = open_with("apple-m", why), *b = NULL;
    char *text = a ? strdup(qn_machine(a)) : NULL;
    CHECK(text && strstr(text, "\nl1 131072 ") && strstr(text, "\nline 128 "));
    if (text) {
        const char *path = record_file(text);
        b = open_with(path, why);
        CHECK(b != NULL);
        /* but for the first line, which says where it is from */
        if (b) CHECK(!strcmp(strchr(qn_machine(b), '\n'), strchr(text, '\n')));
        unlink(path);
    }
    free(text);
    qn_close(a);
    qn_close(b);
}

static void some_fields_leave_the_others(void) {
    char why[512];
    const char *path = record_file("# a comment\n\n  stream_pages 2 # here, too\nl2 1048576");
    qn_ctx *qn = open_with(path, why);
    CHECK(qn != NULL);
    if (qn) CHECK_INT(qn->run->limits.stream_pages, 2);
    if (qn) CHECK_INT(qn->run->limits.line, machine_generic().line);
    unlink(path);
    qn_close(qn);
}

static void what_is_wrong_is_told_by_its_line(void) {
    static const struct {
        const char *text, *says;
    } row[] = {{"line 64\nlines 64\n", "line 2: there is no field \"lines\""},
               {"line 8\n", "line 1: line is a number from 16 to 1024"},
               {"line 64 bytes\n", "line 1: line is a number"},
               {"\nline\n", "line 2: line is a number"},
               {"page 99999999999999999999\n", "line 1: page is a number"}};
    char why[512];
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        const char *path = record_file(row[i].text);
        qn_ctx *qn = open_with(path, why);
        if (qn || !strstr(why, row[i].says)) FAIL("%s: %s", row[i].text, why);
        unlink(path);
        qn_close(qn);
    }
    CHECK(!open_with("zen99", why) && strstr(why, "no family \"zen99\""));
    CHECK(!open_with("./nowhere", why) && strstr(why, "cannot be read"));
}

/* The processor here has a family's row or the generic one, never less. */
static void every_family_is_whole(void) {
    const char *name;
    int n = 0;
    for (; machine_family(n, &name, NULL); n++) {
        machine m = machine_of_family(n);
        CHECK(!strcmp(m.name, name));
        CHECK(m.vector_bytes && m.registers && m.l1 && m.l2 && m.line && m.page);
        CHECK(m.l2_rate && m.l3_rate && m.memory_from && m.stream_pages);
    }
    CHECK(n >= 7);
    CHECK(machine_here().stream_pages >= 1);
}

/* A random kernel under a family's default schedule keeps its results; is there one? */
static bool right_under(int family, uint64_t seed) {
    machine m = machine_of_family(family);
    m.threads = 2;
    subject s;
    make(&s, 1000 * (uint64_t)family + seed);
    kernel *k = ir_clone(s.k);
    str lines, what;
    str_open_in(&lines, &k->arena);
    str_open_in(&what, &k->arena);
    void *a[8], *b[8];
    int64_t count[8];
    char error[200] = "";
    schedule_default(k, &m, &lines);
    if (lines.len && transform_lines(k, lines.s, NULL) < 0) transform_replay(k, lines.s, NULL);
    bool fine =
        run(&s, s.k, false, seed, a, count, error) && run(&s, k, true, seed, b, count, error);
    if (!fine || !equal(&s, a, b, count, &what))
        FAIL("family %d, seed %d: %s%s", family, (int)seed, error, what.s ? what.s : "");
    for (int i = 0; i < s.args; i++) free(a[i]), free(b[i]);
    bool scheduled = lines.len > 0;
    ir_close(k);
    ir_close(s.k);
    return scheduled;
}

/* Random kernels under each family's default schedules keep their results. */
static void any_familys_schedules_are_legal_and_right(void) {
    ctx = qn_open(&QN_OPTIONS(.device = "null"));
    int scheduled = 0;
    for (int family = 0; machine_family(family, NULL, NULL); family++)
        for (uint64_t seed = 1; seed <= 40; seed++) scheduled += right_under(family, seed);
    CHECK(scheduled > 100);
    qn_close(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_printed_record_reads_back);
    RUN(some_fields_leave_the_others);
    RUN(what_is_wrong_is_told_by_its_line);
    RUN(every_family_is_whole);
    RUN(any_familys_schedules_are_legal_and_right);
    return test_end();
}
