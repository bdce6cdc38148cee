/* data.c - batches for a model: from files of arrays, a text or tokens, or a graph.
 *
 * A field of the data is an input of the model by its name, or else by its place. It is brought to
 * what the model takes: numbers to f32, of which bytes are divided by 255 or as --scale says;
 * labels to i32; an axis of one channel is added, rows are flattened. Labels are looked at before
 * they are used: one that is none is an error with its value.
 *
 * What is held out is drawn by the seed of samples that are shuffled, and is the end of a text. */
#include "base/base.h"
#include "cli/train/named.h"
#include "quern_archive.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool data_fail(train_data *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool data_fail(train_data *d, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (!*d->why) vsnprintf(d->why, sizeof d->why, fmt, args);
    va_end(args);
    return false;
}

const char *data_error(const train_data *d) {
    return *d->why ? d->why : *d->n->why ? d->n->why : qn_error(d->qn);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *const *ends) {
    size_t length = strlen(path);
    for (; *ends; ends++) {
        size_t end = strlen(*ends);
        if (length > end && !strcmp(path + length - end, *ends)) return true;
    }
    return false;
}

static qn_tokenizer *open_tokenizer(train_data *d, const char *path) {
    size_t size;
    char *text = cli_read_file(path, &size);
    qn_tokenizer *t = text ? qn_tokenizer_open(d->qn, text, size) : NULL;
    if (!text) data_fail(d, "%s: %s", path, strerror(errno));
    free(text);
    return t;
}

/* A long sequence: a text that a tokenizer makes into tokens, or tokens as they are. */
static qn_dataset *open_tokens(train_data *d) {
    static const struct {
        const char *name;
        qn_dtype dtype;
    } kinds[] = {{"u8", QN_U8}, {"u16", QN_U16}, {"i32", QN_I32}};
    const named_options *o = d->o;
    int64_t context = net_size(d->n, "context");
    qn_tokens_options how = QN_TOKENS_OPTIONS(.window = o->window ? o->window : context);
    if (o->window > context)
        return data_fail(d, "--window %lld is beyond the context of %lld", (long long)o->window,
                         (long long)context),
               NULL;
    for (int i = 0; i < 3; i++)
        if (!strcmp(o->tokens, kinds[i].name)) how.dtype = kinds[i].dtype;
    if (!how.dtype) return data_fail(d, "--tokens %s: not u8, u16 or i32", o->tokens), NULL;
    if (o->tokenizer && !(how.tokenizer = open_tokenizer(d, o->tokenizer))) return NULL;
    qn_dataset *all = qn_dataset_tokens(d->qn, o->data, &how);
    if (how.tokenizer) qn_tokenizer_close(how.tokenizer);
    return all;
}

static qn_dataset *open_all(train_data *d) {
    static const char *const arrays[] = {".npy", ".npz", ".safetensors", ".idx", NULL};
    if (d->n->row->data == MODEL_TOKENS && !ends_with(d->o->data, arrays)) return open_tokens(d);
    qn_dataset *file = qn_dataset_open(d->qn, d->o->data);
    if (!d->o->labels || !file) return file;
    qn_dataset *both[2] = {file, qn_dataset_open(d->qn, d->o->labels)};
    qn_dataset *all = both[1] ? qn_dataset_zip(2, both) : NULL;
    for (int i = 0; i < 2; i++)
        if (both[i]) qn_dataset_close(both[i]);
    return all;
}

/* Which field is which input: by names if all that are needed are there, else by places. */
static bool match_fields(train_data *d, qn_dataset *all) {
    const model_row *row = d->n->row;
    char has[200] = "", needs[200] = "";
    bool named = true;
    int needed = 0;
    d->fields = qn_dataset_fields(all);
    for (int i = 0; i < row->inputs; i++) {
        qn_data_field f;
        d->at[i] = -1;
        for (int k = 0; k < d->fields; k++)
            if (!qn_dataset_get_field(all, k, &f, sizeof f) && !strcmp(f.name, row->input[i].name))
                d->at[i] = k;
        named &= d->at[i] >= 0 || row->input[i].optional;
        needed += !row->input[i].optional;
        snprintf(needs + strlen(needs), sizeof needs - strlen(needs), " %s", row->input[i].name);
    }
    if (named) return true;
    for (int i = 0; i < row->inputs; i++) d->at[i] = i < needed && i < d->fields ? i : -1;
    if (d->fields >= needed) return true;
    for (int k = 0; k < d->fields; k++) {
        qn_data_field f;
        if (!qn_dataset_get_field(all, k, &f, sizeof f))
            snprintf(has + strlen(has), sizeof has - strlen(has), " %s", f.name);
    }
    return data_fail(d, "%s: has%s, %s takes%s", d->o->data, has, row->name, needs);
}

