/* quern_ops_nn.h - the operations of quern.h, which includes this header, of which networks are
 * made: convolution, normalization, attention, losses, random numbers. Generated as quern_ops.h. */
#ifndef QUERN_OPS_NN_H
#define QUERN_OPS_NN_H

#include "quern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options ---------------------------------------------------------------------------- */

/* How windows go over the spatial axes of an image [N, C, spatial..]; one to three axes. What is 0
 * counts as 1, but for padding. */
typedef struct qn_conv_options {
    size_t size;                 /* QN_CONV_OPTIONS() */
    int64_t stride[3];           /* from window to window; 0 in pooling: the window's size */
    int64_t dilation[3];         /* from place to place in a window */
    int64_t before[3], after[3]; /* zeros around the image (in max_pool, what loses) */
    int64_t extra[3];            /* conv_transpose: places at the end that the stride leaves open */
    int64_t groups;              /* each with its own channels; as many as channels: depthwise */
    bool same;                   /* in place of before and after: ceil(n / stride) windows */
    bool channels_last;          /* images are [N, spatial.., C]; weights are as ever */
} qn_conv_options;
#define QN_CONV_OPTIONS(...) QN_STRUCT(qn_conv_options, __VA_ARGS__)

/* What pooling makes of a window. */
typedef enum qn_pool_kind {
    QN_POOL_MAX = 0, /* padding loses */
    QN_POOL_AVG = 1,
    QN_POOL_NORM = 2 /* (sum |x|^p)^(1/p) */
} qn_pool_kind;

/* Windows as of qn_conv_options, the stride being the window's size where it is 0. */
typedef struct qn_pool_options {
    size_t size; /* QN_POOL_OPTIONS() */
    qn_pool_kind kind;
    double p; /* of QN_POOL_NORM; INFINITY: the largest |x| */
    int64_t stride[3], dilation[3], before[3], after[3];
    bool same;
    bool ceil; /* windows count, too, that begin in the image or its padding and reach beyond it */
    bool exclude_padding; /* QN_POOL_AVG: only what is of the image counts; 0 of a window without */
    bool adaptive; /* sizes are how many places there are, place i of m being over [floor(i n/m),
                    * ceil((i+1) n/m)); all of 1: one window over all. The others do not matter */
    bool channels_last;
} qn_pool_options;
#define QN_POOL_OPTIONS(...) QN_STRUCT(qn_pool_options, __VA_ARGS__)

/* How qn_interpolate and qn_grid_sample read between the places of an image. */
typedef enum qn_interpolate_mode {
    QN_INTERPOLATE_NEAREST = 0, /* place i of m reads floor(i n/m); of a grid ties go to even */
    QN_INTERPOLATE_NEAREST_CENTER = 1, /* floor((i + 1/2) n/m), PyTorch's nearest-exact */
    QN_INTERPOLATE_LINEAR = 2,         /* of two places along each axis */
    QN_INTERPOLATE_CUBIC = 3,          /* of four, Keys' a being -3/4, as PyTorch's bicubic */
    QN_INTERPOLATE_AREA = 4            /* adaptive mean */
} qn_interpolate_mode;

typedef struct qn_interpolate_options {
    size_t size; /* QN_INTERPOLATE_OPTIONS() */
    qn_interpolate_mode mode;
    bool align_corners; /* linear, cubic: the outer places lie on each other, else corners do */
    bool antialias;     /* linear, cubic, to fewer places: of as many as one covers; a is -1/2 */
    double scale[3];    /* places become so many; 0: as the sizes say */
    bool channels_last;
} qn_interpolate_options;
#define QN_INTERPOLATE_OPTIONS(...) QN_STRUCT(qn_interpolate_options, __VA_ARGS__)

/* What a grid finds outside of an image. */
typedef enum qn_grid_padding {
    QN_GRID_ZEROS = 0,
    QN_GRID_BORDER = 1, /* the nearest place of the image */
    QN_GRID_REFLECT = 2 /* the image, reflected at its edges */
} qn_grid_padding;

