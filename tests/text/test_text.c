/* test_text.c - tokenizers: the ids and texts of the package `tokenizers` (tools/compare/tokens.py
 * wrote tests/text/cases), the same from GGUF's arrays, what is refused, damaged files. */
#include "test.h"

#include "quern_text.h"
#include "text/text.h"

#include <time.h>

static const char *const families[] = {"gpt2",    "llama3", "qwen2", "gpt4o", "bert",
                                       "unigram", "llama2", "plain", "words"};

static qn_ctx *open_context(void) {
    return qn_open(&QN_OPTIONS(.device = "ref"));
}

static char *read_file(const char *name, const char *ending, size_t *size) {
    char path[128];
    snprintf(path, sizeof path, "tests/text/cases/%s.%s", name, ending);
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    *size = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f) fclose(f);
    CHECK(*size > 0);
    return text;
}

static qn_tokenizer *open_family(qn_ctx *qn, const char *name) {
    size_t size;
    char *text = read_file(name, "json", &size);
    qn_tokenizer *t = qn_tokenizer_open(qn, text, size);
    if (!t) printf("%s: %s\n", name, qn_error(qn));
    free(text);
    return t;
}

/* ---- against the package --------------------------------------------------------------------- */

static size_t from_hex(const char *hex, size_t n, char *out) {
    if (n == 1) return 0; /* "-" */
    for (size_t i = 0; i < n; i += 2) {
        char two[3] = {hex[i], hex[i + 1], 0};
        out[i / 2] = (char)strtoul(two, NULL, 16);
    }
    return n / 2;
}

/* One line: a text, what its ids give, the ids. */
static bool line_holds(qn_tokenizer *t, char *line) {
    static char text[8192], back[16384];
    char *end = strchr(line, ' '), *ids_at = strchr(end + 1, ' ');
    size_t n = from_hex(line, (size_t)(end - line), text);
    size_t n_back = from_hex(end + 1, (size_t)(ids_at - end - 1), back), size;
    const int32_t *ids;
    int64_t count = qn_tokenizer_encode(t, text, n, QN_ENCODE_SPECIAL, &ids), i = 0;
    int32_t want[4096];
    while (*ids_at == ' ' && ids_at[1] && i < 4096)
        want[i++] = (int32_t)strtol(ids_at + 1, &ids_at, 10);
    if (i != count || (count && memcmp(ids, want, (size_t)count * 4) != 0)) {
        printf("%.*s\n", (int)n, text);
        return false;
    }
    const char *got = qn_tokenizer_decode(t, i, want, false, &size);
    return got && size == n_back && memcmp(got, back, size) == 0;
}

