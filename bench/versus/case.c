/* case.c - cases, their inputs, and what their outputs must be.
 *
 * An input is a function of its number and the element's, so that every player fills its own memory
 * alike and an expected value needs no memory at all: a sample of the output's elements is worked
 * out by definition, in double precision. Training steps have no such formula here (but the first
 * loss of the small network): their losses are compared among the players. */
#include "versus.h"

#include <math.h>
#include <string.h>

const vs_case vs_cases[] = {
#define X(family, name, KIND, ...) {family, name, VS_##KIND, {__VA_ARGS__}},
#include "cases.h"
#undef X
};
const int vs_case_count = sizeof vs_cases / sizeof *vs_cases;

const char *vs_word(vs_kind kind) {
    static const char *const word[] = {
#define X(KIND, word, ...) word,
#include "kinds.h"
#undef X
    };
    return word[kind];
}

bool vs_kind_named(const char *word, vs_kind *out) {
    for (int i = 0; i < VS_KINDS; i++)
        if (!strcmp(word, vs_word((vs_kind)i))) {
            *out = (vs_kind)i;
            return true;
        }
    return false;
}

typedef struct sizes {
    double flops, read, written, out;
} sizes;

static sizes sizes_of(const vs_case *c) {
    double d[VS_DIMS];
    for (int i = 0; i < VS_DIMS; i++) d[i] = (double)c->d[i];
    switch (c->kind) {
#define X(KIND, word, flops, read, written, out)                                                   \
    case VS_##KIND:                                                                                \
        return (sizes){(double)(flops), 4.0 * (double)(read), 4.0 * (double)(written),             \
                       (double)(out)};
#include "kinds.h"
#undef X
    case VS_KINDS:
        break;
    }
    return (sizes){0};
}

double vs_flops(const vs_case *c) {
    return sizes_of(c).flops;
}
double vs_read(const vs_case *c) {
    return sizes_of(c).read;
}
double vs_written(const vs_case *c) {
    return sizes_of(c).written;
}
int64_t vs_output(const vs_case *c) {
    return (int64_t)sizes_of(c).out;
}

/* As vs_input, of the cases in play_lists.c and play_nets.c. Long because it has a line for each
 * kind. */
static void list_inputs(const vs_case *c, int64_t *n) {
    const int64_t *d = c->d;
    switch (c->kind) {
    case VS_CUMSUM:
    case VS_SORT:
    case VS_ARGSORT:
    case VS_TOPK:
        n[0] = d[0] * d[1];
        break;
    case VS_INDEX_ADD:
        n[1] = d[2] * d[1]; /* fall through */
    case VS_TAKE:
        n[0] = d[0] * d[1];
        break;
    case VS_EMBEDDING_GRAD:
        n[0] = d[0] * d[1];
        n[1] = d[2] * d[1];
        break;
    case VS_BATCH_NORM_GRAD:
        n[1] = d[0] * d[1] * d[2] * d[2]; /* fall through */
    case VS_BATCH_NORM:
    case VS_MAX_POOL:
    case VS_AVG_POOL:
    case VS_MAX_POOL_GRAD:
    case VS_BILINEAR:
    case VS_BICUBIC:
        n[0] = d[0] * d[1] * d[2] * d[2];
        break;
    case VS_FFT:
        n[0] = 2 * d[0] * d[1];
        break;
    case VS_CHOLESKY:
    case VS_INV:
    case VS_QR:
    case VS_SVD:
    case VS_EIGH:
    case VS_SOLVER:
        n[0] = d[0] * d[0];
        break;
    case VS_TRIANGULAR:
        n[0] = n[1] = d[0] * d[0];
        break;
    case VS_SOLVE:
        n[0] = d[0] * d[0];
        n[1] = d[0];
        break;
    case VS_LSTM:
    case VS_GRU:
        n[0] = d[3] * d[2] * d[1];
        break;
    case VS_RESNET:
        n[0] = d[2] * 3 * d[1] * d[1];
        break;
    case VS_STACK:
    case VS_CONCAT_GRAD:
    case VS_SELECT_GRAD:
    case VS_SHARED:
        n[0] = d[0] * d[1] * d[2];
        n[1] = c->kind == VS_SHARED ? d[2] * d[2] : 0;
        break;
    default:
        break;
    }
}

