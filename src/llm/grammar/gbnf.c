/* gbnf.c - grammars in the notation that llama.cpp's users know.
 *
 *     # a comment
 *     root  ::= "yes" | "no" " " words{1,3}
 *     words ::= [a-zA-Z] [^ \n]* " "?
 *
 * A rule is its name, `::=` and choices between sequences of texts in quotes, sets of characters
 * in brackets, `.` for any character, names of rules and groups in parentheses, each of which may
 * be repeated: `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`. It ends with its line, but within a group,
 * behind `::=` and around `|`. Escapes are \n \r \t \\ \" \[ \] \- \^, \xHH, \uHHHH and
 * \UHHHHHHHH. A text begins at the rule `root`. */
#include "llm/grammar/grammar.h"

#include <stdio.h>

enum { REPEATS_MOST = 8 };

typedef struct reader {
    draft *d;
    const char *s;
    size_t at, size;
    int depth;
} reader;

static node read_choices(reader *r);

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The next byte, -1 at the end. */
static int peek(const reader *r) {
    return r->at < r->size ? (unsigned char)r->s[r->at] : -1;
}

static bool takes(reader *r, const char *what) {
    size_t n = strlen(what);
    if (r->size - r->at < n || memcmp(r->s + r->at, what, n) != 0) return false;
    r->at += n;
    return true;
}

/* What stands at byte `at`, for a message. */
static const char *found(const reader *r, size_t at, char out[16]) {
    if (at >= r->size) return "the end";
    if (r->s[at] == '\n') return "the end of the line";
    if ((unsigned char)r->s[at] < 32) return "a control character";
    int n = text_character(r->s + at);
    snprintf(out, 16, "\"%.*s\"", n > 0 ? n : 1, r->s + at);
    return out;
}

QN_NORETURN static void unexpected(const reader *r, const char *wanted) {
    char text[16];
    draft_bad(r->d, r->at, "%s, where %s is wanted", found(r, r->at, text), wanted);
}

static void skip_space(reader *r, bool lines) {
    for (int c; (c = peek(r)) >= 0; r->at++) {
        if (c == '#')
            while (peek(r) >= 0 && peek(r) != '\n') r->at++;
        c = peek(r);
        if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) {
            if (c == '\r' && r->at + 1 < r->size && r->s[r->at + 1] == '\n') continue;
            break;
        }
    }
}

static bool in_name(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Nothing: there is none. */
static span read_name(reader *r) {
    size_t from = r->at;
    while (in_name(peek(r))) r->at++;
    return (span){r->s + from, r->at - from};
}

/* ---- characters ------------------------------------------------------------------------------ */

static uint32_t read_hex(reader *r, int digits, size_t from) {
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int d = peek(r), value = d >= '0' && d <= '9'                 ? d - '0'
                                 : (d | 32) >= 'a' && (d | 32) <= 'f' ? (d | 32) - 'a' + 10
                                                                      : -1;
        if (value < 0)
            draft_bad(r->d, from, "an escape of fewer than %d hexadecimal digits", digits);
        c = c << 4 | (uint32_t)value;
    }
    return c;
}

/* One character of a text or a set, behind a backslash or as itself. */
static uint32_t read_character(reader *r) {
    static const char from[] = "nrt\\\"[]-^", to[] = "\n\r\t\\\"[]-^";
    size_t at = r->at, n;
    uint32_t c;
    if (peek(r) != '\\') {
        c = utf8_next(r->s + at, &n);
        r->at += n;
        return c;
    }
    r->at++;
    int e = peek(r);
    const char *known = e > 0 ? strchr(from, e) : NULL;
    r->at++;
    if (known) return (uint8_t)to[known - from];
    if (e != 'x' && e != 'u' && e != 'U') {
        char text[16];
        draft_bad(r->d, at, "an escape that is not known: \\ and %s", found(r, at + 1, text));
    }
    c = read_hex(r, e == 'x' ? 2 : e == 'u' ? 4 : 8, at);
    if (c == 0 || c > CHARACTER_MOST || (c >= 0xd800 && c <= 0xdfff))
        draft_bad(r->d, at, "U+%04X, which is no character of a text", c);
    return c;
}

static node read_text(reader *r) {
    size_t from = r->at++;
    str text;
    str_open_in(&text, r->d->a);
    while (peek(r) != '"') {
        char bytes[4];
        if (peek(r) < 0) draft_bad(r->d, from, "a text without an end");
        str_addn(&text, bytes, utf8_put(read_character(r), bytes));
    }
    r->at++;
    return draft_bytes(r->d, text.s, text.len);
}

static node read_set(reader *r) {
    size_t from = r->at++;
    char_list set = {0};
    bool inverted = takes(r, "^");
    while (peek(r) != ']') {
        if (peek(r) < 0) draft_bad(r->d, from, "a set without an end");
        size_t at = r->at;
        uint32_t lo = read_character(r), hi = lo;
        bool range = peek(r) == '-' && r->at + 1 < r->size && r->s[r->at + 1] != ']';
        if (range) {
            r->at++;
            hi = read_character(r);
        }
        if (hi < lo) draft_bad(r->d, at, "a range whose end comes before its begin");
        set_add(&set, r->d->a, lo, hi);
    }
    r->at++;
    if (inverted) set_invert(&set, r->d->a);
    if (!set.n) draft_bad(r->d, from, "a set of no characters");
    return draft_set(r->d, &set);
}

/* ---- what sequences are made of -------------------------------------------------------------- */

