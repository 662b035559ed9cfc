"""Encoder-decoder, decoder-only and encoder-only Transformers from one block.

The wiring is that of T2T's transformer_base.

Pre-norm (T2T's "n" before and "da" after each sub-layer), a last norm on each stack, sinusoid
positions, one embedding for inputs, targets and the softmax, dropout on the embeddings, the
residuals, the attention weights and the feed-forward's hidden units. Dimension key: see
`synth.attention`.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from synth.attention import CrossAttention, SelfAttention
from synth.attention.scores import glorot
from synth.attention.step import Unmoved, first_ancestors, with_own_place
from synth.attention.terms import Mask, causal_LM
from synth.compilation import split_rows, stored
from synth.dropout import dropout
from synth.layers import PAD_ID, Embedding, FeedForward, Norm, output_logits

Batch = Mapping[str, Any]  # int arrays by name


class Block(nnx.Module):
    """One layer: self-attention, cross-attention in a decoder of two stacks, feed-forward."""

    def __init__(
        self,
        *,
        model_dim: int,
        num_heads: int,
        head_dim: int,
        ff_dim: int,
        max_length: int,
        cross: bool,
        attention: dict[str, Any],
        residual_dropout: float,
        attention_dropout: float,
        relu_dropout: float,
        dtype: Any,
        rngs: nnx.Rngs,
    ):
        sizes: dict[str, Any] = dict(model_dim=model_dim, num_heads=num_heads, head_dim=head_dim)
        heads: dict[str, Any] = dict(
            **sizes, dropout_rate=attention_dropout, dtype=dtype, rngs=rngs
        )
        self.self_norm = Norm(model_dim, dtype)
        self.self_attention = SelfAttention(**heads, max_length=max_length, **attention)
        self.cross_norm = Norm(model_dim, dtype) if cross else None
        self.cross_attention = CrossAttention(**heads) if cross else None
        self.ff_norm = Norm(model_dim, dtype)
        self.feed_forward = FeedForward(
            model_dim=model_dim, ff_dim=ff_dim, dropout_rate=relu_dropout, dtype=dtype, rngs=rngs
        )
        self.residual_dropout = residual_dropout

    def __call__(
        self,
        x_BLD,
        mask: Mask,
        *,
        positions_BL=None,
        memory: Any = None,
        memory_valid: Any = None,
        key=None,
    ) -> jax.Array:
        keys = [None] * 6 if key is None else list(jax.random.split(key, 6))
        y_BLD = self.self_attention(self.self_norm(x_BLD), mask, positions_BL, keys[0])
        x_BLD = self._add(x_BLD, y_BLD, keys[1])
        if self.cross_attention is not None and self.cross_norm is not None:
            y_BLD = self.cross_attention(self.cross_norm(x_BLD), memory, memory_valid, keys[2])
            x_BLD = self._add(x_BLD, y_BLD, keys[3])
        y_BLD = self.feed_forward(self.ff_norm(x_BLD), keys[4])
        return self._add(x_BLD, y_BLD, keys[5])

    def _add(self, x_BLD, y_BLD, key) -> jax.Array:
        """The residual stream after a sub-layer."""
        return stored(x_BLD + dropout(stored(y_BLD), self.residual_dropout, key))

    def step(
        self, x_R1D, index, cache, ancestors_RM, *, memory: Any = None, memory_valid: Any = None
    ):
        """One decoding step; returns the output and the new cache of the self-attention."""
        y_R1D, cache = self.self_attention.step(self.self_norm(x_R1D), index, cache, ancestors_RM)
        x_R1D = x_R1D + y_R1D
        if self.cross_attention is not None and self.cross_norm is not None:
            x_R1D = x_R1D + self.cross_attention.step(self.cross_norm(x_R1D), memory, memory_valid)
        return x_R1D + self.feed_forward(self.ff_norm(x_R1D)), cache


class Stack(nnx.Module):
    """`num_layers` blocks and a last norm."""

    def __init__(
        self,
        num_layers: int,
        *,
        residual_dropout: float,
        dtype,
        rngs,
        remat: bool = False,
        **block: Any,
    ):
        settings: dict[str, Any] = dict(
            residual_dropout=residual_dropout, dtype=dtype, rngs=rngs, **block
        )
        self.blocks = nnx.List([Block(**settings) for _ in range(num_layers)])
        self.norm = Norm(block["model_dim"], dtype)
        self.residual_dropout = residual_dropout
        self.remat = remat

    def memories(self, encoded_BMD) -> list:
        """Keys and values of the encoder's output for each block's cross-attention."""
        return [cross.memory(encoded_BMD) for cross in self._crosses()]

    def step_memories(self, encoded_BMD) -> list:
        """The same as decoding steps read them."""
        return [cross.step_memory(encoded_BMD) for cross in self._crosses()]

    def _crosses(self) -> list[CrossAttention]:
        crosses = [block.cross_attention for block in self.blocks]
        return [cross for cross in crosses if cross is not None]

    def __call__(self, x_BLD, mask: Mask, *, memories=None, key=None, **shared) -> jax.Array:
        count = len(self.blocks)
        memories = [None] * count if memories is None else memories
        keys = [None] * (count + 1) if key is None else list(jax.random.split(key, count + 1))
        x_BLD = split_rows(dropout(x_BLD, self.residual_dropout, keys[-1]))
        for block, memory, block_key in zip(self.blocks, memories, keys[:-1], strict=True):
            run = functools.partial(block, mask=mask, memory=memory, key=block_key, **shared)
            x_BLD = split_rows((jax.checkpoint(run) if self.remat else run)(x_BLD))
        return self.norm(x_BLD)

    def init_cache(self, batch: int, beam: int, length: int) -> dict[str, Any]:
        """Empty caches of all blocks, and whose they are (`attention.step`)."""
        layers = [block.self_attention.init_cache(batch, beam, length) for block in self.blocks]
        return {"layers": Unmoved(layers), "ancestors": first_ancestors(batch, beam, length)}

    def step(self, x_R1D, index, cache, *, memories=None, **memory_valid):
        """One decoding step through all blocks."""
        layers = cache["layers"].arrays
        memories = [None] * len(self.blocks) if memories is None else memories
        batch = layers[0]["value"].shape[0]
        ancestors_RM = with_own_place(cache["ancestors"], index, batch)
        new_layers = []
        for block, layer, memory in zip(self.blocks, layers, memories, strict=True):
            x_R1D, layer = block.step(
                x_R1D, index, layer, ancestors_RM, memory=memory, **memory_valid
            )
            new_layers.append(layer)
        return self.norm(x_R1D), {"layers": Unmoved(new_layers), "ancestors": ancestors_RM}


class Model(nnx.Module):
    """What the models share: logits come from a last layer that losses can also take apart."""

    @abc.abstractmethod
    def last_layer(self, batch: Batch, key: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        """(x_BLD in the compute dtype, kernel_VD): see `synth.losses`."""

    def __call__(self, batch: Batch, key: jax.Array | None = None) -> jax.Array:
        """Teacher-forced logits_BLV (float32) of batch['targets']; without a key, no dropout."""
        return output_logits(*self.last_layer(batch, key))


class Generator(Model):
    """A model that writes: an embedding, and a decoder that can be taken step by step."""

    embedding: Embedding
    decoder: Stack

    def step(self, tokens_R: jax.Array, index: jax.Array, memory, cache):
        """(logits_RV in float32, cache) of the token at position `index`, given the one before it.

        Rows are the hypotheses, those of an example side by side.
        """
        x_R1D = self.embedding(tokens_R[:, None], jnp.reshape(index, (1, 1)))
        x_R1D, cache = self.decoder.step(x_R1D, index, cache, **memory)
        return self.embedding.logits(x_R1D)[:, 0], cache


class EncoderDecoder(Generator):
    """Text to text: an encoder and a decoder of `num_layers` blocks each.

    Self-attention is synthesized in both; cross-attention stays dot-product (paper, section 4).
    Args: as `make_model`.
    """

    def __init__(self, *, vocab_size: int, num_layers: int, rngs: nnx.Rngs, **block: Any):
        self.embedding = Embedding(
            vocab_size=vocab_size, model_dim=block["model_dim"], dtype=block["dtype"], rngs=rngs
        )
        self.encoder = Stack(num_layers, cross=False, rngs=rngs, **block)
        self.decoder = Stack(num_layers, cross=True, rngs=rngs, **block)

    def encode(self, inputs_BM: jax.Array, key=None) -> jax.Array:
        """encoded_BMD of int tokens; 0 is padding and is seen by nobody."""
        x_BMD = self.embedding(inputs_BM, jnp.arange(inputs_BM.shape[1])[None])
        return self.encoder(x_BMD, Mask(valid_BM=inputs_BM != PAD_ID), key=key)

    def last_layer(self, batch: Batch, key: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        """What makes the logits of batch['targets'] given batch['inputs']: (x_BLD, kernel_VD).

        Targets are padded on the right only, so that the causal mask alone hides the padding from
        every real position. Without a key, dropout is off.
        """
        inputs_BM, targets_BL = batch["inputs"], batch["targets"]
        encoder_key, decoder_key = (None, None) if key is None else jax.random.split(key)
        encoded_BMD = self.encode(inputs_BM, encoder_key)
        length = targets_BL.shape[1]
        x_BLD = self.embedding(shift_right(targets_BL), jnp.arange(length)[None])
        x_BLD = self.decoder(
            x_BLD,
            Mask(visible_LM=causal_LM(length)),
            memories=self.decoder.memories(encoded_BMD),
            memory_valid=inputs_BM != PAD_ID,
            key=decoder_key,
        )
        return x_BLD, self.embedding.table_VD[...]

    def start(self, inputs_BM: jax.Array, beam: int, length: int):
        """What decoding needs: (memory, cache) for `beam` hypotheses per input; see `Stack`."""
        memories = self.decoder.step_memories(self.encode(inputs_BM))
        cache = self.decoder.init_cache(inputs_BM.shape[0], beam, length)
        return {"memories": memories, "memory_valid": inputs_BM != PAD_ID}, cache


class DecoderOnly(Generator):
    """Language model: a causal stack. Args: as `make_model`."""

    def __init__(self, *, vocab_size: int, num_layers: int, rngs: nnx.Rngs, **block: Any):
        self.embedding = Embedding(
            vocab_size=vocab_size, model_dim=block["model_dim"], dtype=block["dtype"], rngs=rngs
        )
        self.decoder = Stack(num_layers, cross=False, rngs=rngs, **block)

    def last_layer(self, batch: Batch, key: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        """What makes the logits of batch['targets'], each given those before: (x_BLD, kernel_VD).

        Packed rows bring batch['segments'] (1, 2, ...; 0 is padding) and batch['positions'] (0, 1,
        ... within a segment): a token sees its own segment only, and R is read at its place there.
        """
        targets_BL = batch["targets"]
        length = targets_BL.shape[1]
        segments_BL, positions_BL = batch.get("segments"), batch.get("positions")
        tokens_BL = shift_right(targets_BL)
        places_BL = jnp.arange(length)[None]
        if positions_BL is not None:
            tokens_BL = jnp.where(positions_BL == 0, PAD_ID, tokens_BL)
            places_BL = positions_BL
        x_BLD = self.decoder(
            self.embedding(tokens_BL, places_BL),
            Mask(visible_LM=causal_LM(length), segments_BL=segments_BL),
            positions_BL=positions_BL,
            key=key,
        )
        return x_BLD, self.embedding.table_VD[...]

    def start(self, batch: int, beam: int, length: int):
        """(memory, cache) for decoding; a language model has no memory."""
        return {}, self.decoder.init_cache(batch, beam, length)


class Classifier(Model):
    """Encoder only: the mean of the encoded text, then one linear layer.

    Args: as `make_model`; the labels are numbered from 1, so that 0 is padding as everywhere.
    """

    def __init__(
        self, *, vocab_size: int, num_labels: int, num_layers: int, rngs: nnx.Rngs, **block: Any
    ):
        model_dim, self.dtype = block["model_dim"], block["dtype"]
        self.embedding = Embedding(
            vocab_size=vocab_size, model_dim=model_dim, dtype=self.dtype, rngs=rngs
        )
        self.encoder = Stack(num_layers, cross=False, rngs=rngs, **block)
        classes = num_labels + 1
        self.label_DC = nnx.Param(
            glorot()(rngs.params(), (model_dim, classes)), axes=("embed", None)
        )
        self.label_C = nnx.Param(jnp.zeros(classes), axes=(None,))

    def last_layer(self, batch: Batch, key: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        """What makes the logits of the label in batch['targets'] [B, 1]: (x_B1E, kernel_CE).

        E = D + 1: the bias is the weight of a last input that is always 1.
        """
        inputs_BM = batch["inputs"]
        valid_BM = inputs_BM != PAD_ID
        x_BMD = self.embedding(inputs_BM, jnp.arange(inputs_BM.shape[1])[None])
        x_BMD = self.encoder(x_BMD, Mask(valid_BM=valid_BM), key=key).astype(jnp.float32)
        total_BD = jnp.sum(jnp.where(valid_BM[..., None], x_BMD, 0.0), axis=1)
        length_B1 = jnp.sum(valid_BM, axis=1, keepdims=True)
        mean_BD = total_BD / jnp.maximum(length_B1, 1)
        x_B1E = jnp.pad(mean_BD, ((0, 0), (0, 1)), constant_values=1.0)[:, None]
        return x_B1E, jnp.concatenate([self.label_DC[...], self.label_C[...][None]]).T


MODELS: dict[str, Any] = {
    "seq2seq": EncoderDecoder,
    "span_corruption": EncoderDecoder,
    "language_model": DecoderOnly,
    "classification": Classifier,
}


def make_model(
    kind: str,
    *,
    vocab_size: int,
    num_labels: int = 0,
    num_layers: int,
    model_dim: int,
    num_heads: int,
    head_dim: int,
    ff_dim: int,
    max_length: int,
    attention: dict[str, Any],
    residual_dropout: float,
    attention_dropout: float,
    relu_dropout: float,
    dtype: str,
    remat: bool = False,
    rngs: nnx.Rngs,
) -> EncoderDecoder | DecoderOnly | Classifier:
    """The model of a task kind.

    Args:
      kind: 'seq2seq', 'span_corruption', 'language_model' or 'classification'.
      vocab_size: V, including padding of the vocabulary if any.
      num_labels: of a classification.
      num_layers: blocks per stack.
      model_dim, num_heads, head_dim, ff_dim, max_length: D, H, K, F, N.
      attention: variant, mix, rank, random_initializer, random_scale, fixed_random_scale
        (`SelfAttention`).
      residual_dropout, attention_dropout, relu_dropout: rates of T2T's three dropouts.
      dtype: 'float32' or 'bfloat16', of the activations; parameters are float32.
      remat: keep only the input of each block for the backward pass, which computes the block
        again: the same numbers. Off in runs from before there was the key.
      rngs: a stream `params`.

    Raises:
      ValueError: for a value that no model has.
    """
    if dtype not in ("float32", "bfloat16"):
        raise ValueError(f"unknown dtype {dtype!r}; known: float32, bfloat16")
    sizes = dict(
        vocab_size=vocab_size,
        num_layers=num_layers,
        model_dim=model_dim,
        num_heads=num_heads,
        head_dim=head_dim,
        ff_dim=ff_dim,
        max_length=max_length,
    )
    if kind == "classification":
        sizes["num_labels"] = num_labels
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    rates = dict(
        residual_dropout=residual_dropout,
        attention_dropout=attention_dropout,
        relu_dropout=relu_dropout,
    )
    for name, value in rates.items():
        if not 0.0 <= value < 1.0:
            raise ValueError(f"{name}={value} must be at least 0 and below 1")
    settings = dict(attention=attention, dtype=jnp.dtype(dtype), remat=remat, rngs=rngs)
    return MODELS[kind](**sizes, **rates, **settings)


def shift_right(targets_BL: jax.Array) -> jax.Array:
    """What the decoder reads: a start token (0), then all targets but the last."""
    return jnp.pad(targets_BL, ((0, 0), (1, 0)))[:, :-1]
