/* data.h - datasets and loaders: samples by number, gathered into batches.
 *
 * A dataset is a kind's function that writes sample i into buffers. It is called by a loader's
 * threads, so it takes no memory, reports nothing and does not unwind: what it needs was made when
 * the dataset was, on the context's thread, in an arena that goes with it. What is wrong with a
 * sample it says in a data_why, which the context's thread reports. */
#ifndef QN_DATA_H
#define QN_DATA_H

#include "archive/archive.h"
#include "quern_data.h"

enum { FIELDS_MOST = 64, NESTED_MOST = 32 };

typedef struct dataset dataset;
typedef struct data_why {
    qn_code code;
    char text[300];
} data_why;
typedef struct dataset_kind {
    /* Sample i, which is one, into out[field]; false, and why. Any thread. */
    bool (*read)(const dataset *d, int64_t i, void *const *out, data_why *why);
    void (*close)(dataset *d); /* what is not in the arena; NULL: nothing */
} dataset_kind;

struct dataset {
    qn_ctx *ctx;
    arena a;
    const dataset_kind *kind;
    const char *name; /* for errors */
    int64_t count;
    int fields, users; /* users: its name, loaders, datasets made of it */
    int nested;        /* datasets of datasets: how deep */
    bool has_classes;  /* own begins with a csv_rows */
    qn_data_field *field;
    size_t *bytes; /* of a sample's field */
    void *own;     /* of the kind */
};

/* ---- dataset.c ------------------------------------------------------------------------------- */

/* A dataset that fill(d, arg) completes, or raises. */
qn_dataset *dataset_make(qn_ctx *qn, void (*fill)(dataset *d, const void *arg), const void *arg);
void dataset_set_fields(dataset *d, int n, const qn_data_field *field); /* copied; raises */
void dataset_keep(dataset *d);
void dataset_release(dataset *d);
bool dataset_sample(const dataset *d, int64_t i, void *const *out, data_why *why);
bool data_wrong(data_why *why, qn_code code, const char *fmt, ...) QN_PRINTF(3, 4); /* false */

/* ---- memory.c: samples in memory; datasets of datasets --------------------------------------- */

/* Rows of data[field], which is in the arena. */
void dataset_set_rows(dataset *d, void **data);

/* ---- file.c: samples in files ---------------------------------------------------------------- */

/* So many bytes, by any thread. */
bool data_read_at(const archive *f, uint64_t at, void *out, size_t size, data_why *why);
/* A file that is read by data_read_at alone: of any bytes. It raises. */
archive *data_file(qn_ctx *qn, const char *path);
extern const archive_kind kind_idx;

/* ---- cells.c: the cells of a CSV file, one after the other
 * ------------------------------------ */

typedef struct cells {
    qn_ctx *qn;
    const char *path, *p, *end; /* p: what is read next */
    int64_t line;               /* of p, from 1 on */
    char separator;
    bool more;         /* is there another cell in this line? */
    str *value;        /* of the last cell, without quotes; never NULL */
    int64_t at;        /* its line */
    int number;        /* its number in the line, from 1 on */
    const char **name; /* of cells by number - 1, for errors; NULL: not known */
    int names;
} cells;
bool cells_line(cells *c); /* to the next line that is not empty; false: there is none */
bool cells_next(cells *c); /* the next cell of the line; false: it has ended. Raises */
QN_NORETURN void cells_bad(const cells *c, const char *fmt, ...) QN_PRINTF(2, 3);
/* Text as a number of the dtype into out; false: it is none. Spaces around it do not count. */
bool cell_number(const char *text, qn_dtype dtype, void *out);
bool cell_takes(int dtype); /* is there such a reading? */

/* ---- shuffle.c ------------------------------------------------------------------------------- */

/* A permutation of [0, n) that is computed place by place. */
typedef struct shuffle {
    uint64_t n, key[8];
    int low, high; /* bits of the halves */
} shuffle;
void shuffle_open(shuffle *s, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t shuffle_at(const shuffle *s, uint64_t i);

#endif
