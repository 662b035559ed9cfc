"""What a run tells the terminal: one line per logging step, with rate and time left."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Iterator

_speaks = True


def say(text: str) -> None:
    """One line on standard error, where all progress goes; results go to standard output."""
    if _speaks:
        print(text, file=sys.stderr, flush=True)


def speak(speaks: bool) -> None:
    """Whether this process says anything: of many processes one does."""
    global _speaks
    _speaks = speaks


class Progress:
    """Rate and time left of a training run, not counting evaluation and checkpoints."""

    def __init__(self, step: int, last: int, seconds: float = 0.0):
        """Starts at `step` of `last`, after `seconds` that earlier starts of the run took."""
        self._last = last
        self._mark = time.monotonic()
        self._start = self._mark - seconds
        self._mark_step = step
        self._seconds_per_step: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds spent in training steps, over all starts of the run."""
        return time.monotonic() - self._start

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves what happens inside out of the rate."""
        start = time.monotonic()
        yield
        spent = time.monotonic() - start
        self._start += spent
        self._mark += spent

    def report(self, step: int, loss: float, tokens: float, steps: float) -> float:
        """Prints a line and returns target tokens per second since the last one.

        Args:
          step: updates done.
          loss: training loss per token, nats.
          tokens: target tokens of the last `steps` steps.
          steps: steps that `tokens` counts.
        """
        now = time.monotonic()
        seconds = max(now - self._mark, 1e-9)
        done = step - self._mark_step
        rate = tokens / max(steps, 1) * done / seconds
        self._mark, self._mark_step = now, step
        # The first interval holds the compilation; later ones are averaged.
        recent, old = seconds / max(done, 1), self._seconds_per_step
        self._seconds_per_step = recent if old is None else min(recent, 0.7 * old + 0.3 * recent)
        left = datetime.timedelta(seconds=round((self._last - step) * self._seconds_per_step))
        say(f"step {step}/{self._last}  loss {loss:.4f}  {rate:,.0f} tokens/s  {left} left")
        return rate
