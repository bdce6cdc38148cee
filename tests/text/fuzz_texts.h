/* fuzz_texts.h - tokenizers and chat templates for fuzz_parse: tokenizer.json of every model,
 * normaliser, splitter and decoder, with a text; texts for tokenizers whose decoding gives back
 * what was encoded; templates of the filters, tests and methods that there are, with values. */
#ifndef QN_FUZZ_TEXTS_H
#define QN_FUZZ_TEXTS_H

#include "fuzz.h"
#include "io/io.h"
#include "quern_text.h"
#include "text/text.h"

static inline qn_ctx *fuzz_text_context(void) {
    static qn_ctx *qn;
    if (!qn) qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
    return qn;
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

static inline void check_text(const char *text, size_t size) {
    if (utf8_bad((span){text, size}) != size || text[size]) FOUND("a text that is no UTF-8");
}

/* Encoded in each way, decoded: ids are of the tokenizer, texts are UTF-8. */
static inline void try_text(qn_ctx *qn, qn_tokenizer *t, const char *text, size_t size) {
    int32_t most = qn_tokenizer_size(t), kept[64];
    for (unsigned flags = 0; flags < 4; flags++) {
        const int32_t *ids;
        size_t length;
        int64_t n = qn_tokenizer_encode(t, text, size, flags, &ids);
        if (n < 0 && qn_error_code(qn) != QN_EARG && qn_error_code(qn) != QN_ERANGE)
            FOUND("refused by code %d: %s", qn_error_code(qn), qn_error(qn));
        qn_clear_error(qn);
        int64_t most_kept = n < 64 ? n : 64;
        for (int64_t i = 0; i < n; i++)
            if (ids[i] < 0 || ids[i] >= most) FOUND("id %d of %d", ids[i], most);
        if (n > 0) memcpy(kept, ids, (size_t)most_kept * sizeof *ids);
        for (int64_t i = 0; i < most_kept; i++) qn_tokenizer_token(t, kept[i], NULL);
        const char *back =
            n < 0 ? NULL : qn_tokenizer_decode(t, most_kept, kept, flags & 1, &length);
        if (back) check_text(back, length);
        if (n >= 0 && !back && qn_error_code(qn) != QN_ERANGE)
            FOUND("ids without a text: %s", qn_error(qn));
        qn_clear_error(qn);
        fuzz_seen.lines += n >= 0;
    }
}

/* The file, a line "%", a text. */
static inline void fuzz_tokenizer(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_text_context();
    size_t end = fuzz_divide(data, size), from = fuzz_behind(end, size);
    uint64_t before = qn->heap.bytes;
    qn_tokenizer *t = qn_tokenizer_open(qn, (const char *)data, end);
    if (!t && qn_error_code(qn) != QN_EFORMAT) FOUND("refused by code %d", qn_error_code(qn));
    qn_clear_error(qn);
    if (t) try_text(qn, t, (const char *)data + from, size - from);
    fuzz_seen.accepted += t != NULL;
    qn_tokenizer_close(t);
    if (fuzz_seen.inputs > 4096 && qn->heap.bytes > before + (1 << 16)) FOUND("memory is kept");
}

/* A tokenizer of all bytes, of every splitter that GGUF files name, and one of scores, both with
 * some merges; made once. */
enum { TOKENIZERS = 7 };

static inline qn_tokenizer *byte_tokenizer(qn_ctx *qn, int which) {
    static const char *const pre[] = {"gpt-2",  "llama-bpe", "qwen2", "qwen35",
                                      "gpt-4o", "tekken",    NULL};
    static const char *const more[] = {"th", "he", "in", "the", "er", "11", "\xe2\x96\x81"};
    static const char *const merges[] = {"t h", "h e", "i n", "th e", "e r", "1 1"};
    static char text[3 + 256 + 8][8];
    const char *tokens[3 + 256 + 8];
    float scores[3 + 256 + 8];
    int32_t types[3 + 256 + 8];
    int n = 0, odd = 256;
    for (int i = 0; i < 3; i++) tokens[n++] = (const char *[]){"<unk>", "<s>", "</s>"}[i];
    for (int i = 0; i < 256; i++, n++) { /* GPT-2's letters for bytes */
        bool plain = (i > 32 && i < 127) || (i > 160 && i != 173);
        if (pre[which])
            text[n][utf8_put(plain ? (uint32_t)i : (uint32_t)odd++, text[n])] = 0;
        else
            snprintf(text[n], sizeof text[n], "<0x%02X>", i);
        tokens[n] = text[n];
    }
    for (size_t i = 0; i < COUNT_OF(more); i++) tokens[n++] = more[i];
    for (int i = 0; i < n; i++) {
        scores[i] = (float)-i;
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 && !pre[which] ? 6 : 1;
    }
    return qn_tokenizer_new(
        qn, &QN_VOCABULARY(.model = pre[which] ? "gpt2" : "llama", .pre = pre[which], .n = n,
                           .tokens = tokens, .types = types, .scores = scores,
                           .n_merges = pre[which] ? (int64_t)COUNT_OF(merges) : 0, .merges = merges,
                           .no_space_prefix = true));
}

/* The first byte chooses the tokenizer; of the rest, which may be no UTF-8, comes what went in. */
static inline void fuzz_text(const uint8_t *data, size_t size) {
    static qn_tokenizer *t[TOKENIZERS];
    qn_ctx *qn = fuzz_text_context();
    if (!size) return;
    int which = data[0] % TOKENIZERS;
    if (!t[which]) t[which] = byte_tokenizer(qn, which);
    if (!t[which]) FOUND("no tokenizer %d: %s", which, qn_error(qn));
    const char *text = (const char *)data + 1;
    const int32_t *ids;
    size_t length, n = size - 1;
    bool good = utf8_bad((span){text, n}) == n;
    int64_t count = qn_tokenizer_encode(t[which], text, n, QN_ENCODE_PLAIN, &ids);
    if (good != (count >= 0)) FOUND("%s", good ? qn_error(qn) : "encoded, and no UTF-8");
    if (good) {
        const char *back = qn_tokenizer_decode(t[which], count, ids, false, &length);
        /* U+2581 is a space to those of scores. */
        bool blocks = which == TOKENIZERS - 1 && n && memmem(text, n, "\xe2\x96\x81", 3);
        if (!back || (!blocks && (length != n || memcmp(back, text, n) != 0)))
            FOUND("\"%.*s\" comes back as \"%s\"", (int)n, text, back ? back : qn_error(qn));
        fuzz_seen.compared++;
    }
    qn_clear_error(qn);
    try_text(qn, t[which], text, n);
    fuzz_seen.accepted += good;
}

/* ---- their inputs ---------------------------------------------------------------------------- */

static const char *const text_parts[] = {"the",
                                         " in",
                                         "thing",
                                         "Hello",
                                         " 's",
                                         "'LL",
                                         "'\xc5\xbf",
                                         " ",
                                         "  ",
                                         "\n",
                                         "\r\n",
                                         "\t",
                                         "1",
                                         "1234567",
                                         "\xd9\xa3",
                                         ".",
                                         "!?",
                                         "//",
                                         "_",
                                         "\xe4\xb8\xad\xe6\x96\x87",
                                         "\xc3\x89",
                                         "e\xcc\x81",
                                         "\xc4\xb0",
                                         "\xc3\x9f",
                                         "\xf0\x9f\x98\x80",
                                         "\xe2\x96\x81",
                                         "\xef\xac\x81",
                                         "\xea\xb0\x80",
                                         "\xe1\x84\x80\xe1\x85\xa1",
                                         "\xc2\xa0",
                                         "\xe2\x80\xa8",
                                         "\xc2\xad",
                                         "\xef\xbf\xbd",
                                         "<s>",
                                         "<unk>",
                                         "[UNK]",
                                         "<0x41>",
                                         "##",
                                         "\xcc\xb8\xcc\xa3",
                                         "\xe3\x81\x8b\xe3\x82\x99",
                                         "\xff",
                                         "\xe2\x96"};

static inline void some_words(bytes *b) {
    for (int64_t n = below(14); n > 0; n--)
        add_text(b, text_parts[below(COUNT_OF(text_parts) - (chance(3) ? 0 : 2))]);
    if (b->n > 2 && chance(5)) change_binary(b);
}

static inline void some_text(bytes *b) {
    static bytes words_;
    words_.n = 0;
    some_words(&words_);
    add_number(b, (uint64_t)below(TOKENIZERS), 1);
    add_bytes(b, words_.at, words_.n);
}

static const char *const normalizer_texts[] = {
    "{\"type\":\"NFC\"}",
    "{\"type\":\"NFD\"}",
    "{\"type\":\"NFKC\"}",
    "{\"type\":\"NFKD\"}",
    "{\"type\":\"Lowercase\"}",
    "{\"type\":\"StripAccents\"}",
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
    "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"  \"}",
    "{\"type\":\"BertNormalizer\",\"handle_chinese_chars\":true,\"lowercase\":true}"};
static const char *const splitter_texts[] = {
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}",
    "{\"type\":\"BertPreTokenizer\"}",
    "{\"type\":\"Whitespace\"}",
    "{\"type\":\"WhitespaceSplit\"}",
    "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}",
    "{\"type\":\"Digits\",\"individual_digits\":true}",
    "{\"type\":\"Split\",\"pattern\":{\"String\":\"e\"},\"behavior\":\"MergedWithPrevious\","
    "\"invert\":false}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\"}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"behavior\":\"Removed\",\"invert\":"
    "true}",
    "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"1\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"always\","
    "\"split\":true}"};
