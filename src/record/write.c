/* write.c - the recording: a line before each call, with its arguments, and one after it, with
 * what came of it. docs/record.md has the form.
 *
 * A line is written whole and at once, so that of a program that crashes all is there, the call
 * that crashed last. What is named by a pointer gets a number when a call first returns it; a
 * pointer names one thing at a time, so equal pointers have equal numbers, also of what is gone.
 *
 * A recording is of one context. Where a file is somebody's already, of a context of this process
 * or of whoever writes to it, the next name is taken: file.2, file.3 and so on. Who writes holds a
 * lock of the file, and a line in it says which process that was, since a context may be closed
 * before the next one is opened.
 *
 * Memory is the C library's: the last call closes the context. Where there is none, or a line
 * cannot be written, the recording ends there, and the program goes on. */
#include "record/record.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct known {
    uintptr_t name; /* 0: free */
    uint32_t number;
    int in, out; /* inputs and outputs of a plan; parameters of an optimizer */
} known;

typedef struct recorder {
    heap heap;
    int file; /* -1: the recording has ended */
    pid_t process;
    bool failed;
    uint64_t calls;
    size_t whole; /* bytes that a value may have */
    known *table;
    uint32_t cap, count;
    char *line;
    uint32_t room, length;
} recorder;

enum { RECORD_FILES = 10000 };
_Static_assert(RECORD_MARK == (int)HANDLE_MARKED && !offsetof(qn_ctx, recorder), "record.h");

/* ---- text ------------------------------------------------------------------------------------ */

static void *resized(recorder *r, void *old, size_t had, size_t wanted) {
    void *p = heap_try(&r->heap, wanted);
    if (!p) {
        r->failed = true;
        return old;
    }
    if (had) memcpy(p, old, had);
    heap_free(&r->heap, old, had);
    return p;
}

/* Room for n more bytes; NULL where there is none. */
static char *put_room(recorder *r, size_t n) {
    if (n > UINT32_MAX / 4) r->failed = true;
    if (r->failed) return NULL;
    if (r->length + n > r->room) {
        size_t wanted = 2 * (size_t)r->room + n;
        r->line = resized(r, r->line, r->room, wanted);
        if (r->failed) return NULL;
        r->room = (uint32_t)wanted;
    }
    char *at = r->line + r->length;
    r->length += (uint32_t)n;
    return at;
}

static void put(recorder *r, const char *text) {
    size_t n = strlen(text);
    char *at = put_room(r, n);
    if (at) memcpy(at, text, n);
}

QN_PRINTF(2, 3) static void putf(recorder *r, const char *fmt, ...) {
    char text[96];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put(r, text);
}

static void put_text(recorder *r, const char *text) {
    if (!text) {
        put(r, " -");
        return;
    }
    put(r, " \"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            putf(r, "\\x%02x", c);
        else
            put(r, (char[]){*text, 0});
    }
    put(r, "\"");
}

/* Bytes in base64 behind '=', or where there are too many their hash and number behind '#'. */
static void put_data(recorder *r, const uint8_t *data, size_t size) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (size > r->whole) {
        putf(r, " #%016llx:%zu", (unsigned long long)hash_bytes(data, size, 0), size);
        return;
    }
    put(r, " =");
    char *at = put_room(r, (size + 2) / 3 * 4);
    for (size_t i = 0; at && i < size; i += 3) {
        uint32_t word = (uint32_t)data[i] << 16;
        if (i + 1 < size) word |= (uint32_t)data[i + 1] << 8;
        if (i + 2 < size) word |= data[i + 2];
        for (int k = 0; k < 4; k++) *at++ = digit[word >> (18 - 6 * k) & 63];
        if (i + 1 >= size) at[-2] = '=';
        if (i + 2 >= size) at[-1] = '=';
    }
}

/* ---- numbers of what pointers name ----------------------------------------------------------- */

static known *find(const recorder *r, uintptr_t name) {
    uint32_t i = (uint32_t)hash_mix(name, 0) & (r->cap - 1);
    while (r->table[i].name && r->table[i].name != name) i = (i + 1) & (r->cap - 1);
    return &r->table[i];
}

