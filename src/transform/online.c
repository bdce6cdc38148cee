/* online.c - fuse the reduction to a maximum with the sums of what it is subtracted in: the online
 * softmax of FlashAttention.
 *
 *   online m i j   def m = -inf; for i { .. for a { m max= s[i, a] } }  .. def l = 0;
 *                  for j { .. for b { l += exp((s[j, b] - m) * c) } }
 *        becomes   for i { def was = m; .. for a { m max= s[i, a] }
 *                          ref = m; factor = exp((was - ref) * c); l *= factor;
 *                          .. for b { l += exp((s[i, b] - ref) * c) } }
 *
 * Both loops go through the same blocks of a row. The whole row's maximum is not known when the
 * first block is summed; what was summed relative to the largest so far is multiplied by
 * exp((was - now) * c) when that grows, for exp((s - was) * c) * exp((was - now) * c) is
 * exp((s - now) * c). So (m, l, o[]) is one monoid, of which only a block of s need exist at a
 * time, and the row may have any length. Sums are regrouped, and each is rounded once more a block.
 *
 * -inf, infinities and NaN come out as without the transform. While all of a row is -inf its terms
 * are exp(-inf) = 0, relative to the lowest finite number, and nothing is multiplied where there
 * was nothing before; if the last block leaves it so, all becomes NaN as exp(-inf - -inf) is. (A
 * term of weight 0 and an infinite factor is NaN; a weight that is 0 only relative to a later
 * maximum makes it infinite first.)
 *
 * Legal where fuse would be but for m, and
 *   - the sums of weights are said to be rescaled so, if their grouping is said;
 *   - i does nothing to m but one update by `max`, and nothing after i stores to it;
 *   - j reads m only in weights: exp or exp2 of (s - m), perhaps multiplied by constants and
 *     parameters, where s is what the same iteration of i compared, under the same mask, so that no
 *     weight is above 1 (and a row whose mask hides everything is none);
 *   - all that depends on weights depends linearly: sums that start at 0 in front of j, tiles of
 *     one iteration, or sums that wait between blocks (block_reduction); an element of any of them
 *     belongs to the row of m's element that its index is equal to modulo m's size. What runs in
 *     the last iteration only may do anything else with them. */
#include "transform/transform.h"

#include <float.h>
#include <math.h>

typedef struct online {
    kernel *k;
    mem_id most;           /* m */
    stmt_id first, second; /* i, j */
    stmt_id grow;          /* the update of m */
    sym rows;              /* m's size */
    expr_id weight;        /* the first weight, by which the others are compared */
    bool *linear;          /* of memories: holds sums of weights times something */
    bool *waits;           /* of those: is stored at the end of an iteration, loaded in the next */
    bool *summed;          /* of those: is updated by sums only, and lives through j */
    mem_id was, ref;
    uint8_t *known; /* by expr_id, in one walk: what is shared is looked at once */
    transform_made *made;
    str *why;
} online;

static void forget(online *p) {
    p->known = arena_zeroed(&p->k->arena, p->k->exprs);
}

typedef enum degree { DEGREE_FREE, DEGREE_ZERO, DEGREE_LINEAR, DEGREE_OTHER } degree;

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_number(const kernel *k, expr_id e) {
    return ir_e(k, e)->kind == EXPR_CONST || ir_e(k, e)->kind == EXPR_PARAM;
}

static bool is_most(const online *p, expr_id e) {
    const ir_expr *x = ir_e(p->k, e);
    return x->kind == EXPR_LOAD && x->load.mem == p->most && x->load.valid == SYM_TRUE &&
           !x->load.dyn && !x->load.guard;
}

/* e, or what it was before what counts less than roundings was cut off: e^-69 is 2^-100. */
static expr_id uncut(const kernel *k, expr_id e) {
    double least = 0;
    expr_id x = ir_is_cut_below(k, e, &least);
    return x && least <= -69 ? x : e;
}

