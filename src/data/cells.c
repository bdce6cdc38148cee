/* cells.c - a CSV file cell by cell (RFC 4180), and cells as numbers.
 *
 * A cell is quoted, and then holds anything, two quotes standing for one, or it ends at the next
 * separator or end of line. A quote anywhere else is a fault of the file and no text. Numbers are
 * rounded once and never by the locale: those of few digits by one exact operation (Clinger 1990,
 * "How to read floating point numbers accurately"), others by the C library in its own locale. */
#include "data/data.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- cells ----------------------------------------------------------------------------------- */

void cells_bad(const cells *c, const char *fmt, ...) {
    char text[400], name[120] = "";
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (c->name && c->number >= 1 && c->number <= c->names)
        snprintf(name, sizeof name, " (\"%.80s\")", c->name[c->number - 1]);
    raise_error(c->qn, QN_EFORMAT, "%s: line %lld, column %d%s: %s", c->path, (long long)c->at,
                c->number, name, text);
}

/* Bytes of an end of line at p, 0: there is none. */
static int line_end(const cells *c) {
    if (c->p < c->end && *c->p == '\n') return 1;
    return c->end - c->p >= 2 && c->p[0] == '\r' && c->p[1] == '\n' ? 2 : 0;
}

bool cells_line(cells *c) {
    for (int n; (n = line_end(c)); c->p += n) c->line++;
    c->more = c->p < c->end;
    c->number = 0;
    return c->more;
}

static void quoted_cell(cells *c) {
    const char *from = ++c->p;
    for (;; c->p++) {
        if (c->p == c->end) cells_bad(c, "a quote that is not closed");
        c->line += *c->p == '\n';
        if (*c->p != '"') continue;
        str_addn(c->value, from, (size_t)(c->p - from));
        if (c->end - c->p < 2 || c->p[1] != '"') break;
        from = ++c->p; /* the second of two is text */
    }
    c->p++;
}

static void plain_cell(cells *c) {
    const char *from = c->p;
    while (c->p < c->end && *c->p != c->separator && !line_end(c)) {
        if (*c->p == '"') cells_bad(c, "a quote within a cell that does not begin with one");
        c->p++;
    }
    str_addn(c->value, from, (size_t)(c->p - from));
}

