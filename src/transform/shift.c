/* shift.c - software pipelining: the first statements of an iteration move to the end of the one
 * before.
 *
 *   shift i j    for i < n { A; j { B } }
 *       becomes  A(0);  for i < n - 1 { j { B(i) } A(i + 1) }  j { B(n - 1) }
 *
 * A(0) is the prologue, the last j the epilogue. The order of execution does not change. What is
 * gained comes after: the end of one iteration and the beginning of the next are now in one body,
 * and where they are independent `fuse` makes one loop of them. So a row is stored while the next
 * row's exponentials are computed and the maximum of the row after that is taken: memory latency
 * and arithmetic overlap. Each further shift adds a stage.
 *
 * Tiles that A writes and j reads now live across iterations: they are defined in front of the
 * loop, and their initial values are stored in each iteration right before their first access, so
 * that the values of the iteration before can be read until then. Other tiles stay with the part
 * that uses them.
 *
 * Legal where the loop is sure to have an iteration. */
#include "transform/transform.h"

typedef struct shifting {
    kernel *k;
    stmt_id loop, first; /* first: where iterations are to begin */
    bool *early, *late;  /* by mem_id: accessed in front of `first`, and from it on */
} shifting;

static bool reads_nothing(kernel *k, stmt_id def) {
    ir_access *t;
    return !ir_accesses(k, def, &t);
}

static void mark(kernel *k, stmt_id s, bool *accessed) {
    ir_access *t;
    uint32_t n = ir_accesses(k, s, &t);
    for (uint32_t i = 0; i < n; i++) accessed[t[i].mem] = true;
}

static void find_tiles(shifting *r) {
    kernel *k = r->k;
    bool behind = false;
    r->early = arena_zeroed(&k->arena, k->mems * sizeof *r->early);
    r->late = arena_zeroed(&k->arena, k->mems * sizeof *r->late);
    for (stmt_id s = ir_s(k, r->loop)->first; s; s = ir_s(k, s)->next) {
        behind |= s == r->first;
        mark(k, s, behind ? r->late : r->early);
    }
}

/* Store the initial value of a tile that lives across iterations before its first access. */
static void store_initial(const shifting *r, stmt_id def, expr_id value) {
    kernel *k = r->k;
    mem_id tile = ir_s(k, def)->def.mem;
    stmt_id use = ir_s(k, def)->next;
    for (; reads_nothing(k, def); use = ir_s(k, use)->next) {
        bool *accessed = arena_zeroed(&k->arena, k->mems * sizeof *accessed);
        mark(k, use, accessed);
        if (accessed[tile]) break;
    }
    stmt_id in = r->loop;
    sym e = SYM_ZERO, size = ir_m(k, tile)->size;
    if (size != SYM_ONE) {
        in = ir_loop(k, in, LOOP_SERIAL, "begin_e", size);
        ir_s(k, in)->l.want = WANT_ELEMENTS;
        ir_move(k, in, r->loop, use);
        e = ir_trip(k, in);
    }
    stmt_id set = ir_store(k, in, MONOID_SET, (ir_place){tile, e, SYM_TRUE}, value);
    if (size == SYM_ONE) ir_move(k, set, r->loop, use);
}

/* Definitions in front of `first`: of tiles that only the later part accesses, move there; of tiles
 * that both parts access, in front of the loop. */
static void place_tiles(shifting *r) {
    kernel *k = r->k;
    stmt_id behind = r->first;
    for (stmt_id s = ir_s(k, r->loop)->first, next; s != r->first && s != behind; s = next) {
        next = ir_s(k, s)->next;
        ir_stmt *def = ir_s(k, s);
        if (def->kind != STMT_DEF || !r->late[def->def.mem]) continue;
        mem_id tile = def->def.mem;
        if (!r->early[tile] && reads_nothing(k, s)) {
            ir_move(k, s, r->loop, behind);
            if (r->first == behind) r->first = s;
            continue;
        }
        expr_id value = def->def.value;
        if (value) store_initial(r, s, value);
        ir_s(k, s)->def.value = 0;
        ir_move(k, s, ir_s(k, r->loop)->parent, r->loop);
    }
}

/* One iteration of the loop, its children from number `from` to before `to`, in front of
 * `before`. */
static void single(const shifting *r, int from, int to, sym trip, stmt_id before) {
    kernel *k = r->k;
    stmt_id parent = ir_s(k, r->loop)->parent, copy = ir_copy(k, r->loop);
    ir_insert(k, copy, parent, before);
    int number = 0;
    for (stmt_id s = ir_s(k, copy)->first, next; s; s = next, number++) {
        next = ir_s(k, s)->next;
        if (number < from || number >= to) ir_unlink(k, s);
    }
    ir_rename(k, copy);
    sym var = ir_s(k, copy)->l.var;
    ir_subst(k, copy, 1, &var, &trip);
    while (ir_s(k, copy)->first) ir_move(k, ir_s(k, copy)->first, parent, copy);
    ir_unlink(k, copy);
}

static bool allowed(kernel *k, stmt_id loop, stmt_id first, str *why) {
    const ir_stmt *l = ir_s(k, loop);
    if (l->loop != LOOP_SERIAL || loop == k->root)
        return ir_refuse(why, "only a serial loop can be shifted");
    if (ir_s(k, first)->parent != loop)
        return ir_refuse(why, "the second loop is not directly in the first");
    stmt_id s = l->first;
    while (s != first && ir_s(k, s)->kind == STMT_DEF) s = ir_s(k, s)->next;
    if (s == first) return ir_refuse(why, "the trips begin with that loop");
    if (sym_hi(k->syms, l->l.extent) <= 1) return ir_refuse(why, "the loop has only one trip");
    return ir_divisible(k, l->parent, why) && ir_outside_vectors(k, l->parent, why);
}

bool transform_shift(kernel *k, stmt_id loop, stmt_id first, str *why) {
    if (!allowed(k, loop, first, why)) return false;
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, loop);
    sym left = sym_sub(s, l.l.extent, SYM_ONE);
    if (!ir_prove(k, l.parent, left, 0, NULL)) return ir_refuse(why, "the loop may have no trip");
    if (!ir_plain(k, left, why)) return false;
    shifting r = {.k = k, .loop = loop, .first = first};
    find_tiles(&r);
    place_tiles(&r);
    int number = 0, all = 0;
    for (stmt_id c = ir_s(k, loop)->first; c; c = ir_s(k, c)->next, all++)
        if (c == r.first) number = all;
    single(&r, 0, number, SYM_ZERO, loop);
    single(&r, number, all, left, ir_s(k, loop)->next);
    ir_s(k, loop)->l.var = sym_loop(s, sym_name(s, l.l.var), left);
    ir_s(k, loop)->l.extent = left;
    sym trip = ir_trip(k, loop), following = sym_add(s, trip, SYM_ONE);
    for (stmt_id c = r.first; c; c = ir_s(k, c)->next) ir_subst(k, c, 1, &l.l.var, &trip);
    for (; number > 0; number--) {
        stmt_id c = ir_s(k, loop)->first;
        ir_move(k, c, loop, 0);
        ir_subst(k, c, 1, &l.l.var, &following);
    }
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_REG && !ir_in_registers(k, m, NULL))
            ir_m(k, m)->scope = MEM_LOCAL;
    return true;
}

bool apply_shift(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_shift(k, a->loop[0], a->loop[1], why);
}
