/* model.c - default schedules: how a lowered kernel should run on a machine with these limits.
 *
 * The schedule is found on a clone: each line is tried there and kept if it was legal, so what
 * comes out is always accepted by the kernel it was made for. Kernels come in three kinds:
 *
 *   elementwise   loops around stores only. Loops that walk memory in step are merged; the loop
 *                 that walks it contiguously becomes vectors, several a trip; whole trips without
 *                 masks.
 *   rows          loops around reductions and loops: softmax, norms, sums. Reductions along
 *                 contiguous memory get an accumulator a lane (multi_step) and several chains;
 *                 reductions across it vectorise the loop that walks memory contiguously, moved
 *                 inside them (tile).
 *   contraction   a sum of products of two operands with loops of their own: a register tile of
 *                 rows x vectors chosen so that multiply-adds, not loads, are the limit; operands
 *                 that are walked badly are packed (stage).
 *
 * Names tell the rest: loops called v.. become vectors and loops called u.. are unrolled at the
 * end, in whatever copies the transforms have made of them. Parallel loops get enough work a trip
 * that handing it out does not matter, and their trips never depend on the number of threads. */
#include <stdio.h>

#include "kern/kern.h"

enum {
    MAX_CHAIN = 32,
    ITEM_WORK = 16384,     /* operations in a parallel trip, at least */
    UNROLL_OPS = 48,       /* unrolled statements' operations, at most, for plain loops */
    PANEL_BYTES = 8 << 20, /* a packed block of rows streams from the third-level cache, in order */
    PACK_STRIDE =
        1024, /* rows this many bytes apart (or multiples) collide in the first-level cache */
    PANEL_RATE = 11, /* bytes a cycle that reach the registers from the second-level cache */
    ROW_COPIES = 4   /* times a packed panel must be used to be worth packing */
};

typedef struct model {
    kern *k; /* the clone */
    const kern_limits *limits;
    str *out;
    int lanes; /* of a vector of this kernel's elements */
    int next;  /* number for names */
} model;

typedef struct chain { /* perfectly nested loops by name, outermost first */
    int n;
    char name[MAX_CHAIN][40];
    kstmt body; /* the innermost */
} chain;

static bool apply(model *m, const char *fmt, ...) QN_PRINTF(2, 3);
static bool apply(model *m, const char *fmt, ...) {
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (!kern_apply(m->k, line, NULL)) return false;
    str_addf(m->out, "%s\n", line);
    return true;
}

static kern_stmt *at(const model *m, kstmt s) {
    return kern_s(m->k, s);
}

static const char *loop_name(const model *m, kstmt s) {
    return sym_name(m->k->syms, at(m, s)->l.var);
}

static int64_t trips(const model *m, kstmt s) {
    return kern_most_trips(m->k, s);
}

static kstmt find(const model *m, const char *name) {
    return kern_find_loop(m->k, name);
}

static chain chain_of(const model *m, kstmt loop) {
    chain c = {.n = 0};
    for (kstmt s = loop; c.n < MAX_CHAIN; s = at(m, s)->first) {
        snprintf(c.name[c.n++], sizeof c.name[0], "%s", loop_name(m, s));
        c.body = s;
        kstmt child = at(m, s)->first;
        if (!child || child != at(m, s)->last || at(m, child)->kind != KS_LOOP) break;
    }
    return c;
}

static void chain_drop(chain *c, int i) {
    for (; i + 1 < c->n; i++) memcpy(c->name[i], c->name[i + 1], sizeof c->name[i]);
    c->n--;
}

/* ---- what a piece of a kernel does ----------------------------------------------------------- */

static int expr_ops(const model *m, kexpr e, int limit) {
    if (!e || limit <= 0) return 0;
    const kern_expr *x = kern_e(m->k, e);
    if (x->kind != KE_OP) return 0;
    int n = 1;
    switch (x->op) {
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_LOG2:
        n = 12;
        break;
    case OP_TANH:
    case OP_ERF:
    case OP_EXPM1:
    case OP_LOG1P:
    case OP_SIN:
    case OP_COS:
    case OP_ATAN:
        n = 24;
        break;
    case OP_ERFC:
    case OP_POW:
        n = 48;
        break;
    default:
        break;
    }
    for (int i = 0; i < x->n; i++) n += expr_ops(m, x->arg[i], limit - n);
    return n;
}

