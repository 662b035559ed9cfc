"""One row of a table with one command: trained if need be, then scored.

A row is named `TASK/VARIANT`, as `wmt_ende/random+vanilla`.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import shlex
import time
from pathlib import Path

import jax

from synth import configuration, describe, distributed, sharding, training
from synth.configuration import Config
from synth.errors import UserError
from synth.experiment import Experiment, make_experiment
from synth.progress import say
from synth.rundir import RunDir, RunInfo
from synth.steps import make_train_step

_BATCHES = 12  # enough to meet most shapes


@dataclasses.dataclass(frozen=True)
class Row:
    """A row to be made.

    Attributes:
      info: the run, as train.py would record it.
      run: its directory.
      done: steps trained already.
    """

    info: RunInfo
    run: RunDir
    done: int

    @property
    def steps(self) -> int:
        """Steps that are left."""
        return max(self.info.config.train.num_steps - self.done, 0)


def find(name: str, *, scale: str, seed: int, workdir: str) -> Row:
    """The row of that name.

    Args:
      name: TASK/VARIANT.
      scale: of the config.
      seed: of the run.
      workdir: its directory; '' takes one below runs/ that is named after the row.

    Raises:
      UserError: for a name that is no row, or a directory that holds another run.
    """
    task, slash, variant = name.partition("/")
    if not slash or not task or not variant:
        raise UserError(f"--row={name} must be TASK/VARIANT, as wmt_ende/random+vanilla")
    config_name = f"configs/{task}.py:{variant},scale={scale}" + (f",seed={seed}" if seed else "")
    config = configuration.canonical(configuration.load(config_name))
    run = RunDir(workdir or _directory(task, config, seed))
    command = ["python", "train.py", f"--config={config_name}", f"--workdir={run.path}"]
    info = RunInfo(config_name, {}, config, shlex.join(command))
    distributed.check_equal(configuration.flatten(config))
    distributed.in_turns(lambda: run.check(info))
    return Row(info, run, training.latest_step(run) or 0)


def _directory(task: str, config: Config, seed: int) -> Path:
    parts = [config.model.attention.variant]
    if config.model.attention.mix != "softmax":
        parts.append(config.model.attention.mix)
    return Path("runs") / "-".join([task, *parts, config.scale, f"seed{seed}"])


def check_checkpoints(row: Row, checkpoint: str, average: int) -> None:
    """Raises UserError for checkpoints that the row will not have once it is trained.

    Args:
      row: the row; one that is trained already is not looked at, for evaluation tells at once.
      checkpoint: 'last', 'best' or a step.
      average: how many checkpoints, up to that one.
    """
    if not row.steps:
        return
    settings = row.info.config.train
    every, last = (settings.eval_every, settings.checkpoint_every), settings.num_steps
    saved = [n for n in range(1, last) if any(n % step == 0 for step in every)]
    kept = [*saved, last][-settings.keep_checkpoints :]
    known = ", ".join(map(str, kept))
    if checkpoint not in ("last", "best", *map(str, kept)):
        raise UserError(
            f"--checkpoint={checkpoint}: once it is trained the row will have its checkpoints "
            f"{known} (and the best): name one of them, last or best"
        )
    if not 1 <= average <= len(kept):
        raise UserError(
            f"--average={average}: once it is trained the row will have {len(kept)} checkpoints, "
            f"{known}; train it by train.py with a larger train.keep_checkpoints for more"
        )


def tell(row: Row) -> None:
    """Says what will be done, and about how long it will take."""
    config = row.info.config
    found = describe.describe(config)
    say(
        f"{row.info.name}: {found['trainable'] / 1e6:.2f} million parameters, "
        f"{config.train.num_steps:,} steps in {row.run.path}"
    )
    if not row.steps:
        say("it is trained already; it will be scored")
        return
    say(f"{row.done:,} steps are done, {row.steps:,} are left; a few are timed first")
    experiment = distributed.in_turns(lambda: make_experiment(config))
    seconds, operations = _step_seconds(experiment), _step_operations(experiment, found)
    left = datetime.timedelta(seconds=math.ceil(seconds * row.steps))
    say(
        f"{seconds:.3g} s a step ({operations / seconds / 1e9:.3g} GFLOP/s at most): about {left} "
        "for training, evaluation on the way not counted; then it will be scored"
    )


def train(row: Row) -> None:
    """Trains what is left.

    Raises:
      UserError: for whatever the user can mend, and when a signal stopped it (it is saved then).
    """
    outcome = training.train(row.info, row.run)
    if outcome.stopped_by is not None:
        raise UserError(f"stopped and saved at step {outcome.step}; the same command goes on")


def _step_seconds(experiment: Experiment) -> float:
    """Seconds of a training step, once compiled: the mean over the first batches."""
    step, state = make_train_step(experiment), experiment.init_state()
    batches = [
        sharding.to_devices(batch, experiment.mesh)
        for batch in itertools.islice(training.train_batches(experiment), _BATCHES)
    ]
    for batch in batches:  # compiles each shape, for the training, too
        state = step(state, batch)
    jax.block_until_ready(state)
    start = time.perf_counter()
    for batch in batches:
        state = step(state, batch)
    jax.block_until_ready(state)
    return (time.perf_counter() - start) / len(batches)


def _step_operations(experiment: Experiment, found: dict) -> float:
    """Operations of a step whose rows are all full: what is really needed is less."""
    return found["operations_per_token"]["training_step"] * experiment.config.data.batch_tokens
