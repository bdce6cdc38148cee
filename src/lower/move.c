/* move.c - movements and computed indices, as lowering meets them: the index that is asked for
 * becomes an index of the source. Nothing is copied. */
#include "lower/request.h"

/* ---- movement -------------------------------------------------------------------------------- */

static expr_id zero(lower *l, qn_dtype d) {
    return ir_const_bits(l->k, d, 0);
}

static expr_id truth(lower *l, sym p) {
    return ir_op2(l->k, OP_NE, ir_index(l->k, p), ir_const_i(l->k, QN_I64, 0));
}

/* A choice by place. A piece that is off here is not computed, nor loaded. */
expr_id lower_join(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    const int axis = node_join_axis(l->g, x);
    sym dim[QN_MAX_RANK], before = SYM_ZERO;
    expr_id value[3] = {0}, v = 0;
    sym ends[3] = {SYM_ZERO};
    for (int i = 0; i < x->sources; i++) {
        at src = *p;
        lower_node_shape(l, x->src[i], dim);
        src.index[axis] = sym_sub(s, p->index[axis], before);
        before = ends[i] = sym_add(s, before, dim[axis]);
        sym here = sym_and(s, sym_ge0(s, src.index[axis]), sym_lt(s, src.index[axis], dim[axis]));
        src.valid = sym_and(s, p->valid, here);
        if (dim[axis] == SYM_ONE) src.index[axis] = SYM_ZERO;
        if (src.valid != SYM_FALSE) value[i] = lower_request(l, x->src[i], &src);
    }
    for (int i = x->sources; i-- > 0;) {
        if (!value[i]) continue;
        sym in_front = sym_lt(s, p->index[axis], ends[i]);
        v = v && in_front != SYM_TRUE ? ir_op3(l->k, OP_WHERE, truth(l, in_front), value[i], v)
                                      : value[i];
    }
    return v ? v : ir_const_bits(l->k, x->dtype, 0);
}

/* The source where `cond` holds, which src.valid implies, too, else zero. */
static expr_id inside_or_zero(lower *l, const graph_node *x, const at *src, sym cond) {
    if (src->valid == SYM_FALSE) return zero(l, x->dtype);
    expr_id v = lower_operand(l, x, 0, src);
    const ir_expr *e = ir_e(l->k, v);
    if (cond == SYM_TRUE) return v;
    if (e->kind == EXPR_LOAD && sym_and(l->k->syms, e->load.valid, src->valid) == e->load.valid)
        return v;
    return ir_op3(l->k, OP_WHERE, truth(l, cond), v, zero(l, x->dtype));
}

/* Padding: inside the source's extent the source, else zero. A load does that by its mask. */
static expr_id pad(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    sym dim[QN_MAX_RANK];
    int n, rank = lower_node_shape(l, x->src[0], dim);
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n);
    sym cond = SYM_TRUE;
    at src = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        sym lo = lower_offset_along(l, x, i, attr[3 * i]);
        int64_t step = attr[3 * i + 2] + 1;
        sym j = sym_sub(s, p->index[i], lo), q = j;
        if (step > 1) {
            sym by = sym_const(s, step);
            q = sym_div(s, j, by);
            cond = sym_and(s, cond, sym_eq(s, sym_mod(s, j, by), SYM_ZERO));
        }
        cond = sym_and(s, cond, sym_ge0(s, q));
        cond = sym_and(s, cond, sym_lt(s, q, dim[i]));
        src.index[i] = q;
    }
    src.valid = sym_and(s, p->valid, cond);
    return inside_or_zero(l, x, &src, cond);
}

/* A window, likewise: the index along its axis is a sum of two. */
static expr_id window(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    window_attr w = node_window(l->g, x);
    sym dim[QN_MAX_RANK];
    at src = *p;
    lower_node_shape(l, x->src[0], dim);
    sym to =
        sym_add(s, sym_scale(s, p->index[w.axis], w.stride), sym_scale(s, p->index[w.by], w.slope));
    to = sym_add(s, to, lower_dim(l, w.start));
    src.index[w.axis] = to;
    if (dim[w.by] == SYM_ONE) src.index[w.by] = SYM_ZERO;
    sym cond = sym_and(s, sym_ge0(s, to), sym_lt(s, to, dim[w.axis]));
    src.valid = sym_and(s, p->valid, cond);
    return inside_or_zero(l, x, &src, cond);
}

typedef struct axes {
    int rank;
    const sym *size;
} axes;

/* Reshape by groups of axes of equal size, so that an unchanged axis keeps its index: a division of
 * an index beyond its padded edge would never simplify. */
static void reshape(lower *l, const axes *from, const sym *index, const axes *to, sym *out) {
    sym_store *s = l->k->syms;
    int rf = from->rank, rt = to->rank;
    for (int i = 0, j = 0; i < rf || j < rt;) {
        int i0 = i, j0 = j;
        sym a = SYM_ONE, b = SYM_ONE;
        if (i < rf) a = from->size[i++];
        if (j < rt) b = to->size[j++];
        while (a != b && (i < rf || j < rt)) {
            bool grow_a = j >= rt || (i < rf && sym_hi(s, a) <= sym_hi(s, b));
            if (grow_a)
                a = sym_mul(s, a, from->size[i++]);
            else
                b = sym_mul(s, b, to->size[j++]);
        }
        if (a != b) { /* sizes that are equal but not provably so: all at once */
            lower_unflatten(l, lower_flatten(l, rf, from->size, index), rt, to->size, out);
            return;
        }
        while (i0 < i && from->size[i0] == SYM_ONE) i0++;
        while (j0 < j && to->size[j0] == SYM_ONE) out[j0++] = SYM_ZERO;
        sym flat = lower_flatten(l, i - i0, from->size + i0, index + i0);
        lower_unflatten(l, flat, j - j0, to->size + j0, out + j0);
    }
}