static const char *const decoder_texts[] = {
    "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"ByteFallback\"}",
    "{\"type\":\"Fuse\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\"}",
    "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
    "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"}",
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":2}"};
static const char *const model_texts[] = {
    "{\"type\":\"BPE\",\"vocab\":{\"t\":0,\"h\":1,\"e\":2,\"th\":3,\"the\":4,\"\\u0120\":5,\"i\":6,"
    "\"n\":7,\"in\":8},\"merges\":[\"t h\",[\"th\",\"e\"],\"i n\"],\"unk_token\":null}",
    "{\"type\":\"BPE\",\"vocab\":{\"<unk>\":0,\"a\":1,\"<0x41>\":2,\"<0xC3>\":3,\"l</"
    "w>\":4,\"e\":5,"
    "\"el</w>\":6},\"merges\":[\"e l</w>\"],\"unk_token\":\"<unk>\",\"byte_fallback\":true,"
    "\"fuse_unk\":true,\"end_of_word_suffix\":\"</w>\",\"ignore_merges\":true}",
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\xe2\x96\x81\",-1.5],[\"the\",-"
    "2],"
    "[\"e\",-3],[\"in\",-2.5],[\"<0xE4>\",-9]],\"byte_fallback\":true}",
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":9,\"vocab\":{\"[UNK]\":0,\"the\":1,\"##in\":2,\"##g\":3,\"th\":4}"
    "}",
    "{\"type\":\"WordLevel\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,\"the\":1,\"1\":2}}"};
