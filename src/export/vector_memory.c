/* vector_memory.c - where a vector's lanes lie in memory, and which of them are on.
 *
 * Lanes side by side are one load. Lanes two to four elements apart, as a convolution of stride two
 * reads them, or the parts of complex numbers, are as many whole vectors as there are elements from
 * one lane to the next, out of which SHUFFLE (vector_types.c) takes those that are wanted:
 *
 *     const f32x16 x1p0 = *(const f32x16_u *)(a1 + (32*i_));
 *     const f32x16 x1p1 = *(const f32x16_u *)(a1 + (32*i_ + 15));
 *     const f32x16 x1 = SHUFFLE_f32x16(x1p0, x1p1, 0, 2, .., 14, 17, 19, .., 31);
 *
 * The last one ends with the last lane's element, so that nothing behind it is read. Lanes that go
 * back by one are a whole vector, turned around.
 *
 * Conditions that are linear in the lane hold in lanes side by side, so of a whole vector they are
 * a number's bits, lanes_below(60 - 16*i_), say. Where lanes are apart, elements between two lanes
 * that are on are inside of the memory as those are. */
#include "export/export.h"

enum { MOST_APART = 4 };

sym vector_at_lane(vectors *v, sym a, int64_t l) {
    sym value = sym_const(v->k->syms, l);
    return sym_subst(v->k->syms, a, 1, &v->var, &value);
}

void vector_memory(vectors *v, mem_id m) {
    const ir_memory *mem = ir_m(v->k, m);
    if (mem->scope == MEM_ARG)
        str_addf(v->c->out, "a%d", mem->arg);
    else
        str_addf(v->c->out, "t%d", ir_tile_number(v->k, m));
}

/* Are elements in memory what they are in variables? */
static bool is_plain(const vectors *v, mem_id m) {
    int dtype = ir_m(v->k, m)->dtype;
    return dtype != QN_BOOL && (ir_m(v->k, m)->scope == MEM_REG || !dtype_is_narrow(dtype));
}

