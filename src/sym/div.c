/* div.c - floor division.
 *
 * floor(a/t) for a divisor t = k*m (a number times a monomial, m = 1 for a plain number) is brought
 * to normal form by repeating, until nothing applies:
 *   pull    terms of a that t divides leave the division: (t*x + r)/t = x + r/t
 *   vanish  what is left is a known number when its range lies between two multiples of t
 *   split   for a common factor g of t = g*c and some terms: (g*x + r)/(g*c) = (x + r/g)/c, where
 *           r/g is a known number, or its own division cancels against one in x (r/g + x is what a
 *           sum of "high part" and "e mod g" looks like)
 *   merge   (x/u + y)/t = (x + u*y)/(t*u), and with -(x/u) = (-x + u - 1)/u for a negative sign
 * What remains is one DIV atom. All four hold for whole numbers without conditions except those
 * named, and t >= 1. Merging makes nested reshapes meet: (f/C)/B and f/(B*C) become the same.
 *
 * A divisor that is a sum is divided into a like a polynomial (leading monomial first), which is
 * exact whatever is pulled out: floor((q*t + r)/t) = q + floor(r/t). What all its terms have in
 * common is divided by before: floor(a/(g*t)) = floor(floor(a/g)/t), and with the other order of
 * divisions turned into this one, either way of writing it meets. */
#include "sym/internal.h"

/* What a division may cost, in terms looked at. It may ask for other divisions on its way, so
 * without an end to it the time could grow exponentially with the nesting. */
enum { DIVISION_EFFORT = 20000, DIVISION_COST = 100, PROOF_COST = 10 };

typedef struct division {
    sym_store *s;
    form *out; /* the quotient so far */
    form a;    /* still to be divided */
    factor by;
    int *effort; /* left */
} division;

static sym divide(sym_store *s, sym a, sym b, int *effort);

static bool division_plain(const division *d) {
    return d->by.m == SYM_ONE;
}

/* Sum of what g divides in a, over g, and of the rest. With `truncate`, coefficients are split
 * towards zero, so that the rest has coefficients below g. */
static void split_form(const form *a, factor g, bool truncate, form *over, form *rest) {
    form_open(over, a->s);
    form_open(rest, a->s);
    for (int i = 0; i < a->n; i++) {
        factor term = {a->coef[i], a->term[i]}, q;
        if (truncate && mono_quotient(a->s, term.m, g.m, &q.m)) {
            form_add(over, q.m, term.k / g.k);
            form_add(rest, term.m, term.k % g.k);
        } else if (factor_quotient(a->s, term, g, &q)) {
            form_add_factor(over, q, 1);
        } else {
            form_add_factor(rest, term, 1);
        }
    }
    if (g.m == SYM_ONE) {
        over->overflow |=
            __builtin_add_overflow(over->constant, floor_div(a->constant, g.k), &over->constant);
        rest->constant = floor_mod(a->constant, g.k);
    } else {
        rest->constant = a->constant;
    }
}

/* Is floor(r/g) one number? A form that proofs may know more about than its range does is tried
 * for 0 and -1. */
static bool quotient_known(const form *r, factor g, int *effort, int64_t *value) {
    sym_store *s = r->s;
    if ((*effort -= form_work(r)) < 0) return false;
    range x = form_range(r);
    if (x.lo != INT64_MIN && x.hi != INT64_MAX && g.m == SYM_ONE) {
        *value = floor_div(x.lo, g.k);
        if (floor_div(x.hi, g.k) == *value) return true;
    }
    if (g.m == SYM_ONE && !(form_flags(r) & (SYM_HAS_LOOP | SYM_HAS_BRANCH | SYM_HAS_PRODUCT)))
        return false;
    if ((*effort -= PROOF_COST * form_work(r)) < 0) return false;
    for (*value = 0; *value >= -1; --*value) {
        form low, high; /* r - value*g >= 0 and (value + 1)*g - 1 - r >= 0 */
        form_copy(&low, r);
        form_add_factor(&low, g, -*value);
        form_open(&high, s);
        form_add_factor(&high, g, *value + 1);
        sym_linear view = form_view(r);
        form_add_linear(&high, &view, -1);
        form_constant(&high, -1);
        if (form_nonneg(&low) && form_nonneg(&high)) return true;
    }
    return false;
}

