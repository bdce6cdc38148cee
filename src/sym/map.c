/* map.c - expressions carried over: substitution, import into another store, evaluation.
 *
 * All three walk an expression from the top and rebuild (or compute) it from its parts. Parts may
 * be shared many times over, so each walk remembers what it has done in a small direct-mapped table
 * on the stack. Losing an entry to another one costs time, never correctness: rebuilding gives the
 * same id again. */
#include "sym/internal.h"

__extension__ typedef __int128 int128;

enum { SEEN = 64 };

/* ---- rebuilding ----------------------------------------------------------------------------- */

typedef struct rebuild {
    sym_store *to;
    const sym_store *from;
    int n;
    const sym *old_var, *new_var;
    uint64_t vars;              /* of old_var */
    bool keep;                  /* substitution: what does not use old_var stays as it is */
    sym seen[SEEN], made[SEEN]; /* seen = 0: empty */
} rebuild;

static sym rebuilt(rebuild *r, sym a);

static sym rebuilt_var(rebuild *r, sym var) {
    for (int i = 0; i < r->n; i++)
        if (r->old_var[i] == var) return r->new_var[i];
    if (r->keep) return var;
    raise_error(r->to->heap->ctx, QN_EINTERNAL, "index expression: variable %s is not mapped",
                sym_name(r->from, var));
}

static sym rebuilt_sum(rebuild *r, const sym_node *x) {
    form f;
    form_open(&f, r->to);
    form_constant(&f, x->constant);
    for (int i = 0; i < x->n; i++) form_add(&f, rebuilt(r, x->term[i]), x->coef[i]);
    return form_sym(&f);
}

static sym joined(sym_store *s, sym_kind kind, sym a, sym b) {
    switch (kind) {
    case SYM_PRODUCT:
        return sym_mul(s, a, b);
    case SYM_DIV:
        return sym_div(s, a, b);
    case SYM_MIN:
        return sym_min(s, a, b);
    case SYM_MAX:
        return sym_max(s, a, b);
    default:
        return sym_and(s, a, b);
    }
}

static sym rebuilt_node(rebuild *r, const sym_node *x) {
    if (x->kind == SYM_CONST) return sym_const(r->to, x->constant);
    if (x->kind == SYM_VAR) return rebuilt_var(r, x->self);
    if (x->kind == SYM_SUM) return rebuilt_sum(r, x);
    sym a = rebuilt(r, x->operand[0]);
    if (x->kind == SYM_GE0) return sym_ge0(r->to, a);
    for (int i = 1; i < x->operands; i++)
        a = joined(r->to, (sym_kind)x->kind, a, rebuilt(r, x->operand[i]));
    return a;
}

static sym rebuilt(rebuild *r, sym a) {
    const sym_node *x = sym_at(r->from, a);
    if (r->keep && !(x->vars & r->vars)) return a;
    sym *seen = &r->seen[a % SEEN];
    if (a && *seen == a) return r->made[a % SEEN];
    sym made = rebuilt_node(r, x);
    *seen = a;
    r->made[a % SEEN] = made;
    return made;
}

sym sym_subst(sym_store *s, sym a, int n, const sym *from, const sym *to) {
    rebuild r = {.to = s, .from = s, .n = n, .old_var = from, .new_var = to, .keep = true};
    for (int i = 0; i < n; i++) r.vars |= sym_at(s, from[i])->vars;
    return rebuilt(&r, a);
}

sym sym_import(sym_store *dst, const sym_store *src, sym a, int n, const sym *from, const sym *to) {
    rebuild r = {.to = dst, .from = src, .n = n, .old_var = from, .new_var = to};
    return rebuilt(&r, a);
}

/* ---- evaluation ----------------------------------------------------------------------------- */

typedef struct evaluation {
    const sym_store *s;
    int n;
    const sym *var;
    const int64_t *value;
    sym seen[SEEN];
    int64_t known[SEEN];
} evaluation;

static bool evaluate(evaluation *e, sym a, int64_t *out);

static bool evaluate_var(const evaluation *e, sym var, int64_t *out) {
    for (int i = 0; i < e->n; i++) {
        if (e->var[i] != var) continue;
        *out = e->value[i];
        return true;
    }
    return false;
}

static bool evaluate_sum(evaluation *e, const sym_node *x, int64_t *out) {
    int128 sum = x->constant;
    for (int i = 0; i < x->n; i++) {
        int64_t v;
        if (!evaluate(e, x->term[i], &v)) return false;
        if (__builtin_add_overflow(sum, (int128)v * x->coef[i], &sum)) return false;
    }
    *out = (int64_t)sum;
    return *out == sum;
}

static bool evaluate_pair(sym_kind kind, int64_t a, int64_t b, int64_t *out) {
    switch (kind) {
    case SYM_PRODUCT:
        return !__builtin_mul_overflow(a, b, out);
    case SYM_DIV:
        *out = b > 0 ? floor_div(a, b) : 0;
        return b > 0;
    case SYM_MIN:
        *out = a < b ? a : b;
        return true;
    case SYM_MAX:
        *out = a > b ? a : b;
        return true;
    default:
        *out = a && b;
        return true;
    }
}

static bool evaluate_node(evaluation *e, const sym_node *x, int64_t *out) {
    if (x->kind == SYM_VAR) return evaluate_var(e, x->self, out);
    if (x->kind == SYM_SUM) return evaluate_sum(e, x, out);
    if (!evaluate(e, x->operand[0], out)) return false;
    if (x->kind == SYM_GE0) *out = *out >= 0;
    for (int i = 1; i < x->operands; i++) {
        int64_t v;
        if (!evaluate(e, x->operand[i], &v)) return false;
        if (!evaluate_pair((sym_kind)x->kind, *out, v, out)) return false;
    }
    return true;
}

static bool evaluate(evaluation *e, sym a, int64_t *out) {
    const sym_node *x = sym_at(e->s, a);
    if (x->kind == SYM_CONST) {
        *out = x->constant;
        return true;
    }
    if (e->seen[a % SEEN] == a) {
        *out = e->known[a % SEEN];
        return true;
    }
    if (!evaluate_node(e, x, out)) return false;
    e->seen[a % SEEN] = a;
    e->known[a % SEEN] = *out;
    return true;
}

bool sym_eval(const sym_store *s, sym a, int n, const sym *var, const int64_t *value,
              int64_t *out) {
    evaluation e = {.s = s, .n = n, .var = var, .value = value};
    return evaluate(&e, a, out);
}
