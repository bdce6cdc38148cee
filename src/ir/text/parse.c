/* parse.c - a kernel from its text (text.c shows the format).
 *
 * Text may come from anywhere, so the parser checks everything that ir_verify cannot see any more:
 * a name is what was written (none is truncated or changed), a number fits its type, an index fits
 * 64 bits, nesting and length are bounded. What a tree can show by itself, types, scopes, bounds
 * and sizes, is checked by ir_verify and ir_moderate; ir_read runs all of them. Each statement
 * remembers its line for their messages. */
#include "ir/ir.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Text of more bytes than this is no kernel's from elsewhere; dumps have some ten thousand. */
enum { MOST_TEXT = 1 << 18, DEEPEST_PARSED = 64, MOST_DIMS = 1024, MOST_PARAMS = 4096 };

/* ---- reading words --------------------------------------------------------------------------- */

/* The first error is kept in `expected`; from then on the text counts as ended, so every loop below
 * terminates. */
typedef struct parser {
    kernel *k;
    const char *p;
    int line, depth;
    uint32_t most;  /* statements */
    uint32_t begun; /* the line on which the statement began */
    const char *expected;
    sym *var; /* in scope: dimension variables, then open loops */
    uint32_t vars, var_cap;
    expr_id *let;
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
    char s[IR_NAME];
} word;

static word parse_word(parser *t) {
    word w = {""};
    size_t n = 0;
    peek(t);
    if (t->expected || !isalpha((unsigned char)*t->p)) return w;
    while (isalnum((unsigned char)*t->p) || *t->p == '_') {
        if (n + 1 == sizeof w.s) {
            expected(t, "a name of at most 63 characters");
            return (word){""};
        }
        w.s[n++] = *t->p++;
    }
    return w;
}

/* A name that nothing else in the kernel has, and no word of index expressions. */
static word parse_new_name(parser *t, const char *what) {
    word name = parse_word(t);
    if (!name.s[0] || ir_name_reserved(name.s) || ir_name_taken(t->k, name.s)) expected(t, what);
    return name;
}

static int64_t parse_int(parser *t) {
    char *end = NULL;
    if (!peek(t)) return 0;
    errno = 0;
    long long v = strtoll(t->p, &end, 10);
    if (end == t->p || errno) expected(t, "an integer of 64 bits");
    t->p = end;
    return v;
}

/* Has the expression, subexpressions included, more than `left` parts? */
static bool has_more_parts(const sym_store *s, sym a, int *left) {
    const sym *part;
    sym_kind kind = sym_kind_of(s, a);
    if (--*left < 0) return true;
    if (kind == SYM_CONST || kind == SYM_VAR) return false;
    int n = kind == SYM_SUM ? sym_terms(s, a).n : sym_operands(s, a, &part);
    if (kind == SYM_SUM) part = sym_terms(s, a).term;
    for (int i = 0; i < n; i++)
        if (has_more_parts(s, part[i], left)) return true;
    return false;
}

static sym parse_sym(parser *t) {
    sym a = SYM_ZERO;
    peek(t);
    if (t->expected) return a;
    const char *begin = t->p;
    int left = IR_INDEX_PARTS;
    (void)sym_overflowed(t->k->syms);
    bool good = sym_parse(t->k->syms, &t->p, (int)t->vars, t->var, &a);
    for (; begin < t->p; begin++) t->line += *begin == '\n';
    if (!good) expected(t, "an index expression over the variables in scope");
    if (sym_overflowed(t->k->syms)) expected(t, "an index expression within 64 bits");
    if (has_more_parts(t->k->syms, a, &left)) expected(t, "an index expression of fewer parts");
    return t->expected ? SYM_ZERO : a;
}

int ir_find_dtype(const char *name) {
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (!strcmp(qn_dtype_name(d), name)) return d;
    return -1;
}

