/* launch.c - what both emitters need to know about the whole kernel: how many work items it has,
 * how much work that is, and where in the thread's scratch each LOCAL tile lies.
 *
 * A tile lives from its DEF to the end of the enclosing loop's trip, so scratch is handed out as a
 * stack: leaving a block gives back what its tiles took. Every tile starts on a cache line.
 *
 * Devices that launch compiled code keep these numbers as expressions beside the program. They were
 * once a second function in each object; compiling it took a tenth of all compile time. */
#include "emit/emit.h"

static const int64_t most_scratch = (int64_t)1 << 30;
enum { LINE = 64 };

typedef struct scratch {
    kernel *k;
    int64_t *offset;
    stmt_id *def;
    int64_t used, most;
} scratch;

static void place_tile(scratch *p, stmt_id s) {
    mem_id m = ir_s(p->k, s)->def.mem;
    p->def[m] = s;
    if (ir_m(p->k, m)->scope != MEM_LOCAL) return;
    int64_t elements = sym_hi(p->k->syms, ir_m(p->k, m)->size);
    int64_t room = most_scratch - p->used, size = (int64_t)qn_dtype_size(ir_m(p->k, m)->dtype);
    if (elements < 0 || elements > room / size - LINE)
        raise_error(p->k->ctx, QN_EDEVICE, "kernel %s: a tile of %lld elements is too large",
                    p->k->name, (long long)elements);
    p->offset[m] = p->used;
    p->used += (elements * size + LINE - 1) / LINE * LINE;
    if (p->used > p->most) p->most = p->used;
}

static void place_block(scratch *p, stmt_id loop) {
    int64_t before = p->used;
    for (stmt_id s = ir_s(p->k, loop)->first; s; s = ir_s(p->k, s)->next) {
        if (ir_s(p->k, s)->kind == STMT_DEF) place_tile(p, s);
        if (ir_s(p->k, s)->kind == STMT_LOOP) place_block(p, s);
    }
    p->used = before;
}

typedef struct counter {
    kernel *k;
    uint32_t *seen; /* by expression: the last store that counted it */
    uint32_t store;
} counter;

/* Operations of one evaluation, what is shared within it once. Deeper down none are counted. */
static int64_t expr_work(counter *c, expr_id e, int depth) {
    if (!e || c->seen[e] == c->store || depth > 500) return 0;
    c->seen[e] = c->store;
    const ir_expr *x = ir_e(c->k, e);
    if (x->kind == EXPR_TABLE) return 1 + expr_work(c, x->table.index, depth + 1);
    if (x->kind != EXPR_OP) return x->kind == EXPR_LOAD;
    int64_t sum = 1;
    for (int i = 0; i < x->n; i++) sum += expr_work(c, x->arg[i], depth + 1);
    return sum;
}

static const double countless = 4e18; /* that a number just holds */

/* The most trips; of the rest behind a peeled loop, min(c, a) - min(c, b), no more than a - b. */
static int64_t most_trips(kernel *k, sym extent) {
    const sym_linear t = sym_terms(k->syms, extent);
    const sym *left, *right;
    int64_t most = sym_hi(k->syms, extent), c;
    if (t.n != 2 || t.constant || t.coef[0] * t.coef[1] != -1) return most;
    sym more = t.term[t.coef[0] < 0], less = t.term[t.coef[0] > 0];
    if (sym_kind_of(k->syms, more) != SYM_MIN || sym_kind_of(k->syms, less) != SYM_MIN) return most;
    if (sym_operands(k->syms, more, &left) != 2 || sym_operands(k->syms, less, &right) != 2)
        return most;
    const sym a[2] = {left[0], left[1]}, b[2] = {right[0], right[1]};
    for (int i = 0; i < 4; i++) {
        if (a[i & 1] != b[i >> 1] || !sym_is_const(k->syms, a[i & 1], &c)) continue;
        int64_t rest = sym_hi(k->syms, sym_sub(k->syms, a[!(i & 1)], b[!(i >> 1)]));
        if (rest < most) return rest > 0 ? rest : 0;
    }
    return most;
}

/* The loop's trips as far as dimension variables say. Where they depend on other loops' it is those
 * of the first time, which the last part of something cut has at most, or the most there can be. */
