/* model.c - the table of models, their configs, and what all nets have in common.
 *
 * A batch is checked before a model sees it: each tensor's kind, its number of axes, and every size
 * against the word that the row's shape has there. A word is looked up in the config first; what
 * is no field is bound to the first size that it meets. */
#include "models/model.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const model_row *const rows[] = {
#define MODEL(name) &model_##name,
#include "models/models.h"
#undef MODEL
};

const model_row *model_at(int i) {
    return i >= 0 && (size_t)i < sizeof rows / sizeof rows[0] ? rows[i] : NULL;
}

const model_row *model_named(const char *name) {
    for (int i = 0; model_at(i); i++)
        if (strcmp(rows[i]->name, name) == 0) return rows[i];
    return NULL;
}

/* ---- configs -------------------------------------------------------------------------------- */

static void put(void *config, const model_field *f, double value) {
    int64_t whole = f->whole ? (int64_t)value : 0;
    if (f->whole)
        memcpy((char *)config + f->at, &whole, sizeof whole);
    else
        memcpy((char *)config + f->at, &value, sizeof value);
}

double model_get(const model_row *row, const void *config, int i) {
    const model_field *f = &row->field[i];
    int64_t whole = 0;
    double value = 0;
    memcpy(f->whole ? (void *)&whole : &value, (const char *)config + f->at, sizeof value);
    return f->whole ? (double)whole : value;
}

void model_usual(const model_row *row, void *config) {
    memset(config, 0, row->config);
    for (int i = 0; i < row->fields; i++) put(config, &row->field[i], row->field[i].usual);
}

static const model_field *field_of(const model_row *row, const char *name, size_t length) {
    for (int i = 0; i < row->fields; i++)
        if (strlen(row->field[i].name) == length && !memcmp(row->field[i].name, name, length))
            return &row->field[i];
    return NULL;
}

/* Text behind what is there, as much as there is room for. */
static void append(char *text, size_t room, const char *fmt, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, room - used, fmt, args);
    va_end(args);
}

static bool no_field(const model_row *row, const char *name, model_why *why) {
    snprintf(why->text, sizeof why->text, "%s has no field \"%.40s\", it has", row->name, name);
    for (int i = 0; i < row->fields; i++)
        append(why->text, sizeof why->text, "%s %s", i ? "," : "", row->field[i].name);
    return false;
}

bool model_set(const model_row *row, void *config, const char *name, const char *text,
               model_why *why) {
    const model_field *f = field_of(row, name, strlen(name));
    char *end = NULL;
    if (!f) return no_field(row, name, why);
    errno = 0;
    double value = f->whole ? (double)strtoll(text, &end, 10) : strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value)) {
        const char *quote = *text == '"' ? "" : "\"";
        snprintf(why->text, sizeof why->text, "%s: %s is %s%.40s%s, not a %s from %.15g to %.15g",
                 row->name, name, quote, text, quote, f->whole ? "whole number" : "number",
                 f->least, f->most);
        return false;
    }
    if (value < f->least || value > f->most) {
        snprintf(why->text, sizeof why->text, "%s: %s is %.40s, not from %.15g to %.15g", row->name,
                 name, text, f->least, f->most);
        return false;
    }
    put(config, f, value);
    return true;
}

/* ---- a net's life --------------------------------------------------------------------------- */

bool net_fail(net *n, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (!*n->why) {
        snprintf(n->why, sizeof n->why, "%s: ", n->row->name);
        size_t used = strlen(n->why);
        vsnprintf(n->why + used, sizeof n->why - used, fmt, args);
    }
    va_end(args);
    return false;
}

const char *net_error(const net *n) {
    return *n->why ? n->why : qn_error(n->qn);
}

typedef struct room {
    struct room *next;
    max_align_t data[];
} room;

void *net_room(net *n, int64_t count, size_t size) {
    size_t bytes;
    bool fits = count >= 0 && !__builtin_mul_overflow((size_t)count, size, &bytes) &&
                bytes < SIZE_MAX - sizeof(room);
    room *r = fits ? calloc(1, sizeof(room) + bytes) : NULL;
    if (!r) return net_fail(n, "out of memory"), NULL;
    r->next = n->rooms;
    n->rooms = r;
    return r->data;
}