static int parse_dtype(parser *t) {
    int d = ir_find_dtype(parse_word(t).s);
    if (d < 0) expected(t, "a dtype");
    return d < 0 ? QN_F32 : d;
}

static mem_id find_mem(parser *t, const char *name) {
    mem_id m = ir_find_mem(t->k, name);
    if (!m) expected(t, "a memory declared above");
    return m;
}

typedef struct place {
    sym index, valid;
    expr_id dyn, guard;
} place;

static expr_id parse_expr(parser *t);

static place parse_place(parser *t) {
    place at = {.valid = SYM_TRUE};
    need(t, '[', "'['");
    at.index = parse_sym(t);
    while (accept(t, ';')) {
        word w = parse_word(t);
        need(t, '=', "'='");
        if (!strcmp(w.s, "valid") && at.valid == SYM_TRUE)
            at.valid = parse_sym(t);
        else if (!strcmp(w.s, "dyn") && !at.dyn)
            at.dyn = parse_expr(t);
        else if (!strcmp(w.s, "guard") && !at.guard)
            at.guard = parse_expr(t);
        else
            expected(t, "valid=, dyn= or guard=, each once");
    }
    need(t, ']', "']'");
    return at;
}

static ir_expr blank(expr_kind kind, int dtype) {
    ir_expr e;
    memset(&e, 0, sizeof e);
    e.kind = (uint8_t)kind;
    e.dtype = (uint8_t)dtype;
    return e;
}

static expr_id parse_load(parser *t, const char *name) {
    mem_id m = find_mem(t, name);
    place at = parse_place(t);
    ir_expr e = blank(EXPR_LOAD, ir_m(t->k, m)->dtype);
    e.load.mem = m;
    e.load.index = at.index;
    e.load.valid = at.valid;
    e.load.dyn = at.dyn;
    e.load.guard = at.guard;
    return t->expected ? 0 : ir_intern(t->k, &e);
}

/* The number's bits in that dtype; false for what the dtype cannot hold. */
static uint64_t parse_bits(parser *t, int dtype, char **end) {
    size_t size = qn_dtype_size((qn_dtype)dtype);
    uint64_t bits = strtoull(t->p, end, 16);
    if (errno || (size < 8 && bits >> (8 * size)) || (dtype == QN_BOOL && bits > 1))
        expected(t, "bits of that dtype");
    return bits;
}

static expr_id parse_whole(parser *t, int dtype, char **end) {
    bool negative = *t->p == '-';
    int64_t v =
        negative || dtype != QN_U64 ? strtoll(t->p, end, 10) : (int64_t)strtoull(t->p, end, 10);
    expr_id e = ir_const_i(t->k, (qn_dtype)dtype, v);
    bool fits = scalar_from_bits((qn_dtype)dtype, ir_e(t->k, e)->bits).i == v;
    if (errno || !fits || (negative && dtype == QN_U64 && v)) expected(t, "a number of that dtype");
    return e;
}

static expr_id parse_number(parser *t, int dtype) {
    char *end = NULL, c = peek(t);
    expr_id e = 0;
    if (!c) return 0;
    bool digits = isdigit((unsigned char)c) || c == '-';
    errno = 0;
    if (c == '0' && t->p[1] == 'x') {
        e = ir_const_bits(t->k, (qn_dtype)dtype, parse_bits(t, dtype, &end));
    } else if (dtype_is_float(dtype)) {
        digits |= c == 'i' || c == 'n'; /* inf, nan */
        e = ir_const_f(t->k, (qn_dtype)dtype, strtod(t->p, &end));
    } else {
        e = parse_whole(t, dtype, &end);
    }
    if (!digits || end == t->p) expected(t, "a number");
    t->p = end;
    return e;
}

static expr_id parse_const(parser *t, int dtype) {
    expr_id e = parse_number(t, dtype);
    need(t, ')', "')'");
    return e;
}

