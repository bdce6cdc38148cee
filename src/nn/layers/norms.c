/* norms.c - normalisation: by the batch, by each example, by groups of channels, by the last axes.
 *
 * Batch and instance norm keep running statistics as buffers. In training they are new values of
 * the call, r + momentum * (batch - r), the variance without bias; with a momentum of None the mean
 * over all batches, whose number is a buffer, too. Otherwise they are what is normalised by. */
#include "nn/layers/layers.h"

#include <math.h>

/* ---- parameters ----------------------------------------------------------------------------- */

static void scale_parameters(making *b, int rank, const int64_t *shape, bool bias) {
    layer_parameter(b, "weight", rank, shape, QN_INIT_ONES, 0);
    if (bias) layer_parameter(b, "bias", rank, shape, QN_INIT_ZEROS, 0);
}

void norm_parameters(making *b, const char *weight, const char *bias, int64_t width) {
    layer_parameter(b, weight, 1, &width, QN_INIT_ONES, 0);
    if (!b->o->no_bias) layer_parameter(b, bias, 1, &width, QN_INIT_ZEROS, 0);
}

qn_tensor *norm_next(calling *c, qn_tensor *x, double epsilon, bool bias) {
    qn_tensor *weight = layer_next(c);
    return qn_layer_norm(x, weight, bias ? layer_next(c) : NULL, epsilon);
}

void batch_norm_tensors(making *b) {
    int64_t n = b->o->in;
    if (b->o->affine) scale_parameters(b, 1, &n, true);
    if (!b->o->track) return;
    layer_buffer(b, "running_mean", QN_F32, 1, &n, QN_INIT_ZEROS);
    layer_buffer(b, "running_var", QN_F32, 1, &n, QN_INIT_ONES);
    layer_buffer(b, "num_batches_tracked", QN_I64, 0, NULL, QN_INIT_ZEROS);
}

void group_norm_tensors(making *b) {
    int64_t n = b->o->in;
    if (b->o->groups < 1 || n % b->o->groups) {
        fail(b->qn, QN_EARG, "%s: %lld channels in %lld groups", b->call, (long long)n,
             (long long)b->o->groups);
        b->fine = false;
    }
    if (b->o->affine) scale_parameters(b, 1, &n, true);
}

static int axes_of(const qn_layer_options *o) {
    int n = 0;
    while (n < 4 && o->shape[n]) n++;
    return n;
}

void layer_norm_tensors(making *b) {
    if (b->o->affine) scale_parameters(b, axes_of(b->o), b->o->shape, !b->o->no_bias);
}

void rms_norm_tensors(making *b) {
    if (b->o->affine) scale_parameters(b, axes_of(b->o), b->o->shape, false);
}

/* ---- by batch and by example ---------------------------------------------------------------- */

/* The tensors of a norm with running statistics, in their order. */
typedef struct tracked {
    qn_tensor *weight, *bias, *mean, *variance;
    int at; /* of the mean among the layer's tensors; the variance and the number follow */
} tracked;

static tracked take(calling *c) {
    tracked t = {0};
    if (c->o->affine) t.weight = layer_next(c), t.bias = layer_next(c);
    t.at = c->at;
    if (!c->o->track) return t;
    t.mean = layer_next(c), t.variance = layer_next(c);
    (void)layer_next(c);
    return t;
}

static qn_tensor *gone_on(qn_tensor *old, qn_tensor *now, qn_tensor *momentum) {
    momentum = qn_cast(momentum, qn_dtype_of(old));
    return qn_detach(qn_lerp(old, qn_cast(now, qn_dtype_of(old)), momentum));
}

/* The statistics behind a batch of this mean and variance. */
static void track(calling *c, const tracked *t, qn_tensor *mean, qn_tensor *variance) {
    qn_tensor *count = t->at + 2 < c->n ? c->tensor[t->at + 2] : NULL, *momentum;
    if (!mean || !variance || !count || !t->mean || !t->variance) return;
    count = qn_add(count, qn_like(count, 1));
    bool counts = c->row->apply == apply_batch_norm; /* PyTorch's instance norm does not */
    momentum = !isnan(c->o->momentum) ? qn_like(t->mean, c->o->momentum)
               : counts               ? qn_reciprocal(qn_cast(count, qn_dtype_of(t->mean)))
                                      : qn_like(t->mean, 0);
    c->update[t->at] = gone_on(t->mean, mean, momentum);
    c->update[t->at + 1] = gone_on(t->variance, variance, momentum);
    c->update[t->at + 2] = counts ? count : NULL;
}

/* Is there more than one value for each channel, axis 1? The axes from `first` on are looked at; of
 * one value the variance is nothing. A size that is not known yet counts as more. */
