/* trace.c - a context's trace: events as lines of JSON, gathered and written some at a time.
 *
 * The file is an array of Chrome's trace events, and at any time a whole one: what is written is a
 * comma, lines, and the bracket that ends the array, over the bracket that was there. So of a
 * program that is killed the trace can be read as far as it was written. A kill in the middle of a
 * write leaves its first pages: as no line lies in two pages those are whole lines, and only the
 * bracket is missing, which the format allows. Lines are gathered in memory of a fixed size; a line
 * is cut short before it does not fit. Where a write fails the log says so once, and the trace ends
 * with what is there.
 *
 * Spans of the library are whole events, with a beginning and a length, written when they are over:
 * one that an error ends has none. Those of the program are a beginning and an end. Times are those
 * of the system's monotonic clock, so traces of several contexts and processes can be laid side by
 * side.
 *
 * A trace is of one context. As with recordings (record/write.c) a file that a context of this
 * process wrote before, or that somebody writes to, is left alone, and .2 follows the name, and so
 * on. In a process that was forked nothing is traced. */
#include "trace/trace.h"

#include "quern_view.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRACE_ROOM = 1 << 16,
    TRACE_PAGE = 4096,       /* what the system writes whole */
    TRACE_LINE = TRACE_PAGE, /* at most; a text of arguments takes half of it */
    TRACE_TEXT = 1500,
    TRACE_FILES = 1000,
    TRACE_DEEP = 1 << 20
};
static const double settle_seconds = 0.25;
static const char ending[] = "\n]\n";

typedef struct trace {
    int file;
    pid_t process, thread; /* thread: of the last event */
    off_t end;             /* where the bracket is */
    uint32_t used, line;   /* bytes gathered; where the line under way begins */
    uint32_t open;         /* spans of the program */
    uint32_t room;         /* of `begun` */
    pid_t *begun;          /* by open span: the thread that began it */
    double written;        /* when */
    bool some, skip, args; /* there are events; nothing is to be traced; the line has arguments */
    char text[TRACE_ROOM];
} trace;

/* ---- writing --------------------------------------------------------------------------------- */

static void drop(qn_ctx *qn) {
    close(qn->trace->file);
    heap_free(&qn->heap, qn->trace->begun, qn->trace->room * sizeof *qn->trace->begun);
    heap_free(&qn->heap, qn->trace, sizeof *qn->trace);
    qn->trace = NULL;
}

/* Move the line that is done to the next page of the file if it would lie in two. */
static void end_line(trace *t) {
    const off_t first = t->end + t->line, last = t->end + t->used - 1;
    if (t->used > t->line && first / TRACE_PAGE != last / TRACE_PAGE) {
        const size_t gap = (size_t)(TRACE_PAGE - first % TRACE_PAGE);
        memmove(t->text + t->line + gap, t->text + t->line, t->used - t->line);
        memset(t->text + t->line, ' ', gap);
        t->used += (uint32_t)gap;
    }
    t->line = t->used;
}

