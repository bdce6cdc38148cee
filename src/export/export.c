/* export.c - qn_export: a static graph as a .c file, a header, and maybe a blob. */
#include "export/export.h"

#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct export_call {
    export *e;
    qn_plan *plan;
    const char *path;
    qn_export_options o;
    char header[FOLDER_PATH]; /* the header's path */
} export_call;

static void close_export(void *of) {
    export *e = of;
    for (uint32_t i = 0; i < e->programs; i++) {
        ir_close(e->program[i].vectors);
        ir_close(e->program[i].k);
    }
    str_free(&e->source);
    str_free(&e->header);
    arena_free(&e->arena);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_c_name(const char *name) {
    bool fine = isalpha((unsigned char)*name) || *name == '_';
    for (const char *p = name; *p; p++) fine &= isalnum((unsigned char)*p) || *p == '_';
    return fine && strlen(name) < 100;
}

static const char *capital_of(arena *a, const char *name) {
    char *out = arena_printf(a, "%s", name);
    for (char *p = out; *p; p++) *p = (char)toupper((unsigned char)*p);
    return out;
}

/* Of a file's name, which an #include will have between quotes. */
static bool is_quotable(const char *base) {
    bool fine = true;
    for (const char *p = base; *p; p++)
        fine &= *p != '"' && *p != '\\' && !iscntrl((unsigned char)*p);
    return fine;
}

/* Would what is written to one path be found at the other? The files need not be there. */
static bool is_same_file(const char *a, const char *b) {
    const char *const path[2] = {a, b};
    char end[2][FOLDER_PATH], folder[2][FOLDER_PATH];
    const char *name[2];
    struct stat at[2];
    for (int i = 0; i < 2; i++) {
        if (!file_resolve(path[i], end[i])) return false; /* the writer will say why */
        int f = file_folder(end[i], folder[i], &name[i]);
        bool found = f >= 0 && fstat(f, &at[i]) == 0;
        if (f >= 0) close(f);
        if (!found) return false;
    }
    return at[0].st_dev == at[1].st_dev && at[0].st_ino == at[1].st_ino &&
           !strcmp(name[0], name[1]);
}

static void check_files(export_call *c) {
    const char *const file[3] = {c->path, c->header, c->o.blob};
    for (int i = 1; i < 3; i++)
        for (int k = 0; k < i && file[i]; k++)
            if (is_same_file(file[k], file[i]))
                raise_error(c->e->qn, QN_EARG, "export: \"%s\" and \"%s\" are one file", file[k],
                            file[i]);
}

static void name_files(export_call *c) {
    export *e = c->e;
    const qn_export_options *o = &c->o;
    const char *slash = strrchr(c->path, '/'), *base = slash ? slash + 1 : c->path;
    size_t n = strlen(c->path), m = strlen(base);
    if (m < 3 || strcmp(base + m - 2, ".c") != 0 || n >= FOLDER_PATH)
        raise_error(e->qn, QN_EARG, "export: \"%s\" is no path of a .c file", c->path);
    if (!is_quotable(base))
        raise_error(e->qn, QN_EARG,
                    "export: \"%s\" has a quote, a backslash or a control character, which no "
                    "#include may have",
                    c->path);
    memcpy(c->header, c->path, n + 1);
    c->header[n - 1] = 'h';
    e->file = arena_printf(&e->arena, "%.*s.h", (int)m - 2, base);
    e->name = o->name ? arena_printf(&e->arena, "%s", o->name)
                      : arena_printf(&e->arena, "%.*s", (int)m - 2, base);
    if (!is_c_name(e->name))
        raise_error(e->qn, QN_EARG, "export: \"%s\" is no name of C%s", e->name,
                    o->name ? "" : "; give one as options.name");
    e->capital = capital_of(&e->arena, e->name);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void drop_file(void *w) {
    file_abandon(w);
}

/* NULL: the blob. */
static void write_file(export *e, const char *path, const str *text) {
    file_writer w;
    if (file_create(&w, e->qn, path)) heap_unwind(&e->qn->heap);
    cleanup undo;
    cleanup_push(&e->qn->heap, &undo, drop_file, &w);
    if (!text) export_blob(e, &w);
    if (text && file_write(&w, text->s, text->len)) heap_unwind(&e->qn->heap);
    if (file_commit(&w)) heap_unwind(&e->qn->heap);
    cleanup_run(&e->qn->heap, &undo);
}

/* ---- the call -------------------------------------------------------------------------------- */

static void check_plan(const export *e) {
    const run_state *r = e->qn->run;
    if (!r->dev->executes || r->limits.members > 1)
        raise_error(e->qn, QN_EDEVICE, "export: device %s %s; make the plan on cpu", r->dev->name,
                    r->dev->executes ? "has kernels for work groups" : "computes nothing");
    if (e->view.checked)
        raise_error(e->qn, QN_EGRAPH,
                    "export: the plan checks indices (QN_CHECK), which C has no errors for");
}

static void export_work(void *arg) {
    export_call *c = arg;
    export *e = c->e;
    cleanup undo;
    cleanup_push(&e->qn->heap, &undo, close_export, e);
    name_files(c);
    check_files(c);
    check_plan(e);
    if (!static_parameters(c->plan, "export")) heap_unwind(&e->qn->heap);
    plan_prepare(e->qn, e->view.plan, e->view.leaf_buffer);
    part_open(e, &e->main, e->view.plan);
    export_layout(e);
    export_header(e, &e->header);
    export_source(e, &e->source);
    if (c->o.blob) write_file(e, c->o.blob, NULL);
    write_file(e, c->header, &e->header);
    write_file(e, c->path, &e->source);
    cleanup_run(&e->qn->heap, &undo);
}

qn_code qn_export(qn_plan *plan, const char *path, const qn_export_options *options) {
    export e = {.loops = 0};
    if (!static_view_of(plan, "export", &e.view)) return handle_code(plan);
    e.qn = e.view.qn;
    e.g = e.qn->graph;
    export_call c = {.e = &e, .plan = plan, .path = path, .o = QN_EXPORT_OPTIONS()};
    if (!path) return fail(e.qn, QN_ENULL, "export: no path");
    if (!struct_take(e.qn, "export", "qn_export_options", &c.o, sizeof c.o, options))
        return qn_error_code(e.qn);
    e.blob = c.o.blob != NULL;
    arena_open(&e.arena, &e.qn->heap);
    str_open(&e.source, &e.qn->heap);
    str_open(&e.header, &e.qn->heap);
    return guarded(e.qn, export_work, &c);
}
