/* scale.c - products by a power of two, as the one instruction that AVX-512 has for them.
 *
 * The formulas of math/exp.c multiply by 2^n in two factors, 2^(n/2) and 2^(n - n/2), so that each
 * is a normal number and only the second product rounds (math_scale). They make the factors of the
 * bits of a sum whose last bits are n: six instructions. vscalefps takes x and n and rounds once,
 * too, so its results are the same in every bit. What it makes of the two factors is never used,
 * and LLVM writes no code for that. */
#include "emit/llvm/llvm.h"

static const ir_expr *op_of(const kernel *k, expr_id e, int op) {
    const ir_expr *x = ir_e(k, e);
    return x->kind == EXPR_OP && x->op == op ? x : NULL;
}

static bool is_constant(const kernel *k, expr_id e, uint64_t bits) {
    return ir_e(k, e)->kind == EXPR_CONST && ir_e(k, e)->bits == bits;
}

/* The bits b of the power 2^(b - bias): what was shifted to where the exponent is; 0: no power. */
static expr_id power_of(const kernel *k, expr_id e, int mantissa) {
    const ir_expr *cast = op_of(k, e, OP_BITCAST);
    const ir_expr *shl = cast ? op_of(k, cast->arg[0], OP_SHL) : NULL;
    return shl && is_constant(k, shl->arg[1], (uint64_t)mantissa) ? shl->arg[0] : 0;
}

/* x * 2^(b/2) * 2^(b - b/2), the biases apart? Then b and x. */
static bool two_factors(const kernel *k, expr_id e, int mantissa, expr_id *x, expr_id *b) {
    const ir_expr *outer = op_of(k, e, OP_MUL);
    for (int i = 0; i < 2 && outer; i++) {
        expr_id rest = power_of(k, outer->arg[i], mantissa);
        const ir_expr *sub = rest ? op_of(k, rest, OP_SUB) : NULL;
        const ir_expr *inner = op_of(k, outer->arg[!i], OP_MUL);
        for (int j = 0; j < 2 && sub && inner; j++) {
            const ir_expr *half = op_of(k, sub->arg[1], OP_SHR);
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
static bool magic_sum(const kernel *k, expr_id b, double magic, expr_id *sum) {
    const ir_expr *cast = op_of(k, b, OP_BITCAST);
    if (!cast) return false;
    *sum = cast->arg[0];
    const ir_expr *s = ir_e(k, *sum);
    if (s->kind != EXPR_OP || (s->op != OP_ADD && s->op != OP_FMA)) return false;
    const ir_expr *c = ir_e(k, s->arg[s->n - 1]);
    if (c->kind != EXPR_CONST) return false;
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

val llvm_scale(llvm *s, expr_id e) {
    expr_id x, b, sum;
    const kernel *k = s->k;
    for (size_t i = 0; i < COUNT_OF(rows) && s->owner->isa.avx512; i++) {
        if (ir_e(k, e)->dtype != rows[i].dtype || s->lanes != rows[i].lanes) continue;
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
        return llvm_call(s, llvm_plain(rows[i].name), 5, arg, level, true);
    }
    return (val){0};
}
