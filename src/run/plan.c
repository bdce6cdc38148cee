/* plan.c - running a plan: sizes, slices, launches.
 *
 * Sizes are computed once, or when a dimension variable's binding changed and the plan depends
 * on one, and so is what launches are given of sizes and temporaries. A run then fills in where
 * leaves and outputs lie and what the request's constants are, and launches. Nothing is allocated
 * but the outputs, and those come from free lists once the loop is warm. */
#include "run/run.h"

QN_NORETURN void raise_unbound(qn_ctx *qn, sym size) {
    const char *name = shape_unbound(qn->graph, size);
    raise_error(qn, QN_ESHAPE, "a size depends on %s, which is not bound: see qn_bind",
                name ? name : "a dimension variable");
}

/* A kernel may go over a variable's range though no value has a size of it: a sum, say. */
static void check_variables(qn_ctx *qn, const run_plan *p) {
    const graph *g = qn->graph;
    for (uint32_t i = 0; i < p->launches; i++)
        for (uint32_t s = 0; s < p->launch[i].sets; s++)
            for (int v = 0; v < p->launch[i].program->vars; v++) {
                int var = p->launch[i].set[s].var[v];
                if (var > LOWER_LENGTH && g->bound[var] < 0) raise_unbound(qn, g->var[var]);
            }
}

static void find_sizes(qn_ctx *qn, run_plan *p) {
    graph *g = qn->graph;
    check_variables(qn, p);
    for (uint32_t i = 0; i < p->slots; i++) {
        slot *s = &p->slot[i];
        int64_t n, bytes;
        if (shape_unbound(g, s->count) ||
            !sym_eval(g->syms, s->count, (int)g->vars, g->var, g->bound, &n) || n < 0)
            raise_unbound(qn, s->count);
        if (__builtin_mul_overflow(n, (int64_t)s->width, &bytes))
            raise_error(qn, QN_ERANGE, "a tensor of %lld elements is too large", (long long)n);
        s->size = (size_t)bytes;
    }
    calls_find_sizes(qn, p);
    loops_find_sizes(qn, p);
}

/* Where pieces begin. */
static void find_offsets(const qn_ctx *qn, const run_plan *p) {
    const graph *g = qn->graph;
    for (uint32_t i = 0; i < p->launches; i++)
        for (uint32_t s = 0; s < p->launch[i].sets; s++) {
            launch_set *set = &p->launch[i].set[s];
            int64_t base = 0;
            if (!set->piece) continue;
            sym_eval(g->syms, set->base, (int)g->vars, g->var, g->bound, &base);
            set->offset = (size_t)base * p->slot[set->slot[0]].width;
        }
}

/* QN_DEBUG=m: what the temporaries share an arena by, and what lies elsewhere. */
static void log_memory(qn_ctx *qn, const run_plan *p, uint32_t n, const uint32_t *which) {
    size_t bytes[SLOT_PACK + 1] = {0};
    for (uint32_t i = 0; i < p->slots; i++) bytes[p->slot[i].kind] += p->slot[i].size;
    log_line(qn,
             "m plan of %u launches in %u levels: %zu bytes of leaves, %zu of outputs, %zu packed",
             p->launches, p->levels, bytes[SLOT_LEAF], bytes[SLOT_OUTPUT], bytes[SLOT_PACK]);
    log_line(qn, "m %u temporaries of %zu bytes in an arena of %lld", n, bytes[SLOT_TEMP],
             (long long)p->arena_size);
    for (uint32_t i = 0; i < n; i++) {
        const slot *s = &p->slot[which[i]];
        log_line(qn, "m   %zu bytes at %zu, levels %u to %u", s->size, s->offset, s->first,
                 s->last);
    }
    for (uint32_t i = 0; i < p->donations; i++)
        log_line(qn, "m   output %u may lie where leaf %u does", p->donation[i].output,
                 p->donation[i].leaf);
}

