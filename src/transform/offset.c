/* offset.c - change the signedness of an operand for dot instructions (unsigned by signed bytes).
 *
 * offset t u i   for i { .. for j { def t; for k { t[j] += u[k]*b[j, k] } .. } }
 *     becomes    for i { def c = 0; for j, k { c[j] += 128*b[j, k] }
 *                        .. for j { def t; for k { t[j] += u'[k]*b[j, k] }  t[j] += -c[j] .. } }
 *
 * where u' = u + 128 as u8 for a tile u of i8, or u - 128 as i8 (and -128 for 128 above) for one of
 * u8: the same bits with the top bit of each byte flipped. Dot instructions multiply unsigned bytes
 * by signed ones; so products of two signed or two unsigned bytes become such products, at the
 * price of the sums of the other operand. These are computed once for everything inside of i, a
 * small part of the work where the product has many rows. Integers wrap, so the result is exact.
 *
 * Legal where t is an i32 tile in i that one statement in i updates, by the product of a cast of u
 * and a cast of b; u is a packed tile, written by one plain store and read only there; the loops
 * around that update, inside of i, that b depends on are loops around t's definition or have
 * extents that do not depend on loops inside i; and nothing inside i stores to b's memory except in
 * front of the child of i that holds the update. */
#include "transform/transform.h"

enum { MOST_LOOPS = 16 };

typedef struct offsetting {
    kernel *k;
    mem_id tile, packed;
    stmt_id at, def, update, copy;
    int factor; /* which factor reads `packed` */
    stmt_id loop
        [MOST_LOOPS]; /* around the update, inside `at`: loops that the other factor depends on */
    bool summed
        [MOST_LOOPS]; /* of these, reduction loops: the tile's index does not depend on them */
    stmt_id
        element[MOST_LOOPS]; /* loops behind the definition that the tile's index does depend on */
    int loops, elements;     /* outermost first */
} offsetting;

static expr_id narrow_of(const kernel *k, expr_id factor) {
    const ir_expr *e = ir_e(k, factor);
    return e->kind == EXPR_OP && e->op == OP_CAST && e->dtype == QN_I32 ? e->arg[0] : 0;
}

/* Find the only statements that access t and u: t's update and u's copy. */
static bool find_statements(offsetting *p, str *why) {
    kernel *k = p->k;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        bool inside = ir_inside(k, t[i].at, p->at);
        if (t[i].mem == p->tile && inside && !t[i].load) {
            expr_id f[2];
            if (!ir_adds_product(k, t[i].at, f)) continue;
            if (p->update) return ir_refuse(why, "several statements sum products in the tile");
            p->update = t[i].at;
        }
        if (t[i].mem == p->packed && !t[i].load) {
            if (p->copy || t[i].monoid != MONOID_SET || t[i].dyn || ir_s(k, t[i].at)->n != 1)
                return ir_refuse(why, "the packed tile is not written by one plain store");
            p->copy = t[i].at;
        }
    }
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) {
        if (ir_s(k, s)->kind != STMT_DEF) continue;
        if (ir_s(k, s)->def.mem == p->tile) p->def = s;
        if (ir_s(k, s)->def.mem == p->packed && ir_s(k, s)->def.value)
            return ir_refuse(why, "the packed tile has a first value");
    }
    if (!p->update || !p->copy) return ir_refuse(why, "no product with that tile is summed");
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == p->packed && t[i].load && t[i].at != p->update)
            return ir_refuse(why, "the packed tile is read elsewhere, too");
    return p->def || ir_refuse(why, "the sum is no tile");
}

static bool factors_fit(offsetting *p, str *why) {
    kernel *k = p->k;
    const ir_stmt *u = ir_s(k, p->update);
    expr_id f[2];
    ir_adds_product(k, p->update, f);
    if (u->store.valid != SYM_TRUE) return ir_refuse(why, "some products are not summed");
    for (int i = 0; i < 2; i++) {
        expr_id e = narrow_of(k, f[i]), other = narrow_of(k, f[!i]);
        if (!e || !other || ir_e(k, e)->kind != EXPR_LOAD || ir_e(k, e)->load.mem != p->packed)
            continue;
        int d = ir_e(k, e)->dtype;
        if (d != ir_e(k, other)->dtype || (d != QN_I8 && d != QN_U8)) continue;
        if (ir_expr_reads(k, other, p->packed)) continue;
        if (ir_e(k, e)->load.valid != SYM_TRUE || ir_e(k, e)->load.dyn || ir_e(k, e)->load.guard)
            continue;
        p->factor = i;
        return true;
    }
    return ir_refuse(why, "that is no product of equal bytes");
}

