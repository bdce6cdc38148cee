/* context.c - opening and closing the context, its device, its knobs and its numbers. */
#include "func/func.h"
#include "run/run.h"
#include "schedule/wisdom/wisdom.h"

#include <stdlib.h>

static void drop_buffer(qn_ctx *qn, uint32_t b) {
    buffer_unref(qn, b);
}

static size_t buffer_bytes(const qn_ctx *qn, uint32_t b) {
    return buffer_at(qn, b)->held;
}

/* Report that there is no such device, and which there are. */
static bool no_device(qn_ctx *qn, const char *name) {
    str *text = &qn->run->text;
    for (int i = 0; dev_at(i); i++) str_addf(text, "%s %s", i ? "," : "", dev_at(i)->name);
    fail(qn, QN_EDEVICE, "no device is called \"%.100s\"; there are%s", name, text->s);
    str_free(text);
    return false;
}

/* "cpu" without a compiler becomes the oracle, a thousand times slower: that is said in the log and
 * by qn_device_of(). Where a compiler or its instructions were asked for it is an error. */
static void fall_back(qn_ctx *qn, const str *why) {
    run_state *r = qn->run;
    str_add(&r->fallback, why->s ? why->s : "cannot be opened");
    log_line(qn, "device cpu: %s; the oracle (ref) runs instead, much slower", r->fallback.s);
    r->dev = &dev_ref;
    str_free(&r->text);
    r->dev_state = dev_ref.open(qn, &r->text);
}

static void describe_device(qn_ctx *qn, str *out) {
    qn->run->dev->describe(qn->run->dev_state, out);
    str_addf(out, "machine %016llx\n", (unsigned long long)machine_hash(&qn->run->limits));
}

static bool open_device(qn_ctx *qn, const char *name) {
    run_state *r = qn->run;
    const dev_table *dev = dev_find(name);
    if (!dev) return no_device(qn, name);
    str *why = &r->text; /* freed with the context where opening raises */
    r->dev = dev;
    r->dev_state = dev->open(qn, why);
    bool asked = *qn->knob[KNOB_CPU].text || *qn->knob[KNOB_ISA].text;
    if (!r->dev_state && dev == &dev_cpu && !asked) fall_back(qn, why);
    if (!r->dev_state)
        fail(qn, QN_EDEVICE, "device %s: %s", name, why->s ? why->s : "cannot be opened");
    str_free(why);
    if (r->dev_state && r->dev->limits) r->dev->limits(r->dev_state, &r->limits);
    if (r->dev_state && r->dev->describe) wisdom_attach(qn, r->dev->name, describe_device);
    return r->dev_state != NULL;
}

const char *qn_device_of(const qn_ctx *qn, const char **why) {
    const run_state *r = qn ? qn->run : NULL;
    if (why) *why = r && r->fallback.len ? r->fallback.s : NULL;
    return r ? r->dev->name : NULL;
}

typedef struct opening {
    qn_ctx *qn;
    const qn_options *options;
    bool ok;
} opening;

static void open_work(void *arg) {
    opening *o = arg;
    qn_ctx *qn = o->qn;
    const qn_options *options = o->options;
    bool ok = knobs_open(qn) == QN_OK;
    if (ok && options && options->threads > 0) qn->knob[KNOB_THREADS].number = options->threads;
    if (ok) {
        graph_open(qn);
        qn->graph->drop_buffer = drop_buffer;
        qn->graph->buffer_bytes = buffer_bytes;
        qn->graph->read = qn_read;
        qn->run = heap_zeroed(&qn->heap, sizeof *qn->run);
        lru_open(&qn->run->kept, &qn->heap);
        qn->run->requests = 1;
        str_open(&qn->run->text, &qn->heap);
        str_open(&qn->run->fallback, &qn->heap);
        knobs_note_unknown(qn);
        const char *name =
            options && options->device ? options->device : qn->knob[KNOB_DEVICE].text;
        ok = open_device(qn, name && *name ? name : "cpu");
    }
    o->ok = ok;
}

static bool open_rooms(qn_ctx *qn, const qn_options *options) {
    opening o = {qn, options, false};
    return !guarded(qn, open_work, &o) && o.ok;
}

/* Into the caller's room, as much as it holds. */
static void tell_why(const qn_options *options, const char *why) {
    if (!options || !options->error || !options->error_size) return;
    size_t n = strlen(why), most = options->error_size - 1;
    if (n > most) n = most;
    memcpy(options->error, why, n);
    options->error[n] = 0;
}

qn_ctx *qn_open(const qn_options *given) {
    qn_options known = QN_OPTIONS(), *options = &known;
    char why[STRUCT_WHY];
    heap first;
    if (!struct_read("qn_options", options, sizeof known, given, why)) return NULL;
    heap_open(&first, options, NULL);
    qn_ctx *qn = heap_try(&first, sizeof *qn);
    tell_why(options, qn ? "" : "no memory for a context");
    if (!qn) return NULL;
    memset(qn, 0, sizeof *qn);
    qn->heap = first;
    qn->heap.ctx = qn;
    qn->log = options->log;
    qn->log_user = options->log_user;
    double start = clock_seconds();
    if (open_rooms(qn, options)) {
        trace_open(qn);
        if (!trace_on(qn)) return qn;
        trace_span(qn, "context", "open", start);
        trace_text(qn, "device", qn->run->dev->name);
        trace_done(qn);
        return qn;
    }
    tell_why(options, qn_error(qn));
    if (qn->log || debug_on(qn, 'e')) log_line(qn, "%s", qn_error(qn));
    qn_close(qn);
    return NULL;
}

