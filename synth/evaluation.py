"""Scoring a run directory: every metric of its task on a whole split, into the run store."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from data import sources, tasks
from data.tasks.task import Dataset, Example
from synth import decoding_memory, distributed, likelihood, lines, scoring
from synth.configuration import Config
from synth.decoding import Search
from synth.errors import UserError
from synth.experiment import Experiment, open_split
from synth.files import write_text
from synth.outputs import write_outputs
from synth.progress import say
from synth.rundir import RunDir
from synth.scoring import Figure
from synth.trained import load_trained


@dataclasses.dataclass(frozen=True)
class Scored:
    """Everything that an evaluation found out about one split of one data set.

    Attributes:
      step: of the checkpoint.
      dataset, split: their names.
      n_items: lines scored.
      sha256: of the raw text scored.
      figures: the scores.
      samples: (source, reference, output) of a few lines; empty where nothing is written.
      files: what was written into the run directory.
      params: number of trained parameters.
      seconds: time it took.
    """

    step: int
    dataset: str
    split: str
    n_items: int
    sha256: str
    figures: list[Figure]
    samples: list[tuple[str, str, str]]
    files: list[Path]
    params: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class _Model:
    """A trained model, and how it is scored."""

    experiment: Experiment
    step: int
    params: Any
    fixed: Any
    search: Search
    glove: str
    chosen: dict[str, Any]  # which checkpoint, where it is not the last

    @property
    def trained(self) -> tuple[Experiment, Any, Any]:
        """(experiment, params, fixed)."""
        return self.experiment, self.params, self.fixed

    @functools.cached_property
    def batch_tokens(self) -> int:
        """Input tokens that are decoded at once; the same for all parts of a mixture."""
        return decoding_memory.batch_tokens(self.experiment, self.search)

    @property
    def settings(self) -> dict[str, Any]:
        """The choices that outputs depend on; greedy search knows no length penalty."""
        beam, alpha, extra = self.search.beam, self.search.alpha, self.search.extra_length
        penalty = {"alpha": alpha} if beam > 1 else {}
        return self.chosen | {"beam": beam, "extra_length": extra} | penalty


def evaluate(
    run: RunDir,
    *,
    split: str | None = None,
    beam: int | None = None,
    alpha: float | None = None,
    checkpoint: str = "last",
    average: int = 1,
    glove: str = "",
) -> list[Scored]:
    """Scores the run on every line of a split; of a mixture, on each of its parts.

    Interrupted while outputs are written, it goes on after those that are there.

    Args:
      run: the run directory; its text is read from the data directory that its config names.
      split: its name; None takes those that tables show, `test` or, where its labels are not
        public, `validation`.
      beam: width of the beam search, 1 = greedy; None takes the run's config.
      alpha: exponent of the length penalty; None takes the run's config.
      checkpoint: 'last', 'best' (lowest validation loss) or a step.
      average: how many checkpoints, up to that one, the parameters are the mean of.
      glove: a file of word vectors, for the embedding metrics of dialogue.

    Raises:
      UserError, data.DataError: for a directory, split or setting that cannot be scored.
    """
    asked = dict(split=split, beam=beam, alpha=alpha, checkpoint=checkpoint, average=average)
    distributed.check_equal({f"--{name}": value for name, value in asked.items()})
    search = check(run.info().config, split=split, beam=beam, alpha=alpha, glove=glove)
    experiment, step, params, fixed = load_trained(run, checkpoint, average)
    chosen: dict[str, Any] = {} if checkpoint == "last" else {"checkpoint": checkpoint}
    chosen |= {} if average == 1 else {"average": average}
    model = _Model(experiment, step, params, fixed, search, glove, chosen)
    with contextlib.ExitStack() as stack:
        distributed.in_first(lambda: stack.enter_context(run.hold_scoring()))
        sets = _sets(experiment.dataset, split)
        return [_score(model, run, dataset, name) for dataset, name in sets]


def check(
    config: Config, *, split: str | None, beam: int | None, alpha: float | None, glove: str
) -> Search:
    """The search that the outputs of a run of this config are found with; see `evaluate`.

    Raises:
      UserError, data.DataError: for what cannot be scored so, or has no use there.
    """
    task, decode = tasks.get_task(config.data.task), config.decode
    scoring.check_flags(task, beam=beam, alpha=alpha, glove=glove)
    for dataset, name in _sets(task.dataset(config.data.dataset), split):
        sources.check_split(dataset, name)
    search = Search(
        beam=decode.beam if beam is None else beam,
        alpha=decode.alpha if alpha is None else alpha,
        extra_length=decode.extra_length,
    )
    if search.beam < 1 or not search.alpha >= 0.0:
        raise UserError(
            f"--beam={search.beam} must be at least 1 and --alpha={search.alpha} at least 0"
        )
    if search.beam == 1 and alpha is not None:
        raise UserError(f"--alpha={alpha} has no use with beam 1: a greedy search has no penalty")
    return search


def _sets(whole: Dataset, split: str | None) -> Iterator[tuple[Dataset, str]]:
    """What is scored: (data set, split). Of MNLI both of its development sets."""
    for dataset in whole.parts or (whole,):
        if split is not None:
            yield dataset, split
            continue
        for name in dataset.split_of:
            if name == dataset.scored or name.startswith(f"{dataset.scored}_"):
                yield dataset, name


def _score(model: _Model, run: RunDir, dataset: Dataset, split: str) -> Scored:
    start = time.monotonic()
    experiment, task = model.experiment, model.experiment.task
    part_of_mixture = dataset is not experiment.dataset
    if part_of_mixture:
        say(f"--- {dataset.name}, {split}")
    text = open_split(dataclasses.replace(experiment, dataset=dataset), split)
    examples = list(sources.read_all(text))
    average = f"-average{model.chosen['average']}" if "average" in model.chosen else ""
    stem = f"{dataset.name}-{split}" if part_of_mixture else split
    stem = run.eval / f"{stem}-step{model.step}{average}"
    figures: list[Figure] = []
    files: list[Path] = []
    samples: list[tuple[str, str, str]] = []
    if scoring.writes(task):
        path = stem.with_name(
            f"{stem.name}-beam{model.search.beam}-alpha{model.search.alpha:g}.txt"
        )
        outputs = _write_outputs(model, examples, path)
        figures += scoring.score_outputs(
            task,
            split,
            examples,
            [lines.with_line_breaks(line, task) for line in outputs],
            settings=model.settings,
            glove=model.glove,
        )
        files.append(path)
        samples = _samples(examples, outputs)
    for metric, ending, score in (
        ("perplexity", "nll", likelihood.score_likelihood),
        ("accuracy", "labels", likelihood.score_labels),
    ):
        if metric in task.metrics:
            path = stem.with_name(f"{stem.name}-{ending}.jsonl")
            figures += score(*model.trained, examples, path=path, settings=model.chosen)
            files.append(path)
    if text.invalid:
        say(f"{len(text.invalid)} lines of {split} are not UTF-8; their bad bytes became U+FFFD")
    return Scored(
        step=model.step,
        dataset=dataset.name,
        split=split,
        n_items=len(examples),
        sha256=text_sha256(examples),
        figures=figures,
        samples=samples,
        files=files,
        params=sum(leaf.size for leaf in jax.tree.leaves(model.params)),
        seconds=time.monotonic() - start,
    )


def _write_outputs(model: _Model, examples: Sequence[Example], path: Path) -> list[str]:
    """The outputs, one a line; in `path` when all are there, until then beside it."""
    part = path.with_suffix(".part")
    outputs = write_outputs(
        *model.trained,
        examples,
        model.search,
        batch_tokens=model.batch_tokens,
        part=part,
    )
    if distributed.is_first():
        write_text(path, "".join(line + "\n" for line in outputs))
        part.unlink(missing_ok=True)
    return outputs


def _samples(
    examples: Sequence[Example], outputs: Sequence[str], count: int = 5
) -> list[tuple[str, str, str]]:
    """`count` lines spread evenly over the split."""
    count = min(count, len(examples))
    places: list[int] = np.linspace(0, len(examples) - 1, count, dtype=int).tolist()
    return [(examples[i]["inputs"], examples[i]["targets"], outputs[i]) for i in places]


def text_sha256(examples: Sequence[Example]) -> str:
    """SHA-256 of the raw text of a split, by which records of the same test set are known."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps(example, sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()
