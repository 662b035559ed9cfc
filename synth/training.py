"""The training run: from a config and a directory to a trained, resumable, logged model."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
from collections.abc import Iterator
from typing import Any

import grain
import jax
import numpy as np

from data import pipelines, report
from data.sources import read_all
from data.tasks import get_task
from data.tokenizer import Tokenizer
from synth import sharding
from synth.checkpoints import Checkpoints
from synth.configuration import Config, flatten
from synth.errors import UserError
from synth.experiment import (
    Experiment,
    TrainState,
    abstract_model,
    as_dicts,
    evaluation_batches,
    layout,
    make_experiment,
    open_split,
)
from synth.progress import Progress, say
from synth.rundir import MetricsLog, RunDir, RunInfo
from synth.steps import make_nll_step, make_train_step
from synth.trained import load_trained


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended: the step it reached, and the signal that stopped it, if any."""

    step: int
    stopped_by: int | None


def train(info: RunInfo, run: RunDir) -> Outcome:
    """Trains, or goes on training, the run in `run` until `train.num_steps` updates are done.

    A run that was stopped, by a signal or a crash, goes on from its last checkpoint and ends with
    the same parameters and the same logged figures as one that never stopped.

    Raises:
      UserError, data.DataError: for whatever the user can mend; checkpoints are kept.
    """
    config = info.config
    check_settings(config)
    run.check(info)
    last = config.train.num_steps
    if (reached := latest_step(run)) is not None and reached >= last:
        if reached > last:
            raise UserError(
                f"--workdir={run.path} has been trained to step {reached}, beyond train.num_steps="
                f"{last}; name a new directory, or more steps"
            )
        say(f"already trained: step {reached} of {last}")
        return Outcome(reached, None)
    experiment = make_experiment(config, _vocabulary(run, config, begun=reached is not None))
    if reached is None:
        check_source(experiment)
    run.begin(info)
    run.set_vocabulary(experiment.tokenizer)
    with contextlib.closing(
        Checkpoints(run.checkpoints, keep=config.train.keep_checkpoints)
    ) as checkpoints:
        trainer = _Trainer(experiment, run, checkpoints)
        with contextlib.closing(trainer):
            return trainer.run()


def _vocabulary(run: RunDir, config: Config, *, begun: bool) -> Tokenizer | None:
    """Of a run that starts from another one the vocabulary: that one's, until it has begun."""
    if not (source := config.train.init_from):
        return None
    if begun:
        return Tokenizer.load(run.vocabulary)
    if not RunDir(source).checkpoints.is_dir():
        raise UserError(f"train.init_from={source} is no run with a checkpoint")
    return Tokenizer.load(RunDir(source).vocabulary)


def check_source(experiment: Experiment) -> None:
    """Raises UserError if the run of `train.init_from` is of another model or vocabulary."""
    if not (source := experiment.config.train.init_from):
        return
    with contextlib.closing(Checkpoints(RunDir(source).checkpoints, keep=1)) as checkpoints:
        checkpoints.check_vocabulary(checkpoints.resolve("last"), experiment.tokenizer.hash)
    config = RunDir(source).info().config
    task = get_task(config.data.task)
    graph = abstract_model(config, task, experiment.vocab_size)
    found, wanted = (_shapes(as_dicts(states)) for states in (graph[1:], experiment.variables))
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise UserError(
                f"train.init_from={source} is a run of another model: {name} is "
                f"{found.get(name, 'absent')} there and {wanted.get(name, 'absent')} here"
            )


def _shapes(states: Any) -> dict[str, tuple[int, ...]]:
    """Of each array its name, as decoder.blocks.0.self_attention.output_HKD, and its shape."""
    return {
        ".".join(str(entry.key) for entry in path[1:]): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(states)
    }


def latest_step(run: RunDir) -> int | None:
    """The step of the run's newest checkpoint, or None."""
    if not run.checkpoints.is_dir():
        return None
    with contextlib.closing(Checkpoints(run.checkpoints, keep=1)) as checkpoints:
        return checkpoints.latest()


