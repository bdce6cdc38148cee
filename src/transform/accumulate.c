/* accumulate.c - accumulators that become tiles: one for each iteration of a loop (accumulate), or
 * one for each iteration of a reduction (rfactor, as in Halide and TVM).
 *
 * accumulate t i  for i { def t; for k { t += a(i,k); } c[i] = f(t) }
 *     becomes     def t[extent of i]; for k { for i { t[i] += a(i,k) } } for i_1 { c[i_1] =
 *                 f(t[i_1]) }
 *
 *   This makes a register tile: applied to the two innermost loops over a matrix product's output
 *   (jr and ir) it leaves the reduction outside and the tile's loops inside, to be unrolled and
 *   vectorized.
 *   All tiles defined directly in i's body grow together. The rest of the body is distributed
 *   statement by statement. Loop i goes into a serial loop if the growing tiles are not indexed by
 *   that loop's variable, the loop defines no tile itself, and its extent does not depend on i; it
 *   goes around anything else, and neighbours share one loop. The first loop i keeps its name. An
 *   initial value that depends on i becomes a store in front.
 *   Legal where there is no loop-carried dependence on i, but for updates by one monoid.
 *   The new index is i*size + index, so the loop accumulated over first varies fastest.
 *
 * accumulate_through t i   is the same, but i goes into loops that define tiles, too, around all of
 *   their bodies: a sum of what is itself summed up, of which i can be moved further inside.
 *
 * rfactor t r       def t; for .. { for r { t += x } }
 *     becomes       def t; def w[extent of r] = identity; for .. { for r { w[r] += x } }
 *                   for r_1 { t += w[r_1] }
 *
 *   The result is the same by associativity and commutativity (sums of floats are reassociated).
 *   Legal where, from the beginning of the loops around r to their end, t is only updated, inside
 *   r, by one statement, and of a sum whose grouping is said only where w's elements are its lanes,
 *   chains or parts (ir/grouping.c). The index of w is r*size + t's index, so with several rfactors
 *   the first varies fastest; where t has several elements, all of them are combined. */
#include "transform/transform.h"

/* The size of the tile once it has `times` as many elements, if that stays reasonable. */
static bool grown(kernel *k, mem_id tile, sym times, sym *size, str *why) {
    *size = sym_mul(k->syms, times, ir_m(k, tile)->size);
    int64_t bytes = (int64_t)qn_dtype_size(ir_m(k, tile)->dtype);
    if (!sym_overflowed(k->syms) && sym_hi(k->syms, *size) <= IR_TILE_BYTES / bytes) return true;
    return ir_refuse(why, "the tile would get too large");
}

/* Tiles whose indices change: index becomes var*size + index. */
typedef struct growth {
    const bool *grows; /* of memories */
    mem_id mems;
    sym var;
} growth;

static sym grown_index(kernel *k, const growth *g, mem_id m, sym index) {
    return sym_add(k->syms, sym_mul(k->syms, g->var, ir_m(k, m)->size), index);
}

static expr_id growth_rewriter(kernel *k, const ir_expr *e, void *user) {
    const growth *g = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD && row.load.mem < g->mems && g->grows[row.load.mem])
        row.load.index = grown_index(k, g, row.load.mem, row.load.index);
    return ir_rebuild(k, &row, NULL);
}

static void grow_accesses(kernel *k, stmt_id s, growth *g) {
    for (stmt_id c = s; c; c = ir_next(k, c, s)) {
        ir_stmt *t = ir_s(k, c);
        if (t->kind == STMT_STORE && g->grows[t->store.mem[0]])
            t->store.index = grown_index(k, g, t->store.mem[0], t->store.index);
    }
    ir_rewrite(k, s, growth_rewriter, g);
}

static void leave_registers(kernel *k, mem_id tile) {
    if (ir_m(k, tile)->scope == MEM_REG && !ir_in_registers(k, tile, NULL))
        ir_m(k, tile)->scope = MEM_LOCAL;
}

/* ---- accumulate ------------------------------------------------------------------------------ */

typedef struct spreading {
    kernel *k;
    ir_stmt loop; /* a copy of the row of i's loop */
    const bool *grows;
    ir_access *access;
    uint32_t accesses;
    stmt_id wrapper; /* the copy of i's loop that takes the next statement, 0: make one */
    bool used;       /* the loop with i's own variable has been placed */
    bool through;    /* i goes into loops that define tiles */
    transform_made *made;
} spreading;

