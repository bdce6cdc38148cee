/* transform_offset.c - the sign that a dot instruction wants.
 *
 * offset t u i   for i { .. for j { def t; for k { t[j] += u[k]*b[j, k] } .. } }
 *     becomes    for i { def c = 0; for j, k { c[j] += 128*b[j, k] }
 *                        .. for j { def t; for k { t[j] += u'[k]*b[j, k] }  t[j] += -c[j] .. } }
 *
 * where u' = u + 128 as u8 for a tile u of i8, or u - 128 as i8 (and -128 for 128 above) for one of
 * u8: the same bits but for the first of each byte. Instructions multiply unsigned bytes by signed
 * ones; so products of two signed or two unsigned bytes become ones they can do, at the price of
 * sums of the other factor. Those are made once for everything inside of i, where a product has
 * many rows a small part of its work. Integers wrap, so the result is the same to the bit.
 *
 * Legal where t is a tile of i32 in i that one statement in i updates, by the product of a cast of
 * u and a cast of b; u is a packed tile, written by one plain store and read only there; loops
 * around that update, inside of i, that move b are those of t's definition or make the same trips
 * for any trip of loops inside i; and nothing inside i stores to b's memory but in front of the
 * child of i that updates. */
#include "kern/kern.h"

enum { MOST_LOOPS = 16 };

typedef struct offsetting {
    kern *k;
    kmem tile, packed;
    kstmt at, def, update, copy;
    int factor;                /* which one is of `packed` */
    kstmt loop[MOST_LOOPS];    /* around the update inside `at` that move the other factor */
    bool summed[MOST_LOOPS];   /* and do not tell which element of the tile is meant */
    kstmt element[MOST_LOOPS]; /* behind the definition, that do tell */
    int loops, elements;       /* all outermost first */
} offsetting;

static kexpr narrow_of(const kern *k, kexpr factor) {
    const kern_expr *e = kern_e(k, factor);
    return e->kind == KE_OP && e->op == OP_CAST && e->dtype == QN_I32 ? e->arg[0] : 0;
}

/* The only statements that touch t and u: t's update, u's copy. */
static bool find_statements(offsetting *p, str *why) {
    kern *k = p->k;
    kern_touch *t;
    uint32_t n = kern_touches(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        bool inside = kern_inside(k, t[i].at, p->at);
        if (t[i].mem == p->tile && inside && !t[i].load && t[i].monoid == MONOID_SUM) {
            kexpr f[2];
            if (!kern_is_dot(k, kern_s(k, t[i].at), f)) continue;
            if (p->update) return kern_refuse(why, "several statements sum products in the tile");
            p->update = t[i].at;
        }
        if (t[i].mem == p->packed && !t[i].load) {
            if (p->copy || t[i].monoid != MONOID_SET || t[i].dyn || kern_s(k, t[i].at)->n != 1)
                return kern_refuse(why, "the packed tile is not written by one plain store");
            p->copy = t[i].at;
        }
    }
    for (kstmt s = k->root; s; s = kern_next(k, s, k->root)) {
        if (kern_s(k, s)->kind != KS_DEF) continue;
        if (kern_s(k, s)->def.mem == p->tile) p->def = s;
        if (kern_s(k, s)->def.mem == p->packed && kern_s(k, s)->def.value)
            return kern_refuse(why, "the packed tile has a first value");
    }
    if (!p->update || !p->copy) return kern_refuse(why, "no product with that tile is summed");
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == p->packed && t[i].load && t[i].at != p->update)
            return kern_refuse(why, "the packed tile is read elsewhere, too");
    return p->def || kern_refuse(why, "the sum is no tile");
}

static bool factors_fit(offsetting *p, str *why) {
    kern *k = p->k;
    const kern_stmt *u = kern_s(k, p->update);
    kexpr f[2];
    kern_is_dot(k, u, f);
    if (u->store.valid != SYM_TRUE) return kern_refuse(why, "some products are not summed");
    for (int i = 0; i < 2; i++) {
        kexpr e = narrow_of(k, f[i]), other = narrow_of(k, f[!i]);
        if (!e || !other || kern_e(k, e)->kind != KE_LOAD || kern_e(k, e)->load.mem != p->packed)
            continue;
        int d = kern_e(k, e)->dtype;
        if (d != kern_e(k, other)->dtype || (d != QN_I8 && d != QN_U8)) continue;
        if (kern_expr_reads(k, other, p->packed)) continue;
        if (kern_e(k, e)->load.valid != SYM_TRUE || kern_e(k, e)->load.dyn ||
            kern_e(k, e)->load.guard)
            continue;
        p->factor = i;
        return true;
    }
    return kern_refuse(why, "that is no product of equal bytes");
}

