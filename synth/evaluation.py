"""Scoring a run directory: likelihood, BLEU and accuracy on a whole split, into the run store."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from tqdm import tqdm

from data import pipelines, sources
from synth import decode, sharding
from synth.compilation import jit
from synth.errors import UserError
from synth.experiment import (
    Experiment,
    evaluation_batches,
    layout,
    open_split,
)
from synth.files import write_text
from synth.metrics.bleu import corpus_bleu
from synth.metrics.perplexity import Sums, perplexity, text_counts
from synth.progress import say
from synth.rundir import RunDir
from synth.steps import make_label_step, make_nll_step
from synth.trained import load_trained


@dataclasses.dataclass(frozen=True)
class Figure:
    """One score: value, how it was computed, and the choices it depends on."""

    metric: str
    value: float
    signature: str
    settings: dict[str, Any]
    sums: dict[str, Any]
    empty_outputs: int | None


@dataclasses.dataclass(frozen=True)
class Scored:
    """Everything that an evaluation found out.

    Attributes:
      step: of the checkpoint.
      split: name of the split.
      n_items: lines scored.
      sha256: of the raw text scored.
      figures: the scores.
      samples: (source, reference, hypothesis) of a few lines; empty for language models.
      files: what was written into the run directory.
      params: number of trained parameters.
      seconds: time it took.
    """

    step: int
    split: str
    n_items: int
    sha256: str
    figures: list[Figure]
    samples: list[tuple[str, str, str]]
    files: list[Path]
    params: int
    seconds: float


def evaluate(
    run: RunDir,
    *,
    split: str | None = None,
    beam: int | None = None,
    alpha: float | None = None,
    checkpoint: str = "last",
) -> Scored:
    """Scores the run on every line of a split.

    Args:
      run: the run directory; its text is read from the data directory that its config names.
      split: train, validation or test; None takes the one that tables show, `test` or, where its
        labels are not public, `validation`.
      beam: width of the beam search, 1 = greedy; None takes the run's config.
      alpha: exponent of the length penalty; None takes the run's config.
      checkpoint: 'last', 'best' (lowest validation loss) or a step.

    Raises:
      UserError, data.DataError: for a directory, split or setting that cannot be scored.
    """
    start = time.monotonic()
    experiment, step, params, fixed = load_trained(run, checkpoint)
    settings = experiment.config.decode.to_dict()
    settings |= {} if beam is None else {"beam": beam}
    settings |= {} if alpha is None else {"alpha": alpha}
    if settings["beam"] < 1 or settings["alpha"] < 0.0:
        raise UserError(
            f"--beam={settings['beam']} must be at least 1 and --alpha={settings['alpha']} "
            "at least 0"
        )
    task = experiment.task
    split = split or experiment.dataset.scored
    text = open_split(experiment, split)
    lines = list(sources.read_all(text))
    run.eval.mkdir(exist_ok=True)
    stem = run.eval / f"{split}-step{step}"
    chosen = {} if checkpoint == "last" else {"checkpoint": checkpoint}

    if task.kind == "classification":
        figures, files = _score_labels(experiment, params, fixed, text, stem, chosen)
    else:
        figures, files = _score_likelihood(experiment, params, fixed, text, stem, chosen)
    if text.invalid:
        say(f"{len(text.invalid)} lines of {split} are not UTF-8; their bad bytes became U+FFFD")
    samples: list[tuple[str, str, str]] = []
    if missing := set(task.metrics) - _COMPUTED:
        say(f"{', '.join(sorted(missing))}: not computed by this version")
    if "bleu" in task.metrics:
        hypotheses = translate(experiment, params, fixed, text, **settings)
        bleu, written = _score_bleu(hypotheses, lines, stem, settings, chosen)
        figures, files = bleu + figures, written + files
        samples = _samples(lines, hypotheses)
    return Scored(
        step=step,
        split=split,
        n_items=len(lines),
        sha256=text_sha256(lines),
        figures=figures,
        samples=samples,
        files=files,
        params=sum(leaf.size for leaf in jax.tree.leaves(params)),
        seconds=time.monotonic() - start,
    )


_COMPUTED = {"bleu", "perplexity", "accuracy"}


# --- Likelihood -----------------------------------------------------------------------------------


def _score_likelihood(experiment, params, fixed, text, stem: Path, chosen) -> tuple[list, list]:
    nll_N, tokens_N, scored_lines = line_likelihoods(experiment, params, fixed, text)
    words = size = 0  # of span corruption: blocks of running text have no words of their own
    if scored_lines:
        words, size = text_counts(line.replace("\n", " ") for line in scored_lines)
    sums = Sums(math.fsum(nll_N), int(tokens_N.sum()), words, size, len(nll_N))
    path = stem.with_name(f"{stem.name}-nll.jsonl")
    _write_rows(path, {"nll": nll_N, "tokens": tokens_N})
    signature = f"natural log, EOS counted, vocabulary {experiment.tokenizer.hash[:16]}"
    figures = [
        Figure(metric, value, signature, chosen, dataclasses.asdict(sums), None)
        for metric, value in perplexity(sums).items()
        if math.isfinite(value)
    ]
    return figures, [path]


def line_likelihoods(
    experiment: Experiment, params: Any, fixed: Any, text: sources.Split
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """For each example of a split: nats (float64), tokens with EOS (int), and the text they cover.

    The text is the target itself, but for those that were cut, of which only the scored
    beginning is given; so that per-word and per-byte figures count what was scored. Of span
    corruption it is empty: its examples are blocks.
    """
    batches = evaluation_batches(experiment, text)
    _tell_truncated(batches, experiment)
    step = make_nll_step(experiment)
    nll_N = np.zeros(batches.examples)
    tokens_N = np.zeros(batches.examples, np.int64)
    scored = []
    if experiment.task.kind != "span_corruption":
        scored = [example["targets"] for example in sources.read_all(text)]
    longest = layout(experiment.config, experiment.task).longest("targets")
    for batch in _progress(batches, "likelihood"):
        arrays = sharding.to_devices(batch, experiment.mesh)
        nll_B, targets_BL, index_B = _gather(
            (step(params, fixed, arrays), arrays["targets"], arrays["index"])
        )
        for nll, targets_L, index in zip(nll_B, targets_BL, index_B, strict=True):
            if index < 0:
                continue
            nll_N[index], tokens_N[index] = nll, int((targets_L > 0).sum())
            if scored and tokens_N[index] == longest:
                scored[index] = experiment.tokenizer.decode([targets_L])[0]
    return nll_N, tokens_N, scored


def _tell_truncated(batches: pipelines.EvalBatches, experiment: Experiment) -> None:
    if batches.truncated:
        say(
            f"{batches.truncated} of {batches.examples} examples "
            f"({batches.truncated / batches.examples:.1%}) are longer than the model takes "
            f"({layout(experiment.config, experiment.task).limits}) and were cut there"
        )


# --- Classification -------------------------------------------------------------------------------


def _score_labels(experiment, params, fixed, text, stem: Path, chosen) -> tuple[list, list]:
    batches = evaluation_batches(experiment, text)
    _tell_truncated(batches, experiment)
    step = make_label_step(experiment)
    label_N = np.array([example["label"] for example in sources.read_all(text)])
    predicted_N = np.zeros(batches.examples, np.int64)
    for batch in _progress(batches, "labels"):
        arrays = sharding.to_devices(batch, experiment.mesh)
        predicted_B, index_B = _gather((step(params, fixed, arrays), arrays["index"]))
        predicted_N[index_B[index_B >= 0]] = predicted_B[index_B >= 0]
    path = stem.with_name(f"{stem.name}-labels.jsonl")
    _write_rows(path, {"label": label_N, "predicted": predicted_N})
    right = int((predicted_N == label_N).sum())
    sums = {"right": right, "examples": len(label_N)}
    accuracy = 100.0 * right / len(label_N)
    signature = f"the likeliest of {len(experiment.task.labels)} labels, in percent"
    return [Figure("accuracy", accuracy, signature, chosen, sums, None)], [path]


# --- Translation ----------------------------------------------------------------------------------


def translate(
    experiment: Experiment,
    params: Any,
    fixed: Any,
    text: sources.Split,
    *,
    beam: int,
    alpha: float,
    extra_length: int,
    batch_tokens: int,
) -> list[str]:
    """Translations of all lines of a split, in order.

    Args:
      experiment, params, fixed: the model.
      text: the split; its targets are not looked at.
      beam, alpha: of the beam search; a beam of 1 is greedy.
      extra_length: tokens that a translation may have beyond its source's bucket.
      batch_tokens: source tokens decoded at once.
    """
    batches = evaluation_batches(experiment, text, batch_tokens=batch_tokens, sources_only=True)
    _tell_truncated(batches, experiment)
    decode_batch = make_decoder(experiment, beam=beam, alpha=alpha, extra_length=extra_length)
    hypotheses = [""] * len(text)
    for batch in _progress(batches, "decoding"):
        arrays = sharding.to_devices(batch, experiment.mesh)
        tokens_BT = decode_batch(params, fixed, arrays["inputs"])
        tokens_BT, index_B = _gather((tokens_BT, arrays["index"]))
        for line, index in zip(experiment.tokenizer.decode(tokens_BT), index_B, strict=True):
            if index >= 0:
                # One line, composed as the references are: what is saved is what is scored.
                hypotheses[index] = unicodedata.normalize("NFC", " ".join(line.splitlines()))
    return hypotheses


def make_decoder(
    experiment: Experiment, *, beam: int, alpha: float, extra_length: int
) -> Callable[[Any, Any, jax.Array], jax.Array]:
    """The jitted (params, fixed, inputs_BM) -> tokens_BT; one program per input length M."""
    max_length = experiment.config.model.max_length

    def decode_batch(params, fixed, inputs_BM):
        model: Any = experiment.model(params, fixed)
        batch = inputs_BM.shape[0]
        length = min(inputs_BM.shape[1] + extra_length, max_length)
        memory, cache = model.start(inputs_BM, beam, length)

        def step(tokens_B, index, cache):
            return model.step(tokens_B, index, memory, cache)

        if beam == 1:
            return decode.greedy(step, cache, batch, length)
        return decode.beam_search(step, cache, batch, beam=beam, alpha=alpha, max_length=length)[0]

    return jit(decode_batch)


def _score_bleu(hypotheses, lines, stem: Path, settings, chosen) -> tuple[list, list]:
    beam, alpha, extra = settings["beam"], settings["alpha"], settings["extra_length"]
    path = stem.with_name(f"{stem.name}-beam{beam}-alpha{alpha:g}.txt")
    write_text(path, "".join(line + "\n" for line in hypotheses))
    scores = corpus_bleu(hypotheses, [line["targets"] for line in lines])
    for warning in next(iter(scores.values())).warnings:
        say(f"note: {warning}")
    # Greedy search knows no length penalty.
    chosen = chosen | {"beam": beam, "extra_length": extra} | ({"alpha": alpha} if beam > 1 else {})
    figures = [
        Figure(metric, score.value, score.signature, chosen, {}, score.n_empty)
        for metric, score in scores.items()
    ]
    return figures, [path]


def _samples(
    lines: list[dict[str, str]], hypotheses: list[str], count: int = 5
) -> list[tuple[str, str, str]]:
    """`count` lines spread evenly over the split."""
    places = np.linspace(0, len(lines) - 1, num=min(count, len(lines)), dtype=int)
    return [(lines[i]["inputs"], lines[i]["targets"], hypotheses[i]) for i in places]


# --- Both -----------------------------------------------------------------------------------------


def text_sha256(lines: Sequence[dict[str, str]]) -> str:
    """SHA-256 of the raw text of a split, by which records of the same test set are known."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(json.dumps(line, sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()


def _write_rows(path: Path, columns: dict[str, np.ndarray]) -> None:
    """JSON Lines, one object for each element of the columns."""
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _gather(arrays: Any) -> Any:
    """The global arrays as numpy arrays, on every process."""
    if jax.process_count() == 1:
        return jax.device_get(arrays)
    return multihost_utils.process_allgather(arrays, tiled=True)


def _progress(batches: pipelines.EvalBatches, what: str):
    if not sys.stderr.isatty():
        say(f"{what}: {len(batches)} batches")
    return tqdm(batches, desc=what, unit="batch", dynamic_ncols=True, disable=None)