static expr_id parse_lookup(parser *t) {
    word w = parse_word(t);
    char *end;
    unsigned long n = strtoul(w.s + (w.s[0] == 'c'), &end, 10);
    if (w.s[0] != 'c' || !w.s[1] || *end || n >= t->k->tables) expected(t, "a table");
    need(t, ',', "',' and the entry's number");
    expr_id index = parse_expr(t);
    need(t, ')', "')'");
    if (t->expected) return 0;
    ir_expr e = blank(EXPR_TABLE, t->k->table[n].dtype);
    e.table.number = (uint32_t)n;
    e.table.index = index;
    return ir_intern(t->k, &e);
}

static int find_op(const char *name) {
    for (int op = 1; op < OP_COUNT; op++)
        if (op_rows[op].class_ == CLASS_ELEM && !strcmp(op_rows[op].name, name)) return op;
    return 0;
}

/* As it is written, without folding: what was printed comes back. */
static expr_id parse_op(parser *t, const char *name) {
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
    ir_expr e = blank(EXPR_OP, 0);
    e.op = (uint8_t)op;
    e.n = op_rows[op].arity;
    for (int i = 0; i < e.n; i++) {
        if (i) need(t, ',', "',' and the next argument");
        e.arg[i] = parse_expr(t);
    }
    need(t, ')', "')'");
    if (t->expected) return 0;
    e.dtype = (uint8_t)(dtype >= 0 ? dtype : (int)ir_op_dtype(t->k, op, e.arg));
    return ir_intern(t->k, &e);
}

static expr_id find_let(const parser *t, const char *name) { /* 0: it is none */
    char *end;
    unsigned long n = name[0] == 'x' ? strtoul(name + 1, &end, 10) : 0;
    return name[0] == 'x' && name[1] && !*end && n < t->lets ? t->let[n] : 0;
}

static expr_id find_param(const parser *t, const char *name) { /* 0: it is none */
    char *end;
    unsigned long n = name[0] == 'p' ? strtoul(name + 1, &end, 10) : 0;
    if (name[0] != 'p' || !isdigit((unsigned char)name[1]) || *end || n >= t->k->params) return 0;
    ir_expr e = blank(EXPR_PARAM, (qn_dtype)t->k->param[n]);
    e.param = (uint32_t)n;
    return ir_intern(t->k, &e);
}

