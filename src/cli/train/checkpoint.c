/* checkpoint.c - a training as a file, from which another process goes on to the same bits.
 *
 * A safetensors file, written beside its place and renamed: parameters and buffers by their names;
 * "optimizer.K." and the state of turn K's optimizer; "key", by which layers draw; "losses" of the
 * steps so far. In the metadata "quern.model" is the model's name, "quern.config" its config,
 * "quern.sizes" those of its batches, "quern.training" the options that decide the numbers,
 * "quern.progress" the steps, the seconds and the place in the data. A model that is done has the
 * parameters, the buffers and the first three of these.
 *
 * Going on asks for the same model, config and options, and reads all before it changes any. */
#include "base/base.h"
#include "cli/train/named.h"
#include "io/io.h"

#include <stdlib.h>

int turns_of(const net *n) {
    return n->row->turns ? n->row->turns : 1;
}

/* ---- what is told of a training ------------------------------------------------------------- */

typedef struct texts {
    str config, training, progress;
    arena a;
} texts;

/* The rate falls along the steps, so their number is among the options. Where the data lie is not:
 * that they are as many as before is looked at with the place in them. */
static void write_training(str *s, const training *t) {
    const named_options *o = t->o;
    str_addf(s, "{\"method\":\"%s\",\"steps\":%lld,\"batch\":%lld,\"window\":%lld,\"seed\":%lld",
             o->method, (long long)o->steps, (long long)o->batch, (long long)o->window,
             (long long)o->seed);
    str_addf(s, ",\"warmup\":%lld,\"lr\":%.17g,\"weight_decay\":%.17g,\"clip\":%.17g",
             (long long)o->warmup, o->rate, o->weight_decay, o->clip);
    str_addf(s, ",\"held_out\":%.17g,\"scale\":%.17g}", o->held_out, o->scale);
}

static void write_progress(str *s, const training *t) {
    qn_loader_state at = QN_LOADER_STATE();
    if (t->loader && qn_loader_get_state(t->loader, &at, sizeof at)) heap_unwind(&t->qn->heap);
    str_addf(s, "{\"steps\":%lld,\"epoch\":%lld,\"batch\":%lld,\"batches\":%lld,\"seconds\":%.3f}",
             (long long)t->steps, (long long)at.epoch, (long long)at.batch, (long long)at.batches,
             cli_seconds() - t->begun);
}

static void texts_open(texts *x, qn_ctx *qn) {
    arena_open(&x->a, &qn->heap);
    str_open_in(&x->config, &x->a);
    str_open_in(&x->training, &x->a);
    str_open_in(&x->progress, &x->a);
}

static void texts_write(texts *x, const training *t) {
    fields_write(&x->config, t->n->row, t->n->config);
    write_training(&x->training, t);
    write_progress(&x->progress, t);
}

/* ---- what a file holds ---------------------------------------------------------------------- */

typedef struct listing {
    int count;
    const char **name;
    qn_tensor **tensor;
} listing;

static void list_one(listing *l, const char *name, qn_tensor *t) {
    l->name[l->count] = name;
    l->tensor[l->count++] = t;
}

static void list_model(listing *l, const training *t) {
    qn_module *m = t->n->module;
    for (int i = 0; i < qn_module_count(m); i++)
        list_one(l, qn_module_name(m, i), qn_module_parameters(m)[i]);
    for (int i = 0; i < qn_module_buffer_count(m); i++)
        list_one(l, qn_module_buffer_name(m, i), qn_module_find(m, qn_module_buffer_name(m, i)));
}

/* Beside the model: what is read back as it was. */
static void list_state(listing *l, const training *t, arena *a) {
    for (int k = 0; k < turns_of(t->n); k++) {
        qn_module *state = qn_optimizer_state(t->optimizer[k]);
        for (int i = 0; i < qn_module_count(state); i++)
            list_one(l, arena_printf(a, "optimizer.%d.%s", k, qn_module_name(state, i)),
                     qn_module_parameters(state)[i]);
    }
    list_one(l, "key", qn_module_key(t->n->module));
}

static listing listing_open(const training *t, arena *a) {
    qn_module *m = t->n->module;
    int room = qn_module_count(m) + qn_module_buffer_count(m) + 2;
    for (int k = 0; k < turns_of(t->n); k++)
        room += qn_module_count(qn_optimizer_state(t->optimizer[k]));
    return (listing){.name = arena_alloc(a, (size_t)room * sizeof(char *)),
                     .tensor = arena_alloc(a, (size_t)room * sizeof(qn_tensor *))};
}

/* ---- saving --------------------------------------------------------------------------------- */

typedef struct saving {
    const training *t;
    const char *path;
    bool progress;
    texts x;
} saving;

static void save_work(void *arg) {
    saving *s = arg;
    const training *t = s->t;
    texts_write(&s->x, t);
    listing l = listing_open(t, &s->x.a);
    list_model(&l, t);
    if (s->progress) {
        list_state(&l, t, &s->x.a);
        list_one(&l, "losses", qn_from(t->qn, QN_F32, 1, &t->steps, t->loss));
    }
    const char *const metadata[] = {
        "format",         "pt",           "quern.model", t->n->row->name,  "quern.config",
        s->x.config.s,    "quern.sizes",  t->sizes,      "quern.training", s->x.training.s,
        "quern.progress", s->x.progress.s};
    if (qn_save(t->qn, s->path, l.count, l.name, l.tensor,
                &QN_SAVE_OPTIONS(.pairs = s->progress ? 6 : 4, .metadata = metadata)))
        heap_unwind(&t->qn->heap);
}

