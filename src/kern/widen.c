/* widen.c - a kernel in double precision: what its results would be with next to no rounding.
 *
 * Two schedules of one kernel that group a sum in different ways differ in the last bits, and
 * neither is right. Which differences are rounding and which a fault shows beside the same tree in
 * a wider type: arguments that are read stay as they are, everything computed from them, and
 * arguments that are written, become f64.
 *
 * Not every tree has such a twin: where bits of a float are used as an integer, or an argument is
 * read as well as written, the answer is no. */
#include "kern/kern.h"

static bool narrow(int dtype) {
    return dtype == QN_F32 || dtype == QN_F16 || dtype == QN_BF16;
}

typedef struct widening {
    bool able;
} widening;

static kexpr widen_expr(kern *k, const kern_expr *e, void *user) {
    widening *w = user;
    kern_expr x = *e;
    switch (e->kind) {
    case KE_CONST:
        if (!narrow(e->dtype)) return kern_rebuild(k, e, NULL);
        return kern_const_f(k, QN_F64, dtype_get_f((qn_dtype)e->dtype, &x.bits, 0));
    case KE_LOAD:
        if (!narrow(e->dtype)) return kern_rebuild(k, e, NULL);
        if (kern_m(k, e->load.mem)->scope == KERN_ARG)
            return kern_cast(k, QN_F64, kern_rebuild(k, e, NULL));
        x.dtype = QN_F64;
        return kern_intern(k, &x);
    case KE_OP:
        if (e->op == OP_BITCAST) w->able = false;
        if (e->op == OP_CAST && narrow(e->dtype)) return kern_cast(k, QN_F64, e->arg[0]);
        return kern_op(k, e->op, narrow(e->dtype) ? QN_F64 : (qn_dtype)e->dtype, e->n, e->arg);
    case KE_TABLE:
        return narrow(e->dtype) ? kern_cast(k, QN_F64, kern_rebuild(k, e, NULL))
                                : kern_rebuild(k, e, NULL);
    default:
        return kern_rebuild(k, e, NULL);
    }
}

bool kern_widen(kern *k) {
    widening w = {.able = true};
    for (kmem m = 1; m < k->mems; m++) {
        kern_memory *x = kern_m(k, m);
        if (!narrow(x->dtype)) continue;
        if (x->scope == KERN_ARG && (x->access & KERN_READ) && (x->access & KERN_WRITE))
            return false;
        if (x->scope != KERN_ARG || (x->access & KERN_WRITE)) x->dtype = QN_F64;
    }
    kern_rewrite(k, k->root, widen_expr, &w);
    return w.able;
}
