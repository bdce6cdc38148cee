"""llm.py - language models that were trained elsewhere, of GGUF files and folders of safetensors (docs/llm.md), their
tokenizers and chat templates.

    with quern.llm.open("model.gguf") as m:
        print(m.generate("Once upon a time", max_tokens=100))
        for piece in m.stream("Once upon a time", temperature=0.8, seed=1):
            print(piece, end="", flush=True)
        print(m.chat([{"role": "user", "content": "What is a tensor?"}]))

A prompt is a text, which gets the tokens that the model puts before one, or ids. A model keeps what it has read, and
reads only what a prompt does not have in common with that.
"""

import builtins
import json
import math
import operator
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

from . import _core
from ._core import RangeError, Tensor

Ids: TypeAlias = "Iterable[int] | Tensor"
Prompt: TypeAlias = "str | Iterable[int] | Tensor"
Messages: TypeAlias = "str | Sequence[Mapping[str, Any]]"
Path: TypeAlias = "str | os.PathLike[str]"
Lora: TypeAlias = "Path | Sequence[Path | tuple[Path, float]]"
Schema: TypeAlias = "str | bool | Mapping[str, Any]"


class Sampling(TypedDict, total=False):
    """How the next token is chosen; 0 turns each off. Without any of them it is the likeliest."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_tokens: int
    seed: int


class Options(Sampling, total=False):
    """What ends a text: max_tokens (None: the cache is full), a text of `stop`, which is not given out, or a token that
    ends it, which ignore_end has it go on behind. What it must match: a grammar in GBNF, or a JSON schema, as a dict or
    as its text."""

    max_tokens: int | None
    stop: str | Sequence[str]
    ignore_end: bool
    grammar: str | None
    schema: "Schema | None"


SAMPLING: dict[str, Callable[[Any], Any]] = {  # in the order that the library's module has them in
    "temperature": float, "top_k": operator.index, "top_p": float, "min_p": float, "repeat_penalty": float,
    "presence_penalty": float, "frequency_penalty": float, "penalty_tokens": operator.index, "seed": operator.index}


CACHES = {"f32": 32, "f16": 16, "q8_0": 8, "q4_0": 4}  # bits of a number


def cache_bits(cache: str | None, half: bool) -> int:
    if cache is not None and cache not in CACHES:
        raise ValueError(f"cache is one of {', '.join(CACHES)}, not {cache!r}")
    return CACHES[cache or ("f16" if half else "f32")]


def adapters_of(lora: "Lora") -> tuple[tuple[bytes, float], ...]:
    """Paths and scales, as the library's module has them."""
    if isinstance(lora, (str, os.PathLike)):
        lora = (lora,)
    pairs = [(one, 1.0) if isinstance(one, (str, os.PathLike)) else one for one in lora]
    for path, scale in pairs:
        if not scale or not math.isfinite(scale):
            raise ValueError(f"lora: {scale!r} is no scale of {os.fspath(path)}")
    return tuple((os.fsencode(path), float(scale)) for path, scale in pairs)


def ids_of(ids: Any) -> "array[int]":
    """Ids as the library has them."""
    if isinstance(ids, (str, bytes)):
        raise TypeError(f"ids are whole numbers, not {ids!r}")
    try:
        return array("i", ids.tolist() if hasattr(ids, "tolist") else ids)
    except OverflowError:
        raise RangeError("an id does not fit 32 bits") from None


def messages_of(messages: Messages) -> str:
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    return json.dumps(said, ensure_ascii=False)


def stops_of(stop: Any) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    for s in stops:
        if not isinstance(s, str) or not s:
            raise ValueError(f"stop: {s!r} ends no text")
    return stops


def rules_of(options: Any) -> tuple[str | None, str | None]:
    """The texts of a grammar and of a schema."""
    grammar, schema = options.get("grammar"), options.get("schema")
    if grammar is not None and not isinstance(grammar, str):
        raise TypeError(f"grammar is a text in GBNF, not {grammar!r}")
    if schema is not None and not isinstance(schema, str):
        schema = json.dumps(schema, ensure_ascii=False)
    return grammar, schema


def until(pieces: Iterator[str], stops: tuple[str, ...]) -> Iterator[str]:
    """The pieces before the first text of `stops`; what may be the beginning of one waits until it is known."""
    held = ""
    for piece in pieces:
        held += piece
        at = min((i for i in map(held.find, stops) if i >= 0), default=-1)
        if at >= 0:
            if at:
                yield held[:at]
            return
        begun = max((n for s in stops for n in range(1, len(s)) if held.endswith(s[:n])), default=0)
        if len(held) > begun:
            yield held[:len(held) - begun]
            held = held[len(held) - begun:]
    if held:
        yield held


