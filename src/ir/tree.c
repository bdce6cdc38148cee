/* tree.c - making a kernel's tree, walking it and rewriting it.
 *
 * Statements and expressions are rows of two arrays that grow in the kernel's arena: an id stays, a
 * pointer from ir_s or ir_e only lives until the next statement or expression is made.
 *
 * An expression's arguments have smaller ids than it has (expr.c); rewriting uses that to go from
 * leaves to roots in id order, without recursion, visiting every shared subexpression once. */
#include "ir/ir.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- the kernel ----------------------------------------------------------------------------- */

static void ir_begin(kernel *k) {
    qn_ctx *qn = k->ctx;
    arena_open(&k->arena, &qn->heap);
    idset_open(&k->expr_set, &qn->heap);
}

/* Row 0 of every table is "none". */
static void ir_first_rows(kernel *k) {
    k->mem = arena_grow(&k->arena, NULL, &k->mem_cap, 8, sizeof *k->mem);
    k->expr = arena_grow(&k->arena, NULL, &k->expr_cap, 64, sizeof *k->expr);
    k->stmt = arena_grow(&k->arena, NULL, &k->stmt_cap, 32, sizeof *k->stmt);
    memset(k->mem, 0, sizeof *k->mem);
    memset(k->expr, 0, sizeof *k->expr);
    memset(k->stmt, 0, 2 * sizeof *k->stmt);
    k->mems = k->exprs = 1;
    k->stmts = 2;
    k->root = 1;
    k->stmt[1].kind = STMT_LOOP;
    k->stmt[1].l.extent = SYM_ONE;
}

kernel *ir_open(qn_ctx *qn) {
    kernel *k = heap_zeroed(&qn->heap, sizeof *k);
    k->ctx = qn;
    ir_begin(k);
    cleanup c;
    cleanup_push(&qn->heap, &c, ir_cleanup, k);
    k->syms = sym_open(&qn->heap);
    k->name = "kernel";
    ir_first_rows(k);
    cleanup_drop(&qn->heap, &c);
    return k;
}

void ir_close(kernel *k) {
    if (!k) return;
    heap *h = &k->ctx->heap;
    idset_free(&k->expr_set);
    sym_close(k->syms);
    arena_free(&k->arena);
    heap_free(h, k, sizeof *k);
}

void ir_cleanup(void *k) {
    ir_close(k);
}

static void *copy_rows(arena *a, const void *rows, uint32_t n, uint32_t *cap, size_t size) {
    *cap = 0;
    void *fresh = arena_grow(a, NULL, cap, n, size);
    memcpy(fresh, rows, n * size);
    return fresh;
}

static void clone_tables(kernel *c, const kernel *k) {
    c->mem = copy_rows(&c->arena, k->mem, k->mems, &c->mem_cap, sizeof *k->mem);
    c->expr = copy_rows(&c->arena, k->expr, k->exprs, &c->expr_cap, sizeof *k->expr);
    c->stmt = copy_rows(&c->arena, k->stmt, k->stmts, &c->stmt_cap, sizeof *k->stmt);
    if (k->tables)
        c->table = copy_rows(&c->arena, k->table, k->tables, &c->table_cap, sizeof *k->table);
    for (uint32_t i = 0; i < k->tables; i++) {
        size_t size = k->table[i].n * sizeof *k->table[i].bits;
        c->table[i].bits = memcpy(arena_alloc(&c->arena, size), k->table[i].bits, size);
    }
    c->name = arena_printf(&c->arena, "%s", k->name);
    if (k->dim_vars) {
        c->dim_var = arena_alloc(&c->arena, k->dim_vars * sizeof *k->dim_var);
        memcpy(c->dim_var, k->dim_var, k->dim_vars * sizeof *k->dim_var);
    }
    if (k->params)
        c->param = copy_rows(&c->arena, k->param, k->params, &c->param_cap, sizeof *k->param);
    for (expr_id e = 1; e < c->exprs; e++) idset_add(&c->expr_set, ir_expr_hash(&c->expr[e]), e);
}