/* Vector operations in one trip of everything below s, inner loops counted once. */
static int body_ops(const model *m, kstmt s) {
    int n = 0;
    for (kstmt c = s; c; c = kern_next(m->k, c, s)) {
        const kern_stmt *x = at(m, c);
        if (x->kind != KS_STORE) continue;
        n++;
        for (int i = 0; i < x->n; i++) n += expr_ops(m, x->store.value[i], 400);
    }
    return n;
}

/* Operations of all trips of s, roughly. */
static double work(const model *m, kstmt s) {
    if (at(m, s)->kind != KS_LOOP) return at(m, s)->kind == KS_STORE ? body_ops(m, s) + 1 : 1;
    double n = 0;
    for (kstmt c = at(m, s)->first; c; c = at(m, c)->next) n += work(m, c);
    int64_t t = trips(m, s);
    return n * (double)(t < 1 ? 1 : t > 1 << 30 ? 1 << 30 : t);
}

/* How an access moves when the loop steps: by a constant (true), else false. */
static bool step_of(model *m, const kern_touch *t, sym var, int64_t *step) {
    sym rest;
    *step = 0;
    if (t->dyn && kern_expr_uses(m->k, t->dyn, var)) return false;
    return sym_split(m->k->syms, t->index, var, step, &rest);
}

static bool is_arg(const model *m, const kern_touch *t) {
    return kern_m(m->k, t->mem)->scope == KERN_ARG;
}

/* Accesses of arguments below s that step by one with the loop; stores count double. */
static int contiguous(model *m, kstmt s, sym var) {
    kern_touch *t;
    int n = 0;
    uint32_t count = kern_touches(m->k, s, &t);
    for (uint32_t i = 0; i < count; i++) {
        int64_t step;
        if (is_arg(m, &t[i]) && step_of(m, &t[i], var, &step) && step == 1) n += t[i].load ? 1 : 2;
    }
    return n;
}

