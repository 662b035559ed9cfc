"""A profile of some steps of a run, for TensorBoard's profiler or Perfetto."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from synth.errors import UserError
from synth.files import written_here


def parse_steps(bounds: Sequence[str]) -> range:
    """The steps from the first to the last of two numbers; none if there are no bounds.

    Raises:
      UserError: for anything else.
    """
    if not bounds:
        return range(0)
    if len(bounds) != 2 or not all(bound.isdecimal() for bound in bounds):
        raise UserError(f"--profile_steps={','.join(bounds)} must be FIRST,LAST, as 100,110")
    first, last = map(int, bounds)
    if last < first:
        raise UserError(f"--profile_steps={first},{last} holds no step")
    return range(first, last + 1)


class Profile:
    """Starts and stops the profiler; of several processes each has a folder of its own in it."""

    def __init__(self, folder: Path, steps: range):
        self._folder, self._steps = folder, steps
        self._written: contextlib.ExitStack | None = None  # while it runs

    def at(self, step: int, state: Any) -> None:
        """Called before each step, with the state that it starts from."""
        if not self._written and step in self._steps:
            own = (
                self._folder / str(jax.process_index()) if jax.process_count() > 1 else self._folder
            )
            self._written = contextlib.ExitStack()
            jax.profiler.start_trace(str(self._written.enter_context(written_here(own))))
            self._written.callback(jax.profiler.stop_trace)  # before what is written is copied
        elif self._written and step == self._steps.stop:
            jax.block_until_ready(state)  # the device is behind
            self.__exit__()

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, *_) -> None:
        if self._written:
            self._written.close()
            self._written = None
