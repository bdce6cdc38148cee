/* fuzz.h - what the fuzzers of readers share: an input's bytes and the changes that make more of
 * them, a file in memory, and how a finding is told.
 *
 * An input is made of a sample that its reader takes, so that it reaches deep, by a few changes.
 * Those of texts know what a text is made of: a word gives way to another of the kind's corpus, a
 * number to one at an edge, lines are dropped, doubled and exchanged, parts come from other
 * samples. Those of bytes set numbers of all widths, drop pieces and repeat them. What no change
 * would get past by chance, lengths and check sums, a kind's maker sets right again. */
#ifndef QN_FUZZ_H
#define QN_FUZZ_H

#include "base/base.h"
#include "chance.h"

#include <ctype.h>
#include <sys/mman.h>
#include <unistd.h>

/* What happened, for the tally. */
typedef struct fuzz_counts {
    uint64_t inputs, accepted, lines, compared;
} fuzz_counts;

static fuzz_counts fuzz_seen;
static qn_ctx *fuzz_ctx; /* of the kinds that need no device */

/* A finding that no sanitizer would see. */
#define FOUND(...) (printf("found: "), printf(__VA_ARGS__), printf("\n"), fflush(stdout), abort())

static inline void fuzz_forget(qn_ctx *qn) {
    qn->code = QN_OK;
    qn->error[0] = 0;
}

static inline qn_ctx *fuzz_plain(void) {
    if (fuzz_ctx) return fuzz_ctx;
    fuzz_ctx = calloc(1, sizeof *fuzz_ctx);
    heap_open(&fuzz_ctx->heap, NULL, fuzz_ctx);
    return fuzz_ctx;
}

/* A file without a disk: its path, and its bytes from now on. */
typedef struct fuzz_file {
    int fd; /* 0: none yet */
    char path[32];
} fuzz_file;

static inline const char *fuzz_file_set(fuzz_file *f, const void *data, size_t size) {
    if (!f->fd) {
        f->fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    }
    if (ftruncate(f->fd, 0) || pwrite(f->fd, data, size, 0) != (ssize_t)size) FOUND("no file");
    return f->path;
}

/* The text before a line "%", the lines behind it. */
static inline size_t fuzz_divide(const uint8_t *data, size_t size) {
    for (size_t i = 0; i + 2 < size; i++)
        if (data[i] == '\n' && data[i + 1] == '%' && data[i + 2] == '\n') return i + 1;
    return size;
}

