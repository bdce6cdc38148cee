/* parse.c - a template's text as nodes.
 *
 * Outside of tags all is text, but for white space: the newline behind a block's tag goes, so do
 * the spaces before one that stands first in its line, and a minus in a tag takes all white space
 * on its side (Jinja's trim_blocks and lstrip_blocks, which models' templates are written for).
 * Inside, expressions by recursive descent, in Jinja's order of precedence. */
#include "text/template/template.h"

#include <stdlib.h>

typedef enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_SIGN
} token_kind;
typedef struct token {
    token_kind kind;
    span s; /* a string's with its escapes resolved */
} token;
typedef struct parser {
    qn_ctx *qn;
    arena *a;
    span text;
    size_t at;
    int line, depth;
    bool line_begins; /* nothing of its line stands before `at` */
    bool strip;       /* the tag before ends with a minus */
    token now;
} parser;

QN_NORETURN static void bad(const parser *p, const char *what, span s) {
    raise_error(p->qn, QN_EFORMAT, "template: line %d: %s%s%.*s%s", p->line, what, s.n ? " \"" : "",
                (int)(s.n < 40 ? s.n : 40), s.n ? s.s : "", s.n ? "\"" : "");
}

static node *make(parser *p, node_kind kind) {
    node *n = arena_zeroed(p->a, sizeof *n);
    n->kind = kind;
    n->line = p->line;
    return n;
}

static void enter(parser *p) {
    if (++p->depth > DEPTH_MOST) bad(p, "nested too deeply", SPAN(""));
}

/* ---- tokens in a tag ------------------------------------------------------------------------ */

static bool is_space(char c) {
    return c == ' ' || (c >= 9 && c <= 13);
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}
static bool looking_at(const parser *p, const char *s) {
    return span_begins(span_from(p->text, p->at), (span){s, strlen(s)});
}

static void advance(parser *p, size_t n) {
    for (; n--; p->at++) p->line += p->text.s[p->at] == '\n';
}

/* What stands behind a backslash at p->at, as Python's unicode-escape has it; 0: nothing known.
 * p->at is left at the last character of it. */
