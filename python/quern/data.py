"""data.py - datasets and the loader that makes batches of them, by PyTorch's names.

A dataset is anything with a length and items. Those whose samples are rows of tensors or lie in files are the
library's (docs/data.md): a loader of them gathers batches by threads of its own, without the interpreter, straight
into the memory of the batch's tensors. Of other datasets, items are asked for and put together by Python's threads.
Either way the order follows from the seed and the epoch alone, and where a loader is are four integers.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._core import Tensor

if TYPE_CHECKING:
    from concurrent.futures import Future


class Dataset:
    """What has a length and items; + puts one behind another."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def __add__(self, other: Any) -> "ConcatDataset":
        return ConcatDataset([self, other])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class NativeDataset(Dataset):
    """A dataset of the library's: samples are tuples of tensors, one for each of `fields`, (name, dtype, shape)."""

    def __init__(self, native: Any) -> None:
        self.native = native
        self.count: int = native.count()
        self.fields: list[tuple[str, Any, tuple[int, ...]]] = native.fields()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(self.native.read(place(index, self.count)))

    def classes(self, field: str) -> list[str]:
        """The texts of a field of classes; its values are their places in this list."""
        texts: list[str] = self.native.classes([name for name, _, _ in self.fields].index(field))
        return texts


def place(index: Any, count: int) -> int:
    i = index.__index__()
    if not -count <= i < count:
        raise IndexError(f"sample {i} of {count}")
    return int(i % count) if count else 0


class TensorDataset(NativeDataset):
    """The rows of tensors, or of arrays, along their first axis; their values are copied now."""

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ValueError("TensorDataset: no tensors")
        self.tensors = tuple(x if isinstance(x, Tensor) else _core.tensor(x) for x in tensors)
        super().__init__(_core.data_tensors(list(self.tensors)))


class FileDataset(NativeDataset):
    """The rows of all arrays of a file: npy, npz, safetensors, IDX (MNIST's format) and what else open_file's kin
    read. They are read when asked for where they lie in order, so the file may be larger than memory."""

    def __init__(self, path: str | os.PathLike[str], *, device: str | None = None) -> None:
        super().__init__(_core.data_open(os.fspath(path), device))


class CSVDataset(NativeDataset):
    """Columns of a CSV file. `fields`, by name: a column's name, or a list of some, which are one array; or a pair of
    that and a dtype, float32 else; dtype str makes classes of the column's texts. None: each column by itself.

        CSVDataset("iris.csv", {"x": ["sepal", "petal"], "y": ("species", str)})

    Empty cells and `missing` are `fill`, else NaN. Errors have line and column.
    """

    def __init__(self, path: str | os.PathLike[str], fields: Mapping[str, Any] | None = None, *, header: bool = True,
                 separator: str = ",", missing: str | None = None, fill: float | None = None,
                 device: str | None = None) -> None:
        rows: list[tuple[str | None, Any, list[str], bool, bool]] = []
        for name, what in (fields or {}).items():
            columns, dtype = what if isinstance(what, tuple) else (what, "float32")
            several = not isinstance(columns, str)
            rows.append((name, "int64" if dtype is str else dtype, list(columns) if several else [columns], several,
                         dtype is str))
        super().__init__(_core.data_csv(os.fspath(path), device, rows, header, separator, missing, fill))


class TokenDataset(NativeDataset):
    """Windows of the tokens in a file, for language models: samples are (ids, targets), int32 [window], targets being
    the tokens that follow. dtype: "uint8" (bytes of text), "uint16" or "int32". stride: tokens from the beginning of
    one window to the next one's; `window` else."""

    def __init__(self, path: str | os.PathLike[str], window: int, *, stride: int | None = None, dtype: Any = "uint8",
                 device: str | None = None) -> None:
        super().__init__(_core.data_tokens(os.fspath(path), device, window, stride or window, dtype))


class ImageFolder(Dataset):
    """Images in the folders of a folder, each of which is a class: samples are (image, class), image uint8 [channels,
    height, width] of `mode` (Pillow's: "RGB", "L"), and of `size`, (width, height), where that is given, or what
    `transform` makes of Pillow's image. Sorted by name: class k is `classes[k]`. Needs Pillow."""

    ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")

    def __init__(self, root: str | os.PathLike[str], transform: Callable[[Any], Any] | None = None, *,
                 mode: str = "RGB", size: tuple[int, int] | None = None) -> None:
        self.transform, self.mode, self.size = transform, mode, size
        self.classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
        self.samples = [(os.path.join(folder, name), k) for k, c in enumerate(self.classes)
                        for folder, _, names in sorted(os.walk(os.path.join(root, c))) for name in sorted(names)
                        if name.lower().endswith(self.ENDS)]
        if not self.samples:
            raise FileNotFoundError(f"ImageFolder: no images in the folders of {os.fspath(root)}")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image
        path, k = self.samples[place(index, len(self.samples))]
        with Image.open(path) as opened:
            image = opened.convert(self.mode)
        if self.size is not None:
            image = image.resize(self.size)
        if self.transform is not None:
            return self.transform(image), k
        width, height = image.size
        planes = b"".join(part.tobytes() for part in image.split())
        return _core.from_bytes(planes, "uint8", (len(image.getbands()), height, width)), k