int64_t vs_input(const vs_case *c, int i) {
    const int64_t *d = c->d;
    int64_t n[VS_INPUTS + 1] = {0};
    switch (c->kind) {
    case VS_GEMM:
    case VS_GEMM_PACKED:
    case VS_GEMM_I8:
    case VS_GEMM_BF16:
        n[0] = d[0] * d[1] * d[3];
        n[1] = d[0] * d[2] * d[3];
        break;
    case VS_FMA:
        n[0] = n[1] = n[2] = d[0];
        break;
    case VS_NEG:
    case VS_EXP:
    case VS_TANH:
    case VS_GELU:
    case VS_GELU_TANH:
    case VS_DISPATCH:
        n[0] = d[0];
        break;
    case VS_SUM_ALL:
    case VS_SUM_ROWS:
    case VS_SUM_COLUMNS:
    case VS_SOFTMAX:
    case VS_LAYER_NORM:
    case VS_TRANSPOSE:
        n[0] = d[0] * d[1];
        break;
    case VS_ATTENTION_GRAD:
    case VS_ATTENTION_CAUSAL_GRAD:
        n[3] = d[0] * d[1] * d[2] * d[3]; /* fall through */
    case VS_ATTENTION:
    case VS_ATTENTION_CAUSAL:
        n[0] = n[1] = n[2] = d[0] * d[1] * d[2] * d[3];
        break;
    case VS_CONV_DATA:
    case VS_CONV_WEIGHTS:
        n[2] = d[0] * d[3] * (d[2] / d[5]) * (d[2] / d[5]); /* fall through */
    case VS_CONV:
    case VS_CONV_LAST:
        n[0] = d[0] * d[1] * d[2] * d[2];
        n[1] = d[3] * d[1] / d[6] * d[4] * d[4];
        break;
    case VS_MLP:
        n[0] = d[0] * d[1];
        n[1] = d[1] * d[2];
        n[2] = d[3] * d[0];
        break;
    default:
        list_inputs(c, n);
        break;
    }
    return n[i];
}

/* A hash of element and input number, as a number in [-1, 1). peers.py has the same in NumPy. */
float vs_value(uint32_t input, uint64_t i) {
    uint32_t h = (uint32_t)(i + 1) * 2654435761u + (input + 1) * 0x9E3779B9u;
    h ^= h >> 15;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    return (float)(h >> 8) / 8388608.f - 1.f;
}

/* Matrices of a GPT start with deviation 0.02; vectors as the model makes them. */
float vs_gpt_weight(uint32_t parameter, uint64_t i) {
    return 0.02f * 1.7320508f * vs_value(parameter, i);
}

void vs_fill(float *to, uint32_t input, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = vs_value(input, (uint64_t)i);
}

static double at(uint32_t input, int64_t i) {
    return (double)vs_value(input, (uint64_t)i);
}

/* An input as a product of narrow types sees it: whole numbers to 127, or eight mantissa bits. */
static double narrowed(vs_kind kind, double x) {
    int exponent;
    if (kind == VS_GEMM_I8) return trunc((double)((float)x * 127.f));
    if (kind != VS_GEMM_BF16) return x;
    double mantissa = frexp(x, &exponent);
    return ldexp(rint(mantissa * 256), exponent - 8);
}

static double expect_gemm(const vs_case *c, int64_t i) {
    const int64_t *d = c->d;
    int64_t m = d[1], n = d[2], k = d[3], col = i % n, row = i / n % m, b = i / n / m;
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
        sum += narrowed(c->kind, at(0, (b * m + row) * k + j)) *
               narrowed(c->kind, at(1, b * n * k + (d[4] ? col * k + j : j * n + col)));
    return sum;
}

static double expect_sum(int64_t from, int64_t n, int64_t step) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += at(0, from + i * step);
    return sum;
}

static double expect_softmax(const int64_t *d, int64_t i) {
    double sum = 0;
    for (int64_t j = 0, row = i / d[1] * d[1]; j < d[1]; j++) sum += exp(at(0, row + j));
    return exp(at(0, i)) / sum;
}

static double expect_layer_norm(const int64_t *d, int64_t i) {
    int64_t row = i / d[1] * d[1];
    double mean = expect_sum(row, d[1], 1) / (double)d[1], square = 0;
    for (int64_t j = 0; j < d[1]; j++) square += pow(at(0, row + j) - mean, 2);
    return (at(0, i) - mean) / sqrt(square / (double)d[1] + 1e-5);
}

static double dot(uint32_t a, int64_t from_a, uint32_t b, int64_t from_b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += at(a, from_a + i) * at(b, from_b + i);
    return sum;
}

/* The output's element, or that of the gradient by q: with P = softmax(s), dP = do v^T,
 * ds = P (dP - sum P dP), dq = ds k / sqrt(D). */
