"""What training and evaluation share: the task, its vocabulary, the model and its state."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh

from data import pipelines, sources, tasks, tokenizer
from data.batching import Layout, make_layout
from data.tasks.task import Dataset, Example, Task
from data.tokenizer import UNK_ID
from synth import sharding
from synth.compilation import jit
from synth.configuration import Config
from synth.errors import UserError
from synth.optimizer import make_optimizer
from synth.transformer import Model, make_model


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["step", "params", "fixed", "opt_state", "sums"],
    meta_fields=[],
)
@dataclasses.dataclass
class TrainState:
    """All that a training step changes. Trees are plain dicts: quick to pass, free of NNX classes.

    Attributes:
      step: int32, updates done.
      params: trained parameters.
      fixed: tensors that are saved but never trained (fixed random R).
      opt_state: moments.
      sums: totals since the last logging step; part of the state, so that a run stopped between
        two logging steps logs the same figures when it goes on.
    """

    step: Any
    params: Any
    fixed: Any
    opt_state: Any
    sums: Any


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A config made concrete.

    Attributes:
      config: the run's config.
      task, dataset: what is learned, from which text.
      tokenizer: its vocabulary.
      mesh: the devices.
      graphdef: structure of the model (NNX).
      variables: its abstract (params, fixed) as NNX states, with shapes and logical axes.
      optimizer, schedule: the update rule and its learning rate by step.
    """

    config: Config
    task: Task
    dataset: Dataset
    tokenizer: tokenizer.Tokenizer
    mesh: Mesh
    graphdef: Any
    variables: tuple[nnx.State, nnx.State]
    optimizer: optax.GradientTransformation
    schedule: optax.Schedule

    @property
    def vocab_size(self) -> int:
        """V, the rows of the embedding."""
        return self.tokenizer.vocab_size

    def init_state(self) -> TrainState:
        """The state before the first step: the same for every mesh."""

        def init(key):
            params, fixed = self._init_variables(key)
            return as_dicts(self._with_moments(params, fixed))

        shardings = self.shardings()
        return jit(init, out_shardings=shardings)(jax.random.key(self.config.seed))

    def abstract_state(self) -> TrainState:
        """Shapes, dtypes and shardings of the state, for restoring a checkpoint into."""
        abstract = as_dicts(jax.eval_shape(self._with_moments, *self.variables))
        return jax.tree.map(
            lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
            abstract,
            self.shardings(),
        )

    def shardings(self) -> TrainState:
        """Where each array of the state lives; moments lie beside their parameters."""
        abstract = jax.eval_shape(self._with_moments, *self.variables)
        rules = self.config.sharding.rules.to_dict()
        return as_dicts(sharding.state_shardings(abstract, self.mesh, rules))

    def model(self, params: Any, fixed: Any) -> Model:
        """The model with these parameters (dicts as in `TrainState`)."""
        states = [
            jax.tree.unflatten(jax.tree.structure(abstract), jax.tree.leaves(values))
            for abstract, values in zip(self.variables, (params, fixed), strict=True)
        ]
        return nnx.merge(self.graphdef, *states)

    def _init_variables(self, key: jax.Array) -> tuple[nnx.State, nnx.State]:
        model = _make_model(self.config, self.task, self.vocab_size, nnx.Rngs(params=key))
        _, params, fixed = nnx.split(model, nnx.Param, ...)
        return params, fixed

    def _with_moments(self, params: nnx.State, fixed: nnx.State) -> TrainState:
        sums = {name: jnp.float32(0.0) for name in ("loss", "tokens", "grad_norm", "steps")}
        sums["first_bad_step"] = jnp.int32(0)
        return TrainState(jnp.int32(0), params, fixed, self.optimizer.init(params), sums)


def as_dicts(tree: Any) -> Any:
    """Replaces every NNX state inside `tree` by a plain dict of its values."""

    def pure(node):
        return nnx.to_pure_dict(node) if isinstance(node, nnx.State) else node

    return jax.tree.map(pure, tree, is_leaf=lambda node: isinstance(node, nnx.State))


def _make_model(config: Config, task: Task, vocab_size: int, rngs: nnx.Rngs):
    try:
        return make_model(
            task.kind,
            vocab_size=vocab_size,
            num_labels=len(task.labels),
            rngs=rngs,
            **config.model.to_dict(),
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"the config's model section: {error}") from error


def abstract_model(config: Config, task: Task, vocab_size: int):
    """(graphdef, params, fixed) with shapes in place of arrays: nothing is computed."""
    model = nnx.eval_shape(
        lambda: _make_model(config, task, vocab_size, nnx.Rngs(params=jax.random.key(0)))
    )
    return nnx.split(model, nnx.Param, ...)


