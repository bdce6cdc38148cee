/* sequence.c - in which order a request's kernels run, so that little memory is needed at once.
 *
 * Any topological order computes the same. What lives between kernels differs: an unrolled network
 * whose products of inputs and weights wait for nothing can make all of them first and keep them,
 * or each right before the step that reads it. Which order needs least is a hard problem, and no
 * heuristic wins everywhere; so some orders are tried and the best one is taken:
 *
 *   - the order of the graph, which fuse.c found;
 *   - depth first from what is asked for, the deepest producer first, so that what waits for
 *     nothing is made last, right before its reader (Sethi and Ullman's idea);
 *   - each as late as possible, by the longest way from it to what is asked for: layers of an
 *     unrolled network take turns.
 *
 * In all but the first, what lets go at least as much as it stores runs as soon as it can.
 *
 * A value that is asked for has memory of its own and counts for nothing here; unless it could lie
 * where a leaf does that nobody wants afterwards (`over`). That can be only if its kernel is the
 * leaf's last reader, so such a kernel waits for the others, and where it cannot the order pays.
 *
 * A request whose pieces several kernels write to one value stays in the order of the graph. */
#include "plan/plan.h"

#include <stdlib.h>

static const uint32_t none = UINT32_MAX;

typedef struct value {                     /* what is in memory, by place */
    int64_t bytes;                         /* of a temporary; else 0 */
    uint32_t writer, readers, left, first; /* its readers are reader[first..first + readers) */
    uint32_t over;                         /* of a leaf: the kernel that may write there, */
    int64_t over_bytes;                    /* so many bytes, */
    bool apart;                            /* which cannot */
} value;

typedef struct producer {
    uint32_t kernel, depth;
} producer;

typedef struct sequencer {
    const fusion *f;
    arena *a;
    value *value;
    uint32_t *reader;
    producer *producer;     /* of kernel k: from at[k] to at[k + 1], deepest first */
    uint32_t *at, *depth;   /* depth: kernels in the longest way to it */
    uint32_t *rank;         /* in the order that is tried */
    uint32_t *waits, *soft; /* producers that have not run; readers of what it may write over */
    int64_t *net;           /* bytes that it stores, less what nobody reads afterwards */
    bool *done;
    uint64_t *heap; /* of kernels that are ready; see key_of */
    uint32_t heaps;
} sequencer;

static value *value_of(const sequencer *s, node_id n) {
    return &s->value[s->f->pos[n] - 1];
}

/* ---- who reads and writes what --------------------------------------------------------------- */

static void find_values(sequencer *s, uint32_t roots, const node_id *root) {
    const fusion *f = s->f;
    graph *g = f->g;
    uint32_t reads = 0;
    for (uint32_t i = 0; i < f->nodes; i++) s->value[i].writer = s->value[i].over = none;
    for (uint32_t k = 0; k < f->kernels; k++) {
        for (uint32_t i = 0; i < f->kernel[k].outs; i++) {
            const graph_node *x = node_at(g, f->kernel[k].out[i]);
            value *v = value_of(s, f->kernel[k].out[i]);
            v->writer = k;
            v->bytes =
                sat_mul(shape_numel_hi(g, x->shape), (int64_t)qn_dtype_size((qn_dtype)x->dtype));
        }
        reads += f->kernel[k].ins;
    }
    for (uint32_t i = 0; i < roots; i++) value_of(s, root[i])->bytes = 0;
    s->reader = arena_alloc(s->a, (reads + 1) * sizeof *s->reader);
    for (uint32_t k = 0; k < f->kernels; k++)
        for (uint32_t i = 0; i < f->kernel[k].ins; i++) {
            value *v = value_of(s, f->kernel[k].in[i]);
            v->readers += v->writer != k;
        }
    for (uint32_t i = 0, at = 0; i < f->nodes; at += s->value[i++].readers) s->value[i].first = at;
    for (uint32_t k = 0; k < f->kernels; k++)
        for (uint32_t i = 0; i < f->kernel[k].ins; i++) {
            value *v = value_of(s, f->kernel[k].in[i]);
            if (v->writer != k) s->reader[v->first + v->left++] = k;
        }
}

