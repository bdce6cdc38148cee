/* kinds.c - layers of any kind: rows by name, their options, made in a module, and applied.
 *
 * A row's arguments are PyTorch's signature as text; each names a field of the options by
 * arguments.h. What is 0 there gets the default that the text says, once, when the options are
 * read: functions of rows see what is meant. In training a layer that changes tensors of its own,
 * running statistics, records their new values, which qn_layer_forward assigns; what is drawn
 * follows from one key, which the module's next draw finds changed. */
#include "graph/graph.h"
#include "nn/layers/layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- rows ----------------------------------------------------------------------------------- */

static const layer_row rows[] = {
#define LAYER(name, arguments, tensors, apply, space, least, most, results, doc)                   \
    {#name, arguments, tensors, apply, {NULL}, space, least, most, results},
#define UNARY(name, arguments, apply, member, function, doc)                                       \
    {#name, arguments, NULL, apply, {.member = function}, 0, 1, 1, 1},
#include "nn/layers/rows.h"
#undef LAYER
#undef UNARY
};

const layer_row *layer_row_of(qn_ctx *qn, const char *call, const char *kind) {
    nearest x = {.wanted = kind};
    char near[200];
    if (!kind) return fail_null(qn, QN_ENULL, "%s: the kind is NULL", call);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, kind) == 0) return &rows[i];
    for (size_t i = 0; i < COUNT_OF(rows); i++) nearest_offer(&x, rows[i].name);
    return fail_null(qn, QN_EARG, "%s: no kind of layer is called \"%.60s\", there is %s", call,
                     kind, nearest_text(&x, near, sizeof near));
}

/* ---- options -------------------------------------------------------------------------------- */

typedef enum argument_type {
    SIZE,
    SIZES,
    SHAPE,
    PLACE,
    NUMBER,
    YES,
    NOT,
    FLAG,
    WORD
} argument_type;
typedef struct argument {
    char name[24];
    uint16_t at;
    uint8_t type;
} argument;
static const argument arguments[] = {
#define X(name, field, type) {#name, (uint16_t)offsetof(qn_layer_options, field), type},
#include "nn/layers/arguments.h"
#undef X
};

/* One argument of a row's text: its name, and its default, NULL where there is none. */
typedef struct described {
    const argument *a;
    const char *text;
} described;

/* The argument at `at`, which goes behind it; false at the end. */
static bool next_argument(const char **at, described *d) {
    const char *from = *at;
    from += strspn(from, " ");
    size_t all = strcspn(from, " "), name = strcspn(from, "= ");
    *at = from + all;
    *d = (described){NULL, from[name] == '=' ? from + name + 1 : NULL};
    for (size_t i = 0; i < COUNT_OF(arguments) && !d->a && all; i++)
        if (strlen(arguments[i].name) == name && !memcmp(arguments[i].name, from, name))
            d->a = &arguments[i];
    return d->a != NULL;
}

/* Puts a default in place of a 0, and says whether there is a value then. */
static bool put_default(const argument *a, const char *text, void *field) {
    int64_t *size = field;
    double *number = field;
    int *yes = field;
    bool none = text && *text == 'N', lacks = false;
    switch ((argument_type)a->type) {
    case SIZE:
    case SIZES:
        if (!*size && text && !none) *size = strtoll(text, NULL, 10);
        return *size || text || strcmp(a->name, "output_size") == 0; /* None there is the input's */
    case SHAPE:
        return *size != 0;
    case PLACE:
        if (!*size && text && !none) *size = strtoll(text, NULL, 10), *size += *size >= 0;
        return true;
    case NUMBER:
        lacks = *number == 0 && !signbit(*number);
        if (lacks && text && !none) *number = text_f64(text, NULL);
        if (*number == 0 && !none) *number = 0; /* of -0, which is not None */
        return true;
    case YES:
        *yes = *yes ? *yes > 0 : *text == 'T';
        return true;
    default: /* 0 is the default */
        return true;
    }
}

/* Later sizes of 0 are as the first, but those that may be 0. */
static void spread(int64_t size[3]) {
    for (int i = 1; i < 3; i++)
        if (!size[i]) size[i] = size[i - 1];
}

static size_t bytes_of(const argument *a) {
    static const uint8_t size[] = {
        [SIZE] = 8,          [SIZES] = 24, [SHAPE] = 32,          [PLACE] = 8,         [NUMBER] = 8,
        [YES] = sizeof(int), [NOT] = 1,    [FLAG] = sizeof(bool), [WORD] = sizeof(int)};
    return size[a->type];
}