static bool has_spread(calling *c, qn_tensor *x, int first) {
    int64_t n = 1;
    for (int i = first; i < qn_rank(x); i++)
        if (i != 1) n = qn_dim(x, i) < 0 ? 0 : sat_mul(n, qn_dim(x, i));
    if (n != 1) return true;
    fail(c->qn, QN_ESHAPE, "%s: 1 value for each of %lld channels has no variance", c->row->name,
         (long long)qn_dim(x, 1));
    return false;
}

void apply_batch_norm(calling *c) {
    qn_tensor *x = c->in[0], *made[3];
    tracked t = take(c);
    int space = c->row->space;
    if (!layer_rank(c, x, "the input", space == 1 ? 2 : space + 2, space + 2)) return;
    if (c->o->track && !c->training) {
        c->out[0] = qn_batch_norm(x, t.mean, t.variance, t.weight, t.bias, c->o->epsilon);
        return;
    }
    if (!has_spread(c, x, 0)) return;
    if (qn_batch_norm_training(x, t.weight, t.bias, c->o->epsilon, made)) return;
    c->out[0] = made[0];
    if (c->o->track) track(c, &t, made[1], made[2]);
}

void apply_instance_norm(calling *c) {
    qn_tensor *x = c->in[0];
    tracked t = take(c);
    int space = c->row->space;
    if (!layer_rank(c, x, "the input", space + 1, space + 2)) return;
    bool batched = qn_rank(x) == space + 2;
    if (!batched) x = qn_unsqueeze(x, 0);
    if (c->o->track && !c->training) {
        x = qn_batch_norm(x, t.mean, t.variance, t.weight, t.bias, c->o->epsilon);
    } else {
        static const int places[] = {2, 3, 4}, batch[] = {0};
        if (!x || !has_spread(c, x, 2)) return;
        if (c->o->track)
            track(c, &t, qn_mean_axes(qn_mean_axes(x, space, places, false), 1, batch, false),
                  qn_mean_axes(qn_variance_axes(x, space, places, 1, false), 1, batch, false));
        x = qn_instance_norm(x, t.weight, t.bias, c->o->epsilon);
    }
    c->out[0] = batched ? x : qn_squeeze(x, 0);
}

/* ---- by groups and by the last axes --------------------------------------------------------- */

void apply_group_norm(calling *c) {
    qn_tensor *weight = c->o->affine ? layer_next(c) : NULL;
    qn_tensor *bias = c->o->affine ? layer_next(c) : NULL;
    c->out[0] = qn_group_norm(c->in[0], weight, bias, c->o->groups, c->o->epsilon);
}

/* Do x's last axes have the sizes of normalized_shape? */
static bool sizes_fit(calling *c, qn_tensor *x, int n) {
    if (!layer_rank(c, x, "the input", n, QN_MAX_RANK)) return false;
    for (int i = 0; i < n; i++) {
        int64_t size = qn_dim(x, qn_rank(x) - n + i);
        if (size == c->o->shape[i]) continue;
        return fail(c->qn, QN_ESHAPE, "%s: axis %d of the input is %lld long, not %lld",
                    c->row->name, qn_rank(x) - n + i, (long long)size, (long long)c->o->shape[i]),
               false;
    }
    return true;
}

void apply_layer_norm(calling *c) {
    int n = axes_of(c->o), axes[4] = {-n, 1 - n, 2 - n, 3 - n};
    qn_tensor *x = c->in[0], *weight = c->o->affine ? layer_next(c) : NULL;
    qn_tensor *bias = c->o->affine && !c->o->no_bias ? layer_next(c) : NULL;
    if (!sizes_fit(c, x, n)) return;
    c->out[0] = n == 1 ? qn_layer_norm(x, weight, bias, c->o->epsilon)
                       : qn_layer_norm_axes(x, n, axes, weight, bias, c->o->epsilon);
}

void apply_rms_norm(calling *c) {
    int n = axes_of(c->o), axes[4] = {-n, 1 - n, 2 - n, 3 - n};
    qn_tensor *x = c->in[0], *weight = c->o->affine ? layer_next(c) : NULL;
    if (!sizes_fit(c, x, n)) return;
    double epsilon = c->o->epsilon; /* None is 0 or NaN; a 0 that is meant is -0.0 */
    if (epsilon == 0 && signbit(epsilon))
        epsilon = 0;
    else if (epsilon == 0 || isnan(epsilon))
        epsilon = dtype_epsilon(qn_dtype_of(x));
    if (n == 1) {
        c->out[0] = qn_rms_norm(x, weight, epsilon);
        return;
    }
    qn_tensor *mean = qn_mean_axes(qn_mul(x, x), n, axes, true);
    x = qn_mul(x, qn_rsqrt(qn_add(mean, qn_like(mean, epsilon))));
    c->out[0] = weight ? qn_mul(x, weight) : x;
}
