"""The three forms of a score term, and the masks that limit what a query may see."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Shared:
    """Logits that do not depend on the example: random, factorized random.

    `fixed` ones are not trained, either.
    """

    logits_HLM: jax.Array
    fixed: bool = False

    def weighted(self, weight_H: jax.Array) -> Shared:
        """The term times one weight per head, which is trained."""
        return Shared(self.logits_HLM * weight_H[:, None, None])

    def full(self) -> jax.Array:
        """logits_BHLM with a batch axis of size 1."""
        return self.logits_HLM[None]


@dataclasses.dataclass(frozen=True)
class Factored:
    """Logits <query_l, key_m>: vanilla, dense. `key` is key_BMHK, or key_MHK for all examples."""

    query_BLHK: jax.Array
    key: jax.Array

    def weighted(self, weight_H: jax.Array) -> Factored:
        """The term times one weight per head, folded into the query."""
        return Factored(self.query_BLHK * weight_H[:, None].astype(self.query_BLHK.dtype), self.key)

    def full(self) -> jax.Array:
        """logits_BHLM, accumulated in float32."""
        equation = "blhk,mhk->bhlm" if self.key.ndim == 3 else "blhk,bmhk->bhlm"
        return jnp.einsum(equation, self.query_BLHK, self.key, preferred_element_type=jnp.float32)


@dataclasses.dataclass(frozen=True)
class Full:
    """Logits of every example: factorized dense, and whatever is looked up inside packed rows."""

    logits_BHLM: jax.Array

    def weighted(self, weight_H: jax.Array) -> Full:
        """The term times one weight per head."""
        return Full(self.logits_BHLM * weight_H[:, None, None])

    def full(self) -> jax.Array:
        """logits_BHLM."""
        return self.logits_BHLM


Term = Shared | Factored | Full


@dataclasses.dataclass(frozen=True)
class Mask:
    """What a query may see: the conjunction of up to three conditions, each None when void.

    Attributes:
      visible_LM: bool, the same for all examples (the causal triangle, or one row of it).
      valid_BM: bool, False on padding keys.
      segments_BL: int, the example a position of a packed row belongs to; a query sees its own
        segment only. Self-attention only (L = M); 0 stands for padding and is seen by nobody.
    """

    visible_LM: jax.Array | None = None
    valid_BM: jax.Array | None = None
    segments_BL: jax.Array | None = None

    def full(self) -> jax.Array | None:
        """The conjunction as bool_B1LM (axes of size 1 where nothing depends on them), or None."""
        parts = []
        if self.visible_LM is not None:
            parts.append(self.visible_LM[None, None])
        if self.valid_BM is not None:
            parts.append(self.valid_BM[:, None, None, :])
        if self.segments_BL is not None:
            segments_BL = self.segments_BL
            same_BLM = segments_BL[:, :, None] == segments_BL[:, None, :]
            parts.append((same_BLM & (segments_BL > 0)[:, None, :])[:, None])
        if not parts:
            return None
        mask = parts[0]
        for part in parts[1:]:
            mask = mask & part
        return mask


def causal_LM(length: int) -> jax.Array:
    """The lower triangle: position l sees positions up to l."""
    return jnp.tril(jnp.ones((length, length), bool))


# Where a table over positions 0..N-1 is read: an int n stands for positions 0..n-1, an array of no
# dimensions for one position (a decoding step), an array [B, L] for the position of each token
# inside its own example (packed rows).
Place = int | jax.Array


def take(table: jax.Array, place: Place, axis: int) -> jax.Array:
    """Reads `table` at `place` along `axis`; a [B, L] place puts two axes where `axis` was."""
    if isinstance(place, int):
        return jax.lax.slice_in_dim(table, 0, place, axis=axis)
    if place.ndim == 0:
        return jax.lax.dynamic_slice_in_dim(table, place, 1, axis=axis)
    return jnp.take(table, place, axis=axis)


def is_packed(place: Place) -> bool:
    """Whether `place` gives each token its own position."""
    return not isinstance(place, int) and place.ndim == 2
