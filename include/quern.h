/* quern.h - the whole public face of Quern, a tensor compiler and deep-learning library.
 *
 * Everything hangs off a context. Operations record nodes of a lazy graph; reading a value compiles
 * what it needs into few kernels and runs them. Constructors return a tensor or NULL; NULL in gives
 * NULL out, and the first error stays in the context until qn_clear_error(). Calls with effects
 * return 0 or a negative code of enum qn_code. The library never aborts or exits, and prints
 * nothing but what knob debug asks for and what qn_options.log tells of.
 *
 * Ownership: a tensor made while a scope is open belongs to the innermost scope and dies at its
 * end, unless qn_keep() took a reference. Outside every scope a tensor belongs to the caller, who
 * releases it with qn_release(). A context may be used by one thread at a time; contexts are
 * independent of each other.
 *
 * A tensor, tape, plan, module and so on that is gone, or is another open context's, is refused by
 * every function with QN_EGRAPH, which names the function and the argument. What belongs to a
 * context that was closed must not be used any more: that is not, and cannot be, noticed. */
#ifndef QUERN_H
#define QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define QN_API
#else
#define QN_API __attribute__((visibility("default")))
#endif

#define QN_VERSION_MAJOR 0
#define QN_VERSION_MINOR 1
#define QN_VERSION_PATCH 0
#define QN_MAX_RANK      12

typedef struct qn_ctx qn_ctx;
typedef struct qn_tensor qn_tensor;
typedef struct qn_tape qn_tape;
typedef struct qn_plan qn_plan; /* a static graph made by qn_compile */
typedef uint32_t qn_scope;

/* Element types. The order is the promotion order within a kind; values are stable. */
typedef enum qn_dtype {
    QN_BOOL = 0,
    QN_I8,
    QN_I16,
    QN_I32,
    QN_I64,
    QN_U8,
    QN_U16,
    QN_U32,
    QN_U64,
    QN_F16,
    QN_BF16,
    QN_F32,
    QN_F64,
    QN_DTYPE_COUNT
} qn_dtype;

/* What a call with effects returns; the text of the first error is qn_error(). */
typedef enum qn_code {
    QN_OK = 0,
    QN_ENOMEM = -1,  /* the allocator returned NULL */
    QN_ENULL = -2,   /* a NULL argument where a value is needed */
    QN_ESHAPE = -3,  /* shapes that do not fit the operation */
    QN_EDTYPE = -4,  /* a dtype the operation does not take */
    QN_ERANGE = -5,  /* an axis, index or size out of range, or a product beyond 2^63 */
    QN_EARG = -6,    /* any other bad argument */
    QN_EDEVICE = -7, /* unknown device, or the device failed */
    QN_EIO = -8,     /* the operating system refused a file operation */
    QN_EFORMAT = -9, /* a file that is not what it claims to be */
    QN_EGRAPH =
        -10, /* a graph rule broken: history dropped, frozen input changed, foreign tensor */
    QN_EINTERNAL = -11 /* a bug in Quern: please report the text */
} qn_code;

/* ---- context ---------------------------------------------------------------------------- */

typedef struct qn_options {
    void *(*alloc)(void *user, size_t size, size_t align); /* NULL: the C library */
    void (*free)(void *user, void *p, size_t size);
    void *alloc_user;
    /* Receives what knob debug asks for, and what one should know that is no error: that another
     * device runs than was asked for, that a variable of the environment is not used. NULL: that
     * goes to standard error. */
    void (*log)(void *user, const char *line);
    void *log_user;
    const char *device; /* "cpu", "opencl", "ref" or "null"; NULL: $QN_DEVICE, else "cpu" */
    int threads;        /* 0: $QN_THREADS, else the processors this process may use */
    char *error;        /* NULL, or where qn_open writes why it returns NULL, "" when it does not */
    size_t error_size;  /* bytes there; 512 hold most reasons */
} qn_options;

/* Open a context, or NULL when there is no memory, no such device, or a knob that is none; see
 * qn_options.error. `options` may be NULL. */
QN_API qn_ctx *qn_open(const qn_options *options);
/* The device that the context runs on. Where "cpu" finds no compiler, and none was asked for by
 * knob cpu, it is "ref", the slow oracle: `why`, unless NULL, then receives the reason, else NULL.
 */
QN_API const char *qn_device_of(const qn_ctx *qn, const char **why);
/* Free the context and everything made in it; every tensor of it becomes invalid. NULL is fine. In
 * a forked child closing is all that may be done with a context of its parent. */
QN_API void qn_close(qn_ctx *qn);
/* The first error's text since the last qn_clear_error(), "" when there was none. */
QN_API const char *qn_error(const qn_ctx *qn);
QN_API qn_code qn_error_code(const qn_ctx *qn);
QN_API void qn_clear_error(qn_ctx *qn);
/* The constant text of a code, never NULL. */
QN_API const char *qn_code_text(qn_code code);
/* Tell the context where in the user's program the next operations come from, for error texts.
 * `file` is not copied: it must stay valid until the next qn_at(); NULL: unknown. */
QN_API void qn_at(qn_ctx *qn, const char *file, int line);
#define QN_AT(qn) qn_at((qn), __FILE__, __LINE__)
QN_API const char *qn_version(void);
/* Name and one-line description of device `i`; false past the last. */
QN_API bool qn_device(int i, const char **name, const char **description);
/* What the context's device runs on, a line for each fact: its processor, the instructions its
 * kernels may use, which compiler makes them and why no other. "" where there is nothing to say.
 * Valid until the next call of this or of qn_format(). NULL only with an error. */
QN_API const char *qn_device_facts(qn_ctx *qn);
/* The record of the machine that schedules are made for, as knob machine takes it from a file: a
 * line for each field, with what it means. Valid until the next call of this, of qn_device_facts()
 * or of qn_format(). NULL only with an error. */
QN_API const char *qn_machine(qn_ctx *qn);
/* Name and description of family `i` of machines, which knob machine takes; false past the last. */
QN_API bool qn_machine_family(int i, const char **name, const char **description);
/* Set a knob (a QN_* row of docs/knobs.md, without prefix, lower case): qn_set(qn, "debug", "x").
 * QN_EARG, naming what there is, for an unknown one, a value that it does not take, and one that is
 * read when a context is opened. */
QN_API int qn_set(qn_ctx *qn, const char *knob, const char *value);

/* ---- lifetimes -------------------------------------------------------------------------- */

QN_API qn_scope qn_scope_begin(qn_ctx *qn);
/* Release everything made since the matching begin but for what qn_keep() moved outward. */
QN_API void qn_scope_end(qn_ctx *qn, qn_scope scope);
/* End the scope as qn_scope_end() does, but hand `result` on to the scope around, as a function
 * that makes a tensor of others does at its end: what it made on the way, and left in the caller's
 * scope, would keep old values from being written over (qn_assign). Returns what the caller goes on
 * with: a handle of its own where `result` was made outside of the scope. NULL ends the scope, too,
 * and returns NULL.
 */
QN_API qn_tensor *qn_scope_return(qn_ctx *qn, qn_scope scope, qn_tensor *result);
/* Take a reference; returns its argument. A kept tensor needs one qn_release(). */
QN_API qn_tensor *qn_keep(qn_tensor *t);
QN_API void qn_release(qn_tensor *t);

/* What errors call t, such as its name in a module; copied. NULL: nothing. */
QN_API int qn_set_name(qn_tensor *t, const char *name);
QN_API const char *qn_name(const qn_tensor *t); /* NULL: none was given */

/* ---- tensors ---------------------------------------------------------------------------- */

/* A tensor holding a copy of `data` (row-major, prod(shape) elements of dtype). */
QN_API qn_tensor *qn_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                          const void *data);
/* A dimension variable: a size in [lo, hi] bound at run time by the data that is fed in (qn_run),
 * or by qn_bind. Use its value as a dim wherever a shape is given (values below -1 denote
 * variables). 0 on error. */
