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
    kern *k;
    int64_t *offset;
    kstmt *def;
    int64_t used, most;
} scratch;

static void place_tile(scratch *p, kstmt s) {
    kmem m = kern_s(p->k, s)->def.mem;
    p->def[m] = s;
    if (kern_m(p->k, m)->scope != KERN_LOCAL) return;
    int64_t elements = sym_hi(p->k->syms, kern_m(p->k, m)->size);
    int64_t room = most_scratch - p->used, size = (int64_t)qn_dtype_size(kern_m(p->k, m)->dtype);
    if (elements < 0 || elements > room / size - LINE)
        raise_error(p->k->ctx, QN_EDEVICE, "kernel %s: a tile of %lld elements is too large",
                    p->k->name, (long long)elements);
    p->offset[m] = p->used;
    p->used += (elements * size + LINE - 1) / LINE * LINE;
    if (p->used > p->most) p->most = p->used;
}

static void place_block(scratch *p, kstmt loop) {
    int64_t before = p->used;
    for (kstmt s = kern_s(p->k, loop)->first; s; s = kern_s(p->k, s)->next) {
        if (kern_s(p->k, s)->kind == KS_DEF) place_tile(p, s);
        if (kern_s(p->k, s)->kind == KS_LOOP) place_block(p, s);
    }
    p->used = before;
}

/* Operations of one evaluation, shared ones counted once for each use up to a few: the number only
 * decides whether waking other threads pays. */
static int64_t expr_work(const kern *k, kexpr e, int depth) {
    if (!e) return 0;
    const kern_expr *x = kern_e(k, e);
    if (x->kind == KE_TABLE) return 1 + expr_work(k, x->table.index, depth + 1);
    if (x->kind != KE_OP) return x->kind == KE_LOAD;
    int64_t sum = 1;
    for (int i = 0; i < x->n && depth < 8; i++) sum += expr_work(k, x->arg[i], depth + 1);
    return sum;
}

static const double countless = 1e15;

/* The loop's trips as far as dimension variables say; other variables count with their most. */
static sym loop_trips(kern *k, sym extent) {
    for (kstmt s = kern_next(k, k->root, k->root); s; s = kern_next(k, s, k->root))
        if (kern_s(k, s)->kind == KS_LOOP && sym_uses(k->syms, extent, kern_s(k, s)->l.var))
            return sym_const(k->syms, sym_hi(k->syms, extent));
    return extent;
}

static sym block_work(kern *k, kstmt loop, double *most) {
    sym sum = SYM_ZERO;
    *most = 0;
    for (kstmt s = kern_s(k, loop)->first; s; s = kern_s(k, s)->next) {
        const kern_stmt *t = kern_s(k, s);
        if (t->kind != KS_STORE && t->kind != KS_LOOP) continue;
        double inner = 1;
        if (t->kind == KS_STORE) {
            int64_t work = 1;
            for (int i = 0; i < t->n; i++) work += expr_work(k, t->store.value[i], 0);
            sum = sym_add(k->syms, sum, sym_const(k->syms, work));
            inner = (double)work;
        } else {
            sym trips = loop_trips(k, t->l.extent), body = block_work(k, s, &inner);
            inner *= (double)sym_hi(k->syms, trips);
            if (inner < countless) sum = sym_add(k->syms, sum, sym_mul(k->syms, trips, body));
        }
        *most += inner;
    }
    return *most < countless ? sum : sym_const(k->syms, (int64_t)countless);
}

void emit_launch_of(kern *k, arena *a, emit_launch *out) {
    scratch p = {.k = k};
    (void)sym_overflowed(k->syms); /* a mark left by what was tried and refused */
    p.offset = arena_zeroed(a, k->mems * sizeof *p.offset);
    p.def = arena_zeroed(a, k->mems * sizeof *p.def);
    place_block(&p, k->root);
    double most;
    *out = (emit_launch){.offset = p.offset, .def = p.def, .scratch = p.most};
    for (kstmt s = kern_s(k, k->root)->first; s; s = kern_s(k, s)->next)
        out->parallel |= kern_s(k, s)->kind == KS_LOOP && kern_s(k, s)->loop == KERN_PAR;
    out->items = out->parallel ? SYM_ZERO : SYM_ONE;
    for (kstmt s = kern_s(k, k->root)->first; s && out->parallel; s = kern_s(k, s)->next) {
        const kern_stmt *t = kern_s(k, s);
        bool par = t->kind == KS_LOOP && t->loop == KERN_PAR;
        out->items = sym_add(k->syms, out->items, par ? t->l.extent : SYM_ONE);
    }
    out->work = block_work(k, k->root, &most);
    if (sym_overflowed(k->syms))
        raise_error(k->ctx, QN_ERANGE, "kernel %s: its work items are more than 2^63", k->name);
}

/* ---- facts that outlive the kernel ----------------------------------------------------------- */

static void write_facts(emit_facts *f, kern *k, const emit_launch *launch) {
    sym fact[EMIT_SIZES] = {launch->items, launch->work, sym_const(k->syms, launch->scratch)};
    for (int i = 0; i < f->vars; i++)
        f->var[i] = sym_var(f->syms, sym_name(k->syms, k->dim_var[i]),
                            sym_lo(k->syms, k->dim_var[i]), sym_hi(k->syms, k->dim_var[i]));
    for (int i = 0; i < EMIT_SIZES; i++)
        f->fact[i] = sym_import(f->syms, k->syms, fact[i], f->vars, k->dim_var, f->var);
    for (kmem m = 1; m < k->mems; m++) {
        const kern_memory *mem = kern_m(k, m);
        if (mem->scope != KERN_ARG) continue;
        sym size = sym_import(f->syms, k->syms, mem->size, f->vars, k->dim_var, f->var);
        f->fact[EMIT_SIZES + mem->arg] =
            sym_scale(f->syms, size, (int64_t)qn_dtype_size(mem->dtype));
    }
    if (!f->vars && !emit_facts_at(f, NULL))
        raise_error(k->ctx, QN_EINTERNAL, "kernel %s: a launch without numbers", k->name);
}

emit_facts *emit_facts_open(kern *k) {
    heap *h = &k->ctx->heap;
    size_t vars = (size_t)k->dim_vars, numbers = EMIT_SIZES + (size_t)k->args;
    size_t size =
        sizeof(emit_facts) + numbers * (sizeof(int64_t) + sizeof(sym)) + vars * sizeof(sym);
    emit_facts *f = heap_zeroed(h, size);
    f->h = h;
    f->size = size;
    f->vars = (int)vars;
    f->numbers = (int)numbers;
    f->number = (int64_t *)(f + 1);
    f->fact = (sym *)(f->number + numbers);
    f->var = f->fact + numbers;
    arena own;
    arena_open(&own, h);
    guard g;
    guard_open(h, &g);
    if (setjmp(g.at)) {
        guard_close(h, &g);
        arena_free(&own);
        emit_facts_close(f);
        heap_unwind(h);
    }
    f->syms = sym_open(h);
    emit_launch launch;
    emit_launch_of(k, &own, &launch);
    write_facts(f, k, &launch);
    guard_close(h, &g);
    arena_free(&own);
    return f;
}

void emit_facts_close(emit_facts *f) {
    if (!f) return;
    sym_close(f->syms);
    heap_free(f->h, f, f->size);
}

bool emit_facts_at(emit_facts *f, const int64_t *value) {
    for (int i = 0; i < f->numbers; i++)
        if (!sym_eval(f->syms, f->fact[i], f->vars, f->var, value, &f->number[i])) return false;
    return true;
}
