/* text.c - a kernel as text, and back. A dump is a bug report, a test's input and what a person
 * reads to see what the schedule did, so it parses back to a kernel that prints the same.
 *
 *   kernel "max.sub" {
 *     dim n 1 4096
 *     arg a0 f32[64*n] read
 *     arg a1 f32[64*n] write
 *     reg t0 f32[1]
 *     par i < 64 {
 *       def t0 = f32(-inf)
 *       for j < n {
 *         t0[0] max= a0[i*n + j]
 *       }
 *       for j_1 < n {
 *         a1[i*n + j_1] = sub(a0[i*n + j_1], t0[0])
 *       }
 *     }
 *   }
 *
 * Loops are for, par, vec, unroll, thread and word; a statement may be `barrier`. Memories are
 * numbered in the order of their lines, arguments and tiles apart. An access is mem[index], or
 * mem[index; valid=..; dyn=..; guard=..] with those of the three it has. A store of two components
 * names both memories: (t0, t1)[0] argmax= x, y. Constants are dtype(number), a float that no
 * number says dtype(0xbits); idx(..) is an index as a value; cast and bitcast carry their dtype:
 * cast:f32(x). Tables stand behind the memories, table c0 f32 {0.5, 1, 2, 4}, and lookup(c0, x) is
 * an entry of one.
 *
 * Expressions are DAGs. What a statement uses more than once, or what would nest too deeply, gets a
 * line of its own before it: let x0 = mul(..). The names are the statement's own. */
#include "kern/kern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEEPEST_PRINTED = 8, DEEPEST_PARSED = 64, INDENT = 2 };

static const char *const loop_words[] = {"for", "par", "vec", "unroll", "thread", "word"};
static const char *const scope_words[] = {"arg", "local", "reg"};
enum { ACCESS_WORDS = 4 };
static const char *const access_words[ACCESS_WORDS] = {"read", "write", "bypass",
                                                       "over"}; /* by bit */

/* ---- printing ------------------------------------------------------------------------------- */

/* One statement's expressions. order: sources before users, as met from the statement's slots. */
typedef struct printer {
    kern *k; /* not changed */
    str *out;
    int indent;
    kexpr *order, *stack;
    uint32_t *uses, *let; /* of every expression; let: 1 + number, 0 for what is printed in place */
    uint8_t *height, *state;
    uint32_t count, lets;
} printer;

static void print_sym(printer *p, sym a) {
    sym_print(p->k->syms, a, p->out);
}

static void print_mem(printer *p, kmem m) {
    const kern_memory *mem = kern_m(p->k, m);
    if (mem->scope == KERN_ARG)
        str_addf(p->out, "a%d", mem->arg);
    else
        str_addf(p->out, "t%d", kern_tile_number(p->k, m));
}

static void print_number(str *out, qn_dtype dtype, uint64_t bits) {
    scalar v = scalar_from_bits(dtype, bits);
    if (!dtype_is_float(dtype)) {
        if (dtype == QN_U64)
            str_addf(out, "%llu", (unsigned long long)v.i);
        else
            str_addf(out, "%lld", (long long)v.i);
    } else if (v.f != v.f) {
        str_addf(out, "0x%llx", (unsigned long long)bits);
    } else {
        char text[40];
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, v.f);
            if (strtod(text, NULL) == v.f) break;
        }
        str_add(out, text);
    }
}

static void print_expr(printer *p, kexpr e);

static void print_place(printer *p, sym index, sym valid, kexpr dyn, kexpr when) {
    str_add(p->out, "[");
    print_sym(p, index);
    if (valid != SYM_TRUE) {
        str_add(p->out, "; valid=");
        print_sym(p, valid);
    }
    if (dyn) {
        str_add(p->out, "; dyn=");
        print_expr(p, dyn);
    }
    if (when) {
        str_add(p->out, "; guard=");
        print_expr(p, when);
    }
    str_add(p->out, "]");
}

