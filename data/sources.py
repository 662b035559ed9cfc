"""One split of a data set as random-access text, whatever it is stored as.

A `TextSplit` gives `{'inputs': str, 'targets': str}` (translation) or `{'targets': str}`
(language model): Unicode NFC, nothing else changed. Bytes that are not UTF-8 become U+FFFD,
since one bad line must not end a run over millions; the line numbers are kept in `invalid`.
"""

import hashlib
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.tasks import EMBEDDED, Dataset

Text = dict[str, str]


class TextSplit:
    """Random access to the text of one split.

    `source` is anything with a length and rows of features; its `__getitems__` is used when it
    has one, which for ArrayRecord is five times as fast as row by row. `identity` is a
    string that is another one when the data is another one.
    """

    def __init__(
        self, source: Any, *, input_feature: str | None, target_feature: str, identity: str
    ):
        self._source = source
        self._feature_of = {"targets": target_feature}
        if input_feature is not None:
            self._feature_of = {"inputs": input_feature, "targets": target_feature}
        self.identity = identity
        self.invalid: set[int] = set()  # numbers of the lines read so far that were not UTF-8

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Text:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Text]:
        indices = [int(index) for index in indices]
        return [self._text(i, row) for i, row in zip(indices, self._rows(indices), strict=True)]

    def _rows(self, indices: list[int]) -> Sequence[Any]:
        if hasattr(self._source, "__getitems__"):
            return self._source.__getitems__(indices)
        return [self._source[index] for index in indices]

    def _text(self, index: int, row: Any) -> Text:
        return {key: self._to_str(index, row[name]) for key, name in self._feature_of.items()}

    def _to_str(self, index: int, value: str | bytes) -> str:
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                self.invalid.add(index)
                value = value.decode("utf-8", errors="replace")
        return unicodedata.normalize("NFC", value)


class _Remembered:
    """A small source that keeps the rows once read: decoding one costs TFDS a tenth of a ms."""

    def __init__(self, source: Any):
        self._source = source
        self._row_of: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._source)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        new = [index for index in indices if index not in self._row_of]
        self._row_of.update(zip(new, self._source.__getitems__(new), strict=True))
        return [self._row_of[index] for index in indices]


def open_split(dataset: Dataset, split: str, *, data_dir: str | os.PathLike[str]) -> TextSplit:
    """Opens `split` (train, validation or test) of a data set below `data_dir`.

    Embedded text is prepared there on first use. A real set must have been prepared before; if
    it was not, or not as ArrayRecord, a `DataError` says what is missing and what to do.
    """
    if split not in dataset.split_of:
        known = ", ".join(dataset.split_of)
        raise DataError(f"data set {dataset.name} has no split {split!r}; it has: {known}")
    builder = _builder(dataset, Path(data_dir).expanduser())
    tfds_split = dataset.split_of[split]
    source = builder.as_data_source(split=tfds_split)
    return TextSplit(
        _Remembered(source) if dataset.embedded else source,
        input_feature=dataset.input_feature,
        target_feature=dataset.target_feature,
        identity=_identity(builder, tfds_split),
    )


def _builder(dataset: Dataset, data_dir: Path) -> Any:
    """A read-only TFDS builder of what is on disk."""
    import tensorflow_datasets.public_api as tfds  # slow to import

    if dataset.embedded:
        from data import embedded

        corpus = dataset.tfds_name.removeprefix(EMBEDDED)
        return tfds.builder_from_directory(embedded.prepare(corpus, data_dir=data_dir))
    return _readable(dataset, _prepared(dataset, data_dir), data_dir)


def _prepared(dataset: Dataset, data_dir: Path) -> Any:
    from tensorflow_datasets.core import read_only_builder, registered

    try:
        return read_only_builder.builder_from_files(dataset.tfds_name, data_dir=data_dir)
    except registered.DatasetNotFoundError as error:
        raise DataError(
            f"the TFDS set {dataset.tfds_name} is not prepared under data_dir={data_dir}. "
            + _how_to_prepare(dataset, data_dir)
        ) from error


def _readable(dataset: Dataset, builder: Any, data_dir: Path) -> Any:
    file_format = builder.info.file_format
    if file_format is None or file_format.value not in ("array_record", "parquet"):
        name = getattr(file_format, "value", "an unknown format")
        raise DataError(
            f"the TFDS set {dataset.tfds_name} under data_dir={data_dir} is stored as {name}, "
            "which cannot be read without TensorFlow. " + _how_to_prepare(dataset, data_dir)
        )
    return builder


def _how_to_prepare(dataset: Dataset, data_dir: Path) -> str:
    return (
        "It must be prepared there once, on a machine with network: "
        f"tfds.builder({dataset.tfds_name!r}, data_dir={str(data_dir)!r}, "
        "file_format='array_record').download_and_prepare(). "
        "To run now, without it, choose scale=small: it uses the embedded text."
    )


def _identity(builder: Any, tfds_split: str) -> str:
    """The set, its version and the sizes of its splits: all that is known without reading it."""
    sizes = {
        name: (info.num_examples, info.num_bytes) for name, info in builder.info.splits.items()
    }
    digest = hashlib.sha256(repr(sorted(sizes.items())).encode()).hexdigest()[:12]
    return f"{builder.info.full_name}:{tfds_split}:{digest}"
