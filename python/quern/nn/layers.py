"""layers.py - a class for each kind of layer of the library, from its row: PyTorch's arguments, defaults and names.

The rows are src/nn/layers/rows.h, the same that C's qn_layer_new reads. A class keeps its arguments as attributes and
its tensors under PyTorch's names; what it does to inputs the library records. Here is only what PyTorch's calls look
like where a row cannot say it: (h, c) of an LSTM, the masks of attention by keyword.
"""

import ast
import inspect
from typing import Any

from .. import _core
from .._core import Tensor
from ..autograd import no_grad
from . import module
from .module import Module, Parameter, is_parameter
from .random import generator

EMPTY = inspect.Parameter.empty
OPTIONS: dict[Any, bytes] = {}  # by kind, arguments and what a call says; not an instance's, which a trace would change


def signature_of(arguments):
    """A row's arguments as a signature."""
    found = []
    for text in arguments.split():
        name, equals, default = text.partition("=")
        value = ast.literal_eval(default) if equals else EMPTY
        found.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value))
    return found


class Layer(Module):
    """A layer of the library."""

    kind, arguments, least, results = "", (), 1, 1
    attributes: tuple[str, ...] = ()

    def __init__(self, *args: Any, device: str | None = None, dtype: Any = None, **keywords: Any) -> None:
        super().__init__()
        given = self.bound(args, keywords)
        for name, value in given.items():
            object.__setattr__(self, attribute(name), value)
        self.reset_parameters()
        if device is not None or dtype is not None:
            self.to(dtype=dtype, device=device)

    def bound(self, args, keywords):
        """The arguments by name, with their defaults."""
        try:
            found = self.__class__.arguments_signature.bind(*args, **keywords)
        except TypeError as e:
            raise TypeError(f"{type(self).__name__}: {e}; its arguments are {type(self).arguments_signature}") from None
        found.apply_defaults()
        return found.arguments

    def reset_parameters(self) -> None:
        """First values anew."""
        for name, x, trained in _core.layer_tensors(self.kind, self.options(()), generator.next_seed()):
            owner: Module = self
            *path, last = name.split(".")
            for part in path:
                if part not in owner._kinds:
                    owner.add_module(part, Module())
                owner = owner.__dict__[part]
            if trained:
                owner.register_parameter(last, Parameter(x))
            else:
                owner.register_buffer(last, x)
        absent(self)

    def options(self, said):
        """The options as bytes; `said`: those of a call, (name, value) each."""
        mine = self.__dict__
        return options_of(self.kind, self.arguments, tuple([mine[name] for name in self.attributes]), said)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "bias" and "has_bias" in self.attributes and (value is None or is_parameter(value)):
            object.__setattr__(self, "has_bias", value is not None)
        super().__setattr__(name, value)

    def tensors(self):
        found = [x for _, x in all_named(self, module.PARAMETER)]
        return found + [x for _, x in all_named(self, module.BUFFER)]

    def called(self, *inputs, said=()):
        """The results of inputs, of which those at the end may be None."""
        tensors = self.tensors()
        key = generator.draw() if self.training and self.draws() else None
        made = _core.layer_apply(self.kind, self.options(said), self.training, key, tensors, inputs)
        changed = [(x, y) for x, y in zip(tensors, made[self.results:]) if y is not None]
        if changed:
            with no_grad():
                for x, y in changed:
                    x.assign(y)
        return made[:self.results]

    def draws(self):
        p = self.__dict__.get("p" if "p" in self.arguments else "dropout", 0)
        return isinstance(p, (int, float)) and p > 0

    def forward(self, *inputs: Any) -> Any:
        made = self.called(*inputs)
        return made if self.results > 1 else made[0]

    def extra_repr(self) -> str:
        return ", ".join(f"{n}={self.__dict__[attribute(n)]!r}" for n in self.arguments)


def options_of(kind, names, values, said=()):
    """Bytes of options, kept for the arguments of a kind."""
    key = kind, values, said
    try:
        found = OPTIONS.get(key)
    except TypeError:  # a list
        return options_of(kind, names, tuple(tuple(v) if isinstance(v, list) else v for v in values), said)
    if found is None:
        given = {n: v for n, v in zip(names, values) if not (v is None and n in NO_NONE)}
        if len(OPTIONS) > MOST_OPTIONS:
            OPTIONS.clear()
        found = OPTIONS[key] = _core.layer_options(kind, {**given, **dict(said)})
    return found


