/* text.c - wisdom as text: records one after the other, a dozen lines and a schedule each.
 *
 * The text is for people to read and for files to carry, not to be edited: it has one spelling. A
 * record ends with a hash of its lines, the whole with the number of records and a hash of all
 * before; so whatever was cut short or changed on the way is found, and the line named. Nothing is
 * taken from a text that is not right to its end.
 *
 *     quern wisdom 2
 *     kernel 5c0f..32 hex digits.. mul[512, 512]
 *     family 16 hex digits
 *     place 16 hex digits cpu Intel(R) Xeon(R), quern 0.1.0
 *     standard 16 hex digits
 *     threads 2                       (0: any number)
 *     tuned 1 times, 312 tried, 12.500 s
 *     ratio 0.8731 same, open         (or regrouped, or free: it might have been; or done)
 *     schedule 14
 *     ..14 lines.., loops by handles (search/script.c)
 *     seen 11                         (candidates)
 *     ..two lines, 8 hex digits each, eight in a line..
 *     sum 16 hex digits
 *     end 1 16 hex digits */
#include "schedule/wisdom/wisdom.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char heading[] = "quern wisdom 2\n";
enum { MOST_LINES = 4096, LINE = 512, SEEN_IN_LINE = 8 };

static uint32_t lines_in(const char *s) {
    uint32_t n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

static const char *grouping_word(const wisdom_record *r) {
    return r->regrouped ? "regrouped" : r->regroup ? "free" : "same";
}

static void print_record(const wisdom_record *r, str *out) {
    uint32_t begin = out->len;
    str_addf(out, "kernel %016" PRIx64 "%016" PRIx64 " %s\n", r->key.kernel[0], r->key.kernel[1],
             r->name);
    str_addf(out, "family %016" PRIx64 "\n", r->family);
    str_addf(out, "place %016" PRIx64 " %s\n", r->key.place, r->place);
    str_addf(out, "standard %016" PRIx64 "\nthreads %" PRId64 "\n", r->key.standard,
             r->key.threads);
    str_addf(out, "tuned %" PRId64 " times, %" PRId64 " tried, %.3f s\n", r->round, r->tried,
             r->spent);
    str_addf(out, "ratio %.4f %s, %s\n", r->ratio, grouping_word(r), r->done ? "done" : "open");
    str_addf(out, "schedule %u\n%s", lines_in(r->schedule), r->schedule);
    str_addf(out, "seen %u", r->seens);
    for (uint32_t i = 0; i < r->seens; i++)
        str_addf(out, "%s%08x", i % SEEN_IN_LINE ? " " : "\n", r->seen[i]);
    str_add(out, "\n");
    str_addf(out, "sum %016" PRIx64 "\n", hash_bytes(out->s + begin, out->len - begin, 11));
}

void wisdom_print(const wisdom *w, str *out) {
    uint32_t begin = out->len;
    str_add(out, heading);
    for (uint32_t i = 0; i < w->count; i++) print_record(&w->at[i], out);
    str_addf(out, "end %u %016" PRIx64 "\n", w->count,
             hash_bytes(out->s + begin, out->len - begin, 12));
}

bool wisdom_is(const void *text, size_t size) {
    return size >= sizeof heading - 1 && !memcmp(text, heading, sizeof heading - 1);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    const char *at, *end;
    const char *expected; /* what the text lacks; NULL as long as it is right */
    int number;           /* of the line that `line` is */
    char line[LINE];
} reader;

/* The next line without its end; false if it is too long, has a NUL, or ends with the text. */
static bool next_line(reader *t) {
    size_t left = (size_t)(t->end - t->at);
    const char *end = left ? memchr(t->at, '\n', left) : NULL;
    size_t n = end ? (size_t)(end - t->at) : 0;
    if (t->expected) return false;
    t->number++;
    if (!end || n >= LINE || memchr(t->at, 0, n)) {
        t->expected = !end ? "a line that ends" : "a plain line of text";
        return false;
    }
    memcpy(t->line, t->at, n);
    t->line[n] = 0;
    t->at = end + 1;
    return true;
}

/* A line has one spelling: what was read, printed, must be the line again. */
static bool spelled(reader *t, const char *expected, const char *fmt, ...) QN_PRINTF(3, 4);
static bool spelled(reader *t, const char *expected, const char *fmt, ...) {
    char again[2 * LINE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(again, sizeof again, fmt, args);
    va_end(args);
    if (strcmp(again, t->line) != 0) t->expected = expected;
    return !t->expected;
}

static uint64_t hex_at(const char *s) {
    char digits[17] = "";
    snprintf(digits, sizeof digits, "%.16s", s);
    return strtoull(digits, NULL, 16);
}

/* What follows the word and its hexadecimal digits, "" where the line is shorter. */
static const char *behind(const reader *t, size_t n) {
    return strlen(t->line) > n ? t->line + n : "";
}

static bool read_names(reader *t, arena *a, wisdom_record *r) {
    if (!next_line(t)) return false;
    r->key.kernel[0] = hex_at(behind(t, 7));
    r->key.kernel[1] = hex_at(behind(t, 23));
    r->name = arena_printf(a, "%s", behind(t, 40));
    spelled(t, "\"kernel\", 32 digits and a name", "kernel %016" PRIx64 "%016" PRIx64 " %s",
            r->key.kernel[0], r->key.kernel[1], r->name);
    if (!next_line(t)) return false;
    r->family = hex_at(behind(t, 7));
    spelled(t, "\"family\" and 16 digits", "family %016" PRIx64, r->family);
    if (!next_line(t)) return false;
    r->key.place = hex_at(behind(t, 6));
    r->place = arena_printf(a, "%s", behind(t, 23));
    spelled(t, "\"place\", 16 digits and a name", "place %016" PRIx64 " %s", r->key.place,
            r->place);
    if (!next_line(t)) return false;
    r->key.standard = hex_at(behind(t, 9));
    return spelled(t, "\"standard\" and 16 digits", "standard %016" PRIx64, r->key.standard);
}

static bool read_numbers(reader *t, wisdom_record *r) {
    char order[16] = "", state[16] = "";
    if (!next_line(t)) return false;
    r->key.threads = strtoll(behind(t, 8), NULL, 10);
    spelled(t, "\"threads\" and their number", "threads %" PRId64, r->key.threads);
    if (!next_line(t)) return false;
    sscanf(t->line, "tuned %" SCNd64 " times, %" SCNd64 " tried, %lf s", &r->round, &r->tried,
           &r->spent);
    spelled(t, "\"tuned N times, N tried, N s\"",
            "tuned %" PRId64 " times, %" PRId64 " tried, %.3f s", r->round, r->tried, r->spent);
    if (!next_line(t)) return false;
    sscanf(t->line, "ratio %lf %15[a-z], %15[a-z]", &r->ratio, order, state);
    r->regrouped = !strcmp(order, "regrouped");
    r->regroup = r->regrouped || !strcmp(order, "free");
    r->done = !strcmp(state, "done");
    spelled(t, "\"ratio N same|free|regrouped, open|done\"", "ratio %.4f %s, %s", r->ratio,
            grouping_word(r), r->done ? "done" : "open");
    bool sane = r->key.threads >= 0 && r->round >= 0 && r->tried >= 0 && r->spent >= 0 &&
                r->ratio > 0 && r->ratio < 1e6 && r->spent < 1e12;
    if (!sane && !t->expected) t->expected = "numbers that can be";
    return !t->expected;
}

static bool read_schedule(reader *t, arena *a, wisdom_record *r) {
    if (!next_line(t)) return false;
    int64_t n = strtoll(behind(t, 9), NULL, 10);
    if (!spelled(t, "\"schedule\" and its number of lines", "schedule %" PRId64, n)) return false;
    if (n < 0 || n > MOST_LINES) t->expected = "a schedule of at most 4096 lines";
    const char *begin = t->at;
    for (int64_t i = 0; i < n; i++)
        if (!next_line(t)) return false;
    r->schedule = arena_printf(a, "%.*s", (int)(t->at - begin), begin);
    return !t->expected;
}

/* "0123abcd 4567ef01": n numbers; there are many lines of them, so they are read by hand. */
static bool read_hex_line(const char *line, uint32_t n, uint32_t *out) {
    for (uint32_t i = 0; i < n; i++) {
        if (i && *line++ != ' ') return false;
        uint32_t value = 0;
        for (int digit = 0; digit < 8; digit++, line++) {
            bool number = *line >= '0' && *line <= '9', letter = *line >= 'a' && *line <= 'f';
            if (!number && !letter) return false;
            value = value << 4 | (uint32_t)(number ? *line - '0' : *line - 'a' + 10);
        }
        out[i] = value;
    }
    return !*line;
}

static bool read_seen(reader *t, arena *a, wisdom_record *r) {
    if (!next_line(t)) return false;
    uint64_t n = strtoull(behind(t, 5), NULL, 10);
    if (!spelled(t, "\"seen\" and how many", "seen %" PRIu64, n)) return false;
    if (n > WISDOM_SEEN) t->expected = "at most 4096 that were seen";
    if (t->expected) return false;
    uint32_t *seen = arena_zeroed(a, (n + 1) * sizeof *seen);
    r->seens = (uint32_t)n;
    r->seen = seen;
    for (uint32_t i = 0; i < n && next_line(t); i += SEEN_IN_LINE) {
        uint32_t most = (uint32_t)n - i < SEEN_IN_LINE ? (uint32_t)n - i : SEEN_IN_LINE;
        if (!read_hex_line(t->line, most, seen + i)) t->expected = "numbers of eight digits";
    }
    return !t->expected;
}

static bool read_record(reader *t, arena *a, wisdom_record *r) {
    const char *begin = t->at - strlen(t->line) - 1;
    t->at = begin; /* its first line was looked at to see whether there is one */
    t->number--;
    if (!read_names(t, a, r) || !read_numbers(t, r) || !read_schedule(t, a, r) ||
        !read_seen(t, a, r))
        return false;
    uint64_t sum = hash_bytes(begin, (size_t)(t->at - begin), 11);
    return next_line(t) &&
           spelled(t, "another sum: a line of this record was changed", "sum %016" PRIx64, sum);
}

/* The records, in arena `a`; their number, or -1. */
static int64_t read_all(reader *t, arena *a, wisdom_record **out) {
    const char *begin = t->at;
    uint32_t n = 0, cap = 0;
    *out = NULL;
    if (!next_line(t) || !spelled(t, "\"quern wisdom 2\"", "quern wisdom 2")) return -1;
    for (;;) {
        const char *line = t->at;
        if (!next_line(t)) return -1;
        if (!strncmp(t->line, "end ", 4)) {
            uint64_t sum = hash_bytes(begin, (size_t)(line - begin), 12);
            if (!spelled(t, "another end: records are missing or changed", "end %u %016" PRIx64, n,
                         sum))
                return -1;
            if (t->at != t->end) t->expected = "nothing behind the end";
            return t->expected ? -1 : (int64_t)n;
        }
        *out = arena_grow(a, *out, &cap, n + 1, sizeof **out);
        wisdom_record *r = &(*out)[n++];
        *r = (wisdom_record){.round = -1};
        if (!read_record(t, a, r)) return -1;
    }
}

bool wisdom_parse(qn_ctx *qn, const char *from, const char *text, size_t size, wisdom *w) {
    arena a;
    reader t = {.at = text, .end = text + size};
    arena_open(&a, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    wisdom_record *r;
    int64_t n = read_all(&t, &a, &r);
    if (n >= 0) wisdom_add_all(qn, w, (uint32_t)n, r);
    cleanup_run(&qn->heap, &c);
    if (n < 0) fail(qn, QN_EFORMAT, "wisdom %s, line %d: expected %s", from, t.number, t.expected);
    return n >= 0;
}
