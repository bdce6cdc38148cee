/* base.h - the room everybody stands on: memory, errors, text, knobs, threads.
 *
 * Memory. All memory comes from the caller's allocator through a heap (heap.c), which counts it and
 * can be told to fail at the n-th request. Two kinds of request: heap_try() returns NULL, for the
 * few places that handle it; heap_alloc() never returns NULL: where memory is out it records
 * QN_ENOMEM and unwinds to the innermost guarded() call (guard.c), on the way running the cleanups
 * that were pushed. Everything of one compilation lives in one arena (arena.c) with one cleanup, so
 * unwinding leaks nothing. Rule for every writer: between getting heap memory and linking it to an
 * owner, or pushing its cleanup, no call may raise. Public entry points do their work guarded;
 * below them nobody checks for NULL.
 *
 * Errors. fail() records the first error in the context and returns its code, for the user's
 * mistakes; raise() does the same and unwinds, for what deep code cannot go on from. */
#ifndef QN_BASE_H
#define QN_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "quern.h"

#define QN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define QN_NORETURN          __attribute__((noreturn))
#define QN_COLD              __attribute__((cold)) /* and so is what leads to its call */
#define COUNT_OF(a)          (sizeof(a) / sizeof((a)[0]))

/* ---- heap.c ---------------------------------------------------------------------------------- */

typedef struct heap {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *p, size_t size);
    void *user;
    uint64_t bytes, peak, requests; /* live bytes, their highest, requests ever */
    uint64_t fail_at;               /* 0, or the request number that must fail (fault injection) */
    struct guard *top;              /* innermost open guard */
    struct cleanup *cleanup;        /* the last one pushed */
    struct qn_ctx *ctx;             /* whose errors we record */
} heap;

void heap_open(heap *h, const qn_options *options, struct qn_ctx *ctx);
void *heap_try(heap *h, size_t size);    /* 64-byte aligned, uninitialised, or NULL */
void *heap_alloc(heap *h, size_t size);  /* never NULL; raises */
void *heap_zeroed(heap *h, size_t size); /* as heap_alloc, cleared */
/* All of p, memory of this heap, becomes zeros, much of it without a touch where the system allows:
 * then it takes pages as they are written. */
void heap_clear(const heap *h, void *p, size_t size);
void heap_free(heap *h, void *p, size_t size); /* p may be NULL; size as requested */
/* Give what was freed to the system, where the C library keeps it: behind work that took much more
 * than stays, as compiling does. Some milliseconds. */
void heap_trim(const heap *h);
/* Make room for `need` elements in a heap-owned array, doubling; returns the array. Raises; on
 * unwinding the old array is intact. */
void *heap_grow(heap *h, void *data, uint32_t *cap, uint32_t need, size_t elem);
uint32_t heap_grown(uint32_t cap, uint32_t need); /* the capacity that growing goes to */

/* ---- guard.c --------------------------------------------------------------------------------- */

/* Do work(arg). QN_OK, or the context's error where the work raised: what it left to be cleaned up
 * is clean then, and `arg` is as far as the work came. */
qn_code guarded(qn_ctx *qn, void (*work)(void *arg), void *arg);

/* What must be done should the code that follows raise: push it, and in the end, last in first out,
 * run it, or drop it where what it would free has got an owner. It may not raise.
 *     str text;
 *     cleanup c;
 *     str_open(&text, h);
 *     cleanup_push(h, &c, str_cleanup, &text);
 *     ...work that may raise; no return here...
 *     cleanup_run(h, &c); */
typedef struct cleanup {
    struct cleanup *up;
    void (*run)(void *of);
    void *of;
} cleanup;
void cleanup_push(heap *h, cleanup *c, void (*run)(void *of), void *of);
void cleanup_drop(heap *h, cleanup *c);
void cleanup_run(heap *h, cleanup *c);

/* Memory that has no other owner: run heap_piece_cleanup on it. */
typedef struct heap_piece {
    heap *h;
    void *p;
    size_t size;
} heap_piece;
void heap_piece_cleanup(void *piece);

QN_COLD QN_NORETURN void heap_unwind(heap *h); /* to the innermost guard; the error is recorded */

/* What guarded() opens. Only guard.c and tests, which look at both ways out, call setjmp. */
typedef struct guard {
    jmp_buf at;
    struct guard *up;
    cleanup *cleanup; /* what was pushed before it was opened */
} guard;
void guard_open(heap *h, guard *g);
void guard_close(heap *h, guard *g);

