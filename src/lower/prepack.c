/* prepack.c - a product's second operand packed beforehand, in the order in which it will be read.
 *
 * Packing costs as much as a few rows of a product. Where the operand is constant, a weight, one
 * kernel packs it once and the product reads the packed panels:
 *
 *   a[j, r], columns j < n and a sum over r   ->   b[j / W][r][j % W]
 *
 * panels of W columns, W vectors' width, zeros behind the last column; for dot instructions with
 * the parts of words together, b[j / W][r / P][j % W][r % P]. The product stays as it was except
 * for the index of that load, from which the scheduler recognizes panels of columns
 * (schedule/contraction) and any other device or schedule may read it as well. Elements keep
 * their dtype.
 *
 * Which operands are packed, and when again, is the planner's decision. */
#include "lower/lower.h"

enum {
    LEAST = 16,      /* iterations of the sum for which a panel is no mere copy */
    MOST_VECTORS = 4 /* of a panel: of the widest register tile of few rows */
};

typedef struct reading {
    kernel *k;
    contraction c;
    int column;   /* which of the output's loops is j */
    int side;     /* which factor the operand is */
    int64_t rows; /* outputs of a column */
} reading;

static bool constant_extent(const kernel *k, stmt_id loop, int64_t *n) {
    return ir_s(k, loop)->kind == STMT_LOOP && ir_s(k, loop)->loop == LOOP_SERIAL &&
           sym_is_const(k->syms, ir_s(k, loop)->l.extent, n);
}

/* A kernel that is one contraction, of constant extents. */
static bool read_product(reading *p) {
    kernel *k = p->k;
    int64_t n, terms = 1;
    stmt_id root = ir_s(k, k->root)->first;
    if (!root || root != ir_s(k, k->root)->last || !contraction_of(k, root, &p->c)) return false;
    for (int i = 0; i < p->c.loops; i++) {
        if (!constant_extent(k, p->c.loop[i].at, &n)) return false;
        if (i >= p->c.outs) terms = sat_mul(terms, n);
    }
    return terms >= LEAST;
}

/* The argument's only access, a plain load that is one factor, perhaps converted; 0: it is not. */
static expr_id read_load(reading *p, int arg) {
    kernel *k = p->k;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t), found = 0;
    for (uint32_t i = 0; i < n; i++)
        found += ir_m(k, t[i].mem)->scope == MEM_ARG && ir_m(k, t[i].mem)->arg == arg;
    for (p->side = 0; found == 1 && p->side < 2; p->side++) {
        const contraction_operand *o = &p->c.of[p->side];
        if (o->direct && ir_m(k, o->mem)->arg == arg && o->access.valid == SYM_TRUE &&
            (o->as >= 0 || o->factor == o->access.load))
            return o->access.load;
    }
    return 0;
}

/* The loops of the sum, outermost first; those that go in step are one. r counts all terms. */
static bool read_terms(reading *p, sym *index, prepack *out) {
    sym_store *s = p->k->syms;
    out->rows = 1;
    out->r = SYM_ZERO;
    for (int i = p->c.outs; i < p->c.loops; i++) {
        int64_t n, step;
        sym var = ir_s(p->k, p->c.loop[i].at)->l.var;
        constant_extent(p->k, p->c.loop[i].at, &n);
        if (!sym_split(s, *index, var, &step, index) || n < 1) return false;
        out->r = sym_add(s, sym_scale(s, out->r, n), var);
        out->rows = sat_mul(out->rows, n);
        int last = out->sums - 1;
        if (last >= 0 && out->row[last] == step * n) {
            out->row[last] = step, out->end[last] *= n;
        } else {
            if (out->sums == PREPACK_SUMS) return false;
            out->row[out->sums] = step, out->end[out->sums++] = n;
        }
    }
    return true;
}

/* index = base + column*j + row*r.., all constants, j a loop of the output: the only one that it
 * depends on. */
static bool read_index(reading *p, sym index, prepack *out) {
    kernel *k = p->k;
    sym rest;
    int64_t n;
    p->rows = 1;
    p->column = -1;
    if (!p->c.epilogue || !read_terms(p, &index, out)) return false;
    for (int i = 0; i < p->c.outs; i++) {
        stmt_id loop = p->c.loop[i].at;
        constant_extent(k, loop, &n);
        if (!sym_uses(k->syms, index, ir_s(k, loop)->l.var)) {
            p->rows = sat_mul(p->rows, n > 0 ? n : 0);
            continue;
        }
        if (p->column >= 0) return false;
        p->column = i;
        out->columns = n;
    }
    if (p->column < 0) return false;
    out->j = ir_s(k, p->c.loop[p->column].at)->l.var;
    return sym_split(k->syms, index, out->j, &out->column, &rest) &&
           sym_is_const(k->syms, rest, &out->base);
}

/* Does j go along the output's memory, as the columns of a product do? */
static bool stores_along(const reading *p, const prepack *out) {
    int64_t step;
    sym rest, to = ir_s(p->k, p->c.epilogue)->store.index;
    return sym_split(p->k->syms, to, out->j, &step, &rest) && step == 1;
}

