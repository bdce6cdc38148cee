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
 * A value has several writers where it is made of pieces (join.c): its memory is there from the
 * first of them on, and its readers wait for all. */
#include "plan/plan.h"

#include <stdlib.h>

static const uint32_t none = UINT32_MAX;

enum { LITTLE = 1024 }; /* such a part of the largest temporary is */

/* Kernels, and how many of them have not run. */
typedef struct users {
    uint32_t *kernel, count, left;
} users;

typedef struct value { /* what is in memory, by place */
    int64_t bytes;     /* of a temporary; else 0 */
    users writers, readers;
    uint32_t depth, height; /* kernels in the longest way to it, and from it */
    uint32_t by;            /* the last kernel that was looked at and writes it; see mark_own */
    uint32_t over;          /* of a leaf: the kernel that may write there, */
    int64_t over_bytes;     /* so many bytes, */
    bool apart;             /* which cannot */
} value;

typedef struct sequencer {
    const fusion *f;
    arena *a;
    value *value;
    value **source;         /* what kernel k reads and others write: from at[k] to at[k + 1] */
    uint32_t *at;           /* the deepest first */
    uint32_t *rank;         /* in the order that is tried */
    uint32_t *waits, *soft; /* sources that are not there; readers of what it may write over */
    int64_t *net;           /* bytes that it stores, less what nobody reads afterwards */
    int64_t little;         /* bytes that do not matter */
    bool *done;
    uint64_t *heap; /* of kernels that are ready; see key_of */
    uint32_t heaps;
} sequencer;

static value *value_of(const sequencer *s, node_id n) {
    return &s->value[s->f->pos[n] - 1];
}

/* ---- who reads and writes what --------------------------------------------------------------- */

/* What a kernel reads and has written itself makes it wait for nothing: own() says so of what this
 * has been called for last. */
static const fuse_kernel *mark_own(const sequencer *s, uint32_t k) {
    const fuse_kernel *x = &s->f->kernel[k];
    for (uint32_t i = 0; i < x->outs; i++) value_of(s, x->out[i])->by = k;
    return x;
}

static bool own(const value *v, uint32_t k) {
    return v->by == k;
}

/* Once to count, once to write down. */
static void find_users(sequencer *s, bool count) {
    for (uint32_t k = 0; k < s->f->kernels; k++) {
        const fuse_kernel *x = mark_own(s, k);
        for (uint32_t i = 0; i < x->outs; i++) {
            users *u = &value_of(s, x->out[i])->writers;
            if (count)
                u->count++;
            else
                u->kernel[u->left++] = k;
        }
        for (uint32_t i = 0; i < x->ins; i++) {
            value *v = value_of(s, x->in[i]);
            if (own(v, k)) continue;
            if (count)
                v->readers.count++;
            else
                v->readers.kernel[v->readers.left++] = k;
        }
    }
}

static void make_users(sequencer *s, users *u) {
    u->kernel = arena_alloc(s->a, (u->count + 1) * sizeof *u->kernel);
}

static void find_values(sequencer *s, uint32_t roots, const node_id *root) {
    const fusion *f = s->f;
    graph *g = f->g;
    for (uint32_t i = 0; i < f->nodes; i++) s->value[i].over = s->value[i].by = none;
    find_users(s, true);
    for (uint32_t i = 0; i < f->nodes; i++) {
        value *v = &s->value[i];
        const graph_node *x = node_at(g, f->order[i]);
        if (v->writers.count)
            v->bytes =
                sat_mul(shape_numel_hi(g, x->shape), (int64_t)qn_dtype_size((qn_dtype)x->dtype));
        make_users(s, &v->writers);
        make_users(s, &v->readers);
    }
    for (uint32_t i = 0; i < roots; i++) value_of(s, root[i])->bytes = 0;
    for (uint32_t i = 0; i < f->nodes; i++)
        if (s->value[i].bytes / LITTLE > s->little) s->little = s->value[i].bytes / LITTLE;
    find_users(s, false);
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
        const users *writers = &value_of(s, root[i])->writers;
        if (writers->count != 1) continue;
        v->over = writers->kernel[0];
        v->over_bytes =
            sat_mul(shape_numel_hi(f->g, x->shape), (int64_t)qn_dtype_size((qn_dtype)x->dtype));
    }
}

