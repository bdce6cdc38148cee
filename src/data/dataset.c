/* dataset.c - the public calls on datasets of any kind: their life, their fields, one sample. */
#include "data/data.h"

#include <stdio.h>

bool data_wrong(data_why *why, qn_code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, args);
    va_end(args);
    why->code = code;
    return false;
}

/* ---- its life -------------------------------------------------------------------------------- */

void dataset_keep(dataset *d) {
    d->users++;
}

void dataset_release(dataset *d) {
    if (--d->users) return;
    if (d->kind && d->kind->close) d->kind->close(d);
    arena_free(&d->a);
    heap_free(&d->ctx->heap, d, sizeof *d);
}

typedef struct making {
    dataset *d;
    void (*fill)(dataset *d, const void *arg);
    const void *arg;
} making;

static void fill_work(void *arg) {
    making *m = arg;
    m->fill(m->d, m->arg);
}

qn_dataset *dataset_make(qn_ctx *qn, void (*fill)(dataset *d, const void *arg), const void *arg) {
    dataset *d = heap_try(&qn->heap, sizeof *d);
    if (!d) return fail_null(qn, QN_ENOMEM, "out of memory for a dataset");
    *d = (dataset){.ctx = qn, .users = 1, .name = "dataset"};
    arena_open(&d->a, &qn->heap);
    making m = {d, fill, arg};
    qn_dataset *known =
        guarded(qn, fill_work, &m) == QN_OK ? object_open(qn, HANDLE_DATASET, d) : NULL;
    if (!known) dataset_release(d);
    return known;
}

void qn_dataset_close(qn_dataset *known) {
    dataset *d = object_close(known, HANDLE_DATASET, "dataset_close");
    if (d) dataset_release(d);
}

/* ---- fields ---------------------------------------------------------------------------------- */

void dataset_set_fields(dataset *d, int n, const qn_data_field *field) {
    if (n < 1 || n > FIELDS_MOST)
        raise_error(d->ctx, QN_EARG, "%s: %d fields; there are 1 to %d", d->name, n, FIELDS_MOST);
    d->fields = n;
    d->field = arena_zeroed(&d->a, (size_t)n * sizeof *d->field);
    d->bytes = arena_zeroed(&d->a, (size_t)n * sizeof *d->bytes);
    for (int i = 0; i < n; i++) {
        qn_data_field *f = &d->field[i];
        *f = field[i];
        if (!f->name) raise_error(d->ctx, QN_ENULL, "%s: field %d has no name", d->name, i);
        f->name = arena_printf(&d->a, "%s", field[i].name);
        if (!dtype_is_known((int)f->dtype)) {
            const char *name = qn_dtype_name(f->dtype);
            raise_error(d->ctx, QN_EDTYPE, "%s: field \"%.80s\" of dtype %s", d->name, f->name,
                        name ? name : "that is none");
        }
        if (f->rank < 0 || f->rank >= QN_MAX_RANK)
            raise_error(d->ctx, QN_ERANGE, "%s: field \"%.80s\" of %d axes; up to %d", d->name,
                        f->name, f->rank, QN_MAX_RANK - 1);
        for (int k = 0; k < f->rank; k++)
            if (f->shape[k] < 0)
                raise_error(d->ctx, QN_ERANGE, "%s: field \"%.80s\": axis %d of size %lld", d->name,
                            f->name, k, (long long)f->shape[k]);
        if (!checked_bytes(f->rank, f->shape, qn_dtype_size(f->dtype), &d->bytes[i]))
            raise_error(d->ctx, QN_ERANGE, "%s: field \"%.80s\" of more than 2^63 bytes", d->name,
                        f->name);
    }
}

int64_t qn_dataset_count(const qn_dataset *known) {
    const dataset *d = object_of(known, HANDLE_DATASET, "dataset_count");
    return d ? d->count : -1;
}

