/* quern_nn.h - neural networks over the operations of quern.h: modules of named parameters, layers,
 * models, optimizers, and text as data. */
#ifndef QUERN_NN_H
#define QUERN_NN_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- neural networks -------------------------------------------------------------------- */

/* The named parameters of a model. A module owns them; layers only point at them, so the module
 * must outlive its layers. Where values are drawn at random, `seed` and the name decide them. */
typedef struct qn_module qn_module;
typedef enum qn_init {
    QN_INIT_ZEROS = 0,
    QN_INIT_ONES = 1,
    QN_INIT_NORMAL = 2, /* mean 0, standard deviation `scale` */
    QN_INIT_UNIFORM = 3 /* in [-scale, scale) */
} qn_init;
typedef struct qn_init_options {
    size_t size; /* QN_INIT_OPTIONS() */
    qn_init kind;
    double scale;
} qn_init_options;
#define QN_INIT_OPTIONS(...) QN_STRUCT(qn_init_options, __VA_ARGS__)

QN_API qn_module *qn_module_new(qn_ctx *qn, uint64_t seed);
QN_API void qn_module_free(qn_module *m);
/* A new parameter under a name not yet in use, at most 127 bytes, zeros where `init` is NULL. Owned
 * by the module. */
QN_API qn_tensor *qn_module_parameter(qn_module *m, const char *name, qn_dtype dtype, int rank,
                                      const int64_t *shape, const qn_init_options *init);
/* Take a reference to a tensor as a parameter; returns it. */
QN_API qn_tensor *qn_module_add(qn_module *m, const char *name, qn_tensor *value);
QN_API int qn_module_count(const qn_module *m);
QN_API const char *qn_module_name(const qn_module *m, int i); /* NULL past the last */
QN_API qn_tensor *const *qn_module_parameters(const qn_module *m);
/* A parameter or buffer; or NULL, no error. */
QN_API qn_tensor *qn_module_find(const qn_module *m, const char *name);
/* Buffers are what a model keeps that is not trained, running means: named, saved and loaded as
 * parameters, but not among them. */
QN_API qn_tensor *qn_module_buffer(qn_module *m, const char *name, qn_dtype dtype, int rank,
                                   const int64_t *shape, const qn_init_options *init);
QN_API int qn_module_buffer_count(const qn_module *m);
QN_API const char *qn_module_buffer_name(const qn_module *m, int i); /* NULL past the last */
/* A module is in training when it is made: its layers drop values and go on with their running
 * statistics. The change is for what is recorded from then on. */
QN_API void qn_module_train(qn_module *m, bool training);
/* The key that its layers draw by in training, u32 [2], which each draw assigns to: with it, as
 * with a buffer, a run goes on bit for bit. Not among what is saved. */
QN_API qn_tensor *qn_module_key(qn_module *m);
/* All parameters and buffers, as qn_save. */
QN_API qn_code qn_module_save(const qn_module *m, const char *path, const qn_save_options *options);
/* Give every parameter and buffer the value stored under its name; dtypes and shapes must be the
 * same. All of them or, on error, none. The file may hold more. */
QN_API qn_code qn_module_load(qn_module *m, const qn_file *file);

/* Layers: objects of a module, which owns them and their parameters "<name>.weight" and so on;
 * freed with it. NULL with an error, and a NULL layer gives NULL. What is 0 in the options is as
 * PyTorch has it; each says which it reads, and options may be NULL. */
