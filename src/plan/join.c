/* join.c - values made of pieces: each is written to its place by the kernel that computes it.
 *
 * A JOIN may be computed at each use, by a choice among its pieces; for a few pieces and one
 * elementwise consumer that is best, since nothing is stored. But each element then costs a test
 * for every piece, and where pieces are not merely loaded their computation, too. Otherwise the
 * JOIN is stored, and has no kernel of its own: each piece is the root of one, which stores into
 * the JOIN's memory from the piece's first element on, with the strides of the whole. What a piece
 * is made of goes into its kernel as into any other; a piece that is in memory already is copied.
 * So the work follows the bytes, and equal pieces are one program, launched once for all of them,
 * since where a piece begins is a fact of the launch (run/plan.c).
 *
 * A JOIN that is a piece of another and nothing else has no memory: its pieces go into the larger
 * one, and the tree that a list of a thousand pieces is (graph/pieces.c) is a list again.
 *
 * Columns, two to four pieces of one element along the last axis that are computed by element, as
 * the parts of complex numbers, are stored by one kernel: its loops go along the other axes and
 * store each column in turn, so that what columns share is loaded and computed once, and whole
 * vectors of them can be interleaved (emit/llvm).
 *
 * Readers of the JOIN wait for all its pieces. Pieces never wait for each other.
 *
 * A PAD of what a contraction makes is such a thing, too: a piece among zeros. Under loops over the
 * padded axes the contraction would compute with masks, so its kernel has the loops of the piece,
 * stores it into the PAD's memory, and then the zeros in loops beside these. */
#include "plan/fuse.h"

enum { MOST_BEHIND_COLUMNS = 128 }; /* nodes that columns are made of */

static bool is_join(const graph_node *x) {
    return x->op == OP_JOIN && !node_is_memory(x);
}

/* Nobody else wants it. */
static bool is_inner(const fuse *fu, node_id n) {
    const fuse_node *f = fuse_info(fu, n);
    return is_join(node_at(fu->g, n)) && f->consumers == 1 && !f->is_root && !f->must_store &&
           !fu->terms.everything_stored;
}

/* Sources come first in the order. Gaps, which are constants, are chosen for nothing. */
void fuse_count_pieces(fuse *fu) {
    for (uint32_t i = 0; i < fu->f->nodes; i++) {
        const graph_node *x = node_at(fu->g, fu->f->order[i]);
        for (int s = 0; is_join(x) && s < x->sources; s++) {
            const graph_node *piece = node_at(fu->g, x->src[s]);
            fu->node[i].pieces +=
                is_join(piece) ? fuse_info(fu, x->src[s])->pieces : piece->op != OP_CONST;
        }
    }
}

