"""Lines of text as rows of sets too large for memory.

TFDS' usual writer sorts a split, in memory up to 1 GB and with TensorFlow's files beyond. The
writer of `ShardBasedBuilder` writes as it reads, which is what these helpers are for.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow_datasets.public_api as tfds

from data.errors import DataError

# What TFDS takes: a number and the row.
KeyedRow = tuple[int, dict[str, Any]]


def info(builder: Any, *, description: str, homepage: str) -> tfds.core.DatasetInfo:
    """What TFDS is to know of a set of such rows, kept in the order they come in."""
    return tfds.core.DatasetInfo(
        builder=builder,
        description=description,
        features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        homepage=homepage,
        disable_shuffling=True,
    )


def rows(texts: Iterable[str]) -> Iterator[KeyedRow]:
    """Rows with the feature `text`, numbered.

    It is one and the same row, filled again: TFDS writes each as it comes, but keeps them all until
    it has counted a shard.
    """
    row = {"text": ""}
    for number, row["text"] in enumerate(texts):
        yield number, row


def decoded(lines: Iterable[bytes], file: str) -> Iterator[str]:
    """Lines as text; a `DataError` names file and line that are not UTF-8, and an empty file."""
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{file}:{number}: not UTF-8 at byte {error.start}") from error
    if not number:
        raise DataError(f"{file} is empty")