typedef struct qn_layer qn_layer;
typedef struct qn_layer_options {
    size_t size;      /* QN_LAYER_OPTIONS() */
    double scale;     /* weights start normal with this deviation; 0: as each layer says */
    double out_scale; /* of the projections that end a residual branch; 0: as scale */
    double epsilon;   /* of norms; 0: 1e-5, and 1e-6 of rms norm */
    const qn_conv_options *conv; /* read when the layer is made */
    bool no_bias;
    bool causal;
    /* From here on qn_layer_new reads them: docs/layers.md says which argument of a kind is which
     * field. What is 0 is PyTorch's default; a double that is to be 0 is -0.0. */
    int64_t in, out;         /* features or channels; of an embedding its rows and their width */
    int64_t hidden, project; /* features within; 0 or those of an LSTM's result */
    int64_t kernel[3], stride[3], dilation[3]; /* by spatial axis; later ones of 0: as the first */
    int64_t padding[3], extra[3];              /* padding[0] -1: "same" */
    int64_t shape[4];                          /* axes that are normalised, up to a 0 */
    int64_t groups, heads, layers, key_width, value_width;
    int64_t first, index; /* of an axis or a row i: i + 1, or below 0, from the end */
    double p, momentum;   /* of dropout; of running statistics, NaN: their mean */
    double a, b;          /* of activations and the like */
    int affine, track;    /* 1: yes, -1: no */
    int padding_mode;     /* 0 zeros, 1 reflect, 2 replicate, 3 circular */
    int variant;          /* of several words, the first being 0 */
    bool ceil, exclude_padding, indices, batch_first, bidirectional, norm_first;
    bool add_bias, add_zero, apart; /* apart: weights of attention by heads, not their mean */
    bool improved, no_loops, no_normalize, no_concat; /* of graph convolution and attention */
    bool training;                                    /* read by qn_layer_apply, as is: */
    qn_tensor *key;                                   /* for what is drawn in training */
} qn_layer_options;
#define QN_LAYER_OPTIONS(...) QN_STRUCT(qn_layer_options, __VA_ARGS__)
/* What the layer does to x, f32 unless the parameters were assigned others. In training running
 * statistics and the module's key are assigned to, which is computed with the next read. */
QN_API qn_tensor *qn_layer_forward(const qn_layer *l, qn_tensor *x);

/* A layer of any kind, by PyTorch's name of it: "Conv2d", "LSTM", "TransformerEncoderLayer". Its
 * parameters have PyTorch's names behind `name` and a dot, their first values its distributions, so
 * that qn_module_load takes its checkpoints. docs/layers.md has the kinds, their arguments, inputs
 * and results. QN_EARG: no such kind, or an argument that it needs is missing. */
QN_API qn_layer *qn_layer_new(qn_module *m, const char *kind, const char *name,
                              const qn_layer_options *options);
/* qn_layer_forward of several inputs, of which those that may be left out may be NULL, and into
 * out[n_out] the first n_out of its results, NULL where it has none. */
QN_API qn_code qn_layer_call(const qn_layer *l, int n_in, qn_tensor *const *inputs, int n_out,
                             qn_tensor **out);
/* The same as a function that assigns nothing, for those who keep the tensors themselves: `tensors`
 * are as qn_layer_new makes them, parameters and buffers in one order. out[n_out]: the kind's
 * results, behind them as many as there are tensors, the new values of those that change, NULL of
 * others. */
QN_API qn_code qn_layer_apply(const char *kind, const qn_layer_options *options, int n,
                              qn_tensor *const *tensors, int n_in, qn_tensor *const *inputs,
                              int n_out, qn_tensor **out);

/* x [.., in] -> x @ weight^T + bias [.., out]; weight [out, in] starts uniform within 1/sqrt(in),
 * or with deviation scale; bias [out] at zero. Options: scale, no_bias. */
QN_API qn_layer *qn_linear_new(qn_module *m, const char *name, int64_t in, int64_t out,
                               const qn_layer_options *options);
/* An image [N, in, spatial..] (or as options.conv says) -> conv with weight [out, in / groups,
 * kernel..], of `space` spatial axes, which starts uniform within 1/sqrt(in / groups * places of
 * the kernel), plus bias [out], 0. Options: conv, no_bias. */
QN_API qn_layer *qn_conv_new(qn_module *m, const char *name, int64_t in, int64_t out, int space,
                             const int64_t *kernel, const qn_layer_options *options);
/* Integers [..] -> rows of weight [count, width], [.., width]; deviation scale, or 1. */
QN_API qn_layer *qn_embedding_new(qn_module *m, const char *name, int64_t count, int64_t width,
                                  const qn_layer_options *options);
/* Normalise the last axis of [.., width]: layer norm with weight and bias, or root mean square norm
 * with a weight. Options: epsilon, no_bias. */
QN_API qn_layer *qn_layer_norm_new(qn_module *m, const char *name, int64_t width,
                                   const qn_layer_options *options);
QN_API qn_layer *qn_rms_norm_new(qn_module *m, const char *name, int64_t width,
                                 const qn_layer_options *options);
/* Multi-head self-attention over [batch, time, width]; width must be a multiple of heads. Parts
 * "<name>.qkv" and "<name>.out" are linear. Options: scale, out_scale, causal, no_bias. */
QN_API qn_layer *qn_attention_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                                  const qn_layer_options *options);
/* A transformer block over [batch, time, width]: x + attention(norm(x)), then x + mlp(norm(x)) with
 * a hidden layer of four times the width and gelu. Options as for attention, and epsilon. */
