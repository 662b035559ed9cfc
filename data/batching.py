"""Which examples go into which batch, and the arrays they become: pure functions on numpy.

A batch of bucket length L has batch_tokens // L rows, so every batch costs about the same; each
bucket length is one shape, hence one compilation. Dimension letters: N examples, B batch, L length.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from data import span_corruption
from data.errors import DataError
from data.tasks.task import Example, Kind, Task
from data.tokenizer import EOS_ID, Tokenizer

Ids = list[int]
Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The shapes of the batches; a `DataError` names the values that do not fit together.

    Attributes:
      kind: of the task.
      max_length: the longest inputs and, in translation and language models, targets.
      target_length: seq2seq: 0, or the length that all targets are padded to; examples then are
        sorted by their inputs alone, which suits short targets of long inputs.
      batch_tokens: rows x bucket length is at most this.
      bucket_lengths: ascending, up to max_length.
      batch_multiple: rows are a multiple of this, so that they split over processes and devices.
      truncate_inputs: cut over-long inputs in training, too, instead of leaving them out.
    """

    kind: Kind
    max_length: int
    target_length: int = 0
    batch_tokens: int
    bucket_lengths: tuple[int, ...]
    batch_multiple: int
    truncate_inputs: bool = False

    def __post_init__(self):
        if self.kind not in get_args(Kind):
            raise DataError(f"kind={self.kind!r} is none of {', '.join(get_args(Kind))}")
        if self.max_length < 2:
            raise DataError(f"max_length={self.max_length}: a token and its end need at least 2")
        if not (self.target_length == 0 or 2 <= self.target_length <= self.max_length):
            raise DataError(
                f"target_length={self.target_length} must be 0 (as the inputs) or from 2 to "
                f"max_length={self.max_length}"
            )
        if self.target_length and self.kind != "seq2seq":
            raise DataError(f"target_length={self.target_length} has no use in a {self.kind}")
        if self.batch_multiple < 1:
            raise DataError(f"batch_multiple={self.batch_multiple} must be at least 1")
        if self.batch_tokens < self.max_length * self.batch_multiple:
            raise DataError(
                f"batch_tokens={self.batch_tokens} is less than max_length={self.max_length} x "
                f"batch_multiple={self.batch_multiple} = {self.max_length * self.batch_multiple}: "
                "raise it, or lower one of the others"
            )
        self._check_buckets()
        if self.kind == "span_corruption":
            span_corruption.block_length(self.max_length)

    def _check_buckets(self):
        buckets = tuple(self.bucket_lengths)
        if not all(isinstance(length, int) for length in buckets):
            raise DataError(f"bucket_lengths={buckets} must be whole numbers")
        ascending = all(a < b for a, b in itertools.pairwise(buckets))
        if not buckets or buckets[0] < 2 or not ascending or buckets[-1] != self.max_length:
            raise DataError(
                f"bucket_lengths={buckets} must ascend from at least 2 to "
                f"max_length={self.max_length}"
            )

    def rows(self, length: int) -> int:
        """Rows of a batch of that length."""
        return self.batch_tokens // length // self.batch_multiple * self.batch_multiple

    def side_length(self, side: str, length: int) -> int:
        """Length that inputs or targets are padded to in a batch of that bucket length."""
        if side == "inputs" or self.kind == "language_model":
            return length
        if self.kind == "classification":
            return 1
        if self.kind == "span_corruption":
            return span_corruption.lengths(span_corruption.block_length(self.max_length))[1]
        return self.target_length or length

    @property
    def training_lengths(self) -> tuple[int, ...]:
        """Of the bucket lengths those that training batches have: packed rows all have the last."""
        return tuple(self.bucket_lengths[-1 if self.kind == "language_model" else 0 :])

    def shapes(self, length: int) -> dict[str, tuple[int, int]]:
        """Name -> (rows, length) of the int32 arrays of a training batch of that bucket length."""
        rows = self.rows(length)
        if self.kind == "language_model":
            return dict.fromkeys(("targets", "segments", "positions"), (rows, length))
        return {side: (rows, self.side_length(side, length)) for side in ("inputs", "targets")}

    @property
    def limits(self) -> str:
        """The most tokens an example may have, in words."""
        limits = f"max_length={self.max_length}"
        return limits + (f", target_length={self.target_length}" if self.target_length else "")

    def longest(self, side: str) -> int:
        """The most tokens that inputs or targets may have."""
        return self.side_length(side, self.max_length)

    def bucket_lengths_N(self, ids_of: dict[str, list[Ids]]) -> np.ndarray:
        """Of each example the length that its bucket is chosen by."""
        sides = ids_of
        if "inputs" in ids_of and (self.target_length or self.kind != "seq2seq"):
            sides = {"inputs": ids_of["inputs"]}
        return np.max([side_lengths_N(side) for side in sides.values()], axis=0)


