/* pieces.c - the gradient of what was taken apart: many slices' gradients in one.
 *
 * A slice gives its source a gradient that is a padding: its own box of the whole, zeros around it.
 * A tensor that n slices were taken of would so be the sum of n values of its size. But where the
 * boxes lie beside each other nothing is added: the gradient is a JOIN of the boxes, with zeros
 * where there are gaps. So paddings are not added as they come, but kept until all users of the
 * node have given theirs.
 *
 * Boxes are laid out axis by axis. Along an axis those with the same interval are one, to be laid
 * out along the axes behind; intervals that do not overlap are joined; and where they do, there are
 * layers, each a JOIN, which are added: two for windows of twice their distance. An interval that
 * is alone in its layer is a padding, as ever. Sorting is by what intervals begin at for the
 * largest sizes that variables may have; that they do not overlap is proved for all.
 *
 * What layers of halves add is f32, and stays f32 where it is joined with others and added again:
 * who asks for the gradient rounds it, once.
 *
 * Slices with one step s along an axis, x[k::s], lie in its s residue classes. Each class is laid
 * out for itself, as an axis of every s-th place, and they are interleaved: joined along an axis of
 * s behind that one, which is then merged with it. */
#include "grad/grad.h"

#include <stdlib.h>

struct grad_piece {
    node_id pad; /* PAD that cuts nothing off */
    struct grad_piece *next;
};

/* Are what lies before and behind, and the axis's size, numbers? Residue classes need them. */
static bool are_numbers(const graph *g, const int64_t *around, int64_t dim) {
    const sym_store *s = g->syms;
    return sym_is_const(s, (sym)around[0], NULL) && sym_is_const(s, (sym)around[1], NULL) &&
           sym_is_const(s, (sym)dim, NULL);
}

bool grad_keep_piece(grad *c, uint32_t place, node_id value) {
    const graph_node *x = node_at(c->g, value);
    if (!rule_sees(c->g, value, OP_PAD)) return false;
    int count, rank;
    const int64_t *p = graph_tuple_get(c->g, x->attr, &count);
    const int64_t *dims = graph_tuple_get(c->g, x->shape, &rank);
    for (int i = 0; i < count; i += 3) {
        if (sym_lo(c->g->syms, (sym)p[i]) < 0 || sym_lo(c->g->syms, (sym)p[i + 1]) < 0)
            return false;
        if (p[i + 2] && (rank == QN_MAX_RANK || !are_numbers(c->g, &p[i], dims[i / 3])))
            return false;
    }
    if (!c->piece) c->piece = arena_zeroed(c->a, c->count * sizeof *c->piece);
    grad_piece *kept = arena_alloc(c->a, sizeof *kept);
    *kept = (grad_piece){value, c->piece[place]};
    c->piece[place] = kept;
    return true;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

typedef struct box {
    node_id value; /* what lies in it */
    uint32_t number;
    sym lo, end;     /* along the axis at hand */
    int64_t step;    /* of its places there */
    int64_t residue; /* of these by the step */
    int64_t key[2];  /* lo and end for the largest sizes */
    const int64_t *pad;
} box;

typedef struct layout {
    graph *g;
    arena *a;
    int rank;
    const int64_t *dims; /* of the whole */
    qn_dtype dtype;
} layout;

static int by_place(const void *a, const void *b) {
    const box *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->residue != y->residue) return x->residue < y->residue ? -1 : 1;
    for (int i = 0; i < 2; i++)
        if (x->key[i] != y->key[i]) return x->key[i] < y->key[i] ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* x, which is whole behind the axis, with zeros before and after it along the axis. */
static node_id pad_along(const layout *l, node_id x, int axis, const box *b) {
    int64_t p[3 * QN_MAX_RANK] = {0};
    p[3 * axis] = b->lo;
    p[3 * axis + 1] = sym_sub(l->g->syms, (sym)l->dims[axis], b->end);
    return make_pad(l->g, x, p);
}

/* So many places of zeros along the axis, beside x. */
static node_id zeros_beside(const layout *l, node_id x, int axis, sym size) {
    int rank;
    int64_t v[QN_MAX_RANK];
    memcpy(v, node_dims(l->g, x, &rank), (size_t)l->rank * sizeof *v);
    v[axis] = size;
    return make_number(l->g, (qn_dtype)node_at(l->g, x)->dtype, graph_tuple(l->g, rank, v), 0);
}

/* Pieces beside each other, all as f32 where one is a sum of halves. */
static node_id join_pieces(const layout *l, int n, node_id *piece, int axis) {
    bool wide = false;
    for (int i = 0; i < n; i++) wide |= node_at(l->g, piece[i])->dtype != l->dtype;
    for (int i = 0; i < n && wide; i++) piece[i] = grad_wide(l->g, piece[i]);
    return n > 1 ? make_join(l->g, n, piece, axis) : piece[0];
}

/* ---- layers ---------------------------------------------------------------------------------- */

typedef struct layer {
    box *last;      /* the interval that was laid into it last */
    uint32_t first; /* of its intervals, in the order of all */
    uint32_t count;
    int64_t end; /* of the last, for the largest sizes */
} layer;

/* Layers, that which ends first on top. */
static void layer_sink(layer **queue, uint32_t count, uint32_t i) {
    for (uint32_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && queue[child + 1]->end < queue[child]->end) child++;
        if (queue[i]->end <= queue[child]->end) return;
        layer *was = queue[i];
        queue[i] = queue[child];
        queue[child] = was;
    }
}

