"""softmax(logits) value for logits that all examples share: no [B, H, L, M] array.

The exponentials are computed once per layer, not once per example, and padding comes in through
the values: out = (exp(logits) @ (m value)) / (exp(logits) @ m).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from synth.attention.terms import Mask


def shared_attend(
    logits_HLM: jax.Array, value_BMHK: jax.Array, mask: Mask, dropout_LM: jax.Array | None
) -> jax.Array:
    """Attends with weights softmax(logits) that depend on the example by its padding alone.

    Args:
      logits_HLM: float32.
      value_BMHK: the values.
      mask: without segments.
      dropout_LM: factors on the weights after the softmax, or None.

    Returns:
      out_BLHK in the dtype of the values.
    """
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