static void pull_once(division *d, bool truncate) {
    form over, rest;
    split_form(&d->a, d->by, truncate, &over, &rest);
    sym_linear view = form_view(&over);
    form_add_linear(d->out, &view, 1);
    d->out->overflow |= over.overflow;
    form_copy(&d->a, &rest);
}

/* Coefficients are truncated only where no division is left in the numerator: x - 6*(x/6) is better
 * left as it is than divided by 4 into pieces. True when nothing remains. */
static bool pull(division *d) {
    bool positive = d->by.k > 0;
    if (!positive || (form_flags(&d->a) & SYM_HAS_DIV)) pull_once(d, false);
    if (positive && !(form_flags(&d->a) & SYM_HAS_DIV)) pull_once(d, true);
    return d->a.n == 0 && d->a.constant == 0;
}

/* Where divisions kept pull() from truncating coefficients: does that make the rest vanish? */
static bool vanish_truncated(division *d) {
    if (d->by.k < 1 || !(form_flags(&d->a) & SYM_HAS_DIV)) return false;
    form over, rest;
    split_form(&d->a, d->by, true, &over, &rest);
    int64_t value;
    if (over.n == 0 || !quotient_known(&rest, d->by, d->effort, &value)) return false;
    sym_linear view = form_view(&over);
    form_add_linear(d->out, &view, 1);
    form_constant(d->out, value);
    return true;
}

static bool vanish(division *d) {
    int64_t value;
    if (!quotient_known(&d->a, d->by, d->effort, &value)) return vanish_truncated(d);
    form_constant(d->out, value);
    return true;
}

static int count_divs(const form *f) {
    int n = 0;
    for (int i = 0; i < f->n; i++) n += sym_at(f->s, f->term[i])->kind == SYM_DIV;
    return n;
}

/* over += floor(rest/g), if that is a number or makes divisions cancel. */
static bool settle_rest(division *d, form *over, form *rest, factor g) {
    int64_t value;
    if (quotient_known(rest, g, d->effort, &value)) {
        form_constant(over, value);
        return !over->overflow;
    }
    if (!(form_flags(over) & SYM_HAS_DIV) || *d->effort <= 0) return false;
    sym_store *s = over->s;
    bool marked = s->overflow; /* an attempt must not mark the store */
    form size;
    form_open(&size, s);
    form_add_factor(&size, g, 1);
    sym quotient = divide(s, form_sym(rest), form_sym(&size), d->effort);
    bool bad = s->overflow && !marked;
    s->overflow = marked;
    form_add(over, quotient, 1);
    return !bad && !over->overflow && count_divs(over) < count_divs(&d->a);
}

enum { SPLIT_MAX = 16 };

typedef struct factor_list {
    factor item[SPLIT_MAX];
    int degree[SPLIT_MAX];
    int n;
} factor_list;

/* Highest degree and then largest number first; no duplicates. */
static void factor_put(const sym_store *s, factor_list *list, factor g) {
    const sym *atoms = NULL;
    int degree = mono_atoms(s, &g.m, &atoms), at = list->n;
    for (int i = 0; i < list->n; i++)
        if (list->item[i].k == g.k && list->item[i].m == g.m) return;
    if (at == SPLIT_MAX) return;
    for (; at > 0; at--) {
        int other = list->degree[at - 1];
        if (other > degree || (other == degree && list->item[at - 1].k >= g.k)) break;
        list->item[at] = list->item[at - 1];
        list->degree[at] = other;
    }
    list->item[at] = g;
    list->degree[at] = degree;
    list->n++;
}

