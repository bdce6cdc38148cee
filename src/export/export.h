/* export.h - a static graph as C that needs no Quern.
 *
 *     export.c      qn_export: options, files
 *     layout.c      where each value of the plan lies in the program
 *     lanes.c       sums across the lanes of vectors, in the order of the device's code
 *     vector.c      loops over lanes as statements about vectors
 *     vector_types.c  the types of vectors, and loads and stores of some lanes
 *     vector_ops.c  the operations that they have
 *     kernels.c     the kernels' functions, of the trees that the device's code was made of
 *     prune.c       helpers that nothing calls are left out
 *     text.c        the header, and the function that runs it all
 *     values.c      parameters: arrays, or a blob
 *
 * The trees come from the programs' texts by the way that every kernel goes (run/compile.c), so the
 * exported code groups sums as the device's does and gives its bits. */
#ifndef QN_EXPORT_H
#define QN_EXPORT_H

#include "emit/clike/clike.h"
#include "io/io.h"
#include "quern_export.h"
#include "run/run.h"

enum { EXPORT_ALIGN = 64 };

/* Where a value lies: in the caller's memory, or in a parameter's array. */
typedef enum home_kind {
    HOME_NONE,
    HOME_INPUT,
    HOME_OUTPUT,
    HOME_ARENA,
    HOME_STATE,
    HOME_WEIGHT
} home_kind;
typedef struct export_home {
    uint8_t kind;
    uint32_t number; /* of the input, output or weight */
    size_t offset;   /* in the arena or the state */
} export_home;

/* A parameter's value, or one that is made of parameters. */
typedef struct export_value {
    uint32_t buffer; /* 0: zeros */
    uint8_t dtype;
    size_t size, offset; /* bytes; offset: in the blob */
} export_value;

/* A parameter that runs assign. */
typedef struct export_state {
    tuple_id shape;
    const char *name; /* or NULL */
    size_t offset;
    uint32_t first; /* its first value, among the values */
} export_state;

/* A program of the plan's, its tree scheduled and through the passes. */
typedef struct export_program {
    kernel *k;       /* owned; as plain C has it, */
    kernel *vectors; /* as GNU C does; owned */
    uint32_t id;
    size_t scratch;
    bool *uses; /* by argument: is it read or written? */
} export_program;

/* One call of a kernel. Where an output lies over an input, `over` has, by the input: 1 + the
 * output; else 0. */
typedef struct export_set {
    uint32_t launch, program, function;
    const launch_set *set;
    int *over;
} export_set;

/* A function of the file: an input that an output lies over is another name for that. */
typedef struct export_function {
    uint32_t program;
    const int *over;
} export_function;

/* Bytes that are copied before the first launch, or when all have run. */
typedef struct export_copy {
    export_home from, to;
    size_t size;
} export_copy;

typedef struct export {
    static_view view;
    qn_ctx *qn;
    graph *g;
    run_plan *p;
    arena arena;
    const char *name, *capital; /* in front of functions; of macros */
    const char *file;           /* the header's name, as the .c file includes it */
    bool blob;
    export_home *home; /* by slot */
    uint8_t *dtype;    /* by slot, where a kernel uses it */
    uint32_t *first, *last;
    export_value *value;
    uint32_t values, states, programs, sets, functions, copies, rests;
    export_state *state;
    export_program *program;
    export_set *set; /* launch by launch */
    export_function *function;
    size_t *scratch;          /* by launch: where its scratch is in the arena */
    export_copy *copy, *rest; /* rest: before */
    size_t arena_bytes, state_bytes, blob_bytes;
    str source, header;
}
export;

/* ---- layout.c -------------------------------------------------------------------------------- */

void export_programs(export *e); /* raises, as these */
void export_layout(export *e);
/* Of a tree that is through the passes: what both kinds of C need to know. */
void export_prepare(export *e, export_program *x);

/* ---- lanes.c --------------------------------------------------------------------------------- */

/* A finished tree's sums across lanes by halves; raises. */
void export_lanes(kernel *k, arena *a);

/* ---- vector.c -------------------------------------------------------------------------------- */

/* The vector types that a file needs: by the lanes' dtype, a bit for each power of two. */
typedef struct export_types {
    uint32_t used[DTYPE_COUNT], masked[DTYPE_COUNT];
    uint32_t zero; /* constants of nothing: a bit for each dtype */
    bool rolled;   /* are there loops that are not to be unrolled? */
} export_types;
void export_unroll(kernel *k);                  /* UNROLL loops of constant extent; raises */
bool export_is_vector(kernel *k, stmt_id loop); /* is it a loop for export_vector? */
int *export_named(kernel *k, arena *a); /* by memory: lanes of its registers, or 0; raises */
bool export_holds_tile(kernel *k, arena *a, const int *named, stmt_id loop); /* raises */
void export_vector(clike *c, export_types *types, arena *a, const int *named, stmt_id loop);
void export_registers(clike *c, export_types *types, arena *a, const int *named, stmt_id def);

typedef struct vectors {
    clike *c;
    kernel *k;
    export_types *types;
    arena *a;
    sym var;
    int lanes;
    sym scalar_valid, lane_valid; /* of the store under way */
    uint8_t *wanted, *wide;       /* by expression */
    char letter;                  /* names of nodes begin with it */
} vectors;
/* The name of a vector type, which the file will define; raises, as the next. */
const char *vector_type(vectors *v, int dtype);
void vector_wide(vectors *v, expr_id e); /* the expression as a vector: a scalar in all lanes */

/* ---- vector_ops.c ---------------------------------------------------------------------------- */

/* A variable for the operation's value; false: vectors have no such operation. Raises. */
bool vector_native(vectors *v, expr_id e, const ir_expr *x);

/* ---- vector_types.c -------------------------------------------------------------------------- */

const char *vector_lane_name(int dtype);                   /* f32: of the type's name */
const char *vector_lane_type(int dtype);                   /* float */
void export_define_types(const export_types *t, str *out); /* and what is done by them; raises */

/* ---- kernels.c ------------------------------------------------------------------------------- */

void export_functions(export *e, str *out); /* raises */
/* The name is in the text, and no part of a longer one. */
bool export_uses(const char *text, const char *name);

/* ---- prune.c --------------------------------------------------------------------------------- */

/* Append those of the helpers that the body calls, and that they call. Raises. */
void export_prune(arena *a, const str *helpers, const str *body, str *out);

/* ---- values.c -------------------------------------------------------------------------------- */

const char *export_type(int dtype);      /* an element's in memory */
void export_arrays(export *e, str *out); /* raises */
void export_blob(export *e, file_writer *w);
/* A pointer to the home as C; `reads`: nothing is written there. Raises. */
void export_place(const export *e, export_home h, bool reads, str *out);

/* ---- text.c ---------------------------------------------------------------------------------- */

void export_header(export *e, str *out); /* raises */
void export_source(export *e, str *out); /* raises */

#endif
