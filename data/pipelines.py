"""Endless training batches and exact evaluation batches.

The property everything here serves: **the sequence of global batches is a pure function of
(seed, data, settings)**. The examples of an epoch are shuffled and cut into windows; a window is
read, encoded and planned into batches on its own, with a generator seeded by its number. A process
takes its block of rows out of each global batch. So the number of processes changes nothing,
and a position is two numbers: the window, and the batch in it. That is the iterator's whole
state; it is the same in all processes, and valid for any number of them.

The price: every process encodes every example. It is paid in the background, one window ahead.
"""

import dataclasses
import math
from collections.abc import Sequence

import grain
import numpy as np

from data import batching
from data.batching import Batch, Ids, Layout
from data.errors import DataError
from data.sources import TextSplit
from data.tasks import Kind
from data.tokenizer import Tokenizer

_SHUFFLE, _PLAN = 0, 1  # what a seed is used for


@dataclasses.dataclass(frozen=True)
class Window:
    """The global batches of some examples, and how many of these were left out and why."""

    batches: list[Batch]
    examples: int
    too_long: int
    empty: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Planner:
    """Makes the batches of a window: the map of the Grain pipeline."""

    split: TextSplit
    tokenizer: Tokenizer
    layout: Layout
    seed: int

    def __call__(self, number: int, indices: Sequence[int]) -> Window:
        ids_of = batching.encode(self.split.__getitems__(indices), self.tokenizer)
        lengths_N = np.max([[len(ids) for ids in side] for side in ids_of.values()], axis=0)
        shortest_N = np.min([[len(ids) for ids in side] for side in ids_of.values()], axis=0)
        empty_N = shortest_N < 2  # nothing but the end token
        too_long_N = ~empty_N & (lengths_N > self.layout.max_length)
        keep = np.flatnonzero(~empty_N & ~too_long_N)
        if not len(keep):
            raise DataError(
                f"of {len(indices)} examples none can be trained on: {too_long_N.sum()} are longer "
                f"than max_length={self.layout.max_length}, {empty_N.sum()} are empty"
            )
        rng = np.random.default_rng([self.seed, _PLAN, number])
        batches = self._batches({k: [side[i] for i in keep] for k, side in ids_of.items()}, rng)
        return Window(batches, len(indices), int(too_long_N.sum()), int(empty_N.sum()))

    def _batches(self, ids_of: dict[str, list[Ids]], rng: np.random.Generator) -> list[Batch]:
        if self.layout.kind == "translation":
            batches = batching.bucketed(ids_of, self.layout)
        else:
            batches = batching.packed(ids_of["targets"], self.layout, rng)
        return [batches[i] for i in rng.permutation(len(batches))]


@dataclasses.dataclass(frozen=True)
class _OwnRows(grain.experimental.FlatMapTransform):
    """The batches of a window, and of each batch the rows of one process."""

    process_index: int
    process_count: int
    max_fan_out: int = dataclasses.field(default=2**31, kw_only=True)  # not used by Grain here

    def flat_map(self, window: Window) -> list[Batch]:
        return [
            batching.own_rows(batch, self.process_index, self.process_count)
            for batch in window.batches
        ]


def train_batches(
    split: TextSplit,
    tokenizer: Tokenizer,
    *,
    kind: Kind,
    max_length: int,
    batch_tokens: int,
    bucket_lengths: Sequence[int],
    batch_multiple: int,
    window: int,
    seed: int,
    process_index: int = 0,
    process_count: int = 1,
) -> grain.IterDataset[Batch]:
    """Endless batches of int32 arrays; every epoch holds each example once, in another order.

    translation: `inputs` and `targets` [B, L], each row ended by EOS and padded with 0; L is
    one of `bucket_lengths`, B the multiple of `batch_multiple` below batch_tokens / L.
    language_model: whole lines packed into rows of `max_length`: `targets`, `segments`,
    `positions` [B, L].

    Examples longer than `max_length` (with EOS, either side) and those with an empty side are
    left out; `data.report` counts them. Rows without an example are all zeros. `window` is about
    how many examples are planned at once: the larger, the fuller the batches. An epoch ends
    with a window.
    """
    _check_processes(process_index, process_count, batch_multiple)
    windows = plan_windows(
        split,
        tokenizer,
        kind=kind,
        max_length=max_length,
        batch_tokens=batch_tokens,
        bucket_lengths=bucket_lengths,
        batch_multiple=batch_multiple,
        window=window,
        seed=seed,
    )
    # One window is planned in a background thread while the one before is used up.
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    rows = _OwnRows(process_index, process_count)
    return grain.experimental.FlatMapIterDataset(windows.repeat().to_iter_dataset(options), rows)


