/* forward.c - the one function that records a language model, whatever its architecture, and the
 * static graphs that are made of it.
 *
 *     x = embedding of the tokens
 *     for each layer:   x += attention(norm(x)),  x += inner(norm(x))
 *     logits = output(norm(x))
 *
 * A graph reads n tokens behind `past` others, both variables. It writes their keys and values into
 * pages of the pool, and attends to those of the first past + n tokens, which a table gives: so no
 * kernel depends on how large the cache could become, and no work. A token, or one of each of
 * several texts, attends to the pages where they are; for a chunk of one text, whose rows share
 * them, they are put in order first. Rotations come as tables of cosines and sines from the host,
 * which has them in double precision. */
#include "llm/llm.h"

#include <math.h>

#define PI 3.14159265358979323846

/* ---- positions ------------------------------------------------------------------------------- */

/* YaRN (Peng et al. 2023): slow pairs are interpolated, fast ones not, those between in part. */
static double yarn(const llm_config *c, double speed, int64_t i) {
    double per = c->rotated / (2 * log(c->theta));
    double lo = floor(per * log(c->original / (c->fast * 2 * PI)));
    double hi = ceil(per * log(c->original / (c->slow * 2 * PI)));
    lo = fmax(lo, 0);
    hi = fmin(hi, c->rotated - 1);
    if (hi <= lo) hi = lo + 0.001;
    double ramp = fmin(fmax(((double)i - lo) / (hi - lo), 0), 1);
    return speed / c->factor * ramp + speed * (1 - ramp);
}

/* Llama 3.1's: by how often a pair turns in the context that the model was trained with. */
static double llama3(const llm_config *c, double speed) {
    double turns = c->original * speed / (2 * PI);
    double smooth = (turns - c->low) / (c->high - c->low);
    smooth = fmin(fmax(smooth, 0), 1);
    return (1 - smooth) * speed / c->factor + smooth * speed;
}

void speeds_make(llm *m, const float *factors) {
    const llm_config *c = &m->config;
    int64_t half = c->size[DIM_HALF];
    m->speed = arena_alloc(&m->a, (size_t)half * sizeof *m->speed);
    m->local_speed = arena_alloc(&m->a, (size_t)half * sizeof *m->speed);
    for (int64_t i = 0; i < half; i++) {
        double speed = pow(c->theta, -2 * (double)i / c->rotated);
        m->local_speed[i] = pow(c->local_theta, -2 * (double)i / c->rotated);
        if (c->scaling == SCALING_LINEAR) speed /= c->factor;
        if (c->scaling == SCALING_LLAMA3) speed = llama3(c, speed);
        if (c->scaling == SCALING_YARN) speed = yarn(c, speed, i);
        m->speed[i] = factors ? speed / (double)factors[i] : speed;
    }
    m->stretch = 1;
    if (c->scaling != SCALING_YARN) return;
    double usual = c->factor > 1 ? 0.1 * log(c->factor) + 1 : 1;
    m->stretch = isnan(c->stretch) ? usual : m->gguf ? usual * c->stretch : c->stretch;
}

static int tables_of(const llm *m) {
    return m->config.arch->flags & ARCH_PLACES       ? 0
           : m->config.arch->flags & ARCH_TWO_THETAS ? 4
                                                     : 2;
}

