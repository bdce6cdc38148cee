/* expr.c - making a kernel's expressions: interned, folded, simplified.
 *
 * A row is compared byte by byte, so whoever fills an ir_expr clears it first. An expression's
 * arguments were made before it, hence argument ids are smaller. */
#include "ir/functions.h"
#include "ir/ir.h"

#include <math.h>

/* ---- rows ----------------------------------------------------------------------------------- */

uint64_t ir_expr_hash(const ir_expr *e) {
    return hash_bytes(e, sizeof *e, 0);
}

static bool expr_same(const void *key, uint32_t id, const void *user) {
    const kernel *k = user;
    return !memcmp(key, &k->expr[id], sizeof k->expr[id]);
}

expr_id ir_intern(kernel *k, const ir_expr *e) {
    uint64_t hash = ir_expr_hash(e);
    expr_id id = idset_find(&k->expr_set, hash, expr_same, e, k);
    if (id) return id;
    ir_expr row; /* e may lie in the table that grows */
    memcpy(&row, e, sizeof row);
    k->expr = arena_grow(&k->arena, k->expr, &k->expr_cap, k->exprs + 1, sizeof *k->expr);
    memcpy(&k->expr[k->exprs], &row, sizeof row);
    idset_add(&k->expr_set, hash, k->exprs);
    return k->exprs++;
}

static ir_expr blank(expr_kind kind, qn_dtype dtype) {
    ir_expr e;
    memset(&e, 0, sizeof e);
    e.kind = (uint8_t)kind;
    e.dtype = (uint8_t)dtype;
    return e;
}

expr_id ir_const_bits(kernel *k, qn_dtype dtype, uint64_t bits) {
    ir_expr e = blank(EXPR_CONST, dtype);
    e.bits = bits;
    return ir_intern(k, &e);
}

/* The element that lies there: a number as its dtype holds it. */
static expr_id const_at(kernel *k, qn_dtype dtype, const uint64_t *place) {
    scalar v;
    if (dtype_is_float(dtype))
        v.f = dtype_get_f(dtype, place, 0);
    else
        v.i = dtype_get_i(dtype, place, 0);
    return ir_const_bits(k, dtype, scalar_bits(dtype, v));
}

expr_id ir_const_f(kernel *k, qn_dtype dtype, double value) {
    uint64_t place = 0;
    dtype_set_f(dtype, &place, 0, value);
    return const_at(k, dtype, &place);
}

expr_id ir_const_i(kernel *k, qn_dtype dtype, int64_t value) {
    uint64_t place = 0;
    dtype_set_i(dtype, &place, 0, value);
    return const_at(k, dtype, &place);
}

expr_id ir_index(kernel *k, sym value) {
    int64_t c;
    if (sym_is_const(k->syms, value, &c)) return ir_const_i(k, QN_I64, c);
    ir_expr e = blank(EXPR_INDEX, QN_I64);
    e.index = value;
    return ir_intern(k, &e);
}

static bool const_bits(const kernel *k, expr_id e, uint64_t *bits) {
    if (k->expr[e].kind != EXPR_CONST) return false;
    *bits = k->expr[e].bits;
    return true;
}

static bool const_is(const kernel *k, expr_id e, int64_t value) {
    const ir_expr *x = &k->expr[e];
    return x->kind == EXPR_CONST && !dtype_is_float(x->dtype) &&
           scalar_from_bits(x->dtype, x->bits).i == value;
}

expr_id ir_load(kernel *k, mem_id mem, sym index, sym valid, expr_id dyn, expr_id when) {
    qn_dtype dtype = k->mem[mem].dtype;
    if (when && const_is(k, when, 1)) when = 0;
    if (dyn && const_is(k, dyn, 0)) dyn = 0;
    if (valid == SYM_FALSE || (when && const_is(k, when, 0))) return ir_const_bits(k, dtype, 0);
    ir_expr e = blank(EXPR_LOAD, dtype);
    e.load.mem = mem;
    e.load.index = index;
    e.load.valid = valid;
    e.load.dyn = dyn;
    e.load.guard = when;
    return ir_intern(k, &e);
}

