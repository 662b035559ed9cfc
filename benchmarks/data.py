"""How fast text becomes batches: our pipelines against a plain loop, and tf.data if it is there.

python -m benchmarks.data --data_dir=cache/data [--write=results/benchmarks.md]

All are timed in one process, in turns, on the same text, vocabulary and shapes; a figure is the
median of the rounds. The plain loop reads, encodes and pads one example after another, in order:
no shuffling, no buckets, no packing. tf.data shuffles, encodes in parallel and buckets by length
(pip install -r requirements-prepare.txt); it has nothing like packing or hidden spans.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from benchmarks import measure
from data import batching, command, pipelines, show
from data.batching import Batch, Layout
from data.sources import Split
from data.tokenizer import Tokenizer

TASKS = ("wmt_ende", "lm1b", "c4", "cnn_dailymail", "glue", "imdb")
ROUNDS = 5
SECONDS = 2.0  # of each measurement


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    flags = command.Flags(prog="benchmarks.data", description=__doc__)
    flags.add_argument("--data_dir", metavar="DIR", default="cache/data")
    flags.add_argument("--write", metavar="PAGE", help="also put the section into this page")
    flags.add_argument(
        "--tasks",
        type=lambda text: text.split(","),
        default=",".join(TASKS),
        help="comma-separated",
    )
    args = flags.parse_args(argv)
    rows = [row for name in args.tasks for row in measure_task(name, args)]
    title = "Pipelines" if args.tasks == list(TASKS) else f"Pipelines, {','.join(args.tasks)}"
    text = report(title, measure.called(flags, args), rows)
    print(text)
    if args.write:
        measure.write(text, Path(args.write))
    return 0


def measure_task(name: str, args: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    """Rows of the table for one task."""
    view = show.open_view(name, data_dir=args.data_dir, scale="small")
    text = (view.split, view.tokenizer, view.layout)

    def ours() -> Iterator[Batch]:
        windows = pipelines.plan_windows(*text, window=view.window, seed=view.seed)
        return iter(pipelines.train_batches(windows))

    ways: dict[str, Callable[[], Iterator[Batch]]] = {
        "ours": ours,
        "plain loop": lambda: plain_loop(*text),
    }
    kind = view.layout.kind
    if importlib.util.find_spec("tensorflow") and kind in ("seq2seq", "classification"):
        ways["tf.data"] = lambda: tf_data(*text)
    rates = timed({way: make() for way, make in ways.items()})
    for way, (examples, tokens, fill) in rates.items():
        ratio = rates["ours"][1] / tokens
        examples_text = "-" if kind == "span_corruption" else f"{examples:,.0f}"
        yield (
            name,
            view.dataset.name,
            way,
            examples_text,
            f"{tokens:,.0f}",
            f"{fill:.0%}",
            f"{ratio:.2f}",
        )


def timed(iterators: dict[str, Iterator[Batch]]) -> dict[str, tuple[float, float, float]]:
    """Of each way (examples/s, real tokens/s, share of places filled): medians over the rounds."""
    for iterator in iterators.values():
        next(iterator)  # start-up is not measured
    rounds: dict[str, list[tuple[float, float, float]]] = {way: [] for way in iterators}
    for _, (way, iterator) in itertools.product(range(ROUNDS), iterators.items()):
        examples = tokens = places = 0
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < SECONDS:
            batch = next(iterator)
            examples += count_examples(batch)
            for side in batch.keys() & {"inputs", "targets"}:
                tokens += int((batch[side] != 0).sum())
                places += batch[side].size
        rounds[way].append((examples / seconds, tokens / seconds, tokens / places))
    return {way: _medians(values) for way, values in rounds.items()}


def _medians(values: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    first, second, third = (statistics.median(column) for column in zip(*values, strict=True))
    return first, second, third


def count_examples(batch: Batch) -> int:
    """Rows that hold an example; of packed rows, the lines in them."""
    if "segments" in batch:
        return int(batch["segments"].max(axis=1).sum())
    return int((batch["targets"] != 0).any(axis=1).sum())


# --- The others -----------------------------------------------------------------------------------


def plain_loop(split: Split, tokenizer: Tokenizer, layout: Layout) -> Iterator[Batch]:
    """One example after another, padded to the longest length."""
    rows = layout.rows(layout.max_length)
    ids_of: dict[str, list[list[int]]] = {}
    one_by_one = OneByOne(tokenizer)
    for index in itertools.cycle(range(len(split))):
        for side, (ids,) in encoded(split, index, one_by_one).items():
            ids_of.setdefault(side, []).append(batching.truncate(ids, layout.longest(side)))
        if len(ids_of["targets"]) == rows:
            yield batching.padded(ids_of, layout, layout.max_length)
            ids_of = {}


class OneByOne:
    """The same vocabulary without the threads that a call for many texts starts."""

    def __init__(self, tokenizer: Tokenizer):
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text."""
        return [self._processor.encode(text) for text in texts]


def encoded(split: Split, index: int, tokenizer: Any) -> dict[str, list[list[int]]]:
    """Token ids of one example."""
    return batching.encode(split.__getitems__([index]), tokenizer)


def tf_data(split: Split, tokenizer: Tokenizer, layout: Layout) -> Iterator[Batch]:
    """Shuffled, encoded in parallel, bucketed by length, prefetched."""
    tf: Any = importlib.import_module("tensorflow")  # not in everyone's environment
    sides = ("inputs", "targets")
    one_by_one = OneByOne(tokenizer)

    def encode(index):
        ids_of = encoded(split, int(index), one_by_one)
        return [
            np.array(batching.truncate(ids_of[side][0], layout.longest(side)), np.int32)
            for side in sides
        ]

    def load(index):
        tensors = tf.numpy_function(encode, [index], [tf.int32, tf.int32])
        for tensor in tensors:
            tensor.set_shape([None])
        return dict(zip(sides, tensors, strict=True))

    dataset = tf.data.Dataset.range(len(split)).shuffle(len(split), seed=0).repeat()
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    lengths = layout.bucket_lengths
    dataset = dataset.bucket_by_sequence_length(
        lambda example: (
            tf.maximum(*(tf.shape(example[side])[0] for side in sides))
            if layout.kind == "seq2seq" and not layout.target_length
            else tf.shape(example["inputs"])[0]
        ),
        bucket_boundaries=[length + 1 for length in lengths],
        bucket_batch_sizes=[layout.rows(length) for length in (*lengths, lengths[-1])],
        pad_to_bucket_boundary=False,
    )
    return iter(dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator())


# --- The table ------------------------------------------------------------------------------------


def report(title: str, called: str, rows: Sequence[tuple[Any, ...]]) -> str:
    """The section of the page."""
    return measure.section(
        title,
        called,
        "Tokens are those of both sides that are no padding; `ours : it` is the ratio of "
        "tokens/s. Rows of these texts stay in memory once they are read, for all ways.",
        ("task", "text", "way", "examples/s", "tokens/s", "filled", "ours : it"),
        rows,
        left=3,
        packages=("grain", "sentencepiece", "tensorflow-datasets", "tensorflow-cpu"),
    )


if __name__ == "__main__":
    measure.run("benchmarks.data", main)
