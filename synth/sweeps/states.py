"""Where a run stands, as a small file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from synth.errors import UserError
from synth.files import write_text
from synth.sweeps.runs import EVAL, TRAIN

# What is told of a run or a sweep that did not come to its end.
STOPPED = "stopped; the same command goes on"
CUT_OFF = "cut off; the same command goes on"
WAITING, RUNNING, TRAINED, DONE, FAILED = "waiting", "running", "trained", "done", "failed"


@dataclasses.dataclass(frozen=True)
class State:
    """What is known of a run.

    Attributes:
      state: waiting, running, trained (to be scored), done or failed.
      phase: which command runs, failed or was stopped: train or eval.
      reason: of a failure or a stop: the last line of its standard error.
      status: exit status of the last command, 128 and its signal if one killed it.
      host, pid: where the command runs, or ran.
      started, ended: of the last command, UTC.
      log: file of its standard error.
    """

    state: str = WAITING
    phase: str = TRAIN
    reason: str = ""
    status: int | None = None
    host: str = ""
    pid: int | None = None
    started: str = ""
    ended: str = ""
    log: str = ""

    def next_phase(self, evaluate: bool) -> str | None:
        """What is to be done: train, eval, or None for nothing."""
        if self.state == DONE:
            return None
        if self.state == TRAINED or self.phase == EVAL:
            return EVAL if evaluate else None
        return TRAIN


def read(path: Path) -> State:
    """What the file says; a run without one waits.

    Raises:
      UserError: if it cannot be read.
    """
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return State(**values)
    except FileNotFoundError:
        return State()
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}); remove it to begin anew") from error


def write(path: Path, state: State) -> None:
    """Replaces the file in one step: a full disk leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(dataclasses.asdict(state), indent=2) + "\n")