kernel *ir_clone(const kernel *k) {
    heap *h = &k->ctx->heap;
    kernel *c = heap_alloc(h, sizeof *c);
    *c = *k;
    c->syms = sym_share(k->syms);
    ir_begin(c);
    cleanup undo;
    cleanup_push(h, &undo, ir_cleanup, c);
    clone_tables(c, k);
    cleanup_drop(h, &undo);
    return c;
}

/* ---- memories and dimension variables ------------------------------------------------------- */

bool ir_name_taken(const kernel *k, const char *name) {
    for (int i = 0; i < k->dim_vars; i++)
        if (!strcmp(sym_name(k->syms, k->dim_var[i]), name)) return true;
    return ir_find_loop(k, name) != 0;
}

bool ir_name_reserved(const char *name) {
    return !strcmp(name, "min") || !strcmp(name, "max") || !strcmp(name, "and");
}

/* Of a name that needs a number behind it no more is kept, so that all of it fits. */
enum { SHORTENED = 48 };

/* `name` as an identifier of the text form, or name_1, name_2, ... : the first that is free. */
const char *ir_fresh_name(kernel *k, const char *name) {
    const char *letter = isalpha((unsigned char)name[0]) ? "" : "v";
    size_t length = strlen(letter) + strlen(name);
    int most = length < IR_NAME ? IR_NAME - 1 : SHORTENED; /* splits of merges of splits .. */
    char *plain = arena_printf(&k->arena, "%s%.*s", letter, most, name);
    for (char *c = plain; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    if (!ir_name_reserved(plain) && !ir_name_taken(k, plain)) return plain;
    for (int i = 1;; i++) {
        const char *tried = arena_printf(&k->arena, "%.*s_%d", SHORTENED, plain, i);
        if (!ir_name_taken(k, tried)) return tried;
    }
}

sym ir_dim_var(kernel *k, const char *name, int64_t lo, int64_t hi) {
    sym v = sym_var(k->syms, ir_fresh_name(k, name), lo, hi);
    sym *grown = arena_alloc(&k->arena, (k->dim_vars + 1) * sizeof *grown);
    if (k->dim_vars) memcpy(grown, k->dim_var, k->dim_vars * sizeof *grown);
    grown[k->dim_vars] = v;
    k->dim_var = grown;
    k->dim_vars++;
    return v;
}

expr_id ir_param(kernel *k, qn_dtype dtype) {
    ir_expr e;
    memset(&e, 0, sizeof e);
    e.kind = EXPR_PARAM;
    e.dtype = (uint8_t)dtype;
    e.param = k->params;
    k->param = arena_grow(&k->arena, k->param, &k->param_cap, k->params + 1, sizeof *k->param);
    k->param[k->params++] = (uint8_t)dtype;
    return ir_intern(k, &e);
}

static mem_id add_mem(kernel *k, ir_memory m) {
    k->mem = arena_grow(&k->arena, k->mem, &k->mem_cap, k->mems + 1, sizeof *k->mem);
    k->mem[k->mems] = m;
    return k->mems++;
}

mem_id ir_arg(kernel *k, qn_dtype dtype, sym size, int access) {
    return add_mem(k, (ir_memory){.scope = MEM_ARG,
                                  .access = (uint8_t)access,
                                  .dtype = (uint8_t)dtype,
                                  .size = size,
                                  .arg = k->args++});
}

mem_id ir_tile(kernel *k, mem_scope scope, qn_dtype dtype, sym size) {
    return add_mem(
        k, (ir_memory){.scope = (uint8_t)scope, .dtype = (uint8_t)dtype, .size = size, .arg = -1});
}

int ir_tile_number(const kernel *k, mem_id m) {
    int n = 0;
    for (mem_id i = 1; i < m; i++) n += k->mem[i].scope != MEM_ARG;
    return n;
}

mem_id ir_find_mem(const kernel *k, const char *name) {
    if ((name[0] != 'a' && name[0] != 't') || name[1] < '0' || name[1] > '9') return 0;
    char *end;
    long wanted = strtol(name + 1, &end, 10);
    if (*end) return 0;
    for (mem_id m = 1; m < k->mems; m++) {
        if ((k->mem[m].scope == MEM_ARG) != (name[0] == 'a')) continue;
        if (wanted-- == 0) return m;
    }
    return 0;
}

/* ---- statements ----------------------------------------------------------------------------- */

static stmt_id add_stmt(kernel *k, ir_stmt row, stmt_id parent) {
    k->stmt = arena_grow(&k->arena, k->stmt, &k->stmt_cap, k->stmts + 1, sizeof *k->stmt);
    k->stmt[k->stmts] = row;
    stmt_id s = k->stmts++;
    ir_insert(k, s, parent ? parent : k->root, 0);
    return s;
}

stmt_id ir_loop(kernel *k, stmt_id parent, loop_kind kind, const char *name, sym extent) {
    sym var = sym_loop(k->syms, ir_fresh_name(k, name ? name : "i"), extent);
    return add_stmt(k,
                    (ir_stmt){.kind = STMT_LOOP,
                              .loop = (uint8_t)kind,
                              .l = {.var = var, .extent = extent, .id = ++k->loops}},
                    parent);
}

stmt_id ir_def(kernel *k, stmt_id parent, mem_id tile, expr_id value) {
    return add_stmt(k, (ir_stmt){.kind = STMT_DEF, .def = {tile, value}}, parent);
}

stmt_id ir_prefetch(kernel *k, stmt_id parent, mem_id arg, sym index) {
    return add_stmt(k, (ir_stmt){.kind = STMT_PREFETCH, .prefetch = {arg, index}}, parent);
}

stmt_id ir_barrier(kernel *k, stmt_id parent) {
    return add_stmt(k, (ir_stmt){.kind = STMT_BARRIER}, parent);
}

stmt_id ir_store_n(kernel *k, stmt_id parent, const ir_stmt *store) {
    ir_stmt row = {
        .kind = STMT_STORE, .monoid = store->monoid, .n = store->n, .store = store->store};
    return add_stmt(k, row, parent);
}

stmt_id ir_store(kernel *k, stmt_id parent, int how, ir_place to, expr_id value) {
    ir_stmt row = {.kind = STMT_STORE, .monoid = (uint8_t)how, .n = 1};
    row.store.mem[0] = to.mem;
    row.store.value[0] = value;
    row.store.index = to.index;
    row.store.valid = to.valid;
    return add_stmt(k, row, parent);
}

void ir_unlink(kernel *k, stmt_id s) {
    ir_stmt *t = ir_s(k, s), *p = ir_s(k, t->parent);
    if (t->prev)
        ir_s(k, t->prev)->next = t->next;
    else
        p->first = t->next;
    if (t->next)
        ir_s(k, t->next)->prev = t->prev;
    else
        p->last = t->prev;
    t->parent = t->next = t->prev = 0;
}

void ir_insert(kernel *k, stmt_id s, stmt_id parent, stmt_id before) {
    ir_stmt *t = ir_s(k, s), *p = ir_s(k, parent);
    t->parent = parent;
    t->next = before;
    t->prev = before ? ir_s(k, before)->prev : p->last;
    if (t->prev)
        ir_s(k, t->prev)->next = s;
    else
        p->first = s;
    if (before)
        ir_s(k, before)->prev = s;
    else
        p->last = s;
}

void ir_move(kernel *k, stmt_id s, stmt_id parent, stmt_id before) {
    if (before == s) before = ir_s(k, s)->next;
    ir_unlink(k, s);
    ir_insert(k, s, parent, before);
}

stmt_id ir_next(const kernel *k, stmt_id s, stmt_id top) {
    if (ir_s(k, s)->first) return ir_s(k, s)->first;
    while (s != top) {
        if (ir_s(k, s)->next) return ir_s(k, s)->next;
        s = ir_s(k, s)->parent;
    }
    return 0;
}

bool ir_inside(const kernel *k, stmt_id s, stmt_id loop) {
    while (s && s != loop) s = ir_s(k, s)->parent;
    return s != 0;
}

stmt_id ir_find_loop(const kernel *k, const char *name) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_LOOP && !strcmp(sym_name(k->syms, t->l.var), name)) return s;
    }
    return 0;
}