/* The samples in two parts. */
static bool split(train_data *d, qn_dataset *all) {
    int64_t n = qn_dataset_count(all), held = (int64_t)((double)n * d->o->held_out);
    int64_t *index = malloc((size_t)(n + 1) * sizeof *index);
    if (!index) return data_fail(d, "out of memory");
    bool shuffled = d->n->row->data == MODEL_SAMPLES;
    for (int64_t i = 0; i < n; i++)
        index[i] = shuffled ? qn_shuffled(n, (uint64_t)d->o->seed, 0, i) : i;
    d->part[0] = qn_dataset_part(all, n - held, index);
    if (held) d->part[1] = qn_dataset_part(all, held, index + n - held);
    free(index);
    return d->part[0] && (!held || d->part[1]);
}

static bool open_samples(train_data *d) {
    qn_dataset *all = open_all(d);
    bool fine = all && match_fields(d, all) && split(d, all);
    if (all) qn_dataset_close(all);
    if (!fine) return false;
    if (qn_dataset_count(d->part[0]) < d->o->batch)
        return data_fail(d, "%s: %lld samples to train with are too few for batches of %lld",
                         d->o->data, (long long)qn_dataset_count(d->part[0]),
                         (long long)d->o->batch);
    qn_loader_options how = QN_LOADER_OPTIONS(.batch = d->o->batch, .shuffle = true,
                                              .drop_last = true, .seed = (uint64_t)d->o->seed);
    d->loader[0] = qn_loader_new(d->part[0], &how);
    how.shuffle = how.drop_last = false;
    if (d->part[1]) d->loader[1] = qn_loader_new(d->part[1], &how);
    return d->loader[0] && (!d->part[1] || d->loader[1]);
}

/* ---- a batch -------------------------------------------------------------------------------- */

static int axes_of(const char *shape) {
    int axes = 0;
    for (; *shape; shape += strcspn(shape, " "), shape += *shape == ' ') axes++;
    return axes;
}

static qn_tensor *fitted(const train_data *d, const model_input *x, qn_tensor *t) {
    int axes = axes_of(x->shape);
    qn_dtype is = qn_dtype_of(t);
    double scale = d->o->scale > 0 ? d->o->scale : is == QN_U8 ? 1.0 / 255 : 1;
    if (!x->whole) {
        t = qn_cast(t, QN_F32);
        if (scale != 1) t = qn_mul(t, qn_weak(t, scale));
    } else if (dtype_is_known(is) && !dtype_is_float(is)) {
        t = qn_cast(t, QN_I32);
    }
    if (qn_rank(t) + 1 == axes) return qn_unsqueeze(t, 1);
    return axes == 2 && qn_rank(t) > 2 ? qn_flatten(t, 1, -1) : t;
}

/* Is every label one? */
static bool within(train_data *d, int i, qn_tensor *const *in) {
    const model_input *x = &d->n->row->input[i];
    qn_tensor *t = in[i];
    int64_t most = x->whole && x->below && t ? net_size_in(d->n, x->below, in) : -1;
    int64_t n = most < 0 ? 0 : qn_numel(t);
    if (most < 0 || qn_dtype_of(t) != QN_I32) return true;
    int32_t *value = malloc((size_t)(n + 1) * sizeof *value);
    bool fine = value || data_fail(d, "out of memory");
    fine = fine && !qn_read(t, value, (size_t)n * sizeof *value);
    for (int64_t k = 0; fine && k < n; k++)
        if (value[k] < 0 || value[k] >= most)
            fine = data_fail(d, "%s: a number of %s is %d, not from 0 to %lld, which is %s less 1",
                             d->o->data, x->name, (int)value[k], (long long)most - 1, x->below);
    free(value);
    return fine;
}

