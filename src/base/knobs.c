/* knobs.c - the QN_* knobs: defaults from the rows of knobs.h, then the environment, then qn_set().
 *
 * A NUMBER is a whole number from 0 on, in decimal digits only; anything else is an error that
 * names what was given, for a typing mistake must not pass for a 0. A SWITCH is 0 or 1, and nothing
 * else passes for one of them. A PATH has a slash in it, or is on or off: a word alone is a
 * mistake, too. LETTERS are some of those that mean something, a COMPILER is one of a few words,
 * TUNING a NUMBER or the word online, which is no number. An environment variable set to nothing
 * counts as not set; a program that runs with more rights than its caller reads none, for the knobs
 * name files and programs. The environment is not this library's alone, so a QN_* variable that is
 * no knob is told of in the log, and is no error.
 *
 * Invariant: a knob's text is either its row's default or a copy from the context's heap. */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef enum { NUMBER, SWITCH, TEXT, PATH, LETTERS, COMPILER, TUNING } knob_kind;
typedef enum { ANY, OPEN } knob_when;

typedef struct knob_row {
    const char *name, *environment;
    knob_kind kind;
    knob_when when;
    const char *def;
} knob_row;

static const knob_row rows[KNOB_COUNT] = {
#define X(NAME, name, kind, when, def, doc) {name, "QN_" #NAME, kind, when, def},
#include "base/knobs.h"
#undef X
};

static const char known[] =
#define X(NAME, name, kind, when, def, doc) " " name
#include "base/knobs.h"
#undef X
    ;

static bool knob_parse(const char *text, int64_t *out) {
    if (text[0] == 0 || text[strspn(text, "0123456789")] != 0) return false;
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno) return false;
    *out = number;
    return true;
}

static bool is_path(const char *text) {
    return strchr(text, '/') || !strcmp(text, "on") || !strcmp(text, "off");
}

/* NULL, or what a text of this kind is. */
static const char *knob_wants(knob_kind kind, const char *text) {
    switch (kind) {
    case PATH:
        return is_path(text) ? NULL : "on, off, or a path with a slash in it";
    case LETTERS:
        return text[strspn(text, "gafmkrscxe")] ? "letters out of g a f m k r s c x e" : NULL;
    case COMPILER:
        return !*text || !strcmp(text, "llvm") || !strcmp(text, "cc") ? NULL : "llvm, cc or empty";
    case TUNING:
        return !strcmp(text, "online") || knob_parse(text, &(int64_t){0})
                   ? NULL
                   : "a whole number of seconds, or online";
    default:
        return NULL;
    }
}

static void knob_drop(qn_ctx *qn, int k) {
    char *text = (char *)(uintptr_t)qn->knob[k].text;
    if (text && text != rows[k].def) heap_free(&qn->heap, text, strlen(text) + 1);
    qn->knob[k].text = NULL;
}

/* What is kept as a number alone; false, and its text is kept, too. */
static bool is_numeric(knob_kind kind) {
    return kind == NUMBER || kind == SWITCH;
}

/* `as` is the name the user knows it by: "threads", or "QN_THREADS" from the environment. */
static int knob_assign(qn_ctx *qn, int k, const char *as, const char *value) {
    if (is_numeric(rows[k].kind)) {
        bool is_switch = rows[k].kind == SWITCH;
        bool fine = !is_switch || !strcmp(value, "0") || !strcmp(value, "1");
        if (fine && knob_parse(value, &qn->knob[k].number)) return QN_OK;
        return fail(qn, QN_EARG, "%s takes %s, not \"%s\"", as,
                    is_switch ? "0 or 1" : "a whole number from 0 on", value);
    }
    const char *wants = knob_wants(rows[k].kind, value);
    if (wants) return fail(qn, QN_EARG, "%s is %s, not \"%s\"", as, wants, value);
    size_t size = strlen(value) + 1;
    char *copy = heap_try(&qn->heap, size);
    if (!copy) return fail(qn, QN_ENOMEM, "out of memory setting %s", as);
    memcpy(copy, value, size);
    knob_drop(qn, k);
    qn->knob[k].text = copy;
    qn->knob[k].number = 0;
    if (rows[k].kind == TUNING) knob_parse(value, &qn->knob[k].number);
    return QN_OK;
}

