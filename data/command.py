"""What the commands of this package share: flags, errors in plain words, a task's configs."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from data.errors import DataError


class Flags(argparse.ArgumentParser):
    """Command-line flags; a mistake is a `DataError`, not argparse's usage and exit."""

    def __init__(self, **kwargs: Any):
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs
        )

    def error(self, message: str) -> NoReturn:
        raise DataError(f"{message}; see python -m {self.prog} --help")


class Stopped(KeyboardInterrupt):
    """The process was asked to end.

    Attributes:
      signal: number of the signal.
      note: what the user should know: what is kept, how to go on.
    """

    def __init__(self, number: int, note: str = ""):
        super().__init__()
        self.signal = number
        self.note = note


def run(name: str, main: Callable[[], int | None]) -> NoReturn:
    """Runs `main` and ends the process with its status.

    A user's mistake (`DataError`) is told in plain words on standard error, status 2; SIGINT and
    SIGTERM become `Stopped`, and end it with one line and status 128 + signal.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        _end(main() or 0)
    except DataError as error:
        _end(2, f"{name}: {error}")
    except Stopped as stopped:
        _end(128 + stopped.signal, f"{name}: stopped{stopped.note and '; '}{stopped.note}")
    except BrokenPipeError:  # `| head`: nobody reads on, and flushing would fail again
        os._exit(128 + signal.SIGPIPE)
    except OSError as error:  # a full disk, a read-only directory
        _end(2, f"{name}: {error.strerror or error}: {error.filename or ''}")


def config_of(task: str, scale: str) -> Any:
    """The config a task is trained with at a scale; a `DataError` if there is none."""
    try:
        module = importlib.import_module(f"configs.{task}")
    except ModuleNotFoundError as error:
        if error.name != f"configs.{task}":
            raise
        raise DataError(f"there is no config configs/{task}.py") from error
    try:
        return module.get_config(f"vanilla,scale={scale}")
    except ValueError as error:
        raise DataError(str(error)) from error


def _stop(number: int, frame: Any) -> NoReturn:
    del frame
    raise Stopped(number)


def _end(status: int, message: str = "") -> NoReturn:
    if message:
        print(message, file=sys.stderr)
    if all(t.daemon or t is threading.main_thread() for t in threading.enumerate()):
        sys.exit(status)
    # Threads of TFDS go on with a download or an archive: they would keep the process for hours.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
