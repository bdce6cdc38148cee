/* text.c - the header, which says what there is and how large it is, and the .c file. */
#include "export/export.h"

/* ---- parameters of functions ----------------------------------------------------------------- */

static void add_parameter(str *out, bool *any, const char *text) {
    str_addf(out, "%s%s", *any ? ", " : "", text);
    *any = true;
}

static void init_signature(const export *e, str *out) {
    str_addf(out, "void %s_init(void *state%s)", e->name, e->blob ? ", const void *weights" : "");
}

static void run_signature(export *e, str *out) {
    const static_view *v = &e->view;
    bool any = false;
    str_addf(out, "void %s_run(", e->name);
    for (int i = 0; i < v->inputs; i++)
        add_parameter(
            out, &any,
            arena_printf(&e->arena, "const %s *input_%d", export_type(v->input_dtype[i]), i));
    for (int i = 0; i < v->outputs; i++)
        add_parameter(out, &any,
                      arena_printf(&e->arena, "%s *output_%d",
                                   export_type(v->root_dtype[v->output_root[i]]), i));
    if (e->states) add_parameter(out, &any, "void *state");
    if (e->blob) add_parameter(out, &any, "const void *weights");
    add_parameter(out, &any, "void *arena");
    str_add(out, ")");
}

/* ---- the header ------------------------------------------------------------------------------ */

/* What comes of texts of the user's must not end a comment. */
static void add_comment(str *out, const char *text) {
    for (const char *p = text; *p; p++) str_addn(out, *p == '*' || *p < ' ' ? "." : p, 1);
}

static void add_sizes(export *e, str *out, const char *what, uint32_t number, tuple_id shape,
                      int dtype) {
    graph *g = e->g;
    int rank;
    int64_t elements = 1;
    const int64_t *dim = graph_tuple_get(g, shape_now(g, shape), &rank);
    str_addf(out, "#define %s_%s_%u_RANK %d\n", e->capital, what, number, rank);
    if (rank) str_addf(out, "#define %s_%s_%u_SHAPE {", e->capital, what, number);
    for (int i = 0; i < rank; i++) {
        int64_t n = 0;
        sym_is_const(g->syms, (sym)dim[i], &n);
        str_addf(out, "%s%lld", i ? ", " : "", (long long)n);
        elements *= n;
    }
    if (rank) str_add(out, "}\n");
    str_addf(out, "#define %s_%s_%u_ELEMENTS %lld\n", e->capital, what, number,
             (long long)elements);
    str_addf(out, "#define %s_%s_%u_BYTES %lld\n", e->capital, what, number,
             (long long)elements * (long long)qn_dtype_size((qn_dtype)dtype));
}

static void add_what(str *out, const char *what, uint32_t number, const char *name, int dtype) {
    str_addf(out, "\n/* %s %u", what, number);
    if (name) str_add(out, ", \"");
    if (name) add_comment(out, name);
    str_addf(out, "%s: elements are %s */\n", name ? "\"" : "", qn_dtype_name((qn_dtype)dtype));
}

static void add_all_sizes(export *e, str *out) {
    const static_view *v = &e->view;
    for (int i = 0; i < v->inputs; i++) {
        add_what(out, "input", (uint32_t)i, NULL, v->input_dtype[i]);
        add_sizes(e, out, "INPUT", (uint32_t)i, v->input_shape[i], v->input_dtype[i]);
    }
    for (int i = 0; i < v->outputs; i++) {
        int root = v->output_root[i];
        add_what(out, "output", (uint32_t)i, NULL, v->root_dtype[root]);
        add_sizes(e, out, "OUTPUT", (uint32_t)i, v->root_shape[root], v->root_dtype[root]);
    }
    for (uint32_t i = 0; i < e->states; i++) {
        const export_state *s = &e->state[i];
        int dtype = e->value[s->first].dtype;
        add_what(out, "state", i, s->name, dtype);
        str_addf(out, "#define %s_STATE_%u_OFFSET %zu\n", e->capital, i, s->offset);
        add_sizes(e, out, "STATE", i, s->shape, dtype);
    }
}