class Tokenizer:
    """Texts as ids and back: a model's, or of a tokenizer.json."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def encode(self, text: str, *, special: bool = True, plain: bool = False) -> list[int]:
        """The ids of a text. special: with the tokens that stand before and after one, such as <s>; plain: special
        tokens that are spelled in the text are text."""
        ids: list[int] = self._native.encode(text, special, plain)
        return ids

    def decode(self, ids: Ids, *, skip_special: bool = True) -> str:
        """The text of ids; bytes that are no UTF-8 are U+FFFD."""
        text: str = self._native.decode(ids_of(ids), skip_special)
        return text

    def __len__(self) -> int:
        """One more than the highest id."""
        n: int = self._native.size()
        return n

    def id(self, token: str) -> int | None:
        """The id of a token by its spelling in the vocabulary."""
        found: int | None = self._native.id(token)
        return found

    def token(self, id: int) -> str | None:
        """The spelling of an id."""
        found = self._native.token(id)
        return found and found[0]

    def is_special(self, id: int) -> bool:
        found = self._native.token(id)
        return bool(found and found[1])

    def __repr__(self) -> str:
        return f"<quern.llm.Tokenizer of {len(self)} tokens>"


def tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of a tokenizer.json, or of a folder with one."""
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    with builtins.open(file, "rb") as f:
        return Tokenizer(_core.tokenizer_open(f.read()))


class Template:
    """A chat template, in Jinja: what makes a prompt of a conversation."""

    def __init__(self, text: str) -> None:
        self._native = _core.template_new(text)

    def render(self, **variables: Any) -> str:
        """The text for variables: messages=[..], add_generation_prompt=True."""
        text: str = self._native.render(json.dumps(variables, ensure_ascii=False))
        return text


