/* quern_export.h - a static graph as plain C: one .c and one .h that need no Quern.
 *
 *     qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
 *     qn_export(plan, "mlp.c", NULL);
 *
 * writes mlp.c, C99 that allocates nothing and has no data that changes, and mlp.h, which says how
 * large everything is:
 *
 *     static _Alignas(MLP_ALIGN) char arena[MLP_ARENA_BYTES];
 *     mlp_run(x, y, arena);
 *
 * The caller's _Alignas is C11; in C99 memory is aligned in another way.
 * docs/export.md shows what is written and how it is compiled. */
#ifndef QUERN_EXPORT_H
#define QUERN_EXPORT_H

#include <quern.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_export_options {
    size_t size;      /* QN_EXPORT_OPTIONS() */
    const char *name; /* in front of all names, a name of C; NULL: that of the file */
    /* A file for the values of parameters, which the program reads or maps; NULL: they are arrays
     * of the .c file. */
    const char *blob;
} qn_export_options;
#define QN_EXPORT_OPTIONS(...) QN_STRUCT(qn_export_options, __VA_ARGS__)

/* Write `plan` to the file `path`, which ends in ".c", and to the header beside it. Parameters
 * are written as they are now; those that the plan assigns, as an optimizer's step does, become a
 * state that the program keeps, with these as first values. Dimension variables have the values
 * that they are bound to. The same plan gives the same files, byte by byte, and they the same bits
 * as qn_plan_run, NaNs' signs and payloads aside. Existing files are replaced by whole ones.
 * QN_EARG: a bad name or path, or two of the files are one; QN_EGRAPH: the plan calls what is not
 * to be had as C (factors of matrices, draws by rejection, kernels of one's own), which the error
 * names, or checks indices (QN_CHECK); QN_ESHAPE: a size is not bound; QN_EDEVICE: the device's
 * kernels are for work groups, or it computes nothing; QN_EIO: a file cannot be written. */
QN_API qn_code qn_export(qn_plan *plan, const char *path, const qn_export_options *options);

#ifdef __cplusplus
}
#endif

#endif