/* exp(c * (s - m)) with any number of factors: the difference; 0: e is no weight. */
static expr_id difference_of(const online *p, expr_id e) {
    const ir_expr *x = ir_e(p->k, e);
    if (x->kind != EXPR_OP || (x->op != OP_EXP && x->op != OP_EXP2)) return 0;
    for (e = x->arg[0];; e = is_number(p->k, x->arg[0]) ? x->arg[1] : x->arg[0]) {
        x = ir_e(p->k, e = uncut(p->k, e));
        if (x->kind != EXPR_OP) return 0;
        if (x->op == OP_SUB)
            return is_most(p, x->arg[1]) && !ir_expr_reads(p->k, x->arg[0], p->most) ? e : 0;
        if (x->op != OP_MUL || is_number(p->k, x->arg[0]) == is_number(p->k, x->arg[1])) return 0;
    }
}

/* The same function of the difference, of another difference. */
static expr_id weight_of(const online *p, expr_id e, expr_id difference) {
    const ir_expr x = *ir_e(p->k, e);
    if (x.op == OP_SUB) return difference;
    double least;
    expr_id whole = ir_is_cut_below(p->k, e, &least);
    if (whole) return ir_cut_below(p->k, weight_of(p, whole, difference), least);
    if (x.op != OP_MUL) return ir_op1(p->k, x.op, weight_of(p, x.arg[0], difference));
    int number = is_number(p->k, x.arg[0]) ? 0 : 1;
    expr_id rest = weight_of(p, x.arg[!number], difference);
    return number ? ir_op2(p->k, OP_MUL, rest, x.arg[1]) : ir_op2(p->k, OP_MUL, x.arg[0], rest);
}

/* seen: by expr_id, what had none. */
static expr_id first_load_in(const kernel *k, expr_id e, uint8_t *seen) {
    ir_expr x;
    memcpy(&x, ir_e(k, e), sizeof x);
    expr_id *arg[3], found = 0;
    if (x.kind == EXPR_LOAD) return e;
    if (seen[e]) return 0;
    seen[e] = 1;
    int n = ir_expr_args(&x, arg);
    for (int i = 0; i < n && !found; i++) found = first_load_in(k, *arg[i], seen);
    return found;
}

static expr_id first_load(kernel *k, expr_id e) {
    return first_load_in(k, e, arena_zeroed(&k->arena, e + 1));
}

/* The loops around a statement out to `top`, and an index there. */
typedef struct around {
    stmt_id inside, top;
    sym index;
} around;
typedef struct renaming {
    int n;
    sym from[32], to[32];
} renaming;

/* Map the loops around `from` to those around `to` that have the same coefficients in its index,
 * and the same extents. */
static bool rename_loops(const kernel *k, const around *from, const around *to, renaming *r) {
    sym_store *s = k->syms;
    r->n = 0;
    for (stmt_id a = ir_s(k, from->inside)->parent;; a = ir_s(k, a)->parent) {
        sym coef, other, rest, var = ir_s(k, a)->l.var;
        stmt_id found = 0;
        if (sym_uses(s, from->index, var) && !ir_linear(k, from->index, var, &coef, &rest))
            return false;
        for (stmt_id b = ir_s(k, to->inside)->parent; sym_uses(s, from->index, var);
             b = ir_s(k, b)->parent) {
            sym v = ir_s(k, b)->l.var;
            if (sym_uses(s, to->index, v) && ir_linear(k, to->index, v, &other, &rest) &&
                other == coef) {
                if (found) return false;
                found = b;
            }
            if (b == to->top) break;
        }
        if (found) {
            if (r->n == 32 || (a == from->top) != (found == to->top)) return false;
            r->from[r->n] = var;
            r->to[r->n++] = ir_s(k, found)->l.var;
        }
        if (a == from->top) break;
    }
    /* as many iterations */
    for (stmt_id a = ir_s(k, from->inside)->parent;; a = ir_s(k, a)->parent) {
        for (int i = 0; i < r->n; i++) {
            if (r->from[i] != ir_s(k, a)->l.var) continue;
            stmt_id b = ir_s(k, to->inside)->parent;
            while (ir_s(k, b)->l.var != r->to[i]) b = ir_s(k, b)->parent;
            if (sym_subst(s, ir_s(k, a)->l.extent, r->n, r->from, r->to) != ir_s(k, b)->l.extent)
                return false;
        }
        if (a == from->top) return sym_subst(s, from->index, r->n, r->from, r->to) == to->index;
    }
}

