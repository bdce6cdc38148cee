/* bulk.c - is a kernel of a size that can be compiled, and run once, in reasonable time?
 *
 * Text from elsewhere may say little and mean much: a loop unrolled a hundred million times, a
 * register tile of a million elements, trips for a thousand years. Such a kernel is right, and
 * nobody can wait for it; in LLVM it would look like a hang, or take all memory. So what grows with
 * the numbers in a text is counted before anything is made of it, each count by one walk over the
 * tree in floating point, which cannot overflow. The limits and their reasons stand in kern.h.
 *
 * Steps are those that are made for certain: loops over dimension variables count with the least
 * trips they can have, so that a kernel which may also be run on little is not refused. */
#include "kern/kern.h"

#include <stdio.h>

typedef struct bulk {
    kern *k;
    str *why;
    uint32_t *height;     /* of expressions: how deep they nest */
    uint32_t *seen, mark; /* expressions counted for statement number `mark` */
    double statements, copies, code, accesses, steps;
} bulk;

static bool exceeds(bulk *b, kstmt s, const char *what, double n, double most) {
    if (n <= most) return false;
    if (s && kern_s(b->k, s)->line) kern_refuse(b->why, "line %u: ", kern_s(b->k, s)->line);
    kern_refuse(b->why, "%s: %.0f; at most %.0f", what, n, most);
    return true;
}

/* ---- expressions ---------------------------------------------------------------------------- */

/* Arguments have smaller numbers than what is made of them. */
static bool heights(bulk *b) {
    kexpr *arg[3];
    for (kexpr e = 1; e < b->k->exprs; e++) {
        int n = kern_expr_args(kern_e(b->k, e), arg);
        for (int i = 0; i < n; i++)
            if (*arg[i] < e && b->height[*arg[i]] >= b->height[e])
                b->height[e] = b->height[*arg[i]] + 1;
        if (exceeds(b, 0, "expressions nest too deep", b->height[e], KERN_DEEP)) return false;
    }
    return true;
}

static void count_expr(bulk *b, kexpr e, double *nodes, double *loads) {
    kexpr *arg[3];
    if (!e || e >= b->k->exprs || b->seen[e] == b->mark) return;
    b->seen[e] = b->mark;
    const kern_expr *x = kern_e(b->k, e);
    *nodes += 1;
    *loads += x->kind == KE_LOAD;
    int n = kern_expr_args(kern_e(b->k, e), arg);
    for (int i = 0; i < n; i++)
        if (*arg[i] < e) count_expr(b, *arg[i], nodes, loads); /* else it is no DAG */
}

/* ---- statements ----------------------------------------------------------------------------- */

/* One statement in so many unrolled copies, run so many times. */
static bool count_stmt(bulk *b, kstmt s, double copies, double steps) {
    kexpr *slot[4];
    double nodes = 1, loads = 0, elements = 1;
    kern_stmt *t = kern_s(b->k, s);
    int n = kern_stmt_exprs(t, slot);
    b->mark++;
    for (int i = 0; i < n; i++) count_expr(b, *slot[i], &nodes, &loads);
    if (t->kind == KS_DEF && t->def.value) {
        int64_t least = sym_lo(b->k->syms, kern_m(b->k, t->def.mem)->size);
        if (least > 1) elements = (double)least;
    }
    b->copies += copies;
    b->code += copies * nodes;
    b->accesses += loads + (t->kind == KS_STORE ? t->n : 0);
    b->steps += steps * elements;
    return !exceeds(b, s, "statements once loops are unrolled", b->copies, KERN_COPIES) &&
           !exceeds(b, s, "operations once loops are unrolled", b->code, KERN_CODE) &&
           !exceeds(b, s, "loads and stores", b->accesses, KERN_ACCESSES) &&
           !exceeds(b, s, "steps of one run", b->steps, KERN_STEPS);
}

static bool count_block(bulk *b, kstmt block, double copies, double steps) {
    kern *k = b->k;
    for (kstmt s = kern_s(k, block)->first; s; s = kern_s(k, s)->next) {
        const kern_stmt *t = kern_s(k, s);
        if (exceeds(b, s, "statements", b->statements += 1, KERN_STATEMENTS)) return false;
        if (t->kind != KS_LOOP) {
            if (!count_stmt(b, s, copies, steps)) return false;
            continue;
        }
        bool repeats = t->loop == KERN_UNROLL || t->loop == KERN_WORD;
        int64_t least = sym_lo(k->syms, t->l.extent), most = sym_hi(k->syms, t->l.extent);
        double made = copies * (repeats && most > 1 ? (double)most : 1);
        double run = steps * (least > 1 ? (double)least : 1);
        if (exceeds(b, s, "copies of an unrolled loop", made, KERN_COPIES)) return false;
        b->steps += run; /* trips cost also where nothing is done in them */
        if (exceeds(b, s, "steps of one run", b->steps, KERN_STEPS)) return false;
        if (!count_block(b, s, made, run)) return false;
    }
    return true;
}

/* ---- memories ------------------------------------------------------------------------------- */

static bool memories(bulk *b) {
    kern *k = b->k;
    double registers = 0;
    for (kmem m = 1; m < k->mems; m++) {
        const kern_memory *x = kern_m(k, m);
        double size = (double)qn_dtype_size((qn_dtype)x->dtype);
        double least = size * (double)sym_lo(k->syms, x->size);
        double most = size * (double)sym_hi(k->syms, x->size);
        char what[64];
        if (x->scope == KERN_ARG) {
            snprintf(what, sizeof what, "bytes of a%d", x->arg);
            if (exceeds(b, 0, what, least, (double)KERN_ARG_BYTES)) return false;
            continue;
        }
        snprintf(what, sizeof what, "bytes of t%d", kern_tile_number(k, m));
        if (exceeds(b, 0, what, most, KERN_TILE_BYTES)) return false;
        if (x->scope != KERN_REG) continue;
        int64_t lanes = kern_register_lanes(k, m, NULL);
        registers += (double)sym_hi(k->syms, x->size) / (double)(lanes > 1 ? lanes : 1);
        if (exceeds(b, 0, "registers of tiles", registers, KERN_REGISTERS)) return false;
    }
    return true;
}

bool kern_moderate(kern *k, str *why) {
    bulk b = {.k = k, .why = why};
    if (exceeds(&b, 0, "memories", k->mems - 1, KERN_MEMORIES)) return false;
    b.height = arena_zeroed(&k->arena, k->exprs * sizeof *b.height);
    b.seen = arena_zeroed(&k->arena, k->exprs * sizeof *b.seen);
    return heights(&b) && count_block(&b, k->root, 1, 1) && memories(&b);
}
