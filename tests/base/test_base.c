/* test_base.c - arenas, texts, errors, knobs and log of the base room. What a text should hold
 * comes from a naive model beside it; counters come from an allocator that keeps its own books. */
#include "books.h"

/* ---- arena ----------------------------------------------------------------------------------- */

typedef struct piece {
    unsigned char *p;
    size_t size;
} piece;

static void arena_pieces_are_apart_aligned_and_stay(void) {
    enum { N = 3000 };
    static piece pieces[N];
    uint64_t seed = 11;
    bench b;
    bench_open(&b);
    arena a;
    arena_open(&a, &b.qn.heap);
    for (int i = 0; i < N; i++) {
        size_t size = (size_t)test_below(&seed, test_below(&seed, 50) ? 200 : 300000);
        pieces[i] = (piece){arena_alloc(&a, size), size};
        CHECK_INT((uintptr_t)pieces[i].p % 16, 0);
        memset(pieces[i].p, i & 255, size);
    }
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < pieces[i].size; j++)
            if (pieces[i].p[j] != (i & 255)) {
                FAIL("piece %d was overwritten at %zu", i, j);
                break;
            }
    CHECK_INT(a.total, b.qn.heap.bytes);
    arena_free(&a);
    CHECK_INT(a.total, 0);
    bench_check(&b);
    memset(arena_alloc(&a, 40), 1, 40); /* usable again */
    arena_free(&a);
    bench_check(&b);
}

static void arena_takes_few_blocks(void) {
    bench b;
    bench_open(&b);
    arena a;
    arena_open(&a, &b.qn.heap);
    arena_free(&a); /* an empty one took nothing */
    CHECK_INT(b.qn.heap.requests, 0);
    for (int i = 0; i < 1 << 14; i++) arena_alloc(&a, 1008);
    /* 16 MiB: blocks of 4 KiB to 1 MiB, then 1 MiB each; what was asked and little more. */
    CHECK(b.books.blocks <= 8 + 16 + 1);
    CHECK(b.books.bytes < (16 << 20) + (2 << 20));
    int64_t before = b.books.blocks;
    void *large = arena_alloc(&a, 5 << 20);
    CHECK_INT(b.books.blocks, before + 1);
    memset(large, 1, 5 << 20);
    void *small = arena_alloc(&a, 16); /* the block in use is still used */
    CHECK(small != NULL);
    CHECK_INT(b.books.blocks, before + 1);
    arena_free(&a);
    bench_check(&b);
}

/* What it says before is what the heap gives then. */
/* What was there before fits again, whatever blocks it took. */
static void an_arena_that_is_reset_asks_for_no_more(void) {
    bench b;
    bench_open(&b);
    arena a;
    arena_open(&a, &b.qn.heap);
    arena_reset(&a);
    CHECK_INT(b.qn.heap.requests, 0);
    uint64_t before = 0;
    for (int round = 0; round < 5; round++) {
        arena_reset(&a);
        if (round == 2) before = b.qn.heap.requests;
        for (int i = 0; i < 300; i++) {
            size_t size = i % 50 ? 24 : 9000;
            memset(arena_alloc(&a, size), round, size);
        }
    }
    CHECK_INT(b.qn.heap.requests, before);
    CHECK_INT(b.books.blocks, 1);
    arena_free(&a);
    bench_check(&b);
}

static void arena_knows_what_it_needs(void) {
    bench b;
    bench_open(&b);
    arena a;
    uint64_t seed = 5;
    arena_open(&a, &b.qn.heap);
    for (int i = 0; i < 3000; i++) {
        size_t size = (size_t)test_below(&seed, i % 100 ? 2000 : 400000), total = a.total;
        size_t needs = arena_needs(&a, size);
        arena_alloc(&a, size);
        CHECK_INT(a.total, total + needs);
    }
    CHECK_INT(b.qn.heap.bytes, a.total);
    arena_free(&a);
    bench_check(&b);
}

