"""The matrix products of a step of variant vanilla, alone: what the machine allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from synth.configuration import Config

# (batch, rows, inner, columns): how often it occurs.
Products = Counter[tuple[int, int, int, int]]


def products(config: Config, rows: int, length: int) -> Products:
    """Shapes of the forward products of an encoder and a decoder, and of their two gradients."""
    model = config.model
    tokens, width = rows * length, model.num_heads * model.head_dim
    forward: Products = Counter()
    forward[1, tokens, model.model_dim, width] += 12 * model.num_layers  # 3 attentions, 4 each
    forward[1, tokens, model.model_dim, model.ff_dim] += 2 * model.num_layers
    forward[1, tokens, model.ff_dim, model.model_dim] += 2 * model.num_layers
    forward[1, tokens, model.model_dim, config.data.vocab_size] += 1
    heads = rows * model.num_heads
    forward[heads, length, model.head_dim, length] += 3 * model.num_layers
    forward[heads, length, length, model.head_dim] += 3 * model.num_layers
    total: Products = Counter()
    for (batch, n, inner, columns), count in forward.items():
        total[batch, n, inner, columns] += count
        total[batch, n, columns, inner] += count
        total[batch, inner, n, columns] += count
    return total


def operations(total: Products) -> int:
    """A multiplication and an addition count as two."""
    return sum(count * 2 * b * n * k * m for (b, n, k, m), count in total.items())


def products_step(config: Config, rows: int, length: int) -> Callable[[], Any]:
    """Computes them all, one after another; operands lie as the machine likes them best."""
    multiply = jax.jit(jnp.matmul)
    key = jax.random.key(0)
    calls = []
    for (batch, n, inner, columns), count in products(config, rows, length).items():
        left = jax.random.normal(key, (batch, n, inner))
        right = jax.random.normal(key, (batch, inner, columns))
        calls.append((left, right, count))

    def step():
        for left, right, count in calls:
            for _ in range(count):
                jax.block_until_ready(multiply(left, right))

    return step
