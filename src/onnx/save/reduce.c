/* reduce.c - reductions, sums of products, running results.
 *
 * The axes of a sum of products are those of a product of matrices: of both operands and kept, the
 * batch; of one and kept, rows and columns; of both and reduced, the inner ones. Each group becomes
 * one axis, as far as it has to, and the result is put in order again. A running result of anything
 * but a sum is made in steps of 1, 2, 4 .. places: each element takes in what stands so far in
 * front of it. */
#include "onnx/save/save.h"

/* ---- reductions ------------------------------------------------------------------------------ */

/* Over several axes the first of the largest is that of the flat order. */
static val flat_place(saving *s, val v, node_id from, uint32_t mask, const char *name) {
    int rank, axes[QN_MAX_RANK], n = 0;
    const int64_t *dim = node_dims(s->g, from, &rank);
    int64_t shape[QN_MAX_RANK];
    sym all = SYM_ONE;
    for (int d = 0; d < rank; d++)
        if (!(mask >> d & 1)) shape[n] = dim[d], axes[n++] = d;
    int kept = n;
    for (int d = 0; d < rank; d++)
        if (mask >> d & 1) axes[n++] = d, all = sym_mul(s->g->syms, all, (sym)dim[d]);
    shape[kept] = all;
    v = save_reshape(s, save_permute(s, v, rank, axes), kept + 1, shape);
    return spell(s, QN_I64, 1, &v, "%s[axis=%d;keepdims=0](x)", name, kept);
}

static val reduced(saving *s, val v, const char *name, uint32_t mask) {
    int64_t axes[QN_MAX_RANK];
    int n = 0;
    for (int d = 0; d < QN_MAX_RANK; d++)
        if (mask >> d & 1) axes[n++] = d;
    return spell(s, QN_I64, 2, (val[]){v, save_ints(s, n, axes)}, "Reduce%s[keepdims=0](x,y)",
                 name);
}

void save_reduce(saving *s, const graph_node *x) {
    if (save_pool(s, x)) return;
    const save_row *row = &save_rows[x->op];
    qn_dtype of = (qn_dtype)node_at(s->g, x->src[0])->dtype, in = save_wide(s, row->types, of);
    uint32_t mask = tuple_axes(s->g, x->attr);
    val v = save_cast(s, full_of(s, x->src[0]), of, in);
    bool place = op_rows[x->op].types == TYPES_TO;
    v = place ? flat_place(s, v, x->src[0], mask, row->real) : reduced(s, v, row->real, mask);
    save_done(s, save_cast(s, v, place ? QN_I64 : in, (qn_dtype)x->dtype));
}

/* ---- sums of products ------------------------------------------------------------------------ */

typedef struct factor {
    save_view of;
    val v;
    uint32_t axes; /* that it is not repeated along */
} factor;
typedef struct product {
    int rank;
    const int64_t *dim;
    uint32_t reduced;
    qn_dtype dtype;
    factor f[2];
} product;

/* Sum what only one factor has, before the product. */
static void sum_alone(saving *s, product *p, int k) {
    uint32_t alone = p->f[k].axes & ~p->f[1 - k].axes & p->reduced;
    int64_t axes[QN_MAX_RANK];
    int n = 0;
    for (int d = 0; d < p->rank; d++)
        if (alone >> d & 1) axes[n++] = p->f[k].of.at[d];
    if (!n) return;
    p->f[k].v = spell(s, QN_I64, 2, (val[]){p->f[k].v, save_ints(s, n, axes)},
                      "ReduceSum[keepdims=1](x,y)");
    p->f[k].axes &= ~alone;
}

val save_grouped(saving *s, val x, const save_view *v, const grouping *g, uint32_t whole) {
    int axes[QN_MAX_RANK], n = 0, m = 0, last = ABSENT, rank;
    int64_t shape[2 * QN_MAX_RANK];
    uint32_t there = 0;
    bool moves = false;
    const int64_t *dim = node_dims(s->g, v->from, &rank);
    for (int i = 0; i < g->groups; i++) {
        sym size = SYM_ONE;
        for (int d = 0; d < g->rank; d++) {
            if (!(g->group[i] >> d & 1)) continue;
            int64_t one = v->at[d] == ABSENT ? SYM_ONE : dim[v->at[d]];
            if (!(whole >> i & 1)) shape[m++] = one;
            size = sym_mul(s->g->syms, size, (sym)one);
            if (one == SYM_ONE) continue;
            moves |= v->at[d] < last;
            axes[n++] = last = v->at[d];
            there |= 1u << last;
        }
        if (whole >> i & 1) shape[m++] = size;
    }
    for (int d = 0; d < rank; d++) /* of one element, so it does not matter where */
        if (!(there >> d & 1)) axes[n++] = d;
    return save_reshape(s, moves ? save_permute(s, x, rank, axes) : x, m, shape);
}

