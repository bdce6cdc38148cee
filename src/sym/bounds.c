/* bounds.c - ranges of expressions, and the prover of "this form is never negative".
 *
 * Ranges. A sum's range starts as the sum of its terms' ranges. That is blind to terms that move
 * together: x - 4*floor(x/4) would seem to reach from -x to x. So for divisions by constants we use
 * floor(a/n) = (a - m)/n with m in [0, n-1]: the form is multiplied by what makes the division's
 * coefficient divisible by n, the division is replaced by its numerator, whose terms cancel against
 * the others, and m's share is kept aside in an interval (the slack). The result, divided by the
 * multiplier and rounded inwards, is one more valid range, and we intersect; and a sum of multiples
 * of g is rounded inwards to multiples of g. Terms without common variables cannot cancel, so the
 * sum is first split into groups that share variables, and only groups with a division are worked
 * on; a division alone in its group has an exact range already. Where all terms share a factor it
 * is taken out, for the sign of t*t - 2*t is that of t - 2.
 *
 * Proofs. Ranges know nothing of symbolic bounds: i < n for a loop variable i of extent n. To prove
 * g >= 0 the prover rewrites g to something smaller, one atom at a time, until its range does it:
 *   - a loop variable under a negative factor is replaced by extent - 1,
 *   - min under a negative factor by any operand, max under a positive one likewise; elsewhere
 *     each operand must do,
 *   - floor(a/t) by a/t or (a - t + 1)/t, whichever is smaller, after multiplying g by what makes
 *     its factor divisible by t (g >= 0 follows from s*g + s - 1 >= 0 for whole numbers),
 *   - any atom in a product by its numeric bound.
 * The factor of an atom is everything it is multiplied by, and may be symbolic; its sign comes from
 * its range. Atoms are tried from the highest id down, since extents and operands have lower ids
 * than what is made of them. What a sample (sample.c) refutes is not tried. Steps and their
 * costs are counted, so the prover always ends; it may fail to prove what is true, never the other
 * way round.
 *
 * Bounds saturate: INT64_MIN as a lower and INT64_MAX as an upper bound mean "none". As the other
 * bound they are mere numbers, which is why lower and upper ends are added by different rules. */
#include "sym/internal.h"

__extension__ typedef __int128 int128;

/* ---- interval arithmetic -------------------------------------------------------------------- */