static void grow_table(recorder *r) {
    known *old = r->table;
    uint32_t cap = r->cap;
    known *fresh = heap_try(&r->heap, 2 * (size_t)cap * sizeof *fresh);
    if (!fresh) {
        r->failed = true;
        return;
    }
    memset(fresh, 0, 2 * (size_t)cap * sizeof *fresh);
    r->table = fresh;
    r->cap = 2 * cap;
    for (uint32_t i = 0; i < cap; i++)
        if (old[i].name) *find(r, old[i].name) = old[i];
    heap_free(&r->heap, old, cap * sizeof *old);
}

/* What a call returned has a number from then on. NULL: there is none for want of memory. */
static known *name_it(recorder *r, const void *p) {
    if (2 * (r->count + 1) > r->cap) grow_table(r);
    if (r->failed) return NULL;
    known *k = find(r, (uintptr_t)p);
    if (!k->name) *k = (known){.name = (uintptr_t)p, .number = ++r->count};
    return k;
}

static void put_name(recorder *r, char letter, const void *p) {
    const known *k = p ? find(r, (uintptr_t)p) : NULL;
    if (!p)
        put(r, " -");
    else if (!k->name)
        put(r, " ?"); /* not made by a call that was recorded */
    else
        putf(r, " %c%u", letter == 'C' ? 'c' : letter == 'O' ? 'o' : 't', k->number);
}

static void put_names(recorder *r, qn_tensor *const *list, int64_t n, bool new) {
    put(r, " [");
    for (int64_t i = 0; i < n; i++) {
        if (new &&list[i]) name_it(r, list[i]);
        if (!r->failed) put_name(r, 'T', list[i]);
    }
    put(r, " ]");
}

