/* str.c - a text that grows: how kernels' sources, dumps and messages are put together.
 *
 * Invariant: once something was added, even "", s is NUL-terminated and len < cap. What is added
 * must not be part of the text itself. An addition that raises leaves the text as it was. */
#include "base/base.h"

#include <stdio.h>

void str_open(str *t, heap *h) {
    *t = (str){.h = h};
}

void str_open_in(str *t, arena *a) {
    *t = (str){.h = a->h, .a = a};
}

static void str_room(str *t, size_t n) {
    if (n >= UINT32_MAX - t->len) {
        raise_error(t->h->ctx, QN_ENOMEM, "out of memory: a text longer than 4 GiB");
    }
    uint32_t need = t->len + (uint32_t)n + 1;
    t->s =
        t->a ? arena_grow(t->a, t->s, &t->cap, need, 1) : heap_grow(t->h, t->s, &t->cap, need, 1);
}

void str_addn(str *t, const char *text, size_t n) {
    str_room(t, n);
    if (n) memcpy(t->s + t->len, text, n);
    t->len += (uint32_t)n;
    t->s[t->len] = 0;
}

void str_add(str *t, const char *text) {
    str_addn(t, text, strlen(text));
}

void str_addf(str *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->s ? t->s + t->len : NULL, t->cap - t->len, fmt, args);
    va_end(args);
    if (n < 0) n = 0;
    if (!t->s || (uint32_t)n >= t->cap - t->len) {
        if (t->s) t->s[t->len] = 0;
        str_room(t, (size_t)n);
        t->s[t->len] = 0;
        va_start(args, fmt);
        vsnprintf(t->s + t->len, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    t->len += (uint32_t)n;
}

void str_free(str *t) {
    if (!t->a) heap_free(t->h, t->s, t->cap);
    *t = (str){.h = t->h, .a = t->a};
}

void str_cleanup(void *t) {
    str_free(t);
}

int text_character(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : *s >= 0xe0 && *s < 0xf0 ? 3 : 4;
    if (n == 4 && (*s < 0xf0 || *s > 0xf4)) return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) || (*s == 0xf0 && s[1] < 0x90) ||
        (*s == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}
