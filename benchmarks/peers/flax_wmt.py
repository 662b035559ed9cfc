"""Translation as the wmt example of Flax does it: the algorithm, in code of our own.

The attention is Flax's own (`linen.MultiHeadDotProductAttention`), with the example's use of it:

- inputs are padded to one length, outputs have one length, and so have the caches;
- the encoder's output is repeated for each hypothesis;
- its keys and values are made anew at every step;
- whole caches are gathered at every step of the beam search;
- greedy search is a beam of 1.

It stops when no live hypothesis can beat the worst finished one. Weights are random.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from benchmarks.peers.sizes import Sizes
from synth.decode import EOS_ID

NEVER = -1e7


class Block(nn.Module):
    """Attention to itself and, in a decoder, to the encoder's output; feed-forward."""

    sizes: Sizes
    decode: bool = False

    @nn.compact
    def __call__(self, x, mask=None, encoded=None, encoded_mask=None):
        def attention(decode: bool):
            return nn.MultiHeadDotProductAttention(
                num_heads=self.sizes.num_heads,
                qkv_features=self.sizes.num_heads * self.sizes.head_dim,
                use_bias=False,
                deterministic=True,
                decode=decode,
            )

        x = x + attention(self.decode)(nn.LayerNorm()(x), mask=mask)
        if encoded is not None:
            x = x + attention(False)(nn.LayerNorm()(x), encoded, mask=encoded_mask)
        hidden = nn.relu(nn.Dense(self.sizes.ff_dim)(nn.LayerNorm()(x)))
        return x + nn.Dense(self.sizes.model_dim)(hidden)


class Translator(nn.Module):
    """Encoder-decoder with one embedding for inputs, outputs and the softmax."""

    sizes: Sizes
    longest: int  # of inputs and outputs
    decode: bool = False

    def setup(self):
        self.embedding = nn.Embed(self.sizes.vocab_size, self.sizes.model_dim)
        self.encoder = [Block(self.sizes) for _ in range(self.sizes.num_layers)]
        self.decoder = [Block(self.sizes, self.decode) for _ in range(self.sizes.num_layers)]
        self.norms = [nn.LayerNorm() for _ in range(2)]
        self.positions = jax.random.normal(jax.random.key(0), (self.longest, self.sizes.model_dim))

    def encode(self, inputs):
        """The encoder's output [B, M, D]."""
        x = self.embedding(inputs) + self.positions[: inputs.shape[1]]
        mask = nn.make_attention_mask(inputs > 0, inputs > 0)
        for block in self.encoder:
            x = block(x, mask)
        return self.norms[0](x)

    def logits(self, encoded, inputs, tokens, index=0):
        """Logits [R, L, V] of tokens [R, L] that begin at position `index`."""
        length = tokens.shape[1]
        x = self.embedding(tokens)
        x = x + jax.lax.dynamic_slice_in_dim(self.positions, index, length)
        mask = nn.make_attention_mask(jnp.ones_like(tokens) > 0, inputs > 0)
        causal = None if self.decode else nn.make_causal_mask(tokens)
        for block in self.decoder:
            x = block(x, causal, encoded, mask)
        return self.embedding.attend(self.norms[1](x))

    def __call__(self, inputs, targets):
        return self.logits(self.encode(inputs), inputs, targets)


def variables(sizes: Sizes, inputs, longest: int, *, params: bool) -> dict[str, Any]:
    """Random parameters, or the empty caches for these inputs."""
    model = Translator(sizes, longest, decode=True)
    targets = jnp.ones((len(inputs), longest), jnp.int32)
    made: Any = model.init(jax.random.key(0), inputs, targets)
    return made["params"] if params else made["cache"]


def translate(sizes: Sizes, params, inputs, ends_B, *, beam: int, alpha: float, longest: int):
    """tokens [B, longest + 1], after a first 0; output b ends after ends_B[b] tokens."""
    batch = len(inputs)
    model: Any = Translator(sizes, longest, decode=True)
    encoded = model.apply({"params": params}, inputs, method="encode")
    encoded, seen = jnp.repeat(encoded, beam, axis=0), jnp.repeat(inputs, beam, axis=0)
    ends_R1 = jnp.repeat(ends_B, beam)[:, None]

    def step(tokens, index, cache):
        logits, changed = model.apply(
            {"params": params, "cache": cache},
            encoded,
            seen,
            tokens[:, None],
            index,
            mutable=["cache"],
            method="logits",
        )
        is_end = jnp.arange(sizes.vocab_size) == EOS_ID
        allowed = jnp.where(index + 1 >= ends_R1, is_end, ~is_end)
        return jnp.where(allowed, logits[:, 0], NEVER), changed["cache"]

    def rows(array):  # of a cache, whose scalars are not per row
        return array if array.ndim == 0 else array.reshape(batch * beam, *array.shape[2:])

    def beams(array):
        return array if array.ndim == 0 else array.reshape(batch, beam, *array.shape[1:])

    def gather(tree, places):
        def one(array):
            return array if array.ndim == 0 else array[jnp.arange(batch)[:, None], places]

        return jax.tree.map(one, tree)

    def penalty(length):
        return ((5.0 + length) / 6.0) ** alpha

    def best(tree, scores):
        return gather(tree, jax.lax.top_k(scores, beam)[1])

    def unfinished(state):
        index, live_logp, _, done_scores, _, _ = state
        reachable = live_logp[:, 0] / penalty(longest)
        return (index < longest) & ~jnp.all(jnp.min(done_scores, axis=1) > reachable)

    def body(state):
        index, live_logp, live, done_scores, done, cache = state
        logits, cache = step(live[:, :, index].reshape(-1), index, jax.tree.map(rows, cache))
        cache = jax.tree.map(beams, cache)
        logp = jax.nn.log_softmax(logits).reshape(batch, beam, -1) + live_logp[..., None]
        top_logp, flat = jax.lax.top_k(logp.reshape(batch, -1), 2 * beam)
        parents, tokens = flat // sizes.vocab_size, flat % sizes.vocab_size
        longer = gather(live, parents)
        longer = jax.lax.dynamic_update_slice(longer, tokens[..., None], (0, 0, index + 1))
        ended = tokens == EOS_ID
        still = top_logp + ended * NEVER
        live, live_logp, parents = best((longer, still, parents), still)
        scores = top_logp / penalty(index + 1) + ~ended * NEVER
        scores = jnp.concatenate([done_scores, scores], axis=1)
        done, done_scores = best((jnp.concatenate([done, longer], axis=1), scores), scores)
        return index + 1, live_logp, live, done_scores, done, gather(cache, parents)

    cache = variables(sizes, inputs, longest, params=False)
    cache = jax.tree.map(
        lambda array: array if array.ndim == 0 else jnp.repeat(array[:, None], beam, axis=1), cache
    )
    nothing = jnp.zeros((batch, beam, longest + 1), jnp.int32)
    live_logp = jnp.tile(jnp.array([0.0] + [NEVER] * (beam - 1)), (batch, 1))
    start = jnp.int32(0), live_logp, nothing, jnp.full((batch, beam), NEVER), nothing, cache
    return jax.lax.while_loop(unfinished, body, start)[4][:, 0]