int checkpoint_save(const training *t, const char *path, bool whole) {
    saving s = {.t = t, .path = path, .progress = whole};
    qn_scope scope = qn_scope_begin(t->qn);
    texts_open(&s.x, t->qn);
    int code = guarded(t->qn, save_work, &s);
    arena_free(&s.x.a);
    qn_scope_end(t->qn, scope);
    return code;
}

/* ---- going on ------------------------------------------------------------------------------- */

typedef struct resuming {
    training *t;
    const char *path;
    qn_file *file;
    texts x; /* what this training's would be */
    qn_loader_state at;
    int64_t steps;
    double seconds;
} resuming;

QN_NORETURN static void does_not_fit(const resuming *r, const char *what, const char *is,
                                     const char *own) {
    raise_error(r->t->qn, QN_EFORMAT,
                "%s: no checkpoint of this training: %s is %.300s, not %.300s", r->path, what,
                is ? is : "missing", own);
}

static void same_text(const resuming *r, const char *key, const char *own) {
    const char *text = qn_file_text(r->file, key);
    if (!text || strcmp(text, own) != 0) does_not_fit(r, key, text, own);
}

/* A tensor's value into memory from the arena; its numel must be that. */
static void *read_value(resuming *r, const char *name, qn_dtype dtype, int64_t numel) {
    qn_tensor *t = qn_file_tensor(r->file, name);
    if (!t) heap_unwind(&r->t->qn->heap);
    if (qn_dtype_of(t) != dtype || qn_numel(t) != numel)
        raise_error(r->t->qn, QN_EFORMAT, "%s: no checkpoint of this training: \"%s\" has %lld %s",
                    r->path, name, (long long)qn_numel(t), qn_dtype_name(qn_dtype_of(t)));
    size_t size = (size_t)numel * qn_dtype_size(dtype);
    void *data = arena_alloc(&r->x.a, size + 1);
    if (qn_read(t, data, size)) heap_unwind(&r->t->qn->heap);
    return data;
}

static void read_progress(resuming *r) {
    static const char key[] = "quern.progress";
    json_fault fault;
    const char *text = qn_file_text(r->file, key);
    const json *v = text ? json_parse(&r->x.a, text, strlen(text), &fault) : NULL;
    const json *seconds = json_member(v, "seconds"); /* older files have none */
    r->seconds = seconds && seconds->kind == JSON_NUMBER ? strtod(seconds->text, NULL) : 0;
    r->at = QN_LOADER_STATE(.seed = (uint64_t)r->t->o->seed);
    if (!v || !json_int(json_member(v, "steps"), &r->steps) ||
        !json_int(json_member(v, "epoch"), &r->at.epoch) ||
        !json_int(json_member(v, "batch"), &r->at.batch) ||
        !json_int(json_member(v, "batches"), &r->at.batches) || r->steps < 1 ||
        r->steps > r->t->o->steps || !(r->seconds >= 0 && r->seconds < 1e12))
        does_not_fit(r, key, text, "steps, epoch, batch and batches of this training");
}

/* All is read before anything is changed. */
static void resume_work(void *arg) {
    resuming *r = arg;
    training *t = r->t;
    r->file = qn_file_open(t->qn, r->path);
    if (!r->file) heap_unwind(&t->qn->heap);
    texts_write(&r->x, t);
    same_text(r, "quern.model", t->n->row->name);
    same_text(r, "quern.config", r->x.config.s);
    same_text(r, "quern.training", r->x.training.s);
    read_progress(r);
    listing l = listing_open(t, &r->x.a);
    list_state(&l, t, &r->x.a);
    void **value = arena_alloc(&r->x.a, (size_t)l.count * sizeof *value);
    for (int i = 0; i < l.count; i++)
        value[i] = read_value(r, l.name[i], qn_dtype_of(l.tensor[i]), qn_numel(l.tensor[i]));
    float *loss = read_value(r, "losses", QN_F32, r->steps);
    if (t->loader && qn_loader_set_state(t->loader, &r->at)) heap_unwind(&t->qn->heap);
    if (qn_module_load(t->n->module, r->file)) heap_unwind(&t->qn->heap);
    for (int i = 0; i < l.count; i++) {
        size_t size = (size_t)qn_numel(l.tensor[i]) * qn_dtype_size(qn_dtype_of(l.tensor[i]));
        if (qn_write(l.tensor[i], value[i], size)) heap_unwind(&t->qn->heap);
    }
    memcpy(t->loss, loss, (size_t)r->steps * sizeof *loss);
    const char *sizes = qn_file_text(r->file, "quern.sizes");
    snprintf(t->sizes, sizeof t->sizes, "%s", sizes ? sizes : "");
    t->steps = r->steps;
    t->begun -= r->seconds;
}

int checkpoint_load(training *t, const char *path) {
    resuming r = {.t = t, .path = path};
    qn_scope scope = qn_scope_begin(t->qn);
    texts_open(&r.x, t->qn);
    int code = guarded(t->qn, resume_work, &r);
    arena_free(&r.x.a);
    qn_file_close(r.file);
    qn_scope_end(t->qn, scope);
    return code;
}
