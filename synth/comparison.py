"""Is a row really another than vanilla? Paired tests on the lines that evaluations have saved."""

from __future__ import annotations

import collections
import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from data import sources, tasks
from data.tasks.task import Example
from synth import lines
from synth.errors import UserError
from synth.metrics.score import Result, Score
from synth.metrics.significance import Comparison, compare_bleu, compare_lines
from synth.results import Record
from synth.results.significance import workdir
from synth.rundir import RunDir
from synth.scoring import all_results


class Untested:
    """Figures whose test lacks lines, by task, scale and row."""

    def __init__(self):
        self._places: dict[str, dict[str, None]] = {}  # of a row, in order and once
        self._counts: collections.Counter[str] = collections.Counter()

    @property
    def count(self) -> int:
        return self._counts.total()

    def add(self, figure: Record, lacking: Iterable[Record]) -> None:
        """A figure, and those of it and vanilla's that have no lines."""
        row = f"{figure.task}, scale={figure.scale}, {figure.row}"
        self._counts[row] += 1
        self._places.setdefault(row, {}).update(dict.fromkeys(map(_place, lacking)))

    def lines(self) -> list[str]:
        """One for each row: what has no lines, where they were looked for, how many figures."""
        return [
            f"{row}: {self._counts[row]} figures not tested, no lines of {', '.join(places)}"
            for row, places in self._places.items()
        ]


def _place(record: Record) -> str:
    directory = workdir(record)
    if directory is None:
        return f"{record.row} (its commands name no run directory)"
    return f"{record.row} in {directory}/eval"


def compare(figure: Record, vanilla: Record, *, untested: Untested) -> Comparison | None:
    """The test of a figure against vanilla's; None where there is none, or lines are missing.

    What lacks lines is added to `untested`.

    BLEU: sacrebleu's paired bootstrap. What is a mean over lines (ROUGE, CIDEr, METEOR, exact
    match, accuracies): the paired permutation test of the lines' figures; likelihoods: of the
    lines' nats. What is neither has no test: BLEU of replies, correlations, F1 over a set.
    """
    test = _test_of(figure)
    if test is None:
        return None
    found = [_files(record) for record in (vanilla, figure)]
    if not all(found):
        pairs = zip((figure, vanilla), reversed(found), strict=True)
        untested.add(figure, [record for record, paths in pairs if not paths])
        return None
    return test(figure, *(paths[0] for paths in found))


def _test_of(figure: Record) -> Callable[[Record, Path, Path], Comparison | None] | None:
    if "nll" in figure.sums:
        return _by_nats
    if figure.metric in ("bleu", "bleu_intl", "bleu_intl_uncased"):
        return _by_bleu
    if "right" in figure.sums:
        return _by_labels
    if "bleu" in figure.metric:  # of compounds or of replies: no mean over lines
        return None
    return _by_lines if "beam" in figure.settings else None


def _files(record: Record) -> list[Path]:
    """The lines of a figure: none, or one file."""
    if (directory := workdir(record)) is None:
        return []
    try:
        run, settings = RunDir(directory), record.settings
    except UserError:  # in a bucket that is not at hand
        return []
    average = f"-average{settings['average']}" if "average" in settings else ""
    stem = f"{record.split}-step{record.step}{average}"
    if run.eval.is_dir() and run.info().config.data.dataset != record.dataset:
        stem = f"{record.dataset}-{stem}"  # a part of a mixture
    ending = "-nll.jsonl" if "nll" in record.sums else "-labels.jsonl"
    if "beam" in settings:
        alpha = f"{settings['alpha']:g}" if "alpha" in settings else "*"
        ending = f"-beam{settings['beam']}-alpha{alpha}.txt"
    return sorted(run.eval.glob(stem + ending))


def _by_nats(figure: Record, baseline: Path, system: Path) -> Comparison:
    del figure
    return compare_lines(*([row["nll"] for row in _rows(path)] for path in (baseline, system)))


def _by_labels(figure: Record, baseline: Path, system: Path) -> Comparison:
    del figure
    right = (
        [100.0 * (row["label"] == row["predicted"]) for row in _rows(path)]
        for path in (baseline, system)
    )
    return compare_lines(*right)


def _by_bleu(figure: Record, baseline: Path, system: Path) -> Comparison:
    examples = _read_examples(figure.task, figure.dataset, figure.split, system)
    return compare_bleu(
        _read_outputs(figure.task, baseline),
        _read_outputs(figure.task, system),
        [example["targets"] for example in examples],
        form=figure.metric,
    )


def _by_lines(figure: Record, baseline: Path, system: Path) -> Comparison | None:
    figures = [_figures_of_lines(figure, path) for path in (baseline, system)]
    return compare_lines(*figures) if all(figures) else None


def _figures_of_lines(figure: Record, path: Path) -> tuple[float, ...]:
    """One for each line or question; none where the metric is no mean, or cannot be had here."""
    result = _all_results(figure.task, figure.dataset, figure.split, path).get(figure.metric)
    return result.lines if isinstance(result, Score) else ()


@functools.lru_cache(maxsize=4)  # all metrics of a pair of runs come from the same lines
def _all_results(task: str, dataset: str, split: str, path: Path) -> dict[str, Result]:
    examples = _read_examples(task, dataset, split, path)
    outputs = _read_outputs(task, path)
    return all_results(tasks.get_task(task), split, examples, outputs)


def _read_outputs(name: str, path: Path) -> list[str]:
    task = tasks.get_task(name)
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    return [lines.with_line_breaks(line, task) for line in text.split("\n")]


def _read_examples(task: str, dataset: str, split: str, path: Path) -> list[Example]:
    """The examples that the run's outputs in `path` answer."""
    data = RunDir(path.parents[1]).info().config.data
    return _open_examples(task, data.dataset, dataset, split, data.data_dir)


@functools.cache
def _open_examples(task: str, whole: str, dataset: str, split: str, data_dir: str) -> list[Example]:
    """Of a data set, or of that part of the mixture `whole`."""
    found = tasks.get_task(task).dataset(whole)
    if whole != dataset:
        (found,) = (part for part in found.parts if part.name == dataset)
    return list(sources.read_all(sources.open_split(found, split, data_dir=data_dir)))


def _rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