/* What was gathered, and the end of the array behind it, by one call. */
static void write_lines(qn_ctx *qn) {
    trace *t = qn->trace;
    end_line(t);
    size_t size = t->used + sizeof ending - 1, done = 0;
    t->written = clock_seconds();
    if (!t->used) return;
    memcpy(t->text + t->used, ending, sizeof ending - 1); /* a line's end leaves room for it */
    errno = EFBIG;
    while (done < size && folder_allows((uint64_t)t->end + size)) {
        ssize_t n = pwrite(t->file, t->text + done, size - done, t->end + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (done == size) {
        t->end += t->used;
        t->used = t->line = 0;
        return;
    }
    const char *why = strerror(errno);
    const ssize_t behind = sizeof ending - 1;
    bool whole = !done || pwrite(t->file, ending, sizeof ending - 1, t->end) == behind;
    whole = !ftruncate(t->file, t->end + behind) && whole;
    log_line(qn, "the trace ends here: %s%s", why, whole ? "" : "; it is no whole array");
    drop(qn);
}

void trace_settle(qn_ctx *qn) {
    trace *t = qn->trace;
    if (t && t->process == getpid() && clock_seconds() - t->written > settle_seconds)
        write_lines(qn);
}

static bool is_skipped(const qn_ctx *qn) {
    return !qn->trace || qn->trace->skip;
}

/* Where the line has no room for more than its end the rest is left out. */
static void put(trace *t, const char *text, size_t n) {
    size_t room = t->line + TRACE_LINE - 16 - t->used;
    if (n > room) n = room;
    memcpy(t->text + t->used, text, n);
    t->used += (uint32_t)n;
}

QN_PRINTF(2, 3) static void putf(trace *t, const char *fmt, ...) {
    char text[128];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0) put(t, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* As a string of JSON, as much as half a line takes. */
static void put_string(trace *t, const char *text) {
    put(t, "\"", 1);
    const uint32_t most = t->used + TRACE_TEXT;
    for (const unsigned char *s = (const unsigned char *)text; *s && t->used < most;) {
        int n = text_character((const char *)s);
        if (!n)
            put(t, "\\ufffd", 6);
        else if (*s == '"' || *s == '\\')
            put(t, (char[]){'\\', (char)*s}, 2);
        else if (*s < 0x20)
            putf(t, "\\u%04x", *s);
        else
            put(t, (const char *)s, (size_t)n);
        s += n ? n : 1;
    }
    put(t, "\"", 1);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void put_event(trace *t, char phase, pid_t thread, double at) {
    end_line(t);
    putf(t, t->some ? ",\n" : "[\n");
    putf(t, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f", phase, (int)t->process, (int)thread,
         at * 1e6);
    t->some = true;
    t->args = false;
}

/* Begin a line of a thread; false: nothing is traced. */
static bool begin_of(qn_ctx *qn, pid_t thread, char phase, double at) {
    trace *t = qn->trace;
    if (!t) return false;
    t->skip = t->process != getpid();
    if (t->skip) return false;
    if (t->used + 2 * (TRACE_LINE + TRACE_PAGE) > TRACE_ROOM) write_lines(qn);
    if (!(t = qn->trace)) return false;
    if (thread != t->thread) {
        put_event(t, 'M', thread, at);
        putf(t, ",\"name\":\"thread_name\",\"args\":{\"name\":\"thread %d%s\"}}", (int)thread,
             thread == t->process ? " (main)" : "");
        t->thread = thread;
    }
    put_event(t, phase, thread, at);
    return true;
}

static bool begin(qn_ctx *qn, char phase, double at) {
    return begin_of(qn, gettid(), phase, at);
}

static void put_name(trace *t, const char *category, const char *name) {
    putf(t, ",\"cat\":\"%s\",\"name\":", category);
    put_string(t, name);
}

void trace_span(qn_ctx *qn, const char *category, const char *name, double start) {
    double now = clock_seconds();
    if (!begin(qn, 'X', start)) return;
    putf(qn->trace, ",\"dur\":%.3f", now > start ? (now - start) * 1e6 : 0);
    put_name(qn->trace, category, name);
}

void trace_counters(qn_ctx *qn, const char *name) {
    if (begin(qn, 'C', clock_seconds())) put_name(qn->trace, "memory", name);
}

/* A key's text is given: is there room for its value? */
static bool put_key(const qn_ctx *qn, const char *key) {
    trace *t = qn->trace;
    if (is_skipped(qn) || t->used - t->line > TRACE_LINE - TRACE_TEXT - 256) return false;
    put(t, t->args ? "," : ",\"args\":{", t->args ? 1 : 9);
    t->args = true;
    putf(t, "\"%s\":", key);
    return true;
}

void trace_number(qn_ctx *qn, const char *key, int64_t value) {
    if (put_key(qn, key)) putf(qn->trace, "%lld", (long long)value);
}

void trace_real(qn_ctx *qn, const char *key, double value) {
    if (isfinite(value) && put_key(qn, key)) putf(qn->trace, "%.6g", value);
}

void trace_text(qn_ctx *qn, const char *key, const char *text) {
    if (put_key(qn, key)) put_string(qn->trace, text);
}

void trace_textf(qn_ctx *qn, const char *key, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    trace_text(qn, key, text);
}

void trace_done(qn_ctx *qn) {
    if (is_skipped(qn)) return;
    trace *t = qn->trace;
    const char *end = t->args ? "}}" : "}"; /* beyond what put() allows, so that it always fits */
    memcpy(t->text + t->used, end, strlen(end));
    t->used += (uint32_t)strlen(end);
}

/* ---- spans of the program -------------------------------------------------------------------- */

/* Is there room for the thread of one span more? */
static bool has_room(qn_ctx *qn) {
    trace *t = qn->trace;
    if (t->open < t->room) return true;
    uint32_t room = t->room ? 2 * t->room : 64;
    pid_t *begun = t->open < TRACE_DEEP ? heap_try(&qn->heap, room * sizeof *begun) : NULL;
    if (!begun) return false;
    if (t->open) memcpy(begun, t->begun, t->open * sizeof *begun);
    heap_free(&qn->heap, t->begun, t->room * sizeof *begun);
    t->begun = begun, t->room = room;
    return true;
}

void qn_span_begin(qn_ctx *qn, const char *name) {
    if (!qn || !trace_on(qn) || !has_room(qn)) return;
    if (!begin(qn, 'B', clock_seconds())) return;
    put_name(qn->trace, "program", name ? name : "");
    trace_done(qn);
    if (qn->trace) qn->trace->begun[qn->trace->open++] = gettid();
}

void qn_span_end(qn_ctx *qn) {
    if (!qn || !trace_on(qn) || !qn->trace->open) return;
    if (!begin_of(qn, qn->trace->begun[qn->trace->open - 1], 'E', clock_seconds())) return;
    trace_done(qn);
    qn->trace->open--;
    trace_settle(qn);
}

void qn_trace_flush(qn_ctx *qn) {
    if (qn && trace_on(qn) && qn->trace->process == getpid()) write_lines(qn);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The file's name, % being the process; one after the first has its number behind it. */
static void file_name(const char *pattern, int number, char out[FOLDER_PATH]) {
    const char *at = strchr(pattern, '%');
    char process[16] = "", behind[16] = "";
    int before = at ? (int)(at - pattern) : (int)strlen(pattern);
    if (at) snprintf(process, sizeof process, "%d", (int)getpid());
    if (number > 1) snprintf(behind, sizeof behind, ".%d", number);
    snprintf(out, FOLDER_PATH, "%.*s%s%s%s", before, pattern, process, at ? at + 1 : "", behind);
}

/* When this process began, in the system's ticks, since numbers of processes come again. */
static unsigned long long process_began(void) {
    char stat[1024] = "";
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, stat, sizeof stat - 1) : 0;
    if (file >= 0) close(file);
    stat[n > 0 ? n : 0] = 0;
    const char *at = strrchr(stat, ')'); /* behind the program's name; the 20th word from there */
    unsigned long long began = 0;
    for (int i = 0; at && i < 20; i++) at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &began) == 1 ? began : 0;
}

/* Is that a file that this process made, or that somebody writes to? */
static bool is_taken(int file, const char *mark) {
    char text[512] = "";
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return true;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    return n > 0 && strstr(text, mark);
}

/* The first file of that name that is free, empty; -1: it cannot be written, see `path`. */
static int open_file(const char *pattern, const char *mark, char path[FOLDER_PATH]) {
    for (int i = 1; i <= TRACE_FILES; i++) {
        file_name(pattern, i, path);
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
        if (file < 0) return -1;
        if (!is_taken(file, mark)) {
            if (!ftruncate(file, 0)) return file;
            close(file);
            return -1;
        }
        close(file);
        errno = EBUSY;
    }
    return -1;
}

void trace_open(qn_ctx *qn) {
    const char *pattern = qn->knob[KNOB_TRACE].text;
    char path[FOLDER_PATH] = "it", mark[64];
    if (!*pattern) return;
    trace *t = heap_try(&qn->heap, sizeof *t);
    if (t) memset(t, 0, offsetof(trace, text));
    snprintf(mark, sizeof mark, "process %d of %llu", (int)getpid(), process_began());
    errno = ENOMEM;
    if (!t || (t->file = open_file(pattern, mark, path)) < 0) {
        log_line(qn, "no trace: %s cannot be written: %s", path, strerror(errno));
        heap_free(&qn->heap, t, sizeof *t);
        return;
    }
    t->process = getpid();
    qn->trace = t;
    put_event(t, 'M', t->process, 0);
    putf(t, ",\"name\":\"process_name\",\"args\":{\"name\":");
    putf(t, "\"Quern %s, %s\"}}", qn_version(), mark);
    write_lines(qn);
}

void trace_close(qn_ctx *qn) {
    while (qn->trace && qn->trace->process == getpid() && qn->trace->open) qn_span_end(qn);
    if (qn->trace && qn->trace->process == getpid()) write_lines(qn);
    if (qn->trace) drop(qn);
}
