"""Cross-entropy against float64 numpy with the smoothed targets written out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synth import losses

B, L, V = 3, 4, 7
TARGETS = np.array([[1, 2, 3, 6], [4, 5, 0, 0], [0, 0, 0, 0]])


EYE_VV = jnp.eye(V)


def smoothed_loss(logits_BLV, targets_BL, smoothing: float, tokens_at_once: int = 0):
    """Of an output layer that copies its input."""
    return losses.smoothed_loss(
        logits_BLV, EYE_VV, targets_BL, label_smoothing=smoothing, tokens_at_once=tokens_at_once
    )


def token_nll(logits_BLV, targets_BL, tokens_at_once: int = 0):
    return losses.token_nll(logits_BLV, EYE_VV, targets_BL, tokens_at_once=tokens_at_once)


def log_softmax(logits_BLV):
    shifted = logits_BLV - logits_BLV.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def smoothed_targets(smoothing: float):
    """1 - s for the target, s / (V - 1) for each other token."""
    q_BLV = np.full((B, L, V), smoothing / (V - 1))
    np.put_along_axis(q_BLV, TARGETS[..., None], 1.0 - smoothing, axis=-1)
    return q_BLV


def expected_loss(logits_BLV, smoothing: float):
    """The Kullback-Leibler divergence from the smoothed targets, summed over real tokens."""
    q_BLV = smoothed_targets(smoothing)
    entropy = np.where(q_BLV > 0, q_BLV * np.log(np.maximum(q_BLV, 1e-300)), 0.0).sum(-1)
    cross_BL = -(q_BLV * log_softmax(logits_BLV)).sum(-1)
    return ((cross_BL + entropy) * (TARGETS > 0)).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_smoothed_loss_and_gradient(smoothing, rng):
    logits_BLV = 3.0 * rng.normal(size=(B, L, V))
    loss = jax.value_and_grad(smoothed_loss, has_aux=True)
    (found, tokens), grad_BLV = loss(jnp.float32(logits_BLV), jnp.asarray(TARGETS), smoothing)
    assert tokens == 6.0
    assert found == pytest.approx(expected_loss(logits_BLV, smoothing), rel=1e-5)
    # d loss / d logits = softmax - target distribution.
    expected_grad = np.exp(log_softmax(logits_BLV)) - smoothed_targets(smoothing)
    expected_grad *= (TARGETS > 0)[..., None]
    np.testing.assert_allclose(grad_BLV, expected_grad, atol=1e-6)
    assert not np.any(np.asarray(grad_BLV)[TARGETS == 0])


def test_without_smoothing_it_is_the_nll(rng):
    logits_BLV = jnp.asarray(rng.normal(size=(B, L, V)), jnp.float32)
    nll_BL = token_nll(logits_BLV, jnp.asarray(TARGETS))
    expected = -np.take_along_axis(log_softmax(np.float64(logits_BLV)), TARGETS[..., None], -1)
    np.testing.assert_allclose(nll_BL, expected[..., 0] * (TARGETS > 0), rtol=1e-5, atol=1e-6)
    loss, _ = smoothed_loss(logits_BLV, jnp.asarray(TARGETS), 0.0)
    assert loss == pytest.approx(float(nll_BL.sum()), rel=1e-6)


def test_a_perfect_model_has_loss_0():
    for smoothing in (0.0, 0.1):
        logits_BLV = np.log(np.maximum(smoothed_targets(smoothing), 1e-30))
        loss, _ = smoothed_loss(jnp.float32(logits_BLV), jnp.asarray(TARGETS), smoothing)
        assert float(loss) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_does_not_count(smoothing, rng):
    """More padding, or other logits there: the same sum and the same number of tokens."""
    logits_BLV = rng.normal(size=(B, L, V)).astype(np.float32)
    found = smoothed_loss(jnp.asarray(logits_BLV), jnp.asarray(TARGETS), smoothing)
    other = np.where((TARGETS > 0)[..., None], logits_BLV, 50.0)
    wider = np.pad(other, ((0, 0), (0, 3), (0, 0)))
    padded = np.pad(TARGETS, ((0, 0), (0, 3)))
    again = smoothed_loss(jnp.asarray(wider), jnp.asarray(padded), smoothing)
    np.testing.assert_allclose(again, found, rtol=1e-6)
    nothing = smoothed_loss(jnp.asarray(logits_BLV), jnp.zeros((B, L), int), smoothing)
    assert [float(x) for x in nothing] == [0.0, 0.0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_extreme_logits_stay_finite(smoothing):
    logits_BLV = np.zeros((B, L, V), np.float32)
    logits_BLV[..., 1], logits_BLV[..., 2] = 1e4, -1e4
    loss = jax.value_and_grad(smoothed_loss, has_aux=True)
    (found, _), grad_BLV = loss(jnp.asarray(logits_BLV), jnp.asarray(TARGETS), smoothing)
    assert float(found) == pytest.approx(expected_loss(np.float64(logits_BLV), smoothing), rel=1e-5)
    assert np.all(np.isfinite(grad_BLV))
    assert np.all(np.isfinite(token_nll(jnp.asarray(logits_BLV), jnp.asarray(TARGETS))))


def test_bfloat16_logits_are_scored_in_float32(rng):
    logits_BLV = jnp.asarray(rng.normal(size=(B, L, V)), jnp.bfloat16)
    nll_BL = token_nll(logits_BLV, jnp.asarray(TARGETS))
    assert nll_BL.dtype == jnp.float32
    exact_BL = token_nll(logits_BLV.astype(jnp.float32), jnp.asarray(TARGETS))
    np.testing.assert_array_equal(nll_BL, exact_BL)


# --- In parts -------------------------------------------------------------------------------------


def plain_loss(x_BLD, kernel_VD, targets_BL, smoothing: float):
    """With one-hot targets, all logits at once, and JAX's own gradient."""
    logp_BLV = jax.nn.log_softmax(x_BLD @ kernel_VD.T)
    q_BLV = jax.nn.one_hot(targets_BL, V) * (1.0 - smoothing)
    q_BLV += (1.0 - jax.nn.one_hot(targets_BL, V)) * smoothing / (V - 1)
    divergence_BL = jnp.sum(jax.scipy.special.xlogy(q_BLV, q_BLV) - q_BLV * logp_BLV, axis=-1)
    return jnp.sum(jnp.where(targets_BL > 0, divergence_BL, 0.0))


