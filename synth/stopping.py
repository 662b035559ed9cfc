"""Signals that end a run after the step in progress, in all of its processes at the same one."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental import multihost_utils

# JAX agrees on a number that is asked for next, once in the life of a process, and may do so before
# the first question: numbers of questions serve, those of steps would miss a signal at the start.
_questions = itertools.count()


class Stop:
    """Whether the run has been asked to stop.

    Attributes:
      signal: the signal that asked for it, or None.
    """

    def __init__(self):
        self.signal: int | None = None

    def requested(self) -> bool:
        """Asked before each step or batch, by every process: all get the same answer.

        A signal to one of several processes is known to all before they agree on a step, which
        may be a few questions later.
        """
        if jax.process_count() == 1:
            return self.signal is not None
        if multihost_utils.reached_preemption_sync_point(next(_questions)):
            self.signal = self.signal or signal.SIGTERM
            return True
        return False


@contextlib.contextmanager
def stop_signals() -> Iterator[Stop]:
    """Notes SIGINT and SIGTERM, so that the step in progress ends and is saved.

    A second signal is not waited for: it does what it does without us.
    """
    stop = Stop()
    # Of several processes, SIGTERM is left to JAX, which tells the others.
    handled = [signal.SIGINT] if jax.process_count() > 1 else [signal.SIGINT, signal.SIGTERM]
    before: dict[int, Any] = {}

    def note(number, frame):
        stop.signal = number
        # Not print: the signal may have come in the middle of one.
        os.write(2, b"\nstopping after this step; once more to stop at once\n")
        signal.signal(number, before[number])
        if jax.process_count() > 1:
            os.kill(os.getpid(), signal.SIGTERM)

    for number in handled:
        before[number] = signal.signal(number, note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
