/* quern_archive.h - tensors in files of any kind: safetensors, also in shards by an index, GGUF,
 * NumPy's npy and npz, and PyTorch's pt of tensors. qn_file_* of quern.h reads and qn_save writes
 * safetensors alone; here the kind of a file follows from what is in it.
 *
 *     qn_archive *a = qn_archive_open(qn, "model.gguf");
 *     for (int i = 0; i < qn_archive_count(a); i++) puts(qn_archive_name(a, i));
 *     qn_tensor *w = qn_archive_tensor(a, "blk.0.attn_q.weight");
 *     qn_archive_close(a);
 *
 * Files come from anywhere: whatever their bytes are, the worst that happens is QN_EFORMAT, which
 * says where. Nothing that is in a file is executed. Values stay in the file until asked for, and
 * opening takes at most twice the file's size and 1 MiB of memory, but for a safetensors header,
 * which is JSON. */
#ifndef QUERN_ARCHIVE_H
#define QUERN_ARCHIVE_H

#include <quern_quant.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading archives ------------------------------------------------------------------- */

/* A file opened for reading. Close it before its context. An index of shards needs those beside
 * it. QN_EIO: it cannot be read; QN_EFORMAT: it is damaged, or of a kind that is none of these. */
typedef struct qn_archive qn_archive;
QN_API qn_archive *qn_archive_open(qn_ctx *qn, const char *path);
typedef struct qn_archive_reading {
    size_t size; /* QN_ARCHIVE_READING() */
    bool mapped; /* tensors lie in the file, which is mapped */
} qn_archive_reading;
#define QN_ARCHIVE_READING(...) QN_STRUCT(qn_archive_reading, __VA_ARGS__)
/* The same, and by `mapped` the tensors of GGUF and safetensors files lie in the file: nothing is
 * read before it is needed, and its pages are shared with other processes. They have the same
 * values; an assignment to one takes other memory and leaves the file as it is. They may outlive
 * the archive. Where that cannot be, on a device with memory of its own, of bools, complex numbers
 * and what is at no multiple of its elements' size, and in files of other kinds, it makes no
 * difference. The file must stay as it is while tensors lie in it: what is written to it changes
 * them, and where it is cut short the process ends by SIGBUS. So replace such a file by renaming
 * another to its name. `options` may be NULL, which is qn_archive_open. */
QN_API qn_archive *qn_archive_open_with(qn_ctx *qn, const char *path,
                                        const qn_archive_reading *options);
QN_API void qn_archive_close(qn_archive *archive);
/* "safetensors", "index", "gguf", "npy", "npz" or "pt". */
QN_API const char *qn_archive_kind(const qn_archive *archive);
QN_API int qn_archive_count(const qn_archive *archive);
/* Name of tensor `i` in the file's order, NULL past the last. An npy file's is "array"; in a pt
 * file it is the keys that lead there, joined by dots. Valid until the archive is closed. */
QN_API const char *qn_archive_name(const qn_archive *archive, int i);

typedef struct qn_archive_info {
    qn_dtype dtype; /* of its values: f32 where it is in blocks */
    qn_quant quant; /* QN_QUANT_NONE: plain */
    int rank;
    int64_t shape[12]; /* QN_MAX_RANK */
    uint64_t bytes;    /* that its values take in the file, unpacked */
} qn_archive_info;
/* What is known of tensor `i` before it is read, into out, of `size` bytes. QN_ERANGE: no such. */
QN_API qn_code qn_archive_get_info(const qn_archive *archive, int i, qn_archive_info *out,
                                   size_t size);
/* A new tensor with the values under `name`; of one in blocks an expression, qn_dequantize, of its
 * bytes. QN_EARG when there is none, saying which are near. */
QN_API qn_tensor *qn_archive_tensor(const qn_archive *archive, const char *name);
/* The blocks themselves: u8, for qn_dequantize. QN_EARG also where it is in no blocks. */
QN_API qn_tensor *qn_archive_blocks(const qn_archive *archive, const char *name);

/* ---- metadata of archives --------------------------------------------------------------- */

typedef enum qn_meta {
    QN_META_NONE = 0, /* there is nothing */
    QN_META_INT = 1,
    QN_META_FLOAT = 2,
    QN_META_BOOL = 3,
    QN_META_TEXT = 4
} qn_meta;

/* Key `i` of the file's metadata, NULL past the last. Valid until the archive is closed. */
QN_API const char *qn_archive_meta_key(const qn_archive *archive, int i);
/* What is under a key, QN_META_NONE where there is nothing; and how many of them, -1 where it is no
 * list, into count unless NULL. */
QN_API qn_meta qn_archive_meta(const qn_archive *archive, const char *key, int64_t *count);
/* Element `i` under a key, 0 where it is no list: an integer or bool, 0 where there is none such;
 * those of u64 beyond 2^63 wrap. */
QN_API int64_t qn_archive_meta_int(const qn_archive *archive, const char *key, int64_t i);
/* The same of any number, NaN where there is none such. */
QN_API double qn_archive_meta_float(const qn_archive *archive, const char *key, int64_t i);
/* The same of a text, NULL where there is none such, with a zero behind it; and its bytes, for a
 * text may hold zeros. Valid until the archive is closed. */
QN_API const char *qn_archive_meta_text(const qn_archive *archive, const char *key, int64_t i);
QN_API size_t qn_archive_meta_size(const qn_archive *archive, const char *key, int64_t i);

/* ---- writing archives ------------------------------------------------------------------- */

typedef struct qn_archive_options {
    size_t size;                 /* QN_ARCHIVE_OPTIONS() */
    const char *kind;            /* NULL: by the end of the path, as ".gguf" */
    const qn_quant *quants;      /* of tensor i, u8: the type of the blocks that it holds; NULL or
                                  * QN_QUANT_NONE: it is plain. gguf only */
    const char *const *metadata; /* texts stored along: keys and values by turns. Not npy, npz */
    int pairs;                   /* how many */
    const qn_archive *like;      /* whose metadata is stored, too, where the kind has such: lists
                                  * in gguf only */
} qn_archive_options;
#define QN_ARCHIVE_OPTIONS(...) QN_STRUCT(qn_archive_options, __VA_ARGS__)
/* Write n named tensors as "safetensors", "gguf", "npz", or one as "npy". The file appears under
 * `path` only when it is complete. QN_EARG: no such kind, names that are equal, empty or no UTF-8;
 * QN_EDTYPE: a dtype that the kind has not, as bf16 in npz; QN_ESHAPE: more than 4 axes in gguf. */
QN_API qn_code qn_archive_save(qn_ctx *qn, const char *path, int n, const char *const *names,
                               qn_tensor *const *tensors, const qn_archive_options *options);

#ifdef __cplusplus
}
#endif

#endif
