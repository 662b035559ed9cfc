"""What a compiled training step takes: on simulated devices, and for TPUs that are not there."""

import json
import math
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from conftest import ROOT
from jax.sharding import NamedSharding, PartitionSpec

from synth import compile_for, configuration, fit_report, hlo, topologies
from synth.compilation import compiling_for, devices, platform
from synth.errors import UserError
from synth.experiment import make_textless_experiment
from synth.sharding import make_mesh

P = PartitionSpec
FSDP = {"sharding.mesh.fsdp": 4}


def config_of(row: str, changes: dict[str, Any] | None = None):
    file, _, variant = row.partition(":")
    config = configuration.canonical(configuration.load(f"{ROOT}/configs/{file}.py:{variant}"))
    config.update_from_flattened_dict(changes or {})
    return config


def tiny_report(row: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """For the eight simulated devices, as if they were the cores of a v3-8."""
    config = config_of(f"{row},scale=tiny", changes)
    return compile_for.report(config, topologies.parse("v3-8"), jax.devices())


@pytest.fixture(scope="module")
def report():
    return tiny_report("wmt_ende:random+vanilla", FSDP | {"data.batch_tokens": 4096})


# --- The report -----------------------------------------------------------------------------------


def test_the_report_is_of_the_true_step(report):
    assert (report["topology"], report["devices"], report["chips"]) == ("v3:2x2", 8, 4)
    assert report["mesh"] == {"data": 2, "fsdp": 4, "tensor": 1}
    assert report["lengths"] == [64]
    (program,) = report["programs"]
    assert program["arrays"] == {"inputs": [64, 64], "targets": [64, 64]}
    assert program["rows_per_device"] == 8
    assert report["fits"] and program["fits"] and report["advice"] == []


def test_memory_is_that_of_a_device(report):
    """The state is an argument, gives its memory to the new one, and is counted once."""
    memory = report["programs"][0]["memory"]
    batch = 2 * 8 * 64 * 4
    assert 0 <= memory["arguments"] - report["state"] - batch < 2048  # what aligns them
    assert report["state"] * 0.9 < memory["aliased"] <= memory["outputs"]
    parts = ("arguments", "outputs", "temporaries", "code")
    assert memory["total"] == sum(memory[part] for part in parts) - memory["aliased"]
    assert memory["limit"] == topologies.parse("v3-8").memory


def test_the_largest_parameters_are_named(report):
    largest = report["largest_in_state"][0]
    assert largest["shape"] == largest["on_a_device"] == [2, 64, 64]  # R, which fsdp leaves whole
    assert largest["bytes"] == 2 * 64 * 64 * 4
    assert largest["name"].endswith("self_attention.scores.0.logits_HNN")


def test_fsdp_gathers_parameters(report):
    collectives = report["programs"][0]["collectives"]
    assert {"all-gather", "all-reduce"} <= collectives.keys()
    assert all(traffic["count"] > 0 for traffic in collectives.values())
    # And next to nothing else: not the activations, of which a layer's are 4 x 64 x 64 x 16 bytes.
    assert "all-to-all" not in collectives
    parameters = 600 * 16 + 12 * 256 + 2 * 8192 + 4 * 512
    assert sum(traffic["bytes"] for traffic in collectives.values()) < 3 * 4 * parameters
    (whole,) = tiny_report("wmt_ende:random+vanilla")["programs"]
    assert "all-gather" not in whole["collectives"]
    # Every gradient is summed; the embedding's where it is read (twice) and as the last layer.
    shapes = [[600, 16]] * 3 + [[16, 2, 8]] * 12 + [[2, 64, 64]] * 2 + [[16, 32]] * 4
    moved = sum(traffic["bytes"] for traffic in whole["collectives"].values())
    assert moved == pytest.approx(4 * sum(map(math.prod, shapes)), rel=0.02)


def test_text_and_json_say_the_same(report):
    assert json.loads(fit_report.to_json(report)) == report
    text = fit_report.to_text(report)
    total = compile_for.gib(report["programs"][0]["memory"]["total"])
    for word in ("v3:2x2", "4 chips, 8 devices", "data 2 x fsdp 4", "all-gather", f"fits: {total}"):
        assert word in text
    assert "Not checked: speed" in text
    assert "not compiled" not in text.lower()


@pytest.fixture
def refuse(monkeypatch):
    """Nothing is compiled: the compiler refuses every program with these words."""

    def refuse(told: str) -> None:
        class Step:
            def lower(self, *_):
                return self

            def compile(self, options):
                raise jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: {told}")

        monkeypatch.setattr(compile_for, "make_train_step", lambda experiment: Step())

    return refuse


def test_both_ends_are_compiled_where_targets_have_one_length(refuse):
    refuse("")
    changes = {
        "model.max_length": 32,
        "data.bucket_lengths": (8, 16, 32),
        "data.target_length": 8,
    }
    found = tiny_report("cnn_dailymail:random", changes)
    assert [program["length"] for program in found["programs"]] == [8, 32]
    assert found["programs"][0]["arrays"] == {"inputs": [64, 8], "targets": [64, 8]}
    assert "Not compiled, for they need less: lengths 16" in fit_report.to_text(found)
    changes = {"model.max_length": 16, "data.bucket_lengths": (8, 16)}
    found = tiny_report("wmt_ende:random", changes)
    assert [program["length"] for program in found["programs"]] == [16]


@pytest.mark.parametrize("row", ["lm1b:dense", "c4:random", "imdb:factorized_random"])
def test_every_kind_of_task_needs_no_text(row, refuse):
    refuse("")
    found = tiny_report(row)
    kind = {"lm1b": 3, "c4": 2, "imdb": 2}[row.partition(":")[0]]
    assert all(len(program["arrays"]) == kind for program in found["programs"])


@pytest.mark.parametrize(
    "told",
    [
        "Ran out of memory in memory space hbm. Used 48.50G of 15.48G hbm. Exceeded by 33.02G",
        "Ran out of memory on HBM, the total memory required for HLO temporaries (48.50G) exceeds "
        "available HBM (15.48G).",
    ],
)
def test_a_step_that_is_too_large_comes_with_advice(refuse, told):
    """As the TPU compiler refuses it, in either form."""

    refuse(told)
    found = tiny_report("wmt_ende:random")
    (program,) = found["programs"]
    assert 48.5 <= program["memory"]["total"] / topologies.GIB < 48.501
    assert not program["fits"] and not found["fits"]
    text = fit_report.to_text(found)
    assert "does not fit: 48.50 GiB of 15.48 GiB" in text
    for word in ("accumulate_steps=4", "batch_multiple=32", "model.remat=True", "mesh.fsdp=4"):
        assert word in text
    assert json.loads(fit_report.to_json(found)) == found


def test_a_mesh_that_does_not_divide_is_refused():
    with pytest.raises(UserError, match=r"batch_multiple=12.*batch_multiple=8"):
        tiny_report("wmt_ende:random", {"data.batch_multiple": 12})


# --- For which platform ---------------------------------------------------------------------------


def test_what_is_compiled_for_decides_the_platform():
    target: Any = [SimpleNamespace(platform="tpu")]
    assert platform() == "cpu" and list(devices()) == jax.devices()
    with compiling_for(target):
        assert platform() == "tpu" and devices() is target
    assert platform() == "cpu"


def test_only_one_place_asks_for_the_platform():
    """Elsewhere it would be that of the machine that compiles."""
    asking = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "synth").rglob("*.py"))
        if "default_backend" in path.read_text(encoding="utf-8")
    ]
    assert asking == []


