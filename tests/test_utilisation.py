"""How much of a device's peak a run uses."""

import jax
import pytest

from data import tasks
from synth import describe, utilisation


@pytest.mark.parametrize(
    ("kind", "peak"),
    [
        ("TPU v3", 61.5e12),  # a core
        ("TPU v4", 275e12),
        ("TPU v5 lite", 197e12),
        ("TPU v5p", 459e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA L40S", None),
        ("cpu", None),
    ],
)
def test_peaks(kind, peak):
    assert utilisation.peak_flops(kind) == peak


def test_utilisation_is_operations_over_the_peak(tiny, monkeypatch):
    config = tiny("wmt_ende:random").config
    task = tasks.get_task("wmt_ende")
    count = jax.device_count()
    assert utilisation.figures(config, task, 80.0) == {"tokens_per_second_per_device": 80.0 / count}
    monkeypatch.setattr(utilisation, "peak_flops", lambda kind: 1e6)
    per_token = describe.describe(config)["operations_per_token"]["training_step"]
    found = utilisation.figures(config, task, 80.0)["utilisation"]
    assert found == pytest.approx(80.0 * per_token / (count * 1e6))
