"""Scoring outputs that were made elsewhere, so that any system can stand in the tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from data import sources, tasks
from data.tasks.task import Dataset, Example, Task
from synth import lines, scoring
from synth.configuration import Config
from synth.errors import UserError
from synth.evaluation import Scored, text_sha256
from synth.metrics.text import clean_hypothesis
from synth.scoring import Figure


def score_predictions(path: Path, config: Config, *, split: str | None, glove: str = "") -> Scored:
    """Scores a file with one output a line, in the order of the split.

    Line breaks inside outputs are written <n>, as generate.py writes them. A line is put in NFC and
    ends at its first end mark. Labels of a classification are written by their names.

    Args:
      path: the file, UTF-8.
      config: names the task and its data set.
      split: its name; None takes the one that tables show.
      glove: see `evaluate`.

    Raises:
      UserError, data.DataError: for a file that cannot be read, another number of lines than the
        split has, or a task whose models write nothing.
    """
    start = time.monotonic()
    task = tasks.get_task(config.data.task)
    dataset = task.dataset(config.data.dataset)
    if dataset.parts:
        known = ", ".join(part.name for part in dataset.parts)
        raise UserError(
            f"{dataset.name} is a mixture: name a part, --config.data.dataset=({known})"
        )
    scoring.check_flags(task, glove=glove)
    outputs = [clean_hypothesis(lines.with_line_breaks(line, task)) for line in _lines(path)]
    split = split or dataset.scored
    examples = list(
        sources.read_all(sources.open_split(dataset, split, data_dir=config.data.data_dir))
    )
    if len(outputs) != len(examples):
        raise UserError(
            f"{path} has {len(outputs):,} lines, but {split} of {dataset.name} has "
            f"{len(examples):,}"
        )
    return Scored(
        step=0,
        dataset=dataset.name,
        split=split,
        n_items=len(examples),
        sha256=text_sha256(examples),
        figures=_figures(task, dataset, split, examples, outputs, config, glove),
        samples=[],
        files=[],
        params=0,
        seconds=time.monotonic() - start,
    )


def _figures(
    task: Task,
    dataset: Dataset,
    split: str,
    examples: list[Example],
    outputs: list[str],
    config: Config,
    glove: str,
) -> list[Figure]:
    decode = config.decode
    settings: dict[str, Any] = {"beam": decode.beam, "extra_length": decode.extra_length}
    settings |= {"alpha": decode.alpha} if decode.beam > 1 else {}
    if scoring.writes(task):
        return scoring.score_outputs(task, split, examples, outputs, settings=settings, glove=glove)
    if task.kind != "classification":
        raise UserError(f"{task.name}: its models write nothing that could be scored")
    right = sum(
        output == task.labels[example["label"]]
        for output, example in zip(outputs, examples, strict=True)
    )
    sums = {"right": right, "examples": len(examples)}
    accuracy = 100.0 * right / len(examples)
    return [Figure("accuracy", accuracy, "names of labels, in percent", {}, sums, None)]


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--predictions={path} cannot be read: {error}") from error
    if not text:
        raise UserError(f"--predictions={path} is empty")
    return text.removesuffix("\n").split("\n")
