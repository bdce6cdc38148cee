/* index.c - integer expressions of the index algebra as code.
 *
 * A linear form is summed from its outermost level inward, so that each prefix is computed where
 * its last variable changes and shared by everything that begins alike; constants come last and end
 * as displacements of addresses. Variables of unrolled loops are numbers: inside of divisions and
 * the like they are substituted in the algebra, which simplifies more than arithmetic on constants
 * could.
 *
 * What depends on the VEC variable is computed in lanes, of 32 bits wherever bounds allow, and
 * comparisons with one that is linear in it become one comparison of a clamped scalar with a
 * constant vector, as narrow as gives a full vector of mask bits. */
#include "emit/llvm/llvm.h"

#include <stdlib.h>

/* ---- bindings ------------------------------------------------------------------------------- */

static llvm_binding *new_binding(llvm *s, sym var) {
    if (s->bindings == LLVM_BINDINGS)
        raise_error(s->ctx, QN_EDEVICE, "kernel %s: loops nested too deeply", s->k->name);
    llvm_binding *b = &s->binding[s->bindings++];
    *b = (llvm_binding){.var = var};
    return b;
}

void llvm_bind(llvm *s, sym var, val value) {
    new_binding(s, var)->value = value;
}

void llvm_bind_constant(llvm *s, sym var, int64_t number) {
    llvm_binding *b = new_binding(s, var);
    b->constant = true;
    b->number = number;
}

void llvm_unbind(llvm *s) {
    s->bindings--;
}

static const llvm_binding *bound(const llvm *s, sym var) {
    for (int i = s->bindings; i-- > 0;)
        if (s->binding[i].var == var) return &s->binding[i];
    return NULL;
}

/* A number that the launch gives is loaded from vars where the function begins. */
static val launch_value(llvm *s, int i, const char *name) {
    val *n = llvm_number(s, (llvm_key){{TAG_VAR, (uint64_t)i}}, 0);
    if (n->v) return *n;
    llvm_at(s, 0);
    ll_value at = s->L->ConstInt(s->t_i64, (unsigned long long)i, 0);
    ll_value p = s->L->BuildGEP2(s->b, s->t_i64, s->vars.v, &at, 1, "");
    n->v = s->L->BuildLoad2(s->b, s->t_i64, p, name);
    return *n;
}

val llvm_param(llvm *s, const ir_expr *e) {
    val x = launch_value(s, s->k->dim_vars + (int)e->param, "param");
    bool real = dtype_is_float(e->dtype), wide = e->dtype == QN_F64;
    ll_type bits = !real ? llvm_memory_type(s, e->dtype) : wide ? s->t_i64 : s->t_i32;
    if (bits != s->t_i64) x = llvm_cast(s, LL_TRUNC, x, bits);
    return real ? llvm_cast(s, LL_BITCAST, x, wide ? s->t_double : s->t_float) : x;
}

static val dim_value(llvm *s, sym var) {
    for (int i = 0; i < s->k->dim_vars; i++)
        if (s->k->dim_var[i] == var) return launch_value(s, i, sym_name(s->syms, var));
    raise_error(s->ctx, QN_EINTERNAL, "kernel %s: unbound variable %s", s->k->name,
                sym_name(s->syms, var));
}

static val var_value(llvm *s, sym var) {
    const llvm_binding *b = bound(s, var);
    if (!b) return dim_value(s, var);
    return b->constant ? llvm_int(s, s->t_i64, b->number) : b->value;
}

/* ---- linear forms --------------------------------------------------------------------------- */

/* A copy of the terms: evaluating one may make further syms. */
static sym_linear terms_of(llvm *s, sym a) {
    sym_linear t = sym_terms(s->syms, a);
    if (!t.n) return t;
    int64_t *coef = arena_alloc(&s->arena, t.n * sizeof *coef);
    sym *term = arena_alloc(&s->arena, t.n * sizeof *term);
    memcpy(coef, t.coef, t.n * sizeof *coef);
    memcpy(term, t.term, t.n * sizeof *term);
    return (sym_linear){t.constant, t.n, coef, term};
}

