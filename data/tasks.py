"""What a task is: its kind, its languages, and the data sets it can be run on.

Adding a task is one `Task(...)` below: name a TFDS set, say which of its splits plays which
part, and which of its features is the input and the target.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from data.errors import DataError

Kind = Literal["translation", "language_model"]

EMBEDDED = "embedded_text/"  # the TFDS name of the committed corpora, see data/embedded.py


@dataclasses.dataclass(frozen=True)
class Dataset:
    """One source of text. `input_feature` is None for language modelling."""

    name: str
    tfds_name: str
    split_of: Mapping[str, str]  # train, validation, test -> a TFDS split, sub-splits allowed
    input_feature: str | None
    target_feature: str
    description: str
    licence: str

    @property
    def embedded(self) -> bool:
        """True for text that is committed in data/corpora and needs no network."""
        return self.tfds_name.startswith(EMBEDDED)


@dataclasses.dataclass(frozen=True)
class Task:
    """What is learned, and the data sets it can be learned from; the first one is embedded."""

    name: str
    kind: Kind
    source_language: str | None
    target_language: str
    datasets: tuple[Dataset, ...]

    def dataset(self, name: str) -> Dataset:
        """The data set of that name; a `DataError` lists those that exist."""
        for dataset in self.datasets:
            if dataset.name == name:
                return dataset
        known = ", ".join(dataset.name for dataset in self.datasets)
        raise DataError(f"task {self.name} has no data set {name!r}; it has: {known}")


def get_task(name: str) -> Task:
    """The task of that name; a `DataError` lists those that exist."""
    if name not in TASKS:
        raise DataError(f"there is no task {name!r}; there are: {', '.join(TASKS)}")
    return TASKS[name]


_SPLITS = {"train": "train", "validation": "validation", "test": "test"}

_DOCS_LICENCE = (
    "each line keeps the licence of its source: MPL-2.0 (LibreOffice help) or CC-BY-SA-3.0 "
    "(Debian handbook, GNOME user docs); see data/corpora/licences"
)

WMT_ENDE = Task(
    name="wmt_ende",
    kind="translation",
    source_language="en",
    target_language="de",
    datasets=(
        Dataset(
            name="docs_ende",
            tfds_name=EMBEDDED + "docs_ende",
            split_of=_SPLITS,
            input_feature="en",
            target_feature="de",
            description="32,667 aligned sentences of software manuals, embedded; its BLEU says "
            "nothing about newstest",
            licence=_DOCS_LICENCE,
        ),
        Dataset(
            # Tensor2Tensor's own mixture: Europarl v7, Common Crawl, News Commentary v13.
            name="wmt_t2t_translate",
            tfds_name="wmt_t2t_translate/de-en",
            split_of=_SPLITS,  # validation is newstest2013, test is newstest2014
            input_feature="en",
            target_feature="de",
            description="WMT'14 English-German as Tensor2Tensor prepared it; "
            "newstest2013 validates, newstest2014 tests",
            licence="see the WMT'14 site; not redistributed here",
        ),
    ),
)

WMT_ENFR = Task(
    name="wmt_enfr",
    kind="translation",
    source_language="en",
    target_language="fr",
    datasets=(
        Dataset(
            name="docs_enfr",
            tfds_name=EMBEDDED + "docs_enfr",
            split_of=_SPLITS,
            input_feature="en",
            target_feature="fr",
            description="30,031 aligned sentences of software manuals, embedded; its BLEU says "
            "nothing about newstest",
            licence=_DOCS_LICENCE,
        ),
        Dataset(
            name="wmt14_translate",
            tfds_name="wmt14_translate/fr-en",
            split_of=_SPLITS,  # validation is newstest2013, test is newstest2014
            input_feature="en",
            target_feature="fr",
            description="WMT'14 English-French; newstest2013 validates, newstest2014 tests",
            licence="see the WMT'14 site; not redistributed here",
        ),
    ),
)

LM1B = Task(
    name="lm1b",
    kind="language_model",
    source_language=None,
    target_language="en",
    datasets=(
        Dataset(
            name="web_lm",
            tfds_name=EMBEDDED + "web_lm",
            split_of=_SPLITS,
            input_feature=None,
            target_feature="text",
            description="45,180 sentences of a public-domain English Bible, embedded; its "
            "perplexity says nothing about LM1B",
            licence="public domain; see data/corpora/licences",
        ),
        Dataset(
            # The paper (through Tensor2Tensor) scores heldout shard 00000-of-00050. TFDS' `test`
            # is all 50 heldout shards, 306,688 lines, and its order mixes them, so that shard
            # cannot be cut out again. `test` here is as many lines as a mean shard has: the same
            # source and size, other sentences. Train is the same 99 shards. Tensor2Tensor also
            # maps words outside the benchmark's vocabulary to UNK; this text keeps them.
            name="lm1b",
            tfds_name="lm1b",
            split_of={
                "train": "train",
                "validation": "test[6134:8182]",  # 2,048 lines, disjoint from `test` below
                "test": "test[:6134]",
            },
            input_feature=None,
            target_feature="text",
            description="One Billion Word benchmark; scored on 6,134 heldout lines that are a "
            "sample of all 50 heldout shards, not Tensor2Tensor's shard 00000",
            licence="see the benchmark's site; not redistributed here",
        ),
    ),
)

TASKS: dict[str, Task] = {task.name: task for task in (WMT_ENDE, WMT_ENFR, LM1B)}
