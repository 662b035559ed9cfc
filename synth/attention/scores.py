"""The synthesizing functions of Table 1: modules that turn X into a score term.

All share one interface:

    keys(x_BMD)                                what a key position contributes, or None
    __call__(x_BLD, queries, positions, keys)  the term for queries at `queries` and keys at
                                               `positions` (see `terms.Place`)

so that a full pass and one decoding step are the same code: the step reads one row of the tables
and brings the cached `keys` of all earlier positions.

Biases: arXiv v1 writes F(x) = W relu(W x + b) + b, the ICML version (v3) has none; neither have
we. Everything is per layer and per head: with d = H K the sizes then are those of Table 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from synth.attention.terms import Factored, Full, Place, Shared, Term, is_packed, take

glorot = nnx.initializers.glorot_uniform


class Fixed(nnx.Variable):
    """A tensor that is drawn once and saved, but never trained: no gradient, no moments."""


def random_initializer(kind: str, scale: float) -> Callable[..., jax.Array]:
    """An initialiser of mean 0 and standard deviation `scale`.

    Raises:
      ValueError: if `kind` is neither 'normal' nor 'uniform'.
    """
    if kind == "normal":
        return nnx.initializers.normal(scale)
    if kind == "uniform":
        limit = scale * math.sqrt(3.0)
        return lambda key, shape, dtype=jnp.float32: jax.random.uniform(
            key, shape, dtype, -limit, limit
        )
    raise ValueError(f"unknown random_initializer {kind!r}; known: normal, uniform")


def head_projection(rngs: nnx.Rngs, model_dim: int, num_heads: int, head_dim: int) -> nnx.Param:
    """kernel_DHK, Glorot uniform over the [D, H K] matrix it stands for."""
    kernel = glorot(in_axis=0, out_axis=(1, 2))(
        rngs.params(), (model_dim, num_heads, head_dim), jnp.float32
    )
    return nnx.Param(kernel, axes=("embed", "heads", None))


class Score(nnx.Module):
    """A synthesizing function. By default it looks at no other token: keys need nothing of X."""

    caches_keys = False  # whether decoding has to keep `keys` of earlier positions

    def keys(self, x_BMD: jax.Array) -> jax.Array | None:
        """What each key position contributes, to be cached while decoding."""
        return None

    def __call__(self, x_BLD: jax.Array, queries: Place, positions: Place, keys: Any) -> Term:
        """The score term; see the module's docstring."""
        raise TypeError(f"{type(self).__name__} synthesizes nothing")


class Vanilla(Score):
    """S = <F_Q(X_i), F_K(X_j)> / sqrt(K), dot-product attention."""

    caches_keys = True

    def __init__(self, *, model_dim, num_heads, head_dim, dtype, rngs: nnx.Rngs):
        self.query_DHK = head_projection(rngs, model_dim, num_heads, head_dim)
        self.key_DHK = head_projection(rngs, model_dim, num_heads, head_dim)
        self.dtype = dtype

    def keys(self, x_BMD: jax.Array) -> jax.Array:
        return jnp.einsum("bmd,dhk->bmhk", x_BMD, self.key_DHK[...].astype(self.dtype))

    def queries(self, x_BLD: jax.Array) -> jax.Array:
        """query_BLHK, divided by sqrt(K)."""
        kernel_DHK = self.query_DHK[...] / math.sqrt(self.query_DHK.shape[-1])
        return jnp.einsum("bld,dhk->blhk", x_BLD, kernel_DHK.astype(self.dtype))

    def __call__(self, x_BLD: jax.Array, queries: Place, positions: Place, keys: Any) -> Term:
        return Factored(self.queries(x_BLD), keys)