static void gives_the_ids_of_the_package(void) {
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        size_t size;
        qn_tokenizer *t = open_family(qn, families[i]);
        char *text = read_file(families[i], "ids", &size), *line = text;
        int lines = 0;
        for (char *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
            *end = 0;
            bool same = line_holds(t, line);
            if (!same) printf("%s: line %d\n", families[i], lines + 1);
            CHECK(same);
        }
        CHECK(lines > 30);
        free(text);
        qn_tokenizer_close(t);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static bool same_ids(qn_tokenizer *a, qn_tokenizer *b, const char *text) {
    const int32_t *x, *y;
    int64_t n = qn_tokenizer_encode(a, text, strlen(text), 0, &x);
    return n >= 0 && qn_tokenizer_encode(b, text, strlen(text), 0, &y) == n &&
           (n == 0 || memcmp(x, y, (size_t)n * 4) == 0);
}

/* The vocabulary and merges of a family's file as GGUF has them. */
static qn_tokenizer *as_gguf(qn_ctx *qn, const char *name, const char *pre) {
    static const char *tokens[4096], *merges[4096];
    static int32_t types[4096];
    size_t size;
    char *text = read_file(name, "json", &size);
    arena a;
    json_fault fault;
    arena_open(&a, &qn->heap);
    const json *root = json_parse(&a, text, size, &fault), *model = json_member(root, "model");
    int64_t n = 0, m = 0, id = 0;
    for (int i = 0; i < 4096; i++) types[i] = 1;
    for (const json *v = json_member(model, "vocab")->first; v; v = v->next, n++)
        if (json_int(v, &id)) tokens[id] = v->key;
    for (const json *v = json_member(model, "merges")->first; v; v = v->next)
        merges[m++] = arena_printf(&a, "%s %s", v->first->text, v->first->next->text);
    for (const json *v = json_member(root, "added_tokens")->first; v; v = v->next) {
        json_int(json_member(v, "id"), &id);
        tokens[id] = json_member(v, "content")->text;
        types[id] = json_member(v, "special")->kind == JSON_TRUE ? 3 : 4;
        if (id >= n) n = id + 1;
    }
    qn_tokenizer *t =
        qn_tokenizer_new(qn, &QN_VOCABULARY(.model = "gpt2", .pre = pre, .n = n, .tokens = tokens,
                                            .types = types, .n_merges = m, .merges = merges));
    if (!t) printf("%s\n", qn_error(qn));
    arena_free(&a);
    free(text);
    return t;
}

static void gguf_and_json_give_the_same(void) {
    static const char *const pairs[][2] = {
        {"gpt2", "gpt-2"}, {"llama3", "llama-bpe"}, {"qwen2", "qwen2"}, {"gpt4o", "gpt-4o"}};
    static const char *const texts[] = {"", "It's 12345 o'CLOCK,  and\n\n  all is well. ",
                                        "\xc3\x84rger \xe4\xb8\xad\xe6\x96\x87\t\t=> x<|x|>y"};
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        qn_tokenizer *a = open_family(qn, pairs[i][0]), *b = as_gguf(qn, pairs[i][0], pairs[i][1]);
        for (size_t k = 0; k < COUNT_OF(texts); k++) CHECK(same_ids(a, b, texts[k]));
        qn_tokenizer_close(a);
        qn_tokenizer_close(b);
    }
    qn_close(qn);
}

/* "ab" (score -1) goes before "bc" (-2); of equal ones the left goes first; what is no token is its
 * bytes. */
static void scores_decide_what_merges_first(void) {
    static const char *tokens[4 + 6 + 256] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81"};
    static float scores[COUNT_OF(tokens)];
    static int32_t types[COUNT_OF(tokens)];
    static const char *const own[] = {"a", "b", "c", "ab", "bc", "aa"};
    static char bytes[256][8];
    for (int i = 0; i < 6; i++) tokens[4 + i] = own[i];
    for (size_t i = 0; i < COUNT_OF(tokens); i++) types[i] = i < 1 ? 2 : i < 3 ? 3 : i < 10 ? 1 : 6;
    for (size_t i = 0; i < COUNT_OF(tokens); i++) scores[i] = i < 7 || i >= 10 ? -10 : 0;
    for (int i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", i);
        tokens[10 + i] = bytes[i];
    }
    scores[7] = -1, scores[8] = -2, scores[9] = -1;
    qn_ctx *qn = open_context();
    qn_tokenizer *t = qn_tokenizer_new(
        qn, &QN_VOCABULARY(.model = "llama", .n = COUNT_OF(tokens), .tokens = tokens,
                           .scores = scores, .types = types, .bos = 1, .add_bos = true));
    static const int32_t want[] = {1, 3, 7, 6, 3, 9, 7, 10 + 0xc3, 10 + 0xa9};
    const int32_t *ids;
    int64_t n = qn_tokenizer_encode(t, "abc aaab\xc3\xa9", 10, QN_ENCODE_SPECIAL, &ids);
    CHECK_INT(n, COUNT_OF(want));
    CHECK(n == COUNT_OF(want) && memcmp(ids, want, sizeof want) == 0);
    CHECK_STR(qn_tokenizer_decode(t, COUNT_OF(want), want, true, NULL), "abc aaab\xc3\xa9");
    qn_tokenizer_close(t);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void says_what_it_does_not_know(void) {
    static const struct {
        const char *json, *text;
    } bad[] = {
        {"", "at byte 0: the text ends"},
        {"[]", "not an object"},
        {"{\"model\":{\"type\":\"Magic\",\"vocab\":{}}}", "the model \"Magic\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"normalizer\":{\"type\":\"Nmt\"}"
         "}",
         "the normalizer \"Nmt\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":{\"type\":"
         "\"Sequence\",\"pretokenizers\":[{\"type\":\"UnicodeScripts\"}]}}",
         "the pre-tokenizer \"UnicodeScripts\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":{\"type\":"
         "\"Split\",\"pattern\":{\"Regex\":\"a|b\"},\"behavior\":\"Isolated\"}}",
         "to split by \"a|b\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"decoder\":{\"type\":\"CTC\"}}",
         "the decoder \"CTC\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"post_processor\":{\"type\":"
         "\"X\"}}",
         "the post-processor \"X\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":99999999}}}", "id 99999999"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":1,\"b\":1}}}", "a second token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "is no token"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}",
         "dropout"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",-1.0]]}}", "unk_id 3"},
    };
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(!qn_tokenizer_open(qn, bad[i].json, strlen(bad[i].json)));
        CHECK_INT(qn_error_code(qn), QN_EFORMAT);
        if (!strstr(qn_error(qn), bad[i].text)) printf("%s\n", qn_error(qn));
        CHECK(strstr(qn_error(qn), bad[i].text));
        qn_clear_error(qn);
    }
    qn_vocabulary v = QN_VOCABULARY(.model = "gpt2", .pre = "magic", .n = 1,
                                    .tokens = (const char *const[]){"a"});
    CHECK(!qn_tokenizer_new(qn, &v) && strstr(qn_error(qn), "the pre-tokenizer \"magic\""));
    qn_close(qn);
}

