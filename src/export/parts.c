/* parts.c - what of the exported program runs one launch after the other: the request's plan, and
 * the body of each of its loops, which is a plan of its own.
 *
 * A part's values have homes. Some are given from outside, by layout.c to the plan's inputs,
 * outputs and parameters, by loops.c to a body's arguments and results; the others lie in the
 * part's arena, each as long as launches use it. Kernels that several launches call, in whatever
 * part, are one function. */
#include "export/export.h"

/* ---- programs -------------------------------------------------------------------------------- */

static void find_uses(export_program *x, arena *a) {
    ir_access *t;
    uint32_t n = ir_accesses(x->k, x->k->root, &t);
    x->uses = arena_zeroed(a, (size_t)x->k->args + 1);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *m = ir_m(x->k, t[i].mem);
        if (m->scope == MEM_ARG) x->uses[m->arg] = true;
    }
}

/* The copies of what is unrolled have tiles of their own. */
void export_prepare(export *e, export_program *x) {
    emit_launch plain, wide;
    export_lanes(x->k, &e->arena);
    emit_launch_of(x->k, &e->arena, &plain);
    find_uses(x, &e->arena);
    x->vectors = ir_clone(x->k);
    export_vector_tree(x->vectors);
    emit_launch_of(x->vectors, &e->arena, &wide);
    x->scratch = (size_t)(plain.scratch > wide.scratch ? plain.scratch : wide.scratch);
}

static void parse_program(export *e, uint32_t id) {
    qn_ctx *qn = e->qn;
    const char *text = program_text(qn, id);
    e->program =
        arena_grow(&e->arena, e->program, &e->program_cap, e->programs + 1, sizeof *e->program);
    kernel *k = ir_parse(qn, text);
    if (!k) heap_unwind(&qn->heap);
    export_program *x = &e->program[e->programs++];
    *x = (export_program){.k = k, .id = id};
    compile_how how = {.text = text, .size = strlen(text)};
    if (!qn->knob[KNOB_SCHEDULE].number) how.schedule = "";
    compile_kernel(qn, k, &how);
    export_prepare(e, x);
}

uint32_t export_program_of(export *e, uint32_t id) {
    uint32_t x = 0;
    while (x < e->programs && e->program[x].id != id) x++;
    if (x == e->programs) parse_program(e, id);
    return x;
}

/* Sets of one program share a function where the same arguments lie over each other. */
uint32_t export_function_of(export *e, uint32_t program, const int *over) {
    const size_t args = (size_t)e->program[program].k->args;
    uint32_t f = 0;
    while (f < e->functions && (e->function[f].program != program ||
                                memcmp(e->function[f].over, over, args * sizeof(int)) != 0))
        f++;
    if (f < e->functions) return f;
    e->function =
        arena_grow(&e->arena, e->function, &e->function_cap, e->functions + 1, sizeof *e->function);
    e->function[e->functions] = (export_function){.program = program, .over = over};
    return e->functions++;
}

