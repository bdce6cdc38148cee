/* json.c - a strict JSON reader for headers of files, and the quoting their writers need.
 *
 * One pass over the text builds a tree in an arena. The grammar is RFC 8259's and nothing wider: no
 * comments, no trailing commas, no bare words, no numbers like 01 or .5, only well-formed UTF-8.
 * Stricter than it on one point: an object that names a member twice is refused, for what such a
 * text means depends on who reads it.
 *
 * Every object gets a hash table of its members, which finds duplicates in linear time (a hostile
 * header has a million members) and serves json_member() afterwards. Names that hash alike can be
 * searched for, and then each would pass by all before it; so a name that passes by PROBES_MOST
 * others is refused. In a table that is at most half full, that happens to no names that were not
 * searched for: runs of r slots are rarer than exp(-0.19 r).
 *
 * The reader recurses once per nesting level, so levels are limited. It stops at the first fault by
 * returning NULL all the way up; the fault is written once, where it was found. */
#include "io/io.h"

#include <errno.h>
#include <stdlib.h>

enum { DEPTH_MOST = 64, PROBES_MOST = 256 };

typedef struct reader {
    arena *a;
    const char *text;
    size_t size, at;
    int depth;
    json_fault *fault;
} reader;

static json *read_value(reader *r);

static void *bad(reader *r, size_t at, const char *what) {
    *r->fault = (json_fault){what, at};
    return NULL;
}

/* The next byte, -1 at the end. */
static int peek(const reader *r) {
    return r->at < r->size ? (unsigned char)r->text[r->at] : -1;
}

static void skip_space(reader *r) {
    while (r->at < r->size && strchr(" \t\n\r", r->text[r->at]) && r->text[r->at]) r->at++;
}

static json *make(reader *r, json_kind kind, size_t at) {
    json *v = arena_zeroed(r->a, sizeof *v);
    v->kind = kind;
    v->at = at;
    return v;
}

/* ---- texts -------------------------------------------------------------------------------- */

/* Bytes of the well-formed UTF-8 sequence at s, 0 when there is none (also for overlong forms,
 * surrogates, and code points past U+10FFFF). */
static int utf8_length(const unsigned char *s, size_t left) {
    static const struct {
        unsigned char lo, hi, second_lo, second_hi;
        int length;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        if (left < (size_t)forms[i].length || s[0] < forms[i].lo || s[0] > forms[i].hi) continue;
        if (forms[i].length > 1 && (s[1] < forms[i].second_lo || s[1] > forms[i].second_hi))
            continue;
        bool well = true;
        for (int k = 2; k < forms[i].length; k++) well = well && (s[k] & 0xc0) == 0x80;
        if (well) return forms[i].length;
    }
    return 0;
}

bool json_utf8(const char *text, size_t size) {
    const unsigned char *s = (const unsigned char *)text;
    while (size) {
        int n = utf8_length(s, size);
        if (n == 0) return false;
        s += n;
        size -= (size_t)n;
    }
    return true;
}

static int utf8_encode(uint32_t c, char *out) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[length] | c);
    return length;
}

