/* donate.c - buffer donation: an assigned value is computed in the old value's memory.
 *
 * Whether an assignment writes in place is the planner's decision, and no result depends on it.
 * Three conditions make it sound.
 *
 * The kernel allows it: inplace_pairs proves that no element is read after it was written. The plan
 * allows it: that launch is the last one that reads the old value, and nothing concurrent reads it.
 * Both are checked when a plan is built. And the old value is dead, which is checked at each run:
 * outside of this request only the assignment refers to it, and none of the request's nodes that
 * stay expressions depends on it (a tensor that somebody holds and has not read yet is computed
 * later, from the values of now). Under a tape, all values stay.
 *
 * Devices where a launch may fail halfway do not offer such pairs; so a run that fails leaves the
 * old values, and can be repeated. */
#include "run/run.h"

#include <stdlib.h>

/* ---- of a plan ------------------------------------------------------------------------------- */

/* By slot: add `by` for each argument of a level's launches that uses it. */
static void add_uses(const run_plan *p, uint32_t from, uint32_t to, int by, int *uses) {
    for (uint32_t i = from; i < to; i++)
        for (uint32_t s = 0; s < p->launch[i].sets; s++)
            for (int a = 0; a < p->launch[i].program->args; a++)
                uses[p->launch[i].set[s].slot[a]] += by;
}

static void find_in_launch(run_plan *p, uint32_t level, const int *uses, const launch *l) {
    for (int i = 0; i < l->program->inplaces; i++)
        for (uint32_t s = 0; s < l->sets; s++) {
            uint32_t in = l->set[s].slot[l->program->over[i].in];
            uint32_t to_slot = l->set[s].slot[l->program->over[i].out];
            const slot *x = &p->slot[in], *y = &p->slot[to_slot];
            if (x->kind != SLOT_LEAF || y->kind != SLOT_OUTPUT || x->last != level ||
                x->count != y->count || x->width != y->width || uses[in] != 1 || uses[to_slot] != 1)
                continue;
            p->donation[p->donations++] = (donation){y->number, x->number};
        }
}

static int by_output(const void *a, const void *b) {
    const donation *x = a, *y = b;
    if (x->output != y->output) return x->output < y->output ? -1 : 1;
    return x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

void plan_find_donations(run_plan *p, arena *scratch) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->launches; i++)
        most += p->launch[i].sets * (uint32_t)p->launch[i].program->inplaces;
    if (!most) return;
    p->donation = arena_alloc(&p->arena, most * sizeof *p->donation);
    int *uses = arena_zeroed(scratch, (p->slots + 1) * sizeof *uses); /* in the current level */
    for (uint32_t w = 0, from = 0; w < p->levels; from = p->level[w++]) {
        add_uses(p, from, p->level[w], 1, uses);
        for (uint32_t i = from; i < p->level[w]; i++) find_in_launch(p, w, uses, &p->launch[i]);
        add_uses(p, from, p->level[w], -1, uses);
    }
    qsort(p->donation, p->donations, sizeof *p->donation, by_output);
}

bool plan_donates(const run_plan *p, uint32_t output, uint32_t leaf) {
    donation key = {output, leaf};
    return p->donations && bsearch(&key, p->donation, p->donations, sizeof key, by_output) != NULL;
}

/* ---- of a run -------------------------------------------------------------------------------- */

typedef struct wants {
    graph *g;
    uint32_t nodes;
    const node_id *order;
    uint32_t *uses;   /* by place in the order: how many of the request's nodes it is a source of */
    uint32_t *root;   /* by place: becomes memory, 1 + its number among the roots */
    bool *needed;     /* later, by a node that stays an expression */
    uint32_t *number; /* of leaves: among the leaves */
} wants;

static void count_uses(wants *w) {
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < w->nodes; i++) node_at(w->g, w->order[i])->mark = i;
    for (uint32_t i = 0; i < w->nodes; i++) {
        const graph_node *x = node_at(w->g, w->order[i]);
        if (node_is_memory(x)) {
            w->number[i] = leaves++;
            continue;
        }
        for (int s = 0; s < x->sources; s++) w->uses[node_at(w->g, x->src[s])->mark]++;
    }
}

/* Mark needed nodes from the end of the order, where consumers come first: those somebody holds,
 * and the sources of needed ones. */
static void find_needed(wants *w) {
    for (uint32_t i = w->nodes; i-- > 0;) {
        const graph_node *x = node_at(w->g, w->order[i]);
        if (node_is_memory(x) || w->root[i]) continue;
        if (!w->needed[i] && x->needs == w->uses[i]) continue;
        for (int s = 0; s < x->sources; s++) w->needed[node_at(w->g, x->src[s])->mark] = true;
    }
}

uint32_t *choose_donated(qn_ctx *qn, arena *a, uint32_t nodes, const node_id *order, uint32_t roots,
                         const node_id *root) {
    graph *g = qn->graph;
    if (!g->pending_count || g->tapes) return NULL;
    uint32_t *over = arena_zeroed(a, (roots + 1) * sizeof *over);
    wants w = {.g = g, .nodes = nodes, .order = order};
    w.uses = arena_zeroed(a, (nodes + 1) * sizeof *w.uses);
    w.root = arena_zeroed(a, (nodes + 1) * sizeof *w.root);
    w.needed = arena_zeroed(a, nodes + 1);
    w.number = arena_zeroed(a, (nodes + 1) * sizeof *w.number);
    count_uses(&w);
    for (uint32_t i = 0; i < roots; i++) w.root[node_at(g, root[i])->mark] = i + 1;
    find_needed(&w);
    bool any = false;
    for (uint32_t i = 0; i < g->pending_count; i++) {
        const tensor *t = g->pending[i];
        const graph_node *old = node_at(g, t->replaced);
        const graph_node *new = node_at(g, node_behind(g, t->node));
        if (!node_is_memory(old) || node_is_memory(new)) continue;
        uint32_t place = old->mark;
        if (place >= nodes || order[place] != t->replaced) continue; /* nothing reads it */
        if (w.needed[place] || old->needs != w.uses[place] + 1 ||
            buffer_at(qn, old->buffer)->refs != 1)
            continue;
        over[w.root[new->mark] - 1] = 1 + w.number[place];
        any = true;
    }
    return any ? over : NULL;
}
