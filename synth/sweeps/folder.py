"""The folder of a sweep, and what it tells about its runs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synth import locks
from synth.errors import UserError
from synth.files import write_text
from synth.progress import say
from synth.rundir import RunDir
from synth.sweeps import states
from synth.sweeps.runs import Run
from synth.sweeps.states import CUT_OFF, DONE, RUNNING, TRAINED, WAITING, State


@dataclasses.dataclass(frozen=True)
class Folder:
    """Paths and files of a sweep; see `synth.sweeps`."""

    path: Path

    def workdir(self, run: Run) -> Path:
        """The run directory."""
        return self.path / run.name

    def log(self, run: Run) -> Path:
        """Standard error of the run's commands; standard output lies beside it (`.out`)."""
        return self.path / "logs" / f"{run.name}.log"

    def hold(self) -> contextlib.AbstractContextManager[int]:
        """The lock of the whole sweep; see `locks.hold`."""
        return locks.hold(self.path / "lock", f"--folder={self.path}")

    def hold_run(self, run: Run) -> contextlib.AbstractContextManager[int]:
        """The lock of a run, held while one of its commands runs."""
        return locks.hold(self._lock(run), run.name)

    def state(self, run: Run) -> State:
        """Where the run stands, judged by its files: a command that died is not running."""
        state = states.read(self._state(run))
        if state.state == RUNNING and locks.holder(self._lock(run)) is None:
            return dataclasses.replace(state, state=WAITING, reason=CUT_OFF)
        if state.state in (TRAINED, DONE) and not RunDir(self.workdir(run)).exists():
            return State(reason="its run directory is gone")
        return state

    def set_state(self, run: Run, state: State) -> None:
        """Writes where the run stands."""
        states.write(self._state(run), state)

    def runs(self) -> list[Run]:
        """The runs that were ever asked for in this folder.

        Raises:
          UserError: if there is no sweep here, or its file cannot be read.
        """
        if not (self.path / "runs.json").exists():
            raise UserError(
                f"--folder={self.path} holds no sweep (it has no runs.json); give the folder of "
                "one, or begin one here: --table=NAME, or --configs=TASKS --variants=ROWS"
            )
        try:
            return [Run.from_dict(values) for values in self._read("runs.json")]
        except (KeyError, TypeError) as error:
            raise UserError(f"{self.path / 'runs.json'} cannot be read: {error!r}") from error

    def add_runs(self, runs: Sequence[Run]) -> None:
        """Notes runs that are asked for."""
        known = self.runs() if (self.path / "runs.json").exists() else []
        merged = {run.name: dataclasses.asdict(run) for run in [*known, *runs]}
        write_text(self.path / "runs.json", json.dumps(list(merged.values()), indent=2) + "\n")

    def results(self) -> str:
        """The directory of the run store that the sweep was given last; '' if it never was."""
        known = self._read("settings.json") if (self.path / "settings.json").exists() else {}
        return known.get("results", "")

    def set_results(self, results: str) -> None:
        """Notes the directory of the run store, and says so if it is another than before."""
        before = self.results()
        if before and Path(before).resolve() != Path(results).resolve():
            say(f"figures go to --results={results}, and no longer to {before}")
        if before != results:
            text = json.dumps({"results": results}, indent=2)
            write_text(self.path / "settings.json", text + "\n")

    def jobs(self) -> dict[str, str]:
        """Name of a run -> the Slurm job that was submitted for it last."""
        return self._read("jobs.json") if (self.path / "jobs.json").exists() else {}

    def add_jobs(self, jobs: dict[str, str]) -> None:
        """Notes submitted jobs."""
        write_text(self.path / "jobs.json", json.dumps(self.jobs() | jobs, indent=2) + "\n")

    def _read(self, name: str) -> Any:
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{path} cannot be read: {error}") from error

    def _state(self, run: Run) -> Path:
        return self.path / "state" / f"{run.name}.json"

    def _lock(self, run: Run) -> Path:
        return self.path / "state" / f"{run.name}.lock"
