/* numbers.c - numbers between bounds, as their digits.
 *
 * A range of integers is cut into ranges of as many digits: from 7 to 120 is [7-9], [1-9][0-9],
 * 1[01][0-9] and 120. A number's fraction is compared digit by digit with those of the bounds: as
 * long as all were the bound's own the next may not pass it, behind another one all are free.
 * Negative numbers are the same turned round behind a minus. Numbers with bounds have no exponent
 * and no minus before zero; 17 digits stand before the point, and 17 behind it where none of the
 * bounds has more. */
#include "llm/grammar/grammar.h"

#include <stdio.h>

enum { DIGITS = 17, NO_NODE = UINT32_MAX };

/* A number that is not negative: digits before the point, and behind it. */
typedef struct magnitude {
    uint64_t whole;
    char part[DIGITS + 1]; /* without zeros at its end */
    bool endless;          /* it is larger than any */
} magnitude;
typedef struct bound {
    magnitude size;
    bool negative, strict;
} bound;

static uint64_t power_of_ten(int n) {
    uint64_t x = 1;
    while (n-- > 0) x *= 10;
    return x;
}

static int digits_of(uint64_t x) {
    int n = 1;
    while (x >= 10) x /= 10, n++;
    return n;
}

/* ---- whole numbers --------------------------------------------------------------------------- */

static node digit(schema *s, char lo, char hi) {
    const char range[3] = {lo, hi, 0};
    return draft_chars(s->d, range);
}

static node free_digits(schema *s, int64_t least, int64_t most) {
    return most > 0 ? draft_repeat(s->d, digit(s, '0', '9'), least, most) : 0;
}

/* Numbers of n digits, leading zeros among them, from lo to hi. */
static node same_length(schema *s, uint64_t lo, uint64_t hi, int n) {
    draft *d = s->d;
    uint64_t unit = power_of_ten(n - 1);
    char first = (char)('0' + lo / unit), last = (char)('0' + hi / unit);
    node_list list = {0};
    if (n == 1) return digit(s, first, last);
    bool low = lo % unit != 0, high = hi % unit != unit - 1;
    if (first == last) {
        node rest = low || high ? same_length(s, lo % unit, hi % unit, n - 1)
                                : free_digits(s, n - 1, n - 1);
        return SEQUENCE(d, digit(s, first, first), rest);
    }
    if (low)
        node_add(&list, d->a,
                 SEQUENCE(d, digit(s, first, first), same_length(s, lo % unit, unit - 1, n - 1)));
    if (high)
        node_add(&list, d->a,
                 SEQUENCE(d, digit(s, last, last), same_length(s, 0, hi % unit, n - 1)));
    first = (char)(first + low);
    last = (char)(last - high);
    if (first <= last)
        node_add(&list, d->a, SEQUENCE(d, digit(s, first, last), free_digits(s, n - 1, n - 1)));
    return draft_list(d, NODE_CHOICE, list.n, list.at);
}

/* From lo to hi, without leading zeros; NO_NODE: none. */
static node whole_range(schema *s, uint64_t lo, uint64_t hi) {
    node_list list = {0};
    for (int n = digits_of(lo); lo <= hi && n <= digits_of(hi); n++) {
        uint64_t least = n == 1 ? 0 : power_of_ten(n - 1), most = power_of_ten(n) - 1;
        node_add(&list, s->d->a, same_length(s, lo > least ? lo : least, hi < most ? hi : most, n));
    }
    return list.n ? draft_list(s->d, NODE_CHOICE, list.n, list.at) : NO_NODE;
}

/* ---- fractions ------------------------------------------------------------------------------- */

/* Which fractions may come: at least `lo`'s digits, and at most `hi`'s; NULL: any. */
typedef struct fraction {
    const char *lo, *hi;
    bool lo_strict, hi_strict;
} fraction;

static bool may_end(const fraction *f) {
    if (f->lo && (*f->lo || f->lo_strict)) return false;
    return !(f->hi && !*f->hi && f->hi_strict);
}

static node more_digits(schema *s, const fraction *f, int n);