static void print_node(printer *p, kexpr id) {
    const kern_expr *e = kern_e(p->k, id);
    if (e->kind == KE_CONST) {
        str_addf(p->out, "%s(", qn_dtype_name(e->dtype));
        print_number(p->out, e->dtype, e->bits);
        str_add(p->out, ")");
    } else if (e->kind == KE_TABLE) {
        str_addf(p->out, "lookup(c%u, ", e->table.number);
        print_expr(p, e->table.index);
        str_add(p->out, ")");
    } else if (e->kind == KE_INDEX) {
        str_add(p->out, "idx(");
        print_sym(p, e->index);
        str_add(p->out, ")");
    } else if (e->kind == KE_LOAD) {
        print_mem(p, e->load.mem);
        print_place(p, e->load.index, e->load.valid, e->load.dyn, e->load.guard);
    } else {
        const op_row *row = &op_rows[e->op];
        str_add(p->out, row->name);
        if (row->types == TYPES_TO) str_addf(p->out, ":%s", qn_dtype_name(e->dtype));
        for (int i = 0; i < e->n; i++) {
            str_add(p->out, i ? ", " : "(");
            print_expr(p, e->arg[i]);
        }
        str_add(p->out, ")");
    }
}

static void print_expr(printer *p, kexpr e) {
    if (p->let[e])
        str_addf(p->out, "x%u", p->let[e] - 1);
    else
        print_node(p, e);
}

/* Append e and what it is made of to the order, sources first, without recursion: an expression is
 * on the stack once to be entered (state 0) and then once more to be left (state 1). */
static void order_exprs(printer *p, kexpr e) {
    uint32_t depth = 0;
    if (p->state[e] != 2) p->stack[depth++] = e;
    while (depth) {
        kexpr top = p->stack[depth - 1], *slot[3];
        int n = kern_expr_args(kern_e(p->k, top), slot);
        if (p->state[top] == 0) {
            p->state[top] = 1;
            for (int i = n; i-- > 0;)
                if (p->state[*slot[i]] == 0) p->stack[depth++] = *slot[i];
        } else {
            depth--;
            if (p->state[top] == 1) p->order[p->count++] = top;
            p->state[top] = 2;
        }
    }
}

/* Decide, sources first, what gets a line of its own; print those lines. */
static void print_lets(printer *p, kstmt s) {
    kexpr *slot[4], *arg[3];
    p->count = p->lets = 0;
    int n = kern_stmt_exprs(kern_s(p->k, s), slot);
    for (int i = 0; i < n; i++) {
        order_exprs(p, *slot[i]);
        p->uses[*slot[i]]++;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        int args = kern_expr_args(kern_e(p->k, p->order[i]), arg);
        for (int a = 0; a < args; a++) p->uses[*arg[a]]++;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        kexpr e = p->order[i];
        int args = kern_expr_args(kern_e(p->k, e), arg), height = args > 0;
        for (int a = 0; a < args; a++)
            if (!p->let[*arg[a]] && p->height[*arg[a]] >= height) height = p->height[*arg[a]] + 1;
        p->height[e] = (uint8_t)height;
        if (height == 0 || (p->uses[e] < 2 && height < DEEPEST_PRINTED)) continue;
        str_addf(p->out, "%*slet x%u = ", p->indent, "", p->lets);
        print_node(p, e);
        str_add(p->out, "\n");
        p->let[e] = ++p->lets;
    }
}

static void forget_lets(printer *p) {
    for (uint32_t i = 0; i < p->count; i++) {
        kexpr e = p->order[i];
        p->uses[e] = p->let[e] = p->height[e] = p->state[e] = 0;
    }
}

static void print_store(printer *p, const kern_stmt *s) {
    if (s->n > 1) str_add(p->out, "(");
    for (int i = 0; i < s->n; i++) {
        if (i) str_add(p->out, ", ");
        print_mem(p, s->store.mem[i]);
    }
    if (s->n > 1) str_add(p->out, ")");
    print_place(p, s->store.index, s->store.valid, s->store.dyn, s->store.guard);
    str_addf(p->out, " %s ", monoid_rows[s->monoid].name);
    for (int i = 0; i < s->n; i++) {
        if (i) str_add(p->out, ", ");
        print_expr(p, s->store.value[i]);
    }
    str_add(p->out, "\n");
}

