/* ops.c - the ELEM rows of graph/ops.h in C.
 *
 * Each operation that a kernel uses on a dtype becomes one small function, add_i32, written from a
 * row of the table below: T is the dtype's C type, U the unsigned type its arithmetic is done in
 * (wrapping, and never promoted to a signed int), W its bits, N its name, @ the suffix of maths
 * functions. The
 * few that C spells the same for every float are written in place.
 *
 * f16 and bf16 are floats in variables, as in emit/llvm/ops.c, and rounded after each operation by
 * functions that need nothing of the compiler but 32-bit integers and IEEE floats. */
#include "emit/clike/clike.h"

/* ---- types ---------------------------------------------------------------------------------- */

const char *clike_type(int dtype) {
    const dtype_row *row = &dtype_rows[dtype];
    if (dtype_is_narrow(dtype)) row = &dtype_rows[row->acc];
    return row->c_type;
}

const char *clike_memory_type(int dtype) {
    return dtype_rows[dtype].c_type;
}

void clike_constant(clike *c, int dtype, uint64_t bits) {
    scalar v = scalar_from_bits((qn_dtype)dtype, bits);
    const char *f = dtype == QN_F64 ? "" : "f";
    if (!dtype_is_float(dtype)) {
        if (dtype == QN_U64)
            str_addf(c->out, "UINT64_C(%llu)", (unsigned long long)v.i);
        else if (v.i == INT64_MIN)
            str_add(c->out, "INT64_MIN");
        else
            str_addf(c->out, "(%s)%lld", clike_type(dtype), (long long)v.i);
    } else if (v.f != v.f) {
        str_add(c->out, "NAN");
    } else if (v.f - v.f != 0) {
        str_add(c->out, v.f < 0 ? "(-INFINITY)" : "INFINITY");
    } else if (v.f == (double)(int)v.f && v.f != 0) {
        str_addf(c->out, "%d.0%s", (int)v.f, f);
    } else {
        str_addf(c->out, "%a%s", v.f, f);
    }
}

/* ---- helpers -------------------------------------------------------------------------------- */

static const char quotient_text[] =
    "static inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }\n"
    "static inline int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }\n"
    "static inline int64_t floor_quotient(int64_t x, int64_t y) {\n"
    "    int64_t q = x / y;\n"
    "    return q - (x < q * y);\n"
    "}\n";

static const char bits_text[] =
    "static inline uint32_t bits_of(float x) {\n"
    "    union { float x; uint32_t b; } v;\n    v.x = x;\n    return v.b;\n}\n"
    "static inline float float_of(uint32_t b) {\n"
    "    union { float x; uint32_t b; } v;\n    v.b = b;\n    return v.x;\n}\n";

static const char odd_text[] =
    "/* Round to odd: rounding the result once more is as good as rounding x. */\n"
    "static inline float to_odd(double x) {\n"
    "    float f = (float)x;\n"
    "    uint32_t b = bits_of(f), low = fabs((double)f) > fabs(x);\n"
    "    return (double)f == x || x != x ? f : float_of((b - low) | 1);\n"
    "}\n"
    "/* The same of x*y + z, whose product is exact: of the sum and its error. */\n"
    "static inline float fma_odd(double x, double y, double z) {\n"
    "    double p = x * y, s = p + z, t = s - p, e = (p - (s - t)) + (z - t);\n"
    "    float f = (float)s;\n"
    "    double d = (double)f - s;\n"
    "    uint32_t b = bits_of(f), low = s > 0 ? d > e : d < e;\n"
    "    return d > e || d < e ? float_of((b - low) | 1) : f;\n"
    "}\n";

static const char bf16_text[] =
    "static inline uint16_t to_bf16(float x) {\n"
    "    uint32_t b = bits_of(x), r = b + 0x7fff + (b >> 16 & 1);\n"
    "    return (uint16_t)((x != x ? b | 0x400000 : r) >> 16);\n"
    "}\n"
    "static inline float from_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }\n"
    "static inline float nearest_bf16(float x) { return from_bf16(to_bf16(x)); }\n";

enum { HELP_QUOTIENT = 1, HELP_BITS, HELP_ODD, HELP_SHARED = 16 };
#define HELP_TABLE  (1u << 30) /* plus its number */
#define HELP_NARROW (1u << 29) /* plus the dtype */

