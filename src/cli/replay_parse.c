/* replay_parse.c - a call's line back into values. */
#include "cli/replay.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool replay_bad(replay *r, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (!*r->why) vsnprintf(r->why, sizeof r->why, fmt, args);
    va_end(args);
    return false;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *replay_take(replay_call *c, size_t size) {
    replay_piece *p = calloc(1, sizeof *p + 16 + size);
    if (!p) return NULL;
    p->next = c->pieces;
    c->pieces = p;
    return (char *)p + 16;
}

void replay_drop(replay_call *c) {
    while (c->pieces) {
        replay_piece *p = c->pieces;
        c->pieces = p->next;
        free(p);
    }
    *c = (replay_call){.number = 0};
}

static void *take(replay *r, replay_call *c, size_t size) {
    void *p = replay_take(c, size);
    if (!p) replay_bad(r, "no memory for %zu bytes", size);
    return p;
}

/* ---- words ----------------------------------------------------------------------------------- */

void replay_skip_spaces(const char **at) {
    while (**at == ' ') ++*at;
}

bool replay_token(replay *r, const char **at, const char *what) {
    (void)r;
    replay_skip_spaces(at);
    size_t n = strlen(what);
    if (strncmp(*at, what, n) != 0 || ((*at)[n] && (*at)[n] != ' ')) return false;
    *at += n;
    return true;
}

/* Does a token end here? */
static bool ends(replay *r, const char *at, const char *begin) {
    return !*at || *at == ' ' || replay_bad(r, "\"%.30s\" is not what stands here", begin);
}

bool replay_whole(replay *r, const char **at, int64_t lo, int64_t hi, int64_t *out) {
    replay_skip_spaces(at);
    const char *begin = *at;
    if (*begin != '-' && (*begin < '0' || *begin > '9'))
        return replay_bad(r, "a number is missing at \"%.30s\"", begin);
    char *end;
    errno = 0;
    *out = strtoll(begin, &end, 10);
    *at = end;
    if (errno || end == begin || *out < lo || *out > hi)
        return replay_bad(r, "the number at \"%.30s\" is out of range", begin);
    return ends(r, end, begin);
}

static bool unsigned_number(replay *r, const char **at, int64_t *out) {
    replay_skip_spaces(at);
    const char *begin = *at;
    if (*begin < '0' || *begin > '9')
        return replay_bad(r, "a number is missing at \"%.30s\"", begin);
    char *end;
    errno = 0;
    *out = (int64_t)strtoull(begin, &end, 10);
    *at = end;
    if (errno) return replay_bad(r, "the number at \"%.30s\" is out of range", begin);
    return ends(r, end, begin);
}

