/* test_funcs_nn.c - reductions, products, einsum, network functions, losses and random numbers, by
 * value. Oracles are plain loops in double; Threefry's are the published known answers. */
#include "eval.h"
#include "func/func.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define LIST(...) ((const double[]){__VA_ARGS__})
#define AXES(...) ((const int[]){__VA_ARGS__})

static qn_ctx *qn;
static qn_scope scope;
static uint64_t seed;

static void open_case(void) {
    qn = open_graph();
    scope = qn_scope_begin(qn);
    seed = 42;
}

static void close_case(void) {
    CHECK_STR(qn_error(qn), "");
    qn_clear_error(qn);
    qn_scope_end(qn, scope);
    close_graph(qn);
}

/* A leaf with random values in [-2, 2], which are left in v. */
static qn_tensor *draw(qn_dtype d, int rank, const int64_t *dims, double *v) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    for (int64_t i = 0; i < n; i++) v[i] = dtype_round(d, 4 * test_uniform(&seed) - 2);
    return leaf_of(qn, d, rank, dims, v);
}

#define CHECK_ERROR(call, text)                                                                    \
    do {                                                                                           \
        CHECK((call) == NULL);                                                                     \
        CHECK_STR(qn_error(qn), text);                                                             \
        qn_clear_error(qn);                                                                        \
    } while (0)

/* ---- reductions ----------------------------------------------------------------------------- */

enum { ROWS = 3, COLUMNS = 5 };

static void reductions_of_rows(void) {
    open_case();
    double v[ROWS * COLUMNS], sum[ROWS], mean[ROWS], var[ROWS], dev[ROWS], norm[ROWS], lse[ROWS];
    double cube[ROWS], largest[ROWS], columns = COLUMNS;
    qn_tensor *x = draw(QN_F64, 2, DIMS(ROWS, COLUMNS), v);
    for (int r = 0; r < ROWS; r++) {
        double s = 0, q = 0, e = 0, n2 = 0, n3 = 0, m = 0;
        for (int c = 0; c < COLUMNS; c++) {
            double t = v[r * COLUMNS + c];
            s += t, e += exp(t), n2 += t * t, n3 += fabs(t * t * t), m = fmax(m, fabs(t));
        }
        for (int c = 0; c < COLUMNS; c++) q += pow(v[r * COLUMNS + c] - s / columns, 2);
        sum[r] = s, mean[r] = s / columns, var[r] = q / (columns - 1), dev[r] = sqrt(q / columns);
        norm[r] = sqrt(n2), lse[r] = log(e), cube[r] = cbrt(n3), largest[r] = m;
    }
    CHECK_VALUES(qn_sum(x, 1, false), ROWS, sum, 1e-14);
    CHECK_VALUES(qn_mean(x, -1, true), ROWS, mean, 1e-14);
    CHECK_VALUES(qn_variance(x, 1, 1, false), ROWS, var, 1e-14);
    CHECK_VALUES(qn_std(x, 1, 0, false), ROWS, dev, 1e-14);
    CHECK_VALUES(qn_norm(x, 1, 2, false), ROWS, norm, 1e-14);
    CHECK_VALUES(qn_norm(x, 1, 3, false), ROWS, cube, 1e-14);
    CHECK_VALUES(qn_norm(x, 1, (double)INFINITY, false), ROWS, largest, 0);
    CHECK_VALUES(qn_logsumexp(x, 1, false), ROWS, lse, 1e-14);
    close_case();
}

