"""Greedy translation in PyTorch with a cache: what an engineer would write by hand.

Keys and values of the encoder's output are made once, those of the outputs are kept in arrays of
full length of which a step reads the filled part; attention is PyTorch's own. Weights are random.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.peers.sizes import Sizes
from synth.decode import EOS_ID

torch: Any = importlib.import_module("torch")  # not in everyone's environment
F = torch.nn.functional


def _weights(*shape: int):
    return torch.randn(*shape) * shape[0] ** -0.5


class Layer:
    """Weights of a block; the attention's kernels are [D, H K], those of self-attention joined."""

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        dim, width = sizes.model_dim, sizes.num_heads * sizes.head_dim
        self.self_in, self.self_out = _weights(dim, 3 * width), _weights(width, dim)
        self.cross_q, self.cross_kv = _weights(dim, width), _weights(dim, 2 * width)
        self.cross_out = _weights(width, dim)
        self.ff_in, self.ff_out = _weights(dim, sizes.ff_dim), _weights(sizes.ff_dim, dim)

    def heads(self, x, parts: int) -> list[Any]:
        """`parts` tensors [B, H, L, K] of x [B, L, parts H K]."""
        shape = (*x.shape[:2], parts, self.sizes.num_heads, self.sizes.head_dim)
        return list(x.view(shape).permute(2, 0, 3, 1, 4))

    def attend(self, query, key, value, mask=None):
        """[B, L, H K]."""
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return y.transpose(1, 2).flatten(2)

    def feed_forward(self, x):
        """The block's last part, with its norm and residual."""
        return x + F.relu(self.norm(x) @ self.ff_in) @ self.ff_out

    def norm(self, x):
        """Layer normalisation."""
        return F.layer_norm(x, x.shape[-1:])


class Translator:
    """Encoder-decoder with one embedding for inputs, outputs and the softmax."""

    def __init__(self, sizes: Sizes):
        torch.manual_seed(0)
        self.sizes = sizes
        self.table = _weights(sizes.model_dim, sizes.vocab_size).T.contiguous()
        self.positions = torch.randn(sizes.max_length, sizes.model_dim)
        self.encoder = [Layer(sizes) for _ in range(sizes.num_layers)]
        self.decoder = [Layer(sizes) for _ in range(sizes.num_layers)]

    def __call__(self, inputs_BM: np.ndarray, ends_B: np.ndarray, length: int) -> np.ndarray:
        """tokens_BT; output b ends after ends_B[b] tokens, all are done after `length`."""
        with torch.inference_mode():
            return self._decode(torch.from_numpy(inputs_BM), torch.from_numpy(ends_B), length)

    def _decode(self, inputs, ends, length: int) -> np.ndarray:
        mask = (inputs > 0)[:, None, None]
        x = self.table[inputs] + self.positions[: inputs.shape[1]]
        for layer in self.encoder:
            query, key, value = layer.heads(layer.norm(x) @ layer.self_in, 3)
            x = layer.feed_forward(x + layer.attend(query, key, value, mask) @ layer.self_out)
        x = F.layer_norm(x, x.shape[-1:])
        memories = [
            [part.contiguous() for part in layer.heads(x @ layer.cross_kv, 2)]
            for layer in self.decoder
        ]
        shape = (len(inputs), self.sizes.num_heads, length, self.sizes.head_dim)
        caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in self.decoder]
        tokens = torch.zeros(len(inputs), length, dtype=torch.long)
        last, done = torch.zeros(len(inputs), dtype=torch.long), torch.zeros(len(inputs)) > 0
        for index in range(length):
            logits = self._step(last, index, caches, memories, mask)
            logits[:, EOS_ID] = torch.where(index + 1 >= ends, torch.inf, -torch.inf)
            last = logits.argmax(-1).masked_fill(done, 0)
            tokens[:, index] = last
            done |= last == EOS_ID
            if done.all():
                break
        return tokens.numpy()

    def _step(self, last, index: int, caches, memories, mask):
        x = self.table[last][:, None] + self.positions[index]
        for layer, (keys, values), memory in zip(self.decoder, caches, memories, strict=True):
            query, key, value = layer.heads(layer.norm(x) @ layer.self_in, 3)
            keys[:, :, index : index + 1], values[:, :, index : index + 1] = key, value
            key, value = keys[:, :, : index + 1], values[:, :, : index + 1]
            x = x + layer.attend(query, key, value) @ layer.self_out
            (query,), (key, value) = layer.heads(layer.norm(x) @ layer.cross_q, 1), memory
            x = x + layer.attend(query, key, value, mask) @ layer.cross_out
            x = layer.feed_forward(x)
        return F.layer_norm(x, x.shape[-1:])[:, 0] @ self.table.T