val save_ungrouped(saving *s, val x, const grouping *g, uint32_t gone) {
    int axes[QN_MAX_RANK], place[QN_MAX_RANK], n = 0, m = 0, kept = 0;
    int64_t shape[QN_MAX_RANK], to[QN_MAX_RANK], full[QN_MAX_RANK];
    uint32_t there = 0;
    bool same = true, split = false;
    for (int i = 0; i < g->groups; i++) {
        split |= !g->group[i] || (g->group[i] & (g->group[i] - 1));
        there |= g->group[i];
        for (int d = 0; d < g->rank; d++)
            if (g->group[i] >> d & 1) place[d] = n, shape[n++] = g->dim[d];
    }
    if (split) x = save_reshape(s, x, n, shape);
    for (int d = 0; d < g->rank; d++) {
        if (gone >> d & 1) continue;
        bool is = there >> d & 1;
        if (is) axes[m++] = place[d];
        same &= is || g->dim[d] == SYM_ONE;
        to[kept] = is ? g->dim[d] : SYM_ONE;
        full[kept++] = g->dim[d];
    }
    x = save_permute(s, x, n, axes);
    if (n != kept) x = save_reshape(s, x, kept, to);
    if (same) return x;
    return spell(s, QN_I64, 2, (val[]){x, save_sizes(s, kept, full)}, "Expand(x,y)");
}

static val product_of_matrices(saving *s, product *p) {
    sum_alone(s, p, 0);
    sum_alone(s, p, 1);
    uint32_t both = p->f[0].axes & p->f[1].axes, batch = both & ~p->reduced,
             inner = both & p->reduced, rows = p->f[0].axes & ~both, columns = p->f[1].axes & ~both;
    const uint32_t left[3] = {batch, rows, inner}, right[3] = {batch, inner, columns};
    const grouping a = {p->rank, 3, p->dim, left}, b = {p->rank, 3, p->dim, right};
    /* Without a batch the rows may be any number of axes. */
    const val in[2] = {save_grouped(s, p->f[0].v, &p->f[0].of, &a, batch ? 6 : 4),
                       save_grouped(s, p->f[1].v, &p->f[1].of, &b, 6)};
    uint32_t group[QN_MAX_RANK + 2];
    int n = 0;
    if (batch) group[n++] = batch, group[n++] = rows;
    for (int d = 0; d < p->rank && !batch; d++)
        if (rows >> d & 1) group[n++] = 1u << d;
    group[n++] = columns;
    const grouping out = {p->rank, n, p->dim, group};
    val v = spell(s, p->dtype, 2, in, "MatMul(x,y)");
    return save_ungrouped(s, v, &out, p->reduced);
}

/* Everything multiplied out: what has a condition, and what is summed and in neither factor. */
static val product_of_all(saving *s, const graph_node *x, qn_dtype of, qn_dtype in) {
    const val v[3] = {save_cast(s, slim_of(s, x->src[0]), of, in),
                      save_cast(s, full_of(s, x->src[1]), of, in),
                      x->sources == 3 ? slim_of(s, x->src[2]) : 0};
    val all = spell(s, in, 3, v, x->sources == 3 ? "Where(z,Mul(x,y),0)" : "Mul(x,y)");
    return reduced(s, all, "Sum", tuple_axes(s->g, x->attr));
}

void save_product(saving *s, const graph_node *x) {
    if (save_conv(s, x)) return;
    qn_dtype of = (qn_dtype)x->dtype, in = save_wide(s, save_rows[OP_SUM_PRODUCT].types, of);
    product p = {.reduced = tuple_axes(s->g, x->attr), .dtype = in};
    p.dim = node_dims(s->g, x->src[0], &p.rank);
    uint32_t longer = 0;
    for (int d = 0; d < p.rank; d++) longer |= (uint32_t)(p.dim[d] != SYM_ONE) << d;
    for (int k = 0; k < 2; k++) {
        save_find_view(s, x->src[k], false, &p.f[k].of);
        p.f[k].axes = save_view_axes(&p.f[k].of);
    }
    val v;
    if (x->sources == 3 || (p.reduced & longer & ~(p.f[0].axes | p.f[1].axes))) {
        v = product_of_all(s, x, of, in);
    } else {
        for (int k = 0; k < 2; k++) p.f[k].v = save_cast(s, save_view_value(s, &p.f[k].of), of, in);
        v = product_of_matrices(s, &p);
    }
    save_done(s, save_cast(s, v, in, of));
}

