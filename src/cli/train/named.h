/* named.h - `quern train MODEL`: a model of models/ by its name, configured by a file, trained on
 * data of its kind.
 *
 * Parts: config.c reads and writes configs, data.c gives batches, checkpoint.c saves all that a
 * training is and goes on from it, saved.c makes a model of its file, named.c is the command. What
 * a step does follows from the parameters, the optimizers' state, the key that layers draw by, the
 * place in the data and the number of the step alone; all five are in a checkpoint, so a training
 * that was killed comes to the bits of one that was not. */
#ifndef QN_CLI_TRAIN_NAMED_H
#define QN_CLI_TRAIN_NAMED_H

#include "base/base.h"
#include "cli/cli.h"
#include "models/model.h"
#include "quern_data.h"

typedef struct named_options {
    const char *config, *set, *init, *data, *labels, *tokenizer, *tokens, *method, *out, *device,
        *curve;
    int64_t steps, batch, window, seed, warmup;
    double seconds, rate, weight_decay, clip, held_out, scale, checkpoint;
    bool json, resume;
} named_options;

/* ---- config.c -------------------------------------------------------------------------------- */

/* The config that the options say: usual values, then those of --config, then each --set among the
 * arguments. row->config bytes from malloc; NULL, reported. */
void *fields_read(qn_ctx *qn, const model_row *row, const named_options *o, int argc, char **argv);
/* A net that cannot be made, for fields that do not go together: reports `why`, and where the first
 * of the fields it names stands in --config. */
void fields_blame(qn_ctx *qn, const named_options *o, const char *why);
/* Those of a JSON text, into a config that has others; errors name the path. */
int fields_of_text(qn_ctx *qn, const model_row *row, const char *path, const char *text,
                   size_t size, void *config);
/* {"in":784,"hidden":256} behind what is in the text. Raises. */
void fields_write(str *out, const model_row *row, const void *config);

/* ---- data.c ---------------------------------------------------------------------------------- */

/* Where batches come from. */
typedef struct train_data {
    qn_ctx *qn;
    net *n;
    const named_options *o;
    qn_dataset *part[2];                 /* to train with, and held out; the latter may be NULL */
    qn_loader *loader[2];                /* of these; NULL of a graph */
    int fields, at[MODEL_MOST_INPUTS];   /* of a sample, and which of them is input i; -1: none */
    qn_tensor *graph[MODEL_MOST_INPUTS]; /* kept */
    bool judged;                         /* the graph was given for judging */
    char why[400];
} train_data;
bool data_open(train_data *d, net *n, const named_options *o); /* reports on failure */
void data_close(train_data *d);
/* The next batch of a part into in[]; in the caller's scope. 1; 0 at the end of an epoch of what is
 * held out, whose next call begins another; -1, d->why or the context's error. */
int data_next(train_data *d, int part, qn_tensor *in[MODEL_MOST_INPUTS]);
const char *data_error(const train_data *d);
int64_t data_samples(const train_data *d, int part);
bool data_judges(const train_data *d); /* is anything held out? */

/* ---- checkpoint.c ---------------------------------------------------------------------------- */

/* All that a training is. */
typedef struct training {
    qn_ctx *qn;
    net *n;
    qn_optimizer *optimizer[MODEL_MOST_TURNS];
    qn_loader *loader; /* NULL: every step has the same data */
    const named_options *o;
    int64_t steps;
    char sizes[160]; /* of its batches, as the file has them (saved.c) */
    double begun;    /* when the steps began, or would have without a break */
    float *loss;     /* of every step; room for o->steps of them */
} training;
int turns_of(const net *n);
/* The parameters and buffers, and with `whole` all else. A code with an error. */
int checkpoint_save(const training *t, const char *path, bool whole);
/* Into a training begun with the same options. All, or a code with an error. */
int checkpoint_load(training *t, const char *path);

/* ---- saved.c --------------------------------------------------------------------------------- */

/* {"H":32,"W":32}: the sizes of a batch that are no fields of the config. */
void sizes_write(const net *n, qn_tensor *const *in, char *out, size_t size);

#endif
