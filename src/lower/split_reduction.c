/* split_reduction.c - split-k: a reduction to few elements as two kernels, so that all threads have
 * work.
 *
 * Where outputs are few, so are the parallel iterations, and the reduction inside, perhaps over
 * millions of elements, would run on one thread. Such a kernel is split in two. The first has a
 * loop over parts of the reduction and stores each part's result:
 *
 *   for i { for p < parts { def s = identity   for r' { s op= x }   w[parts*i + p] = s } }
 *
 * and the second is the original kernel with its reduction replaced by one over the parts:
 *
 *   for i { def t   for p < parts { t op= w[parts*i + p] }   .. }
 *
 * This is legal by the monoid's row, also for states of several components, and for several states
 * that one loop makes. Both are kernels like any other and get schedules of their own: the first,
 * of a product of few rows by few columns, that of a batch of products, whose register tiles are
 * the parallel items. The number of parts follows from constant sizes, and not from the machine:
 * results have the same bits on any machine. */
#include "lower/lower.h"

enum {
    FEW = 16,              /* parallel iterations that are too few */
    FEW_PARTS = FEW / 4,   /* of a reduction, at least: fewer gain too little */
    ACROSS = 64,           /* contiguous outputs that one iteration computes */
    TILE = 24,             /* rows, columns of a product that one iteration computes, about */
    MOST_OUTPUTS = 1 << 14 /* that are considered: more are parallel enough */
};

/* The limits of a part of a reduction: */
typedef struct part_limits {
    int64_t size;  /* its elements, about */
    int64_t least; /* iterations at least */
    int64_t most;  /* parts of a reduction */
} part_limits;

static const part_limits plain = {1 << 15, 1, 256}, product = {1 << 20, 1 << 12, 32};

typedef struct splitting {
    kernel *k;
    stmt_id body;       /* where the reduction stands: the root, or the innermost output loop */
    stmt_id loop, leaf; /* the reduction's outermost loop, its innermost: updates only */
    stmt_id cut;        /* which of its loops is split into parts */
    int tiles;
    mem_id to[SPLIT_PARTS];   /* its accumulators */
    mem_id part[SPLIT_PARTS]; /* the results of the parts */
    int64_t outputs, size;    /* of the reduction */
    int64_t parts, each;      /* iterations of `cut` in a part */
    const part_limits *limits;
    int64_t items; /* parallel iterations without splitting */
    bool across;   /* contiguous elements belong to different outputs */
} splitting;

static bool only_loop(const kernel *k, stmt_id block) {
    stmt_id first = ir_s(k, block)->first;
    return first && first == ir_s(k, block)->last && ir_s(k, first)->kind == STMT_LOOP;
}

static bool constant_trips(const kernel *k, stmt_id loop, int64_t *trips, int64_t most) {
    int64_t n;
    if (ir_s(k, loop)->loop != LOOP_SERIAL || !sym_is_const(k->syms, ir_s(k, loop)->l.extent, &n))
        return false;
    if (n < 1 || n > most / *trips) return false;
    *trips *= n;
    return true;
}

/* Find the body of the loops over outputs: the innermost that holds more than a loop. */
static bool find_body(splitting *p) {
    p->body = p->k->root;
    p->outputs = 1;
    while (only_loop(p->k, p->body)) {
        p->body = ir_s(p->k, p->body)->first;
        if (!constant_trips(p->k, p->body, &p->outputs, MOST_OUTPUTS)) return false;
    }
    return true;
}

/* An update of tiles that are defined in the body. */
static bool read_update(splitting *p, stmt_id loop, stmt_id update) {
    kernel *k = p->k;
    const ir_stmt *u = ir_s(k, update);
    if (u->kind != STMT_STORE || !monoid_commutes(u->monoid) || u->store.dyn) return false;
    if (p->tiles + u->n > SPLIT_PARTS) return false;
    for (int i = 0; i < u->n; i++) {
        bool defined = false;
        p->to[p->tiles] = u->store.mem[i];
        for (stmt_id s = ir_s(k, p->body)->first; s && s != loop; s = ir_s(k, s)->next)
            defined |= ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == u->store.mem[i];
        if (!defined || ir_m(k, u->store.mem[i])->size != SYM_ONE) return false;
        p->tiles++;
    }
    return true;
}

/* Perfectly nested loops with updates of tiles of the body inside, and no other tile read: a part's
 * result then depends on the part alone. */
static bool read_reduction(splitting *p, stmt_id loop) {
    kernel *k = p->k;
    p->size = 1;
    p->tiles = 0;
    for (p->leaf = loop;; p->leaf = ir_s(k, p->leaf)->first) {
        const ir_stmt *l = ir_s(k, p->leaf);
        if (!l->first || !constant_trips(k, p->leaf, &p->size, INT64_MAX / MOST_OUTPUTS))
            return false;
        if (l->first != l->last || ir_s(k, l->first)->kind != STMT_LOOP) break;
    }
    for (stmt_id s = ir_s(k, p->leaf)->first; s; s = ir_s(k, s)->next)
        if (!read_update(p, loop, s)) return false;
    ir_access *t;
    uint32_t n = ir_accesses(k, loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *m = ir_m(k, t[i].mem);
        if (t[i].load && (m->scope != MEM_ARG || (m->access & ACCESS_WRITE))) return false;
    }
    p->loop = loop;
    return true;
}

