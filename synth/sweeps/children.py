"""A command of a run as a process: started, watched, told to stop."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from synth.clock import now

_TAIL = 8192  # bytes of a log that hold its last line


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit status (128 and the signal's number if one killed it), and the
    last line of its standard error."""

    status: int
    line: str = ""

    @property
    def stopped(self) -> bool:
        """Whether it was asked to stop, and did not fail."""
        return self.status - 128 in (signal.SIGINT, signal.SIGTERM)

    @property
    def reason(self) -> str:
        """Why it failed, in one line."""
        number = self.status - 128
        if number in set(signal.Signals):
            hint = " (out of memory?)" if number == signal.SIGKILL else ""
            return f"killed by {signal.Signals(number).name}{hint}; {self.line}".removesuffix("; ")
        return self.line or f"exit status {self.status}, and nothing on standard error"


class Child:
    """A command that runs in a session of its own.

    The terminal's Ctrl-C does not reach it: it is told to stop once, by us, since a second signal
    would keep train.py from saving. Ours is SIGINT, since Slurm and systemd send SIGTERM to every
    process themselves. Slurm's warnings (SIGUSR1, SIGUSR2) it ignores: they would end it at once.
    """

    def __init__(self, argv: Sequence[str], log: Path, keep: Sequence[int] = ()):
        """Starts `argv`.

        Args:
          argv: the command.
          log: standard error is added to it; standard output to the file beside it, `.out`.
          keep: file descriptors that it inherits.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("ab") as errors, log.with_suffix(".out").open("ab") as output:
            errors.write(f"--- {now()} {subprocess.list2cmdline(argv)}\n".encode())
            errors.flush()
            self._start = errors.tell()
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", 'trap "" USR1 USR2; exec "$@"', "sh", *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                pass_fds=tuple(keep),
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def poll(self) -> Outcome | None:
        """How it ended, or None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        return Outcome(128 - status if status < 0 else status, self._last_line())

    def stop(self) -> None:
        """Tells it to save and leave; told twice, it leaves at once."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends it."""
        self._process.kill()

    def wait(self) -> None:
        """Until it has ended."""
        self._process.wait()

    def _last_line(self) -> str:
        with self._log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(self._start, end - _TAIL))
            text = file.read().decode("utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines()]
        return next((line for line in reversed(lines) if line), "")


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Collects the signals that ask to stop; the loss of a terminal, too, unless under nohup."""
    received: list[int] = []
    before: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