def make_experiment(config: Config, vocabulary: tokenizer.Tokenizer | None = None) -> Experiment:
    """Makes a config concrete; prepares its text and learns its vocabulary if need be.

    Args:
      config: the run's config.
      vocabulary: the vocabulary of an existing run, instead of the one of the data set.

    Raises:
      UserError, data.DataError: for anything in the config that cannot be had.
    """
    task = tasks.get_task(config.data.task)
    dataset = task.dataset(config.data.dataset)
    mesh = sharding.make_mesh(**config.sharding.mesh)
    sharding.check_batch(config.data.batch_multiple, config.train.accumulate_steps, mesh)
    check_sizes(config, task, mesh)
    try:
        optimizer, schedule = make_optimizer(**config.optimizer, model_dim=config.model.model_dim)
    except ValueError as error:
        raise UserError(str(error)) from error
    if vocabulary is None:
        vocabulary = tokenizer.load_or_train(
            task, dataset, vocab_size=config.data.vocab_size, data_dir=config.data.data_dir
        )
    if task.kind == "span_corruption" and not vocabulary.sentinels:
        raise UserError(
            f"the task {task.name} hides spans behind sentinels, and the vocabulary "
            f"{vocabulary.hash[:16]} has none: take one that was learned for such a task"
        )
    graphdef, params, fixed = abstract_model(config, task, vocabulary.vocab_size)
    return Experiment(
        config=config,
        task=task,
        dataset=dataset,
        tokenizer=vocabulary,
        mesh=mesh,
        graphdef=graphdef,
        variables=(params, fixed),
        optimizer=optimizer,
        schedule=schedule,
    )


@dataclasses.dataclass(frozen=True)
class _Size:
    """In place of a vocabulary: how many tokens it has, and that there may be sentinels."""

    vocab_size: int
    sentinels: tuple[int, ...] = (UNK_ID + 1,)


def make_textless_experiment(config: Config) -> Experiment:
    """An experiment whose vocabulary is a size alone: to compile and time steps, not to train.

    Neither text nor vocabulary is read or needed. Raises as `make_experiment`.
    """
    vocabulary: Any = _Size(config.data.vocab_size)
    return make_experiment(config, vocabulary)


def abstract_batches(experiment: Experiment) -> dict[int, dict[str, jax.ShapeDtypeStruct]]:
    """Bucket length -> a training batch of that length, as shapes with their shardings."""
    shapes = layout(experiment.config, experiment.task)
    rows = sharding.batch_sharding(experiment.mesh)
    return {
        length: {
            name: jax.ShapeDtypeStruct(shape, jnp.int32, sharding=rows)
            for name, shape in shapes.shapes(length).items()
        }
        for length in shapes.training_lengths
    }


def check_sizes(config: Config, task: Task, mesh: Mesh) -> None:
    """Raises UserError or DataError for sizes that no model, mesh or batch can have.

    Before any work on the data, and before anything is written.
    """
    _, params, _ = abstract_model(config, task, config.data.vocab_size)
    sharding.state_shardings(params, mesh, config.sharding.rules.to_dict())
    layout(config, task)


def layout(config: Config, task: Task, batch_tokens: int | None = None) -> Layout:
    """The shapes of the run's batches; `batch_tokens` in place of the config's."""
    try:
        return make_layout(
            task,
            max_length=config.model.max_length,
            data=config.data.to_dict(),
            batch_tokens=batch_tokens,
        )
    except KeyError as error:
        raise UserError(
            f"the config lacks data.{error.args[0]}: it was made by an older version of this code; "
            "train the run again"
        ) from error


def evaluation_batches(
    experiment: Experiment,
    examples: Sequence[Example],
    *,
    batch_tokens: int | None = None,
    sources_only: bool = False,
    skip: Collection[int] = (),
) -> pipelines.EvalBatches:
    """Every one of the examples but `skip` once; of each batch the rows of this process."""
    process_index, process_count = sharding.row_block(experiment.mesh)
    return pipelines.eval_batches(
        examples,
        experiment.tokenizer,
        layout(experiment.config, experiment.task, batch_tokens),
        sources_only=sources_only,
        skip=skip,
        process_index=process_index,
        process_count=process_count,
    )


def open_split(experiment: Experiment, split: str) -> sources.Split:
    """The text of one split of the run's data set."""
    return sources.open_split(experiment.dataset, split, data_dir=experiment.config.data.data_dir)
