"""The device mesh and where each array lives on it.

Parameters carry logical axis names (`nnx.Param(..., axes=("embed", "heads", None))`); the rules of
the config map those to the axes of the mesh, (data, fsdp, tensor). Partitioning is left to the
compiler (axis type Auto): "pjit" is today's `jax.jit` with a `NamedSharding`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from synth import compilation
from synth.errors import UserError

MESH_AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")


def make_mesh(*, data: int, fsdp: int, tensor: int) -> Mesh:
    """A mesh over all devices (`compilation.devices`).

    Args:
      data: devices that each hold another part of the batch; -1 means all that are left.
      fsdp: as `data`, and parameters are split over them, too.
      tensor: devices that split heads, feed-forward and vocabulary.

    Raises:
      UserError: if the product is not the number of devices.
    """
    devices = compilation.devices()
    count = len(devices)
    if min(fsdp, tensor) < 1 or (data < 1 and data != -1):
        raise UserError(
            f"mesh sizes must be at least 1 (data may be -1); got {data=}, {fsdp=}, {tensor=}"
        )
    fitting = math.gcd(tensor, count)
    fitting = f"tensor={fitting}, sharding.mesh.fsdp={math.gcd(fsdp, count // fitting)}"
    if data == -1:
        if count % (fsdp * tensor):
            raise UserError(
                f"mesh {fsdp=} x {tensor=} needs a multiple of {fsdp * tensor} devices, but there "
                f"are {count}; these fit: sharding.mesh.{fitting}"
            )
        data = count // (fsdp * tensor)
    if data * fsdp * tensor != count:
        raise UserError(
            f"mesh {data=} x {fsdp=} x {tensor=} needs {data * fsdp * tensor} devices, but there "
            f"are {count}; set sharding.mesh.data=-1 to take all, with sharding.mesh.{fitting}"
        )
    sizes, types = (data, fsdp, tensor), (AxisType.Auto,) * 3
    return jax.make_mesh(sizes, MESH_AXES, axis_types=types, devices=devices)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Batches are split along their first axis."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated(mesh: Mesh) -> NamedSharding:
    """The same on every device."""
    return NamedSharding(mesh, PartitionSpec())


def state_shardings(state: Any, mesh: Mesh, rules: Mapping[str, str]) -> Any:
    """A tree like `state` with a NamedSharding at every array.

    Args:
      state: a tree of NNX variables and arrays (parameters, optimizer moments); arrays that are no
        variable, and variables without axes, are replicated.
      mesh: the mesh.
      rules: logical axis -> mesh axis, '' for none.

    Raises:
      UserError: if a rule names an unknown mesh axis or an axis size is not divisible.
    """
    for logical, axis in rules.items():
        if axis and axis not in MESH_AXES:
            raise UserError(
                f"sharding.rules.{logical}={axis!r} is no mesh axis; known: {', '.join(MESH_AXES)}"
            )

    def place(variable):
        if not isinstance(variable, nnx.Variable):
            return replicated(mesh)
        axes = variable.get_metadata().get("axes") or ()
        spec = [rules.get(axis, "") or None if axis else None for axis in axes]
        named = [axis for axis in spec if axis]
        if len(set(named)) < len(named):
            raise UserError(
                f"sharding.rules put {axes} on the mesh axes {named}: an array can be split over a "
                "mesh axis only once"
            )
        _check_divisible(variable.shape, axes, spec, mesh)
        return variable.replace(NamedSharding(mesh, PartitionSpec(*spec)))

    return jax.tree.map(place, state, is_leaf=lambda x: isinstance(x, nnx.Variable))


def _check_divisible(shape, axes, spec, mesh: Mesh) -> None:
    for size, logical, axis in zip(shape, axes, spec, strict=False):
        if axis and size % mesh.shape[axis]:
            raise UserError(
                f"the {logical!r} axis of size {size} cannot be split over {mesh.shape[axis]} "
                f"devices of mesh axis {axis!r}; try sharding.mesh.{axis}="
                f"{math.gcd(size, mesh.shape[axis])} with sharding.mesh.data=-1, or "
                f"sharding.rules.{logical}=''"
            )


def batch_shards(mesh: Mesh) -> int:
    """Over how many devices the rows of a batch are split."""
    return mesh.shape["data"] * mesh.shape["fsdp"]


def check_batch(batch_multiple: int, accumulate_steps: int, mesh: Mesh) -> None:
    """Raises UserError unless every batch splits evenly over microbatches and devices."""
    shards = batch_shards(mesh)
    if batch_multiple % (shards * accumulate_steps):
        raise UserError(
            f"data.batch_multiple={batch_multiple} must be a multiple of mesh data x fsdp "
            f"({shards}) x train.accumulate_steps ({accumulate_steps}); try "
            f"data.batch_multiple={shards * accumulate_steps}"
        )


@functools.cache
def row_block(mesh: Mesh) -> tuple[int, int]:
    """(index, count): a batch has `count` equal blocks of rows, and this process feeds `index`.

    As many blocks as processes, unless `tensor` reaches over several of them: these feed the same.
    Where the devices of a process do not lie side by side in the mesh, the rows of a batch come in
    another order than with one process.

    Raises:
      UserError: if the mesh gives the processes unequal or overlapping parts.
    """
    shards, rows_of = batch_shards(mesh), {}
    for device, (rows,) in batch_sharding(mesh).devices_indices_map((shards,)).items():
        rows_of.setdefault(device.process_index, set()).add(rows.start or 0)
    blocks = sorted({tuple(sorted(rows)) for rows in rows_of.values()})
    if sum(map(len, blocks)) != shards or len({len(block) for block in blocks}) != 1:
        sizes = " x ".join(f"{name}={size}" for name, size in mesh.shape.items())
        raise UserError(
            f"the mesh {sizes} gives {len(rows_of)} processes unequal parts of a batch; choose "
            "sharding.mesh.tensor such that it divides the devices of a process, or is a multiple"
        )
    return blocks.index(tuple(sorted(rows_of[jax.process_index()]))), len(blocks)


def to_devices(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """This process's rows of a global batch (`row_block`) -> global arrays split over the mesh."""
    sharding, (_, blocks) = batch_sharding(mesh), row_block(mesh)
    return {
        name: jax.make_array_from_process_local_data(
            sharding, rows, (len(rows) * blocks, *rows.shape[1:])
        )
        for name, rows in batch.items()
    }
