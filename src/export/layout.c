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

/* ---- parameters ------------------------------------------------------------------------------ */

static uint32_t add_value(export *e, uint32_t b, int dtype, size_t size) {
    e->value[e->values] = (export_value){b, (uint8_t)dtype, size, e->blob_bytes};
    e->blob_bytes += (size + EXPORT_ALIGN - 1) / EXPORT_ALIGN * EXPORT_ALIGN;
    return e->values++;
}

static void place_parameters(export *e) {
    const run_plan *p = e->main.p;
    const static_view *v = &e->view;
    for (uint32_t i = 0; i < p->leaves; i++) {
        uint32_t at = p->leaf_slot[i];
        if (v->leaf_input[i] >= 0)
            e->main.home[at] =
                (export_home){.kind = HOME_INPUT, .number = (uint32_t)v->leaf_input[i]};
        else if (part_uses(&e->main, at) && !e->main.home[at].kind)
            e->main.home[at] = (export_home){
                .kind = HOME_WEIGHT,
                .number = add_value(e, v->leaf_buffer[i], e->main.dtype[at], p->slot[at].size)};
    }
    for (uint32_t i = 0; i < p->slots; i++) {
        if (p->slot[i].kind != SLOT_PACK || !part_uses(&e->main, i)) continue;
        const packing *x = &p->packing[p->slot[i].number];
        e->main.home[i] = (export_home){
            .kind = HOME_WEIGHT, .number = add_value(e, x->buffer, e->main.dtype[i], x->size)};
    }
}

/* ---- assigned parameters --------------------------------------------------------------------- */

static size_t bytes_of(const export *e, uint32_t root) {
    return e->main.p->slot[e->main.p->output_slot[root]].size;
}

static void add_copy(export *e, export_home from, export_home to, size_t size) {
    e->main.copy[e->main.copies++] = (export_copy){from, to, size};
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
        if (v->assign_leaf[a]) e->main.home[e->main.p->leaf_slot[v->assign_leaf[a] - 1]] = h;
        uint32_t at = e->main.p->output_slot[root];
        bool alone = !e->main.home[at].kind;
        uint32_t leaf = v->assign_leaf[a];
        if (alone && (!leaf || part_replaces(e, &e->main, e->main.p->leaf_slot[leaf - 1], at)))
            e->main.home[at] = h;
        else
            add_copy(e, (export_home){.kind = HOME_NONE, .number = at}, h, bytes_of(e, root));
    }
}

/* A root is in the first output that it is. */
static void place_outputs(export *e) {
    const static_view *v = &e->view;
    for (int i = 0; i < v->outputs; i++) {
        uint32_t root = (uint32_t)v->output_root[i], at = e->main.p->output_slot[root];
        export_home h = {.kind = HOME_OUTPUT, .number = (uint32_t)i};
        if (e->main.home[at].kind)
            add_copy(e, (export_home){.kind = HOME_NONE, .number = at}, h, bytes_of(e, root));
        else
            e->main.home[at] = h;
    }
}

void export_layout(export *e) {
    const static_view *v = &e->view;
    size_t values = (size_t)e->main.p->leaves + v->assigned + e->main.p->packings + 1;
    e->value = arena_zeroed(&e->arena, values * sizeof *e->value);
    e->main.copy = arena_alloc(&e->arena, ((size_t)v->assigned + (size_t)v->outputs + 1) *
                                              sizeof *e->main.copy);
    place_outputs(e);
    place_states(e);
    place_parameters(e);
    part_finish(e, &e->main);
}
