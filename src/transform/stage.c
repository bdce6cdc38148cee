/* stage.c - copy what a part of the kernel will load into a tile, in the order in which it will be
 * loaded (packing, im2col, transposed and zero-filled copies; TVM's cache_read).
 *
 * stage a i j..    for i { .. for j { .. a[index(i, j)] .. } }
 *     becomes      for i { def b[extents of j..]; for j_1 { b[j_1] = a[index(i, j_1)] }
 *                          .. for j { .. b[j] .. } }
 *
 * The loads replaced are those of a, inside i, whose index or mask uses exactly the variables j..
 * of the loops inside i; they must be one and the same expression, without computed offset or
 * guard. The tile is indexed by j.. row-major in the order given. An invalid load gives 0, so the
 * tile holds 0 there and its loads are always valid. With a dtype the tile has that dtype and the
 * copy converts; each of the loads must be the argument of a cast to it.
 *
 * stage a i j + k l joins loops: the load must depend on j and k by a sum s = m*j + n*k alone, and
 * the tile has one axis for s. An element that several pairs (j, k) load is copied once: the
 * windows of a convolution, which overlap, are staged as the part of the image that they cover.
 *
 * Legal where nothing inside i stores to a, and the extents of j.. are free of the loops inside
 * i. */
#include "transform/transform.h"

enum { STAGE_LOOPS = COUNT_OF(((transform_args *)0)->loop) };

typedef struct staging {
    kernel *k;
    mem_id from, tile;
    expr_id load, value; /* value: what is copied, the load or a cast of it */
    int n;
    const stmt_id *loops;
    uint32_t joined; /* bit i: loop i shares the axis of loop i - 1 */
    sym index;       /* of the tile, by the variables of j.. */
    sym place;       /* and by the variables of the tile's axes */
    /* By loop: its variable, and that in terms of its axis. By an axis's first loop: */
    sym from_var[STAGE_LOOPS], to[STAGE_LOOPS];
    sym var[STAGE_LOOPS], sum[STAGE_LOOPS], extent[STAGE_LOOPS];
} staging;

static expr_id stage_rewriter(kernel *k, const ir_expr *e, void *user) {
    const staging *p = user;
    ir_expr old = *ir_e(k, p->value);
    bool is_replaced = e->kind == old.kind && e->dtype == old.dtype;
    if (old.kind == EXPR_LOAD)
        is_replaced = is_replaced && e->load.mem == p->from && e->load.index == old.load.index &&
                      e->load.valid == old.load.valid && !e->load.dyn && !e->load.guard;
    else
        is_replaced = is_replaced && e->op == OP_CAST && e->arg[0] == p->load;
    return is_replaced ? ir_load(k, p->tile, p->index, SYM_TRUE, 0, 0) : ir_rebuild(k, e, NULL);
}

/* Is the load only ever converted to the dtype, in the subtree of `top`? */
static bool only_converted(kernel *k, stmt_id top, expr_id load, int dtype) {
    uint8_t *used = arena_zeroed(&k->arena, k->exprs);
    expr_id *slot[4];
    for (stmt_id s = top; s; s = ir_next(k, s, top))
        for (int n = ir_stmt_exprs(ir_s(k, s), slot); n-- > 0;) {
            if (*slot[n] == load) return false;
            used[*slot[n]] = 1;
        }
    for (expr_id e = k->exprs; --e;) {
        if (!used[e]) continue;
        for (int n = ir_expr_args(ir_e(k, e), slot); n-- > 0;) {
            const ir_expr *x = ir_e(k, e);
            if (*slot[n] == load && (x->kind != EXPR_OP || x->op != OP_CAST || x->dtype != dtype))
                return false;
            used[*slot[n]] = 1;
        }
    }
    return true;
}

static bool load_uses(const kernel *k, const ir_access *t, stmt_id loop) {
    sym var = ir_s(k, loop)->l.var;
    return sym_uses(k->syms, t->index, var) || sym_uses(k->syms, t->valid, var) ||
           (t->dyn && ir_expr_uses(k, t->dyn, var)) || (t->guard && ir_expr_uses(k, t->guard, var));
}

static bool listed(stmt_id loop, int n, const stmt_id *loops) {
    for (int i = 0; i < n; i++)
        if (loops[i] == loop) return true;
    return false;
}

/* Does the load use exactly the listed ones among the loops between it and `at`? */
static bool is_replaced(const kernel *k, const ir_access *t, stmt_id at, int n,
                        const stmt_id *loops) {
    int used = 0;
    for (stmt_id p = ir_s(k, t->at)->parent; p != at; p = ir_s(k, p)->parent) {
        if (!load_uses(k, t, p)) continue;
        if (!listed(p, n, loops)) return false;
        used++;
    }
    return used == n;
}