/* Widest element among the accesses of arguments: it decides how many lanes a vector has. */
static int lanes_for(const model *m) {
    size_t width = 4;
    for (kmem i = 1; i < m->k->mems; i++) {
        size_t w = qn_dtype_size((qn_dtype)kern_m(m->k, i)->dtype);
        if (kern_m(m->k, i)->dtype == QN_F64 && w > width) width = w;
    }
    int lanes = m->limits->vector_bytes / (int)width;
    return lanes < 2 ? 2 : lanes > 16 ? 16 : lanes;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Do all accesses below treat (outer, inner) as one index: outer's step = inner's step * extent? */
static bool in_step(model *m, kstmt outer, kstmt inner) {
    sym_store *s = m->k->syms;
    sym vo = at(m, outer)->l.var, vi = at(m, inner)->l.var, n = at(m, inner)->l.extent;
    kern_touch *t;
    uint32_t count = kern_touches(m->k, inner, &t);
    for (uint32_t i = 0; i < count; i++) {
        sym co, ci, ro, ri;
        if (sym_uses(s, t[i].valid, vo) || sym_uses(s, t[i].valid, vi)) return false;
        if (t[i].dyn && (kern_expr_uses(m->k, t[i].dyn, vo) || kern_expr_uses(m->k, t[i].dyn, vi)))
            return false;
        if (!kern_linear(m->k, t[i].index, vo, &co, &ro)) return false;
        if (!kern_linear(m->k, t[i].index, vi, &ci, &ri)) return false;
        if (co != sym_mul(s, ci, n)) return false;
    }
    for (kstmt c = inner; c; c = kern_next(m->k, c, inner)) {
        const kern_stmt *x = at(m, c);
        for (int i = 0; x->kind == KS_STORE && i < x->n; i++) { /* an index used as a value */
            kexpr e = x->store.value[i];
            if (kern_expr_uses(m->k, e, vo) && kern_e(m->k, e)->kind == KE_INDEX) return false;
        }
    }
    return true;
}

static void merge_in_step(model *m, chain *c) {
    for (int i = c->n - 2; i >= 0; i--) {
        if (!in_step(m, find(m, c->name[i]), find(m, c->name[i + 1]))) continue;
        char name[40];
        snprintf(name, sizeof name, "m%d", m->next++);
        if (!apply(m, "merge %s %s -> %s", c->name[i], c->name[i + 1], name)) continue;
        snprintf(c->name[i], sizeof c->name[0], "%s", name);
        chain_drop(c, i + 1);
    }
    c->body = find(m, c->name[c->n - 1]);
}

/* ---- vectors and parallel trips -------------------------------------------------------------- */

/* A loop along contiguous memory, without reductions: full trips of several vectors, then the rest.
 * Full trips are set apart before the inner split, so that their inner extents are constants.
 * `outer` names the loop over trips; with a chunk above 0 its trips are handed out in chunks. */
static void vector_loop(model *m, const char *name, const char *outer, int64_t item_work) {
    kstmt loop = find(m, name);
    int64_t n = trips(m, loop);
    int id = m->next++, ops = body_ops(m, loop), chains = ops <= 12 ? 4 : ops <= 40 ? 2 : 1;
    bool constant = sym_is_const(m->k->syms, at(m, loop)->l.extent, NULL);
    while (chains > 1 && n < (int64_t)chains * m->lanes * 2) chains /= 2;
    if (constant && n > 1 && n <= m->lanes && !(n & (n - 1)) && apply(m, "vec %s", name)) return;
    if (!apply(m, "split %s %d -> %s %c%d", name, chains * m->lanes, outer, chains > 1 ? 'w' : 'v',
               id))
        return;
    int64_t chunk = item_work * 4 / (ops * chains * m->lanes + 1) + 1;
    char full[40];
    snprintf(full, sizeof full, "%s", outer);
    if (item_work && trips(m, find(m, outer)) > 2 * chunk &&
        apply(m, "split %s %lld -> p%d q%d", outer, (long long)chunk, id, id))
        snprintf(full, sizeof full, "q%d", id);
    apply(m, "peel %s", full);
    for (int copy = 0; copy < 2 && chains > 1; copy++) {
        char w[40];
        snprintf(w, sizeof w, copy ? "w%d_1" : "w%d", id);
        if (!find(m, w)) continue;
        int in = m->next++;
        apply(m, "split %s %d -> %c%d v%d", w, m->lanes, copy ? 'x' : 'u', in, in);
    }
    if (item_work) apply(m, "par p%d", id);
}

/* Give the root loop enough work a trip and make it parallel. */
static void parallel(model *m, const char *name) {
    kstmt loop = find(m, name);
    if (!loop || at(m, loop)->parent != m->k->root) return;
    int64_t n = trips(m, loop);
    double total = work(m, loop), each = total / (double)(n < 1 ? 1 : n > 1 << 30 ? 1 << 30 : n);
    if (total < 2 * ITEM_WORK) return;
    int64_t chunk = (int64_t)((double)ITEM_WORK / (each + 1)) + 1;
    if (n / chunk > 4096) chunk = n / 4096;
    if (chunk > n / 4 && n >= 4) chunk = n / 4;
    if (chunk > 1) {
        int id = m->next++;
        if (!apply(m, "split %s %lld -> p%d q%d", name, (long long)chunk, id, id)) return;
        apply(m, "par p%d", id);
    } else {
        apply(m, "par %s", name);
    }
}

/* An outermost loop of few trips is merged with the next so that there is enough to hand out. */
static void widen_root(model *m, chain *c, int keep) {
    while (c->n > keep + 1 && trips(m, find(m, c->name[0])) < 16) {
        char name[40];
        snprintf(name, sizeof name, "m%d", m->next++);
        if (!apply(m, "merge %s %s -> %s", c->name[0], c->name[1], name)) return;
        snprintf(c->name[0], sizeof c->name[0], "%s", name);
        chain_drop(c, 1);
    }
}

/* What has been split is cut into full trips and the rest. */
static void peel(model *m, const char *name) {
    if (find(m, name)) apply(m, "peel %s", name);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static void move_inward(model *m, chain *c, int i) {
    for (; i + 1 < c->n; i++) {
        if (!apply(m, "swap %s %s", c->name[i], c->name[i + 1])) return;
        char t[40];
        memcpy(t, c->name[i], sizeof t);
        memcpy(c->name[i], c->name[i + 1], sizeof t);
        memcpy(c->name[i + 1], t, sizeof t);
    }
}

static int most_contiguous(model *m, const chain *c) {
    int best = c->n - 1, most = 0;
    for (int i = c->n - 1; i >= 0; i--) {
        int n = contiguous(m, c->body, at(m, find(m, c->name[i]))->l.var);
        if (n > most) most = n, best = i;
    }
    return best;
}

static void elementwise(model *m, kstmt loop) {
    chain c = chain_of(m, loop);
    merge_in_step(m, &c);
    move_inward(m, &c, most_contiguous(m, &c));
    char inner[40], o[24];
    memcpy(inner, c.name[c.n - 1], sizeof inner);
    snprintf(o, sizeof o, "o%d", m->next++);
    if (c.n > 1) widen_root(m, &c, 1);
    vector_loop(m, inner, o, c.n > 1 ? 0 : ITEM_WORK);
    if (c.n > 1) parallel(m, c.name[0]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool has_inner(const model *m, kstmt loop) {
    for (kstmt c = at(m, loop)->first; c; c = at(m, c)->next)
        if (at(m, c)->kind != KS_STORE) return true;
    return false;
}

/* The only tile a leaf loop reduces into, 0 when it only stores. */
static kmem reduced_tile(const model *m, kstmt leaf) {
    const kern_stmt *s = at(m, at(m, leaf)->first);
    if (at(m, leaf)->first != at(m, leaf)->last || s->kind != KS_STORE || s->monoid == MONOID_SET)
        return 0;
    return kern_m(m->k, s->store.mem[0])->scope == KERN_ARG ? 0 : s->store.mem[0];
}

static void reduction_loop(model *m, const char *name, kmem tile) {
    kstmt loop = find(m, name);
    int64_t n = trips(m, loop);
    int id = m->next++, ops = body_ops(m, loop), chains = ops <= 6 ? 4 : 2;
    while (chains > 1 && n < (int64_t)chains * m->lanes * 4) chains /= 2;
    if (n < 4) return;
    int step = chains * m->lanes, number = kern_tile_number(m->k, tile);
    int64_t exact;
    if (!sym_is_const(m->k->syms, at(m, loop)->l.extent, &exact) || exact % step)
        if (!apply(m, "pad %s %d", name, step)) return;
    if (!apply(m, "split %s %d -> o%d w%d", name, step, id, id)) return;
    if (chains > 1)
        apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id);
    else
        apply(m, "split w%d %d -> x%d v%d", id, m->lanes, id, id);
    if (!apply(m, "multi_step t%d v%d", number, id)) return;
    kmem wide = m->k->mems - 1;
    if (chains > 1) apply(m, "multi_step t%d u%d", kern_tile_number(m->k, wide), id);
    char o[24];
    snprintf(o, sizeof o, "o%d", id);
    peel(m, o);
}

/* Loops inside a row: each vectorised along itself. */
static void row_loops(model *m, kstmt body) {
    char names[64][40];
    int n = 0;
    for (kstmt c = at(m, body)->first; c && n < 64; c = at(m, c)->next)
        if (at(m, c)->kind == KS_LOOP) snprintf(names[n++], sizeof names[0], "%s", loop_name(m, c));
    for (int i = 0; i < n; i++) {
        chain c = chain_of(m, find(m, names[i]));
        merge_in_step(m, &c);
        if (has_inner(m, c.body)) {
            row_loops(m, c.body);
            continue;
        }
        kmem tile = reduced_tile(m, c.body);
        if (!tile) move_inward(m, &c, most_contiguous(m, &c));
        if (tile) {
            reduction_loop(m, c.name[c.n - 1], tile);
            continue;
        }
        char o[24];
        snprintf(o, sizeof o, "o%d", m->next++);
        vector_loop(m, c.name[c.n - 1], o, 0);
    }
}

/* Accesses that walk contiguously with loops inside the row. */
static int contiguous_inside(model *m, kstmt body) {
    int n = 0;
    for (kstmt s = body; (s = kern_next(m->k, s, body));)
        if (at(m, s)->kind == KS_LOOP) n += contiguous(m, s, at(m, s)->l.var);
    return n;
}

/* Tiles defined directly in the loop's body; one of them moves them all. */
static kmem tile_in(const model *m, kstmt loop) {
    for (kstmt c = at(m, loop)->first; c; c = at(m, c)->next)
        if (at(m, c)->kind == KS_DEF) return at(m, c)->def.mem;
    return 0;
}

/* Vectors across the reductions: the contiguous loop goes inside them. */
static bool columns(model *m, chain *c, int i) {
    move_inward(m, c, i);
    kstmt loop = find(m, c->name[c->n - 1]);
    kmem tile = tile_in(m, loop);
    int64_t n = trips(m, loop);
    int id = m->next++, ops = body_ops(m, loop), chains = ops <= 12 ? 4 : ops <= 32 ? 2 : 1;
    while (chains > 1 && n < (int64_t)chains * m->lanes) chains /= 2;
    int step = chains * m->lanes, number = tile ? kern_tile_number(m->k, tile) : 0;
    int64_t exact;
    if (!tile) return false;
    bool whole = sym_is_const(m->k->syms, at(m, loop)->l.extent, &exact) && exact % step == 0;
    if (!whole && !apply(m, "pad %s %d", c->name[c->n - 1], step)) return false;
    if (!apply(m, "split %s %d -> c%d w%d", c->name[c->n - 1], step, id, id)) return false;
    apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id);
    apply(m, "tile t%d v%d", number, id);
    apply(m, "tile t%d u%d", number, id);
    snprintf(c->name[c->n - 1], sizeof c->name[0], "c%d", id);
    return true;
}

static void rows(model *m, kstmt loop) {
    chain c = chain_of(m, loop);
    int outer = -1, most = 0;
    for (int i = 0; i < c.n; i++) {
        int n = contiguous(m, c.body, at(m, find(m, c.name[i]))->l.var);
        if (n > most) most = n, outer = i;
    }
    if (most > 0 && contiguous_inside(m, c.body) < most && columns(m, &c, outer)) {
        widen_root(m, &c, 0);
        parallel(m, c.name[0]);
        return;
    }
    row_loops(m, c.body);
    widen_root(m, &c, 0);
    parallel(m, c.name[0]);
}

/* ---- contractions ---------------------------------------------------------------------------- */

typedef struct operand {
    kmem mem;
    kern_touch touch;
    bool plain; /* a single load, so it can be packed */
} operand;

typedef struct contraction {
    chain c;      /* loops of the output, then */
    char sum[40]; /* the reduction loop */
    kmem tile;
    operand a, b; /* of the product as it is written */
} contraction;

static bool expr_touches(const model *m, kexpr e, const kern_touch *t) {
    if (!e) return false;
    if (e == t->load) return true;
    const kern_expr *x = kern_e(m->k, e);
    for (int i = 0; x->kind == KE_OP && i < x->n; i++)
        if (expr_touches(m, x->arg[i], t)) return true;
    return false;
}

/* The operand's one load of an argument; plain when the whole factor is that load. */
static bool read_operand(model *m, kstmt store, kexpr factor, operand *o) {
    kern_touch *t;
    uint32_t n = kern_touches(m->k, store, &t), found = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || !expr_touches(m, factor, &t[i]) || !is_arg(m, &t[i])) continue;
        o->touch = t[i];
        o->mem = t[i].mem;
        found++;
    }
    o->plain = found == 1 && !o->touch.dyn && !o->touch.guard;
    return found >= 1;
}

