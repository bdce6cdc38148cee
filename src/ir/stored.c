/* stored.c - is every element of a tile stored before it is read?
 *
 * A tile that is defined without a value holds nothing. A read there may give anything, and
 * compiled code may give something else at each read: an offset and the guard that bounds it need
 * not agree, so a kernel whose accesses are proved could still leave its memories. The compiler's
 * own kernels store first by construction; text from elsewhere is checked here.
 *
 * The proof follows what kernels do. In the block of the definition there is a statement, the
 * filler, whose loops store every element, without a mask, at an index that counts in their
 * variables as digits; all reads are behind it, or within it, behind the store, at the same index.
 * An update by a monoid reads. */
#include "ir/ir.h"

enum { DIGITS = 12 };

/* Do the loops from the filler down to the store count through [0, size)? */
static bool covers(kernel *k, stmt_id filler, const ir_access *store) {
    sym_store *s = k->syms;
    sym index = store->index, step = SYM_ONE, var[DIGITS], extent[DIGITS], rest;
    int n = 0;
    if (store->monoid != MONOID_SET || store->valid != SYM_TRUE || store->dyn || store->guard)
        return false;
    for (stmt_id p = ir_s(k, store->at)->parent; p; p = ir_s(k, p)->parent) {
        if (!ir_inside(k, p, filler)) break;
        if (n == DIGITS) return false;
        extent[n] = ir_s(k, p)->l.extent;
        var[n++] = ir_s(k, p)->l.var;
    }
    for (bool found = true; found;) { /* the digit of that step, and then the next */
        found = false;
        for (int i = 0; i < n && !found; i++) {
            sym coef;
            if (!var[i] || !sym_uses(s, index, var[i])) continue;
            if (!ir_linear(k, index, var[i], &coef, &rest) || coef != step) continue;
            index = rest;
            step = sym_mul(s, step, extent[i]);
            var[i] = 0;
            found = true;
        }
    }
    return index == SYM_ZERO && !sym_overflowed(s) && step == ir_m(k, store->mem)->size;
}

/* Is the filler before `at`, in one of the blocks around `at`? */
static bool stands_behind(const kernel *k, stmt_id at, stmt_id filler) {
    for (; at && at != k->root; at = ir_s(k, at)->parent)
        for (stmt_id s = ir_s(k, at)->prev; s; s = ir_s(k, s)->prev)
            if (s == filler) return true;
    return false;
}

/* A read within the filler: of what this very iteration has stored. */
static bool just_stored(const kernel *k, const ir_access *t, const ir_access *store) {
    return t->load && t->index == store->index && !t->dyn && stands_behind(k, t->at, store->at);
}

static bool fills(kernel *k, stmt_id filler, const ir_access *store, const ir_access *t,
                  uint32_t n) {
    if (!covers(k, filler, store)) return false;
    for (uint32_t i = 0; i < n; i++) {
        bool reads = t[i].load || t[i].monoid != MONOID_SET;
        if (t[i].mem != store->mem || !reads || stands_behind(k, t[i].at, filler)) continue;
        if (!ir_inside(k, t[i].at, filler) || !just_stored(k, &t[i], store)) return false;
    }
    return true;
}

/* The child of the block that `at` is in, 0: it is in none. */
static stmt_id child_of(const kernel *k, stmt_id block, stmt_id at) {
    while (at && ir_s(k, at)->parent != block) at = ir_s(k, at)->parent;
    return at;
}

static bool tile_stored(kernel *k, stmt_id def, const ir_access *t, uint32_t n) {
    mem_id m = ir_s(k, def)->def.mem;
    bool read = false;
    for (uint32_t i = 0; i < n; i++) read |= t[i].mem == m && (t[i].load || t[i].monoid);
    for (uint32_t i = 0; i < n && read; i++) {
        if (t[i].mem != m || t[i].load) continue;
        stmt_id filler = child_of(k, ir_s(k, def)->parent, t[i].at);
        if (filler && fills(k, filler, &t[i], t, n)) return true;
    }
    return !read;
}

bool ir_stored_first(kernel *k, str *why) {
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    (void)sym_overflowed(k->syms);
    for (stmt_id s = ir_next(k, k->root, k->root); s; s = ir_next(k, s, k->root)) {
        const ir_stmt *d = ir_s(k, s);
        if (d->kind != STMT_DEF || d->def.value || tile_stored(k, s, t, n)) continue;
        if (d->line) ir_refuse(why, "line %u: ", d->line);
        return ir_refuse(why, "t%d may be read where nothing was stored to it",
                         ir_tile_number(k, ir_s(k, s)->def.mem));
    }
    return true;
}