def test_a_mesh_is_of_the_devices_that_are_compiled_for():
    with compiling_for(jax.devices()[:2]):
        assert make_mesh(data=-1, fsdp=1, tensor=1).devices.size == 2


# --- The text of a program ------------------------------------------------------------------------


def compiled_text(function, *specs: PartitionSpec, shape=(16, 8)) -> hlo.Program:
    """The program of a function of float32 arrays that are split over four devices."""
    mesh = make_mesh(data=2, fsdp=4, tensor=1)
    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
        for spec in specs
    ]
    whole = NamedSharding(mesh, P())
    compiled = jax.jit(function, out_shardings=whole).lower(*arguments).compile()
    return hlo.Program(compiled.as_text() or "")


def test_gathering_moves_the_whole_array():
    found = compiled_text(lambda x: x + 1, P("fsdp")).collectives()
    assert found == {"all-gather": hlo.Traffic(1, 0, 512, 512)}


def test_reducing_moves_the_sum():
    found = compiled_text(lambda x: jnp.sum(x, axis=0), P("fsdp")).collectives()
    assert found == {"all-reduce": hlo.Traffic(1, 0, 32, 32)}


def test_in_a_loop_it_counts_as_often_as_the_loop_turns():
    def sums(x):
        def turn(total, row):
            return total + jnp.sum(jnp.outer(row, row), axis=0), None

        return jax.lax.scan(turn, jnp.zeros(8), x)[0]

    found = compiled_text(sums, P(None, "fsdp")).collectives().values()
    inside = [traffic for traffic in found if traffic.in_loops]
    assert inside
    for traffic in inside:
        assert traffic.count == traffic.in_loops and not traffic.unknown_loops
        assert traffic.bytes >= 16 * 8 and traffic.bytes % 16 == 0