stmt_id ir_loop_of(const kernel *k, uint32_t id) {
    for (stmt_id s = k->root; id && (s = ir_next(k, s, k->root));)
        if (ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->l.id == id) return s;
    return 0;
}

stmt_id ir_copy(kernel *k, stmt_id s) {
    ir_stmt row = *ir_s(k, s);
    row.parent = row.next = row.prev = row.first = row.last = 0;
    k->stmt = arena_grow(&k->arena, k->stmt, &k->stmt_cap, k->stmts + 1, sizeof *k->stmt);
    k->stmt[k->stmts] = row;
    stmt_id copy = k->stmts++;
    for (stmt_id c = ir_s(k, s)->first; c; c = ir_s(k, c)->next)
        ir_insert(k, ir_copy(k, c), copy, 0);
    return copy;
}

int ir_stmt_exprs(ir_stmt *s, expr_id *slot[4]) {
    int n = 0;
    if (s->kind == STMT_DEF && s->def.value) slot[n++] = &s->def.value;
    if (s->kind != STMT_STORE) return n;
    for (int i = 0; i < s->n; i++) slot[n++] = &s->store.value[i];
    if (s->store.dyn) slot[n++] = &s->store.dyn;
    if (s->store.guard) slot[n++] = &s->store.guard;
    return n;
}

