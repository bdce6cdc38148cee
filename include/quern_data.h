/* quern_data.h - data to train on: datasets of numbered samples, in memory, in files or made by a
 * function, and loaders, which shuffle them, gather batches ahead of their use and say where they
 * are, so that a training goes on from there bit for bit.
 *
 *     qn_dataset *d = qn_dataset_open(qn, "digits.npz");
 *     qn_loader *l = qn_loader_new(d, &QN_LOADER_OPTIONS(.batch = 64, .shuffle = true));
 *     qn_tensor *batch[2];
 *     while (qn_loader_next(l, batch) > 0) { .. batch[0] is [64, 8, 8], batch[1] is [64] .. }
 *     qn_loader_free(l);
 *     qn_dataset_close(d);
 */
#ifndef QUERN_DATA_H
#define QUERN_DATA_H

#include <quern_text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- datasets --------------------------------------------------------------------------- */

/* Samples 0 to count - 1, each of the same fields: arrays whose dtypes and shapes are known. A
 * loader, and a dataset that is made of others, goes on using one that was closed. Close it before
 * its context. */
typedef struct qn_dataset qn_dataset;
typedef struct qn_data_field {
    const char *name;
    qn_dtype dtype; /* none that is complex */
    int rank;
    int64_t shape[12]; /* of one sample; QN_MAX_RANK */
} qn_data_field;

/* Rows of n tensors along axis 0, of which all have equally many. Values are computed now, and stay
 * what they are now, also where the tensor is assigned to. names may be NULL: "0", "1" .. are. */
QN_API qn_dataset *qn_dataset_tensors(qn_ctx *qn, int n, const char *const *names,
                                      qn_tensor *const *tensors);
/* The same of all arrays of a file: npy, npz, safetensors and what else qn_archive_open reads, or
 * IDX, the format of MNIST (its array is called "array"). Where elements lie in order, samples are
 * read from the file when they are asked for, by positioned reads, so it may be larger than memory;
 * others, as packed ones, are read now. QN_EFORMAT, with the byte: damaged, or of another kind;
 * QN_ESHAPE: arrays of several numbers of rows, or of none. */
QN_API qn_dataset *qn_dataset_open(qn_ctx *qn, const char *path);

/* Columns of a CSV file (RFC 4180; lines may end in LF alone, a byte order mark and empty lines are
 * skipped), read now. Numbers are as C has them, in decimal, exact and whatever the locale; nan and
 * inf are numbers of floats, true and false bools. */
typedef struct qn_csv_field {
    const char *name;          /* of the field; NULL: its first column's */
    qn_dtype dtype;            /* of the values */
    int columns;               /* how many; 0: one, and the field has no axis */
    const char *const *column; /* their names; without a header line numbers from "0" on */
    bool classes;              /* one column of texts: the values are their places among all
                                 * different ones, sorted by bytes (qn_dataset_class) */
} qn_csv_field;
typedef struct qn_csv_options {
    size_t size; /* QN_CSV_OPTIONS() */
    int fields;  /* 0: every column is a field of its own, f32 */
    const qn_csv_field *field;
    bool no_header;
    char separator;      /* 0: a comma */
    const char *missing; /* a text that stands for a missing value, beside an empty one */
    bool fill;           /* a missing value is fill_value; else NaN, and QN_EFORMAT in integers */
    double fill_value;
} qn_csv_options;
#define QN_CSV_OPTIONS(...) QN_STRUCT(qn_csv_options, __VA_ARGS__)
/* options may be NULL. QN_EFORMAT with line and column: a quote out of place, a line of another
 * number of cells, what is no number of the dtype; QN_EARG: no such column, with those near. */
QN_API qn_dataset *qn_dataset_csv(qn_ctx *qn, const char *path, const qn_csv_options *options);
/* Text `i` of a field of classes, NULL past the last. Valid until the dataset is closed. */
QN_API const char *qn_dataset_class(const qn_dataset *d, int field, int64_t i);

/* A long sequence of tokens as windows: fields "ids" and "targets", i32 [window], a sample's
 * targets being the tokens that follow each of its ids. Sample i begins at token i * stride. */
typedef struct qn_tokens_options {
    size_t size;             /* QN_TOKENS_OPTIONS() */
    int64_t window, stride;  /* stride 0: window */
    qn_tokenizer *tokenizer; /* the file is text, which it encodes now; NULL: the file is tokens */
    qn_dtype dtype;          /* of tokens in the file: 0, QN_U8, bytes; QN_U16 or QN_I32, low
                              * bytes first; read when asked for */
} qn_tokens_options;
#define QN_TOKENS_OPTIONS(...) QN_STRUCT(qn_tokens_options, __VA_ARGS__)
QN_API qn_dataset *qn_dataset_tokens(qn_ctx *qn, const char *path,
                                     const qn_tokens_options *options);

