/* play_lists.c - Quern as a player: scans, sorting, tables, norms and pooling, linear algebra, each
 * a static graph; and lists of tensors, recorded anew at each call, since what is measured of them
 * is the recording, too. */
#include "play_quern.h"

#include <stdlib.h>

/* ---- sorting, tables ---- */

static qn_tensor *integers(played *p, int64_t n, int64_t below) {
    int32_t *data = malloc((size_t)n * sizeof *data);
    if (!data) return NULL;
    for (int64_t i = 0; i < n; i++) data[i] = (int32_t)vs_index(i, below);
    qn_tensor *t = qn_from(p->qn, QN_I32, 1, &n, data);
    free(data);
    p->in[p->inputs++] = t;
    return t;
}

static qn_tensor *sorted(played *p, const vs_case *c) {
    const int64_t *d = c->d;
    qn_tensor *values = NULL;
    if (c->kind == VS_UNIQUE) {
        if (qn_unique(integers(p, d[0], d[1]), &values, NULL, NULL, NULL, NULL)) return NULL;
        return values;
    }
    qn_tensor *x = play_input(p, c, 0, 2, d);
    if (c->kind == VS_CUMSUM) return qn_cumsum(x, (int)d[2]);
    if (c->kind == VS_SORT) return qn_sort(x, -1, false);
    if (c->kind == VS_ARGSORT) return qn_argsort(x, -1, false);
    return qn_topk(x, d[2], -1, true, &values, NULL) ? NULL : values;
}

static qn_tensor *table(played *p, const vs_case *c) {
    const int64_t *d = c->d, picked[] = {d[2], d[1]};
    qn_tensor *x = play_input(p, c, 0, 2, d), *g = NULL;
    if (c->kind == VS_TAKE) return qn_take(x, integers(p, d[2], d[0]), 0);
    qn_tensor *rows = play_input(p, c, 1, 2, picked), *index = integers(p, d[2], d[0]);
    if (c->kind == VS_INDEX_ADD) return qn_index_add(x, index, rows, 0);
    return qn_grad(qn_embedding(x, index), rows, 1, &x, &g) ? NULL : g;
}

/* ---- images ---- */

static void batch_norm(played *p, const vs_case *c) {
    const int64_t *d = c->d, shape[] = {d[0], d[1], d[2], d[2]};
    qn_tensor *x = play_input(p, c, 0, 4, shape), *out[3], *of[3] = {x};
    for (int i = 1; i < 3; i++) {
        float data[1024];
        for (int64_t j = 0; j < d[1] && j < 1024; j++) data[j] = i == 1;
        of[i] = p->in[p->inputs++] = qn_from(p->qn, QN_F32, 1, d + 1, data);
    }
    if (qn_batch_norm_training(x, of[1], of[2], 1e-5, out)) return;
    p->out[0] = out[0];
    p->outputs = 1;
    if (c->kind == VS_BATCH_NORM) return;
    qn_tensor *seed = play_input(p, c, 1, 4, shape);
    p->outputs = qn_grad(out[0], seed, 3, of, p->out) ? 0 : 3;
}

static qn_tensor *pool(played *p, const vs_case *c) {
    const int64_t *d = c->d, shape[] = {d[0], d[1], d[2], d[2]}, size[] = {d[3], d[3]};
    qn_conv_options o = QN_CONV_OPTIONS(.stride = {d[4], d[4]});
    qn_tensor *x = play_input(p, c, 0, 4, shape), *g = NULL;
    if (c->kind == VS_AVG_POOL) return qn_avg_pool(x, size, &o);
    qn_tensor *y = qn_max_pool(x, size, &o);
    if (c->kind == VS_MAX_POOL) return y;
    return qn_grad(qn_sum(qn_square(y), QN_ALL, false), NULL, 1, &x, &g) ? NULL : g;
}

static qn_tensor *resized(played *p, const vs_case *c) {
    const int64_t *d = c->d, shape[] = {d[0], d[1], d[2], d[2]}, sizes[] = {d[3], d[3]};
    qn_interpolate_options o =
        QN_INTERPOLATE_OPTIONS(.mode = c->kind == VS_BILINEAR ? QN_INTERPOLATE_LINEAR
                                                              : QN_INTERPOLATE_CUBIC);
    return qn_interpolate(play_input(p, c, 0, 4, shape), sizes, &o);
}

/* ---- Fourier transforms, linear algebra ---- */

static qn_tensor *transform(played *p, const vs_case *c) {
    const int64_t pairs[] = {c->d[0], c->d[1], 2};
    return qn_fft(play_input(p, c, 0, 3, pairs), 0, -1, QN_NORM_BACKWARD);
}

/* x is any matrix; (x + x^T) / 2 symmetric, by 1/n and with 2 on its diagonal positive definite; x
 * with n on its diagonal is well conditioned. */
