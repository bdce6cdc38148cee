/* text.c - a kernel as text; parse.c reads it back. A dump is a bug report, a test's input and the
 * way to see what a schedule did, so it parses back to a kernel that prints the same.
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
 * numbered in the order of their lines, arguments and tiles separately. Behind a tile may stand how
 * the sum in it is to be grouped, `sum in order` or `sum parts 4 chains 2 lanes 16` with those of
 * the three that are not 1. An access is mem[index], or
 * mem[index; valid=..; dyn=..; guard=..] with those of the three it has. A store of two components
 * names both memories: (t0, t1)[0] argmax= x, y. Constants are dtype(number), a float that no
 * number says dtype(0xbits); idx(..) is an index as a value; cast and bitcast carry their dtype:
 * cast:f32(x). Tables stand behind the memories, table c0 f32 {0.5, 1, 2, 4}, and lookup(c0, x) is
 * an entry of one. A scalar that a launch gives is declared there, param p0 f32, and named.
 *
 * Expressions are DAGs. A subexpression that a statement uses more than once, or that would nest
 * too deeply, gets a line of its own before it: let x0 = mul(..). The names are the statement's
 * own. */
#include "ir/ir.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEEPEST_PRINTED = 8, INDENT = 2 };

const char *const loop_words[LOOP_KINDS] = {"for", "par", "vec", "unroll", "thread", "word"};
const char *const mem_scope_words[MEM_SCOPES] = {"arg", "local", "reg"};
const char *const arg_access_words[ARG_ACCESS_WORDS] = {"read",  "write", "nontemporal", "inplace",
                                                        "piece", "row",   "rests"};
const char *const grouping_words[GROUPING_WORDS] = {"parts", "chains", "lanes",
                                                    "words", "blocks", "online"};

/* ---- printing ------------------------------------------------------------------------------- */

/* One statement's expressions. order: sources before users, as met from the statement's slots. */
typedef struct printer {
    kernel *k; /* not changed */
    str *out;
    int indent;
    expr_id *order, *stack;
    uint32_t *uses, *let; /* of every expression; let: 1 + number, 0 for what is printed in place */
    uint8_t *height, *state;
    uint32_t count, lets;
} printer;

static void print_sym(printer *p, sym a) {
    sym_print(p->k->syms, a, p->out);
}

