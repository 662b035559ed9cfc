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


def findings(path: Path, paper: Mapping[str, Any]) -> list[str]:
    """One line for each; ResultsError for a store with bad lines."""
    names = {row["variant"] for table in paper.values() for row in table.get("rows", ())}
    records = load(path)
    return [
        *_repeated(path, load_lines(path)),
        *_unknown_rows(records, names),
        *_test_sets(records),
    ]


def _repeated(path: Path, lines: Iterable[tuple[int, Record]]) -> list[str]:
    """The same figure of the same step, measured or said again; the newest one counts."""
    seen: dict[tuple[str, int], tuple[int, Record]] = {}
    found = []
    for number, record in lines:
        key = record.identity, record.step
        if key in seen:
            first, old = seen[key]
            name = f"{record.task}, {record.row}, seed {record.seed}, {record.metric}"
            again = f"{path}:{number}: {name} stands on line {first}, too"
            if old.test_set_sha256 != record.test_set_sha256:
                again += ", of another copy of the test set"
            if old.value == record.value:
                found.append(f"{again}; it counts once")
            else:
                values = f"{old.value:g} there, {record.value:g} here"
                found.append(f"{again}: {values}; the one of the later date counts")
        seen[key] = number, record
    return found


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