static void add_sets(export *e, export_part *part, uint32_t i) {
    const launch *l = &part->p->launch[i];
    uint32_t x = export_program_of(e, l->id);
    for (uint32_t s = 0; s < l->sets; s++)
        part->set[part->sets++] = (export_set){
            .launch = i,
            .program = x,
            .set = &l->set[s],
            .over = arena_zeroed(&e->arena, ((size_t)l->program->args + 1) * sizeof(int))};
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void use(export_part *part, uint32_t by, uint32_t at) {
    if (by < part->first[at]) part->first[at] = by;
    if (by > part->last[at]) part->last[at] = by;
}

static void use_arguments(export_part *part, const launch *l) {
    for (int a = 0; a < l->program->args; a++) {
        uint32_t at = l->set->slot[a];
        part->dtype[at] = part->p->slot[at].dtype;
        use(part, (uint32_t)(l - part->p->launch), at);
    }
}

static void find_lives(export *e, export_part *part) {
    const run_plan *p = part->p;
    size_t n = (size_t)p->slots + 1;
    part->first = arena_alloc(&e->arena, n * sizeof *part->first);
    part->last = arena_zeroed(&e->arena, n * sizeof *part->last);
    memset(part->first, 0xff, n * sizeof *part->first);
    for (uint32_t i = 0; i < p->launches; i++)
        if (!launch_is_kernel(&p->launch[i])) use_arguments(part, &p->launch[i]);
    for (uint32_t i = 0; i < part->sets; i++) {
        const export_set *s = &part->set[i];
        const export_program *x = &e->program[s->program];
        for (mem_id m = 1; m < x->k->mems; m++) {
            const ir_memory *mem = ir_m(x->k, m);
            if (mem->scope != MEM_ARG) continue;
            uint32_t at = s->set->slot[mem->arg];
            part->dtype[at] = mem->dtype;
            if (x->uses[mem->arg]) use(part, s->launch, at);
        }
    }
}

bool part_uses(const export_part *part, uint32_t at) {
    return part->first[at] != UINT32_MAX;
}

void part_open(export *e, export_part *part, run_plan *p) {
    size_t n = (size_t)p->slots + 1, sets = 0;
    *part = (export_part){.p = p};
    for (uint32_t i = 0; i < p->launches; i++) sets += p->launch[i].sets;
    part->set = arena_zeroed(&e->arena, (sets + 1) * sizeof *part->set);
    part->loop = arena_zeroed(&e->arena, ((size_t)p->launches + 1) * sizeof(export_loop *));
    part->call = arena_zeroed(&e->arena, ((size_t)p->launches + 1) * sizeof(export_routine *));
    part->home = arena_zeroed(&e->arena, n * sizeof *part->home);
    part->dtype = arena_zeroed(&e->arena, n);
    part->size = arena_zeroed(&e->arena, n * sizeof *part->size);
    for (uint32_t i = 0; i < p->slots; i++) part->size[i] = p->slot[i].size;
    for (uint32_t i = 0; i < p->launches; i++) {
        const launch *l = &p->launch[i];
        if (launch_is_kernel(l)) add_sets(e, part, i);
        if (l->loop) part->loop[i] = export_loop_open(e, l, p);
        if (l->call) part->call[i] = export_call_open(e, l);
        if (!launch_is_kernel(l))
            part->size[l->set->slot[l->program->args - 1]] =
                l->loop ? part->loop[i]->size : part->call[i]->scratch;
    }
    find_lives(e, part);
}

/* ---- values in place of others --------------------------------------------------------------- */

static int uses_in_launch(const export *e, const export_part *part, uint32_t by, uint32_t at) {
    int uses = 0;
    for (uint32_t i = 0; i < part->sets; i++) {
        const export_set *s = &part->set[i];
        if (s->launch != by) continue;
        for (int a = 0; a < e->program[s->program].k->args; a++)
            uses += e->program[s->program].uses[a] && s->set->slot[a] == at;
    }
    return uses;
}

/* Find the set in this launch that makes `to` of `from`, both its alone, and may store it in the
 * same place, for which its function will have one name more. false: there is none. */
static bool alias_values(export *e, export_part *part, uint32_t from, uint32_t to) {
    enum { MOST = 64 };
    inplace_pair over[MOST];
    const uint32_t by = part->last[from];
    if (uses_in_launch(e, part, by, from) != 1 || uses_in_launch(e, part, by, to) != 1)
        return false;
    for (uint32_t i = 0; i < part->sets; i++) {
        export_set *s = &part->set[i];
        if (s->launch != by || s->set->piece) continue;
        int n = inplace_pairs(e->program[s->program].k, MOST, over);
        for (int k = 0; k < n; k++) {
            if (over[k].rests || s->set->slot[over[k].in] != from ||
                s->set->slot[over[k].out] != to)
                continue;
            s->over[over[k].in] = 1 + over[k].out;
            return true;
        }
    }
    return false;
}

bool part_replaces(export *e, export_part *part, uint32_t leaf_slot, uint32_t root_slot) {
    const slot *x = &part->p->slot[leaf_slot], *y = &part->p->slot[root_slot];
    if (!part_uses(part, leaf_slot) || part->last[leaf_slot] < part->first[root_slot]) return true;
    if (part->last[leaf_slot] != part->first[root_slot] || x->size != y->size ||
        x->width != y->width)
        return false;
    return alias_values(e, part, leaf_slot, root_slot);
}

/* ---- the arena ------------------------------------------------------------------------------- */

/* What values begin as that are made elsewhere than where the old ones are: these have homes, for
 * they are given from outside. */
static void add_rests(export_part *part) {
    const run_plan *p = part->p;
    for (uint32_t i = 0; i < p->rests; i++) {
        export_home from = part->home[p->leaf_slot[p->rest[i].leaf]];
        uint32_t at = p->output_slot[p->rest[i].output];
        export_home to = part->home[at];
        if (from.kind == to.kind && from.number == to.number && from.offset == to.offset) continue;
        part->rest[part->rests++] = (export_copy){from, to, part->size[at]};
    }
}

/* The blocks of a part's arena while it is laid out; place: where an offset goes. */
typedef struct blocks {
    memory_block *block;
    size_t **place;
    uint32_t n;
} blocks;

static void add_block(blocks *b, size_t *place, uint32_t first, uint32_t last, size_t size) {
    b->place[b->n] = place;
    b->block[b->n++] = (memory_block){first, last, (int64_t)size, 0};
}

static void add_scratch(export *e, export_part *part, blocks *b) {
    part->scratch = arena_zeroed(&e->arena, (part->p->launches + 1) * sizeof *part->scratch);
    for (uint32_t i = 0, last = UINT32_MAX; i < part->sets; last = part->set[i++].launch) {
        const export_set *s = &part->set[i];
        size_t scratch = e->program[s->program].scratch;
        if (scratch && s->launch != last)
            add_block(b, &part->scratch[s->launch], s->launch, s->launch, scratch);
    }
}

static void place_values(export *e, export_part *part) {
    const run_plan *p = part->p;
    size_t most = (size_t)p->slots + p->launches + 1;
    blocks b = {.block = arena_alloc(&e->arena, most * sizeof *b.block),
                .place = arena_alloc(&e->arena, most * sizeof *b.place)};
    for (uint32_t i = 0; i < p->slots; i++) {
        if (part->home[i].kind || !part_uses(part, i)) continue;
        bool to_the_end = p->slot[i].kind == SLOT_OUTPUT;
        part->home[i].kind = HOME_ARENA;
        add_block(&b, &part->home[i].offset, part->first[i],
                  to_the_end ? p->launches : part->last[i], part->size[i]);
    }
    for (uint32_t i = 0; i < p->rests; i++) { /* they are copied before the first launch */
        size_t *at = &part->home[p->output_slot[p->rest[i].output]].offset;
        for (uint32_t k = 0; k < b.n; k++)
            if (b.place[k] == at) b.block[k].first = 0;
    }
    add_scratch(e, part, &b);
    uint64_t steps = 0;
    part->arena_bytes = (size_t)memory_layout(&e->arena, b.n, b.block, &steps);
    for (uint32_t i = 0; i < b.n; i++) *b.place[i] = (size_t)b.block[i].offset;
}

void part_finish(export *e, export_part *part) {
    place_values(e, part);
    for (uint32_t i = 0; i < part->copies; i++)
        if (!part->copy[i].from.kind) part->copy[i].from = part->home[part->copy[i].from.number];
    part->rest = arena_alloc(&e->arena, ((size_t)part->p->rests + 1) * sizeof *part->rest);
    add_rests(part);
    for (uint32_t i = 0; i < part->sets; i++)
        part->set[i].function = export_function_of(e, part->set[i].program, part->set[i].over);
}
