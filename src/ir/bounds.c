/* bounds.c - proving that an index expression is never negative.
 *
 * sym knows the range of an expression when every variable ranges on its own. That is too coarse
 * for what schedules make: in 16*io + ii < n the inner extent min(16, n - 16*io) depends on the
 * outer variable, and a padded loop stays inside only by its validity. Steps, all sound:
 *
 *   monotone   t is linear in a loop's variable and the coefficient's sign is known: the worst case
 *              is an end of the loop, v = 0 or v = extent - 1, which goes into t. Loops go from the
 *              inside out, since an extent may use outer variables. Where the extent is min(a, b),
 *              v <= a - 1 and v <= b - 1 both hold, and either may be what the proof needs.
 *   facts      t - c*f >= 0 with f >= 0 and c > 0 implies t >= 0; c is chosen so that a term goes:
 *              a number, or what stands beside a variable of f in a product of t.
 *   bounded    a fact r - v - .. >= 0 bounds a sum of variables: a new variable w < r + 1 stands
 *              for the sum, which also puts together what was split.
 *   start      a fact v - r >= 0 gives v = w + r with w >= 0.
 *   split      a floor((c*v + ..)/d) is regular in steps of d/gcd(c, d): v = step*q + r.
 *   atoms      c*min(a, b) is at least both c*a and c*b for c < 0; floor(e/d) lies within
 *              [(e - d + 1)/d, e/d], and t >= 0 where d*t > -d, as t is whole.
 *
 * A loop of no trips makes its body's claims empty, so extent >= 1 may be taken for granted, and
 * where an extent is known to be 0 there is nothing to prove. */
#include "ir/ir.h"

enum { ATTEMPTS = 100, EXTRAS = 8 };

typedef struct proof {
    const kernel *k;
    stmt_id at;
    int facts;
    const sym *fact;
    int budget;        /* attempts left: proofs that exist are short */
    sym extra[EXTRAS]; /* variables made on the way, on top of the loops' own: inner ones last */
    int extras;
} proof;

bool ir_linear(const kernel *k, sym a, sym var, sym *coef, sym *rest) {
    sym_store *s = k->syms;
    int64_t c;
    if (sym_split(s, a, var, &c, rest)) {
        *coef = sym_const(s, c);
        return true;
    }
    sym zero = SYM_ZERO, next = sym_add(s, var, SYM_ONE);
    *coef = sym_sub(s, sym_subst(s, a, 1, &var, &next), a);
    if (sym_uses(s, *coef, var)) return false;
    *rest = sym_subst(s, a, 1, &var, &zero);
    return a == sym_add(s, sym_mul(s, *coef, var), *rest);
}

int ir_facts(const kernel *k, sym truth, sym fact[IR_FACTS]) {
    const sym *part;
    if (truth == SYM_TRUE) return 0;
    if (sym_kind_of(k->syms, truth) == SYM_GE0) {
        sym_operands(k->syms, truth, &part);
        fact[0] = part[0];
        return 1;
    }
    if (sym_kind_of(k->syms, truth) != SYM_AND) return 0;
    int n = 0, parts = sym_operands(k->syms, truth, &part);
    for (int i = 0; i < parts && n < IR_FACTS; i++) {
        sym more[IR_FACTS];
        int m = ir_facts(k, part[i], more);
        for (int j = 0; j < m && n < IR_FACTS; j++) fact[n++] = more[j];
    }
    return n;
}

/* The nesting depth of floors and minima. */
static int involved(const sym_store *s, sym a) {
    const sym *part;
    int most = 0, n = 0;
    sym_kind kind = sym_kind_of(s, a);
    if (kind == SYM_CONST || kind == SYM_VAR) return 0;
    sym_linear t = sym_terms(s, a);
    if (kind == SYM_SUM) {
        n = t.n;
        part = t.term;
    } else {
        n = sym_operands(s, a, &part);
    }
    for (int i = 0; i < n; i++) {
        int depth = involved(s, part[i]);
        if (depth > most) most = depth;
    }
    return most + (kind != SYM_SUM && kind != SYM_PRODUCT);
}

bool ir_plain(const kernel *k, sym extent, str *why) {
    if (involved(k->syms, extent) <= IR_INVOLVED) return true;
    return ir_refuse(why, "extents would get too involved");
}