/* Does an index of the growing tiles depend on loop `s`? */
static bool tells_elements(const spreading *p, stmt_id s) {
    for (uint32_t i = 0; i < p->accesses; i++) {
        const ir_access *t = &p->access[i];
        if (p->grows[t->mem] && ir_inside(p->k, t->at, s) &&
            sym_uses(p->k->syms, t->index, ir_s(p->k, s)->l.var))
            return true;
    }
    return false;
}

static bool goes_inside(const spreading *p, stmt_id s) {
    const ir_stmt *t = ir_s(p->k, s);
    if (t->kind != STMT_LOOP || t->loop != LOOP_SERIAL) return false;
    if (sym_uses(p->k->syms, t->l.extent, p->loop.l.var)) return false;
    for (stmt_id c = t->first; c && !p->through; c = ir_s(p->k, c)->next)
        if (ir_s(p->k, c)->kind == STMT_DEF) return false;
    return !tells_elements(p, s);
}

/* A new copy of loop i, around the statements to come. */
static stmt_id new_wrapper(spreading *p, stmt_id parent, stmt_id before) {
    kernel *k = p->k;
    stmt_id w =
        ir_loop(k, parent, p->loop.loop, sym_name(k->syms, p->loop.l.var), p->loop.l.extent);
    if (before) {
        ir_move(k, w, parent, before);
    }
    ir_s(k, w)->l.want = p->loop.l.want;
    ir_s(k, w)->l.terms = p->loop.l.terms;
    if (p->used)
        transform_report(k, p->made, w);
    else
        ir_s(k, w)->l = p->loop.l;
    p->used = true;
    return w;
}

static void close_wrapper(spreading *p) {
    stmt_id w = p->wrapper;
    p->wrapper = 0;
    if (w) ir_subst(p->k, w, 1, &p->loop.l.var, &ir_s(p->k, w)->l.var);
}

/* Move the statements of a block into `parent` before `before`, with loop i distributed over them.
 * A statement stays in the tree until it is moved, so that its loops' names count as taken. */
static void spread(spreading *p, const stmt_id *list, uint32_t n, stmt_id parent, stmt_id before) {
    kernel *k = p->k;
    bool whole = false; /* what is defined here lives as long as one iteration */
    for (uint32_t i = 0; i < n; i++) whole |= ir_s(k, list[i])->kind == STMT_DEF;
    for (uint32_t i = 0; i < n; i++) {
        if (whole || !goes_inside(p, list[i])) {
            if (!p->wrapper) p->wrapper = new_wrapper(p, parent, before);
            ir_move(k, list[i], p->wrapper, 0);
            continue;
        }
        close_wrapper(p);
        ir_move(k, list[i], parent, before);
        uint32_t m = 0;
        for (stmt_id c = ir_s(k, list[i])->first; c; c = ir_s(k, c)->next) m++;
        stmt_id *inner = arena_alloc(&k->arena, (m + 1) * sizeof *inner);
        m = 0;
        for (stmt_id c = ir_s(k, list[i])->first; c; c = ir_s(k, c)->next) inner[m++] = c;
        spread(p, inner, m, list[i], 0);
    }
    close_wrapper(p);
}

/* Can the tile's initial value be computed before the loop: does it read nothing the loop stores
 * to? */
static bool value_moves(kernel *k, stmt_id loop, expr_id value, const ir_access *t, uint32_t n) {
    if (!value) return true;
    if (ir_expr_uses(k, value, ir_s(k, loop)->l.var)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!t[i].load && ir_expr_reads(k, value, t[i].mem)) return false;
    for (stmt_id c = loop; c; c = ir_next(k, c, loop))
        if (ir_s(k, c)->kind == STMT_DEF && ir_expr_reads(k, value, ir_s(k, c)->def.mem))
            return false;
    return true;
}

/* What `accumulate` requires of its loop; marks the tiles that grow. */
static bool tile_allowed(kernel *k, mem_id tile, stmt_id loop, bool *grows, str *why) {
    sym copies, size;
    ir_stmt l = *ir_s(k, loop);
    int64_t one;
    if (l.loop != LOOP_SERIAL && l.loop != LOOP_UNROLL)
        return ir_refuse(why, "only a serial or unrolled loop can be moved in");
    for (stmt_id c = l.first; c; c = ir_s(k, c)->next)
        if (ir_s(k, c)->kind == STMT_DEF) grows[ir_s(k, c)->def.mem] = true;
    if (!grows[tile]) return ir_refuse(why, "the tile is not defined in that loop's body");
    if (!ir_known_extent(k, loop, &copies)) return ir_refuse(why, "the loop's trips have no bound");
    if (!ir_divisible(k, l.parent, why)) return false;
    ir_access *t;
    uint32_t n = ir_accesses(k, loop, &t);
    for (stmt_id c = l.first; c; c = ir_s(k, c)->next) {
        ir_stmt d = *ir_s(k, c);
        if (d.kind != STMT_DEF) continue;
        if (!grown(k, d.def.mem, copies, &size, why)) return false;
        bool single = sym_is_const(k->syms, ir_m(k, d.def.mem)->size, &one) && one == 1;
        if (!single && !value_moves(k, loop, d.def.value, t, n))
            return ir_refuse(why, "the first value of t%d depends on the loop",
                             ir_tile_number(k, d.def.mem));
    }
    return ir_no_carried(k, loop, loop, FREEDOM_ANY_ORDER, why);
}

