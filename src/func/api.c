/* api.c - the public functions that only name a row of ops.h. Written by tools/gen.py; an edited
 * region stays. */
#include "func/func.h"

/* == generated functions == */

/* [gen neg d1772fdb 969b09e9] */
qn_tensor *qn_neg(qn_tensor *x) {
    return build_elem(OP_NEG, 1, &x);
}

/* [gen abs f588a0c7 8652a5a2] */
qn_tensor *qn_abs(qn_tensor *x) {
    return build_elem(OP_ABS, 1, &x);
}

/* [gen reciprocal c52f8c3b a121c1d3] */
qn_tensor *qn_reciprocal(qn_tensor *x) {
    return build_elem(OP_RECIPROCAL, 1, &x);
}

/* [gen sqrt 9cd00f3b d777670a] */
qn_tensor *qn_sqrt(qn_tensor *x) {
    return build_elem(OP_SQRT, 1, &x);
}

/* [gen cbrt 8d6b2e30 40399fb3] */
qn_tensor *qn_cbrt(qn_tensor *x) {
    return build_elem(OP_CBRT, 1, &x);
}

/* [gen exp 652a1ca7 744117c5] */
qn_tensor *qn_exp(qn_tensor *x) {
    return build_elem(OP_EXP, 1, &x);
}

/* [gen exp2 d84e5174 e81ed43c] */
qn_tensor *qn_exp2(qn_tensor *x) {
    return build_elem(OP_EXP2, 1, &x);
}

/* [gen expm1 b5b981b5 37b9305e] */
qn_tensor *qn_expm1(qn_tensor *x) {
    return build_elem(OP_EXPM1, 1, &x);
}

/* [gen log 81048fe4 6e5f0e71] */
qn_tensor *qn_log(qn_tensor *x) {
    return build_elem(OP_LOG, 1, &x);
}

/* [gen log2 01ddab66 92164155] */
qn_tensor *qn_log2(qn_tensor *x) {
    return build_elem(OP_LOG2, 1, &x);
}

/* [gen log1p 1a662cb1 e1635fa8] */
qn_tensor *qn_log1p(qn_tensor *x) {
    return build_elem(OP_LOG1P, 1, &x);
}

/* [gen sin 80860515 7e6f37f6] */
qn_tensor *qn_sin(qn_tensor *x) {
    return build_elem(OP_SIN, 1, &x);
}

/* [gen cos cb739f68 5eb90218] */
qn_tensor *qn_cos(qn_tensor *x) {
    return build_elem(OP_COS, 1, &x);
}

/* [gen asin 0c45b8d1 cd31078c] */
qn_tensor *qn_asin(qn_tensor *x) {
    return build_elem(OP_ASIN, 1, &x);
}

/* [gen acos de1f4276 a3d03742] */
qn_tensor *qn_acos(qn_tensor *x) {
    return build_elem(OP_ACOS, 1, &x);
}

/* [gen atan 8dd9ea6a b358d68c] */
qn_tensor *qn_atan(qn_tensor *x) {
    return build_elem(OP_ATAN, 1, &x);
}

/* [gen asinh a2ad074f 8bcc433e] */
qn_tensor *qn_asinh(qn_tensor *x) {
    return build_elem(OP_ASINH, 1, &x);
}

/* [gen acosh a2cc2104 c93acf1f] */
qn_tensor *qn_acosh(qn_tensor *x) {
    return build_elem(OP_ACOSH, 1, &x);
}

/* [gen atanh fcf2acf0 8f555299] */
qn_tensor *qn_atanh(qn_tensor *x) {
    return build_elem(OP_ATANH, 1, &x);
}

/* [gen sinh 2c067ea3 93d194a6] */
qn_tensor *qn_sinh(qn_tensor *x) {
    return build_elem(OP_SINH, 1, &x);
}

/* [gen cosh f7900350 4c35771f] */
qn_tensor *qn_cosh(qn_tensor *x) {
    return build_elem(OP_COSH, 1, &x);
}

/* [gen tanh 1ab91792 f2430992] */
qn_tensor *qn_tanh(qn_tensor *x) {
    return build_elem(OP_TANH, 1, &x);
}

/* [gen sigmoid ff31747e 3d2a47d9] */
qn_tensor *qn_sigmoid(qn_tensor *x) {
    return build_elem(OP_SIGMOID, 1, &x);
}

/* [gen softplus fa928d7f 50edb8f6] */
qn_tensor *qn_softplus(qn_tensor *x) {
    return build_elem(OP_SOFTPLUS, 1, &x);
}

/* [gen erf a4055313 022edc02] */
qn_tensor *qn_erf(qn_tensor *x) {
    return build_elem(OP_ERF, 1, &x);
}

/* [gen erfc e41d288d 995940bb] */
qn_tensor *qn_erfc(qn_tensor *x) {
    return build_elem(OP_ERFC, 1, &x);
}