/* Of tokens at the places `given`. */
static void tables_fill(llm *m, int64_t n) {
    int64_t half = m->config.size[DIM_HALF];
    for (int k = 0; k < tables_of(m); k += 2) {
        const double *speed = k ? m->local_speed : m->speed;
        double stretch = k ? 1 : m->stretch;
        for (int64_t i = 0; i < n * half; i++) {
            float angle = (float)m->given[i / half] * (float)speed[i % half];
            m->table[k][i] = (float)(cos((double)angle) * stretch);
            m->table[k + 1][i] = (float)(sin((double)angle) * stretch);
        }
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Where the rows of tokens are. */
typedef struct places {
    qn_tensor *at;   /* [n] of i64: rows of the pool that the tokens are written to */
    qn_tensor *page; /* i32: the pages of a chunk's text [pages], or of each token's [n, pages] */
    /* Of tokens that are each behind a text of its own, which look at rows up to their own: */
    qn_tensor *seen;     /* [n, pages, 1, PAGE]: may they look at it? NULL: it is a chunk */
    qn_tensor *windowed; /* of layers with windows */
} places;

typedef struct pass {
    llm *m;
    const llm_weight *w; /* of the layer */
    int64_t n, past;     /* tokens that come, and are there: numbers, or the variables */
    places rows;
    qn_tensor *table[4];
    bool windowed;
    bool bytes;   /* what blocks are multiplied with is made of bytes, .. */
    bool few;     /* .. for so few rows that weights stay as they are */
    int64_t seen; /* rows of its text that a chunk attends to */
} pass;

/* The scales beside the blocks, NULL: there are none. */
static qn_tensor *scales_of(const llm_weight *w) {
    return w->halves ? quant_half_scales(w->scales, w->quant) : w->scales;
}

/* As f32 [rows, columns], whatever it is in the file; the kernel that reads it does that. */
static qn_tensor *unpacked(const llm_weight *w) {
    qn_tensor *scales = scales_of(w);
    if (scales) return quant_by_scales(w->t, scales, w->quant);
    return w->quant ? qn_dequantize(w->t, (qn_quant)w->quant) : qn_cast(w->t, QN_F32);
}

/* The same by whole numbers; NULL where it is not to be had so. */
static qn_tensor *times_bytes(const pass *p, qn_tensor *x, const llm_weight *w) {
    int64_t deep = qn_dim(x, 1);
    if (!p->few && qn_dim(x, 0) != 1) {
        if (!quant_has_panels(w->quant, qn_dim(w->t, 0), deep)) return NULL;
        quant_panels panels = quant_panels_of(w->t, w->quant, deep);
        return quant_panel_product(x, &panels);
    }
    if (!quant_has_product(w->quant, deep)) return NULL;
    quant_rows rows = quant_rows_of(x, w->quant); /* the same for all that take x */
    return quant_product(&rows, w->t, w->quant);
}

/* Rows x times a matrix [out, in]; `turned`: [in, out]. */
static qn_tensor *times(const pass *p, qn_tensor *x, const llm_weight *w, bool turned) {
    if (p->bytes && !turned && x && w->quant) {
        qn_tensor *y = times_bytes(p, x, w);
        if (y) return y;
    }
    return qn_matmul(x, turned ? unpacked(w) : qn_transpose(unpacked(w), 0, 1));
}

/* y, and what adapters of a matrix make of the rows x that y is the product of. */
static qn_tensor *adapted(qn_tensor *y, qn_tensor *x, const llm_weight *w) {
    if (!w->down) return y;
    x = qn_matmul(x, qn_transpose(w->down, 0, 1));
    return qn_add(y, qn_matmul(x, qn_transpose(w->up, 0, 1)));
}

static qn_tensor *linear(const pass *p, qn_tensor *x, int slot, int bias) {
    const llm_weight *w = &p->w[slot - SLOT_FIRST];
    x = adapted(times(p, x, w, p->m->turned), x, w);
    const llm_weight *b = &p->w[bias - SLOT_FIRST];
    return bias && b->t ? qn_add(x, b->t) : x;
}

static qn_tensor *norm(const llm *m, qn_tensor *x, qn_tensor *w, qn_tensor *b) {
    const llm_config *c = &m->config;
    return c->arch->flags & ARCH_LAYER_NORM ? qn_layer_norm(x, w, b, c->layer_eps)
                                            : qn_rms_norm(x, w, c->rms_eps);
}

static qn_tensor *norm_of(const pass *p, qn_tensor *x, int slot) {
    qn_tensor *w = p->w[slot - SLOT_FIRST].t;
    bool biased = slot == SLOT_ATTN_NORM || slot == SLOT_FFN_NORM; /* the next slot */
    return w ? norm(p->m, x, w, biased ? p->w[slot + 1 - SLOT_FIRST].t : NULL) : x;
}

/* x [n, heads * head] as [heads, n, head]. */
static qn_tensor *by_heads(const pass *p, qn_tensor *x, int64_t heads, int slot) {
    int64_t head = p->m->config.size[DIM_HEAD];
    x = qn_reshape(x, 3, (const int64_t[]){p->n, heads, head});
    if (slot) x = norm_of(p, x, slot);
    return qn_transpose(x, 0, 1);
}

/* x [heads, n, head] with the first numbers of each head turned by the token's place. */
static qn_tensor *rotated(const pass *p, qn_tensor *x) {
    const llm_config *c = &p->m->config;
    int64_t head = c->size[DIM_HEAD], half = c->size[DIM_HALF], turned = 2 * half;
    bool local = p->windowed && c->arch->flags & ARCH_TWO_THETAS;
    qn_tensor *cosine = p->table[local ? 2 : 0], *sine = p->table[local ? 3 : 1], *a, *b;
    if (!cosine) return x;
    qn_tensor *in = turned < head ? qn_slice(x, 2, 0, turned, 1) : x;
    if (p->m->pairs) {
        in = qn_unflatten(in, 2, 2, (const int64_t[]){half, 2});
        a = qn_select(in, 3, 0);
        b = qn_select(in, 3, 1);
    } else {
        a = qn_slice(in, 2, 0, half, 1);
        b = qn_slice(in, 2, half, turned, 1);
    }
    qn_tensor *y[2] = {qn_sub(qn_mul(a, cosine), qn_mul(b, sine)),
                       qn_add(qn_mul(a, sine), qn_mul(b, cosine))};
    qn_tensor *out = p->m->pairs ? qn_flatten(qn_stack(2, y, -1), 2, 3) : qn_concat(2, y, 2);
    if (turned == head) return out;
    return qn_concat(2, (qn_tensor *const[]){out, qn_slice(x, 2, turned, head, 1)}, 2);
}

/* Of tokens that are each behind a text of its own, one or several. */
static bool is_apart(llm_kind kind) {
    return kind == GRAPH_TOKEN || kind == GRAPH_BATCH;
}

/* Has the graph a constant number of rows? Else it is the variable `length`. */
static bool has_few_rows(llm_kind kind) {
    return is_apart(kind) || kind == GRAPH_FEW;
}

/* Rows of the texts that are attended to, at most; and their pages. Where rows are constant `past`
 * goes to the last token. */
static int64_t rows_seen(const pass *p, llm_kind kind) {
    return qn_dim_add(p->m->ctx, p->past, has_few_rows(kind) ? 1 : p->n);
}

static int64_t pages_seen(const pass *p, llm_kind kind) {
    qn_ctx *qn = p->m->ctx;
    return qn_dim_div(qn, qn_dim_add(qn, rows_seen(p, kind), PAGE - 1), PAGE);
}

/* New values [heads, n, width] into the pool; the pages that are attended to, [heads, .. pages,
 * PAGE, width]. */
static qn_tensor *put_values(const pass *p, qn_tensor *all, qn_tensor *rows) {
    const llm *m = p->m;
    const int64_t shape[4] = {m->config.kv_heads, m->pages + 1, PAGE, -1};
    if (qn_assign(all, qn_index_copy(all, p->rows.at, rows, 1))) return NULL;
    return qn_take(qn_reshape(all, 4, shape), p->rows.page, 1);
}

/* The same of keys, whose pages are [width, PAGE]. */
static qn_tensor *put_keys(const pass *p, qn_tensor *all, qn_tensor *rows) {
    const llm *m = p->m;
    qn_ctx *qn = m->ctx;
    const int64_t heads = m->config.kv_heads, width = rows ? qn_dim(rows, 2) : 1;
    const int64_t shape[4] = {heads, m->pages + 1, width, PAGE}, flat[2] = {heads, -1};
    qn_tensor *at = qn_unsqueeze(p->rows.at, 1), *slot = qn_and(at, qn_like(at, PAGE - 1));
    qn_tensor *first = qn_add(qn_mul(qn_sub(at, slot), qn_like(at, (double)width)), slot);
    qn_tensor *number = qn_iota(qn, QN_I64, 2, (const int64_t[]){1, width}, 1);
    qn_tensor *to = qn_add(first, qn_mul(number, qn_like(number, PAGE)));
    to = qn_reshape(to, 1, (const int64_t[]){-1});
    if (qn_assign(all, qn_index_copy(all, to, qn_reshape(rows, 2, flat), 1))) return NULL;
    return qn_take(qn_reshape(all, 4, shape), p->rows.page, 1);
}

/* New keys or values, and those that there are then, as f32: [heads, .. pages, head, PAGE] of keys,
 * [heads, .. pages, PAGE, head] of values. */
static qn_tensor *remember(const pass *p, const llm_rows *to, qn_tensor *x, bool keys) {
    qn_tensor *(*put)(const pass *p, qn_tensor *all, qn_tensor *rows) =
        keys ? put_keys : put_values;
    const llm_rows rows = rows_packed(p->m, rows_turned(p->m, x));
    llm_rows seen = {put(p, to->t, rows.t), NULL};
    if (to->scales) seen.scales = put(p, to->scales, rows.scales);
    return seen.t ? rows_floats(p->m, &seen, qn_rank(seen.t) - (keys ? 2 : 1)) : NULL;
}

/* Pages of one text as rows in order, [heads, past + n, head]. */
static qn_tensor *in_order(const pass *p, qn_tensor *x, bool keys) {
    const int64_t shape[3] = {p->m->config.kv_heads, -1, p->m->config.size[DIM_HEAD]};
    if (keys) x = qn_transpose(x, 2, 3);
    x = qn_slice(qn_reshape(x, 3, shape), 1, 0, p->seen, 1);
    return qn_contiguous(x);
}

static qn_tensor *attention_chunk(const pass *p, qn_tensor *q, qn_tensor *k, qn_tensor *v) {
    const llm_config *c = &p->m->config;
    qn_attention_options o =
        QN_ATTENTION_OPTIONS(.causal = true, .scale = c->scale, .cap = c->cap, .grouped = true);
    if (p->windowed) o.window = c->window;
    q = qn_attention(q, in_order(p, k, true), in_order(p, v, false), &o);
    return qn_transpose(rows_turned(p->m, q), 0, 1);
}

/* Of tokens that are each behind pages of their own: those heads that share keys are rows of a
 * product with a page. Sums go over pages and the rows of a page. [n, kv_heads, shared, head] */
static qn_tensor *attention_pages(const pass *p, qn_tensor *q, qn_tensor *k, qn_tensor *v) {
    const llm_config *c = &p->m->config;
    const int64_t shape[2] = {c->kv_heads, c->heads / c->kv_heads};
    const int over[2] = {2, 4};
    q = qn_transpose(qn_unflatten(q, 0, 2, shape), 1, 2); /* [kv_heads, n, shared, head] */
    qn_tensor *s = qn_matmul(qn_unsqueeze(q, 2), k);      /* [kv_heads, n, pages, shared, PAGE] */
    s = qn_mul(s, qn_like(s, c->scale > 0 ? c->scale : 1 / sqrt((double)c->size[DIM_HEAD])));
    if (c->cap > 0) s = qn_mul(qn_tanh(qn_mul(s, qn_like(s, 1 / c->cap))), qn_like(s, c->cap));
    s = qn_where(p->windowed ? p->rows.windowed : p->rows.seen, s, qn_like(s, -INFINITY));
    s = qn_exp(qn_sub(s, qn_max_axes(s, 2, over, true)));
    qn_tensor *all = qn_sum_axes(s, 2, over, false);
    s = qn_mul(qn_unsqueeze(s, 5), qn_unsqueeze(v, 3));
    s = qn_div(qn_sum_axes(s, 2, over, false), qn_unsqueeze(all, 3));
    return qn_transpose(rows_turned(p->m, s), 0, 1);
}

static qn_tensor *attention(const pass *p, qn_tensor *x, int layer) {
    const llm_config *c = &p->m->config;
    const int64_t *size = c->size;
    qn_tensor *q, *k, *v;
    if (c->arch->flags & ARCH_ONE_QKV) {
        qn_tensor *all = linear(p, x, SLOT_QKV, SLOT_QKV_BIAS);
        q = qn_slice(all, 1, 0, size[DIM_QUERIES], 1);
        k = qn_slice(all, 1, size[DIM_QUERIES], size[DIM_QUERIES] + size[DIM_KEYS], 1);
        v = qn_slice(all, 1, size[DIM_QUERIES] + size[DIM_KEYS], size[DIM_THREE], 1);
    } else {
        q = linear(p, x, SLOT_Q, SLOT_Q_BIAS);
        k = linear(p, x, SLOT_K, SLOT_K_BIAS);
        v = linear(p, x, SLOT_V, SLOT_V_BIAS);
    }
    bool normed = c->arch->flags & ARCH_QK_NORM;
    q = rotated(p, by_heads(p, q, c->heads, normed ? SLOT_Q_NORM : 0));
    k = rotated(p, by_heads(p, k, c->kv_heads, normed ? SLOT_K_NORM : 0));
    v = by_heads(p, v, c->kv_heads, 0);
    q = rows_turned(p->m, q);
    k = remember(p, &p->m->keys[layer], k, true);
    v = remember(p, &p->m->values[layer], v, false);
    qn_tensor *y = (p->rows.seen ? attention_pages : attention_chunk)(p, q, k, v);
    y = qn_reshape(y, 2, (const int64_t[]){p->n, size[DIM_QUERIES]});
    return linear(p, y, SLOT_OUT, SLOT_OUT_BIAS);
}

/* The matrices of the experts `ids`, f32 [ids' axes.., rows, columns]. The gather is an index of
 * the product, so no others are read. */
static qn_tensor *chosen(const pass *p, int slot, qn_tensor *ids) {
    const llm_weight *w = &p->w[slot - SLOT_FIRST];
    llm_weight own = {.t = qn_take(w->t, ids, 0), .quant = w->quant, .halves = w->halves};
    if (w->scales) own.scales = qn_take(w->scales, ids, 0);
    return unpacked(&own);
}

/* x [n, k or 1, columns] by the matrices of each token's own experts. */
static qn_tensor *by_chosen(const pass *p, qn_tensor *x, int slot, qn_tensor *ids) {
    return qn_sum(qn_mul(chosen(p, slot, ids), qn_unsqueeze(x, 2)), 3, false);
}

/* Of one token: products of matrices, as any other. */
static qn_tensor *expert(const pass *p, qn_tensor *x, qn_tensor *id) {
    qn_tensor *gate = qn_matmul(x, qn_transpose(chosen(p, SLOT_GATES, id), 0, 1));
    qn_tensor *up = qn_matmul(x, qn_transpose(chosen(p, SLOT_UPS, id), 0, 1));
    return qn_matmul(qn_mul(qn_silu(gate), up), qn_transpose(chosen(p, SLOT_DOWNS, id), 0, 1));
}

/* A mixture: each token's inner layers are those that the router gives the largest shares. */
static qn_tensor *experts(const pass *p, qn_tensor *x) {
    const llm_config *c = &p->m->config;
    qn_tensor *share = NULL, *ids = NULL, *sum = NULL, *logits = linear(p, x, SLOT_ROUTER, 0);
    if (qn_topk(qn_softmax(logits, 1), c->chosen, 1, true, &share, &ids)) return NULL;
    if (c->shared) share = qn_div(share, qn_sum(share, 1, true));
    for (int64_t i = 0; p->n == 1 && i < c->chosen; i++) {
        qn_tensor *own = qn_select(qn_select(ids, 0, 0), 0, i);
        qn_tensor *y = qn_mul(expert(p, x, own), qn_slice(share, 1, i, i + 1, 1));
        sum = sum ? qn_add(sum, y) : y;
    }
    if (p->n == 1) return sum;
    x = qn_unsqueeze(x, 1);
    qn_tensor *y =
        qn_mul(qn_silu(by_chosen(p, x, SLOT_GATES, ids)), by_chosen(p, x, SLOT_UPS, ids));
    y = by_chosen(p, y, SLOT_DOWNS, ids);
    return qn_sum(qn_mul(y, qn_unsqueeze(share, 2)), 1, false);
}

static qn_tensor *inner(const pass *p, qn_tensor *x) {
    const llm_config *c = &p->m->config;
    uint32_t flags = c->arch->flags;
    if (flags & ARCH_EXPERTS) return experts(p, x);
    int64_t size = c->size[DIM_INNER];
    qn_tensor *up, *gate = NULL;
    if (flags & ARCH_ONE_UP) {
        qn_tensor *both = linear(p, x, SLOT_GATE_UP, 0);
        gate = qn_slice(both, 1, 0, size, 1);
        up = qn_slice(both, 1, size, 2 * size, 1);
    } else {
        if (flags & ARCH_GATED) gate = linear(p, x, SLOT_GATE, 0);
        up = linear(p, x, SLOT_UP, SLOT_UP_BIAS);
    }
    qn_tensor *from = flags & ARCH_GATED ? gate : up;
    qn_tensor *y = flags & ARCH_GELU ? qn_gelu_tanh(from) : qn_silu(from);
    if (flags & ARCH_GATED) y = qn_mul(y, up);
    if (p->bytes) y = qn_contiguous(y); /* or each kernel that rounds it would compute it anew */
    return linear(p, y, SLOT_DOWN, SLOT_DOWN_BIAS);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Rows of a table at the ids. */
static qn_tensor *rows_of(const llm_weight *w, qn_tensor *ids) {
    llm_weight rows = {.t = qn_embedding(w->t, ids), .quant = w->quant};
    return unpacked(&rows);
}

/* Logits of normed rows [.., width]. */
static qn_tensor *logits_of(const pass *p, qn_tensor *x) {
    const llm *m = p->m;
    const llm_weight *w = m->whole[SLOT_OUTPUT].t ? &m->whole[SLOT_OUTPUT] : &m->whole[SLOT_EMBED];
    double cap = m->config.final_cap;
    x = adapted(times(p, x, w, false), x, &m->whole[SLOT_OUTPUT]);
    return cap > 0 ? qn_mul(qn_tanh(qn_mul(x, qn_like(x, 1 / cap))), qn_like(x, cap)) : x;
}

/* What tokens of several texts may look at: rows up to their own, or the last ones of these. */
static void masks_make(pass *p, qn_tensor *held) {
    qn_ctx *qn = p->m->ctx;
    const int64_t shape[4] = {p->n, pages_seen(p, GRAPH_BATCH), 1, PAGE};
    qn_tensor *page = qn_iota(qn, QN_I64, 4, shape, 1);
    qn_tensor *row = qn_add(qn_mul(page, qn_like(page, PAGE)), qn_iota(qn, QN_I64, 4, shape, 3));
    held = qn_reshape(held, 4, (const int64_t[]){p->n, 1, 1, 1});
    p->rows.seen = qn_le(row, held);
    if (!p->m->config.window) return;
    qn_tensor *last = qn_add(row, qn_like(row, (double)p->m->config.window));
    p->rows.windowed = qn_and(p->rows.seen, qn_gt(last, held));
}

/* What a graph gives of its inputs: ids; rows of the pool, and pages; how much texts hold, of
 * tokens apart; targets, of losses; places, or tables. */
static qn_tensor *forward(pass p, llm_kind kind, qn_tensor *const *in) {
    llm *m = p.m;
    const llm_config *c = &m->config;
    qn_tensor *const *next = in + (is_apart(kind) || kind == GRAPH_LOSSES ? 4 : 3);
    const bool chunk = kind == GRAPH_CHUNK || kind == GRAPH_FEW;
    p.few = has_few_rows(kind);
    p.bytes = m->int8 && (p.few || chunk);
    p.seen = rows_seen(&p, kind);
    p.rows.at = in[1];
    p.rows.page = in[2];
    if (is_apart(kind)) masks_make(&p, in[3]);
    qn_tensor *x = rows_of(&m->whole[SLOT_EMBED], in[0]);
    if (c->arch->flags & ARCH_SCALED) x = qn_mul(x, qn_like(x, (double)(float)sqrt(c->width)));
    if (c->arch->flags & ARCH_PLACES) x = qn_add(x, rows_of(&m->whole[SLOT_PLACES], *next));
    for (int i = 0; i < tables_of(m); i++) p.table[i] = next[i];
    for (int i = 0; i < c->layers; i++) {
        p.w = m->layer[i];
        p.windowed = c->windowed[i];
        x = qn_add(x,
                   norm_of(&p, attention(&p, norm_of(&p, x, SLOT_ATTN_NORM), i), SLOT_POST_ATTN));
        x = qn_add(x, norm_of(&p, inner(&p, norm_of(&p, x, SLOT_FFN_NORM)), SLOT_POST_FFN));
    }
    if (chunk) x = qn_slice(x, 0, qn_dim_sub(m->ctx, p.n, 1), p.n, 1);
    x = norm(m, x, m->whole[SLOT_NORM].t, m->whole[SLOT_NORM_BIAS].t);
    if (kind == GRAPH_HIDDEN) return x;
    x = logits_of(&p, x);
    if (kind != GRAPH_LOSSES) return x;
    return qn_cross_entropy_with(x, in[3], &QN_CROSS_ENTROPY_OPTIONS(.reduction = QN_REDUCE_NONE));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Besides the weights of a batch. */
enum { INPUTS_MOST = 8 };

/* What a graph is given. */
typedef struct given {
    const int32_t *ids, *targets; /* targets: of losses */
    const int32_t *page;
    const int64_t *at, *held; /* held: of tokens apart */
} given;

/* Matrices of floats are inputs of a batch. As parameters each graph of few rows would have a copy
 * of them, packed for its products. To `in` unless NULL; how many there are. */
static int batch_weights(const llm *m, qn_tensor **in) {
    int n = 0;
    for (int64_t i = -1; i < m->config.layers; i++) {
        const llm_weight *w = i < 0 ? m->whole : m->layer[i];
        const int slots = i < 0 ? SLOT_FIRST : SLOTS - SLOT_FIRST;
        for (int k = 0; k < slots; k++) {
            const bool floats = w[k].t && !w[k].quant && qn_rank(w[k].t) >= 2;
            qn_tensor *const all[] = {floats ? w[k].t : NULL, w[k].down, w[k].up};
            for (size_t j = 0; j < COUNT_OF(all); j++) {
                if (all[j] && in) in[n] = all[j];
                n += all[j] != NULL;
            }
        }
    }
    return n;
}

/* The graph's inputs for n tokens, a number or a variable. */
static qn_tensor **inputs_make(const pass *p, llm_kind kind, const given *g, int *count) {
    llm *m = p->m;
    qn_ctx *qn = m->ctx;
    const bool apart = is_apart(kind);
    const int64_t shape[2] = {p->n, m->config.size[DIM_HALF]};
    const int64_t table[2] = {p->n, pages_seen(p, kind)};
    const int more = kind == GRAPH_BATCH || kind == GRAPH_FEW ? batch_weights(m, NULL) : 0;
    qn_tensor **in = arena_alloc(&m->work, (size_t)(INPUTS_MOST + more) * sizeof *in);
    int k = 0;
    in[k++] = qn_from(qn, QN_I32, 1, shape, g->ids);
    in[k++] = qn_from(qn, QN_I64, 1, shape, g->at);
    in[k++] = qn_from(qn, QN_I32, apart ? 2 : 1, apart ? table : table + 1, g->page);
    if (apart) in[k++] = qn_from(qn, QN_I64, 1, shape, g->held);
    if (kind == GRAPH_LOSSES) in[k++] = qn_from(qn, QN_I32, 1, shape, g->targets);
    if (m->config.arch->flags & ARCH_PLACES) in[k++] = qn_from(qn, QN_I32, 1, shape, m->given);
    for (int i = 0; i < tables_of(m); i++) in[k++] = qn_from(qn, QN_F32, 2, shape, m->table[i]);
    for (int i = 0; i < k; i++)
        if (!in[i]) heap_unwind(&qn->heap);
    *count = k + (more ? batch_weights(m, in + k) : 0);
    return in;
}

/* Of n tokens, a number or a variable. Assignments that the program left pending would become the
 * graph's, so they are made first. What it is recorded of is gone in the end: else the cache's old
 * values would be kept at the first run. */
static qn_plan *graph_make(llm *m, llm_kind kind, int64_t n) {
    qn_ctx *qn = m->ctx;
    pass p = {.m = m, .n = n, .past = m->past};
    const int32_t none[BATCH_MOST] = {0};
    const int64_t first[BATCH_MOST] = {0};
    qn_scope scope = qn_scope_begin(qn);
    if (qn_realize(1, &m->keys[0].t) || qn_bind(qn, m->past, 0) || qn_bind(qn, m->length, 1))
        heap_unwind(&qn->heap);
    int inputs;
    qn_tensor **in = inputs_make(&p, kind, &(given){none, none, none, first, first}, &inputs);
    qn_tensor *out = forward(p, kind, in);
    qn_plan *plan = out ? qn_plan_new(qn, inputs, in, 1, &out) : NULL;
    if (!plan) heap_unwind(&qn->heap);
    qn_scope_end(qn, scope);
    heap_trim(&qn->heap);
    return plan;
}

/* The oracle has no plans: there each call is recorded anew. */
static qn_tensor *graph_run(llm *m, qn_plan **plan, llm_kind kind, const pass *p, const given *g) {
    qn_ctx *qn = m->ctx;
    qn_tensor *out;
    bool plans = strcmp(qn_device_of(qn, NULL), "ref") != 0;
    if (plans && !*plan) *plan = graph_make(m, kind, has_few_rows(kind) ? p->n : m->length);
    int inputs;
    tables_fill(m, p->n);
    qn_tensor **in = inputs_make(p, kind, g, &inputs);
    if (!plans) return forward(*p, kind, in);
    if (qn_bind(qn, m->past, p->past) || qn_plan_run(*plan, in, &out)) heap_unwind(&qn->heap);
    return out;
}

/* A graph of few rows has FEW_ROWS. What the tokens lack to these goes in front of them, so that
 * the last row is the last token. These rows see nothing or too little, and what they make, NaN
 * maybe, goes to a row of the page that is nobody's. */
static int64_t lacking(llm_kind kind, int64_t n) {
    return kind == GRAPH_FEW ? FEW_ROWS - n : 0;
}

qn_tensor *forward_run(llm *m, const llm_cache *c, llm_kind kind, int64_t n, const int32_t *ids) {
    if (kind == GRAPH_CHUNK && n == 1) kind = GRAPH_TOKEN;
    if (kind == GRAPH_CHUNK && n <= FEW_ROWS && m->chunk > FEW_ROWS) kind = GRAPH_FEW;
    const int64_t pages = (c->held + n + PAGE - 1) / PAGE, none = lacking(kind, n);
    int64_t *at = arena_zeroed(&m->work, (size_t)(none + n) * sizeof *at);
    int32_t *page = arena_alloc(&m->work, (size_t)pages * sizeof *page);
    int32_t *id = arena_zeroed(&m->work, (size_t)(none + n + 1) * sizeof *id);
    for (int64_t i = 0; i < none; i++) m->given[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        m->given[none + i] = (int32_t)(c->held + i);
        at[none + i] = pages_row(c, c->held + i);
    }
    memcpy(id + none, ids, (size_t)(n + (kind == GRAPH_LOSSES)) * sizeof *id);
    pages_table(c, pages, page);
    pass p = {.m = m, .n = none + n, .past = c->held};
    if (kind == GRAPH_FEW) p.past += n - 1;
    return graph_run(m, &m->graph[kind], kind, &p, &(given){id, id + 1, page, at, &c->held});
}

int64_t batch_rows(int64_t n) {
    int64_t rows = 1;
    while (rows < n) rows *= 2;
    return rows;
}

/* There is a graph for each power of two. What a batch lacks to one are tokens that write a row of
 * the page that is nobody's, and look at it. */
qn_tensor *forward_batch(llm *m, int64_t n, const int64_t *cache, const int32_t *ids) {
    const int64_t size = batch_rows(n);
    int64_t at[BATCH_MOST] = {0}, held[BATCH_MOST] = {0}, most = 0;
    int32_t id[BATCH_MOST] = {0};
    for (int64_t i = 0; i < size; i++) m->given[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        const llm_cache *c = &m->cache[cache[i]];
        held[i] = c->held;
        for (int64_t k = 0; k < i; k++) held[i] += cache[k] == cache[i];
        at[i] = pages_row(c, held[i]);
        m->given[i] = (int32_t)held[i];
        id[i] = ids[i];
        if (held[i] > most) most = held[i];
    }
    const int64_t pages = most / PAGE + 1;
    int32_t *page = arena_zeroed(&m->work, (size_t)(size * pages) * sizeof *page);
    for (int64_t i = 0; i < n; i++) pages_table(&m->cache[cache[i]], pages, page + i * pages);
    return graph_run(m, &m->batch[__builtin_ctzll((uint64_t)size)], GRAPH_BATCH,
                     &(pass){.m = m, .n = size, .past = most}, &(given){id, NULL, page, at, held});
}

void forward_free(llm *m) {
    for (size_t i = 0; i < COUNT_OF(m->graph); i++)
        if (m->graph[i]) qn_plan_free(m->graph[i]);
    for (size_t i = 0; i < COUNT_OF(m->batch); i++)
        if (m->batch[i]) qn_plan_free(m->batch[i]);
}
