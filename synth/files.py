"""Files of a run, on a file system or in a bucket of Google Cloud Storage (`gs://`).

Paths of buckets are `etils.epath` paths, which Orbax takes as well; they have pathlib's methods. An
object of a bucket is written at once or not at all, and cannot be added to.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from synth.errors import UserError

_BUCKET = "gs://"


def locate(name: str | os.PathLike[str]) -> Path:
    """The path of that name.

    Raises:
      UserError: for an address of another kind, and for a bucket that cannot be reached.
    """
    text = os.fspath(name)
    if text.startswith(_BUCKET):
        bucket = text.removeprefix(_BUCKET).split("/")[0]
        if not bucket:
            raise UserError(f"{text}: name the bucket, gs://BUCKET/NAME")
        _reach(bucket)
        return _bucket_path(text)
    if "://" in text:
        raise UserError(f"{text}: name a directory, or a place in a bucket (gs://BUCKET/NAME)")
    return Path(text)


def in_bucket(path: Path) -> bool:
    """Whether a path that `locate` gave is in a bucket, where only some of pathlib works."""
    return not isinstance(path, Path)


def local(flag: str, text: str) -> Path:
    """The path of a flag that cannot be in a bucket; a UserError if it is."""
    if "://" in text:
        raise UserError(f"{flag}={text} must be on a file system: mount the bucket (docs/pod.md)")
    return Path(text)


def _bucket_path(text: str) -> Path:
    from etils import epath

    return cast(Path, epath.Path(text))


@functools.cache
def _reach(bucket: str) -> None:
    """Raises UserError unless the bucket is there, before anything is written."""
    # Of gcsfs: other processes write there, too; and no question about a kind of bucket that is
    # rare, which it asks and warns about at each start.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import gcsfs  # noqa: F401 # pyright: ignore[reportMissingImports] (fsspec finds it by name)
        from fsspec.config import conf
    except ImportError as error:
        raise UserError(
            f"{_BUCKET}{bucket} needs gcsfs: pip install -r requirements-bucket.txt, or mount the "
            "bucket (docs/pod.md)"
        ) from error
    conf.setdefault("gcs", {"use_listings_cache": False})
    # It logs the tracebacks of what comes as an exception, too.
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
    try:
        found, reason = _bucket_path(f"{_BUCKET}{bucket}").exists(), "there is none of that name"
    except Exception as error:  # of several libraries, with no base of their own
        found, reason = False, str(error).strip().partition("\n")[0]
    if not found:
        raise UserError(
            f"the bucket {_BUCKET}{bucket} cannot be reached: {reason}. Is its name right, and may "
            "this machine read it (gcloud auth application-default login)?"
        )


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file so that a crash leaves the old or the new one, never a part.

    An OSError names `path`, whatever the file that is written first is called.
    """
    with _errors_of(path):
        if in_bucket(path):
            path.write_bytes(content)
            return
        draft = _draft(path)
        try:
            draft.write_bytes(content)
            draft.replace(path)
        finally:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                draft.unlink()


def check_writable(path: Path) -> None:
    """Makes the directory of a file that will be written; OSError if `write_bytes` would fail."""
    with _errors_of(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with contextlib.suppress(FileExistsError):  # by a file: told below
            path.parent.mkdir(parents=True, exist_ok=True)
        # Trying is the only way to know: root has all rights where nothing can be made, as in /proc
        if path.exists():
            path.open("ab").close()
        draft = _draft(path)
        draft.touch()
        draft.unlink()


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")


@contextlib.contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Makes an OSError one of that path, and what goes wrong with a bucket an OSError."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # words of their own
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except Exception as error:  # of several libraries, with no base of their own
        if not in_bucket(path):
            raise
        raise OSError(errno.EIO, str(error).partition("\n")[0], str(path)) from error


def write_text(path: Path, text: str) -> None:
    """`write_bytes` in UTF-8."""
    write_bytes(path, text.encode())


def read_text(path: Path) -> str:
    """Contents of a file in UTF-8."""
    with _errors_of(path):
        return path.read_text(encoding="utf-8")


def append_text(path: Path, text: str) -> None:
    """Adds UTF-8 text to the end of a file, which need not exist."""
    if not in_bucket(path):
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        return
    with contextlib.suppress(FileNotFoundError):
        text = read_text(path) + text
    write_text(path, text)


def remove_tree(path: Path) -> None:
    """Removes a directory with all that is in it, if it is there and that can be done."""
    if not in_bucket(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError), _errors_of(path):
        cast(Any, path).rmtree()


@contextlib.contextmanager
def written_here(folder: Path) -> Iterator[Path]:
    """A directory of a file system, for what cannot write elsewhere; at the end `folder` has it."""
    if not in_bucket(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)
        for path in Path(scratch).rglob("*"):
            if path.is_file():
                target = folder / path.relative_to(scratch).as_posix()
                write_bytes(target, path.read_bytes())
