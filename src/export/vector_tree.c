/* vector_tree.c - what is done to a tree before its VEC loops are written as vectors.
 *
 *     unroll u < 2 {                     vec v < 16 { a1[v] = a0[v] }
 *       vec v < 16 {                     vec v < 16 { a1[16 + v] = a0[16 + v] }
 *         a1[16*u + v] = a0[16*u + v]
 *
 *     vec v < 11 { a1[v] = a0[v] }       vec v < 16 { a1[v; valid=(10 >= v)] = a0[v] }
 *
 * UNROLL loops are copies, so that registers of a tile can be variables; copies that lie behind
 * what there is are dropped. Lanes become a power of two, with the rest off. And vectors of
 * memories that ask for lines ahead of what is accessed get a PREFETCH before them. */
#include "export/export.h"

enum { MOST_COPIES = 64, MOST_STATEMENTS = 6000 };

/* ---- unrolling ------------------------------------------------------------------------------- */

static void unroll(kernel *k, stmt_id loop, int64_t n) {
    sym var = ir_s(k, loop)->l.var;
    for (int64_t i = 0; i < n; i++) {
        sym at = sym_const(k->syms, i);
        stmt_id copy = i + 1 < n ? ir_copy(k, loop) : loop, s;
        if (copy != loop) {
            ir_insert(k, copy, ir_s(k, loop)->parent, loop);
            ir_rename(k, copy);
            var = ir_s(k, copy)->l.var;
        } else {
            var = ir_s(k, loop)->l.var;
        }
        while ((s = ir_s(k, copy)->first) != 0) {
            ir_subst(k, s, 1, &var, &at);
            s = ir_s(k, copy)->first;
            ir_move(k, s, ir_s(k, copy)->parent, copy);
        }
        ir_unlink(k, copy);
    }
}

static stmt_id next_unrolled(const kernel *k, int64_t *n) {
    stmt_id found = 0;
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root))
        if (ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->loop == LOOP_UNROLL &&
            sym_is_const(k->syms, ir_s(k, s)->l.extent, n) && *n <= MOST_COPIES)
            found = s; /* the last one: those in it are gone already */
    if (found) sym_is_const(k->syms, ir_s(k, found)->l.extent, n);
    return found;
}

/* Stores of copies that are behind what there is. */
static void drop_never(kernel *k) {
    for (stmt_id s = k->root, next; s; s = next) {
        next = ir_next(k, s, k->root);
        if (ir_s(k, s)->kind == STMT_STORE && ir_s(k, s)->store.valid == SYM_FALSE) ir_unlink(k, s);
    }
}

static void unroll_all(kernel *k) {
    int64_t n;
    for (stmt_id loop; k->stmts < MOST_STATEMENTS && (loop = next_unrolled(k, &n)) != 0;)
        if (n > 0)
            unroll(k, loop, n);
        else
            ir_unlink(k, loop);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Stores alone, whose lanes differ in where they go. A guard is one for all lanes, and asked where
 * all or none may be on. */
static bool holds_stores(kernel *k, stmt_id loop) {
    sym var = ir_s(k, loop)->l.var;
    for (stmt_id s = ir_s(k, loop)->first; s; s = ir_s(k, s)->next) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_PREFETCH) continue;
        if (t->kind != STMT_STORE || t->store.dyn || !sym_uses(k->syms, t->store.index, var) ||
            ir_expr_uses(k, t->store.guard, var) ||
            (t->store.guard && sym_uses(k->syms, t->store.valid, var)))
            return false;
    }
    return true;
}

/* A VEC loop of so many lanes; 0: it is none, or has another number in each run. */
static int64_t lanes_of(const kernel *k, stmt_id loop) {
    int64_t n;
    const ir_stmt *l = ir_s(k, loop);
    bool vec = l->kind == STMT_LOOP && l->loop == LOOP_VEC;
    return vec && sym_is_const(k->syms, l->l.extent, &n) && n <= VECTOR_LANES ? n : 0;
}

