/* test_json.c - the strict JSON reader: what the grammar allows is read, what it does not is
 * refused with the place of the fault, and no text, memory failure or depth can crash it. The
 * expected values are RFC 8259's, written out by hand. */
#include "io/io.h"
#include "test.h"

typedef struct attempt {
    qn_ctx *qn;
    arena a;
    const char *text;
    size_t size;
    const json *value;
    json_fault fault;
} attempt;

static void attempt_work(void *arg) {
    attempt *t = arg;
    t->value = json_parse(&t->a, t->text, t->size, &t->fault);
}

/* Texts are copied to a block of exactly their size, so that reading past it shows. */
static bool attempt_parse(attempt *t, qn_ctx *qn, const char *text, size_t size) {
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    *t = (attempt){.qn = qn, .text = copy, .size = size};
    arena_open(&t->a, &qn->heap);
    bool fine = guarded(qn, attempt_work, t) == QN_OK && t->value;
    free(copy);
    return fine;
}

static bool parses(const char *text, size_t size) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    attempt t;
    bool fine = attempt_parse(&t, &qn, text, size);
    arena_free(&t.a);
    CHECK_INT(qn.heap.bytes, 0);
    return fine;
}

static void accepts_what_the_grammar_allows(void) {
    static const char *const good[] = {"null",
                                       " true ",
                                       "false",
                                       "0",
                                       "-0",
                                       "12",
                                       "-9.5e+10",
                                       "1E5",
                                       "0.25",
                                       "1e-2",
                                       "\"\"",
                                       "\"a\\u00e9\\n\\/\"",
                                       "\"\xc3\xa9 \xf0\x9f\x98\x80\"",
                                       "[]",
                                       "[ ]",
                                       "[1,[2,[]],{}]",
                                       "{}",
                                       "{\"a\":1}",
                                       "\t\r\n { \"a\" : [ null ] , \"\" : \"\\\"\" } ",
                                       "\"\\ud83d\\ude00\"",
                                       "\"\x7f\"",
                                       "\"\\u0000\""};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        if (!parses(good[i], strlen(good[i]))) FAIL("refused: %s", good[i]);
}

static const char *const wrong[] = {"",
                                    " ",
                                    "nul",
                                    "nulll",
                                    "True",
                                    "'a'",
                                    "+1",
                                    "01",
                                    "-",
                                    "-a",
                                    ".5",
                                    "1.",
                                    "1e",
                                    "1e+",
                                    "0x10",
                                    "Infinity",
                                    "NaN",
                                    "\"",
                                    "\"a",
                                    "\"\\\"",
                                    "\"\\x\"",
                                    "\"\\u12\"",
                                    "\"\\u12g4\"",
                                    "\"\\ud83d\"",
                                    "\"\\ud83dx\"",
                                    "\"\\ud83d\\u0041\"",
                                    "\"\\ude00\"",
                                    "\"\n\"",
                                    "\"\t\"",
                                    "[",
                                    "[1",
                                    "[1,",
                                    "[1,]",
                                    "[,1]",
                                    "[1 2]",
                                    "]",
                                    "{",
                                    "{a:1}",
                                    "{\"a\"}",
                                    "{\"a\":}",
                                    "{\"a\":1,}",
                                    "{\"a\":1 \"b\":2}",
                                    "{1:2}",
                                    "{\"a\":1,\"a\":2}",
                                    "{\"a\":1,\"\\u0061\":2}",
                                    "1 2",
                                    "{} {}",
                                    "[1]x",
                                    "/* */ 1",
                                    "\"\xff\"",
                                    "\"\xc0\xaf\"",
                                    "\"\xed\xa0\x80\"",
                                    "\"\xf4\x90\x80\x80\"",
                                    "\"\xe2\x82\"",
                                    ("\xef\xbb\xbf"
                                     "1")};

static void refuses_what_the_grammar_does_not(void) {
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (parses(wrong[i], strlen(wrong[i]))) FAIL("accepted: %s", wrong[i]);
    CHECK(!parses("1\0", 2));
    CHECK(!parses("\"a\0b\"", 5));
}

static void values_come_out_as_written(void) {
    static const char text[] =
        "{\"n\": -42, \"s\": \"a\\u00e9\\ud83d\\ude00\\t\", \"l\": [1, 2.5, true]}";
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    attempt t;
    int64_t number;
    CHECK(attempt_parse(&t, &qn, text, sizeof text - 1));
    CHECK_INT(t.value->kind, JSON_OBJECT);
    CHECK_INT(t.value->count, 3);
    CHECK(json_int(json_member(t.value, "n"), &number));
    CHECK_INT(number, -42);
    CHECK_STR(json_member(t.value, "s")->text, "a\xc3\xa9\xf0\x9f\x98\x80\t");
    const json *list = json_member(t.value, "l");
    CHECK_INT(list->count, 3);
    CHECK_INT(list->index, 2);
    CHECK(!json_int(list->first->next, &number));
    CHECK_STR(list->first->next->text, "2.5");
    CHECK_INT(list->first->next->next->kind, JSON_TRUE);
    CHECK(json_member(t.value, "x") == NULL);
    CHECK(json_member(list, "n") == NULL);
    arena_free(&t.a);
}

