"""The committed corpora as TFDS sets: data/corpora/*.jsonl.gz -> ArrayRecord, no TensorFlow.

The config name of a prepared set ends in a hash of the committed files, so a copy prepared
from other text is never read: it simply has another name.

Importing this module imports tensorflow_datasets, which is slow: import it inside functions.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow_datasets.public_api as tfds

from data.builders import local
from data.errors import DataError

CORPORA = Path(__file__).parents[1] / "corpora"
SPLITS = ("train", "validation", "test")
VERSION = "1.0.0"  # raise it when the features or the order of the lines change

FIELDS = {
    "docs_ende": ("en", "de", "source", "doc"),
    "docs_enfr": ("en", "fr", "source", "doc"),
    "web_lm": ("text", "doc"),
    "help_summaries": ("document", "summary", "source", "doc"),
    "movie_sentiment": ("text", "label"),
    "wordnet_wic": ("word", "sentence1", "sentence2", "label"),
}


class EmbeddedText(tfds.core.GeneratorBasedBuilder):
    """One corpus, all fields text but `label`; examples stay in the order of the committed file."""

    VERSION = tfds.core.Version(VERSION)

    def __init__(self, *, corpus: str, **kwargs):
        self._corpus = corpus
        name = config_name(corpus)
        config = tfds.core.BuilderConfig(name=name, description=f"The embedded corpus {corpus}.")
        super().__init__(config=config, **kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            field: np.int32 if field == "label" else tfds.features.Text()
            for field in FIELDS[self._corpus]
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description="Text that is committed with the code; see data/corpora.",
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        del dl_manager  # nothing is downloaded
        return {
            split: self._generate_examples(corpus_file(self._corpus, split)) for split in SPLITS
        }

    def _generate_examples(self, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                row = json.loads(line)
                yield number, {field: row[field] for field in FIELDS[self._corpus]}


def corpus_file(corpus: str, split: str) -> Path:
    """The committed file of one split."""
    return CORPORA / f"{corpus}.{split}.jsonl.gz"


def config_name(corpus: str) -> str:
    """`docs_ende-` and 12 hex digits over the committed files of all its splits."""
    if corpus not in FIELDS:
        raise DataError(f"there is no embedded corpus {corpus!r}; there are: {', '.join(FIELDS)}")
    digest = hashlib.sha256()
    for split in SPLITS:
        path = corpus_file(corpus, split)
        if not path.exists():
            raise DataError(f"the embedded corpus {corpus} lacks {path}: restore it with git")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{corpus}-{digest.hexdigest()[:12]}"


def prepare(corpus: str, *, data_dir: str | os.PathLike[str]) -> Path:
    """The folder of the prepared set; the first call makes it, in a few seconds."""
    return local.prepare(
        lambda folder: EmbeddedText(corpus=corpus, data_dir=folder),
        Path(EmbeddedText.name) / config_name(corpus) / VERSION,
        data_dir=data_dir,
        what=f"the embedded text {corpus}",
    )
