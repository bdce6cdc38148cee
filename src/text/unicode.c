/* unicode.c - what characters are and what they become, from the tables of unicode/.
 *
 * Every table is a sorted list of runs, searched by halving; ASCII, which is most of most texts, is
 * told without one. Normalisation is that of UAX #15: decompose each character as far as it goes,
 * put marks into the order of their combining classes, and for the composed forms put together
 * whatever the table has a pair for. Hangul is computed. */
#include "text/text.h"

/* NAME##_table of the rows of a file that are behind MAP_NAME or SET_NAME. */
#define X(...) __VA_ARGS__,
static const uint32_t category_table[] = {
#include "text/unicode/categories.h"
};
#define MAP_LOWER
static const uint32_t lower_table[] = {
#include "text/unicode/maps.h"
};
#undef MAP_LOWER
#define MAP_CANONICAL
static const uint32_t canonical_table[] = {
#include "text/unicode/maps.h"
};
#undef MAP_CANONICAL
#define MAP_PAIRS
static const uint32_t pair_table[] = {
#include "text/unicode/maps.h"
};
#undef MAP_PAIRS
#define MAP_COMPOSED
static const uint32_t composed_table[] = {
#include "text/unicode/maps.h"
};
#undef MAP_COMPOSED
#define MAP_COMPATIBLE
static const uint32_t compatible_table[] = {
#include "text/unicode/compatible.h"
};
#undef MAP_COMPATIBLE
#define MAP_LONG
static const uint32_t long_table[] = {
#include "text/unicode/compatible.h"
};
#undef MAP_LONG
#define MAP_POOL
static const uint32_t pool_table[] = {
#include "text/unicode/compatible.h"
};
#undef MAP_POOL
#define MAP_ORDER
static const uint32_t order_table[] = {
#include "text/unicode/maps.h"
};
#undef MAP_ORDER
#define SET_PUNCTUATION_ROWS
static const uint32_t punctuation_table[] = {
#include "text/unicode/sets.h"
};
#undef SET_PUNCTUATION_ROWS
#define SET_NUMERIC_ROWS
static const uint32_t numeric_table[] = {
#include "text/unicode/sets.h"
};
#undef SET_NUMERIC_ROWS
#define SET_ACCENT_ROWS
static const uint32_t accent_table[] = {
#include "text/unicode/sets.h"
};
#undef SET_ACCENT_ROWS
#define SET_MARK_ROWS
static const uint32_t mark_table[] = {
#include "text/unicode/sets.h"
};
#undef SET_MARK_ROWS
#define SET_CONTROL_ROWS
static const uint32_t control_table[] = {
#include "text/unicode/sets.h"
};
#undef SET_CONTROL_ROWS
#define SET_CHINESE_ROWS
static const uint32_t chinese_table[] = {
#include "text/unicode/sets.h"
};
#undef SET_CHINESE_ROWS
#undef X

/* The last entry of `stride` numbers that begins with at most `c`; NULL: none. */
static const uint32_t *run_of(const uint32_t *table, size_t count, size_t stride, uint32_t c) {
    size_t lo = 0, hi = count / stride;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (table[middle * stride] <= c)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo ? table + (lo - 1) * stride : NULL;
}

#define RUN_OF(table, stride, c) run_of(table, COUNT_OF(table), stride, c)

/* ---- UTF-8 ---------------------------------------------------------------------------------- */

size_t utf8_put(uint32_t c, char *out) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

size_t utf8_before(span s, size_t at) {
    do at--;
    while (at && ((unsigned char)s.s[at] & 0xc0) == 0x80);
    return at;
}

/* How many bytes at `at` are a character, 0: none, and into *bad how many begin one. */
static size_t utf8_check(span s, size_t at, size_t *bad) {
    const unsigned char *u = (const unsigned char *)s.s + at;
    size_t left = s.n - at, n = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    *bad = 1;
    if (u[0] < 0x80) return 1;
    if (u[0] < 0xc2 || u[0] > 0xf4) return 0;
    unsigned lo = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
    unsigned hi = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
    for (; *bad < n; ++*bad, lo = 0x80, hi = 0xbf)
        if (*bad >= left || u[*bad] < lo || u[*bad] > hi) return 0;
    return n;
}

size_t utf8_bad(span s) {
    size_t at = 0, n, bad;
    while (at < s.n && (n = utf8_check(s, at, &bad)) > 0) at += n;
    return at < s.n ? at : s.n;
}

