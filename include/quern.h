/* quern.h - the whole public face of Quern, a tensor compiler and deep-learning library.
 *
 * Everything hangs off a context. Operations record nodes of a lazy graph; reading a value compiles
 * what it needs into few kernels and runs them. Constructors return a tensor or NULL; NULL in gives
 * NULL out, and the first error stays in the context until qn_clear_error(). Calls with effects
 * return 0 or a negative code of enum qn_code. The library never aborts, exits or prints.
 *
 * Ownership: a tensor made while a scope is open belongs to the innermost scope and dies at its
 * end, unless qn_keep() took a reference. Outside every scope a tensor belongs to the caller, who
 * releases it with qn_release(). A context may be used by one thread at a time; contexts are
 * independent of each other. */
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
#define QN_MAX_RANK      8

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
    void (*log)(void *user, const char *line); /* receives QN_DEBUG lines; NULL: nothing is kept */
    void *log_user;
    const char *device; /* "cpu", "ref" or "null"; NULL: $QN_DEVICE, else "cpu" */
    int threads;        /* 0: $QN_THREADS, else the processors this process may use */
} qn_options;

/* Open a context, or NULL when there is no memory or no such device. `options` may be NULL. */
QN_API qn_ctx *qn_open(const qn_options *options);
/* Free the context and everything made in it; every tensor of it becomes invalid. NULL is fine. */
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
/* Set a knob (a QN_* row of docs/knobs.md, without prefix, lower case): qn_set(qn, "debug", "x").
 */
QN_API int qn_set(qn_ctx *qn, const char *knob, const char *value);

/* ---- lifetimes -------------------------------------------------------------------------- */

QN_API qn_scope qn_scope_begin(qn_ctx *qn);
/* Release everything made since the matching begin but for what qn_keep() moved outward. */
QN_API void qn_scope_end(qn_ctx *qn, qn_scope scope);
/* Take a reference; returns its argument. A kept tensor needs one qn_release(). */
QN_API qn_tensor *qn_keep(qn_tensor *t);
QN_API void qn_release(qn_tensor *t);

/* ---- tensors ---------------------------------------------------------------------------- */

/* A tensor holding a copy of `data` (row-major, prod(shape) elements of dtype). */
QN_API qn_tensor *qn_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                          const void *data);
/* A dimension variable: a size in [lo, hi] bound at run time by the data that is fed in. Use its
 * value as a dim wherever a shape is given (values below -1 denote variables). 0 on error. */
QN_API int64_t qn_var(qn_ctx *qn, const char *name, int64_t lo, int64_t hi);
/* Bind a dimension variable for the runs that follow. */
QN_API int qn_bind(qn_ctx *qn, int64_t var, int64_t value);
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
/* Compute these tensors (and every pending assignment) now, in one plan. */
QN_API int qn_realize(qn_tensor *const *ts, int n);
/* t takes the value of `value` (same shape and dtype): an ordered effect. Readers recorded before
 * keep the old value; where nobody does, the planner writes in place. */
QN_API int qn_assign(qn_tensor *t, qn_tensor *value);
/* Overwrite t's value by data from the caller; as qn_assign of qn_from. */
QN_API int qn_write(qn_tensor *t, const void *data, size_t size);
/* Text of the value with at most `limit` elements an axis, into a string owned by the context
 * until the next call. */
QN_API const char *qn_format(qn_tensor *t, int limit);

/* ---- autograd --------------------------------------------------------------------------- */

/* out[i] = d sum(y) / d x[i] as new graph nodes, differentiable again. `seed` is the upstream
 * gradient of y's shape or NULL for ones. An x that y does not depend on gives zeros. */
QN_API int qn_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out);
/* While a tape is open, realized tensors keep their history, so they can still be differentiated.
 * Closing it drops every node that nobody else holds. */
QN_API qn_tape *qn_tape_begin(qn_ctx *qn);
QN_API void qn_tape_end(qn_tape *tape);

/* ---- static graphs ---------------------------------------------------------------------- */

/* One plan computing `outputs` from `inputs`, replayed by qn_run. Inputs must be realized tensors
 * (qn_from); everything else the outputs depend on is a parameter, a realized tensor that is read
 * anew at each run, so qn_assign and qn_write on it are seen. Assignments pending now become part of
 * the plan: each run makes them. Nothing is computed by this call. */
QN_API qn_plan *qn_compile(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                           qn_tensor *const *outputs);
/* outputs[i] receives a fresh tensor each. */
QN_API int qn_run(qn_plan *plan, qn_tensor *const *inputs, qn_tensor **outputs);
QN_API void qn_plan_free(qn_plan *plan);

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
} qn_stats;
QN_API void qn_get_stats(const qn_ctx *qn, qn_stats *out);

/* ---- operations ------------------------------------------------------------------------- */
/* Broadcasting is NumPy's. Generated from src/graph/ops.h and src/graph/funcs.h by tools/gen.py. */

#ifdef __cplusplus
}
#endif
#endif
