/* vector_ops.c - the operations that GNU C has for vectors, as a kernel means them.
 *
 * Comparisons give lanes of their operands' width, and truths here are i32: those of 64 bits are
 * narrowed. Integers wrap, so their arithmetic is done unsigned. What is chosen by a truth is
 * masked bit by bit, which compilers make a blend of. Everything else is for loops over lanes. */
#include "export/export.h"

static bool is_word(int dtype) {
    return dtype == QN_I32 || dtype == QN_U32 || dtype == QN_I64 || dtype == QN_U64;
}

static bool is_float(int dtype) {
    return dtype == QN_F32 || dtype == QN_F64;
}

static void define(vectors *v, expr_id e) {
    clike_line(v->c);
    str_addf(v->c->out, "const %s %c%u = ", vector_type(v, ir_e(v->k, e)->dtype), v->letter, e);
}

static void between(vectors *v, const ir_expr *x, const char *sign) {
    vector_wide(v, x->arg[0]);
    str_addf(v->c->out, " %s ", sign);
    vector_wide(v, x->arg[1]);
}

/* a where the truth m is, else b; texts. Lanes of 64 bits have wider truths. */
static void choose(vectors *v, int dtype, const char *m, expr_id a, expr_id b) {
    int width = (int)qn_dtype_size((qn_dtype)dtype);
    const char *bits = vector_type(v, dtype == QN_BOOL || width == 4 ? QN_I32 : QN_I64);
    const char *type = vector_type(v, dtype);
    clike *c = v->c;
    str_addf(c->out, "(%s)((%s & (%s)", type, m, bits);
    vector_wide(v, a);
    str_addf(c->out, ") | (~%s & (%s)", m, bits);
    vector_wide(v, b);
    str_add(c->out, "))");
}

/* The truth as one of lanes as wide as the dtype's: a variable. */
static const char *truth_of(vectors *v, expr_id e, expr_id truth, int dtype) {
    bool narrow = dtype == QN_BOOL || qn_dtype_size((qn_dtype)dtype) == 4;
    const char *bits = vector_type(v, narrow ? QN_I32 : QN_I64);
    clike_line(v->c);
    str_addf(v->c->out, "const %s %c%um = ", bits, v->letter, e);
    if (!narrow) str_add(v->c->out, "__builtin_convertvector(");
    vector_wide(v, truth);
    if (!narrow) str_addf(v->c->out, ", %s)", bits);
    str_add(v->c->out, ";\n");
    return arena_printf(v->a, "%c%um", v->letter, e);
}

static bool write_where(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_word(x->dtype) && !is_float(x->dtype) && x->dtype != QN_BOOL) return false;
    const char *m = truth_of(v, e, x->arg[0], x->dtype);
    define(v, e);
    choose(v, x->dtype, m, x->arg[1], x->arg[2]);
    return true;
}

/* The truth of a comparison, as wide as its operands, as a variable: what follows are the first
 * operand, this sign, the other and ")". */
static void open_comparison(vectors *v, int dtype, const char *name) {
    clike_line(v->c);
    str_addf(v->c->out, "COMPARE_%s(%s, ", vector_type_for(v, dtype, VECTOR_COMPARED), name);
}