span utf8_repair(arena *a, span s) {
    if (utf8_bad(s) == s.n) return s;
    str out;
    str_open_in(&out, a);
    for (size_t at = 0, bad; at < s.n;) {
        size_t n = utf8_check(s, at, &bad);
        str_addn(&out, n ? s.s + at : "\xef\xbf\xbd", n ? n : 3);
        at += n ? n : bad;
    }
    return (span){out.s, out.len};
}

/* ---- spans ---------------------------------------------------------------------------------- */

span span_copy(arena *a, span s) {
    char *copy = arena_alloc(a, s.n + 1);
    if (s.n) memcpy(copy, s.s, s.n);
    copy[s.n] = 0;
    return (span){copy, s.n};
}

span span_join(arena *a, span x, span y) {
    char *both = arena_alloc(a, x.n + y.n + 1);
    if (x.n) memcpy(both, x.s, x.n);
    if (y.n) memcpy(both + x.n, y.s, y.n);
    both[x.n + y.n] = 0;
    return (span){both, x.n + y.n};
}

span span_replace(arena *a, span s, span from, span to) {
    const char *at = from.n ? memmem(s.s, s.n, from.s, from.n) : NULL;
    if (!at) return s;
    str out;
    str_open_in(&out, a);
    while (at) {
        str_addn(&out, s.s, (size_t)(at - s.s));
        str_addn(&out, to.s, to.n);
        s = span_from(s, (size_t)(at - s.s) + from.n);
        at = s.n ? memmem(s.s, s.n, from.s, from.n) : NULL;
    }
    str_addn(&out, s.s, s.n);
    return (span){out.s, out.len};
}

/* ---- what characters are -------------------------------------------------------------------- */

bool char_among(uint32_t c, uint32_t categories) {
    const uint32_t *run = RUN_OF(category_table, 1, c * 32 + 31);
    return run && categories >> (*run & 31) & 1;
}

bool char_in(uint32_t c, char_set set) {
    static const struct {
        const uint32_t *at;
        size_t count;
    } sets[] = {[SET_PUNCTUATION] = {punctuation_table, COUNT_OF(punctuation_table)},
                [SET_NUMERIC] = {numeric_table, COUNT_OF(numeric_table)},
                [SET_ACCENT] = {accent_table, COUNT_OF(accent_table)},
                [SET_MARK] = {mark_table, COUNT_OF(mark_table)},
                [SET_CONTROL] = {control_table, COUNT_OF(control_table)},
                [SET_CHINESE] = {chinese_table, COUNT_OF(chinese_table)}};
    const uint32_t *run = run_of(sets[set].at, sets[set].count, 2, c);
    return run && c <= run[1];
}

bool char_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || (c >= 0xa0 && char_among(c, IS_ZS | IS_ZL | IS_ZP));
}

/* Alphabetic, marks, decimal digits, connectors, joiners (UTS #18); letters in circles and squares
 * are alphabetic. */
