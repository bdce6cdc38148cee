/* context.c - opening and closing the context, its device, its knobs and its numbers. */
#include "run/run.h"
#include "run/wisdom.h"

#include <stdlib.h>

static void drop_buffer(qn_ctx *qn, uint32_t b) {
    buffer_unref(qn, b);
}

static size_t buffer_bytes(const qn_ctx *qn, uint32_t b) {
    return buffer_at(qn, b)->held;
}

/* The device by name; "cpu" falls back to the oracle where no compiler can be had, and says so. */
static bool open_device(qn_ctx *qn, const char *name) {
    run_state *r = qn->run;
    const dev_table *dev = dev_find(name);
    if (!dev) {
        fail(qn, QN_EDEVICE, "no device is called \"%s\"", name);
        return false;
    }
    str *why = &r->text; /* freed with the context where opening raises */
    r->dev = dev;
    r->dev_state = dev->open(qn, why);
    if (!r->dev_state && dev == &dev_cpu) {
        log_line(qn, "e cpu: %s; the oracle (ref) runs instead",
                 why->s ? why->s : "cannot be opened");
        r->dev = &dev_ref;
        r->dev_state = dev_ref.open(qn, why);
    }
    if (!r->dev_state)
        fail(qn, QN_EDEVICE, "device %s: %s", name, why->s ? why->s : "cannot be opened");
    str_free(why);
    if (r->dev_state && r->dev->limits) r->dev->limits(r->dev_state, &r->limits);
    return r->dev_state != NULL;
}

static bool open_rooms(qn_ctx *qn, const qn_options *options) {
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        return false;
    }
    bool ok = knobs_open(qn) == QN_OK;
    if (ok && options && options->threads > 0) qn->knob[KNOB_THREADS].number = options->threads;
    if (ok) {
        graph_open(qn);
        qn->graph->drop_buffer = drop_buffer;
        qn->graph->buffer_bytes = buffer_bytes;
        qn->run = heap_zeroed(&qn->heap, sizeof *qn->run);
        str_open(&qn->run->text, &qn->heap);
        const char *name =
            options && options->device ? options->device : qn->knob[KNOB_DEVICE].text;
        ok = open_device(qn, name && *name ? name : "cpu");
    }
    guard_close(&qn->heap, &g);
    return ok;
}

qn_ctx *qn_open(const qn_options *options) {
    heap first;
    heap_open(&first, options, NULL);
    qn_ctx *qn = heap_try(&first, sizeof *qn);
    if (!qn) return NULL;
    memset(qn, 0, sizeof *qn);
    qn->heap = first;
    qn->heap.ctx = qn;
    if (options) {
        qn->log = options->log;
        qn->log_user = options->log_user;
    }
    if (open_rooms(qn, options)) return qn;
    if (qn->log && qn->code) log_line(qn, "%s", qn_error(qn));
    qn_close(qn);
    return NULL;
}

static void close_run(qn_ctx *qn) {
    run_state *r = qn->run;
    plans_close(qn);
    if (r->dev_state) {
        programs_close(qn);
        wisdom_close(qn);
        if (r->arena_memory) r->dev->free(r->dev_state, r->arena_memory, r->arena_size);
        buffers_close(qn);
        r->dev->close(r->dev_state);
    }
    str_free(&r->text);
    heap_free(&qn->heap, r, sizeof *r);
    qn->run = NULL;
}

void qn_close(qn_ctx *qn) {
    if (!qn) return;
    if (qn->run && qn->graph) statics_close(qn);
    if (qn->graph) {
        qn->graph->drop_buffer = NULL; /* the buffers go as a whole, below */
        graph_close(qn);
    }
    if (qn->run) close_run(qn);
    knobs_close(qn);
    heap last = qn->heap;
    heap_free(&last, qn, sizeof *qn);
}

bool qn_device(int i, const char **name, const char **description) {
    const dev_table *d = i < 0 ? NULL : dev_at(i);
    if (!d) return false;
    if (name) *name = d->name;
    if (description) *description = d->description;
    return true;
}

const char *qn_device_facts(qn_ctx *qn) {
    if (!qn) return NULL;
    run_state *r = qn->run;
    str_free(&r->text);
    str_open(&r->text, &qn->heap);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        return NULL;
    }
    str_add(&r->text, "");
    if (r->dev->tell) r->dev->tell(r->dev_state, &r->text);
    guard_close(&qn->heap, &g);
    return r->text.s;
}

int qn_set(qn_ctx *qn, const char *name, const char *value) {
    if (!qn) return QN_ENULL;
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        return qn_error_code(qn);
    }
    int code = knobs_set(qn, name, value);
    guard_close(&qn->heap, &g);
    return code;
}

static double median_compile(const run_state *r) {
    uint64_t half = r->stats.compiles / 2, seen = 0;
    for (int i = 0; i < COMPILE_BUCKETS; i++) {
        seen += r->compile_times[i];
        if (seen > half) return (i + 0.5) * COMPILE_BUCKET;
    }
    return 0;
}

void qn_get_stats(const qn_ctx *qn, qn_stats *out) {
    if (!qn || !out) return;
    const run_state *r = qn->run;
    *out = r->stats;
    out->nodes = qn->graph->live;
    out->handles = qn->graph->handles;
    out->buffers = r->buffers.live;
    out->bytes = r->buffers.bytes + r->arena_size;
    out->peak_bytes = r->buffers.peak + r->arena_size;
    out->host_bytes = qn->heap.bytes;
    out->compile_median = median_compile(r);
}
