/* log.c - lines for the caller's log callback, and the clock they are timed with.
 *
 * The library never prints; what QN_DEBUG asks for goes to the callback, one line a call, without
 * the newline. A text of several lines, such as a kernel's source, is handed over line by line.
 * Where there is no memory for a long text its beginning is given: logging never fails anything. */
#include "base/base.h"

#include <stdio.h>
#include <time.h>

static void log_split(qn_ctx *qn, char *text) {
    for (;;) {
        char *end = strchr(text, '\n');
        if (end) *end = 0;
        qn->log(qn->log_user, text);
        if (!end || !end[1]) return;
        text = end + 1;
    }
}

void log_line(qn_ctx *qn, const char *fmt, ...) {
    if (!qn->log) return;
    char small[512] = "";
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    size_t size = n < 0 ? 0 : (size_t)n + 1;
    char *large = size > sizeof small ? heap_try(&qn->heap, size) : NULL;
    if (large) {
        va_start(args, fmt);
        vsnprintf(large, size, fmt, args);
        va_end(args);
    }
    log_split(qn, large ? large : small);
    heap_free(&qn->heap, large, size);
}

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_seconds(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double clock_thread_seconds(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double clock_processors(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
