"""Small models learn what their attention lets them learn."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from synth.losses import smoothed_loss, token_nll
from synth.transformer import make_model

V, EOS = 12, 1


def small_model(kind: str, variant: str):
    return make_model(
        kind,
        vocab_size=V,
        num_layers=1,
        model_dim=32,
        num_heads=4,
        head_dim=8,
        ff_dim=64,
        max_length=8,
        attention=dict(
            variant=variant,
            mix="softmax",
            rank=4,
            random_initializer="normal",
            random_scale=0.02,
            fixed_random_scale=1.0,
        ),
        residual_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        dtype="float32",
        rngs=nnx.Rngs(params=jax.random.key(0)),
    )


def learn(model, batches, steps: int) -> tuple[float, np.ndarray]:
    """Trains with Adam; the first loss, and nll_BL of a batch that was not seen before."""
    graphdef, params, fixed = nnx.split(model, nnx.Param, ...)
    optimizer = optax.adam(optax.linear_schedule(1e-2, 1e-3, steps))

    @jax.jit
    def step(params, opt_state, batch):
        def mean_loss(params):
            x_BLD, kernel_VD = nnx.merge(graphdef, params, fixed).last_layer(batch)
            loss, tokens = smoothed_loss(x_BLD, kernel_VD, batch["targets"], label_smoothing=0.0)
            return loss / tokens, token_nll(x_BLD, kernel_VD, batch["targets"])

        (loss, nll_BL), grads = jax.value_and_grad(mean_loss, has_aux=True)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, nll_BL

    opt_state = optimizer.init(params)
    losses = []
    for _ in range(steps):
        params, opt_state, loss, _ = step(params, opt_state, next(batches))
        losses.append(loss)
    # The loss of a step is that of the parameters before it: unseen text, no update.
    return float(losses[0]), np.asarray(step(params, opt_state, next(batches))[3])


def copies(rng):
    """Translations that repeat the input: 2 to 6 words and EOS."""
    while True:
        words = rng.integers(2, V, size=(64, 7))
        length_B1 = rng.integers(2, 7, size=(64, 1))
        places = np.arange(7)
        tokens = np.where(places < length_B1, words, np.where(places == length_B1, EOS, 0))
        yield {"inputs": jnp.asarray(tokens), "targets": jnp.asarray(tokens)}


def repeats(rng):
    """Texts of 4 words whose second half repeats the first."""
    while True:
        words = rng.integers(2, V, size=(64, 4))
        yield {"targets": jnp.asarray(np.concatenate([words, words], axis=1))}


@pytest.mark.parametrize("variant", ["random", "dense+vanilla"])
def test_translation_learns_to_copy(variant, rng):
    """Cross-attention is dot-product in every variant, so that every variant can."""
    first, nll_BL = learn(small_model("seq2seq", variant), copies(rng), steps=300)
    assert first > 1.5
    assert nll_BL.sum() / (nll_BL > 0).sum() < 0.05


def test_language_model_learns_what_positions_tell(rng):
    """Token i repeats token i - 4: no more than a place has to be looked up, which R can hold.

    The first half cannot be foreseen, its loss is log 10.
    """
    first, nll_BL = learn(small_model("language_model", "random"), repeats(rng), steps=300)
    assert first > 1.5
    assert nll_BL[:, 4:].mean() < 0.05
    assert nll_BL[:, :4].mean() == pytest.approx(np.log(10), abs=0.15)
