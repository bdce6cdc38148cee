/* order.c - elements as unsigned integers in the same order, so that one way of sorting does for
 * all.
 *
 * An integer's sign bit is inverted. Of a float with the sign all bits are, else the sign bit; -0
 * first becomes 0, and NaN the largest key, which also a NaN of all ones has. */
#include "routine/order.h"

int order_bits(qn_dtype dtype) {
    return (int)qn_dtype_size(dtype) * 8;
}

/* What a dtype's keys are made with, as its width has it. */
typedef struct order {
    uint64_t sign; /* the sign bit, 0: it has none */
    uint64_t most; /* bits of infinity, or of the largest number; 0: it is no float */
} order;

static order order_of(qn_dtype dtype) {
    static const order orders[] = {
#define ORDER_BOOL(bits, step)                                                                     \
    { 0, 0 }
#define ORDER_UNSIGNED(bits, step)                                                                 \
    { 0, 0 }
#define ORDER_SIGNED(bits, step)                                                                   \
    { 1ull << (bits - 1), 0 }
#define ORDER_FLOAT(bits, step)                                                                    \
    { 1ull << (bits - 1), (1ull << (bits - 1)) - (step) }
#define ORDER_NARROW       ORDER_FLOAT
#define STEP_INF(fraction) 1ull << (fraction)
#define STEP_NAN(fraction) 2
#define X(NAME, name, bits, KIND, rank, ACC, SUM, C, fraction, least, TOP)                         \
    [QN_##NAME] = ORDER_##KIND(bits, STEP_##TOP(fraction)),
#include "base/dtypes.h"
#undef X
    };
    return orders[dtype];
}

static uint64_t load_bits(qn_dtype dtype, const void *data, int64_t i) {
    switch (qn_dtype_size(dtype)) {
    case 1:
        return ((const uint8_t *)data)[i];
    case 2:
        return ((const uint16_t *)data)[i];
    case 4:
        return ((const uint32_t *)data)[i];
    default:
        return ((const uint64_t *)data)[i];
    }
}

/* Key of the bits v; `same`: is v the only value with it? */
static inline uint64_t key_of(order o, uint64_t v, bool *same) {
    uint64_t ones = o.sign ? o.sign | (o.sign - 1) : ~0ull;
    if (!o.most) return v ^ o.sign;
    uint64_t size = v & ~o.sign;
    if (size > o.most) return *same = false, ones;
    if (v == o.sign) return *same = false, o.sign;
    return v & o.sign ? ~v & ones : v | o.sign;
}

static inline uint64_t element_of(order o, uint64_t key) {
    uint64_t ones = o.sign ? o.sign | (o.sign - 1) : ~0ull;
    if (!o.most) return key ^ o.sign;
    return key & o.sign ? key ^ o.sign : ~key & ones;
}

uint64_t order_key(qn_dtype dtype, const void *data, int64_t i) {
    bool same;
    return key_of(order_of(dtype), load_bits(dtype, data, i), &same);
}

/* The width of 32 bits is by far the commonest: without a branch, so that compilers make vectors
 * of it, and compared as signed, which the least of vectors can. */
static bool keys_of_f32(const uint32_t *x, int64_t n, uint32_t flip, uint32_t *out) {
    const uint32_t sign = 1u << 31;
    const int32_t inf = 0x7f800000;
    uint32_t lost = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = x[i], size = v & ~sign;
        uint32_t nan = 0u - ((int32_t)size > inf), minus = 0u - (v >> 31), zero = 0u - (v == sign);
        uint32_t key = (v ^ (minus | sign)) + (zero & 1);
        lost |= nan | zero;
        out[i] = (key | nan) ^ flip;
    }
    return !lost;
}

static bool keys_of_i32(const uint32_t *x, int64_t n, uint32_t flip, uint32_t sign, uint32_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = x[i] ^ sign ^ flip;
    return true;
}

static uint32_t ones_of(qn_dtype dtype) {
    return (uint32_t)((1ull << order_bits(dtype)) - 1);
}

bool order_keys32(qn_dtype dtype, const void *data, int64_t n, uint32_t flip, uint32_t *out) {
    bool same = true;
    const order o = order_of(dtype);
    flip &= ones_of(dtype);
    if (dtype == QN_F32) return keys_of_f32(data, n, flip, out);
    if (order_bits(dtype) == 32) return keys_of_i32(data, n, flip, (uint32_t)o.sign, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = (uint32_t)key_of(o, load_bits(dtype, data, i), &same) ^ flip;
    return same;
}

bool order_keys64(qn_dtype dtype, const void *data, int64_t n, uint64_t flip, uint64_t *out) {
    bool same = true;
    const order o = order_of(dtype);
    const uint64_t *x = data;
    for (int64_t i = 0; i < n; i++) out[i] = key_of(o, x[i], &same) ^ flip;
    return same;
}

void order_values32(qn_dtype dtype, const uint32_t *key, int64_t n, uint32_t flip, void *out) {
    const order o = order_of(dtype);
    flip &= ones_of(dtype);
    if (dtype == QN_F32) {
        const uint32_t sign = 1u << 31;
        for (int64_t i = 0; i < n; i++) {
            uint32_t k = key[i] ^ flip, plus = 0u - (k >> 31);
            ((uint32_t *)out)[i] = k ^ (~plus | sign);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = element_of(o, key[i] ^ flip);
        if (order_bits(dtype) == 8)
            ((uint8_t *)out)[i] = (uint8_t)v;
        else if (order_bits(dtype) == 16)
            ((uint16_t *)out)[i] = (uint16_t)v;
        else
            ((uint32_t *)out)[i] = (uint32_t)v;
    }
}

void order_values64(qn_dtype dtype, const uint64_t *key, int64_t n, uint64_t flip, void *out) {
    const order o = order_of(dtype);
    for (int64_t i = 0; i < n; i++) ((uint64_t *)out)[i] = element_of(o, key[i] ^ flip);
}