/* [gen lgamma af86be4b bb3f6c6f] */
qn_tensor *qn_lgamma(qn_tensor *x) {
    return build_elem(OP_LGAMMA, 1, &x);
}

/* [gen digamma 2f649f57 d395e85c] */
qn_tensor *qn_digamma(qn_tensor *x) {
    return build_elem(OP_DIGAMMA, 1, &x);
}

/* [gen trigamma d8aadf02 23403815] */
qn_tensor *qn_trigamma(qn_tensor *x) {
    return build_elem(OP_TRIGAMMA, 1, &x);
}

/* [gen silu 7f2920b9 1b911451] */
qn_tensor *qn_silu(qn_tensor *x) {
    return build_elem(OP_SILU, 1, &x);
}

/* [gen silu_slope 08695c7c 8a668269] */
qn_tensor *qn_silu_slope(qn_tensor *x) {
    return build_elem(OP_SILU_SLOPE, 1, &x);
}

/* [gen gelu 8d244612 699aecd3] */
qn_tensor *qn_gelu(qn_tensor *x) {
    return build_elem(OP_GELU, 1, &x);
}

/* [gen gelu_slope a054cf57 4327719f] */
qn_tensor *qn_gelu_slope(qn_tensor *x) {
    return build_elem(OP_GELU_SLOPE, 1, &x);
}

/* [gen gelu_tanh af9995ff 45c7cc12] */
qn_tensor *qn_gelu_tanh(qn_tensor *x) {
    return build_elem(OP_GELU_TANH, 1, &x);
}

/* [gen gelu_tanh_slope 8003a757 79db32af] */
qn_tensor *qn_gelu_tanh_slope(qn_tensor *x) {
    return build_elem(OP_GELU_TANH_SLOPE, 1, &x);
}

/* [gen mish 0e7185ce 92fd3e3e] */
qn_tensor *qn_mish(qn_tensor *x) {
    return build_elem(OP_MISH, 1, &x);
}

/* [gen floor a1f52b14 20369394] */
qn_tensor *qn_floor(qn_tensor *x) {
    return build_elem(OP_FLOOR, 1, &x);
}

/* [gen ceil 628b0f61 4434aefc] */
qn_tensor *qn_ceil(qn_tensor *x) {
    return build_elem(OP_CEIL, 1, &x);
}

/* [gen round b1ed4aa7 b5d577c8] */
qn_tensor *qn_round(qn_tensor *x) {
    return build_elem(OP_ROUND, 1, &x);
}

/* [gen trunc 6b5bc2b8 005cbdc1] */
qn_tensor *qn_trunc(qn_tensor *x) {
    return build_elem(OP_TRUNC, 1, &x);
}

/* [gen not 1c4d550c d06bc7c2] */
qn_tensor *qn_not(qn_tensor *x) {
    return build_elem(OP_NOT, 1, &x);
}

/* [gen add d254959e 692bc0e8] */
qn_tensor *qn_add(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_ADD, 2, (qn_tensor *const[]){x, y});
}

/* [gen sub acb7aeb5 ed400771] */
qn_tensor *qn_sub(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_SUB, 2, (qn_tensor *const[]){x, y});
}

/* [gen mul ca1bbd86 f6a51d49] */
qn_tensor *qn_mul(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_MUL, 2, (qn_tensor *const[]){x, y});
}

/* [gen div 9b4923c4 5fc77f59] */
qn_tensor *qn_div(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_DIV, 2, (qn_tensor *const[]){x, y});
}

/* [gen floor_div 6cea4b4b a00da541] */
qn_tensor *qn_floor_div(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_FLOOR_DIV, 2, (qn_tensor *const[]){x, y});
}

/* [gen mod bc2392b8 43a39490] */
qn_tensor *qn_mod(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_MOD, 2, (qn_tensor *const[]){x, y});
}

/* [gen pow bb676a8f a0f35ba4] */
qn_tensor *qn_pow(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_POW, 2, (qn_tensor *const[]){x, y});
}

/* [gen atan2 24399854 3bae28ca] */
qn_tensor *qn_atan2(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_ATAN2, 2, (qn_tensor *const[]){x, y});
}

/* [gen hypot 72ef1bce b5fdfd78] */
qn_tensor *qn_hypot(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_HYPOT, 2, (qn_tensor *const[]){x, y});
}

/* [gen logaddexp e42f8c82 6985137f] */
qn_tensor *qn_logaddexp(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_LOGADDEXP, 2, (qn_tensor *const[]){x, y});
}

/* [gen maximum 932cf56f 6bdff845] */
qn_tensor *qn_maximum(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_MAXIMUM, 2, (qn_tensor *const[]){x, y});
}

