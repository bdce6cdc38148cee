/* ref.c - the oracle: every primitive of graph/ops.h in plain loops, one node at a time.
 *
 * What the compiled devices compute is compared with what this file computes, so it shares nothing
 * with them: no index algebra, no loop trees, no fusion, no polynomials. Shapes are numbers, values
 * are computed in double (float sums of f64 in long double) or in 64-bit integers by the table's
 * own F and I columns, and rounded to the node's dtype once, when the node is stored.
 *
 * Two liberties keep it quick enough to train a small model on. A source is an array with element
 * strides, so that most movement ops are another view of the same memory (dev_view: expand is
 * stride 0, flip a negative one) and nothing is copied. And the axes of a SUM_PRODUCT fall into
 * four groups by which source they move: both (batch), one (rows), the other (columns), or reduced,
 * so that it is a product of matrices. Its products and sums stay in double.
 *
 * Every loop has the same shape: a walk yields the offsets of the next few elements in row-major
 * order of some axes, load and store convert chunks of them, and the op works on dense chunks. */
#include "dev/ref.h"

#include <math.h>

#include "graph/graph.h"

enum { CHUNK = 256, COLUMNS = 16 };

typedef struct ref_state {
    qn_ctx *ctx;
} ref_state;

/* ---- walking ------------------------------------------------------------------------------- */

/* The offsets of an array's elements in row-major order; neighbouring axes that lie one within the
 * other are walked as one. */
typedef struct walk {
    int rank;
    int64_t dim[QN_MAX_RANK], stride[QN_MAX_RANK], at[QN_MAX_RANK];
    int64_t offset;
} walk;

static walk walk_axes(int rank, const int64_t *dim, const int64_t *stride) {
    walk w = {.rank = 0};
    for (int d = 0; d < rank; d++) {
        int last = w.rank - 1;
        if (dim[d] == 1) continue;
        if (last >= 0 && w.stride[last] == stride[d] * dim[d]) {
            w.dim[last] *= dim[d];
            w.stride[last] = stride[d];
        } else {
            w.dim[w.rank] = dim[d];
            w.stride[w.rank++] = stride[d];
        }
    }
    if (!w.rank) w.dim[w.rank++] = 1;
    return w;
}

static walk walk_array(const dev_array *a) {
    return walk_axes(a->rank, a->dim, a->stride);
}

static void walk_next(walk *w, int64_t n, int64_t *offset) {
    int inner = w->rank - 1;
    int64_t stride = w->stride[inner];
    while (n > 0) {
        int64_t run = w->dim[inner] - w->at[inner];
        if (run > n) run = n;
        int64_t from = w->offset;
        for (int64_t i = 0; i < run; i++) offset[i] = from + i * stride;
        offset += run, n -= run;
        w->at[inner] += run, w->offset += run * stride;
        for (int d = inner; d > 0 && w->at[d] == w->dim[d]; d--) {
            w->offset += w->stride[d - 1] - w->stride[d] * w->dim[d];
            w->at[d] = 0, w->at[d - 1]++;
        }
    }
}

static int64_t array_count(const dev_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dim[d];
    return n;
}

void dev_dense(dev_array *a) {
    int64_t stride = 1;
    for (int d = a->rank - 1; d >= 0; d--) {
        a->stride[d] = stride;
        stride *= a->dim[d];
    }
}

static bool array_is_dense(const dev_array *a) {
    int64_t stride = 1;
    for (int d = a->rank - 1; d >= 0; d--) {
        if (a->dim[d] != 1 && a->stride[d] != stride) return false;
        stride *= a->dim[d];
    }
    return true;
}

static void *element_at(const dev_array *a, int64_t offset) {
    return (char *)a->data + offset * (int64_t)qn_dtype_size(a->dtype);
}

/* ---- load and store ------------------------------------------------------------------------ */

