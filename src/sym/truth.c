/* truth.c - min and max, comparisons, conjunctions.
 *
 * min and max are flat: operands of an operand's min join in, also through a positive factor and an
 * added rest (a + 2*min(b, c) = min(a + 2*b, a + 2*c)), and -max(b, c) counts as min(-b, -c). What
 * another operand is proven not to exceed is dropped. Then terms that all operands share, their
 * smallest constant and their common factor are taken out, so that min(x + 1, y + 3) and
 * 1 + min(x, y + 2) are the same expression.
 *
 * A comparison e >= 0 is divided by the common factor of its terms, the constant rounded down, and
 * by common positive atoms. A division with factor +-1 is multiplied out (x/4 < n is x < 4*n), a
 * min becomes the conjunction of its operands' comparisons, and so does a negative max. What is
 * decided for all values becomes SYM_TRUE or SYM_FALSE.
 *
 * A conjunction is a flat sorted set of comparisons without those that another one implies; two
 * that cannot hold together make it SYM_FALSE. Implication and contradiction are seen where the
 * difference or sum of the two forms has a sign. */
#include "sym/internal.h"

typedef struct operand_list {
    sym item[SYM_OPERANDS_MAX];
    int n;
} operand_list;

/* Keep the list sorted and free of duplicates; false when it is full. */
static bool list_put(operand_list *list, sym a) {
    int at = list->n;
    while (at > 0 && list->item[at - 1] > a) at--;
    if (at > 0 && list->item[at - 1] == a) return true;
    if (list->n == SYM_OPERANDS_MAX) return false;
    memmove(list->item + at + 1, list->item + at, (size_t)(list->n - at) * sizeof *list->item);
    list->item[at] = a;
    list->n++;
    return true;
}

static void list_remove(operand_list *list, int i) {
    list->n--;
    memmove(list->item + i, list->item + i + 1, (size_t)(list->n - i) * sizeof *list->item);
}

/* ---- min and max ---------------------------------------------------------------------------- */

static sym_kind opposite(sym_kind kind) {
    return kind == SYM_MIN ? SYM_MAX : SYM_MIN;
}

/* The only term of f that is a `kind` with positive or its opposite with negative factor; -1 when
 * there is none or are several. */
static int branch_term(const sym_store *s, const sym_linear *x, sym_kind kind) {
    int at = -1;
    for (int i = 0; i < x->n; i++) {
        sym_kind k = (sym_kind)sym_at(s, x->term[i])->kind;
        if (k != (x->coef[i] > 0 ? kind : opposite(kind))) continue;
        if (at >= 0) return -1;
        at = i;
    }
    return at;
}

static bool gather(sym_store *s, operand_list *list, sym_kind kind, sym a) {
    sym_linear x = sym_terms(s, a);
    int at = branch_term(s, &x, kind);
    if (at < 0) return list_put(list, a);
    const sym_node *branch = sym_at(s, x.term[at]);
    if (list->n + branch->operands > SYM_OPERANDS_MAX) return list_put(list, a);
    for (int i = 0; i < branch->operands; i++) {
        form f;
        form_set(&f, s, a);
        form_drop(&f, at);
        form_add(&f, branch->operand[i], x.coef[at]);
        if (f.overflow) return list_put(list, a);
        if (!list_put(list, form_sym(&f))) return false;
    }
    return true;
}

/* Is x superfluous beside y? */
static bool superfluous(sym_store *s, sym_kind kind, sym x, sym y) {
    return kind == SYM_MIN ? form_at_least(s, x, y, 0) : form_at_least(s, y, x, 0);
}

/* Drop operands that others make superfluous. */
static void prune(sym_store *s, operand_list *list, sym_kind kind) {
    for (int i = 0; i < list->n; i++) {
        for (int j = 0; j < list->n; j++) {
            if (i == j || !superfluous(s, kind, list->item[j], list->item[i])) continue;
            list_remove(list, j);
            if (j < i) i--;
            j--;
        }
    }
}