static sym loop_trips(kernel *k, sym extent) {
    sym first = extent;
    for (stmt_id s = ir_next(k, k->root, k->root); s; s = ir_next(k, s, k->root))
        if (ir_s(k, s)->kind == STMT_LOOP && sym_uses(k->syms, first, ir_s(k, s)->l.var))
            first = sym_subst(k->syms, first, 1, &ir_s(k, s)->l.var, &(sym){SYM_ZERO});
    int64_t most = first == extent ? 0 : most_trips(k, extent);
    return most <= sym_hi(k->syms, first) ? first : sym_const(k->syms, most);
}

/* A store to memory takes as long as a few other operations. */
static int64_t store_work(counter *c, const ir_stmt *t) {
    int64_t work = 0;
    c->store++;
    for (int i = 0; i < t->n; i++) {
        work += ir_m(c->k, t->store.mem[i])->scope == MEM_ARG ? 4 : 1;
        work += expr_work(c, t->store.value[i], 0);
    }
    return work;
}

static sym block_work(counter *c, stmt_id loop, double *most);

static sym stmt_work(counter *c, stmt_id s, double *most) {
    const ir_stmt *t = ir_s(c->k, s);
    *most = 0;
    if (t->kind == STMT_STORE) {
        int64_t work = store_work(c, t);
        *most = (double)work;
        return sym_const(c->k->syms, work);
    }
    if (t->kind != STMT_LOOP) return SYM_ZERO;
    sym trips = loop_trips(c->k, t->l.extent), body = block_work(c, s, most);
    *most *= (double)sym_hi(c->k->syms, trips);
    return *most < countless ? sym_mul(c->k->syms, trips, body) : SYM_ZERO;
}

static sym block_work(counter *c, stmt_id loop, double *most) {
    sym sum = SYM_ZERO;
    *most = 0;
    for (stmt_id s = ir_s(c->k, loop)->first; s; s = ir_s(c->k, s)->next) {
        double inner;
        sum = sym_add(c->k->syms, sum, stmt_work(c, s, &inner));
        *most += inner;
    }
    return *most < countless ? sum : sym_const(c->k->syms, (int64_t)countless);
}

/* ---- items ----------------------------------------------------------------------------------- */

enum { LITTLE_WORK = 1024 }; /* operations that take less than handing out an item */

bool emit_is_par(const kernel *k, stmt_id s) {
    return ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->loop == LOOP_PAR;
}

/* Each root has its items, one behind the other. But numbers at the root are no work for a thread:
 * as items of their own they would stand for as much as a share of a product, and threads get items
 * by their number. */
static void find_items(counter *c, arena *a, emit_launch *out) {
    kernel *k = c->k;
    bool *in_first = arena_zeroed(a, k->stmts * sizeof *in_first), any = false;
    for (stmt_id s = ir_s(k, k->root)->first; s; s = ir_s(k, s)->next) {
        out->parallel |= emit_is_par(k, s);
        any |= emit_is_par(k, s) && sym_lo(k->syms, ir_s(k, s)->l.extent) > 0;
    }
    out->in_first = in_first;
    out->items = out->parallel ? SYM_ZERO : SYM_ONE;
    for (stmt_id s = ir_s(k, k->root)->first; s && out->parallel; s = ir_s(k, s)->next) {
        double most;
        if (any && !emit_is_par(k, s)) {
            stmt_work(c, s, &most);
            in_first[s] = most <= LITTLE_WORK;
        }
        out->items = sym_add(k->syms, out->items, emit_root_items(k, out, s));
    }
}

sym emit_root_items(const kernel *k, const emit_launch *l, stmt_id root) {
    return emit_is_par(k, root) ? ir_s(k, root)->l.extent : l->in_first[root] ? SYM_ZERO : SYM_ONE;
}

