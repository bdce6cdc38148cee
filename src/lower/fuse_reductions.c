/* fuse_reductions.c - fuse neighbouring reductions that read the same memory into one pass over it.
 *
 *   def s; for r { s += f(a[r]) }   ..   def t; for q { t max= g(a[q]) }   ..
 *
 * becomes, before anything is scheduled,
 *
 *   def s; def t; for r { s += f(a[r]); t max= g(a[r]) }   ..   ..
 *
 * Sums of a value and of its square, a norm's two parameter gradients: the second reduction finds
 * in a register what the first has loaded. It pays only where some load has the same index in both,
 * and is legal where the second reduction depends on nothing computed behind the beginning of the
 * first: its nest, of the same extents loop by loop, moves up to there. */
#include "lower/lower.h"

enum { DEEPEST = 16, MOST_FUSED = 4 }; /* loops of a nest; accumulators of one pass */

typedef struct nest { /* perfectly nested loops, updates of tiles by monoids in the innermost */
    stmt_id loop[DEEPEST], leaf;
    int depth, updates;
    ir_access *access;
    uint32_t accesses;
} nest;

/* An accumulator: a tile of one element that is only updated. */
static bool is_update(const kernel *k, stmt_id s) {
    const ir_stmt *x = ir_s(k, s);
    if (x->kind != STMT_STORE || !monoid_commutes(x->monoid) || x->store.dyn || x->store.guard)
        return false;
    for (int i = 0; i < x->n; i++) {
        const ir_memory *m = ir_m(k, x->store.mem[i]);
        if (m->scope == MEM_ARG || m->size != SYM_ONE) return false;
    }
    return true;
}

static bool read_nest(kernel *k, stmt_id loop, nest *n) {
    *n = (nest){.leaf = loop};
    for (;; n->leaf = ir_s(k, n->leaf)->first) {
        const ir_stmt *l = ir_s(k, n->leaf);
        if (l->kind != STMT_LOOP || l->loop != LOOP_SERIAL || !l->first || n->depth == DEEPEST)
            return false;
        n->loop[n->depth++] = n->leaf;
        if (l->first != l->last || ir_s(k, l->first)->kind != STMT_LOOP) break;
    }
    for (stmt_id s = ir_s(k, n->leaf)->first; s; s = ir_s(k, s)->next, n->updates++)
        if (!is_update(k, s)) return false;
    n->accesses = ir_accesses(k, loop, &n->access);
    return true;
}

static bool same_trips(const kernel *k, const nest *a, const nest *b) {
    if (a->depth != b->depth) return false;
    for (int i = 0; i < a->depth; i++)
        if (ir_s(k, a->loop[i])->l.extent != ir_s(k, b->loop[i])->l.extent) return false;
    return true;
}

/* The index of an access in b, by a's variables. */
static sym moved(kernel *k, const nest *a, const nest *b, sym place) {
    sym from[DEEPEST], to[DEEPEST];
    for (int i = 0; i < b->depth; i++) {
        from[i] = ir_s(k, b->loop[i])->l.var;
        to[i] = ir_s(k, a->loop[i])->l.var;
    }
    return sym_subst(k->syms, place, b->depth, from, to);
}

/* Does some load that depends on the innermost loop have the same index in both? */
static bool share_memory(kernel *k, const nest *a, const nest *b) {
    sym inner = ir_s(k, a->leaf)->l.var;
    for (uint32_t j = 0; j < b->accesses; j++) {
        const ir_access *t = &b->access[j];
        if (!t->load || t->dyn) continue;
        sym place = moved(k, a, b, t->index);
        if (!sym_uses(k->syms, place, inner)) continue;
        for (uint32_t i = 0; i < a->accesses; i++)
            if (a->access[i].load && !a->access[i].dyn && a->access[i].mem == t->mem &&
                a->access[i].index == place)
                return true;
    }
    return false;
}

static bool is_accessed(const nest *n, mem_id m, bool loads_only) {
    for (uint32_t i = 0; i < n->accesses; i++)
        if (n->access[i].mem == m && (!loads_only || n->access[i].load)) return true;
    return false;
}

/* Can b move to where a begins? The statements between, a among them, store nothing that b reads,
 * and do not access b's tiles except by their definitions. */
static bool moves_up(kernel *k, stmt_id a, const nest *b) {
    for (stmt_id s = a; s != b->loop[0]; s = ir_s(k, s)->next) {
        if (ir_s(k, s)->kind == STMT_DEF && is_accessed(b, ir_s(k, s)->def.mem, true)) return false;
        ir_access *t;
        uint32_t n = ir_accesses(k, s, &t);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < b->accesses; j++)
                if (b->access[j].mem == t[i].mem && !(b->access[j].load && t[i].load)) return false;
    }
    return true;
}

/* b's tiles are defined beside its loop, by values that read nothing. */
static bool own_tiles(kernel *k, const nest *b, stmt_id def[], int *defs) {
    *defs = 0;
    for (uint32_t j = 0; j < b->accesses; j++) {
        if (b->access[j].load) continue;
        ir_access *t;
        stmt_id s = ir_s(k, ir_s(k, b->loop[0])->parent)->first;
        while (s != b->loop[0] &&
               (ir_s(k, s)->kind != STMT_DEF || ir_s(k, s)->def.mem != b->access[j].mem))
            s = ir_s(k, s)->next;
        if (s == b->loop[0] || *defs == 2 * MOST_FUSED || ir_accesses(k, s, &t)) return false;
        def[(*defs)++] = s;
    }
    return true;
}

static bool fuse_nests(kernel *k, nest *a, const nest *b) {
    stmt_id def[2 * MOST_FUSED], parent = ir_s(k, a->loop[0])->parent;
    int defs;
    if (a->updates + b->updates > MOST_FUSED || !same_trips(k, a, b) || !share_memory(k, a, b) ||
        !moves_up(k, a->loop[0], b) || !own_tiles(k, b, def, &defs))
        return false;
    for (int i = 0; i < defs; i++) {
        ir_move(k, def[i], parent, a->loop[0]);
    }
    sym from[DEEPEST], to[DEEPEST];
    for (int i = 0; i < b->depth; i++) {
        from[i] = ir_s(k, b->loop[i])->l.var;
        to[i] = ir_s(k, a->loop[i])->l.var;
    }
    while (ir_s(k, b->leaf)->first) {
        stmt_id s = ir_s(k, b->leaf)->first;
        ir_move(k, s, a->leaf, 0);
        ir_subst(k, s, b->depth, from, to);
    }
    ir_unlink(k, b->loop[0]);
    return read_nest(k, a->loop[0], a);
}

static void fuse_block(kernel *k, stmt_id block) {
    for (stmt_id s = ir_s(k, block)->first; s; s = ir_s(k, s)->next) {
        if (ir_s(k, s)->kind != STMT_LOOP) continue;
        nest a, b;
        if (!read_nest(k, s, &a)) {
            fuse_block(k, s);
            continue;
        }
        for (stmt_id other = ir_s(k, s)->next, next; other; other = next) {
            next = ir_s(k, other)->next;
            if (ir_s(k, other)->kind == STMT_LOOP && read_nest(k, other, &b)) fuse_nests(k, &a, &b);
        }
    }
}

void fuse_reductions(kernel *k) {
    fuse_block(k, k->root);
}