/* x != x ? x : x > y ? x : y, so x where it is NaN or more. */
static bool write_extreme(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_float(x->dtype) && !is_word(x->dtype)) return false;
    const char *bits = vector_type(v, qn_dtype_size((qn_dtype)x->dtype) == 4 ? QN_I32 : QN_I64);
    const char *type = vector_type(v, x->dtype), *sign = x->op == OP_MAXIMUM ? ">" : "<";
    clike *c = v->c;
    const char *name = arena_printf(v->a, "%c%u", v->letter, e);
    for (int i = 0; i < 2; i++) {
        clike_line(c);
        str_addf(c->out, "const %s %s%c = ", type, name, "ab"[i]);
        vector_wide(v, x->arg[i]);
        str_add(c->out, ";\n");
    }
    open_comparison(v, x->dtype, arena_printf(v->a, "%sm", name));
    str_addf(c->out, "%sa, %s, %sb);\n", name, sign, name);
    if (is_float(x->dtype)) {
        open_comparison(v, x->dtype, arena_printf(v->a, "%sn", name));
        str_addf(c->out, "%sa, !=, %sa);\n", name, name);
    }
    const char *m = is_float(x->dtype) ? arena_printf(v->a, "(%sm | %sn)", name, name)
                                       : arena_printf(v->a, "%sm", name);
    define(v, e);
    str_addf(c->out, "(%s)((%s & (%s)%sa) | (~%s & (%s)%sb))", type, m, bits, name, m, bits, name);
    return true;
}

static bool write_compare(vectors *v, expr_id e, const ir_expr *x, const char *sign) {
    int in = ir_e(v->k, x->arg[0])->dtype;
    if (!is_word(in) && !is_float(in)) return false;
    bool wider = qn_dtype_size((qn_dtype)in) == 8;
    const char *name = arena_printf(v->a, "%c%u%s", v->letter, e, wider ? "w" : "");
    open_comparison(v, in, name);
    vector_wide(v, x->arg[0]);
    str_addf(v->c->out, ", %s, ", sign);
    vector_wide(v, x->arg[1]);
    str_add(v->c->out, ")");
    if (!wider) return true;
    str_add(v->c->out, ";\n");
    define(v, e);
    str_addf(v->c->out, "__builtin_convertvector(%s, %s)", name, vector_type(v, QN_BOOL));
    return true;
}

/* Integers wrap, which their unsigned types do. */
static bool write_arithmetic(vectors *v, expr_id e, const ir_expr *x, const char *sign) {
    if (is_float(x->dtype)) {
        define(v, e);
        between(v, x, sign);
        return true;
    }
    if (!is_word(x->dtype)) return false;
    const char *u = vector_type(v, qn_dtype_size((qn_dtype)x->dtype) == 4 ? QN_U32 : QN_U64);
    define(v, e);
    str_addf(v->c->out, "(%s)((%s)", vector_type(v, x->dtype), u);
    vector_wide(v, x->arg[0]);
    str_addf(v->c->out, " %s (%s)", sign, u);
    vector_wide(v, x->arg[1]);
    str_add(v->c->out, ")");
    return true;
}

static bool write_bits(vectors *v, expr_id e, const ir_expr *x, const char *sign) {
    if (!is_word(x->dtype) && x->dtype != QN_BOOL) return false;
    define(v, e);
    between(v, x, sign);
    return true;
}

/* By a constant less than the number of bits. */
static bool write_shift(vectors *v, expr_id e, const ir_expr *x) {
    const ir_expr *by = ir_e(v->k, x->arg[1]);
    unsigned bits = 8 * (unsigned)qn_dtype_size((qn_dtype)x->dtype);
    if (!is_word(x->dtype) || by->kind != EXPR_CONST || by->bits >= bits) return false;
    bool left = x->op == OP_SHL;
    int dtype = left ? bits == 32 ? QN_U32 : QN_U64 : x->dtype;
    define(v, e);
    str_addf(v->c->out, "(%s)((%s)", vector_type(v, x->dtype), vector_type(v, dtype));
    vector_wide(v, x->arg[0]);
    str_addf(v->c->out, " %s %u)", left ? "<<" : ">>", (unsigned)by->bits);
    return true;
}

