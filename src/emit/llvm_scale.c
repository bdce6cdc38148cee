/* llvm_scale.c - products by a power of two, as the one instruction that AVX-512 has for them.
 *
 * The formulas of math_exp.c multiply by 2^n in two factors, 2^(n/2) and 2^(n - n/2), so that each
 * is a normal number and only the second product rounds (math_scale). They make the factors of the
 * bits of a sum whose last bits are n: six instructions. vscalefps takes x and n and rounds once,
 * too, so its results are the same in every bit. What it makes of the two factors is never used,
 * and LLVM writes no code for that. */
#include "emit/llvm.h"

static const kern_expr *op_of(const kern *k, kexpr e, int op) {
    const kern_expr *x = kern_e(k, e);
    return x->kind == KE_OP && x->op == op ? x : NULL;
}

static bool is_constant(const kern *k, kexpr e, uint64_t bits) {
    return kern_e(k, e)->kind == KE_CONST && kern_e(k, e)->bits == bits;
}

/* The bits b of the power 2^(b - bias): what was shifted to where the exponent is; 0: no power. */
static kexpr power_of(const kern *k, kexpr e, int mantissa) {
    const kern_expr *cast = op_of(k, e, OP_BITCAST);
    const kern_expr *shl = cast ? op_of(k, cast->arg[0], OP_SHL) : NULL;
    return shl && is_constant(k, shl->arg[1], (uint64_t)mantissa) ? shl->arg[0] : 0;
}

/* x * 2^(b/2) * 2^(b - b/2), the biases apart? Then b and x. */
static bool two_factors(const kern *k, kexpr e, int mantissa, kexpr *x, kexpr *b) {
    const kern_expr *outer = op_of(k, e, OP_MUL);
    for (int i = 0; i < 2 && outer; i++) {
        kexpr rest = power_of(k, outer->arg[i], mantissa);
        const kern_expr *sub = rest ? op_of(k, rest, OP_SUB) : NULL;
        const kern_expr *inner = op_of(k, outer->arg[!i], OP_MUL);
        for (int j = 0; j < 2 && sub && inner; j++) {
            const kern_expr *half = op_of(k, sub->arg[1], OP_SHR);
            *x = inner->arg[!j];
            *b = sub->arg[0];
            if (half && half->arg[0] == *b && is_constant(k, half->arg[1], 1) &&
                power_of(k, inner->arg[j], mantissa) == sub->arg[1])
                return true;
        }
    }
    return false;
}

/* b are the bits of a sum with the number that leaves n + twice the bias in its last ones; one that
 * is a little more leaves a little more, and is the same sum. */
static bool magic_sum(const kern *k, kexpr b, double magic, kexpr *sum) {
    const kern_expr *cast = op_of(k, b, OP_BITCAST);
    if (!cast) return false;
    *sum = cast->arg[0];
    const kern_expr *s = kern_e(k, *sum);
    if (s->kind != KE_OP || (s->op != OP_ADD && s->op != OP_FMA)) return false;
    const kern_expr *c = kern_e(k, s->arg[s->n - 1]);
    if (c->kind != KE_CONST) return false;
    if (c->dtype == QN_F64) {
        double v;
        memcpy(&v, &c->bits, sizeof v);
        return v >= magic && v < magic + 8;
    }
    float v;
    uint32_t bits = (uint32_t)c->bits;
    memcpy(&v, &bits, sizeof v);
    return (double)v >= magic && (double)v < magic + 8;
}

static const struct {
    int dtype, lanes, mantissa;
    double magic;
    const char *name;
} rows[] = {{QN_F32, 16, 23, 0x1.8p23 + 2 * 127, "llvm.x86.avx512.mask.scalef.ps.512"},
            {QN_F64, 8, 52, 0x1.8p52 + 2 * 1023, "llvm.x86.avx512.mask.scalef.pd.512"}};

val llvm_scale(llvm *s, kexpr e) {
    kexpr x, b, sum;
    const kern *k = s->k;
    for (size_t i = 0; i < COUNT_OF(rows) && s->owner->isa.avx512; i++) {
        if (kern_e(k, e)->dtype != rows[i].dtype || s->lanes != rows[i].lanes) continue;
        if (!two_factors(k, e, rows[i].mantissa, &x, &b) || !magic_sum(k, b, rows[i].magic, &sum) ||
            !s->memo[sum].vec)
            continue;
        uint64_t magic = scalar_bits((qn_dtype)rows[i].dtype, (scalar){.f = rows[i].magic});
        val n = llvm_op(s, OP_SUB, rows[i].dtype, rows[i].dtype,
                        (val[]){s->memo[sum], llvm_constant(s, rows[i].dtype, magic)});
        val from = llvm_splat(s, s->memo[x], s->lanes);
        int level = from.level > n.level ? from.level : n.level;
        val all = llvm_int(s, rows[i].lanes == 16 ? s->t_i16 : s->t_i8, -1);
        ll_value arg[5] = {from.v, n.v, from.v, all.v, llvm_int(s, s->t_i32, 4).v};
        return llvm_call(s, rows[i].name, 0, NULL, 5, arg, level, true);
    }
    return (val){0};
}