static void print_mem(printer *p, mem_id m) {
    const ir_memory *mem = ir_m(p->k, m);
    if (mem->scope == MEM_ARG)
        str_addf(p->out, "a%d", mem->arg);
    else
        str_addf(p->out, "t%d", ir_tile_number(p->k, m));
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

static void print_expr(printer *p, expr_id e);

static void print_place(printer *p, sym index, sym valid, expr_id dyn, expr_id when) {
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

static void print_node(printer *p, expr_id id) {
    const ir_expr *e = ir_e(p->k, id);
    if (e->kind == EXPR_CONST) {
        str_addf(p->out, "%s(", qn_dtype_name(e->dtype));
        print_number(p->out, e->dtype, e->bits);
        str_add(p->out, ")");
    } else if (e->kind == EXPR_PARAM) {
        str_addf(p->out, "p%u", e->param);
    } else if (e->kind == EXPR_TABLE) {
        str_addf(p->out, "lookup(c%u, ", e->table.number);
        print_expr(p, e->table.index);
        str_add(p->out, ")");
    } else if (e->kind == EXPR_INDEX) {
        str_add(p->out, "idx(");
        print_sym(p, e->index);
        str_add(p->out, ")");
    } else if (e->kind == EXPR_LOAD) {
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

static void print_expr(printer *p, expr_id e) {
    if (p->let[e])
        str_addf(p->out, "x%u", p->let[e] - 1);
    else
        print_node(p, e);
}

/* Append e and its subexpressions to the order, sources first, without recursion: an expression is
 * on the stack once to be entered (state 0) and then once more to be left (state 1). */
static void order_exprs(printer *p, expr_id e) {
    uint32_t depth = 0;
    if (p->state[e] != 2) p->stack[depth++] = e;
    while (depth) {
        expr_id top = p->stack[depth - 1], *slot[3];
        int n = ir_expr_args(ir_e(p->k, top), slot);
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

/* Decide, sources first, which subexpressions get a line; print those lines. */
static void print_lets(printer *p, stmt_id s) {
    expr_id *slot[4], *arg[3];
    p->count = p->lets = 0;
    int n = ir_stmt_exprs(ir_s(p->k, s), slot);
    for (int i = 0; i < n; i++) {
        order_exprs(p, *slot[i]);
        p->uses[*slot[i]]++;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        int args = ir_expr_args(ir_e(p->k, p->order[i]), arg);
        for (int a = 0; a < args; a++) p->uses[*arg[a]]++;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        expr_id e = p->order[i];
        int args = ir_expr_args(ir_e(p->k, e), arg), height = args > 0;
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
        expr_id e = p->order[i];
        p->uses[e] = p->let[e] = p->height[e] = p->state[e] = 0;
    }
}

static void print_store(printer *p, const ir_stmt *s) {
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

static void print_stmt(printer *p, stmt_id id) {
    const ir_stmt *s = ir_s(p->k, id);
    print_lets(p, id);
    str_addf(p->out, "%*s", p->indent, "");
    if (s->kind == STMT_LOOP) {
        str_addf(p->out, "%s %s < ", loop_words[s->loop], sym_name(p->k->syms, s->l.var));
        print_sym(p, s->l.extent);
        str_add(p->out, " {\n");
        p->indent += INDENT;
        for (stmt_id c = s->first; c; c = ir_s(p->k, c)->next) print_stmt(p, c);
        p->indent -= INDENT;
        str_addf(p->out, "%*s}\n", p->indent, "");
    } else if (s->kind == STMT_DEF) {
        str_add(p->out, "def ");
        print_mem(p, s->def.mem);
        if (s->def.value) {
            str_add(p->out, " = ");
            print_expr(p, s->def.value);
        }
        str_add(p->out, "\n");
    } else if (s->kind == STMT_PREFETCH) {
        str_add(p->out, "prefetch ");
        print_mem(p, s->prefetch.mem);
        print_place(p, s->prefetch.index, SYM_TRUE, 0, 0);
        str_add(p->out, "\n");
    } else if (s->kind == STMT_BARRIER) {
        str_add(p->out, "barrier\n");
    } else {
        print_store(p, s);
    }
    if (s->kind != STMT_LOOP) forget_lets(p);
}

static void print_grouping(const ir_grouping *g, str *out) {
    const int blocks = (int)g->block;
    const int number[GROUPING_WORDS] = {
        g->parts, g->chains, g->lanes, g->words, g->online ? 0 : blocks, g->online ? blocks : 0};
    bool order = true;
    if (!g->lanes) return;
    str_add(out, " sum");
    for (int i = 0; i < GROUPING_WORDS; i++) {
        if (number[i] < 2) continue;
        str_addf(out, " %s %d", grouping_words[i], number[i]);
        order = false;
    }
    str_add(out, order ? " in order" : g->halves ? " halves" : "");
}

static void print_head(printer *p) {
    kernel *k = p->k;
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
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *mem = ir_m(k, m);
        str_addf(p->out, "  %s ", mem_scope_words[mem->scope]);
        print_mem(p, m);
        str_addf(p->out, " %s[", qn_dtype_name(mem->dtype));
        print_sym(p, mem->size);
        str_add(p->out, "]");
        for (int i = 0; i < ARG_ACCESS_WORDS; i++)
            if (mem->access >> i & 1) str_addf(p->out, " %s", arg_access_words[i]);
        if (mem->ahead) str_addf(p->out, " prefetch_distance %d", mem->ahead);
        print_grouping(&mem->sum, p->out);
        str_add(p->out, "\n");
    }
    for (uint32_t t = 0; t < k->tables; t++) {
        const ir_table *table = &k->table[t];
        str_addf(p->out, "  table c%u %s {", t, qn_dtype_name(table->dtype));
        for (int i = 0; i < table->n; i++) {
            if (i) str_add(p->out, ", ");
            print_number(p->out, table->dtype, table->bits[i]);
        }
        str_add(p->out, "}\n");
    }
    for (uint32_t i = 0; i < k->params; i++)
        str_addf(p->out, "  param p%u %s\n", i, qn_dtype_name((qn_dtype)k->param[i]));
}

void ir_print(const kernel *k, str *out) {
    arena scratch;
    heap *h = &k->ctx->heap;
    arena_open(&scratch, h);
    cleanup c;
    cleanup_push(h, &c, arena_cleanup, &scratch);
    printer p = {.k = (kernel *)(uintptr_t)k, .out = out, .indent = INDENT};
    p.order = arena_alloc(&scratch, k->exprs * sizeof *p.order);
    p.stack = arena_alloc(&scratch, 4 * k->exprs * sizeof *p.stack);
    p.uses = arena_zeroed(&scratch, k->exprs * sizeof *p.uses);
    p.let = arena_zeroed(&scratch, k->exprs * sizeof *p.let);
    p.height = arena_zeroed(&scratch, k->exprs);
    p.state = arena_zeroed(&scratch, k->exprs);
    print_head(&p);
    for (stmt_id s = ir_s(k, k->root)->first; s; s = ir_s(k, s)->next) print_stmt(&p, s);
    str_add(out, "}\n");
    cleanup_run(h, &c);
}