static void integers_are_exact_or_refused(void) {
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } rows[] = {{"9223372036854775807", true, INT64_MAX},
                {"-9223372036854775808", true, INT64_MIN},
                {"9223372036854775808", false, 0},
                {"-9223372036854775809", false, 0},
                {"1.0", false, 0},
                {"1e3", false, 0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        qn_ctx qn = {0};
        heap_open(&qn.heap, NULL, &qn);
        attempt t;
        int64_t value = 0;
        CHECK(attempt_parse(&t, &qn, rows[i].text, strlen(rows[i].text)));
        CHECK_INT(json_int(t.value, &value), rows[i].fits);
        CHECK_INT(value, rows[i].value);
        arena_free(&t.a);
    }
}

static void faults_say_where(void) {
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {{"[1, 2, x]", 7}, {"{\"a\": 1, \"a\": 2}", 14}, {"[1] 2", 4}, {"  \"ab\\q\"", 5}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        qn_ctx qn = {0};
        heap_open(&qn.heap, NULL, &qn);
        attempt t;
        CHECK(!attempt_parse(&t, &qn, rows[i].text, strlen(rows[i].text)));
        CHECK_INT(t.fault.at, rows[i].at);
        arena_free(&t.a);
    }
}

static void deep_nesting_is_refused_not_followed(void) {
    enum { DEEP = 1000000 };
    char *text = malloc(DEEP);
    memset(text, '[', DEEP);
    CHECK(!parses(text, DEEP));
    memset(text + 60, ']', 60);
    CHECK(parses(text, 120));
    free(text);
}

/* A million members take no quadratic time: this test would run for hours. */
static void many_members_are_read_in_linear_time(void) {
    enum { MEMBERS = 300000 };
    char *text = malloc(MEMBERS * 20 + 16);
    size_t size = 0;
    text[size++] = '{';
    for (int i = 0; i < MEMBERS; i++)
        size += (size_t)sprintf(text + size, "%s\"k%d\":%d", i ? "," : "", i, i);
    text[size++] = '}';
    CHECK(parses(text, size));
    free(text);
}

/* An object of n names whose hashes agree in the ten low bits. */
static bool parses_alike(int n) {
    char *text = malloc((size_t)n * 16 + 16);
    size_t size = 0;
    text[size++] = '{';
    for (uint32_t i = 0, found = 0; found < (uint32_t)n; i++) {
        char name[9];
        sprintf(name, "%08x", i);
        if (hash_bytes(name, 8, 0) & 1023) continue;
        size += (size_t)sprintf(text + size, "%s\"%s\":0", found++ ? "," : "", name);
    }
    text[size++] = '}';
    bool fine = parses(text, size);
    free(text);
    return fine;
}

/* Else n of them took n^2 / 2 steps: seconds for a file of a megabyte. */
static void names_chosen_to_hash_alike_are_refused(void) {
    CHECK(parses_alike(200));
    CHECK(!parses_alike(300));
}

static void quoting_and_reading_give_the_same_text(void) {
    static const char *const texts[] = {"", "plain", "\"\\\b\f\n\r\t\x01\x1f\x7f/",
                                        "\xc3\xa9\xe2\x82\xac"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        qn_ctx qn = {0};
        heap_open(&qn.heap, NULL, &qn);
        str s;
        str_open(&s, &qn.heap);
        json_quote(&s, texts[i]);
        attempt t;
        CHECK(attempt_parse(&t, &qn, s.s, s.len));
        if (t.value) CHECK_STR(t.value->text, texts[i]);
        arena_free(&t.a);
        str_free(&s);
        CHECK_INT(qn.heap.bytes, 0);
    }
}

static const char sample[] =
    "{\"__metadata__\":{\"a\":\"\\u00e9\\n\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],"
    "\"data_offsets\":[0,24]},\"b\":[true,false,null,-1.5e3,\"\\ud83d\\ude00\"]}";

static void no_change_of_a_text_crashes_the_reader(void) {
    uint64_t seed = 20240517;
    char text[sizeof sample + 8];
    for (int round = 0; round < 20000; round++) {
        size_t size = sizeof sample - 1;
        memcpy(text, sample, size);
        int changes = 1 + (int)test_below(&seed, 4);
        for (int i = 0; i < changes; i++) {
            size_t at = (size_t)test_below(&seed, (int64_t)size);
            if (test_below(&seed, 3) == 0) {
                memmove(text + at, text + at + 1, size - at - 1);
                size--;
            } else {
                text[at] = (char)test_rand(&seed);
            }
        }
        parses(text, size);
    }
    for (size_t size = 0; size < sizeof sample - 1; size++)
        if (parses(sample, size)) FAIL("accepted the first %zu bytes", size);
}

static void every_allocation_may_fail(void) {
    bool done = false;
    for (uint64_t k = 1; !done; k++) {
        qn_ctx qn = {0};
        heap_open(&qn.heap, NULL, &qn);
        qn.heap.fail_at = k;
        attempt t;
        done = attempt_parse(&t, &qn, sample, sizeof sample - 1);
        if (!done) CHECK_INT(qn.code, QN_ENOMEM);
        arena_free(&t.a);
        CHECK_INT(qn.heap.bytes, 0);
        if (k > 1000) FAIL("never succeeded"), done = true;
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(accepts_what_the_grammar_allows);
    RUN(refuses_what_the_grammar_does_not);
    RUN(values_come_out_as_written);
    RUN(integers_are_exact_or_refused);
    RUN(faults_say_where);
    RUN(deep_nesting_is_refused_not_followed);
    RUN(many_members_are_read_in_linear_time);
    RUN(names_chosen_to_hash_alike_are_refused);
    RUN(quoting_and_reading_give_the_same_text);
    RUN(no_change_of_a_text_crashes_the_reader);
    RUN(every_allocation_may_fail);
    return test_end();
}