/* Is the score of the weight, in statement `at` of j, the one that the update compared? */
static bool same_score(const online *p, stmt_id at, expr_id difference, renaming *r) {
    kernel *k = p->k;
    const ir_stmt u = *ir_s(k, p->grow);
    const ir_expr d = *ir_e(k, difference);
    expr_id mine = first_load(k, d.arg[0]), its = first_load(k, u.store.value[0]);
    if (!mine || !its || ir_e(k, mine)->load.mem != ir_e(k, its)->load.mem) return false;
    const around grow = {p->grow, p->first, ir_e(k, its)->load.index};
    const around weight = {at, p->second, ir_e(k, mine)->load.index};
    if (!rename_loops(k, &grow, &weight, r)) return false;
    return ir_subst_expr(k, u.store.value[0], r->n, r->from, r->to) == d.arg[0] &&
           sym_subst(k->syms, u.store.index, r->n, r->from, r->to) == ir_e(k, d.arg[1])->load.index;
}

/* A mask: conditions key * place + row * of + rest >= 0, where an index is place * rows + of. */
typedef struct mask_form {
    int n;
    int64_t key[IR_FACTS], row[IR_FACTS];
    sym rest[IR_FACTS];
} mask_form;

/* The multiple of a part's coefficient that the condition's is, the same for all loops. */
static bool multiple_of(int64_t part, int64_t condition, int64_t *times, bool *known) {
    if (condition % part || (*known && *times != condition / part)) return false;
    *times = condition / part;
    return *known = true;
}

static bool form_of_condition(const online *p, stmt_id at, sym index, sym fact, mask_form *f) {
    sym_store *s = p->k->syms;
    sym place = sym_div(s, index, p->rows), of = sym_mod(s, index, p->rows), rest;
    bool key = false, row = false;
    int64_t by_key = 0, by_row = 0;
    for (stmt_id l = ir_s(p->k, at)->parent;; l = ir_s(p->k, l)->parent) {
        int64_t c[3] = {0};
        sym in[3] = {fact, place, of}, var = ir_s(p->k, l)->l.var;
        for (int i = 0; i < 3; i++)
            if (sym_uses(s, in[i], var) && !sym_split(s, in[i], var, &c[i], &rest)) return false;
        if (c[1] && c[2]) return false;
        if (c[1]   ? !multiple_of(c[1], c[0], &by_key, &key)
            : c[2] ? !multiple_of(c[2], c[0], &by_row, &row)
                   : c[0] != 0)
            return false;
        if (l == p->second) break;
    }
    rest = sym_add(s, sym_scale(s, place, by_key), sym_scale(s, of, by_row));
    f->key[f->n] = by_key;
    f->row[f->n] = by_row;
    f->rest[f->n++] = sym_sub(s, fact, rest);
    return true;
}

static bool form_of_mask(const online *p, stmt_id at, sym index, sym mask, mask_form *f) {
    sym fact[IR_FACTS];
    f->n = 0;
    int n = ir_facts(p->k, mask, fact);
    for (int i = 0; i < n; i++)
        if (!form_of_condition(p, at, index, fact[i], f)) return false;
    return n > 0 && n < IR_FACTS;
}

static bool same_form(const mask_form *a, const mask_form *b) {
    for (int i = 0; i < a->n; i++) {
        bool found = false;
        for (int j = 0; j < b->n; j++)
            found |= a->key[i] == b->key[j] && a->row[i] == b->row[j] && a->rest[i] == b->rest[j];
        if (!found) return false;
    }
    return a->n == b->n;
}

/* The weights of a masked row are summed under the mask of the update: here, or where the tile that
 * they are stored to is read. */
static bool same_mask(const online *p, stmt_id at, const renaming *r) {
    kernel *k = p->k;
    mask_form here, there;
    sym mask = ir_s(k, p->grow)->store.valid;
    if (mask == SYM_TRUE) return true;
    const ir_stmt x = *ir_s(k, at);
    mask = sym_subst(k->syms, mask, r->n, r->from, r->to);
    if (x.store.valid == mask) return true;
    if (x.monoid != MONOID_SET || !form_of_mask(p, at, x.store.index, mask, &here)) return false;
    ir_access *t;
    uint32_t n = ir_accesses(k, p->second, &t);
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || t[i].mem != x.store.mem[0]) continue;
        sym both = sym_and(k->syms, ir_s(k, t[i].at)->store.valid, t[i].valid); /* else it is 0 */
        if (!form_of_mask(p, t[i].at, t[i].index, both, &there) || !same_form(&here, &there))
            return false;
    }
    return true;
}

