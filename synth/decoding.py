"""Decoding with a model: which search, how long outputs may be, and the jitted program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from synth import decode
from synth.compilation import jit
from synth.experiment import Experiment, layout


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How tokens are drawn: see `decode.sample`."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """How outputs are found.

    Attributes:
      beam: width of the beam search; 1 is greedy.
      alpha: exponent of its length penalty.
      extra_length: tokens that an output may have beyond its input's bucket.
      max_tokens: the most tokens of an output, EOS included; None leaves the model's limits.
      sampling: draw the tokens instead of searching.
    """

    beam: int = 1
    alpha: float = 0.0
    extra_length: int = 0
    max_tokens: int | None = None
    sampling: Sampling | None = None


def output_length(experiment: Experiment, search: Search, bucket: int) -> int:
    """T, the number of decoding steps for inputs of that bucket length.

    Of a language model T counts the prompt, too.
    """
    shapes = layout(experiment.config, experiment.task)
    longest = shapes.longest("targets")
    most = longest if search.max_tokens is None else search.max_tokens
    if experiment.task.kind == "language_model":
        return min(bucket + most, longest)
    return min(bucket + search.extra_length, longest, most)


def make_decoder(
    experiment: Experiment, search: Search
) -> Callable[[Any, Any, Mapping[str, jax.Array]], jax.Array]:
    """The jitted (params, fixed, batch) -> tokens_BT; one program per shape of the batch.

    The batch holds `inputs` [B, M], or for a language model `prompts` [B, T] without EOS, which
    the output repeats. Sampling needs `draws` [B, 3], uint32, too: the seed, the number of the
    line, and that of the line's sample, from which all that is random in a row comes.
    """

    def decode_batch(params, fixed, batch):
        model: Any = experiment.model(params, fixed)
        if "prompts" in batch:
            length = batch["prompts"].shape[1]
        else:
            length = output_length(experiment, search, batch["inputs"].shape[1])
        return find_outputs(model, search, batch, length)

    return jit(decode_batch)


def find_outputs(
    model: Any, search: Search, batch: Mapping[str, jax.Array], length: int
) -> jax.Array:
    """tokens_BT of a batch as of `make_decoder`, in T = `length` steps at most.

    The model has `start` and `step` as `transformer.EncoderDecoder` or, with prompts, as
    `transformer.DecoderOnly`.
    """
    beam = 1 if search.sampling else search.beam
    if "prompts" in batch:
        rows = batch["prompts"].shape[0]
        memory, cache = model.start(rows, beam, length)
    else:
        rows = batch["inputs"].shape[0]
        memory, cache = model.start(batch["inputs"], beam, length)

    def model_step(tokens_R, index, cache):
        return model.step(tokens_R, index, memory, cache)

    step: decode.Step = model_step
    if "prompts" in batch:
        step = decode.after_prompt(model_step, jnp.repeat(batch["prompts"], beam, axis=0))
    if search.sampling:
        keys_B = jax.vmap(_key)(batch["draws"])
        return decode.sample(step, cache, keys_B, length, **dataclasses.asdict(search.sampling))
    if beam == 1:
        return decode.greedy(step, cache, rows, length)
    tokens_BT, _ = decode.beam_search(
        step, cache, rows, beam=beam, alpha=search.alpha, max_length=length
    )
    return tokens_BT


def _key(draw_3: jax.Array) -> jax.Array:
    seed, line, sample = draw_3
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), line), sample)