bool cells_next(cells *c) {
    if (!c->more) return false;
    c->number++;
    c->at = c->line;
    c->value->len = 0;
    str_add(c->value, "");
    if (c->p < c->end && *c->p == '"')
        quoted_cell(c);
    else
        plain_cell(c);
    if (memchr(c->value->s, 0, c->value->len)) cells_bad(c, "a zero byte");
    int n = line_end(c);
    c->more = c->p < c->end && *c->p == c->separator;
    if (!c->more && !n && c->p < c->end) cells_bad(c, "text behind a closing quote");
    c->p += c->more ? 1 : n;
    c->line += !c->more && n;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct decimal {
    uint64_t digits;          /* the number's, without the point */
    int64_t power;            /* of ten */
    bool minus, whole, long_; /* whole: neither point nor exponent; long_: more than 19 digits */
} decimal;

/* The number that fills [s, end); false: it is none. */
static bool parse_decimal(const char *s, const char *end, decimal *x) {
    int64_t power = 0;
    int seen = 0, kept = 0;
    *x = (decimal){.minus = s < end && *s == '-', .whole = true};
    if (s < end && (*s == '-' || *s == '+')) s++;
    for (; s < end && (isdigit((unsigned char)*s) || (*s == '.' && x->whole)); s++) {
        if (*s == '.') {
            x->whole = false;
            continue;
        }
        seen++;
        x->power -= !x->whole;
        x->long_ |= kept == 19;
        if (kept == 19) continue;
        x->digits = 10 * x->digits + (uint64_t)(*s - '0');
        kept += x->digits > 0;
    }
    if (seen && s < end && (*s == 'e' || *s == 'E')) {
        bool minus = s + 1 < end && s[1] == '-';
        s += s + 1 < end && (s[1] == '-' || s[1] == '+') ? 2 : 1;
        if (s == end) return false;
        for (; s < end && isdigit((unsigned char)*s); s++)
            power = power < 100000 ? 10 * power + (*s - '0') : power;
        x->power += minus ? -power : power;
        x->whole = false;
    }
    return seen && s == end;
}

/* By the C library, of text without spaces around it, in its own locale whatever the program's. */
static void convert(const char *text, bool narrow, void *out) {
    float f = narrow ? text_f32(text, NULL) : 0;
    double d = narrow ? 0 : text_f64(text, NULL);
    memcpy(out, narrow ? (const void *)&f : &d, narrow ? sizeof f : sizeof d);
}

static bool to_float(const char *s, const char *end, bool narrow, void *out) {
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    static const char *const words[] = {"nan", "inf", "infinity"};
    decimal x;
    if (!parse_decimal(s, end, &x)) {
        const char *w = s + (s < end && (*s == '-' || *s == '+'));
        for (size_t i = 0; i < COUNT_OF(words); i++)
            if ((size_t)(end - w) == strlen(words[i]) &&
                strncasecmp(w, words[i], strlen(words[i])) == 0)
                return convert(s, narrow, out), true;
        return false;
    }
    int64_t power = x.power < 0 ? -x.power : x.power;
    bool exact = !x.long_ && x.digits < (narrow ? 1u << 24 : (uint64_t)1 << 53);
    if (!exact || power > (narrow ? 10 : 22)) return convert(s, narrow, out), true;
    double d = (double)x.digits;
    float f = (float)x.digits;
    d = x.power < 0 ? d / ten[power] : d * ten[power];
    f = !narrow ? 0 : x.power < 0 ? f / (float)ten[power] : f * (float)ten[power];
    d = x.minus ? -d : d;
    f = x.minus ? -f : f;
    memcpy(out, narrow ? (const void *)&f : &d, narrow ? sizeof f : sizeof d);
    return true;
}

static bool to_whole(const char *s, const char *end, qn_dtype dtype, void *out) {
    decimal x;
    size_t width = qn_dtype_size(dtype);
    bool has_sign = !dtype_is_unsigned((int)dtype);
    if (!parse_decimal(s, end, &x) || !x.whole) return false;
    uint64_t most = UINT64_MAX >> (64 - 8 * width + has_sign);
    if (x.long_) { /* 20 digits may be less than 2^64 */
        errno = 0;
        char *stop;
        x.digits = strtoull(s + (*s == '+' || *s == '-'), &stop, 10);
        if (errno) return false;
    }
    if (x.digits > most + (has_sign && x.minus) || (!has_sign && x.minus && x.digits)) return false;
    uint64_t bits = x.minus ? 0 - x.digits : x.digits;
    memcpy(out, &bits, width); /* low bytes come first */
    return true;
}

static bool to_bool(const char *s, const char *end, uint8_t *out) {
    size_t n = (size_t)(end - s);
    *out = (n == 1 && *s == '1') || (n == 4 && strncasecmp(s, "true", 4) == 0);
    return *out || (n == 1 && *s == '0') || (n == 5 && strncasecmp(s, "false", 5) == 0);
}

bool cell_takes(int dtype) {
    return dtype_is_known(dtype) && (!dtype_is_float(dtype) || dtype == QN_F32 || dtype == QN_F64);
}

bool cell_number(const char *text, qn_dtype dtype, void *out) {
    const char *end = text + strlen(text);
    while (*text == ' ' || *text == '\t') text++;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t')) end--;
    if (dtype == QN_BOOL) return to_bool(text, end, out);
    if (dtype_is_float((int)dtype)) return to_float(text, end, dtype == QN_F32, out);
    return to_whole(text, end, dtype, out);
}
