"""The stacks: causality, padding, batches and packing, for every kind of attention."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from synth.attention.terms import Mask, causal_LM
from synth.layers import sinusoids
from synth.transformer import make_model, shift_right
from tests.reference import ATTENTION, MODEL_CASES, MODEL_IDS, filled

V, N = 11, 12
SIZES = dict(
    vocab_size=V, num_layers=2, model_dim=8, num_heads=2, head_dim=3, ff_dim=9, max_length=N
)
RATES = dict(residual_dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
every_case = pytest.mark.parametrize(("variant", "mix"), MODEL_CASES, ids=MODEL_IDS)
KINDS = ["seq2seq", "language_model"]

INPUTS = jnp.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0], [9, 1, 0, 0, 0]])
TARGETS = jnp.array([[5, 6, 1, 0, 0, 0], [2, 3, 4, 5, 6, 1], [4, 4, 9, 1, 0, 0]])
BATCH = {"inputs": INPUTS, "targets": TARGETS}


def small_model(kind: str, variant: str, mix: str = "softmax", **changes: Any):
    attention = dict(variant=variant, mix=mix, **ATTENTION)
    settings: dict[str, Any] = SIZES | RATES | dict(attention=attention, dtype="float32") | changes
    return filled(lambda: make_model(kind, rngs=nnx.Rngs(params=0), **settings))


def only_real(logits_BLV, targets_BL=TARGETS):
    return np.asarray(logits_BLV)[np.asarray(targets_BL) > 0]


def padded_more(tokens_BL, by: int):
    return jnp.pad(tokens_BL, ((0, 0), (0, by)))


@pytest.mark.parametrize("variant", ["random", "factorized_dense", "dense+vanilla"])
def test_decoder_is_causal(variant, rng):
    """Through two layers: d output_i / d input_j is exactly 0 for j > i, and not 0 for j <= i."""
    model = small_model("seq2seq", variant)
    length = 4
    x_LD = jnp.asarray(rng.normal(size=(length, 8)), jnp.float32)
    memories = model.decoder.memories(model.encode(INPUTS[:1]))

    def run(x_LD):
        return model.decoder(
            x_LD[None],
            Mask(visible_LM=causal_LM(length)),
            memories=memories,
            memory_valid=INPUTS[:1] > 0,
        )[0]

    influence_LM = np.abs(jax.jit(jax.jacrev(run))(x_LD)).max(axis=(1, 3))
    np.testing.assert_array_equal(influence_LM > 0.0, np.tril(np.ones((length, length), bool)))


@pytest.mark.parametrize("kind", KINDS)
@every_case
def test_a_token_changes_later_predictions_only(variant, mix, kind):
    model = small_model(kind, variant, mix, num_layers=1)
    logits_BLV = model(BATCH)
    assert logits_BLV.shape == (3, 6, V) and logits_BLV.dtype == jnp.float32
    changed = model(BATCH | {"targets": TARGETS.at[:, 2].set(10)})
    np.testing.assert_allclose(changed[:, :3], logits_BLV[:, :3], rtol=1e-5, atol=1e-5)
    assert np.all(np.abs(changed[:, 3:] - logits_BLV[:, 3:]).max(-1) > 1e-4)


@every_case
def test_the_batch_does_not_matter(variant, mix):
    """Alone, or permuted and with more padding: the same logits at every real target."""
    model = small_model("seq2seq", variant, mix, num_layers=1)
    expected = only_real(model(BATCH))
    order, back = np.array([2, 0, 1]), np.array([1, 2, 0])
    more = {
        "inputs": padded_more(INPUTS[order], 4),
        "targets": padded_more(TARGETS[order], 2),
    }
    found = only_real(model(more)[back], padded_more(TARGETS, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    alone = only_real(model({"inputs": INPUTS[:1], "targets": TARGETS[:1]}), TARGETS[:1])
    np.testing.assert_allclose(alone, expected[: len(alone)], rtol=1e-4, atol=1e-5)


@every_case
def test_packed_rows_equal_the_separate_examples(variant, mix):
    model = small_model("language_model", variant, mix)
    one, two = [5, 6, 7, 1], [2, 9, 1]
    packed = {
        "targets": jnp.array([[*one, *two, 0]]),
        "segments": jnp.array([[1, 1, 1, 1, 2, 2, 2, 0]]),
        "positions": jnp.array([[0, 1, 2, 3, 0, 1, 2, 0]]),
    }
    logits_LV = model(packed)[0]
    assert np.all(np.isfinite(logits_LV))
    apart_BLV = model({"targets": jnp.array([one, [*two, 0]])})
    np.testing.assert_allclose(logits_LV[:4], apart_BLV[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(logits_LV[4:7], apart_BLV[1, :3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", ["random", "factorized_dense", "dense+vanilla"])
def test_bfloat16_is_close(variant):
    sizes: dict[str, Any] = dict(num_layers=1)
    expected = small_model("seq2seq", variant, **sizes)(BATCH)
    logits_BLV = small_model("seq2seq", variant, dtype="bfloat16", **sizes)(BATCH)
    assert logits_BLV.dtype == jnp.float32
    assert np.abs(logits_BLV - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("kind", KINDS)
def test_one_embedding_serves_inputs_targets_and_softmax(kind):
    params = nnx.to_flat_state(nnx.state(small_model(kind, "vanilla"), nnx.Param))
    assert sum(V in variable.shape for _, variable in params) == 1


def test_cross_attention_is_never_synthesized():
    """Two blocks of each stack; cross-attention has the projections of dot-product attention."""
    for variant in ("random", "dense", "fixed_random"):
        model = small_model("seq2seq", variant)
        block = nnx.to_flat_state(nnx.state(model.decoder.blocks[0].cross_attention))
        names = {path[-1] for path, _ in block}
        assert names == {"query_DHK", "key_DHK", "value_DHK", "output_HKD"}
        assert model.encoder.blocks[0].cross_attention is None
        assert [len(model.encoder.blocks), len(model.decoder.blocks)] == [2, 2]


def test_the_decoder_reads_the_encoder():
    model = small_model("seq2seq", "random")
    other = model(BATCH | {"inputs": INPUTS.at[0, 1].set(10)})
    difference_B = np.abs(other - model(BATCH)).max(axis=(1, 2))
    assert difference_B[0] > 1e-3 and not np.any(difference_B[1:])


def test_dropout_needs_a_key_and_differs_by_key():
    rates = dict(residual_dropout=0.3, attention_dropout=0.3, relu_dropout=0.3)
    without_BLV = small_model("language_model", "random", num_layers=1)(BATCH)
    for name, rate in rates.items():  # each of the three does something
        model = small_model("language_model", "random", **{name: rate, "num_layers": 1})
        np.testing.assert_array_equal(model(BATCH), without_BLV)
        one, two = (model(BATCH, jax.random.key(seed)) for seed in (0, 1))
        assert np.abs(one - two).max() > 0.01
    np.testing.assert_array_equal(two, model(BATCH, jax.random.key(1)))


@pytest.mark.parametrize("kind", KINDS)
def test_longer_than_max_length_is_an_error(kind):
    model = small_model(kind, "random", num_layers=1)
    long = jnp.ones((1, N + 1), int)
    with pytest.raises(ValueError, match=rf"{N + 1} tokens .*max_length={N}"):
        model({"inputs": INPUTS[:1], "targets": long})
    if kind == "seq2seq":
        with pytest.raises(ValueError, match=rf"{N + 1} tokens .*max_length={N}"):
            model({"inputs": long, "targets": TARGETS[:1]})
        with pytest.raises(ValueError, match=rf"{N + 1} tokens .*max_length={N}"):
            model.start(INPUTS, 2, N + 1)
    else:
        with pytest.raises(ValueError, match=rf"{N + 1} tokens .*max_length={N}"):
            model.start(3, 1, N + 1)


def test_shift_right():
    shifted = shift_right(jnp.array([[5, 6, 1], [7, 1, 0]]))
    np.testing.assert_array_equal(shifted, [[0, 5, 6], [0, 7, 1]])


def test_sinusoids():
    """Sines then cosines, from wavelength 2 pi to 2 pi 10^4; odd D has a last 0."""
    signal = np.asarray(sinusoids(jnp.array([[0, 1, 7]]), 9))[0]
    rates = 1e4 ** -(np.arange(4) / 3)
    for row, position in zip(signal, (0, 1, 7), strict=True):
        expected = [*np.sin(position * rates), *np.cos(position * rates), 0.0]
        np.testing.assert_allclose(row, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "unknown dtype 'float16'; known: float32, bfloat16"),
        ({"num_layers": 0}, "num_layers=0 must be at least 1"),
        ({"max_length": 0}, "max_length=0 must be at least 1"),
        ({"relu_dropout": 1.0}, "relu_dropout=1.0 must be at least 0 and below 1"),
        ({"attention_dropout": -0.1}, "attention_dropout=-0.1"),
    ],
)
def test_impossible_models(change, message):
    with pytest.raises(ValueError, match=message):
        small_model("seq2seq", "random", **change)


@pytest.mark.parametrize(
    ("kind", "variant"), [("seq2seq", "random"), ("language_model", "fixed_random+vanilla")]
)
def test_blocks_that_are_computed_again_give_the_same(kind, variant):
    """Values and gradients, with dropout."""
    found, programs = [], []
    for remat in (False, True):
        rates: dict[str, Any] = dict(residual_dropout=0.1, attention_dropout=0.1)
        model = small_model(kind, variant, remat=remat, **rates)
        graphdef, params, fixed = nnx.split(model, nnx.Param, ...)

        def loss(params, graphdef=graphdef, fixed=fixed):
            logits_BLV = nnx.merge(graphdef, params, fixed)(BATCH, jax.random.key(1))
            return jnp.sum(jnp.sin(logits_BLV))

        lowered = jax.jit(jax.value_and_grad(loss)).lower(params)
        programs.append(lowered.as_text())
        found.append(jax.tree.leaves(lowered.compile()(params)))
    for kept, again in zip(*found, strict=True):
        np.testing.assert_allclose(again, kept, rtol=1e-4, atol=1e-5)
    assert programs[1].count("exponential") > programs[0].count("exponential")
