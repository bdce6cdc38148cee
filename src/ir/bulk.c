/* bulk.c - is a kernel of a size that can be compiled, and run once, in reasonable time?
 *
 * Text from elsewhere may be short and mean much: a loop unrolled a hundred million times, a
 * register tile of a million elements, iterations for a thousand years. Such a kernel is correct,
 * but LLVM would seem to hang, or take all memory. So what grows with the numbers in a text is
 * counted before anything is compiled, each count by one walk over the tree in floating point,
 * which cannot overflow. The limits and their reasons are in ir.h.
 *
 * Steps are those that are certain to run: loops over dimension variables count with their least
 * extents, so that a kernel which may also be run on little is not refused. */
#include "ir/ir.h"

#include <stdio.h>

typedef struct bulk {
    kernel *k;
    str *why;
    uint32_t *height;     /* of expressions: how deep they nest */
    uint32_t *seen, mark; /* expressions counted for statement number `mark` */
    double statements, copies, code, accesses, steps;
} bulk;

static bool exceeds(bulk *b, stmt_id s, const char *what, double n, double most) {
    if (n <= most) return false;
    if (s && ir_s(b->k, s)->line) ir_refuse(b->why, "line %u: ", ir_s(b->k, s)->line);
    ir_refuse(b->why, "%s: %.0f; at most %.0f", what, n, most);
    return true;
}

/* ---- expressions ---------------------------------------------------------------------------- */

/* Arguments have smaller numbers than what is made of them. */
static bool heights(bulk *b) {
    expr_id *arg[3];
    for (expr_id e = 1; e < b->k->exprs; e++) {
        int n = ir_expr_args(ir_e(b->k, e), arg);
        for (int i = 0; i < n; i++)
            if (*arg[i] < e && b->height[*arg[i]] >= b->height[e])
                b->height[e] = b->height[*arg[i]] + 1;
        if (exceeds(b, 0, "expressions nest too deep", b->height[e], IR_DEEP)) return false;
    }
    return true;
}

static void count_expr(bulk *b, expr_id e, double *nodes, double *loads) {
    expr_id *arg[3];
    if (!e || e >= b->k->exprs || b->seen[e] == b->mark) return;
    b->seen[e] = b->mark;
    const ir_expr *x = ir_e(b->k, e);
    *nodes += x->kind == EXPR_OP ? ir_instructions(x->op, x->dtype) : 1;
    *loads += x->kind == EXPR_LOAD;
    int n = ir_expr_args(ir_e(b->k, e), arg);
    for (int i = 0; i < n; i++)
        if (*arg[i] < e) count_expr(b, *arg[i], nodes, loads); /* else it is no DAG */
}

/* ---- statements ----------------------------------------------------------------------------- */

/* One statement in so many unrolled copies, run so many times. */
static bool count_stmt(bulk *b, stmt_id s, double copies, double steps) {
    expr_id *slot[4];
    double nodes = 1, loads = 0, elements = 1;
    ir_stmt *t = ir_s(b->k, s);
    int n = ir_stmt_exprs(t, slot);
    b->mark++;
    for (int i = 0; i < n; i++) count_expr(b, *slot[i], &nodes, &loads);
    if (t->kind == STMT_STORE && monoid_rows[t->monoid].states > 1) nodes += IR_COMBINED;
    if (t->kind == STMT_DEF && t->def.value) {
        int64_t least = sym_lo(b->k->syms, ir_m(b->k, t->def.mem)->size);
        if (least > 1) elements = (double)least;
    }
    b->copies += copies;
    b->code += copies * nodes;
    b->accesses += loads + (t->kind == STMT_STORE ? t->n : 0);
    b->steps += steps * elements;
    return !exceeds(b, s, "statements once loops are unrolled", b->copies, IR_COPIES) &&
           !exceeds(b, s, "operations once loops are unrolled", b->code, IR_CODE) &&
           !exceeds(b, s, "loads and stores", b->accesses, IR_ACCESSES) &&
           !exceeds(b, s, "steps of one run", b->steps, IR_STEPS);
}

static bool count_block(bulk *b, stmt_id block, double copies, double steps) {
    kernel *k = b->k;
    for (stmt_id s = ir_s(k, block)->first; s; s = ir_s(k, s)->next) {
        const ir_stmt *t = ir_s(k, s);
        if (exceeds(b, s, "statements", b->statements += 1, IR_STATEMENTS)) return false;
        if (t->kind != STMT_LOOP) {
            if (!count_stmt(b, s, copies, steps)) return false;
            continue;
        }
        bool repeats = t->loop == LOOP_UNROLL || t->loop == LOOP_WORD;
        int64_t least = sym_lo(k->syms, t->l.extent), most = sym_hi(k->syms, t->l.extent);
        double made = copies * (repeats && most > 1 ? (double)most : 1);
        double run = steps * (least > 1 ? (double)least : 1);
        if (exceeds(b, s, "copies of an unrolled loop", made, IR_COPIES)) return false;
        b->steps += run; /* iterations cost even where their body is empty */
        if (exceeds(b, s, "steps of one run", b->steps, IR_STEPS)) return false;
        if (!count_block(b, s, made, run)) return false;
    }
    return true;
}

/* ---- memories ------------------------------------------------------------------------------- */

static bool memories(bulk *b) {
    kernel *k = b->k;
    double registers = 0;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *x = ir_m(k, m);
        double size = (double)qn_dtype_size((qn_dtype)x->dtype);
        double least = size * (double)sym_lo(k->syms, x->size);
        double most = size * (double)sym_hi(k->syms, x->size);
        char what[64];
        if (x->scope == MEM_ARG) {
            snprintf(what, sizeof what, "bytes of a%d", x->arg);
            if (exceeds(b, 0, what, least, (double)IR_ARG_BYTES)) return false;
            continue;
        }
        snprintf(what, sizeof what, "bytes of t%d", ir_tile_number(k, m));
        if (exceeds(b, 0, what, most, IR_TILE_BYTES)) return false;
        if (x->scope != MEM_REG) continue;
        int64_t lanes = ir_register_lanes(k, m, NULL);
        registers += (double)sym_hi(k->syms, x->size) / (double)(lanes > 1 ? lanes : 1);
        if (exceeds(b, 0, "registers of tiles", registers, IR_REGISTERS)) return false;
    }
    return true;
}

bool ir_moderate(kernel *k, str *why) {
    bulk b = {.k = k, .why = why};
    if (exceeds(&b, 0, "memories", k->mems - 1, IR_MEMORIES)) return false;
    b.height = arena_zeroed(&k->arena, k->exprs * sizeof *b.height);
    b.seen = arena_zeroed(&k->arena, k->exprs * sizeof *b.seen);
    return heights(&b) && count_block(&b, k->root, 1, 1) && memories(&b);
}