void fuse_push_pieces(fuse *fu, const graph_node *x, const use *u) {
    for (int s = 0; s < x->sources; s++) {
        use v = *u;
        int rank;
        const int64_t *dims = node_dims(fu->g, x->src[s], &rank);
        v.exact = v.straight = false;
        v.whole = 0;
        for (int i = 0; i < rank; i++)
            if ((sym)dims[i] == SYM_ONE) v.mask[i] = 0;
        if (fuse_info(fu, x->src[s])->columns) /* with the root's, of which it is a part */
            fuse_push_pieces(fu, node_at(fu->g, x->src[s]), &v);
        else
            fuse_add_use(fu, x->src[s], &v);
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Is all that is computed for it, as far as it can be in one kernel with it, computed by element?
 * What is seen before is looked at again: there are few. */
static bool is_by_element(const fuse *fu, node_id piece) {
    node_id behind[MOST_BEHIND_COLUMNS] = {piece};
    int count = 1;
    for (int i = 0; i < count; i++) {
        const graph_node *x = node_at(fu->g, behind[i]);
        const fuse_node *f = fuse_info(fu, behind[i]);
        int c = op_rows[x->op].class_;
        if (node_is_memory(x) || f->is_root || f->must_store || x->op == OP_CONTIGUOUS) continue;
        if (c == CLASS_LEAF || c == CLASS_CALL || c == CLASS_LOOP) continue;
        if (c != CLASS_ELEM && c != CLASS_MOVE && c != CLASS_JOIN && c != CLASS_MARK) return false;
        for (int s = 0; s < x->sources; s++) {
            int known = 0;
            while (known < count && behind[known] != x->src[s]) known++;
            if (known == MOST_BEHIND_COLUMNS) return false;
            if (known == count) behind[count++] = x->src[s];
        }
    }
    return true;
}

/* The pieces of n, if each is one column of it, and computed by element; 0: they are not. */
static int columns_of(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    int rank, count = 0, axis = node_join_axis(fu->g, x);
    node_dims(fu->g, n, &rank);
    if (axis != rank - 1) return 0;
    for (int s = 0; s < x->sources; s++) {
        bool column = (sym)node_dims(fu->g, x->src[s], &rank)[axis] == SYM_ONE;
        int more = column                    ? is_by_element(fu, x->src[s])
                   : is_inner(fu, x->src[s]) ? columns_of(fu, x->src[s])
                                             : 0;
        if (!more) return 0;
        count += more;
    }
    return count;
}

static void mark_inner(fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    int rank;
    for (int s = 0; s < x->sources; s++) {
        if ((sym)node_dims(fu->g, x->src[s], &rank)[node_join_axis(fu->g, x)] == SYM_ONE) continue;
        fuse_node *f = fuse_info(fu, x->src[s]);
        f->placed = true;
        f->columns = 1;
        mark_inner(fu, x->src[s]);
    }
}

bool fuse_stores_columns(fuse *fu, node_id n) {
    fuse_node *f = fuse_info(fu, n);
    if (fu->terms.everything_stored || f->pieces > FUSE_MAX_CHOICES) return false;
    int columns = columns_of(fu, n);
    if (columns < 2 || columns > FUSE_MAX_CHOICES) return false;
    f->columns = (uint8_t)columns;
    mark_inner(fu, n);
    return true;
}

bool fuse_writes_pieces(const fuse *fu, node_id n, double extra) {
    const graph_node *x = node_at(fu->g, n);
    const fuse_node *f = fuse_info(fu, n);
    double size = fuse_size(fu, n), each = 0;
    if (f->pieces > FUSE_MAX_CHOICES) return true;
    for (int s = 0; s < x->sources; s++)
        each += fuse_size(fu, x->src[s]) * fuse_info(fu, x->src[s])->cost;
    const machine *m = fu->terms.machine;
    double stored = size * (double)m->store_load_cost + f->pieces * (double)m->kernel_cost;
    return extra + size * f->cost - each > stored;
}

/* A contraction's axes are the kernel's loops, or its register tile would go across them. One of
 * scores becomes one kernel with others over the same rows, which pieces do not. */
bool fuse_piece_takes(const fuse *fu, const graph_node *x, const use *u) {
    uint64_t seen = 0;
    if (!fu->group_[u->group]->piece.into || !fuse_has_contraction(fu, x)) return true;
    for (int i = 0; i < u->rank; i++) {
        uint64_t m = u->mask[i];
        if (m & (m - 1) || m & seen) return false;
        seen |= m;
    }
    return !fuse_scores_behind(fu, x->src[0], NULL) && !fuse_scores_behind(fu, x->src[1], NULL);
}

/* ---- assembling ------------------------------------------------------------------------------ */

typedef struct place {
    node_id node;
    sym *at; /* in the whole */
} place;

typedef struct assembly {
    fuse *fu;
    node_id whole;
    uint32_t *reader, readers;
    place *todo; /* the first on top */
    uint32_t todos, cap;
} assembly;

/* Do the piece's elements lie side by side? Its axes are one or whole, but for one in between. */
static bool is_dense(const graph *g, node_id whole, node_id piece) {
    int rank;
    const int64_t *all = node_dims(g, whole, &rank), *own = node_dims(g, piece, &rank);
    int axis = 0;
    while (axis < rank && own[axis] == SYM_ONE) axis++;
    for (axis++; axis < rank; axis++)
        if (own[axis] != all[axis]) return false;
    return true;
}

static void open_piece(assembly *p, const place *piece) {
    fuse *fu = p->fu;
    use u;
    group *k = fuse_open_group(fu, piece->node, &u);
    k->piece = (fuse_piece){.into = p->whole, .bordered = !piece->at, .at = piece->at};
    k->flat = piece->at && is_dense(fu->g, p->whole, piece->node);
    fuse_add_use(fu, piece->node, &u);
    fuse_add_node(fu, &k->out, &k->outs, &k->out_cap, p->whole);
    for (uint32_t i = 0; i < p->readers; i++) fuse_add_reader(fu, u.group, p->reader[i]);
}

static void push(assembly *p, node_id n, const sym *at, int rank) {
    sym *copy = arena_alloc(p->fu->a, (size_t)(rank + 1) * sizeof *copy);
    memcpy(copy, at, (size_t)rank * sizeof *copy);
    p->todo = arena_grow(p->fu->a, p->todo, &p->cap, p->todos + 1, sizeof *p->todo);
    p->todo[p->todos++] = (place){n, copy};
}

/* The sources of the join at that place, the last one first. */
static void push_sources(assembly *p, node_id join, const sym *whole_at) {
    graph *g = p->fu->g;
    const graph_node x = *node_at(g, join);
    int rank, axis = node_join_axis(g, &x);
    sym at[QN_MAX_RANK];
    const int64_t *dims = node_dims(g, join, &rank);
    memcpy(at, whole_at, (size_t)rank * sizeof *at);
    at[axis] = sym_add(g->syms, at[axis], (sym)dims[axis]);
    for (int s = x.sources; s-- > 0;) {
        sym size = (sym)node_dims(g, x.src[s], &rank)[axis];
        at[axis] = sym_sub(g->syms, at[axis], size);
        push(p, x.src[s], at, rank);
    }
}

/* The kernels that use it, each once; they are in the order of uses. */
static void find_readers(assembly *p) {
    fuse *fu = p->fu;
    const fuse_node *f = fuse_info(fu, p->whole);
    uint32_t cap = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        group *k = fu->group_[f->uses[i].group];
        fuse_add_node(fu, &k->in, &k->ins, &k->in_cap, p->whole);
        fuse_add_node(fu, &p->reader, &p->readers, &cap, f->uses[i].group);
    }
}

void fuse_assemble(fuse *fu, node_id n) {
    const sym start[QN_MAX_RANK] = {SYM_ZERO};
    assembly p = {.fu = fu, .whole = n};
    fu->f->stored[fu->f->pos[n] - 1] = 1;
    find_readers(&p);
    push_sources(&p, n, start);
    while (p.todos) {
        const place top = p.todo[--p.todos];
        if (is_inner(fu, top.node)) {
            fuse_info(fu, top.node)->placed = true;
            push_sources(&p, top.node, top.at);
        } else {
            open_piece(&p, &top);
        }
    }
}

/* ---- padding --------------------------------------------------------------------------------- */

enum { MOST_BEHIND = 16 };

bool fuse_borders_contraction(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    node_id behind[MOST_BEHIND] = {x->src[0]};
    int attrs, count = 1;
    if (x->op != OP_PAD || !fu->terms.workers || fu->terms.everything_stored) return false;
    const int64_t *attr = graph_tuple_get(fu->g, x->attr, &attrs);
    for (int i = 2; i < attrs; i += 3)
        if (attr[i]) return false;
    if (fuse_info(fu, x->src[0])->consumers > 1 || fuse_info(fu, x->src[0])->is_root) return false;
    for (int i = 0; i < count; i++) {
        const graph_node *s = node_at(fu->g, behind[i]);
        if (node_is_memory(s) || fuse_is_stored(fu->f, behind[i])) continue;
        if (fuse_has_contraction(fu, s)) return true;
        for (int j = 0; op_rows[s->op].class_ == CLASS_ELEM && j < s->sources; j++)
            if (count < MOST_BEHIND) behind[count++] = s->src[j];
    }
    return false;
}

void fuse_store_bordered(fuse *fu, node_id n) {
    assembly p = {.fu = fu, .whole = n};
    fu->f->stored[fu->f->pos[n] - 1] = 1;
    find_readers(&p);
    open_piece(&p, &(place){.node = node_at(fu->g, n)->src[0]});
}

sym fuse_piece_base(graph *g, const fuse_piece *p) {
    int rank;
    const int64_t *dims = node_dims(g, p->into, &rank);
    sym base = SYM_ZERO;
    for (int i = 0; i < rank; i++)
        base = sym_add(g->syms, sym_mul(g->syms, base, (sym)dims[i]), p->at[i]);
    return base;
}