static double expect_attention(const vs_case *c, int64_t i) {
    const int64_t *d = c->d;
    int64_t T = d[2], D = d[3], column = i % D, row = i / D, head = row / T * T;
    bool causal = c->kind == VS_ATTENTION_CAUSAL || c->kind == VS_ATTENTION_CAUSAL_GRAD;
    bool grad = c->kind == VS_ATTENTION_GRAD || c->kind == VS_ATTENTION_CAUSAL_GRAD;
    int64_t keys = causal ? row % T + 1 : T;
    double scale = 1 / sqrt((double)D), sum = 0, weighted = 0, mean = 0, key = 0;
    for (int64_t j = 0; j < keys; j++) {
        double p = exp(scale * dot(0, row * D, 1, (head + j) * D, D));
        sum += p;
        if (!grad) {
            weighted += p * at(2, (head + j) * D + column);
            continue;
        }
        double dp = dot(3, row * D, 2, (head + j) * D, D), k = at(1, (head + j) * D + column);
        mean += p * dp;
        weighted += p * dp * k;
        key += p * k;
    }
    if (!grad) return weighted / sum;
    return scale * (weighted / sum - mean / sum * key / sum);
}

static double expect_conv(const int64_t *d, int64_t i, bool last) {
    int64_t out = d[2] / d[5], p = last ? i / d[3] : i, x = p % out, y = p / out % out;
    int64_t o = last ? i % d[3] : i / out / out % d[3], b = i / out / out / d[3],
            each = d[1] / d[6], first = o / (d[3] / d[6]) * each;
    double sum = 0;
    for (int64_t ch = 0; ch < each; ch++)
        for (int64_t u = 0; u < d[4]; u++)
            for (int64_t v = 0; v < d[4]; v++) {
                int64_t r = y * d[5] + u - d[4] / 2, s = x * d[5] + v - d[4] / 2;
                if (r < 0 || s < 0 || r >= d[2] || s >= d[2]) continue;
                int64_t image = b * d[1] * d[2] * d[2], place = r * d[2] + s, from = first + ch;
                sum += at(0, image + (last ? place * d[1] + from : from * d[2] * d[2] + place)) *
                       at(1, ((o * each + ch) * d[4] + u) * d[4] + v);
            }
    return sum;
}

/* The gradients by x and by the weights of a convolution of stride one in one group, for the outer
 * gradient input 2. */
static double expect_conv_weights(const int64_t *d, int64_t i) {
    int64_t size = d[2], k = d[4], v = i % k, u = i / k % k, ch = i / k / k % d[1];
    int64_t o = i / k / k / d[1];
    double sum = 0;
    for (int64_t b = 0; b < d[0]; b++)
        for (int64_t y = 0; y < size; y++)
            for (int64_t x = 0; x < size; x++) {
                int64_t r = y + u - k / 2, s = x + v - k / 2;
                if (r < 0 || s < 0 || r >= size || s >= size) continue;
                sum += at(2, ((b * d[3] + o) * size + y) * size + x) *
                       at(0, ((b * d[1] + ch) * size + r) * size + s);
            }
    return sum;
}

static double expect_conv_data(const int64_t *d, int64_t i) {
    int64_t size = d[2], x = i % size, y = i / size % size, ch = i / size / size % d[1];
    int64_t b = i / size / size / d[1];
    double sum = 0;
    for (int64_t o = 0; o < d[3]; o++)
        for (int64_t u = 0; u < d[4]; u++)
            for (int64_t v = 0; v < d[4]; v++) {
                int64_t r = y - u + d[4] / 2, s = x - v + d[4] / 2;
                if (r < 0 || s < 0 || r >= size || s >= size) continue;
                sum += at(2, ((b * d[3] + o) * size + r) * size + s) *
                       at(1, ((o * d[1] + ch) * d[4] + u) * d[4] + v);
            }
    return sum;
}

/* Index j of a table of n rows, all over it. */
int64_t vs_index(int64_t j, int64_t n) {
    return j * 7919 % n;
}

static double expect_cumsum(const int64_t *d, int64_t i) {
    int64_t row = i / d[1], column = i % d[1];
    return d[2] ? expect_sum(row * d[1], column + 1, 1) : expect_sum(column, row + 1, d[1]);
}

static double expect_batch_norm(const int64_t *d, int64_t i) {
    int64_t image = d[2] * d[2], channel = i / image % d[1];
    double n = (double)(d[0] * image), mean = 0, square = 0;
    for (int64_t b = 0; b < d[0]; b++) mean += expect_sum((b * d[1] + channel) * image, image, 1);
    mean /= n;
    for (int64_t b = 0; b < d[0]; b++)
        for (int64_t j = 0; j < image; j++)
            square += pow(at(0, (b * d[1] + channel) * image + j) - mean, 2);
    return (at(0, i) - mean) / sqrt(square / n + 1e-5);
}

