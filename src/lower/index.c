/* index.c - sizes, places in memory, arguments and parameters of a kernel that is lowered: what is
 * written in the graph's variables and slots becomes the kernel's. */
#include "lower/request.h"

/* ---- dimensions ------------------------------------------------------------------------------ */

/* One more dimension variable, and what a launch gives for it. */
sym lower_variable(lower *l, const char *name, int64_t lo, int64_t hi, int given) {
    uint32_t n = (uint32_t)l->out->vars;
    l->out->var = arena_grow(&l->k->arena, l->out->var, &l->var_cap, n + 1, sizeof *l->out->var);
    l->out->var[n] = given;
    l->out->vars++;
    return ir_dim_var(l->k, name, lo, hi);
}

/* The variable for which a launch gives that, 0: there is none yet. */
static sym find_variable(const lower *l, int given) {
    for (int i = 0; i < l->out->vars; i++)
        if (l->out->var[i] == given) return l->k->dim_var[i];
    return SYM_ZERO;
}

static void import_variable(lower *l, uint32_t number) {
    sym v = l->g->var[number];
    const sym_store *s = l->g->syms;
    if (find_variable(l, (int)number) != SYM_ZERO) return;
    arena *a = &l->k->arena;
    l->var_from = arena_grow(a, l->var_from, &l->from_cap, l->froms + 1, sizeof *l->var_from);
    l->var_to = arena_grow(a, l->var_to, &l->to_cap, l->froms + 1, sizeof *l->var_to);
    l->var_from[l->froms] = v;
    l->var_to[l->froms++] =
        lower_variable(l, sym_name(s, v), sym_lo(s, v), sym_hi(s, v), (int)number);
}

sym lower_dim(lower *l, sym dim) {
    int64_t c;
    if (sym_is_const(l->g->syms, dim, &c)) return sym_const(l->k->syms, c);
    for (uint32_t i = 0; i < l->g->vars; i++)
        if (sym_uses(l->g->syms, dim, l->g->var[i])) import_variable(l, i);
    return sym_import(l->k->syms, l->g->syms, dim, (int)l->froms, l->var_from, l->var_to);
}

sym lower_slot(lower *l, uint32_t slot) {
    sym known = find_variable(l, LOWER_SLOT(slot));
    if (known != SYM_ZERO) return known;
    return lower_variable(l, "at", 0, l->f->lift->most[slot], LOWER_SLOT(slot));
}

/* Where a slice begins, or where padding puts its source. */
sym lower_offset_along(lower *l, const graph_node *x, int axis, int64_t written) {
    const plan_lift *lift = l->f->lift;
    uint32_t slot = lift_offset(lift, lower_place_in_order(l, (node_id)(x - l->g->node)), axis);
    return slot == LIFT_NONE ? lower_dim(l, (sym)written) : lower_slot(l, slot);
}

int lower_shape(lower *l, tuple_id shape, sym *dim) {
    int rank;
    const int64_t *d = graph_tuple_get(l->g, shape, &rank);
    for (int i = 0; i < rank; i++) dim[i] = lower_dim(l, (sym)d[i]);
    return rank;
}

int lower_node_shape(lower *l, node_id n, sym *dim) {
    return lower_shape(l, node_at(l->g, n)->shape, dim);
}

sym lower_numel(lower *l, int rank, const sym *dim) {
    sym n = SYM_ONE;
    for (int i = 0; i < rank; i++) n = sym_mul(l->k->syms, n, dim[i]);
    return n;
}

/* The row-major offset of an index. */
sym lower_flatten(lower *l, int rank, const sym *dim, const sym *index) {
    sym_store *s = l->k->syms;
    sym at_ = SYM_ZERO;
    for (int i = 0; i < rank; i++) at_ = sym_add(s, sym_mul(s, at_, dim[i]), index[i]);
    return at_;
}

void lower_unflatten(lower *l, sym offset, int rank, const sym *dim, sym *index) {
    sym_store *s = l->k->syms;
    for (int i = rank; i-- > 0;) {
        sym d = sym_lo(s, dim[i]) >= 1 ? dim[i] : sym_max(s, dim[i], SYM_ONE);
        index[i] = i ? sym_mod(s, offset, d) : offset;
        if (dim[i] == SYM_ONE) index[i] = SYM_ZERO;
        offset = sym_div(s, offset, d);
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

mem_id lower_new_argument(lower *l, node_id n, sym size, int access, sym base) {
    lowered *o = l->out;
    uint32_t cap = l->arg_cap;
    o->arg = arena_grow(&l->k->arena, o->arg, &l->arg_cap, o->args + 1, sizeof *o->arg);
    o->base = arena_grow(&l->k->arena, o->base, &cap, o->args + 1, sizeof *o->base);
    l->memory = arena_grow(&l->k->arena, l->memory, &l->memory_cap, o->args + 1, sizeof *l->memory);
    o->arg[o->args] = n;
    o->base[o->args] = base;
    l->memory[o->args] = ir_arg(l->k, node_at(l->g, n)->dtype, size, access);
    return l->memory[o->args++];
}

mem_id lower_argument(lower *l, node_id n, int access) {
    lowered *o = l->out;
    for (uint32_t i = 0; i < o->args; i++) {
        if (o->arg[i] != n) continue;
        ir_m(l->k, l->memory[i])->access |= (uint8_t)access;
        return l->memory[i];
    }
    sym dim[QN_MAX_RANK];
    int rank = lower_node_shape(l, n, dim);
    sym size =
        l->fk->flat && lower_numel(l, rank, dim) != SYM_ONE ? l->length : lower_numel(l, rank, dim);
    return lower_new_argument(l, n, size, access, SYM_ZERO);
}

/* Offset of index p in node n's memory. */
sym lower_offset_of(lower *l, node_id n, const at *p) {
    if (l->fk->flat) return p->rank ? p->index[0] : SYM_ZERO;
    sym dim[QN_MAX_RANK];
    int rank = lower_node_shape(l, n, dim);
    return lower_flatten(l, rank, dim, p->index);
}

/* ---- numbers that the launch gives ----------------------------------------------------------- */

expr_id lower_parameter(lower *l, uint32_t slot, int dtype) {
    lowered *o = l->out;
    for (uint32_t i = 0; i < o->params; i++)
        if (o->param[i] == slot) return l->param[i];
    o->param = arena_grow(&l->k->arena, o->param, &l->param_cap, o->params + 1, sizeof *o->param);
    l->param = arena_grow(&l->k->arena, l->param, &l->expr_cap, o->params + 1, sizeof *l->param);
    o->param[o->params] = slot;
    return l->param[o->params++] = ir_param(l->k, (qn_dtype)dtype);
}