/* The common factors of the divisor with single terms, with several of them, and its number where
 * that is not all of it; without the divisor itself. */
static void split_factors(const division *d, factor_list *list) {
    list->n = 0;
    for (int i = 0; i < d->a.n; i++) {
        factor g = factor_gcd(d->s, d->by, (factor){d->a.coef[i], d->a.term[i]});
        if (!factor_is_one(g) && (g.k != d->by.k || g.m != d->by.m)) factor_put(d->s, list, g);
    }
    for (int i = 0; i < list->n; i++) {
        for (int j = 0; j < i; j++) {
            factor g = factor_gcd(d->s, list->item[i], list->item[j]);
            if (!factor_is_one(g)) factor_put(d->s, list, g); /* behind both */
        }
    }
    if (!division_plain(d) && d->by.k > 1) factor_put(d->s, list, (factor){d->by.k, SYM_ONE});
}

static bool split(division *d) {
    factor_list list;
    split_factors(d, &list);
    bool truncate = !(form_flags(&d->a) & SYM_HAS_DIV);
    for (int i = 0; i < list.n; i++) {
        form over, rest;
        factor left;
        if (!factor_quotient(d->s, d->by, list.item[i], &left)) continue;
        split_form(&d->a, list.item[i], truncate, &over, &rest);
        if (over.overflow || rest.overflow) continue;
        if (!settle_rest(d, &over, &rest, list.item[i])) continue;
        form_copy(&d->a, &over);
        d->by = left;
        return true;
    }
    return false;
}

/* Merging with something added multiplies that by u. Beyond this divisor it would only bring values
 * near the end of 64 bits. */
static const int64_t merge_most = (int64_t)1 << 40;

/* Term i of d->a is +-floor(x/u). */
static bool merge_term(division *d, int i, const sym_node *x, factor u) {
    sym_store *s = d->s;
    form a, rest;
    form_copy(&rest, &d->a);
    form_drop(&rest, i);
    form_open(&a, s);
    sym_linear view = form_view(&rest);
    form_add_times(&a, &view, u);
    form_add(&a, x->operand[0], d->a.coef[i]);
    if (d->a.coef[i] < 0) {
        form_add_factor(&a, u, 1);
        form_constant(&a, -1);
    }
    factor by;
    if (a.overflow || __builtin_mul_overflow(d->by.k, u.k, &by.k)) return false;
    if (rest.n && by.k > merge_most) return false;
    if (!mono_mul(s, d->by.m, u.m, &by.m)) return false;
    form_copy(&d->a, &a);
    d->by = by;
    return true;
}

static bool merge(division *d) {
    for (int i = d->a.n - 1; i >= 0; i--) {
        const sym_node *x = sym_at(d->s, d->a.term[i]);
        factor u;
        if (x->kind != SYM_DIV || (d->a.coef[i] != 1 && d->a.coef[i] != -1)) continue;
        if (factor_of(d->s, x->operand[1], &u) && u.k > 0 && merge_term(d, i, x, u)) return true;
    }
    return false;
}

/* floor(floor(x/u)/t) = floor(floor(x/t)/u) for a sum u: sums divide last. */
static bool exchange(division *d) {
    if (d->a.n != 1 || d->a.coef[0] != 1 || d->a.constant) return false;
    const sym_node *x = sym_at(d->s, d->a.term[0]);
    factor u;
    if (x->kind != SYM_DIV || factor_of(d->s, x->operand[1], &u)) return false;
    form by;
    form_open(&by, d->s);
    form_add_factor(&by, d->by, 1);
    sym inner = divide(d->s, x->operand[0], form_sym(&by), d->effort);
    form_add(d->out, divide(d->s, inner, x->operand[1], d->effort), 1);
    return true;
}