/* What is behind it. */
static inline size_t fuzz_behind(size_t divide, size_t size) {
    return divide < size ? divide + 2 : size;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

enum { MUTATE_ROOM = 1 << 16 };

typedef struct bytes {
    uint8_t at[MUTATE_ROOM];
    size_t n;
} bytes;

/* What a kind's texts are made of. */
typedef struct corpus {
    const char *const *text, *const *word;
    int texts, words;
} corpus;
#define CORPUS(texts, words) ((corpus){(texts), (words), COUNT_OF(texts), COUNT_OF(words)})

static const char *const numbers[] = {
    "0",
    "1",
    "2",
    "3",
    "4",
    "7",
    "8",
    "15",
    "16",
    "17",
    "31",
    "32",
    "63",
    "64",
    "65",
    "255",
    "256",
    "1024",
    "4095",
    "65536",
    "1000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "100000000000",
    "4611686018427387904",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
    "-1",
    "-2",
    "-9223372036854775808",
    "0.5",
    "1e308",
    "1e999",
    "0x7fc00001",
    "0xffffffff",
    "1e-400",
};

/* ---- changes -------------------------------------------------------------------------------- */

static inline void put(bytes *b, size_t at, size_t gone, const void *with, size_t n) {
    uint8_t copy[4096];
    if (n > sizeof copy || at > b->n) return;
    if (gone > b->n - at) gone = b->n - at;
    if (b->n - gone + n > MUTATE_ROOM) return;
    memcpy(copy, with, n); /* it may be a part of what moves */
    memmove(b->at + at + n, b->at + at + gone, b->n - at - gone);
    memcpy(b->at + at, copy, n);
    b->n = b->n - gone + n;
}

static inline size_t line_begin(const bytes *b, size_t at) {
    while (at && b->at[at - 1] != '\n') at--;
    return at;
}

static inline size_t line_end(const bytes *b, size_t at) {
    while (at < b->n && b->at[at] != '\n') at++;
    return at < b->n ? at + 1 : at;
}

static inline bool is_word_byte(int c) {
    return isalnum(c) || c == '_' || c == '.';
}

/* The word or number at or behind a place; its length, 0: none. */
static inline size_t find_word(const bytes *b, size_t *at, bool number) {
    for (size_t tries = 0; tries < b->n; tries++, *at = (*at + 1) % b->n) {
        bool starts = *at == 0 || !is_word_byte(b->at[*at - 1]);
        if (!starts || !is_word_byte(b->at[*at])) continue;
        if (number && !isdigit(b->at[*at])) continue;
        size_t n = 0;
        while (*at + n < b->n && is_word_byte(b->at[*at + n])) n++;
        return n;
    }
    return 0;
}

static inline void change_word(bytes *b, const corpus *c, bool number) {
    size_t at = (size_t)below((int64_t)b->n), n = find_word(b, &at, number), other = at, m = 0;
    const char *by = number ? numbers[below(COUNT_OF(numbers))] : c->word[below(c->words)];
    if (!n) return;
    if (chance(40)) {
        other = (size_t)below((int64_t)b->n);
        m = find_word(b, &other, number);
    }
    if (m)
        put(b, at, n, b->at + other, m);
    else
        put(b, at, n, by, strlen(by));
}

static inline void change_line(bytes *b) {
    size_t at = line_begin(b, (size_t)below((int64_t)b->n)), end = line_end(b, at);
    size_t to = line_begin(b, (size_t)below((int64_t)b->n));
    switch (below(4)) {
    case 0:
        put(b, at, end - at, "", 0);
        break;
    case 1:
        put(b, at, 0, b->at + at, end - at);
        break;
    default:
        put(b, to, chance(50) ? line_end(b, to) - to : 0, b->at + at, end - at);
        break;
    }
}

static inline void change_bytes(bytes *b) {
    size_t at = (size_t)below((int64_t)b->n);
    static const char likely[] = "{}[]()<>=+-*/,;:\"\\ \n\t#%0";
    uint8_t c = (uint8_t)(chance(60) ? likely[below(sizeof likely)] : below(256));
    switch (below(5)) {
    case 0:
        b->at[at] ^= (uint8_t)(1 << below(8));
        break;
    case 1:
        put(b, at, (size_t)below(4), "", 0);
        break;
    case 2:
        put(b, at, 0, &c, 1);
        break;
    case 3:
        b->at[at] = c;
        break;
    default:
        b->n = chance(30) ? at : b->n; /* cut */
        break;
    }
}

static inline void repeat(bytes *b) {
    size_t at = (size_t)below((int64_t)b->n), n = 1 + (size_t)below(12);
    if (n > b->n - at) n = b->n - at;
    for (int64_t times = 1 + below(chance(10) ? 300 : 8); times > 0; times--)
        put(b, at, 0, b->at + at, n);
}

static inline void graft(bytes *b, const char *other) {
    size_t all = strlen(other), from = (size_t)below((int64_t)all + 1);
    size_t n = (size_t)below(80), at = (size_t)below((int64_t)b->n + 1);
    if (n > all - from) n = all - from;
    put(b, at, (size_t)below(40), other + from, n);
}

/* Some changes of a text, up to a dozen. */
static inline void mutate(bytes *b, const corpus *c) {
    for (int64_t n = below(chance(20) ? 12 : 5); n > 0 && b->n; n--) {
        int64_t how = below(100);
        if (how < 30)
            change_word(b, c, true);
        else if (how < 55)
            change_word(b, c, false);
        else if (how < 75)
            change_line(b);
        else if (how < 92)
            change_bytes(b);
        else if (how < 95)
            repeat(b);
        else
            graft(b, c->text[below(c->texts)]);
    }
}

static inline void take(bytes *b, const char *text) {
    b->n = strlen(text);
    memcpy(b->at, text, b->n);
}

/* ---- binary changes ------------------------------------------------------------------------- */

static inline void add_bytes(bytes *b, const void *p, size_t n) {
    size_t room = b->n < MUTATE_ROOM ? MUTATE_ROOM - b->n : 0;
    if (n > room) n = room;
    if (n) memcpy(b->at + b->n, p, n);
    b->n += n;
}

/* The low bytes of a number. */
static inline void add_number(bytes *b, uint64_t v, size_t width) {
    add_bytes(b, &v, width);
}

static inline void add_text(bytes *b, const char *text) {
    add_bytes(b, text, strlen(text));
}

/* A number at which readers go wrong. */
static inline uint64_t odd_number(void) {
    int64_t bit = below(64);
    uint64_t near = (uint64_t)1 << bit;
    return chance(30) ? (uint64_t)below(300) : near + (uint64_t)below(3) - 1;
}

/* Bits, bytes, numbers, pieces that go, come twice or over others. */
static inline void change_binary(bytes *b) {
    if (!b->n) return;
    size_t at = (size_t)below((int64_t)b->n), left = b->n - at, n = 1 + (size_t)below(16);
    if (n > left) n = left;
    switch (below(6)) {
    case 0:
        b->at[at] ^= (uint8_t)(1 << below(8));
        break;
    case 1:
        b->at[at] = (uint8_t)test_rand(&rng);
        break;
    case 2: {
        uint64_t v = odd_number();
        size_t width = (size_t)1 << below(4);
        memcpy(b->at + at, &v, width < left ? width : left);
        break;
    }
    case 3:
        put(b, at, n, "", 0);
        break;
    case 4:
        put(b, at, 0, b->at + at, n);
        break;
    default:
        memmove(b->at + at, b->at + below((int64_t)(b->n - n + 1)), n);
        break;
    }
}

/* A cut now and then, up to `most` changes. */
static inline void damage(bytes *b, int most) {
    for (int64_t n = 1 + below(most); n > 0; n--) change_binary(b);
    if (b->n && chance(5)) b->n = (size_t)below((int64_t)b->n);
}

/* ---- kinds ---------------------------------------------------------------------------------- */

typedef struct fuzz_kind {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
    void (*make)(bytes *b); /* an input, by the stream of chance.h */
    int quick;              /* inputs of a short run */
} fuzz_kind;

#endif
