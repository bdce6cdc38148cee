/* model.h - what a model is to those who train one by its name: a row that says what it is
 * configured by, what a batch of it is, how it is made, and what its loss is.
 *
 * A model is one file, which fills a row and is known by a line of models.h; the command, the tests
 * and the documentation follow from both. A net is a model made: a module of parameters, whose
 * names are those of the model's well-known PyTorch implementation, so that a state dict loads by
 * name, and the model's own struct of layers. The module owns layers and parameters, the net owns
 * the module, its config and its parts; net_free gives back all of it.
 *
 * Constructors give NULL, and what is wrong stands in net_error, or in `why` where there is no net
 * yet: the net's own words (a shape, a field of the config), or else the context's error. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include <quern_nn.h>

#include <stddef.h>

typedef struct net net;

/* A number that a config has, and what it may be. */
typedef struct model_field {
    const char *name;
    bool whole; /* an int64_t, else a double */
    size_t at;  /* where it is in the model's struct of its config */
    double usual, least, most;
    const char *help;
} model_field;
#define MODEL_WHOLE(name, usual, least, most, help)                                                \
    { #name, true, offsetof(config, name), usual, least, most, help }
#define MODEL_REAL(name, usual, least, most, help)                                                 \
    { #name, false, offsetof(config, name), usual, least, most, help }

/* A tensor of a batch, f32 or i32. Its shape is a word for each axis, "N channels H W": a field of
 * the config stands for its value, "<context" for at most as much, any other word for a size that
 * is the same wherever the word stands; a number is itself. */
typedef struct model_input {
    const char *name;
    bool whole;
    const char *shape;
    const char *below; /* integers are from 0 to less than this word; NULL: not said */
    bool optional;
    bool learns; /* is for the loss alone: net_forward does without */
} model_input;

/* Where a sample of training data comes from, for who reads it. */
typedef enum model_data {
    MODEL_SAMPLES, /* rows of arrays: images and labels */
    MODEL_TOKENS,  /* windows of a long sequence: ids, and the ids that follow */
    MODEL_GRAPH    /* all of the arrays at once, in every step */
} model_data;

enum { MODEL_MOST_INPUTS = 4, MODEL_MOST_TURNS = 2 };

typedef struct model_row {
    const char *name, *help;
    size_t config, parts; /* bytes of the model's structs */
    const model_field *field;
    const model_input *input;
    int fields, inputs;
    model_data data;
    int turns; /* losses of a step, each of parameters of its own; 0: one */
    /* Layers and parameters, into net_parts; false, or an error in the context: it cannot be. */
    bool (*make)(net *n);
    /* What it makes of a batch: logits, images. */
    qn_tensor *(*forward)(net *n, qn_tensor *const *in);
    /* The scalar to train the parameters of a turn by. Inputs are checked; NULL after an error. */
    qn_tensor *(*loss)(net *n, int turn, qn_tensor *const *in);
} model_row;
#define MODEL_FIELDS(rows) .field = rows, .fields = sizeof rows / sizeof rows[0]
#define MODEL_INPUTS(rows) .input = rows, .inputs = sizeof rows / sizeof rows[0]

/* Row i of the table, NULL past the last; that of a name, or NULL. */
const model_row *model_at(int i);
const model_row *model_named(const char *name);

/* ---- configs -------------------------------------------------------------------------------- */

typedef struct model_why {
    char text[320];
} model_why;

/* Every field at its usual value; config has row->config bytes. */
void model_usual(const model_row *row, void *config);
/* Field `name` as the text says; false, and why: no such field, no such number, out of range. */
bool model_set(const model_row *row, void *config, const char *name, const char *text,
               model_why *why);
/* The value of field i. */
double model_get(const model_row *row, const void *config, int i);

/* ---- nets ----------------------------------------------------------------------------------- */

struct net {
    const model_row *row;
    qn_ctx *qn;
    qn_module *module;
    void *config, *parts;
    void *rooms; /* what net_room gave, a list */
    int first[MODEL_MOST_TURNS +
              1]; /* parameters from first[t] to first[t + 1] are those of turn t */
    int turn;     /* that parameters are made for, while they are */
    bool training;
    char name[128], why[320];
};

/* A net of a config, which is copied. The seed decides first values and what is drawn. */
net *net_new(qn_ctx *qn, uint64_t seed, const model_row *row, const void *config, model_why *why);
void net_free(net *n);
/* Training, as it is when it is made, or not: for dropout, norms by batches, and what is drawn. */
void net_train(net *n, bool training);
/* The loss of a turn, or what is made, of row->inputs tensors, of which the optional may be NULL.
 * NULL: net_error says why, and what does not fit by its name, shape and what it should be. */
qn_tensor *net_loss(net *n, int turn, qn_tensor *const *in);
qn_tensor *net_forward(net *n, qn_tensor *const *in);
const char *net_error(const net *n);
/* The size that a word of a shape is in this net: a field's value, or -1 of a size that is free. */
int64_t net_size(const net *n, const char *word);
/* The same, a free size being that of the batch; -1 where no shape has the word. */
int64_t net_size_in(const net *n, const char *word, qn_tensor *const *in);

/* ---- for models ------------------------------------------------------------------------------ */

/* Says what is wrong, unless something is known already; false. */
bool net_fail(net *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Zeros that live as long as the net; NULL, said, where there is no memory. */
void *net_room(net *n, int64_t count, size_t size);
/* A name by a format, until the next one. */
const char *net_name(net *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Parameters from here on are those of the next turn. */
void net_next_turn(net *n);
/* A key to draw by: another each time in training, else always the same. */
qn_tensor *net_key(net *n);
/* [N, T, heads * d] as [N, heads, T, d], and back. */
qn_tensor *net_split_heads(qn_tensor *x, int64_t heads);
qn_tensor *net_join_heads(qn_tensor *x);
/* Attention of q, k and v [N, heads, T, d], its weights dropped in training by `drop`, unless that
 * is NULL. Of the options it reads causal and a mask of what is seen. */
qn_tensor *net_attention(net *n, qn_tensor *const qkv[3], const qn_attention_options *how,
                         const qn_layer *drop);
/* A layer that drops with probability p; NULL where p is 0, which net_drop takes for none. */
qn_layer *net_dropout(net *n, double p);
qn_tensor *net_drop(const qn_layer *drop, qn_tensor *x);

#define MODEL(name) extern const model_row model_##name;
#include "models/models.h"
#undef MODEL

#endif
