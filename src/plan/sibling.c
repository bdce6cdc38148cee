/* sibling.c - horizontal fusion: independent kernels that read the same memory become one with
 * several results.
 *
 * When every node is placed, two kernels may still read the same memory under the same loops and be
 * independent: a norm's gradients for scale and shift, a sum and a maximum of the same rows, two
 * results of the same inputs. Then the second becomes a sibling of the first: a further root, in
 * the loops they share. What they both compute or load is then computed or loaded once.
 *
 *   - Kernels over blocks of rows share the rows of the same scores, each has its other loops.
 *   - All others share all loops of their roots: these must have the same number and extents, in an
 *     order that suits the reductions of both, and fusion must pay: of the bytes that the smaller
 *     one accesses at least half are read by the other, too, at the same indices under
 *     corresponding loops.
 *
 * Contractions are left alone, since their loops are a register tile's. So are reductions in
 * reductions, which lowering could not put beside others (lower/fuse_reductions.c), and more
 * accumulators than it takes: these would be passes of their own again. And so are pieces of a
 * larger value, which are launched together in any case (join.c).
 *
 * What thousands of kernels read would be millions of pairs: each is compared with its next ones
 * only, and uses are sorted by kernel, so that those of one are found quickly. */
#include "plan/fuse.h"

#include <stdlib.h>

enum {
    MOST_OPS = 200,   /* operations of a kernel with siblings: bounds compile time */
    MOST_REDUCED = 4, /* accumulators of one pass over memory */
    TOO_LITTLE = 16   /* the fraction of a kernel's traffic below which a tensor is ignored */
};

/* ---- merging --------------------------------------------------------------------------------- */

void fuse_absorb(fuse *fu, uint32_t to, uint32_t from) {
    group *a = fu->group_[to], *b = fu->group_[from];
    for (uint32_t i = 0; i < b->outs; i++)
        fuse_add_node(fu, &a->out, &a->outs, &a->out_cap, b->out[i]);
    for (uint32_t i = 0; i < b->ins; i++) fuse_add_node(fu, &a->in, &a->ins, &a->in_cap, b->in[i]);
    for (uint32_t i = 0; i < b->buffered_count; i++) { /* of one both hold, the first row counts */
        a->buffered = arena_grow(fu->a, a->buffered, &a->buffered_cap, a->buffered_count + 1,
                                 sizeof *a->buffered);
        a->buffered[a->buffered_count++] = b->buffered[i];
    }
    a->ops += b->ops;
    a->code += b->code;
    a->reduces += b->reduces;
    a->flat &= b->flat;
    fuse_move_edges(fu, to, from);
    b->gone = true;
}

/* Group `from`'s root becomes a sibling of group `to`; its loops `theirs` are the `common`
 * there. */
static void merge_into(fuse *fu, uint32_t to, uint32_t from, uint64_t common, uint64_t theirs) {
    group *a = fu->group_[to], *b = fu->group_[from];
    a->sibling =
        arena_grow(fu->a, a->sibling, &a->sibling_cap, a->siblings + 1, sizeof *a->sibling);
    a->sibling[a->siblings++] = (fuse_axes){b->root, fuse_root_axes(fu, b, theirs)};
    a->common = common;
    fuse_add_chain(fu, a, common); /* the sibling needs them outermost */
    fuse_move_shares(fu, a, b);
    fuse_absorb(fu, to, from);
}

/* ---- blocks of rows -------------------------------------------------------------------------- */

/* Have two kernels as many rows, axis by axis? */
static bool same_rows(const fuse *fu, const group *a, const group *b) {
    uint32_t x = fuse_root_axes(fu, a, a->rows), y = fuse_root_axes(fu, b, b->rows);
    int rank;
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, a->root)->shape, &rank);
    const int64_t *other = graph_tuple_get(fu->g, node_at(fu->g, b->root)->shape, &rank);
    for (; x && y; x &= x - 1, y &= y - 1)
        if (dims[__builtin_ctz(x)] != other[__builtin_ctz(y)]) return false;
    return !x && !y;
}

/* The numbers, among a kernel's rows, of the loops in the set. */
static uint64_t row_numbers(const group *k, uint64_t loops) {
    uint64_t numbers = 0;
    int n = 0;
    for (uint64_t r = k->rows; r; r &= r - 1, n++)
        if (loops >> __builtin_ctzll(r) & 1) numbers |= 1ull << n;
    return numbers;
}

/* Scores that more than one use has, by place. */
typedef struct score_list {
    uint32_t *place, count;
} score_list;

static score_list find_scores(const fuse *fu) {
    score_list l = {.place = arena_alloc(fu->a, (fu->f->nodes + 1) * sizeof *l.place)};
    for (uint32_t i = 0; i < fu->f->nodes; i++)
        if (fu->node[i].scores > 0 && fu->node[i].count > 1) l.place[l.count++] = i;
    return l;
}

