"""softmax(logits) value for logits that all examples share: no [B, H, L, M] array.

The exponentials are computed once for all examples, and padding comes in through the values:
out = (exp(logits) @ (m value)) / (exp(logits) @ m).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from synth.attention.softmax import masked_softmax
from synth.attention.terms import Mask
from synth.dropout import times


def shared_attend(
    logits_HLM: jax.Array,
    value_BMHK: jax.Array,
    mask: Mask,
    dropout_LM: jax.Array | None,
    *,
    fixed: bool = False,
) -> jax.Array:
    """Attends with weights softmax(logits) that depend on the example by its padding alone.

    Args:
      logits_HLM: float32.
      value_BMHK: the values.
      mask: without segments.
      dropout_LM: factors on the weights after the softmax, or None.
      fixed: the logits are not trained: their exponentials are kept for the gradient, so that they
        are computed once a step. For others an exp costs less than the memory does.

    Returns:
      out_BLHK in the dtype of the values.
    """
    if mask.valid_BM is not None:
        if mask.visible_LM is not None:
            logits_HLM = jnp.where(mask.visible_LM, logits_HLM, -jnp.inf)
        return _shared_padded(fixed, logits_HLM, value_BMHK, mask.valid_BM, dropout_LM)
    weights_HLM = times(masked_softmax(logits_HLM[None], mask)[0], dropout_LM)
    return jnp.einsum("hlm,bmhk->blhk", weights_HLM.astype(value_BMHK.dtype), value_BMHK)


# exp(logits - ceiling) stays below exp(_HEADROOM), and an example is served by the quotient if its
# denominator is at least _SMALLEST: float32 then holds value and gradient without overflow.
_HEADROOM = 60.0
_SMALLEST = 1e-24


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _shared_padded(keep: bool, logits_HLM, value_BMHK, valid_BM, dropout_LM):
    """out = (E D @ (m V)) / (E @ m) with E = exp(logits) computed once for all examples.

    Exact for any logits: where the visible keys of some example lie so far below the others that
    the quotient would underflow, the examples are attended to one after the other instead.

    Args:
      keep: the exponentials for the gradient.
      logits_HLM: float32, -inf where hidden from every example.
      value_BMHK: values.
      valid_BM: bool, False on padding.
      dropout_LM: float32 factors on the weights, or None.
    """
    return _shared_padded_forward(keep, logits_HLM, value_BMHK, valid_BM, dropout_LM)[0]


def _shared_padded_forward(keep: bool, logits_HLM, value_BMHK, valid_BM, dropout_LM):
    exp_HLM = _exponentials(logits_HLM, valid_BM)
    sum_BHL = jnp.einsum("hlm,bm->bhl", exp_HLM, valid_BM.astype(jnp.float32))
    seen_BL = _sees_something(logits_HLM, valid_BM)
    served = jnp.all((sum_BHL >= _SMALLEST) | ~seen_BL[:, None])
    inverse_BHL = jnp.where(seen_BL[:, None], 1.0 / jnp.maximum(sum_BHL, _SMALLEST), 0.0)
    inverse_BLH1 = jnp.moveaxis(inverse_BHL, 1, 2)[..., None]

    def quotient():
        numerator_BLHK = jnp.einsum(
            "hlm,bmhk->blhk",
            times(exp_HLM, dropout_LM).astype(value_BMHK.dtype),
            _only(valid_BM, value_BMHK),
            preferred_element_type=jnp.float32,
        )
        return (numerator_BLHK * inverse_BLH1).astype(value_BMHK.dtype)

    def head_by_head():
        return _head_by_head(logits_HLM, value_BMHK, valid_BM, dropout_LM)

    out_BLHK = jax.lax.cond(served, quotient, head_by_head)
    kept_HLM = exp_HLM if keep else None
    saved = (logits_HLM, kept_HLM, value_BMHK, valid_BM, dropout_LM, inverse_BLH1, served, out_BLHK)
    return out_BLHK, saved


def _shared_padded_backward(keep: bool, saved, grad_BLHK):
    logits_HLM, kept_HLM, value_BMHK, valid_BM, dropout_LM, inverse_BLH1, served, out_BLHK = saved

    def quotient():
        # y = n / d: dn = g / d, dd = -<g, y> / d. The ceiling inside E cancels in y, so that the
        # derivative by the logits is E times the derivative by E.
        exp_HLM = kept_HLM if keep else _exponentials(logits_HLM, valid_BM)
        grad32_BLHK = grad_BLHK.astype(jnp.float32) * inverse_BLH1
        grad_sum_BLH = -jnp.sum(grad32_BLHK * out_BLHK.astype(jnp.float32), axis=-1)
        grad_numerator_BLHK = grad32_BLHK.astype(value_BMHK.dtype)
        grad_value_BMHK = jnp.einsum(
            "hlm,blhk->bmhk",
            times(exp_HLM, dropout_LM).astype(value_BMHK.dtype),
            grad_numerator_BLHK,
        )
        grad_weights_HLM = jnp.einsum(
            "blhk,bmhk->hlm",
            grad_numerator_BLHK,
            _only(valid_BM, value_BMHK),
            preferred_element_type=jnp.float32,
        )
        grad_sums_HLM = jnp.einsum("blh,bm->hlm", grad_sum_BLH, valid_BM.astype(jnp.float32))
        grad_logits_HLM = exp_HLM * (times(grad_weights_HLM, dropout_LM) + grad_sums_HLM)
        return grad_logits_HLM, _only(valid_BM, grad_value_BMHK)

    def head_by_head():
        _, vjp = jax.vjp(
            lambda logits, value: _head_by_head(logits, value, valid_BM, dropout_LM),
            logits_HLM,
            value_BMHK,
        )
        return vjp(grad_BLHK)

    grad_logits_HLM, grad_value_BMHK = jax.lax.cond(served, quotient, head_by_head)
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
    visible_LM = logits_HLM[0] != -jnp.inf
    seen_BL = jnp.einsum("lm,bm->bl", visible_LM.astype(jnp.float32), valid_BM.astype(jnp.float32))
    return seen_BL > 0


def _only(valid_BM, value_BMHK) -> jax.Array:
    """The values, 0 on padding."""
    return jnp.where(valid_BM[:, :, None, None], value_BMHK, 0)


def _head_by_head(logits_HLM, value_BMHK, valid_BM, dropout_LM) -> jax.Array:
    """The same output with a softmax of its own for each head of each example, in turn."""

    def of_head(head):
        logits_LM, value_BMK = head

        @jax.checkpoint
        def of_example(example):
            value_MK, valid_M = example
            visible_LM = (logits_LM != -jnp.inf) & valid_M  # a NaN is seen, and shows
            weights_11LM = masked_softmax(logits_LM[None, None], Mask(visible_LM=visible_LM))
            return times(weights_11LM[0, 0], dropout_LM).astype(value_MK.dtype) @ value_MK

        return jax.lax.map(of_example, (value_BMK, valid_BM))

    out_HBLK = jax.lax.map(of_head, (logits_HLM, jnp.moveaxis(value_BMHK, 2, 0)))
    return jnp.moveaxis(out_HBLK, 0, 2)
