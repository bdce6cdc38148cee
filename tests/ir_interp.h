/* ir_interp.h - the direct meaning of a kernel tree, for tests: one statement after the other,
 * one trip after the other, every access checked against its memory's size.
 *
 * With `kinds` set, loop kinds are taken at their word as far as they could do harm: parallel trips
 * run last to first, and a vector loop runs each statement for all lanes before the next, reading
 * for all of them before the last lane's store to the first's. Of a kernel with THREAD loops each
 * item is run by all members of its group, one after the other from the last to the first, each
 * going as far as the next barrier while the others wait; only the first stores for the group. A
 * legal kernel, whose barriers are placed, gives the same. */
#ifndef QN_KERN_INTERP_H
#define QN_KERN_INTERP_H

#include <stdio.h>
#include <stdlib.h>

#include "ir/ir.h"

enum { INTERP_VARS = 1200 }; /* loops, dimensions */
#define INTERP_LONG "too many steps"

typedef struct interp {
    kernel *k;
    bool kinds;
    void **mem; /* arguments: the caller's; tiles: made here */
    int64_t *size;
    sym var[INTERP_VARS];
    int64_t value[INTERP_VARS];
    const int64_t *param; /* as scalar_to_word has them */
    int vars, lane;       /* lane: place of the vector loop's variable in var, 0 outside: -1 */
    int64_t lanes;
    scalar *memo;
    uint32_t *stamp, now;
    uint64_t steps;     /* statements and trips run, */
    uint64_t most;      /* and how many may be; 0: any */
    uint8_t spoil;      /* what bytes of undefined elements are; of bool the last bit */
    tile_storage *home; /* of a kernel whose items are run by groups; NULL: plainly */
    int64_t members, member;
    uint8_t **copies; /* of repeated tiles, all members' */
    char error[200];
} interp;

/* A member on its way: the next statement, the loops around it. */
typedef struct interp_member {
    stmt_id at;
    int vars;
    int64_t value[INTERP_VARS];
    sym var[INTERP_VARS];
} interp_member;

typedef struct interp_put {
    bool on;
    int64_t index;
    scalar value[IR_STATES];
} interp_put;

static inline bool interp_fail(interp *t, const char *what, long long a, long long b) {
    if (!t->error[0]) snprintf(t->error, sizeof t->error, "%s (%lld of %lld)", what, a, b);
    return false;
}

static inline int64_t interp_sym(interp *t, sym a) {
    int64_t v = 0;
    if (!sym_eval(t->k->syms, a, t->vars, t->var, t->value, &v))
        interp_fail(t, "an index expression has an unbound variable", a, 0);
    return v;
}

static inline scalar interp_get(interp *t, mem_id m, int64_t i) {
    int d = ir_m(t->k, m)->dtype;
    scalar v = {.i = 0};
    if (i < 0 || i >= t->size[m])
        interp_fail(t, "a load out of bounds", i, t->size[m]);
    else if (dtype_is_float(d))
        v.f = dtype_get_f(d, t->mem[m], i);
    else
        v.i = dtype_get_i(d, t->mem[m], i);
    return v;
}

static inline void interp_set(interp *t, mem_id m, int64_t i, scalar v) {
    int d = ir_m(t->k, m)->dtype;
    if (i < 0 || i >= t->size[m])
        interp_fail(t, "a store out of bounds", i, t->size[m]);
    else if (dtype_is_float(d))
        dtype_set_f(d, t->mem[m], i, v.f);
    else
        dtype_set_i(d, t->mem[m], i, v.i);
}

static inline scalar interp_expr(interp *t, expr_id id);

static inline scalar interp_load(interp *t, const ir_expr *e) {
    scalar none;
    if (dtype_is_float(e->dtype))
        none.f = 0;
    else
        none.i = 0;
    if (interp_sym(t, e->load.valid) == 0) return none;
    if (e->load.guard && !interp_expr(t, e->load.guard).i) return none;
    int64_t index = interp_sym(t, e->load.index);
    if (e->load.dyn) index = (int64_t)((uint64_t)index + (uint64_t)interp_expr(t, e->load.dyn).i);
    return interp_get(t, e->load.mem, index);
}