typedef struct qn_attention_options {
    size_t size;     /* QN_ATTENTION_OPTIONS() */
    bool causal;     /* no query sees keys after it; the last one sees all */
    double scale;    /* of the scores; 0: 1 / sqrt(D) */
    double cap;      /* above 0: scores are cap * tanh(scale * score / cap) */
    int64_t window;  /* above 0: a query sees less than so many keys away, with causal back only */
    qn_tensor *mask; /* [.., Tq, Tk]: floats are added to the scores; else keys are seen where it is
                      * not 0. A query that sees none gives 0 */
    bool grouped;    /* q's axis -3 is a multiple of k's and v's: so many heads share one */
} qn_attention_options;
#define QN_ATTENTION_OPTIONS(...) QN_STRUCT(qn_attention_options, __VA_ARGS__)

/* What becomes of a loss' terms. */
typedef enum qn_reduction {
    QN_REDUCE_MEAN = 0,
    QN_REDUCE_SUM = 1,
    QN_REDUCE_NONE = 2
} qn_reduction;

typedef struct qn_cross_entropy_options {
    size_t size; /* QN_CROSS_ENTROPY_OPTIONS() */
    qn_reduction reduction;
    double smoothing;  /* from 0 to 1: how much of each label goes to all classes alike */
    qn_tensor *weight; /* [C], of each class; the mean is over the weights */
    int64_t ignore;    /* a label that does not count, with `ignores` */
    bool ignores;
} qn_cross_entropy_options;
#define QN_CROSS_ENTROPY_OPTIONS(...) QN_STRUCT(qn_cross_entropy_options, __VA_ARGS__)

/* == generated by tools/gen.py from the rows of src/graph/ops.h and src/func/funcs.h == */

/* ---- operations: convolution and pooling -------------------------------------------------- */

/* convolution (as in networks: the kernel is not flipped) of [N, C, spatial..] with w [O, C/groups,
 * kernel..], plus b [O]: [N, O, floor((n + before + after - dilation*(kernel-1) - 1) / stride) + 1
 * ..]; b and options may be NULL */
