/* quern.h - the public face of Quern, a tensor compiler and deep-learning library: contexts,
 * tensors, gradients, static graphs, files, and by quern_ops.h the operations. quern_nn.h has
 * neural networks, quern_tune.h tuning.
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
typedef struct qn_loop qn_loop; /* one made by qn_loop_begin */
typedef uint32_t qn_scope;

/* Element types; values are stable. */
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
    QN_F64 = 12,
    QN_F8_E4M3 = 13, /* largest 448, no infinities: what is too large is NaN */
    QN_F8_E5M2 = 14,
    QN_C64 = 32, /* complex: a real and an imaginary part side by side, as in C99; of f32 */
    QN_C128 = 33 /* and of f64 */
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

/* A tensor holding a copy of `data` (row-major, prod(shape) elements of dtype). A bool is one byte;
 * any that is not 0 is true, and 1 in the copy, so also in what qn_write and kernels give. */
QN_API qn_tensor *qn_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                          const void *data);
/* Who lends memory to qn_borrow, and is told when it is not needed any more. */
typedef struct qn_lender {
    size_t size; /* QN_LENDER() */
    void (*give_back)(void *owner);
    void *owner;
} qn_lender;
#define QN_LENDER(...) QN_STRUCT(qn_lender, __VA_ARGS__)
/* As qn_from, but the tensor lies where `data` does, which must stay as it is until it is given
 * back: when nothing needs it any more, at the latest when the context is closed, and at once
 * where it is copied after all, by a device with memory of its own and of data that is not at a
 * multiple of its elements' size, or bools with a byte that is neither 0 nor 1. It is never
 * written: an assignment takes other memory. give_back may be called by any call on the context,
 * and must not use it. NULL, or no give_back, is qn_from. c64 and c128 are QN_EDTYPE, for their
 * parts lie apart in a tensor. After an error nothing was borrowed. */
QN_API qn_tensor *qn_borrow(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                            const void *data, const qn_lender *lender);
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
/* A size as text, "5" or "2*t + 1", valid until the next call of this or of qn_format(). NULL only
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
/* A number that is no tensor, beside others: it is weak and changes no dtype of its kind. */
typedef enum qn_number {
    QN_NO_NUMBER = 0,
    QN_WHOLE_NUMBER = 1, /* 2: i64 where there is nothing but bools */
    QN_REAL_NUMBER = 2   /* 0.5: f32 where there is no float */
} qn_number;
/* The dtype in which n tensors, m dtypes and a number meet; no tensor is computed. -1 where there
 * is nothing, and for arguments that are none. */
QN_API qn_dtype qn_result_type(int n, qn_tensor *const *xs, int m, const qn_dtype *dtypes,
                               qn_number number);
/* May elements be cast, by NumPy's rules? SAFE: no value changes (but that f64 is taken for safe
 * from integers of 64 bits); SAME_KIND: nor its kind to an earlier one of bool, unsigned, signed
 * and float; ANY: they always may. false for dtypes that are none. */
typedef enum qn_casting { QN_CAST_SAFE = 0, QN_CAST_SAME_KIND = 1, QN_CAST_ANY = 2 } qn_casting;
QN_API bool qn_can_cast(qn_dtype from, qn_dtype to, qn_casting casting);
/* Which way of a Fourier transform of length n is divided: the inverse by n, both by its root, or
 * the forward one by n. */
typedef enum qn_fft_norm {
    QN_NORM_BACKWARD = 0,
    QN_NORM_ORTHO = 1,
    QN_NORM_FORWARD = 2
} qn_fft_norm;
/* How the context's device computes in a dtype. */
typedef enum qn_support {
    QN_LACKING = 0,  /* not at all: a kernel of it is QN_EDEVICE */
    QN_EMULATED = 1, /* as f32, rounded after each operation */
    QN_SUPPORTED = 2
} qn_support;
QN_API qn_support qn_device_supports(const qn_ctx *qn, qn_dtype dtype);
/* Compute what is needed and copy the value out, row-major; `size` is the buffer's size in bytes
 * and must hold the whole value, else QN_ERANGE and nothing is written. */