static bool write_cast(vectors *v, expr_id e, const ir_expr *x) {
    int in = ir_e(v->k, x->arg[0])->dtype;
    bool same = qn_dtype_size((qn_dtype)in) == qn_dtype_size((qn_dtype)x->dtype);
    bool plain = (is_word(in) || is_float(in)) && (is_word(x->dtype) || is_float(x->dtype));
    if (!plain) return false;
    if (x->op == OP_BITCAST && same) {
        define(v, e);
        str_addf(v->c->out, "(%s)", vector_type(v, x->dtype));
        vector_wide(v, x->arg[0]);
        return true;
    }
    bool exact = (in == QN_I32 || is_float(in)) && is_float(x->dtype);
    if (x->op != OP_CAST || !exact) return false;
    define(v, e);
    str_add(v->c->out, "__builtin_convertvector(");
    vector_wide(v, x->arg[0]);
    str_addf(v->c->out, ", %s)", vector_type(v, x->dtype));
    return true;
}

static bool write_fma(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_float(x->dtype)) return false;
    clike_line(v->c);
    str_addf(v->c->out, "FMA_%s(%c%u, ", vector_type_for(v, x->dtype, VECTOR_FUSED), v->letter, e);
    for (int i = 0; i < 3; i++) {
        vector_wide(v, x->arg[i]);
        str_add(v->c->out, i < 2 ? ", " : ")");
    }
    return true;
}

static bool write_not(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_word(x->dtype) && x->dtype != QN_BOOL) return false;
    define(v, e);
    str_add(v->c->out, "~");
    vector_wide(v, x->arg[0]);
    return true;
}

static bool write_negative(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_float(x->dtype)) return false;
    define(v, e);
    str_add(v->c->out, "-");
    vector_wide(v, x->arg[0]);
    return true;
}

/* All but the sign. */
static bool write_absolute(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_float(x->dtype)) return false;
    bool wide = x->dtype == QN_F64;
    define(v, e);
    str_addf(v->c->out, "(%s)((%s)", vector_type(v, x->dtype),
             vector_type(v, wide ? QN_U64 : QN_U32));
    vector_wide(v, x->arg[0]);
    str_addf(v->c->out, " & 0x%s)", wide ? "7fffffffffffffffu" : "7fffffffu");
    return true;
}

static bool write_root(vectors *v, expr_id e, const ir_expr *x) {
    if (!is_float(x->dtype)) return false;
    clike_line(v->c);
    str_addf(v->c->out, "SQRT_%s(%c%u, ", vector_type_for(v, x->dtype, VECTOR_ROOT), v->letter, e);
    vector_wide(v, x->arg[0]);
    str_add(v->c->out, ")");
    return true;
}

/* false: vectors have no such operation. */
bool vector_native(vectors *v, expr_id e, const ir_expr *x) {
    switch (x->op) {
    case OP_ADD:
        return write_arithmetic(v, e, x, "+");
    case OP_SUB:
        return write_arithmetic(v, e, x, "-");
    case OP_MUL:
        return write_arithmetic(v, e, x, "*");
    case OP_DIV:
        return is_float(x->dtype) && write_arithmetic(v, e, x, "/");
    case OP_LT:
        return write_compare(v, e, x, "<");
    case OP_LE:
        return write_compare(v, e, x, "<=");
    case OP_EQ:
        return write_compare(v, e, x, "==");
    case OP_NE:
        return write_compare(v, e, x, "!=");
    case OP_AND:
        return write_bits(v, e, x, "&");
    case OP_OR:
        return write_bits(v, e, x, "|");
    case OP_XOR:
        return write_bits(v, e, x, "^");
    case OP_NOT:
        return write_not(v, e, x);
    case OP_NEG:
        return write_negative(v, e, x);
    case OP_ABS:
        return write_absolute(v, e, x);
    case OP_SQRT:
        return write_root(v, e, x);
    case OP_SHL:
    case OP_SHR:
        return write_shift(v, e, x);
    case OP_MAXIMUM:
    case OP_MINIMUM:
        return write_extreme(v, e, x);
    case OP_WHERE:
        return write_where(v, e, x);
    case OP_FMA:
        return write_fma(v, e, x);
    case OP_CAST:
    case OP_BITCAST:
        return write_cast(v, e, x);
    default:
        return false;
    }
}
