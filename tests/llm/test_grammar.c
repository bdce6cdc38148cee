/* test_grammar.c - texts by grammars and schemas: what the readers take and refuse, what matches,
 * and models whose texts are held to it.
 *
 * Random grammars are held against a matcher of this file that tries everything, over all short
 * texts of three letters, one of them of two bytes. */
#include "grammar_cases.h"
#include "tiny_llm.h"

#include "llm/grammar/grammar.h"

/* ---- automata for tests ---------------------------------------------------------------------- */

typedef struct machine {
    qn_ctx *qn;
    automaton *m;
    bool is_schema;
    span text;
    /* of a match */
    text_place from, to;
    span bytes;
    bool ends, goes_on;
} machine;

static void make_work(void *arg) {
    machine *k = arg;
    automaton_make(&k->m, k->qn, k->is_schema, k->text);
}

/* NULL-like: k.m is NULL, and the context has the error. */
static machine made(qn_ctx *qn, bool is_schema, const char *text) {
    machine k = {.qn = qn, .is_schema = is_schema, .text = {text, strlen(text)}};
    if (guarded(qn, make_work, &k)) {
        automaton_drop(k.m);
        k.m = NULL;
    }
    return k;
}

static void match_work(void *arg) {
    machine *k = arg;
    uint64_t epoch = k->m->epoch;
    match_ready(k->m);
    if (epoch != k->m->epoch) k->from = PLACE_BEGIN; /* what was known is forgotten */
    k->to = match_bytes(k->m, k->from, k->bytes.s, k->bytes.n);
    k->ends = match_may_end(k->m, k->to);
    k->goes_on = match_may_go_on(k->m, k->to);
}

static text_place matched(machine *k, text_place from, const char *s, size_t n) {
    k->from = from;
    k->bytes = (span){s, n};
    CHECK_INT(guarded(k->qn, match_work, k), QN_OK);
    return k->to;
}

static bool accepts(machine *k, const char *text) {
    matched(k, PLACE_BEGIN, text, strlen(text));
    return k->ends;
}

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

/* ---- tokens ---------------------------------------------------------------------------------- */

static void tokens_work(void *arg) {
    machine *k = arg;
    llm *m = object_of(k->text.s, HANDLE_LLM, "test");
    const token_tree *t = token_tree_of(m);
    bool allowed[T_VOCABULARY + 1];
    match_ready(k->m);
    for (int first = 0; first < 2; first++) {
        int64_t n = tokens_allow(t, k->m, k->from, first, allowed), count = 0;
        for (uint32_t i = 0; i < t->n; i++) {
            char room[64];
            span s = first ? token_first(t, (int32_t)i, room) : token_bytes(t, (int32_t)i);
            bool may = token_bytes(t, (int32_t)i).n &&
                       match_bytes(k->m, k->from, s.s, s.n) != PLACE_NOWHERE;
            CHECK_INT(allowed[i], may);
            count += may;
        }
        CHECK_INT(n, count);
    }
}

