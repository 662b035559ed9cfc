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
from collections.abc import Collection, Sequence

import grain
import numpy as np

from data import batching
from data.batching import Batch, Ids, Layout
from data.errors import DataError
from data.sources import Split
from data.tasks.task import Example
from data.tokenizer import Tokenizer

_SHUFFLE, _PLAN = 0, 1  # what a seed is used for


@dataclasses.dataclass(frozen=True)
class Window:
    """The global batches of some examples, and how many of these were left out or cut, and why."""

    batches: list[Batch]
    examples: int
    too_long: int
    empty: int
    truncated: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Planner:
    """Makes the batches of a window: the map of the Grain pipeline."""

    split: Split
    tokenizer: Tokenizer
    layout: Layout
    seed: int
    last: dict[int, Window] = dataclasses.field(default_factory=dict)

    def __call__(self, number: int, indices: Sequence[int]) -> Window:
        """The window of that number. The last one is kept: the report and training ask for it."""
        window = self.last.get(number)
        if window is None:
            window = self._plan(number, indices)
            self.last.clear()
            self.last[number] = window
        return window

    def _plan(self, number: int, indices: Sequence[int]) -> Window:
        ids_of = batching.encode(self.split.__getitems__(indices), self.tokenizer)
        ids_of, cut_N = self._cut(ids_of)
        too_long_N, empty_N = self._faults(ids_of)
        keep = np.flatnonzero(~empty_N & ~too_long_N)
        if not len(keep):
            raise DataError(
                f"of {len(indices)} examples none can be trained on: {too_long_N.sum()} are longer "
                f"than {self.layout.limits}, {empty_N.sum()} are empty"
            )
        rng = np.random.default_rng([self.seed, _PLAN, number])
        batches = self._batches({k: [side[i] for i in keep] for k, side in ids_of.items()}, rng)
        return Window(
            batches,
            examples=len(indices),
            too_long=int(too_long_N.sum()),
            empty=int(empty_N.sum()),
            truncated=int(cut_N[keep].sum()),
        )

    def _cut(self, ids_of: dict[str, list[Ids]]) -> tuple[dict[str, list[Ids]], np.ndarray]:
        """The examples with their inputs cut if the layout says so, and which of them were."""
        if not self.layout.truncate_inputs:
            return ids_of, np.zeros(len(ids_of["targets"]), bool)
        longest = self.layout.longest("inputs")
        cut = [batching.truncate(ids, longest) for ids in ids_of["inputs"]]
        return ids_of | {"inputs": cut}, batching.side_lengths_N(ids_of["inputs"]) > longest

    def _faults(self, ids_of: dict[str, list[Ids]]) -> tuple[np.ndarray, np.ndarray]:
        """Which examples are too long, and which are empty."""
        empty_N, too_long_N = np.zeros((2, len(ids_of["targets"])), bool)
        for side, ids in ids_of.items():
            lengths_N = batching.side_lengths_N(ids)
            if not (side == "targets" and self.layout.kind == "classification"):
                empty_N |= lengths_N < 2  # nothing but the end token
            if self.layout.kind != "span_corruption":  # which cuts documents of any length
                too_long_N |= lengths_N > self.layout.longest(side)
        return too_long_N & ~empty_N, empty_N

    def _batches(self, ids_of: dict[str, list[Ids]], rng: np.random.Generator) -> list[Batch]:
        if self.layout.kind == "language_model":
            batches = batching.packed(ids_of["targets"], self.layout, rng)
        else:
            if self.layout.kind == "span_corruption":
                sentinels = self.tokenizer.sentinels
                ids_of = batching.corrupted(ids_of["targets"], self.layout, rng, sentinels)
            batches = batching.bucketed(ids_of, self.layout)
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
    windows: grain.MapDataset[Window], *, process_index: int = 0, process_count: int = 1
) -> grain.IterDataset[Batch]:
    """Endless batches of int32 arrays; every epoch holds each example once, in another order.

    Args:
      windows: of `plan_windows`.
      process_index: of this process: which block of each batch's rows it takes.
      process_count: how many blocks there are.

    Raises:
      DataError: with the first batch, if there is no such process or its rows do not divide.

    seq2seq: `inputs` [B, L] and `targets` [B, T], each row ended by EOS and padded with 0; L is
    a bucket length, B the multiple of `batch_multiple` below batch_tokens / L.
    span_corruption: the same, of blocks of running text.
    language_model: whole lines packed into rows of `max_length`: `targets`, `segments`,
    `positions` [B, L].
    classification: `inputs` [B, L] and `targets` [B, 1], the label + 1.

    Examples longer than the layout's limits (with EOS, either side) and those with an empty side
    are left out, or their inputs cut if the layout says so; `data.report` counts them. Rows
    without an example are all zeros.
    """
    # One window is planned in a background thread while the one before is used up.
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    rows = _OwnRows(process_index, process_count)
    return grain.experimental.FlatMapIterDataset(windows.repeat().to_iter_dataset(options), rows)


