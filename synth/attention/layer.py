"""The attention modules: synthesized self-attention and dot-product cross-attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from synth.attention import step
from synth.attention.attend import attend, choose_path
from synth.attention.scores import Score, Vanilla, glorot, head_projection, make_score
from synth.attention.terms import Mask, Place, Term
from synth.dropout import dropout_factors
from synth.variants import check_mix, parse_variant

Cache = dict[str, Any]


class Mixture(nnx.Module):
    """Weights of the terms: S = sum_t w_t S_t.

    mix='softmax' is the paper's alpha: one learned logit per term and head, softmax over the
    terms, so that the weights of a head sum to 1. mix='sigmoid' is the released code's gate: one
    scalar per layer, s and 1 - s. mix='sum' weighs nothing and has no parameters.
    """

    def __init__(self, *, mix: str, num_terms: int, num_heads: int):
        check_mix(mix, num_terms)
        self.mix = mix if num_terms > 1 else "sum"
        self.num_heads = num_heads
        if self.mix == "softmax":
            self.logits_TH = nnx.Param(jnp.zeros((num_terms, num_heads)), axes=(None, "heads"))
        if self.mix == "sigmoid":
            self.gate = nnx.Param(jnp.zeros(()), axes=())

    def weights_TH(self) -> jax.Array:
        """The weights of each term in each head, float32."""
        if self.mix == "softmax":
            return jax.nn.softmax(self.logits_TH[...], axis=0)
        gate = jax.nn.sigmoid(self.gate[...])
        return jnp.broadcast_to(jnp.stack([gate, 1.0 - gate])[:, None], (2, self.num_heads))

    def __call__(self, terms: list) -> list:
        if self.mix == "sum":
            return terms
        return [term.weighted(w_H) for term, w_H in zip(terms, self.weights_TH(), strict=True)]


class _Attention(nnx.Module):
    """What both kinds of attention have: projections of the values and of the output."""

    def __init__(self, *, model_dim, num_heads, head_dim, dropout_rate, dtype, rngs: nnx.Rngs):
        self.value_DHK = head_projection(rngs, model_dim, num_heads, head_dim)
        self.output_HKD = output_projection(rngs, model_dim, num_heads, head_dim)
        self.dropout_rate = dropout_rate
        self.dtype = dtype

    def _value(self, x_BMD: jax.Array) -> jax.Array:
        return jnp.einsum("bmd,dhk->bmhk", x_BMD, self.value_DHK[...].astype(self.dtype))

    def _project(self, out_BLHK: jax.Array) -> jax.Array:
        return jnp.einsum("blhk,hkd->bld", out_BLHK, self.output_HKD[...].astype(self.dtype))


class SelfAttention(_Attention):
    """Multi-head self-attention whose weights are synthesized: Y = softmax(S(X)) V(X), projected.

    Args:
      model_dim: D.
      num_heads: H.
      head_dim: K.
      max_length: N, the longest sequence; the size of R and of the dense projections.
      variant: names joined by `+` (`variants.VARIANTS`).
      mix: how several terms are weighed (`Mixture`).
      rank: rank of factorized random terms.
      random_initializer: 'normal' or 'uniform', of R and of its factors.
      random_scale: standard deviation of the trained R at the start.
      fixed_random_scale: standard deviation of the fixed R.
      dropout_rate: on the attention weights.
      dtype: of the computation; parameters are float32.

    Raises:
      ValueError: unknown variant, mix or initializer; a sequence longer than `max_length`.
    """

    def __init__(
        self,
        *,
        model_dim: int,
        num_heads: int,
        head_dim: int,
        max_length: int,
        variant: str,
        mix: str,
        rank: int,
        random_initializer: str,
        random_scale: float,
        fixed_random_scale: float,
        dropout_rate: float,
        dtype: Any,
        rngs: nnx.Rngs,
    ):
        names = parse_variant(variant)
        self.scores: nnx.List[Score] = nnx.List(
            [
                make_score(
                    name,
                    model_dim=model_dim,
                    num_heads=num_heads,
                    head_dim=head_dim,
                    max_length=max_length,
                    rank=rank,
                    random_initializer_kind=random_initializer,
                    random_scale=random_scale,
                    fixed_random_scale=fixed_random_scale,
                    dtype=dtype,
                    rngs=rngs,
                )
                for name in names
            ]
        )
        self.mixture = Mixture(mix=mix, num_terms=len(names), num_heads=num_heads)
        super().__init__(
            model_dim=model_dim,
            num_heads=num_heads,
            head_dim=head_dim,
            dropout_rate=dropout_rate,
            dtype=dtype,
            rngs=rngs,
        )
        self.max_length = max_length

    def __call__(
        self,
        x_BLD: jax.Array,
        mask: Mask,
        positions_BL: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """Attends within x_BLD.

        Args:
          x_BLD: input, in the compute dtype.
          mask: what each position may see.
          positions_BL: int, the place of each token inside its own example (packed rows); None
            means 0..L-1.
          dropout_key: None switches dropout off.

        Returns:
          y_BLD.
        """
        length = x_BLD.shape[1]
        self._check_length(length)
        place = length if positions_BL is None else positions_BL
        dropout_LM = dropout_factors(dropout_key, self.dropout_rate, (length, length))
        value_BMHK = self._value(x_BLD)
        return self._project(attend(self._terms(x_BLD, place), value_BMHK, mask, dropout_LM))

    def path(
        self, x_BLD: jax.Array, mask: Mask, dropout_LM: jax.Array | None, platform: str
    ) -> tuple[str, str]:
        """How a platform computes it, and why (`attend.choose_path`)."""
        terms = self._terms(x_BLD, x_BLD.shape[1])
        return choose_path(terms, self._value(x_BLD), mask, dropout_LM, platform=platform)

    def _terms(self, x_BLD: jax.Array, place: Place) -> list[Term]:
        terms = [score(x_BLD, place, place, score.keys(x_BLD)) for score in self.scores]
        return self.mixture(terms)

    def init_cache(self, batch: int, beam: int, length: int) -> Cache:
        """An empty cache of `length` steps and `beam` hypotheses: values, and keys of terms."""
        self._check_length(length)
        num_heads, head_dim = self.value_DHK.shape[1:]

        def empty():
            return step.empty(batch, beam, length, num_heads, head_dim, self.dtype)

        keys = [empty() if score.caches_keys else None for score in self.scores]
        return {"keys": keys, "value": empty()}

    def step(
        self, x_R1D: jax.Array, index: jax.Array, cache: Cache, ancestors_RM: jax.Array | None
    ) -> tuple[jax.Array, Cache]:
        """Attends from position `index` (a scalar, below the cache's length) to 0..index.

        Rows are the hypotheses, those of an example side by side; for the cache and the ancestors
        see `synth.attention.step`.
        """
        index = jnp.asarray(index)  # a Python int would be a `Place` of that many positions
        value_BHSK = step.write(cache["value"], self._value(x_R1D), index)
        value_RHMK = step.read(value_BHSK, ancestors_RM)
        length = value_RHMK.shape[2]
        keys, terms = [], []
        for score, old in zip(self.scores, cache["keys"], strict=True):
            new, key_RMHK = score.keys(x_R1D), None
            if new is not None:
                new = step.write(old, new, index)
                key_RMHK = jnp.swapaxes(step.read(new, ancestors_RM), 1, 2)
            keys.append(new)
            terms.append(score(x_R1D, index, length, key_RMHK))
        out_R1HK = step.attend_step(self.mixture(terms), value_RHMK, index)
        return self._project(out_R1HK), {"keys": keys, "value": value_BHSK}

    def _check_length(self, length: int) -> None:
        if length > self.max_length:
            raise ValueError(
                f"a sequence of {length} tokens is longer than max_length={self.max_length}, the "
                "number of positions the synthesized attention has"
            )


class CrossAttention(_Attention):
    """Dot-product attention from the decoder to the encoder: only self-attention is synthesized."""

    def __init__(self, *, model_dim, num_heads, head_dim, dropout_rate, dtype, rngs: nnx.Rngs):
        sizes: dict[str, Any] = dict(model_dim=model_dim, num_heads=num_heads, head_dim=head_dim)
        self.score = Vanilla(**sizes, dtype=dtype, rngs=rngs)
        super().__init__(**sizes, dropout_rate=dropout_rate, dtype=dtype, rngs=rngs)

    def memory(self, encoded_BMD: jax.Array) -> Cache:
        """Keys and values of the encoder's output: computed once, however many steps follow."""
        return {"key": self.score.keys(encoded_BMD), "value": self._value(encoded_BMD)}

    def step_memory(self, encoded_BMD: jax.Array) -> Cache:
        """`memory` as steps read it, [B, H, M, K]: nothing is moved in a step."""
        memory = self.memory(encoded_BMD)
        return {name: jnp.swapaxes(array_BMHK, 1, 2) for name, array_BMHK in memory.items()}

    def __call__(
        self, x_BLD: jax.Array, memory: Cache, valid_BM: jax.Array, dropout_key=None
    ) -> jax.Array:
        """Attends from x_BLD to the memory."""
        length, memory_length = x_BLD.shape[1], valid_BM.shape[1]
        term = self.score(x_BLD, length, memory_length, memory["key"])
        dropout_LM = dropout_factors(dropout_key, self.dropout_rate, (length, memory_length))
        out_BLHK = attend([term], memory["value"], Mask(valid_BM=valid_BM), dropout_LM)
        return self._project(out_BLHK)

    def step(self, x_R1D: jax.Array, memory: Cache, valid_BM: jax.Array) -> jax.Array:
        """Attends from one token of each hypothesis to the `step_memory` of its example."""
        query_R1HK = self.score.queries(x_R1D)
        out_R1HK = step.attend_memory(query_R1HK, memory["key"], memory["value"], valid_BM)
        return self._project(out_R1HK)


def output_projection(rngs: nnx.Rngs, model_dim: int, num_heads: int, head_dim: int) -> nnx.Param:
    """kernel_HKD, Glorot uniform over the [H K, D] matrix it stands for."""
    kernel = glorot(in_axis=(0, 1), out_axis=2)(
        rngs.params(), (num_heads, head_dim, model_dim), jnp.float32
    )
    return nnx.Param(kernel, axes=("heads", None, "embed"))
