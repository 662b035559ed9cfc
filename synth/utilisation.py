"""How much of a device's peak a training run uses, where the peak is known."""

from __future__ import annotations

import jax

from data.tasks import Task
from synth import topologies
from synth.configuration import Config
from synth.describe import step_operations

# What JAX calls a device -> what its makers call it.
_TPUS = {
    "TPU v2": "v2",
    "TPU v3": "v3",
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
}
# Dense bfloat16 (V100 and T4: float16) operations of data sheets, 10^12 a second, by a word of the
# device's name.
_GPUS = {"V100": 125, "T4": 65, "A100": 312, "L4": 121, "H100": 989, "H200": 989, "B200": 2250}


def peak_flops(device_kind: str) -> float | None:
    """Operations a second of a device in half precision, or None if they are not known here."""
    if (chip := topologies.CHIPS.get(_TPUS.get(device_kind, ""))) is not None:
        return chip.peak_tflops * 1e12 / chip.devices
    for word, tflops in _GPUS.items():
        if word in device_kind.replace("-", " ").split():
            return tflops * 1e12
    return None


def figures(config: Config, task: Task, tokens_per_second: float) -> dict[str, float]:
    """Target tokens/s of a device, and the model's operations over the peak if that is known.

    Operations are those of matrix products by formula (`synth.describe`): what is computed twice
    (`model.remat`) or on padding counts once, or not at all.
    """
    devices = jax.device_count()
    found = {"tokens_per_second_per_device": tokens_per_second / devices}
    if peak := peak_flops(jax.devices()[0].device_kind):
        flops = step_operations(config, task) * tokens_per_second
        found["utilisation"] = flops / (devices * peak)
    return found