uint32_t ir_table_of(kernel *k, qn_dtype dtype, int n, const uint64_t *bits) {
    size_t size = (size_t)n * sizeof *bits;
    for (uint32_t t = 0; t < k->tables; t++)
        if (k->table[t].dtype == dtype && k->table[t].n == n &&
            !memcmp(k->table[t].bits, bits, size))
            return t;
    uint64_t *copy = arena_alloc(&k->arena, size);
    memcpy(copy, bits, size);
    k->table = arena_grow(&k->arena, k->table, &k->table_cap, k->tables + 1, sizeof *k->table);
    k->table[k->tables] = (ir_table){(uint8_t)dtype, (uint8_t)n, copy};
    return k->tables++;
}

expr_id ir_lookup(kernel *k, uint32_t table, expr_id index) {
    const ir_table *t = &k->table[table];
    uint64_t bits;
    if (const_bits(k, index, &bits)) return ir_const_bits(k, t->dtype, t->bits[bits % t->n]);
    ir_expr e = blank(EXPR_TABLE, t->dtype);
    e.table.number = table;
    e.table.index = index;
    return ir_intern(k, &e);
}

bool ir_expands(int op, int dtype) {
    static const bool function[OP_COUNT] = {
#define X(OP, ...) [OP_##OP] = true,
        MATH_FUNCTIONS(X)
#undef X
    };
    return function[op] && dtype_is_float(dtype);
}

int ir_instructions(int op, int dtype) {
    return ir_expands(op, dtype) ? op_cost(op, dtype) : 1;
}

/* The op on constants, or 0. Not where the C library and the device may differ: a node's value must
 * not depend on the kernel around it. */
static expr_id fold(kernel *k, int op, qn_dtype dtype, int n, const expr_id *arg) {
    uint64_t bits = 0;
    if (ir_expands(op, dtype)) return 0;
    if (dtype_is_float(dtype) && (op == OP_MOD || op == OP_FLOOR_DIV)) return 0;
    scalar x[3], out;
    for (int i = 0; i < n; i++) {
        if (!const_bits(k, arg[i], &bits)) return 0;
        x[i] = scalar_from_bits(k->expr[arg[i]].dtype, bits);
    }
    if (op == OP_BITCAST) return ir_const_bits(k, dtype, bits);
    if (!scalar_op(op, dtype, k->expr[arg[n - 1]].dtype, x, &out)) return 0;
    return ir_const_bits(k, dtype, scalar_bits(dtype, out));
}

/* Simplifications that substitution uncovers: neutral elements of integers, known conditions. */
static expr_id simplify(kernel *k, int op, qn_dtype dtype, const expr_id *arg) {
    bool whole = !dtype_is_float(dtype);
    switch (op) {
    case OP_ADD:
    case OP_XOR:
        if (whole && const_is(k, arg[0], 0)) return arg[1];
        /* fallthrough */
    case OP_SUB:
        return whole && const_is(k, arg[1], 0) ? arg[0] : 0;
    case OP_MUL:
        if (whole && const_is(k, arg[0], 1)) return arg[1];
        if (whole && (const_is(k, arg[0], 0) || const_is(k, arg[1], 1))) return arg[0];
        return whole && const_is(k, arg[1], 0) ? arg[1] : 0;
    case OP_AND:
        if (const_is(k, arg[0], 0) || arg[0] == arg[1]) return arg[0];
        if (const_is(k, arg[1], 0)) return arg[1];
        if (dtype == QN_BOOL && const_is(k, arg[0], 1)) return arg[1];
        return dtype == QN_BOOL && const_is(k, arg[1], 1) ? arg[0] : 0;
    case OP_OR:
        if (const_is(k, arg[0], 0)) return arg[1];
        if (const_is(k, arg[1], 0) || arg[0] == arg[1]) return arg[0];
        if (dtype == QN_BOOL && const_is(k, arg[0], 1)) return arg[0];
        return dtype == QN_BOOL && const_is(k, arg[1], 1) ? arg[1] : 0;
    case OP_WHERE:
        if (arg[1] == arg[2] || const_is(k, arg[0], 1)) return arg[1];
        return const_is(k, arg[0], 0) ? arg[2] : 0;
    case OP_CAST:
    case OP_BITCAST:
        return k->expr[arg[0]].dtype == dtype ? arg[0] : 0;
    default:
        return 0;
    }
}