static void reductions_take_any_axes(void) {
    open_case();
    qn_tensor *x = leaf_of(qn, QN_I32, 3, DIMS(2, 2, 2), LIST(0, 1, 2, 3, 4, 5, 6, 7));
    CHECK_VALUES(qn_sum_axes(x, 2, AXES(0, -1), false), 2, LIST(10, 18), 0);
    CHECK_VALUES(qn_sum(x, QN_ALL, false), 1, LIST(28), 0);
    CHECK_INT(qn_rank(qn_sum(x, QN_ALL, true)), 3);
    CHECK_VALUES(qn_max_axes(x, 0, NULL, false), 8, LIST(0, 1, 2, 3, 4, 5, 6, 7), 0);
    CHECK_VALUES(qn_mean_axes(x, 2, AXES(1, 2), false), 2, LIST(1.5, 5.5), 0);
    CHECK_VALUES(qn_variance_axes(x, 2, AXES(1, 2), 0, false), 2, LIST(1.25, 1.25), 0);
    CHECK_VALUES(qn_argmax(x, QN_ALL, false), 1, LIST(7), 0);
    CHECK_VALUES(qn_argmin(x, 0, false), 4, LIST(0, 0, 0, 0), 0);
    CHECK_INT(qn_dtype_of(qn_sum(x, 0, false)), QN_I64);
    CHECK_INT(qn_dtype_of(qn_sum(qn_cast(x, QN_U8), 0, false)), QN_U64);
    CHECK_INT(qn_dtype_of(qn_sum(qn_cast(x, QN_BOOL), 0, false)), QN_I64);
    CHECK_INT(qn_dtype_of(qn_sum(qn_cast(x, QN_BF16), 0, false)), QN_BF16);
    CHECK_INT(qn_dtype_of(qn_mean(x, 0, false)), QN_F32);
    CHECK_ERROR(qn_sum_axes(x, 2, AXES(1, -2), false), "sum: axis -2 twice");
    CHECK_ERROR(qn_mean(x, 3, false), "mean: axis 3 of a tensor of rank 3");
    close_case();
}

static void truth_and_special_sums(void) {
    open_case();
    qn_tensor *x = leaf_of(qn, QN_F32, 2, DIMS(2, 2), LIST(0, 3, 0, -0.0));
    CHECK_VALUES(qn_any(x, 1, false), 2, LIST(1, 0), 0);
    CHECK_VALUES(qn_all(x, 1, false), 2, LIST(0, 0), 0);
    CHECK_VALUES(qn_norm(x, 1, 0, false), 2, LIST(1, 0), 0);
    qn_tensor *none = leaf(qn, QN_BOOL, 1, DIMS(0));
    CHECK_VALUES(qn_all(none, 0, false), 1, LIST(1), 0);
    CHECK_VALUES(qn_any(none, 0, false), 1, LIST(0), 0);
    double inf = (double)INFINITY;
    qn_tensor *far = leaf_of(qn, QN_F32, 2, DIMS(3, 2), LIST(1000, 1000, -inf, -inf, inf, 1));
    CHECK_VALUES(qn_logsumexp(far, 1, false), 3, LIST(1000.693147, -inf, inf), 1e-6);
    qn_tensor *many = qn_full(qn, QN_F16, 1, DIMS(3000), 1); /* 2049 is no f16: not summed in it */
    CHECK_VALUES(qn_sum(qn_contiguous(many), 0, false), 1, LIST(3000), 0);
    CHECK_VALUES(qn_mean(qn_cast(qn_iota(qn, QN_I32, 1, DIMS(3000), 0), QN_F16), 0, false), 1,
                 LIST(1499), 1e-3);
    close_case();
}

static void means_over_symbolic_sizes(void) {
    open_case();
    int64_t t = qn_var(qn, "t", 1, 9);
    CHECK_INT(qn_bind(qn, t, 4), QN_OK);
    qn_tensor *i = qn_iota(qn, QN_F32, 1, &t, 0);
    CHECK_VALUES(qn_mean(i, 0, false), 1, LIST(1.5), 1e-6);
    CHECK_VALUES(qn_variance(i, 0, 1, false), 1, LIST(5.0 / 3), 1e-6);
    close_case();
}

/* ---- products ------------------------------------------------------------------------------- */

