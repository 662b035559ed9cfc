"""The processes of a run: how they find each other, take turns and agree.

A pod runs the same command on each of its hosts; JAX makes one program of them. What is written
into the run directory, which all processes share, is written by process 0 alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from data.errors import DataError
from synth import progress
from synth.clusters import slurm_tasks
from synth.errors import UserError

_T = TypeVar("_T")
_MESSAGE_BYTES = 16_384
_GRACE = 30  # seconds by which our own words come before JAX ends the process


def start(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    *,
    timeout: int,
    heartbeat_timeout: int,
) -> None:
    """Joins the other processes, if the flags or the environment tell of any; before JAX is used.

    Without flags the processes of Slurm, Open MPI and of a TPU pod are found by JAX.

    Args:
      coordinator_address: HOST:PORT of process 0.
      num_processes: of the run.
      process_id: of this one, from 0.
      timeout: seconds to wait for the others.
      heartbeat_timeout: seconds without a sign of life after which a process counts as lost.

    Raises:
      UserError: if the flags do not fit together, or the others cannot be found. A time-out ends
        the process with status 2: JAX waits in a call that cannot be left.
    """
    given = {
        "coordinator_address": coordinator_address,
        "num_processes": num_processes,
        "process_id": process_id,
    }
    _check(given)
    if coordinator_address is None and not cluster(os.environ):
        return
    whom = f"process {process_id} of {num_processes}" if coordinator_address else "this process"
    where = coordinator_address or f"found by {cluster(os.environ)}"
    progress.say(f"{whom} on {socket.gethostname()} waits for the others ({where})")
    alarm = threading.Timer(timeout, _give_up, [whom, where, timeout])
    alarm.daemon = True
    alarm.start()
    try:
        with _interruptible():
            jax.distributed.initialize(
                **given,
                initialization_timeout=timeout + _GRACE,
                heartbeat_timeout_seconds=heartbeat_timeout,
                shutdown_timeout_seconds=1800,  # the first process writes tables while others wait
            )
    except (ValueError, RuntimeError, OSError) as error:
        raise UserError(
            f"the processes of the run cannot be found: {str(error).splitlines()[0]}. Name them "
            "with --coordinator_address=HOST:PORT --num_processes=N --process_id=I"
        ) from error
    finally:
        alarm.cancel()
    devices = jax.local_devices()
    if jax.process_count() > 1:
        progress.say(
            f"process {jax.process_index()} of {jax.process_count()} on {socket.gethostname()}: "
            f"{len(devices)} of {jax.device_count()} devices ({devices[0].device_kind})"
        )
        progress.speak(is_first())


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the process: Python's own handler does not come to run while JAX waits."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # ignored, or another program's
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _check(given: Mapping[str, Any]) -> None:
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if 0 < len(missing) < len(given):
        raise UserError(f"a process that is named by flags needs {' and '.join(missing)}, too")
    if missing:
        return
    count, index = given["num_processes"], given["process_id"]
    if count < 1:
        raise UserError(f"--num_processes={count} must be at least 1")
    if not 0 <= index < count:
        raise UserError(
            f"--process_id={index} must be from 0 to {count - 1}, below --num_processes={count}"
        )
    host, _, port = given["coordinator_address"].rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(
            f"--coordinator_address={given['coordinator_address']} must be HOST:PORT of process 0"
        )


def cluster(environment: Mapping[str, str]) -> str:
    """What tells of other processes, in a word: '' if nothing does."""
    if slurm_tasks(environment) > 1:
        return "Slurm"
    if int(environment.get("OMPI_COMM_WORLD_SIZE", 1)) > 1:
        return "Open MPI"
    platforms = environment.get("JAX_PLATFORMS", "")
    chips = any(Path(device).exists() for device in ("/dev/accel0", "/dev/vfio/0"))
    if chips and importlib.util.find_spec("libtpu") and (not platforms or "tpu" in platforms):
        return "the TPU's metadata"
    return ""


def _give_up(whom: str, where: str, timeout: int) -> None:
    print(
        f"{whom} has waited {timeout} s for the others ({where}). Was the same command started on "
        "every host, each with another --process_id, and can all of them reach that address? "
        "--join_timeout=SECONDS waits longer",
        file=sys.stderr,
        flush=True,
    )
    os._exit(2)


def is_first() -> bool:
    """Whether this is the process that writes files and speaks."""
    return jax.process_index() == 0


def in_turns(work: Callable[[], _T]) -> _T:
    """Does `work` in process 0 and, when it is done there, in all others.

    What the first one makes (prepared text, a vocabulary) the others find on shared storage; where
    storage is not shared each makes its own.

    Raises:
      UserError: in every process if `work` raises a UserError, DataError or OSError in one.
    """
    if jax.process_count() == 1:
        return work()
    result: Any = None
    for turn in (True, False):
        error: Exception | None = None
        if is_first() is turn:
            try:
                result = work()
            except (UserError, DataError, OSError) as caught:
                error = caught
        _agree(error)
    return result


def in_first(work: Callable[[], object]) -> None:
    """Does `work` in process 0 alone.

    A command that has joined no others does it without asking JAX, which would take the devices.

    Raises:
      UserError: in every process if `work` raises a UserError, DataError or OSError.
    """
    if jax.distributed.is_initialized():
        in_turns(lambda: work() if is_first() else None)
    else:
        work()


def _agree(error: Exception | None) -> None:
    """Raises UserError in every process if one of them has met an error."""
    for index, message in enumerate(_texts(str(error) if error else "")):
        if message:
            raise UserError(str(error) if error else f"process {index}: {message}") from error


def check_equal(values: Mapping[str, Any]) -> None:
    """Raises UserError unless every process has the same values; the message names what differs."""
    if jax.process_count() == 1:
        return
    first, *others = (json.loads(text) for text in _texts(json.dumps(dict(values))))
    for index, other in enumerate(others, start=1):
        for name in sorted(first.keys() | other.keys()):
            if first.get(name) != other.get(name):
                raise UserError(
                    f"the processes do not run the same thing: {name} is {first.get(name)!r} in "
                    f"process 0 and {other.get(name)!r} in process {index}"
                )


def _texts(own: str) -> list[str]:
    """A text of each process, on every process."""
    padded = own.encode()[:_MESSAGE_BYTES].ljust(_MESSAGE_BYTES, b"\0")
    rows = multihost_utils.process_allgather(np.frombuffer(padded, np.uint8))
    return [bytes(row[row > 0]).decode(errors="replace") for row in rows]


def loss_of_peer(error: BaseException) -> str | None:
    """Words about a process that is gone, if that is what a runtime error is about; else None.

    The runtimes have no exception of their own for it.
    """
    if jax.process_count() == 1 or isinstance(error, UserError):
        return None
    signs = ("Gloo", "NCCL", "UNAVAILABLE", "oordination service", "heartbeat", "Barrier")
    if not any(sign in str(error) for sign in signs):
        return None
    return (
        f"process {jax.process_index()} has lost another process of the run, whose own output says "
        f"why ({str(error).splitlines()[0]:.200}). The same command, given to all hosts again, "
        "goes on from the last checkpoint"
    )