static bool real(replay *r, const char **at, double *out) {
    replay_skip_spaces(at);
    const char *begin = *at;
    char *end;
    *out = strtod(begin, &end);
    *at = end;
    if (end == begin) return replay_bad(r, "a number is missing at \"%.30s\"", begin);
    return ends(r, end, begin);
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool replay_word(replay *r, replay_call *c, const char **at, const char **out) {
    *out = NULL;
    if (replay_token(r, at, "-")) return true;
    const char *begin = *at;
    if (*begin++ != '"') return replay_bad(r, "a text is missing at \"%.30s\"", *at);
    char *text = take(r, c, strlen(begin) + 1), *to = text;
    if (!text) return false;
    while (*begin && *begin != '"') {
        int one = *begin == '\\' && begin[1] == 'x' ? hex(begin[2]) : -1;
        int two = one >= 0 ? hex(begin[3]) : -1;
        if (*begin == '\\' && two < 0) return replay_bad(r, "a text with a bad escape");
        *to++ = *begin == '\\' ? (char)(one * 16 + two) : *begin;
        begin += *begin == '\\' ? 4 : 1;
    }
    if (*begin != '"') return replay_bad(r, "a text does not end");
    *at = begin + 1;
    *out = text;
    return ends(r, *at, *at - 1);
}

static int digit_of(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool base64(replay *r, replay_call *c, const char **at, replay_data *out) {
    const char *s = *at;
    size_t n = strcspn(s, " ");
    *at = s + n;
    if (n % 4) return replay_bad(r, "data of %zu characters, not of a multiple of four", n);
    size_t pads = n && s[n - 1] == '=' ? 1 + (s[n - 2] == '=') : 0;
    out->bytes = take(r, c, n / 4 * 3);
    out->size = n / 4 * 3 - pads;
    for (size_t i = 0; out->bytes && i < n; i += 4) {
        uint32_t word = 0;
        for (size_t k = i; k < i + 4; k++) {
            int d = k + pads >= n ? 0 : digit_of(s[k]);
            if (d < 0) return replay_bad(r, "data with a character that is none of base64");
            word = word << 6 | (uint32_t)d;
        }
        for (size_t k = 0; k < 3; k++) out->bytes[i / 4 * 3 + k] = (uint8_t)(word >> (16 - 8 * k));
    }
    return out->bytes != NULL;
}

bool replay_bytes(replay *r, replay_call *c, const char **at, replay_data *out) {
    *out = (replay_data){.bytes = NULL};
    replay_skip_spaces(at);
    char kind = **at;
    if (kind == '=') return ++*at, base64(r, c, at, out);
    if (kind != '#') return replay_bad(r, "data are missing at \"%.30s\"", *at);
    char *end;
    const char *begin = *at + 1;
    errno = 0;
    out->hash = strtoull(begin, &end, 16);
    if (errno || end != begin + 16 || *end != ':') return replay_bad(r, "a hash is no hash");
    *at = end + 1;
    int64_t size;
    if (!replay_whole(r, at, 0, INT64_MAX, &size)) return false;
    out->size = (size_t)size;
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* "t12": its number. */
static bool numbered(replay *r, const char **at, char letter, uint32_t most, uint32_t *number) {
    replay_skip_spaces(at);
    const char *begin = *at;
    int64_t n;
    if (*begin != letter) return replay_bad(r, "\"%.30s\" does not name a %c", begin, letter);
    ++*at;
    if (!replay_whole(r, at, 1, most, &n)) return false;
    *number = (uint32_t)n;
    return true;
}

bool replay_new_name(replay *r, const char **at, char letter, uint32_t *number) {
    *number = 0;
    if (replay_token(r, at, "-")) return true;
    if (!numbered(r, at, letter, r->names + 1, number)) return false;
    if (*number <= r->names) {
        const replay_name *was = &r->name[*number];
        bool opened = was->letter == 'c' && was->p;
        return !opened || letter == 'c' ||
               replay_bad(r, "number %u is a context's, which is open", *number);
    }
    if (r->names + 2 > r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 256;
        replay_name *grown = realloc(r->name, cap * sizeof *grown);
        if (!grown) return replay_bad(r, "no memory for names");
        r->name = grown;
        r->cap = cap;
    }
    r->name[++r->names] = (replay_name){.p = NULL};
    return true;
}

/* What an argument names, of that letter and of a context that is open. */
static bool named(replay *r, replay_call *c, const char **at, char letter, void **out) {
    *out = NULL;
    if (replay_token(r, at, "-")) return true;
    if (replay_token(r, at, "?")) return c->named = true;
    const char *begin = *at;
    uint32_t number;
    if (!numbered(r, at, letter, r->names, &number)) return false;
    const replay_name *n = &r->name[number];
    if (n->letter != letter) return replay_bad(r, "\"%.12s\" names something else", begin);
    const replay_name *ctx = letter == 'c' ? n : &r->name[n->ctx];
    if (!n->lost && !ctx->p) return replay_bad(r, "\"%.12s\" is of a closed context", begin);
    c->named |= n->lost;
    if (!c->ctx) c->ctx = letter == 'c' ? number : n->ctx;
    *out = n->p;
    return true;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool fields(replay *r, replay_call *c, const char **at, int which, uint8_t *to);

static bool element(replay *r, replay_call *c, const char **at, call_arg arg, void *to) {
    int64_t n;
    char letter = arg.letter;
    if (letter == 'V') return fields(r, c, at, arg.of, to);
    if (letter == 'L') return named(r, c, at, 't', to);
    if (letter == 'M') return replay_word(r, c, at, to);
    if (letter == 'E') return real(r, at, to);
    if (letter == 'A') {
        if (!replay_whole(r, at, INT32_MIN, INT32_MAX, &n)) return false;
        *(int *)to = (int)n;
        return true;
    }
    if (!replay_whole(r, at, INT64_MIN, INT64_MAX, &n)) return false;
    for (int i = 0; i < r->codes; i++)
        if (r->code[i].was == n) {
            n = r->code[i].is;
            break;
        }
    *(int64_t *)to = n;
    return true;
}

/* "[ 1 2 ]", "-" for NULL, "?" for one that was not read. */
static bool list(replay *r, replay_call *c, const char **at, int k) {
    enum { DUMMY = 64 };
    call_arg arg = call_rows[c->id].arg[k];
    size_t width = arg.letter == 'V' ? struct_sizes[arg.of] : arg.letter == 'A' ? sizeof(int) : 8;
    size_t cap = DUMMY;
    c->listed[k] = -1;
    if (replay_token(r, at, "-")) return true;
    char *to = c->v[k].p = take(r, c, cap * width);
    if (!to) return false;
    if (replay_token(r, at, "?")) return c->unread[k] = true;
    if (!replay_token(r, at, "[")) return replay_bad(r, "a list is missing at \"%.30s\"", *at);
    int64_t n = 0;
    while (!replay_token(r, at, "]")) {
        if (n == RECORD_LIST) return replay_bad(r, "a list of too many");
        if ((size_t)n == cap) {
            char *grown = take(r, c, 2 * cap * width);
            if (!grown) return false;
            memcpy(grown, to, cap * width);
            c->v[k].p = to = grown;
            cap *= 2;
        }
        if (!element(r, c, at, arg, to + (size_t)n * width)) return false;
        n++;
    }
    c->listed[k] = n;
    return true;
}

static bool data(replay *r, replay_call *c, const char **at, int k) {
    c->listed[k] = -1;
    if (replay_token(r, at, "-")) return true;
    if (replay_token(r, at, "?")) {
        c->v[k].p = take(r, c, 64);
        return c->unread[k] = true;
    }
    replay_data d;
    if (!replay_bytes(r, c, at, &d)) return false;
    if (!d.bytes && d.size > REPLAY_LARGEST) return c->named = true; /* too much to make up */
    if (!d.bytes) r->hashed = true;
    if (!d.bytes) d.bytes = take(r, c, d.size);
    c->v[k].p = d.bytes;
    c->listed[k] = (int64_t)d.size;
    return d.bytes != NULL;
}

/* ---- structs --------------------------------------------------------------------------------- */

static bool structure(replay *r, replay_call *c, const char **at, int which, void **out);

static bool field_value(replay *r, replay_call *c, const char **at, const struct_field *f,
                        uint8_t *to) {
    int64_t n;
    double x;
    const char *text;
    void *p;
    switch (f->kind) {
    case FIELD_F64:
        return real(r, at, &x) && memcpy(to, &x, sizeof x);
    case FIELD_TEXT:
        return replay_word(r, c, at, &text) && memcpy(to, &text, sizeof text);
    case FIELD_TENSOR:
        return named(r, c, at, 't', &p) && memcpy(to, &p, sizeof p);
    case FIELD_CONV:
        return structure(r, c, at, STRUCT_conv_options, &p) && memcpy(to, &p, sizeof p);
    case FIELD_BOOL:
        return replay_whole(r, at, 0, 255, &n) && (*to = n != 0, true);
    case FIELD_INT:
        return replay_whole(r, at, INT32_MIN, INT32_MAX, &n) &&
               memcpy(to, &(int){(int)n}, sizeof(int));
    default:
        return element(r, c, at, (call_arg){'Y', 0, 0}, &n) && memcpy(to, &n, sizeof n);
    }
}

static const struct_field *field_named(int which, const char *name, size_t length) {
    for (int i = 0; i < struct_field_count; i++) {
        const struct_field *f = &struct_fields[i];
        if (f->of == which && strlen(f->name) == length && !memcmp(f->name, name, length)) return f;
    }
    return NULL;
}

/* "name=1 =2 =3": as many values as it has. */
static bool field(replay *r, replay_call *c, const char **at, int which, uint8_t *to) {
    enum { MOST = 4096 };
    replay_skip_spaces(at);
    size_t length = strcspn(*at, "= ");
    int64_t size;
    if (length == 4 && !memcmp(*at, "size=", 5) && struct_is_sized(which)) {
        *at += 5;
        if (!replay_whole(r, at, 0, MOST, &size)) return false;
        memcpy(to, &(size_t){(size_t)size}, sizeof(size_t));
        return true;
    }
    const struct_field *f = field_named(which, *at, length);
    if (!f) return replay_bad(r, "no field is called \"%.30s\"", *at);
    *at += length;
    for (int i = 0; i < f->count; i++) {
        replay_skip_spaces(at);
        if (**at != '=') return replay_bad(r, "field %s has %d values", f->name, f->count);
        ++*at;
        if (!field_value(r, c, at, f, to + f->at + (size_t)i * field_size(f))) return false;
    }
    return true;
}

/* "{ .. }"; whose errors the call makes its tensors do not say. */
static bool fields(replay *r, replay_call *c, const char **at, int which, uint8_t *to) {
    uint32_t ctx = c->ctx;
    if (!replay_token(r, at, "{")) return replay_bad(r, "a struct is missing at \"%.30s\"", *at);
    while (!replay_token(r, at, "}"))
        if (!**at || !field(r, c, at, which, to)) return replay_bad(r, "a struct does not end");
    c->ctx = ctx;
    return true;
}

static bool structure(replay *r, replay_call *c, const char **at, int which, void **out) {
    enum { ROOM = 4096 + 512 };
    *out = NULL;
    if (replay_token(r, at, "-")) return true;
    uint8_t *to = take(r, c, ROOM);
    if (!to) return false;
    memcpy(to, &(size_t){struct_sizes[which]}, sizeof(size_t));
    *out = to;
    return fields(r, c, at, which, to);
}

/* ---- a call ---------------------------------------------------------------------------------- */

static bool argument(replay *r, replay_call *c, const char **at, int k) {
    const call_row *row = &call_rows[c->id];
    call_value *v = &c->v[k];
    char letter = row->arg[k].letter;
    const char *text;
    switch (letter) {
    case 'C':
        return named(r, c, at, 'c', &v->p);
    case 'T':
        return named(r, c, at, 't', &v->p);
    case 'O':
        return named(r, c, at, 'o', &v->p);
    case 'I':
        return replay_whole(r, at, INT32_MIN, INT32_MAX, &v->i);
    case 'B':
        return replay_whole(r, at, 0, 255, &v->i);
    case 'H':
        return replay_whole(r, at, 0, UINT32_MAX, &v->i);
    case 'Z':
        return element(r, c, at, (call_arg){'Y', 0, 0}, &v->i);
    case 'U':
    case 'S':
        return unsigned_number(r, at, &v->i);
    case 'F':
        return real(r, at, &v->f);
    case 'W':
        if (!replay_word(r, c, at, &text)) return false;
        v->p = (void *)(uintptr_t)text;
        return true;
    case 'D':
        return data(r, c, at, k);
    case 'K':
        return structure(r, c, at, row->arg[k].of, &v->p);
    case 'R':
    case 'Q':
    case 'J':
    case 'G':
    case 'N':
        if (replay_token(r, at, "-")) return true;
        if (!replay_token(r, at, "*")) return replay_bad(r, "* or - is missing");
        c->room[k] = 1;
        return true;
    default:
        return list(r, c, at, k);
    }
}

bool replay_arguments(replay *r, replay_call *c, const char **at) {
    for (int k = 0; k < CALL_ARGS && call_rows[c->id].arg[k].letter; k++)
        if (!argument(r, c, at, k)) return false;
    replay_skip_spaces(at);
    return !**at || replay_bad(r, "\"%.30s\" is more than qn_%s takes", *at, call_name(c->id));
}