/* Move to `common` what all operands share, and return their common factor. */
static int64_t take_common(sym_store *s, operand_list *list, form *common) {
    sym_linear first = sym_terms(s, list->item[0]);
    for (int i = 0; i < first.n; i++) {
        bool everywhere = true;
        for (int j = 1; j < list->n && everywhere; j++) {
            sym_linear x = sym_terms(s, list->item[j]);
            everywhere = false;
            for (int k = 0; k < x.n; k++)
                everywhere |= x.term[k] == first.term[i] && x.coef[k] == first.coef[i];
        }
        if (everywhere) form_add(common, first.term[i], first.coef[i]);
    }
    int64_t base = INT64_MAX, gcd = 0;
    for (int j = 0; j < list->n; j++) {
        sym_linear x = sym_terms(s, list->item[j]);
        if (x.n > common->n && x.constant < base) base = x.constant;
    }
    if (base != INT64_MAX) common->constant = base;
    sym_linear view = form_view(common);
    for (int j = 0; j < list->n; j++) {
        form f;
        form_set(&f, s, list->item[j]);
        form_add_linear(&f, &view, -1);
        common->overflow |= f.overflow;
        for (int i = 0; i < f.n; i++) gcd = sym_gcd(gcd, f.coef[i]);
        gcd = sym_gcd(gcd, f.constant);
    }
    return gcd ? gcd : 1;
}

static sym branch_make(sym_store *s, sym_kind kind, operand_list *list) {
    form common;
    form_open(&common, s);
    int64_t gcd = take_common(s, list, &common);
    if (common.overflow) return sym_node_make(s, kind, list->n, list->item);
    operand_list reduced = {.n = 0};
    sym_linear view = form_view(&common);
    for (int j = 0; j < list->n; j++) {
        form f;
        form_set(&f, s, list->item[j]);
        form_add_linear(&f, &view, -1);
        f.constant /= gcd;
        for (int i = 0; i < f.n; i++) f.coef[i] /= gcd;
        list_put(&reduced, form_sym(&f));
    }
    form_add(&common, sym_node_make(s, kind, reduced.n, reduced.item), gcd);
    return form_sym(&common);
}

/* Drop what the other side as a whole makes superfluous: more may be known of it than of its
 * operands one by one. */
static bool prune_by(sym_store *s, operand_list *list, sym_kind kind, sym other) {
    int before = list->n;
    for (int i = list->n - 1; i >= 0; i--)
        if (superfluous(s, kind, list->item[i], other)) list_remove(list, i);
    return list->n < before;
}

static sym branch(sym_store *s, sym_kind kind, sym a, sym b) {
    if (a == b) return a;
    if (a > b) return branch(s, kind, b, a);
    const sym_node *x = sym_at(s, a), *y = sym_at(s, b);
    if (x->hi <= y->lo) return kind == SYM_MIN ? a : b;
    if (y->hi <= x->lo) return kind == SYM_MIN ? b : a;
    operand_list list = {.n = 0}, more = {.n = 0};
    bool good = gather(s, &list, kind, a) && gather(s, &more, kind, b);
    if (good && list.n + more.n > 2 && !prune_by(s, &list, kind, b)) prune_by(s, &more, kind, a);
    for (int i = 0; good && i < more.n; i++) good = list_put(&list, more.item[i]);
    if (!good) {
        list = (operand_list){.n = 0};
        list_put(&list, a);
        list_put(&list, b);
    }
    prune(s, &list, kind);
    return list.n == 1 ? list.item[0] : branch_make(s, kind, &list);
}

sym sym_min(sym_store *s, sym a, sym b) {
    return branch(s, SYM_MIN, a, b);
}

sym sym_max(sym_store *s, sym a, sym b) {
    return branch(s, SYM_MAX, a, b);
}

/* ---- comparisons ---------------------------------------------------------------------------- */

/* Steps that a comparison may take: multiplying out and dividing by common atoms might otherwise
 * lead in a circle. */
enum { TRUTH_STEPS = 16 };

static sym truth_within(form *f, int steps);

/* Dividing by the terms' common number may hide a sign that the range shows before. */
static sym truth_of(form *f) {
    range r = form_range(f);
    if (!f->overflow && r.lo >= 0) return SYM_TRUE;
    if (!f->overflow && r.hi < 0) return SYM_FALSE;
    return truth_within(f, TRUTH_STEPS);
}

