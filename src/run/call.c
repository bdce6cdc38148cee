/* call.c - launches of routines: what cannot be a kernel is computed by the host.
 *
 * To a plan a call is a launch like others, alone in its level: its results, sources and scratch
 * are slots, so running it allocates nothing. The routine gets sizes as numbers and pointers into
 * the device's memory, where that is the host's. On other devices sources are copied to a staging
 * area and results back from it; scratch lies there, too. */
#include "run/run.h"

enum { STAGE_ALIGN = 64 };

static size_t aligned(size_t size) {
    return (size + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
}

call_launch *call_make(graph *g, arena *a, const fuse_kernel *fk) {
    const graph_node *x = node_at(g, fk->root);
    call_launch *c = arena_zeroed(a, sizeof *c);
    c->what = node_call(g, x);
    c->results = (int)fk->outs;
    c->sources = x->sources;
    for (int i = 0; i < c->results + c->sources; i++) {
        bool result = i < c->results;
        const graph_node *y = node_at(g, result ? fk->out[i] : x->src[i - c->results]);
        if (result) c->result[i] = (uint8_t)node_call(g, y).result;
        c->shape[i] = y->shape;
        c->dtype[i] = y->dtype;
    }
    c->program.name = routine_name(g, &c->what);
    c->program.args = c->results + c->sources + 1;
    return c;
}

static void size_array(qn_ctx *qn, tuple_id shape, int dtype, routine_array *out) {
    graph *g = qn->graph;
    const int64_t *dim = graph_tuple_get(g, shape, &out->rank);
    out->dtype = (qn_dtype)dtype;
    for (int i = 0; i < out->rank; i++) {
        if (shape_unbound(g, (sym)dim[i])) raise_unbound(qn, (sym)dim[i]);
        sym_eval(g->syms, (sym)dim[i], (int)g->vars, g->var, g->bound, &out->dim[i]);
    }
}

/* All results of a kernel of the user's are given room, also those that nobody wants. */
static void find_custom(qn_ctx *qn, routine_call *c) {
    if (c->what.routine != ROUTINE_CUSTOM) return;
    const custom_kernel *k = custom_of(qn->graph, &c->what);
    int leading = (int)c->what.attr[CUSTOM_LEADING];
    c->custom = &k->o;
    for (int i = 0; i < k->o.n_out; i++) {
        routine_array item, *out = &c->result[i];
        if (c->wanted >> i & 1) continue;
        size_array(qn, custom_item(qn->graph, &c->what, i), k->o.out_dtypes[i], &item);
        *out = (routine_array){.dtype = item.dtype, .rank = leading + item.rank};
        for (int j = 0; j < leading; j++) out->dim[j] = c->source[0].dim[j];
        for (int j = 0; j < item.rank; j++) out->dim[leading + j] = item.dim[j];
    }
}

/* It is looked for when a call has use of it first. */
const lapack *call_lapack(qn_ctx *qn) {
    run_state *r = qn->run;
    const char *asked = qn->knob[KNOB_LAPACK].text;
    if (r->lapack) return r->lapack;
    r->lapack = lapack_open(&qn->heap, asked);
    bool wanted = *asked && strcmp(asked, "no");
    if (wanted && !lapack_here(r->lapack))
        log_line(qn, "QN_LAPACK: %s; linear algebra is computed without it",
                 lapack_told(r->lapack));
    return r->lapack;
}

/* What the host computes it with; its sizes are known. */
static void find_means(qn_ctx *qn, routine_call *c) {
    const run_state *r = qn->run;
    c->share = r->dev->share;
    c->state = r->dev_state;
    c->threads = c->share ? (int)r->limits.threads : 1;
    if (!lapack_suits(c)) return;
    const lapack *l = call_lapack(qn);
    if (lapack_here(l)) c->lapack = l;
}

void calls_find_sizes(qn_ctx *qn, run_plan *p) {
    const run_state *r = qn->run;
    p->staging = 0;
    for (uint32_t i = 0; i < p->launches; i++) {
        call_launch *c = p->launch[i].call;
        if (!c) continue;
        const uint32_t *at = p->launch[i].set->slot;
        routine_call *now = &c->now;
        *now = (routine_call){.what = c->what, .sources = c->sources};
        for (int k = 0; k < c->results + c->sources; k++)
            size_array(qn, c->shape[k], c->dtype[k],
                       k < c->results ? &now->result[c->result[k]] : &now->source[k - c->results]);
        for (int k = 0; k < c->results; k++) now->wanted |= 1u << c->result[k];
        find_custom(qn, now);
        find_means(qn, now);
        size_t scratch = routine_scratch(now), staged = scratch;
        if (r->dev->host_memory) {
            p->slot[at[c->results + c->sources]].size = scratch;
            continue;
        }
        for (int k = 0; k < c->results + c->sources; k++) staged += aligned(p->slot[at[k]].size);
        if (staged > p->staging) p->staging = staged;
    }
}

void calls_prepare(qn_ctx *qn, const run_plan *p) {
    run_state *r = qn->run;
    if (r->staging_size >= p->staging) return;
    heap_free(&qn->heap, r->staging, r->staging_size);
    r->staging = NULL;
    r->staging_size = 0;
    r->staging = heap_alloc(&qn->heap, p->staging);
    r->staging_size = p->staging;
}

static void place(call_launch *c, int k, void *data) {
    if (k < c->results)
        c->now.result[c->result[k]].data = data;
    else if (k < c->results + c->sources)
        c->now.source[k - c->results].data = data;
    else
        c->now.scratch = data;
}

static qn_code run_staged(qn_ctx *qn, const launch *l) {
    const run_state *r = qn->run;
    call_launch *c = l->call;
    const dev_table *dev = r->dev;
    char *at = r->staging;
    qn_code code = QN_OK;
    for (int k = 0; k < c->program.args && !code; k++) {
        const dev_slice *s = &l->slice[k];
        bool source = k >= c->results && k < c->results + c->sources;
        place(c, k, at);
        if (source) code = dev->copy_out(r->dev_state, s->memory, s->offset, at, s->size);
        if (k < c->results + c->sources) at += aligned(s->size);
    }
    if (code) return code;
    routine_run(&c->now);
    for (int k = 0; k < c->results && !code; k++) {
        const dev_slice *s = &l->slice[k];
        code = dev->copy_in(r->dev_state, s->memory, s->offset, c->now.result[c->result[k]].data,
                            s->size);
    }
    return code;
}

qn_code call_run(qn_ctx *qn, const launch *l) {
    const dev_table *dev = qn->run->dev;
    if (dev->check) {
        qn_code code = dev->check(qn->run->dev_state, l->program, l->slice, l->set->writes);
        if (code) return code;
    }
    if (!dev->executes) return QN_OK;
    if (!dev->host_memory) return run_staged(qn, l);
    for (int k = 0; k < l->program->args; k++)
        place(l->call, k, (char *)l->slice[k].memory + l->slice[k].offset);
    routine_run(&l->call->now);
    return QN_OK;
}

static routine_array array_of(const dev_array *a) {
    routine_array out = {.dtype = a->dtype, .rank = a->rank, .data = a->data};
    for (int i = 0; i < a->rank; i++) out.dim[i] = a->dim[i];
    return out;
}

void call_eval(qn_ctx *qn, const call_attr *what, int sources, const dev_array *source,
               const dev_array *out) {
    routine_call c = {.what = *what, .sources = sources, .wanted = 1u << what->result};
    c.result[what->result] = array_of(out);
    for (int i = 0; i < sources; i++) c.source[i] = array_of(&source[i]);
    find_custom(qn, &c);
    find_means(qn, &c);
    size_t size = routine_scratch(&c);
    c.scratch = heap_alloc(&qn->heap, size);
    routine_run(&c);
    heap_free(&qn->heap, c.scratch, size);
}
