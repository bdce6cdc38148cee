/* model_move.c - elementwise kernels that read along one axis and write along another.
 *
 * The idea. In y[i,j] = x[j,i] one side walks memory in steps of a row, whichever loop is
 * innermost: a cache line is fetched for each element, and between two visits of a line lies a
 * whole column. So both loops are cut into blocks, and the operand that the innermost loop does not
 * walk along is staged: its block is loaded in whole vectors along its own direction, and their
 * elements are scattered over a tile that lies in the order of writing. Scattering is done where
 * lanes must part, because gathering them is slow beyond its instruction count on processors that
 * guard against sampling of gathered data.
 *
 * A block is a long run of what is read (RUN elements, for the processor to see a stream) by one
 * vector of what is written, so that whole lines are written; the tile is half of a usual L1. Of
 * the shapes between 16 and 512 a side this was the quickest at 2048^2 and 4096^2, by a factor of
 * 1.5 before squares. The limit is the time of moving each byte once. Where the lines of one pass
 * over a column stay in the nearest caches there is nothing to win. */
#include <stdio.h>

#include "kern/model.h"

enum {
    RUN = 256,
    LEAST = 16,  /* trips of a loop worth cutting */
    LINE = 64,   /* bytes of a cache line */
    CLASH = 1024 /* bytes: lines so far apart share few places in a cache */
};

typedef struct crossing {
    int along, across; /* places in the chain: the stores' loop, the operand's */
    kmem operand;
    int64_t step; /* of the operand, elements for each trip of the stores' loop */
} crossing;

/* The loop of the chain along which an access steps by one; -1: none, or it is no plain access. */
static int walks(model *m, const model_chain *c, const kern_touch *t) {
    int64_t step;
    if (!model_is_arg(m, t) || t->dyn || t->valid != SYM_TRUE) return -1;
    for (int i = c->n - 1; i >= 0; i--)
        if (model_step(m, t, model_at(m, model_find(m, c->name[i]))->l.var, &step) && step == 1)
            return i;
    return -1;
}

/* Does the chain's body store along one loop and load one argument along another? */
static bool find_crossing(model *m, const model_chain *c, crossing *x) {
    kern_touch *t;
    uint32_t count = kern_touches(m->k, c->body, &t);
    *x = (crossing){-1, -1, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        int at = walks(m, c, &t[i]);
        if (t[i].load) continue;
        if (at < 0 || (x->along >= 0 && x->along != at)) return false;
        x->along = at;
    }
    for (uint32_t i = 0; i < count && x->along >= 0; i++) {
        int at = walks(m, c, &t[i]);
        int64_t step;
        if (!t[i].load || at < 0 || at == x->along) continue;
        sym var = model_at(m, model_find(m, c->name[x->along]))->l.var;
        if (!model_step(m, &t[i], var, &step) || !step) continue; /* one value for the whole run */
        if (x->operand && x->operand != t[i].mem) return false;
        x->operand = t[i].mem;
        x->across = at;
        x->step = step;
    }
    return x->operand != 0;
}

/* One nest over a block: its loops have the number `id` and a suffix. */
static void block(model *m, kmem operand, int id, const char *loop, const char *part) {
    char at[40];
    snprintf(at, sizeof at, "%s%s", loop, part);
    if (!model_find(m, at)) return;
    int in = m->next++;
    if (model_apply(m, "stage a%d %s xi%d%s yi%d%s", kern_m(m->k, operand)->arg, at, id, part, id,
                    part)) {
        kstmt def = model_at(m, model_find(m, at))->first;
        model_chain copy = model_chain_of(m, model_at(m, def)->next);
        model_apply(m, "split %s %d -> u%d v%d", copy.name[0], m->lanes, in, in);
        model_apply(m, "swap v%d %s", in, copy.name[1]);
        model_apply(m, "swap u%d %s", in, copy.name[1]);
    }
    in = m->next++;
    model_apply(m, "split xi%d%s 4 -> xj%d u%d", id, part, in, in);
    model_apply(m, "split yi%d%s %d -> ys%d v%d", id, part, m->lanes, in, in);
}

/* Once a loop is cut there is no way back: what cannot be done leaves a kernel sound and slower.
 * Lines that are written whole go outermost, as many trips to hand out; where the last one is cut
 * short, runs do, because only the full lines set apart inside can be proved to be apart. */
static void cut(model *m, model_chain *c, kmem operand, const char *along, const char *across) {
    int64_t n = model_trips(m, model_find(m, across));
    int id = m->next++, run = n < RUN ? (int)n : RUN;
    bool whole = model_trips(m, model_find(m, along)) % m->lanes == 0;
    const char *order[2] = {whole ? along : across, whole ? across : along};
    int width[2] = {whole ? m->lanes : run, whole ? run : m->lanes};
    if (whole && !model_apply(m, "swap %s %s", across, along)) return;
    char o[2][24], in[2][24];
    for (int i = 0; i < 2; i++) {
        snprintf(o[i], sizeof o[i], "%so%d", (i == 0) == whole ? "y" : "x", id);
        snprintf(in[i], sizeof in[i], "%si%d", (i == 0) == whole ? "y" : "x", id);
        snprintf(c->name[c->n - 2 + i], sizeof c->name[0], "%s", order[i]);
        if (!model_apply(m, "split %s %d -> %s %s", order[i], width[i], o[i], in[i])) return;
        snprintf(c->name[c->n - 2 + i], sizeof c->name[0], "%s", o[i]);
    }
    c->n--;
    if (!model_apply(m, "swap %s %s", in[0], o[1])) return;
    if (whole && !model_apply(m, "swap %s %s", in[0], in[1])) return;
    model_apply(m, "peel %s", o[1]);
    block(m, operand, id, o[1], "");
    block(m, operand, id, o[1], "_1");
    c->body = model_find(m, c->name[c->n - 1]);
}

bool model_crossed(model *m, model_chain *c) {
    crossing x;
    if (c->n < 2 || !find_crossing(m, c, &x)) return false;
    char along[40], across[40];
    memcpy(along, c->name[x.along], sizeof along);
    memcpy(across, c->name[x.across], sizeof across);
    int64_t lines = model_trips(m, model_find(m, along));
    if (lines < LEAST || model_trips(m, model_find(m, across)) < LEAST) return false;
    if (lines * LINE <= 2 * m->limits->l1 && x.step * LINE / m->lanes % CLASH) return false;
    model_chain_inward(m, c, x.across);
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->name[i], along)) model_chain_inward(m, c, i);
    if (strcmp(c->name[c->n - 1], along) || strcmp(c->name[c->n - 2], across)) return false;
    cut(m, c, x.operand, along, across);
    return true;
}