/* Values are scalars: floats as double, everything else sign- or zero-extended to 64 bits. */
void ref_load(qn_dtype dtype, const void *p, int64_t n, const int64_t *at, scalar *out) {
    switch ((int)dtype) {
#define LOAD_BOOL(C)                                                                               \
    for (int64_t i = 0; i < n; i++) out[i].i = (int64_t)((const C *)p)[at[i]];
#define LOAD_SIGNED   LOAD_BOOL
#define LOAD_UNSIGNED LOAD_BOOL
#define LOAD_FLOAT(C)                                                                              \
    for (int64_t i = 0; i < n; i++) out[i].f = (double)((const C *)p)[at[i]];
#define LOAD_NARROW(C)                                                                             \
    for (int64_t i = 0; i < n; i++) out[i].f = dtype_get_f(dtype, p, at[i]);
#define X(NAME, name, bits, KIND, rank, ACC, SUM, C, ...)                                          \
    case QN_##NAME:                                                                                \
        LOAD_##KIND(C);                                                                            \
        break;
#include "base/dtypes.h"
#undef X
    default:
        break;
    }
}

/* Rounds or wraps to the dtype; the elements lie next to each other from `at` on. */
void ref_store(const dev_array *a, int64_t at, int64_t n, const scalar *v) {
    switch ((int)a->dtype) {
#define STORE_BOOL(C)                                                                              \
    for (int64_t i = 0; i < n; i++) ((C *)a->data)[at + i] = (C)v[i].i;
#define STORE_SIGNED   STORE_BOOL
#define STORE_UNSIGNED STORE_BOOL
#define STORE_FLOAT(C)                                                                             \
    for (int64_t i = 0; i < n; i++) ((C *)a->data)[at + i] = (C)v[i].f;
#define STORE_NARROW(C)                                                                            \
    for (int64_t i = 0; i < n; i++) dtype_set_f(a->dtype, a->data, at + i, v[i].f);
#define X(NAME, name, bits, KIND, rank, ACC, SUM, C, ...)                                          \
    case QN_##NAME:                                                                                \
        STORE_##KIND(C);                                                                           \
        break;
#include "base/dtypes.h"
#undef X
    default:
        break;
    }
}

static void load_next(const dev_array *a, walk *w, int64_t n, scalar *out) {
    int64_t at[CHUNK];
    walk_next(w, n, at);
    ref_load(a->dtype, a->data, n, at, out);
}

static void copy_elements(size_t size, void *to, const int64_t *to_at, const void *from,
                          const int64_t *from_at, int64_t n) {
    switch (size) {
#define X(bytes, type)                                                                             \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < n; i++) ((type *)to)[to_at[i]] = ((const type *)from)[from_at[i]]; \
        break;
        X(1, uint8_t)
        X(2, uint16_t)
        X(4, uint32_t)
        X(8, uint64_t)
#undef X
    default:
        break;
    }
}

/* Both arrays have the same number of elements; they are matched in row-major order. */
static void copy_array(const dev_array *to, const dev_array *from) {
    int64_t left = array_count(from), to_at[CHUNK], from_at[CHUNK];
    walk w = walk_array(to), r = walk_array(from);
    for (int64_t n; left > 0; left -= n) {
        n = left < CHUNK ? left : CHUNK;
        walk_next(&w, n, to_at);
        walk_next(&r, n, from_at);
        copy_elements(qn_dtype_size(from->dtype), to->data, to_at, from->data, from_at, n);
    }
}

/* ---- leaves and elementwise ----------------------------------------------------------------- */

static void eval_const(const dev_node *node) {
    int64_t n = array_count(&node->out);
    scalar v[CHUNK];
    for (int i = 0; i < CHUNK; i++) v[i] = scalar_from_bits(node->dtype, node->bits);
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        ref_store(&node->out, done, m, v);
    }
}

static void eval_iota(const dev_node *node) {
    const dev_array *out = &node->out;
    int64_t n = array_count(out), unit[QN_MAX_RANK] = {0}, at[CHUNK];
    unit[node->attr[0]] = 1;
    walk w = walk_axes(out->rank, out->dim, unit);
    scalar v[CHUNK];
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        walk_next(&w, m, at);
        for (int64_t i = 0; i < m; i++) {
            if (dtype_is_float(node->dtype))
                v[i].f = dtype_from_i64(node->dtype, at[i]);
            else
                v[i].i = at[i];
        }
        ref_store(out, done, m, v);
    }
}