static int64_t clamp(int128 v) {
    return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static int64_t add_lo(int64_t a, int64_t b) {
    return a == INT64_MIN || b == INT64_MIN ? INT64_MIN : clamp((int128)a + b);
}

static int64_t add_hi(int64_t a, int64_t b) {
    return a == INT64_MAX || b == INT64_MAX ? INT64_MAX : clamp((int128)a + b);
}

static range range_add(range a, range b) {
    return (range){add_lo(a.lo, b.lo), add_hi(a.hi, b.hi)};
}

static range range_scale(range a, int64_t k) {
    if (k >= 0)
        return (range){a.lo == INT64_MIN && k ? INT64_MIN : clamp((int128)a.lo * k),
                       a.hi == INT64_MAX && k ? INT64_MAX : clamp((int128)a.hi * k)};
    return (range){a.hi == INT64_MAX ? INT64_MIN : clamp((int128)a.hi * k),
                   a.lo == INT64_MIN ? INT64_MAX : clamp((int128)a.lo * k)};
}

static range range_meet(range a, range b) {
    range r = {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    if (r.lo > r.hi) r.hi = r.lo; /* no value at all: any range is true of it */
    return r;
}

/* One corner of a product; infinities are told by which end of its range a number is. */
static int128 corner(range a, bool a_hi, range b, bool b_hi) {
    int64_t x = a_hi ? a.hi : a.lo, y = b_hi ? b.hi : b.lo;
    if (x == 0 || y == 0) return 0;
    bool endless = x == (a_hi ? INT64_MAX : INT64_MIN) || y == (b_hi ? INT64_MAX : INT64_MIN);
    if (!endless) return (int128)x * y;
    return (x < 0) == (y < 0) ? (int128)1 << 126 : -((int128)1 << 126);
}

static range range_mul(range a, range b) {
    int128 lo = corner(a, false, b, false), hi = lo;
    for (int i = 1; i < 4; i++) {
        int128 c = corner(a, i & 1, b, i & 2);
        if (c < lo) lo = c;
        if (c > hi) hi = c;
    }
    return (range){clamp(lo), clamp(hi)};
}

static range range_power(range a, int n) {
    range r = a;
    for (int i = 1; i < n; i++) r = range_mul(r, a);
    if (n % 2 == 0 && r.lo < 0) r.lo = 0;
    return r;
}

/* Floor division by a divisor in [b.lo, b.hi], which is at least 1. Quotients grow with the
 * divisor below zero and shrink above. */
static range range_div(range a, range b) {
    int64_t lo, hi;
    if (b.lo < 1) b.lo = 1;
    if (b.hi < 1) b.hi = 1;
    if (a.lo == INT64_MIN)
        lo = INT64_MIN;
    else if (a.lo < 0)
        lo = floor_div(a.lo, b.lo);
    else
        lo = b.hi == INT64_MAX ? 0 : a.lo / b.hi;
    if (a.hi == INT64_MAX)
        hi = INT64_MAX;
    else if (a.hi >= 0)
        hi = a.hi / b.lo;
    else
        hi = b.hi == INT64_MAX ? -1 : floor_div(a.hi, b.hi);
    return (range){lo, hi};
}

range sym_range(const sym_store *s, sym a) {
    const sym_node *x = sym_at(s, a);
    return (range){x->lo, x->hi};
}

static range range_of_product(sym_store *s, int n, const sym *atom) {
    range r = {1, 1};
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && atom[end] == atom[i];) end++;
        r = range_mul(r, range_power(sym_range(s, atom[i]), end - i));
    }
    return r;
}

range range_of_operands(sym_store *s, sym_kind kind, int n, const sym *operand) {
    if (kind == SYM_GE0 || kind == SYM_AND) return (range){0, 1};
    if (kind == SYM_PRODUCT) return range_of_product(s, n, operand);
    if (kind == SYM_DIV) return range_div(sym_range(s, operand[0]), sym_range(s, operand[1]));
    range r = sym_range(s, operand[0]);
    for (int i = 1; i < n; i++) {
        range x = sym_range(s, operand[i]);
        if ((kind == SYM_MIN) == (x.lo < r.lo)) r.lo = x.lo;
        if ((kind == SYM_MIN) == (x.hi < r.hi)) r.hi = x.hi;
    }
    return r;
}

/* ---- ranges of sums ------------------------------------------------------------------------- */

static range term_range(const form *f, int i) {
    return range_scale(sym_range(f->s, f->term[i]), f->coef[i]);
}

static range naive_range(const form *f) {
    range r = {f->constant, f->constant};
    for (int i = 0; i < f->n; i++) r = range_add(r, term_range(f, i));
    return r;
}

/* A form multiplied by `scale` whose divisions were partly replaced: its value times scale is the
 * form plus something in `slack`. */
typedef struct relaxed {
    form f;
    range slack;
    int64_t scale;
} relaxed;

static void relaxed_set(relaxed *x, const form *f) {
    form_copy(&x->f, f);
    x->slack = (range){0, 0};
    x->scale = 1;
}

static range relaxed_range(const relaxed *x) {
    range r = range_add(naive_range(&x->f), x->slack);
    if (x->scale > 1) {
        if (r.lo != INT64_MIN) r.lo = -floor_div(-r.lo, x->scale);
        if (r.hi != INT64_MAX) r.hi = floor_div(r.hi, x->scale);
    }
    return r;
}

