"""TPU topologies by the names people write: what they consist of, and how to compile for them.

`v5e-16`, `v5litepod-16`, `v5p-64` and `v3-8` are Google's names of slices, whose number counts
TensorCores (a v5e or v6e chip has one, the others two); `v5e:4x4` gives the chips along each axis
of the interconnect. Peak rates are those that Google publishes; memory is what the compiler of
libtpu 0.0.42 lets a program have, of the published 8 (v2), 16 (v3), 32 (v4), 16 (v5e), 95 (v5p) and
32 (v6e) GB of a device.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re

import jax

from synth.compilation import Device
from synth.errors import UserError

GIB = 2**30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
    """A generation of TPUs.

    Attributes:
      name: as in the names of its slices.
      axes: of the interconnect.
      cores: TensorCores of a chip.
      devices: what JAX sees of a chip: each core of the old ones, later the chip as one.
      program_gib: memory that a program can have on a device.
      peak_tflops: a chip's bfloat16 operations, 10^12 a second.
      sizes: the numbers of TensorCores in the names of its slices.
      options: what libtpu must be told to describe it so.
    """

    name: str
    axes: int
    cores: int
    devices: int
    program_gib: float
    peak_tflops: float
    sizes: tuple[int, ...]
    options: tuple[tuple[str, str], ...] = ()


_FROM_8 = tuple(2**power for power in range(3, 13))
_ONE_CORE = (1, *(2**power for power in range(2, 9)))
CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            name="v2",
            axes=2,
            cores=2,
            devices=2,
            program_gib=7.48,
            peak_tflops=46,
            sizes=(8, 32, 128, 256, 512),
        ),
        Chip(
            name="v3",
            axes=2,
            cores=2,
            devices=2,
            program_gib=15.48,
            peak_tflops=123,
            sizes=(8, 32, 64, 128, 256, 512, 1024, 2048),
        ),
        Chip(
            name="v4",
            axes=3,
            cores=2,
            devices=1,
            program_gib=30.75,
            peak_tflops=275,
            sizes=_FROM_8,
            options=(("chip_config_name", "megacore"),),
        ),
        Chip(
            name="v5e",
            axes=2,
            cores=1,
            devices=1,
            program_gib=15.75,
            peak_tflops=197,
            sizes=_ONE_CORE,
        ),
        Chip(
            name="v5p",
            axes=3,
            cores=2,
            devices=1,
            program_gib=95.74,
            peak_tflops=459,
            sizes=_FROM_8,
        ),
        Chip(
            name="v6e",
            axes=2,
            cores=1,
            devices=1,
            program_gib=31.25,
            peak_tflops=918,
            sizes=_ONE_CORE,
        ),
    )
}
_ALIASES = {"v5litepod": "v5e"}


@dataclasses.dataclass(frozen=True)
class Topology:
    """Some chips and how they are joined.

    Attributes:
      chip: of which kind they are.
      shape: their number along each axis.
    """

    chip: Chip
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """As libtpu names it, `v5e:4x4`."""
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"

    @property
    def chips(self) -> int:
        return math.prod(self.shape)

    @property
    def device_count(self) -> int:
        """Devices as JAX counts them."""
        return self.chips * self.chip.devices

    @property
    def memory(self) -> int:
        """Bytes of a device that a program can have."""
        return int(self.chip.program_gib * GIB)

    @property
    def peak_flops(self) -> float:
        """bfloat16 operations a second of a device."""
        return self.chip.peak_tflops * 1e12 / self.chip.devices


def parse(name: str) -> Topology:
    """The topology of a name.

    Raises:
      UserError: for a name that stands for none; the message lists what there is.
    """
    found = re.fullmatch(r"(\w+)([-:])([\dx]+)", name.lower())
    kind, separator, size = found.groups() if found else ("", "", "")
    chip = CHIPS.get(_ALIASES.get(kind, kind))
    if chip is None:
        raise UserError(f"--compile_for={name} is no TPU that is known; known: {known()}")
    if separator == "-":
        sizes = ", ".join(map(str, chip.sizes))
        if not size.isdecimal() or int(size) not in chip.sizes:
            raise UserError(
                f"--compile_for={name}: slices of {chip.name} have {sizes} TensorCores; or name "
                f"their chips, as in {_standard(chip, chip.sizes[1]).name}"
            )
        return _standard(chip, int(size))
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", size) or size.count("x") != chip.axes - 1:
        raise UserError(
            f"--compile_for={name}: the chips of {chip.name} stand along {chip.axes} axes, as in "
            f"{_standard(chip, chip.sizes[1]).name}"
        )
    return Topology(chip, tuple(map(int, size.split("x"))))


def known() -> str:
    """The names, in words."""
    kinds = (f"{chip.name}-{chip.sizes[0]} to {chip.sizes[-1]}" for chip in CHIPS.values())
    return f"{', '.join(kinds)} (TensorCores), v5litepod-N for v5e-N; or chips, as in v5e:4x4"


def _standard(chip: Chip, cores: int) -> Topology:
    """The slice with that many TensorCores: as near to a cube as powers of two are."""
    power = int(math.log2(cores // chip.cores))
    shape = [2 ** ((power + axis) // chip.axes) for axis in range(chip.axes)]
    if chip.axes == 3 and power < 3:  # one tray of chips lies flat: 2x2x1
        shape.reverse()
    return Topology(chip, tuple(shape))


def describe(topology: Topology) -> list[Device]:
    """The devices, which need not be there: to compile for, not to run on.

    Raises:
      UserError: without libtpu, or where libtpu knows no such topology.
    """
    try:
        import libtpu  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise UserError(
            "--compile_for needs the TPU compiler: pip install -r requirements-tpu-check.txt"
        ) from error
    # libtpu would ask the cloud which machine this is, and be one process's alone; and JAX would
    # take the chips if there are any.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    jax.config.update("jax_platforms", "cpu")
    from jax.experimental import topologies

    shape = (*topology.shape, 1)[:3]
    host = tuple(min(2, size) for size in shape[:2])  # chips of a host, along each axis
    options = dict(topology.chip.options, chips_per_host_bounds=(*host, 1))
    try:
        found = topologies.get_topology_desc(topology.name, "tpu", **options)
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"libtpu has no topology {topology.name}: {reason}") from error
    return found.devices