QN_API qn_layer *qn_block_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                              const qn_layer_options *options);

/* A GPT: token and learned position embeddings, causal blocks, a norm and a head. Weights start
 * normal with deviation 0.02, those that end a residual branch divided by sqrt(2 * layers). */
typedef struct qn_gpt_config {
    size_t size; /* QN_GPT_CONFIG() */
    int64_t vocabulary, context, layers, heads, width;
} qn_gpt_config;
#define QN_GPT_CONFIG(...) QN_STRUCT(qn_gpt_config, __VA_ARGS__)
typedef struct qn_gpt qn_gpt;
QN_API qn_gpt *qn_gpt_new(qn_ctx *qn, uint64_t seed, const qn_gpt_config *config);
QN_API void qn_gpt_free(qn_gpt *gpt);
QN_API qn_module *qn_gpt_module(const qn_gpt *gpt);
QN_API void qn_gpt_get_config(const qn_gpt *gpt, qn_gpt_config *out, size_t size);
/* Integers [batch, time] with time <= context -> logits [batch, time, vocabulary]. */
QN_API qn_tensor *qn_gpt_forward(const qn_gpt *gpt, qn_tensor *ids);
/* Mean cross-entropy in nats of the next tokens `targets` [batch, time]. */
QN_API qn_tensor *qn_gpt_loss(const qn_gpt *gpt, qn_tensor *ids, qn_tensor *targets);

/* ---- training --------------------------------------------------------------------------- */

typedef enum qn_method {
    QN_SGD = 0,       /* momentum, dampening, nesterov, weight_decay added to the gradient */
    QN_ADAM = 1,      /* beta1, beta2, epsilon, amsgrad, weight_decay added to the gradient */
    QN_ADAMW = 2,     /* as Adam, weight_decay apart from the gradient */
    QN_RMSPROP = 3,   /* beta2, epsilon, momentum, centered, weight_decay added to the gradient */
    QN_ADAGRAD = 4,   /* epsilon, rate_decay, start, weight_decay added to the gradient */
    QN_LION = 5,      /* beta1, beta2, weight_decay apart from the gradient */
    QN_ADADELTA = 6,  /* beta2 (PyTorch's rho), epsilon, weight_decay added to the gradient */
    QN_ADAMAX = 7,    /* beta1, beta2, epsilon, weight_decay added to the gradient */
    QN_ADAFACTOR = 8, /* beta2_decay, epsilon (0: the dtype's), epsilon2, threshold (PyTorch's d),
                         weight_decay apart from the gradient; state of rows and of columns */
    QN_LAMB = 9,      /* as Adam, the direction with weight_decay as long as the parameter */
    QN_MUON = 10,     /* of matrices alone: momentum, nesterov, iterations, coefficients, adjust,
                         epsilon, weight_decay apart from the gradient */
    QN_SOPHIA = 11    /* beta1, beta2, threshold (the paper's gamma), epsilon, weight_decay apart
                         from the gradient; the curvature is estimated by its square */
} qn_method;
/* How Muon's rate depends on a matrix [rows, columns]. */
typedef enum qn_adjust {
    QN_ADJUST_ROWS = 0,    /* times sqrt(max(1, rows / columns)) */
    QN_ADJUST_RMS = 1,     /* times 0.2 sqrt(max(rows, columns)): AdamW's size of a step */
    QN_ADJUST_SPECTRAL = 2 /* times sqrt(rows / columns) */
} qn_adjust;
typedef struct qn_optimizer_options {
    size_t size; /* QN_OPTIMIZER_OPTIONS() */
    qn_method method;
    double rate; /* the learning rate */
    double momentum, beta1, beta2, epsilon, weight_decay;
    double clip;    /* gradients are scaled down to this global norm; 0: never */
    int decay_rank; /* parameters of fewer axes are not decayed */
    bool nesterov;
    bool amsgrad, centered;
    bool maximize;     /* go up the gradient */
    bool accumulates;  /* qn_optimizer_accumulate is to be called */
    double clip_value; /* elements of gradients are held within this, before clip; 0: never */
    double dampening;  /* momentum takes up 1 - dampening of a gradient, all of the first */
    double rate_decay; /* the rate is divided by 1 + rate_decay * steps before */
    double start;      /* what the first of the state begins with */
    double beta2_decay, epsilon2, threshold;
    double average;    /* the decay of averages of the parameters, "<i>.average" of the state, which
                          begin as their values after a step; 0: none */
    double loss_scale; /* what losses are multiplied by at first, for gradients in f16; 0: nothing.
                          "scale" of the state is what they are now: a step whose gradients are not
                          finite is none, and multiplies it by scale_backoff (0: 0.5), after
                          scale_interval (0: 2000) others in a row it is by scale_growth (0: 2) */
    double scale_growth, scale_backoff;
    int scale_interval;
    int iterations;
    qn_adjust adjust;
    double coefficients[3];
} qn_optimizer_options;
#define QN_OPTIMIZER_OPTIONS(...) QN_STRUCT(qn_optimizer_options, __VA_ARGS__)
/* The method's usual settings (PyTorch's, where it has the method; else its authors'), into out, of
 * `size` bytes. */