/* What is no argument of the kind stays 0, but what all have, or calls of attention. */
static bool read_fields(qn_ctx *qn, const char *call, const layer_row *row,
                        const qn_layer_options *all, qn_layer_options *o) {
    const char *at = row->arguments;
    described d;
    *o = QN_LAYER_OPTIONS(.scale = all->scale, .out_scale = all->out_scale, .conv = all->conv,
                          .causal = all->causal, .apart = all->apart, .training = all->training,
                          .key = all->key);
    while (next_argument(&at, &d)) {
        void *field = (char *)o + d.a->at;
        memcpy(field, (const char *)all + d.a->at, bytes_of(d.a));
        if (put_default(d.a, d.text, field)) continue;
        return fail(qn, QN_EARG, "%s: %s needs %s", call, row->name, d.a->name), false;
    }
    return true;
}

bool layer_options_read(qn_ctx *qn, const char *call, const layer_row *row,
                        const qn_layer_options *given, qn_layer_options *o) {
    qn_layer_options all = QN_LAYER_OPTIONS();
    if (!struct_take(qn, call, "qn_layer_options", &all, sizeof all, given)) return false;
    if (!read_fields(qn, call, row, &all, o)) return false;
    if (!strstr(row->arguments, "output_size")) spread(o->kernel);
    spread(o->stride), spread(o->dilation);
    return layer_options_fine(qn, call, row, o);
}

/* ---- making --------------------------------------------------------------------------------- */

bool making_begin(making *b, qn_module *m, const char *call, const char *name) {
    b->m = m, b->qn = nn_context(m), b->call = call, b->name = name;
    b->row = NULL, b->o = NULL, b->bare_bias = false, b->fine = true, b->n = 0;
    if (!b->qn) return false;
    return name || (fail(b->qn, QN_ENULL, "%s: the name is NULL", call), false);
}

static void took(making *b, qn_tensor *t) {
    b->fine = t != NULL;
    if (t) b->tensor[b->n++] = t;
}

static bool has_room(making *b, const char *part, char full[NN_NAME_MOST]) {
    if (b->fine && b->n == LAYER_TENSORS)
        fail(b->qn, QN_ERANGE, "%s: \"%.40s\" has more than %d tensors", b->call, b->name,
             LAYER_TENSORS);
    b->fine = b->fine && b->n < LAYER_TENSORS && nn_name(b->m, full, b->name, part);
    return b->fine;
}

void layer_parameter(making *b, const char *part, int rank, const int64_t *shape, qn_init kind,
                     double scale) {
    char full[NN_NAME_MOST];
    if (!has_room(b, part, full)) return;
    took(b, qn_module_parameter(b->m, full, QN_F32, rank, shape,
                                &QN_INIT_OPTIONS(.kind = kind, .scale = scale)));
}

void layer_value(making *b, const char *part, qn_tensor *value) {
    char full[NN_NAME_MOST];
    if (has_room(b, part, full)) took(b, qn_module_add(b->m, full, value));
}

void layer_buffer(making *b, const char *part, qn_dtype dtype, int rank, const int64_t *shape,
                  qn_init kind) {
    char full[NN_NAME_MOST];
    if (!has_room(b, part, full)) return;
    took(b, qn_module_buffer(b->m, full, dtype, rank, shape, &QN_INIT_OPTIONS(.kind = kind)));
}

/* The module's from now on; NULL, and it is gone, where the module does not take it. */
static layer *kept(making *b, layer *l) {
    if (nn_layer_keep(b->m, &l->link)) return l;
    heap_free(&b->qn->heap, l, l->link.size);
    return NULL;
}

layer *layer_make(making *b, const layer_row *row, const qn_layer_options *o) {
    b->row = row, b->o = o;
    if (row->tensors) row->tensors(b);
    if (!b->fine) return NULL;
    size_t size = sizeof(layer) + (size_t)b->n * sizeof(qn_tensor *);
    layer *l = heap_try(&b->qn->heap, size);
    if (!l) return fail_null(b->qn, QN_ENOMEM, "%s: out of memory", b->call);
    *l = (layer){.link = {.size = size}, .m = b->m, .row = row, .o = *o, .n = b->n};
    if (o->conv) l->conv = *o->conv, l->o.conv = &l->conv;
    memcpy(l->tensor, b->tensor, (size_t)b->n * sizeof(qn_tensor *));
    return kept(b, l);
}

