/* tree.c - making a kernel's tree, walking it and rewriting it.
 *
 * Statements and expressions are rows of two arrays that grow in the kernel's arena: an id stays, a
 * pointer from kern_s or kern_e only lives until the next statement or expression is made.
 *
 * Expressions are interned: a row is compared byte by byte, so whoever fills a kern_expr clears it
 * first. An expression's arguments were made before it, hence argument ids are smaller; rewriting
 * uses that to go from leaves to roots in id order, without recursion, visiting every shared
 * subexpression once. */
#include "kern/kern.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- the kernel ----------------------------------------------------------------------------- */

static void kern_begin(kern *k) {
    qn_ctx *qn = k->ctx;
    arena_open(&k->arena, &qn->heap);
    idset_open(&k->expr_set, &qn->heap);
}

/* Row 0 of every table is "none". */
static void kern_first_rows(kern *k) {
    k->mem = arena_grow(&k->arena, NULL, &k->mem_cap, 8, sizeof *k->mem);
    k->expr = arena_grow(&k->arena, NULL, &k->expr_cap, 64, sizeof *k->expr);
    k->stmt = arena_grow(&k->arena, NULL, &k->stmt_cap, 32, sizeof *k->stmt);
    memset(k->mem, 0, sizeof *k->mem);
    memset(k->expr, 0, sizeof *k->expr);
    memset(k->stmt, 0, 2 * sizeof *k->stmt);
    k->mems = k->exprs = 1;
    k->stmts = 2;
    k->root = 1;
    k->stmt[1].kind = KS_LOOP;
    k->stmt[1].l.extent = SYM_ONE;
}

kern *kern_open(qn_ctx *qn) {
    kern *k = heap_zeroed(&qn->heap, sizeof *k);
    k->ctx = qn;
    kern_begin(k);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        kern_close(k);
        heap_unwind(&qn->heap);
    }
    k->syms = sym_open(&qn->heap);
    k->name = "kernel";
    kern_first_rows(k);
    guard_close(&qn->heap, &g);
    return k;
}

void kern_close(kern *k) {
    if (!k) return;
    heap *h = &k->ctx->heap;
    idset_free(&k->expr_set);
    if (!k->borrowed) sym_close(k->syms);
    arena_free(&k->arena);
    heap_free(h, k, sizeof *k);
}

static uint64_t expr_hash(const kern_expr *e) {
    return hash_bytes(e, sizeof *e, 0);
}

static void *copy_rows(arena *a, const void *rows, uint32_t n, uint32_t *cap, size_t size) {
    *cap = 0;
    void *fresh = arena_grow(a, NULL, cap, n, size);
    memcpy(fresh, rows, n * size);
    return fresh;
}

static void clone_tables(kern *c, const kern *k) {
    c->mem = copy_rows(&c->arena, k->mem, k->mems, &c->mem_cap, sizeof *k->mem);
    c->expr = copy_rows(&c->arena, k->expr, k->exprs, &c->expr_cap, sizeof *k->expr);
    c->stmt = copy_rows(&c->arena, k->stmt, k->stmts, &c->stmt_cap, sizeof *k->stmt);
    if (k->tables)
        c->table = copy_rows(&c->arena, k->table, k->tables, &c->table_cap, sizeof *k->table);
    c->name = arena_printf(&c->arena, "%s", k->name);
    if (k->dim_vars) {
        c->dim_var = arena_alloc(&c->arena, k->dim_vars * sizeof *k->dim_var);
        memcpy(c->dim_var, k->dim_var, k->dim_vars * sizeof *k->dim_var);
    }
    for (kexpr e = 1; e < c->exprs; e++) idset_add(&c->expr_set, expr_hash(&c->expr[e]), e);
}

kern *kern_clone(const kern *k) {
    heap *h = &k->ctx->heap;
    kern *c = heap_alloc(h, sizeof *c);
    *c = *k;
    c->borrowed = true;
    kern_begin(c);
    guard g;
    guard_open(h, &g);
    if (setjmp(g.at)) {
        guard_close(h, &g);
        kern_close(c);
        heap_unwind(h);
    }
    clone_tables(c, k);
    guard_close(h, &g);
    return c;
}

/* ---- memories and dimension variables ------------------------------------------------------- */

