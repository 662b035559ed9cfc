"""What a run has learned: its model and parameters, read from its directory."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import jax

from data.tokenizer import Tokenizer
from synth.checkpoints import Checkpoints
from synth.errors import UserError
from synth.experiment import Experiment, make_experiment
from synth.rundir import RunDir


def load_trained(run: RunDir, checkpoint: str) -> tuple[Experiment, int, Any, Any]:
    """(experiment, step, params, fixed) of a checkpoint, on all devices of this machine."""
    info = run.info()
    config = info.config
    # What was learned depends neither on the mesh nor on the batch: take the devices there are.
    config.sharding.mesh = dict(data=-1, fsdp=1, tensor=1)
    config.data.batch_multiple = math.lcm(8, jax.device_count())
    least = config.model.max_length * config.data.batch_multiple
    config.data.batch_tokens = max(config.data.batch_tokens, least)
    config.decode.batch_tokens = max(config.decode.batch_tokens, least)
    config.train.accumulate_steps = 1
    if not run.checkpoints.is_dir():
        raise UserError(f"--workdir={run.path} has no checkpoint yet: train it first")
    experiment = make_experiment(config, Tokenizer.load(run.vocabulary))
    checkpoints = Checkpoints(run.checkpoints, keep=config.train.keep_checkpoints)
    with contextlib.closing(checkpoints):
        step = checkpoints.resolve(checkpoint)
        restored = checkpoints.restore(
            step, experiment.abstract_state(), vocabulary=experiment.tokenizer.hash
        )
    return experiment, restored.step, restored.state.params, restored.state.fixed