/* The parts of words, 1: none, and the width of a product's panels. */
static bool choose_panels(const reading *p, const machine *limits, prepack *out) {
    kernel *k = p->k;
    const contraction_operand *other = &p->c.of[!p->side];
    int sum = ir_m(k, p->c.tile)->dtype;
    if (out->sums > 1 || !stores_along(p, out)) return false;
    if (p->rows < 2 || p->rows > limits->prepack_rows_most) return false;
    if (other->as >= 0 && p->c.of[p->side].as >= 0) {
        int row = ir_dot_of(ir_m(k, other->mem)->dtype, out->dtype, sum);
        if (row >= 0 && (limits->dots >> row & 1)) out->parts = ir_dots[row].parts;
    }
    if (out->column == 1 && out->parts == 1 && p->rows < limits->prepack_rows) return false;
    int64_t lanes = limits->vector_bytes / (int64_t)qn_dtype_size((qn_dtype)sum);
    int64_t vectors = MOST_VECTORS;
    while (vectors > 2 && p->rows * vectors + vectors + 1 > limits->registers) vectors--;
    out->width = vectors * (lanes > 16 ? 16 : lanes);
    return lanes >= 2 && out->columns >= out->width;
}

bool prepack_find(kernel *k, int arg, const machine *limits, int64_t width, prepack *out) {
    reading p = {.k = k};
    *out = (prepack){.arg = arg, .width = width, .parts = 1};
    if (!read_product(&p)) return false;
    out->load = read_load(&p, arg);
    if (!out->load) return false;
    const ir_expr e = *ir_e(k, out->load);
    out->dtype = e.dtype;
    if (!sym_is_const(k->syms, ir_m(k, e.load.mem)->size, &out->source)) return false;
    if (!read_index(&p, e.load.index, out) || p.c.loop[p.column].side == SIDE_BOTH) return false;
    if (!width && !choose_panels(&p, limits, out)) return false;
    out->panels = ceil_div(out->columns, out->width);
    out->words = ceil_div(out->rows, out->parts);
    out->size = out->panels * out->words * out->width * out->parts;
    out->update = p.c.update;
    return true;
}

bool prepack_alike(const prepack *a, const prepack *b) {
    bool same = a->dtype == b->dtype && a->source == b->source && a->columns == b->columns &&
                a->sums == b->sums && a->column == b->column && a->base == b->base &&
                a->width == b->width && a->parts == b->parts;
    for (int i = 0; same && i < a->sums; i++)
        same = a->row[i] == b->row[i] && a->end[i] == b->end[i];
    return same;
}

/* ---- the two kernels ------------------------------------------------------------------------- */

/* Loops over so many, but for one trip, from outside in; each one's number. *at is the number of
 * the innermost iteration, *in its loop. */
static void open_loops(kernel *k, int n, const int64_t *extent, sym *trip, stmt_id *in, sym *at) {
    static const char *const name[PREPACK_SUMS + 3] = {"p", "q", "w", "d", "e", "f", "g", "h", "i"};
    *in = 0;
    *at = SYM_ZERO;
    for (int i = 0; i < n; i++) {
        trip[i] = SYM_ZERO;
        *at = sym_scale(k->syms, *at, extent[i]);
        if (extent[i] == 1) continue;
        *in = ir_loop(k, *in, LOOP_SERIAL, name[i], sym_const(k->syms, extent[i]));
        trip[i] = ir_trip(k, *in);
        *at = sym_add(k->syms, *at, trip[i]);
    }
}

kernel *prepack_kernel(qn_ctx *qn, const prepack *p) {
    kernel *k = ir_open(qn);
    cleanup c;
    cleanup_push(&qn->heap, &c, ir_cleanup, k);
    sym_store *s = k->syms;
    k->name = "pack";
    mem_id to = ir_arg(k, (qn_dtype)p->dtype, sym_const(s, p->size), ACCESS_WRITE);
    mem_id from = ir_arg(k, (qn_dtype)p->dtype, sym_const(s, p->source), ACCESS_READ);
    int64_t extent[PREPACK_SUMS + 3] = {p->panels, p->words};
    sym trip[PREPACK_SUMS + 3], at, valid = SYM_TRUE, index = sym_const(s, p->base);
    stmt_id in;
    int sums = p->sums; /* the words' loops */
    for (int i = 0; sums > 1 && i < sums; i++) extent[1 + i] = p->end[i];
    extent[1 + sums] = p->width, extent[2 + sums] = p->parts;
    open_loops(k, sums + 3, extent, trip, &in, &at);
    sym j = sym_add(s, sym_scale(s, trip[0], p->width), trip[1 + sums]);
    for (int i = 0; i < sums; i++) {
        sym r = sym_add(s, sym_scale(s, trip[1 + i], p->parts), trip[2 + sums]);
        index = sym_add(s, index, sym_scale(s, r, p->row[i]));
        valid = sym_and(s, valid, sym_lt(s, r, sym_const(s, p->end[i])));
    }
    index = sym_add(s, index, sym_scale(s, j, p->column));
    valid = sym_and(s, sym_lt(s, j, sym_const(s, p->columns)), valid);
    ir_store(k, in, MONOID_SET, (ir_place){to, at, SYM_TRUE}, ir_load(k, from, index, valid, 0, 0));
    cleanup_drop(&qn->heap, &c);
    return k;
}

void prepack_read(kernel *k, const prepack *p) {
    sym_store *s = k->syms;
    sym width = sym_const(s, p->width), parts = sym_const(s, p->parts);
    sym at = sym_scale(s, sym_div(s, p->j, width), p->words * p->width * p->parts);
    at = sym_add(s, at, sym_scale(s, sym_div(s, p->r, parts), p->width * p->parts));
    at = sym_add(s, at, sym_scale(s, sym_mod(s, p->j, width), p->parts));
    at = sym_add(s, at, sym_mod(s, p->r, parts));
    mem_id packed = ir_arg(k, (qn_dtype)p->dtype, sym_const(s, p->size), ACCESS_READ);
    ir_replace(k, p->update, p->load, ir_load(k, packed, at, SYM_TRUE, 0, 0));
}