bool kern_name_taken(const kern *k, const char *name) {
    for (int i = 0; i < k->dim_vars; i++)
        if (!strcmp(sym_name(k->syms, k->dim_var[i]), name)) return true;
    return kern_find_loop(k, name) != 0;
}

bool kern_name_reserved(const char *name) {
    return !strcmp(name, "min") || !strcmp(name, "max") || !strcmp(name, "and");
}

/* Of a name that needs a number behind it no more is kept, so that all of it fits. */
enum { SHORTENED = 48 };

/* `name` as an identifier of the text form, or name_1, name_2, ... : the first that is free. */
const char *kern_fresh_name(kern *k, const char *name) {
    const char *letter = isalpha((unsigned char)name[0]) ? "" : "v";
    size_t length = strlen(letter) + strlen(name);
    int most = length < KERN_NAME ? KERN_NAME - 1 : SHORTENED; /* splits of merges of splits .. */
    char *plain = arena_printf(&k->arena, "%s%.*s", letter, most, name);
    for (char *c = plain; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    if (!kern_name_reserved(plain) && !kern_name_taken(k, plain)) return plain;
    for (int i = 1;; i++) {
        const char *tried = arena_printf(&k->arena, "%.*s_%d", SHORTENED, plain, i);
        if (!kern_name_taken(k, tried)) return tried;
    }
}

sym kern_dim_var(kern *k, const char *name, int64_t lo, int64_t hi) {
    sym v = sym_var(k->syms, kern_fresh_name(k, name), lo, hi);
    sym *grown = arena_alloc(&k->arena, (k->dim_vars + 1) * sizeof *grown);
    if (k->dim_vars) memcpy(grown, k->dim_var, k->dim_vars * sizeof *grown);
    grown[k->dim_vars] = v;
    k->dim_var = grown;
    k->dim_vars++;
    return v;
}

static kmem add_mem(kern *k, kern_memory m) {
    k->mem = arena_grow(&k->arena, k->mem, &k->mem_cap, k->mems + 1, sizeof *k->mem);
    k->mem[k->mems] = m;
    return k->mems++;
}

kmem kern_arg(kern *k, qn_dtype dtype, sym size, int access) {
    return add_mem(k, (kern_memory){.scope = KERN_ARG,
                                    .access = (uint8_t)access,
                                    .dtype = (uint8_t)dtype,
                                    .size = size,
                                    .arg = k->args++});
}

kmem kern_tile(kern *k, kern_scope scope, qn_dtype dtype, sym size) {
    return add_mem(
        k,
        (kern_memory){.scope = (uint8_t)scope, .dtype = (uint8_t)dtype, .size = size, .arg = -1});
}

int kern_tile_number(const kern *k, kmem m) {
    int n = 0;
    for (kmem i = 1; i < m; i++) n += k->mem[i].scope != KERN_ARG;
    return n;
}

kmem kern_find_mem(const kern *k, const char *name) {
    if ((name[0] != 'a' && name[0] != 't') || name[1] < '0' || name[1] > '9') return 0;
    char *end;
    long wanted = strtol(name + 1, &end, 10);
    if (*end) return 0;
    for (kmem m = 1; m < k->mems; m++) {
        if ((k->mem[m].scope == KERN_ARG) != (name[0] == 'a')) continue;
        if (wanted-- == 0) return m;
    }
    return 0;
}

/* ---- expressions ---------------------------------------------------------------------------- */

static bool expr_same(const void *key, uint32_t id, const void *user) {
    const kern *k = user;
    return !memcmp(key, &k->expr[id], sizeof k->expr[id]);
}

kexpr kern_intern(kern *k, const kern_expr *e) {
    uint64_t hash = expr_hash(e);
    kexpr id = idset_find(&k->expr_set, hash, expr_same, e, k);
    if (id) return id;
    kern_expr row; /* e may lie in the table that grows */
    memcpy(&row, e, sizeof row);
    k->expr = arena_grow(&k->arena, k->expr, &k->expr_cap, k->exprs + 1, sizeof *k->expr);
    memcpy(&k->expr[k->exprs], &row, sizeof row);
    idset_add(&k->expr_set, hash, k->exprs);
    return k->exprs++;
}

static kern_expr blank(kern_expr_kind kind, qn_dtype dtype) {
    kern_expr e;
    memset(&e, 0, sizeof e);
    e.kind = (uint8_t)kind;
    e.dtype = (uint8_t)dtype;
    return e;
}

kexpr kern_const_bits(kern *k, qn_dtype dtype, uint64_t bits) {
    kern_expr e = blank(KE_CONST, dtype);
    e.bits = bits;
    return kern_intern(k, &e);
}

kexpr kern_const_f(kern *k, qn_dtype dtype, double value) {
    uint64_t place = 0;
    dtype_set_f(dtype, &place, 0, value);
    scalar v;
    if (dtype_is_float(dtype))
        v.f = dtype_get_f(dtype, &place, 0);
    else
        v.i = dtype_get_i(dtype, &place, 0);
    return kern_const_bits(k, dtype, scalar_bits(dtype, v));
}

kexpr kern_const_i(kern *k, qn_dtype dtype, int64_t value) {
    uint64_t place = 0;
    dtype_set_i(dtype, &place, 0, value);
    scalar v;
    if (dtype_is_float(dtype))
        v.f = dtype_get_f(dtype, &place, 0);
    else
        v.i = dtype_get_i(dtype, &place, 0);
    return kern_const_bits(k, dtype, scalar_bits(dtype, v));
}

kexpr kern_index(kern *k, sym value) {
    int64_t c;
    if (sym_is_const(k->syms, value, &c)) return kern_const_i(k, QN_I64, c);
    kern_expr e = blank(KE_INDEX, QN_I64);
    e.index = value;
    return kern_intern(k, &e);
}

static bool const_bits(const kern *k, kexpr e, uint64_t *bits) {
    if (k->expr[e].kind != KE_CONST) return false;
    *bits = k->expr[e].bits;
    return true;
}

static bool const_is(const kern *k, kexpr e, int64_t value) {
    const kern_expr *x = &k->expr[e];
    return x->kind == KE_CONST && !dtype_is_float(x->dtype) &&
           scalar_from_bits(x->dtype, x->bits).i == value;
}

kexpr kern_load(kern *k, kmem mem, sym index, sym valid, kexpr dyn, kexpr when) {
    qn_dtype dtype = k->mem[mem].dtype;
    if (when && const_is(k, when, 1)) when = 0;
    if (dyn && const_is(k, dyn, 0)) dyn = 0;
    if (valid == SYM_FALSE || (when && const_is(k, when, 0))) return kern_const_bits(k, dtype, 0);
    kern_expr e = blank(KE_LOAD, dtype);
    e.load.mem = mem;
    e.load.index = index;
    e.load.valid = valid;
    e.load.dyn = dyn;
    e.load.guard = when;
    return kern_intern(k, &e);
}

uint32_t kern_table_of(kern *k, qn_dtype dtype, int n, const uint64_t *bits) {
    size_t size = (size_t)n * sizeof *bits;
    for (uint32_t t = 0; t < k->tables; t++)
        if (k->table[t].dtype == dtype && k->table[t].n == n &&
            !memcmp(k->table[t].bits, bits, size))
            return t;
    uint64_t *copy = arena_alloc(&k->arena, size);
    memcpy(copy, bits, size);
    k->table = arena_grow(&k->arena, k->table, &k->table_cap, k->tables + 1, sizeof *k->table);
    k->table[k->tables] = (kern_table){(uint8_t)dtype, (uint8_t)n, copy};
    return k->tables++;
}

kexpr kern_lookup(kern *k, uint32_t table, kexpr index) {
    const kern_table *t = &k->table[table];
    uint64_t bits;
    if (const_bits(k, index, &bits)) return kern_const_bits(k, t->dtype, t->bits[bits % t->n]);
    kern_expr e = blank(KE_TABLE, t->dtype);
    e.table.number = table;
    e.table.index = index;
    return kern_intern(k, &e);
}

/* The op on constants, or 0. Not where the C library and the device may differ: a node's value is
 * not to depend on what its kernel knows. */
static kexpr fold(kern *k, int op, qn_dtype dtype, int n, const kexpr *arg) {
    uint64_t bits = 0;
    if (kern_expands(op, dtype)) return 0;
    if (dtype_is_float(dtype) && (op == OP_MOD || op == OP_FLOOR_DIV)) return 0;
    scalar x[3], out;
    for (int i = 0; i < n; i++) {
        if (!const_bits(k, arg[i], &bits)) return 0;
        x[i] = scalar_from_bits(k->expr[arg[i]].dtype, bits);
    }
    if (op == OP_BITCAST) return kern_const_bits(k, dtype, bits);
    if (!scalar_op(op, dtype, k->expr[arg[n - 1]].dtype, x, &out)) return 0;
    return kern_const_bits(k, dtype, scalar_bits(dtype, out));
}

/* What substitution uncovers: neutral elements of integers, conditions that are known. */
static kexpr simplify(kern *k, int op, qn_dtype dtype, const kexpr *arg) {
    bool whole = !dtype_is_float(dtype);
    switch (op) {
    case OP_ADD:
    case OP_XOR:
        if (whole && const_is(k, arg[0], 0)) return arg[1];
        /* fallthrough */
    case OP_SUB:
        return whole && const_is(k, arg[1], 0) ? arg[0] : 0;
    case OP_MUL:
        if (whole && const_is(k, arg[0], 1)) return arg[1];
        if (whole && (const_is(k, arg[0], 0) || const_is(k, arg[1], 1))) return arg[0];
        return whole && const_is(k, arg[1], 0) ? arg[1] : 0;
    case OP_AND:
        if (const_is(k, arg[0], 0) || arg[0] == arg[1]) return arg[0];
        if (const_is(k, arg[1], 0)) return arg[1];
        if (dtype == QN_BOOL && const_is(k, arg[0], 1)) return arg[1];
        return dtype == QN_BOOL && const_is(k, arg[1], 1) ? arg[0] : 0;
    case OP_OR:
        if (const_is(k, arg[0], 0)) return arg[1];
        if (const_is(k, arg[1], 0) || arg[0] == arg[1]) return arg[0];
        if (dtype == QN_BOOL && const_is(k, arg[0], 1)) return arg[0];
        return dtype == QN_BOOL && const_is(k, arg[1], 1) ? arg[1] : 0;
    case OP_WHERE:
        if (arg[1] == arg[2] || const_is(k, arg[0], 1)) return arg[1];
        return const_is(k, arg[0], 0) ? arg[2] : 0;
    case OP_CAST:
    case OP_BITCAST:
        return k->expr[arg[0]].dtype == dtype ? arg[0] : 0;
    default:
        return 0;
    }
}

kexpr kern_op(kern *k, int op, qn_dtype dtype, int n, const kexpr *arg) {
    kexpr known = fold(k, op, dtype, n, arg);
    if (!known) known = simplify(k, op, dtype, arg);
    if (known) return known;
    kern_expr e = blank(KE_OP, dtype);
    e.op = (uint8_t)op;
    e.n = (uint8_t)n;
    for (int i = 0; i < n; i++) e.arg[i] = arg[i];
    return kern_intern(k, &e);
}

qn_dtype kern_op_dtype(const kern *k, int op, const kexpr *arg) {
    int types = op_rows[op].types;
    if (types == TYPES_CMP) return QN_BOOL;
    return k->expr[arg[types == TYPES_SELECT ? 1 : 0]].dtype;
}

kexpr kern_op1(kern *k, int op, kexpr a) {
    return kern_op(k, op, kern_op_dtype(k, op, &a), 1, &a);
}

kexpr kern_op2(kern *k, int op, kexpr a, kexpr b) {
    kexpr arg[2] = {a, b};
    return kern_op(k, op, kern_op_dtype(k, op, arg), 2, arg);
}

kexpr kern_op3(kern *k, int op, kexpr a, kexpr b, kexpr c) {
    kexpr arg[3] = {a, b, c};
    return kern_op(k, op, kern_op_dtype(k, op, arg), 3, arg);
}

kexpr kern_cast(kern *k, qn_dtype dtype, kexpr a) {
    return kern_op(k, OP_CAST, dtype, 1, &a);
}

/* ---- monoids -------------------------------------------------------------------------------- */

kexpr kern_identity(kern *k, int m, int component, qn_dtype dtype) {
    if (component) return kern_const_i(k, dtype, INT64_MAX);
    return kern_const_bits(k, dtype, scalar_bits(dtype, scalar_identity(m, dtype)));
}

/* Does (a, i) win over (b, j)? The larger (or smaller) value does, NaN over numbers, and between
 * equals, two NaNs among them, the smaller index. */
static kexpr arg_wins(kern *k, int m, const kexpr *a, const kexpr *b) {
    bool max = monoid_rows[m].combine == OP_MAXIMUM;
    kexpr better = max ? kern_op2(k, OP_LT, b[0], a[0]) : kern_op2(k, OP_LT, a[0], b[0]);
    kexpr tie = kern_op2(k, OP_EQ, a[0], b[0]);
    if (dtype_is_float(k->expr[a[0]].dtype)) {
        kexpr a_nan = kern_op2(k, OP_NE, a[0], a[0]), b_nan = kern_op2(k, OP_NE, b[0], b[0]);
        better = kern_op2(k, OP_OR, better, kern_op2(k, OP_LT, b_nan, a_nan));
        tie = kern_op2(k, OP_OR, tie, kern_op2(k, OP_AND, a_nan, b_nan));
    }
    kexpr earlier = kern_op2(k, OP_LT, a[1], b[1]);
    return kern_op2(k, OP_OR, better, kern_op2(k, OP_AND, tie, earlier));
}

void kern_combine(kern *k, int m, const kexpr *a, const kexpr *b, kexpr *out) {
    if (m == MONOID_SET) {
        out[0] = b[0];
    } else if (monoid_rows[m].states == 1) {
        out[0] = kern_op2(k, monoid_rows[m].combine, a[0], b[0]);
    } else {
        kexpr wins = arg_wins(k, m, a, b);
        for (int i = 0; i < 2; i++) out[i] = kern_op3(k, OP_WHERE, wins, a[i], b[i]);
    }
}

/* ---- statements ----------------------------------------------------------------------------- */

static kstmt add_stmt(kern *k, kern_stmt row, kstmt parent) {
    k->stmt = arena_grow(&k->arena, k->stmt, &k->stmt_cap, k->stmts + 1, sizeof *k->stmt);
    k->stmt[k->stmts] = row;
    kstmt s = k->stmts++;
    kern_insert(k, s, parent ? parent : k->root, 0);
    return s;
}

kstmt kern_loop(kern *k, kstmt parent, kern_loop_kind kind, const char *name, sym extent) {
    sym var = sym_loop(k->syms, kern_fresh_name(k, name ? name : "i"), extent);
    return add_stmt(k, (kern_stmt){.kind = KS_LOOP, .loop = (uint8_t)kind, .l = {var, extent}},
                    parent);
}

kstmt kern_def(kern *k, kstmt parent, kmem tile, kexpr value) {
    return add_stmt(k, (kern_stmt){.kind = KS_DEF, .def = {tile, value}}, parent);
}

kstmt kern_fetch(kern *k, kstmt parent, kmem arg, sym index) {
    return add_stmt(k, (kern_stmt){.kind = KS_FETCH, .fetch = {arg, index}}, parent);
}

kstmt kern_barrier(kern *k, kstmt parent) {
    return add_stmt(k, (kern_stmt){.kind = KS_BARRIER}, parent);
}

kstmt kern_store_n(kern *k, kstmt parent, const kern_stmt *store) {
    kern_stmt row = {
        .kind = KS_STORE, .monoid = store->monoid, .n = store->n, .store = store->store};
    return add_stmt(k, row, parent);
}

kstmt kern_store(kern *k, kstmt parent, int how, kmem mem, sym index, sym valid, kexpr value) {
    kern_stmt row = {.kind = KS_STORE, .monoid = (uint8_t)how, .n = 1};
    row.store.mem[0] = mem;
    row.store.value[0] = value;
    row.store.index = index;
    row.store.valid = valid;
    return add_stmt(k, row, parent);
}

void kern_unlink(kern *k, kstmt s) {
    kern_stmt *t = kern_s(k, s), *p = kern_s(k, t->parent);
    if (t->prev)
        kern_s(k, t->prev)->next = t->next;
    else
        p->first = t->next;
    if (t->next)
        kern_s(k, t->next)->prev = t->prev;
    else
        p->last = t->prev;
    t->parent = t->next = t->prev = 0;
}

void kern_insert(kern *k, kstmt s, kstmt parent, kstmt before) {
    kern_stmt *t = kern_s(k, s), *p = kern_s(k, parent);
    t->parent = parent;
    t->next = before;
    t->prev = before ? kern_s(k, before)->prev : p->last;
    if (t->prev)
        kern_s(k, t->prev)->next = s;
    else
        p->first = s;
    if (before)
        kern_s(k, before)->prev = s;
    else
        p->last = s;
}

void kern_move(kern *k, kstmt s, kstmt parent, kstmt before) {
    if (before == s) before = kern_s(k, s)->next;
    kern_unlink(k, s);
    kern_insert(k, s, parent, before);
}

kstmt kern_next(const kern *k, kstmt s, kstmt top) {
    if (kern_s(k, s)->first) return kern_s(k, s)->first;
    while (s != top) {
        if (kern_s(k, s)->next) return kern_s(k, s)->next;
        s = kern_s(k, s)->parent;
    }
    return 0;
}

bool kern_inside(const kern *k, kstmt s, kstmt loop) {
    while (s && s != loop) s = kern_s(k, s)->parent;
    return s != 0;
}

kstmt kern_find_loop(const kern *k, const char *name) {
    for (kstmt s = k->root; (s = kern_next(k, s, k->root));) {
        const kern_stmt *t = kern_s(k, s);
        if (t->kind == KS_LOOP && !strcmp(sym_name(k->syms, t->l.var), name)) return s;
    }
    return 0;
}

kstmt kern_copy(kern *k, kstmt s) {
    kern_stmt row = *kern_s(k, s);
    row.parent = row.next = row.prev = row.first = row.last = 0;
    k->stmt = arena_grow(&k->arena, k->stmt, &k->stmt_cap, k->stmts + 1, sizeof *k->stmt);
    k->stmt[k->stmts] = row;
    kstmt copy = k->stmts++;
    for (kstmt c = kern_s(k, s)->first; c; c = kern_s(k, c)->next)
        kern_insert(k, kern_copy(k, c), copy, 0);
    return copy;
}

int kern_stmt_exprs(kern_stmt *s, kexpr *slot[4]) {
    int n = 0;
    if (s->kind == KS_DEF && s->def.value) slot[n++] = &s->def.value;
    if (s->kind != KS_STORE) return n;
    for (int i = 0; i < s->n; i++) slot[n++] = &s->store.value[i];
    if (s->store.dyn) slot[n++] = &s->store.dyn;
    if (s->store.guard) slot[n++] = &s->store.guard;
    return n;
}

int kern_expr_args(kern_expr *e, kexpr *slot[3]) {
    int n = 0;
    if (e->kind == KE_OP)
        for (; n < e->n; n++) slot[n] = &e->arg[n];
    if (e->kind == KE_TABLE) slot[n++] = &e->table.index;
    if (e->kind == KE_LOAD && e->load.dyn) slot[n++] = &e->load.dyn;
    if (e->kind == KE_LOAD && e->load.guard) slot[n++] = &e->load.guard;
    return n;
}

sym kern_trip(const kern *k, kstmt loop) {
    const kern_stmt *l = kern_s(k, loop);
    return sym_hi(k->syms, l->l.extent) <= 1 ? SYM_ZERO : l->l.var;
}

/* ---- rewriting ------------------------------------------------------------------------------ */

kexpr kern_rebuild(kern *k, const kern_expr *e, void *user) {
    (void)user;
    switch (e->kind) {
    case KE_INDEX:
        return kern_index(k, e->index);
    case KE_LOAD:
        return kern_load(k, e->load.mem, e->load.index, e->load.valid, e->load.dyn, e->load.guard);
    case KE_OP:
        return kern_op(k, e->op, e->dtype, e->n, e->arg);
    case KE_TABLE:
        return kern_lookup(k, e->table.number, e->table.index);
    default:
        return kern_intern(k, e);
    }
}

/* place[e]: 0 for expressions that are not wanted, anything else for those that are; all they are
 * made of is wanted, too, and then place[e] becomes what e is rewritten to. */
static void rewrite_wanted(kern *k, kexpr *place, kexpr n, kern_rewriter f, void *user) {
    kexpr *slot[3];
    for (kexpr e = n; e-- > 1;) {
        if (!place[e]) continue;
        int args = kern_expr_args(&k->expr[e], slot);
        for (int i = 0; i < args; i++) place[*slot[i]] = 1;
    }
    for (kexpr e = 1; e < n; e++) {
        if (!place[e]) continue;
        kern_expr row;
        memcpy(&row, &k->expr[e], sizeof row);
        int args = kern_expr_args(&row, slot);
        for (int i = 0; i < args; i++) *slot[i] = place[*slot[i]];
        place[e] = f(k, &row, user);
    }
}

kexpr kern_rewrite_expr(kern *k, kexpr e, kern_rewriter f, void *user) {
    kexpr *place = arena_zeroed(&k->arena, (e + 1) * sizeof *place);
    place[e] = 1;
    rewrite_wanted(k, place, e + 1, f, user);
    return place[e];
}

void kern_rewrite(kern *k, kstmt s, kern_rewriter f, void *user) {
    kexpr n = k->exprs, *place = arena_zeroed(&k->arena, n * sizeof *place), *slot[4];
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        int m = kern_stmt_exprs(kern_s(k, t), slot);
        for (int i = 0; i < m; i++) place[*slot[i]] = 1;
    }
    rewrite_wanted(k, place, n, f, user);
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        int m = kern_stmt_exprs(kern_s(k, t), slot);
        for (int i = 0; i < m; i++) *slot[i] = place[*slot[i]];
    }
}

