/* vector.c - VEC loops as statements about whole vectors, in GNU C.
 *
 * Compilers of GNU's kind have types for vectors, and only by them do they make of a kernel what
 * its schedule says. A VEC loop of 2^n lanes becomes, store by store, a block in which each node of
 * the value is a variable:
 *
 *     const f32x16 x1 = *(const f32x16_u *)(a1 + 16*i_);
 *     const f32x16 x2 = ... - x1;
 *     *(f32x16_u *)(a0 + 16*i_) = x2;
 *
 * What has no such form (a function by bits, a gather, a narrow float) is a loop over the lanes of
 * one node. Which lanes are on is a mask of bits, and loads and stores under it are macros of the
 * type (vector_types.c). Registers whose every access is a whole vector are variables, t0_3;
 * that needs unrolled loops to be unrolled (vector_tree.c). A truth is a vector of i32, 0 or
 * -1. Everything has the bits of the plain loop.
 *
 * Variables of the tree are written as NAME_, so no name made here ends in _: x5y, and r. */
#include "export/export.h"

#include <stdio.h>

enum { MOST_NAMED = 64 };

/* ---- which loops, which registers ------------------------------------------------------------ */

/* The number of the register that a whole vector is; false: it is none. */
static bool register_at(kernel *k, sym index, sym var, int lanes, int64_t *number) {
    int64_t at;
    if (!sym_is_const(k->syms, sym_sub(k->syms, index, var), &at) || at < 0 || at % lanes)
        return false;
    *number = at / lanes;
    return true;
}

/* By memory: the lanes of each of a tile's registers, 0: it is an array. */
int *export_named(kernel *k, arena *a) {
    int *named = arena_zeroed(a, k->mems * sizeof *named);
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t lanes = 0, number;
        stmt_id loop = ir_s(k, t[i].at)->parent;
        const ir_stmt *l = ir_s(k, loop);
        bool fine = ir_m(k, t[i].mem)->scope == MEM_REG && loop != k->root &&
                    ir_s(k, t[i].at)->kind == STMT_STORE && export_is_vector(k, loop) && !t[i].dyn;
        fine = fine && sym_is_const(k->syms, l->l.extent, &lanes) &&
               register_at(k, t[i].index, l->l.var, (int)lanes, &number) && number < MOST_NAMED &&
               number * lanes < sym_hi(k->syms, ir_m(k, t[i].mem)->size) &&
               (!t[i].load || (t[i].valid == SYM_TRUE && !t[i].guard)) &&
               (!named[t[i].mem] || named[t[i].mem] == (int)lanes);
        named[t[i].mem] = fine ? (int)lanes : -1;
        if (!fine && ir_m(k, t[i].mem)->scope == MEM_REG)
            for (uint32_t j = 0; j < n; j++) /* once an array, always */
                if (t[j].mem == t[i].mem) t[j].dyn = 1;
    }
    for (mem_id m = 0; m < k->mems; m++)
        if (named[m] < 0) named[m] = 0;
    return named;
}

/* Does a tile fill most of the machine's registers? AVX-512 has 32, others 16. */
static bool fills_registers(kernel *k, mem_id m, int lanes) {
    int64_t bytes = lanes * (int64_t)qn_dtype_size((qn_dtype)ir_m(k, m)->dtype);
    return sym_hi(k->syms, ir_m(k, m)->size) >= lanes * (int64_t)(bytes >= 64 ? 20 : 10);
}

/* Does the loop go on adding to such a tile that was there before? It is best as it is: where
 * compilers unroll it they load ahead, and spill. Beside smaller tiles there is room for that. */