int vector_step(vectors *v, mem_id m, sym index) {
    sym coef, rest;
    int64_t step = 0;
    if (!is_plain(v, m) || !ir_linear(v->k, index, v->var, &coef, &rest) ||
        !sym_is_const(v->k->syms, coef, &step) || step < -1 || step > MOST_APART)
        return 0;
    return (int)step;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* coef*lane + rest >= 0, coef a number. */
static bool is_bound(vectors *v, sym fact, int64_t *coef, sym *rest) {
    sym c;
    return ir_linear(v->k, fact, v->var, &c, rest) && sym_is_const(v->k->syms, c, coef) &&
           *coef > -VECTOR_LANES && *coef < VECTOR_LANES;
}

/* The conditions whose conjunction this is; in the arena. */
static int parts_of(vectors *v, sym condition, sym **part) {
    const sym *x;
    int n = sym_operands(v->k->syms, condition, &x);
    *part = arena_alloc(v->a, ((size_t)n + 1) * sizeof **part);
    memcpy(*part, x, (size_t)n * sizeof **part);
    return n;
}

bool vector_is_linear(vectors *v, sym condition) {
    sym_store *syms = v->k->syms;
    sym rest, *part;
    int64_t coef;
    if (!sym_uses(syms, condition, v->var)) return true;
    int n = parts_of(v, condition, &part);
    if (sym_kind_of(syms, condition) == SYM_GE0) return is_bound(v, part[0], &coef, &rest);
    bool all = sym_kind_of(syms, condition) == SYM_AND;
    for (int i = 0; i < n && all; i++) all = vector_is_linear(v, part[i]);
    return all;
}

/* Where a bound's last or first lane is in a whole vector in which lane l is element
 * step*l - start; `from`: elements from there on are on, otherwise those up to it. */
static sym bound_at(vectors *v, sym fact, int step, int64_t start, bool *from) {
    sym_store *syms = v->k->syms;
    sym rest;
    int64_t coef = 0;
    is_bound(v, fact, &coef, &rest);
    sym lane = sym_div(syms, rest, sym_const(syms, coef < 0 ? -coef : coef));
    *from = (coef > 0) == (step > 0);
    return sym_sub(syms, sym_scale(syms, lane, coef > 0 ? -step : step), sym_const(syms, start));
}

/* Bits may be set, too, of lanes there are not. */
static void mask_apart(vectors *v, sym condition, int step, int64_t start) {
    sym_store *syms = v->k->syms;
    str *out = v->c->out;
    sym *part;
    bool from;
    int n = parts_of(v, condition, &part);
    if (!sym_uses(syms, condition, v->var)) {
        str_add(out, "lanes_if(");
        clike_truth(v->c, condition);
        str_add(out, ")");
    } else if (sym_kind_of(syms, condition) == SYM_GE0) {
        sym at = bound_at(v, part[0], step, start, &from);
        str_add(out, from ? "~lanes_below(" : "lanes_below(");
        clike_sym(v->c, from ? at : sym_add(syms, at, SYM_ONE));
        str_add(out, ")");
    } else {
        for (int i = 0; i < n; i++) {
            if (i) str_add(out, " & ");
            mask_apart(v, part[i], step, start);
        }
    }
}

void vector_mask(vectors *v, sym condition) {
    mask_apart(v, condition, 1, 0);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void place_at(vectors *v, const char *type, bool reads, mem_id m, sym first) {
    str_addf(v->c->out, "*(%s%s_u *)(", reads ? "const " : "", type);
    vector_memory(v, m);
    str_add(v->c->out, " + (");
    clike_sym(v->c, first);
    str_add(v->c->out, "))");
}

void vector_place(vectors *v, const char *type, bool reads, mem_id m, sym index) {
    place_at(v, type, reads, m, vector_at_lane(v, index, 0));
}

/* The base and the index as two arguments: where no lane is on there may be no such place. */
void vector_masked_place(vectors *v, mem_id m, sym index, sym valid) {
    vector_memory(v, m);
    str_add(v->c->out, ", ");
    clike_sym(v->c, vector_at_lane(v, index, 0));
    str_add(v->c->out, ", ");
    vector_mask(v, valid);
}

/* ---- lanes apart ----------------------------------------------------------------------------- */

/* Elements of less than 32 bits have no masks in registers. */
bool vector_is_apart(vectors *v, const ir_expr *x, sym valid) {
    int step = vector_step(v, x->load.mem, x->load.index);
    return (step == -1 || step > 1) && v->lanes >= MOST_APART && !x->load.guard && !x->load.dyn &&
           (valid == SYM_TRUE ||
            (vector_is_linear(v, valid) && qn_dtype_size((qn_dtype)x->dtype) >= 4));
}

static void load_part(vectors *v, const ir_expr *x, sym valid, int step, int64_t start) {
    sym_store *syms = v->k->syms;
    sym first = sym_add(syms, vector_at_lane(v, x->load.index, 0), sym_const(syms, start));
    if (valid == SYM_TRUE) {
        place_at(v, vector_type(v, x->dtype), true, x->load.mem, first);
        str_add(v->c->out, ";\n");
        return;
    }
    vector_memory(v, x->load.mem);
    str_add(v->c->out, ", ");
    clike_sym(v->c, first);
    str_add(v->c->out, ", ");
    mask_apart(v, valid, step, start);
    str_add(v->c->out, ");\n");
}

/* The lanes' places in the two vectors that are shuffled: first the parts 0 and 1, and then what
 * came of the parts before, which is in place, and the next. */
static void add_places(vectors *v, int step, int part, const int *start) {
    for (int l = 0; l < v->lanes; l++) {
        int at = step * l, in = 0, place = l;
        while (in + 1 < step && at >= start[in] + v->lanes) in++;
        if (in == part) place = v->lanes + at - start[in];
        if (part == 1 && in == 0) place = at;
        str_addf(v->c->out, ", %d", place);
    }
    str_add(v->c->out, ");\n");
}

void vector_load_apart(vectors *v, expr_id e, const ir_expr *x, sym valid) {
    const int step = vector_step(v, x->load.mem, x->load.index), parts = step < 0 ? 1 : step;
    const char *type = vector_type_for(v, x->dtype, VECTOR_SHUFFLED);
    int start[MOST_APART];
    clike *c = v->c;
    if (valid != SYM_TRUE) vector_type_for(v, x->dtype, VECTOR_MASKED);
    for (int i = 0; i < parts; i++) {
        start[i] = i * v->lanes - (valid == SYM_TRUE && i && i == step - 1 ? step - 1 : 0);
        if (step < 0) start[i] = 1 - v->lanes;
        clike_line(c);
        str_addf(c->out, valid == SYM_TRUE ? "const %s %c%up%d = " : "LOAD_%s(%c%up%d, ", type,
                 v->letter, e, i);
        load_part(v, x, valid, step, start[i]);
    }
    for (int i = parts > 1; i < parts; i++) {
        clike_line(c);
        str_addf(c->out, "const %s %c%u", type, v->letter, e);
        if (i < parts - 1) str_addf(c->out, "q%d", i);
        str_addf(c->out, " = SHUFFLE_%s(%c%u%c%d, %c%up%d", type, v->letter, e, i > 1 ? 'q' : 'p',
                 i > 1 ? i - 1 : 0, v->letter, e, i);
        if (step > 0) add_places(v, step, i, start);
        for (int l = v->lanes; step < 0 && l > 0; l--) str_addf(c->out, ", %d", l - 1);
        if (step < 0) str_add(c->out, ");\n");
    }
}
