"""What must hold for attention however it is computed: its paths agree, masks are exact."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from synth.attention import SelfAttention
from synth.attention.attend import attend, reference
from synth.attention.softmax import masked_softmax
from synth.attention.terms import Factored, Full, Mask, Shared, causal_LM
from tests.reference import ATTENTION, MODEL_CASES, MODEL_IDS, D, H, K, N, filled

B, L = 4, 7
every_case = pytest.mark.parametrize(("variant", "mix"), MODEL_CASES, ids=MODEL_IDS)

FORMS = [
    "shared",
    "shared shared",
    "factored",
    "batchfree",
    "full",
    "factored batchfree",
    "factored shared",
    "batchfree shared",
    "full shared",
    "full factored",
    "factored batchfree full shared",
]
VALID = np.arange(L) < np.array([L, 4, 1, 0])[:, None]
MASKS = {
    "all": Mask(),
    "causal": Mask(visible_LM=causal_LM(L)),
    "padding": Mask(valid_BM=jnp.asarray(VALID)),
    "causal,padding": Mask(visible_LM=causal_LM(L), valid_BM=jnp.asarray(VALID)),
    "packed": Mask(
        visible_LM=causal_LM(L),
        segments_BL=jnp.asarray(np.array([1, 1, 1, 2, 2, 2, 0]) * np.ones((B, 1), int)),
    ),
}


def draw_terms(forms: str, rng, scale=1.0) -> list[tuple]:
    """Random arrays of each term; `as_terms` puts them into its form."""

    def normal(*shape):
        return jnp.asarray(scale * rng.normal(size=shape), jnp.float32)

    # Two factored terms must not need the same width.
    make = {
        "shared": lambda: (normal(H, L, L),),
        "factored": lambda: (normal(B, L, H, 3), normal(B, L, H, 3)),
        "batchfree": lambda: (normal(B, L, H, 2), normal(L, H, 2)),
        "full": lambda: (normal(B, H, L, L),),
    }
    return [make[form]() for form in forms.split()]


def as_terms(forms: str, arrays: list[tuple]):
    form_of = {"shared": Shared, "factored": Factored, "batchfree": Factored, "full": Full}
    return [form_of[form](*parts) for form, parts in zip(forms.split(), arrays, strict=True)]


def outputs_and_gradients(function, forms, arrays, value_BMHK, mask, dropout_LM, weigh_BLHK):
    """The output of `attend` or `reference`, and gradients by the values and all of the terms."""

    def total(arrays, value_BMHK):
        out_BLHK = function(as_terms(forms, arrays), value_BMHK, mask, dropout_LM)
        return jnp.sum(out_BLHK * weigh_BLHK), out_BLHK

    grads, out_BLHK = jax.grad(total, argnums=(0, 1), has_aux=True)(arrays, value_BMHK)
    return out_BLHK, grads


def assert_same(found, expected, tolerance=2e-5):
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for one, other in leaves:
        assert np.all(np.isfinite(one))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("forms", FORMS)
def test_attend_equals_reference(forms, mask, rng):
    arrays = draw_terms(forms, rng)
    value_BMHK = jnp.asarray(rng.normal(size=(B, L, H, K)), jnp.float32)
    dropout_LM = jnp.asarray(rng.integers(0, 2, size=(L, L)) * 2.0, jnp.float32)
    weigh_BLHK = jnp.asarray(rng.normal(size=value_BMHK.shape), jnp.float32)
    for factors_LM in (None, dropout_LM):
        inputs = (forms, arrays, value_BMHK, MASKS[mask], factors_LM, weigh_BLHK)
        assert_same(
            outputs_and_gradients(attend, *inputs), outputs_and_gradients(reference, *inputs)
        )


PADDED = 16
KEYS = np.arange(PADDED) < np.array([1, 8, PADDED, 0])[:, None]


@functools.cache
def jitted_shared(function, causal: bool):
    """One compiled program for all logits: the choice of the branch is made while it runs."""

    @jax.jit
    def run(logits_HLM, value_BMHK, dropout_LM, weigh_BLHK):
        mask = Mask(visible_LM=causal_LM(PADDED) if causal else None, valid_BM=jnp.asarray(KEYS))
        return outputs_and_gradients(
            function, "shared", [(logits_HLM,)], value_BMHK, mask, dropout_LM, weigh_BLHK
        )

    return run


@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("scale", [1, 10, 20, 50, 200])
def test_padded_shared_path_is_exact_for_any_logits(scale, causal, rng):
    """One exp for all examples, or else one softmax each: never an underflow.

    The larger the scale, the farther what a short example sees lies below what others see.
    """
    logits_HLM = jnp.asarray(scale * rng.normal(size=(H, PADDED, PADDED)), jnp.float32)
    value_BMHK = jnp.asarray(rng.normal(size=(4, PADDED, H, K)), jnp.float32)
    weigh_BLHK = jnp.asarray(rng.normal(size=value_BMHK.shape), jnp.float32)
    # float32 resolves a logit of 600 to 6e-5 only.
    tolerance = 2e-5 if scale <= 20 else 2e-4
    undropped = jnp.ones((PADDED, PADDED))
    for dropout_LM in (undropped, jnp.float32(rng.integers(0, 2, size=(PADDED, PADDED)) * 2.0)):
        inputs = (logits_HLM, value_BMHK, dropout_LM, weigh_BLHK)
        found = jitted_shared(attend, causal)(*inputs)
        assert_same(found, jitted_shared(reference, causal)(*inputs), tolerance)
        assert not np.any(found[0][3])
    if not causal:  # an example with a single key copies its value, whatever the logits
        out_BLHK, _ = jitted_shared(attend, causal)(logits_HLM, value_BMHK, undropped, weigh_BLHK)
        copied = np.broadcast_to(value_BMHK[0, :1], (PADDED, H, K))
        np.testing.assert_allclose(out_BLHK[0], copied, rtol=1e-5)


def test_padded_shared_path_in_bfloat16(rng):
    for scale in (1.0, 200.0):  # both branches
        arrays = draw_terms("shared", rng, scale)
        value_BMHK = jnp.asarray(rng.normal(size=(B, L, H, K)), jnp.bfloat16)
        out_BLHK = attend(as_terms("shared", arrays), value_BMHK, MASKS["padding"])
        expected = reference(as_terms("shared", arrays), value_BMHK, MASKS["padding"])
        assert out_BLHK.dtype == jnp.bfloat16
        np.testing.assert_allclose(out_BLHK.astype(np.float32), expected, atol=0.03)


def test_a_shared_logit_may_be_huge_where_nobody_looks(rng):
    """A padded key with the largest logit of all must not squeeze the others to 0."""
    for height in (30.0, 80.0, 500.0):
        logits_HLM = rng.normal(size=(H, L, L)).astype(np.float32)
        logits_HLM[:, :, -1] += height
        value_BMHK = jnp.asarray(rng.normal(size=(B, L, H, K)), jnp.float32)
        arrays = [(jnp.asarray(logits_HLM),)]
        inputs = ("shared", arrays, value_BMHK, MASKS["padding"], None, jnp.ones_like(value_BMHK))
        found = outputs_and_gradients(attend, *inputs)
        assert_same(found, outputs_and_gradients(reference, *inputs), 1e-4)


def is_jaxpr(value) -> bool:
    return hasattr(value, "eqns")


def sizes_in(jaxpr) -> set[tuple[int, ...]]:
    """The sorted shapes of all arrays of a jaxpr and of those inside its equations."""
    found = set()
    for equation in jaxpr.eqns:
        found |= {tuple(sorted(var.aval.shape)) for var in equation.outvars}
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=is_jaxpr):
            if is_jaxpr(inner):
                found |= sizes_in(getattr(inner, "jaxpr", inner))
    return found


@pytest.mark.parametrize("mask", ["all", "causal", "padding", "causal,padding"])
def test_shared_terms_make_no_array_of_batch_by_heads_by_queries_by_keys(mask, rng):
    value_BMHK = jnp.asarray(rng.normal(size=(B, L, H, K)), jnp.float32)
    batch_heads_queries_keys = tuple(sorted((B, H, L, L)))

    def total(forms):
        def run(arrays, value_BMHK):
            return jnp.sum(attend(as_terms(forms, arrays), value_BMHK, MASKS[mask]))

        return jax.make_jaxpr(jax.grad(run, argnums=(0, 1)))(draw_terms(forms, rng), value_BMHK)

    assert batch_heads_queries_keys in sizes_in(total("factored").jaxpr)
    assert batch_heads_queries_keys not in sizes_in(total("shared shared").jaxpr)


def test_shared_rows_that_see_nothing_are_zeros(rng):
    visible_LM = causal_LM(L).at[2].set(False)
    logits_HLM = jnp.asarray(rng.normal(size=(H, L, L)), jnp.float32)
    value_BMHK = jnp.asarray(rng.normal(size=(B, L, H, K)), jnp.float32)
    for valid_BM in (None, jnp.ones((B, L), bool)):
        mask = Mask(visible_LM, valid_BM)
        out_BLHK = attend([Shared(logits_HLM)], value_BMHK, mask)
        np.testing.assert_allclose(
            out_BLHK, reference([Shared(logits_HLM)], value_BMHK, mask), atol=1e-5
        )
        assert not np.any(out_BLHK[:, 2])


def test_a_nan_among_shared_logits_shows(rng):
    """It must not pass for a hidden key: training watches for it."""
    logits_HLM = jnp.zeros((H, L, L)).at[0, 1, 1].set(jnp.nan)
    value_BMHK = jnp.asarray(rng.normal(size=(B, L, H, K)), jnp.float32)
    for mask in (Mask(), Mask(valid_BM=jnp.ones((B, L), bool))):
        out_BLHK = attend([Shared(logits_HLM)], value_BMHK, mask)
        assert np.isnan(out_BLHK[:, 1, 0]).all() and np.isfinite(out_BLHK[:, 0]).all()


def test_masked_softmax_of_impossible_rows():
    mask = Mask(valid_BM=jnp.array([[True, False], [False, False]]))
    weights = masked_softmax(jnp.full((2, 1, 1, 2), -1e30), mask)
    np.testing.assert_array_equal(weights[:, 0, 0], [[1.0, 0.0], [0.0, 0.0]])


# --- The modules ----------------------------------------------------------------------------------


def make_attention(variant: str, mix: str) -> SelfAttention:
    settings: dict[str, Any] = dict(
        model_dim=D, num_heads=H, head_dim=K, max_length=N, dropout_rate=0.0, dtype=jnp.float32
    )
    settings |= ATTENTION
    return filled(
        lambda: SelfAttention(variant=variant, mix=mix, rngs=nnx.Rngs(params=0), **settings)
    )


def influence_LM(function, x_LD) -> np.ndarray:
    """[i, j]: the largest |d output_i / d input_j| of a map [1, L, D] -> [1, L, D]."""
    jacobian_LDLD = jax.jacrev(lambda x_LD: function(x_LD[None])[0])(x_LD)
    return np.abs(jacobian_LDLD).max(axis=(1, 3))


@every_case
def test_causal_gradients(variant, mix, rng):
    attention = make_attention(variant, mix)
    x_LD = jnp.asarray(rng.normal(size=(L, D)), jnp.float32)
    found = influence_LM(lambda x: attention(x, Mask(visible_LM=causal_LM(L))), x_LD)
    np.testing.assert_array_equal(found > 0.0, np.tril(np.ones((L, L), bool)))


@every_case
def test_packed_gradients_stay_within_the_segment(variant, mix, rng):
    attention = make_attention(variant, mix)
    x_LD = jnp.asarray(rng.normal(size=(L, D)), jnp.float32)
    segments_L = np.array([1, 1, 1, 2, 2, 2, 0])
    positions_BL = jnp.array([[0, 1, 2, 0, 1, 2, 0]])
    mask = Mask(visible_LM=causal_LM(L), segments_BL=jnp.asarray(segments_L[None]))
    found = influence_LM(lambda x: attention(x, mask, positions_BL), x_LD)
    same = (segments_L[:, None] == segments_L) & (segments_L > 0)
    np.testing.assert_array_equal(found > 0.0, np.tril(same))


@every_case
def test_padded_keys_have_no_weight(variant, mix, rng):
    """Only real positions influence a position, beside itself; exactly so."""
    attention = make_attention(variant, mix)
    x_LD = jnp.asarray(rng.normal(size=(L, D)), jnp.float32)
    valid_M = np.array([1, 0, 1, 1, 0, 1, 0], bool)  # padding may lie anywhere
    found = influence_LM(lambda x: attention(x, Mask(valid_BM=jnp.asarray(valid_M[None]))), x_LD)
    np.testing.assert_array_equal(found[valid_M][:, ~valid_M], 0.0)
    assert np.all(found[valid_M][:, valid_M] > 0.0)


@every_case
def test_padding_never_changes_a_real_position(variant, mix, rng):
    """Neither what stands in it nor how much of it there is; all padding gives zeros."""
    attention = make_attention(variant, mix)
    lengths = [5, 3, L, 0]
    x_BLD = rng.normal(size=(B, L, D)).astype(np.float32)

    def run(length, filling):
        padded_BLD = np.full((B, length, D), filling, np.float32)
        for b, own in enumerate(lengths):
            padded_BLD[b, :own] = x_BLD[b, :own]
        valid_BM = jnp.asarray(np.arange(length) < np.array(lengths)[:, None])
        y_BLD = attention(jnp.asarray(padded_BLD), Mask(valid_BM=valid_BM))
        assert np.all(np.isfinite(y_BLD))
        np.testing.assert_array_equal(y_BLD[3], 0.0)
        return np.concatenate([y_BLD[b, :own] for b, own in enumerate(lengths)])

    expected = run(L, 0.0)
    assert np.all(np.any(expected != 0.0, axis=-1))
    np.testing.assert_allclose(run(N, 1e4), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("variant", ["random", "factorized_dense", "dense+vanilla"])
def test_gradients_of_padding_are_finite_zeros(variant, rng):
    """Of a row of padding altogether, and with respect to the padding in the others."""
    attention = make_attention(variant, "softmax")
    graphdef, params, rest = nnx.split(attention, nnx.Param, ...)
    x_BLD = jnp.asarray(rng.normal(size=(B, L, D)), jnp.float32)

    def total(params, x_BLD):
        y_BLD = nnx.merge(graphdef, params, rest)(x_BLD, MASKS["padding"])
        return jnp.sum(jnp.square(y_BLD) * VALID[..., None])

    grads, grad_BLD = jax.jit(jax.grad(total, argnums=(0, 1)))(params, x_BLD)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(grads))
    np.testing.assert_array_equal(np.any(grad_BLD != 0.0, axis=-1), VALID)


@every_case
def test_examples_do_not_see_each_other(variant, mix, rng):
    """Permuted or alone, an example's output is its own."""
    attention = make_attention(variant, mix)
    x_BLD = jnp.asarray(rng.normal(size=(B, L, D)), jnp.float32)
    valid_BM = jnp.asarray(np.arange(L) < np.array([7, 2, 5, 1])[:, None])
    y_BLD = attention(x_BLD, Mask(valid_BM=valid_BM))
    order = np.array([2, 0, 3, 1])
    permuted = attention(x_BLD[order], Mask(valid_BM=valid_BM[order]))
    np.testing.assert_allclose(permuted, y_BLD[order], rtol=1e-5, atol=1e-5)
    alone = attention(x_BLD[1:2], Mask(valid_BM=valid_BM[1:2]))
    np.testing.assert_allclose(alone[0], y_BLD[1], rtol=1e-5, atol=1e-5)
