/* layout.c - where each value of the plan lies in the exported program.
 *
 * Inputs and outputs are the caller's, parameters are constants, and those that the plan assigns
 * lie in a state that the caller keeps from run to run. Everything else has a place in one arena,
 * by the launches between which it lives: the file runs one launch after the other, so lives are
 * shorter than in a plan, whose levels run side by side. A kernel's scratch lives for its launch.
 *
 * An assigned value is computed right where the old one is if the launch that makes it comes after
 * the last one that reads the old one, or is that one and its kernel bears it (lower/inplace.c).
 * Else it is made elsewhere and copied when all have run. */
#include "export/export.h"

/* ---- kernels --------------------------------------------------------------------------------- */

static QN_NORETURN void refuse(const export *e, const launch *l) {
    if (l->loop)
        raise_error(e->qn, QN_EGRAPH,
                    "export: the graph has a loop (\"%s\"), which is run by the library; unroll it",
                    l->program->name);
    raise_error(e->qn, QN_EGRAPH,
                "export: the graph calls \"%s\", which is no kernel but a routine of the library",
                l->program->name);
}

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
    export_unroll(x->vectors);
    emit_launch_of(x->vectors, &e->arena, &wide);
    x->scratch = (size_t)(plain.scratch > wide.scratch ? plain.scratch : wide.scratch);
}

static void parse_program(export *e, uint32_t id) {
    qn_ctx *qn = e->qn;
    const char *text = program_text(qn, id);
    kernel *k = ir_parse(qn, text);
    if (!k) heap_unwind(&qn->heap);
    export_program *x = &e->program[e->programs++];
    *x = (export_program){.k = k, .id = id};
    compile_how how = {.text = text, .size = strlen(text)};
    if (!qn->knob[KNOB_SCHEDULE].number) how.schedule = "";
    compile_kernel(qn, k, &how);
    export_prepare(e, x);
}

void export_programs(export *e) {
    const run_plan *p = e->p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->launches; i++) {
        if (!launch_is_kernel(&p->launch[i])) refuse(e, &p->launch[i]);
        e->sets += p->launch[i].sets;
    }
    e->program = arena_zeroed(&e->arena, ((size_t)p->launches + 1) * sizeof *e->program);
    e->set = arena_zeroed(&e->arena, (e->sets + 1) * sizeof *e->set);
    for (uint32_t i = 0; i < p->launches; i++) {
        const launch *l = &p->launch[i];
        uint32_t x = 0;
        while (x < e->programs && e->program[x].id != l->id) x++;
        if (x == e->programs) parse_program(e, l->id);
        for (uint32_t s = 0; s < l->sets; s++)
            e->set[n++] = (export_set){
                .launch = i,
                .program = x,
                .set = &l->set[s],
                .over = arena_zeroed(&e->arena, ((size_t)l->program->args + 1) * sizeof(int))};
    }
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void find_lives(export *e) {
    const run_plan *p = e->p;
    size_t n = (size_t)p->slots + 1;
    e->home = arena_zeroed(&e->arena, n * sizeof *e->home);
    e->dtype = arena_zeroed(&e->arena, n);
    e->first = arena_alloc(&e->arena, n * sizeof *e->first);
    e->last = arena_zeroed(&e->arena, n * sizeof *e->last);
    memset(e->first, 0xff, n * sizeof *e->first);
    for (uint32_t i = 0; i < e->sets; i++) {
        const export_set *s = &e->set[i];
        const export_program *x = &e->program[s->program];
        for (mem_id m = 1; m < x->k->mems; m++) {
            const ir_memory *mem = ir_m(x->k, m);
            if (mem->scope != MEM_ARG) continue;
            uint32_t at = s->set->slot[mem->arg];
            e->dtype[at] = mem->dtype;
            if (!x->uses[mem->arg]) continue;
            if (s->launch < e->first[at]) e->first[at] = s->launch;
            e->last[at] = s->launch;
        }
    }
}

