/* memory.c - samples that are rows of memory, and datasets that are made of others. */
#include "data/data.h"

#include <stdio.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static bool rows_read(const dataset *d, int64_t i, void *const *out, data_why *why) {
    void *const *data = d->own;
    (void)why;
    for (int k = 0; k < d->fields; k++)
        memcpy(out[k], (const uint8_t *)data[k] + (size_t)i * d->bytes[k], d->bytes[k]);
    return true;
}

static const dataset_kind kind_rows = {rows_read, NULL};

void dataset_set_rows(dataset *d, void **data) {
    d->own = data;
    d->kind = &kind_rows;
}

typedef struct tensors {
    int n;
    const char *const *name;
    qn_tensor *const *tensor;
} tensors;

static void check_tensors(const dataset *d, const tensors *t) {
    if (t->n < 1 || t->n > FIELDS_MOST)
        raise_error(d->ctx, QN_EARG, "dataset_tensors: %d tensors; there are 1 to %d", t->n,
                    FIELDS_MOST);
    if (!t->tensor) raise_error(d->ctx, QN_ENULL, "dataset_tensors: tensors is NULL");
    for (int i = 0; i < t->n; i++) {
        char arg[32];
        snprintf(arg, sizeof arg, "tensor %d", i);
        if (!handle_check(d->ctx, t->tensor[i],
                          handle_is(t->tensor[i], HANDLE_COMPLEX) ? HANDLE_COMPLEX : HANDLE_TENSOR,
                          "dataset_tensors", arg))
            heap_unwind(&d->ctx->heap);
        if (dtype_is_complex((int)qn_dtype_of(t->tensor[i])))
            raise_error(d->ctx, QN_EDTYPE, "dataset_tensors: tensor %d is complex", i);
        if (qn_rank(t->tensor[i]) < 1)
            raise_error(d->ctx, QN_ESHAPE, "dataset_tensors: tensor %d has no axis of samples", i);
    }
}

static void tensors_fill(dataset *d, const void *arg) {
    const tensors *t = arg;
    check_tensors(d, t);
    qn_data_field field[FIELDS_MOST] = {0};
    char name[FIELDS_MOST][12];
    for (int i = 0; i < t->n; i++) {
        qn_tensor *x = t->tensor[i];
        snprintf(name[i], sizeof name[i], "%d", i);
        field[i].name = t->name ? t->name[i] : name[i];
        field[i].dtype = qn_dtype_of(x);
        field[i].rank = qn_rank(x) - 1;
        int64_t count = qn_dim_value(d->ctx, qn_dim(x, 0));
        for (int k = 0; k < field[i].rank; k++)
            field[i].shape[k] = qn_dim_value(d->ctx, qn_dim(x, k + 1));
        if (i && count != d->count)
            raise_error(d->ctx, QN_ESHAPE,
                        "dataset_tensors: tensor %d has %lld rows, and 0 has %lld", i,
                        (long long)count, (long long)d->count);
        d->count = count;
    }
    dataset_set_fields(d, t->n, field);
    void **data = arena_zeroed(&d->a, (size_t)t->n * sizeof *data);
    for (int i = 0; i < t->n; i++) {
        size_t size = (size_t)d->count * d->bytes[i];
        data[i] = arena_alloc(&d->a, size + 1);
        if (qn_read(t->tensor[i], data[i], size)) heap_unwind(&d->ctx->heap);
    }
    dataset_set_rows(d, data);
}

qn_dataset *qn_dataset_tensors(qn_ctx *qn, int n, const char *const *names,
                               qn_tensor *const *list) {
    if (!qn) return NULL;
    return dataset_make(qn, tensors_fill, &(tensors){n, names, list});
}

/* ---- datasets of datasets -------------------------------------------------------------------- */

typedef struct several {
    int n;
    dataset **of;
    int64_t *first;       /* of fields, of samples */
    const int64_t *index; /* of the only one */
} several;

static void several_close(dataset *d) {
    const several *s = d->own;
    for (int i = 0; s && i < s->n; i++) dataset_release(s->of[i]);
}

static bool zip_sample(const dataset *d, int64_t i, void *const *out, data_why *why) {
    const several *s = d->own;
    for (int k = 0; k < s->n; k++)
        if (!s->of[k]->kind->read(s->of[k], i, out + s->first[k], why)) return false;
    return true;
}

static bool concat_sample(const dataset *d, int64_t i, void *const *out, data_why *why) {
    const several *s = d->own;
    int lo = 0, hi = s->n; /* the last one that begins at i or before */
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        *(s->first[middle] <= i ? &lo : &hi) = middle;
    }
    return s->of[lo]->kind->read(s->of[lo], i - s->first[lo], out, why);
}

static bool part_sample(const dataset *d, int64_t i, void *const *out, data_why *why) {
    const several *s = d->own;
    return s->of[0]->kind->read(s->of[0], s->index[i], out, why);
}

static const dataset_kind kind_zip = {zip_sample, several_close},
                          kind_concat = {concat_sample, several_close},
                          kind_part = {part_sample, several_close};

typedef struct combining {
    const char *call;
    int n;
    qn_dataset *const *of;
    int64_t count; /* of a part */
    const int64_t *index;
} combining;