MOST_OPTIONS = 4096
NO_NONE = {"stride", "kdim", "vdim", "padding_idx", "output_size", "threshold"}  # whose None is 0


def attribute(name):
    """What an argument is called as an attribute: `bias` is the parameter."""
    return "has_bias" if name == "bias" else name


def all_named(m, kind):
    """As named_parameters, also of a tensor that is there twice."""
    return m._named(kind, "", True, True)


def absent(layer):
    """Parameters that a layer lacks are None, as PyTorch's."""
    for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
        if name not in layer.__dict__ and name in LACKING.get(layer.kind, ()):
            object.__setattr__(layer, name, None)


LACKING = {k: ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
           for k in [f"{a}Norm{n}d" for a in ("Batch", "Instance") for n in (1, 2, 3)]}
LACKING.update({k: ("weight", "bias") for k in ("Linear", "Bilinear", "GroupNorm", "LayerNorm", "RMSNorm", "GCNConv",
                                                "GATConv", *(f"Conv{t}{n}d" for t in ("", "Transpose")
                                                             for n in (1, 2, 3)))})


# ---- what a row cannot say -----------------------------------------------------------------------


class Indices(Layer):
    """Pooling, which gives places only where they are wanted."""

    def forward(self, input: Tensor) -> Any:
        values, index = self.called(input)
        return (values, index) if self.return_indices else values


class States(Layer):
    """RNN and GRU: the last states beside all of them."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Any:
        return tuple(self.called(input, hx))


class TwoStates(Layer):
    """LSTM: (h, c)."""

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        out, h, c = self.called(input, *(hx or (None, None)))
        return out, (h, c)


class TwoStatesCell(Layer):
    def forward(self, input: Tensor, hx: Any = None) -> Any:
        return tuple(self.called(input, *(hx or (None, None))))


class Attention(Layer):
    """Gives (output, weights), and with a cache, () or what the call before gave, (output, weights, cache)."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
                need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False, cache: Any = None) -> Any:
        said = (("average_attn_weights", average_attn_weights), ("is_causal", is_causal and attn_mask is None))
        out, weights, *kv = self.called(query, key, value, key_padding_mask, attn_mask, *(cache or (None, None)),
                                        said=said)
        weights = weights if need_weights else None
        return (out, weights) if cache is None else (out, weights, tuple(kv))


class Activated(Layer):
    """Its activation is a word, or the function of that name: functional's or PyTorch's."""

    def bound(self, args, keywords):
        given = super().bound(args, keywords)
        if callable(given["activation"]):
            given["activation"] = getattr(given["activation"], "__name__", repr(given["activation"]))
        return given


class Encoder(Activated):
    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Any:
        return self.called(src, src_mask, src_key_padding_mask,
                           said=(("is_causal", is_causal and src_mask is None),))[0]


class Decoder(Activated):
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
                tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Any:
        return self.called(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                           said=(("is_causal", tgt_is_causal and tgt_mask is None),))[0]


BASES = {"RNN": States, "GRU": States, "LSTM": TwoStates, "LSTMCell": TwoStatesCell, "MultiheadAttention": Attention,
         "TransformerEncoderLayer": Encoder, "TransformerDecoderLayer": Decoder}
BASES.update({f"{a}MaxPool{n}d": Indices for a in ("", "Adaptive") for n in (1, 2, 3)})


def class_of(name, arguments, least, most, results, doc):
    """The class of a row."""
    parameters = signature_of(arguments)
    signature = inspect.Signature(parameters)
    names = tuple(p.name for p in parameters)
    more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in ("device", "dtype")]
    return type(Layer)(name, (BASES.get(name, Layer),), {
        "kind": name, "arguments": names, "attributes": tuple(attribute(n) for n in names),
        "arguments_signature": signature, "least": least, "results": results, "__module__": "quern.nn",
        "__signature__": inspect.Signature(parameters + more), "__doc__": f"{name}{signature}: {doc}"})


KINDS = {row[0]: class_of(*row) for row in _core.layer_rows()}
globals().update(KINDS)
__all__ = list(KINDS)
