"""What the compiled attention layer costs, read from the program and not from the clock."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from benchmarks.measure import VARIANTS
from synth.attention import SelfAttention
from synth.attention.terms import Mask, causal_LM
from tests.reference import ATTENTION

# No two sizes alike that are looked for.
B, L, H, K, D = 4, 32, 2, 8, 16
SHARED = ("random", "fixed_random", "factorized_random")
MASKS = ("none", "padding", "causal", "causal,padding")


@functools.cache
def compiled(variant: str, mask: str, dropout_rate: float = 0.0) -> Any:
    """Forward and backward pass of a layer."""
    layer = SelfAttention(
        model_dim=D,
        num_heads=H,
        head_dim=K,
        max_length=L,
        variant=variant,
        mix="softmax",
        dropout_rate=dropout_rate,
        dtype=jnp.float32,
        rngs=nnx.Rngs(params=0),
        **ATTENTION,  # pyright: ignore[reportArgumentType]
    )
    graphdef, params, fixed = nnx.split(layer, nnx.Param, ...)

    def both(params, fixed, x_BLD, valid_BM, key):
        seen = Mask(
            causal_LM(L) if "causal" in mask else None, valid_BM if "padding" in mask else None
        )

        def forward(params, x_BLD):
            return nnx.merge(graphdef, params, fixed)(x_BLD, seen, None, key)

        y_BLD, backward = jax.vjp(forward, params, x_BLD)
        return backward(y_BLD)

    x_BLD, valid_BM = jnp.ones((B, L, D)), jnp.ones((B, L), bool)
    return jax.jit(both).lower(params, fixed, x_BLD, valid_BM, jax.random.key(0)).compile()


def shapes_in(program: Any) -> set[tuple[int, ...]]:
    """Sizes of all arrays of the program, inside its fusions, too, in ascending order."""
    found = re.findall(r"\w\d*\[([\d,]+)\]", program.as_text())
    return {tuple(sorted(map(int, sizes.split(",")))) for sizes in found}


@pytest.mark.parametrize("dropout_rate", [0.0, 0.1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("variant", SHARED)
def test_no_array_of_batch_heads_queries_keys(variant, mask, dropout_rate):
    assert (H, B, L, L) not in shapes_in(compiled(variant, mask, dropout_rate))
    assert (H, L, L) in shapes_in(compiled(variant, mask, dropout_rate))


def test_such_an_array_would_be_found():
    assert (H, B, L, L) in shapes_in(compiled("vanilla", "padding"))


# Products of a layer by Table 1: of (D, H K); of the logits and the values with K; others.
PROJECTIONS = {"dense": 3, "factorized_dense": 3, "vanilla": 4, "random+vanilla": 4}
PROJECTIONS |= {"dense+vanilla": 5}
OF_LOGITS = {"dense": 2, "vanilla": 2, "random+vanilla": 2, "dense+vanilla": 3}
OTHERS = {
    "factorized_random": 2 * H * L * L * ATTENTION["rank"],
    "factorized_dense": 2 * B * L * H * K * (8 + 4),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_operations_are_those_of_the_formula(variant, mask):
    """Products, three times with their gradients; beside them 20 operations a logit."""
    projections, of_logits = PROJECTIONS.get(variant, 2), OF_LOGITS.get(variant, 1)
    products = 2 * B * L * H * K * (D * projections + L * of_logits) + OTHERS.get(variant, 0)
    logits = H * L * L if variant in SHARED else B * H * L * L
    if variant in SHARED and "padding" in mask:
        products += 2 * B * H * L * L  # the denominators
        products += 2 * L * L * K + 20 * L * L  # a head of an example of the slow path
    assert compiled(variant, mask).cost_analysis()["flops"] <= 3 * products + 20 * logits


@pytest.mark.parametrize("mask", MASKS)
def test_fixed_random_makes_its_weights_once(mask):
    """One exponential of [H, L, L] in forward and backward pass together."""
    text = compiled("fixed_random", mask).as_text()
    exponentials = re.findall(rf"f32\[(?:1,)?{H},{L},{L}\]\S* exponential\(", text)
    assert len(exponentials) == 1


@pytest.mark.parametrize("mask", MASKS)
def test_factorized_dense_holds_nothing_larger_than_its_logits(mask):
    largest = max(
        functools.reduce(int.__mul__, sizes)
        for sizes in shapes_in(compiled("factorized_dense", mask))
    )
    assert largest == B * H * L * L