bool transform_axes_allowed(kernel *k, stmt_id at, int n, const stmt_id *loops, str *why) {
    if (!ir_outside_vectors(k, at, why)) return false;
    for (int i = 0; i < n; i++) {
        if (loops[i] == at || !ir_inside(k, loops[i], at))
            return ir_refuse(why, "the loops must be inside that loop");
        if (listed(loops[i], i, loops)) return ir_refuse(why, "a loop is named twice");
        for (stmt_id s = at; (s = ir_next(k, s, at));)
            if (ir_s(k, s)->kind == STMT_LOOP &&
                sym_uses(k->syms, ir_s(k, loops[i])->l.extent, ir_s(k, s)->l.var))
                return ir_refuse(why, "the extent of %s depends on a loop inside",
                                 sym_name(k->syms, ir_s(k, loops[i])->l.var));
    }
    return true;
}

static bool find_load(staging *p, stmt_id at, int n, const stmt_id *loops, str *why) {
    kernel *k = p->k;
    ir_access *t;
    uint32_t accesses = ir_accesses(k, at, &t);
    for (uint32_t i = 0; i < accesses; i++) {
        if (t[i].mem != p->from) continue;
        if (!t[i].load) return ir_refuse(why, "the loop stores to that memory");
        if (!is_replaced(k, &t[i], at, n, loops)) continue;
        if (t[i].dyn || t[i].guard) return ir_refuse(why, "a computed load cannot be staged");
        if (p->load && p->load != t[i].load)
            return ir_refuse(why, "different loads of that memory use these loops");
        p->load = t[i].load;
    }
    return p->load || ir_refuse(why, "no load of that memory uses exactly these loops");
}

/* Join loops first..last into one axis of `extent` elements, in units of their steps' common
 * divisor, from 0 up. In the copy, a loop that steps by one unit stands for the others, which stay
 * at 0. */
static bool add_up(staging *p, int first, int last, sym *extent, str *why) {
    kernel *k = p->k;
    sym_store *s = k->syms;
    sym index = ir_e(k, p->load)->load.index, rest, zero = SYM_ZERO, sum = SYM_ZERO;
    int64_t times[STAGE_LOOPS], unit = 0;
    int keep = -1;
    p->extent[first] = *extent = SYM_ONE;
    for (int i = first; i <= last; i++) {
        times[i] = 1;
        if (first < last && !sym_split(s, index, p->from_var[i], &times[i], &rest))
            return ir_refuse(why, "joined loops must move the load by constant steps");
        unit = sym_gcd(unit, times[i]);
    }
    if (!unit) return ir_refuse(why, "joined loops that do not move the load");
    for (int i = first; i <= last; i++) {
        sym trips;
        if (!ir_known_extent(k, p->loops[i], &trips))
            return ir_refuse(why, "a loop's trips have no bound");
        times[i] /= unit;
        int64_t size = times[i] < 0 ? -times[i] : times[i];
        if (size == 1) keep = i;
        sym most = sym_sub(s, ir_s(k, p->loops[i])->l.extent, SYM_ONE);
        if (times[i] < 0) zero = sym_add(s, zero, sym_scale(s, most, size));
        p->extent[first] = sym_add(s, p->extent[first], sym_scale(s, most, size));
        *extent = sym_add(s, *extent, sym_scale(s, sym_sub(s, trips, SYM_ONE), size));
        sum = sym_add(s, sum, sym_scale(s, p->from_var[i], times[i]));
        p->to[i] = SYM_ZERO;
    }
    if (keep < 0) return ir_refuse(why, "none of the joined loops moves the load by one unit");
    p->sum[first] = sym_add(s, sum, zero);
    p->var[first] = sym_loop(s, sym_name(s, p->from_var[first]), p->extent[first]);
    p->to[keep] =
        times[keep] < 0 ? sym_sub(s, zero, p->var[first]) : sym_sub(s, p->var[first], zero);
    return true;
}

