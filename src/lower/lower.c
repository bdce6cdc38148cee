/* lower.c - from a fused region of the graph to an unscheduled loop tree.
 *
 * The root's axes become loops; then the root's value at the loop variables is requested. A request
 * (node, index vector) gives an expression: elementwise nodes pass it on, movement nodes rewrite
 * the index, stored nodes load. A reduction becomes statements: a register accumulator, its loops,
 * an update; they are placed at the deepest loop its index depends on, before the loop the request
 * comes from, and the request's result is a load of the accumulator. So softmax comes out as one
 * outer loop with three inner ones without a rule for softmax. A further output of the kernel is
 * stored the same way: at the deepest loop its index depends on.
 *
 * Requests are memoized by (node, index vector, validity), so one reduction is computed once per
 * index. `valid` is passed down from padding: where it is false the value is not used, but loads
 * must not touch memory; it is dropped as soon as the index is provably in bounds.
 *
 * Invariant: path[0..depth) are the loops open at this point, each the parent of the next; path[0]
 * is the tree's root. */
#include "lower/request.h"

/* ---- pieces --------------------------------------------------------------------------------- */

/* The kernel's root as a piece of something larger: as much of that one's memory as lies between
 * the piece's first and last element. Large ones that begin on a cache line are like any other
 * output, which may go past the caches. */
static mem_id piece_argument(lower *l) {
    const fuse_piece *p = &l->fk->piece;
    sym_store *s = l->k->syms;
    sym own[QN_MAX_RANK], all[QN_MAX_RANK], last = SYM_ZERO, base = fuse_piece_base(l->g, p);
    int rank = lower_node_shape(l, l->fk->root, own);
    lower_node_shape(l, p->into, all);
    for (int i = 0; i < rank; i++)
        last = sym_add(s, sym_mul(s, last, all[i]), sym_sub(s, own[i], SYM_ONE));
    sym size = l->fk->flat ? l->length : sym_add(s, last, SYM_ONE);
    int64_t first, width = (int64_t)qn_dtype_size(node_at(l->g, p->into)->dtype);
    bool aligned = sym_is_const(l->g->syms, base, &first) && first % (64 / width) == 0;
    bool large = sym_lo(s, size) >= LOWER_LARGE;
    return lower_new_argument(l, p->into, size,
                              ACCESS_WRITE | (aligned && large ? 0 : ACCESS_PIECE), base);
}

static sym piece_offset(lower *l, const at *p) {
    sym all[QN_MAX_RANK];
    if (l->fk->flat) return p->rank ? p->index[0] : SYM_ZERO;
    int rank = lower_node_shape(l, l->fk->piece.into, all);
    return lower_flatten(l, rank, all, p->index);
}

/* ---- borders --------------------------------------------------------------------------------- */

/* Where a PAD puts its source. */
static int border_starts(lower *l, const graph_node *pad, sym *start) {
    int n;
    const int64_t *attr = graph_tuple_get(l->g, pad->attr, &n);
    for (int i = 0; i < n / 3; i++) start[i] = lower_offset_along(l, pad, i, attr[3 * i]);
    return n / 3;
}

/* The offset of what the kernel computes at p, in the PAD that it stores it into. */
static sym inner_offset(lower *l, const at *p) {
    sym all[QN_MAX_RANK], index[QN_MAX_RANK];
    int rank = border_starts(l, node_at(l->g, l->fk->piece.into), index);
    for (int i = 0; i < rank; i++) index[i] = sym_add(l->k->syms, index[i], p->index[i]);
    lower_node_shape(l, l->fk->piece.into, all);
    return lower_flatten(l, rank, all, index);
}

/* Zeros in a box: from start on, as far as extent, along each axis. */
static void store_zeros(lower *l, mem_id m, int rank, const sym *start, const sym *extent) {
    sym index[QN_MAX_RANK], all[QN_MAX_RANK];
    lower_node_shape(l, l->fk->piece.into, all);
    l->depth = 1;
    for (int i = 0; i < rank; i++) {
        index[i] = start[i];
        if (extent[i] == SYM_ONE) continue;
        sym var = ir_s(l->k, lower_open_loop(l, "b", (int)l->loops++, extent[i]))->l.var;
        index[i] = sym_add(l->k->syms, start[i], var);
    }
    expr_id zero = ir_const_bits(l->k, ir_m(l->k, m)->dtype, 0);
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET,
             (ir_place){m, lower_flatten(l, rank, all, index), SYM_TRUE}, zero);
}

