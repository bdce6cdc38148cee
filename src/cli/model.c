/* model.c - the files that `quern train` writes and `quern generate` reads.
 *
 * The weights are a plain safetensors file; what else it takes to use them is in its metadata:
 * "quern.model" says what it is, "quern.config" the sizes as a JSON object, "quern.characters" the
 * vocabulary as a JSON list of code points, and "quern.held_out_loss" what the training reached.
 * A checkpoint of a training under way has the optimizer's state besides, under "optimizer.", the
 * losses so far as "losses", and in "quern.progress" the steps and seconds; it is a model, too.
 *
 * None of it is believed before it is checked: sizes within bounds, characters ascending, and the
 * weights' shapes must be those that the sizes ask for. */
#include "models/model.h"
#include "cli/cli.h"
#include "io/io.h"

#include <math.h>
#include <stdlib.h>

static const char model_kind[] = "character gpt 1";

/* ---- saving ------------------------------------------------------------------------------- */

enum { PAIRS = 6 }; /* of metadata */

typedef struct saving {
    str config, characters, loss, progress;
    const model *m;
    double held_out_loss;
    const model_progress *p; /* NULL: the model alone */
    qn_ctx *qn;
    const char *path;
    arena a;
} saving;

static void write_texts(saving *t) {
    const qn_gpt_config *c = &t->m->config;
    str_addf(&t->config, "{\"context\":%lld,\"layers\":%lld,\"heads\":%lld,\"width\":%lld}",
             (long long)c->context, (long long)c->layers, (long long)c->heads, (long long)c->width);
    for (int64_t i = 0; i < c->vocabulary; i++)
        str_addf(&t->characters, "%s%u", i ? "," : "[", t->m->character[i]);
    str_add(&t->characters, "]");
    if (isfinite(t->held_out_loss)) {
        str_addf(&t->loss, "%.6f", t->held_out_loss);
    } else {
        str_add(&t->loss, "unknown");
    }
    if (t->p)
        str_addf(&t->progress, "{\"steps\":%lld,\"seconds\":%.3f}", (long long)t->p->steps,
                 t->p->seconds);
}

static void open_texts(saving *t) {
    arena_open(&t->a, &t->qn->heap);
    str_open_in(&t->config, &t->a);
    str_open_in(&t->characters, &t->a);
    str_open_in(&t->loss, &t->a);
    str_open_in(&t->progress, &t->a);
}

static const char *optimizer_name(arena *a, const qn_module *state, int i) {
    return arena_printf(a, "optimizer.%s", qn_module_name(state, i));
}

/* The parameters, and with progress the optimizer's state and the losses so far. */
static void save_work(void *arg) {
    saving *t = arg;
    write_texts(t);
    qn_module *m = qn_gpt_module(t->m->gpt);
    qn_module *state = t->p ? qn_optimizer_state(t->p->optimizer) : NULL;
    int n = qn_module_count(m), more = state ? qn_module_count(state) : 0;
    size_t room = (size_t)(n + more + 1);
    const char **name = arena_alloc(&t->a, room * sizeof *name);
    qn_tensor **tensor = arena_alloc(&t->a, room * sizeof *tensor);
    for (int i = 0; i < n; i++) {
        name[i] = qn_module_name(m, i);
        tensor[i] = qn_module_parameters(m)[i];
    }
    for (int i = 0; i < more; i++) {
        name[n + i] = optimizer_name(&t->a, state, i);
        tensor[n + i] = qn_module_parameters(state)[i];
    }
    n += more;
    if (state) {
        name[n] = "losses";
        tensor[n++] = qn_from(t->qn, QN_F32, 1, &t->p->steps, t->p->loss);
    }
    const char *const metadata[] = {"format",
                                    "pt",
                                    "quern.model",
                                    model_kind,
                                    "quern.config",
                                    t->config.s,
                                    "quern.characters",
                                    t->characters.s,
                                    "quern.held_out_loss",
                                    t->loss.s,
                                    "quern.progress",
                                    t->progress.s};
    if (qn_save(t->qn, t->path, n, name, tensor,
                &QN_SAVE_OPTIONS(.pairs = PAIRS - !state, .metadata = metadata)))
        heap_unwind(&t->qn->heap);
}