/* Does each row's mask show something? There is an end of what the row compares at which each of
 * its conditions is at its widest; there they must hold. */
static bool sees_something(const online *p) {
    kernel *k = p->k;
    sym_store *s = k->syms;
    sym fact[IR_FACTS];
    const ir_stmt u = *ir_s(k, p->grow);
    int n = ir_facts(k, u.store.valid, fact);
    for (stmt_id l = u.parent; n; l = ir_s(k, l)->parent) {
        sym var = ir_s(k, l)->l.var, coef, rest, end = SYM_ZERO;
        bool up = false, down = false, row = sym_uses(s, u.store.index, var);
        for (int i = 0; i < n && !row; i++) {
            if (!sym_uses(s, fact[i], var)) continue;
            if (!ir_linear(k, fact[i], var, &coef, &rest)) return false;
            up |= sym_hi(s, coef) > 0;
            down |= sym_lo(s, coef) < 0;
        }
        if (up && down) return false;
        if (up) end = sym_sub(s, ir_s(k, l)->l.extent, SYM_ONE);
        for (int i = 0; i < n && !row; i++) fact[i] = sym_subst(s, fact[i], 1, &var, &end);
        if (l == p->first) break;
    }
    for (int i = 0; i < n; i++)
        if (!ir_prove(k, p->grow, fact[i], 0, NULL)) return false;
    return n < IR_FACTS;
}

/* ---- linearity ------------------------------------------------------------------------------- */

static bool reads_sums(const online *p, expr_id e) {
    for (mem_id m = 1; m < p->k->mems; m++)
        if ((p->linear[m] || m == p->most) && e && ir_expr_reads(p->k, e, m)) return true;
    return false;
}

static degree degree_of(const online *p, expr_id e);

static degree look_at(const online *p, expr_id e) {
    const ir_expr *x = ir_e(p->k, e);
    if (!reads_sums(p, e))
        return x->kind == EXPR_CONST && e == ir_const_f(p->k, (qn_dtype)x->dtype, 0) ? DEGREE_ZERO
                                                                                     : DEGREE_FREE;
    x = ir_e(p->k, e);
    if (x->kind == EXPR_LOAD)
        return p->linear[x->load.mem] && !reads_sums(p, x->load.dyn) &&
                       !reads_sums(p, x->load.guard)
                   ? DEGREE_LINEAR
                   : DEGREE_OTHER;
    if (x->kind != EXPR_OP) return DEGREE_OTHER;
    expr_id difference = difference_of(p, e);
    if (difference) {
        bool alike = !p->weight || weight_of(p, p->weight, difference) == e;
        return alike && !reads_sums(p, ir_e(p->k, difference)->arg[0]) ? DEGREE_LINEAR
                                                                       : DEGREE_OTHER;
    }
    degree d[3] = {DEGREE_FREE, DEGREE_FREE, DEGREE_ZERO};
    ir_expr row = *ir_e(p->k, e);
    for (int i = 0; i < row.n; i++) d[i] = degree_of(p, row.arg[i]);
    bool scaled = (d[0] == DEGREE_LINEAR && d[1] == DEGREE_FREE) ||
                  (d[0] == DEGREE_FREE && d[1] == DEGREE_LINEAR);
    bool fits = false;
    switch (row.op) {
    case OP_NEG:
        fits = d[0] == DEGREE_LINEAR;
        break;
    case OP_CAST:
        fits = d[0] == DEGREE_LINEAR && dtype_is_float(row.dtype);
        break;
    case OP_ADD:
    case OP_SUB:
        fits = d[0] == DEGREE_LINEAR && d[1] == DEGREE_LINEAR;
        break;
    case OP_MUL:
        fits = scaled;
        break;
    case OP_DIV:
        fits = d[0] == DEGREE_LINEAR && d[1] == DEGREE_FREE;
        break;
    default:
        break;
    }
    return fits ? DEGREE_LINEAR : DEGREE_OTHER;
}

