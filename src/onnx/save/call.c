/* call.c - the routines of graph/routines.h that ONNX has operators for, or that are made of such.
 *
 * What puts elements in order is TopK, of equal elements the first one first. Where a value is
 * among others, and which one is most frequent, follows from comparing all with all. */
#include "onnx/save/save.h"

#include <math.h>
#include <stdio.h>

typedef struct called {
    const graph_node *x;
    call_attr call;
    qn_dtype of, in; /* of the first source; and what it is computed in */
    int rank, to;    /* of the first source, of the result */
    const int64_t *dim, *shape;
} called;

static val source_of(saving *s, const called *c, int i) {
    return save_cast(s, full_of(s, c->x->src[i]), c->of, c->in);
}

/* The `n` first of each row, in order: their values, and behind them where they were. */
static val first_of_rows(saving *s, const called *c, int64_t n, bool largest) {
    const val in[2] = {source_of(s, c, 0), save_sizes(s, 1, &n)};
    return spell(s, QN_I64, 2, in, "TopK:2[axis=-1;largest=%d;sorted=1](x,y)", largest);
}

static void call_sort(saving *s, const called *c) {
    val v = first_of_rows(s, c, c->dim[c->rank - 1], c->call.attr[0] != 0);
    bool place = c->call.result == 1;
    save_done(s, place ? v + 1 : save_cast(s, v, c->in, c->of));
}

static void call_topk(saving *s, const called *c) {
    save_done(s, first_of_rows(s, c, c->shape[c->to - 1], c->call.attr[0] != 0) + 1);
}

/* Medians are where they are without NaN. */
static void call_kth(saving *s, const called *c) {
    int64_t k = c->call.attr[0] - 1;
    if (c->call.attr[1]) k = (save_fixed(s, c->dim[c->rank - 1]) - 1) / 2;
    val v = first_of_rows(s, c, sym_const(s->g->syms, k + 1), false) + 1;
    const int64_t from = k, axis = -1;
    const val in[3] = {v, save_ints(s, 1, &from), save_ints(s, 1, &axis)};
    v = spell(s, QN_I64, 2, in, "Gather[axis=-1](x,y)");
    save_done(s, save_reshape(s, v, c->to, c->shape));
}

/* x as [.., n, 1] or [.., 1, n]. */
static val beside(saving *s, val x, bool columns) {
    const int64_t axis = columns ? -1 : -2;
    return spell(s, QN_I64, 2, (val[]){x, save_ints(s, 1, &axis)}, "Unsqueeze(x,y)");
}

static void call_mode(saving *s, const called *c) {
    const int64_t axis = -1;
    val x = source_of(s, c, 0), last = save_ints(s, 1, &axis);
    const val in[4] = {x, beside(s, x, true), beside(s, x, false), last};
    val v = spell(s, QN_I64, 4, in,
                  "c=ReduceSum[keepdims=0](Cast[to=7](Equal(y,z)),u);"
                  "f=Equal(c,ReduceMax[keepdims=1](c,u));"
                  "m=ReduceMin[keepdims=1](Where(f,x,ReduceMax[keepdims=1](x,u)),u);"
                  "ArgMax[axis=-1;keepdims=1](Cast[to=7](And(f,Equal(x,m))))");
    save_done(s, save_reshape(s, v, c->to, c->shape));
}

static void call_search(saving *s, const called *c) {
    const int64_t axis = -1;
    const val in[3] = {beside(s, source_of(s, c, 0), false), beside(s, source_of(s, c, 1), true),
                       save_ints(s, 1, &axis)};
    save_done(s, spell(s, QN_I64, 3, in, "ReduceSum[keepdims=0](Cast[to=7](%s(x,y)),z)",
                       c->call.attr[0] ? "LessOrEqual" : "Less"));
}

static void call_nonzero(saving *s, const called *c) {
    const int64_t flat = -1;
    sym room = shape_numel(s->g, c->x->shape);
    const int64_t most = room;
    const val in[4] = {full_of(s, c->x->src[0]), save_ints(s, 1, &flat), save_sizes(s, 1, &most),
                       save_ints(s, 1, (const int64_t[]){0})};
    val v = c->call.result
                ? spell(s, QN_I64, 4, in, "ReduceSum[keepdims=0](Cast[to=7](Reshape(x,y)),u)")
                : spell(s, QN_I64, 4, in,
                        "n=Reshape(NonZero(Reshape(x,y)),y);"
                        "Slice(Concat[axis=0](n,Expand(0,z)),u,z)");
    save_done(s, save_reshape(s, v, c->to, c->shape));
}

