/* inplace.c - in-place outputs: where an output argument may alias an input argument.
 *
 * A step of an optimizer computes new parameters from old ones, elementwise. Where the old ones are
 * dead the new ones may take their memory: half of the memory, and a store hits a line in the
 * cache. Liveness is the planner's business; whether a kernel allows it is decided on the tree as
 * it will be emitted, after its schedule and all passes:
 *
 *   - every load of the input is followed by a store to the output at the same index, in the same
 *     block, or is in that store's own value, and not where the store is masked off: no iteration
 *     reads what it has written,
 *   - different iterations store different elements, and so do different stores: no iteration reads
 *     what another one has written, whatever the number of threads,
 *   - stores are plain ones, and the output is never read.
 *
 * What is stored is not read again, so the order of an element's stores is free: those whose values
 * depend on most inputs come first (inplace_order_stores), so that new moments, which depend on the
 * old ones alone, may overwrite these after the parameter was computed from all.
 *
 * Emitters keep loads and stores of a block in their order, except those that tell a compiler that
 * arguments do not alias (clike.c); programs of these must not be used so. */
#include "lower/lower.h"

typedef struct overlay {
    kernel *k;
    ir_access *access;
    uint32_t accesses;
    uint8_t *distinct; /* by memory: 1: elements are stored once, 2: that is not known */
} overlay;

/* A store behind this access in its block (or itself) that writes `out` at this index. Where a
 * store is masked off the element may be another iteration's, but the store's own value is unused
 * there. */
static bool stored_next(const overlay *o, const ir_access *load, mem_id out) {
    const kernel *k = o->k;
    for (stmt_id s = load->at; s; s = ir_s(k, s)->next) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_STORE && x->n == 1 && x->store.mem[0] == out)
            return x->store.index == load->index && !x->store.dyn && !x->store.guard &&
                   (s == load->at || x->store.valid == SYM_TRUE || x->store.valid == load->valid);
    }
    return false;
}

static bool loads_before(const overlay *o, mem_id out, mem_id in) {
    bool any = false;
    for (uint32_t i = 0; i < o->accesses; i++) {
        const ir_access *t = &o->access[i];
        if (t->mem != in) continue;
        if (!t->load || t->dyn || t->guard || !stored_next(o, t, out)) return false;
        any = true;
    }
    return any;
}

static stmt_id common_block(const kernel *k, stmt_id a, stmt_id b) {
    for (a = ir_s(k, a)->parent;; a = ir_s(k, a)->parent)
        for (stmt_id c = b; c; c = ir_s(k, c)->parent)
            if (a == c) return a;
}

/* Do these two stores write different elements in any iterations of the loops that they do not
 * share? */
static bool beside(kernel *k, const ir_access *a, const ir_access *b) {
    stmt_id top = common_block(k, a->at, b->at);
    for (int turn = 0; turn < 2; turn++) {
        const ir_access *low = turn ? b : a, *high = turn ? a : b;
        sym last, first;
        if (!ir_extreme(k, low->at, top, low->index, true, &last) ||
            !ir_extreme(k, high->at, top, high->index, false, &first))
            return false;
        sym gap = sym_sub(k->syms, sym_sub(k->syms, first, last), SYM_ONE);
        if (ir_prove(k, top, gap, 0, NULL)) return true;
    }
    return false;
}

/* Does the store run in the loop's last iteration only: has an inner loop no iteration before? */
static bool in_last_trip(kernel *k, const ir_access *t, stmt_id loop) {
    sym_store *s = k->syms;
    const ir_stmt *l = ir_s(k, loop);
    sym before = sym_sub(s, sym_sub(s, l->l.extent, sym_const(s, 2)), l->l.var);
    for (stmt_id p = ir_s(k, t->at)->parent; p != loop; p = ir_s(k, p)->parent)
        if (ir_prove(k, p, sym_scale(s, ir_s(k, p)->l.extent, -1), 1, &before)) return true;
    return false;
}