static size_t read_escape(parser *p, char *out) {
    static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
    char kind = p->text.s[p->at + 1];
    const char *known = kind ? strchr(from, kind) : NULL;
    if (known) {
        advance(p, 1);
        *out = to[known - from];
        return 1;
    }
    bool octal = kind >= '0' && kind <= '7';
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : octal ? 3 : 0, read = 0;
    if (!digits && kind != 'N') return 0;
    uint32_t c = 0;
    advance(p, octal ? 0 : 1);
    for (; read < digits && p->at + 1 < p->text.n; read++, advance(p, 1)) {
        char digit = p->text.s[p->at + 1];
        uint32_t is = is_digit(digit) ? (uint32_t)(digit - '0')
                      : (digit | 32) >= 'a' && (digit | 32) <= 'f'
                          ? (uint32_t)((digit | 32) - 'a' + 10)
                          : 16;
        if (is >= (octal ? 8u : 16u)) break;
        c = c * (octal ? 8 : 16) + is;
    }
    if (kind == 'N' || (!octal && read < digits) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        bad(p, "an escape that is no character", SPAN(""));
    return utf8_put(c, out);
}

static void read_string(parser *p) {
    char quote = p->text.s[p->at], *out = arena_alloc(p->a, p->text.n - p->at + 4);
    size_t n = 0;
    for (advance(p, 1); p->at < p->text.n && p->text.s[p->at] != quote; advance(p, 1)) {
        char c = p->text.s[p->at];
        size_t made = c == '\\' && p->at + 1 < p->text.n ? read_escape(p, out + n) : 0;
        if (!made) out[n++] = c;
        n += made;
    }
    if (p->at >= p->text.n) bad(p, "a string without an end", SPAN(""));
    advance(p, 1);
    p->now = (token){TOKEN_STRING, span_copy(p->a, (span){out, n})};
}

static void next(parser *p) {
    static const char *const signs[] = {
        "-%}", "-}}", "+%}", "%}", "}}", "==", "!=", "<=", ">=", "//", "**"};
    while (p->at < p->text.n && is_space(p->text.s[p->at])) advance(p, 1);
    size_t begin = p->at, end = begin;
    const char *s = p->text.s;
    p->now = (token){TOKEN_END, SPAN("")};
    if (begin >= p->text.n) return;
    if (s[begin] == '"' || s[begin] == '\'') {
        read_string(p);
        return;
    }
    if (is_letter(s[begin])) {
        while (end < p->text.n && (is_letter(s[end]) || is_digit(s[end]))) end++;
        p->now.kind = TOKEN_NAME;
    } else if (is_digit(s[begin])) {
        while (end < p->text.n && is_digit(s[end])) end++;
        p->now.kind = TOKEN_INT;
        if (end + 1 < p->text.n && s[end] == '.' && is_digit(s[end + 1])) {
            for (end++; end < p->text.n && is_digit(s[end]);) end++;
            p->now.kind = TOKEN_FLOAT;
        }
        size_t power = end + 1;
        if (power < p->text.n && (s[power] == '-' || s[power] == '+')) power++;
        if (power < p->text.n && (s[end] | 32) == 'e' && is_digit(s[power])) {
            for (end = power; end < p->text.n && is_digit(s[end]);) end++;
            p->now.kind = TOKEN_FLOAT;
        }
    } else {
        end = begin + 1;
        for (size_t i = 0; i < COUNT_OF(signs) && end == begin + 1; i++)
            if (looking_at(p, signs[i])) end = begin + strlen(signs[i]);
        p->now.kind = TOKEN_SIGN;
    }
    p->now.s = (span){s + begin, end - begin};
    advance(p, end - begin);
}

static bool is_token(const parser *p, token_kind kind, const char *s) {
    return p->now.kind == kind && span_is(p->now.s, (span){s, strlen(s)});
}
static bool take(parser *p, const char *sign) {
    bool there = is_token(p, TOKEN_SIGN, sign);
    if (there) next(p);
    return there;
}
static bool take_word(parser *p, const char *word) {
    bool there = is_token(p, TOKEN_NAME, word);
    if (there) next(p);
    return there;
}
static void expect(parser *p, const char *sign) {
    if (take(p, sign)) return;
    bad(p, p->now.kind == TOKEN_END ? "a tag without an end" : "not expected:", p->now.s);
}
static span expect_name(parser *p) {
    span name = p->now.s;
    if (p->now.kind != TOKEN_NAME) bad(p, "no name:", p->now.s);
    next(p);
    return name;
}

/* ---- expressions ---------------------------------------------------------------------------- */

static node *read_expr(parser *p);
static node *read_or(parser *p);
static node *read_unary(parser *p);

static node *constant(parser *p, value v) {
    node *n = make(p, NODE_CONST);
    n->constant = v;
    return n;
}

/* name=value or a value, up to `close`. */
static node *read_args(parser *p, const char *close) {
    node *first = NULL, **last = &first;
    int n = 0;
    while (!take(p, close)) {
        node *arg = *last = make(p, NODE_ARG);
        last = &arg->next;
        if (++n > ARGS_MOST) bad(p, "too many arguments", SPAN(""));
        arg->a = read_expr(p);
        if (arg->a->kind == NODE_NAME && take(p, "=")) {
            arg->name = arg->a->name;
            arg->a = read_expr(p);
        }
        if (!take(p, ",") && !is_token(p, TOKEN_SIGN, close)) expect(p, close);
    }
    return first;
}

static node *read_items(parser *p, const char *close) {
    node *list = make(p, NODE_LIST), **last = &list->a;
    while (!take(p, close)) {
        *last = read_expr(p);
        last = &(*last)->next;
        if (!take(p, ",") && !is_token(p, TOKEN_SIGN, close)) expect(p, close);
    }
    return list;
}

/* Where "}}" closes a dict and what is around it, its first half alone. */
static bool take_brace(parser *p) {
    if (is_token(p, TOKEN_SIGN, "}}")) {
        p->now.s = SPAN("}");
        p->at--;
    }
    return take(p, "}");
}

static node *read_dict(parser *p) {
    node *dict = make(p, NODE_DICT), **last = &dict->a;
    while (!take_brace(p)) {
        node *pair = *last = make(p, NODE_PAIR);
        last = &pair->next;
        pair->a = read_expr(p);
        expect(p, ":");
        pair->b = read_expr(p);
        if (take(p, ",")) continue;
        if (!take_brace(p)) expect(p, "}");
        break;
    }
    return dict;
}

static value number(const parser *p) {
    char text[64];
    size_t n = p->now.s.n;
    if (n > 60) bad(p, "a number too long:", p->now.s);
    memcpy(text, p->now.s.s, n);
    text[n] = 0;
    if (p->now.kind == TOKEN_FLOAT) return (value){.kind = VALUE_FLOAT, .f = text_f64(text, NULL)};
    if (n > 18) bad(p, "a number too large:", p->now.s);
    return value_int(strtoll(text, NULL, 10));
}

static node *read_name(parser *p) {
    static const struct {
        const char *name;
        value v;
    } words[] = {{"true", {VALUE_BOOL, {1}}},  {"True", {VALUE_BOOL, {1}}},
                 {"false", {VALUE_BOOL, {0}}}, {"False", {VALUE_BOOL, {0}}},
                 {"none", {VALUE_NONE, {0}}},  {"None", {VALUE_NONE, {0}}}};
    node *n = make(p, NODE_NAME);
    n->name = expect_name(p);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (span_is(n->name, (span){words[i].name, strlen(words[i].name)}))
            return constant(p, words[i].v);
    return n;
}

static node *tuple(node *list) {
    list->flag = true;
    return list;
}

static node *read_primary(parser *p) {
    if (p->now.kind == TOKEN_NAME) return read_name(p);
    if (p->now.kind == TOKEN_INT || p->now.kind == TOKEN_FLOAT) {
        node *n = constant(p, number(p));
        next(p);
        return n;
    }
    if (p->now.kind == TOKEN_STRING) {
        node *n = constant(p, value_text(p->now.s));
        for (next(p); p->now.kind == TOKEN_STRING; next(p))
            n->constant.s = span_join(p->a, n->constant.s, p->now.s);
        return n;
    }
    if (take(p, "[")) return read_items(p, "]");
    if (take(p, "{")) return read_dict(p);
    if (!take(p, "(")) bad(p, p->now.kind ? "no expression:" : "a tag without an end", p->now.s);
    if (take(p, ")")) return tuple(make(p, NODE_LIST));
    node *n = read_expr(p);
    if (is_token(p, TOKEN_SIGN, ",")) {
        next(p);
        node *list = read_items(p, ")");
        n->next = list->a;
        list->a = n;
        return tuple(list);
    }
    expect(p, ")");
    return n;
}

static node *read_subscript(parser *p, node *of) {
    node *part[3] = {0};
    int n = 0;
    bool slice = false;
    for (;; slice = true) {
        if (n == 3) bad(p, "a slice of more than three parts", SPAN(""));
        if (!is_token(p, TOKEN_SIGN, ":") && !is_token(p, TOKEN_SIGN, "]")) part[n] = read_expr(p);
        n++;
        if (!take(p, ":")) break;
    }
    expect(p, "]");
    if (!slice && !part[0]) bad(p, "no index", SPAN(""));
    node *made = make(p, slice || n > 1 ? NODE_SLICE : NODE_INDEX);
    made->a = of;
    made->b = part[0];
    made->c = part[1];
    made->d = part[2];
    return made;
}

static node *read_test(parser *p, node *of) {
    node *n = make(p, NODE_TEST);
    n->a = of;
    n->flag = take_word(p, "not");
    n->name = expect_name(p);
    static const char *const ends[] = {"and", "or", "else", "if", "is", "not", "in", "recursive"};
    bool word = p->now.kind == TOKEN_NAME;
    for (size_t i = 0; i < COUNT_OF(ends); i++) word &= !is_token(p, TOKEN_NAME, ends[i]);
    if (take(p, "(")) {
        n->b = read_args(p, ")");
    } else if (word || p->now.kind == TOKEN_STRING || p->now.kind == TOKEN_INT ||
               p->now.kind == TOKEN_FLOAT || is_token(p, TOKEN_SIGN, "[")) {
        n->b = make(p, NODE_ARG);
        n->b->a = read_unary(p);
    }
    return n;
}

/* What stands behind a value: members, subscripts, calls, filters, tests. */
static node *read_postfix(parser *p, node *n, bool filters) {
    for (;;) {
        node *of = n;
        if (take(p, ".")) {
            n = make(p, NODE_MEMBER);
            n->a = of;
            n->name = expect_name(p);
        } else if (take(p, "[")) {
            n = read_subscript(p, of);
        } else if (take(p, "(")) {
            n = make(p, NODE_CALL);
            n->a = of;
            n->b = read_args(p, ")");
        } else if (filters && take(p, "|")) {
            n = make(p, NODE_FILTER);
            n->a = of;
            n->name = expect_name(p);
            if (take(p, "(")) n->b = read_args(p, ")");
        } else if (filters && take_word(p, "is")) {
            n = read_test(p, of);
        } else {
            return n;
        }
    }
}

/* Filters and tests behind a sign are of the signed number. */
static node *read_signed(parser *p, bool filters) {
    node *n;
    enter(p);
    if (take(p, "-")) {
        n = make(p, NODE_MINUS);
        n->a = read_signed(p, false);
    } else if (take(p, "+")) {
        n = read_signed(p, false);
    } else {
        n = read_primary(p);
    }
    p->depth--;
    return read_postfix(p, n, filters);
}

static node *read_unary(parser *p) {
    return read_signed(p, true);
}

static node *read_level(parser *p, int level) {
    static const char *const signs[][6] = {
        {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
    if (level == (int)COUNT_OF(signs)) return read_unary(p);
    node *n = read_level(p, level + 1), *compared = NULL;
    for (;;) {
        node *of = compared ? compared->b : n, *chain = compared ? n : NULL;
        char op[3] = {0};
        for (int i = 0; i < 6 && signs[level][i] && !*op; i++)
            if (take(p, signs[level][i])) memcpy(op, signs[level][i], strlen(signs[level][i]));
        bool negated = false;
        if (!*op && level == 0) {
            token was = p->now;
            size_t at = p->at;
            int line = p->line;
            negated = take_word(p, "not");
            if (take_word(p, "in"))
                op[0] = 'i';
            else
                p->now = was, p->at = at, p->line = line;
        }
        if (!*op) return n;
        n = make(p, NODE_BINARY);
        memcpy(n->op, op, sizeof op);
        n->flag = negated;
        n->a = of;
        n->b = read_level(p, level + 1);
        if (level) continue;
        compared = n;
        if (!chain) continue;
        n = make(p, NODE_AND); /* 1 < 2 < 3 */
        n->a = chain;
        n->b = compared;
    }
}

static node *read_not(parser *p) {
    if (!take_word(p, "not")) return read_level(p, 0);
    enter(p);
    node *n = make(p, NODE_NOT);
    n->a = read_not(p);
    p->depth--;
    return n;
}

static node *read_both(parser *p, node *a, node_kind kind, node *b) {
    node *n = make(p, kind);
    n->a = a;
    n->b = b;
    return n;
}
static node *read_and(parser *p) {
    node *n = read_not(p);
    while (take_word(p, "and")) n = read_both(p, n, NODE_AND, read_not(p));
    return n;
}
static node *read_or(parser *p) {
    node *n = read_and(p);
    while (take_word(p, "or")) n = read_both(p, n, NODE_OR, read_and(p));
    return n;
}

static node *read_expr(parser *p) {
    enter(p);
    node *n = read_or(p);
    while (take_word(p, "if")) {
        node *choice = make(p, NODE_CHOICE);
        choice->b = n;
        choice->a = read_or(p);
        if (take_word(p, "else")) choice->c = read_expr(p);
        n = choice;
    }
    p->depth--;
    return n;
}

/* a, b, c as a list where there is a comma. */
static node *read_tuple(parser *p) {
    node *n = read_expr(p);
    if (!is_token(p, TOKEN_SIGN, ",")) return n;
    node *list = make(p, NODE_LIST), **last = &n->next;
    list->a = n;
    while (take(p, ",")) {
        *last = read_expr(p);
        last = &(*last)->next;
    }
    return tuple(list);
}

/* ---- text and tags -------------------------------------------------------------------------- */

/* The end of a tag, whose last token is the current one: behind it white space may go. */
static void tag_end(parser *p, bool block) {
    const char *ends[] = {block ? "-%}" : "-}}", block ? "%}" : "}}", block ? "+%}" : "}}"};
    int way = 0;
    while (way < 3 && !is_token(p, TOKEN_SIGN, ends[way])) way++;
    if (way == 3) bad(p, p->now.kind ? "not expected:" : "a tag without an end", p->now.s);
    p->strip = way == 0;
    p->line_begins = false;
    if (block && way == 1 && looking_at(p, "\n")) {
        advance(p, 1);
        p->line_begins = true;
    }
    for (; p->strip && p->at < p->text.n && is_space(p->text.s[p->at]); advance(p, 1))
        p->line_begins = p->text.s[p->at] == '\n';
    p->now = (token){TOKEN_END, SPAN("")};
}

/* The text up to the next tag, as far as it is not white space that goes. */
static node *read_text(parser *p) {
    size_t begin = p->at, end = begin;
    const char *s = p->text.s;
    while (end < p->text.n &&
           !(s[end] == '{' && end + 1 < p->text.n && s[end + 1] && strchr("{%#", s[end + 1])))
        end++;
    size_t keep = end, sign = end + 2;
    if (sign < p->text.n && s[sign] == '-') {
        while (keep > begin && is_space(s[keep - 1])) keep--;
    } else if (sign < p->text.n && s[sign] != '+' && s[end + 1] != '{') {
        while (keep > begin && is_space(s[keep - 1]) && s[keep - 1] != '\n') keep--;
        bool first = keep > begin ? s[keep - 1] == '\n' : p->line_begins;
        if (!first) keep = end;
    }
    node *n = make(p, NODE_TEXT);
    n->name = (span){s + begin, keep - begin};
    advance(p, end - begin);
    return n;
}

static void skip_comment(parser *p) {
    size_t at = p->at + 2;
    while (at + 1 < p->text.n && !(p->text.s[at] == '#' && p->text.s[at + 1] == '}')) at++;
    if (at + 1 >= p->text.n) bad(p, "a comment without an end", SPAN(""));
    bool strip = p->text.s[at - 1] == '-' && at > p->at + 2, plus = p->text.s[at - 1] == '+';
    advance(p, at + 2 - p->at);
    p->line_begins = false;
    if (!strip && !plus && looking_at(p, "\n")) {
        advance(p, 1);
        p->line_begins = true;
    }
    for (; strip && p->at < p->text.n && is_space(p->text.s[p->at]); advance(p, 1))
        p->line_begins = p->text.s[p->at] == '\n';
}

static node *read_body(parser *p, const char *const *ends, span *end);

static node *read_until(parser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    span found;
    node *body = read_body(p, ends, &found);
    next(p);
    tag_end(p, true);
    return body;
}

/* What stands behind {% if .. %}, as far as its end. */
static node *read_if(parser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    span end;
    enter(p);
    node *n = make(p, NODE_IF);
    n->a = read_expr(p);
    tag_end(p, true);
    n->b = read_body(p, ends, &end);
    next(p);
    if (span_is(end, SPAN("elif"))) {
        n->c = read_if(p);
    } else {
        tag_end(p, true);
        if (span_is(end, SPAN("else"))) n->c = read_until(p, "endif");
    }
    p->depth--;
    return n;
}

static node *read_targets(parser *p) {
    node *first = NULL, **last = &first;
    do {
        bool paren = take(p, "(");
        node *n = *last = make(p, NODE_NAME);
        last = &n->next;
        n->name = expect_name(p);
        if (take(p, ".")) {
            n->kind = NODE_MEMBER;
            n->a = make(p, NODE_NAME);
            n->a->name = n->name;
            n->name = expect_name(p);
        }
        if (paren) expect(p, ")");
    } while (take(p, ","));
    return first;
}

static node *read_for(parser *p) {
    static const char *const ends[] = {"else", "endfor", NULL};
    node *n = make(p, NODE_FOR);
    span end;
    n->d = read_targets(p);
    if (!take_word(p, "in")) bad(p, "a for without in, but", p->now.s);
    n->a = read_or(p);
    if (take_word(p, "if")) n->e = read_expr(p);
    tag_end(p, true);
    n->b = read_body(p, ends, &end);
    next(p);
    tag_end(p, true);
    if (span_is(end, SPAN("else"))) n->c = read_until(p, "endfor");
    return n;
}

static node *read_set(parser *p) {
    node *n = make(p, NODE_SET);
    n->d = read_targets(p);
    if (take(p, "=")) {
        n->a = read_tuple(p);
        tag_end(p, true);
    } else {
        tag_end(p, true);
        n->b = read_until(p, "endset");
    }
    return n;
}

static node *read_macro(parser *p) {
    node *n = make(p, NODE_MACRO), **last = &n->d;
    n->name = expect_name(p);
    expect(p, "(");
    while (!take(p, ")")) {
        node *arg = *last = make(p, NODE_ARG);
        last = &arg->next;
        arg->name = expect_name(p);
        if (take(p, "=")) arg->a = read_expr(p);
        if (!take(p, ",") && !is_token(p, TOKEN_SIGN, ")")) expect(p, ")");
    }
    tag_end(p, true);
    n->b = read_until(p, "endmacro");
    return n;
}

static node *read_jump(parser *p, node_kind kind) {
    node *n = make(p, kind);
    tag_end(p, true);
    return n;
}

static node *read_break(parser *p) {
    return read_jump(p, NODE_BREAK);
}
static node *read_continue(parser *p) {
    return read_jump(p, NODE_CONTINUE);
}
static node *read_generation(parser *p) { /* marks what a model says; its text as it is */
    tag_end(p, true);
    return read_until(p, "endgeneration");
}

/* {% word ..: `p->now` is the word. */
static node *read_statement(parser *p) {
    static const struct {
        const char *word;
        node *(*read)(parser *p);
    } statements[] = {{"if", read_if},
                      {"for", read_for},
                      {"set", read_set},
                      {"macro", read_macro},
                      {"break", read_break},
                      {"continue", read_continue},
                      {"generation", read_generation}};
    for (size_t i = 0; i < COUNT_OF(statements); i++)
        if (take_word(p, statements[i].word)) return statements[i].read(p);
    bad(p, "a statement that is not known:", p->now.s);
}

/* Up to {% and one of the words, which is the current token then; no words: the end. */
static node *read_body(parser *p, const char *const *ends, span *end) {
    node *first = NULL, **last = &first;
    enter(p);
    for (;;) {
        *last = read_text(p);
        last = &(*last)->next;
        if (p->at >= p->text.n) break;
        if (looking_at(p, "{#")) {
            skip_comment(p);
            continue;
        }
        bool block = looking_at(p, "{%");
        advance(p, 2);
        if (looking_at(p, "-") || looking_at(p, "+")) advance(p, 1);
        next(p);
        for (int i = 0; block && ends && ends[i]; i++) {
            if (!is_token(p, TOKEN_NAME, ends[i])) continue;
            *end = p->now.s;
            p->depth--;
            return first;
        }
        if (block) {
            *last = read_statement(p);
        } else {
            *last = make(p, NODE_OUTPUT);
            (*last)->a = read_tuple(p);
            tag_end(p, false);
        }
        while (*last) last = &(*last)->next;
    }
    if (ends) bad(p, "the template ends without", (span){ends[0], strlen(ends[0])});
    p->depth--;
    return first;
}

node *template_parse(qn_ctx *qn, arena *a, span text) {
    parser p = {.qn = qn, .a = a, .line = 1, .line_begins = true};
    text = span_replace(a, text, SPAN("\r\n"), SPAN("\n"));
    if (text.n && text.s[text.n - 1] == '\n') text.n--;
    p.text = span_copy(a, text);
    return read_body(&p, NULL, NULL);
}
