/* join.c - reductions beside each other that read the same memory, in one pass over it.
 *
 *   def s; for r { s += f(a[r]) }   ..   def t; for q { t max= g(a[q]) }   ..
 *
 * becomes, before anything is scheduled,
 *
 *   def s; def t; for r { s += f(a[r]); t max= g(a[r]) }   ..   ..
 *
 * Sums of a value and of its square, a norm's two parameter gradients: what the first reads the
 * second has in a register. It pays only where some load is at the same place in both, and it is
 * right where the second reduction needs nothing that is made behind the first one's beginning: its
 * nest, of as many trips loop by loop, moves up to there. */
#include "kern/kern.h"

enum { DEEPEST = 16, MOST_JOINED = 4 }; /* loops of a nest; accumulators of one pass */

typedef struct nest { /* loops in each other, updates of tiles by monoids in the innermost */
    kstmt loop[DEEPEST], leaf;
    int depth, updates;
    kern_touch *touch;
    uint32_t touches;
} nest;

/* An accumulator: a tile of one element that is only updated. */
static bool is_update(const kern *k, kstmt s) {
    const kern_stmt *x = kern_s(k, s);
    if (x->kind != KS_STORE || x->monoid == MONOID_SET || x->store.dyn || x->store.guard)
        return false;
    for (int i = 0; i < x->n; i++) {
        const kern_memory *m = kern_m(k, x->store.mem[i]);
        if (m->scope == KERN_ARG || m->size != SYM_ONE) return false;
    }
    return true;
}

static bool read_nest(kern *k, kstmt loop, nest *n) {
    *n = (nest){.leaf = loop};
    for (;; n->leaf = kern_s(k, n->leaf)->first) {
        const kern_stmt *l = kern_s(k, n->leaf);
        if (l->kind != KS_LOOP || l->loop != KERN_SERIAL || !l->first || n->depth == DEEPEST)
            return false;
        n->loop[n->depth++] = n->leaf;
        if (l->first != l->last || kern_s(k, l->first)->kind != KS_LOOP) break;
    }
    for (kstmt s = kern_s(k, n->leaf)->first; s; s = kern_s(k, s)->next, n->updates++)
        if (!is_update(k, s)) return false;
    n->touches = kern_touches(k, loop, &n->touch);
    return true;
}

static bool same_trips(const kern *k, const nest *a, const nest *b) {
    if (a->depth != b->depth) return false;
    for (int i = 0; i < a->depth; i++)
        if (kern_s(k, a->loop[i])->l.extent != kern_s(k, b->loop[i])->l.extent) return false;
    return true;
}

/* The place of an access in b, by a's variables. */
static sym moved(kern *k, const nest *a, const nest *b, sym place) {
    sym from[DEEPEST], to[DEEPEST];
    for (int i = 0; i < b->depth; i++) {
        from[i] = kern_s(k, b->loop[i])->l.var;
        to[i] = kern_s(k, a->loop[i])->l.var;
    }
    return sym_subst(k->syms, place, b->depth, from, to);
}

/* Does some load that moves with the innermost loop find the same element in both? */
static bool share_memory(kern *k, const nest *a, const nest *b) {
    sym inner = kern_s(k, a->leaf)->l.var;
    for (uint32_t j = 0; j < b->touches; j++) {
        const kern_touch *t = &b->touch[j];
        if (!t->load || t->dyn) continue;
        sym place = moved(k, a, b, t->index);
        if (!sym_uses(k->syms, place, inner)) continue;
        for (uint32_t i = 0; i < a->touches; i++)
            if (a->touch[i].load && !a->touch[i].dyn && a->touch[i].mem == t->mem &&
                a->touch[i].index == place)
                return true;
    }
    return false;
}

static bool touched(const nest *n, kmem m, bool loads_only) {
    for (uint32_t i = 0; i < n->touches; i++)
        if (n->touch[i].mem == m && (!loads_only || n->touch[i].load)) return true;
    return false;
}

/* May b stand where a begins? What lies between, a with it, makes nothing that b reads, and does
 * not touch b's tiles but by their definitions. */
static bool moves_up(kern *k, kstmt a, const nest *b) {
    for (kstmt s = a; s != b->loop[0]; s = kern_s(k, s)->next) {
        if (kern_s(k, s)->kind == KS_DEF && touched(b, kern_s(k, s)->def.mem, true)) return false;
        kern_touch *t;
        uint32_t n = kern_touches(k, s, &t);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < b->touches; j++)
                if (b->touch[j].mem == t[i].mem && !(b->touch[j].load && t[i].load)) return false;
    }
    return true;
}

/* b's tiles are defined beside its loop, by values that read nothing. */
static bool own_tiles(kern *k, const nest *b, kstmt def[], int *defs) {
    *defs = 0;
    for (uint32_t j = 0; j < b->touches; j++) {
        if (b->touch[j].load) continue;
        kern_touch *t;
        kstmt s = kern_s(k, kern_s(k, b->loop[0])->parent)->first;
        while (s != b->loop[0] &&
               (kern_s(k, s)->kind != KS_DEF || kern_s(k, s)->def.mem != b->touch[j].mem))
            s = kern_s(k, s)->next;
        if (s == b->loop[0] || *defs == 2 * MOST_JOINED || kern_touches(k, s, &t)) return false;
        def[(*defs)++] = s;
    }
    return true;
}

static bool join(kern *k, nest *a, const nest *b) {
    kstmt def[2 * MOST_JOINED], parent = kern_s(k, a->loop[0])->parent;
    int defs;
    if (a->updates + b->updates > MOST_JOINED || !same_trips(k, a, b) || !share_memory(k, a, b) ||
        !moves_up(k, a->loop[0], b) || !own_tiles(k, b, def, &defs))
        return false;
    for (int i = 0; i < defs; i++) {
        kern_move(k, def[i], parent, a->loop[0]);
    }
    sym from[DEEPEST], to[DEEPEST];
    for (int i = 0; i < b->depth; i++) {
        from[i] = kern_s(k, b->loop[i])->l.var;
        to[i] = kern_s(k, a->loop[i])->l.var;
    }
    while (kern_s(k, b->leaf)->first) {
        kstmt s = kern_s(k, b->leaf)->first;
        kern_move(k, s, a->leaf, 0);
        kern_subst(k, s, b->depth, from, to);
    }
    kern_unlink(k, b->loop[0]);
    return read_nest(k, a->loop[0], a);
}

static void join_in(kern *k, kstmt block) {
    for (kstmt s = kern_s(k, block)->first; s; s = kern_s(k, s)->next) {
        if (kern_s(k, s)->kind != KS_LOOP) continue;
        nest a, b;
        if (!read_nest(k, s, &a)) {
            join_in(k, s);
            continue;
        }
        for (kstmt other = kern_s(k, s)->next, next; other; other = next) {
            next = kern_s(k, other)->next;
            if (kern_s(k, other)->kind == KS_LOOP && read_nest(k, other, &b)) join(k, &a, &b);
        }
    }
}

void kern_join(kern *k) {
    join_in(k, k->root);
}