typedef struct replacement {
    kexpr what, by;
} replacement;

static kexpr replace_rewriter(kern *k, const kern_expr *e, void *user) {
    const replacement *r = user;
    kexpr same = kern_rebuild(k, e, NULL);
    return same == r->what ? r->by : same;
}

void kern_replace(kern *k, kstmt s, kexpr what, kexpr by) {
    replacement r = {what, by};
    kern_rewrite(k, s, replace_rewriter, &r);
}

typedef struct substitution {
    int n;
    uint32_t cap;
    sym *from, *to;
} substitution;

static void substitution_add(kern *k, substitution *s, sym from, sym to) {
    uint32_t cap = s->cap;
    s->from = arena_grow(&k->arena, s->from, &cap, (uint32_t)s->n + 1, sizeof *s->from);
    s->to = arena_grow(&k->arena, s->to, &s->cap, (uint32_t)s->n + 1, sizeof *s->to);
    s->from[s->n] = from;
    s->to[s->n++] = to;
}

static substitution substitution_of(kern *k, int n, const sym *var, const sym *value) {
    substitution s = {0};
    for (int i = 0; i < n; i++) substitution_add(k, &s, var[i], value[i]);
    return s;
}

static sym replaced(kern *k, const substitution *s, sym a) {
    return sym_subst(k->syms, a, s->n, s->from, s->to);
}