static bool hides_constant(const llvm *s, sym a) {
    sym_linear t = sym_terms(s->syms, a);
    for (int i = 0; i < t.n; i++) {
        if (sym_is_var(s->syms, t.term[i])) continue;
        for (int k = 0; k < s->bindings; k++)
            if (s->binding[k].constant && sym_uses(s->syms, t.term[i], s->binding[k].var))
                return true;
    }
    return false;
}

sym llvm_with_numbers(llvm *s, sym a) {
    sym from[LLVM_BINDINGS], to[LLVM_BINDINGS];
    int n = 0;
    for (int k = 0; k < s->bindings; k++) {
        if (!s->binding[k].constant) continue;
        from[n] = s->binding[k].var;
        to[n++] = sym_const(s->syms, s->binding[k].number);
    }
    return sym_subst(s->syms, a, n, from, to);
}

sym llvm_reduced(llvm *s, sym a) {
    return hides_constant(s, a) ? llvm_with_numbers(s, a) : a;
}

bool llvm_sym_varies(const llvm *s, sym a) {
    return s->lane_var && sym_uses(s->syms, a, s->lane_var);
}

static val scaled(llvm *s, val x, int64_t k) {
    return k == 1 ? x : llvm_binary(s, LL_MUL, x, llvm_int_like(s, x, k));
}

static void insert_by_level(val *term, int *n, val x) {
    int at = (*n)++;
    for (; at && term[at - 1].level > x.level; at--) term[at] = term[at - 1];
    term[at] = x;
}

static int64_t wrapping_mul(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t wrapping_add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static val monomial(llvm *s, sym m);

/* The terms that do not vary with the lanes: scalars sorted by level, one for each level, and the
 * constant. What varies is left to the caller, in `rest`. */
static void scalar_terms(llvm *s, sym a, llvm_index *out, sym *rest) {
    sym_linear t = terms_of(s, a);
    *rest = SYM_ZERO;
    *out = (llvm_index){.constant = t.constant};
    val all[64];
    int n = 0;
    for (int i = 0; i < t.n; i++) {
        const llvm_binding *b = bound(s, t.term[i]);
        if (b && b->constant) {
            out->constant = wrapping_add(out->constant, wrapping_mul(t.coef[i], b->number));
        } else if (llvm_sym_varies(s, t.term[i])) {
            *rest = sym_add(s->syms, *rest, sym_scale(s->syms, t.term[i], t.coef[i]));
        } else {
            if (n == (int)COUNT_OF(all))
                raise_error(s->ctx, QN_EDEVICE, "kernel %s: an index of too many terms",
                            s->k->name);
            insert_by_level(all, &n, scaled(s, monomial(s, t.term[i]), t.coef[i]));
        }
    }
    for (int i = 0; i < n; i++) {
        val *last = out->terms ? &out->term[out->terms - 1] : NULL;
        if (last && last->level == all[i].level)
            *last = llvm_binary(s, LL_ADD, *last, all[i]);
        else
            out->term[out->terms++] = all[i];
    }
}

static val sum_of(llvm *s, const llvm_index *x) {
    if (!x->terms) return llvm_int(s, s->t_i64, x->constant);
    val sum = x->term[0];
    for (int i = 1; i < x->terms; i++)
        sum = llvm_binary(s, LL_ADD, llvm_sealed(s, sum, x->term[i].level), x->term[i]);
    return x->constant ? llvm_binary(s, LL_ADD, sum, llvm_int(s, s->t_i64, x->constant)) : sum;
}

val llvm_sym(llvm *s, sym a) {
    llvm_index x;
    sym rest;
    scalar_terms(s, llvm_reduced(s, a), &x, &rest);
    if (rest != SYM_ZERO)
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: a lane's value where one is needed",
                    s->k->name);
    return sum_of(s, &x);
}

/* ---- monomials ------------------------------------------------------------------------------ */

static val minimum(llvm *s, val x, val y, int predicate) {
    return llvm_select(s, llvm_compare(s, predicate, x, y), x, y);
}