QN_API int64_t qn_var(qn_ctx *qn, const char *name, int64_t lo, int64_t hi);
/* Bind a dimension variable for the runs that follow. */
QN_API int qn_bind(qn_ctx *qn, int64_t var, int64_t value);
/* The context t belongs to; NULL for NULL and for one that was released. */
QN_API qn_ctx *qn_context(const qn_tensor *t);
QN_API qn_dtype qn_dtype_of(const qn_tensor *t);
QN_API int qn_rank(const qn_tensor *t);
/* Size along `axis` (negative counts from the end); a variable's code below -1; 0 on error. */
QN_API int64_t qn_dim(const qn_tensor *t, int axis);
/* Number of elements at the current bindings. */
QN_API int64_t qn_numel(const qn_tensor *t);
QN_API size_t qn_dtype_size(qn_dtype dtype);
QN_API const char *qn_dtype_name(qn_dtype dtype);
/* Compute what is needed and copy the value out, row-major; `size` is the buffer's size in bytes
 * and must hold the whole value, else QN_ERANGE and nothing is written. */
QN_API int qn_read(qn_tensor *t, void *out, size_t size);
/* Compute these tensors (and every pending assignment) now, in one plan. For speed nobody needs to:
 * what requests compute again while a handle holds it is kept (knob kept_memory). */
QN_API int qn_realize(qn_tensor *const *ts, int n);
/* t takes the value of `value` (same shape and dtype): an ordered effect. A tensor's values are
 * versions: what was recorded before keeps the old one, and where nothing does the new one is
 * written in its place. Gradients end at an assignment: t is a leaf. t is a variable, that is a
 * tensor in memory (qn_from, read, realized, assigned before) or a first value made of no data; or
 * a view of one by slices, reshapes, permutations and flips, which then gets a new version with
 * these places overwritten, and t shows them. Anything else is refused (QN_EGRAPH). */
QN_API int qn_assign(qn_tensor *t, qn_tensor *value);
/* Overwrite t's value by data from the caller; as qn_assign of qn_from. */
QN_API int qn_write(qn_tensor *t, const void *data, size_t size);
/* Text of the value with at most `limit` elements an axis, into a string owned by the context
 * until the next call. */
QN_API const char *qn_format(qn_tensor *t, int limit);

/* ---- autograd --------------------------------------------------------------------------- */

/* out[i] = d sum(y) / d x[i] as new graph nodes, differentiable again. `seed` is the upstream
 * gradient of y's shape or NULL for ones. An x that y does not depend on gives zeros; of an x that
 * was assigned to since y was recorded it is the gradient of the version that y uses.
 *
 * A gradient is right or an error (QN_EGRAPH). Reading a value changes nothing. What a gradient
 * needs may be gone, though: the old value of a tensor that was assigned to, once y is computed;
 * and, while no tape is open, history and released data beyond knob history. The error names the
 * tensor and where that came about. Outputs of qn_run have no history: detach them. */
QN_API int qn_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out);
/* While a tape is open, every value is kept that something recorded was made of, those of tensors
 * that were assigned to since, too, and history has no bounds. */
QN_API qn_tape *qn_tape_begin(qn_ctx *qn);
QN_API void qn_tape_end(qn_tape *tape);

/* ---- static graphs ---------------------------------------------------------------------- */

/* One plan computing `outputs` from `inputs`, replayed by qn_run. Inputs must be realized tensors
 * (qn_from); everything else the outputs depend on is a parameter, a realized tensor that is read
 * anew at each run, so qn_assign and qn_write on it are seen. Assignments pending now become part
 * of the plan: each run makes them. Nothing is computed by this call but first values of modules'
 * parameters that were not yet. */
QN_API qn_plan *qn_compile(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                           qn_tensor *const *outputs);
/* outputs[i] receives a fresh tensor each; after an error they are as they were. An input compiled
 * for a shape with dimension variables takes data of any sizes in their ranges: variables that are
 * a size of their own are bound to the data's, as by qn_bind; all inputs must agree. */
QN_API int qn_run(qn_plan *plan, qn_tensor *const *inputs, qn_tensor **outputs);
QN_API void qn_plan_free(qn_plan *plan);

/* ---- tuning ----------------------------------------------------------------------------- */

/* Tuning looks for schedules of kernels that are faster on this machine than the default ones. A
 * candidate only wins when its results are those of the default schedule, on random inputs and such
 * with NaNs, infinities, zeros of both signs and denormal numbers, and when it was measured to be
 * faster beyond what repetition varies. A schedule may group a sum in another way, which changes
 * its last bits as another machine would; never does the number of threads decide that. What is
 * found counts from then on, here, for graphs that ran before, too, and, by knob wisdom, in later
 * processes; it goes on where it ended. Knob tune does the same in any program, for the kernels it
 * compiles. */
typedef struct qn_tune_state {
    const char *name;        /* of the kernel, with its shape */
    int kernel, kernels;     /* its number, from 0; how many there are */
    double seconds, budget;  /* spent on this kernel now, and to be spent */
    uint64_t tried, refused; /* candidates measured; whose results were wrong */
    double ratio;            /* the best one's time / the default schedule's */
} qn_tune_state;
typedef struct qn_tune_options {
    double seconds; /* for all kernels together; each has its share by the time it takes */
    bool same_bits; /* keep every sum grouped as it is by default */
    bool again;     /* also kernels that have had their share, or of which nothing is left to try */
    bool (*going)(void *user, const qn_tune_state *state); /* NULL, or called now and then; false:
                                                              come to an end, and keep what is */
    void *user;
} qn_tune_options;
/* Tune the kernels that computing these tensors would launch; nothing is computed. */
QN_API int qn_tune(qn_ctx *qn, int n, qn_tensor *const *tensors, const qn_tune_options *options);
/* Tune the kernels that running this static graph launches, those that lay out its weights among
 * them. Runs from then on use what was found. */
QN_API int qn_tune_plan(qn_plan *plan, const qn_tune_options *options);
/* Tune kernels given as text, as QN_DEBUG=k prints them when they are lowered: one after the other.
 * QN_EFORMAT names the line. */
QN_API int qn_tune_text(qn_ctx *qn, const char *text, const qn_tune_options *options);

/* What tuning found about one kernel. */
typedef struct qn_wisdom {
    const char *kernel, *place,
        *schedule;  /* its name; machine and library; its lines, "": default */
    bool here;      /* is `place` this one? */
    int64_t tried;  /* candidates measured */
    double seconds; /* spent on it */
    double ratio;   /* time / the default schedule's; 1: nothing is faster */
    bool done;      /* nothing is left to try */
} qn_wisdom;
/* Record number `i` of all that are known; false past the last. The texts are valid until there is
 * more wisdom. */
QN_API bool qn_wisdom_at(qn_ctx *qn, int i, qn_wisdom *out);
/* What tuning found, as a text file: of each kernel the schedule that was measured to be the
 * fastest on this machine. Knob wisdom says where it is kept from one process to the next; these
 * carry it elsewhere. Exported is all that this context knows. An import is all or nothing: a file
 * that is cut short or was changed adds no record, and the error names the line. Records of another
 * processor, another version or another kernel do no harm; kernels compiled before keep their
 * schedules. QN_EIO, QN_EFORMAT, QN_ENOMEM. */
QN_API int qn_wisdom_export(qn_ctx *qn, const char *path);
QN_API int qn_wisdom_import(qn_ctx *qn, const char *path);

/* ---- files ------------------------------------------------------------------------------ */

/* Write named tensors as a safetensors file, with `pairs` texts of metadata: keys and values by
 * turns in `metadata` (NULL for none). Values are computed first where need be. The file appears
 * under `path` only when it is complete. Names must be UTF-8 and all different. */
QN_API int qn_save(qn_ctx *qn, const char *path, int n, const char *const *names,
                   qn_tensor *const *tensors, int pairs, const char *const *metadata);
/* A safetensors file opened for reading: its list of tensors is checked, their values stay in the
 * file until asked for. A file that is damaged is QN_EFORMAT, saying where. Close it before its
 * context. */
typedef struct qn_file qn_file;
QN_API qn_file *qn_load(qn_ctx *qn, const char *path);
QN_API int qn_file_count(const qn_file *file);
/* Name of tensor `i` in the order of the file's list, NULL past the last. */
QN_API const char *qn_file_name(const qn_file *file, int i);
/* A new tensor with the value stored under `name`; QN_EARG when there is none. */
QN_API qn_tensor *qn_file_tensor(qn_file *file, const char *name);
/* The text stored under a metadata key, NULL when there is none. Valid until the file is closed. */
QN_API const char *qn_file_text(const qn_file *file, const char *key);
QN_API void qn_file_close(qn_file *file);

