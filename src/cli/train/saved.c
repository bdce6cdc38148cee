/* saved.c - any model of `quern train`, from its file to what it makes of a batch: for commands
 * that look at the graph of that or write it down.
 *
 * The character-level GPT takes ids of its whole context. A model by its name is made by the config
 * in the metadata, and takes tensors of the shapes that its row says: a size is a field of the
 * config, its longest window, or as in the batches it was trained on, like the height and width of
 * images; those stand under "quern.sizes". Training is over: nothing is dropped, statistics stay as
 * they are, and noise is an input. */
#include "cli/train/named.h"
#include "io/io.h"

#include <stdlib.h>

/* ---- sizes ---------------------------------------------------------------------------------- */

static const char rows_word[] = "N"; /* of a batch: as many as there are */

/* The word at `at`, and behind it what follows; "<context" is the context. */
static const char *next_size(const char *at, char word[32]) {
    size_t length = strcspn(at += *at == '<', " ");
    snprintf(word, 32, "%.*s", (int)length, at);
    return at + length + (at[length] == ' ');
}

void sizes_write(const net *n, qn_tensor *const *in, char *out, size_t size) {
    char word[32], quoted[40];
    snprintf(out, size, "{");
    for (int i = 0; i < n->row->inputs; i++) {
        for (const char *at = n->row->input[i].shape; *at && !n->row->input[i].learns;) {
            at = next_size(at, word);
            int64_t is = net_size_in(n, word, in);
            snprintf(quoted, sizeof quoted, "\"%s\":", word);
            if (net_size(n, word) >= 0 || is < 0 || !strcmp(word, rows_word) || strstr(out, quoted))
                continue;
            size_t used = strlen(out);
            snprintf(out + used, size - used, "%s%s%lld", used > 1 ? "," : "", quoted,
                     (long long)is);
        }
    }
    snprintf(out + strlen(out), size - strlen(out), "}");
}

/* ---- a model by its name -------------------------------------------------------------------- */

typedef struct opening {
    qn_ctx *qn;
    arena a;
    const char *path;
    const qn_file *file;
    const model_row *row;
    int64_t batch;
    trained *t;
} opening;

QN_NORETURN static void lacks(const opening *o, const char *what) {
    raise_error(o->qn, QN_EFORMAT, "%s: a model of quern train %s, but \"%s\" is not said", o->path,
                o->row->name, what);
}

static void make_net(opening *o) {
    static const char key[] = "quern.config";
    const char *text = qn_file_text(o->file, key);
    void *config = arena_zeroed(&o->a, o->row->config);
    model_why why;
    if (!text) lacks(o, key);
    model_usual(o->row, config);
    if (fields_of_text(o->qn, o->row, o->path, text, strlen(text), config))
        heap_unwind(&o->qn->heap);
    net *n = o->t->net = net_new(o->qn, 0, o->row, config, &why);
    if (!n) raise_error(o->qn, QN_EFORMAT, "%s: %s", o->path, why.text);
    if (qn_module_load(n->module, o->file)) heap_unwind(&o->qn->heap);
    net_train(n, false);
}

static qn_tensor *make_zeros(const opening *o, const model_input *x, const json *sizes) {
    int64_t shape[QN_MAX_RANK];
    char word[32];
    int rank = 0;
    size_t bytes;
    for (const char *at = x->shape; *at; rank++) {
        at = next_size(at, word);
        int64_t size = strcmp(word, rows_word) ? net_size(o->t->net, word) : o->batch;
        if (size < 0 && (!json_int(json_member(sizes, word), &size) || size < 1)) lacks(o, word);
        shape[rank] = size;
    }
    qn_dtype dtype = x->whole ? QN_I32 : QN_F32;
    bool fits = checked_bytes(rank, shape, qn_dtype_size(dtype), &bytes);
    void *zeros = fits ? calloc(bytes + 1, 1) : NULL;
    if (!zeros) raise_error(o->qn, QN_ENOMEM, "%s: out of memory for %s", o->path, x->name);
    qn_tensor *t = qn_from(o->qn, dtype, rank, shape, zeros);
    free(zeros);
    if (!t || qn_set_name(t, x->name)) heap_unwind(&o->qn->heap);
    return t;
}

static void open_work(void *arg) {
    opening *o = arg;
    trained *t = o->t;
    json_fault fault;
    qn_tensor *in[MODEL_MOST_INPUTS] = {NULL};
    const char *text = qn_file_text(o->file, "quern.sizes");
    const json *sizes = text ? json_parse(&o->a, text, strlen(text), &fault) : NULL;
    make_net(o);
    for (int i = 0; i < o->row->inputs; i++) {
        const model_input *x = &o->row->input[i];
        if (x->learns) continue;
        in[i] = make_zeros(o, x, sizes);
        t->name[t->inputs] = x->name;
        t->in[t->inputs++] = in[i];
    }
    t->out = net_forward(t->net, in);
    if (!t->out) raise_error(o->qn, QN_EFORMAT, "%s: %s", o->path, net_error(t->net));
}

/* ---- the character-level GPT ---------------------------------------------------------------- */

static bool run_gpt(trained *t, qn_ctx *qn, const char *command, int64_t batch) {
    const int64_t shape[2] = {batch, t->gpt.config.context};
    int32_t *none = calloc((size_t)(shape[0] * shape[1]), sizeof *none);
    if (!none) return cli_failed(command, "out of memory"), false;
    t->inputs = 1;
    t->name[0] = "ids";
    t->in[0] = qn_from(qn, QN_I32, 2, shape, none);
    free(none);
    if (t->in[0] && !qn_set_name(t->in[0], "ids")) t->out = qn_gpt_forward(t->gpt.gpt, t->in[0]);
    if (!t->out) cli_failed(command, "%s", qn_error(qn));
    return t->out;
}

/* ---- either --------------------------------------------------------------------------------- */

bool trained_open(trained *t, qn_ctx *qn, const char *command, const char *path, int64_t batch) {
    *t = (trained){.net = NULL};
    qn_file *file = qn_file_open(qn, path);
    const char *kind = file ? qn_file_text(file, "quern.model") : NULL;
    opening o = {.qn = qn, .path = path, .file = file, .batch = batch, .t = t};
    o.row = kind ? model_named(kind) : NULL;
    if (!o.row) {
        qn_file_close(file);
        if (!file) return cli_failed(command, "%s", qn_error(qn)), false;
        return model_load(&t->gpt, qn, path) && run_gpt(t, qn, command, batch);
    }
    arena_open(&o.a, &qn->heap);
    int code = guarded(qn, open_work, &o);
    arena_free(&o.a);
    qn_file_close(file);
    if (code) cli_failed(command, "%s", qn_error(qn));
    return !code;
}

void trained_close(trained *t) {
    net_free(t->net);
    model_close(&t->gpt);
}