/* Replace the division that is term i, if its divisor is constant. */
static bool relax_constant(relaxed *x, int i, const sym_node *d, int64_t n) {
    form *f = &x->f;
    int64_t k = f->coef[i], times = n / sym_gcd(k, n);
    form_scale(f, times);
    bool bad = __builtin_mul_overflow(x->scale, times, &x->scale);
    x->slack = range_scale(x->slack, times);
    if (f->overflow || bad) return false;
    int64_t q = f->coef[i] / n;
    if (q == INT64_MIN) return false;
    form_drop(f, i);
    form_add(f, d->operand[0], q);
    x->slack = range_add(x->slack, range_scale((range){0, n - 1}, -q));
    return !f->overflow;
}

/* Replace q*t*floor(a/t), q constant, for a symbolic divisor t: its monomials times the division
 * must all be there in t's proportions. */
static bool relax_symbolic(relaxed *x, const sym_node *d) {
    form *f = &x->f;
    sym_store *s = f->s;
    sym_linear t = sym_terms(s, d->operand[1]);
    sym first;
    if (!mono_mul(s, t.term[0], d->self, &first)) return false;
    int at = form_find(f, first);
    int64_t q;
    if (at < 0 || !sym_quotient(f->coef[at], t.coef[0], &q) || q == INT64_MIN) return false;
    form part, whole;
    form_copy(&whole, f);
    form_open(&part, s);
    form_add(&part, d->self, 1);
    form_add_product(&whole, &t, &(sym_linear){0, 1, part.coef, part.term}, -q);
    for (int i = 0; i < whole.n; i++) {
        sym left;
        if (whole.term[i] == d->self || mono_quotient(s, whole.term[i], d->self, &left))
            return false;
    }
    form_add(&whole, d->operand[0], q);
    if (whole.overflow) return false;
    form_copy(f, &whole);
    int64_t most = sym_hi(s, d->operand[1]);
    range m = {0, most == INT64_MAX ? most : most - 1};
    x->slack = range_add(x->slack, range_scale(m, -q));
    return true;
}

/* The division with the highest id below `below` among the atoms of f's terms; *at is a term with
 * it. */
static const sym_node *next_div(const form *f, sym below, int *at) {
    const sym_node *best = NULL;
    for (int i = 0; i < f->n; i++) {
        if (!(sym_at(f->s, f->term[i])->flags & SYM_HAS_DIV)) continue;
        const sym *atom = NULL;
        int n = mono_atoms(f->s, &f->term[i], &atom);
        for (int j = 0; j < n; j++) {
            const sym_node *x = sym_at(f->s, atom[j]);
            if (x->kind != SYM_DIV || x->self >= below || (best && x->self <= best->self)) continue;
            best = x;
            *at = i;
        }
    }
    return best;
}

static bool relax(relaxed *x, const sym_node *d) {
    int64_t n;
    if (!sym_is_const(x->f.s, d->operand[1], &n)) return relax_symbolic(x, d);
    int at = form_find(&x->f, d->self);
    return at >= 0 && relax_constant(x, at, d, n);
}

enum { RELAX_STEPS = 12, RELAX_TERMS = 64 }; /* tried per group; in a form, at most */

/* All divisions one after the other from the highest id down; each stage gives a range. */
static range relax_all(const form *f, range r) {
    relaxed x;
    relaxed_set(&x, f);
    sym below = UINT32_MAX;
    for (int step = 0; step < RELAX_STEPS; step++) {
        int at = 0;
        const sym_node *d = next_div(&x.f, below, &at);
        if (!d || x.f.n > RELAX_TERMS) break;
        below = d->self;
        relaxed before = {.slack = x.slack, .scale = x.scale};
        form_copy(&before.f, &x.f);
        if (relax(&x, d)) {
            r = range_meet(r, relaxed_range(&x));
        } else {
            form_copy(&x.f, &before.f);
            x.slack = before.slack;
            x.scale = before.scale;
        }
    }
    return r;
}

/* Each division on its own. */
static range relax_each(const form *f, range r) {
    sym below = UINT32_MAX;
    for (int step = 0; step < RELAX_STEPS; step++) {
        int at = 0;
        const sym_node *d = next_div(f, below, &at);
        if (!d) break;
        below = d->self;
        relaxed x;
        relaxed_set(&x, f);
        if (relax(&x, d)) r = range_meet(r, relaxed_range(&x));
    }
    return r;
}

