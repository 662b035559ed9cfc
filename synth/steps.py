"""The jitted steps: one update, and the losses of one evaluation batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from synth import sharding
from synth.compilation import jit, rows_split_as
from synth.experiment import Experiment, TrainState
from synth.losses import smoothed_loss, token_nll

Batch = dict[str, jax.Array]


def make_train_step(experiment: Experiment) -> Callable[[TrainState, Batch], TrainState]:
    """The jitted update: state and batch -> state; the old state's memory is given to the new one.

    The gradient is that of the summed loss of the whole batch over its number of tokens, however
    many microbatches it is computed in: every token counts the same.
    """
    train = experiment.config.train
    dropout_key = jax.random.fold_in(jax.random.key(experiment.config.seed), 1)

    def loss_sum(params, fixed, batch, key):
        with rows_split_as(sharding.batch_sharding(experiment.mesh)):
            x_BLD, kernel_VD = experiment.model(params, fixed).last_layer(batch, key)
        return smoothed_loss(
            x_BLD,
            kernel_VD,
            batch["targets"],
            label_smoothing=train.label_smoothing,
            tokens_at_once=loss_tokens(experiment),
        )

    gradient = jax.value_and_grad(loss_sum, has_aux=True)

    def accumulate(params, fixed, batch, key):
        """Sums of (loss, tokens) and the gradient of the loss sum, one microbatch at a time."""
        micro = microbatches(batch, train.accumulate_steps)
        if train.accumulate_steps == 1:
            (loss, tokens), grads = gradient(params, fixed, batch, key)
            return loss, tokens, grads

        def add(carry, numbered):
            index, part = numbered
            (loss, tokens), grads = gradient(params, fixed, part, jax.random.fold_in(key, index))
            return jax.tree.map(jnp.add, carry, (loss, tokens, grads)), None

        nothing = (jnp.float32(0), jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
        numbered = (jnp.arange(train.accumulate_steps), micro)
        return jax.lax.scan(add, nothing, numbered)[0]

    def train_step(state: TrainState, batch: Batch) -> TrainState:
        key = jax.random.fold_in(dropout_key, state.step)
        loss, tokens, grads = accumulate(state.params, state.fixed, batch, key)
        grads = jax.tree.map(lambda g: g / jnp.maximum(tokens, 1.0), grads)
        updates, opt_state = experiment.optimizer.update(grads, state.opt_state, state.params)
        return TrainState(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            fixed=state.fixed,
            opt_state=opt_state,
            sums=_add_sums(state, loss, tokens, optax.tree.norm(grads), train.log_every),
        )

    return jit(train_step, donate_argnums=0, out_shardings=experiment.shardings())


def _add_sums(state: TrainState, loss, tokens, grad_norm, log_every: int) -> dict[str, Any]:
    """Totals since the last logging step, and the first step that was not finite (0: none)."""
    fresh = state.step % log_every == 0
    old = {
        name: jnp.where(fresh, 0.0, state.sums[name])
        for name in ("loss", "tokens", "grad_norm", "steps")
    }
    bad = ~(jnp.isfinite(loss) & jnp.isfinite(grad_norm))
    first_bad_step = state.sums["first_bad_step"]
    return {
        "loss": old["loss"] + loss,
        "tokens": old["tokens"] + tokens,
        "grad_norm": old["grad_norm"] + grad_norm,
        "steps": old["steps"] + 1.0,
        "first_bad_step": jnp.where((first_bad_step == 0) & bad, state.step + 1, first_bad_step),
    }


def loss_tokens(experiment: Experiment) -> int:
    """Of the whole batch, whose rows are split over devices; 0 = all."""
    return experiment.config.train.loss_tokens * sharding.batch_shards(experiment.mesh)


def microbatches(batch: Batch, count: int) -> Batch:
    """[B, ...] -> [count, B / count, ...]; neighbouring rows go to different microbatches, so that
    each is spread over all devices like the batch itself."""
    return {
        name: jnp.moveaxis(rows.reshape(-1, count, *rows.shape[1:]), 1, 0)
        for name, rows in batch.items()
    }


def make_nll_step(experiment: Experiment) -> Callable[[Any, Any, Batch], jax.Array]:
    """The jitted (params, fixed, batch) -> nll_B: nats per row, without smoothing or dropout."""
    tokens_at_once = loss_tokens(experiment)

    def nll_step(params, fixed, batch):
        with rows_split_as(sharding.batch_sharding(experiment.mesh)):
            x_BLD, kernel_VD = experiment.model(params, fixed).last_layer(batch)
        nll_BL = token_nll(x_BLD, kernel_VD, batch["targets"], tokens_at_once=tokens_at_once)
        return jnp.sum(nll_BL, axis=-1)

    return jit(nll_step)


def make_label_step(experiment: Experiment) -> Callable[[Any, Any, Batch], jax.Array]:
    """The jitted (params, fixed, batch) -> label_B, numbered from 0; of classifications."""

    def label_step(params, fixed, batch):
        logits_B1C = experiment.model(params, fixed)(batch)
        return jnp.argmax(logits_B1C[:, 0, 1:], axis=-1)  # class 0 is padding, never a label

    return jit(label_step)