qn_layer *layer_known(const layer *l) {
    return l ? l->link.name : NULL;
}

qn_layer *qn_layer_new(qn_module *m, const char *kind, const char *name,
                       const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    if (!making_begin(&b, m, "layer_new", name)) return NULL;
    const layer_row *row = layer_row_of(b.qn, b.call, kind);
    if (!row || !layer_options_read(b.qn, b.call, row, options, &o)) return NULL;
    o.conv = NULL, o.key = NULL; /* those of others */
    return layer_known(layer_make(&b, row, &o));
}

/* ---- applying ------------------------------------------------------------------------------- */

qn_tensor *layer_next(calling *c) {
    int at = c->at++; /* how many it asks for is looked at in the end */
    return at < c->n ? c->tensor[at] : NULL;
}

qn_tensor *layer_drop(calling *c, qn_tensor *x, double p) {
    if (!c->training || p == 0 || !x) return x;
    if (p == 1) return qn_mul(x, qn_like(x, 0));
    if (!c->key)
        return fail_null(c->qn, QN_ENULL, "%s: draws in training, and the key is NULL",
                         c->row->name);
    return qn_dropout(x, qn_key_fold(c->key, c->draws++), p);
}

bool layer_rank(calling *c, qn_tensor *x, const char *what, int least, int most) {
    if (!x) return false;
    int rank = qn_rank(x);
    if (rank >= least && rank <= most) return true;
    fail(c->qn, QN_ESHAPE, "%s: %s has %d axes, not %d%s%.0d", c->row->name, what, rank, least,
         least < most ? " to " : "", least < most ? most : 0);
    return false;
}

/* Inputs as they are wanted, and what a layer gives of them: into out and update. */
static bool work(calling *c, const char *call, int n_in, qn_tensor *const *in) {
    const layer_row *row = c->row;
    if (n_in < row->least || n_in > row->most || (n_in && !in))
        return fail(c->qn, QN_EARG, "%s: %s takes %d to %d inputs, not %d", call, row->name,
                    row->least, row->most, n_in),
               false;
    for (int i = 0; i < n_in; i++) {
        if (!in[i] && i >= row->least) continue;
        if (!handle_check(c->qn, in[i], HANDLE_TENSOR, call, "an input")) return false;
        c->in[i] = in[i];
    }
    c->row->apply(c);
    return c->out[0] != NULL;
}

static void calling_begin(calling *c, qn_ctx *qn, const layer_row *row, const qn_layer_options *o) {
    c->qn = qn, c->row = row, c->o = o, c->made = NULL, c->key = NULL, c->draws = 0;
    c->training = false, c->n = c->at = 0, c->tensor = NULL;
    memset(c->in, 0, sizeof c->in);
    memset(c->out, 0, sizeof c->out);
}

/* Does the row draw in training? */
static bool draws(const layer_row *row, const qn_layer_options *o) {
    return o->p > 0 && (strstr(row->arguments, "dropout=") || row->apply == apply_dropout);
}

/* A call of a layer of a module, and what it changes. */
static bool layer_work(const layer *l, calling *c, const char *call, int n_in,
                       qn_tensor *const *in) {
    calling_begin(c, nn_context(l->m), l->row, &l->o);
    if (!c->qn) return false;
    c->made = l, c->n = l->n, c->tensor = l->tensor;
    c->training = nn_training(l->m);
    if (c->training && draws(l->row, &l->o) && !(c->key = nn_draw(l->m))) return false;
    memset(c->update, 0, (size_t)l->n * sizeof *c->update);
    if (!work(c, call, n_in, in)) return false;
    for (int i = 0; i < l->n; i++)
        if (c->update[i] && qn_assign(l->tensor[i], c->update[i])) return false;
    return true;
}

qn_tensor *layer_apply(const layer *l, qn_tensor *x) {
    calling c;
    return x && layer_work(l, &c, "layer_forward", 1, &x) ? c.out[0] : NULL;
}

qn_tensor *qn_layer_forward(const qn_layer *known, qn_tensor *x) {
    const handle *h = x ? handle_check(NULL, x, HANDLE_TENSOR, "layer_forward", "x") : NULL;
    if (!h) return NULL;
    if (!handle_check(h->ctx, known, HANDLE_LAYER, "layer_forward", "the layer")) return NULL;
    qn_scope scope = qn_scope_begin(h->ctx);
    return qn_scope_return(h->ctx, scope, layer_apply(handle_at(known)->object, x));
}

