/* clike.h - the emitter of C and its dialects, shared by its files; clike.c tells the idea. */
#ifndef QN_CLIKE_H
#define QN_CLIKE_H

#include "emit/emit.h"
#include "math/math.h"

enum { CLIKE_HELPERS = 2048, CLIKE_NEST = 16 };

/* The line before a loop over lanes, and what has to be in front of all that has some. */
#define CLIKE_LANES "LANES\n"
#define CLIKE_DEFINE_LANES                                                                         \
    "#if defined(__GNUC__) && !defined(__clang__)\n#define LANES _Pragma(\"GCC unroll 1\")\n"      \
    "#else\n#define LANES\n#endif\n"

/* What differs between C99 and the languages of devices with work groups. */
typedef struct clike_dialect {
    const char *header;  /* in front of everything */
    const char *global;  /* before the type of an argument's elements */
    const char *shared;  /* before a tile of a group */
    const char *table;   /* before the type of constants outside of functions */
    const char *unroll;  /* the line before a loop to be unrolled; "": none */
    const char *barrier; /* the statement */
    bool groups;         /* THREAD loops are a group's members */
    bool wraps;          /* sums and products of signed integers wrap, as by -fwrapv */
} clike_dialect;

typedef struct clike {
    kernel *k;
    int number;      /* of the kernel in the unit */
    uint32_t tables; /* of the kernels before it */
    const clike_dialect *dialect;
    sym_store *syms;
    arena arena;
    emit_launch launch;
    const tile_storage *home;                   /* in a dialect with groups; by mem_id */
    int64_t members;                            /* of the kernel's groups */
    sym nest_var[CLIKE_NEST], zero[CLIKE_NEST]; /* of the open nest of THREAD loops; zeros */
    int nest_vars;
    str helpers, body; /* the functions that operations call; the kernel's own text */
    str *out;          /* where text goes at the moment: &body but for helpers */
    int indent;
    uint32_t helper[CLIKE_HELPERS]; /* keys of the helpers there are */
    int helper_count;
    sym lane_var; /* of the open VEC loop */
    sym lane_extent;
    stmt_id lane_loop;
    bool lanes_inside; /* the VEC loop holds loops: each statement runs its own lanes */
    /* the statement under way, by expr_id */
    uint32_t *uses, *name; /* name: 1 + number of the variable that holds it, 0: none */
    uint8_t *height, *wanted;
    uint32_t cap, names;
} clike;

/* ---- clike.c --------------------------------------------------------------------------------- */

/* Run `write` on an emitter for each of these kernels, which share their helpers; what it made,
 * helpers first, comes behind the dialect's header in `out`. Raises. */
void clike_unit(int n, kernel *const *k, const clike_dialect *dialect, void (*write)(clike *c),
                str *out);
void clike_line(clike *c); /* indentation */
void clike_close_block(clike *c);
void clike_block(clike *c, stmt_id parent); /* the statements in a loop's body */
void clike_loop(clike *c, stmt_id loop);
/* A root that runs in the first item: `item` names it, or the first of those that are to run. */
void clike_in_first_item(clike *c, stmt_id root, const char *item);

/* ---- workgroup.c: what only dialects with groups have ---------------------------------------- */

void clike_nest(clike *c, stmt_id nest);
void clike_define_home(clike *c, mem_id m);     /* the tile's declaration, where it is not shared */
sym clike_place(clike *c, mem_id m, sym index); /* the index within the member's part of the tile */
void clike_declare_params(clike *c);
bool clike_first_only(const clike *c, const ir_stmt *store); /* only the first member stores */

/* ---- ops.c: types, constants, operations ----------------------------------------------------- */

const char *clike_type(int dtype);        /* in variables: f16 and bf16 are float */
const char *clike_memory_type(int dtype); /* in memory */
void clike_constant(clike *c, int dtype, uint64_t bits);
/* The opening text of an operation's call, "add_i32("; its helper is defined when it is new. The
 * arguments follow, separated by commas, and ")". */
void clike_call(clike *c, int op, int dtype, int in);
/* The name of a table, which is defined when it is new. Compilers gather by numbers of 32 bits with
 * signs, table0[(int)(..)], in half of the time. */
void clike_table(clike *c, uint32_t number);
/* Write how a call begins that converts between variables and memory: "(" or "from_f16(". */
void clike_load(clike *c, int dtype);
void clike_store(clike *c, int dtype);
void clike_need_quotient(clike *c);                     /* the functions that clike_sym calls */
bool clike_infix(int op, int dtype, const char **sign); /* written as (x sign y) */

/* ---- index.c: the index algebra -------------------------------------------------------------- */

void clike_sym(clike *c, sym a);
void clike_truth(clike *c, sym a); /* a condition */

#endif
