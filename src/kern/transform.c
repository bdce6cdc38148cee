/* transform.c - schedules: lines of text, each applied by the row of transforms.h that it names.
 *
 * A line is read by its row's pattern into transform_args, so a transform is one function over
 * statements and names, and adding one is a file and a row. The typed entry points of kern.h
 * (kern_split and so on) are what C callers use; the rows' functions only unpack. */
#include "kern/kern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

const transform_row transform_rows[] = {
#define X(name, pattern, function, doc) {#name, pattern, function, doc},
#include "kern/transforms.h"
#undef X
};
const int transform_row_count = COUNT_OF(transform_rows);

typedef struct token {
    char s[64];
} token;

/* The next word of the line, "" at its end. What follows '#' is a comment. */
static token next_token(const char **p) {
    token t = {""};
    size_t n = 0;
    while (**p == ' ' || **p == '\t' || **p == '\r') (*p)++;
    if (**p == '#') *p += strcspn(*p, "\n");
    while (**p && !isspace((unsigned char)**p)) {
        if (n + 1 < sizeof t.s) t.s[n++] = **p;
        (*p)++;
    }
    t.s[n] = 0;
    return t;
}

static bool is_name(const char *s) {
    if (!isalpha((unsigned char)*s)) return false;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return *s == 0;
}

static bool read_loop(kern *k, const char *word, transform_args *a, str *why) {
    kstmt loop = is_name(word) ? kern_find_loop(k, word) : 0;
    if (!loop) return kern_refuse(why, "there is no loop \"%s\"", word);
    if (a->loops == COUNT_OF(a->loop)) return kern_refuse(why, "too many loops");
    a->loop[a->loops++] = loop;
    return true;
}

static bool read_names(kern *k, const char **p, int n, transform_args *a, str *why) {
    const char *at = *p;
    if (strcmp(next_token(&at).s, "->") != 0) return true;
    *p = at;
    for (int i = 0; i < n; i++) {
        token t = next_token(p);
        if (!is_name(t.s) || !strcmp(t.s, "min") || !strcmp(t.s, "max"))
            return kern_refuse(why, "expected a name, not \"%s\"", t.s);
        if (kern_name_taken(k, t.s)) return kern_refuse(why, "the name %s is taken", t.s);
        a->name[i] = arena_printf(&k->arena, "%s", t.s);
        if (i && !strcmp(a->name[0], a->name[1])) return kern_refuse(why, "two loops of one name");
    }
    return true;
}

/* One letter of a pattern. */
static bool read_arg(kern *k, char letter, const char **p, transform_args *a, str *why) {
    const char *at = *p;
    token t = next_token(&at);
    char *end;
    switch (letter) {
    case '1':
    case '2':
        return read_names(k, p, letter - '0', a, why);
    case 's':
        if (strcmp(t.s, "reg") != 0 && strcmp(t.s, "local") != 0) return true;
        a->scope = t.s[0] == 'r' ? KERN_REG : KERN_LOCAL;
        break;
    case 'm':
        a->mem = kern_find_mem(k, t.s);
        if (!a->mem) return kern_refuse(why, "there is no memory \"%s\"", t.s);
        break;
    case 'n':
        a->number = strtoll(t.s, &end, 10);
        if (!*t.s || *end || a->number < 1)
            return kern_refuse(why, "expected a number from 1 up, not \"%s\"", t.s);
        break;
    default:
        if (!read_loop(k, t.s, a, why)) return false;
        break;
    }
    *p = at;
    while (letter == 'L') { /* as many more as there are */
        t = next_token(&at);
        if (!*t.s || !strcmp(t.s, "reg") || !strcmp(t.s, "local")) break;
        if (!read_loop(k, t.s, a, why)) return false;
        *p = at;
    }
    return true;
}

bool kern_transform(kern *k, const char *line, str *why) {
    const char *p = line;
    token name = next_token(&p);
    if (!*name.s) return true;
    for (int i = 0; i < transform_row_count; i++) {
        const transform_row *row = &transform_rows[i];
        if (strcmp(row->name, name.s) != 0) continue;
        transform_args a = {.scope = KERN_LOCAL};
        for (const char *c = row->pattern; *c; c++)
            if (!read_arg(k, *c, &p, &a, why)) return false;
        token rest = next_token(&p);
        if (*rest.s) return kern_refuse(why, "%s takes no \"%s\"", name.s, rest.s);
        return row->apply(k, &a, why);
    }
    return kern_refuse(why, "there is no transform \"%s\"", name.s);
}

int kern_schedule(kern *k, const char *text, str *why) {
    int number = 0, applied = 0;
    while (*text) {
        size_t n = strcspn(text, "\n");
        const char *line = arena_printf(&k->arena, "%.*s", (int)n, text), *word = line;
        bool empty = !*next_token(&word).s;
        if (!kern_transform(k, line, why)) return -1 - number;
        applied += !empty;
        number++;
        text += n + (text[n] == '\n');
    }
    return applied;
}