/* Is the helper new? Then it is to be written now. */
static bool needs(clike *c, uint32_t key) {
    for (int i = 0; i < c->helper_count; i++)
        if (c->helper[i] == key) return false;
    if (c->helper_count == CLIKE_HELPERS)
        raise_error(c->k->ctx, QN_EDEVICE, "kernel %s: too many kinds of operations", c->k->name);
    c->helper[c->helper_count++] = key;
    return true;
}

static void need_text(clike *c, uint32_t key, const char *text) {
    if (needs(c, key)) str_add(&c->helpers, text);
}

/* Conversions of a narrow float by its row; to nearest even, as emit/llvm/soft.c has it. */
static void define_narrow(str *out, int dtype) {
    const dtype_row *r = &dtype_rows[dtype];
    int shift = 23 - r->fraction, change = 126 + r->least;
    unsigned sign = 1u << (r->bits - 1), fraction = (1u << r->fraction) - 1;
    unsigned inf = dtype_most_bits((qn_dtype)dtype) + 1; /* or NaN, where there are none */
    str_addf(out, "static inline %s to_%s(float x) {\n", r->c_type, r->name);
    str_addf(out,
             "    uint32_t b = bits_of(x), a = b & 0x7fffffff, r;\n"
             "    uint32_t small = bits_of(float_of(a) + 0x1p%df) - 0x%x;\n"
             "    uint32_t normal = (a + 0x%x + (a >> %d & 1) - 0x%x) >> %d;\n",
             r->least + shift, (unsigned)(127 + r->least + shift) << 23, (1u << (shift - 1)) - 1,
             shift, (unsigned)change << 23, shift);
    str_addf(out,
             "    r = a < 0x%x ? small : normal >= 0x%x ? 0x%x : normal;\n"
             "    r = a > 0x7f800000 ? 0x%x | (a >> %d & 0x%x) : r;\n"
             "    return (%s)(r | (b >> %d & 0x%x));\n}\n",
             (unsigned)(127 + r->least) << 23, inf, inf, inf | (fraction + 1) / 2, shift, fraction,
             r->c_type, 32 - r->bits, sign);
    str_addf(out, "static inline float from_%s(%s h) {\n", r->name, r->c_type);
    str_addf(out,
             "    uint32_t a = (uint32_t)(h & 0x%x) << %d, sign = (uint32_t)(h & 0x%x) << %d;\n"
             "    uint32_t normal = a + 0x%x + (a >= 0x%x ? 0x%x : 0);\n"
             "    uint32_t small = bits_of((float)(int32_t)(h & 0x%x) * 0x1p%df);\n"
             "    return float_of((a < 0x00800000 ? small : normal) | sign);\n}\n",
             sign - 1, shift, sign, 32 - r->bits, (unsigned)change << 23, inf << shift,
             (unsigned)change << 23, fraction, r->least - r->fraction);
    str_addf(out, "static inline float nearest_%s(float x) { return from_%s(to_%s(x)); }\n",
             r->name, r->name, r->name);
}

static void need_dtype(clike *c, int dtype) {
    if (!dtype_is_narrow(dtype)) return;
    need_text(c, HELP_BITS, bits_text);
    if (!needs(c, HELP_NARROW | (uint32_t)dtype)) return;
    if (dtype == QN_BF16)
        str_add(&c->helpers, bf16_text);
    else
        define_narrow(&c->helpers, dtype);
}

void clike_need_quotient(clike *c) {
    need_text(c, HELP_QUOTIENT, quotient_text);
}

static void convert(clike *c, const char *which, int dtype) {
    need_dtype(c, dtype);
    if (dtype_is_narrow(dtype)) str_addf(c->out, "%s_%s", which, dtype_rows[dtype].name);
    str_add(c->out, "(");
}

void clike_load(clike *c, int dtype) {
    convert(c, "from", dtype);
}

void clike_store(clike *c, int dtype) {
    convert(c, "to", dtype);
}

/* ---- operations ----------------------------------------------------------------------------- */