/* Each round that goes on makes the divisor smaller or takes a division out of the numerator. */
enum { DIVISION_ROUNDS = 64 };

static void divide_by_factor(division *d) {
    for (int round = 0; round < DIVISION_ROUNDS; round++) {
        if (d->a.overflow || d->out->overflow) {
            d->out->overflow = true;
            return;
        }
        if (pull(d) || vanish(d) || exchange(d)) return;
        if (!split(d) && !merge(d)) break;
    }
    form by;
    form_open(&by, d->s);
    form_add_factor(&by, d->by, 1);
    sym operand[2] = {form_sym(&d->a), form_sym(&by)};
    form_add(d->out, sym_node_make(d->s, SYM_DIV, 2, operand), 1);
}

/* ---- divisors that are sums ----------------------------------------------------------------- */

/* The divisor's leading term: highest degree, then highest id. */
static int leading_term(const sym_store *s, const sym_linear *t) {
    int best = 0, best_degree = 0;
    for (int i = 0; i < t->n; i++) {
        const sym *atoms = NULL;
        int degree = mono_atoms(s, &t->term[i], &atoms);
        if (degree >= best_degree) {
            best = i;
            best_degree = degree;
        }
    }
    return best;
}

enum { LONG_DIVISION_STEPS = 32 };

void form_divide(form *out, form *a, const sym_linear *t) {
    sym_store *s = out->s;
    int lead = leading_term(s, t);
    for (int step = 0; step < LONG_DIVISION_STEPS; step++) {
        factor q = {0, SYM_ONE};
        for (int i = a->n - 1; i >= 0 && !q.k; i--)
            if (!factor_quotient(s, (factor){a->coef[i], a->term[i]},
                                 (factor){t->coef[lead], t->term[lead]}, &q))
                q.k = 0;
        if (!q.k || a->overflow) return;
        form_add_factor(out, q, 1);
        if (q.k == INT64_MIN) a->overflow = true;
        form_add_times(a, t, (factor){a->overflow ? 0 : -q.k, q.m});
    }
}

static bool between(sym_store *s, sym a, sym b) { /* 0 <= a < b */
    return form_at_least(s, a, SYM_ZERO, 0) && form_at_least(s, b, a, 1);
}

/* What divides every term of a sum, and the sum divided by it. */
static factor content(sym_store *s, const sym_linear *t, form *primitive) {
    factor g = {t->coef[0], t->term[0]};
    for (int i = 0; i < t->n; i++) g = factor_gcd(s, g, (factor){t->coef[i], t->term[i]});
    if (t->constant) g = factor_gcd(s, g, (factor){t->constant, SYM_ONE});
    form_open(primitive, s);
    for (int i = 0; i < t->n; i++) {
        factor q;
        if (factor_quotient(s, (factor){t->coef[i], t->term[i]}, g, &q))
            form_add_factor(primitive, q, 1);
    }
    if (t->constant) form_constant(primitive, t->constant / g.k);
    return g;
}

/* floor(a/(g*t)) = floor(floor(a/g)/t) */
static bool divide_by_content(sym_store *s, sym a, sym b, int *effort, sym *quotient) {
    sym_linear t = sym_terms(s, b);
    form primitive, size;
    factor g = content(s, &t, &primitive);
    if (factor_is_one(g)) return false;
    form_open(&size, s);
    form_add_factor(&size, g, 1);
    sym first = form_sym(&size), then = form_sym(&primitive);
    if (sym_at(s, first)->lo < 1 || sym_at(s, then)->lo < 1) return false;
    *quotient = divide(s, divide(s, a, first, effort), then, effort);
    return true;
}

