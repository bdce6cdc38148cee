/* prepack.c - a product's second operand in the order in which it will be read, made beforehand.
 *
 * Packing costs as much as a few rows of a product. Where the operand is the same each time, a
 * weight, one kernel packs it once and the product reads what that has stored:
 *
 *   a[j, r], columns j < n and a sum over r   ->   b[j / W][r][j % W]
 *
 * panels of W columns, W vectors' width, zeros behind the last column; for dot instructions with
 * the parts of words together, b[j / W][r / P][j % W][r % P]. The product stays the kernel it was
 * but for the index of that load, from which the model sees panels of columns (model_contract.c)
 * and any other device or schedule may read it as well. Elements keep their dtype.
 *
 * Who may pack what, and when it is to be done again, is the planner's business. */
#include "kern/kern.h"

enum {
    LEAST = 16,     /* steps of the sum for which panels are worth it */
    SOME_ROWS = 10, /* fewer go along rows of columns as well without */
    MOST_ROWS = 512 /* more of them hide what packing costs */
};

typedef struct reading {
    kern *k;
    kstmt chain[QN_MAX_RANK * 2], sum, update; /* loops over outputs, over the sum, its statement */
    int loops, column;                         /* column: which of the loops is j */
    int side;                                  /* which factor the operand is */
    int64_t rows;                              /* outputs of a column */
} reading;

static bool constant_extent(const kern *k, kstmt loop, int64_t *n) {
    return kern_s(k, loop)->kind == KS_LOOP && kern_s(k, loop)->loop == KERN_SERIAL &&
           sym_is_const(k->syms, kern_s(k, loop)->l.extent, n);
}

/* Loops in each other around   def t; for r { t += a*b } .. */
static bool read_product(reading *p) {
    kern *k = p->k;
    int64_t n;
    kexpr f[2];
    kstmt s = kern_s(k, k->root)->first;
    for (; s && s == kern_s(k, kern_s(k, s)->parent)->last && constant_extent(k, s, &n);
         s = kern_s(k, s)->first) {
        if (p->loops == (int)COUNT_OF(p->chain)) return false;
        p->chain[p->loops++] = s;
    }
    if (!s || !p->loops || kern_s(k, s)->kind != KS_DEF) return false;
    p->sum = kern_s(k, s)->next;
    if (!p->sum || !constant_extent(k, p->sum, &n) || n < LEAST) return false;
    p->update = kern_s(k, p->sum)->first;
    const kern_stmt *u = kern_s(k, p->update);
    return p->update && p->update == kern_s(k, p->sum)->last && kern_is_dot(k, u, f) &&
           u->monoid == MONOID_SUM && u->store.mem[0] == kern_s(k, s)->def.mem;
}

/* The argument's only access, a plain load that is one factor, converted perhaps; 0: it is not. */
static kexpr read_load(reading *p, int arg) {
    kern *k = p->k;
    kern_touch *t;
    uint32_t n = kern_touches(k, k->root, &t);
    kexpr load = 0, f[2];
    for (uint32_t i = 0; i < n; i++) {
        const kern_memory *m = kern_m(k, t[i].mem);
        if (m->scope != KERN_ARG || m->arg != arg) continue;
        if (load || !t[i].load || t[i].at != p->update || t[i].dyn || t[i].guard ||
            t[i].valid != SYM_TRUE)
            return 0;
        load = t[i].load;
    }
    kern_is_dot(k, kern_s(k, p->update), f);
    for (p->side = 0; load && p->side < 2; p->side++) {
        const kern_expr *e = kern_e(k, f[p->side]);
        if (f[p->side] == load || (e->kind == KE_OP && e->op == OP_CAST && e->arg[0] == load))
            return load;
    }
    return 0;
}

/* index = base + column*j + row*r, all constants, with j the loop along the output's memory. */
static bool read_index(reading *p, sym index, kern_pack *out) {
    kern *k = p->k;
    sym rest;
    int64_t step, n;
    p->rows = 1;
    kstmt store = kern_s(k, p->sum)->next;
    if (!store || kern_s(k, store)->kind != KS_STORE) return false;
    if (!sym_split(k->syms, index, kern_s(k, p->sum)->l.var, &out->row, &index)) return false;
    p->column = -1;
    for (int i = 0; i < p->loops; i++) {
        sym var = kern_s(k, p->chain[i])->l.var;
        if (sym_uses(k->syms, index, var)) {
            if (p->column >= 0) return false;
            p->column = i;
        } else {
            constant_extent(k, p->chain[i], &n);
            p->rows = n > 0 && p->rows <= MOST_ROWS ? p->rows * n : MOST_ROWS + 1;
        }
    }
    if (p->column < 0 || p->rows < 2 || p->rows > MOST_ROWS) return false;
    sym j = kern_s(k, p->chain[p->column])->l.var;
    if (!sym_split(k->syms, index, j, &out->column, &rest)) return false;
    return sym_is_const(k->syms, rest, &out->base) &&
           sym_split(k->syms, kern_s(k, store)->store.index, j, &step, &rest) && step == 1;
}