static void print_stmt(printer *p, kstmt id) {
    const kern_stmt *s = kern_s(p->k, id);
    print_lets(p, id);
    str_addf(p->out, "%*s", p->indent, "");
    if (s->kind == KS_LOOP) {
        str_addf(p->out, "%s %s < ", loop_words[s->loop], sym_name(p->k->syms, s->l.var));
        print_sym(p, s->l.extent);
        str_add(p->out, " {\n");
        p->indent += INDENT;
        for (kstmt c = s->first; c; c = kern_s(p->k, c)->next) print_stmt(p, c);
        p->indent -= INDENT;
        str_addf(p->out, "%*s}\n", p->indent, "");
    } else if (s->kind == KS_DEF) {
        str_add(p->out, "def ");
        print_mem(p, s->def.mem);
        if (s->def.value) {
            str_add(p->out, " = ");
            print_expr(p, s->def.value);
        }
        str_add(p->out, "\n");
    } else if (s->kind == KS_FETCH) {
        str_add(p->out, "fetch ");
        print_mem(p, s->fetch.mem);
        print_place(p, s->fetch.index, SYM_TRUE, 0, 0);
        str_add(p->out, "\n");
    } else if (s->kind == KS_BARRIER) {
        str_add(p->out, "barrier\n");
    } else {
        print_store(p, s);
    }
    if (s->kind != KS_LOOP) forget_lets(p);
}

static void print_head(printer *p) {
    kern *k = p->k;
    str_add(p->out, "kernel \"");
    for (const char *c = k->name; *c; c++) {
        if (*c == '"' || *c == '\\') str_add(p->out, "\\");
        str_addn(p->out, *c == '\n' ? " " : c, 1);
    }
    str_add(p->out, "\" {\n");
    for (int i = 0; i < k->dim_vars; i++) {
        sym v = k->dim_var[i];
        str_addf(p->out, "  dim %s %lld %lld\n", sym_name(k->syms, v),
                 (long long)sym_lo(k->syms, v), (long long)sym_hi(k->syms, v));
    }
    for (kmem m = 1; m < k->mems; m++) {
        const kern_memory *mem = kern_m(k, m);
        str_addf(p->out, "  %s ", scope_words[mem->scope]);
        print_mem(p, m);
        str_addf(p->out, " %s[", qn_dtype_name(mem->dtype));
        print_sym(p, mem->size);
        str_add(p->out, "]");
        for (int i = 0; i < ACCESS_WORDS; i++)
            if (mem->access >> i & 1) str_addf(p->out, " %s", access_words[i]);
        if (mem->ahead) str_addf(p->out, " prefetch %d", mem->ahead);
        str_add(p->out, "\n");
    }
    for (uint32_t t = 0; t < k->tables; t++) {
        const kern_table *table = &k->table[t];
        str_addf(p->out, "  table c%u %s {", t, qn_dtype_name(table->dtype));
        for (int i = 0; i < table->n; i++) {
            if (i) str_add(p->out, ", ");
            print_number(p->out, table->dtype, table->bits[i]);
        }
        str_add(p->out, "}\n");
    }
}

void kern_print(const kern *k, str *out) {
    arena scratch;
    heap *h = &k->ctx->heap;
    guard g;
    arena_open(&scratch, h);
    guard_open(h, &g);
    if (setjmp(g.at)) {
        guard_close(h, &g);
        arena_free(&scratch);
        heap_unwind(h);
    }
    printer p = {.k = (kern *)(uintptr_t)k, .out = out, .indent = INDENT};
    p.order = arena_alloc(&scratch, k->exprs * sizeof *p.order);
    p.stack = arena_alloc(&scratch, 4 * k->exprs * sizeof *p.stack);
    p.uses = arena_zeroed(&scratch, k->exprs * sizeof *p.uses);
    p.let = arena_zeroed(&scratch, k->exprs * sizeof *p.let);
    p.height = arena_zeroed(&scratch, k->exprs);
    p.state = arena_zeroed(&scratch, k->exprs);
    print_head(&p);
    for (kstmt s = kern_s(k, k->root)->first; s; s = kern_s(k, s)->next) print_stmt(&p, s);
    str_add(out, "}\n");
    guard_close(h, &g);
    arena_free(&scratch);
}

/* ---- parsing -------------------------------------------------------------------------------- */

/* The first thing that does not fit is kept in `expected`; from then on the text counts as ended,
 * so every loop below comes to its end by itself. */