/* Below 0: nobody knows, or the call fails and reads no list. */
static int64_t length_of(const recorder *r, const call_row *row, const call_value *v, int k) {
    int about = row->arg[k].about;
    const known *of = about <= LENGTH_INPUTS && v[0].p ? find(r, (uintptr_t)v[0].p) : NULL;
    call_counts counts = {of && of->name ? of->in : -1, of && of->name ? of->out : -1};
    return call_length(row, v, k, counts);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void put_field(recorder *r, const struct_field *f, const uint8_t *at);

/* Fields that are not 0, of those that the caller's struct has. */
static void put_struct(recorder *r, int which, const uint8_t *given) {
    static const uint8_t zero[sizeof(qn_conv_options)];
    size_t size = struct_sizes[which];
    if (struct_is_sized(which)) memcpy(&size, given, sizeof size);
    put(r, " {");
    if (size != struct_sizes[which]) putf(r, " size=%zu", size);
    for (int i = 0; i < struct_field_count; i++) {
        const struct_field *f = &struct_fields[i];
        size_t bytes = f->count * field_size(f);
        if (f->of != which || f->at + bytes > size || !memcmp(given + f->at, zero, bytes)) continue;
        put_field(r, f, given + f->at);
    }
    put(r, " }");
}

static void put_field(recorder *r, const struct_field *f, const uint8_t *at) {
    putf(r, " %s", f->name);
    for (int i = 0; i < f->count; i++, at += field_size(f)) {
        int whole;
        int64_t number;
        double real;
        const void *p;
        if (f->kind == FIELD_INT) putf(r, " =%d", (memcpy(&whole, at, sizeof whole), whole));
        if (f->kind == FIELD_BOOL) putf(r, " =%d", *at);
        if (f->kind == FIELD_I64)
            putf(r, " =%lld", (memcpy(&number, at, sizeof number), (long long)number));
        if (f->kind == FIELD_F64) putf(r, " =%.17g", (memcpy(&real, at, sizeof real), real));
        if (f->kind < FIELD_TEXT) continue;
        memcpy(&p, at, sizeof p);
        put(r, " =");
        if (f->kind == FIELD_TEXT)
            put_text(r, p);
        else if (f->kind == FIELD_TENSOR)
            put_name(r, 'T', p);
        else if (p)
            put_struct(r, STRUCT_conv_options, p);
    }
}

static void put_list(recorder *r, const call_row *row, const call_value *v, int k) {
    int64_t n = length_of(r, row, v, k);
    const void *list = v[k].p;
    if (!list || n < 0) {
        put(r, list ? " ?" : " -");
        return;
    }
    switch (row->arg[k].letter) {
    case 'D':
        put_data(r, list, (size_t)n);
        return;
    case 'L':
        put_names(r, list, n, false);
        return;
    default:
        put(r, " [");
        for (int64_t i = 0; i < n; i++)
            if (row->arg[k].letter == 'V')
                put_struct(r, row->arg[k].of,
                           (const uint8_t *)list + (size_t)i * struct_sizes[row->arg[k].of]);
            else if (row->arg[k].letter == 'A')
                putf(r, " %d", ((const int *)list)[i]);
            else if (row->arg[k].letter == 'E')
                putf(r, " %.17g", ((const double *)list)[i]);
            else if (row->arg[k].letter == 'M')
                put_text(r, ((const char *const *)list)[i]);
            else
                putf(r, " %lld", (long long)((const int64_t *)list)[i]);
        put(r, " ]");
    }
}

static void put_argument(recorder *r, const call_row *row, const call_value *v, int k) {
    char letter = row->arg[k].letter;
    if (strchr("CTO", letter))
        put_name(r, letter, v[k].p);
    else if (strchr("DPAYLMEV", letter))
        put_list(r, row, v, k);
    else if (letter == 'F')
        putf(r, " %.17g", v[k].f);
    else if (letter == 'W')
        put_text(r, v[k].p);
    else if (letter == 'K' && v[k].p)
        put_struct(r, row->arg[k].of, v[k].p);
    else if (strchr("KRQJGN", letter))
        put(r, v[k].p ? " *" : " -");
    else if (letter == 'U' || letter == 'S')
        putf(r, " %llu", (unsigned long long)v[k].i);
    else
        putf(r, " %lld", (long long)v[k].i);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void end_recording(recorder *r, qn_ctx *qn, const char *why) {
    close(r->file);
    r->file = -1;
    if (qn) log_line(qn, "the recording ends here: %s", why);
}

static void recorder_free(recorder *r) {
    if (r->file >= 0) close(r->file);
    heap h = r->heap;
    heap_free(&h, r->table, r->cap * sizeof *r->table);
    heap_free(&h, r->line, r->room);
    heap_free(&h, r, sizeof *r);
}

static void write_line(recorder *r, qn_ctx *qn) {
    put(r, "\n");
    const char *at = r->line;
    size_t left = r->failed ? 0 : r->length;
    while (left) {
        ssize_t done = write(r->file, at, left);
        if (done <= 0) break;
        at += done, left -= (size_t)done;
    }
    r->length = 0;
    if (r->failed || left) end_recording(r, qn, r->failed ? "no memory" : "it cannot be written");
}

/* That of the first argument that has one that is recorded. */
static qn_ctx *context_of(const call_row *row, const call_value *v) {
    for (int k = 0; k < CALL_ARGS && row->arg[k].letter; k++) {
        char letter = row->arg[k].letter;
        const void *p = strchr("CTOL", letter) ? v[k].p : NULL;
        if (p && letter == 'L')
            p = row->arg[k].about < 0 || v[row->arg[k].about].i > 0 ? *(const void *const *)p
                                                                    : NULL;
        qn_ctx *qn = !p ? NULL : letter == 'C' ? (qn_ctx *)(uintptr_t)p : handle_at(p)->ctx;
        if (qn && qn->recorder) return qn;
    }
    return NULL;
}

/* Not where the recording has ended, nor in a process that this one forked. */
static bool may_record(const recorder *r) {
    return r && r->file >= 0 && r->process == getpid();
}

static void begin_line(recorder *r, record_call *c) {
    const call_row *row = &call_rows[c->id];
    c->number = ++r->calls;
    putf(r, "%llu %s", (unsigned long long)c->number, call_name(c->id));
    for (int k = 0; k < CALL_ARGS && row->arg[k].letter; k++) put_argument(r, row, c->v, k);
}

void record_begin(record_call *c, call_id id, call_function inner) {
    c->id = id;
    c->inner = inner;
    c->turn = 0;
    c->ctx = context_of(&call_rows[id], c->v);
    c->recorder = c->ctx ? c->ctx->recorder : NULL;
    if (may_record(c->recorder)) {
        begin_line(c->recorder, c);
        write_line(c->recorder, c->ctx);
    }
    if (id == CALL_close) c->ctx = NULL;
    complex_begin(c);
}

bool record_turn(record_call *c, call_value *given) {
    return c->complex.way ? complex_turn(c, given) : !c->turn++;
}

/* The value that was read, with its dtype. */
static void put_read(recorder *r, const record_call *c, int k) {
    const qn_tensor *t = c->v[0].p;
    if (handle_is(t, HANDLE_COMPLEX)) t = handle_name(handle_at(t)->object);
    qn_dtype dtype = inner_dtype_of(t);
    putf(r, " %s", qn_dtype_name(dtype));
    put_data(r, c->v[k].p, (size_t)inner_numel(t) * qn_dtype_size(dtype));
}

/* What a call wrote by its arguments, which it did not where it failed. */
static void put_written(recorder *r, const record_call *c, call_value result) {
    const call_row *row = &call_rows[c->id];
    for (int k = 0; k < CALL_ARGS && row->arg[k].letter; k++) {
        char letter = row->arg[k].letter;
        if (!strchr("RQJG", letter) || !c->v[k].p || result.i < 0) continue;
        int64_t n = letter == 'R' || letter == 'J' ? length_of(r, row, c->v, k) : 0;
        if (letter == 'R' && n >= 0) put_names(r, c->v[k].p, n, true);
        if (letter == 'Q') put_read(r, c, k);
        if (letter == 'J' && n >= 0) put_data(r, c->v[k].p, (size_t)n * sizeof(int32_t));
        if (letter == 'G') putf(r, " %lld", (long long)*(const int64_t *)c->v[k].p);
    }
}

/* What was made has a number, and a plan and an optimizer lists of a length from then on. */
static void note_made(recorder *r, const record_call *c, const void *made) {
    known *k = made ? name_it(r, made) : NULL;
    if (!k) return;
    if (c->id == CALL_plan_new || c->id == CALL_plan_new_with)
        k->in = (int)c->v[1].i, k->out = (int)c->v[3].i;
    if (c->id == CALL_optimizer_new) k->in = (int)c->v[1].i;
}

static void put_result(recorder *r, const record_call *c, call_value result) {
    char letter = call_rows[c->id].result;
    if (letter && strchr("CTO", letter)) note_made(r, c, result.p);
    if (r->failed || !letter) return;
    if (strchr("CTO", letter))
        put_name(r, letter, result.p);
    else if (letter == 'W')
        put_text(r, result.p);
    else if (letter == 'F')
        putf(r, " %.17g", result.f);
    else if (letter == 'L' && result.p)
        put_names(r, result.p, inner_module_count(c->v[0].p), true);
    else if (letter == 'L')
        put(r, " -");
    else
        putf(r, " %lld", (long long)result.i);
}

static void end_line(recorder *r, const record_call *c, call_value result) {
    putf(r, "%llu =", (unsigned long long)c->number);
    put_result(r, c, result);
    put_written(r, c, result);
    if (c->ctx && c->ctx->code) putf(r, " !%d", (int)c->ctx->code);
}

void record_end(record_call *c, call_value result) {
    if (may_record(c->recorder)) {
        end_line(c->recorder, c, result);
        write_line(c->recorder, c->ctx);
    }
    if (c->id == CALL_close && c->recorder) recorder_free(c->recorder);
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Knobs of the environment, for who reads it: what matters of them follows from the calls. */
static void put_environment(recorder *r) {
    for (char **e = environ; e && *e && !r->failed; e++) {
        if (strncmp(*e, "QN_", 3) != 0) continue;
        put(r, "environment");
        put_text(r, *e);
        put(r, "\n");
    }
}

/* The file's name, % being the process; one after the first has its number behind it. */
static void file_name(const char *pattern, int number, char *out, size_t room) {
    const char *at = strchr(pattern, '%');
    char process[16] = "", behind[16] = "";
    int before = at ? (int)(at - pattern) : (int)strlen(pattern);
    if (at) snprintf(process, sizeof process, "%d", (int)getpid());
    if (number > 1) snprintf(behind, sizeof behind, ".%d", number);
    snprintf(out, room, "%.*s%s%s%s", before, pattern, process, at ? at + 1 : "", behind);
}

/* This process: its number, and where the system tells when it began, since numbers come again. */
static void process_line(char *out, size_t room) {
    char stat[1024] = "";
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, stat, sizeof stat - 1) : 0;
    if (file >= 0) close(file);
    stat[n > 0 ? n : 0] = 0;
    const char *at = strrchr(stat, ')'); /* behind the program's name; the 20th word from there */
    for (int i = 0; at && i < 20; i++) at = strchr(at + 1, ' ');
    snprintf(out, room, "process %d began %llu\n", (int)getpid(), at ? strtoull(at, NULL, 10) : 0);
}

/* Is that a file that this process made, or that somebody writes to? */
static bool is_taken(int file, const char *process) {
    char text[256] = "";
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return true;
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    return n > 0 && strstr(text, process);
}

/* The first file of that name that is free, empty; -1: it cannot be written, see `path`. */
static int open_file(const char *pattern, const char *process, char path[FOLDER_PATH]) {
    for (int i = 1; i <= RECORD_FILES; i++) {
        file_name(pattern, i, path, FOLDER_PATH);
        int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (file < 0) file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (file < 0) return -1;
        if (!is_taken(file, process)) {
            int cut = ftruncate(file, 0); /* what is no file has no length */
            return (void)cut, file;
        }
        close(file);
    }
    return -1;
}

static recorder *recorder_open(qn_ctx *qn) {
    char path[FOLDER_PATH], process[64];
    recorder first = {.process = getpid(), .cap = 1024, .file = -1};
    heap_open(&first.heap, NULL, NULL);
    recorder *r = heap_try(&first.heap, sizeof *r);
    if (!r) return NULL;
    *r = first;
    r->whole = (size_t)sat_mul(qn->knob[KNOB_RECORD_MEMORY].number, 1024);
    r->table = heap_try(&r->heap, r->cap * sizeof *r->table);
    process_line(process, sizeof process);
    if (r->table) r->file = open_file(qn->knob[KNOB_RECORD].text, process, path);
    if (r->file < 0) {
        log_line(qn, "no recording: %s cannot be written",
                 r->table ? path : "for want of memory it");
        if (!r->table) r->cap = 0;
        recorder_free(r);
        return NULL;
    }
    memset(r->table, 0, r->cap * sizeof *r->table);
    putf(r, "quern recording %d, library %s\n", RECORD_FORMAT, qn_version());
    put(r, process);
    put_environment(r);
    return r;
}

/* Behind the context's number its device, and a hash of all that its results depend on. */
static void put_device(recorder *r, qn_ctx *qn) {
    const char *facts = inner_device_facts(qn), *device = inner_device_of(qn, NULL);
    put_text(r, device);
    putf(r, " %016llx", (unsigned long long)(facts ? hash_bytes(facts, strlen(facts), 0) : 0));
}

void record_opened(qn_ctx *qn, const qn_options *options) {
    if (!*qn->knob[KNOB_RECORD].text) return;
    recorder *r = recorder_open(qn);
    if (!r) return;
    qn->recorder = r;
    record_call c = {.id = CALL_open, .ctx = qn, .v = {{.p = (void *)(uintptr_t)options}}};
    begin_line(r, &c);
    put(r, "\n");
    putf(r, "%llu =", (unsigned long long)c.number);
    put_result(r, &c, (call_value){.p = qn});
    put_device(r, qn);
    write_line(r, qn);
}
