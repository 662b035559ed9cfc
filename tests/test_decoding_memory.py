"""A batch that is decoded fits into a device, and no run changes for it."""

import jax
import numpy as np
import pytest

from synth import decoding_memory
from synth.decoding import Sampling, Search, make_decoder, output_length
from synth.experiment import layout, make_textless_experiment

ROWS = 16


@pytest.mark.parametrize(
    ("row", "search"),
    [
        ("wmt_ende:vanilla", Search(beam=4, alpha=0.6, extra_length=8)),
        ("wmt_ende:random", Search(extra_length=8)),
        ("wmt_ende:dense+vanilla", Search(extra_length=8)),
        ("lm1b:random+vanilla", Search(beam=4)),
        ("lm1b:dense", Search(sampling=Sampling(top_p=0.9))),
    ],
)
def test_a_row_takes_no_more_than_is_thought(tiny, row, search):
    experiment = make_textless_experiment(tiny(row, {"sharding.mesh.data": 8}).config)
    bucket = layout(experiment.config, experiment.task).max_length
    state = experiment.abstract_state()
    if experiment.task.kind == "language_model":
        shape = (ROWS, output_length(experiment, search, bucket))
        batch = {"prompts": jax.ShapeDtypeStruct(shape, np.int32)}
    else:
        batch = {"inputs": jax.ShapeDtypeStruct((ROWS, bucket), np.int32)}
    if search.sampling:
        batch["draws"] = jax.ShapeDtypeStruct((ROWS, 3), np.uint32)
    program = make_decoder(experiment, search).lower(state.params, state.fixed, batch).compile()  # pyright: ignore[reportFunctionMemberAccess]
    taken = program.memory_analysis().temp_size_in_bytes
    thought = ROWS * decoding_memory.row_bytes(experiment, search, bucket)
    assert taken <= thought <= 6 * taken


def test_rows_follow_the_memory_of_a_device(tiny, monkeypatch, capsys):
    experiment = make_textless_experiment(tiny("wmt_ende:vanilla").config)
    search = Search(beam=4, alpha=0.6, extra_length=8)
    wanted = experiment.config.decode.batch_tokens
    assert decoding_memory.batch_tokens(experiment, search) == wanted
    assert capsys.readouterr().err == ""

    shapes = layout(experiment.config, experiment.task)
    a_row = decoding_memory.row_bytes(experiment, search, shapes.max_length)
    monkeypatch.setattr(decoding_memory, "device_bytes", lambda device: 2 * a_row / 0.6)
    tokens = decoding_memory.batch_tokens(experiment, search)
    rows = tokens // shapes.max_length  # two on each of the eight devices
    assert rows == 16
    told = f"decoding {tokens} tokens at once, not decode.batch_tokens={wanted}"
    assert told in capsys.readouterr().err

    # The smallest batch there is, if even that does not fit.
    monkeypatch.setattr(decoding_memory, "device_bytes", lambda device: 1)
    assert decoding_memory.batch_tokens(experiment, search) == shapes.max_length * 8