static bool moves(const model *m, kexpr factor, const char *name) {
    return kern_expr_uses(m->k, factor, at(m, find(m, name))->l.var);
}

/* def t; for r {t += a*b}; stores   directly in the innermost output loop. */
static bool read_contraction(model *m, kstmt loop, contraction *x) {
    x->c = chain_of(m, loop);
    kstmt def = at(m, x->c.body)->first, red = def ? at(m, def)->next : 0;
    if (!red || at(m, def)->kind != KS_DEF || at(m, red)->kind != KS_LOOP) return false;
    chain r = chain_of(m, red);
    merge_in_step(m, &r);
    kstmt store = at(m, r.body)->first;
    if (store != at(m, r.body)->last || at(m, store)->kind != KS_STORE) return false;
    if (at(m, store)->monoid != MONOID_SUM || at(m, store)->store.mem[0] != at(m, def)->def.mem)
        return false;
    for (kstmt s = at(m, find(m, r.name[0]))->next; s; s = at(m, s)->next)
        if (at(m, s)->kind != KS_STORE) return false;
    const kern_expr *e = kern_e(m->k, at(m, store)->store.value[0]);
    if (e->kind != KE_OP || e->op != OP_MUL) return false;
    kexpr f[2] = {e->arg[0], e->arg[1]};
    snprintf(x->sum, sizeof x->sum, "%s", r.name[r.n - 1]);
    x->tile = at(m, def)->def.mem;
    if (!read_operand(m, store, f[0], &x->a) || !read_operand(m, store, f[1], &x->b)) return false;
    bool rows_ = false, columns_ = false;
    for (int i = 0; i < x->c.n; i++) {
        bool a = moves(m, f[0], x->c.name[i]), b = moves(m, f[1], x->c.name[i]);
        rows_ |= a && !b;
        columns_ |= b && !a;
    }
    return rows_ && columns_;
}