def check_settings(config: Config) -> None:
    """Raises UserError unless the numbers of the train and decode sections can be used."""
    least = {
        "train.num_steps": 1,
        "train.accumulate_steps": 1,
        "train.loss_tokens": 0,
        "train.log_every": 1,
        "train.eval_every": 1,
        "train.checkpoint_every": 1,
        "train.keep_checkpoints": 1,
        "decode.beam": 1,
        "decode.alpha": 0.0,
        "decode.extra_length": 0,
        "decode.batch_tokens": 1,
    }
    values = flatten(config)
    for key, smallest in least.items():
        if not values[key] >= smallest:
            raise UserError(f"{key}={values[key]} must be at least {smallest}")
    if not 0.0 <= config.train.label_smoothing < 1.0:
        raise UserError(
            f"train.label_smoothing={config.train.label_smoothing} must be at least 0 and below 1"
        )


def check_processes(before: int, now: int, batch_multiple: int) -> None:
    """Raises UserError unless a run of `before` processes can go on exactly with `now`.

    The global batches are the same for any number of processes that divides their rows.
    """
    if batch_multiple % now:
        raise UserError(
            f"the run was trained by {before} process(es) and cannot go on exactly with {now}: "
            f"data.batch_multiple={batch_multiple} is not a multiple of {now}"
        )


class _Trainer:
    """State and collaborators of one training loop."""

    def __init__(self, experiment: Experiment, run: RunDir, checkpoints: Checkpoints):
        self.experiment = experiment
        self.settings = experiment.config.train
        self.checkpoints = checkpoints
        self.state, position = self._restore_or_init(checkpoints.latest())
        self.iterator = iter(train_batches(experiment))
        if position is not None:
            self.iterator.set_state(position)
        self.step = int(self.state.step)
        self.log = MetricsLog(run, self.step) if jax.process_index() == 0 else None
        self.validation = Validation(experiment)

    def run(self) -> Outcome:
        """The loop. The device is ahead of it: nothing is fetched but on logging steps."""
        last = self.settings.num_steps
        train_step = make_train_step(self.experiment)
        progress = Progress(self.step, last, self.log.seconds if self.log else 0.0)
        with stop_signals() as signals:
            while self.step < last and not signals:
                batch = sharding.to_devices(next(self.iterator), self.experiment.mesh)
                with jax.profiler.StepTraceAnnotation("train", step_num=self.step):
                    self.state = train_step(self.state, batch)
                self.step += 1
                if self._due("log_every"):
                    self._log(progress)
                if self._due("eval_every") or self._due("checkpoint_every"):
                    with progress.paused():
                        self._evaluate_and_save()
            stopped_by = signals[0] if signals and self.step < last else None
            if stopped_by is not None:
                self._save(loss=None)
            self.checkpoints.wait()
        return Outcome(self.step, stopped_by)

    def close(self) -> None:
        """Writes out the log."""
        if self.log:
            self.log.close()

    def _due(self, key: str) -> bool:
        return self.step % self.settings[key] == 0 or self.step == self.settings.num_steps

    def _restore_or_init(self, step: int | None) -> tuple[TrainState, Any]:
        """The state, and the position in the data: None at the start."""
        if step is None:
            return self._init(), None
        restored = self.checkpoints.restore(
            step, self.experiment.abstract_state(), vocabulary=self.experiment.tokenizer.hash
        )
        multiple = self.experiment.config.data.batch_multiple
        check_processes(restored.meta["process_count"], jax.process_count(), multiple)
        say(f"going on from the checkpoint of step {step}")
        return restored.state, restored.data

    def _init(self) -> TrainState:
        """The state before the first step, with the parameters of `train.init_from` if given."""
        state = self.experiment.init_state()
        if not (source := self.settings.init_from):
            return state
        _, step, params, fixed = load_trained(RunDir(source), "last")
        shardings = self.experiment.shardings()
        say(f"starting from step {step} of {source}")
        return dataclasses.replace(
            state,
            params=jax.device_put(params, shardings.params),
            fixed=jax.device_put(fixed, shardings.fixed),
        )

    def _log(self, progress: Progress) -> None:
        sums = self._finite_sums()
        values = {
            "train/loss": sums["loss"] / sums["tokens"],
            "train/grad_norm": sums["grad_norm"] / sums["steps"],
            "train/learning_rate": np.asarray(self.experiment.schedule(self.step - 1)).item(),
            "train/tokens": sums["tokens"],
        }
        rate = progress.report(self.step, values["train/loss"], sums["tokens"], sums["steps"])
        if self.log:
            self.log.write(self.step, values, tokens_per_second=rate, seconds=progress.seconds)

    def _finite_sums(self) -> dict[str, float]:
        """The totals since the last logging step, after checking that all is finite."""
        sums = {name: value.item() for name, value in jax.device_get(self.state.sums).items()}
        if bad := sums["first_bad_step"]:
            raise self._not_finite("loss or gradient", bad)
        return sums

    def _not_finite(self, what: str, step: int) -> UserError:
        self.checkpoints.wait()
        kept = self.checkpoints.latest()
        return UserError(
            f"the {what} is not finite at step {step}; "
            f"{f'the checkpoint of step {kept} is kept' if kept else 'nothing was saved yet'}. "
            "Lower optimizer.learning_rate or raise optimizer.warmup_steps, in a new directory"
        )

    def _evaluate_and_save(self) -> None:
        self._finite_sums()
        loss = None
        if self._due("eval_every"):
            values = self.validation(self.state)
            loss = values["validation/loss"]
            if not math.isfinite(loss):
                raise self._not_finite("validation loss", self.step)
            say(
                f"step {self.step}: validation loss {loss:.4f}, perplexity per token "
                f"{values['validation/perplexity']:.2f}"
            )
            if self.log:
                self.log.write(self.step, values)
        self._save(loss)

    def _save(self, loss: float | None) -> None:
        self._finite_sums()
        meta = {
            "vocabulary": self.experiment.tokenizer.hash,
            "process_count": jax.process_count(),
            "config": self.experiment.config.to_dict(),
        }
        data = self.iterator.get_state()
        self.checkpoints.save(self.step, self.state, data, meta, loss)


