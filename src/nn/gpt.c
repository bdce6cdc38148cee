/* gpt.c - a GPT: the decoder-only transformer of Radford et al. 2019, norms first in each branch.
 *
 * Weights start normal with deviation 0.02; the two projections that end a residual branch start
 * smaller by sqrt(2 * layers), so that the sum of all branches keeps its variance with depth. The
 * head is a matrix of its own. */
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

static const double init_scale = 0.02;
enum { PARAMETERS = 5, BLOCK_PARAMETERS = 12 }; /* in the model's ends, in each block */

struct qn_gpt {
    qn_ctx *ctx;
    qn_gpt_config config;
    size_t size; /* of this block of memory */
    qn_module *module;
    qn_embedding_layer token, position;
    qn_norm_layer norm;
    qn_linear_layer head;
    qn_block_layer block[];
};

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

/* False when a parameter could not be made. */
static bool add_layers(qn_gpt *gpt) {
    qn_module *m = gpt->module;
    const qn_gpt_config *c = &gpt->config;
    double out_scale = init_scale / sqrt(2.0 * (double)c->layers);
    gpt->token = qn_embedding_new(m, "token", c->vocabulary, c->width, init_scale);
    gpt->position = qn_embedding_new(m, "position", c->context, c->width, init_scale);
    for (int64_t i = 0; i < c->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "block.%lld", (long long)i);
        gpt->block[i] = qn_block_new(m, name, c->width, c->heads, true, init_scale, out_scale);
    }
    gpt->norm = qn_layer_norm_new(m, "norm", c->width);
    gpt->head = qn_linear_new(m, "head", c->width, c->vocabulary, false, init_scale);
    return qn_module_count(m) == PARAMETERS + c->layers * BLOCK_PARAMETERS;
}

qn_gpt *qn_gpt_new(qn_ctx *qn, const qn_gpt_config *config, uint64_t seed) {
    if (!qn) return NULL;
    if (!config) return fail_null(qn, QN_ENULL, "gpt: no configuration");
    if (!config_fine(qn, config)) return NULL;
    size_t size = sizeof(qn_gpt) + (size_t)config->layers * sizeof(qn_block_layer);
    qn_gpt *gpt = heap_try(&qn->heap, size);
    if (!gpt) return fail_null(qn, QN_ENOMEM, "gpt: out of memory");
    memset(gpt, 0, size);
    gpt->ctx = qn;
    gpt->config = *config;
    gpt->size = size;
    gpt->module = qn_module_new(qn, seed);
    if (gpt->module) {
        add_layers(gpt);
        if (gpt->head.weight &&
            qn_realize(qn_module_parameters(gpt->module), qn_module_count(gpt->module)) == QN_OK)
            return gpt;
    }
    qn_gpt_free(gpt);
    return NULL;
}

void qn_gpt_free(qn_gpt *gpt) {
    if (!gpt) return;
    qn_module_free(gpt->module);
    heap_free(&gpt->ctx->heap, gpt, gpt->size);
}

qn_module *qn_gpt_module(const qn_gpt *gpt) {
    return gpt ? gpt->module : NULL;
}

qn_gpt_config qn_gpt_shape(const qn_gpt *gpt) {
    return gpt ? gpt->config : (qn_gpt_config){0};
}

qn_tensor *qn_gpt_forward(const qn_gpt *gpt, qn_tensor *ids) {
    if (!gpt || !ids) return NULL;
    if (qn_rank(ids) != 2 || qn_dim(ids, 1) > gpt->config.context)
        return fail_null(gpt->ctx, QN_ESHAPE, "gpt: takes [batch, time] with time up to %lld",
                         (long long)gpt->config.context);
    qn_scope scope = qn_scope_begin(gpt->ctx);
    qn_tensor *position = qn_slice(gpt->position.weight, 0, 0, qn_dim(ids, 1), 1);
    qn_tensor *x = qn_add(qn_embedding_forward(&gpt->token, ids), position);
    for (int64_t i = 0; i < gpt->config.layers; i++) x = qn_block_forward(&gpt->block[i], x);
    x = qn_linear_forward(&gpt->head, qn_norm_forward(&gpt->norm, x));
    return qn_scope_return(gpt->ctx, scope, x);
}

qn_tensor *qn_gpt_loss(const qn_gpt *gpt, qn_tensor *ids, qn_tensor *targets) {
    if (!gpt) return NULL;
    qn_scope scope = qn_scope_begin(gpt->ctx);
    qn_tensor *loss = qn_cross_entropy(qn_gpt_forward(gpt, ids), targets);
    return qn_scope_return(gpt->ctx, scope, loss);
}