static bool is_used(const export *e, uint32_t at) {
    return e->first[at] != UINT32_MAX;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static uint32_t add_value(export *e, uint32_t b, int dtype, size_t size) {
    e->value[e->values] = (export_value){b, (uint8_t)dtype, size, e->blob_bytes};
    e->blob_bytes += (size + EXPORT_ALIGN - 1) / EXPORT_ALIGN * EXPORT_ALIGN;
    return e->values++;
}

static void place_parameters(export *e) {
    const run_plan *p = e->p;
    const static_view *v = &e->view;
    for (uint32_t i = 0; i < p->leaves; i++) {
        uint32_t at = p->leaf_slot[i];
        if (v->leaf_input[i] >= 0)
            e->home[at] = (export_home){.kind = HOME_INPUT, .number = (uint32_t)v->leaf_input[i]};
        else if (is_used(e, at) && !e->home[at].kind)
            e->home[at] = (export_home){
                .kind = HOME_WEIGHT,
                .number = add_value(e, v->leaf_buffer[i], e->dtype[at], p->slot[at].size)};
    }
    for (uint32_t i = 0; i < p->slots; i++) {
        if (p->slot[i].kind != SLOT_PACK || !is_used(e, i)) continue;
        const packing *x = &p->packing[p->slot[i].number];
        e->home[i] = (export_home){.kind = HOME_WEIGHT,
                                   .number = add_value(e, x->buffer, e->dtype[i], x->size)};
    }
}

/* ---- assigned parameters --------------------------------------------------------------------- */

static size_t bytes_of(const export *e, uint32_t root) {
    return e->p->slot[e->p->output_slot[root]].size;
}

static void add_copy(export *e, export_home from, export_home to, size_t size) {
    e->copy[e->copies++] = (export_copy){from, to, size};
}

static int uses_in_launch(const export *e, uint32_t launch_number, uint32_t at) {
    int uses = 0;
    for (uint32_t i = 0; i < e->sets; i++) {
        const export_set *s = &e->set[i];
        if (s->launch != launch_number) continue;
        for (int a = 0; a < e->program[s->program].k->args; a++)
            uses += e->program[s->program].uses[a] && s->set->slot[a] == at;
    }
    return uses;
}

/* Find the set in this launch that makes `to` of `from`, both its alone, and may store it in the
 * same place, for which its function will have one name more. false: there is none. */
static bool alias_values(export *e, uint32_t launch_number, uint32_t from, uint32_t to) {
    enum { MOST = 64 };
    inplace_pair over[MOST];
    if (uses_in_launch(e, launch_number, from) != 1 || uses_in_launch(e, launch_number, to) != 1)
        return false;
    for (uint32_t i = 0; i < e->sets; i++) {
        export_set *s = &e->set[i];
        if (s->launch != launch_number || s->set->piece) continue;
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

/* May the value be made where the old one is? */
static bool replaces(export *e, uint32_t leaf_slot, uint32_t root_slot) {
    const slot *x = &e->p->slot[leaf_slot], *y = &e->p->slot[root_slot];
    if (!is_used(e, leaf_slot) || e->last[leaf_slot] < e->first[root_slot]) return true;
    if (e->last[leaf_slot] != e->first[root_slot] || x->size != y->size || x->width != y->width)
        return false;
    return alias_values(e, e->last[leaf_slot], leaf_slot, root_slot);
}

static uint32_t first_value(export *e, uint32_t a) {
    const static_view *v = &e->view;
    uint32_t root = v->assign_root[a];
    const graph_node *x = node_at(e->g, tensor_at(v->assign_to[a])->node);
    uint32_t b = node_is_memory(x) ? x->buffer : 0;
    if (v->assign_leaf[a]) b = v->leaf_buffer[v->assign_leaf[a] - 1];
    if (b && buffer_at(e->qn, b)->size != bytes_of(e, root)) b = 0;
    return add_value(e, b, v->root_dtype[root], bytes_of(e, root));
}

static void place_states(export *e) {
    const static_view *v = &e->view;
    e->state = arena_zeroed(&e->arena, (v->assigned + 1) * sizeof *e->state);
    for (uint32_t a = 0; a < v->assigned; a++) {
        uint32_t root = v->assign_root[a];
        export_home h = {.kind = HOME_STATE, .offset = e->state_bytes};
        e->state[e->states++] = (export_state){.shape = v->root_shape[root],
                                               .name = qn_name(v->assign_to[a]),
                                               .offset = e->state_bytes,
                                               .first = first_value(e, a)};
        e->state_bytes += (bytes_of(e, root) + EXPORT_ALIGN - 1) / EXPORT_ALIGN * EXPORT_ALIGN;
        if (v->assign_leaf[a]) e->home[e->p->leaf_slot[v->assign_leaf[a] - 1]] = h;
        uint32_t at = e->p->output_slot[root];
        bool alone = !e->home[at].kind;
        uint32_t leaf = v->assign_leaf[a];
        if (alone && (!leaf || replaces(e, e->p->leaf_slot[leaf - 1], at)))
            e->home[at] = h;
        else
            add_copy(e, (export_home){.kind = HOME_NONE, .number = at}, h, bytes_of(e, root));
    }
}

/* What values begin as that are made elsewhere than where the old ones are: these have homes, for
 * they are states or inputs. */
static void add_rests(export *e) {
    const run_plan *p = e->p;
    for (uint32_t i = 0; i < p->rests; i++) {
        export_home from = e->home[p->leaf_slot[p->rest[i].leaf]];
        export_home to = e->home[p->output_slot[p->rest[i].output]];
        if (from.kind == to.kind && from.number == to.number && from.offset == to.offset) continue;
        e->rest[e->rests++] = (export_copy){from, to, bytes_of(e, p->rest[i].output)};
    }
}

/* A root is in the first output that it is. */
static void place_outputs(export *e) {
    const static_view *v = &e->view;
    for (int i = 0; i < v->outputs; i++) {
        uint32_t root = (uint32_t)v->output_root[i], at = e->p->output_slot[root];
        export_home h = {.kind = HOME_OUTPUT, .number = (uint32_t)i};
        if (e->home[at].kind)
            add_copy(e, (export_home){.kind = HOME_NONE, .number = at}, h, bytes_of(e, root));
        else
            e->home[at] = h;
    }
}

/* ---- the arena ------------------------------------------------------------------------------- */

static void place_rest(export *e) {
    const run_plan *p = e->p;
    arena *a = &e->arena;
    size_t most = (size_t)p->slots + p->launches + 1;
    memory_block *block = arena_alloc(a, most * sizeof *block);
    size_t **place = arena_alloc(a, most * sizeof *place);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->slots; i++) {
        if (e->home[i].kind || !is_used(e, i)) continue;
        bool to_the_end = p->slot[i].kind == SLOT_OUTPUT;
        e->home[i].kind = HOME_ARENA;
        place[n] = &e->home[i].offset;
        block[n++] = (memory_block){e->first[i], to_the_end ? p->launches : e->last[i],
                                    (int64_t)p->slot[i].size, 0};
    }
    for (uint32_t i = 0; i < p->rests; i++) { /* they are copied before the first launch */
        size_t *at = &e->home[p->output_slot[p->rest[i].output]].offset;
        for (uint32_t k = 0; k < n; k++)
            if (place[k] == at) block[k].first = 0;
    }
    e->scratch = arena_zeroed(a, (p->launches + 1) * sizeof *e->scratch);
    for (uint32_t i = 0, last = UINT32_MAX; i < e->sets; last = e->set[i++].launch) {
        const export_set *s = &e->set[i];
        size_t scratch = e->program[s->program].scratch;
        if (!scratch || s->launch == last) continue;
        place[n] = &e->scratch[s->launch];
        block[n++] = (memory_block){s->launch, s->launch, (int64_t)scratch, 0};
    }
    uint64_t steps = 0;
    e->arena_bytes = (size_t)memory_layout(a, n, block, &steps);
    for (uint32_t i = 0; i < n; i++) *place[i] = (size_t)block[i].offset;
    for (uint32_t i = 0; i < e->copies; i++)
        if (!e->copy[i].from.kind) e->copy[i].from = e->home[e->copy[i].from.number];
}

/* Sets of one program share a function where the same arguments lie over each other. */
static void find_functions(export *e) {
    e->function = arena_zeroed(&e->arena, (e->sets + 1) * sizeof *e->function);
    for (uint32_t i = 0; i < e->sets; i++) {
        export_set *s = &e->set[i];
        const size_t args = (size_t)e->program[s->program].k->args;
        uint32_t f = 0;
        while (f < e->functions && (e->function[f].program != s->program ||
                                    memcmp(e->function[f].over, s->over, args * sizeof(int)) != 0))
            f++;
        if (f == e->functions)
            e->function[e->functions++] = (export_function){.program = s->program, .over = s->over};
        s->function = f;
    }
}

void export_layout(export *e) {
    const static_view *v = &e->view;
    size_t values = (size_t)e->p->leaves + v->assigned + e->p->packings + 1;
    e->value = arena_zeroed(&e->arena, values * sizeof *e->value);
    e->copy =
        arena_alloc(&e->arena, ((size_t)v->assigned + (size_t)v->outputs + 1) * sizeof *e->copy);
    e->rest = arena_alloc(&e->arena, ((size_t)e->p->rests + 1) * sizeof *e->rest);
    find_lives(e);
    place_outputs(e);
    place_states(e);
    place_parameters(e);
    place_rest(e);
    add_rests(e);
    find_functions(e);
}
