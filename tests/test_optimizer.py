"""The learning rate by hand and by T2T's formula; Adam's first update."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from synth.optimizer import make_optimizer, rsqrt_schedule

ADAM = dict(b1=0.9, b2=0.997, eps=1e-9)


def rate_at(schedule: Any, step: int) -> float:
    return float(schedule(step))


def test_by_hand():
    schedule = rsqrt_schedule(constant=2.0, warmup_steps=4, model_dim=16)
    # 2 / sqrt(16) = 0.5, over sqrt(4) until the warm-up is over, over sqrt(t) from there.
    by_hand = {0: 0.0625, 1: 0.125, 3: 0.25, 8: 0.5 / 3.0, 15: 0.125, 99: 0.05}
    for step, rate in by_hand.items():
        assert rate_at(schedule, step) == pytest.approx(rate, rel=1e-6)


def test_is_that_of_tensor2tensor():
    """`constant * linear_warmup * rsqrt_decay * rsqrt_hidden_size`, factor by factor."""
    warmup, model_dim = 8000, 512
    schedule = rsqrt_schedule(constant=2.0, warmup_steps=warmup, model_dim=model_dim)
    for step in (0, 99, 7998, 7999, 8000, 50_000, 299_999):
        t = step + 1
        rate = 2.0  # constant
        rate *= min(1.0, t / warmup)  # linear_warmup
        rate *= 1.0 / np.sqrt(max(t, warmup))  # rsqrt_decay
        rate *= model_dim**-0.5  # rsqrt_hidden_size
        assert rate_at(schedule, step) == pytest.approx(rate, rel=1e-5)


def test_also_that_of_vaswani_et_al():
    """D^-1/2 min(t^-1/2, t warmup^-3/2), at constant 1."""
    schedule = rsqrt_schedule(constant=1.0, warmup_steps=10, model_dim=64)
    for step in range(30):
        t = step + 1
        expected = 64**-0.5 * min(t**-0.5, t * 10**-1.5)
        assert rate_at(schedule, step) == pytest.approx(expected, rel=1e-5)


def test_rises_to_the_end_of_the_warm_up_then_falls():
    schedule = rsqrt_schedule(constant=1.0, warmup_steps=10, model_dim=64)
    rates = np.array([rate_at(schedule, step) for step in range(40)])
    assert np.argmax(rates) == 9
    assert np.all(np.diff(rates[:10]) > 0) and np.all(np.diff(rates[9:]) < 0)


def test_updates_are_those_of_adam():
    """Three updates against Adam (Kingma and Ba, algorithm 1) in numpy; the first is not 0."""
    optimizer, schedule = make_optimizer(learning_rate=2.0, warmup_steps=4, model_dim=16, **ADAM)
    rng = np.random.default_rng(0)
    params: Any = {"w": jnp.asarray(rng.normal(size=5), jnp.float32)}
    state = optimizer.init(params)
    w, m, v = np.float64(params["w"]), np.zeros(5), np.zeros(5)
    for step in range(3):
        gradient = rng.normal(size=5)
        updates: Any
        updates, state = optimizer.update({"w": jnp.float32(gradient)}, state, params)
        params = optax.apply_updates(params, updates)
        m = 0.9 * m + 0.1 * gradient
        v = 0.997 * v + 0.003 * gradient**2
        t = step + 1
        change = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.997**t)) + 1e-9)
        w = w - rate_at(schedule, step) * change
        np.testing.assert_allclose(params["w"], w, rtol=1e-4, atol=1e-6)
        if step == 0:  # Adam's first update is the rate in the direction of each sign
            np.testing.assert_allclose(updates["w"], -0.0625 * np.sign(gradient), rtol=1e-3)


def test_no_weight_decay():
    optimizer, _ = make_optimizer(learning_rate=2.0, warmup_steps=4, model_dim=16, **ADAM)
    params = {"w": jnp.full(3, 100.0)}
    updates: Any
    updates, _ = optimizer.update({"w": jnp.zeros(3)}, optimizer.init(params), params)
    np.testing.assert_array_equal(updates["w"], 0.0)


@pytest.mark.parametrize("warmup_steps", [0, -1])
def test_no_warm_up_is_an_error(warmup_steps):
    with pytest.raises(ValueError, match=rf"warmup_steps={warmup_steps} must be at least 1"):
        make_optimizer(learning_rate=2.0, warmup_steps=warmup_steps, model_dim=16, **ADAM)