static void matrices_of_all_ranks(void) {
    static const struct {
        int ra, rb, rank;
        int64_t a[4], b[4], r[4];
    } row[] = {{2, 2, 2, {3, 4}, {4, 2}, {3, 2}},
               {1, 2, 1, {4}, {4, 2}, {2}},
               {2, 1, 1, {3, 4}, {4}, {3}},
               {1, 1, 0, {4}, {4}, {0}},
               {3, 2, 3, {2, 3, 4}, {4, 2}, {2, 3, 2}},
               {2, 3, 3, {3, 4}, {2, 4, 2}, {2, 3, 2}},
               {4, 3, 4, {2, 1, 3, 4}, {2, 4, 1}, {2, 2, 3, 1}}};
    for (size_t k = 0; k < COUNT_OF(row); k++) {
        open_case();
        double a[64], b[64], want[64];
        qn_tensor *x = draw(QN_F64, row[k].ra, row[k].a, a),
                  *y = draw(QN_F64, row[k].rb, row[k].b, b);
        bool vx = row[k].ra == 1, vy = row[k].rb == 1;
        int64_t m = vx ? 1 : row[k].a[row[k].ra - 2], depth = row[k].a[row[k].ra - 1];
        int64_t n = vy ? 1 : row[k].b[row[k].rb - 1], total = 1, batch;
        for (int i = 0; i < row[k].rank; i++) total *= row[k].r[i];
        batch = total / (m * n);
        for (int64_t i = 0; i < total; i++) {
            int64_t z = i / (m * n), p = i / n % m, q = i % n;
            int64_t za = row[k].ra == 3 ? z : row[k].ra == 4 ? z / 2 : 0;
            int64_t zb = row[k].rb < 3 ? 0 : row[k].ra == 4 ? z % 2 : z;
            want[i] = 0;
            for (int64_t c = 0; c < depth; c++)
                want[i] += a[(za * m + p) * depth + c] * b[(zb * depth + c) * n + q];
        }
        CHECK(batch >= 1);
        qn_tensor *r = qn_matmul(x, y);
        CHECK_INT(qn_rank(r), row[k].rank);
        CHECK_VALUES(r, total, want, 1e-13);
        close_case();
    }
}

static void products_of_vectors_and_types(void) {
    open_case();
    qn_tensor *x = leaf_of(qn, QN_I8, 1, DIMS(2), LIST(3, 4)),
              *y = leaf_of(qn, QN_I8, 1, DIMS(2), LIST(5, 6));
    CHECK_VALUES(qn_dot(x, y), 1, LIST(39), 0);
    CHECK_VALUES(qn_outer(x, y), 4, LIST(15, 18, 20, 24), 0);
    CHECK_INT(qn_dtype_of(qn_matmul(x, y)), QN_I8);
    CHECK_INT(qn_dtype_of(qn_matmul(qn_cast(x, QN_F16), y)), QN_F16);
    qn_tensor *w = leaf_of(qn, QN_F32, 2, DIMS(1, 2), LIST(10, 100));
    CHECK_VALUES(qn_linear(x, w, qn_like(w, 7)), 1, LIST(437), 0);
    CHECK_ERROR(qn_matmul(w, w),
                "matmul: x [1, 2], y [1, 2]: x's last axis and y's last but one do not multiply");
    CHECK_ERROR(qn_matmul(w, qn_like(w, 1)), "matmul: x [1, 2], y []: a scalar is no matrix");
    CHECK_ERROR(qn_matmul(w, NULL), "matmul: y is NULL");
    CHECK_ERROR(qn_dot(w, x), "dot: x [1, 2], y [2]: these are not two vectors");
    close_case();
}

static void sums_over_pairs_of_axes(void) {
    open_case();
    double a[24], b[24], want[4] = {0};
    qn_tensor *x = draw(QN_F64, 3, DIMS(2, 3, 4), a), *y = draw(QN_F64, 3, DIMS(4, 2, 3), b);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 3; k++)
                for (int l = 0; l < 4; l++)
                    want[i * 2 + j] += a[(i * 3 + k) * 4 + l] * b[(l * 2 + j) * 3 + k];
    CHECK_VALUES(qn_tensordot(x, y, 2, AXES(1, 2), AXES(2, 0)), 4, want, 1e-13);
    CHECK_INT(qn_rank(qn_tensordot(x, x, 0, NULL, NULL)), 6);
    CHECK_ERROR(qn_tensordot(x, y, 1, AXES(0), AXES(0)),
                "tensordot: x [2, 3, 4], y [4, 2, 3]: x's axis 0 and y's axis 0 differ");
    close_case();
}

/* Einsum by its definition: sum over all values of all letters. Letters are a..f here; size[k] of
 * letter k. */
static int64_t einsum_loops(const char *spec, int n, double *const *v, const int64_t *size,
                            double *out) {
    const char *arrow = strstr(spec, "->");
    int64_t all = 1, made = 1, at[6];
    for (int k = 0; k < 6; k++) all *= size[k];
    for (const char *c = arrow + 2; *c; c++) made *= size[*c - 'a'];
    for (int64_t i = 0; i < made; i++) out[i] = 0;
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i, to = 0;
        for (int k = 0; k < 6; k++) at[k] = rest % size[k], rest /= size[k];
        double product = 1;
        const char *c = spec;
        for (int t = 0; t < n; t++, c++) {
            int64_t from = 0;
            for (; *c != ',' && *c != '-'; c++) from = from * size[*c - 'a'] + at[*c - 'a'];
            product *= v[t][from];
        }
        for (c = arrow + 2; *c; c++) to = to * size[*c - 'a'] + at[*c - 'a'];
        out[to] += product;
    }
    return made;
}