static void layer_rise(layer **queue, uint32_t i) {
    for (; i && queue[i]->end < queue[(i - 1) / 2]->end; i = (i - 1) / 2) {
        layer *was = queue[i];
        queue[i] = queue[(i - 1) / 2];
        queue[(i - 1) / 2] = was;
    }
}

/* Put each interval into a layer, opening as few as may be; `of` is told which. */
static uint32_t find_layers(const layout *l, uint32_t n, box *b, layer *layers, uint32_t *of) {
    layer **queue = arena_alloc(l->a, (n + 1) * sizeof *queue);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        layer *to = count ? queue[0] : NULL;
        bool fits = to && sym_lo(l->g->syms, sym_sub(l->g->syms, b[i].lo, to->last->end)) >= 0;
        if (!fits) {
            to = queue[count] = &layers[count];
            *to = (layer){.first = i};
            count++;
        }
        to->last = &b[i];
        to->end = b[i].key[1];
        to->count++;
        of[i] = (uint32_t)(to - layers);
        if (fits)
            layer_sink(queue, count, 0);
        else
            layer_rise(queue, count - 1);
    }
    return count;
}

/* The layer's intervals one behind the other, zeros between them. */
static node_id join_layer(const layout *l, const layer *x, uint32_t number, const box *b,
                          const uint32_t *of, int axis) {
    if (x->count == 1) return pad_along(l, b[x->first].value, axis, &b[x->first]);
    node_id *piece = arena_alloc(l->a, (2 * (size_t)x->count + 1) * sizeof *piece);
    int pieces = 0;
    sym_store *s = l->g->syms;
    sym end = SYM_ZERO;
    for (uint32_t i = x->first, left = x->count; left; i++) {
        if (of[i] != number) continue;
        if (b[i].lo != end)
            piece[pieces++] = zeros_beside(l, b[i].value, axis, sym_sub(s, b[i].lo, end));
        piece[pieces++] = b[i].value;
        end = b[i].end;
        left--;
    }
    sym rest = sym_sub(s, (sym)l->dims[axis], end);
    if (rest != SYM_ZERO) piece[pieces++] = zeros_beside(l, x->last->value, axis, rest);
    return join_pieces(l, pieces, piece, axis);
}

/* ---- axis by axis ---------------------------------------------------------------------------- */

static node_id lay_out(const layout *l, uint32_t n, box *b, int axis);

