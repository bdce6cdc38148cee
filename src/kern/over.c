/* over.c - where an output may be written over an input, both of which are arguments.
 *
 * A step of an optimizer makes new parameters of old ones, element by element. Where nobody wants
 * the old ones any more the new ones may lie in the same memory: half of the memory, and a store
 * finds its line in the cache. Who wants what is for the planner to know; whether a kernel bears it
 * is asked of the tree as it will be emitted, after its schedule and all passes:
 *
 *   - every load of the input is followed by a store to the output at the same index, in the same
 *     block, or is in that store's own value, and not where that is off: no trip reads what it has
 *     written,
 *   - different trips store different elements, and so do different stores: no trip reads what
 *     another one has written, however many threads there are,
 *   - stores are plain ones, and the output is never read.
 *
 * What is stored is not read again, so the order of an element's stores is free: those whose values
 * are made of most inputs come first (kern_order_stores), so that new moments, which are made of
 * the old ones alone, may replace these when the parameter has been made of all.
 *
 * Emitters keep loads and stores of a block in their order, but for those that tell a compiler that
 * arguments do not overlap (clike.c); programs of these must not be used so. */
#include "kern/kern.h"

typedef struct overlay {
    kern *k;
    kern_touch *touch;
    uint32_t touches;
    uint8_t *apart; /* by memory: 1: elements are stored once, 2: that is not known */
} overlay;

/* A store statement behind this one in its block (or it) that writes `out` at this index. Where a
 * store is off the element may be another trip's, but nobody wants the store's own value there. */
static bool stored_next(const overlay *o, const kern_touch *load, kmem out) {
    const kern *k = o->k;
    for (kstmt s = load->at; s; s = kern_s(k, s)->next) {
        const kern_stmt *x = kern_s(k, s);
        if (x->kind == KS_STORE && x->n == 1 && x->store.mem[0] == out)
            return x->store.index == load->index && !x->store.dyn && !x->store.guard &&
                   (s == load->at || x->store.valid == SYM_TRUE || x->store.valid == load->valid);
    }
    return false;
}

static bool loads_before(const overlay *o, kmem out, kmem in) {
    bool any = false;
    for (uint32_t i = 0; i < o->touches; i++) {
        const kern_touch *t = &o->touch[i];
        if (t->mem != in) continue;
        if (!t->load || t->dyn || t->guard || !stored_next(o, t, out)) return false;
        any = true;
    }
    return any;
}

static kstmt common_block(const kern *k, kstmt a, kstmt b) {
    for (a = kern_s(k, a)->parent;; a = kern_s(k, a)->parent)
        for (kstmt c = b; c; c = kern_s(k, c)->parent)
            if (a == c) return a;
}

/* Do these two stores write different elements in any trips of the loops that they do not share? */
static bool beside(kern *k, const kern_touch *a, const kern_touch *b) {
    kstmt top = common_block(k, a->at, b->at);
    for (int turn = 0; turn < 2; turn++) {
        const kern_touch *low = turn ? b : a, *high = turn ? a : b;
        sym last, first;
        if (!kern_extreme(k, low->at, top, low->index, true, &last) ||
            !kern_extreme(k, high->at, top, high->index, false, &first))
            return false;
        sym gap = sym_sub(k->syms, sym_sub(k->syms, first, last), SYM_ONE);
        if (kern_prove(k, top, gap, 0, NULL)) return true;
    }
    return false;
}

/* Does the store wait for the loop's last trip: has a loop on the way to it none before? */
static bool in_last_trip(kern *k, const kern_touch *t, kstmt loop) {
    sym_store *s = k->syms;
    const kern_stmt *l = kern_s(k, loop);
    sym before = sym_sub(s, sym_sub(s, l->l.extent, sym_const(s, 2)), l->l.var);
    for (kstmt p = kern_s(k, t->at)->parent; p != loop; p = kern_s(k, p)->parent)
        if (kern_prove(k, p, sym_scale(s, kern_s(k, p)->l.extent, -1), 1, &before)) return true;
    return false;
}

