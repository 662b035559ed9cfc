"""The launcher of a pod: every host walks the same list, and runs the same command at a time.

train.py and eval.py are programs of many processes, which find one another; here is what makes the
hosts start them together. Host 0 decides what is run and keeps the states, the others follow.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from synth.errors import UserError
from synth.locks import Held
from synth.progress import say
from synth.sweeps.children import Child, Outcome, noted_signals
from synth.sweeps.execution import Sweep, end, start
from synth.sweeps.hosts import Hosts
from synth.sweeps.meeting import Meeting, Report
from synth.sweeps.runs import Run
from synth.sweeps.states import STOPPED

_KILL_AFTER = 60.0  # seconds for a command that is told to stop


def launch(sweep: Sweep, hosts: Hosts, timeout: float, poll: float = 1.0) -> int:
    """Carries out what is left of a sweep on all hosts of a pod; called on each of them.

    Args:
      sweep: what to do, the same on every host.
      hosts: which host this is.
      timeout: seconds without a sign of life after which a host is missing.
      poll: seconds between two looks.

    Returns:
      As `local.launch`.

    Raises:
      Held: on host 0, if another sweep works in the folder.
      UserError: if hosts are missing.
    """
    with noted_signals() as signals:
        walk = Walk(sweep, hosts, timeout, poll, signals)
        if hosts.process_id:
            return walk.follow()
        with sweep.folder.hold() as lock:
            sweep.note()
            return walk.lead([lock])


class Walk:
    """The walk of one host along the list.

    Attributes:
      child: the command that runs, or ran last.
    """

    def __init__(self, sweep: Sweep, hosts: Hosts, timeout: float, poll: float, signals: list[int]):
        self._sweep, self._signals = sweep, signals
        self._meeting = Meeting(sweep.folder.path / "pod", hosts, timeout, poll)
        self._number = 0  # of the next decision
        self.child: Child | None = None

    def lead(self, locks: Sequence[int] = ()) -> int:
        """Host 0: decides; returns the exit status of all."""
        farewell: dict[str, Any] = {"end": 2, "reason": "an error; see there"}
        try:
            self._meeting.open()
            for run in self._sweep.unfinished():
                if self._is_stopping():
                    break
                try:
                    with self._sweep.folder.hold_run(run) as lock:
                        self._carry_out(run, [*locks, lock])
                except Held as held:
                    say(f"passed over: {held}")
            farewell = {"end": self._status(), "reason": ""}
        except UserError as error:
            farewell["reason"] = str(error)
            raise
        finally:
            self._meeting.decide(self._number, farewell)
        return farewell["end"]

    def follow(self) -> int:
        """Another host: does what host 0 decides; returns the exit status of all."""
        self._meeting.open()
        runs = {run.name: run for run in self._sweep.runs}
        while "end" not in (decision := self._meeting.decision(self._number)):
            if not (run := runs.get(decision["run"])):
                raise UserError(
                    f"host 0 runs {decision['run']}: give it the same flags as this one"
                )
            log = self._sweep.folder.log(run)
            log = log.with_name(f"{run.name}.host{self._meeting.hosts.process_id}.log")
            self.child = Child(self._sweep.commands(run, decision["phase"]), log)
            self._meeting.report(self._number, self._watch(self.child, self._number))
            self._number += 1
        if decision["reason"]:
            say(f"host 0 has stopped: {decision['reason']}")
        return decision["end"]

    def stop(self) -> None:
        """Stops the command on all hosts, and waits until this one's has ended."""
        self._meeting.ask_to_stop()
        if self.child:
            self.child.stop()
            self.child.wait()

    def _carry_out(self, run: Run, locks: Sequence[int]) -> None:
        phase = self._sweep.next_phase(run)
        while phase:
            number, self._number = self._number, self._number + 1
            self._meeting.decide(number, {"run": run.name, "phase": phase})
            self.child = start(self._sweep, run, phase, locks)
            self._meeting.report(number, self._watch(self.child, number))
            outcome = together(self._meeting.all_reports(number))
            state = end(self._sweep, run, outcome)
            stopping = outcome.status or self._is_stopping()
            phase = None if stopping else state.next_phase(self._sweep.evaluate)

    def _watch(self, child: Child, number: int) -> Report:
        """Waits for the command; passes on signals, and ends it if it failed on another host."""
        passed_on, told, failed, ended = 0, False, None, None
        while (outcome := child.poll()) is None:
            self._meeting.beat()
            for _ in self._signals[passed_on:]:
                passed_on, told = passed_on + 1, True
                child.stop()
                self._meeting.ask_to_stop()
            if not told and self._meeting.is_to_stop():
                child.stop()
                told = True
            if failed is None and _has_failed(self._meeting.reports(number)):
                failed = time.monotonic()
            # Its peers may notice by themselves, and say more than we could.
            if failed and not ended and time.monotonic() - failed > self._meeting.timeout:
                child.stop()
                ended = time.monotonic()
            if ended and time.monotonic() - ended > _KILL_AFTER:
                child.kill()
            time.sleep(self._meeting.poll)
        return Report(outcome, ended_by_us=ended is not None)

    def _is_stopping(self) -> bool:
        return bool(self._signals) or self._meeting.is_to_stop()

    def _status(self) -> int:
        if self._is_stopping():
            say(STOPPED)
            return 128 + (self._signals[0] if self._signals else signal.SIGTERM)
        return 1 if self._sweep.unfinished() else 0


def _has_failed(reports: Mapping[int, Report]) -> bool:
    return any(r.outcome.status and not r.outcome.stopped for r in reports.values())


def together(reports: Mapping[int, Report]) -> Outcome:
    """What the ends of one command on all hosts come to.

    A stop counts before a failure: when one host leaves, others may fail for want of it.
    """
    found = {host: r.outcome for host, r in sorted(reports.items()) if not r.ended_by_us}
    stopped = [outcome for outcome in found.values() if outcome.stopped]
    failed = [
        Outcome(o.status, f"host {host}: {o.line or 'nothing on standard error'}")
        for host, o in found.items()
        if o.status and len(reports) > 1
    ]
    return next(iter([*stopped, *failed, *found.values()]))