static inline scalar interp_expr(interp *t, expr_id id) {
    const ir_expr *e = ir_e(t->k, id);
    scalar x[3], out = {.i = 0};
    if (t->stamp[id] == t->now) return t->memo[id];
    if (e->kind == EXPR_CONST) out = scalar_from_bits(e->dtype, e->bits);
    if (e->kind == EXPR_INDEX) out.i = interp_sym(t, e->index);
    if (e->kind == EXPR_LOAD) out = interp_load(t, e);
    if (e->kind == EXPR_PARAM) out = scalar_from_word(e->dtype, t->param[e->param]);
    if (e->kind == EXPR_TABLE) {
        const ir_table *c = &t->k->table[e->table.number];
        uint64_t entry = (uint64_t)interp_expr(t, e->table.index).i % c->n;
        out = scalar_from_bits(e->dtype, c->bits[entry]);
    }
    if (e->kind == EXPR_OP) {
        for (int i = 0; i < e->n; i++) x[i] = interp_expr(t, e->arg[i]);
        if (!scalar_op(e->op, e->dtype, ir_e(t->k, e->arg[e->n - 1])->dtype, x, &out))
            interp_fail(t, "an operation without a meaning", e->op, e->dtype);
    }
    t->stamp[id] = t->now;
    t->memo[id] = out;
    return out;
}

static inline interp_put interp_store(interp *t, const ir_stmt *s) {
    interp_put p = {.on = false};
    t->now++;
    t->steps++;
    p.on = interp_sym(t, s->store.valid) != 0;
    if (!p.on || (s->store.guard && !interp_expr(t, s->store.guard).i)) {
        p.on = false;
        return p;
    }
    p.index = interp_sym(t, s->store.index);
    if (s->store.dyn)
        p.index = (int64_t)((uint64_t)p.index + (uint64_t)interp_expr(t, s->store.dyn).i);
    for (int i = 0; i < s->n; i++) p.value[i] = interp_expr(t, s->store.value[i]);
    return p;
}

static inline bool interp_is_nan(int dtype, scalar v) {
    return dtype_is_float(dtype) && v.f != v.f;
}

static inline void interp_arg_combine(interp *t, const ir_stmt *s, scalar *old, scalar *v) {
    int d = ir_m(t->k, s->store.mem[0])->dtype;
    bool f = dtype_is_float(d), max = s->monoid == MONOID_ARGMAX;
    bool old_nan = interp_is_nan(d, old[0]), new_nan = interp_is_nan(d, v[0]), wins;
    if (old_nan || new_nan) {
        wins = new_nan && (!old_nan || v[1].i < old[1].i);
    } else {
        bool more = f                      ? v[0].f > old[0].f
                    : dtype_is_unsigned(d) ? (uint64_t)v[0].i > (uint64_t)old[0].i
                                           : v[0].i > old[0].i;
        bool equal = f ? v[0].f == old[0].f : v[0].i == old[0].i;
        wins = equal ? v[1].i < old[1].i : more == max;
    }
    for (int i = 0; i < 2 && wins; i++) old[i] = v[i];
}

