"""What a task is: what is learned, from which text, and how a row of a data set becomes text.

A *row* is what TFDS stores, its text decoded; an *example* is what a model learns from. The kinds:

seq2seq          inputs -> targets, both text (translation, summaries, replies, text-to-text)
language_model   targets, lines of text
span_corruption  targets, running text whose spans are hidden on the fly (T5's objective)
classification   inputs -> label, a number from 0
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from data.errors import DataError

Kind = Literal["seq2seq", "language_model", "span_corruption", "classification"]

Row = Mapping[str, Any]  # feature -> str, int, float, or a list or mapping of these
Example = dict[str, Any]  # inputs, targets: str; label: int; what else a metric needs
# (row, split) -> its examples; split is train, validation or test.
ToExamples = Callable[[Row, str], Sequence[Example]]

EMBEDDED = "embedded_text/"  # the TFDS name of the committed corpora, see data/builders/embedded.py


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """One source of text.

    Attributes:
      name: what configs and tables call it.
      tfds_name: `builder/config` of TFDS; '' for a mixture.
      split_of: train, validation, test -> a split of TFDS, sub-splits allowed.
      to_examples: the examples of a row.
      one_to_one: every row is one example; otherwise a split is read once to count them.
      parts: of a mixture, the data sets it joins: an epoch holds every example of each once, so
        that a part's share is its size.
      scored: the split that tables show; `validation` where the test labels are not public.
      stand_in: small real text that is prepared on first use, without network or TensorFlow.
      counts: rows per split of TFDS as its makers publish them.
      disk_gb: about how much disk downloading, unpacking and preparing it takes at most, GB.
      description, licence: in plain words.
    """

    name: str
    tfds_name: str = ""
    split_of: Mapping[str, str]
    to_examples: ToExamples
    one_to_one: bool = True
    parts: tuple["Dataset", ...] = ()
    scored: str = "test"
    stand_in: bool = False
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    disk_gb: float = 0.1
    description: str
    licence: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What is learned, and the data sets it can be learned from.

    Attributes:
      name: what configs and tables call it.
      kind: see the module's text.
      datasets: those with `stand_in` first.
      metrics: what is scored.
      target_language: what is written, for tokenised BLEU.
      truncate_inputs: cut over-long inputs in training, too, and report how many; otherwise the
        examples are left out (and counted).
      symbols: characters that are pieces of the vocabulary whatever the text.
      labels: names of the labels of a classification, in order.
    """

    name: str
    kind: Kind
    datasets: tuple[Dataset, ...]
    metrics: tuple[str, ...]
    target_language: str = "en"
    truncate_inputs: bool = False
    symbols: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def dataset(self, name: str) -> Dataset:
        """The data set of that name; a `DataError` lists those that exist."""
        for dataset in self.datasets:
            if dataset.name == name:
                return dataset
        known = ", ".join(dataset.name for dataset in self.datasets)
        raise DataError(f"task {self.name} has no data set {name!r}; it has: {known}")


ALL_SPLITS = {"train": "train", "validation": "validation", "test": "test"}


def pair(inputs: str, targets: str) -> ToExamples:
    """Rows with a feature for either side."""

    def to_examples(row: Row, split: str) -> list[Example]:
        del split
        return [{"inputs": row[inputs], "targets": row[targets]}]

    return to_examples


def line(targets: str) -> ToExamples:
    """Rows with one feature of text."""

    def to_examples(row: Row, split: str) -> list[Example]:
        del split
        return [{"targets": row[targets]}]

    return to_examples


def labelled(inputs: str, label: str) -> ToExamples:
    """Rows with text and a label from 0."""

    def to_examples(row: Row, split: str) -> list[Example]:
        del split
        return [{"inputs": row[inputs], "label": int(row[label])}]

    return to_examples


def mixture(
    name: str,
    parts: Sequence[Dataset],
    *,
    description: str,
    splits: Sequence[str] = ("train", "validation"),
    stand_in: bool = False,
) -> Dataset:
    """Several data sets as one; every part has the `splits`, and the last of them is scored."""
    return Dataset(
        name=name,
        split_of={split: split for split in splits},
        to_examples=_no_rows,
        parts=tuple(parts),
        scored=splits[-1],
        stand_in=stand_in,
        disk_gb=sum(part.disk_gb for part in parts),
        description=description,
        licence="of each part",
    )


def _no_rows(row: Row, split: str) -> Sequence[Example]:
    raise AssertionError("a mixture has no rows of its own")
