/* passes.c - what happens to a kernel between its schedule and an emitter.
 *
 * kern_passes() is the table of contents: each pass is a function over the tree that keeps what the
 * kernel computes. QN_DEBUG=k prints the kernel after each pass that changed it; under QN_CHECK the
 * checker runs between them. Common subexpressions need no pass (expressions are hash-consed), nor
 * do invariants (an emitter builds each value at the outermost place its variables allow).
 *
 * What is contracted to a multiply-add is said by the tree, and by nothing else: the product that a
 * store adds up by SUM, itself or where a condition holds. It stands for a SUM_PRODUCT of the
 * graph. A product that a plain SUM adds up is rounded, which lowering says by the bits of its
 * bits. No other product is joined with a sum, so a node has one value wherever it is computed. */
#include "kern/kern.h"

/* ---- multiply-add ---------------------------------------------------------------------------- */

static bool is_product(const kern *k, kexpr e) {
    const kern_expr *x = kern_e(k, e);
    return x->kind == KE_OP && x->op == OP_MUL && (x->dtype == QN_F32 || x->dtype == QN_F64);
}

/* Do the lanes around s all update one element? Then its sum is across lanes. */
static bool across_lanes(const kern *k, kstmt s) {
    const kern_stmt *x = kern_s(k, s);
    for (kstmt p = x->parent; p; p = kern_s(k, p)->parent)
        if (kern_s(k, p)->loop == KERN_VEC && p != k->root)
            return !sym_uses(k->syms, x->store.index, kern_s(k, p)->l.var);
    return false;
}

/* Is the index inside the tile even where the access is off? Then what is there may be loaded. */
static bool always_inside(const kern *k, kmem tile, sym index) {
    sym left = sym_sub(k->syms, kern_m(k, tile)->size, index);
    return sym_lo(k->syms, index) >= 0 && sym_lo(k->syms, left) >= 1;
}

/* t += a*b  becomes  t = fma(a, b, t): one rounding and one instruction, under a mask, too, as the
 * sum so far needs none. Also where(c, a*b, 0), which is where(c, fma(a, b, t), t) then. */
static void sum_of_products(kern *k, kstmt s) {
    kern_stmt *x = kern_s(k, s);
    if (x->kind != KS_STORE || x->monoid != MONOID_SUM || x->store.dyn || x->store.guard) return;
    if (kern_m(k, x->store.mem[0])->scope == KERN_ARG || across_lanes(k, s)) return;
    kexpr p = x->store.value[0], here = 0;
    const kern_expr *e = kern_e(k, p);
    if (e->kind == KE_OP && e->op == OP_WHERE) {
        const kern_expr *other = kern_e(k, e->arg[2]);
        if (other->kind != KE_CONST || other->bits) return;
        here = e->arg[0];
        p = e->arg[1];
    }
    if (!is_product(k, p)) return;
    bool inside = always_inside(k, x->store.mem[0], x->store.index);
    sym valid = inside ? SYM_TRUE : x->store.valid;
    kexpr old = kern_load(k, x->store.mem[0], x->store.index, valid, 0, 0);
    kexpr v = kern_op3(k, OP_FMA, kern_e(k, p)->arg[0], kern_e(k, p)->arg[1], old);
    if (here) v = kern_op3(k, OP_WHERE, here, v, old);
    x = kern_s(k, s);
    x->monoid = MONOID_SET;
    x->store.value[0] = v;
}

/* The bits of the bits of x. */
static kexpr bits_rewriter(kern *k, const kern_expr *e, void *user) {
    (void)user;
    if (e->kind == KE_OP && e->op == OP_BITCAST) {
        const kern_expr *bits = kern_e(k, e->arg[0]);
        if (bits->kind == KE_OP && bits->op == OP_BITCAST &&
            kern_e(k, bits->arg[0])->dtype == e->dtype)
            return bits->arg[0];
    }
    return kern_rebuild(k, e, NULL);
}

static void form_fma(kern *k) {
    if (k->no_fma) return;
    for (kstmt s = k->root; s; s = kern_next(k, s, k->root)) sum_of_products(k, s);
}

/* What kept a product from being one of a sum's has done so. */
static void drop_bits(kern *k) {
    kern_rewrite(k, k->root, bits_rewriter, NULL);
}

/* ---- registers ------------------------------------------------------------------------------- */

/* Tiles that keep the rule of registers live there. */
static void to_registers(kern *k) {
    for (kmem m = 1; m < k->mems; m++)
        if (kern_m(k, m)->scope == KERN_LOCAL && kern_in_registers(k, m, NULL))
            kern_m(k, m)->scope = KERN_REG;
}

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct pass {
    const char *name;
    void (*run)(kern *k);
} pass;

/* Products are joined with sums before the functions are expanded: the formulas of math*.c have
 * each rounding where they need it. */
static const pass passes[] = {
    {"form_fma", form_fma},
    {"drop_bits", drop_bits},
    {"expand_math", kern_expand_math},
    {"to_registers", to_registers},
    {"place_barriers", kern_place_barriers},
};

static void show(kern *k, const char *after) {
    if (!debug_on(k->ctx, 'k')) return;
    str s;
    str_open_in(&s, &k->arena);
    kern_print(k, &s);
    log_line(k->ctx, "k after %s\n%s", after, s.s);
}

static void check(kern *k, const char *after) {
#ifdef QN_CHECK
    str why;
    str_open_in(&why, &k->arena);
    if (kern_verify(k, &why) == KERN_BROKEN) /* bounds of odd reshapes may stay unproven */
        raise_error(k->ctx, QN_EINTERNAL, "kernel %s after %s: %s", k->name, after, why.s);
#else
    (void)k, (void)after;
#endif
}

void kern_passes(kern *k) {
    show(k, "schedule");
    check(k, "schedule");
    for (size_t i = 0; i < COUNT_OF(passes); i++) {
        passes[i].run(k);
        show(k, passes[i].name);
        check(k, passes[i].name);
    }
}
