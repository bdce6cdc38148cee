/* quern.h - the public face of Quern, a tensor compiler and deep-learning library: contexts,
 * tensors, operations, gradients, static graphs, files. quern_nn.h has neural networks,
 * quern_tune.h tuning.
 *
 * Everything hangs off a context. Operations record nodes of a lazy graph; reading a value compiles
 * what it needs into few kernels and runs them. Constructors return a tensor or NULL; NULL in gives
 * NULL out, and the first error stays in the context until qn_clear_error(). Calls with effects
 * return a qn_code: QN_OK, or one below 0, which is that of the error in the context, of which
 * qn_error() is the text; so while an error is pending a call that fails gives the pending one's.
 * The library never aborts or exits, and prints nothing but what knob debug asks for and what
 * qn_options.log tells of. docs/api.md has the rules that names and arguments follow.
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
typedef struct qn_plan qn_plan; /* a static graph made by qn_plan_new */
typedef uint32_t qn_scope;

/* Element types. The order is the promotion order within a kind; values are stable. */
typedef enum qn_dtype {
    QN_BOOL = 0,
    QN_I8 = 1,
    QN_I16 = 2,
    QN_I32 = 3,
    QN_I64 = 4,
    QN_U8 = 5,
    QN_U16 = 6,
    QN_U32 = 7,
    QN_U64 = 8,
    QN_F16 = 9,
    QN_BF16 = 10,
    QN_F32 = 11,
    QN_F64 = 12
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

/* ---- structs ---------------------------------------------------------------------------- */

/* A struct of options begins with its size, so that a program goes on working with a later library,
 * in which the struct is longer. The macro of its name makes one, in C with fields as one likes:
 *     qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
 * in C++ with none: qn_options o = QN_OPTIONS(); o.device = "ref". What is not given is 0, which is
 * every field's default. A struct without its size is QN_EARG, and so is one of a later library
 * that asks for what this one does not know. What the library fills in (qn_stats) takes its size
 * as an argument instead. */
#ifdef __cplusplus
#define QN_STRUCT(type, ...)                                                                       \
    ([] {                                                                                          \
        type made = type();                                                                        \
        made.size = sizeof made;                                                                   \
        return made;                                                                               \
    }())
#else
#define QN_STRUCT(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif

/* ---- context ---------------------------------------------------------------------------- */

typedef struct qn_options {
    size_t size;                                           /* QN_OPTIONS() */
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
#define QN_OPTIONS(...) QN_STRUCT(qn_options, __VA_ARGS__)

/* Open a context, or NULL when there is no memory, no such device, or a knob that is none; see
 * qn_options.error, where nothing is written when options are not begun by QN_OPTIONS(). `options`
 * may be NULL. */
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
QN_API bool qn_device_at(int i, const char **name, const char **description);
/* What the context's device runs on, a line for each fact: its processor, the instructions its
 * kernels may use, which compiler makes them and why no other. "" where there is nothing to say.
 * Valid until the next call of this or of qn_format(). NULL only with an error. */
QN_API const char *qn_device_facts(qn_ctx *qn);
/* Set a knob (a QN_* row of docs/knobs.md, without prefix, lower case): qn_set(qn, "debug", "x").
 * QN_EARG, naming what there is, for an unknown one, a value that it does not take, and one that is
 * read when a context is opened. */
QN_API qn_code qn_set(qn_ctx *qn, const char *knob, const char *value);

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
QN_API qn_code qn_set_name(qn_tensor *t, const char *name);
QN_API const char *qn_name(const qn_tensor *t); /* NULL: none was given */

/* ---- tensors ---------------------------------------------------------------------------- */

/* A tensor holding a copy of `data` (row-major, prod(shape) elements of dtype). */
QN_API qn_tensor *qn_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                          const void *data);
/* A dimension variable: a size in [lo, hi] bound at run time by the data that is fed in
 * (qn_plan_run), or by qn_bind. What comes back is a code, below -1, that may be given wherever a
 * size is. QN_DIM_ERROR on error: it is no size, and refused wherever it is given. */
#define QN_DIM_ERROR INT64_MIN
QN_API int64_t qn_var(qn_ctx *qn, const char *name, int64_t lo, int64_t hi);
/* Sizes made of sizes, be they numbers or codes: t + 1, 2 * t, t / 2 rounded down. What is known is
 * a number. QN_ERANGE where the result may be below 0 or is beyond 2^63 at the variables' bounds.
 */
QN_API int64_t qn_dim_add(qn_ctx *qn, int64_t a, int64_t b);
QN_API int64_t qn_dim_sub(qn_ctx *qn, int64_t a, int64_t b);
QN_API int64_t qn_dim_mul(qn_ctx *qn, int64_t a, int64_t b);
QN_API int64_t qn_dim_div(qn_ctx *qn, int64_t a, int64_t b);
/* What a size is at the variables' bindings, QN_EARG where one is not bound; the least and the most
 * it can be, into lo and hi unless NULL. */
QN_API int64_t qn_dim_value(qn_ctx *qn, int64_t dim);
QN_API qn_code qn_dim_range(qn_ctx *qn, int64_t dim, int64_t *lo, int64_t *hi);
/* A size as text, "5" or "2*t+1", valid until the next call of this or of qn_format(). NULL only
 * with an error. */
QN_API const char *qn_dim_text(qn_ctx *qn, int64_t dim);
/* Bind a dimension variable for the runs that follow. What depends on it stays an expression, read
 * or not: asked for after this it is computed anew, under the new value. Values stay what they are:
 * data, assigned tensors once they were computed, outputs of runs; where their size depends on the
 * variable they fit the bindings they were made under, and others are QN_ESHAPE. QN_EGRAPH comes
 * from an expression whose source is gone, the old value of a tensor that was assigned to since. */
QN_API qn_code qn_bind(qn_ctx *qn, int64_t var, int64_t value);
/* The context t belongs to; NULL for NULL and for one that was released. */
QN_API qn_ctx *qn_context(const qn_tensor *t);
QN_API qn_dtype qn_dtype_of(const qn_tensor *t);
/* How many axes; -1 on error, and for NULL. */
QN_API int qn_rank(const qn_tensor *t);
/* Size along `axis` (negative counts from the end), or the code of one that varies, below -1;
 * QN_DIM_ERROR on error, and for NULL. */
QN_API int64_t qn_dim(const qn_tensor *t, int axis);
/* Number of elements at the current bindings; -1 on error, and for NULL. */
QN_API int64_t qn_numel(const qn_tensor *t);
QN_API size_t qn_dtype_size(qn_dtype dtype);
QN_API const char *qn_dtype_name(qn_dtype dtype);
/* The dtype in which two meet, as the array API's table has it; an integer with a float gives the
 * float's. -1 where one is none. */
QN_API qn_dtype qn_dtype_promote(qn_dtype a, qn_dtype b);
/* Compute what is needed and copy the value out, row-major; `size` is the buffer's size in bytes
 * and must hold the whole value, else QN_ERANGE and nothing is written. */
QN_API qn_code qn_read(qn_tensor *t, void *out, size_t size);
/* Compute these tensors (and every pending assignment) now, in one plan. For speed nobody needs to:
 * what requests compute again while a handle holds it is kept (knob kept_memory). */
QN_API qn_code qn_realize(int n, qn_tensor *const *ts);
/* t takes the value of `value` (same shape and dtype): an ordered effect. A tensor's values are
 * versions: what was recorded before keeps the old one, and where nothing does the new one is
 * written in its place. Gradients end at an assignment: t is a leaf. t is a variable, that is a
 * tensor in memory (qn_from, read, realized, assigned before) or a first value made of no data; or
 * a view of one by slices, reshapes, permutations and flips, which then gets a new version with
 * these places overwritten, and t shows them. Anything else is refused (QN_EGRAPH). */
QN_API qn_code qn_assign(qn_tensor *t, qn_tensor *value);
/* Overwrite t's value by data from the caller; as qn_assign of qn_from. */
QN_API qn_code qn_write(qn_tensor *t, const void *data, size_t size);
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
 * tensor and where that came about. Outputs of qn_plan_run have no history: detach them. */
QN_API qn_code qn_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out);
/* While a tape is open, every value is kept that something recorded was made of, those of tensors
 * that were assigned to since, too, and history has no bounds. */
