/* test_grammar.c - grammars and schemas: what the readers take and refuse, and what matches.
 *
 * Random grammars are held against a matcher of this file that tries everything, over all short
 * texts of three letters, one of them of two bytes. */
#include "grammar_cases.h"
#include "grammar_machine.h"

static void cases_hold(bool is_schema, const grammar_case *c, size_t n) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    for (size_t i = 0; i < n; i++) {
        machine k = made(qn, is_schema, c[i].grammar);
        if (!k.m) FAIL("%s: %s", c[i].grammar, qn_error(qn));
        qn_clear_error(qn);
        for (int t = 0; k.m && t < 8 && c[i].yes[t]; t++)
            if (!accepts(&k, c[i].yes[t])) FAIL("%s refuses %s", c[i].grammar, c[i].yes[t]);
        for (int t = 0; k.m && t < 8 && c[i].no[t]; t++)
            if (accepts(&k, c[i].no[t])) FAIL("%s accepts %s", c[i].grammar, c[i].no[t]);
        automaton_drop(k.m);
    }
    qn_close(qn);
}

static void faults_hold(bool is_schema, const grammar_fault *c, size_t n) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    for (size_t i = 0; i < n; i++) {
        machine k = made(qn, is_schema, c[i].text);
        if (k.m || !strstr(qn_error(qn), c[i].error))
            FAIL("%.80s: \"%s\", not \"%s\"", c[i].text, qn_error(qn), c[i].error);
        if (!k.m) CHECK_INT(qn_error_code(qn), QN_EFORMAT);
        automaton_drop(k.m);
        qn_clear_error(qn);
    }
    CHECK_INT(qn->heap.bytes < 1 << 20, true);
    qn_close(qn);
}

static void grammars_match_their_texts(void) {
    cases_hold(false, gbnf_cases, COUNT_OF(gbnf_cases));
}

static void faults_of_grammars_are_named(void) {
    faults_hold(false, gbnf_faults, COUNT_OF(gbnf_faults));
}

static void schemas_match_their_values(void) {
    cases_hold(true, schema_cases, COUNT_OF(schema_cases));
}

static void faults_of_schemas_are_named(void) {
    faults_hold(true, schema_faults, COUNT_OF(schema_faults));
}

/* Whatever pieces a text comes in, also with everything forgotten between. */
static void pieces_lead_where_the_whole_does(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint64_t seed = 11;
    for (size_t i = 0; i < COUNT_OF(schema_cases) + COUNT_OF(gbnf_cases); i++) {
        bool is_schema = i < COUNT_OF(schema_cases);
        const grammar_case *c =
            is_schema ? &schema_cases[i] : &gbnf_cases[i - COUNT_OF(schema_cases)];
        machine k = made(qn, is_schema, c->grammar);
        for (int t = 0; t < 16; t++) {
            const char *text = t < 8 ? c->yes[t] : c->no[t - 8];
            if (!text) continue;
            size_t n = strlen(text);
            bool whole = accepts(&k, text);
            text_place p = PLACE_BEGIN;
            for (size_t at = 0, some; at < n; at += some) {
                some = 1 + (size_t)test_below(&seed, (int64_t)(n - at));
                if (!test_below(&seed, 4)) {
                    match_forget(k.m);
                    p = matched(&k, PLACE_BEGIN, text, at);
                }
                p = matched(&k, p, text + at, some);
            }
            if (n == 0) matched(&k, p, "", 0);
            CHECK_INT(k.ends, whole);
        }
        automaton_drop(k.m);
    }
    qn_close(qn);
}

