"""Is a row really another than vanilla? Paired tests on the lines that evaluations have saved."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

from data import sources, tasks
from synth import lines
from synth.metrics.significance import Comparison, compare_bleu, compare_lines
from synth.progress import say
from synth.results import Record
from synth.results.significance import workdir
from synth.rundir import RunDir

_ROUGE = ("rouge1", "rouge2", "rougeLsum")


def compare(figure: Record, vanilla: Record) -> Comparison | None:
    """The test of a figure against vanilla's; None where there is none, or lines are missing.

    BLEU: sacrebleu's paired bootstrap. ROUGE and accuracies of labels: the paired permutation
    test of the lines' figures; likelihoods: of the lines' nats.
    """
    test = _test_of(figure)
    if test is None:
        return None
    found = [_files(record) for record in (vanilla, figure)]
    if not all(found):
        say(f"no lines of {figure.row} or vanilla at hand for {figure.metric}: not tested")
        return None
    return test(figure, *(paths[0] for paths in found))


def _test_of(figure: Record) -> Callable[[Record, Path, Path], Comparison] | None:
    if "nll" in figure.sums:
        return _by_nats
    if figure.metric in ("bleu", "bleu_intl", "bleu_intl_uncased"):
        return _by_bleu
    if figure.metric in _ROUGE:
        return _by_rouge
    return _by_labels if "right" in figure.sums else None


def _files(record: Record) -> list[Path]:
    """The lines of a figure: none, or one file."""
    if (directory := workdir(record)) is None:
        return []
    run, settings = RunDir(directory), record.settings
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
    return compare_bleu(
        _outputs(figure, baseline),
        _outputs(figure, system),
        _references(figure, system),
        form=figure.metric,
    )


def _by_rouge(figure: Record, baseline: Path, system: Path) -> Comparison:
    from synth.metrics.rouge import rouge

    references = _references(figure, system)
    scores = (
        rouge(_outputs(figure, path), references, types=(figure.metric,))[figure.metric].lines
        for path in (baseline, system)
    )
    return compare_lines(*scores)


def _outputs(figure: Record, path: Path) -> list[str]:
    task = tasks.get_task(figure.task)
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    return [lines.with_line_breaks(line, task) for line in text.split("\n")]


def _references(figure: Record, path: Path) -> list[str]:
    data_dir = RunDir(path.parents[1]).info().config.data.data_dir
    return _read_references(figure.task, figure.dataset, figure.split, data_dir)


@functools.cache
def _read_references(task: str, dataset: str, split: str, data_dir: str) -> list[str]:
    text = sources.open_split(tasks.get_task(task).dataset(dataset), split, data_dir=data_dir)
    return [example["targets"] for example in sources.read_all(text)]


def _rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
