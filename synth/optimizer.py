"""T2T's Adam and its learning-rate schedule."""

from __future__ import annotations

import math

import jax.numpy as jnp
import optax


def rsqrt_schedule(*, constant: float, warmup_steps: int, model_dim: int) -> optax.Schedule:
    """constant x min(1, t / warmup) x max(t, warmup)^-1/2 x D^-1/2, with t = step + 1.

    T2T's `constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size`; counted from 1, so that the first
    update does not have the rate 0.
    """

    def schedule(step):
        t = jnp.asarray(step, jnp.float32) + 1.0
        warmup = jnp.minimum(1.0, t / warmup_steps)
        return constant * warmup * jnp.maximum(t, warmup_steps) ** -0.5 * model_dim**-0.5

    return schedule


def make_optimizer(
    *,
    learning_rate: float,
    warmup_steps: int,
    b1: float,
    b2: float,
    eps: float,
    model_dim: int,
) -> tuple[optax.GradientTransformation, optax.Schedule]:
    """Adam with the rsqrt schedule; no clipping and no weight decay, as in T2T.

    Args:
      learning_rate: the constant of the schedule (not the rate itself).
      warmup_steps: length of the linear warm-up, at least 1.
      b1, b2, eps: of Adam.
      model_dim: D.

    Returns:
      The transformation and its schedule (step -> rate).

    Raises:
      ValueError: for a number that cannot be used.
    """
    if warmup_steps < 1:
        raise ValueError(f"optimizer.warmup_steps={warmup_steps} must be at least 1")
    if not 0.0 <= learning_rate < math.inf:  # 0 trains nothing, to look at a start
        raise ValueError(f"optimizer.learning_rate={learning_rate} must be at least 0")
    if not 0.0 < eps < math.inf:
        raise ValueError(f"optimizer.eps={eps} must be above 0")
    for name, value in {"b1": b1, "b2": b2}.items():
        if not 0.0 <= value < 1.0:
            raise ValueError(f"optimizer.{name}={value} must be at least 0 and below 1")
    schedule = rsqrt_schedule(
        constant=learning_rate, warmup_steps=warmup_steps, model_dim=model_dim
    )
    return optax.adam(schedule, b1=b1, b2=b2, eps=eps), schedule
