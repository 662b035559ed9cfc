"""softmax(query . key + bias) value by cuDNN's kernel, through `jax.nn.dot_product_attention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp

from synth.attention.terms import Factored, Full, Mask, Shared, Term

_WIDEST_HEAD = 128  # of the kernel on every GPU it runs on; Hopper's takes 256


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
    biased = any(isinstance(term, Shared) for term in terms)
    by_example = mask.valid_BM is not None or mask.segments_BL is not None
    if biased and by_example:
        return "a bias for all examples and a mask for each would be joined to [B, H, L, M]"
    lengths = factored[0].query_BLHK.shape[1], value_BMHK.shape[1]
    if (biased or mask.full() is not None) and (lengths[0] % 2 or lengths[1] % 2):
        return f"the kernel takes masks and biases of even lengths, not of {lengths}"
    return None


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