/* Is atom a factor of one of f's products? */
static bool in_product(const form *f, sym atom) {
    sym q;
    for (int i = 0; i < f->n; i++)
        if (f->term[i] != atom && mono_quotient(f->s, f->term[i], atom, &q)) return true;
    return false;
}

static bool divide_common_atoms(form *f) {
    sym m = f->constant ? SYM_ONE : f->term[0];
    for (int i = 0; i < f->n; i++) m = mono_common(f->s, m, f->term[i]);
    if (m == SYM_ONE) return false;
    form less;
    form_open(&less, f->s);
    for (int i = 0; i < f->n; i++) {
        factor q;
        if (factor_quotient(f->s, (factor){f->coef[i], f->term[i]}, (factor){1, m}, &q))
            form_add_factor(&less, q, 1);
    }
    form_copy(f, &less);
    return f->n > 0;
}

/* Divide by the terms' common number, and by common atoms known to be positive. Either may make
 * the other possible: rounding may make the constant zero, an atom leave a constant. */
static void reduce_comparison(form *f) {
    do {
        form_tighten(f);
    } while (f->n && divide_common_atoms(f));
}

/* rest + floor(a/t) >= 0 is a + t*rest >= 0; rest - floor(a/t) >= 0 is t*rest + t - 1 - a >= 0. */
static bool multiply_out(form *f) {
    sym_store *s = f->s;
    for (int i = f->n - 1; i >= 0; i--) {
        const sym_node *x = sym_at(s, f->term[i]);
        if (x->kind != SYM_DIV || (f->coef[i] != 1 && f->coef[i] != -1)) continue;
        if (in_product(f, x->self)) continue; /* it would come back, without end */
        form rest, g;
        form_copy(&rest, f);
        form_drop(&rest, i);
        sym_linear view = form_view(&rest), t = sym_terms(s, x->operand[1]);
        form_open(&g, s);
        form_add_product(&g, &view, &t, 1);
        form_add(&g, x->operand[0], f->coef[i]);
        if (f->coef[i] < 0) {
            form_add_linear(&g, &t, 1);
            form_constant(&g, -1);
        }
        if (g.overflow) continue;
        form_copy(f, &g);
        return true;
    }
    return false;
}

/* rest + k*min(a, b) >= 0 is (rest + k*a >= 0 and rest + k*b >= 0). */
static bool branch_out(form *f, int steps, sym *truth) {
    sym_linear x = form_view(f);
    int at = branch_term(f->s, &x, SYM_MIN);
    if (at < 0 || in_product(f, x.term[at])) return false;
    const sym_node *m = sym_at(f->s, f->term[at]);
    *truth = SYM_TRUE;
    for (int i = 0; i < m->operands; i++) {
        form g;
        form_copy(&g, f);
        form_drop(&g, at);
        form_add(&g, m->operand[i], f->coef[at]);
        if (g.overflow) return false;
        *truth = sym_and(f->s, *truth, truth_within(&g, steps));
    }
    return true;
}

static bool is_truth(const sym_node *x) {
    return x->kind == SYM_GE0 || x->kind == SYM_AND;
}

/* p - 1 >= 0 is p; -p >= 0 is its negation, which a comparison has. */
static bool truth_itself(form *f, sym *truth) {
    if (f->n != 1 || !is_truth(sym_at(f->s, f->term[0]))) return false;
    const sym_node *p = sym_at(f->s, f->term[0]);
    if (f->coef[0] == 1 && f->constant == -1) {
        *truth = p->self;
        return true;
    }
    if (f->coef[0] != -1 || f->constant != 0 || p->kind != SYM_GE0) return false;
    form g;
    form_open(&g, f->s);
    form_add(&g, p->operand[0], -1);
    form_constant(&g, -1);
    if (g.overflow) return false;
    *truth = truth_of(&g);
    return true;
}

static bool never_nonneg(const form *f) {
    form g;
    form_open(&g, f->s);
    sym_linear view = form_view(f);
    form_add_linear(&g, &view, -1);
    form_constant(&g, -1);
    return form_nonneg(&g);
}

static bool decided(const form *f, sym *truth) {
    range r = form_range(f);
    bool yes = r.lo >= 0, no = r.hi < 0;
    if (!yes && !no && form_may_prove(f)) {
        yes = form_nonneg(f);
        no = !yes && never_nonneg(f);
    }
    *truth = yes ? SYM_TRUE : SYM_FALSE;
    return yes || no;
}