/* Write sample i into out[field], row-major. 0, or anything else and a text of at most `size` bytes
 * into why: that sample cannot be had. It is called by a loader's threads, several at once, and may
 * not call Quern. */
typedef int qn_sample_function(void *arg, int64_t i, void *const *out, char *why, size_t size);
typedef struct qn_dataset_options {
    size_t size; /* QN_DATASET_OPTIONS() */
    int64_t count;
    int fields; /* from 1 to 64 */
    const qn_data_field *field;
    qn_sample_function *function;
    void *arg; /* alive as long as the dataset, and loaders of it */
} qn_dataset_options;
#define QN_DATASET_OPTIONS(...) QN_STRUCT(qn_dataset_options, __VA_ARGS__)
QN_API qn_dataset *qn_dataset_new(qn_ctx *qn, const qn_dataset_options *options);

/* Samples that have the fields of n datasets of equally many; those of n datasets of equal fields,
 * one behind the other; those of these numbers alone, in this order. Where there is no dataset but
 * NULL there is no context to say so in: NULL is all they give. */
QN_API qn_dataset *qn_dataset_zip(int n, qn_dataset *const *datasets);
QN_API qn_dataset *qn_dataset_concat(int n, qn_dataset *const *datasets);
QN_API qn_dataset *qn_dataset_part(qn_dataset *d, int64_t n, const int64_t *index);

QN_API void qn_dataset_close(qn_dataset *d);
QN_API int64_t qn_dataset_count(const qn_dataset *d);
QN_API int qn_dataset_fields(const qn_dataset *d);
/* Field i into out, of `size` bytes. QN_ERANGE: no such. */
QN_API qn_code qn_dataset_get_field(const qn_dataset *d, int i, qn_data_field *out, size_t size);
/* One sample into out[field], each large enough for it. */
QN_API qn_code qn_dataset_read(const qn_dataset *d, int64_t i, void *const *out);

/* ---- loaders ---------------------------------------------------------------------------- */

typedef struct qn_loader qn_loader;
typedef struct qn_loader_options {
    size_t size;    /* QN_LOADER_OPTIONS() */
    int64_t batch;  /* samples in one; 0: 1 */
    bool shuffle;   /* in another order each epoch, by seed and epoch */
    bool drop_last; /* a last batch that is not full is left out */
    uint64_t seed;
    int threads;     /* that gather batches ahead; 0: who asks does. At most 64 */
    int ahead;       /* how many batches ahead; 0: two a thread. At most 1024 */
    int rank, world; /* this one takes every world-th sample, from number rank on; 0, 0: all */
} qn_loader_options;
#define QN_LOADER_OPTIONS(...) QN_STRUCT(qn_loader_options, __VA_ARGS__)
/* Order and contents depend on dataset, seed, epoch and place alone, not on threads. The order is a
 * permutation that is computed, not stored. Of `world` loaders each sample is in one; with
 * drop_last all have equally many batches. Free it before its context. */
QN_API qn_loader *qn_loader_new(qn_dataset *d, const qn_loader_options *options);
/* At any time; batches that are still held stay. */
QN_API void qn_loader_free(qn_loader *l);
QN_API int64_t qn_loader_batches(const qn_loader *l); /* in an epoch */
/* The next batch: tensors [rows, ..field's shape] into out[field], and how many rows. They lie
 * where they were gathered, and that memory is used again when they are released, so each batch has
 * the plan of the one before. 0, and no tensors: the epoch is over, the next call begins another.
 * -1 after an error, that of a sample with its number; cleared, the next call goes on behind that
 * batch. */
QN_API int64_t qn_loader_next(qn_loader *l, qn_tensor **out);

/* Which of n samples comes at `place` of an epoch that is shuffled, as loaders have it; -1: no such
 * place. */
QN_API int64_t qn_shuffled(int64_t n, uint64_t seed, int64_t epoch, int64_t place);

/* Where a loader is: what comes next. */
typedef struct qn_loader_state {
    size_t size; /* QN_LOADER_STATE() */
    uint64_t seed;
    int64_t epoch, batch; /* from 0 on; after the last batch of an epoch: its number of batches */
    int64_t batches;      /* in an epoch */
} qn_loader_state;
#define QN_LOADER_STATE(...) QN_STRUCT(qn_loader_state, __VA_ARGS__)
/* Into out, of `size` bytes. */
QN_API qn_code qn_loader_get_state(const qn_loader *l, qn_loader_state *out, size_t size);
/* Go on from there, also in another process. QN_ERANGE: an epoch or batch that is none; QN_EARG:
 * another number of batches than here, so the data or their options are others. `batches` 0 is not
 * compared. */
QN_API qn_code qn_loader_set_state(qn_loader *l, const qn_loader_state *state);

#ifdef __cplusplus
}
#endif

#endif
