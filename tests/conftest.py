"""Fixtures: eight simulated devices, a data directory that all tests share, small models."""

import os

# Before JAX starts: sharding is tested on simulated devices.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

from pathlib import Path

import jax
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
# Prepared text, vocabularies and compiled programs; kept between test runs, since they are keyed
# by their contents.
CACHE = ROOT / "cache" / "tests"

jax.config.update("jax_compilation_cache_dir", str(CACHE / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_dir() -> str:
    return str(CACHE / "data")
