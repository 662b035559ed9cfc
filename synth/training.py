"""The training run: from a config and a directory to a trained, resumable, logged model."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from typing import Any

import grain
import jax
import numpy as np

from data import pipelines, report
from data.sources import read_all
from synth import STARTED, configuration, distributed, init_from, sharding, utilisation
from synth.checkpoints import Checkpoints
from synth.errors import UserError
from synth.experiment import (
    Experiment,
    TrainState,
    evaluation_batches,
    layout,
    make_experiment,
    open_split,
)
from synth.files import remove_tree
from synth.heartbeat import Heartbeat
from synth.ledger import Ledger, summary
from synth.profile import Profile
from synth.progress import Progress, say
from synth.rundir import MetricsLog, RunDir, RunInfo
from synth.steps import make_nll_step, make_train_step
from synth.stopping import stop_signals

HEARTBEAT = "heartbeat"  # folder in the run directory
_PATIENCE = 10.0  # seconds


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended: the step it reached, and the signal that stopped it, if any."""

    step: int
    stopped_by: int | None


def train(info: RunInfo, run: RunDir, profile_steps: range = range(0)) -> Outcome:
    """Trains, or goes on training, the run in `run` until `train.num_steps` updates are done.

    A run that was stopped, by a signal or a crash, goes on from its last checkpoint and ends with
    the same parameters and the same logged figures as one that never stopped.

    Args:
      info: what is run; the same in all processes.
      run: its directory, shared by all processes.
      profile_steps: steps (updates done before) of which a profile is put into the directory.

    Raises:
      UserError, data.DataError: for whatever the user can mend; checkpoints are kept.
    """
    ledger = Ledger("start", STARTED)
    config = info.config
    configuration.check_settings(config)
    distributed.check_equal(configuration.flatten(config))
    distributed.in_turns(lambda: _check(run, info))
    last = config.train.num_steps
    reached = latest_step(run)
    distributed.check_equal({"the newest checkpoint": reached})
    if reached is not None and reached >= last:
        if reached > last:
            raise UserError(
                f"--workdir={run.path} has been trained to step {reached}, beyond train.num_steps="
                f"{last}; name a new directory, or more steps"
            )
        say(f"already trained: step {reached} of {last}")
        return Outcome(reached, None)
    experiment = distributed.in_turns(
        lambda: make_experiment(
            config, init_from.vocabulary(run, config, begun=reached is not None)
        )
    )
    if reached is None:
        init_from.check(experiment)
    with contextlib.ExitStack() as stack:
        distributed.in_turns(lambda: _begin(run, info, experiment, stack))
        say(banner(experiment))
        checkpoints = stack.enter_context(
            Checkpoints(run.checkpoints, keep=config.train.keep_checkpoints)
        )
        try:
            trainer = _Trainer(experiment, run, checkpoints, ledger, profile_steps)
            with contextlib.closing(trainer):
                return trainer.run()
        except OSError as error:  # a full disk, most likely
            latest = checkpoints.latest()
            kept = "none is complete yet" if latest is None else f"the last one is of step {latest}"
            raise UserError(
                f"{error.strerror or error}, while writing to {error.filename or run.path}. "
                f"Checkpoints that are complete are kept: {kept}. The same command goes on from it"
            ) from error


def _check(run: RunDir, info: RunInfo) -> None:
    """Raises UserError if the directory holds another run, or is in use, before any work."""
    run.check(info)
    run.check_free()


def _begin(run: RunDir, info: RunInfo, experiment: Experiment, stack: contextlib.ExitStack) -> None:
    """Writes what the run is into its directory; in other processes, looks whether it is there.

    The directory is held until the stack is left.
    """
    if distributed.is_first():
        run.make()
        stack.enter_context(run.hold_training())
        run.begin(info)  # what is there may have changed until it was held
        remove_tree(run.path / HEARTBEAT)  # of an earlier start
    elif not _appears(run):
        raise UserError(
            f"--workdir={run.path}: this process does not see what process 0 has written there; "
            "all hosts must share the directory"
        )
    run.set_vocabulary(experiment.tokenizer)


def _appears(run: RunDir) -> bool:
    """Whether the run is there; storage of a network remembers for a while what was not."""
    end = time.monotonic() + _PATIENCE
    while not run.exists() and time.monotonic() < end:
        time.sleep(0.2)
        with contextlib.suppress(OSError):  # listing makes it look again
            for folder in (run.path.parent, run.path):
                any(folder.iterdir())
    return run.exists()


def banner(experiment: Experiment) -> str:
    """On what the run runs: devices, processes, mesh, and the part of a batch that each takes."""
    mesh, multiple = experiment.mesh, experiment.config.data.batch_multiple
    sizes = ", ".join(f"{name}={size}" for name, size in mesh.shape.items())
    _, blocks = sharding.row_block(mesh)
    return (
        f"devices: {mesh.size} ({mesh.devices.flat[0].device_kind}); processes: "
        f"{jax.process_count()}; mesh: {sizes}; of {multiple} rows a process reads "
        f"{multiple // blocks}, a device computes {multiple // sharding.batch_shards(mesh)}"
    )