/* ---- arena.c --------------------------------------------------------------------------------- */

/* Bump allocation; freed whole. Pointers stay valid until arena_free. */
typedef struct arena {
    heap *h;
    struct arena_block *block;
    size_t used;  /* bytes used of the current block */
    size_t total; /* bytes taken from the heap */
} arena;

void arena_open(arena *a, heap *h);
void *arena_alloc(arena *a, size_t size); /* 16-byte aligned, uninitialised; raises */
void *arena_zeroed(arena *a, size_t size);
size_t arena_needs(const arena *a, size_t size); /* what the heap gives for it; 0: there is room */
void *arena_grow(arena *a, void *data, uint32_t *cap, uint32_t need, size_t elem);
char *arena_printf(arena *a, const char *fmt, ...) QN_PRINTF(2, 3);
void arena_free(arena *a);
void arena_reset(arena *a);  /* nothing is in it, but the memory stays, as one block; raises */
void arena_cleanup(void *a); /* arena_free, as a cleanup */

/* ---- hash.c ---------------------------------------------------------------------------------- */

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t hash_mix(uint64_t a, uint64_t b);

/* A set of 32-bit ids found by hash and an equality the caller supplies. Id 0 is never stored. An
 * addition that raises leaves the set as it was.
 * Open addressing, deletable; memory from a heap, freed by idset_free. */
typedef struct idset {
    heap *h;
    struct idset_slot {
        uint32_t id, hash;
    } * slot;
    uint32_t cap, count;
} idset;
typedef bool (*idset_same)(const void *key, uint32_t id, const void *user);

void idset_open(idset *s, heap *h);
uint32_t idset_find(const idset *s, uint64_t hash, idset_same same, const void *key,
                    const void *user);                /* 0: not there */
void idset_add(idset *s, uint64_t hash, uint32_t id); /* must not be there; raises */
void idset_remove(idset *s, uint64_t hash, uint32_t id);
void idset_free(idset *s);
void idset_cleanup(void *s); /* idset_free, as a cleanup */

/* ---- checked.c ------------------------------------------------------------------------------- */

/* Sums and products of numbers from outside; what is beyond the range stays at its end. */
int64_t sat_add(int64_t a, int64_t b);
int64_t sat_sub(int64_t a, int64_t b);
int64_t sat_mul(int64_t a, int64_t b);
int64_t sat_neg(int64_t a);
/* Of two positive numbers, a / b rounded up. */
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}
/* Bytes of an array of elements of `width` bytes; false: 2^63 and more. An empty one has none. */
bool checked_bytes(int rank, const int64_t *size, size_t width, size_t *out);

/* ---- lru.c ----------------------------------------------------------------------------------- */

/* Ids from 1 on in the order in which they were last used; each operation takes a few stores. */
typedef struct lru_link {
    uint32_t older, newer; /* itself: not in the list */
} lru_link;
typedef struct lru {
    heap *h;
    lru_link *at; /* by id; 0: where the list begins and ends */
    uint32_t cap;
} lru;
void lru_open(lru *l, heap *h);
void lru_reserve(lru *l, uint32_t id); /* room for it; raises. The others need it, and do not */
void lru_use(lru *l, uint32_t id);     /* it is the last one used now, whether it was in the list */
void lru_remove(lru *l, uint32_t id);  /* nothing where it is not in the list */
uint32_t lru_oldest(const lru *l);     /* 0: the list is empty */
void lru_free(lru *l);

/* ---- str.c ----------------------------------------------------------------------------------- */

/* A growing text, always NUL-terminated once something was added; memory from a heap, or from an
 * arena, which suits short texts that nobody wants to free where something raises. What is added
 * must not be part of the text itself. Adding raises and then leaves the text as it was. */
typedef struct str {
    heap *h;
    arena *a; /* NULL: memory is the heap's */
    char *s;
    uint32_t len, cap;
} str;

void str_open(str *t, heap *h);
void str_open_in(str *t, arena *a); /* str_free is not needed */
void str_add(str *t, const char *text);
void str_addn(str *t, const char *text, size_t n);
void str_addf(str *t, const char *fmt, ...) QN_PRINTF(2, 3);
void str_free(str *t);
void str_cleanup(void *t); /* str_free, as a cleanup */
/* The bytes of the UTF-8 character at the beginning of a text, 1 at its end; 0: it is none. */
int text_character(const char *text);

