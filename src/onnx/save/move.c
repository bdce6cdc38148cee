/* move.c - movements, joins, and what is moved by computed indices.
 *
 * WINDOW has no operator of its own: both of its axes become one, from which a table of places
 * gathers; what is outside is a zero behind the end. GATHER and SCATTER take indices that may be
 * outside, which ONNX forbids: those read place 0, and the result is replaced by 0, or write behind
 * the end, which is cut off. */
#include "onnx/save/save.h"

static const int64_t *attr_of(const saving *s, const graph_node *x) {
    int n;
    return graph_tuple_get(s->g, x->attr, &n);
}

/* A source in the dtype that the row moves it in, and the result back in its own. */
static val moved_from(saving *s, const graph_node *x, int i) {
    qn_dtype dtype = (qn_dtype)x->dtype;
    return save_cast(s, full_of(s, x->src[i]), dtype, save_wide(s, save_rows[x->op].types, dtype));
}

static void moved(saving *s, const graph_node *x, val v) {
    qn_dtype dtype = (qn_dtype)x->dtype;
    save_done(s, save_cast(s, v, save_wide(s, save_rows[x->op].types, dtype), dtype));
}

static val save_slice(saving *s, val x, int rank, const int64_t *was, const int64_t *p) {
    int64_t start[QN_MAX_RANK], end[QN_MAX_RANK], axis[QN_MAX_RANK], step[QN_MAX_RANK];
    sym_store *y = s->g->syms;
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (p[3 * d] == SYM_ZERO && p[3 * d + 1] == was[d] && p[3 * d + 2] == 1) continue;
        start[n] = p[3 * d];
        end[n] = sym_add(y, (sym)start[n], sym_scale(y, (sym)p[3 * d + 1], p[3 * d + 2]));
        step[n] = p[3 * d + 2];
        axis[n++] = d;
    }
    if (!n) return x;
    const val in[5] = {x, save_sizes(s, n, start), save_sizes(s, n, end), save_ints(s, n, axis),
                       save_ints(s, n, step)};
    return spell(s, QN_I64, 5, in, "Slice(x,y,z,u,v)");
}

static val save_flip(saving *s, val x, const graph_node *node) {
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK], step[QN_MAX_RANK];
    int n;
    const int64_t *axes = graph_tuple_get(s->g, node->attr, &n);
    for (int i = 0; i < n; i++) from[i] = step[i] = -1, to[i] = INT64_MIN;
    const val in[5] = {x, save_ints(s, n, from), save_ints(s, n, to), save_ints(s, n, axes),
                       save_ints(s, n, step)};
    return spell(s, QN_I64, 5, in, "Slice(x,y,z,u,v)");
}

void save_move(saving *s, const graph_node *x) {
    int rank, from;
    const int64_t *dim = graph_tuple_get(s->g, x->shape, &rank), *p = attr_of(s, x);
    const int64_t *was = node_dims(s->g, x->src[0], &from);
    val v = moved_from(s, x, 0);
    if (x->op == OP_PERMUTE) {
        int axes[QN_MAX_RANK];
        for (int d = 0; d < rank; d++) axes[d] = (int)p[d];
        v = save_permute(s, v, rank, axes);
    } else {
        v = x->op == OP_RESHAPE ? save_reshape(s, v, rank, dim)
            : x->op == OP_SLICE ? save_slice(s, v, rank, was, p)
                                : save_flip(s, v, x);
    }
    moved(s, x, v);
}

void save_expand(saving *s, const graph_node *x) {
    save_done(s, slim_of(s, x->src[0]));
}

void save_join(saving *s, const graph_node *x) {
    val v[3];
    for (int i = 0; i < x->sources; i++) v[i] = moved_from(s, x, i);
    moved(s, x,
          spell(s, QN_I64, x->sources, v, "Concat[axis=%d](%s)", (int)attr_of(s, x)[0],
                x->sources == 2 ? "x,y" : "x,y,z"));
}

