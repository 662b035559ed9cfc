"""Fixtures: eight simulated devices, a data directory that all tests share, small models."""

import os

# Before JAX starts: sharding is tested on simulated devices.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=8"
    # Compiling takes a fifth of the time, and tests do little else.
    " --xla_backend_optimization_level=0"
)

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.forkserver
import runpy
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from sweep_fakes import fake_sweep

from data import sources
from synth import configuration, evaluation, training
from synth.rundir import RunDir, RunInfo
from synth.sweeps.execution import Sweep

# A test run that was started in the background ignores interrupts; runs that are tested must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
# XLA_FLAGS of commands that are tested as users run them.
ONE_DEVICE = "--xla_backend_optimization_level=0"
# Prepared text, vocabularies and compiled programs; kept between test runs, since they are keyed
# by their contents.
CACHE = ROOT / "cache" / "tests"

jax.config.update("jax_compilation_cache_dir", str(CACHE / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
# A precaution: two programs at once that both wait for all devices could block each other.
jax.config.update("jax_cpu_enable_async_dispatch", False)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def in_root(monkeypatch) -> None:
    """In the directory that holds `configs`."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def sweep(tmp_path) -> Sweep:
    """Of three runs, with commands that do as they are told."""
    return fake_sweep(tmp_path)


@pytest.fixture(scope="session")
def data_dir() -> str:
    return str(CACHE / "data")


# --- Small runs in this process -------------------------------------------------------------------

LINES = {"train": 300, "validation": 23, "test": 23}


@pytest.fixture(scope="session")
def tiny(data_dir) -> Callable[..., RunInfo]:
    """Names a tiny run by its row, as 'lm1b:random', and changes by dotted key."""

    def make(row: str, changes: Mapping[str, Any] | None = None) -> RunInfo:
        file, _, variant = row.partition(":")
        name = f"configs/{file}.py:{variant},scale=tiny"
        config = configuration.canonical(configuration.load(f"{ROOT}/{name}"))
        overrides = {"data.data_dir": data_dir, "data.window": 512, **(changes or {})}
        config.update_from_flattened_dict(overrides)
        return RunInfo(name, overrides, config, "python train.py")

    return make


def as_it_is(example: Any, split: str) -> list[Any]:
    """Rows that are examples already."""
    return [example]


def first_lines(experiment: Any, split: str) -> sources.TextSplit:
    """The first lines of a split, some of them longer than the tiny models take."""
    dataset, data_dir = experiment.dataset, experiment.config.data.data_dir
    whole = sources.open_split(dataset, split, data_dir=data_dir)
    return sources.TextSplit(
        whole.__getitems__(range(LINES[split])),
        as_it_is,
        identity=f"first {LINES[split]} of {whole.identity}",
    )


def evaluate_one(run: RunDir, **settings: Any) -> evaluation.Scored:
    """The only thing there is to score of a run that is no mixture."""
    (scored,) = evaluation.evaluate(run, **settings)
    return scored


@contextlib.contextmanager
def cut_text() -> Iterator[None]:
    """Training and evaluation see the first lines of each split only."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (training, evaluation):
            patch.setattr(module, "open_split", first_lines)
        yield


@pytest.fixture
def short_text() -> Iterator[None]:
    with cut_text():
        yield


def _trained(info: RunInfo, path: Path) -> RunDir:
    run = RunDir(path / "run")
    with cut_text():
        training.train(info, run)
    return run


_FOUR_STEPS = {
    "train.num_steps": 4,
    "train.log_every": 2,
    "train.eval_every": 2,
    "train.checkpoint_every": 2,
}


@pytest.fixture(scope="session")
def trained_lm(tiny, tmp_path_factory) -> RunDir:
    """A language model after 4 steps on the first lines of its text."""
    return _trained(tiny("lm1b:random+vanilla", _FOUR_STEPS), tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="session")
def trained_ende(tiny, tmp_path_factory) -> RunDir:
    """A translator after 4 steps on the first lines of its text."""
    return _trained(tiny("wmt_ende:random+vanilla", _FOUR_STEPS), tmp_path_factory.mktemp("ende"))


@pytest.fixture(params=["trained_lm", "trained_ende"])
def trained(request) -> RunDir:
    """Both of them."""
    return request.getfixturevalue(request.param)


# --- Entry points in processes of their own -------------------------------------------------------


@dataclasses.dataclass
class Running:
    """A started entry point."""

    process: ForkServerProcess
    out_path: Path
    err_path: Path

    @property
    def out(self) -> str:
        return self.out_path.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self.err_path.read_text(encoding="utf-8")

    @property
    def status(self) -> int | None:
        """Exit status; minus the signal that killed it; None while it runs."""
        return self.process.exitcode

    def wait(self, seconds: float = 120) -> "Running":
        self.process.join(seconds)
        if self.status is None:
            self.process.kill()
            pytest.fail(f"still running after {seconds} s: {self.err}")
        return self


def _run_script(
    name: str,
    argv: list[str],
    directory: str,
    out_path: str,
    err_path: str,
    environment: Mapping[str, str],
) -> None:
    for number, path in ((1, out_path), (2, err_path)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666), number)
    os.chdir(directory)
    # One device, as on most machines. Eight simulated ones sometimes waited for each other for ever
    # in these forked processes (threads of XLA's pool lost in the fork? not isolated), and did not
    # in a few runs of train.py started afresh.
    os.environ["XLA_FLAGS"] = ONE_DEVICE
    os.environ.update(environment)
    sys.argv = [name, *argv]
    runpy.run_path(str(ROOT / name), run_name="__main__")


@pytest.fixture(scope="session")
def start(tmp_path_factory) -> Callable[..., Running]:
    """Starts train.py or eval.py in a new process, forked from one that has imported the library.

    Importing takes seconds, a fork does not; JAX itself starts in the new process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sacrebleu", "synth.records", "synth.report", "conftest"])
    scratch = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests'}")
        multiprocessing.forkserver.ensure_running()

    def start(
        name: str,
        *argv: str,
        directory: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> Running:
        out, err = (tempfile.mkstemp(dir=scratch)[1] for _ in range(2))
        argv = (*argv, f"--compilation_cache_dir={CACHE / 'jax'}")
        arguments = (name, list(argv), str(directory), out, err, environment or {})
        process = context.Process(target=_run_script, args=arguments, daemon=True)
        process.start()
        return Running(process, Path(out), Path(err))

    return start