expr_id ir_op(kernel *k, int op, qn_dtype dtype, int n, const expr_id *arg) {
    expr_id known = fold(k, op, dtype, n, arg);
    if (!known) known = simplify(k, op, dtype, arg);
    if (known) return known;
    ir_expr e = blank(EXPR_OP, dtype);
    e.op = (uint8_t)op;
    e.n = (uint8_t)n;
    for (int i = 0; i < n; i++) e.arg[i] = arg[i];
    return ir_intern(k, &e);
}

qn_dtype ir_op_dtype(const kernel *k, int op, const expr_id *arg) {
    int types = op_rows[op].types;
    if (types == TYPES_CMP) return QN_BOOL;
    return k->expr[arg[types == TYPES_SELECT ? 1 : 0]].dtype;
}

expr_id ir_op1(kernel *k, int op, expr_id a) {
    return ir_op(k, op, ir_op_dtype(k, op, &a), 1, &a);
}

expr_id ir_op2(kernel *k, int op, expr_id a, expr_id b) {
    expr_id arg[2] = {a, b};
    return ir_op(k, op, ir_op_dtype(k, op, arg), 2, arg);
}

expr_id ir_op3(kernel *k, int op, expr_id a, expr_id b, expr_id c) {
    expr_id arg[3] = {a, b, c};
    return ir_op(k, op, ir_op_dtype(k, op, arg), 3, arg);
}

expr_id ir_cast(kernel *k, qn_dtype dtype, expr_id a) {
    return ir_op(k, OP_CAST, dtype, 1, &a);
}

/* ---- monoids -------------------------------------------------------------------------------- */

static monoid_term formula_op(void *user, int op, int n, const monoid_term *x) {
    kernel *k = user;
    return ir_op(k, op, ir_op_dtype(k, op, x), n, x);
}

static monoid_term formula_number(void *user, monoid_term like, double value) {
    kernel *k = user;
    return ir_const_f(k, ir_e(k, like)->dtype, value);
}

static bool formula_is_float(void *user, monoid_term x) {
    return dtype_is_float(ir_e(user, x)->dtype);
}

static monoid_formula formula_of(kernel *k) {
    return (monoid_formula){k, formula_op, formula_number, formula_is_float};
}

expr_id ir_cut_below(kernel *k, expr_id x, double least) {
    qn_dtype dtype = (qn_dtype)ir_e(k, x)->dtype;
    expr_id less = ir_op2(k, OP_LT, x, ir_const_f(k, dtype, least));
    return ir_op3(k, OP_WHERE, less, ir_const_f(k, dtype, -INFINITY), x);
}

static double number_of(const ir_expr *x) {
    bool is_float = x->kind == EXPR_CONST && dtype_is_float(x->dtype);
    return is_float ? scalar_from_bits((qn_dtype)x->dtype, x->bits).f : NAN;
}

expr_id ir_is_cut_below(const kernel *k, expr_id e, double *least) {
    const ir_expr *x = ir_e(k, e);
    if (x->kind != EXPR_OP || x->op != OP_WHERE || number_of(ir_e(k, x->arg[1])) != -INFINITY)
        return 0;
    const ir_expr *less = ir_e(k, x->arg[0]);
    if (less->kind != EXPR_OP || less->op != OP_LT || less->arg[0] != x->arg[2]) return 0;
    *least = number_of(ir_e(k, less->arg[1]));
    return isnan(*least) ? 0 : x->arg[2];
}

expr_id ir_identity(kernel *k, int m, int component, qn_dtype dtype) {
    return ir_const_bits(k, dtype, scalar_bits(dtype, monoid_identity(m, component, dtype)));
}

void ir_combine(kernel *k, int m, const expr_id *a, const expr_id *b, expr_id *out) {
    monoid_formula f = formula_of(k);
    monoid_combine(&f, m, a, b, out);
}

expr_id ir_finish(kernel *k, int m, const expr_id *state) {
    monoid_formula f = formula_of(k);
    return monoid_finish(&f, m, state);
}