/* The definitions of the loop's body move in front of it, grown. */
static void move_definitions(kernel *k, stmt_id loop, const ir_access *t, uint32_t n) {
    sym copies = SYM_ONE;
    ir_known_extent(k, loop, &copies);
    for (stmt_id c = ir_s(k, loop)->first, next; c; c = next) {
        next = ir_s(k, c)->next;
        if (ir_s(k, c)->kind != STMT_DEF) continue;
        mem_id m = ir_s(k, c)->def.mem;
        expr_id value = ir_s(k, c)->def.value;
        if (!value_moves(k, loop, value, t, n)) {
            sym own = ir_s(k, loop)->l.var; /* the tile had one element */
            stmt_id store = ir_store(k, loop, MONOID_SET, (ir_place){m, own, SYM_TRUE}, value);
            ir_move(k, store, loop, c);
            ir_s(k, c)->def.value = 0;
        }
        ir_m(k, m)->size = sym_mul(k->syms, copies, ir_m(k, m)->size);
        ir_move(k, c, ir_s(k, loop)->parent, loop);
    }
}

static bool accumulate(kernel *k, const transform_args *a, bool through, transform_made *made,
                       str *why) {
    stmt_id loop = a->loop[0];
    bool *grows = arena_zeroed(&k->arena, k->mems * sizeof *grows);
    if (ir_s(k, loop)->kind != STMT_LOOP || !tile_allowed(k, a->mem, loop, grows, why))
        return false;
    growth g = {grows, k->mems, ir_s(k, loop)->l.var};
    grow_accesses(k, loop, &g);
    spreading p = {.k = k, .grows = grows, .made = made, .through = through};
    p.accesses = ir_accesses(k, loop, &p.access);
    move_definitions(k, loop, p.access, p.accesses);

    p.loop = *ir_s(k, loop);
    uint32_t n = 0;
    for (stmt_id c = p.loop.first; c; c = ir_s(k, c)->next) n++;
    stmt_id *list = arena_alloc(&k->arena, (n + 1) * sizeof *list);
    n = 0;
    for (stmt_id c = p.loop.first; c; c = ir_s(k, c)->next) list[n++] = c;
    spread(&p, list, n, p.loop.parent, p.loop.next);
    ir_unlink(k, loop);
    for (mem_id m = 1; m < g.mems; m++)
        if (grows[m]) leave_registers(k, m);
    return true;
}

/* ---- rfactor --------------------------------------------------------------------------------- */

typedef struct stepping {
    stmt_id update, around; /* the only statement that accesses the tile; the loop beside its DEF */
    mem_id from[IR_STATES], to[IR_STATES];
    int n;
} stepping;

static stmt_id find_def(const kernel *k, mem_id tile) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile) return s;
    return 0;
}

static bool find_update(kernel *k, mem_id tile, stmt_id loop, stepping *p, str *why) {
    stmt_id def = find_def(k, tile);
    if (!def) return ir_refuse(why, "that is no tile with a definition");
    stmt_id block = ir_s(k, def)->parent;
    p->around = loop;
    while (p->around && ir_s(k, p->around)->parent != block) p->around = ir_s(k, p->around)->parent;
    if (!p->around) return ir_refuse(why, "the tile does not live through the loop");
    ir_access *t;
    uint32_t n = ir_accesses(k, p->around, &t);
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != tile) continue;
        if (t[i].load || !monoid_commutes(t[i].monoid))
            return ir_refuse(why, "the tile is not only updated by a monoid");
        if (p->update && p->update != t[i].at)
            return ir_refuse(why, "several statements update the tile");
        p->update = t[i].at;
    }
    if (!p->update || !ir_inside(k, p->update, loop))
        return ir_refuse(why, "the loop does not update the tile");
    return true;
}

