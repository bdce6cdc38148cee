"""functional.py - PyTorch's torch.nn.functional over the functions of quern: names, arguments and defaults as there.

What is a row of layers is called by the row; the others are the library's functions under PyTorch's names.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import _core
from .._core import Tensor
from ..autograd import no_grad
from .layers import KINDS, options_of
from .random import generator

Function = TypeVar("Function", bound=Callable[..., Any])


def rounded_once(function: Function) -> Function:
    """A function of several steps, which takes them in float32 where its arguments are of less."""
    def is_float(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype.kind == "f"

    def wide(x: Any) -> Any:
        return x.cast("float32") if is_float(x) and x.dtype.itemsize < 4 else x

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        floats = [x.dtype for x in (*args, *given.values()) if is_float(x)]
        if all(d.itemsize >= 4 for d in floats):
            return function(*args, **given)
        y = function(*map(wide, args), **{name: wide(x) for name, x in given.items()})
        return y.cast(_core.result_type(floats))
    return cast(Function, call)


layer_apply: Any = getattr(_core, "layer_apply")  # noqa: B009 - the stubs have what users call

def of_kind(kind, inputs, tensors=(), training=False, draws=False, **given):
    """The results of a layer of a kind with these arguments and tensors, and the tensors' new values."""
    cls = KINDS[kind]
    values = cls.arguments_signature.bind(**given)
    values.apply_defaults()
    options = options_of(kind, cls.arguments, tuple(values.arguments.values()))
    key = generator.draw() if training and draws else None
    made = layer_apply(kind, options, training, key, tensors, inputs)
    return made[:cls.results], made[cls.results:]


def with_bias(weight, bias):
    return (weight,) if bias is None else (weight, bias)


# ---- linear maps, convolutions -------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _core.linear(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out, a, b = weight.shape
    y: Tensor = of_kind("Bilinear", (input1, input2), with_bias(weight, bias), in1_features=a, in2_features=b,
                        out_features=out, bias=bias is not None)[0][0]
    return y


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    y: Tensor = of_kind("Embedding", (input,), (weight,), num_embeddings=weight.shape[0],
                        embedding_dim=weight.shape[1], padding_idx=padding_idx)[0][0]
    return y


def conv_of(kind, input, weight, bias, groups, turned, **given):
    a, b = weight.shape[:2]
    channels = {"in_channels": a if turned else b * groups, "out_channels": b * groups if turned else a}
    return of_kind(kind, (input,), with_bias(weight, bias), kernel_size=weight.shape[2:], groups=groups,
                   bias=bias is not None, **channels, **given)[0][0]


def conv_function(axes):
    def conv(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
             dilation: Any = 1, groups: int = 1) -> Any:
        return conv_of(f"Conv{axes}d", input, weight, bias, groups, False, stride=stride, padding=padding,
                       dilation=dilation)
    return conv


