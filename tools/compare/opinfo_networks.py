"""opinfo_networks.py - adapters as of opinfo_table.py: networks, linear algebra, Fourier transforms."""

import math

from images import InterpolateOptions, PoolOptions
from opinfo import Lacks, T, torch
from opinfo_table import TABLE, dims_of, lacks, row, softmaxes
from quern import ALL, AttentionOptions, CrossEntropyOptions, conv_options

def alike(value, n, default):
    value = default if value is None else value
    return [value] * n if isinstance(value, (int, float)) else list(value) * (n if len(value) == 1 else 1)


def batched(o, x, rank, f):
    """f of an image with a batch, also where x has none."""
    if x.ndim == rank:
        return f(x)
    r = f(o.unsqueeze(x, 0))
    return [o.squeeze(t, 0) for t in r] if isinstance(r, list) else o.squeeze(r, 0)


def convolution(space):
    def call(o, x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
        stride, dilation = alike(stride, space, 1), alike(dilation, space, 1)
        before, after = [0] * space, [0] * space
        if padding == "same":
            for i, k in enumerate(w.shape[2:]):
                total = dilation[i] * (k - 1)
                before[i], after[i] = total // 2, total - total // 2
        elif padding != "valid":
            before = after = alike(padding, space, 0)
        options = conv_options(stride=stride, dilation=dilation, before=before, after=after, groups=groups)
        return batched(o, x, space + 2, lambda x: o.conv(x, w, b, options))
    return call


def transposed(space):
    def call(o, x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        padding = alike(padding, space, 0)
        options = conv_options(stride=alike(stride, space, 1), dilation=alike(dilation, space, 1), before=padding,
                               after=padding, extra=alike(output_padding, space, 0), groups=groups)
        return batched(o, x, space + 2, lambda x: o.conv_transpose(x, w, b, options))
    return call


def three(values):
    return tuple(values) + (0,) * (3 - len(values))


def max_pool(space):
    def call(o, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        size, padding = alike(kernel_size, space, 1), three(alike(padding, space, 0))
        stride = alike(stride if stride else None, space, kernel_size) if not stride else alike(stride, space, 1)
        stride = size if not stride else stride
        options = PoolOptions.of(kind=0, stride=three(stride), dilation=three(alike(dilation, space, 1)),
                                 before=padding, after=padding, ceil=ceil_mode)

        def pooled(x):
            r = o.max_pool_index(x, size, options)
            return r if return_indices else r[0]
        return batched(o, x, space + 2, pooled)
    return call


def avg_pool(space):
    def call(o, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
             divisor_override=None):
        if x.whole:
            raise Lacks("means of whole numbers, cut to whole ones")
        if divisor_override and (ceil_mode or not count_include_pad):
            raise Lacks("another divisor of windows cut short")
        size, padding = alike(kernel_size, space, 1), three(alike(padding, space, 0))
        stride = alike(stride, space, 1) if stride else size
        options = PoolOptions.of(kind=1, stride=three(stride), before=padding, after=padding, ceil=ceil_mode,
                                 exclude_padding=not count_include_pad)
        factor = math.prod(size) / divisor_override if divisor_override else 1
        r = batched(o, x, space + 2, lambda x: o.pool(x, size, options))
        return r if factor == 1 else o.mul(r, factor)
    return call


def adaptive(space, kind):
    def call(o, x, output_size, return_indices=False):
        places = alike(output_size, space, 1)
        places = [n if p is None else p for p, n in zip(places, x.shape[-space:])]
        options = PoolOptions.of(kind=kind, adaptive=True)

        def pooled(x):
            if kind:
                return o.pool(x, places, options)
            r = o.max_pool_index(x, places, options)
            return r if return_indices else r[0]
        return batched(o, x, space + 2, pooled)
    return call


def unpool(space):
    def call(o, x, index, kernel_size, stride=None, padding=0, output_size=None):
        size, padding = alike(kernel_size, space, 1), alike(padding, space, 0)
        stride = alike(stride, space, 1) if stride else size
        places = list(output_size)[-space:] if output_size else [
            (n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[-space:], stride, padding, size)]
        if x.ndim == space + 1:
            return o.squeeze(o.max_unpool(o.unsqueeze(x, 0), o.unsqueeze(index, 0), places), 0)
        return o.max_unpool(x, index, places)
    return call


for space in (1, 2, 3):
    TABLE[f"nn.functional.conv{space}d"] = convolution(space)
    TABLE[f"nn.functional.conv_transpose{space}d"] = transposed(space)
    TABLE[f"nn.functional.max_pool{space}d"] = max_pool(space)
    TABLE[f"nn.functional.avg_pool{space}d"] = avg_pool(space)
    TABLE[f"nn.functional.adaptive_avg_pool{space}d"] = adaptive(space, 1)
    TABLE[f"nn.functional.adaptive_max_pool{space}d"] = adaptive(space, 0)
    TABLE[f"nn.functional.max_unpool{space}d"] = TABLE[f"nn.functional.max_unpool{space}d/grad"] = unpool(space)


def interpolate(o, x, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    space = x.ndim - 2
    number = {"nearest": 0, "nearest-exact": 1, "linear": 2, "bilinear": 2, "trilinear": 2, "bicubic": 3,
              "area": 4}[mode]
    scale = (0, 0, 0)
    if size is None:
        factors = alike(scale_factor, space, 1)
        size = [int(math.floor(n * s)) for n, s in zip(x.shape[2:], factors)]
        scale = three(factors) if not recompute_scale_factor and mode != "area" else scale
    options = InterpolateOptions.of(mode=number, align_corners=bool(align_corners), antialias=antialias, scale=scale)
    return o.interpolate(x, alike(size, space, 1), options)


def fractional(space):
    def call(o, x, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        if _random_samples is None:
            raise Lacks("random")
        if not (0 <= o.q.read(_random_samples.handle).numbers()).all():
            raise Lacks("samples outside [0, 1), whose windows are not in the image")
        places = alike(output_size, space, 1) if output_size else [
            int(n * r) for n, r in zip(x.shape[-space:], alike(output_ratio, space, 1))]
        u = o.flip(_random_samples, -1) if space == 2 else _random_samples
        r = o.fractional_max_pool(x, u, alike(kernel_size, space, 1), places)
        return r if return_indices else r[0]
    return call


TABLE["nn.functional.fractional_max_pool2d"] = fractional(2)
TABLE["nn.functional.fractional_max_pool3d"] = fractional(3)
TABLE["_upsample_bilinear2d_aa"] = lambda o, x, output_size, align_corners, *scales, **named: interpolate(
    o, x, output_size, mode="bilinear", align_corners=align_corners, antialias=True) if not any(
        [*scales, *named.values()]) else lacks("scales beside a size")
TABLE["native_group_norm"] = (lambda o, x, w, b, n, c, hw, groups, eps: o.group_norm(x, w, b, groups, eps),
                              lambda r: r[0])


@row("torch.ops.aten._safe_softmax.default")
def safe_softmax(o, x, dim, dtype=None):
    hidden = o.expand(o.all(o.eq(x, -math.inf), dim, True), x.ndim, x.shape)
    r = softmaxes("softmax")(o, o.where(hidden, o.zeros_like(x), x), dim, dtype)
    return o.where(hidden, o.zeros_like(r), r)


for name in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"):
    TABLE["nn.functional.interpolate/" + name] = interpolate
TABLE["nn.functional.upsample_nearest"] = lambda o, x, size=None, scale_factor=None: interpolate(
    o, x, size, scale_factor)
TABLE["nn.functional.upsample_bilinear"] = lambda o, x, size=None, scale_factor=None: interpolate(
    o, x, size, scale_factor, "bilinear", True)
TABLE["nn.functional.grid_sample"] = lambda o, x, grid, mode="bilinear", padding_mode="zeros", align_corners=False: \
    o.grid_sample(x, grid, {"nearest": 0, "bilinear": 2, "bicubic": 3}[mode],
                  ["zeros", "border", "reflection"].index(padding_mode), bool(align_corners))
TABLE["grid_sampler_2d"] = TABLE["grid_sampler_3d"] = lambda o, x, grid, mode, padding, align: o.grid_sample(
    x, grid, [2, 0, 3][mode], padding, align)
TABLE["nn.functional.pixel_shuffle"] = lambda o, x, upscale_factor: batch_all(
    o, x, lambda x: o.pixel_shuffle(x, upscale_factor))
TABLE["nn.functional.pixel_unshuffle"] = lambda o, x, downscale_factor: batch_all(
    o, x, lambda x: o.pixel_unshuffle(x, downscale_factor))


def batch_all(o, x, f):
    """f of [N, C, H, W] where x has any number of axes in front of C."""
    front = x.shape[:-3]
    r = f(o.reshape(x, 4, [math.prod(front), *x.shape[-3:]]))
    return o.reshape(r, len(front) + 3, front + r.shape[1:])


@row("nn.functional.unfold")
def im2col(o, x, kernel_size, dilation=1, padding=0, stride=1):
    padding = alike(padding, 2, 0)
    options = conv_options(stride=alike(stride, 2, 1), dilation=alike(dilation, 2, 1), before=padding, after=padding)
    return batched(o, x, 4, lambda x: o.im2col(x, alike(kernel_size, 2, 1), options))


@row("nn.functional.layer_norm", "native_layer_norm")
def layer_norm(o, x, normalized_shape, weight=None, bias=None, eps=1e-5):
    n = len(normalized_shape)
    return o.layer_norm_axes(x, n, list(range(-n, 0)), weight, bias, eps)


TABLE["native_layer_norm"] = (layer_norm, lambda r: r[0])


@row("nn.functional.rms_norm")
def rms_norm(o, x, normalized_shape, weight=None, eps=None):
    n = len(normalized_shape)
    flat = o.reshape(x, x.ndim - n + 1, x.shape[:x.ndim - n] + [math.prod(normalized_shape)])
    weight = o.reshape(weight, 1, [-1]) if weight is not None else None
    eps = eps if eps is not None else {"f64": 2.0 ** -52, "f16": 2.0 ** -10, "bf16": 2.0 ** -7}.get(x.dtype, 2.0 ** -23)
    return o.reshape(o.rms_norm(flat, weight, eps), x.ndim, x.shape)


@row("nn.functional.group_norm")
def group_norm(o, x, groups, weight=None, bias=None, eps=1e-5):
    return o.group_norm(x, weight, bias, groups, eps)


@row("nn.functional.instance_norm")
def instance_norm(o, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return o.batch_norm(x, running_mean, running_var, weight, bias, eps)
    return o.instance_norm(x, weight, bias, eps)


@row("nn.functional.batch_norm", "nn.functional.batch_norm/without_cudnn")
def batch_norm(o, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        return o.batch_norm_training(x, weight, bias, eps, n=3)[0]
    return o.batch_norm(x, mean, var, weight, bias, eps)


@row("nn.functional.scaled_dot_product_attention")
def attention(o, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise Lacks("random")
    if is_causal and q.shape[-2] != k.shape[-2]:  # from the first key on; ours is to the last
        is_causal, attn_mask = False, o.tril(o.ones("bool", 2, [q.shape[-2], k.shape[-2]]), 0)
    return o.attention(q, k, v, AttentionOptions.of(causal=is_causal, scale=scale or 0.0, grouped=enable_gqa,
                                                    mask=attn_mask.handle if attn_mask is not None else None))


def embedding(o, weight, index, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
              sparse=False):
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise Lacks("options of an embedding: max_norm, scale_grad_by_freq, sparse")
    if padding_idx is not None:  # its row has no gradient
        still = o.eq(o.arange_int("i64", 0, weight.shape[0], 1), padding_idx % weight.shape[0])
        weight = o.where(o.unsqueeze(still, -1), o.detach(weight), weight)
    return o.embedding(weight, index)


TABLE["nn.functional.embedding"] = embedding
REDUCTIONS = ["mean", "sum", "none"]


def reduced(o, terms, reduction):
    return terms if reduction == "none" else getattr(o, reduction)(terms, ALL, False)


def old_reduction(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def classes_last(o, x):
    return x if x.ndim < 3 else o.moveaxis(x, 1, [1], [-1])


@row("nn.functional.cross_entropy")
def cross_entropy(o, x, y, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    if y.floats:
        y, x = classes_last(o, y), classes_last(o, x)
        if weight is not None or label_smoothing:
            y = o.add(o.mul(y, 1 - label_smoothing), label_smoothing / x.shape[-1])
            terms = o.neg(o.sum((y if weight is None else y * weight) * o.log_softmax(x, -1), -1, False))
            return reduced(o, terms, reduction)
        if reduction == "mean":
            return o.cross_entropy_soft(x, y, 0)
        return o.cross_entropy_soft(x, y, REDUCTIONS.index(reduction))
    return o.cross_entropy_with(classes_last(o, x), y, CrossEntropyOptions.of(
        reduction=REDUCTIONS.index(reduction), smoothing=label_smoothing, ignore=ignore_index, ignores=True,
        weight=weight.handle if weight is not None else None))


@row("nn.functional.nll_loss")
def nll_loss(o, x, y, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    x, y = classes_last(o, x), o.cast(y, "i64")
    if weight is None and reduction == "mean" and ignore_index == -100:
        return o.nll_loss(x, y)
    return o.nll_loss_with(x, y, CrossEntropyOptions.of(
        reduction=REDUCTIONS.index(reduction), ignore=ignore_index, ignores=True,
        weight=weight.handle if weight is not None else None))


TABLE["nn.functional.mse_loss"] = lambda o, x, y, size_average=None, reduce=None, reduction="mean", weight=None: \
    o.mse_loss(x, y) if reduction == "mean" else reduced(o, o.square(x - y), reduction)
TABLE["nn.functional.l1_loss"] = lambda o, x, y, size_average=None, reduce=None, reduction="mean", weight=None: \
    o.l1_loss(x, y) if reduction == "mean" else reduced(o, o.abs(x - y), reduction)


@row("nn.functional.huber_loss")
def huber_loss(o, x, y, reduction="mean", delta=1.0, weight=None):
    r = o.huber_loss(x, y, delta)
    return again(o, r, x, y, reduction, weight)


def again(o, mean, x, y, reduction, weight=None):
    """A sum of the mean over all elements."""
    if reduction == "none" or weight is not None:
        raise Lacks("huber_loss element by element, with weights")
    return o.mul(mean, math.prod(torch.broadcast_shapes(x.shape, y.shape))) if reduction == "sum" else mean


@row("nn.functional.smooth_l1_loss")
def smooth_l1_loss(o, x, y, size_average=None, reduce=None, reduction="mean", beta=1.0):
    return again(o, o.div(o.huber_loss(x, y, beta), beta) if beta else o.l1_loss(x, y), x, y, reduction)


@row("nn.functional.binary_cross_entropy_with_logits")
def bce_with_logits(o, x, y, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    if weight is None and pos_weight is None and reduction == "mean":
        return o.bce_with_logits(x, y)
    most = y if pos_weight is None else y * pos_weight
    terms = o.neg(most * o.log_sigmoid(x) + o.add(o.neg(y), 1.0) * o.log_sigmoid(o.neg(x)))
    return reduced(o, terms if weight is None else terms * weight, reduction)


@row("nn.functional.binary_cross_entropy")
def bce(o, x, y, weight=None, size_average=None, reduce=None, reduction="mean"):
    if weight is not None:
        return reduced(o, o.bce_loss(x, y, 2) * weight, reduction)
    return o.bce_loss(x, y, REDUCTIONS.index(reduction))


@row("nn.functional.kl_div")
def kl_div(o, x, y, size_average=None, reduce=None, reduction="mean", log_target=False):
    if reduction == "batchmean":
        return o.kl_div(x, y, log_target, 1) / (x.shape[0] if x.ndim else 1)
    return o.kl_div(x, y, log_target, REDUCTIONS.index(reduction))


@row("nn.functional.triplet_margin_loss", "nn.functional.triplet_margin_with_distance_loss")
def triplet(o, a, b, c, margin=1.0, p=2, eps=1e-6, swap=False, reduction="mean", distance_function=None, **_):
    def far(x, y):
        if distance_function is not None:
            raise Lacks("distances by a function")
        return o.norm(o.add(x - y, eps), -1, float(p), False)
    near, other = far(a, b), far(a, c)  # with eps added to each difference, which our own has not
    other = o.minimum(other, far(b, c)) if swap else other
    return reduced(o, o.relu(o.add(near - other, margin)), reduction)


@row("nn.functional.ctc_loss")
def ctc_loss(o, log_p, labels, lengths, label_lengths, blank=0, reduction="mean", zero_infinity=False):
    if labels.ndim != 2 or log_p.ndim != 3 or zero_infinity:
        raise Lacks("labels behind each other, one example, losses of 0 for infinite ones")
    lengths, label_lengths = (n if isinstance(n, T) else o.plain("i64", n) for n in (lengths, label_lengths))
    return o.ctc_loss(log_p, labels, lengths, label_lengths, blank, REDUCTIONS.index(reduction))


@row("nn.functional.cosine_similarity")
def cosine_similarity(o, x, y, dim=1, eps=1e-8):
    return o.cosine_similarity(x, y, dim, eps)


@row("nn.functional.cosine_embedding_loss")
def cosine_embedding(o, x, y, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    return o.cosine_embedding_loss(x, y, target, margin, REDUCTIONS.index(reduction))


@row("nn.functional.margin_ranking_loss")
def margin_ranking(o, x, y, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    return o.margin_ranking_loss(x, y, target, margin, REDUCTIONS.index(reduction))


@row("nn.functional.hinge_embedding_loss")
def hinge(o, x, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return o.hinge_embedding_loss(x, target, margin, REDUCTIONS.index(reduction))


@row("nn.functional.soft_margin_loss")
def soft_margin(o, x, target, size_average=None, reduce=None, reduction="mean"):
    return o.soft_margin_loss(x, target, REDUCTIONS.index(reduction))


@row("nn.functional.poisson_nll_loss")
def poisson_nll(o, x, y, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    if full or not log_input:
        terms = o.exp(x) - y * x if log_input else x - y * o.log(o.add(x, eps))
        if full:
            safe = o.where(o.gt(y, 1.0), y, o.ones_like(y))
            more = safe * o.log(safe) - safe + o.mul(o.log(o.mul(safe, 2 * math.pi)), 0.5)
            terms = terms + o.where(o.gt(y, 1.0), more, o.zeros_like(more))
        return reduced(o, terms, reduction)
    return o.poisson_nll_loss(x, y, log_input, REDUCTIONS.index(reduction))


@row("nn.functional.gaussian_nll_loss")
def gaussian_nll(o, x, y, var, full=False, eps=1e-6, reduction="mean"):
    if not isinstance(var, T):
        var = o.full_like(x, var)
    if var.ndim < x.ndim:
        var = o.unsqueeze(var, -1)
    r = o.gaussian_nll_loss(x, y, var, eps, REDUCTIONS.index(reduction))
    constant = 0.5 * math.log(2 * math.pi) * (math.prod(x.shape) if reduction == "sum" else 1)
    return o.add(r, constant) if full else r


# linear algebra

def squares(results):
    return [results[0].abs() ** 2, results[1]] + ([results[2].abs() ** 2] if len(results) > 2 else [])


TABLE["cholesky"] = TABLE["linalg.cholesky"] = lambda o, x, upper=False: o.cholesky(x, upper)
TABLE["linalg.cholesky_ex"] = (lambda o, x, upper=False, check_errors=False: o.cholesky(x, upper), lambda r: r[0])
TABLE["linalg.inv_ex"] = (lambda o, x, check_errors=False: o.inv(x), lambda r: r[0])
TABLE["linalg.solve_ex"] = (lambda o, a, b, left=True, check_errors=False: linalg_solve(o, a, b, left=left),
                            lambda r: r[0])
TABLE["linalg.slogdet"] = lambda o, x: o.slogdet(x)
TABLE["logdet"] = lambda o, x: o.log(o.det(x))
TABLE["linalg.qr"] = (lambda o, x, mode="reduced": qr(o, x, mode), lambda r: [r[0].abs() ** 2, r[1].abs() ** 2])
TABLE["linalg.eigh"] = (lambda o, x, UPLO="L": eigh(o, x, UPLO), lambda r: [r[0], r[1].abs() ** 2])
TABLE["linalg.eigvalsh"] = lambda o, x, UPLO="L": eigh(o, x, UPLO)[0]
TABLE["linalg.svd"] = (lambda o, x, full_matrices=True, driver=None: svd(o, x, full_matrices), squares)
TABLE["svd"] = (lambda o, x, some=True, compute_uv=True: svd_old(o, x, some, compute_uv), squares)
TABLE["linalg.eig"] = (lambda o, x: unordered(lambda t: o.sum(t, -1, False), *o.eig(x), o.abs),
                       lambda r: unordered(lambda t: t.sum(-1), r[0], r[1], torch.abs))
TABLE["linalg.eigvals"] = (lambda o, x: unordered(lambda t: o.sum(t, -1, False), o.eigvals(x)),
                           lambda r: unordered(lambda t: t.sum(-1), r))
TABLE["linalg.svdvals"] = lambda o, x, driver=None: o.svd(x)[1]
TABLE["linalg.matrix_power"] = lambda o, x, n: o.matrix_power(x, n)
TABLE["pinverse"] = lambda o, x, rcond=1e-15: o.pinv(x, rcond)


@row("linalg.pinv", "linalg.pinv/hermitian")
def pinv(o, x, atol=None, rtol=None, hermitian=False):
    if hermitian:
        raise Lacks("a pseudo-inverse of one triangle")
    if atol is not None or isinstance(rtol, T):
        raise Lacks("an absolute tolerance")
    return o.pinv(x, -1.0 if rtol is None else rtol)


@row("linalg.matrix_rank", "linalg.matrix_rank/hermitian")
def matrix_rank(o, x, tol=None, atol=None, rtol=None, hermitian=False):
    if tol is not None or atol is not None or isinstance(rtol, T):
        raise Lacks("an absolute tolerance")
    return o.matrix_rank(x, -1.0 if rtol is None else rtol)


def unordered(total, values, vectors=None, size=None):
    """Of eigenvalues and vectors what does not know their order and phases."""
    sums = [total(values), total(values * values), total(values * values * values)]
    if vectors is not None:
        sums.append(total(size(vectors) * size(vectors) * at_last_but_one(values)))
    return sums


def at_last_but_one(v):
    """v [.., n] as [.., 1, n]."""
    return v.unsqueeze(-2) if isinstance(v, torch.Tensor) else v.ours.unsqueeze(v, -2)


def qr(o, x, mode):
    if mode != "reduced" and not (mode == "complete" and x.shape[-2] <= x.shape[-1]):
        raise Lacks("the whole of q, or r alone")
    q, r = o.qr(x)
    return [o.square(q), o.square(r)]


def eigh(o, x, triangle):
    w, v = o.eigh(x if triangle == "L" else o.transpose(x, -2, -1))
    return [w, o.square(v)]


def svd(o, x, whole):
    if whole and x.shape[-1] != x.shape[-2]:
        raise Lacks("the whole of u and vh")
    u, s, vh = o.svd(x)
    return [o.square(u), s, o.square(vh)]


def svd_old(o, x, some, vectors):
    if not vectors:
        raise Lacks("svd without vectors, which are zeros then")
    u, s, vh = svd(o, x, not some)
    return [u, s, o.transpose(vh, -2, -1)]


@row("linalg.solve")
def linalg_solve(o, a, b, left=True):
    if not left:
        if b.ndim < 2 or a.ndim < 2:
            raise Lacks("x @ a = b of a vector")
        return o.transpose(linalg_solve(o, o.transpose(a, -2, -1), o.transpose(b, -2, -1)), -2, -1)
    if b.ndim != 1 and b.shape == a.shape[:-1]:
        return o.squeeze(o.solve(a, o.unsqueeze(b, -1)), -1)
    return o.solve(a, b)


@row("linalg.solve_triangular")
def solve_triangular(o, a, b, upper, left=True, unitriangular=False):
    if not left:
        return o.transpose(o.solve_triangular(a, o.transpose(b, -2, -1), upper, True, unitriangular), -2, -1)
    return o.solve_triangular(a, b, upper, False, unitriangular)


TABLE["triangular_solve"] = (lambda o, b, a, upper=True, transpose=False, unitriangular=False: o.solve_triangular(
    a, b, upper, transpose, unitriangular), lambda r: r[0])
TABLE["linalg.lstsq"] = TABLE["linalg.lstsq/grad_oriented"] = (
    lambda o, a, b, rcond=None, driver=None: lstsq(o, a, b), lambda r: r if isinstance(r, torch.Tensor) else r[0])


def lstsq(o, a, b):
    return o.lstsq(a, b)


# Fourier transforms

NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}


def wide(o, x):
    """Whole numbers as floats, real ones as complex."""
    return o.complex(x if x.floats else o.cast(x, "f32"), None) if x.dtype[0] != "c" else x


def fitted(o, x, s, dim):
    """x cut or followed by zeros along axes."""
    for n, d in zip(s, dim):
        size = x.shape[d]
        if n not in (-1, size):
            amounts = [0] * (2 * x.ndim)
            amounts[2 * (d % x.ndim) + 1] = n - size
            x = o.pad(x, amounts, 0, 0.0)
    return x


def spectrum(name, real_in, pairs, one):
    def call(o, x, n=None, dim=None, norm=None, s=None):
        if real_in and not x.floats:
            x = o.cast(x, "f32")
        x = x if real_in else wide(o, x)
        if one:
            r = getattr(o, name)(x, n or 0, -1 if dim is None else dim, NORMS[norm])
            return o.as_complex(r) if pairs else r
        s = n if s is None else s
        dims = dims_of(dim)
        if dims is None:
            dims = list(range(-len(s), 0)) if s is not None else list(range(-x.ndim, 0))
        if s is not None and name != "irfftn":
            x = fitted(o, x, dims_of(s), dims)
        elif s is not None:
            s = dims_of(s)
            x = fitted(o, x, s[:-1], dims[:-1])
            last = s[-1] if s[-1] != -1 else 0
        if name == "irfftn":
            return o.irfftn(x, len(dims), dims, last if s is not None else 0, NORMS[norm])
        r = getattr(o, name)(x, len(dims), dims, NORMS[norm])
        return o.as_complex(r) if pairs else r
    return call


for name, real_in, pairs in [("fft", False, False), ("ifft", False, False), ("rfft", True, True),
                             ("irfft", False, False), ("hfft", False, False), ("ihfft", True, True)]:
    TABLE["fft." + name] = spectrum(name, real_in, pairs, True)
for name, real_in, pairs in [("fftn", False, False), ("ifftn", False, False), ("rfftn", True, True),
                             ("irfftn", False, False)]:
    TABLE["fft." + name] = spectrum(name, real_in, pairs, False)
    TABLE["fft." + name[:-1] + "2"] = lambda o, x, s=None, dim=(-2, -1), norm=None, f=TABLE["fft." + name]: f(
        o, x, dim=dim, norm=norm, s=s)
for name in ("fftshift", "ifftshift"):
    TABLE["fft." + name] = lambda o, x, dim=None, f=name: getattr(o, f)(
        x, *((x.ndim, list(range(x.ndim))) if dim is None else (len(dims_of(dim)), dims_of(dim))))