static int save(const model *m, const char *path, double held_out_loss, const model_progress *p) {
    qn_ctx *qn = qn_context(qn_module_parameters(qn_gpt_module(m->gpt))[0]);
    saving t = {.m = m, .held_out_loss = held_out_loss, .p = p, .qn = qn, .path = path};
    qn_scope scope = qn_scope_begin(qn);
    open_texts(&t);
    int code = guarded(qn, save_work, &t);
    arena_free(&t.a);
    qn_scope_end(qn, scope);
    return code;
}

int model_save(const model *m, const char *path, double held_out_loss) {
    return save(m, path, held_out_loss, NULL);
}

int model_save_progress(const model *m, const char *path, const model_progress *p) {
    return save(m, path, NAN, p);
}

/* ---- loading ------------------------------------------------------------------------------ */

typedef struct reading {
    qn_ctx *qn;
    arena a;
    const qn_file *file;
    const char *path;
    model *m;
} reading;

QN_NORETURN static void not_a_model(const reading *r, const char *what) {
    raise_error(r->qn, QN_EFORMAT,
                "%s: not a model of quern train: \"%s\" of its metadata is missing or wrong",
                r->path, what);
}

static const json *read_text(reading *r, const char *key) {
    const char *text = qn_file_text(r->file, key);
    json_fault fault;
    const json *v = text ? json_parse(&r->a, text, strlen(text), &fault) : NULL;
    if (!v) not_a_model(r, key);
    return v;
}

static int64_t read_size(reading *r, const json *config, const char *key, int64_t most) {
    int64_t value;
    if (!json_int(json_member(config, key), &value) || value < 1 || value > most)
        not_a_model(r, key);
    return value;
}

static void read_model(void *arg) {
    reading *r = arg;
    const char *kind = qn_file_text(r->file, "quern.model");
    if (kind && model_named(kind))
        raise_error(r->qn, QN_EFORMAT,
                    "%s: a model of quern train %s; only the character-level GPT is continued",
                    r->path, kind);
    if (!kind || strcmp(kind, model_kind) != 0) not_a_model(r, "quern.model");
    const json *config = read_text(r, "quern.config");
    const json *characters = read_text(r, "quern.characters");
    qn_gpt_config *c = &r->m->config;
    *c = QN_GPT_CONFIG();
    c->context = read_size(r, config, "context", 1 << 20);
    c->layers = read_size(r, config, "layers", 1 << 12);
    c->heads = read_size(r, config, "heads", 1 << 12);
    c->width = read_size(r, config, "width", 1 << 20);
    c->vocabulary = characters->count;
    if (characters->kind != JSON_ARRAY || c->vocabulary < 1) not_a_model(r, "quern.characters");
    r->m->character = calloc((size_t)c->vocabulary, sizeof *r->m->character);
    if (!r->m->character) raise_error(r->qn, QN_ENOMEM, "%s: out of memory", r->path);
    int64_t before = -1, value;
    size_t i = 0;
    for (const json *v = characters->first; v; v = v->next, before = value) {
        if (!json_int(v, &value) || value <= before || value > 0x10ffff)
            not_a_model(r, "quern.characters");
        r->m->character[i++] = (uint32_t)value;
    }
}

/* ---- going on ----------------------------------------------------------------------------- */

typedef struct resuming {
    saving t; /* what this model's texts would be */
    qn_file *file;
    model_progress *p;
} resuming;

QN_NORETURN static void does_not_fit(const resuming *r, const char *what) {
    raise_error(r->t.qn, QN_EFORMAT, "%s: no checkpoint of this training: %s", r->t.path, what);
}

static void same_text(const resuming *r, const char *key, const char *own) {
    const char *text = qn_file_text(r->file, key);
    if (!text || strcmp(text, own) != 0) does_not_fit(r, key);
}