bool char_is_word(uint32_t c) {
    if (c < 0x80) return (c >= '0' && c <= '9') || c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
    return char_among(c, IS_LETTER | IS_MARK | IS_ND | IS_NL | IS_PC) || c == 0x200c ||
           c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

uint32_t char_lower(uint32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    const uint32_t *run = RUN_OF(lower_table, 3, c);
    if (!run) return c;
    uint32_t count = run[1] >> 2, step = 1 + (run[1] >> 1 & 1), away = c - run[0];
    if (away % step || away / step >= count) return c;
    return run[1] & 1 ? c - run[2] : c + run[2];
}

/* ---- normalisation -------------------------------------------------------------------------- */

enum {
    HANGUL = 0xac00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11a7,
    HANGUL_LS = 19,
    HANGUL_VS = 21,
    HANGUL_TS = 28,
    HANGULS = HANGUL_LS * HANGUL_VS * HANGUL_TS
};

typedef struct letters {
    arena *a;
    uint32_t *at, n, cap;
} letters;

static void letter_add(letters *l, uint32_t c) {
    if (l->n == l->cap) l->at = arena_grow(l->a, l->at, &l->cap, l->n + 1, sizeof *l->at);
    l->at[l->n++] = c;
}

static uint32_t order_of(uint32_t c) {
    if (c < 0x300) return 0;
    const uint32_t *run = RUN_OF(order_table, 2, c);
    return run && c - run[0] < run[1] >> 8 ? run[1] & 255 : 0;
}

static void hangul_add(letters *l, uint32_t c) {
    c -= HANGUL;
    letter_add(l, HANGUL_L + c / (HANGUL_VS * HANGUL_TS));
    letter_add(l, HANGUL_V + c / HANGUL_TS % HANGUL_VS);
    if (c % HANGUL_TS) letter_add(l, HANGUL_T + c % HANGUL_TS);
}

/* As far as it goes: the tables have single steps, of which no chain is longer than a few. */
static void decompose(letters *l, uint32_t c, bool compatible) {
    const uint32_t *run;
    if (c < 0xa0) {
        letter_add(l, c);
    } else if (c - HANGUL < HANGULS) {
        hangul_add(l, c);
    } else if ((run = RUN_OF(pair_table, 3, c)) && run[0] == c) {
        decompose(l, run[1], compatible);
        decompose(l, run[2], compatible);
    } else if ((run = RUN_OF(canonical_table, 3, c)) && c - run[0] < run[1]) {
        decompose(l, run[2] + (c - run[0]), compatible);
    } else if (compatible && (run = RUN_OF(compatible_table, 3, c)) && c - run[0] < run[1]) {
        decompose(l, run[2] + (c - run[0]), compatible);
    } else if (compatible && (run = RUN_OF(long_table, 2, c)) && run[0] == c) {
        for (uint32_t i = 0; i < (run[1] & 31); i++)
            decompose(l, pool_table[(run[1] >> 5) + i], compatible);
    } else {
        letter_add(l, c);
    }
}

/* Sort a run of marks by class, equal ones as they stand: by counting, for a run may be long. */
static void sort_marks(uint32_t *at, uint32_t n, arena *a) {
    uint32_t count[257] = {0}, *copy = arena_alloc(a, n * sizeof *copy);
    memcpy(copy, at, n * sizeof *copy);
    for (uint32_t i = 0; i < n; i++) count[order_of(copy[i]) + 1]++;
    for (int i = 0; i < 256; i++) count[i + 1] += count[i];
    for (uint32_t i = 0; i < n; i++) at[count[order_of(copy[i])]++] = copy[i];
}

static void order_marks(letters *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t begin = i, last = order_of(l->at[i]), order;
        bool sorted = true;
        if (!last) continue;
        while (++i < l->n && (order = order_of(l->at[i])) > 0) {
            sorted &= order >= last;
            last = order;
        }
        if (!sorted) sort_marks(l->at + begin, i - begin, l->a);
    }
}

/* What two make, 0: nothing. */
static uint32_t pair_of(uint32_t a, uint32_t b) {
    if (a - HANGUL_L < HANGUL_LS && b - HANGUL_V < HANGUL_VS)
        return HANGUL + ((a - HANGUL_L) * HANGUL_VS + (b - HANGUL_V)) * HANGUL_TS;
    if (a - HANGUL < HANGULS && (a - HANGUL) % HANGUL_TS == 0 && b - HANGUL_T - 1 < HANGUL_TS - 1)
        return a + (b - HANGUL_T);
    size_t lo = 0, hi = COUNT_OF(composed_table) / 3;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        const uint32_t *row = composed_table + middle * 3;
        if (row[0] == a && row[1] == b) return row[2];
        if (row[0] < a || (row[0] == a && row[1] < b))
            lo = middle + 1;
        else
            hi = middle;
    }
    return 0;
}

static void compose(letters *l) {
    uint32_t out = 0, starter = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t c = l->at[i], order = order_of(c);
        bool open = starter != UINT32_MAX && (last < order || starter + 1 == out);
        uint32_t both = open ? pair_of(l->at[starter], c) : 0;
        if (both) {
            l->at[starter] = both;
            continue;
        }
        if (!order) starter = out;
        last = order;
        l->at[out++] = c;
    }
    l->n = out;
}

static bool is_ascii(span s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.s[i] >= 0x80) return false;
    return true;
}

span text_normalize(arena *a, span s, text_form form) {
    if (is_ascii(s)) return s;
    letters l = {.a = a};
    for (size_t at = 0, n; at < s.n; at += n)
        decompose(&l, utf8_next(s.s + at, &n), form == FORM_NFKC || form == FORM_NFKD);
    order_marks(&l);
    if (form == FORM_NFC || form == FORM_NFKC) compose(&l);
    char *out = arena_alloc(a, (size_t)l.n * 4 + 1);
    size_t size = 0;
    for (uint32_t i = 0; i < l.n; i++) size += utf8_put(l.at[i], out + size);
    out[size] = 0;
    return (span){out, size};
}
