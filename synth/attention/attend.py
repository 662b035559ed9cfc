"""From score terms and values to the output: Y = softmax(sum of the terms) V.

`attend` takes the cheapest exact path:

  shared   every term is batch-free and rows are not packed: no [B, H, L, M] array (`shared.py`).
  fused    on a GPU, where cuDNN's attention kernel can serve the terms: none either.
  softmax  otherwise: factored terms are concatenated along K into one product (unless rows are
           short), the others are added as a bias (`softmax.py`).

`reference` materialises everything in float32; every path is tested against it, and so are the
gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from synth.attention.batch_axis import repeat_first_axis
from synth.attention.fused import fused_attend, why_not_fused
from synth.attention.shared import shared_attend
from synth.attention.softmax import masked_softmax, softmax_attend
from synth.attention.terms import Factored, Full, Mask, Shared, Term
from synth.compilation import platform
from synth.dropout import times


def attend(
    terms: Sequence[Term],
    value_BMHK: jax.Array,
    mask: Mask,
    dropout_LM: jax.Array | None = None,
) -> jax.Array:
    """Attends to the values with the softmax of the sum of the terms.

    Args:
      terms: at least one score term.
      value_BMHK: the values, in the compute dtype.
      mask: what each query may see; a query that may see nothing gets zeros.
      dropout_LM: factors 0 or 1/(1 - rate) on the weights after the softmax, the same for all
        examples and heads (as in T2T's TPU set-up), or None.

    Returns:
      out_BLHK in the dtype of the values.
    """
    path, _ = choose_path(terms, value_BMHK, mask, dropout_LM, platform=platform())
    if path == "shared":
        fixed = all(isinstance(term, Shared) and term.fixed for term in terms)
        return shared_attend(sum_shared(terms), value_BMHK, mask, dropout_LM, fixed=fixed)
    factored = [term for term in terms if isinstance(term, Factored)]
    others = [term for term in terms if not isinstance(term, Factored)]
    if path == "softmax" and value_BMHK.shape[1] <= sum(t.query_BLHK.shape[-1] for t in factored):
        # Short rows: the logits are smaller than the joined queries, and their sum costs less.
        others += [Full(term.full()) for term in factored[1:]]
        factored = factored[:1]
    query_BLHK, key_BMHK = _concatenate(factored, batch=value_BMHK.shape[0])
    bias = _sum_biases(others)
    if path == "fused":
        return fused_attend(query_BLHK, key_BMHK, bias, value_BMHK, mask)
    return softmax_attend(query_BLHK, key_BMHK, bias, value_BMHK, mask, dropout_LM)


def choose_path(
    terms: Sequence[Term],
    value_BMHK: jax.Array,
    mask: Mask,
    dropout_LM: jax.Array | None,
    *,
    platform: str,
) -> tuple[str, str]:
    """The path that `attend` takes on a platform ('cpu', 'gpu', 'tpu'), and why, in words."""
    if all(isinstance(term, Shared) for term in terms) and mask.segments_BL is None:
        return "shared", "no term depends on the example"
    reason = why_not_fused(terms, value_BMHK, mask, dropout_LM, platform)
    if reason is None:
        return "fused", "cuDNN's attention kernel serves these terms"
    return "softmax", reason


def reference(terms: Sequence[Term], value_BMHK, mask: Mask, dropout_LM=None) -> jax.Array:
    """`attend` in float32 with every tensor materialised: what the other paths must equal."""
    logits_BHLM = functools.reduce(jnp.add, [_full_float32(term) for term in terms])
    weights_BHLM = times(masked_softmax(logits_BHLM, mask), dropout_LM)
    value_BMHK = value_BMHK.astype(jnp.float32)
    batch = value_BMHK.shape[0]
    weights_BHLM = jnp.broadcast_to(weights_BHLM, (batch, *weights_BHLM.shape[1:]))
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM, value_BMHK, precision="highest")


def sum_shared(terms: Sequence[Term]) -> jax.Array:
    """logits_HLM, the sum of the shared terms in float32."""
    shared = [term.logits_HLM.astype(jnp.float32) for term in terms if isinstance(term, Shared)]
    return functools.reduce(jnp.add, shared)


def _full_float32(term: Term) -> jax.Array:
    if isinstance(term, Factored):
        term = Factored(term.query_BLHK.astype(jnp.float32), term.key.astype(jnp.float32))
    return term.full().astype(jnp.float32)


def _concatenate(terms: Sequence[Factored], batch: int) -> tuple[Any, Any]:
    """One query_BLHK and key_BMHK for all terms: sum of <q, k> = <[q...], [k...]>; or two None.

    Keys that all examples share are repeated: XLA's batched products are faster so than with one
    large product and the logits' axes in another order.
    """
    if not terms:
        return None, None
    keys: list[Any] = [
        repeat_first_axis(term.key, batch) if term.key.ndim == 3 else term.key for term in terms
    ]
    if len(terms) == 1:
        return terms[0].query_BLHK, keys[0]
    queries = [term.query_BLHK for term in terms]
    return jnp.concatenate(queries, axis=-1), jnp.concatenate(keys, axis=-1)


def _sum_biases(terms: Sequence[Term]) -> jax.Array | None:
    """logits_HLM, or logits_BHLM where a term has a batch axis; None for no terms."""
    shared = [term.logits_HLM for term in terms if isinstance(term, Shared)]
    full = [term.logits_BHLM for term in terms if isinstance(term, Full)]
    return functools.reduce(jnp.add, [*shared, *full]) if terms else None