static kexpr subst_rewriter(kern *k, const kern_expr *e, void *user) {
    const substitution *s = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_INDEX) row.index = replaced(k, s, row.index);
    if (row.kind == KE_LOAD) {
        row.load.index = replaced(k, s, row.load.index);
        row.load.valid = replaced(k, s, row.load.valid);
    }
    return kern_rebuild(k, &row, NULL);
}

kexpr kern_subst_expr(kern *k, kexpr e, int n, const sym *var, const sym *value) {
    if (!e) return 0;
    substitution s = substitution_of(k, n, var, value);
    return kern_rewrite_expr(k, e, subst_rewriter, &s);
}

/* Loops first, since their new variables join the substitution before any expression needs it. */
static void subst_loops(kern *k, kstmt s, substitution *sub) {
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        kern_stmt *loop = kern_s(k, t);
        if (loop->kind != KS_LOOP) continue;
        sym extent = replaced(k, sub, loop->l.extent);
        if (extent == loop->l.extent) continue;
        sym var = sym_loop(k->syms, sym_name(k->syms, loop->l.var), extent);
        sym old = loop->l.var;
        if (loop->loop == KERN_VEC && sym_hi(k->syms, extent) <= 1) loop->loop = KERN_SERIAL;
        loop->l.var = var;
        loop->l.extent = extent;
        substitution_add(k, sub, old, kern_trip(k, t));
    }
}

