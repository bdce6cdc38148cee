/* clike.h - the C99 emitter, shared by its files; clike.c tells the idea. */
#ifndef QN_CLIKE_H
#define QN_CLIKE_H

#include "emit/emit.h"

enum { CLIKE_HELPERS = 512 };

typedef struct clike {
    kern *k;
    sym_store *syms;
    arena arena;
    emit_launch launch;
    str helpers, body; /* the functions that operations call; the kernel's own text */
    str *out;          /* where text goes at the moment: &body but for helpers */
    int indent;
    uint32_t helper[CLIKE_HELPERS]; /* keys of the helpers there are */
    int helper_count;
    sym lane_var; /* of the open VEC loop */
    sym lane_extent;
    kstmt lane_loop;
    bool lanes_inside; /* the VEC loop holds loops: each statement runs its own lanes */
    /* the statement under way, by kexpr */
    uint32_t *uses, *name; /* name: 1 + number of the variable that holds it, 0: none */
    uint8_t *height, *wanted;
    uint32_t cap, names;
} clike;

/* ---- clike_ops.c: types, constants, operations ----------------------------------------------- */

const char *clike_type(int dtype);        /* in variables: f16 and bf16 are float */
const char *clike_memory_type(int dtype); /* in memory */
void clike_constant(clike *c, int dtype, uint64_t bits);
/* The opening text of an operation's call, "add_i32("; its helper is defined when it is new. The
 * arguments follow, separated by commas, and ")". */
void clike_call(clike *c, int op, int dtype, int in);
/* Opening texts of calls that convert between variables and memory. "" or "from_f16(". */
const char *clike_load(clike *c, int dtype);
const char *clike_store(clike *c, int dtype);
void clike_need_quotient(clike *c);                     /* the functions that clike_sym calls */
bool clike_infix(int op, int dtype, const char **sign); /* written as (x sign y) */

/* ---- clike_index.c: the index algebra -------------------------------------------------------- */

void clike_sym(clike *c, sym a);
void clike_truth(clike *c, sym a); /* a condition */

#endif
