/* sample.c - values of expressions under a few assignments.
 *
 * Most of what the prover is asked is not true, and finding no proof is the most expensive answer.
 * So every node carries its values under SYM_SAMPLES assignments: all variables at their lower end,
 * all at their upper end, and arbitrary ones. A variable's values are chosen when it is made,
 * within its range and, for loops, below the value its extent has under the same assignment; all
 * samples of a store are therefore values that the variables can have together. Where a loop would
 * be empty, or a value leaves 64 bits, the sample is missing for whatever depends on it.
 *
 * A form with a negative sample cannot be proven non-negative. */
#include "sym/internal.h"

__extension__ typedef __int128 int128;

enum { SAMPLE_SPAN = 4000 }; /* values of unbounded variables are that close to their finite end */

void sample_var(const sym_store *s, sym_node *x) {
    const sym_node *extent = sym_at(s, x->extent);
    for (int k = 0; k < SYM_SAMPLES; k++) {
        int64_t lo = x->lo, hi = x->hi;
        if (x->extent) {
            if (!(extent->sampled >> k & 1) || extent->sample[k] < 1) continue;
            hi = extent->sample[k] - 1;
        }
        if (lo == INT64_MIN) lo = sat_sub(hi < 0 ? hi : 0, SAMPLE_SPAN);
        if (hi == INT64_MAX) hi = sat_add(lo > 0 ? lo : 0, SAMPLE_SPAN);
        uint64_t width = (uint64_t)hi - (uint64_t)lo + 1, at = hash_mix(x->self, (uint64_t)k);
        x->sample[k] = k == 0   ? lo
                       : k == 1 ? hi
                                : (int64_t)((uint64_t)lo + (width ? at % width : at));
        x->sampled |= (uint8_t)(1 << k);
    }
}

static bool sample_sum(const sym_store *s, const sym_node *x, int k, int64_t *out) {
    int64_t sum = x->constant, part;
    for (int i = 0; i < x->n; i++) {
        if (__builtin_mul_overflow(sym_at(s, x->term[i])->sample[k], x->coef[i], &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return false;
    }
    *out = sum;
    return true;
}

static bool sample_operands(const sym_store *s, const sym_node *x, int k, int64_t *out) {
    int64_t v = sym_at(s, x->operand[0])->sample[k];
    if (x->kind == SYM_GE0) v = v >= 0;
    for (int i = 1; i < x->operands; i++) {
        int64_t w = sym_at(s, x->operand[i])->sample[k];
        bool product = x->kind == SYM_PRODUCT || x->kind == SYM_AND;
        if (product && __builtin_mul_overflow(v, w, &v)) return false;
        if (x->kind == SYM_DIV && w < 1) return false;
        if (x->kind == SYM_DIV) v = floor_div(v, w);
        if (x->kind == SYM_MIN ? w < v : x->kind == SYM_MAX && w > v) v = w;
    }
    *out = v;
    return true;
}

void sample_node(const sym_store *s, sym_node *x) {
    bool sum = x->kind == SYM_SUM;
    int n = sum ? x->n : x->operands;
    unsigned have = (1 << SYM_SAMPLES) - 1;
    for (int i = 0; i < n; i++) have &= sym_at(s, sum ? x->term[i] : x->operand[i])->sampled;
    for (int k = 0; k < SYM_SAMPLES; k++) {
        if (!(have >> k & 1)) continue;
        if (!(sum ? sample_sum(s, x, k, &x->sample[k]) : sample_operands(s, x, k, &x->sample[k])))
            have &= ~(1u << k);
    }
    x->sampled = (uint8_t)have;
}

bool sample_negative(const form *f) {
    unsigned have = (1 << SYM_SAMPLES) - 1;
    int128 sum[SYM_SAMPLES];
    for (int k = 0; k < SYM_SAMPLES; k++) sum[k] = f->constant;
    for (int i = 0; i < f->n; i++) {
        const sym_node *x = sym_at(f->s, f->term[i]);
        have &= x->sampled;
        for (int k = 0; k < SYM_SAMPLES; k++) sum[k] += (int128)x->sample[k] * f->coef[i];
    }
    for (int k = 0; k < SYM_SAMPLES; k++)
        if ((have >> k & 1) && sum[k] < 0) return true;
    return false;
}