/* Does the reduction load contiguous memory for neighbouring outputs? */
static bool goes_across(const splitting *p, uint32_t n, const ir_access *t) {
    for (uint32_t i = 0; i < n && p->body != p->k->root; i++) {
        sym rest;
        int64_t step;
        if (t[i].load &&
            sym_split(p->k->syms, t[i].index, ir_s(p->k, p->body)->l.var, &step, &rest) &&
            step == 1)
            return true;
    }
    return false;
}

/* The loads, a bit for each, that depend on a loop; all of them where they are too many. */
static uint64_t moved_by(const splitting *p, stmt_id loop, uint32_t n, const ir_access *t) {
    uint64_t moved = n > 64 ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < n && i < 64; i++)
        if (t[i].load && sym_uses(p->k->syms, t[i].index, ir_s(p->k, loop)->l.var))
            moved |= (uint64_t)1 << i;
    return moved;
}

/* Rows by columns: some loads depend on one output loop, and others on another. It is asked of any
 * monoid and any terms, distances as well as products, and of several sums at once, which
 * contraction_of does not know. Sets the iterations that are tiles of both sides; loops on which
 * both depend are a batch. */
static bool has_sides(splitting *p, uint32_t n, const ir_access *t) {
    kernel *k = p->k;
    uint64_t side[2] = {0, 0};
    for (stmt_id s = p->body; s != k->root && !side[1]; s = ir_s(k, s)->parent)
        for (stmt_id r = ir_s(k, s)->parent; r != k->root && !side[1]; r = ir_s(k, r)->parent) {
            uint64_t a = moved_by(p, s, n, t), b = moved_by(p, r, n, t);
            if (a && b && !(a & b)) side[0] = a, side[1] = b;
        }
    if (!side[1]) return false;
    int64_t trips[3] = {1, 1, 1}; /* of one side's, the other's, both sides' loops */
    for (stmt_id s = p->body; s != k->root; s = ir_s(k, s)->parent) {
        uint64_t moved = moved_by(p, s, n, t);
        trips[moved & side[0] ? moved & side[1] ? 2 : 0 : 1] *= ir_most_trips(k, s);
    }
    p->items = trips[2] * ((trips[0] + TILE - 1) / TILE) * ((trips[1] + TILE - 1) / TILE);
    return true;
}

static void choose_limits(splitting *p) {
    ir_access *t;
    uint32_t n = ir_accesses(p->k, p->loop, &t);
    bool tiles = has_sides(p, n, t);
    p->limits = tiles ? &product : &plain;
    p->across = tiles || goes_across(p, n, t);
    if (!tiles) p->items = p->outputs / (p->across ? ACROSS : 1);
}

/* Iterations of a part of the innermost loop, for about so many parts: whole vectors, and as many
 * in the last part as in the others where such a number exists. */
static int64_t vectors_of_part(int64_t trips, int64_t parts) {
    int64_t each = ceil_div(trips, parts);
    for (int64_t n = parts * 3 / 2; n > parts / 2 && each >= ACROSS; n--)
        if (trips % n == 0 && trips / n % 16 == 0) return trips / n;
    return each < ACROSS ? each : ceil_div(each, ACROSS) * ACROSS;
}

/* The same of a loop around others, where vectors do not matter: as little as can be is missing in
 * the last part. Of equal ones the nearest number, which is tried first. */
static int64_t trips_of_part(int64_t trips, int64_t parts) {
    int64_t best = trips, least = trips;
    for (int64_t i = 0; i <= parts && parts >= FEW_PARTS; i++) {
        int64_t n = i % 2 ? parts + (i + 1) / 2 : parts - i / 2; /* +1, -1, +2, -2, .. */
        if (n < FEW_PARTS || n > trips) continue;
        int64_t each = ceil_div(trips, n), missing = ceil_div(trips, each) * each - trips;
        if (missing < least) best = each, least = missing;
    }
    return best;
}

/* The outermost loop with enough iterations for the parts, else the longest. */
static void choose_parts(splitting *p) {
    kernel *k = p->k;
    int64_t wanted = p->size * p->outputs / p->limits->size, longest = 0;
    if (wanted > p->size / p->limits->least) wanted = p->size / p->limits->least;
    if (wanted > p->limits->most) wanted = p->limits->most;
    if (wanted < 1) wanted = 1;
    int64_t enough = p->limits == &product && wanted > FEW ? FEW : wanted;
    for (stmt_id s = p->loop;; s = ir_s(k, s)->first) {
        int64_t n = ir_most_trips(k, s);
        if (longest < enough && n > longest) longest = n, p->cut = s;
        if (s == p->leaf) break;
    }
    if (wanted > longest) wanted = longest;
    p->each = (p->cut == p->leaf ? vectors_of_part : trips_of_part)(longest, wanted);
    p->parts = ceil_div(longest, p->each);
}