static void call_determinant(saving *s, const called *c) {
    static const char *const text[] = {"Sign(Det(x))", "Log(Abs(Det(x)))", "Det(x)"};
    val x = source_of(s, c, 0);
    val v = spell(s, c->in, 1, &x, "%s", text[c->call.result]);
    save_done(s, save_cast(s, v, c->in, (qn_dtype)c->x->dtype));
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

static val sliced(saving *s, val x, int64_t from, int64_t to, int64_t step) {
    const int64_t axis = -2;
    const val in[5] = {x, save_ints(s, 1, &from), save_ints(s, 1, &to), save_ints(s, 1, &axis),
                       save_ints(s, 1, &step)};
    return spell(s, QN_I64, 5, in, "Slice(x,y,z,u,v)");
}

/* The spectrum of n real numbers from its first half: behind it conjugates, backwards. */
static val whole_spectrum(saving *s, const called *c, val x, int64_t n) {
    static const int64_t conjugate[2] = {1, -1};
    const int64_t half = n / 2 + 1;
    if (n == half) return x;
    val signs = save_cast(s, save_ints(s, 2, conjugate), QN_I64, c->in);
    const val in[3] = {x, sliced(s, x, n - half, 0, -1), signs};
    return spell(s, c->in, 3, in, "Concat[axis=-2](x,Mul(y,z))");
}

/* ONNX divides what goes back by n; here `scale` says it. */
static double fft_factor(const called *c, int64_t n) {
    double wanted = c->call.attr[2] == 1 ? 1.0 / (double)n
                    : c->call.attr[2]    ? 1.0 / sqrt((double)n)
                                         : 1.0;
    return c->call.attr[1] ? wanted * (double)n : wanted;
}

static void call_fft(saving *s, const called *c) {
    int64_t kind = c->call.attr[0], n = c->call.attr[3], shape[QN_MAX_RANK + 1];
    int rank = c->rank;
    val x = source_of(s, c, 0);
    if (rank == QN_MAX_RANK) save_none(s, c->x);
    for (int d = 0; d < rank; d++) shape[d] = c->dim[d];
    if (kind == CALL_FFT_REAL_IN) shape[rank++] = SYM_ONE, x = save_reshape(s, x, rank, shape);
    if (kind == CALL_FFT_REAL_OUT) x = whole_spectrum(s, c, x, n);
    const int64_t axis = rank - 2, real = 0;
    const val in[4] = {x, save_ints(s, 1, &n), save_ints(s, 1, &axis), save_ints(s, 0, NULL)};
    val v = spell(s, c->in, 4, in,
                  "Mul(DFT[inverse=%d;onesided=%d](x,Reshape(y,u),Reshape(z,u)),%.17g)",
                  c->call.attr[1] != 0, kind == CALL_FFT_REAL_IN, fft_factor(c, n));
    if (kind == CALL_FFT_REAL_OUT) {
        const val parts[3] = {v, save_ints(s, 1, &real), in[3]};
        v = spell(s, c->in, 3, parts, "Gather[axis=-1](x,Reshape(y,z))");
    }
    save_done(s, save_cast(s, v, c->in, c->of));
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void (*const writers[ROUTINE_COUNT])(saving *s, const called *c) = {
    [ROUTINE_SORT] = call_sort,     [ROUTINE_TOPK] = call_topk,
    [ROUTINE_KTH] = call_kth,       [ROUTINE_MODE] = call_mode,
    [ROUTINE_SEARCH] = call_search, [ROUTINE_NONZERO] = call_nonzero,
    [ROUTINE_FFT] = call_fft,       [ROUTINE_DETERMINANT] = call_determinant,
};

void save_call(saving *s, const graph_node *x) {
    called c = {.x = x, .call = node_call(s->g, x)};
    if (!writers[c.call.routine]) save_none(s, x);
    c.of = (qn_dtype)node_at(s->g, x->src[0])->dtype;
    c.in = save_wide(s, save_rows[OP_CALL].types, c.of);
    c.dim = node_dims(s->g, x->src[0], &c.rank);
    c.shape = graph_tuple_get(s->g, x->shape, &c.to);
    writers[c.call.routine](s, &c);
}