QN_API qn_tensor *qn_conv(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
/* conv over one spatial axis: x [N, C, L], w [O, C/groups, K]; QN_ESHAPE for an image of another
 * rank */
QN_API qn_tensor *qn_conv1d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* conv over two: x [N, C, H, W], w [O, C/groups, KH, KW]; QN_ESHAPE for an image of another rank */
QN_API qn_tensor *qn_conv2d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* conv over three: x [N, C, D, H, W], w [O, C/groups, KD, KH, KW]; QN_ESHAPE for an image of
 * another rank */
QN_API qn_tensor *qn_conv3d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* the gradient of conv for its input, plus b: x [N, C, spatial..], w [C, O/groups, kernel..]: [N,
 * O, (n-1)*stride - before - after + dilation*(kernel-1) + 1 + extra ..] */
QN_API qn_tensor *qn_conv_transpose(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                                    const qn_conv_options *options);
/* the largest of each window of [N, C, spatial..]; padding loses; options may be NULL, the stride
 * is the window's size then; groups do not matter */
QN_API qn_tensor *qn_max_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* the mean of each window, padding counting as zeros; as max_pool otherwise */
QN_API qn_tensor *qn_avg_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* the largest, the mean or the norm of each window of [N, C, spatial..]; options may be NULL;
 * adaptive: size is how many places the result has */
QN_API qn_tensor *qn_pool(qn_tensor *x, const int64_t *size, const qn_pool_options *options);
/* the largest of each window, and where in the spatial axes, flat, it is, the first of equal ones,
 * in i64; the gradient goes to that one; either may be NULL */
QN_API qn_code qn_max_pool_index(qn_tensor *x, const int64_t *size, const qn_pool_options *options,
                                 qn_tensor **values, qn_tensor **index);
/* as max_pool_index over `places` windows of `size` that begin at floor((i + u) * a) - floor(u *
 * a), a = (n - size) / (places - 1), the last at the end (Graham 2014): samples [N, C, spatial
 * axes] has the numbers u from [0, 1), in the order of the axes */
QN_API qn_code qn_fractional_max_pool(qn_tensor *x, qn_tensor *samples, const int64_t *size,
                                      const int64_t *places, qn_tensor **values, qn_tensor **index);
/* zeros [N, C, places..] with x at the places that max_pool_index found */
QN_API qn_tensor *qn_max_unpool(qn_tensor *x, qn_tensor *index, const int64_t *places);
/* [N, C, spatial..] with other sizes of the one to three spatial axes, as PyTorch's interpolate;
 * options may be NULL: the nearest; linear is bilinear and trilinear, too, and cubic by axes */
QN_API qn_tensor *qn_interpolate(qn_tensor *x, const int64_t *sizes,
                                 const qn_interpolate_options *options);
/* [N, C, places..]: x [N, C, H, W] or [N, C, D, H, W] at the coordinates grid [N, places.., 2 or
 * 3], from -1 to 1 over the image, that of the last axis first; cubic for two axes */
QN_API qn_tensor *qn_grid_sample(qn_tensor *x, qn_tensor *grid, qn_interpolate_mode mode,
                                 qn_grid_padding padding, bool align_corners);
/* [N, C * sizes, windows]: the windows of [N, C, spatial..] as columns, PyTorch's Unfold; no copy
 * by itself */
QN_API qn_tensor *qn_im2col(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* [N, C, places..] of `space` axes: the sum of what columns [N, C * sizes, windows] have of each
 * place, PyTorch's Fold */
QN_API qn_tensor *qn_col2im(qn_tensor *x, int space, const int64_t *places, const int64_t *size,
                            const qn_conv_options *options);

/* ---- operations: neural networks ---------------------------------------------------------- */

/* e^x over its sum along an axis; integers and bools give f32; QN_ALL: over all */
QN_API qn_tensor *qn_softmax(qn_tensor *x, int axis);
/* as softmax, over n axes together */
QN_API qn_tensor *qn_softmax_axes(qn_tensor *x, int n, const int *axes);
/* logarithm of softmax without overflow */
QN_API qn_tensor *qn_log_softmax(qn_tensor *x, int axis);
/* as log_softmax, over n axes together */
QN_API qn_tensor *qn_log_softmax_axes(qn_tensor *x, int n, const int *axes);
/* (x - mean) / sqrt(variance + eps) over the last axis of x [.., C], times gamma, plus beta, [C]
 * (either may be NULL) */
QN_API qn_tensor *qn_layer_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps);
/* x / sqrt(mean(x*x) + eps) over the last axis of x [.., C], times gamma [C] (may be NULL) */
QN_API qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *gamma, double eps);
/* layer_norm of [N, C, ...] over each group of channels and all later axes; gamma and beta: [C] or
 * NULL */
QN_API qn_tensor *qn_group_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, int64_t groups,
                                double eps);
/* softmax(q @ transpose(k) / sqrt(D)) @ v over q [.., Tq, D], k [.., Tk, D], v [.., Tk, E], floats:
 * [.., Tq, E]; options may be NULL; causal: query i sees keys up to i + Tk - Tq. Weights below
 * 2^-120 of a query's largest (f64: 2^-1016) may count as 0 */
QN_API qn_tensor *qn_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v,
                               const qn_attention_options *options);
/* zeros with probability p, the rest times 1 / (1-p); key: as of qn_key */
QN_API qn_tensor *qn_dropout(qn_tensor *x, qn_tensor *key, double p);
/* mean of -log_softmax(logits, -1) at the labels: logits [.., C], labels [..] of integers: a scalar
 * */
