/* fuse.c - loop fusion, and storage folding of the tiles between the fused loops.
 *
 *   fuse i j     for i { A } .. for j { B }   becomes   .. for i { A; B }   or   for i { A; B } ..
 *   fold_storage t i
 *                def t[n * c]; for i { t[c*i + ..] }   becomes   for i { def t[c]; t[..] }
 *
 * What one nest produces and the next consumes, such as the weights of a block of keys, is then
 * still in the nearest cache, and its tile needs storage for one iteration instead of the row.
 *
 * fuse is legal where the extents are the same and no iteration of B depends on a later one of A:
 * what both access, and one stores to, belongs to the same iteration or is only updated by one
 * monoid. A part of B that runs in the last iteration only (block_reduction makes such) stays
 * behind all of A. Definitions between the loops move in front. Other statements between them must
 * be independent of the second loop, which then moves up, or of the first, which then moves down.
 *
 * fold_storage is legal where each element belongs to one iteration, and nothing outside of the
 * loop accesses the tile. */
#include "transform/transform.h"

/* ---- fuse ------------------------------------------------------------------------------------ */

/* Does a loop inside of `fused` run in the last iteration of `fused` only? */
bool transform_in_last_trip(kernel *k, stmt_id fused, stmt_id inner) {
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, fused), in = *ir_s(k, inner);
    if (!sym_uses(s, in.l.extent, l.l.var)) return false;
    sym shorter = sym_sub(s, l.l.extent, SYM_ONE);
    if (sym_hi(s, shorter) < 1) return true;
    sym var = sym_loop(s, sym_name(s, l.l.var), shorter);
    sym none = sym_scale(s, sym_subst(s, in.l.extent, 1, &l.l.var, &var), -1);
    ir_s(k, fused)->l.var = var; /* for the proof: the iterations before the last */
    ir_s(k, fused)->l.extent = shorter;
    bool proved = ir_prove(k, in.parent, none, 0, NULL);
    ir_s(k, fused)->l = l.l;
    return proved;
}

/* Take out of B, whose first statement is given, what runs in the last iteration only. */
static void take_last_out(kernel *k, stmt_id fused, stmt_id b) {
    for (; b; b = ir_s(k, b)->next)
        for (stmt_id s = b, next; s; s = next) {
            next = ir_next(k, s, b);
            if (s == b || ir_s(k, s)->kind != STMT_LOOP || !transform_in_last_trip(k, fused, s))
                continue;
            for (stmt_id skip = next; skip && ir_inside(k, skip, s); skip = ir_next(k, skip, b))
                next = ir_next(k, skip, b);
            ir_unlink(k, s);
        }
}

static bool is_accessed(const ir_access *t, uint32_t n, mem_id m) {
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == m) return true;
    return false;
}

/* Move both bodies into the first loop, without checks. */
static void merge_bodies(kernel *k, stmt_id first, stmt_id second) {
    sym from = ir_s(k, second)->l.var, to = ir_s(k, first)->l.var;
    while (ir_s(k, second)->first) {
        stmt_id c = ir_s(k, second)->first;
        ir_move(k, c, first, 0);
        ir_subst(k, c, 1, &from, &to);
    }
    ir_unlink(k, second);
}

static bool same_trips(kernel *k, stmt_id first, stmt_id second, str *why) {
    const ir_stmt *a = ir_s(k, first), *b = ir_s(k, second);
    if (a->kind != STMT_LOOP || b->kind != STMT_LOOP || a->loop != LOOP_SERIAL ||
        b->loop != LOOP_SERIAL)
        return ir_refuse(why, "only serial loops can be fused");
    if (a->l.extent != b->l.extent) return ir_refuse(why, "the loops have other numbers of trips");
    if (a->parent != b->parent) return ir_refuse(why, "the loops are not beside each other");
    for (stmt_id s = a->next; s != second; s = ir_s(k, s)->next) {
        if (!s) return ir_refuse(why, "the second loop is not behind the first");
        ir_access *t;
        if (ir_s(k, s)->kind == STMT_DEF && ir_accesses(k, s, &t))
            return ir_refuse(why, "a definition between the loops reads something");
    }
    return true;
}

/* Can the loop and the statement beside it be exchanged? */
static bool independent(kernel *k, const ir_access *t, uint32_t n, stmt_id s) {
    for (stmt_id c = s; c; c = ir_next(k, c, s))
        if (ir_s(k, c)->kind == STMT_BARRIER) return false;
    ir_access *other;
    uint32_t m = ir_accesses(k, s, &other);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < m; j++)
            if (t[i].mem == other[j].mem && !(t[i].load && other[j].load)) return false;
    return true;
}

/* A loop and what it accesses. */
typedef struct accessing {
    stmt_id loop;
    uint32_t n;
    ir_access *access;
} accessing;

/* Move definitions between the loops in front of both, then one loop to the other: the second up,
 * else the first down. */
static bool make_adjacent(kernel *k, const accessing *a, const accessing *b, str *why) {
    stmt_id first = a->loop, second = b->loop;
    stmt_id block = ir_s(k, first)->parent;
    bool up = true, down = true;
    for (stmt_id s = ir_s(k, first)->next, next; s != second; s = next) {
        next = ir_s(k, s)->next;
        if (ir_s(k, s)->kind == STMT_DEF) {
            ir_move(k, s, block, first);
            continue;
        }
        up = up && independent(k, b->access, b->n, s);
        down = down && independent(k, a->access, a->n, s);
    }
    if (!up && !down) return ir_refuse(why, "what is between the loops depends on both");
    if (ir_s(k, first)->next == second) return true;
    stmt_id moved = up ? second : first, before = up ? ir_s(k, first)->next : second;
    ir_move(k, moved, block, before);
    return true;
}

