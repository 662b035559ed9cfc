"""The launcher of one machine: runs one after another, or some at a time."""

from __future__ import annotations

import contextlib
import time

from synth.locks import Held
from synth.progress import say
from synth.sweeps.children import noted_signals
from synth.sweeps.execution import Sweep, end, start
from synth.sweeps.runs import Run
from synth.sweeps.states import STOPPED

_POLL = 0.2  # seconds between two looks at the commands


def launch(sweep: Sweep, jobs: int) -> int:
    """Carries out what is left of a sweep, going on past failures; returns the exit status.

    Finished runs are passed over, partial ones gone on with, failed ones tried again. Signals are
    passed on to the commands, which save and leave.

    Args:
      sweep: what to do.
      jobs: runs at a time.

    Returns:
      0 if all runs are finished, 1 if not, 128 and the signal's number if one stopped the sweep.

    Raises:
      Held: if another sweep works in the folder.
    """
    with sweep.folder.hold() as lock, noted_signals() as signals:
        sweep.note()
        _work(sweep, jobs, lock, signals)
        if signals:
            say(STOPPED)
            return 128 + signals[0]
        return 1 if sweep.unfinished() else 0


def _work(sweep: Sweep, jobs: int, lock: int, signals: list[int]) -> None:
    waiting, working, passed_on = sweep.unfinished(), [], 0
    try:
        while working or (waiting and not signals):
            while waiting and len(working) < jobs and not signals:
                with contextlib.suppress(_Taken):
                    working.append(_Working(sweep, waiting.pop(0), lock))
            for _ in signals[passed_on:]:
                passed_on += 1
                for worker in working:
                    worker.child.stop()
            working = [worker for worker in working if not worker.is_over(bool(signals))]
            time.sleep(_POLL)
    finally:
        for worker in working:  # left by an error, as of a full disk
            worker.abandon()


class _Taken(Exception):
    """The run is carried out by another process."""


class _Working:
    """A run that is carried out: one command, then the next."""

    def __init__(self, sweep: Sweep, run: Run, lock: int):
        self._sweep, self._run = sweep, run
        with contextlib.ExitStack() as stack:
            try:
                run_lock = stack.enter_context(sweep.folder.hold_run(run))
            except Held as held:
                say(f"passed over: {held}")
                raise _Taken from held
            self._inherited = lock, run_lock
            # Another process may have finished it since the list was made.
            if not (phase := sweep.next_phase(run)):
                raise _Taken
            self.child = start(sweep, run, phase, self._inherited)
            self._stack = stack.pop_all()

    def is_over(self, stopping: bool) -> bool:
        """Whether nothing is left to do; starts the next command if there is one."""
        outcome = self.child.poll()
        if outcome is None:
            return False
        state = end(self._sweep, self._run, outcome)
        phase = None if outcome.status or stopping else state.next_phase(self._sweep.evaluate)
        if phase:
            self.child = start(self._sweep, self._run, phase, self._inherited)
            return False
        self._stack.close()
        return True

    def abandon(self) -> None:
        """Stops the command and waits for it."""
        self.child.stop()
        self.child.wait()
        self._stack.close()