/* Boxes of one step and residue, sorted, as one value that is whole along the axis. */
static node_id lay_out_class(const layout *l, uint32_t n, box *b, int axis) {
    node_id sum = 0;
    box *interval = arena_alloc(l->a, n * sizeof *interval);
    uint32_t intervals = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        box first = b[i];
        for (end = i + 1; end < n && b[end].lo == first.lo && b[end].end == first.end;) end++;
        first.value = lay_out(l, end - i, b + i, axis + 1);
        interval[intervals++] = first;
    }
    layer *layers = arena_alloc(l->a, intervals * sizeof *layers);
    uint32_t *of = arena_alloc(l->a, intervals * sizeof *of);
    uint32_t count = find_layers(l, intervals, interval, layers, of);
    for (uint32_t i = 0; i < count; i++)
        sum = grad_plus(l->g, sum, join_layer(l, &layers[i], i, interval, of, axis));
    return sum;
}

/* x, whole along the axis and those behind, with that axis as `size` and one of `places` behind it,
 * or, where `places` is 0, without the latter. */
static node_id with_places(const layout *l, node_id x, int axis, int64_t size, int64_t places) {
    int rank, n = 0;
    int64_t to[QN_MAX_RANK];
    const int64_t *dims = node_dims(l->g, x, &rank);
    for (int i = 0; i < rank; i++) {
        if (i == axis) {
            to[n++] = sym_const(l->g->syms, size);
            if (places) to[n++] = sym_const(l->g->syms, places);
        } else if (places || i != axis + 1) {
            to[n++] = dims[i];
        }
    }
    return make_reshape(l->g, x, graph_tuple(l->g, n, to));
}

/* Zeros of x's shape, but for so many places along an axis. */
static node_id zero_places(const layout *l, node_id x, int axis, int64_t places) {
    return zeros_beside(l, x, axis, sym_const(l->g->syms, places));
}

/* The boxes of one step, sorted by residue: each class laid out for itself, and all interleaved. */
static node_id interleave(const layout *l, uint32_t n, box *b, int axis) {
    sym_store *s = l->g->syms;
    int64_t size, at, step = b->step, next = 0;
    sym_is_const(s, (sym)l->dims[axis], &size);
    int64_t dims[QN_MAX_RANK], each = (size + step - 1) / step;
    layout one = *l;
    memcpy(dims, l->dims, (size_t)l->rank * sizeof *dims);
    dims[axis] = sym_const(s, each);
    one.dims = dims;
    node_id *piece = arena_alloc(l->a, (2 * (size_t)n + 1) * sizeof *piece);
    int pieces = 0;
    one.rank = l->rank;
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && b[end].residue == b[i].residue; end++) {
            sym_is_const(s, b[end].lo, &at);
            b[end].key[0] = (at - b[end].residue) / step;
            sym_is_const(s, b[end].end, &at);
            b[end].key[1] = (at - 1 - b[end].residue) / step + 1;
            b[end].lo = sym_const(s, b[end].key[0]);
            b[end].end = sym_const(s, b[end].key[1]);
        }
        int64_t residue = b[i].residue;
        node_id x = with_places(l, lay_out_class(&one, end - i, b + i, axis), axis, each, 1);
        layout behind = {.g = l->g, .a = l->a, .rank = l->rank + 1, .dtype = l->dtype};
        if (residue > next) piece[pieces++] = zero_places(&behind, x, axis + 1, residue - next);
        piece[pieces++] = x;
        next = residue + 1;
        if (end == n && next < step)
            piece[pieces++] = zero_places(&behind, x, axis + 1, step - next);
    }
    node_id all = join_pieces(l, pieces, piece, axis + 1);
    all = with_places(l, all, axis, each * step, 0);
    if (each * step == size) return all;
    int64_t cut[3 * QN_MAX_RANK];
    int rank;
    const int64_t *have = node_dims(l->g, all, &rank);
    for (int i = 0; i < rank; i++) {
        cut[3 * i] = SYM_ZERO;
        cut[3 * i + 1] = i == axis ? l->dims[axis] : have[i];
        cut[3 * i + 2] = 1;
    }
    return make_slice(l->g, all, cut);
}

