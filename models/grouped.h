/* grouped.h - attention as decoders since Llama have it: rotary positions, heads of queries that
 * share keys and values in groups, no biases. */
#ifndef MODELS_GROUPED_H
#define MODELS_GROUPED_H

#include "models/model.h"

typedef struct grouped {
    qn_layer *q, *k, *v, *o;
    int64_t heads, groups;
    double theta;
} grouped;

/* Parts "<name>.q_proj" and so on of a width; `like` says heads, groups and theta. False, said:
 * they do not divide. */
bool grouped_make(net *n, grouped *a, const char *name, int64_t width, grouped like);
/* x [N, T, width] -> [N, T, width]; causal. */
qn_tensor *grouped_run(const grouped *a, qn_tensor *x);
/* A linear map without bias, whose weight begins normal with deviation 0.02. */
qn_layer *grouped_linear(net *n, const char *name, int64_t in, int64_t out);

#endif
