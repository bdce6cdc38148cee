/* replay.c - makes the calls of a recording again, and compares what they give and what was read.
 *
 * A call's line makes the call; the line with its result, which may come later where threads called
 * side by side, compares. Values are equal to the bit where the context's device and all that it
 * says of itself are the recording's, else within a tolerance. What cannot be made again is left
 * out, and what depends on it, too: tuning, wisdom, calls with names that no call gave. Files that
 * were written go into a folder of their own, which is removed. */
#include "cli/replay.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"

/* ---- differences ----------------------------------------------------------------------------- */

static void difference(replay *r, const replay_call *c, const char *fmt, ...) {
    char what[REPLAY_WHY / 2];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (!r->differences++)
        snprintf(r->first, sizeof r->first, "call %llu: qn_%s%s was given%.300s: %s",
                 (unsigned long long)c->number, call_name(c->id), replay_arguments_of(c->id),
                 c->text, what);
}

/* ---- which calls are made -------------------------------------------------------------------- */

static bool is_one_of(call_id id, const call_id *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}
#define IS_ONE_OF(id, ...)                                                                         \
    is_one_of(id, (const call_id[]){__VA_ARGS__}, COUNT_OF(((call_id[]){__VA_ARGS__})))

/* Changes nothing that is computed, takes long, or writes where the recorded program did. */
static bool not_made(const replay_call *c) {
    const char *which = c->id == CALL_set ? c->v[1].p : NULL;
    if (which && (!strcmp(which, "cache") || !strcmp(which, "wisdom") || !strcmp(which, "debug") ||
                  !strcmp(which, "tune")))
        return true;
    return IS_ONE_OF(c->id, CALL_tune, CALL_tune_plan, CALL_tune_text, CALL_wisdom_export,
                     CALL_wisdom_import, CALL_machine_measure, CALL_machine, CALL_wisdom_at);
}

/* Files that are written lie in the replay's folder, and are read there. */
static bool move_file(replay *r, replay_call *c) {
    bool writes = c->id == CALL_save || c->id == CALL_module_save;
    const char *path = writes || c->id == CALL_file_open ? c->v[1].p : NULL;
    enum { ROOM = 96 };
    if (!path) return true;
    int i = 0;
    while (i < r->saves && strcmp(r->saved[i], path) != 0) i++;
    if (i == r->saves && !writes) return true;
    if (i == (int)COUNT_OF(r->saved)) return replay_bad(r, "more files than a replay can keep");
    if (!*r->folder) {
        snprintf(r->folder, sizeof r->folder, "/tmp/quern-replay-XXXXXX");
        if (!mkdtemp(r->folder)) return replay_bad(r, "no folder for files: %s", strerror(errno));
    }
    char *moved = replay_take(c, ROOM);
    if (i == r->saves) r->saved[i] = strdup(path);
    if (!moved || !r->saved[i]) return replay_bad(r, "no memory for a path");
    if (i == r->saves) r->saves++;
    snprintf(moved, ROOM, "%s/%d", r->folder, i);
    c->v[1].p = moved;
    return true;
}

static qn_ctx *context(const replay *r, const replay_call *c) {
    return c->ctx ? r->name[c->ctx].p : NULL;
}

/* ---- before a call --------------------------------------------------------------------------- */

static call_counts counts_of(const replay *r, const replay_call *c) {
    const void *object = call_rows[c->id].arg[0].letter == 'O' ? c->v[0].p : NULL;
    for (uint32_t i = 1; object && i <= r->names; i++)
        if (r->name[i].p == object) return r->name[i].counts;
    return (call_counts){-1, -1};
}

/* A list must be as long as the call reads it; what was not given cannot be read. */
static bool list_fits(replay *r, replay_call *c, int k) {
    int64_t n = call_length(&call_rows[c->id], c->v, k, counts_of(r, c));
    if (c->listed[k] >= 0 && n >= 0 && c->listed[k] != n)
        return replay_bad(r, "a list of %lld where qn_%s reads %lld", (long long)c->listed[k],
                          call_name(c->id), (long long)n);
    if (n == CALL_LONG_LIST || (n > 0 && c->listed[k] < 0)) c->named = true;
    return true;
}