/* ---- zeros around and between ---------------------------------------------------------------- */

/* `lo` and `hi` by axis, as sizes, which may be negative. */
static val pad_by(saving *s, val x, int rank, const int64_t *lo, const int64_t *hi) {
    int64_t pads[2 * QN_MAX_RANK];
    bool none = true;
    for (int d = 0; d < rank; d++) {
        pads[d] = lo[d];
        pads[rank + d] = hi[d];
        none &= lo[d] == SYM_ZERO && hi[d] == SYM_ZERO;
    }
    if (none) return x;
    return spell(s, QN_I64, 2, (val[]){x, save_sizes(s, 2 * rank, pads)}, "Pad(x,y)");
}

/* Zeros behind each element along an axis: as an axis of their own, which is then part of it. */
static val spread(saving *s, val x, int rank, int axis, int64_t *dim, int64_t between) {
    sym_store *y = s->g->syms;
    int64_t shape[QN_MAX_RANK + 1], lo[QN_MAX_RANK + 1], hi[QN_MAX_RANK + 1];
    if (rank == QN_MAX_RANK) save_refuse(s, QN_EGRAPH, "zeros between %d axes' elements", rank);
    for (int d = 0; d <= rank; d++) {
        shape[d] = d <= axis ? dim[d] : d == axis + 1 ? SYM_ONE : dim[d - 1];
        lo[d] = hi[d] = SYM_ZERO;
    }
    hi[axis + 1] = sym_const(y, between);
    x = pad_by(s, save_reshape(s, x, rank + 1, shape), rank + 1, lo, hi);
    dim[axis] = sym_scale(y, (sym)dim[axis], between + 1);
    return save_reshape(s, x, rank, dim);
}

void save_pad(saving *s, const graph_node *x) {
    int rank;
    sym_store *y = s->g->syms;
    const int64_t *was = node_dims(s->g, x->src[0], &rank), *p = attr_of(s, x);
    int64_t dim[QN_MAX_RANK], lo[QN_MAX_RANK], hi[QN_MAX_RANK];
    val v = moved_from(s, x, 0);
    for (int d = 0; d < rank; d++) dim[d] = was[d];
    for (int d = 0; d < rank; d++) {
        int64_t between = p[3 * d + 2];
        lo[d] = p[3 * d];
        hi[d] = p[3 * d + 1];
        if (between == 0 || was[d] == SYM_ONE || was[d] == SYM_ZERO) continue;
        v = spread(s, v, rank, d, dim, between);
        sym behind = sym_min(y, sym_const(y, between), (sym)dim[d]); /* those of the last one */
        hi[d] = sym_sub(y, (sym)hi[d], behind);
    }
    moved(s, x, pad_by(s, v, rank, lo, hi));
}

/* ---- windows --------------------------------------------------------------------------------- */

enum { TABLE_MOST = 1 << 24 };

/* The flat places that windows see, `n` for what is outside. NULL: sizes vary. */
static int64_t *window_places(saving *s, const window_attr *w, sym n, bool repeats, int64_t *cut) {
    int64_t start, size, length, from, most = 0;
    if (!save_number(s, w->start, &start) || !save_number(s, w->size, &size) ||
        !save_number(s, w->length, &length) || !save_number(s, n, &from))
        return NULL;
    if (sat_mul(size, length) > TABLE_MOST)
        save_refuse(s, QN_ERANGE, "windows of %lld by %lld places", (long long)size,
                    (long long)length);
    int64_t *at = arena_alloc(&s->a, ((size_t)(size * length) + 1) * sizeof *at);
    int64_t row = repeats ? 1 : length, end = from * row;
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < length; j++) {
            int64_t k = sat_add(start, sat_add(sat_mul(w->stride, i), sat_mul(w->slope, j)));
            bool inside = k >= 0 && k < from;
            at[i * length + j] = inside ? k * row + (repeats ? 0 : j) : end;
            if (at[i * length + j] == end) most = 1;
        }
    *cut = most;
    return at;
}

