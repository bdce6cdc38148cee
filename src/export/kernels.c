/* kernels.c - each kernel as a function of the exported file.
 *
 *     static void kernel_3(float *restrict const a0, const float *restrict const a1,
 *                          const int64_t *vars, void *scratch) { ... }
 *
 * The statements are those that emit/clike writes for the system's compiler; what is around them
 * is less, since a function here runs all of a kernel at once and knows the types of its arguments.
 * Vars are the numbers that a launch gives: dimension variables, then parameters.
 *
 * Where an output lies over an input the input is no argument but another name of the output's
 * pointer, so that `restrict` says nothing that is not so. */
#include "export/export.h"

#include <ctype.h>

static const char quotient_text[] =
    "/* Which lanes are on, a bit each: the first n of them; all or none. */\n"
    "static inline uint64_t lanes_below(int64_t n) {\n"
    "    return n <= 0 ? 0 : n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;\n"
    "}\n"
    "static inline uint64_t lanes_if(int on) { return on ? ~(uint64_t)0 : 0; }\n"
    "static inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }\n"
    "static inline int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }\n"
    "static inline int64_t floor_quotient(int64_t x, int64_t y) {\n"
    "    int64_t q = x / y;\n"
    "    return q - (x < q * y);\n"
    "}\n";

/* To the end of the file: gcc would carry what a trip loads to the next trips, in registers that a
 * tile needs, and spill those. */
static const char options[] =
    "#ifndef __clang__\n#pragma GCC optimize(\"no-predictive-commoning\")\n#endif\n";

static const clike_dialect dialect = {
    .header = "", .global = "", .shared = "", .table = "static const ", .unroll = ""};

typedef struct writer {
    clike c;
    export *e;
    const export_program *p;
    const int *over; /* by argument, as in export_set */
    bool fast;       /* vectors are vectors */
    export_types types;
    int *named;    /* of the kernel at hand: see export_named */
    arena scratch; /* the kernel's */
} writer;

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

bool export_uses(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *at = text; at && (at = strstr(at, name)) != NULL; at++)
        if ((at == text || !is_name(at[-1])) && !is_name(at[n])) return true;
    return false;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

static void write_arguments(writer *w, str *out) {
    const kernel *k = w->c.k;
    bool any = false;
    for (int a = 0; a < k->args; a++)
        for (mem_id m = 1; m < k->mems; m++) {
            const ir_memory *mem = ir_m(k, m);
            if (mem->scope != MEM_ARG || mem->arg != a || w->over[a] || !w->p->uses[a]) continue;
            str_addf(out, "%s%s%s *restrict const a%d", any ? ", " : "",
                     mem->access & ACCESS_WRITE ? "" : "const ", clike_memory_type(mem->dtype), a);
            any = true;
        }
    if (k->dim_vars + (int)k->params) str_addf(out, "%sconst int64_t *vars", any ? ", " : "");
    if (w->p->scratch) str_add(out, ", void *scratch");
}

/* Outputs by their other names, and dimension variables. */
static void write_names(writer *w) {
    const kernel *k = w->c.k;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *mem = ir_m(k, m);
        if (mem->scope == MEM_ARG && w->p->uses[mem->arg] && w->over[mem->arg])
            str_addf(w->c.out, "    const %s *const a%d = a%d;\n", clike_memory_type(mem->dtype),
                     mem->arg, w->over[mem->arg] - 1);
    }
    for (int i = 0; i < k->dim_vars; i++)
        str_addf(w->c.out, "    const int64_t %s_ = vars[%d];\n", sym_name(k->syms, k->dim_var[i]),
                 i);
    clike_declare_params(&w->c);
}

/* Names that the statements have no use for. */
static void write_unused(writer *w, const char *text) {
    const kernel *k = w->c.k;
    arena *a = &w->e->arena;
    for (int i = 0; i < k->dim_vars; i++) {
        const char *name = arena_printf(a, "%s_", sym_name(k->syms, k->dim_var[i]));
        if (!export_uses(text, name)) str_addf(w->c.out, "    (void)%s;\n", name);
    }
    for (uint32_t i = 0; i < k->params; i++) {
        const char *name = arena_printf(a, "p%u", i);
        if (!export_uses(text, name)) str_addf(w->c.out, "    (void)%s;\n", name);
    }
    if (w->p->scratch && !export_uses(text, "scratch")) str_add(w->c.out, "    (void)scratch;\n");
}

/* ---- statements ------------------------------------------------------------------------------ */

/* One statement of a block, which for that time holds nothing else. */
static void write_alone(clike *c, stmt_id s) {
    ir_stmt *x = ir_s(c->k, s), *block = ir_s(c->k, x->parent);
    const stmt_id first = block->first, next = x->next;
    block->first = s;
    x->next = 0;
    clike_block(c, x->parent);
    ir_s(c->k, x->parent)->first = first;
    ir_s(c->k, s)->next = next;
}

static void write_vectors(writer *w, stmt_id block);