static void einsum_is_its_definition(void) {
    static const char *const spec[] = {
        "ab->ba",        "ab->",         "ab->a",        "aa->a",    "aa->",    "ab,bc->ac",
        "ab,bc->ca",     "dab,dbc->dac", "ab,ab->",      "a,b->ab",  "ab,b->b", "ab,cb,c->a",
        "abc,cd,bd->da", "aab,b->a",     "ab,bc,cd->ad", "abab->ab", "ab,c->c"};
    for (size_t k = 0; k < COUNT_OF(spec); k++) {
        open_case();
        int64_t size[6] = {2, 3, 4, 2, 1, 1}, dims[4];
        bool used[6] = {false};
        double v[3][64], want[64], *at[3] = {v[0], v[1], v[2]};
        qn_tensor *x[3];
        int n = 0;
        for (const char *c = spec[k]; c[-(c != spec[k])] != '-'; c++) {
            int rank = 0;
            for (; *c != ',' && *c != '-'; c++) {
                used[*c - 'a'] = true;
                dims[rank++] = size[*c - 'a'];
            }
            x[n] = draw(QN_F64, rank, dims, v[n]);
            n++;
            if (*c == '-') break;
        }
        for (int i = 0; i < 6; i++)
            if (!used[i]) size[i] = 1;
        int64_t made = einsum_loops(spec[k], n, at, size, want);
        CHECK_VALUES(qn_einsum(n, x, spec[k]), made, want, 1e-12);
        close_case();
    }
}

static void einsum_implies_outputs_and_dots(void) {
    open_case();
    double a[24], b[12];
    qn_tensor *x = draw(QN_F64, 3, DIMS(2, 3, 4), a), *y = draw(QN_F64, 2, DIMS(4, 3), b);
    qn_tensor *xy[2] = {x, y};
    eval_value want = eval(qn_matmul(x, y)), got = eval(qn_einsum(2, xy, "...ij,jk"));
    CHECK_INT(got.n, want.n);
    for (int64_t i = 0; i < want.n; i++) CHECK_NEAR(got.v[i].f, want.v[i].f, 1e-13, 0);
    free(got.v), free(want.v);
    CHECK_INT(qn_dim(qn_einsum(1, &y, "ba"), 0), 3); /* letters in alphabetical order */
    CHECK_INT(qn_rank(qn_einsum(1, &x, "...j->...")), 2);
    CHECK_INT(qn_rank(qn_einsum(1, &x, "i...->...i")), 3);
    CHECK_ERROR(qn_einsum(2, xy, "ij,jk->im"),
                "einsum: \"ij,jk->im\": tensor 0 has rank 3, which \"ij\" does not fit");
    CHECK_ERROR(qn_einsum(2, xy, "ij"), "einsum: \"ij\" is for 1 tensors, not 2");
    CHECK_ERROR(qn_einsum(1, &y, "ij?->i"),
                "einsum: \"ij?->i\": tensor 0 has rank 2, which \"ij?\" does not fit");
    CHECK_ERROR(qn_einsum(1, &y, "ii"),
                "einsum: \"ii\": letter i is 4 in tensor 0 and 3 in tensor 0");
    close_case();
}

/* ---- networks ------------------------------------------------------------------------------- */

static void softmax_and_its_logarithm(void) {
    open_case();
    double v[12], want[12], logs[12], columns[12];
    qn_tensor *x = draw(QN_F32, 2, DIMS(3, 4), v);
    for (int i = 0; i < 12; i++) {
        double row = 0, column = 0;
        for (int k = 0; k < 4; k++) row += exp(v[i / 4 * 4 + k]);
        for (int k = 0; k < 3; k++) column += exp(v[k * 4 + i % 4]);
        want[i] = exp(v[i]) / row, columns[i] = exp(v[i]) / column, logs[i] = v[i] - log(row);
    }
    CHECK_VALUES(qn_softmax(x, -1), 12, want, 1e-6);
    CHECK_VALUES(qn_softmax(x, 0), 12, columns, 1e-6);
    CHECK_VALUES(qn_log_softmax(x, 1), 12, logs, 1e-5);
    qn_tensor *far = leaf_of(qn, QN_F32, 1, DIMS(2), LIST(10000, 9999));
    CHECK_VALUES(qn_softmax(far, 0), 2, LIST(0.731058578, 0.268941421), 1e-6);
    CHECK_VALUES(qn_log_softmax(far, 0), 2, LIST(-0.313261687, -1.313261687), 1e-6);
    close_case();
}