/* Memory for what argument k is to receive; `named`: it would be too much. */
static bool give_room(replay *r, replay_call *c, int k) {
    enum { STRUCTS_MOST = 4096 };
    const call_row *row = &call_rows[c->id];
    char letter = row->arg[k].letter;
    bool sized = k + 1 < CALL_ARGS && row->arg[k + 1].letter == 'S';
    int64_t n = 64 * 8;
    if (letter == 'R' || letter == 'J') {
        int64_t length = call_length(row, c->v, k, counts_of(r, c));
        if (length > n / 8) n = length > REPLAY_LARGEST / 8 ? REPLAY_LARGEST : length * 8;
        c->named |= length > REPLAY_LARGEST / 8;
    } else if (letter == 'Q') {
        qn_ctx *qn = context(r, c);
        bool pending = qn && qn_error_code(qn);
        int64_t count = qn_numel(c->v[0].p);
        n = count < 0 ? 0 : sat_mul(count, (int64_t)qn_dtype_size(qn_dtype_of(c->v[0].p)));
        if (qn && !pending) qn_clear_error(qn);
        c->named |= n > REPLAY_LARGEST;
        if ((uint64_t)c->v[k + 1].i > (uint64_t)n) c->v[k + 1].i = n;
    } else if (letter == 'N' && sized) {
        n = STRUCTS_MOST;
        if ((uint64_t)c->v[k + 1].i > (uint64_t)n) c->v[k + 1].i = n;
    }
    if (c->named) return true;
    c->room[k] = (size_t)n;
    c->v[k].p = replay_take(c, (size_t)n + 1);
    return c->v[k].p || replay_bad(r, "no memory for %lld bytes", (long long)n);
}