static int deeper(const void *a, const void *b) {
    const value *x = *(value *const *)a, *y = *(value *const *)b;
    if (x->depth != y->depth) return x->depth > y->depth ? -1 : 1;
    uint32_t i = x->writers.kernel[0], j = y->writers.kernel[0];
    return i < j ? -1 : i > j;
}

static void find_sources(sequencer *s) {
    const fusion *f = s->f;
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->kernels; k++) n += f->kernel[k].ins;
    s->source = arena_alloc(s->a, (n + 1) * sizeof(value *));
    n = 0;
    for (uint32_t k = 0; k < f->kernels; k++) {
        const fuse_kernel *x = mark_own(s, k);
        uint32_t depth = 0;
        s->at[k] = n;
        for (uint32_t i = 0; i < x->ins; i++) {
            value *v = value_of(s, x->in[i]);
            if (!v->writers.count || own(v, k)) continue;
            s->source[n++] = v;
            if (v->depth > depth) depth = v->depth;
        }
        qsort(s->source + s->at[k], n - s->at[k], sizeof(value *), deeper);
        for (uint32_t i = 0; i < x->outs; i++) {
            value *v = value_of(s, x->out[i]);
            if (v->depth <= depth) v->depth = depth + 1;
        }
    }
    s->at[f->kernels] = n;
}

/* ---- depth first ----------------------------------------------------------------------------- */

/* The writers of each value are gone through once, by whoever reads it first. */
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
        users *from = &s->source[s->at[k] + next[k]]->writers;
        if (!from->left) {
            next[k]++;
            continue;
        }
        uint32_t writer = from->kernel[from->count - from->left--];
        if (s->done[writer]) continue;
        s->done[writer] = true;
        stack[depth++] = writer;
    }
}

static void all_left(sequencer *s) {
    for (uint32_t i = 0; i < s->f->nodes; i++) {
        s->value[i].writers.left = s->value[i].writers.count;
        s->value[i].readers.left = s->value[i].readers.count;
    }
}

static bool is_read(const sequencer *s, uint32_t k) {
    const fuse_kernel *x = &s->f->kernel[k];
    for (uint32_t i = 0; i < x->outs; i++)
        if (value_of(s, x->out[i])->readers.count) return true;
    return false;
}

static void rank_depth_first(sequencer *s) {
    uint32_t n = s->f->kernels, ranked = 0;
    uint32_t *stack = arena_alloc(s->a, (n + 1) * sizeof *stack);
    uint32_t *next = arena_zeroed(s->a, (n + 1) * sizeof *next);
    memset(s->done, 0, n);
    all_left(s);
    for (uint32_t k = 0; k < n; k++)
        if (!is_read(s, k)) rank_from(s, k, stack, next, &ranked);
}

/* ---- as late as possible --------------------------------------------------------------------- */

