/* model.c - the files that `quern train` writes and `quern generate` reads.
 *
 * The weights are a plain safetensors file; what else it takes to use them is in its metadata:
 * "quern.model" says what it is, "quern.config" the sizes as a JSON object, "quern.characters" the
 * vocabulary as a JSON list of code points, and "quern.held_out_loss" what the training reached.
 * None of it is believed before it is checked: sizes within bounds, characters ascending, and the
 * weights' shapes must be those that the sizes ask for. */
#include "cli/cli.h"
#include "io/io.h"

#include <math.h>
#include <stdlib.h>

static const char model_kind[] = "character gpt 1";

/* ---- saving ------------------------------------------------------------------------------- */

typedef struct texts {
    str config, characters, loss;
    const model *m;
    double held_out_loss;
} texts;

static void write_texts(void *arg) {
    texts *t = arg;
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
}

int model_save(const model *m, const char *path, double held_out_loss) {
    qn_module *module = qn_gpt_module(m->gpt);
    qn_ctx *qn = qn_context(qn_module_parameters(module)[0]);
    texts t = {.m = m, .held_out_loss = held_out_loss};
    str_open(&t.config, &qn->heap);
    str_open(&t.characters, &qn->heap);
    str_open(&t.loss, &qn->heap);
    int code = io_guarded(qn, write_texts, &t);
    const char *const metadata[] = {"format",
                                    "pt",
                                    "quern.model",
                                    model_kind,
                                    "quern.config",
                                    t.config.s,
                                    "quern.characters",
                                    t.characters.s,
                                    "quern.held_out_loss",
                                    t.loss.s};
    if (!code) code = qn_module_save(module, path, COUNT_OF(metadata) / 2, metadata);
    str_free(&t.config);
    str_free(&t.characters);
    str_free(&t.loss);
    return code;
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
    raise_error(r->qn, QN_EFORMAT, "%s: not a model of quern train: %s", r->path, what);
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
    if (!kind || strcmp(kind, model_kind) != 0) not_a_model(r, "quern.model");
    const json *config = read_text(r, "quern.config");
    const json *characters = read_text(r, "quern.characters");
    qn_gpt_config *c = &r->m->config;
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

bool model_load(model *m, qn_ctx *qn, const char *path) {
    *m = (model){0};
    qn_file *file = qn_load(qn, path);
    reading r = {.qn = qn, .file = file, .path = path, .m = m};
    arena_open(&r.a, &qn->heap);
    bool fine = file && io_guarded(qn, read_model, &r) == QN_OK;
    arena_free(&r.a);
    if (fine) m->gpt = qn_gpt_new(qn, &m->config, 0);
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
