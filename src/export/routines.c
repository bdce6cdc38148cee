/* routines.c - what is no loop nest, as sorting: the routine's own text, in the exported file.
 *
 * There is one source of a routine, the routine room's. The build makes a header of the files that
 * are listed in the Makefile (tools/routine_text.sh), so that their text is here as data. A file
 * that an exported one includes is put in its place; routine/alone.h stands for the rooms before,
 * and makes all functions static. A call is then a struct filled with numbers, and the routine run
 * on all its items by one thread.
 *
 * Routines whose bits depend on what the machine has beside the compiler, a library of linear
 * algebra or vectors chosen when the program runs, are not here: factors of matrices, and random
 * numbers by functions of the maths library. Of Fourier transforms bits depend on whether there are
 * vectors, and the text asks for that as the library does. */
#include "export/export.h"

typedef struct source_text {
    const char *path, *text;
} source_text;

static const source_text texts[] = {
#define TEXT(path, text) {path, text},
#include "export/routine_text.h"
#undef TEXT
};
enum { TEXTS = sizeof texts / sizeof *texts };

/* Files that belong together, and the routines that they are. */
typedef struct text_group {
    const char *files[5];
    uint32_t routines;
} text_group;
#define BIT(NAME) (1u << ROUTINE_##NAME)
static const text_group groups[] = {
    {{"routine/order.c", "routine/radix.c", "routine/quick.c", "routine/sort.c",
      "routine/places.c"},
     BIT(SORT) | BIT(TOPK) | BIT(KTH) | BIT(MODE) | BIT(UNIQUE) | BIT(SEARCH) | BIT(NONZERO)},
    {{"routine/fft/plan.c", "routine/fft/fft.c", "routine/fft/f32.c", "routine/fft/f64.c"},
     BIT(FFT)},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static const char *const capitals[ROUTINE_COUNT] = {
#define X(NAME, ...) [ROUTINE_##NAME] = #NAME,
#include "graph/routines.h"
#undef X
};
static const char *const dtype_names[DTYPE_COUNT] = {
#define X(NAME, ...) [QN_##NAME] = #NAME,
#include "base/dtypes.h"
#undef X
};

static bool has_text(int routine) {
    bool has = false;
    for (int i = 0; i < GROUPS; i++) has |= groups[i].routines >> routine & 1;
    return has;
}

/* ---- what a part needs ----------------------------------------------------------------------- */

export_routine *export_call_open(export *e, const launch *l) {
    const call_launch *c = l->call;
    if (!has_text(c->what.routine))
        raise_error(e->qn, QN_EGRAPH,
                    "export: the graph calls \"%s\", a routine of the library that has no text "
                    "for other programs",
                    l->program->name);
    export_routine *x = arena_zeroed(&e->arena, sizeof *x);
    x->c = c;
    x->now = c->now;
    x->now.threads = 1;
    x->now.lapack = NULL;
    x->scratch = routine_scratch(&x->now);
    e->call = arena_grow(&e->arena, e->call, &e->call_cap, e->calls + 1, sizeof *e->call);
    e->call[e->calls++] = x;
    x->number = e->calls;
    return x;
}

/* ---- text ------------------------------------------------------------------------------------ */

static int text_of(const char *path, size_t length) {
    for (int i = 0; i < TEXTS; i++)
        if (strlen(texts[i].path) == length && !memcmp(texts[i].path, path, length)) return i;
    return -1;
}

/* Is it there once, however often it is included? */
static bool is_guarded(const char *text) {
    return strstr(text, "\n#ifndef QN_") != NULL;
}

/* What it includes comes in its place; of the rooms before there is nothing. */
static void add_text(int number, bool *done, str *out) {
    static const char include[] = "#include \"";
    if (done[number]) return;
    done[number] = is_guarded(texts[number].text) || strstr(texts[number].path, ".c");
    for (const char *line = texts[number].text, *next; *line; line = next) {
        next = strchr(line, '\n') + 1;
        if (strncmp(line, include, sizeof include - 1) != 0) {
            str_addn(out, line, (size_t)(next - line));
            continue;
        }
        const char *path = line + sizeof include - 1;
        int inner = text_of(path, strcspn(path, "\""));
        if (inner >= 0) add_text(inner, done, out);
    }
}

static void add_named(const char *path, bool *done, str *out) {
    int number = text_of(path, strlen(path));
    if (number >= 0) add_text(number, done, out);
}

static void add_group(const text_group *group, bool *done, str *out) {
    for (int i = 0; i < ROUTINE_COUNT; i++)
        if (group->routines >> i & 1)
            str_addf(out,
                     "\nROUTINE_LINK routine_need need_%s(const routine_call *c);\n"
                     "ROUTINE_LINK void run_%s(const routine_call *c, void *scratch, int64_t from, "
                     "int64_t to);\n",
                     routine_rows[i].name, routine_rows[i].name);
    for (int i = 0; i < 5 && group->files[i]; i++) add_named(group->files[i], done, out);
}

/* gcc makes one instruction of products and sums of neighbouring numbers (vfmaddsub), whatever
 * -ffp-contract says, where it finds them by itself. */
static const char before[] = "\n#undef LANES /* the kernels, which are above */\n\n"
                             "#ifdef __GNUC__\n#pragma GCC diagnostic push\n"
                             "#pragma GCC diagnostic ignored \"-Wsign-conversion\"\n"
                             "#pragma GCC diagnostic ignored \"-Wunused-function\"\n#endif\n"
                             "#if defined(__GNUC__) && !defined(__clang__)\n"
                             "#pragma GCC push_options\n"
                             "#pragma GCC optimize(\"no-tree-slp-vectorize\")\n#endif\n\n";
static const char behind[] = "\n#if defined(__GNUC__) && !defined(__clang__)\n"
                             "#pragma GCC pop_options\n#endif\n"
                             "#ifdef __GNUC__\n#pragma GCC diagnostic pop\n#endif\n";

void export_routines(const export *e, str *out) {
    bool done[TEXTS] = {false};
    uint32_t called = 0;
    for (uint32_t i = 0; i < e->calls; i++) called |= 1u << e->call[i]->c->what.routine;
    if (!called) return;
    str_add(out, before);
    add_named("routine/alone.h", done, out);
    add_named("graph/call.h", done, out);
    add_named("routine/routine.h", done, out);
    for (int i = 0; i < GROUPS; i++)
        if (groups[i].routines & called) add_group(&groups[i], done, out);
    str_add(out, behind);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void add_array(const char *what, int number, const routine_array *a, const char *data,
                      str *out) {
    str_addf(out, "    call.%s[%d].dtype = QN_%s;\n    call.%s[%d].rank = %d;\n", what, number,
             dtype_names[a->dtype], what, number, a->rank);
    for (int i = 0; i < a->rank; i++)
        str_addf(out, "    call.%s[%d].dim[%d] = %lld;\n", what, number, i, (long long)a->dim[i]);
    str_addf(out, "    call.%s[%d].data = %s;\n", what, number, data);
}

static void add_function(export *e, const export_routine *x, str *out) {
    const call_launch *c = x->c;
    const char *name = routine_rows[c->what.routine].name;
    str_addf(out, "\nstatic void call_%u(", x->number);
    for (int i = 0; i < c->results; i++) str_addf(out, "void *result_%d, ", i);
    for (int i = 0; i < c->sources; i++) str_addf(out, "const void *source_%d, ", i);
    str_addf(out,
             "void *scratch) {\n    routine_call call;\n    memset(&call, 0, sizeof call);\n"
             "    call.what.routine = ROUTINE_%s;\n    call.what.n = %d;\n",
             capitals[c->what.routine], c->what.n);
    for (int i = 0; i < c->what.n; i++)
        str_addf(out, "    call.what.attr[%d] = %lld;\n", i, (long long)c->what.attr[i]);
    str_addf(out, "    call.wanted = %u;\n    call.sources = %d;\n", x->now.wanted, c->sources);
    for (int i = 0; i < c->results; i++)
        add_array("result", c->result[i], &x->now.result[c->result[i]],
                  arena_printf(&e->arena, "result_%d", i), out);
    for (int i = 0; i < c->sources; i++)
        add_array("source", i, &x->now.source[i], arena_printf(&e->arena, "(void *)source_%d", i),
                  out);
    str_addf(out, "    run_%s(&call, scratch, 0, %lld);\n}\n", name, (long long)x->now.items);
}

void export_call_functions(export *e, str *out) {
    for (uint32_t i = 0; i < e->calls; i++) add_function(e, e->call[i], out);
}

void export_call_text(const export *e, const export_part *part, uint32_t number, str *out) {
    const launch *l = &part->p->launch[number];
    const export_routine *x = part->call[number];
    str_addf(out, "    call_%u(", x->number);
    for (int a = 0; a < l->program->args; a++) {
        bool reads = a >= x->c->results && a < l->program->args - 1;
        if (a) str_add(out, ", ");
        export_place(e, part->home[l->set->slot[a]], reads, out);
    }
    str_add(out, ");\n");
}