static void norms_of_rows(void) {
    open_case();
    double v[12], g[4], b[4], layer[12], rms[12];
    qn_tensor *x = draw(QN_F32, 2, DIMS(3, 4), v);
    qn_tensor *gamma = draw(QN_F32, 1, DIMS(4), g), *beta = draw(QN_F32, 1, DIMS(4), b);
    for (int r = 0; r < 3; r++) {
        double m = 0, q = 0, s = 0;
        for (int c = 0; c < 4; c++) m += v[r * 4 + c] / 4, s += v[r * 4 + c] * v[r * 4 + c] / 4;
        for (int c = 0; c < 4; c++) q += pow(v[r * 4 + c] - m, 2) / 4;
        for (int c = 0; c < 4; c++) {
            layer[r * 4 + c] = (v[r * 4 + c] - m) / sqrt(q + 1e-5) * g[c] + b[c];
            rms[r * 4 + c] = v[r * 4 + c] / sqrt(s + 1e-6) * g[c];
        }
    }
    CHECK_VALUES(qn_layer_norm(x, gamma, beta, 1e-5), 12, layer, 1e-5);
    CHECK_VALUES(qn_rms_norm(x, gamma, 1e-6), 12, rms, 1e-5);
    /* One group of [1, 4, 3] is layer_norm of all 12. */
    qn_tensor *image = qn_reshape(x, 3, DIMS(1, 4, 3));
    qn_tensor *whole = qn_layer_norm(qn_reshape(x, 1, DIMS(12)), NULL, NULL, 1e-5);
    eval_value w = eval(whole), all = eval(qn_group_norm(image, NULL, NULL, 1, 1e-5));
    for (int i = 0; i < 12; i++) CHECK_NEAR(all.v[i].f, w.v[i].f, 1e-6, 1e-6);
    free(w.v), free(all.v);
    CHECK_ERROR(qn_group_norm(image, NULL, NULL, 3, 1e-5),
                "group_norm: x [1, 4, 3]: its channels, axis 1, in 3 groups");
    CHECK_ERROR(qn_layer_norm(qn_like(x, 1), NULL, NULL, 0),
                "layer_norm: axis -1 of a tensor of rank 0");
    CHECK_ERROR(qn_layer_norm(x, leaf(qn, QN_F32, 1, DIMS(5)), NULL, 0),
                "layer_norm: x [3, 4], gamma [5]: gamma has the size of x's last axis, 4");
    close_case();
}

static void attention_looks_back(void) {
    for (int causal = 0; causal < 2; causal++) {
        open_case();
        enum { TQ = 3, TK = 5, D = 2, V = 3 };
        double q[2 * TQ * D], k[2 * TK * D], v[2 * TK * V], want[2 * TQ * V];
        qn_tensor *x[3] = {draw(QN_F64, 3, DIMS(2, TQ, D), q), draw(QN_F64, 3, DIMS(2, TK, D), k),
                           draw(QN_F64, 3, DIMS(2, TK, V), v)};
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < TQ; i++) {
                double p[TK], sum = 0;
                for (int j = 0; j < TK; j++) {
                    double s = 0;
                    for (int d = 0; d < D; d++)
                        s += q[(b * TQ + i) * D + d] * k[(b * TK + j) * D + d];
                    p[j] = causal && j > i + TK - TQ ? 0 : exp(s / sqrt(D));
                    sum += p[j];
                }
                for (int d = 0; d < V; d++) {
                    double *o = &want[(b * TQ + i) * V + d];
                    *o = 0;
                    for (int j = 0; j < TK; j++) *o += p[j] / sum * v[(b * TK + j) * V + d];
                }
            }
        CHECK_VALUES(qn_attention(x[0], x[1], x[2], &QN_ATTENTION_OPTIONS(.causal = causal)),
                     2 * TQ * V, want, 1e-12);
        close_case();
    }
}

