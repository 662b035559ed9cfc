"""Compiles a config's training step for a TPU topology that need not be there, and reports.

What it shows: whether the sizes divide, whether the step fits into the memory of a device, which
collectives it takes. What it does not: speed, the values, the data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from synth import hlo, sharding, topologies
from synth.compilation import Device, compiling_for, platform
from synth.configuration import Config
from synth.describe import step_operations
from synth.errors import UserError
from synth.experiment import Experiment, abstract_batches, layout, make_textless_experiment
from synth.steps import make_train_step

# The TPU compiler tries fewer ways to compute each fusion, for a tenth of the time. Operations and
# collectives are the same; memory is less by what the tried ways would take (docs/speed.md).
_EFFORT = {"exec_time_optimization_effort": -1.0}
_REMATERIALISED = "Involuntary full rematerialization"
_TOO_LARGE = "RESOURCE_EXHAUSTED"
# Both of its ways to say so: all that is needed, or the temporaries alone.
_USED = re.compile(r"Used ([\d.]+)([KMGT]) of")
_TEMPORARIES = re.compile(r"temporaries \(([\d.]+)([KMGT])\)")
_LARGEST = 5  # arrays that are listed


def compile_for(config: Config, name: str) -> dict[str, Any]:
    """`report` of the topology of that name, whose devices need not be there.

    Raises:
      UserError: for a topology that is not known, without libtpu, and for a config that does not
        fit the devices.
    """
    topology = topologies.parse(name)
    with captured_stderr():
        devices = topologies.describe(topology)
    return report(config, topology, devices)


def report(
    config: Config, topology: topologies.Topology, devices: Sequence[Device]
) -> dict[str, Any]:
    """Compiles the training step of a config for some devices.

    Of the shapes of the run's batches the longest is compiled; the shortest, too, if all targets
    are padded to one length, since it then has the most targets. Those between need less.

    Returns:
      A JSON-able dict: the devices, the mesh, what the state takes, a dict for each program
      (`_program`), whether all of them fit, and what to do if not. Bytes, operations and
      collectives are of one device.

    Raises:
      UserError: for a config that does not fit the devices.
    """
    with compiling_for(devices), _no_cache():
        experiment = make_textless_experiment(config)
        step: Any = make_train_step(experiment)
        state = experiment.abstract_state()
        programs = [
            _program(experiment, topology, length, lambda b=batch: step.lower(state, b))
            for length, batch in _outermost(abstract_batches(experiment)).items()
        ]
        arrays = _arrays(state)
        flops = _model_flops(experiment) / topology.device_count
    found = {
        "task": config.data.task,
        "variant": config.model.attention.variant,
        "topology": topology.name,
        "chips": topology.chips,
        "devices": topology.device_count,
        "device_kind": devices[0].device_kind,
        "mesh": dict(experiment.mesh.shape),
        "dtype": config.model.dtype,
        "remat": config.model.remat,
        "memory_limit": topology.memory,
        "peak_flops": topology.peak_flops,
        "model_flops": flops,
        "state": sum(array["bytes"] for array in arrays),
        "largest_in_state": arrays[:_LARGEST],
        "programs": programs,
        "lengths": list(layout(config, experiment.task).training_lengths),
        "fits": all(program["fits"] for program in programs),
    }
    return found | {"advice": [] if found["fits"] else _advice(found, config)}


def _outermost(batches: dict[int, Any]) -> dict[int, Any]:
    """The batches that need the most memory, by bucket length.

    Rows times length is the same for all. What attention takes grows with the length; with targets
    of one length, what the decoder takes grows with the rows.
    """
    shortest, longest = min(batches), max(batches)
    one_length = batches[shortest]["targets"].shape[1] == batches[longest]["targets"].shape[1] > 1
    chosen = (shortest, longest) if one_length and shortest < longest else (longest,)
    return {length: batches[length] for length in chosen}


# --- One program ----------------------------------------------------------------------------------


def _program(
    experiment: Experiment, topology: topologies.Topology, length: int, lower: Callable[[], Any]
) -> dict[str, Any]:
    """Compiles one shape; what is known of it, for one device."""
    shapes = layout(experiment.config, experiment.task).shapes(length)
    start = time.perf_counter()
    lowered = lower()
    middle = time.perf_counter()
    compiled, failure = None, ""
    with captured_stderr() as log:
        try:
            compiled = lowered.compile(_EFFORT if platform() == "tpu" else None)
        except jax.errors.JaxRuntimeError as error:
            if _TOO_LARGE not in str(error):
                raise
            failure = str(error)
    rows = shapes["targets"][0]
    program: dict[str, Any] = {
        "length": length,
        "arrays": {name: list(shape) for name, shape in shapes.items()},
        "rows_per_device": rows // sharding.batch_shards(experiment.mesh),
        "rematerialised": log.text.count(_REMATERIALISED),
        "seconds": {
            "lower": round(middle - start, 1),
            "compile": round(time.perf_counter() - middle, 1),
        },
    }
    if compiled is None:
        state = sum(array["bytes"] for array in _arrays(experiment.abstract_state()))
        memory, found = _refused(failure, state, topology.memory), {}
    else:
        memory, found = _memory(compiled, topology.memory), _compiled(compiled)
    fits = compiled is not None and memory["total"] <= memory["limit"]
    return program | {"memory": memory, "fits": fits} | found


def _compiled(compiled: Any) -> dict[str, Any]:
    """Of a compiled program: XLA's counts, collectives, the largest arrays."""
    cost = compiled.cost_analysis() or {}
    text = hlo.Program(compiled.as_text())
    return {
        # XLA counts what is in a loop once, and of the branches of a condition the dearest.
        "flops": cost.get("flops", 0.0),
        "bytes": cost.get("bytes accessed", 0.0),
        "collectives": {k: dataclasses.asdict(v) for k, v in text.collectives().items()},
        "largest_arrays": [
            {"bytes": size, "type": array, "source": source}
            for size, array, source in text.largest_arrays(_LARGEST)
        ],
    }


