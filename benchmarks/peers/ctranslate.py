"""CTranslate2 with random weights: a C++ engine made for translating on CPUs.

Its outputs cannot be ended one by one, so every row of a batch is decoded to the batch's longest;
ours compute as many steps, and stop counting rows that have ended.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from typing import Any

import numpy as np

from benchmarks.peers.sizes import Sizes

ctranslate2: Any = importlib.import_module("ctranslate2")  # not in everyone's environment
SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]


class Translator:
    """An encoder-decoder in float32."""

    def __init__(self, sizes: Sizes, threads: int):
        spec = ctranslate2.specs.TransformerSpec.from_config(
            (sizes.num_layers, sizes.num_layers), sizes.num_heads, pre_norm=True
        )
        rng = np.random.default_rng(0)

        def fill(owner, path: str, value):
            if value is None:
                shape = _shape(path, sizes)
                values = rng.standard_normal(shape) * shape[-1] ** -0.5
                setattr(owner, path.rpartition("/")[2], values.astype(np.float32))

        ctranslate2.specs.model_spec.visit_spec(spec, fill)
        words = [*SPECIAL, *(_word(n) for n in range(len(SPECIAL), sizes.vocab_size))]
        spec.register_source_vocabulary(words)
        spec.register_target_vocabulary(words)
        spec.validate()
        with tempfile.TemporaryDirectory() as folder:
            spec.save(folder)
            self._translator = ctranslate2.Translator(
                folder, compute_type="float32", intra_threads=threads
            )

    def __call__(self, inputs_BM: np.ndarray, ends_B: np.ndarray, beam: int, alpha: float) -> Any:
        """The outputs of a batch, as words."""
        longest = int(ends_B.max())
        source = [[_word(int(n)) for n in row[row > 0]] for row in inputs_BM]
        return self._translator.translate_batch(
            [row for row in source if row],
            beam_size=beam,
            length_penalty=alpha if beam > 1 else 1.0,
            min_decoding_length=longest - 1,  # EOS is not counted
            max_decoding_length=longest - 1,
        )


def _word(number: int) -> str:
    return f"w{number}"


def _shape(path: str, sizes: Sizes) -> tuple[int, ...]:
    """Of the variable with a path such as decoder/layer_0/attention/linear_1/weight."""
    width, dim, ff_dim = sizes.num_heads * sizes.head_dim, sizes.model_dim, sizes.ff_dim
    weights = {
        r"embeddings(_0)?/weight": (sizes.vocab_size, dim),
        r"projection/weight": (sizes.vocab_size, dim),
        r"self_attention/linear_0/weight": (3 * width, dim),
        r"self_attention/linear_1/weight": (dim, width),
        r"attention/linear_0/weight": (width, dim),
        r"attention/linear_1/weight": (2 * width, dim),
        r"attention/linear_2/weight": (dim, width),
        r"ffn/linear_0/weight": (ff_dim, dim),
        r"ffn/linear_1/weight": (dim, ff_dim),
        r"layer_norm/(gamma|beta)": (dim,),
    }
    for pattern, shape in weights.items():
        if re.search(f"/{pattern}$", path):
            return shape
    raise KeyError(path)