/* What a row means is scalar.c's; here it is applied chunk by chunk. */
static bool eval_elem(const dev_node *node) {
    int64_t n = array_count(&node->out);
    qn_dtype in = node->src[node->sources - 1].dtype;
    walk w[3];
    scalar x[3][CHUNK], v[CHUNK];
    for (int k = 0; k < node->sources; k++) w[k] = walk_array(&node->src[k]);
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        for (int k = 0; k < node->sources; k++) load_next(&node->src[k], &w[k], m, x[k]);
        if (!scalar_ops(node->op, node->dtype, in, m, (const scalar *const[]){x[0], x[1], x[2]}, v))
            return false;
        ref_store(&node->out, done, m, v);
    }
    return true;
}

/* ---- movement ------------------------------------------------------------------------------ */

/* Strides of the same elements under another shape; false where they need a copy. Walks both
 * shapes from the left in groups of equal products: a group works when its source axes lie one
 * within the other. */
static bool view_reshape(const dev_array *from, dev_array *to) {
    int f = 0, t = 0;
    if (array_is_dense(from) || !array_count(from)) return dev_dense(to), true;
    while (f < from->rank || t < to->rank) {
        int64_t have = 1, want = 1;
        int f0 = f, t0 = t, inner = -1;
        do {
            if (have <= want && f < from->rank)
                have *= from->dim[f++];
            else
                want *= to->dim[t++];
        } while (have != want);
        for (int d = f0, before = -1; d < f; d++) {
            if (from->dim[d] == 1) continue;
            if (before >= 0 && from->stride[before] != from->stride[d] * from->dim[d]) return false;
            before = inner = d;
        }
        int64_t stride = inner < 0 ? 1 : from->stride[inner];
        for (int d = t - 1; d >= t0; d--) {
            to->stride[d] = stride;
            stride *= to->dim[d];
        }
    }
    return true;
}

/* From one element to the next of an axis, `step` of what is `stride` apart. Where there is no next
 * one a step may be as large as any number. */
static int64_t stride_of(int64_t elements, int64_t step, int64_t stride) {
    return elements > 1 ? step * stride : 0;
}

/* Windows that lie inside are strides: j moves along its own axis, unless it is repeated, and along
 * the windows' axis. */
static bool window_view(const dev_node *node, dev_array *view, int64_t *first) {
    const dev_array *src = &node->src[0];
    const int64_t *p = node->attr; /* axis, by, stride, slope, start, size, length */
    if (!array_count(view)) return true;
    int64_t along = (p[5] - 1) * p[2], across = (p[6] - 1) * p[3];
    int64_t lo = p[4] + (across < 0 ? across : 0), hi = p[4] + along + (across > 0 ? across : 0);
    if (lo < 0 || hi >= src->dim[p[0]]) return false;
    memcpy(view->stride, src->stride, sizeof view->stride);
    if (src->dim[p[1]] == 1) view->stride[p[1]] = 0;
    view->stride[p[1]] += stride_of(p[6], p[3], src->stride[p[0]]);
    view->stride[p[0]] = stride_of(p[5], p[2], src->stride[p[0]]);
    *first = p[4] * src->stride[p[0]];
    return true;
}

bool dev_view(const dev_node *node, dev_array *view) {
    const dev_array *src = &node->src[0];
    int64_t first = 0;
    *view = node->out;
    switch (node->op) {
    case OP_RESHAPE:
        if (!view_reshape(src, view)) return false;
        break;
    case OP_PERMUTE:
        for (int d = 0; d < view->rank; d++) view->stride[d] = src->stride[node->attr[d]];
        break;
    case OP_EXPAND:
        for (int d = 0; d < view->rank; d++)
            view->stride[d] = src->dim[d] == view->dim[d] ? src->stride[d] : 0;
        break;
    case OP_SLICE:
        for (int d = 0; d < view->rank; d++) {
            view->stride[d] = stride_of(view->dim[d], node->attr[3 * d + 2], src->stride[d]);
            if (view->dim[d]) first += src->stride[d] * node->attr[3 * d];
        }
        break;
    case OP_WINDOW:
        if (!window_view(node, view, &first)) return false;
        break;
    case OP_FLIP:
        memcpy(view->stride, src->stride, sizeof view->stride);
        for (int a = 0; a < node->attrs; a++) {
            int64_t d = node->attr[a];
            if (src->dim[d]) first += src->stride[d] * (src->dim[d] - 1);
            view->stride[d] = -src->stride[d];
        }
        break;
    case OP_DETACH:
    case OP_APART:
    case OP_STAND_IN:
    case OP_CUSTOM:
    case OP_BITCAST:
        memcpy(view->stride, src->stride, sizeof view->stride);
        break;
    default:
        return false;
    }
    view->data = array_count(view) ? element_at(src, first) : src->data;
    return true;
}

