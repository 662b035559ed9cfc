"""softmax(query . key + bias) value, with a gradient of its own: for logits of each example.

Left to automatic differentiation, a softmax passes over [B, H, L, M] arrays some ten times. Here
the weights stay unnormalised (the division is done on the [B, L, H, K] output), one array is kept
for the gradient instead of two, and the gradient's sum over the keys comes from the output
(Dao et al., 2022, equation 4: sum_m w_m dw_m = <y, dy>).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from synth.attention.batch_axis import sum_first_axis
from synth.attention.terms import Mask
from synth.dropout import times


def softmax_attend(
    query_BLHK: jax.Array | None,
    key_BMHK: jax.Array | None,
    bias: jax.Array | None,
    value_BMHK: jax.Array,
    mask: Mask,
    dropout_LM: jax.Array | None,
) -> jax.Array:
    """Attends with weights softmax(<query, key> + bias).

    Args:
      query_BLHK, key_BMHK: the factored part of the logits, or None. They may be wider than the
        values.
      bias: logits_BHLM or logits_HLM to be added, or None; not both parts are None.
      value_BMHK: the values.
      mask: what each query may see; a query that may see nothing gets zeros.
      dropout_LM: factors on the weights after the softmax, or None.

    Returns:
      out_BLHK in the dtype of the values. Logits and softmax are in float32.
    """
    mask_B1LM = mask.full()
    return _attend(query_BLHK, key_BMHK, bias, value_BMHK, mask_B1LM, dropout_LM)


@jax.custom_vjp
def _attend(query_BLHK, key_BMHK, bias, value_BMHK, mask_B1LM, dropout_LM):
    return _forward(query_BLHK, key_BMHK, bias, value_BMHK, mask_B1LM, dropout_LM)[0]


def _forward(query_BLHK, key_BMHK, bias, value_BMHK, mask_B1LM, dropout_LM):
    logits_BHLM = jnp.float32(0)
    if query_BLHK is not None:
        logits_BHLM = jnp.einsum(
            "blhk,bmhk->bhlm", query_BLHK, key_BMHK, preferred_element_type=jnp.float32
        )
    if bias is not None:
        logits_BHLM = logits_BHLM + bias.astype(jnp.float32)
    if mask_B1LM is not None:
        logits_BHLM = jnp.where(mask_B1LM, logits_BHLM, -jnp.inf)
    max_BHL1 = jnp.max(logits_BHLM, axis=-1, keepdims=True)
    exp_BHLM = jnp.exp(logits_BHLM - jnp.where(max_BHL1 == -jnp.inf, 0.0, max_BHL1))
    sum_BHL = jnp.sum(exp_BHLM, axis=-1)
    inverse_BLH1 = _to_BLH1(jnp.where(sum_BHL == 0.0, 0.0, 1.0 / sum_BHL))
    exp_BHLM = exp_BHLM.astype(value_BMHK.dtype)
    numerator_BLHK = jnp.einsum(
        "bhlm,bmhk->blhk",
        times(exp_BHLM, dropout_LM),
        value_BMHK,
        preferred_element_type=jnp.float32,
    )
    out_BLHK = (numerator_BLHK * inverse_BLH1).astype(value_BMHK.dtype)
    saved = (query_BLHK, key_BMHK, bias, value_BMHK, dropout_LM, exp_BHLM, inverse_BLH1, out_BLHK)
    return out_BLHK, saved


def _backward(saved, grad_BLHK):
    query_BLHK, key_BMHK, bias, value_BMHK, dropout_LM, exp_BHLM, inverse_BLH1, out_BLHK = saved
    dtype = value_BMHK.dtype
    grad_BLHK = grad_BLHK.astype(jnp.float32) * inverse_BLH1
    along_out_BLH = jnp.sum(grad_BLHK * out_BLHK.astype(jnp.float32), axis=-1)
    grad_BLHK = grad_BLHK.astype(dtype)
    grad_weights_BHLM = jnp.einsum(
        "blhk,bmhk->bhlm", grad_BLHK, value_BMHK, preferred_element_type=jnp.float32
    )
    grad_logits_BHLM = exp_BHLM.astype(jnp.float32) * (
        times(grad_weights_BHLM, dropout_LM) - jnp.moveaxis(along_out_BLH, 2, 1)[..., None]
    )
    grad_value_BMHK = jnp.einsum("bhlm,blhk->bmhk", times(exp_BHLM, dropout_LM), grad_BLHK)
    grad_query_BLHK = grad_key_BMHK = grad_bias = None
    if query_BLHK is not None:
        grad_product_BHLM = grad_logits_BHLM.astype(dtype)
        grad_query_BLHK = jnp.einsum("bhlm,bmhk->blhk", grad_product_BHLM, key_BMHK)
        grad_key_BMHK = jnp.einsum("bhlm,blhk->bmhk", grad_product_BHLM, query_BLHK)
        grad_query_BLHK = grad_query_BLHK.astype(query_BLHK.dtype)
        grad_key_BMHK = grad_key_BMHK.astype(key_BMHK.dtype)
    if bias is not None:
        grad_bias = grad_logits_BHLM if bias.ndim == 4 else sum_first_axis(grad_logits_BHLM)
        grad_bias = grad_bias.astype(bias.dtype)
    return grad_query_BLHK, grad_key_BMHK, grad_bias, grad_value_BMHK, None, None


_attend.defvjp(_forward, _backward)


def _to_BLH1(x_BHL: jax.Array) -> jax.Array:
    return jnp.moveaxis(x_BHL, 1, 2)[..., None]


def masked_softmax(logits_BHLM: jax.Array, mask: Mask) -> jax.Array:
    """Softmax over M in float32; exactly 0 where masked, all 0 in a row that may see nothing."""
    logits_BHLM = logits_BHLM.astype(jnp.float32)
    mask_B1LM = mask.full()
    if mask_B1LM is None:
        return jax.nn.softmax(logits_BHLM, axis=-1)
    logits_BHLM = jnp.where(mask_B1LM, logits_BHLM, jnp.finfo(jnp.float32).min)
    return jnp.where(mask_B1LM, jax.nn.softmax(logits_BHLM, axis=-1), 0.0)