QN_API qn_tape *qn_tape_begin(qn_ctx *qn);
QN_API void qn_tape_end(qn_tape *tape);

/* ---- static graphs ---------------------------------------------------------------------- */

/* One plan computing `outputs` from `inputs`, replayed by qn_plan_run. Inputs are different tensors
 * in memory: data (qn_from), or expressions that were realized before anything was made of them.
 * What is made of an input follows it, read before or not; everything else that lies in memory is a
 * parameter, read anew at each run, so that qn_assign and qn_write on it are seen; so are values of
 * assigned tensors and outputs of other plans. Assignments pending now become part of the plan, and
 * each run makes them, but for those of values that are there and follow no input. Nothing is
 * computed by this call but first values of modules' parameters that were not yet. QN_EGRAPH where
 * it cannot be known what follows an input: history was cut (knob history), or parameters were
 * released or overwritten since. */
QN_API qn_plan *qn_plan_new(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                            qn_tensor *const *outputs);
/* outputs[i] receives a fresh tensor each; after an error they are as they were. An input compiled
 * for a shape with dimension variables takes data of any sizes in their ranges: variables that are
 * a size of their own are bound to the data's, as by qn_bind; all inputs must agree. */
QN_API qn_code qn_plan_run(qn_plan *plan, qn_tensor *const *inputs, qn_tensor **outputs);
QN_API void qn_plan_free(qn_plan *plan);

/* ---- files ------------------------------------------------------------------------------ */

typedef struct qn_save_options {
    size_t size;                 /* QN_SAVE_OPTIONS() */
    const char *const *metadata; /* texts stored along: keys and values by turns */
    int pairs;                   /* how many */
} qn_save_options;
#define QN_SAVE_OPTIONS(...) QN_STRUCT(qn_save_options, __VA_ARGS__)
/* Write n named tensors as a safetensors file; options may be NULL. Values are computed first where
 * need be. The file appears under `path` only when it is complete. Names must be UTF-8 and all
 * different. */
QN_API qn_code qn_save(qn_ctx *qn, const char *path, int n, const char *const *names,
                       qn_tensor *const *tensors, const qn_save_options *options);
/* A safetensors file opened for reading: its list of tensors is checked, their values stay in the
 * file until asked for. A file that is damaged is QN_EFORMAT, saying where. Close it before its
 * context. */
typedef struct qn_file qn_file;
QN_API qn_file *qn_file_open(qn_ctx *qn, const char *path);
QN_API int qn_file_count(const qn_file *file);
/* Name of tensor `i` in the order of the file's list, NULL past the last. */
QN_API const char *qn_file_name(const qn_file *file, int i);
/* A new tensor with the value stored under `name`; QN_EARG when there is none. */
QN_API qn_tensor *qn_file_tensor(const qn_file *file, const char *name);
/* The text stored under a metadata key, NULL when there is none. Valid until the file is closed. */
QN_API const char *qn_file_text(const qn_file *file, const char *key);
QN_API void qn_file_close(qn_file *file);

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
/* Into out, of `size` bytes: qn_get_stats(qn, &stats, sizeof stats). */
QN_API void qn_get_stats(const qn_ctx *qn, qn_stats *out, size_t size);

/* ---- operations ------------------------------------------------------------------------- */

/* Broadcasting is NumPy's; dtypes promote as the array API says, and an integer with a float gives
 * the float's type. Functions that have no meaning for integers take them as f32. Axes may be
 * negative. Sizes may be codes from qn_var() and qn_dim(). */

