"""One split of a data set as random-access text, whatever it is stored as.

A `TextSplit` gives examples as its task declares them (`data.tasks.task`). Its text is Unicode
NFC, nothing else is changed. Bytes that are not UTF-8 become U+FFFD, since one bad line must not
end a run over millions; the numbers of such rows are kept in `invalid`.
"""

import functools
import hashlib
import os
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from data.errors import DataError
from data.rows import Remembered, open_rows
from data.tasks import TASKS
from data.tasks.task import Dataset, Example, Row, ToExamples

_READ = 4096  # rows per read where a whole split is gone through


class Split(Protocol):
    """Random access to the examples of a split."""

    @property
    def identity(self) -> str:
        """Another string when the data is another one."""
        ...

    @property
    def invalid(self) -> Collection[Any]:
        """Which of the rows read so far were not UTF-8."""
        ...

    def __len__(self) -> int: ...

    def __getitems__(self, indices: Sequence[int]) -> list[Example]: ...


class TextSplit:
    """The examples of one split.

    Args:
      source: anything with a length and rows of features; its `__getitems__` is used when it
        has one, which for ArrayRecord is five times as fast as row by row.
      to_examples: the examples of a row, see `Dataset`.
      split: train, validation or test.
      identity: see `Split`.
      one_to_one: every row is one example; otherwise all rows are read once, to count theirs.
    """

    def __init__(
        self,
        source: Any,
        to_examples: ToExamples,
        *,
        split: str = "train",
        identity: str,
        one_to_one: bool = True,
    ):
        self._source = source
        self._to_examples = to_examples
        self._split = split
        self.identity = identity
        self.invalid: set[int] = set()
        self._one_to_one = one_to_one

    def __len__(self) -> int:
        return len(self._source) if self._one_to_one else len(self._row_and_place_N2)

    def __getitem__(self, index: int) -> Example:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Example]:
        indices = [int(index) for index in indices]
        if self._one_to_one:
            return [examples[0] for examples in self._examples(indices)]
        wanted_N2 = self._row_and_place_N2[indices]
        rows = np.unique(wanted_N2[:, 0])
        found = dict(zip(rows.tolist(), self._examples(rows.tolist()), strict=True))
        return [found[row][place] for row, place in wanted_N2.tolist()]

    def _examples(self, indices: list[int]) -> list[Sequence[Example]]:
        rows = zip(indices, self._rows(indices), strict=True)
        return [self._to_examples(self._decoded(i, row), self._split) for i, row in rows]

    def _rows(self, indices: list[int]) -> Sequence[Any]:
        try:
            if hasattr(self._source, "__getitems__"):
                return self._source.__getitems__(indices)
            return [self._source[index] for index in indices]
        except (RuntimeError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"rows of {self.identity} cannot be read ({reason}): its files may be damaged; "
                "remove its folder and prepare it again"
            ) from error

    def _decoded(self, index: int, row: Mapping[str, Any]) -> Row:
        return {name: self._plain(index, value) for name, value in row.items()}

    def _plain(self, index: int, value: Any) -> Any:
        """Bytes as text, numpy's numbers and arrays as Python's, also inside lists and mappings."""
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                self.invalid.add(index)
                value = value.decode("utf-8", errors="replace")
        if isinstance(value, str):
            return unicodedata.normalize("NFC", value)
        if isinstance(value, np.ndarray | np.generic):
            return self._plain(index, value.tolist())
        if isinstance(value, Mapping):
            return self._decoded(index, value)
        if isinstance(value, list | tuple):
            return [self._plain(index, element) for element in value]
        return value

    @functools.cached_property
    def _row_and_place_N2(self) -> np.ndarray:
        """Of each example its row, and its place among the examples of that row."""
        counts = []
        for indices in _chunks(len(self._source)):
            counts += [len(examples) for examples in self._examples(indices)]
        row_N = np.repeat(np.arange(len(counts)), counts)
        place_N = np.concatenate([np.arange(count) for count in counts] or [np.empty(0, int)])
        return np.stack([row_N, place_N], axis=1).astype(np.int64)


class _Joined:
    """The splits of a mixture's parts, one after the other."""

    def __init__(self, parts: Sequence[Split]):
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.identity = " + ".join(part.identity for part in parts)

    @property
    def invalid(self) -> Collection[tuple[int, Any]]:
        """(part, row) of those that were not UTF-8."""
        return {(n, row) for n, part in enumerate(self._parts) for row in part.invalid}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitems__(self, indices: Sequence[int]) -> list[Example]:
        numbers_N = np.asarray(indices, np.int64)
        part_N = np.searchsorted(self._ends, numbers_N, side="right")
        found: list[Example] = [{}] * len(numbers_N)
        for number, part in enumerate(self._parts):
            places = np.flatnonzero(part_N == number)
            start = self._ends[number] - len(part)
            if not len(places):
                continue
            examples = part.__getitems__((numbers_N[places] - start).tolist())
            for place, example in zip(places, examples, strict=True):
                found[place] = example
        return found


