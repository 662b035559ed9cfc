"""Names of TPUs as people write them."""

import pytest

from synth.errors import UserError
from synth.topologies import CHIPS, GIB, parse


@pytest.mark.parametrize(
    ("name", "found", "chips", "devices"),
    [
        ("v5e:4x4", "v5e:4x4", 16, 16),
        ("v5e-16", "v5e:4x4", 16, 16),
        ("v5litepod-16", "v5e:4x4", 16, 16),
        ("V5LITEPOD-8", "v5e:2x4", 8, 8),
        ("v5e-1", "v5e:1x1", 1, 1),
        ("v6e-16", "v6e:4x4", 16, 16),
        ("v6e-256", "v6e:16x16", 256, 256),
        # Of these the number counts TensorCores, two a chip; of the old ones each is a device.
        ("v2-8", "v2:2x2", 4, 8),
        ("v3-8", "v3:2x2", 4, 8),
        ("v3-32", "v3:4x4", 16, 32),
        ("v4-8", "v4:2x2x1", 4, 4),
        ("v4-32", "v4:2x2x4", 16, 16),
        ("v5p-8", "v5p:2x2x1", 4, 4),
        ("v5p-64", "v5p:2x4x4", 32, 32),
        ("v5p-128", "v5p:4x4x4", 64, 64),
        ("v5p:2x2x2", "v5p:2x2x2", 8, 8),
    ],
)
def test_names(name, found, chips, devices):
    topology = parse(name)
    assert (topology.name, topology.chips, topology.device_count) == (found, chips, devices)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v9-3", ["v9-3", "v2-8 to 512", "v3-8 to 2048", "v5e-1 to 256", "v5p-8", "v5e:4x4"]),
        ("", ["known: v2-8"]),
        ("v5e", ["known: v2-8"]),
        ("v5e16", ["known: v2-8"]),
        ("v5e-16-2", ["known: v2-8"]),
        ("v5e-3", ["v5e have 1, 4, 8, 16", "v5e:2x2"]),
        ("v5p-4", ["v5p have 8, 16", "v5p:2x2x2"]),
        ("v5e:16", ["2 axes", "v5e:2x2"]),
        ("v5p:4x4", ["3 axes", "v5p:2x2x2"]),
        ("v5e:4x0", ["2 axes"]),
        ("v5e:4x", ["2 axes"]),
    ],
)
def test_a_name_that_stands_for_none_says_what_there_is(name, words):
    with pytest.raises(UserError) as caught:
        parse(name)
    assert all(word in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.name)
def test_every_named_slice_has_its_chips(chip):
    for size in chip.sizes:
        topology = parse(f"{chip.name}-{size}")
        assert topology.chips * chip.cores == size
        assert parse(topology.name) == topology


def test_a_device_of_an_old_chip_has_half_of_it():
    old, new = parse("v3-8"), parse("v5e-16")
    assert 15 * GIB < old.memory < new.memory == 15.75 * GIB < 16 * GIB
    assert old.peak_flops == 61.5e12
    assert new.peak_flops == 197e12