#define QN_ALL (-2147483647 - 1) /* for an axis: every axis */
#define QN_END INT64_MAX         /* for the stop of a slice: as far as it goes */

typedef enum qn_pad_mode {
    QN_PAD_CONSTANT = 0, /* with a value */
    QN_PAD_REFLECT = 1,  /* c b [a b c] b a */
    QN_PAD_EDGE = 2,     /* a a [a b c] c c */
    QN_PAD_CIRCULAR = 3  /* b c [a b c] a b */
} qn_pad_mode;

/* How qn_scatter brings a new value and the one that is there together. */
typedef enum qn_combine {
    QN_COMBINE_SET = 0,
    QN_COMBINE_SUM = 1,
    QN_COMBINE_PROD = 2,
    QN_COMBINE_MAX = 3,
    QN_COMBINE_MIN = 4,
    QN_COMBINE_AND = 5,
    QN_COMBINE_OR = 6
} qn_combine;

/* How windows go over the spatial axes of an image [N, C, spatial..]; one to three axes. What is 0
 * counts as 1, but for padding. */
typedef struct qn_conv_options {
    size_t size;                 /* QN_CONV_OPTIONS() */
    int64_t stride[3];           /* from window to window; 0 in pooling: the window's size */
    int64_t dilation[3];         /* from place to place in a window */
    int64_t before[3], after[3]; /* zeros around the image (in max_pool, what loses) */
    int64_t extra[3];            /* conv_transpose: places at the end that the stride leaves open */
    int64_t groups;              /* each with its own channels; as many as channels: depthwise */
    bool same;                   /* in place of before and after: ceil(n / stride) windows */
    bool channels_last;          /* images are [N, spatial.., C]; weights are as ever */
} qn_conv_options;
#define QN_CONV_OPTIONS(...) QN_STRUCT(qn_conv_options, __VA_ARGS__)

typedef struct qn_attention_options {
    size_t size; /* QN_ATTENTION_OPTIONS() */
    bool causal; /* no query sees keys after it; the last one sees all */
} qn_attention_options;
#define QN_ATTENTION_OPTIONS(...) QN_STRUCT(qn_attention_options, __VA_ARGS__)

/* == generated by tools/gen.py from the rows of src/graph/ops.h and src/func/funcs.h == */

/* ---- operations: making ------------------------------------------------------------------- */

/* `value` at every index, in dtype; QN_ERANGE where an integer dtype does not hold it */
QN_API qn_tensor *qn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value);
/* as full, of an integer: exact beyond 2^53, too; floats take it rounded once */
QN_API qn_tensor *qn_full_int(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                              int64_t value);
/* zeros of a shape and dtype */
QN_API qn_tensor *qn_zeros(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape);
/* ones of a shape and dtype */
QN_API qn_tensor *qn_ones(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape);
/* a tensor of rank 0 in dtype; QN_ERANGE where an integer dtype does not hold the value */
QN_API qn_tensor *qn_scalar(qn_ctx *qn, qn_dtype dtype, double value);
/* as scalar, of an integer: exact beyond 2^53, too; floats take it rounded once */
QN_API qn_tensor *qn_scalar_int(qn_ctx *qn, qn_dtype dtype, int64_t value);
/* a scalar of x's dtype, whatever that is, to compute with x: qn_mul(x, qn_like(x, 2)); QN_ERANGE
 * where an integer dtype does not hold the value */
QN_API qn_tensor *qn_like(qn_tensor *x, double value);
/* a scalar to compute with x that does not change x's dtype, as numbers of Python do with PyTorch:
 * in x's dtype where that is a float, else f32; qn_mul(x, qn_weak(x, 0.5)) */
QN_API qn_tensor *qn_weak(qn_tensor *x, double value);
/* as weak, of an integer: exactly, in x's dtype, which is a float or holds it, else QN_ERANGE;
 * beside bools it is i64 */
QN_API qn_tensor *qn_weak_int(qn_tensor *x, int64_t value);
/* `value` in x's dtype and shape; QN_ERANGE where an integer dtype does not hold it */
QN_API qn_tensor *qn_full_like(qn_tensor *x, double value);
/* zeros in x's dtype and shape */
QN_API qn_tensor *qn_zeros_like(qn_tensor *x);
/* ones in x's dtype and shape */
QN_API qn_tensor *qn_ones_like(qn_tensor *x);
/* the index along an axis, at every index of a shape */
QN_API qn_tensor *qn_iota(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int axis);
/* [n]: start, start + step, ... below stop (above it for a negative step); QN_ERANGE for a step of
 * 0 */
QN_API qn_tensor *qn_arange(qn_ctx *qn, qn_dtype dtype, double start, double stop, double step);
/* as arange, of integers: exact beyond 2^53, too; QN_ERANGE for a step of 0 and where an integer
 * dtype does not hold the ends */
QN_API qn_tensor *qn_arange_int(qn_ctx *qn, qn_dtype dtype, int64_t start, int64_t stop,
                                int64_t step);
/* [n]: evenly spaced numbers from start to stop, both included */
QN_API qn_tensor *qn_linspace(qn_ctx *qn, qn_dtype dtype, double start, double stop, int64_t n);
/* [rows, columns]: ones on the diagonal, zeros elsewhere */
QN_API qn_tensor *qn_eye(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t columns);

/* ---- operations: converting --------------------------------------------------------------- */

/* another dtype: rounded to nearest even, wrapped, or truncated and clamped (NaN gives 0); bool: x
 * != 0 */
QN_API qn_tensor *qn_cast(qn_tensor *x, qn_dtype dtype);
/* the same bits as a dtype of equal size, else QN_EDTYPE; as bool: not 0 */
QN_API qn_tensor *qn_bitcast(qn_tensor *x, qn_dtype dtype);

/* ---- operations: elementwise, one argument ------------------------------------------------ */

/* Of any shape, which the result has; floats, integers and bools as f32 unless they stay. */