/* floor(x / d) for d >= 1; `natural`: x >= 0. */
static val floor_divided(llvm *s, val x, val d, int64_t number, bool natural) {
    bool power = number > 0 && !(number & (number - 1));
    if (power) {
        val by = llvm_int_like(s, x, __builtin_ctzll((unsigned long long)number));
        return llvm_binary(s, natural ? LL_LSHR : LL_ASHR, x, by);
    }
    if (natural) return llvm_binary(s, LL_UDIV, x, d);
    val q = llvm_binary(s, LL_SDIV, x, d);
    val r = llvm_binary(s, LL_SUB, x, llvm_binary(s, LL_MUL, q, d));
    val below = llvm_compare(s, LL_SLT, r, llvm_int_like(s, r, 0));
    return llvm_select(s, below, llvm_binary(s, LL_SUB, q, llvm_int_like(s, q, 1)), q);
}

static val truth_as(llvm *s, sym a, ll_type type) {
    val p = llvm_truth(s, a);
    return p.v ? llvm_cast(s, LL_ZEXT, p, type) : llvm_int(s, type, 1);
}

static val divided(llvm *s, sym e, sym d) {
    int64_t number = 0, top = UINT32_MAX;
    sym_is_const(s->syms, d, &number);
    bool natural = sym_lo(s->syms, e) >= 0;
    val x = llvm_sym(s, e), y = llvm_sym(s, d);
    bool narrow = natural && sym_hi(s->syms, e) <= top && sym_hi(s->syms, d) <= top;
    if (!narrow) return floor_divided(s, x, y, number, natural);
    x = llvm_cast(s, LL_TRUNC, x, s->t_i32);
    y = llvm_cast(s, LL_TRUNC, y, s->t_i32);
    return llvm_cast(s, LL_ZEXT, floor_divided(s, x, y, number, true), s->t_i64);
}

