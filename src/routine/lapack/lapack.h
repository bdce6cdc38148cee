/* lapack.h - a LAPACK library, if there is one, for the factors of large matrices.
 *
 * It is loaded at run time and never needed: what it does our own routines do, too, and they take
 * over whatever it gives up on. Its matrices lie by columns, so ours are their transposes to it: it
 * is asked for the upper factor where we want the lower one, or for systems from the right, and
 * copies are turned only where it has no such form. It computes in the elements' own precision.
 *
 * It works on one thread, as routines do: bits do not depend on the number of threads. */
#ifndef QN_ROUTINE_LAPACK_H
#define QN_ROUTINE_LAPACK_H

#include "routine/matrix.h"

/* X(name, arguments): functions of Fortran, of f32 as s<name>_, of f64 as d<name>_. Behind the
 * arguments stand the lengths of those that are characters. */
#define LAPACK_API(X)                                                                              \
    X(potrf, (const char *uplo, const int *n, void *a, const int *lda, int *info, size_t))         \
    X(getrf, (const int *m, const int *n, void *a, const int *lda, int *pivot, int *info))         \
    X(trsm, (const char *side, const char *uplo, const char *trans, const char *diag,              \
             const int *m, const int *n, const void *alpha, const void *a, const int *lda,         \
             void *b, const int *ldb, size_t, size_t, size_t, size_t))                             \
    X(geqrf, (const int *m, const int *n, void *a, const int *lda, void *tau, void *work,          \
              const int *lwork, int *info))                                                        \
    X(orgqr, (const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau,  \
              void *work, const int *lwork, int *info))                                            \
    X(syevd,                                                                                       \
      (const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w,         \
       void *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t))    \
    X(gesdd, (const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s,      \
              void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,    \
              int *iwork, int *info, size_t))

typedef struct lapack_functions {
#define X(name, arguments) void(*name) arguments;
    LAPACK_API(X)
#undef X
} lapack_functions;

struct lapack {
    lapack_functions f32, f64;
    char told[300]; /* its file, or why there is none */
    bool here;
};

/* Matrices of which a side is shorter go to our own routines: it is LAPACK's own block, below which
 * it goes through columns one by one, too, and ours are more accurate for f32. A length and not a
 * time, so that what a library computes does not depend on the machine. */
enum { LAPACK_FROM = 64 };

/* What it computes, a row for each routine: X(ROUTINE, its function in factor.c, its scratch). */
#define LAPACK_ROUTINES(X)                                                                         \
    X(CHOLESKY, cholesky, none)                                                                    \
    X(SOLVE_TRIANGULAR, solve_triangular, none)                                                    \
    X(SOLVE, solve, solve)                                                                         \
    X(DETERMINANT, determinant, solve)                                                             \
    X(QR, qr, qr)                                                                                  \
    X(EIGH, eigh, eigh)                                                                            \
    X(SVD, svd, svd)

#endif
