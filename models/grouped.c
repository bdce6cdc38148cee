/* grouped.c - grouped-query attention (Ainslie et al. 2023) with rotary positions (Su et al. 2021),
 * by the names of transformers' Llama: of its pairs the second half of a head has the partners. */
#include "models/grouped.h"

#include <stdio.h>

qn_layer *grouped_linear(net *n, const char *name, int64_t in, int64_t out) {
    return qn_layer_new(n->module, "Linear", name,
                        &QN_LAYER_OPTIONS(.in = in, .out = out, .no_bias = true, .scale = 0.02));
}

static qn_layer *part(net *n, const char *name, const char *end, int64_t in, int64_t out) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", name, end);
    return grouped_linear(n, full, in, out);
}

bool grouped_make(net *n, grouped *a, const char *name, int64_t width, grouped like) {
    *a = like;
    if (width % a->heads || width / a->heads % 2)
        return net_fail(n,
                        "a width of %lld does not divide into %lld heads of pairs; set heads, too",
                        (long long)width, (long long)a->heads);
    if (a->heads % a->groups)
        return net_fail(n, "%lld heads do not divide into %lld groups", (long long)a->heads,
                        (long long)a->groups);
    int64_t shared = width / a->heads * a->groups;
    a->q = part(n, name, "q_proj", width, width);
    a->k = part(n, name, "k_proj", width, shared);
    a->v = part(n, name, "v_proj", width, shared);
    a->o = part(n, name, "o_proj", width, width);
    return true;
}

qn_tensor *grouped_run(const grouped *a, qn_tensor *x) {
    if (!x) return NULL;
    qn_tensor *places = qn_arange_int(qn_context(x), QN_I32, 0, qn_dim(x, 1), 1);
    qn_tensor *q = net_split_heads(qn_layer_forward(a->q, x), a->heads);
    qn_tensor *k = net_split_heads(qn_layer_forward(a->k, x), a->groups);
    qn_tensor *v = net_split_heads(qn_layer_forward(a->v, x), a->groups);
    qn_tensor *y =
        qn_attention(qn_rope(q, places, a->theta, false), qn_rope(k, places, a->theta, false), v,
                     &QN_ATTENTION_OPTIONS(.causal = true, .grouped = true));
    return qn_layer_forward(a->o, net_join_heads(y));
}