def make_layout(
    task: Task, *, max_length: int, data: Mapping[str, Any], batch_tokens: int | None = None
) -> Layout:
    """The layout of a task's batches.

    Args:
      task: gives the kind, and whether inputs are cut.
      max_length: N, of the model.
      data: the data section of a config.
      batch_tokens: in place of the one of the section.
    """
    return Layout(
        kind=task.kind,
        max_length=max_length,
        target_length=data["target_length"],
        batch_tokens=data["batch_tokens"] if batch_tokens is None else batch_tokens,
        bucket_lengths=data["bucket_lengths"],
        batch_multiple=data["batch_multiple"],
        truncate_inputs=task.truncate_inputs,
    )


def plan_buckets(lengths_N: np.ndarray, layout: Layout) -> list[tuple[np.ndarray, int]]:
    """Groups examples into batches of like length: pairs of (example numbers, bucket length).

    What does not fill a batch moves up into the next longer bucket, so that at most one batch,
    the last, has fewer examples than rows. Order is kept within a bucket.
    """
    bucket_N = np.searchsorted(layout.bucket_lengths, lengths_N)
    batches, left = [], np.empty(0, np.int64)
    for bucket, length in enumerate(layout.bucket_lengths):
        members = np.concatenate([left, np.flatnonzero(bucket_N == bucket)])
        rows = layout.rows(length)
        full = len(members) // rows * rows
        batches += [(group, length) for group in members[:full].reshape(-1, rows)]
        left = members[full:]
    if len(left):
        # Few enough for any shape: take the shortest that holds the longest of them.
        shortest = np.searchsorted(layout.bucket_lengths, lengths_N[left].max())
        batches.append((left, layout.bucket_lengths[shortest]))
    return batches


def plan_packs(lengths_N: np.ndarray, max_length: int) -> list[list[int]]:
    """Packs whole lines into rows of `max_length`: example numbers of each row.

    Best fit, longest line first. Rows with the same room left are alike, so they wait in one
    list per room, and the bits of `rooms` say which lists hold one: no search over rows.
    """
    waiting: list[list[list[int]]] = [[] for _ in range(max_length + 1)]
    rows, rooms = [], 0
    for number in np.argsort(-lengths_N, kind="stable").tolist():
        length = int(lengths_N[number])
        enough = rooms >> length << length
        if enough:
            room = (enough & -enough).bit_length() - 1
            row = waiting[room].pop()
            rooms &= ~(1 << room) if not waiting[room] else -1
        else:
            room, row = max_length, []
            rows.append(row)
        row.append(number)
        if room > length:
            waiting[room - length].append(row)
            rooms |= 1 << (room - length)
    return rows


def pad(rows: Sequence[Sequence[int]], *, batch: int, length: int) -> np.ndarray:
    """Rows of at most `length` numbers as int32 [B, L]; zeros at their ends and in extra rows."""
    flat_T = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
    sizes_N = side_lengths_N(rows)
    padded_BL = np.zeros((batch, length), np.int32)
    padded_BL[np.repeat(np.arange(len(rows)), sizes_N), places_T(sizes_N)] = flat_T
    return padded_BL


def packed_batch(packs: Sequence[Sequence[Ids]], *, batch: int, length: int) -> Batch:
    """Rows of whole lines: `targets`, `segments` (1.. per row), `positions` (0.. per line)."""
    lines = [line for pack in packs for line in pack]
    sizes_N, counts_B = side_lengths_N(lines), side_lengths_N(packs)
    row_T = np.repeat(np.repeat(np.arange(len(packs)), counts_B), sizes_N)
    tokens_B = np.bincount(row_T, minlength=len(packs))
    column_T = places_T(tokens_B)
    values = {
        "targets": np.fromiter(itertools.chain.from_iterable(lines), np.int32),
        "segments": np.repeat(places_T(counts_B) + 1, sizes_N),
        "positions": places_T(sizes_N),
    }
    arrays = {name: np.zeros((batch, length), np.int32) for name in values}
    for name, values_T in values.items():
        arrays[name][row_T, column_T] = values_T
    return arrays


