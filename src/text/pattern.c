/* pattern.c - the patterns that words are split by, matched without a regular expression engine.
 *
 * Models say how their words were split by a regular expression, and all of them are one idea with
 * other classes: a contraction, a word with what may stand before it, numbers in groups, a row of
 * other signs, white space. So a row of patterns.h has the classes, and one matcher tries the
 * alternatives in their order. Where an expression would go back, which is at the end of white
 * space and where capitals meet small letters, it is said what it comes to; every match looks at
 * each character a few times, whatever the text is. */
#include "text/text.h"

typedef enum pattern_way { WAY_WORDS, WAY_TWO_CASES, WAY_RUN } pattern_way;
struct pattern_row {
    const char *name;
    pattern_way way;
    int contraction;
    uint32_t lead, word;
    uint32_t digits;
    uint32_t other;
    const char *tail, *regex;
};

static const pattern_row rows[] = {
#define X(name, WAY, contraction, lead, word, digits, other, tail, regex)                          \
    {name, WAY_##WAY, contraction, (uint32_t)(lead), word, digits, (uint32_t)(other), tail, regex},
#include "text/patterns.h"
#undef X
};

const pattern_row *pattern_of(span regex) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (span_is(regex, (span){rows[i].regex, strlen(rows[i].regex)})) return &rows[i];
    return NULL;
}

const pattern_row *pattern_named(const char *name) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (*name && strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

/* ---- parts of patterns: where the match that begins at `at` ends, `at`: none ----------------- */

static bool is_space_at(span s, size_t at, size_t *n) {
    return char_is_space(utf8_next(s.s + at, n));
}

/* Up to `most` characters of categories and none of white space; no categories: white space. */
static size_t run_end(span s, size_t at, uint32_t categories, uint32_t most) {
    for (size_t n; at < s.n && most; at += n, most--) {
        uint32_t c = utf8_next(s.s + at, &n);
        bool space = char_is_space(c);
        if (categories ? space || !char_among(c, categories) : !space) break;
    }
    return at;
}

static size_t contraction_end(span s, size_t at, bool any_case) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (at + 1 >= s.n || s.s[at] != '\'') return at;
    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        const char *e = endings[i];
        size_t k = 0;
        while (e[k] && at + 1 + k < s.n && (s.s[at + 1 + k] | (any_case ? 32 : 0)) == e[k]) k++;
        if (!e[k]) return at + 1 + k;
    }
    /* The long s is an s in either case. */
    bool is_long = any_case && at + 2 < s.n && memcmp(s.s + at + 1, "\xc5\xbf", 2) == 0;
    return is_long ? at + 3 : at;
}

/* Behind the character that may stand before a word; `at` where none does. */
static size_t lead_end(const pattern_row *p, span s, size_t at) {
    size_t n;
    if (at >= s.n) return at;
    if (!p->lead) return s.s[at] == ' ' ? at + 1 : at;
    uint32_t c = utf8_next(s.s + at, &n);
    return c == '\r' || c == '\n' || char_among(c, p->lead) ? at : at + n;
}

/* [upper]*[lower]+ where `small`, else [upper]+[lower]*; many letters are both. */
static size_t cased_end(span s, size_t at, bool small) {
    size_t end = run_end(s, at, IS_UPPER, UINT32_MAX), low = run_end(s, end, IS_LOWER, UINT32_MAX);
    if (!small) return end > at ? low : at;
    if (low > end) return low;
    while (end > at) { /* give back until a small letter, or one of no case, can be the last */
        size_t before = utf8_before(s, end), n;
        if (char_among(utf8_next(s.s + before, &n), IS_LOWER)) return end;
        end = before;
    }
    return at;
}

static size_t word_end(const pattern_row *p, span s, size_t at) {
    size_t from[2] = {lead_end(p, s, at), at};
    if (p->way == WAY_WORDS) {
        for (int i = 0; i < 2; i++) {
            size_t end = run_end(s, from[i], p->word, UINT32_MAX);
            if (end > from[i]) return end;
        }
        return at;
    }
    for (int i = 0; i < 4; i++) {
        size_t begin = from[i & 1], end = cased_end(s, begin, i < 2);
        if (end > begin) return p->contraction == 3 ? contraction_end(s, end, true) : end;
    }
    return at;
}

static size_t number_end(const pattern_row *p, span s, size_t at) {
    if (p->digits == 9) {
        size_t from = at + (s.s[at] == ' '), end = run_end(s, from, IS_NUMBER, UINT32_MAX);
        return end > from ? end : at;
    }
    return run_end(s, at, IS_NUMBER, p->digits);
}

static size_t other_end(const pattern_row *p, span s, size_t at) {
    size_t from = at + (s.s[at] == ' '), end = run_end(s, from, p->other, UINT32_MAX);
    if (end == from) return at;
    while (end < s.n && s.s[end] && strchr(p->tail, s.s[end])) end++;
    return end;
}

/* Up to the last newline of the white space, where newlines count; else all of it but for the last
 * character where a word follows, and that one alone where there is no other. */
static size_t space_end(const pattern_row *p, span s, size_t at) {
    size_t end = at, last = at, newline = at, n;
    while (end < s.n && is_space_at(s, end, &n)) {
        last = end;
        end += n;
        if (s.s[last] == '\r' || s.s[last] == '\n') newline = end;
    }
    if (*p->tail && newline > at) return newline;
    return end < s.n && last > at ? last : end;
}

size_t pattern_match(const pattern_row *p, span text, size_t at) {
    size_t end = at;
    if (p->way == WAY_RUN)
        return run_end(text, at, p->word, p->digits ? p->digits : UINT32_MAX) - at;
    if (p->contraction == 1 || p->contraction == 2)
        end = contraction_end(text, at, p->contraction == 2);
    if (end == at) end = word_end(p, text, at);
    if (end == at) end = number_end(p, text, at);
    if (end == at) end = other_end(p, text, at);
    if (end == at) end = space_end(p, text, at);
    return end - at;
}