static const struct {
    const char *real, *whole;
} formula[OP_COUNT] = {
    [OP_NEG] = {"-x", "(T)(0 - (U)x)"},
    [OP_ABS] = {"fabs@(x)", "x < 0 ? (T)(0 - (U)x) : x"},
    [OP_RECIPROCAL] = {"1 / x", NULL},
    [OP_SQRT] = {"sqrt@(x)", NULL},
    [OP_FLOOR] = {"floor@(x)", "x"},
    [OP_CEIL] = {"ceil@(x)", "x"},
    [OP_ROUND] = {"rint@(x)", "x"},
    [OP_TRUNC] = {"trunc@(x)", "x"},
    [OP_NOT] = {NULL, "(T)~x"},
    [OP_ADD] = {"x + y", "(T)((U)x + (U)y)"},
    [OP_SUB] = {"x - y", "(T)((U)x - (U)y)"},
    [OP_MUL] = {"x * y", "(T)((U)x * (U)y)"},
    [OP_DIV] = {"x / y", NULL},
    [OP_MAXIMUM] = {"x != x ? x : x > y ? x : y", "x > y ? x : y"},
    [OP_MINIMUM] = {"x != x ? x : x < y ? x : y", "x < y ? x : y"},
    [OP_LT] = {"x < y", "x < y"},
    [OP_LE] = {"x <= y", "x <= y"},
    [OP_EQ] = {"x == y", "x == y"},
    [OP_NE] = {"x != y", "x != y"},
    [OP_AND] = {NULL, "(T)(x & y)"},
    [OP_OR] = {NULL, "(T)(x | y)"},
    [OP_XOR] = {NULL, "(T)(x ^ y)"},
    [OP_SHL] = {NULL, "(U)y < W ? (T)((U)x << ((U)y & (W - 1))) : 0"},
    [OP_SHR] = {NULL, "(T)(x >> ((U)y < W ? y : W - 1))"},
    [OP_WHERE] = {"x ? y : z", "x ? y : z"},
    [OP_FMA] = {"fma@(x, y, z)", NULL},
};
static const char unsigned_shift[] = "(U)y < W ? (T)(x >> (y & (W - 1))) : 0";
static const char signed_quotient[] = "y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : "
                                      "(T)(x / y - (x % y != 0 && (x % y < 0) != (y < 0)))";
static const char signed_remainder[] =
    "y == 0 || y == -1 ? 0 : "
    "(T)(x % y + (x % y != 0 && (x % y < 0) != (y < 0) ? y : 0))";
static const char real_remainder[] =
    "fmod@(x, y) == 0 ? copysign@((T)0, y) : (fmod@(x, y) < 0) != (y < 0) "
    "? fmod@(x, y) + y : fmod@(x, y)";

/* What is left of x tells where the division rounded up to a whole number: all of it where the
 * quotient is 0, also of an infinite y. x - x makes NaN of what is infinite. */
#define REAL_QUOTIENT                                                                              \
    "floor@(x / y) - (y == 0 ? 0 : x - x) - "                                                      \
    "(T)((y < 0 ? -(floor@(x / y) == 0 ? x : fma@(-floor@(x / y), y, x)) "                         \
    ": (floor@(x / y) == 0 ? x : fma@(-floor@(x / y), y, x))) < 0)"
static const char real_quotient[] = REAL_QUOTIENT;
static const char narrow_quotient[] = "nearest_N(" REAL_QUOTIENT ")";

/* Where signed sums wrap they are written as they are: of sums that go through unsigned numbers and
 * back gcc 12 lost some lanes' trips, where it made vectors of 512 bits of narrow integers. */
static const char *wrapping(int op) {
    return op == OP_ADD ? "(T)(x + y)" : op == OP_SUB ? "(T)(x - y)" : "(T)(x * y)";
}