/* ---- neural networks -------------------------------------------------------------------- */

/* The named parameters of a model. A module owns them; layers only point at them, so the module
 * must outlive its layers. Where values are drawn at random, `seed` and the name decide them. */
typedef struct qn_module qn_module;
typedef enum qn_init {
    QN_INIT_ZEROS,
    QN_INIT_ONES,
    QN_INIT_NORMAL, /* mean 0, standard deviation `scale` */
    QN_INIT_UNIFORM /* in [-scale, scale) */
} qn_init;
QN_API qn_module *qn_module_new(qn_ctx *qn, uint64_t seed);
QN_API void qn_module_free(qn_module *m);
/* A new parameter under a name not yet in use, at most 127 bytes. Owned by the module. */
QN_API qn_tensor *qn_module_parameter(qn_module *m, const char *name, qn_dtype dtype, int rank,
                                      const int64_t *shape, qn_init init, double scale);
/* Take a reference to a tensor as a parameter; returns it. */
QN_API qn_tensor *qn_module_add(qn_module *m, const char *name, qn_tensor *value);
QN_API int qn_module_count(const qn_module *m);
QN_API const char *qn_module_name(const qn_module *m, int i); /* NULL past the last */
QN_API qn_tensor *const *qn_module_parameters(const qn_module *m);
QN_API qn_tensor *qn_module_find(const qn_module *m, const char *name); /* or NULL, no error */
/* All parameters with metadata, as qn_save. */
QN_API int qn_module_save(const qn_module *m, const char *path, int pairs,
                          const char *const *metadata);
/* Give every parameter the value stored under its name; dtypes and shapes must be the same. All of
 * them or, on error, none. The file may hold more. */
QN_API int qn_module_load(qn_module *m, qn_file *file);

/* How windows go over the spatial axes of an image [N, C, spatial..]; one to three axes. What is 0
 * counts as 1, but for padding. */
typedef struct qn_conv_options {
    int64_t stride[3];           /* from window to window; 0 in pooling: the window's size */
    int64_t dilation[3];         /* from place to place in a window */
    int64_t before[3], after[3]; /* zeros around the image (in max_pool, what loses) */
    int64_t extra[3];            /* conv_transpose: places at the end that the stride leaves open */
    int64_t groups;              /* each with its own channels; as many as channels: depthwise */
    bool same;                   /* in place of before and after: ceil(n / stride) windows */
    bool channels_last;          /* images are [N, spatial.., C]; weights are as ever */
} qn_conv_options;

/* Layers: made with parameters "<name>.weight" and so on in a module, applied by _forward. */

/* x [..., in] -> x @ weight^T + bias [..., out]; weight [out, in] starts normal with deviation
 * `scale`, or uniform within 1/sqrt(in) when scale is 0; bias starts at zero. */
typedef struct qn_linear_layer {
    qn_tensor *weight, *bias; /* bias NULL: none */
} qn_linear_layer;
QN_API qn_linear_layer qn_linear_new(qn_module *m, const char *name, int64_t in, int64_t out,
                                     bool bias, double scale);
QN_API qn_tensor *qn_linear_forward(const qn_linear_layer *l, qn_tensor *x);

/* An image [N, in, spatial..] (or as options say) -> conv with weight [out, in / groups, kernel..],
 * which starts uniform within 1/sqrt(in / groups * places of the kernel), plus bias [out], 0. */
typedef struct qn_conv_layer {
    qn_tensor *weight, *bias; /* bias NULL: none */
    qn_conv_options options;
} qn_conv_layer;
QN_API qn_conv_layer qn_conv_new(qn_module *m, const char *name, int64_t in, int64_t out, int space,
                                 const int64_t *kernel, bool bias, const qn_conv_options *options);
QN_API qn_tensor *qn_conv_forward(const qn_conv_layer *l, qn_tensor *x);

/* Integers [...] -> rows of weight [count, width], [..., width]. */
typedef struct qn_embedding_layer {
    qn_tensor *weight;
} qn_embedding_layer;
QN_API qn_embedding_layer qn_embedding_new(qn_module *m, const char *name, int64_t count,
                                           int64_t width, double scale);
QN_API qn_tensor *qn_embedding_forward(const qn_embedding_layer *l, qn_tensor *ids);

/* Normalise the last axis: layer norm, or root mean square norm (without mean and bias). */
typedef struct qn_norm_layer {
    qn_tensor *weight, *bias; /* bias NULL: root mean square norm */
    double epsilon;
} qn_norm_layer;
QN_API qn_norm_layer qn_layer_norm_new(qn_module *m, const char *name, int64_t width);
QN_API qn_norm_layer qn_rms_norm_new(qn_module *m, const char *name, int64_t width);
QN_API qn_tensor *qn_norm_forward(const qn_norm_layer *l, qn_tensor *x);

/* Multi-head self-attention over [batch, time, width]; width must be a multiple of heads. */
typedef struct qn_attention_layer {
    qn_linear_layer qkv, out;
    int64_t heads;
    bool causal;
} qn_attention_layer;
QN_API qn_attention_layer qn_attention_new(qn_module *m, const char *name, int64_t width,
                                           int64_t heads, bool causal, double scale,
                                           double out_scale);
QN_API qn_tensor *qn_attention_forward(const qn_attention_layer *l, qn_tensor *x);

/* A transformer block: x + attention(norm(x)), then x + mlp(norm(x)) with a hidden layer of four
 * times the width and gelu. */
typedef struct qn_block_layer {
    qn_norm_layer norm1, norm2;
    qn_attention_layer attention;
    qn_linear_layer up, down;
} qn_block_layer;
QN_API qn_block_layer qn_block_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                                   bool causal, double scale, double out_scale);
QN_API qn_tensor *qn_block_forward(const qn_block_layer *l, qn_tensor *x);

/* A GPT: token and learned position embeddings, causal blocks, a norm and a head. Weights start
 * normal with deviation 0.02, those that end a residual branch divided by sqrt(2 * layers). */
typedef struct qn_gpt_config {
    int64_t vocabulary, context, layers, heads, width;
} qn_gpt_config;
typedef struct qn_gpt qn_gpt;
QN_API qn_gpt *qn_gpt_new(qn_ctx *qn, const qn_gpt_config *config, uint64_t seed);
QN_API void qn_gpt_free(qn_gpt *gpt);
QN_API qn_module *qn_gpt_module(const qn_gpt *gpt);
QN_API qn_gpt_config qn_gpt_shape(const qn_gpt *gpt);
/* Integers [batch, time] with time <= context -> logits [batch, time, vocabulary]. */
QN_API qn_tensor *qn_gpt_forward(const qn_gpt *gpt, qn_tensor *ids);
/* Mean cross-entropy in nats of the next tokens `targets` [batch, time]. */
QN_API qn_tensor *qn_gpt_loss(const qn_gpt *gpt, qn_tensor *ids, qn_tensor *targets);

/* ---- training --------------------------------------------------------------------------- */

typedef enum qn_method {
    QN_SGD,     /* momentum, nesterov, weight_decay added to the gradient */
    QN_ADAM,    /* beta1, beta2, epsilon, weight_decay added to the gradient */
    QN_ADAMW,   /* as Adam, weight_decay apart from the gradient */
    QN_RMSPROP, /* beta2, epsilon, momentum, weight_decay added to the gradient */
    QN_ADAGRAD, /* epsilon, weight_decay added to the gradient */
    QN_LION,    /* beta1, beta2, weight_decay apart from the gradient */
    QN_METHOD_COUNT
} qn_method;
typedef struct qn_optimizer_options {
    qn_method method;
    double rate; /* the learning rate */
    double momentum, beta1, beta2, epsilon, weight_decay;
    double clip;    /* gradients are scaled down to this global norm; 0: never */
    int decay_rank; /* parameters of fewer axes are not decayed */
    bool nesterov;
} qn_optimizer_options;
/* The method's usual settings (PyTorch's; Lion's authors'). */
QN_API qn_optimizer_options qn_optimizer_defaults(qn_method method);
QN_API const char *qn_method_name(qn_method method);

/* An optimizer of these parameters. It holds references to them and owns its state. What changes
 * from step to step, rate and step count, are tensors, so all steps share one plan. */