/* Can the loop be gone through elsewhere in its place's body, its extent free of loops in there? */
static bool movable(kern *k, kstmt loop, kstmt place, str *why) {
    for (kstmt s = place; (s = kern_next(k, s, place));)
        if (kern_s(k, s)->kind == KS_LOOP &&
            sym_uses(k->syms, kern_s(k, loop)->l.extent, kern_s(k, s)->l.var))
            return kern_refuse(why, "the extent of %s depends on a loop inside",
                               sym_name(k->syms, kern_s(k, loop)->l.var));
    return true;
}

/* The loops around the update: what they move. */
static bool find_loops(offsetting *p, str *why) {
    kern *k = p->k;
    kexpr f[2];
    kern_is_dot(k, kern_s(k, p->update), f);
    kstmt body = kern_s(k, p->def)->parent, around[64];
    int n = 0;
    for (kstmt l = kern_s(k, p->update)->parent; l != p->at; l = kern_s(k, l)->parent) {
        if (n == (int)COUNT_OF(around)) return kern_refuse(why, "too many loops");
        around[n++] = l;
    }
    while (n-- > 0) {
        kstmt l = around[n];
        sym var = kern_s(k, l)->l.var;
        bool inner = l != body && kern_inside(k, l, body);
        bool element = sym_uses(k->syms, kern_s(k, p->update)->store.index, var);
        bool moves = kern_expr_uses(k, f[!p->factor], var);
        if (p->loops == MOST_LOOPS || p->elements == MOST_LOOPS)
            return kern_refuse(why, "too many loops");
        if (inner && !element && !moves && kern_s(k, l)->l.extent != SYM_ONE)
            return kern_refuse(why, "%s adds one product several times", sym_name(k->syms, var));
        if (inner && element && !movable(k, l, body, why)) return false;
        if (inner && element) p->element[p->elements++] = l;
        if (!moves) continue;
        if (!movable(k, l, p->at, why)) return false;
        p->summed[p->loops] = inner && !element;
        p->loop[p->loops++] = l;
    }
    return true;
}

static kstmt child_of(const kern *k, kstmt parent, kstmt s) {
    while (kern_s(k, s)->parent != parent) s = kern_s(k, s)->parent;
    return s;
}

/* What the other factor reads is not stored to from the child of `at` that updates on; its tiles
 * are alive in front of it. */
static bool reads_early(const offsetting *p, str *why) {
    kern *k = p->k;
    kexpr f[2];
    kern_is_dot(k, kern_s(k, p->update), f);
    kstmt child = child_of(k, p->at, p->update);
    for (kstmt s = child; s; s = kern_s(k, s)->next)
        for (kstmt c = s; c; c = kern_next(k, c, s)) {
            const kern_stmt *t = kern_s(k, c);
            for (int i = 0; t->kind == KS_STORE && i < t->n; i++)
                if (kern_expr_reads(k, f[!p->factor], t->store.mem[i]))
                    return kern_refuse(why, "the other factor is stored to");
            if (t->kind == KS_DEF && kern_expr_reads(k, f[!p->factor], t->def.mem))
                return kern_refuse(why, "the other factor's tile is not there yet");
        }
    return true;
}

static bool allowed(offsetting *p, str *why) {
    kern *k = p->k;
    if (kern_s(k, p->at)->kind != KS_LOOP || kern_m(k, p->tile)->scope == KERN_ARG ||
        kern_m(k, p->packed)->scope != KERN_LOCAL || kern_m(k, p->tile)->dtype != QN_I32)
        return kern_refuse(why, "no sum of i32 and packed tile");
    if (!find_statements(p, why) || !factors_fit(p, why)) return false;
    if (!kern_inside(k, kern_s(k, p->def)->parent, p->at))
        return kern_refuse(why, "the sum is not defined in that loop");
    for (kstmt s = p->at; s; s = kern_s(k, s)->parent)
        if (kern_s(k, s)->loop == KERN_VEC || kern_s(k, s)->loop == KERN_WORD)
            return kern_refuse(why, "a tile cannot be defined inside a vector loop");
    return kern_divisible(k, p->at, why) && kern_divisible(k, kern_s(k, p->def)->parent, why) &&
           find_loops(p, why) && reads_early(p, why);
}