/* The same computed in the model. */
static val window_table(saving *s, const window_attr *w, sym n, bool repeats) {
    const int64_t size[2] = {w->size, w->length}, column[2] = {w->size, SYM_ONE};
    const int64_t start = w->start, many = n;
    val none = save_ints(s, 0, NULL), row = save_sizes(s, 1, &size[1]);
    val i =
        spell(s, QN_I64, 2, (val[]){save_sizes(s, 1, &size[0]), none}, "Range(0,Reshape(x,y),1)");
    val j = spell(s, QN_I64, 2, (val[]){row, none}, "Range(0,Reshape(x,y),1)");
    i = save_reshape(s, i, 2, column);
    val at =
        spell(s, QN_I64, 3, (val[]){i, j, save_sizes(s, 1, &start)},
              "Add(Add(Mul(x,%lld),Mul(y,%lld)),z)", (long long)w->stride, (long long)w->slope);
    const val in[4] = {at, save_sizes(s, 1, &many), row, j};
    return spell(s, QN_I64, 4, in,
                 repeats ? "Where(And(Less(-1,x),Less(x,y)),x,y)"
                         : "Where(And(Less(-1,x),Less(x,y)),Add(Mul(x,z),u),Mul(y,z))");
}

void save_window(saving *s, const graph_node *x) {
    window_attr w = node_window(s->g, x);
    int rank, n = 0, axes[QN_MAX_RANK], back[QN_MAX_RANK];
    const int64_t *dim = node_dims(s->g, x->src[0], &rank);
    int64_t shape[QN_MAX_RANK], lo[QN_MAX_RANK], hi[QN_MAX_RANK], outside = 1;
    bool repeats = dim[w.by] == SYM_ONE;
    for (int d = 0; d < rank; d++)
        if (d != w.axis && d != w.by) shape[n] = dim[d], axes[n++] = d;
    axes[n] = w.axis;
    axes[n + 1] = w.by;
    for (int d = 0; d < rank; d++) back[axes[d]] = d;
    shape[n] = sym_mul(s->g->syms, (sym)dim[w.axis], (sym)dim[w.by]);
    for (int d = 0; d <= n; d++) lo[d] = hi[d] = SYM_ZERO;
    hi[n] = SYM_ONE;
    val v = save_permute(s, moved_from(s, x, 0), rank, axes);
    v = save_reshape(s, v, n + 1, shape);
    int64_t size, length, *places = window_places(s, &w, (sym)dim[w.axis], repeats, &outside);
    bool fixed = places && save_number(s, w.size, &size) && save_number(s, w.length, &length);
    val table = fixed ? save_table(s, size, length, places)
                      : window_table(s, &w, (sym)dim[w.axis], repeats);
    if (outside) v = pad_by(s, v, n + 1, lo, hi);
    v = spell(s, QN_I64, 2, (val[]){v, table}, "Gather[axis=%d](x,y)", n);
    moved(s, x, save_permute(s, v, rank, back));
}

/* ---- computed indices ------------------------------------------------------------------------ */

/* Is it the same for all places but those along the axis? */
static bool is_list(const saving *s, node_id index, int axis) {
    int rank;
    const int64_t *dim = node_dims(s->g, index, &rank);
    const save_node *of = node_of(s, index);
    bool list = !of->scalar;
    for (int d = 0; d < rank; d++)
        list &= d == axis ? !(of->repeated >> d & 1) || dim[d] == SYM_ONE
                          : (of->repeated >> d & 1) || dim[d] == SYM_ONE;
    return list && rank > 0;
}

/* As i64; of u64 what is beyond is below 0, and so outside, too. */
static val index_of(saving *s, node_id index, bool list) {
    qn_dtype dtype = (qn_dtype)node_at(s->g, index)->dtype;
    return save_cast(s, list ? slim_of(s, index) : full_of(s, index), dtype, QN_I64);
}