/* -x (integers and floats) */
QN_API qn_tensor *qn_neg(qn_tensor *x);
/* absolute value (integers and floats) */
QN_API qn_tensor *qn_abs(qn_tensor *x);
/* 1 / x (floats; integers and bools as f32) */
QN_API qn_tensor *qn_reciprocal(qn_tensor *x);
/* square root; NaN below 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sqrt(qn_tensor *x);
/* cube root, with x's sign (floats; integers and bools as f32) */
QN_API qn_tensor *qn_cbrt(qn_tensor *x);
/* e^x (floats; integers and bools as f32) */
QN_API qn_tensor *qn_exp(qn_tensor *x);
/* 2^x (floats; integers and bools as f32) */
QN_API qn_tensor *qn_exp2(qn_tensor *x);
/* e^x - 1, exact near 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_expm1(qn_tensor *x);
/* natural logarithm; NaN below 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_log(qn_tensor *x);
/* logarithm to base 2 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_log2(qn_tensor *x);
/* log(1 + x), exact near 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_log1p(qn_tensor *x);
/* sine of radians (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sin(qn_tensor *x);
/* cosine of radians (floats; integers and bools as f32) */
QN_API qn_tensor *qn_cos(qn_tensor *x);
/* arc sine; NaN outside [-1, 1] (floats; integers and bools as f32) */
QN_API qn_tensor *qn_asin(qn_tensor *x);
/* arc cosine; NaN outside [-1, 1] (floats; integers and bools as f32) */
QN_API qn_tensor *qn_acos(qn_tensor *x);
/* arc tangent in radians (floats; integers and bools as f32) */
QN_API qn_tensor *qn_atan(qn_tensor *x);
/* inverse of sinh (floats; integers and bools as f32) */
QN_API qn_tensor *qn_asinh(qn_tensor *x);
/* inverse of cosh; NaN below 1 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_acosh(qn_tensor *x);
/* inverse of tanh; NaN outside [-1, 1] (floats; integers and bools as f32) */
QN_API qn_tensor *qn_atanh(qn_tensor *x);
/* hyperbolic sine (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sinh(qn_tensor *x);
/* hyperbolic cosine (floats; integers and bools as f32) */
QN_API qn_tensor *qn_cosh(qn_tensor *x);
/* hyperbolic tangent (floats; integers and bools as f32) */
QN_API qn_tensor *qn_tanh(qn_tensor *x);
/* 1 / (1 + e^-x) (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sigmoid(qn_tensor *x);
/* log(1 + e^x) without overflow (floats; integers and bools as f32) */
QN_API qn_tensor *qn_softplus(qn_tensor *x);
/* error function (floats; integers and bools as f32) */
QN_API qn_tensor *qn_erf(qn_tensor *x);
/* 1 - erf(x), exact where that is small (floats; integers and bools as f32) */
QN_API qn_tensor *qn_erfc(qn_tensor *x);
/* x * sigmoid(x), also called swish (floats; integers and bools as f32) */
QN_API qn_tensor *qn_silu(qn_tensor *x);
/* derivative of silu (floats; integers and bools as f32) */
QN_API qn_tensor *qn_silu_slope(qn_tensor *x);
/* x * Phi(x), Phi the normal distribution function (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu(qn_tensor *x);
/* derivative of gelu: Phi(x) + x * e^(-x*x/2) / sqrt(2*pi) (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu_slope(qn_tensor *x);
/* gelu's approximation by tanh, as in GPT-2: x * sigmoid(sqrt(8/pi) * (x + 0.044715 * x^3))
 * (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu_tanh(qn_tensor *x);
/* derivative of gelu_tanh (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu_tanh_slope(qn_tensor *x);
/* x * tanh(softplus(x)) (floats; integers and bools as f32) */
QN_API qn_tensor *qn_mish(qn_tensor *x);
/* largest integer not above x; integers stay (integers and floats) */
QN_API qn_tensor *qn_floor(qn_tensor *x);
/* smallest integer not below x; integers stay (integers and floats) */
QN_API qn_tensor *qn_ceil(qn_tensor *x);
/* nearest integer, ties to even; integers stay (integers and floats) */
QN_API qn_tensor *qn_round(qn_tensor *x);
/* x without its fraction; integers stay (integers and floats) */
QN_API qn_tensor *qn_trunc(qn_tensor *x);
/* every bit inverted; logical not for bool (bools and integers) */
QN_API qn_tensor *qn_not(qn_tensor *x);
/* x above 0, else 0; derivative 0 at 0 */
QN_API qn_tensor *qn_relu(qn_tensor *x);
/* -1, 0 or 1; NaN stays */
QN_API qn_tensor *qn_sign(qn_tensor *x);
/* log(sigmoid(x)) without overflow */
QN_API qn_tensor *qn_log_sigmoid(qn_tensor *x);
/* 1 / sqrt(x) */
QN_API qn_tensor *qn_rsqrt(qn_tensor *x);
/* x * x */
QN_API qn_tensor *qn_square(qn_tensor *x);
/* logarithm to base 10 */
QN_API qn_tensor *qn_log10(qn_tensor *x);
/* tangent of radians */
QN_API qn_tensor *qn_tan(qn_tensor *x);
/* bool: is x not a number? */
QN_API qn_tensor *qn_isnan(qn_tensor *x);
/* bool: is x an infinity? */
QN_API qn_tensor *qn_isinf(qn_tensor *x);
/* bool: neither infinite nor NaN? */
QN_API qn_tensor *qn_isfinite(qn_tensor *x);
/* bool: is x zero? */
QN_API qn_tensor *qn_logical_not(qn_tensor *x);
/* x clamped to [0, 6] */
QN_API qn_tensor *qn_relu6(qn_tensor *x);
/* x * relu6(x + 3) / 6 */
QN_API qn_tensor *qn_hardswish(qn_tensor *x);
/* relu6(x + 3) / 6 */
QN_API qn_tensor *qn_hardsigmoid(qn_tensor *x);
/* scaled elu, constants of Klambauer et al. 2017 */
QN_API qn_tensor *qn_selu(qn_tensor *x);
/* x above 0, else alpha * (e^x - 1) */
QN_API qn_tensor *qn_elu(qn_tensor *x, double alpha);
/* x above 0, else slope * x */
QN_API qn_tensor *qn_leaky_relu(qn_tensor *x, double slope);
/* the smaller of hi and the larger of lo and x; NaN stays, but is no bound; integers keep to the
 * integers within */