static val monomial(llvm *s, sym m) {
    const sym *x;
    int n = sym_operands(s->syms, m, &x);
    sym_kind kind = sym_kind_of(s->syms, m);
    switch (kind) {
    case SYM_VAR:
        return var_value(s, m);
    case SYM_DIV:
        return divided(s, x[0], x[1]);
    case SYM_GE0:
    case SYM_AND:
        return truth_as(s, m, s->t_i64);
    default:
        break;
    }
    sym *operand = arena_alloc(&s->arena, n * sizeof *operand);
    memcpy(operand, x, n * sizeof *operand);
    val all = llvm_sym(s, operand[0]);
    for (int i = 1; i < n; i++) {
        val y = llvm_sym(s, operand[i]);
        if (kind == SYM_PRODUCT)
            all = llvm_binary(s, LL_MUL, all, y);
        else
            all = minimum(s, all, y, kind == SYM_MIN ? LL_SLT : LL_SGT);
    }
    return all;
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static bool fits32(const llvm *s, sym a) {
    return sym_lo(s->syms, a) >= INT32_MIN && sym_hi(s->syms, a) <= INT32_MAX;
}

/* Sums and products are right modulo 2^32, so only what is not linear needs operands that fit. */
bool llvm_sym_fits(const llvm *s, sym a) {
    if (!fits32(s, a)) return false;
    sym_linear t = sym_terms(s->syms, a);
    for (int i = 0; i < t.n; i++) {
        sym_kind kind = sym_kind_of(s->syms, t.term[i]);
        if (kind == SYM_VAR || kind == SYM_PRODUCT || !llvm_sym_varies(s, t.term[i])) continue;
        const sym *x;
        int n = sym_operands(s->syms, t.term[i], &x);
        for (int k = 0; k < n; k++)
            if (kind != SYM_GE0 && kind != SYM_AND && !llvm_sym_fits(s, x[k])) return false;
    }
    return true;
}

static val constant_lanes(llvm *s, int bits, int64_t first, int64_t step) {
    ll_value lane[IR_LANES];
    ll_type t = s->L->IntTypeInContext(s->context, (unsigned)bits);
    for (int i = 0; i < s->lanes; i++) lane[i] = llvm_int(s, t, first + step * i).v;
    return (val){s->L->ConstVector(lane, (unsigned)s->lanes), 0, true};
}

static val divided_lanes(llvm *s, sym e, sym d, int bits) {
    int64_t number = 0;
    sym_is_const(s->syms, d, &number);
    val x = llvm_sym_lanes(s, e, bits), y = llvm_sym_lanes(s, d, bits);
    if (y.vec) y = minimum(s, y, llvm_int_like(s, y, 1), LL_SGT); /* lanes past the width */
    if (!x.vec) x = llvm_splat(s, x, s->lanes);
    /* Lanes past the width may lie below 0 where the others do not; their quotient is not used. */
    return floor_divided(s, x, y, number, sym_lo(s->syms, e) >= 0);
}

static val monomial_lanes(llvm *s, sym m, int bits) {
    const sym *x;
    int n = sym_operands(s->syms, m, &x);
    sym_kind kind = sym_kind_of(s->syms, m);
    ll_type t = bits == 32 ? s->t_i32 : s->t_i64;
    if (m == s->lane_var) return constant_lanes(s, bits, 0, 1);
    if (kind == SYM_DIV) return divided_lanes(s, x[0], x[1], bits);
    if (kind == SYM_GE0 || kind == SYM_AND) return truth_as(s, m, t);
    sym *operand = arena_alloc(&s->arena, n * sizeof *operand);
    memcpy(operand, x, n * sizeof *operand);
    val all = llvm_sym_lanes(s, operand[0], bits);
    for (int i = 1; i < n; i++) {
        val y = llvm_sym_lanes(s, operand[i], bits);
        if (kind == SYM_PRODUCT)
            all = llvm_binary(s, LL_MUL, all, y);
        else
            all = minimum(s, all, y, kind == SYM_MIN ? LL_SLT : LL_SGT);
    }
    return all;
}

val llvm_sym_lanes(llvm *s, sym a, int bits) {
    a = llvm_reduced(s, a);
    llvm_index x;
    sym rest;
    scalar_terms(s, a, &x, &rest);
    int64_t step = 0;
    sym_linear t = terms_of(s, rest);
    for (int i = 0; i < t.n; i++)
        if (t.term[i] == s->lane_var) step = t.coef[i];
    ll_type narrow = bits == 32 ? s->t_i32 : s->t_i64;
    if (!t.n) return llvm_cast(s, LL_TRUNC, sum_of(s, &x), narrow);
    val sum = constant_lanes(s, bits, x.constant, step);
    x.constant = 0;
    if (x.terms) sum = llvm_binary(s, LL_ADD, llvm_cast(s, LL_TRUNC, sum_of(s, &x), narrow), sum);
    for (int i = 0; i < t.n; i++)
        if (t.term[i] != s->lane_var)
            sum = llvm_binary(s, LL_ADD, sum,
                              scaled(s, monomial_lanes(s, t.term[i], bits), t.coef[i]));
    return sum;
}

/* ---- truth ---------------------------------------------------------------------------------- */

/* step*lane + rest >= 0 for each lane. */
static val lanes_ge0(llvm *s, int64_t step, sym rest) {
    int64_t most = llabs(step) * s->lanes + 1;
    int bits = s->lanes <= 16 ? 32 : s->lanes <= 32 ? 16 : 8;
    while (most >= (int64_t)1 << (bits - 1)) bits *= 2;
    ll_type t = s->L->IntTypeInContext(s->context, (unsigned)bits);
    int64_t lo = sym_lo(s->syms, rest), hi = sym_hi(s->syms, rest);
    int64_t limit = (int64_t)1 << (bits - 1);
    val x = llvm_sym(s, rest);
    if (hi >= limit) x = minimum(s, x, llvm_int(s, s->t_i64, most), LL_SLT);
    if (lo < -limit) x = minimum(s, x, llvm_int(s, s->t_i64, -most), LL_SGT);
    x = llvm_cast(s, LL_TRUNC, x, t);
    return llvm_compare(s, LL_SGE, x, constant_lanes(s, bits, 0, -step));
}

/* Not by way of a sym: the algebra knows that the variable is below the extent. */
val llvm_lane_mask(llvm *s, sym extent) {
    int64_t number;
    if (sym_is_const(s->syms, extent, &number) && number == s->lanes) return (val){0};
    return lanes_ge0(s, -1, sym_sub(s->syms, extent, SYM_ONE));
}

static val ge0(llvm *s, sym e) {
    e = llvm_reduced(s, e);
    int64_t step;
    sym rest;
    if (!llvm_sym_varies(s, e))
        return llvm_compare(s, LL_SGE, llvm_sym(s, e), llvm_int(s, s->t_i64, 0));
    if (sym_split(s->syms, e, s->lane_var, &step, &rest) && llabs(step) < 1 << 20)
        return lanes_ge0(s, step, rest);
    val x = llvm_sym_lanes(s, e, llvm_sym_fits(s, e) ? 32 : 64);
    return llvm_compare(s, LL_SGE, x, llvm_int_like(s, x, 0));
}

val llvm_truth(llvm *s, sym a) {
    a = llvm_reduced(s, a);
    int64_t number;
    if (sym_is_const(s->syms, a, &number)) return number ? (val){0} : llvm_int(s, s->t_i1, 0);
    const sym *x;
    sym_kind kind = sym_kind_of(s->syms, a);
    int n = sym_operands(s->syms, a, &x);
    if (kind == SYM_GE0) return ge0(s, x[0]);
    if (kind == SYM_AND) {
        sym *operand = arena_alloc(&s->arena, n * sizeof *operand);
        memcpy(operand, x, n * sizeof *operand);
        val all = {0};
        for (int i = 0; i < n; i++) all = llvm_and_mask(s, all, llvm_truth(s, operand[i]));
        return all;
    }
    val v = llvm_sym_varies(s, a) ? llvm_sym_lanes(s, a, 64) : llvm_sym(s, a);
    return llvm_compare(s, LL_NE, v, llvm_int_like(s, v, 0));
}

/* ---- addressing ----------------------------------------------------------------------------- */

/* Each lane's part of the index, where that is a number. */
static const int64_t *lane_offsets(llvm *s, sym rest) {
    int64_t *offset = arena_alloc(&s->arena, (size_t)s->lanes * sizeof *offset);
    for (int i = 0; i < s->lanes; i++) {
        sym lane = sym_const(s->syms, i);
        if (!sym_is_const(s->syms, sym_subst(s->syms, rest, 1, &s->lane_var, &lane), &offset[i]))
            return NULL;
    }
    return offset;
}

/* Do lanes come in runs of n, evenly spaced within each? */
static bool are_runs(const llvm *s, const int64_t *offset, int n) {
    for (int i = 0; i < s->lanes; i++)
        if (offset[i] != offset[i - i % n] + (i % n) * (offset[1] - offset[0])) return false;
    return true;
}

/* The longest runs of lanes, if there are such. */
static void find_runs(llvm *s, sym rest, llvm_index *out) {
    const int64_t *offset = lane_offsets(s, rest);
    for (int n = s->lanes / 2; offset && n > 1; n /= 2) {
        if (s->lanes % n || !are_runs(s, offset, n)) continue;
        int64_t *jump = arena_alloc(&s->arena, (size_t)(s->lanes / n) * sizeof *jump);
        for (int i = 0; i * n < s->lanes; i++) jump[i] = offset[i * n];
        out->run = n;
        out->step = offset[1] - offset[0];
        out->jump = jump;
        return;
    }
}

void llvm_index_of(llvm *s, sym a, llvm_index *out) {
    sym rest;
    scalar_terms(s, llvm_reduced(s, a), out, &rest);
    if (rest == SYM_ZERO) return;
    sym outside;
    if (sym_split(s->syms, rest, s->lane_var, &out->step, &outside) && outside == SYM_ZERO) {
        out->stride = STRIDE_CONSTANT;
    } else {
        out->stride = STRIDE_ANY;
        find_runs(s, rest, out);
        out->lanes = llvm_sym_lanes(s, rest, llvm_sym_fits(s, rest) ? 32 : 64);
    }
}
