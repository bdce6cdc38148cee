/* sweep.c - what is told to the graph when it takes shapes back (graph/tuple.c).
 *
 * Beside nodes, plans have ids of shapes and sizes: in their keys, where equal ids mean equal
 * shapes and so must not be given to others, and in their slots, whose sizes follow dimension
 * variables.
 * Static graphs have the shapes of their inputs and parameters. */
#include "run/run.h"

void plan_keep(qn_ctx *qn, const run_plan *p) {
    graph *g = qn->graph;
    key_keep(g, &p->key);
    for (uint32_t i = 0; i < p->slots; i++) {
        sym_keep(g->syms, p->slot[i].count);
        graph_keep(g, p->slot[i].shape);
    }
    for (uint32_t i = 0; i < p->launches; i++)
        for (uint32_t s = 0; s < p->launch[i].sets; s++) {
            sym_keep(g->syms, p->launch[i].set[s].length);
            sym_keep(g->syms, p->launch[i].set[s].base);
        }
    for (uint32_t i = 0; i < p->launches; i++)
        if (p->launch[i].loop) sym_keep(g->syms, p->launch[i].loop->attr.count);
    for (uint32_t i = 0; i < p->bodies; i++) plan_keep(qn, p->body[i]);
}

void sweep_if_due(qn_ctx *qn) {
    graph *g = qn->graph;
    if (!graph_sweep_due(g)) return;
    graph_sweep_begin(g);
    plans_keep(qn);
    statics_keep(qn);
    graph_sweep_end(g);
}