/* The place in x's source of what is at p. */
static void source_place(lower *l, const graph_node *x, const at *p, at *src) {
    sym_store *s = l->k->syms;
    sym dim[QN_MAX_RANK], from[QN_MAX_RANK];
    int n, rank = lower_node_shape(l, x->src[0], dim);
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n);
    *src = (at){.rank = rank, .valid = p->valid};
    switch (x->op) {
    case OP_RESHAPE:
        n = lower_shape(l, x->shape, from);
        reshape(l, &(axes){n, from}, p->index, &(axes){rank, dim}, src->index);
        break;
    case OP_PERMUTE:
        for (int i = 0; i < rank; i++) src->index[attr[i]] = p->index[i];
        break;
    case OP_EXPAND:
        for (int i = 0; i < rank; i++) src->index[i] = dim[i] == SYM_ONE ? SYM_ZERO : p->index[i];
        break;
    case OP_SLICE:
        for (int i = 0; i < rank; i++)
            src->index[i] = sym_add(s, lower_offset_along(l, x, i, attr[3 * i]),
                                    sym_scale(s, p->index[i], attr[3 * i + 2]));
        break;
    default: /* FLIP, or a mark */
        for (int i = 0; i < rank; i++) src->index[i] = p->index[i];
        for (int i = 0; x->op == OP_FLIP && i < n; i++) {
            sym last = sym_sub(s, dim[attr[i]], SYM_ONE);
            src->index[attr[i]] = sym_sub(s, last, p->index[attr[i]]);
        }
    }
}

static expr_id move(lower *l, const graph_node *x, const at *p) {
    sym dim[QN_MAX_RANK];
    at src = {.valid = p->valid};
    if (l->fk->flat) { /* equal sizes in row-major order, or a scalar repeated */
        src.rank = lower_numel(l, lower_node_shape(l, x->src[0], dim), dim) == SYM_ONE ? 0 : 1;
        src.index[0] = p->index[0];
    } else {
        source_place(l, x, p, &src);
    }
    return lower_operand(l, x, 0, &src);
}

expr_id lower_move(lower *l, const graph_node *x, const at *p) {
    return x->op == OP_PAD ? pad(l, x, p) : x->op == OP_WINDOW ? window(l, x, p) : move(l, x, p);
}

/* ---- computed indices ------------------------------------------------------------------------ */

/* The computed part of an address: index * stride, and whether the index is in [0, size). */
void lower_computed(lower *l, expr_id index, sym stride, sym size, expr_id *dyn,
                    expr_id *in_range) {
    expr_id i = ir_cast(l->k, QN_I64, index);
    expr_id low = ir_op2(l->k, OP_LE, ir_const_i(l->k, QN_I64, 0), i);
    expr_id high = ir_op2(l->k, OP_LT, i, ir_index(l->k, size));
    *in_range = ir_op2(l->k, OP_AND, low, high);
    *dyn = stride == SYM_ONE ? i : ir_op2(l->k, OP_MUL, i, ir_index(l->k, stride));
}

/* What is stored behind marks and reshapes, whose elements lie as n's do; 0: nothing is. */
static node_id stored_in_order(const lower *l, node_id n) {
    const graph_node *x = node_at(l->g, n);
    while (!fuse_is_stored(l->f, n)) {
        if (!op_is_view_mark(x->op) && x->op != OP_RESHAPE) return 0;
        x = node_at(l->g, n = x->src[0]);
    }
    return n;
}

/* What is gathered from may be a view of memory (use.c): then what the index is multiplied with is
 * how far its places 0 and 1 lie apart. */
expr_id lower_gather(lower *l, const graph_node *x, const at *p) {
    int n;
    int axis = (int)graph_tuple_get(l->g, x->attr, &n)[0];
    sym dim[QN_MAX_RANK];
    node_id from = x->src[0], memory;
    lower_node_shape(l, from, dim);
    const sym size = dim[axis];
    at place[2] = {*p, *p}, behind;
    for (int i = 0; i < 2; i++) place[i].index[axis] = i ? SYM_ONE : SYM_ZERO;
    while (!(memory = stored_in_order(l, from))) {
        const graph_node *view = node_at(l->g, from);
        for (int i = 0; i < 2; i++) {
            source_place(l, view, &place[i], &behind);
            place[i] = behind;
        }
        from = view->src[0];
    }
    int rank = lower_node_shape(l, from, dim);
    const sym first = lower_flatten(l, rank, dim, place[0].index),
              next = lower_flatten(l, rank, dim, place[1].index);
    expr_id dyn, in_range, index = lower_request(l, x->src[1], p);
    lower_computed(l, index, sym_sub(l->k->syms, next, first), size, &dyn, &in_range);
    return ir_load(l->k, lower_argument(l, memory, ACCESS_READ), first, p->valid, dyn, in_range);
}
