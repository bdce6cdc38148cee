/* dev.h - where kernels run: a device is one file exporting one table.
 *
 * There are two kinds of device. A compiling one (cpu, opencl, null) takes scheduled kernel trees,
 * makes a program of each, and launches programs on memories. An unfused one (ref) takes nodes of
 * the graph one by one, in dependency order, all sizes being numbers; it has `eval` and no
 * `compile`. Both give memory and move data in and out.
 *
 * Memory is an opaque pointer per allocation; what a launch gets are slices of it, in bytes, so
 * that the planner may lay out one allocation for many values. A device with `host_memory` promises
 * that the pointer is an address in this process and that memory + offset may be read and written
 * by the host between launches. Slices start 64-byte aligned, but for those of ACCESS_PIECE
 * arguments: they start at any element, and of several pieces in one launch the ranges may overlap,
 * though not the elements.
 *
 * Errors. open() says in `why` what is missing and returns NULL without recording an error: a
 * device that cannot be opened is a missing device. compile() raises (QN_EDEVICE, QN_ENOMEM),
 * alloc() returns NULL, all else returns a code and has recorded the error. Launching allocates
 * nothing and takes no lock. A state is used by one thread at a time, as its context is. */
#ifndef QN_DEV_H
#define QN_DEV_H

#include "base/base.h"
#include "emit/emit.h"
#include "lower/lower.h"

/* A program made by a device's compile; each device's own struct begins with this. */
typedef struct dev_program {
    const char *name;   /* the kernel's, owned by the program */
    int args, vars;     /* what each set of a launch gives */
    bool cached;        /* came from the disk cache, nothing was compiled */
    size_t size;        /* bytes that it takes: code, constants, what stands beside them */
    double seconds;     /* that making it took; of several made side by side, its own */
    int inplaces;       /* outputs that may be the same memory as inputs; 0 also where a launch */
    inplace_pair *over; /* may fail halfway */
} dev_program;

typedef struct dev_slice {
    void *memory;
    size_t offset, size; /* bytes */
} dev_slice;

/* What a device found out of a set's values and sizes; for its next launch, until they change. */
typedef struct dev_checked {
    bool is;
    int64_t items, work;
} dev_checked;

/* What one execution of a program works on. */
typedef struct dev_set {
    const dev_slice *arg; /* program->args of them */
    const int64_t *var;   /* values of the kernel's dim_vars, in order, within their bounds */
    dev_checked *checked; /* kept by who launches it again; NULL: nobody does */
} dev_set;

/* A program and all the sets it is to be run for. */
typedef struct dev_launch {
    dev_program *program;
    uint32_t sets;
    const dev_set *set;
} dev_launch;

/* An array with known sizes. `data` is its first element, in index order; strides count elements,
 * and may be 0 (expand) or negative (flip). */
typedef struct dev_array {
    qn_dtype dtype;
    int rank;
    int64_t dim[QN_MAX_RANK], stride[QN_MAX_RANK];
    void *data;
} dev_array;

/* One node of the graph with everything numeric, for unfused devices. `out` is to be filled; it is
 * dense (dev_dense) and never overlaps a source. Attributes are as build.c documents them, with
 * syms evaluated. A SUM may have two sources of equal shapes: it is then the sum of their product,
 * computed without storing it; so a matmul's MUL need not be evaluated when only SUMs use it. */
typedef struct dev_node {
    int op;
    qn_dtype dtype; /* of the result, = out.dtype */
    int attrs;
    const int64_t *attr;
    uint64_t bits; /* CONST: the value's bit pattern */
    int sources;
    dev_array src[3];
    dev_array out;
} dev_node;