QN_API qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *labels);
/* cross_entropy over the labels that are not `ignore`; NaN where there is none */
QN_API qn_tensor *qn_cross_entropy_ignoring(qn_tensor *logits, qn_tensor *labels, int64_t ignore);
/* mean of -log_p at the labels: log_p [.., C], labels [..] of integers: a scalar */
QN_API qn_tensor *qn_nll_loss(qn_tensor *log_p, qn_tensor *labels);
/* mean of (x - y)^2: a scalar */
QN_API qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y);
/* mean of |x - y|: a scalar */
QN_API qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y);
/* mean of d*d/2 for d = |x - y| up to delta, delta * (d - delta/2) beyond */
QN_API qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta);
/* mean of -(y*log_sigmoid(x) + (1-y)*log_sigmoid(-x)): a scalar */
QN_API qn_tensor *qn_bce_with_logits(qn_tensor *x, qn_tensor *y);
/* softmax of -x */
QN_API qn_tensor *qn_softmin(qn_tensor *x, int axis);
/* layer_norm over n axes together; gamma and beta broadcast to x's shape */
QN_API qn_tensor *qn_layer_norm_axes(qn_tensor *x, int n, const int *axes, qn_tensor *gamma,
                                     qn_tensor *beta, double eps);
/* of [N, C, ..] each channel of each image with mean 0 and variance 1 over the axes behind; gamma
 * and beta: [C] or NULL */
QN_API qn_tensor *qn_instance_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps);
/* (x - mean) / sqrt(variance + eps) of [N, C, ..] by channels, times gamma, plus beta: each [C],
 * the last two or NULL */
QN_API qn_tensor *qn_batch_norm(qn_tensor *x, qn_tensor *mean, qn_tensor *variance,
                                qn_tensor *gamma, qn_tensor *beta, double eps);
/* batch_norm by x's own mean and variance over all axes but 1; into out[3] the result, the mean,
 * and the variance without bias, with which running statistics go on: qn_lerp(running, out[1],
 * momentum); QN_ESHAPE for one value in each channel */
QN_API qn_code qn_batch_norm_training(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps,
                                      qn_tensor **out);
/* rotary positions (Su et al. 2021): of x [.., T, D] pair i turned by position * base^(-2i/D),
 * positions [.., T]; the pair is [i, i + D/2], or interleaved [2i, 2i + 1] */
QN_API qn_tensor *qn_rope(qn_tensor *x, qn_tensor *positions, double base, bool interleaved);
/* [N, C*r^n, n axes] as [N, C, n axes r times as long]: r^n channels become a block of places */
QN_API qn_tensor *qn_pixel_shuffle(qn_tensor *x, int64_t r);
/* the inverse of pixel_shuffle */
QN_API qn_tensor *qn_pixel_unshuffle(qn_tensor *x, int64_t r);
/* cross_entropy with weights of classes, smoothed labels, one that does not count, or another
 * reduction than the mean; options may be NULL */
QN_API qn_tensor *qn_cross_entropy_with(qn_tensor *logits, qn_tensor *labels,
                                        const qn_cross_entropy_options *options);
/* nll_loss with the same options as cross_entropy_with, of which smoothing mixes in the mean of all
 * classes' -log_p; options may be NULL */
QN_API qn_tensor *qn_nll_loss_with(qn_tensor *log_p, qn_tensor *labels,
                                   const qn_cross_entropy_options *options);
/* -sum of target * log_softmax(logits, -1) over the last axis, target being the classes'
 * probabilities; reduced over the rows */
QN_API qn_tensor *qn_cross_entropy_soft(qn_tensor *logits, qn_tensor *target,
                                        qn_reduction reduction);
/* target * (log(target) - log_p), 0 where target is; log_target: it is given as its logarithm */
QN_API qn_tensor *qn_kl_div(qn_tensor *log_p, qn_tensor *target, bool log_target,
                            qn_reduction reduction);
