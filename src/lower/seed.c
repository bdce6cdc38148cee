/* seed.c - short sums of whole numbers that begin with what would be added to them.
 *
 *   for b { def t = 0; for r { t += term }  s += f(t + e) }
 *
 * becomes
 *
 *   for b { def t = e; for r { t += term }  s += f(t) }
 *
 * since whole numbers add up to the same in any order. A dot instruction takes the sum so far, so
 * that what is added costs nothing (schedule/blocks/block_dots.c). Only sums within sums: beside
 * a long one an addition is nothing, and schedules that split it begin its parts with 0. And only
 * of few rows: a product of more has tiles of sums, which begin with one number. */
#include "lower/lower.h"

enum { SHORT = 32 /* terms: words of a lane */, FEW = 32 /* rows */ };

typedef struct seeding {
    stmt_id def, use; /* of the tile; the statement behind the sum that takes it */
    mem_id tile;
    expr_id add, load, seed; /* add = load + seed */
} seeding;

/* def t = 0; for r.. { t += term }; stores   with few terms, t one whole number. */
static bool read_sum(const kernel *k, stmt_id body, seeding *p) {
    ir_reduction r;
    int64_t n, terms = 1;
    if (!ir_reduction_of(k, body, &r)) return false;
    const ir_stmt *def = ir_s(k, r.def), *update = ir_s(k, r.update);
    const ir_memory *m = ir_m(k, def->def.mem);
    if (m->dtype != QN_I32 || m->size != SYM_ONE || !def->def.value) return false;
    const ir_expr *first = ir_e(k, def->def.value);
    if (first->kind != EXPR_CONST || first->bits) return false;
    if (update->n != 1 || update->monoid != MONOID_SUM || update->store.mem[0] != def->def.mem)
        return false;
    for (stmt_id s = r.loop; s != r.update; s = ir_s(k, s)->first) {
        if (!sym_is_const(k->syms, ir_s(k, s)->l.extent, &n)) return false;
        terms = sat_mul(terms, n);
    }
    p->def = r.def;
    p->tile = def->def.mem;
    p->use = ir_s(k, r.loop)->next;
    const ir_stmt *use = p->use ? ir_s(k, p->use) : NULL;
    return terms <= SHORT && use && use->kind == STMT_STORE && use->n == 1 && !use->next &&
           use->monoid == MONOID_SUM && ir_m(k, use->store.mem[0])->scope != MEM_ARG &&
           use->store.valid == SYM_TRUE && !use->store.dyn && !use->store.guard;
}

/* The sum of the tile and something else, and nothing but that takes the tile. */
static bool find_add(kernel *k, expr_id e, seeding *p) {
    ir_expr x = *ir_e(k, e);
    if (x.kind != EXPR_OP) return false;
    for (int i = 0; x.op == OP_ADD && i < 2; i++) {
        const ir_expr *load = ir_e(k, x.arg[i]);
        if (load->kind != EXPR_LOAD || load->load.mem != p->tile) continue;
        *p = (seeding){p->def, p->use, p->tile, e, x.arg[i], x.arg[1 - i]};
        return !ir_expr_reads(k, p->seed, p->tile);
    }
    int reads = 0, which = 0;
    for (int i = 0; i < x.n; i++)
        if (ir_expr_reads(k, x.arg[i], p->tile)) reads++, which = i;
    return reads == 1 && find_add(k, x.arg[which], p);
}

/* It is the same in all trips of the loops around the outer sum, or these are few. */
static bool is_of_few_rows(const kernel *k, const seeding *p) {
    const stmt_id sum = ir_s(k, p->def)->parent;
    int64_t n;
    for (stmt_id l = ir_s(k, sum)->parent; l && l != k->root; l = ir_s(k, l)->parent)
        if (ir_expr_uses(k, p->seed, ir_s(k, l)->l.var) &&
            (!sym_is_const(k->syms, ir_s(k, l)->l.extent, &n) || n > FEW))
            return false;
    return true;
}

/* It is of numbers and of arguments that the kernel only reads, at places that are known. */
static bool is_early(kernel *k, const seeding *p) {
    ir_access *t;
    uint32_t n = ir_accesses(k, p->use, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && ir_expr_takes(k, p->seed, t[i].load) &&
            ((ir_m(k, t[i].mem)->access & ~ACCESS_ROW) != ACCESS_READ || t[i].dyn || t[i].guard ||
             ir_m(k, t[i].mem)->scope != MEM_ARG))
            return false;
    return true;
}

void seed_sums(kernel *k) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        seeding p;
        if (ir_s(k, s)->kind != STMT_LOOP || !read_sum(k, s, &p)) continue;
        if (!find_add(k, ir_s(k, p.use)->store.value[0], &p)) continue;
        if (!is_early(k, &p) || !is_of_few_rows(k, &p)) continue;
        ir_s(k, p.def)->def.value = p.seed;
        ir_replace(k, p.use, p.add, p.load);
    }
}