static const char *const around_texts[] = {
    "null", "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{"
    "\"Sequence\":{"
    "\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}}",
    "{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],\"sep\":[\"b\",2]}",
    "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],"
    "\"sep\":"
    "[\"b\",3]}]}"};
static const char *const added_texts[] = {
    "{\"id\":0,\"content\":\"<s>\",\"special\":true}",
    "{\"id\":20,\"content\":\"in\",\"single_word\":true,\"normalized\":true}",
    "{\"id\":21,\"content\":\" \",\"lstrip\":true,\"rstrip\":true,\"special\":false}",
    "{\"id\":9,\"content\":\"the \",\"lstrip\":true,\"normalized\":false}"};

/* null, one, or a Sequence of them. */
static inline void add_steps(bytes *b, const char *list, const char *const *text, int texts) {
    int64_t n = below(4);
    if (n > 1) {
        add_text(b, "{\"type\":\"Sequence\",\"");
        add_text(b, list);
        add_text(b, "\":[");
    }
    for (int64_t i = 0; i < n; i++) {
        if (i) add_text(b, ",");
        add_text(b, text[below(texts)]);
    }
    add_text(b, n > 1 ? "]}" : n ? "" : "null");
}

static inline void some_tokenizer(bytes *b) {
    static const char *const word[] = {"type",     "vocab", "merges", "the",   "Regex",
                                       "String",   "null",  "true",   "false", "ByteLevel",
                                       "Isolated", "u2581", "never"};
    static bytes words_;
    add_text(b, "{\"added_tokens\":[");
    for (int64_t n = below(3), i = 0; i < n; i++) {
        if (i) add_text(b, ",");
        add_text(b, added_texts[below(COUNT_OF(added_texts))]);
    }
    add_text(b, "],\"normalizer\":");
    add_steps(b, "normalizers", normalizer_texts, COUNT_OF(normalizer_texts));
    add_text(b, ",\"pre_tokenizer\":");
    add_steps(b, "pretokenizers", splitter_texts, COUNT_OF(splitter_texts));
    add_text(b, ",\"post_processor\":");
    add_text(b, around_texts[below(COUNT_OF(around_texts))]);
    add_text(b, ",\"decoder\":");
    add_steps(b, "decoders", decoder_texts, COUNT_OF(decoder_texts));
    add_text(b, ",\"model\":");
    add_text(b, model_texts[below(COUNT_OF(model_texts))]);
    add_text(b, "}");
    if (chance(50)) mutate(b, &CORPUS(model_texts, word));
    add_text(b, "\n%\n");
    words_.n = 0;
    some_words(&words_);
    add_bytes(b, words_.at, words_.n);
}

