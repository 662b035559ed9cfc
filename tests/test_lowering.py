"""Training, scoring and decoding lower for GPUs and TPUs, which need not be there for it."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from conftest import ROOT

from synth import configuration
from synth.decoding import Search, make_decoder
from synth.experiment import make_textless_experiment
from synth.steps import make_nll_step, make_train_step

PLATFORMS = ["cuda", "tpu"]
ROWS = [
    ("wmt_ende", "random", "softmax"),
    ("wmt_ende", "random+factorized_dense", "sum"),
    ("wmt_ende", "random+dense+vanilla", "softmax"),
    ("lm1b", "random+vanilla", "softmax"),
    ("imdb", "factorized_random", "softmax"),
]


def tiny(task: str, variant: str, mix: str):
    """An experiment in bfloat16, without data: only shapes are looked at."""
    row = f"{ROOT}/configs/{task}.py:{variant},scale=tiny,mix={mix}"
    config = configuration.load(row)
    config.model.dtype = "bfloat16"
    config.data.vocab_size = 64
    return make_textless_experiment(config)


@pytest.mark.parametrize(("task", "variant", "mix"), ROWS)
def test_training_and_scoring_lower(task, variant, mix):
    experiment = tiny(task, variant, mix)
    state = experiment.abstract_state()
    shape = jax.ShapeDtypeStruct((8, 16), jnp.int32)
    one = jax.ShapeDtypeStruct((8, 1), jnp.int32)
    batch = {"inputs": shape, "targets": one if task == "imdb" else shape}
    if task == "lm1b":
        batch = {"targets": shape, "segments": shape, "positions": shape}
    train_step: Any = make_train_step(experiment)
    step = jax.export.export(train_step, platforms=PLATFORMS)(state, batch)
    assert step.platforms == tuple(PLATFORMS)
    nll_step: Any = make_nll_step(experiment)
    jax.export.export(nll_step, platforms=PLATFORMS)(state.params, state.fixed, batch)


@pytest.mark.parametrize(("beam", "variant"), [(1, "random+vanilla"), (4, "dense+vanilla")])
def test_decoding_lowers(beam, variant):
    experiment = tiny("wmt_ende", variant, "softmax")
    state = experiment.abstract_state()
    batch = {"inputs": jax.ShapeDtypeStruct((8, 16), jnp.int32)}
    decoder: Any = make_decoder(experiment, Search(beam=beam, alpha=0.6, extra_length=8))
    jax.export.export(decoder, platforms=PLATFORMS)(state.params, state.fixed, batch)