typedef struct parser {
    kern *k;
    const char *p;
    int line, depth;
    const char *expected;
    sym *var; /* in scope: dimension variables, then open loops */
    uint32_t vars, var_cap;
    kexpr *let;
    uint32_t lets, let_cap;
} parser;

static void expected(parser *t, const char *what) {
    if (!t->expected) t->expected = what;
}

static void skip_space(parser *t) {
    for (; !t->expected && isspace((unsigned char)*t->p); t->p++) t->line += *t->p == '\n';
}

static char peek(parser *t) {
    skip_space(t);
    return t->expected ? 0 : *t->p;
}

static bool accept(parser *t, char c) {
    if (peek(t) != c) return false;
    t->p++;
    return true;
}

static void need(parser *t, char c, const char *what) {
    if (!accept(t, c)) expected(t, what);
}

/* An identifier into a buffer; empty when there is none. */
typedef struct word {
    char s[64];
} word;

static word parse_word(parser *t) {
    word w = {""};
    size_t n = 0;
    peek(t);
    if (t->expected || !isalpha((unsigned char)*t->p)) return w;
    while (isalnum((unsigned char)*t->p) || *t->p == '_') {
        if (n + 1 < sizeof w.s) w.s[n++] = *t->p;
        t->p++;
    }
    return w;
}

static int64_t parse_int(parser *t) {
    char *end = NULL;
    if (!peek(t)) return 0;
    long long v = strtoll(t->p, &end, 10);
    if (end == t->p) expected(t, "an integer");
    t->p = end;
    return v;
}

static sym parse_sym(parser *t) {
    sym a = SYM_ZERO;
    peek(t);
    if (!t->expected && !sym_parse(t->k->syms, &t->p, (int)t->vars, t->var, &a))
        expected(t, "an index expression over the variables in scope");
    return a;
}

int kern_find_dtype(const char *name) {
    for (int d = 0; d < QN_DTYPE_COUNT; d++)
        if (!strcmp(qn_dtype_name(d), name)) return d;
    return -1;
}

static int parse_dtype(parser *t) {
    int d = kern_find_dtype(parse_word(t).s);
    if (d < 0) expected(t, "a dtype");
    return d < 0 ? QN_F32 : d;
}

static kmem find_mem(parser *t, const char *name) {
    kmem m = kern_find_mem(t->k, name);
    if (!m) expected(t, "a memory declared above");
    return m;
}

typedef struct place {
    sym index, valid;
    kexpr dyn, guard;
} place;

static kexpr parse_expr(parser *t);

static place parse_place(parser *t) {
    place at = {.valid = SYM_TRUE};
    need(t, '[', "'['");
    at.index = parse_sym(t);
    while (accept(t, ';')) {
        word w = parse_word(t);
        need(t, '=', "'='");
        if (!strcmp(w.s, "valid"))
            at.valid = parse_sym(t);
        else if (!strcmp(w.s, "dyn"))
            at.dyn = parse_expr(t);
        else if (!strcmp(w.s, "guard"))
            at.guard = parse_expr(t);
        else
            expected(t, "valid=, dyn= or guard=");
    }
    need(t, ']', "']'");
    return at;
}

static kern_expr blank(kern_expr_kind kind, int dtype) {
    kern_expr e;
    memset(&e, 0, sizeof e);
    e.kind = (uint8_t)kind;
    e.dtype = (uint8_t)dtype;
    return e;
}

static kexpr parse_load(parser *t, const char *name) {
    kmem m = find_mem(t, name);
    place at = parse_place(t);
    kern_expr e = blank(KE_LOAD, kern_m(t->k, m)->dtype);
    e.load.mem = m;
    e.load.index = at.index;
    e.load.valid = at.valid;
    e.load.dyn = at.dyn;
    e.load.guard = at.guard;
    return t->expected ? 0 : kern_intern(t->k, &e);
}

static kexpr parse_number(parser *t, int dtype) {
    char *end = NULL;
    kexpr e = 0;
    if (!peek(t)) return 0;
    if (t->p[0] == '0' && t->p[1] == 'x') {
        e = kern_const_bits(t->k, dtype, strtoull(t->p, &end, 16));
    } else if (dtype_is_float(dtype)) {
        e = kern_const_f(t->k, dtype, strtod(t->p, &end));
    } else {
        bool negative = *t->p == '-';
        e = kern_const_i(t->k, dtype,
                         negative ? strtoll(t->p, &end, 10) : (int64_t)strtoull(t->p, &end, 10));
    }
    if (end == t->p) expected(t, "a number");
    t->p = end;
    return e;
}