typedef struct dev_table {
    const char *name, *description;
    bool unfused;     /* nodes through eval, no compile */
    bool host_memory; /* memory + offset is an address of this process */
    bool executes;    /* false: null; memory stays undefined (zero) */

    void *(*open)(qn_ctx *qn, str *why); /* NULL: cannot be used here; raises only QN_ENOMEM */
    void (*close)(void *state);          /* every program unloaded and memory freed before */
    void (*limits)(void *state, machine *out);
    /* The dtypes that kernels cannot have, a bit each. NULL: none. */
    uint32_t (*lacks)(void *state);
    /* What kernels run on: a line for people, then whatever tells it from others. NULL: what was
     * measured here is worth nothing another time. Raises. */
    void (*describe)(void *state, str *out);
    /* What a person may want to know of it, in lines. NULL: nothing. Raises. */
    void (*tell)(void *state, str *out);

    /* The kernel is checked and scheduled; it may be closed afterwards. Its statements stay as they
     * are, its expressions and symbols may grow. Raises. */
    dev_program *(*compile)(void *state, kernel *k);
    /* Several at once, side by side. Fills in out[i] one by one; where it raises, what it has
     * filled in is the caller's. NULL: there is no better way than one after the other. */
    void (*compile_many)(void *state, int n, kernel *const *k, dev_program **out);
    void (*unload)(void *state, dev_program *p);
    /* Run the program once for each set. What a set writes overlaps no other slice of the
     * launch. Results are there when it returns; without host_memory, at the next copy out. */
    qn_code (*launch)(void *state, dev_program *p, int sets, const dev_set *set);
    /* Several launches side by side: what one writes overlaps no slice of another, either. NULL:
     * this device does not gain by that. */
    qn_code (*launch_many)(void *state, int n, const dev_launch *launch);
    /* How many scalar operations the program is for these values, roughly. NULL: not known. */
    int64_t (*work)(void *state, dev_program *p, const int64_t *var);
    /* The program's machine code as text, where this process can take it apart. NULL: never.
     * Raises. */
    void (*assembly)(void *state, dev_program *p, str *out);
    qn_code (*eval)(void *state, const dev_node *node); /* unfused devices only */
    /* work(arg, thread, i, i + 1) for each i < n on the device's threads: routines, which the host
     * computes. NULL: it has none. */
    void (*share)(void *state, int64_t n, pool_work work, void *arg);

    /* May a routine be given these slices, one for each argument of p? NULL: nobody checks. */
    qn_code (*check)(void *state, const dev_program *p, const dev_slice *arg, const bool *writes);

    void *(*alloc)(void *state, size_t size); /* size 0 is fine; NULL: no memory left */
    void (*free)(void *state, void *memory, size_t size);
    qn_code (*copy_in)(void *state, void *memory, size_t offset, const void *from, size_t size);
    qn_code (*copy_out)(void *state, const void *memory, size_t offset, void *to, size_t size);
} dev_table;

extern const dev_table dev_cpu, dev_opencl, dev_ref, dev_null;

/* ---- ref.c: views for unfused devices -------------------------------------------------------- */

void dev_dense(dev_array *a); /* row-major strides for its dims */
/* The value of a movement op (or DETACH, BITCAST) as another look at its source's memory: fills
 * strides and data, dims and dtype are node->out's. false: the node must be evaluated. */
bool dev_view(const dev_node *node, dev_array *view);

/* ---- registry.c ------------------------------------------------------------------------------ */

/* A program that is being made: run dev_made_cleanup on it. */
typedef struct dev_made {
    void (*unload)(void *state, dev_program *p);
    void *state;
    dev_program *program;
} dev_made;
void dev_made_cleanup(void *made);
/* Compile n kernels the best way the device has. Raises where one fails: then `out`, as far as it
 * is not NULL, is still the caller's. */
void dev_compile_many(const dev_table *t, void *state, int n, kernel *const *k, dev_program **out);

const dev_table *dev_at(int i);              /* NULL past the last */
const dev_table *dev_find(const char *name); /* NULL: no such device */

/* Are a launch's variables within their bounds and its arguments long enough? The program's facts
 * are evaluated for it. */
qn_code dev_check_set(qn_ctx *qn, const dev_program *p, emit_facts *f, const dev_set *set);

/* Memory functions for devices whose memory is the context's heap (cpu, ref); their state begins
 * with a qn_ctx pointer. */
void *dev_host_alloc(void *state, size_t size);
void dev_host_free(void *state, void *memory, size_t size);
qn_code dev_host_copy_in(void *state, void *memory, size_t offset, const void *from, size_t size);
qn_code dev_host_copy_out(void *state, const void *memory, size_t offset, void *to, size_t size);

#endif