/* What is around the source: before and behind it along each axis, within its extent along the
 * axes in front of that one, along all of those behind. It is an argument of its own, of the same
 * memory, so that nothing has to be proved for both to be stored at once. */
static void store_border(lower *l) {
    const graph_node *pad = node_at(l->g, l->fk->piece.into);
    sym_store *s = l->k->syms;
    sym start[QN_MAX_RANK], own[QN_MAX_RANK], all[QN_MAX_RANK];
    int rank = border_starts(l, pad, start);
    lower_node_shape(l, pad->src[0], own);
    lower_node_shape(l, l->fk->piece.into, all);
    mem_id m = lower_new_argument(l, l->fk->piece.into, lower_numel(l, rank, all),
                                  ACCESS_WRITE | ACCESS_PIECE, SYM_ZERO);
    for (int axis = 0; axis < rank; axis++)
        for (int side = 0; side < 2; side++) {
            sym from[QN_MAX_RANK], extent[QN_MAX_RANK], end = sym_add(s, start[axis], own[axis]);
            for (int i = 0; i < rank; i++) {
                from[i] = i < axis ? start[i] : SYM_ZERO;
                extent[i] = i < axis ? own[i] : all[i];
            }
            from[axis] = side ? end : SYM_ZERO;
            extent[axis] = side ? sym_sub(s, all[axis], end) : start[axis];
            if (extent[axis] != SYM_ZERO) store_zeros(l, m, rank, from, extent);
        }
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* The kernel of a scatter: copy x, then combine src into it, one after the other. */
static void scatter(lower *l, node_id root) {
    const graph_node *x = node_at(l->g, root);
    int n;
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n);
    int axis = (int)attr[0];
    sym dim[QN_MAX_RANK], loop[QN_MAX_RANK];
    int rank = lower_node_shape(l, root, dim);
    mem_id m = lower_argument(l, root, ACCESS_WRITE | ACCESS_READ);
    at p = {.rank = rank, .valid = SYM_TRUE};
    for (int i = 0; i < rank; i++)
        p.index[i] =
            dim[i] == SYM_ONE ? SYM_ZERO : ir_s(l->k, lower_open_loop(l, "i", i, dim[i]))->l.var;
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET,
             (ir_place){m, lower_flatten(l, rank, dim, p.index), SYM_TRUE},
             lower_operand(l, x, 0, &p));
    l->depth = 1;
    lower_node_shape(l, x->src[1], loop);
    for (int i = 0; i < rank; i++)
        p.index[i] =
            loop[i] == SYM_ONE ? SYM_ZERO : ir_s(l->k, lower_open_loop(l, "s", i, loop[i]))->l.var;
    ir_stmt st = {.kind = STMT_STORE, .monoid = (uint8_t)attr[1], .n = 1};
    expr_id index = lower_request(l, x->src[1], &p);
    st.store.value[0] = lower_operand(l, x, 2, &p);
    lower_computed(l, index, lower_numel(l, rank - axis - 1, dim + axis + 1), dim[axis],
                   &st.store.dyn, &st.store.guard);
    p.index[axis] = SYM_ZERO;
    st.store.mem[0] = m;
    st.store.valid = SYM_TRUE;
    st.store.index = lower_flatten(l, rank, dim, p.index);
    ir_store_n(l->k, l->path[l->depth - 1], &st);
}

/* ---- a kernel -------------------------------------------------------------------------------- */

