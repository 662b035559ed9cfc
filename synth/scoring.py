"""From what a model wrote to figures: the metrics of each task, under their names in the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data.tasks.task import Example, Task
from synth.errors import UserError
from synth.metrics.score import Result, Unavailable
from synth.progress import say


@dataclasses.dataclass(frozen=True)
class Figure:
    """One score: value, how it was computed, and the choices it depends on."""

    metric: str
    value: float
    signature: str
    settings: dict[str, Any]
    sums: dict[str, Any]
    empty_outputs: int | None


WRITTEN = ("bleu", "rouge", "dialogue", "understanding")  # metrics of what is written

# Where the store's name is not the metric's own.
_DIALOGUE = {f"bleu{n}": f"dialogue_bleu{n}" for n in (1, 2, 3, 4)} | {
    "rougeL": "dialogue_rougeL",
    "embedding": "embedding_average",
}
# The end of a column's name in the paper's tables -> what it is.
_COLUMNS = {
    "cola": "matthews",
    "cb_f1": "f1_macro",
    "f1": "f1",
    "f1a": "f1a",
    "em": "em",
    "pearson": "pearson",
    "spearman": "spearman",
}


def writes(task: Task) -> bool:
    """Whether outputs are written and scored, by a search whose settings matter."""
    return bool(set(task.metrics) & set(WRITTEN))


def check_flags(
    task: Task, *, beam: int | None = None, alpha: float | None = None, glove: str = ""
) -> None:
    """Raises UserError for a flag of eval.py that is given and has no use in a task."""
    for flag, value in (("beam", beam), ("alpha", alpha)):
        if value is not None and not writes(task):
            raise UserError(f"--{flag} has no use: {task.name} is scored without writing outputs")
    if glove and "dialogue" not in task.metrics:
        raise UserError(f"--glove has no use: {task.name} has no figure of word vectors")
    if glove and not Path(glove).is_file():
        raise UserError(f"--glove={glove}: there is no such file")


def score_outputs(
    task: Task,
    split: str,
    examples: Sequence[Example],
    outputs: Sequence[str],
    *,
    settings: dict[str, Any],
    glove: str = "",
) -> list[Figure]:
    """Figures of all that is written in a task; what cannot be computed here is said, with why.

    Args:
      task: names the metrics.
      split: that was scored.
      examples: of the split.
      outputs: one for each example.
      settings: of the decoding, kept with the figures.
      glove: a file of word vectors, for the embedding metrics of dialogue.
    """
    results = all_results(task, split, examples, outputs, glove=glove)
    return _figures(results, settings)


def all_results(
    task: Task,
    split: str,
    examples: Sequence[Example],
    outputs: Sequence[str],
    *,
    glove: str = "",
) -> dict[str, Result]:
    """What `score_outputs` makes figures of, by the figure's name."""
    results: dict[str, Result] = {}
    if "bleu" in task.metrics:
        results |= _bleu(task, outputs, [example["targets"] for example in examples])
    if "rouge" in task.metrics:
        from synth.metrics.rouge import rouge

        results |= rouge(outputs, [example["targets"] for example in examples])
    if "dialogue" in task.metrics:
        from synth.metrics.dialogue import dialogue

        found = dialogue(outputs, [example["targets"] for example in examples], glove=glove or None)
        results |= {_DIALOGUE.get(name, name): result for name, result in found.items()}
    if "understanding" in task.metrics:
        results |= _understanding(split, examples, outputs)
    return results


def _bleu(task: Task, outputs: Sequence[str], references: Sequence[str]) -> Mapping[str, Result]:
    from synth.metrics.bleu import compound_split_bleu, corpus_bleu

    scores = corpus_bleu(outputs, references)
    for warning in scores["bleu"].warnings:
        say(f"note: {warning}")
    results: dict[str, Result] = dict(scores)
    if task.target_language == "de":  # a recipe for German compounds
        results["bleu_tok_atat"] = compound_split_bleu(outputs, references, language="de")
    return results


def _understanding(
    split: str, examples: Sequence[Example], outputs: Sequence[str]
) -> dict[str, Result]:
    from synth.metrics.understanding import score_task

    # Also of a stand-in, which begins as the task whose form it has.
    name = examples[0]["inputs"].split()[0].rstrip(":")
    found = score_task(name, outputs, examples, mismatched=split.endswith("_mismatched"))
    return {_metric(column): result for column, result in found.items()}


def _metric(column: str) -> str:
    return _COLUMNS.get(column) or _COLUMNS.get(column.rpartition("_")[2], "accuracy")


def _figures(results: Mapping[str, Result], settings: dict[str, Any]) -> list[Figure]:
    figures = []
    for metric, result in results.items():
        if isinstance(result, Unavailable):
            say(f"{metric}: n/a, {result.reason}")
            continue
        figures.append(Figure(metric, result.value, result.signature, settings, {}, result.n_empty))
    return figures
