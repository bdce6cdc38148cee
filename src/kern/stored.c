/* stored.c - is every element of a tile stored before it is read?
 *
 * A tile that is defined without a value holds nothing. What a kernel reads there is anything, and
 * compiled code may read it as something else each time: an offset and the guard that bounds it
 * need not agree, so a kernel whose accesses are proved could still leave its memories. The
 * compiler's own kernels store first, by how they are made; of text from elsewhere it is asked
 * here.
 *
 * What is proved is what kernels do. In the block of the definition there is a statement, the
 * filler, whose loops store every element, unconditionally, by a number written in their variables
 * as digits; all that reads stands behind it, or is within it, behind the store, at the same
 * index. An update by a monoid reads. */
#include "kern/kern.h"

enum { DIGITS = 12 };

/* Do the loops from the filler down to the store count through [0, size)? */
static bool covers(kern *k, kstmt filler, const kern_touch *store) {
    sym_store *s = k->syms;
    sym index = store->index, step = SYM_ONE, var[DIGITS], extent[DIGITS], rest;
    int n = 0;
    if (store->monoid != MONOID_SET || store->valid != SYM_TRUE || store->dyn || store->guard)
        return false;
    for (kstmt p = kern_s(k, store->at)->parent; p; p = kern_s(k, p)->parent) {
        if (!kern_inside(k, p, filler)) break;
        if (n == DIGITS) return false;
        extent[n] = kern_s(k, p)->l.extent;
        var[n++] = kern_s(k, p)->l.var;
    }
    for (bool found = true; found;) { /* the digit of that step, and then the next */
        found = false;
        for (int i = 0; i < n && !found; i++) {
            sym coef;
            if (!var[i] || !sym_uses(s, index, var[i])) continue;
            if (!kern_linear(k, index, var[i], &coef, &rest) || coef != step) continue;
            index = rest;
            step = sym_mul(s, step, extent[i]);
            var[i] = 0;
            found = true;
        }
    }
    return index == SYM_ZERO && !sym_overflowed(s) && step == kern_m(k, store->mem)->size;
}

/* Before `at`, counting what stands in front in its blocks and theirs. */
static bool stands_behind(const kern *k, kstmt at, kstmt filler) {
    for (; at && at != k->root; at = kern_s(k, at)->parent)
        for (kstmt s = kern_s(k, at)->prev; s; s = kern_s(k, s)->prev)
            if (s == filler) return true;
    return false;
}

/* A read within the filler: of what this very trip has stored. */
static bool just_stored(const kern *k, const kern_touch *t, const kern_touch *store) {
    return t->load && t->index == store->index && !t->dyn && stands_behind(k, t->at, store->at);
}

static bool fills(kern *k, kstmt filler, const kern_touch *store, const kern_touch *t, uint32_t n) {
    if (!covers(k, filler, store)) return false;
    for (uint32_t i = 0; i < n; i++) {
        bool reads = t[i].load || t[i].monoid != MONOID_SET;
        if (t[i].mem != store->mem || !reads || stands_behind(k, t[i].at, filler)) continue;
        if (!kern_inside(k, t[i].at, filler) || !just_stored(k, &t[i], store)) return false;
    }
    return true;
}

/* The child of the block that `at` is in, 0: it is in none. */
static kstmt child_of(const kern *k, kstmt block, kstmt at) {
    while (at && kern_s(k, at)->parent != block) at = kern_s(k, at)->parent;
    return at;
}

static bool tile_stored(kern *k, kstmt def, const kern_touch *t, uint32_t n) {
    kmem m = kern_s(k, def)->def.mem;
    bool read = false;
    for (uint32_t i = 0; i < n; i++) read |= t[i].mem == m && (t[i].load || t[i].monoid);
    for (uint32_t i = 0; i < n && read; i++) {
        if (t[i].mem != m || t[i].load) continue;
        kstmt filler = child_of(k, kern_s(k, def)->parent, t[i].at);
        if (filler && fills(k, filler, &t[i], t, n)) return true;
    }
    return !read;
}

bool kern_stored_first(kern *k, str *why) {
    kern_touch *t;
    uint32_t n = kern_touches(k, k->root, &t);
    (void)sym_overflowed(k->syms);
    for (kstmt s = kern_next(k, k->root, k->root); s; s = kern_next(k, s, k->root)) {
        const kern_stmt *d = kern_s(k, s);
        if (d->kind != KS_DEF || d->def.value || tile_stored(k, s, t, n)) continue;
        if (d->line) kern_refuse(why, "line %u: ", d->line);
        return kern_refuse(why, "t%d may be read where nothing was stored to it",
                           kern_tile_number(k, kern_s(k, s)->def.mem));
    }
    return true;
}