/* Of a loop that goes on in sums of two loops: where they count otherwise nothing is known. */
static sym terms_of_both(sym own, sym other) {
    if (own == SYM_ZERO || other == SYM_ZERO) return own == SYM_ZERO ? other : own;
    return own == other ? own : SYM_ZERO;
}

bool transform_fuse_but(kernel *k, stmt_id first, stmt_id second, mem_id but, str *why) {
    if (!same_trips(k, first, second, why)) return false;
    accessing a = {.loop = first}, b = {.loop = second};
    a.n = ir_accesses(k, first, &a.access);
    b.n = ir_accesses(k, second, &b.access);
    bool *alone = arena_zeroed(&k->arena, k->mems * sizeof *alone);
    for (mem_id i = 1; i < k->mems; i++)
        alone[i] = i == but || !is_accessed(a.access, a.n, i) || !is_accessed(b.access, b.n, i);
    ir_saved unfused = ir_save(k);
    if (!make_adjacent(k, &a, &b, why)) {
        ir_restore(k, &unfused);
        return false;
    }
    stmt_id rest = ir_s(k, second)->first;
    sym own = ir_s(k, first)->l.terms, other = ir_s(k, second)->l.terms;
    merge_bodies(k, first, second);
    ir_saved done = ir_save(k);
    take_last_out(k, first, rest);
    bool fine = ir_no_carried_but(k, first, alone, why);
    ir_restore(k, fine ? &done : &unfused);
    if (fine) ir_s(k, first)->l.terms = terms_of_both(own, other);
    return fine;
}

bool transform_fuse(kernel *k, stmt_id first, stmt_id second, str *why) {
    return transform_fuse_but(k, first, second, 0, why);
}

bool apply_fuse(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_fuse(k, a->loop[0], a->loop[1], why);
}

/* ---- fold_storage ---------------------------------------------------------------------------- */

typedef struct confining {
    mem_id tile;
    sym first; /* first element of the iteration */
} confining;

static expr_id fold_rewriter(kernel *k, const ir_expr *e, void *user) {
    const confining *c = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD && row.load.mem == c->tile)
        row.load.index = sym_sub(k->syms, row.load.index, c->first);
    return ir_rebuild(k, &row, NULL);
}

/* What is left of an index where all loops inside of `loop` are at their first iteration. */
static sym at_first(kernel *k, stmt_id at, stmt_id loop, sym index) {
    for (stmt_id l = ir_s(k, at)->parent; l != loop; l = ir_s(k, l)->parent) {
        sym zero = SYM_ZERO;
        index = sym_subst(k->syms, index, 1, &ir_s(k, l)->l.var, &zero);
    }
    return index;
}

/* The elements of an iteration: index = base + each*i + rest, 0 <= rest < each, at every access. A
 * base other than 0 is where trimming has cut off the beginning. */
static bool own_elements(kernel *k, mem_id tile, stmt_id loop, sym *each, sym *base, str *why) {
    sym_store *s = k->syms;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    *each = SYM_ZERO;
    for (uint32_t i = 0; i < n; i++) {
        sym c, small, fact[IR_FACTS];
        if (t[i].mem != tile) continue;
        if (!ir_inside(k, t[i].at, loop))
            return ir_refuse(why, "something outside of the loop accesses the tile");
        if (t[i].dyn || !ir_linear(k, t[i].index, ir_s(k, loop)->l.var, &c, &small) ||
            sym_lo(s, c) < 1 || (*each != SYM_ZERO && c != *each))
            return ir_refuse(why, "the tile's index does not step with the loop");
        if (*each == SYM_ZERO) *base = at_first(k, t[i].at, loop, small);
        small = sym_sub(s, small, *base);
        *each = c;
        if (!t[i].load && ir_s(k, t[i].at)->n > 1)
            return ir_refuse(why, "the tile is stored together with another");
        int facts = ir_facts(k, t[i].valid, fact);
        if (!ir_prove(k, t[i].at, small, facts, fact) ||
            !ir_prove(k, t[i].at, sym_sub(s, sym_sub(s, c, SYM_ONE), small), facts, fact))
            return ir_refuse(why, "a trip of the loop may access elements of another");
    }
    return *each != SYM_ZERO || ir_refuse(why, "the loop does not access the tile");
}

bool transform_fold_storage(kernel *k, mem_id tile, stmt_id loop, str *why) {
    sym each, base = SYM_ZERO;
    stmt_id def = 0;
    if (ir_m(k, tile)->scope == MEM_ARG) return ir_refuse(why, "only a tile is folded");
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root)) && !def;)
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile) def = s;
    if (!def || ir_s(k, def)->parent != ir_s(k, loop)->parent)
        return ir_refuse(why, "the tile is not defined beside the loop");
    if (ir_s(k, loop)->loop != LOOP_SERIAL)
        return ir_refuse(why, "only a serial loop can have a tile of its own");
    ir_access *t;
    if (ir_accesses(k, def, &t)) return ir_refuse(why, "the tile's first value is computed");
    if (!own_elements(k, tile, loop, &each, &base, why)) return false;
    confining c = {tile, sym_add(k->syms, base, sym_mul(k->syms, each, ir_trip(k, loop)))};
    ir_rewrite(k, loop, fold_rewriter, &c);
    for (stmt_id s = loop; s; s = ir_next(k, s, loop)) {
        ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_STORE && x->store.mem[0] == tile)
            x->store.index = sym_sub(k->syms, x->store.index, c.first);
    }
    ir_m(k, tile)->size = each;
    ir_move(k, def, loop, ir_s(k, loop)->first);
    return true;
}

bool apply_fold_storage(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_fold_storage(k, a->mem, a->loop[0], why);
}
