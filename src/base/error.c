/* error.c - the first error of a context, and the constant texts of the codes.
 *
 * Only the first error since qn_clear_error() is kept: what follows it is mostly its consequence.
 * The text is put together in a buffer of its own before it is recorded, so that an argument may
 * point into the text being replaced, and one too long for the record ends in "...".
 *
 * The code of a call that fails while an error is pending is that error's, so code and text agree.
 *
 * A look-up that finds nothing gives NULL and is no error, but what it was asked for is noted
 * (qn->missing): where a NULL is an error next, that is most often why. */
#include "base/base.h"

#include <stdio.h>

#define X(NAME, value, text) _Static_assert(QN_##NAME == (value), "errors.h: value of " #NAME);
#include "base/errors.h"
#undef X

static const char *const code_text[] = {
#define X(NAME, value, text) [-(value)] = text,
#include "base/errors.h"
#undef X
};
_Static_assert(COUNT_OF(code_text) == 1 - QN_EINTERNAL, "errors.h: a code without a row");

enum { ERROR_FILE_MOST = 200 };

/* End a text that was cut off in "...", not within a UTF-8 sequence. */
static void error_ellipsis(char *text, size_t size) {
    size_t end = size - sizeof "...";
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--;
    memcpy(text + end, "...", sizeof "...");
}

static void error_record(qn_ctx *qn, qn_code code, const char *fmt, va_list args) {
    if (!qn) return;
    qn->failures++;
    if (qn->code != QN_OK) return;
    char text[sizeof qn->error] = "";
    size_t used = 0;
    if (qn->at_file) {
        size_t length = strlen(qn->at_file);
        bool cut = length > ERROR_FILE_MOST; /* the end of a path says more than its start */
        int n = snprintf(text, sizeof text, "%s%s:%d: ", cut ? "..." : "",
                         qn->at_file + (cut ? length - ERROR_FILE_MOST : 0), qn->at_line);
        used = n > 0 ? (size_t)n : 0;
    }
    int n = vsnprintf(text + used, sizeof text - used, fmt, args);
    if (n > 0) used += (size_t)n;
    if (code == QN_ENULL && qn->missing[0] && used < sizeof text) {
        n = snprintf(text + used, sizeof text - used, "; %s", qn->missing);
        if (n > 0) used += (size_t)n;
    }
    if (used >= sizeof text) error_ellipsis(text, sizeof text);
    qn->missing[0] = 0;
    memcpy(qn->error, text, sizeof text);
    qn->code = code == QN_OK ? QN_EINTERNAL : code;
}

qn_code fail(qn_ctx *qn, qn_code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    error_record(qn, code, fmt, args);
    va_end(args);
    return qn ? qn->code : code;
}

void *fail_null(qn_ctx *qn, qn_code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    error_record(qn, code, fmt, args);
    va_end(args);
    return NULL;
}

void raise_error(qn_ctx *qn, qn_code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    error_record(qn, code, fmt, args);
    va_end(args);
    heap_unwind(&qn->heap);
}

const char *qn_error(const qn_ctx *qn) {
    return qn ? qn->error : "no context: qn_open returned NULL";
}

qn_code qn_error_code(const qn_ctx *qn) {
    return qn ? qn->code : QN_ENULL;
}

void qn_clear_error(qn_ctx *qn) {
    if (!qn) return;
    qn->code = QN_OK;
    qn->error[0] = 0;
    qn->missing[0] = 0;
}

const char *qn_code_text(qn_code code) {
    bool known = code <= QN_OK && code >= QN_EINTERNAL;
    return known ? code_text[-(int)code] : "an unknown code";
}

void qn_at(qn_ctx *qn, const char *file, int line) {
    if (!qn) return;
    qn->at_file = file;
    qn->at_line = line;
}

#define TEXT_OF(x)                        #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *qn_version(void) {
    return VERSION_TEXT(QN_VERSION_MAJOR, QN_VERSION_MINOR, QN_VERSION_PATCH);
}