typedef struct qn_optimizer qn_optimizer;
QN_API qn_optimizer *qn_optimizer_new(qn_ctx *qn, const qn_optimizer_options *options, int n,
                                      qn_tensor *const *parameters);
QN_API void qn_optimizer_free(qn_optimizer *o);
/* Record one step down the gradient of a scalar loss: assignments to parameters and state, computed
 * with the next read or qn_realize. */
QN_API int qn_optimizer_step(qn_optimizer *o, qn_tensor *loss);
/* The same from gradients the caller has. */
QN_API int qn_optimizer_apply(qn_optimizer *o, qn_tensor *const *gradients);
QN_API int qn_optimizer_set_rate(qn_optimizer *o, double rate);
/* Its state as named tensors, to save and load. */
QN_API qn_module *qn_optimizer_state(const qn_optimizer *o);

/* Learning rate after `done` of `total` steps (or seconds): rising linearly to `peak` over the
 * first `warmup`, then falling to `last` along half a cosine; constant when last equals peak. */
QN_API double qn_rate_cosine(double peak, double last, double warmup, double total, double done);

/* A text as a sequence of characters: Unicode code points of UTF-8, and bytes that are not UTF-8
 * as U+DC80 to U+DCFF. The vocabulary is the text's own characters, sorted; the last `held_out` of
 * the text (a fraction) is kept from training. */
typedef struct qn_text qn_text;
QN_API qn_text *qn_text_new(qn_ctx *qn, const char *text, size_t size, double held_out);
QN_API void qn_text_free(qn_text *t);
QN_API int64_t qn_text_size(const qn_text *t, bool held_out); /* in characters */
QN_API int qn_text_vocabulary(const qn_text *t, const uint32_t **characters);
/* The numbers of characters [from, from + count) of the whole text. */
QN_API int qn_text_ids(const qn_text *t, int64_t from, int64_t count, int32_t *ids);
/* Fill `rows` windows of `context` character numbers and of those that follow each, [rows, context]
 * both. From the training part they are drawn at random by seed and index; from the held-out part
 * they are consecutive, `index` counting batches, and the number of rows still within it is
 * returned (0 past the end), the others repeating the first window. */
QN_API int qn_text_batch(const qn_text *t, bool held_out, uint64_t seed, uint64_t index, int rows,
                         int context, int32_t *ids, int32_t *targets);

/* ---- what happened ---------------------------------------------------------------------- */

typedef struct qn_stats {
    uint64_t kernels;                 /* kernel launches so far */
    uint64_t compiles;                /* kernels compiled */
    uint64_t plans, plan_hits;        /* plans built; realizations that found their plan */
    uint64_t nodes, handles, buffers; /* live now */
    uint64_t bytes, peak_bytes;       /* tensor memory now and at its highest */
    uint64_t planned_peak_bytes;      /* the last plan's own forecast of its arena */
    uint64_t host_bytes;              /* everything taken from the allocator and not given back */
    double plan_seconds, compile_seconds, run_seconds;
    double compile_median; /* seconds to compile one kernel, to a quarter of a millisecond */
    uint64_t levels;       /* the launches so far in rounds, each of those that ran side by side */
    uint64_t replaced;     /* assigned values that were written over those they replace */
    /* Kept now: plans for the next time (knob plan_memory), compiled kernels (knob program_memory),
     * those of static graphs among them; what they take; how many had to go so far. */
    uint64_t plans_kept, plan_bytes, plans_evicted;
    uint64_t programs, program_bytes, programs_evicted;
    /* Values that can be computed again: what those take that are kept (knob kept_memory), and how
     * many had to go so far. */
    uint64_t kept_bytes, kept_given_up;
} qn_stats;
QN_API void qn_get_stats(const qn_ctx *qn, qn_stats *out);

/* ---- operations ------------------------------------------------------------------------- */

/* Broadcasting is NumPy's; dtypes promote as the array API says, and an integer with a float gives
 * the float's type. Functions that have no meaning for integers take them as f32. Axes may be
 * negative. Sizes may be codes from qn_var() and qn_dim(). The prototypes follow the rows of
 * src/graph/ops.h and src/func/funcs.h (tools/gen.py). */

#define QN_ALL (-2147483647 - 1) /* for an axis: every axis */
#define QN_END INT64_MAX         /* for the stop of a slice: as far as it goes */

typedef enum qn_pad_mode {
    QN_PAD_CONSTANT = 0, /* with a value */
    QN_PAD_REFLECT,      /* c b [a b c] b a */
    QN_PAD_EDGE,         /* a a [a b c] c c */
    QN_PAD_CIRCULAR      /* b c [a b c] a b */
} qn_pad_mode;

/* How qn_scatter brings a new value and the one that is there together. */
typedef enum qn_combine {
    QN_COMBINE_SET = 0,
    QN_COMBINE_SUM,
    QN_COMBINE_PROD,
    QN_COMBINE_MAX,
    QN_COMBINE_MIN,
    QN_COMBINE_AND,
    QN_COMBINE_OR
} qn_combine;

/* == generated prototypes == */

/* -x [gen neg d1772fdb b014d943] */
QN_API qn_tensor *qn_neg(qn_tensor *x);
/* absolute value [gen abs f588a0c7 b0de3fbf] */
QN_API qn_tensor *qn_abs(qn_tensor *x);
/* 1 / x [gen reciprocal c52f8c3b 2425cc8f] */
QN_API qn_tensor *qn_reciprocal(qn_tensor *x);
/* square root; NaN below 0 [gen sqrt 9cd00f3b e1e2f1aa] */
QN_API qn_tensor *qn_sqrt(qn_tensor *x);
/* e^x [gen exp 652a1ca7 e06c0865] */
QN_API qn_tensor *qn_exp(qn_tensor *x);
/* 2^x [gen exp2 d84e5174 e2ea95bf] */
QN_API qn_tensor *qn_exp2(qn_tensor *x);
/* e^x - 1, exact near 0 [gen expm1 b5b981b5 5e294083] */
QN_API qn_tensor *qn_expm1(qn_tensor *x);
/* natural logarithm; NaN below 0 [gen log 81048fe4 623eeaf6] */
QN_API qn_tensor *qn_log(qn_tensor *x);
/* logarithm to base 2 [gen log2 01ddab66 e030e270] */
QN_API qn_tensor *qn_log2(qn_tensor *x);
/* log(1 + x), exact near 0 [gen log1p 1a662cb1 36809fbc] */
QN_API qn_tensor *qn_log1p(qn_tensor *x);
/* sine of radians [gen sin 80860515 c45cff7b] */
QN_API qn_tensor *qn_sin(qn_tensor *x);
/* cosine of radians [gen cos cb739f68 da4115ed] */
QN_API qn_tensor *qn_cos(qn_tensor *x);
/* arc tangent in radians [gen atan 8dd9ea6a 0da390a5] */
QN_API qn_tensor *qn_atan(qn_tensor *x);
/* hyperbolic tangent [gen tanh 1ab91792 d2cc0b77] */
QN_API qn_tensor *qn_tanh(qn_tensor *x);
/* error function [gen erf a4055313 eb5d4f5f] */
QN_API qn_tensor *qn_erf(qn_tensor *x);
/* 1 - erf(x), exact where that is small [gen erfc e41d288d 7ab31e2d] */
QN_API qn_tensor *qn_erfc(qn_tensor *x);
/* largest integer not above x; integers stay [gen floor a1f52b14 b0feb25d] */
QN_API qn_tensor *qn_floor(qn_tensor *x);
/* smallest integer not below x; integers stay [gen ceil 628b0f61 a1459f93] */
QN_API qn_tensor *qn_ceil(qn_tensor *x);
/* nearest integer, ties to even; integers stay [gen round b1ed4aa7 8259848f] */
QN_API qn_tensor *qn_round(qn_tensor *x);
/* x without its fraction; integers stay [gen trunc 6b5bc2b8 4a2339d3] */
QN_API qn_tensor *qn_trunc(qn_tensor *x);
/* every bit inverted; logical not for bool [gen not 1c4d550c 4343da43] */
QN_API qn_tensor *qn_not(qn_tensor *x);
/* x + y [gen add d254959e 6db9e36f] */
QN_API qn_tensor *qn_add(qn_tensor *x, qn_tensor *y);
/* x - y [gen sub acb7aeb5 beb9b222] */
QN_API qn_tensor *qn_sub(qn_tensor *x, qn_tensor *y);
/* x * y [gen mul b9d50aad 800e4c7d] */
QN_API qn_tensor *qn_mul(qn_tensor *x, qn_tensor *y);
/* x / y [gen div 9b4923c4 2b8bc940] */
QN_API qn_tensor *qn_div(qn_tensor *x, qn_tensor *y);
/* floor(x / y); integers by 0 give 0 [gen floor_div 179fa890 d00c9851] */
QN_API qn_tensor *qn_floor_div(qn_tensor *x, qn_tensor *y);
/* x - y*floor(x / y), with y's sign; integers by 0 give 0 [gen mod bc2392b8 632bca49] */
QN_API qn_tensor *qn_mod(qn_tensor *x, qn_tensor *y);
/* x to the power y, as IEEE pow; integers exactly, wrapped, to a negative power without the
 * fraction: 0 but for 1 and -1 [gen pow bb676a8f 28b94527] */
