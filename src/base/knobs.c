/* knobs.c - the QN_* knobs: defaults from the rows of knobs.h, then the environment, then qn_set().
 *
 * A NUMBER is a whole number from 0 on, in decimal digits only; anything else is an error that
 * names what was given, for a typing mistake must not pass for a 0. A PATH has a slash in it, or is
 * on or off: a word alone is a mistake, too. An environment variable set to nothing
 * counts as not set; a program that runs with more rights than its caller reads none, for the
 * knobs name files and programs.
 *
 * Invariant: a knob's text is either its row's default or a copy from the context's heap. */
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>

typedef enum { NUMBER, TEXT, PATH } knob_kind;

typedef struct knob_row {
    const char *name, *environment;
    knob_kind kind;
    const char *def;
} knob_row;

static const knob_row rows[KNOB_COUNT] = {
#define X(NAME, name, kind, def, doc) {name, "QN_" #NAME, kind, def},
#include "base/knobs.h"
#undef X
};

static const char known[] =
#define X(NAME, name, kind, def, doc) " " name
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

static void knob_drop(qn_ctx *qn, int k) {
    char *text = (char *)(uintptr_t)qn->knob[k].text;
    if (text && text != rows[k].def) heap_free(&qn->heap, text, strlen(text) + 1);
    qn->knob[k].text = NULL;
}

/* `as` is the name the user knows it by: "threads", or "QN_THREADS" from the environment. */
static int knob_assign(qn_ctx *qn, int k, const char *as, const char *value) {
    if (rows[k].kind == NUMBER) {
        if (knob_parse(value, &qn->knob[k].number)) return QN_OK;
        return fail(qn, QN_EARG, "%s takes a whole number from 0 on, not \"%s\"", as, value);
    }
    if (rows[k].kind == PATH && !is_path(value))
        return fail(qn, QN_EARG, "%s is on, off, or a path with a slash in it, not \"%s\"", as,
                    value);
    size_t size = strlen(value) + 1;
    char *copy = heap_try(&qn->heap, size);
    if (!copy) return fail(qn, QN_ENOMEM, "out of memory setting %s", as);
    memcpy(copy, value, size);
    knob_drop(qn, k);
    qn->knob[k].text = copy;
    return QN_OK;
}

int knobs_open(qn_ctx *qn) {
    for (int k = 0; k < KNOB_COUNT; k++) {
        qn->knob[k] = (knob_value){.text = rows[k].def};
        if (rows[k].kind == NUMBER) knob_parse(rows[k].def, &qn->knob[k].number);
    }
    for (int k = 0; k < KNOB_COUNT; k++) {
        const char *value = secure_getenv(rows[k].environment);
        if (!value || !value[0]) continue;
        int code = knob_assign(qn, k, rows[k].environment, value);
        if (code) return code;
    }
    return QN_OK;
}

int knobs_set(qn_ctx *qn, const char *name, const char *value) {
    if (!name || !value) return fail(qn, QN_ENULL, "a knob needs a name and a value");
    for (int k = 0; k < KNOB_COUNT; k++)
        if (strcmp(rows[k].name, name) == 0) return knob_assign(qn, k, name, value);
    return fail(qn, QN_EARG, "no knob \"%.100s\"; there are%s", name, known);
}

void knobs_close(qn_ctx *qn) {
    for (int k = 0; k < KNOB_COUNT; k++) knob_drop(qn, k);
}

bool debug_on(const qn_ctx *qn, char letter) {
    const char *letters = qn->knob[KNOB_DEBUG].text;
    return letters && letter && strchr(letters, letter);
}