def plan_windows(
    split: Split, tokenizer: Tokenizer, layout: Layout, *, window: int, seed: int
) -> grain.MapDataset[Window]:
    """The windows of one epoch by number, for all processes; an epoch ends with a window.

    Numbers go on beyond its length: window `len + 3` is window 3 of the second epoch.

    Args:
      split: the examples.
      tokenizer: of both sides.
      layout: the shapes of the batches.
      window: about how many examples are planned at once: the larger, the fuller the batches.
      seed: of the order of the examples and of all that is random in a plan.
    """
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
        self.examples = examples  # of span corruption: blocks of text
        self.truncated = truncated  # examples cut on at least one side

    def __iter__(self):
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def eval_batches(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    layout: Layout,
    *,
    process_index: int = 0,
    process_count: int = 1,
    sources_only: bool = False,
    skip: Collection[int] = (),
) -> EvalBatches:
    """All examples of a split, in memory: the same batches on every process, of each its own rows.

    Examples are sorted by length into buckets. Each batch has `index` [B], the example's number
    in the split or -1 for a row that only fills up, and the arrays of `train_batches`. A row
    holds one example, in a language model, too: nothing is packed. Span corruption hides the same
    spans every time; its examples are the blocks of the whole split.
    What is too long is cut, with EOS as its last token, and counted.
    `sources_only` leaves the targets out, for decoding; `skip` are examples that need no batch.
    """
    if sources_only and layout.kind == "language_model":
        raise DataError("sources_only: a language model has no inputs")
    if not examples:
        raise DataError("there is no example to evaluate: the split is empty")
    ids_of = batching.encode(examples, tokenizer)
    if layout.kind == "span_corruption":
        rng = np.random.default_rng(0)
        ids_of = batching.corrupted(ids_of["targets"], layout, rng, tokenizer.sentinels)
    count = len(ids_of["targets"])
    if sources_only:
        del ids_of["targets"]
    cut_N = np.zeros(count, bool)
    for side, ids in ids_of.items():
        longest = layout.longest(side)
        cut_N |= batching.side_lengths_N(ids) > longest
        ids_of[side] = [batching.truncate(line, longest) for line in ids]
    batches = _sorted_batches(ids_of, layout, skip)
    return EvalBatches(
        [batching.own_rows(batch, process_index, process_count) for batch in batches],
        examples=count,
        truncated=int(cut_N.sum()),
    )


def _sorted_batches(
    ids_of: dict[str, list[Ids]], layout: Layout, skip: Collection[int]
) -> list[Batch]:
    lengths_N = layout.bucket_lengths_N(ids_of)
    order = np.argsort(lengths_N, kind="stable")
    order = order[~np.isin(order, list(skip))]
    bucket_N = np.searchsorted(layout.bucket_lengths, lengths_N[order])
    batches = []
    for bucket, length in enumerate(layout.bucket_lengths):
        members, rows = order[bucket_N == bucket], layout.rows(length)
        for start in range(0, len(members), rows):
            group = members[start : start + rows]
            batches.append(_eval_batch(ids_of, group, layout, length))
    return batches


def _eval_batch(ids_of, group: np.ndarray, layout: Layout, length: int) -> Batch:
    arrays = batching.padded(
        {side: [ids[i] for i in group] for side, ids in ids_of.items()}, layout, length
    )
    index_B = np.full(layout.rows(length), -1, np.int32)
    index_B[: len(group)] = group
    return {**arrays, "index": index_B}