QN_API qn_tensor *qn_clamp(qn_tensor *x, double lo, double hi);

/* ---- operations: elementwise, two arguments and more -------------------------------------- */

/* Shapes broadcast, else QN_ESHAPE; dtypes meet as the array API says. */

/* x + y (integers and floats) */
QN_API qn_tensor *qn_add(qn_tensor *x, qn_tensor *y);
/* x - y (integers and floats) */
QN_API qn_tensor *qn_sub(qn_tensor *x, qn_tensor *y);
/* x * y (integers and floats) */
QN_API qn_tensor *qn_mul(qn_tensor *x, qn_tensor *y);
/* x / y (floats; integers and bools as f32) */
QN_API qn_tensor *qn_div(qn_tensor *x, qn_tensor *y);
/* floor(x / y); integers by 0 give 0 (integers and floats) */
QN_API qn_tensor *qn_floor_div(qn_tensor *x, qn_tensor *y);
/* x - y*floor(x / y), with y's sign; integers by 0 give 0 (integers and floats) */
QN_API qn_tensor *qn_mod(qn_tensor *x, qn_tensor *y);
/* x to the power y, as IEEE pow; integers exactly, wrapped, to a negative power without the
 * fraction: 0 but for 1 and -1 (integers and floats) */
QN_API qn_tensor *qn_pow(qn_tensor *x, qn_tensor *y);
/* angle of the point (y, x): atan(x / y) in the right quadrant (floats; integers and bools as f32)
 * */
QN_API qn_tensor *qn_atan2(qn_tensor *x, qn_tensor *y);
/* sqrt(x*x + y*y) without overflow (floats; integers and bools as f32) */
QN_API qn_tensor *qn_hypot(qn_tensor *x, qn_tensor *y);
/* log(e^x + e^y) without overflow (floats; integers and bools as f32) */
QN_API qn_tensor *qn_logaddexp(qn_tensor *x, qn_tensor *y);
/* the larger; NaN when either is (any dtype) */
QN_API qn_tensor *qn_maximum(qn_tensor *x, qn_tensor *y);
/* the smaller; NaN when either is (any dtype) */
QN_API qn_tensor *qn_minimum(qn_tensor *x, qn_tensor *y);
/* x < y (any dtypes; gives bool) */
QN_API qn_tensor *qn_lt(qn_tensor *x, qn_tensor *y);
/* x <= y (any dtypes; gives bool) */
QN_API qn_tensor *qn_le(qn_tensor *x, qn_tensor *y);
/* x == y (any dtypes; gives bool) */
QN_API qn_tensor *qn_eq(qn_tensor *x, qn_tensor *y);
/* x != y (any dtypes; gives bool) */
QN_API qn_tensor *qn_ne(qn_tensor *x, qn_tensor *y);
/* bitwise and (bools and integers) */
QN_API qn_tensor *qn_and(qn_tensor *x, qn_tensor *y);
/* bitwise or (bools and integers) */
QN_API qn_tensor *qn_or(qn_tensor *x, qn_tensor *y);
/* bitwise exclusive or (bools and integers) */
QN_API qn_tensor *qn_xor(qn_tensor *x, qn_tensor *y);
/* x * 2^y; 0 for y past the width (integers) */
QN_API qn_tensor *qn_shl(qn_tensor *x, qn_tensor *y);
/* floor(x / 2^y): arithmetic for signed, logical for unsigned (integers) */
QN_API qn_tensor *qn_shr(qn_tensor *x, qn_tensor *y);
/* y where x, else z (x bool, y and z any dtypes) */
QN_API qn_tensor *qn_where(qn_tensor *x, qn_tensor *y, qn_tensor *z);
/* x*y + z with one rounding (floats; integers and bools as f32) */
QN_API qn_tensor *qn_fma(qn_tensor *x, qn_tensor *y, qn_tensor *z);
/* bool: x > y */
QN_API qn_tensor *qn_gt(qn_tensor *x, qn_tensor *y);
/* bool: x >= y */
QN_API qn_tensor *qn_ge(qn_tensor *x, qn_tensor *y);
/* bool: both non-zero */
QN_API qn_tensor *qn_logical_and(qn_tensor *x, qn_tensor *y);
/* bool: either non-zero */
QN_API qn_tensor *qn_logical_or(qn_tensor *x, qn_tensor *y);
/* bool: exactly one non-zero */
QN_API qn_tensor *qn_logical_xor(qn_tensor *x, qn_tensor *y);
/* remainder with x's sign, C's % and fmod; integers by 0 give x */
QN_API qn_tensor *qn_rem(qn_tensor *x, qn_tensor *y);
/* x + t * (y - x) */
QN_API qn_tensor *qn_lerp(qn_tensor *x, qn_tensor *y, qn_tensor *t);

/* ---- operations: reductions --------------------------------------------------------------- */

/* Axis QN_ALL means every axis; keepdims leaves reduced axes with size 1; _axes takes a list, in
 * which no axis may come twice, and of none changes nothing. Sums and products of integers are in
 * 64 bits. QN_ERANGE for an axis that x lacks. */