/* Extents and row-major index of the tile; its size. */
static bool index_tile(staging *p, sym *size, str *why) {
    kernel *k = p->k;
    sym_store *s = k->syms;
    int64_t bytes = (int64_t)qn_dtype_size(ir_e(k, p->value)->dtype);
    *size = SYM_ONE;
    p->index = p->place = SYM_ZERO;
    for (int i = 0; i < p->n; i++) p->from_var[i] = ir_s(k, p->loops[i])->l.var;
    for (int i = p->n; i-- > 0;) {
        int last = i;
        sym extent;
        while (p->joined >> i & 1) i--;
        if (!add_up(p, i, last, &extent, why)) return false;
        p->index = sym_add(s, p->index, sym_mul(s, p->sum[i], *size));
        p->place = sym_add(s, p->place, sym_mul(s, p->var[i], *size));
        *size = sym_mul(s, *size, extent);
        if (sym_overflowed(s) || sym_hi(s, *size) > IR_TILE_BYTES / bytes)
            return ir_refuse(why, "the tile would get too large");
    }
    return true;
}

/* Does the load depend on joined loops by their sums alone? */
static bool by_sums(const staging *p, str *why) {
    const ir_expr *e = ir_e(p->k, p->load);
    sym_store *s = p->k->syms;
    sym var[STAGE_LOOPS], sum[STAGE_LOOPS];
    int n = 0;
    if (!p->joined) return true;
    for (int i = 0; i < p->n; i++)
        if (!(p->joined >> i & 1)) var[n] = p->var[i], sum[n++] = p->sum[i];
    const sym is[2] = {e->load.index, e->load.valid};
    for (int i = 0; i < 2; i++) {
        sym by_axis = sym_subst(s, is[i], p->n, p->from_var, p->to);
        if (sym_subst(s, by_axis, n, var, sum) != is[i])
            return ir_refuse(why, "the load depends on joined loops by more than their sum");
    }
    return true;
}

/* The copying nest, at the top of at's body. */
static void copy_in(staging *p, stmt_id at, transform_made *made) {
    kernel *k = p->k;
    stmt_id before = ir_s(k, at)->first, parent = at;
    sym old[STAGE_LOOPS], trip[STAGE_LOOPS], to[STAGE_LOOPS];
    int axes = 0;
    stmt_id def = ir_def(k, at, p->tile, 0);
    ir_move(k, def, at, before);
    for (int i = 0; i < p->n; i++) {
        if (p->joined >> i & 1) continue;
        const char *name = sym_name(k->syms, p->from_var[i]);
        stmt_id loop = ir_loop(k, parent, LOOP_SERIAL, name, p->extent[i]);
        ir_s(k, loop)->l.want = ir_s(k, p->loops[i])->l.want;
        transform_report(k, made, loop);
        if (parent == at) {
            ir_move(k, loop, at, before);
        }
        old[axes] = p->var[i];
        trip[axes++] = ir_s(k, loop)->l.var;
        parent = loop;
    }
    for (int i = 0; i < p->n; i++) to[i] = sym_subst(k->syms, p->to[i], axes, old, trip);
    expr_id value = ir_subst_expr(k, p->value, p->n, p->from_var, to);
    sym place = sym_subst(k->syms, p->place, axes, old, trip);
    ir_store(k, parent, MONOID_SET, (ir_place){p->tile, place, SYM_TRUE}, value);
}

bool apply_stage(kernel *k, const transform_args *a, transform_made *made, str *why) {
    sym size;
    stmt_id at = a->loop[0];
    const stmt_id *loops = a->loop + 1;
    int n = a->loops - 1, as = a->dtype;
    uint32_t joined = a->joined >> 1;
    if (ir_m(k, a->mem)->scope != MEM_ARG) return ir_refuse(why, "only an argument is staged");
    if (n < 1 || n > STAGE_LOOPS || (joined & 1))
        return ir_refuse(why, "no loops to stage by, or too many");
    staging *p = arena_zeroed(&k->arena, sizeof *p);
    *p = (staging){.k = k, .from = a->mem, .n = n, .loops = loops, .joined = joined};
    if (!ir_divisible(k, at, why)) return false;
    if (!transform_axes_allowed(k, at, n, loops, why) || !find_load(p, at, n, loops, why))
        return false;
    if (as >= 0 && !only_converted(k, at, p->load, as))
        return ir_refuse(why, "not each load of that memory is converted to that dtype");
    p->value = as < 0 ? p->load : ir_cast(k, (qn_dtype)as, p->load);
    if (!index_tile(p, &size, why) || !by_sums(p, why)) return false;
    p->tile = made->tile = ir_tile(k, MEM_LOCAL, ir_e(k, p->value)->dtype, size);
    ir_rewrite(k, at, stage_rewriter, p);
    copy_in(p, at, made);
    if (a->scope == MEM_REG && ir_in_registers(k, p->tile, NULL)) ir_m(k, p->tile)->scope = MEM_REG;
    return true;
}