QN_API qn_tensor *qn_pow(qn_tensor *x, qn_tensor *y);
/* the larger; NaN when either is [gen maximum 932cf56f b0438cb2] */
QN_API qn_tensor *qn_maximum(qn_tensor *x, qn_tensor *y);
/* the smaller; NaN when either is [gen minimum acf450e8 a26930a6] */
QN_API qn_tensor *qn_minimum(qn_tensor *x, qn_tensor *y);
/* x < y [gen lt 27d3b11a 27533686] */
QN_API qn_tensor *qn_lt(qn_tensor *x, qn_tensor *y);
/* x <= y [gen le 8bb85f42 978388ae] */
QN_API qn_tensor *qn_le(qn_tensor *x, qn_tensor *y);
/* x == y [gen eq c45fbc5e f873dd02] */
QN_API qn_tensor *qn_eq(qn_tensor *x, qn_tensor *y);
/* x != y [gen ne 8e5e2ee9 e28f366f] */
QN_API qn_tensor *qn_ne(qn_tensor *x, qn_tensor *y);
/* bitwise and [gen and 08e04f46 3bee6062] */
QN_API qn_tensor *qn_and(qn_tensor *x, qn_tensor *y);
/* bitwise or [gen or 795a7067 a8f263c9] */
QN_API qn_tensor *qn_or(qn_tensor *x, qn_tensor *y);
/* bitwise exclusive or [gen xor 92786886 e6cd5d5a] */
QN_API qn_tensor *qn_xor(qn_tensor *x, qn_tensor *y);
/* x * 2^y; 0 for y past the width [gen shl f4fe777d 2e7e4956] */
QN_API qn_tensor *qn_shl(qn_tensor *x, qn_tensor *y);
/* floor(x / 2^y): arithmetic for signed, logical for unsigned [gen shr 2a39b25e 8b953d2a] */
QN_API qn_tensor *qn_shr(qn_tensor *x, qn_tensor *y);
/* y where x, else z [gen where c98fc31b 6ff5a544] */
QN_API qn_tensor *qn_where(qn_tensor *x, qn_tensor *y, qn_tensor *z);
/* x*y + z with one rounding [gen fma 8773c8ed 279fb4a8] */
QN_API qn_tensor *qn_fma(qn_tensor *x, qn_tensor *y, qn_tensor *z);
/* sum over axes; of what is repeated n times n*x, rounded once [gen sum f94f00f7 c5eefbbb] */
QN_API qn_tensor *qn_sum(qn_tensor *x, int axis, bool keepdims);
/* as sum, over n axes [gen sum_axes f94f00f7 c493e027] */
QN_API qn_tensor *qn_sum_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* product over axes; of what is repeated n times x^n [gen prod 559f0698 0bcb02ac] */
QN_API qn_tensor *qn_prod(qn_tensor *x, int axis, bool keepdims);
/* as prod, over n axes [gen prod_axes 559f0698 7cbae544] */
QN_API qn_tensor *qn_prod_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* largest over axes; NaN when one is there [gen max 3c551fe8 33f5fecb] */
QN_API qn_tensor *qn_max(qn_tensor *x, int axis, bool keepdims);
/* as max, over n axes [gen max_axes 3c551fe8 ec5805f0] */
QN_API qn_tensor *qn_max_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* smallest over axes; NaN when one is there [gen min b3e71b3d cd0b6d84] */
QN_API qn_tensor *qn_min(qn_tensor *x, int axis, bool keepdims);
/* as min, over n axes [gen min_axes b3e71b3d ab258f7b] */
QN_API qn_tensor *qn_min_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* first index of the largest, in the flat order of axes [gen argmax d88b8bef 211f96a0] */
QN_API qn_tensor *qn_argmax(qn_tensor *x, int axis, bool keepdims);
/* as argmax, over n axes [gen argmax_axes d88b8bef 61110e3d] */
QN_API qn_tensor *qn_argmax_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* first index of the smallest, in the flat order of axes [gen argmin 9705300e db7a3bcc] */
QN_API qn_tensor *qn_argmin(qn_tensor *x, int axis, bool keepdims);
/* as argmin, over n axes [gen argmin_axes 9705300e be66fa19] */
QN_API qn_tensor *qn_argmin_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* must be stored before it is used [gen contiguous a5859681 95f8942f] */
QN_API qn_tensor *qn_contiguous(qn_tensor *x);
/* the value without its history [gen detach 144d6844 7f69ccbe] */
QN_API qn_tensor *qn_detach(qn_tensor *x);
/* `value` in dtype at every index; an error where an integer dtype does not hold it
 * [gen full 4809283a 93611dfc] */
QN_API qn_tensor *qn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value);
/* zeros [gen zeros 971ce0eb cc30f2d0] */
QN_API qn_tensor *qn_zeros(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape);
/* ones [gen ones 9cb4b4f6 078df6cc] */
QN_API qn_tensor *qn_ones(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape);
/* a tensor of rank 0; an error where an integer dtype does not hold the value
 * [gen scalar d91b9850 ae4e9848] */
QN_API qn_tensor *qn_scalar(qn_ctx *qn, qn_dtype dtype, double value);
/* a scalar of x's dtype, to compute with x: qn_mul(x, qn_like(x, 2)); an error where an integer
 * dtype does not hold the value [gen like 6e18e755 3b466daf] */
QN_API qn_tensor *qn_like(qn_tensor *x, double value);
/* `value` in x's dtype and shape [gen full_like d2cd3ba4 091991c9] */
QN_API qn_tensor *qn_full_like(qn_tensor *x, double value);
/* zeros in x's dtype and shape [gen zeros_like c0defd11 56fccb38] */
QN_API qn_tensor *qn_zeros_like(qn_tensor *x);
/* ones in x's dtype and shape [gen ones_like bf06775b 40af246a] */
QN_API qn_tensor *qn_ones_like(qn_tensor *x);
/* the index along an axis [gen iota f0841f31 67ce5c5c] */
QN_API qn_tensor *qn_iota(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int axis);
/* start, start + step, ... below stop (above it for a negative step) [gen arange 290ae38a d81af380]
 * */
QN_API qn_tensor *qn_arange(qn_ctx *qn, qn_dtype dtype, double start, double stop, double step);
/* n evenly spaced numbers from start to stop, both included [gen linspace 213fa485 46f4a274] */
QN_API qn_tensor *qn_linspace(qn_ctx *qn, qn_dtype dtype, double start, double stop, int64_t n);
/* ones on the diagonal, zeros elsewhere [gen eye 2ce5977e 910818ec] */
QN_API qn_tensor *qn_eye(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t columns);
/* another dtype: rounded to nearest even, wrapped, or truncated and clamped (NaN gives 0); bool: x
 * != 0 [gen cast 02bd2e36 8df51dc3] */
