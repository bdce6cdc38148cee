/* passes.c - what happens to a kernel between its schedule and an emitter.
 *
 * run_passes() is the table of contents: each pass is a function over the tree that keeps what the
 * kernel computes. QN_DEBUG=k prints the kernel after each pass that changed it; under QN_CHECK the
 * checker runs between them. Common subexpressions need no pass (expressions are hash-consed), nor
 * do invariants (an emitter builds each value at the outermost place its variables allow).
 *
 * What is contracted to a multiply-add is said by the tree, and by nothing else: the product that a
 * store adds up by SUM, itself or where a condition holds. It stands for a SUM_PRODUCT of the
 * graph. A product that a plain SUM adds up is rounded, which lowering says by the bits of its
 * bits. No other product is joined with a sum, so a node has one value wherever it is computed. */
#include "run/run.h"

/* ---- multiply-add ---------------------------------------------------------------------------- */

static bool is_product(const kernel *k, expr_id e) {
    const ir_expr *x = ir_e(k, e);
    return x->kind == EXPR_OP && x->op == OP_MUL && (x->dtype == QN_F32 || x->dtype == QN_F64);
}

/* Do the lanes around s all update one element? Then its sum is across lanes. */
static bool across_lanes(const kernel *k, stmt_id s) {
    const ir_stmt *x = ir_s(k, s);
    for (stmt_id p = x->parent; p; p = ir_s(k, p)->parent)
        if (ir_s(k, p)->loop == LOOP_VEC && p != k->root)
            return !sym_uses(k->syms, x->store.index, ir_s(k, p)->l.var);
    return false;
}

/* Is the index inside the tile even where the access is off? Then what is there may be loaded. */
static bool always_inside(const kernel *k, mem_id tile, sym index) {
    sym left = sym_sub(k->syms, ir_m(k, tile)->size, index);
    return sym_lo(k->syms, index) >= 0 && sym_lo(k->syms, left) >= 1;
}

/* t += a*b  becomes  t = fma(a, b, t): one rounding and one instruction, under a mask, too, as the
 * sum so far needs none. Also where(c, a*b, 0), which is where(c, fma(a, b, t), t) then. */
static void sum_of_products(kernel *k, stmt_id s) {
    ir_stmt *x = ir_s(k, s);
    if (x->kind != STMT_STORE || x->monoid != MONOID_SUM || x->store.dyn || x->store.guard) return;
    if (ir_m(k, x->store.mem[0])->scope == MEM_ARG || across_lanes(k, s)) return;
    expr_id p = x->store.value[0], here = 0;
    const ir_expr *e = ir_e(k, p);
    if (e->kind == EXPR_OP && e->op == OP_WHERE) {
        const ir_expr *other = ir_e(k, e->arg[2]);
        if (other->kind != EXPR_CONST || other->bits) return;
        here = e->arg[0];
        p = e->arg[1];
    }
    if (!is_product(k, p)) return;
    bool inside = always_inside(k, x->store.mem[0], x->store.index);
    sym valid = inside ? SYM_TRUE : x->store.valid;
    expr_id old = ir_load(k, x->store.mem[0], x->store.index, valid, 0, 0);
    expr_id v = ir_op3(k, OP_FMA, ir_e(k, p)->arg[0], ir_e(k, p)->arg[1], old);
    if (here) v = ir_op3(k, OP_WHERE, here, v, old);
    x = ir_s(k, s);
    x->monoid = MONOID_SET;
    x->store.value[0] = v;
}

/* The bits of the bits of x. */
static expr_id bits_rewriter(kernel *k, const ir_expr *e, void *user) {
    (void)user;
    if (e->kind == EXPR_OP && e->op == OP_BITCAST) {
        const ir_expr *bits = ir_e(k, e->arg[0]);
        if (bits->kind == EXPR_OP && bits->op == OP_BITCAST &&
            ir_e(k, bits->arg[0])->dtype == e->dtype)
            return bits->arg[0];
    }
    return ir_rebuild(k, e, NULL);
}

static void form_fma(kernel *k) {
    if (k->no_fma) return;
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root)) sum_of_products(k, s);
}

/* What kept a product from being one of a sum's has done so. */
static void drop_bits(kernel *k) {
    ir_rewrite(k, k->root, bits_rewriter, NULL);
}

/* ---- registers ------------------------------------------------------------------------------- */

/* Tiles that keep the rule of registers live there. */
static double registers_of(kernel *k, mem_id m) {
    int64_t lanes = ir_register_lanes(k, m, NULL);
    return (double)sym_hi(k->syms, ir_m(k, m)->size) / (double)(lanes > 1 ? lanes : 1);
}

/* Components of one state lie in registers all or none; a kernel that comes here has them so. */
static bool back_to_memory(kernel *k, const ir_stmt *t) {
    int there = 0;
    if (t->kind != STMT_STORE) return false;
    for (int i = 0; i < t->n; i++) there += ir_m(k, t->store.mem[i])->scope == MEM_REG;
    if (!there || there == t->n) return false;
    for (int i = 0; i < t->n; i++) {
        ir_memory *m = ir_m(k, t->store.mem[i]);
        if (m->scope == MEM_REG) m->scope = MEM_LOCAL;
    }
    return true;
}

static void to_registers(kernel *k) {
    double used = 0;
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_REG) used += registers_of(k, m);
    for (mem_id m = 1; m < k->mems; m++) {
        if (ir_m(k, m)->scope != MEM_LOCAL || !ir_in_registers(k, m, NULL)) continue;
        if (used + registers_of(k, m) > IR_REGISTERS) continue; /* no machine has so many */
        used += registers_of(k, m);
        ir_m(k, m)->scope = MEM_REG;
    }
    for (bool again = true; again;) {
        again = false;
        for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
            again |= back_to_memory(k, ir_s(k, s));
    }
    for (stmt_id s = ir_s(k, k->root)->first, next; s; s = next) { /* nothing to fetch there */
        next = ir_next(k, s, k->root);
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_PREFETCH && ir_m(k, t->prefetch.mem)->scope == MEM_REG) ir_unlink(k, s);
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct pass {
    const char *name;
    void (*run)(kernel *k);
} pass;

/* Products are joined with sums before the functions are expanded: the formulas of math*.c have
 * each rounding where they need it. */
static const pass passes[] = {
    {"form_fma", form_fma},
    {"drop_bits", drop_bits},
    {"expand_math", math_expand},
    {"to_registers", to_registers},
    {"place_barriers", ir_place_barriers},
};

static void show(kernel *k, const char *after) {
    if (!debug_on(k->ctx, 'k')) return;
    str s;
    str_open_in(&s, &k->arena);
    ir_print(k, &s);
    log_line(k->ctx, "k after %s\n%s", after, s.s);
}

static void check(kernel *k, const char *after) {
#ifdef QN_CHECK
    str why;
    str_open_in(&why, &k->arena);
    if (ir_verify(k, &why) == VERDICT_BROKEN) /* bounds of odd reshapes may stay unproven */
        raise_error(k->ctx, QN_EINTERNAL, "kernel %s after %s: %s", k->name, after, why.s);
#else
    (void)k, (void)after;
#endif
}

void run_passes(kernel *k) {
    show(k, "schedule");
    check(k, "schedule");
    for (size_t i = 0; i < COUNT_OF(passes); i++) {
        passes[i].run(k);
        show(k, passes[i].name);
        check(k, passes[i].name);
    }
}