/* Lay the temporaries out for the sizes at hand. */
static void lay_out(qn_ctx *qn, run_plan *p) {
    arena *a = &qn->run->laying;
    if (!a->h) arena_open(a, &qn->heap);
    arena_reset(a);
    memory_block *block = arena_alloc(a, (p->slots + 1) * sizeof *block);
    uint32_t *which = arena_alloc(a, (p->slots + 1) * sizeof *which), n = 0;
    for (uint32_t i = 0; i < p->slots; i++) {
        const slot *s = &p->slot[i];
        if (s->kind != SLOT_TEMP || s->first == UINT32_MAX) continue;
        block[n] = (memory_block){s->first, s->last, (int64_t)s->size, 0};
        which[n++] = i;
    }
    uint64_t steps = 0;
    p->arena_size = memory_layout(a, n, block, &steps);
    for (uint32_t i = 0; i < n; i++) p->slot[which[i]].offset = (size_t)block[i].offset;
    if (debug_on(qn, 'm')) log_memory(qn, p, n, which);
}

void plan_measure(qn_ctx *qn, run_plan *p) {
    if (p->bound && !(p->dynamic && p->bound != qn->graph->binding + 1)) return;
    find_sizes(qn, p);
    find_offsets(qn, p);
    lay_out(qn, p);
    p->bound = qn->graph->binding + 1;
}

static void need_arena(qn_ctx *qn, size_t size) {
    run_state *r = qn->run;
    if (r->arena_memory && r->arena_size >= size) return;
    if (r->arena_memory) r->dev->free(r->dev_state, r->arena_memory, r->arena_size);
    r->arena_memory = NULL;
    r->arena_size = 0;
    size_t held = size < 64 ? 64 : (size + 63) / 64 * 64;
    void *m = r->dev->alloc(r->dev_state, held);
    for (bool more = true; !m && more;) {
        more = kept_give_up(qn);
        buffers_trim(qn);
        m = r->dev->alloc(r->dev_state, held);
    }
    if (!m)
        raise_error(qn, QN_ENOMEM, "the device has no memory for %zu bytes of temporaries", size);
    r->arena_memory = m;
    r->arena_size = held;
}

/* What does not change from run to run, as far as the next binding or arena. */
static void fill(const qn_ctx *qn, const run_plan *p, const launch *l) {
    const graph *g = qn->graph;
    dev_slice *slice = l->slice;
    int64_t *value = l->value;
    for (uint32_t s = 0; s < l->sets; s++) {
        const launch_set *set = &l->set[s];
        l->checked[s].is = false;
        for (int a = 0; a < l->program->args; a++) {
            const slot *from = &p->slot[set->slot[a]];
            *slice = (dev_slice){NULL, 0, from->size};
            if (from->kind == SLOT_TEMP)
                *slice = (dev_slice){qn->run->arena_memory, p->base + from->offset, from->size};
            if (a == 0 && set->piece) {
                slice->offset += set->offset;
                slice->size -= set->offset;
            }
            slice++;
        }
        for (int v = 0; v < l->program->vars; v++) {
            int64_t n = 0;
            if (set->var[v] == LOWER_LENGTH)
                sym_eval(g->syms, set->length, (int)g->vars, g->var, g->bound, &n);
            else if (!LOWER_IS_SLOT(set->var[v]))
                n = g->bound[set->var[v]];
            *value++ = n;
        }
    }
}

void plan_fill(const qn_ctx *qn, run_plan *p) {
    if (p->memory == qn->run->arena_memory && p->filled == qn->graph->binding + 1 &&
        p->filled_base == p->base)
        return;
    for (uint32_t i = 0; i < p->launches; i++) fill(qn, p, &p->launch[i]);
    for (uint32_t i = 0; i < p->movings; i++) p->moving[i].within = p->moving[i].slice->offset;
    p->memory = qn->run->arena_memory;
    p->filled_base = p->base;
    p->filled = qn->graph->binding + 1;
}

/* And what does: where leaves, outputs and packings lie, and the constants of the request. */
static void move(const qn_ctx *qn, const run_plan *p, const int64_t *given, const uint32_t *leaf,
                 const uint32_t *out) {
    for (uint32_t i = 0; i < p->movings; i++) {
        const moving_slice *m = &p->moving[i];
        uint32_t b = m->kind == SLOT_LEAF   ? leaf[m->number]
                     : m->kind == SLOT_PACK ? p->packing[m->number].buffer
                                            : out[m->number];
        m->slice->memory = buffer_at(qn, b)->memory;
    }
    for (uint32_t i = 0; i < p->lifteds; i++) {
        const moving_value *v = &p->lifted[i];
        if (*v->value == given[v->number]) continue;
        *v->value = given[v->number];
        v->checked->is = false;
    }
}