/* The places lo + i * step, i < count, that are in [0, n): from *first on, below the result.
 * Counted without a sign, for a step or the way there may be as long as any number. step > 0. */
static int64_t inside(int64_t lo, int64_t step, int64_t count, int64_t n, int64_t *first) {
    const uint64_t by = (uint64_t)step, most = (uint64_t)count;
    uint64_t from = lo < 0 ? (0 - (uint64_t)lo - 1) / by + 1 : 0;
    uint64_t end = lo < n ? ((uint64_t)n - 1 - (uint64_t)lo) / by + 1 : 0;
    if (end > most) end = most;
    *first = from < end ? (int64_t)from : (int64_t)end;
    return (int64_t)end;
}

static int64_t place(int64_t lo, int64_t step, int64_t i) {
    return (int64_t)((uint64_t)lo + (uint64_t)step * (uint64_t)i);
}

/* Source element s of an axis goes to lo + s*(interior + 1); negative lo and hi crop. */
static void eval_pad(const dev_node *node) {
    dev_array to = node->out, from = node->src[0];
    if (!array_count(&to)) return;
    memset(to.data, 0, (size_t)array_count(&to) * qn_dtype_size(to.dtype));
    for (int d = 0; d < to.rank; d++) {
        const int64_t lo = node->attr[3 * d], step = sat_add(node->attr[3 * d + 2], 1);
        int64_t s, end = inside(lo, step, from.dim[d], node->out.dim[d], &s);
        if (s == end) return;
        from.data = element_at(&from, s * from.stride[d]);
        to.data = element_at(&to, place(lo, step, s) * node->out.stride[d]);
        from.dim[d] = to.dim[d] = end - s;
        to.stride[d] = stride_of(end - s, step, node->out.stride[d]);
    }
    copy_array(&to, &from);
}

/* The same where windows look over the edges: for each place j what of the axis is inside. */
static void eval_window(const dev_node *node) {
    dev_array to = node->out, from = node->src[0];
    const int64_t *p = node->attr, axis = p[0], by = p[1];
    bool repeated = from.dim[by] == 1;
    if (!array_count(&to)) return;
    memset(to.data, 0, (size_t)array_count(&to) * qn_dtype_size(to.dtype));
    to.dim[by] = from.dim[by] = 1;
    for (int64_t j = 0; j < p[6]; j++) {
        const dev_array *src = &node->src[0];
        int64_t start = sat_add(p[4], sat_mul(p[3], j)), i;
        int64_t end = inside(start, p[2], p[5], src->dim[axis], &i);
        if (i == end) continue;
        to.dim[axis] = from.dim[axis] = end - i;
        from.stride[axis] = stride_of(end - i, p[2], src->stride[axis]);
        int64_t at = place(start, p[2], i) * src->stride[axis];
        to.data = element_at(&node->out, i * node->out.stride[axis] + j * node->out.stride[by]);
        from.data = element_at(src, at + (repeated ? 0 : j * src->stride[by]));
        copy_array(&to, &from);
    }
}

static void eval_move(const dev_node *node) {
    dev_array view;
    if (node->op == OP_PAD)
        eval_pad(node);
    else if (node->op == OP_WINDOW && !dev_view(node, &view))
        eval_window(node);
    else
        copy_array(&node->out, dev_view(node, &view) ? &view : &node->src[0]);
}

/* Each source into its part of the result. */
static void eval_join(const dev_node *node) {
    const int64_t axis = node->attr[0];
    int64_t before = 0;
    for (int k = 0; k < node->sources; k++) {
        dev_array part = node->out;
        part.dim[axis] = node->src[k].dim[axis];
        if (array_count(&part)) {
            part.data = element_at(&node->out, before * part.stride[axis]);
            copy_array(&part, &node->src[k]);
        }
        before += part.dim[axis];
    }
}

/* ---- reductions ---------------------------------------------------------------------------- */