class Validation:
    """Loss and perplexity per token over the whole validation split."""

    def __init__(self, experiment: Experiment):
        self._experiment = experiment
        self._step = make_nll_step(experiment)
        examples = list(read_all(open_split(experiment, "validation")))
        self._batches = evaluation_batches(experiment, examples)

    def __call__(self, state: TrainState) -> dict[str, float]:
        """Token-weighted over every example; what is longer than max_length counts cut."""
        nll, tokens = [], 0
        for batch in self._batches:
            arrays = sharding.to_devices(batch, self._experiment.mesh)
            nll.append(self._step(state.params, state.fixed, arrays).sum())
            tokens += (arrays["targets"] > 0).sum()
        loss = math.fsum(map(float, nll)) / float(tokens)
        return {"validation/loss": loss, "validation/perplexity": math.exp(min(loss, 700.0))}


def train_batches(experiment: Experiment) -> grain.IterDataset[dict[str, np.ndarray]]:
    """The run's endless training batches; says how full they are."""
    config = experiment.config
    split = open_split(experiment, "train")
    shapes = layout(config, experiment.task)
    order = dict(window=config.data.window, seed=config.seed)
    windows = pipelines.plan_windows(split, experiment.tokenizer, shapes, **order)
    say(f"{experiment.dataset.name}: {report.fill_report(windows)}")
    if split.invalid:
        say(f"{len(split.invalid)} of these rows are not UTF-8; their bad bytes became U+FFFD")
    return pipelines.train_batches(
        split,
        experiment.tokenizer,
        shapes,
        **order,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, so that the step in progress ends and is saved.

    A second signal is not waited for: it does what it does without us.
    """
    received: list[int] = []
    before: dict[int, Any] = {}

    def note(number, frame):
        received.append(number)
        # Not print: the signal may have come in the middle of one.
        os.write(2, b"\nstopping after this step; once more to stop at once\n")
        signal.signal(number, before[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
