/* csv.c - columns of a CSV file as a dataset in memory.
 *
 * The file is walked twice: the first time its lines are counted and each is seen to have as
 * many cells as the first, the second time the cells of columns that somebody wants become
 * numbers, written into rows whose size is known. Nothing takes more memory than the file and
 * its results. */
#include "data/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct csv_wanted {
    const char *path;
    qn_csv_options o;
} csv_wanted;

/* A column as part `place` of a row of a field. */
typedef struct use {
    int field, place, next; /* next: of the same column; -1: none */
} use;
typedef struct csv {
    dataset *d;
    const qn_csv_options *o;
    cells c;
    int columns;
    int *first; /* use by column; -1: none */
    use *uses;
    int count;
    int *width; /* columns of each field */
    bool *classes;
    const char ***text; /* by field of classes: by row, then those that differ */
    int64_t *differ;
    uint8_t **data;
} csv;

/* Of a dataset of rows, what beside them stands in `own`: the texts of classes. */
typedef struct csv_rows {
    void *data[FIELDS_MOST];
    const char **text[FIELDS_MOST];
    int64_t differ[FIELDS_MOST];
} csv_rows;

/* ---- which columns --------------------------------------------------------------------------- */

static void read_names(csv *v, bool header) {
    cells *c = &v->c;
    const cells begin = *c;
    while (cells_next(c)) v->columns++;
    const char **name = arena_zeroed(&v->d->a, (size_t)v->columns * sizeof *name + 1);
    *c = begin;
    for (int i = 0; cells_next(c); i++)
        name[i] =
            header ? arena_printf(&v->d->a, "%s", c->value->s) : arena_printf(&v->d->a, "%d", i);
    if (!header) *c = begin; /* it is a line of values */
    c->name = name;
    c->names = v->columns;
}

static int find_column(const csv *v, const char *name) {
    int found = -1;
    nearest x = {.wanted = name};
    char near[300];
    for (int i = 0; i < v->columns; i++) {
        nearest_offer(&x, v->c.name[i]);
        if (strcmp(v->c.name[i], name)) continue;
        if (found >= 0)
            raise_error(v->d->ctx, QN_EARG, "%s: two columns are called \"%.80s\"", v->c.path,
                        name);
        found = i;
    }
    if (found < 0)
        raise_error(v->d->ctx, QN_EARG, "%s: no column \"%.80s\"; there is %s", v->c.path, name,
                    nearest_text(&x, near, sizeof near));
    return found;
}

static void add_use(csv *v, int column, int field, int place) {
    v->uses[v->count] = (use){field, place, v->first[column]};
    v->first[column] = v->count++;
}

/* Every column by itself. */
static void all_fields(csv *v, qn_data_field *field) {
    if (v->columns > FIELDS_MOST)
        raise_error(v->d->ctx, QN_EARG, "%s: %d columns; fields of several are to be named",
                    v->c.path, v->columns);
    for (int i = 0; i < v->columns; i++) {
        field[i] = (qn_data_field){.name = v->c.name[i], .dtype = QN_F32};
        v->width[i] = 1;
        add_use(v, i, i, 0);
    }
}

static void named_field(csv *v, int i, qn_data_field *field) {
    const qn_csv_field *f = &v->o->field[i];
    int n = f->columns ? f->columns : 1;
    qn_ctx *qn = v->d->ctx;
    if (!f->column) raise_error(qn, QN_ENULL, "dataset_csv: field %d names no columns", i);
    for (int k = 0; k < n; k++)
        if (!f->column[k])
            raise_error(qn, QN_ENULL, "dataset_csv: column %d of field %d is NULL", k, i);
    *field = (qn_data_field){.name = f->name ? f->name : f->column[0],
                             .dtype = f->classes ? QN_I64 : f->dtype,
                             .rank = f->columns > 0,
                             .shape = {n}};
    v->width[i] = n;
    v->classes[i] = f->classes;
    if (!cell_takes((int)field->dtype))
        raise_error(qn, QN_EDTYPE,
                    "dataset_csv: field \"%.80s\": bools, integers, f32 and f64 "
                    "are read",
                    field->name);
    if (f->classes && f->columns)
        raise_error(qn, QN_EARG, "dataset_csv: field \"%.80s\": classes are of one column",
                    field->name);
    for (int k = 0; k < n; k++) add_use(v, find_column(v, f->column[k]), i, k);
}