QN_API qn_tensor *qn_cast(qn_tensor *x, qn_dtype dtype);
/* the same bits as a dtype of equal size; as bool: not 0 [gen bitcast d365b7ff c017cbee] */
QN_API qn_tensor *qn_bitcast(qn_tensor *x, qn_dtype dtype);
/* x above 0, else 0; derivative 0 at 0 [gen relu 2ab5dd47 9aeae1dc] */
QN_API qn_tensor *qn_relu(qn_tensor *x);
/* -1, 0 or 1; NaN stays [gen sign c1b29398 4db388e2] */
QN_API qn_tensor *qn_sign(qn_tensor *x);
/* 1 / (1 + e^-x) [gen sigmoid ff31747e a3e72395] */
QN_API qn_tensor *qn_sigmoid(qn_tensor *x);
/* log(sigmoid(x)) without overflow [gen log_sigmoid a5260cad ed746bd3] */
QN_API qn_tensor *qn_log_sigmoid(qn_tensor *x);
/* 1 / sqrt(x) [gen rsqrt 09705bef 71f63c1d] */
QN_API qn_tensor *qn_rsqrt(qn_tensor *x);
/* x * x [gen square 30a6f075 b832088d] */
QN_API qn_tensor *qn_square(qn_tensor *x);
/* logarithm to base 10 [gen log10 e487fea4 353d5182] */
QN_API qn_tensor *qn_log10(qn_tensor *x);
/* cube root, with x's sign [gen cbrt 8d6b2e30 3d6748d5] */
QN_API qn_tensor *qn_cbrt(qn_tensor *x);
/* tangent of radians [gen tan 8b93b215 97532d17] */
QN_API qn_tensor *qn_tan(qn_tensor *x);
/* hyperbolic sine [gen sinh 2c067ea3 3e8d0f13] */
QN_API qn_tensor *qn_sinh(qn_tensor *x);
/* hyperbolic cosine [gen cosh f7900350 b858a7c8] */
QN_API qn_tensor *qn_cosh(qn_tensor *x);
/* arc sine; NaN outside [-1, 1] [gen asin 0c45b8d1 55089d64] */
QN_API qn_tensor *qn_asin(qn_tensor *x);
/* arc cosine; NaN outside [-1, 1] [gen acos de1f4276 ed695db4] */
QN_API qn_tensor *qn_acos(qn_tensor *x);
/* inverse of sinh [gen asinh a2ad074f cd28ceeb] */
QN_API qn_tensor *qn_asinh(qn_tensor *x);
/* inverse of cosh; NaN below 1 [gen acosh a2cc2104 14ca2647] */
QN_API qn_tensor *qn_acosh(qn_tensor *x);
/* inverse of tanh; NaN outside [-1, 1] [gen atanh fcf2acf0 6b7aca8c] */
QN_API qn_tensor *qn_atanh(qn_tensor *x);
/* bool: is x not a number? [gen isnan bab41ceb 6d61c768] */
QN_API qn_tensor *qn_isnan(qn_tensor *x);
/* bool: is x an infinity? [gen isinf 9730f34f 30cfd765] */
QN_API qn_tensor *qn_isinf(qn_tensor *x);
/* bool: neither infinite nor NaN? [gen isfinite 88b91b7f 52be7719] */
QN_API qn_tensor *qn_isfinite(qn_tensor *x);
/* bool: is x zero? [gen logical_not 9473996b b112ae1c] */
QN_API qn_tensor *qn_logical_not(qn_tensor *x);
/* x * sigmoid(x), also called swish [gen silu 7f2920b9 48c2fdef] */
QN_API qn_tensor *qn_silu(qn_tensor *x);
/* derivative of silu [gen silu_slope 08695c7c 4e581085] */
QN_API qn_tensor *qn_silu_slope(qn_tensor *x);
/* x * Phi(x), Phi the normal distribution function [gen gelu 8d244612 dee8a5bf] */
QN_API qn_tensor *qn_gelu(qn_tensor *x);
/* derivative of gelu: Phi(x) + x * e^(-x*x/2) / sqrt(2*pi) [gen gelu_slope a054cf57 37d76a96] */
QN_API qn_tensor *qn_gelu_slope(qn_tensor *x);
/* gelu's approximation by tanh, as in GPT-2: x * sigmoid(sqrt(8/pi) * (x + 0.044715 * x^3))
 * [gen gelu_tanh af9995ff e14594e3] */
QN_API qn_tensor *qn_gelu_tanh(qn_tensor *x);
/* derivative of gelu_tanh [gen gelu_tanh_slope 8003a757 9a388dc7] */
QN_API qn_tensor *qn_gelu_tanh_slope(qn_tensor *x);
/* log(1 + e^x) without overflow [gen softplus fa928d7f 11b6ed88] */
QN_API qn_tensor *qn_softplus(qn_tensor *x);
/* x * tanh(softplus(x)) [gen mish 0e7185ce ac1c489b] */
QN_API qn_tensor *qn_mish(qn_tensor *x);
/* x clamped to [0, 6] [gen relu6 cf67064a c6437af8] */
QN_API qn_tensor *qn_relu6(qn_tensor *x);
/* x * relu6(x + 3) / 6 [gen hardswish 15d82a20 cc02c423] */
QN_API qn_tensor *qn_hardswish(qn_tensor *x);
/* relu6(x + 3) / 6 [gen hardsigmoid f96edcdf b09ae919] */
QN_API qn_tensor *qn_hardsigmoid(qn_tensor *x);
/* scaled elu, constants of Klambauer et al. 2017 [gen selu cf61eadc 0b5e4686] */
QN_API qn_tensor *qn_selu(qn_tensor *x);
/* x above 0, else alpha * (e^x - 1) [gen elu 94a43a50 3130a1c8] */
QN_API qn_tensor *qn_elu(qn_tensor *x, double alpha);
/* x above 0, else slope * x [gen leaky_relu 0965995e 0c5b8047] */
QN_API qn_tensor *qn_leaky_relu(qn_tensor *x, double slope);
/* the smaller of hi and the larger of lo and x; NaN stays, but is no bound; integers keep to the
 * integers within [gen clamp 0c215e27 27d81da3] */
QN_API qn_tensor *qn_clamp(qn_tensor *x, double lo, double hi);
/* bool: x > y [gen gt 8272118f 6d1cd40a] */
QN_API qn_tensor *qn_gt(qn_tensor *x, qn_tensor *y);
/* bool: x >= y [gen ge d9df50ef c12e24b4] */
QN_API qn_tensor *qn_ge(qn_tensor *x, qn_tensor *y);
/* bool: both non-zero [gen logical_and 299ea95d b3fc0095] */
QN_API qn_tensor *qn_logical_and(qn_tensor *x, qn_tensor *y);
/* bool: either non-zero [gen logical_or 24821d8d 1f92dd5b] */
QN_API qn_tensor *qn_logical_or(qn_tensor *x, qn_tensor *y);
/* bool: exactly one non-zero [gen logical_xor dab3828f 7b180516] */
QN_API qn_tensor *qn_logical_xor(qn_tensor *x, qn_tensor *y);
/* remainder with x's sign, C's % and fmod; integers by 0 give x [gen rem 7b7473c0 1fd988ad] */
QN_API qn_tensor *qn_rem(qn_tensor *x, qn_tensor *y);
/* angle of the point (y, x): atan(x / y) in the right quadrant [gen atan2 24399854 60459ad4] */
QN_API qn_tensor *qn_atan2(qn_tensor *x, qn_tensor *y);
/* sqrt(x*x + y*y) without overflow [gen hypot 72ef1bce 8f1144a0] */
QN_API qn_tensor *qn_hypot(qn_tensor *x, qn_tensor *y);
/* log(e^x + e^y) without overflow [gen logaddexp e42f8c82 26d3b292] */
QN_API qn_tensor *qn_logaddexp(qn_tensor *x, qn_tensor *y);
/* x + t * (y - x) [gen lerp a893eab2 fb1bb93c] */
QN_API qn_tensor *qn_lerp(qn_tensor *x, qn_tensor *y, qn_tensor *t);
/* mean over an axis; integers give f32 [gen mean e3d02be0 3acf520d] */
QN_API qn_tensor *qn_mean(qn_tensor *x, int axis, bool keepdims);
/* mean over n axes [gen mean_axes b2bd2720 c6b81721] */
QN_API qn_tensor *qn_mean_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* variance: squares' sum over (count - correction); 1 gives the unbiased estimate
 * [gen variance defdfd71 b5813b40] */
QN_API qn_tensor *qn_variance(qn_tensor *x, int axis, double correction, bool keepdims);
/* variance over n axes [gen variance_axes b4b4218d 22043ae1] */
QN_API qn_tensor *qn_variance_axes(qn_tensor *x, int n, const int *axes, double correction,
                                   bool keepdims);