def plan_windows(
    split: TextSplit,
    tokenizer: Tokenizer,
    *,
    kind: Kind,
    max_length: int,
    batch_tokens: int,
    bucket_lengths: Sequence[int],
    batch_multiple: int,
    window: int,
    seed: int,
) -> grain.MapDataset[Window]:
    """The windows of one epoch by number, for all processes; arguments as in `train_batches`.

    Numbers go on beyond its length: window `len + 3` is window 3 of the second epoch.
    """
    layout = _layout(kind, max_length, batch_tokens, bucket_lengths, batch_multiple)
    planner = _Planner(split=split, tokenizer=tokenizer, layout=layout, seed=seed)
    return _index_windows(len(split), window, seed).map_with_index(planner)


def _index_windows(examples: int, window: int, seed: int) -> grain.MapDataset:
    """The example numbers of one epoch, shuffled, in windows of equal size (but for rounding)."""
    if examples < 1 or window < 1 or seed < 0:
        raise DataError(
            f"examples={examples} and window={window} must be positive, seed={seed} >= 0"
        )
    size = math.ceil(examples / math.ceil(examples / window))
    # Grain shuffles epoch e by seed + e. Through a hash, runs with seeds 0 and 1 do not
    # see the same orders, one epoch apart.
    shuffle_seed = int(np.random.SeedSequence([seed, _SHUFFLE]).generate_state(1)[0])
    return grain.MapDataset.range(examples).shuffle(shuffle_seed).batch(size, batch_fn=list)


class EvalBatches:
    """Every example of a split exactly once, in batches of like length; see `eval_batches`."""

    def __init__(self, batches: list[Batch], *, examples: int, truncated: int):
        self._batches = batches
        self.examples = examples
        self.truncated = truncated  # examples cut to max_length on at least one side

    def __iter__(self):
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def eval_batches(
    split: TextSplit,
    tokenizer: Tokenizer,
    *,
    kind: Kind,
    max_length: int,
    batch_tokens: int,
    bucket_lengths: Sequence[int],
    batch_multiple: int,
    process_index: int = 0,
    process_count: int = 1,
    sources_only: bool = False,
) -> EvalBatches:
    """All of a split, held in memory: the same batches on every process, of each its own rows.

    Examples are sorted by length into buckets. Each batch has `index` [B], the example's number
    in the split or -1 for a row that only fills up, and `targets` [B, L], with `inputs` [B, L] for
    translation. A row holds one example, in a language model, too: nothing is packed.
    What is longer than `max_length` is cut to max_length - 1 tokens and EOS, and counted.
    `sources_only` (translation) leaves the targets out, for decoding.
    """
    layout = _layout(kind, max_length, batch_tokens, bucket_lengths, batch_multiple)
    _check_processes(process_index, process_count, batch_multiple)
    if sources_only and kind != "translation":
        raise DataError(f"sources_only needs kind='translation', this is kind={kind!r}")
    if not len(split):
        raise DataError("there is no example to evaluate: the split is empty")
    ids_of = batching.encode(split.__getitems__(range(len(split))), tokenizer)
    if sources_only:
        del ids_of["targets"]
    lengths_N = np.max([[len(ids) for ids in side] for side in ids_of.values()], axis=0)
    ids_of = {
        key: [batching.truncate(ids, max_length) for ids in side] for key, side in ids_of.items()
    }
    batches = _sorted_batches(ids_of, np.minimum(lengths_N, max_length), layout)
    return EvalBatches(
        [batching.own_rows(batch, process_index, process_count) for batch in batches],
        examples=len(split),
        truncated=int((lengths_N > max_length).sum()),
    )


def _sorted_batches(ids_of: dict[str, list[Ids]], lengths_N: np.ndarray, layout: Layout):
    order = np.argsort(lengths_N, kind="stable")
    bucket_N = np.searchsorted(layout.bucket_lengths, lengths_N[order])
    batches = []
    for bucket, length in enumerate(layout.bucket_lengths):
        members, rows = order[bucket_N == bucket], layout.rows(length)
        for start in range(0, len(members), rows):
            group = members[start : start + rows]
            batches.append(_eval_batch(ids_of, group, batch=rows, length=length))
    return batches


def _eval_batch(ids_of, group: np.ndarray, *, batch: int, length: int) -> Batch:
    arrays = {
        key: batching.pad([side[i] for i in group], batch=batch, length=length)
        for key, side in ids_of.items()
    }
    index_B = np.full(batch, -1, np.int32)
    index_B[: len(group)] = group
    return {**arrays, "index": index_B}


def _layout(kind, max_length, batch_tokens, bucket_lengths, batch_multiple) -> Layout:
    return Layout(
        kind=kind,
        max_length=max_length,
        batch_tokens=batch_tokens,
        bucket_lengths=tuple(bucket_lengths),
        batch_multiple=batch_multiple,
    )


def _check_processes(process_index: int, process_count: int, batch_multiple: int) -> None:
    if not 0 <= process_index < process_count:
        raise DataError(f"process_index={process_index} is not below process_count={process_count}")
    if batch_multiple % process_count:
        raise DataError(
            f"batch_multiple={batch_multiple} is not a multiple of process_count={process_count}: "
            "each process takes the same number of rows"
        )