static void refuses_bad_arguments(void) {
    qn_ctx *qn = open_context();
    qn_tokenizer *t = open_family(qn, "gpt2");
    const int32_t *ids, far = 1 << 20;
    CHECK_INT(qn_tokenizer_encode(t, "ab\xff", 3, 0, &ids), -1);
    CHECK(strstr(qn_error(qn), "byte 2"));
    qn_clear_error(qn);
    CHECK(!qn_tokenizer_decode(t, 1, &far, false, NULL) && qn_error_code(qn) == QN_ERANGE);
    qn_clear_error(qn);
    CHECK_INT(qn_tokenizer_encode(t, "a", 1, 64, &ids), -1);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    qn_tokenizer_close(t);
    CHECK_INT(qn_tokenizer_encode(t, "a", 1, 0, &ids), -1);
    CHECK_INT(qn_error_code(qn), QN_EGRAPH);
    qn_close(qn);
}

static void plain_text_spells_no_special_token(void) {
    qn_ctx *qn = open_context();
    qn_tokenizer *t = open_family(qn, "qwen2");
    int32_t special = qn_tokenizer_id(t, "<|im_end|>");
    const char *text = "a<|im_end|>b";
    const int32_t *ids;
    bool is_special, found = false;
    CHECK(special >= 0);
    CHECK_STR(qn_tokenizer_token(t, special, &is_special), "<|im_end|>");
    CHECK(is_special);
    CHECK_INT(qn_tokenizer_encode(t, text, strlen(text), 0, &ids), 3);
    CHECK_INT(ids[1], special);
    int64_t n = qn_tokenizer_encode(t, text, strlen(text), QN_ENCODE_PLAIN, &ids);
    for (int64_t i = 0; i < n; i++) found |= ids[i] == special;
    CHECK(n > 3 && !found);
    qn_tokenizer_close(t);
    qn_close(qn);
}