static inline void interp_commit(interp *t, const ir_stmt *s, interp_put *p) {
    if (!p->on || t->error[0]) return;
    scalar old[IR_STATES];
    for (int i = 0; i < s->n && s->monoid != MONOID_SET; i++)
        old[i] = interp_get(t, s->store.mem[i], p->index);
    if (s->monoid == MONOID_SET) {
        memcpy(old, p->value, sizeof old);
    } else if (s->monoid == MONOID_ARGMAX || s->monoid == MONOID_ARGMIN) {
        interp_arg_combine(t, s, old, p->value);
    } else if (s->n > 1) {
        qn_dtype d[IR_STATES];
        for (int i = 0; i < s->n; i++) d[i] = (qn_dtype)ir_m(t->k, s->store.mem[i])->dtype;
        monoid_combine_scalars(s->monoid, d, old, p->value, old);
    } else {
        int d = ir_m(t->k, s->store.mem[0])->dtype;
        scalar x[2] = {old[0], p->value[0]};
        scalar_op(monoid_rows[s->monoid].combine, d, d, x, &old[0]);
    }
    for (int i = 0; i < s->n; i++) interp_set(t, s->store.mem[i], p->index, old[i]);
}

static inline bool interp_is_shared(const interp *t, mem_id m) {
    return t->home && (ir_m(t->k, m)->scope == MEM_ARG || t->home[m].place == PLACE_SHARED);
}

/* The members of a group fill a shared tile together, and each its part of a dealt one. Nobody
 * spoils a shared one first: another member may still read what it held. */
static inline void interp_def(interp *t, const ir_stmt *s) {
    mem_id m = s->def.mem;
    int d = ir_m(t->k, m)->dtype;
    int64_t from = 0, past = t->size[m], by = 1;
    bool together = interp_is_shared(t, m);
    if (together) from = t->member, by = t->members;
    if (t->home && t->home[m].place == PLACE_DISTRIBUTED) {
        from = t->member * t->home[m].each;
        past = from + t->home[m].each < past ? from + t->home[m].each : past;
    }
    for (int64_t i = from; i < past && !together; i++)
        memset((char *)t->mem[m] + (size_t)i * qn_dtype_size(d),
               d == QN_BOOL ? t->spoil & 1 : t->spoil, qn_dtype_size(d));
    t->steps += (uint64_t)(past > from ? past - from : 0);
    if (!s->def.value) return;
    t->now++;
    scalar v = interp_expr(t, s->def.value);
    for (int64_t i = from; i < past; i += by) interp_set(t, m, i, v);
}

static inline void interp_block(interp *t, stmt_id first);

static inline void interp_loop(interp *t, const ir_stmt *s) {
    int64_t n = interp_sym(t, s->l.extent);
    int place = t->vars;
    if (place == INTERP_VARS) {
        interp_fail(t, "loops nest too deep", place, 0);
        return;
    }
    t->var[place] = s->l.var;
    t->vars++;
    if (t->kinds && s->loop == LOOP_VEC && n > 0) {
        t->lane = place;
        t->lanes = n;
        t->value[place] = 0;
        interp_block(t, s->first);
        t->lane = -1;
    } else {
        bool back = t->kinds && s->loop == LOOP_PAR;
        for (int64_t i = 0; i < n && !t->error[0]; i++) {
            if (t->steps++ > t->most && t->most) interp_fail(t, INTERP_LONG, n, 0);
            t->value[place] = back ? n - 1 - i : i;
            interp_block(t, s->first);
        }
    }
    t->vars--;
}

static inline void interp_block(interp *t, stmt_id first) {
    for (stmt_id id = first; id && !t->error[0]; id = ir_s(t->k, id)->next) {
        const ir_stmt *s = ir_s(t->k, id);
        if (s->kind == STMT_LOOP) {
            interp_loop(t, s);
        } else if (s->kind == STMT_DEF) {
            interp_def(t, s);
        } else if (s->kind == STMT_BARRIER || s->kind == STMT_PREFETCH) {
            continue;
        } else if (t->lane < 0) {
            interp_put p = interp_store(t, s);
            interp_commit(t, s, &p);
        } else {
            interp_put p[IR_LANES];
            for (int64_t i = 0; i < t->lanes && i < IR_LANES; i++) {
                t->value[t->lane] = i;
                p[i] = interp_store(t, s);
            }
            for (int64_t i = t->lanes; i-- > 0;) interp_commit(t, s, &p[i]);
            t->value[t->lane] = 0;
        }
    }
}