/* The walk over the tree allows what each token's bytes do. */
static void tokens_come_as_their_bytes_may(void) {
    static const char *const begins[] = {"", "a", "ab", "a\xc3", "b\xc3\xa9z"};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    for (int pieces = 0; pieces < 2; pieces++) {
        tiny t;
        const tiny_change change = {.pieces = pieces};
        qn_llm *m = open_tiny(qn, &t, false, &change, NULL);
        machine k =
            made(qn, false, "root ::= (\"ab\" | \"zz\" | [ab\xc3\xa9-\xc3\xbf] | \" a\")* \"z\"");
        for (size_t i = 0; i < COUNT_OF(begins); i++) {
            k.from = matched(&k, PLACE_BEGIN, begins[i], strlen(begins[i]));
            k.text = (span){(const char *)m, 0};
            CHECK_INT(guarded(qn, tokens_work, &k), QN_OK);
        }
        automaton_drop(k.m);
        qn_llm_close(m);
        tiny_free(&t);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* ---- texts by models ------------------------------------------------------------------------- */

typedef struct heard {
    char text[8192];
    size_t n;
} heard;

static bool hear(void *arg, const char *text, size_t size) {
    heard *h = arg;
    memcpy(h->text + h->n, text, size + 1);
    h->n += size;
    return true;
}

static const char *const model_schemas[] = {
    OBJECT(
        "\"name\":{\"type\":\"string\",\"maxLength\":8},\"n\":{\"type\":\"integer\",\"minimum\":-5,"
        "\"maximum\":120},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"y\",3]},"
        "\"maxItems\":3}",
        ",\"required\":[\"name\",\"tags\"]"),
    "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"number\",\"minimum\":0.5,\"maximum\":0.75},"
    "{\"type\":\"string\",\"pattern\":\"^[a-z]{2,4}\\\\.(com|org)$\"}]}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"string\",\"maxLength\":3}"
    "],"
    "\"items\":false,\"minItems\":2}",
};

/* By hand what model_schemas say. */
static bool is_valid(int which, const json *v) {
    int64_t n;
    if (which == 1 && v->kind == JSON_NUMBER) {
        double x = text_f64(v->text, NULL);
        return x >= 0.5 && x <= 0.75;
    }
    if (which == 1 && v->kind == JSON_STRING)
        return v->text_size >= 6 && v->text_size <= 8 &&
               (strstr(v->text, ".com") || strstr(v->text, ".org"));
    if (which == 1) return v->kind == JSON_TRUE || v->kind == JSON_FALSE;
    if (which == 2)
        return v->kind == JSON_ARRAY && v->count == 2 && v->first->kind == JSON_NULL &&
               v->first->next->kind == JSON_STRING && v->first->next->text_size <= 12;
    const json *name = json_member(v, "name"), *tags = json_member(v, "tags"),
               *number = json_member(v, "n");
    if (!name || name->kind != JSON_STRING || name->text_size > 32) return false;
    if (!tags || tags->kind != JSON_ARRAY || tags->count > 3) return false;
    if (v->count != (number ? 3 : 2)) return false;
    return !number || (json_int(number, &n) && n >= -5 && n <= 120);
}

/* Random weights, any seed: the text is whole, parses and is valid. */
static void texts_by_a_schema_are_valid(void) {
    for (int pieces = 0; pieces < 2; pieces++) {
        tiny t;
        qn_ctx *qn = qn_open(NULL);
        const tiny_change change = {.pieces = pieces};
        qn_llm *m = open_tiny(qn, &t, false, &change, &QN_LLM_OPTIONS(.context = 256));
        const int32_t prompt[3] = {70, 71, 72};
        for (int i = 0; i < 60; i++) {
            json_fault fault;
            arena a;
            heard h = {.n = 0};
            int which = i % (int)COUNT_OF(model_schemas);
            const qn_sample_options o =
                QN_SAMPLE_OPTIONS(.temperature = i < 6 ? 0 : 1.5, .seed = (uint64_t)i);
            const qn_llm_generate_options g =
                QN_LLM_GENERATE(.sample = &o, .piece = hear, .arg = &h,
                                .schema = model_schemas[which]);
            int64_t made_tokens = qn_llm_generate(m, 3, prompt, &g, NULL);
            CHECK(made_tokens > 0 && made_tokens < 254);
            arena_open(&a, &qn->heap);
            const json *v = json_parse(&a, h.text, h.n, &fault);
            if (!v || !is_valid(which, v)) FAIL("seed %d, schema %d: %s", i, which, h.text);
            arena_free(&a);
        }
        qn_llm_close(m);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
        tiny_free(&t);
    }
}

/* The same seed gives the same text, and its beginning in the prompt the same rest. */
static void texts_repeat_and_go_on(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    int32_t ids[64] = {70, 71, 72}, whole[40];
    const int32_t *out;
    const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 2, .seed = 5);
    qn_llm_generate_options g =
        QN_LLM_GENERATE(.most = 30, .sample = &o,
                        .grammar = "root ::= ([a-z\xc3\xa0-\xc3\xbf] | \"\\n\")* \"!\"");
    int64_t n = qn_llm_generate(m, 3, ids, &g, &out);
    CHECK(n > 10 && n <= 30);
    memcpy(whole, out, (size_t)(n > 0 ? n : 0) * sizeof *whole);
    CHECK_INT(qn_llm_generate(m, 3, ids, &g, &out), n);
    CHECK(n > 0 && !memcmp(whole, out, (size_t)n * sizeof *whole));
    for (int64_t half = 1; half < n; half += 4) {
        memcpy(ids + 3, whole, (size_t)half * sizeof *ids);
        g.matched = half;
        g.most = n - half;
        CHECK_INT(qn_llm_generate(m, 3 + half, ids, &g, &out), n - half);
        CHECK(!memcmp(whole + half, out, (size_t)(n - half) * sizeof *whole));
    }
    g.matched = 4;
    ids[6] = 'A';
    CHECK_INT(qn_llm_generate(m, 7, ids, &g, &out), -1);
    CHECK(strstr(qn_error(qn), "token 6 of the prompt, 65, does not fit"));
    qn_clear_error(qn);
    g.matched = 8;
    CHECK_INT(qn_llm_generate(m, 7, ids, &g, &out), -1);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* Where the likeliest may come anyway nothing is another token than without a grammar. */
static void grammars_that_fit_change_nothing(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    const int32_t ids[3] = {70, 71, 72}, *out;
    int32_t free_tokens[20];
    for (uint64_t s = 0; s < 20; s++) {
        const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 1, .top_k = 3, .seed = s);
        qn_llm_generate_options g = QN_LLM_GENERATE(.most = 1, .sample = &o);
        int64_t n = qn_llm_generate(m, 3, ids, &g, &out);
        if (n < 1 || out[0] >= 0x80 || out[0] < 'a' || out[0] > 'z') continue;
        free_tokens[0] = out[0];
        g.grammar = "root ::= [a-z]*";
        CHECK_INT(qn_llm_generate(m, 3, ids, &g, &out), 1);
        CHECK_INT(out[0], free_tokens[0]);
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Where letters are about a half of all that may be chosen, each comes as often as among them. */
static void chances_of_letters(qn_llm *m) {
    enum { DRAWS = 4000 };
    const int32_t *out;
    const float *logits;
    const double temperature = 0.3;
    int tried = 0;
    for (int32_t prompt = 40; prompt < 120 && tried < 3; prompt++) {
        double p[T_VOCABULARY], all = 0, sum = 0;
        int count[T_VOCABULARY] = {0};
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_feed(m, 1, &prompt, &logits), QN_OK);
        for (int i = 0; i < T_VOCABULARY; i++) {
            p[i] = exp((double)logits[i] / temperature);
            all += p[i];
            if (i < 128 && i > 64) sum += p[i];
        }
        if (sum < 0.35 * all || sum > 0.65 * all) continue;
        tried++;
        for (uint64_t s = 0; s < DRAWS; s++) {
            const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = temperature, .seed = s);
            const qn_llm_generate_options g =
                QN_LLM_GENERATE(.most = 1, .sample = &o, .grammar = "root ::= [A-\\x7f] \"-\"");
            if (qn_llm_generate(m, 1, &prompt, &g, &out) == 1) count[out[0]]++;
        }
        for (int i = 65; i < 128; i++) CHECK_NEAR((double)count[i] / DRAWS, p[i] / sum, 0, 0.03);
    }
    CHECK(tried > 0);
}

/* A refused choice is made again by the chances of those that may come. */
static void choices_keep_their_chances(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    const int32_t ids[3] = {70, 71, 72}, *out;
    const float *logits;
    double p[3], sum = 0;
    int count[3] = {0};
    enum { DRAWS = 4000 };
    CHECK_INT(qn_llm_feed(m, 3, ids, &logits), QN_OK);
    for (int i = 0; i < 3; i++) sum += p[i] = exp((double)logits['a' + i]);
    for (uint64_t s = 0; s < DRAWS; s++) {
        const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 1, .seed = s);
        const qn_llm_generate_options g =
            QN_LLM_GENERATE(.most = 1, .sample = &o, .grammar = "root ::= [a-c] \"x\"");
        if (qn_llm_generate(m, 3, ids, &g, &out) != 1 || out[0] < 'a' || out[0] > 'c')
            FAIL("%s", qn_error(qn));
        else
            count[out[0] - 'a']++;
    }
    for (int i = 0; i < 3; i++) CHECK_NEAR((double)count[i] / DRAWS, p[i] / sum, 0, 0.03);
    chances_of_letters(m);
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* Tokens that end a text come where it may end, and nowhere else; ignore_end has it go on. */
static void texts_end_where_they_may(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    const int32_t ids[3] = {70, 71, 72}, *out;
    int early = 0;
    for (uint64_t s = 0; s < 40; s++) {
        const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 20, .seed = s);
        qn_llm_generate_options g =
            QN_LLM_GENERATE(.most = 40, .sample = &o, .grammar = "root ::= (\"ab\" \"zz\")*");
        qn_llm_progress p = {.made = 0};
        CHECK_INT(qn_llm_begin(m, 3, ids, &g), QN_OK);
        do CHECK_INT(qn_llm_step(m, &p, sizeof p), QN_OK);
        while (p.state <= QN_LLM_WRITES);
        size_t n;
        const char *text = qn_tokenizer_decode(qn_llm_tokenizer(m), p.made, p.ids, true, &n);
        if (p.state != QN_LLM_FULL) CHECK(p.state == QN_LLM_ENDED && n % 4 == 0);
        if (strspn(text, "abz") != n) FAIL("%s", text);
        early += p.state == QN_LLM_ENDED;
        g.ignore_end = true;
        CHECK_INT(qn_llm_generate(m, 3, ids, &g, &out), 40);
        g.grammar = "root ::= \"abzz\" | \"\"";
        int64_t made_tokens = qn_llm_generate(m, 3, ids, &g, &out);
        CHECK(made_tokens >= 2 && made_tokens <= 4);
        g.grammar = "root ::= \"\"";
        CHECK_INT(qn_llm_generate(m, 3, ids, &g, &out), 0);
    }
    CHECK(early > 10);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

/* Behind a token that is no text the first one loses its blank, and is looked at so. */
static void first_tokens_lose_their_blanks(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    const tiny_change change = {.pieces = true};
    qn_llm *m = open_tiny(qn, &t, false, &change, NULL);
    const int32_t behind[2][2] = {{70, 256}, {256, 70}}, *out;
    int blanks[2] = {0};
    for (uint64_t s = 0; s < 400; s++) {
        const int32_t *prompt = behind[s % 2];
        heard h = {.n = 0};
        const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 9, .seed = s);
        const qn_llm_generate_options g =
            QN_LLM_GENERATE(.sample = &o, .piece = hear, .arg = &h,
                            .grammar = "root ::= [ab]{2} \" a\"? \"!\"");
        int64_t n = qn_llm_generate(m, 2, prompt, &g, &out);
        CHECK(n >= 3 && n <= 6); /* a blank alone is lost, too */
        blanks[s % 2] += n > 0 && (out[0] == 257 || out[0] == 259);
        if (strspn(h.text, "ab") != 2 || h.text[h.n - 1] != '!') FAIL("\"%s\"", h.text);
    }
    CHECK(blanks[0] > 20 && blanks[1] == 0);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

static void wrong_options_are_named(void) {
    static const struct {
        qn_llm_generate_options o;
        qn_code code;
        const char *error;
    } rows[] = {
        {{.grammar = "root ::= \"a\"", .schema = "{}"}, QN_EARG, "a grammar and a schema"},
        {{.matched = 1}, QN_EARG, "there is no grammar"},
        {{.grammar = "root ::= x"}, QN_EFORMAT, "grammar, line 1, column 10: there is no rule x"},
        {{.schema = "{\"not\":{}}"}, QN_EFORMAT, "schema, line 1, column 8: #/not"},
    };
    tiny t;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_llm *m = open_tiny(qn, &t, false, NULL, NULL);
    const int32_t ids[3] = {70, 71, 72}, *out;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        qn_llm_generate_options o = rows[i].o;
        o.size = sizeof o;
        CHECK_INT(qn_llm_generate(m, 3, ids, &o, &out), -1);
        CHECK_INT(qn_error_code(qn), rows[i].code);
        if (!strstr(qn_error(qn), rows[i].error)) FAIL("%s", qn_error(qn));
        qn_clear_error(qn);
    }
    qn_llm_close(m);
    qn_close(qn);
    tiny_free(&t);
}