static void arena_makes_text_arrays_and_zeroes(void) {
    bench b;
    bench_open(&b);
    arena a;
    arena_open(&a, &b.qn.heap);
    CHECK_STR(arena_printf(&a, "%s has %d of %.2f", "x", 12, 0.5), "x has 12 of 0.50");
    CHECK_STR(arena_printf(&a, "%s", ""), "");
    char *wide = arena_printf(&a, "%*d", 5000, 7);
    CHECK_INT(strlen(wide), 5000);
    CHECK_INT(wide[4999], '7');
    uint32_t cap = 0, *data = NULL;
    for (uint32_t i = 0; i < 5000; i++) {
        data = arena_grow(&a, data, &cap, i + 1, sizeof *data);
        data[i] = i * 3;
    }
    for (uint32_t i = 0; i < 5000; i++) CHECK_INT(data[i], i * 3);
    unsigned char *clear = arena_zeroed(&a, 999);
    int set = 0;
    for (int i = 0; i < 999; i++) set += clear[i] != 0;
    CHECK_INT(set, 0);
    arena_free(&a);
    bench_check(&b);
}

static void arena_refuses_impossible_sizes(void) {
    bench b;
    bench_open(&b);
    arena a;
    arena_open(&a, &b.qn.heap);
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 20, (size_t)1 << 63};
    volatile int raised = 0;
    for (volatile int i = 0; i < 3; i++) {
        guard g;
        guard_open(&b.qn.heap, &g);
        if (setjmp(g.at) == 0)
            arena_alloc(&a, sizes[i]);
        else
            raised++;
        guard_close(&b.qn.heap, &g);
    }
    CHECK_INT(raised, 3);
    arena_free(&a);
    bench_check(&b);
}

/* ---- str ------------------------------------------------------------------------------------- */

static void str_agrees_with_a_plain_buffer(void) {
    static char expected[400000];
    size_t length = 0;
    uint64_t seed = 21;
    bench b;
    bench_open(&b);
    str t;
    str_open(&t, &b.qn.heap);
    str_add(&t, "");
    CHECK_STR(t.s, "");
    for (int i = 0; i < 5000; i++) {
        char piece_[64];
        int n = (int)test_below(&seed, 60);
        for (int j = 0; j < n; j++) piece_[j] = (char)('a' + test_below(&seed, 26));
        piece_[n] = 0;
        size_t before = length;
        switch (i % 3) {
        case 0:
            str_add(&t, piece_);
            length += (size_t)sprintf(expected + length, "%s", piece_);
            break;
        case 1:
            str_addn(&t, piece_, (size_t)n / 2);
            length += (size_t)sprintf(expected + length, "%.*s", n / 2, piece_);
            break;
        default:
            str_addf(&t, "%d<%s>", i, piece_);
            length += (size_t)sprintf(expected + length, "%d<%s>", i, piece_);
        }
        if (t.len != length || strcmp(t.s + before, expected + before) != 0) FAIL("step %d", i);
        CHECK(t.len < t.cap);
    }
    CHECK_STR(t.s, expected);
    str_free(&t);
    CHECK(t.s == NULL);
    str_addf(&t, "%s", ""); /* first addition formatted and empty */
    CHECK_STR(t.s, "");
    str_addf(&t, "%*d", 3000, 1);
    CHECK_INT(t.len, 3000);
    str_free(&t);
    bench_check(&b);
}

/* Formatted additions of every length to every fill, so that each just fits or just does not. */
static void str_formats_at_every_fill(void) {
    bench b;
    bench_open(&b);
    for (int fill = 0; fill < 20; fill++)
        for (int n = 1; n < 40; n++) {
            str t;
            str_open(&t, &b.qn.heap);
            for (int i = 0; i < fill; i++) str_addn(&t, "x", 1);
            str_addf(&t, "%0*d", n, 7);
            CHECK_INT(t.len, fill + n);
            CHECK_INT(strlen(t.s), fill + n);
            CHECK_INT(t.s[t.len - 1], '7');
            str_free(&t);
        }
    bench_check(&b);
}