/* Behind a forget(). */
static degree degree_of(const online *p, expr_id e) {
    if (!p->known[e]) p->known[e] = (uint8_t)(look_at(p, e) + 1);
    return (degree)(p->known[e] - 1);
}

/* The next statement of j that does not run in the last iteration only. */
static stmt_id next_of(const online *p, stmt_id s) {
    kernel *k = p->k;
    for (stmt_id n = ir_next(k, s, p->second); n;) {
        if (ir_s(k, n)->kind != STMT_LOOP || !transform_in_last_trip(k, p->second, n)) return n;
        stmt_id after = n;
        while (after && ir_inside(k, after, n)) after = ir_next(k, after, p->second);
        n = after;
    }
    return 0;
}

static bool in_last(const online *p, stmt_id s) {
    for (; s != p->second; s = ir_s(p->k, s)->parent)
        if (ir_s(p->k, s)->kind == STMT_LOOP && transform_in_last_trip(p->k, p->second, s))
            return true;
    return false;
}

static void find_weight(online *p, expr_id e) {
    ir_expr x;
    memcpy(&x, ir_e(p->k, e), sizeof x);
    expr_id *arg[3];
    if (p->known[e]) return;
    p->known[e] = 1;
    if (!p->weight && difference_of(p, e)) p->weight = e;
    int n = ir_expr_args(&x, arg);
    for (int i = 0; i < n && !p->weight; i++) find_weight(p, *arg[i]);
}

/* Mark the memories that weights flow into. */
static void spread(online *p) {
    for (bool more = true; more;) {
        more = false;
        for (stmt_id s = p->second; (s = next_of(p, s));) {
            const ir_stmt x = *ir_s(p->k, s);
            for (int i = 0; x.kind == STMT_STORE && i < x.n; i++) {
                if (p->linear[x.store.mem[i]] || !reads_sums(p, x.store.value[i])) continue;
                more = p->linear[x.store.mem[i]] = true;
                forget(p);
                find_weight(p, x.store.value[i]);
            }
        }
    }
}

/* Do the weights and sums in e belong to the row that the element is of? */
static bool same_rows(online *p, stmt_id at, sym element, expr_id e) {
    kernel *k = p->k;
    ir_expr x;
    expr_id *arg[3], difference = difference_of(p, e);
    memcpy(&x, ir_e(k, e), sizeof x);
    if (p->known[e] || !reads_sums(p, e)) return true;
    p->known[e] = 1;
    sym row = sym_mod(k->syms, element, p->rows);
    if (difference) {
        renaming r;
        return sym_mod(k->syms, ir_e(k, ir_e(k, difference)->arg[1])->load.index, p->rows) == row &&
               same_score(p, at, difference, &r) && same_mask(p, at, &r);
    }
    if (x.kind == EXPR_LOAD) return sym_mod(k->syms, x.load.index, p->rows) == row;
    int n = ir_expr_args(&x, arg);
    for (int i = 0; i < n; i++)
        if (!same_rows(p, at, element, *arg[i])) return false;
    return true;
}

static bool store_is_linear(online *p, stmt_id s) {
    const ir_stmt x = *ir_s(p->k, s);
    if (reads_sums(p, x.store.dyn) || reads_sums(p, x.store.guard)) return false;
    bool any = false;
    for (int i = 0; i < x.n; i++) any |= p->linear[x.store.mem[i]];
    if (!any) return true;
    if (x.n != 1 || x.store.dyn || (x.monoid != MONOID_SET && x.monoid != MONOID_SUM)) return false;
    forget(p);
    degree d = degree_of(p, x.store.value[0]);
    if (d != DEGREE_LINEAR) return d == DEGREE_ZERO;
    forget(p);
    return same_rows(p, s, x.store.index, x.store.value[0]);
}

static bool starts_at_zero(const online *p, stmt_id def) {
    expr_id v = ir_s(p->k, def)->def.value;
    return v && v == ir_const_f(p->k, (qn_dtype)ir_e(p->k, v)->dtype, 0);
}

static stmt_id def_of(const kernel *k, mem_id m) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == m) return s;
    return 0;
}

