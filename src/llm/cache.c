/* cache.c - what a model remembers of the tokens that it has read: rows of keys and of values, a
 * tensor for each layer, as floats or in few bits.
 *
 * A row is as wide as a head. In 8 bits it is cut into blocks of 32, as q8_0 has them: whole
 * numbers up to 127 and what they are to be multiplied with, an f16, in a tensor beside them. New
 * rows become blocks when they are written; the kernels that attend make floats of them where they
 * read them, so that nothing but blocks is ever stored.
 *
 * Four bits are too few for a row in which a few numbers are much larger than the rest, as those of
 * keys are. So each row is multiplied by a Hadamard matrix first, which spreads each number over
 * all (Ashkboos et al. 2024, "QuaRot"). That matrix H is its own inverse and turns rows without
 * stretching them. So queries that are turned as well have the same products with keys, and what
 * attention gives of turned values is turned back behind it:
 *
 *     (q H) (k H)^T = q k^T,    (p (v H)) H = p v
 *
 * Two numbers share a byte, number i and number i + head / 2: then those of many bytes lie side by
 * side, as a vector wants them. */
#include "graph/graph.h"
#include "llm/llm.h"

#include <math.h>

enum { BLOCK = 32 };
enum { CONTEXT_USUAL = 4096, CONTEXT_MOST = 1 << 24, CHUNK_USUAL = 128, CHUNK_MOST = 4096 };
enum { CHUNK_BYTES = 256 /* panels are made for each chunk (quant/panels.c) */ };

/* Of a row: 32, or what a head of another width is made of. */
static int64_t block_of(const llm *m) {
    int64_t block = BLOCK;
    while (m->config.size[DIM_HEAD] % block) block /= 2;
    return block;
}

/* ---- rows as blocks, and back ---------------------------------------------------------------- */

/* x / d, rounded, from -most to `top`; where d is 0, zeros. */
static qn_tensor *rounded(qn_tensor *x, qn_tensor *d, double most, double top) {
    qn_tensor *none = qn_eq(d, qn_like(d, 0));
    qn_tensor *by = qn_where(none, qn_like(d, 0), qn_reciprocal(d));
    return qn_clamp(qn_round(qn_mul(x, by)), -most, top);
}

/* f16 [.., blocks, 1] of [.., blocks, block]. The largest number becomes 127, or -8, for of four
 * bits there is one more number below 0 than above. */
static qn_tensor *scales_of(const llm *m, qn_tensor *x) {
    qn_tensor *d;
    if (m->cache_bits == 8) {
        d = qn_max(qn_abs(x), -1, true);
        return qn_cast(qn_mul(d, qn_like(d, 1 / 127.0)), QN_F16);
    }
    qn_tensor *high = qn_max(x, -1, true), *low = qn_min(x, -1, true);
    d = qn_where(qn_gt(high, qn_neg(low)), high, low);
    return qn_cast(qn_mul(d, qn_like(d, -1 / 8.0)), QN_F16);
}

/* Numbers from 0 to 15, [.., head], two in a byte. */
static qn_tensor *nibbles(qn_tensor *x, int64_t head) {
    x = qn_cast(x, QN_I32);
    qn_tensor *low = qn_slice(x, -1, 0, head / 2, 1), *high = qn_slice(x, -1, head / 2, head, 1);
    return qn_cast(qn_add(low, quant_up(high, 4)), QN_U8);
}

llm_rows rows_packed(const llm *m, qn_tensor *x) {
    const int64_t head = m->config.size[DIM_HEAD];
    if (m->cache_bits > 8) return (llm_rows){qn_cast(x, m->cache_bits == 16 ? QN_F16 : QN_F32), 0};
    x = qn_unflatten(x, 2, 2, (const int64_t[]){-1, block_of(m)});
    qn_tensor *d = scales_of(m, x), *near = qn_cast(d, QN_F32);
    if (m->cache_bits == 8)
        return (llm_rows){qn_cast(qn_flatten(rounded(x, near, 127, 127), 2, 3), QN_I8),
                          qn_squeeze(d, 3)};
    qn_tensor *whole = qn_flatten(rounded(x, near, 8, 7), 2, 3);
    return (llm_rows){nibbles(qn_add(whole, qn_like(whole, 8)), head), qn_squeeze(d, 3)};
}