static void check_leaves(qn_ctx *qn, const run_plan *p, const uint32_t *leaf) {
    for (uint32_t i = 0; i < p->leaves; i++) {
        const slot *s = &p->slot[p->leaf_slot[i]];
        buffer *b = buffer_at(qn, leaf[i]);
        b->used = qn->run->requests;
        if (b->keeper) kept_use(qn, leaf[i]);
        if (b->size != s->size)
            raise_error(qn, QN_ESHAPE,
                        "a tensor of %zu bytes was fed where the bound dimensions need %zu",
                        b->size, s->size);
    }
}

/* Pack what is not packed yet, or was when the leaf held another value. */
static void pack_leaves(qn_ctx *qn, run_plan *p, const uint32_t *leaf) {
    run_state *r = qn->run;
    for (uint32_t i = 0; i < p->packings; i++) {
        packing *x = &p->packing[i];
        const uint64_t content = buffer_at(qn, leaf[x->leaf])->content;
        if (x->buffer && x->content == content) continue;
        if (!x->buffer) x->buffer = buffer_new(qn, x->size);
        x->content = 0;
        const buffer *from = buffer_at(qn, leaf[x->leaf]), *to = buffer_at(qn, x->buffer);
        const dev_slice slice[2] = {{to->memory, 0, x->size}, {from->memory, 0, from->size}};
        const dev_set set = {.arg = slice};
        double start = trace_on(qn) ? clock_seconds() : 0;
        qn_code code = r->dev->launch(r->dev_state, x->program, 1, &set);
        if (code) raise_error(qn, code, "kernel %s failed", x->program->name);
        x->content = content;
        r->stats.kernels++;
        if (!trace_on(qn)) continue;
        trace_span(qn, "kernel", x->program->name, start);
        trace_number(qn, "bytes_read", (int64_t)from->size);
        trace_number(qn, "bytes_written", (int64_t)x->size);
        trace_done(qn);
    }
}

void plan_prepare(qn_ctx *qn, run_plan *p, const uint32_t *leaf) {
    if (p->renewed != qn->run->renewed) plan_renew(qn, p);
    plan_measure(qn, p);
    pack_leaves(qn, p, leaf);
}

static qn_code run_alone(qn_ctx *qn, const launch *l) {
    const run_state *r = qn->run;
    if (l->call) return call_run(qn, l);
    if (l->loop) return loop_run(qn, l);
    return r->dev->launch(r->dev_state, l->program, (int)l->sets, l->ready);
}

/* QN_DEBUG=x and QN_TRACE: each launch alone. */
static qn_code run_timed(qn_ctx *qn, const run_plan *p, launch *l) {
    double start = clock_seconds(), used = clock_processors();
    qn_code code = run_alone(qn, l);
    l->seconds += clock_seconds() - start;
    l->processors += clock_processors() - used;
    l->runs++;
    if (trace_on(qn)) traced_launch(qn, p, l, start, used);
    return code;
}

/* Tuning online: launches that ran side by side have equal parts of the time. */
static void count_level(qn_ctx *qn, const run_plan *p, uint32_t from, uint32_t to, double start) {
    double each = (clock_seconds() - start) / (to - from);
    for (uint32_t i = from; i < to; i++) {
        if (!launch_is_kernel(&p->launch[i])) continue;
        program_use *u = program_use_of(qn, p->launch[i].id);
        u->seconds += each;
        u->calls++;
    }
}

qn_code plan_launch(qn_ctx *qn, run_plan *p) {
    run_state *r = qn->run;
    bool timed = r->timing || trace_on(qn) || debug_on(qn, 'x'), counted = tunes_online(qn);
    for (uint32_t w = 0, i = 0; w < p->levels; w++) {
        qn_code code = QN_OK;
        uint32_t from = i;
        double start = counted ? clock_seconds() : 0;
        const dev_launch *l = &p->side[from];
        i = p->level[w];
        for (uint32_t k = from; timed && k < i && !code; k++)
            code = run_timed(qn, p, &p->launch[k]);
        if (!timed && i - from > 1)
            code = r->dev->launch_many(r->dev_state, (int)(i - from), l);
        else if (!timed)
            code = run_alone(qn, &p->launch[from]);
        if (code) return fail(qn, code, "kernel %s failed", l->program->name);
        if (counted) count_level(qn, p, from, i, start);
    }
    r->stats.kernels += p->launches;
    r->stats.levels += p->levels;
    return QN_OK;
}