QN_API void qn_optimizer_get_defaults(qn_method method, qn_optimizer_options *out, size_t size);
static inline qn_optimizer_options qn_optimizer_defaults(qn_method method) {
    qn_optimizer_options made;
    qn_optimizer_get_defaults(method, &made, sizeof made);
    return made;
}
QN_API const char *qn_method_name(qn_method method);

/* An optimizer of these parameters. It holds references to them and owns its state. What changes
 * from step to step, rate and step count, are tensors, so all steps share one plan. */
typedef struct qn_optimizer qn_optimizer;
QN_API qn_optimizer *qn_optimizer_new(qn_ctx *qn, int n, qn_tensor *const *parameters,
                                      const qn_optimizer_options *options);
QN_API void qn_optimizer_free(qn_optimizer *o);
/* Record one step down the gradient of a scalar loss: assignments to parameters and state, computed
 * with the next read or qn_realize. */
QN_API qn_code qn_optimizer_step(qn_optimizer *o, qn_tensor *loss);
/* The same from gradients the caller has, one for each parameter, of its shape, of the loss times
 * "scale" of the state where losses are scaled. NULL: the parameter and its state stay. */
QN_API qn_code qn_optimizer_apply(qn_optimizer *o, qn_tensor *const *gradients);
/* Record that the gradients of a loss are added to what the next step takes; where losses are
 * scaled, with the scale of that step. Options: accumulates. */
QN_API qn_code qn_optimizer_accumulate(qn_optimizer *o, qn_tensor *loss);
QN_API qn_code qn_optimizer_set_rate(qn_optimizer *o, double rate);
/* Other settings for the parameters [first, first + n), which are a group from now on: its rate is
 * "rate.<k>" of the state for the k-th group. A number is data from its first change on, but where
 * it becomes 0 or no longer is; the method and what state there is must stay. Clip, clip_value,
 * average and what concerns the scale are of all parameters. */
QN_API qn_code qn_optimizer_set_group(qn_optimizer *o, int first, int n,
                                      const qn_optimizer_options *options);
/* The method as a function that assigns nothing, for those who keep the state themselves. begin:
 * what it keeps of a parameter, the `which`-th of 0 to 2, as it starts, or NULL and no error where
 * it keeps fewer. update: into out[0] the parameter, into out[1] to out[3] its state after a step
 * by gradient g, from state[0] to state[2], NULL being what is not kept. Scalars are `rate`,
 * `count`, steps with this one, and `momentum`, which stands for that of the options, of methods
 * without one for their beta1, or NULL. What is of all parameters, clip and below, is not read. */
QN_API qn_tensor *qn_optimizer_begin(qn_tensor *p, const qn_optimizer_options *options, int which);
QN_API qn_code qn_optimizer_update(qn_tensor *p, qn_tensor *g, const qn_optimizer_options *options,
                                   qn_tensor *rate, qn_tensor *momentum, qn_tensor *count,
                                   qn_tensor *const *state, qn_tensor **out);
/* Its state as named tensors, to save and load. */
QN_API qn_module *qn_optimizer_state(const qn_optimizer *o);

/* Learning rate after `done` of `total` steps (or seconds): rising linearly to `peak` over the
 * first `warmup`, then falling to `last` along half a cosine; constant when last equals peak. */
QN_API double qn_rate_cosine(double peak, double last, double warmup, double total, double done);

/* Learning rates as functions of the steps t that are done; the formulas are PyTorch's, in closed
 * form. What is 0 in the options is as each says; -0.0 is a 0 that is meant. */
