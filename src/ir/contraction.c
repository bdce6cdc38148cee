/* contraction.c - is a loop nest a contraction, and of what? The one place that recognizes sums of
 * products in loop trees: packing, schedules, dot instructions and work groups ask here, of a nest
 * as it was lowered (contraction_of), of what begins like one (ir_reduction_of), of a statement
 * alone wherever a schedule has brought it (ir_adds_product, ir_is_multiply_add).
 *
 *   for i.. { def t; for r.. { t += a * b }  stores }
 *
 * Loops around the sum are those of the output, loops inside those of the sum. Each factor depends
 * on some of them; an output's loop that only one factor depends on is one of its rows or of its
 * columns, one of both a batch. Which factor is to be A is a scheduler's choice: here they are the
 * two sides of the product as it is written. */
#include "ir/ir.h"

/* Loops that are each all that the one outside does, appended; the innermost. */
static stmt_id read_chain(const kernel *k, stmt_id loop, contraction *c, bool sum) {
    for (stmt_id s = loop;; s = ir_s(k, s)->first) {
        if (c->loops == CONTRACTION_LOOPS) return 0;
        c->loop[c->loops++] = (contraction_loop){.at = s, .sum = sum};
        stmt_id child = ir_s(k, s)->first;
        if (!child || child != ir_s(k, s)->last || ir_s(k, child)->kind != STMT_LOOP) return s;
    }
}

/* What the factor loads of arguments. */
static void read_operand(kernel *k, stmt_id update, expr_id factor, contraction_operand *o) {
    ir_access *t;
    uint32_t n = ir_accesses(k, update, &t);
    *o = (contraction_operand){.factor = factor, .as = -1};
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || !ir_expr_takes(k, factor, t[i].load)) continue;
        if (ir_m(k, t[i].mem)->scope != MEM_ARG) {
            o->tiles++;
            continue;
        }
        o->access = t[i];
        o->mem = t[i].mem;
        o->loads++;
    }
    o->plain = o->loads == 1 && !o->access.dyn && !o->access.guard;
    const ir_expr *e = ir_e(k, factor);
    if (o->plain && e->kind == EXPR_OP && e->op == OP_CAST && e->arg[0] == o->access.load)
        o->as = e->dtype;
    expr_id whole = factor;
    while (ir_e(k, whole)->kind == EXPR_OP && ir_e(k, whole)->op == OP_CAST)
        whole = ir_e(k, whole)->arg[0];
    o->direct = o->plain && !o->tiles && whole == o->access.load;
}

bool ir_reduction_of(const kernel *k, stmt_id body, ir_reduction *r) {
    r->def = ir_s(k, body)->first;
    if (!r->def || ir_s(k, r->def)->kind != STMT_DEF) return false;
    r->loop = ir_s(k, r->def)->next;
    if (!r->loop || ir_s(k, r->loop)->kind != STMT_LOOP) return false;
    r->update = r->loop;
    while (r->update && ir_s(k, r->update)->kind == STMT_LOOP) {
        if (ir_s(k, r->update)->first != ir_s(k, r->update)->last) return false;
        r->update = ir_s(k, r->update)->first;
    }
    return r->update && ir_s(k, r->update)->kind == STMT_STORE;
}

/* def t; for r.. { t += a*b }; stores   in the body of the output's innermost loop. */
static bool read_body(kernel *k, stmt_id body, contraction *c) {
    ir_reduction r;
    if (!ir_reduction_of(k, body, &r)) return false;
    c->def = r.def;
    c->reduction = r.loop;
    c->update = r.update;
    c->tile = ir_s(k, r.def)->def.mem;
    c->epilogue = ir_s(k, r.loop)->next;
    for (stmt_id s = c->epilogue; s; s = ir_s(k, s)->next)
        if (ir_s(k, s)->kind != STMT_STORE) return false;
    return read_chain(k, r.loop, c, true) && ir_adds_product(k, r.update, c->factor) &&
           ir_s(k, r.update)->store.mem[0] == c->tile;
}

bool ir_is_multiply_add(const kernel *k, const ir_stmt *store, expr_id factor[2]) {
    if (store->kind != STMT_STORE || store->n != 1 || store->store.dyn || store->store.guard)
        return false;
    const ir_expr *e = ir_e(k, store->store.value[0]);
    if (e->kind != EXPR_OP) return false;
    factor[0] = e->arg[0];
    factor[1] = e->arg[1];
    if (store->monoid == MONOID_SUM) return e->op == OP_MUL;
    if (store->monoid != MONOID_SET || e->op != OP_FMA) return false;
    const ir_expr *old = ir_e(k, e->arg[2]);
    return old->kind == EXPR_LOAD && old->load.mem == store->store.mem[0] &&
           old->load.index == store->store.index && old->load.valid == store->store.valid &&
           !old->load.dyn && !old->load.guard;
}

bool ir_adds_product(const kernel *k, stmt_id update, expr_id factor[2]) {
    const ir_stmt *u = ir_s(k, update);
    return u->monoid == MONOID_SUM && ir_is_multiply_add(k, u, factor);
}

bool contraction_of(kernel *k, stmt_id loop, contraction *c) {
    *c = (contraction){.loops = 0};
    if (!loop || ir_s(k, loop)->kind != STMT_LOOP) return false;
    c->body = read_chain(k, loop, c, false);
    c->outs = c->loops;
    if (!c->body || !read_body(k, c->body, c)) return false;
    for (int f = 0; f < 2; f++) read_operand(k, c->update, c->factor[f], &c->of[f]);
    for (int i = 0; i < c->loops; i++) {
        contraction_loop *l = &c->loop[i];
        sym var = ir_s(k, l->at)->l.var, rest;
        for (int f = 0; f < 2; f++) {
            const ir_access *t = &c->of[f].access;
            if (ir_expr_uses(k, c->factor[f], var)) l->side |= (uint8_t)(1 << f);
            l->fixed[f] = c->of[f].plain && sym_split(k->syms, t->index, var, &l->step[f], &rest);
        }
    }
    return true;
}