/* The digits lo to hi, and what may follow them. */
static void digits_add(schema *s, node_list *list, char lo, char hi, const fraction *rest, int n) {
    draft *d = s->d;
    if (lo > hi) return;
    node more = more_digits(s, rest, n + 1);
    bool end = may_end(rest);
    if (more == NO_NODE && !end) return;
    if (more == NO_NODE) more = 0;
    node_add(list, d->a, SEQUENCE(d, digit(s, lo, hi), end ? draft_repeat(d, more, 0, 1) : more));
}

/* One digit and more behind n of them; NO_NODE: none can be. */
static node more_digits(schema *s, const fraction *f, int n) {
    node_list list = {0};
    if (n >= DIGITS) return NO_NODE;
    if (!f->lo && !f->hi) return free_digits(s, 1, DIGITS - n);
    if (f->lo && !*f->lo && !f->lo_strict) /* what is behind a bound's last digit is more */
        return more_digits(s, &(fraction){NULL, f->hi, false, f->hi_strict}, n);
    char lo = f->lo && *f->lo ? *f->lo : '0', hi = !f->hi ? '9' : *f->hi ? *f->hi : '0';
    const char *lo_rest = f->lo && *f->lo ? f->lo + 1 : f->lo;
    const char *hi_rest = f->hi && *f->hi ? f->hi + 1 : f->hi;
    if (f->hi && !*f->hi && f->hi_strict) return NO_NODE;
    if (f->lo && f->hi && lo == hi) {
        digits_add(s, &list, lo, lo, &(fraction){lo_rest, hi_rest, f->lo_strict, f->hi_strict}, n);
    } else {
        char from = lo, to = hi;
        if (f->lo)
            digits_add(s, &list, from++, lo, &(fraction){lo_rest, NULL, f->lo_strict, false}, n);
        if (f->hi)
            digits_add(s, &list, hi, to--, &(fraction){NULL, hi_rest, false, f->hi_strict}, n);
        digits_add(s, &list, from, to, &(fraction){0}, n);
    }
    return list.n ? draft_list(s->d, NODE_CHOICE, list.n, list.at) : NO_NODE;
}

/* A whole number and what may stand behind it. */
static void numbers_add(schema *s, node_list *list, node whole, fraction f) {
    draft *d = s->d;
    node more = more_digits(s, &f, 0);
    bool end = may_end(&f);
    if (whole == NO_NODE || (more == NO_NODE && !end)) return;
    node part = more == NO_NODE ? 0 : SEQUENCE(d, draft_text(d, "."), more);
    node_add(list, d->a, SEQUENCE(d, whole, end ? draft_repeat(d, part, 0, 1) : part));
}

/* ---- between two magnitudes ------------------------------------------------------------------ */

static node between(schema *s, const bound *lo, const bound *hi) {
    node_list list = {0};
    const uint64_t most = power_of_ten(DIGITS) - 1;
    const magnitude *a = &lo->size, *b = &hi->size;
    uint64_t top = b->endless ? most + 1 : b->whole; /* whole numbers below it are free */
    if (a->endless || a->whole > top) return NO_NODE;
    if (!b->endless && a->whole == b->whole) {
        if (strcmp(a->part, b->part) > 0) return NO_NODE;
        fraction f = {a->part, b->part, lo->strict, hi->strict};
        numbers_add(s, &list, whole_range(s, a->whole, a->whole), f);
    } else {
        fraction low = {a->part, NULL, lo->strict, false},
                 high = {NULL, b->part, false, hi->strict};
        numbers_add(s, &list, whole_range(s, a->whole, a->whole), low);
        if (top > a->whole + 1)
            numbers_add(s, &list, whole_range(s, a->whole + 1, top - 1), (fraction){0});
        if (!b->endless) numbers_add(s, &list, whole_range(s, b->whole, b->whole), high);
    }
    return list.n ? draft_list(s->d, NODE_CHOICE, list.n, list.at) : NO_NODE;
}

