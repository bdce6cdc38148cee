/* dlpack.h - the structs of DLPack 1, by which libraries hand arrays to each other without a copy:
 * their layout is fixed by its specification, https://dmlc.github.io/dlpack. */
#ifndef QUERN_PYTHON_DLPACK_H
#define QUERN_PYTHON_DLPACK_H

#include <stdbool.h>
#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA_HOST = 3 };
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6,
    DL_E4M3FN = 10,
    DL_E5M2 = 12
};
enum { DL_READ_ONLY = 1, DL_IS_COPIED = 2 };

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, number;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed { /* capsule "dltensor" */
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned { /* capsule "dltensor_versioned" */
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

/* What a library's type of arrays carries as __dlpack_c_exchange_api__, a capsule
 * "dlpack_exchange_api": the same without a call of Python's. Functions of objects are called with
 * the interpreter's lock and give 0, or -1 with an exception. */
typedef struct dl_table {
    struct {
        uint32_t major, minor;
    } version;
    const struct dl_table *previous; /* of an older major version; NULL: none */
    /* New memory of prototype's dtype, shape and device; refuse() is told the exception's kind. */
    int (*allocate)(dl_tensor *prototype, dl_versioned **made, void *context,
                    void (*refuse)(void *context, const char *kind, const char *message));
    int (*from_object)(void *object, dl_versioned **given);
    int (*to_object)(dl_versioned *taken, void **object);
    int (*lend)(void *object, dl_tensor *lent); /* as long as control stays; NULL: it cannot */
    int (*stream)(int32_t device, int32_t number, void **stream);
} dl_table;

static inline bool dl_is_row_major(const dl_tensor *t) {
    int64_t step = 1;
    for (int i = t->ndim; i-- > 0 && t->strides;) {
        if (t->shape[i] != 1 && t->strides[i] != step) return false;
        step *= t->shape[i];
    }
    return true;
}
static inline int64_t dl_elements(const dl_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

#endif