static void close_run(qn_ctx *qn) {
    run_state *r = qn->run;
    if (r->online) run_hooks.closing(qn);
    plans_close(qn);
    if (r->dev_state) {
        programs_close(qn);
        wisdom_close(qn);
        arena_free(&r->laying);
        heap_free(&qn->heap, r->staging, r->staging_size);
        lapack_close(&qn->heap, r->lapack);
        if (r->arena_memory) r->dev->free(r->dev_state, r->arena_memory, r->arena_size);
        buffers_close(qn);
        r->dev->close(r->dev_state);
    }
    lru_free(&r->kept);
    str_free(&r->text);
    str_free(&r->fallback);
    heap_free(&qn->heap, r, sizeof *r);
    qn->run = NULL;
}

void qn_close(qn_ctx *qn) {
    if (!qn) return;
    if (qn->graph) loops_close(qn);
    if (qn->run && qn->graph) statics_close(qn);
    if (qn->graph) {
        qn->graph->drop_buffer = NULL; /* the buffers go as a whole, below */
        graph_close(qn);
    }
    if (qn->run) close_run(qn);
    trace_close(qn);
    knobs_close(qn);
    heap last = qn->heap;
    heap_free(&last, qn, sizeof *qn);
}

bool qn_device_at(int i, const char **name, const char **description) {
    const dev_table *d = i < 0 ? NULL : dev_at(i);
    if (!d) return false;
    if (name) *name = d->name;
    if (description) *description = d->description;
    return true;
}

qn_support qn_device_supports(const qn_ctx *qn, qn_dtype dtype) {
    dtype = dtype_part(dtype);
    if (!qn || !dtype_is_known((int)dtype)) return QN_LACKING;
    const dev_table *dev = qn->run->dev;
    if (dev->lacks && dev->lacks(qn->run->dev_state) >> dtype & 1) return QN_LACKING;
    return dtype_is_narrow(dtype) ? QN_EMULATED : QN_SUPPORTED;
}

/* Text that `tell` adds, kept until the next such call. */
typedef struct telling {
    qn_ctx *qn;
    void (*tell)(qn_ctx *qn, str *out);
} telling;

static void tell_work(void *arg) {
    const telling *t = arg;
    str_add(&t->qn->run->text, "");
    t->tell(t->qn, &t->qn->run->text);
}

static const char *told(qn_ctx *qn, void (*tell)(qn_ctx *qn, str *out)) {
    if (!qn) return NULL;
    run_state *r = qn->run;
    str_free(&r->text);
    str_open(&r->text, &qn->heap);
    return guarded(qn, tell_work, &(telling){qn, tell}) ? NULL : r->text.s;
}

static void tell_device(qn_ctx *qn, str *out) {
    const dev_table *dev = qn->run->dev;
    if (dev->tell) dev->tell(qn->run->dev_state, out);
    if (dev->executes && !dev->host_memory)
        str_add(out, "routines: sorting and linear algebra by the host, copied out and in\n");
    if (!dev->executes) return;
    const lapack *l = call_lapack(qn);
    str_addf(out, "linear algebra: %s%s%s%s\n", lapack_here(l) ? "LAPACK, " : "our own (",
             lapack_told(l), lapack_here(l) ? "" : ")", lapack_here(l) ? " from 64 rows on" : "");
}

static void tell_machine(qn_ctx *qn, str *out) {
    machine_print(&qn->run->limits, out);
}

const char *qn_device_facts(qn_ctx *qn) {
    return told(qn, tell_device);
}

const char *qn_machine(qn_ctx *qn) {
    return told(qn, tell_machine);
}

bool qn_machine_family_at(int i, const char **name, const char **description) {
    return machine_family(i, name, description);
}

typedef struct setting {
    qn_ctx *qn;
    const char *name, *value;
    int code;
} setting;

static void set_work(void *arg) {
    setting *s = arg;
    s->code = knobs_set_late(s->qn, s->name, s->value);
}

qn_code qn_set(qn_ctx *qn, const char *name, const char *value) {
    if (!qn) return QN_ENULL;
    setting s = {qn, name, value, QN_OK};
    int code = guarded(qn, set_work, &s);
    return code ? code : s.code;
}

static double median_compile(const run_state *r) {
    uint64_t half = r->stats.compiles / 2, seen = 0;
    for (int i = 0; i < COMPILE_BUCKETS; i++) {
        seen += r->compile_times[i];
        if (seen > half) return (i + 0.5) * COMPILE_BUCKET;
    }
    return 0;
}

void qn_get_stats(const qn_ctx *qn, qn_stats *out, size_t size) {
    if (!qn) return;
    const run_state *r = qn->run;
    qn_stats s = r->stats;
    s.nodes = qn->graph->live;
    s.handles = qn->graph->handles;
    s.buffers = r->buffers.live;
    s.bytes = r->buffers.bytes + r->arena_size;
    s.peak_bytes = r->buffers.peak + r->arena_size;
    s.host_bytes = qn->heap.bytes;
    s.compile_median = median_compile(r);
    struct_give(out, size, &s, sizeof s);
}