static void root_loops(lower *l, at *p) {
    sym dim[QN_MAX_RANK];
    const fuse_kernel *fk = l->fk;
    p->valid = SYM_TRUE;
    if (fk->flat) {
        int64_t size;
        bool large = sym_is_const(l->k->syms,
                                  lower_numel(l, lower_node_shape(l, fk->root, dim), dim), &size) &&
                     size >= LOWER_LARGE;
        sym n = lower_variable(l, "n", large ? LOWER_LARGE : 0, (int64_t)1 << 40, LOWER_LENGTH);
        l->length = n;
        p->rank = 1;
        p->index[0] = ir_s(l->k, lower_open_loop(l, "i", 0, n))->l.var;
        return;
    }
    p->rank = lower_node_shape(l, fk->root, dim);
    sym_store *s = l->k->syms;
    for (int i = 0; i < p->rank; i++) p->index[i] = SYM_ZERO;
    for (uint32_t i = 0; i < fk->outers; i++) {
        const fuse_outer o = fk->outer[i];
        sym extent = o.extent ? sym_const(s, o.extent) : dim[o.axis];
        sym var = ir_s(l->k, lower_open_loop(l, "i", o.axis, extent))->l.var;
        p->index[o.axis] = sym_add(s, p->index[o.axis], sym_scale(s, var, o.step));
    }
    if (!fk->reversed) return;
    int a = fk->reversed - 1;
    p->index[a] = sym_sub(s, sym_sub(s, dim[a], SYM_ONE), p->index[a]);
}

/* Index of the root's axis number `which`, from 1, among those in the set. */
static sym index_of_axis(const at *root, uint32_t set, int which) {
    while (--which) set &= set - 1;
    return root->index[__builtin_ctz(set)];
}

/* Open the axes of a further root or of its operand: for each axis the root's index of the axis
 * that `shared` gives, from 1 and among those in the set, or a loop of its own; those of size 1
 * have none. */
static void open_own(lower *l, at *p, const uint8_t *shared, const at *root, uint32_t set,
                     const sym *dim) {
    p->valid = SYM_TRUE;
    for (int i = 0; i < p->rank; i++) {
        p->index[i] = SYM_ZERO;
        if (dim[i] == SYM_ONE) continue;
        p->index[i] = shared[i]
                          ? index_of_axis(root, set, shared[i])
                          : ir_s(l->k, lower_open_loop(l, "g", (int)l->loops++, dim[i]))->l.var;
    }
}

/* A further root of the kernel, under the loops that it shares with the first one. */
static void sibling(lower *l, fuse_axes x, const at *root) {
    sym dim[QN_MAX_RANK];
    uint8_t shared[QN_MAX_RANK] = {0};
    at p = {.rank = lower_node_shape(l, x.node, dim)};
    for (int i = 0, n = 0; i < p.rank; i++)
        if (x.axes >> i & 1) shared[i] = (uint8_t)++n;
    l->depth = 1;
    for (uint32_t i = 0; i < l->fk->outers; i++)
        if (l->fk->common >> l->fk->outer[i].axis & 1) l->depth++;
    if (l->fk->flat) l->depth = 2;
    if (l->fk->flat)
        p = *root;
    else
        open_own(l, &p, shared, root, l->fk->common, dim);
    mem_id m = lower_argument(l, x.node, ACCESS_WRITE);
    expr_id v = lower_compute(l, x.node, &p);
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET,
             (ir_place){m, lower_offset_of(l, x.node, &p), SYM_TRUE}, v);
}

/* A further root that sums over the rows: its terms inside each row, behind the rows its epilogue;
 * the partial sums are kept in a tile in the loops around. */
static void share(lower *l, uint32_t number, const at *root) {
    const fuse_share *x = &l->fk->share[number];
    const graph_node *sum = node_at(l->g, x->sum);
    int around = __builtin_popcount(l->fk->rows); /* of the path: the root and all rows but one */
    sym dim[QN_MAX_RANK], size = SYM_ONE;
    at p = {.rank = lower_node_shape(l, sum->src[0], dim)};
    for (int i = 0; i < p.rank; i++)
        if (!x->row[i]) size = sym_mul(l->k->syms, size, dim[i]);
    state t = lower_open_state(l, MONOID_SUM, node_at(l->g, sum->src[0])->dtype, around);
    ir_memory *wide = ir_m(l->k, t.tile[0]);
    wide->size = size;
    wide->scope = MEM_LOCAL;
    l->depth = around + 1;
    open_own(l, &p, x->row, root, l->fk->rows, dim);
    sym valid, place_ = lower_own_place(l, x, p.rank, dim, p.index);
    expr_id value = lower_term(l, sum, &t, &p, &valid);
    ir_store(l->k, l->path[l->depth - 1], t.monoid, (ir_place){t.tile[0], place_, valid}, value);

    l->partial[number] = t.tile[0];
    l->depth = around;
    at q = {.rank = lower_node_shape(l, x->root, dim)};
    open_own(l, &q, x->root_row, root, l->fk->rows, dim);
    mem_id m = lower_argument(l, x->root, ACCESS_WRITE);
    value = x->root == x->sum ? lower_partial_sum(l, x->sum, &q) : lower_compute(l, x->root, &q);
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET,
             (ir_place){m, lower_offset_of(l, x->root, &q), SYM_TRUE}, value);
}

