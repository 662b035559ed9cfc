"""How many rows are decoded at once: as many as the config says and a device has memory for."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from synth import sharding
from synth.decoding import Search, output_length
from synth.experiment import Experiment, as_dicts, layout
from synth.progress import say

# What is left to the parameters, to the program's code, and to the estimate's errors.
_SHARE = 0.6


def batch_tokens(experiment: Experiment, search: Search) -> int:
    """`decode.batch_tokens`, or fewer where a device's memory holds fewer; the same in all
    processes.

    Args:
      experiment: the model; labels take no search, and as many rows as the config says.
      search: how outputs are found.
    """
    wanted = experiment.config.decode.batch_tokens
    if experiment.task.kind == "classification":
        return wanted
    has = device_bytes(jax.local_devices()[0])
    if has is None:
        return wanted
    shards = sharding.batch_shards(experiment.mesh)
    shapes = layout(experiment.config, experiment.task)
    # Short rows are many: their logits may take more than the caches of long ones.
    fitting = min(
        int(_SHARE * has * shards) // row_bytes(experiment, search, bucket) * bucket
        for bucket in shapes.bucket_lengths
    )
    least = shapes.max_length * shapes.batch_multiple
    chosen = max(min(wanted, fitting), least)
    if jax.process_count() > 1:  # whose memories may differ
        chosen = int(np.min(multihost_utils.process_allgather(np.int32(chosen))))
    if chosen < wanted:
        say(
            f"decoding {chosen} tokens at once, not decode.batch_tokens={wanted}: a device has "
            f"{has / 2**30:.1f} GiB"
        )
    return chosen


def device_bytes(device: Any) -> int | None:
    """Memory of a device of this process; None where it is not known.

    Of a CPU its share of the machine's, as if all processes ran there.
    """
    if device.platform == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // jax.device_count()
    return (device.memory_stats() or {}).get("bytes_limit")


def row_bytes(experiment: Experiment, search: Search, bucket: int) -> int:
    """An upper estimate of what a row of that bucket length takes while it is decoded.

    Caches and the encoder's keys and values by their shapes; of logits, scores and activations as
    many copies as the compiled programs were seen to hold at a time.
    """
    config = experiment.config.model
    beam = 1 if search.sampling else search.beam
    length = output_length(experiment, search, bucket)
    of_language = experiment.task.kind == "language_model"

    def start(params, fixed, inputs_BM):
        model: Any = experiment.model(params, fixed)
        return model.start(inputs_BM.shape[0] if of_language else inputs_BM, beam, length)

    rows = 8
    inputs = jax.ShapeDtypeStruct((rows, bucket), np.int32)
    memory, cache = jax.eval_shape(start, *as_dicts(experiment.variables), inputs)
    logits = 4 * beam * experiment.vocab_size * 4
    scores = 2 * beam * config.num_heads * (length + bucket) * 4
    tokens = 8 * beam * length * 4
    encoder = 0
    if not of_language:
        encoder = bucket * (2 * config.ff_dim + 8 * config.model_dim) * 4
        encoder += 2 * config.num_heads * bucket * bucket * 4
    return (2 * _bytes(cache) + _bytes(memory)) // rows + logits + scores + tokens + encoder


def _bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