def native_of(dataset: Any) -> Any:
    """The library's dataset behind one; None: there is none."""
    return getattr(dataset, "native", None)


def combined(make: Callable[..., Any], *args: Any) -> Any:
    """The library's dataset of those of others; None where it has none of such: items are Python's then."""
    try:
        return make(*args)
    except ValueError:
        return None


class Subset(Dataset):
    """The samples of these numbers."""

    def __init__(self, dataset: Any, indices: Iterable[int]) -> None:
        self.dataset = dataset
        self.indices = [place(i, len(dataset)) for i in indices]
        native = native_of(dataset)
        self.native = None if native is None else _core.data_part(native, self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[place(index, len(self.indices))]]


class ConcatDataset(Dataset):
    """Datasets one behind the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: no datasets")
        natives = [native_of(d) for d in self.datasets]
        self.native = None if None in natives else combined(_core.data_combine, "concat", natives)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))

    def __getitem__(self, index: int) -> Any:
        i = place(index, len(self))
        for dataset in self.datasets:
            if i < len(dataset):
                return dataset[i]
            i -= len(dataset)
        raise IndexError(index)


class StackDataset(Dataset):
    """Datasets of equal lengths side by side: a sample is the tuple of theirs; of the library's, of all their
    tensors."""

    def __init__(self, *datasets: Any) -> None:
        if not datasets or len({len(d) for d in datasets}) != 1:
            raise ValueError(f"StackDataset: of lengths {[len(d) for d in datasets]}, and they must be equal")
        self.datasets = datasets
        natives = [native_of(d) for d in datasets]
        self.native = None if None in natives else combined(_core.data_combine, "zip", natives)

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        items = [d[index] for d in self.datasets]
        return tuple(x for item in items for x in item) if self.native is not None else tuple(items)


def random_split(dataset: Any, lengths: Sequence[float], seed: int = 0) -> list[Subset]:
    """The dataset in parts, apart from each other and drawn at random by the seed: their lengths, or parts of 1."""
    n = len(dataset)
    counts = [int(x) for x in lengths]
    if abs(sum(lengths) - 1) < 1e-9:
        counts = [int(n * x) for x in lengths]
        for k in range(n - sum(counts)):
            counts[k % len(counts)] += 1
    if sum(counts) != n or min(counts) < 0:
        raise ValueError(f"random_split: parts of {list(lengths)} of {n} samples")
    order, parts, at = _core.shuffled(n, seed, 0, 0, n), [], 0
    for count in counts:
        parts.append(Subset(dataset, order[at:at + count]))
        at += count
    return parts


def default_collate(samples: Sequence[Any]) -> Any:
    """One batch of samples: tensors, arrays and numbers become tensors of one more axis, texts lists; tuples, lists
    and dicts are gone into."""
    first = samples[0]
    if isinstance(first, Tensor):
        return _core.stack(list(samples))
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, Mapping):
        return {key: default_collate([s[key] for s in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        columns = [default_collate(column) for column in zip(*samples, strict=True)]
        if isinstance(first, list):
            return columns
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    if hasattr(first, "__array_interface__"):
        import numpy
        return _core.tensor(numpy.stack(samples))
    if isinstance(first, (bool, int, float, complex)):
        return _core.tensor(list(samples))
    raise TypeError(f"default_collate: {type(first).__name__} is no tensor, array, number, text, tuple, list or dict")


class DataLoader:
    """Batches of a dataset; each iteration is an epoch.

    shuffle: in another order each epoch, which seed and epoch say. num_workers: threads that make batches ahead,
    prefetch_factor each; the order is the same with any number. collate_fn: makes a batch of a list of samples.
    rank, world: this loader takes every world-th sample. state_dict() says where it is, and a loader to which that is
    loaded goes on there, also in another process, to the same batches.
    """

    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: bool = False, *, drop_last: bool = False,
                 collate_fn: Callable[[list[Any]], Any] | None = None, num_workers: int = 0, seed: int = 0,
                 prefetch_factor: int = 2, rank: int = 0, world: int = 1) -> None:
        if batch_size < 1 or num_workers < 0 or prefetch_factor < 1 or not 0 <= rank < world:
            raise ValueError(f"DataLoader: batch_size {batch_size}, num_workers {num_workers}, prefetch_factor "
                             f"{prefetch_factor}, rank {rank} of {world}")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn, self.num_workers, self.seed = collate_fn, num_workers, seed
        self.prefetch_factor, self.rank, self.world = prefetch_factor, rank, world
        self.epoch = self.batch = 0  # what comes next
        self._begun = False  # has an iteration given something, or ended?
        self._turn = 0  # of iterations
        n = len(dataset)
        self._mine = n // world if drop_last else (n - rank + world - 1) // world if n > rank else 0
        self._batches = self._mine // batch_size if drop_last else (self._mine + batch_size - 1) // batch_size
        native = native_of(dataset) if collate_fn is None else None
        self._loader: Any = None
        if native is not None:
            self._loader = _core.loader_new(native, batch_size, shuffle, drop_last, seed, num_workers,
                                            prefetch_factor * num_workers, rank, world)

    def __len__(self) -> int:
        return self._batches

    def state_dict(self) -> dict[str, int]:
        """Where the loader is: four integers."""
        return {"seed": self.seed, "epoch": self.epoch, "batch": self.batch, "batches": self._batches}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from there with the next iteration."""
        if state["batches"] != self._batches:
            raise ValueError(f"load_state_dict: an epoch had {state['batches']} batches, and here it has "
                             f"{self._batches}")
        if state["epoch"] < 0 or not 0 <= state["batch"] <= self._batches:
            raise ValueError(f"load_state_dict: batch {state['batch']} of epoch {state['epoch']}")
        self.seed, self.epoch, self.batch = state["seed"], state["epoch"], state["batch"]
        self._begun = False
        self._turn += 1

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch."""
        self.epoch, self.batch, self._begun = epoch, 0, False
        self._turn += 1

    def __iter__(self) -> Iterator[Any]:
        if self._begun or self._batches and self.batch == self._batches:
            self.epoch, self.batch = self.epoch + 1, 0
        self._begun = True
        self._turn += 1
        return self._native_batches() if self._loader is not None else self._python_batches()

    def _give(self, turn: int) -> None:
        """Another batch is given out."""
        if turn != self._turn:
            raise RuntimeError("DataLoader: another iteration of it has begun, or its place was changed")
        self.batch += 1

    def _native_batches(self) -> Iterator[Any]:
        turn, loader = self._turn, self._loader
        loader.set_state(self.seed, self.epoch, self.batch, self._batches)
        while self.batch < self._batches:
            if turn == self._turn:
                batch = loader.next()
            self._give(turn)
            yield batch

    def _indices(self, epoch: int, batch: int) -> list[int]:
        """The samples of a batch."""
        first = batch * self.batch_size
        places = [i * self.world + self.rank for i in range(first, min(first + self.batch_size, self._mine))]
        if not self.shuffle:
            return places
        n = len(self.dataset)
        if self.world == 1:
            order: list[int] = _core.shuffled(n, self.seed, epoch, places[0], len(places))
            return order
        return [_core.shuffled(n, self.seed, epoch, i, 1)[0] for i in places]

    def _gather(self, epoch: int, batch: int) -> Any:
        samples = []
        for i in self._indices(epoch, batch):
            try:
                samples.append(self.dataset[i])
            except Exception as e:
                e.add_note(f"DataLoader: sample {i}")
                raise
        return (self.collate_fn or default_collate)(samples)

    def _python_batches(self) -> Iterator[Any]:
        turn, epoch = self._turn, self.epoch
        if not self.num_workers:
            while self.batch < self._batches:
                batch = self._gather(epoch, self.batch) if turn == self._turn else None
                self._give(turn)
                yield batch
            return
        from concurrent.futures import ThreadPoolExecutor  # here: it takes milliseconds to import
        ahead: "deque[Future[Any]]" = deque()
        threads = ThreadPoolExecutor(self.num_workers, "quern.data")
        try:
            asked = self.batch
            while self.batch < self._batches:
                while asked < self._batches and len(ahead) < self.num_workers * self.prefetch_factor:
                    ahead.append(threads.submit(self._gather, epoch, asked))
                    asked += 1
                batch = ahead.popleft().result() if turn == self._turn else None
                self._give(turn)
                yield batch
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