static bool prepare(replay *r, replay_call *c) {
    const call_row *row = &call_rows[c->id];
    for (int k = 0; k < CALL_ARGS && row->arg[k].letter && !c->named; k++)
        if (strchr("DPAYLMEV", row->arg[k].letter) && !list_fits(r, c, k)) return false;
    for (int k = 0; k < CALL_ARGS && row->arg[k].letter && !c->named; k++)
        if (c->room[k] && !give_room(r, c, k)) return false;
    return move_file(r, c);
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* Knobs that were in the environment and decide what a call gives. */
static void set_knobs(replay *r, qn_ctx *qn) {
    static const char *const knobs[] = {"check", "fuse", "history", "lift", "schedule"};
    for (int i = 0; i < r->settings; i++)
        for (size_t k = 0; k < COUNT_OF(knobs); k++) {
            const char *at = r->environment[i] + 3;
            size_t n = strlen(knobs[k]);
            if (!strncasecmp(at, knobs[k], n) && at[n] == '=') qn_set(qn, knobs[k], at + n + 1);
        }
    qn_clear_error(qn);
}

/* The device is the option's, else the one of the line with the result, which follows at once. */
static bool open_context(replay *r, replay_call *c) {
    enum { DEVICE = 16 };
    qn_options o = QN_OPTIONS(), *given = c->v[0].p;
    char device[DEVICE] = "", why[256] = "";
    const char *next = r->at, *begin = strchr(next, '"');
    if (begin) snprintf(device, sizeof device, "%.*s", (int)strcspn(begin + 1, "\""), begin + 1);
    if (given) o = *given;
    if (o.threads < 0 || o.threads > 1024) o.threads = 0;
    if (r->options->context) {
        o.alloc = r->options->context->alloc;
        o.free = r->options->context->free;
        o.alloc_user = r->options->context->alloc_user;
        o.log = r->options->context->log;
    }
    o.device = r->options->device ? r->options->device : device;
    o.error = why;
    o.error_size = sizeof why;
    c->result.p = qn_open(&o);
    if (!c->result.p) return replay_bad(r, "%s", why);
    set_knobs(r, c->result.p);
    return true;
}

static void close_context(replay *r, uint32_t number) {
    qn_close(r->name[number].p);
    for (uint32_t i = 1; i <= r->names; i++) /* none of them is to be named any more */
        if (r->name[i].ctx == number) r->name[i] = (replay_name){.p = NULL};
}

static bool repeat_call(replay *r, replay_call *c) {
    if (!prepare(r, c)) return false;
    if (c->named || not_made(c)) {
        r->left_out++;
        return true;
    }
    c->made = true;
    if (c->id == CALL_open) return open_context(r, c);
    if (c->id == CALL_close && c->ctx)
        close_context(r, c->ctx);
    else
        c->result = replay_run(c->id, c->v);
    qn_ctx *qn = context(r, c);
    c->code = qn ? qn_error_code(qn) : QN_OK;
    return true;
}

/* ---- comparing values ------------------------------------------------------------------------ */

/* Narrow floats are computed in f32 and rounded: they differ by few of their own epsilons, four of
 * them where f32 may differ by 1e-4. */
static double tolerance_of(const replay *r, int dtype) {
    double f32 = r->options->tolerance >= 0 ? r->options->tolerance : 1e-4;
    if (dtype_is_narrow(dtype)) return f32 * 4e4 * dtype_epsilon(dtype);
    return dtype == QN_F64 ? f32 * 1e-5 : f32;
}

static void compare_floats(replay *r, const replay_call *c, int dtype, const void *now,
                           const replay_data *was) {
    size_t width = qn_dtype_size((qn_dtype)dtype);
    int64_t n = (int64_t)(was->size / width);
    double largest = 0, tolerance = tolerance_of(r, dtype);
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(dtype_get_f((qn_dtype)dtype, was->bytes, i));
        if (isfinite(x)) largest = fmax(largest, x);
    }
    for (int64_t i = 0; i < n; i++) {
        double a = dtype_get_f((qn_dtype)dtype, now, i);
        double b = dtype_get_f((qn_dtype)dtype, was->bytes, i);
        bool equal = a == b || (isnan(a) && isnan(b)) ||
                     (isfinite(a) && isfinite(b) && fabs(a - b) <= tolerance * (fabs(b) + largest));
        if (equal) continue;
        difference(r, c, "element %lld of %lld is %.9g, and was %.9g", (long long)i, (long long)n,
                   a, b);
        return;
    }
}

static size_t first_different(const uint8_t *a, const uint8_t *b, size_t n) {
    size_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* Bytes that a call gave, elements of a dtype. */
static void compare_data(replay *r, const replay_call *c, int dtype, const uint8_t *now,
                         const replay_data *was) {
    r->values++;
    size_t width = qn_dtype_size((qn_dtype)dtype);
    bool same = was->bytes ? !memcmp(now, was->bytes, was->size)
                           : hash_bytes(now, was->size, 0) == was->hash;
    r->same += same;
    if (same) return;
    bool tolerant = !r->bits && dtype_is_float(dtype);
    if (r->hashed || (tolerant && !was->bytes)) {
        r->uncompared++;
        return;
    }
    if (tolerant) {
        compare_floats(r, c, dtype, now, was);
        return;
    }
    size_t i = was->bytes ? first_different(now, was->bytes, was->size) / width : 0;
    if (!was->bytes)
        difference(r, c, "the bits are not those that were");
    else if (dtype_is_float(dtype))
        difference(r, c, "element %zu is %.17g, and was %.17g", i,
                   dtype_get_f((qn_dtype)dtype, now, (int64_t)i),
                   dtype_get_f((qn_dtype)dtype, was->bytes, (int64_t)i));
    else
        difference(r, c, "element %zu is %lld, and was %lld", i,
                   (long long)dtype_get_i((qn_dtype)dtype, now, (int64_t)i),
                   (long long)dtype_get_i((qn_dtype)dtype, was->bytes, (int64_t)i));
}

static int dtype_named(const char **at) {
    size_t n = strcspn(*at, " ");
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strlen(dtype_rows[d].name) == n && !memcmp(*at, dtype_rows[d].name, n))
            return *at += n, d;
    return -1;
}