/* Each begins under the loops of the first root, whose places in the path another has used. */
static void further_roots(lower *l, const at *root) {
    stmt_id path[LOWER_MAX_PATH];
    memcpy(path, l->path, sizeof path);
    for (uint32_t i = 0; i < l->fk->siblings + l->fk->shares; i++) {
        memcpy(l->path, path, sizeof path);
        if (i < l->fk->siblings)
            sibling(l, l->fk->sibling[i], root);
        else
            share(l, i - l->fk->siblings, root);
    }
}

/* What a trace shows: the ops of the kernel, root last. */
static const char *name_kernel(lower *l) {
    str s;
    str_open_in(&s, &l->k->arena);
    for (uint32_t i = l->fk->outs; i-- > 0 && s.len < 48;)
        str_addf(&s, "%s%s", s.len ? "." : "", op_rows[node_at(l->g, l->fk->out[i])->op].name);
    str_add(&s, l->fk->has_contraction ? ".contract" : l->fk->flat ? ".flat" : "");
    if (!l->fk->flat) shape_text(l->g, node_at(l->g, l->fk->root)->shape, &s);
    return s.s;
}

/* Where the root is stored. */
static mem_id root_argument(lower *l, const at *p, sym *offset) {
    const fuse_piece *piece = &l->fk->piece;
    mem_id m = piece->bordered ? lower_argument(l, piece->into, ACCESS_WRITE | ACCESS_PIECE)
               : piece->into   ? piece_argument(l)
                               : lower_argument(l, l->fk->root, ACCESS_WRITE);
    *offset = piece->bordered ? inner_offset(l, p)
              : piece->into   ? piece_offset(l, p)
                              : lower_offset_of(l, l->fk->root, p);
    return m;
}

/* The root at p, column by column where its last axis has no loop. */
static void store_root(lower *l, at *p) {
    int columns = l->fk->columns ? l->fk->columns : 1;
    for (int i = 0; i < columns; i++) {
        sym offset;
        if (l->fk->columns) p->index[p->rank - 1] = sym_const(l->k->syms, i);
        mem_id m = root_argument(l, p, &offset);
        expr_id v = lower_request(l, l->fk->root, p);
        ir_store(l->k, l->path[l->depth - 1], MONOID_SET, (ir_place){m, offset, SYM_TRUE}, v);
    }
}

void lower_kernel(qn_ctx *qn, const fusion *f, const fuse_kernel *fk, lowered *out) {
    *out = (lowered){0};
    kernel *k = out->k = ir_open(qn);
    lower *l = arena_zeroed(&k->arena, sizeof *l);
    *l = (lower){.qn = qn, .g = f->g, .f = f, .fk = fk, .k = k, .out = out};
    l->partial = arena_zeroed(&k->arena, (fk->shares + 1) * sizeof *l->partial);
    idset_open(&l->known_set, &qn->heap);
    l->path[l->depth++] = k->root;
    cleanup c;
    cleanup_push(&qn->heap, &c, idset_cleanup, &l->known_set);
    if (node_at(f->g, fk->root)->op == OP_SCATTER && !fk->piece.into) {
        scatter(l, fk->root);
    } else {
        at p;
        root_loops(l, &p);
        store_root(l, &p);
        further_roots(l, &p);
        if (fk->piece.bordered) store_border(l);
        if (!fk->has_contraction) fuse_reductions(k);
        seed_sums(k);
        inplace_order_stores(k);
    }
    k->name = name_kernel(l);
    if (sym_overflowed(k->syms))
        raise_error(qn, QN_ERANGE, "index arithmetic beyond 63 bits in %s", k->name);
    cleanup_run(&qn->heap, &c);
}