/* ---- number.c -------------------------------------------------------------------------------- */

/* strtod and strtof in the C locale, whatever the program's is. */
double text_f64(const char *text, char **end);
float text_f32(const char *text, char **end);

/* ---- near.c ---------------------------------------------------------------------------------- */

/* How many letters must be changed, added, left out or exchanged with their neighbours to make one
 * name of the other; names of 64 letters and more are compared as far as that. */
int text_distance(const char *a, const char *b);
/* Is that so few that one may be meant by the other? */
bool text_is_near(const char *a, const char *b);
/* The nearest of many names, nearest first: begin with {.wanted = ..}, offer each. */
enum { NEAREST = 3 };
typedef struct nearest {
    const char *wanted, *name[NEAREST];
    int n, distance[NEAREST];
} nearest;
void nearest_offer(nearest *x, const char *name);
/* `"a", "b"`, or "nothing" where none was offered; into `text`, which is returned. */
const char *nearest_text(const nearest *x, char *text, size_t size);

/* ---- struct.c -------------------------------------------------------------------------------- */

/* Structs of options into `mine`, of `size` bytes and holding the defaults; NULL changes nothing.
 * false: the caller's is none, and why. struct_take reports that. */
enum { STRUCT_WHY = 160 };
bool struct_read(const char *type, void *mine, size_t size, const void *given,
                 char why[STRUCT_WHY]);
bool struct_take(qn_ctx *qn, const char *call, const char *type, void *mine, size_t size,
                 const void *given);
/* What the library has, into the caller's room: as much as fits, zeros behind. */
void struct_give(void *out, size_t room, const void *mine, size_t size);
/* ---- dtype.c: rows in dtypes.h --------------------------------------------------------------- */