static double expect_pool(const vs_case *c, int64_t i) {
    const int64_t *d = c->d, out = (d[2] - d[3]) / d[4] + 1;
    int64_t x = i % out * d[4], y = i / out % out * d[4], image = i / out / out * d[2] * d[2];
    double most = -INFINITY, sum = 0;
    for (int64_t u = 0; u < d[3]; u++)
        for (int64_t v = 0; v < d[3]; v++) {
            double e = at(0, image + (y + u) * d[2] + x + v);
            most = fmax(most, e);
            sum += e;
        }
    return c->kind == VS_MAX_POOL ? most : sum / (double)(d[3] * d[3]);
}

/* Pieces [n, rows, columns], stacked as axis d[3]. */
static double expect_stack(const int64_t *d, int64_t i) {
    int64_t size[3] = {d[1], d[2], 0}, axis = d[3], at_[3], shape[3], k = 0;
    for (int j = 0; j < 3; j++) shape[j] = j == axis ? d[0] : size[k++];
    at_[2] = i % shape[2];
    at_[1] = i / shape[2] % shape[1];
    at_[0] = i / shape[2] / shape[1];
    int64_t piece = at_[axis], row = axis == 0 ? at_[1] : at_[0];
    int64_t column = axis == 2 ? at_[1] : at_[2];
    return at(0, (piece * d[1] + row) * d[2] + column);
}

/* The loss before the first step: weights a twentieth of the inputs' values, no biases yet, labels
 * counting up, mean cross-entropy. */
static double expect_mlp(const int64_t *d) {
    double loss = 0;
    for (int64_t b = 0; b < d[3]; b++) {
        double logit[64] = {0}, sum = 0;
        for (int64_t h = 0; h < d[1]; h++) {
            double a = 0;
            for (int64_t i = 0; i < d[0]; i++)
                a += at(2, b * d[0] + i) * 0.05 * at(0, i * d[1] + h);
            for (int64_t o = 0; a > 0 && o < d[2]; o++) logit[o] += a * 0.05 * at(1, h * d[2] + o);
        }
        for (int64_t o = 0; o < d[2]; o++) sum += exp(logit[o]);
        loss += log(sum) - logit[b % d[2]];
    }
    return loss / (double)d[3];
}

/* Long because it has a line for each kind of case. */
double vs_expected(const vs_case *c, int64_t i) {
    const int64_t *d = c->d;
    double x = at(0, i);
    switch (c->kind) {
    case VS_GEMM:
    case VS_GEMM_PACKED:
    case VS_GEMM_I8:
    case VS_GEMM_BF16:
        return expect_gemm(c, i);
    case VS_NEG:
        return -x;
    case VS_DISPATCH:
        return x + x;
    case VS_FMA:
        return x * at(1, i) + at(2, i);
    case VS_EXP:
        return exp(x);
    case VS_TANH:
        return tanh(x);
    case VS_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case VS_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case VS_CUMSUM:
        return expect_cumsum(d, i);
    case VS_TAKE:
        return at(0, vs_index(i / d[1], d[0]) * d[1] + i % d[1]);
    case VS_BATCH_NORM:
        return expect_batch_norm(d, i);
    case VS_MAX_POOL:
    case VS_AVG_POOL:
        return expect_pool(c, i);
    case VS_STACK:
        return expect_stack(d, i);
    case VS_SUM_ALL:
        return expect_sum(0, d[0] * d[1], 1);
    case VS_SUM_ROWS:
        return expect_sum(i * d[1], d[1], 1);
    case VS_SUM_COLUMNS:
        return expect_sum(i, d[0], d[1]);
    case VS_SOFTMAX:
        return expect_softmax(d, i);
    case VS_LAYER_NORM:
        return expect_layer_norm(d, i);
    case VS_TRANSPOSE:
        return at(0, i % d[0] * d[1] + i / d[0]);
    case VS_ATTENTION:
    case VS_ATTENTION_CAUSAL:
    case VS_ATTENTION_GRAD:
    case VS_ATTENTION_CAUSAL_GRAD:
        return expect_attention(c, i);
    case VS_CONV:
    case VS_CONV_LAST:
        return expect_conv(d, i, c->kind == VS_CONV_LAST);
    case VS_CONV_DATA:
        return expect_conv_data(d, i);
    case VS_CONV_WEIGHTS:
        return expect_conv_weights(d, i);
    case VS_MLP:
        return i ? NAN : expect_mlp(d);
    default:
        return NAN;
    }
}
