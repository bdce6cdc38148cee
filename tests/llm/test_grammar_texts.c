/* test_grammar_texts.c - texts that models of random weights make by grammars and schemas, and
 * which tokens may come. */
#include "tiny_llm.h"

#include "grammar_machine.h"

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
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},"
    "\"n\":{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120},\"tags\":{\"type\":\"array\","
    "\"items\":{\"enum\":[\"x\",\"y\",3]},\"maxItems\":3}},\"required\":[\"name\",\"tags\"]}",
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

/* Guessed tokens are chosen by the grammar, too, and one that ends it ends the guesses. */
static void guesses_match_and_change_nothing(void) {
    tiny t;
    qn_ctx *qn = qn_open(NULL);
    qn_llm *m = open_tiny(qn, &t, false, NULL, &QN_LLM_OPTIONS(.context = 64, .chunk = 8));
    const int32_t ids[3] = {70, 71, 72}, *out;
    int64_t steps = 0, made = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        const qn_sample_options o = QN_SAMPLE_OPTIONS(.temperature = 2, .seed = seed);
        qn_llm_generate_options g =
            QN_LLM_GENERATE(.sample = &o, .grammar = "root ::= (\"abcd\" [x-z]){8}");
        int32_t plain[64];
        qn_llm_progress p = {0};
        int64_t n = qn_llm_generate(m, 3, ids, &g, &out), held = qn_llm_read(m, NULL);
        CHECK(n > 8 && n <= 40); /* some tokens are several letters */
        if (n > 0) memcpy(plain, out, (size_t)n * sizeof *out);
        g.guesses = 15;
        CHECK_INT(qn_llm_rewind(m, 0), QN_OK);
        CHECK_INT(qn_llm_begin(m, 3, ids, &g), QN_OK);
        for (; p.state <= QN_LLM_WRITES && steps < 1000; steps++)
            CHECK_INT(qn_llm_step(m, &p, sizeof p), QN_OK);
        CHECK_INT(p.state, QN_LLM_ENDED);
        CHECK(p.made == n && !memcmp(p.ids, plain, (size_t)n * sizeof *plain));
        CHECK_INT(qn_llm_read(m, NULL), held);
        made += n;
    }
    CHECK(steps < made * 3 / 4);
    qn_llm_close(m);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
    tiny_free(&t);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    if (!folder_make()) return 1;
    RUN(tokens_come_as_their_bytes_may);
    RUN(texts_by_a_schema_are_valid);
    RUN(texts_repeat_and_go_on);
    RUN(grammars_that_fit_change_nothing);
    RUN(choices_keep_their_chances);
    RUN(texts_end_where_they_may);
    RUN(first_tokens_lose_their_blanks);
    RUN(wrong_options_are_named);
    RUN(texts_by_turns_do_not_mix);
    RUN(guesses_match_and_change_nothing);
    folder_sweep();
    return test_end();
}