/* square root of the variance [gen std ec69aa44 f703efb3] */
QN_API qn_tensor *qn_std(qn_tensor *x, int axis, double correction, bool keepdims);
/* bool: is any element non-zero? [gen any ed10b950 77f43598] */
QN_API qn_tensor *qn_any(qn_tensor *x, int axis, bool keepdims);
/* bool: is every element non-zero? [gen all 18b4e94c 65288b99] */
QN_API qn_tensor *qn_all(qn_tensor *x, int axis, bool keepdims);
/* (sum |x|^p)^(1/p); infinity: the largest |x|; 0: how many are non-zero; powers are not scaled:
 * f32 overflows from about 1e19 for p = 2, as in PyTorch [gen norm e6ee56ec d9149015] */
QN_API qn_tensor *qn_norm(qn_tensor *x, double p, int axis, bool keepdims);
/* log(sum e^x) without overflow [gen logsumexp 886f778a a71ed0e1] */
QN_API qn_tensor *qn_logsumexp(qn_tensor *x, int axis, bool keepdims);
/* the same elements in row-major order; one size may be -1, meaning what is left
 * [gen reshape 0c92a3d2 19bf9c51] */
QN_API qn_tensor *qn_reshape(qn_tensor *x, int rank, const int64_t *shape);
/* axis i of the result is axis axes[i] of x [gen permute c3fe526d c2c84e1d] */
QN_API qn_tensor *qn_permute(qn_tensor *x, int n, const int *axes);
/* axes a and b exchanged [gen transpose 5d6f29fd 898158fd] */
QN_API qn_tensor *qn_transpose(qn_tensor *x, int a, int b);
/* broadcast to a shape; -1 keeps a size [gen expand 273865f9 888925fb] */
QN_API qn_tensor *qn_expand(qn_tensor *x, int rank, const int64_t *shape);
/* elements start, start + step, ... before stop; as in NumPy negative ones count from the end and
 * what is outside is cut off; stop QN_END: as far as it goes; step may be negative
 * [gen slice 78f3ee8c 2cc73bf3] */
QN_API qn_tensor *qn_slice(qn_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* x at one index of an axis, which is dropped [gen select 27307392 e2857d15] */
QN_API qn_tensor *qn_select(qn_tensor *x, int axis, int64_t index);
/* an axis, or with QN_ALL every axis, in reverse order [gen flip 73bdeb97 bec825d8] */
QN_API qn_tensor *qn_flip(qn_tensor *x, int axis);
/* element offset + sum of index * stride of x in row-major order [gen as_strided eaf0db10 9d3558f6]
 * */
QN_API qn_tensor *qn_as_strided(qn_tensor *x, int rank, const int64_t *shape,
                                const int64_t *strides, int64_t offset);
/* two numbers for each axis of x say how much to add before and after (negative: to cut off);
 * `value` is for QN_PAD_CONSTANT [gen pad 8ea8375c c6e1c525] */
QN_API qn_tensor *qn_pad(qn_tensor *x, const int64_t *before_after, qn_pad_mode mode, double value);
/* elements moved `shift` places onward, around the end [gen roll 9410ede1 6d902439] */
QN_API qn_tensor *qn_roll(qn_tensor *x, int64_t shift, int axis);
/* an axis of size 1, or with QN_ALL all such axes, dropped [gen squeeze 162103c3 0269983e] */
QN_API qn_tensor *qn_squeeze(qn_tensor *x, int axis);
/* a new axis of size 1 at `axis` of the result [gen unsqueeze 65db3114 b24b45f3] */
QN_API qn_tensor *qn_unsqueeze(qn_tensor *x, int axis);
/* axes first to last (included) merged into one [gen flatten 073b438a 61c49d8a] */
QN_API qn_tensor *qn_flatten(qn_tensor *x, int first, int last);
/* windows of `size` elements every `step` along an axis; the place within is a new last axis
 * [gen unfold d3839815 8bf65bea] */
QN_API qn_tensor *qn_unfold(qn_tensor *x, int axis, int64_t size, int64_t step);
/* elements [.., i, i + offset] of the last two axes as a new last axis
 * [gen diagonal 8173e6a9 fb19ec00] */
QN_API qn_tensor *qn_diagonal(qn_tensor *x, int64_t offset);
/* zeros below the k-th diagonal of the last two axes [gen triu 385c663b 302797bf] */
QN_API qn_tensor *qn_triu(qn_tensor *x, int64_t k);
/* zeros above the k-th diagonal of the last two axes [gen tril 13d55256 2f69659c] */
QN_API qn_tensor *qn_tril(qn_tensor *x, int64_t k);
/* tensors one after the other along an axis [gen concat 30942eae b3c98283] */
QN_API qn_tensor *qn_concat(int n, qn_tensor *const *xs, int axis);
/* tensors of one shape along a new axis [gen stack 66c828e0 82b4ec49] */
QN_API qn_tensor *qn_stack(int n, qn_tensor *const *xs, int axis);
/* concat along axis 0; vectors are rows [gen vstack 9a714657 a0e59c12] */
QN_API qn_tensor *qn_vstack(int n, qn_tensor *const *xs);
/* concat along axis 1; vectors along axis 0 [gen hstack b6176c5e 2d4c810c] */
QN_API qn_tensor *qn_hstack(int n, qn_tensor *const *xs);
/* n consecutive parts of the given sizes, which make up the axis [gen split d707b9bc db4ed45c] */
QN_API int qn_split(qn_tensor *x, int n, const int64_t *sizes, int axis, qn_tensor **out);
/* n consecutive parts, the first ones larger by one where n does not divide
 * [gen chunk 5cb1c505 a9af3beb] */
QN_API int qn_chunk(qn_tensor *x, int n, int axis, qn_tensor **out);
/* the whole repeated along the last n axes; new axes in front where n is above x's rank
 * [gen tile 52da775d 24ad9eba] */
QN_API qn_tensor *qn_tile(qn_tensor *x, int n, const int64_t *times);
/* each element repeated along an axis [gen repeat_interleave 22378812 1063eee8] */
QN_API qn_tensor *qn_repeat_interleave(qn_tensor *x, int64_t times, int axis);
/* n vectors expanded to their common grid, the first along axis 0 [gen meshgrid 712f7a9d 29d668e2]
 * */
QN_API int qn_meshgrid(int n, qn_tensor *const *xs, qn_tensor **out);
/* x[.., index[..], ..] along an axis; index has x's shape on all others
 * [gen gather 1be655d6 94d9e367] */
QN_API qn_tensor *qn_gather(qn_tensor *x, qn_tensor *index, int axis);
/* x with src[..] combined into place index[..] along an axis; with QN_COMBINE_SET the last one
 * stays [gen scatter d69c3848 cb9f0801] */
QN_API qn_tensor *qn_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                             qn_combine combine);
/* x at the indices along an axis, which is replaced by index's axes [gen take 2cab628c a57b40c9] */
QN_API qn_tensor *qn_take(qn_tensor *x, qn_tensor *index, int axis);
/* gather, broadcasting x and index on the other axes [gen take_along_axis c829a448 8e470423] */
QN_API qn_tensor *qn_take_along_axis(qn_tensor *x, qn_tensor *index, int axis);
/* x with slice i of src added to slice index[i]; index has rank 1 [gen index_add bad3f67b 5e7f5f44]
 * */
QN_API qn_tensor *qn_index_add(qn_tensor *x, int axis, qn_tensor *index, qn_tensor *src);
/* x with src, of x's rank and dtype, in place of the elements from start[axis] on; qn_assign(cache,
 * qn_update_slice(cache, new, start)) writes into the cache's own memory where nothing else needs
 * it [gen update_slice 9fc25fb0 84ff6ef0] */
QN_API qn_tensor *qn_update_slice(qn_tensor *x, qn_tensor *src, const int64_t *start);
/* a new last axis with 1 at the index, 0 elsewhere [gen one_hot 0241379e 111775d6] */
QN_API qn_tensor *qn_one_hot(qn_tensor *index, int64_t classes, qn_dtype dtype);
/* rows of weight at indices of any shape [gen embedding 96df46d8 d53dab62] */
QN_API qn_tensor *qn_embedding(qn_tensor *weight, qn_tensor *index);
/* matrix product over x's last and y's last but one axis, batched and broadcast over the others; a
 * vector is a row or column; in the operands' dtype, f16 and bf16 summed in f32: cast narrow
 * operands to i32 or f32 to keep whole sums, nothing wide is stored for it
 * [gen matmul ae3960ae 65c84606] */