static kexpr parse_const(parser *t, int dtype) {
    kexpr e = parse_number(t, dtype);
    need(t, ')', "')'");
    return e;
}

static kexpr parse_lookup(parser *t) {
    word w = parse_word(t);
    char *end;
    unsigned long n = strtoul(w.s + (w.s[0] == 'c'), &end, 10);
    if (w.s[0] != 'c' || !w.s[1] || *end || n >= t->k->tables) expected(t, "a table");
    need(t, ',', "',' and the entry's number");
    kexpr index = parse_expr(t);
    need(t, ')', "')'");
    if (t->expected) return 0;
    kern_expr e = blank(KE_TABLE, t->k->table[n].dtype);
    e.table.number = (uint32_t)n;
    e.table.index = index;
    return kern_intern(t->k, &e);
}

static int find_op(const char *name) {
    for (int op = 1; op < OP_COUNT; op++)
        if (op_rows[op].class_ == CLASS_ELEM && !strcmp(op_rows[op].name, name)) return op;
    return 0;
}

/* As it is written, without folding: what was printed comes back. */
static kexpr parse_op(parser *t, const char *name) {
    int op = find_op(name), dtype = -1;
    if (!op) {
        expected(t, "an operation, a dtype or idx");
        return 0;
    }
    if (op_rows[op].types == TYPES_TO) {
        need(t, ':', "':' and a dtype");
        dtype = parse_dtype(t);
    }
    need(t, '(', "'('");
    kern_expr e = blank(KE_OP, 0);
    e.op = (uint8_t)op;
    e.n = op_rows[op].arity;
    for (int i = 0; i < e.n; i++) {
        if (i) need(t, ',', "',' and the next argument");
        e.arg[i] = parse_expr(t);
    }
    need(t, ')', "')'");
    if (t->expected) return 0;
    e.dtype = (uint8_t)(dtype >= 0 ? dtype : (int)kern_op_dtype(t->k, op, e.arg));
    return kern_intern(t->k, &e);
}

static kexpr find_let(const parser *t, const char *name) { /* 0: it is none */
    char *end;
    unsigned long n = name[0] == 'x' ? strtoul(name + 1, &end, 10) : 0;
    return name[0] == 'x' && name[1] && !*end && n < t->lets ? t->let[n] : 0;
}

static kexpr parse_expr(parser *t) {
    kexpr e = 0;
    if (++t->depth > DEEPEST_PARSED) expected(t, "less nesting");
    word w = parse_word(t);
    kexpr let = find_let(t, w.s);
    int dtype = kern_find_dtype(w.s);
    char next = peek(t);
    if (let) { /* first: what comes next may be the next statement's "(" */
        e = let;
    } else if (next == '[') {
        e = parse_load(t, w.s);
    } else if (next == '(' && dtype >= 0) {
        t->p++;
        e = parse_const(t, dtype);
    } else if (next == '(' && !strcmp(w.s, "idx")) {
        t->p++;
        kern_expr index = blank(KE_INDEX, QN_I64);
        index.index = parse_sym(t);
        need(t, ')', "')'");
        e = t->expected ? 0 : kern_intern(t->k, &index);
    } else if (next == '(' && !strcmp(w.s, "lookup")) {
        t->p++;
        e = parse_lookup(t);
    } else if (next == '(' || next == ':') {
        e = parse_op(t, w.s);
    } else {
        expected(t, "an expression");
    }
    t->depth--;
    return e;
}

static void parse_let_line(parser *t) {
    word w = parse_word(t);
    char name[24];
    snprintf(name, sizeof name, "x%u", t->lets);
    if (strcmp(w.s, name) != 0) expected(t, "let x0, let x1, ... in order");
    need(t, '=', "'='");
    kexpr e = parse_expr(t);
    t->let = arena_grow(&t->k->arena, t->let, &t->let_cap, t->lets + 1, sizeof *t->let);
    t->let[t->lets++] = e;
}

