/* transform_stage.c - copy what a part of the kernel will load into a tile, in the order in which
 * it will be loaded: packing, im2col, transposition and zero-filled edges are all this.
 *
 * stage a i j..    for i { .. for j { .. a[index(i, j)] .. } }
 *     becomes      for i { def b[extents of j..]; for j_1 { b[j_1] = a[index(i, j_1)] }
 *                          .. for j { .. b[j] .. } }
 *
 * The loads meant are those of a, inside i, that use exactly the variables j.. of the loops inside
 * i (in index or validity); they must be one and the same formula, without computed offset or
 * guard. The tile is indexed by j.. row-major in the order given. An invalid load gives 0, so the
 * tile holds 0 there and the loads from it are valid always. With a dtype named the tile has that
 * one and the copy converts; each of the loads must be an argument of a cast to it.
 * Legal where nothing inside i stores to a. The extents of j.. must be free of the loops inside
 * i. */
#include "kern/kern.h"

typedef struct staging {
    kern *k;
    kmem from, to;
    kexpr load, value; /* value: what is copied, the load or a cast of it */
    sym index;         /* of the tile, by the variables of j.. */
} staging;

static kexpr stage_rewriter(kern *k, const kern_expr *e, void *user) {
    const staging *p = user;
    kern_expr old = *kern_e(k, p->value);
    bool meant = e->kind == old.kind && e->dtype == old.dtype;
    if (old.kind == KE_LOAD)
        meant = meant && e->load.mem == p->from && e->load.index == old.load.index &&
                e->load.valid == old.load.valid && !e->load.dyn && !e->load.guard;
    else
        meant = meant && e->op == OP_CAST && e->arg[0] == p->load;
    return meant ? kern_load(k, p->to, p->index, SYM_TRUE, 0, 0) : kern_rebuild(k, e, NULL);
}

/* Is the load only ever converted to the dtype? Looks at the expressions of s's subtree. */
static bool only_converted(kern *k, kstmt top, kexpr load, int dtype) {
    uint8_t *used = arena_zeroed(&k->arena, k->exprs);
    kexpr *slot[4];
    for (kstmt s = top; s; s = kern_next(k, s, top))
        for (int n = kern_stmt_exprs(kern_s(k, s), slot); n-- > 0;) {
            if (*slot[n] == load) return false;
            used[*slot[n]] = 1;
        }
    for (kexpr e = k->exprs; --e;) {
        if (!used[e]) continue;
        for (int n = kern_expr_args(kern_e(k, e), slot); n-- > 0;) {
            const kern_expr *x = kern_e(k, e);
            if (*slot[n] == load && (x->kind != KE_OP || x->op != OP_CAST || x->dtype != dtype))
                return false;
            used[*slot[n]] = 1;
        }
    }
    return true;
}

static bool load_uses(const kern *k, const kern_touch *t, kstmt loop) {
    sym var = kern_s(k, loop)->l.var;
    return sym_uses(k->syms, t->index, var) || sym_uses(k->syms, t->valid, var) ||
           (t->dyn && kern_expr_uses(k, t->dyn, var)) ||
           (t->guard && kern_expr_uses(k, t->guard, var));
}

static bool listed(kstmt loop, int n, const kstmt *loops) {
    for (int i = 0; i < n; i++)
        if (loops[i] == loop) return true;
    return false;
}

/* Does the load use exactly the listed ones of the loops between it and `at`? */
static bool meant(const kern *k, const kern_touch *t, kstmt at, int n, const kstmt *loops) {
    int used = 0;
    for (kstmt p = kern_s(k, t->at)->parent; p != at; p = kern_s(k, p)->parent) {
        if (!load_uses(k, t, p)) continue;
        if (!listed(p, n, loops)) return false;
        used++;
    }
    return used == n;
}

static bool loops_allowed(kern *k, kstmt at, int n, const kstmt *loops, str *why) {
    for (kstmt p = at; p; p = kern_s(k, p)->parent)
        if (kern_s(k, p)->loop == KERN_VEC)
            return kern_refuse(why, "a tile cannot be defined inside a vector loop");
    for (int i = 0; i < n; i++) {
        if (loops[i] == at || !kern_inside(k, loops[i], at) || listed(loops[i], i, loops))
            return kern_refuse(why, "the loops must be different ones inside that loop");
        for (kstmt s = at; (s = kern_next(k, s, at));)
            if (kern_s(k, s)->kind == KS_LOOP &&
                sym_uses(k->syms, kern_s(k, loops[i])->l.extent, kern_s(k, s)->l.var))
                return kern_refuse(why, "the extent of %s depends on a loop inside",
                                   sym_name(k->syms, kern_s(k, loops[i])->l.var));
    }
    return true;
}