static void choose_columns(csv *v) {
    const qn_csv_options *o = v->o;
    qn_data_field field[FIELDS_MOST];
    size_t uses = (size_t)v->columns;
    if (o->fields < 0 || o->fields > FIELDS_MOST || (o->fields && !o->field))
        raise_error(v->d->ctx, o->field ? QN_EARG : QN_ENULL,
                    "dataset_csv: %d fields; there are up to %d", o->fields, FIELDS_MOST);
    for (int i = 0; i < o->fields; i++) {
        if (o->field[i].columns < 0 || o->field[i].columns > 1 << 20)
            raise_error(v->d->ctx, QN_ERANGE, "dataset_csv: field %d of %d columns", i,
                        o->field[i].columns);
        uses += (size_t)o->field[i].columns + 1;
    }
    v->first = arena_alloc(&v->d->a, (size_t)v->columns * sizeof *v->first + 1);
    for (int i = 0; i < v->columns; i++) v->first[i] = -1;
    v->uses = arena_zeroed(&v->d->a, uses * sizeof *v->uses + 1);
    v->width = arena_zeroed(&v->d->a, FIELDS_MOST * sizeof *v->width);
    v->classes = arena_zeroed(&v->d->a, FIELDS_MOST * sizeof *v->classes);
    if (!o->fields) all_fields(v, field);
    for (int i = 0; i < o->fields; i++) named_field(v, i, &field[i]);
    dataset_set_fields(v->d, o->fields ? o->fields : v->columns, field);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void count_lines(csv *v) {
    const cells begin = v->c;
    cells *c = &v->c;
    while (cells_line(c)) {
        int n = 0;
        while (cells_next(c)) n++;
        if (n != v->columns)
            raise_error(v->d->ctx, QN_EFORMAT, "%s: line %lld: %d cells, and the first line has %d",
                        c->path, (long long)c->at, n, v->columns);
        v->d->count++;
    }
    *c = begin;
}

static bool is_missing(const csv *v, const char *text) {
    return !text[strspn(text, " \t")] || (v->o->missing && strcmp(text, v->o->missing) == 0);
}

static void missing_value(const csv *v, qn_dtype dtype, void *out) {
    double fill = v->o->fill ? v->o->fill_value : (double)NAN;
    char text[32];
    float narrow = (float)fill;
    if (!v->o->fill && !dtype_is_float((int)dtype))
        cells_bad(&v->c, "a missing value, and %s has none to stand for it", qn_dtype_name(dtype));
    snprintf(text, sizeof text, "%.0f", fill);
    if (dtype == QN_F64)
        memcpy(out, &fill, sizeof fill);
    else if (dtype == QN_F32)
        memcpy(out, &narrow, sizeof narrow);
    else if (fill != nearbyint(fill) || !cell_number(text, dtype, out))
        raise_error(v->d->ctx, QN_ERANGE, "dataset_csv: fill_value %g is no %s", fill,
                    qn_dtype_name(dtype));
}

static void take_cell(csv *v, const use *u, int64_t row) {
    dataset *d = v->d;
    const char *text = v->c.value->s;
    qn_dtype dtype = d->field[u->field].dtype;
    if (v->classes[u->field]) {
        v->text[u->field][row] = arena_printf(&d->a, "%s", text);
        return;
    }
    uint8_t *out = v->data[u->field] + (size_t)row * d->bytes[u->field] +
                   (size_t)u->place * qn_dtype_size(dtype);
    if (is_missing(v, text))
        missing_value(v, dtype, out);
    else if (!cell_number(text, dtype, out))
        cells_bad(&v->c, "\"%.60s\" is no %s", text, qn_dtype_name(dtype));
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Texts by row become their places among those that differ, sorted. */
static void make_classes(csv *v, int field) {
    int64_t rows = v->d->count, n = 0, *out = (int64_t *)v->data[field];
    const char **text = v->text[field];
    size_t size = (size_t)rows * sizeof *text;
    const char **sorted = arena_alloc(&v->d->a, size + 1);
    memcpy(sorted, text, size);
    if (rows) qsort(sorted, (size_t)rows, sizeof *sorted, by_text);
    for (int64_t i = 0; i < rows; i++)
        if (!n || strcmp(sorted[n - 1], sorted[i])) sorted[n++] = sorted[i];
    for (int64_t i = 0; i < rows; i++) {
        const char **at = bsearch(&text[i], sorted, (size_t)n, sizeof *sorted, by_text);
        out[i] = at - sorted;
    }
    v->text[field] = sorted;
    v->differ[field] = n;
}

static void read_values(csv *v) {
    dataset *d = v->d;
    csv_rows *rows = arena_zeroed(&d->a, sizeof *rows);
    uint8_t *data[FIELDS_MOST];
    v->text = rows->text;
    v->differ = rows->differ;
    v->data = data;
    for (int i = 0; i < d->fields; i++) {
        size_t size;
        if (!checked_bytes(2, (int64_t[]){d->count, (int64_t)d->bytes[i]}, 1, &size))
            raise_error(d->ctx, QN_ENOMEM, "%s: too many rows", d->name);
        rows->data[i] = data[i] = arena_alloc(&d->a, size + 1);
        if (!v->classes[i]) continue;
        d->has_classes = true;
        v->text[i] = arena_zeroed(&d->a, (size_t)d->count * sizeof **v->text + 1);
    }
    for (int64_t row = 0; cells_line(&v->c); row++)
        for (int k = 0; cells_next(&v->c); k++)
            for (int u = v->first[k]; u >= 0; u = v->uses[u].next) take_cell(v, &v->uses[u], row);
    for (int i = 0; i < d->fields; i++)
        if (v->classes[i]) make_classes(v, i);
    dataset_set_rows(d, rows->data);
}

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct csv_text {
    archive *f;
    str value;
    heap_piece text;
} csv_text;

static void csv_text_cleanup(void *of) {
    csv_text *t = of;
    if (t->f) archive_free(t->f);
    str_free(&t->value);
    heap_piece_cleanup(&t->text);
}

static void walk(csv *v, const csv_wanted *w) {
    cells *c = &v->c;
    if (c->end - c->p >= 3 && !memcmp(c->p, "\xef\xbb\xbf", 3)) c->p += 3;
    if (!cells_line(c)) raise_error(v->d->ctx, QN_EFORMAT, "%s: there is no line in it", c->path);
    read_names(v, !w->o.no_header);
    choose_columns(v);
    count_lines(v);
    read_values(v);
}

static void csv_fill(dataset *d, const void *arg) {
    const csv_wanted *w = arg;
    heap *h = &d->ctx->heap;
    csv_text t = {.text = {.h = h}};
    cleanup c;
    char separator = w->o.separator ? w->o.separator : ',';
    if (separator == '"' || separator == '\n' || separator == '\r')
        raise_error(d->ctx, QN_EARG, "dataset_csv: separator %d separates nothing", separator);
    d->name = arena_printf(&d->a, "%s", w->path);
    str_open(&t.value, h);
    cleanup_push(h, &c, csv_text_cleanup, &t);
    t.f = data_file(d->ctx, w->path);
    size_t size = (size_t)t.f->size;
    t.text.p = heap_alloc(h, size + 1);
    t.text.size = size + 1;
    archive_read_at(t.f, 0, t.text.p, size);
    csv v = {.d = d,
             .o = &w->o,
             .c = {.qn = d->ctx,
                   .path = d->name,
                   .p = t.text.p,
                   .end = (const char *)t.text.p + size,
                   .line = 1,
                   .separator = separator}};
    v.c.value = &t.value;
    walk(&v, w);
    cleanup_run(h, &c);
}

qn_dataset *qn_dataset_csv(qn_ctx *qn, const char *path, const qn_csv_options *options) {
    csv_wanted w = {.path = path};
    if (!qn) return NULL;
    if (!path) return fail_null(qn, QN_ENULL, "dataset_csv: no path");
    if (!struct_take(qn, "dataset_csv", "qn_csv_options", &w.o, sizeof w.o, options)) return NULL;
    return dataset_make(qn, csv_fill, &w);
}

const char *qn_dataset_class(const qn_dataset *known, int field, int64_t i) {
    const dataset *d = object_of(known, HANDLE_DATASET, "dataset_class");
    if (!d || field < 0 || field >= d->fields || !d->has_classes) return NULL;
    const csv_rows *rows = d->own;
    return i >= 0 && i < rows->differ[field] ? rows->text[field][i] : NULL;
}