static void write_trips(writer *w, stmt_id loop) {
    clike *c = &w->c;
    const ir_stmt t = *ir_s(c->k, loop);
    const char *name = sym_name(c->syms, t.l.var);
    bool rolled = export_holds_tile(c->k, &w->scratch, w->named, loop);
    w->types.rolled |= rolled;
    clike_line(c);
    if (rolled) str_add(c->out, "ROLLED ");
    str_addf(c->out, "for (int64_t %s_ = 0; %s_ < ", name, name);
    clike_sym(c, t.l.extent);
    str_addf(c->out, "; %s_++) {\n", name);
    c->indent++;
    write_vectors(w, loop);
    clike_close_block(c);
}

/* As the device's code does: of arguments to the second cache, of what is read on to the first. No
 * pointer is computed: the place may be behind the memory's end. */
static void write_prefetch(writer *w, const ir_stmt *t) {
    clike *c = &w->c;
    const ir_memory *m = ir_m(c->k, t->prefetch.mem);
    bool argument = m->scope == MEM_ARG;
    clike_line(c);
    str_addf(c->out, "__builtin_prefetch((const void *)((uintptr_t)%c%d + %d * (uintptr_t)(",
             argument ? 'a' : 't', argument ? m->arg : ir_tile_number(c->k, t->prefetch.mem),
             (int)qn_dtype_size((qn_dtype)m->dtype));
    clike_sym(c, t->prefetch.index);
    str_addf(c->out, ")), %d, %d);\n", argument && m->access & ACCESS_WRITE,
             argument && !m->ahead ? 2 : 3);
}

static void write_vectors(writer *w, stmt_id block) {
    clike *c = &w->c;
    for (stmt_id s = ir_s(c->k, block)->first; s; s = ir_s(c->k, s)->next) {
        const ir_stmt t = *ir_s(c->k, s);
        if (t.kind == STMT_LOOP && export_is_vector(c->k, s))
            export_vector(c, &w->types, &w->scratch, w->named, s);
        else if (t.kind == STMT_LOOP && t.loop != LOOP_VEC)
            write_trips(w, s);
        else if (t.kind == STMT_PREFETCH)
            write_prefetch(w, &t);
        else if (t.kind == STMT_DEF && w->named[t.def.mem])
            export_registers(c, &w->types, &w->scratch, w->named, s);
        else
            write_alone(c, s);
    }
}

static void write_function(writer *w, uint32_t number) {
    clike *c = &w->c;
    const export_function *f = &w->e->function[number];
    w->p = &w->e->program[f->program];
    w->over = f->over;
    c->k = w->fast ? w->p->vectors : w->p->k;
    c->number = (int)number;
    c->syms = c->k->syms;
    c->cap = 0;
    c->indent = 1;
    arena_open(&w->scratch, &w->e->qn->heap);
    cleanup undo;
    cleanup_push(&w->e->qn->heap, &undo, arena_cleanup, &w->scratch);
    emit_launch_of(c->k, &c->arena, &c->launch);
    str_add(c->out, "\n/* ");
    for (const char *p = c->k->name; *p; p++)
        if (*p != '*' && *p != '/') str_addn(c->out, p, 1);
    str_addf(c->out, " */\nstatic void kernel_%u(", number);
    write_arguments(w, c->out);
    str_add(c->out, ") {\n");
    write_names(w);
    size_t begin = c->out->len;
    if (w->fast) w->named = export_named(c->k, &w->scratch);
    if (w->fast)
        write_vectors(w, c->k->root);
    else
        clike_block(c, c->k->root);
    const char *text = arena_printf(&w->scratch, "%s", c->out->s ? c->out->s + begin : "");
    write_unused(w, text);
    str_add(c->out, "}\n");
    c->tables += c->k->tables;
    cleanup_run(&w->e->qn->heap, &undo);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void close_writer(void *of) {
    writer *w = of;
    heap *h = w->c.body.h;
    str_free(&w->c.helpers);
    str_free(&w->c.body);
    arena_free(&w->c.arena);
    heap_free(h, w, sizeof *w);
}

/* All functions, in GNU C or in C99. */
static void write_all(export *e, bool fast, str *out) {
    heap *h = &e->qn->heap;
    writer *w = heap_zeroed(h, sizeof *w);
    cleanup undo;
    w->e = e;
    w->fast = fast;
    w->c.dialect = &dialect;
    arena_open(&w->c.arena, h);
    str_open(&w->c.helpers, h);
    str_open(&w->c.body, h);
    cleanup_push(h, &undo, close_writer, w);
    w->c.out = &w->c.helpers;
    if (e->functions) {
        w->c.k = e->program[0].k;
        clike_need_quotient(&w->c); /* never asked for again: these are all in one place */
        w->c.helpers.len = 0;
    }
    str_add(&w->c.helpers, quotient_text);
    w->c.out = &w->c.body;
    for (uint32_t i = 0; i < e->functions; i++) write_function(w, i);
    if (fast) export_define_types(&w->types, out);
    if (fast) str_add(out, options);
    export_prune(&e->arena, &w->c.helpers, &w->c.body, out);
    if (w->c.body.s) str_addn(out, w->c.body.s, w->c.body.len);
    cleanup_run(h, &undo);
}

void export_functions(export *e, str *out) {
    str_add(out, CLIKE_DEFINE_LANES "\n");
    str_add(out, "#if defined(__GNUC__) && !defined(QN_EXPORT_PLAIN)\n");
    write_all(e, true, out);
    str_add(out, "\n#else\n\n");
    write_all(e, false, out);
    str_add(out, "\n#endif\n");
}