/* ---- chat templates -------------------------------------------------------------------------- */

/* The template, a line "%", its variables. What is rendered is UTF-8, and the same twice. */
static inline void fuzz_template(const uint8_t *data, size_t size) {
    qn_ctx *qn = fuzz_text_context();
    size_t end = fuzz_divide(data, size), from = fuzz_behind(end, size), length, again;
    uint64_t before = qn->heap.bytes;
    const char *values = (const char *)data + from;
    qn_template *t = qn_template_new(qn, (const char *)data, end);
    if (!t && qn_error_code(qn) != QN_EFORMAT) FOUND("refused by code %d", qn_error_code(qn));
    const char *text = t ? qn_template_render(t, values, size - from, &length) : NULL;
    qn_code code = qn_error_code(qn);
    if (t && !text && code != QN_EARG && code != QN_EFORMAT)
        FOUND("refused by code %d: %s", code, qn_error(qn));
    if (!text && !strstr(qn_error(qn), "template")) FOUND("an error of none: %s", qn_error(qn));
    qn_clear_error(qn);
    if (text) {
        check_text(text, length);
        char *copy = memcpy(malloc(length + 1), text, length + 1);
        text = qn_template_render(t, values, size - from, &again);
        if (!text || again != length || memcmp(text, copy, length) != 0) FOUND("another text");
        free(copy);
    }
    fuzz_seen.lines += t != NULL;
    fuzz_seen.accepted += text != NULL;
    qn_template_free(t);
    if (fuzz_seen.inputs > 4096 && qn->heap.bytes > before + (1 << 16)) FOUND("memory is kept");
}

