"""Token cross-entropy, always as a sum and a weight."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp


def token_nll(logits_BLV: jax.Array, targets_BL: jax.Array) -> jax.Array:
    """nll_BL in nats, float32: -log softmax(logits)[target], 0 where the target is padding (0)."""
    logits_BLV = logits_BLV.astype(jnp.float32)
    log_sum_BL = jax.nn.logsumexp(logits_BLV, axis=-1)
    target_BL = jnp.take_along_axis(logits_BLV, targets_BL[..., None], axis=-1)[..., 0]
    return jnp.where(targets_BL > 0, log_sum_BL - target_BL, 0.0)


def smoothed_loss(
    logits_BLV: jax.Array, targets_BL: jax.Array, label_smoothing: float
) -> tuple[jax.Array, jax.Array]:
    """Label-smoothed cross-entropy as in T2T's `padded_cross_entropy`.

    The target has probability 1 - s, every other token s / (V - 1); the entropy of that
    distribution is subtracted, so that a perfect model has loss 0. No [B, L, V] target is made:
    the sum over the vocabulary comes from the mean of the logits and their log-sum.

    Args:
      logits_BLV: float32.
      targets_BL: int tokens, 0 = padding.
      label_smoothing: s in [0, 1).

    Returns:
      (sum over tokens in nats, number of tokens), both float32 scalars.
    """
    vocab_size = logits_BLV.shape[-1]
    log_sum_BL = jax.nn.logsumexp(logits_BLV, axis=-1)
    target_BL = jnp.take_along_axis(logits_BLV, targets_BL[..., None], axis=-1)[..., 0]
    loss_BL = log_sum_BL - target_BL
    if label_smoothing > 0.0:
        low = label_smoothing / (vocab_size - 1)
        confidence = 1.0 - label_smoothing
        others_BL = vocab_size * log_sum_BL - jnp.sum(logits_BLV, axis=-1) - loss_BL
        entropy = -(confidence * math.log(confidence) + label_smoothing * math.log(low))
        loss_BL = confidence * loss_BL + low * others_BL - entropy
    weights_BL = (targets_BL > 0).astype(jnp.float32)
    return jnp.sum(loss_BL * weights_BL), jnp.sum(weights_BL)