TEXT = """HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(f32[] %a, f32[] %b)
}

%async_computation (p: bf16[64]) -> bf16[16] {
  %p = bf16[64]{0:T(128)(2,1)} parameter(0)
  ROOT %scattered = bf16[16]{0} reduce-scatter(%p), dimensions={0}, to_apply=%add
}

%fused_computation (p: f32[8]) -> f32[8] {
  %p.1 = f32[8]{0} parameter(0)
  %huge = f32[1000000]{0} broadcast(%p.1), dimensions={0}
  ROOT %all-reduce.9 = f32[8]{0} all-reduce(%p.1), to_apply=%add
}

%small_branch (p: f32[8]) -> f32[8] {
  ROOT %p.2 = f32[8]{0} parameter(0)
}

%large_branch (p: f32[8]) -> f32[8] {
  %p.3 = f32[8]{0} parameter(0)
  ROOT %permuted = f32[8]{0} collective-permute(%p.3), source_target_pairs={{0,1}}
}

%body (s: (s32[], f32[8])) -> (s32[], f32[8]) {
  %s = (s32[], f32[8]{0}) parameter(0)
  %x = f32[8]{0} get-tuple-element(%s), index=1
  %i = s32[] get-tuple-element(%s), index=0
  %all-to-all.1 = f32[8]{0} all-to-all(%x), dimensions={0}
  ROOT %t = (s32[], f32[8]{0}) tuple(%i, %all-to-all.1)
}

%condition (s: (s32[], f32[8])) -> pred[] {
  %s.1 = (s32[], f32[8]{0}) parameter(0)
  ROOT %p.4 = pred[] constant(true)
}

ENTRY %main (x: f32[8], y: bf16[64]) -> (f32[8], f32[32]) {
  %x.1 = f32[8]{0:T(128)} parameter(0), metadata={op_name="state.params"}
  %y = bf16[64]{0:T(128)(2,1)} parameter(1)
  %flag = s32[] constant(0)
  %both = (f32[8]{0}, bf16[64]{0:T(128)(2,1)S(1)}) all-reduce(%x.1, %y), to_apply=%add
  %first = f32[8]{0} get-tuple-element(%both), index=0
  %gather-start = (f32[8]{0}, f32[32]{0:T(128)}) all-gather-start(%first), dimensions={0}
  %gathered = f32[32]{0:T(128)} all-gather-done(%gather-start)
  %scatter = ((bf16[64]{0}), bf16[16]{0}, u32[]) async-start(%y), calls=%async_computation
  %scattered.1 = bf16[16]{0} async-done(%scatter), calls=%async_computation
  %fusion = f32[8]{0} fusion(%first), kind=kCustom, calls=%fused_computation
  %picked = f32[8]{0} conditional(%flag, %fusion, %fusion), branch_computations={%small_branch, \
%large_branch}
  %start = (s32[], f32[8]{0}) tuple(%flag, %picked)
  %loop = (s32[], f32[8]{0}) while(%start), condition=%condition, body=%body, \
backend_config={"known_trip_count":{"n":"5"}}
  %last = f32[8]{0} get-tuple-element(%loop), index=1
  %wide = f32[4,100]{1,0:T(8,128)} broadcast(%last), metadata={op_name="jit(step)/wide"}
  %fast = f32[4,200]{1,0:T(8,128)S(1)} broadcast(%last)
  ROOT %result = (f32[8]{0}, f32[32]{0}) tuple(%last, %gathered)
}
"""


def test_every_form_of_a_collective_counts_once():
    found = hlo.Program(TEXT).collectives()
    assert found == {
        "all-gather": hlo.Traffic(1, 0, 128, 128),
        "all-reduce": hlo.Traffic(2, 0, 32 + 128 + 32, 32 + 128 + 32),
        "all-to-all": hlo.Traffic(1, 1, 5 * 32, 5 * 32),
        "collective-permute": hlo.Traffic(1, 0, 0, 32),
        "reduce-scatter": hlo.Traffic(1, 0, 128, 128),
    }


def test_a_loop_without_an_end_counts_once_and_says_so():
    text = TEXT.replace('{"known_trip_count":{"n":"5"}}', "{}")
    assert hlo.Program(text).collectives()["all-to-all"] == hlo.Traffic(1, 1, 32, 32, True)


