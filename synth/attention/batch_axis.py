"""Sums over the batch axis, for what all examples share."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def repeat_first_axis(array: jax.Array, count: int) -> jax.Array:
    """The array `count` times along a new first axis."""
    return jnp.broadcast_to(array, (count, *array.shape))


repeat_first_axis.defvjp(
    lambda array, count: (repeat_first_axis(array, count), None),
    lambda count, _, grad: (sum_first_axis(grad).astype(grad.dtype),),
)


def sum_first_axis(array: jax.Array) -> jax.Array:
    """The sum over the first axis in float32.

    XLA's CPU back end walks down the columns for it, at a twentieth of the speed of a product with
    ones that reads row by row.
    """
    array = array.astype(jnp.float32)
    return jax.lax.platform_dependent(array, cpu=_ones_times, default=lambda x: jnp.sum(x, axis=0))


def _ones_times(array: jax.Array) -> jax.Array:
    ones_B = jnp.ones(array.shape[0], array.dtype)
    return jnp.einsum("b,b...->...", ones_B, array, precision="highest")