/* [gen minimum acf450e8 98c46219] */
qn_tensor *qn_minimum(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_MINIMUM, 2, (qn_tensor *const[]){x, y});
}

/* [gen lt 27d3b11a 6ea7b3f6] */
qn_tensor *qn_lt(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_LT, 2, (qn_tensor *const[]){x, y});
}

/* [gen le 8bb85f42 bcfe7d44] */
qn_tensor *qn_le(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_LE, 2, (qn_tensor *const[]){x, y});
}

/* [gen eq c45fbc5e cb6ecd3f] */
qn_tensor *qn_eq(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_EQ, 2, (qn_tensor *const[]){x, y});
}

/* [gen ne 8e5e2ee9 76daf891] */
qn_tensor *qn_ne(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_NE, 2, (qn_tensor *const[]){x, y});
}

/* [gen and 62c95da9 55872091] */
qn_tensor *qn_and(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_AND, 2, (qn_tensor *const[]){x, y});
}

/* [gen or 795a7067 57edc524] */
qn_tensor *qn_or(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_OR, 2, (qn_tensor *const[]){x, y});
}

/* [gen xor 92786886 1e307bcf] */
qn_tensor *qn_xor(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_XOR, 2, (qn_tensor *const[]){x, y});
}

/* [gen shl f4fe777d 1588301a] */
qn_tensor *qn_shl(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_SHL, 2, (qn_tensor *const[]){x, y});
}

/* [gen shr 2a39b25e 67bec16f] */
qn_tensor *qn_shr(qn_tensor *x, qn_tensor *y) {
    return build_elem(OP_SHR, 2, (qn_tensor *const[]){x, y});
}

/* [gen where de539d0e 746165ae] */
qn_tensor *qn_where(qn_tensor *x, qn_tensor *y, qn_tensor *z) {
    return build_elem(OP_WHERE, 3, (qn_tensor *const[]){x, y, z});
}

/* [gen fma 8773c8ed f8932b7d] */
qn_tensor *qn_fma(qn_tensor *x, qn_tensor *y, qn_tensor *z) {
    return build_elem(OP_FMA, 3, (qn_tensor *const[]){x, y, z});
}

/* [gen sum f94f00f7 1994a712] */
qn_tensor *qn_sum(qn_tensor *x, int axis, bool keepdims) {
    return func_reduce(OP_SUM, x, axis, keepdims);
}

/* [gen sum_axes f94f00f7 bc63c020] */
qn_tensor *qn_sum_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_reduce_axes(OP_SUM, x, n, axes, keepdims);
}

/* [gen prod 559f0698 9e603ab5] */
qn_tensor *qn_prod(qn_tensor *x, int axis, bool keepdims) {
    return func_reduce(OP_PROD, x, axis, keepdims);
}

/* [gen prod_axes 559f0698 90229967] */
qn_tensor *qn_prod_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_reduce_axes(OP_PROD, x, n, axes, keepdims);
}

/* [gen max c6098da8 f7047b07] */
qn_tensor *qn_max(qn_tensor *x, int axis, bool keepdims) {
    return func_reduce(OP_MAX, x, axis, keepdims);
}

/* [gen max_axes c6098da8 0b4608db] */
qn_tensor *qn_max_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_reduce_axes(OP_MAX, x, n, axes, keepdims);
}

/* [gen min dca50bbc 5f7b78b0] */
qn_tensor *qn_min(qn_tensor *x, int axis, bool keepdims) {
    return func_reduce(OP_MIN, x, axis, keepdims);
}

/* [gen min_axes dca50bbc 8aa247fd] */
qn_tensor *qn_min_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_reduce_axes(OP_MIN, x, n, axes, keepdims);
}

/* [gen argmax d88b8bef fd515a27] */
qn_tensor *qn_argmax(qn_tensor *x, int axis, bool keepdims) {
    return func_reduce(OP_ARGMAX, x, axis, keepdims);
}

/* [gen argmax_axes d88b8bef 70d6c2f6] */
qn_tensor *qn_argmax_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_reduce_axes(OP_ARGMAX, x, n, axes, keepdims);
}

/* [gen argmin 9705300e 0928be7d] */
qn_tensor *qn_argmin(qn_tensor *x, int axis, bool keepdims) {
    return func_reduce(OP_ARGMIN, x, axis, keepdims);
}

/* [gen argmin_axes 9705300e 60552488] */
qn_tensor *qn_argmin_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_reduce_axes(OP_ARGMIN, x, n, axes, keepdims);
}

/* [gen contiguous a5859681 aaff6a4c] */
qn_tensor *qn_contiguous(qn_tensor *x) {
    return build_mark(OP_CONTIGUOUS, x);
}

/* [gen detach 144d6844 e394a053] */
qn_tensor *qn_detach(qn_tensor *x) {
    return build_mark(OP_DETACH, x);
}