def _memory(compiled: Any, limit: int) -> dict[str, int]:
    found = compiled.memory_analysis()
    sizes = {
        "arguments": found.argument_size_in_bytes,
        "outputs": found.output_size_in_bytes,
        "aliased": found.alias_size_in_bytes,
        "temporaries": found.temp_size_in_bytes,
        "code": found.generated_code_size_in_bytes,
    }
    total = sum(sizes.values()) - 2 * sizes["aliased"]  # outputs that lie where arguments did
    return sizes | {"total": total, "limit": limit}


def _refused(failure: str, state: int, limit: int) -> dict[str, int]:
    """Bytes of a device that a program would take, by the compiler's refusal."""

    def size(found: re.Match) -> int:
        return int(float(found[1]) * 2 ** (10 * (1 + "KMGT".index(found[2]))))

    memory = {"arguments": state}
    if found := _TEMPORARIES.search(failure):
        memory["temporaries"] = size(found)
    used = _USED.search(failure)
    return memory | {"total": size(used) if used else sum(memory.values()), "limit": limit}


def _model_flops(experiment: Experiment) -> float:
    """Operations of a step over the longest batch, as `--describe` counts them."""
    shapes = layout(experiment.config, experiment.task)
    side = "inputs" if experiment.task.kind == "classification" else "targets"
    rows, length = shapes.shapes(shapes.max_length)[side]
    return float(step_operations(experiment.config, experiment.task) * rows * length)


def _arrays(state: Any) -> list[dict[str, Any]]:
    """The arrays of the state, the largest part on a device first."""
    arrays = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        part = leaf.sharding.shard_shape(leaf.shape)
        size = leaf.dtype.itemsize
        for axis in part:
            size *= axis
        arrays.append(
            {
                "name": jax.tree_util.keystr(path, simple=True, separator="."),
                "shape": list(leaf.shape),
                "on_a_device": list(part),
                "bytes": size,
            }
        )
    return sorted(arrays, key=lambda array: (-array["bytes"], array["name"]))


# --- What to do -----------------------------------------------------------------------------------


def _advice(report: dict[str, Any], config: Config) -> list[str]:
    """Settings that make a step smaller, with their numbers."""
    worst = max(report["programs"], key=lambda program: program["memory"]["total"])
    need, limit, state = worst["memory"]["total"], report["memory_limit"], report["state"]
    mesh, steps = report["mesh"], config.train.accumulate_steps
    shards = mesh["data"] * mesh["fsdp"]
    advice = []
    if state < limit:
        times = 2 ** max(1, ((need - state) // max(limit - state, 1)).bit_length())
        count = steps * times
        setting = f"--config.train.accumulate_steps={count}"
        if config.data.batch_multiple % (shards * count):
            setting += f" --config.data.batch_multiple={shards * count}"
        advice.append(
            f"{setting}: the same batch in {count} parts, one after another "
            f"({worst['rows_per_device']} rows a device now)"
        )
    if not report["remat"]:
        advice.append("--config.model.remat=True: blocks are computed again instead of kept")
    if shards > mesh["fsdp"]:
        fsdp = min(shards, 4 * mesh["fsdp"])
        while shards % fsdp:
            fsdp -= 1
        advice.append(
            f"--config.sharding.mesh.fsdp={fsdp}: parameters and moments, "
            f"{gib(state)} a device now, are split further"
        )
    tokens = config.data.batch_tokens
    advice.append(
        f"--config.data.batch_tokens below {tokens}, which changes what is trained; or more chips"
    )
    return advice


def gib(size: float) -> str:
    """Bytes, for people."""
    return f"{size / topologies.GIB:.2f} GiB"


# --- Surroundings ---------------------------------------------------------------------------------


class _Log:
    text = ""


@contextlib.contextmanager
def captured_stderr() -> Iterator[_Log]:
    """Keeps what libraries write to standard error, from C++ as well; shown if there is an error.

    libtpu warns that this machine is no TPU, at length; and the partitioner's warning about arrays
    that it copies whole can be had in no other way.
    """
    log = _Log()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield log
        except UserError:
            raise
        except BaseException:
            file.seek(0)
            os.write(before, file.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            log.text = file.read().decode("utf-8", "replace")


@contextlib.contextmanager
def _no_cache() -> Iterator[None]:
    """A program out of the cache of compiled programs would have no warnings and no time."""
    was = jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", was)