bool export_holds_tile(kernel *k, arena *a, const int *named, stmt_id loop) {
    uint8_t *inside = arena_zeroed(a, k->mems);
    for (stmt_id s = ir_next(k, loop, loop); s; s = ir_next(k, s, loop))
        if (ir_s(k, s)->kind == STMT_DEF) inside[ir_s(k, s)->def.mem] = 1;
    for (stmt_id s = ir_next(k, loop, loop); s; s = ir_next(k, s, loop)) {
        const ir_stmt *t = ir_s(k, s);
        for (int i = 0; t->kind == STMT_STORE && i < t->n; i++) {
            mem_id m = t->store.mem[i];
            if (!inside[m] && named[m] && fills_registers(k, m, named[m])) return true;
        }
    }
    return false;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The name of a vector type. */
const char *vector_type_for(vectors *v, int dtype, vector_need need) {
    if (dtype == QN_BOOL) dtype = QN_I32;
    if (dtype_is_narrow(dtype)) dtype = dtype_rows[dtype].acc;
    vector_need_of(v->types, dtype, v->lanes, need);
    return arena_printf(v->a, "%sx%d", vector_lane_name(dtype), v->lanes);
}

const char *vector_type(vectors *v, int dtype) {
    return vector_type_for(v, dtype, VECTOR_TYPE);
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool is_old(const ir_expr *x) {
    return x->kind == EXPR_LOAD && !x->load.mem;
}

static bool is_leaf(const vectors *v, expr_id e) {
    const ir_expr *x = ir_e(v->k, e);
    return x->kind == EXPR_CONST || x->kind == EXPR_PARAM || is_old(x) ||
           (x->kind == EXPR_INDEX && !v->wide[e]);
}

/* A scalar, or a vector by its name. */
static void operand(vectors *v, expr_id e) {
    clike *c = v->c;
    const ir_expr x = *ir_e(v->k, e);
    if (x.kind == EXPR_CONST) {
        clike_constant(c, x.dtype, x.bits);
    } else if (x.kind == EXPR_PARAM) {
        str_addf(c->out, "p%u", x.param);
    } else if (is_old(&x)) {
        str_addf(c->out, "o%d", (int)x.load.index);
    } else if (x.kind == EXPR_INDEX && !v->wide[e]) {
        str_add(c->out, "(");
        clike_sym(c, x.index);
        str_add(c->out, ")");
    } else {
        str_addf(c->out, "%c%u", v->letter, e);
    }
}

/* A vector: a scalar in all lanes. Nothing less 0 is what it was, -0, too. */
void vector_wide(vectors *v, expr_id e) {
    int dtype = ir_e(v->k, e)->dtype;
    if (v->wide[e]) {
        operand(v, e);
        return;
    }
    bool truth = dtype == QN_BOOL;
    if (truth) str_addf(v->c->out, "((%s){0} - ", vector_type(v, dtype));
    str_addf(v->c->out, truth ? "(%s)(" : "((%s)(", vector_lane_type(dtype));
    operand(v, e);
    if (truth)
        str_add(v->c->out, "))");
    else
        str_addf(v->c->out, ") - (%s){0})", vector_type(v, dtype));
}

/* One lane of it, in a loop over lanes whose operands have copies that may be indexed. */
static void lane(vectors *v, expr_id e) {
    bool truth = ir_e(v->k, e)->dtype == QN_BOOL && v->wide[e];
    if (truth) str_add(v->c->out, "(uint8_t)(");
    if (v->wide[e]) str_addf(v->c->out, "%c%uy[%s_]", v->letter, e, sym_name(v->c->syms, v->var));
    if (!v->wide[e]) operand(v, e);
    if (truth) str_add(v->c->out, " != 0)");
}

/* ---- loops over lanes ------------------------------------------------------------------------ */

static void open_lanes(vectors *v) {
    const char *name = sym_name(v->c->syms, v->var);
    clike_line(v->c);
    str_addf(v->c->out, "for (int64_t %s_ = 0; %s_ < %d; %s_++) ", name, name, v->lanes, name);
}

/* Copies of the wide ones among these: what is indexed by a variable is no register. */
static void copy_operands(vectors *v, int n, const expr_id *arg) {
    for (int i = 0; i < n; i++) {
        bool again = false;
        for (int k = 0; k < i; k++) again |= arg[k] == arg[i];
        if (!arg[i] || !v->wide[arg[i]] || again) continue;
        clike_line(v->c);
        str_addf(v->c->out, "const %s %c%uy = ", vector_type(v, ir_e(v->k, arg[i])->dtype),
                 v->letter, arg[i]);
        operand(v, arg[i]);
        str_add(v->c->out, ";\n");
    }
}

static void add_line(vectors *v, const char *text) {
    clike_line(v->c);
    str_add(v->c->out, text);
}

/* x5 = { lane by lane }: what comes behind is the lane's value, then close_node. */
static void open_node(vectors *v, expr_id e, int n, const expr_id *arg) {
    const char *type = vector_type(v, ir_e(v->k, e)->dtype);
    clike_line(v->c);
    str_addf(v->c->out, "%s %c%u;\n", type, v->letter, e);
    add_line(v, "{\n");
    v->c->indent++;
    copy_operands(v, n, arg);
    clike_line(v->c);
    str_addf(v->c->out, "%s r = {0};\n", type);
    open_lanes(v);
    str_addf(v->c->out, "r[%s_] = ", sym_name(v->c->syms, v->var));
}

static void close_node(vectors *v, expr_id e) {
    str_add(v->c->out, ";\n");
    clike_line(v->c);
    str_addf(v->c->out, "%c%u = r;\n", v->letter, e);
    clike_close_block(v->c);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static void lane_load(vectors *v, const ir_expr *x, sym valid) {
    clike *c = v->c;
    bool convert = ir_m(v->k, x->load.mem)->scope != MEM_REG && dtype_is_narrow(x->dtype);
    if (valid != SYM_TRUE || x->load.guard) str_add(c->out, "(");
    if (valid != SYM_TRUE) clike_truth(c, valid);
    if (valid != SYM_TRUE && x->load.guard) str_add(c->out, " && ");
    if (x->load.guard) lane(v, x->load.guard);
    if (valid != SYM_TRUE || x->load.guard) str_add(c->out, " ? ");
    if (convert) clike_load(c, x->dtype);
    vector_memory(v, x->load.mem);
    str_add(c->out, "[");
    clike_sym(c, x->load.index);
    if (x->load.dyn) str_add(c->out, " + ");
    if (x->load.dyn) lane(v, x->load.dyn);
    str_add(c->out, convert ? "])" : "]");
    if (valid != SYM_TRUE || x->load.guard) str_add(c->out, " : 0)");
}

static void wide_load(vectors *v, expr_id e, const int *named) {
    const ir_expr x = *ir_e(v->k, e);
    mem_id m = x.load.mem;
    clike *c = v->c;
    const char *type = vector_type(v, x.dtype);
    int64_t number = 0;
    const expr_id arg[2] = {x.load.guard, x.load.dyn};
    sym valid = sym_and(v->k->syms, x.load.valid, v->lane_valid);
    if (named[m]) {
        register_at(v->k, x.load.index, v->var, v->lanes, &number);
        clike_line(c);
        str_addf(c->out, "const %s %c%u = t%d_%lld;\n", type, v->letter, e, ir_tile_number(v->k, m),
                 (long long)number);
        return;
    }
    bool whole = !x.load.guard && !x.load.dyn && vector_step(v, m, x.load.index) == 1;
    if (whole && valid == SYM_TRUE) {
        clike_line(c);
        str_addf(c->out, "const %s %c%u = ", type, v->letter, e);
        vector_place(v, type, true, m, x.load.index);
        str_add(c->out, ";\n");
        return;
    }
    if (whole && vector_is_linear(v, valid)) {
        clike_line(c);
        str_addf(c->out, "LOAD_%s(%c%u, ", vector_type_for(v, x.dtype, VECTOR_MASKED), v->letter,
                 e);
        vector_masked_place(v, m, x.load.index, valid);
        str_add(c->out, ");\n");
        return;
    }
    if (vector_is_apart(v, &x, valid)) {
        vector_load_apart(v, e, &x, valid);
        return;
    }
    clike_line(c);
    str_addf(c->out, "%s %c%u;\n", type, v->letter, e);
    add_line(v, "{\n");
    c->indent++;
    copy_operands(v, 2, arg);
    clike_line(c);
    str_addf(c->out, "%s r = {0};\n", type);
    open_lanes(v);
    str_addf(c->out, "r[%s_] = %s", sym_name(c->syms, v->var), x.dtype == QN_BOOL ? "-" : "");
    lane_load(v, &x, valid);
    close_node(v, e);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The scalar operation, of lanes or of scalars. */
static void by_lanes_op(vectors *v, const ir_expr *x, void (*put)(vectors *v, expr_id e)) {
    int in = ir_e(v->k, x->arg[x->n - 1])->dtype;
    const char *sign;
    bool infix = clike_infix(x->op, in, &sign);
    if (infix)
        str_add(v->c->out, "(");
    else
        clike_call(v->c, x->op, x->dtype, in);
    for (int i = 0; i < x->n; i++) {
        if (i) str_addf(v->c->out, infix ? " %s " : ", ", sign);
        put(v, x->arg[i]);
    }
    str_add(v->c->out, ")");
}

static void table(vectors *v, const ir_expr *x, void (*put)(vectors *v, expr_id e)) {
    clike_table(v->c, x->table.number);
    str_add(v->c->out, "[(int)(");
    put(v, x->table.index);
    str_addf(v->c->out, " & %d)]", v->k->table[x->table.number].n - 1);
}

/* A table that fits registers. */
static bool look_up(vectors *v, expr_id e, const ir_expr *x) {
    bool words = qn_dtype_size((qn_dtype)x->dtype) == 4 && x->dtype != QN_BOOL &&
                 qn_dtype_size((qn_dtype)ir_e(v->k, x->table.index)->dtype) == 4;
    if (!words || v->k->table[x->table.number].n != VECTOR_ENTRIES ||
        (v->lanes != 8 && v->lanes != 16))
        return false;
    vector_type(v, QN_I32);
    clike_line(v->c);
    str_addf(v->c->out, "LOOKUP_%s(%c%u, ", vector_type_for(v, x->dtype, VECTOR_LOOKED_UP),
             v->letter, e);
    clike_table(v->c, x->table.number);
    str_add(v->c->out, ", ");
    vector_wide(v, x->table.index);
    str_add(v->c->out, ");\n");
    return true;
}

static void wide_node(vectors *v, expr_id e, const int *named) {
    const ir_expr x = *ir_e(v->k, e);
    if (x.kind == EXPR_LOAD) {
        wide_load(v, e, named);
        return;
    }
    if (x.kind == EXPR_OP && vector_native(v, e, &x)) {
        str_add(v->c->out, ";\n");
        return;
    }
    if (x.kind == EXPR_TABLE && look_up(v, e, &x)) return;
    bool truth = x.dtype == QN_BOOL;
    if (x.kind == EXPR_INDEX) {
        open_node(v, e, 0, NULL);
        clike_sym(v->c, x.index);
    } else if (x.kind == EXPR_TABLE) {
        open_node(v, e, 1, &x.table.index);
        table(v, &x, lane);
    } else {
        open_node(v, e, x.n, x.arg);
        if (truth) str_add(v->c->out, "-(");
        by_lanes_op(v, &x, lane);
        if (truth) str_add(v->c->out, ")");
    }
    close_node(v, e);
}

/* (is a lane on?): one of those that may be the only one. Where all conditions rise along the
 * lanes that is the last, where all fall the first. */
static void some_lane(vectors *v) {
    sym fact[IR_FACTS], coef, rest;
    int n = ir_facts(v->k, v->lane_valid, fact);
    bool rises = n > 0 && n < IR_FACTS, falls = rises;
    for (int i = 0; i < n; i++) {
        int64_t by = 0;
        if (!ir_linear(v->k, fact[i], v->var, &coef, &rest) || !sym_is_const(v->k->syms, coef, &by))
            by = 0;
        rises &= by > 0;
        falls &= by < 0;
    }
    str_add(v->c->out, "((");
    for (int l = rises ? v->lanes - 1 : 0; l < (falls ? 1 : v->lanes); l++) {
        if (l && !rises) str_add(v->c->out, " || ");
        clike_truth(v->c, vector_at_lane(v, v->lane_valid, l));
    }
    str_add(v->c->out, ") ? ");
}

/* *(valid ? a1 + (i) : &zero_f32): a place is chosen and no branch taken, by which compilers would
 * cut the straight code of a register tile. False: it is not that simple. */
static bool choose_place(vectors *v, const ir_expr *x, bool masked) {
    const ir_memory *m = ir_m(v->k, x->load.mem);
    clike *c = v->c;
    int dtype = x->dtype;
    bool asks = x->load.valid != SYM_TRUE;
    if (m->scope == MEM_REG || dtype_is_narrow(dtype) || x->load.guard || x->load.dyn) return false;
    if (!masked && !asks) return false;
    v->types->zero |= 1u << dtype;
    str_add(c->out, "*(");
    if (masked) some_lane(v);
    if (asks) clike_truth(c, x->load.valid);
    if (asks) str_add(c->out, " ? ");
    vector_memory(v, x->load.mem);
    str_add(c->out, " + (");
    clike_sym(c, x->load.index);
    str_add(c->out, ")");
    if (asks) str_addf(c->out, " : &zero_%s", dtype_rows[dtype].name);
    if (masked) str_addf(c->out, " : &zero_%s)", dtype_rows[dtype].name);
    str_add(c->out, ");\n");
    return true;
}

/* Is a lane on whatever the numbers are? */
static bool is_one_on(vectors *v) {
    for (int l = 0; l < v->lanes; l++)
        if (vector_at_lane(v, v->lane_valid, l) == SYM_TRUE) return true;
    return false;
}

/* What lanes share is read where one of them is on: elsewhere it may not be there. */
static void scalar_node(vectors *v, expr_id e) {
    const ir_expr x = *ir_e(v->k, e);
    clike_line(v->c);
    str_addf(v->c->out, "const %s %c%u = ", clike_type(x.dtype), v->letter, e);
    bool masked = x.kind == EXPR_LOAD && !is_one_on(v);
    if (x.kind == EXPR_LOAD && choose_place(v, &x, masked)) return;
    if (masked) some_lane(v);
    if (x.kind == EXPR_LOAD)
        lane_load(v, &x, x.load.valid);
    else if (x.kind == EXPR_TABLE)
        table(v, &x, operand);
    else
        by_lanes_op(v, &x, operand);
    str_add(v->c->out, masked ? " : 0);\n" : ";\n");
}

/* ---- stores ---------------------------------------------------------------------------------- */

/* Arguments have smaller numbers than what is made of them. */
static void write_nodes(vectors *v, int n, const expr_id *root, const int *named) {
    expr_id top = 0, *arg[3];
    for (int i = 0; i < n; i++)
        if (root[i] > top) top = root[i];
    v->wanted = arena_zeroed(v->a, top + 1);
    v->wide = arena_zeroed(v->a, top + 1);
    for (int i = 0; i < n; i++) v->wanted[root[i]] = root[i] != 0;
    for (expr_id e = top; e; e--)
        for (int i = 0, args = v->wanted[e] ? ir_expr_args(ir_e(v->k, e), arg) : 0; i < args; i++)
            v->wanted[*arg[i]] = 1;
    for (expr_id e = 1; e <= top; e++) {
        if (!v->wanted[e]) continue;
        ir_expr x = *ir_e(v->k, e);
        v->wide[e] = is_old(&x) || (x.kind == EXPR_INDEX && sym_uses(v->k->syms, x.index, v->var));
        if (x.kind == EXPR_LOAD && x.load.mem)
            v->wide[e] = sym_uses(v->k->syms, x.load.index, v->var) ||
                         sym_uses(v->k->syms, x.load.valid, v->var);
        for (int i = 0, args = ir_expr_args(&x, arg); i < args; i++) v->wide[e] |= v->wide[*arg[i]];
        if (is_leaf(v, e)) continue;
        if (v->wide[e])
            wide_node(v, e, named);
        else
            scalar_node(v, e);
    }
}

/* What the monoid makes of the old values, o0 and so on, and the new ones. */
static void combine(vectors *v, const ir_stmt *t, expr_id *result) {
    expr_id old[IR_STATES] = {0};
    for (int i = 0; i < t->n; i++) {
        ir_expr e;
        memset(&e, 0, sizeof e);
        e.kind = EXPR_LOAD;
        e.dtype = ir_m(v->k, t->store.mem[i])->dtype;
        e.load.index = (sym)i;
        e.load.valid = SYM_TRUE;
        old[i] = ir_intern(v->k, &e);
    }
    ir_combine(v->k, t->monoid, old, t->store.value, result);
    for (int i = 0; i < t->n; i++) result[i] = math_expand_formula(v->k, result[i]);
}

/* o0, as a node that is a load of the place. */
static void write_old(vectors *v, const ir_stmt *t, int i, const int *named) {
    mem_id m = t->store.mem[i];
    expr_id e = ir_load(v->k, m, t->store.index, SYM_TRUE, 0, 0);
    v->letter = 'h';
    write_nodes(v, 1, &e, named);
    v->letter = 'x';
    clike_line(v->c);
    str_addf(v->c->out, "const %s o%d = h%u;\n", vector_type(v, ir_m(v->k, m)->dtype), i, e);
}

static void store_lanes(vectors *v, const ir_stmt *t, mem_id m, expr_id value, int64_t number) {
    clike *c = v->c;
    int dtype = ir_m(v->k, m)->dtype;
    bool convert = ir_m(v->k, m)->scope != MEM_REG && dtype_is_narrow(dtype);
    const char *name = sym_name(c->syms, v->var);
    add_line(v, "{\n");
    c->indent++;
    clike_line(c);
    str_addf(c->out, "const %s y = ", vector_type(v, dtype));
    vector_wide(v, value);
    str_add(c->out, ";\n");
    clike_line(c);
    if (number >= 0)
        str_addf(c->out, "%s r = t%d_%lld;\n", vector_type(v, dtype), ir_tile_number(v->k, m),
                 (long long)number);
    open_lanes(v);
    if (v->lane_valid != SYM_TRUE) {
        str_add(c->out, "if (");
        clike_truth(c, v->lane_valid);
        str_add(c->out, ") ");
    }
    if (number >= 0) {
        str_addf(c->out, "r[%s_]", name);
    } else {
        vector_memory(v, m);
        str_add(c->out, "[");
        clike_sym(c, t->store.index);
        str_add(c->out, "]");
    }
    str_add(c->out, " = ");
    if (convert) clike_store(c, dtype);
    str_addf(c->out, dtype == QN_BOOL ? "(uint8_t)(y[%s_] != 0)" : "y[%s_]", name);
    str_add(c->out, convert ? ");\n" : ";\n");
    clike_line(c);
    if (number >= 0)
        str_addf(c->out, "t%d_%lld = r;\n", ir_tile_number(v->k, m), (long long)number);
    clike_close_block(c);
}

static void store_value(vectors *v, const ir_stmt *t, int i, expr_id value, const int *named) {
    mem_id m = t->store.mem[i];
    clike *c = v->c;
    int dtype = ir_m(v->k, m)->dtype;
    int64_t number = -1;
    bool all = v->lane_valid == SYM_TRUE;
    if (named[m]) register_at(v->k, t->store.index, v->var, v->lanes, &number);
    bool whole = named[m] || vector_step(v, m, t->store.index) == 1;
    if (!whole || (!all && !vector_is_linear(v, v->lane_valid))) {
        store_lanes(v, t, m, value, number);
        return;
    }
    clike_line(c);
    if (!all)
        str_addf(c->out, named[m] ? "BLEND_%s(" : "STORE_%s(",
                 vector_type_for(v, dtype, VECTOR_MASKED));
    if (named[m])
        str_addf(c->out, "t%d_%lld", ir_tile_number(v->k, m), (long long)number);
    else if (all)
        vector_place(v, vector_type(v, dtype), false, m, t->store.index);
    else
        vector_masked_place(v, m, t->store.index, v->lane_valid);
    str_add(c->out, all ? " = " : ", ");
    if (!all && named[m]) vector_mask(v, v->lane_valid);
    if (!all && named[m]) str_add(c->out, ", ");
    vector_wide(v, value);
    str_add(c->out, all ? ";\n" : ");\n");
}

/* The parts of the store's condition that lanes share, and the rest. */
static void divide_valid(vectors *v, sym valid) {
    const sym *part;
    sym_store *syms = v->k->syms;
    v->scalar_valid = v->lane_valid = SYM_TRUE;
    int n = sym_kind_of(syms, valid) == SYM_AND ? sym_operands(syms, valid, &part) : 0;
    sym *own = arena_alloc(v->a, ((size_t)n + 1) * sizeof *own);
    if (n) memcpy(own, part, (size_t)n * sizeof *own);
    if (!n) own[n++] = valid;
    for (int i = 0; i < n; i++)
        if (sym_uses(syms, own[i], v->var))
            v->lane_valid = sym_and(syms, v->lane_valid, own[i]);
        else
            v->scalar_valid = sym_and(syms, v->scalar_valid, own[i]);
}

static void write_guard(vectors *v, expr_id asked, const int *named) {
    sym lanes = v->lane_valid;
    v->lane_valid = SYM_TRUE;
    v->letter = 'g';
    write_nodes(v, 1, &asked, named);
    v->lane_valid = lanes;
    add_line(v, "if (");
    operand(v, asked);
    str_add(v->c->out, ") {\n");
    v->c->indent++;
}

/* What a guard reads may be there only where the place is valid. */
static void write_store(vectors *v, const ir_stmt *t, const int *named) {
    clike *c = v->c;
    expr_id result[IR_STATES] = {0};
    divide_valid(v, t->store.valid);
    for (int i = 0; i < t->n; i++) result[i] = t->store.value[i];
    if (t->monoid != MONOID_SET) combine(v, t, result);
    bool asks = v->scalar_valid != SYM_TRUE;
    add_line(v, asks ? "if (" : "{\n");
    if (asks) clike_truth(c, v->scalar_valid);
    if (asks) str_add(c->out, ") {\n");
    c->indent++;
    if (t->store.guard) write_guard(v, t->store.guard, named);
    v->letter = 'x';
    for (int i = 0; i < t->n && t->monoid != MONOID_SET; i++) write_old(v, t, i, named);
    write_nodes(v, t->n, result, named);
    for (int i = 0; i < t->n; i++) store_value(v, t, i, result[i], named);
    if (t->store.guard) clike_close_block(c);
    clike_close_block(c);
}

void export_vector(clike *c, export_types *types, arena *a, const int *named, stmt_id loop) {
    int64_t lanes = 0;
    sym_is_const(c->k->syms, ir_s(c->k, loop)->l.extent, &lanes);
    vectors v = {.c = c, .k = c->k, .types = types, .a = a, .lanes = (int)lanes, .letter = 'x'};
    v.var = ir_s(c->k, loop)->l.var;
    for (stmt_id s = ir_s(c->k, loop)->first; s; s = ir_s(c->k, s)->next) {
        const ir_stmt t = *ir_s(c->k, s);
        if (t.kind == STMT_STORE) write_store(&v, &t, named);
    }
}

/* The registers of a tile, as variables. */
void export_registers(clike *c, export_types *types, arena *a, const int *named, stmt_id def) {
    const ir_stmt t = *ir_s(c->k, def);
    mem_id m = t.def.mem;
    vectors v = {.c = c, .k = c->k, .types = types, .a = a, .lanes = named[m], .letter = 'x'};
    int dtype = ir_m(c->k, m)->dtype, number = ir_tile_number(c->k, m);
    int64_t n = (sym_hi(c->k->syms, ir_m(c->k, m)->size) + v.lanes - 1) / v.lanes;
    v.scalar_valid = v.lane_valid = SYM_TRUE;
    for (int64_t i = 0; i < n; i++) {
        clike_line(c);
        str_addf(c->out, "%s t%d_%lld = {0};\n", vector_type(&v, dtype), number, (long long)i);
    }
    if (!t.def.value) return;
    add_line(&v, "{\n");
    c->indent++;
    write_nodes(&v, 1, &t.def.value, named);
    for (int64_t i = 0; i < n; i++) {
        clike_line(c);
        str_addf(c->out, "t%d_%lld = ", number, (long long)i);
        vector_wide(&v, t.def.value);
        str_add(c->out, ";\n");
    }
    clike_close_block(c);
}
