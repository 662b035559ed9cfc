"""Attention as it is usually written, to measure ours against."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from unittest import mock

import jax
import jax.numpy as jnp

from synth.attention import layer
from synth.attention.softmax import masked_softmax
from synth.attention.terms import Mask, Term
from synth.dropout import times


def plain_attend(
    terms: Sequence[Term],
    value_BMHK: jax.Array,
    mask: Mask,
    dropout_LM: jax.Array | None = None,
) -> jax.Array:
    """As `synth.attention.attend.attend`: each term's logits_BHLM, their sum, softmax, product."""
    batch = value_BMHK.shape[0]
    each = [term.full() for term in terms]
    each = [jnp.broadcast_to(logits, (batch, *logits.shape[1:])) for logits in each]
    weights_BHLM = times(masked_softmax(functools.reduce(jnp.add, each), mask), dropout_LM)
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM.astype(value_BMHK.dtype), value_BMHK)


@contextlib.contextmanager
def plain_attention() -> Iterator[None]:
    """Models that are traced inside use `plain_attend`."""
    with mock.patch.object(layer, "attend", plain_attend):
        yield