class Random(Score):
    """S = R, one N x N matrix per head, trained or (`trainable=False`) fixed."""

    def __init__(self, *, num_heads, max_length, initializer, trainable: bool, rngs: nnx.Rngs):
        variable = nnx.Param if trainable else Fixed
        logits_HNN = initializer(rngs.params(), (num_heads, max_length, max_length), jnp.float32)
        self.logits_HNN = variable(logits_HNN, axes=("heads", None, None))

    def __call__(self, x_BLD: jax.Array, queries: Place, positions: Place, keys: Any) -> Term:
        if is_packed(queries):
            return Full(_look_up_packed(self.logits_HNN[...], queries, positions))
        logits_HLM = take(take(self.logits_HNN[...], queries, axis=1), positions, axis=2)
        return Shared(logits_HLM, fixed=isinstance(self.logits_HNN, Fixed))


def _look_up_packed(logits_HNN, queries_BL, keys_BM) -> jax.Array:
    """logits_BHLM[b, h, l, m] = logits_HNN[h, queries_BL[b, l], keys_BM[b, m]]."""
    rows_BLHN = jnp.moveaxis(take(logits_HNN, queries_BL, axis=1), 0, 2)
    logits_BLHM = jnp.take_along_axis(rows_BLHN, keys_BM[:, None, None, :], axis=3)
    return jnp.moveaxis(logits_BLHM, 2, 1)


class FactorizedRandom(Score):
    """S = R1 R2^T with R1, R2 of rank R per head (the paper: rank 8 in practice)."""

    def __init__(self, *, num_heads, max_length, rank, initializer, rngs: nnx.Rngs):
        shape = (num_heads, max_length, rank)
        axes = ("heads", None, None)
        self.query_HNR = nnx.Param(initializer(rngs.params(), shape, jnp.float32), axes=axes)
        self.key_HNR = nnx.Param(initializer(rngs.params(), shape, jnp.float32), axes=axes)

    def __call__(self, x_BLD: jax.Array, queries: Place, positions: Place, keys: Any) -> Term:
        query = take(self.query_HNR[...], queries, axis=1)
        key = take(self.key_HNR[...], positions, axis=1)
        if is_packed(queries):
            dtype = x_BLD.dtype
            return Factored(
                jnp.moveaxis(query, 0, 2).astype(dtype), jnp.moveaxis(key, 0, 2).astype(dtype)
            )
        return Shared(jnp.einsum("hlr,hmr->hlm", query, key))


class Dense(Score):
    """S_i = W2 relu(W1 X_i): a row of N logits from the query's own token.

    W2 relu(W1 x)_j = <relu(W1 x), W2_j>, so it is a factored term whose keys are rows of W2.
    """

    def __init__(self, *, model_dim, num_heads, head_dim, max_length, dtype, rngs: nnx.Rngs):
        self.hidden_DHK = head_projection(rngs, model_dim, num_heads, head_dim)
        key_NHK = glorot(in_axis=2, out_axis=0, batch_axis=1)(
            rngs.params(), (max_length, num_heads, head_dim), jnp.float32
        )
        self.key_NHK = nnx.Param(key_NHK, axes=(None, "heads", None))
        self.dtype = dtype

    def __call__(self, x_BLD: jax.Array, queries: Place, positions: Place, keys: Any) -> Term:
        hidden_BLHK = jnp.einsum("bld,dhk->blhk", x_BLD, self.hidden_DHK[...].astype(self.dtype))
        key = take(self.key_NHK[...].astype(self.dtype), positions, axis=0)
        return Factored(nnx.relu(hidden_BLHK), key)


