/* test_machine.c - the machine record: its text, its families, what a file may say, and that any
 * family's schedules are legal and right here. */
#include "machine/machine.h"

#include "quern_tune.h"
#include "random_kernel.h"
#include "run/run.h"
#include "tune/tune.h"

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

static void reads_back(const char *family) {
    char why[512];
    qn_ctx *a = open_with(family, why), *b = NULL;
    char *text = a ? strdup(qn_machine(a)) : NULL;
    CHECK(text && text[0] == '#' && strchr(text, '\n'));
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

/* Of any family: so each value of each row is one that the field may have. */
static void a_printed_record_reads_back(void) {
    const char *name;
    char why[512];
    for (int i = 0; machine_family(i, &name, NULL); i++) reads_back(name);
    qn_ctx *qn = open_with("apple-m", why);
    const char *text = qn ? qn_machine(qn) : "";
    CHECK(strstr(text, "\nl1 131072 ") && strstr(text, "\nline 128 "));
    qn_close(qn);
}

/* By hand, of usual caches and of odd ones. */
static void thresholds_follow_from_fields(void) {
    machine m = machine_generic();
    CHECK_INT(machine_far(&m), 2048);   /* half a page of 4 KiB */
    CHECK_INT(machine_clash(&m), 1024); /* 32 KiB in 8 ways: lines 4 KiB apart collide */
    m.l1 = 48 << 10, m.l1_ways = 12;
    CHECK_INT(machine_clash(&m), 1024);
    m.page = 16384;
    CHECK_INT(machine_far(&m), 8192);
    m.l3 = 60 << 20, m.l3_part = 32 << 20;
    CHECK_INT(machine_evicting(&m), 30 << 20);
    m.l3 = 256 << 20;
    CHECK_INT(machine_evicting(&m), 32 << 20);
    m.l2 = 1 << 20, m.l1_usable = 50;
    CHECK_INT(machine_shared(&m), 1 << 19); /* half of it */
    CHECK_INT(machine_first(&m), 24 << 10); /* of 48 KiB */
    m.l1 = 0, m.l2 = 0;                     /* unknown ones: the usual size, and no share */
    CHECK_INT(machine_l1(&m), 32 << 10);
    CHECK_INT(machine_l2(&m), 256 << 10);
    CHECK(!machine_shared(&m) && !machine_first(&m));
    m.vector_bytes = 64;
    CHECK_INT(machine_work(&m, 2048), 1 << 17);
    m = (machine){.l1 = 0};
    machine_complete(&m); /* an unknown cache stays so */
    CHECK(!m.l1 && m.line == 64 && m.fork_join_ns > 0);
}

static void some_fields_leave_the_others(void) {
    char why[512];
    const char *path =
        record_file("# a comment\n\n  page_parallel_read_gain 2 # here, too\nl2 1048576");
    qn_ctx *qn = open_with(path, why);
    CHECK(qn != NULL);
    if (qn) CHECK_INT(qn->run->limits.page_parallel_read_gain, 2);
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
        CHECK(m.l2_rate && m.l3_rate && m.memory_from && m.page_parallel_read_gain &&
              m.page_parallel_gain);
    }
    CHECK(n >= 7);
    CHECK(machine_here().page_parallel_read_gain >= 1);
}

/* ---- what was measured ----------------------------------------------------------------------- */

static void every_field_is_in_the_hash(void) {
    machine_field f;
    machine m = machine_generic();
    uint64_t h = machine_hash(&m);
    for (int i = 0; machine_field_at(i, &f); i++) {
        ++*machine_value(&m, &f);
        if (machine_hash(&m) == h) FAIL("%s is not in the hash", f.name);
        --*machine_value(&m, &f);
    }
    CHECK(machine_hash(&m) == h);
}

/* docs/machine.md says who reads each field. */
static void every_field_has_a_reader_in_the_page(void) {
    static char page[1 << 16];
    machine_field f;
    FILE *in = fopen("docs/machine.md", "r");
    CHECK(in != NULL);
    if (!in) return;
    page[fread(page, 1, sizeof page - 1, in)] = 0;
    fclose(in);
    const char *table = strstr(page, "## Who reads what");
    CHECK(table != NULL);
    for (int i = 0; table && machine_field_at(i, &f); i++) {
        char name[80];
        snprintf(name, sizeof name, "`%s`", f.name);
        const char *at = strstr(table, name), *end = strstr(table, "\n## ");
        if (!at || !end || at > end) FAIL("%s has no reader in docs/machine.md", f.name);
        CHECK(*f.doc);
    }
}

