/* split.c - how a normalised text becomes words: one function a pre-tokenizer of tokenizer.json.
 *
 * A splitter finds separators in a piece, and its behaviour says what becomes of them: dropped,
 * pieces of their own, part of the piece before or behind. */
#include "text/text.h"

typedef enum behaviour { REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS } behaviour;
static const char *const behaviour_names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                              "MergedWithNext", "Contiguous"};

/* Pieces as separators are found, from left to right. */
typedef struct splitting {
    piece_list *out;
    piece in;
    behaviour how;
    bool invert;      /* separators are words, and the other way round */
    size_t begin, at; /* of the piece that may still grow; how far the text is looked at */
    bool last, any;   /* was what came last a separator; did anything come */
} splitting;

static void flush(splitting *s, size_t end) {
    span text = {s->in.text.s + s->begin, end - s->begin};
    piece_add(s->out, text, -1, first_from(s->in, s->begin));
    s->begin = end;
}

/* The text from s->at up to `end` is a separator, or is none. */
static void found(splitting *s, size_t end, bool separator) {
    if (end == s->at) return;
    separator ^= s->invert;
    size_t at = s->at;
    s->at = end;
    bool joins = s->how == CONTIGUOUS      ? s->any && separator == s->last
                 : s->how == WITH_PREVIOUS ? separator && s->any && !s->last
                 : s->how == WITH_NEXT     ? !separator && s->any && s->last
                                           : false;
    if (!joins) flush(s, at);
    if (s->how == REMOVED && separator) s->begin = end;
    s->last = separator;
    s->any = true;
}

static void split_end(splitting *s) {
    found(s, s->in.text.n, false);
    flush(s, s->in.text.n);
}

/* Characters that are separators, one by one. */
static void split_chars(splitting s, bool (*is)(uint32_t c)) {
    span text = s.in.text;
    for (size_t at = 0, n; at < text.n; at += n) {
        if (!is(utf8_next(text.s + at, &n))) continue;
        found(&s, at, false);
        found(&s, at + n, true);
    }
    split_end(&s);
}

static void split_pattern(splitting s, const pattern_row *pattern) {
    span text = s.in.text;
    for (size_t at = 0, n; at < text.n; at += n) {
        n = pattern_match(pattern, text, at);
        if (n) {
            found(&s, at, false);
            found(&s, at + n, true);
        } else {
            n = utf8_length_at(text.s + at);
        }
    }
    split_end(&s);
}

static void split_text(splitting s, span separator) {
    span text = s.in.text;
    const char *hit = NULL;
    for (size_t at = 0;
         at < text.n && (hit = memmem(text.s + at, text.n - at, separator.s, separator.n));) {
        at = (size_t)(hit - text.s);
        found(&s, at, false);
        found(&s, at += separator.n, true);
    }
    split_end(&s);
}

static uint8_t read_behaviour(const text_loader *l, const json *v, const char *key,
                              behaviour usual) {
    if (!json_member(v, key)) return (uint8_t)usual;
    span name = load_text(l, v, key);
    for (size_t i = 0; i < COUNT_OF(behaviour_names); i++)
        if (strcmp(name.s, behaviour_names[i]) == 0) return (uint8_t)i;
    load_bad(l, v, "the behavior \"%.40s\" is not known", name.s);
}

/* ---- bytes as letters ------------------------------------------------------------------------ */

/* GPT-2's: bytes that can be seen stand for themselves, the others are from U+0100 on. */
static uint32_t byte_letter(unsigned byte) {
    bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    if (seen) return byte;
    return 0x100 + (byte <= ' ' ? byte : byte <= 0xa0 ? byte - 0x7f + 33 : 67);
}

static void byte_level_read(const text_loader *l, const json *v, text_step *s) {
    s->flag[0] = load_flag(l, v, "add_prefix_space", true);
    s->flag[1] = load_flag(l, v, "use_regex", true);
}