/* Do both use scores, and all they both use along the same rows? */
static bool share_scores(const fuse *fu, const score_list *l, uint32_t a, uint32_t b) {
    bool any = false;
    for (uint32_t i = 0; i < l->count; i++) {
        const fuse_node *f = &fu->node[l->place[i]];
        const use *u = fuse_use_in(f, a), *v = u ? fuse_use_in(f, b) : NULL;
        for (int axis = 0; v && axis < u->rank; axis++)
            if (row_numbers(fu->group_[a], u->mask[axis]) !=
                row_numbers(fu->group_[b], v->mask[axis]))
                return false;
        any |= v != NULL;
    }
    return any;
}

/* So the gradients of keys and of values compute their scores once. */
static void merge_blocks(fuse *fu) {
    const score_list scores = find_scores(fu);
    for (uint32_t i = 0; i < fu->groups; i++)
        for (uint32_t j = i + 1; fu->group_[i]->rows && j < fu->groups; j++) {
            const group *a = fu->group_[i], *b = fu->group_[j];
            if (a->piece.into || b->piece.into) continue;
            if (a->gone || b->gone || b->siblings || !b->rows || fuse_too_much(a, b)) continue;
            if (!fuse_fits_chain(a, a->rows) || !same_rows(fu, a, b) ||
                !share_scores(fu, &scores, i, j))
                continue;
            if (!fuse_reaches(fu, i, j) && !fuse_reaches(fu, j, i))
                merge_into(fu, i, j, a->rows, b->rows);
        }
}

/* ---- the same memory under the same loops ---------------------------------------------------- */

/* Do the loops of two uses, axis by axis, correspond: the same of the roots', and reductions' of
 * equal extent, opened in the same order? */
static bool same_places(const fuse *fu, const use *u, const use *v) {
    const group *a = fu->group_[u->group], *b = fu->group_[v->group];
    uint64_t roots = fuse_root_set(a), last_u = 0, last_v = 0;
    if (!u->exact || !v->exact || u->rank != v->rank) return false;
    for (int i = 0; i < u->rank; i++) {
        uint64_t x = u->mask[i] & ~roots, y = v->mask[i] & ~roots;
        if ((u->mask[i] & roots) != (v->mask[i] & roots) || !x != !y) return false;
        if (!x) continue;
        if ((x & (x - 1)) || (y & (y - 1)) || (x < last_u) != (y < last_v)) return false;
        if (a->loop[__builtin_ctzll(x)].extent != b->loop[__builtin_ctzll(y)].extent) return false;
        last_u = x;
        last_v = y;
    }
    return true;
}

