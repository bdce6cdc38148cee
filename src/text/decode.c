/* decode.c - from tokens to text: one function a decoder of tokenizer.json, each changing the list
 * of tokens; what is left of it is the text. */
#include "text/text.h"

/* The byte that a letter stands for, -1: none (split.c: byte_letter). */
static int letter_byte(uint32_t c) {
    if ((c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xff && c != 0xad)) return (int)c;
    if (c < 0x100 || c > 0x100 + 67) return -1;
    c -= 0x100;
    return (int)(c <= ' ' ? c : c < 67 ? c - 33 + 0x7f : 0xad);
}

static span from_letters(arena *a, span s) {
    char *out = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t at = 0, length; at < s.n; at += length) {
        int byte = letter_byte(utf8_next(s.s + at, &length));
        if (byte < 0) return s;
        out[n++] = (char)byte;
    }
    return (span){out, n};
}

static void fuse(decode_state *d) {
    str all;
    str_open_in(&all, d->a);
    str_addn(&all, "", 0);
    for (uint32_t i = 0; i < d->n; i++) str_addn(&all, d->at[i].s, d->at[i].n);
    d->n = d->n > 0;
    if (d->n) d->at[0] = (span){all.s, all.len};
}

static void byte_level_decode(const text_step *s, decode_state *d) {
    (void)s;
    for (uint32_t i = 0; i < d->n; i++) d->at[i] = from_letters(d->a, d->at[i]);
    fuse(d);
    if (d->n) d->at[0] = utf8_repair(d->a, d->at[0]);
}

static void fuse_decode(const text_step *s, decode_state *d) {
    (void)s;
    fuse(d);
}

static void metaspace_read(const text_loader *l, const json *v, text_step *s) {
    s->from = load_text(l, v, "replacement");
    s->flag[0] = load_flag(l, v, "add_prefix_space", true);
    if (json_member(v, "prepend_scheme"))
        s->flag[0] = !span_is(load_text(l, v, "prepend_scheme"), SPAN("never"));
}
static void metaspace_decode(const text_step *s, decode_state *d) {
    for (uint32_t i = 0; i < d->n; i++)
        d->at[i] =
            work_replace(d->work, d->at[i], s->from, i == 0 && s->flag[0] ? SPAN("") : SPAN(" "));
}

static void wordpiece_read(const text_loader *l, const json *v, text_step *s) {
    s->from = load_text(l, v, "prefix");
    s->flag[0] = load_flag(l, v, "cleanup", true);
}
static void wordpiece_decode(const text_step *s, decode_state *d) {
    static const char *const clean[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    for (uint32_t i = 0; i < d->n; i++) {
        span *t = &d->at[i];
        if (i && span_begins(*t, s->from))
            *t = span_from(*t, s->from.n);
        else if (i)
            *t = work_join(d->work, SPAN(" "), *t);
        for (size_t k = 0; s->flag[0] && k < COUNT_OF(clean); k++)
            *t = work_replace(d->work, *t, (span){clean[k][0], strlen(clean[k][0])},
                              (span){clean[k][1], strlen(clean[k][1])});
    }
}

static void suffix_read(const text_loader *l, const json *v, text_step *s) {
    s->from = load_text(l, v, "suffix");
}
static void suffix_decode(const text_step *s, decode_state *d) {
    for (uint32_t i = 0; i < d->n; i++)
        d->at[i] = work_replace(d->work, d->at[i], s->from, i + 1 == d->n ? SPAN("") : SPAN(" "));
}

static void replace_read(const text_loader *l, const json *v, text_step *s) {
    const json *pattern = load_member(l, v, "pattern", JSON_OBJECT);
    s->from = load_text(l, pattern, "String");
    s->to = load_text(l, v, "content");
}
static void replace_decode(const text_step *s, decode_state *d) {
    for (uint32_t i = 0; i < d->n; i++) d->at[i] = work_replace(d->work, d->at[i], s->from, s->to);
}

static void strip_read(const text_loader *l, const json *v, text_step *s) {
    int64_t start = load_int(l, v, "start", 0), stop = load_int(l, v, "stop", 0);
    s->from = load_text(l, v, "content");
    if (start < 0 || stop < 0 || start > 1000000 || stop > 1000000 || s->from.n == 0)
        load_bad(l, v, "to strip \"%.20s\" %lld and %lld times", s->from.s, (long long)start,
                 (long long)stop);
    s->count[0] = (uint32_t)start;
    s->count[1] = (uint32_t)stop;
}
static void strip_decode(const text_step *s, decode_state *d) {
    for (uint32_t i = 0; i < d->n; i++) {
        span *t = &d->at[i];
        for (uint32_t k = 0; k < s->count[0] && span_begins(*t, s->from); k++)
            *t = span_from(*t, s->from.n);
        for (uint32_t k = 0; k < s->count[1] && span_ends(*t, s->from); k++) t->n -= s->from.n;
    }
}

/* The byte of a token <0x..>, -1: it is none. */
static int token_byte(span t) {
    int byte = 0;
    if (t.n != 6 || !span_begins(t, SPAN("<0x")) || t.s[5] != '>') return -1;
    for (int i = 3; i < 5; i++) {
        char c = t.s[i];
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) return -1;
        byte = byte * 16 + digit;
    }
    return byte;
}

/* Rows of such tokens are texts; U+FFFD for each byte of a row that is none. */
static void bytes_decode(const text_step *s, decode_state *d) {
    uint32_t out = 0;
    (void)s;
    for (uint32_t i = 0, end; i < d->n; i = end) {
        span row = {arena_alloc(d->a, 1), 0};
        for (end = i; end < d->n && token_byte(d->at[end]) >= 0;) end++;
        if (end == i) {
            d->at[out++] = d->at[end++];
            continue;
        }
        char *bytes = arena_alloc(d->a, (size_t)(end - i) * 3);
        for (uint32_t k = i; k < end; k++) bytes[row.n++] = (char)token_byte(d->at[k]);
        row.s = bytes;
        if (utf8_bad(row) < row.n) {
            for (uint32_t k = 0; k < end - i; k++) memcpy(bytes + (size_t)k * 3, "\xef\xbf\xbd", 3);
            row.n = (size_t)(end - i) * 3;
        }
        d->at[out++] = row;
    }
    d->n = out;
}

const step_row *decoder_rows(void) {
    static const step_row rows[] = {
        {"ByteLevel", NULL, {.decode = byte_level_decode}},
        {"Metaspace", metaspace_read, {.decode = metaspace_decode}},
        {"WordPiece", wordpiece_read, {.decode = wordpiece_decode}},
        {"BPEDecoder", suffix_read, {.decode = suffix_decode}},
        {"Replace", replace_read, {.decode = replace_decode}},
        {"Strip", strip_read, {.decode = strip_decode}},
        {"ByteFallback", NULL, {.decode = bytes_decode}},
        {"Fuse", NULL, {.decode = fuse_decode}},
        {NULL, NULL, {NULL}},
    };
    return rows;
}