static QN_COLD void trace_run(qn_ctx *qn, const run_plan *p, double start) {
    trace_span(qn, "run", "run", start);
    trace_number(qn, "launches", p->launches);
    trace_number(qn, "levels", p->levels);
    trace_number(qn, "temporaries", p->arena_size);
    trace_done(qn);
    traced_memory(qn);
    trace_settle(qn);
}

/* What outputs begin as, where they are not the same memory. */
static void copy_rests(const qn_ctx *qn, const run_plan *p, const uint32_t *leaf,
                       const uint32_t *out) {
    for (uint32_t i = 0; i < p->rests; i++) {
        const donation *r = &p->rest[i];
        if (out[r->output] == leaf[r->leaf]) continue;
        memcpy(buffer_at(qn, out[r->output])->memory, buffer_at(qn, leaf[r->leaf])->memory,
               p->slot[p->output_slot[r->output]].size);
    }
}

/* Everything that can fail comes before the first launch, for that may replace what it reads. */
void plan_run(qn_ctx *qn, run_plan *p, const int64_t *given, const uint32_t *leaf,
              const uint32_t *over, uint32_t *out) {
    run_state *r = qn->run;
    double start = clock_seconds();
    if (p->renewed != r->renewed) plan_renew(qn, p);
    plan_measure(qn, p);
    check_leaves(qn, p, leaf);
    pack_leaves(qn, p, leaf);
    need_arena(qn, (size_t)p->arena_size);
    plan_fill(qn, p);
    calls_prepare(qn, p);
    r->stats.planned_peak_bytes = (uint64_t)p->arena_size;
    buffer_list made = {qn, 0, out};
    cleanup c;
    cleanup_push(&qn->heap, &c, buffer_list_cleanup, &made);
    for (uint32_t i = 0; i < p->outputs; i++) {
        bool replaces = over && over[i] && plan_donates(p, i, over[i] - 1) &&
                        !buffer_at(qn, leaf[over[i] - 1])->give_back;
        if (replaces) buffer_replace(qn, leaf[over[i] - 1]);
        r->stats.replaced += replaces;
        out[i] = replaces ? leaf[over[i] - 1] : buffer_new(qn, p->slot[p->output_slot[i]].size);
        made.n = i + 1;
    }
    move(qn, p, given, leaf, out);
    copy_rests(qn, p, leaf, out);
    if (plan_launch(qn, p)) heap_unwind(&qn->heap);
    cleanup_drop(&qn->heap, &c);
    r->stats.run_seconds += clock_seconds() - start;
    if (trace_on(qn)) trace_run(qn, p, start);
    if (tunes_online(qn)) run_hooks.ran(qn, p);
}

/* QN_DEBUG=x, when the plan goes: each launch's mean time, processor time and share, in the order
 * they run. On a machine shared with others the processor time says more. */
void plan_log_times(qn_ctx *qn, const run_plan *p) {
    double total = 0, used = 0;
    for (uint32_t i = 0; i < p->launches; i++) {
        total += p->launch[i].seconds;
        used += p->launch[i].processors;
    }
    for (uint32_t i = 0; i < p->launches; i++) {
        const launch *l = &p->launch[i];
        if (!l->runs) continue;
        double each = l->seconds / (double)l->runs, cpu = l->processors / (double)l->runs;
        log_line(qn, "x %9.2f us %9.2f cpu %5.1f%% %5llu runs %3u sets  %s", each * 1e6, cpu * 1e6,
                 used > 0 ? 100 * l->processors / used : 0, (unsigned long long)l->runs, l->sets,
                 l->program->name);
    }
    if (p->launches && p->launch[0].runs)
        log_line(qn, "x plan of %u launches in %u levels: %.3f ms a run, %.3f of processors",
                 p->launches, p->levels, total / (double)p->launch[0].runs * 1e3,
                 used / (double)p->launch[0].runs * 1e3);
}