enum {
#define X(NAME, ...) DTYPE_AT_##NAME,
#include "base/dtypes.h"
#undef X
    DTYPE_COUNT
};
#define X(NAME, ...) _Static_assert(DTYPE_AT_##NAME == (int)QN_##NAME, "quern.h: value of " #NAME);
#include "base/dtypes.h"
#undef X
enum { /* complex ones have places of their own, behind those */
       COMPLEX_FIRST = 32,
       COMPLEX_BEFORE = COMPLEX_FIRST - 1,
#define COMPLEX(NAME, ...) COMPLEX_AT_##NAME,
#include "base/dtypes.h"
#undef COMPLEX
       COMPLEX_END
};
#define COMPLEX(NAME, ...)                                                                         \
    _Static_assert(COMPLEX_AT_##NAME == (int)QN_##NAME, "quern.h: value of " #NAME);
#include "base/dtypes.h"
#undef COMPLEX
typedef enum dtype_kind {
    KIND_BOOL,
    KIND_SIGNED,
    KIND_UNSIGNED,
    KIND_FLOAT,
    KIND_NARROW
} dtype_kind;
typedef struct dtype_row {
    const char *name, *file, *c_type;
    uint8_t bits, kind, rank, acc, sum, fraction;
    int16_t least;
    bool infinite; /* of floats: are there infinities? */
} dtype_row;
extern const dtype_row dtype_rows[DTYPE_COUNT];

/* As sets of dtypes, so that a question is a shift. */
enum {
#define X(NAME, name, bits, KIND, ...) | (KIND_##KIND >= KIND_FLOAT) << DTYPE_AT_##NAME
    DTYPE_FLOATS = 0
#include "base/dtypes.h"
#undef X
#define X(NAME, name, bits, KIND, ...) | (KIND_##KIND == KIND_NARROW) << DTYPE_AT_##NAME
    ,
    DTYPE_NARROW = 0
#include "base/dtypes.h"
#undef X
#define X(NAME, name, bits, KIND, ...) | (KIND_##KIND == KIND_UNSIGNED) << DTYPE_AT_##NAME
    ,
    DTYPE_UNSIGNED = 0
#include "base/dtypes.h"
#undef X
};
/* Also of a number that a user gave, before it is known whether it names a dtype. */
static inline bool dtype_is_among(unsigned set, int d) {
    return (unsigned)d < DTYPE_COUNT && set >> d & 1;
}
static inline bool dtype_is_known(int d) { /* as one of nodes */
    return (unsigned)d < DTYPE_COUNT;
}
static inline bool dtype_is_complex(int d) {
    return d >= COMPLEX_FIRST && d < COMPLEX_END;
}
qn_dtype dtype_part(qn_dtype d);        /* of a complex dtype the parts', else itself */
qn_dtype dtype_of_parts(qn_dtype part); /* the complex dtype whose parts hold that */
/* Report that a call has no meaning for what was given as a dtype, or that it is none; false. */
QN_COLD bool dtype_refuse(qn_ctx *qn, const char *call, int dtype);
static inline bool dtype_is_float(int d) {
    return dtype_is_among(DTYPE_FLOATS, d);
}
static inline bool dtype_is_narrow(int d) { /* a float that is computed in a wider one */
    return dtype_is_among(DTYPE_NARROW, d);
}
/* Are there integers that f32 rounds before it does? Not where they would be infinities. */
static inline bool dtype_rounds_integers_twice(int d) {
    return dtype_is_narrow(d) && dtype_rows[d].least <= -24;
}
static inline bool dtype_is_int(int d) {
    return d != QN_BOOL && !dtype_is_float(d);
}
static inline bool dtype_is_unsigned(int d) {
    return dtype_is_among(DTYPE_UNSIGNED, d);
}
/* What 1 differs by from the next number of a float. Of other dtypes that of f32, as which they are
 * computed where a function is one of floats; of complex ones their parts'. */
double dtype_epsilon(int d);

/* ---- error.c --------------------------------------------------------------------------------- */

/* Record the first error: text is "<where>: <message>" with the user's file and line when known.
 * The code is that of the error that is pending, so of the first; `code` without a context. */
QN_COLD qn_code fail(qn_ctx *qn, qn_code code, const char *fmt, ...) QN_PRINTF(3, 4);
QN_COLD void *fail_null(qn_ctx *qn, qn_code code, const char *fmt, ...) QN_PRINTF(3, 4);
QN_COLD QN_NORETURN void raise_error(qn_ctx *qn, qn_code code, const char *fmt, ...)
    QN_PRINTF(3, 4);

/* ---- knobs.c: rows in knobs.h ---------------------------------------------------------------- */

typedef enum knob {
#define X(NAME, name, kind, when, def, doc) KNOB_##NAME,
#include "base/knobs.h"
#undef X
    KNOB_COUNT
} knob;
typedef struct knob_value {
    int64_t number;
    const char *text; /* owned by the context for text knobs */
} knob_value;
int knobs_open(qn_ctx *qn); /* defaults, then the environment's QN_* */
int knobs_set(qn_ctx *qn, const char *name, const char *value);
int knobs_set_late(qn_ctx *qn, const char *name, const char *value); /* the context is open */
void knobs_note_unknown(qn_ctx *qn); /* tell of QN_* variables that are no knobs */
void knobs_close(qn_ctx *qn);
bool debug_on(const qn_ctx *qn, char letter); /* is this letter in QN_DEBUG? */

/* ---- log.c ----------------------------------------------------------------------------------- */

/* To the log callback, or where there is none to standard error, line by line. For what QN_DEBUG
 * asks for, and what a user must know and is no error. */
QN_COLD void log_line(qn_ctx *qn, const char *fmt, ...) QN_PRINTF(2, 3);
double clock_seconds(void);        /* monotonic */
double clock_thread_seconds(void); /* that the calling thread was given a processor */
double clock_processors(void);     /* used by all of the process's threads */

/* ---- folder.c -------------------------------------------------------------------------------- */

enum { FOLDER_PATH = 1024 };
/* quern's folder among the user's caches; its parent is made. false: there is no such place. */
bool folder_usual(char path[FOLDER_PATH]);
/* Made where missing; -1, and why, where it is not the user's alone. To be closed. */
int folder_open_private(const char *path, const char **why);
typedef struct folder_file {
    size_t size;
    int64_t changed; /* seconds, as the system's clock has it */
    bool ours;       /* the user's, and nobody else may write to it */
} folder_file;
/* The whole file, from the heap; NULL where there is none, it is empty, larger than `most`, or
 * cannot be read: only then is about->size not 0. */
uint8_t *folder_read(heap *h, int folder, const char *name, size_t most, folder_file *about);
bool folder_append(int file, const void *data, size_t size);
bool folder_allows(uint64_t size); /* may this process write files so large? */
int folder_lock(int folder, const char *name, double seconds); /* -1: not within so long */
void folder_unlock(int lock);

/* ---- library.c ------------------------------------------------------------------------------- */

bool library_loading(void); /* can this program load any, or is it a static one? */
void *library_open(const char *name, int flags, str *why); /* dlopen; NULL and why. Raises */

/* ---- write.c --------------------------------------------------------------------------------- */

/* A file on its way. */
typedef struct file_write_to {
    int folder, file; /* the caller's; -1: none */
    bool there;       /* something is to be replaced that had */
    unsigned mode, user, group;
    char name[256], fresh[256]; /* in the folder: the final one, the one so far */
} file_write_to;
/* What may be replaced: a regular file that may be written to; the same by who holds a lock, so
 * that what a killed writer left can be swept up; or, where the folder is ours alone and anything
 * else is rubbish, whatever there is. */
typedef enum file_over { FILE_OVER_FILE, FILE_OVER_LOCKED, FILE_OVER_ANYTHING } file_over;
/* The path behind the symbolic links that the path's last part is; false, with errno. */
bool file_resolve(const char *path, char out[FOLDER_PATH]);
/* Open the path's folder, and say its last part; -1, with errno. */
int file_folder(const char *path, char folder[FOLDER_PATH], const char **name);
/* Make it; then write to w->file; then put it in place, or drop it. What is new gets that mode less
 * the user's mask. false, with why and errno, and nothing is left behind. */
bool file_begin(file_write_to *w, int folder, const char *name, file_over over, int mode,
                const char **why);
bool file_finish(file_write_to *w, bool sync, const char **why);
void file_drop(file_write_to *w); /* also what was finished: does nothing then */
/* All of that at once, with `size` bytes. */
typedef struct file_content {
    const void *data;
    size_t size;
} file_content;
bool folder_replace(int folder, const char *name, file_over over, int mode, file_content content,
                    const char **why);

/* ---- threads.c ------------------------------------------------------------------------------- */

/* A pool for fork-join: pool_run calls work(arg, thread, begin, end) on disjoint ranges that cover
 * [0, n), on up to `threads` threads, the caller among them, and returns when all are done. Workers
 * spin briefly, then park. Which thread gets which range never changes what a range computes.
 * `work` must not raise, nor use this pool; one thread at a time may. */
typedef struct pool pool;
typedef void (*pool_work)(void *arg, int thread, int64_t begin, int64_t end);
pool *pool_open(heap *h, int threads); /* NULL when threads cannot be made: run with one */
int pool_threads(const pool *p);       /* 1 for NULL */
void pool_run(pool *p, int64_t n, pool_work work, void *arg);
/* The same by pieces that may differ much: work(arg, thread, i, i + 1) for each i, by whoever is
 * free first. */
void pool_share(pool *p, int64_t n, pool_work work, void *arg);
enum { POOL_SPIN_NS = 30000 };       /* until pool_spin says */
void pool_spin(pool *p, int64_t ns); /* that threads without work look for some, of their own */
void pool_close(pool *p);   /* in a forked child, which has no workers, only memory is freed */
int processors(void);       /* processors this process may use */
int processors_there(void); /* those of the machine */

/* ---- handle.c: what public pointers point to ------------------------------------------------- */

#define HANDLE_KINDS(X)                                                                            \
    X(TENSOR, "tensor")                                                                            \
    X(TAPE, "tape")                                                                                \
    X(PLAN, "plan")                                                                                \
    X(FILE, "file")                                                                                \
    X(MODULE, "module")                                                                            \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(GPT, "gpt")                                                                                  \
    X(TEXT, "text")                                                                                \
    X(LAYER, "layer")                                                                              \
    X(LOOP, "loop")                                                                                \
    X(ONNX, "model")                                                                               \
    X(CUSTOM, "kernel")                                                                            \
    X(COMPLEX, "complex tensor")                                                                   \
    X(ARCHIVE, "archive")                                                                          \
    X(TOKENIZER, "tokenizer")                                                                      \
    X(TEMPLATE, "template")                                                                        \
    X(DATASET, "dataset")                                                                          \
    X(LOADER, "loader")                                                                            \
    X(LLM, "language model")
enum {
    HANDLE_DEAD,
#define X(NAME, name) HANDLE_##NAME,
    HANDLE_KINDS(X)
#undef X
};

typedef struct handle {
    qn_ctx *ctx; /* also of a dead one */
    union {
        struct handle *next; /* dead: the one that died next */
        struct {             /* a living tensor */
            uint32_t wholes; /* complex ones that keep it, whatever is released */
            uint32_t of;     /* of which tensor it was taken as a view, by graph/view; 0: of none */
        };
    };
    union {
        void *object;   /* what it names; of a complex one the tensor of its pairs */
        uint32_t since; /* a tensor, which is the handle itself: where it was assigned to, when its
                           first value was born, by graph_node.born; 0: nobody knows */
    };
    uint8_t kind, generation;
    bool initial;   /* a tensor that is a parameter: its first value may not be computed yet */
    uint8_t dtype;  /* a complex tensor's */
    uint32_t label; /* what errors call it, as whoever made it has it; 0: nothing */
} handle;
typedef union handle_slot {
    _Alignas(64) handle handle;
    uint8_t bytes[64];
} handle_slot;
enum { HANDLES_A_BLOCK = 256, HANDLE_MARKED = 1 };
typedef struct handle_block {
    struct handle_block *next;
    handle_slot slot[HANDLES_A_BLOCK];
} handle_block;
typedef struct handle_store {
    handle_block *block, *last; /* all of them, in the order in which they were made */
    handle *oldest, *newest;    /* of the dead ones */
    uint32_t dead, fresh;       /* how many; slots of the last block not used yet */
} handle_store;

/* The handle that a public pointer names or named. */
static inline handle *handle_at(const void *name) {
    return (handle *)((uintptr_t)name & ~(uintptr_t)63);
}
static inline void *handle_name(const handle *h) {
    return (void *)((uintptr_t)h | h->generation);
}
handle *handle_make(qn_ctx *qn, int kind, void *object); /* raises */
void handle_drop(handle *h);                             /* what it names is gone */
void handles_close(qn_ctx *qn);
/* Of a living one of that kind? */
static inline bool handle_is(const void *name, int kind) {
    if (!name) return false;
    const handle *h = handle_at(name);
    return h->kind == kind && h->generation == ((uintptr_t)name & 63);
}
/* Report what is wrong with argument `arg` of `call`. */
QN_COLD void handle_refuse(qn_ctx *qn, const void *name, int kind, const char *call,
                           const char *arg);
/* The handle named, alive and of this context (NULL: of whichever it has), or NULL: then it is
 * reported. */
static inline handle *handle_check(qn_ctx *qn, const void *name, int kind, const char *call,
                                   const char *arg) {
    if (handle_is(name, kind) && (!qn || handle_at(name)->ctx == qn)) return handle_at(name);
    handle_refuse(qn, name, kind, call, arg);
    return NULL;
}
/* All of a list, "<arg> 3" being the name of the fourth. */
bool handles_are(qn_ctx *qn, int kind, int n, const void *const *name, const char *call,
                 const char *arg);
/* A public name for an object, NULL when there is no memory; the object behind one, NULL for NULL
 * and, reported, for a stale one; the same, and it is to be freed. */
void *object_open(qn_ctx *qn, int kind, void *object);
void *object_of(const void *name, int kind, const char *call);
void *object_close(void *name, int kind, const char *call);
/* The code of a call that was given this name and refused it. */
qn_code handle_code(const void *name);

/* ---- the context ----------------------------------------------------------------------------- */

/* Owned by run/context.c; the other rooms reach only their own state through it. */
struct qn_ctx {
    struct recorder *recorder; /* record room, from before the first handle; NULL: none */
    struct trace *trace;       /* trace room; NULL: none */
    heap heap;
    qn_code code;      /* first error, QN_OK when none */
    uint32_t failures; /* so far, also those behind the first */
    char error[1024];
    char missing[300]; /* of the last look-up that gave NULL, for the error that follows from it */
    const char *at_file; /* the user's place, from qn_at */
    int at_line;
    void (*log)(void *user, const char *line);
    void *log_user;
    knob_value knob[KNOB_COUNT];
    handle_store handles;
    struct graph *graph;   /* graph room */
    struct wisdom *wisdom; /* schedule room; NULL: none is kept of this device */
    struct run_state *run; /* run room: plans, buffers, device, statistics */
};

#endif