static int parse_monoid(parser *t) {
    size_t n = 0;
    if (!peek(t)) return MONOID_SET;
    while (t->p[n] && t->p[n] != '=' && !isspace((unsigned char)t->p[n])) n++;
    n += t->p[n] == '=';
    for (int m = 0; m < MONOID_COUNT; m++) {
        const char *name = monoid_rows[m].name;
        if (strlen(name) != n || strncmp(name, t->p, n) != 0) continue;
        t->p += n;
        return m;
    }
    expected(t, "'=' or a monoid's update");
    return MONOID_SET;
}

/* first: the name already read, or "" behind '(' */
static void parse_store(parser *t, kstmt parent, const char *first) {
    kern_stmt s = {.kind = KS_STORE, .n = 1};
    if (*first) {
        s.store.mem[0] = find_mem(t, first);
    } else {
        for (s.n = 0; s.n < KERN_STATES; s.n++) {
            if (s.n && !accept(t, ',')) break;
            s.store.mem[s.n] = find_mem(t, parse_word(t).s);
        }
        need(t, ')', "')'");
    }
    place at = parse_place(t);
    s.store.index = at.index;
    s.store.valid = at.valid;
    s.store.dyn = at.dyn;
    s.store.guard = at.guard;
    s.monoid = (uint8_t)parse_monoid(t);
    for (int i = 0; i < s.n; i++) {
        if (i) need(t, ',', "',' and the next component");
        s.store.value[i] = parse_expr(t);
    }
    if (!t->expected) kern_store_n(t->k, parent, &s);
}

static void parse_block(parser *t, kstmt parent);

static void parse_loop(parser *t, kstmt parent, int kind) {
    word name = parse_word(t);
    if (!name.s[0] || kern_name_taken(t->k, name.s)) expected(t, "a loop name of its own");
    need(t, '<', "'<'");
    sym extent = parse_sym(t);
    need(t, '{', "'{'");
    if (t->expected || ++t->depth > DEEPEST_PARSED) {
        expected(t, "less nesting");
        return;
    }
    kstmt loop = kern_loop(t->k, parent, kind, name.s, extent);
    t->var = arena_grow(&t->k->arena, t->var, &t->var_cap, t->vars + 1, sizeof *t->var);
    t->var[t->vars++] = kern_s(t->k, loop)->l.var;
    parse_block(t, loop);
    t->vars--;
    t->depth--;
}

static void parse_def(parser *t, kstmt parent) {
    kmem m = find_mem(t, parse_word(t).s);
    kexpr value = accept(t, '=') ? parse_expr(t) : 0;
    if (!t->expected) kern_def(t->k, parent, m, value);
}

static void parse_fetch(parser *t, kstmt parent) {
    kmem m = find_mem(t, parse_word(t).s);
    place at = parse_place(t);
    if (at.valid != SYM_TRUE || at.dyn || at.guard) expected(t, "only an index");
    if (!t->expected) kern_fetch(t->k, parent, m, at.index);
}

/* Statements up to and with '}'. */
static void parse_block(parser *t, kstmt parent) {
    while (!t->expected && !accept(t, '}')) {
        if (accept(t, '(')) {
            parse_store(t, parent, "");
            t->lets = 0;
            continue;
        }
        word w = parse_word(t);
        if (!w.s[0]) expected(t, "a statement or '}'");
        if (!strcmp(w.s, "let")) {
            parse_let_line(t);
            continue;
        }
        int kind = 0, kinds = COUNT_OF(loop_words);
        while (kind < kinds && strcmp(w.s, loop_words[kind]) != 0) kind++;
        if (kind < kinds)
            parse_loop(t, parent, kind);
        else if (!strcmp(w.s, "barrier"))
            kern_barrier(t->k, parent);
        else if (!strcmp(w.s, "fetch"))
            parse_fetch(t, parent);
        else if (!strcmp(w.s, "def"))
            parse_def(t, parent);
        else
            parse_store(t, parent, w.s);
        t->lets = 0;
    }
}

