/* stages.c - a reduction to few elements as two kernels, so that all threads have work.
 *
 * Where outputs are few, so are the trips that could be work items, and the reduction inside, of
 * millions of steps perhaps, would run on one thread. Such a kernel becomes two. The first has a
 * loop over parts of the reduction around it and stores what each part comes to:
 *
 *   for i { for p < parts { def s = identity   for r' { s op= x }   w[parts*i + p] = s } }
 *
 * and the second is the kernel as it was, but for the reduction, which goes over the parts:
 *
 *   for i { def t   for p < parts { t op= w[parts*i + p] }   .. }
 *
 * This is legal by the monoid's row, for states of two components as well, and for several states
 * that one loop makes. Both are kernels like any other and get schedules of their own: the first,
 * of a product of few rows by few columns, that of a batch of products, with tiles of registers,
 * which are what there is to hand out of it. How many parts there are follows from sizes that are
 * constants, and not from the machine: results have the same bits whatever runs them. */
#include "kern/kern.h"

enum {
    FEW = 16,              /* trips to hand out that are too few */
    ACROSS = 64,           /* outputs side by side that one trip computes */
    TILE = 24,             /* rows, columns of a product that one computes, about */
    MOST_OUTPUTS = 1 << 14 /* that are looked at: more are trips enough */
};

/* What a part of a reduction is: */
typedef struct staged_form {
    int64_t size;  /* its elements, about */
    int64_t least; /* steps at least */
    int64_t most;  /* parts of a reduction */
} staged_form;

static const staged_form plain = {1 << 15, 1, 256}, product = {1 << 20, 1 << 12, 32};

typedef struct staging {
    kern *k;
    kstmt body;       /* where the reduction stands: the root, or the innermost output loop */
    kstmt loop, leaf; /* the reduction's outermost loop, its innermost: updates only */
    kstmt cut;        /* which of its loops is cut into parts */
    int tiles;
    kmem to[KERN_STAGED];   /* what it reduces into */
    kmem part[KERN_STAGED]; /* what the parts come to */
    int64_t outputs, size;  /* of the reduction */
    int64_t parts, each;    /* trips of `cut` in a part */
    const staged_form *form;
    int64_t items; /* trips that there are to hand out as it is */
    bool across;   /* neighbours in memory belong to different outputs */
} staging;

static bool only_loop(const kern *k, kstmt block) {
    kstmt first = kern_s(k, block)->first;
    return first && first == kern_s(k, block)->last && kern_s(k, first)->kind == KS_LOOP;
}

static bool constant_trips(const kern *k, kstmt loop, int64_t *trips, int64_t most) {
    int64_t n;
    if (kern_s(k, loop)->loop != KERN_SERIAL ||
        !sym_is_const(k->syms, kern_s(k, loop)->l.extent, &n))
        return false;
    if (n < 1 || n > most / *trips) return false;
    *trips *= n;
    return true;
}

/* The body of the loops over outputs: below them stands something else beside a loop. */
static bool find_body(staging *p) {
    p->body = p->k->root;
    p->outputs = 1;
    while (only_loop(p->k, p->body)) {
        p->body = kern_s(p->k, p->body)->first;
        if (!constant_trips(p->k, p->body, &p->outputs, MOST_OUTPUTS)) return false;
    }
    return true;
}

/* An update of tiles that are defined in the body. */
static bool read_update(staging *p, kstmt loop, kstmt update) {
    kern *k = p->k;
    const kern_stmt *u = kern_s(k, update);
    if (u->kind != KS_STORE || u->monoid == MONOID_SET || u->store.dyn) return false;
    if (p->tiles + u->n > KERN_STAGED) return false;
    for (int i = 0; i < u->n; i++) {
        bool defined = false;
        p->to[p->tiles] = u->store.mem[i];
        for (kstmt s = kern_s(k, p->body)->first; s && s != loop; s = kern_s(k, s)->next)
            defined |= kern_s(k, s)->kind == KS_DEF && kern_s(k, s)->def.mem == u->store.mem[i];
        if (!defined || kern_m(k, u->store.mem[i])->size != SYM_ONE) return false;
        p->tiles++;
    }
    return true;
}

/* Loops in each other with updates of tiles of the body inside, and no other tile read: what a part
 * comes to then depends on the part alone. */