static void subst_all(kern *k, kstmt s, substitution *sub) {
    subst_loops(k, s, sub);
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        kern_stmt *st = kern_s(k, t);
        if (st->kind == KS_FETCH) st->fetch.index = replaced(k, sub, st->fetch.index);
        if (st->kind != KS_STORE) continue;
        st->store.index = replaced(k, sub, st->store.index);
        st->store.valid = replaced(k, sub, st->store.valid);
    }
    kern_rewrite(k, s, subst_rewriter, sub);
}

void kern_subst(kern *k, kstmt s, int n, const sym *var, const sym *value) {
    substitution sub = substitution_of(k, n, var, value);
    subst_all(k, s, &sub);
}

/* to[m]: the memory that takes m's place. */
static kexpr memory_rewriter(kern *k, const kern_expr *e, void *user) {
    const kmem *to = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_LOAD) row.load.mem = to[row.load.mem];
    return kern_rebuild(k, &row, NULL);
}

static void rename_tiles(kern *k, kstmt s) {
    kmem n = k->mems, *to = arena_alloc(&k->arena, n * sizeof *to);
    for (kmem m = 0; m < n; m++) to[m] = m;
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        if (kern_s(k, t)->kind != KS_DEF) continue;
        kern_memory m = k->mem[kern_s(k, t)->def.mem];
        to[kern_s(k, t)->def.mem] = add_mem(k, m);
    }
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        kern_stmt *st = kern_s(k, t);
        if (st->kind == KS_DEF) st->def.mem = to[st->def.mem];
        if (st->kind != KS_STORE) continue;
        for (int i = 0; i < st->n; i++) st->store.mem[i] = to[st->store.mem[i]];
    }
    kern_rewrite(k, s, memory_rewriter, to);
}

