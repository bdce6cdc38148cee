/* log.c - lines for the caller's log callback, and the clock they are timed with.
 *
 * What QN_DEBUG asks for goes to the callback, one line a call, without the newline; where there is
 * none it goes to standard error, one write a line, so that the lines of several contexts stay
 * whole. Nothing else is ever printed but what a user must know and is no error: that a context
 * runs on another device than was asked for, or that a variable of the environment is not used. A
 * text of several lines, such as a kernel's source, is handed over line by line. Where there is no
 * memory for a long text its beginning is given: logging never fails anything. */
#include "base/base.h"

#include <stdio.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void log_one(const qn_ctx *qn, const char *line) {
    if (qn->log) {
        qn->log(qn->log_user, line);
        return;
    }
    struct iovec part[3] = {
        {(char *)"quern: ", 7}, {(char *)line, strlen(line)}, {(char *)"\n", 1}};
    ssize_t done = writev(STDERR_FILENO, part, 3);
    (void)done; /* nobody is there to be told */
}

static void log_split(const qn_ctx *qn, char *text) {
    for (;;) {
        char *end = strchr(text, '\n');
        if (end) *end = 0;
        log_one(qn, text);
        if (!end || !end[1]) return;
        text = end + 1;
    }
}

void log_line(qn_ctx *qn, const char *fmt, ...) {
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