/* sum over axes; of what is repeated n times n*x, rounded once (integers and floats) */
QN_API qn_tensor *qn_sum(qn_tensor *x, int axis, bool keepdims);
/* as sum, over n axes */
QN_API qn_tensor *qn_sum_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* product over axes; of what is repeated n times x^n (integers and floats) */
QN_API qn_tensor *qn_prod(qn_tensor *x, int axis, bool keepdims);
/* as prod, over n axes */
QN_API qn_tensor *qn_prod_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* largest over axes; NaN when one is there (any dtype) */
QN_API qn_tensor *qn_max(qn_tensor *x, int axis, bool keepdims);
/* as max, over n axes */
QN_API qn_tensor *qn_max_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* smallest over axes; NaN when one is there (any dtype) */
QN_API qn_tensor *qn_min(qn_tensor *x, int axis, bool keepdims);
/* as min, over n axes */
QN_API qn_tensor *qn_min_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* first index of the largest, in the flat order of axes (any dtype; gives i64) */
QN_API qn_tensor *qn_argmax(qn_tensor *x, int axis, bool keepdims);
/* as argmax, over n axes */
QN_API qn_tensor *qn_argmax_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* first index of the smallest, in the flat order of axes (any dtype; gives i64) */
QN_API qn_tensor *qn_argmin(qn_tensor *x, int axis, bool keepdims);
/* as argmin, over n axes */
QN_API qn_tensor *qn_argmin_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* mean over an axis; integers and bools give f32 */
QN_API qn_tensor *qn_mean(qn_tensor *x, int axis, bool keepdims);
/* as mean, over n axes */
QN_API qn_tensor *qn_mean_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* variance: squares' sum over (count - correction); 1 gives the unbiased estimate; integers and
 * bools give f32 */
QN_API qn_tensor *qn_variance(qn_tensor *x, int axis, double correction, bool keepdims);
/* as variance, over n axes */
QN_API qn_tensor *qn_variance_axes(qn_tensor *x, int n, const int *axes, double correction,
                                   bool keepdims);
/* square root of the variance; integers and bools give f32 */
QN_API qn_tensor *qn_std(qn_tensor *x, int axis, double correction, bool keepdims);
/* as std, over n axes */
QN_API qn_tensor *qn_std_axes(qn_tensor *x, int n, const int *axes, double correction,
                              bool keepdims);
/* bool: is any element non-zero? any dtype */
QN_API qn_tensor *qn_any(qn_tensor *x, int axis, bool keepdims);
/* as any, over n axes */
QN_API qn_tensor *qn_any_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* bool: is every element non-zero? any dtype */
QN_API qn_tensor *qn_all(qn_tensor *x, int axis, bool keepdims);
/* as all, over n axes */
QN_API qn_tensor *qn_all_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* (sum |x|^p)^(1/p); infinity: the largest |x|; 0: how many are non-zero; powers are not scaled:
 * f32 overflows from about 1e19 for p = 2, as in PyTorch */
QN_API qn_tensor *qn_norm(qn_tensor *x, int axis, double p, bool keepdims);
/* as norm, over n axes together: the vector norm of all their elements */
QN_API qn_tensor *qn_norm_axes(qn_tensor *x, int n, const int *axes, double p, bool keepdims);
/* log(sum e^x) without overflow; integers and bools give f32 */
QN_API qn_tensor *qn_logsumexp(qn_tensor *x, int axis, bool keepdims);
/* as logsumexp, over n axes */
QN_API qn_tensor *qn_logsumexp_axes(qn_tensor *x, int n, const int *axes, bool keepdims);

/* ---- operations: movement ----------------------------------------------------------------- */

/* No element is copied or computed. */

/* the same elements in row-major order; one size may be -1, meaning what is left; QN_ESHAPE where
 * the number of elements differs */
QN_API qn_tensor *qn_reshape(qn_tensor *x, int rank, const int64_t *shape);
/* axis i of the result is axis axes[i] of x; n is x's rank */
QN_API qn_tensor *qn_permute(qn_tensor *x, int n, const int *axes);
/* axes a and b exchanged */
QN_API qn_tensor *qn_transpose(qn_tensor *x, int a, int b);
/* broadcast to a shape, which may have more axes in front; -1 keeps a size; QN_ESHAPE where one is
 * neither 1 nor equal */
QN_API qn_tensor *qn_expand(qn_tensor *x, int rank, const int64_t *shape);
/* elements start, start + step, ... before stop; as in NumPy negative ones count from the end and
 * what is outside is cut off; stop QN_END: as far as it goes; step may be negative */