/* A single place has any step: that of others, where they have one. */
static void share_step(const layout *l, uint32_t n, box *b, int axis) {
    sym_store *s = l->g->syms;
    int64_t step = 1;
    for (uint32_t i = 0; i < n && step == 1; i++) step = b[i].step;
    for (uint32_t i = 0; i < n; i++) {
        bool one = sym_sub(s, b[i].end, b[i].lo) == SYM_ONE;
        if (one && step > 1 && are_numbers(l->g, &b[i].pad[3 * axis], l->dims[axis]))
            b[i].step = step;
        b[i].residue = b[i].step > 1 ? b[i].key[0] % b[i].step : 0;
    }
}

/* A box that no other has the step of is a padding. */
static node_id pad_apart(const layout *l, box *b, int axis) {
    int64_t p[3 * QN_MAX_RANK] = {0};
    node_id x = lay_out(l, 1, b, axis + 1);
    memcpy(&p[3 * axis], &b->pad[3 * axis], 3 * sizeof *p);
    return make_pad(l->g, x, p);
}

/* The boxes, which are alike along the axes in front, as one value that is whole along the axis and
 * those behind. */
static node_id lay_out(const layout *l, uint32_t n, box *b, int axis) {
    node_id sum = 0;
    if (axis == l->rank) {
        for (uint32_t i = 0; i < n; i++) sum = grad_plus(l->g, sum, b[i].value);
        return sum;
    }
    sym_store *s = l->g->syms;
    for (uint32_t i = 0; i < n; i++) {
        b[i].lo = (sym)b[i].pad[3 * axis];
        b[i].end = sym_sub(s, (sym)l->dims[axis], (sym)b[i].pad[3 * axis + 1]);
        b[i].key[0] = sym_hi(s, b[i].lo);
        b[i].key[1] = sym_hi(s, b[i].end);
        b[i].step = b[i].pad[3 * axis + 2] + 1;
    }
    share_step(l, n, b, axis);
    qsort(b, n, sizeof *b, by_place);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && b[end].step == b[i].step;) end++;
        node_id x = b[i].step == 1 ? lay_out_class(l, end - i, b + i, axis)
                    : end - i == 1 ? pad_apart(l, b + i, axis)
                                   : interleave(l, end - i, b + i, axis);
        sum = grad_plus(l->g, sum, x);
    }
    return sum;
}

static node_id assemble(grad *c, const grad_piece *list) {
    uint32_t n = 0;
    for (const grad_piece *p = list; p; p = p->next) n++;
    if (n == 1) return list->pad;
    const graph_node whole = *node_at(c->g, list->pad);
    layout l = {.g = c->g, .a = c->a, .dtype = (qn_dtype)whole.dtype};
    l.dims = graph_tuple_get(c->g, whole.shape, &l.rank);
    box *b = arena_alloc(c->a, n * sizeof *b);
    uint32_t i = n;
    for (const grad_piece *p = list; p; p = p->next) { /* the last comes first */
        const graph_node *x = node_at(c->g, p->pad);
        int count;
        i--;
        b[i] = (box){.value = x->src[0], .number = i};
        b[i].pad = graph_tuple_get(c->g, x->attr, &count);
    }
    return lay_out(&l, n, b, 0);
}

node_id grad_total(grad *c, uint32_t place) {
    const grad_piece *list = c->piece ? c->piece[place] : NULL;
    if (list) {
        node_id pieces = assemble(c, list);
        grad_include(c, &c->sum[place], pieces);
        c->piece[place] = NULL;
    }
    node_id products = grad_join_products(c, place);
    if (products) grad_include(c, &c->sum[place], products);
    return c->sum[place];
}
