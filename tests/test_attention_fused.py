"""cuDNN's kernel: when it is chosen, why not, and that it is given the same attention."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synth.attention import fused
from synth.attention.attend import choose_path, reference
from synth.attention.fused import fused_attend
from synth.attention.terms import Factored, Full, Mask, Shared, causal_LM

B, L, H, K = 3, 6, 2, 8
VALID_BM = jnp.arange(L) < jnp.array([L, 4, 0])[:, None]
SEGMENTS_BL = jnp.array([[1, 1, 1, 2, 2, 2], [1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0]])
MASKS = [
    Mask(),
    Mask(valid_BM=VALID_BM),
    Mask(causal_LM(L)),
    Mask(causal_LM(L), segments_BL=SEGMENTS_BL),
]
MASK_NAMES = ["all", "padding", "causal", "causal,packed"]


def draw(rng, *shape) -> jax.Array:
    return jnp.asarray(rng.normal(size=shape), jnp.bfloat16)


@pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("width", [K, 2 * K], ids=["", "mixture"])
@pytest.mark.parametrize("mask", MASKS, ids=MASK_NAMES)
def test_equals_the_reference(mask, width, biased, rng):
    query_BLHK, key_BMHK = draw(rng, B, L, H, width), draw(rng, B, L, H, width)
    value_BMHK, weigh_BLHK = draw(rng, B, L, H, K), draw(rng, B, L, H, K)
    bias_HLM = draw(rng, H, L, L).astype(jnp.float32) if biased else None

    def total(attend):
        def run(query_BLHK, key_BMHK, value_BMHK, bias_HLM):
            return jnp.sum(attend(query_BLHK, key_BMHK, value_BMHK, bias_HLM) * weigh_BLHK)

        argnums = (0, 1, 2, 3) if biased else (0, 1, 2)
        return jax.value_and_grad(run, argnums)(query_BLHK, key_BMHK, value_BMHK, bias_HLM)

    def ours(query_BLHK, key_BMHK, value_BMHK, bias_HLM):
        return fused_attend(query_BLHK, key_BMHK, bias_HLM, value_BMHK, mask, implementation="xla")

    def plain(query_BLHK, key_BMHK, value_BMHK, bias_HLM):
        terms = [Factored(query_BLHK, key_BMHK), *([Shared(bias_HLM)] if biased else [])]
        return reference(terms, value_BMHK, mask)

    for one, other in zip(*(jax.tree.leaves(total(way)) for way in (ours, plain)), strict=True):
        np.testing.assert_allclose(
            np.asarray(one, np.float32), np.asarray(other, np.float32), rtol=0.05, atol=0.08
        )
    mask_B1LM = mask.full()
    if mask_B1LM is not None:
        blind_BL = np.broadcast_to(~jnp.any(mask_B1LM, axis=-1)[:, 0], (B, L))
        out_BLHK = ours(query_BLHK, key_BMHK, value_BMHK, bias_HLM)
        assert not np.any(np.asarray(out_BLHK, np.float32)[blind_BL])


def path(*, platform="gpu", dtype=jnp.bfloat16, terms="factored", length=L, width=K, **mask):
    """What is chosen for terms of these sizes, with a reason."""
    query = jnp.zeros((B, length, H, width), dtype)
    made = {
        "factored": Factored(query, query),
        "dense": Factored(query, query[0]),
        "shared": Shared(jnp.zeros((H, length, length))),
        "full": Full(jnp.zeros((B, H, length, length))),
    }
    dropout_LM = jnp.ones((length, length)) if mask.pop("dropout", False) else None
    value = jnp.zeros((B, length, H, K), dtype)
    chosen = [made[name] for name in terms.split()]
    return choose_path(chosen, value, Mask(**mask), dropout_LM, platform=platform)


@pytest.fixture
def working_kernel(monkeypatch):
    """The kernel passed its trial; there is no GPU here to have one."""
    monkeypatch.setattr(fused, "kernel_fault", lambda: None)


def test_the_kernel_is_chosen_where_it_serves(working_kernel):
    cases: list[dict[str, Any]] = [
        {},
        {"valid_BM": VALID_BM},
        {"terms": "factored shared"},
        {"terms": "factored factored"},
        {"segments_BL": SEGMENTS_BL},
        {"length": 7},
    ]
    for settings in cases:
        assert path(**settings)[0] == "fused"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"platform": "cpu"}, "for GPUs"),
        ({"platform": "tpu"}, "for GPUs"),
        ({"terms": "full"}, "no term is a product"),
        ({"terms": "factored full"}, "for each example that are no product"),
        ({"dtype": jnp.float32}, "16 bits, not in float32"),
        ({"dropout": True}, "no dropout"),
        ({"width": 12}, "heads of 12"),
        ({"terms": "factored factored factored", "width": 64}, "heads of 192"),
        ({"terms": "factored shared", "valid_BM": VALID_BM}, "joined to"),
        ({"terms": "factored shared", "length": 7}, r"even lengths, not of \(7, 7\)"),
        ({"length": 7, "visible_LM": causal_LM(7)}, "even lengths"),
        ({"terms": "dense"}, "all examples share"),
        ({"terms": "shared", "segments_BL": SEGMENTS_BL}, "no term is a product"),
    ],
)
def test_otherwise_it_says_why_not(settings, reason, working_kernel):
    chosen, why = path(**settings)
    assert chosen == "softmax"
    assert re.search(reason, why)


def test_shared_terms_need_no_kernel():
    for platform in ("cpu", "gpu", "tpu"):
        assert path(platform=platform, terms="shared shared")[0] == "shared"


def test_a_kernel_that_does_not_run_is_not_taken():
    """As on this machine, which has no cuDNN."""
    fused.kernel_fault.cache_clear()
    chosen, why = path()
    assert chosen == "softmax"
    assert "does not run here" in why


def test_the_trial_compares_values_and_gradients(monkeypatch):
    tried = fused._try
    monkeypatch.setattr(fused, "_try", lambda _: tried("xla"))
    fused.kernel_fault.cache_clear()
    assert fused.kernel_fault() is None
    monkeypatch.setattr(fused, "_try", lambda way: [x + (way == "cudnn") for x in tried("xla")[:1]])
    fused.kernel_fault.cache_clear()
    assert "off by 1 here" in str(fused.kernel_fault())
    fused.kernel_fault.cache_clear()


@pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("mask", MASKS, ids=MASK_NAMES)
def test_the_kernel_accepts_the_shapes(mask, biased, monkeypatch):
    """JAX's own checks of what cuDNN is given, without a GPU: all but the kernel itself."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91200)
    arrays = [jax.ShapeDtypeStruct((B, L, H, K), jnp.bfloat16)] * 3
    bias = jax.ShapeDtypeStruct((H, L, L), jnp.float32) if biased else None

    def total(query, key, value, bias):
        return jnp.sum(fused_attend(query, key, bias, value, mask).astype(jnp.float32))

    grads = jax.eval_shape(jax.grad(total, (0, 1, 2)), *arrays, bias)
    assert [grad.shape for grad in grads] == [(B, L, H, K)] * 3