/* -(y*log(p) + (1-y)*log(1-p)), a logarithm of 0 being -100; bce_with_logits is more exact */
QN_API qn_tensor *qn_bce_loss(qn_tensor *p, qn_tensor *y, qn_reduction reduction);
/* -log of the probability of labels [N, S] by log_p [T, N, C], each step's classes, one of them
 * blank, summed over all alignments (Graves et al. 2006); lengths and label_lengths [N], or NULL:
 * all. Infinite, and no gradient, where labels do not fit into the steps; NaN for a length below 0
 * or beyond its axis; the mean is that of losses over their numbers of labels */
QN_API qn_tensor *qn_ctc_loss(qn_tensor *log_p, qn_tensor *labels, qn_tensor *lengths,
                              qn_tensor *label_lengths, int64_t blank, qn_reduction reduction);
/* |anchor - near| - |anchor - far| + margin where that is above 0, lengths being over the last axis
 * */
QN_API qn_tensor *qn_triplet_margin_loss(qn_tensor *anchor, qn_tensor *near, qn_tensor *far,
                                         double margin, qn_reduction reduction);
/* x . y / (|x| |y|) along an axis, lengths being eps at least */
QN_API qn_tensor *qn_cosine_similarity(qn_tensor *x, qn_tensor *y, int axis, double eps);
/* 1 - cosine_similarity along the last axis where target is above 0, else what it is above margin
 * */
QN_API qn_tensor *qn_cosine_embedding_loss(qn_tensor *x, qn_tensor *y, qn_tensor *target,
                                           double margin, qn_reduction reduction);
/* -target * (x - y) + margin where that is above 0; target 1 or -1 */
QN_API qn_tensor *qn_margin_ranking_loss(qn_tensor *x, qn_tensor *y, qn_tensor *target,
                                         double margin, qn_reduction reduction);
/* x where target is above 0, else margin - x where that is above 0 */
QN_API qn_tensor *qn_hinge_embedding_loss(qn_tensor *x, qn_tensor *target, double margin,
                                          qn_reduction reduction);
/* log(1 + e^(-target * x)); target 1 or -1 */
QN_API qn_tensor *qn_soft_margin_loss(qn_tensor *x, qn_tensor *target, qn_reduction reduction);
/* bce_with_logits' terms times (1 - p)^gamma, p being what the truth is given, and alpha for y = 1,
 * 1 - alpha for 0; no such weights for alpha below 0 (Lin et al. 2017) */
QN_API qn_tensor *qn_focal_loss(qn_tensor *x, qn_tensor *y, double alpha, double gamma,
                                qn_reduction reduction);
/* x - y * log(x), or of x as a logarithm e^x - y * x */
QN_API qn_tensor *qn_poisson_nll_loss(qn_tensor *x, qn_tensor *y, bool log_input,
                                      qn_reduction reduction);
/* (log(variance) + (x - y)^2 / variance) / 2, the variance being eps at least */
QN_API qn_tensor *qn_gaussian_nll_loss(qn_tensor *x, qn_tensor *y, qn_tensor *variance, double eps,
                                       qn_reduction reduction);

/* ---- operations: random numbers ----------------------------------------------------------- */

/* A function of the key, so the same key gives the same numbers everywhere. */