def places_T(sizes_N: np.ndarray) -> np.ndarray:
    """0, 1, ... within each of some stretches of these sizes, one after the other."""
    return np.arange(sizes_N.sum()) - np.repeat(np.cumsum(sizes_N) - sizes_N, sizes_N)


def encode(examples: Sequence[Example], tokenizer: Tokenizer) -> dict[str, list[Ids]]:
    """Token ids with EOS of either side; a side without text is EOS alone.

    A label is the one token `label + 1` of the targets: 0 is padding everywhere.
    """
    ids_of = {
        side: [
            [*ids, EOS_ID] if example[side].strip() else [EOS_ID]
            for ids, example in zip(
                tokenizer.encode([example[side] for example in examples]), examples, strict=True
            )
        ]
        for side in ("inputs", "targets")
        if side in examples[0]
    }
    if "targets" not in ids_of:
        ids_of["targets"] = [[example["label"] + 1] for example in examples]
    return ids_of


def side_lengths_N(side: Sequence[Sequence[Any]]) -> np.ndarray:
    """Of each example the number of its tokens."""
    return np.fromiter(map(len, side), np.int64, len(side))


def bucketed(ids_of: dict[str, list[Ids]], layout: Layout) -> list[Batch]:
    """Batches of examples of like length."""
    return [
        padded({side: [ids[i] for i in members] for side, ids in ids_of.items()}, layout, length)
        for members, length in plan_buckets(layout.bucket_lengths_N(ids_of), layout)
    ]


def padded(ids_of: dict[str, list[Ids]], layout: Layout, length: int) -> Batch:
    """One batch of that bucket length; rows without an example are zeros."""
    return {
        side: pad(ids, batch=layout.rows(length), length=layout.side_length(side, length))
        for side, ids in ids_of.items()
    }


def corrupted(
    lines: list[Ids], layout: Layout, rng: np.random.Generator, sentinels: Ids
) -> dict[str, list[Ids]]:
    """Inputs and targets of the blocks of some lines, whose EOS is left out."""
    length = span_corruption.block_length(layout.max_length)
    blocks = span_corruption.blocks([line[:-1] for line in lines], length)
    sides = [span_corruption.corrupt(block, rng, sentinels) for block in blocks]
    return {"inputs": [side[0] for side in sides], "targets": [side[1] for side in sides]}


def packed(lines: list[Ids], layout: Layout, rng: np.random.Generator) -> list[Batch]:
    """Batches of rows full of lines, rows in random order; the last batch may have empty rows."""
    lengths_N = np.array([len(line) for line in lines])
    packs = plan_packs(lengths_N, layout.max_length)
    order, rows = rng.permutation(len(packs)), layout.rows(layout.max_length)
    return [
        packed_batch(
            [[lines[i] for i in packs[row]] for row in order[start : start + rows]],
            batch=rows,
            length=layout.max_length,
        )
        for start in range(0, len(order), rows)
    ]


def own_rows(batch: Batch, process_index: int, process_count: int) -> Batch:
    """The block of rows of one process; the blocks in order of process make up the batch.

    Raises:
      DataError: if there is no such process, or the rows cannot be divided so.
    """
    if not 0 <= process_index < process_count:
        raise DataError(f"process_index={process_index} is not below process_count={process_count}")
    rows, rest = divmod(len(next(iter(batch.values()))), process_count)
    if rest:
        raise DataError(
            f"a batch of {rows * process_count + rest} rows cannot be divided among "
            f"{process_count} processes: batch_multiple must be a multiple of process_count"
        )
    block = slice(process_index * rows, (process_index + 1) * rows)
    return {key: array[block] for key, array in batch.items()}


def truncate(ids: Ids, max_length: int) -> Ids:
    return ids if len(ids) <= max_length else [*ids[: max_length - 1], EOS_ID]