static qn_tensor *algebra(played *p, const vs_case *c) {
    int64_t n = c->d[0], shape[] = {n, n};
    qn_tensor *x = play_input(p, c, 0, 2, shape), *a = NULL, *b = NULL, *eye;
    qn_tensor *half = qn_mul(qn_add(x, qn_transpose(x, 0, 1)), qn_like(x, 0.5));
    eye = qn_eye(p->qn, QN_F32, n, n);
    if (c->kind == VS_CHOLESKY)
        half = qn_add(qn_mul(half, qn_like(x, 1. / (double)n)), qn_mul(eye, qn_like(x, 2)));
    if (c->kind == VS_SOLVE || c->kind == VS_INV || c->kind == VS_TRIANGULAR)
        half = qn_add(x, qn_mul(eye, qn_like(x, (double)n)));
    if (c->kind == VS_QR || c->kind == VS_SVD) half = x;
    if (qn_realize(1, &half)) return NULL;
    p->in[0] = half;
    switch (c->kind) {
    case VS_CHOLESKY:
        return qn_cholesky(half, false);
    case VS_SOLVE:
        return qn_solve(half, play_input(p, c, 1, 1, &n));
    case VS_INV:
        return qn_inv(half);
    case VS_TRIANGULAR:
        return qn_solve_triangular(half, play_input(p, c, 1, 2, shape), false, false, false);
    case VS_QR:
        return qn_qr(half, &a, &b) ? NULL : (p->out[1] = a, p->outputs = 2, qn_abs(b));
    case VS_SVD:
        if (qn_svd(half, &p->out[1], &b, &p->out[2])) return NULL;
        p->outputs = 3;
        return b;
    default:
        if (qn_eigh(half, &a, &p->out[1])) return NULL;
        p->outputs = 2;
        return a;
    }
}

/* ---- lists ---- */

static bool again(played *p) {
    const int64_t *d = p->pieces_case.d;
    int n = (int)d[0];
    qn_scope scope = qn_scope_begin(p->qn);
    qn_tensor *y = NULL, **x = p->pieces, **g = x + n, **part = g + n;
    bool ok = true;
    switch (p->pieces_case.kind) {
    case VS_STACK:
        y = qn_stack(n, x, (int)d[3]);
        break;
    case VS_CONCAT_GRAD:
        y = qn_square(qn_concat(n, x, 0));
        ok = !qn_grad(qn_sum(y, QN_ALL, false), NULL, n, x, g) && !qn_realize(n, g);
        y = g[0];
        break;
    case VS_SELECT_GRAD:
        for (int i = 0; i < n; i++) part[i] = qn_select(p->in[0], 0, i);
        y = qn_square(qn_stack(n, part, 0));
        ok = !qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, p->in, &y);
        break;
    default: /* times x: the gradient of a plain sum takes no product */
        for (int i = 0; i < n; i++)
            part[i] = qn_sum(qn_mul(qn_matmul(x[i], p->in[1]), x[i]), QN_ALL, false);
        y = part[0];
        for (int i = 1; i < n; i++) y = qn_add(y, part[i]);
        ok = !qn_grad(y, NULL, 1, &p->in[1], &y);
    }
    ok = ok && y && !qn_realize(1, &y);
    p->out[0] = qn_scope_return(p->qn, scope, ok ? y : NULL);
    return ok;
}

static bool list(played *p, const vs_case *c) {
    const int64_t *d = c->d;
    qn_tensor *x = play_input(p, c, 0, 3, d);
    if (c->kind == VS_SHARED) play_input(p, c, 1, 2, (int64_t[]){d[2], d[2]});
    p->pieces = calloc((size_t)d[0] * 3, sizeof *p->pieces);
    for (int64_t i = 0; p->pieces && i < d[0]; i++) p->pieces[i] = qn_clone(qn_select(x, 0, i));
    if (!p->pieces || qn_realize((int)d[0], p->pieces)) return false;
    p->pieces_case = *c;
    p->again = again;
    p->outputs = 1;
    return again(p);
}

bool play_lists(played *p, const vs_case *c) {
    p->outputs = 1;
    switch (c->kind) {
    case VS_CUMSUM:
    case VS_SORT:
    case VS_ARGSORT:
    case VS_TOPK:
    case VS_UNIQUE:
        p->out[0] = sorted(p, c);
        return true;
    case VS_TAKE:
    case VS_INDEX_ADD:
    case VS_EMBEDDING_GRAD:
        p->out[0] = table(p, c);
        return true;
    case VS_BATCH_NORM:
    case VS_BATCH_NORM_GRAD:
        batch_norm(p, c);
        return true;
    case VS_MAX_POOL:
    case VS_AVG_POOL:
    case VS_MAX_POOL_GRAD:
        p->out[0] = pool(p, c);
        return true;
    case VS_BILINEAR:
    case VS_BICUBIC:
        p->out[0] = resized(p, c);
        return true;
    case VS_FFT:
        p->out[0] = transform(p, c);
        return true;
    case VS_CHOLESKY:
    case VS_SOLVE:
    case VS_INV:
    case VS_TRIANGULAR:
    case VS_QR:
    case VS_SVD:
    case VS_EIGH:
        p->out[0] = algebra(p, c);
        return true;
    case VS_STACK:
    case VS_CONCAT_GRAD:
    case VS_SELECT_GRAD:
    case VS_SHARED:
        return list(p, c);
    default:
        p->outputs = 0;
        return false;
    }
}
