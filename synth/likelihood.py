"""How likely a model finds the targets of a split, line by line; of a classifier, its labels."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.tasks.task import Example
from synth import distributed
from synth.experiment import Experiment, evaluation_batches, layout
from synth.files import write_text
from synth.metrics.perplexity import Sums, perplexity, text_counts
from synth.passes import run_pass
from synth.scoring import Figure
from synth.steps import make_label_step, make_nll_step


def score_likelihood(
    experiment: Experiment,
    params: Any,
    fixed: Any,
    examples: Sequence[Example],
    *,
    path: Path,
    settings: dict[str, Any],
) -> list[Figure]:
    """Perplexities of a split, and bits per byte; nats and tokens of each line go to `path`.

    Args:
      experiment, params, fixed: the model.
      examples: of the split, in order.
      path: a file of JSON Lines.
      settings: kept with the figures.
    """
    nll_N, tokens_N, scored_lines = line_likelihoods(experiment, params, fixed, examples)
    words = size = 0  # of span corruption: blocks of running text have no words of their own
    if scored_lines:
        words, size = text_counts(line.replace("\n", " ") for line in scored_lines)
    sums = Sums(math.fsum(nll_N), int(tokens_N.sum()), words, size, len(nll_N))
    _write_rows(path, {"nll": nll_N, "tokens": tokens_N})
    signature = f"natural log, EOS counted, vocabulary {experiment.tokenizer.hash[:16]}"
    return [
        Figure(metric, value, signature, settings, dataclasses.asdict(sums), None)
        for metric, value in perplexity(sums).items()
        if math.isfinite(value)
    ]


def line_likelihoods(
    experiment: Experiment, params: Any, fixed: Any, examples: Sequence[Example]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """For each example of a split: nats (float64), tokens with EOS (int), and the text they cover.

    The text is the target itself, but for those that were cut, of which only the scored
    beginning is given; so that per-word and per-byte figures count what was scored. Of span
    corruption it is empty: its examples are blocks.
    """
    batches = evaluation_batches(experiment, examples)
    nll_step = make_nll_step(experiment)
    nll_N = np.zeros(batches.examples)
    tokens_N = np.zeros(batches.examples, np.int64)
    scored = []
    if experiment.task.kind != "span_corruption":
        scored = [example["targets"] for example in examples]
    longest = layout(experiment.config, experiment.task).longest("targets")

    def step(batch):
        return nll_step(params, fixed, batch)

    for nll_B, batch in run_pass(experiment, batches, step, "likelihood"):
        rows = zip(nll_B, batch["targets"], batch["index"], strict=True)
        for nll, targets_L, index in rows:
            if index < 0:
                continue
            nll_N[index], tokens_N[index] = nll, int((targets_L > 0).sum())
            if scored and tokens_N[index] == longest:
                scored[index] = experiment.tokenizer.decode([targets_L])[0]
    return nll_N, tokens_N, scored


def score_labels(
    experiment: Experiment,
    params: Any,
    fixed: Any,
    examples: Sequence[Example],
    *,
    path: Path,
    settings: dict[str, Any],
) -> list[Figure]:
    """Accuracy of a classifier; the label of each line goes to `path`. Arguments as above."""
    batches = evaluation_batches(experiment, examples)
    label_step = make_label_step(experiment)
    label_N = np.array([example["label"] for example in examples])
    predicted_N = np.zeros(batches.examples, np.int64)

    def step(batch):
        return label_step(params, fixed, batch)

    for predicted_B, batch in run_pass(experiment, batches, step, "labels"):
        index_B = batch["index"]
        predicted_N[index_B[index_B >= 0]] = predicted_B[index_B >= 0]
    _write_rows(path, {"label": label_N, "predicted": predicted_N})
    right = int((predicted_N == label_N).sum())
    sums = {"right": right, "examples": len(label_N)}
    signature = f"the likeliest of {len(experiment.task.labels)} labels, in percent"
    return [Figure("accuracy", 100.0 * right / len(label_N), signature, settings, sums, None)]


def _write_rows(path: Path, columns: dict[str, np.ndarray]) -> None:
    """JSON Lines, one object for each element of the columns; written by the first process."""
    if not distributed.is_first():
        return
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
