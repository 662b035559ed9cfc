"""Where the seconds of a run go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping


class Ledger:
    """Adds up wall-clock seconds by part; every moment belongs to one part.

    Attributes:
      part: the present one.
      since: when it was entered, as of `time.monotonic()`.
    """

    def __init__(self, part: str, since: float):
        """Begins in `part` at `since`."""
        self.part, self.since = part, since
        self._spent: dict[str, float] = {}

    def add(self, spent: Mapping[str, float]) -> None:
        """Adds what was spent otherwise: by earlier starts of a run."""
        for part, seconds in spent.items():
            self._spent[part] = self._spent.get(part, 0.0) + seconds

    @contextlib.contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """What happens inside is `part`, and not the part around it."""
        outer = self.part
        self.switch(part)
        try:
            yield
        finally:
            self.switch(outer)

    def switch(self, part: str) -> None:
        """From now on it is `part`."""
        now = time.monotonic()
        self.add({self.part: now - self.since})
        self.part, self.since = part, now

    def seconds(self) -> dict[str, float]:
        """Seconds of each part until now."""
        self.switch(self.part)
        return dict(self._spent)


def summary(seconds: Mapping[str, float], useful: str) -> str:
    """One line: the parts, the longest first, and the share of the `useful` one."""
    parts = sorted(seconds.items(), key=lambda item: -item[1])
    told = ", ".join(f"{part} {spent:,.1f} s" for part, spent in parts if spent >= 0.05)
    whole = max(sum(seconds.values()), 1e-9)
    return f"{told}; {seconds.get(useful, 0.0) / whole:.0%} of {whole:,.1f} s in {useful}"