/* Which kernels may write over which leaves: these are numbered as they come in the order. */
static void find_overs(sequencer *s, uint32_t roots, const node_id *root, const uint32_t *over) {
    const fusion *f = s->f;
    uint32_t *leaf = arena_alloc(s->a, (f->nodes + 1) * sizeof *leaf), leaves = 0;
    for (uint32_t i = 0; over && i < f->nodes; i++)
        if (node_is_memory(node_at(f->g, f->order[i]))) leaf[leaves++] = i;
    for (uint32_t i = 0; over && i < roots; i++) {
        if (!over[i] || over[i] > leaves) continue;
        value *v = &s->value[leaf[over[i] - 1]];
        const graph_node *x = node_at(f->g, root[i]);
        v->over = value_of(s, root[i])->writer;
        v->over_bytes =
            sat_mul(shape_numel_hi(f->g, x->shape), (int64_t)qn_dtype_size((qn_dtype)x->dtype));
    }
}

static int deeper(const void *a, const void *b) {
    const producer *x = a, *y = b;
    if (x->depth != y->depth) return x->depth > y->depth ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static void find_producers(sequencer *s) {
    const fusion *f = s->f;
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->kernels; k++) n += f->kernel[k].ins;
    s->producer = arena_alloc(s->a, (n + 1) * sizeof *s->producer);
    n = 0;
    for (uint32_t k = 0; k < f->kernels; k++) {
        s->at[k] = n;
        for (uint32_t i = 0; i < f->kernel[k].ins; i++) {
            uint32_t from = value_of(s, f->kernel[k].in[i])->writer;
            if (from == none || from == k) continue;
            s->producer[n++] = (producer){from, s->depth[from]};
            if (s->depth[from] >= s->depth[k]) s->depth[k] = s->depth[from] + 1;
        }
        qsort(s->producer + s->at[k], n - s->at[k], sizeof *s->producer, deeper);
    }
    s->at[f->kernels] = n;
}

/* ---- depth first ----------------------------------------------------------------------------- */

static void rank_from(sequencer *s, uint32_t sink, uint32_t *stack, uint32_t *next, uint32_t *n) {
    uint32_t depth = 0;
    stack[depth++] = sink;
    s->done[sink] = true;
    while (depth) {
        uint32_t k = stack[depth - 1];
        if (s->at[k] + next[k] == s->at[k + 1]) {
            s->rank[k] = (*n)++;
            depth--;
            continue;
        }
        uint32_t from = s->producer[s->at[k] + next[k]++].kernel;
        if (s->done[from]) continue;
        s->done[from] = true;
        stack[depth++] = from;
    }
}

static void rank_depth_first(sequencer *s) {
    uint32_t n = s->f->kernels, ranked = 0;
    uint32_t *stack = arena_alloc(s->a, (n + 1) * sizeof *stack);
    uint32_t *next = arena_zeroed(s->a, (n + 1) * sizeof *next);
    bool *read = arena_zeroed(s->a, n + 1);
    for (uint32_t i = 0; i < s->at[n]; i++) read[s->producer[i].kernel] = true;
    memset(s->done, 0, n);
    for (uint32_t k = 0; k < n; k++)
        if (!read[k]) rank_from(s, k, stack, next, &ranked);
}

/* ---- as late as possible --------------------------------------------------------------------- */

/* By decreasing height, and the graph's order among kernels of one height. */
static void rank_late(sequencer *s) {
    uint32_t n = s->f->kernels, ranked = 0;
    uint32_t *height = arena_zeroed(s->a, (n + 1) * sizeof *height);
    uint32_t *many = arena_zeroed(s->a, (n + 1) * sizeof *many); /* of that height, then of more */
    for (uint32_t k = n; k-- > 0;)
        for (uint32_t i = s->at[k]; i < s->at[k + 1]; i++) {
            uint32_t *from = &height[s->producer[i].kernel];
            if (*from <= height[k]) *from = height[k] + 1;
        }
    for (uint32_t k = 0; k < n; k++) many[height[k]]++;
    for (uint32_t h = n; h-- > 0;) {
        uint32_t here = many[h];
        many[h] = ranked;
        ranked += here;
    }
    for (uint32_t k = 0; k < n; k++) s->rank[k] = many[height[k]]++;
}