static void only_rates_are_taken_from_what_was_measured(void) {
    machine m = machine_generic(), was = m;
    CHECK(!machine_take_rates("", &m) && !machine_take_rates("# page_parallel_read_gain 3\n", &m));
    CHECK(!machine_take_rates(
        "l1 4096\nsum_parts 2\npage_parallel_read_gain 9999\npage_parallel_read_gain\n", &m));
    CHECK(machine_hash(&m) == machine_hash(&was));
    CHECK(machine_take_rates("rubbish\nl1 4096 # no\npage_parallel_read_gain 3 # yes\nfma_rate 1",
                             &m));
    CHECK(m.l1 == was.l1 && m.page_parallel_read_gain == 3 && m.fma_rate == 1);
}

/* A context of the CPU with a cache's folder. */
static qn_ctx *open_cpu(const char *folder, const char *record) {
    setenv("QN_CACHE", folder, 1);
    if (record) setenv("QN_MACHINE", record, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    unsetenv("QN_MACHINE");
    setenv("QN_CACHE", "off", 1);
    return qn;
}

static void keep_measured(qn_ctx *qn, const char *text) {
    str s, processor;
    str_open(&s, &qn->heap);
    str_open(&processor, &qn->heap);
    str_add(&s, text);
    qn->run->dev->describe(qn->run->dev_state, &processor);
    CHECK_INT(machine_keep(qn, processor.s, processor.len, &s), QN_OK);
    str_free(&s);
    str_free(&processor);
}

static void what_was_measured_wins_over_the_family(void) {
    char folder[] = "/tmp/quern-measured-XXXXXX", command[80];
    CHECK(mkdtemp(folder) != NULL);
    qn_ctx *qn = open_cpu(folder, NULL);
    int64_t l1 = qn->run->limits.l1, ways = qn->run->limits.l1_ways;
    CHECK(!qn->run->limits.source);
    keep_measured(qn, "l1 4096\nl1_ways 1\nfork_join_ns 12345\npage_parallel_read_gain 7\n");
    qn_close(qn);
    qn = open_cpu(folder, NULL);
    CHECK_INT(qn->run->limits.fork_join_ns, 12345);
    CHECK_INT(qn->run->limits.page_parallel_read_gain, 7);
    CHECK(qn->run->limits.l1 == l1 && qn->run->limits.l1_ways == ways);
    CHECK(strstr(qn_machine(qn), ", measured\n"));
    qn_close(qn);
    qn = open_cpu(folder, "zen4"); /* whoever names a machine gets that one */
    CHECK_INT(qn->run->limits.page_parallel_read_gain, 104);
    keep_measured(qn, "no record at all");
    qn_close(qn);
    qn = open_cpu(folder, NULL);
    CHECK(!qn->run->limits.source && qn->run->limits.fork_join_ns != 12345);
    qn_close(qn);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
}

/* Each rate that is probed has a line: its value, or why it stays. */
static void measuring_says_all_that_it_looked_at(void) {
    static const char *const probed[] = {"nontemporal_gain",   "page_parallel_read_gain",
                                         "page_parallel_gain", "l2_rate",
                                         "prefetch_trips",     "memory_threads",
                                         "clock_mhz",          "l1_latency",
                                         "l2_latency",         "l3_latency",
                                         "memory_latency"};
    char folder[] = "/tmp/quern-measured-XXXXXX", command[80], line[40];
    CHECK(mkdtemp(folder) != NULL);
    qn_ctx *qn = open_cpu(folder, NULL);
    machine m = qn->run->limits, was = m;
    char *text = strdup(qn_machine_measure(qn) ? qn->run->text.s : "");
    CHECK_INT(qn_error_code(qn), 0);
    for (size_t i = 0; i < COUNT_OF(probed); i++) {
        snprintf(line, sizeof line, "\n%s ", probed[i]);
        char *value = strstr(text, line);
        snprintf(line, sizeof line, "\n# %s ", probed[i]);
        if (!value && !strstr(text, line)) FAIL("%s: nothing in %s", probed[i], text);
    }
    machine_take_rates(text, &m);
    for (int i = 0; machine_field_at(i, &(machine_field){0}); i++) {
        machine_field f;
        machine_field_at(i, &f);
        CHECK(f.kind == MACHINE_RATE || *machine_value(&m, &f) == *machine_value(&was, &f));
    }
    free(text);
    qn_close(qn);
    qn = qn_open(&QN_OPTIONS(.device = "null"));
    CHECK(!qn_machine_measure(qn) && strstr(qn_error(qn), "device null is not measured"));
    qn_close(qn);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
}

/* Luck that was measured once does not stay: whatever was kept, the family's rates stand first. */
static void measuring_begins_with_the_familys_rates(void) {
    char folder[] = "/tmp/quern-measured-XXXXXX", command[80];
    CHECK(mkdtemp(folder) != NULL);
    qn_ctx *qn = open_cpu(folder, NULL);
    int64_t l2_rate = qn->run->limits.l2_rate;
    keep_measured(qn, "l2_rate 1000\nprefetch_trips 63\n");
    qn_close(qn);
    qn = open_cpu(folder, NULL);
    CHECK_INT(qn->run->limits.l2_rate, 1000);
    const char *text = qn_machine_measure(qn);
    CHECK(text && !strstr(text, "l2_rate 1000") && !strstr(text, "prefetch_trips 63"));
    CHECK(l2_rate != 1000);
    qn_close(qn);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
}

/* What lies in no cache takes longer than what lies in the first. */
static void latencies_grow_with_the_distance(void) {
    enum { ROUNDS = 9, LINE = 64 };
    double near[ROUNDS], far[ROUNDS], least[2] = {1, 1};
    size_t small = 8 << 10, large = 64 << 20;
    char *memory = aligned_alloc(4096, large);
    CHECK(memory != NULL);
    if (!memory) return;
    tune_load_seconds(memory, small, LINE, ROUNDS, near);
    tune_load_seconds(memory, large, LINE, ROUNDS, far);
    for (int i = 0; i < ROUNDS; i++) {
        if (near[i] < least[0]) least[0] = near[i];
        if (far[i] < least[1]) least[1] = far[i];
    }
    CHECK(least[0] > 0 && least[1] > 2 * least[0]);
    free(memory);
}

/* No processor makes so many cycles a second; one that takes several steps of the chain in one
 * cycle seems to. */
static void the_clock_is_that_of_a_processor(void) {
    double rate = tune_clock_rate();
    if (rate < 1e6 || rate > 10e9) FAIL("%.0f cycles a second", rate);
}

/* One chain: whoever follows it is at every line once before he is back. */
static void a_chain_of_loads_visits_every_line(void) {
    enum { LINES = 1000, LINE = 32 };
    static _Alignas(64) char memory[LINES * LINE];
    static bool seen[LINES];
    double seconds;
    tune_load_seconds(memory, sizeof memory, LINE, 1, &seconds);
    void **at = (void **)(void *)memory;
    for (int i = 0; i < LINES; i++) {
        size_t line = (size_t)((char *)at - memory) / LINE;
        if (seen[line]) FAIL("line %d again after %d", (int)line, i);
        seen[line] = true;
        at = *at;
    }
    CHECK((char *)at == memory);
}

/* By its model, else, where a virtual machine shows a model of its own, by its matrix tiles. */
static void a_processor_finds_its_family(void) {
    static const struct {
        const char *family;
        processor_id is;
    } known[] = {
        {"skylake-x", {"GenuineIntel", 6, 0x55, false}},
        {"sapphire-rapids", {"GenuineIntel", 6, 0x8f, true}},
        {"granite-rapids", {"GenuineIntel", 6, 0xad, true}},
        {"granite-rapids", {"GenuineIntel", 6, 0xa7, true}},
        {"generic", {"GenuineIntel", 6, 0xa7, false}},
        {"zen3", {"AuthenticAMD", 25, 0x01, false}},
        {"zen4", {"AuthenticAMD", 25, 0x11, false}},
        {"generic", {"AuthenticAMD", 6, 0xa7, true}},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        machine m = machine_of_processor(&known[i].is);
        if (strcmp(m.name, known[i].family) != 0)
            FAIL("%s, family %d, model %lx: %s, not %s", known[i].is.vendor, known[i].is.family,
                 (unsigned long)known[i].is.model, m.name, known[i].family);
    }
}

/* The system's number for the first core; sysconf has the sum of all of them on some processors. */
static void the_last_cache_is_one_cores(void) {
    char level[32] = "";
    long long kib = 0;
    for (int i = 0; i < 8 && atoi(level) != 3; i++) {
        char path[80];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        FILE *f = fopen(path, "r");
        if (!f || !fgets(level, sizeof level, f)) level[0] = 0;
        if (f) fclose(f);
        if (atoi(level) != 3) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        f = fopen(path, "r");
        if (!f || fscanf(f, "%lldK", &kib) != 1) kib = 0;
        if (f) fclose(f);
    }
    qn_ctx *qn = open_cpu("off", NULL);
    if (kib && qn)
        CHECK_INT(qn->run->limits.l3, kib << 10);
    else
        SKIP("the system says nothing of it");
    qn_close(qn);
}

/* What a small file of the system says of cache number i; 0: nothing. */
static long long told(int i, const char *what) {
    char path[96];
    long long n = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, what);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%lld", &n) != 1) n = 0;
    if (f) fclose(f);
    return n;
}

