"""Token cross-entropy of an output layer, always as a sum and a weight.

logits_BLV = x_BLD kernel_VD^T is by far the largest array of a step. It lives for some positions at
a time, and its gradient is made beside it: nothing of the size B L V is kept or made again.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from synth.layers import output_logits


def token_nll(
    x_BLD: jax.Array, kernel_VD: jax.Array, targets_BL: jax.Array, *, tokens_at_once: int = 0
) -> jax.Array:
    """nll_BL in nats, float32: -log softmax(logits)[target], 0 where the target is padding (0).

    Args: as of `smoothed_loss`.
    """

    def of_chunk(carry, part):
        x_BCD, targets_BC = part
        logits_BCV = output_logits(x_BCD, kernel_VD)
        nll_BC = jax.nn.logsumexp(logits_BCV, axis=-1) - _pick(logits_BCV, targets_BC)
        return carry, jnp.where(targets_BC > 0, nll_BC, 0.0)

    _, nll_BL = _over_positions(of_chunk, None, x_BLD, targets_BL, tokens_at_once)
    return nll_BL


def smoothed_loss(
    x_BLD: jax.Array,
    kernel_VD: jax.Array,
    targets_BL: jax.Array,
    *,
    label_smoothing: float,
    tokens_at_once: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """Label-smoothed cross-entropy as in T2T's `padded_cross_entropy`.

    The target has probability 1 - s, every other token s / (V - 1); the entropy of that
    distribution is subtracted, so that a perfect model has loss 0. No [B, L, V] target is made:
    the sum over the vocabulary comes from the mean of the logits and their log-sum.

    Args:
      x_BLD: what the output layer reads, in the compute dtype.
      kernel_VD: float32.
      targets_BL: int tokens, 0 = padding.
      label_smoothing: s in [0, 1).
      tokens_at_once: how many tokens' logits exist at a time, 0 for all; at least one position of
        each row does.

    Returns:
      (sum over tokens in nats, number of tokens), both float32 scalars. The gradient is that of
      the sum.
    """
    weight = jnp.sum(targets_BL > 0).astype(jnp.float32)
    return _loss_sum(label_smoothing, tokens_at_once, x_BLD, kernel_VD, targets_BL), weight


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _loss_sum(smoothing: float, at_once: int, x_BLD, kernel_VD, targets_BL) -> jax.Array:
    def of_chunk(total, part):
        x_BCD, targets_BC = part
        logits_BCV = output_logits(x_BCD, kernel_VD)
        loss_BC, _ = _smoothed(logits_BCV, targets_BC, smoothing)
        return total + jnp.sum(loss_BC), None

    return _over_positions(of_chunk, jnp.float32(0), x_BLD, targets_BL, at_once)[0]


def _loss_and_gradient(smoothing: float, at_once: int, x_BLD, kernel_VD, targets_BL):
    """The gradient is that of a sum, so it is known up to a factor as soon as the loss is."""

    def of_chunk(carry, part):
        total, grad_kernel_VD = carry
        x_BCD, targets_BC = part
        logits_BCV = output_logits(x_BCD, kernel_VD)
        loss_BC, log_sum_BC = _smoothed(logits_BCV, targets_BC, smoothing)
        grad_BCV = _gradient(logits_BCV, log_sum_BC, targets_BC, smoothing).astype(x_BCD.dtype)
        grad_x_BCD = jnp.einsum("bcv,vd->bcd", grad_BCV, kernel_VD.astype(x_BCD.dtype))
        grad_kernel_VD += jnp.einsum(
            "bcv,bcd->vd", grad_BCV, x_BCD, preferred_element_type=jnp.float32
        )
        return (total + jnp.sum(loss_BC), grad_kernel_VD), grad_x_BCD

    start = (jnp.float32(0), jnp.zeros(kernel_VD.shape, jnp.float32))
    (total, grad_kernel_VD), grad_x_BLD = _over_positions(
        of_chunk, start, x_BLD, targets_BL, at_once
    )
    return total, (grad_x_BLD, grad_kernel_VD)


def _scale_gradient(smoothing: float, at_once: int, gradients, factor):
    del smoothing, at_once
    grad_x_BLD, grad_kernel_VD = gradients
    return (grad_x_BLD * factor).astype(grad_x_BLD.dtype), grad_kernel_VD * factor, None


_loss_sum.defvjp(_loss_and_gradient, _scale_gradient)


def _smoothed(logits_BLV, targets_BL, smoothing: float) -> tuple[jax.Array, jax.Array]:
    """(loss_BL, the logits' log-sum), the loss 0 on padding."""
    vocab_size = logits_BLV.shape[-1]
    log_sum_BL = jax.nn.logsumexp(logits_BLV, axis=-1)
    loss_BL = log_sum_BL - _pick(logits_BLV, targets_BL)
    if smoothing > 0.0:
        low, confidence = smoothing / (vocab_size - 1), 1.0 - smoothing
        others_BL = vocab_size * log_sum_BL - jnp.sum(logits_BLV, axis=-1) - loss_BL
        entropy = -(confidence * math.log(confidence) + smoothing * math.log(low))
        loss_BL = confidence * loss_BL + low * others_BL - entropy
    return jnp.where(targets_BL > 0, loss_BL, 0.0), log_sum_BL


def _gradient(logits_BLV, log_sum_BL, targets_BL, smoothing: float) -> jax.Array:
    """softmax(logits) - target distribution, 0 on padding."""
    vocab_size = logits_BLV.shape[-1]
    low = smoothing / (vocab_size - 1) if smoothing else 0.0
    is_target_BLV = jnp.arange(vocab_size) == targets_BL[..., None]
    grad_BLV = jnp.exp(logits_BLV - log_sum_BL[..., None])
    grad_BLV -= jnp.where(is_target_BLV, 1.0 - smoothing, low)
    return jnp.where((targets_BL > 0)[..., None], grad_BLV, 0.0)


def _pick(logits_BLV, targets_BL) -> jax.Array:
    return jnp.take_along_axis(logits_BLV, targets_BL[..., None], axis=-1)[..., 0]


def _over_positions(
    of_chunk: Any, carry: Any, x_BLD: jax.Array, targets_BL: jax.Array, tokens_at_once: int
) -> tuple[Any, Any]:
    """`of_chunk(carry, (x_BCD, targets_BC))` on C positions of all rows at a time.

    Returns:
      The last carry and the outputs, joined along L.
    """
    batch, length = targets_BL.shape
    most = max(1, tokens_at_once // batch) if tokens_at_once else length
    count = -(-length // most)
    if count == 1:
        return of_chunk(carry, (x_BLD, targets_BL))
    chunk = -(-length // count)
    missing = count * chunk - length  # filled with padding, which counts nothing

    def split(array):
        array = jnp.pad(array, [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2))
        return jnp.moveaxis(array.reshape(batch, count, chunk, *array.shape[2:]), 1, 0)

    def join(parts):
        whole = jnp.moveaxis(parts, 0, 1).reshape(batch, count * chunk, *parts.shape[3:])
        return whole[:, :length]

    carry, outputs = jax.lax.scan(of_chunk, carry, (split(x_BLD), split(targets_BL)))
    return carry, jax.tree.map(join, outputs)