/* ---- groups --------------------------------------------------------------------------------- */

/* The member's trips of a nest: one at most. */
static inline void interp_nest(interp *t, stmt_id nest) {
    int64_t left = t->member;
    int before = t->vars;
    for (const ir_stmt *s = ir_s(t->k, nest);; s = ir_s(t->k, s->first)) {
        bool inner = s->first && ir_s(t->k, s->first)->kind == STMT_LOOP &&
                     ir_s(t->k, s->first)->loop == LOOP_THREAD;
        int64_t step = inner ? ir_nest_size(t->k, s->first) : 1;
        t->var[t->vars] = s->l.var;
        t->value[t->vars] = left / step;
        left %= step;
        if (t->value[t->vars] >= interp_sym(t, s->l.extent)) break;
        t->vars++;
        if (inner) continue;
        interp_block(t, s->first);
        break;
    }
    t->vars = before;
}

/* The next statement in the order of execution behind s; 0: the block's end. */
static inline stmt_id interp_after(interp *t, stmt_id s, stmt_id block) {
    for (;;) {
        if (ir_s(t->k, s)->next) return ir_s(t->k, s)->next;
        s = ir_s(t->k, s)->parent;
        if (s == block) return 0;
        if (++t->value[t->vars - 1] < interp_sym(t, ir_s(t->k, s)->l.extent))
            return ir_s(t->k, s)->first;
        t->vars--;
    }
}

/* One statement of the group by the member under way; returns the next. */
static inline stmt_id interp_step(interp *t, stmt_id s, stmt_id block) {
    const ir_stmt *x = ir_s(t->k, s);
    if (x->kind == STMT_LOOP && x->loop == LOOP_THREAD) {
        interp_nest(t, s);
    } else if (x->kind == STMT_LOOP && x->first && t->vars < INTERP_VARS &&
               interp_sym(t, x->l.extent) > 0) {
        t->var[t->vars] = x->l.var;
        t->value[t->vars++] = 0;
        return x->first;
    } else if (x->kind == STMT_DEF) {
        interp_def(t, x);
    } else if (x->kind == STMT_STORE) {
        interp_put p = interp_store(t, x);
        if (!t->member || !interp_is_shared(t, x->store.mem[0])) interp_commit(t, x, &p);
    }
    return interp_after(t, s, block);
}

static inline void interp_become(interp *t, interp_member *m, int64_t number) {
    t->member = number;
    t->vars = m->vars;
    memcpy(t->value, m->value, sizeof t->value);
    memcpy(t->var, m->var, sizeof t->var);
    for (mem_id i = 1; i < t->k->mems; i++)
        if (t->copies[i]) t->mem[i] = t->copies[i] + (size_t)(number * t->size[i]) * 8;
}

/* An item: the children of `block`, or what begins at `first` alone. */
static inline void interp_group(interp *t, stmt_id block, stmt_id first) {
    interp_member *member = calloc((size_t)t->members, sizeof *member);
    int before = t->vars;
    for (int64_t i = 0; i < t->members; i++) {
        member[i] = (interp_member){.at = first, .vars = t->vars};
        memcpy(member[i].value, t->value, sizeof t->value);
        memcpy(member[i].var, t->var, sizeof t->var);
    }
    for (bool going = first != 0; going && !t->error[0];) {
        stmt_id met = member[t->members - 1].at;
        going = false;
        for (int64_t i = t->members; i-- > 0 && !t->error[0];) {
            interp_member *m = &member[i];
            interp_become(t, m, i);
            stmt_id s = m->at;
            if (s && ir_s(t->k, s)->kind == STMT_BARRIER) s = interp_after(t, s, block);
            while (s && ir_s(t->k, s)->kind != STMT_BARRIER && !t->error[0])
                s = interp_step(t, s, block);
            m->at = s;
            m->vars = t->vars;
            memcpy(m->value, t->value, sizeof t->value);
            memcpy(m->var, t->var, sizeof t->var);
            if (i == t->members - 1) met = s;
            if (s != met) interp_fail(t, "members wait in different places", s, met);
            going |= s != 0;
        }
    }
    t->vars = before;
    free(member);
}