static int64_t coefficients_gcd(const form *f) {
    int64_t g = 0;
    for (int i = 0; i < f->n && g != 1; i++) g = sym_gcd(g, f->coef[i]);
    return g;
}

/* A sum without constant is a multiple of its coefficients' common divisor. */
static range round_inwards(const form *f, range r) {
    int64_t g = coefficients_gcd(f);
    if (g < 2) return r;
    range rounded = r;
    if (r.lo != INT64_MIN) rounded.lo = add_lo(r.lo, floor_mod(-r.lo, g));
    if (r.hi != INT64_MAX) rounded.hi = add_hi(r.hi, -floor_mod(r.hi, g));
    return range_meet(r, rounded);
}

static range group_range(const form *f) {
    range r = naive_range(f);
    if (f->n == 1 && sym_at(f->s, f->term[0])->kind == SYM_DIV) return r;
    if (f->n <= RELAX_TERMS) r = relax_each(f, relax_all(f, r));
    return round_inwards(f, r);
}

/* Move the terms that share variables, directly or through others, with term `seed` from f to
 * group. */
static void take_group(form *f, form *group, int seed) {
    form_open(group, f->s);
    uint64_t vars = sym_at(f->s, f->term[seed])->vars;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < f->n; i++) {
            const sym_node *x = sym_at(f->s, f->term[i]);
            if (!(x->vars & vars)) continue;
            vars |= x->vars;
            form_add(group, x->self, f->coef[i]);
            form_drop(f, i);
            more = true;
            break;
        }
    }
}

/* With an atom that all terms share, f = c + atom*rest; what else they share is found in rest. */
static range shared_range(const form *f, range r) {
    const sym *atom = NULL;
    int n = mono_atoms(f->s, &f->term[0], &atom);
    for (int i = 0; i < n; i++) {
        form rest;
        form_open(&rest, f->s);
        int j = 0;
        for (sym q; j < f->n && mono_quotient(f->s, f->term[j], atom[i], &q); j++)
            form_add(&rest, q, f->coef[j]);
        if (j < f->n) continue;
        range product = range_mul(sym_range(f->s, atom[i]), form_range(&rest));
        return range_meet(r, range_add(product, (range){f->constant, f->constant}));
    }
    return r;
}

range form_range(const form *f) {
    range r = naive_range(f);
    if (r.lo == r.hi) return r;
    int flags = form_flags(f);
    if (f->n > 1 && flags & SYM_HAS_PRODUCT) r = shared_range(f, r);
    if (r.lo == r.hi || !(flags & SYM_HAS_DIV)) return r;
    if (f->n == 1 && sym_at(f->s, f->term[0])->kind == SYM_DIV) return r;
    form left;
    form_copy(&left, f);
    range sum = {f->constant, f->constant};
    while (left.n) {
        int seed = 0;
        if (!next_div(&left, UINT32_MAX, &seed)) break;
        form group;
        take_group(&left, &group, seed);
        if (group.n == 0) break;
        sum = range_add(sum, group_range(&group));
    }
    left.constant = 0;
    return range_meet(r, range_add(sum, naive_range(&left)));
}

/* ---- proofs --------------------------------------------------------------------------------- */

enum { PROOF_STEPS = 40, PROOF_DEPTH = 12, PROOF_WORK = 3000, PROOF_TERMS = 32 };

typedef struct proof {
    sym_store *s;
    int steps, work; /* left */
} proof;

static bool proven(proof *p, form *g, int depth);

/* g*x + c >= 0 is x + floor(c/g) >= 0. */
void form_tighten(form *f) {
    int64_t g = coefficients_gcd(f);
    if (g < 2) return;
    f->constant = floor_div(f->constant, g);
    for (int i = 0; i < f->n; i++) f->coef[i] /= g;
}

/* g = atom*factor + rest. The atom is taken out of every term once; where it was squared, the
 * factor still contains it. */
typedef struct parted {
    form factor, rest;
    int sign; /* of the factor: 1 never negative, -1 never positive, 0 unknown */
} parted;