static bool stores_once(const overlay *o, kmem out) {
    kern *k = o->k;
    for (uint32_t i = 0; i < o->touches; i++) {
        const kern_touch *t = &o->touch[i];
        if (t->mem != out) continue;
        if (t->load || t->monoid != MONOID_SET || t->dyn || t->guard) return false;
        for (kstmt s = kern_s(k, t->at)->parent; s != k->root; s = kern_s(k, s)->parent)
            if (!kern_apart_for(k, s, out) && !in_last_trip(k, t, s)) return false;
        for (uint32_t j = 0; j < i; j++)
            if (o->touch[j].mem == out && !beside(k, &o->touch[j], t)) return false;
    }
    return true;
}

static bool bears(overlay *o, kmem out, kmem in) {
    const kern_memory *a = kern_m(o->k, out), *b = kern_m(o->k, in);
    if (b->scope != KERN_ARG || b->access & KERN_WRITE || a->dtype != b->dtype ||
        a->size != b->size || !loads_before(o, out, in))
        return false;
    if (!o->apart[out]) o->apart[out] = stores_once(o, out) ? 1 : 2;
    return o->apart[out] == 1;
}

int kern_overs(kern *k, int most, kern_over *over) {
    overlay o = {.k = k};
    int n = 0;
    o.apart = arena_zeroed(&k->arena, k->mems);
    o.touches = kern_touches(k, k->root, &o.touch);
    for (kmem out = 1; out < k->mems; out++) {
        const kern_memory *m = kern_m(k, out);
        if (m->scope != KERN_ARG || m->access != (KERN_WRITE | KERN_OVER)) continue;
        for (kmem in = 1; in < k->mems && n < most; in++)
            if (bears(&o, out, in))
                over[n++] = (kern_over){(uint16_t)m->arg, (uint16_t)kern_m(k, in)->arg};
    }
    return n;
}

void kern_write_over(kern *k, int out) {
    for (kmem m = 1; m < k->mems; m++) {
        kern_memory *x = kern_m(k, m);
        if (x->scope == KERN_ARG && x->arg == out) x->access |= KERN_OVER;
    }
}

/* ---- the order of stores --------------------------------------------------------------------- */

static bool stores_output(const kern *k, kstmt s) {
    const kern_stmt *x = kern_s(k, s);
    return x->kind == KS_STORE && x->n == 1 && x->monoid == MONOID_SET &&
           kern_m(k, x->store.mem[0])->scope == KERN_ARG &&
           kern_m(k, x->store.mem[0])->access == KERN_WRITE;
}

/* How many arguments as large as the output its value is made of, at the output's index. */
static int equals_read(kern *k, kstmt s) {
    kern_touch *t;
    uint32_t n = kern_touches(k, s, &t);
    const kern_stmt *x = kern_s(k, s);
    bool *seen = arena_zeroed(&k->arena, k->mems);
    int count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const kern_memory *m = kern_m(k, t[i].mem);
        if (!t[i].load || seen[t[i].mem] || t[i].index != x->store.index || m->scope != KERN_ARG ||
            m->size != kern_m(k, x->store.mem[0])->size)
            continue;
        seen[t[i].mem] = true;
        count++;
    }
    return count;
}

/* From this store on, a run of them by insertion: those that read most come first. */
static kstmt sort_stores(kern *k, kstmt first) {
    kstmt parent = kern_s(k, first)->parent, end = kern_s(k, first)->next, s;
    while (end && stores_output(k, end)) end = kern_s(k, end)->next;
    for (kstmt next = kern_s(k, first)->next; next != end; next = s) {
        s = kern_s(k, next)->next;
        kstmt at = first;
        while (at != next && equals_read(k, at) >= equals_read(k, next)) at = kern_s(k, at)->next;
        if (at == next) continue;
        kern_move(k, next, parent, at);
        if (at == first) first = next;
    }
    return end;
}

void kern_order_stores(kern *k) {
    for (kstmt b = k->root; b; b = kern_next(k, b, k->root))
        for (kstmt s = kern_s(k, b)->first; s;)
            s = stores_output(k, s) ? sort_stores(k, s) : kern_s(k, s)->next;
}