static bool read_kernel(splitting *p) {
    kernel *k = p->k;
    if (!find_body(p)) return false;
    for (stmt_id s = ir_s(k, p->body)->first; s; s = ir_s(k, s)->next) {
        if (ir_s(k, s)->kind != STMT_LOOP || !read_reduction(p, s)) continue;
        choose_limits(p);
        if (p->items >= FEW || p->size < 8 * p->limits->size / p->outputs) continue;
        choose_parts(p);
        if (p->parts >= FEW_PARTS && p->each <= INT32_MAX) return true; /* loops split by ints */
    }
    return false;
}

/* The index of part number `part` of the output of the loops around. */
static sym part_index(const splitting *p, sym part) {
    kernel *k = p->k;
    sym output = SYM_ZERO, step = SYM_ONE;
    for (stmt_id s = p->body; s != k->root; s = ir_s(k, s)->parent) {
        output = sym_add(k->syms, output, sym_mul(k->syms, step, ir_trip(k, s)));
        step = sym_mul(k->syms, step, ir_s(k, s)->l.extent);
    }
    if (p->across) return sym_add(k->syms, output, sym_mul(k->syms, part, step));
    return sym_add(k->syms, sym_scale(k->syms, output, p->parts), part);
}

static void add_memories(splitting *p, int access, split_part *out) {
    for (int i = 0; i < p->tiles; i++) {
        qn_dtype d = (qn_dtype)ir_m(p->k, p->to[i])->dtype;
        out[i] = (split_part){d, p->outputs * p->parts};
        p->part[i] = ir_arg(p->k, d, sym_const(p->k->syms, out[i].size), access);
    }
}

/* Component i of an update goes to a tile of the part, which is stored at the part's end. */
static void keep_part(splitting *p, stmt_id update, int i, int number, sym index) {
    kernel *k = p->k;
    qn_dtype d = (qn_dtype)ir_m(k, p->to[number])->dtype;
    mem_id s = ir_tile(k, MEM_LOCAL, d, SYM_ONE);
    stmt_id def = ir_def(k, p->loop, s, ir_identity(k, ir_s(k, update)->monoid, i, d));
    ir_move(k, def, p->loop, ir_s(k, p->loop)->first);
    ir_s(k, update)->store.mem[i] = s;
    expr_id value = ir_load(k, s, SYM_ZERO, SYM_TRUE, 0, 0);
    ir_store(k, p->loop, MONOID_SET, (ir_place){p->part[number], index, SYM_TRUE}, value);
}

static bool reduce_parts(splitting *p) {
    kernel *k = p->k;
    for (; p->cut != p->loop; p->cut = ir_s(k, p->cut)->parent) /* the split loop moves outward */
        if (!ir_swap(k, ir_s(k, p->cut)->parent, p->cut, NULL)) return false;
    for (stmt_id s = ir_s(k, p->body)->first, next; s; s = next) {
        next = ir_s(k, s)->next;
        if (s != p->loop) ir_unlink(k, s);
    }
    if (!ir_split(k, p->loop, p->each, ir_fresh_name(k, "part"), NULL, NULL)) return false;
    for (p->leaf = p->loop; only_loop(k, p->leaf);) p->leaf = ir_s(k, p->leaf)->first;
    sym index = part_index(p, ir_trip(k, p->loop));
    int number = 0;
    for (stmt_id s = ir_s(k, p->leaf)->first; s; s = ir_s(k, s)->next)
        for (int i = 0; i < ir_s(k, s)->n; i++) keep_part(p, s, i, number++, index);
    return true;
}

/* Replace each reduction by a loop over its parts. */
static void merge_parts(splitting *p) {
    kernel *k = p->k;
    int number = 0;
    stmt_id r = ir_loop(k, p->body, LOOP_SERIAL, "part", sym_const(k->syms, p->parts));
    ir_move(k, r, p->body, p->loop);
    ir_unlink(k, p->loop);
    for (stmt_id s = ir_s(k, p->leaf)->first; s; s = ir_s(k, s)->next) {
        ir_stmt u = *ir_s(k, s);
        ir_stmt store = {.kind = STMT_STORE, .monoid = u.monoid, .n = u.n};
        store.store.index = u.store.index;
        store.store.valid = SYM_TRUE;
        for (int i = 0; i < u.n; i++) {
            store.store.mem[i] = u.store.mem[i];
            store.store.value[i] =
                ir_load(k, p->part[number++], part_index(p, ir_trip(k, r)), SYM_TRUE, 0, 0);
        }
        ir_store_n(k, r, &store);
    }
}

int split_reduction(kernel *k, kernel **first, split_part part[SPLIT_PARTS]) {
    splitting p = {.k = k};
    *first = NULL;
    if (!read_kernel(&p)) return 0;
    splitting q = p; /* the clone's statements have the same ids */
    q.k = *first = ir_clone(k);
    add_memories(&p, ACCESS_READ, part);
    merge_parts(&p);
    add_memories(&q, ACCESS_WRITE, part);
    if (!reduce_parts(&q))
        raise_error(k->ctx, QN_EINTERNAL, "kernel %s: its reduction is in no parts", k->name);
    return p.tiles;
}