static void part(parted *out, const form *g, sym atom) {
    form_open(&out->factor, g->s);
    form_open(&out->rest, g->s);
    out->rest.constant = g->constant;
    for (int i = 0; i < g->n; i++) {
        sym q;
        if (mono_quotient(g->s, g->term[i], atom, &q))
            form_add(&out->factor, q, g->coef[i]);
        else
            form_add(&out->rest, g->term[i], g->coef[i]);
    }
    range r = form_range(&out->factor);
    out->sign = r.lo >= 0 ? 1 : r.hi <= 0 ? -1 : 0;
}

/* Prove rest + factor*(by + more) >= 0. */
static bool try_replacing(proof *p, const parted *x, sym by, int64_t more, int depth) {
    if (p->steps-- <= 0) return false;
    form g;
    form_copy(&g, &x->rest);
    sym_linear times = form_view(&x->factor), value = sym_terms(p->s, by);
    form_add_product(&g, &times, &value, 1);
    form_add_linear(&g, &times, more);
    return !g.overflow && proven(p, &g, depth);
}

/* The smallest multiplier that makes every term of f divisible by t. */
static factor multiplier(const form *f, factor t) {
    factor common = t;
    for (int i = 0; i < f->n; i++)
        common = factor_gcd(f->s, common, (factor){f->coef[i], f->term[i]});
    if (f->constant) common = factor_gcd(f->s, common, (factor){f->constant, SYM_ONE});
    factor times = {1, SYM_ONE};
    return factor_quotient(f->s, t, common, &times) ? times : t;
}

/* q = times*f/t term by term. */
static bool multiple_over(const form *f, factor times, factor t, form *q) {
    sym_store *s = f->s;
    form_open(q, s);
    form all;
    form_open(&all, s);
    sym_linear view = form_view(f);
    form_add_times(&all, &view, times);
    for (int i = 0; i < all.n; i++) {
        factor x;
        if (!factor_quotient(s, (factor){all.coef[i], all.term[i]}, t, &x)) return false;
        form_add_factor(q, x, 1);
    }
    factor x;
    if (all.constant) {
        if (!factor_quotient(s, (factor){all.constant, SYM_ONE}, t, &x)) return false;
        form_add_factor(q, x, 1);
    }
    return !all.overflow && !q->overflow;
}

/* times and q with times*f = q*t: term by term for a plain divisor, by long division for a sum, and
 * always with times = t. */
static void over_divisor(const form *f, sym t, form *times, form *q) {
    sym_store *s = f->s;
    factor plain, by;
    form_open(times, s);
    if (factor_of(s, t, &plain)) {
        by = multiplier(f, plain);
        bool positive = by.k > 0 && (by.m == SYM_ONE || sym_lo(s, by.m) >= 1);
        form_add_factor(times, by, 1);
        if (positive && multiple_over(f, by, plain, q)) return;
    } else {
        form rest;
        form_copy(&rest, f);
        form_open(q, s);
        sym_linear x = sym_terms(s, t);
        form_divide(q, &rest, &x);
        form_constant(times, 1);
        if (rest.n == 0 && rest.constant == 0 && !rest.overflow) return;
    }
    form_set(times, s, t);
    form_copy(q, f);
}

static bool try_division(proof *p, const parted *x, const sym_node *d, int depth) {
    if (p->steps-- <= 0) return false;
    sym_store *s = p->s;
    form g, q, times;
    over_divisor(&x->factor, d->operand[1], &times, &q);
    sym_linear rest = form_view(&x->rest), multiple = form_view(&times), by = form_view(&q);
    sym_linear value = sym_terms(s, d->operand[0]), size = sym_terms(s, d->operand[1]);
    form_open(&g, s);
    form_add_product(&g, &rest, &multiple, 1);
    form_add_linear(&g, &multiple, 1);
    form_constant(&g, -1);
    form_add_product(&g, &by, &value, 1);
    if (x->sign > 0) {
        form_add_product(&g, &by, &size, -1);
        form_add_linear(&g, &by, 1);
    }
    return !g.overflow && !q.overflow && !times.overflow && proven(p, &g, depth);
}