/* Proofs are tried before every step, since each step takes something of the form's structure. */
static sym truth_within(form *f, int steps) {
    sym truth;
    do {
        if (f->overflow) return sym_overflow(f->s);
        if (f->n) reduce_comparison(f);
        if (decided(f, &truth) || truth_itself(f, &truth)) return truth;
        if (steps-- > 0 && branch_out(f, steps, &truth)) return truth;
    } while (steps > 0 && multiply_out(f));
    sym e = form_sym(f);
    return sym_node_make(f->s, SYM_GE0, 1, &e);
}

sym sym_ge0(sym_store *s, sym a) {
    const sym_node *x = sym_at(s, a);
    if (x->lo >= 0) return SYM_TRUE;
    if (x->hi < 0) return SYM_FALSE;
    form f;
    form_set(&f, s, a);
    return truth_of(&f);
}

sym sym_lt(sym_store *s, sym a, sym b) {
    form f;
    form_set(&f, s, b);
    form_add(&f, a, -1);
    form_constant(&f, -1);
    return truth_of(&f);
}

sym sym_eq(sym_store *s, sym a, sym b) {
    if (a == b) return SYM_TRUE;
    form f;
    form_set(&f, s, a);
    form_add(&f, b, -1);
    sym above = truth_of(&f);
    if (above == SYM_FALSE) return SYM_FALSE;
    form_set(&f, s, b);
    form_add(&f, a, -1);
    return sym_and(s, above, truth_of(&f));
}

/* ---- conjunctions --------------------------------------------------------------------------- */

/* Range of x + k*y for the forms of two comparisons. */
static range combined(sym_store *s, sym p, sym q, int64_t k) {
    form f;
    form_set(&f, s, sym_at(s, p)->operand[0]);
    form_add(&f, sym_at(s, q)->operand[0], k);
    return f.overflow ? (range){INT64_MIN, INT64_MAX} : form_range(&f);
}

/* Both are comparisons with a variable in common. */
static bool comparable(const sym_store *s, sym p, sym q) {
    const sym_node *x = sym_at(s, p), *y = sym_at(s, q);
    return x->kind == SYM_GE0 && y->kind == SYM_GE0 && (x->vars & y->vars);
}

/* Drop what is implied; false when two contradict each other. */
static bool settle(sym_store *s, operand_list *list) {
    for (int i = 0; i < list->n; i++) {
        for (int j = 0; j < list->n; j++) {
            sym p = list->item[i], q = list->item[j];
            if (i == j || !comparable(s, p, q)) continue;
            if (i < j && combined(s, p, q, 1).hi < 0) return false;
            if (combined(s, q, p, -1).lo < 0) continue;
            list_remove(list, j);
            if (j < i) i--;
            j--;
        }
    }
    return true;
}

/* A truth value that is neither comparison nor conjunction is made a comparison. */
static sym as_truth(sym_store *s, sym p) {
    if (p == SYM_TRUE || p == SYM_FALSE || is_truth(sym_at(s, p))) return p;
    form f;
    form_set(&f, s, p);
    form_constant(&f, -1);
    return truth_of(&f);
}

static bool collect(const sym_store *s, operand_list *list, sym p) {
    const sym_node *x = sym_at(s, p);
    if (x->kind != SYM_AND) return list_put(list, p);
    for (int i = 0; i < x->operands; i++)
        if (!list_put(list, x->operand[i])) return false;
    return true;
}

sym sym_and(sym_store *s, sym p, sym q) {
    p = as_truth(s, p);
    q = as_truth(s, q);
    if (p == SYM_FALSE || q == SYM_FALSE) return SYM_FALSE;
    if (p == q || q == SYM_TRUE) return p;
    if (p == SYM_TRUE) return q;
    operand_list list = {.n = 0};
    if (!collect(s, &list, p) || !collect(s, &list, q)) {
        list = (operand_list){.n = 0};
        list_put(&list, p);
        list_put(&list, q);
    }
    if (!settle(s, &list)) return SYM_FALSE;
    return list.n == 1 ? list.item[0] : sym_node_make(s, SYM_AND, list.n, list.item);
}