static void losses(void) {
    open_case();
    double z[12], x[4], y[4], ce = 0, mse = 0, l1 = 0, huber = 0, bce = 0;
    qn_tensor *logits = draw(QN_F64, 3, DIMS(2, 2, 3), z);
    qn_tensor *labels = leaf_of(qn, QN_U8, 2, DIMS(2, 2), LIST(0, 2, 1, 2));
    const int label[4] = {0, 2, 1, 2};
    qn_tensor *a = draw(QN_F64, 1, DIMS(4), x), *b = draw(QN_F64, 1, DIMS(4), y);
    for (int i = 0; i < 4; i++) {
        double sum = 0, d = fabs(x[i] - y[i]), p = 1 / (1 + exp(-x[i]));
        for (int c = 0; c < 3; c++) sum += exp(z[i * 3 + c]);
        ce += (log(sum) - z[i * 3 + label[i]]) / 4;
        mse += d * d / 4, l1 += d / 4, huber += (d < 0.7 ? d * d / 2 : 0.7 * (d - 0.35)) / 4;
        bce -= (y[i] * log(p) + (1 - y[i]) * log(1 - p)) / 4;
    }
    CHECK_VALUES(qn_cross_entropy(logits, labels), 1, &ce, 1e-13);
    CHECK_VALUES(qn_nll_loss(qn_log_softmax(logits, -1), labels), 1, &ce, 1e-13);
    CHECK_VALUES(qn_mse_loss(a, b), 1, &mse, 1e-13);
    CHECK_VALUES(qn_l1_loss(a, b), 1, &l1, 1e-13);
    CHECK_VALUES(qn_huber_loss(a, b, 0.7), 1, &huber, 1e-13);
    CHECK_VALUES(qn_bce_with_logits(a, b), 1, &bce, 1e-13);
    CHECK_ERROR(qn_cross_entropy(logits, a),
                "cross_entropy: logits [2, 2, 3], labels [4]: there is one label for each row of "
                "logits, whose last axis is the classes");
    CHECK_ERROR(qn_cross_entropy(logits, qn_cast(labels, QN_F32)),
                "cross_entropy: classes are integers, not f32");
    close_case();
}

static void activations_with_parameters(void) {
    open_case();
    qn_tensor *x = leaf_of(qn, QN_F64, 1, DIMS(3), LIST(-1, 0, 2));
    CHECK_VALUES(qn_elu(x, 2), 3, LIST(2 * expm1(-1), 0, 2), 1e-15);
    CHECK_VALUES(qn_leaky_relu(x, 0.1), 3, LIST(-0.1, 0, 2), 1e-15);
    CHECK_VALUES(qn_clamp(x, -0.5, 1), 3, LIST(-0.5, 0, 1), 0);
    CHECK_VALUES(qn_lerp(x, qn_like(x, 4), qn_like(x, 0.5)), 3, LIST(1.5, 2, 3), 0);
    qn_tensor *n = leaf_of(qn, QN_I8, 1, DIMS(4), LIST(-128, 127, -7, 7));
    CHECK_VALUES(qn_rem(n, qn_like(n, 3)), 4, LIST(-2, 1, -1, 1), 0);
    CHECK_VALUES(qn_rem(n, qn_like(n, -1)), 4, LIST(0, 0, 0, 0), 0);
    CHECK_VALUES(qn_sign(n), 4, LIST(-1, 1, -1, 1), 0);
    CHECK_VALUES(qn_isfinite(n), 4, LIST(1, 1, 1, 1), 0);
    CHECK_INT(qn_dtype_of(qn_relu(n)), QN_I8);
    CHECK_INT(qn_dtype_of(qn_gelu(n)), QN_F32);
    close_case();
}

/* ---- random numbers ------------------------------------------------------------------------- */

/* Random123's known answers for Threefry-2x32 with 20 rounds (kat_vectors). */
static void threefry_gives_the_published_answers(void) {
    static const uint32_t known[][6] = {
        {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xc4923a9c, 0x483df7a0}};
    open_case();
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        qn_tensor *x[2], *key[2];
        for (int k = 0; k < 2; k++) {
            const double counter = known[i][k], word = known[i][2 + k];
            x[k] = leaf_of(qn, QN_U32, 0, NULL, &counter);
            key[k] = leaf_of(qn, QN_U32, 0, NULL, &word);
        }
        func_threefry(key, x);
        for (int k = 0; k < 2; k++) CHECK_VALUES(x[k], 1, LIST(known[i][4 + k]), 0);
    }
    close_case();
}