QN_API qn_code qn_read(qn_tensor *t, void *out, size_t size);
/* Where in this process' memory the value of t is, row-major, computed where need be: into *out.
 * It stays there and as it is while t is kept and neither assigned to nor donated. QN_EDEVICE
 * where the device has memory of its own. */
QN_API qn_code qn_data(qn_tensor *t, const void **out);
/* Compute these tensors (and every pending assignment) now, in one plan. For speed nobody needs to:
 * what requests compute again while a handle holds it is kept (knob kept_memory). */
QN_API qn_code qn_realize(int n, qn_tensor *const *ts);
/* t takes the value of `value` (same shape and dtype): an ordered effect. A tensor's values are
 * versions: what was recorded before keeps the old one, and where nothing does the new one is
 * written in its place. Gradients end at an assignment: t is a leaf. t is a variable, that is a
 * tensor in memory (qn_from, read, realized, assigned before) or a first value made of no data; or
 * a view of one by slices, reshapes, permutations and flips, which then gets a new version with
 * these places overwritten, and t shows them; a view stays one when it is read. Anything else is
 * refused (QN_EGRAPH), and so is a view of a value that its tensor does not have any more. */
QN_API qn_code qn_assign(qn_tensor *t, qn_tensor *value);
/* Overwrite t's value by data from the caller; as qn_assign of qn_from, but at once: it is no part
 * of a static graph. */
QN_API qn_code qn_write(qn_tensor *t, const void *data, size_t size);
/* Text of the value with at most `limit` elements an axis, into a string owned by the context
 * until the next call. */
QN_API const char *qn_format(qn_tensor *t, int limit);

/* ---- loops ------------------------------------------------------------------------------ */

/* A loop is recorded once and runs as often as it is to: a recurrence of 1,000 steps is a body and
 * not 1,000 copies. quern_loop.h has the same with the body as a function.
 *
 *     qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &xs, NULL);        h0 [n, k], xs [t, n, m]
 *     qn_tensor *h = qn_loop_state(l, 0), *x = qn_loop_slice(l, 0);        [n, k], [n, m]
 *     h = qn_tanh(qn_add(qn_matmul(x, w), qn_matmul(h, u)));
 *     qn_loop_end(l, 1, &h, 1, &h);
 *     qn_tensor *last = qn_loop_final(l, 0), *all = qn_loop_output(l, 0);  [n, k], [t, n, k]
 *     qn_loop_free(l);
 *
 * Between begin and end what is recorded is the body; what it takes from outside is the same in
 * each trip. States keep their dtype and shape. Nothing can be assigned there, and what depends on
 * an argument has no value outside of the loop. Gradients pass loops, again and again; they store
 * what the way back needs of each trip. */
typedef struct qn_loop_options {
    size_t size;     /* QN_LOOP_OPTIONS() */
    int64_t trips;   /* how many; 0: as many as sequences have rows, without such none */
    bool reverse;    /* sequences and outputs from the last row to the first */
    qn_tensor *most; /* an i64 scalar: no more trips than that, those of the first rows */
    /* Gradients store the states only every so many trips, and compute the trips between again, a
     * segment at a time; 0: they store what they need of each trip. The square root of the number
     * of trips takes least memory. Loops whose number of trips is known before they run. */
    int64_t checkpoint;
} qn_loop_options;
#define QN_LOOP_OPTIONS(...) QN_STRUCT(qn_loop_options, __VA_ARGS__)
/* Begin the body of a loop over n states, which begin as `states`, and n_in sequences, of which a
 * trip sees one row of axis 0. QN_ESHAPE where a sequence has another number of rows than there are
 * trips. `options` may be NULL. */
QN_API qn_loop *qn_loop_begin(qn_ctx *qn, int n, qn_tensor *const *states, int n_in,
                              qn_tensor *const *sequences, const qn_loop_options *options);
/* The body's arguments: state i before a trip, sequence i's row, and which row that is, an i64
 * scalar. They belong to the loop. */
QN_API qn_tensor *qn_loop_state(qn_loop *loop, int i);
QN_API qn_tensor *qn_loop_slice(qn_loop *loop, int i);
QN_API qn_tensor *qn_loop_index(qn_loop *loop);
/* A trip is made only while `condition`, a bool scalar of the states before it, holds. QN_EGRAPH
 * where it is made of a slice or of the index. */