def read_all(split: Split) -> Iterator[Example]:
    """All examples of a split in order."""
    for indices in _chunks(len(split)):
        yield from split.__getitems__(indices)


def _chunks(length: int) -> Iterator[list[int]]:
    for start in range(0, length, _READ):
        yield list(range(start, min(start + _READ, length)))


def open_split(dataset: Dataset, split: str, *, data_dir: str | os.PathLike[str]) -> Split:
    """Opens `split` (train, validation or test) of a data set below `data_dir`.

    A stand-in is prepared there on first use. A real set must have been prepared before; if
    it was not, or not as ArrayRecord, a `DataError` says what is missing and what to do.
    """
    check_split(dataset, split)
    if dataset.parts:
        return _Joined([open_split(part, split, data_dir=data_dir) for part in dataset.parts])
    builder = open_builder(dataset, data_dir)
    tfds_split = dataset.split_of[split]
    try:
        rows = open_rows(builder, tfds_split)
    except ValueError as error:  # a slice beyond the end, a split that is not there
        raise DataError(
            f"the {split} split of {dataset.name} is {tfds_split!r} of what is prepared, which "
            f"has no such rows: {error}"
        ) from error
    return TextSplit(
        Remembered(rows) if dataset.stand_in else rows,
        dataset.to_examples,
        split=split,
        one_to_one=dataset.one_to_one,
        identity=_identity(builder, tfds_split),
    )


def check_split(dataset: Dataset, split: str) -> None:
    """Raises DataError, with those that there are, unless the data set has a split of that name."""
    if split not in dataset.split_of:
        known = ", ".join(dataset.split_of)
        raise DataError(f"data set {dataset.name} has no split {split!r}; it has: {known}")


def open_builder(dataset: Dataset, data_dir: str | os.PathLike[str]) -> Any:
    """A read-only TFDS builder of what is on disk; stand-ins are prepared if need be."""
    import tensorflow_datasets.public_api as tfds  # slow to import

    from data import builders

    data_dir = Path(data_dir).expanduser()
    if dataset.stand_in:
        return tfds.builder_from_directory(builders.prepare_stand_in(dataset.tfds_name, data_dir))
    builder = find_prepared(dataset, data_dir)
    if builder is None:
        raise DataError(
            f"the data set {dataset.name} ({dataset.tfds_name} of TFDS) is not prepared under "
            f"data_dir={data_dir}. " + _how_to_prepare(dataset, data_dir)
        )
    return _readable(dataset, builder, data_dir)


def find_prepared(dataset: Dataset, data_dir: Path) -> Any:
    """The read-only builder of a prepared set, or None; a `DataError` for half a set."""
    from tensorflow_datasets.core import read_only_builder, registered

    folder = data_dir / dataset.tfds_name
    try:
        return read_only_builder.builder_from_files(dataset.tfds_name, data_dir=data_dir)
    except registered.DatasetNotFoundError:
        if not (versions := sorted(folder.glob("[0-9]*.[0-9]*.[0-9]*"))):
            return None
        why = f"{versions[0].name} lacks its dataset_info.json"
    except Exception as error:  # whatever TFDS stumbles over in files that are not whole
        why = (str(error) or repr(error)).splitlines()[0][:200]
    raise DataError(
        f"{folder} holds no whole data set ({why}): remove that folder, then prepare it again"
    )


def _readable(dataset: Dataset, builder: Any, data_dir: Path) -> Any:
    file_format = builder.info.file_format
    if file_format is None or file_format.value not in ("array_record", "parquet"):
        name = getattr(file_format, "value", "an unknown format")
        raise DataError(
            f"the data set {dataset.name} under data_dir={data_dir} is stored as {name}, "
            "which cannot be read without TensorFlow. Move that folder away first, or name another "
            "data_dir. " + _how_to_prepare(dataset, data_dir)
        )
    return builder


def _how_to_prepare(dataset: Dataset, data_dir: Path) -> str:
    found = [task for task in TASKS.values() if dataset in task.datasets]
    told = (
        f"Prepare it there once: python -m data.prepare {found[0].name if found else 'TASK'} "
        f"--dataset={dataset.name} --data_dir={data_dir}."
    )
    if any(other.stand_in for task in found for other in task.datasets):
        told += " To run now, without it, choose scale=small: that has other, smaller text."
    return told


def _identity(builder: Any, tfds_split: str) -> str:
    """The set, its version and the sizes of its splits: all that is known without reading it."""
    sizes = {
        name: (info.num_examples, info.num_bytes) for name, info in builder.info.splits.items()
    }
    digest = hashlib.sha256(repr(sorted(sizes.items())).encode()).hexdigest()[:12]
    return f"{builder.info.full_name}:{tfds_split}:{digest}"