int ir_least_of(const kernel *k, sym a, sym part[IR_PARTS]) {
    sym_store *s = k->syms;
    sym_linear t = sym_terms(s, a);
    part[0] = a;
    for (int i = 0; i < t.n; i++) {
        const sym *operand;
        int64_t c = t.coef[i];
        sym term = t.term[i], op[IR_PARTS];
        if (c < 0 || sym_kind_of(s, term) != SYM_MIN) continue;
        int n = sym_operands(s, term, &operand), count = 0;
        if (n > IR_PARTS) return 1;
        memcpy(op, operand, (size_t)n * sizeof *op);
        sym rest = sym_sub(s, a, sym_scale(s, term, c));
        for (int j = 0; j < n; j++) {
            sym more[IR_PARTS];
            int m = ir_least_of(k, sym_add(s, rest, sym_scale(s, op[j], c)), more);
            for (int q = 0; q < m && count < IR_PARTS; q++) part[count++] = more[q];
        }
        return count;
    }
    return 1;
}

/* The innermost variable of t from place (e, loop) outward, where e counts the extra variables
 * still ahead, before the loops; 0: none is left. The place moves past it. */
static sym next_var(const proof *p, sym t, int *e, stmt_id *loop, sym *extent) {
    const kernel *k = p->k;
    while (*e > 0) {
        sym v = p->extra[--*e];
        if (!sym_uses(k->syms, t, v)) continue;
        *extent = sym_extent(k->syms, v);
        return v;
    }
    while (*loop && *loop != k->root) {
        const ir_stmt *l = ir_s(k, *loop);
        *loop = l->parent;
        if (l->kind != STMT_LOOP || !sym_uses(k->syms, t, l->l.var)) continue;
        *extent = l->l.extent;
        return l->l.var;
    }
    return 0;
}

/* t >= 0 by the ends of the variables from that place outward. */
static bool monotone(proof *p, sym t, int e, stmt_id loop) {
    sym_store *s = p->k->syms;
    if (sym_lo(s, t) >= 0 || sym_ge0(s, t) == SYM_TRUE) return true;
    if (--p->budget < 0) return false;
    sym extent, coef, rest, bound[IR_PARTS], v = next_var(p, t, &e, &loop, &extent);
    if (!v) return false;
    if (!ir_linear(p->k, t, v, &coef, &rest)) return monotone(p, t, e, loop);
    if (sym_lo(s, coef) >= 0) return monotone(p, rest, e, loop);
    if (sym_hi(s, coef) > 0) return monotone(p, t, e, loop);
    int n = ir_least_of(p->k, extent, bound);
    for (int i = 0; i < n; i++) {
        sym last = sym_sub(s, bound[i], SYM_ONE);
        if (monotone(p, sym_add(s, rest, sym_mul(s, coef, last)), e, loop)) return true;
    }
    return false;
}

static bool prove(proof *p, sym t, int first_fact);

/* One min, max or floor of t replaced by what bounds it. */
static bool by_atom(proof *p, sym t, int first_fact) {
    sym_store *s = p->k->syms;
    sym_linear terms = sym_terms(s, t);
    for (int i = 0; i < terms.n; i++) {
        sym term = terms.term[i];
        int64_t c = terms.coef[i], d;
        sym_kind kind = sym_kind_of(s, term);
        const sym *part;
        if (kind != SYM_MIN && kind != SYM_MAX && kind != SYM_DIV) continue;
        int n = sym_operands(s, term, &part);
        if (n > 4) continue;
        sym op[4];
        memcpy(op, part, (size_t)n * sizeof *op);
        sym rest = sym_sub(s, t, sym_scale(s, term, c));
        if (kind == SYM_DIV) {
            if (!sym_is_const(s, op[1], &d) || d > INT32_MAX) continue;
            sym e = c > 0 ? sym_sub(s, op[0], sym_const(s, d - 1)) : op[0];
            sym scaled = sym_add(s, sym_scale(s, rest, d), sym_scale(s, e, c));
            return prove(p, sym_add(s, scaled, sym_const(s, d - 1)), first_fact);
        }
        bool any = (kind == SYM_MIN) == (c < 0), all = true;
        for (int j = 0; j < n; j++) {
            bool one = prove(p, sym_add(s, rest, sym_scale(s, op[j], c)), first_fact);
            if (one && any) return true;
            if (!one && !any) return false;
            all &= one;
        }
        return all;
    }
    return false;
}

/* t minus a multiple of a fact that makes a term of t go. */
static bool by_fact(proof *p, sym t, int f) {
    sym_store *s = p->k->syms;
    sym fact = p->fact[f];
    int64_t tried = 0;
    for (int i = 0;; i++) {
        sym_linear a = sym_terms(s, t), b = sym_terms(s, fact); /* anew: the store may have grown */
        if (i >= a.n) return false;
        int j = 0;
        while (j < b.n && b.term[j] != a.term[i]) j++;
        int64_t c;
        if (j == b.n || !sym_quotient(a.coef[i], b.coef[j], &c) || c <= 0 || c == tried) continue;
        tried = c;
        if (prove(p, sym_sub(s, t, sym_scale(s, fact, c)), f + 1)) return true;
    }
}

