"""From records to cells: seeds summarised, and numbers printed.

Every cell is a finished string. A mean is over distinct seeds, the spread after ± is the sample
standard deviation (ddof 1) and stands only from two seeds on; it is not a confidence interval of
the test set.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from synth.results.store import Record

NONE = "-"
NOT_RUN = "not run"


@dataclass(frozen=True)
class Table:
    """A finished table: strings only, so that any writer can print it."""

    title: str
    intro: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    commands: Sequence[str] = ()


def seed_values(records: Iterable[Record], metric: str) -> list[float]:
    """One value per seed, in order of the seeds; the records are of one row and one scoring."""
    values = {record.seed: record.value for record in records if record.metric == metric}
    return [values[seed] for seed in sorted(values)]


def mean_std(values: Sequence[float], digits: int = 2) -> str:
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {stdev(values):.{digits}f}"


def distinct(values: Iterable[object]) -> str:
    """The different values, in order, None left out: what records of one row should agree on."""
    return " / ".join(dict.fromkeys(str(v) for v in values if v is not None)) or NONE


def millions(counts: Iterable[int | None], digits: int) -> str:
    return distinct(f"{n / 1e6:.{digits}f}" for n in counts if n is not None)


def assignments(settings: Mapping[str, object]) -> list[str]:
    return [f"{key}={settings[key]}" for key in sorted(settings)]


def provenance(records: Sequence[Record]) -> list[str]:
    """Notes under a table: which text, which metric exactly, and what came out empty."""
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
            f"Signature of {', '.join(f'`{m}`' for m in dict.fromkeys(metrics))}: `{signature}`."
            for signature, metrics in signatures.items()
        ),
        *(f"Empty outputs: {line}." for line in dict.fromkeys(empty)),
    ]


def commands(records: Iterable[Record]) -> list[str]:
    """The command lines that made these records, each once."""
    lines = (line for record in records for line in (record.command, record.eval_command))
    return list(
        dict.fromkeys(line if isinstance(line, str) else shlex.join(line) for line in lines)
    )