static void parse_name(parser *t) {
    need(t, '"', "the kernel's name in quotes");
    const char *begin = t->p;
    while (!t->expected && *t->p && *t->p != '"') t->p += t->p[0] == '\\' && t->p[1] ? 2 : 1;
    char *copy = arena_alloc(&t->k->arena, (size_t)(t->p - begin) + 1), *c = copy;
    for (const char *s = begin; s < t->p; s++) {
        if (*s == '\\') s++;
        *c++ = *s;
    }
    *c = 0;
    t->k->name = copy;
    need(t, '"', "'\"'");
}

static void parse_dim(parser *t) {
    word name = parse_word(t);
    if (!name.s[0] || kern_name_taken(t->k, name.s)) expected(t, "a dimension's own name");
    int64_t lo = parse_int(t), hi = parse_int(t);
    if (lo > hi) expected(t, "a lower and an upper bound");
    if (t->expected) return;
    t->var = arena_grow(&t->k->arena, t->var, &t->var_cap, t->vars + 1, sizeof *t->var);
    t->var[t->vars++] = kern_dim_var(t->k, name.s, lo, hi);
}

static void parse_memory(parser *t, int scope) {
    word name = parse_word(t);
    int dtype = parse_dtype(t);
    need(t, '[', "'['");
    sym size = parse_sym(t);
    need(t, ']', "']'");
    int access = 0;
    int64_t ahead = 0;
    for (;;) {
        const char *at = t->p;
        int line = t->line;
        word w = parse_word(t);
        int i = 0;
        while (i < ACCESS_WORDS && strcmp(w.s, access_words[i]) != 0) i++;
        if (i < ACCESS_WORDS) {
            access |= 1 << i;
        } else if (!strcmp(w.s, "prefetch")) {
            ahead = parse_int(t);
        } else {
            t->p = at;
            t->line = line;
            break;
        }
    }
    if (ahead < 0 || ahead > KERN_AHEAD) expected(t, "bytes of which memory is asked for ahead");
    if (t->expected) return;
    kmem m = scope == KERN_ARG ? kern_arg(t->k, dtype, size, access)
                               : kern_tile(t->k, scope, dtype, size);
    kern_m(t->k, m)->ahead = (int)ahead;
    if (kern_find_mem(t->k, name.s) != t->k->mems - 1) expected(t, "memories numbered in order");
}

static void parse_table(parser *t) {
    word name = parse_word(t);
    int dtype = parse_dtype(t), n = 0;
    uint64_t bits[KERN_ENTRIES] = {0};
    need(t, '{', "'{'");
    do {
        kexpr e = parse_number(t, dtype);
        if (n == KERN_ENTRIES) expected(t, "fewer entries");
        if (t->expected) return;
        bits[n++] = kern_e(t->k, e)->bits;
    } while (accept(t, ','));
    need(t, '}', "'}'");
    if (n & (n - 1)) expected(t, "entries in the number of a power of two");
    if (t->expected) return;
    char number[24];
    snprintf(number, sizeof number, "c%u", kern_table_of(t->k, dtype, n, bits));
    if (strcmp(name.s, number) != 0) expected(t, "different tables, numbered in order");
}

static void parse_kernel(parser *t) {
    if (strcmp(parse_word(t).s, "kernel") != 0) expected(t, "'kernel'");
    parse_name(t);
    need(t, '{', "'{'");
    for (;;) {
        peek(t);
        const char *at = t->p;
        word w = parse_word(t);
        int scope = 0;
        while (scope < 3 && strcmp(w.s, scope_words[scope]) != 0) scope++;
        if (scope < 3) {
            parse_memory(t, scope);
        } else if (!strcmp(w.s, "dim")) {
            parse_dim(t);
        } else if (!strcmp(w.s, "table")) {
            parse_table(t);
        } else {
            t->p = at;
            break;
        }
    }
    parse_block(t, t->k->root);
    if (peek(t)) expected(t, "the end of the text");
}

kern *kern_parse(qn_ctx *qn, const char *text) {
    kern *k = kern_open(qn);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        kern_close(k);
        heap_unwind(&qn->heap);
    }
    parser t = {.k = k, .p = text, .line = 1};
    parse_kernel(&t);
    guard_close(&qn->heap, &g);
    if (!t.expected) return k;
    kern_close(k);
    return fail_null(qn, QN_EFORMAT, "kernel text, line %d: expected %s", t.line, t.expected);
}
