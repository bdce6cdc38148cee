/* play_blas.c - OpenBLAS and BLIS, found at run time: cblas_sgemm, and cblas_sgemv for one row,
 * which is faster in both. The director has set their core type and threads in the environment. */
#include "versus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 101, PLAIN = 111, TRANSPOSED = 112 };
typedef void gemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                     int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void gemv_fn(int order, int ta, int m, int n, float alpha, const float *a, int lda,
                     const float *x, int incx, float beta, float *y, int incy);

static struct {
    gemm_fn *gemm;
    gemv_fn *gemv;
    int batch, m, n, k, tb;
    float *a, *b, *c;
} blas;

static const char *open_blas(int threads, const char *variant) {
    static const char *const files[][4] = {
        {"openblas", "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
         "libopenblas.so.0", "libopenblas.so"},
        {"blis", "/usr/lib/x86_64-linux-gnu/blis-pthread/libblis.so.4", "libblis.so.4",
         "libblis.so"},
    };
    void *lib = NULL;
    (void)threads;
    for (int row = 0; row < 2; row++)
        for (int i = 1; i < 4 && !lib && !strcmp(files[row][0], variant); i++)
            lib = dlopen(files[row][i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) return "the library is not installed";
    *(void **)&blas.gemm = dlsym(lib, "cblas_sgemm");
    *(void **)&blas.gemv = dlsym(lib, "cblas_sgemv");
    return blas.gemm && blas.gemv ? NULL : "no cblas_sgemm in the library";
}

static const char *load_blas(const vs_case *c) {
    if (c->kind != VS_GEMM) return "matrix products only";
    blas.batch = (int)c->d[0];
    blas.m = (int)c->d[1];
    blas.n = (int)c->d[2];
    blas.k = (int)c->d[3];
    blas.tb = (int)c->d[4];
    blas.a = vs_memory((size_t)vs_input(c, 0) * 4);
    blas.b = vs_memory((size_t)vs_input(c, 1) * 4);
    blas.c = vs_memory((size_t)vs_output(c) * 4);
    vs_fill(blas.a, 0, vs_input(c, 0));
    vs_fill(blas.b, 1, vs_input(c, 1));
    return NULL;
}

static bool call_blas(void) {
    int m = blas.m, n = blas.n, k = blas.k;
    if (m == 1 && blas.tb) {
        blas.gemv(ROWS, PLAIN, n, k, 1, blas.b, k, blas.a, 1, 0, blas.c, 1);
        return true;
    }
    if (m == 1) {
        blas.gemv(ROWS, TRANSPOSED, k, n, 1, blas.b, n, blas.a, 1, 0, blas.c, 1);
        return true;
    }
    for (int64_t i = 0; i < blas.batch; i++)
        blas.gemm(ROWS, PLAIN, blas.tb ? TRANSPOSED : PLAIN, m, n, k, 1, blas.a + i * m * k, k,
                  blas.b + i * n * k, blas.tb ? k : n, 0, blas.c + i * m * n, n);
    return true;
}

static double value_blas(int64_t i) {
    return (double)blas.c[i];
}

const vs_player vs_blas = {"blas", open_blas, load_blas, call_blas, value_blas, NULL};