/* "f32 =..", as much as was read. */
static bool compare_read(replay *r, replay_call *c, const char **at, int k) {
    replay_data was;
    replay_skip_spaces(at);
    int dtype = dtype_named(at);
    if (dtype < 0) return replay_bad(r, "no dtype: \"%.10s\"", *at);
    if (!replay_bytes(r, c, at, &was)) return false;
    if (!c->made || c->result.i < 0) return true;
    if (was.size != c->room[k] || was.size % qn_dtype_size((qn_dtype)dtype))
        difference(r, c, "%zu bytes, and were %zu", c->room[k], was.size);
    else
        compare_data(r, c, dtype, c->v[k].p, &was);
    return true;
}

/* ---- comparing results ----------------------------------------------------------------------- */

/* A name that a result gives, from now on that of p. */
static bool take_name(replay *r, const replay_call *c, const char **at, char letter, void *p) {
    uint32_t number;
    if (!replay_new_name(r, at, letter, &number)) return false;
    if (c->made && !number != !p)
        difference(r, c, p ? "something came of it" : "nothing came of it");
    if (!number) return true;
    if (c->id == CALL_context) { /* makes none */
        if (c->made && r->name[number].p != p) difference(r, c, "another context");
        return true;
    }
    if (letter == 'c' && r->name[number].p) return replay_bad(r, "c%u is open already", number);
    uint32_t ctx = letter == 'c' ? number : c->ctx;
    r->name[number] = (replay_name){.p = p, .ctx = ctx, .letter = letter, .lost = !p};
    if (c->id == CALL_plan_new || c->id == CALL_plan_new_with)
        r->name[number].counts = (call_counts){(int)c->v[1].i, (int)c->v[3].i};
    if (c->id == CALL_optimizer_new) r->name[number].counts = (call_counts){(int)c->v[1].i, 0};
    return ctx || replay_bad(r, "%c%u is of no context", letter, number);
}

static bool take_names(replay *r, const replay_call *c, const char **at, qn_tensor *const *list,
                       int64_t n) {
    if (replay_token(r, at, "-")) return true;
    if (!replay_token(r, at, "[")) return replay_bad(r, "a list is missing at \"%.30s\"", *at);
    for (int64_t i = 0; !replay_token(r, at, "]"); i++)
        if (!take_name(r, c, at, 't', list && i < n ? (void *)list[i] : NULL)) return false;
    return true;
}

/* A number; one of a size that varies has another name here. */
static bool compare_number(replay *r, replay_call *c, const char **at, int64_t now) {
    int64_t was;
    char letter = call_rows[c->id].result;
    if (!replay_whole(r, at, INT64_MIN, INT64_MAX, &was)) return false;
    if (!c->made) return true;
    bool varies = was <= DIM_CODE && was != QN_DIM_ERROR && now <= DIM_CODE && now != QN_DIM_ERROR;
    if (varies && r->codes < REPLAY_CODES) {
        r->code[r->codes].was = was;
        r->code[r->codes++].is = now;
    }
    if (letter == 'E' && c->ctx && r->name[c->ctx].errors) return true;
    if (was != now && !varies)
        difference(r, c, letter == 'E' ? "the code is %lld, and was %lld" : "%lld, and was %lld",
                   (long long)now, (long long)was);
    return true;
}

