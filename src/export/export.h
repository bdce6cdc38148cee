/* export.h - a static graph as C that needs no Quern.
 *
 *     export.c      qn_export: options, files
 *     parts.c       what runs one after the other: the plan, and the bodies of its loops
 *     layout.c      where each value of the plan lies in the program
 *     loops.c       loops: a body's values, its function, and the trips around it
 *     lanes.c       sums across the lanes of vectors, in the order of the device's code
 *     vector_tree.c  trees for vectors: unrolled, with lanes of powers of two
 *     vector.c      loops over lanes as statements about vectors
 *     vector_memory.c  where lanes lie in memory, and which of them are on
 *     vector_types.c  the types of vectors, and what GNU C has no operator for
 *     vector_ops.c  the operations that they have
 *     kernels.c     the kernels' functions, of the trees that the device's code was made of
 *     prune.c       helpers that nothing calls are left out
 *     routines.c    what is no loop nest: the text of the library's routines
 *     text.c        the header, and the function that runs it all
 *     values.c      parameters: arrays, or a blob
 *
 * The trees come from the programs' texts by the way that every kernel goes (run/compile.c), so the
 * exported code groups sums as the device's does and gives its bits. */
#ifndef QN_EXPORT_H
#define QN_EXPORT_H

#include "emit/clike/clike.h"
#include "graph/loop/loop.h"
#include "io/io.h"
#include "quern_export.h"
#include "run/run.h"

enum { EXPORT_ALIGN = 64 };

/* Where a value lies: in the caller's memory, or in a parameter's array. In a loop's body: where
 * the trip has a leaf, a root or what is packed. */