QN_API qn_code qn_loop_while(qn_loop *loop, qn_tensor *condition);
/* End the body: the n states behind a trip, and n_out values that are stacked, for each trip a row
 * of a new axis 0; rows of trips that are not made are 0. After an error, also one of the body,
 * there are no results. */
QN_API qn_code qn_loop_end(qn_loop *loop, int n, qn_tensor *const *states, int n_out,
                           qn_tensor *const *outputs);
/* Results, each a new tensor: state i behind the last trip; output i; how many trips there were, an
 * i64 scalar. */
QN_API qn_tensor *qn_loop_final(qn_loop *loop, int i);
QN_API qn_tensor *qn_loop_output(qn_loop *loop, int i);
QN_API qn_tensor *qn_loop_trips(qn_loop *loop);
/* The loop's results stay. A body that has not ended is given up. */
QN_API void qn_loop_free(qn_loop *loop);

/* ---- complex numbers -------------------------------------------------------------------- */

/* Complex tensors, of QN_C64 and QN_C128, go where real ones do; what has no meaning for them is
 * refused (QN_EDTYPE). docs/complex.md says which functions take them, and where they differ. */

/* re + i im, of floats, broadcast: QN_C128 where one is f64, else QN_C64. im may be NULL, for 0. */
QN_API qn_tensor *qn_complex(qn_tensor *re, qn_tensor *im);
/* Parts, of f32 or f64. A real z has itself and zeros. */
QN_API qn_tensor *qn_real(qn_tensor *z);
QN_API qn_tensor *qn_imag(qn_tensor *z);
/* re - i im; of a real z itself. */
QN_API qn_tensor *qn_conj(qn_tensor *z);
/* atan2(im, re), from -pi to pi. */
QN_API qn_tensor *qn_angle(qn_tensor *z);
/* Pairs, real and imaginary part along a last axis of 2, f32 or f64, as complex numbers, and back.
 * Nothing is copied. */
QN_API qn_tensor *qn_as_complex(qn_tensor *pairs);
QN_API qn_tensor *qn_as_real(qn_tensor *z);

/* ---- autograd --------------------------------------------------------------------------- */

/* out[i] = d sum(y) / d x[i] as new graph nodes, differentiable again. `seed` is the upstream
 * gradient of y's shape or NULL for ones. An x that y does not depend on gives zeros; of an x that
 * was assigned to since y was recorded it is the gradient of the version that y uses. Where y uses
 * more than one it is an error: detach what was recorded before the assignment.
 *
 * A gradient is right or an error (QN_EGRAPH). By a constant (qn_zeros, qn_full) it is refused, for
 * that is no variable; by an expression, too, where what follows went past it, as reshapes of
 * reshapes do: then record x as qn_contiguous(..). Reading a value changes nothing. What a gradient
 * needs may be gone, though: the old value of a tensor that was assigned to, once y is computed;
 * and, while no tape is open, history and released data beyond knob history. The error names the
 * tensor and where that came about. Outputs of qn_plan_run have no history: detach them. */
QN_API qn_code qn_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out);
/* The same of n results at once: out[i] = the sum over k of d sum(ys[k] * seeds[k]) / d xs[i], the
 * seeds times the Jacobian. `seeds` may be NULL, or have NULLs, for ones. */
QN_API qn_code qn_vjp(int n, qn_tensor *const *ys, qn_tensor *const *seeds, int m,
                      qn_tensor *const *xs, qn_tensor **out);
/* out[k] = the derivative of ys[k] when every xs[i] moves along tangents[i], which broadcasts to
 * its shape: the Jacobian times the tangents, of ys[k]'s shape and dtype, at about the price of ys
 * itself, and differentiable again. At kinks it is what qn_grad has there. Errors as qn_grad. */
QN_API qn_code qn_jvp(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs,
                      qn_tensor *const *tangents, qn_tensor **out);
/* All derivatives of y's elements by x's: y's axes, then x's, in x's dtype. It takes a
 * walk through the graph for each element of y or of x, whichever are fewer: for a few hundred.
 * Sizes that vary are QN_ESHAPE. */
