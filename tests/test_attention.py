"""SelfAttention against the paper's formulas in numpy, its parameters and its errors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from synth.attention import SelfAttention
from synth.attention.scores import random_initializer
from synth.attention.terms import Mask, causal_LM
from synth.dropout import dropout_factors
from synth.optimizer import make_optimizer
from synth.variants import MIXES, VARIANTS, check_mix, parse_variant
from tests import reference
from tests.reference import CASES, IDS, SINGLE, D, H, K, N

B, L = 3, 7
every_case = pytest.mark.parametrize(("variant", "mix"), CASES, ids=IDS)


def initial_attention(variant: str, mix: str = "softmax", **changes) -> SelfAttention:
    settings: dict[str, Any] = dict(
        model_dim=D, num_heads=H, head_dim=K, max_length=N, dropout_rate=0.0, dtype=jnp.float32
    )
    settings |= reference.ATTENTION | changes
    rngs = nnx.Rngs(params=jax.random.key(1))
    return SelfAttention(variant=variant, mix=mix, rngs=rngs, **settings)


def make_attention(variant: str, mix: str = "softmax", **changes) -> SelfAttention:
    return reference.filled(lambda: initial_attention(variant, mix, **changes))


def scores_of(attention: SelfAttention) -> Any:
    """Its scores, whose attributes depend on the variant."""
    return attention.scores


def draw_x(rng, batch=B, length=L):
    return 2.0 * rng.normal(size=(batch, length, D)).astype(np.float32)


def keys_within(lengths, length=L):
    return np.arange(length) < np.array(lengths)[:, None]


# The last row of `padding` has no valid key at all.
VALID = keys_within([L, 4, 0])
SEGMENTS = np.array([[1, 1, 1, 2, 2, 2, 2], [1, 1, 2, 2, 2, 3, 0], [1, 1, 1, 1, 1, 0, 0]])
POSITIONS = np.array([[0, 1, 2, 0, 1, 2, 3], [0, 1, 0, 1, 2, 0, 0], [0, 1, 2, 3, 4, 0, 0]])
MASKS = {
    "all": {},
    "padding": dict(valid_BM=VALID),
    "causal": dict(causal=True),
    "causal,padding": dict(causal=True, valid_BM=VALID),
    "packed": dict(segments_BL=SEGMENTS),
    "causal,packed": dict(causal=True, segments_BL=SEGMENTS),
}


def to_mask(causal=False, valid_BM=None, segments_BL=None) -> Mask:
    return Mask(
        visible_LM=causal_LM(L) if causal else None,
        valid_BM=None if valid_BM is None else jnp.asarray(valid_BM),
        segments_BL=None if segments_BL is None else jnp.asarray(segments_BL),
    )


@pytest.mark.parametrize("mask", MASKS)
@every_case
def test_equals_the_formulas(variant, mix, mask, rng):
    attention = make_attention(variant, mix)
    x_BLD = draw_x(rng)
    positions_BL = POSITIONS if "packed" in mask else None
    expected = reference.self_attention(
        reference.parameters(attention),
        variant,
        mix,
        x_BLD,
        reference.visible(L, batch=B, **MASKS[mask]),
        positions_BL,
    )
    places = None if positions_BL is None else jnp.asarray(positions_BL)
    y_BLD = attention(jnp.asarray(x_BLD), to_mask(**MASKS[mask]), places)
    assert y_BLD.dtype == jnp.float32
    np.testing.assert_allclose(y_BLD, expected, rtol=2e-5, atol=2e-5)
    # Not met by weights that are nearly uniform, where all variants are alike.
    assert np.abs(expected).max() > 0.5


@every_case
def test_variants_differ(variant, mix, rng):
    """The comparison above could not be passed by another variant or by other mixture weights."""
    attention = make_attention(variant, mix)
    x_BLD = draw_x(rng)
    y_BLD = attention(jnp.asarray(x_BLD), Mask())
    mean_BLD = np.einsum(
        "bmd,dhk,hke->be", x_BLD, attention.value_DHK[...], attention.output_HKD[...]
    )[:, None] / L  # fmt: skip
    assert np.abs(y_BLD - mean_BLD).max() > 0.1
    if "+" in variant:
        for other in ("softmax", "sum"):
            if other != mix:
                other = make_attention(variant, other)
                assert np.abs(y_BLD - other(jnp.asarray(x_BLD), Mask())).max() > 0.01


@every_case
def test_bfloat16_is_close(variant, mix, rng):
    x_BLD = draw_x(rng) / 2.0
    mask = to_mask(causal=True, valid_BM=VALID)
    y32_BLD = make_attention(variant, mix)(jnp.asarray(x_BLD), mask)
    attention = make_attention(variant, mix, dtype=jnp.bfloat16)
    y_BLD = attention(jnp.asarray(x_BLD, jnp.bfloat16), mask)
    assert y_BLD.dtype == jnp.bfloat16
    np.testing.assert_allclose(y_BLD.astype(np.float32), y32_BLD, rtol=0.05, atol=0.08)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(nnx.state(attention)))


# --- Dropout --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["random", "vanilla"])
def test_dropout_scales_weights_after_the_softmax(variant, rng):
    """Averaged over many keys, dropping weights changes nothing; a single key changes much."""
    attention = make_attention(variant, dropout_rate=0.5)
    x_BLD, mask = jnp.asarray(draw_x(rng)), to_mask(valid_BM=VALID)
    y_BLD = attention(x_BLD, mask)
    keys = jax.random.split(jax.random.key(0), 500)
    dropped = jax.jit(jax.vmap(lambda key: attention(x_BLD, mask, None, key)))(keys)
    spread = np.std(dropped, axis=0).max()
    assert spread > 0.3
    np.testing.assert_allclose(dropped.mean(0), y_BLD, atol=5 * spread / np.sqrt(len(keys)))
    without = make_attention(variant, dropout_rate=0.0)
    np.testing.assert_array_equal(without(x_BLD, mask, None, keys[0]), without(x_BLD, mask))


def test_dropout_factors():
    factors = np.asarray(dropout_factors(jax.random.key(0), 0.25, (100, 100)))
    assert set(np.unique(factors)) == {0.0, np.float32(4 / 3)}
    assert abs(factors.mean() - 1.0) < 0.02
    assert dropout_factors(None, 0.25, (2, 2)) is None
    assert dropout_factors(jax.random.key(0), 0.0, (2, 2)) is None


# --- Parameters -----------------------------------------------------------------------------------

d = H * K
NAMES = {
    "random": {"logits_HNN"},
    "fixed_random": {"logits_HNN"},
    "factorized_random": {"query_HNR", "key_HNR"},
    "dense": {"hidden_DHK", "key_NHK"},
    "factorized_dense": {"hidden_DHK", "tiled_HKA", "repeated_HKC"},
    "vanilla": {"query_DHK", "key_DHK"},
}
# Table 1, summed over the heads: 2 d^2, N^2 per head, 2 N k per head, d^2 + d N, d^2 + d (a + b);
# an input projection is D x d.
SIZES = {
    "random": H * N * N,
    "fixed_random": H * N * N,
    "factorized_random": H * 2 * N * reference.ATTENTION["rank"],
    "dense": D * d + d * N,
    "factorized_dense": D * d + d * (4 + 3),
    "vanilla": 2 * D * d,
}


def size(state) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(state))


@every_case
def test_parameters_of_table_1_and_no_others(variant, mix):
    """No query or key projection where no term uses it, and every size as in the paper."""
    attention = make_attention(variant, mix)
    names = variant.split("+")
    for name, score in zip(names, attention.scores, strict=True):
        found = {path[-1] for path, _ in nnx.to_flat_state(nnx.state(score))}
        assert found == NAMES[name]
        assert size(nnx.state(score)) == SIZES[name]
    weights = {"softmax": len(names) * H, "sigmoid": 1, "sum": 0}[mix] if len(names) > 1 else 0
    fixed = SIZES["fixed_random"] if "fixed_random" in names else 0
    params, rest = nnx.state(attention, nnx.Param, ...)
    assert size(params) == 2 * D * d + sum(SIZES[name] for name in names) + weights - fixed
    assert size(rest) == fixed


def test_fixed_random_is_never_trained(rng):
    variant = "random+fixed_random"
    graphdef, params, fixed = nnx.split(make_attention(variant), nnx.Param, ...)
    x_BLD = jnp.asarray(draw_x(rng))
    optimizer, _ = make_optimizer(
        learning_rate=1.0, warmup_steps=1, b1=0.9, b2=0.99, eps=1e-9, model_dim=D
    )

    def loss(params):
        return jnp.sum(jnp.square(nnx.merge(graphdef, params, fixed)(x_BLD, Mask())))

    gradient = jax.jit(jax.grad(loss))
    before = nnx.to_pure_dict(params)
    opt_state = optimizer.init(params)
    for _ in range(2):
        grads = gradient(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
    trained = nnx.merge(graphdef, params, fixed)
    after = nnx.to_pure_dict(nnx.state(trained, nnx.Param))
    changed = jax.tree.map(lambda old, new: bool(np.any(old != new)), before, after)
    assert all(jax.tree.leaves(changed))
    table = scores_of(trained)[1].logits_HNN
    assert not isinstance(table, nnx.Param)
    drawn = scores_of(make_attention(variant))[1].logits_HNN[...]
    np.testing.assert_array_equal(table[...], drawn)
    assert np.std(drawn) > 0.5


def test_tables_are_per_head_and_drawn_apart():
    attention = initial_attention("random+fixed_random")
    random_HNN, fixed_HNN = (score.logits_HNN[...] for score in scores_of(attention))
    assert not np.allclose(random_HNN, fixed_HNN)
    assert not np.allclose(random_HNN[0], random_HNN[1])


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_random_initializers(kind):
    drawn = np.asarray(random_initializer(kind, 0.3)(jax.random.key(0), (200, 200)))
    assert abs(drawn.mean()) < 0.01
    assert drawn.std() == pytest.approx(0.3, rel=0.02)
    assert (np.abs(drawn).max() < 0.3 * np.sqrt(3.0) + 1e-6) == (kind == "uniform")
    with pytest.raises(ValueError, match=r"'cauchy'.*normal, uniform"):
        random_initializer("cauchy", 0.3)


def test_factorized_random_has_the_scale_of_random():
    for rank in (2, 8):
        attention = initial_attention(
            "factorized_random", max_length=100, rank=rank, random_scale=0.3
        )
        score = scores_of(attention)[0]
        product = np.einsum("hlr,hmr->hlm", score.query_HNR[...], score.key_HNR[...])
        assert product.std() == pytest.approx(0.3, rel=0.2)


def test_random_scales_are_read_by_their_own_term():
    attention = initial_attention("random+fixed_random", random_scale=0.02, fixed_random_scale=1.0)
    trained, fixed = (np.std(score.logits_HNN[...]) for score in scores_of(attention))
    assert trained == pytest.approx(0.02, rel=0.2)
    assert fixed == pytest.approx(1.0, rel=0.2)


# --- Mixtures -------------------------------------------------------------------------------------


@every_case
def test_mixture_weights_sum_to_one(variant, mix):
    num_terms = len(variant.split("+"))
    mixture = make_attention(variant, mix).mixture
    if num_terms == 1 or mix == "sum":
        assert not jax.tree.leaves(nnx.state(mixture))
        return
    weights_TH = mixture.weights_TH()
    assert weights_TH.shape == (num_terms, H)
    assert np.all(weights_TH > 0.0)
    np.testing.assert_allclose(weights_TH.sum(0), 1.0, rtol=1e-6)
    assert np.abs(weights_TH - 1.0 / num_terms).max() > 0.05  # not where they start
    per_head = not np.allclose(weights_TH[:, 0], weights_TH[:, 1])
    assert per_head == (mix == "softmax")


@pytest.mark.parametrize("mix", ["softmax", "sigmoid"])
def test_mixtures_start_even(mix):
    attention = initial_attention("random+vanilla", mix)
    np.testing.assert_allclose(attention.mixture.weights_TH(), 0.5)


@pytest.mark.parametrize("mix", MIXES)
def test_canonical_order(mix, rng):
    """`vanilla+random` is `random+vanilla`: the same parameters in the same places."""
    assert parse_variant("vanilla+random") == ("random", "vanilla")
    assert parse_variant("vanilla+dense+random") == ("random", "dense", "vanilla")
    x_BLD = jnp.asarray(draw_x(rng))
    one, two = make_attention("vanilla+random", mix), make_attention("random+vanilla", mix)
    np.testing.assert_array_equal(one(x_BLD, Mask()), two(x_BLD, Mask()))


def test_variants_are_those_of_the_paper():
    assert set(VARIANTS) == set(SINGLE)


@pytest.mark.parametrize("variant", ["", "randon", "random+", "random,vanilla", "Random"])
def test_unknown_variant_lists_what_exists(variant):
    with pytest.raises(ValueError, match="unknown attention variant") as error:
        parse_variant(variant)
    assert all(name in str(error.value) for name in VARIANTS)
    with pytest.raises(ValueError, match="unknown attention variant"):
        make_attention(variant)


def test_wrong_mixtures():
    with pytest.raises(ValueError, match="names a term twice"):
        parse_variant("random+vanilla+random")
    with pytest.raises(ValueError, match="there are 3"):
        make_attention("random+dense+vanilla", "sigmoid")
    with pytest.raises(ValueError, match=r"'mean'.*softmax, sum, sigmoid"):
        make_attention("random+vanilla", "mean")
    with pytest.raises(ValueError, match=r"'mean'.*softmax, sum, sigmoid"):
        make_attention("random", "mean")
    check_mix("sigmoid", 2)


# --- Lengths --------------------------------------------------------------------------------------


@every_case
def test_longer_than_max_length_is_an_error(variant, mix):
    attention = make_attention(variant, mix)
    for call in (
        lambda: attention(jnp.zeros((1, N + 1, D)), Mask()),
        lambda: attention.init_cache(1, 1, N + 1),
    ):
        with pytest.raises(ValueError, match=rf"{N + 1} tokens .*max_length={N}"):
            call()


@pytest.mark.parametrize("max_length", [7, 16])
def test_factorized_dense_of_any_max_length(max_length, rng):
    """Primes and squares: the outer product has an entry for each of the N positions."""
    attention = make_attention("factorized_dense", max_length=max_length)
    x_BLD = draw_x(rng, batch=1, length=max_length)
    seen_BLM = reference.visible(max_length, batch=1)
    expected = reference.self_attention(
        reference.parameters(attention), "factorized_dense", "softmax", x_BLD, seen_BLM
    )
    np.testing.assert_allclose(
        attention(jnp.asarray(x_BLD), Mask()), expected, rtol=2e-5, atol=2e-5
    )