def latest_step(run: RunDir) -> int | None:
    """The step of the run's newest checkpoint, or None."""
    is_there = run.checkpoints.is_dir()
    distributed.check_equal({"whether there are checkpoints": is_there})
    if not is_there:
        return None
    with Checkpoints(run.checkpoints, keep=1) as checkpoints:
        return checkpoints.latest()


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

    def __init__(
        self,
        experiment: Experiment,
        run: RunDir,
        checkpoints: Checkpoints,
        ledger: Ledger,
        profile_steps: range,
    ):
        self.experiment = experiment
        self.settings = experiment.config.train
        self.checkpoints = checkpoints
        self.run_dir, self.ledger = run, ledger
        self.profile = Profile(run.path / "profile", profile_steps)
        self.state, position = self._restore_or_init(checkpoints.latest())
        self.iterator = iter(train_batches(experiment))
        if position is not None:
            self.iterator.set_state(position)
        self.step = int(self.state.step)
        self._shapes: set[Any] = set()
        self.log = MetricsLog(run, self.step) if distributed.is_first() else None
        if self.log:
            ledger.add(self.log.parts)
        self.validation = Validation(experiment)

    def run(self) -> Outcome:
        """The loop. The device is ahead of it: nothing is fetched but on logging steps."""
        last = self.settings.num_steps
        train_step = make_train_step(self.experiment)
        progress = Progress(self.step, last, self.log.seconds if self.log else 0.0)
        self.ledger.switch("step")
        with stop_signals() as stop, self._heartbeat(), self.profile:
            while self.step < last and not stop.requested():
                with self.ledger("data"):
                    batch = sharding.to_devices(next(self.iterator), self.experiment.mesh)
                self.profile.at(self.step, self.state)
                part = "compile" if self._is_new(batch) else "step"
                trace = jax.profiler.StepTraceAnnotation("train", step_num=self.step)
                with self.ledger(part), trace:
                    self.state = train_step(self.state, batch)
                self.step += 1
                if self._due("log_every"):
                    self._log(progress)
                if self._due("eval_every") or self._due("checkpoint_every"):
                    with progress.paused():
                        self._evaluate_and_save()
            stopped_by = stop.signal if self.step < last else None
            if stopped_by is not None:
                self._save(loss=None)
            with self.ledger("checkpoint"):
                self.checkpoints.wait()
        say(f"time: {summary(self.ledger.seconds(), 'step')}")
        return Outcome(self.step, stopped_by)

    def _is_new(self, batch: dict[str, jax.Array]) -> bool:
        """Whether a batch has a shape that the step must be compiled for."""
        shapes = tuple((name, array.shape) for name, array in sorted(batch.items()))
        is_new = shapes not in self._shapes
        self._shapes.add(shapes)
        return is_new

    def _heartbeat(self) -> contextlib.AbstractContextManager:
        """Of several processes, signs of life."""
        if jax.process_count() == 1:
            return contextlib.nullcontext()

        def doing():
            seconds = time.monotonic() - self.ledger.since
            return {"step": self.step, "part": self.ledger.part, "seconds": round(seconds, 1)}

        return contextlib.closing(
            Heartbeat(
                self.run_dir.path / HEARTBEAT,
                doing,
                process=jax.process_index(),
                processes=jax.process_count(),
                say=say,
            )
        )

    def close(self) -> None:
        """Writes out the log."""
        if self.log:
            self.log.close()

    def _due(self, key: str) -> bool:
        return self.step % self.settings[key] == 0 or self.step == self.settings.num_steps

    def _restore_or_init(self, step: int | None) -> tuple[TrainState, Any]:
        """The state, and the position in the data: None at the start."""
        if step is None:
            return init_from.first_state(self.experiment), None
        restored = self.checkpoints.restore(
            step, self.experiment.abstract_state(), vocabulary=self.experiment.tokenizer.hash
        )
        multiple = self.experiment.config.data.batch_multiple
        _, blocks = sharding.row_block(self.experiment.mesh)
        check_processes(restored.meta["process_count"], blocks, multiple)
        say(f"going on from the checkpoint of step {step}")
        return restored.state, restored.data

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
            self.log.write(
                self.step,
                values,
                tokens_per_second=rate,
                seconds=progress.seconds,
                parts=self.ledger.seconds(),
                **utilisation.figures(self.experiment.config, self.experiment.task, rate),
            )

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
            with self.ledger("evaluation"):
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
        with self.ledger("checkpoint"):
            self.checkpoints.save(self.step, self.state, data, meta, loss)


class Validation:
    """Loss and perplexity per token over the whole validation split."""

    def __init__(self, experiment: Experiment):
        self._experiment = experiment
        self._step = make_nll_step(experiment)
        self._sums = jax.jit(lambda nll_B, targets_BL: (nll_B.sum(), (targets_BL > 0).sum()))
        examples = list(read_all(open_split(experiment, "validation")))
        self._batches = evaluation_batches(experiment, examples)

    def __call__(self, state: TrainState) -> dict[str, float]:
        """Token-weighted over every example; what is longer than max_length counts cut."""
        sums = []
        for batch in self._batches:
            arrays = sharding.to_devices(batch, self._experiment.mesh)
            nll_B = self._step(state.params, state.fixed, arrays)
            sums.append(self._sums(nll_B, arrays["targets"]))
        nll, tokens = zip(*jax.device_get(sums), strict=True)
        loss = math.fsum(nll) / math.fsum(tokens)
        return {"validation/loss": loss, "validation/perplexity": math.exp(min(loss, 700.0))}


def train_batches(experiment: Experiment) -> grain.IterDataset[dict[str, np.ndarray]]:
    """The run's endless training batches; says how full they are."""
    config = experiment.config
    split = open_split(experiment, "train")
    shapes = layout(config, experiment.task)
    windows = pipelines.plan_windows(
        split, experiment.tokenizer, shapes, window=config.data.window, seed=config.seed
    )
    say(f"{experiment.dataset.name}: {report.fill_report(windows)}")
    if split.invalid:
        say(f"{len(split.invalid)} of these rows are not UTF-8; their bad bytes became U+FFFD")
    process_index, process_count = sharding.row_block(experiment.mesh)
    return pipelines.train_batches(
        windows, process_index=process_index, process_count=process_count
    )