/* a key of shape [2], u32; one from qn_from serves as well, and may change without a new plan */
QN_API qn_tensor *qn_key(qn_ctx *qn, uint64_t seed);
/* another key, independent for each value of data */
QN_API qn_tensor *qn_key_fold(qn_tensor *key, uint64_t data);
/* u32 from Threefry-2x32-20 (Salmon et al. 2011), the counter being the flat index */
QN_API qn_tensor *qn_random_bits(qn_tensor *key, int rank, const int64_t *shape);
/* floats in [0, 1), every multiple of the dtype's epsilon alike (f64: 53 bits) */
QN_API qn_tensor *qn_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* normal floats, mean 0 and variance 1 (Box-Muller) */
QN_API qn_tensor *qn_randn(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* integers in [lo, hi), at most 2^32 different ones, all of which the dtype holds */
QN_API qn_tensor *qn_randint(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                             int64_t lo, int64_t hi);
/* bool: true with probability p */
QN_API qn_tensor *qn_bernoulli(qn_tensor *key, int rank, const int64_t *shape, double p);
/* n independent keys into out[n] */
QN_API qn_code qn_key_split(qn_tensor *key, int n, qn_tensor **out);
/* key_fold by an integer that is a tensor of rank 0: it may change, a step's number, without a new
 * plan */
QN_API qn_tensor *qn_key_fold_in(qn_tensor *key, qn_tensor *data);
/* floats above 0 with the density e^-x: -log(1 - u) */
QN_API qn_tensor *qn_exponential(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* floats of Gumbel's distribution: -log of exponential ones */
QN_API qn_tensor *qn_gumbel(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* of logits [.., C] a class each, [..] of i64, with the probabilities softmax(logits, -1) */
QN_API qn_tensor *qn_categorical(qn_tensor *key, qn_tensor *logits);
/* of weights [.., C], not below 0, n classes each, [.., n] of i64, with probabilities in their
 * proportion; a class may come again */
QN_API qn_tensor *qn_multinomial(qn_tensor *key, qn_tensor *weights, int64_t n);
/* normal floats of variance gain^2 / in for a weight [out, in, kernel..], in counting the kernel's
 * places (He et al. 2015; gain sqrt(2) before relu) */
QN_API qn_tensor *qn_kaiming_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                    double gain);
/* as kaiming_normal, uniform within gain * sqrt(3 / in) */
QN_API qn_tensor *qn_kaiming_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                     double gain);
/* normal floats of variance 2 gain^2 / (in + out) (Glorot and Bengio 2010) */
QN_API qn_tensor *qn_xavier_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                   double gain);
/* as xavier_normal, uniform within gain * sqrt(6 / (in + out)) */
QN_API qn_tensor *qn_xavier_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                    double gain);
/* variates of gamma distributions of shape alpha, above 0, and scale 1, in alpha's shape and dtype;
 * NaN of others (Marsaglia and Tsang 2000); by the host, without a derivative */
QN_API qn_tensor *qn_gamma(qn_tensor *key, qn_tensor *alpha);
/* variates of beta distributions, a and b broadcast; as gamma */
QN_API qn_tensor *qn_beta(qn_tensor *key, qn_tensor *a, qn_tensor *b);
/* of alpha [.., C] probabilities, whose sum is 1 along the last axis; as gamma */
QN_API qn_tensor *qn_dirichlet(qn_tensor *key, qn_tensor *alpha);
/* how many events there are where `rate` are expected, in i64 and rate's shape; 0 of a negative
 * rate and NaN; by the host (Hoermann 1993) */
QN_API qn_tensor *qn_poisson(qn_tensor *key, qn_tensor *rate);
/* normal floats of mean 0 and variance 1 between lo and hi, others not being there; by the host
 * (Robert 1995), in f64, rounded to the dtype in the end, which a bound may be, too */
QN_API qn_tensor *qn_truncated_normal(qn_tensor *key, qn_dtype dtype, int rank,
                                      const int64_t *shape, double lo, double hi);
/* [n]: the numbers from 0 to n - 1, in i64, in an order of which all are alike */
QN_API qn_tensor *qn_permutation(qn_tensor *key, int64_t n);
/* x with the slices along an axis in a random order */
QN_API qn_tensor *qn_shuffle(qn_tensor *key, qn_tensor *x, int axis);
/* as multinomial, but no class comes again; those of weight 0 come last; QN_ERANGE for n beyond the
 * number of classes */
QN_API qn_tensor *qn_multinomial_distinct(qn_tensor *key, qn_tensor *weights, int64_t n);
/* a weight [out, in..] as a matrix of orthonormal rows or columns, whichever are fewer, times gain:
 * all such matrices alike (Mezzadri 2007; Saxe et al. 2014) */
QN_API qn_tensor *qn_orthogonal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                double gain);

/* == end of what is generated == */

#ifdef __cplusplus
}
#endif
#endif
