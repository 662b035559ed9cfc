"""The One Billion Word benchmark with its heldout shards kept apart, as Tensor2Tensor scores them.

Chelba et al. 2013. TFDS' own `lm1b` reads the same archive but joins all 50 heldout shards and
mixes their lines, and needs TensorFlow to unpack it. Licence: not stated.

Importing this module imports tensorflow_datasets, which is slow: import it inside functions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets.public_api as tfds

from data.builders import archives, shards
from data.builders.archives import Archive
from data.errors import DataError

# As TFDS registered it for its own builder.
ARCHIVE = Archive(
    url="http://www.statmt.org/lm-benchmark/"
    "1-billion-word-language-modeling-benchmark-r13output.tar.gz",
    filename="1-billion-word-language-modeling-benchmark-r13output.tar.gz",
    sha256="01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e",
    size=1_792_209_805,
)
_TOP = "1-billion-word-language-modeling-benchmark-r13output"
TRAIN_FOLDER = f"{_TOP}/training-monolingual.tokenized.shuffled/"
_HELDOUT = f"{_TOP}/heldout-monolingual.tokenized.shuffled/news.en.heldout-{{:05d}}-of-00050"
FILES = {
    "train": tuple(f"{TRAIN_FOLDER}news.en-{number:05d}-of-00100" for number in range(1, 100)),
    "validation": (_HELDOUT.format(1),),
    "test": (_HELDOUT.format(0),),
}


class Lm1bShards(tfds.core.ShardBasedBuilder):
    """`text`: a line; shards and lines in the order of the archive.

    train: shards 00001 to 00099 of 00100; 30,301,028 lines by TFDS' own builder. test: heldout
    shard 00000 of 00050, on which Tensor2Tensor scores; validation: heldout shard 00001. Other
    than there, words outside the benchmark's vocabulary stay what they are.

    The archive must lie in the manual directory. It is read as a stream, once for each split; a
    shard of the archive becomes one of the set, so that memory holds one line.

    Preparing raises a `DataError` if the archive is missing, damaged or another one, if it lacks a
    shard or has an unknown one for training, if a shard is empty or a line is not UTF-8.
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"Download {ARCHIVE.url} and put it there, not unpacked."

    def _info(self) -> tfds.core.DatasetInfo:
        return shards.info(
            self,
            description="Sentences of news, tokenized, in random order.",
            homepage="http://www.statmt.org/lm-benchmark/",
        )

    def _shard_iterators_per_split(
        self, dl_manager: Any
    ) -> Mapping[str, Sequence[Callable[[], Iterator[shards.KeyedRow]]]]:
        path = archives.placed(ARCHIVE, dl_manager)
        return {split: _Reader(path, files).shards() for split, files in FILES.items()}

    # By this name data/preparation asks any builder for what it reads.
    _split_generators = _shard_iterators_per_split


class _Reader:
    """Reads some files of the archive in one pass, in whatever order they come."""

    def __init__(self, path: Path, files: Sequence[str]):
        self._path = path
        self._files = files
        self._texts = self._files_in_order()

    def shards(self) -> list[Callable[[], Iterator[shards.KeyedRow]]]:
        """One function for each file; they are called in turn, each after the last was read."""
        return [lambda: shards.rows(next(self._texts))] * len(self._files)

    def _files_in_order(self) -> Iterator[Iterator[str]]:
        if self._files == FILES["train"]:  # the first split: once is enough
            archives.check(self._path, ARCHIVE)
        missing = set(self._files)
        for name, lines in archives.members(self._path):
            if name in missing:
                missing.remove(name)
                yield shards.decoded(lines, f"{self._path}: {name}")
            elif name.startswith(TRAIN_FOLDER) and name not in FILES["train"]:
                raise DataError(f"{self._path} has an unknown file for training: {name}")
            if not missing:
                return
        raise DataError(f"{self._path} lacks {_some(sorted(missing))}")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