static bool compare_result(replay *r, replay_call *c, const char **at) {
    char letter = call_rows[c->id].result;
    const char *text;
    double was;
    if (!letter) return true;
    if (strchr("CTO", letter))
        return take_name(r, c, at, letter == 'C' ? 'c' : letter == 'O' ? 'o' : 't', c->result.p);
    if (letter == 'W') return replay_word(r, c, at, &text);
    if (letter == 'L')
        return take_names(r, c, at, c->result.p, c->made ? qn_module_count(c->v[0].p) : 0);
    if (letter != 'F') return compare_number(r, c, at, c->result.i);
    char *end;
    replay_skip_spaces(at);
    was = strtod(*at, &end);
    if (end == *at) return replay_bad(r, "a number is missing at \"%.30s\"", *at);
    *at = end;
    if (c->made && !(fabs(was - c->result.f) <= 1e-12 * fabs(was)) && !isnan(was))
        difference(r, c, "%.17g, and was %.17g", c->result.f, was);
    return true;
}

static bool compare_written(replay *r, replay_call *c, const char **at) {
    const call_row *row = &call_rows[c->id];
    replay_data was;
    for (int k = 0; k < CALL_ARGS && row->arg[k].letter; k++) {
        char letter = row->arg[k].letter;
        replay_skip_spaces(at);
        if (!strchr("RQJG", letter) || !**at || **at == '!') continue;
        if (letter == 'R' && !c->v[k].p) continue;
        const int64_t *number = c->v[k].p;
        if (letter == 'R' && !take_names(r, c, at, c->v[k].p, (int64_t)(c->room[k] / 8)))
            return false;
        if (letter == 'Q' && !compare_read(r, c, at, k)) return false;
        if (letter == 'G' && !compare_number(r, c, at, c->made && number ? *number : 0))
            return false;
        if (letter != 'J') continue;
        if (!replay_bytes(r, c, at, &was)) return false;
        if (c->made && was.size <= c->room[k]) compare_data(r, c, QN_I32, c->v[k].p, &was);
    }
    return true;
}

/* Whether values of this context are to be equal to the bit: `"cpu" hash` is the recording's. */
static bool note_device(replay *r, replay_call *c, const char **at) {
    const char *device;
    if (!replay_word(r, c, at, &device)) return false;
    const char *facts = qn_device_facts(c->result.p);
    unsigned long long hash = facts ? hash_bytes(facts, strlen(facts), 0) : 0;
    char text[24];
    snprintf(text, sizeof text, "%016llx", hash);
    bool same = device && !strcmp(device, qn_device_of(c->result.p, NULL));
    same = replay_token(r, at, text) && same && r->options->tolerance < 0;
    *at += strcspn(*at, " ");
    r->bits = r->bits && same;
    return true;
}