/* Is what an iteration loads of m what an earlier one stored: is each load in front of the stores,
 * in the innermost loop around both, whose iterations and those of the loops around it have
 * elements of their own? */
static bool loads_first(const online *p, mem_id m) {
    kernel *k = p->k;
    ir_access *t;
    uint32_t n = ir_accesses(k, p->second, &t);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            if (t[i].mem != m || t[j].mem != m || !t[i].load || t[j].load) continue;
            stmt_id common = t[i].at, a = t[i].at, b = t[j].at;
            while (!ir_inside(k, b, common)) common = ir_s(k, common)->parent;
            for (stmt_id l = common; l != p->second; l = ir_s(k, l)->parent)
                if (!ir_no_carried_for(k, l, m)) return false;
            if (a == b) continue; /* a statement loads before it stores */
            while (ir_s(k, a)->parent != common) a = ir_s(k, a)->parent;
            while (ir_s(k, b)->parent != common) b = ir_s(k, b)->parent;
            stmt_id c = a;
            while (c && c != b) c = ir_s(k, c)->next;
            if (!c || a == b) return false;
        }
    return true;
}

/* How a memory that weights flow into lives: see the top. */
static bool classify(online *p, mem_id m) {
    kernel *k = p->k;
    stmt_id def = def_of(k, m);
    if (!def || !dtype_is_float(ir_m(k, m)->dtype))
        return ir_refuse(p->why, "what is summed is no tile of floats");
    if (ir_inside(k, def, p->second))
        return !ir_s(k, def)->def.value || starts_at_zero(p, def) ||
               ir_refuse(p->why, "a sum of weights does not start at 0");
    if (ir_s(k, def)->parent != ir_s(k, p->second)->parent)
        return ir_refuse(p->why, "sums of weights live through several rows");
    if (!ir_may_rescale(k, m, p->second, p->why)) return false;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t), loads = 0, sets = 0, outside = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != m) continue;
        bool in = ir_inside(k, t[i].at, p->second), last = in && in_last(p, t[i].at);
        if (last && !t[i].load) return ir_refuse(p->why, "the last iteration stores to a sum");
        if (ir_inside(k, t[i].at, p->first))
            return ir_refuse(p->why, "the first loop accesses a sum of weights");
        outside += !in;
        loads += in && !last && t[i].load;
        sets += in && !t[i].load && t[i].monoid == MONOID_SET;
        if (last && t[i].load && t[i].guard) return ir_refuse(p->why, "a guard of the last");
    }
    if (!loads && !sets) {
        p->summed[m] = true;
        return (starts_at_zero(p, def) &&
                sym_mod(k->syms, ir_m(k, m)->size, p->rows) == SYM_ZERO) ||
               ir_refuse(p->why, "a sum of weights does not start at 0, or is of no whole rows");
    }
    if (outside || ir_s(k, def)->def.value)
        return ir_refuse(p->why, "weights of all blocks are used again");
    if (ir_no_carried_for(k, p->second, m)) return true;
    p->waits[m] = true;
    return loads_first(p, m) || ir_refuse(p->why, "what waits between blocks is used twice");
}

/* ---- the whole check ------------------------------------------------------------------------- */

static bool only_grows(online *p) {
    kernel *k = p->k;
    ir_access *t;
    stmt_id def = def_of(k, p->most), block = ir_s(k, p->first)->parent;
    uint32_t n = ir_accesses(k, k->root, &t);
    if (!def || ir_s(k, def)->parent != block || !dtype_is_float(ir_m(k, p->most)->dtype) ||
        !sym_is_const(k->syms, p->rows, NULL))
        return ir_refuse(p->why, "the maximum is no tile of floats beside the loops");
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].mem != p->most) continue;
        bool inside = ir_inside(k, t[i].at, p->first);
        if (t[i].load ? inside : !inside || t[i].monoid != MONOID_MAX || p->grow)
            return ir_refuse(p->why, "the maximum is not only updated, by one statement");
        if (!t[i].load) p->grow = t[i].at;
    }
    if (!p->grow || ir_s(k, p->grow)->n != 1 || ir_s(k, p->grow)->store.dyn ||
        ir_s(k, p->grow)->store.guard)
        return ir_refuse(p->why, "the first loop does not update the maximum");
    return sees_something(p) || ir_refuse(p->why, "a row may see nothing");
}

