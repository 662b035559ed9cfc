"""What a launcher needs of a sweep, and what the end of a command makes of a run's state."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Sequence

from synth.clock import now
from synth.progress import say
from synth.sweeps.children import Child, Outcome
from synth.sweeps.folder import Folder
from synth.sweeps.runs import EVAL, TRAIN, Run
from synth.sweeps.states import DONE, FAILED, RUNNING, STOPPED, TRAINED, WAITING, State

_DOING = {TRAIN: "training", EVAL: "scoring"}


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What is to be done.

    Attributes:
      folder: where.
      runs: in this order.
      commands: the command of a run's phase.
      evaluate: whether runs are scored after training.
      results: directory of the run store.
    """

    folder: Folder
    runs: Sequence[Run]
    commands: Callable[[Run, str], list[str]]
    evaluate: bool = True
    results: str = "results"

    def note(self) -> None:
        """Notes in the folder, which the caller holds, what is to be done."""
        self.folder.add_runs(self.runs)
        self.folder.set_results(self.results)

    def unfinished(self) -> list[Run]:
        """Runs with something left to do."""
        return [run for run in self.runs if self.next_phase(run)]

    def next_phase(self, run: Run) -> str | None:
        """What is to be done for a run: train, eval, or None for nothing."""
        return self.folder.state(run).next_phase(self.evaluate)


def start(sweep: Sweep, run: Run, phase: str, keep: Sequence[int]) -> Child:
    """Starts a command of a run, which inherits the locks `keep`, notes it and says so."""
    log = sweep.folder.log(run)
    state = State(RUNNING, phase, host=socket.gethostname(), started=now(), log=str(log))
    sweep.folder.set_state(run, state)
    place = f"{list(sweep.runs).index(run) + 1}/{len(sweep.runs)}"
    say(f"[{place}] {run.name}: {_DOING[phase]}; log: {log}")
    child = Child(sweep.commands(run, phase), log, keep)
    try:
        sweep.folder.set_state(run, dataclasses.replace(state, pid=child.pid))
    except OSError:
        child.stop()
        child.wait()
        raise
    return child


def end(sweep: Sweep, run: Run, outcome: Outcome) -> State:
    """Notes how the command ended, says so, and returns the run's state."""
    state = ended(sweep.folder.state(run), outcome)
    sweep.folder.set_state(run, state)
    told = f": {state.reason}" if state.reason else ""
    say(f"{run.name}: {state.state}{told}")
    return state


def ended(before: State, outcome: Outcome) -> State:
    """The state of a run after a command of it."""
    state = dataclasses.replace(before, status=outcome.status, ended=now(), reason="")
    if outcome.status == 0:
        return dataclasses.replace(state, state=TRAINED if state.phase == TRAIN else DONE)
    if outcome.stopped:
        # Before it was to be scored it had been trained.
        stopped = WAITING if state.phase == TRAIN else TRAINED
        return dataclasses.replace(state, state=stopped, reason=STOPPED)
    return dataclasses.replace(state, state=FAILED, reason=outcome.reason)