void save_gather(saving *s, const graph_node *x) {
    int rank, axis = (int)attr_of(s, x)[0];
    const int64_t *dim = node_dims(s->g, x->src[0], &rank), size = dim[axis];
    qn_dtype in = save_wide(s, save_rows[OP_GATHER].types, (qn_dtype)x->dtype);
    bool list = is_list(s, x->src[1], axis);
    val i = index_of(s, x->src[1], list), from = moved_from(s, x, 0);
    int64_t n;
    if (save_number(s, size, &n) && n == 0) { /* nothing to read at all */
        const int64_t *to = graph_tuple_get(s->g, x->shape, &rank);
        const val nothing[2] = {save_scalar(s, in, 0), save_sizes(s, rank, to)};
        moved(s, x, spell(s, in, 2, nothing, "Expand(x,y)"));
        return;
    }
    const val in_axis[2] = {i, save_sizes(s, 1, &size)};
    val inside = spell(s, QN_I64, 2, in_axis, "And(Less(-1,x),Less(x,y))");
    val at = spell(s, QN_I64, 2, (val[]){inside, i}, "Where(x,y,0)"), v;
    if (list) {
        const int64_t along = node_dims(s->g, x->src[1], &rank)[axis];
        v = spell(s, QN_I64, 2, (val[]){from, save_reshape(s, at, 1, &along)},
                  "Gather[axis=%d](x,y)", axis);
    } else {
        v = spell(s, QN_I64, 2, (val[]){from, at}, "GatherElements[axis=%d](x,y)", axis);
    }
    moved(s, x, spell(s, in, 2, (val[]){inside, v}, "Where(x,y,0)"));
}

/* ONNX's name for what combines an update with what is there; of bools, as integers. */
static const char *reduction_of(const saving *s, int row, bool truth) {
    static const char *const name[MONOID_COUNT] = {
        [MONOID_SET] = "none", [MONOID_SUM] = "add", [MONOID_PROD] = "mul",
        [MONOID_MAX] = "max",  [MONOID_MIN] = "min",
    };
    const char *found = name[row];
    if (truth && row == MONOID_AND) found = "min";
    if (truth && row == MONOID_OR) found = "max";
    if (!found) save_refuse(s, QN_EGRAPH, "ONNX scatters by no %s", monoid_rows[row].name);
    return found;
}

void save_scatter(saving *s, const graph_node *x) {
    int rank, axis = (int)attr_of(s, x)[0];
    const int64_t *dim = graph_tuple_get(s->g, x->shape, &rank), size = dim[axis];
    int64_t lo[QN_MAX_RANK], hi[QN_MAX_RANK], slice[3 * QN_MAX_RANK], padded[QN_MAX_RANK];
    qn_dtype dtype = (qn_dtype)x->dtype, in = save_wide(s, save_rows[OP_SCATTER].types, dtype);
    const char *how = reduction_of(s, (int)attr_of(s, x)[1], dtype == QN_BOOL);
    for (int d = 0; d < rank; d++) {
        lo[d] = SYM_ZERO;
        hi[d] = d == axis ? SYM_ONE : SYM_ZERO;
        padded[d] = sym_add(s->g->syms, (sym)dim[d], (sym)hi[d]);
        slice[3 * d] = SYM_ZERO;
        slice[3 * d + 1] = dim[d];
        slice[3 * d + 2] = 1;
    }
    val to = pad_by(s, save_cast(s, full_of(s, x->src[0]), dtype, in), rank, lo, hi);
    val i = index_of(s, x->src[1], false);
    val at = spell(s, QN_I64, 2, (val[]){i, save_sizes(s, 1, &size)},
                   "Where(And(Less(-1,x),Less(x,y)),x,y)");
    val from = save_cast(s, full_of(s, x->src[2]), dtype, in);
    val v = spell(s, QN_I64, 3, (val[]){to, at, from},
                  "ScatterElements[axis=%d;reduction=%s](x,y,z)", axis, how);
    save_done(s, save_cast(s, save_slice(s, v, rank, padded, slice), in, dtype));
}
