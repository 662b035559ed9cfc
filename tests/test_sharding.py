"""The mesh changes where numbers live, not what they are."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from conftest import ROOT
from jax.sharding import PartitionSpec
from test_training import NO_DROPOUT, SMOOTH_ADAM, assert_close, some_batches

from data.sources import read_all
from synth import evaluation, sharding, training
from synth.decoding import Search, make_decoder
from synth.errors import UserError
from synth.experiment import Experiment, TrainState, make_experiment
from synth.likelihood import line_likelihoods
from synth.rundir import RunDir
from synth.sharding import make_mesh, row_block, to_devices
from synth.steps import make_nll_step, make_train_step
from synth.trained import load_trained
from synth.variants import VARIANTS

# vanilla has projections over heads, random and factorized random have no "embed" axis at all.
ROW = "lm1b:random+dense"


def mesh_of(data: int, fsdp: int, tensor: int) -> dict[str, int]:
    mesh = {"data": data, "fsdp": fsdp, "tensor": tensor}
    return {f"sharding.mesh.{axis}": size for axis, size in mesh.items()}


def run_steps(experiment: Experiment) -> tuple[Any, Any, list[float]]:
    """(initial parameters, parameters after 3 steps, loss of each step)."""
    step, state = make_train_step(experiment), experiment.init_state()
    first, losses = jax.device_get((state.params, state.fixed)), []
    for batch in some_batches(3, 8, "language_model"):
        state = step(state, to_devices(batch, experiment.mesh))
        losses.append(float(state.sums["loss"]) / float(state.sums["tokens"]))
    return first, jax.device_get(state.params), losses


@pytest.fixture(scope="module")
def plain(tiny):
    """The steps on a mesh that splits the batch only."""
    info = tiny(ROW, NO_DROPOUT | SMOOTH_ADAM | mesh_of(8, 1, 1) | {"train.log_every": 1})
    return run_steps(make_experiment(info.config))


@pytest.mark.parametrize("mesh", [(1, 8, 1), (2, 2, 2), (4, 1, 2)])
def test_every_mesh_takes_the_same_steps(tiny, plain, mesh):
    changes = NO_DROPOUT | SMOOTH_ADAM | mesh_of(*mesh) | {"train.log_every": 1}
    first, last, losses = run_steps(make_experiment(tiny(ROW, changes).config))
    jax.tree.map(np.testing.assert_array_equal, first, plain[0])
    np.testing.assert_allclose(losses, plain[2], rtol=1e-5)
    assert_close(last, plain[1], 2e-5)
    assert max(float(np.abs(a - b).max()) for a, b in _pairs(first[0], last)) > 1e-3


# With the row above, every variant.
OTHERS = "vanilla+fixed_random+factorized_random+factorized_dense"


def test_every_variant_takes_the_same_steps_on_every_mesh(tiny):
    found = {}
    for mesh in ((8, 1, 1), (2, 2, 2)):
        changes = NO_DROPOUT | SMOOTH_ADAM | mesh_of(*mesh) | {"train.log_every": 1}
        found[mesh] = run_steps(make_experiment(tiny(f"lm1b:{OTHERS}", changes).config))
    (first, last, losses), (first_8, last_8, losses_8) = found[2, 2, 2], found[8, 1, 1]
    jax.tree.map(np.testing.assert_array_equal, first, first_8)
    np.testing.assert_allclose(losses, losses_8, rtol=1e-5)
    assert_close(last, last_8, 2e-5)


@pytest.mark.slow
def test_outputs_and_likelihoods_do_not_depend_on_the_mesh(tiny):
    found = []
    (batch,) = some_batches(1, 8, "seq2seq")
    for mesh in ((8, 1, 1), (2, 2, 2)):
        changes = mesh_of(*mesh)
        experiment = make_experiment(tiny(f"wmt_ende:random+dense+{OTHERS}", changes).config)
        state, arrays = experiment.init_state(), to_devices(batch, experiment.mesh)
        nll_B = make_nll_step(experiment)(state.params, state.fixed, arrays)
        decode_batch = make_decoder(experiment, Search(beam=2, alpha=0.6, extra_length=4))
        outputs_BT = decode_batch(state.params, state.fixed, {"inputs": arrays["inputs"]})
        found.append((np.asarray(nll_B), np.asarray(outputs_BT)))
    (nll_B, outputs_BT), (expected_B, expected_BT) = found
    np.testing.assert_allclose(nll_B, expected_B, rtol=1e-5)
    np.testing.assert_array_equal(outputs_BT, expected_BT)
    assert len(np.unique(outputs_BT)) > 1


def _pairs(one, other):
    return zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)


ONE_DEVICE = """
import json, sys
from synth import configuration
from synth.experiment import make_experiment
from test_sharding import run_steps
import jax, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[3])
assert jax.device_count() == 1
config = configuration.from_dict(json.load(open(sys.argv[1])))
first, last, losses = run_steps(make_experiment(config))
np.savez(sys.argv[2], *jax.tree.leaves((first, last)), losses=np.array(losses))
"""


def test_one_device_takes_the_same_steps(tiny, plain, tmp_path):
    changes = NO_DROPOUT | SMOOTH_ADAM | mesh_of(-1, 1, 1) | {"train.log_every": 1}
    (tmp_path / "config.json").write_text(json.dumps(tiny(ROW, changes).config.to_dict()))
    # conftest asks for eight devices; a later flag wins.
    code = "import conftest, os; os.environ['XLA_FLAGS'] += ' --xla_force_host_platform_"
    code += "device_count=1'" + ONE_DEVICE
    cache = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "config.json", tmp_path / "out.npz", cache],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        check=True,
        timeout=120,
    )
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["losses"], plain[2], rtol=1e-5)
        leaves = [found[name] for name in found.files if name != "losses"]
    first = jax.tree.leaves(plain[0])
    for a, b in zip(leaves[: len(first)], first, strict=True):
        np.testing.assert_array_equal(a, b)
    assert_close(leaves[len(first) :], jax.tree.leaves(plain[1]), 2e-5)


# --- Placement ------------------------------------------------------------------------------------


def specs(tree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf.spec for path, leaf in leaves}


@pytest.mark.parametrize("variant", [*VARIANTS, "random+vanilla", "dense+vanilla"])
@pytest.mark.parametrize("file", ["lm1b", "wmt_ende"])
def test_moments_lie_beside_their_parameters(tiny, file, variant):
    experiment = make_experiment(tiny(f"{file}:{variant}", mesh_of(2, 2, 2)).config)
    shardings = experiment.shardings()
    params = specs(shardings.params)
    moments = shardings.opt_state[0]
    assert specs(moments.mu) == specs(moments.nu) == params
    used = {axis for spec in params.values() for axis in spec if axis}
    assert used == {"fsdp", "tensor"}
    abstract = experiment.abstract_state()
    assert isinstance(abstract, TrainState)
    for leaf, sharding_of in zip(
        jax.tree.leaves(abstract), jax.tree.leaves(shardings), strict=True
    ):
        assert leaf.sharding == sharding_of


def test_a_step_leaves_everything_where_it_was(tiny):
    changes = NO_DROPOUT | SMOOTH_ADAM | mesh_of(2, 2, 2) | {"train.log_every": 1}
    experiment = make_experiment(tiny(ROW, changes).config)
    step, state = make_train_step(experiment), experiment.init_state()
    expected = jax.tree.leaves(experiment.shardings())
    for batch in some_batches(2, 8, "language_model"):
        found = [leaf.sharding for leaf in jax.tree.leaves(state)]
        assert found == expected
        state = step(state, to_devices(batch, experiment.mesh))
    table = state.params["embedding"]["table_VD"]
    assert table.addressable_shards[0].data.shape == (300, 8)


def test_one_process_feeds_all_rows():
    assert row_block(make_mesh(data=2, fsdp=2, tensor=2)) == (0, 1)


class _Device(NamedTuple):
    id: int
    process_index: int


@pytest.mark.parametrize(
    ("processes", "shape", "blocks"),
    [
        # The devices of a process are neighbours in the mesh: of 8, 2 or 4 a process.
        (4, (8, 1, 1), 4),
        (4, (2, 2, 2), 4),
        (4, (2, 1, 4), 2),  # a row block reaches over two processes
        (2, (1, 1, 8), 1),  # both read every row
        (2, (1, 4, 2), 2),
    ],
)
def test_each_process_feeds_the_rows_of_its_devices(monkeypatch, processes, shape, blocks):
    devices = [_Device(n, n * processes // 8) for n in range(8)]
    found = [_row_block(monkeypatch, devices, shape, index) for index in range(processes)]
    assert {count for _, count in found} == {blocks}
    assert [index for index, _ in found] == [n * blocks // processes for n in range(processes)]


def test_unequal_parts_of_a_batch_are_refused(monkeypatch):
    devices = [_Device(n, int(n > 2)) for n in range(8)]
    with pytest.raises(UserError, match="2 processes unequal parts"):
        _row_block(monkeypatch, devices, (4, 1, 2), 0)


def _row_block(monkeypatch, devices, shape, process: int) -> tuple[int, int]:
    """Of a mesh whose devices belong to several processes."""

    def indices(shards):
        batch = np.array(devices, dtype=object)[:, 0].astype(int).reshape(-1, shape[2])
        size = shards[0] // len(batch)
        return {
            devices[number]: (slice(place * size, (place + 1) * size),)
            for place, row in enumerate(batch)
            for number in row
        }

    placed = SimpleNamespace(devices_indices_map=indices)
    mesh: Any = SimpleNamespace(shape=dict(zip(("data", "fsdp", "tensor"), shape, strict=True)))
    monkeypatch.setattr(sharding, "batch_sharding", lambda _: placed)
    monkeypatch.setattr(jax, "process_index", lambda: process)
    return sharding.row_block.__wrapped__(mesh)


def test_rows_of_a_batch_are_split_over_data_and_fsdp():
    mesh = make_mesh(data=2, fsdp=2, tensor=2)
    rows = np.arange(16, dtype=np.int32).reshape(8, 2)
    placed = to_devices({"targets": rows}, mesh)["targets"]
    np.testing.assert_array_equal(placed, rows)
    assert {shard.data.shape for shard in placed.addressable_shards} == {(2, 2)}


# --- Mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((3, 1, 1), ["data=3", "3 devices", "are 8"]),
        ((8, 2, 1), ["fsdp=2", "16 devices", "are 8", "mesh.data=-1", "mesh.fsdp=2"]),
        ((-1, 16, 1), ["fsdp=16", "16 devices", "are 8", "mesh.fsdp=8"]),
        ((-1, 3, 1), ["fsdp=3", "multiple of 3 devices", "are 8", "mesh.fsdp=1"]),
        ((-1, 4, 4), ["fsdp=4", "16 devices", "are 8", "mesh.tensor=4", "mesh.fsdp=2"]),
        ((-1, 1, 0), ["tensor=0", "at least 1"]),
        ((0, 1, 1), ["data=0", "at least 1"]),
        ((-2, 1, 1), ["data=-2", "at least 1"]),
    ],
)
def test_a_mesh_that_does_not_fit_names_the_numbers(sizes, words):
    with pytest.raises(UserError) as caught:
        make_mesh(**dict(zip(("data", "fsdp", "tensor"), sizes, strict=True)))
    assert all(word in str(caught.value) for word in words), caught.value


def test_all_devices_are_taken_when_asked():
    assert dict(make_mesh(data=-1, fsdp=2, tensor=2).shape) == {"data": 2, "fsdp": 2, "tensor": 2}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            mesh_of(2, 1, 4),
            ["'heads'", "size 2", "4", "mesh.tensor=2", "sharding.rules.heads=''"],
        ),
        (
            mesh_of(1, 8, 1) | {"model.model_dim": 20},
            ["'embed'", "size 20", "8", "sharding.mesh.fsdp=4"],
        ),
        ({"sharding.rules.mlp": "tensr"}, ["sharding.rules.mlp='tensr'", "data, fsdp, tensor"]),
        (
            {"data.batch_multiple": 12},
            ["data.batch_multiple=12", "(8)", "(1)", "batch_multiple=8"],
        ),
        (
            {"train.accumulate_steps": 4},
            ["data.batch_multiple=8", "(8)", "(4)", "batch_multiple=32"],
        ),
    ],
)
def test_what_cannot_be_split_names_the_numbers(tiny, tmp_path, changes, words):
    run = RunDir(tmp_path / "run")
    with pytest.raises(UserError) as caught:
        training.train(tiny("lm1b:vanilla", changes), run)
    assert all(word in str(caught.value) for word in words), caught.value
    assert not run.path.exists()


def test_an_axis_can_be_left_whole(tiny):
    changes = mesh_of(2, 1, 4) | {"sharding.rules.heads": ""}
    shardings = make_experiment(tiny("lm1b:vanilla", changes).config).shardings()
    by_name = {name.rpartition("'")[0]: spec for name, spec in specs(shardings.params).items()}
    (value,) = [spec for name, spec in by_name.items() if name.endswith("value_DHK")]
    (hidden,) = [spec for name, spec in by_name.items() if name.endswith("in_DF")]
    assert value == PartitionSpec("fsdp", None, None)
    assert hidden == PartitionSpec("fsdp", "tensor")


# --- Checkpoints ----------------------------------------------------------------------------------


def test_a_run_goes_on_and_is_scored_on_another_mesh(tiny, tmp_path, short_text):
    """Saved on 2 x 2 x 2, restored bit for bit on 8 x 1 x 1, trained on there."""
    steps = {"train.num_steps": 2, "train.eval_every": 2, "train.checkpoint_every": 2}
    changes = NO_DROPOUT | SMOOTH_ADAM | steps
    run = RunDir(tmp_path / "run")
    info = tiny(ROW, changes | mesh_of(2, 2, 2) | {"train.log_every": 1})
    training.train(info, run)
    experiment, step, params, fixed = load_trained(run, "last")
    assert (step, dict(experiment.mesh.shape)) == (2, {"data": 2, "fsdp": 2, "tensor": 2})

    other = make_experiment(info.config)
    assert dict(other.mesh.shape) == {"data": 2, "fsdp": 2, "tensor": 2}
    _, loss = _validation(run)
    text = evaluation.open_split(experiment, "validation")
    nll_N, tokens_N, _ = line_likelihoods(experiment, params, fixed, list(read_all(text)))
    assert np.isclose(nll_N.sum() / tokens_N.sum(), loss, rtol=1e-5)

    more = tiny(ROW, changes | mesh_of(8, 1, 1) | {"train.num_steps": 4, "train.log_every": 1})
    assert training.train(more, run) == training.Outcome(4, None)
    straight = RunDir(tmp_path / "straight")
    training.train(more, straight)
    found, expected = (load_trained(r, "last")[2] for r in (run, straight))
    assert_close(jax.device_get(found), jax.device_get(expected), 2e-5)


def _validation(run: RunDir) -> tuple[int, float]:
    record = [r for r in run.read_metrics() if "validation/loss" in r][-1]
    return record["step"], record["validation/loss"]