/* A min is one of its operands: it is enough that any of them does where its factor is negative,
 * and that all of them do wherever. */
static bool try_branch(proof *p, const parted *x, const sym_node *m, int depth) {
    bool any = x->sign == (m->kind == SYM_MIN ? -1 : 1), all = true;
    for (int i = 0; i < m->operands && (any || all); i++) {
        bool good = try_replacing(p, x, m->operand[i], 0, depth);
        if (good && any) return true;
        all = all && good;
    }
    return all;
}

static bool try_atom(proof *p, const form *g, const sym_node *atom, int depth) {
    parted x;
    part(&x, g, atom->self);
    if (atom->kind == SYM_MIN || atom->kind == SYM_MAX)
        if (try_branch(p, &x, atom, depth)) return true;
    if (x.sign == 0) return false;
    if (atom->kind == SYM_VAR && (atom->flags & SYM_HAS_LOOP) && x.sign < 0)
        if (try_replacing(p, &x, atom->extent, -1, depth)) return true;
    if (atom->kind == SYM_DIV && try_division(p, &x, atom, depth)) return true;
    if (x.factor.n == 0) return false; /* then the range has used the numeric bound */
    int64_t end = x.sign > 0 ? atom->lo : atom->hi;
    if (end == INT64_MIN || end == INT64_MAX) return false;
    return try_replacing(p, &x, SYM_ZERO, end, depth);
}

/* The atom with the highest id below `below` that a step can be made with. */
static const sym_node *next_atom(const form *g, sym below) {
    const sym_node *best = NULL;
    for (int i = 0; i < g->n; i++) {
        const sym *atom = NULL;
        int n = mono_atoms(g->s, &g->term[i], &atom);
        for (int j = 0; j < n; j++) {
            const sym_node *x = sym_at(g->s, atom[j]);
            if (x->self >= below || (best && x->self <= best->self)) continue;
            if (n > 1 || (x->flags & ~(SYM_HAS_TRUTH | SYM_HAS_KNOWN))) best = x;
        }
    }
    return best;
}

/* What finding a form's range costs, about: its terms, for each of its divisions. */
int form_work(const form *f) {
    int divisions = 1;
    for (int i = 0; i < f->n; i++)
        divisions += (sym_at(f->s, f->term[i])->flags & SYM_HAS_DIV) != 0;
    return f->n * divisions;
}

/* A form with a negative sample is not worth trying; one that has grown long seldom is. */
static bool proven(proof *p, form *g, int depth) {
    if (g->n > PROOF_TERMS) return false;
    if (sample_negative(g) || (p->work -= form_work(g)) < 0) return false;
    form_tighten(g);
    range r = form_range(g);
    if (r.lo >= 0) return true;
    if (r.hi < 0 || depth == 0) return false;
    sym below = UINT32_MAX;
    while (p->steps > 0) {
        const sym_node *atom = next_atom(g, below);
        if (!atom) return false;
        if (try_atom(p, g, atom, depth - 1)) return true;
        below = atom->self;
    }
    return false;
}

/* For divisions and truth values alone ranges have done what proofs could do. */
bool form_may_prove(const form *f) {
    return form_flags(f) & ~(SYM_HAS_DIV | SYM_HAS_TRUTH | SYM_HAS_KNOWN);
}

bool form_nonneg(const form *f) {
    if (f->overflow) return false;
    if (!form_may_prove(f)) return form_range(f).lo >= 0;
    proof p = {f->s, PROOF_STEPS, PROOF_WORK};
    form g;
    form_copy(&g, f);
    return proven(&p, &g, PROOF_DEPTH);
}

bool form_at_least(sym_store *s, sym a, sym b, int64_t more) {
    form f;
    form_set(&f, s, a);
    form_add(&f, b, -1);
    f.overflow |= __builtin_sub_overflow(f.constant, more, &f.constant);
    return form_nonneg(&f);
}