QN_API qn_tensor *qn_slice(qn_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* x at one index of an axis, which is dropped; QN_ERANGE outside of it */
QN_API qn_tensor *qn_select(qn_tensor *x, int axis, int64_t index);
/* an axis, or with QN_ALL every axis, in reverse order */
QN_API qn_tensor *qn_flip(qn_tensor *x, int axis);
/* n axes in reverse order */
QN_API qn_tensor *qn_flip_axes(qn_tensor *x, int n, const int *axes);
/* element offset + sum of index * stride of x in row-major order; QN_ERANGE where that is outside
 * of x */
QN_API qn_tensor *qn_as_strided(qn_tensor *x, int rank, const int64_t *shape,
                                const int64_t *strides, int64_t offset);
/* two numbers for each axis of x say how much to add before and after (negative: to cut off);
 * `value` is for QN_PAD_CONSTANT */
QN_API qn_tensor *qn_pad(qn_tensor *x, const int64_t *before_after, qn_pad_mode mode, double value);
/* elements moved `shift` places onward along an axis, around the end; `shift` may be negative or
 * beyond the size */
QN_API qn_tensor *qn_roll(qn_tensor *x, int axis, int64_t shift);
/* as roll along n axes, one after the other, each by its shift; an axis may come twice */
QN_API qn_tensor *qn_roll_axes(qn_tensor *x, int n, const int *axes, const int64_t *shifts);
/* an axis of size 1, or with QN_ALL all such axes, dropped */
QN_API qn_tensor *qn_squeeze(qn_tensor *x, int axis);
/* n axes of size 1 dropped; QN_ESHAPE where one is not */
QN_API qn_tensor *qn_squeeze_axes(qn_tensor *x, int n, const int *axes);
/* a new axis of size 1 at `axis` of the result */
QN_API qn_tensor *qn_unsqueeze(qn_tensor *x, int axis);
/* n new axes of size 1, at these places of the result */
QN_API qn_tensor *qn_unsqueeze_axes(qn_tensor *x, int n, const int *axes);
/* axes first to last (included) merged into one */
QN_API qn_tensor *qn_flatten(qn_tensor *x, int first, int last);
/* windows of `size` elements every `step` along an axis; the place within is a new last axis */
QN_API qn_tensor *qn_unfold(qn_tensor *x, int axis, int64_t size, int64_t step);
/* elements [.., i, i + offset] of the last two axes as a new last axis */
QN_API qn_tensor *qn_diagonal(qn_tensor *x, int64_t offset);
/* zeros below the k-th diagonal of the last two axes */
QN_API qn_tensor *qn_triu(qn_tensor *x, int64_t k);
/* zeros above the k-th diagonal of the last two axes */
QN_API qn_tensor *qn_tril(qn_tensor *x, int64_t k);

/* ---- operations: joining and splitting ---------------------------------------------------- */

/* tensors one after the other along an axis; their other sizes are equal, their dtypes meet */
QN_API qn_tensor *qn_concat(int n, qn_tensor *const *xs, int axis);
/* tensors of one shape along a new axis at `axis` of the result */
QN_API qn_tensor *qn_stack(int n, qn_tensor *const *xs, int axis);
/* concat along axis 0; vectors are rows */
QN_API qn_tensor *qn_vstack(int n, qn_tensor *const *xs);
/* concat along axis 1; vectors along axis 0 */
QN_API qn_tensor *qn_hstack(int n, qn_tensor *const *xs);
/* n consecutive parts of the given sizes, which make up the axis, else QN_ESHAPE, into out[n] */
QN_API qn_code qn_split(qn_tensor *x, int axis, int n, const int64_t *sizes, qn_tensor **out);
/* n consecutive parts, the first ones larger by one where n does not divide, into out[n] */
QN_API qn_code qn_chunk(qn_tensor *x, int axis, int n, qn_tensor **out);
/* the whole repeated along the last n axes; new axes in front where n is above x's rank */
QN_API qn_tensor *qn_tile(qn_tensor *x, int n, const int64_t *times);
/* each element repeated along an axis, at its place; `times` from 0 on */
QN_API qn_tensor *qn_repeat_interleave(qn_tensor *x, int axis, int64_t times);
/* n vectors expanded to their common grid of n axes, the first along axis 0, into out[n] */
QN_API qn_code qn_meshgrid(int n, qn_tensor *const *xs, qn_tensor **out);

/* ---- operations: computed indices --------------------------------------------------------- */

/* Negative ones are not special; those outside are an error where they are known when the graph is
 * made and under QN_CHECK, else give 0 or are dropped. */

/* x[.., index[..], ..] along an axis; index, of integers, has x's shape on all other axes, and the
 * result index's */
QN_API qn_tensor *qn_gather(qn_tensor *x, qn_tensor *index, int axis);
/* x with src[..] combined into place index[..] along an axis; with QN_COMBINE_SET the last one
 * stays */
QN_API qn_tensor *qn_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                             qn_combine combine);
/* x at the indices, of integers, along an axis, which is replaced by index's axes */
QN_API qn_tensor *qn_take(qn_tensor *x, qn_tensor *index, int axis);
/* gather, broadcasting x and index on the other axes */
QN_API qn_tensor *qn_take_along_axis(qn_tensor *x, qn_tensor *index, int axis);
/* x with slice i of src added to slice index[i]; index has rank 1 */
QN_API qn_tensor *qn_index_add(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis);
/* x with src, of x's rank and dtype, in place of the elements from start[axis] on; qn_assign(cache,
 * qn_update_slice(cache, new, start)) writes into the cache's own memory where nothing else needs
 * it */
QN_API qn_tensor *qn_update_slice(qn_tensor *x, qn_tensor *src, const int64_t *start);
/* a new last axis of size `classes` with 1 at the index, 0 elsewhere, in dtype */
QN_API qn_tensor *qn_one_hot(qn_tensor *index, int64_t classes, qn_dtype dtype);
/* rows of weight [rows, width] at indices, integers of any shape: [.., width] */
QN_API qn_tensor *qn_embedding(qn_tensor *weight, qn_tensor *index);

/* ---- operations: products ----------------------------------------------------------------- */

/* In the dtype in which the operands meet; sizes that are summed over are equal, else QN_ESHAPE. */

/* matrix product over x's last and y's last but one axis, batched and broadcast over the others; a
 * vector is a row or column; in the operands' dtype, f16 and bf16 summed in f32: cast narrow
 * operands to i32 or f32 to keep whole sums, nothing wide is stored for it */
QN_API qn_tensor *qn_matmul(qn_tensor *x, qn_tensor *y);
/* inner product of two vectors of one size: a scalar */
QN_API qn_tensor *qn_dot(qn_tensor *x, qn_tensor *y);
/* [n, m]: x[i] * y[j] of two vectors */
QN_API qn_tensor *qn_outer(qn_tensor *x, qn_tensor *y);
/* sum over n pairs of axes; the others of x, then of y, remain */
QN_API qn_tensor *qn_tensordot(qn_tensor *x, qn_tensor *y, int n, const int *x_axes,
                               const int *y_axes);
/* Einstein summation, e.g. "bij,bjk->bik"; axes go by letters, repeated ones take the diagonal,
 * "..." broadcasts */
QN_API qn_tensor *qn_einsum(int n, qn_tensor *const *xs, const char *spec);
/* x @ transpose(w) + b: x [.., in], w [out, in], b [out] or NULL: [.., out] */
QN_API qn_tensor *qn_linear(qn_tensor *x, qn_tensor *w, qn_tensor *b);