int ir_expr_args(ir_expr *e, expr_id *slot[3]) {
    int n = 0;
    if (e->kind == EXPR_OP)
        for (; n < e->n; n++) slot[n] = &e->arg[n];
    if (e->kind == EXPR_TABLE) slot[n++] = &e->table.index;
    if (e->kind == EXPR_LOAD && e->load.dyn) slot[n++] = &e->load.dyn;
    if (e->kind == EXPR_LOAD && e->load.guard) slot[n++] = &e->load.guard;
    return n;
}

sym ir_trip(const kernel *k, stmt_id loop) {
    const ir_stmt *l = ir_s(k, loop);
    return sym_hi(k->syms, l->l.extent) <= 1 ? SYM_ZERO : l->l.var;
}

/* ---- rewriting ------------------------------------------------------------------------------ */

expr_id ir_rebuild(kernel *k, const ir_expr *e, void *user) {
    (void)user;
    switch (e->kind) {
    case EXPR_INDEX:
        return ir_index(k, e->index);
    case EXPR_LOAD:
        return ir_load(k, e->load.mem, e->load.index, e->load.valid, e->load.dyn, e->load.guard);
    case EXPR_OP:
        return ir_op(k, e->op, e->dtype, e->n, e->arg);
    case EXPR_TABLE:
        return ir_lookup(k, e->table.number, e->table.index);
    default:
        return ir_intern(k, e);
    }
}

/* place[e]: 0 for expressions that are not wanted, anything else for those that are; all their
 * subexpressions are wanted, too, and then place[e] becomes the rewritten e. */
static void rewrite_wanted(kernel *k, expr_id *place, expr_id n, ir_rewriter f, void *user) {
    expr_id *slot[3];
    for (expr_id e = n; e-- > 1;) {
        if (!place[e]) continue;
        int args = ir_expr_args(&k->expr[e], slot);
        for (int i = 0; i < args; i++) place[*slot[i]] = 1;
    }
    for (expr_id e = 1; e < n; e++) {
        if (!place[e]) continue;
        ir_expr row;
        memcpy(&row, &k->expr[e], sizeof row);
        int args = ir_expr_args(&row, slot);
        for (int i = 0; i < args; i++) *slot[i] = place[*slot[i]];
        place[e] = f(k, &row, user);
    }
}

expr_id ir_rewrite_expr(kernel *k, expr_id e, ir_rewriter f, void *user) {
    expr_id *place = arena_zeroed(&k->arena, (e + 1) * sizeof *place);
    place[e] = 1;
    rewrite_wanted(k, place, e + 1, f, user);
    return place[e];
}

void ir_rewrite(kernel *k, stmt_id s, ir_rewriter f, void *user) {
    expr_id n = k->exprs, *place = arena_zeroed(&k->arena, n * sizeof *place), *slot[4];
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        int m = ir_stmt_exprs(ir_s(k, t), slot);
        for (int i = 0; i < m; i++) place[*slot[i]] = 1;
    }
    rewrite_wanted(k, place, n, f, user);
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        int m = ir_stmt_exprs(ir_s(k, t), slot);
        for (int i = 0; i < m; i++) *slot[i] = place[*slot[i]];
    }
}

