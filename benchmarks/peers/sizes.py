"""Sizes of the models that are compared."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of an encoder-decoder; the names are those of `synth.transformer.make_model`."""

    vocab_size: int
    num_layers: int
    model_dim: int
    num_heads: int
    head_dim: int
    ff_dim: int
    max_length: int