static bool read_hex4(reader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = peek(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* After "\u": one code point, from a surrogate pair where it takes two. */
static bool read_code_point(reader *r, uint32_t *out) {
    uint32_t low;
    if (!read_hex4(r, out)) return false;
    if (*out < 0xd800 || *out > 0xdfff) return true;
    if (*out > 0xdbff || peek(r) != '\\') return false;
    r->at++;
    if (peek(r) != 'u') return false;
    r->at++;
    if (!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* After "\": the bytes it stands for into out; their number, 0 for a fault. */
static int read_escape(reader *r, char *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(r);
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (found) {
        r->at++;
        out[0] = to[found - from];
        return 1;
    }
    if (c != 'u') return 0;
    r->at++;
    uint32_t code;
    return read_code_point(r, &code) ? utf8_encode(code, out) : 0;
}

/* The end of the string whose first byte is at r->at: of its closing quote, or r->size. */
static size_t string_end(const reader *r) {
    size_t end = r->at;
    while (end < r->size && r->text[end] != '"') end += r->text[end] == '\\' ? 2 : 1;
    return end < r->size ? end : r->size;
}

/* A string from its opening quote on. A resolved escape is never longer than its spelling, so the
 * distance to the closing quote is room enough. */
static const char *read_string(reader *r, uint32_t *size) {
    size_t start = r->at++;
    size_t most = string_end(r) - r->at;
    if (most > UINT32_MAX - 1) return bad(r, start, "a string that is too long");
    char *out = arena_alloc(r->a, most + 1);
    uint32_t n = 0;
    for (;;) {
        int c = peek(r);
        if (c < 0) return bad(r, start, "a string without an end");
        if (c == '"') break;
        if (c < 0x20) return bad(r, r->at, "a control character in a string");
        size_t at = r->at;
        int length;
        if (c == '\\') {
            r->at++;
            length = read_escape(r, out + n);
            if (length == 0) return bad(r, at, "a bad escape in a string");
        } else {
            length = utf8_length((const unsigned char *)r->text + at, r->size - at);
            if (length == 0) return bad(r, at, "bytes that are not UTF-8");
            memcpy(out + n, r->text + at, (size_t)length);
            r->at += (size_t)length;
        }
        n += (uint32_t)length;
    }
    r->at++;
    out[n] = 0;
    *size = n;
    return out;
}

/* ---- numbers and words -------------------------------------------------------------------- */

static bool skip_digits(reader *r) {
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') r->at++;
    return r->at > start;
}

static bool skip_number(reader *r) {
    if (peek(r) == '-') r->at++;
    if (peek(r) == '0') {
        r->at++;
    } else if (!skip_digits(r)) {
        return false;
    }
    if (peek(r) == '.') {
        r->at++;
        if (!skip_digits(r)) return false;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        if (peek(r) == '+' || peek(r) == '-') r->at++;
        if (!skip_digits(r)) return false;
    }
    return true;
}

static json *read_number(reader *r) {
    size_t start = r->at;
    if (!skip_number(r)) return bad(r, start, "a malformed number");
    size_t size = r->at - start;
    if (size > 4096) return bad(r, start, "a number that is too long");
    json *v = make(r, JSON_NUMBER, start);
    char *text = arena_alloc(r->a, size + 1);
    memcpy(text, r->text + start, size);
    text[size] = 0;
    v->text = text;
    v->text_size = (uint32_t)size;
    return v;
}

static json *read_word(reader *r) {
    static const struct {
        const char *word;
        json_kind kind;
    } words[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        size_t length = strlen(words[i].word);
        if (r->size - r->at < length || memcmp(r->text + r->at, words[i].word, length)) continue;
        json *v = make(r, words[i].kind, r->at);
        r->at += length;
        return v;
    }
    return bad(r, r->at,
               r->at < r->size ? "not a JSON value" : "the text ends where a value must be");
}

/* ---- arrays and objects -------------------------------------------------------------------- */

static uint32_t key_hash(const char *key, uint32_t size) {
    return (uint32_t)hash_bytes(key, size, 0);
}

/* The slot of a key in an object's table: its member, or an empty one; NULL: too far away. */
static json **find_slot(const json *object, const char *key, uint32_t size) {
    uint32_t first = key_hash(key, size);
    for (uint32_t i = 0; i < PROBES_MOST; i++) {
        json **slot = &object->table[(first + i) & object->mask];
        if (!*slot || ((*slot)->key_size == size && !memcmp((*slot)->key, key, size))) return slot;
    }
    return NULL;
}

/* Enter the members into the table; false and the fault when a name comes twice. */
static bool make_table(reader *r, json *object) {
    uint32_t slots = 4;
    while (slots < (uint64_t)object->count * 2) slots *= 2;
    object->table = arena_zeroed(r->a, slots * sizeof *object->table);
    object->mask = slots - 1;
    for (json *v = object->first; v; v = v->next) {
        json **slot = find_slot(object, v->key, v->key_size);
        if (!slot || *slot) {
            bad(r, v->at,
                slot ? "a name that was there before in the same object"
                     : "a name whose hash is that of too many others of the same object");
            return false;
        }
        *slot = v;
    }
    return true;
}

/* A member from its name on. */
static json *read_member(reader *r) {
    uint32_t size;
    if (peek(r) != '"') return bad(r, r->at, "a member's name must be a string");
    const char *key = read_string(r, &size);
    if (!key) return NULL;
    skip_space(r);
    if (peek(r) != ':') return bad(r, r->at, "a colon must follow a member's name");
    r->at++;
    json *v = read_value(r);
    if (!v) return NULL;
    v->key = key;
    v->key_size = size;
    return v;
}

/* An array or object from its opening bracket on. */
static json *read_container(reader *r, json_kind kind, char close) {
    json *v = make(r, kind, r->at), **end = &v->first;
    if (++r->depth > DEPTH_MOST) return bad(r, r->at, "nested too deeply");
    r->at++;
    skip_space(r);
    while (peek(r) != close) {
        if (v->count) {
            if (peek(r) != ',') return bad(r, r->at, "a comma or the closing bracket must follow");
            r->at++;
            skip_space(r);
        }
        if (v->count == UINT32_MAX / 4) return bad(r, r->at, "too many members");
        json *member = kind == JSON_OBJECT ? read_member(r) : read_value(r);
        if (!member) return NULL;
        member->index = v->count++;
        *end = member;
        end = &member->next;
        skip_space(r);
    }
    r->at++;
    r->depth--;
    if (kind == JSON_OBJECT && !make_table(r, v)) return NULL;
    return v;
}

static json *read_value(reader *r) {
    skip_space(r);
    int c = peek(r);
    if (c == '{') return read_container(r, JSON_OBJECT, '}');
    if (c == '[') return read_container(r, JSON_ARRAY, ']');
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(r);
    if (c != '"') return read_word(r);
    json *v = make(r, JSON_STRING, r->at);
    v->text = read_string(r, &v->text_size);
    return v->text ? v : NULL;
}

const json *json_parse(arena *a, const char *text, size_t size, json_fault *fault) {
    reader r = {.a = a, .text = text, .size = size, .fault = fault};
    json *v = read_value(&r);
    if (!v) return NULL;
    skip_space(&r);
    return r.at == size ? v : bad(&r, r.at, "something after the end");
}

/* ---- use ----------------------------------------------------------------------------------- */

const json *json_member(const json *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    json **slot = find_slot(object, key, (uint32_t)strlen(key));
    return slot ? *slot : NULL;
}

bool json_int(const json *v, int64_t *out) {
    if (!v || v->kind != JSON_NUMBER || strpbrk(v->text, ".eE")) return false;
    errno = 0;
    long long value = strtoll(v->text, NULL, 10);
    if (errno) return false;
    *out = value;
    return true;
}

void json_quote(str *out, const char *text) {
    str_add(out, "\"");
    for (const char *s = text; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            str_addf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            str_addf(out, "\\u%04x", c);
        } else {
            str_addn(out, s, 1);
        }
    }
    str_add(out, "\"");
}