static void str_raises_and_keeps_its_text(void) {
    bench b;
    bench_open(&b);
    heap *h = &b.qn.heap;
    static str t;
    str_open(&t, h);
    str_add(&t, "abc");
    volatile int raised = 0;
    for (volatile int k = 0; k < 3; k++) {
        guard g;
        guard_open(h, &g);
        if (setjmp(g.at) == 0) {
            if (k < 2) h->fail_at = h->requests + 1;
            if (k == 0) str_addf(&t, "%100d", 1);
            if (k == 1) str_add(&t, "a text that is longer than the first room");
            if (k == 2) str_addn(&t, "x", (size_t)UINT32_MAX - 3);
        } else {
            raised++;
        }
        guard_close(h, &g);
        CHECK_STR(t.s, "abc");
        CHECK_INT(t.len, 3);
    }
    CHECK_INT(raised, 3);
    str_free(&t);
    bench_check(&b);
}

/* ---- every request failing in turn ----------------------------------------------------------- */

typedef struct work {
    arena a;
    idset s;
    str t;
    uint32_t *data;
    uint32_t cap;
} work;

static void work_all(bench *b, work *w) {
    for (uint32_t i = 1; i <= 500; i++) {
        memset(arena_alloc(&w->a, i * 3), 1, i * 3);
        idset_add(&w->s, hash_mix(i, 0), i);
        str_addf(&w->t, "%u,", i);
        w->data = heap_grow(&b->qn.heap, w->data, &w->cap, i, sizeof *w->data);
        w->data[i - 1] = i;
        if (i % 100 == 0) arena_zeroed(&w->a, 100000);
        if (i % 50 == 0) arena_printf(&w->a, "%u", i);
    }
}

static bool work_guarded(bench *b) {
    heap *h = &b->qn.heap;
    work w = {0};
    arena_open(&w.a, h);
    idset_open(&w.s, h);
    str_open(&w.t, h);
    work *volatile at = &w;
    volatile bool done = false;
    guard g;
    guard_open(h, &g);
    if (setjmp(g.at) == 0) {
        work_all(b, at);
        done = true;
    }
    guard_close(h, &g);
    arena_free(&at->a);
    idset_free(&at->s);
    str_free(&at->t);
    heap_free(h, at->data, at->cap * sizeof *at->data);
    return done;
}