static const char *formula_of(const clike *c, int op, int in) {
    bool is_unsigned = dtype_is_unsigned(in);
    bool sums = op == OP_ADD || op == OP_SUB || op == OP_MUL;
    if (sums && dtype_is_int(in) && !is_unsigned && c->dialect->wraps) return wrapping(op);
    if (dtype_is_float(in)) {
        if (op == OP_FLOOR_DIV) return dtype_is_narrow(in) ? narrow_quotient : real_quotient;
        if (op == OP_FMA && dtype_is_narrow(in)) return "fma_odd((double)x, (double)y, (double)z)";
        return op == OP_MOD ? real_remainder : formula[op].real;
    }
    if (op == OP_FLOOR_DIV) return is_unsigned ? "y ? (T)(x / y) : 0" : signed_quotient;
    if (op == OP_MOD) return is_unsigned ? "y ? (T)(x % y) : 0" : signed_remainder;
    if (op == OP_SHR && is_unsigned) return unsigned_shift;
    if (op == OP_ABS && is_unsigned) return "x";
    if (op == OP_NOT && in == QN_BOOL) return "!x";
    return formula[op].whole;
}

/* The formula with its letters replaced. */
static void add_formula(str *out, const char *text, int in) {
    for (const char *p = text; *p; p++) {
        bool word = (p > text && (p[-1] == '_' || (p[-1] >= 'a' && p[-1] <= 'z'))) ||
                    (p[1] >= 'a' && p[1] <= 'z') || p[1] == '_';
        if (*p == '@')
            str_add(out, in == QN_F64 ? "" : "f");
        else if (*p == 'T' && !word)
            str_add(out, clike_type(in));
        else if (*p == 'U' && !word)
            str_add(out, dtype_rows[in].bits == 64 ? "uint64_t" : "uint32_t");
        else if (*p == 'N')
            str_add(out, dtype_rows[in].name);
        else if (*p == 'W' && !word)
            str_addf(out, "%d", 8 * (int)qn_dtype_size((qn_dtype)in));
        else
            str_addn(out, p, 1);
    }
}

/* ---- conversions ---------------------------------------------------------------------------- */

/* Saturating truncation. 2^(bits - 1) and 2^bits are exact floats, the largest integer is not. */
static void float_to_integer(str *out, int to, int from) {
    int bits = 8 * (int)qn_dtype_size((qn_dtype)to);
    const char *u = dtype_is_unsigned(to) ? "U" : "", *f = from == QN_F64 ? "" : "f";
    str_add(out, "x != x ? 0 : ");
    if (dtype_is_unsigned(to))
        str_addf(out, "x <= 0 ? 0 : x >= 0x1p%d%s ? ", bits, f);
    else
        str_addf(out, "x <= -0x1p%d%s ? INT%d_MIN : x >= 0x1p%d%s ? ", bits - 1, f, bits, bits - 1,
                 f);
    str_addf(out, "%sINT%d_MAX : (%s)x", u, bits, clike_type(to));
}

static void integer_to_float(str *out, int to, int from) {
    bool wide = qn_dtype_size((qn_dtype)from) == 8;
    if (!dtype_rounds_integers_twice(to) || qn_dtype_size((qn_dtype)from) < 4) {
        str_addf(out, "(%s)x", clike_type(to));
    } else if (!wide) {
        str_add(out, "to_odd((double)x)");
    } else {
        const char *large =
            dtype_is_unsigned(from) ? "x >> 53" : "((uint64_t)x + ((uint64_t)1 << 53)) >> 54";
        str_addf(out, "to_odd((double)(%s && (x & 0xfff) ? (%s)((x & ~(%s)0xfff) | 0x800) : x))",
                 large, clike_type(from), clike_type(from));
    }
}

static void conversion(str *out, int to, int from) {
    if (to == QN_BOOL)
        str_add(out, "x != 0");
    else if (dtype_is_float(to) && !dtype_is_float(from))
        integer_to_float(out, to, from);
    else if (dtype_is_narrow(to) && from == QN_F64)
        str_add(out, "to_odd(x)");
    else if (dtype_is_float(from) && !dtype_is_float(to))
        float_to_integer(out, to, from);
    else
        str_addf(out, "(%s)x", clike_type(to));
}

static void define_bitcast(clike *c, int to, int from) {
    str *text = c->out;
    need_dtype(c, from);
    need_dtype(c, to);
    c->out = &c->helpers;
    str_addf(c->out,
             "static inline %s bitcast_%s_%s(%s x) {\n    union { %s x; %s y; } v;\n    v.x = ",
             clike_type(to), dtype_rows[from].name, dtype_rows[to].name, clike_type(from),
             clike_memory_type(from), clike_memory_type(to));
    clike_store(c, from);
    str_add(c->out, "x);\n    return ");
    clike_load(c, to);
    str_addf(c->out, "v.y)%s;\n}\n", to == QN_BOOL ? " != 0" : "");
    c->out = text;
}