static bool allowed(online *p) {
    kernel *k = p->k;
    const ir_stmt *a = ir_s(k, p->first), *b = ir_s(k, p->second);
    if (a->kind != STMT_LOOP || b->kind != STMT_LOOP || a->parent != b->parent ||
        !ir_divisible(k, a->parent, p->why) || !ir_outside_vectors(k, a->parent, p->why))
        return ir_refuse(p->why, "the loops are not beside each other");
    if (!only_grows(p)) return false;
    spread(p);
    if (!p->weight) return ir_refuse(p->why, "the second loop has no weights");
    for (stmt_id s = p->second; (s = next_of(p, s));) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_DEF && x->def.value && reads_sums(p, x->def.value))
            return ir_refuse(p->why, "a tile starts from a weight");
        if (x->kind == STMT_STORE && !store_is_linear(p, s))
            return ir_refuse(p->why, "something is not linear in the weights of its row");
    }
    for (mem_id m = 1; m < k->mems; m++)
        if (p->linear[m] && !classify(p, m)) return false;
    return true;
}

/* ---- the change ------------------------------------------------------------------------------ */

/* Where statements for each row go: a loop over the rows in front of `before`, none for one row. */
typedef struct row_loop {
    stmt_id parent, before;
    sym row;
} row_loop;

static row_loop over_rows(const online *p, stmt_id parent, stmt_id before, const char *name) {
    kernel *k = p->k;
    if (p->rows == SYM_ONE) return (row_loop){parent, before, SYM_ZERO};
    stmt_id l = ir_loop(k, parent, LOOP_SERIAL, name, p->rows);
    transform_report(k, p->made, l);
    if (before) ir_move(k, l, parent, before);
    return (row_loop){l, 0, ir_trip(k, l)};
}

static void put(const online *p, const row_loop *l, int how, mem_id m, sym at, expr_id value) {
    stmt_id s = ir_store(p->k, l->parent, how, (ir_place){m, at, SYM_TRUE}, value);
    if (l->before) ir_move(p->k, s, l->parent, l->before);
}

static expr_id at_row(const online *p, mem_id m, sym row) {
    return ir_load(p->k, m, row, SYM_TRUE, 0, 0);
}

/* was = m, in front of what the iteration compares. */
static void remember_most(const online *p) {
    kernel *k = p->k;
    row_loop l = over_rows(p, p->first, ir_s(k, p->first)->first, "was");
    put(p, &l, MONOID_SET, p->was, l.row, at_row(p, p->most, l.row));
    stmt_id def = ir_def(k, p->first, p->was, 0);
    ir_move(k, def, p->first, ir_s(k, p->first)->first);
    def = ir_def(k, p->first, p->ref, 0);
    ir_move(k, def, p->first, ir_s(k, p->first)->first);
}

/* ref = m, but in the last iteration never -inf; was = the factor from the old to the new. */
static void find_factor(const online *p, stmt_id before) {
    kernel *k = p->k;
    sym_store *s = k->syms;
    qn_dtype d = (qn_dtype)ir_m(k, p->most)->dtype;
    sym last = sym_sub(s, ir_s(k, p->first)->l.extent, SYM_ONE);
    sym left = sym_sub(s, last, ir_trip(k, p->first));
    row_loop l = over_rows(p, p->first, before, "ref");
    expr_id most = at_row(p, p->most, l.row), was = at_row(p, p->was, l.row),
            ref = at_row(p, p->ref, l.row);
    expr_id none = ir_identity(k, MONOID_MAX, 0, d), one = ir_const_f(k, d, 1);
    expr_id nan = ir_const_f(k, d, (double)NAN);
    double largest = d == QN_F64 ? DBL_MAX : (double)FLT_MAX;
    expr_id finite = ir_op2(k, OP_MAXIMUM, most, ir_const_f(k, d, -largest));
    expr_id going =
        ir_op2(k, OP_NE, ir_index(k, sym_min(s, left, SYM_ONE)), ir_const_i(k, QN_I64, 0));
    put(p, &l, MONOID_SET, p->ref, l.row, ir_op3(k, OP_WHERE, going, finite, most));
    expr_id factor = weight_of(p, p->weight, ir_op2(k, OP_SUB, was, ref));
    expr_id first = ir_op3(k, OP_WHERE, ir_op2(k, OP_EQ, ref, none), nan, one);
    factor = ir_op3(k, OP_WHERE, ir_op2(k, OP_EQ, was, none), first, factor);
    put(p, &l, MONOID_SET, p->was, l.row, factor);
}

