/* align.c - separate the iterations that fill whole lines of a memory from those at both ends.
 *
 *   align i a 16
 *               for i < e { a[i + b] = .. }
 *      becomes  for i_1 < h { a[i_1 + b] = .. }
 *               for i < 16*f { a[i + 16*c] = .. }
 *               for i_2 < e - h - 16*f { a[i_2 + 16*(c + f)] = .. }
 *      with     c = (b + 15)/16,  h = 16*c - b,  f = (e - h)/16
 *
 * A row of a matrix need not begin where a cache line does. Stores past the caches write whole
 * lines at multiples of their size, so what stands before the first such multiple and behind the
 * last one gets loops of its own. h is written so that b cancels in the index: it says by itself
 * where a line begins. b may depend on loops around.
 *
 * Always legal where the loop stores to the memory element by element and may not end before the
 * first line does: the order of iterations does not change. */
#include "transform/transform.h"

typedef struct aligning {
    kernel *k;
    stmt_id loop;
    int64_t n;  /* elements of a line */
    sym base;   /* the index in the loop's first iteration, which all of its stores share */
    sym before; /* iterations in front of the first line */
    sym lines;  /* iterations that fill lines */
} aligning;

/* Where the loop's stores to the memory begin; the loops inside have no say in it. */
static bool find_base(aligning *a, mem_id mem, str *why) {
    kernel *k = a->k;
    sym_store *s = k->syms;
    ir_access *t;
    uint32_t n = ir_accesses(k, a->loop, &t), stores = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t step;
        sym rest;
        if (t[i].load || t[i].mem != mem) continue;
        bool plain = !t[i].dyn && sym_split(s, t[i].index, ir_s(k, a->loop)->l.var, &step, &rest);
        if (!plain || step != 1)
            return ir_refuse(why, "the loop does not store to it element by element");
        if (stores++ && rest != a->base)
            return ir_refuse(why, "its stores begin at several places");
        a->base = rest;
    }
    for (stmt_id c = a->loop; (c = ir_next(k, c, a->loop));)
        if (stores && ir_s(k, c)->kind == STMT_LOOP && sym_uses(s, a->base, ir_s(k, c)->l.var))
            return ir_refuse(why, "where its stores begin depends on a loop inside");
    return stores || ir_refuse(why, "the loop does not store to it");
}

/* How many iterations stand in front of the first line, and fill lines. */
static bool count_trips(aligning *a, str *why) {
    kernel *k = a->k;
    sym_store *s = k->syms;
    sym n = sym_const(s, a->n), last = sym_const(s, a->n - 1);
    sym extent = ir_s(k, a->loop)->l.extent;
    sym first = sym_div(s, sym_add(s, a->base, last), n);
    a->before = sym_sub(s, sym_mul(s, first, n), a->base);
    if (a->before == SYM_ZERO) return ir_refuse(why, "it begins with a whole line");
    bool never = sym_hi(s, extent) < a->n - 1; /* inside an empty loop anything is proved */
    if (never || !ir_prove(k, ir_s(k, a->loop)->parent, sym_sub(s, extent, last), 0, NULL))
        return ir_refuse(why, "the loop may have fewer trips than a line has elements");
    a->lines = sym_mul(s, sym_div(s, sym_sub(s, extent, a->before), n), n);
    return ir_plain(k, a->before, why) && ir_plain(k, a->lines, why);
}

bool apply_align(kernel *k, const transform_args *args, transform_made *made, str *why) {
    aligning a = {.k = k, .loop = args->loop[0], .n = args->number};
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, a.loop);
    if (!transform_may_part(k, a.loop, "aligned", why)) return false;
    if (a.n < 2) return ir_refuse(why, "a line has more than one element");
    if (!find_base(&a, args->mem, why) || !count_trips(&a, why)) return false;
    sym end = sym_add(s, a.before, a.lines), after = sym_sub(s, l.l.extent, end);
    if (!ir_plain(k, after, why)) return false;
    stmt_id head = transform_copy(k, a.loop, a.loop), tail = transform_copy(k, a.loop, l.next);
    transform_take_trips(k, head, SYM_ZERO, a.before);
    transform_take_trips(k, tail, end, after);
    transform_take_trips(k, a.loop, a.before, a.lines);
    transform_report(k, made, head);
    transform_report(k, made, tail);
    return true;
}