int knobs_open(qn_ctx *qn) {
    for (int k = 0; k < KNOB_COUNT; k++) {
        qn->knob[k] = (knob_value){.text = rows[k].def};
        if (is_numeric(rows[k].kind)) knob_parse(rows[k].def, &qn->knob[k].number);
    }
    for (int k = 0; k < KNOB_COUNT; k++) {
        const char *value = secure_getenv(rows[k].environment);
        if (!value || !value[0]) continue;
        int code = knob_assign(qn, k, rows[k].environment, value);
        if (code) return code;
    }
    return QN_OK;
}

/* KNOB_COUNT: there is none of this name, and that is reported. */
static int knob_find(qn_ctx *qn, const char *name) {
    int k = 0, near = KNOB_COUNT;
    while (k < KNOB_COUNT && strcmp(rows[k].name, name) != 0) k++;
    if (k < KNOB_COUNT) return k;
    for (int i = 0; i < KNOB_COUNT && near == KNOB_COUNT; i++)
        if (text_is_near(name, rows[i].name)) near = i;
    fail(qn, QN_EARG, "no knob \"%.100s\"%s%s%s; there are%s", name,
         near < KNOB_COUNT ? ", but \"" : "", near < KNOB_COUNT ? rows[near].name : "",
         near < KNOB_COUNT ? "\"" : "", known);
    return KNOB_COUNT;
}

int knobs_set(qn_ctx *qn, const char *name, const char *value) {
    if (!name || !value) return fail(qn, QN_ENULL, "a knob needs a name and a value");
    int k = knob_find(qn, name);
    return k < KNOB_COUNT ? knob_assign(qn, k, name, value) : (int)qn_error_code(qn);
}

int knobs_set_late(qn_ctx *qn, const char *name, const char *value) {
    if (!name || !value) return fail(qn, QN_ENULL, "a knob needs a name and a value");
    int k = knob_find(qn, name);
    if (k == KNOB_COUNT) return qn_error_code(qn);
    if (rows[k].when == OPEN)
        return fail(qn, QN_EARG,
                    "%s is read when a context is opened, and this one is: set %s before qn_open",
                    name, rows[k].environment);
    return knob_assign(qn, k, name, value);
}

/* The tools around the library have variables of their own. */
static bool is_tools(const char *name, size_t length) {
    static const char *const begin[] = {"QN_BENCH_", "QN_TEST_"};
    for (size_t i = 0; i < COUNT_OF(begin); i++)
        if (length >= strlen(begin[i]) && !strncmp(name, begin[i], strlen(begin[i]))) return true;
    return false;
}

void knobs_note_unknown(qn_ctx *qn) {
    for (char **e = environ; e && *e; e++) {
        size_t length = strcspn(*e, "=");
        char name[64];
        if (strncmp(*e, "QN_", 3) || length >= sizeof name || is_tools(*e, length)) continue;
        memcpy(name, *e, length);
        name[length] = 0;
        const knob_row *same = NULL, *near = NULL;
        for (int k = 0; k < KNOB_COUNT; k++) {
            if (!strcmp(name, rows[k].environment)) same = &rows[k];
            if (!near && text_is_near(name + 3, rows[k].environment + 3)) near = &rows[k];
        }
        if (!same)
            log_line(qn, "%s is no knob and changes nothing%s%s", name, near ? "; there is " : "",
                     near ? near->environment : "");
    }
}

void knobs_close(qn_ctx *qn) {
    for (int k = 0; k < KNOB_COUNT; k++) knob_drop(qn, k);
}

bool debug_on(const qn_ctx *qn, char letter) {
    const char *letters = qn->knob[KNOB_DEBUG].text;
    return letters && letter && strchr(letters, letter);
}