bool export_is_vector(kernel *k, stmt_id loop) {
    int64_t n = lanes_of(k, loop);
    return n >= 2 && !(n & (n - 1)) && holds_stores(k, loop);
}

/* Are there masks for all that is stored? */
static bool can_be_masked(kernel *k, stmt_id loop) {
    if (!ir_s(k, loop)->first || !holds_stores(k, loop)) return false;
    for (stmt_id s = ir_s(k, loop)->first; s; s = ir_s(k, s)->next) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind != STMT_STORE || t->store.guard) return false;
        for (int i = 0; i < t->n; i++) {
            int dtype = ir_m(k, t->store.mem[i])->dtype;
            if (dtype == QN_BOOL || qn_dtype_size((qn_dtype)dtype) < 4) return false;
        }
    }
    return true;
}

static void widen(kernel *k, stmt_id loop, int64_t n) {
    int64_t lanes = 1;
    while (lanes < n) lanes *= 2;
    const stmt_id parent = ir_s(k, loop)->parent;
    stmt_id wide = ir_loop(k, parent, LOOP_VEC, "v", sym_const(k->syms, lanes)), s;
    ir_move(k, wide, parent, loop);
    sym from = ir_s(k, loop)->l.var, to = ir_s(k, wide)->l.var;
    sym inside = sym_ge0(k->syms, sym_sub(k->syms, sym_const(k->syms, n - 1), to));
    while ((s = ir_s(k, loop)->first) != 0) {
        ir_move(k, s, wide, 0);
        ir_subst(k, s, 1, &from, &to);
        sym valid = sym_and(k->syms, ir_s(k, s)->store.valid, inside);
        ir_s(k, s)->store.valid = valid;
    }
    ir_unlink(k, loop);
}

/* ---- lines ahead ----------------------------------------------------------------------------- */

static bool is_asked(const kernel *k, stmt_id before, mem_id m, sym index) {
    for (stmt_id s = ir_s(k, before)->prev; s; s = ir_s(k, s)->prev)
        if (ir_s(k, s)->kind == STMT_PREFETCH && ir_s(k, s)->prefetch.mem == m &&
            ir_s(k, s)->prefetch.index == index)
            return true;
    return false;
}

/* Once for what several vectors of a block load. */
static void ask_ahead(kernel *k) {
    ir_access *t;
    sym_store *syms = k->syms;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *m = ir_m(k, t[i].mem);
        const stmt_id loop = ir_s(k, t[i].at)->parent;
        sym coef, rest, zero = SYM_ZERO;
        if (!m->ahead || m->scope == MEM_REG || t[i].dyn || loop == k->root ||
            !export_is_vector(k, loop))
            continue;
        const sym var = ir_s(k, loop)->l.var;
        if (!ir_linear(k, t[i].index, var, &coef, &rest) || coef != SYM_ONE) continue;
        int64_t ahead = m->ahead / (int64_t)qn_dtype_size((qn_dtype)m->dtype);
        sym at = sym_add(syms, sym_subst(syms, t[i].index, 1, &var, &zero), sym_const(syms, ahead));
        if (is_asked(k, loop, t[i].mem, at)) continue;
        const stmt_id parent = ir_s(k, loop)->parent;
        ir_move(k, ir_prefetch(k, parent, t[i].mem, at), parent, loop);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

void export_vector_tree(kernel *k) {
    unroll_all(k);
    drop_never(k);
    for (stmt_id s = k->root, next; s; s = next) {
        int64_t n = lanes_of(k, s);
        next = ir_next(k, s, k->root);
        if (n < 3 || !(n & (n - 1)) || !can_be_masked(k, s)) continue;
        next = ir_next(k, ir_s(k, s)->last, k->root);
        widen(k, s, n);
    }
    ask_ahead(k);
}
