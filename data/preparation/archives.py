"""The archives a builder of TFDS reads: which they are, where they lie, which are missing."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import requests
from tensorflow_datasets.core.download import checksums, resource

from data.errors import DataError
from data.files import sha256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Archive:
    """A file that TFDS downloads, as it registered it.

    Attributes:
      name: what it must be called in the manual directory.
      size: bytes; None if TFDS has none registered.
      sha256: in hex; None if TFDS has none registered.
      url: where TFDS downloads it from.
      owner: the builder of TFDS that reads it.
      path: where it lies already; None if it must be downloaded.
    """

    name: str
    size: int | None
    sha256: str | None
    url: str
    owner: str
    path: Path | None

    def __str__(self) -> str:
        size = "size unknown" if self.size is None else f"{self.size:,} bytes"
        return f"{self.name}  {size}  sha256 {self.sha256 or 'unknown'}  {self.url}"


def archives_of(builder: Any, *, manual_dir: Path, download_dir: Path) -> list[Archive]:
    """The archives that the builder's config needs, in the order in which it asks for them."""
    # What is registered for other sets counts, too: half of WMT'14 is registered for WMT'13.
    registered = {**checksums.get_all_url_infos(), **(builder.url_infos or {})}
    # Builders of ours know the hashes of theirs themselves: TFDS registers none without a size.
    own = {archive.url: archive for archive in getattr(builder, "archives", ())}
    find = _Finder(builder.name, manual_dir, download_dir)
    return [
        find.own(own[url]) if url in own else find(url, registered.get(url))
        for url in _urls(builder, manual_dir)
    ]


def check_sizes(archives: Iterable[Archive]) -> None:
    """A `DataError` for a file of another size than TFDS registered.

    TFDS compares the hashes, but may come to a spoilt file after hours of downloads.
    """
    for archive in archives:
        if archive.path is None or archive.size is None:
            continue
        size = archive.path.stat().st_size
        if size != archive.size:
            raise DataError(
                f"{archive.path} is not the archive that TFDS registered: {size:,} bytes with "
                f"sha256 {sha256(archive.path)}, expected {archive.size:,} bytes with sha256 "
                f"{archive.sha256}. Put the right file there, or remove this one; archives of "
                f"other sets with the same name go into folders named {archive.owner} and so on"
            )


def check_reachable(missing: Sequence[Archive], manual_dir: Path) -> None:
    """A `DataError` that lists what is missing, if a server of it cannot be reached."""
    url_of = {urllib.parse.urlsplit(archive.url).netloc: archive.url for archive in missing}
    for server, url in url_of.items():
        if not _answers(url):
            raise unreachable(f"{server} cannot be reached", missing, manual_dir)


def unreachable(why: str, missing: Sequence[Archive], manual_dir: Path) -> DataError:
    """What to do without network."""
    lines = "".join(f"\n  {archive}" for archive in missing)
    message = (
        f"{why}, and these archives are missing. Download them elsewhere, put them, not unpacked "
        f"and under these names, into {manual_dir} and run the same command again:{lines}"
    )
    if len({archive.name for archive in missing}) < len(missing):
        owners = ", ".join(sorted({str(manual_dir / archive.owner) for archive in missing}))
        message += f"\nSome have the same name: put those of each set into its folder, {owners}"
    return DataError(message)


def folder_of(owner: str, manual_dir: Path) -> Path:
    """Where the archives of a builder lie: in its folder of `manual_dir` if it has one."""
    return manual_dir / owner if (manual_dir / owner).is_dir() else manual_dir


class _Finder:
    """Finds the archives of a builder where TFDS will look for them."""

    def __init__(self, owner: str, manual_dir: Path, download_dir: Path):
        self._owner = owner
        self._manual_dir = manual_dir
        self._folders = (download_dir / owner, download_dir)

    def own(self, archive: Any) -> Archive:
        """Of a builder of ours, which looks into the manual directory only."""
        path = self._manual_dir / archive.filename
        return Archive(
            name=archive.filename,
            size=archive.size,
            sha256=archive.sha256,
            url=archive.url,
            owner=self._owner,
            path=path if path.exists() else None,
        )

    def __call__(self, url: str, registered: Any) -> Archive:
        name = Path(urllib.parse.urlsplit(url).path).name
        if registered is None:
            return Archive(name=name, size=None, sha256=None, url=url, owner=self._owner, path=None)
        downloaded = _downloaded_name(url, registered.checksum)
        places = [folder / downloaded for folder in self._folders]
        if registered.filename:
            name = registered.filename
            places.insert(0, self._manual_dir / name)
        return Archive(
            name=name,
            size=int(registered.size),
            sha256=registered.checksum,
            url=url,
            owner=self._owner,
            path=next((place for place in places if place.exists()), None),
        )


def _downloaded_name(url: str, checksum: str) -> Path:
    """What TFDS calls a download below its download directory."""
    folder = resource.Resource(url=url).relative_download_dir
    return Path(folder) / resource.get_dl_fname(url, checksum)


def _urls(builder: Any, manual_dir: Path) -> list[str]:
    recorder = _Recorder(manual_dir)
    try:
        builder._split_generators(recorder)
    except DataError:
        raise
    except Exception:
        # Some builders go on to read what they downloaded, and there is nothing to read yet. All
        # of ours have asked for everything before that.
        pass
    return list(dict.fromkeys(recorder.urls))


class _Recorder:
    """Stands in for TFDS' download manager: notes what is asked for, and downloads nothing."""

    def __init__(self, manual_dir: Path):
        self.manual_dir = manual_dir
        self.urls: list[str] = []

    def download(self, urls: Any) -> Any:
        return _map(self._noted, urls)

    download_and_extract = download

    def extract(self, paths: Any) -> Any:
        return paths

    def iter_archive(self, path: Any) -> Iterator[Any]:
        del path
        return iter(())

    def _noted(self, url: Any) -> Path:
        self.urls.append(getattr(url, "url", url))
        return Path("nothing was downloaded")


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _map(function, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_map(function, value) for value in tree]
    return function(tree)


def _answers(url: str) -> bool:
    """Whether a server answers at all: some refuse to tell of a file without sending it."""
    try:
        requests.head(url, timeout=20)
    except requests.RequestException:
        return False
    return True