/* The scope ends; of what it made out[n] is the caller's, as any function's result. */
static qn_code give(qn_ctx *qn, qn_scope scope, bool fine, int n, qn_tensor **out) {
    for (int k = 0; k < n; k++) out[k] = fine && out[k] ? qn_keep(out[k]) : NULL;
    qn_scope_end(qn, scope);
    for (int k = 0; k < n; k++) {
        qn_tensor *held = out[k];
        if (!held) continue;
        qn_scope own = qn_scope_begin(qn);
        fine &= (out[k] = own ? qn_scope_return(qn, own, held) : NULL) != NULL;
        qn_release(held);
    }
    for (int k = 0; k < n && !fine; k++) {
        if (out[k] && qn->graph->scopes == 0) qn_release(out[k]);
        out[k] = NULL;
    }
    return fine ? QN_OK : qn_error_code(qn);
}

qn_code qn_layer_call(const qn_layer *known, int n_in, qn_tensor *const *inputs, int n_out,
                      qn_tensor **out) {
    const layer *l = object_of(known, HANDLE_LAYER, "layer_call");
    calling c;
    if (!l) return handle_code(known);
    qn_ctx *qn = nn_context(l->m);
    if (!qn) return QN_ENULL;
    if (n_out < 1 || n_out > LAYER_RESULTS || !out)
        return fail(qn, QN_EARG, "layer_call: %d results are wanted", n_out);
    qn_scope scope = qn_scope_begin(qn);
    bool fine = layer_work(l, &c, "layer_call", n_in, inputs);
    for (int i = 0; i < n_out; i++) out[i] = fine ? c.out[i] : NULL;
    return give(qn, scope, fine, n_out, out);
}

/* ---- as a function ------------------------------------------------------------------------- */

/* Are all of these tensors of the context? Some of the last may be NULL. */
static bool are_tensors(qn_ctx *qn, int n, qn_tensor *const *t, int least) {
    bool fine = true;
    for (int i = 0; t && fine && i < n; i++)
        if (t[i] || i < least)
            fine = handle_check(qn, t[i], HANDLE_TENSOR, "layer_apply", "a tensor") != NULL;
    return fine;
}

/* Does it have as many tensors as it takes? */
static bool took_all(const calling *c) {
    if (c->at == c->n) return true;
    return fail(c->qn, QN_EARG, "layer_apply: %s has %d tensors, not %d", c->row->name, c->at,
                c->n),
           false;
}

qn_code qn_layer_apply(const char *kind, const qn_layer_options *options, int n,
                       qn_tensor *const *tensors, int n_in, qn_tensor *const *inputs, int n_out,
                       qn_tensor **out) {
    static const char call[] = "layer_apply";
    qn_layer_options o;
    calling c;
    if (n_in < 1 || !inputs || !inputs[0]) return QN_ENULL;
    const handle *h = handle_check(NULL, inputs[0], HANDLE_TENSOR, call, "an input");
    if (!h) return handle_code(inputs[0]);
    qn_ctx *qn = h->ctx;
    if (!are_tensors(qn, n, tensors, n) || !are_tensors(qn, n_in, inputs, 1))
        return qn_error_code(qn);
    const layer_row *row = layer_row_of(qn, call, kind);
    if (!row || !layer_options_read(qn, call, row, options, &o)) return qn_error_code(qn);
    if (n < 0 || n > LAYER_TENSORS || (n && !tensors) || !out || n_out != row->results + n)
        return fail(qn, QN_EARG, "%s: %s of %d tensors gives %d results and as many, not %d", call,
                    row->name, n, row->results, n_out);
    if (o.key && !handle_check(qn, o.key, HANDLE_TENSOR, call, "key")) return qn_error_code(qn);
    o.conv = NULL;
    calling_begin(&c, qn, row, &o);
    c.training = o.training, c.key = o.key, c.n = n, c.tensor = tensors;
    memset(c.update, 0, (size_t)n * sizeof *c.update);
    qn_scope scope = qn_scope_begin(qn);
    bool fine = work(&c, call, n_in, inputs) && took_all(&c);
    for (int i = 0; i < n_out; i++)
        out[i] = !fine ? NULL : i < row->results ? c.out[i] : c.update[i - row->results];
    return give(qn, scope, fine, n_out, out);
}