static bool read_reduction(staging *p, kstmt loop) {
    kern *k = p->k;
    p->size = 1;
    p->tiles = 0;
    for (p->leaf = loop;; p->leaf = kern_s(k, p->leaf)->first) {
        const kern_stmt *l = kern_s(k, p->leaf);
        if (!l->first || !constant_trips(k, p->leaf, &p->size, INT64_MAX / MOST_OUTPUTS))
            return false;
        if (l->first != l->last || kern_s(k, l->first)->kind != KS_LOOP) break;
    }
    for (kstmt s = kern_s(k, p->leaf)->first; s; s = kern_s(k, s)->next)
        if (!read_update(p, loop, s)) return false;
    kern_touch *t;
    uint32_t n = kern_touches(k, loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        const kern_memory *m = kern_m(k, t[i].mem);
        if (t[i].load && (m->scope != KERN_ARG || (m->access & KERN_WRITE))) return false;
    }
    p->loop = loop;
    return true;
}

/* Does the reduction load what lies side by side for neighbouring outputs? */
static bool goes_across(const staging *p, uint32_t n, const kern_touch *t) {
    for (uint32_t i = 0; i < n && p->body != p->k->root; i++) {
        sym rest;
        int64_t step;
        if (t[i].load &&
            sym_split(p->k->syms, t[i].index, kern_s(p->k, p->body)->l.var, &step, &rest) &&
            step == 1)
            return true;
    }
    return false;
}

/* The loads, a bit for each, that a loop moves; all of them where they are too many. */
static uint64_t moved_by(const staging *p, kstmt loop, uint32_t n, const kern_touch *t) {
    uint64_t moved = n > 64 ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < n && i < 64; i++)
        if (t[i].load && sym_uses(p->k->syms, t[i].index, kern_s(p->k, loop)->l.var))
            moved |= (uint64_t)1 << i;
    return moved;
}

/* Rows by columns: a loop over outputs moves some loads, and another others. Sets the trips that
 * tiles of them are; those of loops that move both sides are a batch. */
static bool is_product(staging *p, uint32_t n, const kern_touch *t) {
    kern *k = p->k;
    uint64_t side[2] = {0, 0};
    for (kstmt s = p->body; s != k->root && !side[1]; s = kern_s(k, s)->parent)
        for (kstmt r = kern_s(k, s)->parent; r != k->root && !side[1]; r = kern_s(k, r)->parent) {
            uint64_t a = moved_by(p, s, n, t), b = moved_by(p, r, n, t);
            if (a && b && !(a & b)) side[0] = a, side[1] = b;
        }
    if (!side[1]) return false;
    int64_t trips[3] = {1, 1, 1}; /* of one side's, the other's, both sides' loops */
    for (kstmt s = p->body; s != k->root; s = kern_s(k, s)->parent) {
        uint64_t moved = moved_by(p, s, n, t);
        trips[moved & side[0] ? moved & side[1] ? 2 : 0 : 1] *= kern_most_trips(k, s);
    }
    p->items = trips[2] * ((trips[0] + TILE - 1) / TILE) * ((trips[1] + TILE - 1) / TILE);
    return true;
}

static void read_form(staging *p) {
    kern_touch *t;
    uint32_t n = kern_touches(p->k, p->loop, &t);
    bool tiles = is_product(p, n, t);
    p->form = tiles ? &product : &plain;
    p->across = tiles || goes_across(p, n, t);
    if (!tiles) p->items = p->outputs / (p->across ? ACROSS : 1);
}

/* Trips of a part, of so many parts, about: whole vectors, and as many in the last part as in the
 * others where there is such a number. */
static int64_t trips_of_part(int64_t trips, int64_t parts) {
    int64_t each = (trips + parts - 1) / parts;
    for (int64_t n = parts * 3 / 2; n > parts / 2 && each >= ACROSS; n--)
        if (trips % n == 0 && trips / n % 16 == 0) return trips / n;
    return each < ACROSS ? each : (each + ACROSS - 1) / ACROSS * ACROSS;
}

/* The outermost loop with trips enough to make the parts of, else the longest. */
static void choose_parts(staging *p) {
    kern *k = p->k;
    int64_t wanted = p->size * p->outputs / p->form->size, longest = 0;
    if (wanted > p->size / p->form->least) wanted = p->size / p->form->least;
    if (wanted > p->form->most) wanted = p->form->most;
    if (wanted < 1) wanted = 1;
    int64_t enough = p->form == &product && wanted > FEW ? FEW : wanted;
    for (kstmt s = p->loop;; s = kern_s(k, s)->first) {
        int64_t n = kern_most_trips(k, s);
        if (longest < enough && n > longest) longest = n, p->cut = s;
        if (s == p->leaf) break;
    }
    if (wanted > longest) wanted = longest;
    p->each = trips_of_part(longest, wanted);
    p->parts = (longest + p->each - 1) / p->each;
}

