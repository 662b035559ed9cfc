"""From score terms and values to the output: Y = softmax(sum of the terms) V.

`attend` picks the cheapest exact path:

  shared   every term is batch-free and rows are not packed: exp(logits) is computed once per
           layer and no [B, H, L, M] tensor exists; padding comes in through the values.
  logits   otherwise: factored terms are concatenated along K into one product, shared terms
           added as a bias.

`reference` materialises everything in float32; every path is tested against it, and so are the
gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from synth.attention.terms import Factored, Mask, Shared, Term


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
    if all(isinstance(term, Shared) for term in terms) and mask.segments_BL is None:
        logits_HLM = sum_shared(terms)
        return _attend_shared(logits_HLM, value_BMHK, mask, dropout_LM)
    weights_BHLM = masked_softmax(_sum_logits(terms), mask)
    if dropout_LM is not None:
        weights_BHLM = weights_BHLM * dropout_LM
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM.astype(value_BMHK.dtype), value_BMHK)


def reference(terms: Sequence[Term], value_BMHK, mask: Mask, dropout_LM=None) -> jax.Array:
    """`attend` in float32 with every tensor materialised: what the other paths must equal."""
    logits_BHLM = functools.reduce(jnp.add, [_full_float32(term) for term in terms])
    weights_BHLM = masked_softmax(logits_BHLM, mask)
    if dropout_LM is not None:
        weights_BHLM = weights_BHLM * dropout_LM
    value_BMHK = value_BMHK.astype(jnp.float32)
    batch = value_BMHK.shape[0]
    weights_BHLM = jnp.broadcast_to(weights_BHLM, (batch, *weights_BHLM.shape[1:]))
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM, value_BMHK, precision="highest")


def masked_softmax(logits_BHLM: jax.Array, mask: Mask) -> jax.Array:
    """Softmax over M in float32; exactly 0 where masked, all 0 in a row that may see nothing."""
    logits_BHLM = logits_BHLM.astype(jnp.float32)
    mask_B1LM = mask.full()
    if mask_B1LM is None:
        return jax.nn.softmax(logits_BHLM, axis=-1)
    logits_BHLM = jnp.where(mask_B1LM, logits_BHLM, jnp.finfo(jnp.float32).min)
    return jnp.where(mask_B1LM, jax.nn.softmax(logits_BHLM, axis=-1), 0.0)


def sum_shared(terms: Sequence[Term]) -> jax.Array:
    """logits_HLM, the sum of the shared terms in float32."""
    shared = [term.logits_HLM.astype(jnp.float32) for term in terms if isinstance(term, Shared)]
    return functools.reduce(jnp.add, shared)


def _full_float32(term: Term) -> jax.Array:
    if isinstance(term, Factored):
        term = Factored(term.query_BLHK.astype(jnp.float32), term.key.astype(jnp.float32))
    return term.full().astype(jnp.float32)


def _sum_logits(terms: Sequence[Term]) -> jax.Array:
    """The sum of all terms with one product for all factored ones."""
    factored = [term for term in terms if isinstance(term, Factored)]
    rest = [term for term in terms if not isinstance(term, Factored)]
    if len(factored) > 1:
        factored = [_concatenate(factored)]
    return functools.reduce(jnp.add, [term.full() for term in (*factored, *rest)])


def _concatenate(terms: Sequence[Factored]) -> Factored:
    """One factored term whose K axis holds those of all: sum of <q, k> = <[q...], [k...]>."""
    query = jnp.concatenate([term.query_BLHK for term in terms], axis=-1)
    batch = query.shape[0]
    keys = [jnp.broadcast_to(term.key, (batch, *term.key.shape[-3:])) for term in terms]
    return Factored(query, jnp.concatenate(keys, axis=-1))


# --- The shared path ------------------------------------------------------------------------------


def _attend_shared(logits_HLM, value_BMHK, mask: Mask, dropout_LM) -> jax.Array:
    if mask.visible_LM is not None:
        logits_HLM = jnp.where(mask.visible_LM, logits_HLM, -jnp.inf)
    if dropout_LM is None:
        dropout_LM = jnp.ones((1, 1), jnp.float32)
    if mask.valid_BM is not None:
        return _shared_padded(logits_HLM, value_BMHK, mask.valid_BM, dropout_LM)
    weights_HLM = jax.nn.softmax(logits_HLM, axis=-1) * dropout_LM
    return jnp.einsum("hlm,bmhk->blhk", weights_HLM.astype(value_BMHK.dtype), value_BMHK)


# exp(logits - ceiling) stays below exp(_HEADROOM), and an example is served by the quotient if its
# denominator is at least _SMALLEST: float32 then holds value and gradient without overflow.
_HEADROOM = 60.0
_SMALLEST = 1e-24


@jax.custom_vjp
def _shared_padded(logits_HLM, value_BMHK, valid_BM, dropout_LM):
    """out = (E D @ (m V)) / (E @ m) with E = exp(logits) computed once for all examples.

    Exact for any logits: where the visible keys of some example lie so far below the others that
    the quotient would underflow, the examples are attended to one after the other instead.

    Args:
      logits_HLM: float32, -inf where hidden from every example.
      value_BMHK: values.
      valid_BM: bool, False on padding.
      dropout_LM: float32 factors on the weights, [L, M] or [1, 1].
    """
    return _shared_padded_forward(logits_HLM, value_BMHK, valid_BM, dropout_LM)[0]


def _shared_padded_forward(logits_HLM, value_BMHK, valid_BM, dropout_LM):
    exp_HLM = _exponentials(logits_HLM, valid_BM)
    sum_BHL = jnp.einsum("hlm,bm->bhl", exp_HLM, valid_BM.astype(jnp.float32))
    seen_BL = _sees_something(logits_HLM, valid_BM)
    served = jnp.all((sum_BHL >= _SMALLEST) | ~seen_BL[:, None])
    inverse_BHL = jnp.where(seen_BL[:, None], 1.0 / jnp.maximum(sum_BHL, _SMALLEST), 0.0)

    def quotient():
        numerator_BLHK = _weigh(exp_HLM * dropout_LM, value_BMHK, valid_BM)
        out_BLHK = numerator_BLHK * jnp.moveaxis(inverse_BHL, 1, 2)[..., None]
        return out_BLHK.astype(value_BMHK.dtype)

    def one_by_one():
        return _one_by_one(logits_HLM, value_BMHK, valid_BM, dropout_LM)

    out_BLHK = jax.lax.cond(served, quotient, one_by_one)
    saved = (logits_HLM, exp_HLM, value_BMHK, valid_BM, dropout_LM, inverse_BHL, served, out_BLHK)
    return out_BLHK, saved


def _shared_padded_backward(saved, grad_BLHK):
    logits_HLM, exp_HLM, value_BMHK, valid_BM, dropout_LM, inverse_BHL, served, out_BLHK = saved

    def quotient():
        # y = n / d: dn = g / d, dd = -<g, y> / d. The ceiling inside E cancels in y, so that the
        # derivative by the logits is E times the derivative by E.
        grad32_BLHK = grad_BLHK.astype(jnp.float32)
        inverse_BLH1 = jnp.moveaxis(inverse_BHL, 1, 2)[..., None]
        grad_numerator_BLHK = (grad32_BLHK * inverse_BLH1).astype(value_BMHK.dtype)
        grad_sum_BLH = (
            -jnp.sum(grad32_BLHK * out_BLHK.astype(jnp.float32), axis=-1) * inverse_BLH1[..., 0]
        )
        valid_BM11 = valid_BM[:, :, None, None]
        masked_value_BMHK = jnp.where(valid_BM11, value_BMHK, 0)
        grad_exp_HLM = dropout_LM * jnp.einsum(
            "blhk,bmhk->hlm",
            grad_numerator_BLHK,
            masked_value_BMHK,
            preferred_element_type=jnp.float32,
        ) + jnp.einsum("blh,bm->hlm", grad_sum_BLH, valid_BM.astype(jnp.float32))
        grad_value_BMHK = jnp.einsum(
            "hlm,blhk->bmhk", (exp_HLM * dropout_LM).astype(value_BMHK.dtype), grad_numerator_BLHK
        )
        return exp_HLM * grad_exp_HLM, jnp.where(valid_BM11, grad_value_BMHK, 0)

    def one_by_one():
        _, vjp = jax.vjp(
            lambda logits, value: _one_by_one(logits, value, valid_BM, dropout_LM),
            logits_HLM,
            value_BMHK,
        )
        return vjp(grad_BLHK)

    grad_logits_HLM, grad_value_BMHK = jax.lax.cond(served, quotient, one_by_one)
    return grad_logits_HLM, grad_value_BMHK, None, None


_shared_padded.defvjp(_shared_padded_forward, _shared_padded_backward)


def _exponentials(logits_HLM, valid_BM) -> jax.Array:
    """exp(logits - ceiling), with the ceiling as near to what all examples see as range allows."""
    common_M = jnp.all(valid_BM | ~jnp.any(valid_BM, axis=1, keepdims=True), axis=0)
    common_HL1 = jnp.max(
        jnp.where(common_M, logits_HLM, -jnp.inf), axis=-1, keepdims=True, initial=-jnp.inf
    )
    max_HL1 = jnp.max(logits_HLM, axis=-1, keepdims=True)
    ceiling_HL1 = jnp.maximum(common_HL1, max_HL1 - _HEADROOM)
    return jnp.exp(logits_HLM - jnp.where(jnp.isfinite(ceiling_HL1), ceiling_HL1, 0.0))


def _sees_something(logits_HLM, valid_BM) -> jax.Array:
    """bool_BL: whether query l of example b has any key to look at."""
    visible_LM = jnp.isfinite(logits_HLM[0])
    seen_BL = jnp.einsum("lm,bm->bl", visible_LM.astype(jnp.float32), valid_BM.astype(jnp.float32))
    return seen_BL > 0


def _weigh(exp_HLM, value_BMHK, valid_BM) -> jax.Array:
    """sum over valid m of exp_HLM value_BMHK, accumulated in float32."""
    masked_BMHK = jnp.where(valid_BM[:, :, None, None], value_BMHK, 0)
    return jnp.einsum(
        "hlm,bmhk->blhk",
        exp_HLM.astype(value_BMHK.dtype),
        masked_BMHK,
        preferred_element_type=jnp.float32,
    )


def _one_by_one(logits_HLM, value_BMHK, valid_BM, dropout_LM) -> jax.Array:
    """The same output with a softmax of its own for each example, in turn."""

    @jax.checkpoint
    def one(example):
        value_MHK, valid_M = example
        visible_HLM = jnp.isfinite(logits_HLM) & valid_M
        masked_HLM = jnp.where(visible_HLM, logits_HLM, jnp.finfo(jnp.float32).min)
        weights_HLM = jnp.where(visible_HLM, jax.nn.softmax(masked_HLM, axis=-1), 0.0) * dropout_LM
        return jnp.einsum("hlm,mhk->lhk", weights_HLM.astype(value_MHK.dtype), value_MHK)

    return jax.lax.map(one, (value_BMHK, valid_BM))