/* 1: the loop moves the rows' operand only, 2: the columns' only, 0: both or none (batch). With
 * `swapped` the product's second factor goes by rows. */
static int loop_class(const model *m, const kexpr *f, const char *name, bool swapped) {
    bool a = moves(m, f[swapped], name), b = moves(m, f[!swapped], name);
    return a && b ? 0 : a ? 1 : b ? 2 : 0;
}

/* Bring the chain into the order batch, rows, columns; merge each class as far as it walks in
 * step. */
static bool sort_loops(model *m, contraction *x, const kexpr *f, bool swapped) {
    chain *c = &x->c;
    for (int pass = 0; pass < c->n; pass++)
        for (int i = 0; i + 1 < c->n; i++) {
            if (loop_class(m, f, c->name[i], swapped) <= loop_class(m, f, c->name[i + 1], swapped))
                continue;
            if (!apply(m, "swap %s %s", c->name[i], c->name[i + 1])) return false;
            char t[40];
            memcpy(t, c->name[i], sizeof t);
            memcpy(c->name[i], c->name[i + 1], sizeof t);
            memcpy(c->name[i + 1], t, sizeof t);
        }
    for (int i = c->n - 2; i >= 0; i--) {
        int k = loop_class(m, f, c->name[i], swapped);
        if (k != loop_class(m, f, c->name[i + 1], swapped)) continue;
        if (k && !in_step(m, find(m, c->name[i]), find(m, c->name[i + 1]))) continue;
        char name[40];
        snprintf(name, sizeof name, "m%d", m->next++);
        if (!apply(m, "merge %s %s -> %s", c->name[i], c->name[i + 1], name)) continue;
        snprintf(c->name[i], sizeof c->name[0], "%s", name);
        chain_drop(c, i + 1);
    }
    return true;
}