static span to_letters(text_work *w, span text) {
    char *out = arena_alloc(w->a, text.n * 2 + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += utf8_put(byte_letter((unsigned char)text.s[i]), out + n);
    work_grow(w, text.n, n);
    return (span){out, n};
}

static void byte_level_split(const text_step *s, piece_list *out, piece in) {
    uint32_t from = out->n;
    if (s->flag[0] && in.text.s[0] != ' ') {
        in.text = work_join(out->work, SPAN(" "), in.text);
        in.first += in.first > 0;
    }
    if (s->flag[1])
        split_pattern((splitting){out, in, ISOLATED, .at = 0}, pattern_named("gpt-2"));
    else
        piece_add(out, in.text, -1, in.first);
    for (; from < out->n; from++) {
        piece *p = &out->at[from];
        if (p->first) p->first = to_letters(out->work, (span){p->text.s, p->first}).n;
        p->text = to_letters(out->work, p->text);
    }
}

/* ---- the others ----------------------------------------------------------------------------- */

static bool is_punctuation(uint32_t c) {
    return char_in(c, SET_PUNCTUATION);
}
static bool is_number(uint32_t c) {
    return char_in(c, SET_NUMERIC);
}

static void bert_split(const text_step *s, piece_list *out, piece in) {
    piece_list words = {out->work, .a = out->a};
    (void)s;
    split_chars((splitting){&words, in, REMOVED, .at = 0}, char_is_space);
    for (uint32_t i = 0; i < words.n; i++)
        split_chars((splitting){out, words.at[i], ISOLATED, .at = 0}, is_punctuation);
}

/* \w+|[^\w\s]+ */
static void whitespace_split(const text_step *s, piece_list *out, piece in) {
    size_t begin = 0;
    int last = 0; /* 0 white space, 1 a word, 2 something else */
    (void)s;
    for (size_t at = 0, n; at < in.text.n; at += n) {
        uint32_t c = utf8_next(in.text.s + at, &n);
        int kind = char_is_word(c) ? 1 : char_is_space(c) ? 0 : 2;
        if (kind == last) continue;
        span word = {in.text.s + begin, at - begin};
        if (last) piece_add(out, word, -1, first_from(in, begin));
        begin = at;
        last = kind;
    }
    if (last) piece_add(out, span_from(in.text, begin), -1, first_from(in, begin));
}

static void spaces_split(const text_step *s, piece_list *out, piece in) {
    (void)s;
    split_chars((splitting){out, in, REMOVED, .at = 0}, char_is_space);
}

static void punctuation_read(const text_loader *l, const json *v, text_step *s) {
    s->behaviour = read_behaviour(l, v, "behavior", ISOLATED);
}
static void punctuation_split(const text_step *s, piece_list *out, piece in) {
    split_chars((splitting){out, in, (behaviour)s->behaviour, .at = 0}, is_punctuation);
}

static void digits_read(const text_loader *l, const json *v, text_step *s) {
    s->behaviour = load_flag(l, v, "individual_digits", false) ? ISOLATED : CONTIGUOUS;
}
static void digits_split(const text_step *s, piece_list *out, piece in) {
    split_chars((splitting){out, in, (behaviour)s->behaviour, .at = 0}, is_number);
}

static void split_read(const text_loader *l, const json *v, text_step *s) {
    const json *pattern = load_member(l, v, "pattern", JSON_OBJECT);
    s->behaviour = read_behaviour(l, v, "behavior", ISOLATED);
    s->flag[0] = load_flag(l, v, "invert", false);
    if (json_member(pattern, "String")) {
        s->from = load_text(l, pattern, "String");
        if (s->from.n == 0) load_bad(l, v, "an empty separator");
        return;
    }
    span regex = load_text(l, pattern, "Regex");
    s->pattern = pattern_of(regex);
    if (!s->pattern) load_bad(l, pattern, "to split by \"%.200s\" is not known", regex.s);
}
static void split_split(const text_step *s, piece_list *out, piece in) {
    splitting how = {out, in, (behaviour)s->behaviour, .invert = s->flag[0]};
    if (s->pattern)
        split_pattern(how, s->pattern);
    else
        split_text(how, s->from);
}

static void delimiter_read(const text_loader *l, const json *v, text_step *s) {
    s->from = load_text(l, v, "delimiter");
    if (s->from.n == 0) load_bad(l, v, "an empty separator");
}
static void delimiter_split(const text_step *s, piece_list *out, piece in) {
    split_text((splitting){out, in, REMOVED, .at = 0}, s->from);
}

/* SentencePiece's: spaces are a letter, which words begin with. */
enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

static void metaspace_read(const text_loader *l, const json *v, text_step *s) {
    s->from = load_text(l, v, "replacement");
    if (s->from.n == 0) load_bad(l, v, "an empty replacement");
    s->flag[0] = load_flag(l, v, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (json_member(v, "prepend_scheme")) {
        span scheme = load_text(l, v, "prepend_scheme");
        s->flag[0] = span_is(scheme, SPAN("always"))  ? PREPEND_ALWAYS
                     : span_is(scheme, SPAN("first")) ? PREPEND_FIRST
                                                      : PREPEND_NEVER;
        if (!s->flag[0] && !span_is(scheme, SPAN("never")))
            load_bad(l, v, "the prepend_scheme \"%.40s\" is not known", scheme.s);
    }
    s->flag[1] = load_flag(l, v, "split", true);
}
static void metaspace_split(const text_step *s, piece_list *out, piece in) {
    if (in.first) /* it begins with a whole character's bytes */
        in.first = work_replace(out->work, (span){in.text.s, in.first}, SPAN(" "), s->from).n;
    in.text = work_replace(out->work, in.text, SPAN(" "), s->from);
    bool wants = s->flag[0] == PREPEND_ALWAYS || (s->flag[0] == PREPEND_FIRST && in.first > 0);
    if (wants && !span_begins(in.text, s->from)) {
        in.text = work_join(out->work, s->from, in.text);
        in.first += in.first ? s->from.n : 0;
    }
    if (s->flag[1])
        split_text((splitting){out, in, WITH_NEXT, .at = 0}, s->from);
    else
        piece_add(out, in.text, -1, in.first);
}

const step_row *splitter_rows(void) {
    static const step_row rows[] = {
        {"ByteLevel", byte_level_read, {.split = byte_level_split}},
        {"BertPreTokenizer", NULL, {.split = bert_split}},
        {"Whitespace", NULL, {.split = whitespace_split}},
        {"WhitespaceSplit", NULL, {.split = spaces_split}},
        {"Punctuation", punctuation_read, {.split = punctuation_split}},
        {"Digits", digits_read, {.split = digits_split}},
        {"Split", split_read, {.split = split_split}},
        {"CharDelimiterSplit", delimiter_read, {.split = delimiter_split}},
        {"Metaspace", metaspace_read, {.split = metaspace_split}},
        {NULL, NULL, {NULL}},
    };
    return rows;
}