/* Those that are named, kept until d goes. */
static several *take_all(dataset *d, const combining *c, const dataset_kind *kind) {
    if (c->n < 1 || !c->of)
        raise_error(d->ctx, c->n < 1 ? QN_EARG : QN_ENULL, "%s: %d datasets", c->call, c->n);
    several *s = arena_zeroed(&d->a, sizeof *s);
    s->of = arena_zeroed(&d->a, (size_t)c->n * sizeof *s->of);
    s->first = arena_zeroed(&d->a, (size_t)c->n * sizeof *s->first);
    d->own = s;
    d->kind = kind;
    d->name = c->call;
    for (int i = 0; i < c->n; i++) {
        char arg[32];
        snprintf(arg, sizeof arg, "dataset %d", i);
        handle *h = handle_check(d->ctx, c->of[i], HANDLE_DATASET, c->call, arg);
        if (!h) heap_unwind(&d->ctx->heap);
        dataset *one = h->object;
        if (one->nested + 1 > NESTED_MOST)
            raise_error(d->ctx, QN_EARG, "%s: datasets of datasets, more than %d deep", c->call,
                        NESTED_MOST);
        if (one->nested + 1 > d->nested) d->nested = one->nested + 1;
        dataset_keep(one);
        s->of[s->n++] = one;
    }
    d->name = arena_printf(&d->a, "%s", s->of[0]->name);
    return s;
}

static void zip_fill(dataset *d, const void *arg) {
    const combining *c = arg;
    several *s = take_all(d, c, &kind_zip);
    qn_data_field field[FIELDS_MOST];
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const dataset *one = s->of[i];
        if (one->count != s->of[0]->count)
            raise_error(d->ctx, QN_ESHAPE,
                        "%s: dataset %d has %lld samples, and dataset 0 has %lld", c->call, i,
                        (long long)one->count, (long long)s->of[0]->count);
        if (n + one->fields > FIELDS_MOST)
            raise_error(d->ctx, QN_EARG, "%s: more than %d fields", c->call, FIELDS_MOST);
        memcpy(field + n, one->field, (size_t)one->fields * sizeof *field);
        s->first[i] = n;
        n += one->fields;
    }
    d->count = s->of[0]->count;
    dataset_set_fields(d, n, field);
}

static bool same_fields(const dataset *a, const dataset *b) {
    bool same = a->fields == b->fields;
    for (int i = 0; same && i < a->fields; i++) {
        const qn_data_field *x = &a->field[i], *y = &b->field[i];
        same = x->dtype == y->dtype && x->rank == y->rank &&
               memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) == 0;
    }
    return same;
}

static void concat_fill(dataset *d, const void *arg) {
    const combining *c = arg;
    several *s = take_all(d, c, &kind_concat);
    for (int i = 0; i < s->n; i++) {
        if (!same_fields(s->of[i], s->of[0]))
            raise_error(d->ctx, QN_ESHAPE, "%s: dataset %d has other fields than dataset 0",
                        c->call, i);
        s->first[i] = d->count;
        if (__builtin_add_overflow(d->count, s->of[i]->count, &d->count))
            raise_error(d->ctx, QN_ERANGE, "%s: more than 2^63 samples", c->call);
    }
    dataset_set_fields(d, s->of[0]->fields, s->of[0]->field);
}

static void part_fill(dataset *d, const void *arg) {
    const combining *c = arg;
    several *s = take_all(d, c, &kind_part);
    size_t size;
    if (c->count < 0 || !checked_bytes(1, &c->count, sizeof *c->index, &size))
        raise_error(d->ctx, QN_ERANGE, "%s: %lld samples", c->call, (long long)c->count);
    if (c->count && !c->index) raise_error(d->ctx, QN_ENULL, "%s: index is NULL", c->call);
    int64_t *index = arena_alloc(&d->a, size + 1);
    for (int64_t i = 0; i < c->count; i++) {
        index[i] = c->index[i];
        if (index[i] < 0 || index[i] >= s->of[0]->count)
            raise_error(d->ctx, QN_ERANGE, "%s: index %lld is sample %lld of %lld", c->call,
                        (long long)i, (long long)index[i], (long long)s->of[0]->count);
    }
    s->index = index;
    d->count = c->count;
    dataset_set_fields(d, s->of[0]->fields, s->of[0]->field);
}

/* The context of the first that is not NULL; NULL where there is none, reported where that can
 * be. */
static qn_ctx *context_of(int n, qn_dataset *const *of, const char *call) {
    int i = 0;
    while (of && i < n && !of[i]) i++;
    const dataset *d = of && i < n ? object_of(of[i], HANDLE_DATASET, call) : NULL;
    return d ? d->ctx : NULL;
}

qn_dataset *qn_dataset_zip(int n, qn_dataset *const *datasets) {
    qn_ctx *qn = context_of(n, datasets, "dataset_zip");
    combining c = {.call = "dataset_zip", .n = n, .of = datasets};
    return qn ? dataset_make(qn, zip_fill, &c) : NULL;
}

qn_dataset *qn_dataset_concat(int n, qn_dataset *const *datasets) {
    qn_ctx *qn = context_of(n, datasets, "dataset_concat");
    combining c = {.call = "dataset_concat", .n = n, .of = datasets};
    return qn ? dataset_make(qn, concat_fill, &c) : NULL;
}

qn_dataset *qn_dataset_part(qn_dataset *d, int64_t n, const int64_t *index) {
    qn_ctx *qn = context_of(1, &d, "dataset_part");
    combining c = {.call = "dataset_part", .n = 1, .of = &d, .count = n, .index = index};
    return qn ? dataset_make(qn, part_fill, &c) : NULL;
}
