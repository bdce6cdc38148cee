/* widen.c - a kernel in double precision: what its results would be with next to no rounding.
 *
 * Two schedules of one kernel that group a sum in different ways differ in the last bits, and
 * neither is right. Which differences are rounding and which a fault shows beside the same tree in
 * a wider type: arguments that are read stay as they are, everything computed from them, and
 * arguments that are written, become f64.
 *
 * Not every tree has such a twin: where bits of a float are used as an integer, or an argument is
 * read as well as written, the answer is no. */
#include "tune/tune.h"

static bool narrow(int dtype) {
    return dtype_is_float(dtype) && dtype != QN_F64;
}

typedef struct widening {
    bool able;
} widening;

static expr_id widen_expr(kernel *k, const ir_expr *e, void *user) {
    widening *w = user;
    ir_expr x = *e;
    switch (e->kind) {
    case EXPR_CONST:
        if (!narrow(e->dtype)) return ir_rebuild(k, e, NULL);
        return ir_const_f(k, QN_F64, dtype_get_f((qn_dtype)e->dtype, &x.bits, 0));
    case EXPR_LOAD:
        if (!narrow(e->dtype)) return ir_rebuild(k, e, NULL);
        if (ir_m(k, e->load.mem)->scope == MEM_ARG)
            return ir_cast(k, QN_F64, ir_rebuild(k, e, NULL));
        x.dtype = QN_F64;
        return ir_intern(k, &x);
    case EXPR_OP:
        if (e->op == OP_BITCAST) w->able = false;
        if (e->op == OP_CAST && narrow(e->dtype)) return ir_cast(k, QN_F64, e->arg[0]);
        return ir_op(k, e->op, narrow(e->dtype) ? QN_F64 : (qn_dtype)e->dtype, e->n, e->arg);
    case EXPR_TABLE:
    case EXPR_PARAM:
        return narrow(e->dtype) ? ir_cast(k, QN_F64, ir_rebuild(k, e, NULL))
                                : ir_rebuild(k, e, NULL);
    default:
        return ir_rebuild(k, e, NULL);
    }
}

bool tune_widen(kernel *k) {
    widening w = {.able = true};
    for (mem_id m = 1; m < k->mems; m++) {
        ir_memory *x = ir_m(k, m);
        if (!narrow(x->dtype)) continue;
        if (x->scope == MEM_ARG && (x->access & ACCESS_READ) && (x->access & ACCESS_WRITE))
            return false;
        if (x->scope != MEM_ARG || (x->access & ACCESS_WRITE)) x->dtype = QN_F64;
    }
    ir_rewrite(k, k->root, widen_expr, &w);
    return w.able;
}
