/* bounds.c - proving that an index expression is never negative.
 *
 * sym knows the range of an expression when every variable ranges on its own. That is too coarse
 * for what schedules make: in 16*io + ii < n the inner extent min(16, n - 16*io) depends on the
 * outer variable, and a padded loop stays inside only by its validity. Three steps, all sound:
 *
 *   monotone   t is linear in a loop's variable and the coefficient's sign is known: the worst case
 *              is an end of the loop, v = 0 or v = extent - 1, which goes into t. Loops go from the
 *              inside out, since an extent may use outer variables. Where the extent is min(a, b),
 *              v <= a - 1 and v <= b - 1 both hold, and either may be what the proof needs.
 *   facts      t - c*f >= 0 with f >= 0 and c > 0 implies t >= 0; c is chosen so that a term goes.
 *   atoms      c*min(a, b) is at least both c*a and c*b for c < 0; floor(e/d) lies within
 *              [(e - d + 1)/d, e/d].
 *
 * A loop of no trips makes its body's claims empty, so extent >= 1 may be taken for granted. */
#include "kern/kern.h"

typedef struct proof {
    const kern *k;
    kstmt at;
    int facts;
    const sym *fact;
    int budget; /* attempts left: proofs that exist are short */
} proof;

enum { ATTEMPTS = 300 };

bool kern_linear(const kern *k, sym a, sym var, sym *coef, sym *rest) {
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

int kern_facts(const kern *k, sym truth, sym fact[KERN_FACTS]) {
    const sym *part;
    if (truth == SYM_TRUE) return 0;
    if (sym_kind_of(k->syms, truth) == SYM_GE0) {
        sym_operands(k->syms, truth, &part);
        fact[0] = part[0];
        return 1;
    }
    if (sym_kind_of(k->syms, truth) != SYM_AND) return 0;
    int n = 0, parts = sym_operands(k->syms, truth, &part);
    for (int i = 0; i < parts && n < KERN_FACTS; i++) {
        sym more[KERN_FACTS];
        int m = kern_facts(k, part[i], more);
        for (int j = 0; j < m && n < KERN_FACTS; j++) fact[n++] = more[j];
    }
    return n;
}

/* The bounds an extent is the least of; at most 4. */
static int extent_bounds(const kern *k, sym extent, sym bound[4]) {
    const sym *part;
    int n = sym_kind_of(k->syms, extent) == SYM_MIN ? sym_operands(k->syms, extent, &part) : 0;
    if (n == 0 || n > 4) {
        bound[0] = extent;
        return 1;
    }
    for (int i = 0; i < n; i++) bound[i] = part[i];
    return n;
}

static bool with_var(proof *p, sym t, kstmt loop, sym value);

/* t >= 0 by the loops from `loop` outward. */
static bool monotone(proof *p, sym t, kstmt loop) {
    sym_store *s = p->k->syms;
    if (sym_lo(s, t) >= 0 || sym_ge0(s, t) == SYM_TRUE) return true;
    if (--p->budget < 0) return false;
    while (loop && loop != p->k->root) {
        const kern_stmt *l = kern_s(p->k, loop);
        if (l->kind == KS_LOOP && sym_uses(s, t, l->l.var)) break;
        loop = l->parent;
    }
    if (!loop || loop == p->k->root) return false;
    const kern_stmt *l = kern_s(p->k, loop);
    sym coef, rest, bound[4];
    if (!kern_linear(p->k, t, l->l.var, &coef, &rest)) return monotone(p, t, l->parent);
    if (sym_lo(s, coef) >= 0) return monotone(p, rest, l->parent);
    if (sym_hi(s, coef) > 0) return monotone(p, t, l->parent);
    int n = extent_bounds(p->k, l->l.extent, bound);
    for (int i = 0; i < n; i++)
        if (with_var(p, t, loop, sym_sub(s, bound[i], SYM_ONE))) return true;
    return false;
}

static bool with_var(proof *p, sym t, kstmt loop, sym value) {
    sym var = kern_s(p->k, loop)->l.var;
    return monotone(p, sym_subst(p->k->syms, t, 1, &var, &value), kern_s(p->k, loop)->parent);
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
            return prove(p, sym_add(s, sym_scale(s, rest, d), sym_scale(s, e, c)), first_fact);
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
        if (j == b.n || a.coef[i] % b.coef[j] != 0) continue;
        int64_t c = a.coef[i] / b.coef[j];
        if (c <= 0 || c == tried) continue;
        tried = c;
        if (prove(p, sym_sub(s, t, sym_scale(s, fact, c)), f + 1)) return true;
    }
}

static bool prove(proof *p, sym t, int first_fact) {
    if (p->budget < 0) return false;
    if (monotone(p, t, p->at)) return true;
    for (int f = first_fact; f < p->facts; f++)
        if (by_fact(p, t, f)) return true;
    return by_atom(p, t, first_fact);
}

bool kern_prove(const kern *k, kstmt at, sym target, int facts, const sym *fact) {
    proof p = {.k = k, .at = at, .facts = facts, .fact = fact, .budget = ATTEMPTS};
    bool proven = prove(&p, target, 0);
    return !sym_overflowed(k->syms) && proven; /* what left 64 bits on the way proves nothing */
}

bool kern_extreme(const kern *k, kstmt at, kstmt top, sym a, bool largest, sym *out) {
    sym_store *s = k->syms;
    for (kstmt loop = at; loop != top; loop = kern_s(k, loop)->parent) {
        const kern_stmt *l = kern_s(k, loop);
        sym coef, rest;
        if (l->kind != KS_LOOP || !sym_uses(s, a, l->l.var)) continue;
        if (!kern_linear(k, a, l->l.var, &coef, &rest)) return false;
        bool grows = sym_lo(s, coef) >= 0;
        if (!grows && sym_hi(s, coef) > 0) return false;
        sym end = sym_sub(s, l->l.extent, SYM_ONE);
        a = grows == largest ? sym_add(s, rest, sym_mul(s, coef, end)) : rest;
    }
    *out = a;
    return true;
}