static int by_group(const void *a, const void *b) {
    const use *x = a, *y = b;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* The first use of that kernel or one after it, of uses that are sorted. */
static uint32_t first_use(const fuse_node *f, uint32_t number) {
    uint32_t lo = 0, hi = f->count;
    while (lo < hi) {
        uint32_t middle = (lo + hi) / 2;
        if (f->uses[middle].group < number)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Does n move with the root's loops or a reduction's in both, at the same places? */
static bool reads_with(const fuse *fu, node_id n, uint32_t a, uint32_t b) {
    const fuse_node *f = fuse_info(fu, n);
    uint32_t second = first_use(f, b);
    for (uint32_t i = first_use(f, a); i < f->count && f->uses[i].group == a; i++)
        for (uint32_t j = second; j < f->count && f->uses[j].group == b; j++)
            if (same_places(fu, &f->uses[i], &f->uses[j])) return true;
    return false;
}

static bool in_list(node_id n, const node_id *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == n) return true;
    return false;
}

static double bytes_of(const fuse *fu, node_id n) {
    return fuse_size(fu, n) * (double)qn_dtype_size(node_at(fu->g, n)->dtype);
}

/* Bytes of all that k reads and writes, and the most of one tensor. */
static void measure(const fuse *fu, group *k) {
    k->bytes = k->largest = 0;
    for (uint32_t i = 0; i < k->ins + k->outs; i++) {
        double bytes = bytes_of(fu, i < k->ins ? k->in[i] : k->out[i - k->ins]);
        if (bytes > k->largest) k->largest = bytes;
        k->bytes += bytes;
    }
}

/* Tensors of at least an eighth of `largest` bytes among them, but for those of k. */
static int streams(const fuse *fu, uint32_t n, const node_id *list, double largest,
                   const group *k) {
    int count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += 8 * bytes_of(fu, list[i]) >= largest && !(k && in_list(list[i], k->in, k->ins));
    return count;
}

/* Is one pass better than two? */
static bool worth_it(const fuse *fu, uint32_t i, uint32_t j) {
    const group *a = fu->group_[i], *b = fu->group_[j];
    double saved = 0, smaller = a->bytes < b->bytes ? a->bytes : b->bytes;
    double largest = a->largest > b->largest ? a->largest : b->largest;
    int side_by_side =
        streams(fu, a->ins, a->in, largest, NULL) + streams(fu, a->outs, a->out, largest, NULL) +
        streams(fu, b->ins, b->in, largest, a) + streams(fu, b->outs, b->out, largest, NULL);
    for (uint32_t n = 0; n < a->ins && side_by_side <= fu->terms.machine->kernel_streams; n++) {
        double bytes = bytes_of(fu, a->in[n]);
        if (bytes * TOO_LITTLE >= smaller && in_list(a->in[n], b->in, b->ins) &&
            reads_with(fu, a->in[n], i, j))
            saved += bytes;
    }
    return 2 * saved >= smaller && side_by_side <= fu->terms.machine->kernel_streams;
}

/* Have the roots' loops the same number and extents, also where axes are split? */
static bool same_loops(const fuse *fu, const group *a, const group *b) {
    int n, m, j = 0;
    const int64_t *x = graph_tuple_get(fu->g, node_at(fu->g, a->root)->shape, &n);
    const int64_t *y = graph_tuple_get(fu->g, node_at(fu->g, b->root)->shape, &m);
    for (int i = 0; i < n; i++) {
        if ((sym)x[i] == SYM_ONE) continue;
        while (j < m && (sym)y[j] == SYM_ONE) j++;
        if (j == m || x[i] != y[j++]) return false;
    }
    while (j < m && (sym)y[j] == SYM_ONE) j++;
    if (j < m || a->root_loops != b->root_loops) return false;
    for (uint32_t i = 0; i < a->root_loops; i++)
        if (a->loop[i].extent != b->loop[i].extent) return false;
    return true;
}

static bool may_join(const group *k) {
    return !k->gone && !k->piece.into && !k->columns && !k->has_contraction && !k->scatter &&
           !k->scan && !k->call && !k->rows && !k->nested && !(k->products && fuse_rows(k) > 1);
}

static bool fit(const fuse *fu, node_id shared, const group *a, const group *b) {
    if (!may_join(a) || !may_join(b) || b->siblings || a->ops + b->ops > MOST_OPS) return false;
    if (fuse_too_much(a, b)) return false;
    double little = bytes_of(fu, shared) * TOO_LITTLE;
    if (little < a->bytes && little < b->bytes) return false; /* another would have to be shared */
    if (a->reduces && b->reduces && a->reduces + b->reduces > MOST_REDUCED) return false;
    if (!same_loops(fu, a, b)) return false;
    for (uint32_t i = 0; i < b->chains; i++)
        if (!fuse_fits_chain(a, b->chain[i])) return false;
    return true;
}

/* Readers of n, pair by pair. Only those that read each element once can share that. */
static void merge_readers(fuse *fu, node_id n) {
    const fuse_node *f = fuse_info(fu, n);
    uint32_t *reader = arena_alloc(fu->a, f->count * sizeof *reader), readers = 0;
    for (uint32_t u = 0; u < f->count; u++) {
        bool again = readers && reader[readers - 1] == f->uses[u].group;
        if (f->uses[u].exact && !again) reader[readers++] = f->uses[u].group;
    }
    for (uint32_t u = 0; u < readers; u++)
        for (uint32_t v = u + 1; v < readers && v <= u + FUSE_MAX_PAIRS; v++) {
            uint32_t i = reader[u], j = reader[v];
            if (!fit(fu, n, fu->group_[i], fu->group_[j])) continue;
            group *a = fu->group_[i], *b = fu->group_[j];
            if (!worth_it(fu, i, j) || fuse_reaches(fu, i, j) || fuse_reaches(fu, j, i)) continue;
            for (uint32_t c = 0; c < b->chains; c++) fuse_add_chain(fu, a, b->chain[c]);
            merge_into(fu, i, j, fuse_root_set(a), fuse_root_set(b));
            measure(fu, a);
        }
}

void fuse_merge_siblings(fuse *fu) {
    if (fu->terms.everything_stored) return;
    merge_blocks(fu);
    for (uint32_t i = 0; i < fu->groups; i++) measure(fu, fu->group_[i]);
    for (uint32_t i = 0; i < fu->f->nodes; i++)
        if (fu->node[i].count > 1)
            qsort(fu->node[i].uses, fu->node[i].count, sizeof(use), by_group);
    for (uint32_t i = 0; i < fu->f->nodes; i++)
        if (fu->f->stored[i] && fu->node[i].count > 1) merge_readers(fu, fu->f->order[i]);
}