def test_largest_arrays_are_those_of_their_own_memory():
    found = hlo.Program(TEXT).largest_arrays(2)
    assert found[0] == (1600, "f32[4,100]", "jit(step)/wide")
    assert found[1][0] == 128


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[2,3]{1,0:T(8,128)}", 24),
        ("bf16[8]", 16),
        ("pred[5]", 5),
        ("(f32[2]{0}, /*index=1*/s8[3]{0}, u4[4])", 13),
        ("f8e4m3fn[10]", 10),
        ("c64[2]", 16),
        ("f32[]", 4),
        ("token[]", 0),
        ("f32[<=4]", 16),
    ],
)
def test_sizes_of_types(text, size):
    assert hlo.type_bytes(text) == size


# --- For TPUs that are not there: `make test-tpu-check` -------------------------------------------


@pytest.mark.tpu_check
@pytest.mark.parametrize("name", ["v2-8", "v3-8", "v3-32", "v4-32", "v5e-1", "v5p-64", "v6e-16"])
def test_topologies_have_their_devices(name):
    topology = topologies.parse(name)
    found = topologies.describe(topology)
    assert len(found) == topology.device_count
    assert {device.platform for device in found} == {"tpu"}


@pytest.mark.tpu_check
def test_a_topology_that_libtpu_lacks_is_one_line():
    with pytest.raises(UserError, match=r"v5e:3x5") as caught:
        topologies.describe(topologies.parse("v5e:3x5"))
    assert "\n" not in str(caught.value)


@pytest.mark.tpu_check
@pytest.mark.parametrize("row", ["wmt_ende:random+vanilla", "lm1b:dense", "imdb:factorized_random"])
def test_a_step_is_compiled_for_a_tpu(row):
    changes = {"model.dtype": "bfloat16", "data.batch_multiple": 16, "data.batch_tokens": 1024}
    found = compile_for.compile_for(config_of(f"{row},scale=tiny", changes | FSDP), "v5e-16")
    assert found["mesh"] == {"data": 4, "fsdp": 4, "tensor": 1}
    assert found["fits"]
    for program in found["programs"]:
        assert program["rematerialised"] == 0
        assert program["collectives"] and program["largest_arrays"] and program["flops"] > 0
        assert 0 < program["memory"]["total"] < 2**30
    assert "fits: " in fit_report.to_text(found)


@pytest.mark.tpu_check
def test_blocks_that_are_computed_again_take_less_memory():
    """On TPUs: XLA's CPU back end keeps what it was told to compute again."""
    sizes = {"model.num_layers": 3, "data.batch_tokens": 2**18, "train.loss_tokens": 4096}
    temporaries = []
    for remat in (False, True):
        config = config_of("lm1b:vanilla,scale=tiny", sizes | {"model.remat": remat})
        (program,) = compile_for.compile_for(config, "v5e-8")["programs"]
        temporaries.append(program["memory"]["temporaries"])
    assert temporaries[1] < 0.8 * temporaries[0]


@pytest.mark.tpu_check
def test_a_step_that_does_not_fit_says_what_it_needs():
    changes = {"data.batch_tokens": 2**20, "data.batch_multiple": 1, "train.loss_tokens": 0}
    found = compile_for.compile_for(config_of("wmt_ende:vanilla", changes), "v5e-1")
    assert not found["fits"]
    assert found["programs"][0]["memory"]["total"] > 15.75 * topologies.GIB
    assert any("accumulate_steps" in advice for advice in found["advice"])


@pytest.mark.tpu_check
@pytest.mark.parametrize("file", ["wmt_ende", "lm1b", "cnn_dailymail", "c4", "glue", "agnews"])
def test_paper_scale_divides_over_the_devices(file):
    """As it is over 16 and 32; over 64 with another batch_multiple, which the error names."""
    for name in ("v5e-16", "v5p-64"):
        topology = topologies.parse(name)
        with compiling_for(topologies.describe(topology)):
            experiment = make_textless_experiment(config_of(f"{file}:random"))
        assert experiment.mesh.shape["data"] == topology.device_count
    with compiling_for(topologies.describe(topologies.parse("v5e-64"))):
        with pytest.raises(UserError, match=r"data\.batch_multiple=64"):
            make_textless_experiment(config_of(f"{file}:random"))
        changes = {"data.batch_multiple": 64}
        experiment = make_textless_experiment(config_of(f"{file}:random", changes))
    assert experiment.mesh.shape["data"] == 64