def conv_transpose_function(axes):
    def conv_transpose(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
                       output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> Any:
        return conv_of(f"ConvTranspose{axes}d", input, weight, bias, groups, True, stride=stride, padding=padding,
                       output_padding=output_padding, dilation=dilation)
    return conv_transpose


conv1d, conv2d, conv3d = (conv_function(n) for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (conv_transpose_function(n) for n in (1, 2, 3))

# ---- pooling, activations: kinds without tensors -------------------------------------------------


def kind_function(name, kind):
    """A function of a kind of layer without tensors: its arguments behind the input."""
    cls = KINDS[kind]

    def call(input: Tensor, *args: Any, inplace: bool = False, **given: Any) -> Any:
        values = cls.arguments_signature.bind(*args, **given)
        values.apply_defaults()
        made = layer_apply(kind, options_of(kind, cls.arguments, tuple(values.arguments.values())), False, None,
                                 (), (input,))
        return (made[0], made[1]) if values.arguments.get("return_indices") else made[0]
    call.__name__ = name
    call.__doc__ = cls.__doc__
    return call


POOLS = {f"{a.lower()}{'_' if a == 'Adaptive' else ''}{p.lower()}_pool{n}d": f"{a}{p}Pool{n}d"
         for a, p in (("", "Max"), ("", "Avg"), ("", "LP"), ("Adaptive", "Avg"), ("Adaptive", "Max"))
         for n in (1, 2, 3)}
ACTIVATIONS = {"relu": "ReLU", "relu6": "ReLU6", "silu": "SiLU", "mish": "Mish", "selu": "SELU", "sigmoid": "Sigmoid",
               "logsigmoid": "LogSigmoid", "tanh": "Tanh", "tanhshrink": "Tanhshrink", "softsign": "Softsign",
               "hardswish": "Hardswish", "hardsigmoid": "Hardsigmoid", "gelu": "GELU", "elu": "ELU", "celu": "CELU",
               "leaky_relu": "LeakyReLU", "hardshrink": "Hardshrink", "softshrink": "Softshrink",
               "hardtanh": "Hardtanh", "softplus": "Softplus", "threshold": "Threshold", "glu": "GLU"}
for _name, _kind in {**POOLS, **ACTIVATIONS}.items():
    globals()[_name] = kind_function(_name, _kind)
if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...


def axis_of(input, dim):
    """The axis that PyTorch takes where none is given: the first of 0, 1 and 3 axes, else the second."""
    return dim if dim is not None else 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    return _core.softmax(input if dtype is None else input.cast(dtype), axis=axis_of(input, dim))


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    return _core.log_softmax(input if dtype is None else input.cast(dtype), axis=axis_of(input, dim))


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    return _core.softmin(input if dtype is None else input.cast(dtype), axis=axis_of(input, dim))


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    return _core.prelu(input, weight)


# ---- norms, dropout ------------------------------------------------------------------------------


@rounded_once
def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    if weight is None:  # a bias alone is added
        y: Tensor = of_kind("LayerNorm", (input,), normalized_shape=normalized_shape, eps=eps,
                            elementwise_affine=False)[0][0]
        return y if bias is None else y + bias
    z: Tensor = of_kind("LayerNorm", (input,), with_bias(weight, bias), normalized_shape=normalized_shape, eps=eps,
                        bias=bias is not None)[0][0]
    return z


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    y: Tensor = of_kind("RMSNorm", (input,), () if weight is None else (weight,), normalized_shape=normalized_shape,
                        eps=eps, elementwise_affine=weight is not None)[0][0]
    return y


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    return _core.group_norm(input, weight, bias, groups=num_groups, eps=eps)


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
                  weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """By each image's own statistics, whose mean the running ones, if given, take in; or by the running ones."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    space = tuple(range(2, input.ndim))
    with no_grad():
        x = input.detach()
        for running, of in ((running_mean, _core.mean), (running_var, functools.partial(_core.var, correction=1))):
            if running is not None:
                now = of(x, axis=space).mean(axis=0)
                running.assign(running + momentum * (now.cast(running.dtype) - running))
    return _core.instance_norm(input, weight, bias, eps=eps)


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """In training by the batch, and the running statistics are assigned to."""
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: running statistics are wanted outside of training")
        return _core.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    y, mean, variance = _core.batch_norm_training(input, weight, bias, eps=eps)
    with no_grad():
        for running, now in ((running_mean, mean), (running_var, variance)):
            if running is not None:
                running.assign(running + momentum * (now.detach().cast(running.dtype) - running))
    out: Tensor = y
    return out


def dropout_function(kind):
    def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return of_kind(kind, (input,), (), training, p > 0, p=p)[0][0]
    return dropout


dropout, dropout1d, dropout2d, dropout3d = (dropout_function(f"Dropout{n}") for n in ("", "1d", "2d", "3d"))


@rounded_once
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    length = _core.norm(input, axis=dim, p=p, keepdims=True)
    return input / _core.maximum(length, _core.full_like(length, eps))


# ---- attention -----------------------------------------------------------------------------------


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False) -> Tensor:
    """A query that sees no key gives 0. is_causal: query i sees the keys up to i, whatever their count."""
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: is_causal beside an attn_mask")
    rows, columns = query.shape[-2], key.shape[-2]
    if is_causal and (dropout_p or rows != columns):
        attn_mask, is_causal = _core.tril(_core.ones((rows, columns), dtype="bool")), False
    if dropout_p == 0:
        return _core.attention(query, key, value, causal=is_causal, scale=scale or 0, mask=attn_mask,
                               grouped=enable_gqa)
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (_core.repeat_interleave(x, times, axis=-3) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (scale or query.shape[-1] ** -0.5)
    if attn_mask is not None and attn_mask.dtype.kind == "b":
        scores = _core.where(attn_mask, scores, _core.full_like(scores, float("-inf")))
    elif attn_mask is not None:
        scores = scores + attn_mask
    none = (scores == float("-inf")).all(axis=-1, keepdims=True)
    weights = _core.softmax(_core.where(none, _core.zeros_like(scores), scores), axis=-1)
    y: Tensor = dropout(_core.where(none, _core.zeros_like(scores), weights), dropout_p) @ value
    return y


# ---- images --------------------------------------------------------------------------------------


def pad(input: Tensor, pad: Sequence[int], mode: Any = "constant", value: float | None = None) -> Tensor:
    """Widths before and after, of the last axis first."""
    widths = [0] * (2 * input.ndim)
    for i in range(len(pad) // 2):
        at = 2 * (input.ndim - 1 - i)
        widths[at], widths[at + 1] = pad[2 * i], pad[2 * i + 1]
    return _core.pad(input, widths, mode={"replicate": "edge"}.get(mode, mode), value=value or 0)


def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: Any = "nearest",
                align_corners: bool | None = None, *, antialias: bool = False) -> Tensor:
    axes = input.ndim - 2
    word = {"nearest-exact": "nearest_center", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
    sizes: Any = size
    scale: Any = 0
    if sizes is None:
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * axes
        sizes = [int(n * f) for n, f in zip(input.shape[2:], factors)]
        scale = tuple(float(f) for f in factors)
    sizes = [sizes] * axes if isinstance(sizes, int) else list(sizes)
    return _core.interpolate(input, sizes, mode=word.get(mode, mode), align_corners=bool(align_corners),
                             antialias=antialias, scale=scale)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    return _core.pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    return _core.pixel_unshuffle(input, downscale_factor)


def one_hot(tensor: Tensor, num_classes: int) -> Tensor:
    return _core.one_hot(tensor, num_classes, "int64")


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    return _core.cosine_similarity(x1, x2, axis=dim, eps=eps)


# ---- losses --------------------------------------------------------------------------------------


def reduced(x, reduction):
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is {reduction!r}, not 'mean', 'sum' or 'none'")
    return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x


def classes_last(x):
    """[N, C, ..] as [N, .., C]."""
    return _core.moveaxis(x, (1,), (-1,)) if x.ndim > 2 else x


@rounded_once
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
                  reduction: Any = "mean", label_smoothing: float = 0.0) -> Tensor:
    """Of logits [N, C, ..] or [C], and labels [N, ..] or classes' probabilities."""
    logits = classes_last(input)
    if target.dtype.kind == "f":
        target = classes_last(target)
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input.shape[1 if input.ndim > 1 else 0]
        if weight is None:
            return _core.cross_entropy_soft(logits, target, reduction=reduction)
        terms = -(target * weight * _core.log_softmax(logits, axis=-1)).sum(axis=-1)
        y: Tensor = reduced(terms, reduction)
        return y
    return _core.cross_entropy(logits, target, reduction=reduction, smoothing=label_smoothing, weight=weight,
                               ignore=ignore_index)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
             reduction: Any = "mean") -> Tensor:
    return _core.nll_loss(classes_last(input), target, reduction=reduction, weight=weight, ignore=ignore_index)


@rounded_once
def mse_loss(input: Tensor, target: Tensor, *, reduction: Any = "mean") -> Any:
    return _core.mse_loss(input, target) if reduction == "mean" else reduced((input - target) ** 2, reduction)


@rounded_once
def l1_loss(input: Tensor, target: Tensor, *, reduction: Any = "mean") -> Any:
    return _core.l1_loss(input, target) if reduction == "mean" else reduced(_core.abs(input - target), reduction)


@rounded_once
def huber_loss(input: Tensor, target: Tensor, reduction: Any = "mean", delta: float = 1.0) -> Any:
    if reduction == "mean":
        return _core.huber_loss(input, target, delta=delta)
    d = _core.abs(input - target)
    return reduced(_core.where(d <= delta, d * d * 0.5, delta * (d - 0.5 * delta)), reduction)


@rounded_once
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: Any = "mean", beta: float = 1.0) -> Any:
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return huber_loss(input, target, reduction, beta) / beta


