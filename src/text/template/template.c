/* template.c - the public calls of chat templates. */
#include "text/template/template.h"

typedef struct chat_template {
    qn_ctx *ctx;
    arena a, work;
    node *root;
} chat_template;

typedef struct reading {
    qn_ctx *qn;
    span text;
    chat_template *t;
} reading;

static void template_drop(chat_template *t) {
    arena_free(&t->work);
    arena_free(&t->a);
    heap_free(&t->ctx->heap, t, sizeof *t);
}

static void read_work(void *arg) {
    reading *o = arg;
    o->t = heap_zeroed(&o->qn->heap, sizeof *o->t);
    o->t->ctx = o->qn;
    arena_open(&o->t->a, &o->qn->heap);
    arena_open(&o->t->work, &o->qn->heap);
    o->t->root = template_parse(o->qn, &o->t->a, o->text);
}

qn_template *qn_template_new(qn_ctx *qn, const char *text, size_t size) {
    reading o = {.qn = qn, .text = {text, size}};
    if (!qn) return NULL;
    if (!text) return fail_null(qn, QN_ENULL, "template_new: text is NULL");
    if (size > TEMPLATE_MOST)
        return fail_null(qn, QN_ERANGE, "template_new: %zu bytes; a template has at most %d", size,
                         TEMPLATE_MOST);
    size_t bad = utf8_bad(o.text);
    if (bad < size) return fail_null(qn, QN_EFORMAT, "template: byte %zu is not UTF-8", bad);
    qn_code code = guarded(qn, read_work, &o);
    qn_template *name = code ? NULL : object_open(qn, HANDLE_TEMPLATE, o.t);
    if (!name && o.t) template_drop(o.t);
    return name;
}

void qn_template_free(qn_template *known) {
    chat_template *t = object_close(known, HANDLE_TEMPLATE, "template_free");
    if (t) template_drop(t);
}

typedef struct rendering {
    chat_template *t;
    span json, text;
} rendering;

static void render_work(void *arg) {
    rendering *o = arg;
    chat_template *t = o->t;
    json_fault fault = {"empty", 0};
    const json *root = json_parse(&t->work, o->json.s, o->json.n, &fault);
    if (!root || root->kind != JSON_OBJECT)
        raise_error(t->ctx, QN_EFORMAT, "template_render: at byte %zu of the variables: %s",
                    fault.at, root ? "not an object" : fault.what);
    str out;
    scope top = {0}, outer = {0};
    running r = {.qn = t->ctx, .a = &t->work, .scope = &top, .top = &top, .out = &out};
    top.up = &outer;
    str_open_in(&out, r.a);
    str_add(&out, "");
    for (const json *m = root->first; m; m = m->next)
        dict_set(&r, &outer.here, (span){m->key, m->key_size}, value_of_json(&r, m));
    template_walk(&r, t->root);
    o->text = (span){out.s, out.len};
}

const char *qn_template_render(qn_template *known, const char *variables, size_t size,
                               size_t *length) {
    chat_template *t = object_of(known, HANDLE_TEMPLATE, "template_render");
    if (length) *length = 0;
    if (!t) return NULL;
    if (!variables) return fail_null(t->ctx, QN_ENULL, "template_render: variables is NULL");
    rendering o = {t, {variables, size}, {NULL, 0}};
    arena old = t->work; /* the variables may be what the call before gave */
    arena_open(&t->work, &t->ctx->heap);
    qn_code code = guarded(t->ctx, render_work, &o);
    arena_free(&old);
    if (code) return NULL;
    if (length) *length = o.text.n;
    return o.text.s;
}
