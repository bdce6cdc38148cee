/* archive.h - tensors in files of any kind: each kind has a reader of its own, which lists what is
 * there with places that are checked, and reads one when it is asked for.
 *
 * Nothing in a file is believed. A reader takes numbers by `source`, which cannot pass the end,
 * and memory by archive_alloc, which ends at twice the file's size and 1 MiB: so no count has to
 * be plausible, it only cannot do harm. A fault raises, with the file's name and the byte. */
#ifndef QN_ARCHIVE_H
#define QN_ARCHIVE_H

#include "func/func.h"
#include "io/io.h"
#include "quant/quant.h"
#include "quern_archive.h"

typedef struct archive archive;
typedef struct archive_map archive_map;

/* Floats in the file whose signs are changed: all of them; the imaginary parts. */
typedef enum archive_flip { FLIP_ALL = 1, FLIP_IMAGINARY = 2 } archive_flip;

typedef struct archive_entry {
    const char *name;
    int64_t *shape;
    int64_t *strides;   /* of the elements in the file; NULL: without gaps */
    uint64_t at, bytes; /* where they begin, and how many there are, read and put in order */
    uint32_t member;    /* of the zip; which shard */
    uint8_t dtype, quant, rank;
    bool swapped;    /* high bytes come first */
    uint8_t flipped; /* an archive_flip */
} archive_entry;

/* Numbers as they lie in the file, of a type of GGUF; texts one behind the other. */
typedef struct archive_meta {
    const char *key;
    const void *data;
    const uint64_t *start; /* of texts: [count + 1], with the zero behind each */
    uint64_t count;
    uint8_t type;
    bool list;
} archive_meta;

typedef struct archive_kind {
    const char *name;
    void (*open)(archive *f);
    /* The values, e->bytes of them in e's order, or NULL: */
    void (*read)(archive *f, const archive_entry *e, void *out);
    qn_tensor *(*tensor)(archive *f, const archive_entry *e); /* the tensor as it is */
    void (*close)(archive *f);                                /* NULL: nothing to do */
    bool in_file; /* an entry's `at` is a place in the file, where its bytes are as in memory */
} archive_kind;
extern const archive_kind kind_safetensors, kind_index, kind_gguf, kind_npy, kind_npz, kind_pt;

struct archive {
    qn_ctx *ctx;
    char *path;
    size_t path_size;
    int fd;
    uint64_t size;    /* of the file */
    bool mapped;      /* tensors lie in it, where they can */
    archive_map *map; /* NULL: there is none yet */
    arena a;
    const archive_kind *kind;
    archive_entry *entry;
    uint32_t count, metas;
    archive_meta *meta;
    const archive_entry **by_name;
    const archive_meta **by_key;
    struct zip *zip; /* of npz and pt */
    void *own;       /* of the kind */
};

/* ---- archive.c ------------------------------------------------------------------------------- */

QN_COLD QN_NORETURN void archive_bad(const archive *f, uint64_t at, const char *fmt, ...)
    QN_PRINTF(3, 4);
void *archive_alloc(archive *f, uint64_t count, size_t width); /* zeroed; raises past the bound */
void archive_read_at(archive *f, uint64_t at, void *out, size_t size);
/* The file's, with its list read and checked; NULL: reported. */
archive *archive_load(qn_ctx *qn, const char *path);
/* The same of a file that is of this kind, whatever it looks like. */
archive *archive_load_as(qn_ctx *qn, const char *path, const archive_kind *kind);
void archive_free(archive *f);
const archive_entry *archive_find(const archive *f, const char *name); /* NULL: no such */
qn_tensor *archive_read(archive *f, const archive_entry *e, bool blocks);
/* Bytes of a shape; raises where it has more than 2^63 or a size below 0. */
uint64_t archive_bytes(const archive *f, uint64_t at, const archive_entry *e);

/* ---- mapped.c: tensors that lie in the file -------------------------------------------------- */

bool archive_lies(const archive *f, const archive_entry *e);   /* may e? */
qn_tensor *archive_mapped(archive *f, const archive_entry *e); /* blocks as u8; NULL: reported */
void archive_unmap(void *map);                                 /* one user less */
/* All of the file that tensors lie in will be needed: a thread asks for its pages, in order. Of
 * shards it does nothing. */
