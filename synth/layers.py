"""The layers of a Transformer beside attention: feed-forward, norm, embedding.

Dimension key: see `synth.attention`.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx

from synth.attention.scores import glorot
from synth.dropout import dropout

PAD_ID = 0  # padding; also what the decoder reads before the first target, as in T2T


class FeedForward(nnx.Module):
    """relu(x W1 + b1) W2 + b2, dropout on the hidden units."""

    def __init__(self, *, model_dim, ff_dim, dropout_rate, dtype, rngs: nnx.Rngs):
        init = glorot()
        self.in_DF = nnx.Param(init(rngs.params(), (model_dim, ff_dim)), axes=("embed", "mlp"))
        self.in_F = nnx.Param(jnp.zeros(ff_dim), axes=("mlp",))
        self.out_FD = nnx.Param(init(rngs.params(), (ff_dim, model_dim)), axes=("mlp", "embed"))
        self.out_D = nnx.Param(jnp.zeros(model_dim), axes=(None,))
        self.dropout_rate = dropout_rate
        self.dtype = dtype

    def __call__(self, x_BLD: jax.Array, dropout_key=None) -> jax.Array:
        hidden_BLF = x_BLD @ self.in_DF[...].astype(self.dtype) + self.in_F[...].astype(self.dtype)
        hidden_BLF = dropout(nnx.relu(hidden_BLF), self.dropout_rate, dropout_key)
        return hidden_BLF @ self.out_FD[...].astype(self.dtype) + self.out_D[...].astype(self.dtype)


class Norm(nnx.Module):
    """Layer normalisation over D in float32, with scale and bias."""

    def __init__(self, model_dim: int, dtype):
        self.scale_D = nnx.Param(jnp.ones(model_dim), axes=(None,))
        self.bias_D = nnx.Param(jnp.zeros(model_dim), axes=(None,))
        self.dtype = dtype

    def __call__(self, x_BLD: jax.Array) -> jax.Array:
        x32 = x_BLD.astype(jnp.float32)
        centred = x32 - jnp.mean(x32, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        y = centred * jax.lax.rsqrt(variance + 1e-6) * self.scale_D[...] + self.bias_D[...]
        return y.astype(self.dtype)


class Embedding(nnx.Module):
    """Token embeddings, held once: read at the input and, transposed, as the output softmax."""

    def __init__(self, *, vocab_size, model_dim, dtype, rngs: nnx.Rngs):
        table_VD = jax.random.normal(rngs.params(), (vocab_size, model_dim)) * model_dim**-0.5
        self.table_VD = nnx.Param(table_VD, axes=("vocab", "embed"))
        self.dtype = dtype

    def __call__(self, tokens_BL: jax.Array, positions_BL: jax.Array) -> jax.Array:
        """x_BLD: embeddings times sqrt(D), 0 for padding, plus the sinusoids of the positions."""
        model_dim = self.table_VD.shape[1]
        x_BLD = jnp.take(self.table_VD[...], tokens_BL, axis=0) * math.sqrt(model_dim)
        x_BLD = jnp.where((tokens_BL != PAD_ID)[..., None], x_BLD, 0.0)
        return (x_BLD + sinusoids(positions_BL, model_dim)).astype(self.dtype)

    def logits(self, x_BLD: jax.Array) -> jax.Array:
        """logits_BLV in float32."""
        return output_logits(x_BLD, self.table_VD[...])


def output_logits(x_BLD: jax.Array, kernel_VD: jax.Array) -> jax.Array:
    """logits_BLV in float32; the kernel is taken in the dtype of x."""
    return jnp.einsum(
        "bld,vd->blv", x_BLD, kernel_VD.astype(x_BLD.dtype), preferred_element_type=jnp.float32
    )


def sinusoids(positions_BL: jax.Array, model_dim: int) -> jax.Array:
    """Timing signal of T2T, float32 [B, L, D]: sines, then cosines, wavelengths 2 pi to 2e4 pi."""
    half = model_dim // 2
    rates = jnp.exp(-math.log(1e4) / max(half - 1, 1) * jnp.arange(half))
    angles = positions_BL[..., None].astype(jnp.float32) * rates
    signal = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return jnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, model_dim - 2 * half)])
