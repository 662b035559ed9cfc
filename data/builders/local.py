"""Prepares a TFDS set that needs no download: quietly, in a folder of its own, moved in one step.

Processes that prepare at once do not meet, and one that is killed leaves no half a set behind:
what it had begun is removed by the next preparation on the same host.

Importing this module imports tensorflow_datasets, which is slow: import it inside functions.
"""

import contextlib
import io
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow_datasets.public_api as tfds
from absl import logging

from data.errors import DataError
from data.processes import is_alive


def prepare(
    make_builder: Callable[[str], Any],
    relative: Path,
    *,
    data_dir: str | os.PathLike[str],
    what: str,
) -> Path:
    """The folder of the prepared set; the first call makes it.

    Args:
      make_builder: makes the builder, given the folder to write below.
      relative: where that builder writes, relative to the folder: name, config, version.
      data_dir: where prepared sets are kept; made if it is missing.
      what: the set in words, for the line on standard error that tells of the wait.
    """
    data_dir = Path(data_dir)
    if not (data_dir / relative).exists():
        print(f"preparing {what} under {data_dir}, once", file=sys.stderr)
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot make data_dir={data_dir}: {error.strerror}") from error
        _remove_left(data_dir)
        prefix = f"{_prefix()}{os.getpid()}."
        with tempfile.TemporaryDirectory(dir=data_dir, prefix=prefix) as scratch:
            _write(make_builder, scratch)
            _move(Path(scratch) / relative, data_dir / relative)
    return data_dir / relative


def _write(make_builder: Callable[[str], Any], folder: str) -> None:
    tfds.disable_progress_bar()
    with quiet():
        make_builder(folder).download_and_prepare(file_format="array_record")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps TFDS from telling of downloads and custom configs: neither concerns anyone here."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.rename(target)
    except OSError:
        # Another process was first: its copy has the same content.
        if not target.exists():
            raise


# --- What killed processes left -------------------------------------------------------------------


def _prefix() -> str:
    """Begins the name of every scratch folder of this host; the process and a dot follow."""
    host = re.sub(r"[^\w.-]", "_", socket.gethostname())
    return f"preparing.{host}."


def _remove_left(data_dir: Path) -> None:
    """Removes scratch folders of this host whose process is gone.

    Those of other hosts stay: whether their processes live cannot be seen from here.
    """
    name = re.compile(rf"{re.escape(_prefix())}(\d+)\.[^.]+")
    for path in data_dir.glob("preparing.*"):
        match = name.fullmatch(path.name)
        if match and not is_alive(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)