/* The source with its kept axes first and the reduced ones last. */
static dev_array kept_first(const dev_node *node, int source) {
    const dev_array *src = &node->src[source];
    dev_array a = *src;
    uint32_t reduced = 0;
    int at = 0;
    for (int i = 0; i < node->attrs; i++) reduced |= 1u << node->attr[i];
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < src->rank; d++)
            if ((reduced >> d & 1) == (unsigned)pass) {
                a.dim[at] = src->dim[d];
                a.stride[at++] = src->stride[d];
            }
    return a;
}

typedef struct partial {
    scalar value;
    long double sum;
} partial;

/* Any other row's combine, by the meaning of its operation. */
static void fold_by(int combine, qn_dtype dtype, const scalar *v, int64_t n, partial *p) {
    for (int64_t i = 0; i < n; i++)
        scalar_op(combine, dtype, dtype, (const scalar[2]){p->value, v[i]}, &p->value);
}

static void fold_floats(int combine, qn_dtype dtype, const scalar *v, int64_t n, partial *p) {
    double acc = p->value.f;
    switch (combine) {
    case OP_ADD:
        if (dtype == QN_F64)
            for (int64_t i = 0; i < n; i++) p->sum += (long double)v[i].f;
        else
            for (int64_t i = 0; i < n; i++) acc += v[i].f;
        break;
    case OP_MUL:
        for (int64_t i = 0; i < n; i++) acc *= v[i].f;
        break;
    case OP_MAXIMUM:
    case OP_MINIMUM:
        for (int64_t i = 0; i < n && !isnan(acc); i++)
            if (isnan(v[i].f) || (combine == OP_MAXIMUM ? v[i].f > acc : v[i].f < acc))
                acc = v[i].f;
        break;
    default:
        fold_by(combine, dtype, v, n, p);
        return;
    }
    p->value.f = acc;
}

static void fold_ints(int combine, qn_dtype dtype, const scalar *v, int64_t n, partial *p) {
    bool largest = combine == OP_MAXIMUM, is_unsigned = dtype_is_unsigned(dtype);
    if (combine != OP_ADD && combine != OP_MUL && !largest && combine != OP_MINIMUM) {
        fold_by(combine, dtype, v, n, p);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t x = v[i].i, best = p->value.i;
        bool less = is_unsigned ? (uint64_t)x < (uint64_t)best : x < best;
        if (combine == OP_ADD) {
            p->value.i = (int64_t)((uint64_t)best + (uint64_t)x);
        } else if (combine == OP_MUL) {
            p->value.i = (int64_t)((uint64_t)best * (uint64_t)x);
        } else if (largest ? !less && x != best : less) {
            p->value.i = x;
        }
    }
}

/* Of a SUM_PRODUCT: the products, not rounded in between, where `here` (NULL: everywhere). */
static void fold_products(qn_dtype dtype, const scalar *x, const scalar *y, const scalar *here,
                          int64_t n, partial *p) {
    for (int64_t i = 0; i < n; i++) {
        if (here && !here[i].i) continue;
        if (dtype == QN_F64)
            p->sum += (long double)x[i].f * (long double)y[i].f;
        else if (dtype_is_float(dtype))
            p->value.f += x[i].f * y[i].f;
        else
            p->value.i = (int64_t)((uint64_t)p->value.i + (uint64_t)x[i].i * (uint64_t)y[i].i);
    }
}

static void eval_reduce(const dev_node *node) {
    qn_dtype in = node->src[0].dtype;
    int op = node->op, by = monoid_of_reduction(op);
    const monoid_row *row = &monoid_rows[by];
    bool floats = dtype_is_float(in);
    dev_array a[3];
    walk w[3];
    scalar x[3][CHUNK];
    for (int k = 0; k < node->sources; k++) a[k] = kept_first(node, k), w[k] = walk_array(&a[k]);
    int64_t results = array_count(&node->out), length = 1;
    for (int d = a[0].rank - node->attrs; d < a[0].rank; d++) length *= a[0].dim[d];
    for (int64_t r = 0; r < results; r++) {
        partial p = {.value = monoid_identity(by, 0, in)};
        monoid_state t = ref_state_of(by, in);
        for (int64_t done = 0, n; done < length; done += n) {
            n = length - done < CHUNK ? length - done : CHUNK;
            for (int k = 0; k < node->sources; k++) load_next(&a[k], &w[k], n, x[k]);
            if (op == OP_SUM_PRODUCT)
                fold_products(in, x[0], x[1], node->sources == 3 ? x[2] : NULL, n, &p);
            else if (row->states > 1)
                for (int64_t i = 0; i < n; i++) ref_step_state(&t, x[0][i], x[1][i], done + i);
            else if (floats)
                fold_floats(row->combine, in, x[0], n, &p);
            else
                fold_ints(row->combine, in, x[0], n, &p);
        }
        if (by == MONOID_SUM && in == QN_F64) p.value.f = (double)p.sum;
        if (row->states > 1) p.value = ref_result_of(&t, node->dtype);
        ref_store(&node->out, r, 1, &p.value);
    }
}