/* The other components of a state must be in the same position as the first. */
static bool same_update(kernel *k, stmt_id loop, stepping *p, str *why) {
    const ir_stmt u = *ir_s(k, p->update);
    p->n = u.n;
    for (int i = 0; i < u.n; i++) {
        stepping other = {0};
        p->from[i] = u.store.mem[i];
        if (!find_update(k, u.store.mem[i], loop, &other, why)) return false;
        if (other.update != p->update || other.around != p->around)
            return ir_refuse(why, "the state's components do not live together");
    }
    return true;
}

/* for r_1 { for e { (t..)[e] op= w[r_1*size + e] } } behind the reduction. */
static void combine_after(kernel *k, stmt_id loop, const stepping *p, sym copies, sym size,
                          transform_made *made) {
    sym_store *s = k->syms;
    const char *name = sym_name(s, ir_s(k, loop)->l.var);
    stmt_id parent = ir_s(k, p->around)->parent, next = ir_s(k, p->around)->next;
    stmt_id r = ir_loop(k, parent, LOOP_SERIAL, name, copies), in = r;
    ir_s(k, r)->l.want = ir_s(k, loop)->l.want;
    ir_move(k, r, parent, next);
    sym e = SYM_ZERO, from;
    if (size != SYM_ONE) {
        in = ir_loop(k, r, LOOP_SERIAL, arena_printf(&k->arena, "%s_e", name), size);
        ir_s(k, in)->l.want = WANT_ELEMENTS;
        e = ir_s(k, in)->l.var;
    }
    from = sym_add(s, sym_mul(s, ir_s(k, r)->l.var, size), e);
    ir_stmt store = {.kind = STMT_STORE, .monoid = ir_s(k, p->update)->monoid};
    store.n = (uint8_t)p->n;
    store.store.index = e;
    store.store.valid = SYM_TRUE;
    for (int i = 0; i < p->n; i++) {
        store.store.mem[i] = p->from[i];
        store.store.value[i] = ir_load(k, p->to[i], from, SYM_TRUE, 0, 0);
    }
    ir_store_n(k, in, &store);
    transform_report(k, made, r);
    transform_report(k, made, in == r ? 0 : in);
}

bool transform_rfactor(kernel *k, mem_id tile, stmt_id loop, transform_made *made, str *why) {
    stepping p = {0};
    sym copies, size, wide;
    int kind = ir_s(k, loop)->loop;
    if (kind != LOOP_SERIAL && kind != LOOP_UNROLL)
        return ir_refuse(why, "only a serial or unrolled loop can take steps of its own");
    if (!find_update(k, tile, loop, &p, why) || !same_update(k, loop, &p, why)) return false;
    if (!ir_known_extent(k, loop, &copies)) return ir_refuse(why, "the loop's trips have no bound");
    if (!ir_divisible(k, ir_s(k, p.around)->parent, why)) return false;
    size = ir_m(k, tile)->size;
    ir_grouping rest[IR_STATES];
    for (int i = 0; i < p.n; i++) {
        if (!ir_may_spread(k, p.from[i], p.update, loop, &rest[i], why)) return false;
        if (ir_m(k, p.from[i])->size != size)
            return ir_refuse(why, "the state's components differ in size");
        if (!grown(k, p.from[i], copies, &wide, why)) return false;
    }
    ir_stmt u = *ir_s(k, p.update);
    for (int i = 0; i < p.n; i++) {
        ir_memory m = *ir_m(k, p.from[i]);
        p.to[i] = ir_tile(k, m.scope, m.dtype, sym_mul(k->syms, copies, size));
        if (p.from[i] == tile) made->tile = p.to[i];
        ir_spread(k, p.from[i], p.to[i], loop, &rest[i]);
        expr_id identity = ir_identity(k, u.monoid, i, m.dtype);
        stmt_id def = ir_def(k, ir_s(k, p.around)->parent, p.to[i], identity);
        ir_move(k, def, ir_s(k, p.around)->parent, p.around);
        ir_s(k, p.update)->store.mem[i] = p.to[i];
    }
    sym step = sym_mul(k->syms, ir_s(k, loop)->l.var, size);
    ir_s(k, p.update)->store.index = sym_add(k->syms, step, u.store.index);
    combine_after(k, loop, &p, copies, size, made);
    for (int i = 0; i < p.n; i++) {
        leave_registers(k, p.to[i]);
        leave_registers(k, p.from[i]);
    }
    return true;
}

bool apply_accumulate(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return accumulate(k, a, false, made, why);
}

bool apply_accumulate_through(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return accumulate(k, a, true, made, why);
}

bool apply_rfactor(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_rfactor(k, a->mem, a->loop[0], made, why);
}