qn_tensor *rows_floats(const llm *m, const llm_rows *r, int axis) {
    const int64_t head = m->config.size[DIM_HEAD], block = block_of(m);
    if (m->cache_bits > 8) return qn_cast(r->t, QN_F32);
    if (!r->t || !r->scales) return NULL;
    qn_tensor *x = r->t;
    if (m->cache_bits == 4) {
        x = qn_cast(qn_unsqueeze(x, axis), QN_I32);
        x = FIELDS(x, axis, 2, 4, 15);
        x = qn_sub(x, qn_like(x, 8));
        x = qn_flatten(x, axis, axis + 1);
    }
    x = qn_unflatten(quant_float(x), axis, 2, (const int64_t[]){head / block, block});
    x = qn_mul(x, qn_cast(qn_unsqueeze(r->scales, axis + 1), QN_F32));
    return qn_flatten(x, axis, axis + 1);
}

/* ---- turned rows ----------------------------------------------------------------------------- */

qn_tensor *rows_turned(const llm *m, qn_tensor *x) {
    return m->turn ? qn_matmul(x, m->turn) : x;
}

/* Sylvester's: the sign of element i, j is the parity of the bits that both have. */
static qn_tensor *hadamard(llm *m) {
    const int64_t head = m->config.size[DIM_HEAD], shape[2] = {head, head};
    if (head & (head - 1))
        raise_error(m->ctx, QN_ERANGE,
                    "llm_open: a cache of 4 bits turns heads whose width is a power of two, and "
                    "here it is %lld",
                    (long long)head);
    float *data = arena_alloc(&m->work, (size_t)(head * head) * sizeof *data);
    const float one = (float)(1 / sqrt((double)head));
    for (int64_t i = 0; i < head * head; i++)
        data[i] = __builtin_parityll((uint64_t)(i / head & i % head)) ? -one : one;
    qn_tensor *t = qn_from(m->ctx, QN_F32, 2, shape, data);
    if (!t) heap_unwind(&m->ctx->heap);
    return qn_keep(t);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Room for `width` numbers of each row of the pool: of keys, or of values. */
static qn_tensor *zeros(llm *m, qn_dtype dtype, int64_t width, bool keys) {
    const int64_t heads = m->config.kv_heads, rows = (m->pages + 1) * PAGE;
    const int64_t shape[3] = {heads, keys ? rows * width : rows, width};
    qn_tensor *t = qn_variable(qn_zeros(m->ctx, dtype, keys ? 2 : 3, shape));
    if (!t || qn_realize(1, &t)) heap_unwind(&m->ctx->heap);
    return qn_keep(t);
}

static void rows_make(llm *m) {
    const int64_t layers = m->config.layers, head = m->config.size[DIM_HEAD];
    const bool blocks = m->cache_bits <= 8;
    const qn_dtype dtype = m->cache_bits == 32   ? QN_F32
                           : m->cache_bits == 16 ? QN_F16
                           : m->cache_bits == 8  ? QN_I8
                                                 : QN_U8;
    m->keys = arena_zeroed(&m->a, (size_t)layers * sizeof *m->keys);
    m->values = arena_zeroed(&m->a, (size_t)layers * sizeof *m->values);
    for (int64_t i = 0; i < 2 * layers; i++) {
        const bool keys = i % 2 == 0;
        llm_rows *to = keys ? &m->keys[i / 2] : &m->values[i / 2];
        to->t = zeros(m, dtype, m->cache_bits == 4 ? head / 2 : head, keys);
        if (blocks) to->scales = zeros(m, QN_F16, head / block_of(m), keys);
    }
    if (m->cache_bits == 4) m->turn = hadamard(m);
}

static void sizes_take(llm *m, const qn_llm_options *o) {
    const llm_config *c = &m->config;
    int64_t trained = c->size[DIM_TRAINED];
    m->context = o->context ? o->context : trained < CONTEXT_USUAL ? trained : CONTEXT_USUAL;
    m->chunk = o->chunk ? o->chunk : o->activation_bits ? CHUNK_BYTES : CHUNK_USUAL;
    m->cache_bits = o->cache_bits ? o->cache_bits : o->half ? 16 : 32;
    if (m->cache_bits != 32 && m->cache_bits != 16 && m->cache_bits != 8 && m->cache_bits != 4)
        raise_error(m->ctx, QN_ERANGE, "llm_open: a cache of %lld bits; it is 32, 16, 8 or 4",
                    (long long)o->cache_bits);
    if (o->activation_bits && o->activation_bits != 8)
        raise_error(m->ctx, QN_ERANGE, "llm_open: activations of %lld bits; it is 8, or 0 for f32",
                    (long long)o->activation_bits);
    m->int8 = o->activation_bits == 8;
    bool fits = !(c->arch->flags & ARCH_PLACES) || m->context <= trained;
    if (m->context < 1 || m->context > CONTEXT_MOST || !fits)
        raise_error(m->ctx, QN_ERANGE, "llm_open: a context of %lld; it is from 1 to %lld",
                    (long long)o->context, (long long)(fits ? CONTEXT_MOST : trained));
    if (m->chunk < 2 || m->chunk > CHUNK_MOST)
        raise_error(m->ctx, QN_ERANGE, "llm_open: a chunk of %lld; it is from 2 to %d",
                    (long long)o->chunk, CHUNK_MOST);
    if (o->caches < 0 || o->caches > CACHES_MOST)
        raise_error(m->ctx, QN_ERANGE, "llm_open: %lld caches; there are from 1 to %d",
                    (long long)o->caches, CACHES_MOST);
    m->caches = o->caches ? o->caches : 1;
    if (o->pool < 0)
        raise_error(m->ctx, QN_ERANGE, "llm_open: a pool of %lld tokens", (long long)o->pool);
    const int64_t all = m->caches * ((m->context + PAGE - 1) / PAGE);
    m->pages = o->pool && o->pool / PAGE < all ? (o->pool + PAGE - 1) / PAGE : all;
}

void cache_make(llm *m, const qn_llm_options *o) {
    const llm_config *c = &m->config;
    sizes_take(m, o);
    m->past = dim_var_take(m->ctx, "past", 0, m->context - 1);
    m->length = dim_var_take(m->ctx, "length", 1, m->chunk);
    m->now = m->cache = arena_zeroed(&m->a, (size_t)m->caches * sizeof *m->cache);
    for (int64_t i = 0; i < m->caches; i++)
        m->cache[i].token = arena_alloc(&m->a, (size_t)m->context * sizeof *m->cache->token);
    pages_open(m);
    int64_t most = m->chunk > BATCH_MOST ? m->chunk : BATCH_MOST; /* tokens of a run */
    m->given = arena_zeroed(&m->a, (size_t)most * sizeof *m->given);
    m->logits = arena_zeroed(&m->a, (size_t)c->size[DIM_VOCABULARY] * sizeof *m->logits);
    for (int i = 0; i < 4; i++)
        m->table[i] = arena_zeroed(&m->a, (size_t)(most * c->size[DIM_HALF]) * sizeof(float));
    rows_make(m);
}

static void rows_free(llm_rows *r) {
    if (r->t) qn_release(r->t);
    if (r->scales) qn_release(r->scales);
}

void cache_free(llm *m) {
    for (int64_t i = 0; m->values && i < m->config.layers; i++) {
        rows_free(&m->keys[i]);
        rows_free(&m->values[i]);
    }
    if (m->turn) qn_release(m->turn);
    dim_var_give_back(m->ctx, m->past);
    dim_var_give_back(m->ctx, m->length);
}