/* sum *= factor for all of its elements. */
static void scale_sum(const online *p, mem_id sum, stmt_id before) {
    kernel *k = p->k;
    sym_store *s = k->syms;
    sym times = sym_div(s, ir_m(k, sum)->size, p->rows), each = SYM_ZERO;
    stmt_id parent = p->first;
    if (times != SYM_ONE) {
        parent = ir_loop(k, p->first, LOOP_SERIAL, "each", times);
        ir_move(k, parent, p->first, before);
        if (p->rows == SYM_ONE) transform_report(k, p->made, parent);
        each = ir_trip(k, parent);
        before = 0;
    }
    row_loop l = over_rows(p, parent, before, "scale");
    sym at = sym_add(s, sym_mul(s, each, p->rows), l.row);
    expr_id factor = ir_cast(k, (qn_dtype)ir_m(k, sum)->dtype, at_row(p, p->was, l.row));
    put(p, &l, MONOID_PROD, sum, at, factor);
}

static expr_id online_rewriter(kernel *k, const ir_expr *e, void *user) {
    const online *p = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD && row.load.mem == p->most) row.load.mem = p->ref;
    expr_id v = ir_rebuild(k, &row, NULL);
    if (row.kind != EXPR_LOAD || !p->waits[row.load.mem]) return v;
    expr_id factor = at_row(p, p->was, sym_mod(k->syms, row.load.index, p->rows));
    return ir_op2(k, OP_MUL, v, ir_cast(k, (qn_dtype)row.dtype, factor));
}

static void leave_registers(kernel *k, mem_id tile) {
    if (ir_m(k, tile)->scope == MEM_REG && !ir_in_registers(k, tile, NULL))
        ir_m(k, tile)->scope = MEM_LOCAL;
}

bool transform_online(kernel *k, mem_id most, stmt_id first, stmt_id second, transform_made *made,
                      str *why) {
    online p = {.k = k, .most = most, .first = first, .second = second, .made = made, .why = why};
    p.rows = ir_m(k, most)->size;
    p.linear = arena_zeroed(&k->arena, k->mems * sizeof *p.linear);
    p.waits = arena_zeroed(&k->arena, (k->mems + 2) * sizeof *p.waits);
    p.summed = arena_zeroed(&k->arena, k->mems * sizeof *p.summed);
    if (ir_m(k, most)->scope == MEM_ARG) return ir_refuse(why, "the maximum is no tile");
    if (!allowed(&p)) return false;
    uint32_t mems = k->mems;
    stmt_id rest = ir_s(k, second)->first, stmt[512];
    int n = 0;
    for (stmt_id s = second; (s = next_of(&p, s));) {
        if (ir_s(k, s)->kind != STMT_STORE) continue;
        if (n == 512) return ir_refuse(why, "the second loop is too long");
        stmt[n++] = s;
    }
    if (!transform_fuse_but(k, first, second, most, why)) return false;
    qn_dtype dtype = (qn_dtype)ir_m(k, most)->dtype;
    p.was = ir_tile(k, MEM_REG, dtype, p.rows);
    p.ref = ir_tile(k, MEM_REG, dtype, p.rows);
    for (int i = 0; i < n; i++) ir_rewrite(k, stmt[i], online_rewriter, &p);
    remember_most(&p);
    find_factor(&p, rest);
    for (mem_id m = 1; m < mems; m++)
        if (p.summed[m] || p.waits[m]) ir_rescale(k, m, first);
    for (mem_id m = 1; m < mems; m++)
        if (p.summed[m]) scale_sum(&p, m, rest);
    for (mem_id m = 1; m < k->mems; m++) leave_registers(k, m);
    return true;
}

bool apply_online(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_online(k, a->mem, a->loop[0], a->loop[1], made, why);
}
