"""Locks that a dead process cannot keep, and that say who holds them.

A lock is `flock` on a file, which the kernel gives back when its holder dies, however it dies.
Commands that a sweep starts inherit it: a train.py that outlives a killed sweep keeps the lock
until it ends. On storage of several machines flock is as good as the file system makes it (NFS
passes it on, a mounted bucket does not), so the holder also rewrites the file every few seconds,
and a new holder that finds the name of another machine in it first watches whether that goes on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data.processes import is_alive
from synth.clock import now
from synth.errors import UserError
from synth.progress import say

BEAT = 5.0  # seconds between two signs of life
_WATCH = 4 * BEAT  # to see one, also through the cache of a network's file system
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # of file systems without flock
_PATIENCE = 1.0  # a reader that looks whether the lock is held has it for a moment


class Held(UserError):
    """The lock is another process's; says whose."""


@contextlib.contextmanager
def hold(path: Path, what: str) -> Iterator[int]:
    """Holds the lock, and yields its file descriptor for commands to inherit.

    Args:
      path: of the lock; its directory is made.
      what: is locked, for messages.

    Raises:
      Held: if another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _try_lock(file):
            raise Held(f"{what} is in use by {_who(_read(file))}")
        _watch(file, what)
        over = threading.Event()
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": now()}
        with contextlib.suppress(OSError):  # a full disk: the lock holds without it
            _write(file, holder)
        beats = threading.Thread(target=_beat, args=(file, holder, over), daemon=True)
        beats.start()
        try:
            yield file
        finally:
            over.set()
            beats.join()
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def holder(path: Path) -> str | None:
    """Who holds the lock, in words; None if nobody does."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        found = _read(file)
        elsewhere = found.get("host") not in (None, socket.gethostname())
        recent = abs(time.time() - os.fstat(file).st_mtime) < _WATCH
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _who(found)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        return _who(found) if elsewhere and recent else None
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return True  # the sign of life is all there is


def _watch(file: int, what: str) -> None:
    """Raises Held if the file, which another machine wrote, goes on changing."""
    before = _read(file)
    if before.get("host") in (None, socket.gethostname()):
        return
    say(f"{what} was in use by {_who(before)}; looking for {_WATCH:.0f} s whether it still is")
    end = time.monotonic() + _WATCH
    while time.monotonic() < end:
        time.sleep(BEAT / 10)
        if _read(file) != before:
            raise Held(f"{what} is in use by {_who(_read(file) or before)}")


def _beat(file: int, holder: dict[str, Any], over: threading.Event) -> None:
    beats = 0
    while not over.wait(BEAT):
        beats += 1
        with contextlib.suppress(OSError):  # a full disk: the lock holds without it
            _write(file, holder | {"beats": beats})


def _write(file: int, holder: dict[str, Any]) -> None:
    text = json.dumps(holder).encode()
    os.pwrite(file, text, 0)
    os.ftruncate(file, len(text))
    os.fsync(file)  # a mounted bucket shows it to others only then


def _read(file: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(file, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _who(found: dict[str, Any]) -> str:
    if not found:
        return "another process"
    host, pid, since = (found.get(key, "?") for key in ("host", "pid", "since"))
    alive = host != socket.gethostname() or not isinstance(pid, int) or is_alive(pid)
    gone = "" if alive else " (it is gone, but a command that it started still runs)"
    return f"process {pid} on {host} since {since}{gone}"
