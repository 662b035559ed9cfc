"""Which examples go into which batch, and the arrays they become: pure functions on numpy.

A batch of bucket length L has batch_tokens // L rows, so every batch costs about the same; each
bucket length is one shape, hence one compilation. Dimension letters: N examples, B batch, L length.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import get_args

import numpy as np

from data.errors import DataError
from data.tasks import Kind
from data.tokenizer import EOS_ID, Tokenizer

Ids = list[int]
Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The shapes of the batches; a `DataError` names the values that do not fit together."""

    kind: Kind
    max_length: int
    batch_tokens: int
    bucket_lengths: tuple[int, ...]
    batch_multiple: int

    def __post_init__(self):
        if self.kind not in get_args(Kind):
            raise DataError(f"kind={self.kind!r} is none of {', '.join(get_args(Kind))}")
        if self.max_length < 2:
            raise DataError(f"max_length={self.max_length}: a token and its end need at least 2")
        if self.batch_multiple < 1:
            raise DataError(f"batch_multiple={self.batch_multiple} must be at least 1")
        if self.batch_tokens < self.max_length * self.batch_multiple:
            raise DataError(
                f"batch_tokens={self.batch_tokens} is less than max_length={self.max_length} x "
                f"batch_multiple={self.batch_multiple} = {self.max_length * self.batch_multiple}: "
                "raise it, or lower one of the others"
            )
        self._check_buckets()

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
    padded_BL = np.zeros((batch, length), np.int32)
    sizes_N = np.fromiter(map(len, rows), np.int64, len(rows))
    row_T = np.repeat(np.arange(len(rows)), sizes_N)
    column_T = np.arange(sizes_N.sum()) - np.repeat(np.cumsum(sizes_N) - sizes_N, sizes_N)
    padded_BL[row_T, column_T] = [number for row in rows for number in row]
    return padded_BL


def packed_batch(packs: Sequence[Sequence[Ids]], *, batch: int, length: int) -> Batch:
    """Rows of whole lines: `targets`, `segments` (1.. per row), `positions` (0.. per line)."""
    parts = {
        "targets": [[token for line in lines for token in line] for lines in packs],
        "segments": [[s for s, line in enumerate(lines, 1) for _ in line] for lines in packs],
        "positions": [[place for line in lines for place in range(len(line))] for lines in packs],
    }
    return {name: pad(rows, batch=batch, length=length) for name, rows in parts.items()}


def encode(examples: Sequence[dict[str, str]], tokenizer: Tokenizer) -> dict[str, list[Ids]]:
    """Token ids with EOS of every side; a side without text is EOS alone."""
    return {
        key: [
            [*ids, EOS_ID] if example[key].strip() else [EOS_ID]
            for ids, example in zip(
                tokenizer.encode([example[key] for example in examples]), examples, strict=True
            )
        ]
        for key in examples[0]
    }


def bucketed(ids_of: dict[str, list[Ids]], layout: Layout) -> list[Batch]:
    """Batches of examples of like length, by the longer side."""
    lengths_N = np.max([[len(ids) for ids in side] for side in ids_of.values()], axis=0)
    return [
        {
            key: pad([side[i] for i in members], batch=layout.rows(length), length=length)
            for key, side in ids_of.items()
        }
        for members, length in plan_buckets(lengths_N, layout)
    ]


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
    """The block of rows of one process; the blocks in order of process make up the batch."""
    rows = len(next(iter(batch.values()))) // process_count
    block = slice(process_index * rows, (process_index + 1) * rows)
    return {key: array[block] for key, array in batch.items()}


def truncate(ids: Ids, max_length: int) -> Ids:
    return ids if len(ids) <= max_length else [*ids[: max_length - 1], EOS_ID]