/* Is the operand's other factor of other loops? And the parts of words, 1: none. */
static bool read_other(const reading *p, const kern_limits *limits, kern_pack *out) {
    kern *k = p->k;
    kexpr f[2];
    kern_is_dot(k, kern_s(k, p->update), f);
    const kern_expr *other = kern_e(k, f[!p->side]);
    int sum = kern_m(k, kern_s(k, p->update)->store.mem[0])->dtype;
    out->parts = 1;
    if (kern_expr_uses(k, f[!p->side], kern_s(k, p->chain[p->column])->l.var)) return false;
    if (other->kind == KE_OP && other->op == OP_CAST && kern_e(k, other->arg[0])->kind == KE_LOAD &&
        kern_e(k, f[p->side])->kind == KE_OP) {
        int row = kern_dot_of(kern_e(k, other->arg[0])->dtype, out->dtype, sum);
        if (row >= 0 && (limits->dots >> row & 1)) out->parts = kern_dots[row].parts;
    }
    if (out->column == 1 && out->parts == 1 && p->rows < SOME_ROWS) return false;
    int64_t lanes = limits->vector_bytes / (int64_t)qn_dtype_size((qn_dtype)sum);
    out->width = (p->rows <= 6 ? 4 : p->rows <= 9 ? 3 : 2) * (lanes > 16 ? 16 : lanes);
    return lanes >= 2;
}

bool kern_pack_of(kern *k, int arg, const kern_limits *limits, kern_pack *out) {
    reading p = {.k = k};
    *out = (kern_pack){.arg = arg};
    if (!read_product(&p)) return false;
    out->load = read_load(&p, arg);
    if (!out->load) return false;
    const kern_expr e = *kern_e(k, out->load);
    out->dtype = e.dtype;
    if (!sym_is_const(k->syms, kern_m(k, e.load.mem)->size, &out->source)) return false;
    if (!read_index(&p, e.load.index, out) || !read_other(&p, limits, out)) return false;
    constant_extent(k, p.chain[p.column], &out->columns);
    constant_extent(k, p.sum, &out->rows);
    if (out->columns < out->width) return false;
    out->panels = (out->columns + out->width - 1) / out->width;
    out->words = (out->rows + out->parts - 1) / out->parts;
    out->size = out->panels * out->words * out->width * out->parts;
    out->update = p.update;
    out->j = kern_s(k, p.chain[p.column])->l.var;
    out->r = kern_s(k, p.sum)->l.var;
    return true;
}

/* ---- the two kernels ------------------------------------------------------------------------- */

kern *kern_packer(qn_ctx *qn, const kern_pack *p) {
    kern *k = kern_open(qn);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        kern_close(k);
        heap_unwind(&qn->heap);
    }
    sym_store *s = k->syms;
    k->name = "pack";
    kmem to = kern_arg(k, (qn_dtype)p->dtype, sym_const(s, p->size), KERN_WRITE);
    kmem from = kern_arg(k, (qn_dtype)p->dtype, sym_const(s, p->source), KERN_READ);
    const int64_t extent[4] = {p->panels, p->words, p->width, p->parts};
    static const char *const name[4] = {"p", "q", "w", "d"};
    sym trip[4], at = SYM_ZERO;
    kstmt in = 0;
    for (int i = 0; i < 4; i++) {
        trip[i] = SYM_ZERO;
        at = sym_scale(s, at, extent[i]);
        if (extent[i] == 1) continue;
        in = kern_loop(k, in, KERN_SERIAL, name[i], sym_const(s, extent[i]));
        trip[i] = kern_trip(k, in);
        at = sym_add(s, at, trip[i]);
    }
    sym j = sym_add(s, sym_scale(s, trip[0], p->width), trip[2]);
    sym r = sym_add(s, sym_scale(s, trip[1], p->parts), trip[3]);
    sym index = sym_add(s, sym_scale(s, j, p->column), sym_scale(s, r, p->row));
    sym valid =
        sym_and(s, sym_lt(s, j, sym_const(s, p->columns)), sym_lt(s, r, sym_const(s, p->rows)));
    index = sym_add(s, index, sym_const(s, p->base));
    kern_store(k, in, MONOID_SET, to, at, SYM_TRUE, kern_load(k, from, index, valid, 0, 0));
    guard_close(&qn->heap, &g);
    return k;
}

void kern_read_packed(kern *k, const kern_pack *p) {
    sym_store *s = k->syms;
    sym width = sym_const(s, p->width), parts = sym_const(s, p->parts);
    sym at = sym_scale(s, sym_div(s, p->j, width), p->words * p->width * p->parts);
    at = sym_add(s, at, sym_scale(s, sym_div(s, p->r, parts), p->width * p->parts));
    at = sym_add(s, at, sym_scale(s, sym_mod(s, p->j, width), p->parts));
    at = sym_add(s, at, sym_mod(s, p->r, parts));
    kmem packed = kern_arg(k, (qn_dtype)p->dtype, sym_const(s, p->size), KERN_READ);
    kern_replace(k, p->update, p->load, kern_load(k, packed, at, SYM_TRUE, 0, 0));
}
