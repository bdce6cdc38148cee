/* transform_bind.c - how a loop runs: serial, par, vec, unroll, thread or word.
 *
 *   par     a root loop whose trips share no element that one of them stores to; every root must be
 *           a loop and independent of the others
 *   vec     at most KERN_LANES trips, no vector loop around or inside, no tile defined inside (move
 *           it out first: `tile`), the lanes of one mind about inner trips, and no two lanes that
 *           meet in an element, but to update it all together
 *   unroll  a constant number of trips, at most UNROLL_MOST
 *   word    2 or 4 trips around one store
 *   thread  trips that share no element that one of them stores to; directly in or around another
 *           thread loop or apart from any, in no vector loop, no barriers inside
 *   serial  always, unless a tile in registers rests on the loop being what it is, or it is a
 *           thread loop between two others */
#include "kern/kern.h"

enum { UNROLL_MOST = 256 };

static bool vec_allowed(kern *k, kstmt loop, str *why) {
    const kern_stmt *l = kern_s(k, loop);
    int64_t most = kern_most_trips(k, loop);
    if (most < 1 || most > KERN_LANES)
        return kern_refuse(why, "a vector has 1 to %d lanes", KERN_LANES);
    for (kstmt s = l->parent; s; s = kern_s(k, s)->parent)
        if (kern_s(k, s)->loop == KERN_VEC) return kern_refuse(why, "a vector loop is around it");
    for (kstmt s = loop; (s = kern_next(k, s, loop));) {
        const kern_stmt *t = kern_s(k, s);
        if (t->kind == KS_DEF) return kern_refuse(why, "a tile is defined inside");
        if (t->kind == KS_STORE && t->monoid == MONOID_SET &&
            !sym_uses(k->syms, t->store.index, l->l.var) &&
            !(t->store.dyn && kern_expr_uses(k, t->store.dyn, l->l.var)))
            return kern_refuse(why, "all lanes would store to one element");
        if (t->kind != KS_LOOP) continue;
        if (t->loop == KERN_VEC) return kern_refuse(why, "a vector loop is inside it");
        if (sym_uses(k->syms, t->l.extent, l->l.var))
            return kern_refuse(why, "lanes would differ in trips of %s",
                               sym_name(k->syms, t->l.var));
    }
    return kern_apart(k, loop, loop, KERN_LOCKSTEP, why);
}

static bool par_allowed(kern *k, kstmt loop, str *why) {
    if (kern_s(k, loop)->parent != k->root)
        return kern_refuse(why, "only a root loop can be parallel");
    return kern_roots_apart(k, why) && kern_apart(k, loop, loop, KERN_AT_ONCE, why);
}

static bool unroll_allowed(kern *k, kstmt loop, str *why) {
    int64_t n;
    if (!sym_is_const(k->syms, kern_s(k, loop)->l.extent, &n))
        return kern_refuse(why, "the extent is not constant");
    return n <= UNROLL_MOST || kern_refuse(why, "more than %d trips", UNROLL_MOST);
}

static bool word_allowed(kern *k, kstmt loop, str *why) {
    const kern_stmt *l = kern_s(k, loop);
    int64_t n;
    if (!sym_is_const(k->syms, l->l.extent, &n) || (n != 2 && n != 4))
        return kern_refuse(why, "a word has 2 or 4 parts");
    return (l->first && l->first == l->last && kern_s(k, l->first)->kind == KS_STORE) ||
           kern_refuse(why, "a store is not all that the loop does");
}

/* Do the tiles that are in registers still have their place there? */
static bool registers_kept(kern *k, str *why) {
    for (kmem m = 1; m < k->mems; m++)
        if (kern_m(k, m)->scope == KERN_REG && !kern_in_registers(k, m, why)) return false;
    return true;
}

bool kern_bind(kern *k, kstmt loop, kern_loop_kind kind, str *why) {
    uint8_t before = kern_s(k, loop)->loop;
    if (kind == KERN_VEC && !vec_allowed(k, loop, why)) return false;
    if (kind == KERN_PAR && !par_allowed(k, loop, why)) return false;
    if (kind == KERN_UNROLL && !unroll_allowed(k, loop, why)) return false;
    if (kind == KERN_WORD && !word_allowed(k, loop, why)) return false;
    if (kind == KERN_THREAD && !kern_apart(k, loop, loop, KERN_AT_ONCE, why)) return false;
    kern_s(k, loop)->loop = (uint8_t)kind;
    if (kern_nests_fit(k, why) && registers_kept(k, why)) return true;
    kern_s(k, loop)->loop = before;
    return false;
}

bool transform_serial(kern *k, const transform_args *a, str *why) {
    return kern_bind(k, a->loop[0], KERN_SERIAL, why);
}

bool transform_par(kern *k, const transform_args *a, str *why) {
    return kern_bind(k, a->loop[0], KERN_PAR, why);
}

bool transform_vec(kern *k, const transform_args *a, str *why) {
    return kern_bind(k, a->loop[0], KERN_VEC, why);
}

bool transform_unroll(kern *k, const transform_args *a, str *why) {
    return kern_bind(k, a->loop[0], KERN_UNROLL, why);
}

bool transform_thread(kern *k, const transform_args *a, str *why) {
    return kern_bind(k, a->loop[0], KERN_THREAD, why);
}

bool transform_word(kern *k, const transform_args *a, str *why) {
    return kern_bind(k, a->loop[0], KERN_WORD, why);
}

/* ---- writing past the caches ----------------------------------------------------------------- */

bool transform_bypass(kern *k, const transform_args *a, str *why) {
    kern_memory *m = kern_m(k, a->mem);
    if (m->scope != KERN_ARG || m->access != KERN_WRITE)
        return kern_refuse(why,
                           "only an argument that is written and not read goes past the caches");
    m->access |= KERN_BYPASS;
    return true;
}

bool transform_prefetch(kern *k, const transform_args *a, str *why) {
    kern_memory *m = kern_m(k, a->mem);
    if (m->scope != KERN_ARG || !(m->access & KERN_READ))
        return kern_refuse(why, "only an argument that is read is prefetched");
    if (a->number > KERN_AHEAD) return kern_refuse(why, "nothing is prefetched so far ahead");
    m->ahead = (int)a->number;
    return true;
}