static void factors(const model *m, const contraction *x, kexpr *f) {
    kstmt store = at(m, find(m, x->sum))->first;
    const kern_expr *e = kern_e(m->k, at(m, store)->store.value[0]);
    f[0] = e->arg[0];
    f[1] = e->arg[1];
}

/* Rows x vectors of the register tile: least time for the whole, counting two multiply-adds and two
 * loads a cycle, four cycles of latency, and padding. */
static void choose_tile(const model *m, int64_t rows_, int64_t columns_, int64_t depth,
                        bool packed_rows, int *best_rows, int *best_vectors) {
    double best = 1e300;
    int regs = m->limits->registers;
    for (int v = 1; v <= 6; v++)
        for (int r = 1; r <= 30; r++) {
            if (r * v + v + 1 > regs || (r > rows_ && r > 1)) continue;
            if (v > 1 && (int64_t)(v - 1) * m->lanes >= columns_) continue;
            double fma = r * v / 2.0, load = (r + v) / 2.0, cycles = fma > load ? fma : load;
            if (cycles < 4) cycles = 4;
            int64_t step = (int64_t)v * m->limits->vector_bytes; /* of the panel of columns */
            double stream = depth * step > m->limits->l1 ? (double)step / (double)PANEL_RATE : 0;
            if (cycles < stream) cycles = stream;
            double tiles = (double)((rows_ + r - 1) / r) *
                           (double)((columns_ + v * m->lanes - 1) / (v * m->lanes));
            double time = tiles * (cycles + 0.5);
            if (rows_ % r && !packed_rows) time *= 1.08; /* loads of rows need masks */
            if (time < best * 0.999) best = time, *best_rows = r, *best_vectors = v;
        }
}

static int64_t step_in(model *m, const operand *o, const char *name) {
    int64_t step;
    kern_touch *t;
    uint32_t n = kern_touches(m->k, m->k->root, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && t[i].mem == o->mem)
            return step_of(m, &t[i], at(m, find(m, name))->l.var, &step) ? step : INT64_MAX;
    return INT64_MAX;
}

/* Stage an operand. Where the copy's innermost loop would walk the source across its rows, it is
 * the other way round: whole vectors are loaded along the rows and scattered into the tile. */