/* By decreasing height, and the graph's order among kernels of one height. */
static void rank_late(sequencer *s) {
    uint32_t n = s->f->kernels, ranked = 0;
    uint32_t *height = arena_zeroed(s->a, (n + 1) * sizeof *height);
    uint32_t *many = arena_zeroed(s->a, (n + 1) * sizeof *many); /* of that height, then of more */
    for (uint32_t k = n; k-- > 0;) {
        const fuse_kernel *x = &s->f->kernel[k];
        for (uint32_t i = 0; i < x->outs; i++) {
            const value *v = value_of(s, x->out[i]);
            if (v->height > height[k]) height[k] = v->height;
        }
        for (uint32_t i = s->at[k]; i < s->at[k + 1]; i++)
            if (s->source[i]->height <= height[k]) s->source[i]->height = height[k] + 1;
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

/* First what needs no more memory, or next to none, for much may wait for it; last what would
 * rather wait itself; by ranks among them. */
static uint64_t key_of(const sequencer *s, uint32_t k) {
    uint64_t turn = s->soft[k] ? 2 : s->net[k] > s->little;
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

static void needs_less(sequencer *s, uint32_t k, int64_t bytes) {
    uint64_t was = key_of(s, k);
    s->net[k] = sat_sub(s->net[k], bytes);
    renew(s, k, was);
}

/* The one reader of v that is left lets it go. */
static void last_reader(sequencer *s, const value *v) {
    for (uint32_t i = 0; i < v->readers.count; i++) {
        if (s->done[v->readers.kernel[i]]) continue;
        needs_less(s, v->readers.kernel[i], v->bytes);
        return;
    }
}

/* Of a value of pieces the first one is there, and with it memory for the others. */
static void first_writer(sequencer *s, const value *v) {
    for (uint32_t i = 0; i < v->writers.count; i++)
        if (!s->done[v->writers.kernel[i]]) needs_less(s, v->writers.kernel[i], v->bytes);
}

static void run(sequencer *s, uint32_t k) {
    const fuse_kernel *x = mark_own(s, k);
    s->done[k] = true;
    for (uint32_t i = 0; i < x->outs; i++) {
        value *v = value_of(s, x->out[i]);
        if (v->writers.left == v->writers.count) first_writer(s, v);
        if (--v->writers.left) continue;
        for (uint32_t j = 0; j < v->readers.count; j++) {
            uint32_t to = v->readers.kernel[j];
            if (--s->waits[to] == 0) push(s, to);
        }
    }
    for (uint32_t i = 0; i < x->ins; i++) {
        value *v = value_of(s, x->in[i]);
        if (own(v, k)) continue;
        if (--v->readers.left == 1) last_reader(s, v);
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
    all_left(s);
    for (uint32_t k = 0; k < f->kernels; k++) {
        const fuse_kernel *x = mark_own(s, k);
        for (uint32_t i = 0; i < x->outs; i++)
            s->net[k] = sat_add(s->net[k], value_of(s, x->out[i])->bytes);
        for (uint32_t i = 0; i < x->ins; i++) {
            const value *v = value_of(s, x->in[i]);
            if (own(v, k)) continue;
            if (v->readers.count == 1) s->net[k] = sat_sub(s->net[k], v->bytes);
            s->waits[k] += v->writers.count > 0;
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
    all_left(s);
    for (uint32_t i = 0; i < f->nodes; i++) s->value[i].apart = false;
    memset(s->done, 0, f->kernels);
    for (uint32_t t = 0; t < f->kernels; t++) {
        const fuse_kernel *x = mark_own(s, order[t]);
        s->done[order[t]] = true;
        for (uint32_t i = 0; i < x->outs; i++) {
            value *v = value_of(s, x->out[i]);
            if (v->writers.left-- == v->writers.count) live = sat_add(live, v->bytes);
        }
        if (live > most) most = live;
        for (uint32_t i = 0; i < x->ins; i++) {
            value *v = value_of(s, x->in[i]);
            if (own(v, order[t])) continue;
            if (--v->readers.left == 0) live = sat_sub(live, v->bytes);
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
    if (n < 3) return;
    sequencer s = {.f = f, .a = scratch};
    s.value = arena_zeroed(scratch, (f->nodes + 1) * sizeof *s.value);
    s.at = arena_zeroed(scratch, (n + 1) * sizeof *s.at);
    s.rank = arena_zeroed(scratch, (n + 1) * sizeof *s.rank);
    s.waits = arena_alloc(scratch, (n + 1) * sizeof *s.waits);
    s.soft = arena_alloc(scratch, (n + 1) * sizeof *s.soft);
    s.net = arena_alloc(scratch, (n + 1) * sizeof *s.net);
    s.done = arena_zeroed(scratch, n + 1);
    s.heap = arena_alloc(scratch, (4 * (size_t)n + 1) * sizeof *s.heap);
    find_values(&s, roots, root);
    find_sources(&s);
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