typedef enum home_kind {
    HOME_NONE,
    HOME_INPUT,
    HOME_OUTPUT,
    HOME_ARENA,
    HOME_STATE,
    HOME_WEIGHT,
    HOME_LEAF,
    HOME_ROOT,
    HOME_PACK
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

/* A plan, whose launches run one after the other: the request's own, or a loop's body. Arrays are
 * by slot or by launch. */
typedef struct export_part {
    run_plan *p;
    uint32_t number;   /* of the body; 0: it is the request's plan */
    export_home *home; /* by slot */
    uint8_t *dtype;    /* by slot, where something uses it */
    uint32_t *first, *last;
    size_t *size; /* by slot */
    export_set *set;
    uint32_t sets, copies, rests;
    size_t *scratch;              /* by launch: where its scratch is in the arena */
    struct export_loop **loop;    /* by launch; NULL: no loop */
    struct export_routine **call; /* likewise */
    export_copy *copy, *rest;     /* rest: before the launches; copy: behind them */
    size_t arena_bytes;
} export_part;

/* A loop: its body, and what lies in its scratch. States lie as in run/loop/loop.c, but for one
 * that a trip writes over itself: that is copied to where the result is before the first one. */
typedef struct export_loop {
    export_part body;
    loop_launch *c;
    const char **name;    /* by argument: what it is called, */
    size_t *row;          /* and the bytes of a row, where it has one for each trip */
    bool *over;           /* by state */
    size_t *home, *other; /* by state, in the scratch */
    size_t *pack;         /* by packing of the body, in the scratch */
    uint32_t *pack_function;
    size_t test_at, arena_at, size;
} export_loop;

/* A routine's call, computed by one thread. */
typedef struct export_routine {
    const call_launch *c;
    routine_call now;
    size_t scratch;
    uint32_t number;
} export_routine;

typedef struct export {
    static_view view;
    qn_ctx *qn;
    graph *g;
    export_part main;
    arena arena;
    const char *name, *capital; /* in front of functions; of macros */
    const char *file;           /* the header's name, as the .c file includes it */
    bool blob;
    export_value *value;
    uint32_t values, states, programs, program_cap, functions, function_cap, loops, loop_cap;
    export_state *state;
    export_program *program;
    export_function *function;
    export_loop **loop; /* all of them, inner ones first */
    export_routine **call;
    uint32_t calls, call_cap;
    size_t state_bytes, blob_bytes;
    str source, header;
}
export;

/* ---- layout.c -------------------------------------------------------------------------------- */

void export_layout(export *e); /* of e->main, which is open; raises */

/* ---- parts.c --------------------------------------------------------------------------------- */

/* The programs of a plan and of its loops' bodies, which are laid out; raises, as these. */
void part_open(export *e, export_part *part, run_plan *p);
/* Of a tree that is through the passes: what both kinds of C need to know. */
void export_prepare(export *e, export_program *x);
uint32_t export_program_of(export *e, uint32_t id);
uint32_t export_function_of(export *e, uint32_t program, const int *over);
bool part_uses(const export_part *part, uint32_t at);
/* May root_slot's value be made where leaf_slot's is? Then that has been seen to. */
bool part_replaces(export *e, export_part *part, uint32_t leaf_slot, uint32_t root_slot);
/* The arena: what has no home yet, and scratch. Then the rests, and the functions. */
void part_finish(export *e, export_part *part);

/* ---- loops.c --------------------------------------------------------------------------------- */

/* A loop's launch in the plan p. */
export_loop *export_loop_open(export *e, const launch *l, const run_plan *p);
void export_loop_text(export *e, const export_loop *loop, str *out); /* raises */
void export_loop_call(const export *e, const export_part *part, uint32_t launch, str *out);

/* ---- lanes.c --------------------------------------------------------------------------------- */

/* A finished tree's sums across lanes by halves; raises. */
void export_lanes(kernel *k, arena *a);

/* ---- vector_tree.c --------------------------------------------------------------------------- */

void export_vector_tree(kernel *k);             /* a tree for vectors; raises */
bool export_is_vector(kernel *k, stmt_id loop); /* is it a loop for export_vector? */

/* ---- vector.c -------------------------------------------------------------------------------- */

/* What a file needs for a vector type: the type, and macros (vector_types.c). */
typedef enum vector_need {
    VECTOR_TYPE,
    VECTOR_FUSED,
    VECTOR_COMPARED,
    VECTOR_MASKED,
    VECTOR_SHUFFLED,
    VECTOR_LOOKED_UP,
    VECTOR_ROOT,
    VECTOR_NEEDS
} vector_need;
/* Most lanes, and how many powers of two that are; of the tables that are looked up. */
enum { VECTOR_LANES = 64, VECTOR_LOGS = 7, VECTOR_ENTRIES = 16 };

/* By need and the lanes' dtype, a bit for each power of two. */
typedef struct export_types {
    uint32_t needs[VECTOR_NEEDS][DTYPE_COUNT];
    uint32_t zero; /* constants of nothing: a bit for each dtype */
    bool rolled;   /* are there loops that are not to be unrolled? */
} export_types;
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
/* The name of a vector type, which the file will define, with what is needed besides; raises, as
 * the next. */
const char *vector_type(vectors *v, int dtype);
const char *vector_type_for(vectors *v, int dtype, vector_need need);
void vector_wide(vectors *v, expr_id e); /* the expression as a vector: a scalar in all lanes */

/* ---- vector_memory.c ------------------------------------------------------------------------- */

sym vector_at_lane(vectors *v, sym a, int64_t l);
void vector_memory(vectors *v, mem_id m); /* its name */
/* From one lane to the next so many elements, -1 or 1 to 4; 0: it is not that. */
int vector_step(vectors *v, mem_id m, sym index);
bool vector_is_linear(vectors *v, sym condition); /* can it be written as a mask? */
void vector_mask(vectors *v, sym condition);
/* A whole vector as an operand; base, index and mask as arguments. */
void vector_place(vectors *v, const char *type, bool reads, mem_id m, sym index);
void vector_masked_place(vectors *v, mem_id m, sym index, sym valid);
/* Is the load one of lanes apart, which is done by whole vectors? `valid`: all its conditions. */
bool vector_is_apart(vectors *v, const ir_expr *x, sym valid);
void vector_load_apart(vectors *v, expr_id e, const ir_expr *x, sym valid);

/* ---- vector_ops.c ---------------------------------------------------------------------------- */

/* A variable for the operation's value; false: vectors have no such operation. Raises. */
bool vector_native(vectors *v, expr_id e, const ir_expr *x);

/* ---- vector_types.c -------------------------------------------------------------------------- */

const char *vector_lane_name(int dtype); /* f32: of the type's name */
const char *vector_lane_type(int dtype); /* float */
void vector_need_of(export_types *t, int dtype, int lanes, vector_need need);
void export_define_types(const export_types *t, str *out); /* and what is done by them; raises */

/* ---- kernels.c ------------------------------------------------------------------------------- */

void export_functions(export *e, str *out); /* raises */
/* The name is in the text, and no part of a longer one. */
bool export_uses(const char *text, const char *name);

/* ---- routines.c ------------------------------------------------------------------------------ */

export_routine *export_call_open(export *e, const launch *l); /* raises, as these */
void export_routines(const export *e, str *out);              /* the text of all that are called */
void export_call_functions(export *e, str *out);
void export_call_text(const export *e, const export_part *part, uint32_t launch, str *out);

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

void export_launches(const export *e, const export_part *part, str *out); /* all calls; raises */
void export_header(export *e, str *out);
void export_source(export *e, str *out); /* raises */

#endif