class FactorizedDense(Score):
    """S_ij = A(X_i)[j mod a] * B(X_i)[j // a] with a b = N.

    A is tiled and B repeated, so that their product is the full outer product; tiling both, as a
    literal reading of arXiv v1 suggests, would give equal values at distance lcm(a, b). A and B
    share the hidden layer relu(W1 X_i): d^2 + d (a + b) parameters, as in Table 1.
    """

    def __init__(self, *, model_dim, num_heads, head_dim, max_length, dtype, rngs: nnx.Rngs):
        tile, repeat = factor_sizes(max_length)
        self.hidden_DHK = head_projection(rngs, model_dim, num_heads, head_dim)
        out = glorot(in_axis=1, out_axis=2, batch_axis=0)
        tiled_HKA = out(rngs.params(), (num_heads, head_dim, tile), jnp.float32)
        repeated_HKC = out(rngs.params(), (num_heads, head_dim, repeat), jnp.float32)
        self.tiled_HKA = nnx.Param(tiled_HKA, axes=("heads", None, None))
        self.repeated_HKC = nnx.Param(repeated_HKC, axes=("heads", None, None))
        self.dtype = dtype

    def __call__(self, x_BLD: jax.Array, queries: Place, positions: Place, keys: Any) -> Term:
        hidden_BLHK = jnp.einsum("bld,dhk->blhk", x_BLD, self.hidden_DHK[...].astype(self.dtype))
        hidden_BLHK = nnx.relu(hidden_BLHK)
        tiled_BHLA = jnp.einsum(
            "blhk,hka->bhla", hidden_BLHK, self.tiled_HKA[...].astype(self.dtype)
        )
        repeated_HKC = self.repeated_HKC[...].astype(self.dtype)
        tile = tiled_BHLA.shape[-1]
        if not isinstance(positions, int):
            repeated_BHLC = jnp.einsum("blhk,hkc->bhlc", hidden_BLHK, repeated_HKC)
            index_B11M = positions[:, None, None, :]
            return Full(
                jnp.take_along_axis(tiled_BHLA, index_B11M % tile, axis=3)
                * jnp.take_along_axis(repeated_BHLC, index_B11M // tile, axis=3)
            )
        blocks = -(-positions // tile)  # only the blocks that hold the first `positions` keys
        repeated_BHLC = jnp.einsum("blhk,hkc->bhlc", hidden_BLHK, repeated_HKC[..., :blocks])
        logits = repeated_BHLC[..., :, None] * tiled_BHLA[..., None, :]
        return Full(logits.reshape(*logits.shape[:3], blocks * tile)[..., :positions])


def factor_sizes(max_length: int) -> tuple[int, int]:
    """(a, b) with a b = N, as near to each other as N allows and a at least b."""
    repeat = next(d for d in range(math.isqrt(max_length), 0, -1) if max_length % d == 0)
    return max_length // repeat, repeat


def make_score(
    name: str,
    *,
    model_dim: int,
    num_heads: int,
    head_dim: int,
    max_length: int,
    rank: int,
    random_initializer_kind: str,
    random_scale: float,
    fixed_random_scale: float,
    dtype,
    rngs: nnx.Rngs,
) -> Score:
    """The score module of one variant name (`variants.VARIANTS`)."""

    token: dict[str, Any] = dict(
        model_dim=model_dim, num_heads=num_heads, head_dim=head_dim, dtype=dtype, rngs=rngs
    )
    table: dict[str, Any] = dict(num_heads=num_heads, max_length=max_length, rngs=rngs)
    if name == "vanilla":
        return Vanilla(**token)
    if name == "random":
        initializer = random_initializer(random_initializer_kind, random_scale)
        return Random(**table, initializer=initializer, trainable=True)
    if name == "fixed_random":
        initializer = random_initializer(random_initializer_kind, fixed_random_scale)
        return Random(**table, initializer=initializer, trainable=False)
    if name == "factorized_random":
        # <R1_i, R2_j> has standard deviation sqrt(rank) s^2: s is chosen to make it random_scale.
        scale = math.sqrt(random_scale / math.sqrt(rank))
        initializer = random_initializer(random_initializer_kind, scale)
        return FactorizedRandom(**table, rank=rank, initializer=initializer)
    if name == "dense":
        return Dense(**token, max_length=max_length)
    if name == "factorized_dense":
        return FactorizedDense(**token, max_length=max_length)
    raise ValueError(f"no score module for {name!r}")
