"""C4, English, from the published json.gz files, as many of them as there are.

Raffel et al. 2020; the files are those of allenai/c4, folder `en`, under ODC-BY. TFDS' own `c4`
makes the text anew from Common Crawl, with Beam.

Importing this module imports tensorflow_datasets, which is slow: import it inside functions.
"""

import functools
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets.public_api as tfds

from data.builders import archives, shards
from data.errors import DataError

TRAIN_FILES, VALIDATION_FILES = 1024, 8
PATTERNS = {
    "train": f"c4-train.*-of-{TRAIN_FILES:05d}.json.gz",
    "validation": f"c4-validation.*-of-{VALIDATION_FILES:05d}.json.gz",
}


class C4Json(tfds.core.ShardBasedBuilder):
    """`text`: a page; the files in the order of their names, each one shard of the set.

    The files lie in the manual directory: c4-train.00000-of-01024.json.gz and so on, of which any
    will do, and c4-validation.00000-of-00008.json.gz and so on. All of them have 364,868,892 and
    364,608 pages. How many there are is told on standard error. A prepared set stays as it is
    when files are added: remove its folder to prepare it again.

    Preparing raises a `DataError` if there is no file of either kind, if a file is damaged or
    empty, or if a line is not an object with a `text`.
    """

    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Put files of allenai/c4, folder en, there, not unpacked."

    def _info(self) -> tfds.core.DatasetInfo:
        return shards.info(
            self,
            description="Pages of Common Crawl of April 2019, cleaned; English.",
            homepage="https://huggingface.co/datasets/allenai/c4",
        )

    def _shard_iterators_per_split(
        self, dl_manager: Any
    ) -> Mapping[str, Sequence[Callable[[], Iterator[shards.KeyedRow]]]]:
        folder = archives.manual_dir(dl_manager)
        files = {split: _files(folder, pattern) for split, pattern in PATTERNS.items()}
        return {
            split: [functools.partial(_rows, path, files) for path in files[split]]
            for split in files
        }

    # By this name data/preparation asks any builder for what it reads.
    _split_generators = _shard_iterators_per_split


def _files(folder: Path, pattern: str) -> list[Path]:
    files = sorted(folder.glob(pattern))
    if not files:
        raise DataError(
            f"no file {pattern} lies in {folder}: put files of allenai/c4, folder en, there"
        )
    return files


def _rows(path: Path, files: Mapping[str, Sequence[Path]]) -> Iterator[shards.KeyedRow]:
    if path == files["train"][0]:  # not while the files are only being looked for
        print(
            f"c4_json: reading {len(files['train'])} of {TRAIN_FILES} training files and "
            f"{len(files['validation'])} of {VALIDATION_FILES} validation files",
            file=sys.stderr,
        )
    yield from shards.rows(_texts(path))


def _texts(path: Path) -> Iterator[str]:
    for number, line in enumerate(shards.decoded(_lines(path), str(path)), start=1):
        try:
            page = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}:{number}: not JSON ({error})") from error
        text = page.get("text") if isinstance(page, dict) else None
        if not isinstance(text, str):
            raise DataError(f"{path}:{number}: not an object with a text")
        # Half of a surrogate pair, which JSON can escape and UTF-8 cannot hold, becomes U+FFFD.
        yield text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _lines(path: Path) -> Iterator[bytes]:
    number = 0
    try:
        with gzip.open(path) as file:
            for line in file:
                number += 1
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}:{number + 1}: damaged ({error}): get it again") from error