/* Can the loop be copied to the top of `place`: is its extent free of the loops in there? */
static bool movable(kernel *k, stmt_id loop, stmt_id place, str *why) {
    for (stmt_id s = place; (s = ir_next(k, s, place));)
        if (ir_s(k, s)->kind == STMT_LOOP &&
            sym_uses(k->syms, ir_s(k, loop)->l.extent, ir_s(k, s)->l.var))
            return ir_refuse(why, "the extent of %s depends on a loop inside",
                             sym_name(k->syms, ir_s(k, loop)->l.var));
    return true;
}

/* Find the loops around the update that the other factor depends on. */
static bool find_loops(offsetting *p, str *why) {
    kernel *k = p->k;
    expr_id f[2];
    ir_adds_product(k, p->update, f);
    stmt_id body = ir_s(k, p->def)->parent, around[64];
    int n = 0;
    for (stmt_id l = ir_s(k, p->update)->parent; l != p->at; l = ir_s(k, l)->parent) {
        if (n == (int)COUNT_OF(around)) return ir_refuse(why, "too many loops");
        around[n++] = l;
    }
    while (n-- > 0) {
        stmt_id l = around[n];
        sym var = ir_s(k, l)->l.var;
        bool inner = l != body && ir_inside(k, l, body);
        bool element = sym_uses(k->syms, ir_s(k, p->update)->store.index, var);
        bool moves = ir_expr_uses(k, f[!p->factor], var);
        if (p->loops == MOST_LOOPS || p->elements == MOST_LOOPS)
            return ir_refuse(why, "too many loops");
        if (inner && !element && !moves && ir_s(k, l)->l.extent != SYM_ONE)
            return ir_refuse(why, "%s adds one product several times", sym_name(k->syms, var));
        if (inner && element && !movable(k, l, body, why)) return false;
        if (inner && element) p->element[p->elements++] = l;
        if (!moves) continue;
        if (!movable(k, l, p->at, why)) return false;
        p->summed[p->loops] = inner && !element;
        p->loop[p->loops++] = l;
    }
    return true;
}

static stmt_id child_of(const kernel *k, stmt_id parent, stmt_id s) {
    while (ir_s(k, s)->parent != parent) s = ir_s(k, s)->parent;
    return s;
}

/* What the other factor reads is not stored to from the child of `at` with the update on; its tiles
 * are alive in front of that child. */
static bool reads_early(const offsetting *p, str *why) {
    kernel *k = p->k;
    expr_id f[2];
    ir_adds_product(k, p->update, f);
    stmt_id child = child_of(k, p->at, p->update);
    for (stmt_id s = child; s; s = ir_s(k, s)->next)
        for (stmt_id c = s; c; c = ir_next(k, c, s)) {
            const ir_stmt *t = ir_s(k, c);
            for (int i = 0; t->kind == STMT_STORE && i < t->n; i++)
                if (ir_expr_reads(k, f[!p->factor], t->store.mem[i]))
                    return ir_refuse(why, "the other factor is stored to");
            if (t->kind == STMT_DEF && ir_expr_reads(k, f[!p->factor], t->def.mem))
                return ir_refuse(why, "the other factor's tile is not there yet");
        }
    return true;
}

static bool allowed(offsetting *p, str *why) {
    kernel *k = p->k;
    if (ir_s(k, p->at)->kind != STMT_LOOP || ir_m(k, p->tile)->scope == MEM_ARG ||
        ir_m(k, p->packed)->scope != MEM_LOCAL || ir_m(k, p->tile)->dtype != QN_I32)
        return ir_refuse(why, "no sum of i32 and packed tile");
    if (!find_statements(p, why) || !factors_fit(p, why)) return false;
    if (!ir_inside(k, ir_s(k, p->def)->parent, p->at))
        return ir_refuse(why, "the sum is not defined in that loop");
    for (stmt_id s = p->at; s; s = ir_s(k, s)->parent)
        if (ir_s(k, s)->loop == LOOP_VEC || ir_s(k, s)->loop == LOOP_WORD)
            return ir_refuse(why, "a tile cannot be defined inside a vector loop");
    return ir_divisible(k, p->at, why) && ir_divisible(k, ir_s(k, p->def)->parent, why) &&
           find_loops(p, why) && reads_early(p, why);
}

/* Row-major index over the loops that are not reduction loops. */
static bool correction_index(const offsetting *p, sym *index, sym *size, str *why) {
    kernel *k = p->k;
    *index = SYM_ZERO;
    *size = SYM_ONE;
    for (int i = p->loops; i-- > 0;) {
        sym extent;
        if (p->summed[i]) continue;
        if (!ir_known_extent(k, p->loop[i], &extent)) return ir_refuse(why, "a loop has no bound");
        sym step = sym_mul(k->syms, ir_s(k, p->loop[i])->l.var, *size);
        *index = sym_add(k->syms, *index, step);
        *size = sym_mul(k->syms, *size, extent);
        if (sym_overflowed(k->syms) || sym_hi(k->syms, *size) > IR_TILE_BYTES / 4)
            return ir_refuse(why, "the tile would get too large");
    }
    return true;
}