static bool all_within(train_data *d, qn_tensor *const *in) {
    bool fine = true;
    for (int i = 0; i < d->n->row->inputs && fine; i++) fine = within(d, i, in);
    return fine;
}

/* What was gathered as the model's inputs. */
static bool inputs_of(train_data *d, qn_tensor *const *field, qn_tensor *in[MODEL_MOST_INPUTS]) {
    const model_row *row = d->n->row;
    for (int i = 0; i < row->inputs; i++) {
        in[i] = d->at[i] < 0 ? NULL : fitted(d, &row->input[i], field[d->at[i]]);
        if (d->at[i] >= 0 && !in[i]) return false;
    }
    return all_within(d, in);
}

int data_next(train_data *d, int part, qn_tensor *in[MODEL_MOST_INPUTS]) {
    qn_tensor *field[64];
    int64_t rows = 0;
    if (d->n->row->data == MODEL_GRAPH) {
        memcpy(in, d->graph, sizeof d->graph);
        d->judged = part && !d->judged;
        return !part || d->judged;
    }
    for (int turn = 0; turn < 2 && !rows; turn++) {
        rows = qn_loader_next(d->loader[part], field);
        if (part) break; /* an epoch is all there is of it */
    }
    if (rows <= 0) return rows < 0 ? -1 : 0;
    return inputs_of(d, field, in) ? 1 : -1;
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* The array of an input, as the model takes it; NULL where there is none, or with an error. */
static qn_tensor *open_array(train_data *d, const qn_archive *file, const model_input *x) {
    bool there = false;
    for (int k = 0; k < qn_archive_count(file); k++)
        there |= !strcmp(qn_archive_name(file, k), x->name);
    if (!there && !x->optional) data_fail(d, "%s: has no array \"%s\"", d->o->data, x->name);
    if (!there) return NULL;
    qn_scope scope = qn_scope_begin(d->qn);
    qn_tensor *t = qn_archive_tensor(file, x->name);
    t = t ? fitted(d, x, t) : NULL;
    t = t && !qn_realize(1, &t) ? qn_keep(t) : NULL;
    qn_scope_end(d->qn, scope);
    return t;
}

static bool open_graph(train_data *d) {
    const model_row *row = d->n->row;
    qn_archive *file = qn_archive_open(d->qn, d->o->data);
    for (int i = 0; file && i < row->inputs; i++) d->graph[i] = open_array(d, file, &row->input[i]);
    if (file) qn_archive_close(file);
    return file && !*d->why && !qn_error_code(d->qn) && all_within(d, d->graph);
}

/* ---- the whole ------------------------------------------------------------------------------ */

int64_t data_samples(const train_data *d, int part) {
    if (d->n->row->data == MODEL_GRAPH) return part ? 0 : qn_dim(d->graph[0], 0);
    return d->part[part] ? qn_dataset_count(d->part[part]) : 0;
}

/* Of a graph, what all that may be left out is there to say. */
bool data_judges(const train_data *d) {
    bool all = d->n->row->data == MODEL_GRAPH;
    for (int i = 0; i < d->n->row->inputs; i++) all &= d->graph[i] != NULL;
    return all || d->loader[1];
}

bool data_open(train_data *d, net *n, const named_options *o) {
    *d = (train_data){.qn = n->qn, .n = n, .o = o};
    bool fine = n->row->data == MODEL_GRAPH ? open_graph(d) : open_samples(d);
    if (!fine && n->row->data != MODEL_TOKENS && qn_error_code(d->qn) == QN_EFORMAT)
        data_fail(d, "%s; %s learns arrays of an npz, npy, safetensors or idx file",
                  qn_error(d->qn), n->row->name);
    if (!fine) cli_failed("train", "%s", data_error(d));
    return fine;
}

void data_close(train_data *d) {
    for (int i = 0; i < 2; i++) {
        if (d->loader[i]) qn_loader_free(d->loader[i]);
        if (d->part[i]) qn_dataset_close(d->part[i]);
    }
    for (int i = 0; i < MODEL_MOST_INPUTS; i++)
        if (d->graph[i]) qn_release(d->graph[i]);
}