/* ---- calls ---------------------------------------------------------------------------------- */

bool clike_infix(int op, int dtype, const char **sign) {
    static const char *const signs[OP_COUNT] = {
        [OP_ADD] = "+", [OP_SUB] = "-", [OP_MUL] = "*", [OP_DIV] = "/",
        [OP_LT] = "<",  [OP_LE] = "<=", [OP_EQ] = "==", [OP_NE] = "!=",
    };
    bool compares = op_rows[op].types == TYPES_CMP;
    *sign = signs[op];
    return signs[op] && (compares || (dtype_is_float(dtype) && !dtype_is_narrow(dtype)));
}

/* Does an operation with a narrow result go through a double, and so through to_odd()? */
static bool rounds_twice(int op, int to, int from) {
    bool wide = qn_dtype_size((qn_dtype)from) >= 4;
    if (op != OP_CAST) return op == OP_FMA;
    return from == QN_F64 || (dtype_rounds_integers_twice(to) && wide && !dtype_is_float(from));
}

/* The function's value: the conversion or formula, rounded to a narrow type. */
static void add_value(str *h, int op, int dtype, int in, const char *text) {
    if (dtype_is_narrow(dtype)) str_addf(h, "nearest_%s(", qn_dtype_name((qn_dtype)dtype));
    if (op == OP_CAST)
        conversion(h, dtype, in);
    else
        add_formula(h, text, in);
    if (dtype_is_narrow(dtype)) str_add(h, ")");
}

static void define(clike *c, int op, int dtype, int in) {
    if (op == OP_BITCAST) {
        define_bitcast(c, dtype, in);
        return;
    }
    const char *text = op == OP_CAST ? "" : formula_of(c, op, in), *type = clike_type(in);
    if (!text)
        raise_error(c->k->ctx, QN_EINTERNAL, "kernel %s: %s must be expanded before it is emitted",
                    c->k->name, op_rows[op].name);
    str *h = &c->helpers;
    need_text(c, HELP_BITS, bits_text);
    if (dtype_is_narrow(dtype) && rounds_twice(op, dtype, in)) need_text(c, HELP_ODD, odd_text);
    str_addf(h, "static inline %s %s_", clike_type(dtype), op_rows[op].name);
    str_addf(h, "%s", qn_dtype_name((qn_dtype)in));
    if (op == OP_CAST) str_addf(h, "_%s", qn_dtype_name((qn_dtype)dtype));
    for (int i = 0; i < op_rows[op].arity; i++)
        str_addf(h, "%s%s %c", i ? ", " : "(", op == OP_WHERE && !i ? "uint8_t" : type, "xyz"[i]);
    str_add(h, ") {\n    return ");
    add_value(h, op, dtype, in, text);
    str_add(h, ";\n}\n");
}

void clike_table(clike *c, uint32_t number) {
    const ir_table *t = &c->k->table[number];
    number += c->tables;
    if (needs(c, HELP_TABLE | number)) {
        str *text = c->out;
        c->out = &c->helpers;
        str_addf(c->out, "%s%s table%u[%d] = {", c->dialect->table, clike_type(t->dtype), number,
                 t->n);
        for (int i = 0; i < t->n; i++) {
            if (i) str_add(c->out, ", ");
            clike_constant(c, t->dtype, t->bits[i]);
        }
        str_add(c->out, "};\n");
        c->out = text;
    }
    str_addf(c->out, "table%u", number);
}

void clike_call(clike *c, int op, int dtype, int in) {
    need_dtype(c, dtype);
    need_dtype(c, in);
    uint32_t key = (uint32_t)op << 16 | (uint32_t)dtype << 8 | (uint32_t)in | 1u << 31;
    if (needs(c, key)) define(c, op, dtype, in);
    str_addf(c->out, "%s_%s", op_rows[op].name, qn_dtype_name((qn_dtype)in));
    if (op == OP_CAST || op == OP_BITCAST) str_addf(c->out, "_%s", qn_dtype_name((qn_dtype)dtype));
    str_add(c->out, "(");
}