int qn_dataset_fields(const qn_dataset *known) {
    const dataset *d = object_of(known, HANDLE_DATASET, "dataset_fields");
    return d ? d->fields : -1;
}

qn_code qn_dataset_get_field(const qn_dataset *known, int i, qn_data_field *out, size_t size) {
    const dataset *d = object_of(known, HANDLE_DATASET, "dataset_get_field");
    if (!d) return handle_code(known);
    if (!out) return fail(d->ctx, QN_ENULL, "dataset_get_field: out is NULL");
    if (i < 0 || i >= d->fields)
        return fail(d->ctx, QN_ERANGE, "dataset_get_field: field %d of %d", i, d->fields);
    struct_give(out, size, &d->field[i], sizeof d->field[i]);
    return QN_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* A bool is one byte, 0 or 1: kernels rely on it, so nobody may say otherwise. */
static bool bools_are_some(const dataset *d, void *const *out, data_why *why) {
    for (int k = 0; k < d->fields; k++) {
        const uint8_t *p = out[k];
        for (size_t j = 0; d->field[k].dtype == QN_BOOL && j < d->bytes[k]; j++)
            if (p[j] > 1)
                return data_wrong(why, QN_EFORMAT, "field \"%.80s\": a bool that is %d",
                                  d->field[k].name, p[j]);
    }
    return true;
}

bool dataset_sample(const dataset *d, int64_t i, void *const *out, data_why *why) {
    return d->kind->read(d, i, out, why) && bools_are_some(d, out, why);
}

qn_code qn_dataset_read(const qn_dataset *known, int64_t i, void *const *out) {
    const dataset *d = object_of(known, HANDLE_DATASET, "dataset_read");
    data_why why;
    if (!d) return handle_code(known);
    for (int k = 0; k < d->fields; k++)
        if (!out || !out[k]) return fail(d->ctx, QN_ENULL, "dataset_read: out is NULL");
    if (i < 0 || i >= d->count)
        return fail(d->ctx, QN_ERANGE, "dataset_read: sample %lld of %lld", (long long)i,
                    (long long)d->count);
    if (dataset_sample(d, i, out, &why)) return QN_OK;
    return fail(d->ctx, why.code, "%s: sample %lld: %s", d->name, (long long)i, why.text);
}

/* ---- a user's function ----------------------------------------------------------------------- */

typedef struct user_function {
    qn_sample_function *function;
    void *arg;
} user_function;

static bool user_read(const dataset *d, int64_t i, void *const *out, data_why *why) {
    const user_function *u = d->own;
    why->text[0] = 0;
    if (!u->function(u->arg, i, out, why->text, sizeof why->text)) return true;
    why->text[sizeof why->text - 1] = 0;
    if (!why->text[0]) snprintf(why->text, sizeof why->text, "the function refused it");
    why->code = QN_EIO;
    return false;
}

static const dataset_kind kind_user = {user_read, NULL};

static void user_fill(dataset *d, const void *arg) {
    const qn_dataset_options *o = arg;
    user_function *u = d->own = arena_zeroed(&d->a, sizeof *u);
    if (o->count < 0)
        raise_error(d->ctx, QN_ERANGE, "dataset_new: %lld samples", (long long)o->count);
    if (!o->function || (o->fields > 0 && !o->field))
        raise_error(d->ctx, QN_ENULL, "dataset_new: %s is NULL",
                    o->function ? "field" : "function");
    *u = (user_function){o->function, o->arg};
    d->kind = &kind_user;
    d->count = o->count;
    dataset_set_fields(d, o->fields, o->field);
}

qn_dataset *qn_dataset_new(qn_ctx *qn, const qn_dataset_options *options) {
    qn_dataset_options o = {0};
    if (!qn) return NULL;
    if (!options) return fail_null(qn, QN_ENULL, "dataset_new: options is NULL");
    if (!struct_take(qn, "dataset_new", "qn_dataset_options", &o, sizeof o, options)) return NULL;
    return dataset_make(qn, user_fill, &o);
}