static node whole_between(schema *s, const bound *lo, const bound *hi) {
    const uint64_t most = power_of_ten(DIGITS) - 1;
    uint64_t from = lo->size.whole, to = hi->size.endless ? most : hi->size.whole;
    if (lo->size.endless) return NO_NODE;
    if (*lo->size.part || lo->strict) from++;
    if (!hi->size.endless && hi->strict && !*hi->size.part) {
        if (to == 0) return NO_NODE;
        to--;
    }
    return whole_range(s, from, to);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static bound bound_read(const schema *s, const json *v) {
    bound b = {.negative = false};
    char text[64];
    int n = 0;
    double x = v->kind == JSON_NUMBER ? text_f64(v->text, NULL) : 0;
    if (v->kind != JSON_NUMBER) schema_bad(s, v, "it is a number");
    if (v->text_size >= sizeof text) schema_bad(s, v, "a bound of more digits than are taken here");
    snprintf(text, sizeof text, "%s", v->text);
    if (strpbrk(text, "eE")) {
        bool whole = x > -0x1p52 && x < 0x1p52 && (double)(int64_t)x - x == 0;
        if (!whole) schema_bad(s, v, "a bound with an exponent that is no whole number");
        snprintf(text, sizeof text, "%lld", (long long)x);
    }
    const char *p = text;
    if (*p == '-') b.negative = true, p++;
    for (; *p >= '0' && *p <= '9'; p++, n++)
        b.size.whole = b.size.whole * 10 + (uint64_t)(*p - '0');
    if (n > DIGITS - 1) schema_bad(s, v, "a bound of more digits than are taken here");
    if (*p == '.') {
        size_t digits = strlen(p + 1);
        while (digits && p[digits] == '0') digits--;
        if (digits > DIGITS - 1) schema_bad(s, v, "a bound of more digits than are taken here");
        memcpy(b.size.part, p + 1, digits);
    }
    if (b.size.whole == 0 && !*b.size.part) b.negative = false;
    return b;
}

/* Below 0, 0, above 0. */
static int bound_order(const bound *x, const bound *y) {
    if (x->negative != y->negative) return x->negative ? -1 : 1;
    int sign = x->negative ? -1 : 1;
    if (x->size.endless || y->size.endless) return sign * (x->size.endless - y->size.endless);
    if (x->size.whole != y->size.whole) return x->size.whole < y->size.whole ? -sign : sign;
    int c = strcmp(x->size.part, y->size.part);
    return c < 0 ? -sign : c > 0 ? sign : 0;
}

/* The closer one of two bounds on the same side: below (sign 1) or above (-1). `exclusive` may also
 * be a word about the other, as in older schemas. */
static bound bound_of(const schema *s, const json *v, bool upper) {
    const json *plain = json_member(v, upper ? "maximum" : "minimum");
    const json *exclusive = json_member(v, upper ? "exclusiveMaximum" : "exclusiveMinimum");
    bound b = {.size.endless = true, .negative = !upper};
    bool word = exclusive && (exclusive->kind == JSON_TRUE || exclusive->kind == JSON_FALSE);
    if (plain) b = bound_read(s, plain);
    if (word && plain) b.strict = exclusive->kind == JSON_TRUE;
    if (!exclusive || word) return b;
    bound other = bound_read(s, exclusive);
    int order = bound_order(&other, &b);
    if (upper ? order > 0 : order < 0) return b;
    other.strict = true;
    return other;
}

node schema_number(schema *s, const json *v, bool whole) {
    draft *d = s->d;
    bound lo = bound_of(s, v, false), hi = bound_of(s, v, true), zero = {.strict = false};
    node_list list = {0};
    if (!hi.negative) {
        const bound *from = lo.negative ? &zero : &lo;
        node x = whole ? whole_between(s, from, &hi) : between(s, from, &hi);
        if (x != NO_NODE) node_add(&list, d->a, x);
    }
    if (lo.negative) {
        zero.strict = true;
        const bound *from = hi.negative ? &hi : &zero;
        node x = whole ? whole_between(s, from, &lo) : between(s, from, &lo);
        if (x != NO_NODE) node_add(&list, d->a, SEQUENCE(d, draft_text(d, "-"), x));
    }
    if (!list.n) schema_bad(s, v, "no number is within its bounds");
    return draft_list(d, NODE_CHOICE, list.n, list.at);
}
