/* build.c - a plan for a request: fuse, lower, compile, and what each launch works on. */
#include "graph/loop/loop.h"
#include "run/run.h"

/* A leaf in panels, and the slot they are in. */
typedef struct panels {
    uint32_t place, slot;
    prepack pack;
} panels;

typedef struct builder {
    qn_ctx *qn;
    graph *g;
    run_plan *p;
    const fusion *f;
    const loop_body *body; /* by place in the order: a loop's */
    uint32_t *slot_of;     /* by place in the order: 1 + slot */
    compile_terms terms;
    arena *scratch;
    panels *panels;
    uint32_t packs, pack_cap;
} builder;

fuse_terms run_fuse_terms(const qn_ctx *qn) {
    const machine *l = &qn->run->limits;
    fuse_terms t = {.everything_stored = !qn->knob[KNOB_FUSE].number, .machine = l};
    if (l->members < 2) t.workers = l->threads ? processors_there() : 1;
    return t;
}

/* A program's number; its reference is the plan's. */
static uint32_t want(builder *b, kernel *k) {
    uint32_t id = programs_want(b->qn, k);
    return b->p->program[b->p->programs++] = id;
}

static uint32_t slot_for(builder *b, node_id n) {
    return b->slot_of[b->f->pos[n] - 1] - 1;
}

static slot *add_slot(builder *b, node_id n, slot_kind kind, uint32_t number) {
    const graph_node *x = node_at(b->g, n);
    slot *s = &b->p->slot[b->p->slots++];
    *s = (slot){.kind = (uint8_t)kind,
                .number = number,
                .count = shape_numel(b->g, x->shape),
                .width = (uint32_t)qn_dtype_size((qn_dtype)x->dtype),
                .shape = x->shape,
                .dtype = x->dtype,
                .first = UINT32_MAX};
    if (!sym_is_const(b->g->syms, s->count, NULL)) b->p->dynamic = true;
    b->slot_of[b->f->pos[n] - 1] = b->p->slots;
    return s;
}

/* Leaves in the order of the key, then outputs, then everything else a kernel stores. */
static void make_slots(builder *b, uint32_t roots, const node_id *root) {
    run_plan *p = b->p;
    uint32_t stored = 0;
    for (uint32_t i = 0; i < b->f->nodes; i++) stored += b->f->stored[i];
    uint32_t most = stored + (SPLIT_PARTS + 1) * b->f->kernels;
    p->slot = arena_zeroed(&p->arena, (most + 1) * sizeof *p->slot);
    p->leaf_slot = arena_alloc(&p->arena, (b->f->nodes + 1) * sizeof *p->leaf_slot);
    p->output_slot = arena_alloc(&p->arena, (roots + 1) * sizeof *p->output_slot);
    for (uint32_t i = 0; i < b->f->nodes; i++) {
        if (!node_is_memory(node_at(b->g, b->f->order[i]))) continue;
        add_slot(b, b->f->order[i], SLOT_LEAF, p->leaves);
        p->leaf_slot[p->leaves++] = p->slots - 1;
    }
    for (uint32_t i = 0; i < roots; i++) {
        add_slot(b, root[i], SLOT_OUTPUT, p->outputs);
        p->output_slot[p->outputs++] = p->slots - 1;
    }
    for (uint32_t i = 0; i < b->f->nodes; i++)
        if (b->f->stored[i] && !b->slot_of[i]) add_slot(b, b->f->order[i], SLOT_TEMP, 0);
}

/* Temporaries that the first of two stages writes and the second reads. */
static void add_part_slots(builder *b, int n, const split_part *part) {
    for (int i = 0; i < n; i++)
        b->p->slot[b->p->slots++] = (slot){.kind = SLOT_TEMP,
                                           .count = sym_const(b->g->syms, part[i].size),
                                           .width = (uint32_t)qn_dtype_size(part[i].dtype),
                                           .dtype = DTYPE_COUNT,
                                           .first = UINT32_MAX};
}

/* Which arguments are stored to. A first stage has the kernel's outputs, but leaves them alone. */
static void find_writes(kernel *k, bool *writes) {
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *m = ir_m(k, t[i].mem);
        if (!t[i].load && m->scope == MEM_ARG) writes[m->arg] = true;
    }
}

/* Slots, from number `from` on. */
typedef struct slot_range {
    uint32_t from, count;
} slot_range;