static void rank_as_it_is(sequencer *s) {
    for (uint32_t k = 0; k < s->f->kernels; k++) s->rank[k] = k;
}

/* ---- the list of what is ready --------------------------------------------------------------- */

/* First what needs no more memory, last what would rather wait; by ranks among them. */
static uint64_t key_of(const sequencer *s, uint32_t k) {
    uint64_t turn = s->soft[k] ? 2 : s->net[k] > 0;
    return turn << 32 | s->rank[k];
}

static void push(sequencer *s, uint32_t k) {
    uint64_t key = key_of(s, k);
    uint32_t i = s->heaps++;
    for (; i && s->heap[(i - 1) / 2] > key; i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = key;
}

static uint64_t pop(sequencer *s) {
    uint64_t top = s->heap[0], last = s->heap[--s->heaps];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < s->heaps; i = child) {
        if (child + 1 < s->heaps && s->heap[child + 1] < s->heap[child]) child++;
        if (s->heap[child] >= last) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* Its turn may have come nearer: then it is in the list once more. */
static void renew(sequencer *s, uint32_t k, uint64_t was) {
    if (!s->done[k] && !s->waits[k] && key_of(s, k) < was) push(s, k);
}

/* The one reader of v that is left lets it go. */
static void last_reader(sequencer *s, const value *v) {
    for (uint32_t i = 0; i < v->readers; i++) {
        uint32_t k = s->reader[v->first + i];
        if (s->done[k]) continue;
        uint64_t was = key_of(s, k);
        s->net[k] = sat_sub(s->net[k], v->bytes);
        renew(s, k, was);
        return;
    }
}

static void run(sequencer *s, uint32_t k) {
    const fuse_kernel *x = &s->f->kernel[k];
    s->done[k] = true;
    for (uint32_t i = 0; i < x->outs; i++) {
        const value *v = value_of(s, x->out[i]);
        for (uint32_t j = 0; j < v->readers; j++) {
            uint32_t to = s->reader[v->first + j];
            if (--s->waits[to] == 0) push(s, to);
        }
    }
    for (uint32_t i = 0; i < x->ins; i++) {
        value *v = value_of(s, x->in[i]);
        if (v->writer == k) continue;
        if (--v->left == 1) last_reader(s, v);
        if (v->over == none || v->over == k) continue;
        uint64_t was = key_of(s, v->over);
        s->soft[v->over]--;
        renew(s, v->over, was);
    }
}

static void begin(sequencer *s) {
    const fusion *f = s->f;
    memset(s->waits, 0, f->kernels * sizeof *s->waits);
    memset(s->soft, 0, f->kernels * sizeof *s->soft);
    memset(s->net, 0, f->kernels * sizeof *s->net);
    memset(s->done, 0, f->kernels);
    for (uint32_t i = 0; i < f->nodes; i++) s->value[i].left = s->value[i].readers;
    for (uint32_t k = 0; k < f->kernels; k++) {
        for (uint32_t i = 0; i < f->kernel[k].outs; i++)
            s->net[k] = sat_add(s->net[k], value_of(s, f->kernel[k].out[i])->bytes);
        for (uint32_t i = 0; i < f->kernel[k].ins; i++) {
            const value *v = value_of(s, f->kernel[k].in[i]);
            if (v->writer == k) continue;
            if (v->readers == 1) s->net[k] = sat_sub(s->net[k], v->bytes);
            s->waits[k] += v->writer != none;
            if (v->over != none && v->over != k) s->soft[v->over]++;
        }
    }
}

/* By ranks, as far as it goes. */
static void list_kernels(sequencer *s, uint32_t *order) {
    uint32_t n = s->f->kernels, count = 0;
    uint32_t *of_rank = arena_alloc(s->a, (n + 1) * sizeof *of_rank);
    for (uint32_t k = 0; k < n; k++) of_rank[s->rank[k]] = k;
    begin(s);
    for (uint32_t k = 0; k < n; k++)
        if (!s->waits[k]) push(s, k);
    while (s->heaps) {
        uint32_t k = of_rank[(uint32_t)pop(s)];
        if (s->done[k]) continue;
        order[count++] = k;
        run(s, k);
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The most bytes alive at once in this order, and those that cannot lie over leaves. */
static int64_t bytes_needed(sequencer *s, const uint32_t *order) {
    const fusion *f = s->f;
    int64_t live = 0, most = 0, apart = 0;
    for (uint32_t i = 0; i < f->nodes; i++) {
        s->value[i].left = s->value[i].readers;
        s->value[i].apart = false;
    }
    memset(s->done, 0, f->kernels);
    for (uint32_t t = 0; t < f->kernels; t++) {
        const fuse_kernel *x = &f->kernel[order[t]];
        s->done[order[t]] = true;
        for (uint32_t i = 0; i < x->outs; i++) live = sat_add(live, value_of(s, x->out[i])->bytes);
        if (live > most) most = live;
        for (uint32_t i = 0; i < x->ins; i++) {
            value *v = value_of(s, x->in[i]);
            if (v->writer == order[t]) continue;
            if (--v->left == 0) live = sat_sub(live, v->bytes);
            if (v->over == none || v->over == order[t] || !s->done[v->over] || v->apart) continue;
            apart = sat_add(apart, v->over_bytes);
            v->apart = true;
        }
    }
    return sat_add(most, apart);
}

static void (*const rankers[])(sequencer *s) = {rank_as_it_is, rank_depth_first, rank_late};

void fuse_sequence(fusion *f, arena *scratch, uint32_t roots, const node_id *root,
                   const uint32_t *over) {
    uint32_t n = f->kernels;
    for (uint32_t k = 0; k < f->kernels; k++)
        if (f->kernel[k].piece.into && !f->kernel[k].piece.bordered) return;
    if (n < 3) return;
    sequencer s = {.f = f, .a = scratch};
    s.value = arena_zeroed(scratch, (f->nodes + 1) * sizeof *s.value);
    s.at = arena_zeroed(scratch, (n + 1) * sizeof *s.at);
    s.depth = arena_zeroed(scratch, (n + 1) * sizeof *s.depth);
    s.rank = arena_zeroed(scratch, (n + 1) * sizeof *s.rank);
    s.waits = arena_alloc(scratch, (n + 1) * sizeof *s.waits);
    s.soft = arena_alloc(scratch, (n + 1) * sizeof *s.soft);
    s.net = arena_alloc(scratch, (n + 1) * sizeof *s.net);
    s.done = arena_zeroed(scratch, n + 1);
    s.heap = arena_alloc(scratch, (4 * (size_t)n + 1) * sizeof *s.heap);
    find_values(&s, roots, root);
    find_producers(&s);
    find_overs(&s, roots, root, over);
    uint32_t *order = arena_alloc(scratch, (n + 1) * sizeof *order);
    fuse_kernel *best = arena_alloc(scratch, (n + 1) * sizeof *best);
    for (uint32_t k = 0; k < n; k++) order[k] = k;
    int64_t least = bytes_needed(&s, order), as_it_was = least;
    for (size_t i = 0; i < sizeof rankers / sizeof *rankers; i++) {
        rankers[i](&s);
        list_kernels(&s, order);
        int64_t bytes = bytes_needed(&s, order);
        if (bytes >= least) continue;
        least = bytes;
        for (uint32_t t = 0; t < n; t++) best[t] = f->kernel[order[t]];
    }
    if (least < as_it_was - as_it_was / 16) f->kernel = best; /* memory.c may not use up less */
}