static bool find_load(staging *p, kstmt at, int n, const kstmt *loops, str *why) {
    kern *k = p->k;
    kern_touch *t;
    uint32_t touches = kern_touches(k, at, &t);
    for (uint32_t i = 0; i < touches; i++) {
        if (t[i].mem != p->from) continue;
        if (!t[i].load) return kern_refuse(why, "the loop stores to that memory");
        if (!meant(k, &t[i], at, n, loops)) continue;
        if (t[i].dyn || t[i].guard) return kern_refuse(why, "a computed load cannot be staged");
        if (p->load && p->load != t[i].load)
            return kern_refuse(why, "different loads of that memory use these loops");
        p->load = t[i].load;
    }
    return p->load || kern_refuse(why, "no load of that memory uses exactly these loops");
}

/* Rooms and row-major index of the tile; its size. */
static bool lay_out(staging *p, int n, const kstmt *loops, sym *size, str *why) {
    kern *k = p->k;
    int64_t bytes = (int64_t)qn_dtype_size(kern_e(k, p->value)->dtype);
    *size = SYM_ONE;
    p->index = SYM_ZERO;
    for (int i = n; i-- > 0;) {
        sym room;
        if (!kern_room(k, loops[i], &room)) return kern_refuse(why, "a loop's trips have no bound");
        sym step = sym_mul(k->syms, kern_s(k, loops[i])->l.var, *size);
        p->index = sym_add(k->syms, p->index, step);
        *size = sym_mul(k->syms, *size, room);
        if (sym_overflowed(k->syms) || sym_hi(k->syms, *size) > KERN_TILE_BYTES / bytes)
            return kern_refuse(why, "the tile would get too large");
    }
    return true;
}

/* The copying nest, put in front of at's body. */
static void copy_in(staging *p, kstmt at, int n, const kstmt *loops) {
    kern *k = p->k;
    kstmt before = kern_s(k, at)->first, parent = at;
    sym from[COUNT_OF(((transform_args *)0)->loop)], to[COUNT_OF(from)];
    kstmt def = kern_def(k, at, p->to, 0);
    kern_unlink(k, def);
    kern_insert(k, def, at, before);
    for (int i = 0; i < n; i++) {
        from[i] = kern_s(k, loops[i])->l.var;
        kstmt loop = kern_loop(k, parent, KERN_SERIAL, sym_name(k->syms, from[i]),
                               kern_s(k, loops[i])->l.extent);
        if (i == 0) {
            kern_unlink(k, loop);
            kern_insert(k, loop, at, before);
        }
        to[i] = kern_s(k, loop)->l.var;
        parent = loop;
    }
    kexpr value = kern_subst_expr(k, p->value, n, from, to);
    sym index = sym_subst(k->syms, p->index, n, from, to);
    kern_store(k, parent, MONOID_SET, p->to, index, SYM_TRUE, value);
}

bool kern_stage(kern *k, kmem arg, kstmt at, int n, const kstmt *loops, int as, kern_scope scope,
                str *why) {
    staging p = {.k = k, .from = arg};
    sym size;
    if (kern_m(k, arg)->scope != KERN_ARG) return kern_refuse(why, "only an argument is staged");
    if (n < 1 || n > (int)COUNT_OF(((transform_args *)0)->loop))
        return kern_refuse(why, "no loops to stage by");
    if (!kern_divisible(k, at, why)) return false;
    if (!loops_allowed(k, at, n, loops, why) || !find_load(&p, at, n, loops, why)) return false;
    if (as >= 0 && !only_converted(k, at, p.load, as))
        return kern_refuse(why, "not each load of that memory is converted to that dtype");
    p.value = as < 0 ? p.load : kern_cast(k, (qn_dtype)as, p.load);
    if (!lay_out(&p, n, loops, &size, why)) return false;
    p.to = kern_tile(k, KERN_LOCAL, kern_e(k, p.value)->dtype, size);
    kern_rewrite(k, at, stage_rewriter, &p);
    copy_in(&p, at, n, loops);
    if (scope == KERN_REG && kern_in_registers(k, p.to, NULL)) kern_m(k, p.to)->scope = KERN_REG;
    return true;
}

bool transform_stage(kern *k, const transform_args *a, str *why) {
    return kern_stage(k, a->mem, a->loop[0], a->loops - 1, a->loop + 1, a->dtype, a->scope, why);
}