/* A tree as a launch with one set. Behind the lowered kernel's arguments come more slots. */
static void make_launch(builder *b, const fuse_kernel *fk, const lowered *low, kernel *k,
                        slot_range more, launch *out) {
    arena *a = &b->p->arena;
    uint32_t args = low->args + more.count;
    *out = (launch){.sets = 1};
    launch_set *s = out->set = arena_zeroed(a, sizeof *s);
    s->slot = arena_alloc(a, (args + 1) * sizeof *s->slot);
    for (uint32_t i = 0; i < low->args; i++) s->slot[i] = slot_for(b, low->arg[i]);
    for (uint32_t i = 0; i < more.count; i++) s->slot[low->args + i] = more.from + i;
    s->writes = arena_zeroed(a, args + 1);
    find_writes(k, s->writes);
    s->var = arena_alloc(a, ((size_t)low->vars + low->params + 1) * sizeof *s->var);
    for (int i = 0; i < low->vars; i++) s->var[i] = low->var[i];
    for (uint32_t i = 0; i < low->params; i++)
        s->var[low->vars + (int)i] = LOWER_SLOT(low->param[i]);
    s->length = shape_numel(b->g, node_at(b->g, fk->root)->shape);
    if (!fk->piece.into) return;
    s->piece = true;
    s->base = low->base[0];
    if (!sym_is_const(b->g->syms, s->base, NULL)) b->p->dynamic = true;
}

/* The launch of a loop: its results, the values of its list, and scratch. */
static void make_loop_launch(builder *b, const fuse_kernel *fk, launch *out) {
    arena *a = &b->p->arena;
    node_id loop = node_at(b->g, fk->root)->src[0], *in;
    loop_launch *c = loop_make(b->g, a, fk, &b->body[b->f->pos[loop] - 1]);
    *out = (launch){.loop = c, .program = &c->program, .sets = 1};
    launch_set *s = out->set = arena_zeroed(a, sizeof *s);
    s->slot = arena_alloc(a, (size_t)c->program.args * sizeof *s->slot);
    s->writes = arena_zeroed(a, (size_t)c->program.args);
    uint32_t n = 0, inputs = loop_inputs(b->g, b->scratch, fk, &in);
    for (; n < c->results; n++) {
        s->slot[n] = slot_for(b, fk->out[n]);
        s->writes[n] = true;
    }
    for (uint32_t i = 0; i < inputs; i++) s->slot[n++] = slot_for(b, in[i]);
    s->slot[n] = b->p->slots;
    s->writes[n] = true;
    s->length = SYM_ONE;
    b->p->dynamic |= c->body->dynamic || !sym_is_const(b->g->syms, c->attr.count, NULL);
    b->p->slot[b->p->slots++] = (slot){.kind = SLOT_TEMP,
                                       .count = SYM_ZERO,
                                       .width = 1,
                                       .dtype = DTYPE_COUNT,
                                       .first = UINT32_MAX};
}

/* The launch of a call: its results, its sources, and scratch whose size is found with theirs. */
static void make_call_launch(builder *b, const fuse_kernel *fk, launch *out) {
    arena *a = &b->p->arena;
    call_launch *c = call_make(b->g, a, fk);
    const graph_node *x = node_at(b->g, fk->root);
    *out = (launch){.call = c, .program = &c->program, .sets = 1};
    launch_set *s = out->set = arena_zeroed(a, sizeof *s);
    s->slot = arena_alloc(a, (size_t)c->program.args * sizeof *s->slot);
    s->writes = arena_zeroed(a, (size_t)c->program.args);
    int n = 0;
    for (; n < c->results; n++) {
        s->slot[n] = slot_for(b, fk->out[n]);
        s->writes[n] = true;
    }
    for (int i = 0; i < c->sources; i++) s->slot[n++] = slot_for(b, x->src[i]);
    s->slot[n] = b->p->slots;
    s->writes[n] = true;
    s->length = SYM_ONE;
    b->p->slot[b->p->slots++] = (slot){.kind = SLOT_TEMP,
                                       .count = SYM_ZERO,
                                       .width = 1,
                                       .dtype = DTYPE_COUNT,
                                       .first = UINT32_MAX};
}

static uint32_t give(builder *b, kernel **k) {
    kernel *given = *k;
    *k = NULL;
    return want(b, given);
}