/* ---- running results ------------------------------------------------------------------------- */

/* What two neighbours make, x being the earlier one; of AFFINE the first part. */
static const char *const combine[MONOID_COUNT] = {
    [MONOID_SUM] = "Add(x,y)",
    [MONOID_PROD] = "Mul(x,y)",
    [MONOID_MAX] = "Max(x,y)",
    [MONOID_MIN] = "Min(x,y)",
    [MONOID_AND] = "BitwiseAnd(x,y)",
    [MONOID_OR] = "BitwiseOr(x,y)",
    [MONOID_LOGSUMEXP] =
        "Where(Equal(x,y),Add(x,0.69314718055994531),Add(Max(x,y),Softplus(Neg(Abs(Sub(x,y))))))",
    [MONOID_AFFINE] = "Mul(x,y)",
};

static val part_of(saving *s, val x, int axis, int64_t from, int64_t to) {
    const int64_t a = axis;
    const val in[4] = {x, save_ints(s, 1, &from), save_ints(s, 1, &to), save_ints(s, 1, &a)};
    return spell(s, QN_I64, 4, in, "Slice(x,y,z,u)");
}

typedef struct running {
    int monoid, axis;
    bool reverse;
    int64_t n;
    qn_dtype in;
} running;

/* What is made of all but the first places, behind these; in the order of the running. */
static val behind(saving *s, const running *r, val first, val made) {
    const val in[2] = {r->reverse ? made : first, r->reverse ? first : made};
    return spell(s, r->in, 2, in, "Concat[axis=%d](x,y)", r->axis);
}

/* The places of x that come before others by so many, those others, and the first ones. */
typedef struct places {
    val before, after, first;
} places;
static places apart(saving *s, const running *r, val x, int64_t by) {
    val low = part_of(s, x, r->axis, 0, r->n - by), high = part_of(s, x, r->axis, by, r->n);
    if (!r->reverse) return (places){low, high, part_of(s, x, r->axis, 0, by)};
    return (places){high, low, part_of(s, x, r->axis, r->n - by, r->n)};
}

/* One step: of v, and of a second part in w, 0 where there is none. */
static void take_in(saving *s, const running *r, int64_t by, val *v, val *w) {
    places a = apart(s, r, *v, by);
    if (*w) {
        places b = apart(s, r, *w, by);
        const val in[3] = {a.after, b.before, b.after};
        *w = behind(s, r, b.first, spell(s, r->in, 3, in, "Add(Mul(x,y),z)"));
    }
    const val in[2] = {a.before, a.after};
    *v = behind(s, r, a.first, spell(s, r->in, 2, in, "%s", combine[r->monoid]));
}

void save_scan(saving *s, const graph_node *x) {
    scan_attr a = node_scan(s->g, x);
    int rank;
    const int64_t *dim = graph_tuple_get(s->g, x->shape, &rank), axis = a.axis;
    qn_dtype of = (qn_dtype)x->dtype, in = save_wide(s, save_rows[OP_SCAN].types, of);
    if (of == QN_U64 && (a.monoid == MONOID_MAX || a.monoid == MONOID_MIN)) in = of;
    val v = save_cast(s, full_of(s, x->src[0]), of, in), w = 0;
    if (x->sources == 2) w = save_cast(s, full_of(s, x->src[1]), of, in);
    if (a.monoid == MONOID_SUM) {
        v = spell(s, in, 2, (val[]){v, save_ints(s, 1, &axis)}, "CumSum[reverse=%d](x,y)",
                  a.reverse);
    } else {
        running r = {a.monoid, a.axis, a.reverse, save_fixed(s, dim[axis]), in};
        if (!combine[a.monoid]) save_none(s, x);
        for (int64_t by = 1; by < r.n; by *= 2) take_in(s, &r, by, &v, &w);
    }
    save_done(s, save_cast(s, w ? w : v, in, of));
}
