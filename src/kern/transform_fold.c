/* transform_fold.c - a tile combined in halves instead of one element after the other.
 *
 *   fold r    for r < 8 { t op= w[r] }
 *     becomes for r_1 < 4 { w[r_1] op= w[r_1 + 4] }
 *             for r_2 < 2 { w[r_2] op= w[r_2 + 2] }
 *             for r_3 < 1 { w[r_3] op= w[r_3 + 1] }    ->    w[0] op= w[1]
 *             t op= w[0]
 *
 * The trips of each new loop touch different elements, so members of a group can share them: eight
 * steps where there were 256. It is what `multi_step` leaves behind that is folded. The monoid is
 * associative and commutative, so the result stays (floating sums are reassociated).
 * Legal where r's extent is a constant, its one statement updates by a monoid something that r does
 * not choose, by w[r + base] without a condition, and nobody reads w afterwards: its definition
 * stands beside r, and no access comes behind r. */
#include "kern/kern.h"

enum { MOST_FOLDED = 65536 };

typedef struct folding {
    kern_stmt store;
    kmem from[KERN_STATES];
    sym base;
    int64_t count;
} folding;

/* The store's value number i is w[r + base], plainly. */
static bool read_value(kern *k, folding *f, sym var, int i, str *why) {
    const kern_expr *e = kern_e(k, f->store.store.value[i]);
    sym base;
    int64_t step;
    if (e->kind != KE_LOAD || kern_m(k, e->load.mem)->scope == KERN_ARG || e->load.dyn ||
        e->load.guard || e->load.valid != SYM_TRUE)
        return kern_refuse(why, "what is combined is no element of a tile");
    if (!sym_split(k->syms, e->load.index, var, &step, &base) || step != 1 ||
        (i && base != f->base))
        return kern_refuse(why, "the loop does not walk the tile element by element");
    for (int c = 0; c < i; c++)
        if (f->from[c] == e->load.mem) return kern_refuse(why, "two components are one tile");
    for (int c = 0; c < f->store.n; c++)
        if (f->store.store.mem[c] == e->load.mem)
            return kern_refuse(why, "the tile is combined into itself");
    f->from[i] = e->load.mem;
    f->base = base;
    return true;
}

/* w begins its life in the same block, and ends it with the loop. */
static bool read_last(kern *k, kstmt loop, kmem w, str *why) {
    kstmt parent = kern_s(k, loop)->parent;
    bool defined = false;
    for (kstmt s = kern_s(k, parent)->first; s != loop; s = kern_s(k, s)->next)
        defined |= kern_s(k, s)->kind == KS_DEF && kern_s(k, s)->def.mem == w;
    if (!defined) return kern_refuse(why, "the tile is not defined beside the loop");
    for (kstmt s = kern_s(k, loop)->next; s; s = kern_s(k, s)->next) {
        kern_touch *t;
        uint32_t n = kern_touches(k, s, &t);
        for (uint32_t i = 0; i < n; i++)
            if (t[i].mem == w) return kern_refuse(why, "the tile is used behind the loop");
    }
    return true;
}

static bool read_loop(kern *k, kstmt loop, folding *f, str *why) {
    const kern_stmt l = *kern_s(k, loop);
    if (l.loop != KERN_SERIAL && l.loop != KERN_UNROLL)
        return kern_refuse(why, "only a serial or unrolled loop can be folded");
    if (!l.first || l.first != l.last || kern_s(k, l.first)->kind != KS_STORE)
        return kern_refuse(why, "the loop does more than one store");
    f->store = *kern_s(k, l.first);
    if (f->store.monoid == MONOID_SET || sym_uses(k->syms, f->store.store.index, l.l.var) ||
        f->store.store.valid != SYM_TRUE || f->store.store.dyn || f->store.store.guard)
        return kern_refuse(why, "the loop does not just update one element");
    if (!sym_is_const(k->syms, l.l.extent, &f->count) || f->count < 1 || f->count > MOST_FOLDED)
        return kern_refuse(why, "the loop has no constant number of trips to fold");
    for (int i = 0; i < f->store.n; i++)
        if (!read_value(k, f, l.l.var, i, why) || !read_last(k, loop, f->from[i], why))
            return false;
    return kern_divisible(k, l.parent, why);
}

/* for r < n { w[r] op= w[r + half] } in front of the loop. */
static void add_step(kern *k, kstmt before, const folding *f, const char *name, int64_t half,
                     int64_t n) {
    sym_store *s = k->syms;
    kstmt parent = kern_s(k, before)->parent;
    kstmt r = kern_loop(k, parent, KERN_SERIAL, name, sym_const(s, n));
    kern_move(k, r, parent, before);
    sym at = sym_add(s, f->base, kern_trip(k, r)), other = sym_add(s, at, sym_const(s, half));
    kern_stmt step = {.kind = KS_STORE, .monoid = f->store.monoid, .n = f->store.n};
    step.store.index = at;
    step.store.valid = SYM_TRUE;
    for (int i = 0; i < step.n; i++) {
        step.store.mem[i] = f->from[i];
        step.store.value[i] = kern_load(k, f->from[i], other, SYM_TRUE, 0, 0);
    }
    kern_store_n(k, r, &step);
}

bool kern_fold(kern *k, kstmt loop, str *why) {
    folding f = {.base = SYM_ZERO};
    if (!read_loop(k, loop, &f, why)) return false;
    const char *name = sym_name(k->syms, kern_s(k, loop)->l.var);
    for (int64_t n = f.count; n > 1;) {
        int64_t half = (n + 1) / 2;
        add_step(k, loop, &f, name, half, n - half);
        n = half;
    }
    sym var = kern_s(k, loop)->l.var, zero = SYM_ZERO;
    kstmt store = kern_s(k, loop)->first;
    kern_subst(k, store, 1, &var, &zero);
    kern_move(k, store, kern_s(k, loop)->parent, loop);
    kern_unlink(k, loop);
    for (int i = 0; i < f.store.n; i++)
        if (kern_m(k, f.from[i])->scope == KERN_REG && !kern_in_registers(k, f.from[i], NULL))
            kern_m(k, f.from[i])->scope = KERN_LOCAL;
    return true;
}

bool transform_fold(kern *k, const transform_args *a, str *why) {
    return kern_fold(k, a->loop[0], why);
}
