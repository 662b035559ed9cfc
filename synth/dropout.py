"""Dropout by explicit key, so that no random state lives in the model."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def dropout_factors(key: jax.Array | None, rate: float, shape: tuple[int, ...]) -> jax.Array | None:
    """float32 factors 0 (with probability `rate`) or 1/(1 - rate); None when nothing is dropped."""
    if key is None or rate == 0.0:
        return None
    keep = jax.random.bernoulli(key, 1.0 - rate, shape)
    return keep.astype(jnp.float32) / (1.0 - rate)


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Drops elements of x; without a key it is the identity."""
    factors = dropout_factors(key, rate, x.shape)
    return x if factors is None else x * factors.astype(x.dtype)


def times(weights: jax.Array, factors: jax.Array | None) -> jax.Array:
    """The weights times dropout's factors, in the weights' dtype."""
    return weights if factors is None else weights * factors.astype(weights.dtype)