void kern_rename(kern *k, kstmt s) {
    substitution sub = {0};
    for (kstmt t = s; t; t = kern_next(k, t, s)) {
        kern_stmt *loop = kern_s(k, t);
        if (loop->kind != KS_LOOP || t == k->root) continue;
        sym extent = replaced(k, &sub, loop->l.extent);
        const char *name = kern_fresh_name(k, sym_name(k->syms, loop->l.var));
        sym var = sym_loop(k->syms, name, extent);
        substitution_add(k, &sub, loop->l.var, var);
        loop->l.var = var;
        loop->l.extent = extent;
    }
    if (sub.n) subst_all(k, s, &sub);
    rename_tiles(k, s);
}

/* ---- questions ------------------------------------------------------------------------------ */

typedef struct question {
    sym var;
    kmem mem;
    kexpr part; /* not 0: not to be looked for in offsets and guards of loads, nor in lookups */
} question;
typedef bool (*answer)(const kern *k, const kern_expr *e, question q);

/* Is there a subexpression of e, e among them, for which `yes` holds? From e down to smaller ids,
 * so that a shared subexpression is looked at once. */
static bool any_expr(const kern *k, kexpr e, answer yes, question q) {
    unsigned char few[256];
    size_t size = e + 1;
    unsigned char *wanted = size <= sizeof few ? few : heap_alloc(&k->ctx->heap, size);
    memset(wanted, 0, size);
    wanted[e] = 1;
    bool found = false;
    for (kexpr i = e; i > 0 && !found; i--) {
        if (!wanted[i]) continue;
        kexpr *slot[3];
        int args = q.part && k->expr[i].kind != KE_OP ? 0 : kern_expr_args(&k->expr[i], slot);
        for (int a = 0; a < args; a++) wanted[*slot[a]] = 1;
        found = yes(k, &k->expr[i], q);
    }
    if (wanted != few) heap_free(&k->ctx->heap, wanted, size);
    return found;
}

static bool uses_var(const kern *k, const kern_expr *e, question q) {
    if (e->kind == KE_INDEX) return sym_uses(k->syms, e->index, q.var);
    return e->kind == KE_LOAD &&
           (sym_uses(k->syms, e->load.index, q.var) || sym_uses(k->syms, e->load.valid, q.var));
}

static bool reads_mem(const kern *k, const kern_expr *e, question q) {
    (void)k;
    return e->kind == KE_LOAD && e->load.mem == q.mem;
}

bool kern_expr_uses(const kern *k, kexpr e, sym var) {
    return any_expr(k, e, uses_var, (question){.var = var});
}

bool kern_expr_reads(const kern *k, kexpr e, kmem mem) {
    return any_expr(k, e, reads_mem, (question){.mem = mem});
}

static bool is_part(const kern *k, const kern_expr *e, question q) {
    return e == &k->expr[q.part];
}

bool kern_expr_takes(const kern *k, kexpr e, kexpr part) {
    return part && part <= e && any_expr(k, e, is_part, (question){.part = part});
}
