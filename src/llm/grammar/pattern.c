/* pattern.c - the regular expressions of JSON schemas, as far as they are regular and about
 * characters: texts, sets, `.`, groups, `|`, repetitions, and ^ and $ at the ends.
 *
 * What is written is not the string but its spelling in JSON, so each character is as JSON has it:
 * itself, or behind a backslash. Control characters that have no letter there are left out. An
 * expression is to be found anywhere in a string, unless ^ and $ say otherwise. */
#include "llm/grammar/grammar.h"

typedef struct regex {
    schema *s;
    const json *at;
    const char *p, *end;
    int depth;
} regex;

static node read_choices(regex *r);

QN_COLD QN_NORETURN static void regex_bad(const regex *r, const char *what) {
    schema_bad(r->s, r->at, "%s, at \"%.20s\"", what, r->p < r->end ? r->p : "");
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void set_chars(const regex *r, char_list *set, const char *ranges) {
    for (; *ranges; ranges += 2) set_add(set, r->s->d->a, (uint8_t)ranges[0], (uint8_t)ranges[1]);
}

static void add_set(const regex *r, char_list *to, const char_list *from) {
    for (uint32_t i = 0; i < from->n; i++) set_add(to, r->s->d->a, from->at[i].lo, from->at[i].hi);
}

static bool begins_class(const regex *r) {
    return r->end - r->p > 1 && r->p[0] == '\\' && r->p[1] && strchr("dDwWsS", r->p[1]);
}

/* \d, \w, \s and what they are not. */
static void read_class(regex *r, char_list *set) {
    char c = r->p[1], small = (char)(c | 32);
    char_list own = {0};
    if (small == 'd')
        set_chars(r, &own, "09");
    else if (small == 'w')
        set_chars(r, &own, "azAZ09__");
    else
        set_chars(r, &own, "\t\r  ");
    if (small == 's') {
        static const char_range wide[] = {{0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                                          {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                          {0x3000, 0x3000}, {0xfeff, 0xfeff}};
        bool positive = c == 's'; /* what some hold for a blank is neither */
        for (size_t i = 0; i < COUNT_OF(wide) && !positive; i++)
            set_add(&own, r->s->d->a, wide[i].lo, wide[i].hi);
        if (!positive) set_add(&own, r->s->d->a, 0x1c, 0x1f);
        if (!positive) set_add(&own, r->s->d->a, 0x85, 0x85);
    }
    /* Some readers count letters and digits of all scripts, so those are of neither set. */
    if (c == 'D' || c == 'W') set_add(&own, r->s->d->a, 0x80, CHARACTER_MOST);
    if (c != small) set_invert(&own, r->s->d->a);
    add_set(r, set, &own);
    r->p += 2;
}

static uint32_t read_hex(regex *r, int digits) {
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, r->p++) {
        char h = r->p < r->end ? *r->p : 0;
        bool letter = (h | 32) >= 'a' && (h | 32) <= 'f';
        if (!letter && (h < '0' || h > '9')) regex_bad(r, "an escape without its digits");
        c = c << 4 | (uint32_t)(letter ? (h | 32) - 'a' + 10 : h - '0');
    }
    return c;
}

/* One character, behind a backslash or as itself. */
static uint32_t read_character(regex *r) {
    static const char from[] = "nrtfv", to[] = "\n\r\t\f\v";
    size_t n;
    uint32_t c;
    if (*r->p != '\\') {
        c = utf8_next(r->p, &n);
        r->p += n;
        return c;
    }
    r->p++;
    char e = r->p < r->end ? *r->p : 0;
    const char *known = e ? strchr(from, e) : NULL;
    bool letter = (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z') || (e >= '0' && e <= '9');
    if (e == 'x' || e == 'u') {
        r->p++;
        c = read_hex(r, e == 'x' ? 2 : 4);
        if (c == 0 || (c >= 0xd800 && c <= 0xdfff)) regex_bad(r, "an escape of no character");
        return c;
    }
    if (!known && (!e || letter || (unsigned char)e >= 0x80))
        regex_bad(r, "an escape that is not known here");
    r->p++;
    return known ? (uint8_t)to[known - from] : (uint8_t)e;
}

static node spelled(regex *r, char_list *set) {
    set_tidy(set);
    node x = json_spelled(r->s, set);
    if (!x) regex_bad(r, "a set of no characters that can be written");
    return x;
}

/* Behind the bracket. */
static node read_set(regex *r) {
    char_list set = {0};
    bool inverted = r->p < r->end && *r->p == '^';
    if (inverted) r->p++;
    while (r->p < r->end && *r->p != ']') {
        if (begins_class(r)) {
            read_class(r, &set);
            continue;
        }
        uint32_t lo = read_character(r), hi = lo;
        if (r->end - r->p > 1 && *r->p == '-' && r->p[1] != ']') {
            r->p++;
            hi = read_character(r);
        }
        if (hi < lo) regex_bad(r, "a range whose end comes before its begin");
        set_add(&set, r->s->d->a, lo, hi);
    }
    if (r->p == r->end) regex_bad(r, "a set without an end");
    r->p++;
    if (inverted) set_invert(&set, r->s->d->a);
    return spelled(r, &set);
}

static node read_dot(regex *r) {
    char_list set = {0};
    set_chars(r, &set, "\n\n\r\r");
    set_add(&set, r->s->d->a, 0x2028, 0x2029);
    set_invert(&set, r->s->d->a);
    return spelled(r, &set);
}

/* ---- what is repeated ------------------------------------------------------------------------ */

static node read_group(regex *r) {
    if (++r->depth > GRAMMAR_NESTED_MOST) regex_bad(r, "groups in groups, too deep");
    if (r->p < r->end && *r->p == '?') {
        if (r->end - r->p < 2 || r->p[1] != ':')
            regex_bad(r, "a group that looks around, or a name");
        r->p += 2;
    }
    node x = read_choices(r);
    if (r->p == r->end) regex_bad(r, "a group without an end");
    r->p++;
    r->depth--;
    return x;
}

static node read_atom(regex *r) {
    char_list set = {0};
    char c = *r->p;
    if (strchr("*+?{^$", c)) regex_bad(r, "what is not known in this place");
    if (c == '(') return r->p++, read_group(r);
    if (c == '[') return r->p++, read_set(r);
    if (c == '.') return r->p++, read_dot(r);
    if (begins_class(r)) {
        read_class(r, &set);
        return spelled(r, &set);
    }
    uint32_t one = read_character(r);
    set_add(&set, r->s->d->a, one, one);
    return spelled(r, &set);
}

static int64_t read_times(regex *r) {
    int64_t n = 0;
    const char *from = r->p;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        n = 10 * n + (*r->p - '0');
        if (n > GRAMMAR_TIMES_MOST) regex_bad(r, "a repetition of too many times");
    }
    if (r->p == from) regex_bad(r, "a repetition without a number");
    return n;
}

static node read_repeat(regex *r, node of) {
    int64_t least = 0, most = ENDLESS;
    char c = *r->p++;
    if (c == '+') least = 1;
    if (c == '?') most = 1;
    if (c == '{') {
        least = most = read_times(r);
        if (r->p < r->end && *r->p == ',') {
            r->p++;
            most = r->p < r->end && *r->p == '}' ? ENDLESS : read_times(r);
        }
        if (r->p == r->end || *r->p != '}') regex_bad(r, "a repetition without an end");
        r->p++;
        if (most != ENDLESS && most < least) regex_bad(r, "a repetition of less than its least");
    }
    if (r->p < r->end && *r->p == '?') r->p++; /* as few as may be: the same strings */
    if (r->p < r->end && strchr("*+?{", *r->p)) regex_bad(r, "a repetition of a repetition");
    return draft_repeat(r->s->d, of, least, most);
}

static node read_sequence(regex *r) {
    node_list list = {0};
    while (r->p < r->end && *r->p != '|' && *r->p != ')') {
        if (*r->p == '$' && r->p + 1 == r->end && r->depth == 0) break;
        node x = read_atom(r);
        if (r->p < r->end && *r->p && strchr("*+?{", *r->p)) x = read_repeat(r, x);
        node_add(&list, r->s->d->a, x);
    }
    return draft_list(r->s->d, NODE_SEQUENCE, list.n, list.at);
}

static node read_choices(regex *r) {
    node_list list = {0};
    for (;;) {
        node_add(&list, r->s->d->a, read_sequence(r));
        if (r->p == r->end || *r->p != '|') break;
        r->p++;
    }
    if (r->depth == 0 && r->p < r->end && *r->p == ')') regex_bad(r, "a group without a begin");
    return draft_list(r->s->d, NODE_CHOICE, list.n, list.at);
}

/* ^ and $ are of the first and of the last alternative alone, so with several there are none. */
static void ends_check(const regex *r, bool first, bool last) {
    int depth = 0;
    for (const char *p = r->p; (first || last) && p < r->end; p++) {
        if (*p == '\\' && p + 1 < r->end) {
            p++;
        } else if (*p == '[') {
            while (p + 1 < r->end && *p != ']') p += *p == '\\' ? 2 : 1;
        } else {
            depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
            if (*p == '|' && depth == 0) regex_bad(r, "^ or $ of one of several alternatives");
        }
    }
}

node pattern_read(schema *s, const json *pattern) {
    draft *d = s->d;
    if (pattern->kind != JSON_STRING || memchr(pattern->text, 0, pattern->text_size))
        schema_bad(s, pattern, "it is a text");
    const char *text = pattern->text;
    regex r = {.s = s, .at = pattern, .p = text, .end = text + pattern->text_size};
    bool first = *text == '^';
    if (first) r.p++;
    size_t backslashes = 0;
    for (const char *p = r.end - 1; p > r.p && p[-1] == '\\'; p--) backslashes++;
    bool last = r.end > r.p && r.end[-1] == '$' && backslashes % 2 == 0;
    ends_check(&r, first, last);
    node x = read_choices(&r);
    node any = draft_repeat(d, json_character(s), 0, ENDLESS);
    node more = draft_repeat(d, json_character(s), 0, ENDLESS);
    return SEQUENCE(d, first ? 0 : any, x, last ? 0 : more);
}