static bool pack(model *m, const contraction *x, const operand *o, const char *at_,
                 const char *loops, const char *inner) {
    bool along = step_in(m, o, inner) == 1, across = !along && step_in(m, o, x->sum) == 1;
    if (!apply(m, "stage a%d %s %s", kern_m(m->k, o->mem)->arg, at_, loops)) return false;
    kstmt def = at(m, find(m, at_))->first;
    while (def && !(at(m, def)->kind == KS_DEF && at(m, def)->def.mem == m->k->mems - 1))
        def = at(m, def)->next;
    if (!across || !def) return true;
    chain c = chain_of(m, at(m, def)->next);
    int depth = 0; /* the copy of the reduction loop */
    while (depth < c.n && strncmp(c.name[depth], x->sum, strlen(x->sum)) != 0) depth++;
    if (depth == c.n) return true;
    move_inward(m, &c, depth);
    int id = m->next++;
    apply(m, "split %s %d -> x%d v%d", c.name[c.n - 1], m->lanes, id, id);
    return true;
}

/* Pack b's panel where rows use it often enough or it cannot be loaded as vectors. */
static void pack_columns(model *m, const contraction *x, const operand *b, int64_t row_tiles,
                         const char *at_) {
    char loops[80];
    if (!b->plain || trips(m, find(m, x->sum)) > 65536) return;
    if (row_tiles < (step_in(m, b, "v900") == 1 ? ROW_COPIES * 2 : 1)) return;
    snprintf(loops, sizeof loops, "%s u900 v900", x->sum);
    pack(m, x, b, at_, loops, "v900");
}

/* Pack blocks of a's rows; at_ is the loop over blocks. */
static void pack_rows(model *m, const contraction *x, const operand *a, const char *at_) {
    char loops[80];
    snprintf(loops, sizeof loops, "rq900 %s u901", x->sum);
    pack(m, x, a, at_, loops, "u901");
}

static bool contract(model *m, kstmt loop) {
    contraction x = {.tile = 0};
    if (!read_contraction(m, loop, &x)) return false;
    kexpr f[2];
    factors(m, &x, f);
    /* the columns are the class whose loop steps the stored output by one */
    kstmt red = find(m, x.sum);
    while (at(m, red)->parent != find(m, x.c.name[x.c.n - 1])) red = at(m, red)->parent;
    bool swapped = false;
    for (int i = 0; i < x.c.n; i++) {
        sym var = at(m, find(m, x.c.name[i]))->l.var;
        int64_t step;
        sym rest;
        if (!sym_split(m->k->syms, at(m, at(m, red)->next)->store.index, var, &step, &rest))
            continue;
        if (step == 1) swapped = loop_class(m, f, x.c.name[i], false) == 1;
    }
    if (!sort_loops(m, &x, f, swapped)) return false;
    factors(m, &x, f);
    int row = -1, column = -1;
    for (int i = 0; i < x.c.n; i++) {
        int k = loop_class(m, f, x.c.name[i], swapped);
        if (k == 1) row = i;
        if (k == 2 && column < 0) column = i;
    }
    if (row < 0 || column != row + 1 || column != x.c.n - 1) return false;
    const operand *b = swapped ? &x.a : &x.b, *a = swapped ? &x.b : &x.a;
    const char *rn = x.c.name[row], *cn = x.c.name[column];
    int64_t nr = trips(m, find(m, rn)), nc = trips(m, find(m, cn)), exact;
    int mr = 1, nv = 1;
    int64_t depth = trips(m, find(m, x.sum));
    /* rows whose steps collide in the cache are packed in blocks, outside the loop over columns */
    bool packed = a->plain && nc >= ROW_COPIES * 4 * m->lanes && depth >= 64 &&
                  step_in(m, a, x.sum) == 1 && step_in(m, a, rn) * 4 % PACK_STRIDE == 0;
    choose_tile(m, nr, nc, depth, packed, &mr, &nv);
    bool whole = sym_is_const(m->k->syms, at(m, find(m, rn))->l.extent, &exact) && exact % mr == 0;
    if (!whole && !apply(m, "pad %s %d", rn, mr)) return false;
    whole = sym_is_const(m->k->syms, at(m, find(m, cn))->l.extent, &exact) &&
            exact % (nv * m->lanes) == 0;
    if (!whole && !apply(m, "pad %s %d", cn, nv * m->lanes)) return false;
    apply(m, "split %s %d -> ro900 u901", rn, mr);
    apply(m, "split %s %d -> co900 w900", cn, nv * m->lanes);
    apply(m, "swap u901 co900");
    apply(m, "swap ro900 co900");
    apply(m, "split w900 %d -> u900 v900", m->lanes);
    int number = kern_tile_number(m->k, x.tile);
    apply(m, "tile t%d v900", number);
    apply(m, "tile t%d u900", number);
    apply(m, "tile t%d u901", number);
    int64_t row_tiles = (nr + mr - 1) / mr,
            column_tiles = (nc + nv * m->lanes - 1) / (nv * m->lanes);
    bool batched = row > 0;
    char root[40];
    snprintf(root, sizeof root, "%s", batched ? x.c.name[0] : "co900");
    if (packed) {
        int64_t block = PANEL_BYTES / (depth * mr * 4);
        if (block < 1) block = 1;
        if (block > row_tiles) block = row_tiles;
        apply(m, "split ro900 %lld -> rb900 rq900", (long long)block);
        apply(m, "swap co900 rb900");
        if (!batched && column_tiles >= 4) {
            int64_t part = (column_tiles + 3) / 4;
            apply(m, "swap rb900 co900");
            apply(m, "split co900 %lld -> cp900 cq900", (long long)part);
            apply(m, "swap cq900 rb900");
            snprintf(root, sizeof root, "cp900");
        } else if (!batched) {
            snprintf(root, sizeof root, "rb900");
        }
        const char *inner = find(m, "cq900") ? "cq900" : "co900";
        pack_columns(m, &x, b, block, inner);
        pack_rows(m, &x, a, "rb900");
    } else if (!batched && column_tiles < 4 && row_tiles > column_tiles) {
        int64_t part = (row_tiles + 7) / 8;
        apply(m, "swap co900 ro900");
        apply(m, "split ro900 %lld -> rp900 rq900", (long long)part);
        apply(m, "swap rq900 co900");
        pack_columns(m, &x, b, part, "co900");
        snprintf(root, sizeof root, "rp900");
    } else {
        pack_columns(m, &x, b, row_tiles, "co900");
    }
    if (work(m, find(m, root)) > 4 * ITEM_WORK) apply(m, "par %s", root);
    return true;
}

