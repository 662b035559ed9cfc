"""The encoder-only model: no weight on padding, learns labels, counts its classes from 1."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from synth.losses import token_nll
from synth.transformer import Classifier, make_model
from tests.reference import ATTENTION, MODEL_CASES, MODEL_IDS, filled

V, N, LABELS = 11, 12, 3
SIZES: dict[str, Any] = dict(
    vocab_size=V, num_layers=2, model_dim=8, num_heads=2, head_dim=3, ff_dim=9, max_length=N
)
RATES: dict[str, Any] = dict(residual_dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
INPUTS = jnp.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0], [9, 1, 0, 0, 0]])
every_case = pytest.mark.parametrize(("variant", "mix"), MODEL_CASES, ids=MODEL_IDS)


def classifier(variant: str, mix: str = "softmax") -> Classifier:
    settings: dict[str, Any] = SIZES | RATES | dict(dtype="float32", num_labels=LABELS)
    attention = dict(variant=variant, mix=mix, **ATTENTION)
    return filled(
        lambda: make_model(
            "classification", rngs=nnx.Rngs(params=0), attention=attention, **settings
        )
    )


@every_case
def test_padding_and_neighbours_change_nothing(variant, mix):
    model = classifier(variant, mix)
    logits_B1C = model({"inputs": INPUTS})
    assert logits_B1C.shape == (3, 1, LABELS + 1)
    longer = jnp.pad(INPUTS, ((0, 0), (0, 4)))
    np.testing.assert_allclose(model({"inputs": longer}), logits_B1C, atol=1e-6)
    alone = model({"inputs": INPUTS[1:2, :3]})
    np.testing.assert_allclose(alone[0], logits_B1C[1], atol=1e-6)


def test_rows_that_only_fill_up_are_finite_and_count_nothing():
    model = classifier("dense")
    logits_B1C = model({"inputs": jnp.zeros((2, 5), int)})
    assert np.isfinite(logits_B1C).all()
    last_layer = model.last_layer({"inputs": jnp.zeros((2, 5), int)})
    assert (token_nll(*last_layer, jnp.zeros((2, 1), int)) == 0).all()


def test_it_learns_which_token_is_there():
    """The label is that of the rarest kind of token in the text, wherever it stands."""
    rng = np.random.default_rng(0)
    label_B = rng.integers(1, LABELS + 1, 64)
    inputs_BL = rng.integers(6, V, (64, 8))
    inputs_BL[np.arange(64), rng.integers(0, 8, 64)] = label_B + 2
    batch = {"inputs": jnp.asarray(inputs_BL)}
    targets_B1 = jnp.asarray(label_B[:, None])
    settings: dict[str, Any] = SIZES | RATES | dict(num_labels=LABELS, dtype="float32")
    settings["num_layers"] = 1
    attention = dict(variant="factorized_random", mix="softmax", **ATTENTION)
    model = make_model("classification", rngs=nnx.Rngs(params=0), attention=attention, **settings)
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)
    optimizer = optax.adam(1e-2)

    def loss(params):
        last_layer = nnx.merge(graphdef, params, rest).last_layer(batch)
        return token_nll(*last_layer, targets_B1).mean()

    @jax.jit
    def update(params, opt_state):
        updates, opt_state = optimizer.update(jax.grad(loss)(params), opt_state)
        return optax.apply_updates(params, updates), opt_state

    opt_state = optimizer.init(params)
    for _ in range(120):
        params, opt_state = update(params, opt_state)
    logits_B1C = nnx.merge(graphdef, params, rest)(batch)
    assert (jnp.argmax(logits_B1C[:, 0, 1:], -1) + 1 == label_B).mean() > 0.95
