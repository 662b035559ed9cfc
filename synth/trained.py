"""What a run has learned: its model and parameters, read from its directory."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from data.tokenizer import Tokenizer
from synth import distributed
from synth.checkpoints import Checkpoints
from synth.errors import UserError
from synth.experiment import Experiment, make_experiment
from synth.rundir import RunDir


def load_trained(
    run: RunDir, checkpoint: str, average: int = 1
) -> tuple[Experiment, int, Any, Any]:
    """(experiment, step, params, fixed) of a checkpoint, on all devices.

    Args:
      run: the run directory.
      checkpoint: 'last', 'best' or a step.
      average: how many checkpoints, up to that one, the parameters are the mean of (T2T's
        `avg_checkpoints`).

    Raises:
      UserError: if there are no such checkpoints, or fewer.
    """
    info = run.info()
    config = info.config
    # What was learned depends neither on the mesh nor on the batch: take the devices there are, and
    # split the model as in training if they allow it.
    mesh = config.sharding.mesh
    mesh.data = -1
    if jax.device_count() % (mesh.fsdp * mesh.tensor):
        mesh.update(fsdp=1, tensor=1)
    config.data.batch_multiple = math.lcm(8, jax.device_count())
    least = config.model.max_length * config.data.batch_multiple
    config.data.batch_tokens = max(config.data.batch_tokens, least)
    config.decode.batch_tokens = max(config.decode.batch_tokens, least)
    config.train.accumulate_steps = 1
    if not run.checkpoints.is_dir():
        raise UserError(f"--workdir={run.path} has no checkpoint yet: train it first")
    experiment = make_experiment(config, Tokenizer.load(run.vocabulary))
    with Checkpoints(run.checkpoints, keep=config.train.keep_checkpoints) as checkpoints:
        steps = checkpoints.up_to(checkpoints.resolve(checkpoint), average)
        distributed.check_equal({"the checkpoints to score": steps})
        params: Any = None
        for step in steps:
            state = checkpoints.restore(
                step, experiment.abstract_state(), vocabulary=experiment.tokenizer.hash
            ).state
            share = jax.tree.map(lambda x: x / average, state.params)
            params = share if params is None else jax.tree.map(jnp.add, params, share)
    return experiment, steps[-1], params, state.fixed