static expr_id parse_expr(parser *t) {
    expr_id e = 0;
    if (++t->depth > DEEPEST_PARSED) expected(t, "less nesting");
    word w = parse_word(t);
    int line = t->line;
    expr_id let = find_let(t, w.s), param = let ? 0 : find_param(t, w.s);
    int dtype = ir_find_dtype(w.s);
    char next = peek(t);
    if (let) { /* first: what comes next may be the next statement's "(" */
        e = let;
    } else if (param) {
        e = param;
    } else if (next == '[') {
        e = parse_load(t, w.s);
    } else if (next == '(' && dtype >= 0) {
        t->p++;
        e = parse_const(t, dtype);
    } else if (next == '(' && !strcmp(w.s, "idx")) {
        t->p++;
        ir_expr index = blank(EXPR_INDEX, QN_I64);
        index.index = parse_sym(t);
        need(t, ')', "')'");
        e = t->expected ? 0 : ir_intern(t->k, &index);
    } else if (next == '(' && !strcmp(w.s, "lookup")) {
        t->p++;
        e = parse_lookup(t);
    } else if (next == '(' || next == ':') {
        e = parse_op(t, w.s);
    } else {
        if (!t->expected) t->line = line;
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
    expr_id e = parse_expr(t);
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

/* A statement that was read whole. */
static void add(parser *t, stmt_id s) {
    ir_s(t->k, s)->line = t->begun;
    if (t->k->stmts > t->most) expected(t, "fewer statements");
}

/* first: the name already read, or "" behind '(' */
static void parse_store(parser *t, stmt_id parent, const char *first) {
    ir_stmt s = {.kind = STMT_STORE, .n = 1};
    if (*first) {
        s.store.mem[0] = find_mem(t, first);
    } else {
        for (s.n = 0; s.n < IR_STATES; s.n++) {
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
    if (!t->expected) add(t, ir_store_n(t->k, parent, &s));
}

static void parse_block(parser *t, stmt_id parent);

static void parse_loop(parser *t, stmt_id parent, int kind) {
    word name = parse_new_name(t, "a loop name of its own");
    need(t, '<', "'<'");
    sym extent = parse_sym(t);
    need(t, '{', "'{'");
    if (t->expected || ++t->depth > DEEPEST_PARSED) {
        expected(t, "less nesting");
        return;
    }
    stmt_id loop = ir_loop(t->k, parent, kind, name.s, extent);
    add(t, loop);
    t->var = arena_grow(&t->k->arena, t->var, &t->var_cap, t->vars + 1, sizeof *t->var);
    t->var[t->vars++] = ir_s(t->k, loop)->l.var;
    parse_block(t, loop);
    t->vars--;
    t->depth--;
}

static void parse_def(parser *t, stmt_id parent) {
    mem_id m = find_mem(t, parse_word(t).s);
    expr_id value = accept(t, '=') ? parse_expr(t) : 0;
    if (!t->expected) add(t, ir_def(t->k, parent, m, value));
}

static void parse_fetch(parser *t, stmt_id parent) {
    mem_id m = find_mem(t, parse_word(t).s);
    place at = parse_place(t);
    if (at.valid != SYM_TRUE || at.dyn || at.guard) expected(t, "only an index");
    if (!t->expected) add(t, ir_prefetch(t->k, parent, m, at.index));
}

/* Statements up to and with '}'. */
static void parse_block(parser *t, stmt_id parent) {
    while (!t->expected && !accept(t, '}')) {
        if (!t->lets) t->begun = (uint32_t)t->line;
        if (accept(t, '(')) {
            parse_store(t, parent, "");
            t->lets = 0;
            continue;
        }
        word w = parse_word(t);
        if (!w.s[0]) expected(t, "a statement or '}'");
        if (!strcmp(w.s, "let")) {
            parse_let_line(t);
            continue; /* still the same statement */
        }
        int kind = 0, kinds = COUNT_OF(loop_words);
        while (kind < kinds && strcmp(w.s, loop_words[kind]) != 0) kind++;
        if (kind < kinds)
            parse_loop(t, parent, kind);
        else if (!strcmp(w.s, "barrier"))
            add(t, ir_barrier(t->k, parent));
        else if (!strcmp(w.s, "prefetch"))
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
    while (!t->expected && *t->p && *t->p != '"') {
        t->p += t->p[0] == '\\' && t->p[1];
        if (iscntrl((unsigned char)*t->p)) expected(t, "a name without control characters");
        if (!t->expected) t->p++;
    }
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
    word name = parse_new_name(t, "a dimension's own name");
    int64_t lo = parse_int(t), hi = parse_int(t);
    if (lo < 0 || lo > hi) expected(t, "a lower bound from 0 up, and an upper bound");
    if (t->k->dim_vars == MOST_DIMS) expected(t, "at most 1024 dimensions");
    if (t->expected) return;
    t->var = arena_grow(&t->k->arena, t->var, &t->var_cap, t->vars + 1, sizeof *t->var);
    t->var[t->vars++] = ir_dim_var(t->k, name.s, lo, hi);
}

/* The numbers' meaning; some do not go together. */
static ir_grouping grouping_of(parser *t, const int64_t *number, bool halves) {
    int64_t lanes = number[2], blocks = number[4], online = number[5];
    int64_t spread = number[0] * number[1] * lanes;
    bool apart = number[3] || blocks || online;
    if ((spread > 1 && apart) || (number[3] != 0) + (blocks != 0) + (online != 0) > 1)
        expected(t, "lanes, words or blocks, and not two of them");
    if (halves && spread != lanes) expected(t, "lanes alone to be added up in halves");
    return (ir_grouping){.parts = (uint16_t)number[0],
                         .chains = (uint16_t)number[1],
                         .lanes = (uint16_t)lanes,
                         .words = (uint16_t)number[3],
                         .halves = halves,
                         .online = online != 0,
                         .block = (uint32_t)(blocks + online)};
}

/* Behind the word `sum`: in order, or its numbers that are not 1, in the order of their words. */
static ir_grouping parse_grouping(parser *t) {
    int64_t number[GROUPING_WORDS] = {1, 1, 1};
    int found = 0;
    const char *at = (peek(t), t->p);
    int line = t->line;
    word w = parse_word(t);
    if (!strcmp(w.s, "in")) {
        if (strcmp(parse_word(t).s, "order") != 0) expected(t, "'order'");
        return ir_grouped(1, 1, 1);
    }
    for (int i = 0; i < GROUPING_WORDS; i++) {
        if (strcmp(w.s, grouping_words[i]) != 0) continue;
        number[i] = parse_int(t);
        if (number[i] < 2 || number[i] > IR_GROUPED) expected(t, "a number of 2 up to 1024");
        found++;
        at = (peek(t), t->p);
        line = t->line;
        w = parse_word(t);
    }
    if (!found) expected(t, "'in order', or parts, chains, lanes, words, blocks or online");
    bool halves = number[2] > 1 && !strcmp(w.s, "halves");
    if (!halves) {
        t->p = at;
        t->line = line;
    }
    return grouping_of(t, number, halves);
}

static void parse_memory(parser *t, int scope) {
    word name = parse_word(t);
    int dtype = parse_dtype(t);
    need(t, '[', "'['");
    sym size = parse_sym(t);
    need(t, ']', "']'");
    int access = 0;
    int64_t ahead = 0;
    ir_grouping sum = {0};
    for (;;) {
        const char *at = t->p;
        int line = t->line;
        word w = parse_word(t);
        int i = 0;
        while (i < ARG_ACCESS_WORDS && strcmp(w.s, arg_access_words[i]) != 0) i++;
        if (i < ARG_ACCESS_WORDS) {
            if (scope != MEM_ARG || access >> i & 1)
                expected(t, "what is done to an argument, once");
            access |= 1 << i;
        } else if (!strcmp(w.s, "prefetch_distance")) {
            ahead = parse_int(t);
        } else if (scope != MEM_ARG && !sum.lanes && !strcmp(w.s, "sum")) {
            sum = parse_grouping(t);
        } else {
            t->p = at;
            t->line = line;
            break;
        }
    }
    if (ahead < 0 || ahead > IR_PREFETCH_BYTES)
        expected(t, "bytes of which memory is asked for ahead");
    if (t->expected) return;
    mem_id m =
        scope == MEM_ARG ? ir_arg(t->k, dtype, size, access) : ir_tile(t->k, scope, dtype, size);
    ir_m(t->k, m)->ahead = (int)ahead;
    ir_m(t->k, m)->sum = sum;
    char number[24];
    snprintf(number, sizeof number, scope == MEM_ARG ? "a%d" : "t%d",
             scope == MEM_ARG ? ir_m(t->k, m)->arg : ir_tile_number(t->k, m));
    if (strcmp(name.s, number) != 0) expected(t, "memories numbered in order");
}

static void parse_table(parser *t) {
    word name = parse_word(t);
    int dtype = parse_dtype(t), n = 0;
    uint64_t bits[IR_ENTRIES] = {0};
    need(t, '{', "'{'");
    do {
        expr_id e = parse_number(t, dtype);
        if (n == IR_ENTRIES) expected(t, "fewer entries");
        if (t->expected) return;
        bits[n++] = ir_e(t->k, e)->bits;
    } while (accept(t, ','));
    need(t, '}', "'}'");
    if (n & (n - 1)) expected(t, "entries in the number of a power of two");
    if (t->expected) return;
    char number[24];
    snprintf(number, sizeof number, "c%u", ir_table_of(t->k, dtype, n, bits));
    if (strcmp(name.s, number) != 0) expected(t, "different tables, numbered in order");
}

static void parse_param(parser *t) {
    char number[24];
    word name = parse_word(t);
    int dtype = parse_dtype(t);
    snprintf(number, sizeof number, "p%u", t->k->params);
    if (strcmp(name.s, number) != 0) expected(t, "parameters numbered in order");
    if (dtype == QN_BOOL) expected(t, "a dtype of numbers");
    if (t->k->params == MOST_PARAMS) expected(t, "fewer parameters");
    if (!t->expected) ir_param(t->k, (qn_dtype)dtype);
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
        while (scope < 3 && strcmp(w.s, mem_scope_words[scope]) != 0) scope++;
        if (scope < 3) {
            parse_memory(t, scope);
        } else if (!strcmp(w.s, "dim")) {
            parse_dim(t);
        } else if (!strcmp(w.s, "table")) {
            parse_table(t);
        } else if (!strcmp(w.s, "param")) {
            parse_param(t);
        } else {
            t->p = at;
            break;
        }
    }
    parse_block(t, t->k->root);
    ir_number_terms(t->k);
    if (peek(t)) expected(t, "the end of the text");
}

static kernel *parse(qn_ctx *qn, const char *text, int line, uint32_t most) {
    kernel *k = ir_open(qn);
    cleanup c;
    cleanup_push(&qn->heap, &c, ir_cleanup, k);
    parser t = {.k = k, .p = text, .line = line, .most = most};
    parse_kernel(&t);
    cleanup_drop(&qn->heap, &c);
    if (!t.expected) return k;
    ir_close(k);
    return fail_null(qn, QN_EFORMAT, "kernel text, line %d: expected %s", t.line, t.expected);
}

kernel *ir_parse(qn_ctx *qn, const char *text) {
    return parse(qn, text, 1, UINT32_MAX);
}

/* ---- text from elsewhere --------------------------------------------------------------------- */

static int line_of(const char *text, const char *at, int line) {
    for (; text < at; text++) line += *text == '\n';
    return line;
}

/* Sound and moderate? If not that is the context's error. */
static bool verified(kernel *k) {
    str why;
    str_open_in(&why, &k->arena);
    ir_verdict verdict = ir_verify(k, &why);
    if (verdict == VERDICT_SOUND && ir_stored_first(k, &why)) return true;
    fail(k->ctx, QN_EFORMAT, "kernel text, %s%s", why.s ? why.s : "no reason",
         verdict <= VERDICT_UNPROVEN ? " (not to be proved)" : "");
    return false;
}

typedef struct reading {
    const char *text;
    size_t size;
    int line;
    str copy;
    kernel *k;
    bool sound;
} reading;

static void read_work(void *arg) {
    reading *r = arg;
    str_addn(&r->copy, r->text, r->size);
    r->k = parse(r->copy.h->ctx, r->copy.s ? r->copy.s : "", r->line, IR_STATEMENTS);
    r->sound = r->k && verified(r->k);
}

kernel *ir_read(qn_ctx *qn, const char *text, size_t size, int line) {
    const char *nul = memchr(text, 0, size);
    if (size > MOST_TEXT)
        return fail_null(qn, QN_EFORMAT, "kernel text, line %d: %zu bytes; at most %d", line, size,
                         MOST_TEXT);
    if (nul)
        return fail_null(qn, QN_EFORMAT, "kernel text, line %d: a NUL byte",
                         line_of(text, nul, line));
    reading r = {.text = text, .size = size, .line = line};
    str_open(&r.copy, &qn->heap);
    guarded(qn, read_work, &r);
    str_free(&r.copy);
    if (r.sound) return r.k;
    ir_close(r.k);
    return NULL;
}