/* ---- contractions -------------------------------------------------------------------------- */

/* Axes of one group, with their strides in both sources and in the result. */
typedef struct group {
    int rank;
    int64_t count, dim[QN_MAX_RANK], stride[3][QN_MAX_RANK];
} group;
enum { BATCH, ROWS, COLS, INNER, GROUPS };

static void contraction_groups(const dev_node *node, group *g) {
    const dev_array *a = &node->src[0], *b = &node->src[1];
    uint32_t reduced = 0;
    for (int i = 0; i < node->attrs; i++) reduced |= 1u << node->attr[i];
    for (int i = 0; i < GROUPS; i++) g[i].rank = 0, g[i].count = 1;
    for (int d = 0, kept = 0; d < a->rank; d++) {
        bool inner = reduced >> d & 1;
        bool one = a->dim[d] == 1, in_a = !one && a->stride[d], in_b = !one && b->stride[d];
        group *to = &g[inner ? INNER : in_a == in_b ? BATCH : in_a ? ROWS : COLS];
        to->dim[to->rank] = a->dim[d];
        to->stride[0][to->rank] = a->stride[d];
        to->stride[1][to->rank] = b->stride[d];
        to->stride[2][to->rank++] = inner ? 0 : node->out.stride[kept++];
        to->count *= a->dim[d];
    }
}

/* The axes of two groups, one after the other, as a walk of source `k`. */
static walk walk_groups(const group *outer, const group *inner, int k) {
    int64_t dim[2 * QN_MAX_RANK], stride[2 * QN_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < outer->rank; d++, rank++)
        dim[rank] = outer->dim[d], stride[rank] = outer->stride[k][d];
    for (int d = 0; d < inner->rank; d++, rank++)
        dim[rank] = inner->dim[d], stride[rank] = inner->stride[k][d];
    return walk_axes(rank, dim, stride);
}

static void load_all(const dev_array *a, int64_t base, walk w, int64_t n, scalar *out) {
    int64_t at[CHUNK];
    for (int64_t m; n > 0; n -= m, out += m) {
        m = n < CHUNK ? n : CHUNK;
        walk_next(&w, m, at);
        ref_load(a->dtype, element_at(a, base), m, at, out);
    }
}

/* Rows times columns for one batch: a is [rows][inner], b is [inner][cols] in panels of COLUMNS. */
static void multiply_panel(int64_t inner, const scalar *a, const scalar *b, scalar *sum) {
    double acc[COLUMNS] = {0};
    for (int64_t k = 0; k < inner; k++) {
#ifndef __clang__ /* which does so by itself: the sums stay in registers */
#pragma GCC unroll 16
#endif
        for (int j = 0; j < COLUMNS; j++) acc[j] += a[k].f * b[k * COLUMNS + j].f;
    }
    for (int j = 0; j < COLUMNS; j++) sum[j].f = acc[j];
}

/* Panels of [inner][COLUMNS], the last one filled up with zeros. */
static void load_panels(const dev_array *b, int64_t base, const group *g, scalar *panel) {
    int64_t at[CHUNK], cols = g[COLS].count, inner = g[INNER].count;
    walk w = walk_groups(&g[INNER], &g[COLS], 1);
    for (int64_t k = 0; k < inner; k++)
        for (int64_t j = 0, n; j < cols; j += n) {
            scalar *to = panel + j * inner + k * COLUMNS;
            n = cols - j < COLUMNS ? cols - j : COLUMNS;
            walk_next(&w, n, at);
            ref_load(b->dtype, element_at(b, base), n, at, to);
            for (int64_t i = n; i < COLUMNS; i++) to[i].f = 0;
        }
}