/* Two texts by one grammar in two caches, and one by another, do not disturb each other. */
static void texts_by_turns_do_not_mix(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.caches = 3));
    static const char *const by[3] = {"root ::= [c-m]{20}", "root ::= [c-m]{20}",
                                      "root ::= [n-y]{20}"};
    const int32_t ids[3] = {70, 71, 72}, *out;
    int32_t alone[3][20];
    qn_llm_progress p[3] = {0};
    for (int round = 0; round < 2; round++) {
        for (int c = 0; c < 3; c++) {
            const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 2, .seed = (uint64_t)c);
            const qn_llm_generate_options g = QN_LLM_GENERATE(.sample = &o, .grammar = by[c]);
            CHECK_INT(qn_llm_select(m, c), QN_OK);
            if (round == 0) {
                CHECK_INT(qn_llm_generate(m, 3, ids, &g, &out), 20);
                memcpy(alone[c], out, sizeof alone[c]);
            } else {
                CHECK_INT(qn_llm_begin(m, 3, ids, &g), QN_OK);
            }
        }
    }
    for (int i = 0; i < 20; i++)
        for (int c = 0; c < 3; c++) {
            CHECK_INT(qn_llm_select(m, c), QN_OK);
            if (i == 7) {
                llm *inner = object_of(m, HANDLE_LLM, "test");
                match_forget(inner->machine);
            }
            CHECK_INT(qn_llm_step(m, &p[c], sizeof p[c]), QN_OK);
        }
    for (int c = 0; c < 3; c++) {
        CHECK(p[c].state == QN_LLM_ENDED && p[c].made == 20);
        CHECK(!memcmp(alone[c], p[c].ids, sizeof alone[c]));
    }
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(grammars_match_their_texts);
    RUN(faults_of_grammars_are_named);
    RUN(schemas_match_their_values);
    RUN(faults_of_schemas_are_named);
    RUN(pieces_lead_where_the_whole_does);
    RUN(sets_hold_their_characters);
    RUN(random_grammars_match_as_trying_everything_does);
    RUN(many_meanings_are_one_place);
    RUN(memory_may_be_out_at_any_time);
    RUN(tokens_come_as_their_bytes_may);
    RUN(texts_by_a_schema_are_valid);
    RUN(texts_repeat_and_go_on);
    RUN(grammars_that_fit_change_nothing);
    RUN(choices_keep_their_chances);
    RUN(texts_end_where_they_may);
    RUN(first_tokens_lose_their_blanks);
    RUN(wrong_options_are_named);
    RUN(texts_by_turns_do_not_mix);
    folder_sweep();
    return test_end();
}