static bool read_kernel(staging *p) {
    kern *k = p->k;
    if (!find_body(p)) return false;
    for (kstmt s = kern_s(k, p->body)->first; s; s = kern_s(k, s)->next) {
        if (kern_s(k, s)->kind != KS_LOOP || !read_reduction(p, s)) continue;
        read_form(p);
        if (p->items >= FEW || p->size < 8 * p->form->size / p->outputs) continue;
        choose_parts(p);
        if (p->parts >= FEW / 4) return true;
    }
    return false;
}

/* Where part number `part` of the output of the loops around is kept. */
static sym part_index(const staging *p, sym part) {
    kern *k = p->k;
    sym output = SYM_ZERO, step = SYM_ONE;
    for (kstmt s = p->body; s != k->root; s = kern_s(k, s)->parent) {
        output = sym_add(k->syms, output, sym_mul(k->syms, step, kern_trip(k, s)));
        step = sym_mul(k->syms, step, kern_s(k, s)->l.extent);
    }
    if (p->across) return sym_add(k->syms, output, sym_mul(k->syms, part, step));
    return sym_add(k->syms, sym_scale(k->syms, output, p->parts), part);
}

static void add_memories(staging *p, int access, kern_part *out) {
    for (int i = 0; i < p->tiles; i++) {
        qn_dtype d = (qn_dtype)kern_m(p->k, p->to[i])->dtype;
        out[i] = (kern_part){d, p->outputs * p->parts};
        p->part[i] = kern_arg(p->k, d, sym_const(p->k->syms, out[i].size), access);
    }
}

/* Component i of an update goes to a tile of the part, which is stored at the part's end. */
static void keep_part(staging *p, kstmt update, int i, int number, sym index) {
    kern *k = p->k;
    qn_dtype d = (qn_dtype)kern_m(k, p->to[number])->dtype;
    kmem s = kern_tile(k, KERN_LOCAL, d, SYM_ONE);
    kstmt def = kern_def(k, p->loop, s, kern_identity(k, kern_s(k, update)->monoid, i, d));
    kern_move(k, def, p->loop, kern_s(k, p->loop)->first);
    kern_s(k, update)->store.mem[i] = s;
    kexpr value = kern_load(k, s, SYM_ZERO, SYM_TRUE, 0, 0);
    kern_store(k, p->loop, MONOID_SET, p->part[number], index, SYM_TRUE, value);
}

static bool first_stage(staging *p) {
    kern *k = p->k;
    for (; p->cut != p->loop; p->cut = kern_s(k, p->cut)->parent) /* the trips go outward */
        if (!kern_swap(k, kern_s(k, p->cut)->parent, p->cut, NULL)) return false;
    for (kstmt s = kern_s(k, p->body)->first, next; s; s = next) {
        next = kern_s(k, s)->next;
        if (s != p->loop) kern_unlink(k, s);
    }
    if (!kern_split(k, p->loop, p->each, kern_fresh_name(k, "part"), NULL, NULL)) return false;
    for (p->leaf = p->loop; only_loop(k, p->leaf);) p->leaf = kern_s(k, p->leaf)->first;
    sym index = part_index(p, kern_trip(k, p->loop));
    int number = 0;
    for (kstmt s = kern_s(k, p->leaf)->first; s; s = kern_s(k, s)->next)
        for (int i = 0; i < kern_s(k, s)->n; i++) keep_part(p, s, i, number++, index);
    return true;
}

/* The parts in place of what they are parts of: a loop over them for each update. */
static void second_stage(staging *p) {
    kern *k = p->k;
    int number = 0;
    kstmt r = kern_loop(k, p->body, KERN_SERIAL, "part", sym_const(k->syms, p->parts));
    kern_move(k, r, p->body, p->loop);
    kern_unlink(k, p->loop);
    for (kstmt s = kern_s(k, p->leaf)->first; s; s = kern_s(k, s)->next) {
        kern_stmt u = *kern_s(k, s);
        kern_stmt store = {.kind = KS_STORE, .monoid = u.monoid, .n = u.n};
        store.store.index = u.store.index;
        store.store.valid = SYM_TRUE;
        for (int i = 0; i < u.n; i++) {
            store.store.mem[i] = u.store.mem[i];
            store.store.value[i] =
                kern_load(k, p->part[number++], part_index(p, kern_trip(k, r)), SYM_TRUE, 0, 0);
        }
        kern_store_n(k, r, &store);
    }
}

int kern_stage_of_two(kern *k, int stage, kern_part part[KERN_STAGED]) {
    staging p = {.k = k};
    if (!read_kernel(&p)) return 0;
    add_memories(&p, stage ? KERN_READ : KERN_WRITE, part);
    if (stage)
        second_stage(&p);
    else if (!first_stage(&p))
        raise_error(k->ctx, QN_EINTERNAL, "kernel %s: its reduction is in no parts", k->name);
    return p.tiles;
}