/* The launch that makes panels of a leaf, which live as long as the run has use for them. */
static void make_packer(builder *b, uint32_t leaf, uint32_t at, launch *out) {
    arena *a = &b->p->arena;
    *out = (launch){.sets = 1};
    launch_set *s = out->set = arena_zeroed(a, sizeof *s);
    s->slot = arena_alloc(a, 2 * sizeof *s->slot);
    s->slot[0] = at;
    s->slot[1] = leaf;
    s->writes = arena_zeroed(a, 2);
    s->writes[0] = true;
    s->var = arena_alloc(a, sizeof *s->var);
    s->length = b->p->slot[at].count;
}

/* The slot of the panels that the kernel reads a weight from: those that another one reads, too;
 * new ones that are kept from run to run; or new ones that a launch makes, the next in out. */
static uint32_t add_packing(builder *b, kernel_forms *f, launch *out, uint32_t *id, uint32_t *n) {
    run_plan *p = b->p;
    node_id weight = f->low.arg[f->packed];
    uint32_t place = b->f->pos[weight] - 1, leaf = slot_for(b, weight), at = p->slots;
    for (uint32_t i = 0; i < b->packs; i++)
        if (b->panels[i].place == place && prepack_alike(&b->panels[i].pack, &f->pack))
            return b->panels[i].slot;
    bool lasts = b->terms.lasting && b->terms.lasting[place];
    p->slot[p->slots++] = (slot){.kind = lasts ? SLOT_PACK : SLOT_TEMP,
                                 .number = p->packings,
                                 .count = sym_const(b->g->syms, f->pack.size),
                                 .width = p->slot[leaf].width,
                                 .dtype = DTYPE_COUNT,
                                 .first = UINT32_MAX};
    b->panels = arena_grow(b->scratch, b->panels, &b->pack_cap, b->packs + 1, sizeof *b->panels);
    b->panels[b->packs++] = (panels){place, at, f->pack};
    uint32_t packer = give(b, &f->packer);
    if (lasts) {
        p->packing[p->packings++] = (packing){.leaf = p->slot[leaf].number,
                                              .size = (size_t)f->pack.size * p->slot[leaf].width,
                                              .id = packer};
    } else {
        id[*n] = packer;
        make_packer(b, leaf, at, &out[(*n)++]);
    }
    return at;
}

/* Which outputs of the kernel begin as copies of leaves. */
static void find_rests(builder *b, const kernel_forms *f) {
    run_plan *p = b->p;
    int most = (int)f->low.args;
    inplace_pair *pair = arena_alloc(b->scratch, (size_t)most * sizeof *pair);
    int n = rest_pairs(f->low.k, most, pair);
    for (int i = 0; i < n; i++) {
        const slot *to = &p->slot[slot_for(b, f->low.arg[pair[i].out])];
        const slot *from = &p->slot[slot_for(b, f->low.arg[pair[i].in])];
        p->rest[p->rests++] = (donation){to->number, from->number};
    }
}

/* The launches of one kernel of the fusion, in their order, and their programs' numbers. */
static uint32_t add_launches(builder *b, const fuse_kernel *fk, launch *out, uint32_t *id) {
    kernel_forms kept = {.low = {0}}, *f = &kept;
    qn_ctx *qn = b->qn;
    cleanup c;
    if (node_at(b->g, fk->root)->op == OP_CALL && !fk->piece.into)
        return make_call_launch(b, fk, out), 1;
    if (node_at(b->g, fk->root)->op == OP_RESULT && !fk->piece.into)
        return make_loop_launch(b, fk, out), 1;
    cleanup_push(&qn->heap, &c, kernel_forms_cleanup, &kept);
    compile_lower(qn, &b->terms, fk, f);
    add_part_slots(b, f->parts, f->part);
    uint32_t n = 0, parts = (uint32_t)f->parts;
    slot_range more = {b->p->slots - parts, parts};
    if (f->packer) more = (slot_range){add_packing(b, f, out, id, &n), 1};
    find_rests(b, f);
    if (f->first) {
        make_launch(b, fk, &f->low, f->first, more, &out[n]);
        n++;
    }
    make_launch(b, fk, &f->low, f->low.k, more, &out[n]);
    id[n] = give(b, &f->low.k);
    if (f->first) id[n - 1] = give(b, &f->first);
    ir_close(f->packer);
    f->packer = NULL;
    cleanup_drop(&qn->heap, &c);
    return n + 1;
}

/* The programs as they are now: a better one may have taken a program's place. */
static void look_up(qn_ctx *qn, run_plan *p) {
    for (uint32_t i = 0; i < p->launches; i++)
        if (launch_is_kernel(&p->launch[i])) p->launch[i].program = program_at(qn, p->launch[i].id);
    for (uint32_t i = 0; i < p->packings; i++)
        p->packing[i].program = program_at(qn, p->packing[i].id);
    p->renewed = qn->run->renewed;
}

