/* classic.c - operators of ai.onnx.ml, and n-grams. */
#include "onnx/onnx.h"

void op_binarizer(onnx_op *o) {
    qn_tensor *x = op_in(o, 0);
    o->out[0] = qn_gt(x, qn_like(x, attr_float(o, "threshold", 0)));
    o->type[0] = op_type(o, 0);
}

void op_feature_extractor(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *at = qn_reshape(op_in(o, 1), 1, (int64_t[]){-1});
    if (op_rank(o, 0) == 1) x = qn_unsqueeze(x, 0);
    o->out[0] = qn_take(x, at, -1);
}

/* How often the n-grams of a list come in a row, weighted, with up to so many words left out. */
typedef struct grams {
    const int64_t *pool, *counts, *indexes;
    int n_pool, n_counts, n_indexes, least, most, skips;
    const onnx_attr *weights;
    const char *mode;
} grams;

/* The gram at `at` of the row of words, each `apart` from the next, is which of those of `size`? */
static void count_grams(const grams *g, const int64_t *word, int64_t n, int size, int64_t apart,
                        double *out) {
    int begin = (int)g->counts[size - 1];
    int end = size < g->n_counts ? (int)g->counts[size] : g->n_pool;
    int number = 0;
    for (int k = 1; k < size; k++) number += (int)(g->counts[k] - g->counts[k - 1]) / k;
    int64_t last = n - (size - 1) * apart; /* where a gram begins lies before it */
    for (int at = begin; size <= end - at; at += size, number++) {
        if (number >= g->n_indexes) return;
        for (int64_t i = 0; i < last; i++) {
            bool same = true;
            for (int k = 0; same && k < size; k++) same = word[i + k * apart] == g->pool[at + k];
            out[g->indexes[number]] += same;
        }
    }
}

static void weigh_grams(const grams *g, double *out) {
    for (int i = 0; i < g->n_indexes; i++) {
        double *v = &out[g->indexes[i]],
               w = g->weights && i < (int)g->weights->n_floats ? (double)g->weights->floats[i] : 1;
        bool there = *v > 0;
        if (!strcmp(g->mode, "IDF")) *v = there ? w : 0;
        if (!strcmp(g->mode, "TFIDF")) *v *= w;
    }
}

void op_tfidf(onnx_op *o) {
    grams g = {.mode = attr_text(o, "mode", "TF"), .weights = op_attr(o, "weights")};
    const onnx_attr *words_of = op_attr(o, "pool_int64s"), *counts = op_attr(o, "ngram_counts"),
                    *indexes = op_attr(o, "ngram_indexes");
    if (!words_of || !counts || !indexes) op_fail(o, QN_EDTYPE, "n-grams of texts");
    if (words_of->n_ints > INT32_MAX || counts->n_ints > INT32_MAX || indexes->n_ints > INT32_MAX)
        op_fail(o, QN_ERANGE, "%u n-grams", indexes->n_ints);
    g.pool = words_of->ints;
    g.n_pool = (int)words_of->n_ints;
    g.counts = counts->ints;
    g.n_counts = (int)counts->n_ints;
    g.indexes = indexes->ints;
    g.n_indexes = (int)indexes->n_ints;
    g.least = (int)attr_int(o, "min_gram_length", 1);
    g.most = (int)attr_int(o, "max_gram_length", 1);
    g.skips = (int)attr_int(o, "max_skip_count", 0);
    int64_t width = 0;
    for (int i = 0; i < g.n_indexes; i++) {
        if (g.indexes[i] < 0 || g.indexes[i] > 1 << 26)
            op_fail(o, QN_ERANGE, "index %lld", (long long)g.indexes[i]);
        if (g.indexes[i] >= width) width = g.indexes[i] + 1;
    }
    for (int i = 0; i < g.n_counts; i++)
        if (g.counts[i] < (i ? g.counts[i - 1] : 0) || g.counts[i] > g.n_pool)
            op_fail(o, QN_ERANGE, "ngram_counts has %lld", (long long)g.counts[i]);
    if (g.least < 1 || g.most > g.n_counts || g.skips < 0 || g.skips > 1 << 16)
        op_fail(o, QN_ERANGE, "n-grams of %d to %d words", g.least, g.most);
    int rank, n;
    const int64_t *dims = op_shape(o, 0, &rank), *words = op_ints(o, 0, &n);
    int64_t rows = rank == 2 ? dims[0] : 1, each = rank == 2 ? dims[1] : n;
    int64_t shape[2] = {rows, width}, all = op_count(o, 2, shape, ONNX_MADE_MOST);
    double *v = op_alloc(o, (size_t)all, sizeof *v);
    for (int64_t r = 0; all && r < rows; r++) {
        for (int size = g.least; size <= g.most && size <= each; size++) {
            int64_t apart = size == 1 ? 1 : g.skips + 1;
            if (size > 1 && apart > (each - 1) / (size - 1)) apart = (each - 1) / (size - 1);
            for (; apart > 0; apart--)
                count_grams(&g, words + r * each, each, size, apart, v + r * width);
        }
        weigh_grams(&g, v + r * width);
    }
    o->out[0] = op_from_floats(o, rank == 2 ? 2 : 1, rank == 2 ? shape : shape + 1, v, QN_F32);
}