static int64_t read_times(reader *r) {
    int64_t n = 0;
    size_t from = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') {
        n = 10 * n + (peek(r) - '0');
        r->at++;
        if (n > GRAMMAR_TIMES_MOST)
            draft_bad(r->d, from, "a repetition of more than %d times", GRAMMAR_TIMES_MOST);
    }
    if (r->at == from) unexpected(r, "a number");
    return n;
}

/* `{`..`}` behind what is repeated. */
static node read_braces(reader *r, node of) {
    size_t from = r->at++;
    skip_space(r, true);
    int64_t least = read_times(r), most = least;
    skip_space(r, true);
    if (takes(r, ",")) {
        skip_space(r, true);
        most = peek(r) == '}' ? ENDLESS : read_times(r);
        skip_space(r, true);
    }
    if (!takes(r, "}")) unexpected(r, "\"}\"");
    if (most != ENDLESS && most < least)
        draft_bad(r->d, from, "a repetition of %lld times at least and %lld at most",
                  (long long)least, (long long)most);
    return draft_repeat(r->d, of, least, most);
}

static node read_repeats(reader *r, node of) {
    size_t from = r->at;
    for (int n = 0;; n++) {
        if (n > REPEATS_MOST)
            draft_bad(r->d, from, "repetitions of repetitions, more than %d", REPEATS_MOST);
        if (takes(r, "*"))
            of = draft_repeat(r->d, of, 0, ENDLESS);
        else if (takes(r, "+"))
            of = draft_repeat(r->d, of, 1, ENDLESS);
        else if (takes(r, "?"))
            of = draft_repeat(r->d, of, 0, 1);
        else if (peek(r) == '{')
            of = read_braces(r, of);
        else
            return of;
    }
}

static node read_group(reader *r) {
    size_t from = r->at++;
    if (++r->depth > GRAMMAR_NESTED_MOST)
        draft_bad(r->d, from, "groups in groups, more than %d deep", GRAMMAR_NESTED_MOST);
    skip_space(r, true);
    node x = read_choices(r);
    if (peek(r) < 0) draft_bad(r->d, from, "a group without an end");
    if (!takes(r, ")")) unexpected(r, "\")\"");
    r->depth--;
    return x;
}

static node read_any(reader *r) {
    char_list all = {0};
    r->at++;
    set_invert(&all, r->d->a);
    return draft_set(r->d, &all);
}

static node read_call(reader *r) {
    size_t at = r->at;
    span name = read_name(r);
    const char *shown = arena_printf(r->d->a, "%.*s", (int)name.n, name.s);
    return draft_call(r->d, draft_rule_of(r->d, name, shown, at));
}

/* false: a sequence ends here. */
static bool read_item(reader *r, node *out) {
    int c = peek(r);
    if (c == '"')
        *out = read_text(r);
    else if (c == '[')
        *out = read_set(r);
    else if (c == '(')
        *out = read_group(r);
    else if (c == '.')
        *out = read_any(r);
    else if (in_name(c))
        *out = read_call(r);
    else
        return false;
    *out = read_repeats(r, *out);
    return true;
}

static node read_sequence(reader *r) {
    node_list list = {0};
    node x;
    while (read_item(r, &x)) {
        node_add(&list, r->d->a, x);
        skip_space(r, r->depth > 0);
        if (strchr("*+?{", peek(r)) && peek(r) > 0) unexpected(r, "what is repeated before it");
    }
    return draft_list(r->d, NODE_SEQUENCE, list.n, list.at);
}

/* At a line's end: does the rule go on with a `|`? */
static bool goes_on(reader *r) {
    size_t at = r->at;
    skip_space(r, true);
    if (peek(r) == '|') return true;
    r->at = at;
    return false;
}

static node read_choices(reader *r) {
    node_list list = {0};
    for (;;) {
        node_add(&list, r->d->a, read_sequence(r));
        if (!goes_on(r)) break;
        r->at++;
        skip_space(r, true);
    }
    return draft_list(r->d, NODE_CHOICE, list.n, list.at);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void read_rule(reader *r) {
    size_t at = r->at;
    span name = read_name(r);
    if (!name.n) unexpected(r, "a rule's name");
    const char *shown = arena_printf(r->d->a, "%.*s", (int)name.n, name.s);
    uint32_t rule = draft_rule_of(r->d, name, shown, at);
    if (r->d->rule[rule].made) draft_bad(r->d, at, "rule %.60s is there already", shown);
    skip_space(r, false);
    if (!takes(r, "::=")) unexpected(r, "\"::=\"");
    skip_space(r, true);
    node body = read_choices(r);
    r->d->rule[rule].body = body;
    r->d->rule[rule].made = true;
    r->d->rule[rule].at = at;
    skip_space(r, false);
    if (peek(r) >= 0 && peek(r) != '\n') unexpected(r, "the end of the rule");
}

void gbnf_read(draft *d) {
    reader r = {.d = d, .s = d->text, .size = d->size};
    size_t bad = utf8_bad((span){d->text, d->size});
    if (bad < d->size) draft_bad(d, bad, "bytes that are not UTF-8");
    for (skip_space(&r, true); r.at < r.size; skip_space(&r, true)) read_rule(&r);
    for (uint32_t i = 0; i < d->rules; i++)
        if (!d->rule[i].made)
            draft_bad(d, d->rule[i].at, "there is no rule %.60s", d->rule[i].name);
    uint32_t known = d->rules;
    d->root = draft_rule_of(d, SPAN("root"), "root", d->size);
    if (d->rules > known) draft_bad(d, d->size, "there is no rule root");
}