/* A tensor's value into memory from the arena; its numel must be that. */
static void *read_value(resuming *r, const char *name, qn_dtype dtype, int64_t numel) {
    qn_tensor *t = qn_file_tensor(r->file, name);
    if (!t) heap_unwind(&r->t.qn->heap);
    if (qn_dtype_of(t) != dtype || qn_numel(t) != numel) does_not_fit(r, name);
    size_t size = (size_t)numel * qn_dtype_size(dtype);
    void *data = arena_alloc(&r->t.a, size + 1);
    if (qn_read(t, data, size)) heap_unwind(&r->t.qn->heap);
    return data;
}

static void read_progress(resuming *r) {
    json_fault fault;
    const char *text = qn_file_text(r->file, "quern.progress");
    const json *v = text ? json_parse(&r->t.a, text, strlen(text), &fault) : NULL;
    const json *seconds = json_member(v, "seconds");
    if (!v || !json_int(json_member(v, "steps"), &r->p->steps) || r->p->steps < 1 || !seconds ||
        seconds->kind != JSON_NUMBER)
        does_not_fit(r, "quern.progress");
    r->p->seconds = strtod(seconds->text, NULL);
    if (!(r->p->seconds >= 0 && r->p->seconds < 1e12)) does_not_fit(r, "quern.progress");
    if (r->p->steps > r->p->steps_most)
        raise_error(r->t.qn, QN_EARG, "%s: it has %lld steps already, more than --steps", r->t.path,
                    (long long)r->p->steps);
}

/* All is read before anything is changed. */
static void resume_work(void *arg) {
    resuming *r = arg;
    write_texts(&r->t);
    r->file = qn_file_open(r->t.qn, r->t.path);
    if (!r->file) heap_unwind(&r->t.qn->heap);
    same_text(r, "quern.model", model_kind);
    same_text(r, "quern.config", r->t.config.s);
    same_text(r, "quern.characters", r->t.characters.s);
    read_progress(r);
    qn_module *state = qn_optimizer_state(r->p->optimizer);
    int n = qn_module_count(state);
    void **value = arena_alloc(&r->t.a, (size_t)n * sizeof *value);
    for (int i = 0; i < n; i++) {
        const qn_tensor *p = qn_module_parameters(state)[i];
        value[i] = read_value(r, optimizer_name(&r->t.a, state, i), qn_dtype_of(p), qn_numel(p));
    }
    float *loss = read_value(r, "losses", QN_F32, r->p->steps);
    if (qn_module_load(qn_gpt_module(r->t.m->gpt), r->file)) heap_unwind(&r->t.qn->heap);
    for (int i = 0; i < n; i++) {
        qn_tensor *p = qn_module_parameters(state)[i];
        size_t size = (size_t)qn_numel(p) * qn_dtype_size(qn_dtype_of(p));
        if (qn_write(p, value[i], size)) heap_unwind(&r->t.qn->heap);
    }
    memcpy(r->p->loss, loss, (size_t)r->p->steps * sizeof *loss);
}

int model_load_progress(const model *m, const char *path, model_progress *p) {
    qn_ctx *qn = qn_context(qn_module_parameters(qn_gpt_module(m->gpt))[0]);
    resuming r = {.t = {.m = m, .held_out_loss = NAN, .qn = qn, .path = path}, .p = p};
    qn_scope scope = qn_scope_begin(qn);
    open_texts(&r.t);
    int code = guarded(qn, resume_work, &r);
    arena_free(&r.t.a);
    qn_file_close(r.file);
    qn_scope_end(qn, scope);
    return code;
}

bool model_load(model *m, qn_ctx *qn, const char *path) {
    *m = (model){0};
    qn_file *file = qn_file_open(qn, path);
    reading r = {.qn = qn, .file = file, .path = path, .m = m};
    arena_open(&r.a, &qn->heap);
    bool fine = file && guarded(qn, read_model, &r) == QN_OK;
    arena_free(&r.a);
    if (fine) m->gpt = qn_gpt_new(qn, 0, &m->config);
    fine = fine && m->gpt && qn_module_load(qn_gpt_module(m->gpt), file) == QN_OK;
    qn_file_close(file);
    if (!fine) {
        fprintf(stderr, "quern: %s\n", qn_error(qn));
        model_close(m);
    }
    return fine;
}

void model_close(model *m) {
    qn_gpt_free(m->gpt);
    free(m->character);
    *m = (model){0};
}