typedef struct replacement {
    expr_id what, by;
} replacement;

static expr_id replace_rewriter(kernel *k, const ir_expr *e, void *user) {
    const replacement *r = user;
    expr_id same = ir_rebuild(k, e, NULL);
    return same == r->what ? r->by : same;
}

void ir_replace(kernel *k, stmt_id s, expr_id what, expr_id by) {
    replacement r = {what, by};
    ir_rewrite(k, s, replace_rewriter, &r);
}

typedef struct substitution {
    int n;
    uint32_t cap;
    sym *from, *to;
} substitution;

static void substitution_add(kernel *k, substitution *s, sym from, sym to) {
    uint32_t cap = s->cap;
    s->from = arena_grow(&k->arena, s->from, &cap, (uint32_t)s->n + 1, sizeof *s->from);
    s->to = arena_grow(&k->arena, s->to, &s->cap, (uint32_t)s->n + 1, sizeof *s->to);
    s->from[s->n] = from;
    s->to[s->n++] = to;
}

static substitution substitution_of(kernel *k, int n, const sym *var, const sym *value) {
    substitution s = {0};
    for (int i = 0; i < n; i++) substitution_add(k, &s, var[i], value[i]);
    return s;
}

static sym replaced(kernel *k, const substitution *s, sym a) {
    return sym_subst(k->syms, a, s->n, s->from, s->to);
}

static expr_id subst_rewriter(kernel *k, const ir_expr *e, void *user) {
    const substitution *s = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_INDEX) row.index = replaced(k, s, row.index);
    if (row.kind == EXPR_LOAD) {
        row.load.index = replaced(k, s, row.load.index);
        row.load.valid = replaced(k, s, row.load.valid);
    }
    return ir_rebuild(k, &row, NULL);
}

expr_id ir_subst_expr(kernel *k, expr_id e, int n, const sym *var, const sym *value) {
    if (!e) return 0;
    substitution s = substitution_of(k, n, var, value);
    return ir_rewrite_expr(k, e, subst_rewriter, &s);
}

/* Loops first, since their new variables join the substitution before any expression needs it. */
static void subst_loops(kernel *k, stmt_id s, substitution *sub) {
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        ir_stmt *loop = ir_s(k, t);
        if (loop->kind != STMT_LOOP) continue;
        sym extent = replaced(k, sub, loop->l.extent);
        if (extent == loop->l.extent) continue;
        if (sym_hi(k->syms, extent) < 0) extent = SYM_ZERO; /* no iteration either way */
        sym var = sym_loop(k->syms, sym_name(k->syms, loop->l.var), extent);
        sym old = loop->l.var;
        if (loop->loop == LOOP_VEC && sym_hi(k->syms, extent) <= 1) loop->loop = LOOP_SERIAL;
        loop->l.var = var;
        loop->l.extent = extent;
        substitution_add(k, sub, old, ir_trip(k, t));
    }
}

static void subst_all(kernel *k, stmt_id s, substitution *sub) {
    subst_loops(k, s, sub);
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        ir_stmt *st = ir_s(k, t);
        if (st->kind == STMT_PREFETCH) st->prefetch.index = replaced(k, sub, st->prefetch.index);
        if (st->kind != STMT_STORE) continue;
        st->store.index = replaced(k, sub, st->store.index);
        st->store.valid = replaced(k, sub, st->store.valid);
    }
    ir_rewrite(k, s, subst_rewriter, sub);
}

void ir_subst(kernel *k, stmt_id s, int n, const sym *var, const sym *value) {
    substitution sub = substitution_of(k, n, var, value);
    subst_all(k, s, &sub);
}

/* to[m]: the memory that replaces m. */
static expr_id memory_rewriter(kernel *k, const ir_expr *e, void *user) {
    const mem_id *to = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD) row.load.mem = to[row.load.mem];
    return ir_rebuild(k, &row, NULL);
}