/* Ways and lines by the system's files, pages by sysconf, and at least one thread has a cache. */
static void caches_are_as_the_system_says(void) {
    qn_ctx *qn = open_cpu("off", NULL);
    const machine *m = &qn->run->limits;
    const int64_t ways[] = {m->l1_ways, m->l2_ways, m->l3_ways};
    const int64_t sharers[] = {m->l1_sharers, m->l2_sharers, m->l3_sharers};
    int told_of = 0;
    CHECK_INT(m->page, sysconf(_SC_PAGESIZE));
    for (int i = 0; i < 8; i++) {
        long long level = told(i, "level"), has = told(i, "ways_of_associativity");
        char type[32] = "";
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        FILE *f = fopen(path, "r");
        if (f && !fgets(type, sizeof type, f)) type[0] = 0;
        if (f) fclose(f);
        if (level < 1 || level > 3 || has < 1 || type[0] == 'I') continue;
        CHECK_INT(ways[level - 1], has);
        CHECK(sharers[level - 1] >= 1);
        CHECK_INT(m->line, told(i, "coherency_line_size"));
        told_of++;
    }
    qn_close(qn);
    if (!told_of) SKIP("the system says nothing of its caches");
}

static void a_field_is_set_within_its_range(void) {
    machine m = machine_generic(), was = m;
    CHECK(machine_set(&m, "line", 128) && m.line == 128);
    CHECK(!machine_set(&m, "line", 8) && !machine_set(&m, "line", -1) && m.line == 128);
    CHECK(!machine_set(&m, "lines", 64) && !machine_set(&m, "lin", 64));
    CHECK(machine_set(&m, "line", was.line) && machine_hash(&m) == machine_hash(&was));
}

/* ---- schedules ------------------------------------------------------------------------------- */

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
    RUN(thresholds_follow_from_fields);
    RUN(some_fields_leave_the_others);
    RUN(what_is_wrong_is_told_by_its_line);
    RUN(every_family_is_whole);
    RUN(every_field_is_in_the_hash);
    RUN(every_field_has_a_reader_in_the_page);
    RUN(only_rates_are_taken_from_what_was_measured);
    RUN(what_was_measured_wins_over_the_family);
    RUN(measuring_says_all_that_it_looked_at);
    RUN(measuring_begins_with_the_familys_rates);
    RUN(latencies_grow_with_the_distance);
    RUN(the_clock_is_that_of_a_processor);
    RUN(a_processor_finds_its_family);
    RUN(a_chain_of_loads_visits_every_line);
    RUN(the_last_cache_is_one_cores);
    RUN(caches_are_as_the_system_says);
    RUN(a_field_is_set_within_its_range);
    RUN(any_familys_schedules_are_legal_and_right);
    return test_end();
}