static bool end_call(replay *r, replay_call *c, const char *at) {
    int64_t code = QN_OK;
    if (!compare_result(r, c, &at) || !compare_written(r, c, &at)) return false;
    if (c->id == CALL_open && !note_device(r, c, &at)) return false;
    replay_skip_spaces(&at);
    if (*at == '!') {
        ++at;
        if (!replay_whole(r, &at, -1000, -1, &code)) return false;
    }
    replay_skip_spaces(&at);
    if (*at) return replay_bad(r, "\"%.30s\" is more than a result", at);
    if (c->id == CALL_close || !c->ctx) return true;
    replay_name *ctx = &r->name[c->ctx];
    qn_code now = c->made || !ctx->p ? c->code : qn_error_code(ctx->p);
    ctx->errors = now != code && (ctx->errors || !c->made);
    if (c->made && now != code && !ctx->errors)
        difference(r, c, "the code that is pending is %d, and was %d", (int)c->code, (int)code);
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static replay_call *open_call(replay *r, uint64_t number) {
    for (int i = 0; i < REPLAY_THREADS; i++)
        if (r->open[i].number == number) return &r->open[i];
    return NULL;
}

static int call_named(const char *name, size_t n) {
    for (int i = 0; i < CALLS; i++)
        if (strlen(call_name(i)) == n && !memcmp(call_name(i), name, n)) return i;
    return -1;
}

static bool begin_call(replay *r, uint64_t number, const char *at) {
    size_t n = strcspn(at, " ");
    int id = call_named(at, n);
    replay_call *c = open_call(r, 0);
    if (id < 0) return replay_bad(r, "no call is qn_%.*s", (int)(n < 40 ? n : 40), at);
    if (!c) return replay_bad(r, "more than %d calls at once", REPLAY_THREADS);
    *c = (replay_call){.number = number, .id = (call_id)id, .text = at + n};
    at += n;
    r->calls++;
    return replay_arguments(r, c, &at) && repeat_call(r, c);
}

static bool one_line(replay *r, const char *at) {
    int64_t number;
    if (!strncmp(at, "process ", 8)) return true;
    if (!strncmp(at, "environment \"QN_", 16)) {
        if (r->settings < (int)COUNT_OF(r->environment)) {
            replay_call *keep = &r->open[REPLAY_THREADS - 1];
            const char *text, *from = at + 11;
            if (!replay_word(r, keep, &from, &text)) return false;
            r->environment[r->settings] = text ? strdup(text) : NULL;
            r->settings += r->environment[r->settings] != NULL;
            replay_drop(keep);
        }
        return true;
    }
    if (!replay_whole(r, &at, 1, INT64_MAX, &number)) return false;
    replay_skip_spaces(&at);
    replay_call *c = open_call(r, (uint64_t)number);
    if (!replay_token(r, &at, "="))
        return c ? replay_bad(r, "call %lld begins twice", (long long)number)
                 : begin_call(r, (uint64_t)number, at);
    if (!c) return replay_bad(r, "call %lld ends, and none began", (long long)number);
    if (!end_call(r, c, at)) return false;
    replay_drop(c);
    return true;
}

static bool first_line(replay *r, const char *line) {
    static const char says[] = "quern recording ";
    if (strncmp(line, says, strlen(says)) != 0) return replay_bad(r, "this is no recording");
    int format = atoi(line + strlen(says));
    return format == RECORD_FORMAT ||
           replay_bad(r, "a recording of format %d; this reads %d", format, RECORD_FORMAT);
}

bool replay_text(replay *r, char *text, size_t size, const replay_options *options) {
    *r = (replay){.options = options, .bits = true};
    char *at = text, *end = text + size;
    while (at < end) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        r->line++;
        if (!stop) break; /* cut off where the program ended */
        *stop = 0;
        if (strlen(at) != (size_t)(stop - at)) return replay_bad(r, "a byte 0");
        r->at = stop + 1;
        if (r->line == 1 ? !first_line(r, at) : !one_line(r, at)) return false;
        at = stop + 1;
    }
    return r->line > 1 || replay_bad(r, "this is no recording");
}

/* A context that no line gave a name to. */
static void close_nameless(replay *r, const replay_call *c) {
    void *qn = c->number && c->id == CALL_open ? c->result.p : NULL;
    for (uint32_t i = 1; i <= r->names; i++)
        if (r->name[i].p == qn) return;
    qn_close(qn);
}

void replay_close(replay *r) {
    char path[96];
    for (int i = 0; i < REPLAY_THREADS; i++) close_nameless(r, &r->open[i]);
    for (uint32_t i = 1; i <= r->names; i++)
        if (r->name[i].letter == 'c' && r->name[i].p) close_context(r, i);
    for (int i = 0; i < REPLAY_THREADS; i++) replay_drop(&r->open[i]);
    for (int i = 0; i < r->saves; i++) {
        snprintf(path, sizeof path, "%s/%d", r->folder, i);
        unlink(path);
        free(r->saved[i]);
    }
    if (*r->folder) rmdir(r->folder);
    for (int i = 0; i < r->settings; i++) free((char *)(uintptr_t)r->environment[i]);
    free(r->name);
}