static void rename_tiles(kernel *k, stmt_id s) {
    mem_id n = k->mems, *to = arena_alloc(&k->arena, n * sizeof *to);
    for (mem_id m = 0; m < n; m++) to[m] = m;
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        if (ir_s(k, t)->kind != STMT_DEF) continue;
        ir_memory m = k->mem[ir_s(k, t)->def.mem];
        to[ir_s(k, t)->def.mem] = add_mem(k, m);
    }
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        ir_stmt *st = ir_s(k, t);
        if (st->kind == STMT_DEF) st->def.mem = to[st->def.mem];
        if (st->kind != STMT_STORE) continue;
        for (int i = 0; i < st->n; i++) st->store.mem[i] = to[st->store.mem[i]];
    }
    ir_rewrite(k, s, memory_rewriter, to);
}

void ir_rename(kernel *k, stmt_id s) {
    substitution sub = {0};
    for (stmt_id t = s; t; t = ir_next(k, t, s)) {
        ir_stmt *loop = ir_s(k, t);
        if (loop->kind != STMT_LOOP || t == k->root) continue;
        sym extent = replaced(k, &sub, loop->l.extent);
        const char *name = ir_fresh_name(k, sym_name(k->syms, loop->l.var));
        sym var = sym_loop(k->syms, name, extent);
        substitution_add(k, &sub, loop->l.var, var);
        loop->l.var = var;
        loop->l.extent = extent;
        loop->l.id = ++k->loops;
    }
    if (sub.n) subst_all(k, s, &sub);
    rename_tiles(k, s);
}

/* ---- questions ------------------------------------------------------------------------------ */

typedef struct question {
    sym var;
    mem_id mem;
    expr_id part; /* not 0: not to be searched in offsets and guards of loads, nor in look-ups */
} question;
typedef bool (*answer)(const kernel *k, const ir_expr *e, question q);

/* Is there a subexpression of e, e among them, for which `yes` holds? From e down to smaller ids,
 * so that a shared subexpression is visited once. */
static bool any_expr(const kernel *k, expr_id e, answer yes, question q) {
    unsigned char few[256];
    size_t size = e + 1;
    unsigned char *wanted = size <= sizeof few ? few : heap_alloc(&k->ctx->heap, size);
    memset(wanted, 0, size);
    wanted[e] = 1;
    bool found = false;
    for (expr_id i = e; i > 0 && !found; i--) {
        if (!wanted[i]) continue;
        expr_id *slot[3];
        int args = q.part && k->expr[i].kind != EXPR_OP ? 0 : ir_expr_args(&k->expr[i], slot);
        for (int a = 0; a < args; a++) wanted[*slot[a]] = 1;
        found = yes(k, &k->expr[i], q);
    }
    if (wanted != few) heap_free(&k->ctx->heap, wanted, size);
    return found;
}

static bool uses_var(const kernel *k, const ir_expr *e, question q) {
    if (e->kind == EXPR_INDEX) return sym_uses(k->syms, e->index, q.var);
    return e->kind == EXPR_LOAD &&
           (sym_uses(k->syms, e->load.index, q.var) || sym_uses(k->syms, e->load.valid, q.var));
}

static bool counts_by(const kernel *k, const ir_expr *e, question q) {
    return e->kind == EXPR_INDEX && sym_uses(k->syms, e->index, q.var);
}

bool ir_expr_counts(const kernel *k, expr_id e, sym var) {
    return any_expr(k, e, counts_by, (question){.var = var});
}

static bool reads_mem(const kernel *k, const ir_expr *e, question q) {
    (void)k;
    return e->kind == EXPR_LOAD && e->load.mem == q.mem;
}

bool ir_expr_uses(const kernel *k, expr_id e, sym var) {
    return any_expr(k, e, uses_var, (question){.var = var});
}

bool ir_expr_reads(const kernel *k, expr_id e, mem_id mem) {
    return any_expr(k, e, reads_mem, (question){.mem = mem});
}

static bool is_part(const kernel *k, const ir_expr *e, question q) {
    return e == &k->expr[q.part];
}

bool ir_expr_takes(const kernel *k, expr_id e, expr_id part) {
    return part && part <= e && any_expr(k, e, is_part, (question){.part = part});
}
