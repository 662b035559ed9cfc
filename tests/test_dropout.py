"""Dropout: its rate, its scale, the same on every mesh, no pattern within a hash."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from synth.dropout import dropout, dropout_factors, random_bits16


@pytest.mark.parametrize("shape", [(64, 64), (3, 37, 128), (5, 1, 4096), (2, 3, 5, 700)])
def test_bits_are_uniform_and_independent(shape):
    bits = np.asarray(random_bits16(jax.random.key(0), shape))
    assert bits.shape == shape and bits.max() < 2**16
    uniform = bits.ravel() / 2**16
    error = 5 / np.sqrt(12 * bits.size)  # five standard deviations of the mean
    assert abs(uniform.mean() - 0.5) < error
    for bit in range(16):
        assert abs((bits >> bit & 1).mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    # Neighbours along each axis, and the four numbers of one hash, have nothing in common.
    for axis in range(len(shape)):
        for step in {1, -(-shape[-2] // 4)}:
            if (shape[axis] - step) < 2:
                continue
            one, other = (np.take(bits, range(*ends), axis) for ends in _ends(shape[axis], step))
            correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
            assert abs(correlation) < 5 / np.sqrt(one.size)


def _ends(size: int, step: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, size - step), (step, size)


def test_keys_give_different_bits():
    first, second = (random_bits16(jax.random.key(seed), (40, 50)) for seed in range(2))
    assert np.mean(np.asarray(first == second)) < 0.01


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.99999])
def test_the_mean_is_kept(rate):
    kept = np.asarray(dropout_factors(jax.random.key(1), rate, (1000, 1000)))
    threshold = min(round(rate * 2**16), 2**16 - 1)
    scale = 2**16 / (2**16 - threshold)
    assert {0.0, np.float32(scale)} == set(np.unique(kept))
    assert abs(threshold / 2**16 - rate) <= 2**-16
    exact = threshold / 2**16
    assert abs((kept == 0).mean() - exact) < 5 * np.sqrt(exact * (1 - exact)) / 1000


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_value_and_gradient_are_dropped_alike(dtype):
    x = jnp.full((8, 16, 32), 3.0, dtype)
    key = jax.random.key(2)
    y, vjp = jax.vjp(lambda x: dropout(x, 0.25, key), x)
    (grad,) = vjp(jnp.ones_like(y))
    factors = dropout_factors(key, 0.25, x.shape)
    assert factors is not None and y.dtype == grad.dtype == dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x * factors.astype(dtype)))
    np.testing.assert_array_equal(np.asarray(grad), np.asarray(factors.astype(dtype)))


def test_what_is_dropped_does_not_pass_on_what_is_not_finite():
    x = jnp.full((16, 16), jnp.inf)
    y = np.asarray(dropout(x, 0.5, jax.random.key(3)))
    assert set(np.unique(y)) == {0.0, np.inf}


def test_the_mesh_does_not_matter():
    mesh = jax.make_mesh((4, 2), ("data", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = jnp.ones((8, 10, 16))
    key = jax.random.key(4)

    def dropped(x):
        return dropout(x, 0.3, key)

    spread = NamedSharding(mesh, PartitionSpec("data", None, "tensor"))
    split = jax.jit(dropped, in_shardings=spread, out_shardings=spread)(jax.device_put(x, spread))
    np.testing.assert_array_equal(np.asarray(split), np.asarray(jax.jit(dropped)(x)))
    compiled = jax.jit(dropped, in_shardings=spread, out_shardings=spread).lower(x).compile()
    assert "all-" not in (compiled.as_text() or "")  # nothing is sent between devices
