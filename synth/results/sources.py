"""Which of our runs may stand in a row of the paper, and which of their figures in a column.

Only runs of the paper's own set-up count: scale `paper`, no overrides, the real data sets. Where
several kinds of runs could fill a row, one kind does, so that a mean is always of like runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from synth.results import significance
from synth.results.store import Record, row_key


@dataclass(frozen=True)
class Source:
    """A scoring: `datasets` is the name of the data set in each task that has it; `settings` must
    be among a record's."""

    datasets: Mapping[str, str]
    split: str = "test"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, record: Record) -> bool:
        """Whether the text is this one."""
        return self.datasets.get(record.task) == record.dataset and record.split == self.split

    def has(self, record: Record) -> bool:
        return self.is_of(record) and self.settings.items() <= record.settings.items()


@dataclass(frozen=True)
class Family:
    """Tasks that fill the same columns, the preferred one first.

    Of a row only runs of one of them are taken; never some columns from one and some from another.
    `fine_tuned`: a run may start from another one (`train.init_from`), and is preferred if it does.
    """

    tasks: tuple[str, ...]
    fine_tuned: bool = False

    def allows(self, record: Record) -> bool:
        free = {significance.INIT_FROM} if self.fine_tuned else set()
        return record.task in self.tasks and not record.overrides.keys() - free

    def rank(self, record: Record) -> tuple[bool, int]:
        started = significance.INIT_FROM in record.overrides
        return not started, self.tasks.index(record.task)


@dataclass(frozen=True)
class Metric:
    source: Source
    name: str


@dataclass(frozen=True)
class Quantity:
    """A figure of the paper, by its key in paper.json, and what ours is made of.

    `parts` are the metrics of each task: ours is the mean over tasks of the mean of a task's
    metrics (T5's rule), which for a single metric is the metric itself.
    """

    key: str
    parts: tuple[tuple[Metric, ...], ...]
    digits: int = 2
    paper_digits: int = 2

    @property
    def metrics(self) -> list[Metric]:
        return [metric for part in self.parts for metric in part]


def one(key: str, source: Source, name: str, **digits: int) -> Quantity:
    return Quantity(key, ((Metric(source, name),),), **digits)


@dataclass(frozen=True)
class Runs:
    """Our records for one row."""

    records: Sequence[Record]
    vanilla: Sequence[Record]  # those of the row that p-values are against

    def of(self, source: Source) -> list[Record]:
        """Those that may be averaged: of the furthest step, and scored as the newest of them.

        Figures of an earlier step, another copy of the test set or other decoding settings stay
        out, and the older of two figures of one seed.
        """
        return _one_setup(self.records, source)

    def figures(self, metric: Metric) -> dict[int, Record]:
        return _by_seed(self.of(metric.source), metric.name)

    def vanilla_figures(self, metric: Metric) -> dict[int, Record]:
        return _by_seed(_one_setup(self.vanilla, metric.source), metric.name)

    def p_values(self, metric: Metric) -> dict[int, Record]:
        tests = [r for r in self.of(metric.source) if significance.is_p_value(r)]
        return significance.p_values(self.figures(metric), tests, self.vanilla_figures(metric))

    def values(self, quantity: Quantity) -> dict[int, float]:
        """Seed -> value, of the seeds of which every part is there, from one step of one run."""
        found = [[self.figures(metric) for metric in part] for part in quantity.parts]
        flat = [figures for part in found for figures in part]
        seeds = set.intersection(*(set(figures) for figures in flat))
        return {
            seed: fmean(fmean(figures[seed].value for figures in part) for part in found)
            for seed in sorted(seeds)
            if len({(figures[seed].run, figures[seed].step) for figures in flat}) == 1
        }


def _one_setup(records: Sequence[Record], source: Source) -> list[Record]:
    found = [record for record in records if source.has(record)]
    figures = [record for record in found if not significance.is_p_value(record)]
    lead = max(figures, key=lambda record: (record.step, record.when), default=None)
    newest: dict[tuple[int, str], Record] = {}
    for record in found:
        place = record.seed, record.metric
        if lead and _setup(record) == _setup(lead):
            held = newest.get(place)
            newest[place] = record if held is None or record.when >= held.when else held
    return list(newest.values())


def _setup(record: Record) -> tuple[object, ...]:
    return record.step, record.test_set_sha256, record.settings


def _by_seed(records: Iterable[Record], name: str) -> dict[int, Record]:
    return {r.seed: r for r in sorted(records, key=lambda r: r.seed) if r.metric == name}


def choose(
    records: Iterable[Record],
    variant: str,
    families: Sequence[Family],
    mixes: Sequence[str | None],
    is_shown: Callable[[Record], bool],
) -> list[Record]:
    """The records of one row: of each family those of the preferred kind.

    Kinds differ in the mix (where the paper's name leaves it open: `mixes`, preferred first), in
    whether they start from another run, and in the task.
    """
    keys = row_names(variant, mixes)
    chosen = []
    for family in families:
        kinds: dict[tuple[object, ...], list[Record]] = {}
        for record in records:
            if record.row in keys and family.allows(record) and is_shown(record):
                kind = keys.index(record.row), *family.rank(record)
                kinds.setdefault(kind, []).append(record)
        chosen += kinds[min(kinds)] if kinds else []
    return chosen


def row_names(variant: str, mixes: Sequence[str | None]) -> list[str]:
    """`random+vanilla` with the mixes (sum, softmax) -> those two rows of ours."""
    name, _, mix = variant.partition(";mix=")
    return list(dict.fromkeys(row_key(name, m) for m in ([mix] if mix else mixes)))


def left_out(
    records: Iterable[Record],
    shown: Iterable[Record],
    tasks: Iterable[str],
    names: Iterable[str],
    rows: Iterable[str],
    sources: Sequence[Source],
) -> list[str]:
    """A note on figures of the paper's scale that stand in no cell, counted by the reason."""
    known, rows = {id(record) for record in shown}, set(rows)
    reasons = Counter(
        _reason(record, rows, sources)
        for record in records
        if record.scale == "paper"
        and record.task in set(tasks)
        and record.metric in set(names)
        and id(record) not in known
    )
    if not reasons:
        return []
    why = "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return [f"Not shown of scale=paper: {reasons.total()} figures ({why})."]


def _reason(record: Record, rows: set[str], sources: Sequence[Source]) -> str:
    if record.row not in rows:
        return "of another row"
    if not any(source.is_of(record) for source in sources):
        return "of another data set or split"
    if not any(source.has(record) for source in sources):
        return "with other decoding"
    if record.overrides.keys() - {significance.INIT_FROM}:
        return "of runs with overrides"
    return "of another step, set-up or copy of the test set than those shown"