/* Row-major over the loops that are not summed over. */
static bool lay_out(const offsetting *p, sym *index, sym *size, str *why) {
    kern *k = p->k;
    *index = SYM_ZERO;
    *size = SYM_ONE;
    for (int i = p->loops; i-- > 0;) {
        sym room;
        if (p->summed[i]) continue;
        if (!kern_room(k, p->loop[i], &room)) return kern_refuse(why, "a loop has no bound");
        sym step = sym_mul(k->syms, kern_s(k, p->loop[i])->l.var, *size);
        *index = sym_add(k->syms, *index, step);
        *size = sym_mul(k->syms, *size, room);
        if (sym_overflowed(k->syms) || sym_hi(k->syms, *size) > KERN_TILE_BYTES / 4)
            return kern_refuse(why, "the tile would get too large");
    }
    return true;
}

/* In front of `before` (0: at the end) in `parent`, in copies of the loops around each other:
 * to[index] += value. */
static void add_in(const offsetting *p, kstmt parent, kstmt before, int n, const kstmt *loop,
                   kmem mem, sym index, kexpr value) {
    kern *k = p->k;
    sym from[MOST_LOOPS] = {0}, to[MOST_LOOPS] = {0};
    kstmt in = parent, first = 0;
    for (int i = 0; i < n; i++) {
        const kern_stmt l = *kern_s(k, loop[i]);
        from[i] = l.l.var;
        in = kern_loop(k, in, KERN_SERIAL, sym_name(k->syms, l.l.var), l.l.extent);
        to[i] = kern_s(k, in)->l.var;
        if (!first) first = in;
    }
    value = kern_subst_expr(k, value, n, from, to);
    index = sym_subst(k->syms, index, n, from, to);
    kstmt store = kern_store(k, in, MONOID_SUM, mem, index, SYM_TRUE, value);
    if (!first) first = store;
    kern_move(k, first, parent, before);
}

/* def c = 0; for .. c[j] += 128*b   in front of the child of `at` that updates. */
static void sum_up(const offsetting *p, kmem c, sym index, kexpr other, int64_t number) {
    kern *k = p->k;
    kstmt child = child_of(k, p->at, p->update);
    kstmt def = kern_def(k, p->at, c, kern_const_i(k, QN_I32, 0));
    kern_move(k, def, p->at, child);
    kexpr value = kern_op2(k, OP_MUL, kern_const_i(k, QN_I32, number), other);
    add_in(p, p->at, child, p->loops, p->loop, c, index, value);
}

/* t[..] += -c[..]   behind the sum. */
static void take_off(const offsetting *p, kmem c, sym index) {
    kern *k = p->k;
    kstmt body = kern_s(k, p->def)->parent, child = child_of(k, body, p->update);
    kexpr value = kern_op1(k, OP_NEG, kern_load(k, c, index, SYM_TRUE, 0, 0));
    add_in(p, body, kern_s(k, child)->next, p->elements, p->element, p->tile,
           kern_s(k, p->update)->store.index, value);
}

/* The packed tile's bytes by the other sign. */
static void turn_sign(const offsetting *p, int to, kexpr *packed) {
    kern *k = p->k;
    kern_stmt *copy = kern_s(k, p->copy);
    kexpr as = kern_op(k, OP_BITCAST, (qn_dtype)to, 1, &copy->store.value[0]);
    kexpr value = kern_op2(k, OP_XOR, as, kern_const_i(k, (qn_dtype)to, to == QN_U8 ? 128 : -128));
    kern_s(k, p->copy)->store.value[0] = value;
    kern_m(k, p->packed)->dtype = (uint8_t)to;
    sym index = kern_e(k, *packed)->load.index;
    *packed = kern_load(k, p->packed, index, SYM_TRUE, 0, 0);
}

bool kern_offset(kern *k, kmem tile, kmem packed, kstmt at, str *why) {
    offsetting p = {.k = k, .tile = tile, .packed = packed, .at = at};
    sym index, size;
    kexpr f[2];
    if (!allowed(&p, why) || !lay_out(&p, &index, &size, why)) return false;
    kern_is_dot(k, kern_s(k, p.update), f);
    kexpr load = narrow_of(k, f[p.factor]);
    bool is_signed = kern_e(k, load)->dtype == QN_I8;
    kmem c = kern_tile(k, KERN_LOCAL, QN_I32, size);
    sum_up(&p, c, index, f[!p.factor], is_signed ? 128 : -128);
    take_off(&p, c, index);
    turn_sign(&p, is_signed ? QN_U8 : QN_I8, &load);
    f[p.factor] = kern_cast(k, QN_I32, load);
    kern_s(k, p.update)->store.value[0] = kern_op2(k, OP_MUL, f[0], f[1]);
    if (kern_m(k, tile)->scope == KERN_REG && !kern_in_registers(k, tile, NULL))
        kern_m(k, tile)->scope = KERN_LOCAL;
    return true;
}

bool transform_offset(kern *k, const transform_args *a, str *why) {
    return kern_offset(k, a->mem, a->mem2, a->loop[0], why);
}