void archive_ahead(const qn_archive *known);
/* The bytes of blocks that lie in the file as f16, for quant_half_scales. NULL: they do not. */
qn_tensor *archive_halves(const qn_archive *known, const char *name);

/* ---- source.c: numbers from a part of the file, in order ------------------------------------- */

enum { SOURCE_WINDOW = 1 << 15 };
typedef struct source {
    archive *f;
    uint64_t at, end;     /* the next byte; where it ends */
    uint64_t from, until; /* what the window holds */
    uint8_t *window;
} source;
void source_open(source *s, archive *f, uint64_t at, uint64_t end);
void source_take(source *s, void *out, uint64_t size);
void source_skip(source *s, uint64_t size);
uint8_t source_u8(source *s);
uint16_t source_u16(source *s);
uint32_t source_u32(source *s);
uint64_t source_u64(source *s);
char *source_text(source *s, uint64_t size); /* a zero behind it */
char *source_name(source *s, uint64_t size); /* the same: UTF-8 without zeros, not empty */

/* ---- zip.c ----------------------------------------------------------------------------------- */

typedef struct zip_member {
    const char *name;
    uint64_t at, packed, size; /* of its header; its bytes in the file, and unpacked */
    uint32_t crc;
    uint16_t method; /* 0 stored, 8 deflated */
} zip_member;
typedef struct zip {
    zip_member *member;
    const zip_member **by_name;
    uint32_t count;
    uint64_t directory; /* where members end */
    struct inflater *inflater;
} zip;
bool zip_open(archive *f); /* its list; false: there is none of that name */
uint64_t zip_data(archive *f, const zip_member *m); /* where its bytes begin */
/* The first `size` bytes of a member, unpacked; all of it: its sum is checked, too. */
void zip_read(archive *f, const zip_member *m, void *out, uint64_t size);
const zip_member *zip_find(const archive *f, const char *name);
void zip_close(archive *f);
uint32_t zip_crc(uint32_t crc, const void *data, size_t size);

/* ---- inflate.c: zlib, if it is there --------------------------------------------------------- */

/* `out`, the first bytes of what [at, at + packed) unpacks to. Raises. */
typedef struct inflate_from {
    uint64_t at, packed;
} inflate_from;
void archive_inflate(archive *f, inflate_from from, void *out, uint64_t size);
void inflate_close(archive *f);

/* ---- npy.c ----------------------------------------------------------------------------------- */

/* The header at the beginning of `head`, which has room for one more byte and may be written to;
 * what it says into e but its name and place. How long the header is. `at`: for messages. */
uint64_t npy_header(archive *f, archive_entry *e, uint8_t *head, uint64_t size, uint64_t at);
void npy_order(const archive_entry *e, uint8_t *data, size_t width); /* low bytes first */
void npy_write_header(str *out, qn_dtype dtype, int rank, const int64_t *shape);
bool npy_has(qn_dtype dtype);

/* ---- pickle.c: pt ---------------------------------------------------------------------------- */

/* ---- gguf.c ---------------------------------------------------------------------------------- */

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_LIST,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};
extern const uint8_t gguf_width[GGUF_TYPES];
int gguf_of_dtype(qn_dtype dtype); /* its number in files, -1: it has none */

/* ---- save.c, save_gguf.c, save_npy.c --------------------------------------------------------- */

typedef struct saving {
    qn_ctx *ctx;
    const char *path;
    int n;
    const char *const *names;
    qn_tensor *const *tensors;
    qn_archive_options o;
    const archive *like;
    archive_entry *entry; /* names, dtypes, shapes, bytes */
    arena a;
    str head;
    file_writer file;
    void *data; /* one tensor's */
    size_t data_size;
} saving;
void saving_write(saving *s, const void *data, size_t size); /* raises, as all of these */
void saving_zeros(saving *s, uint64_t n);
const void *saving_value(saving *s, int i); /* of tensor i, until the next one's */
void save_gguf(saving *s);
void save_npy(saving *s);
void save_npz(saving *s);

#endif