/* t >= 0 where the variable v, inside all others, has come in. */
static bool with_extra(proof *p, sym t, sym v) {
    if (p->extras == EXTRAS) return false;
    p->extra[p->extras++] = v;
    bool proven = monotone(p, t, p->extras, p->at);
    p->extras--;
    return proven;
}

/* The steps of v by which a floor of a, taken of c*v + .., goes up evenly: d/gcd(c, d) for divisor
 * d. 0: there is none. */
static int64_t floor_step(const sym_store *s, sym a, sym v) {
    const sym *part;
    sym_linear t = sym_terms(s, a);
    for (int i = 0; i < t.n; i++) {
        sym term = t.term[i];
        int64_t d;
        if (!sym_uses(s, term, v)) continue;
        int n = sym_operands(s, term, &part);
        if (sym_kind_of(s, term) != SYM_DIV) {
            for (int j = 0; j < n; j++) {
                int64_t step = floor_step(s, part[j], v);
                if (step) return step;
            }
            continue;
        }
        sym_linear e = sym_terms(s, part[0]);
        if (!sym_is_const(s, part[1], &d) || d > INT32_MAX) continue;
        for (int j = 0; j < e.n; j++) {
            if (e.term[j] == v) return d / sym_gcd(d, e.coef[j]);
        }
    }
    return 0;
}

/* The fact is r - (sum of c*v) >= 0 with c > 0 over variables that are never negative: one of those
 * with c = 1 gives way to w - (the others of the sum). */
static bool by_bound(proof *p, sym t, int f) {
    sym_store *s = p->k->syms;
    sym_linear terms = sym_terms(s, p->fact[f]);
    sym var = 0, sum = SYM_ZERO, list[IR_FACTS];
    int64_t coef[IR_FACTS];
    int n = 0;
    for (int i = 0; i < terms.n; i++) {
        if (terms.coef[i] >= 0 || terms.coef[i] == INT64_MIN) continue;
        if (n == IR_FACTS || !sym_is_var(s, terms.term[i]) || sym_lo(s, terms.term[i]) < 0)
            return false;
        if (terms.coef[i] == -1) var = terms.term[i];
        coef[n] = -terms.coef[i];
        list[n++] = terms.term[i];
    }
    if (!var || !sym_uses(s, t, var)) return false;
    for (int i = 0; i < n; i++) sum = sym_add(s, sum, sym_scale(s, list[i], coef[i]));
    sym w = sym_loop(s, "w", sym_add(s, sym_add(s, p->fact[f], sum), SYM_ONE));
    sym value = sym_sub(s, w, sym_sub(s, sum, var));
    return with_extra(p, sym_subst(s, t, 1, &var, &value), w);
}

/* The fact is v - r >= 0: v gives way to w + r with w >= 0, which brings floors of v to where they
 * start. */
static bool by_start(proof *p, sym t, int f) {
    sym_store *s = p->k->syms;
    sym_linear terms = sym_terms(s, p->fact[f]);
    sym var = 0, fact[IR_FACTS];
    for (int i = 0; i < terms.n && !var; i++)
        if (terms.coef[i] == 1 && sym_is_var(s, terms.term[i]) && sym_uses(s, t, terms.term[i]))
            var = terms.term[i];
    int64_t most = sym_hi(s, p->fact[f]);
    if (!var || p->extras == EXTRAS || most < 0 || most == INT64_MAX) return false;
    sym rest = sym_sub(s, var, p->fact[f]), w = sym_loop(s, "w", sym_const(s, most + 1));
    sym value = sym_add(s, w, rest);
    proof inner = *p;
    for (int i = 0; i < p->facts; i++) fact[i] = sym_subst(s, p->fact[i], 1, &var, &value);
    inner.fact = fact;
    inner.extra[inner.extras++] = w;
    bool proven = prove(&inner, sym_subst(s, t, 1, &var, &value), f + 1);
    p->budget = inner.budget;
    return proven;
}

