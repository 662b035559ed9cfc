"""What is odd about a run store, in words.

A line that cannot be read or whose value cannot be (no number, out of its range, not what its own
sums give) is an error, told by `store.load`. Here is what can be read but should be known: figures
said twice, rows without a name, copies of a test set that differ.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from synth.results.store import Record, load, load_lines
from synth.variants import VARIANTS


def findings(path: Path, paper: Mapping[str, Any], since: int = 0) -> list[str]:
    """One line for each; ResultsError for a store with bad lines.

    Of figures said twice only those are told that stand again after line `since`.
    """
    names = {row["variant"] for table in paper.values() for row in table.get("rows", ())}
    records = load(path)
    return [
        *_repeated(path, load_lines(path), since),
        *_unknown_rows(records, names),
        *_test_sets(records),
    ]


_Lines = list[tuple[int, Record]]


def _repeated(path: Path, lines: _Lines, since: int) -> list[str]:
    """Of each run how many figures of the same step were measured or said again."""
    figures: dict[tuple[str, int], _Lines] = {}
    for number, record in lines:
        figures.setdefault((record.identity, record.step), []).append((number, record))
    runs: dict[str, list[_Lines]] = {}
    for same in figures.values():
        if len(same) > 1 and same[-1][0] > since:
            runs.setdefault(_run(same[0][1]), []).append(same)
    return [f"{path}: {name}: {_again(found)}" for name, found in runs.items()]


def _run(record: Record) -> str:
    changes = [f"{key}={value}" for key, value in record.overrides.items()]
    parts = [record.row, f"scale={record.scale}", f"seed {record.seed}", f"step {record.step}"]
    return ", ".join([record.task, *parts, *changes])


def _again(figures: list[_Lines]) -> str:
    """Of the figures of a run that stand more than once: how many, where, and which ones count."""
    said = [line for same in figures for line in same]
    changed = sum(len({record.value for _, record in same}) > 1 for same in figures)
    copies = max(len({record.test_set_sha256 for _, record in same}) for same in figures)
    dates = ", ".join(sorted({record.date for _, record in said}))
    words = "1 figure stands" if len(figures) == 1 else f"{len(figures)} figures stand"
    words += f" more than once (lines {_ranges([number for number, _ in said])}; {dates})"
    words += f", of {copies} copies of the test set" if copies > 1 else ""
    if not changed:
        return f"{words}, with the same value"
    return f"{words}, {changed} with another value; the latest date counts"


def _ranges(numbers: Iterable[int]) -> str:
    """[1, 2, 3, 7] as `1-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def _unknown_rows(records: Iterable[Record], names: set[str]) -> list[str]:
    known = {name.partition(";")[0] for name in names}
    counts: dict[tuple[str, str], int] = {}
    for record in records:
        terms = record.row.partition(";")[0]
        if terms not in known and not set(terms.split("+")) <= set(VARIANTS):
            key = record.row, record.task
            counts[key] = counts.get(key, 0) + 1
    return [
        f"row {row!r} of task {task} is no variant and no row of the paper: {count} figures stand "
        "in no table of the paper"
        for (row, task), count in counts.items()
    ]


def _test_sets(records: Iterable[Record]) -> list[str]:
    copies: dict[tuple[str, str, str, str], dict[str, set[str]]] = {}
    for r in records:
        key = r.task, r.dataset, r.split, r.scale
        copies.setdefault(key, {}).setdefault(r.test_set_sha256, set()).add(r.row)
    return [
        f"{task} at scale={scale}: {len(found)} copies of {dataset}, split {split}: "
        + ", ".join(f"{sha:.16} ({', '.join(sorted(rows))})" for sha, rows in found.items())
        + "; their figures are never averaged"
        for (task, dataset, split, scale), found in copies.items()
        if len(found) > 1
    ]