/* Sum of a product of floats as a batch of matrix products in double. */
static qn_code eval_contraction(heap *h, const dev_node *node) {
    const dev_array *a = &node->src[0], *b = &node->src[1], *out = &node->out;
    group g[GROUPS];
    contraction_groups(node, g);
    int64_t rows = g[ROWS].count, cols = g[COLS].count, inner = g[INNER].count;
    int64_t panels = (cols + COLUMNS - 1) / COLUMNS, batches = g[BATCH].count;
    if (!array_count(out)) return QN_OK;
    const int64_t scratch[2] = {sat_add(sat_add(rows, sat_mul(panels, COLUMNS)), 2),
                                sat_add(inner, 1)};
    size_t size; /* rows of both operands, and their places */
    scalar *row = checked_bytes(2, scratch, sizeof(scalar), &size) ? heap_try(h, size) : NULL;
    if (!row)
        return fail(h->ctx, QN_ENOMEM, "no memory for a contraction over %lld terms",
                    (long long)inner);
    scalar *panel = row + rows * inner, sum[COLUMNS];
    int64_t *row_at = (int64_t *)(panel + panels * COLUMNS * inner), *col_at = row_at + rows;
    group none = {.rank = 0};
    walk batch[3], w = walk_groups(&none, &g[ROWS], 2);
    walk_next(&w, rows, row_at);
    w = walk_groups(&none, &g[COLS], 2);
    walk_next(&w, cols, col_at);
    for (int k = 0; k < 3; k++) batch[k] = walk_groups(&none, &g[BATCH], k);
    for (int64_t n = 0; n < batches; n++) {
        int64_t at[3];
        for (int k = 0; k < 3; k++) walk_next(&batch[k], 1, &at[k]);
        load_all(a, at[0], walk_groups(&g[ROWS], &g[INNER], 0), rows * inner, row);
        load_panels(b, at[1], g, panel);
        for (int64_t p = 0; p < panels; p++)
            for (int64_t i = 0; i < rows; i++) {
                multiply_panel(inner, row + i * inner, panel + p * COLUMNS * inner, sum);
                for (int64_t j = p * COLUMNS; j < cols && j < (p + 1) * COLUMNS; j++)
                    ref_store(out, at[2] + row_at[i] + col_at[j], 1, &sum[j - p * COLUMNS]);
            }
    }
    heap_free(h, row, size);
    return QN_OK;
}

/* A product with several rows or columns a batch is worth packing; a mere dot product is not. */
static bool is_contraction(const dev_node *node) {
    group g[GROUPS];
    if (node->sources != 2 || !dtype_is_float(node->dtype)) return false;
    contraction_groups(node, g);
    return g[ROWS].count * g[COLS].count > 1;
}

/* ---- computed indices ---------------------------------------------------------------------- */

static bool index_inside(qn_dtype dtype, int64_t i, int64_t size) {
    return dtype == QN_U64 ? (uint64_t)i < (uint64_t)size : i >= 0 && i < size;
}

/* Strides of `a` with the indexed axis standing still: where index 0 of that axis lies. */
static walk walk_beside(const dev_array *a, const dev_array *index, int64_t axis) {
    int64_t stride[QN_MAX_RANK];
    memcpy(stride, a->stride, sizeof stride);
    stride[axis] = 0;
    return walk_axes(index->rank, index->dim, stride);
}

static void eval_gather(const dev_node *node) {
    const dev_array *x = &node->src[0], *index = &node->src[1], *out = &node->out;
    size_t size = qn_dtype_size(x->dtype);
    int64_t axis = node->attr[0], n = array_count(out), at[CHUNK];
    walk w = walk_beside(x, index, axis), r = walk_array(index);
    scalar c[CHUNK];
    memset(out->data, 0, (size_t)n * size);
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        walk_next(&w, m, at);
        load_next(index, &r, m, c);
        for (int64_t i = 0; i < m; i++) {
            if (!index_inside(index->dtype, c[i].i, x->dim[axis])) continue;
            int64_t from = at[i] + c[i].i * x->stride[axis], to = done + i;
            copy_elements(size, out->data, &to, x->data, &from, 1);
        }
    }
}

