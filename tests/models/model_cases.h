/* model_cases.h - for each model of models.h a small config, a batch for it, and how much it is to
 * learn of that batch. A batch is made of the row: sizes are those of the config, or of the case;
 * numbers are drawn by a seed, by which no relu is so near its kink that devices differ in its
 * gradient. */
#ifndef QN_MODEL_CASES_H
#define QN_MODEL_CASES_H

#include "models/model.h"
#include "test.h"

typedef struct model_case {
    const char *name;
    const char *set;   /* fields of the config, "in=12 hidden=8" */
    const char *sizes; /* of the words that are no fields, "N=4" */
    int steps;         /* after so many the loss is at most `factor` of the first */
    double rate, factor;
} model_case;

static const model_case model_cases[] = {
    {"mlp", "in=12 hidden=16 layers=2 classes=3", "N=6", 40, 1e-2, 0.2},
    {"resnet18", "classes=4 width=4 small=1", "N=4 H=16 W=16", 12, 3e-3, 0.5},
    {"resnet50", "classes=4 width=4 channels=2 small=1", "N=6 H=16 W=16", 10, 3e-3, 0.6},
    {"lstm", "vocabulary=11 context=8 width=12 hidden=16 layers=2 dropout=0", "N=3", 60, 1e-2, 0.5},
    {"gpt2", "vocabulary=11 context=8 width=16 heads=2 layers=2 dropout=0", "N=3", 40, 1e-2, 0.2},
    {"vit", "channels=2 image=8 patch=4 width=12 heads=3 layers=2 hidden=20 classes=3", "N=4", 40,
     1e-2, 0.2},
    {"bert", "vocabulary=11 context=8 width=12 heads=3 layers=2 hidden=20 mask=4 dropout=0", "N=3",
     60, 1e-2, 0.3},
    {"llama", "vocabulary=11 context=8 width=16 heads=4 groups=2 layers=2 hidden=20", "N=3", 50,
     1e-2, 0.2},
    {"unet", "channels=1 classes=3 width=4", "N=4 H=18 W=32", 15, 1e-2, 0.85},
    {"vae", "in=12 hidden=16 latent=3", "N=5", 60, 1e-2, 0.95},
    {"gan", "channels=1 image=16 width=4 latent=5", "N=4", 60, 5e-3, 0.6},
    {"gcn", "features=6 hidden=16 classes=3 dropout=0", "nodes=10 edges=16", 80, 2e-2, 0.6},
    {"moe",
     "vocabulary=11 context=8 width=16 heads=4 groups=2 layers=2 hidden=12 experts=4 chosen=2",
     "N=3", 50, 1e-2, 0.2},
    {"dit", "channels=2 image=4 patch=2 layers=2 heads=3 width=24 classes=5", "N=4", 60, 1e-2, 0.4},
};
enum { MODEL_CASES = sizeof model_cases / sizeof model_cases[0] };

/* "word=value" of a list apart by spaces: what `word` is there, or -1. */
static inline int64_t word_of(const char *list, const char *word, size_t length) {
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (!strncmp(at, word, length) && at[length] == '=')
            return strtoll(at + length + 1, NULL, 10);
    return -1;
}

/* Sets every field of the list; false, said. */
static inline bool set_fields(const model_row *row, void *config, const char *list) {
    model_why why;
    char name[32], value[32];
    int used;
    model_usual(row, config);
    for (const char *at = list; sscanf(at, " %31[^=]=%31s%n", name, value, &used) == 2; at += used)
        if (!model_set(row, config, name, value, &why)) return FAIL("%s", why.text), false;
    return true;
}

/* A net of a case; NULL, and why. */
static inline net *quiet_net(qn_ctx *qn, const model_case *c, uint64_t seed, model_why *why) {
    const model_row *row = model_named(c->name);
    void *config = row ? malloc(row->config) : NULL;
    net *n = NULL;
    if (config && set_fields(row, config, c->set)) n = net_new(qn, seed, row, config, why);
    free(config);
    return n;
}

static inline net *case_net(qn_ctx *qn, const model_case *c, uint64_t seed) {
    model_why why = {""};
    net *n = quiet_net(qn, c, seed, &why);
    if (!n) FAIL("%s", why.text);
    return n;
}

static inline int64_t case_size(const net *n, const model_case *c, const char *word,
                                size_t length) {
    char text[32];
    bool most = *word == '<';
    snprintf(text, sizeof text, "%.*s", (int)(length - most), word + most);
    int64_t size = net_size(n, text);
    return size >= 0 ? size : word_of(c->sizes, text, strlen(text));
}

/* One tensor of a batch: floats of [0, 1), or integers below what the row says. */
static inline qn_tensor *case_input(net *n, const model_case *c, const model_input *x,
                                    uint64_t *seed) {
    int64_t shape[QN_MAX_RANK], numel = 1, below = 2;
    int rank = 0;
    for (const char *at = x->shape; *at; at += strcspn(at, " "), at += *at == ' ')
        numel *= shape[rank++] = case_size(n, c, at, strcspn(at, " "));
    if (x->below) below = case_size(n, c, x->below, strlen(x->below));
    bool labels = !x->below && !strcmp(x->name, "labels"); /* -100 and 1: not all count */
    float *reals = malloc((size_t)numel * sizeof *reals);
    int32_t *wholes = (int32_t *)reals;
    for (int64_t i = 0; reals && i < numel; i++) {
        if (!x->whole) reals[i] = (float)test_uniform(seed);
        if (x->whole) wholes[i] = (int32_t)test_below(seed, below);
        if (labels && !wholes[i]) wholes[i] = -100;
    }
    qn_tensor *t = reals ? qn_from(n->qn, x->whole ? QN_I32 : QN_F32, rank, shape, reals) : NULL;
    free(reals);
    return t;
}

static inline void case_batch(net *n, const model_case *c, uint64_t seed,
                              qn_tensor *in[MODEL_MOST_INPUTS]) {
    for (int i = 0; i < n->row->inputs; i++) in[i] = case_input(n, c, &n->row->input[i], &seed);
}

#endif