static void every_request_may_fail(void) {
    int failures = 0;
    for (uint64_t k = 1;; k++) {
        bench b;
        bench_open(&b);
        b.qn.heap.fail_at = k;
        bool done = work_guarded(&b);
        bench_check(&b);
        CHECK_INT(qn_error_code(&b.qn), done ? QN_OK : QN_ENOMEM);
        CHECK_INT(done, k > b.qn.heap.requests);
        if (done) break;
        failures++;
    }
    CHECK(failures > 30);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void the_first_error_is_kept(void) {
    qn_ctx qn = {0};
    CHECK_STR(qn_error(&qn), "");
    CHECK_INT(qn_error_code(&qn), QN_OK);
    CHECK_INT(fail(&qn, QN_ESHAPE, "add: %d and %d", 3, 4), QN_ESHAPE);
    CHECK(fail_null(&qn, QN_EDTYPE, "later") == NULL);
    CHECK_INT(fail(&qn, QN_EIO, "later still"), QN_ESHAPE); /* code and text agree */
    CHECK_STR(qn_error(&qn), "add: 3 and 4");
    CHECK_INT(qn_error_code(&qn), QN_ESHAPE);
    qn_clear_error(&qn);
    CHECK_STR(qn_error(&qn), "");
    CHECK_INT(qn_error_code(&qn), QN_OK);
    CHECK(fail_null(&qn, QN_EDTYPE, "a fresh one") == NULL);
    CHECK_STR(qn_error(&qn), "a fresh one");
}

static void errors_name_the_users_place(void) {
    qn_ctx qn = {0};
    qn_at(&qn, "schedule/schedule.c", 42);
    fail(&qn, QN_EARG, "no %s", "such thing");
    CHECK_STR(qn_error(&qn), "schedule/schedule.c:42: no such thing");
    qn_clear_error(&qn);
    fail(&qn, QN_EARG, "the place stays");
    CHECK_STR(qn_error(&qn), "schedule/schedule.c:42: the place stays");
    qn_clear_error(&qn);
    qn_at(&qn, NULL, 0);
    fail(&qn, QN_EARG, "no place");
    CHECK_STR(qn_error(&qn), "no place");
}

static void long_errors_are_cut_not_overflown(void) {
    static char wide[5000];
    struct {
        qn_ctx qn;
        char after[64];
    } held;
    for (size_t n = 1000; n < 1100; n++) {
        memset(&held, 0, sizeof held);
        memset(held.after, 0x5a, sizeof held.after);
        memset(wide, 'w', n);
        wide[n] = 0;
        fail(&held.qn, QN_EARG, "%s", wide);
        size_t got = strlen(held.qn.error);
        CHECK_INT(got, n < sizeof held.qn.error ? n : sizeof held.qn.error - 1);
        CHECK_INT(strncmp(held.qn.error, wide, got - 3), 0);
        CHECK_STR(held.qn.error + got - 3, n < sizeof held.qn.error ? "www" : "...");
        CHECK(held.qn.at_file == NULL);
    }
    /* two-byte characters stay whole at either parity */
    for (int shift = 0; shift < 2; shift++) {
        memset(&held, 0, sizeof held);
        for (int i = 0; i < 2000; i++) memcpy(wide + 2 * i, "\xc3\xa9", 3);
        fail(&held.qn, QN_EARG, "%s%s", shift ? "x" : "", wide);
        size_t got = strlen(held.qn.error);
        CHECK_STR(held.qn.error + got - 3, "...");
        CHECK_INT((unsigned char)held.qn.error[got - 4], 0xa9);
    }
    /* a path longer than the whole record leaves room for the message */
    memset(&held, 0, sizeof held);
    memset(wide, 'p', 3000);
    memcpy(wide + 2994, "/end.c", 7);
    qn_at(&held.qn, wide, 7);
    fail(&held.qn, QN_EARG, "the message");
    CHECK(strstr(held.qn.error, "ppp/end.c:7: the message") != NULL);
    CHECK(strlen(held.qn.error) < 300);
}

static void an_error_may_quote_the_last_one(void) {
    qn_ctx qn = {0};
    fail(&qn, QN_EARG, "inner");
    qn.code = QN_OK;
    fail(&qn, QN_EIO, "outer: %s", qn_error(&qn));
    CHECK_STR(qn_error(&qn), "outer: inner");
}

static void calls_without_a_context_are_harmless(void) {
    CHECK_INT(qn_error_code(NULL), QN_ENULL);
    CHECK(qn_error(NULL)[0] != 0);
    qn_clear_error(NULL);
    qn_at(NULL, "f", 1);
    CHECK_INT(fail(NULL, QN_EIO, "nobody hears"), QN_EIO);
    CHECK(fail_null(NULL, QN_EIO, "nobody hears") == NULL);
}

static void every_code_has_its_text(void) {
    for (int i = 0; i >= QN_EINTERNAL; i--)
        for (int j = 0; j > i; j--)
            CHECK(strcmp(qn_code_text((qn_code)i), qn_code_text((qn_code)j)) != 0);
    CHECK_STR(qn_code_text(QN_ENOMEM), "out of memory");
    CHECK_STR(qn_code_text(QN_OK), "no error");
    const char *unknown = "an unknown code";
    CHECK_STR(qn_code_text((qn_code)1), unknown);
    CHECK_STR(qn_code_text((qn_code)(QN_EINTERNAL - 1)), unknown);
    CHECK_STR(qn_code_text((qn_code)INT32_MIN), unknown);
    CHECK_STR(qn_code_text((qn_code)INT32_MAX), unknown);
}

static void version_is_that_of_the_header(void) {
    char text[64];
    sprintf(text, "%d.%d.%d", QN_VERSION_MAJOR, QN_VERSION_MINOR, QN_VERSION_PATCH);
    CHECK_STR(qn_version(), text);
}

/* ---- knobs ----------------------------------------------------------------------------------- */

static void clear_environment(void) {
#define X(NAME, name, kind, when, def, doc) unsetenv("QN_" #NAME);
#include "base/knobs.h"
#undef X
}

static void knobs_start_as_their_rows_say(void) {
    clear_environment();
    bench b;
    bench_open(&b);
    CHECK_INT(knobs_open(&b.qn), QN_OK);
    CHECK_STR(b.qn.knob[KNOB_DEVICE].text, "cpu");
    CHECK_STR(b.qn.knob[KNOB_DEBUG].text, "");
    CHECK_INT(b.qn.knob[KNOB_THREADS].number, 0);
    CHECK_INT(b.qn.knob[KNOB_FUSE].number, 1);
    CHECK_INT(b.qn.heap.requests, 0);
    knobs_close(&b.qn);
    bench_check(&b);
}

static void knobs_read_the_environment(void) {
    clear_environment();
    bench b;
    bench_open(&b);
    setenv("QN_THREADS", "3", 1);
    setenv("QN_DEVICE", "ref", 1);
    setenv("QN_FUSE", "", 1); /* set to nothing: not set */
    CHECK_INT(knobs_open(&b.qn), QN_OK);
    setenv("QN_DEVICE", "changed", 1);
    CHECK_INT(b.qn.knob[KNOB_THREADS].number, 3);
    CHECK_STR(b.qn.knob[KNOB_DEVICE].text, "ref");
    CHECK_INT(b.qn.knob[KNOB_FUSE].number, 1);
    knobs_close(&b.qn);
    setenv("QN_THREADS", "many", 1);
    CHECK_INT(knobs_open(&b.qn), QN_EARG);
    CHECK(strstr(qn_error(&b.qn), "QN_THREADS") && strstr(qn_error(&b.qn), "\"many\""));
    knobs_close(&b.qn);
    bench_check(&b);
    clear_environment();
}

static void knobs_set_own_their_texts(void) {
    clear_environment();
    bench b;
    bench_open(&b);
    CHECK_INT(knobs_open(&b.qn), QN_OK);
    char value[16] = "gx";
    CHECK_INT(knobs_set(&b.qn, "debug", value), QN_OK);
    strcpy(value, "mm");
    CHECK_STR(b.qn.knob[KNOB_DEBUG].text, "gx");
    CHECK(debug_on(&b.qn, 'g') && debug_on(&b.qn, 'x') && !debug_on(&b.qn, 'm'));
    CHECK(!debug_on(&b.qn, 0));
    CHECK_INT(knobs_set(&b.qn, "debug", b.qn.knob[KNOB_DEBUG].text), QN_OK); /* itself */
    CHECK_STR(b.qn.knob[KNOB_DEBUG].text, "gx");
    CHECK_INT(knobs_set(&b.qn, "debug", ""), QN_OK);
    CHECK(!debug_on(&b.qn, 'g'));
    b.qn.heap.fail_at = b.qn.heap.requests + 1;
    CHECK_INT(knobs_set(&b.qn, "cc", "gcc"), QN_ENOMEM);
    CHECK_STR(b.qn.knob[KNOB_CC].text, "cc");
    knobs_close(&b.qn);
    bench_check(&b);
}

static void knobs_numbers_are_strict(void) {
    clear_environment();
    bench b;
    bench_open(&b);
    CHECK_INT(knobs_open(&b.qn), QN_OK);
    CHECK_INT(knobs_set(&b.qn, "threads", "9223372036854775807"), QN_OK);
    CHECK(b.qn.knob[KNOB_THREADS].number == INT64_MAX);
    CHECK_INT(knobs_set(&b.qn, "threads", "007"), QN_OK);
    static const char *const bad[] = {"",    " 1",  "1 ",  "-1",  "+1",
                                      "0x1", "1e3", "two", "1.0", "9223372036854775808"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char quoted[64];
        sprintf(quoted, "\"%s\"", bad[i]);
        qn_clear_error(&b.qn);
        CHECK_INT(knobs_set(&b.qn, "threads", bad[i]), QN_EARG);
        CHECK(strstr(qn_error(&b.qn), quoted) && strstr(qn_error(&b.qn), "threads"));
        CHECK_INT(b.qn.knob[KNOB_THREADS].number, 7);
    }
    knobs_close(&b.qn);
    bench_check(&b);
}

/* By both ways: what is refused changes nothing, and the error says name, value and choice. */
static void check_switch(bench *b, knob k, const char *environment, const char *name) {
    static const char *const bad[] = {"2",  "-1",  "00",  "01",  "10",
                                      " 1", "1.0", "yes", "off", "true"};
    int64_t other = !b->qn.knob[k].number;
    CHECK_INT(knobs_set(&b->qn, name, other ? "1" : "0"), QN_OK);
    CHECK_INT(b->qn.knob[k].number, other);
    for (size_t i = 0; i <= COUNT_OF(bad); i++) {
        char set[96], opened[96];
        const char *value = i < COUNT_OF(bad) ? bad[i] : ""; /* in the environment: not set */
        sprintf(set, "%s takes 0 or 1, not \"%s\"", name, value);
        sprintf(opened, "%s takes 0 or 1, not \"%s\"", environment, value);
        CHECK_INT(knobs_set(&b->qn, name, value), QN_EARG);
        CHECK_STR(qn_error(&b->qn), set);
        CHECK_INT(b->qn.knob[k].number, other);
        qn_clear_error(&b->qn);
        bench in;
        bench_open(&in);
        setenv(environment, value, 1);
        CHECK_INT(knobs_open(&in.qn), *value ? QN_EARG : QN_OK);
        if (*value) CHECK_STR(qn_error(&in.qn), opened);
        unsetenv(environment);
        knobs_close(&in.qn);
        bench_check(&in);
    }
}

static void switches_take_0_and_1_alone(void) {
    clear_environment();
    bench b;
    bench_open(&b);
    CHECK_INT(knobs_open(&b.qn), QN_OK);
    static const char *const switches[] = {"schedule", "fuse",  "lift", "explicit",
                                           "lines",    "naive", "check"};
    for (size_t i = 0; i < COUNT_OF(switches); i++) {
#define X(NAME, name, kind, when, def, doc)                                                        \
    if (!strcmp(switches[i], name)) check_switch(&b, KNOB_##NAME, "QN_" #NAME, name);
#include "base/knobs.h"
#undef X
    }
    knobs_close(&b.qn);
    bench_check(&b);
}

static void unknown_knobs_list_the_known(void) {
    clear_environment();
    bench b;
    bench_open(&b);
    CHECK_INT(knobs_open(&b.qn), QN_OK);
    CHECK_INT(knobs_set(&b.qn, "thread", "1"), QN_EARG);
#define X(NAME, name, kind, when, def, doc) CHECK(strstr(qn_error(&b.qn), " " name) != NULL);
#include "base/knobs.h"
#undef X
    CHECK(strstr(qn_error(&b.qn), "\"thread\"") != NULL);
    qn_clear_error(&b.qn);
    CHECK_INT(knobs_set(&b.qn, NULL, "1"), QN_ENULL);
    CHECK_INT(knobs_set(&b.qn, "cc", NULL), QN_ENULL);
    knobs_close(&b.qn);
    bench_check(&b);
}

/* ---- log ------------------------------------------------------------------------------------- */

static char logged[20000];
static int logged_lines;

static void keep_line(void *user, const char *line) {
    CHECK(user == logged);
    strcat(logged, line);
    strcat(logged, "|");
    logged_lines++;
}

static void log_gives_one_line_a_call(void) {
    bench b;
    bench_open(&b);
    b.qn.log = keep_line;
    b.qn.log_user = logged;
    logged[0] = 0;
    log_line(&b.qn, "one %d", 1);
    log_line(&b.qn, "two\nthree\n\nfour\n");
    log_line(&b.qn, "%s", "");
    CHECK_STR(logged, "one 1|two|three||four||");
    logged[0] = 0;
    log_line(&b.qn, "%*d", 9000, 5);
    CHECK_INT(strlen(logged), 9001);
    CHECK_INT(logged[8999], '5');
    logged[0] = 0;
    b.qn.heap.fail_at = b.qn.heap.requests + 1;
    log_line(&b.qn, "begin%*d", 9000, 5);
    CHECK(strncmp(logged, "begin", 5) == 0 && strlen(logged) < 9000);
    CHECK_INT(qn_error_code(&b.qn), QN_OK);
    bench_check(&b);
}

/* ---- names that may have been meant ---------------------------------------------------------- */

/* By the recurrence as it is written down. */
static int plain_distance(const char *a, int i, const char *b, int j) {
    if (i == 0 || j == 0) return i + j;
    int best = plain_distance(a, i - 1, b, j - 1) + (a[i - 1] != b[j - 1]);
    int without = plain_distance(a, i - 1, b, j) + 1, with = plain_distance(a, i, b, j - 1) + 1;
    best = without < best ? without : best;
    best = with < best ? with : best;
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        int turned = plain_distance(a, i - 2, b, j - 2) + 1;
        best = turned < best ? turned : best;
    }
    return best;
}

static void some_name(char name[8], uint64_t *seed) {
    int n = (int)test_below(seed, 7);
    for (int i = 0; i < n; i++) name[i] = (char)('a' + test_below(seed, 3));
    name[n] = 0;
}

/* The nearest are the first of those sorted by their distances, in the order in which they came. */
static void the_nearest_are_those_of_the_least_distance(void) {
    enum { NAMES = 12 };
    uint64_t seed = 5;
    for (int round = 0; round < 300; round++) {
        char wanted[8], name[NAMES][8];
        int distance[NAMES];
        nearest x = {.wanted = wanted};
        some_name(wanted, &seed);
        for (int i = 0; i < NAMES; i++) {
            some_name(name[i], &seed);
            distance[i] =
                plain_distance(wanted, (int)strlen(wanted), name[i], (int)strlen(name[i]));
            CHECK_INT(text_distance(wanted, name[i]), distance[i]);
            size_t least = strlen(wanted) < strlen(name[i]) ? strlen(wanted) : strlen(name[i]);
            CHECK_INT(text_is_near(wanted, name[i]), distance[i] <= 1 + (int)least / 4);
            nearest_offer(&x, name[i]);
        }
        for (int k = 0; k < NEAREST; k++) {
            int best = 0;
            for (int i = 1; i < NAMES; i++)
                if (distance[i] < distance[best]) best = i;
            CHECK(x.name[k] == name[best]);
            CHECK_INT(x.distance[k], distance[best]);
            distance[best] = 99;
        }
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(arena_pieces_are_apart_aligned_and_stay);
    RUN(arena_takes_few_blocks);
    RUN(an_arena_that_is_reset_asks_for_no_more);
    RUN(arena_knows_what_it_needs);
    RUN(arena_makes_text_arrays_and_zeroes);
    RUN(arena_refuses_impossible_sizes);
    RUN(str_agrees_with_a_plain_buffer);
    RUN(str_formats_at_every_fill);
    RUN(str_raises_and_keeps_its_text);
    RUN(every_request_may_fail);
    RUN(the_first_error_is_kept);
    RUN(errors_name_the_users_place);
    RUN(long_errors_are_cut_not_overflown);
    RUN(an_error_may_quote_the_last_one);
    RUN(calls_without_a_context_are_harmless);
    RUN(every_code_has_its_text);
    RUN(version_is_that_of_the_header);
    RUN(knobs_start_as_their_rows_say);
    RUN(knobs_read_the_environment);
    RUN(knobs_set_own_their_texts);
    RUN(knobs_numbers_are_strict);
    RUN(switches_take_0_and_1_alone);
    RUN(unknown_knobs_list_the_known);
    RUN(log_gives_one_line_a_call);
    RUN(the_nearest_are_those_of_the_least_distance);
    return test_end();
}