static const char *const template_texts[] = {
    "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content }}{% if loop.last %}!{% else "
    "%}\n"
    "{% endif %}{% endfor %}{% if add %}x{% endif %}",
    "{%- set ns = namespace(n=0, s='') %}{%- for m in messages[::-1] %}{%- set ns.n = ns.n + "
    "loop.index0 %}{% set ns.s = ns.s ~ ('\xc3\xa9' ~ m['role'])[:2] %}{%- endfor %}\n{{ ns.s }}{{ "
    "ns.n }}",
    "{% macro shout(text, end='!') -%}{{ text|upper }}{{ end }}{%- endmacro %}{{ shout('a') }}\n"
    "{{ shout(end='?', text='x') }}",
    "{% for k, v in {'b': 1, 'a': [2, none]}|dictsort %}{{ k }}={{ v }};{{ loop.revindex }}\n"
    "{% else %}no{% endfor %}",
    "{{ messages|map(attribute='role')|join(', ') }} {{ messages|selectattr('role', 'equalto', "
    "'user')|list|length }}\n{{ [3, 1, 2]|sort(reverse=true) }} {{ [1, 1, 2]|unique|list }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a '.strip() }} {{ 'aXbX'.replace('X', '--', 1) }}\n"
    "{{ 'hello wORLD'|title }} {{ 'abc'.find('c') }} {{ 'abc'.endswith(('x', 'c')) }}",
    "{{ tools|tojson(indent=2) }} {{ {'a': 1}.get('b', 5) }} {{ 'x\"\xc3\xa9'|tojson }}\n"
    "{{ 7 // 2 * 1.5 - 3 % 2 }} {{ -7 // 2 }} {{ 1 / 4 }}",
    "{% set t %}a {{ 1 }} b{% endset %}[{{ t }}]{% set a, b = 1, 'q' %}{{ b * 3 }}\n"
    "{{ 'x' is string and 3 is odd or none is not none }} {{ 'a' in 'abc' }} {{ 1 in [1.0] }}",
    "{% for i in range(9) if i % 2 %}{% if i > 4 %}{% break %}{% elif i == 3 %}{% continue %}"
    "{% endif %}\n{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{% endfor %}",
    "{{ 'a\nb'|indent(2, true) }} {{ '12'|int + 1 }} {{ '1.5'|float }} {{ [1,2]|first }}\n"
    "{{ (1, 2)|last }} {{ 'ab\xc3\xa9'|reverse }} {{ 'x'|default('d', true) }} {{ -3|abs }}",
    "{%- generation -%}x{%- endgeneration -%}{# comment #}\n{{- raise_exception('no') if false }}",
};

static inline void some_template(bytes *b) {
    static const char *const values[] = {
        ("{\"messages\":[{\"role\":\"user\",\"content\":\"a\\n\\u00e9\"},{\"role\":\"assistant\","
         "\"content\":null}],\"add\":true,\"tools\":[{\"f\":{\"x\":1.5}}]}"),
        "{\"messages\":[],\"tools\":null}", "{}"};
    static const char *const word[] = {
        "trim",         "upper",    "lower",    "title",  "capitalize",  "replace",
        "string",       "tojson",   "indent",   "int",    "float",       "abs",
        "length",       "count",    "first",    "last",   "list",        "join",
        "items",        "dictsort", "reverse",  "unique", "default",     "safe",
        "sort",         "map",      "select",   "reject", "selectattr",  "rejectattr",
        "defined",      "none",     "boolean",  "number", "mapping",     "sequence",
        "iterable",     "callable", "odd",      "even",   "divisibleby", "eq",
        "in",           "not",      "and",      "or",     "is",          "if",
        "elif",         "else",     "endif",    "for",    "endfor",      "set",
        "endset",       "macro",    "endmacro", "range",  "namespace",   "dict",
        "loop",         "messages", "role",     "split",  "strip",       "rstrip",
        "startswith",   "keys",     "values",   "get",    "attribute",   "index0",
        "true",         "false",    "m",        "ns",     "lipsum",      "cycler",
        "strftime_now", "-",        "%}",       "{{",     "{%",          "}}"};
    static bytes vars;
    for (int64_t n = 1 + below(2); n > 0; n--) {
        const char *text = template_texts[below(COUNT_OF(template_texts))];
        add_text(b, text);
    }
    if (chance(85)) mutate(b, &CORPUS(template_texts, word));
    vars.n = 0;
    add_text(&vars, values[below(COUNT_OF(values))]);
    if (chance(20)) mutate(&vars, &CORPUS(values, word));
    add_text(b, "\n%\n");
    add_bytes(b, vars.at, vars.n);
}

#endif