/* Loops, outermost first. */
typedef struct nest {
    int n;
    const stmt_id *loop;
} nest;

/* In front of `before` (0: at the end) in `parent`, in copies of the loops: sum += value. */
static void add_update(kernel *k, stmt_id parent, stmt_id before, const nest *loops, ir_place sum,
                       expr_id value) {
    sym from[MOST_LOOPS] = {0}, to[MOST_LOOPS] = {0};
    stmt_id in = parent, first = 0;
    for (int i = 0; i < loops->n; i++) {
        const ir_stmt l = *ir_s(k, loops->loop[i]);
        from[i] = l.l.var;
        in = ir_loop(k, in, LOOP_SERIAL, sym_name(k->syms, l.l.var), l.l.extent);
        ir_s(k, in)->l.want = l.l.want;
        ir_s(k, in)->l.terms = l.l.terms;
        to[i] = ir_s(k, in)->l.var;
        if (!first) first = in;
    }
    value = ir_subst_expr(k, value, loops->n, from, to);
    sum.index = sym_subst(k->syms, sum.index, loops->n, from, to);
    stmt_id store = ir_store(k, in, MONOID_SUM, sum, value);
    if (!first) first = store;
    ir_move(k, first, parent, before);
}

/* def c = 0; for .. c[j] += 128*b   in front of the child of `at` with the update. */
static void sum_correction(const offsetting *p, mem_id c, sym index, expr_id other,
                           int64_t number) {
    kernel *k = p->k;
    stmt_id child = child_of(k, p->at, p->update);
    stmt_id def = ir_def(k, p->at, c, ir_const_i(k, QN_I32, 0));
    ir_move(k, def, p->at, child);
    expr_id value = ir_op2(k, OP_MUL, ir_const_i(k, QN_I32, number), other);
    add_update(k, p->at, child, &(nest){p->loops, p->loop}, (ir_place){c, index, SYM_TRUE}, value);
}

/* t[..] += -c[..]   behind the reduction. */
static void subtract_correction(const offsetting *p, mem_id c, sym index) {
    kernel *k = p->k;
    stmt_id body = ir_s(k, p->def)->parent, child = child_of(k, body, p->update);
    expr_id value = ir_op1(k, OP_NEG, ir_load(k, c, index, SYM_TRUE, 0, 0));
    ir_place sum = {p->tile, ir_s(k, p->update)->store.index, SYM_TRUE};
    add_update(k, body, ir_s(k, child)->next, &(nest){p->elements, p->element}, sum, value);
}

/* Flip the top bit of the packed tile's bytes. */
static void flip_sign(const offsetting *p, int to, expr_id *packed) {
    kernel *k = p->k;
    ir_stmt *copy = ir_s(k, p->copy);
    expr_id as = ir_op(k, OP_BITCAST, (qn_dtype)to, 1, &copy->store.value[0]);
    expr_id value = ir_op2(k, OP_XOR, as, ir_const_i(k, (qn_dtype)to, to == QN_U8 ? 128 : -128));
    ir_s(k, p->copy)->store.value[0] = value;
    ir_m(k, p->packed)->dtype = (uint8_t)to;
    sym index = ir_e(k, *packed)->load.index;
    *packed = ir_load(k, p->packed, index, SYM_TRUE, 0, 0);
}

bool transform_offset(kernel *k, mem_id tile, mem_id packed, stmt_id at, transform_made *made,
                      str *why) {
    offsetting p = {.k = k, .tile = tile, .packed = packed, .at = at};
    sym index, size;
    expr_id f[2];
    if (!allowed(&p, why) || !correction_index(&p, &index, &size, why)) return false;
    ir_adds_product(k, p.update, f);
    expr_id load = narrow_of(k, f[p.factor]);
    bool is_signed = ir_e(k, load)->dtype == QN_I8;
    mem_id c = ir_tile(k, MEM_LOCAL, QN_I32, size);
    made->tile = c;
    sum_correction(&p, c, index, f[!p.factor], is_signed ? 128 : -128);
    subtract_correction(&p, c, index);
    flip_sign(&p, is_signed ? QN_U8 : QN_I8, &load);
    f[p.factor] = ir_cast(k, QN_I32, load);
    ir_s(k, p.update)->store.value[0] = ir_op2(k, OP_MUL, f[0], f[1]);
    if (ir_m(k, tile)->scope == MEM_REG && !ir_in_registers(k, tile, NULL))
        ir_m(k, tile)->scope = MEM_LOCAL;
    return true;
}

bool apply_offset(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_offset(k, a->mem, a->mem2, a->loop[0], made, why);
}