QN_API qn_tensor *qn_matmul(qn_tensor *x, qn_tensor *y);
/* inner product of two vectors [gen dot a7b82f3d 92ec9dd2] */
QN_API qn_tensor *qn_dot(qn_tensor *x, qn_tensor *y);
/* x[i] * y[j] of two vectors [gen outer ec8a89bb 53b009ae] */
QN_API qn_tensor *qn_outer(qn_tensor *x, qn_tensor *y);
/* sum over n pairs of axes; the others of x, then of y, remain [gen tensordot b4ebf9b3 7e5b40e8] */
QN_API qn_tensor *qn_tensordot(qn_tensor *x, qn_tensor *y, int n, const int *x_axes,
                               const int *y_axes);
/* Einstein summation, e.g. "bij,bjk->bik"; axes go by letters, repeated ones take the diagonal,
 * "..." broadcasts [gen einsum 0dccda6f 73fd2029] */
QN_API qn_tensor *qn_einsum(const char *spec, int n, qn_tensor *const *xs);
/* x @ transpose(w) + b with w of shape [out, in]; b may be NULL [gen linear 28f85753 8b53a7c1] */
QN_API qn_tensor *qn_linear(qn_tensor *x, qn_tensor *w, qn_tensor *b);
/* convolution (as in networks: the kernel is not flipped) of [N, C, spatial..] with w [O, C/groups,
 * kernel..], plus b [O]: [N, O, floor((n + before + after - dilation*(kernel-1) - 1) / stride) + 1
 * ..]; b and options may be NULL [gen conv 3e70a6ca 4b5b924f] */
QN_API qn_tensor *qn_conv(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
/* conv over one spatial axis: x [N, C, L], w [O, C/groups, K] [gen conv1d 7733b8ee d5964e44] */
QN_API qn_tensor *qn_conv1d(qn_tensor *x, qn_tensor *w, qn_tensor *b, int64_t stride,
                            int64_t padding, int64_t dilation, int64_t groups);
/* conv over two, alike in both: x [N, C, H, W], w [O, C/groups, KH, KW]
 * [gen conv2d 0d396210 e1a51de6] */
QN_API qn_tensor *qn_conv2d(qn_tensor *x, qn_tensor *w, qn_tensor *b, int64_t stride,
                            int64_t padding, int64_t dilation, int64_t groups);
/* conv over three, alike in all: x [N, C, D, H, W], w [O, C/groups, KD, KH, KW]
 * [gen conv3d 0c99bad5 aa3ed614] */
QN_API qn_tensor *qn_conv3d(qn_tensor *x, qn_tensor *w, qn_tensor *b, int64_t stride,
                            int64_t padding, int64_t dilation, int64_t groups);
/* the gradient of conv for its input, plus b: x [N, C, spatial..], w [C, O/groups, kernel..]: [N,
 * O, (n-1)*stride - before - after + dilation*(kernel-1) + 1 + extra ..]
 * [gen conv_transpose c70f6887 0b5369f3] */
QN_API qn_tensor *qn_conv_transpose(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                                    const qn_conv_options *options);
/* the largest of each window of [N, C, spatial..]; padding loses; options may be NULL, the stride
 * is the window's size then; groups do not matter [gen max_pool 56552628 e439cd2e] */
QN_API qn_tensor *qn_max_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* the mean of each window, padding counting as zeros; as max_pool otherwise
 * [gen avg_pool a8de7df1 108d832c] */
QN_API qn_tensor *qn_avg_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* e^x over its sum along an axis [gen softmax bbf16004 a5bc65fb] */
QN_API qn_tensor *qn_softmax(qn_tensor *x, int axis);
/* logarithm of softmax without overflow [gen log_softmax c00e5b0a d4c94448] */
QN_API qn_tensor *qn_log_softmax(qn_tensor *x, int axis);
/* (x - mean) / sqrt(variance + eps) over the last axis, times gamma, plus beta (either may be NULL)
 * [gen layer_norm ab996488 9e73e577] */
QN_API qn_tensor *qn_layer_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps);
/* x / sqrt(mean(x*x) + eps) over the last axis, times gamma (may be NULL)
 * [gen rms_norm 77fb374b 920371a9] */
QN_API qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *gamma, double eps);
/* layer_norm of [N, C, ...] over each group of channels and all later axes; gamma and beta: [C] or
 * NULL [gen group_norm eef6e5d4 767cc398] */
QN_API qn_tensor *qn_group_norm(qn_tensor *x, int64_t groups, qn_tensor *gamma, qn_tensor *beta,
                                double eps);
/* softmax(q @ transpose(k) / sqrt(D)) @ v over [.., T, D]; causal: query i sees keys up to i + Tk -
 * Tq [gen attention 5e53f5d9 f5e99b77] */
QN_API qn_tensor *qn_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v, bool causal);
/* zeros with probability p, the rest times 1 / (1-p) [gen dropout 0ef9e317 71865a11] */
QN_API qn_tensor *qn_dropout(qn_tensor *x, double p, qn_tensor *key);
/* mean of -log_softmax(logits, -1) at the labels: [.., C] logits, [..] integers
 * [gen cross_entropy bc52b7f8 6021d615] */
QN_API qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *labels);
/* cross_entropy over the labels that are not `ignore`; NaN where there is none
 * [gen cross_entropy_ignoring 6dbdd24c dd373e8a] */
QN_API qn_tensor *qn_cross_entropy_ignoring(qn_tensor *logits, qn_tensor *labels, int64_t ignore);
/* mean of -log_p at the labels [gen nll_loss 5751db32 587de93f] */
QN_API qn_tensor *qn_nll_loss(qn_tensor *log_p, qn_tensor *labels);
/* mean of (x - y)^2 [gen mse_loss 61c2dd79 5d42e13f] */
QN_API qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y);
/* mean of |x - y| [gen l1_loss b675f20b 2b6bdf28] */
QN_API qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y);
/* mean of d*d/2 for d = |x - y| up to delta, delta * (d - delta/2) beyond
 * [gen huber_loss 2182d217 fa18e285] */
QN_API qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta);
/* mean of -(y*log_sigmoid(x) + (1-y)*log_sigmoid(-x)) [gen bce_with_logits f15571f6 00bccfda] */
QN_API qn_tensor *qn_bce_with_logits(qn_tensor *x, qn_tensor *y);
/* a key of shape [2], u32; one from qn_from serves as well, and may change without a new plan
 * [gen key 69f6d5df 0d3dd689] */
QN_API qn_tensor *qn_key(qn_ctx *qn, uint64_t seed);
/* another key, independent for each value of data [gen key_fold ba272ec2 1d584e2c] */
QN_API qn_tensor *qn_key_fold(qn_tensor *key, uint64_t data);
/* u32 from Threefry-2x32-20 (Salmon et al. 2011), the counter being the flat index
 * [gen random_bits 3f942054 d4d2ea66] */
QN_API qn_tensor *qn_random_bits(qn_tensor *key, int rank, const int64_t *shape);
/* floats in [0, 1), every multiple of the dtype's epsilon alike (f64: 53 bits)
 * [gen uniform 9468c023 6e2a2219] */
QN_API qn_tensor *qn_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* normal floats, mean 0 and variance 1 (Box-Muller) [gen randn eccdbc19 e5c4b537] */
QN_API qn_tensor *qn_randn(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* integers in [lo, hi), at most 2^32 different ones, all of which the dtype holds
 * [gen randint 6b8e1e18 f577babb] */
QN_API qn_tensor *qn_randint(qn_tensor *key, qn_dtype dtype, int64_t lo, int64_t hi, int rank,
                             const int64_t *shape);
/* bool: true with probability p [gen bernoulli e85c9f58 da10920e] */
QN_API qn_tensor *qn_bernoulli(qn_tensor *key, double p, int rank, const int64_t *shape);
/* == end of generated prototypes == */

#ifdef __cplusplus
}
#endif
#endif