static void keys_are_data_or_numbers(void) {
    open_case();
    qn_tensor *data = leaf_of(qn, QN_U32, 1, DIMS(2), LIST(7, 1));
    eval_value a = eval(qn_random_bits(qn_key(qn, ((uint64_t)1 << 32) + 7), 2, DIMS(2, 3)));
    eval_value b = eval(qn_random_bits(data, 1, DIMS(6)));
    eval_value c = eval(qn_random_bits(qn_key_fold(data, 1), 1, DIMS(6)));
    for (int i = 0; i < 6; i++) {
        CHECK_INT(a.v[i].i, b.v[i].i);
        CHECK(b.v[i].i != c.v[i].i);
    }
    free(a.v), free(b.v), free(c.v);
    CHECK_ERROR(qn_uniform(qn_like(data, 1), QN_F32, 0, NULL),
                "uniform: a key is u32 of shape [2]");
    CHECK_ERROR(qn_uniform(data, QN_I32, 0, NULL), "uniform: gives floats, not i32");
    CHECK_ERROR(qn_randint(data, QN_I32, 0, NULL, 3, 3), "randint: from 3 to 3");
    CHECK_ERROR(qn_bernoulli(data, 0, NULL, 1.5), "bernoulli: 1.5 is no probability");
    close_case();
}

/* Moments of 20,000 numbers lie within five standard errors of what they should be. */
static void check_moments(qn_tensor *t, double mean, double variance, double lo, double hi) {
    eval_value v = eval(t);
    double m = 0, q = 0, n = (double)v.n;
    for (int64_t i = 0; i < v.n; i++) m += eval_number(&v, i) / n;
    for (int64_t i = 0; i < v.n; i++) {
        double x = eval_number(&v, i);
        q += (x - m) * (x - m) / n;
        CHECK(x >= lo && x < hi);
    }
    CHECK_NEAR(m, mean, 0, 5 * sqrt(variance / n));
    CHECK_NEAR(q, variance, 5 * sqrt(2 / n), 0);
    free(v.v);
}

static void distributions_have_their_moments(void) {
    const qn_dtype floats[] = {QN_F16, QN_BF16, QN_F32, QN_F64};
    const int64_t n = 20000;
    for (int i = 0; i < 4; i++) {
        open_case();
        qn_tensor *key = qn_key(qn, 3);
        double coarse = floats[i] == QN_BF16 ? 0x1p-9 : 0; /* the mean of multiples of 1/256 */
        check_moments(qn_uniform(key, floats[i], 1, &n), 0.5 - coarse, 1.0 / 12, 0, 1);
        check_moments(qn_randn(key, floats[i], 1, &n), 0, 1, -10, 10);
        close_case();
    }
    open_case();
    check_moments(qn_randint(qn_key(qn, 9), QN_I64, 1, &n, -5, 5), -0.5, 99.0 / 12, -5, 5);
    check_moments(qn_bernoulli(qn_key(qn, 9), 1, &n, 0.3), 0.3, 0.21, 0, 2);
    qn_tensor *ones = qn_contiguous(qn_ones(qn, QN_F32, 1, &n));
    check_moments(qn_dropout(ones, qn_key(qn, 2), 0.25), 1, 1.0 / 3, 0, 1.5);
    CHECK_VALUES(qn_dropout(qn_full(qn, QN_F32, 1, DIMS(2), 3), qn_key(qn, 1), 1), 2, LIST(0, 0),
                 0);
    close_case();
}

/* ---- NULL and memory ------------------------------------------------------------------------ */

