/* traced.c - what QN_TRACE tells of a run: each launch with what it reads and writes, and how much
 * memory is held.
 *
 * While a context is traced launches run one after the other, also those that would run side by
 * side, so that each has a time of its own. How many operations a kernel is, is counted when its
 * plan is built, by the lowered kernel's text: schedules and expansions of functions change what a
 * processor does, and not what was asked for. */
#include "run/run.h"

#include <stdio.h>

void traced_shape(const qn_ctx *qn, int dtype, tuple_id shape, char *out, size_t room) {
    int rank, n = snprintf(out, room, "%s[", qn_dtype_name((qn_dtype)dtype));
    const int64_t *dims = graph_tuple_get(qn->graph, shape, &rank);
    for (int i = 0; i < rank && n > 0 && (size_t)n < room; i++) {
        int64_t size = shape_bound(qn->graph, (sym)dims[i]);
        const char *comma = i ? ", " : "";
        n += size < 0 ? snprintf(out + n, room - (size_t)n, "%s?", comma)
                      : snprintf(out + n, room - (size_t)n, "%s%lld", comma, (long long)size);
    }
    if (n > 0 && (size_t)n + 1 < room) memcpy(out + n, "]", 2);
}

/* ---- operations ------------------------------------------------------------------------------ */

typedef struct counter {
    const kernel *k;
    uint32_t *seen; /* by expression: the last store that counted it */
    uint32_t store;
} counter;

enum { DEEPEST = 500 };

static double expr_flops(counter *c, expr_id e, int depth) {
    if (!e || c->seen[e] == c->store || depth > DEEPEST) return 0;
    c->seen[e] = c->store;
    const ir_expr *x = ir_e(c->k, e);
    if (x->kind != EXPR_OP) return 0;
    bool none = !dtype_is_float(x->dtype) || x->op == OP_CAST || x->op == OP_WHERE;
    double sum = none ? 0 : x->op == OP_FMA ? 2 : 1;
    for (int i = 0; i < x->n; i++) sum += expr_flops(c, x->arg[i], depth + 1);
    return sum;
}

static double block_flops(counter *c, stmt_id loop) {
    double sum = 0;
    for (stmt_id s = ir_s(c->k, loop)->first; s; s = ir_s(c->k, s)->next) {
        const ir_stmt *t = ir_s(c->k, s);
        if (t->kind == STMT_LOOP) sum += (double)ir_most_trips(c->k, s) * block_flops(c, s);
        if (t->kind != STMT_STORE) continue;
        c->store++;
        for (int i = 0; i < t->n; i++) {
            bool combines = monoid_rows[t->monoid].combine != OP_NONE;
            if (combines && dtype_is_float(ir_m(c->k, t->store.mem[i])->dtype)) sum++;
            sum += expr_flops(c, t->store.value[i], 0);
        }
    }
    return sum;
}

double traced_flops(const kernel *k) {
    if (k->dim_vars) return -1;
    arena a;
    arena_open(&a, &k->ctx->heap);
    cleanup undo;
    cleanup_push(&k->ctx->heap, &undo, arena_cleanup, &a);
    counter c = {k, arena_zeroed(&a, (k->exprs + 1) * sizeof *c.seen), 0};
    double sum = block_flops(&c, k->root);
    cleanup_run(&k->ctx->heap, &undo);
    return sum;
}

static void count_flops(qn_ctx *qn, const run_plan *p) {
    for (uint32_t i = 0; i < p->launches; i++) {
        launch *l = &p->launch[i];
        l->flops = -1;
        if (!launch_is_kernel(l)) continue;
        kernel *k = ir_parse(qn, program_text(qn, l->id));
        if (!k) heap_unwind(&qn->heap);
        cleanup c;
        cleanup_push(&qn->heap, &c, ir_cleanup, k);
        l->flops = traced_flops(k);
        cleanup_run(&qn->heap, &c);
    }
}

void traced_plan(qn_ctx *qn, const run_plan *p, uint32_t nodes, double start) {
    count_flops(qn, p);
    trace_span(qn, "plan", "plan", start);
    trace_number(qn, "nodes", nodes);
    trace_number(qn, "launches", p->launches);
    trace_number(qn, "levels", p->levels);
    trace_done(qn);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The values that the first set reads, or writes; what is no value by its bytes. */
static void describe_values(const qn_ctx *qn, const run_plan *p, const launch *l, bool written,
                            char out[400]) {
    size_t n = 0;
    out[0] = 0;
    for (int a = 0; a < l->program->args && n < 300; a++) {
        const slot *s = &p->slot[l->set[0].slot[a]];
        if (l->set[0].writes[a] != written) continue;
        if (n) n += (size_t)snprintf(out + n, 400 - n, ", ");
        if (s->dtype < DTYPE_COUNT)
            traced_shape(qn, s->dtype, s->shape, out + n, 400 - n);
        else
            snprintf(out + n, 400 - n, "%zu bytes", s->size);
        n += strlen(out + n);
    }
}

static int64_t bytes_of(const launch *l, bool written) {
    size_t bytes = 0;
    const dev_slice *slice = l->slice;
    for (uint32_t s = 0; s < l->sets; s++)
        for (int a = 0; a < l->program->args; a++, slice++)
            if (l->set[s].writes[a] == written) bytes += slice->size;
    return (int64_t)bytes;
}

void traced_launch(qn_ctx *qn, const run_plan *p, const launch *l, double start, double used) {
    char text[400];
    double processors = clock_processors() - used, seconds = clock_seconds() - start;
    trace_span(qn, l->call ? "routine" : l->loop ? "loop" : "kernel", l->program->name, start);
    describe_values(qn, p, l, false, text);
    trace_text(qn, "reads", text);
    describe_values(qn, p, l, true, text);
    trace_text(qn, "writes", text);
    trace_number(qn, "bytes_read", bytes_of(l, false));
    trace_number(qn, "bytes_written", bytes_of(l, true));
    if (l->flops >= 0) trace_real(qn, "flops", l->flops * l->sets);
    if (l->sets > 1) trace_number(qn, "sets", l->sets);
    trace_real(qn, "processors", seconds > 0 ? processors / seconds : 0);
    trace_done(qn);
}

void traced_memory(qn_ctx *qn) {
    const run_state *r = qn->run;
    trace_counters(qn, "memory");
    trace_number(qn, "values", (int64_t)r->buffers.bytes);
    trace_number(qn, "temporaries", (int64_t)r->arena_size);
    trace_number(qn, "idle", (int64_t)r->buffers.idle);
    trace_number(qn, "host", (int64_t)qn->heap.bytes);
    trace_done(qn);
}

void traced_copy(qn_ctx *qn, const char *what, size_t bytes, double start) {
    trace_span(qn, "copy", what, start);
    trace_number(qn, "bytes", (int64_t)bytes);
    trace_done(qn);
}