/* A floor of t over a loop's variable v with constant divisor: v is split as the floor has it. */
static bool by_split(proof *p, sym t, int first_fact) {
    sym_store *s = p->k->syms;
    for (stmt_id loop = p->at; loop && loop != p->k->root; loop = ir_s(p->k, loop)->parent) {
        const ir_stmt *l = ir_s(p->k, loop);
        int64_t d = l->kind == STMT_LOOP ? floor_step(s, t, l->l.var) : 0;
        if (d < 2 || p->extras + 2 > EXTRAS) continue;
        sym blocks = sym_add(s, l->l.extent, sym_const(s, d - 1));
        sym q = sym_loop(s, "q", sym_div(s, blocks, sym_const(s, d)));
        sym r = sym_loop(s, "r", sym_const(s, d));
        sym value = sym_add(s, sym_scale(s, q, d), r), var = l->l.var;
        sym fact[IR_FACTS];
        proof inner = *p;
        for (int f = 0; f < p->facts; f++) fact[f] = sym_subst(s, p->fact[f], 1, &var, &value);
        inner.fact = fact;
        inner.extra[inner.extras++] = q;
        inner.extra[inner.extras++] = r;
        bool proven = prove(&inner, sym_subst(s, t, 1, &var, &value), first_fact);
        p->budget = inner.budget;
        return proven;
    }
    return false;
}

/* The same by a multiple of the fact that is no number: t has a product q*v where the fact has v,
 * and q >= 0. So rows of a padded loop are proved in bounds where their length is a variable. */
static bool by_product(proof *p, sym t, int f) {
    sym_store *s = p->k->syms;
    sym fact = p->fact[f];
    for (int i = 0;; i++) {
        sym_linear a = sym_terms(s, t), b = sym_terms(s, fact); /* anew: the store may have grown */
        const sym *part;
        if (i >= a.n) return false;
        if (sym_kind_of(s, a.term[i]) != SYM_PRODUCT) continue;
        int n = sym_operands(s, a.term[i], &part), at = -1, j = -1;
        int64_t c = 0;
        if (n > 4) continue;
        for (int k = 0; k < n && at < 0; k++)
            for (j = 0; j < b.n; j++)
                if (b.term[j] == part[k] && sym_quotient(a.coef[i], b.coef[j], &c)) {
                    at = k;
                    break;
                }
        if (at < 0 || c <= 0) continue;
        sym op[4], q = sym_const(s, c);
        memcpy(op, part, (size_t)n * sizeof *op);
        for (int k = 0; k < n; k++)
            if (k != at) q = sym_mul(s, q, op[k]);
        if (sym_lo(s, q) < 0) continue;
        if (prove(p, sym_sub(s, t, sym_mul(s, q, fact)), f + 1)) return true;
    }
}

static bool prove(proof *p, sym t, int first_fact) {
    if (p->budget < 0) return false;
    if (monotone(p, t, p->extras, p->at)) return true;
    for (int f = first_fact; f < p->facts; f++)
        if (by_fact(p, t, f) || by_product(p, t, f)) return true;
    for (int f = first_fact; f < p->facts; f++)
        if (by_bound(p, t, f)) return true;
    for (int f = first_fact; f < p->facts; f++)
        if (by_start(p, t, f)) return true;
    return by_split(p, t, first_fact) || by_atom(p, t, first_fact);
}

bool ir_prove(const kernel *k, stmt_id at, sym target, int facts, const sym *fact) {
    proof p = {.k = k, .at = at, .facts = facts, .fact = fact, .budget = ATTEMPTS};
    sym known[IR_FACTS];
    if (p.facts > IR_FACTS) p.facts = IR_FACTS;
    for (int i = 0; i < p.facts; i++) known[i] = fact[i];
    for (stmt_id loop = at; loop && loop != k->root; loop = ir_s(k, loop)->parent) {
        const ir_stmt *l = ir_s(k, loop);
        if (l->kind != STMT_LOOP) continue;
        int64_t most = sym_hi(k->syms, l->l.extent);
        if (most <= 0) return true;
        bool once = most == 1 && sym_lo(k->syms, l->l.extent) < 1; /* and no variable tells */
        if (once && p.facts < IR_FACTS) known[p.facts++] = sym_sub(k->syms, l->l.extent, SYM_ONE);
    }
    p.fact = known;
    bool proven = prove(&p, target, 0);
    return !sym_overflowed(k->syms) &&
           proven; /* what overflowed 64 bits on the way proves nothing */
}

bool ir_extreme(const kernel *k, stmt_id at, stmt_id top, sym a, bool largest, sym *out) {
    sym_store *s = k->syms;
    for (stmt_id loop = at; loop != top; loop = ir_s(k, loop)->parent) {
        const ir_stmt *l = ir_s(k, loop);
        sym coef, rest;
        if (l->kind != STMT_LOOP || !sym_uses(s, a, l->l.var)) continue;
        if (!ir_linear(k, a, l->l.var, &coef, &rest)) return false;
        bool grows = sym_lo(s, coef) >= 0;
        if (!grows && sym_hi(s, coef) > 0) return false;
        sym end = sym_sub(s, l->l.extent, SYM_ONE);
        a = grows == largest ? sym_add(s, rest, sym_mul(s, coef, end)) : rest;
    }
    *out = a;
    return true;
}