/* Characters around the ends of random ranges, of all lengths in bytes. */
static void sets_hold_their_characters(void) {
    static const uint32_t most[] = {0x7f, 0x7ff, 0xffff, CHARACTER_MOST};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint64_t seed = 5;
    for (int i = 0; i < 400; i++) {
        char grammar[64], bytes[8];
        uint32_t lo = 1 + (uint32_t)test_below(&seed, most[test_below(&seed, 4)]);
        uint32_t hi = lo + (uint32_t)test_below(&seed, most[test_below(&seed, 4)]);
        if (hi > CHARACTER_MOST) hi = CHARACTER_MOST;
        if ((lo >> 11) == 27 || (hi >> 11) == 27) continue; /* surrogates */
        snprintf(grammar, sizeof grammar, "root ::= [\\U%08X-\\U%08X]", lo, hi);
        machine k = made(qn, false, grammar);
        for (int t = 0; t < 60 && k.m; t++) {
            uint32_t c = t < 2    ? lo - 1 + (uint32_t)t
                         : t < 4  ? hi + (uint32_t)t - 2
                         : t < 30 ? lo + (uint32_t)test_below(&seed, (int64_t)(hi - lo) + 1)
                                  : 1 + (uint32_t)test_below(&seed, CHARACTER_MOST);
            if (c == 0 || c > CHARACTER_MOST || (c >> 11) == 27) continue;
            bytes[utf8_put(c, bytes)] = 0;
            if (accepts(&k, bytes) != (c >= lo && c <= hi)) FAIL("%s: U+%04X", grammar, c);
        }
        automaton_drop(k.m);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* ---- random grammars against a matcher that tries everything --------------------------------- */

enum { TREES = 64, RULES = 4, TEXT = 6 };
typedef struct tree {
    enum { TREE_LETTER, TREE_SET, TREE_PAIR, TREE_CHOICE, TREE_REPEAT, TREE_CALL } kind;
    int a, b, least, most; /* most -1: endless */
} tree;
typedef struct trees {
    tree at[TREES];
    int n, body[RULES];
    uint64_t seed;
} trees;

static const char *const letters[3] = {"a", "b", "\xc3\xa9"};

static int tree_make(trees *t, int depth) {
    int at = t->n++, kind = depth > 3 || t->n > TREES - 8 ? 0 : (int)test_below(&t->seed, 6);
    tree x = {.kind = (int)kind, .a = (int)test_below(&t->seed, 3)};
    if (kind == TREE_SET) x.a = (int)test_below(&t->seed, 7) + 1; /* bits of letters */
    if (kind == TREE_PAIR || kind == TREE_CHOICE) {
        x.a = tree_make(t, depth + 1);
        x.b = tree_make(t, depth + 1);
    }
    if (kind == TREE_REPEAT) {
        x.a = tree_make(t, depth + 1);
        x.least = (int)test_below(&t->seed, 3);
        x.most = test_below(&t->seed, 2) ? -1 : x.least + (int)test_below(&t->seed, 3);
    }
    if (kind == TREE_CALL) x.a = (int)test_below(&t->seed, RULES);
    t->at[at] = x;
    return at;
}

static void tree_print(const trees *t, int i, char *out) {
    const tree *x = &t->at[i];
    char *end = out + strlen(out);
    if (x->kind == TREE_LETTER) sprintf(end, "\"%s\"", letters[x->a]);
    if (x->kind == TREE_SET)
        sprintf(end, "[%s%s%s]", x->a & 1 ? letters[0] : "", x->a & 2 ? letters[1] : "",
                x->a & 4 ? letters[2] : "");
    if (x->kind == TREE_PAIR || x->kind == TREE_CHOICE) {
        strcat(out, "(");
        tree_print(t, x->a, out);
        strcat(out, x->kind == TREE_PAIR ? " " : " | ");
        tree_print(t, x->b, out);
        strcat(out, ")");
    }
    if (x->kind == TREE_REPEAT) {
        tree_print(t, x->a, out);
        end = out + strlen(out);
        if (x->most < 0)
            sprintf(end, "{%d,}", x->least);
        else
            sprintf(end, "{%d,%d}", x->least, x->most);
    }
    if (x->kind == TREE_CALL)
        sprintf(end, "%s", x->a ? (const char *[]){"x", "y", "z"}[x->a - 1] : "root");
}

/* Where a match that begins at `from` may end, as bits of places in letters. */
static unsigned tree_ends(const trees *t, int i, const int *text, int n, int from) {
    const tree *x = &t->at[i];
    unsigned ends = 0, a;
    switch (x->kind) {
    case TREE_LETTER:
        return from < n && text[from] == x->a ? 2u << from : 0;
    case TREE_SET:
        return from < n && (x->a >> text[from] & 1) ? 2u << from : 0;
    case TREE_CALL:
        return tree_ends(t, t->body[x->a], text, n, from);
    case TREE_CHOICE:
        return tree_ends(t, x->a, text, n, from) | tree_ends(t, x->b, text, n, from);
    case TREE_PAIR:
        a = tree_ends(t, x->a, text, n, from);
        for (int k = 0; k <= n; k++)
            if (a >> k & 1) ends |= tree_ends(t, x->b, text, n, k);
        return ends;
    case TREE_REPEAT:
        break;
    }
    unsigned now = 1u << from;
    if (x->least == 0) ends = now;
    for (int times = 1; times <= (x->most < 0 ? x->least + n + 1 : x->most); times++) {
        unsigned next = 0;
        for (int k = 0; k <= n; k++)
            if (now >> k & 1) next |= tree_ends(t, x->a, text, n, k);
        now = next;
        if (times >= x->least) ends |= now;
    }
    return ends;
}

/* All texts of up to TEXT letters: accepted by both or by none; and one that is nowhere is no
 * beginning of any that is accepted. */
static int texts_compare(const trees *t, machine *k, const char *grammar) {
    int text[TEXT], accepted = 0;
    for (int n = 0; n <= TEXT; n++) {
        int count = 1;
        for (int i = 0; i < n; i++) count *= 3;
        for (int number = 0; number < count; number++) {
            char bytes[3 * TEXT] = "";
            for (int i = 0, left = number; i < n; i++, left /= 3) {
                text[i] = left % 3;
                strcat(bytes, letters[text[i]]);
            }
            bool wanted = tree_ends(t, t->body[0], text, n, 0) >> n & 1;
            if (accepts(k, bytes) != wanted) {
                FAIL("\"%s\" is %s by\n%s", bytes, wanted ? "refused" : "accepted", grammar);
                return -1;
            }
            accepted += wanted;
        }
    }
    return accepted;
}

/* From any place that is somewhere, bytes lead to an end: no text is begun that cannot be one. */
static bool comes_to_an_end(machine *k, text_place p) {
    static const char bytes[] = "ab\xc3\xa9";
    text_place seen[4096];
    int n = 0;
    if (k->ends) return true;
    seen[n++] = p;
    for (int i = 0; i < n && n < 4000; i++) {
        for (int b = 0; b < 4; b++) {
            text_place to = matched(k, seen[i], bytes + b, 1);
            if (k->ends) return true;
            bool known = to == PLACE_NOWHERE;
            for (int j = 0; j < n; j++) known |= seen[j] == to;
            if (!known) seen[n++] = to;
        }
    }
    return n >= 4000;
}

/* With others around them, so many that numbers and ranks lie on both sides of a word's end. */
static void grammar_print(const trees *t, uint64_t seed, char *out) {
    static const char *const heads[] = {"root ::= ", "x ::= ", "y ::= ", "z ::= "};
    int others = 0;
    for (int i = 0; i < RULES; i++) {
        int r = seed & 1 ? i : RULES - 1 - i, more = seed % 3 ? 0 : 62;
        if (i == RULES - 1) more = 60 + (int)(seed % 4);
        strcat(out, heads[r]);
        tree_print(t, t->body[r], out);
        strcat(out, "\n");
        for (; more > 0; more--) sprintf(out + strlen(out), "o%d ::= .\n", others++);
    }
}

static void random_grammars_match_as_trying_everything_does(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    int taken = 0, texts = 0;
    for (uint64_t s = 1; s <= 1500; s++) {
        trees t = {.seed = s * 77};
        char grammar[16384] = "";
        for (int r = 0; r < RULES; r++) t.body[r] = tree_make(&t, 0);
        grammar_print(&t, s, grammar);
        machine k = made(qn, false, grammar);
        if (!k.m && !strstr(qn_error(qn), "with itself") && !strstr(qn_error(qn), "to no end"))
            FAIL("%s: %s", grammar, qn_error(qn));
        qn_clear_error(qn);
        if (!k.m) continue;
        int accepted = texts_compare(&t, &k, grammar);
        if (accepted < 0) break;
        taken++;
        texts += accepted;
        CHECK(comes_to_an_end(&k, matched(&k, PLACE_BEGIN, "", 0)));
        automaton_drop(k.m);
    }
    if (taken < 300 || texts < 10000) FAIL("%d grammars, %d texts", taken, texts);
    qn_close(qn);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* One that has many meanings costs no more than the square of its text; what is kept is bounded. */
static void many_meanings_are_one_place(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    machine k =
        made(qn, false, "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\" s s | \"\"");
    /* What calls itself at its end is as deep as it was. */
    machine list = made(qn, false, "root ::= l\nl ::= [a-c] l | \"d\"");
    text_place short_one = matched(&list, PLACE_BEGIN, "ab", 2);
    CHECK_INT(matched(&list, PLACE_BEGIN, "abcabcabc", 9), short_one);
    automaton_drop(list.m);
    char text[121];
    memset(text, 'a', 120);
    text[120] = 0;
    CHECK(!accepts(&k, text) || k.goes_on);
    automaton_drop(k.m);
    k = made(qn, false, "root ::= (\"a\"{0,200} \"b\"{0,200}){0,200}");
    text_place p = PLACE_BEGIN;
    k.bytes = (span){"a", 1};
    qn_code code = QN_OK;
    for (int i = 0; i < 2000 && !code && k.m; i++) {
        k.from = p;
        code = guarded(qn, match_work, &k);
        p = k.to;
    }
    CHECK(!code || code == QN_ERANGE);
    if (k.m) CHECK(k.m->cache.total < 2u * GRAMMAR_MEMORY_MOST);
    qn_clear_error(qn);
    automaton_drop(k.m);
    str deep;
    str_open(&deep, &qn->heap);
    str_add(&deep, "root ::= ");
    for (int i = 0; i < 100; i++) str_add(&deep, "(");
    k = made(qn, false, deep.s);
    CHECK(!k.m && strstr(qn_error(qn), "more than 64 deep"));
    qn_clear_error(qn);
    str_free(&deep);
    qn_close(qn);
}

/* Where memory is out at any request, there is an error and nothing is left. */
static void memory_may_be_out_at_any_time(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    uint64_t before = qn->heap.bytes;
    for (int i = 0; i < 2; i++)
        for (uint64_t n = 1; n < 400; n++) {
            qn->heap.fail_at = qn->heap.requests + n;
            machine k = made(qn, i, i ? POINT : gbnf_cases[13].grammar);
            if (k.m) {
                k.from = PLACE_BEGIN;
                k.bytes = i ? (span){"{\"x\":1}", 7} : (span){"(1+2)*3", 7};
                qn_code code = guarded(qn, match_work, &k);
                qn->heap.fail_at = 0;
                qn_clear_error(qn);
                if (code) CHECK_INT(guarded(qn, match_work, &k), QN_OK);
                CHECK(k.ends);
                automaton_drop(k.m);
                if (!code) n = 400;
            }
            qn->heap.fail_at = 0;
            qn_clear_error(qn);
        }
    CHECK_INT(qn->heap.bytes, before);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(grammars_match_their_texts);
    RUN(faults_of_grammars_are_named);
    RUN(schemas_match_their_values);
    RUN(faults_of_schemas_are_named);
    RUN(pieces_lead_where_the_whole_does);
    RUN(sets_hold_their_characters);
    RUN(random_grammars_match_as_trying_everything_does);
    RUN(many_meanings_are_one_place);
    RUN(memory_may_be_out_at_any_time);
    return test_end();
}