static void null_goes_through(void) {
    open_case();
    const int64_t n = 2;
    CHECK(!qn_softmax(NULL, 0) && !qn_sum(NULL, 0, false) && !qn_reshape(NULL, 1, &n));
    CHECK(!qn_pad(NULL, &n, QN_PAD_EDGE, 0) && !qn_slice(NULL, 0, 0, 1, 1) &&
          !qn_take(NULL, NULL, 0));
    CHECK(!qn_layer_norm(NULL, NULL, NULL, 0) &&
          !qn_attention(NULL, NULL, NULL, &QN_ATTENTION_OPTIONS(.causal = true)));
    CHECK(!qn_cross_entropy(NULL, NULL) && !qn_uniform(NULL, QN_F32, 1, &n) && !qn_key(NULL, 1));
    CHECK(!qn_zeros(NULL, QN_F32, 1, &n) && !qn_arange(NULL, QN_F32, 0, 1, 1) &&
          !qn_cast(NULL, QN_I8));
    CHECK(!qn_einsum(1, (qn_tensor *const[]){NULL}, "a") && !qn_concat(0, NULL, 0));
    CHECK(!qn_tile(NULL, 1, &n) && !qn_unfold(NULL, 0, 1, 1) && !qn_diagonal(NULL, 0));
    CHECK(!qn_group_norm(NULL, NULL, NULL, 1, 0) && !qn_as_strided(NULL, 0, NULL, NULL, 0));
    CHECK(!qn_one_hot(NULL, 2, QN_F32) && !qn_embedding(NULL, NULL) && !qn_flatten(NULL, 0, 0));
    CHECK(!qn_dropout(NULL, NULL, 0.5) && !qn_mse_loss(NULL, NULL) && !qn_select(NULL, 0, 0));
    CHECK_INT(qn_split(NULL, 0, 1, &n, NULL), QN_ENULL);
    qn_tensor *x = qn_scalar(qn, QN_F32, 1);
    CHECK_ERROR(qn_mse_loss(x, NULL), "mse_loss: y is NULL");
    CHECK_ERROR(qn_einsum(2, (qn_tensor *const[]){x, NULL}, "a,a"), "einsum: tensor 1 is NULL");
    close_case();
}

static void compose(qn_ctx *ctx) {
    qn_scope s = qn_scope_begin(ctx);
    qn_tensor *key = qn_key(ctx, 1), *x = qn_randn(key, QN_F32, 3, DIMS(2, 4, 6)), *part[2];
    qn_tensor *y = qn_attention(x, x, x, &QN_ATTENTION_OPTIONS(.causal = true));
    y = qn_layer_norm(qn_add(y, qn_dropout(x, key, 0.1)), NULL, NULL, 1e-5);
    y = qn_einsum(2, (qn_tensor *const[]){y, x}, "bti,bsi->bts");
    int code = qn_split(y, 1, 2, DIMS(1, 3), part);
    y = code == QN_OK ? qn_concat(2, part, 1) : NULL;
    qn_keep(qn_unfold(qn_pad(y, DIMS(0, 0, 1, 1, 0, 0), QN_PAD_REFLECT, 0), 1, 2, 2));
    qn_scope_end(ctx, s);
}

/* Whatever request fails, there is an error and nothing is left but what was kept. */
static void every_failing_allocation_is_survived(void) {
    for (uint64_t k = 1; k < 3000; k++) {
        qn_ctx *ctx = open_graph();
        ctx->heap.fail_at = ctx->heap.requests + k;
        compose(ctx);
        bool reached = ctx->heap.requests >= ctx->heap.fail_at;
        CHECK_INT(qn_error_code(ctx), reached ? QN_ENOMEM : QN_OK);
        CHECK(ctx->graph->handles == !reached);
        if (reached) CHECK_INT(ctx->graph->live, 0);
        CHECK(ctx->graph->func == NULL);
        graph_close(ctx);
        CHECK_INT(ctx->heap.bytes, 0);
        free(ctx);
        if (!reached) break;
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(reductions_of_rows);
    RUN(reductions_take_any_axes);
    RUN(truth_and_special_sums);
    RUN(means_over_symbolic_sizes);
    RUN(matrices_of_all_ranks);
    RUN(products_of_vectors_and_types);
    RUN(sums_over_pairs_of_axes);
    RUN(einsum_is_its_definition);
    RUN(einsum_implies_outputs_and_dots);
    RUN(softmax_and_its_logarithm);
    RUN(norms_of_rows);
    RUN(attention_looks_back);
    RUN(losses);
    RUN(activations_with_parameters);
    RUN(threefry_gives_the_published_answers);
    RUN(keys_are_data_or_numbers);
    RUN(distributions_have_their_moments);
    RUN(null_goes_through);
    RUN(every_failing_allocation_is_survived);
    return test_end();
}
