"""softmax(query . key + bias) value by cuDNN's kernel, through `jax.nn.dot_product_attention`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp

from synth.attention.terms import Factored, Full, Mask, Shared, Term, causal_LM

_WIDEST_HEAD = 128  # on every GPU the kernel runs on; some take 256
_GREATEST_GAP = 0.1  # of numbers of size 1 that are rounded to 8 bits on the way


def why_not_fused(
    terms: Sequence[Term],
    value_BMHK: jax.Array,
    mask: Mask,
    dropout_LM: jax.Array | None,
    platform: str,
) -> str | None:
    """Why the kernel does not serve these terms, in words; None where it does."""
    factored = [term for term in terms if isinstance(term, Factored)]
    if platform != "gpu":
        return "cuDNN's kernel is for GPUs"
    if not factored:
        return "no term is a product of queries and keys"
    if any(isinstance(term, Full) for term in terms):
        return "a term has logits for each example that are no product of queries and keys"
    if value_BMHK.dtype not in (jnp.bfloat16, jnp.float16):
        return f"the kernel computes in 16 bits, not in {value_BMHK.dtype}"
    if dropout_LM is not None:
        return "the kernel has no dropout that is one mask for all examples and heads"
    width = max(sum(term.query_BLHK.shape[-1] for term in factored), value_BMHK.shape[-1])
    if width % 8 or width > _WIDEST_HEAD:
        return f"heads of {width} numbers are no multiple of 8 up to {_WIDEST_HEAD}"
    if all(term.key.ndim == 3 for term in factored):
        return "keys that all examples share cannot be split over devices beside the queries"
    biased = any(isinstance(term, Shared) for term in terms)
    by_example = mask.valid_BM is not None or mask.segments_BL is not None
    if biased and by_example:
        return "a bias for all examples and a mask for each would be joined to [B, H, L, M]"
    lengths = factored[0].query_BLHK.shape[1], value_BMHK.shape[1]
    if (biased or mask.full() is not None) and (lengths[0] % 2 or lengths[1] % 2):
        return f"the kernel takes masks and biases of even lengths, not of {lengths}"
    return kernel_fault()


@functools.cache
def kernel_fault() -> str | None:
    """What is wrong with the kernel on this device, found by trying it once; None if nothing is.

    It depends on the GPU, its driver and the version of cuDNN, and fails late where they are too
    old: so values and gradients of a small case are compared with those of XLA.
    """
    try:
        with jax.ensure_compile_time_eval():
            found, expected = (_try(implementation) for implementation in ("cudnn", "xla"))
            gaps = [float(jnp.max(jnp.abs(a - b))) for a, b in zip(found, expected, strict=True)]
    except Exception as error:  # whatever it is, there is another way to compute the same
        return f"cuDNN's kernel does not run here: {str(error).partition(chr(10))[0]}"
    if not max(gaps) < _GREATEST_GAP:
        return f"cuDNN's kernel is off by {max(gaps):.3g} here"
    return None


def _try(implementation: Literal["cudnn", "xla"]) -> list[jax.Array]:
    """Output and gradients of causal attention with padding, in float32."""
    keys = jax.random.split(jax.random.key(0), 4)
    query, key, value, grad = (jax.random.normal(k, (2, 64, 2, 64), jnp.bfloat16) for k in keys)
    valid_BM = jnp.arange(64) < jnp.array([[64], [40]])
    mask = Mask(visible_LM=causal_LM(64), valid_BM=valid_BM)

    def run(query, key, value):
        return fused_attend(query / 8, key, None, value, mask, implementation)

    out, backward = jax.vjp(run, query, key, value)
    return [array.astype(jnp.float32) for array in (out, *backward(grad))]


def fused_attend(
    query_BLHK: jax.Array,
    key_BMHK: jax.Array,
    bias_HLM: jax.Array | None,
    value_BMHK: jax.Array,
    mask: Mask,
    implementation: Literal["cudnn", "xla"] = "cudnn",
) -> jax.Array:
    """Attends with weights softmax(<query, key> + bias).

    Args:
      query_BLHK, key_BMHK: of the dtype of the values; they may be wider.
      bias_HLM: to be added to the logits, rounded to the dtype of the values.
      value_BMHK: the values, in 16 bits.
      mask: what each query may see; a query that may see nothing gets zeros.
      implementation: 'xla' computes the same on any device, for tests.

    Returns:
      out_BLHK in the dtype of the values.
    """
    width = value_BMHK.shape[-1]
    widest = max(width, query_BLHK.shape[-1])
    mask_B1LM = mask.full()
    if mask_B1LM is not None:  # the kernel does not broadcast over queries and keys
        lengths = query_BLHK.shape[1], value_BMHK.shape[1]
        mask_B1LM = jnp.broadcast_to(mask_B1LM, (mask_B1LM.shape[0], 1, *lengths))
    out_BLHK = jax.nn.dot_product_attention(
        _widened(query_BLHK, widest),
        _widened(key_BMHK, widest),
        _widened(value_BMHK, widest),
        bias=None if bias_HLM is None else bias_HLM[None].astype(value_BMHK.dtype),
        mask=mask_B1LM,
        scale=1.0,
        implementation=implementation,
    )[..., :width]
    if mask_B1LM is None:
        return out_BLHK
    seen_BL11 = jnp.any(mask_B1LM, axis=-1)[:, 0, :, None, None]
    return jnp.where(seen_BL11, out_BLHK, 0)


def _widened(x_BLHK: jax.Array, width: int) -> jax.Array:
    """The array with zeros behind each head: the kernel wants heads of one width."""
    missing = width - x_BLHK.shape[-1]
    return jnp.pad(x_BLHK, ((0, 0), (0, 0), (0, 0), (0, missing))) if missing else x_BLHK
