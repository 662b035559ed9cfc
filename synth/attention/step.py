"""One decoding step of self-attention: a single query per hypothesis, over what steps have written.

A cache is [B, H, M W, K] (W hypotheses per example, M steps, those of a step side by side): what a
step writes is one slice, updated in place, and what a head reads lies together. Hypotheses are
reordered at every step of a beam search, but the cache is not: `ancestors_RM` tells in which of the
W places the m-th position of a hypothesis was written, so that reordering moves these few integers
instead of all keys and values. R = B W are rows, the hypotheses of an example side by side; S = M W
are the slots of an example.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from synth.attention.softmax import masked_softmax
from synth.attention.terms import Mask, Term


class Unmoved(NamedTuple):
    """Arrays of a cache that stay as they are when hypotheses are reordered.

    For what is large: the model then keeps account of what belongs to which hypothesis, in a small
    array of the cache that is moved.
    """

    arrays: Any


def empty(batch: int, beam: int, length: int, num_heads: int, head_dim: int, dtype) -> jax.Array:
    """A cache_BHSK with nothing in it."""
    return jnp.zeros((batch, num_heads, length * beam, head_dim), dtype)


def first_ancestors(batch: int, beam: int, length: int) -> jax.Array | None:
    """ancestors_RM of hypotheses that have no past; None where none has another's."""
    return None if beam == 1 else jnp.zeros((batch * beam, length), jnp.int32)


def with_own_place(ancestors_RM: jax.Array | None, index: jax.Array, batch: int):
    """The ancestors, where each row writes position `index` in its own place."""
    if ancestors_RM is None:
        return None
    rows = ancestors_RM.shape[0]
    place_R1 = (jnp.arange(rows, dtype=jnp.int32) % (rows // batch))[:, None]
    return jax.lax.dynamic_update_slice_in_dim(ancestors_RM, place_R1, index, axis=1)


def write(cache_BHSK: jax.Array, new_R1HK: jax.Array, index: jax.Array) -> jax.Array:
    """The cache with what all rows contribute at position `index`."""
    batch, num_heads, _, head_dim = cache_BHSK.shape
    beam = new_R1HK.shape[0] // batch
    new_BWHK = new_R1HK.reshape(batch, beam, num_heads, head_dim).astype(cache_BHSK.dtype)
    new_BHWK = jnp.swapaxes(new_BWHK, 1, 2)
    return jax.lax.dynamic_update_slice_in_dim(cache_BHSK, new_BHWK, index * beam, axis=2)


def read(cache_BHSK: jax.Array, ancestors_RM: jax.Array | None) -> jax.Array:
    """rows_RHMK: what each row and its ancestors wrote."""
    if ancestors_RM is None:
        return cache_BHSK
    batch, num_heads, slots, head_dim = cache_BHSK.shape
    rows, length = ancestors_RM.shape
    steps_HM = jnp.arange(num_heads * length, dtype=jnp.int32).reshape(num_heads, length)
    beam = slots // length
    place_BWHM = steps_HM * beam + ancestors_RM.reshape(batch, beam, 1, length)

    def of_example(cache_NK, place_WHM):
        return cache_NK.at[place_WHM].get(mode="promise_in_bounds")

    cache_BNK = cache_BHSK.reshape(batch, num_heads * slots, head_dim)
    rows_BWHMK = jax.vmap(of_example)(cache_BNK, place_BWHM)
    return rows_BWHMK.reshape(rows, num_heads, length, head_dim)


def attend_step(terms: Sequence[Term], value_RHMK: jax.Array, index: jax.Array) -> jax.Array:
    """Attends from position `index` to 0..index with the softmax of the sum of the terms.

    Args:
      terms: score terms of one query per row.
      value_RHMK: the values.
      index: a scalar.

    Returns:
      out_R1HK in the dtype of the values.
    """
    logits_RH1M = functools.reduce(jnp.add, [term.full() for term in terms])
    visible_1M = (jnp.arange(value_RHMK.shape[2]) <= index)[None]
    weights_RH1M = masked_softmax(logits_RH1M, Mask(visible_LM=visible_1M))
    return _weigh(weights_RH1M, value_RHMK)


def attend_memory(
    query_R1HK: jax.Array, key_BHMK: jax.Array, value_BHMK: jax.Array, valid_BM: jax.Array
) -> jax.Array:
    """out_R1HK of the hypotheses' queries to the memory of their example, which is not copied."""
    batch, num_heads, _, head_dim = key_BHMK.shape
    query_BWHK = query_R1HK.reshape(batch, -1, num_heads, head_dim)
    logits_BHWM = jnp.einsum(
        "bwhk,bhmk->bhwm", query_BWHK, key_BHMK, preferred_element_type=jnp.float32
    )
    weights_BHWM = masked_softmax(logits_BHWM, Mask(valid_BM=valid_BM))
    return _weigh(weights_BHWM, value_BHMK).reshape(query_R1HK.shape)


def _weigh(weights_BHLM: jax.Array, value_BHMK: jax.Array) -> jax.Array:
    """out_BLHK. The product has the order of its operands: others would be moved for it."""
    batch, _, _, _ = value_BHMK.shape
    weights_BHLM = jnp.broadcast_to(weights_BHLM, (batch, *weights_BHLM.shape[1:]))
    out_BHLK = jnp.einsum("bhlm,bhmk->bhlk", weights_BHLM.astype(value_BHMK.dtype), value_BHMK)
    return jnp.swapaxes(out_BHLK, 1, 2)