void plan_renew(qn_ctx *qn, run_plan *p) {
    for (uint32_t i = 0; i < p->bodies; i++) plan_renew(qn, p->body[i]);
    if (p->bodies) p->bound = 0; /* what its bodies write over may be another */
    look_up(qn, p);
    for (uint32_t i = 0; i < p->launches; i++) p->side[i].program = p->launch[i].program;
    p->filled = 0;
    p->donations = 0;
    plan_find_donations(p, &p->arena);
}

/* One for each kernel of the fusion, or for each stage of it, in their order. */
static void make_launches(builder *b) {
    run_plan *p = b->p;
    uint32_t n = 0, *id = arena_zeroed(b->scratch, (2 * b->f->kernels + 1) * sizeof *id);
    p->launch = arena_zeroed(&p->arena, (2 * b->f->kernels + 1) * sizeof *p->launch);
    b->terms.leaf = compile_leaves(b->f, b->scratch);
    b->terms.number = compile_numbers(b->f, b->scratch, b->terms.roots, b->terms.root);
    b->terms.products = compile_products(b->f, b->scratch);
    for (uint32_t i = 0; i < b->f->kernels; i++)
        n += add_launches(b, &b->f->kernel[i], &p->launch[n], &id[n]);
    programs_compile(b->qn);
    for (uint32_t i = 0; i < n; i++) p->launch[i].id = id[i];
    p->launches = n;
    look_up(b->qn, p);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The slots of a launch's arguments and the variables of its values stay what they are. */
static void find_moving(run_plan *p, const launch *l) {
    int args = l->program->args, vars = l->program->vars;
    for (uint32_t s = 0; s < l->sets; s++) {
        for (int a = 0; a < args; a++) {
            const slot *from = &p->slot[l->set[s].slot[a]];
            if (from->kind == SLOT_TEMP) continue;
            p->moving[p->movings++] =
                (moving_slice){&l->slice[(int)s * args + a], 0, from->kind, from->number};
        }
        for (int v = 0; v < vars; v++) {
            if (!LOWER_IS_SLOT(l->set[s].var[v])) continue;
            p->lifted[p->lifteds++] = (moving_value){&l->value[(int)s * vars + v], &l->checked[s],
                                                     (uint32_t)LOWER_SLOT(l->set[s].var[v])};
        }
    }
}

static void make_ready(run_plan *p) {
    size_t all_args = 0, all_vars = 0;
    for (uint32_t i = 0; i < p->launches; i++) {
        all_args += p->launch[i].sets * (size_t)p->launch[i].program->args;
        all_vars += p->launch[i].sets * (size_t)p->launch[i].program->vars;
    }
    p->moving = arena_alloc(&p->arena, (all_args + 1) * sizeof *p->moving);
    p->lifted = arena_alloc(&p->arena, (all_vars + 1) * sizeof *p->lifted);
    p->side = arena_zeroed(&p->arena, (p->launches + 1) * sizeof *p->side);
    for (uint32_t i = 0; i < p->launches; i++) {
        launch *l = &p->launch[i];
        size_t args = (size_t)l->program->args, vars = (size_t)l->program->vars;
        l->ready = arena_zeroed(&p->arena, l->sets * sizeof *l->ready);
        l->slice = arena_zeroed(&p->arena, (l->sets * args + 1) * sizeof *l->slice);
        l->value = arena_zeroed(&p->arena, (l->sets * vars + 1) * sizeof *l->value);
        l->checked = arena_zeroed(&p->arena, l->sets * sizeof *l->checked);
        for (uint32_t s = 0; s < l->sets; s++)
            l->ready[s] = (dev_set){l->slice + s * args, l->value + s * vars, &l->checked[s]};
        p->side[i] = (dev_launch){l->program, l->sets, l->ready};
        find_moving(p, l);
    }
}

void plan_made_cleanup(void *made) {
    const plan_made *m = made;
    plan_close(m->qn, m->p);
}

static void give_up(void *made) {
    plan_made_cleanup(made);
    programs_forget(((const plan_made *)made)->qn);
}

/* Rows of sequences and of stacks, which follow each other; and what begins anywhere: all of the
 * body's, for a loop around it may have the loop's values in its rows. */
static void find_rows(builder *b, const plan_request *r) {
    graph *g = b->g;
    bool *row = arena_zeroed(b->scratch, b->f->nodes + 1);
    bool *loose = arena_zeroed(b->scratch, b->f->nodes + 1);
    memcpy(row, r->rows, b->f->nodes * sizeof *row);
    for (uint32_t i = 0; i < r->roots; i++) row[b->f->pos[r->root[i]] - 1] = !r->over[i];
    for (uint32_t i = 0; i < b->f->nodes; i++) {
        const graph_node *x = node_at(g, b->f->order[i]);
        int64_t many, width = (int64_t)qn_dtype_size((qn_dtype)x->dtype);
        bool known = sym_is_const(g->syms, shape_numel(g, x->shape), &many);
        loose[i] = !known || many % (64 / width);
    }
    b->terms.row = row;
    b->terms.loose = loose;
}

run_plan *plan_build(qn_ctx *qn, const plan_request *r, const plan_key *key) {
    double start = trace_on(qn) ? clock_seconds() : 0;
    arena scratch;
    plan_made made = {.qn = qn};
    cleanup plan, c;
    arena_open(&scratch, &qn->heap);
    cleanup_push(&qn->heap, &plan, give_up, &made);
    cleanup_push(&qn->heap, &c, arena_cleanup, &scratch);
    run_plan *p = heap_zeroed(&qn->heap, sizeof *p);
    arena_open(&p->arena, &qn->heap);
    made.p = p;
    p->key = *key;
    p->key.word = arena_alloc(&p->arena, (size_t)key->words * sizeof *key->word + 4);
    memcpy(p->key.word, key->word, (size_t)key->words * sizeof *key->word);
    p->key.lift = NULL;
    p->key.value = arena_alloc(&p->arena, (size_t)key->values * sizeof *key->value + 8);
    if (key->values) memcpy(p->key.value, key->value, (size_t)key->values * sizeof *key->value);
    builder b = {.qn = qn, .g = qn->graph, .p = p, .scratch = &scratch};
    b.body = loops_plan(qn, p, &scratch, r->nodes, r->order);
    fusion *f = fuse_build(qn->graph, &scratch, r, run_fuse_terms(qn), key->lift);
    fuse_sequence(f, &scratch, r->roots, r->root, r->over);
    b.f = f;
    b.terms = (compile_terms){
        .f = f, .roots = r->roots, .root = r->root, .donated = r->over, .lasting = r->lasting};
    if (r->rows) find_rows(&b, r);
    b.slot_of = arena_zeroed(&scratch, (r->nodes + 1) * sizeof *b.slot_of);
    make_slots(&b, r->roots, r->root);
    p->rest = arena_zeroed(&p->arena, (p->outputs + 1) * sizeof *p->rest);
    p->packing = arena_zeroed(&p->arena, (b.f->kernels + 1) * sizeof *p->packing);
    p->program = arena_alloc(&p->arena, (3 * b.f->kernels + 1) * sizeof *p->program);
    make_launches(&b);
    levels_build(qn, p, &scratch);
    plan_find_donations(p, &scratch);
    make_ready(p);
    if (trace_on(qn)) traced_plan(qn, p, r->nodes, start);
    cleanup_run(&qn->heap, &c);
    cleanup_drop(&qn->heap, &plan);
    return p;
}

void plan_pin(qn_ctx *qn, run_plan *p) {
    for (uint32_t i = 0; i < p->programs; i++) program_pin(qn, p->program[i], true);
    for (uint32_t i = 0; i < p->bodies; i++) plan_pin(qn, p->body[i]);
    p->pinned = true;
}

size_t plan_bytes(const run_plan *p) {
    size_t bytes = sizeof *p + p->arena.total;
    for (uint32_t i = 0; i < p->bodies; i++) bytes += plan_bytes(p->body[i]);
    return bytes;
}

void plan_close(qn_ctx *qn, run_plan *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->bodies; i++) plan_close(qn, p->body[i]);
    for (uint32_t i = 0; i < p->packings; i++) buffer_unref(qn, p->packing[i].buffer);
    if (debug_on(qn, 'x')) {
        if (p->renewed != qn->run->renewed) look_up(qn, p);
        plan_log_times(qn, p);
    }
    for (uint32_t i = 0; i < p->programs; i++) {
        if (p->pinned) program_pin(qn, p->program[i], false);
        program_release(qn, p->program[i]);
    }
    arena_free(&p->arena);
    heap_free(&qn->heap, p, sizeof *p);
}