QN_API qn_tensor *qn_jacobian(qn_tensor *y, qn_tensor *x);
/* out[i] = the sum over k of d2 sum(y) / d xs[i] d xs[k] times tangents[k], of xs[i]'s shape: the
 * Hessian times the tangents, at a few times the price of y. */
QN_API qn_code qn_hvp(qn_tensor *y, int n, qn_tensor *const *xs, qn_tensor *const *tangents,
                      qn_tensor **out);
/* All second derivatives of sum(y) by x's elements: x's axes twice. As qn_jacobian of qn_grad. */
QN_API qn_tensor *qn_hessian(qn_tensor *y, qn_tensor *x);
/* A tensor in the place of a gradient that is not known yet, for qn_custom_gradient: of y's dtype
 * and shape. Its value is 0. */
QN_API qn_tensor *qn_placeholder(qn_tensor *y);
/* out[k] = ys[k] with another gradient. slopes[i], of xs[i]'s dtype and shape, is recorded of
 * placeholders[k], one for each of ys, and of anything else; a gradient gives xs[i] what slopes[i]
 * is with the gradients of the out[k] in their places, and goes no other way. NULL in `slopes`:
 * nothing. It need not be the derivative of anything, nor linear, and is differentiated again by
 * what it is made of. Nothing is called later, and nothing computed that no gradient asks for but
 * what a loop's body reads from around it. In a loop with checkpoints values are computed twice: of
 * a slope there that is not linear, gradients of gradients are made of parts of what comes to it.
 * What is the same in each trip of a loop is given its gradient once, of the sum over all trips.
 * QN_EARG where a placeholder is none, QN_ESHAPE and QN_EDTYPE where a slope does not fit. */
QN_API qn_code qn_custom_gradient(int n, qn_tensor *const *ys, qn_tensor *const *placeholders,
                                  int m, qn_tensor *const *xs, qn_tensor *const *slopes,
                                  qn_tensor **out);
/* out[k] = ys[k], whose gradient computes again, from the xs, what lies between these and the ys,
 * instead of keeping it: the same bits for less memory and one more time of forward work. A chain
 * of n layers cut into pieces of sqrt(n) needs memory for some 2 sqrt(n). What does not depend on
 * an x is kept as ever. `out` may be `ys`. */
QN_API qn_code qn_checkpoint(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs,
                             qn_tensor **out);
/* One example of x: an argument of x's dtype, and of its shape without `axis`, that has a value
 * only in what qn_vmap makes of it. What is recorded of it can be differentiated, and by it. */
QN_API qn_tensor *qn_example(qn_tensor *x, int axis);
#define QN_UNBATCHED (-2147483647 - 1) /* for an axis of examples: there is none */
/* out[k] = ys[k], which were recorded of `examples`, for all examples at once: xs[i] in the place
 * of examples[i], with its examples along in_axes[i]; those of out[k] lie along out_axes[k], an
 * axis more than ys[k] has. NULL for a list of axes: 0; negative ones count from the end.
 * QN_UNBATCHED of an input: all examples see all of it, as what the ys are made of besides; of a
 * result: it follows none, and is given as it is. Each example gets what it would alone, to the bit
 * where no sum of floats is grouped another way, as one larger computation, not one for each: but
 * for loops whose number of trips the examples differ in, and for unique, nonzero and draws by
 * rejection, which take them in turns. Random numbers are functions of their key: a key from
 * outside gives all examples the same, one that is an example gives each its own (qn_stack of what
 * qn_key_split gives). It nests, and gradients pass it. QN_ESHAPE where inputs have different
 * numbers of examples, where an example is none of its input's, and where a value has QN_MAX_RANK
 * axes already; QN_EARG where an example is none, or no input has an axis of them; QN_EGRAPH where
 * what follows an example was assigned to a tensor. */
QN_API qn_code qn_vmap(int n, qn_tensor *const *ys, const int *out_axes, int m,
                       qn_tensor *const *examples, qn_tensor *const *xs, const int *in_axes,
                       qn_tensor **out);
