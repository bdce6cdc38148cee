/* gpt.c - a GPT: the decoder-only transformer of Radford et al. 2019, norms first in each branch.
 *
 * Weights start normal with deviation 0.02; the two projections that end a residual branch start
 * smaller by sqrt(2 * layers), so that the sum of all branches keeps its variance with depth. The
 * head is a matrix of its own. */
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

static const double init_scale = 0.02;

typedef struct gpt {
    qn_ctx *ctx;
    qn_gpt_config config;
    size_t size; /* of this block of memory */
    qn_module *module;
    qn_tensor *places; /* the weight of position embeddings */
    qn_layer *token, *norm, *head;
    qn_layer *block[];
} gpt;

static bool config_fine(qn_ctx *qn, const qn_gpt_config *c) {
    static const int64_t most = 1 << 24;
    const int64_t sizes[] = {c->vocabulary, c->context, c->layers, c->heads, c->width};
    static const char *const names[] = {"vocabulary", "context", "layers", "heads", "width"};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        if (sizes[i] < 1 || sizes[i] > most) {
            fail(qn, QN_ERANGE, "gpt: %s is %lld", names[i], (long long)sizes[i]);
            return false;
        }
    if (c->width % c->heads) {
        fail(qn, QN_EARG, "gpt: a width of %lld does not divide into %lld heads",
             (long long)c->width, (long long)c->heads);
        return false;
    }
    return true;
}

/* False when a layer could not be made. */
static bool add_layers(gpt *t) {
    qn_module *m = t->module;
    const qn_gpt_config *c = &t->config;
    double out_scale = init_scale / sqrt(2.0 * (double)c->layers);
    t->token = qn_embedding_new(m, "token", c->vocabulary, c->width,
                                &QN_LAYER_OPTIONS(.scale = init_scale));
    bool made = qn_embedding_new(m, "position", c->context, c->width,
                                 &QN_LAYER_OPTIONS(.scale = init_scale)) != NULL;
    t->places = qn_module_find(m, "position.weight");
    for (int64_t i = 0; i < c->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "block.%lld", (long long)i);
        t->block[i] = qn_block_new(
            m, name, c->width, c->heads,
            &QN_LAYER_OPTIONS(.scale = init_scale, .out_scale = out_scale, .causal = true));
        made &= t->block[i] != NULL;
    }
    t->norm = qn_layer_norm_new(m, "norm", c->width, NULL);
    t->head = qn_linear_new(m, "head", c->width, c->vocabulary,
                            &QN_LAYER_OPTIONS(.scale = init_scale, .no_bias = true));
    return made && t->token && t->norm && t->head;
}

static void gpt_close(gpt *t) {
    if (handle_is(t->module, HANDLE_MODULE)) qn_module_free(t->module);
    heap_free(&t->ctx->heap, t, t->size);
}

static gpt *gpt_of(const qn_gpt *known, const char *call) {
    return object_of(known, HANDLE_GPT, call);
}

qn_gpt *qn_gpt_new(qn_ctx *qn, uint64_t seed, const qn_gpt_config *given) {
    qn_gpt_config taken = QN_GPT_CONFIG(), *config = &taken;
    if (!qn) return NULL;
    if (!given) return fail_null(qn, QN_ENULL, "gpt_new: config is NULL");
    if (!struct_take(qn, "gpt_new", "qn_gpt_config", config, sizeof taken, given)) return NULL;
    if (!config_fine(qn, config)) return NULL;
    size_t size = sizeof(gpt) + (size_t)config->layers * sizeof(qn_layer *);
    gpt *t = heap_try(&qn->heap, size);
    if (!t) return fail_null(qn, QN_ENOMEM, "gpt: out of memory");
    memset(t, 0, size);
    t->ctx = qn;
    t->config = *config;
    t->size = size;
    t->module = qn_module_new(qn, seed);
    bool made = t->module && add_layers(t) &&
                !qn_realize(qn_module_count(t->module), qn_module_parameters(t->module));
    qn_gpt *known = made ? object_open(qn, HANDLE_GPT, t) : NULL;
    if (!known) gpt_close(t);
    return known;
}

void qn_gpt_free(qn_gpt *known) {
    gpt *t = object_close(known, HANDLE_GPT, "gpt_free");
    if (t) gpt_close(t);
}

qn_module *qn_gpt_module(const qn_gpt *known) {
    const gpt *t = gpt_of(known, "gpt_module");
    return t ? t->module : NULL;
}

void qn_gpt_get_config(const qn_gpt *known, qn_gpt_config *out, size_t size) {
    const gpt *t = gpt_of(known, "gpt_get_config");
    if (!t) return;
    struct_give(out, size, &t->config, sizeof t->config);
    if (out && size >= sizeof size) out->size = size;
}

static qn_tensor *forward(const gpt *t, const char *call, qn_tensor *ids) {
    if (!handle_check(t->ctx, ids, HANDLE_TENSOR, call, "ids")) return NULL;
    if (qn_rank(ids) != 2 || qn_dim(ids, 1) > t->config.context)
        return fail_null(t->ctx, QN_ESHAPE, "gpt: takes [batch, time] with time up to %lld",
                         (long long)t->config.context);
    qn_scope scope = qn_scope_begin(t->ctx);
    qn_tensor *position = qn_slice(t->places, 0, 0, qn_dim(ids, 1), 1);
    qn_tensor *x = qn_add(qn_layer_forward(t->token, ids), position);
    for (int64_t i = 0; i < t->config.layers; i++) x = qn_layer_forward(t->block[i], x);
    x = qn_layer_forward(t->head, qn_layer_forward(t->norm, x));
    return qn_scope_return(t->ctx, scope, x);
}

qn_tensor *qn_gpt_forward(const qn_gpt *known, qn_tensor *ids) {
    const gpt *t = gpt_of(known, "gpt_forward");
    return t ? forward(t, "gpt_forward", ids) : NULL;
}

qn_tensor *qn_gpt_loss(const qn_gpt *known, qn_tensor *ids, qn_tensor *targets) {
    const gpt *t = gpt_of(known, "gpt_loss");
    if (!t || !handle_check(t->ctx, targets, HANDLE_TENSOR, "gpt_loss", "targets")) return NULL;
    qn_scope scope = qn_scope_begin(t->ctx);
    qn_tensor *loss = qn_cross_entropy(forward(t, "gpt_loss", ids), targets);
    return qn_scope_return(t->ctx, scope, loss);
}
