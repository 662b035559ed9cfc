"""From records to cells: seeds summarised, numbers printed, and what a finished table is.

A mean is over distinct seeds, the spread after ± is the sample standard deviation (ddof 1) and
stands only from two seeds on; it is not a confidence interval of the test set.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from synth.results.store import Record

NONE = "-"
NOT_RUN = "not run"


@dataclass(frozen=True)
class Cell:
    """A cell in its parts, so that each writer can put them its way; all are finished strings.

    Attributes:
      text: the figure, or words.
      spread: the sample standard deviation over seeds.
      n: the number of seeds, where it is told.
      mark: what stands after it: how sure a figure of the paper is, or a dagger.
      anchor: of the commands that made a figure of ours, in `Table.commands`.
    """

    text: str
    spread: str = ""
    n: int | None = None
    mark: str = ""
    anchor: str = ""

    def __str__(self) -> str:
        spread = f" ± {self.spread}" if self.spread else ""
        count = "" if self.n is None else f" (n={self.n})"
        return f"{self.text}{spread}{count}{f' {self.mark}' if self.mark else ''}"


EMPTY = Cell(NONE)


@dataclass(frozen=True)
class Commands:
    """What made the figures of one row."""

    label: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A finished table, which any writer can print; `commands` by the anchors of the cells."""

    name: str
    title: str
    intro: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str]
    commands: Mapping[str, Commands]


def seed_values(records: Iterable[Record], metric: str) -> list[float]:
    """One value per seed, in order of the seeds; the records are of one row and one scoring."""
    values = {record.seed: record.value for record in records if record.metric == metric}
    return [values[seed] for seed in sorted(values)]


def summary(values: Sequence[float], digits: int = 2, **parts: Any) -> Cell:
    """Mean and, from two values on, sample standard deviation."""
    spread = f"{stdev(values):.{digits}f}" if len(values) > 1 else ""
    return Cell(f"{fmean(values):.{digits}f}", spread, **parts)


def distinct(values: Iterable[object]) -> str:
    """The different values, in order, None left out: what records of one row should agree on."""
    return " / ".join(dict.fromkeys(str(v) for v in values if v is not None)) or NONE


def millions(counts: Iterable[int | None], digits: int) -> str:
    return distinct(f"{n / 1e6:.{digits}f}" for n in counts if n is not None)


def assignments(settings: Mapping[str, object]) -> list[str]:
    return [f"{key}={settings[key]}" for key in sorted(settings)]


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def provenance(records: Sequence[Record]) -> list[str]:
    """Notes under a table: which text, which metric exactly, what came out empty, and a warning
    where figures of one column are not of one text or not computed in one way."""
    texts = (
        f"`{r.dataset}`, split {r.split}: {r.n_items:,} lines, sha256 `{r.test_set_sha256:.16}`"
        for r in records
    )
    signatures: dict[str, list[str]] = {}
    for record in records:
        signatures.setdefault(record.signature, []).append(record.metric)
    empty = (
        f"{r.row} seed {r.seed}: {r.empty_outputs} of {r.n_items:,}"
        for r in records
        if r.empty_outputs
    )
    return [
        *(f"Test set: {text}." for text in dict.fromkeys(texts)),
        *(
            f"Signature of {listed(metrics)}: `{signature}`."
            for signature, metrics in signatures.items()
        ),
        *(f"Empty outputs: {line}." for line in dict.fromkeys(empty)),
        *_warnings(records),
    ]


def _warnings(records: Sequence[Record]) -> list[str]:
    texts: dict[tuple[str, str, str], set[str]] = {}
    ways: dict[tuple[str, str, str, str], set[str]] = {}
    for r in records:
        texts.setdefault((r.task, r.dataset, r.split), set()).add(r.test_set_sha256)
        ways.setdefault((r.task, r.dataset, r.split, r.metric), set()).add(r.signature)
    rest = "do not compare its rows before the others are scored again"
    copies = [dataset for (_, dataset, _), found in texts.items() if len(found) > 1]
    mixed = [f"{name}` of `{dataset}" for (_, dataset, _, name), s in ways.items() if len(s) > 1]
    return [
        *(f"**Not one test set: the copies of {listed([d])} differ**; {rest}." for d in copies),
        *(f"**Not one signature: figures of {listed([m])} differ in it**; {rest}." for m in mixed),
    ]


def command_lines(records: Iterable[Record]) -> list[str]:
    """The command lines that made these records, each once."""
    lines = (line for record in records for line in (record.command, record.eval_command))
    return list(
        dict.fromkeys(line if isinstance(line, str) else shlex.join(line) for line in lines)
    )