/* ---- the end of every schedule --------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* Does a loop below s run serially? Then unrolling s would only repeat that loop. */
static bool serial_inside(const model *m, kstmt s) {
    for (kstmt c = s; (c = kern_next(m->k, c, s));)
        if (at(m, c)->kind == KS_LOOP && at(m, c)->loop == KERN_SERIAL && loop_name(m, c)[0] != 'u')
            return true;
    return false;
}

/* Bind the loops that were named for it, and innermost loops over a packed or widened tile. */
static void bind_named(model *m) {
    for (int pass = 0; pass < 2; pass++)
        for (kstmt s = m->k->root; s; s = kern_next(m->k, s, m->k->root)) {
            if (s == m->k->root || at(m, s)->kind != KS_LOOP || at(m, s)->loop != KERN_SERIAL)
                continue;
            const char *name = loop_name(m, s);
            int64_t n = trips(m, s);
            if (!pass && (name[0] == 'v' || ends_with(name, "_e"))) {
                if (n >= 1 && n <= m->lanes) apply(m, "vec %s", name);
            } else if (pass && name[0] == 'u' && !ends_with(name, "_e") && n <= 32 &&
                       !serial_inside(m, s)) {
                apply(m, "unroll %s", name);
            }
        }
}

void kern_default_schedule(const kern *k, const kern_limits *limits, str *out) {
    model m = {.k = kern_clone(k), .limits = limits, .out = out};
    kern *volatile held = m.k;
    guard g;
    guard_open(&k->ctx->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&k->ctx->heap, &g);
        kern_close(held);
        heap_unwind(&k->ctx->heap);
    }
    m.lanes = lanes_for(&m);
    kstmt roots[16];
    int n = 0;
    for (kstmt s = at(&m, m.k->root)->first; s && n < 16; s = at(&m, s)->next)
        if (at(&m, s)->kind == KS_LOOP) roots[n++] = s;
    for (int i = 0; i < n; i++) {
        chain c = chain_of(&m, roots[i]);
        if (!has_inner(&m, c.body)) {
            if (reduced_tile(&m, c.body))
                row_loops(&m, m.k->root), i = n;
            else
                elementwise(&m, roots[i]);
        } else if (n > 1 || !contract(&m, roots[i])) {
            rows(&m, roots[i]);
        }
    }
    bind_named(&m);
    guard_close(&k->ctx->heap, &g);
    kern_close(m.k);
}
