"""Archives that the builders here read: found, checked, and streamed without unpacking them.

TFDS unpacks with TensorFlow; Python's tarfile does without. Nothing is written to disk, so a name
in an archive that leads out of a folder leads nowhere.
"""

import dataclasses
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import requests
import tensorflow_datasets.public_api as tfds

from data.errors import DataError
from data.files import sha256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Archive:
    """A published .tgz file.

    Attributes:
      url: where it is published.
      filename: what it must be called in the manual directory.
      sha256: of the file, in hex.
      size: bytes; None where the publisher does not say.
    """

    url: str
    filename: str
    sha256: str
    size: int | None = None

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size:,} bytes, "
        return f"{self.url} ({size}sha256 {self.sha256})"


def manual_dir(dl_manager: Any) -> Path:
    """Where the user puts archives; it need not exist."""
    # The public property refuses a folder that is missing or empty, and names no file.
    return Path(getattr(dl_manager, "_manual_dir", None) or dl_manager.manual_dir)


def placed(archive: Archive, dl_manager: Any) -> Path:
    """The archive in the manual directory; a `DataError` says what to put where."""
    folder = manual_dir(dl_manager)
    path = folder / archive.filename
    if not path.is_file():
        raise DataError(
            f"{path} is missing: download {archive} and put it, not unpacked, into {folder}"
        )
    return path


def placed_or_downloaded(archive: Archive, dl_manager: Any) -> Path:
    """The archive in the manual directory if it lies there, else downloaded by TFDS."""
    path = manual_dir(dl_manager) / archive.filename
    if path.is_file():
        return path
    try:
        return Path(os.fspath(dl_manager.download(archive.url)))
    except (requests.RequestException, tfds.download.DownloadError) as error:
        raise DataError(
            f"{archive} cannot be downloaded ({error}): download it elsewhere and put it, not "
            f"unpacked, into {path.parent} as {archive.filename}"
        ) from error


def check(path: Path, archive: Archive) -> None:
    """A `DataError` if the file is not the published one."""
    if (found := sha256(path)) != archive.sha256:
        raise DataError(
            f"{path} is not the archive published as {archive.filename}: it has sha256 {found}, "
            f"expected {archive.sha256}. Delete it, and download {archive.url} again"
        )


def members(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Regular files of a .tgz in its order: name and lines without their ends.

    The lines of one are to be read before the next is asked for.

    Raises:
      DataError: the archive is damaged; it names the member.
    """
    name = "its beginning"
    try:
        with tarfile.open(path, "r|gz") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if member.isreg() and (file := tar.extractfile(member)) is not None:
                    yield name, _lines(path, name, file)
    except _DAMAGED as error:
        raise _damaged(path, name, error) from error


def lines(path: Path, wanted: Sequence[str]) -> dict[str, list[bytes]]:
    """The lines, without their ends, of some members: name -> lines, in the order asked for.

    Raises:
      DataError: a member is missing or empty, or the archive is damaged.
    """
    found: dict[str, list[bytes]] = {name: [] for name in wanted}
    missing = set(wanted)
    for name, member in members(path):
        if name in missing:
            missing.remove(name)
            found[name] = list(member)
            if not found[name]:
                raise DataError(f"{path}: {name} is empty")
    if missing:
        raise DataError(f"{path} lacks {', '.join(sorted(missing))}")
    return found


# What tarfile raises, and what comes through from its decompression.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error)


def _lines(path: Path, name: str, file: IO[bytes]) -> Iterator[bytes]:
    try:
        for line in file:
            yield line.rstrip(b"\r\n")
    except _DAMAGED as error:
        raise _damaged(path, name, error) from error


def _damaged(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{path} is damaged at {name} ({error}): delete it and get it again")