static sym divide_by_sum(sym_store *s, sym a, sym b, int *effort) {
    sym quotient;
    if (divide_by_content(s, a, b, effort, &quotient)) return quotient;
    if (between(s, a, b)) return SYM_ZERO;
    form out, rest;
    form_open(&out, s);
    form_set(&rest, s, a);
    sym_linear t = sym_terms(s, b);
    form_divide(&out, &rest, &t);
    if (rest.n || rest.constant) {
        sym left = form_sym(&rest);
        form up;
        form_set(&up, s, left);
        form_add(&up, b, 1);
        if (!up.overflow && form_at_least(s, SYM_ZERO, left, 1) && form_nonneg(&up))
            form_constant(&out, -1);
        else if (!between(s, left, b))
            form_add(&out, sym_node_make(s, SYM_DIV, 2, (sym[2]){left, b}), 1);
    }
    out.overflow |= rest.overflow;
    return form_sym(&out);
}

/* ---- entries -------------------------------------------------------------------------------- */

static sym divide_afresh(sym_store *s, sym a, sym b, int *effort) {
    factor by;
    if (!factor_of(s, b, &by)) return divide_by_sum(s, a, b, effort);
    form out;
    division d = {.s = s, .out = &out, .by = by, .effort = effort};
    form_open(&out, s);
    form_set(&d.a, s, a);
    divide_by_factor(&d);
    return form_sym(&out);
}

/* A divisor's atoms with only one possible value become part of its number. (Not so in sums, where
 * a term may be there to cancel against part of another.) */
static sym known_divisor(sym_store *s, sym b) {
    factor t, known = {1, SYM_ONE};
    if (!(sym_at(s, b)->flags & SYM_HAS_KNOWN) || !factor_of(s, b, &t)) return b;
    const sym *atom = NULL;
    int n = mono_atoms(s, &t.m, &atom);
    form f;
    form_open(&f, s);
    known.k = t.k;
    for (int i = 0; i < n; i++) {
        const sym_node *x = sym_at(s, atom[i]);
        if (x->lo == x->hi)
            f.overflow |= __builtin_mul_overflow(known.k, x->lo, &known.k);
        else
            f.overflow |= !mono_mul(s, known.m, atom[i], &known.m);
    }
    form_add_factor(&f, known, 1);
    return f.overflow ? b : form_sym(&f);
}

/* Quotients are remembered, except those that might have come out better with more effort: what
 * sym_div gives must not depend on what was asked before. */
static sym divide(sym_store *s, sym a, sym b, int *effort) {
    if (sym_at(s, b)->lo < 1) return sym_overflow(s);
    b = known_divisor(s, b);
    const sym_node *x = sym_at(s, a), *y = sym_at(s, b);
    if (b == SYM_ONE || a == SYM_ZERO) return a;
    if (y->kind == SYM_CONST && x->kind == SYM_CONST)
        return sym_const(s, floor_div(x->constant, y->constant));
    uint64_t slot = ((a * 0x9e3779b1u + b * 0x85ebca77u) >> 8) % SYM_MEMO;
    if (s->memo[slot].a == a && s->memo[slot].b == b) return s->memo[slot].quotient;
    bool marked = s->overflow, first = *effort == DIVISION_EFFORT;
    s->overflow = false;
    *effort -= DIVISION_COST;
    sym quotient = divide_afresh(s, a, b, effort);
    const sym_node *z = sym_at(s, quotient);
    if (z->lo == 0 && z->hi == 0) quotient = SYM_ZERO; /* a sum of variables of one value */
    if (!s->overflow && (first || *effort > 0)) {
        s->memo[slot].a = a;
        s->memo[slot].b = b;
        s->memo[slot].quotient = quotient;
    }
    s->overflow |= marked;
    return quotient;
}

sym sym_div(sym_store *s, sym a, sym b) {
    int effort = DIVISION_EFFORT;
    return divide(s, a, b, &effort);
}

sym sym_mod(sym_store *s, sym a, sym b) {
    b = known_divisor(s, b);
    sym q = sym_div(s, a, b);
    if (q == SYM_ZERO) return a;
    return sym_sub(s, a, sym_mul(s, q, b));
}