void emit_launch_of(kernel *k, arena *a, emit_launch *out) {
    scratch p = {.k = k};
    (void)sym_overflowed(k->syms); /* a mark left by what was tried and refused */
    p.offset = arena_zeroed(a, k->mems * sizeof *p.offset);
    p.def = arena_zeroed(a, k->mems * sizeof *p.def);
    place_block(&p, k->root);
    double most;
    *out = (emit_launch){.offset = p.offset, .def = p.def, .scratch = p.most};
    counter c = {k, arena_zeroed(a, k->exprs * sizeof *c.seen), 0};
    find_items(&c, a, out);
    out->work = block_work(&c, k->root, &most);
    if (sym_overflowed(k->syms))
        raise_error(k->ctx, QN_ERANGE, "kernel %s: its work items are more than 2^63", k->name);
}

/* ---- facts that outlive the kernel ----------------------------------------------------------- */

static void write_facts(emit_facts *f, kernel *k, const emit_launch *launch) {
    sym fact[EMIT_SIZES] = {launch->items, launch->work};
    for (int i = 0; i < f->vars; i++)
        f->var[i] = sym_var(f->syms, sym_name(k->syms, k->dim_var[i]),
                            sym_lo(k->syms, k->dim_var[i]), sym_hi(k->syms, k->dim_var[i]));
    for (int i = 0; i < EMIT_SIZES; i++)
        f->fact[i] = sym_import(f->syms, k->syms, fact[i], f->vars, k->dim_var, f->var);
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *mem = ir_m(k, m);
        if (mem->scope != MEM_ARG) continue;
        sym size = sym_import(f->syms, k->syms, mem->size, f->vars, k->dim_var, f->var);
        f->fact[EMIT_SIZES + mem->arg] =
            sym_scale(f->syms, size, (int64_t)qn_dtype_size(mem->dtype));
    }
    for (int i = 0; i < f->vars; i++)
        for (int n = 0; n < f->numbers; n++)
            f->asked[i] |= sym_uses(f->syms, f->fact[n], f->var[i]);
    if (!f->vars && !emit_facts_at(f, NULL))
        raise_error(k->ctx, QN_EINTERNAL, "kernel %s: a launch without numbers", k->name);
    if (f->vars) return;
    sym_close(f->syms); /* the numbers are all that will be asked for */
    f->syms = NULL;
}

static void close_facts(void *f) {
    emit_facts_close(f);
}

emit_facts *emit_facts_open(kernel *k) {
    heap *h = &k->ctx->heap;
    size_t vars = (size_t)k->dim_vars, numbers = EMIT_SIZES + (size_t)k->args;
    size_t size = sizeof(emit_facts) + (numbers + vars) * (sizeof(int64_t) + sizeof(sym)) + vars;
    emit_facts *f = heap_zeroed(h, size);
    f->h = h;
    f->size = size;
    f->vars = (int)vars;
    f->numbers = (int)numbers;
    f->number = (int64_t *)(f + 1);
    f->at = f->number + numbers;
    f->fact = (sym *)(f->at + vars);
    f->var = f->fact + numbers;
    f->asked = (bool *)(f->var + vars);
    arena own;
    arena_open(&own, h);
    cleanup facts, c;
    cleanup_push(h, &facts, close_facts, f);
    cleanup_push(h, &c, arena_cleanup, &own);
    f->syms = sym_open(h);
    emit_launch launch;
    emit_launch_of(k, &own, &launch);
    f->scratch = launch.scratch;
    write_facts(f, k, &launch);
    cleanup_run(h, &c);
    cleanup_drop(h, &facts);
    return f;
}

void emit_facts_close(emit_facts *f) {
    if (!f) return;
    sym_close(f->syms);
    heap_free(f->h, f, f->size);
}

/* Are these the values that the numbers are known for? Where slices begin none depends on. */
static bool is_at(const emit_facts *f, const int64_t *value) {
    for (int i = 0; i < f->vars; i++)
        if (f->asked[i] && f->at[i] != value[i]) return false;
    return f->known;
}

bool emit_facts_at(emit_facts *f, const int64_t *value) {
    size_t size = (size_t)f->vars * sizeof *value;
    if (is_at(f, value)) return true;
    f->known = false;
    for (int i = 0; i < f->numbers; i++)
        if (!sym_eval(f->syms, f->fact[i], f->vars, f->var, value, &f->number[i])) return false;
    if (size) memcpy(f->at, value, size);
    return f->known = true;
}