@rounded_once
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *,
                         reduction: Any = "mean") -> Any:
    if weight is None:
        return _core.bce_loss(input, target, reduction=reduction)
    return reduced(_core.bce_loss(input, target, reduction="none") * weight, reduction)


@rounded_once
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, *,
                                     reduction: Any = "mean", pos_weight: Tensor | None = None) -> Any:
    if weight is None and pos_weight is None and reduction == "mean":
        return _core.bce_with_logits(input, target)
    right = target * _core.log_sigmoid(input)
    if pos_weight is not None:
        right = right * pos_weight
    terms = -(right + (1 - target) * _core.log_sigmoid(-input))
    return reduced(terms if weight is None else terms * weight, reduction)


@rounded_once
def kl_div(input: Tensor, target: Tensor, *, reduction: Any = "mean", log_target: bool = False) -> Any:
    if reduction == "batchmean":
        return _core.kl_div(input, target, log_target=log_target, reduction="sum") / input.shape[0]
    return _core.kl_div(input, target, log_target=log_target, reduction=reduction)


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
             reduction: Any = "mean") -> Tensor:
    return _core.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=blank, reduction=reduction)


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, *,
                        reduction: Any = "mean") -> Tensor:
    return _core.triplet_margin_loss(anchor, positive, negative, margin=margin, reduction=reduction)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *,
                          reduction: Any = "mean") -> Tensor:
    return _core.cosine_embedding_loss(input1, input2, target, margin=margin, reduction=reduction)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *,
                        reduction: Any = "mean") -> Tensor:
    return _core.margin_ranking_loss(input1, input2, target, margin=margin, reduction=reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: Any = "mean") -> Tensor:
    return _core.hinge_embedding_loss(input, target, margin=margin, reduction=reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: Any = "mean") -> Tensor:
    return _core.soft_margin_loss(input, target, reduction=reduction)


@rounded_once
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, *, full: bool = False,
                     eps: float = 1e-8, reduction: Any = "mean") -> Tensor:
    """full: with Stirling's approximation of log(target!), for targets above 1."""
    if log_input and not full:
        return _core.poisson_nll_loss(input, target, log_input=True, reduction=reduction)
    terms = _core.exp(input) - target * input if log_input else input - target * _core.log(input + eps)
    if full:
        large = _core.maximum(target, _core.ones_like(target))
        stirling = large * _core.log(large) - large + 0.5 * _core.log(2 * math.pi * large)
        terms = terms + _core.where(target > 1, stirling, _core.zeros_like(stirling))
    y: Tensor = reduced(terms, reduction)
    return y


@rounded_once
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
                      reduction: Any = "mean") -> Any:
    """full: with the constant log(2 pi) / 2."""
    if not full:
        return _core.gaussian_nll_loss(input, target, var, eps=eps, reduction=reduction)
    terms = _core.gaussian_nll_loss(input, target, var, eps=eps, reduction="none")
    return reduced(terms + 0.5 * math.log(2 * math.pi), reduction)