const char *net_name(net *n, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(n->name, sizeof n->name, fmt, args);
    va_end(args);
    return n->name;
}

void net_next_turn(net *n) {
    if (n->turn + 1 < MODEL_MOST_TURNS) n->first[++n->turn] = qn_module_count(n->module);
}

net *net_new(qn_ctx *qn, uint64_t seed, const model_row *row, const void *config, model_why *why) {
    net *n = calloc(1, sizeof *n);
    if (!n) return snprintf(why->text, sizeof why->text, "%s: out of memory", row->name), NULL;
    *n = (net){.row = row, .qn = qn, .training = true};
    n->config = net_room(n, 1, row->config);
    n->parts = net_room(n, 1, row->parts);
    if (n->config) memcpy(n->config, config, row->config);
    qn_scope scope = qn_scope_begin(qn);
    n->module = n->config && n->parts ? qn_module_new(qn, seed) : NULL;
    bool made = n->module && row->make(n) && !qn_error_code(qn);
    int count = made ? qn_module_count(n->module) : 0;
    n->first[n->turn + 1] = count;
    made = made && !qn_realize(count, qn_module_parameters(n->module));
    qn_scope_end(qn, scope);
    if (made) return n;
    snprintf(why->text, sizeof why->text, "%s", net_error(n));
    net_free(n);
    return NULL;
}