class Model:
    """A language model, by quern.llm.open()."""

    def __init__(self, path: str | os.PathLike[str], *, device: str | None = None, context: int = 0, chunk: int = 0,
                 half: bool = False, cache: str | None = None, lora: Lora = ()) -> None:
        self.path = os.fspath(path)
        self._native = _core.llm_open(self.path, device, context, chunk, cache_bits(cache, half), adapters_of(lora))
        info = self._native.info()
        self.architecture: str = info["architecture"]
        self.vocabulary: int = info["vocabulary"]  # how many logits there are
        self.width: int = info["width"]
        self.layers: int = info["layers"]
        self.heads: int = info["heads"]
        self.kv_heads: int = info["kv_heads"]
        self.head: int = info["head"]  # the size of one
        self.context: int = info["context"]  # tokens that the cache holds
        self.trained: int = info["trained"]  # tokens that the model was made for
        self.parameters: int = info["parameters"]
        self.nbytes: int = info["bytes"]
        self.has_chat: bool = info["chat"]
        own = self._native.tokenizer()
        self._tokenizer = own and Tokenizer(own)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own, which lives as long as it does."""
        if self._tokenizer is None:
            raise ValueError(f"{self.path} has no tokenizer: give ids, and ask for them by tokens()")
        t: Tokenizer = self._tokenizer
        return t

    # Texts.

    def stream(self, prompt: Prompt, **options: Unpack[Options]) -> Iterator[str]:
        """What the model says behind a prompt, in pieces of whole characters as soon as they are known. Other calls
        on the model may come between them."""
        stops = stops_of(options.get("stop", ()))
        sample, most, ignore_end = self._options(options)
        pieces = self._pieces(self._prompt(prompt), most, sample, ignore_end, rules_of(options))
        return until(pieces, stops) if stops else pieces

    def generate(self, prompt: Prompt, **options: Unpack[Options]) -> str:
        """What the model says behind a prompt."""
        return "".join(self.stream(prompt, **options))

    def stream_chat(self, messages: Messages, **options: Unpack[Options]) -> Iterator[str]:
        """As chat(), in pieces, as soon as they are known."""
        return self.stream(self.encode_chat(messages), **options)

    def chat(self, messages: Messages, **options: Unpack[Options]) -> str:
        """The model's answer to a conversation, [{"role": "user", "content": ".."}, ..] or one question, by its
        template."""
        return "".join(self.stream_chat(messages, **options))

    def encode_chat(self, messages: Messages) -> list[int]:
        """The ids of a conversation by the model's template, up to where the answer is to begin."""
        ids: list[int] = self._native.chat(messages_of(messages))
        return ids

    def tokens(self, prompt: Prompt, *, max_tokens: int | None = None, ignore_end: bool = False,
               grammar: str | None = None, schema: "Schema | None" = None,
               **sampling: Unpack[Sampling]) -> Iterator[int]:
        """The ids that follow a prompt, one after the other: for models without a tokenizer, too, but by a grammar or
        a schema."""
        sample, most, ignore_end = self._options({"max_tokens": max_tokens, "ignore_end": ignore_end, **sampling})
        rules = rules_of({"grammar": grammar, "schema": schema})
        return self._ids(self._prompt(prompt), most, sample, ignore_end, rules)

    # Values.

    def logits(self, prompt: Prompt) -> Tensor:
        """[vocabulary]: what may follow the last token, before the softmax."""
        ids = self._prompt(prompt)
        self._read(ids)
        x: Tensor = self._native.logits(ids)
        return x

    def embed(self, prompt: Prompt) -> Tensor:
        """[width]: the mean over all tokens of the last layer's normalised output."""
        x: Tensor = self._native.embed(self._prompt(prompt))
        return x

    def score(self, prompt: Prompt) -> float:
        """The sum of -log p of all tokens but the first, each given those before it. Texts longer than the cache are
        read in parts of its size, each of which begins anew with the last token of the one before."""
        ids = self._prompt(prompt)
        parts = range(0, max(len(ids) - 1, 1), self.context)
        return math.fsum(self._native.score(ids[i:i + self.context + 1]) for i in parts)

    def perplexity(self, prompt: Prompt) -> float:
        """e to the mean of -log p of all tokens but the first."""
        ids = self._prompt(prompt)
        if len(ids) < 2:
            raise ValueError(f"perplexity: of {len(ids)} tokens; two at least are wanted")
        return math.exp(self.score(ids) / (len(ids) - 1))

    def ends(self, id: int) -> bool:
        """Does this token end a text or a turn?"""
        does: bool = self._native.ends(id)
        return does

    # The cache.

    @property
    def cache(self) -> list[int]:
        """The ids that were read and are kept."""
        ids: list[int] = self._native.held()
        return ids

    def rewind(self, n: int = 0) -> None:
        """Forget all but the first n ids of the cache."""
        self._native.rewind(n)

    def close(self) -> None:
        self._native.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return (f"<quern.llm.Model {self.path!r}: {self.architecture} of {self.parameters:,} parameters, "
                f"{self.nbytes:,} bytes>")

    # How it is done.

    def _prompt(self, prompt: Prompt) -> "array[int]":
        return ids_of(self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt)

    def _options(self, options: Any) -> tuple[tuple[Any, ...], int | None, bool]:
        unknown = [name for name in options if name not in SAMPLING and name not in Options.__annotations__]
        if unknown:
            known = dict.fromkeys([*SAMPLING, *Options.__annotations__])
            raise TypeError(f"{unknown[0]} is no option: {', '.join(known)}")
        most = options.get("max_tokens")
        if most is not None and operator.index(most) < 0:
            raise RangeError(f"max_tokens is {most}")
        sample = tuple(kind(options.get(name, 0)) for name, kind in SAMPLING.items())
        return sample, most, bool(options.get("ignore_end", False))

    def _read(self, ids: "array[int]") -> None:
        """All but the last chunk, with time for a signal between chunks."""
        while self._native.read_chunk(ids):
            pass

    def _steps(self, ids: "array[int]", most: int | None, sample: Any, ignore_end: bool, rules: Any,
               as_text: bool) -> Iterator[tuple[list[int], str | None]]:
        room = max(self.context - len(ids) + 1, 1)  # the last id is not read; a prompt too long is an error
        left = room if most is None else min(most, room)
        prompt = len(ids)
        self._read(ids)
        while left > 0:
            new, text = self._native.step(ids, left, as_text, ignore_end, *rules, len(ids) - prompt, sample)
            ids.extend(new)
            left -= len(new)
            yield new, text
            if not new or as_text and text is None:
                return

    def _pieces(self, ids: "array[int]", most: int | None, sample: Any, ignore_end: bool,
                rules: Any) -> Iterator[str]:
        for _, text in self._steps(ids, most, sample, ignore_end, rules, True):
            if text is not None:
                yield text

    def _ids(self, ids: "array[int]", most: int | None, sample: Any, ignore_end: bool,
             rules: Any) -> Iterator[int]:
        for new, _ in self._steps(ids, most, sample, ignore_end, rules, False):
            yield from new


def open(path: str | os.PathLike[str], *, device: str | None = None, context: int = 0, chunk: int = 0,
         half: bool = False, cache: str | None = None, lora: Lora = ()) -> Model:
    """A model of a GGUF file, a safetensors file beside its config.json, or a folder of such. context: tokens that the
    cache holds, 0 for what the model says, 4096 at most; chunk: tokens that are read at once, 0 for 128; cache: of its
    numbers, "f32", "f16", "q8_0" or "q4_0"; half: the same as cache="f16"; lora: adapters, each a
    GGUF file or a folder with adapter_config.json, or such with a scale."""
    return Model(path, device=device, context=context, chunk=chunk, half=half, cache=cache, lora=lora)
