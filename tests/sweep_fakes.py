"""Commands that stand in for train.py and eval.py in tests of sweeps, and do as they are told."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from synth.sweeps.execution import Sweep
from synth.sweeps.folder import Folder
from synth.sweeps.runs import Run

_CHILD = Path(__file__).with_name("sweep_child.py")


@dataclasses.dataclass(frozen=True)
class FakeCommands:
    """Commands of a sweep, which obey the files in `control`."""

    control: Path
    folder: Path
    host: int = 0

    def __call__(self, run: Run, phase: str) -> list[str]:
        what = [phase, str(self.host), str(self.control), str(self.folder / run.name)]
        return [sys.executable, "-S", str(_CHILD), *what]

    def tell(self, run: Run, phase: str, how: str, host: int | None = None) -> None:
        """What the run's command is to do."""
        name = f"{phase}-{run.name}" + ("" if host is None else f"-{host}")
        (self.control / name).write_text(how)

    def calls(self) -> list[tuple[str, ...]]:
        """(phase, name, host) of all that were started."""
        path = self.control / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(line.split()) for line in lines]


RUNS = [Run("lm1b", variant, "tiny", 0) for variant in ("random", "dense", "vanilla")]


def fake_sweep(directory: Path, evaluate: bool = True, host: int = 0) -> Sweep:
    """A sweep of three runs below a directory; `sweep.commands` is `FakeCommands`."""
    control = directory / "control"
    control.mkdir(exist_ok=True)
    folder = directory / "sweep"
    return Sweep(Folder(folder), RUNS, FakeCommands(control, folder, host), evaluate)


@contextlib.contextmanager
def processes(driver: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python program, with arguments, in processes that are ended at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", driver, *map(str, arguments)]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.kill()
            one.communicate()


def until(found, seconds: float = 20) -> None:
    """Waits until `found()` is true."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def states(sweep: Sweep) -> list[str]:
    """The states of its runs, in order."""
    return [sweep.folder.state(run).state for run in sweep.runs]
