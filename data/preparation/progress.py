"""What is seen of a preparation that may take hours: TFDS' bars, or a line now and then."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow_datasets.public_api as tfds

SECONDS = 60.0  # between two lines


@contextlib.contextmanager
def shown(folders: Sequence[Path]) -> Iterator[None]:
    """Bars on a terminal; elsewhere how much the folders hold, every minute."""
    if sys.stderr.isatty():
        tfds.enable_progress_bar()
        yield
        return
    tfds.disable_progress_bar()
    ended = threading.Event()
    thread = threading.Thread(target=_tell, args=(folders, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder, 0 if there is none."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # removed meanwhile
                total += os.stat(os.path.join(path, name)).st_size
    return total


def _tell(folders: Sequence[Path], ended: threading.Event) -> None:
    start = time.monotonic()
    while not ended.wait(SECONDS):
        minutes = (time.monotonic() - start) / 60
        sizes = ", ".join(f"{size_of(folder) / 1e9:.2f} GB in {folder}" for folder in folders)
        print(f"  {minutes:.0f} min: {sizes}", file=sys.stderr, flush=True)