static inline void interp_groups(interp *t) {
    kernel *k = t->k;
    bool parallel = false;
    t->home = ir_tile_storage(k);
    t->members = ir_members(k);
    t->copies = calloc(k->mems, sizeof *t->copies);
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope != MEM_ARG && t->home[m].place == PLACE_REPLICATED)
            t->copies[m] = malloc((size_t)(t->size[m] * t->members) * 8 + 8);
    void **own = malloc(k->mems * sizeof *own);
    memcpy(own, t->mem, k->mems * sizeof *own);
    for (stmt_id s = ir_s(k, k->root)->first; s; s = ir_s(k, s)->next)
        parallel |= ir_s(k, s)->loop == LOOP_PAR;
    if (!parallel) interp_group(t, k->root, ir_s(k, k->root)->first);
    for (stmt_id s = ir_s(k, k->root)->first; s && parallel; s = ir_s(k, s)->next) {
        ir_stmt root = *ir_s(k, s);
        stmt_id next = root.next;
        if (root.loop == LOOP_PAR) {
            t->var[t->vars] = root.l.var;
            int64_t n = interp_sym(t, root.l.extent);
            t->vars++;
            for (int64_t i = n; i-- > 0 && !t->error[0];) {
                t->value[t->vars - 1] = i;
                interp_group(t, s, root.first);
            }
            t->vars--;
        } else {
            ir_s(k, s)->next = 0; /* this root alone */
            interp_group(t, k->root, s);
            ir_s(k, s)->next = next;
        }
    }
    memcpy(t->mem, own, k->mems * sizeof *own);
    for (mem_id m = 1; m < k->mems; m++) free(t->copies[m]);
    free(t->copies);
    free(own);
}

/* Run the kernel on buffers arg[0..], with its dimension variables and then its parameters at
 * dim[0..]. false: error text in `error`. `most` steps, 0: any number; `spoil`: see there. */
static inline bool interp_run_most(kernel *k, bool kinds, const int64_t *dim, void *const *arg,
                                   uint64_t most, uint8_t spoil, char error[200]) {
    interp t = {.k = k, .kinds = kinds, .lane = -1, .most = most, .spoil = spoil};
    t.mem = calloc(k->mems, sizeof *t.mem);
    t.size = calloc(k->mems, sizeof *t.size);
    t.memo = calloc(k->exprs, sizeof *t.memo);
    t.stamp = calloc(k->exprs, sizeof *t.stamp);
    t.param = dim + k->dim_vars;
    for (; t.vars < k->dim_vars; t.vars++) {
        t.var[t.vars] = k->dim_var[t.vars];
        t.value[t.vars] = dim[t.vars];
    }
    for (mem_id m = 1; m < k->mems; m++) {
        t.size[m] = interp_sym(&t, ir_m(k, m)->size);
        bool tile = ir_m(k, m)->scope != MEM_ARG;
        t.mem[m] = tile ? malloc((size_t)t.size[m] * 8 + 8) : arg[ir_m(k, m)->arg];
    }
    if (kinds && ir_has_threads(k))
        interp_groups(&t);
    else
        interp_block(&t, ir_s(k, k->root)->first);
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope != MEM_ARG) free(t.mem[m]);
    free(t.mem);
    free(t.size);
    free(t.memo);
    free(t.stamp);
    memcpy(error, t.error, sizeof t.error);
    return !t.error[0];
}

static inline bool interp_run(kernel *k, bool kinds, const int64_t *dim, void *const *arg,
                              char error[200]) {
    return interp_run_most(k, kinds, dim, arg, 0, 0xff, error);
}

#endif