@pytest.mark.parametrize("tokens_at_once", [0, 1, 3, 6, 9, 12, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_any_number_of_tokens_at_once(smoothing, tokens_at_once, rng):
    """1, 2, 3 of 4 positions at a time, or all: the plain loss and its gradients, scaled, too."""
    x_BLD = jnp.asarray(rng.normal(size=(B, L, 5)), jnp.float32)
    kernel_VD = jnp.asarray(rng.normal(size=(V, 5)), jnp.float32)
    targets_BL = jnp.asarray(TARGETS)

    def ours(x_BLD, kernel_VD):
        loss, _ = losses.smoothed_loss(
            x_BLD,
            kernel_VD,
            targets_BL,
            label_smoothing=smoothing,
            tokens_at_once=tokens_at_once,
        )
        return 3.0 * loss

    def plain(x_BLD, kernel_VD):
        return 3.0 * plain_loss(x_BLD, kernel_VD, targets_BL, smoothing)

    found = jax.value_and_grad(ours, argnums=(0, 1))(x_BLD, kernel_VD)
    expected = jax.value_and_grad(plain, argnums=(0, 1))(x_BLD, kernel_VD)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    nll_BL = losses.token_nll(x_BLD, kernel_VD, targets_BL, tokens_at_once=tokens_at_once)
    whole_BL = losses.token_nll(x_BLD, kernel_VD, targets_BL)
    np.testing.assert_allclose(nll_BL, whole_BL, rtol=1e-6, atol=1e-6)


def temporary_bytes(batch: int, length: int, tokens_at_once: int) -> int:
    """Of loss and gradient over a vocabulary of 1,000."""

    def both(x_BLD, kernel_VD, targets_BL):
        def loss(x_BLD, kernel_VD):
            return losses.smoothed_loss(
                x_BLD, kernel_VD, targets_BL, label_smoothing=0.1, tokens_at_once=tokens_at_once
            )[0]

        return jax.value_and_grad(loss, argnums=(0, 1))(x_BLD, kernel_VD)

    shapes = ((batch, length, 8), (1000, 8))
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    targets_BL = jax.ShapeDtypeStruct((batch, length), jnp.int32)
    memory: Any = jax.jit(both).lower(*arrays, targets_BL).compile().memory_analysis()
    return memory.temp_size_in_bytes


def test_memory_does_not_grow_with_the_batch():
    """All at once it is more than one [B, L, V] array; in parts no more for four times the text."""
    assert temporary_bytes(4, 64, 0) > 4 * 64 * 1000 * 4
    assert temporary_bytes(16, 64, 0) > 3 * temporary_bytes(4, 64, 0)
    growth = temporary_bytes(16, 64, 64) - temporary_bytes(4, 64, 64)
    assert growth < 16 * 64 * 8 * 4 * 4  # a few arrays like x, none like the logits
    assert temporary_bytes(16, 64, 64) < 4 * 64 * 1000 * 4
