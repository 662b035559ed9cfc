"""`train.init_from`: a run that starts with the parameters and the vocabulary of another one."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from data.tasks import get_task
from data.tokenizer import Tokenizer
from synth.checkpoints import Checkpoints
from synth.configuration import Config
from synth.errors import UserError
from synth.experiment import Experiment, TrainState, abstract_model, as_dicts
from synth.progress import say
from synth.rundir import RunDir
from synth.trained import load_trained


def vocabulary(run: RunDir, config: Config, *, begun: bool) -> Tokenizer | None:
    """Of a run that starts from another one the vocabulary: that one's, until it has begun."""
    if not (source := config.train.init_from):
        return None
    if begun:
        return Tokenizer.load(run.vocabulary)
    if not RunDir(source).checkpoints.is_dir():
        raise UserError(f"train.init_from={source} is no run with a checkpoint")
    return Tokenizer.load(RunDir(source).vocabulary)


def check(experiment: Experiment) -> None:
    """Raises UserError if the run of `train.init_from` is of another model or vocabulary."""
    if not (source := experiment.config.train.init_from):
        return
    with Checkpoints(RunDir(source).checkpoints, keep=1) as checkpoints:
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


def first_state(experiment: Experiment) -> TrainState:
    """The state before the first step, with the other run's parameters if there is one."""
    state = experiment.init_state()
    if not (source := experiment.config.train.init_from):
        return state
    _, step, params, fixed = load_trained(RunDir(source), "last")
    shardings = experiment.shardings()
    say(f"starting from step {step} of {source}")
    return dataclasses.replace(
        state,
        params=jax.device_put(params, shardings.params),
        fixed=jax.device_put(fixed, shardings.fixed),
    )