/* The result is kept in 64 bits until every update has been made, so that sums round once. */
static qn_code eval_scatter(heap *h, const dev_node *node) {
    const dev_array *x = &node->src[0], *index = &node->src[1], *src = &node->src[2];
    const dev_array *out = &node->out;
    int op = monoid_rows[node->attr[1]].combine;
    qn_dtype wide = node->dtype == QN_BOOL           ? QN_BOOL
                    : dtype_is_float(node->dtype)    ? QN_F64
                    : dtype_is_unsigned(node->dtype) ? QN_U64
                                                     : QN_I64;
    int64_t axis = node->attr[0], n = array_count(out), updates = array_count(index), at[CHUNK];
    if (!n) return QN_OK;
    scalar *value = heap_try(h, sizeof(scalar) * (size_t)n);
    if (!value) return fail(h->ctx, QN_ENOMEM, "no memory for a scatter of %lld", (long long)n);
    scalar c[CHUNK], v[CHUNK];
    walk r = walk_array(x);
    for (int64_t done = 0, m; done < n; done += m) {
        m = n - done < CHUNK ? n - done : CHUNK;
        load_next(x, &r, m, value + done);
    }
    walk w = walk_beside(out, index, axis), wi = walk_array(index), ws = walk_array(src);
    for (int64_t done = 0, m; done < updates; done += m) {
        m = updates - done < CHUNK ? updates - done : CHUNK;
        walk_next(&w, m, at);
        load_next(index, &wi, m, c);
        load_next(src, &ws, m, v);
        for (int64_t i = 0; i < m; i++) {
            if (!index_inside(index->dtype, c[i].i, out->dim[axis])) continue;
            scalar *to = &value[at[i] + c[i].i * out->stride[axis]];
            if (node->attr[1] == MONOID_SET)
                *to = v[i];
            else
                scalar_ops(op, wide, wide, 1, (const scalar *const[]){to, &v[i], to}, to);
        }
    }
    ref_store(out, 0, n, value);
    heap_free(h, value, sizeof(scalar) * (size_t)n);
    return QN_OK;
}

/* ---- the device ---------------------------------------------------------------------------- */

static qn_code eval_index(heap *h, const dev_node *node) {
    if (node->op == OP_SCATTER) return eval_scatter(h, node);
    eval_gather(node);
    return QN_OK;
}

static qn_code ref_eval(void *state, const dev_node *node) {
    heap *h = &((ref_state *)state)->ctx->heap;
    switch (op_rows[node->op].class_) {
    case CLASS_LEAF:
        if (node->op == OP_CONST) eval_const(node);
        if (node->op == OP_IOTA) eval_iota(node);
        return QN_OK;
    case CLASS_ELEM:
        if (node->op == OP_BITCAST)
            eval_move(node);
        else if (!eval_elem(node))
            return fail(h->ctx, QN_EINTERNAL, "ref: %s has no value for %s", op_rows[node->op].name,
                        qn_dtype_name(node->dtype));
        return QN_OK;
    case CLASS_MOVE:
    case CLASS_MARK:
        eval_move(node);
        return QN_OK;
    case CLASS_JOIN:
        eval_join(node);
        return QN_OK;
    case CLASS_REDUCE:
        if (is_contraction(node)) return eval_contraction(h, node);
        eval_reduce(node);
        return QN_OK;
    case CLASS_INDEX:
        return eval_index(h, node);
    case CLASS_SCAN:
        ref_eval_scan(node);
        return QN_OK;
    default:
        return fail(h->ctx, QN_EINTERNAL, "ref: op %d has no class", node->op);
    }
}

static void *ref_open(qn_ctx *qn, str *why) {
    (void)why;
    ref_state *state = heap_alloc(&qn->heap, sizeof *state);
    state->ctx = qn;
    return state;
}

static void ref_close(void *state) {
    ref_state *s = state;
    heap_free(&s->ctx->heap, s, sizeof *s);
}

static void ref_limits(void *state, machine *out) {
    (void)state;
    *out = machine_generic();
    out->vector_bytes = 8;
    out->threads = 1;
}

const dev_table dev_ref = {
    .name = "ref",
    .description = "the oracle: every primitive in plain loops, unfused, in double precision",
    .unfused = true,
    .host_memory = true,
    .executes = true,
    .open = ref_open,
    .close = ref_close,
    .limits = ref_limits,
    .eval = ref_eval,
    .alloc = dev_host_alloc,
    .free = dev_host_free,
    .copy_in = dev_host_copy_in,
    .copy_out = dev_host_copy_out,
};