typedef enum qn_rate_kind {
    QN_RATE_CONSTANT = 0,    /* rate, times `from` for the first `period` steps */
    QN_RATE_STEP = 1,        /* times gamma (0: 0.1) every `period` steps */
    QN_RATE_EXPONENTIAL = 2, /* times gamma (0: 0.1) every step */
    QN_RATE_LINEAR = 3,      /* times `from` (0: 1/3) at first, linearly to `to` in `period` */
    QN_RATE_POLYNOMIAL = 4,  /* times (1 - t / period)^power (0: 1), at the end 0 */
    QN_RATE_COSINE = 5,      /* to last along half a cosine in `period`, and back again */
    QN_RATE_RESTARTS = 6,    /* the same, anew after `period`, which grows by `stretch` (0: 1) each
                                time (Loshchilov and Hutter 2017) */
    QN_RATE_ONE_CYCLE = 7 /* up from rate / divide (0: 25) to rate in `rise` (0: 0.3) of `period`,
                                then to the first / divide_last (0: 10000) (Smith and Topin 2018) */
} qn_rate_kind;
typedef struct qn_rate_options {
    size_t size; /* QN_RATE_OPTIONS() */
    qn_rate_kind kind;
    double rate, last, gamma, period, from, to, power, stretch, rise, divide, divide_last;
    double warmup;    /* first so many steps at rate * (t + 1) / (warmup + 1), then t - warmup */
    bool linear;      /* of one cycle: along lines in place of half cosines */
    bool three_phase; /* of one cycle: down as it went up, then to the last */
} qn_rate_options;
#define QN_RATE_OPTIONS(...) QN_STRUCT(qn_rate_options, __VA_ARGS__)
/* The rate after `done` steps; NaN where the options have none: of another size, an unknown kind, a
 * period below 1 where one is needed. */
QN_API double qn_rate_at(const qn_rate_options *options, double done);

/* A rate that falls when what it is for no longer does: PyTorch's ReduceLROnPlateau. Where 0
 * is something else, -0.0 is a 0 that is meant. The last fields are its memory, to be kept with a
 * checkpoint. */
typedef struct qn_plateau {
    size_t size;      /* QN_PLATEAU() */
    double rate;      /* the rate now */
    double factor;    /* that it is multiplied by (0: 0.1) */
    double threshold; /* what is better by less is not (0: 1e-4) */
    double least;     /* the rate does not fall below it */
    double epsilon;   /* nor by less (0: 1e-8) */
    int patience;     /* so many that are not better are borne (0: 10; below 0: none) */
    int cooldown;     /* so many are not looked at after a fall */
    bool maximize;    /* better is more */
    bool absolute;    /* the threshold is a difference, not a part of the best */
    double best;
    int bad, cooling;
    bool begun;
} qn_plateau;
#define QN_PLATEAU(...) QN_STRUCT(qn_plateau, __VA_ARGS__)
/* Take notice of a metric, and give the rate from now on; NaN for a struct of another size. */
QN_API double qn_plateau_next(qn_plateau *p, double metric);

/* A text as a sequence of characters: Unicode code points of UTF-8, and bytes that are not UTF-8
 * as U+DC80 to U+DCFF. The vocabulary is the text's own characters, sorted; the last `held_out` of
 * the text (a fraction) is kept from training. */
typedef struct qn_text qn_text;
QN_API qn_text *qn_text_new(qn_ctx *qn, const char *text, size_t size, double held_out);
QN_API void qn_text_free(qn_text *t);
QN_API int64_t qn_text_size(const qn_text *t, bool held_out); /* in characters */
QN_API int qn_text_vocabulary(const qn_text *t, const uint32_t **characters);
/* The numbers of characters [from, from + count) of the whole text. */
QN_API qn_code qn_text_ids(const qn_text *t, int64_t from, int64_t count, int32_t *ids);
/* Fill `rows` windows of `context` character numbers and of those that follow each, [rows, context]
 * both. From the training part they are drawn at random by seed and index; from the held-out part
 * they are consecutive, `index` counting batches, and the number of rows still within it is
 * returned (0 past the end), the others repeating the first window. A negative code on error. */
typedef struct qn_batch_options {
    size_t size; /* QN_BATCH_OPTIONS() */
    int rows, context;
    uint64_t seed, index;
    bool held_out;
} qn_batch_options;
#define QN_BATCH_OPTIONS(...) QN_STRUCT(qn_batch_options, __VA_ARGS__)
QN_API int qn_text_batch(const qn_text *t, int32_t *ids, int32_t *targets,
                         const qn_batch_options *options);

#ifdef __cplusplus
}
#endif
#endif