/* A model's vocabulary has the special tokens, too, and its words may be whole texts. */
static void plain_text_finds_no_special_token_in_a_model(void) {
#define REST                                                                                       \
    "\"added_tokens\":[{\"id\":1,\"content\":\"</s>\",\"special\":true,\"normalized\":false}],"    \
    "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}}"
    static const char *const files[] = {
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"</"
        "s>\",0],[\"a\",0]]}," REST,
        "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"</"
        "s>\":1,\"a\":2}}," REST,
        "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##"
        "\","
        "\"vocab\":{\"?\":0,\"</s>\":1,\"a\":2}}," REST,
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"ignore_merges\":true,\"merges\":[],"
        "\"vocab\":{\"?\":0,\"</s>\":1,\"a\":2}}," REST,
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[\"< /\",\"s >\",\"</ s>\"],"
        "\"vocab\":{\"?\":0,\"</s>\":1,\"a\":2,\"<\":3,\"/\":4,\"s\":5,\">\":6,\"</"
        "\":7,\"s>\":8}}," REST};
#undef REST
    static const char *const tokens[] = {"<unk>", "</s>", "a", "<", "/", "s", ">", "</", "</s"};
    static const float scores[] = {0, 0, 0, 0, 0, 0, 0, 3, 4};
    static const int32_t types[] = {2, 3, 1, 1, 1, 1, 1, 1, 1};
    qn_ctx *qn = open_context();
    for (size_t i = 0; i <= COUNT_OF(files); i++) {
        qn_tokenizer *t =
            i < COUNT_OF(files)
                ? qn_tokenizer_open(qn, files[i], strlen(files[i]))
                : qn_tokenizer_new(qn, &QN_VOCABULARY(.model = "llama", .n = COUNT_OF(tokens),
                                                      .tokens = tokens, .scores = scores,
                                                      .types = types, .no_space_prefix = true));
        const int32_t *ids;
        CHECK_INT(qn_tokenizer_encode(t, "a </s>", 6, 0, &ids) >= 2 && ids[1] >= 0, 1);
        int64_t n = qn_tokenizer_encode(t, "a </s>", 6, QN_ENCODE_PLAIN, &ids);
        CHECK(n >= 2 && ids[0] == 2);
        for (int64_t k = 0; k < n; k++) CHECK(ids[k] != 1);
        qn_tokenizer_encode(t, "a </s>", 6, 0, &ids);
        CHECK_INT(ids[1] == 1 || ids[2] == 1, 1);
        qn_tokenizer_close(t);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* As the package has it: the file is fine until a character needs it. */
static void an_unknown_token_that_is_none_is_an_error_where_it_is_needed(void) {
    static const char text[] = "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{"
                               "\"a\":0,\"b\":1},\"merges\":[]}}";
    qn_ctx *qn = open_context();
    qn_tokenizer *t = qn_tokenizer_open(qn, text, strlen(text));
    const int32_t *ids;
    CHECK_INT(qn_tokenizer_encode(t, "ab", 2, 0, &ids), 2);
    CHECK_STR(qn_error(qn), "");
    CHECK_INT(qn_tokenizer_encode(t, "axb", 3, 0, &ids), -1);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    CHECK(strstr(qn_error(qn), "no token stands for \"x\""));
    qn_tokenizer_close(t);
    qn_close(qn);
}

/* Metaspace's "first" asks for the first character of the whole text, not for the first piece; ids
 * of the package `tokenizers`. */
static void first_is_what_stands_for_the_first_character(void) {
#define PREFIX "{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\",\"replacement\":"
#define STEPS  "{\"type\":\"Sequence\",\"pretokenizers\":["
    static const struct {
        const char *normalizer, *splitter, *text;
        int n;
        int32_t ids[8];
    } cases[] = {
        {"{\"type\":\"Strip\"}", PREFIX "\"#\"}", " ab", 2, {2, 3}},
        {"{\"type\":\"StripAccents\"}",
         PREFIX "\"#\"}",
         "\xcc\x81"
         "ab",
         2,
         {2, 3}},
        {"{\"type\":\"BertNormalizer\"}",
         PREFIX "\"#\"}",
         "\x01"
         "ab",
         2,
         {2, 3}},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"\"}",
         PREFIX "\"#\"}",
         "ab a",
         2,
         {3, 1}},
        {"null", PREFIX "\"#\"}", "ab", 3, {1, 2, 3}},
        {"{\"type\":\"Prepend\",\"prepend\":\"1\"}",
         STEPS "{\"type\":\"Digits\"}," PREFIX "\"#\"}]}",
         "ab",
         5,
         {1, 5, 1, 2, 3}},
        {"null",
         STEPS PREFIX "\"_\"},{\"type\":\"Punctuation\"}," PREFIX "\"#\"}]}",
         "ab",
         5,
         {1, 4, 1, 2, 3}},
    };
#undef PREFIX
#undef STEPS
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[1024];
        const int32_t *ids;
        int n = snprintf(
            text, sizeof text,
            "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"#\",-1],"
            "[\"a\",-1],[\"b\",-1],[\"_\",-1],[\"1\",-1]]},\"normalizer\":%s,"
            "\"pre_tokenizer\":%s}",
            cases[i].normalizer, cases[i].splitter);
        qn_tokenizer *t = qn_tokenizer_open(qn, text, (size_t)n);
        CHECK_INT(qn_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), 0, &ids),
                  cases[i].n);
        CHECK(t && memcmp(ids, cases[i].ids, (size_t)cases[i].n * sizeof *ids) == 0);
        qn_tokenizer_close(t);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* U+11DE2 is a digit since Unicode 17, which the package has for splitters, not for patterns. */
static void splitters_and_patterns_know_numbers_of_their_own_unicode(void) {
    static const struct {
        const char *splitter;
        int64_t n;
    } cases[] = {
        {"{\"type\":\"Digits\"}", 3},
        {"{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"\\\\p{N}\"}}", 1},
    };
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[512];
        const int32_t *ids;
        int n = snprintf(text, sizeof text,
                         "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{"
                         "\"?\":0}},\"pre_tokenizer\":%s}",
                         cases[i].splitter);
        qn_tokenizer *t = qn_tokenizer_open(qn, text, (size_t)n);
        CHECK_INT(qn_tokenizer_encode(t, "a\xf0\x91\xb7\xa2z", 6, 0, &ids), cases[i].n);
        qn_tokenizer_close(t);
    }
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* ---- damage, memory, time -------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Whatever it was made of, a tokenizer encodes and decodes, or says why not. */
static void use(qn_ctx *qn, qn_tokenizer *t) {
    const char *text = "It's the <|x|> 12th \xc3\x84 \xe4\xb8\xad\xcc\x81 <to word tool";
    const int32_t *ids;
    int64_t n = qn_tokenizer_encode(t, text, strlen(text), QN_ENCODE_SPECIAL, &ids);
    int32_t copy[512];
    if (n > 512) n = 512;
    if (n > 0) memcpy(copy, ids, (size_t)n * sizeof *ids);
    if (n >= 0) qn_tokenizer_decode(t, n, copy, true, NULL);
    (void)qn;
}

static void try_json(qn_ctx *qn, const char *text, size_t size) {
    char *copy = malloc(size ? size : 1); /* so that a sanitizer sees a read past its end */
    memcpy(copy, text, size);
    qn_tokenizer *t = qn_tokenizer_open(qn, copy, size);
    CHECK(t || qn_error_code(qn) == QN_EFORMAT);
    free(copy);
    qn_clear_error(qn);
    if (t) use(qn, t);
    qn_clear_error(qn);
    qn_tokenizer_close(t);
}

static void every_prefix_of_a_file_is_an_error(void) {
    qn_ctx *qn = open_context();
    qn_tokenizer *first = open_family(qn, "plain"); /* so that handles have their block */
    qn_tokenizer_close(first);
    uint64_t bytes = qn->heap.bytes;
    for (size_t f = 0; f < COUNT_OF(families); f++) {
        size_t size;
        char *text = read_file(families[f], "json", &size);
        size_t step = size > 8000 ? 97 : 7;
        for (size_t n = 0; n + 2 < size; n += step) {
            char *copy = malloc(n ? n : 1);
            memcpy(copy, text, n);
            CHECK(!qn_tokenizer_open(qn, copy, n) && qn_error_code(qn) == QN_EFORMAT);
            qn_clear_error(qn);
            free(copy);
        }
        free(text);
    }
    CHECK_INT((int64_t)qn->heap.bytes, (int64_t)bytes);
    qn_close(qn);
}

static void damaged_files_do_no_harm(void) {
    static const char *const words[] = {
        "null", "-1", "0",       "1e9",        "99999999",         "true",     "\"\"",
        "[]",   "{}", "\"NFD\"", "\"Digits\"", "\"\xe2\x96\x81\"", "\"Strip\""};
    qn_ctx *qn = open_context();
    uint32_t seed = 5;
    for (size_t f = 0; f < COUNT_OF(families); f++) {
        size_t size;
        char *text = read_file(families[f], "json", &size), *copy = malloc(size + 64);
        for (int round = 0; round < 60; round++) {
            size_t n = size;
            memcpy(copy, text, size);
            for (int change = 0; change < 2; change++) {
                /* The head, where the steps stand, more often than the vocabulary. */
                size_t at = next_random(&seed) % (change ? n - 1 : n < 3000 ? n - 1 : 3000);
                const char *word = words[next_random(&seed) % COUNT_OF(words)];
                if (next_random(&seed) % 3) {
                    const char *colon = memchr(copy + at, ':', n - at);
                    if (!colon) continue;
                    at = (size_t)(colon - copy) + 1;
                    size_t end = at;
                    while (end < n && !strchr(",}]", copy[end])) end++;
                    memmove(copy + at + strlen(word), copy + end, n - end);
                    if (end - at < strlen(word) && n + strlen(word) > size + 60) break;
                    n = n - (end - at) + strlen(word);
                    memcpy(copy + at, word, strlen(word));
                } else {
                    copy[at] = (char)(next_random(&seed) % 96 + 32);
                }
            }
            try_json(qn, copy, n);
        }
        free(copy);
        free(text);
    }
    qn_close(qn);
}

static void out_of_memory_is_an_error_anywhere(void) {
    qn_ctx *qn = open_context();
    size_t size;
    char *text = read_file("plain", "json", &size);
    bool made = false;
    for (uint64_t i = 1; !made && i < 400; i++) {
        uint64_t bytes = qn->heap.bytes;
        qn->heap.fail_at = qn->heap.requests + i;
        qn_tokenizer *t = qn_tokenizer_open(qn, text, size);
        const int32_t *ids;
        made = t && qn_tokenizer_encode(t, "some words", 10, 0, &ids) > 0;
        qn->heap.fail_at = 0;
        if (!made) CHECK_INT(qn_error_code(qn), QN_ENOMEM);
        qn_clear_error(qn);
        qn_tokenizer_close(t);
        CHECK(qn->heap.bytes <= bytes + 65536); /* a block of handles may be new */
    }
    CHECK(made);
    free(text);
    qn_close(qn);
}

/* A megabyte of one letter, of marks, of spaces is done in time that is not its square. */
static void long_texts_take_no_square_of_time(void) {
    static const char *const units[] = {"a",  "the ", " ", "\xcc\x81", "\xcc\xa3\xcc\x81",
                                        "\n", "A",    "<", "<t",       "\xe2\x96\x81",
                                        "'"};
    enum { SIZE = 1 << 17 };
    qn_ctx *qn = open_context();
    char *text = malloc(SIZE);
    for (size_t f = 0; f < COUNT_OF(families); f++) {
        qn_tokenizer *t = open_family(qn, families[f]);
        for (size_t u = 0; u < COUNT_OF(units); u++) {
            size_t unit = strlen(units[u]), n = 0;
            for (; n + unit <= SIZE; n += unit) memcpy(text + n, units[u], unit);
            const int32_t *ids;
            clock_t before = clock();
            CHECK(qn_tokenizer_encode(t, text, n, 0, &ids) >= 0);
            double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
            if (seconds > 5) printf("%s, %s: %.1f s\n", families[f], units[u], seconds);
            CHECK(seconds < 5);
        }
        qn_tokenizer_close(t);
    }
    free(text);
    qn_close(qn);
}

/* Texts that hash alike where there is no seed: 32768 of them take the time of any others. */
static void tokens_that_hash_alike_take_no_square_of_time(void) {
    enum { TOKENS = 1 << 15, LOW = (1 << 17) - 1 };
    qn_ctx *qn = open_context();
    char(*all)[12] = malloc(TOKENS * sizeof *all);
    const char **token = malloc(TOKENS * sizeof *token);
    uint32_t n = 0;
    for (uint64_t i = 0; n < TOKENS; i++) {
        char text[12];
        for (int k = 0; k < 8; k++) text[k] = (char)('a' + (i >> 4 * k & 15));
        text[8] = 0;
        if ((hash_bytes(text, 8, 0) & LOW) >= 1 << 12) continue;
        token[n] = memcpy(all[n], text, sizeof text);
        n++;
    }
    clock_t before = clock();
    qn_tokenizer *t = qn_tokenizer_new(
        qn, &QN_VOCABULARY(.model = "gpt2", .pre = "gpt-2", .n = TOKENS, .tokens = token));
    for (uint32_t i = 0; i < TOKENS; i++)
        if (qn_tokenizer_id(t, token[i]) != (int32_t)i) CHECK(false);
    CHECK((double)(clock() - before) / CLOCKS_PER_SEC < 0.5);
    CHECK_STR(qn_error(qn), "");
    qn_tokenizer_close(t);
    free(token);
    free(all);
    qn_close(qn);
}

/* Steps that each make a text 16 times as long are stopped, wherever they stand. */
static void steps_cannot_grow_a_text_without_bound(void) {
    static const char *const step[] = {
        ("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
         "\"aaaaaaaaaaaaaaaa\"}"),
        "{\"type\":\"Prepend\",\"prepend\":\"%0300000d\"}",
        "{\"type\":\"Metaspace\",\"replacement\":\"    \",\"split\":false}",
        "{\"type\":\"ByteLevel\",\"use_regex\":false}"};
    static const char *const part[][2] = {{"normalizer", "normalizers"},
                                          {"normalizer", "normalizers"},
                                          {"pre_tokenizer", "pretokenizers"},
                                          {"pre_tokenizer", "pretokenizers"},
                                          {"decoder", "decoders"}};
    static const char *const added[] = {"", "{\"id\":1,\"content\":\"xa\",\"normalized\":true}"};
    static char one[400000], text[4000000];
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < 2 * COUNT_OF(part); i++) {
        size_t at = i / 2;
        snprintf(one, sizeof one, step[at % COUNT_OF(step)], 0);
        size_t n = (size_t)snprintf(
            text, sizeof text,
            "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"xa\":0},\"unk_token\":\"xa\"},"
            "\"added_tokens\":[%s],\"%s\":{\"type\":\"Sequence\",\"%s\":[",
            added[i % 2], part[at][0], part[at][1]);
        for (int k = 0; k < 12 + (at == 3) * 100; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k ? "," : "", one);
        n += (size_t)snprintf(text + n, sizeof text - n, "]}}");
        const int32_t *ids, id = 0;
        uint64_t bytes = qn->heap.bytes;
        qn_tokenizer *t = qn_tokenizer_open(qn, text, n);
        if (t && at < 4) CHECK_INT(qn_tokenizer_encode(t, "a \xc3\xa9", 4, 0, &ids), -1);
        if (t && at == 4) CHECK(!qn_tokenizer_decode(t, 1, &id, false, NULL));
        CHECK(t || (i % 2 && at < 2));
        CHECK_INT(qn_error_code(qn), t ? QN_ERANGE : QN_EFORMAT);
        if (!strstr(qn_error(qn), "longer by more")) printf("%s\n", qn_error(qn));
        CHECK(strstr(qn_error(qn), "longer by more"));
        CHECK(qn->heap.bytes < bytes + (1 << 25));
        qn_clear_error(qn);
        qn_tokenizer_close(t);
    }
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(gives_the_ids_of_the_package);
    RUN(gguf_and_json_give_the_same);
    RUN(scores_decide_what_merges_first);
    RUN(says_what_it_does_not_know);
    RUN(refuses_bad_arguments);
    RUN(plain_text_spells_no_special_token);
    RUN(plain_text_finds_no_special_token_in_a_model);
    RUN(first_is_what_stands_for_the_first_character);
    RUN(splitters_and_patterns_know_numbers_of_their_own_unicode);
    RUN(an_unknown_token_that_is_none_is_an_error_where_it_is_needed);
    RUN(every_prefix_of_a_file_is_an_error);
    RUN(damaged_files_do_no_harm);
    RUN(out_of_memory_is_an_error_anywhere);
    RUN(long_texts_take_no_square_of_time);
    RUN(steps_cannot_grow_a_text_without_bound);
    RUN(tokens_that_hash_alike_take_no_square_of_time);
    return test_end();
}