static bool stores_once(const overlay *o, mem_id out) {
    kernel *k = o->k;
    for (uint32_t i = 0; i < o->accesses; i++) {
        const ir_access *t = &o->access[i];
        if (t->mem != out) continue;
        if (t->load || t->monoid != MONOID_SET || t->dyn || t->guard) return false;
        for (stmt_id s = ir_s(k, t->at)->parent; s != k->root; s = ir_s(k, s)->parent)
            if (!ir_no_carried_for(k, s, out) && !in_last_trip(k, t, s)) return false;
        for (uint32_t j = 0; j < i; j++)
            if (o->access[j].mem == out && !beside(k, &o->access[j], t)) return false;
    }
    return true;
}

static bool bears(overlay *o, mem_id out, mem_id in) {
    const ir_memory *a = ir_m(o->k, out), *b = ir_m(o->k, in);
    if (b->scope != MEM_ARG || b->access & ACCESS_WRITE || a->dtype != b->dtype ||
        a->size != b->size || !loads_before(o, out, in))
        return false;
    if (!o->distinct[out]) o->distinct[out] = stores_once(o, out) ? 1 : 2;
    return o->distinct[out] == 1;
}

int inplace_pairs(kernel *k, int most, inplace_pair *over) {
    overlay o = {.k = k};
    int n = rest_pairs(k, most, over);
    o.distinct = arena_zeroed(&k->arena, k->mems);
    o.accesses = ir_accesses(k, k->root, &o.access);
    for (mem_id out = 1; out < k->mems; out++) {
        const ir_memory *m = ir_m(k, out);
        if (m->scope != MEM_ARG || m->access != (ACCESS_WRITE | ACCESS_INPLACE)) continue;
        for (mem_id in = 1; in < k->mems && n < most; in++)
            if (bears(&o, out, in))
                over[n++] = (inplace_pair){(uint16_t)m->arg, (uint16_t)ir_m(k, in)->arg, false};
    }
    return n;
}

void inplace_mark(kernel *k, int out) {
    for (mem_id m = 1; m < k->mems; m++) {
        ir_memory *x = ir_m(k, m);
        if (x->scope == MEM_ARG && x->arg == out) x->access |= ACCESS_INPLACE;
    }
}

/* ---- the order of stores --------------------------------------------------------------------- */

static bool stores_output(const kernel *k, stmt_id s) {
    const ir_stmt *x = ir_s(k, s);
    return x->kind == STMT_STORE && x->n == 1 && x->monoid == MONOID_SET &&
           ir_m(k, x->store.mem[0])->scope == MEM_ARG &&
           (ir_m(k, x->store.mem[0])->access & ~ACCESS_ROW) == ACCESS_WRITE;
}

/* How many arguments of the output's size its value reads at the output's index. */
static int equals_read(kernel *k, stmt_id s) {
    ir_access *t;
    uint32_t n = ir_accesses(k, s, &t);
    const ir_stmt *x = ir_s(k, s);
    bool *seen = arena_zeroed(&k->arena, k->mems);
    int count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *m = ir_m(k, t[i].mem);
        if (!t[i].load || seen[t[i].mem] || t[i].index != x->store.index || m->scope != MEM_ARG ||
            m->size != ir_m(k, x->store.mem[0])->size)
            continue;
        seen[t[i].mem] = true;
        count++;
    }
    return count;
}

/* Sort a run of stores, from this one on, by insertion: those that read most come first. */
static stmt_id sort_stores(kernel *k, stmt_id first) {
    stmt_id parent = ir_s(k, first)->parent, end = ir_s(k, first)->next, s;
    while (end && stores_output(k, end)) end = ir_s(k, end)->next;
    for (stmt_id next = ir_s(k, first)->next; next != end; next = s) {
        s = ir_s(k, next)->next;
        stmt_id at = first;
        while (at != next && equals_read(k, at) >= equals_read(k, next)) at = ir_s(k, at)->next;
        if (at == next) continue;
        ir_move(k, next, parent, at);
        if (at == first) first = next;
    }
    return end;
}

void inplace_order_stores(kernel *k) {
    for (stmt_id b = k->root; b; b = ir_next(k, b, k->root))
        for (stmt_id s = ir_s(k, b)->first; s;)
            s = stores_output(k, s) ? sort_stores(k, s) : ir_s(k, s)->next;
}