/* out[i]: 1 where a gradient of the ys comes to xs[i], which may be 0 in number, else 0: where
 * every way to them ends at an integer, a detached value or the like, or there is none. As for
 * qn_grad an x that was assigned to is the version that the ys use. Errors as qn_grad's of what
 * it finds. */
QN_API qn_code qn_depends(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs, int32_t *out);
/* While a tape is open, every value is kept that something recorded was made of, those of tensors
 * that were assigned to since, too, and history has no bounds. */
QN_API qn_tape *qn_tape_begin(qn_ctx *qn);
QN_API void qn_tape_end(qn_tape *tape);

/* ---- static graphs ---------------------------------------------------------------------- */

/* One plan computing `outputs` from `inputs`, replayed by qn_plan_run. Inputs are different tensors
 * in memory: data (qn_from), or expressions that were realized before anything was made of them.
 * What is made of an input follows it, read before or not; everything else that lies in memory is a
 * parameter, read anew at each run, so that qn_assign and qn_write on it are seen; so are values of
 * assigned tensors and outputs of other plans. What was released, and never assigned to, is a
 * constant. Outputs that are inputs or parameters are copies of theirs. Assignments pending now
 * become part of the plan, and each run makes them. Made now, and no part of it, are those of
 * qn_write and of a value that is there, follows neither an input nor a tensor that is assigned to,
 * and replaces none that the plan uses. Nothing is computed by this call but first values of
 * modules' parameters that were not yet. QN_EGRAPH where it cannot be known what follows an input:
 * history was cut (knob history), or parameters were overwritten since; where an assignment was
 * made already, by reading some value after the outputs were recorded, so that no run would make
 * it; and where the assigned tensor was a constant (qn_zeros), by which rules simplify. Indices are
 * checked at each run where the knob check was set when they were recorded and this was called;
 * setting it later changes nothing. */
QN_API qn_plan *qn_plan_new(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                            qn_tensor *const *outputs);
typedef struct qn_plan_options {
    size_t size; /* QN_PLAN_OPTIONS() */
    /* Bit i: what is given as input i may be taken. Outputs of its dtype and shape may lie where it
     * does, so that a state which goes round and round is in memory once: what an output of a run
     * is, given to the next. After a run that succeeded the tensor is used up, by all its names and
     * whether or not there was use for its memory: until it is assigned to or written, reading it,
     * or what is made of it and was not computed before, is QN_EGRAPH. An input that is an
     * expression stays, realized or not, and so does everything while a tape is open. The same
     * value as two inputs, or as an input and a parameter, is QN_EARG at that run. */
    uint64_t donate;
    /* No assignment is part of the graph: those pending are made now, as by qn_realize, and one
     * that was made after an output was recorded is no error. For who gives changes as outputs. */
    bool no_assignments;
    /* So many outputs from number state_output on take the place of as many inputs from state_input
     * on: the caller lets go of an input's tensor behind a run. Where that is the only name of a
     * value which nothing else needs, the output may lie where it does, and then the tensor is used
     * up as a donated one; else it stays. QN_EARG where there are fewer. */
    int64_t states, state_input, state_output;
    /* Each assignment that is pending is part of the graph, also one of a value that is there and
     * follows nothing, but for qn_write. For who wants a state where the program has one, as
     * qn_export may. QN_EARG with no_assignments. */
    bool all_assignments;
} qn_plan_options;
#define QN_PLAN_OPTIONS(...) QN_STRUCT(qn_plan_options, __VA_ARGS__)

/* qn_plan_new() with options, which may be NULL. QN_EARG where a bit of `donate` names no input. */
QN_API qn_plan *qn_plan_new_with(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                                 qn_tensor *const *outputs, const qn_plan_options *options);
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
    /* Schedules proposed for kernels so far, of which each got the cheapest; those that could not
     * be applied as was meant. */
    uint64_t schedules, schedules_dropped;
} qn_stats;
/* Into out, of `size` bytes: qn_get_stats(qn, &stats, sizeof stats). */
QN_API void qn_get_stats(const qn_ctx *qn, qn_stats *out, size_t size);

#ifdef __cplusplus
}
#endif

#include "quern_ops.h"
#include "quern_ops_linalg.h"
#include "quern_ops_nn.h"

#endif