static void add_promises(export *e, str *out) {
    if (e->states) {
        str_addf(out,
                 "\n/* The first values of what runs change: %s_STATE_BYTES, aligned. "
                 "%s_STATE_i_OFFSET\n * says at which byte each is. */\n",
                 e->capital, e->capital);
        init_signature(e, out);
        str_add(out, ";\n");
    }
    str_addf(out,
             "\n/* One run. Inputs are read, outputs written; nothing overlaps anything else. The "
             "arena's\n * %s_ARENA_BYTES may hold anything before and after. ",
             e->capital);
    if (e->states) str_addf(out, "The state is what %s_init or a run left. ", e->name);
    if (e->blob) str_addf(out, "Weights are the blob's %s_WEIGHTS_BYTES. ", e->capital);
    str_add(out, "*/\n");
    run_signature(e, out);
    str_add(out, ";\n");
}

void export_header(export *e, str *out) {
    const char *c = e->capital;
    str_addf(out,
             "/* %s.h - made by Quern's qn_export.\n *\n * Arena, state and weights begin at "
             "multiples of %s_ALIGN bytes. */\n#ifndef %s_H\n#define %s_H\n\n#include <stdint.h>\n"
             "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
             e->name, c, c, c);
    str_addf(out,
             "#define %s_INPUTS %d\n#define %s_OUTPUTS %d\n#define %s_STATES %u\n"
             "#define %s_ALIGN %d\n#define %s_ARENA_BYTES %zu\n#define %s_STATE_BYTES %zu\n"
             "#define %s_WEIGHTS_BYTES %zu\n",
             c, e->view.inputs, c, e->view.outputs, c, e->states, c, EXPORT_ALIGN, c,
             e->main.arena_bytes ? e->main.arena_bytes : EXPORT_ALIGN, c, e->state_bytes, c,
             e->blob ? e->blob_bytes : 0);
    add_all_sizes(e, out);
    add_promises(e, out);
    str_add(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* ---- the functions --------------------------------------------------------------------------- */

static const char opening[] =
    "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n"
    "/* Products and sums are rounded one by one; what is fused is written as fma. */\n"
    "#ifdef __clang__\n#pragma STDC FP_CONTRACT OFF\n#endif\n\n";

static int64_t number_of(const export *e, const export_part *part, const launch_set *set, int v) {
    const graph *g = e->g;
    int64_t n = 0;
    if (set->var[v] == LOWER_LENGTH)
        sym_eval(g->syms, set->length, (int)g->vars, g->var, g->bound, &n);
    else if (LOWER_IS_SLOT(set->var[v]))
        n = part->p->key.value[LOWER_SLOT(set->var[v])];
    else
        n = g->bound[set->var[v]];
    return n;
}

static int vars_of(const export_part *part, const export_set *s) {
    return part->p->launch[s->launch].program->vars;
}

static void add_numbers(const export *e, const export_part *part, uint32_t number, str *out) {
    const export_set *s = &part->set[number];
    int vars = vars_of(part, s);
    if (!vars) return;
    str_addf(out, "    static const int64_t vars_%u[%d] = {", number, vars);
    for (int v = 0; v < vars; v++) {
        int64_t n = number_of(e, part, s->set, v);
        str_addf(out, n == INT64_MIN ? "%s-%lld - 1" : "%s%lld", v ? ", " : "",
                 (long long)(n == INT64_MIN ? INT64_MAX : n));
    }
    str_add(out, "};\n");
}

static bool is_written(const kernel *k, int arg) {
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_ARG && ir_m(k, m)->arg == arg)
            return ir_m(k, m)->access & ACCESS_WRITE;
    return false;
}

/* A part of a value begins some bytes behind it. */
static void add_argument(const export *e, const export_part *part, const export_set *s, int a,
                         str *out) {
    const export_home h = part->home[s->set->slot[a]];
    bool reads = !is_written(e->program[s->program].k, a);
    size_t offset = a == 0 && s->set->piece ? s->set->offset : 0;
    if (offset) str_add(out, reads ? "(const void *)((const char *)" : "(void *)((char *)");
    export_place(e, h, reads, out);
    if (offset) str_addf(out, " + %zu)", offset);
}

static void add_call(const export *e, const export_part *part, uint32_t number, str *out) {
    const export_set *s = &part->set[number];
    const export_program *p = &e->program[s->program];
    bool any = false;
    str_addf(out, "    kernel_%u(", s->function);
    for (int a = 0; a < p->k->args; a++) {
        if (s->over[a] || !p->uses[a]) continue;
        if (any) str_add(out, ", ");
        add_argument(e, part, s, a, out);
        any = true;
    }
    if (vars_of(part, s)) str_addf(out, "%svars_%u", any ? ", " : "", number);
    if (p->scratch) str_addf(out, ", (void *)(temporary + %zu)", part->scratch[s->launch]);
    str_add(out, ");\n");
}

static void add_copy(const export *e, const export_copy *c, str *out) {
    str_add(out, "    memcpy(");
    export_place(e, c->to, false, out);
    str_add(out, ", ");
    export_place(e, c->from, true, out);
    str_addf(out, ", %zu);\n", c->size);
}

void export_launches(const export *e, const export_part *part, str *out) {
    for (uint32_t i = 0; i < part->sets; i++) add_numbers(e, part, i, out);
    for (uint32_t i = 0; i < part->rests; i++) add_copy(e, &part->rest[i], out);
    for (uint32_t i = 0, set = 0; i < part->p->launches; i++) {
        if (part->loop[i]) export_loop_call(e, part, i, out);
        if (part->call[i]) export_call_text(e, part, i, out);
        for (; set < part->sets && part->set[set].launch == i; set++) add_call(e, part, set, out);
    }
    for (uint32_t i = 0; i < part->copies; i++) add_copy(e, &part->copy[i], out);
}

static void add_run(export *e, str *out) {
    str_add(out, "\n");
    run_signature(e, out);
    str_add(out, " {\n    char *const temporary = arena;\n");
    if (e->states) str_add(out, "    char *const kept = state;\n");
    if (e->blob) str_add(out, "    const char *const blob = weights;\n");
    export_launches(e, &e->main, out);
    for (int i = 0; i < e->view.inputs; i++) str_addf(out, "    (void)input_%d;\n", i);
    str_add(out, "    (void)temporary;\n");
    if (e->states) str_add(out, "    (void)kept;\n");
    if (e->blob) str_add(out, "    (void)blob;\n");
    str_add(out, "}\n");
}

static void add_init(export *e, str *out) {
    str_add(out, "\n");
    init_signature(e, out);
    str_add(out, " {\n    char *const kept = state;\n");
    if (e->blob) str_add(out, "    const char *const blob = weights;\n");
    for (uint32_t i = 0; i < e->states; i++) {
        const export_state *s = &e->state[i];
        const export_copy c = {{.kind = HOME_WEIGHT, .number = s->first},
                               {.kind = HOME_STATE, .offset = s->offset},
                               e->value[s->first].size};
        add_copy(e, &c, out);
    }
    str_add(out, "}\n");
}

void export_source(export *e, str *out) {
    str_addf(out, "/* %s.c - made by Quern's qn_export. */\n#include \"%s\"\n\n", e->name, e->file);
    str_add(out, opening);
    export_functions(e, out);
    if (!e->blob) export_arrays(e, out);
    export_routines(e, out);
    export_call_functions(e, out);
    for (uint32_t i = 0; i < e->loops; i++) export_loop_text(e, e->loop[i], out);
    if (e->states) add_init(e, out);
    add_run(e, out);
}
