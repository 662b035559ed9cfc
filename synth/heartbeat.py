"""Signs of life of the processes of a run, in files, and words when one of them is missed.

JAX ends all processes when one has not been heard of for `--heartbeat_timeout`, and says its number
only; and it waits for ever for one that lives and is stuck, in reading its data for instance. Here
every process writes now and then what it is doing into the run directory, and the first one says
which of them is silent, or keeps the others waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from synth.files import read_text, write_text

Doing = Callable[[], dict[str, Any]]


class Heartbeat:
    """A thread that writes the own sign of life and, in process 0, reads those of the others."""

    def __init__(
        self,
        folder: Path,
        doing: Doing,
        *,
        process: int,
        processes: int,
        say: Callable[[str], None],
        every: float = 10.0,
        silent_after: float = 90.0,
        stuck_after: float = 600.0,
    ):
        """Starts at once.

        Args:
          folder: shared by all processes.
          doing: gives `step` and `part`, what this process is doing at which step, and `seconds`,
            for how long.
          process, processes: the number of this process, and how many there are.
          say: called with a line about a process that is missed.
          every: seconds between two signs.
          silent_after: seconds without one after which a process is missed.
          stuck_after: seconds in one part of one step after which what all are doing is said.
        """
        self._folder, self._doing, self._say = folder, doing, say
        self._process, self._processes = process, processes
        self._every, self._silent_after, self._stuck_after = every, silent_after, stuck_after
        self._beats = 0
        self._heard: dict[int, tuple[dict[str, Any], float]] = {}  # the last sign, and when
        self._told: set[tuple[int, int]] = set()
        self._stop = threading.Event()
        folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join(timeout=5.0)  # storage may hang

    def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError):  # a full disk stops the run, with better words
                self._beat()
                if self._process == 0:
                    self._look()
            if self._stop.wait(self._every):
                return

    def _beat(self) -> None:
        self._beats += 1
        sign = {"beat": self._beats, "host": socket.gethostname(), "pid": os.getpid()}
        write_text(self._path(self._process), json.dumps(sign | self._doing()) + "\n")

    def _look(self) -> None:
        now, stuck = time.monotonic(), False
        for process in range(self._processes):
            sign = self._read(process)
            old, heard = self._heard.get(process, (None, now))
            if sign is not None and sign != old:
                self._heard[process] = (sign, now)
            elif now - heard > self._silent_after:
                self._tell(process, now - heard)
            else:
                self._heard.setdefault(process, (sign or {}, now))
            stuck = stuck or (sign or {}).get("seconds", 0.0) > self._stuck_after
        if stuck:
            self._tell_all()

    def _tell(self, process: int, silent: float) -> None:
        sign, _ = self._heard[process]
        key = (process, sign.get("beat", 0))
        if key not in self._told:
            self._told.add(key)
            self._say(
                f"process {process} has given no sign of life for {silent:.0f} s: {_told(sign)}"
            )

    def _tell_all(self) -> None:
        """Once for each step: what all processes are doing."""
        signs = {process: sign for process, (sign, _) in self._heard.items()}
        key = (-1, min(sign.get("step", 0) for sign in signs.values()))
        if key not in self._told:
            self._told.add(key)
            lines = [f"  process {process}: {_told(sign)}" for process, sign in signs.items()]
            self._say("\n".join(["no step has ended for long; what the processes do:", *lines]))

    def _read(self, process: int) -> dict[str, Any] | None:
        try:
            return json.loads(read_text(self._path(process)))
        except (OSError, ValueError):
            return None

    def _path(self, process: int) -> Path:
        return self._folder / f"{process}.json"


def _told(sign: dict[str, Any]) -> str:
    if not sign:
        return "it has not begun"
    return (
        f"{sign['host']}, pid {sign['pid']}, in '{sign['part']}' after step {sign['step']} for "
        f"{sign['seconds']:.0f} s"
    )