/* ---- operations: convolution and pooling -------------------------------------------------- */

/* convolution (as in networks: the kernel is not flipped) of [N, C, spatial..] with w [O, C/groups,
 * kernel..], plus b [O]: [N, O, floor((n + before + after - dilation*(kernel-1) - 1) / stride) + 1
 * ..]; b and options may be NULL */
QN_API qn_tensor *qn_conv(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
/* conv over one spatial axis: x [N, C, L], w [O, C/groups, K]; QN_ESHAPE for an image of another
 * rank */
QN_API qn_tensor *qn_conv1d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* conv over two: x [N, C, H, W], w [O, C/groups, KH, KW]; QN_ESHAPE for an image of another rank */
QN_API qn_tensor *qn_conv2d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* conv over three: x [N, C, D, H, W], w [O, C/groups, KD, KH, KW]; QN_ESHAPE for an image of
 * another rank */
QN_API qn_tensor *qn_conv3d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* the gradient of conv for its input, plus b: x [N, C, spatial..], w [C, O/groups, kernel..]: [N,
 * O, (n-1)*stride - before - after + dilation*(kernel-1) + 1 + extra ..] */
QN_API qn_tensor *qn_conv_transpose(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                                    const qn_conv_options *options);
/* the largest of each window of [N, C, spatial..]; padding loses; options may be NULL, the stride
 * is the window's size then; groups do not matter */
QN_API qn_tensor *qn_max_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* the mean of each window, padding counting as zeros; as max_pool otherwise */
QN_API qn_tensor *qn_avg_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);

/* ---- operations: neural networks ---------------------------------------------------------- */

/* e^x over its sum along an axis; integers and bools give f32; QN_ALL: over all */
QN_API qn_tensor *qn_softmax(qn_tensor *x, int axis);
/* as softmax, over n axes together */
QN_API qn_tensor *qn_softmax_axes(qn_tensor *x, int n, const int *axes);
/* logarithm of softmax without overflow */
QN_API qn_tensor *qn_log_softmax(qn_tensor *x, int axis);
/* as log_softmax, over n axes together */
QN_API qn_tensor *qn_log_softmax_axes(qn_tensor *x, int n, const int *axes);
/* (x - mean) / sqrt(variance + eps) over the last axis of x [.., C], times gamma, plus beta, [C]
 * (either may be NULL) */
QN_API qn_tensor *qn_layer_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps);
/* x / sqrt(mean(x*x) + eps) over the last axis of x [.., C], times gamma [C] (may be NULL) */
QN_API qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *gamma, double eps);
/* layer_norm of [N, C, ...] over each group of channels and all later axes; gamma and beta: [C] or
 * NULL */
QN_API qn_tensor *qn_group_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, int64_t groups,
                                double eps);
/* softmax(q @ transpose(k) / sqrt(D)) @ v over q [.., Tq, D], k [.., Tk, D], v [.., Tk, E], floats:
 * [.., Tq, E]; options may be NULL; causal: query i sees keys up to i + Tk - Tq */
QN_API qn_tensor *qn_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v,
                               const qn_attention_options *options);
/* zeros with probability p, the rest times 1 / (1-p); key: as of qn_key */
QN_API qn_tensor *qn_dropout(qn_tensor *x, qn_tensor *key, double p);
/* mean of -log_softmax(logits, -1) at the labels: logits [.., C], labels [..] of integers: a scalar
 * */
QN_API qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *labels);
/* cross_entropy over the labels that are not `ignore`; NaN where there is none */
QN_API qn_tensor *qn_cross_entropy_ignoring(qn_tensor *logits, qn_tensor *labels, int64_t ignore);
/* mean of -log_p at the labels: log_p [.., C], labels [..] of integers: a scalar */
QN_API qn_tensor *qn_nll_loss(qn_tensor *log_p, qn_tensor *labels);
/* mean of (x - y)^2: a scalar */
QN_API qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y);
/* mean of |x - y|: a scalar */
QN_API qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y);
/* mean of d*d/2 for d = |x - y| up to delta, delta * (d - delta/2) beyond */
QN_API qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta);
/* mean of -(y*log_sigmoid(x) + (1-y)*log_sigmoid(-x)): a scalar */
QN_API qn_tensor *qn_bce_with_logits(qn_tensor *x, qn_tensor *y);

/* ---- operations: random numbers ----------------------------------------------------------- */

/* A function of the key, so the same key gives the same numbers everywhere. */

/* a key of shape [2], u32; one from qn_from serves as well, and may change without a new plan */
QN_API qn_tensor *qn_key(qn_ctx *qn, uint64_t seed);
/* another key, independent for each value of data */
QN_API qn_tensor *qn_key_fold(qn_tensor *key, uint64_t data);
/* u32 from Threefry-2x32-20 (Salmon et al. 2011), the counter being the flat index */
QN_API qn_tensor *qn_random_bits(qn_tensor *key, int rank, const int64_t *shape);
/* floats in [0, 1), every multiple of the dtype's epsilon alike (f64: 53 bits) */
QN_API qn_tensor *qn_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* normal floats, mean 0 and variance 1 (Box-Muller) */
QN_API qn_tensor *qn_randn(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* integers in [lo, hi), at most 2^32 different ones, all of which the dtype holds */
QN_API qn_tensor *qn_randint(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                             int64_t lo, int64_t hi);
/* bool: true with probability p */
QN_API qn_tensor *qn_bernoulli(qn_tensor *key, int rank, const int64_t *shape, double p);

/* ---- operations: marks -------------------------------------------------------------------- */

/* must be stored before it is used (any dtype) */
QN_API qn_tensor *qn_contiguous(qn_tensor *x);
/* the value without its history (any dtype) */
QN_API qn_tensor *qn_detach(qn_tensor *x);

/* == end of what is generated == */

#ifdef __cplusplus
}
#endif
#endif
