"""Dropout by explicit key, so that no random state lives in the model.

Random bits are the cost of dropout: `jax.random.bernoulli` hashes once for each element and uses 32
of the 64 bits. An element takes 16 bits here, so that one hash serves four.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p

_LEVELS = 1 << 16


def dropout_factors(key: jax.Array | None, rate: float, shape: tuple[int, ...]) -> jax.Array | None:
    """float32 factors 0 or 1/(1 - rate); None when nothing is dropped.

    The rate is that multiple of 2^-16 which is nearest to `rate`, in the scale, too.
    """
    if key is None or rate == 0.0:
        return None
    dropped, scale = _dropped(key, rate, shape)
    return jnp.where(dropped, 0.0, jnp.float32(scale))


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Drops elements of x; without a key it is the identity."""
    if key is None or rate == 0.0:
        return x
    dropped, scale = _dropped(key, rate, x.shape)
    return jnp.where(dropped, 0, (x.astype(jnp.float32) * scale).astype(x.dtype))


def times(weights: jax.Array, factors: jax.Array | None) -> jax.Array:
    """The weights times dropout's factors (float32), in the weights' dtype."""
    return weights if factors is None else (weights * factors).astype(weights.dtype)


def _dropped(key: jax.Array, rate: float, shape: tuple[int, ...]) -> tuple[jax.Array, float]:
    """(which elements are dropped, the factor of the others)."""
    threshold = min(round(rate * _LEVELS), _LEVELS - 1)
    return random_bits16(key, shape) < threshold, _LEVELS / (_LEVELS - threshold)


def random_bits16(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Uniform whole numbers below 2^16, as uint32, of a shape with at least two axes.

    Threefry of the position, as in `jax.random.bits`: the same on every mesh. The numbers that
    come of one hash lie in different quarters of the axis before the last, which is the positions
    in all our arrays and is never split over devices.
    """
    quarter = (*shape[:-2], -(-shape[-2] // 4), shape[-1])
    counter = jnp.zeros(quarter, jnp.uint32)
    for axis in range(len(quarter)):
        stride = math.prod(quarter[axis + 1 :])
        counter += jnp.uint32(stride) * jax.lax.broadcasted_iota(jnp.uint32, quarter, axis)
    data = jax.random.key_data(key)
    if data.shape != (2,):
        raise ValueError("dropout needs keys of JAX's default generator, threefry2x32")
    first, second = data
    words = threefry2x32_p.bind(first, second, jnp.zeros_like(counter), counter)
    parts = [part for word in words for part in (word & 0xFFFF, word >> 16)]
    return jax.lax.slice_in_dim(jnp.concatenate(parts, axis=-2), 0, shape[-2], axis=-2)