void net_free(net *n) {
    if (!n) return;
    if (n->module) qn_module_free(n->module);
    for (room *r = n->rooms, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(n);
}

void net_train(net *n, bool training) {
    n->training = training;
    qn_module_train(n->module, training);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* The sizes that free words stand for in a batch. */
typedef struct sizes {
    int count;
    struct {
        const char *word;
        size_t length;
        int64_t size;
    } known[12];
} sizes;

static int64_t size_of(const net *n, const char *word, size_t length) {
    if (*word >= '0' && *word <= '9') return strtoll(word, NULL, 10);
    const model_field *f = field_of(n->row, word, length);
    return f && f->whole ? (int64_t)model_get(n->row, n->config, (int)(f - n->row->field)) : -1;
}

int64_t net_size(const net *n, const char *word) {
    return size_of(n, word + (*word == '<'), strlen(word + (*word == '<')));
}

int64_t net_size_in(const net *n, const char *word, qn_tensor *const *in) {
    int64_t size = net_size(n, word);
    for (int i = 0; i < n->row->inputs && size < 0; i++) {
        int axis = 0;
        for (const char *at = n->row->input[i].shape; *at && in[i]; axis++) {
            size_t length = strcspn(at, " ");
            if (length == strlen(word) && !memcmp(at, word, length) && axis < qn_rank(in[i]))
                size = qn_dim(in[i], axis);
            at += length + (at[length] == ' ');
        }
    }
    return size;
}

/* What a free word stands for, from now on `size` where it is new. */
static int64_t bound(sizes *s, const char *word, size_t length, int64_t size) {
    for (int i = 0; i < s->count; i++)
        if (s->known[i].length == length && !memcmp(s->known[i].word, word, length))
            return s->known[i].size;
    if (s->count < 12) {
        s->known[s->count].word = word;
        s->known[s->count].length = length;
        s->known[s->count++].size = size;
    }
    return size;
}

/* "images is [4, 1, 8, 8], not [N, channels = 3, H, W]" */
static bool misfit(net *n, const model_input *x, qn_tensor *t, sizes *s) {
    char is[128] = "", wanted[160] = "";
    for (int i = 0; i < qn_rank(t); i++)
        append(is, sizeof is, "%s%lld", i ? ", " : "", (long long)qn_dim(t, i));
    for (const char *at = x->shape; *at;) {
        bool most = *at == '<';
        size_t length = strcspn(at += most, " ");
        int64_t size = size_of(n, at, length);
        if (size < 0) size = bound(s, at, length, -1);
        append(wanted, sizeof wanted, "%s%.*s", at - most == x->shape ? "" : ", ", (int)length, at);
        if (size >= 0)
            append(wanted, sizeof wanted, " %s %lld", most ? "<=" : "=", (long long)size);
        at += length + (at[length] == ' ');
    }
    return net_fail(n, "%s is [%s], not [%s]", x->name, is, wanted);
}

static bool fits(net *n, const model_input *x, qn_tensor *t, sizes *s) {
    sizes before = *s;
    int axis = 0, rank = qn_rank(t);
    bool fine = true;
    for (const char *at = x->shape; *at; axis++) {
        bool most = *at == '<';
        size_t length = strcspn(at += most, " ");
        int64_t is = axis < rank ? qn_dim(t, axis) : -1, size = size_of(n, at, length);
        if (size < 0)
            fine &= is == bound(s, at, length, is);
        else
            fine &= most ? is <= size && is == bound(s, at, length, is) : is == size;
        at += length + (at[length] == ' ');
    }
    if (axis != rank || !fine) return misfit(n, x, t, &before);
    qn_dtype wanted = x->whole ? QN_I32 : QN_F32;
    if (qn_dtype_of(t) == wanted) return true;
    return net_fail(n, "%s is of %s, not %s", x->name, qn_dtype_name(qn_dtype_of(t)),
                    qn_dtype_name(wanted));
}

static bool batch_fits(net *n, qn_tensor *const *in, bool learns) {
    sizes s = {0};
    *n->why = 0;
    for (int i = 0; i < n->row->inputs; i++) {
        const model_input *x = &n->row->input[i];
        if (!in[i] && (x->optional || (x->learns && !learns))) continue;
        if (!in[i]) return net_fail(n, "%s is missing", x->name);
        if (!fits(n, x, in[i], &s)) return false;
    }
    return true;
}

qn_tensor *net_loss(net *n, int turn, qn_tensor *const *in) {
    if (!batch_fits(n, in, true)) return NULL;
    qn_scope scope = qn_scope_begin(n->qn);
    return qn_scope_return(n->qn, scope, n->row->loss(n, turn, in));
}

qn_tensor *net_forward(net *n, qn_tensor *const *in) {
    if (!batch_fits(n, in, false)) return NULL;
    qn_scope scope = qn_scope_begin(n->qn);
    return qn_scope_return(n->qn, scope, n->row->forward(n, in));
}

/* ---- for models ----------------------------------------------------------------------------- */

/* Layers draw by other numbers of the same key (qn_module_key). */
qn_tensor *net_key(net *n) {
    enum { OURS = 1 << 20 };
    qn_tensor *key = qn_module_key(n->module), *now = qn_key_fold(key, OURS);
    if (n->training && now && qn_assign(key, qn_key_fold(key, OURS + 1))) return NULL;
    return now;
}

qn_tensor *net_split_heads(qn_tensor *x, int64_t heads) {
    if (!x) return NULL;
    int64_t shape[4] = {qn_dim(x, 0), qn_dim(x, 1), heads, qn_dim(x, 2) / heads};
    return qn_permute(qn_reshape(x, 4, shape), 4, (int[]){0, 2, 1, 3});
}

qn_tensor *net_join_heads(qn_tensor *x) {
    if (!x) return NULL;
    int64_t shape[3] = {qn_dim(x, 0), qn_dim(x, 2), qn_dim(x, 1) * qn_dim(x, 3)};
    return qn_reshape(qn_permute(x, 4, (int[]){0, 2, 1, 3}), 3, shape);
}

qn_tensor *net_attention(net *n, qn_tensor *const qkv[3], const qn_attention_options *how,
                         const qn_layer *drop) {
    if (!n->training || !drop) return qn_attention(qkv[0], qkv[1], qkv[2], how);
    qn_tensor *q = qn_mul(qkv[0], qn_weak(qkv[0], 1 / sqrt((double)qn_dim(qkv[0], 3))));
    qn_tensor *scores = qn_matmul(q, qn_transpose(qkv[1], -2, -1));
    qn_tensor *never = qn_weak(scores, -INFINITY);
    if (how->causal) scores = qn_where(qn_tril(qn_ones_like(scores), 0), scores, never);
    if (how->mask) scores = qn_where(how->mask, scores, never);
    return qn_matmul(qn_layer_forward(drop, qn_softmax(scores, -1)), qkv[2]);
}

qn_layer *net_dropout(net *n, double p) {
    if (!(p > 0)) return NULL;
    return qn_layer_new(n->module, "Dropout", "", &QN_LAYER_OPTIONS(.p = p));
}

qn_tensor *net_drop(const qn_layer *drop, qn_tensor *x) {
    return drop ? qn_layer_forward(drop, x) : x;
}
